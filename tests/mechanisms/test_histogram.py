"""One-hot vectors beyond the contract: two entries differ, the budget is for both, and frequencies are unbiased."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import dither
from dither import Duchi, Gaussian, Histogram, OneHotGaussian, Piecewise, Sampled, Split
from dither import testing as checks
from dither.core.additive_channel import AdditiveChannel
from dither.core.channel import Table, hockey_stick
from dither.core.domains import Categories
from dither.core.exact import exp_below
from dither.core.workload import Workload
from dither.errors import ParameterError, ReportError
from dither.mechanisms import histogram, noise_tables
from dither.mechanisms.noise_tables import analytic_sigma

BASES = ("Duchi", "Piecewise", "SquareWave", "Laplace", "Hybrid")


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("k", [2, 3, 50])
def test_the_ratio_is_that_of_two_entries(base, k):
    mechanism = Histogram(base, k=k, epsilon=2.0)
    assert mechanism.entry.epsilon == 1.0
    assert mechanism.channel().ratio() == Fraction(mechanism.entry.channel().ratio()) ** 2
    assert 2.0 - 1e-9 <= mechanism.guarantee.epsilon <= 2.0
    assert mechanism.guarantee.established == "exact"


def test_two_inputs_differ_in_two_entries_and_no_more():
    for k in (2, 3, 5):
        mechanism = Histogram("Duchi", k=k, epsilon=1.0)
        encode = mechanism.channel().encode
        for x, y in product(range(k), repeat=2):
            assert sum(a != b for a, b in zip(encode(x), encode(y), strict=True)) == 2 * (x != y)
        table = Table.of([mechanism.channel().row(x) for x in range(k)])
        assert table.ratio() == mechanism.channel().ratio()
        for ratio in (Fraction(1), Fraction(3, 2), exp_below(1.0)):
            assert table.divergence(ratio) == mechanism.channel().divergence(ratio)
        assert mechanism.channel().blanket().mass <= table.blanket().mass


def test_the_delta_is_split_between_the_two():
    mechanism = Histogram("Duchi", k=4, epsilon=1.0, delta=1e-3)
    assert mechanism.entry.delta == 5e-4
    assert mechanism.entry.epsilon == 0.5
    assert mechanism.guarantee.established == "exact"
    assert 0 < mechanism.guarantee.delta <= 1e-3
    wide = Histogram("Gaussian", k=3, epsilon=1.0, delta=1e-4)  # hundreds of outputs, and all pairs of them
    assert wide.guarantee.established == "exact"
    assert 0 < wide.guarantee.delta <= 1e-4
    for base in ("Piecewise", "Laplace", "Hybrid"):
        with pytest.raises(ParameterError, match="has no delta"):
            Histogram(base, k=3, epsilon=1.0, delta=1e-3)


@pytest.mark.parametrize(
    "base",
    ["GRR(k=3)", "Unary(k=3)", "Histogram(base='Duchi', k=3)", "Hypercube(d=2)", "SampledDuchi(d=2)", "Nonsense", 3],
)
def test_an_entry_is_a_number(base):
    with pytest.raises(ParameterError):
        Histogram(base, k=3, epsilon=1.0)


def test_an_entry_of_several_numbers_is_refused():
    with pytest.raises(ParameterError):
        Histogram("Gaussian(d=2)", k=3, epsilon=1.0, delta=1e-3)


@pytest.mark.parametrize("base", BASES)
def test_frequencies_are_means_of_entries(base):
    # Exactly: the score of an entry has mean 2 f - 1, so that of (score + 1) / 2 is 1 at the value and 0 elsewhere.
    mechanism = Histogram(base, k=3, epsilon=4.0)
    entry: Any = mechanism.entry
    law = [np.array(entry.channel().row(x), dtype=float) for x in (0, entry.channel().shape[0] - 1)]
    scores = (entry.reading.scores + 1) / 2
    assert law[0] @ scores == pytest.approx(0.0, abs=1e-8)
    assert law[1] @ scores == pytest.approx(1.0, abs=1e-8)
    for own, row in enumerate(law):
        variance = row @ (scores - own) ** 2
        assert mechanism.moments([1]).variance[0, own] == pytest.approx(variance, rel=1e-8)
        assert float(mechanism.reading.variance(np.array([float(own)]))[0]) == pytest.approx(variance, rel=1e-8)
    # Unbiased in production, and with the error that is stated: 6.5 standard errors, false alarm 3e-10.
    values = np.repeat([0, 1, 2], [70_000, 20_000, 10_000])
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=3)))
    assert (np.abs(estimate.value - [0.7, 0.2, 0.1]) < 6.5 * estimate.stderr).all()
    true = (mechanism.moments(values).variance.mean(axis=0) / len(values)) ** 0.5
    np.testing.assert_allclose(estimate.stderr, true, rtol=1e-2)


def test_entries_are_independent_of_each_other():
    # Three entries of 60,000 users: 2-by-2 tables, |z| below 6.5 (false alarm 8e-11 each).
    mechanism = Histogram("Duchi", k=3, epsilon=2.0)
    bits = mechanism.randomize(np.full(60_000, 1), seed=2)["value"].astype(float)
    for a, b in ((0, 1), (1, 2), (0, 2)):
        assert abs(np.corrcoef(bits[:, a], bits[:, b])[0, 1]) * 60_000**0.5 < 6.5
        assert abs(np.corrcoef(bits[1:, a], bits[:-1, b])[0, 1]) * 60_000**0.5 < 6.5


def test_m_of_d_histograms_have_the_budget_of_000():
    for m in (1, 2, 3):
        mechanism = Sampled("Histogram(base='Piecewise', k=4)", d=3, m=m, epsilon=6.0)
        part = mechanism.part(0)
        assert isinstance(part, Histogram)
        assert part.entry == Piecewise(6.0 / (2 * m))  # epsilon / (2 m)
        assert mechanism.channel().ratio() == Fraction(part.entry.channel().ratio()) ** (2 * m)
        assert 6.0 - 1e-9 <= mechanism.guarantee.epsilon <= 6.0
    both = Split("Histogram(base='Duchi', k=3)", d=2, epsilon=4.0, delta=1e-3)
    entry: Any = both.part(1).entry  # type: ignore[attr-defined]
    assert entry.epsilon == 1.0
    assert entry.delta > 2.5e-4  # a half of a half, and what was left over
    assert 1e-3 * (1 - 2e-9) <= both.guarantee.delta <= 1e-3
    values = np.column_stack([np.tile([0, 1, 1, 2], 20_000), np.full(80_000, 2)])
    estimates: Any = both.estimate(both.tally(both.randomize(values, seed=1)))
    for j, truth in enumerate(([0.25, 0.5, 0.25], [0.0, 0.0, 1.0])):
        assert (np.abs(estimates[j].value - truth) < 6.5 * estimates[j].stderr).all()


def test_sampled_histograms_know_who_was_asked():
    # Half at one category, half at another; at a large epsilon what remains is who was asked: f (1 - f) (1 - share).
    mechanism = Sampled("Histogram(base='Duchi', k=2)", d=4, m=1, epsilon=30.0)
    values = np.tile([0, 1], 2000)[:, None].repeat(4, axis=1)
    estimates: Any = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=1)))
    for j in range(4):
        noise = float(mechanism.part(j).reading.variance(np.array([0.5]))[0])  # type: ignore[attr-defined]
        expected = (noise + 0.25 * (1 - estimates[j].n / 4000)) / estimates[j].n
        assert (estimates[j].stderr ** 2).tolist() == pytest.approx([expected] * 2, rel=0.02)


def test_stored_integers_and_forged_entries():
    mechanism = Histogram("Duchi", k=3, epsilon=1.0)
    assert mechanism.weights is not None
    high, low, *lattice = mechanism.weights
    assert Histogram("Duchi", k=3, epsilon=1.0, weights=mechanism.weights) == mechanism
    for weights in ((high * 101 // 100, low, *lattice), (high, low), (), 5, (high, low, 1, 0)):
        with pytest.raises(ParameterError):
            Histogram("Duchi", k=3, epsilon=1.0, weights=weights)  # type: ignore[arg-type]
    full = Duchi(1.0).weights  # the whole epsilon for an entry, where two differ
    with pytest.raises(ParameterError):
        Histogram("Duchi", k=3, epsilon=1.0, weights=full)
    reports = np.asarray(mechanism.randomize([0, 1, 2], seed=1)).copy()
    reports["value"][1, 2] = 2
    assert mechanism.valid(reports).tolist() == [True, False, True]
    with pytest.raises(ReportError, match="report 1 "):
        mechanism.tally(reports)


def test_reports_of_two_fields_make_entries_too():
    mechanism = Histogram("Hybrid", k=3, epsilon=4.0)
    reports = mechanism.randomize(np.tile([0, 1, 2], 100), seed=1)
    assert mechanism.valid(reports).all()
    assert mechanism.tally(reports).n == 300
    assert dither.privacy.certify(mechanism) == mechanism.guarantee
    checks.check_merging(mechanism)


# The optimal Gaussian ------------------------------------------------------------------------------------------------


def test_golden_variance_of_the_optimal_gaussian():
    """002 at epsilon 1 and delta 1e-6: Var/N 35.696; with half the budget for each entry it is nearly twice that."""
    mechanism = OneHotGaussian(k=10, epsilon=1.0, delta=1e-6)
    assert mechanism.reading.worst_variance() == pytest.approx(35.696, rel=5e-4)
    assert mechanism.moments([3]).variance[0] == pytest.approx([35.696] * 10, rel=5e-4)
    halved = Histogram("Gaussian", k=10, epsilon=1.0, delta=1e-6)
    assert halved.reading.worst_variance() == pytest.approx(69.7, rel=1e-3)


BUDGETS = [(0.02, 1e-6), (0.1, 1e-3), (0.5, 1e-6), (1.0, 1e-12), (1.0, 0.1), (2.0, 1e-6), (5.0, 1e-9), (20.0, 1e-3)]


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_noise_is_that_of_the_continuum_for_the_sensitivity_of_two_entries(epsilon, delta):
    mechanism = OneHotGaussian(k=5, epsilon=epsilon, delta=delta)
    assert mechanism.guarantee.established == "exact"
    assert delta * (1 - 1e-9) <= mechanism.guarantee.delta <= delta
    ideal = analytic_sigma(epsilon, delta, 2**0.5) ** 2  # on 0 and 1
    assert 0.99 * ideal < mechanism.reading.worst_variance() < 1.001 * ideal
    assert np.abs(mechanism.moments(np.arange(5)).bias).max() < 1e-6 * ideal**0.5
    assert OneHotGaussian.from_dict(mechanism.to_dict()) == mechanism


@pytest.mark.parametrize(
    "law",
    [
        AdditiveChannel((4, 2, 1), steps=1, reach=1),
        AdditiveChannel((9, 7, 4, 2, 1), steps=2, reach=2),
        AdditiveChannel((6, 3, 2), steps=1, reach=1, stretch=4),
        AdditiveChannel((60, 50, 28, 10, 3, 1), steps=2, reach=3),
    ],
    ids=str,
)
def test_the_delta_is_that_of_all_pairs_of_inputs(law):
    """Every entry of k, written out, at every ratio: any two inputs, and no pair of entries alone."""
    weights = (*law.weights, law.steps, law.reach, law.stretch)
    for epsilon in (0.3, 0.7, 1.2):
        entry = [law.row(0), law.row(law.shape[0] - 1)]
        words = [
            [a * b * c for a, b, c in product(*(entry[int(x == v)] for v in range(3)))] if law.shape[1] <= 6 else None
            for x in range(3)
        ]
        pairs = [[a * b for a, b in product(entry[x], entry[1 - x])] for x in (0, 1)]
        ratio = exp_below(epsilon)
        true = hockey_stick(pairs[0], pairs[1], ratio)
        if words[0] is not None:
            assert true == max(hockey_stick(one, other, ratio) for one in words for other in words)  # type: ignore
        delta = float(true) * (1 + 1e-12)
        if true == 0:
            continue
        mechanism = OneHotGaussian(k=3, epsilon=epsilon, delta=delta, weights=weights)
        assert mechanism.channel().divergence(ratio) == true
        with pytest.raises(ParameterError, match="do not keep"):
            OneHotGaussian(k=3, epsilon=epsilon, delta=float(true) * (1 - 1e-9), weights=weights)


def test_noise_for_one_entry_alone_is_refused(monkeypatch):
    """The table of one number keeps its delta for one entry, not for two."""
    with pytest.raises(ParameterError, match="do not keep"):
        OneHotGaussian(k=3, epsilon=1.0, delta=1e-4, weights=Gaussian(1.0, 1e-4).weights)
    real = noise_tables.divergence_of
    monkeypatch.setattr(noise_tables, "divergence_of", lambda one, other, ratio: real(one, [(1, 1)], ratio))
    monkeypatch.setattr(histogram, "one_hot_law", noise_tables.one_hot_law.__wrapped__)  # tables are kept otherwise
    with pytest.raises(ParameterError, match="do not keep"):
        OneHotGaussian(k=3, epsilon=1.0, delta=1e-4)


def test_frequencies_of_the_optimal_gaussian_are_unbiased():
    """Within 6.5 standard errors, 12 frequencies in all: a false alarm has probability below 1e-9."""
    values = np.repeat(np.arange(4), [40_000, 30_000, 20_000, 10_000])
    for epsilon in (0.1, 1.0, 8.0):
        mechanism = OneHotGaussian(k=4, epsilon=epsilon, delta=1e-4)
        estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=2)))
        assert (np.abs(estimate.value - [0.4, 0.3, 0.2, 0.1]) < 6.5 * estimate.stderr).all()
        assert estimate.stderr == pytest.approx((mechanism.reading.worst_variance() / 1e5) ** 0.5, rel=0.01)
        low, high = estimate.interval(0.95)
        assert (low < estimate.value).all()
        assert (estimate.value < high).all()


def test_the_planner_is_offered_it_where_there_is_a_delta():
    asked = Categories(7), ("frequency",), 1.0
    assert list(OneHotGaussian.candidates(Workload(*asked))) == []
    assert list(OneHotGaussian.candidates(Workload(*asked, delta=1e-6))) == [{"k": 7}]
    assert list(Histogram.candidates(Workload(*asked, delta=1e-6))) == []
    with pytest.raises(ParameterError, match="needs a delta"):
        OneHotGaussian(k=7, epsilon=1.0)
    with pytest.raises(ParameterError, match="needs a delta"):
        OneHotGaussian(k=7, epsilon=1.0, delta=1e-40)
    assert (
        OneHotGaussian(k=7, epsilon=40.0, delta=1e-6).weights == OneHotGaussian(k=7, epsilon=20.0, delta=1e-6).weights
    )
