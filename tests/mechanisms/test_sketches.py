"""Sketches: what is published, by enumeration, and error bars that own up to the collisions."""

import math
from fractions import Fraction

import numpy as np
import pytest

import dither
from dither import CountMeanSketch, HadamardSketch, LocalHash
from dither.errors import ParameterError
from dither.kernels.hashing import buckets, public_seeds
from dither.mechanisms import cohorts as cohorts_module
from dither.mechanisms.hadamard import walsh_hadamard
from dither.mechanisms.packing import as_bytes

CMS = CountMeanSketch(k=6, epsilon=1.0, g=3, cohorts=9)
HCMS = HadamardSketch(k=6, epsilon=1.0, g=4, cohorts=9)
both = pytest.mark.parametrize("sketch", [CMS, HCMS], ids=["cms", "hcms"])


def skewed(k: int, n: int) -> np.ndarray:
    """One item at 30%, the others fading."""
    shares = 1.0 / np.arange(1, k)
    shares = np.concatenate([[0.3], 0.7 * shares / shares.sum()])
    return np.repeat(np.arange(k), np.round(shares * n).astype(int))


def bits_of(mechanism: CountMeanSketch, reports: np.ndarray) -> np.ndarray:
    """The bits of each report, unpacked: rows of g."""
    return np.unpackbits(as_bytes(reports), axis=1, bitorder="little")[:, : mechanism.g]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 8.0])
def test_bits_are_flipped_as_published_and_all_of_them_cost_epsilon(epsilon):
    sketch = CountMeanSketch(k=10**6, epsilon=epsilon)
    flipped = 1 / (1 + math.exp(epsilon / 2))
    assert abs(float(sketch.oracle.q) / flipped - 1) < 1e-5
    assert abs(float(1 - sketch.oracle.p) / flipped - 1) < 1e-5
    assert epsilon - 1e-9 <= sketch.guarantee.epsilon <= epsilon
    assert sketch.guarantee.established == "exact"


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 8.0])
def test_a_sign_is_told_truly_as_published(epsilon):
    sketch = HadamardSketch(k=10**6, epsilon=epsilon)
    assert abs(float(sketch.law.inside) - math.exp(epsilon) / (1 + math.exp(epsilon))) < 1e-9
    assert epsilon - 1e-9 <= sketch.guarantee.epsilon <= epsilon


def test_the_row_is_public_and_its_sign_is_that_of_the_matrix():
    """Exact: each (function, row) has the same chance whatever the value, and the sign is right with p."""
    law = HCMS.channel().matrix()
    outputs = HCMS.outputs()
    row, sign = outputs["value"] // 2, outputs["value"] % 2
    matrix = np.array([walsh_hadamard(unit) for unit in np.eye(HCMS.g)])
    own = buckets(public_seeds(9)[:, None], np.arange(6, dtype=np.uint32), HCMS.g)
    for value in range(HCMS.k):
        for function in range(HCMS.cohorts):
            for place in range(HCMS.g):
                here = (outputs["cohort"] == function) & (row == place)
                assert sum(law[value, here]) == Fraction(1, HCMS.cohorts * HCMS.g)
                true = int(matrix[place, int(own[function, value])] < 0)
                (chance,) = law[value, here & (sign == true)]
                assert chance * HCMS.cohorts * HCMS.g == HCMS.law.inside


def test_the_plain_reading_is_the_published_estimator_of_the_count_mean_sketch():
    reports = CMS.randomize(skewed(6, 500), seed=1)
    e, n, m, k = math.exp(CMS.epsilon / 2), len(reports), CMS.g, CMS.cohorts
    c = (e + 1) / (e - 1)
    table = np.zeros((k, m))
    for function, bits in zip(reports["cohort"], bits_of(CMS, reports), strict=True):
        table[function] += k * (c / 2 * (2.0 * bits - 1) + 0.5)
    own = buckets(public_seeds(k)[:, None], np.arange(6, dtype=np.uint32), m).astype(int)
    published = m / (m - 1) * (np.take_along_axis(table, own, axis=1).sum(axis=0) / k - n / m) / n
    # p and q are rounded, each by less than a millionth: that is all that differs.
    np.testing.assert_allclose(CMS.reading.plain.value(CMS.tally(reports)), published, atol=1e-4)


def test_the_plain_reading_is_the_published_estimator_of_the_hadamard_sketch():
    reports = HCMS.randomize(skewed(6, 500), seed=1)
    e, n, m, k = math.exp(HCMS.epsilon), len(reports), HCMS.g, HCMS.cohorts
    c = (e + 1) / (e - 1)
    table = np.zeros((k, m))
    for function, code in zip(reports["cohort"], reports["value"].astype(int), strict=True):
        table[function, code // 2] += k * c * (1 - 2 * (code % 2))
    table = walsh_hadamard(table)
    own = buckets(public_seeds(k)[:, None], np.arange(6, dtype=np.uint32), m).astype(int)
    published = m / (m - 1) * (np.take_along_axis(table, own, axis=1).sum(axis=0) / k - n / m) / n
    np.testing.assert_allclose(HCMS.reading.plain.value(HCMS.tally(reports)), published, atol=1e-9)


@both
def test_the_solved_reading_by_enumeration(sketch):
    """Exact: a decoded report has the mean of its item, and the stated variance; the third moment is a bound."""
    law, outputs, reading = sketch.channel().matrix().astype(float), sketch.outputs(), sketch.reading
    assert reading._inverse is not None
    plain = np.array([reading.plain.value(sketch.tally(outputs[[i]])) for i in range(len(outputs))])
    np.testing.assert_allclose(law @ plain, reading._collisions(np.arange(6)).T, atol=1e-10)
    decoded = (plain + 1) @ reading._inverse.T
    np.testing.assert_allclose(law @ decoded, np.eye(6), atol=1e-9)
    deviation = np.abs(decoded[None] - np.eye(6)[:, None])
    moments = sketch.moments(np.arange(6))
    np.testing.assert_allclose(moments.variance, np.einsum("xy,xyv->xv", law, deviation**2), rtol=1e-9)
    assert (moments.third >= np.einsum("xy,xyv->xv", law, deviation**3)).all()
    # At the expected table of a population, estimate and stated variance are those of the enumeration.
    shares, n = np.array([0.4, 0.3, 0.1, 0.1, 0.05, 0.05]), 10**12
    weights = np.round(shares @ law * n).astype(np.int64)
    one = sketch.tally(outputs[:1])
    counts = np.sum([w * sketch.tally(y).counts for w, y in zip(weights, outputs, strict=True)], axis=0)
    value, variance = reading._solved(type(one)(one.mechanism, int(weights.sum()), counts))
    np.testing.assert_allclose(value, shares, atol=1e-9)
    np.testing.assert_allclose(variance * n, shares @ np.einsum("xy,xyv->xv", law, deviation**2), rtol=1e-6)
    worth = sketch.report_worth()[0]
    assert worth.least <= decoded.min()
    assert decoded.max() <= worth.most


@pytest.mark.wide
@pytest.mark.parametrize(
    "sketch",
    [
        CountMeanSketch(k=600, epsilon=2.0, g=16, cohorts=12),
        HadamardSketch(k=600, epsilon=2.0, g=16, cohorts=12),
        CountMeanSketch(k=600, epsilon=4.0, g=128, cohorts=6),
        HadamardSketch(k=600, epsilon=4.0, g=128, cohorts=40),
        HadamardSketch(k=100, epsilon=2.0, g=16, cohorts=64),
    ],
    ids=str,
)
def test_error_bars_own_up_to_the_collisions(sketch):
    # The scores of one collection are nearly independent; 600 of them have mean square 1 +- .058, so 1.35 is six
    # standard deviations away, a false alarm below 1e-8; 100 have 1 +- .14, and the same margin is .85.
    values = skewed(sketch.k, 300_000)
    truth = np.bincount(values, minlength=sketch.k) / len(values)
    estimate = sketch.estimate(sketch.tally(sketch.randomize(values, seed=3)))
    margin = 6 * math.sqrt(2 / sketch.k)
    assert abs((((estimate.value - truth) / estimate.stderr) ** 2).mean() - 1) < margin
    assert "shared hash functions" in estimate.explain()


def test_the_published_error_bars_would_be_caught():
    sketch = CountMeanSketch(k=600, epsilon=4.0, g=16, cohorts=12)
    values = skewed(600, 300_000)
    truth = np.bincount(values, minlength=600) / len(values)
    tally, plain = sketch.tally(sketch.randomize(values, seed=3)), sketch.reading.plain
    z = (plain.value(tally) - truth) / np.sqrt(plain.variance(plain.value(tally)) / tally.n)
    assert (z**2).mean() > 5


# Some items ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sketch",
    [
        CountMeanSketch(k=1 << 32, epsilon=4.0, g=64, cohorts=32),
        HadamardSketch(k=1 << 32, epsilon=4.0, g=64, cohorts=32),
        LocalHash(k=1 << 30, epsilon=4.0, g=64, cohorts=32),
    ],
    ids=lambda sketch: type(sketch).__name__,
)
def test_fifty_items_of_four_billion_with_error_bars_for_those_nobody_asked_about(sketch):
    # The domain is too large to read whole. 30% hold one item that is asked for, 30% one that is not: it collides with
    # all the others. Forty-nine items that nobody holds: mean squared scores 1 +- .2, and 2.2 is six deviations away.
    asked = np.arange(50, dtype=np.int64) * 20_000_003
    rng = np.random.default_rng(1)
    others = rng.integers(0, 1 << 30, 40_000)
    values = np.concatenate([np.full(30_000, asked[7]), np.full(30_000, 12_345), others])
    tally = sketch.tally(sketch.randomize(values, seed=2))
    estimate = sketch.estimate(tally, sketch.reading.of_items(asked))
    truth = np.where(np.arange(50) == 7, 0.3, 0.0)
    z = (estimate.value - truth) / estimate.stderr
    assert (z**2).mean() < 2.2
    assert abs(z[7]) < 6
    blind = np.sqrt(sketch.reading.of_items(asked).plain.variance(0.0) / tally.n)
    assert (estimate.stderr > 1.2 * blind).all()  # what was not asked for is in it


def test_some_items_are_read_as_among_all():
    """The same supports, so the same plain values."""
    tally = CMS.tally(CMS.randomize(skewed(6, 500), seed=4))
    some = CMS.reading.of_items([5, 0, 2])
    np.testing.assert_array_equal(some.plain.value(tally), CMS.reading.plain.value(tally)[[5, 0, 2]])
    assert some.k == 3


def test_the_sum_of_squares_is_read_off_the_table():
    # 10^6 users at epsilon 8: shares of buckets are known to .004, and the sum of squares over 32 functions to .01.
    sketch = CountMeanSketch(k=1 << 32, epsilon=8.0, g=64, cohorts=32)
    values = np.concatenate([np.full(600_000, 9), np.arange(400_000) * 7919])
    tally = sketch.tally(sketch.randomize(values[::10], seed=1))
    assert abs(sketch.reading.of_items([1])._sum_of_squares(tally) - 0.36) < 0.05


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ([], "at least one"),
        ([[1]], "a list of whole numbers"),
        ([0.5], "a list of whole numbers"),
        ([-1], "numbers of categories"),
        ([6], "from 0 to 5"),
        ([1, 1], "each once"),
    ],
)
def test_items_that_there_are_not_are_refused(items, why):
    with pytest.raises(ParameterError, match=why):
        CMS.reading.of_items(items)


# The table -----------------------------------------------------------------------------------------------------------


def test_the_table_counts_reports_and_bits_by_function(monkeypatch):
    reports = CMS.randomize(np.arange(6).repeat(60), seed=2)
    table = CMS.tally(reports).counts
    bits = bits_of(CMS, reports)
    for function in range(CMS.cohorts):
        own = reports["cohort"] == function
        assert table[function].tolist() == [own.sum(), *bits[own].sum(axis=0)]
    monkeypatch.setattr(dither.mechanisms.sketches, "_COUNTED_AT_ONCE", 7)  # type: ignore[attr-defined]
    assert (CMS._count(np.asarray(reports)) == table).all()


def test_collisions_are_the_same_by_pairs_and_by_products(monkeypatch):
    reading = CountMeanSketch(k=40, epsilon=1.0, g=7, cohorts=20).reading
    categories = np.array([3, 0, 39, 17])
    dense = reading._collisions(categories)
    monkeypatch.setattr(cohorts_module, "_FEW_BUCKETS", 1)
    np.testing.assert_array_equal(reading._collisions(categories), dense)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ParameterError, match="power of two"):
        HadamardSketch(k=10, epsilon=1.0, g=48)
    with pytest.raises(ParameterError, match="fewer cohorts"):
        CountMeanSketch(k=10, epsilon=1.0, g=1 << 16, cohorts=1 << 20).tally_shape  # noqa: B018
    with pytest.raises(ParameterError, match="fewer cohorts"):
        HadamardSketch(k=10, epsilon=1.0, g=1 << 16, cohorts=1 << 20).dtype  # noqa: B018
    big = HadamardSketch(k=1 << 32, epsilon=1.0, g=2, cohorts=2)
    tally = big.tally(big.randomize([1], seed=1))
    with pytest.raises(ParameterError, match="read some of them"):
        big.estimate(tally)
    assert big.estimate(tally, big.reading.of_items([1])).value.shape == (1,)


def test_local_hashing_is_as_good_so_the_planner_need_not_look():
    for epsilon in (0.05, 0.25, 0.35, 0.4, 0.5, 1.0, 2.0, 4.0, 8.0):
        rivals = [
            cls(k=10**6, epsilon=epsilon, cohorts=1024).priced_reading.worst_variance()
            for cls in (LocalHash, CountMeanSketch, HadamardSketch)
        ]
        assert rivals[0] < (1.02 if epsilon < 0.5 else 1.0) * min(rivals[1:])
    assert not CountMeanSketch.planned
    assert not HadamardSketch.planned
