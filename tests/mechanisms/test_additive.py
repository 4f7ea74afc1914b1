"""Laplace and Gaussian beyond the contract: golden numbers, the continuum, exact draws, the bound in d dimensions."""

import subprocess
import sys
from collections import Counter
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from dither.core.additive_channel import AdditiveChannel, noise_table
from dither.core.channel import hockey_stick
from dither.core.exact import exp_below, log_above
from dither.core.lattice import ROUNDING, split
from dither.errors import DomainError, ParameterError
from dither.mechanisms.additive import LEAST_DELTA, Additive, Gaussian, Laplace
from dither.mechanisms.noise_tables import analytic_sigma, gaussian_bound, gaussian_scale, table_deviation
from dither.testing.tapes import EveryTape, lanes_read
from marks import one_in

EPSILONS = (1e-12, 1e-6, 1e-3, 0.01, 0.05, 0.1, 1 / 3, 1.0, 2.7, 5.0, 10.0, 16.0)
DELTAS = (1e-6, 1e-3, 0.1, 0.9, 1e-12)
SOME = [Laplace(1.0), Laplace(0.01), Laplace(6.0), Gaussian(1.0, 1e-6), Gaussian(0.05, 1e-6), Gaussian(8.0, 1e-3)]
some = pytest.mark.parametrize("mechanism", SOME, ids=repr)


def law_of(mechanism, value: float, bits: int = 64) -> list[Fraction]:
    """P(report | value) from the definition: the rounding, then the table shifted and clamped."""
    channel = mechanism.channel()
    lower, numerator, digits = split(np.array([value / channel.stretch]), channel.steps, bits)
    up = Fraction(int(numerator[0]), 1 << digits)
    rows = [(channel.shifted(int(lower[0])), 1 - up)]
    if up:
        rows.append((channel.shifted(int(lower[0]) + 1), up))
    return [
        sum((share * Fraction(row[y], channel.total) for row, share in rows), Fraction(0))
        for y in range(channel.shape[1])
    ]


# The noise -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "golden"), [(0.1, 5272.1), (0.5, 259.70), (1.0, 71.392), (2.0, 19.900), (5.0, 3.8420)]
)
def test_golden_worst_case_variance_of_the_optimal_gaussian(epsilon, golden):
    mechanism = Gaussian(epsilon, 1e-6)
    between = -1 + 1 / mechanism.noise.law.steps
    assert mechanism.moments([0.0, between]).variance.max() == pytest.approx(golden, rel=1e-3)
    assert analytic_sigma(epsilon, 1e-6) ** 2 == pytest.approx(golden, rel=2e-5)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_laplace_has_the_variance_of_the_continuum(epsilon):
    mechanism = Laplace(epsilon)
    variance = mechanism.moments([-1.0, 0.0, 1.0, 1 / 3, -1 + 1 / mechanism.noise.law.steps]).variance
    assert variance.max() * epsilon**2 / 8 == pytest.approx(1, abs=1e-3)
    assert variance.max() * epsilon**2 / 8 < 1 + 5e-4


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gaussian_has_the_variance_of_the_continuum(epsilon):
    for delta in DELTAS[:-1]:
        mechanism = Gaussian(epsilon, delta)
        variance = mechanism.moments([-1.0, 0.0, 1.0, 1 / 3, -1 + 1 / mechanism.noise.law.steps]).variance
        assert variance.max() / analytic_sigma(epsilon, delta) ** 2 == pytest.approx(1, abs=1.3e-3)


@pytest.mark.parametrize("epsilon", one_in(4, EPSILONS))
def test_certificates_are_close(epsilon):
    promise = Laplace(epsilon).guarantee
    assert promise.delta == 0
    assert 0 <= epsilon - promise.epsilon <= 1e-9 * min(1, epsilon)
    for delta in (*DELTAS, 1e-20, LEAST_DELTA, 1 - 2**-53):
        promise = Gaussian(epsilon, delta).guarantee
        assert promise.epsilon == epsilon
        assert 0 <= delta - promise.delta <= 1e-9 * delta


@pytest.mark.parametrize("epsilon", [17.0, 40.0, 5000.0, 1e300])
def test_above_the_range_the_certificate_states_what_is_delivered(epsilon):
    for mechanism in (Laplace(epsilon), Gaussian(epsilon, 1e-6), Gaussian(epsilon, 0.5), Gaussian(epsilon, 1e-20)):
        promise = mechanism.guarantee
        assert 16 < promise.epsilon <= epsilon
        assert promise.delta <= mechanism.delta
        assert len(mechanism.weights or ()) < 1500


@pytest.mark.wide
def test_tables_stay_small_and_their_weights_large():
    for mechanism in (*map(Laplace, EPSILONS), *(Gaussian(e, d) for e, d in product(EPSILONS, DELTAS))):
        channel = mechanism.noise.law
        assert channel.shape[1] < 1300
        assert channel.weights[-2].bit_length() > 40
        assert channel.total.bit_length() % 64 == 1  # a power of a word: no word is wasted


# Moments -------------------------------------------------------------------------------------------------------------


@some
def test_moments_by_enumeration(mechanism):
    scores = mechanism.reading.scores
    steps = mechanism.noise.law.steps
    for value in (-1.0, -0.987, -1 + 1 / steps, 0.0, 0.123, 0.5, 0.999, 1.0):
        law = law_of(mechanism, value)
        assert sum(law) == 1
        found = mechanism.moments([value])
        bias = float(sum(p * Fraction(z) for p, z in zip(law, scores.tolist(), strict=True)) - Fraction(value))
        weights = np.array(law, dtype=float)
        mean = value + bias
        deviation = found.variance[0] ** 0.5
        assert bias == pytest.approx(found.bias[0], rel=1e-3, abs=1e-14 * deviation)
        assert abs(bias) < 1e-10 * deviation
        assert weights @ (scores - mean) ** 2 == pytest.approx(found.variance[0], rel=1e-11)
        assert weights @ np.abs(scores - mean) ** 3 == pytest.approx(found.third[0], rel=1e-11)


@pytest.mark.parametrize("stretch", [1, 2])
def test_moments_where_the_clamp_bites(stretch):
    # A short reach, so that bias and clamped ends are large and every term counts.
    law = AdditiveChannel((9, 7, 4, 2, 1), 2, 2) if stretch == 1 else AdditiveChannel((9, 7, 4, 2), 1, 2, stretch)
    noise = Additive(law)
    scores = noise.reading().scores
    for value in (-1.0, -0.5, 0.0, 0.25, 1.0):
        place = (value / stretch + 1) / 2 * law.steps
        lower = min(int(place), law.steps - 1)
        rows = np.array([law.shifted(lower), law.shifted(lower + 1)], dtype=float) / law.total
        weights = (1 - (place - lower)) * rows[0] + (place - lower) * rows[1]
        found = noise.moments(np.array([value]))
        mean = weights @ scores
        assert mean - value == pytest.approx(found.bias[0], abs=1e-15)
        assert weights @ (scores - mean) ** 2 == pytest.approx(found.variance[0], rel=1e-13)
        assert weights @ np.abs(scores - mean) ** 3 == pytest.approx(found.third[0], rel=1e-13)
    assert noise.moments(np.array([1.0])).bias[0] < -0.01


@some
def test_rows_are_the_inputs_at_both_ends(mechanism):
    channel = mechanism.channel()
    assert law_of(mechanism, -1.0) == channel.row(0)
    assert law_of(mechanism, 1.0) == channel.row(channel.shape[0] - 1)
    inputs = mechanism.inputs()
    assert law_of(mechanism, inputs[1]) == pytest.approx(channel.row(1), rel=1e-9)


@some
def test_an_estimate_covers_the_truth(mechanism):
    # 6 standard errors: false alarm 2e-9.
    values = np.linspace(-0.9, 0.5, 200_000)
    tally = mechanism.tally(mechanism.randomize(values, seed=1))
    estimate = mechanism.estimate(tally)
    assert abs(estimate.value - values.mean()) < 6 * estimate.stderr
    true = (mechanism.moments(values).variance.mean() / tally.n) ** 0.5
    assert estimate.stderr == pytest.approx(true, rel=2e-3)


# The draw ------------------------------------------------------------------------------------------------------------


def short(mechanism, weights: tuple[int, ...]):
    """The same mechanism with a short table, and the epsilon that this table keeps."""
    *table, steps, reach, stretch = weights
    epsilon = log_above(AdditiveChannel(tuple(table), steps, reach, stretch).ratio())
    extra = {"delta": mechanism.delta} if mechanism.delta else {}
    return type(mechanism)(epsilon, weights=weights, **extra)


def check_reports(mechanism, bits: int, values) -> None:
    """Over all tapes of short words, reports have the channel's law exactly."""
    lanes = lanes_read(lambda rows, tape: mechanism.drawn(np.zeros(rows), tape), bits)
    for value in values:
        tape = EveryTape(bits, lanes)
        reports = mechanism.drawn(np.full(tape.rows, value), tape)["value"]
        rows, inverse = tape.odds()
        found = [Fraction(0)] * mechanism.channel().shape[1]
        for (report, odds), count in Counter(zip(reports[rows].tolist(), inverse.tolist(), strict=True)).items():
            found[report] += Fraction(count, odds)
        assert found == law_of(mechanism, value, bits)


SHORT = [
    (short(Laplace(1.0), (4, 2, 1, 1, 1, 1)), 4),
    (short(Gaussian(1.0, 1e-3), (5, 3, 1, 1, 1, 1)), 5),
    (short(Laplace(1.0), (9, 7, 4, 2, 1, 2, 2, 1)), 4),
    (short(Gaussian(1.0, 1e-3), (9, 7, 3, 1, 2, 1, 1)), 4),
    (short(Laplace(1.0), (4, 2, 1, 1, 1, 2)), 5),
    (short(Gaussian(0.1, 1e-3), (9, 7, 4, 2, 1, 2, 4)), 4),
]


@pytest.mark.parametrize(("mechanism", "bits"), SHORT, ids=str)
def test_reports_over_all_tapes(mechanism, bits):
    check_reports(mechanism, bits, (-1.0, -0.5, 0.0, 0.3, 1.0))


def test_every_draw_has_its_own_lane():
    lanes = lanes_read(lambda rows, tape: SHORT[0][0].drawn(np.zeros(rows), tape), 4)
    assert len(lanes) == 3
    assert ROUNDING in lanes


@some
def test_seeds_repeat_and_cuts_do_not_matter(mechanism):
    values = np.linspace(-1, 1, 30_000)
    reports = mechanism.randomize(values, seed=3)
    assert (mechanism.randomize(values, seed=3) == reports).all()
    assert (mechanism.randomize(values[:777], seed=3) == reports[:777]).all()
    assert (mechanism.randomize(values, seed=4) != reports).any()
    with pytest.raises(DomainError):
        mechanism.randomize([0.0, 1.0000001])


# What is stored ------------------------------------------------------------------------------------------------------


@some
def test_stored_integers_are_kept(mechanism):
    again = type(mechanism).from_dict(mechanism.to_dict())
    assert again == mechanism
    assert again.fingerprint == mechanism.fingerprint
    stored = mechanism.to_dict()
    first, *others = mechanism.weights
    stored["weights"] = [first - 1, *others]  # a total that is no power of two is sampled all the same
    other = type(mechanism).from_dict(stored)
    assert other.fingerprint != mechanism.fingerprint
    assert other.guarantee.epsilon <= mechanism.epsilon
    assert len(other.randomize(np.zeros(1000), seed=1)) == 1000


def tampered(mechanism, place: int, factor: Fraction):
    weights = list(mechanism.weights)
    weights[place] = int(weights[place] * factor) + (factor > 1)
    return type(mechanism).from_dict({**mechanism.to_dict(), "weights": weights})


@some
@pytest.mark.parametrize("place", [0, 1, 7, 100, -4, -5, -6])
def test_integers_that_break_the_promise_are_refused(mechanism, place):
    if place == -4 and mechanism.delta:
        return  # the tail of a Gaussian may be heavier or lighter, and the promise still kept
    with pytest.raises(ParameterError):
        tampered(mechanism, place, Fraction(101, 100))
    if place:
        with pytest.raises(ParameterError):
            tampered(mechanism, place, Fraction(1, 2))


@some
def test_the_lattice_is_part_of_the_promise(mechanism):
    *table, steps, reach, stretch = mechanism.weights
    for weights in (
        (*table, steps + 1, reach - 1, stretch),  # less noise for the same range
        (*table, steps + 1, reach, stretch),
        (*table[:-1], steps, reach, stretch),
        (*table, steps, reach, 3),
        (*table, steps, reach, 0),
        (*table, steps),
        (*table[:-1], 1.5, steps, reach, stretch),
        (*table, steps, reach, 1 << 60),
        (1 << 2000, *table[1:], steps, reach, stretch),
        (),
        "123456",
    ):
        with pytest.raises(ParameterError):
            type(mechanism).from_dict({**mechanism.to_dict(), "weights": weights})
    if stretch > 1:
        with pytest.raises(ParameterError):
            type(mechanism).from_dict({**mechanism.to_dict(), "weights": (*table, steps, reach, stretch // 2)})


@pytest.mark.parametrize("delta", [0.0, 1e-31, 5e-324])
def test_a_delta_that_cannot_be_kept_is_refused_with_advice(delta):
    with pytest.raises(ParameterError, match="Laplace, Duchi and Piecewise"):
        Gaussian(1.0, delta)
    with pytest.raises(ParameterError, match="delta"):
        Gaussian(1.0)


def test_the_client_needs_no_scipy():
    code = (
        "import sys; from dither.mechanisms.additive import Gaussian, Laplace;"
        "Gaussian(1.0, 1e-6).randomize([0.5]); Laplace(1.0).randomize([0.5]);"
        "sys.exit(any(name.split('.')[0] in ('scipy', 'numba', 'pandas') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# d dimensions --------------------------------------------------------------------------------------------------------


def exact_delta(table: tuple[int, ...], steps: int, d: int, ratio: Fraction) -> Fraction:
    """The divergence of d coordinates at 0 against d at J, by convolution of the clamped laws' likelihood ratios."""
    channel = AdditiveChannel(table, steps, len(table) - 1 - steps)
    pairs = list(zip(channel.shifted(0), channel.shifted(steps), strict=True))
    words = {(1, 1): 1}
    for _ in range(d):
        longer: Counter[tuple[int, int]] = Counter()
        for (one, two), count in words.items():
            for a, b in pairs:
                longer[one * a, two * b] += count
        words = longer
    gains = (count * max(Fraction(0), one - ratio * two) for (one, two), count in words.items())
    return sum(gains, Fraction(0)) / channel.total**d


@pytest.mark.wide
@pytest.mark.parametrize(
    ("s2", "steps", "reach", "d"),
    [
        (Fraction(9, 2), 1, 24, 1),
        (Fraction(9, 2), 3, 24, 2),
        (Fraction(7, 2), 2, 21, 2),
        (Fraction(5, 2), 1, 18, 2),
        (Fraction(5, 2), 1, 17, 3),
        (Fraction(3), 2, 18, 3),
    ],
)
def test_the_bound_in_d_dimensions_by_convolution(s2, steps, reach, d):
    curvature = Context(prec=80).divide(Decimal(s2.denominator), Decimal(2 * s2.numerator))
    table = noise_table(Decimal(0), curvature, steps + reach, 256)
    near = table_deviation(table, Fraction(s2))
    assert near < Fraction(1, 2**40)
    for epsilon in (0.05, 0.5, 1.0, 2.5):
        exact = exact_delta(table, steps, d, exp_below(epsilon))
        bound = gaussian_bound(s2, steps, d, exp_below(epsilon))
        assert exact <= bound
        assert bound / exact < 1 + 1e-6
        assert exact <= gaussian_bound(s2, steps, d, exp_below(epsilon), near) <= bound


def test_the_convolution_is_that_of_the_definition():
    table, ratio = (9, 7, 4, 2, 1), Fraction(3, 2)
    channel = AdditiveChannel(table, 2, 2)
    low, high = ([a * b for a in row for b in row] for row in (channel.row(0), channel.row(2)))
    assert exact_delta(table, 2, 2, ratio) == hockey_stick(low, high, ratio)


@pytest.mark.parametrize(("d", "printed"), [(5, 0.0097), (15, 0.099)])
def test_the_printed_sensitivity_of_002_breaks_the_promise(d, printed):
    s2, steps = gaussian_scale(1.0, 1e-6, 1)  # sensitivity 2, as printed
    assert float(gaussian_bound(s2, steps, 1, exp_below(1.0))) == pytest.approx(1e-6, rel=1e-9)
    assert float(gaussian_bound(s2, steps, d, exp_below(1.0))) == pytest.approx(printed, rel=6e-3)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (5.0, 1e-3), (1.0, 1e-12)])
def test_the_calibration_in_d_dimensions_follows_the_square_root(epsilon, delta):
    for d in (1, 2, 5, 30):
        s2, steps = gaussian_scale(epsilon, delta, d)
        bound = gaussian_bound(s2, steps, d, exp_below(epsilon))
        assert delta * (1 - 1e-9) <= bound <= delta
        sigma = 2 * float(s2) ** 0.5 / steps
        assert sigma == pytest.approx(analytic_sigma(epsilon, delta, 2 * d**0.5), rel=1e-3)
        assert sigma == pytest.approx(analytic_sigma(epsilon, delta) * d**0.5, rel=1e-3)


def test_the_bound_of_one_dimension_is_the_exact_delta():
    for epsilon, delta in product((0.3, 1.0, 4.0), (1e-6, 1e-3)):
        s2, steps = gaussian_scale(epsilon, delta, 1)
        reach = int(7 * float(s2) ** 0.5) + 1
        table = noise_table(Decimal(0), Decimal(s2.denominator) / (2 * s2.numerator), steps + reach, 128)
        exact = AdditiveChannel(table, steps, reach).divergence(exp_below(epsilon))
        assert exact <= gaussian_bound(s2, steps, 1, exp_below(epsilon)) <= exact * (1 + Fraction(1, 10**6))


def test_the_bound_grows_with_d_and_falls_with_epsilon():
    grown = [gaussian_bound(Fraction(900), 6, d, exp_below(1.0)) for d in (1, 2, 4, 8, 64, 512)]
    assert all(a < b for a, b in pairwise(grown))
    assert grown[-1] <= 1
    fallen = [gaussian_bound(Fraction(900), 6, 4, exp_below(epsilon)) for epsilon in (0.01, 0.5, 1.0, 3.0, 9.0)]
    assert all(a > b for a, b in pairwise(fallen))


def test_a_table_far_from_the_ideal_is_noticed():
    table = noise_table(Decimal(0), Decimal("0.02"), 60, 192)
    assert table_deviation(table, Fraction(25)) < Fraction(1, 2**60)
    assert table_deviation((*table[:-1], table[-1] * 2), Fraction(25)) > Fraction(1, 2)  # the tail
    assert table_deviation((table[0] + (1 << 164), *table[1:]), Fraction(25)) > Fraction(1, 2**30)
    assert table_deviation(table, Fraction(26)) > Fraction(1, 100)
    coarse = noise_table(Decimal(0), Decimal("0.02"), 30, 16)
    assert table_deviation(coarse, Fraction(25)) > Fraction(1, 2**10)


# Mutants -------------------------------------------------------------------------------------------------------------


def one_sided(self, reports, values, tape, rows):
    plain(self, reports, values, tape, rows)
    reports["value"] = np.maximum(reports["value"], 1)


def off_by_one(self, reports, values, tape, rows):
    plain(self, reports, values, tape, rows)
    reports["value"] = np.minimum(reports["value"] + 1, self.law.shape[1] - 1)


def unstretched(self, reports, values, tape, rows):
    plain(self, reports, values * self.law.stretch, tape, rows)


def unrounded(self, reports, values, tape, rows):
    plain(self, reports, np.sign(values), tape, rows)


plain = Additive.fill


@pytest.mark.parametrize("mutant", [one_sided, off_by_one, unstretched, unrounded])
def test_mutants_of_the_report_are_killed(mutant, monkeypatch):
    monkeypatch.setattr(Additive, "fill", mutant)

    def check_all() -> None:
        for mechanism, bits in SHORT:
            check_reports(mechanism, bits, (-1.0, 0.3, 1.0))

    with pytest.raises(AssertionError):
        check_all()
