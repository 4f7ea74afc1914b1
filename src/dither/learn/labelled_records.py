"""Records and labels as a model takes them: checked at the door, and never quoted.

Labels of classes are whole numbers from 0 to what the model knows, which it is asked with a record of zeros. Inputs may
be floats, which take the type of the model, or whole numbers (words, categories), which stay. A message names a row and
the rule.
"""

from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dither.errors import DomainError, ParameterError, RowError
from dither.learn.gradients import LOSSES, Loss

AT_ONCE = 4096  # records that a model looks at together, where no gradients are made


class LabelledRecords(NamedTuple):
    """Records and labels that fit the model and its loss."""

    inputs: Tensor
    labels: Tensor
    loss: Loss
    kind: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, model: nn.Module, loss: Loss, inputs: Any, labels: Any) -> "LabelledRecords":
        given, targets = tensor_of(inputs, "inputs"), tensor_of(labels, "labels")
        if given.dim() < 2 or len(given) == 0:
            raise DomainError("inputs must be rows, one for each record, and at least one")
        if targets.dim() == 0 or len(targets) != len(given):
            raise DomainError("there must be one label for each record")
        weight = next(model.parameters())
        kind = weight.dtype
        if loss is LOSSES["cross_entropy"]:
            targets = _checked_classes(targets, _classes(model, given, kind))
        else:
            targets = _checked_numbers(targets, kind) if loss is LOSSES["squared_error"] else targets
        return cls(given, targets, loss, kind, weight.device)

    def __len__(self) -> int:
        return len(self.inputs)

    def some(self, rows: Any) -> tuple[Tensor, Tensor]:
        """These records, in the model's floats."""
        return _as_kind(self.inputs[rows], self.kind).to(self.device), self.labels[rows].to(self.device)

    def measured(self, model: nn.Module) -> tuple[float, float]:
        """The mean loss and the score of the model."""
        outputs = torch.from_numpy(outputs_of(model, self.inputs))
        labels = self.labels.to(outputs.device)
        loss = float(self.loss(outputs, labels).double().mean())
        if self.loss is LOSSES["cross_entropy"]:
            return loss, float((outputs.argmax(dim=1) == labels).double().mean())
        if self.loss is LOSSES["squared_error"]:
            spread = float((labels - labels.mean(dim=0)).square().sum())
            return loss, 1 - 2 * loss * len(labels) / spread if spread else float("nan")
        return loss, float("nan")


def tensor_of(given: Any, name: str) -> Tensor:
    """As a tensor; a message of a conversion may quote a value, so none is kept."""
    try:
        tensor = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        raise DomainError(f"{name} must be numbers, as an array or a tensor") from None
    return tensor.detach()


def _as_kind(inputs: Tensor, kind: torch.dtype) -> Tensor:
    """Floats in the model's own type; whole numbers (words, categories) stay."""
    return inputs.to(kind) if inputs.is_floating_point() else inputs


def _classes(model: nn.Module, inputs: Tensor, kind: torch.dtype) -> int:
    """How many classes the model knows: what it says of a record of zeros."""
    try:
        outputs = outputs_of(model, torch.zeros_like(_as_kind(inputs[:1], kind)))
    except Exception as error:  # whatever a model of the user may raise
        raise ParameterError("the model does not take these records: try it on a made-up one") from error
    if outputs.ndim != 2:
        raise ParameterError('for "cross_entropy" the model must give one score a class for each record')
    return outputs.shape[1]


def _checked_classes(labels: Tensor, classes: int) -> Tensor:
    rule = f"must be a whole number from 0 to {classes - 1}, one for each class of the model"
    if labels.dim() != 1 or labels.is_complex() or labels.dtype == torch.bool:
        raise DomainError(f"labels: each {rule}")
    whole = labels.round() if labels.is_floating_point() else labels
    bad = ~((whole == labels) & (whole >= 0) & (whole < classes))
    if bool(bad.any()):
        raise RowError(int(torch.nonzero(bad)[0, 0]), rule, "labels")
    return whole.long()


def _checked_numbers(labels: Tensor, kind: torch.dtype) -> Tensor:
    numbers = labels.to(kind)
    bad = ~torch.isfinite(numbers.reshape(len(numbers), -1)).all(dim=1)
    if bool(bad.any()):
        raise RowError(int(torch.nonzero(bad)[0, 0]), "must be a finite number", "labels")
    return numbers


def outputs_of(model: nn.Module, inputs: Tensor) -> NDArray[Any]:
    weight = next(model.parameters())
    training = model.training
    model.eval()
    with torch.no_grad():
        parts = [model(_as_kind(part.to(weight.device), weight.dtype)).cpu() for part in inputs.split(AT_ONCE)]
    model.train(training)
    return torch.cat(parts).numpy()
