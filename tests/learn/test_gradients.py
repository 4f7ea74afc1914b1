"""The gradients of single records, against one backward pass a record."""

import pytest
import torch
from torch import Tensor, nn

from dither.errors import ParameterError
from dither.learn.gradients import (
    LOSSES,
    Gradients,
    checked_model,
    cross_entropy,
    per_record,
    squared_error,
    trainable,
)

torch.set_num_threads(1)  # the models are small: threads would only wait for each other
N = 7


class Tied(nn.Module):
    """The same matrix there and back."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(3, 6) / 3)
        self.head = nn.Linear(6, 4)

    def forward(self, flow: Tensor) -> Tensor:
        return self.head(torch.tanh(flow @ self.matrix.T) @ self.matrix)


class Words(nn.Module):
    """An embedding, whose inputs are whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 5, padding_idx=0)
        self.head = nn.Linear(5, 4)

    def forward(self, flow: Tensor) -> Tensor:
        return self.head(self.table(flow).mean(dim=1))


class Recurrent(nn.Module):
    """A layer that vmap cannot follow."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.LSTM(2, 3, batch_first=True)
        self.head = nn.Linear(3, 4)

    def forward(self, flow: Tensor) -> Tensor:
        return self.head(self.memory(flow)[0][:, -1])


class Wide(nn.Linear):
    """Not a plain Linear: whatever it does, dither does not know it."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return super().forward(input) * 2


def shared() -> nn.Module:
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(6, 4))


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 4))
    first, middle = model[0], model[2]
    assert isinstance(first, nn.Linear)
    assert isinstance(middle, nn.Linear)
    first.weight.requires_grad_(False)
    middle.weight.requires_grad_(False)
    middle.bias.requires_grad_(False)
    return model


def pictures() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
        nn.GroupNorm(2, 4),
        nn.Sequential(nn.ReLU(), nn.MaxPool2d(2, 1)),
        nn.Conv2d(4, 3, 2, bias=False),
        nn.Flatten(),
        nn.LazyLinear(4),
    )


def waves() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(2, 3, 4, stride=2, padding=3, dilation=2), nn.GELU(), nn.Linear(10, 5), nn.LayerNorm([3, 5]),
        nn.Flatten(), nn.Linear(15, 4, bias=False),
    )  # fmt: skip


CASES = {
    "linear": (lambda: nn.Linear(6, 4), (6,), "layers"),
    "two layers": (lambda: nn.Sequential(nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Linear(5, 4)), (6,), "layers"),
    "pictures": (pictures, (2, 9, 8), "layers"),
    "waves": (waves, (2, 20), "layers"),
    "layer norm": (lambda: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 4)), (6,), "layers"),
    "not affine": (lambda: nn.Sequential(nn.LayerNorm(6, elementwise_affine=False), nn.Linear(6, 4)), (6,), "layers"),
    "sequences": (lambda: nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Flatten(), nn.Linear(20, 4)), (4, 3), "layers"),
    "frozen": (frozen, (6,), "layers"),
    "groups": (lambda: nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.Flatten(), nn.Linear(16, 4)), (4, 4, 4), "vmap"),
    "same padding": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding="same"), nn.Flatten(), nn.Linear(18, 4)), (1, 3, 3), "vmap",
    ),
    "shared": (shared, (6,), "vmap"),
    "tied": (Tied, (6,), "vmap"),
    "subclass": (lambda: nn.Sequential(Wide(6, 4)), (6,), "vmap"),
    "in place": (lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 4)), (6,), "vmap"),
    "recurrent": (Recurrent, (5, 2), "loop"),
}  # fmt: skip


def expected(model: nn.Module, loss, inputs: Tensor, labels: Tensor) -> Tensor:
    rows = []
    for i in range(len(inputs)):
        model.zero_grad()
        loss(model(inputs[i : i + 1]), labels[i : i + 1]).sum().backward()
        grads = [torch.zeros_like(w) if w.grad is None else w.grad for w in trainable(model).values()]
        rows.append(torch.cat([part.flatten() for part in grads]))
    model.zero_grad()
    return torch.stack(rows).detach()


def made(name: str) -> tuple[nn.Module, Tensor, str]:
    torch.manual_seed(3)
    build, shape, way = CASES[name]
    model = build().double()
    inputs = torch.randn(N, *shape, dtype=torch.float64)
    if any(isinstance(layer, nn.LazyLinear) for layer in model.modules()):
        model(inputs)
    return model, inputs, way


@pytest.mark.parametrize("name", CASES)
def test_a_record_has_the_gradient_of_its_own_loss(name):
    model, inputs, way = made(name)
    labels = torch.arange(N) % 4
    gradients = per_record(model, cross_entropy, inputs, labels)
    assert gradients.way == way
    rows = gradients(inputs, labels)
    assert rows.shape == (N, gradients.d)
    assert not rows.requires_grad
    torch.testing.assert_close(rows, expected(model, cross_entropy, inputs, labels), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("way", ["layers", "vmap", "loop"])
@pytest.mark.parametrize("name", ["linear", "pictures", "waves", "frozen"])
def test_three_ways_lead_to_the_same_gradients(name, way):
    model, inputs, _ = made(name)
    labels = torch.arange(N) % 4
    rows = Gradients(model, cross_entropy, way)(inputs, labels)
    torch.testing.assert_close(rows, expected(model, cross_entropy, inputs, labels), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("way", ["layers", "vmap", "loop"])
def test_chunks_are_filled_up_to_one_shape(way, monkeypatch):
    model, inputs, _ = made("pictures")
    labels = torch.arange(N) % 4
    gradients = Gradients(model, cross_entropy, way)
    seen = []
    keep = Gradients.__call__
    monkeypatch.setattr(Gradients, "__call__", lambda self, *some: seen.append(len(some[0])) or keep(self, *some))
    rows = gradients.padded(inputs, labels, 32)
    assert rows.shape == (32, gradients.d)
    torch.testing.assert_close(rows[:N], expected(model, cross_entropy, inputs, labels), rtol=1e-10, atol=1e-12)
    assert gradients.padded(inputs[:0], labels[:0], 32).shape == (32, gradients.d)
    assert seen == ([N] if way == "loop" else [32, 32])
    for size in (0, 20):
        with pytest.raises(ParameterError, match="multiple of 32"):
            gradients.padded(inputs, labels, size)


def test_whole_numbers_are_looked_up():
    torch.manual_seed(1)
    model, inputs, labels = Words(), torch.randint(0, 9, (N, 3)), torch.arange(N) % 4
    gradients = per_record(model, cross_entropy, inputs, labels)
    torch.testing.assert_close(gradients(inputs, labels), expected(model, cross_entropy, inputs, labels))


@pytest.mark.parametrize("outputs", [1, 3])
def test_squared_errors(outputs):
    torch.manual_seed(1)
    model, inputs = nn.Linear(4, outputs).double(), torch.randn(N, 4).double()
    labels = torch.randn(N).double() if outputs == 1 else torch.randn(N, 3).double()
    rows = per_record(model, squared_error, inputs, labels)(inputs, labels)
    error = (model(inputs) - labels.reshape(N, -1)).detach()
    wanted = torch.cat([(error[:, :, None] * inputs[:, None, :]).flatten(1), error], dim=1)
    torch.testing.assert_close(rows, wanted)


def test_any_loss_of_a_record():
    model, inputs, _ = made("linear")
    labels = torch.arange(N) % 4

    def margin(outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs.logsumexp(dim=1) - outputs.gather(1, labels[:, None])[:, 0]) * 3

    gradients = per_record(model, margin, inputs, labels)
    assert gradients.way == "vmap"  # dither does not know whether a loss looks along the batch
    torch.testing.assert_close(gradients(inputs, labels), 3 * expected(model, cross_entropy, inputs, labels))


class Mixing(nn.Module):
    """Looks at the whole batch."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 4).double()

    def forward(self, flow: Tensor) -> Tensor:
        return self.head(flow + flow.mean(dim=0))


@pytest.mark.parametrize(
    "model", [Mixing(), nn.Sequential(nn.Linear(6, 4).double(), nn.Flatten(0), nn.Unflatten(0, (-1, 4)))]
)
def test_records_cannot_meet_in_a_model_that_is_not_known(model):
    inputs, labels = torch.randn(N, 6).double(), torch.arange(N) % 4
    gradients = per_record(model, cross_entropy, inputs, labels)
    assert gradients.way != "layers"
    other = inputs.clone()
    other[1:] *= -5
    assert torch.equal(gradients(inputs, labels)[0], gradients(other, labels)[0])


class Counting(nn.Module):
    """Leaves something of the records in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 4)
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, flow: Tensor) -> Tensor:
        self.seen += flow.detach().mean(dim=0)
        return self.head(flow)


@pytest.mark.parametrize("name", ["shared", "tied", "frozen"])
@pytest.mark.parametrize("way", ["vmap", "loop"])
def test_the_model_keeps_its_parameters(name, way):
    model, inputs, _ = made(name)
    before = dict(model.named_parameters(remove_duplicate=False))
    Gradients(model, cross_entropy, way)(inputs, torch.arange(N) % 4)
    after = dict(model.named_parameters(remove_duplicate=False))
    assert all(after[place] is weight for place, weight in before.items())


def test_nothing_is_left_in_buffers():
    model = Counting()
    inputs, labels = torch.randn(N, 6), torch.arange(N) % 4
    per_record(model, cross_entropy, inputs, labels)(inputs, labels)
    assert not any(buffer.any() for buffer in model.buffers())


def test_hooks_of_others_keep_records_apart():
    model = nn.Sequential(nn.Linear(6, 4))
    model[0].register_forward_hook(lambda layer, given, output: output - output.mean(dim=0))
    gradients = per_record(model, cross_entropy, torch.randn(N, 6), torch.arange(N) % 4)
    assert gradients.way != "layers"
    assert not gradients(torch.randn(N, 6), torch.arange(N) % 4)[:, :24].abs().gt(9).any()


@pytest.mark.parametrize("way", ["layers", "vmap"])
def test_dropout_is_drawn_for_each_record(way):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(40, 2, bias=False))
    rows = Gradients(model, cross_entropy, way)(torch.ones(N, 40), torch.zeros(N, dtype=torch.long))
    assert len({tuple((row != 0).tolist()) for row in rows}) == N


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), "layer 1 is BatchNorm1d, .* nn.GroupNorm or nn.LayerNorm"),
        (nn.Sequential(nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False))), "layer 0.0 is BatchNorm2d"),
        (nn.BatchNorm1d(3).eval(), "layer BatchNorm1d is BatchNorm1d"),
        (nn.Sequential(nn.SyncBatchNorm(3)), "layer 0 is SyncBatchNorm"),
        (nn.Sequential(nn.InstanceNorm1d(3, track_running_stats=True)), r"layer 0 \(InstanceNorm1d\) keeps running"),
        (nn.Linear(2, 2).requires_grad_(False), "no parameters to train"),
        (nn.Tanh(), "no parameters to train"),
        (nn.Linear(2, 2).half(), "model.float"),
        (nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double()), "all float32 or all float64"),
        (nn.LazyLinear(3), "has no size yet"),
        ("a model", "must be a torch.nn.Module, not str"),
    ],
)  # fmt: skip
def test_models_that_are_refused(model, words):
    with pytest.raises(ParameterError, match=words):
        checked_model(model)


def test_instance_normalisation_without_statistics_is_record_wise():
    checked_model(nn.Sequential(nn.InstanceNorm1d(3, affine=True)))


def test_records_that_the_model_does_not_take():
    with pytest.raises(ParameterError, match="do not take these records"):
        per_record(nn.Linear(3, 2), LOSSES["cross_entropy"], torch.zeros(2, 4), torch.zeros(2, dtype=torch.long))
