"""The JSON Schemas of what is stored: all that is written follows them, and what is damaged does not.

They are shipped with the package for readers in other languages. A field that is added to a mechanism, an attribute or
a format must be described there too: the fields of each are compared with those of the code.
"""

import hashlib
import json
import tomllib
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.core.decoding import integers
from dither.core.schedule import ScheduleFormat
from dither.core.seals import SealedFormat
from dither.core.tally import Tally, TallyFormat
from dither.engines.journal import JournalFormat
from dither.errors import ParameterError, TallyError
from dither.page.export import to_dict
from dither.planning.plan_files import BudgetFormat, CertificateFormat, PartFormat, PlanFormat
from dither.planning.plan_tally import ListedTallyFormat, PlanTally, PlanTallyFormat
from dither.planning.prediction import PredictionFormat
from dither.schema import KINDS
from marks import one_in

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

ROOT = Path(__file__).parents[2]
SHIPPED = {
    place.name.removesuffix(".schema.json"): json.loads(place.read_text(encoding="utf-8"))
    for place in resources.files("dither").joinpath("schemas").iterdir()
}
RESOURCES = Registry().with_resources(
    [(f"{name}.schema.json", Resource.from_contents(schema)) for name, schema in SHIPPED.items()]
)
FULL = Schema(
    {
        "age": Ordinal(18, 99),
        "income": Numeric(0, 200_000),
        "job": Categorical(["nurse", "driver", "other", "unknown"], missing="unknown"),
        "films": KeyValue(["Alien", "Heat", "Totoro"], size=2, low=1, high=5),
        "apps": KeyValue(64, size=4),
    }
)
PLAN = dither.plan(FULL, 2.0, users=10_000, ask=["age", "mean(income)", "job", "films", "apps", "ranges(age, income)"])


def follows(name: str, document: Any) -> bool:
    """Whether a document is valid under one of the schemas."""
    return Draft202012Validator(SHIPPED[name], registry=RESOURCES).is_valid(document)


def simulated() -> dither.planning.PlanTally:
    """A tally of the plan."""
    record = {"age": 41, "income": 30_000, "job": "nurse", "films": {"Heat": 5}, "apps": {3: 0.5}}
    return PLAN.tally(PLAN.randomize([record] * 300, seed=3))


def readable(data: bytes) -> Any:
    """A MessagePack map with bytes as base64 texts."""
    return msgspec.to_builtins(msgspec.msgpack.decode(data), builtin_types=())


# What is written follows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_schemas_are_schemas_and_shipped(name: str):
    Draft202012Validator.check_schema(SHIPPED[name])
    assert SHIPPED[name]["$id"] == f"{name}.schema.json"
    building = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert building["wheel"]["packages"] == ["src/dither"]  # all that is there, data too
    assert set(building["wheel"]) == {"packages", "force-include"}  # nothing is left out
    assert (ROOT / "src" / "dither" / "schemas" / f"{name}.schema.json").is_file()


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("plan-*.json")), ids=lambda path: path.stem)
def test_stored_plans_follow(path: Path):
    assert follows("plan", json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 12.0])
def test_new_plans_follow(epsilon: float):
    for delta in (0.0, 1e-6):
        assert follows("plan", json.loads(dither.plan(FULL, epsilon, users=1000, delta=delta).to_json()))
    assert follows("plan", json.loads(PLAN.to_json()))


def test_plans_with_weights_follow():
    schema = Schema({"age": Ordinal(18, 99), "job": Categorical(["nurse", "other"])})
    weights: Any = {"histogram(job)": {"nurse": 5}, "age": 2, "ranges(age, job)": {"age": 1, ("age", "job"): 2, 1: 1}}
    ask = ["distribution(age)", "histogram(job)", "ranges(age, job)"]
    stored = json.loads(dither.plan(schema, 1.0, users=10_000, ask=ask, weights=weights).to_json())
    assert follows("plan", stored)
    for name, wrong in (("weights", {"age": 0}), ("weights", {"age": {"18": -1}}), ("named", {"age": 1})):
        assert not follows("plan", {**stored, "prediction": {**stored["prediction"], name: wrong}})


@pytest.mark.parametrize("name", one_in(4, dither.registry))
def test_mechanisms_follow(name: str):
    cls = dither.registry[name]
    stored: dict[str, Any] = {}
    for example in cls.examples:
        stored = json.loads(json.dumps(cls(**example).to_dict()))
        assert follows("mechanism", stored)
        assert follows("mechanism", integers(stored, 1 << 53))  # as it was written once, all as numbers
    few = {**stored, "weights": stored["weights"][:8]}
    assert not follows("mechanism", {**few, "note": 1})
    assert not follows("mechanism", {**few, "weights": []})


def test_schemas_of_records_follow():
    assert follows("schema", FULL.to_dict())
    assert follows("schema", tomllib.loads(FULL.to_toml()))
    assert follows("schema", {"a": {"kind": "numeric", "low": 0, "high": 1}})


def test_tallies_and_the_journal_follow():
    tally = simulated()
    whole = tally.to_bytes()
    assert follows("tally", readable(whole[:-32]))
    assert all(follows("tally", readable(part.to_bytes())) for part in tally.parts.values())
    listed = replace(tally, files={"ab" * 32: 300}).to_bytes()
    assert follows("tally", readable(listed[:-32]))
    assert not follows("tally", {**readable(listed[:-32]), "files": []})
    assert not follows("tally", {**readable(whole[:-32]), "files": readable(listed[:-32])["files"]})
    for each in (tally, replace(tally, files={"ab" * 32: 300})):
        dropped = readable(replace(each, dropped={"malformed": 1, "simulated": 2}).to_bytes()[:-32])
        assert follows("tally", dropped)
        for wrong in ({}, {"strange": 1}, {"simulated": 0}):
            assert not follows("tally", {**dropped, "dropped": wrong})
    sealed = readable(tally.to_bytes(key=bytes(32)))
    assert follows("tally", sealed)
    assert not follows("tally", {**sealed, "key": "secret"})
    stored = JournalFormat("dither journal 1", tally.plan, [("file", 0, 10, 300)], whole)  # type: ignore[list-item]
    assert follows("tally", readable(msgspec.msgpack.encode(stored)))
    assert b"simulated" not in msgspec.msgpack.encode(stored).replace(whole, b"")  # as it was before there was one
    stored.simulated = whole
    assert follows("tally", readable(msgspec.msgpack.encode(stored)))


def test_estimates_follow():
    for refine in (None, "auto"):
        stored = json.loads(json.dumps(to_dict(PLAN, PLAN.estimate(simulated(), refine=refine)), allow_nan=False))
        assert follows("estimates", stored)
        assert not follows("estimates", {**stored, "plan": "x"})
        assert not follows("estimates", {**stored, "level": 95})
        assert not follows("estimates", {key: value for key, value in stored.items() if key != "simulated"})
    found = to_dict(PLAN, PLAN.estimate(replace(simulated(), dropped={"out of range": 2})))
    assert found["dropped"] == {"out of range": 2}
    assert follows("estimates", found)
    assert not follows("estimates", {**found, "dropped": {"strange": 2}})


def models() -> list[dict[str, Any]]:
    """Models as they are stored."""
    linear = pytest.importorskip("dither.learn.linear")
    encoder = pytest.importorskip("dither.learn.encoding").Encoder(Schema({"age": Ordinal(18, 99)}))
    return [
        linear.LogisticRegression(epsilon=1.0).start(2, users=100).to_dict(),
        linear.LinearSVC(epsilon=1.0).start(encoder, users=100, classes=["low", "high"]).to_dict(),
        linear.LinearRegression(bounds=(0, 4)).start(2, users=9).to_dict(),
    ]


def test_models_follow():
    linear = pytest.importorskip("dither.learn.linear")
    several = linear.LinearSVC(epsilon=1.0, classes=("a", "b", "c")).start(2, users=100).to_dict()
    assert len(several["intercept"]) == 3
    for stored in (*models(), several):
        assert follows("model", json.loads(json.dumps(stored)))
        assert follows("model", {**stored, "label": "income"})
        kind = {"model": "central", "neighbours": "add-remove"}
        assert follows("model", {**stored, "guarantee": {**stored["guarantee"], **kind}})
        assert not follows("model", {**stored, "guarantee": {**stored["guarantee"], "model": "nobody"}})
        for change in ({"labels": [1]}, {"coefficients": []}, {"users": 0}, {"guarantee": {}}, {"note": 1}):
            assert not follows("model", {**stored, **change})


# Nothing is forgotten ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(dither.registry))
def test_every_field_of_a_mechanism_is_described(name: str):
    described = SHIPPED["mechanism"]["$defs"][name]
    assert list(described["properties"]) == ["mechanism", *(each.name for each in fields(dither.registry[name]))]  # type: ignore[arg-type]
    assert described["properties"]["mechanism"] == {"const": name}
    assert described["additionalProperties"] is False
    assert {"$ref": f"#/$defs/{name}"} in SHIPPED["mechanism"]["oneOf"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_an_attribute_is_described(kind: str):
    described = SHIPPED["schema"]["$defs"][kind]
    assert list(described["properties"]) == ["kind", *(each.name for each in fields(KINDS[kind]))]
    assert {"$ref": f"#/$defs/{kind}"} in SHIPPED["schema"]["additionalProperties"]["oneOf"]


def test_every_field_of_a_format_is_described():
    plan = SHIPPED["plan"]["properties"]
    tallies = SHIPPED["tally"]["$defs"]
    described = [
        (PlanFormat, SHIPPED["plan"]),
        (PartFormat, plan["parts"]["items"]),
        (CertificateFormat, plan["certificate"]["anyOf"][1]),
        (PredictionFormat, plan["prediction"]),
        (BudgetFormat, plan["budgets"]["additionalProperties"]),
        (ScheduleFormat, plan["schedule"]["anyOf"][1]),
        (TallyFormat, tallies["tally"]),
        (PlanTallyFormat, tallies["planTally"]),
        (ListedTallyFormat, tallies["listedTally"]),
        (JournalFormat, tallies["journal"]),
        (SealedFormat, tallies["sealedTally"]),
    ]
    model_files = pytest.importorskip("dither.learn.linear.model_files")
    described.append((model_files.ModelFormat, SHIPPED["model"]))
    described.append((model_files.GuaranteeFormat, SHIPPED["model"]["properties"]["guarantee"]))
    for form, schema in described:
        assert set(schema["properties"]) == {each.name for each in msgspec.structs.fields(form)}
        assert set(schema["required"]) == {each.name for each in msgspec.structs.fields(form) if each.required}
        assert schema["additionalProperties"] is False


# What is damaged does not follow -------------------------------------------------------------------------------------

MIXED = json.loads((Path(__file__).parent / "plan-mixed.json").read_text(encoding="utf-8"))
DAMAGED = {
    "another format": {"format": 2},
    "a format as text": {"format": "1"},
    "no users": {"users": 0},
    "half a user": {"users": 1.5},
    "more users than numbers": {"users": 1 << 60},
    "no epsilon": {"epsilon": None},
    "an epsilon of zero": {"epsilon": 0},
    "a delta of one": {"delta": 1},
    "no parts": {"parts": []},
    "a part without a weight": {"parts": [{**MIXED["parts"][0], "weight": 0}]},
    "a part without a question": {"parts": [{**MIXED["parts"][0], "questions": []}]},
    "a note in a part": {"parts": [{**MIXED["parts"][0], "note": 1}]},
    "no mechanism of ours": {"parts": [{**MIXED["parts"][0], "mechanism": {"mechanism": "Rot13"}}]},
    "a short hash": {"hash": "abc"},
    "a simulated certificate": {"certificate": {"epsilon": 1.0, "delta": 0.0, "established": "simulated"}},
    "no prediction": {"prediction": None},
    "a negative error": {"prediction": {**MIXED["prediction"], "limit": -1}},
    "no schema": {"schema": {}},
    "brackets in a name": {"schema": {"mean(x)": {"kind": "numeric", "low": 0, "high": 1}}},
    "an unknown kind": {"schema": {"x": {"kind": "colour"}}},
    "one label": {"schema": {"x": {"kind": "categorical", "labels": ["a"]}}},
    "half an age": {"schema": {"x": {"kind": "ordinal", "low": 0.5, "high": 3}}},
    "no size": {"schema": {"x": {"kind": "keyvalue", "keys": 3}}},
    "a note": {"note": "hello"},
}


@pytest.mark.parametrize("change", DAMAGED.values(), ids=DAMAGED)
def test_damaged_plans_do_not_follow(change: dict[str, Any]):
    assert follows("plan", MIXED)
    assert not follows("plan", {**MIXED, **change})


@pytest.mark.parametrize("name", MIXED)
def test_plans_without_a_field_follow_only_if_it_may_be_left_out(name: str):
    left = {key: value for key, value in MIXED.items() if key != name}
    assert follows("plan", left) == (name in ("version", "certificate"))


def test_damaged_tallies_do_not_follow():
    stored = readable(next(iter(simulated().parts.values())).to_bytes())
    for change in ({"n": -1}, {"shape": [-1]}, {"counts": [1]}, {"format": "dither tally 9"}, {"note": 1}):
        assert not follows("tally", {**stored, **change})


# Errors of tallies and models name the field, too --------------------------------------------------------------------


def test_errors_of_tallies_name_the_field():
    stored = msgspec.msgpack.decode(Tally("abc", 3, np.array([1, 2])).to_bytes())
    for change, reason in (
        ({"n": -1}, "n: expected int >= 0"),
        ({"n": "secret"}, "n: expected int, got str"),
        ({"shape": [2, -1]}, r"shape\[1\]: expected int >= 0"),
        ({"shape": [3]}, "counts: expected 8 bytes for each of the shape"),
        ({"note": 1}, "contains unknown field note"),
        ({"format": "dither tally 2"}, "not a tally that this version of dither can read"),
    ):
        with pytest.raises(TallyError, match=reason) as caught:
            Tally.from_bytes(msgspec.msgpack.encode({**stored, **change}))
        assert "secret" not in str(caught.value)
    whole = simulated().to_bytes()
    body = msgspec.msgpack.decode(whole[:-32])
    for change, reason in (
        ({"plan": 3}, "plan: expected str, got int"),
        ({"parts": {}}, "parts: expected object of length >= 1"),
        ({"parts": {"a": 3}}, r"parts\[...\]: expected bytes, got int"),
    ):
        with pytest.raises(TallyError, match=reason):
            PlanTally.from_bytes(signed(msgspec.msgpack.encode({**body, **change})))
    listed = msgspec.msgpack.decode(replace(simulated(), files={"ab" * 32: 300}).to_bytes()[:-32])
    for change, reason in (
        ({"files": []}, "files: expected array of length >= 1"),
        ({"files": [[b"short", 3]]}, r"files\[0\]\[0\]: expected bytes of length >= 32"),
        ({"files": [[bytes(32), 0]]}, r"files\[0\]\[1\]: expected int >= 1"),
        ({"files": [[bytes(32), 301]]}, "damaged"),
        ({"files": [[bytes(32), 1], [bytes(32), 1]]}, "damaged"),
    ):
        with pytest.raises(TallyError, match=reason):
            PlanTally.from_bytes(signed(msgspec.msgpack.encode({**listed, **change})))


def signed(body: bytes) -> bytes:
    """A body with its digest."""
    return body + hashlib.sha256(body).digest()


def test_errors_of_models_name_the_field():
    linear = pytest.importorskip("dither.learn.linear")
    logistic, encoded, regression = models()
    for stored, change, reason in (
        (logistic, {"coefficients": ["secret"]}, r"coefficients\[0\]: expected float, got str"),
        (logistic, {"intercept": None}, r"intercept: expected float \| array, got null"),
        (logistic, {"labels": [0, 0]}, "two labels or more"),
        (logistic, {"labels": [0, 1, 2]}, "intercept: expected one"),
        (regression, {"labels": [0.0, 1.0, 2.0]}, "labels"),
        (logistic, {"guarantee": {}}, "guarantee: missing required field epsilon"),
        (logistic, {"guarantee": {**logistic["guarantee"], "epsilon": None}}, "guarantee.epsilon: expected float"),
        (logistic, {"model": "secret"}, "model: not one of the values that there are"),
        (logistic, {"note": 1}, "contains unknown field note"),
        (logistic, {"format": "dither model 2"}, "upgrade"),
        (encoded, {"coefficients": [1.0, 2.0]}, "coefficients: expected 1"),
        (encoded, {"schema": {"age": {"kind": "ordinal", "low": 1}}}, "attribute age: missing high"),
        (regression, {"labels": ["secret", "b"]}, r"labels\[0\]: expected float, got str"),
        (regression, {"labels": [4.0, 0.0]}, "low below high"),
    ):
        with pytest.raises(ParameterError, match=reason) as caught:
            linear.load_model({**stored, **change})
        assert "secret" not in str(caught.value)
