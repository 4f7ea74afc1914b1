"""What n reports can add up to: everything that reports do add up to, and nothing that breaks a bound or a sum."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dither
from dither import Tally
from dither.core.contributions import (
    Bounded,
    Contributions,
    Grouped,
    SumBound,
    at_most_one,
    exactly,
    one_of,
    vector_sums,
)
from dither.errors import TallyError
from dither.learn.federated.ldpvec import LDPVec
from dither.mechanisms.codebooks import codebook
from dither.testing.examples import sampled_inputs
from marks import wide

MOST = 2**63 - 1
SMALL = [
    dither.GRR(k=3, epsilon=1.0),
    dither.Unary(k=3, epsilon=1.0),
    dither.SubsetSelection(k=4, epsilon=1.0, size=2),
    dither.LocalHash(k=4, epsilon=1.0, cohorts=3),
    dither.Hypercube(d=2, epsilon=2.0, parts=2),
    dither.PrivKV(d=3, s=1, epsilon=1.0),
    dither.PCKV_GRR(d=2, s=1, epsilon=1.0),
    dither.PCKV_UE(d=2, s=1, epsilon=1.0),
    dither.Sampled(("Duchi", "GRR(k=3)"), d=2, m=1, epsilon=1.0),
    dither.Split(("GRR(k=3)", "Duchi"), d=2, epsilon=2.0),
    dither.Personalised("Duchi", {"careful": 0.5, "generous": 2.0}),
    dither.Hybrid(epsilon=0.3),
]


@pytest.mark.parametrize("mechanism", SMALL, ids=lambda each: type(each).__name__)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_reports_add_up_to_is_accepted(mechanism: Any, data):
    outputs = mechanism.outputs()
    drawn = data.draw(st.lists(st.integers(0, len(outputs) - 1), max_size=12))
    tally = mechanism.tally(outputs[drawn])
    mechanism.check_tally(tally)
    assert mechanism.contributions.fault(tally.n << 58, tally.counts << 58) is None


@pytest.mark.parametrize(
    "mechanism", [each for each in SMALL if each.contributions.size <= 10], ids=lambda each: type(each).__name__
)
def test_whatever_is_accepted_of_one_report_is_a_report(mechanism: Any):
    """All arrays of small counts: of those that one report of these mechanisms is said to add, each is added by one."""
    shape = mechanism.contributions.shape
    size = int(np.prod(shape))
    real = {mechanism._count(mechanism.outputs()[[row]]).tobytes() for row in range(len(mechanism.outputs()))}
    high = 2 if isinstance(mechanism, dither.Hypercube) else 1
    tried = np.stack(np.meshgrid(*[np.arange(high + 1)] * size, indexing="ij"), axis=-1).reshape(-1, *shape)
    accepted = {each.tobytes() for each in tried if mechanism.contributions.fault(1, each) is None}
    assert accepted == real


@pytest.mark.parametrize(
    ("mechanism", "n", "counts", "words"),
    [
        (
            dither.GRR(k=3, epsilon=1.0),
            3000,
            [1000, 1001, 1000],
            "all counts together are 3,001, and 3,000 reports",
        ),
        (dither.GRR(k=3, epsilon=1.0), 3000, [-1, 2001, 1000], "count 0 is -1, and 3,000 reports add at least 0 to it"),
        (dither.Unary(k=3, epsilon=1.0), 1, [0, 10**6, 0], "count 1 is 1,000,000, and 1 report adds at most 1 to it"),
        (dither.SubsetSelection(k=3, epsilon=1.0, size=1), 5, [5, 1, 0], "all counts together are 6"),
        (dither.SignSum(d=2, s=1, epsilon=1.0, goal="mean"), 3, [[1], [2]], "count 1, 0 is not what 3 reports can"),
        (
            dither.CoCo(d=2, s=1, epsilon=1.0),
            3,
            [[2, 2], [0, 0]],
            "the counts of 0 together are 4, and 3 reports",
        ),
        (dither.Split("Duchi", d=2, epsilon=1.0), 2, [2, 1, 1, 1, 1, 0], "number of reports about group 1 is 1, and 2"),
        (dither.Split("Duchi", d=2, epsilon=1.0), 2, [2, 1, 1, 2, 1, 0], "group 1: all counts together are 1"),
        (dither.SampledDuchi(d=2, m=1, epsilon=1.0), 2, [2, 1, 1, 1, 1, 0], "all counts together are 3, and 2 reports"),
        (dither.PrivKV(d=2, s=1, epsilon=1.0), 2, [[1, 1, 1], [1, 0, 0]], "group 0: all counts together are 2"),
        (dither.GRR(k=3, epsilon=1.0), 1, [[1, 0, 0]], r"its counts have the shape \(1, 3\), and not \(3,\)"),
        (dither.GRR(k=3, epsilon=1.0), 0, [1, 0, -1], "there are counts, and no reports"),
    ],
)
def test_what_is_wrong_is_named(mechanism, n, counts, words):
    tally = Tally(mechanism.fingerprint, n, np.array(counts))
    with pytest.raises(TallyError, match=f"no reports add up to this tally: .*{words}.* Leave it out, or tally"):
        mechanism.estimate(tally)


def test_bounds_are_exact_beyond_64_bits():
    """Sums of counts, and n times a bound, would turn around in 64 bits, and come out as right."""
    assert one_of(4).fault(0, np.array([2**62, 2**62, -(2**62), -(2**62)])) is not None
    assert one_of(5).fault(4, np.array([MOST, MOST, 1, 1, 4])) is not None  # 2^64 + 4 in all
    wide = np.full(4, 2**62)
    assert one_of(4).fault(2**64 - 1, wide) == (
        "all counts together are 18,446,744,073,709,551,616, and 18,446,744,073,709,551,615 reports add exactly "
        "18,446,744,073,709,551,615 to them"
    )
    wide[0] -= 1
    assert one_of(4).fault(2**64 - 1, wide) is None
    large = Bounded((2,), -(2**40), 2**40)
    assert large.fault(2**63, np.array([MOST, -MOST])) is None  # n times a bound is 2^103
    assert large.fault(3, np.array([3 * 2**40, -3 * 2**40])) is None
    assert large.fault(3, np.array([3 * 2**40 + 1, 0])) is not None
    groups = Grouped.of((one_of(2),), np.zeros(3, dtype=np.intp), 1)
    counts = np.array([2**62, 2**62, 0, 2**62, 0, 2**62, 2**62, 1, 2**62 - 1])
    assert groups.fault(3 * 2**62, counts) is None
    assert groups.fault(3 * 2**62 + 1, counts) is not None
    counts[7] += 1
    assert groups.fault(3 * 2**62, counts) == (
        "group 2: all counts together are 4,611,686,018,427,387,905, and 4,611,686,018,427,387,904 reports add exactly "
        "4,611,686,018,427,387,904 to them"
    )


def test_what_is_declared_too_widely_is_found():
    assert exactly(2, 3).slack(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])) is None
    assert "count 2" in str(Bounded((3,)).slack(np.array([[1, 1, 0], [0, 0, 0]])))
    assert "as little" in str(Bounded((1,), -1).slack(np.array([[0], [1]])))
    assert "all counts together" in str(at_most_one(2).slack(np.array([[1, 0], [0, 1]])))
    assert "more than 1" in str(Bounded((1,), 0, 4).slack(np.array([[0], [2], [4]])))
    assert Bounded((1,), 0, 4, step=2).slack(np.array([[0], [2], [4]])) is None
    groups = Grouped.of((one_of(2), Bounded((1,))), np.array([0, 1]), 1)
    assert groups.slack(np.array([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 1, 0]])) is None
    assert "group 1: no report adds as little" in str(groups.slack(np.array([[1, 1, 0, 0, 0], [1, 0, 1, 1, 1]])))


def test_nothing_declared_refuses_nothing_but_counts_of_no_reports():
    unknown = Contributions()
    assert unknown.fault(3, np.array([10**9, -5])) is None
    assert unknown.fault(0, np.array([1])) is not None
    assert Contributions((2,)).fault(3, np.array([1])) is not None
    assert unknown.size is None


@pytest.mark.parametrize(
    ("d", "size"), [(2, 32), (63, 32), wide(64, 256), wide(256, 256), wide(300, 512), (3000, 8192)]
)
def test_codewords_stay_within_what_is_declared(d, size):
    book, rng = codebook(d, size), np.random.default_rng(1)
    declared = vector_sums(d, int(np.ceil(book.length)), book.squares, shift=book.shift)
    for seed, codeword in zip(rng.integers(0, 2**63, 30), rng.integers(0, 2 * size, 30), strict=True):
        counts = book.sums(np.array([seed], dtype=np.uint64), np.array([codeword]))
        assert declared.fault(1, counts) is None
        for wrong in (counts * 4, counts * np.array([[1], [0]]), counts + book.squares[1] // d * np.array([[0], [2]])):
            if wrong[1].sum() > book.squares[1] or wrong[1].sum() < book.squares[0]:
                assert declared.fault(1, wrong) is not None


def test_a_sum_of_directions_is_held_against_its_reports():
    encoder = LDPVec(5, epsilon=4.0)
    tally = encoder.tally(encoder.randomize(np.random.default_rng(1).normal(size=(40, 5)), seed=2))
    assert encoder.estimate(tally).value.shape == (5,)
    for forged in (tally.counts * 3, tally.counts[:, :4], -tally.counts):
        with pytest.raises(TallyError, match="no reports add up to this tally"):
            encoder.estimate(replace(tally, counts=forged))


def test_sums_along_axes_have_bounds_of_their_own():
    declared = Bounded((2, 2), sums=(SumBound((-1,), np.array([0, 1]), np.array([1, 2])),))
    assert declared.fault(1, np.array([[1, 0], [0, 1]])) is None
    assert declared.fault(1, np.array([[1, 0], [0, 0]])) == (
        "the counts of 1 together are 0, and 1 report adds at least 1 to them"
    )


def test_more_reports_than_an_estimate_reads_are_refused():
    """Sums of counts turned around in 64 bits while they were read: a share of -1.2, from a tally that was fine."""
    mechanism = dither.Hadamard(k=3, epsilon=1.0)
    counts = np.array([2**62, 2**62, 2**62, 2**60])
    huge = Tally(mechanism.fingerprint, sum(map(int, counts)), counts)
    assert mechanism.contributions.fault(huge.n, counts) is None
    for read in (mechanism.estimate, mechanism.check_tally):
        with pytest.raises(TallyError, match=r"claims more than 2\^53 reports"):
            read(huge)
    mechanism.check_tally(Tally(mechanism.fingerprint, 2**53, np.full(4, 2**51)))


@pytest.mark.parametrize(
    "mechanism",
    [
        dither.BallGaussian(d=2, epsilon=1.0, delta=1e-3),
        dither.Hypercube(d=3, epsilon=1.0),
        dither.MSW(shape=(4,), epsilon=8.0, n=1000),
        dither.Copula(shape=(2, 3), epsilon=1.0, n=1000),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_a_tally_of_very_many_reports_is_read(mechanism):
    """It was an OverflowError, or one of NumPy about a singular matrix."""
    few = mechanism.tally(mechanism.randomize(sampled_inputs(mechanism)[:4], seed=1))
    read = []
    for most in (2**40, 2**53):
        times = min(most // few.n, int(MOST // np.abs(few.counts).max()))
        found = mechanism.estimate(Tally(mechanism.fingerprint, few.n * times, few.counts * times))
        read.append(found.margins[0].value if isinstance(mechanism, dither.MSW | dither.Copula) else found.value)
    np.testing.assert_allclose(*read, atol=1e-6)


def test_a_tally_far_from_what_noise_is_counted_from_is_read():
    """n times the middle of the noise did not fit 64 bits: an OverflowError."""
    mechanism = dither.BallGaussian(d=2, epsilon=1.0, delta=1e-3)
    found = mechanism.estimate(Tally(mechanism.fingerprint, 2**50, np.zeros(2, dtype=np.int64)))
    assert (found.value < -1).all()


def test_a_sum_of_vectors_is_not_as_long_as_its_coordinates_are_one_by_one():
    """Every coordinate of one report could be as large as the whole vector, if the signs were chosen well."""
    mechanism = dither.UnitVector(d=8, epsilon=2.0)
    honest = mechanism.tally(mechanism.randomize(np.eye(8)[:5], seed=1))
    mechanism.check_tally(honest)
    longest = int(np.ravel(mechanism.contributions.high)[0])
    forged = honest.counts.copy()
    forged[0] = 5 * longest * (-1) ** np.arange(8)
    with pytest.raises(TallyError, match="count 0, 0 is more than count 1, 0, the squares of so many entries, allows"):
        mechanism.check_tally(Tally(mechanism.fingerprint, 5, forged))
    sums = vector_sums(2, 2**31, (2**61, 2**62))  # squares, and products of n, beyond 64 bits
    assert sums.fault(2, np.array([[2**32, 0], [2**63 - 2, 0]])) is not None
    assert sums.fault(2, np.array([[2**32 - 1, 0], [2**63 - 2, 0]])) is None
