"""Audits of plans: all that a device sends is attacked together.

A right plan is refuted with a probability of at most 1 - confidence = 1e-9 an audit; seeds are fixed. That a wrong one
is found is no matter of chance with these numbers: it leaks twice what it states.
"""

from dataclasses import replace

import numpy as np
import pytest

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.core.guarantee import Guarantee
from dither.planning.device_reports import DeviceReports
from dither.privacy import audit
from dither.questions.shares import SharesOf

SURE = 1 - 1e-9
SCHEMA = Schema(
    {"age": Ordinal(0, 9), "job": Categorical(["a", "b"]), "x": Numeric(0, 1), "films": KeyValue(3, size=1)}
)


@pytest.mark.parametrize(("epsilon", "least"), [(1.0, 0.5), (6.0, 0.5)])
def test_a_right_plan_stands_and_is_attacked_in_earnest(epsilon, least):
    plan = dither.plan(SCHEMA, epsilon, users=10_000)
    found = audit(plan, 60_000, SURE, seed=1)
    assert found.certificate == plan.guarantee
    assert found.passed, str(found)
    assert found.fraction > least, str(found)


def test_budgets_that_are_not_split_are_found(monkeypatch):
    plan = dither.plan(SCHEMA, 6.0, users=10_000, prior={"x": [0.0, 1.0]})
    assert plan.questions_per_user == 2
    monkeypatch.setattr(DeviceReports, "guarantee", property(lambda self: Guarantee(3.0)))
    assert not audit(plan, 60_000, SURE, seed=1).passed


def test_words_that_are_shared_are_found(monkeypatch):
    """Both parts are drawn from the same words: the difference of their reports has no noise."""
    monkeypatch.setattr(SharesOf, "crosses", False)  # one report would answer both
    one = dither.plan(Schema({"a": Categorical(["x", "y"]), "b": Categorical(["x", "y"])}), 6.0, users=10_000)
    plan = replace(one, questions_per_user=2)
    real = dither.Plan._reports

    def same(self, part, values, rows, tape, first):
        return real(self, self.parts[0]._replace(mechanism=part.mechanism), values, rows, tape, first)

    assert audit(plan, 60_000, SURE, seed=1).passed
    monkeypatch.setattr(dither.Plan, "_reports", same)
    assert not audit(plan, 60_000, SURE, seed=1).passed


def test_rows_hold_what_is_sent():
    plan = dither.plan(SCHEMA, 1.0, users=10_000)
    rows = plan.audited().randomize(np.arange(5).repeat(200), seed=1)
    drawn = np.stack([rows[f"drawn {number}"] for number in range(len(plan.parts))])
    assert (drawn.sum(axis=0) == plan.questions_per_user).all()
    for number, part in enumerate(plan.parts):
        for name in part.mechanism.dtype.names or ():
            assert not rows[f"{name} {number}"][drawn[number] == 0].any()
