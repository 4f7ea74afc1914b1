"""Budgets with regions: what is promised among which numbers, what they are worth, and what all users come to."""

import json
import math
import warnings
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dither
from dither import Budget, Categorical, Numeric, Ordinal, Personalised, Plan, Public, Schema, plan
from dither.cli import main
from dither.errors import BudgetWarning, ParameterError, RowError
from dither.planning import budgets, plan_files
from dither.planning.plan_tally import PlanTally

SECRET = 41_234.5
SCHEMA = Schema({"income": Numeric(0, 100), "job": Categorical(["a", "b", "c"])})
UPPER = Budget(0.6, regions={"income": (50, 100)})


@lru_cache
def made(*ask: str) -> Plan:
    users = {"any": 20_000, "upper": 10_000}
    return plan(SCHEMA, {"any": 0.5, "upper": UPPER}, users=users, ask=ask or None)


@lru_cache
def alone() -> Plan:
    """About nothing but the number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        return plan(SCHEMA, {"any": 0.5, "upper": UPPER}, users={"any": 300, "upper": 200}, ask=["mean(income)"])


# What a budget is ----------------------------------------------------------------------------------------------------


def test_a_budget_is_a_value():
    assert Budget(1) == Budget(1.0, {})
    assert hash(UPPER) == hash(Budget(0.6, {"income": [50, 100]}))
    assert Budget(0.6, {"income": (50, 99)}) != UPPER
    assert plan(SCHEMA, {"any": Budget(0.5), "all": 2.0}, users={"any": 9_000, "all": 9_000}) == plan(
        SCHEMA, {"any": 0.5, "all": 2.0}, users={"any": 9_000, "all": 9_000}
    )


@pytest.mark.parametrize(
    "regions", [{"income": 5}, {"income": (1,)}, {"income": (2, 1)}, {"income": (1, 1)}, [1], {3: (0, 1)}]
)
def test_odd_regions(regions: Any):
    with pytest.raises(ParameterError, match="regions map numeric attributes to intervals"):
        Budget(1.0, regions)


def test_odd_epsilons():
    with pytest.raises(ParameterError, match="epsilon"):
        Budget(-1.0)


@pytest.mark.parametrize(
    ("regions", "ask", "match"),
    [
        ({"wealth": (0, 1)}, None, "wealth is no numeric attribute"),
        ({"job": (0, 1)}, None, "job is no numeric attribute"),
        ({"income": (-1, 50)}, None, "must lie inside of the attribute, which is a number from 0 to 100"),
        ({"income": (50, 101)}, None, "must lie inside"),
        ({"income": (50, 100)}, ["distribution(income)"], "its mean and its sum can be asked for"),
        ({"income": (50, 100)}, ["variance(income)"], "its mean and its sum can be asked for"),
        ({"income": (50, 100)}, ["median(income)"], "its mean and its sum can be asked for"),
        ({"income": (50, 100)}, ["mean(income by job)"], "its mean and its sum can be asked for"),
    ],
)
def test_what_regions_do_not_do(regions: Any, ask: Any, match: str):
    with pytest.raises(ParameterError, match=match):
        plan(SCHEMA, {"any": 1.0, "upper": Budget(1.0, regions)}, users={"any": 9000, "upper": 9000}, ask=ask)


# What is promised and predicted --------------------------------------------------------------------------------------


def test_each_budget_promises_its_own_and_the_region_is_public():
    assert {name: round(each.epsilon, 9) for name, each in made().guarantees.items()} == {
        "budget=any": 0.5,
        "budget=upper": 0.6,
    }
    assert made().regions == {"any": {}, "upper": {"income": (50.0, 100.0)}}
    told = made().explain()
    assert "Whoever chooses upper says in the clear that income is from 50 to 100" in told
    assert "promised among such numbers" in told
    assert "Choose upper only if your income is from 50 to 100" in str(made().statement())
    assert "but for the regions that people choose to tell" in str(made().statement())


def test_half_the_width_is_half_the_error():
    users = {"whole": 10_000, "half": 10_000, "tenth": 10_000}
    regions = {"half": (0, 50), "tenth": (90, 100)}
    given = {"whole": 1.0, **{name: Budget(1.0, {"income": ends}) for name, ends in regions.items()}}
    errors = [each.predicted["mean(income)"] for each in plan(SCHEMA, given, users=users).budgets.values()]
    assert errors[1:] == pytest.approx([errors[0] / 2, errors[0] / 10], rel=1e-9)


def test_predictions_of_all_users():
    parts = [each.predicted for each in made("mean(income)", "sum(income)").budgets.values()]
    predicted = made("mean(income)", "sum(income)").predicted
    assert predicted["mean(income)"] == pytest.approx(
        math.hypot(parts[0]["mean(income)"] * 2 / 3, parts[1]["mean(income)"] / 3)
    )
    assert predicted["sum(income)"] == pytest.approx(30_000 * predicted["mean(income)"])


def test_a_prior_of_all_users_is_none_of_those_in_a_region():
    given = plan(
        SCHEMA, {"any": 0.5, "upper": UPPER}, users={"any": 9000, "upper": 9000}, prior={"income": "normal(30, 5)"}
    )
    assert given.budgets["any"].prediction.known == ("mean(income)",)
    assert given.budgets["upper"].prediction.known == ()


# By enumeration ------------------------------------------------------------------------------------------------------

# Users at the ends of what they may hold: a mechanism's first input, or its last.
HOLDERS = [("any", 0), ("any", -1), ("any", 0), ("upper", 0), ("upper", -1)]
TRUTH = (0 + 100 + 0 + 50 + 100) / 5


def collections(whole: Plan) -> Iterator[tuple[Fraction, PlanTally]]:
    """Every collection from these users, with its exact probability."""
    by_name = {group.values[0]: group for group in whole.groups}
    mechanisms = [by_name[name].asked.parts[0].mechanism for name, _ in HOLDERS]
    rows = [
        each.channel().row(range(each.channel().shape[0])[end])
        for each, (_, end) in zip(mechanisms, HOLDERS, strict=True)
    ]
    for outputs in product(*(range(len(row)) for row in rows)):
        chance = math.prod((row[y] for row, y in zip(rows, outputs, strict=True)), start=Fraction(1))
        reports = {part.name: np.empty(0, dtype=part.mechanism.dtype) for part in whole.parts}
        for (name, _), y, mechanism in zip(HOLDERS, outputs, mechanisms, strict=True):
            part = by_name[name].part(by_name[name].asked.parts[0]).name
            reports[part] = np.append(reports[part], np.asarray(mechanism.outputs())[y : y + 1])
        yield chance, whole.tally(reports)


def check_unbiased(**options: Any) -> None:
    every = [(chance, alone().estimate(tally, **options)["income"]) for chance, tally in collections(alone())]
    assert sum(chance for chance, _ in every) == 1
    mean = float(sum(chance * Fraction(float(each.value)) for chance, each in every))
    assert abs(mean - TRUTH) < 1e-9
    spread = float(sum(chance * (Fraction(float(each.value)) - Fraction(mean)) ** 2 for chance, each in every))
    noise = 0.0
    for group, half in zip(alone().groups, (50, 25), strict=True):
        mechanism, count = group.asked.parts[0].mechanism, sum(name == group.values[0] for name, _ in HOLDERS)
        noise += count / 25 * half**2 * float(mechanism.moments([1.0]).variance[0])
    assert spread == pytest.approx(noise, rel=1e-9)


@pytest.mark.parametrize("pooling", ["stratified", "reports", "inverse variance"])
def test_all_users_are_unbiased_whatever_pooling_is_asked_for(pooling):
    """Users of a region differ from others by design: the mean is stratified, and a note says so."""
    check_unbiased(pooling=pooling)


def test_it_is_the_mechanism_of_the_paper():
    """`Personalised` in [-1, 1], with the same reports: the same mean of all users, and the same error."""
    whole = alone()
    bases = {type(part.mechanism).__name__ for part in whole.parts}
    assert bases == {"Duchi"}
    paper = Personalised("Duchi", {"any": 0.5, "upper": (0.6, 0.0, 1.0)})
    rng = np.random.default_rng(2)
    sent = {"any": rng.integers(0, 2, 300), "upper": rng.integers(0, 2, 200)}
    reports: dict[str, Any] = {}
    rows = []
    for number, (group, bits) in enumerate(zip(whole.groups, sent.values(), strict=True)):
        part = group.part(group.asked.parts[0])
        reports[part.name] = np.array([(bit,) for bit in bits], dtype=part.mechanism.dtype)
        rows += [(number, bit) for bit in bits]
    found = whole.estimate(whole.tally(reports))["income"]
    theirs = paper.estimate(paper.tally(np.array(rows, dtype=paper.dtype)))["all"]
    assert found.value == pytest.approx(50 + 50 * float(theirs.value), abs=1e-9)
    assert found.stderr == pytest.approx(50 * float(theirs.stderr), rel=1e-9)


def people(n: int = 30_000, seed: int = 3) -> dict[str, Any]:
    """Of those above 50 most choose the region."""
    rng = np.random.default_rng(seed)
    income = rng.beta(2, 2, n) * 100
    return {
        "income": income,
        "job": rng.choice(["a", "b", "c"], n),
        "budget": np.where((income >= 50) & (rng.random(n) < 0.8), "upper", "any"),
    }


def test_a_collection():
    """Within 6 standard errors: the normal law leaves 2e-9 beyond, for each of six numbers."""
    whole, users = made("mean(income)", "sum(income)", "histogram(job)"), people()
    found = whole.estimate(whole.tally(whole.randomize(users, seed=1)), pooling="inverse variance")
    income = found.single("income")
    assert abs(income.value - users["income"].mean()) < 6 * income.stderr
    assert income.bounds is not None
    assert (income.bounds.low, income.bounds.high) == (0, 100)
    assert any("Budgets have regions" in note for note in income.notes)
    total = found.single("sum(income)")
    assert total.value == pytest.approx(30_000 * income.value, rel=1e-9)
    assert not any("Budgets have regions" in note for note in found.single("job").notes)
    inside = users["budget"] == "upper"
    of_region = found.by("budget")["upper"].single("income")
    assert abs(of_region.value - users["income"][inside].mean()) < 6 * of_region.stderr
    assert of_region.bounds is not None
    assert (of_region.bounds.low, of_region.bounds.high) == (50, 100)
    refined = whole.estimate(whole.tally(whole.randomize(users, seed=1)), refine="auto")
    assert abs(refined.single("income").value - users["income"].mean()) < 6 * income.stderr


def test_regions_beside_public_values_and_sizes():
    schema = Schema({"country": Public(["DE", "FR"]), **SCHEMA})
    users = {"country": {"DE": 20_000, "FR": 10_000}, "budget": {"any": 20_000, "upper": 10_000}}
    whole = plan(schema, {"any": 3.0, "upper": Budget(3.0, UPPER.regions)}, users=users, ask=["mean(income)"])
    table = people()
    table["country"] = np.where(np.random.default_rng(1).random(30_000) < 0.6, "DE", "FR")
    table["income"] = np.where((table["country"] == "DE") & (table["budget"] == "any"), 10.0, table["income"])
    tally = whole.tally(whole.randomize(table, seed=4))
    by_country = [table["income"][table["country"] == name].mean() for name in ("DE", "FR")]
    found = whole.estimate(tally, sizes={"country": {"DE": 1, "FR": 3}}).single("income")
    assert abs(found.value - (by_country[0] + 3 * by_country[1]) / 4) < 6 * found.stderr
    german = whole.estimate(tally).by("country")["DE"].single("income")
    assert abs(german.value - by_country[0]) < 6 * german.stderr


# Devices -------------------------------------------------------------------------------------------------------------


def test_a_number_outside_of_its_region_is_refused_in_trials_and_not_quoted():
    schema = Schema({"income": Numeric(0, 100_000), "job": SCHEMA["job"]})
    given = {"any": 1.0, "upper": Budget(1.0, {"income": (50_000, 100_000)})}
    whole = plan(schema, given, users={"any": 9000, "upper": 9000})
    table = {"income": [SECRET, SECRET], "job": ["a", "a"], "budget": ["any", "upper"]}
    with pytest.raises(RowError, match="row 1: the value is not a number from 50000 to 100000") as refused:
        whole.randomize(table)
    assert str(SECRET) not in str(refused.value)
    whole.randomize(table, invalid="substitute")
    whole.randomize({name: column[:1] for name, column in table.items()})


def test_what_a_device_sends_for_what_is_outside_or_missing():
    """Moved to the border, as if it were there: the same words make the same report."""
    whole = alone()
    for held, sent in ((10.0, 50.0), (None, 50.0), ("?", 50.0), (120.0, 100.0), (70.0, 70.0)):
        for seed in range(5):
            one = whole.report({"income": held, "budget": "upper"}, seed=seed)
            other = whole.report({"income": sent, "budget": "upper"}, seed=seed)
            row = whole.randomize({"income": [held], "budget": ["upper"]}, seed=seed, invalid="substitute")
            assert {name: each.tolist() for name, each in one.items()} == {
                name: each.tolist() for name, each in other.items()
            }
            assert {name: each.tolist() for name, each in one.items()} == {
                name: each.tolist() for name, each in row.items()
            }


def test_missing_numbers_count_as_the_border_in_trials():
    """What stands in for them, 50, is moved into the region from 80 on; refused values stay refused."""
    whole = plan(SCHEMA, {"any": 1.0, "top": Budget(1.0, {"income": (80, 100)})}, users={"any": 9000, "top": 9000})
    table = {"income": [None, np.nan, 90.0], "job": ["a", "b", "c"], "budget": ["top", "any", "top"]}
    filled = {**table, "income": [80.0, 50.0, 90.0]}
    one, other = (whole.randomize(each, seed=1) for each in (table, filled))
    assert {name: each.tolist() for name, each in one.items()} == {name: each.tolist() for name, each in other.items()}


def test_a_record_is_checked_by_its_own_budget():
    record = {"income": 20, "job": "a"}
    assert made().check({**record, "budget": "any"}).fits
    wrong = made().check({**record, "budget": "upper"})
    assert wrong.problems["income"] == "the value is not a number from 50 to 100; a device sends 50"
    assert "refused" in made().check({**record, "budget": "?"}).problems["budget"]


# Stored --------------------------------------------------------------------------------------------------------------


def test_a_stored_plan_keeps_its_regions(tmp_path):
    whole = made("mean(income)", "sum(income)", "histogram(job)")
    whole.save(tmp_path / "plan.json")
    again = Plan.read(tmp_path / "plan.json")
    assert (again, again.fingerprint, again.regions, again.predicted) == (
        whole,
        whole.fingerprint,
        whole.regions,
        whole.predicted,
    )
    assert [str(each) for each in again.questions] == [str(each) for each in whole.questions]
    assert "regions" not in plan(SCHEMA, {"a": 1.0, "b": 2.0}, users={"a": 9000, "b": 9000}).to_json()


def test_the_hash_covers_regions():
    other = plan(
        SCHEMA,
        {"any": 0.5, "upper": Budget(0.6, {"income": (50, 99)})},
        users={"any": 20_000, "upper": 10_000},
    )
    assert other.fingerprint != made().fingerprint
    assert [part.mechanism for part in other.parts] == [part.mechanism for part in made().parts]


@pytest.mark.parametrize(
    ("ends", "match"), [([50, 101], "must lie inside"), ([60, 50], "intervals"), ([-5, 50], "must lie inside")]
)
def test_a_forged_region_is_refused(ends: Any, match: str):
    stored = json.loads(made().to_json())
    stored["budgets"]["upper"]["regions"]["income"] = ends
    own = {name: value for name, value in stored.items() if name not in plan_files.BESIDE}
    with pytest.raises(ParameterError, match=match):
        Plan.from_json(json.dumps({**stored, "hash": plan_files.digest(own)}))


def test_a_forged_question_of_a_region_is_refused():
    """A plan that asks for a distribution, to which a region is added."""
    whole = plan(SCHEMA, {"any": 1.0, "upper": 2.0}, users={"any": 9000, "upper": 9000}, ask=["distribution(income)"])
    stored = json.loads(whole.to_json())
    stored["budgets"]["upper"]["regions"] = {"income": [50, 100]}
    own = {name: value for name, value in stored.items() if name not in plan_files.BESIDE}
    with pytest.raises(ParameterError, match="its mean and its sum"):
        Plan.from_json(json.dumps({**stored, "hash": plan_files.digest(own)}))


def test_liars_in_a_region_reach_less_far_and_the_range_is_the_whole():
    found = {each.question: each for each in alone().influence(0.01).worths}["mean(income)"]
    assert (found.low, found.high) == (0, 100)
    own = [each.influence(0.01).worths[0] for each in alone().budgets.values()]
    assert found.most == max(each.most for each in own)
    assert found.least == min(each.least for each in own)


def test_the_command(tmp_path):
    schema, output = tmp_path / "schema.toml", tmp_path / "plan.json"
    schema.write_text(SCHEMA.to_toml())
    given = ["plan", str(schema), "--group", "any=0.5:20000", "--group", "upper=0.6:10000", "-o", str(output)]
    found = CliRunner().invoke(main, [*given, "--region", "upper:income=50:100"])
    assert found.exit_code == 0, found.output
    assert "income is from 50 to 100" in found.output
    assert Plan.read(output).fingerprint == made().fingerprint
    for region in ("upper=50:100", "other:income=50:100", "upper:income=50"):
        refused = CliRunner().invoke(main, [*given, "--region", region])
        assert refused.exit_code != 0
        assert "NAME:ATTRIBUTE=LOW:HIGH" in refused.output
    alone_ = ["plan", str(schema), "--epsilon", "1", "--users", "9000", "--region", "upper:income=50:100"]
    assert "give it with --group" in CliRunner().invoke(main, alone_).output


def test_it_is_a_public_name():
    assert dither.Budget is budgets.Budget


# Mutants -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        lambda real: lambda whole, own, estimate: estimate,  # the units of a region taken for those of the attribute
        lambda real: lambda whole, own, estimate: real(own, own, estimate),
        lambda real: (
            lambda whole, own, estimate: budgets.replace(
                real(whole, own, estimate), value=estimate.value * own.unit / whole.unit
            )
        ),  # scaled, and not moved
        lambda real: (
            lambda whole, own, estimate: budgets.replace(
                real(whole, own, estimate), value=estimate.value + (own.origin - whole.origin) / whole.unit
            )
        ),  # moved, and not scaled
    ],
)
def test_a_wrong_change_of_units_is_seen(monkeypatch, broken):
    from dither.planning import group_estimates

    monkeypatch.setattr(group_estimates, "in_units_of", broken(budgets.in_units_of))
    with pytest.raises(AssertionError):
        check_unbiased()


def test_a_pooling_that_takes_regions_to_be_alike_is_seen(monkeypatch):
    from dither.planning import group_estimates

    monkeypatch.setattr(Plan, "narrowed", property(lambda self: set[str]()))
    monkeypatch.setattr(group_estimates, "_pooled", _pooled_without_care(group_estimates._pooled, group_estimates))
    with pytest.raises(AssertionError):
        check_unbiased(pooling="inverse variance")


def _pooled_without_care(real: Any, module: Any) -> Any:
    """Units are changed as they must be, and then budgets count by their errors."""

    def pooled(whole: Plan, strata: Any, told: Any, pooling: str) -> Any:
        names = {name for regions in whole.regions.values() for name in regions}
        placed = [
            module.ToldByReports(
                *(
                    {
                        new: budgets.in_units_of(new, old, result)
                        for new, (old, result) in zip(
                            budgets.whole_questions(whole.schema, some, names), some.items(), strict=True
                        )
                    }
                    for some in each
                )
            )
            for each in told
        ]
        return real(whole, strata, placed, pooling)

    return pooled


def test_ages_have_no_regions():
    schema = Schema({"age": Ordinal(0, 99)})
    with pytest.raises(ParameterError, match="age is no numeric attribute"):
        plan(schema, {"any": 1.0, "old": Budget(1.0, {"age": (60, 99)})}, users={"any": 9000, "old": 9000})
