"""LHIO: what is asked, least squares over all pairs at once, and answers with their errors.

Seeds are fixed. The bounds on the coverage and the noise of the surest answers were set from what these seeds give.
"""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from scipy.stats import chi2

from dither.errors import ParameterError
from dither.ranges import LHIO
from dither.ranges.axes import Axes
from dither.ranges.consistency import inconsistency
from dither.ranges.grid import Grid
from dither.ranges.lhio import PairTables
from dither.ranges.queries import Queries
from dither.ranges.user_groups import Collected
from marks import wide

INFERENCES = ("exact", "two-pass")


def people(shape, n, seed=1):
    """Records whose attributes go together."""
    generator = np.random.default_rng(seed)
    common = generator.random(n)
    columns = [(np.clip(common + generator.normal(0, 0.2, n), 0, 0.999) * size).astype(int) for size in shape]
    return np.column_stack(columns)


def heard(mechanism: LHIO, records, noise=0.0, seed=1) -> list[Collected]:
    """True frequencies of all grids, with some noise, as if they had come back."""
    generator = np.random.default_rng(seed)
    found = []
    for number, asked in enumerate(mechanism.groups):
        value = np.bincount(asked.grid.cells(records), minlength=asked.grid.size) / len(records)
        value = value + noise * generator.normal(size=value.size)
        variance, own = 1.0 + number % 3 if noise else 1.0, mechanism.oracle(number)
        tally = own.tally(own.randomize([0], seed=1))
        found.append(Collected(asked.grid, value.reshape(asked.grid.shape), variance, 10**9, tally, own))
    return found


def truth(records, queries: Queries) -> np.ndarray:
    inside = [prod(queries.masks[j][i][records[:, j]] for j in range(records.shape[1])) for i in range(len(queries))]
    return np.array([np.mean(each) for each in inside])


# What is asked ----------------------------------------------------------------------------------------------


def test_every_pair_of_levels_is_asked_once():
    mechanism = LHIO((9, 4, 5), epsilon=1.0, n=1000, branching=3)
    heights = [each.height for each in mechanism.levels]
    assert heights == [2, 2, 2]
    grids = [asked.grid for asked in mechanism.groups]
    assert len(set(grids)) == len(grids) == sum(heights) + sum(a * b for a, b in combinations(heights, 2))
    assert all(min(grid.shape) > 1 for grid in grids)  # never a single cell: that is known, or asked of one attribute
    for grid in grids:
        for j, cuts in zip(grid.attributes, grid.cuts, strict=True):
            assert cuts in mechanism.levels[j].cuts
    assert {asked.share for asked in mechanism.groups} == {1}


# Least squares ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("shape", [(9, 4, 5), (8, 8), (7, 2, 3, 11)])
def test_true_frequencies_give_the_truth(shape, inference: str):
    mechanism = LHIO(shape, epsilon=1.0, n=1000, branching=3, inference=inference)
    records = people(shape, 3000)
    model = mechanism._model(heard(mechanism, records), 3000)
    for i, j in combinations(range(len(shape)), 2):
        table = np.zeros((shape[i], shape[j]))
        np.add.at(table, (records[:, i], records[:, j]), 1 / len(records))
        np.testing.assert_allclose(model.tables[i, j], table, atol=1e-9)
        np.testing.assert_allclose(model.table(i, j), table, atol=1e-9)
        np.testing.assert_allclose(model.table(j, i), table.T, atol=1e-9)
    for dimensions in (0, 1, 2):
        queries = Queries.random(Axes.of_shape(shape), dimensions, 30, seed=2)
        np.testing.assert_allclose(model.answers(queries).value, truth(records, queries), atol=1e-7)


def dense(mechanism: LHIO, collected: list[Collected]) -> tuple[dict, np.ndarray, np.ndarray]:
    """All pairs at once, by linear algebra: tables that agree, each grid heard once with its own variance.

    Returns the tables, the directions in which they may move together, and the covariance of those.
    """
    pairs = list(combinations(range(len(mechanism.shape)), 2))
    sizes = [mechanism.shape[i] * mechanism.shape[j] for i, j in pairs]
    first = dict(zip(pairs, np.cumsum([0, *sizes[:-1]]), strict=True))

    def adding(pair, grid: Grid) -> np.ndarray:
        values = np.array(list(np.ndindex(*(mechanism.shape[j] for j in pair))))
        whole = np.zeros((len(values), len(mechanism.shape)), dtype=int)
        whole[:, pair] = values
        rows = np.zeros((grid.size, sum(sizes)))
        rows[grid.cells(whole), first[pair] + np.arange(len(values))] = 1
        return rows

    equal = [np.concatenate([np.full(size, float(number == 0)) for number, size in enumerate(sizes)])]
    for j, size in enumerate(mechanism.shape):
        line = Grid.equal((j,), mechanism.shape, (size,))
        marginals = [adding(pair, line) for pair in pairs if j in pair]
        equal += [row for other in marginals[1:] for row in marginals[0] - other]
    _, singular, right = np.linalg.svd(np.array(equal))
    moves = right[int((singular > 1e-9).sum()) :].T
    start = np.concatenate([np.full(size, 1 / size) for size in sizes])
    rows, values = [], []
    for each in collected:
        pair = next(pair for pair in pairs if set(each.grid.attributes) <= set(pair))
        rows.append(adding(pair, each.grid) / np.sqrt(each.variance))
        assert each.value is not None
        values.append(each.value.ravel() / np.sqrt(each.variance))
    matrix = np.concatenate(rows)
    best = np.linalg.lstsq(matrix @ moves, np.concatenate(values) - matrix @ start, rcond=None)[0]
    found = start + moves @ best
    tables = {
        pair: found[first[pair] : first[pair] + size].reshape([mechanism.shape[j] for j in pair])
        for pair, size in zip(pairs, sizes, strict=True)
    }
    return tables, moves, np.linalg.inv(moves.T @ matrix.T @ matrix @ moves)


@pytest.mark.parametrize(("shape", "branching"), [((4, 4), 2), ((4, 4, 4), 2), ((9, 9, 9), 3), ((4, 4, 4, 4), 4)])
def test_equal_domains_are_the_least_squares_of_all_pairs_at_once(shape, branching: int):
    mechanism = LHIO(shape, epsilon=1.0, n=1000, branching=branching)
    collected = heard(mechanism, people(shape, 500), noise=0.1)
    # All pairs alike: the variance of a level is the same in all of them.
    collected = [
        Collected(each.grid, each.value, 1.0 + 0.3 * (each.grid.size % 7), each.n, each.tally, each.mechanism)
        for each in collected
    ]
    model, (tables, moves, spread) = mechanism._model(collected, 500), dense(mechanism, collected)
    for pair, table in tables.items():
        np.testing.assert_allclose(model.tables[pair], table, atol=1e-7)
    queries = Queries.random(Axes.of_shape(shape), 2, 20, seed=3)
    noise = model.answers(queries).noise
    pairs = list(tables)
    for i, pair in enumerate(queries.attributes):
        query = np.zeros(sum(table.size for table in tables.values()))
        at = sum(tables[other].size for other in pairs[: pairs.index(pair)])
        mask = np.outer(*(queries.masks[j][i] for j in pair))
        query[at : at + mask.size] = mask.ravel()
        assert noise[i] ** 2 == pytest.approx(query @ moves @ spread @ moves.T @ query, rel=1e-6)


@pytest.mark.parametrize("inference", INFERENCES)
def test_tables_agree_and_add_up_to_one(inference: str):
    shape = (9, 4, 5, 2)
    mechanism = LHIO(shape, epsilon=1.0, n=1000, branching=3, inference=inference)
    model = mechanism._model(heard(mechanism, people(shape, 500), noise=0.1), 500)
    grids = [Grid.equal(pair, shape, [shape[j] for j in pair]) for pair in model.tables]
    assert inconsistency(grids, list(model.tables.values())) < 1e-9
    assert all(table.sum() == pytest.approx(1) for table in model.tables.values())
    for j, size in enumerate(shape):
        value, stderr = model.marginal(j)
        assert value.shape == stderr.shape == (size,)
        assert value.min() >= 0
        assert value.sum() == pytest.approx(1)
        assert (stderr > 0).all()


# Answers ----------------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize(("shape", "epsilon"), [((8, 8, 8), 1.0), wide((9, 5), 2.0)])
def test_errors_of_one_and_two_attributes_are_what_they_say(shape, epsilon: float):
    """Before answers are moved into their limits; the mean of z^2 over 200 collections, false alarm 1e-6.

    Domains that are no powers make the stated variance an approximation, and so does an even share of users in each
    cell for what those who were not asked would have said: a fifth either way.
    """
    records = people(shape, 20_000, seed=4)
    mechanism = LHIO(shape, epsilon=epsilon, n=20_000, branching=2)
    axes, runs = Axes.of_shape(shape), 200
    queries = Queries.of(axes, [{0: (1, 4), 1: (2, 3)}, {0: (0, 5), 1: (1, 4)}])
    line = Queries.of(axes, [{0: (1, 4)}, {0: (2, 6)}])
    true, alone = truth(records, queries), truth(records, line)
    squares = np.zeros((2, 2))
    for seed in range(runs):
        model = mechanism._model(mechanism.collected(mechanism.tally(mechanism.randomize(records, seed=seed))), 20_000)
        value, variance = model._both((0, 1), queries.masks[0], queries.masks[1])
        squares[0] += (value - true) ** 2 / variance
        value, variance = model._alone(0, line.masks[0])
        squares[1] += (value - alone) ** 2 / variance
    assert (squares < 1.2 * chi2.isf(1e-6 / 8, runs)).all()
    assert (squares > 0.8 * chi2.ppf(1e-6 / 8, runs)).all()


def test_three_attributes_that_are_independent():
    """Without noise the completion of largest entropy is the truth, and what it leaves open is in doubt."""
    shape = (4, 4, 4)
    records = np.array(list(np.ndindex(*shape)))
    mechanism = LHIO(shape, epsilon=1.0, n=1000, branching=2)
    model = mechanism._model(heard(mechanism, records), 64)
    queries = Queries.random(Axes.of_shape(shape), 3, 10, seed=5)
    found = model.answers(queries)
    np.testing.assert_allclose(found.value, truth(records, queries), atol=1e-5)
    assert (found.noise > 0).all()


@pytest.mark.parametrize("inference", INFERENCES)
def test_from_records_to_answers(inference: str):
    """Within 6 standard errors, 60 answers: false alarm below 2e-7."""
    shape = (20, 6, 16)
    records = people(shape, 50_000, seed=6)
    mechanism = LHIO(shape, epsilon=2.0, n=50_000, inference=inference)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(records, seed=7)))
    for dimensions in (1, 2, 3):
        queries = Queries.random(Axes.of_shape(shape), dimensions, 20, seed=8)
        answers = estimate.answers(queries)
        assert ((answers.value >= 0) & (answers.value <= 1)).all()
        assert (np.abs(answers.value - truth(records, queries)) < 6 * answers.stderr).all()
    assert inference in estimate.explain()


def test_grids_that_nobody_answered_have_no_say():
    shape = (6, 5)
    mechanism = LHIO(shape, epsilon=1.0, n=1000)
    tally = mechanism.tally(mechanism.randomize(people(shape, 3), seed=1))
    for inference in INFERENCES:
        same = LHIO(shape, epsilon=1.0, n=1000, inference=inference)
        model = same._model(mechanism.collected(tally), 3)
        assert np.isfinite(model.tables[0, 1]).all()
        found = model.answers(Queries.random(Axes.of_shape(shape), 2, 10, seed=2))
        assert np.isfinite(found.value).all()
        assert np.isfinite(found.stderr).all()


# Refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": (64,) * 6, "n": 152}, "at least 153 users"),
        ({"shape": (1024,) * 10}, "coarser values"),
        ({"shape": (2048, 1024)}, "coarser values"),
        ({"shape": (64,)}, "two attributes"),
        ({"inference": "three-pass"}, "exact"),
        ({"branching": 1}, "branching"),
    ],
)
def test_refusals_say_what_to_do(change, words):
    with pytest.raises(ParameterError, match=words):
        LHIO(**{"shape": (5, 5), "epsilon": 1.0, "n": 10**6, **change})


def test_standard_errors_of_values_are_those_of_answers():
    shape = (9, 9, 9)  # in parts of 3 all cells of a level are equally wide
    mechanism = LHIO(shape, epsilon=1.0, n=1000, branching=3)
    model = mechanism._model(heard(mechanism, people(shape, 500), noise=0.1), 500)
    for j in range(3):
        answers = model.answers(Queries.of(Axes.of_shape(shape), [{j: value} for value in range(9)]))
        np.testing.assert_allclose(model.marginal(j)[1], answers.noise, rtol=1e-9)


def test_no_answer_is_certain():
    shape = (8,) * 4
    mechanism = LHIO(shape, epsilon=1.0, n=20_000)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(people(shape, 20_000), seed=5)))
    for dimensions in (1, 2, 3, 4):
        queries = Queries.random(estimate.axes, dimensions, 300, volume=0.3, seed=dimensions)
        assert estimate.answers(queries).noise.min() > 3e-4


def test_the_surest_answers_are_covered():
    """Errors of the tenth of answers with the least noise: nine in ten or more are within three standard errors."""
    shape, n = (8,) * 3, 20_000
    within = []
    for seed in range(4):
        records = people(shape, n, seed=seed)
        mechanism = LHIO(shape, epsilon=1.0, n=n)
        estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(records, seed=seed)))
        queries = Queries.random(estimate.axes, 3, 300, volume=0.3, seed=seed)
        found = estimate.answers(queries)
        surest = found.noise <= np.quantile(found.noise, 0.1)
        within.append((np.abs(found.value - truth(records, queries)) < 3 * found.stderr)[surest])
    assert np.concatenate(within).mean() > 0.9


@pytest.mark.parametrize("inference", INFERENCES)
def test_what_nobody_was_asked_about_is_unsure(inference):
    shape = (8,) * 4
    mechanism = LHIO(shape, epsilon=1.0, n=1000, inference=inference)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(people(shape, 1), seed=1)))
    for dimensions in (1, 2, 3):
        answers = estimate.answers(Queries.random(estimate.axes, dimensions, 100, seed=dimensions))
        assert answers.noise.min() > 0.05
    assert isinstance(estimate.model, PairTables)
    unseen = [j for j in range(4) if not estimate.model._margins[j][1:].any()]
    assert unseen
    alone = estimate.answer({unseen[0]: (0, 1)})  # everybody may be in one place: v (1 - v)
    assert float(alone.value) == pytest.approx(0.25)
    assert float(alone.noise) ** 2 == pytest.approx(0.25 * 0.75)
    assert estimate[unseen[0]].stderr[0] ** 2 == pytest.approx(1 / 8 * 7 / 8)


def test_an_estimate_has_distributions_and_their_quantiles():
    shape = (16, 16, 4)
    mechanism = LHIO(shape, epsilon=0.5, n=2000)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(people(shape, 2000), seed=2)))
    assert isinstance(estimate.model, PairTables)
    assert estimate.model.tables[0, 1].min() < 0
    for found in (estimate[0], estimate.marginal(0, 1), estimate.marginal(2, 0)):
        assert found.value.min() >= 0
        assert found.value.sum() == pytest.approx(1)
        assert (found.stderr > 0).all()
    np.testing.assert_array_equal(estimate.joint(0, 2), estimate.marginal(2, 0).value.T)
    assert (np.diff(estimate.quantile(0, np.linspace(0, 1, 21)).value) >= 0).all()
