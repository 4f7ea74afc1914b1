"""Hypercube beyond the contract: half-spaces, the scale, exact draws, several corners, many dimensions, mutants."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import comb, log, sqrt

import numpy as np
import pytest

import dither
from dither import Duchi, Hypercube, Sampled, SampledDuchi
from dither import testing as checks
from dither.core.channel import TwoLevel, hockey_stick
from dither.core.domains import Records
from dither.core.draw import DRAW, ELEMENT, sides
from dither.core.exact import exp_below
from dither.core.lattice import ROUNDING, split
from dither.errors import DitherError, DomainError, ParameterError
from dither.mechanisms import hypercube, load
from dither.mechanisms.hypercube import MOST_DIMENSIONS, MOST_PARTS, Signs, half_space
from dither.mechanisms.packing import as_bytes
from dither.testing.tapes import EveryTape, SomeWordsTape

ALARM = 1e-6
ODD, EVEN, PLANE = Hypercube(3, 1.0), Hypercube(4, 1.0, 1e-3), Hypercube(2, 0.5)
SMALL = [Hypercube(d, 1.0, delta) for d in range(1, 9) for delta in (0.0, 1e-3)]
small = pytest.mark.parametrize("mechanism", SMALL, ids=repr)
SEVERAL = [
    Hypercube(1, 3.0, parts=3),
    Hypercube(2, 2.0, 1e-3, parts=2),
    Hypercube(3, 4.0, parts=2),
    Hypercube(4, 5.0, 1e-2, parts=2),
    Hypercube(2, 8.0, 0.1, parts=4),
]
FINGERPRINT = "02741c43c4833a2f2e0312a20ee2e8b7d8d222f675b35df445f96c2acc7337d3"
SEEDED = [6, 4, 1, 0, 3, 4, 7, 2, 4, 4, 7, 0]  # reports of one corner, from the time when there were no parts
several = pytest.mark.parametrize("mechanism", SEVERAL, ids=repr)


def corners(d: int) -> np.ndarray:
    """All corners, in the order of the channel."""
    return np.array([[2 * (number >> j & 1) - 1 for j in range(d)] for number in range(1 << d)])


# The law -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", range(1, 9))
def test_the_channel_favours_the_half_space(d):
    mechanism, points = Hypercube(d, 0.7, 1e-2), corners(d)
    high, low = mechanism.law.high, mechanism.law.low
    np.testing.assert_array_equal(mechanism.inputs(), points)
    unpacked = np.unpackbits(as_bytes(mechanism.outputs()), axis=1, bitorder="little", count=d)
    np.testing.assert_array_equal(2 * unpacked.astype(int) - 1, points)
    for x in {0, 1, (1 << d) // 2, (1 << d) - 1}:
        row = [Fraction(high if inner > 0 else low, mechanism.law.total) for inner in points @ points[x]]
        assert mechanism.channel().row(x) == row
        assert sum(row) == 1


@pytest.mark.parametrize("d", range(1, 13))
def test_sizes_and_sums_of_the_half_space(d):
    inner = corners(d).sum(axis=1)  # with the corner (1, ..., 1)
    assert half_space(d) == (inner > 0).sum()
    assert inner[inner > 0].sum() == d * comb(d - 1, d // 2)


@small
def test_the_scale_by_enumeration(mechanism):
    points = corners(mechanism.d)
    for x in {0, len(points) // 3, len(points) - 1}:
        row = mechanism.channel().row(x)
        mean = [
            sum((p * int(y) for p, y in zip(row, points[:, j], strict=True)), Fraction(0))
            for j in range(len(points[0]))
        ]
        assert mean == [mechanism.reading.kappa * int(v) for v in points[x]]
    assert mechanism.reading.scale == pytest.approx(float(1 / mechanism.reading.kappa), rel=1e-15)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 4.0, 16.0, 30.0])
def test_one_dimension_is_duchi(epsilon):
    for delta in (0.0, 1e-3):
        one, other = Hypercube(1, epsilon, delta), Duchi(epsilon, delta)
        assert other.weights is not None
        assert one.weights == other.weights[:2]
        assert one.guarantee == other.guarantee
        x = np.array([-1.0, -0.3, 0.0, 0.8])
        np.testing.assert_allclose(one.moments(x[:, None]).variance[:, 0], other.moments(x).variance, rtol=1e-7)


@pytest.mark.parametrize("mechanism", SMALL[:8], ids=repr)
def test_moments_between_corners_by_enumeration(mechanism):
    points, d = corners(mechanism.d), mechanism.d
    record = [0.3 - 0.25 * j for j in range(d)]
    shares = [np.prod([(1 + v * x) / 2 for v, x in zip(corner, record, strict=True)]) for corner in points]
    law = np.array(shares) @ mechanism.channel().matrix().astype(float)
    score = points * mechanism.reading.scale
    moments = mechanism.moments([record])
    np.testing.assert_allclose(law @ score, record, atol=1e-12)
    np.testing.assert_array_equal(moments.bias, np.zeros((1, d)))
    np.testing.assert_allclose(law @ (score - record) ** 2, moments.variance[0], rtol=1e-12)
    np.testing.assert_allclose(law @ np.abs(score - record) ** 3, moments.third[0], rtol=1e-12)


def test_the_variance_does_not_cancel():
    mechanism = Hypercube(1, 30.0)
    exact = 1 / mechanism.reading.kappa**2 - 1
    assert 0 < exact < 1e-12
    assert mechanism.moments([[1.0]]).variance[0, 0] == pytest.approx(float(exact), rel=1e-12)
    assert mechanism.estimate(mechanism.tally(mechanism.randomize([[1.0]], seed=1))).stderr[0] > 0


# Several corners -----------------------------------------------------------------------------------------------------


def scores(mechanism: Hypercube) -> np.ndarray:
    """What every report says of every dimension, in the order of the channel."""
    return np.array([mechanism.estimate(mechanism.tally(report)).value for report in mechanism.outputs()])


@several
def test_moments_of_several_corners_by_enumeration(mechanism):
    score, parts = scores(mechanism), mechanism.parts
    for record in ([1.0] * mechanism.d, [0.3 - 0.25 * j for j in range(mechanism.d)], [0.0] * mechanism.d):
        law = np.array(checks.mixed(mechanism.channel(), checks.rounded_value(mechanism, record), float))
        moments = mechanism.moments([record])
        np.testing.assert_allclose(law @ score, record, atol=1e-11)
        np.testing.assert_allclose(law @ (score - record) ** 2, moments.variance[0], rtol=1e-9)
        np.testing.assert_allclose(law @ np.abs(score - record) ** 3, moments.third[0], rtol=1e-9)
        exact = [(1 / mechanism.reading.kappa**2 - Fraction(x) ** 2) / parts for x in record]
        np.testing.assert_allclose(moments.variance[0], np.array(exact, dtype=float), rtol=1e-12)
    assert mechanism.reading.worst_variance() == pytest.approx(float(1 / mechanism.reading.kappa**2) / parts)


@several
def test_the_certificate_is_that_of_all_corners_together(mechanism):
    channel, law, parts = mechanism.channel(), mechanism.law, mechanism.parts
    assert channel.ratio() == law.ratio() ** parts
    assert mechanism.guarantee.established == "exact"
    one, other = channel.row(0), channel.row((1 << mechanism.d) - 1)
    assert max(a / b for a, b in zip(one, other, strict=True)) == channel.ratio()
    for ratio in (Fraction(1), exp_below(mechanism.epsilon / 2), exp_below(mechanism.epsilon)):
        assert channel.divergence(ratio) == hockey_stick(one, other, ratio)
    if mechanism.delta:
        assert mechanism.guarantee.epsilon == mechanism.epsilon
        assert 0 < mechanism.guarantee.delta <= mechanism.delta
        assert parts * law.divergence(exp_below(mechanism.epsilon / parts)) <= Fraction(mechanism.delta)
    else:
        single = Hypercube(mechanism.d, mechanism.epsilon / parts).guarantee.epsilon
        assert mechanism.guarantee.epsilon == pytest.approx(parts * single, rel=1e-12)
        assert 0 <= mechanism.epsilon - mechanism.guarantee.epsilon <= 1e-9


@pytest.mark.parametrize("d", [1, 2, 7, 26, 85, 300])
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0.1, 0.0), (3.05, 0.0), (3.1, 0.0), (4.0, 1e-6), (8.0, 0.0), (8.0, 1e-2), (4.0, 0.5), (20.0, 1e-6), (300.0, 0.0)],
)
def test_the_best_number_of_parts_by_brute_force(d, epsilon, delta):
    most = MOST_PARTS if epsilon > 100 else 14
    tried = [Hypercube(d, epsilon, delta, parts).reading.worst_variance() for parts in range(1, most + 1)]
    best = Hypercube(d, epsilon, delta, parts=None)
    assert best.parts is not None
    assert tried[best.parts - 1] == best.reading.worst_variance() == min(tried)


def test_several_corners_where_epsilon_is_large():
    # The variance of one corner stays above (pi/2) d; of parts it is divided, each with its share of epsilon.
    for d, epsilon, parts in ((101, 8.0, 4), (101, 4.0, 2), (101, 2.0, 1), (1001, 20.0, 9)):
        best, one = Hypercube(d, epsilon, parts=None), Hypercube(d, epsilon)
        assert best.parts == parts
        ratio = np.exp(epsilon / parts)
        about = np.pi / 2 * d * ((ratio + 1) / (ratio - 1)) ** 2 / parts
        assert best.reading.worst_variance() == pytest.approx(about, rel=0.01)
        assert one.reading.worst_variance() > np.pi / 2 * (d - 1)
        assert best.dtype.itemsize == -(-d * parts // 8)


def test_one_corner_is_what_it_was():
    # Reports and descriptions from before there were parts are still read, and seeds give the same reports.
    mechanism = Hypercube(3, 1.0)
    assert mechanism.fingerprint == FINGERPRINT
    stored = mechanism.to_dict()
    assert "parts" not in stored
    assert load(stored) == mechanism == Hypercube(3, 1.0, parts=1) == Hypercube(3, 1.0, parts=None)
    reports = mechanism.randomize(np.tile([0.5, -0.25, 1.0], (12, 1)), seed=7)
    assert as_bytes(np.asarray(reports))[:, 0].tolist() == SEEDED
    several = Hypercube(3, 8.0, parts=None)
    assert several.to_dict()["parts"] == several.parts == 4
    assert load(several.to_dict()) == several


@pytest.mark.parametrize("corner", range(4))
def test_two_corners_are_drawn_as_the_channel_says(corner):
    # The contract runs three parts of one dimension over all tapes. Here no coordinate is rounded, which saves words.
    mechanism = replace(Hypercube(2, 2.0, parts=2), weights=(2, 1))
    value = mechanism.inputs()[corner]
    for filler in (0, 3):
        tape = SomeWordsTape(2, {("part", DRAW): (0, 1, 2, 3), ("part", ELEMENT): (0, 1)}, filler)
        reports = mechanism.drawn(np.tile(value, (tape.rows, 1)), tape)
        rows, inverse = tape.odds()
        found: dict[bytes, Fraction] = {}
        for (report, odds), count in Counter(
            zip(checks.as_bytes(reports[rows]), inverse.tolist(), strict=True)
        ).items():
            found[report] = found.get(report, Fraction(0)) + Fraction(count, odds)
        assert found == dict(zip(checks.as_bytes(mechanism.outputs()), mechanism.channel().row(corner), strict=True))


@several
def test_what_a_corner_favours(mechanism):
    outputs, law = mechanism.outputs(), mechanism.law
    bits = np.unpackbits(as_bytes(outputs), axis=1, bitorder="little", count=mechanism.d * mechanism.number)
    numbers = bits.reshape(len(bits), mechanism.number, mechanism.d) @ (1 << np.arange(mechanism.d))
    assert list(map(tuple, numbers)) == list(product(range(1 << mechanism.d), repeat=mechanism.number))
    for x in (0, 1, (1 << mechanism.d) - 1):
        corner = mechanism.inputs()[x]
        favoured = np.sum([mechanism.favours(corner, outputs, part) for part in range(mechanism.number)], axis=0)
        weights = [law.high**up * law.low ** (mechanism.number - up) for up in favoured.tolist()]
        assert mechanism.channel().row(x) == [Fraction(weight, law.total**mechanism.number) for weight in weights]


@pytest.mark.parametrize(("d", "n"), [(20, 20_000), (85, 20_000), (1000, 2000)])
def test_estimates_from_several_corners(d, n):
    mechanism = Hypercube(d, 8.0, 1e-6, parts=None)
    values = np.clip(np.linspace(-1, 1, d) + np.linspace(-0.5, 0.5, n)[:, None], -1, 1)
    reports = mechanism.randomize(values, seed=d)
    assert mechanism.valid(reports).all()
    assert (mechanism.randomize(values[:300], seed=d) == reports[:300]).all()
    estimate = mechanism.estimate(mechanism.tally(reports))
    assert (np.abs(estimate.value - values.mean(axis=0)) < reach(mechanism, n * mechanism.number)).all()
    least, most = (np.sqrt(mechanism.moments(np.full((1, d), x)).variance[0, 0] / n) for x in (1.0, 0.0))
    assert least * (1 - 1e-12) <= estimate.stderr.min() <= estimate.stderr.max() <= most * (1 + 1e-12)


@pytest.mark.parametrize("share", [1.0, 0.8, 0.1])
def test_errors_of_several_corners_cover_which_users_were_asked(share):
    mechanism, n, mean = Hypercube(2, 8.0, parts=4), 10**12, 0.5
    signs = round(n * 4 * (1 + mean / mechanism.reading.scale) / 2)
    tally = dither.Tally(mechanism.fingerprint, n, np.array([signs, signs]))
    found = mechanism.reading.estimate(tally, mechanism.guarantee, "", among=round(n / share))
    inverse = mechanism.reading.scale**2
    true = [(inverse - square) / 4 + (square - mean**2) * (1 - share) for square in (mean**2, 1.0)]
    np.testing.assert_allclose(found.stderr**2 * n, max(true), rtol=1e-5)
    worst = [(inverse - square) / 4 + square * (1 - share) for square in (0.0, 1.0)]
    assert mechanism.reading.worst_variance(share) == pytest.approx(max(worst))


# The draw ------------------------------------------------------------------------------------------------------------


def drawn(mechanism: Hypercube, inside: bool, bits: int) -> tuple[Counter, bool]:
    """How often every pattern of agreements is accepted over all tapes of short words, and whether any was rejected."""
    tape = EveryTape(bits, {ELEMENT: -(-mechanism.d // bits)})
    words = mechanism._agreements(np.full(tape.rows, inside), tape, slice(0, tape.rows))
    accepted, _ = tape.odds()
    patterns = hypercube._bits(words, bits, mechanism.d)[accepted]
    return Counter(map(tuple, patterns.tolist())), len(accepted) < tape.rows


@pytest.mark.parametrize("d", range(1, 11))
@pytest.mark.parametrize("bits", [1, 2, 3, 5, 8, 12])
@pytest.mark.parametrize("inside", [True, False])
def test_a_side_is_drawn_uniformly(d, bits, inside):
    found, rejected = drawn(Hypercube(d, 1.0), inside, bits)
    side = {word for word in product([False, True], repeat=d) if (2 * sum(word) > d) == inside}
    assert set(found) == side
    assert len(set(found.values())) == 1
    assert rejected == (d % 2 == 0)


def test_rounding_is_that_of_the_lattice_in_every_coordinate():
    bits, record = 4, np.array([0.3, -1.0, 1.0, -0.55])
    tape = EveryTape(bits, {ROUNDING: 4})
    signs = hypercube.rounded_signs(np.repeat(record[None], tape.rows, axis=0), tape, slice(0, tape.rows))
    lower, fraction, digits = split(record, 1, bits)
    assert digits == bits
    shares = [int(up) + Fraction(int(part), 16) for up, part in zip(lower, fraction, strict=True)]
    assert [Fraction(int(ones), tape.rows) for ones in signs.sum(axis=0)] == shares
    both = Fraction(int((signs[:, 0] & signs[:, 3]).sum()), tape.rows)
    assert both == shares[0] * shares[3]  # coordinates are rounded independently


@pytest.mark.parametrize("d", [7, 8, 9, 63, 64, 65, 127, 128, 130])
def test_padding_is_clear_at_every_length(d):
    mechanism = Hypercube(d, 1.0, 1e-6)
    reports = mechanism.randomize(np.ones((500, d)), seed=d)
    assert mechanism.valid(reports).all()
    assert mechanism.tally(reports).counts.shape == (d,)
    if d % 8:
        forged = np.asarray(reports).copy()
        as_bytes_of = forged.view(np.uint8).reshape(500, -1)
        as_bytes_of[3, -1] |= 0x80
        assert (~mechanism.valid(forged)).nonzero()[0].tolist() == [3]


# Many dimensions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [42, 85, 999, 1000, MOST_DIMENSIONS - 1, MOST_DIMENSIONS])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (1.0, 1e-6), (0.1, 1e-3), (8.0, 0.5), (1e-6, 0.0)])
def test_certificates_of_many_dimensions(d, epsilon, delta):
    mechanism = Hypercube(d, epsilon, delta)
    assert mechanism.guarantee.established == "exact"
    assert epsilon * (1 - 1e-8) <= mechanism.guarantee.epsilon <= epsilon
    assert delta * (1 - 1e-2) <= mechanism.guarantee.delta <= delta
    high, low = mechanism.law.high, mechanism.law.low
    lost = half_space(d) * max(Fraction(0), high - exp_below(epsilon) * low) / mechanism.law.total
    assert lost == mechanism.channel().divergence(exp_below(epsilon)) <= Fraction(delta)
    assert load(mechanism.to_dict()).fingerprint == mechanism.fingerprint


@pytest.mark.parametrize("d", [50, 62, 100, 1000, 1001])
@pytest.mark.parametrize("epsilon", [17.0, 40.0, 5000.0])
def test_above_16_more_dimensions_do_not_cost_epsilon(d, epsilon):
    assert 16 < Hypercube(d, epsilon).guarantee.epsilon <= epsilon


def reach(mechanism: Hypercube, n: int) -> float:
    """No mean of n scores is further off, but with probability ALARM for all dimensions together (Hoeffding)."""
    return mechanism.reading.scale * sqrt(2 * log(2 * mechanism.d / ALARM) / n)


@pytest.mark.parametrize(("d", "n"), [(20, 50_000), (85, 50_000), (86, 50_000), (1000, 4000), (1001, 4000)])
def test_estimates_of_many_dimensions(d, n):
    mechanism = Hypercube(d, 1.0, 1e-6)
    values = np.clip(np.linspace(-1, 1, d) + np.linspace(-0.5, 0.5, n)[:, None], -1, 1)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=d)))
    assert (np.abs(estimate.value - values.mean(axis=0)) < reach(mechanism, n)).all()
    least, most = (np.sqrt(mechanism.moments(np.full((1, d), x)).variance[0, 0] / n) for x in (1.0, 0.0))
    assert least * (1 - 1e-12) <= estimate.stderr.min() <= estimate.stderr.max() <= most * (1 + 1e-12)


@pytest.mark.parametrize("d", [999, 1000, MOST_DIMENSIONS])
def test_a_thousand_dimensions_together_tell_the_corner(d):
    # Along the corner that all users share, the noise is d times smaller. E[(y.v)^2] is d on the whole cube, and at
    # most 2^(d-1)/C_d times as much on T+. Bernstein's inequality then holds with false alarm ALARM.
    n, mechanism = 3000, Hypercube(d, 1.0, 1e-6)
    corner = np.where(np.arange(d) * 7 % 5 < 2, 1.0, -1.0)
    value = mechanism.estimate(mechanism.tally(mechanism.randomize(np.tile(corner, (n, 1)), seed=5))).value
    scale = mechanism.reading.scale
    variance, most, alarm = float(Fraction(1 << d - 1, half_space(d))) * scale**2 / d, scale + 1, log(2 / ALARM)
    allowed = sqrt(2 * variance * alarm / n) + 2 * most * alarm / (3 * n)
    assert allowed < 0.9  # a swapped side, or none, is far outside
    assert abs(value @ corner / d - 1) < allowed


def test_reports_do_not_depend_on_the_cut():
    for mechanism in (Hypercube(1000, 1.0), Hypercube(85, 1.0)):
        values = np.tile(np.linspace(-1, 1, mechanism.d), (1500, 1))
        whole = mechanism.randomize(values, seed=3)
        assert (mechanism.randomize(values[:300], seed=3) == whole[:300]).all()


def test_close_to_the_sampled_sign():
    # Sound deltas on both sides: for many dimensions a corner costs about pi/2 times one sampled sign.
    for d in (85, 1001):
        ratio = (
            Hypercube(d, 1.0, 1e-6).reading.worst_variance() / SampledDuchi(d, 1.0, 1e-6, m=1).reading.worst_variance()
        )
        assert ratio == pytest.approx(np.pi / 2, rel=0.01)


# The reading ---------------------------------------------------------------------------------------------------------


def test_values_and_errors_from_counts():
    mechanism = Hypercube(3, 1.0)
    scale = mechanism.reading.scale
    estimate = mechanism.estimate(dither.Tally(mechanism.fingerprint, 1000, np.array([500, 600, 1000])))
    np.testing.assert_allclose(estimate.value, [0.0, 0.2 * scale, scale], atol=1e-12)
    middle = (0.2 * scale) ** 2 - scale**2 / 1000  # the squared estimate is too large by the noise
    np.testing.assert_allclose(estimate.stderr**2 * 1000, [scale**2, scale**2 - middle, scale**2 - 1])
    single = mechanism.estimate(dither.Tally(mechanism.fingerprint, 1, np.array([0, 1, 1])))
    np.testing.assert_allclose(single.stderr, scale)  # one sign tells nothing about the mean


def test_the_error_covers_which_users_were_asked():
    mechanism = Hypercube(3, 1.0)
    tally = mechanism.tally(mechanism.randomize(np.zeros((100, 3)), seed=1))
    alone = mechanism.reading.estimate(tally, mechanism.guarantee, "")
    asked = mechanism.reading.estimate(tally, mechanism.guarantee, "", among=10_000)
    np.testing.assert_array_equal(alone.stderr, asked.stderr)
    assert mechanism.reading.worst_variance() == mechanism.reading.worst_variance(0.01)


def test_explanation():
    mechanism = Hypercube(3, 1.0)
    text = mechanism.estimate(mechanism.tally(mechanism.randomize(np.zeros((100, 3))))).explain()
    assert "Hypercube(d=3, epsilon=1.0, delta=0.0, parts=1)" in text
    assert "epsilon 1 (exact)" in text


# Bad input -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"d": 0},
        {"d": MOST_DIMENSIONS + 1},
        {"d": 2.0},
        {"d": "3"},
        {"delta": 1.0},
        {"delta": -0.1},
        {"epsilon": 0.0},
        {"parts": 0},
        {"parts": MOST_PARTS + 1},
        {"parts": 2.0},
        {"parts": True},
    ],
    ids=str,
)
def test_bad_parameters(change):
    with pytest.raises(ParameterError):
        Hypercube(**{"d": 3, "epsilon": 1.0, **change})


@pytest.mark.parametrize("values", [np.zeros((2, 4)), np.zeros((2, 2, 3)), [0.0, 1.0], [[0.0, 1.0]], 0.5], ids=str)
def test_tables_of_another_shape(values):
    with pytest.raises(DomainError, match="3 columns"):
        Hypercube(3, 1.0).randomize(values)


def test_what_lies_outside_is_clipped_when_asked():
    mechanism = Hypercube(3, 1.0)
    good = mechanism.randomize(np.tile([1.0, -1.0, 0.0], (200, 1)), seed=4)
    for table in ([7.0, -np.inf, np.nan], [1.5, -3.0, 0.0]):
        assert (mechanism.randomize(np.tile(table, (200, 1)), seed=4, invalid="clip") == good).all()
    with pytest.raises(DomainError, match="row 1, dimension 2"):
        mechanism.randomize([[0.0, 0.0, 0.0], [0.0, 0.0, 1.5]])


def test_the_type_of_the_table_does_not_matter():
    mechanism, table = Hypercube(3, 1.0), np.linspace(-1, 1, 600).astype(np.float32).reshape(200, 3)
    wanted = mechanism.randomize(table.astype(np.float64), seed=2)
    assert (mechanism.randomize(table, seed=2) == wanted).all()
    assert (mechanism.randomize(np.asfortranarray(table), seed=2) == wanted).all()
    columns = {name: table[:, j].astype(np.float64) for j, name in enumerate("abc")}
    assert (mechanism.randomize(columns, seed=2) == wanted).all()
    whole = np.array([[1, -1, 0]] * 50)
    assert (mechanism.randomize(whole, seed=2) == mechanism.randomize(whole.astype(float), seed=2)).all()


def test_what_is_too_large_to_list_is_refused():
    mechanism = Hypercube(1000, 1.0)
    assert mechanism.inputs().shape == (16, 1000)
    assert isinstance(mechanism.reading.domain, Records)
    with pytest.raises(ParameterError, match="too many to list"):
        mechanism.outputs()
    with pytest.raises(ParameterError, match="too large to write down"):
        mechanism.channel().matrix()


def test_a_corner_is_no_base_for_sampling():
    with pytest.raises(DitherError):
        Sampled("Hypercube(d=2)", d=3, m=1, epsilon=1.0)


# Mutants -------------------------------------------------------------------------------------------------------------


def caught(check, victim) -> bool:
    """Whether the check, which passes on the right code, fails on the victim as it is now."""
    try:
        check(victim)
    except (AssertionError, KeyError):
        return True
    return False


def change_place(monkeypatch, accept) -> None:
    """Let `accept(excess, wanted)` say which words are right and which are negated; those that are neither go again."""

    def agreements(self, inside, tape, rows):
        whole = hypercube._full_words(self.d, tape.bits)

        def place(words, pending):
            chosen = words & whole
            excess = 2 * np.bitwise_count(chosen).sum(axis=1, dtype=np.int64) - self.d
            right, negated = accept(excess, inside[pending])
            chosen[negated] ^= whole
            return chosen, right | negated

        return hypercube.rejection_sampled(place, tape, rows, whole.size, ELEMENT)

    monkeypatch.setattr(Hypercube, "_agreements", agreements)


@pytest.mark.parametrize("victim", [EVEN, PLANE], ids=repr)
@pytest.mark.parametrize(
    "accept",
    [
        lambda excess, wanted: ((excess >= 0) == wanted, wanted & (excess < 0)),  # ties on the wrong side
        lambda excess, wanted: ((excess > 0) == wanted, (excess > 0) != wanted),  # ties negated for T+
        lambda excess, wanted: ((excess > 0) == wanted, (excess != 0) & ((excess > 0) != wanted)),  # negated into T-
        lambda excess, wanted: ((excess != 0) & ((excess > 0) == wanted), (excess != 0) & ((excess > 0) != wanted)),
        lambda excess, wanted: ((excess > 0) != wanted, np.zeros_like(wanted)),  # the sides swapped
    ],
)
def test_even_corners_on_the_wrong_side(monkeypatch, victim, accept):
    change_place(monkeypatch, accept)
    assert caught(checks.check_sampler, victim)


def test_odd_corners_that_are_not_negated(monkeypatch):
    change_place(monkeypatch, lambda excess, wanted: (np.ones_like(wanted), np.zeros_like(wanted)))
    assert caught(checks.check_sampler, ODD)
    assert caught(checks.check_plumbing, ODD)


def test_the_unchanged_copy_passes(monkeypatch):
    change_place(monkeypatch, lambda excess, wanted: ((excess > 0) == wanted, wanted & (excess < 0)))
    assert not caught(checks.check_sampler, PLANE)


def test_sides_swapped(monkeypatch):
    monkeypatch.setattr(hypercube, "sides", lambda law, tape, rows: ~sides(law, tape, rows))
    assert caught(checks.check_sampler, ODD)


@pytest.mark.parametrize("d", [3, 4])
def test_pointwise_delta(d):
    # As printed: the certificate believes that two inputs differ in one corner. Enumeration contradicts.
    mutant = replace(Hypercube(d, 1.0, 1e-3))
    law = TwoLevel.fit(
        1.0, 1e-3, favoured=half_space(d), outputs=1 << d, apart=1, inputs=1 << d, members=mutant._favoured
    )
    vars(mutant)["law"] = law
    vars(mutant).pop("guarantee", None)
    assert mutant.guarantee.delta <= 1e-3
    assert caught(checks.check_channel, mutant)
    with pytest.raises(DitherError, match="enumeration contradicts"):
        dither.privacy.certify(mutant)
    sound = replace(mutant, delta=1e-3, weights=None)
    with pytest.raises(ParameterError, match="do not keep"):
        replace(sound, weights=(law.high, law.low))


@pytest.mark.parametrize("victim", [ODD, EVEN], ids=repr)
def test_a_binomial_off_by_one(victim):
    mutant, law, d = replace(victim), victim.law, victim.d
    vars(mutant)["reading"] = Signs(d, Fraction((law.high - law.low) * comb(d - 1, d // 2 + 1), law.total))
    assert caught(checks.check_estimator, mutant)


@pytest.mark.parametrize("victim", [ODD, EVEN], ids=repr)
def test_the_scale_of_another_delta(victim):
    mutant = replace(victim)
    vars(mutant)["reading"] = Signs(victim.d, victim.reading.kappa * Fraction(100_001, 100_000))
    assert caught(checks.check_estimator, mutant)


@pytest.mark.wide
def test_padding_bits_that_count_as_agreements(monkeypatch):
    full = hypercube._full_words
    monkeypatch.setattr(hypercube, "_full_words", lambda d, bits: full(-(-d // bits) * bits, bits))
    assert caught(checks.check_sampler, PLANE)


def test_padding_bits_that_are_sent(monkeypatch):
    real = Hypercube._fill

    def fill(self, reports, values, tape, rows):
        real(self, reports, values, tape, rows)
        as_bytes(reports)[:, -1] |= np.uint8(0x80)

    monkeypatch.setattr(Hypercube, "_fill", fill)
    assert caught(checks.check_sampler, PLANE)


def test_one_coin_for_all_coordinates(monkeypatch):
    def signs(values, tape, rows):
        upper, fraction, digits = split(values, 1, tape.bits)
        coins = tape.words(ROUNDING, rows) >> np.uint64(tape.bits - digits)
        return (coins < fraction) | upper.astype(bool)

    monkeypatch.setattr(hypercube, "rounded_signs", signs)
    assert caught(checks.check_sampler, PLANE)
    assert caught(checks.check_plumbing, PLANE)


def test_the_value_one_rounded_down(monkeypatch):
    def signs(values, tape, rows):
        _, fraction, digits = split(np.asarray(values, dtype=np.float64), 1, tape.bits)
        return tape.words(ROUNDING, rows, values.shape[1]) >> np.uint64(tape.bits - digits) < fraction

    monkeypatch.setattr(hypercube, "rounded_signs", signs)
    assert caught(checks.check_sampler, PLANE)


def test_signs_sent_without_noise(monkeypatch):
    monkeypatch.setattr(hypercube, "_bits", lambda words, bits, d: np.ones((len(words), d), dtype=bool))
    assert caught(checks.check_sampler, ODD)


def test_one_rounding_for_all_parts(monkeypatch):
    real = hypercube.rounded_signs

    def signs(values, tape, rows):
        return np.repeat(real(values, tape, rows)[::3], 3, axis=0)

    monkeypatch.setattr(hypercube, "rounded_signs", signs)
    assert caught(checks.check_sampler, SEVERAL[0])
    assert caught(checks.check_plumbing, SEVERAL[0])


def test_one_noise_for_all_parts(monkeypatch):
    monkeypatch.setattr(hypercube, "slots_of", lambda rows, m: np.repeat(np.arange(rows.start, rows.stop), m) * m)
    assert caught(checks.check_sampler, SEVERAL[0])
    assert caught(checks.check_plumbing, SEVERAL[1])


@several
def test_every_part_with_the_whole_budget(monkeypatch, mechanism):
    monkeypatch.setattr(hypercube, "share_below", lambda total, parts: total)
    with pytest.raises(ParameterError, match="do not keep"):
        replace(mechanism, weights=None)


@several
def test_several_corners_read_as_one(mechanism):
    mutant = replace(mechanism)
    vars(mutant)["reading"] = Signs(mechanism.d, mechanism.reading.kappa)
    assert caught(checks.check_estimator, mutant)


def test_standard_errors_too_small(monkeypatch):
    real = Signs.estimate

    def estimate(self, tally, guarantee, source, among=None):
        right = real(self, tally, guarantee, source, among)
        return replace(right, stderr=right.stderr * 0.9)

    monkeypatch.setattr(Signs, "estimate", estimate)
    assert caught(checks.check_estimator, ODD)
