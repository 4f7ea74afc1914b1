"""Broken on purpose: each mutant gets weights wrong the way a tired programmer might, and a check must notice."""

from dataclasses import replace
from typing import Any

import pytest

import dither
from dither.core.cell_weights import CellWeights
from dither.core.workload import Workload
from dither.mechanisms import collision, weighted_variance
from dither.planning import choose, importance
from dither.planning import planner as make
from dither.planning.choose import Chooser
from dither.questions import Question
from dither.questions.ranges import RangesOf
from dither.ranges import Copula, copula, fit
from dither.ranges.query_workload import QueryWorkload
from dither.utility import limits
from mechanisms import test_collision as collisions
from mechanisms import test_weighted_variance as variances
from planning import test_ranges as ranged
from planning import test_weights as weights
from planning.test_mutants import caught
from ranges import test_query_workload as workloads

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

GRR = dither.GRR(k=3, epsilon=1.0)


def test_the_checks_pass_as_things_are():
    assert not caught(variances.test_no_population_of_categories_is_worse, GRR, 0.4)
    assert not caught(weights.test_the_limit_of_uneven_weights_is_the_budget_shared_out, 1.0)
    assert not caught(workloads.test_no_other_shares_have_a_smaller_sum, workloads.WORKLOADS[2])


def test_the_worst_users_all_hold_the_heaviest(monkeypatch):
    real = weighted_variance.largest_sum
    monkeypatch.setattr(
        weighted_variance, "largest_sum", lambda linear, *rest, **more: real(abs(linear), *rest, **more)
    )
    assert caught(variances.test_who_is_worst_where_everybody_is_asked)


def test_who_is_asked_adds_nothing(monkeypatch):
    real = weighted_variance.largest_sum
    flat: Any = lambda linear, curve, *rest, **more: real(linear, 0 * curve, *rest, **more)  # noqa: E731
    monkeypatch.setattr(weighted_variance, "largest_sum", flat)
    assert caught(variances.test_no_population_of_categories_is_worse, GRR, 0.4)
    assert caught(variances.test_no_population_of_keys_is_worse, variances.KEYS[0], "presence", 0.3)


def test_keys_may_be_held_by_as_many_as_like(monkeypatch):
    real = weighted_variance.largest_sum

    def unbounded(linear: Any, curve: Any, counts: Any, total: float, *, exactly: bool) -> float:
        return real(linear, curve, counts, total if exactly else float(counts.sum()), exactly=exactly)

    monkeypatch.setattr(weighted_variance, "largest_sum", unbounded)
    assert caught(variances.test_no_population_of_keys_is_worse, variances.KEYS[0], "mean", 1.0)


def test_weights_of_labels_are_forgotten(monkeypatch):
    monkeypatch.setattr(
        choose, "weighted_variance", lambda reading, cells, shares, share: reading.worst_variance(share)
    )
    assert caught(weights.test_predicted_and_realised_agree, "job")


def test_the_weights_of_others_are_forgotten(monkeypatch):
    monkeypatch.setattr(CellWeights, "importance", property(lambda self: max(self.named.values(), default=1.0)))
    assert caught(weights.test_the_measure_is_the_weighted_mean)


def test_the_next_label_has_the_weight(monkeypatch):
    real: Any = Question.place_of
    monkeypatch.setattr(Question, "place_of", lambda self, name: (real(self, name) + 1) % self.size)
    assert caught(weights.test_a_label_that_matters_brings_users_to_its_question)


def test_prices_are_shared_by_questions_with_other_weights(monkeypatch):
    def kind(self: Chooser, unit: Any) -> Any:
        common = tuple((each.kind, id(self.users.get(each))) for each in unit)
        return self._first.setdefault(common, unit), common

    monkeypatch.setattr(Chooser, "kind", kind)
    assert caught(weights.test_questions_of_two_units_are_told_apart)


def test_the_error_of_a_question_is_the_weighted_one(monkeypatch):
    monkeypatch.setattr(Question, "evenly", lambda self: self)
    assert caught(weights.test_the_predicted_error_of_a_question_is_that_of_its_numbers_on_average)


def test_equal_weights_are_weights_of_their_own(monkeypatch):
    real = importance.importances

    def forgotten(asked: Any, given: Any) -> Any:
        return dict.fromkeys(real(asked, given), 1.0)

    monkeypatch.setattr(make, "importances", forgotten)
    assert caught(weights.test_ones_are_nothing_and_fives_are_five, "histogram(job)")


def test_the_limit_forgets_that_the_sample_is_weighted(monkeypatch):
    real = limits._unevenly
    monkeypatch.setattr(limits, "_unevenly", lambda *block: replace(real(*block), uneven=0.0))
    assert caught(weights.test_the_limit_of_uneven_weights_is_the_budget_shared_out, 1.0)


def test_the_limit_takes_the_mean_of_weights_for_that_of_roots(monkeypatch):
    monkeypatch.setattr(limits, "_unevenly", lambda block, roots, scale: block)
    assert caught(weights.test_the_limit_of_uneven_weights_is_the_budget_shared_out, 1.0)


def test_who_is_asked_what_does_not_follow_the_queries(monkeypatch):
    real = Copula.candidates.__func__
    monkeypatch.setattr(
        Copula, "candidates", classmethod(lambda cls, workload: real(cls, replace(workload, queries=None)))
    )
    assert caught(ranged.test_queries_that_will_be_asked_change_who_is_asked_what)


def test_what_is_predicted_does_not_follow_the_queries(monkeypatch):
    usual = lambda self, mechanism, reports, users: reports * ranged.predicted(mechanism, reports, users).mse  # noqa: E731
    monkeypatch.setattr(RangesOf, "variance", usual)
    assert caught(ranged.test_queries_that_will_be_asked_change_who_is_asked_what)


def test_shares_grow_with_how_often_and_not_with_its_root(monkeypatch):
    real = copula.shares_for

    def squared(queries: QueryWorkload) -> Any:
        made = real(queries)
        return made._replace(pairs={pair: share**2 for pair, share in made.pairs.items()})

    monkeypatch.setattr(workloads, "shares_for", squared)
    assert caught(workloads.test_no_other_shares_have_a_smaller_sum, workloads.WORKLOADS[2])


def test_three_attributes_have_the_error_of_one_pair(monkeypatch):
    real: Any = QueryWorkload.pairs.func
    scaled = lambda self: {pair: often / self.largest for pair, often in real(self).items()}  # noqa: E731
    monkeypatch.setattr(QueryWorkload, "pairs", property(scaled))
    assert caught(workloads.test_singles_and_pairs_are_those_of_all_sets, {3: 1})


def test_pairs_that_nobody_asked_about_are_taken_to_be_independent(monkeypatch):
    monkeypatch.setattr(fit, "completed", lambda matrix, known: matrix)
    assert caught(workloads.test_pairs_that_nobody_was_asked_about_do_not_move_those_that_were)


def test_the_number_of_buckets_is_that_of_epsilon_twelve(monkeypatch):
    monkeypatch.setattr(collision, "_LARGEST_EXPONENT", 12.0)
    assert caught(collisions.test_nothing_is_lost_above_epsilon_twelve)
    assert caught(collisions.test_the_number_of_buckets_is_the_best_at_a_large_epsilon, 3, 2, None)


def test_a_workload_says_nothing_if_nothing_is_said():
    assert Workload(GRR.reading.domain, ("frequency",), 1.0).queries is None
