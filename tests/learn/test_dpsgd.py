"""DP-SGD: the bound in integers, the coins, the noise, the guarantee, and what is refused.

Statistical tests use fixed seeds; their thresholds are 6 standard deviations of a normal law (2e-9 each) or wider.
"""

import math
import pickle
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.randomness import Stream
from dither.errors import DomainError, ParameterError, RowError
from dither.learn.clipping import BOUNDS, AutoS, Clipped, Flat, Normalised, exact_sum, noise_floor, quantised_gradients
from dither.learn.dpsgd import DPSGD, _Training, chunk
from dither.learn.gradients import Gradients, cross_entropy
from dither.learn.labelled_records import LabelledRecords
from dither.learn.lattice_noise import SPARE, LatticeNoise
from dither.learn.lattice_noise import quantised_rows as quantised_arrays
from dither.privacy import noise_multiplier, subsampled_gaussian
from marks import wide

torch.set_num_threads(1)  # the models are small: threads would only wait for each other
SIGMAS = 6
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}


def linear(inputs: int = 3, outputs: int = 2, bias: bool = True) -> nn.Linear:
    """Zero weights: nothing is drawn by torch."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.zero_()
    return layer


def people(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    return rng.normal(0, 1, (n, 3)) + 2 * labels[:, None], labels


def training(asked: DPSGD, inputs, labels) -> _Training:
    model = asked._model
    return _Training(
        asked, model, LabelledRecords.of(model, asked.loss, inputs, labels), None, asked._stream(), lambda _: None
    )


def weights(fitted: DPSGD) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in fitted.model.parameters()])


# The bound


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("d", "radius"), [(1, 32), (2, 64), (50, 256), (3000, 2048), (70_000, 16_384), (9, 2), (100, 5)]
)
def test_no_row_is_longer_than_the_radius_in_exact_integers(kind, d, radius):
    generator = torch.Generator().manual_seed(d)
    normal = torch.randn(12, d, generator=generator, dtype=kind)
    rows = torch.cat([
        normal, normal * 1e20, normal.sign(), torch.eye(1, d, dtype=kind) * 7, torch.full((1, d), 1e-3, dtype=kind),
        torch.zeros(1, d, dtype=kind), torch.linspace(-1, 1, d, dtype=kind)[None],
    ])  # fmt: skip
    for bound in (Flat(0.5), Flat(1e-3), AutoS(), Normalised()):
        given = rows.clone()
        found = quantised_gradients(given, bound.factors(torch.linalg.vector_norm(given, dim=1)), radius)
        whole = found.to(torch.int64)
        assert torch.equal(whole.to(kind), found)
        assert (whole.square().sum(dim=1) <= radius**2).all()


@pytest.mark.parametrize("factor", [1.0, 1.01, 3.0, 1e30, math.inf])
def test_rows_that_claim_to_be_short_are_shortened(factor):
    rows = torch.nn.functional.normalize(torch.arange(1.0, 41.0).reshape(2, 20), dim=1)
    found = quantised_gradients(rows.clone(), torch.full((2,), factor), 100).long()
    assert (found.square().sum(dim=1) <= 100**2).all()
    assert factor == math.inf or (found.square().sum(dim=1) > 80**2).all()


def test_rounding_is_to_the_nearest_and_costs_little():
    rows = torch.nn.functional.normalize(torch.randn(50, 650, generator=torch.Generator().manual_seed(1)), dim=1)
    found = quantised_gradients(rows.clone(), torch.ones(50), 1024)
    norms = torch.linalg.vector_norm(found.double(), dim=1)
    assert (norms > 0.995 * 1024).all()
    aim = (rows * (found * rows).sum(dim=1, keepdim=True)).double()
    assert ((found - aim).abs() <= 0.6).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", BOUNDS)
def test_what_is_not_finite_contributes_zero(bad, name):
    rows = torch.ones(3, 4)
    rows[1, 2] = bad
    found = quantised_gradients(rows, BOUNDS[name]().factors(torch.linalg.vector_norm(rows, dim=1)), 64)
    assert not found[1].any()
    assert torch.equal(found[0], found[2])
    assert found[0].all()


@pytest.mark.parametrize("bound", [Flat(0.3), Flat(7.0), AutoS(), AutoS(2.0), Normalised()])
def test_bounds_keep_the_length_one(bound):
    norms = torch.logspace(-20, 20, 200, dtype=torch.float64)
    lengths = bound.factors(norms) * norms
    assert (lengths <= 1 + 1e-12).all()
    assert lengths[-1] > 0.999
    assert lengths.diff().min() >= -1e-12


def test_bounds_by_their_formulas():
    norms = torch.tensor([0.0, 0.1, 5.0], dtype=torch.float64)
    assert (Flat(0.5).factors(norms) * norms * 0.5).tolist() == [0.0, 0.1, 0.5]
    assert torch.allclose(AutoS(0.01).factors(norms) * norms, norms / (norms + 0.01))
    assert (Normalised().factors(norms) * norms).tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_sums_are_exact(kind):
    radius = (1 << 22) - 1
    rows = torch.randint(-radius, radius, (600, 5), generator=torch.Generator().manual_seed(1)).to(kind)
    for part in (rows[:3], rows):
        assert exact_sum(part, radius).tolist() == part.long().sum(dim=0).tolist()
    assert exact_sum(rows[:0], radius).tolist() == [0] * 5


def test_a_lattice_too_fine_for_the_floats_is_refused():
    with pytest.raises(ParameterError, match=r"model\.double"):
        quantised_gradients(torch.ones(1, 2), torch.ones(1), 1 << 24)


# Neighbours


@pytest.mark.parametrize("clipping", BOUNDS)
@pytest.mark.parametrize(
    "model", [linear(), nn.Sequential(linear(3, 4), nn.Tanh(), nn.Linear(4, 2))], ids=["one", "two"]
)
def test_one_record_moves_the_sum_by_at_most_the_radius(clipping, model):
    inputs, labels = people(40)
    inputs[3] *= 1e6
    inputs[5] = 0
    run = training(DPSGD(model.double(), **BUDGET, batch=40, steps=1, clipping=clipping, seed=1), inputs, labels)
    whole = run.total(torch.arange(40))
    moves = []
    for gone in range(40):
        move = (whole - run.total(torch.tensor([i for i in range(40) if i != gone]))).tolist()
        moves.append(sum(entry**2 for entry in move))
    assert max(moves) <= run.perturbation.radius**2
    assert max(moves) > 0.8 * run.perturbation.radius**2


def test_each_record_is_bounded_by_itself():
    """Two opposite records cancel; clipping the gradient of their mean would leave a third one unbounded."""
    inputs = np.array([[1e9, 0, 0], [1e9, 0, 0], [0, 1e9, 0]])
    run = training(DPSGD(linear(bias=False).double(), **BUDGET, batch=3, steps=1, seed=1), inputs, [0, 1, 0])
    total, radius = run.total(torch.arange(3)), run.perturbation.radius
    assert total[[0, 3]].tolist() == [0, 0]
    assert abs(math.hypot(*total) - radius) < 0.02 * radius


def test_a_record_that_is_not_finite_is_as_if_it_were_not_there():
    inputs, labels = people(20)
    asked = DPSGD(linear().double(), **BUDGET, batch=20, steps=1, seed=1)
    clean = training(asked, inputs, labels).total(torch.tensor([i for i in range(20) if i not in (4, 9)]))
    inputs[4], inputs[9, 0] = np.nan, np.inf
    assert training(asked, inputs, labels).total(torch.arange(20)).tolist() == clean.tolist()


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_a_sum_does_not_depend_on_the_cut(at_once):
    inputs, labels = people(50)
    asked = DPSGD(linear().double(), **BUDGET, batch=50, steps=1, seed=1, microbatch=at_once)
    whole = training(DPSGD(linear().double(), **BUDGET, batch=50, steps=1, seed=1), inputs, labels)
    assert training(asked, inputs, labels).total(torch.arange(50)).tolist() == whole.total(torch.arange(50)).tolist()


def test_gradients_are_made_a_few_at_a_time(monkeypatch):
    seen = []
    keep = Clipped.contributions

    def watch(self, gradients):
        seen.append(len(gradients))
        return keep(self, gradients)

    monkeypatch.setattr(Clipped, "contributions", watch)
    DPSGD(linear(), **BUDGET, batch=60, steps=1, seed=1, microbatch=25).fit(*people(60))
    assert seen == [32, 32]


# Floats: who else is in the batch does not change a bit


def perceptron(kind: torch.dtype) -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2)).to(kind), (64,)


def crooked(kind: torch.dtype) -> tuple[nn.Module, tuple[int, ...]]:
    """Widths that do not fill whole vectors of the processor."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(37, 53), nn.ELU(), nn.Linear(53, 2)).to(kind), (37,)


def network(kind: torch.dtype) -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 6, 5, 2), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(6, 8, 3), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(32, 2)).to(kind), (1, 14, 14)


def saturated(model: nn.Module, shape: tuple[int, ...], kind: torch.dtype, count: int) -> tuple[Tensor, Tensor]:
    """Records at the edge where the right class's gradient is lost in rounding: all that is left of it is one ulp."""
    found, generator = [], torch.Generator().manual_seed(5)
    for _ in range(300):
        record = torch.randn(1, *shape, generator=generator, dtype=kind)
        label = int(model(record * 1e3)[0].argmax())

        def lost(scale: float, record: Tensor = record, label: int = label) -> bool:
            scores = model(record * scale).detach().requires_grad_()
            loss = nn.functional.cross_entropy(scores, torch.tensor([label]))
            return float(torch.autograd.grad(loss, scores)[0][0, label]) == 0

        low, high = 1.0, 3000.0
        if lost(low) or not lost(high):
            continue
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if lost(middle) else (middle, high)
        eps = torch.finfo(kind).eps
        found += [(record * (high * (1 + j * eps)), label) for j in range(-4, 5)]
        if len(found) >= count:
            break
    assert len(found) >= count
    return torch.cat([record for record, _ in found[:count]]), torch.tensor([label for _, label in found[:count]])


def rows_of(run: _Training, chosen: list[int]) -> dict[int, Tensor]:
    """What the records contribute, by the path that `fit` takes."""
    return dict(zip(chosen, torch.cat(list(run.contributions(torch.tensor(chosen)))), strict=True))


@pytest.mark.wide
@pytest.mark.parametrize(
    "bound", [wide(Flat(1.0)), AutoS(1e-6), wide(Normalised())], ids=["flat", "auto", "normalised"]
)
@pytest.mark.parametrize("kind", [torch.float32, wide(torch.float64)])
@pytest.mark.parametrize(
    ("build", "way"), [(perceptron, "layers"), (perceptron, "vmap"), (crooked, "layers"), (network, "layers")]
)
def test_others_contribute_the_same_bits_whoever_is_there(build, way, kind, bound, monkeypatch):
    # Without the floor, so that an ulp is blown up to the full length: only the fixed shape is at work.
    monkeypatch.setattr("dither.learn.clipping.noise_floor", lambda gradients: 0.0)
    model, shape = build(kind)
    n = 68
    inputs, labels = saturated(model, shape, kind, n)
    asked = DPSGD(model, **BUDGET, batch=n, steps=1, perturb=bound, microbatch=32, seed=1)
    run = training(asked, inputs, labels)
    run.gradients = Gradients(run.model, cross_entropy, way)
    everybody = list(range(n))
    rows = rows_of(run, everybody)
    generator = np.random.default_rng(3)
    batches = [[i for i in everybody if i != gone] for gone in range(0, n, 8)]  # one leaves
    batches += [generator.permutation(n).tolist() for _ in range(3)]  # all move
    batches += [generator.permutation(n)[:size].tolist() for size in (1, 2, 5, 17, 31, 33)]  # few remain
    for batch in batches:
        assert all(torch.equal(rows[i], row) for i, row in rows_of(run, batch).items())
    for changed in (0, 33):  # one is somebody else
        other = inputs.clone()
        other[changed] *= -1e3
        again = training(asked, other, labels)
        again.gradients = Gradients(again.model, cross_entropy, way)
        found = rows_of(again, everybody)
        assert all(torch.equal(rows[i], found[i]) for i in everybody if i != changed)


def test_chunks_have_one_shape_that_only_public_numbers_decide(monkeypatch):
    seen = []
    keep = Clipped.contributions

    def watch(self, gradients):
        seen.append(tuple(gradients.shape))
        return keep(self, gradients)

    monkeypatch.setattr(Clipped, "contributions", watch)
    run = training(DPSGD(linear(), **BUDGET, batch=30, steps=1, seed=1), *people(60))
    for size in (0, 1, 7, 29, 30, 31, 47, 60):
        rows = torch.cat(list(run.contributions(torch.arange(size))))
        assert len(rows) == size
    assert set(seen) == {(64, 8)}  # 30 and two deviations
    for batch, d, asked, size in [
        (1, 10, None, 32), (256, 9610, None, 288), (2048, 26_010, None, 96), (100, 1 << 26, None, 32),
        (5000, 1, None, 480), (9, 9, 1, 32), (9, 9, 32, 32), (9, 9, 33, 64),
    ]:  # fmt: skip
        assert chunk(batch, d, asked) == size


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_rounding_errors_have_no_direction(kind):
    d = 400
    floor = noise_floor(torch.zeros(1, d, dtype=kind))
    assert floor == pytest.approx(8 * torch.finfo(kind).eps * 20)
    rows = torch.ones(3, d, dtype=kind) / 20 * torch.tensor([[0.9], [1.1], [0.0]], dtype=kind) * floor
    lengths = []
    for bound in (AutoS(1e-30), Normalised(), Flat(1e-20)):
        made = Clipped(bound, LatticeNoise(d, bound.clip, 1.0), 1)
        found = made.contributions(rows.clone())
        lengths.append((torch.linalg.vector_norm(found.double(), dim=1) / made.radius > 0.9).tolist())
    assert lengths == [[False, True, False], [False, True, False], [True, True, False]]
    assert not Clipped(Normalised(), LatticeNoise(d, 1.0, 1.0), 1).contributions(rows[:1].clone()).any()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize(("d", "radius"), [(1, 32), (2, 64), (50, 256), (3000, 2048), (9, 2), (100, 5), (200, 30)])
def test_tensors_and_arrays_become_the_same_integers(kind, d, radius):
    generator = torch.Generator().manual_seed(d)
    normal = torch.randn(40, d, generator=generator, dtype=kind)
    rows = torch.cat([normal, normal * 1e20, normal * 1e-20, normal.sign(), torch.zeros(1, d, dtype=kind)])
    rows[3, 0], rows[4, -1], rows[5] = math.nan, math.inf, -math.inf
    norms = torch.linalg.vector_norm(rows.double(), dim=1).to(kind)
    for factors in (Flat(1.0).factors(norms), Normalised().factors(norms), 3 / norms, torch.full_like(norms, 1e9)):
        found = quantised_gradients(rows.clone(), factors, radius)
        specified = quantised_arrays(rows.numpy(), factors.numpy(), radius)
        assert found.long().tolist() == specified.tolist()
        assert (specified**2).sum(axis=1).max() <= radius**2


# Coins


def test_every_record_joins_by_its_own_coin():
    n, batch, steps = 400, 30, 400
    run = training(DPSGD(linear(), **BUDGET, batch=batch, steps=steps, seed=5), *people(n))
    joined = np.zeros((steps, n), dtype=bool)
    for step in range(steps):
        joined[step, run.sampled(step)] = True
    q = batch / n
    tolerance = SIGMAS * math.sqrt(q * (1 - q) / (n * steps))
    assert abs(joined.mean() - q) < tolerance
    # Sizes vary as coins make them vary, and no record is preferred.
    spread = n * q * (1 - q)
    assert abs(joined.sum(axis=1).var() / spread - 1) < SIGMAS * math.sqrt(2 / steps)
    assert abs(joined.sum(axis=0).var() / (steps * q * (1 - q)) - 1) < SIGMAS * math.sqrt(2 / n)
    assert run.sampled(3).tolist() == np.flatnonzero(joined[3]).tolist()


def test_the_coin_is_an_integer_below_the_batch():
    run = training(DPSGD(linear(), **BUDGET, batch=7, steps=3, seed=5), *people(50))
    coins = Stream.seeded(5, "dpsgd").spawn("coins").below(50, 50, first=100)
    assert run.sampled(2).tolist() == np.flatnonzero(coins < 7).tolist()


def test_a_full_batch_holds_everybody():
    run = training(DPSGD(linear(), **BUDGET, batch=50, steps=3, seed=5), *people(50))
    assert run.sampled(1).tolist() == list(range(50))


@pytest.mark.wide
def test_an_empty_batch_is_a_step_of_noise():
    fitted = DPSGD(linear(), **BUDGET, batch=1, steps=8, seed=2).fit(*people(500))
    assert weights(fitted).isfinite().all()
    run = training(DPSGD(linear(), **BUDGET, batch=1, steps=1, seed=2), *people(500))
    assert run.total(torch.arange(0)).tolist() == [0] * 8


# Noise


@pytest.mark.parametrize(
    ("clip", "batch", "clipping"),
    [(1.0, 10, "flat"), wide(0.1, 20, "flat"), wide(1.0, 10, "auto")],
)
def test_noise_of_the_whole_training(clip, batch, clipping):
    """All gradients are zero: a step is the noise, over the expected batch."""
    asked = DPSGD(
        linear(5000, 1, bias=False), **BUDGET, batch=batch, steps=1, rate=1.0, clip=clip, clipping=clipping,
        loss="squared_error", seed=4,
    )  # fmt: skip
    fitted = asked.fit(np.zeros((20, 5000)), np.zeros(20))
    moved = weights(fitted).double().numpy()
    multiplier = noise_multiplier(1.0, 1e-5, batch / 20, 1)
    deviation = multiplier * clip / batch
    assert abs(moved.std() / deviation - 1) < SIGMAS / math.sqrt(2 * 5000)
    assert abs(moved.mean()) < SIGMAS * deviation / math.sqrt(5000)


@pytest.mark.wide
def test_steps_have_noise_of_their_own():
    asked = DPSGD(linear(2000, 1, bias=False), **BUDGET, batch=20, steps=2, loss="squared_error", seed=4)
    run = training(asked, np.zeros((20, 2000)), np.zeros(20))
    first, second = (run.perturbation.release(np.zeros(2000, dtype=np.int64), step, run.noise) for step in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < SIGMAS / math.sqrt(2000)


# The guarantee


@pytest.mark.parametrize(("batch", "steps"), [(60, 5), (6, 40)])
@pytest.mark.parametrize("clipping", BOUNDS)
def test_the_guarantee_is_that_of_the_subsampled_gaussian(batch, steps, clipping):
    fitted = DPSGD(linear(), epsilon=2.0, delta=1e-5, batch=batch, steps=steps, clipping=clipping).fit(*people(60))
    assert isinstance(fitted.perturbation, Clipped)
    noise = fitted.perturbation.noise
    oracle = subsampled_gaussian(noise.multiplier, batch / 60, steps, 1e-5 * (1 - SPARE))
    assert fitted.guarantee == Guarantee(oracle.epsilon, 1e-5, "bound", model="central", neighbours="add-remove")
    assert 1.99 < fitted.guarantee.epsilon <= 2.0
    assert noise == LatticeNoise(8, 1.0, noise_multiplier(2.0, 1e-5 * (1 - SPARE), batch / 60, steps), steps)


def test_epochs_are_steps():
    fitted = DPSGD(linear(), **BUDGET, batch=7, epochs=2.5, seed=1).fit(*people(60))
    assert fitted.fitted.steps == math.ceil(2.5 * 60 / 7)


def test_a_seed_makes_a_simulation():
    fitted = DPSGD(linear(), **BUDGET, batch=60, steps=2, seed=1).fit(*people())
    assert fitted.guarantee is NO_GUARANTEE
    assert fitted.promised.epsilon <= 1
    assert "no guarantee" in fitted.explain()


def test_the_guarantee_tells_what_was_run():
    fitted = DPSGD(linear(), **BUDGET, batch=60, steps=2, seed=1).fit(*people())
    fitted.seed = None
    assert fitted.guarantee is NO_GUARANTEE
    assert "Without the seed" in fitted.explain()
    real = DPSGD(linear(), **BUDGET, batch=60, steps=2).fit(*people())
    before = real.guarantee
    real.seed = 1
    assert real.guarantee == before
    assert "Without the seed" not in real.explain()
    real.fit(*people())  # the same records, and now whoever knows the seed knows the noise
    assert real.guarantee is NO_GUARANTEE
    real.seed = None
    assert real.fit(*people(), disjoint=True).guarantee is NO_GUARANTEE
    assert not real.promised.simulated


@pytest.mark.wide
def test_fits_add_up_unless_they_are_of_others():
    fitted = DPSGD(linear(), **BUDGET, batch=60, steps=2).fit(*people())
    one = fitted.guarantee
    assert fitted.fit(*people(seed=3), disjoint=True).guarantee == one
    two = fitted.fit(*people()).guarantee
    assert two == Guarantee(2 * one.epsilon, 2e-5, "bound", model=one.model, neighbours=one.neighbours)
    assert fitted.promised == one
    assert "Guarantee of all 3 fits: epsilon 1.99" in fitted.explain()
    assert fitted.fit(*people(seed=4), disjoint=True).guarantee == two
    assert pickle.loads(pickle.dumps(fitted)).fit(*people()).guarantee.epsilon == pytest.approx(3 * one.epsilon)


def test_a_fit_that_is_broken_off_counts_and_one_that_is_refused_does_not():
    def rate(step: int) -> float:
        if broken and step:
            raise KeyboardInterrupt
        return 0.5

    broken = False
    fitted = DPSGD(linear(), **BUDGET, batch=60, steps=2, rate=rate).fit(*people())
    one, model = fitted.guarantee, fitted.model
    with pytest.raises(RowError):
        fitted.fit(people()[0], np.full(60, 9))
    assert fitted.guarantee == one
    broken = True
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(*people())
    assert fitted.guarantee.epsilon == 2 * one.epsilon
    assert fitted.model is model


@pytest.mark.wide
def test_the_rate_of_the_account_is_never_below_that_of_the_coins():
    for batch, n in [(1, 3), (5, 49), (1, 49), (7, 60), (60, 60)]:
        run = training(DPSGD(linear(), **BUDGET, batch=batch, steps=1, seed=1), *people(n))
        assert Fraction(batch, n) <= Fraction(run.share) <= Fraction(batch, n) * (1 + Fraction(1, 1 << 52))
    assert Fraction(1 / 3) < Fraction(1, 3)  # so there is something to round up


def test_so_much_noise_that_nothing_would_be_left_is_refused():
    asked = DPSGD(linear(40_000), epsilon=0.002, delta=1e-9, batch=10, steps=10)
    with pytest.raises(ParameterError, match="larger epsilon, fewer steps, a smaller batch or a smaller model"):
        asked.fit(np.zeros((10, 40_000), dtype=np.float32), np.zeros(10, dtype=int))


def test_a_seed_repeats_everything_and_nothing_else_does():
    def run(seed: int | None) -> list[float]:
        torch.rand(1)  # what torch drew before does not matter
        model = nn.Sequential(nn.Dropout(0.5), linear())
        return weights(DPSGD(model, **BUDGET, batch=60, steps=3, seed=seed).fit(*people())).tolist()

    assert run(1) == run(1) != run(2)
    assert run(None) != run(None)


def test_torch_goes_on_as_if_nothing_had_been():
    asked = DPSGD(nn.Sequential(nn.Dropout(0.5), linear()), **BUDGET, batch=60, steps=2)
    before = torch.get_rng_state()
    asked.fit(*people())
    assert torch.equal(torch.get_rng_state(), before)


# Steps


class Constant:
    """A perturbation that releases the same step always, and knows what it was asked."""

    radius = 1

    def __init__(self, epsilon: float = 1.0) -> None:
        self.epsilon = epsilon

    def contributions(self, gradients: Tensor) -> Tensor:
        return torch.zeros(len(gradients), 1)

    def release(self, total: np.ndarray, step: int, stream: Stream) -> np.ndarray:
        assert total.tolist() == [0]
        return np.ones(8)

    def guarantee(self, rate: float, steps: int, delta: float) -> Guarantee:
        return Guarantee(self.epsilon, delta, "bound")


def path(**settings) -> Any:
    """Where a weight is after the training, if every step is 1."""
    fitted = DPSGD(linear(), **BUDGET, batch=20, steps=4, perturb=Constant(), **settings).fit(*people(20))
    found = weights(fitted)
    assert torch.allclose(found, found[0])
    return pytest.approx(float(found[0]))


def test_momentum_schedules_and_averages():
    assert path(rate=0.5) == -2.0
    assert path(rate=lambda step: step) == -6.0
    assert path(rate=1.0, momentum=0.5) == -(1 + 1.5 + 1.75 + 1.875)
    assert path(rate=1.0, average=1.0) == -2.5
    assert path(rate=1.0, average=0.5) == -3.5


def test_a_recipe_is_told_all_that_is_known():
    told = []

    def recipe(*given):
        told.append(given)
        return Constant()

    DPSGD(linear(), **BUDGET, batch=5, steps=4, perturb=recipe).fit(*people(20))
    assert told == [(8, 1.0, 1e-5, 0.25, 4, 5)]


def test_a_perturbation_must_keep_the_target():
    with pytest.raises(ParameterError, match="does not keep epsilon"):
        DPSGD(linear(), **BUDGET, batch=5, steps=4, perturb=Constant(1.1)).fit(*people(20))


def test_frozen_parameters_stay_and_others_move():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    fitted = DPSGD(model, **BUDGET, batch=60, steps=3).fit(*people())
    old, new = list(model.parameters()), list(fitted.model.parameters())
    assert [torch.equal(a, b) for a, b in zip(old, new, strict=True)] == [True, True, False, False]


def test_the_model_that_was_given_is_not_touched():
    model = linear()
    fitted = DPSGD(model, **BUDGET, batch=60, steps=3).fit(*people())
    assert not any(weight.any() for weight in model.parameters())
    first = weights(fitted)
    fitted.fit(*people())  # starts again, and does not go on
    assert not torch.equal(weights(fitted), first)


def test_learns_digits():
    pixels, labels = load_digits(return_X_y=True)
    inputs = (pixels - pixels.mean(axis=1, keepdims=True)) / pixels.std(axis=1, keepdims=True)
    test = np.arange(len(inputs)) % 5 == 0
    asked = DPSGD(
        linear(64, 10), epsilon=3.0, delta=1e-5, batch=int((~test).sum()), steps=50, rate=0.5, momentum=0.9,
        average=0.3, clipping="auto", seed=1,
    )  # fmt: skip
    fitted = asked.fit(inputs[~test], labels[~test], progress=False)
    assert fitted.score(inputs[test], labels[test]) > 0.88
    assert fitted.predict(inputs[:5]).shape == (5,)


def test_learns_numbers():
    rng = np.random.default_rng(1)
    inputs = rng.uniform(-1, 1, (2000, 3))
    labels = inputs @ [1.0, -2.0, 0.5] + 0.3
    asked = DPSGD(
        linear(3, 1), epsilon=4.0, delta=1e-5, batch=2000, steps=40, rate=0.5, momentum=0.5, average=0.3, clip=2.0,
        loss="squared_error", seed=1,
    )  # fmt: skip
    assert asked.fit(inputs, labels).score(inputs, labels) > 0.95
    assert asked.predict(inputs[:4]).shape == (4, 1)


# What is shown, and what is kept


@pytest.mark.wide
def test_the_training_loss_is_shown_in_simulations_only():
    settings = {**BUDGET, "batch": 60, "steps": 40}
    public = people(30, seed=9)
    simulated = DPSGD(linear(), **settings, seed=1).fit(*people(), validation=public).history
    assert list(simulated.columns) == [
        "step", "rate", "training loss (not private)", "validation loss", "validation score",
    ]  # fmt: skip
    assert simulated.columns["step"] == list(range(2, 41, 2))
    assert list(DPSGD(linear(), **settings).fit(*people(), validation=public).history.columns) == [
        "step", "rate", "validation loss", "validation score",
    ]  # fmt: skip
    assert list(DPSGD(linear(), **settings).fit(*people()).history.columns) == ["step", "rate"]


def test_looking_at_a_validation_set_changes_nothing():
    def run(**more) -> list[float]:
        asked = DPSGD(linear(), **BUDGET, batch=60, steps=5, average=0.5, seed=3)
        return weights(asked.fit(*people(), **more)).tolist()

    assert run() == run(validation=people(30, seed=9))


def test_pickles_hold_no_records():
    inputs, labels = people()
    inputs[:, 1] = mark = 0.123456789012345
    fitted = pickle.loads(pickle.dumps(DPSGD(linear().double(), **BUDGET, batch=60, steps=3).fit(inputs, labels)))
    kept = pickle.dumps(fitted)
    assert struct.pack("<d", mark) not in kept
    assert inputs[0].tobytes() not in kept
    assert fitted.guarantee.epsilon <= 1
    assert fitted.predict(inputs).shape == (60,)


def test_words():
    asked = DPSGD(linear(), **BUDGET, batch=20, steps=3)
    assert repr(asked) == "DPSGD(epsilon=1, delta=1e-05, batch=20, steps=3)"
    assert "Nothing is trained yet" in asked.explain()
    asked.fit(*people())
    assert repr(asked).endswith("steps=3, fitted)")
    text = asked.explain()
    assert "with probability 0.3333" in text
    assert "cut to a length of at most 1; Gaussian noise of" in text
    assert "Guarantee: epsilon 0.99" in text
    assert "Not accounted: settings tuned on the same records" in text
    assert "epochs=2" in repr(DPSGD(linear(), **BUDGET, batch=20, epochs=2, seed=1))


# Bad input


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": None}, "epsilon is missing"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"delta": None}, "delta is missing"),
        ({"delta": 0.0}, "above 0"),
        ({"delta": 1.5}, "delta must be"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"batch": 2.5}, "batch must be a whole number"),
        ({"steps": None}, "either epochs or steps"),
        ({"epochs": 3}, "either epochs or steps"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"steps": None, "epochs": -1.0}, "epochs must be"),
        ({"rate": -1.0}, "rate must be"),
        ({"rate": math.inf}, "rate must be"),
        ({"clip": 0.0}, "clip must be a finite number above 0"),
        ({"clip": math.nan}, "clip must be"),
        ({"clipping": "none"}, "clipping must be one of flat, auto, normalised"),
        ({"perturb": "laplace"}, "perturb must be"),
        ({"perturb": 3}, "perturb must be"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"momentum": 1.0}, "momentum must be"),
        ({"average": 1.5}, "average must be .* at most 1"),
        ({"microbatch": 0}, "microbatch must be at least 1"),
        ({"seed": "yes"}, "seed must be a whole number"),
        ({"model": nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))}, "layer 1 is BatchNorm1d"),
        ({"model": None}, "must be a torch.nn.Module"),
    ],
)
def test_settings_that_are_refused_before_any_record_is_seen(change, words):
    given = {"model": linear(), **BUDGET, "batch": 20, "steps": 3, **change}
    with pytest.raises(ParameterError, match=words):
        DPSGD(**given)


@pytest.mark.parametrize("labels", [[0, 1, 77], [0, -77, 1], [0, 1, 0.77], [0, 1, math.nan]])
def test_labels_outside_the_domain_are_named_by_their_row(labels):
    with pytest.raises(RowError, match=r"attribute labels, row [12]: must be a whole number from 0 to 1") as caught:
        DPSGD(linear(), **BUDGET, batch=2, steps=1).fit(np.zeros((3, 3)), labels)
    assert "77" not in str(caught.value)
    assert "nan" not in str(caught.value)


@pytest.mark.parametrize(
    ("inputs", "labels", "words"),
    [
        (np.zeros((3, 3)), [0, 1], "one label for each record"),
        (np.zeros((3, 3)), [[0], [1], [1]], "labels: each must be a whole number"),
        (np.zeros((3, 3)), [True, False, True], "labels: each must be a whole number"),
        (np.zeros((3, 3)), ["secret", "b", "c"], "labels must be numbers"),
        (np.zeros((3, 3)), 1, "one label for each record"),
        (np.zeros(3), [0, 1, 1], "inputs must be rows"),
        (np.zeros((0, 3)), [], "at least one"),
        ([["secret", "b"], ["c", "d"]], [0, 1], "inputs must be numbers"),
    ],
)
def test_records_that_are_refused(inputs, labels, words):
    with pytest.raises(DomainError, match=words) as caught:
        DPSGD(linear(), **BUDGET, batch=2, steps=1).fit(inputs, labels)
    assert "secret" not in str(caught.value)


def test_a_number_that_is_none_is_no_label_of_a_regression():
    with pytest.raises(RowError, match="row 1: must be a finite number"):
        DPSGD(linear(3, 1), **BUDGET, batch=2, steps=1, loss="squared_error").fit(np.zeros((2, 3)), [0, math.inf])


def test_a_batch_larger_than_the_population():
    with pytest.raises(ParameterError, match="batch must be at most the number of records, 60"):
        DPSGD(linear(), **BUDGET, batch=61, steps=1).fit(*people())


def test_records_of_another_shape():
    with pytest.raises(ParameterError, match="does not take these records"):
        DPSGD(linear(4), **BUDGET, batch=2, steps=1).fit(*people())


def test_a_model_without_classes():
    with pytest.raises(ParameterError, match="one score a class"):
        DPSGD(nn.Sequential(linear(), nn.Unflatten(1, (2, 1))), **BUDGET, batch=2, steps=1).fit(*people())


def test_a_schedule_that_runs_away():
    with pytest.raises(ParameterError, match="learning rate"):
        DPSGD(linear(), **BUDGET, batch=60, steps=3, rate=lambda step: 1 / (1 - step) if step != 1 else math.inf).fit(
            *people()
        )


@pytest.mark.parametrize("name", ["model", "guarantee", "history", "promised", "perturbation"])
def test_nothing_is_there_before_the_training(name):
    with pytest.raises(ParameterError, match="call fit"):
        getattr(DPSGD(linear(), **BUDGET, batch=20, steps=3), name)


@pytest.mark.wide
def test_a_loss_of_ones_own():
    fitted = DPSGD(linear(), **BUDGET, batch=60, steps=2, loss=lambda out, at: cross_entropy(out, at) * 2).fit(
        *people()
    )
    assert fitted.fitted.way == "vmap"
    assert fitted.predict(people()[0]).shape == (60, 2)
