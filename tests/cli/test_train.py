"""`dither train`."""

import json

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

import dither
from cli.cases import MARKER, done, facts, refused, run, words
from dither.learn.linear import load_model

SCHEMA = """
[age]
kind = "ordinal"
low = 18
high = 99
[job]
kind = "categorical"
labels = ["nurse", "driver", "other"]
[income]
kind = "categorical"
labels = ["low", "high"]
"""


@pytest.fixture
def people(tmp_path):
    """A Parquet file of records, and a schema."""
    ages = 18 + np.arange(3000) * 37 % 82
    jobs = np.array(["nurse", "driver", "other"])[np.arange(3000) % 3]
    table = pyarrow.table({"age": ages, "job": jobs, "income": np.where(ages > 55, "high", "low")})
    pyarrow.parquet.write_table(table, tmp_path / "people.parquet")
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def asked(people, *more, file="people.parquet", mechanism="SampledDuchi"):
    common = ["--epsilon", 4, "--schema", people / "schema.toml", "--mechanism", mechanism]
    return ["train", people / file, "--label", "income", *common, *more]


def test_a_model_a_table_and_a_file(people):
    target = people / "model.json"
    result = done(*asked(people, "-o", target))
    for text in ("accuracy", "baseline (commonest class)", "epsilon 4 (exact)", "SampledDuchi", "2,400"):
        assert text in words(result.stdout)
    assert "load_model" in result.stderr
    model = load_model(target)
    assert model.predict({"age": [20, 99], "job": ["nurse", "other"]}).tolist() == ["low", "high"]
    assert str(model.guarantee) == "epsilon 4 (exact)"


def test_facts_repeat_with_a_seed(people):
    one, two = (facts(*asked(people, "--seed", 1)) for _ in range(2))
    assert {**one, "seconds": 0} == {**two, "seconds": 0}
    assert one["accuracy"] > 0.8
    assert one["users"] == 2400
    assert one["measured on"] == 600
    assert one["guarantee"]["established"] == "simulated"


def test_csv_and_a_file_to_measure_on(people):
    table = pyarrow.parquet.read_table(people / "people.parquet")
    pyarrow.csv.write_csv(table, people / "people.csv")
    found = facts(*asked(people, "--test", people / "people.parquet", "--seed", 1, file="people.csv"))
    assert found["users"] == 3000
    assert found["measured on"] == 3000
    assert "accuracy" not in facts(*asked(people, "--test-share", 0, "--model", "svc"))


def test_a_number_is_predicted_by_a_line(people):
    found = facts(
        *["train", people / "people.parquet", "--label", "age", "--model", "linear", "--epsilon", 8],
        *["--schema", people / "schema.toml", "--mechanism", "SampledDuchi", "--seed", 1],
    )
    assert found["root mean squared error"] < found["baseline (the mean)"]


def test_a_guessed_schema_is_warned_of(people):
    options = ["--epsilon", 4, "--mechanism", "Hypercube", "--seed", 1]
    result = done("train", people / "people.parquet", "--label", "income", *options)
    assert "Domains are public" in result.stderr
    assert "accuracy" in result.stdout


def test_one_class_of_three(people):
    arguments = asked(people, "--seed", 1)
    arguments[3] = "job"
    assert "name the one of interest with --positive" in refused(*arguments)
    assert facts(*arguments, "--positive", "nurse")["users"] == 2400
    assert "not one of the labels" in refused(*arguments, "--positive", MARKER)


def test_a_curator(people):
    pytest.importorskip("torch")
    target = people / "model.json"
    found = facts(*asked(people, "--central", "-o", target, mechanism="auto"))
    assert found["accuracy"] > 0.8
    assert found["guarantee"]["delta"] <= 1e-5
    assert (found["guarantee"]["model"], found["guarantee"]["neighbours"]) == ("central", "add-remove")
    assert json.loads(target.read_text(encoding="utf-8"))["label"] == "income"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--model", "linear"], "predicts a number"),
        (["--test-share", "0.9999"], "leaves nobody"),
        (["--delta", "2"], "delta must be"),
        (["-o", "-", "--json"], "both write to standard output"),
    ],
)
def test_refusals(people, more, reason):
    assert reason in refused(*asked(people, *more))


def test_usage(people):
    assert run(*asked(people, "--central", "--model", "svc", mechanism="auto")).exit_code == 2
    assert run(*asked(people, "--central")).exit_code == 2
    assert "the schema has no attribute" in refused(
        "train", people / "people.parquet", "--label", "x", "--epsilon", 1, "--schema", people / "schema.toml"
    )


def test_keys_are_no_number_to_predict(people, tmp_path):
    schema = {"age": dither.Ordinal(0, 99), "films": dither.KeyValue(["Alien", "Heat"], size=1, low=1, high=5)}
    (tmp_path / "keys.toml").write_text(dither.Schema(schema).to_toml())
    given = ("--label", "films", "--epsilon", 1, "--schema", tmp_path / "keys.toml", "--model", "linear")
    assert "predicts a number" in refused("train", people / "people.parquet", *given)


def test_a_label_that_does_not_fit_is_not_quoted(people):
    table = pyarrow.table({"age": [20, 30, 40], "job": ["nurse"] * 3, "income": ["low", MARKER, "high"]})
    pyarrow.parquet.write_table(table, people / "odd.parquet")
    text = refused(*asked(people, file="odd.parquet"))
    assert "attribute income, row 1" in text
    assert MARKER not in text
    assert facts(*asked(people, "--invalid", "substitute", "--test-share", 0, file="odd.parquet"))["users"] == 3
