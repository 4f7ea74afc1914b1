"""Limits: by enumeration of channels they hold, by the best mechanisms they are attained."""

import itertools
import math

import numpy as np
import pytest

import dither
from dither.core.domains import Categories, UnitInterval
from dither.errors import ParameterError
from dither.utility import Parameters, deviation, least_mse, limit
from dither.utility.limits import frequencies, largest_of, mean, sparse
from utility.registered import NAMES

EPSILONS = (0.01, 0.3, 1.0, 1.5, 3.0, 6.0)
Scores = np.ndarray


# Small hard populations: for each equally likely record the scaled scores of all parameters, written out. ----------


def helmert(k: int) -> Scores:
    """k equally likely answers: k - 1 scores of variance 1, without correlation."""
    tangent = np.linalg.qr(np.column_stack([np.ones(k), np.eye(k)[:, 1:]]))[0][:, 1:]
    return tangent * math.sqrt(k)


def cube(d: int) -> Scores:
    return np.array(list(itertools.product((-1.0, 1.0), repeat=d)))


def held_keys(keys: int) -> Scores:
    """One of some keys with a sign: the scores of the means."""
    return np.vstack([sign * math.sqrt(keys) * np.eye(keys) for sign in (1, -1)])


def pairs(one: Scores, two: Scores) -> Scores:
    return np.array([np.concatenate([a, b]) for a in one for b in two])


POPULATIONS = {
    "mean": (cube(1), mean()),
    "3 means": (cube(3), mean() * 3),
    "2 categories": (helmert(2), frequencies(2)),
    "5 categories": (helmert(5), frequencies(5)),
    "8 categories": (helmert(8), frequencies(8)),
    "mean and 4 categories": (pairs(cube(1), helmert(4)), mean() + frequencies(4)),
    "2 and 3 categories": (pairs(helmert(2), helmert(3)), frequencies(2) + frequencies(3)),
    "1 of 4 keys": (held_keys(4), sparse(4, 1)),
    "2 of 3 keys": (pairs(held_keys(1), held_keys(2)), sparse(3, 2)),
}


def most(blocks: tuple[Parameters, ...], epsilon: float) -> float:
    """The largest sum of t_j that `least_mse` allows: weights that make every t_j cost the same, t_j = t."""
    equal = tuple(Parameters(b.count, b.information, b.information, b.cells, b.signs) for b in blocks)
    count = sum(block.count for block in blocks)
    return count**2 / least_mse(equal, epsilon, of="population")


def told(scores: Scores, q: np.ndarray) -> np.ndarray:
    """|E[s|y]|^2 for the rows q(x) = Q(y|x)."""
    return ((q @ scores / q.sum(axis=1, keepdims=True)) ** 2).sum(axis=1)


def two_levels(size: int, epsilon: float) -> np.ndarray:
    sets = (np.arange(1, 2**size - 1)[:, None] >> np.arange(size)) & 1
    return 1 + sets * math.expm1(epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", POPULATIONS)
def test_no_channel_tells_more(name, epsilon):
    """The trace of a channel's information is an average of |E[s|y]|^2 over y: the largest over all q bounds it."""
    scores, blocks = POPULATIONS[name]
    assert scores.T @ scores / len(scores) == pytest.approx(np.eye(scores.shape[1]), abs=1e-12)
    extreme = told(scores, two_levels(len(scores), epsilon)).max()
    inside = np.exp(np.random.default_rng(1).uniform(0, epsilon, (2000, len(scores))))
    assert told(scores, inside).max() <= extreme * (1 + 1e-12)
    assert extreme <= most(blocks, epsilon) * (1 + 1e-9)
    if len(blocks) == 1:  # one question: the limit is exact
        assert extreme == pytest.approx(most(blocks, epsilon), rel=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", POPULATIONS)
def test_no_channel_has_a_smaller_error(name, epsilon):
    """Random channels, built of two-level columns: the exact inverse information against the limit, whole."""
    scores, blocks = POPULATIONS[name]
    rng = np.random.default_rng(2)
    weights = np.concatenate([np.full(b.count, b.weight / b.information) for b in blocks])
    for _ in range(20):
        # Any positive combination of columns with rows of equal sums is a channel; complements in pairs have them
        # equal up to a constant, which is one more column that tells nothing.
        sets = rng.integers(0, 2, (16 * len(scores), len(scores)))
        share = rng.dirichlet(np.ones(len(sets)))
        columns = share[:, None] * (1 + np.concatenate([sets, 1 - sets]).reshape(2, *sets.shape) * math.expm1(epsilon))
        channel = columns.reshape(-1, len(scores))
        channel = channel / channel.sum(axis=0)
        assert channel.sum(axis=0) == pytest.approx(np.ones(len(scores)))
        assert (channel.max(axis=1) <= channel.min(axis=1) * math.exp(epsilon) * (1 + 1e-9)).all()
        joint = channel / len(scores)
        mass = joint.sum(axis=1)
        centre = joint @ scores / mass[:, None]
        information = (centre * mass[:, None]).T @ centre
        error = weights @ np.diag(np.linalg.inv(information))
        assert error >= least_mse(blocks, epsilon, of="population") * (1 - 1e-9)
        assert error - weights.sum() >= least_mse(blocks, epsilon) * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", [name for name, (_, blocks) in POPULATIONS.items() if len(blocks) == 2])
def test_two_questions_share_no_less_than_channels_can(name, epsilon):
    """For any prices c all channels have sum c t <= M(c), M found by enumeration; the best c gives the true limit."""
    scores, blocks = POPULATIONS[name]
    q, first = two_levels(len(scores), epsilon), blocks[0].count
    own, other = told(scores[:, :first], q), told(scores[:, first:], q)
    for ratio in (0.01, 0.3, 1.0, 5.0, 300.0):
        weighed = tuple(
            Parameters(b.count, b.information, b.weight * factor, b.cells, b.signs)
            for b, factor in zip(blocks, (ratio, 1.0), strict=True)
        )
        need = [b.count * math.sqrt(b.weight / b.information) for b in weighed]
        true = max(
            (need[0] * math.sqrt(c) + need[1]) ** 2 / (c * own + other).max() for c in np.geomspace(1e-4, 1e4, 801)
        )
        assert least_mse(weighed, epsilon, of="population") <= true * (1 + 1e-3)


def test_enumeration_would_notice_a_limit_that_is_too_high():
    """A budget that is 2% too small, or the limit of signs used for answers, is refuted by the same channels."""
    for epsilon in EPSILONS:
        scores, blocks = POPULATIONS["8 categories"]
        extreme = told(scores, two_levels(8, epsilon)).max()
        assert extreme > 0.98 * most(blocks, epsilon)
        assert epsilon < 0.1 or extreme > math.tanh(epsilon / 2) ** 2
    louder = two_levels(5, 1.05)  # a channel that spends more than it says
    assert told(POPULATIONS["5 categories"][0], louder).max() > most(frequencies(5), 1.0)


# Mechanisms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("k", [2, 3, 10, 100])
def test_subset_selection_attains_it(k, epsilon):
    mechanism = dither.SubsetSelection(k=k, epsilon=epsilon)
    found = deviation(mechanism, "uniform", reports=1000)
    assert found.rmse == pytest.approx(limit(mechanism, users=1000), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0, 12.0])
def test_duchi_attains_it(epsilon):
    mechanism, e = dither.Duchi(epsilon), math.exp(epsilon)
    found = deviation(mechanism, [-1.0, 1.0], reports=1000)
    assert found.rmse == pytest.approx(limit(mechanism, users=1000), rel=1e-6)
    assert 1000 * limit(mechanism, users=1000) ** 2 == pytest.approx(((e + 1) / (e - 1)) ** 2 - 1)
    assert 1000 * limit(mechanism, users=1000, of="population") ** 2 == pytest.approx(((e + 1) / (e - 1)) ** 2)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, math.log(3)])
@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_one_sampled_sign_attains_it(d, epsilon):
    mechanism = dither.SampledDuchi(d=d, epsilon=epsilon, m=1)
    ends = np.vstack([np.ones(d), -np.ones(d)])
    assert deviation(mechanism, ends, reports=1000).rmse == pytest.approx(limit(mechanism, users=1000), rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_no_mechanism_beats_it(name):
    cls = dither.registry[name]
    for example in cls.examples:
        mechanism = cls(**example)
        least = limit(mechanism, users=1000)
        assert 0 < least < limit(mechanism, users=1000, of="population")
        assert limit(mechanism, users=4000) == pytest.approx(least / 2)
        if mechanism.guarantee.delta == 0:
            assert deviation(mechanism, reports=1000).rmse >= least * (1 - 1e-9)
            assert deviation(mechanism, reports=1000).rmse < 6 * least  # none of them is far from it either


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 10.0])
def test_no_mechanism_beats_it_at_the_hard_population(epsilon):
    ends, corners = np.array([-1.0, 1.0]), cube(3)
    for name in ("Duchi", "Piecewise", "SquareWave", "Hybrid", "Laplace"):
        mechanism = getattr(dither, name)(epsilon=epsilon)
        assert deviation(mechanism, ends, reports=10).rmse >= limit(mechanism, users=10) * (1 - 1e-6)
    for k in (2, 5, 30):
        for name in ("GRR", "Unary", "LocalHash", "SubsetSelection", "Hadamard"):
            mechanism = getattr(dither, name)(k=k, epsilon=epsilon)
            assert deviation(mechanism, "uniform", reports=10).rmse >= limit(mechanism, users=10) * (1 - 1e-6)
    for mechanism in (
        dither.Hypercube(d=3, epsilon=epsilon),
        dither.SampledDuchi(d=3, epsilon=epsilon),
        dither.Split("Piecewise", d=3, epsilon=epsilon),
        dither.Sampled("Hybrid", d=3, epsilon=epsilon),
    ):
        assert deviation(mechanism, corners, reports=10).rmse >= limit(mechanism, users=10) * (1 - 1e-6)


def test_records_weigh_every_item_alike():
    mixed = dither.Sampled(("Duchi", "GRR(k=3)"), d=2, m=1, epsilon=1.0)
    assert limit(mixed, users=1) ** 2 == pytest.approx(least_mse(mean(1 / 4) + frequencies(3, 3 / 4), 1.0))
    assert mixed.reading.domain.domains == (UnitInterval(), Categories(3))
    one = dither.SampledDuchi(d=1, epsilon=1.0, m=1)
    assert limit(one, users=7) == pytest.approx(limit(dither.Duchi(1.0), users=7))


def test_the_worst_group_is_the_limit_of_personal_budgets():
    groups = {"careful": 0.5, "near": (0.5, -0.1, 0.1), "generous": 3.0}
    mechanism = dither.Personalised("Duchi", groups)
    assert limit(mechanism, users=50) == pytest.approx(limit(dither.Duchi(0.5), users=50))
    small = dither.Personalised("Duchi", {"near": (0.5, -0.1, 0.1)})
    assert limit(small, users=50) == pytest.approx(0.1 * limit(dither.Duchi(0.5), users=50))


# Numbers -----------------------------------------------------------------------------------------------------------


def test_golden_numbers():
    e = math.e
    assert 4 * e / (e - 1) ** 2 == pytest.approx(3.6827, abs=5e-5)
    assert least_mse(mean(), 1.0) == pytest.approx(4 * e / (e - 1) ** 2)
    assert least_mse(mean(), 1.0, of="population") == pytest.approx(((e + 1) / (e - 1)) ** 2)
    for k in (10**4, 10**6, 10**9):
        large = least_mse(frequencies(k), 1.0, of="population") * (k / (k - 1)) ** 2
        assert large == pytest.approx(4 * e / (e - 1) ** 2, rel=10 / k)
    # Any parameters, without a sharper bound: (sum sqrt(a / lambda))^2 / K.
    plain = (Parameters(7, 2.0, 3.0), Parameters(2, 5.0, 0.5))
    expected = (7 * math.sqrt(3 / 2) + 2 * math.sqrt(0.5 / 5)) ** 2 * 4 * e / (e - 1) ** 2
    assert least_mse(plain, 1.0, of="population") == pytest.approx(expected)
    assert least_mse(plain, 1.0) == pytest.approx(expected - 7 * 3 / 2 - 2 * 0.5 / 5)


def test_sparse_records_have_the_rate_of_003():
    k = 4 * math.exp(0.5) / math.expm1(0.5) ** 2  # 1/K
    for d, s in ((128, 8), (1000, 1), (60, 30)):
        means = least_mse(sparse(d, s, weight=d), 0.5, of="population")
        assert means >= d * s * k
        assert means == pytest.approx(d * s / math.tanh(0.25) ** 2)
        presence = least_mse(sparse(d, s, "presence", weight=d), 0.5, of="population")
        assert presence >= (d - s) ** 2 * s / d * k * (1 - 1e-9)
        signed = least_mse(sparse(d, s, "frequency", weight=2 * d), 0.5, of="population")
        assert signed >= (2 * d - s) ** 2 * s / (2 * d) * k * (1 - 1e-9)
    assert [(b.count, b.information) for b in sparse(11, 4)] == [(2, 2.0), (9, 3.0)]
    assert [(b.count, b.information) for b in sparse(5, 3, "presence")] == [(2, 2.0)]
    assert sparse(4, 4, "presence") == ()
    assert least_mse((), 1.0) == 0  # nothing to learn, nothing lost
    (one,), (many,) = frequencies(12), sparse(12, 1, "presence")
    assert one == many


@pytest.mark.parametrize("of", ["users", "population"])
@pytest.mark.parametrize(
    "blocks",
    [
        mean(),
        mean() * 30,
        frequencies(2) * 5,
        frequencies(7),
        mean() * 3 + frequencies(50),
        mean(100) + frequencies(5),
        sparse(20, 3),
        sparse(20, 3, "frequency"),
        (Parameters(4, 2.0),),
        (*mean(), Parameters(4, 2.0)),
    ],
    ids=str,
)
def test_more_budget_is_never_worse(blocks, of):
    found = [least_mse(blocks, epsilon, of=of) for epsilon in np.geomspace(1e-12, 3000, 3000)]
    assert np.isfinite(found).all()
    assert (np.diff(found) <= 1e-9 * np.array(found[:-1])).all()
    assert found[-1] == pytest.approx(0 if of == "users" else sum(block.sampling for block in blocks))
    tiny = least_mse(blocks, 1e-9, of=of) * 1e-18
    free = 4 * sum(b.count * math.sqrt(b.weight / b.information) for b in blocks) ** 2
    assert free * (1 - 1e-6) <= tiny <= free * 1.03  # sharper where half of the answers are no whole number


def test_one_question_more_never_helps_the_others():
    for epsilon in EPSILONS:
        alone = least_mse(mean(), epsilon) + least_mse(frequencies(5), epsilon)
        both = least_mse(mean() + frequencies(5), epsilon)
        assert both >= alone * (1 - 1e-12)
        assert least_mse(mean() + frequencies(5, 0.0), epsilon) == least_mse(mean(), epsilon)
        block = Parameters(3, 1.0, 1.0, cells=2, signs=True)
        assert least_mse(mean() * 3, epsilon) == pytest.approx(least_mse((block,), epsilon))


def test_many_signs_cost_epsilon_and_not_its_exponential():
    # Each of d signs has t = 2 H / d, H = g - 1 - ln g: nothing is won by e^epsilon.
    g = 8 / -math.expm1(-8)
    expected = 1000**2 / (2 * (g - 1 - math.log(g)))
    assert least_mse(mean() * 1000, 8.0, of="population") == pytest.approx(expected)


# Refusals ----------------------------------------------------------------------------------------------------------


class Unknown:
    reading = type("Reading", (), {"domain": type("Stars", (), {"kind": "stars"})()})
    epsilon = report_epsilon = 1.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: limit(dither.Duchi(1.0), users=0),
        lambda: limit(dither.Duchi(1.0), users=1.5),  # type: ignore[arg-type]
        lambda: limit(dither.Duchi(1.0), users=True),
        lambda: limit(dither.Duchi(1.0), users=10, of="me"),
        lambda: limit(Unknown(), users=10),  # type: ignore[arg-type]
        lambda: least_mse(mean(), 0.0),
        lambda: least_mse(mean(), math.nan),
        lambda: least_mse(mean(), math.inf),
        lambda: least_mse(mean(), 1.0, of="all"),
        lambda: least_mse([1.0], 1.0),  # type: ignore[list-item]
        lambda: least_mse(mean()[0], 1.0),  # type: ignore[arg-type]
        lambda: mean(-1.0),
        lambda: mean(math.inf),
        lambda: mean("x"),  # type: ignore[arg-type]
        lambda: frequencies(1),
        lambda: frequencies(2.0),  # type: ignore[arg-type]
        lambda: frequencies(3, math.nan),
        lambda: sparse(0, 1),
        lambda: sparse(5, 0),
        lambda: sparse(5, 6),
        lambda: sparse(5, 2, "median"),
        lambda: Parameters(0, 1.0),
        lambda: Parameters(1, 0.0),
        lambda: Parameters(1, 1.0, -1.0),
        lambda: Parameters(3, 1.0, cells=3),
        lambda: Parameters(3, 1.0, cells=3, signs=True),
        lambda: Parameters(1, 1.0, cells=1),
    ],
)
def test_bad_questions_are_refused(call):
    with pytest.raises(ParameterError):
        call()


# Other norms ---------------------------------------------------------------------------------------------------------


HARD = [
    (dither.SampledDuchi(d=1, epsilon=1.0), np.array([[1.0], [-1.0]])),
    (dither.SampledDuchi(d=8, epsilon=1.0), np.array([[1.0] * 8, [-1.0] * 8])),
    (dither.SubsetSelection(k=64, epsilon=1.0), "uniform"),
    (dither.GRR(k=2, epsilon=1.0), "uniform"),
]


@pytest.mark.parametrize(("mechanism", "users"), HARD, ids=repr)
def test_the_mean_absolute_error_is_attained_where_the_squared_one_is(mechanism, users):
    """At the hard population errors are normal and alike: sqrt(2/pi) times the rmse, of a best mechanism the limit."""
    found = deviation(mechanism, users, reports=10**6)
    assert limit(mechanism, users=10**6) == pytest.approx(found.rmse, rel=1e-6)
    assert limit(mechanism, users=10**6, norm="l1") == pytest.approx(math.sqrt(2 / math.pi) * found.rmse, rel=1e-6)


def test_the_largest_error_is_nearly_attained():
    """Errors of the best mechanisms by simulation of their normal law, beside the limit: never below, and near."""
    rng = np.random.default_rng(1)
    for mechanism, users, near in (*((*hard, 0.8) for hard in HARD[:3]), (dither.SampledDuchi(200, 1.0), None, 0.95)):
        users = np.array([[1.0] * 200, [-1.0] * 200]) if users is None else users
        found = deviation(mechanism, users, reports=10**6)
        covariance = found.covariances[0].dense() if found.covariances else np.diag(np.atleast_1d(found.variance))
        values, axes = np.linalg.eigh(covariance)
        draws = rng.normal(size=(20_000, len(values))) * np.sqrt(np.maximum(values, 0.0)) @ axes.T
        largest = np.abs(draws).max(axis=1)
        attained, error = largest.mean(), 5.2 * largest.std() / math.sqrt(len(largest))
        assert near * attained <= limit(mechanism, users=10**6, norm="linf") <= attained + error


@pytest.mark.parametrize("name", [name for name in NAMES if name != "Gaussian"][::5])
def test_norms_are_ordered(name):
    cls = dither.registry[name]
    mechanism = cls(**cls.examples[0])
    for of in ("users", "population"):
        mean, root, most = (limit(mechanism, users=1000, of=of, norm=norm) for norm in ("l1", "l2", "linf"))
        assert 0 < mean <= root * (1 + 1e-9)
        assert most >= mean
        assert limit(mechanism, users=4000, of=of, norm="linf") == pytest.approx(most / 2)
    with pytest.raises(ParameterError, match="norm must be"):
        limit(mechanism, users=1000, norm="l3")


def test_rates_of_003():
    """Theorem 3: d sqrt(s) / (epsilon sqrt(n)) in all (epsilon^2, as printed, is wrong); Theorem 9: root of log d."""
    one = dither.Collision(d=64, s=1, epsilon=0.1)
    for d, s, epsilon in ((128, 1, 0.1), (64, 4, 0.1), (64, 1, 0.05)):
        other = dither.Collision(d=d, s=s, epsilon=epsilon)
        sums = [each.d * limit(each, users=10**6, norm="l1") for each in (other, one)]
        rates = [each.d * math.sqrt(each.s) / math.tanh(each.epsilon / 2) for each in (other, one)]
        assert sums[0] / sums[1] == pytest.approx(rates[0] / rates[1], rel=0.01)
    wide_one = dither.Collision(d=4096, s=1, epsilon=0.1)
    ratio = limit(wide_one, users=10**6, norm="linf") / limit(one, users=10**6, norm="linf")
    assert ratio == pytest.approx(largest_of(4096) / largest_of(64), rel=0.01)
    assert largest_of(10**6) == pytest.approx(math.sqrt(2 * math.log(10**6)), rel=0.06)


def test_independent_errors_have_the_smallest_maximum():
    """P(all within r) is at most that of independent errors with the conditional variances: by quadrature."""
    rng = np.random.default_rng(2)
    for size in (2, 3):
        for _ in range(10):
            root = rng.normal(size=(size, size))
            precision = root @ root.T + 0.3 * np.eye(size)
            alone = 1 / np.sqrt(np.diag(precision))
            for r in (0.3, 1.0):
                nodes = np.polynomial.legendre.leggauss(60)
                grid = np.stack(np.meshgrid(*[r * nodes[0]] * size), axis=-1).reshape(-1, size)
                weights = np.prod(np.stack(np.meshgrid(*[r * nodes[1]] * size), axis=-1).reshape(-1, size), axis=1)
                density = np.exp(-np.einsum("ni,ij,nj->n", grid, precision, grid) / 2)
                inside = weights @ density * math.sqrt(np.linalg.det(precision) / (2 * math.pi) ** size)
                assert inside <= math.prod(math.erf(r / each / math.sqrt(2)) for each in alone) * (1 + 1e-9)


def test_the_tangent_is_below_every_split():
    """The mean of sqrt(1/t - 1) over any three t is at least what the convex function says of their mean."""
    t = np.linspace(0.02, 1.0, 50)
    grid = np.stack(np.meshgrid(t, t, t), axis=-1).reshape(-1, 3)
    mean = grid.mean(axis=1)
    below = np.where(mean <= 0.5, np.sqrt(1 / mean - 1), 2 * (1 - mean))
    assert (np.sqrt(1 / grid - 1).mean(axis=1) >= below - 1e-12).all()


def test_shares_against_those_left_free():
    """Averaged over who is left free, a share moving against them has (1 + 1/free) / (k - 1) of all information."""
    for k, free in ((4, 1), (5, 2), (6, 3)):
        total = np.zeros((k, k))
        subsets = [(v, rest) for v in range(k) for rest in itertools.combinations(set(range(k)) - {v}, free)]
        for v, rest in subsets:
            direction = np.eye(k)[v] - np.isin(np.arange(k), rest) / free
            total += np.outer(direction, direction) / len(subsets)
        tangent = np.eye(k) - 1 / k
        assert total == pytest.approx((1 + 1 / free) / (k - 1) * tangent)
