"""HIO: boxes by brute force, answers report by report, standard errors by simulation."""

from itertools import product
from math import prod

import numpy as np
import pytest
from scipy.stats import binom, chi2

import dither
from dither.errors import ParameterError
from dither.kernels.hashing import public_seeds
from dither.ranges import HIO
from dither.ranges.axes import Axes
from dither.ranges.hierarchy import Levels
from dither.ranges.hio import MOST_COUNTS, Boxes, HierarchyModel, box_buckets
from dither.ranges.queries import Queries
from marks import wide

SHAPE = (9, 4, 5)


def people(shape, n, seed=1):
    """Records whose attributes go together."""
    generator = np.random.default_rng(seed)
    common = generator.random(n)
    columns = [(np.clip(common + generator.normal(0, 0.2, n), 0, 0.999) * size).astype(int) for size in shape]
    return np.column_stack(columns)


def truth(records, queries: Queries) -> np.ndarray:
    inside = [prod(queries.masks[j][i][records[:, j]] for j in range(records.shape[1])) for i in range(len(queries))]
    return np.array([np.mean(each) for each in inside])


def model(mechanism: HIO, records, seed) -> HierarchyModel:
    return mechanism.reading.model(mechanism.tally(mechanism.randomize(records, seed=seed)))


# Boxes -------------------------------------------------------------------------------------------------------------


def test_groups_are_all_choices_of_levels_but_one():
    boxes = Boxes(SHAPE, 4)
    assert boxes.heights == (3, 2, 3)
    assert boxes.groups == 17
    numbers = [boxes.group(levels) for levels in product(range(3), range(2), range(3))]
    assert numbers == list(range(-1, 17))


def test_boxes_are_numbered_by_their_cells():
    boxes, records = Boxes(SHAPE, 4), np.array(list(product(*map(range, SHAPE))))
    for levels in product(range(3), range(2), range(3)):
        group = boxes.group(levels)
        if group < 0:
            continue
        sides = [Levels(size, 4) for size in SHAPE]
        cells = [
            side.partition(level)[records[:, j]] for j, (side, level) in enumerate(zip(sides, levels, strict=True))
        ]
        counts = [len(side.starts[level]) for side, level in zip(sides, levels, strict=True)]
        expected = np.ravel_multi_index(cells, counts)
        found = boxes.numbers(records, np.full(len(records), group))
        np.testing.assert_array_equal(found, expected)
        assert set(found.tolist()) == set(range(prod(counts)))


@pytest.mark.parametrize("apart", [1, 1 << 20, 1 << 32, 5 << 40, (1 << 32) + 1])
@pytest.mark.parametrize("g", [2, 4, 9])
def test_any_two_boxes_collide_by_chance(apart: int, g: int):
    """False alarm 1e-7 each; two-sided."""
    seeds = public_seeds(40_000)
    one, other = (box_buckets(seeds, np.full(1, number, dtype=np.uint64), g) for number in (12345, 12345 + apart))
    for hits in ((one == other).sum(), *(np.bincount(one.astype(int), minlength=g))):
        assert binom.ppf(5e-8, len(seeds), 1 / g) <= hits <= binom.isf(5e-8, len(seeds), 1 / g)


# Answers -------------------------------------------------------------------------------------------------------------


def by_hand(mechanism: HIO, reports, queries: Queries) -> list[float]:
    """Every box of every query, supported by every report on its own."""
    boxes, q, p = mechanism.boxes, 1 / mechanism._g, float(mechanism.law.inside)
    groups = reports["function"] // mechanism.cohorts
    seeds = mechanism.functions._shared[reports["function"]]
    answers = []
    for i in range(len(queries)):
        covers = [
            [(0, 0, 1.0)]
            if j not in queries.attributes[i]
            else [
                (level, int(cell), float(weights[0, cell]))
                for level, weights in enumerate(boxes.levels[j].covers(queries.masks[j][i : i + 1]))
                for cell in np.flatnonzero(weights[0])
            ]
            for j in range(len(boxes.shape))
        ]
        total = 0.0
        for sides in product(*covers):
            levels, cells, weights = zip(*sides, strict=True)
            group = boxes.group(levels)
            if group < 0:
                total += prod(weights)
                continue
            counts = [len(each.starts[level]) for each, level in zip(boxes.levels, levels, strict=True)]
            box = np.array([np.ravel_multi_index(cells, counts)], dtype=np.uint64)
            own = groups == group
            hits = box_buckets(seeds[own], box, mechanism._g) == reports["value"][own]
            total += prod(weights) * (hits.mean() - q) / (p - q)
        answers.append(total)
    return answers


def test_answers_are_sums_of_boxes_report_by_report():
    mechanism = HIO(SHAPE, epsilon=1.0, n=3000, branching=3)
    reports = np.asarray(mechanism.randomize(people(SHAPE, 3000), seed=3))
    axes = Axes.of_shape(SHAPE)
    queries = Queries.of(axes, [{}, {0: (1, 6)}, {2: {0, 4}, 1: (0, 2)}, {0: (2, 2), 1: (1, 3), 2: (0, 3)}])
    found = mechanism.reading.model(mechanism.tally(reports)).answers(queries)
    np.testing.assert_allclose(found.value, by_hand(mechanism, reports, queries), atol=1e-12)
    assert (found.value[0], found.noise[0], found.doubt.max()) == (1, 0, 0)


def test_weights_between_zero_and_one_are_taken_as_they_are():
    mechanism = HIO(SHAPE, epsilon=1.0, n=3000)
    reports = np.asarray(mechanism.randomize(people(SHAPE, 3000), seed=3))
    masks = [np.ones((3, size)) for size in SHAPE]
    masks[0][0], masks[0][1, :5], masks[0][2] = 0.25, 0.5, np.linspace(0, 1, 9)
    masks[1][1] = 0.5
    queries = Queries(SHAPE, ((0,), (0, 1), (0,)), tuple(masks))
    found = mechanism.reading.model(mechanism.tally(reports)).answers(queries)
    np.testing.assert_allclose(found.value, by_hand(mechanism, reports, queries), atol=1e-12)
    assert found.value[0] == 0.25
    assert found.noise[0] == 0


def test_a_block_of_boxes_at_a_time(monkeypatch):
    mechanism = HIO((64, 64), epsilon=1.0, n=3000)
    made = model(mechanism, people((64, 64), 3000), seed=4)
    queries = Queries.random(Axes.of_shape((64, 64)), 2, 40, seed=5)
    whole = made.answers(queries)
    monkeypatch.setattr("dither.ranges.hio._BLOCK", 100)
    for one, other in zip(whole, made.answers(queries), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("shape", "epsilon", "cohorts"), [((9, 4), 1.0, None), wide((5, 7), 3.0, None), wide((9, 4), 1.0, 40)]
)
def test_standard_errors_are_what_they_say(shape, epsilon, cohorts):
    """Over many collections, other users in the groups and other noise: the mean of z^2, false alarm 1e-6.

    The functions are the same in all collections, and so are their collisions: a part of the standard error that is
    allowed for is no noise here, so z may be a little small.
    """
    records = people(shape, 4000, seed=6)
    mechanism = HIO(shape, epsilon=epsilon, n=4000, cohorts=cohorts)
    queries = Queries.of(Axes.of_shape(shape), [{0: (1, 3)}, {0: (2, 4), 1: (0, 1)}, {1: (1, 2)}])
    true, runs = truth(records, queries), 300
    squares = np.zeros(3)
    for seed in range(runs):
        found = model(mechanism, records, seed).answers(queries)
        squares += ((found.value - true) / found.stderr) ** 2
    assert (squares < chi2.isf(1e-6 / 6, runs)).all()
    slack = 0.5 if cohorts else 0.85
    assert (squares > slack * chi2.ppf(1e-6 / 6, runs)).all()


def test_six_attributes_of_64_values():
    """2^36 boxes in the last group; 30 answers within 6 standard errors: false alarm below 1e-7."""
    shape = (64,) * 6
    records = people(shape, 200_000, seed=7)
    mechanism = HIO(shape, epsilon=2.0, n=200_000)
    assert mechanism.boxes.groups == 4095
    last = mechanism.boxes.numbers(np.full((1, 6), 63), np.array([4094]))
    assert last[0] == (1 << 36) - 1
    made = model(mechanism, records, seed=8)
    for dimensions in (1, 3, 6):
        queries = Queries.random(Axes.of_shape(shape), dimensions, 10, seed=9, step=8)
        found = made.answers(queries)
        assert (np.abs(found.value - truth(records, queries)) < 6 * found.stderr).all()


def test_groups_without_reports_are_even_and_unsure():
    mechanism = HIO(SHAPE, epsilon=1.0, n=100)
    made = model(mechanism, people(SHAPE, 1), seed=1)
    queries = Queries.of(Axes.of_shape(SHAPE), [{0: (0, 2)}, {1: (0, 1), 2: (1, 3)}])
    found = made.answers(queries)
    assert np.isfinite(found.value).all()
    assert (found.noise >= 1).any()


def test_marginals_are_distributions():
    records = people(SHAPE, 100_000, seed=10)
    made = model(HIO(SHAPE, epsilon=3.0, n=100_000), records, seed=11)
    for j, size in enumerate(SHAPE):
        found, stderr = made.marginal(j)
        assert found.shape == stderr.shape == (size,)
        assert (stderr > 0).all()
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)
        assert np.abs(found - np.bincount(records[:, j], minlength=size) / len(records)).max() < 0.1
    table = made.table(0, 2)
    assert table.min() >= 0
    assert table.sum() == pytest.approx(1)
    truth = np.zeros_like(table)
    np.add.at(truth, (records[:, 0], records[:, 2]), 1 / len(records))
    assert np.abs(table - truth).sum() < 0.5 * np.abs(table.mean() - truth).sum()
    np.testing.assert_array_equal(made.table(2, 0), table.T)


def test_standard_errors_of_values_are_those_of_least_squares():
    made = model(HIO(SHAPE, epsilon=1.0, n=1000), people(SHAPE, 1000), seed=1)
    tree, _ = made._fitted((0,))
    np.testing.assert_allclose(made.marginal(0)[1] ** 2, tree.noise([np.eye(SHAPE[0])]), rtol=1e-9)
    assert tree.variance[1] > float(made.plain.variance(0.0)) / made.counts[made.boxes.group((1, 0, 0))].sum()


def test_without_reports_everybody_may_be_in_one_place():
    made = model(HIO(SHAPE, epsilon=1.0, n=100), people(SHAPE, 1), seed=1)
    unseen = [j for j in range(3) if np.isinf(made._fitted((j,))[0].variance[1:]).all()]
    assert unseen
    for j in unseen:
        value, stderr = made.marginal(j)
        np.testing.assert_allclose(value, 1 / SHAPE[j])
        np.testing.assert_allclose(stderr**2, value * (1 - value), rtol=1e-9)


def test_an_estimate_has_distributions_and_their_quantiles():
    mechanism = HIO((16, 8), epsilon=0.5, n=2000)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(people((16, 8), 2000), seed=12)))
    assert estimate.model.answers(Queries.of(estimate.axes, [{0: v} for v in range(16)])).value.min() < 0
    for found in (estimate[0], estimate.marginal(0, 1), estimate.marginal(1, 0)):
        assert found.value.min() >= 0
        assert found.value.sum() == pytest.approx(1)
        assert np.isfinite(found.stderr).all()
    np.testing.assert_array_equal(estimate.joint(1, 0), estimate.marginal(0, 1).value.T)
    quantiles = estimate.quantile(0, np.linspace(0, 1, 21)).value
    assert (np.diff(quantiles) >= 0).all()
    below = np.cumsum(estimate[0].value)
    assert quantiles[10] == np.flatnonzero(below >= 0.5 - 1e-9)[0]


def test_intervals_are_shares():
    mechanism = HIO((16, 8), epsilon=0.5, n=200)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(people((16, 8), 200), seed=12)))
    answers = estimate.answers([{0: v, 1: w} for v in range(16) for w in range(8)])
    assert answers.value.min() < 0
    low, high = answers.interval(0.99, simultaneous=True)
    assert low.min() >= 0
    assert high.max() <= 1
    assert (low <= high).all()
    one = estimate.answer({0: 3})
    assert one.interval().low >= 0
    assert one.table().columns["low 95%"][0] >= 0


def test_estimates_answer_queries():
    mechanism = HIO((8, 8), epsilon=1.0, n=20_000)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(people((8, 8), 20_000), seed=12)))
    answer = estimate.answer({0: (0, 3), 1: (0, 3)})
    assert answer.doubt == 0
    assert answer.stderr == answer.noise > 0
    assert "8 groups" in estimate.explain()


# What is stored and refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [5000, 10**6, 10**9])
def test_tallies_are_bounded(n: int):
    for shape in ((64, 64), (64,) * 6):
        mechanism = HIO(shape, epsilon=1.0, n=n)
        assert mechanism.functions.count * mechanism._g <= MOST_COUNTS
        assert (mechanism.cohorts or 0) >= 16


def test_a_stored_plan_is_not_chosen_again():
    mechanism = HIO(SHAPE, epsilon=1.0, n=5000)
    stored = mechanism.to_dict()
    assert (stored["g"], stored["cohorts"]) == (mechanism.g, mechanism.cohorts)
    assert HIO.from_dict({**stored, "n": 10**6}).cohorts == mechanism.cohorts


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 16.0])
def test_six_attributes_are_certified(epsilon: float):
    promise = dither.privacy.certify(HIO((64,) * 6, epsilon=epsilon, n=10**6))
    assert epsilon * (1 - 1e-9) <= promise.epsilon <= epsilon
    assert promise.delta == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": (64,) * 6, "n": 4094}, "at least 4,095 users"),
        ({"shape": (64,) * 12, "n": 10**9}, "64 bits"),
        ({"shape": (4,) * 22, "n": 10**9}, "does not fit"),
        ({"branching": 1}, "branching"),
        ({"shape": (1, 3)}, "single value"),
        ({"cohorts": 0}, "cohorts"),
        ({"cohorts": 1 << 30}, "cohorts"),
        ({"g": 1}, "g must be"),
    ],
)
def test_refusals_say_what_to_do(change, words):
    with pytest.raises(ParameterError, match=words):
        HIO(**{"shape": (5, 5), "epsilon": 1.0, "n": 1000, **change})
