"""Broken on purpose: mistakes in what is worked out from results and in how they are put together, each noticed.

The checks are those of the tests as they are, which pass on the code as it is.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core import test_profile_intervals as profiles
from dither.core.confidence import ProfileIntervals
from dither.errors import DitherError
from dither.estimation import linear_readings
from dither.estimation.linear_readings import CombinedReadings, LinearReading
from dither.planning import attribute_evidence, plan_estimates, refinement
from dither.planning.attribute_evidence import WhoWasAsked
from dither.planning.plan_parts import Part
from dither.questions.conditions import FulfilledColumn, ShareOf
from dither.questions.correlations import CovarianceOf, ProductOf
from dither.questions.derived import FunctionOf
from dither.questions.group_means import _InOneReport
from dither.questions.means import MeanOf
from dither.questions.quantiles import QuantileOf
from dither.questions.spreads import SquareOf, VarianceOf
from dither.questions.tables import TableOf
from dither.questions.top_keys import ChosenIntervals
from dither.questions.totals import _TotalOf
from estimation import test_linear_readings as readings
from planning import test_attribute_evidence as evidence
from planning import test_demand as demand
from questions import test_conditions as conditions
from questions import test_correlations as correlations
from questions import test_group_means as groups
from questions import test_quantiles as quantiles
from questions import test_spreads as spreads
from questions import test_top_keys as top_keys
from questions import test_totals as totals
from questions.population import planned, tallied


def caught(check: Any, *arguments: Any) -> bool:
    """Whether the check fails as things are now; plans and tallies that it keeps are made anew."""
    for kept in (planned, tallied, evidence.collected, evidence.small):
        kept.cache_clear()
    try:
        check(*arguments)
    except (AssertionError, DitherError, ValueError, pytest.fail.Exception):
        return True
    finally:
        for kept in (planned, tallied, evidence.collected, evidence.small):
            kept.cache_clear()
    return False


# How results are put together ----------------------------------------------------------------------------------------


@pytest.mark.wide
def test_a_source_that_counts_twice(monkeypatch):
    real = plan_estimates.sources_of
    monkeypatch.setattr(
        plan_estimates, "sources_of", lambda told: real([each for each in list(told) for _ in range(2)])
    )
    assert caught(evidence.check_stated_errors)


@pytest.mark.wide
def test_a_table_that_counts_twice(monkeypatch):
    real = attribute_evidence._lifted

    def lifted(question, estimate, sources):
        found = real(question, estimate, sources)
        return [*found, *found[:1]]

    monkeypatch.setattr(attribute_evidence, "_lifted", lifted)
    assert caught(evidence.check_stated_errors)


def independent(cls: Any, rows: Any, estimate: Any, slack: float = 0.0) -> LinearReading:
    value, stderr = np.ravel(estimate.value), np.ravel(estimate.stderr)
    return LinearReading(rows, value, np.diag(stderr**2), estimate.n, slack)


def test_errors_that_are_taken_for_independent(monkeypatch):
    monkeypatch.setattr(LinearReading, "of_estimate", classmethod(independent))
    assert caught(readings.test_an_estimate_as_a_reading)


@pytest.mark.wide
def test_errors_that_are_taken_for_independent_in_plans(monkeypatch):
    monkeypatch.setattr(LinearReading, "of_estimate", classmethod(independent))
    assert caught(evidence.check_stated_errors)


def test_weights_that_are_swapped(monkeypatch):
    """The better source has the smaller weight."""
    real = CombinedReadings.of

    def of(self, rows):
        found = real(self, rows)
        weights = found.weights[::-1]
        alike = all(one.shape == other.shape for one, other in zip(weights, found.weights, strict=True))
        value = (
            sum(own @ source.value for own, source in zip(weights, self.sources, strict=True)) if alike else found.value
        )
        return found._replace(value=value, weights=weights if alike else found.weights)

    monkeypatch.setattr(CombinedReadings, "of", of)
    assert caught(readings.test_two_alike_have_half_the_variance_and_their_mean)


def test_covariances_that_are_not_inverted(monkeypatch):
    monkeypatch.setattr(linear_readings.np.linalg, "solve", lambda spread, rows: spread @ rows)
    assert caught(readings.test_they_are_put_together_as_the_textbook_does, 3)


def test_an_estimated_covariance_that_is_believed_to_the_end(monkeypatch):
    monkeypatch.setattr(linear_readings, "_RIDGE", 1e-9)
    monkeypatch.setattr(linear_readings, "_EVEN", 1e-9)
    assert caught(readings.check_a_sum_that_is_missed_by_a_little)


def test_shares_that_need_not_add_up_to_one(monkeypatch):
    monkeypatch.setattr(attribute_evidence, "combined", lambda sources: CombinedReadings(tuple(sources)))
    assert caught(evidence.check_agreement, None)


@pytest.mark.wide
def test_errors_without_who_was_asked(monkeypatch):
    real_estimates, real_tells = Part.estimates, Part.tells
    monkeypatch.setattr(
        Part,
        "estimates",
        lambda self, tally, promise, users, others=None, earlier=(): real_estimates(
            self, tally, promise, tally.n, others
        ),
    )
    monkeypatch.setattr(Part, "tells", lambda self, tally, found, users: real_tells(self, tally, found, tally.n))
    monkeypatch.setattr(WhoWasAsked, "known", 0.0)
    assert caught(evidence.check_stated_errors)


@pytest.mark.wide
@pytest.mark.parametrize("apart", [0.0, 0.5])
def test_users_who_are_believed_to_answer_everything(monkeypatch, apart):
    monkeypatch.setattr(WhoWasAsked, "apart", apart)
    assert caught(evidence.check_stated_errors)


@pytest.mark.wide
def test_users_who_are_known_twice(monkeypatch):
    monkeypatch.setattr(WhoWasAsked, "among", property(lambda self: 2 * self.users))
    assert caught(evidence.check_stated_errors)


def test_slack_that_is_dropped(monkeypatch):
    monkeypatch.setattr(MeanOf, "slack", 0.0)
    assert caught(evidence.check_slack)


def test_slack_that_is_dropped_on_the_way(monkeypatch):
    real = CombinedReadings.of
    monkeypatch.setattr(CombinedReadings, "of", lambda self, rows: real(self, rows)._replace(bias=np.zeros(len(rows))))
    assert caught(readings.test_slack_is_carried, 0)


def test_axes_of_a_table_that_are_mixed_up(monkeypatch):
    """What is told about an axis goes to cells as if the first axis varied fastest."""
    real = attribute_evidence._lifted

    def lifted(question, estimate, sources):
        def turned(rows):
            return np.stack([np.ravel(row.reshape(question.axis_values).T) for row in rows])

        found = real(question, estimate, sources)
        told = [each._replace(reading=each.reading._replace(rows=turned(each.reading.rows))) for each in found[1:]]
        return [*found[:1], *told]

    monkeypatch.setattr(attribute_evidence, "_lifted", lifted)
    assert caught(evidence.check_agreement, None)


def test_tables_that_agree_with_shares_before_these_agree(monkeypatch):
    monkeypatch.setattr(refinement, "sorted", lambda found, key: sorted(found, key=key, reverse=True), raising=False)
    assert caught(evidence.check_agreement, "auto")


def test_tables_that_agree_with_nothing(monkeypatch):
    monkeypatch.setattr(TableOf, "agreed", lambda self, estimate, refined: estimate)
    assert caught(evidence.check_agreement, "auto")


def test_results_that_forget_what_they_are_from(monkeypatch):
    real = attribute_evidence._Together._read

    def read(self, question, rows, estimate, known):
        return replace(real(self, question, rows, estimate, known), n=estimate.n)

    monkeypatch.setattr(attribute_evidence._Together, "_read", read)
    assert caught(evidence.test_results_say_what_they_are_from)


# What is worked out --------------------------------------------------------------------------------------------------


def test_squares_that_are_not_centred(monkeypatch):
    monkeypatch.setattr(SquareOf, "_encoded", lambda self, column, invalid: MeanOf._encoded(self, column, invalid) ** 2)
    assert caught(spreads.test_squares_are_those_of_the_distance_from_the_middle, evidence.SCHEMA["x"])
    assert caught(spreads.test_truths_are_those_of_numpy)


def test_a_device_that_squares_otherwise_than_a_table(monkeypatch):
    monkeypatch.setattr(SquareOf, "encode_value", lambda self, value: MeanOf.encode_value(self, value) ** 2)
    assert caught(spreads.test_single_reports_and_files)


def test_a_variance_without_the_mean(monkeypatch):
    monkeypatch.setattr(VarianceOf, "function", lambda self, values: (values[..., 1] + 1) / 2)
    assert caught(spreads.test_units)
    assert caught(demand.test_slopes_of_a_variance)


def test_a_product_with_a_wrong_sign(monkeypatch):
    monkeypatch.setattr(ProductOf, "join", lambda self, encoded: -encoded[0] * encoded[1])
    assert caught(correlations.test_products_are_those_of_the_distances_from_the_middles)
    assert caught(correlations.test_truths_are_those_of_numpy)


def test_a_covariance_that_adds_the_means(monkeypatch):
    monkeypatch.setattr(CovarianceOf, "function", lambda self, values: values[..., 0] + values[..., 1] * values[..., 2])
    assert caught(correlations.test_units)
    assert caught(correlations.test_truths_are_those_of_numpy)


def test_a_standard_error_of_the_first_number_alone(monkeypatch):
    real = FunctionOf.derive

    def derive(self, found, collected):
        first = self.rests_on[0]
        apart = collected.apart.items()
        sure = {each: one if each == first else replace(one, stderr=0.0 * one.stderr) for each, one in apart}
        return real(self, found, collected._replace(apart=sure))

    monkeypatch.setattr(FunctionOf, "derive", derive)
    assert caught(correlations.test_the_standard_error_is_that_of_the_function, CovarianceOf)
    assert caught(spreads.test_the_standard_error_is_that_of_the_function, VarianceOf)


def test_an_interval_that_stays_where_it_started(monkeypatch):
    monkeypatch.setattr(ProfileIntervals, "_slope", lambda self, truths: np.zeros_like(truths))
    assert caught(profiles.test_they_reach_the_farthest_truth_that_may_be, 0)
    assert caught(profiles.test_of_a_linear_function_they_are_the_usual_ones, 0.05)


@pytest.mark.parametrize("shift", [-1, 1])
def test_an_edge_that_is_off_by_one(shift, monkeypatch):
    real = FulfilledColumn._cuts.func  # type: ignore[attr-defined]

    def cuts(self):
        step = 0 if self.axis.continuous else shift
        return [(low + step, after, high + step, behind) for low, after, high, behind in real(self)]

    monkeypatch.setattr(FulfilledColumn, "_cuts", property(cuts))
    assert caught(conditions.check_edges)
    assert caught(conditions.test_truths_are_those_of_numpy)


def test_an_end_of_the_domain_that_is_left_out(monkeypatch):
    real = FulfilledColumn._cuts.func  # type: ignore[attr-defined]

    def cuts(self):
        return [(low, after, high, behind and high < 1) for low, after, high, behind in real(self)]

    monkeypatch.setattr(FulfilledColumn, "_cuts", property(cuts))
    assert caught(conditions.check_edges)


def test_an_edge_on_the_wrong_side(monkeypatch):
    real = FulfilledColumn._cuts.func  # type: ignore[attr-defined]

    def cuts(self):
        return [
            (low, False, high, high == 1) if self.axis.continuous else each
            for each in real(self)
            for low, _, high, _ in [each]
        ]

    monkeypatch.setattr(FulfilledColumn, "_cuts", property(cuts))
    assert caught(conditions.test_who_is_exactly_at_an_edge_is_inside_or_not_as_it_is_written, 30.0)


def test_any_condition_for_all(monkeypatch):
    monkeypatch.setattr(ShareOf, "join", lambda self, encoded: np.max(encoded, axis=0))
    assert caught(conditions.test_several_attributes_must_all_fulfil_theirs)
    assert caught(conditions.test_truths_are_those_of_numpy)


def test_a_share_of_those_who_do_not(monkeypatch):
    real = ShareOf.select
    monkeypatch.setattr(
        ShareOf, "select", lambda self, own, place, count: replace(real(self, own, place, count), value=own.value[0])
    )
    assert caught(conditions.test_it_is_estimated)


def test_groups_that_are_shifted(monkeypatch):
    real = _InOneReport.join

    def join(self, encoded):
        return real(self, [(encoded[0] + 1) % self.attribute.d, encoded[1]])

    monkeypatch.setattr(_InOneReport, "join", join)
    assert caught(groups.check_estimates)


def test_groups_whose_numbers_are_not_theirs(monkeypatch):
    real = _InOneReport.join
    monkeypatch.setattr(_InOneReport, "join", lambda self, encoded: real(self, [encoded[0], encoded[1][::-1]]))
    assert caught(groups.check_estimates)


def test_a_quantile_from_the_other_end(monkeypatch):
    real = QuantileOf.derive
    monkeypatch.setattr(QuantileOf, "derive", lambda self, found, one: real(replace(self, q=1 - self.q), found, one))
    assert caught(quantiles.check_estimates)


def test_the_truth_of_a_quantile_from_the_other_end(monkeypatch):
    real = QuantileOf.truths

    def truths(self, sums, users):
        return {str(self): value for value in real(replace(self, q=1 - self.q), sums, users).values()}

    monkeypatch.setattr(QuantileOf, "truths", truths)
    assert caught(quantiles.check_truths)


def test_a_total_of_one_user(monkeypatch):
    real = _TotalOf.derive
    monkeypatch.setattr(
        _TotalOf, "derive", lambda self, found, collected: real(self, found, collected._replace(users=1))
    )
    assert caught(totals.check_totals)


def test_a_total_whose_error_is_that_of_one_user(monkeypatch):
    real = _TotalOf.derive

    def derive(self, found, collected):
        return replace(real(self, found, collected), stderr=found[self.of].stderr)

    monkeypatch.setattr(_TotalOf, "derive", derive)
    assert caught(totals.check_totals)


def test_the_largest_with_intervals_for_one(monkeypatch):
    def ends(self, miss):
        low, high = self.every.interval(1 - miss)
        return low[self.places], high[self.places]

    monkeypatch.setattr(ChosenIntervals, "ends", ends)
    assert caught(top_keys.test_the_largest_come_first, None)
