"""The accountant: guarantees of different kinds are refused, sums are exact, and losses are never too good."""

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

import dither
from dither.core.channel import hockey_stick
from dither.core.exact import exp_below
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.errors import ParameterError
from dither.learn.federated.round_accounting import Accounts, shuffled_total, together
from dither.mechanisms.noise_tables import analytic_sigma
from dither.privacy import Ledger, amplify, compose, parallel, subsampled_gaussian
from dither.privacy.accounting import composition, privacy_loss
from dither.privacy.accounting.composition import loss_of
from dither.privacy.accounting.exact_sums import affordable_rounds, basic_composition, summed
from dither.privacy.accounting.gaussian import gaussian_epsilon
from dither.privacy.accounting.privacy_loss import PrivacyLoss, along_the_logarithm, least_epsilon

GRR = dither.GRR(k=4, epsilon=1.0)
SHUFFLED = amplify(GRR, 10_000, 1e-6)
CENTRAL = subsampled_gaussian(1.0, 0.01, 100, 1e-6)


# Whom it protects against --------------------------------------------------------------------------------------------


def test_each_way_to_a_guarantee_says_its_kind():
    assert (GRR.guarantee.model, GRR.guarantee.neighbours) == ("local", "replace")
    assert (SHUFFLED.model, SHUFFLED.neighbours) == ("shuffled", "replace")
    assert (CENTRAL.model, CENTRAL.neighbours) == ("central", "add-remove")
    assert subsampled_gaussian(20.0, 1.0, 100, 1e-5).neighbours == "add-remove"
    with pytest.warns(dither.errors.DitherWarning, match="the guarantee is the local one"):
        assert amplify(GRR, 2, 1e-6) == GRR.guarantee


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_kinds_stay_in_sums(delta):
    for one in (GRR.guarantee, SHUFFLED, CENTRAL):
        found = compose([(one, 3)], max(delta, 4 * one.delta) if delta else 0.0)
        assert (found.model, found.neighbours) == (one.model, one.neighbours)
        found = parallel([one, one])
        assert (found.model, found.neighbours) == (one.model, one.neighbours)
        assert basic_composition(one, 5).model == one.model


@pytest.mark.parametrize(
    "parts",
    [[GRR, SHUFFLED, CENTRAL], [GRR, SHUFFLED], [SHUFFLED, CENTRAL], [GRR, (CENTRAL, 3)],
     [CENTRAL, Guarantee(1.0, model="central")]],
)  # fmt: skip
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_different_kinds_are_refused(parts, delta):
    for call in (lambda: compose(parts, delta), lambda: parallel(part[0] if isinstance(part, tuple) else part
                                                                 for part in parts)):  # fmt: skip
        with pytest.raises(ParameterError, match="do not add up") as refused:
            call()
        assert "state each by itself" in str(refused.value)


def test_mutant_that_sums_whatever_it_gets(monkeypatch):
    for room in ("exact_sums", "composition"):
        monkeypatch.setattr(f"dither.privacy.accounting.{room}.one_kind", lambda _: ("local", "replace"))
    with pytest.raises(pytest.fail.Exception):
        test_different_kinds_are_refused([GRR, SHUFFLED, CENTRAL], 0.0)


def test_a_device_keeps_account_of_local_guarantees_only(tmp_path):
    class Shuffled:
        fingerprint, guarantee, parts = "0" * 64, SHUFFLED, ()

    with Ledger(tmp_path / "ledger.db", epsilon=2.0, delta=1e-3) as ledger:
        for call in (ledger.reserve, ledger.guarantee):
            with pytest.raises(ParameterError, match="state it by itself"):
                call(Shuffled(), periods=1)  # type: ignore[arg-type]
        assert ledger.reserved == Guarantee(0.0, 0.0, "bound")
    with pytest.raises(ParameterError, match="do not add up"):
        affordable_rounds(Guarantee(1.0), CENTRAL)
    with pytest.raises(ParameterError, match="do not add up"):
        Accounts(3, epsilon=4.0, delta=1e-3).reserve(SHUFFLED, periods=1)


def test_federated_rounds_say_their_kind():
    assert together(GRR, 4, 1e-6).model == "local"
    assert together(SHUFFLED, 4, 1e-5).model == "shuffled"
    assert shuffled_total(GRR, 10_000, 4, 1e-5).model == "shuffled"
    assert shuffled_total(GRR, 1, 4, 1e-5) == together(GRR, 4, 1e-5)  # no crowd: the devices' own


# Exact sums ----------------------------------------------------------------------------------------------------------


def test_sums_are_the_least_floats_above_the_fractions():
    for number, times in ((0.1, 3), (1 / 3, 7), (1e-7, 10**6), (0.7, 10)):
        found, exact = summed([(Guarantee(number), times)]).epsilon, Fraction(number) * times
        assert Fraction(math.nextafter(found, 0.0)) < exact <= Fraction(found)
    assert summed([]) == Guarantee(0.0, 0.0, "bound")
    assert summed([(Guarantee(0.3, 0.4), 3)]).delta == 1.0
    assert summed([(Guarantee(1.0), 0), (CENTRAL, 0)]) == summed([])  # what is never paid for has no kind
    assert summed([(Guarantee(math.inf), 2), (Guarantee(1.0), 1)]).epsilon == math.inf
    assert basic_composition(NO_GUARANTEE, 3) == summed([(Guarantee(1.0), 1), (NO_GUARANTEE, 1)]) == NO_GUARANTEE


def test_a_budget_holds_as_many_rounds_as_fit_and_no_more():
    for budget, price in ((1.0, 0.1), (0.3, 0.1), (1.0, 1 / 3), (2.0, 2.0)):
        rounds = affordable_rounds(Guarantee(budget), Guarantee(price))
        assert Fraction(price) * rounds <= Fraction(budget) < Fraction(price) * (rounds + 1)
    assert affordable_rounds(Guarantee(1.0), Guarantee(0.25), [(Guarantee(0.3), 2)]) == 1
    assert affordable_rounds(Guarantee(1.0), Guarantee(math.inf)) == 0
    assert affordable_rounds(Guarantee(1.0, 1e-6), Guarantee(0.0, 1e-7)) == 10


def test_infinite_epsilons_add_up():
    assert compose([(Guarantee(math.inf), 2)]).epsilon == math.inf
    assert compose([Guarantee(math.inf), Guarantee(1.0)], 1e-6).epsilon == math.inf
    with pytest.raises(ParameterError, match="larger one"):
        compose([Guarantee(math.inf, 1e-3), Guarantee(1.0)], 1e-6)


# Losses --------------------------------------------------------------------------------------------------------------


def short_table() -> list[tuple[Fraction, Fraction]]:
    """A noise table short enough to multiply out: the two ends of a lattice, with geometric noise, clamped."""
    first = [Fraction(2, 3), *(Fraction(1, 3) * Fraction(1, 2) ** (j + 1) for j in range(6))]
    first.append(1 - sum(first, Fraction(0)))
    return list(zip(first, reversed(first), strict=True))


def exact_delta(times: int, epsilon: float) -> float:
    laws = [
        (math.prod(a for a, _ in some), math.prod(b for _, b in some)) for some in product(short_table(), repeat=times)
    ]
    return float(hockey_stick([a for a, _ in laws], [b for _, b in laws], exp_below(epsilon)))  # type: ignore[arg-type]


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("way", ["plain", "tilted"])
def test_the_losses_of_a_table_against_all_products(times, way):
    loss = composition._between(*zip(*short_table(), strict=True))
    together = loss.times(times) if way == "plain" else loss.tilted_times(times, 0.7)
    assert together is not None
    for epsilon in (0.0, 0.5, 1.3, 2.0, 3.1):
        exact, found = exact_delta(times, epsilon), together.delta(epsilon)
        assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-3) + 1e-9


def test_mutant_dots_that_favour_the_lower_edge(monkeypatch):
    production = privacy_loss.connected_dots

    def lower(step: float, start: int, first: Any, second: Any) -> Any:
        return production(step, start, first, (second[0] * (1 + 1e-3), second[1]))

    monkeypatch.setattr(composition, "connected_dots", lower)
    with pytest.raises(AssertionError):
        test_the_losses_of_a_table_against_all_products(2, "tilted")


def test_a_tilt_changes_nothing_but_the_numerical_error():
    loss = composition._between(*zip(*short_table(), strict=True))
    plain = loss.times(3)
    for tilt in (0.2, 0.7):  # a larger one looks at deltas that are far smaller
        by_transform, by_hand = loss.tilted_times(3, tilt), plain.tilted(tilt)
        assert by_transform is not None
        for epsilon in (0.5, 1.3, 2.0):
            assert by_hand.delta(epsilon) == pytest.approx(plain.delta(epsilon), rel=1e-9)
            assert plain.delta(epsilon) <= by_transform.delta(epsilon) * (1 + 1e-12)
            assert by_transform.delta(epsilon) == pytest.approx(plain.delta(epsilon), rel=1e-5)


@pytest.mark.parametrize("tilt", [0.0, 0.7])
@pytest.mark.parametrize("step", [2.0**-6, 2.0**-4])
def test_different_laws_on_a_common_grid_against_all_products(tilt, step):
    table, promise = short_table(), [(Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))]
    laws = [(a * c, b * d) for (a, b), (c, d) in product(table, promise)]
    short, long = loss_of(Guarantee(math.log(3))), composition._between(*zip(*table, strict=True))
    parts = [each.tilted(tilt) if tilt else each for each in (short, long)]
    together = parts[0].on(step) + parts[1].on(step)
    for epsilon in (0.0, 0.5, 1.3, 2.0):
        exact = float(hockey_stick([a for a, _ in laws], [b for _, b in laws], exp_below(epsilon)))
        assert exact * (1 - 1e-12) <= together.delta(epsilon) <= exact * (1 + 2e-2) + 1e-9


def test_long_laws_are_added_up_by_a_transform(monkeypatch):
    one, other = (
        loss_of(each).tilted(1.0).on(2.0**-9) for each in (dither.Gaussian(0.5, 1e-6), dither.Gaussian(1.0, 1e-6))
    )
    by_transform = one + other
    monkeypatch.setattr(privacy_loss, "_FEW", 1 << 20)
    by_hand = one + other
    assert by_transform.missed > by_hand.missed == 0.0
    assert np.abs(by_transform.mass - by_hand.mass).sum() <= by_transform.missed
    for epsilon in (0.1, 0.5, 1.0):
        assert by_hand.delta(epsilon) <= by_transform.delta(epsilon) <= by_hand.delta(epsilon) * (1 + 1e-6)


def test_many_gaussian_reports_are_one_gaussian():
    found = compose([(dither.Gaussian(1.0, delta=1e-9), 1000)], 1e-6).epsilon
    alone = gaussian_epsilon(analytic_sigma(1.0, 1e-9) / 2 / math.sqrt(1000), 1e-6)
    assert found == pytest.approx(alone, rel=5e-3)


def test_two_kinds_of_noise_against_the_oracle():
    step: Any = {"value_discretization_interval": 1e-4}
    laplace = pld.from_laplace_mechanism(4.0, sensitivity=2.0, **step).self_compose(8)
    gaussian = pld.from_gaussian_mechanism(analytic_sigma(1.0, 1e-6), sensitivity=2.0, **step).self_compose(8)
    found = compose([(dither.Laplace(0.5), 8), (dither.Gaussian(1.0, delta=1e-6), 8)], 1e-5).epsilon
    assert found == pytest.approx(laplace.compose(gaussian).get_epsilon_for_delta(1e-5), rel=5e-3)


def test_too_wide_a_window_is_not_opened():
    assert loss_of(dither.Laplace(1.0)).tilted_times(5000, 0.1, cells=1 << 12) is None


def test_what_a_loss_may_have_missed_is_counted():
    law = PrivacyLoss(0.5, 0, np.array([0.5, 0.5]), missed=1e-3, infinite=1e-4, doubt=1e-6)
    assert law.delta(10.0) == pytest.approx(1.1e-3, rel=1e-5)
    assert law.delta(10.0) > 1.1e-3
    assert law.epsilon(1e-3) == math.inf
    both = law + law
    assert both.infinite >= 1.9e-4
    assert both.missed >= 2e-3 * (1 - 1e-9)
    assert both.doubt == 2e-6


@pytest.mark.parametrize("guess", [privacy_loss.halfway, along_the_logarithm])
def test_the_search_ends_at_an_epsilon_that_was_tried(guess):
    for slope, delta in ((0.3, 1e-9), (40.0, 1e-3), (1.0, 0.9999)):
        tried: dict[float, float] = {}

        def curve(epsilon: float, slope=slope, tried=tried) -> float:
            return tried.setdefault(epsilon, math.exp(-slope * epsilon))

        found = least_epsilon(curve, delta, 1.0, 1e-9, guess)
        assert tried[found] <= delta
        assert curve(found * (1 - 2e-9)) > delta
        assert len(tried) < 80


def test_a_zero_of_the_spectrum_stays_zero():
    # A law that is the same at all places has a spectrum of zeros, which have no logarithm; warnings are errors here.
    mass, lost = privacy_loss._power(np.full(8, 0.125), 3)
    assert mass == pytest.approx(np.full(8, 0.125), abs=lost)
