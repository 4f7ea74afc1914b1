"""Local training on many devices at once: what each device's update would be, in one process.

A device starts from the parameters of the server, takes E steps of SGD on batches of its own records, and its *update*
is where it arrived, less where it started. Devices do not wait for each other, so a step of all of them is one step of
stacked parameters (`torch.func.vmap`), a chunk of devices at a time.

**Linear models** have a shortcut. Every gradient of W x + b is a sum of outer products of residuals and records, so
after any number of steps the update is A' X with one row of coefficients a record: the steps change A alone, and need
the records only by their inner products K = X X' + 1. With m records of p features a step costs m * m instead of
batch * p, and the records are read twice a round instead of E times. It is used where a device has at most as many
records as features; both ways give the same update up to rounding (tests/learn/test_federated.py).

**Batches.** Every round a device puts its records into a random order and walks through it in batches, again and again.
The order comes from dither's stream. It protects nobody: what protects is the report.

What goes wrong: batch normalisation mixes records into buffers that would travel beside the update, unprotected; such a
model is refused. Dropout is off, as in evaluation.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from dither.core.checks import checked_count, checked_real
from dither.core.randomness import Stream
from dither.errors import DomainError, ParameterError
from dither.learn.federated.partition import Devices, labels_of
from dither.learn.gradients import keeps_statistics, trainable

_CHUNK = 1 << 24  # numbers that a chunk of devices holds at once
_GRAMS = 1 << 26  # inner products that are kept from round to round


@dataclass(frozen=True, eq=False)
class LocalTraining:
    """How a device trains in a round: `steps` of SGD on batches, with the rate / (1 + decay * step over all rounds)."""

    model: nn.Module
    steps: int
    batch: int
    rate: float
    decay: float = 0.0
    kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        checked_count("local_steps", self.steps, 1)
        checked_count("batch", self.batch, 1)
        for name, least in (("rate", True), ("decay", False)):
            number = checked_real(name, getattr(self, name))
            if not math.isfinite(number) or number < 0 or (least and number == 0):
                raise ParameterError(f"{name} must be a finite number, {'above' if least else 'at least'} 0")
        refuse_shared_statistics(self.model)
        if self.d == 0:
            raise ParameterError("this model has nothing to learn: no parameter requires a gradient")

    @property
    def d(self) -> int:
        """How many numbers an update has."""
        return sum(each.numel() for each in trainable(self.model).values())

    def start(self) -> NDArray[np.float64]:
        """The parameters of the model in one vector."""
        return torch.cat([each.detach().reshape(-1) for each in trainable(self.model).values()]).double().numpy()

    def chunks(self, devices: Devices, who: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The devices in groups that fit into memory together."""
        records = int(np.prod(devices.inputs.shape[1:])) * min(self.batch, devices.members.shape[1])
        size = max(1, _CHUNK // max(4 * self.d, records))
        return [who[first : first + size] for first in range(0, len(who), size)]

    def updates(
        self, parameters: NDArray[np.float64], devices: Devices, who: NDArray[np.int64], turn: int, stream: Stream
    ) -> NDArray[np.float64]:
        """Of each of these devices, where it arrives less where it starts, in round `turn` (from 0)."""
        if self.batch > devices.fewest:
            raise ParameterError(
                f"a batch of {self.batch} is more than the {devices.fewest} records of the smallest device: "
                "ask for a smaller batch, or leave small devices out"
            )
        inputs, labels = devices.records(who)
        outputs = self._outputs(inputs)
        check_labels(labels_of(devices, who), outputs)
        batches = torch.from_numpy(self._batches(devices.sizes[who], who, stream))
        linear = _linear(self.model)
        if linear is not None and inputs.shape[1] <= math.prod(inputs.shape[2:]):
            return self._linear_updates(parameters, linear, inputs.flatten(2), labels, batches, turn, (devices, who))
        return self._stacked_updates(parameters, inputs, labels, batches, turn)

    def _outputs(self, inputs: Tensor) -> int:
        if "outputs" not in self.kept:
            with torch.no_grad():
                shape = self.model.eval()(inputs[0, :1].to(next(self.model.parameters()).dtype)).shape
            if len(shape) != 2:
                raise ParameterError("the model must give one row of outputs for each record")
            self.kept["outputs"] = int(shape[1])
        return self.kept["outputs"]

    def _batches(self, sizes: NDArray[np.int64], who: NDArray[np.int64], stream: Stream) -> NDArray[np.int64]:
        """(devices, steps, batch) places among a device's records."""
        keys = stream.words(0, np.asarray(who), int(sizes.max()))
        keys[np.arange(keys.shape[1]) >= sizes[:, None]] = np.iinfo(np.uint64).max
        order = np.argsort(keys, axis=1, kind="stable")
        walk = np.arange(self.steps * self.batch) % sizes[:, None]
        return np.take_along_axis(order, walk, axis=1).reshape(len(sizes), self.steps, self.batch)

    def _rate(self, turn: int, step: int) -> float:
        return self.rate / (1 + self.decay * (turn * self.steps + step))

    # By coefficients of records, for linear models -----------------------------------------------------

    def _linear_updates(
        self,
        parameters: NDArray[np.float64],
        linear: nn.Linear,
        inputs: Tensor,
        labels: Tensor,
        batches: Tensor,
        turn: int,
        key: tuple[Devices, NDArray[np.int64]],
    ) -> NDArray[np.float64]:
        values = dict(zip(("weight", "bias"), self._unpacked(parameters, inputs.dtype).values(), strict=False))
        bias = values.get("bias")
        gram = self._gram(inputs, bias is not None, key)
        start = inputs @ values["weight"].T + (0 if bias is None else bias)
        weights = torch.zeros_like(start)
        outputs = start.shape[2]
        for step in range(self.steps):
            rows = batches[:, step]
            wide = rows[..., None].expand(-1, -1, outputs)
            now = (start + gram @ weights).gather(1, wide)  # of all records: faster than to pick their inner products
            pull = _residuals(now, labels.gather(1, rows)) * (-self._rate(turn, step) / self.batch)
            weights.scatter_add_(1, wide, pull)
        moved = (weights.transpose(1, 2) @ inputs).flatten(1)
        if bias is not None:
            moved = torch.cat([moved, weights.sum(dim=1)], dim=1)
        return moved.double().numpy()

    def _gram(self, inputs: Tensor, biased: bool, key: tuple[Devices, NDArray[np.int64]]) -> Tensor:
        """Inner products of the records of each device, kept as long as they are few."""
        devices, who = key
        name = (id(devices), who.tobytes())
        kept = self.kept
        if kept.get("of") is not devices:
            kept.update({"of": devices, "size": 0, "grams": {}})
        if name not in kept["grams"]:
            gram = inputs @ inputs.transpose(1, 2)
            gram = gram + 1 if biased else gram
            if kept["size"] + gram.numel() > _GRAMS:
                return gram
            kept["grams"][name], kept["size"] = gram, kept["size"] + gram.numel()
        return kept["grams"][name]

    # By stacked parameters, for any model --------------------------------------------------------------

    def _stacked_updates(
        self, parameters: NDArray[np.float64], inputs: Tensor, labels: Tensor, batches: Tensor, turn: int
    ) -> NDArray[np.float64]:
        model = self.model.eval()
        first = self._unpacked(parameters, next(iter(trainable(model).values())).dtype)
        stacked = {name: each.expand(len(inputs), *each.shape).clone() for name, each in first.items()}
        inputs = inputs.to(next(iter(first.values())).dtype)
        slopes = vmap(grad(lambda values, x, y: loss(functional_call(model, values, (x,)), y)))
        who = torch.arange(len(inputs))[:, None]
        for step in range(self.steps):
            rows = batches[:, step]
            found = slopes(stacked, inputs[who, rows], labels[who, rows])
            rate = self._rate(turn, step)
            stacked = {name: each - rate * found[name] for name, each in stacked.items()}
        moved = [(stacked[name] - each).reshape(len(inputs), -1) for name, each in first.items()]
        return torch.cat(moved, dim=1).detach().double().numpy()

    def _unpacked(self, parameters: NDArray[np.float64], dtype: torch.dtype) -> dict[str, Tensor]:
        """A vector as the parameters of the model, by name."""
        flat, first, values = torch.from_numpy(np.array(parameters)).to(dtype), 0, {}
        for name, each in trainable(self.model).items():
            values[name] = flat[first : first + each.numel()].reshape(each.shape)
            first += each.numel()
        return values

    def loaded(self, parameters: NDArray[np.float64]) -> nn.Module:
        """The model with these parameters."""
        with torch.no_grad():
            for name, value in self._unpacked(parameters, torch.float64).items():
                self.model.get_parameter(name).copy_(value)
        return self.model.eval()


def check_labels(labels: Tensor, outputs: int) -> None:
    """Refuse labels that the model has no output for."""
    most = max(outputs, 2) - 1
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) <= most:
        raise DomainError(f"labels must be whole numbers from 0 to {most}, since the model has {outputs} outputs")


def loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy; of two classes, if there is one output."""
    if outputs.shape[-1] == 1:
        return functional.binary_cross_entropy_with_logits(outputs[..., 0], labels.to(outputs.dtype))
    return functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), labels.reshape(-1))


def decided(outputs: Tensor) -> Tensor:
    """The class of each row of outputs."""
    return (outputs[..., 0] > 0).long() if outputs.shape[-1] == 1 else outputs.argmax(dim=-1)


def _residuals(outputs: Tensor, labels: Tensor) -> Tensor:
    """The gradient of the loss of each record by its outputs: predicted less true probabilities."""
    if outputs.shape[-1] == 1:
        return torch.sigmoid(outputs) - labels[..., None].to(outputs.dtype)
    return torch.softmax(outputs, dim=-1) - functional.one_hot(labels, outputs.shape[-1]).to(outputs.dtype)


def refuse_shared_statistics(model: nn.Module) -> None:
    """A model whose buffers learn from records is no model for private updates."""
    if not isinstance(model, nn.Module):
        raise ParameterError("model must be a torch.nn.Module, for example torch.nn.Linear(784, 10)")
    if any(map(keeps_statistics, model.modules())):
        raise ParameterError(
            "batch normalisation keeps statistics of the records beside the parameters, which no report protects: "
            "use GroupNorm or LayerNorm"
        )


def _linear(model: nn.Module) -> nn.Linear | None:
    """The one linear layer that a model consists of, perhaps after flattening; None for any other model."""
    layers = [module for module in model.modules() if not isinstance(module, nn.Sequential | nn.Flatten)]
    if len(layers) != 1 or type(layers[0]) is not nn.Linear or type(model) not in (nn.Linear, nn.Sequential):
        return None
    plain = all(each.requires_grad for each in layers[0].parameters())
    flat = all(each.start_dim == 1 and each.end_dim == -1 for each in model.modules() if isinstance(each, nn.Flatten))
    return layers[0] if plain and flat else None
