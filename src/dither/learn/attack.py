"""Membership inference: what an attacker learns from a model about who was in its training data.

A certificate says what a model can tell at most; an attack shows what it tells at least (001 section 5.3.5 reports the
accuracy of one). The attacker sees a model and some records, and gives every record a *score*: the higher, the likelier
it was trained on.

- **Loss threshold** (`loss_threshold`; Yeom et al. 2018): models fit what they were trained on, so a small loss speaks
  for a member. One number for hard and easy records alike.
- **Likelihood ratio** (`likelihood_ratio`, LiRA; Carlini et al. 2022): shadow models, trained with the record and
  without, tell what confidence to expect of either. With p the probability of the true label, the log-odds
  log p / (1 - p) are about normal, and the score is the log ratio of the two densities (*online*), or how far they lie
  above what models without the record show (*offline*).

An `Attack` holds the area under the ROC curve (the probability that a member scores higher than a non-member, ties
count one half), the balanced accuracy, and the share of members found where few others are accused: an attack that is
sure of a few does harm, although its average is that of a coin. Intervals are over the records, for this model.

**From guesses to epsilon.** The records of one model are not independent trials, so that the usual limits for both
rates prove nothing. What holds (Steinke, Nasr and Jagielski 2023): if a fair coin decided over the membership of each
of m records, and the attacker guesses r of them, then under (epsilon, delta)-DP the number of right guesses V keeps

    P(V >= v) <= P(B >= v) + min(m delta (1 - q), 2 m delta max_i P(v - i <= B < v) / i),  B ~ Bin(r, q),

with q = e^epsilon / (1 + e^epsilon). The last term is their theorem 5.2. The other is seen at once: given the model and
the coins before it, a coin is guessed with probability q + x, where (1 - q) delta bounds the mean of x > 0; so V is at
most B and as many more as the sum of the x, whose mean is m delta (1 - q). Without delta this is the limit of Clopper
and Pearson. The epsilons for which it is below 1 - confidence are refuted.

*Which coins?* `coins=True` says that each record came in by a coin of its own: epsilon is for adding or removing one.
Otherwise members and others are the halves of one random split. They are joined in random pairs, in each of which a
fair coin said who is the member: epsilon is for replacing one, and adding or removing one costs at least half of it:
(epsilon, delta) for one is (2 epsilon, (1 + e^epsilon) delta) for two. **If the two groups are not of one population,
nothing is proved**: then an attacker tells populations apart.

*Which guesses?* The surest ones; how many, on either side, is decided on one half of the records and counted on the
other.

**What goes wrong.** A weak attack proves nothing about the model. Losses, scores and thresholds are of private records:
an `Attack` keeps none. But its numbers were computed from the records, without noise: they are for who holds the data.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_confidence, checked_count, checked_delta, checked_real, real_array
from dither.core.errors import DomainError, ParameterError, require
from dither.core.guarantee import Guarantee
from dither.privacy.auditing.bound import wilson
from dither.randomness import Stream
from dither.show.plots import COLOURS, saved, tidy
from dither.show.table import Table

Numbers = NDArray[np.float64]
Records = tuple[Any, Any]  # inputs and labels
Train = Callable[[Any, Any, int], Any]

RELATIONS = ("add-or-remove", "replace")
FALSE_ALARMS = (0.01, 0.001)
FEWEST = 8  # records of either kind
_CORNERS = 512  # of a ROC curve that are kept
_SIZES = 24  # how many guesses are tried on either side
_DOUBT = 1.0  # standard errors that a share of right guesses is doubted by when their number is chosen
_LARGEST, _STEPS = 40.0, 161  # the epsilons that are looked at first
_SURE = 36.7  # log-odds: beyond, one minus a probability is a rounding error
_LEAST_SPREAD = 1e-3  # of log-odds, where all shadow models agree
_MANY_SHADOWS = 64  # from here on each record has a spread of its own
_ROWS = 1 << 12


class Rate(NamedTuple):
    """A share with its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f})"


@dataclass(frozen=True, eq=False)
class Attack:
    """How well an attack told members from others, and what epsilon that proves at least.

    Of the records nothing is kept but counts and the corners of the ROC curve, without their thresholds.
    """

    name: str
    members: int
    others: int
    area: Rate
    accuracy: Rate  # balanced
    found: Mapping[float, Rate]  # members found at each share of others that are accused
    epsilon: float
    delta: float
    relation: str
    confidence: float
    guesses: int
    right: int
    tested: int
    certificate: Guarantee | None = None
    false_alarms: Numbers = field(default_factory=lambda: np.zeros(0), repr=False)  # the ROC curve: its corners
    hits: Numbers = field(default_factory=lambda: np.zeros(0), repr=False)

    @property
    def refuted(self) -> bool:
        """Whether the attack proves more than the certificate allows."""
        given = self.certificate
        return given is not None and not given.simulated and self.epsilon > given.epsilon

    @property
    def verdict(self) -> str:
        """In words, what this says about the certificate."""
        if self.certificate is None:
            return "there is no certificate to compare with"
        if self.certificate.simulated:
            return "the model was trained from a seed, so that there is no certificate to compare with"
        return f"the certificate {'is REFUTED' if self.refuted else 'stands'}"

    def table(self) -> Table:
        """All numbers, one a line."""
        facts = {
            "members, others": f"{self.members:,}, {self.others:,}",
            "area under the ROC": str(self.area),
            "balanced accuracy": str(self.accuracy),
            **{f"members found, {share:.3g} accused": str(rate) for share, rate in self.found.items()},
            "guesses": f"{self.right:,} of {self.guesses:,} right, among {self.tested:,} tested",
            "epsilon at least": f"{self.epsilon:.4g} ({self.relation} one{self._at()})",
            "confidence": f"{self.confidence:.10g}",
            "certificate": str(self.certificate) if self.certificate is not None else "none given",
            "verdict": self.verdict,
        }
        return Table({"": list(facts), self.name: list(facts.values())})

    def plot(self, path: Any = None) -> Any:
        """The ROC curve, both axes logarithmic: what counts is its left end."""
        figure = require("matplotlib.figure", "plot").Figure(figsize=(5.2, 4.6), layout="constrained")
        axes = figure.subplots()
        least = 0.5 / max(self.members, self.others)
        line = np.array([least, 1.0])
        axes.plot(line, line, color="0.6", linestyle=(0, (1, 1.5)), label="guessing")
        axes.step(
            np.maximum(self.false_alarms, least),
            np.maximum(self.hits, least),
            where="post",
            color=COLOURS[0],
            linewidth=2,
            label=self.name,
        )
        axes.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.05))
        axes.set(xlabel="share of others accused", ylabel="share of members found")
        axes.legend(frameon=False, fontsize=9, loc="lower right")
        tidy(axes)
        return saved(figure, path)

    def _at(self) -> str:
        return f", delta {self.delta:.3g}" if self.delta else ""

    def __str__(self) -> str:
        sure = min(self.found)
        lines = [
            f"The {self.name} attack saw {self.members:,} members and {self.others:,} others.",
            f"A member scores higher than another record with probability {self.area.value:.3f}; half of all guesses "
            f"would be right by chance, and {100 * self.accuracy.value:.1f}% were.",
            f"Where {100 * sure:.3g}% of the others are accused, it finds {100 * self.found[sure].value:.3g}% of the "
            "members.",
            f"With confidence {self.confidence:.10g} this proves epsilon at least {self.epsilon:.3g} "
            f"({self.relation} one{self._at()}): {self.verdict}.",
        ]
        if self.refuted:
            lines.append(
                f"The certificate says {self.certificate}. Either the training is not what was certified, or the two "
                "groups are not halves of one random split; look at both before anything is released."
            )
        return "\n".join(lines)


def side_by_side(attacks: Mapping[str, Attack], accuracy: Mapping[str, float] | None = None) -> Table:
    """A line for each attack, beside the accuracy of the model that was attacked, if it is given."""
    rows = list(attacks.values())
    columns: dict[str, Any] = {"model": list(attacks), "attack": [each.name for each in rows]}
    if accuracy is not None:
        if not set(attacks) <= set(accuracy):
            raise ParameterError("give the accuracy of every model that was attacked, under the same name")
        columns["accuracy"] = [float(accuracy[name]) for name in attacks]
    columns |= {
        "area": [round(each.area.value, 4) for each in rows],
        "balanced": [round(each.accuracy.value, 4) for each in rows],
        "found at 1%": [round(each.found[FALSE_ALARMS[0]].value, 4) for each in rows],
        "epsilon at least": [round(each.epsilon, 3) for each in rows],
        "certificate": ["none" if each.certificate is None else str(each.certificate) for each in rows],
    }
    return Table(columns)


# The attacks ---------------------------------------------------------------------------------------------------------


def loss_threshold(
    members: Any,
    others: Any,
    model: Any = None,
    *,
    certificate: Guarantee | None = None,
    relation: str = "add-or-remove",
    delta: float | None = None,
    coins: bool = False,
    confidence: float = 0.99,
    seed: int | None = None,
) -> Attack:
    """Call those members whose loss is small.

    `members` and `others` are losses, or with a `model` pairs (inputs, labels); see `losses` for what a model may be.
    They must be drawn from one population: halves of a random split, or with `coins=True` records that a fair coin each
    put in or left out. `certificate` is what the model promises, for records that are added or removed (`DPSGD`) or
    replaced (`relation="replace"`, local mechanisms); without one, `delta` is that of the epsilon to be bounded.
    `seed` decides how the records are halved and paired.

    >>> attack = loss_threshold([0.1, 0.2, 0.1, 0.3] * 50, [0.2, 0.9, 1.3, 0.4] * 50, seed=1)
    >>> attack.area.value, attack.refuted
    (0.90625, False)
    """
    if model is not None:
        members, others = losses(model, *_pair("members", members)), losses(model, *_pair("others", others))
    ours, theirs = _scores("members", members), _scores("others", others)
    settings = _Settings(certificate, relation, delta, coins, confidence, seed)
    return _attack("loss threshold", -ours, -theirs, settings)


def likelihood_ratio(
    members: Records,
    others: Records,
    model: Any,
    train: "Train | SoftmaxTrainer",
    *,
    shadows: int = 32,
    online: bool = True,
    population: Records | None = None,
    certificate: Guarantee | None = None,
    relation: str = "add-or-remove",
    delta: float | None = None,
    coins: bool = False,
    confidence: float = 0.99,
    seed: int | None = None,
    progress: Callable[[Sequence[int]], Any] | None = None,
) -> Attack:
    """Compare a model's confidence in each record with that of shadow models, with the record and without.

    `train(inputs, labels, seed)` makes a model as the one under attack was made. Each of the `shadows` is trained on a
    random half of all records, so that every record is in half of them. Offline, only the shadows without a record
    speak about it; with a `population` (inputs, labels) of other records they are trained on halves of that, before
    any record is seen. A `SoftmaxTrainer` trains all of them at once. All else as in `loss_threshold`.

    >>> trainer = SoftmaxTrainer(classes=2, steps=100)
    >>> words = Stream.seeded(1).words(lane=0, rows=slice(0, 160), width=61)
    >>> inputs, labels = words[:, 1:] / 2.0**63 - 1, (words[:, 0] % 2).astype(int)  # nothing to learn but by heart
    >>> ours, theirs = (inputs[:80], labels[:80]), (inputs[80:], labels[80:])
    >>> found = likelihood_ratio(ours, theirs, trainer(*ours), trainer, shadows=16, seed=1)
    >>> found.area.value > 0.65
    True
    """
    shadows = checked_count("shadows", shadows, 4, 1 << 16)
    if shadows % 2:
        raise ParameterError("shadows must be an even number: every record is in half of them")
    if online and population is not None:
        raise ParameterError("models of another population never saw the records: say online=False")
    ours, theirs = _pair("members", members), _pair("others", others)
    inputs, labels = (
        np.concatenate([np.asarray(ours[0]), np.asarray(theirs[0])]),
        np.concatenate([np.asarray(ours[1]), np.asarray(theirs[1])]),
    )
    stream = _stream(seed).spawn("shadows")
    inside = _halves(stream, shadows, len(labels))
    pool = (inputs, labels)
    if population is not None:
        pool = _pair("population", population)
        half = _halves(stream.spawn("population"), shadows, len(pool[1]))
        inside = np.zeros_like(inside)
    else:
        half = inside
    seeds = [int(each) for each in stream.below(1 << 31, shadows, lane=1)]
    shown = _shadowed(train, pool, half, seeds, (inputs, labels), progress)
    score = _ratio(log_odds(model, inputs, labels), shown, inside, online)
    settings = _Settings(certificate, relation, delta, coins, confidence, seed)
    name = f"likelihood ratio ({'online' if online else 'offline'}, {shadows} shadows)"
    return _attack(name, score[: len(ours[1])], score[len(ours[1]) :], settings)


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
    return _odds(table, at)


def _odds(table: Numbers, at: NDArray[np.intp]) -> Numbers:
    """From logs of probabilities. Those of the other labels are added up: 1 - p would be 0 long before they are."""
    own = np.take_along_axis(table, at[..., None], axis=-1)
    rest = np.where(np.arange(table.shape[-1]) == at[..., None], -np.inf, table)
    most = np.maximum(rest.max(axis=-1, keepdims=True), -1e300)
    total = most + np.log(np.maximum(np.exp(rest - most).sum(axis=-1, keepdims=True), 1e-300))
    return np.clip((own - total)[..., 0], -_SURE, _SURE)


# Shadow models -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SoftmaxTrainer:
    """Linear softmax regression by gradient descent on all records, for one model or for many subsets at once.

    It draws nothing: equal records give equal models, and the seed is not looked at. `many` trains a model for each
    row of a table that says which records it sees; the logits of all of them are one product of matrices.

    >>> trainer = SoftmaxTrainer(classes=2, steps=100)
    >>> model = trainer(np.array([[0.0], [1.0]]), np.array([0, 1]), 0)
    >>> model(np.array([[0.0], [1.0]])).argmax(axis=1).tolist()
    [0, 1]
    """

    classes: int
    steps: int = 200
    rate: float = 1.0
    penalty: float = 0.0

    def __post_init__(self) -> None:
        checked_count("classes", self.classes, 2)
        checked_count("steps", self.steps, 1)
        if not checked_real("rate", self.rate) > 0 or not checked_real("penalty", self.penalty) >= 0:
            raise ParameterError("rate must be above 0, and penalty at least 0")

    def __call__(self, inputs: Any, labels: Any, seed: int = 0) -> "Softmax":
        """One model of all records."""
        return Softmax(self.many(inputs, labels, np.ones((1, len(labels)), dtype=bool))[0])

    def many(self, inputs: Any, labels: Any, seen: NDArray[np.bool_]) -> Numbers:
        """Weights (models, inputs + 1, classes); model i saw the records of row i."""
        x, y = _table(inputs), _columns(labels, self.classes)
        share = np.ascontiguousarray(seen.T / np.maximum(seen.sum(axis=1), 1))[:, None, :]
        weights = np.zeros((x.shape[1], self.classes, len(seen)))
        rows, turned = np.arange(len(x)), np.ascontiguousarray(x.T)
        for _ in range(self.steps):
            slope = (x @ weights.reshape(len(weights), -1)).reshape(len(x), self.classes, len(seen))
            slope -= slope.max(axis=1, keepdims=True)
            np.exp(slope, out=slope)
            slope /= slope.sum(axis=1, keepdims=True)
            slope[rows, y] -= 1.0
            slope *= share
            gradient = (turned @ slope.reshape(len(x), -1)).reshape(weights.shape)
            weights -= self.rate * (gradient + self.penalty * weights)
        return np.ascontiguousarray(weights.transpose(2, 0, 1))


class Softmax:
    """A linear softmax model: a function from inputs to probabilities."""

    def __init__(self, weights: Numbers) -> None:
        self.weights = weights

    def __call__(self, inputs: Any) -> Numbers:
        return np.exp(_log_softmax(_table(inputs) @ self.weights))

    def predict(self, inputs: Any) -> NDArray[np.intp]:
        """The likeliest label."""
        return self(inputs).argmax(axis=1)


def _table(inputs: Any) -> Numbers:
    table = real_array(inputs)
    if table is None or table.ndim < 2 or not np.isfinite(table).all():
        raise DomainError("inputs must be a table of finite numbers, one row a record")
    flat = table.reshape(len(table), -1)
    return np.concatenate([flat, np.ones((len(flat), 1))], axis=1)


def _halves(stream: Stream, shadows: int, records: int) -> NDArray[np.bool_]:
    """For each shadow model the records that it sees; every record is seen by exactly half of them."""
    words = stream.words(lane=0, rows=slice(0, records), width=shadows)
    return (np.argsort(np.argsort(words, axis=1, kind="stable"), axis=1) < shadows // 2).T


def _shadowed(
    train: Any, pool: Records, half: NDArray[np.bool_], seeds: list[int], records: Records, progress: Any
) -> Numbers:
    """The log-odds that each shadow model (rows) gives to each record (columns)."""
    inputs, labels = pool
    if isinstance(train, SoftmaxTrainer):
        weights, at = train.many(inputs, labels, half), _columns(records[1], train.classes)
        x = _table(records[0])
        return np.stack([_odds(_log_softmax(x @ each), at) for each in weights])
    if not callable(train):
        raise ParameterError("train must be a function of (inputs, labels, seed) that gives a model")
    rows = []
    for number in (progress or iter)(range(len(half))):
        chosen = np.flatnonzero(half[number])
        rows.append(log_odds(train(inputs[chosen], labels[chosen], seeds[number]), *records))
    return np.stack(rows)


def _ratio(target: Numbers, shown: Numbers, inside: NDArray[np.bool_], online: bool) -> Numbers:
    """The score of each record, from normal fits to the log-odds of models with it and without."""
    center, spread = _normal(shown, ~inside)
    if not online:
        return (target - center) / spread
    with_center, with_spread = _normal(shown, inside)
    near, far = (target - with_center) / with_spread, (target - center) / spread
    return 0.5 * (far**2 - near**2) + np.log(spread / with_spread)


def _normal(shown: Numbers, chosen: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """Mean and spread of the chosen entries of each column; of few models, one spread that all records share."""
    count = chosen.sum(axis=0)
    center = np.where(chosen, shown, 0.0).sum(axis=0) / count
    squares = np.where(chosen, (shown - center) ** 2, 0.0).sum(axis=0)
    if len(shown) < _MANY_SHADOWS:
        variance = np.full(len(center), squares.sum() / max(1, (count - 1).sum()))
    else:
        variance = squares / (count - 1)
    return center, np.maximum(np.sqrt(variance), _LEAST_SPREAD)


# What a model says ---------------------------------------------------------------------------------------------------


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
    at = _columns(labels, table.shape[1]) if classes is None else _places(labels, np.asarray(classes))
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
    return _log_softmax(logits)


def _of_probabilities(given: Any) -> Numbers:
    table = real_array(given)
    if table is None or table.ndim != 2 or table.shape[1] < 2 or not np.isfinite(table).all():
        raise ParameterError("a model must give one row of probabilities for each record, with a column for each label")
    if (table < 0).any() or (np.abs(table.sum(axis=1) - 1) > 1e-3).any():
        raise ParameterError("the rows of a model's table must be probabilities: put logits through a softmax first")
    return np.log(np.maximum(table, 1e-300))


def _log_softmax(logits: Numbers) -> Numbers:
    moved = logits - logits.max(axis=1, keepdims=True)
    return moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))


def _columns(labels: Any, classes: int) -> NDArray[np.intp]:
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


def _pair(name: str, records: Any) -> Records:
    if not isinstance(records, tuple | list) or len(records) != 2 or len(records[0]) != len(records[1]):
        raise ParameterError(f"{name} must be a pair (inputs, labels) of equal length")
    inputs = records[0] if hasattr(records[0], "shape") else np.asarray(records[0])
    return inputs, np.asarray(records[1])


# From scores to numbers ----------------------------------------------------------------------------------------------


class _Settings(NamedTuple):
    certificate: Guarantee | None
    relation: str
    delta: float | None
    coins: bool
    confidence: float
    seed: int | None

    def checked(self) -> "_Settings":
        """The same, with the delta that the bound is for."""
        if self.relation not in RELATIONS:
            raise ParameterError(f"relation must be one of {', '.join(RELATIONS)}")
        if self.relation == "replace" and self.coins:
            raise ParameterError("coins add or remove a record: a bound for replacing one needs a split (coins=False)")
        given = self.certificate
        if given is not None and not isinstance(given, Guarantee):
            raise ParameterError("certificate must be a guarantee, as in certificate=model.guarantee")
        if given is not None and self.delta is not None:
            raise ParameterError("a certificate has its own delta: leave delta out")
        delta = given.delta if given is not None else checked_delta(self.delta or 0.0)
        return self._replace(delta=delta, confidence=checked_confidence(self.confidence))


def _attack(name: str, ours: Numbers, theirs: Numbers, settings: _Settings) -> Attack:
    """All that can be said about the scores of members and others, the higher the likelier a member."""
    settings = settings.checked()
    miss, delta = 1 - settings.confidence, settings.delta or 0.0
    stream = _stream(settings.seed).spawn("attack")
    ours, theirs = ours[_shuffled(stream, len(ours), 0)], theirs[_shuffled(stream, len(theirs), 1)]
    alarms, hits = _curve(ours, theirs)
    values, sides = _coins(ours, theirs, stream) if settings.coins else _duels(ours, theirs, stream)
    half = len(values) // 2
    low, high = _sizes(values[:half], sides[:half], miss, paired=not settings.coins)
    guesses, right = _guessed(values[half:], sides[half:], low, high)
    tested = len(values) - half

    def tail(epsilon: float) -> float:
        if settings.coins or settings.relation == "replace":
            return chance(right, guesses, tested, epsilon, delta)
        return chance(right, guesses, tested, 2 * epsilon, min(1.0, (1 + math.exp(epsilon)) * delta))

    corners = _thinned(len(alarms))
    return Attack(
        name=name,
        members=len(ours),
        others=len(theirs),
        area=_area(ours, theirs, miss),
        accuracy=_accuracy(ours, theirs, miss),
        found={share: _found(alarms, hits, share, len(ours), miss) for share in FALSE_ALARMS},
        epsilon=_least(tail, miss),
        delta=delta,
        relation=settings.relation,
        confidence=settings.confidence,
        guesses=guesses,
        right=right,
        tested=tested,
        certificate=settings.certificate,
        false_alarms=alarms[corners],
        hits=hits[corners],
    )


def chance(right: int, guesses: int, tested: int, epsilon: float, delta: float = 0.0) -> float:
    """How likely so many right guesses are at most, where `tested` fair coins are hidden with (epsilon, delta).

    The number of guesses must not depend on what is tested, or else delta be 0.

    >>> round(chance(75, 100, 100, np.log(3.0)), 3)
    0.553
    """
    special = require("scipy.special", "fast")
    if right == 0:
        return 1.0
    q = 1 / (1 + math.exp(-epsilon))
    beyond = float(special.betainc(right, guesses - right + 1, q))
    if not delta:
        return beyond
    below = np.arange(right - 1, -1, -1)
    logs = special.gammaln(guesses + 1) - special.gammaln(below + 1) - special.gammaln(guesses - below + 1)
    short = np.cumsum(np.exp(logs + special.xlogy(below, q) + (guesses - below) * -np.logaddexp(0.0, epsilon)))
    spread = float((short / np.arange(1, right + 1)).max())
    return min(1.0, beyond + tested * delta * min(1 / (1 + math.exp(epsilon)), 2 * spread))


def _least(tail: Callable[[float], float], miss: float) -> float:
    """The least epsilon under which what was seen is likelier than `miss`: all below are refuted."""
    grid = np.linspace(0.0, _LARGEST, _STEPS)
    kept = next((place for place, epsilon in enumerate(grid) if tail(float(epsilon)) > miss), None)
    if kept == 0:
        return 0.0
    if kept is None:
        return _LARGEST
    low, high = float(grid[kept - 1]), float(grid[kept])
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if tail(middle) > miss else (middle, high)
    return low


def _coins(ours: Numbers, theirs: Numbers, stream: Stream) -> tuple[Numbers, NDArray[np.bool_]]:
    """All scores in random order, and whether each is a member's."""
    order = _shuffled(stream, len(ours) + len(theirs), 2)
    sides = np.concatenate([np.ones(len(ours), dtype=bool), np.zeros(len(theirs), dtype=bool)])
    return np.concatenate([ours, theirs])[order], sides[order]


def _duels(ours: Numbers, theirs: Numbers, stream: Stream) -> tuple[Numbers, NDArray[np.bool_]]:
    """For random pairs how far apart the two scores are, and whether the higher one is the member's.

    Who of a pair is the member was a fair coin, and the distance says nothing about it. Equal scores are guessed.
    """
    count = min(len(ours), len(theirs))
    lead = ours[:count] - theirs[:count]
    return np.abs(lead), np.where(lead == 0, stream.below(2, count, lane=3) == 1, lead > 0)


def _sizes(values: Numbers, sides: NDArray[np.bool_], miss: float, paired: bool) -> tuple[int, int]:
    """How many to call others (the lowest) and members (the highest), by what works on these values.

    Of pairs only the highest are guessed: a small distance says nothing.
    """
    good = sides[np.argsort(values, kind="stable")]
    upper = _grid(len(values) if paired else len(values) // 2)
    lower = np.zeros(1, dtype=np.int64) if paired else upper
    low, high = (each.ravel() for each in np.meshgrid(lower, upper))
    right = np.concatenate([[0], np.cumsum(good[::-1])])[high] + np.concatenate([[0], np.cumsum(~good)])[low]
    count = np.maximum(low + high, 1)
    level = NormalDist().inv_cdf(1 - miss) + _DOUBT
    best = int(np.argmax(wilson(right / count, count, -level)))  # type: ignore[arg-type]
    return int(low[best]), int(high[best])


def _grid(most: int) -> NDArray[np.int64]:
    return np.unique(np.concatenate([[0], np.geomspace(1, max(1, most), _SIZES)]).astype(np.int64))


def _guessed(values: Numbers, sides: NDArray[np.bool_], low: int, high: int) -> tuple[int, int]:
    """How many guesses there are, and how many are right. Ties are broken by the order, which is random."""
    order = np.argsort(values, kind="stable")
    top, bottom = order[len(order) - high :], order[:low]
    return low + high, int(sides[top].sum()) + int((~sides[bottom]).sum())


def _curve(ours: Numbers, theirs: Numbers) -> tuple[Numbers, Numbers]:
    """The ROC curve: for each score as a threshold the share of others and of members at or above it."""
    cuts = np.unique(np.concatenate([ours, theirs]))[::-1]
    shares = [1 - np.searchsorted(np.sort(scores), cuts, side="left") / len(scores) for scores in (theirs, ours)]
    alarms, hits = (np.concatenate([[0.0], each]) for each in shares)
    return alarms, hits


def _thinned(corners: int) -> NDArray[np.int64]:
    """The places of the corners to be kept: all if they are few, or else finely where few are accused."""
    if corners <= _CORNERS:
        return np.arange(corners)
    near = np.geomspace(1, corners, _CORNERS // 2).astype(np.int64) - 1
    even = np.linspace(0, corners - 1, _CORNERS // 2).astype(np.int64)
    return np.unique(np.concatenate([near, even]))


def _area(ours: Numbers, theirs: Numbers, miss: float) -> Rate:
    """The area under the curve (Mann and Whitney), with DeLong's variance put into Wilson's interval."""
    above, below = np.sort(theirs), np.sort(ours)
    wins = (np.searchsorted(above, ours, "left") + np.searchsorted(above, ours, "right")) / (2 * len(theirs))
    defeats = (np.searchsorted(below, theirs, "left") + np.searchsorted(below, theirs, "right")) / (2 * len(ours))
    area = float(wins.mean())
    variance = float(wins.var(ddof=1) / len(ours) + defeats.var(ddof=1) / len(theirs))
    least = min(len(ours), len(theirs))
    trials = area * (1 - area) / variance if variance > 0 else float(least)
    low, high = _wilson(area, max(1.0, trials), miss)
    return Rate(area, min(low, area), max(high, area))


def _wilson(share: float, trials: float, miss: float) -> tuple[float, float]:
    level, at = NormalDist().inv_cdf(1 - miss / 2), np.array([share])
    low, high = (float(wilson(at, trials, side)[0]) for side in (-level, level))  # type: ignore[arg-type]
    return low, high


def _accuracy(ours: Numbers, theirs: Numbers, miss: float) -> Rate:
    """The balanced accuracy of the threshold that was best on the first halves, on the second ones."""
    one, other = len(ours) // 2, len(theirs) // 2
    learned = [np.sort(scores[:size]) for scores, size in ((ours, one), (theirs, other))]
    cuts = np.concatenate([*learned, [np.inf]])
    hits, alarms = (1 - np.searchsorted(scores, cuts, "left") / len(scores) for scores in learned)
    cut = float(cuts[int(np.argmax(hits - alarms))])
    found, spared = int((ours[one:] >= cut).sum()), int((theirs[other:] < cut).sum())
    first, second = _limits(found, len(ours) - one, miss / 2), _limits(spared, len(theirs) - other, miss / 2)
    return Rate(*((a + b) / 2 for a, b in zip(first, second, strict=True)))


def _found(alarms: Numbers, hits: Numbers, share: float, members: int, miss: float) -> Rate:
    """The members found at the lowest threshold that accuses no larger share of the others."""
    last = int(np.flatnonzero(alarms <= share * (1 + 1e-12))[-1])
    return _limits(round(float(hits[last]) * members), members, miss)


def _limits(count: int, n: int, miss: float) -> Rate:
    """A share with Clopper and Pearson's limits."""
    special = require("scipy.special", "fast")
    low = float(special.betaincinv(count, n - count + 1, miss / 2)) if count else 0.0
    high = float(special.betainccinv(count + 1, n - count, miss / 2)) if count < n else 1.0
    return Rate(count / n, low, high)


def _scores(name: str, given: Any) -> Numbers:
    scores = real_array(given)
    if scores is None or scores.ndim != 1:
        raise DomainError(f"the losses of the {name} must be a list of numbers (with a model: inputs and labels)")
    if np.isnan(scores).any():
        raise DomainError(f"among the losses of the {name} is one that is not a number; leave such records out")
    if len(scores) < FEWEST:
        raise ParameterError(f"an attack needs at least {FEWEST} members and as many others")
    return np.clip(scores, -1e300, 1e300)


def _shuffled(stream: Stream, count: int, lane: int) -> NDArray[np.intp]:
    return np.argsort(stream.words(lane=lane, rows=slice(0, count))[:, 0], kind="stable")


def _stream(seed: int | None) -> Stream:
    return Stream.secure() if seed is None else Stream.seeded(seed, "membership")
