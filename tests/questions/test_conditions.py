"""Shares of users who fulfil a condition: how conditions are read and stored, and exactly whom they hold for."""

import json
import math
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

from dither import Categorical, Numeric, Ordinal, Plan, Schema
from dither.errors import ParameterError
from dither.planning.trial import truths
from dither.questions import named, questions
from dither.questions.conditions import ShareOf
from questions.population import (
    SCHEMA,
    check_single_reports,
    check_stored,
    check_within_six_errors,
    forged,
    people,
    planned,
)

ASKED = (
    "share(age >= 31 and job = 'nurse')",
    "share(age >= 31)",
    "share((age between 20 and 29 or age >= 60))",
    "share(income <= 50000 and sex = 'f')",
    "share(job in ('driver', 'none'))",
)


@pytest.mark.parametrize(
    ("text", "written", "details"),
    [
        ("share(age > 30)", "share(age >= 31)", {"age": [[31, 100]]}),
        (" share ( age>30 ) ", "share(age >= 31)", {"age": [[31, 100]]}),
        ("share(not age <= 30)", "share(age >= 31)", {"age": [[31, 100]]}),
        ("share(age < 31)", "share(age <= 30)", {"age": [[18, 31]]}),
        ("share(age = 30)", "share(age = 30)", {"age": [[30, 31]]}),
        ("share(age <> 30)", "share((age <= 29 or age >= 31))", {"age": [[18, 30], [31, 100]]}),
        ("share(job = 'nurse' AND age > 30)", ASKED[0], {"age": [[31, 100]], "job": ["nurse"]}),
        ("share(job <> 'nurse')", "share(job in ('driver', 'other', 'none'))", {"job": ["driver", "other", "none"]}),
        ("share(income < 50000)", "share(income < 50000)", {"income": [[0.0, 50_000.0]]}),
        ("share(income <= 50000)", "share(income <= 50000)", {"income": [[0.0, math.nextafter(50_000.0, math.inf)]]}),
        (
            "share(not income <= 50000)",
            "share(income > 50000)",
            {"income": [[math.nextafter(50_000.0, math.inf), 200_000.0]]},
        ),
        ("share(age > 30 and age >= 18)", "share(age >= 31)", {"age": [[31, 100]]}),
    ],
)
def test_conditions_have_one_text(text, written, details):
    (one,) = questions(SCHEMA, [text])
    assert str(one) == written
    assert one.details == details
    assert questions(SCHEMA, [written]) == (one,)
    assert one.means(text)
    assert named([one], text.replace("share", " share ")) is one
    assert ShareOf.restored(SCHEMA, details) == one
    with pytest.raises(ParameterError, match="each only once"):
        questions(SCHEMA, [text, written])


def test_texts_that_mean_another_condition():
    (one,) = questions(SCHEMA, ["share(age > 30)"])
    for other in ("share(age > 31)", "count(age > 30)", "share(wealth > 3)", "share(age > 30", "share()", "age > 30"):
        assert not one.means(other)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("share(wealth > 3)", "there is no attribute 'wealth'; there are 4"),
        ("share(films = 'Heat')", "there is no attribute 'films'"),
        ("share(age >= 18)", "a share is that of users for whom a condition holds: this one holds for everybody"),
        ("share(job in ('nurse', 'driver', 'other', 'none'))", "this one holds for everybody"),
        ("share(income >= 0 and sex in ('f', 'm'))", "this one holds for everybody"),
        ("share(age > 30 and age < 20)", "no value of age satisfies all conditions on it"),
        ("share(age > 99)", "age"),
        ("share(age > 200)", "age: 200 lies outside of its values, which go from 18 to 99"),
        ("share(age > 'x')", "age: 'x' is a text"),
        ("share(job = 'pilot')", "is not one of its labels"),
        ("share(job > 'nurse')", "job"),
        ("share(income = 5)", "no share is known at one value"),
        ("share(age = 30 or job = 'nurse')", "or between different attributes"),
        ("share(age)", "which is no condition"),
        ("share()", "the text of the query is empty"),
        ("share", "there is no such question"),
        ("share(age > 30", "there is no such question"),
    ],
)
def test_bad_conditions(text, reason):
    with pytest.raises(ParameterError, match=reason):
        questions(SCHEMA, [text])


def test_a_schema_of_keys_has_no_conditions():
    keys = Schema({"films": SCHEMA["films"]})
    with pytest.raises(ParameterError, match="conditions are about numbers and labels, and this schema has none"):
        questions(keys, ["share(films > 3)"])


# Whom it holds for ---------------------------------------------------------------------------------------------------

EDGES = Schema(
    {
        "n": Ordinal(-5, 5, missing=2),
        "x": Numeric(0, 1, missing=0.25),
        "l": Categorical(["a", "it's", "c"], missing="c"),
    }
)


def held(text: str, record: dict[str, Any]) -> int:
    """By a column, and by a device for its one value: the same."""
    (one,) = questions(EDGES, [f"share({text})"])
    by_columns = one.join([column.encode([record.get(column.name)], "substitute") for column in one.columns])
    by_values = one.join([np.array([column.encode_value(record.get(column.name))]) for column in one.columns])
    assert by_columns.tolist() == by_values.tolist()
    return int(by_columns[0])


WHOLE = {
    "n > 2": {-5: 0, 1: 0, 2: 0, 3: 1, 5: 1, None: 0, "x": 0, 99: 1, -99: 0, 2.5: 0},
    "n >= 2": {1: 0, 2: 1, 3: 1, None: 1, "x": 1},
    "n < -4": {-5: 1, -4: 0, -99: 1, None: 0},
    "n = 5": {4: 0, 5: 1, 99: 1},
    "n between -1 and 1": {-2: 0, -1: 1, 0: 1, 1: 1, 2: 0},
    "n <> 0": {-1: 1, 0: 0, 1: 1},
    "n in (-5, -4, 5)": {-5: 1, -4: 1, -3: 0, 4: 0, 5: 1},
}
NUMBERS = {
    "x >= 0.25": {0.25: 1, 0.25 - 1e-9: 0, 0.0: 0, 1.0: 1, None: 1, 7.0: 1, math.nan: 1},
    "x < 0.25": {0.25: 0, 0.25 - 1e-9: 1, 0.0: 1, -3.0: 1, 1.0: 0, None: 0},
    "x between 0.1 and 0.3": {0.1: 1, 0.1 - 1e-9: 0, 0.2: 1, 0.35: 0},
    "x >= 0.9": {1.0: 1, 1 - 1e-9: 1, 0.9: 1, 99.0: 1},
    "x <= 0.1 or x >= 0.9": {0.0: 1, 0.05: 1, 0.5: 0, 1.0: 1, None: 0},
}
LABELS = {
    "l = 'it''s'": {"a": 0, "it's": 1, "c": 0, None: 0, "d": 0, 7: 0},
    "l <> 'a'": {"a": 0, "it's": 1, "c": 1, None: 1, "d": 0},
}


def check_edges() -> None:
    """Exactly at the ends of conditions and of domains, and for what does not fit."""
    for name, cases in (("n", WHOLE), ("x", NUMBERS), ("l", LABELS)):
        for text, expected in cases.items():
            assert {value: held(text, {name: value}) for value in expected} == expected, text


def test_edges():
    check_edges()


def test_several_attributes_must_all_fulfil_theirs():
    text = "n > 2 and l = 'a'"
    assert [held(text, {"n": n, "l": label}) for n, label in ((3, "a"), (3, "c"), (2, "a"), (2, "c"))] == [1, 0, 0, 0]


@pytest.mark.parametrize("value", np.random.default_rng(3).uniform(-0.1, 1.1, 20).tolist())
def test_a_number_at_its_own_threshold(value):
    """Any number, as it is written: the threshold is encoded as values are."""
    limit = min(max(value, 0.01), 0.99)
    assert held(f"x >= {limit!r}", {"x": limit}) == 1
    assert held(f"x >= {limit!r}", {"x": math.nextafter(limit, -1) - 1e-12}) == 0


# What comes of it ----------------------------------------------------------------------------------------------------


def test_truths_are_those_of_numpy():
    own, true = people(), truths(planned(*ASKED), [people()])
    age, job = own["age"], own["job"]
    expected = [
        (age > 30) & (job == "nurse"),
        age > 30,
        ((age >= 20) & (age < 30)) | (age >= 60),
        (own["income"] < 50_000) & (own["sex"] == "f"),
        (job == "driver") | (job == "none"),
    ]
    assert [float(true[name][0]) for name in ASKED] == [float(each.mean()) for each in expected]


def test_it_is_estimated():
    plan = planned(*ASKED)
    check_within_six_errors(plan, *ASKED)
    check_within_six_errors(plan, *ASKED, refine="auto")
    part = next(part for part in planned(ASKED[0]).parts)
    assert part.mechanism.reading.domain.k == 2  # type: ignore[attr-defined]


def test_single_reports_and_files():
    check_single_reports(planned(*ASKED))
    check_stored(planned(*ASKED))
    check_stored(planned("count(age > 30)", "share(age > 30)"))


LOAD = """
    import sys
    sys.modules["sqlglot"] = None
    import dither
    plan = dither.Plan.from_json(sys.stdin.read())
    record = {"age": 31, "income": 100.0, "job": "nurse", "sex": "f"}
    sent = plan.report(record, seed=5)
    print(plan.fingerprint)
    print([each.tobytes().hex() for each in sent.values()])
    print([own.tolist() for own in plan.encoded(record).values()])
"""


def test_a_device_needs_no_parser():
    plan = planned(*ASKED, "count(age >= 40 and sex = 'm')")
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LOAD)], input=plan.to_json(), capture_output=True, text=True, check=True
    )
    record = {"age": 31, "income": 100.0, "job": "nurse", "sex": "f"}
    sent = [each.tobytes().hex() for each in plan.report(record, seed=5).values()]
    encoded = [own.tolist() for own in plan.encoded(record).values()]
    assert found.stdout.splitlines() == [plan.fingerprint, str(sent), str(encoded)]


@pytest.mark.parametrize(
    "own",
    [
        {"age": [[30, 100]], "job": ["nurse"]},  # other pieces than the text says
        {"age": [[31, 100]]},
        {"age": [[31, 100]], "job": ["nurse"], "sex": ["f"]},
        {"age": [[31, 100]], "job": ["pilot"]},
        {"age": [[31, 100]], "job": []},
        {"age": [[31, 101]], "job": ["nurse"]},
        {"age": [[100, 31]], "job": ["nurse"]},
        {"age": [[31, 60], [50, 100]], "job": ["nurse"]},
        {"age": [[31.0, 100]], "job": ["nurse"]},
        {"age": [[True, 100]], "job": ["nurse"]},
        {"age": [31, 100], "job": ["nurse"]},
        {"age": [[31, 60, 100]], "job": ["nurse"]},
        {"age": [["31", "100"]], "job": ["nurse"]},
        {"age": [[18, 100]], "job": ["nurse", "driver", "other", "none"]},
        {"wealth": [[31, 100]], "job": ["nurse"]},
        {"films": [[31, 100]]},
        {},
    ],
    ids=str,
)
def test_stored_conditions_that_were_changed_are_refused(own):
    plan = planned(ASKED[0])
    assert Plan.from_json(forged(plan, conditions={ASKED[0]: {"age": [[31, 100]], "job": ["nurse"]}})) == plan
    with pytest.raises(ParameterError, match=r"this is not a plan|was changed after it was written"):
        Plan.from_json(forged(plan, conditions={ASKED[0]: own}))


def test_conditions_of_nothing_that_is_asked_are_refused():
    plan, own = planned(ASKED[1]), {"age": [[31, 100]]}
    with pytest.raises(ParameterError, match="was changed after it was written"):
        Plan.from_json(forged(plan, conditions={ASKED[1]: own, "share(age >= 40)": {"age": [[40, 100]]}}))


def test_a_changed_file_without_a_new_hash_is_refused():
    stored = json.loads(planned(ASKED[1]).to_json())
    stored["conditions"][ASKED[1]]["age"] = [[30, 100]]
    with pytest.raises(ParameterError, match="its hash does not match"):
        Plan.from_json(json.dumps(stored))


@pytest.mark.parametrize(
    "derived",
    [
        ["variance(income)", "mean(income)"],  # reports are about the second
        ["variance(age)"],  # rests on what is not asked
        ["variance(income)", "variance(income)"],
        ["variance(wealth)"],
        ["nonsense"],
        ["std(income)"],  # another one: then its hash is another's, and its prediction has no error of it
        [],
    ],
    ids=str,
)
def test_derived_questions_that_were_changed_are_refused(derived):
    plan = planned("variance(income)")
    assert Plan.from_json(forged(plan, derived=["variance(income)"])) == plan
    with pytest.raises(ParameterError):
        Plan.from_json(forged(plan, derived=derived))


@pytest.mark.parametrize("edge", [0.25, 30.0, 1e-3, 12345.678])
def test_who_is_exactly_at_an_edge_is_inside_or_not_as_it_is_written(edge: float):
    schema = Schema({"x": Numeric(0, 100_000)})
    values = [edge * 0.999, edge, edge * 1.001]
    for sign, expected in (("<", [1, 0, 0]), ("<=", [1, 1, 0]), (">", [0, 0, 1]), (">=", [0, 1, 1])):
        (question,) = questions(schema, [f"share(x {sign} {edge!r})"])
        (column,) = question.columns
        assert column.encode(values).tolist() == expected, sign
        assert [column.encode_value(value) for value in values] == expected, sign
        assert str(question) == f"share(x {sign} {edge:.10g})"
        assert questions(schema, [str(question)])[0] == question
