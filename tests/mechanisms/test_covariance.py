"""How the errors of items go together: enumerated over all reports, for every population, and put to use in sums.

Given the users' values, the covariance of two estimates is the average over users of that of one calibrated report,
which is a sum over the rows of the channel. Mutants of the two probabilities that it rests on are noticed.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import dither
from dither.core.counted_covariance import CountedCovariance
from dither.core.covariance import Covariance
from dither.core.estimate import SHARES, Estimate
from dither.core.guarantee import Guarantee
from dither.core.sparse_domain import row_dtype
from dither.errors import ParameterError
from dither.mechanisms.frequency import Frequencies, PairSupport
from dither.testing.sparse_estimators import expected_tally

MECHANISMS = [
    dither.GRR(k=2, epsilon=1.0),
    dither.GRR(k=5, epsilon=1.0),
    dither.Unary(k=3, epsilon=1.0),
    dither.SubsetSelection(k=5, epsilon=1.0, size=2),
    dither.SubsetSelection(k=6, epsilon=0.3, size=4),
    dither.SubsetSelection(k=2, epsilon=1.0, size=1),
]
POPULATIONS = {
    2: [[0.5, 0.5], [1.0, 0.0]],
    3: [[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]],
    5: [[0.1, 0.2, 0.3, 0.4, 0.0], [0.2] * 5],
    6: [[0.5, 0.1, 0.1, 0.1, 0.2, 0.0]],
}


def enumerated(scores: np.ndarray, chance: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The covariance of one report's scores (a row for each output), averaged over users with these shares."""
    found = np.zeros((scores.shape[1],) * 2)
    for share, law in zip(shares, chance, strict=True):
        mean = law @ scores
        found += share * ((scores * law[:, None]).T @ scores - np.outer(mean, mean))
    return found


def per_report(reading: Frequencies, shares: np.ndarray, unasked: float = 0.0) -> Covariance:
    covariance = reading.covariance(shares, unasked)
    assert covariance is not None
    return covariance


def by_enumeration(mechanism, shares: np.ndarray) -> np.ndarray:
    reports = np.split(mechanism.outputs(), len(mechanism.outputs()))
    scores = np.array([mechanism.estimate(mechanism.tally(report)).value for report in reports])
    chance = np.array(mechanism.channel().matrix(), dtype=np.float64)
    return enumerated(scores, chance, shares)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_covariances_are_those_of_all_reports(mechanism):
    for shares in map(np.array, POPULATIONS[mechanism.k]):
        wanted = by_enumeration(mechanism, shares)
        found = per_report(mechanism.reading, shares)
        np.testing.assert_allclose(found.dense(), wanted, atol=1e-9 * np.abs(wanted).max())
        np.testing.assert_allclose(found.variance, np.diag(wanted), rtol=1e-9)


SUMS = [
    *MECHANISMS[1:4],
    dither.Hadamard(k=5, epsilon=1.0),
    dither.ProjectiveGeometry(k=5, epsilon=1.0, q=2),
    dither.ProjectiveGeometry(k=6, epsilon=2.0, q=3),
]


@pytest.mark.parametrize("mechanism", SUMS, ids=repr)
def test_sums_of_categories_have_the_covariance_of_all_reports(mechanism):
    """Of those whose pairs differ, too: from what users with such shares would send."""
    rows = np.random.default_rng(1).integers(0, 2, (4, mechanism.k)).astype(np.float64)
    for shares in map(np.array, POPULATIONS[mechanism.k]):
        wanted = rows @ by_enumeration(mechanism, shares) @ rows.T
        found = mechanism.reading.covariance_of_sums(rows, shares)
        np.testing.assert_allclose(found, wanted, atol=1e-9 * np.abs(wanted).max())
        drawn = rows @ (np.diag(shares) - np.outer(shares, shares)) @ rows.T
        among = mechanism.reading.covariance_of_sums(rows, shares, 0.5)
        np.testing.assert_allclose(among, wanted + drawn / 2, atol=1e-9 * np.abs(wanted).max())


def test_a_wrong_chance_of_outputs_is_noticed_in_sums():
    mechanism = dither.ProjectiveGeometry(k=5, epsilon=1.0, q=2)
    shares, rows = np.array(POPULATIONS[5][0]), np.eye(5)[:2] + np.eye(5)[2:4]
    wanted = rows @ by_enumeration(mechanism, shares) @ rows.T
    mutant = replace(mechanism.reading, p=mechanism.reading.p * Fraction(101, 100))
    found = mutant.covariance_of_sums(rows, shares)
    assert found is not None
    assert np.abs(found - wanted).max() > 1e-3 * np.abs(wanted).max()


def test_sums_of_what_is_not_known_have_no_covariance():
    assert replace(dither.GRR(k=5, epsilon=1.0).reading, pairs=None).covariance_of_sums(np.eye(5), np.eye(5)[0]) is None


@pytest.mark.parametrize("name", PairSupport._fields)
def test_a_wrong_probability_of_pairs_is_noticed(name):
    mechanism = dither.SubsetSelection(k=5, epsilon=1.0, size=2)
    shares = np.array(POPULATIONS[5][0])
    pairs = mechanism.reading.pairs
    assert pairs is not None
    wrong = pairs._replace(**{name: getattr(pairs, name) * Fraction(101, 100)})
    found = per_report(replace(mechanism.reading, pairs=wrong), shares).dense()
    assert np.abs(found - by_enumeration(mechanism, shares)).max() > 1e-4


def test_covariances_of_hashed_reports_are_those_of_all_hash_functions():
    k, g = 4, 3
    reading = dither.LocalHash(k=k, epsilon=1.0, g=g).reading
    assert isinstance(reading, Frequencies)
    p = float(reading.p)
    functions = np.array(list(product(range(g), repeat=k)))
    supports = np.concatenate([functions == bucket for bucket in range(g)]).astype(float)
    chance = np.array(
        [
            np.concatenate([np.where(functions[:, x] == bucket, p, (1 - p) / (g - 1)) for bucket in range(g)])
            for x in range(k)
        ]
    ) / len(functions)
    scores = (supports - 1 / g) / (p - 1 / g)
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    wanted = enumerated(scores, chance, shares)
    np.testing.assert_allclose(per_report(reading, shares).dense(), wanted, atol=1e-12 * wanted.max())


def test_who_was_not_asked_is_part_of_it():
    # Of N users who each hold one category, n are drawn: what the drawn ones add to the covariance is (1 - n/N) times
    # that of one draw, which is enumerated here.
    mechanism, shares = dither.GRR(k=5, epsilon=1.0), np.array(POPULATIONS[5][0])
    drawn = np.diag(shares) - np.outer(shares, shares)
    wanted = by_enumeration(mechanism, shares) + 0.75 * drawn
    np.testing.assert_allclose(per_report(mechanism.reading, shares, 0.75).dense(), wanted, atol=1e-9 * wanted.max())


def test_all_categories_of_a_report_of_one_add_up_to_one():
    mechanism = dither.GRR(k=5, epsilon=1.0)
    covariance = per_report(mechanism.reading, np.array(POPULATIONS[5][1]))
    assert covariance.variance_of(np.ones(5)) < 1e-12 * covariance.variance.max()


# What is estimated --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [*MECHANISMS, dither.LocalHash(k=6, epsilon=1.0), dither.Histogram("Piecewise", k=4, epsilon=2.0)],
    ids=repr,
)
def test_the_diagonal_is_that_of_the_standard_errors(mechanism):
    values = np.random.default_rng(1).integers(0, mechanism.k, 500) // 2
    tally = mechanism.tally(mechanism.randomize(values, seed=1))
    for among in (None, 2000):
        found = mechanism.reading.estimate(tally, Guarantee(1.0), "", among)
        np.testing.assert_allclose(found.covariance.variance, found.stderr**2, rtol=1e-9)
        assert np.linalg.eigvalsh(found.covariance.dense()).min() > -1e-12
        for place in range(mechanism.k):
            one = found.combine(np.eye(mechanism.k)[place])
            assert float(one.value) == pytest.approx(found.value[place])
            assert float(one.stderr) == pytest.approx(found.stderr[place], rel=1e-9)


def test_no_sum_of_noisy_categories_has_a_negative_variance():
    mechanism = dither.GRR(k=40, epsilon=0.5)
    found = mechanism.estimate(mechanism.tally(mechanism.randomize(np.zeros(300, dtype=int), seed=1)))
    assert (found.value < 0).any()
    assert found.covariance is not None
    assert np.linalg.eigvalsh(found.covariance.dense()).min() > -1e-12


@pytest.mark.wide
def test_intervals_of_sums_cover_the_truth_as_often_as_they_say():
    # Of 4000 collections 400 miss on average at 90%; 100 more or fewer have probability 2.2e-7 (binomial, both tails).
    mechanism, values = dither.GRR(k=5, epsilon=1.0), np.repeat([0, 1, 2, 3], [100, 200, 300, 400])
    truth, wrong, naive = 0.6, 0, 0
    for seed in range(4000):
        found = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=seed)))
        low, high = found.total([0, 1, 2]).interval(0.9)
        wrong += not low <= truth <= high
        reach = 1.6449 * np.sqrt((found.stderr[:3] ** 2).sum())
        naive += not abs(found.value[:3].sum() - truth) <= reach
    assert abs(wrong - 400) < 100
    assert abs(naive - 400) > 100  # what adding variances would give


def test_bins_of_a_distribution_add_up_to_wider_ones():
    wave = dither.SquareWave(1.0)
    tally = wave.tally(wave.randomize(np.random.default_rng(1).normal(0, 0.3, 2000).clip(-1, 1), seed=1))
    for bins in (16, 6):
        fine, wide = wave.distribution(tally, bins), wave.distribution(tally, bins // 2)
        for place in range(bins // 2):
            both = fine.total([2 * place, 2 * place + 1])
            assert float(both.value) == pytest.approx(wide.value[place], rel=1e-9)
            assert float(both.stderr) == pytest.approx(wide.stderr[place], rel=1e-6)
    assert wave.distribution(tally, 8, smooth=False).covariance is None


def test_dimensions_that_are_all_reported_are_independent():
    both = dither.Split("Piecewise", d=2, epsilon=2.0)
    some = dither.Sampled("Piecewise", d=2, epsilon=2.0, m=1)
    values = np.random.default_rng(1).uniform(-1, 1, (400, 2))
    found = both.estimate(both.tally(both.randomize(values, seed=1)))
    difference = found.combine([1, -1], "difference")
    assert float(difference.stderr) == pytest.approx(np.hypot(*found.stderr))
    assert difference.bounds == (-2.0, 2.0, None, None)
    assert some.estimate(some.tally(some.randomize(values, seed=1))).covariance is None


def test_results_of_a_plan_have_it_in_their_own_units():
    schema = dither.Schema({"job": dither.Categorical(["nurse", "driver", "teacher", "other"])})
    plan = dither.plan(schema, 1.0, users=1000)
    jobs = np.array(["nurse", "driver", "teacher", "other"])[np.random.default_rng(1).integers(0, 4, 1000)]
    tally = plan.tally(plan.randomize({"job": jobs}, seed=1))
    found = plan.estimate(tally).single("job")
    together = found.total(["nurse", "driver"])
    assert float(together.value) == pytest.approx(found.value[:2].sum())
    assert together.bounds is not None
    assert together.bounds[:2] == (0.0, 1.0)
    assert float(together.stderr) != pytest.approx(np.hypot(*found.stderr[:2]), rel=1e-3)
    refined = plan.estimate(tally, refine="auto").single("job")
    with pytest.raises(ParameterError, match="combine the items of its `original`"):
        refined.total(["nurse"])
    assert refined.original is not None
    assert float(refined.original.total(["nurse", "driver"]).stderr) == float(together.stderr)


@pytest.mark.parametrize(
    "mechanism",
    [
        dither.LocalHash(k=5, epsilon=1.0, cohorts=4),
        dither.LGRR(k=5, epsilon=2.0, first=1.0),
    ],
    ids=repr,
)
def test_what_is_not_known_is_refused(mechanism):
    tally = mechanism.tally(mechanism.randomize(np.arange(100) % 5, seed=1))
    found = mechanism.estimate(tally, rounds=2) if isinstance(mechanism, dither.LGRR) else mechanism.estimate(tally)
    assert found.covariance is None
    with pytest.raises(ParameterError, match="not known how the errors"):
        found.combine(np.ones(5))


def test_bad_weights_and_items():
    found = Estimate(np.array([0.1, 0.2, np.nan]), np.array([0.1, 0.1, np.inf]), 9, Guarantee(1.0), labels=list("abc"))
    known = replace(found, correlation=Covariance.uncorrelated(np.ones(3)), bounds=SHARES)
    assert float(known.total(["a", 1]).stderr) == pytest.approx(0.02**0.5)  # what is not known has no weight
    for weights in ([1, 1], np.ones((1, 3)), [1, np.nan, 0], [np.inf, 0, 0]):
        with pytest.raises(ParameterError, match="one for each item"):
            known.combine(weights)
    for items in (["d"], [3], [-1], ["a", "a"], ["a", 0], "a"):
        with pytest.raises(ParameterError, match="each once"):
            known.total(items)
    with pytest.raises(ParameterError, match="correlations of as many"):
        replace(found, correlation=Covariance.uncorrelated(np.ones(2)))
    alone = Estimate(np.array(0.5), np.array(0.1), 9, Guarantee(1.0)).combine(2.0)
    assert (float(alone.value), float(alone.stderr)) == (1.0, pytest.approx(0.2))


# The structure ------------------------------------------------------------------------------------------------------


def test_a_covariance_is_that_of_its_matrix():
    rng = np.random.default_rng(1)
    made = Covariance(rng.random(6) + 3, rng.normal(size=(6, 2)), np.array([[0.5, 0.1], [0.1, -0.3]]))
    matrix, one, other = made.dense(), rng.normal(size=6), rng.normal(size=6)
    np.testing.assert_allclose(made.variance, np.diag(matrix))
    assert made.between(one, other) == pytest.approx(one @ matrix @ other)
    assert made.variance_of(one) == pytest.approx(one @ matrix @ one)
    np.testing.assert_allclose(made.scaled(other).dense(), matrix * np.outer(other, other))
    np.testing.assert_allclose(made.of(np.array([4, 1])).dense(), matrix[np.ix_([4, 1], [4, 1])])
    errors = np.sqrt(np.diag(matrix))
    np.testing.assert_allclose(made.correlation.dense(), matrix / np.outer(errors, errors))
    assert Covariance.uncorrelated([0.0, 4.0]).correlation.variance.tolist() == [0.0, 1.0]
    with pytest.raises(ParameterError, match="as many weights"):
        made.variance_of([1.0])
    for shape, rank in (((5, 2), (2, 2)), ((6, 2), (1, 1)), ((6,), (1,))):
        with pytest.raises(ParameterError, match="a row of factors"):
            Covariance(np.ones(6), np.ones(shape), np.ones(rank))


def test_a_hundred_thousand_items_need_no_matrix():
    size = 100_000
    covariance = per_report(dither.GRR(k=size, epsilon=8.0).reading, np.full(size, 1 / size))
    assert covariance.factor.shape == (size, 2)
    some = covariance.variance_of(np.arange(size) < 1000)
    assert 0 < some < covariance.variance[:1000].sum()
    assert covariance.variance_of(np.ones(size)) < 1e-9 * some


COUNTED = [
    dither.Hadamard(k=5, epsilon=1.0),
    *(dither.ProjectiveGeometry(k=k, epsilon=0.7, q=q) for k, q in ((9, 3), (12, 2))),
]


def counted(mechanism, shares: np.ndarray, outputs: np.ndarray, unasked: float = 0.0) -> CountedCovariance:
    reading, k = mechanism.reading, mechanism.k
    p, q = float(reading.p), float(reading.q)
    return CountedCovariance(reading.supported_by, p, q, outputs, shares, unasked, np.ones(k), np.arange(k))


@pytest.mark.parametrize("mechanism", COUNTED, ids=repr)
def test_covariances_from_counts_of_outputs_are_those_of_all_reports(mechanism):
    rng, chance = np.random.default_rng(1), np.array(mechanism.channel().matrix(), dtype=np.float64)
    for shares in (rng.dirichlet(np.ones(mechanism.k)), np.eye(mechanism.k)[0]):
        wanted, found = by_enumeration(mechanism, shares), counted(mechanism, shares, shares @ chance)
        np.testing.assert_allclose(found.dense(), wanted, atol=1e-9 * np.abs(wanted).max())
        np.testing.assert_allclose(found.variance, np.diag(wanted), rtol=1e-9)
        some = np.array([3, 1])
        np.testing.assert_allclose(found.of(some).scaled(2.0).dense(), 4 * wanted[np.ix_(some, some)], atol=1e-9)
        apart = np.diag(shares) - np.outer(shares, shares)
        asked = counted(mechanism, shares, shares @ chance, unasked=0.3).dense()
        np.testing.assert_allclose(asked, wanted + 0.3 * apart, atol=1e-9 * np.abs(wanted).max())
        wrong = replace(mechanism.reading, supported_by=lambda weights: mechanism.reading.supported_by(weights)[::-1])
        mutant = replace(found, supported=wrong.supported_by)
        assert np.abs(mutant.dense() - wanted).max() > 1e-3


@pytest.mark.parametrize("mechanism", COUNTED, ids=repr)
def test_totals_of_counted_reports_have_the_error_that_they_state(mechanism):
    """The square of 300 errors over the stated ones, each about 1: six standard deviations, false alarm 1e-8."""
    values = np.arange(2000) % (mechanism.k - 2)
    truth = np.mean(values < 3)
    found = [mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=seed))) for seed in range(300)]
    totals = [estimate.total([0, 1, 2]) for estimate in found]
    squares = np.array([((total.value - truth) / total.stderr) ** 2 for total in totals])
    assert abs(squares.mean() - 1) < 6 * np.sqrt(2 / 300)


# Keys of which each user holds one -----------------------------------------------------------------------------------

GROUPS = np.array([0.5, 0.3, 0.2])
KEYED = [
    dither.PCKV_GRR(d=3, s=1, epsilon=3.0),
    dither.PCKV_UE(d=3, s=1, epsilon=5.0),
    dither.PrivKV(d=3, s=1, epsilon=4.0),
    dither.Collision(d=3, s=1, epsilon=3.0),
    dither.CoCo(d=3, s=1, epsilon=3.0),
]
BLOCKS, BLOCK = 3000, 60


def scatter_of_shares(mechanism, seed: int) -> np.ndarray:
    """The covariance of the shares that blocks of users show, who are drawn anew for each."""
    random = np.random.default_rng(seed)
    rows = np.zeros(BLOCKS * BLOCK, dtype=row_dtype(1))
    rows["key"][:, 0] = random.choice(3, len(rows), p=GROUPS)
    rows["value"][:, 0] = random.uniform(-1, 1, len(rows))
    reports = mechanism.randomize(rows, seed=seed)
    blocks = [mechanism.tally(reports[start : start + BLOCK]) for start in range(0, len(rows), BLOCK)]
    found = np.array([mechanism.estimate(each)["presence"].value for each in blocks])
    return np.cov(found.T)


def stated_of_shares(mechanism) -> np.ndarray:
    """What is stated for as many users, at the true shares."""
    rows = [{key: sign} for key, share in enumerate(GROUPS) for sign in (-1.0, 1.0) for _ in range(round(10 * share))]
    expected = expected_tally(mechanism, rows, 10**9)
    own = mechanism.reading.estimate(expected, mechanism.guarantee, "", 10**15)["presence"]
    found = mechanism.reading.covariance_of_keys("presence", own, 10**15)
    return found * 10**9 / BLOCK


def scattered(found: np.ndarray, stated: np.ndarray) -> float:
    """By how many standard errors the covariances of so many blocks differ at most, from normal ones."""
    error = np.sqrt((np.outer(np.diag(stated), np.diag(stated)) + stated**2) / (BLOCKS - 1))
    return float(np.abs((found - stated) / error).max())


@pytest.mark.parametrize("mechanism", KEYED, ids=repr)
def test_shares_of_keys_go_together_as_stated(mechanism):
    """False alarm below 1e-7 in all: six standard errors, of five times six nearly normal numbers."""
    assert scattered(scatter_of_shares(mechanism, seed=3), stated_of_shares(mechanism)) < 6.2


@pytest.mark.parametrize("mechanism", [KEYED[0], KEYED[1], KEYED[4]], ids=repr)
def test_shares_of_keys_taken_to_be_independent_are_noticed(mechanism):
    stated = stated_of_shares(mechanism)
    assert scattered(scatter_of_shares(mechanism, seed=3), np.diag(np.diag(stated))) > 6.2


def test_keys_of_which_users_may_hold_several_have_no_covariance():
    mechanism = dither.PCKV_UE(d=3, s=2, epsilon=3.0)
    own = mechanism.estimate(expected_tally(mechanism, [{0: 1.0}], 10**9))["presence"]
    assert mechanism.reading.covariance_of_keys("presence", own, 10**9) is None
