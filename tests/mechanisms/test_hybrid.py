"""Hybrid beyond the contract: the share of Wang et al., a variance that is flat, and branches that share no words."""

from dataclasses import replace
from fractions import Fraction
from math import exp

import numpy as np
import pytest
from scipy.stats import chi2

import dither
from dither import Duchi, Hybrid, Piecewise
from dither import testing as checks
from dither.core.channel import Table
from dither.core.exact import exp_below
from dither.errors import ParameterError, ReportError
from dither.mechanisms.hybrid import _COIN

EPSILONS = (0.62, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.36, 10.41, 12.0, 16.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_share_is_that_of_the_closed_form(epsilon):
    assert Hybrid(epsilon).share == pytest.approx(1 - exp(-epsilon / 2), abs=1e-3)  # the lattice is not the continuum


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.1, 0.3, 0.5, 0.6])
def test_below_the_threshold_there_are_signs_only(epsilon):
    hybrid = Hybrid(epsilon)
    assert hybrid.share == 0
    assert len(hybrid.branches) == 1
    x = np.linspace(-1, 1, 9)
    np.testing.assert_allclose(hybrid.moments(x).variance, Duchi(epsilon).moments(x).variance, rtol=1e-9)
    assert set(np.asarray(hybrid.randomize(x, seed=1)["branch"])) == {0}


def test_the_threshold_is_where_the_paper_has_it():
    assert Hybrid(0.605).share == 0
    assert Hybrid(0.615).share > 0.25


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_variance_is_flat_and_the_mixture_of_both(epsilon):
    hybrid = Hybrid(epsilon)
    x = np.array([-1.0, -0.5, 0.0, 0.25, 1.0])
    found = hybrid.moments(x)
    np.testing.assert_allclose(found.variance, found.variance[0], rtol=1e-3)
    (sign_odds, sign), (window_odds, window) = hybrid.branches
    assert sign_odds + window_odds == 1
    for name in ("variance", "third"):
        mixed = float(sign_odds) * getattr(sign.moments(x), name) + float(window_odds) * getattr(
            window.moments(x), name
        )
        np.testing.assert_allclose(getattr(found, name), mixed, rtol=1e-12)
    # And these are the two mechanisms themselves.
    np.testing.assert_allclose(sign.moments(x).variance, Duchi(epsilon).moments(x).variance, rtol=1e-9)
    np.testing.assert_allclose(window.moments(x).variance, Piecewise(epsilon).moments(x).variance, rtol=1e-9)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.3, 0.6, *EPSILONS, 20.0])
def test_the_worst_case_is_never_worse_than_that_of_either(epsilon):
    hybrid = Hybrid(epsilon)
    worst = hybrid.reading.worst_variance()
    assert worst <= min(Duchi(epsilon).reading.worst_variance(), Piecewise(epsilon).reading.worst_variance()) * (
        1 + 1e-9
    )
    # No other share does better.
    assert hybrid.weights is not None
    for share in (
        0,
        _COIN // 3,
        _COIN // 2,
        round(hybrid.share * _COIN * 0.95),
        round(hybrid.share * _COIN * 1.01),
        _COIN,
    ):
        other = replace(hybrid, weights=(*hybrid.weights[:-1], min(share, _COIN)))
        assert worst <= other.reading.worst_variance() * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_channel_states_no_less_than_the_truth(epsilon):
    # Which branch is the worse depends on the ratio that is asked for, not only on the largest one.
    hybrid = Hybrid(epsilon)
    channel = hybrid.channel()
    assert channel.ratio() == max(window.law.ratio() for _, window in hybrid.branches)
    for ratio in (Fraction(1), Fraction(3, 2), exp_below(epsilon / 2), exp_below(epsilon * 0.9)):
        true = sum((odds * window.law.divergence(ratio) for odds, window in hybrid.branches), Fraction(0))
        assert true <= channel.divergence(ratio)
    assert channel.blanket().mass <= sum(odds * window.law.blanket().mass for odds, window in hybrid.branches)


def test_the_channel_of_a_short_hybrid_against_its_table():
    for sign in ((5, 2), (4, 3)):  # either branch may have the larger ratio
        hybrid = Hybrid(1.0, weights=(*sign, 8, 3, 2, 5, _COIN * 3 // 8))
        channel = hybrid.channel()
        table = Table.of([channel.row(x) for x in range(channel.shape[0])])
        assert channel.shape == table.shape == (6, 2 + 7)
        assert table.ratio() == channel.ratio()
        for ratio in (Fraction(1), Fraction(6, 5), Fraction(2), Fraction(5, 2)):
            assert table.divergence(ratio) <= channel.divergence(ratio)
        assert channel.blanket().mass <= table.blanket().mass


def test_branches_come_up_as_often_as_their_share():
    # 200,000 coins: six standard deviations, false alarm 2e-9 each.
    for epsilon in (0.7, 1.0, 4.0):
        hybrid = Hybrid(epsilon)
        for values in (np.full(200_000, -1.0), np.full(200_000, 0.9)):  # whatever the value
            branch = np.asarray(hybrid.randomize(values, seed=3)["branch"])
            share = hybrid.share
            assert abs(branch.mean() - share) < 6 * (share * (1 - share) / len(branch)) ** 0.5


def test_the_coin_is_exact():
    hybrid = Hybrid(1.0)
    assert hybrid.weights is not None
    assert sum(odds for odds, _ in hybrid.branches) == 1
    assert hybrid.branches[1][0] == Fraction(hybrid.weights[-1], _COIN)
    ends = [replace(hybrid, weights=(*hybrid.weights[:-1], share)) for share in (0, 1, _COIN - 1, _COIN)]
    assert [len(each.branches) for each in ends] == [1, 2, 2, 1]
    assert [each.share for each in ends] == [0.0, 2.0**-32, 1 - 2.0**-32, 1.0]
    assert {window.steps for each in (ends[0], ends[3]) for _, window in each.branches} == {
        1,
        ends[3].branches[0][1].steps,
    }


def test_branches_and_coin_share_no_words():
    # Given the branch, the output has the branch's law, whatever words the coin took: chi-square, false alarm 1e-9.
    hybrid = Hybrid(1.0)
    reports = np.asarray(hybrid.randomize(np.full(200_000, 1.0), seed=4))
    for number, (_, window) in enumerate(hybrid.branches):
        own = reports["value"][reports["branch"] == number]
        expected = np.array(window.law.row(window.steps), dtype=float) * len(own)
        found = np.bincount(own, minlength=len(expected))
        assert ((found - expected) ** 2 / expected).sum() < chi2.isf(1e-9, len(expected) - 1)
    lanes = checks.lanes(hybrid, 8)
    assert len({lane[0] for lane in lanes if isinstance(lane, tuple)}) == 2  # a tape for each branch


def test_forged_branches_are_refused():
    hybrid = Hybrid(1.0)
    reports = np.asarray(hybrid.randomize(np.zeros(100), seed=1)).copy()
    row = int((reports["branch"] == 0).argmax())
    sizes = [window.law.outputs for _, window in hybrid.branches]
    for branch, value in ((0, 2), (1, sizes[1]), (2, 0), (255, 0)):
        forged = reports.copy()
        forged[row] = (branch, value)
        assert hybrid.valid(forged).tolist() == [i != row for i in range(100)]
        with pytest.raises(ReportError, match=f"report {row} "):
            hybrid.tally(forged)


@pytest.mark.parametrize("branch", [0, 2], ids=["sign", "window"])
def test_a_branch_that_tells_nothing_is_refused(branch):
    """Its score would be a division by zero, in the middle of loading a plan."""
    weights = list(Hybrid(1.0).weights or ())
    weights[branch] = weights[branch + 1]
    with pytest.raises(ParameterError, match="treat all outputs of a branch alike"):
        Hybrid(1.0, weights=tuple(weights))


@pytest.mark.parametrize(
    "change",
    [
        {0: 10},
        {2: 10},
        {4: 0},
        {4: 1 << 30},
        {5: 0},
        {5: 1 << 30},
        {6: -1},
        {6: _COIN + 1},
        {6: 0.5},
        {6: True},
        {1: 0},
        {1: 2**64},  # beyond the first: the sign tells nothing
    ],
    ids=str,
)
def test_stored_integers_that_break_the_promise_are_refused(change):
    hybrid = Hybrid(1.0)
    assert hybrid.weights is not None
    weights = list(hybrid.weights)
    for place, value in change.items():
        weights[place] = weights[place] * value if place in (0, 2) else value
    with pytest.raises(ParameterError):
        Hybrid(1.0, weights=tuple(weights))
    with pytest.raises(ParameterError):
        Hybrid(1.0, weights=hybrid.weights[:-1])


def test_an_estimate_covers_the_truth_and_states_the_true_error():
    hybrid, values = Hybrid(2.0), np.linspace(-0.9, 0.5, 200_000)
    estimate = hybrid.estimate(hybrid.tally(hybrid.randomize(values, seed=1)))
    assert abs(estimate.value - values.mean()) < 6 * estimate.stderr  # false alarm 2e-9
    true = (hybrid.moments(values).variance.mean() / len(values)) ** 0.5
    assert estimate.stderr == pytest.approx(true, rel=1e-2)
    assert dither.privacy.certify(hybrid).epsilon <= 2.0
