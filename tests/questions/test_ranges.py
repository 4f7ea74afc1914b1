"""Numbers in questions about ranges: finely cut in new plans, as they were in stored ones, and shown in few cells."""

import json
from pathlib import Path

import numpy as np
import pytest

import dither
from dither import HIO, Categorical, Copula, Numeric, Ordinal, Plan, Schema
from dither.mechanisms import GRR
from dither.planning.plan_parts import Part
from dither.questions import questions
from dither.questions.ranges import CELLS, SMOOTHED

STORED = Path(__file__).parents[1] / "stored"
SCHEMA = Schema({"income": Numeric(0, 200_000), "age": Ordinal(18, 99), "job": Categorical(["nurse", "other"])})
ASK = "ranges(income, age, job)"
USERS = 20_000


def people(users: int = USERS) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    age = random.integers(18, 100, users)
    income = np.clip(1500 * age + random.normal(0, 20_000, users), 0, 200_000)
    return {"income": income, "age": age, "job": random.choice(["nurse", "other"], users)}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return dither.plan(SCHEMA, 1.0, users=USERS, ask=[ASK])


@pytest.fixture(scope="module")
def estimate(plan):
    return plan.estimate(plan.tally(plan.randomize(people(), seed=1))).ranges()


def test_a_new_plan_cuts_numbers_finely(plan):
    (question,) = plan.questions
    assert plan.parts[0].mechanism.shape == question.attribute.shape == (CELLS, 82, 2)
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert again.questions[0].attribute.shape == (CELLS, 82, 2)
    grids = [asked.grid.shape for asked in plan.parts[0].mechanism.groups if len(asked.grid.attributes) == 2]
    coarse = Copula(shape=(64, 82, 2), epsilon=1.0, n=USERS, nominal=(2,))
    assert grids == [asked.grid.shape for asked in coarse.groups if len(asked.grid.attributes) == 2]


def test_a_stored_plan_keeps_its_cells():
    stored = Plan.from_json((STORED / "plan-ranges.json").read_text())
    part = stored.parts[0]
    assert part.mechanism.shape == part.questions[0].attribute.shape == (64, 82, 4)
    assert part.questions[0].reading_of(part.mechanism) is None  # nothing is smoothed in fewer cells
    assert json.loads(stored.to_json())["hash"] == json.loads((STORED / "plan-ranges.json").read_text())["hash"]
    record = {"income": 100_001, "age": 18, "job": "nurse"}
    assert stored.encoded(record)[part.name].tolist() == [[32, 0, 0]]


def test_a_question_takes_its_cells_from_its_mechanism_if_that_fits():
    (question,) = questions(SCHEMA, [ASK])
    for cells in (50, 64, 4096):
        asked = question.as_asked_by(Copula(shape=(cells, 7, 3), epsilon=1.0, n=100))
        assert asked.attribute.shape == (cells, 82, 2)  # whole numbers and labels are as many as they are
        assert asked == question.as_asked_by(HIO(shape=(cells, 7, 3), epsilon=1.0, n=100))
    for other in (GRR(k=4, epsilon=1.0), Copula(shape=(64, 82), epsilon=1.0, n=100)):
        assert question.as_asked_by(other) is question
        assert not Part((question,), other, 1).fits
    (mean,) = questions(SCHEMA, ["mean(income)"])
    assert mean.as_asked_by(GRR(k=4, epsilon=1.0)) is mean


def test_what_is_shown_of_a_number_has_few_cells(estimate):
    assert estimate.axes.shape == estimate.shown.shape == (SMOOTHED, 82, 2)
    assert estimate["income"].value.shape == (64,)
    assert estimate["income"].item_names[1] == "3125 to 6250"
    assert estimate.joint("income", "age").shape == (64, 82)
    assert len(estimate.table()) == estimate.value.size == 64 + 82 + 2
    assert "income: from 0 to 200000, in 64 cells" in repr(estimate)


def test_queries_and_quantiles_are_near_the_truth(estimate):
    table = people()
    answer = estimate.where("income between 61001 and 140010 and age >= 50")
    true = ((table["income"] >= 61_001) & (table["income"] <= 140_010) & (table["age"] >= 50)).mean()
    assert abs(answer.value - true) < 5 * answer.stderr
    found = estimate.quantile("income", [0.25, 0.5, 0.75])
    assert (np.abs(found.value - np.quantile(table["income"], [0.25, 0.5, 0.75])) < 5 * found.stderr).all()


def test_the_mean_of_reports_is_off_by_no_more_than_a_fine_cell():
    """Everybody at one place: what devices report is the middle of a cell, and with 64 of them 1,500 too much."""
    schema = Schema({"income": Numeric(0, 200_000), "age": Ordinal(18, 99)})
    best = dither.plan(schema, 8.0, users=USERS, ask=["ranges(income, age)"])
    (part,) = best.parts
    encoded = part.encode({"income": np.full(10, 50_001.0), "age": np.full(10, 30)}, 10, "error")
    middle = (2 * encoded[0, 0] + 1) / part.mechanism.shape[0] - 1
    assert abs(100_000 * (1 + middle) - 50_001) <= 100_000 / CELLS


def test_a_hand_made_plan_of_another_kind_is_read_as_it_is(plan):
    boxes = HIO(shape=(CELLS, 82, 2), epsilon=1.0, n=USERS)
    assert plan.questions[0].reading_of(boxes) is None
    other = Plan(SCHEMA, 1.0, 0.0, USERS, (Part(plan.questions, boxes, 1),), 1, plan.prediction)
    found = other.estimate(other.tally(other.randomize(people(500), seed=1))).ranges()
    assert (found.axes.shape, found.shown.shape) == ((CELLS, 82, 2), (64, 82, 2))
    assert found["income"].value.shape == (64,)
