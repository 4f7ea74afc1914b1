"""The square wave of an estimated quantile: its table, its exact law, and what the reports of two phases tell."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import dither
from dither import QuantileWave, SquareWave
from dither.core.cumulative_estimate import Thresholds
from dither.errors import ParameterError
from dither.mechanisms import load
from dither.mechanisms.wave_phases import WHOLE, QuantileScale, WavePhase, heard_in, smooth_shares
from dither.testing import check_mechanism

CROWDED = (0, 7, 40, 1000, 1 << 19, WHOLE)


def exact(scale: QuantileScale, value: Fraction) -> Fraction:
    """Where a value from 0 to 1 is on the lattice, by the definition."""
    cuts = [Fraction(cut, WHOLE) for cut in scale.cuts]
    stretch = max(i for i, cut in enumerate(cuts[:-1]) if cut <= value)
    return (stretch + (value - cuts[stretch]) / (cuts[stretch + 1] - cuts[stretch])) / scale.stretches


@pytest.mark.parametrize("cuts", [(0, WHOLE), CROWDED, (0, 1, 2, WHOLE), (0, WHOLE - 1, WHOLE)])
def test_devices_place_values_by_whole_numbers(cuts):
    scale = QuantileScale.checked(cuts)
    values = [Fraction(k, 64) for k in range(65)] + [Fraction(cut, WHOLE) for cut in cuts]
    values += [Fraction(cut, WHOLE) + Fraction(3, 1 << 38) for cut in cuts[:-1]]
    placed = scale.exact_place(np.array([float(2 * value - 1) for value in values]))
    for value, place in zip(values, placed, strict=True):
        apart = exact(scale, value) - (Fraction(place) + 1) / 2
        assert 0 <= apart + Fraction(1, 1 << 40) <= Fraction(1, (1 << 20) * scale.stretches) + Fraction(1, 1 << 39)
    order = np.argsort([float(value) for value in values], kind="stable")
    assert (np.diff(placed[order]) >= 0).all()
    assert scale.exact_place(np.array([-1.0, 1.0])).tolist() == [-1.0, 1.0]
    np.testing.assert_allclose(scale.value(scale.place(np.linspace(0, 1, 97))), np.linspace(0, 1, 97), atol=1e-9)


def test_cuts_follow_a_curve_and_always_rise():
    at = np.linspace(0, 1, 101)
    even = QuantileScale.of_curve(at, at, 4)
    assert even.cuts == (0, WHOLE // 4, WHOLE // 2, 3 * WHOLE // 4, WHOLE)
    for below in (np.where(at > 0, 1.0, 0.0), np.where(at < 1, 0.0, 1.0)):  # everybody at one end
        cuts = QuantileScale.of_curve(at, below, 32).cuts
        assert len(cuts) == 33
        assert all(low < high for low, high in pairwise(cuts))
    for wrong in ((0,), (0, 5), (1, WHOLE), (0, 9, 9, WHOLE), (0, 9, 4, WHOLE), "abc", (0, 0.5, WHOLE)):
        with pytest.raises(ParameterError):
            QuantileWave(1.0, wrong)  # type: ignore[arg-type]


def test_a_table_changes_nothing_about_the_contract():
    """Sampler, channel and certificate by enumeration, with a table: the law of a report is that of its place."""
    checks = [
        "certificate",
        "channel",
        "outputs",
        "lanes",
        "stored",
        "budgets",
        "values",
        "reports",
        "tallies",
        "merging",
    ]
    check_mechanism(QuantileWave, examples=[{"epsilon": 1.0, "quantiles": CROWDED}], only=checks)
    mechanism = QuantileWave(1.0, CROWDED)
    assert mechanism.guarantee == SquareWave(1.0).guarantee
    assert load(mechanism.to_dict()) == mechanism
    assert replace(mechanism, quantiles=(0, WHOLE)).weights == mechanism.weights


def test_reports_are_those_of_the_plain_wave_at_the_place():
    """With the same words of randomness, row by row."""
    from dither.core.randomness import Stream

    mechanism, plain = QuantileWave(1.0, CROWDED), QuantileWave(1.0)
    values = np.random.default_rng(2).uniform(-1, 1, 2000)
    tape = Stream.seeded(1, "test")
    ours = mechanism.drawn(values, tape)
    assert (ours == plain.drawn(mechanism.scale.exact_place(values), tape)).all()
    assert (ours != plain.drawn(values, tape)).any()  # a mutant that forgets the table


def test_the_law_of_cells_is_that_of_the_mechanism():
    """Phases with tables: the probability of outputs for a cell, against the exact channel, point by point."""
    mechanism = QuantileWave(1.0, CROWDED)
    phase = WavePhase(mechanism.window, np.zeros(mechanism.window.law.outputs, dtype=np.int64), mechanism.scale)
    edges = np.array([0.0, 1e-5, 0.2, 0.21, 1.0])
    law = phase.law(edges[:-1], edges[1:], 1 << 20)
    np.testing.assert_allclose(law.sum(axis=0), 1.0, atol=1e-12)
    matrix = mechanism.channel().matrix().astype(float)
    for cell in range(4):
        points = edges[cell] + (np.arange(20_000) + 0.5) / 20_000 * (edges[cell + 1] - edges[cell])
        place = mechanism.scale.place(points) * mechanism.window.steps
        low = np.minimum(place.astype(int), mechanism.window.steps - 1)
        rows = (1 - (place - low))[:, None] * matrix[low] + (place - low)[:, None] * matrix[low + 1]
        np.testing.assert_allclose(rows.mean(axis=0), law[:, cell], atol=2e-6)


def heavy(users: int, seed: int) -> np.ndarray:
    return 2 * np.clip(np.exp(2 * np.random.default_rng(seed).normal(size=users)) / 500, 0, 1) - 1


def test_two_phases_find_the_people_in_a_heavy_tail():
    """Errors at quantiles are at most a third of those of one phase; they were .06 of it (benchmarks/phases.py)."""
    users = heavy(60_000, 1)
    first = QuantileWave(1.0)
    early = first.tally(first.randomize(users[:15_000], seed=1))
    second = first.after(early, 45_000)
    late = second.tally(second.randomize(users[15_000:], seed=2))
    cuts = second.learned_cuts()
    assert cuts is not None
    assert sum(cut < -0.98 for cut in cuts) > 12  # a hundredth of the domain, where four fifths are
    thresholds = Thresholds(tuple(np.quantile(users, np.arange(1, 16) / 16).tolist()))
    truth = np.arange(1, 16) / 16
    both = second.estimate(late, replace(second.cumulative_reading(thresholds), earlier=((first, early),)))
    once = first.estimate(first.tally(first.randomize(users, seed=3)), first.cumulative_reading(thresholds))
    error = [float(np.sqrt(np.mean((each.value - truth) ** 2))) for each in (both, once)]
    assert both.n == 60_000
    assert error[0] < error[1] / 3
    low, high = both.interval(0.9999)
    assert ((low <= truth) & (truth <= high)).all()
    bins = second.estimate(late, replace(second.bin_reading(thresholds), earlier=((first, early),)))
    np.testing.assert_allclose(bins.value, np.diff(np.concatenate([[0], both.value, [1]])), atol=1e-9)


def test_without_a_table_it_reads_as_the_square_wave_does():
    users = np.random.default_rng(3).beta(2, 5, 20_000) * 2 - 1
    wave, plain = SquareWave(1.0), QuantileWave(1.0)
    assert wave.weights == plain.weights
    tally = plain.tally(plain.randomize(users, seed=1))
    thresholds = Thresholds.of_cells(32)
    ours = plain.estimate(tally, plain.cumulative_reading(thresholds))
    theirs = wave.cumulative_reading(thresholds).estimate(tally, wave.guarantee, "")
    np.testing.assert_allclose(ours.value, theirs.value, atol=1e-12)
    np.testing.assert_allclose(ours.stderr, theirs.stderr, atol=1e-12)


def test_places_of_whole_numbers_are_known_in_both_phases():
    users = np.random.default_rng(4).binomial(9, 0.3, 40_000)
    thresholds = Thresholds.between_places(10)
    values = 2 * users / 9 - 1
    first = QuantileWave(2.0)
    early = first.tally(first.randomize(values[:10_000], seed=1))
    second = first.after(early, 30_000)
    late = second.tally(second.randomize(values[10_000:], seed=2))
    found = second.estimate(late, replace(second.bin_reading(thresholds), earlier=((first, early),)))
    assert found.value.shape == (10,)
    assert np.abs(found.value - np.bincount(users, minlength=10) / 40_000).max() < 0.05


def test_no_reports_tell_nothing():
    first = QuantileWave(1.0)
    nothing = first.tally(first.randomize([]))
    assert first.after(nothing, 100) is first
    early = first.tally(first.randomize(np.zeros(2000), seed=1))
    phases = [WavePhase(first.window, nothing.counts), WavePhase(first.window, early.counts)]
    assert heard_in(phases, np.zeros(1), np.ones(1)).n == 2000
    assert smooth_shares(phases, np.array([0.0, 0.5, 1.0]), 2000).value.sum() == pytest.approx(1.0)


def test_it_is_planned_only_where_there_is_a_next_phase():
    schema = dither.Schema({"x": dither.Numeric(0, 1)})
    once = dither.plan(schema, 1.0, users=10_000, ask=["cumulative(x)", "distribution(x)"])
    assert not any(isinstance(part.mechanism, QuantileWave) for part in once.parts)
    twice = dither.plan(schema, 1.0, users=10_000, ask=["cumulative(x)", "distribution(x)"], phases=2)
    assert all(isinstance(part.mechanism, QuantileWave) for part in twice.parts)
