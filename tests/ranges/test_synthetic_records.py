"""Synthetic records: their tables are those of the model, the same seed gives the same, and any number can be had.

Bounds are five standard errors of independent draws (false alarm below 1e-6 a cell); records are more even than that.
"""

from itertools import combinations

import numpy as np
import pytest

from dither.core.randomness import Stream
from dither.errors import ParameterError
from dither.estimation.normal_copula import scores, tables
from dither.ranges.axes import Axes
from dither.ranges.fit import uniform
from dither.ranges.model import Margin, Pair, Pairwise
from dither.ranges.queries import Queries
from dither.ranges.synthetic_records import _curve, _proposed, _systematic, sampled_records


def margin(shares: np.ndarray) -> Margin:
    return Margin(shares, np.arange(len(shares) + 1), np.zeros((len(shares), len(shares))))


def paired(shares: list[np.ndarray], known: dict[tuple[int, int], np.ndarray], **options) -> Pairwise:
    """A model with these tables at full resolution."""
    pairs = {}
    for (j, k), table in known.items():
        cuts = np.arange(len(shares[j]) + 1), np.arange(len(shares[k]) + 1)
        pairs[j, k] = Pair(cuts, table / np.outer(shares[j], shares[k]), cuts)
    return Pairwise(tuple(map(margin, shares)), pairs, **options)


def counted(found: np.ndarray, j: int, k: int, shape: tuple[int, int]) -> np.ndarray:
    table = np.zeros(shape)
    np.add.at(table, (found[:, j], found[:, k]), 1 / len(found))
    return table


def shares_inside(found: np.ndarray, queries: Queries) -> np.ndarray:
    return np.prod([queries.masks[j][:, found[:, j]] for j in range(found.shape[1])], axis=0).mean(axis=1)


SLOPED = np.arange(1, 9) / 36
EVEN = np.full(8, 0.125)


def correlated(correlation: float, one: np.ndarray = SLOPED, other: np.ndarray = EVEN) -> np.ndarray:
    table = tables(scores(one), scores(other), np.array([correlation]))[0]
    return table / table.sum()


def exclusive() -> np.ndarray:
    """Low with low and high with high, never mixed, and the other way round in the middle: no correlation at all."""
    signs = np.where(np.add.outer(np.arange(8) // 2, np.arange(8) // 2) % 2, 1.9, 0.1)
    return signs / signs.sum()


MODELS = {
    "correlated": paired([SLOPED, EVEN], {(0, 1): correlated(0.8)}),
    "opposed": paired([SLOPED, EVEN], {(0, 1): correlated(-0.9)}),
    "independent": paired([SLOPED, EVEN], {}),
    "exclusive": paired([EVEN, EVEN], {(0, 1): exclusive()}),
    "three": paired(
        [SLOPED, EVEN, EVEN],
        {(0, 1): correlated(0.6), (0, 2): correlated(-0.5), (1, 2): correlated(-0.3, EVEN, EVEN)},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_tables_of_the_records_are_those_of_the_model(name):
    model, n = MODELS[name], 50_000
    found = sampled_records(model, n, seed=1)
    assert found.shape == (n, len(model.margins))
    assert found.dtype == np.int64
    for j, k in combinations(range(len(model.margins)), 2):
        wanted = model.table(j, k)
        error = np.sqrt(wanted * (1 - wanted) / n)
        assert (np.abs(counted(found, j, k, wanted.shape) - wanted) < 5 * error + 2 / n).all()


@pytest.mark.parametrize("name", MODELS)
def test_shares_of_records_and_answers_agree(name):
    model, n = MODELS[name], 50_000
    queries = Queries.random(Axes.of_shape(model.shape), len(model.margins), 40, seed=2)
    answers = model.answers(queries).value
    apart = np.abs(shares_inside(sampled_records(model, n, seed=2), queries) - answers)
    assert (
        apart < 5 * np.sqrt(answers / n) + 3e-3
    ).all()  # the last is what the answer of three attributes is known to


def test_a_copula_is_followed_beyond_pairs():
    """Four attributes with correlations of .8: all four in their upper half are more than pairs alone would have."""
    shares = [np.full(16, 1 / 16)] * 4
    correlation = 0.2 * np.eye(4) + 0.8
    known = {pair: correlated(0.8, shares[0], shares[0]) for pair in combinations(range(4), 2)}
    found = sampled_records(paired(shares, known, given=correlation), 100_000, seed=3)
    z = np.random.default_rng(1).multivariate_normal(np.zeros(4), correlation, 400_000)
    assert (found >= 8).all(axis=1).mean() == pytest.approx((z > 0).all(axis=1).mean(), abs=0.01)


def test_tables_that_the_copula_has_nothing_of():
    """A strong correlation, and a corner that is against it: every eighth proposal is of independent attributes."""
    table = 0.9 * correlated(0.95, EVEN, EVEN)
    table[0, 7] += 0.1
    shares = [table.sum(axis=1), table.sum(axis=0)]
    model = paired(shares, {(0, 1): table}, given=np.array([[1.0, 0.95], [0.95, 1.0]]))
    found = sampled_records(model, 20_000, seed=1)
    assert counted(found, 0, 1, (8, 8))[0, 7] == pytest.approx(0.1, abs=0.002)
    corner = (found[:, 0] == 0) & (found[:, 1] == 7)
    assert corner.sum() == pytest.approx(2000, abs=40)


def test_tables_that_contradict_each_other_still_give_records_with_the_margins():
    """Each pair is nearly opposite to the two others: no three attributes are so."""
    shares = [np.full(4, 0.25)] * 3
    table = correlated(-0.95, shares[0], shares[0])
    found = sampled_records(paired(shares, dict.fromkeys(combinations(range(3), 2), table)), 20_000, seed=1)
    for j in range(3):
        np.testing.assert_allclose(np.bincount(found[:, j], minlength=4) / 20_000, 0.25, atol=0.02)


def test_blocks_are_spread_by_the_margins():
    """A pair that is known on halves: inside of them records follow the marginals."""
    shares = np.array([0.05, 0.15, 0.25, 0.05, 0.3, 0.1, 0.05, 0.05])
    cuts = np.array([0, 4, 8])
    model = Pairwise(
        (margin(shares), margin(EVEN)), {(0, 1): Pair((cuts, cuts), np.array([[1.6, 0.4], [0.4, 1.6]]), (cuts, cuts))}
    )
    n = 50_000
    table = counted(sampled_records(model, n, seed=4), 0, 1, (8, 8))
    wanted = model.table(0, 1)
    assert (np.abs(table - wanted) < 5 * np.sqrt(wanted / n) + 2 / n).all()


def test_the_same_seed_gives_the_same_records():
    model = MODELS["three"]
    first, again, other = (sampled_records(model, 500, seed) for seed in (1, 1, 2))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()
    assert sampled_records(model, 500).tolist() != sampled_records(model, 500).tolist()


def test_records_come_in_no_order():
    """The first half has the shares of the whole, and equal records do not stand together."""
    found = sampled_records(MODELS["correlated"], 40_000, seed=1)
    for part in (found[:4000], found[-4000:]):
        np.testing.assert_allclose(np.bincount(part[:, 0], minlength=8) / 4000, SLOPED, atol=5 * np.sqrt(0.25 / 4000))
    same = (found[1:] == found[:-1]).all(axis=1).mean()
    chance = (counted(found, 0, 1, (8, 8)) ** 2).sum()
    assert same == pytest.approx(chance, abs=5 * np.sqrt(chance / 40_000))


@pytest.mark.parametrize("n", [0, 1, 7])
def test_few_records(n):
    found = sampled_records(MODELS["three"], n, seed=1)
    assert found.shape == (n, 3)
    assert ((found >= 0) & (found < 8)).all()


@pytest.mark.wide
def test_a_million_records():
    found = sampled_records(MODELS["three"], 1_000_000, seed=1)
    assert len(found) == 1_000_000
    np.testing.assert_allclose(counted(found, 0, 1, (8, 8)), MODELS["three"].table(0, 1), atol=3e-4)


def test_one_attribute_and_many_values():
    shares = np.random.default_rng(1).dirichlet(np.full(5000, 0.5))
    found = sampled_records(Pairwise((margin(shares),), {}), 100_000, seed=1)
    below = np.abs(np.cumsum(np.bincount(found[:, 0], minlength=5000) / 100_000) - np.cumsum(shares))
    assert below.max() < 0.005
    assert (shares[np.unique(found)] > 0).all()


def test_values_that_nobody_has_are_not_drawn():
    shares = np.array([0.5, 0.0, 0.5, 0.0])
    table = np.outer(shares, EVEN)
    ratio = np.ones((4, 8))
    cuts = np.arange(5), np.arange(9)
    model = Pairwise((margin(shares), margin(EVEN)), {(0, 1): Pair(cuts, ratio, cuts)})
    found = sampled_records(model, 10_000, seed=1)
    assert set(np.unique(found[:, 0]).tolist()) == {0, 2}
    np.testing.assert_allclose(counted(found, 0, 1, (4, 8)), table, atol=0.01)


def test_proposals_weigh_what_the_copula_has():
    """One in eight is of independent attributes; weighted, they are records of the copula all the same."""
    model = paired([EVEN, EVEN], {}, given=np.array([[1.0, 0.8], [0.8, 1.0]]))
    columns, weights = _proposed(model, 1 << 17, Stream.seeded(1))
    table = np.zeros((8, 8))
    np.add.at(table, (columns[0], columns[1]), weights / weights.sum())
    # Weights below a limit are lifted to it, in the corners: by a hundredth of an eighth of the whole at most.
    np.testing.assert_allclose(table, correlated(0.8, EVEN, EVEN), atol=1.5e-3)
    corner = (columns[0] == 0) & (columns[1] == 7)
    assert corner.mean() > 0.9 / 8 / 64
    assert weights[corner].mean() < 0.05


def test_even_resampling():
    """Each as often as its weight says, rounded up or down; and exactly n of them."""
    weights = np.array([0.5, 0.0, 0.25, 0.125, 0.125])
    for offset in (0.01, 0.5, 0.99):
        chosen = _systematic(weights, 10, offset)
        times = np.bincount(chosen, minlength=5)
        assert len(chosen) == 10
        assert (np.abs(times - 10 * weights) < 1).all()
    assert len(_systematic(weights, 0, 0.5)) == 0


def test_the_curve_halves_one_attribute_after_the_other():
    columns = [each.astype(np.int32) for each in np.divmod(np.random.default_rng(1).permutation(16), 4)]
    order = _curve(columns, [np.full(4, 0.25)] * 2)
    found = [(int(columns[0][place]), int(columns[1][place])) for place in order]
    quarter = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found == [(2 * i + a, 2 * j + b) for i, j in quarter for a, b in quarter]
    skewed = _curve([np.arange(4, dtype=np.int32)[::-1].copy()], [np.array([0.0, 0.9, 0.1, 0.0])])
    assert skewed.tolist() == [3, 2, 1, 0]
    many = [np.zeros(3, dtype=np.int32)] * 100
    assert _curve(many, [np.full(2, 0.5)] * 100).tolist() == [0, 1, 2]


@pytest.mark.wide
def test_few_records_are_more_even_than_independent_draws():
    """Sums of squares of standardised errors over 40 seeds: independent draws are below a third of 40 once in 1e6."""
    model = paired([np.full(8, 0.125)] * 3, {})
    found = [sampled_records(model, 1000, seed=seed) for seed in range(40)]
    for j in range(3):
        low = [(each[:, j] < 4).mean() for each in found]
        assert np.sum((np.array(low) - 0.5) ** 2) / (0.25 / 1000) < 40 / 3
    for j, k in combinations(range(3), 2):
        both = [((each[:, j] < 4) & (each[:, k] < 4)).mean() for each in found]
        assert np.sum((np.array(both) - 0.25) ** 2) / (0.1875 / 1000) < 40 / 3


def test_the_number_is_checked():
    model = uniform((4, 4))
    for wrong in (-1, 2.5, "many", None):
        with pytest.raises(ParameterError, match="n must be"):
            sampled_records(model, wrong, seed=1)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="seed"):
        sampled_records(model, 1, seed="x")  # type: ignore[arg-type]
