"""A schema, some people, and what every question is held to: its file, its single reports, its truth, its error.

Results are compared with the truth to six stated errors. Under a normal law a number is farther away with probability
2e-9; the files that use this compare some 100 numbers in all, with fixed seeds: a false alarm has probability 2e-7.
"""

import json
import warnings
from functools import cache
from typing import Any

import numpy as np

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Plan, Schema
from dither.planning import plan_files
from dither.planning.trial import truths

SCHEMA = Schema(
    {
        "age": Ordinal(18, 99),
        "income": Numeric(0, 200_000),
        "job": Categorical(["nurse", "driver", "other", "none"], missing="none"),
        "sex": Categorical(["f", "m"]),
        "films": KeyValue(["Alien", "Heat", "Totoro", "Up"], size=2, low=1, high=5),
    }
)
USERS = 40_000
SIX = 6.0


@cache
def people(users: int = USERS) -> dict[str, Any]:
    """Incomes rise with age, drivers earn more, and some values stand exactly at the ends."""
    draw = np.random.default_rng(11)
    age = np.clip(np.rint(draw.normal(50, 16, users)), 18, 99).astype(int)
    job = np.where(draw.random(users) * 80 > age, "nurse", draw.choice(["driver", "other", "none"], users))
    income = np.clip(900 * age + 30_000 * (job == "driver") + draw.normal(0, 15_000, users), 0, 200_000)
    films = [
        {["Alien", "Heat", "Totoro", "Up"][place]: value}
        for place, value in zip(draw.choice(4, users, p=[0.5, 0.3, 0.15, 0.05]), draw.uniform(1, 5, users), strict=True)
    ]
    return {"age": age, "income": income, "job": job, "sex": draw.choice(["f", "m"], users), "films": films}


@cache
def planned(*asked: str, epsilon: float = 4.0, users: int = USERS) -> Plan:
    """The plan for these questions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dither.plan(SCHEMA, epsilon, users=users, ask=list(asked))


@cache
def tallied(plan: Plan, seed: int = 1) -> Any:
    """What all of these people report."""
    return plan.tally(plan.randomize({name: people()[name] for name in plan.attributes}, seed=seed))


def check_within_six_errors(plan: Plan, *names: str, refine: str | None = None) -> None:
    """All numbers of these results are near the truth, and their intervals lie in the domain and around the value."""
    found, true = plan.estimate(tallied(plan), refine=refine), truths(plan, [people()])
    for name in names:
        result = found.single(name)
        original = result if result.original is None else result.original
        assert (np.abs(np.ravel(original.value) - true[name]) <= SIX * np.ravel(original.stderr)).all(), name
        low, high = (np.ravel(end) for end in result.interval(1 - 2e-9))
        assert ((low <= true[name]) & (true[name] <= high)).all(), name
        assert refine is None or ((low <= np.ravel(result.value)) & (np.ravel(result.value) <= high)).all(), name


def check_single_reports(plan: Plan) -> None:
    """What a device sends of one record is what a table of it would."""
    columns = {name: people()[name] for name in plan.attributes}
    for seed in range(12):
        record = {name: column[seed] for name, column in columns.items()}
        table = plan.randomize([record], seed=seed, invalid="substitute")
        alone = plan.report(record, seed=seed)
        assert {name: each.tobytes() for name, each in alone.items()} == {
            name: each.tobytes() for name, each in table.items()
        }
        for part in (part for part in plan.parts if part.keys is None):  # empty places of keys hold anything
            own = part.encode({name: [value] for name, value in record.items()}, 1, "substitute")
            assert plan.encoded(record)[part.name].tobytes() == own.tobytes()


def check_stored(plan: Plan) -> None:
    """It is read as it was written."""
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert again.fingerprint == plan.fingerprint
    assert [str(each) for each in again.questions] == [str(each) for each in plan.questions]
    assert again.to_json() == plan.to_json()
    assert again.predicted == plan.predicted


def forged(plan: Plan, **changed: Any) -> str:
    """The file of a plan with other fields, and the hash that goes with them."""
    stored = json.loads(plan.to_json()) | changed
    stored["hash"] = plan_files.digest({name: own for name, own in stored.items() if name not in plan_files.BESIDE})
    return json.dumps(stored)
