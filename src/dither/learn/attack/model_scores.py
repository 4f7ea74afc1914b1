"""What a model says about a record: the loss of its label, and its log-odds.

A model is whatever gives probabilities: a scikit-learn classifier, a torch module that gives logits, or a function. All
become one table, of the *logs* of probabilities, since an overfitted model is so sure that 1 - p is lost in rounding
long before the probabilities of the other labels are. With p the probability of the true label, the loss is -log p, and
the log-odds log p / (1 - p) are taken from the sum of the other labels. They are about normal over models, which a loss
is not.

**What goes wrong.** A table of logits that is taken for probabilities: rows that do not sum to 1 are refused. A label
is private: an error never quotes it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_list, real_array
from dither.errors import DomainError, ParameterError, require

Numbers = NDArray[np.float64]
Records = tuple[Any, Any]  # inputs and labels

_SURE = 36.7  # log-odds: beyond, one minus a probability is a rounding error
_ROWS = 1 << 12


def losses(model: Any, inputs: Any, labels: Any) -> Numbers:
    """The cross-entropy of each record: minus the log of the probability that the model gives to its label.

    A model is a scikit-learn classifier (`predict_proba`), a `torch.nn.Module` that gives logits (or a `DPSGD` that
    trained one), or any function from inputs to a table of probabilities. Labels are the classifier's own, or else
    columns of the table.

    >>> losses(lambda inputs: np.full((len(inputs), 4), 0.25), np.zeros((2, 1)), [0, 3]).round(3).tolist()
    [1.386, 1.386]
    """
    table, at = _logs(model, inputs, labels)
    return -np.take_along_axis(table, at[:, None], axis=1)[:, 0]


def log_odds(model: Any, inputs: Any, labels: Any) -> Numbers:
    """The log-odds log p / (1 - p) of each record's label; beyond 36.7, where floats end, they are cut off.

    >>> log_odds(lambda inputs: np.array([[0.75, 0.25], [1.0, 0.0]]), np.zeros((2, 1)), [0, 0]).round(2).tolist()
    [1.1, 36.7]
    """
    table, at = _logs(model, inputs, labels)
    return odds(table, at)


def odds(table: Numbers, at: NDArray[np.intp]) -> Numbers:
    """From logs of probabilities. Those of the other labels are added up: 1 - p would be 0 long before they are."""
    own = np.take_along_axis(table, at[..., None], axis=-1)
    rest = np.where(np.arange(table.shape[-1]) == at[..., None], -np.inf, table)
    most = np.maximum(rest.max(axis=-1, keepdims=True), -1e300)
    total = most + np.log(np.maximum(np.exp(rest - most).sum(axis=-1, keepdims=True), 1e-300))
    return np.clip((own - total)[..., 0], -_SURE, _SURE)


def _logs(model: Any, inputs: Any, labels: Any) -> tuple[Numbers, NDArray[np.intp]]:
    """Logs of the probabilities of all labels, and the column of each record's own."""
    inner = getattr(model, "model", None)  # of a DPSGD that was fitted
    model = inner if _is_module(inner) else model
    if _is_module(model):
        table = _of_module(model, inputs)
    elif hasattr(model, "predict_proba"):
        table = _of_probabilities(model.predict_proba(inputs))
    elif callable(model):
        table = _of_probabilities(model(inputs))
    else:
        raise ParameterError(
            "a model must be a classifier with predict_proba, a torch module that gives logits, or a function from "
            "inputs to probabilities; for anything else give losses"
        )
    classes = getattr(model, "classes_", None)
    at = columns(labels, table.shape[1]) if classes is None else _places(labels, np.asarray(classes))
    if len(at) != len(table):
        raise ParameterError(f"there are {len(at):,} labels for {len(table):,} records")
    return table, at


def _is_module(model: Any) -> bool:
    """Whether this is a torch module, without importing torch for anything else."""
    return any(kind.__module__.startswith("torch.nn") for kind in type(model).__mro__)


def _of_module(model: Any, inputs: Any) -> Numbers:
    torch = require("torch", "learn")
    rows = inputs if isinstance(inputs, torch.Tensor) else torch.as_tensor(np.asarray(inputs))
    parameter = next(iter(model.parameters()), None)
    if parameter is not None:
        rows = rows.to(device=parameter.device, dtype=parameter.dtype if rows.is_floating_point() else None)
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            parts = [model(rows[start : start + _ROWS]).double().cpu().numpy() for start in range(0, len(rows), _ROWS)]
    finally:
        model.train(training)
    logits = np.concatenate(parts) if parts else np.zeros((0, 2))
    logits = logits.reshape(len(logits), -1)
    if logits.shape[1] == 1:  # one logit for two labels
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    if not np.isfinite(logits).all():
        raise ParameterError("the model gives logits that are not finite")
    return log_softmax(logits)


def _of_probabilities(given: Any) -> Numbers:
    table = real_array(given)
    if table is None or table.ndim != 2 or table.shape[1] < 2 or not np.isfinite(table).all():
        raise ParameterError("a model must give one row of probabilities for each record, with a column for each label")
    if (table < 0).any() or (np.abs(table.sum(axis=1) - 1) > 1e-3).any():
        raise ParameterError("the rows of a model's table must be probabilities: put logits through a softmax first")
    return np.log(np.maximum(table, 1e-300))


def log_softmax(logits: Numbers) -> Numbers:
    """Logs of probabilities, from logits."""
    moved = logits - logits.max(axis=1, keepdims=True)
    return moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))


def columns(labels: Any, classes: int) -> NDArray[np.intp]:
    """Labels that are columns."""
    at = np.asarray(labels)
    if at.ndim != 1 or at.dtype.kind not in "iu" or (len(at) and not 0 <= at.min() <= at.max() < classes):
        raise DomainError(f"labels must be whole numbers from 0 to {classes - 1}, one for each record")
    return at.astype(np.intp)


def _places(labels: Any, classes: NDArray) -> NDArray[np.intp]:
    """Labels as places among those that a classifier knows; it keeps them sorted."""
    given = np.asarray(labels)
    at = np.minimum(np.searchsorted(classes, given), len(classes) - 1)
    if given.ndim != 1 or not (classes[at] == given).all():
        raise DomainError("there are labels that the classifier has never seen")
    return at


def pair(name: str, records: Any) -> Records:
    """Inputs and labels of equal length."""
    rule = f"{name} must be a pair (inputs, labels) of equal length"
    inputs, labels = checked_list(rule, records, 2)
    if len(inputs) != len(labels):
        raise ParameterError(rule)
    return inputs if hasattr(inputs, "shape") else np.asarray(inputs), np.asarray(labels)
