"""Reporters: unbiased for what they clip to, silent about what is wrong with a row.

Statistical tests use fixed seeds. They make 92 comparisons with a normal bound of probability 1e-8 each, so a correct
reporter fails with a probability below 1e-6.
"""

import pickle
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from dither.errors import DomainError, ParameterError
from dither.learn.vector_reporter import VectorReporter, ranked, shortened_to
from dither.mechanisms import GRR, Hypercube

REACH = -NormalDist().inv_cdf(0.5e-8)
BOXES = ("Hypercube", "SampledDuchi", "Piecewise", "Gaussian", "Split(base='Duchi')")
SPARSE = ("Collision(s=2)", "CoCo(s=2)")
ALL = ("UnitVector", *BOXES, *SPARSE)
D = 4


def reporter(name: str, **options) -> VectorReporter:
    return VectorReporter(name, **{"d": D, "epsilon": 3.0, "delta": 1e-4, "clip": 0.5, **options})


def some_rows(count: int) -> np.ndarray:
    """Vectors of all sizes, many of them clipped, whose mean is far from zero."""
    angles = np.outer(np.arange(count), [1.0, 1.3, 1.7, 2.1])
    return (np.sin(angles) * 0.3 + [0.3, -0.4, 0.2, 0.1]) * (1 + np.arange(count)[:, None] % 3)


@pytest.mark.parametrize("corner", [(1, 1, 1), (1, -1, 1), (-1, -1, -1)])
def test_the_estimate_is_unbiased_exactly(corner):
    made = VectorReporter("Hypercube", d=3, epsilon=1.0, clip=0.25)
    channel, inputs, outputs = made.mechanism.channel(), made.mechanism.inputs(), made.mechanism.outputs()
    row = channel.matrix()[int(np.flatnonzero((inputs == corner).all(axis=1))[0])]
    read = np.array([made.estimate(made.tally(outputs[place : place + 1])).value for place in range(len(outputs))])
    chances = np.array([float(chance) for chance in row])
    assert np.allclose(chances @ read, 0.25 * np.array(corner), atol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_the_estimate_is_near_the_mean_of_the_clipped_rows(name):
    made, rows = reporter(name), some_rows(6000)
    found = made.estimate(made.tally(made.randomize(rows, seed=5)))
    assert found.value.shape == (D,)
    assert (np.abs(found.value - made.clipped(rows).mean(axis=0)) <= REACH * found.stderr).all()
    assert found.guarantee.simulated


@pytest.mark.parametrize("name", ["UnitVector", "Hypercube", "SampledDuchi"])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_either_norm_on_either_domain(name, norm):
    made, rows = reporter(name, norm=norm, epsilon=6.0), some_rows(6000)
    inside = made.clipped(rows)
    lengths = np.linalg.norm(inside, axis=1) if norm == "l2" else np.abs(inside).max(axis=1)
    assert lengths.max() <= 0.5 * (1 + 1e-12)
    tally = made.tally(made.randomize(rows, seed=6))
    found, own = made.estimate(tally), made.mechanism.estimate(tally)
    assert (np.abs(found.value - inside.mean(axis=0)) <= REACH * found.stderr).all()
    scale = {"UnitVector": {"l2": 0.5, "linf": 1.0}}.get(name, {}).get(norm, 0.5)  # sqrt(4) half-widths to a corner
    assert np.allclose(found.value, scale * own.value, rtol=1e-12)
    assert np.allclose(found.stderr, scale * own.stderr, rtol=1e-12)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_reported_as_zero(name, bad):
    made, rows = reporter(name), some_rows(40)
    rows[::3, 1] = bad
    zeros = rows.copy()
    zeros[::3] = 0.0
    assert (made.randomize(rows, seed=1) == made.randomize(zeros, seed=1)).all()
    assert not made.clipped(rows)[::3].any()


@pytest.mark.parametrize("name", ["UnitVector", *BOXES])
def test_units_do_not_matter(name):
    rows = some_rows(50)
    twice = reporter(name, clip=1.0).randomize(2 * rows, seed=2)
    once = reporter(name).randomize(rows, seed=2)
    assert (once == twice).all()
    left, right = reporter(name), reporter(name, clip=1.0)
    assert np.allclose(2 * left.estimate(left.tally(once)).value, right.estimate(right.tally(twice)).value, rtol=1e-12)


@pytest.mark.parametrize("name", ["UnitVector", "Hypercube", "SampledDuchi"])
def test_the_error_is_what_reports_show(name):
    made = reporter(name)
    zeros = np.zeros((3000, D))
    each = np.array([made.mean(made.randomize(zeros[:30], seed=seed)) for seed in range(100)])
    assert 0.7 < 30 * (each**2).sum(axis=1).mean() / made.noise() < 1.4  # 400 squares: over ten of their errors wide
    assert made.error() >= made.noise()


def test_long_rows_keep_their_direction_however_long():
    rows = np.array([[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0], [0.3, 0.4], [1e308, 1e308]])
    found = shortened_to(rows, 1.0)
    assert np.allclose(found[0], [0.6, 0.8])
    assert (found[1:4] == rows[1:4]).all()
    assert np.allclose(found[4], [0.5**0.5, 0.5**0.5])


HARD = [0.0, 5e-324, 1e-320, 1e-160, 1e-9, 1.0, 1e160, 1e308, np.finfo(np.float64).max]


@pytest.mark.parametrize("norm", [1e-300, 1e-9, 0.5, 1e140])
def test_a_row_is_shortened_along_its_direction_without_a_word(norm):
    """Warnings are errors here, and floating point has its own: a word about some rows only would tell of them."""
    for large, small in product(HARD, [*HARD, np.nan, np.inf]):
        check_shortened(norm, large, small)


def check_shortened(norm: float, large: float, small: float) -> None:
    """Against fractions."""
    rows = np.array([[large, -large, large, small], [0.0, 0.0, 0.0, 0.0]])
    with np.errstate(all="raise"):
        found = shortened_to(rows, norm)
    assert not found[1].any()
    exact = [Fraction(float(entry)) for entry in rows[0]] if np.isfinite(rows).all() else [Fraction(0)] * 4
    square = sum(entry * entry for entry in exact)
    bound = Fraction(norm) ** 2
    if square <= bound:
        assert (found[0] == np.where(np.isfinite(small), rows[0], 0.0)).all()
        return
    assert abs(sum(Fraction(float(entry)) ** 2 for entry in found[0]) / bound - 1) < Fraction(1, 10**12)
    peak = max(map(abs, exact))
    scaled = [float(entry / peak) for entry in exact]
    np.testing.assert_allclose(found[0] / np.abs(found[0]).max(), scaled, rtol=1e-12, atol=1e-20)


@pytest.mark.parametrize("name", ALL)
def test_no_row_makes_a_report_louder_than_another(name):
    made = reporter(name)
    for entry in [*HARD[1:], np.nan, -np.inf]:
        with np.errstate(all="raise", under="ignore"):
            assert len(made.randomize([[entry] * D, [entry, 0.0, -entry, 1.0]])) == 2


def test_only_the_largest_signs_are_sent():
    made = reporter("CoCo(s=2)")
    assert made.clipped([[0.1, -3.0, 0.2, 0.0]]).tolist() == [[0.0, -0.5, 0.5, 0.0]]
    assert made.clipped([[0.0, 0.0, 0.0, -1e-9]]).tolist() == [[0.0, 0.0, 0.0, -0.5]]


def test_a_coordinate_nobody_reported_on_is_zero_and_unknown():
    made = VectorReporter("SampledDuchi", d=50, epsilon=1.0)
    found = made.estimate(made.tally(made.randomize(np.ones((1, 50)), seed=1)))
    assert (found.value != 0).sum() == 1
    assert np.isinf(found.stderr).sum() == 49


def test_one_coordinate():
    made = VectorReporter("Gaussian", d=1, epsilon=4.0, delta=1e-6, clip=2.0)
    assert made.d == 1
    assert made.estimate(made.tally(made.randomize([[1.0]] * 10, seed=1))).value.shape == (1,)


def test_the_best_has_the_least_error():
    names = ("Hypercube", "SampledDuchi", "Gaussian")
    best = VectorReporter.best(20, 4.0, 1e-6, clip=0.5, norm="linf", among=names)
    every = [VectorReporter(name, d=20, epsilon=4.0, delta=1e-6, clip=0.5, norm="linf") for name in names]
    assert best.error() == min(each.error() for each in every)
    without = ranked(20, 4.0, 0.0, clip=0.5, norm="linf", among=names)
    assert [name for name, _ in without] == ["SampledDuchi", "Hypercube"]  # no Gaussian without a delta


def test_a_name_has_the_best_number_of_corners():
    best, one = (VectorReporter(name, d=20, epsilon=8.0) for name in ("Hypercube", "Hypercube(parts=1)"))
    assert best.mechanism == Hypercube(20, 8.0, parts=None) == Hypercube(20, 8.0, parts=3)
    assert one.mechanism == Hypercube(20, 8.0)
    assert best.error() < one.error() / 2
    assert VectorReporter("Hypercube", d=20, epsilon=8.0, parts=2).mechanism == Hypercube(20, 8.0, parts=2)
    among = ("Hypercube(parts=1)", "Hypercube")
    assert [name for name, _ in ranked(20, 8.0, 0.0, clip=1.0, norm="linf", among=among)] == ["Hypercube", among[0]]
    rows = some_rows(6000)[:, [0, 1, 2, 3] * 5]
    found = best.estimate(best.tally(best.randomize(rows, seed=6)))
    assert (np.abs(found.value - best.clipped(rows).mean(axis=0)) <= REACH * found.stderr).all()


def test_an_l2_clip_in_a_box():
    made = reporter("Hypercube", d=400, norm="l2")
    assert made.scale == VectorReporter.coordinate_clip(0.5, 400) == 0.075
    assert np.abs(made.clipped(np.eye(400))).max() == 0.075
    assert made.error() == pytest.approx(made.noise() + (0.5 - 0.075) ** 2)


def test_the_guarantee_is_that_of_the_mechanism():
    assert reporter("Hypercube").guarantee == Hypercube(D, 3.0, 1e-4).guarantee
    assert VectorReporter(Hypercube(D, 3.0), clip=2.0).mechanism == Hypercube(D, 3.0)
    assert reporter("UnitVector").guarantee.delta == 0.0


def test_pickling():
    made = reporter("Hypercube", norm="l2")
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert (again.randomize(some_rows(9), seed=3) == made.randomize(some_rows(9), seed=3)).all()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"mechanism": "Hypercube", "epsilon": 1.0}, "d is missing"),
        ({"mechanism": "Hypercube", "d": 3}, "epsilon is missing"),
        ({"mechanism": "Hypercube", "d": 3, "epsilon": 1.0, "clip": 0.0}, "clip must be"),
        ({"mechanism": "Hypercube", "d": 3, "epsilon": 1.0, "clip": float("nan")}, "clip must be"),
        ({"mechanism": "Hypercube", "d": 3, "epsilon": 1.0, "spread": -1.0}, "spread must be"),
        ({"mechanism": "Hypercube", "d": 3, "epsilon": 1.0, "norm": "l1"}, "norm must be"),
        ({"mechanism": "Hypercube", "d": 3, "epsilon": 1.0, "s": 2}, "Hypercube takes"),
        ({"mechanism": "Collision", "d": 3, "epsilon": 1.0}, "Collision takes"),
        ({"mechanism": "Collision(s=1)", "d": 3, "epsilon": 1.0, "norm": "l2"}, "signs have no length"),
        ({"mechanism": "GRR(k=3)", "d": 3, "epsilon": 1.0}, "GRR"),
        ({"mechanism": "Nobody", "d": 3, "epsilon": 1.0}, "no mechanism has this name"),
        ({"mechanism": GRR(3, 1.0)}, "does not take vectors"),
        ({"mechanism": Hypercube(3, 1.0), "epsilon": 1.0}, "made already"),
        ({"mechanism": 7, "d": 3, "epsilon": 1.0}, "name a mechanism"),
        ({"mechanism": "Hypercube", "d": 3, "epsilon": 1.0, "clip": 1e200}, "too small or too large"),
    ],
)
def test_refusals(arguments, reason):
    with pytest.raises(ParameterError, match=reason):
        VectorReporter(**arguments)


@pytest.mark.parametrize("rows", [[["7310473secret"] * D], [[1.0] * 3], [[[1.0] * D]], "x"])
def test_what_is_no_table_is_refused_without_its_values(rows):
    with pytest.raises(DomainError, match="one row for each user") as refusal:
        reporter("Hypercube").randomize(rows)
    assert "secret" not in str(refusal.value)


def test_nothing_to_choose_from():
    with pytest.raises(ParameterError, match="none of these mechanisms"):
        VectorReporter.best(3, 1.0, among=("Gaussian",))
