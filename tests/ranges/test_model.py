"""What answers queries: against brute force over full tables, and its errors against what they are made of."""

from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
import pytest

from dither.ranges import model as range_model
from dither.ranges.axes import Axes
from dither.ranges.model import (
    Answered,
    Factors,
    Margin,
    Pair,
    Pairwise,
    White,
    beyond_pairs,
    common_cuts,
    share_inside,
    sums,
)
from dither.ranges.pair_completion import joint
from dither.ranges.queries import Queries

SHAPE = (4, 7, 5)


def tensor(shape: tuple[int, ...] = SHAPE, seed: int = 1) -> np.ndarray:
    """A distribution over whole records, in which attributes depend on each other."""
    return np.random.default_rng(seed).dirichlet(np.full(int(np.prod(shape)), 0.7)).reshape(shape)


def known(size: int) -> np.ndarray:
    return np.arange(size + 1)


def margin(shares: np.ndarray, error: float = 0.0, cuts: np.ndarray | None = None) -> Margin:
    cuts = known(len(shares)) if cuts is None else cuts
    return Margin(shares, cuts, error**2 * np.eye(len(cuts) - 1))


def exact(table: np.ndarray, completion: str = "entropy", **options) -> Pairwise:
    """The model that has all margins and pairs of a table at full resolution."""
    axes = range(table.ndim)
    singles = [table.sum(axis=tuple(i for i in axes if i != j)) for j in axes]
    pairs = {}
    for j, k in combinations(axes, 2):
        both = table.sum(axis=tuple(i for i in axes if i not in (j, k)))
        cuts = known(table.shape[j]), known(table.shape[k])
        pairs[j, k] = Pair(cuts, both / np.outer(singles[j], singles[k]), cuts, **options)
    return Pairwise(tuple(map(margin, singles)), pairs, completion)


def brute(table: np.ndarray, queries: Queries) -> np.ndarray:
    """The weights of all attributes times all entries."""
    letters = "abcdef"[: table.ndim]
    inputs = ",".join("q" + letter for letter in letters)
    return np.einsum(f"{letters},{inputs}->q", table, *queries.masks)


def several(shape: tuple[int, ...], dimensions: int, count: int = 40) -> Queries:
    """Sets of values of all kinds: ranges, and values that are no neighbours."""
    rng = np.random.default_rng(dimensions)
    chosen = [sorted(rng.choice(len(shape), dimensions, replace=False).tolist()) for _ in range(count)]
    masks = [np.ones((count, size)) for size in shape]
    for number, attributes in enumerate(chosen):
        for j in attributes:
            masks[j][number] = 0
            masks[j][number, rng.choice(shape[j], rng.integers(1, shape[j]), replace=False)] = 1
    return Queries(shape, tuple(map(tuple, chosen)), tuple(masks))


# Answers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [0, 1, 2])
def test_answers_about_two_attributes_are_sums_over_the_full_table(dimensions):
    table = tensor()
    queries = several(SHAPE, dimensions)
    np.testing.assert_allclose(exact(table).answers(queries).value, brute(table, queries), atol=1e-9)


def test_more_attributes_are_put_together_from_their_pairs():
    table, queries = tensor(), several(SHAPE, 3)
    found = exact(table).answers(queries)
    singles = np.stack([brute(table, only(queries, (j,))) for j in range(3)], axis=1)
    pairs = np.stack([brute(table, only(queries, pair)) for pair in combinations(range(3), 2)], axis=1)
    np.testing.assert_allclose(found.value, joint(singles, pairs, "entropy").answer, atol=1e-8)
    assert found.converged.all()
    assert (found.iterations > 0).all()


def only(queries: Queries, attributes: tuple[int, ...]) -> Queries:
    """The same queries without their restrictions of other attributes."""
    masks = tuple(mask if j in attributes else np.ones_like(mask) for j, mask in enumerate(queries.masks))
    return Queries(queries.shape, (attributes,) * len(queries), masks)


@pytest.mark.parametrize("completion", ["copula", "entropy", "weighted update"])
def test_every_completion_has_the_pairs_and_stays_in_their_limits(completion):
    table, queries = tensor(), several(SHAPE, 3)
    found = exact(table, completion).answers(queries).value
    pairs = np.stack([brute(table, only(queries, pair)) for pair in combinations(range(3), 2)], axis=1)
    assert (found >= 0).all()
    assert (found <= pairs.min(axis=1) + 0.02).all()
    assert np.abs(found - brute(table, queries)).mean() < 0.03


def test_independent_attributes_are_multiplied_whatever_the_completion():
    shares = [np.array([0.1, 0.2, 0.7]), np.array([0.5, 0.3, 0.1, 0.1]), np.array([0.4, 0.6]), np.full(4, 0.25)]
    table = np.einsum("a,b,c,d->abcd", *shares)
    queries = several((3, 4, 2, 4), 4)
    for completion, apart in (("copula", 4e-3), ("entropy", 2e-6)):  # the copula's part is known from points
        model = Pairwise(tuple(map(margin, shares)), {}, completion)
        np.testing.assert_allclose(model.answers(queries).value, brute(table, queries), atol=apart)


def test_many_kinds_of_queries_at_once_keep_their_order():
    table = tensor()
    model = exact(table)
    axes = Axes.of_shape(SHAPE)
    asked = [{1: (0, 3)}, {}, {0: (1, 2), 2: {0, 4}}, {2: (3, 3)}, {0: (0, 1), 1: (2, 5)}, {1: (0, 3)}]
    queries = Queries.of(axes, asked)
    together = model.answers(queries)
    np.testing.assert_allclose(together.value, brute(table, queries), atol=1e-9)
    for number, each in enumerate(queries):
        alone = model.answers(each)
        for one, all_ in zip(alone, together, strict=True):
            assert one[0] == pytest.approx(all_[number])


def test_the_complement_has_the_rest():
    model, queries = exact(tensor()), several(SHAPE, 2)
    quadrants = np.zeros(len(queries))
    for one in (False, True):
        for other in (False, True):
            masks = [mask.copy() for mask in queries.masks]
            for number, (j, k) in enumerate(queries.attributes):
                for axis, swapped in ((j, one), (k, other)):
                    if swapped:
                        masks[axis][number] = 1 - masks[axis][number]
            quadrants += model.answers(Queries(SHAPE, queries.attributes, tuple(masks))).value
    np.testing.assert_allclose(quadrants, 1.0, atol=1e-9)


def test_cells_in_part_count_in_part():
    model = exact(tensor())
    masks = np.array([[0.0, 0.25, 1.0, 0.5]]), np.ones((1, 7)), np.array([[1.0, 0.5, 0.0, 0.0, 0.0]])
    queries = Queries(SHAPE, ((0, 2),), masks)
    np.testing.assert_allclose(model.answers(queries).value, brute(tensor(), queries), atol=1e-9)


def test_blocks_spread_by_the_margins():
    """A pair that is known on 2 x 3 blocks only, against the table of the closed form."""
    row, column = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.05, 0.15, 0.2, 0.1, 0.3, 0.2])
    cuts = np.array([0, 3, 4]), np.array([0, 1, 4, 6])
    ratio = np.array([[1.5, 1.1, 0.83], [0.2, 0.8, 1.255]])
    model = Pairwise((margin(row), margin(column)), {(0, 1): Pair(cuts, ratio, cuts)})
    table = np.array(
        [[row[i] * column[j] * ratio[int(i >= 3), int(j >= 1) + int(j >= 4)] for j in range(6)] for i in range(4)]
    )
    np.testing.assert_allclose(model.table(0, 1), table)
    queries = several((4, 6), 2)
    np.testing.assert_allclose(
        model.answers(queries).value, np.clip(brute(table, queries), *limits(model, queries)), atol=1e-9
    )


def limits(model: Pairwise, queries: Queries) -> tuple[np.ndarray, np.ndarray]:
    a, b = (queries.masks[j] @ model.margins[j].value for j in range(2))
    return np.maximum(0, a + b - 1), np.minimum(a, b)


def test_nested_queries_have_growing_answers():
    rng = np.random.default_rng(3)
    noisy = np.maximum(rng.normal(1 / 64, 0.02, (8, 8)), 0) + 1e-4
    model = exact(noisy / noisy.sum())
    axes = Axes.of_shape((8, 8))
    for fixed in ((0, 3), (2, 7), (4, 4)):
        asked = [{0: fixed, 1: (3, high)} for high in range(3, 8)] + [{0: fixed}]
        values = model.answers(Queries.of(axes, asked)).value
        assert (np.diff(values) >= -1e-9).all()


def test_the_correlation_of_the_pairs_has_their_sign():
    up = np.eye(4) / 8 + 1 / 32
    table = np.einsum("ab,c->abc", up, np.full(4, 0.25))
    assert exact(table).correlation[0, 1] > 0.3
    assert exact(table[:, ::-1]).correlation[0, 1] < -0.3
    assert abs(exact(table).correlation[0, 2]) < 1e-9
    given = np.eye(3)
    assert Pairwise(exact(table).margins, {}, given=given).correlation is given


def test_the_copula_leads_where_pairs_leave_it_open():
    """Pairs of four correlated normals on halves: of all tables with these pairs, the one near to a normal copula."""
    from dither.estimation.normal_copula import points

    shares = [np.full(16, 1 / 16)] * 4
    correlation = 0.2 * np.eye(4) + 0.8
    people = points(correlation, shares, 1 << 15)
    pairs = {}
    cuts = np.arange(0, 17, 2)
    for j, k in combinations(range(4), 2):
        table = np.zeros((8, 8))
        np.add.at(table, (people[:, j] // 2, people[:, k] // 2), 64 / len(people))
        pairs[j, k] = Pair((cuts, cuts), table, (cuts, cuts))
    queries = Queries.random(Axes.of_shape((16,) * 4), 4, 40, seed=2, step=2)
    truth = np.array([np.prod([queries.masks[j][q][people[:, j]] for j in range(4)], axis=0).mean() for q in range(40)])
    errors = {}
    for completion in ("copula", "entropy"):
        errors[completion] = np.abs(
            Pairwise(tuple(map(margin, shares)), pairs, completion).answers(queries).value - truth
        )
    assert errors["copula"].mean() < 0.5 * errors["entropy"].mean()
    assert errors["copula"].max() < 0.01


# Errors --------------------------------------------------------------------------------------------------------------


def test_the_error_of_one_attribute_is_that_of_its_cells():
    """Cells with a covariance of their own: w' C w for what a query covers of them."""
    rng = np.random.default_rng(1)
    root = rng.normal(size=(3, 3))
    covariance, cuts = root @ root.T, np.array([0, 2, 4, 8])
    shares = np.array([0.1, 0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    model = Pairwise((Margin(shares, cuts, covariance),), {})
    queries = Queries.of(Axes.of_shape((8,)), [{0: (0, 3)}, {0: (1, 3)}, {0: (0, 4)}])
    weights = np.array([[1, 1, 0], [0.75, 1, 0], [1, 1, 0.25]])
    found = model.answers(queries)
    np.testing.assert_allclose(found.noise, np.sqrt(np.einsum("qi,ij,qj->q", weights, covariance, weights)))
    assert found.doubt[0] == 0.0  # no cell is cut
    assert found.doubt[1] > 0
    np.testing.assert_allclose(found.stderr, np.hypot(found.noise, found.doubt))


def test_the_error_of_a_product_is_that_of_its_factors():
    one, other = margin(np.full(4, 0.25), 0.01), margin(np.full(5, 0.2), 0.02)
    found = Pairwise((one, other), {}).answers(Queries.of(Axes.of_shape((4, 5)), [{0: (0, 1), 1: (0, 2)}]))
    wanted = np.hypot(0.6 * np.sqrt(2) * 0.01, 0.5 * np.sqrt(3) * 0.02)
    assert found.noise[0] == pytest.approx(wanted, rel=1e-6)
    # Nobody was asked about both together.
    assert found.doubt[0] == pytest.approx(0.3 * np.sqrt(0.5 * 0.5 * 0.6 * 0.4))


def test_more_noise_in_margins_is_more_noise_in_answers():
    queries = several(SHAPE, 3)
    shares = [margin.value for margin in exact(tensor()).margins]
    levels = []
    for error in (0.0, 0.01, 0.02):
        model = Pairwise(tuple(margin(each, error) for each in shares), exact(tensor()).pairs, "entropy")
        levels.append(model.answers(queries).noise)
    assert levels[0].max() == 0.0
    np.testing.assert_allclose(levels[2], 2 * levels[1], rtol=1e-9)
    assert levels[1].min() > 0


def test_white_noise_without_its_margins():
    """Against the projection written out: what the grid's error adds to u' M v once its rows and columns are known."""
    rng = np.random.default_rng(1)
    u, v = rng.random((5, 4)), rng.random((5, 6))
    away = [np.eye(size) - 1 / size for size in (4, 6)]
    left, right = u @ away[0], v @ away[1]
    wanted = 0.3 * np.einsum("qi,qj->qij", left, right).reshape(5, -1).__pow__(2).sum(axis=1)
    np.testing.assert_allclose(White(0.3).variance(u, v), wanted)
    np.testing.assert_allclose(White(0.3).variance(np.ones((1, 4)), v[:1]), 0.0, atol=1e-12)


def test_factors():
    tables = np.random.default_rng(1).normal(size=(3, 2, 4))
    u, v = np.array([[1.0, 0.0]]), np.array([[1.0, 1.0, 0.0, 0.5]])
    wanted = sum((u[0] @ table @ v[0]) ** 2 for table in tables)
    np.testing.assert_allclose(Factors(tables).variance(u, v), [wanted])


def test_the_noise_of_a_pair_is_in_the_answer():
    table = tensor((4, 4))
    queries = Queries.of(Axes.of_shape((4, 4)), [{0: (0, 1), 1: (0, 1)}, {0: (0, 0), 1: (1, 3)}])
    found = exact(table, noise=White(1e-4)).answers(queries)
    # two of four rows: 2 - 4/4 = 1; one row: 1 - 1/4; three columns: 3 - 9/4
    np.testing.assert_allclose(found.noise, 1e-2 * np.sqrt([1.0, 0.75 * 0.75]))


def test_the_error_of_three_attributes_follows_their_pairs():
    """A parametric bootstrap: pairs moved at random by their own noise move the answer as much as stated."""
    rng = np.random.default_rng(4)
    table = tensor((2, 2, 2), seed=3)
    model = exact(table, noise=White(1e-6))
    axes = Axes.of_shape((2, 2, 2))
    queries = Queries.of(axes, [{0: 0, 1: 0, 2: 0}])
    stated = float(model.answers(queries).noise[0])
    singles = np.array([[table.sum(axis=tuple(i for i in range(3) if i != j))[0] for j in range(3)]])
    both = np.array([[table.sum(axis=3 - j - k)[0, 0] for j, k in combinations(range(3), 2)]])
    moved = both + rng.normal(0, 0.5e-3, (4000, 3))  # the interaction of a 2 x 2 table: variance / 4 in a cell
    answers = joint(np.repeat(singles, 4000, axis=0), moved, "entropy").answer
    assert stated == pytest.approx(answers.std(), rel=0.1)


def test_doubt_is_about_cells_that_are_cut():
    shares, cuts = np.full(8, 0.125), np.array([0, 4, 8])
    pair = Pair((cuts, cuts), np.array([[1.6, 0.4], [0.4, 1.6]]), (cuts, cuts))
    model = Pairwise((margin(shares), margin(shares)), {(0, 1): pair})
    asked = [{0: (0, 3), 1: (4, 7)}, {0: (0, 1), 1: (0, 3)}, {0: (0, 0), 1: (0, 3)}, {0: (0, 1), 1: (0, 1)}]
    doubt = model.answers(Queries.of(Axes.of_shape((8, 8)), asked)).doubt
    assert doubt[0] == 0.0
    assert doubt[1] > doubt[2] > 0  # half of a cell is more in doubt than a quarter
    assert doubt[3] > 0


def test_three_attributes_leave_a_doubt_even_between_cells():
    found = exact(tensor((2, 2, 2), seed=5), "copula").answers(several((2, 2, 2), 3, 10))
    assert (found.doubt > 0).any()
    assert (found.doubt < 0.1).all()


SINGLES = [[Fraction(1, 2)] * 3, [Fraction(1, 3), Fraction(4, 5), Fraction(1, 7), Fraction(1, 2)], [Fraction(3, 4)] * 6]


@pytest.mark.parametrize("singles", SINGLES, ids=["three", "four", "six"])
def test_what_pairs_cannot_tell_is_counted_part_by_part(singles):
    """Every set of three attributes or more, in fractions: no part of one or two attributes, and none left out."""
    square = Fraction(0)
    for size in range(3, len(singles) + 1):
        for chosen in combinations(range(len(singles)), size):
            square += prod((2 * p * (1 - p) if j in chosen else p) ** 2 for j, p in enumerate(singles))
    found = beyond_pairs(np.array([singles], dtype=np.float64))
    assert found[0] == pytest.approx(float(square) ** 0.5, rel=1e-12)


def test_two_attributes_and_those_that_hold_everybody_leave_nothing():
    singles = np.array([[0.3, 0.6, 1.0], [0.3, 0.0, 0.6], [1.0, 1.0, 1.0]])
    assert beyond_pairs(singles).tolist() == [0.0, 0.0, 0.0]
    assert beyond_pairs(np.array([[0.3, 0.6]])).tolist() == [0.0]


def test_a_small_box_is_in_doubt_by_its_mass():
    small = np.full((1, 3), 1e-3)
    assert beyond_pairs(small)[0] == pytest.approx(8e-9, rel=0.01)  # 2 p (1 - p), three times


def test_a_parity_that_pairs_do_not_show_is_in_the_doubt(monkeypatch):
    """Five users in eight have an even parity, so that an answer of 1/8 misses by a quarter of it."""
    even = np.indices((2, 2, 2)).sum(axis=0) % 2 == 0
    table = np.where(even, 1.25, 0.75) / 8
    asked = Queries.of(Axes.of_shape((2, 2, 2)), [{0: (0, 0), 1: (0, 0), 2: (0, 0)}])
    found = exact(table, "copula").answers(asked)
    assert found.value[0] == pytest.approx(1 / 8, abs=1e-3)
    assert abs(found.value[0] - table[0, 0, 0]) < 1.96 * found.doubt[0]
    monkeypatch.setattr(range_model, "_UNSEEN", 0.0)
    assert abs(found.value[0] - table[0, 0, 0]) > 1.96 * exact(table, "copula").answers(asked).doubt[0]


# Pieces ----------------------------------------------------------------------------------------------------------


def test_what_is_inside_of_cells():
    cuts = np.array([0, 2, 5])
    masks = np.array([[1.0, 0.0, 1.0, 1.0, 0.0]])
    np.testing.assert_allclose(share_inside(masks, np.array([0.1, 0.3, 0.2, 0.2, 0.2]), cuts), [[0.25, 2 / 3]])
    np.testing.assert_allclose(share_inside(masks, np.array([0.0, 0.0, 0.5, 0.5, 0.0]), cuts), [[0.5, 1.0]])
    assert sums(np.arange(5.0), cuts).tolist() == [1.0, 9.0]
    assert common_cuts([cuts, np.array([0, 3, 5])]).tolist() == [0, 2, 3, 5]


def test_no_queries():
    found = exact(tensor()).answers(Queries.of(Axes.of_shape(SHAPE), []))
    assert isinstance(found, Answered)
    assert all(len(part) == 0 for part in found)
