"""Groups that a report names in the clear: what they promise, what is counted of them, what all users come to."""

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

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Plan, Public, Schema, plan
from dither.core.crowd import Crowd
from dither.core.reports import Reports
from dither.core.stratified import differs_by_more_than_noise, stratified_estimate
from dither.engines.report_rows import _codes
from dither.errors import BudgetWarning, DomainError, EmptyError, ParameterError, ReportError, UnknownError
from dither.planning import plan_files
from dither.planning.groups import expected_users, rows_by_group
from dither.planning.plan_tally import PlanTally
from dither.planning.trial import truths
from dither.privacy import Ledger, amplify, audit, users_for

SECRET = "f7c0ffee"  # noqa: S105
PRIVATE = Schema({"age": Ordinal(0, 4), "income": Numeric(0, 100), "job": Categorical(["a", "b", "c"])})
COUNTRIES = Public(["DE", "FR", "IT"])
PUBLIC = Schema({"country": COUNTRIES, **PRIVATE})
DAYS = Schema({"day": Public(["Mon", "Tue"]), "country": COUNTRIES, **PRIVATE})
BUDGETS = {"careful": 0.5, "open": 3.0}


@lru_cache
def by_country() -> Plan:
    return plan(PUBLIC, 1.0, users={"DE": 20_000, "FR": 10_000, "IT": 5_000})


@lru_cache
def by_budget() -> Plan:
    return plan(PRIVATE, BUDGETS, users={"careful": 20_000, "open": 10_000})


@lru_cache
def by_both() -> Plan:
    users = {"country": {"DE": 20_000, "FR": 6_000, "IT": 4_000}, "budget": {"careful": 20_000, "open": 10_000}}
    return plan(PUBLIC, BUDGETS, users=users)


EVERY = (by_country, by_budget, by_both)


def people(n: int, seed: int = 1) -> dict[str, Any]:
    """Users whose values depend on their country and on the budget that they choose."""
    rng = np.random.default_rng(seed)
    country = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    budget = rng.choice(2, n, p=[0.7, 0.3])
    return {
        "country": np.array(["DE", "FR", "IT"])[country],
        "day": rng.choice(["Mon", "Tue"], n),
        "budget": np.array(["careful", "open"])[budget],
        "age": (rng.integers(0, 5, n) + country) % 5,
        "income": np.clip(rng.uniform(0, 50, n) + 20 * country + 15 * budget, 0, 100),
        "job": np.where(rng.random(n) < 0.5 + 0.3 * budget, "a", rng.choice(["b", "c"], n)),
    }


# What a schema says --------------------------------------------------------------------------------------------------


def test_a_public_attribute_is_carried_and_not_asked_about():
    assert list(PUBLIC.public) == ["country"]
    assert PUBLIC.private == PRIVATE
    assert list(by_country().asked_about) == ["age", "income", "job"]
    assert list(by_country().attributes) == ["country", "age", "income", "job"]
    assert [str(question) for question in by_country().questions] == [
        "distribution(age)", "mean(income)", "histogram(job)",
    ]  # fmt: skip


def test_a_schema_with_public_attributes_is_stored(tmp_path):
    schema = Schema({"day": Public(["1", "2", "?"], other="?"), **PRIVATE})
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    path = tmp_path / "schema.toml"
    path.write_text(schema.to_toml(), encoding="utf-8")
    assert Schema.read(path) == schema
    assert schema.public["day"].encode([1, "2", "nowhere", None], "substitute").tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize("labels", [[], ["a", "a"], "ab", [1], [str(i) for i in range(5000)]])
def test_labels_of_a_public_attribute(labels):
    with pytest.raises(ParameterError, match="public attribute"):
        Public(labels)


def test_everything_public_is_nothing_to_ask():
    with pytest.raises(ParameterError, match="nothing to be asked about"):
        plan(Schema({"country": COUNTRIES}), 1.0, users=100)


# Bad input -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["histogram(country)", "country", "mean(income by country)", "ranges(age, country)"])
def test_a_public_attribute_is_not_asked_about(text: str):
    with pytest.raises(ParameterError, match=r'country is public: .* estimates.by\("country"\)'):
        plan(PUBLIC, 1.0, users=1000, ask=["mean(income)", text])


@pytest.mark.parametrize("invalid", ["error", "substitute"])
@pytest.mark.parametrize("value", [SECRET, None, 3.5])
def test_an_unknown_group_is_refused_and_not_quoted(invalid: str, value: Any):
    table = {name: list(column[:4]) for name, column in people(4).items()}
    table["country"][2] = value
    with pytest.raises(DomainError, match=r"attribute country, row 2: .* names no group of the plan") as caught:
        by_country().randomize(table, invalid=invalid, seed=1)
    assert SECRET not in str(caught.value)
    with pytest.raises(DomainError, match=r"attribute country: .* declare a label") as caught:
        by_country().report({"country": value, "age": 3})
    assert SECRET not in str(caught.value)


def test_an_unknown_group_has_a_substitute_if_one_is_declared():
    schema = Schema({"country": Public(["DE", "other"], other="other"), "age": Ordinal(0, 4)})
    made = plan(schema, 1.0, users=10_000)
    reports = made.randomize({"country": ["XX", None, "DE"], "age": [1, 2, 3]}, invalid="substitute", seed=1)
    assert {name: len(some) for name, some in reports.items()} == {
        "distribution(age) [country=DE]": 1,
        "distribution(age) [country=other]": 2,
    }
    assert len(made.report({"age": 3})["distribution(age) [country=other]"]) == 1
    with pytest.raises(DomainError, match="row 0"):
        made.randomize({"country": ["XX"], "age": [1]})


@pytest.mark.parametrize(
    ("users", "match"),
    [
        ({"DE": 10, "FR": 10}, "there is no number for IT"),
        ({"DE": 10, "FR": 10, "IT": 10, "XX": 10}, "a key is no group"),
        ({"DE": 10, "FR": 10, "IT": 0}, "every group needs a number above 0"),
        ({"DE": 10, "FR": 10, "IT": 2.5}, "whole numbers"),
        ({"land": {"DE": 10}}, "there is no public attribute of this name"),
        ({}, "users maps groups to numbers"),
        ("many", "users maps groups to numbers"),
        (2, "3 groups, and fewer users"),
    ],
)
def test_users_of_groups(users: Any, match: str):
    with pytest.raises(ParameterError, match=match):
        plan(PUBLIC, 1.0, users=users)


def test_users_of_budgets_are_said():
    with pytest.raises(ParameterError, match="users maps groups to numbers"):
        plan(PRIVATE, BUDGETS, users=1000)
    with pytest.raises(ParameterError, match="say how many choose each budget"):
        plan(PUBLIC, BUDGETS, users={"country": {"DE": 10, "FR": 10, "IT": 10}})
    with pytest.raises(ParameterError, match="add up to the same number"):
        plan(PUBLIC, BUDGETS, users={"country": {"DE": 10, "FR": 10, "IT": 10}, "budget": {"careful": 1, "open": 1}})
    with pytest.raises(ParameterError, match="epsilon maps budgets"):
        plan(PRIVATE, {1: 0.5}, users={"careful": 1})  # type: ignore[dict-item]
    with pytest.raises(ParameterError, match="another one"):
        plan(Schema({"budget": Numeric(0, 1)}), BUDGETS, users={"careful": 10, "open": 10})


def test_a_small_group_is_warned_of_with_its_error():
    with pytest.warns(
        BudgetWarning, match=r"1 of 3 groups \(country=IT\).*standard error of [0-9.]+\. Results over all"
    ):
        plan(PUBLIC, 1.0, users={"DE": 20_000, "FR": 10_000, "IT": 4})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan(PUBLIC, 1.0, users={"DE": 20_000, "FR": 10_000, "IT": 10_000})


def test_what_groups_do_not_do():
    with pytest.raises(ParameterError, match="a plan with groups asks once"):
        plan(PUBLIC, 1.0, users=1000, rounds=3)
    with pytest.raises(ParameterError, match="ranges are fitted to reports of one kind"):
        plan(PRIVATE, BUDGETS, users={"careful": 9000, "open": 9000}, ask=["ranges(age, income)"])
    with pytest.raises(ParameterError, match="at most 16,384"):
        plan(
            Schema({f"p{i}": Public([str(j) for j in range(30)]) for i in range(3)} | {"age": Ordinal(0, 4)}),
            1,
            users=9,
        )
    made = plan(PRIVATE, 1.0, users=1000)
    tally = made.tally(made.randomize(people(10)))
    with pytest.raises(ParameterError, match="for plans with groups"):
        made.estimate(tally, sizes={"DE": 1})
    with pytest.raises(ParameterError, match="has no groups"):
        plan(PRIVATE, 1.0, users=1000).group_table()


def test_users_are_spread():
    assert expected_users(PUBLIC.public, 10) == [4, 3, 3]
    assert expected_users(DAYS.public, {"country": {"DE": 60, "FR": 30, "IT": 10}}) == [30, 15, 5, 30, 15, 5]
    both = {values: 10 * place for place, values in enumerate(product(["Mon", "Tue"], ["DE", "FR", "IT"]), start=1)}
    assert expected_users(DAYS.public, both) == [10, 20, 30, 40, 50, 60]


# What is promised ----------------------------------------------------------------------------------------------------


def test_each_group_promises_its_own():
    made = by_both()
    assert len(made.groups) == len(made.guarantees) == 6
    for group in made.groups:
        assert 0 <= BUDGETS[group.budget] - made.guarantees[group.name].epsilon < 1e-8
        alone = plan(PRIVATE, BUDGETS[group.budget], users=group.asked.users)
        assert group.asked == alone  # by the best mechanisms for its budget
    assert made.guarantee.epsilon == max(each.epsilon for each in made.guarantees.values())
    assert made.kept


def test_groups_with_one_budget_share_their_mechanisms():
    made, alone = by_country(), plan(PRIVATE, 1.0, users=35_000)
    for group in made.groups:
        assert group.asked == alone
    assert {id(group.asked) for group in made.groups} == {id(made.groups[0].asked)}


@pytest.mark.parametrize("made", EVERY)
def test_a_report_shows_its_group_and_no_private_value_changes_which(made):
    """Exhaustive over the small domains: what is sent goes to the group of the public values."""
    sent = set()
    for country, budget, age, job in product(["DE", "FR", "IT"], BUDGETS, range(5), "abc"):
        record = {"country": country, "budget": budget, "age": age, "job": job, "income": 10.0 * age}
        (name,) = (name for name, some in made().report(record).items() if len(some))
        facts = {"country": country, "budget": budget}
        wanted = ", ".join(f"{each}={facts[each]}" for each in made().public)
        assert name.endswith(f" [{wanted}]")
        sent.add(name)
    assert sent <= {part.name for part in made().parts}


@pytest.mark.parametrize("made", EVERY)
def test_an_audit_finds_no_more_than_is_promised(made):
    assert audit(made(), trials=100_000, seed=1).passed
    assert made().audited().guarantee.epsilon == made().guarantee.epsilon


def test_what_a_shuffler_adds_is_of_the_group_alone():
    table = by_country().crowds(1e-6, central=0.1).columns
    sizes = [20_000, 10_000, 5_000]
    asked = by_country().groups[0].asked
    assert table["epsilon once shuffled"] == [amplify(asked, n, 1e-6).epsilon for n in sizes]
    assert table["least batch"] == [f"{users_for(asked, 0.1, 1e-6):,}"] * len(sizes)
    assert by_country().crowds(1e-6, central=2.0).columns["least batch"] == ["1"] * len(sizes)


def test_crowds_of_groups_are_planned_for():
    """The smallest batch is one of a group, and what is promised is promised in each."""
    sizes = {"DE": 9_000, "FR": 5_000, "IT": 6_000}
    made = plan(PUBLIC, users=sizes, central=0.5, delta=1e-6, ask=["histogram(job)"])
    assert made.crowd == Crowd(0.5, 1e-6, 5_000)
    assert 0.45 < made.shuffled.epsilon <= 0.5
    assert Plan.from_json(made.to_json()) == made
    for options, match in (
        ({"batch": 6_000}, "the users of the smallest one"),
        ({"epsilon": {"careful": 0.5, "open": 2.0}}, "people choose"),
    ):
        with pytest.raises(ParameterError, match=match):
            plan(PUBLIC, **{"users": sizes, "central": 0.5, "delta": 1e-6, **options})


def test_crowds_are_of_groups():
    with pytest.raises(ParameterError, match="has no groups"):
        plan(PRIVATE, 1.0, users=10_000).crowds()


# Reports and what is counted -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", EVERY)
def test_a_simulation_does_not_depend_on_the_cut_of_the_table(made):
    table = people(300)
    whole = made().randomize(table, seed=3)
    pieces = [
        made().randomize({name: column[start : start + 100] for name, column in table.items()}, seed=3, first=start)
        for start in (0, 100, 200)
    ]
    for name, reports in whole.items():
        assert np.array_equal(reports, np.concatenate([piece[name] for piece in pieces]))
    assert sum(map(len, whole.values())) == 300


@pytest.mark.parametrize("made", EVERY)
def test_a_device_sends_what_the_first_row_of_a_table_does(made):
    table = people(20)
    for row in range(20):
        record = {name: column[row] for name, column in table.items()}
        one = made().randomize({name: [value] for name, value in record.items()}, seed=row)
        alone = made().report(record, seed=row)
        assert {name: some.tolist() for name, some in one.items()} == {
            name: some.tolist() for name, some in alone.items()
        }


def test_rows_by_group():
    rows, groups = np.array([0, 2, 3, 5]), np.array([1, 0, 1, 0, 2, 3])
    assert [each.tolist() for each in rows_by_group(rows, groups, 4)] == [[3], [0, 2], [], [5]]


def test_reports_of_groups_are_not_exchanged():
    made = by_country()
    reports = made.randomize(people(200))
    one, other = "histogram(job) [country=DE]", "histogram(job) [country=FR]"
    assert made.groups[0].asked is made.groups[1].asked
    with pytest.raises(ReportError, match="another question"):
        made.tally({**reports, one: reports[other], other: reports[one]})
    assert all(isinstance(each, Reports) for each in reports.values())


def test_no_label_is_taken_for_another_or_for_a_simulation():
    """A name ends in a bracket, and that of simulated reports does not."""
    labels = ["x", "x] simulated", "x simulated", "x]", "[x", "x [a=x]"]
    made = plan(Schema({"a": Public(labels), "job": Categorical(["y", "n"])}), 1.0, users=60_000)
    names = tuple(part.name for part in made.parts)
    assert len(set(_codes(names, made.fingerprint).tags.tolist())) == 2 * len(labels)
    alike = {"a": Public(["1, b=2", "1"]), "b": Public(["3", "2, b=3"]), "job": Categorical(["y", "n"])}
    with pytest.raises(ParameterError, match="two groups have the same name"):
        plan(Schema(alike), 1.0, users=4000)


@pytest.mark.parametrize("made", EVERY)
def test_files_and_rows_carry_groups(made, tmp_path):
    pytest.importorskip("pyarrow")
    from dither.engines import engine

    table, path = people(500), tmp_path / "reports.parquet"
    local = engine("local")
    local.randomize(made(), {name: list(table[name]) for name in made().attributes}, path, seed=4)
    counted = local.tally(made(), [path])
    assert counted == made().tally(made().randomize(table, seed=4))
    assert made().load_tally(counted.to_bytes()) == counted


def test_files_and_rows_carry_groups_alike():
    """Every row goes to the group that its public values name."""
    table = people(300)
    reports = by_both().randomize(table, seed=1)
    for group in by_both().groups:
        facts = dict(group.facts)
        own = (table["country"] == facts["country"]) & (table["budget"] == facts["budget"])
        assert sum(len(reports[group.part(part).name]) for part in group.asked.parts) == own.sum()


def test_draws_of_budgets_have_words_of_their_own():
    """Tapes by which budgets draw questions share no word, with each other or with what reports are drawn from."""
    from dither.core.randomness import Stream
    from dither.planning.device_plan import _draws

    tape = Stream.seeded(1, "a plan")
    tapes = [tape, *(_draws(tape, label) for label in ("", "careful", "open"))]
    words = np.concatenate([each.words(0, slice(0, 1000)).ravel() for each in tapes])
    assert len(np.unique(words)) == words.size


def test_a_ledger_keeps_the_first_group(tmp_path):
    made = by_country()
    with Ledger(tmp_path / "ledger", epsilon=1.0) as ledger:
        first = ledger.report(made, {"country": "DE", "age": 1, "income": 3, "job": "a"})
        moved = ledger.report(made, {"country": "FR", "age": 1, "income": 3, "job": "a"})
    assert next(name for name, some in first.items() if len(some)).endswith("[country=DE]")
    assert {name: some.tolist() for name, some in first.items()} == {
        name: some.tolist() for name, some in moved.items()
    }


def test_a_record_is_checked():
    assert by_country().check({"country": "FR", "age": 1, "income": 3, "job": "a"}).fits
    wrong = by_country().check({"country": "XX", "age": 1, "income": 3, "job": "a"})
    assert list(wrong.problems) == ["country"]
    assert "refused" in wrong.problems["country"]


# Stored ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", EVERY)
def test_a_stored_plan_keeps_everything(made, tmp_path):
    made().save(tmp_path / "plan.json")
    read = Plan.read(tmp_path / "plan.json")
    assert read == made()
    assert read.to_json() == made().to_json()
    assert read.groups == made().groups
    assert read.predicted == made().predicted
    assert [group.predicted for group in read.groups] == [group.predicted for group in made().groups]


def test_the_hash_covers_groups():
    other = [
        plan(PUBLIC, 1.0, users={"DE": 20_000, "FR": 10_001, "IT": 4_999}),
        plan(Schema({"country": Public(["DE", "FR", "ES"]), **PRIVATE}), 1.0, users=35_000),
        plan(Schema({"land": COUNTRIES, **PRIVATE}), 1.0, users={"DE": 20_000, "FR": 10_000, "IT": 5_000}),
        plan(PRIVATE, 1.0, users=35_000),
    ]
    assert len({by_country().fingerprint, *(each.fingerprint for each in other)}) == 5


def forged(made: Plan, change: Any) -> str:
    """The plan with other fields, and a hash that fits them."""
    stored = json.loads(made.to_json())
    change(stored)
    own = {name: value for name, value in stored.items() if name not in plan_files.BESIDE}
    return json.dumps({**stored, "hash": plan_files.digest(own)})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda stored: stored["groups"].pop(), "its groups are not those"),
        (lambda stored: stored.pop("groups"), "its groups are not those"),
        (lambda stored: stored.pop("budgets"), "its groups are not those"),
        (lambda stored: stored["budgets"]["careful"].update(epsilon=0.4), "does not keep the guarantee"),
        (lambda stored: stored["budgets"].pop("open"), "its groups are not those"),
        (lambda stored: stored["parts"][0].update(budget="open"), "expected one number for each question"),
        (lambda stored: [part.pop("budget") for part in stored["parts"]], "a budget has no parts"),
        (lambda stored: stored["schema"].pop("budget"), "it has groups"),
        (lambda stored: stored.update(epsilon=2.0), "was changed"),
        (lambda stored: stored["prediction"]["asked"].pop("open"), "its groups are not those"),
    ],
)
def test_a_forged_plan_is_refused(change: Any, match: str):
    with pytest.raises(ParameterError, match=match):
        Plan.from_json(forged(by_budget(), change))


# All users -----------------------------------------------------------------------------------------------------------


def merged(made: Plan, tally: PlanTally) -> PlanTally:
    """The tally of the same reports as of a plan without groups."""
    asked = made.groups[0].asked
    summed = {part.name: sum(tally.parts[group.part(part).name] for group in made.groups) for part in asked.parts}
    return PlanTally(asked.fingerprint, summed)  # type: ignore[arg-type]


@pytest.mark.parametrize("refine", [None, "auto"])
def test_public_groups_cost_nothing_over_all_users(refine: str | None):
    """To the bit what a plan without groups would have told from the same reports."""
    made = plan(DAYS, 1.0, users=6_000, ask=["mean(income)", "median(age)", "histogram(job)", "sum(income)"])
    tally = made.tally(made.randomize(people(6_000), seed=2))
    found, alone = (
        made.estimate(tally, refine=refine),
        made.groups[0].asked.estimate(merged(made, tally), refine=refine),
    )
    assert list(found) == list(alone)
    for name in found:
        assert np.array_equal(found[name].value, alone[name].value)
        assert np.array_equal(found[name].stderr, alone[name].stderr)
        assert np.array_equal(found[name].interval(), alone[name].interval())


def test_ranges_are_of_all_users_and_by_group():
    made = plan(PUBLIC, 2.0, users=30_000, ask=["ranges(age, income)"])
    tally = made.tally(made.randomize(people(6_000), seed=2))
    found = made.estimate(tally)
    assert found.ranges().n == 6_000
    assert sum(each.ranges().n for each in found.by("country").values()) == 6_000
    with pytest.raises(ParameterError, match="no sum of such fits"):
        made.estimate(tally, sizes={"DE": 1, "FR": 1, "IT": 1})


SMALL = Schema({"job": Categorical(["a", "b"])})


def collections(made: Plan, holders: list[tuple[str, int]]) -> Iterator[tuple[Fraction, PlanTally]]:
    """Every collection from users with a group and a category, with its exact probability."""
    by_name = {group.values[0]: group for group in made.groups}
    mechanisms = [by_name[group].asked.parts[0].mechanism for group, _ in holders]
    rows = [mechanism.channel().row(job) for mechanism, (_, job) in zip(mechanisms, holders, strict=True)]
    for outputs in product(*(range(len(row)) for row in rows)):
        chance = math.prod((row[y] for row, y in zip(rows, outputs, strict=True)), start=Fraction(1))
        reports = {part.name: np.empty(0, dtype=part.mechanism.dtype) for part in made.parts}
        for (group, _), y, mechanism in zip(holders, outputs, mechanisms, strict=True):
            name = by_name[group].part(by_name[group].asked.parts[0]).name
            reports[name] = np.append(reports[name], np.asarray(mechanism.outputs())[y : y + 1])
        yield chance, made.tally(reports)


HOLDERS = [("careful", 0), ("careful", 0), ("careful", 1), ("open", 1), ("open", 1)]


@lru_cache
def small() -> Plan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plan(SMALL, {"careful": 0.7, "open": 2.0}, users={"careful": 300, "open": 200})


def expected(options: dict[str, Any]) -> float:
    """The mean of the estimated share of "b" over all collections: exact but for rounding of each estimate."""
    every = list(collections(small(), HOLDERS))
    assert sum(chance for chance, _ in every) == 1
    return float(
        sum(chance * Fraction(float(small().estimate(tally, **options)["job"].value[1])) for chance, tally in every)
    )


def check_unbiased() -> None:
    """Users chose with an eye on their values: a third of the careful hold "b", and all of the open do."""
    assert abs(expected({}) - 3 / 5) < 1e-12
    assert abs(expected({"sizes": {"careful": 1, "open": 3}}) - (1 / 3 + 3) / 4) < 1e-12
    assert abs(expected({"weights": {"careful": 1, "open": 3}}) - 7 / 9) < 1e-12
    assert abs(expected({"pooling": "reports"}) - 3 / 5) < 1e-12  # all answer the one question


def test_stratified_is_unbiased_whatever_made_people_choose():
    check_unbiased()


def test_inverse_variance_is_not_about_all_users_where_they_chose_by_their_values():
    assert expected({"pooling": "inverse variance"}) > 3 / 5 + 0.2


def test_the_stated_variance_is_the_variance():
    """Of a mean of budgets by their numbers: enumerated, the variance is the sum of the squares of their errors."""
    every = list(collections(small(), HOLDERS))
    shares = [Fraction(float(small().estimate(tally)["job"].value[1])) for _, tally in every]
    mean = sum(chance * share for (chance, _), share in zip(every, shares, strict=True))
    variance = sum(chance * (share - mean) ** 2 for (chance, _), share in zip(every, shares, strict=True))
    parts = []
    for group in small().groups:
        law, count = group.asked.parts[0].mechanism.channel(), sum(name == group.values[0] for name, _ in HOLDERS)
        p, q = law.row(0)[0], law.row(1)[0]
        parts.append(Fraction(count, 25) * p * (1 - p) / (p - q) ** 2)
    assert abs(float(variance) - float(sum(parts))) < 1e-12


def check_unheard() -> None:
    """Nobody of the open has reported: with sizes, all that is known of them is that shares are from 0 to 1."""
    tally = small().tally(small().randomize({"job": ["a", "b"] * 4000, "budget": ["careful"] * 8000}, seed=1))
    alone = small().estimate(tally)["job"]
    found = small().estimate(tally, sizes={"careful": 3, "open": 1})["job"]
    assert np.allclose(found.value, 0.75 * alone.value + 0.125)
    low, high = found.interval(0.95)
    for truth in (0.0, 1.0):  # of the unheard
        assert ((low <= 0.75 * 0.5 + 0.25 * truth) & (0.75 * 0.5 + 0.25 * truth <= high)).all()


def test_who_was_not_heard_of_may_be_like_anything():
    check_unheard()


def test_a_stratum_of_nobody():
    made = by_budget()
    nothing = made.tally({part.name: np.empty(0, dtype=part.mechanism.dtype) for part in made.parts})
    with pytest.raises(EmptyError):
        made.estimate(nothing)
    assert not differs_by_more_than_noise([])


def outside(chance: float, trials: int, false_alarm: float = 1e-6) -> int:
    """How many misses of this chance there are not, but with the probability of a false alarm."""
    total, misses = 1.0, 0
    for misses in range(trials + 1):
        if total <= false_alarm:
            break
        total -= math.comb(trials, misses) * chance**misses * (1 - chance) ** (trials - misses)
    return misses


def check_coverage(options: dict[str, Any], truth_of: Any) -> None:
    """95% intervals of 200 collections, false alarm 1e-6: at most 27 misses, by number.

    The share of "a" and the mean income depend on budget and country, so that a wrong weight shows.
    """
    made, table = by_both(), people(4_000, seed=5)
    truth, misses = truth_of(table), dict[str, Any]()
    for seed in range(200):
        found = made.estimate(made.tally(made.randomize(table, seed=seed)), **options)
        for name in ("mean(income)", "histogram(job)"):
            low, high = (np.ravel(end) for end in found[name].interval(0.95))
            misses[name] = misses.get(name, 0) + ((truth[name] < low) | (truth[name] > high))
    assert max(each.max() for each in misses.values()) <= outside(0.05, 200)


def of_all(table: dict[str, Any]) -> dict[str, Any]:
    return truths(by_both(), [table])


def of_sizes(table: dict[str, Any]) -> dict[str, Any]:
    """The truth of a population with other sizes of the countries."""
    sizes, found = {"DE": 0.2, "FR": 0.2, "IT": 0.6}, dict[str, Any]()
    for country, share in sizes.items():
        own = truths(by_both(), [{name: column[table["country"] == country] for name, column in table.items()}])
        found = {name: found.get(name, 0) + share * each for name, each in own.items()}
    return found


SIZES = {"sizes": {"country": {"DE": 0.2, "FR": 0.2, "IT": 0.6}}}


@pytest.mark.wide
@pytest.mark.parametrize(("options", "truth_of"), [({}, of_all), (SIZES, of_sizes)])
def test_intervals_hold(options: dict[str, Any], truth_of: Any):
    check_coverage(options, truth_of)


def test_weights_of_a_survey_are_sizes_times_counts():
    made, table = by_country(), people(5_000)
    tally = made.tally(made.randomize(table, seed=1))
    counts = {label: int((table["country"] == label).sum()) for label in COUNTRIES.labels}
    weights = {"DE": 0.5, "FR": 2.0, "IT": 3.0}
    weighted = made.estimate(tally, weights=weights)
    sized = made.estimate(tally, sizes={label: counts[label] * weights[label] for label in weights})
    for name in weighted:
        assert np.allclose(weighted[name].value, sized[name].value, rtol=1e-12)
        assert np.allclose(weighted[name].stderr, sized[name].stderr, rtol=1e-12)
    each = made.estimate(tally).by("country")
    total = sum(counts[label] * weights[label] for label in weights)
    mean = sum(counts[label] * weights[label] / total * each[label]["income"].value for label in weights)
    assert np.allclose(weighted["income"].value, mean)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"sizes": {"DE": 1, "FR": 1}}, "no number for IT"),
        ({"sizes": {"DE": 1, "FR": 1, "IT": -1}}, "above 0"),
        ({"sizes": {"DE": 1, "FR": 1, "IT": math.nan}}, "above 0"),
        ({"sizes": 3}, "sizes maps groups"),
        ({"weights": {"XX": 1}}, "no group of this schema"),
        ({"sizes": {"DE": 1, "FR": 1, "IT": 1}, "weights": {"DE": 1, "FR": 1, "IT": 1}}, "give one of them"),
        ({"pooling": "best"}, "pooling must be"),
        ({"sizes": {"DE": 1, "FR": 1, "IT": 1}, "pooling": "reports"}, 'for pooling="stratified"'),
        ({"users": 10}, "users must be at least 50"),
    ],
)
def test_odd_sizes(options: dict[str, Any], match: str):
    tally = by_country().tally(by_country().randomize(people(50), seed=1))
    with pytest.raises(ParameterError, match=match):
        by_country().estimate(tally, **options)


def test_keys_are_put_together():
    schema = Schema({"films": KeyValue(["Alien", "Heat", "Totoro"], size=2, low=1, high=5)})
    made = plan(schema, {"careful": 1.0, "open": 4.0}, users={"careful": 20_000, "open": 20_000})
    rng = np.random.default_rng(3)
    held = [{"Alien": 5.0, "Heat": 2.0} if row < 0.5 else {"Totoro": 3.0} for row in rng.random(40_000)]
    budget = ["open" if "Heat" in films else "careful" for films in held]  # by what they hold
    found = made.estimate(made.tally(made.randomize({"films": held, "budget": budget}, seed=1)))
    share = np.mean([each == "open" for each in budget])
    for name, truth in {
        "presence(films)": [share, share, 1 - share],
        "conditional_mean(films)": [5.0, 2.0, 3.0],
    }.items():
        low, high = found[name].interval(1 - 1e-6)
        assert ((low <= truth) & (truth <= high)).all()
        assert (high - low < 1.5).all()


def test_a_budget_that_pools_by_its_error_says_on_what_condition():
    made = by_budget()
    tally = made.tally(made.randomize(people(30_000), seed=1))
    plain, pooled = (made.estimate(tally, pooling=each) for each in ("stratified", "inverse variance"))
    for name in plain:
        assert (np.asarray(pooled[name].stderr) < np.asarray(plain[name].stderr)).all()
    assert any("only if those of every budget are alike" in note for note in pooled["income"].notes)
    assert "differ by more than their noise" in pooled["job"].explain()
    assert not any("alike" in note for note in plain["income"].notes)


def test_a_sum_of_covariances():
    made = by_budget()
    found = made.estimate(made.tally(made.randomize(people(5_000), seed=1))).single("job")
    whole = found.total(["a", "b", "c"])
    assert found.covariance is not None
    assert np.allclose(found.covariance.variance, np.square(found.stderr))
    assert float(whole.stderr) < 0.02 * float(np.max(found.stderr))  # what all shares add up to is known


def test_stratified_of_one_is_itself():
    made = by_budget()
    one = made.estimate(made.tally(made.randomize(people(5_000), seed=1))).single("income")
    assert float(stratified_estimate([one], [1.0]).value) == float(one.value)


# By value ------------------------------------------------------------------------------------------------------------


def test_results_by_a_value_are_those_of_its_users_alone():
    made, table = by_country(), people(5_000)
    found = made.estimate(made.tally(made.randomize(table, seed=1))).by("country")
    assert list(found) == ["DE", "FR", "IT"]
    for place, label in enumerate(COUNTRIES.labels):
        asked = made.groups[place].asked
        tally = made.tally(made.randomize(table, seed=1))
        own = {part.name: tally.parts[made.groups[place].part(part).name] for part in asked.parts}
        alone = asked.estimate(PlanTally(asked.fingerprint, own))
        for name in alone:
            assert np.array_equal(found[label][name].value, alone[name].value)


def test_a_series_holds_at_once():
    made = plan(DAYS, 1.0, users=60_000)
    found = made.estimate(made.tally(made.randomize(people(6_000), seed=1))).by("day")
    each, all_of_it = found.interval(0.95), found.interval(0.95, simultaneous=True)
    count = sum(low.size for low, _ in each.values())
    for name, (low, high) in all_of_it.items():
        assert (high - low > each[name].high - each[name].low).all()
        for place, day in enumerate(found):
            ends = found[day][name].interval(1 - 0.05 / count)
            assert np.allclose(np.ravel(ends.low), low[place])
    assert found.table(simultaneous=True).columns["low 95%"][0] <= found.table().columns["low 95%"][0]
    assert found.series("income").interval(simultaneous=True)["Mon"].high > found["Mon"]["income"].interval().high


def test_changes_are_of_independent_users():
    made = plan(DAYS, 1.0, users=60_000)
    found = made.estimate(made.tally(made.randomize(people(6_000), seed=1))).by("day")
    change = found.change("income", "Mon", "Tue")
    one, other = found["Mon"]["income"], found["Tue"]["income"]
    assert float(change.value) == float(other.value) - float(one.value)
    assert float(change.stderr) == pytest.approx(math.hypot(float(one.stderr), float(other.stderr)))
    assert list(found.changes("job")) == ["Mon to Tue"]


def test_a_value_that_nobody_has():
    made, table = by_country(), people(500)
    table["country"] = np.where(table["country"] == "IT", "DE", table["country"])
    found = made.estimate(made.tally(made.randomize(table, seed=1))).by("country")
    assert list(found) == ["DE", "FR"]
    assert found.silent == ("IT",)
    assert "Nobody reported with IT" in found.explain()
    with pytest.raises(UnknownError, match="nobody reported with this value of country"):
        found["IT"]
    with pytest.raises(UnknownError, match="there are country"):
        made.estimate(made.tally(made.randomize(table, seed=1))).by("day")
    alone = plan(PRIVATE, 1.0, users=1000)
    with pytest.raises(UnknownError, match="no Public attributes"):
        alone.estimate(alone.tally(alone.randomize(table, seed=1))).by("country")


def test_pictures_of_a_trend(tmp_path):
    pytest.importorskip("matplotlib")
    made = plan(DAYS, 1.0, users=60_000)
    found = made.estimate(made.tally(made.randomize(people(6_000), seed=1))).by("day")
    found.plot().savefig(tmp_path / "all.png")
    found.plot("income", simultaneous=False).savefig(tmp_path / "one.png")
    assert {"day", "question"} <= set(found.table().columns)
    assert found.to_pandas().shape[0] == 2 * (5 + 1 + 3) if dither.errors.require("pandas", "pandas") else True


# What is predicted ---------------------------------------------------------------------------------------------------


def test_errors_of_groups_are_predicted():
    made = by_country()
    for group in made.groups:
        alone = plan(PRIVATE, 1.0, users=group.users)
        for name, error in group.predicted.items():
            assert error == pytest.approx(alone.predicted[name], rel=0.02)
    assert made.group_table().columns["users"] == ["20,000", "10,000", "5,000"]


def test_totals_of_groups_are_predicted():
    made = plan(PUBLIC, 1.0, users={"DE": 20_000, "FR": 10_000, "IT": 5_000}, ask=["sum(income)", "mean(income)"])
    for group in made.groups:
        assert group.predicted["sum(income)"] == pytest.approx(group.users * group.predicted["mean(income)"])
    assert made.predicted["sum(income)"] == pytest.approx(35_000 * made.predicted["mean(income)"])
    budgets = plan(PRIVATE, BUDGETS, users={"careful": 5_000, "open": 9_000}, ask=["sum(income)", "mean(income)"])
    assert budgets.predicted["sum(income)"] == pytest.approx(14_000 * budgets.predicted["mean(income)"])


def test_a_plan_of_groups_is_rehearsed():
    for made in EVERY:
        found = made().simulate(people(2_000), 5)
        assert found.repetitions == 5
        assert set(found.rms()) == {"distribution(age)", "mean(income)", "histogram(job)"}


# In words ------------------------------------------------------------------------------------------------------------


def test_what_is_public_is_said():
    for made in EVERY:
        told = made().explain()
        assert all(f"{name} (" in told.splitlines()[0] for name in made().public)
        statement = made().statement(shuffler="the post").text()
        assert "What every report says openly" in statement
        assert "the smallest group" in " ".join(statement.split())
    assert "careful: epsilon 0.5 (exact); open: epsilon 3 (exact)" in " ".join(by_budget().statement().text().split())
    assert "says openly" not in plan(PRIVATE, 1.0, users=100_000).statement().text()


def test_liars_choose_the_budget_that_reaches_farthest():
    every = [asked.influence(0.01) for asked in by_budget().budgets.values()]
    worths = {worth.question: worth for worth in by_budget().influence(0.01).worths}
    for worth in (worth for each in every for worth in each.worths):
        assert worths[worth.question].worst_shift(Fraction(1, 100)) >= worth.worst_shift(Fraction(1, 100))
    alone = by_country().groups[0].asked.influence(0.01)
    assert by_country().influence(0.01).worths == alone.worths


def test_honest_reports_of_groups_are_good():
    for made in EVERY:
        tally = made().tally(made().randomize(people(3_000), seed=1))
        assert made().goodness(tally).passed
        liar = people(3_000)
        forged_reports = made().randomize(liar, seed=1)
        name = next(each for each in forged_reports if each.startswith("histogram"))
        dtype = forged_reports[name].dtype
        forged_reports = {each: np.asarray(some) for each, some in forged_reports.items()}
        forged_reports[name] = np.zeros(2_000, dtype=dtype)
        assert not made().goodness(made().tally(forged_reports)).passed
