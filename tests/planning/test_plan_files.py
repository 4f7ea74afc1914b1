"""Plans as files: what is written is read again, and whatever else is refused by the name of the field."""

import copy
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dither
from dither import Plan, mechanisms, plan
from dither.errors import ParameterError
from dither.planning import plan_files
from marks import one_in
from planning.test_plans import SCHEMA

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

STORED = Path(__file__).parents[1] / "stored"


@cache
def written() -> str:
    """A plan of several questions, as a file."""
    return plan(SCHEMA, 1.0, users=1000).to_json()


FIRST_HASH = "4fb6ddeea21a8bfbbbc13db5250949a44568a09f57babf956c79efc50eb8d98b"
FIRST_REPORTS = "47dc540c94ceb704a23875c11273e16bb0b8a87aed84de911f2133568115f254"


def test_stored_plans():
    best = plan(SCHEMA, 1.0, users=1000)
    text = best.to_json()
    again = Plan.from_json(text)
    assert again == best
    assert again.fingerprint == best.fingerprint
    stored = json.loads(text)
    for change in ({"epsilon": 2.0}, {"users": 5}, {"hash": "0"}, {"reported": 3}):
        with pytest.raises(ParameterError, match="hash"):
            Plan.from_json(json.dumps({**stored, **change}))
    with pytest.raises(ParameterError, match="newer"):
        Plan.from_json(json.dumps({**stored, "format": 99}))
    for change in ({"format": 0}, {"format": "1"}):
        with pytest.raises(ParameterError, match="not a plan"):
            Plan.from_json(json.dumps({**stored, **change}))
    with pytest.raises(ParameterError, match="not a plan"):
        Plan.from_json('{"format": 1}')
    for junk in ("", "[]", "{}", "3"):
        with pytest.raises(ParameterError, match="not a plan"):
            Plan.from_json(junk)


def with_prediction(stored: dict) -> dict:
    """The same, with a prediction that fits its questions."""
    asked = [name for part in stored["parts"] for name in part.get("questions", ())]
    return {**stored, "prediction": {**stored["prediction"], "errors": dict.fromkeys(asked, 1.0)}}


def rehashed(stored: dict) -> str:
    own = {key: value for key, value in stored.items() if key not in plan_files.BESIDE}
    text = json.dumps(own, sort_keys=True, separators=(",", ":"))
    return json.dumps({**stored, "hash": hashlib.sha256(text.encode()).hexdigest()})


def test_a_forged_plan_with_a_right_hash_is_refused():
    stored = json.loads(written())
    assert Plan.from_json(rehashed(stored))
    part = stored["parts"][1]
    loud = dither.Hybrid(2.0).to_dict()
    for change in (
        {"epsilon": 0.5},
        {"reported": 2},
        {"reported": 0},
        {"reported": 4},
        {"users": 0},
        {"epsilon": "1"},
        {"parts": [part, part]},
        {"parts": []},
        {"parts": [{**part, "mechanism": loud}]},
        {"parts": [{**part, "mechanism": stored["parts"][0]["mechanism"]}]},
        {"parts": [{**part, "questions": ["mean(age)", "mean(income)"]}]},
        {"parts": [{**part, "questions": ["mean(nothing)"]}]},
        {"parts": [{**part, "weight": 0}]},
        {"parts": [{}]},
        {"schema": {}},
    ):
        with pytest.raises(ParameterError):
            Plan.from_json(rehashed(with_prediction({**stored, **change})))


def test_the_certificate_is_stored_and_compared():
    best = plan(SCHEMA, 1.0, users=1000, delta=1e-6)
    stored = json.loads(best.to_json())
    assert stored["version"] == dither.__version__
    assert stored["certificate"] == {
        "epsilon": best.guarantee.epsilon,
        "delta": best.guarantee.delta,
        "established": best.guarantee.established,
    }
    older = {key: value for key, value in stored.items() if key not in ("version", "certificate")}
    assert Plan.from_json(json.dumps(older)).fingerprint == best.fingerprint
    assert Plan.from_json(json.dumps({**stored, "version": "9.9"})) == best
    for change in ({"epsilon": 0.5}, {"epsilon": 1.1}, {"delta": 1e-3}, {"delta": -1.0}):
        with pytest.raises(ParameterError, match="states another guarantee"):
            Plan.from_json(json.dumps({**stored, "certificate": {**stored["certificate"], **change}}))
    for wrong in ("1", 1.0, {}, [], {"epsilon": "1", "delta": 0}):
        with pytest.raises(ParameterError):
            Plan.from_json(json.dumps({**stored, "certificate": wrong}))


def test_a_plan_that_would_be_written_otherwise_is_refused():
    stored = json.loads(written())
    part = stored["parts"][0]
    first, *rest = part["mechanism"]["weights"]
    other = {**part, "mechanism": {**part["mechanism"], "weights": [f"0{first}", *rest]}}
    age = stored["schema"]["age"]
    for change in (
        {"epsilon": 1},
        {"delta": 0},
        {"schema": {**stored["schema"], "age": {**age, "missing": None}}},
        {"parts": [other, *stored["parts"][1:]]},
    ):
        with pytest.raises(ParameterError, match="hash does not match"):
            Plan.from_json(rehashed({**stored, **change}))


def test_junk_is_refused_in_the_usual_words():
    stored = json.loads(written())
    part = stored["parts"][0]
    many = {**part, "mechanism": {**part["mechanism"], "weights": ["9" * 5000, "1"]}}
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    junk: list[Any] = [
        rehashed({**stored, "parts": [many, *stored["parts"][1:]]}),
        rehashed({**stored, "parts": [{**part, "mechanism": deep}, *stored["parts"][1:]]}),
        '{"format": 1, "users": ' + "9" * 5000 + "}",
        "[" * 100_000,
        '{"format": 1, "hash": "x", "a": ' + "[" * 100_000,
        None,
        7,
        b"\xff\xfe",
    ]
    for text in junk:
        with pytest.raises(ParameterError):
            Plan.from_json(text)


def test_predictions_have_their_shape():
    stored = json.loads(plan(SCHEMA, 1.0, users=1000, prior={"age": "uniform"}).to_json())
    good = stored["prediction"]
    assert Plan.from_json(json.dumps(stored)).prediction.known == ("distribution(age)",)
    old = {key: value for key, value in good.items() if key != "known"}
    assert "like those of the prior" in Plan.from_json(json.dumps({**stored, "prediction": old})).explain()
    errors, compared = good["errors"], good["compared"]
    for bad in (
        None,
        [],
        {},
        {**good, "more": 1},
        {**good, "errors": {}},
        {**good, "errors": {**errors, "mean(other)": 1.0}},
        {**good, "errors": {**errors, "mean(income)": float("nan")}},
        {**good, "errors": {**errors, "mean(income)": "1"}},
        {**good, "errors": {**errors, "mean(income)": -1.0}},
        {**good, "errors": list(errors)},
        {**good, "compared": {}},
        {**good, "compared": {**compared, "other": float("inf")}},
        {**good, "compared": {**compared, "other": 10**400}},
        {**good, "limit": -1.0},
        {**good, "limit": None},
        {**good, "limit": True},
        {**good, "informed": 1},
        {**good, "informed": False},
        {**good, "known": ["mean(other)"]},
        {**good, "known": [[]]},
        {**good, "known": 3},
    ):
        with pytest.raises(ParameterError, match="not a plan"):
            Plan.from_json(json.dumps({**stored, "prediction": bad}))


def test_a_plan_of_the_first_version_keeps_its_hash_and_its_reports():
    """Written once and never again: later versions must read it, to the bit."""
    text = (Path(__file__).parents[1] / "stored" / "plan-first.json").read_text(encoding="utf-8")
    old = Plan.from_json(text)
    assert old.fingerprint == json.loads(text)["hash"] == FIRST_HASH
    assert Plan.from_json(old.to_json()).fingerprint == FIRST_HASH
    data = {"a": [0.5, -3.0], "b": [10.0, 20.0], "job": ["nurse", "other"], "age": [4, 5]}
    reports = old.randomize(data, seed=7)
    found = hashlib.sha256(b"".join(np.asarray(rows).tobytes() for rows in reports.values())).hexdigest()
    assert found == FIRST_REPORTS


def test_integers_survive_readers_that_round():
    """Readers of JSON that know only doubles must find every integer that is sampled as it is."""
    text = plan(SCHEMA, 1.0, users=1000).to_json()
    assert json.loads(text) == json.loads(text, parse_int=lambda digits: int(float(digits)))


# Errors name the field --------------------------------------------------------------------------------------------


def changed(stored: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at one place; `...` takes it out."""
    made = copy.deepcopy(stored)
    inner = made
    for step in path[:-1]:
        inner = inner[step]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return made


SECRET = "987654321"  # noqa: S105
GRR = ("parts", 2, "mechanism")


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("parts", 2, "weight"), 0, "parts[2].weight: expected int >= 1"),
        (("parts", 2, "weight"), True, "parts[2].weight: expected int, got bool"),
        (("parts", 0, "weight"), 1 << 60, "parts[0].weight: expected int <= 9007199254740992"),
        (("parts", 0, "note"), SECRET, "parts[0]: contains unknown field note"),
        (("parts", 1, "questions"), ..., "parts[1]: missing required field questions"),
        (("parts", 1, "questions"), SECRET, "parts[1].questions: expected array, got str"),
        (("parts", 1, "questions"), [], "parts[1].questions: expected array of length >= 1"),
        (("parts", 1, "questions", 0), 3, "parts[1].questions[0]: expected str, got int"),
        (("parts", 0, "mechanism"), None, "parts[0].mechanism: expected object, got null"),
        ((*GRR, "k"), SECRET, "parts[2].mechanism: GRR: k: expected int, got str"),
        (
            ("parts", 2, "mechanism", "k"),
            ...,
            "mechanism: GRR: missing k; there are k, epsilon, delta, weights",
        ),
        (
            ("parts", 2, "mechanism", "kk"),
            3,
            "mechanism: GRR: unknown kk; there are k, epsilon, delta, weights",
        ),
        (
            ("parts", 2, "mechanism", "weights"),
            ...,
            "mechanism: GRR: missing weights, the integers that are sampled",
        ),
        (
            ("parts", 2, "mechanism", "weights", 0),
            SECRET[:-1] + "x",
            "mechanism: GRR: weights[0]: expected int",
        ),
        (
            ("parts", 2, "mechanism", "weights", 0),
            1,
            "mechanism: these weights do not keep the declared guarantee",
        ),
        (
            ("parts", 2, "mechanism", "mechanism"),
            SECRET,
            "mechanism: no mechanism has this name; there are GRR",
        ),
        (("parts",), [], "parts: expected array of length >= 1"),
        (("users",), 0, "users: expected int >= 1"),
        (("users",), 1.5, "users: expected int, got float"),
        (("epsilon",), SECRET, "epsilon: expected float, got str"),
        (("epsilon",), 10**400, "this is not a plan"),
        (("reported",), 4, "reported must be at most 3"),
        (("note",), SECRET, "contains unknown field note"),
        (("delta",), ..., "missing required field delta"),
        (("schema", "job"), 3, "schema[...]: expected object, got int"),
        (("schema", "age", "low"), SECRET, "schema: attribute age: low: expected int, got str"),
        (("schema", "age", "low"), 200, "schema: attribute age: an ordinal attribute has from 2 to 1048576 values"),
        (("schema", "age", "lowest"), 1, "schema: attribute age: unknown lowest; there are low, high, missing"),
        (("schema", "age", "high"), ..., "schema: attribute age: missing high; there are low, high, missing"),
        (("schema", "age", "kind"), [], "schema: attribute age: kind must be one of numeric, ordinal"),
        (("certificate", "established"), SECRET, "certificate.established: not one of the values that there are"),
        (("certificate", "epsilon"), SECRET, "certificate.epsilon: expected float, got str"),
        (("prediction",), None, "prediction: expected object, got null"),
        (("prediction", "limit"), -1, "prediction.limit: expected float >= 0"),
        (("prediction", "known"), ["mean(other)"], "prediction.known: expected questions of the plan"),
        (("prediction", "errors"), {}, "prediction.errors: expected one number for each question"),
        (("hash",), ..., "missing required field hash"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_errors_name_the_field_and_quote_no_value(path, value, reason):
    damaged = changed(json.loads(written()), path, value)
    with pytest.raises(ParameterError) as caught:
        Plan.from_json(json.dumps(damaged) if path == ("hash",) else rehashed(damaged))
    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)


def test_formats_that_are_not_known_say_what_to_do():
    stored = json.loads(written())
    with pytest.raises(ParameterError, match="newer version of dither; upgrade to read it"):
        Plan.from_json(rehashed({**stored, "format": 2, "anything": [1]}))
    for unknown in (0, -1, 1.0, "1", None, True, [1]):
        with pytest.raises(ParameterError, match="its format is unknown; a plan is what plan"):
            Plan.from_json(rehashed({**stored, "format": unknown}))


def test_what_is_no_strict_json_is_refused():
    text = written()
    for odd in ('"limit": NaN', '"limit": 1e999', '"limit": Infinity'):
        with pytest.raises(ParameterError, match="not a plan"):
            Plan.from_json(text.replace('"limit": ', f'{odd}, "old": '))
    for name in ('"epsilon"', '"kind"', '"weights"', '"errors"'):
        with pytest.raises(ParameterError, match=f"not a plan: {name[1:-1]} is there twice"):
            Plan.from_json(text.replace(name, f"{name}: 1, {name}", 1))
    with pytest.raises(ParameterError, match="not a plan"):
        Plan.from_json(text.replace('"compared": {', '"compared": {"\\ud800": 1.0, '))


def test_a_mistake_of_the_program_is_not_taken_for_a_damaged_file(monkeypatch):
    text = written()
    for error in (AttributeError, ZeroDivisionError, TypeError, KeyError):

        def broken(stored, error=error):
            raise error("a mistake")

        monkeypatch.setattr("dither.planning.stored_plans.load", broken)
        with pytest.raises(error):
            Plan.from_json(text)


# Whatever stands anywhere -----------------------------------------------------------------------------------------


def places(stored: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of each value within a stored document; of lists of numbers and texts only the first few."""
    if isinstance(stored, list) and not any(isinstance(value, dict) for value in stored):
        stored = stored[:2]
    for step, value in stored.items() if isinstance(stored, dict) else enumerate(stored):
        yield (*path, step)
        if isinstance(value, dict | list):
            yield from places(value, (*path, step))


def odd_values(value: Any) -> list[Any]:
    """What may stand there by accident or malice; `...` is nothing."""
    nested: Any = value
    for _ in range(100):
        nested = [nested]
    odd = [None, True, -1, 0, 10**30, 10**400, 1e300, 0.5, "", "x", "9" * 2000, [], {}, [value], {"a": value}, nested]
    number = isinstance(value, int | float)
    return [..., *odd, str(value), *([-value, value + 1, float(value)] if number else [])]


def outcome(text: str, fingerprint: str) -> bool:
    """Whether a plan is read; it is then one that has the hash that it states."""
    try:
        read = Plan.from_json(text)
    except ParameterError:
        return False
    assert read.fingerprint == fingerprint
    return True


@pytest.mark.parametrize("path", one_in(6, sorted(STORED.glob("plan-*.json"))), ids=lambda path: path.stem)
def test_any_damage_is_refused_in_the_usual_words(path):
    """With the hash as it was nothing that it covers may change; with a new one, whatever is read keeps its promise."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    forged = 0
    for place in places(stored):
        if isinstance(place[-1], str):
            assert not outcome(with_key_twice(stored, place), stored["hash"])
        for value in odd_values(_at(stored, place)):
            damaged = changed(stored, place, value)
            read = outcome(json.dumps(damaged), stored["hash"])
            assert not read or place[0] in plan_files.BESIDE or damaged == stored
            if place[0] not in plan_files.BESIDE:
                text = rehashed(damaged)
                forged += outcome(text, json.loads(text)["hash"])
    assert forged  # the deeper checks are reached


def with_key_twice(stored: Any, place: tuple[Any, ...]) -> str:
    """The same, where a name is followed by itself with the same value: readers differ in which one they take."""
    twin = changed(stored, (*place[:-1], "twin"), _at(stored, place))
    return json.dumps(twin).replace('"twin"', json.dumps(place[-1]))


def _at(stored: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        stored = stored[step]
    return stored


@pytest.mark.parametrize("name", one_in(4, dither.registry))
def test_any_damage_to_a_mechanism_is_refused_in_the_usual_words(name):
    cls = dither.registry[name]
    for example in cls.examples:
        stored = cls(**example).to_dict()
        for place in places(stored):
            for value in odd_values(_at(stored, place)):
                damaged = changed(stored, place, value)
                try:
                    made = mechanisms.load(damaged)
                except ParameterError:
                    continue
                assert made.guarantee.epsilon <= made.epsilon
