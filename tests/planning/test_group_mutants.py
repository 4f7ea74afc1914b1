"""Broken on purpose: mistakes in groups, each noticed by a check that passes on the code as it is."""

from typing import Any

import numpy as np
import pytest

from dither import Plan
from dither.core import stratified
from dither.errors import DitherError
from dither.planning import device_plan, group_estimates
from dither.planning.groups import Group
from dither.planning.plan_parts import Part
from dither.questions import question
from planning import test_groups as groups


def caught(check: Any, *arguments: Any) -> bool:
    """Whether the check fails as things are now; plans that it keeps are made anew."""
    kept = (groups.small, *groups.EVERY)
    for each in kept:
        each.cache_clear()
    try:
        check(*arguments)
    except (AssertionError, DitherError, ValueError, KeyError, pytest.fail.Exception):
        return True
    finally:
        for each in kept:
            each.cache_clear()
    return False


def test_strata_that_all_count_alike(monkeypatch):
    real = group_estimates._strata

    def alike(*given):
        found = real(*given)
        return [stratum._replace(share=1 / len(found)) for stratum in found]

    monkeypatch.setattr(group_estimates, "_strata", alike)
    assert caught(groups.check_unbiased)


def test_sizes_that_are_not_heeded(monkeypatch):
    real = group_estimates._strata
    ignored: Any = lambda some, tally, options: real(some, tally, group_estimates.GroupOptions())  # noqa: E731
    monkeypatch.setattr(group_estimates, "_strata", ignored)
    assert caught(groups.check_unbiased)


def test_budgets_whose_reports_are_added_up(monkeypatch):
    """As if users of another budget were asked alike: refused, since their mechanisms differ."""
    monkeypatch.setattr(Group, "budget", property(lambda group: ""))
    assert caught(groups.check_unbiased)


def test_who_was_not_heard_of_is_left_out(monkeypatch):
    real = stratified.stratified_estimate

    def heard(terms, weights):
        known = sum(weight for term, weight in zip(terms, weights, strict=True) if term.n)
        return real(terms, [weight / known if term.n else 0.0 for term, weight in zip(terms, weights, strict=True)])

    monkeypatch.setattr(question, "stratified_estimate", heard)
    assert caught(groups.check_unheard)


@pytest.mark.wide
def test_errors_that_are_weighed_twice(monkeypatch):
    real = stratified.stratified_estimate

    def narrow(terms, weights):
        found = real(terms, weights)
        object.__setattr__(found, "stderr", np.asarray(found.stderr) * max(weights))
        return found

    monkeypatch.setattr(question, "stratified_estimate", narrow)
    assert caught(groups.check_coverage, {}, groups.of_all)


@pytest.mark.wide
def test_weights_by_the_users_that_were_planned(monkeypatch):
    """The careful are 70% of those who report, and were to be two thirds; countries are far from what was planned."""
    real = group_estimates._strata

    def planned(some, tally, options):
        found = real(some, tally, options)
        total = sum(group.users for stratum in found for group in stratum.groups)
        return [each._replace(share=sum(group.users for group in each.groups) / total) for each in found]

    monkeypatch.setattr(group_estimates, "_strata", planned)
    assert caught(groups.check_unbiased) or caught(groups.check_coverage, groups.SIZES, groups.of_sizes)


def test_groups_in_the_wrong_order(monkeypatch):
    real = device_plan.group_numbers
    swapped: Any = lambda public, *given: real(dict(reversed(public.items())), *given)  # noqa: E731
    monkeypatch.setattr(device_plan, "group_numbers", swapped)
    assert caught(groups.test_files_and_rows_carry_groups_alike)


def test_a_device_in_another_group(monkeypatch):
    real = device_plan.group_number
    monkeypatch.setattr(device_plan, "group_number", lambda public, record: (real(public, record) + 1) % 2)
    assert caught(groups.test_a_report_shows_its_group_and_no_private_value_changes_which, groups.by_both)


def test_a_tag_without_its_group(monkeypatch):
    real = Plan.tag
    monkeypatch.setattr(Plan, "tag", lambda plan, part: real(plan, part._replace(group="")))
    assert caught(groups.test_reports_of_groups_are_not_exchanged)


def test_a_name_that_ends_in_a_label(monkeypatch):
    plain: Any = property(lambda part: " ".join([*map(str, part.questions), part.group]).strip())
    monkeypatch.setattr(Part, "name", plain)
    assert caught(groups.test_no_label_is_taken_for_another_or_for_a_simulation)


def test_budgets_that_are_not_certified(monkeypatch):
    """The largest alone is: then a careful budget could be declared smaller than its integers deliver."""
    text = groups.forged(groups.by_budget(), lambda stored: stored["budgets"]["careful"].update(epsilon=0.4))
    largest: Any = property(lambda plan: plan.guarantee.epsilon <= plan.epsilon)
    monkeypatch.setattr(Plan, "kept", largest)
    assert Plan.from_json(text).budgets["careful"].epsilon == 0.4  # which the code as it is refuses


def test_words_that_serve_two_budgets(monkeypatch):
    monkeypatch.setattr(device_plan, "_draws", lambda tape, budget: tape)
    assert caught(groups.test_draws_of_budgets_have_words_of_their_own)
