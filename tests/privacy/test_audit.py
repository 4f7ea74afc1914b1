"""Audits: bounds that hold, adversaries that find what is broken, and nothing found where nothing is.

Every audit of a healthy mechanism here may raise a false alarm with a probability of at most 5e-9, so that all of them
together, fewer than 200, stay below 1e-6; seeds are fixed.
"""

from dataclasses import dataclass
from functools import cached_property
from math import comb, exp, log

import numpy as np
import pytest

import dither
from dither import (
    GRR,
    BallGaussian,
    Collision,
    CountMeanSketch,
    Gaussian,
    HadamardSketch,
    Hypercube,
    LocalHash,
    Personalised,
    Split,
    Unary,
)
from dither.core.channel import TwoLevel
from dither.core.guarantee import Guarantee
from dither.errors import ParameterError
from dither.mechanisms.hypercube import half_space
from dither.mechanisms.packing import as_bytes, coins
from dither.privacy.auditing import audit, audit_table
from dither.privacy.auditing.candidates import candidates, pairs
from dither.privacy.auditing.epsilon_bound import best_event, epsilon_below, wilson
from dither.privacy.auditing.features import feature_sets, fineness
from dither.privacy.auditing.likelihood import exact
from marks import one_in

SURE = 1 - 5e-9
EXAMPLES = [cls(**example) for cls in dither.registry.values() for example in cls.examples]


# The bound -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "q", "delta"), [(0.5, 0.5, 0.0), (0.9, 0.3, 0.0), (0.3, 0.02, 0.0), (0.4, 0.1, 0.1)])
def test_the_bound_is_too_high_as_seldom_as_it_says(p, q, delta):
    """All outcomes of twice 40 trials, with their probabilities."""
    n, confidence = 40, 0.9
    law = [[comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n + 1)] for share in (p, q)]
    truth = log((p - delta) / q)
    wrong = sum(
        law[0][a] * law[1][b]
        for a in range(n + 1)
        for b in range(n + 1)
        if epsilon_below(a, b, n, confidence, delta) > truth
    )
    assert wrong <= 1 - confidence


def test_bounds_at_the_edges():
    assert epsilon_below(0, 0, 100, 0.99) == 0.0
    assert epsilon_below(100, 100, 100, 0.99) == 0.0
    assert epsilon_below(50, 0, 100, 0.99, delta=0.9) == 0.0
    # Never seen in n trials: the share is below 1 - tail^(1/n); always seen: above tail^(1/n).
    tail, n = 0.005, 1000
    assert epsilon_below(n, 0, n, 0.99) == pytest.approx(log(tail ** (1 / n) / (1 - tail ** (1 / n))), rel=1e-9)


def test_wilson_surrounds_the_share():
    share = np.linspace(0, 1, 11)
    assert (wilson(share, 50, -2.0) <= share + 1e-15).all()
    assert (wilson(share, 50, 2.0) >= share - 1e-15).all()


def test_the_best_event_is_neither_the_likeliest_nor_the_rarest():
    rng = np.random.default_rng(1)
    # Score 2 has the ratio e, score 1 has 1.5, score 3 was seen three times under the first input, by luck.
    ours = np.concatenate([rng.choice(3, 20_000, p=[0.5, 0.2, 0.3]), [3.0] * 3])
    theirs = rng.choice(3, 20_003, p=[1 - 0.2 / 1.5 - 0.3 / exp(1), 0.2 / 1.5, 0.3 / exp(1)])
    event = best_event(ours.astype(float), theirs.astype(float), 100_000, 0.99)
    assert (event.cut, event.above, event.first) == (2.0, True, True)
    assert 0.9 < event.promise < 1.0


# What adversaries see ------------------------------------------------------------------------------------------------


def test_fineness_is_the_lowest_binary_digit():
    numbers = np.array([0.0, 1.0, -1.0, 3.0, 0.5, 1 + 2.0**-52, 2.0**-1074, 1e308, 12.0])
    assert fineness(numbers).tolist()[:6] == [0, 1100, 1100, 1100, 1101, 1152]
    assert fineness(numbers)[-1] == 1098
    assert ((fineness(numbers) >= 0) & (fineness(numbers) < 2200)).all()


@pytest.mark.parametrize(
    "mechanism",
    [GRR(5, 1.0), Unary(30, 1.0), LocalHash(20, 1.0), LocalHash(5, 1.0, cohorts=7), Collision(3, 2, 1.0)],
    ids=repr,
)
def test_the_exact_likelihood_has_the_ratio_of_the_certificate(mechanism):
    found = candidates(mechanism)
    one, other = (each for each in found[:2])
    assert one.number is not None
    assert other.number is not None
    reports = [np.asarray(mechanism.randomize(np.repeat(x.row, 4000, axis=0), seed=1)) for x in (one, other)]
    sample = np.concatenate(reports)
    channel = mechanism.channel()
    g = channel.component.shape[1] if hasattr(channel, "component") else 2
    seen = list(feature_sets(sample, (one.row[0], other.row[0]), mechanism.reading.domain, g))
    scores = list(exact(mechanism, (one.number, other.number), seen, sample))
    assert scores
    assert max(score(sample).max() for score in scores) == pytest.approx(mechanism.epsilon, abs=1e-6)
    assert min(score(sample).min() for score in scores) == pytest.approx(-mechanism.epsilon, abs=1e-6)


def test_pairs_stay_within_their_group():
    found = candidates(Personalised("Duchi", {"careful": 0.5, "generous": 2.0}))
    assert {each.group for each in found} == {0, 1}
    assert all(found[i].group == found[j].group for i, j in pairs(found))


def test_opposite_corners_are_among_the_candidates():
    shown = [str(each) for each in candidates(Split("Piecewise", 3, 3.0))]
    assert {"[-1.0, -1.0, -1.0]", "[1.0, 1.0, 1.0]"} <= set(shown)


def test_gaussian_noise_is_seen_along_the_difference_of_the_inputs():
    mechanism = BallGaussian(3, 2.0, 1e-2)
    one, other = np.array([0.6, -0.8, 0.0]), np.array([-0.6, 0.8, 0.0])
    reports = np.asarray(mechanism.randomize(np.repeat([one, other], 500, axis=0), seed=1))
    (view,) = (
        view for view in feature_sets(reports, (one, other), mechanism.reading.domain) if "difference" in view.words
    )
    assert view.levels is not None
    scores = view.levels[view.letters[0].read(reports)]
    # The logarithm of the ratio of two Gaussians, but for a factor and a constant.
    exact = (reports["value"].astype(float) - mechanism.law.most) @ (one - other)
    assert np.corrcoef(scores, exact)[0, 1] > 1 - 1e-9
    assert not [
        view for view in feature_sets(reports, (one, one), mechanism.reading.domain) if "difference" in view.words
    ]


# Healthy mechanisms --------------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_no_certificate_is_refuted(mechanism):
    found = audit(mechanism, 40_000, SURE, seed=1)
    assert found.passed, str(found)
    assert found.trials <= 40_000


@pytest.mark.parametrize("name", one_in(5, dither.registry))
def test_the_attack_is_strong(name):
    """A quarter of a million reports prove seven tenths of what is certified; `make audit` asks for nine tenths."""
    cls = dither.registry[name]
    example = {**cls.examples[0], "epsilon": 2.0}
    if "first" in example:  # with memory, attacked over many rounds
        example["first"] = 1.5
    if name == "Personalised":
        example = {**cls.examples[0], "groups": {"careful": 0.5, "generous": 2.0}}
    if name in ("Gaussian", "BallGaussian", "OneHotGaussian"):
        example["delta"] = 1e-2
    found = audit(cls(**example), 250_000, SURE, seed=2)
    assert found.passed, str(found)
    assert found.fraction > 0.7, str(found)


# Broken ones ---------------------------------------------------------------------------------------------------------


class NeverClears(Unary):
    """RAPPOR that sets the bit of the true category and never clears it."""

    def _fill(self, reports, values, tape, rows):
        target, row = as_bytes(reports), np.arange(len(values))
        target[:] = coins(self.reading.q, self.k, tape, rows)
        target[row, values // 8] |= np.uint8(1) << (values % 8).astype(np.uint8)


class AsPrinted(Hypercube):
    """002 Mechanism-1 with delta for each corner, as printed; the half-space then has C_d times as much."""

    @cached_property
    def law(self):
        size, corners = half_space(self.d), 1 << self.d
        return TwoLevel.fit(self.epsilon, self.delta, favoured=size, outputs=corners, weights=self.weights)

    @cached_property
    def guarantee(self):
        return Guarantee(self.epsilon, self.delta)


@dataclass(frozen=True)
class FloatLaplace:
    """Laplace noise as textbooks write it: a float is added, and the sum is reported."""

    epsilon: float = 1.0

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon)

    def inputs(self) -> np.ndarray:
        return np.array([-1.0, 0.0, 1.0])

    def randomize(self, values, *, seed=None):
        return values + np.random.default_rng(seed).laplace(scale=2 / self.epsilon, size=len(values))


class TellingTag(LocalHash):
    """A hash function that was drawn again until the bucket pleased: its seed depends on the value."""

    def _fill(self, reports, values, tape, rows):
        super()._fill(reports, values, tape, rows)
        reports["seed"] = reports["seed"] & ~np.uint64(1) | (values % 2).astype(np.uint64)


class OneBadCategory(GRR):
    """Right for all categories but the last, which is sent as it is."""

    def _fill(self, reports, values, tape, rows):
        super()._fill(reports, values, tape, rows)
        reports["value"][values == self.k - 1] = self.k - 1


class DoubleBudget(GRR):
    """Certified at epsilon, sampled at twice as much."""

    def _fill(self, reports, values, tape, rows):
        GRR(self.k, 2 * self.epsilon)._fill(reports, values, tape, rows)


class NeverClearsItsBucket(CountMeanSketch):
    """A count-mean sketch that sets the bit of the value's bucket and never clears it."""

    def _fill_bucket(self, reports, bucket, tape, rows):
        super()._fill_bucket(reports, bucket, tape, rows)
        words = np.ascontiguousarray(reports["bits"])
        target, row = words.view(np.uint8).reshape(len(reports), -1), np.arange(len(reports))
        target[row, (bucket // 8).astype(int)] |= np.uint8(1) << (bucket % 8).astype(np.uint8)
        reports["bits"] = words


class TwiceTheSign(HadamardSketch):
    """A Hadamard sketch certified at epsilon, whose sign is told at twice as much."""

    def _fill_bucket(self, reports, bucket, tape, rows):
        HadamardSketch(self.k, 2 * self.epsilon, self.g, self.cohorts)._fill_bucket(reports, bucket, tape, rows)


@dataclass(frozen=True)
class Forgetful:
    """Says to keep a permanent response with an epsilon of 2 for ever, and draws it anew at every call.

    Each report by itself is as it should be: that of randomized response with `first`.
    """

    k: int = 4
    first: float = 1.0

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(2.0)

    @property
    def reading(self):
        return GRR(self.k, self.first).reading

    def inputs(self) -> np.ndarray:
        return np.arange(self.k)

    def permanent(self, values, *, seed=None):
        return values

    def instantaneous(self, permanent, *, seed=None):
        return GRR(self.k, self.first).randomize(permanent, seed=seed)

    def randomize(self, values, *, seed=None):
        return self.instantaneous(values, seed=seed)


# What is broken, and the number of trials within which it is found (docs/audit.md says how surely).
BROKEN = [
    (NeverClears(16, 1.0), 5_000),
    (FloatLaplace(), 20_000),
    (TellingTag(16, 1.0), 5_000),
    (OneBadCategory(16, 1.0), 5_000),
    (DoubleBudget(4, 1.0), 5_000),
    (NeverClearsItsBucket(16, 1.0, g=64, cohorts=512), 10_000),
    (TwiceTheSign(16, 1.0, g=64, cohorts=512), 10_000),
    (Forgetful(), 10_000),
    (AsPrinted(8, 1.0, 1e-3), 400_000),
]


@pytest.mark.parametrize(("mechanism", "trials"), BROKEN, ids=lambda each: type(each).__name__)
def test_what_is_broken_is_found(mechanism, trials):
    for seed in range(5):
        found = audit(mechanism, trials, 1 - 1e-6, seed=seed)
        assert not found.passed, str(found)
        assert "REFUTED" in str(found)


def test_float_noise_is_found_by_its_digits():
    found = audit(FloatLaplace(), 20_000, 1 - 1e-6, seed=1)
    assert "last binary digit" in found.event
    assert "0.0" in found.pair
    assert found.seen[1] == 0  # impossible under the other input
    assert found.epsilon > 3


def test_one_round_does_not_tell_who_forgets():
    assert audit(Forgetful(), 20_000, SURE, rounds=1, seed=1).passed
    with pytest.raises(ParameterError, match="memory"):
        audit(GRR(4, 1.0), 20_000, rounds=2)


@pytest.mark.wide
@pytest.mark.parametrize("name", ["LGRR", "LHash", "LUnary"])
def test_who_remembers_keeps_the_promise_for_ever(name):
    longitudinal = pytest.importorskip("dither.mechanisms.longitudinal")
    found = audit(getattr(longitudinal, name)(k=6, epsilon=2.0, first=1.5), 60_000, SURE, seed=1)
    assert found.passed, str(found)
    assert found.epsilon > 1.6  # more than a single report tells


# The call ------------------------------------------------------------------------------------------------------------


def test_an_audit_can_be_repeated():
    one, same, other = (audit(GRR(4, 1.0), 20_000, seed=seed) for seed in (3, 3, 4))
    assert one == same
    assert one != other


def test_an_audit_runs_on_the_randomness_of_production():
    one, other = (audit(GRR(4, 1.0), 20_000, SURE) for _ in range(2))
    assert one.passed
    assert other.passed
    assert one.seen != other.seen or one.pair != other.pair


def test_progress_wraps_the_chunks():
    seen = []

    def bar(chunks):
        for chunk in chunks:
            seen.append(chunk)
            yield chunk

    assert audit(GRR(4, 1.0), 1_000_000, SURE, seed=1, progress=bar).reports > 2 * (1 << 17)
    assert seen == [0, 1, 2]


@pytest.mark.parametrize(
    ("trials", "confidence"), [(10, 0.99), (1e6, 0.99), (10_000, 1.0), (10_000, 0.2), (10_000, "x")]
)
def test_bad_parameters_are_refused(trials, confidence):
    with pytest.raises(ParameterError):
        audit(GRR(4, 1.0), trials, confidence)


def test_tables_show_certificate_and_audit_side_by_side():
    table = str(audit_table([GRR(4, 1.0), Gaussian(1.0, 0.01), DoubleBudget(4, 1.0)], 20_000, SURE, seed=1))
    assert table.count("stands") == 2
    assert table.count("REFUTED") == 1
    assert "epsilon 1, delta 0.01 (exact)" in table


def test_too_few_trials_for_so_many_inputs_are_refused():
    # Nothing was left for the proof, and the certificate "stood".
    groups = {f"g{number}": 1 + number / 100 for number in range(20)}
    with pytest.raises(ParameterError, match="give at least"):
        audit(Personalised("Duchi", groups), trials=1000, seed=1)
