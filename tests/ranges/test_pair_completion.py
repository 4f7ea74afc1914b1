"""Answers from pairs: the three ways against brute force, against each other, and against finite differences.

The table of largest entropy is found a second time by SciPy, from the constraints alone. Answers of real tables are
feasible; their fits must meet them, be of the exponential family, and agree whichever way they were found.
"""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls

from dither.errors import ParameterError
from dither.ranges.pair_completion import answer_gradients, joint, margins

WAYS = ("weighted update", "quadrants", "entropy")
often = settings(max_examples=40, deadline=None, derandomize=True)


def tables(attributes: int, queries: int, seed: int = 1, least: float = 0.02) -> np.ndarray:
    """Distributions over all states, each of them at least a little likely."""
    z = np.random.default_rng(seed).dirichlet(np.full(1 << attributes, 0.5), queries) + least / (1 << attributes)
    return z / z.sum(axis=1, keepdims=True)


def features(attributes: int) -> np.ndarray:
    """Whether each state is inside in each attribute, and in each pair: written out from the numbers of the states."""
    inside = np.array([[int(bit) for bit in f"{state:0{attributes}b}"] for state in range(1 << attributes)])
    return np.column_stack([inside, *(inside[:, j] * inside[:, k] for j, k in combinations(range(attributes), 2))])


def answers(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    attributes = int(np.log2(z.shape[1]))
    found = z @ features(attributes)
    return found[:, :attributes], found[:, attributes:]


def largest_entropy(wanted: np.ndarray, used: np.ndarray, start: np.ndarray) -> np.ndarray:
    """By a general solver on the dual."""

    def dual(theta):
        energy = np.log(start) + used @ theta
        top = energy.max()
        z = np.exp(energy - top)
        return top + np.log(z.sum()) - theta @ wanted, used.T @ (z / z.sum()) - wanted

    theta = minimize(dual, np.zeros(used.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    z = start * np.exp(used @ theta)
    return z / z.sum()


@pytest.mark.parametrize("attributes", [1, 2, 3, 5])
def test_margins_are_the_sums_over_states(attributes):
    z = tables(attributes, 7)
    for found, wanted in zip(margins(z), answers(z), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-15)


@pytest.mark.parametrize("by", WAYS)
def test_one_and_two_attributes_are_immediate(by):
    one = joint(np.array([[0.3], [1.2]]), np.empty((2, 0)), by)
    np.testing.assert_array_equal(one.z, [[0.7, 0.3], [0.0, 1.0]])
    z = tables(2, 5)
    two = joint(*answers(z), by)
    np.testing.assert_allclose(two.z, z, atol=1e-15)
    np.testing.assert_array_equal(two.answer, answers(z)[1][:, 0])
    assert not two.iterations.any()
    assert two.converged.all()


def test_a_pair_is_kept_within_the_limits_of_its_singles():
    singles = np.array([[0.7, 0.6]] * 4)
    found = joint(singles, np.array([[0.1], [0.4], [0.65], [0.3]]))
    np.testing.assert_allclose(found.answer, [0.3, 0.4, 0.6, 0.3])
    np.testing.assert_allclose(found.z[0], [0, 0.3, 0.4, 0.3], atol=1e-15)
    np.testing.assert_allclose(found.z[2], [0.3, 0, 0.1, 0.6], atol=1e-15)
    three = joint(np.array([[0.7, 0.6, 1.0]]), np.array([[0.1, 0.7, 0.6]]))
    assert three.answer[0] == pytest.approx(0.3, abs=1e-6)
    assert three.misfit[0] < 1e-6


def test_rounds_are_counted():
    """Independent halves need no change: one round shows it. An even start is scaled to others in one round more."""
    halves, quarters = np.full((1, 3), 0.5), np.full((1, 3), 0.25)
    assert joint(halves, quarters, "quadrants").iterations.tolist() == [1]
    fifths = np.full((1, 3), 0.2)
    assert joint(fifths, fifths**2, "quadrants").iterations.tolist() == [2]
    assert joint(np.vstack([halves, fifths]), np.vstack([quarters, fifths**2]), "quadrants").iterations.tolist() == [
        1,
        2,
    ]


@pytest.mark.parametrize("by", ["quadrants", "entropy"])
def test_a_start_needs_not_add_up_to_one(by):
    truth, start = tables(3, 2), tables(3, 2, seed=2)
    np.testing.assert_allclose(
        joint(*answers(truth), by, 100 * start).z, joint(*answers(truth), by, start).z, rtol=1e-9
    )


@pytest.mark.parametrize("attributes", [3, 4])
@pytest.mark.parametrize("prior", [False, True])
def test_quadrants_and_entropy_find_the_table_of_largest_entropy(attributes, prior):
    truth = tables(attributes, 4, seed=attributes)
    start = tables(attributes, 4, seed=9) if prior else np.full(truth.shape, 1 / truth.shape[1])
    used = features(attributes)
    for by in ("quadrants", "entropy"):
        found = joint(*answers(truth), by, start if prior else None, tolerance=1e-11, most=20_000)
        assert found.converged.all()
        assert found.misfit.max() < 1e-7
        for z, known, first in zip(found.z, truth @ used, start, strict=True):
            np.testing.assert_allclose(z, largest_entropy(known, used, first), atol=1e-6)


@pytest.mark.parametrize("attributes", [3, 4, 6])
def test_quadrants_and_entropy_agree(attributes):
    truth = tables(attributes, 30, seed=5, least=0.1)
    start = tables(attributes, 30, seed=6, least=0.1)
    for first in (None, start):
        slow = joint(*answers(truth), "quadrants", first, tolerance=1e-10, most=20_000)
        fast = joint(*answers(truth), "entropy", first)
        np.testing.assert_allclose(slow.z, fast.z, atol=1e-6)
        assert slow.converged.all()
        assert fast.converged.all()
        assert fast.iterations.max() < 25
        assert fast.misfit.max() < 1e-7


def test_ways_are_joined_by_default_and_answers_are_the_last_state():
    truth = tables(4, 10)
    found = joint(*answers(truth))
    np.testing.assert_array_equal(found.answer, found.z[:, -1])
    np.testing.assert_allclose(found.z, joint(*answers(truth), "entropy").z)
    np.testing.assert_allclose(found.z.sum(axis=1), 1, atol=1e-12)


def as_in_the_paper(pairs: np.ndarray, attributes: int, rounds: int) -> np.ndarray:
    """Algorithm 2, state by state, with the table scaled back to one after every update."""
    z = np.full(1 << attributes, 1 / (1 << attributes))
    inside = features(attributes)[:, attributes:].astype(bool)
    for _ in range(rounds):
        for pair, states in zip(pairs, inside.T, strict=True):
            z[states] *= pair / z[states].sum()
            z /= z.sum()
    return z


@pytest.mark.parametrize("attributes", [3, 4])
def test_weighted_update_is_algorithm_2_with_its_erratum(attributes):
    truth = tables(attributes, 6)
    singles, pairs = answers(truth)
    short = joint(singles, pairs, "weighted update", most=3, tolerance=1e-300)
    assert (short.iterations == 3).all()
    assert not short.converged.any()
    for z, pair in zip(short.z, pairs, strict=True):
        np.testing.assert_allclose(z, as_in_the_paper(pair, attributes, 3), atol=1e-14)
    long = joint(singles, pairs, "weighted update", most=5000, tolerance=1e-11)
    assert long.converged.all()
    np.testing.assert_allclose(margins(long.z)[1], pairs, atol=1e-8)
    np.testing.assert_allclose(long.z.sum(axis=1), 1, atol=1e-12)
    start, used = np.full(1 << attributes, 0.5**attributes), features(attributes)[:, attributes:]
    for z, pair in zip(long.z, pairs, strict=True):
        np.testing.assert_allclose(z, largest_entropy(pair, used, start), atol=1e-5)


def test_weighted_update_does_not_look_at_singles():
    singles, pairs = answers(tables(4, 3))
    np.testing.assert_array_equal(
        joint(singles, pairs, "weighted update").z, joint(singles[:, ::-1], pairs, "weighted update").z
    )


@pytest.mark.parametrize("by", WAYS)
def test_a_query_does_not_depend_on_its_company(by):
    singles, pairs = answers(tables(4, 12))
    together = joint(singles, pairs, by)
    for query in range(12):
        alone = joint(singles[query : query + 1], pairs[query : query + 1], by)
        np.testing.assert_allclose(alone.z[0], together.z[query], rtol=1e-9, atol=1e-12)
        assert alone.iterations[0] == together.iterations[query]


@pytest.mark.parametrize("by", WAYS)
def test_attributes_may_be_named_in_any_order(by):
    truth = tables(4, 5).reshape(-1, 2, 2, 2, 2)
    turned = truth.transpose(0, 3, 1, 4, 2).reshape(5, 16)
    settings = {"tolerance": 1e-10, "most": 20_000}
    found = joint(*answers(truth.reshape(5, 16)), by, **settings).z.reshape(-1, 2, 2, 2, 2)
    again = joint(*answers(turned), by, **settings).z
    np.testing.assert_allclose(found.transpose(0, 3, 1, 4, 2).reshape(5, 16), again, atol=1e-6)


def test_independent_attributes_stay_independent():
    singles = np.random.default_rng(2).uniform(0.05, 0.95, (20, 5))
    pairs = np.column_stack([singles[:, j] * singles[:, k] for j, k in combinations(range(5), 2)])
    for by in ("quadrants", "entropy"):
        np.testing.assert_allclose(joint(singles, pairs, by).answer, singles.prod(axis=1), atol=1e-7)


shares = st.floats(-0.2, 1.2).map(lambda share: round(share, 2))


@often
@given(st.lists(shares, min_size=10, max_size=10))
def test_any_answers_give_a_distribution(given_answers):
    singles, pairs = np.array([given_answers[:4]]), np.array([given_answers[4:]])
    for by in WAYS:
        found = joint(singles, pairs, by, most=200)
        assert (found.z >= 0).all()
        np.testing.assert_allclose(found.z.sum(axis=1), 1, atol=1e-9)
        assert np.isfinite(found.misfit).all()


def test_answers_that_contradict_each_other_leave_a_table():
    """The first equals the second, the second the third, and the first and the third exclude each other."""
    halves, pairs = np.full((1, 3), 0.5), np.array([[0.5, 0.0, 0.5]])
    for by in WAYS:
        assert joint(halves, pairs, by).z.sum() == pytest.approx(1)
    found = joint(halves, pairs, "entropy")
    assert found.converged.all()
    assert found.misfit[0] > 0.1


def test_the_nearest_answers_where_none_fit():
    """Entropy ends at the point of the convex hull of the states' features that is nearest to the answers."""
    rng = np.random.default_rng(4)
    singles, used = np.full((6, 4), 0.5), features(4)
    pairs = np.clip(0.25 + rng.normal(0, 0.25, (6, 6)), 0, 0.5)
    found = joint(singles, pairs)
    assert found.converged.all()
    for z, known in zip(found.z, np.hstack([singles, pairs]), strict=True):
        heavy = 1e4  # the states' shares add up to one
        nearest = nnls(np.vstack([used.T, np.full(16, heavy)]), np.append(known, heavy))[0]
        assert np.linalg.norm(used.T @ z - known) == pytest.approx(np.linalg.norm(used.T @ nearest - known), abs=1e-5)
    assert (found.misfit > 0.01).any()


@pytest.mark.parametrize("by", ["quadrants", "entropy"])
def test_nobody_and_everybody(by):
    truth = tables(3, 1)[0]
    for position, share in ((0, 0.0), (0, 1.0), (3, 0.0), (3, 1.0)):
        wide = np.zeros((2, 8))
        wide[int(share)] = truth
        z = wide.reshape(1, 16) if position == 0 else np.moveaxis(wide.reshape(2, 2, 2, 2), 0, 3).reshape(1, 16)
        found = joint(*answers(z), by)
        fitted = joint(*answers(truth[None]), by).answer[0]
        assert found.answer[0] == pytest.approx(share * fitted, abs=1e-6)


def test_start_may_forbid_states():
    truth = tables(3, 4)
    truth[:, 5] = 0
    truth /= truth.sum(axis=1, keepdims=True)
    for by in ("quadrants", "entropy"):
        found = joint(*answers(truth), by, start=(truth > 0) * 1.0, tolerance=1e-10, most=20_000)
        assert (found.z[:, 5] == 0).all()
        np.testing.assert_allclose(found.z, truth, atol=1e-6)  # seven unknowns, seven equations


@pytest.mark.parametrize("by", ["quadrants", "entropy"])
def test_a_start_that_forbids_all_that_is_asked_for_still_leaves_a_table(by):
    start = np.zeros((1, 8))
    start[0, 0] = 1.0
    found = joint(*answers(np.eye(8)[7:]), by, start, most=20)
    np.testing.assert_allclose(found.z, start)
    assert found.misfit[0] == pytest.approx(1)


@pytest.mark.parametrize("attributes", [2, 3, 4])
@pytest.mark.parametrize("prior", [False, True])
def test_sensitivity_is_the_derivative(attributes, prior):
    truth = tables(attributes, 3, seed=3, least=0.5)
    start = tables(attributes, 3, seed=8, least=0.5) if prior else None
    known = truth @ features(attributes)
    tight = {"start": start, "tolerance": 1e-12, "most": 5000}
    found = answer_gradients(joint(known[:, :attributes], known[:, attributes:], "quadrants", **tight).z)
    assert found.shape == known.shape
    step = 1e-5
    for number in range(known.shape[1]):
        low, high = known.copy(), known.copy()
        low[:, number] -= step
        high[:, number] += step
        ends = [joint(at[:, :attributes], at[:, attributes:], "quadrants", **tight).answer for at in (low, high)]
        np.testing.assert_allclose(found[:, number], (ends[1] - ends[0]) / (2 * step), atol=2e-5)


def test_sensitivity_where_z_cannot_move():
    z = np.zeros((2, 8))
    z[0, 7] = z[1, 0] = 1.0
    np.testing.assert_array_equal(answer_gradients(z), 0)
    edge = np.zeros((1, 8))
    edge[0, [0, 7]] = 0.5
    assert np.isfinite(answer_gradients(edge)).all()
    assert answer_gradients(edge)[0] == pytest.approx(np.full(6, 1 / 6))  # all six say the same


def test_ten_attributes():
    truth = tables(10, 3, least=0.3)
    found = joint(*answers(truth))
    assert found.converged.all()
    assert found.misfit.max() < 1e-7
    assert answer_gradients(found.z).shape == (3, 55)


def test_no_queries():
    for by in WAYS:
        assert joint(np.empty((0, 4)), np.empty((0, 6)), by).z.shape == (0, 16)
    assert answer_gradients(np.empty((0, 16))).shape == (0, 10)


@pytest.mark.parametrize(
    "wrong",
    [
        {"by": "guess"},
        {"singles": np.full(3, 0.5)},
        {"singles": np.full((1, 0), 0.5), "pairs": np.empty((1, 0))},
        {"singles": np.full((1, 17), 0.5), "pairs": np.full((1, 136), 0.5)},
        {"pairs": np.full((1, 4), 0.25)},
        {"pairs": np.full((2, 3), 0.25)},
        {"pairs": np.full((1, 3), np.nan)},
        {"singles": [["a", "b", "c"]]},
        {"tolerance": 0.0},
        {"most": 0},
        {"start": np.full((1, 8), 1.0), "by": "weighted update"},
        {"start": np.full((1, 4), 0.25)},
        {"start": np.full((1, 8), -1.0)},
        {"start": np.zeros((1, 8))},
    ],
)
def test_what_has_no_meaning_is_refused(wrong):
    with pytest.raises(ParameterError):
        joint(**{"singles": np.full((1, 3), 0.5), "pairs": np.full((1, 3), 0.25), **wrong})


def test_tables_need_all_states():
    for wrong in (np.ones((1, 3)), np.ones(4), np.ones((1, 1))):
        for ask in (margins, answer_gradients):
            with pytest.raises(ParameterError):
                ask(wrong)
