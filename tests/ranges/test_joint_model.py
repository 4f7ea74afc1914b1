"""One joint model: answers of a partition add up, tables, conditions and samples are those of the answers.

Sums are exact to rounding, whatever the tables are, and tested so. Records stand for the rest: what they tell is known
to a few thousandths, with bounds of twice what the fixed seeds give.
"""

from itertools import combinations, pairwise, product

import numpy as np
import pytest

from dither import Categorical, Numeric, Ordinal, Schema
from dither.errors import ParameterError
from dither.ranges import MSW, Copula
from dither.ranges.axes import Axes

SHAPE = (12, 9, 5, 20)


def people(n: int = 30_000, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    side = rng.integers(0, 2, (n, 1))
    z = 0.25 + 0.5 * (side ^ np.arange(4) % 2) + 0.1 * rng.standard_normal((n, 4))
    return np.clip(z * SHAPE, 0, np.array(SHAPE) - 1).astype(int)


@pytest.fixture(scope="module")
def estimate():
    mechanism = Copula(SHAPE, 1.0, 30_000)
    return mechanism.estimate(mechanism.tally(mechanism.randomize(people(), seed=1)))


def parts(size: int, seed: int) -> list[tuple[int, int]]:
    cuts = [0, *sorted(np.random.default_rng(seed).choice(np.arange(1, size), 2, replace=False).tolist()), size]
    return [(low, high - 1) for low, high in pairwise(cuts)]


@pytest.mark.parametrize("seed", range(4))
def test_the_answers_of_a_partition_add_up(estimate, seed):
    """Of one, two and three attributes: whatever is divided along further ones, to rounding."""
    pieces = [parts(size, seed + j) for j, size in enumerate(SHAPE)]
    for count in (1, 2, 3):
        for kept in combinations(range(4), count):
            for other in set(range(4)) - set(kept):
                whole = {j: pieces[j][seed % 3] for j in kept}
                divided = estimate.answers([{**whole, other: piece} for piece in pieces[other]])
                assert float(divided.value.sum()) == pytest.approx(float(estimate.answer(whole).value), abs=1e-9)
    boxes = [dict(enumerate(box)) for box in product(*pieces)]
    assert float(estimate.answers(boxes).value.sum()) == pytest.approx(1.0, abs=1e-9)


def test_parts_of_cells_add_up_too():
    """Ranges of numbers that end inside cells."""
    schema = Schema({"x": Numeric(0, 1), "y": Numeric(0, 1), "z": Ordinal(0, 8)})
    axes = Axes.of_schema(schema, bins=32)
    rng = np.random.default_rng(1)
    z = np.clip(0.5 + 0.2 * rng.multivariate_normal(np.zeros(3), 0.6 + 0.4 * np.eye(3), 20_000), 0, 0.999)
    mechanism = Copula(axes.shape, 1.0, 20_000)
    tally = mechanism.tally(mechanism.randomize((z * axes.shape).astype(int), seed=1))
    estimate = mechanism.estimate(tally).on(axes)
    whole = {"y": (0.123, 0.777), "z": (2, 5)}
    ends = [(None, 0.111), (0.111, 0.51234), (0.51234, None)]
    divided = estimate.answers([{**whole, "x": piece} for piece in ends])
    assert float(divided.value.sum()) == pytest.approx(float(estimate.answer(whole).value), abs=1e-9)


def test_a_table_of_three_has_the_tables_of_two(estimate):
    three = estimate.marginal(0, 2, 1)
    assert three.value.shape == (12, 5, 9)
    assert three.item_names[-1] == "11, 4, 8"
    np.testing.assert_allclose(three.value.sum(axis=2), estimate.marginal(0, 2).value, atol=1e-9)
    np.testing.assert_allclose(three.value.sum(axis=(0, 2)), estimate.marginal(2).value, atol=1e-9)
    low = float(three.value[3:7, 1:3, 2:5].sum())
    assert low == pytest.approx(float(estimate.answer({0: (3, 6), 2: (1, 2), 1: (2, 4)}).value), abs=1e-9)
    with pytest.raises(ParameterError, match="several different ones"):
        estimate.marginal(0, 1, 0)


def test_a_table_that_is_too_large_is_refused():
    mechanism = Copula((64, 64, 64), 1.0, 1000)
    found = mechanism.estimate(mechanism.tally(mechanism.randomize(np.zeros((1000, 3), dtype=int), seed=1)))
    with pytest.raises(ParameterError, match="262,144 entries"):
        found.marginal(0, 1, 2)


def test_samples_agree_with_answers(estimate):
    drawn = estimate.sample(200_000, seed=1)
    boxes = [{j: parts(SHAPE[j], seed + j)[1] for j in (0, 1, 3)} for seed in range(20)]
    shares = [
        np.mean(np.all([(drawn[:, j] >= low) & (drawn[:, j] <= high) for j, (low, high) in box.items()], axis=0))
        for box in boxes
    ]
    assert np.abs(estimate.answers(boxes).value - shares).mean() < 0.006


def test_a_share_among_others(estimate):
    query, given = {0: (0, 5)}, {1: (0, 3), 3: (5, None)}
    both, whole = estimate.answer({**query, **given}), estimate.answer(given)
    found = estimate.answer(query, given=given)
    assert float(found.value) == pytest.approx(float(both.value) / float(whole.value))
    assert float(found.stderr) >= float(both.stderr) / float(whole.value)
    rest = estimate.answer({0: (6, None)}, given=given)
    assert float(found.value) + float(rest.value) == pytest.approx(1.0, abs=1e-9)
    assert "given" in repr(found)
    with pytest.raises(ParameterError, match="name it in one of them"):
        estimate.answer({0: (0, 5)}, given={0: (3, 4)})


def test_shares_and_quantiles_among_others_hold():
    """Of a normal pair and a third that hangs on both; the median of one, given where another is."""
    rng = np.random.default_rng(3)
    z = rng.multivariate_normal(np.zeros(3), 0.7 + 0.3 * np.eye(3), 100_000)
    records = np.clip((z + 4) * 8, 0, 63).astype(int)
    mechanism = Copula((64, 64, 64), 2.0, 100_000)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(records, seed=1)))
    inside = (records[:, 1] >= 36) & (records[:, 2] <= 40)
    given = {1: (36, None), 2: (None, 40)}
    share = estimate.answer({0: (36, None)}, given=given)
    assert abs(float(share.value) - np.mean(records[inside, 0] >= 36)) < 4 * float(share.stderr)
    found = estimate.quantile(0, [0.25, 0.5, 0.75], given=given)
    truth = np.quantile(records[inside, 0], [0.25, 0.5, 0.75])
    assert (np.abs(found.value - truth) <= 1 + 4 * found.stderr).all()
    assert (np.diff(found.value) > 0).all()
    everybody = estimate.quantile(0, 0.5)
    assert float(found.value[1]) > float(everybody.value)


def test_hardly_anybody_is_refused(estimate):
    with pytest.raises(ParameterError, match="hardly any users"):
        estimate.answer({0: (0, 5)}, given={1: (8, 8), 3: (0, 0)})


def test_independent_attributes_are_multiplied_exactly():
    mechanism = MSW(SHAPE, 1.0, 5_000)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(people(5_000), seed=1)))
    query = {0: (2, 7), 1: (1, 4), 3: (5, 11)}
    singles = [float(estimate.answer({j: each}).value) for j, each in query.items()]
    assert float(estimate.answer(query).value) == pytest.approx(float(np.prod(singles)))


def test_labels_have_tables_of_three():
    schema = Schema({"a": Categorical(["x", "y"]), "b": Categorical(["u", "v", "w"]), "c": Ordinal(1, 4)})
    axes = Axes.of_schema(schema)
    records = np.random.default_rng(1).integers(0, axes.shape, (4_000, 3))
    mechanism = Copula(axes.shape, 2.0, 4_000, nominal=(0, 1))
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(records, seed=1))).on(axes)
    table = estimate.marginal("a", "b", "c")
    assert table.item_names[0] == "x, u, 1"
    assert float(table.value.sum()) == pytest.approx(1.0, abs=1e-9)
