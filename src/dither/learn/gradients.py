"""The gradient of every record by itself, for any model of PyTorch.

DP-SGD bounds what *one record* can do to a step, so it needs the gradient of each record's own loss, g_i = grad
l(model(x_i), y_i), not the gradient of their mean: a mean that is clipped afterwards protects nobody. There are three
ways to it, which agree up to the rounding of floats, and `per_record` takes the first that fits:

- **layers**. In a plain `nn.Sequential` of well-known layers one backward pass gives the slope b_i of each layer's
  output, and with the layer's input a_i the gradient is written down: b_i a_i^T for `Linear`; for `Conv1d` and
  `Conv2d` the same with the patches of a_i, summed over places; for `LayerNorm` and `GroupNorm` b_i times the
  normalised input (Goodfellow 2015, arXiv:1510.01799; Rochette, Manoel and Tramel 2019, arXiv:1912.06015). No gradient
  of the mean is computed on the way.
- **vmap**. Any other model: `torch.func.vmap` of `torch.func.grad`, with a batch of one.
- **loop**. What `vmap` cannot follow (recurrent layers, in-place tricks): one backward pass a record.

**What goes wrong.** The bound on one record's influence holds only if g_i depends on record i alone. Batch
normalisation breaks that, and so does any layer that looks along the batch. So records pass together only through
layers that are *known* not to mix them; in every other model each record passes alone, and cannot meet another whatever
the model's code does. What keeps running statistics of the data is refused, because they would be released with the
weights; other buffers are copied for each pass, so that nothing is left in them.

What remains is floating point. A matrix product picks its algorithm by the *shape* of the batch, so one record less
used to change the last bits of the gradients of all others; where these bits are all there is (a record whose loss is
nearly zero, scaled up to a direction), that would be no small thing. `Gradients.padded` therefore gives all chunks one
shape, a multiple of 32 records, filled up with records of zeros. Products also round by where in memory a row starts,
so `Linear` gets rows of a multiple of 16 numbers. Then what stands in other rows, or which row a record has, does not
change a bit of its gradient: that is *measured*, by layers, in one thread, for the libraries at hand (see the tests).
No library promises it, and there are cases where it fails; docs/dpsgd.md lists them and says what that means.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch.nn.parameter import is_lazy

from dither.errors import ParameterError

Loss = Callable[[Tensor, Tensor], Tensor]
Span = tuple[int, int]

ROWS = 32  # chunks have a multiple of so many records: then neither a row nor a number is in a remainder
_WIDTH = 16  # numbers in a row of a matrix, a multiple: then all rows start at whole vectors of the processor

# Layers without parameters that treat every record by itself, whatever shape it has (but see `_ONLY_IF`).
_RECORDWISE: tuple[type[nn.Module], ...] = (
    nn.Identity, nn.Tanh, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish,
    nn.Sigmoid, nn.LogSigmoid, nn.Hardtanh, nn.Hardswish, nn.Softplus, nn.Softsign, nn.Dropout,
    nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d,
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.Flatten, nn.Unflatten,
)  # fmt: skip
_USE_INSTEAD = "use nn.GroupNorm or nn.LayerNorm, which treat every record by itself"


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """One loss a record, of scores for each class against the right class."""
    return functional.cross_entropy(outputs, labels, reduction="none")


def squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """One loss a record: half the squared distance to its label."""
    return (outputs.reshape(labels.shape) - labels).square().reshape(len(labels), -1).sum(dim=1) / 2


LOSSES: dict[str, Loss] = {"cross_entropy": cross_entropy, "squared_error": squared_error}


def checked_model(model: nn.Module) -> None:
    """Refuse a model whose layers mix records, or keep statistics of them."""
    if not isinstance(model, nn.Module):
        raise ParameterError(f"the model must be a torch.nn.Module, not {type(model).__name__}")
    for name, layer in model.named_modules():
        _checked_layer(name or type(layer).__name__, layer)
    kinds = {weight.dtype for weight in trainable(model).values()}
    if not kinds:
        raise ParameterError("the model has no parameters to train: some must have requires_grad=True")
    if kinds not in ({torch.float32}, {torch.float64}):
        raise ParameterError("the parameters to train must be all float32 or all float64: use model.float()")


def _checked_layer(place: str, layer: nn.Module) -> None:
    kind = type(layer).__name__
    if isinstance(layer, nn.modules.batchnorm._BatchNorm):
        raise ParameterError(f"layer {place} is {kind}, which mixes the records of a batch: {_USE_INSTEAD}")
    if keeps_statistics(layer):
        raise ParameterError(f"layer {place} ({kind}) keeps running statistics of the records: {_USE_INSTEAD}")
    if any(map(is_lazy, layer.parameters(recurse=False))):
        raise ParameterError(f"layer {place} ({kind}) has no size yet: pass one made-up record through the model first")


def keeps_statistics(layer: nn.Module) -> bool:
    """Whether it holds running statistics of the records, beside its parameters."""
    return any(layer._buffers.get(name) is not None for name in ("running_mean", "running_var", "num_batches_tracked"))


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters to train, each once, by name."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def per_record(model: nn.Module, loss: Loss, inputs: Tensor, labels: Tensor) -> "Gradients":
    """The fastest way to the gradients of this model that fits it.

    The records given tell shapes and types only: their places are filled with zeros to see which way works.

    >>> model = nn.Linear(2, 1, bias=False).double()
    >>> gradients = per_record(model, squared_error, torch.zeros(3, 2).double(), torch.zeros(3).double())
    >>> records = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    >>> gradients(records, model(records)[:, 0].detach() - 1).round().tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    checked_model(model)
    blanks = torch.zeros_like(inputs[:2]), torch.zeros_like(labels[:2])
    last: Exception | None = None
    for way in ("layers", "vmap", "loop"):
        gradients = Gradients(model, loss, way)
        if way == "layers" and (gradients.chain is None or loss not in LOSSES.values()):
            continue
        try:
            with _quiet():
                gradients(*blanks)
        except Exception as error:  # whatever a model of the user may raise
            last = error
        else:
            return gradients
    raise ParameterError("the model and its loss do not take these records: try them on two made-up ones") from last


@dataclass(frozen=True, eq=False)
class Gradients:
    """Records and labels in, a row of d numbers out for each: the gradient of its own loss.

    Parameters come in the order of `trainable`, each flattened.
    """

    model: nn.Module
    loss: Loss
    way: str

    def __call__(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """An (n, d) tensor, which belongs to the caller."""
        return {"layers": self._layers, "vmap": self._vmap, "loop": self._loop}[self.way](inputs, labels)

    def padded(self, inputs: Tensor, labels: Tensor, size: int) -> Tensor:
        """A (size, d) tensor whatever the number of records: their gradients come first, the rest is of no record.

        One shape for all chunks, since what a matrix product rounds depends on it. Records that pass one by one need
        no company.
        """
        n = len(inputs)
        if n > size or size % ROWS:
            raise ParameterError(f"a chunk must have a multiple of {ROWS} rows, and one for each record")
        if self.way == "loop":
            first = next(iter(self.weights.values()))
            rows = torch.zeros(size, self.d, dtype=first.dtype, device=first.device)
            if n:
                rows[:n] = self(inputs, labels)
            return rows
        return self(_filled(inputs, size), _filled(labels, size))

    @cached_property
    def weights(self) -> dict[str, nn.Parameter]:
        """What is trained."""
        return trainable(self.model)

    @property
    def d(self) -> int:
        """How many numbers a gradient has."""
        return sum(weight.numel() for weight in self.weights.values())

    @cached_property
    def chain(self) -> list[nn.Module] | None:
        """The layers one after the other, if all of them are known and each is there once."""
        layers = list(_flattened(self.model))
        once = len(set(map(id, layers))) == len(layers)
        shared = len(list(self.model.named_parameters(remove_duplicate=False))) != len(list(self.model.parameters()))
        return layers if once and not shared and all(map(_known, layers)) else None

    def _layers(self, inputs: Tensor, labels: Tensor) -> Tensor:
        assert self.chain is not None
        flow, kept = inputs, []
        with torch.enable_grad():
            for layer in self.chain:
                rule = _RULES.get(type(layer))
                before = flow
                flow = layer(flow) if rule is None else rule.forward(layer, flow)
                if len(flow) != len(inputs):
                    raise ParameterError("a layer changed the number of records")
                if rule is not None and any(weight.requires_grad for weight in layer.parameters()):
                    flow = flow if flow.requires_grad else flow.requires_grad_()
                    kept.append((layer, rule, before.detach(), flow))
            slopes = torch.autograd.grad(self.loss(flow, labels).sum(), [output for *_, output in kept])
        first = next(iter(self.weights.values()))
        rows = torch.empty(len(inputs), self.d, dtype=first.dtype, device=first.device)
        for (layer, rule, before, _), slope in zip(kept, slopes, strict=True):
            rule.write(layer, before, slope, {name: self._place(rows, weight) for name, weight in _own(layer)})
        return rows

    def _place(self, rows: Tensor, weight: nn.Parameter) -> Tensor:
        """Where the gradients of this parameter go."""
        start, stop = self._spans[id(weight)]
        return rows[:, start:stop].unflatten(1, weight.shape)

    @cached_property
    def _spans(self) -> dict[int, Span]:
        spans, start = {}, 0
        for weight in self.weights.values():
            spans[id(weight)] = (start, start + weight.numel())
            start += weight.numel()
        return spans

    def _vmap(self, inputs: Tensor, labels: Tensor) -> Tensor:
        weights = {name: weight.detach() for name, weight in self.weights.items()}
        with _quiet():
            each = vmap(grad(self._single), in_dims=(None, None, 0, 0), randomness="different")
            parts = each(weights, self._rest(), inputs, labels)
        return torch.cat([parts[name].flatten(1) for name in weights], dim=1)

    def _loop(self, inputs: Tensor, labels: Tensor) -> Tensor:
        weights = {name: weight.detach().requires_grad_() for name, weight in self.weights.items()}
        rows = []
        for record, label in zip(inputs, labels, strict=True):
            with torch.enable_grad():
                loss = self._single(weights, self._rest(), record, label)
                parts = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
            given = zip(parts, weights.values(), strict=True)
            rows.append(torch.cat([(torch.zeros_like(w) if part is None else part).flatten() for part, w in given]))
        return torch.stack(rows)

    def _single(self, weights: dict[str, Tensor], rest: dict[str, Tensor], record: Tensor, label: Tensor) -> Tensor:
        """The loss of one record, which passes alone."""
        given = {place: weights[name] for place, name in self._places.items()}
        # Ties are in `_places` already: left to torch, a layer that occurs twice would lose its parameters.
        outputs = functional_call(self.model, {**given, **rest}, (record[None],), tie_weights=False)
        return self.loss(outputs, label[None]).sum()

    @cached_property
    def _places(self) -> dict[str, str]:
        """Every place of every layer that holds a parameter to train, with that parameter's name."""
        names = {id(weight): name for name, weight in self.weights.items()}
        return {place: names[id(weight)] for place, weight in _held(self.model, "_parameters") if id(weight) in names}

    def _rest(self) -> dict[str, Tensor]:
        """Parameters that stay, and copies of buffers: what a pass writes into them is forgotten."""
        frozen = {place: kept.detach() for place, kept in _held(self.model, "_parameters") if not kept.requires_grad}
        return {**frozen, **{place: buffer.clone() for place, buffer in _held(self.model, "_buffers")}}


def _filled(some: Tensor, size: int) -> Tensor:
    """These rows, and zeros up to `size`."""
    if len(some) == size:
        return some
    rows = some.new_zeros(size, *some.shape[1:])
    rows[: len(some)] = some
    return rows


def _held(model: nn.Module, kind: str) -> Iterator[tuple[str, Tensor]]:
    """What the layers hold, by name; a layer that occurs twice is visited once."""
    for prefix, layer in model.named_modules():
        for name, held in getattr(layer, kind).items():
            if held is not None:
                yield f"{prefix}.{name}" if prefix else name, held


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Torch warns where it has no fast rule for a layer; the way taken is told by `Gradients.way`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _flattened(model: nn.Module) -> Iterator[nn.Module]:
    """The layers of nested plain sequences, in order."""
    if type(model) is nn.Sequential and not _hooked(model):
        for layer in model:
            yield from _flattened(layer)
    else:
        yield model


def _hooked(layer: nn.Module) -> bool:
    """Whether somebody else's code runs along with the layer."""
    return bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks)


def _known(layer: nn.Module) -> bool:
    """Whether a batch may pass through this layer together: it never looks from one record at another."""
    kind, set_on_it = type(layer), vars(layer)
    if _hooked(layer) or set_on_it.get("inplace") or "forward" in set_on_it:
        return False
    return (kind in _RULES or kind in _RECORDWISE) and (kind not in _ONLY_IF or _ONLY_IF[kind](layer))


def _own(layer: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, weight) for name, weight in layer.named_parameters(recurse=False) if weight.requires_grad]


def _fixed(weight: Tensor | None) -> Tensor | None:
    """A parameter of which autograd computes no gradient of its own."""
    return None if weight is None else weight.detach()


Places = dict[str, Tensor]


@dataclass(frozen=True)
class _Rule:
    """How a layer is passed without gradients of its parameters, and how those of every record are written down."""

    forward: Callable[[Any, Tensor], Tensor]
    write: Callable[[Any, Tensor, Tensor, Places], None]


def _batched(flow: Tensor, dimensions: int) -> Tensor:
    """Fewer dimensions would make the layer take the batch for something else."""
    if flow.dim() < dimensions:
        raise ParameterError("a layer was given records with too few dimensions")
    return flow


def _linear_forward(layer: nn.Linear, flow: Tensor) -> Tensor:
    weight, inner = layer.weight.detach(), -layer.in_features % _WIDTH
    if _batched(flow, 2).shape[-1] == layer.in_features and inner:
        # Rows that start anywhere are rounded by where they start: zeros make them all start alike.
        flow, weight = (functional.pad(part, (0, inner)) for part in (flow, weight))
    return functional.linear(flow, weight, _fixed(layer.bias))


def _aligned_product(left: Tensor, right: Tensor) -> Tensor:
    """left right^T for each record, between matrices whose sides are multiples of the width."""
    sides = left.shape[1], right.shape[1]
    left, right = (
        functional.pad(part, (0, -part.shape[2] % _WIDTH, 0, -part.shape[1] % _WIDTH)) for part in (left, right)
    )
    return torch.bmm(left, right.transpose(1, 2))[:, : sides[0], : sides[1]]


def _linear_write(layer: nn.Linear, before: Tensor, slope: Tensor, places: Places) -> None:
    if "weight" in places and before.dim() == 2:
        torch.mul(slope[:, :, None], before[:, None, :], out=places["weight"])
    elif "weight" in places:
        left, right = slope.flatten(1, -2).transpose(1, 2), before.flatten(1, -2).transpose(1, 2)
        places["weight"].copy_(_aligned_product(left, right))
    if "bias" in places:
        places["bias"].copy_(slope if slope.dim() == 2 else slope.flatten(1, -2).sum(dim=1))


def _convolution_forward(layer: nn.Conv1d | nn.Conv2d, flow: Tensor) -> Tensor:
    return layer._conv_forward(_batched(flow, layer.weight.dim()), layer.weight.detach(), _fixed(layer.bias))


def _convolution_write(layer: nn.Conv1d | nn.Conv2d, before: Tensor, slope: Tensor, places: Places) -> None:
    slopes = slope.flatten(2)
    if "weight" in places:
        patches = _patches(layer, before).transpose(1, 2)
        torch.bmm(slopes, patches, out=places["weight"].flatten(2))
    if "bias" in places:
        torch.sum(slopes, dim=2, out=places["bias"])


def _patches(layer: nn.Conv1d | nn.Conv2d, before: Tensor) -> Tensor:
    """(n, channels * kernel, places): what every output place of a convolution saw."""
    options = [layer.kernel_size, layer.dilation, layer.padding, layer.stride]
    if before.dim() == 3:  # a picture of height 1
        before = before[:, :, None, :]
        options = [(lead, *option) for lead, option in zip((1, 1, 0, 1), options, strict=True)]
    kernel, dilation, padding, stride = options
    return functional.unfold(before, kernel, dilation=dilation, padding=padding, stride=stride)


def _layer_norm_forward(layer: nn.LayerNorm, flow: Tensor) -> Tensor:
    _batched(flow, len(layer.normalized_shape) + 1)
    return functional.layer_norm(flow, layer.normalized_shape, _fixed(layer.weight), _fixed(layer.bias), layer.eps)


def _layer_norm_write(layer: nn.LayerNorm, before: Tensor, slope: Tensor, places: Places) -> None:
    shape = (len(before), -1, prod(layer.normalized_shape))
    if "weight" in places:
        plain = functional.layer_norm(before, layer.normalized_shape, eps=layer.eps)
        places["weight"].copy_((slope * plain).reshape(shape).sum(dim=1).view_as(places["weight"]))
    if "bias" in places:
        places["bias"].copy_(slope.reshape(shape).sum(dim=1).view_as(places["bias"]))


def _group_norm_forward(layer: nn.GroupNorm, flow: Tensor) -> Tensor:
    return functional.group_norm(
        _batched(flow, 2), layer.num_groups, _fixed(layer.weight), _fixed(layer.bias), layer.eps
    )


def _group_norm_write(layer: nn.GroupNorm, before: Tensor, slope: Tensor, places: Places) -> None:
    shape = (len(before), layer.num_channels, -1)
    if "weight" in places:
        plain = functional.group_norm(before, layer.num_groups, eps=layer.eps)
        places["weight"].copy_((slope * plain).reshape(shape).sum(dim=2))
    if "bias" in places:
        places["bias"].copy_(slope.reshape(shape).sum(dim=2))


_RULES: dict[type[nn.Module], _Rule] = {
    nn.Linear: _Rule(_linear_forward, _linear_write),
    nn.Conv1d: _Rule(_convolution_forward, _convolution_write),
    nn.Conv2d: _Rule(_convolution_forward, _convolution_write),
    nn.LayerNorm: _Rule(_layer_norm_forward, _layer_norm_write),
    nn.GroupNorm: _Rule(_group_norm_forward, _group_norm_write),
}


def _plain_convolution(layer: nn.Conv1d | nn.Conv2d) -> bool:
    return layer.groups == 1 and layer.padding_mode == "zeros" and layer.padding not in ("same", "valid")


# What must hold for a layer of this kind to be known.
_ONLY_IF: dict[type[nn.Module], Callable[[Any], bool]] = {
    nn.Conv1d: _plain_convolution,
    nn.Conv2d: _plain_convolution,
    nn.Flatten: lambda layer: layer.start_dim >= 1,
    nn.Unflatten: lambda layer: isinstance(layer.dim, int) and layer.dim >= 1,
}
