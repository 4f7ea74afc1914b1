"""Broken on purpose: each mutant changes the code the way a tired programmer might, and the contract must notice.

A mutant is a patch and the check that has to fail under it. Before, the same check passes on the same mechanism (the
contract suite runs it), so a failure here would mean that the check is blind.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dither
from dither import testing as checks
from dither.core import draw, mechanism
from dither.core.channel import TwoLevel
from dither.mechanisms import grr, hadamard, heavy_hitters, localhash, packing, projective_geometry, sketches, subset
from dither.mechanisms import hash_seeds as functions
from dither.mechanisms.frequency import Frequencies
from dither.mechanisms.packing import as_bytes

GRR = dither.GRR(k=4, epsilon=1.0)
HADAMARD = dither.Hadamard(k=3, epsilon=1.0)
PROJECTIVE = dither.ProjectiveGeometry(k=7, epsilon=1.0, q=2)
HASH = dither.LocalHash(k=5, epsilon=1.0, cohorts=7)
COUNT_MEAN = dither.CountMeanSketch(k=7, epsilon=0.5, g=3, cohorts=4)
HADAMARD_SKETCH = dither.HadamardSketch(k=4, epsilon=0.5, g=2, cohorts=7)
WORDS = dither.HeavyHitters(**dither.HeavyHitters.examples[0])
SUBSET = dither.SubsetSelection(k=4, epsilon=0.2)
UNARY = dither.Unary(k=3, epsilon=1.0)
MODULES = {
    "GRR": grr,
    "Hadamard": hadamard,
    "HadamardSketch": sketches,
    "HeavyHitters": heavy_hitters,
    "LocalHash": localhash,
    "ProjectiveGeometry": projective_geometry,
}

one_word = pytest.mark.parametrize(
    "victim", [GRR, HADAMARD, HASH, PROJECTIVE, HADAMARD_SKETCH, WORDS], ids=checks.label
)


def caught(check: Any, victim: Any) -> bool:
    """Whether the check fails on the victim as it is now."""
    try:
        check(victim)
    except AssertionError:
        return True
    return False


def swap_sampler(monkeypatch, victim, change) -> None:
    """Let the victim's sampler draw from a changed law; certificate and estimator keep the right one."""
    real = draw.positions
    module = MODULES[type(victim).__name__]
    monkeypatch.setattr(module, "positions", lambda law, tape, rows: real(change(law), tape, rows))


@one_word
def test_p_off_by_one_per_cent(monkeypatch, victim):
    swap_sampler(monkeypatch, victim, lambda law: replace(law, high=law.high - law.high // 100))
    assert caught(checks.check_sampler, victim)


@one_word
def test_swapped_weights(monkeypatch, victim):
    swap_sampler(monkeypatch, victim, lambda law: replace(law, high=law.low, low=law.high))
    assert caught(checks.check_sampler, victim)
    assert caught(checks.check_plumbing, victim)


@one_word
def test_no_rejection(monkeypatch, victim):
    # Every word is taken as it comes: the words past the last full round fall on the last output.
    def settled(place, tape, rows, width, lane):
        return np.minimum(place(tape.words(lane, rows, width), slice(None))[0], 3)

    monkeypatch.setattr(draw, "rejection_sampled", settled)
    assert caught(checks.check_sampler, victim)


def test_biased_uniform(monkeypatch):
    def modulo(bound, tape, rows, *, lane, width=1):
        return tape.words(lane, rows)[:, 0] % np.uint64(bound)

    monkeypatch.setattr(functions, "below", modulo)  # the cohort of a report
    assert caught(checks.check_sampler, HASH)


def test_strict_edge(monkeypatch):
    # u <= edge instead of u < edge: one word in 2^12 on the wrong side.
    def positions(law, tape, rows):
        u = tape.words(draw.DRAW, rows)[:, 0]
        scale = (1 << tape.bits) // law.total
        high, low = np.uint64(law.high * scale), np.uint64(law.low * scale)
        return np.where(
            u <= high, np.uint64(0), np.minimum((u - high) // low + np.uint64(1), np.uint64(law.outputs - 1))
        )

    monkeypatch.setattr(grr, "positions", positions)
    assert caught(checks.check_sampler, GRR)


def test_certificate_of_another_law(monkeypatch):
    # The certificate reads other integers than the sampler.
    victim = dither.GRR(k=4, epsilon=1.0)
    monkeypatch.setattr(dither.GRR, "channel", lambda self: replace(self.law, high=self.law.high - 1))
    assert caught(checks.check_sampler, victim)


@pytest.mark.parametrize("victim", [GRR, HADAMARD, SUBSET, PROJECTIVE], ids=checks.label)
def test_estimator_with_a_wrong_p(victim):
    right = victim.reading
    mutant = replace(victim)
    vars(mutant)["reading"] = Frequencies(right.k, right.p * Fraction(99, 100), right.q, right.supports)
    assert caught(checks.check_estimator, mutant)


@pytest.mark.parametrize("victim", [GRR, UNARY, SUBSET], ids=checks.label)
def test_small_frequency_approximation_of_the_variance(monkeypatch, victim):
    real = Frequencies.variance
    monkeypatch.setattr(Frequencies, "variance", lambda self, f: real(self, np.zeros_like(f)))
    assert caught(checks.check_estimator, victim)


def test_standard_errors_too_small(monkeypatch):
    real = Frequencies.variance
    monkeypatch.setattr(Frequencies, "variance", lambda self, f: real(self, f) * 0.7)
    values = np.repeat(np.arange(4), [500, 300, 100, 100])
    with pytest.raises(AssertionError):
        checks.check_coverage(GRR, values, collections=6000, seed=11)


def test_coins_that_read_their_digits_backwards(monkeypatch):
    real = packing.digits
    monkeypatch.setattr(packing, "digits", lambda q: real(q)[::-1])
    assert caught(checks.check_sampler, dither.Unary(k=3, epsilon=1.0))


def test_a_true_bit_that_is_never_cleared(monkeypatch):
    # A published library does this to its RAPPOR: the true bit may only be set, never cleared.
    def fill(self, reports, values, tape, rows):
        target = as_bytes(reports)
        target[:] = packing.coins(self.reading.q, self.k, tape, rows)
        target[np.arange(len(values)), values // 8] |= np.uint8(1) << (values % 8).astype(np.uint8)

    monkeypatch.setattr(dither.Unary, "_fill", fill)
    assert caught(checks.check_sampler, UNARY)


def test_coins_that_read_the_same_word_for_every_digit(monkeypatch):
    one_lane = lambda digits, start: ((start, digit) for digit in digits)  # noqa: E731
    monkeypatch.setattr(packing, "enumerate", one_lane, raising=False)
    assert caught(checks.check_sampler, UNARY)
    assert caught(checks.check_plumbing, UNARY)


def test_subsets_without_rejection(monkeypatch):
    def settled(place, tape, rows, width, lane):
        return place(tape.words(lane, rows, width), slice(None))[0]

    monkeypatch.setattr(subset, "rejection_sampled", settled)
    assert caught(checks.check_sampler, SUBSET)


def test_subset_sides_swapped(monkeypatch):
    monkeypatch.setattr(subset, "sides", lambda law, tape, rows: ~draw.sides(law, tape, rows))
    assert caught(checks.check_sampler, SUBSET)


def test_hadamard_parity_flipped(monkeypatch):
    real = hadamard.code_at
    monkeypatch.setattr(hadamard, "code_at", lambda row, index, odd: real(row, index, ~odd))
    assert caught(checks.check_sampler, HADAMARD)


def test_a_value_that_is_sent_in_clear(monkeypatch):
    def fill(self, reports, values, tape, rows):
        reports["value"] = values

    monkeypatch.setattr(dither.GRR, "_fill", fill)
    assert caught(checks.check_sampler, GRR)


def test_integers_one_per_cent_too_strong():
    assert GRR.weights is not None
    law = TwoLevel.fit(1.0, favoured=1, outputs=4, weights=(GRR.weights[0] * 101 // 100, GRR.weights[1]))
    mutant = replace(GRR)
    vars(mutant)["law"] = law
    vars(mutant).pop("guarantee", None)
    assert caught(checks.check_certificate, mutant)


def test_a_structure_that_understates(monkeypatch):
    # Half the true divergence: enumeration refuses the certificate.
    victim, real = dither.GRR(k=5, epsilon=2.0, delta=1e-3), TwoLevel.divergence
    monkeypatch.setattr(TwoLevel, "divergence", lambda self, ratio: real(self, ratio) / 2)
    with pytest.raises(dither.DitherError, match="enumeration contradicts"):
        dither.privacy.certify(victim)
    assert caught(checks.check_channel, victim)


def test_a_tally_that_loses_a_report(monkeypatch):
    real = mechanism.sum_chunks
    monkeypatch.setattr(mechanism, "sum_chunks", lambda work, rows, chunk: real(work, rows - (rows > 500), chunk))
    assert caught(checks.check_merging, GRR)


def test_bit_counts_off_by_one_column(monkeypatch):
    real = packing.kernels.bit_counts
    monkeypatch.setattr(packing.kernels, "bit_counts", lambda packed, k: np.roll(real(packed, k), 1))
    assert caught(checks.check_estimator, UNARY)


@pytest.mark.parametrize("victim", [COUNT_MEAN, HADAMARD_SKETCH], ids=checks.label)
def test_a_sketch_that_hashes_by_another_function_than_it_names(monkeypatch, victim):
    real = sketches.buckets
    monkeypatch.setattr(
        sketches, "buckets", lambda seeds, values, g: real(seeds + np.uint64(len(seeds) > 1), values, g)
    )
    assert caught(checks.check_sampler, victim)


def test_a_sign_of_another_row_than_is_named(monkeypatch):
    real = sketches.code_at
    monkeypatch.setattr(sketches, "code_at", lambda row, index, odd: real(row, index, odd) ^ np.uint64(2))
    assert caught(checks.check_sampler, HADAMARD_SKETCH)


def test_bits_that_are_flipped_as_if_all_of_epsilon_were_for_each(monkeypatch):
    real = sketches.CountMeanSketch._fill_bucket

    def fill(self, reports, bucket, tape, rows):
        high, low, short, whole = self.weights
        generous = replace(self, epsilon=9.0, weights=(high + low // 2, low - low // 2, short, whole))
        real(generous, reports, bucket, tape, rows)

    monkeypatch.setattr(sketches.CountMeanSketch, "_fill_bucket", fill)
    assert caught(checks.check_sampler, COUNT_MEAN)


def test_bits_counted_for_the_next_function(monkeypatch):
    real = sketches._HashedBits.count

    def count(self, reports):
        counts = real(self, reports)
        counts[:, 1:] = np.roll(counts[:, 1:], 1, axis=0)
        return counts

    monkeypatch.setattr(sketches._HashedBits, "count", count)
    assert caught(checks.check_tallies, COUNT_MEAN)


def test_a_bucket_that_is_read_one_row_off(monkeypatch):
    real = sketches.HadamardSketch._bucket_supports
    monkeypatch.setattr(
        sketches.HadamardSketch, "_bucket_supports", lambda self, counts: np.roll(real(self, counts), 1, axis=1)
    )
    victim = dither.HadamardSketch(k=5, epsilon=1.0, g=4, cohorts=3)  # a reading of its own
    values = np.zeros(2000, dtype=np.int64)
    estimate = victim.estimate(victim.tally(victim.randomize(values, seed=1)))
    assert abs(estimate.value[0] - 1) > 6 * estimate.stderr[0]


def test_a_level_that_is_chosen_by_the_word(monkeypatch):
    """As if only levels were asked at which the word is whole: the function would tell how long it is."""
    real = heavy_hitters.HeavyHitters._fill

    def fill(self, reports, values, tape, rows):
        real(self, reports, values, tape, rows)
        reports["function"] = np.where(np.char.str_len(values) > 1, 2, reports["function"])

    monkeypatch.setattr(heavy_hitters.HeavyHitters, "_fill", fill)
    assert caught(checks.check_sampler, WORDS)


def test_short_words_that_are_taken_for_none(monkeypatch):
    real = heavy_hitters.HeavyHitters._fill

    def fill(self, reports, values, tape, rows):
        real(self, reports, np.where(np.char.str_len(values) > 1, values, b""), tape, rows)

    monkeypatch.setattr(heavy_hitters.HeavyHitters, "_fill", fill)
    assert caught(checks.check_sampler, WORDS)


def test_noise_that_depends_on_the_cut(monkeypatch):
    real = mechanism.Mechanism.drawn

    def drawn(self, values, tape):
        reports = real(self, values, tape)
        return reports if len(values) < 3000 else np.roll(reports, 1)

    monkeypatch.setattr(mechanism.Mechanism, "drawn", drawn)
    assert caught(checks.check_merging, GRR)
