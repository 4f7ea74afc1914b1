"""The `dither` command: it prints what the library computes, and answers a mistake by one line, not by a traceback."""

import json
import re
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import dither
from dither.cli import main
from dither.core.exact import log_above
from dither.mechanisms import load

PLAIN = {"COLUMNS": "100", "FORCE_COLOR": None, "NO_COLOR": "1", "TERM": "dumb"}


def run(*arguments: str) -> Result:
    return CliRunner(env=PLAIN).invoke(main, arguments)


def printed(*arguments: str) -> str:
    """What a command prints when all is well."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def words(text: str) -> str:
    """The text without the layout of the table."""
    return " ".join(text.split())


def test_version():
    assert printed("--version").strip() == f"dither, version {dither.__version__}"
    assert version("dither") == dither.__version__


def test_help_names_every_command():
    text = printed("--help")
    for command in ("mechanisms", "plan", "query", "compare", "certify", "audit", "amplify", "demo"):
        assert command in text
        assert printed(command, "--help").startswith(f"Usage: main {command}")


def test_mechanisms_lists_the_registry():
    text = printed("mechanisms")
    for name, cls in dither.registry.items():
        assert name in text
        assert cls.family in text
    assert "k, epsilon, delta=0.0" in text
    assert "weights" not in text
    assert "asked" not in text


# Certificates -------------------------------------------------------------------------------------------------------


def test_certify_everything():
    rows = [line.split() for line in printed("certify").splitlines()]
    for name, cls in dither.registry.items():
        assert sum(row[:1] == [name] for row in rows) == len(cls.examples)
    bounds = {row[0] for row in rows if "bound" in row}
    assert bounds == {"Gaussian", "Split"}  # noise in several dimensions, and different bases with a delta


def test_certify_everything_as_json():
    facts = json.loads(printed("certify", "--json"))
    made = [cls(**example) for cls in dither.registry.values() for example in cls.examples]
    assert [fact["fingerprint"] for fact in facts] == [mechanism.fingerprint for mechanism in made]
    for fact, mechanism in zip(facts, made, strict=True):
        promise = dither.privacy.certify(mechanism)
        assert (fact["epsilon"], fact["delta"], fact["established"]) == (
            promise.epsilon,
            promise.delta,
            promise.established,
        )
        assert integers(fact["integers"]) == mechanism.weights
        assert fact["bytes a report"] == mechanism.dtype.itemsize
        if mechanism.delta == 0:
            assert log_above(Fraction(fact["largest likelihood ratio"])) == fact["epsilon"]


def integers(texts):
    """Texts as integers, lists as tuples."""
    return tuple(integers(text) if isinstance(text, list) else int(text) for text in texts)


@pytest.mark.parametrize(
    ("arguments", "mechanism"),
    [
        (
            ("Sampled", 'base=["Duchi","GRR(k=5)"]', "d=2", "epsilon=1"),
            dither.Sampled(("Duchi", "GRR(k=5)"), 2, None, 1.0),
        ),
        (
            ("Personalised", "base=Duchi", 'groups={"a":1.0,"b":2.0}'),
            dither.Personalised("Duchi", {"a": 1.0, "b": 2.0}),
        ),
    ],
)
def test_several_values_are_written_as_json(arguments, mechanism):
    (fact,) = json.loads(printed("certify", *arguments, "--json"))
    assert fact["fingerprint"] == mechanism.fingerprint
    again = load({**fact["parameters"], "weights": integers(fact["integers"])})
    assert again == mechanism


def test_what_is_too_long_to_read_is_cut():
    text = printed("certify", "Gaussian", "epsilon=1", "delta=1e-6")
    assert "188 in all (--json)" in " ".join(text.split())
    text = printed("certify", "Sampled", "base=Piecewise", "d=1000", "m=10", "epsilon=1")
    assert "about 2^5129" in text
    assert "about 2.71828182846" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_json_certificate_is_enough_to_make_the_mechanism():
    (fact,) = json.loads(printed("certify", "Unary", "k=7", "epsilon=0.5", "kind=symmetric", "--json"))
    again = load({**fact["parameters"], "weights": [int(weight) for weight in fact["integers"]]})
    assert again == dither.Unary(7, 0.5, kind="symmetric")
    assert again.fingerprint == fact["fingerprint"]


@pytest.mark.parametrize(
    ("arguments", "mechanism"),
    [
        (("GRR", "k=1000", "epsilon=1"), dither.GRR(1000, 1.0)),
        (("grr", "epsilon=1", "k=1000"), dither.GRR(1000, 1.0)),
        (("GRR", "k=1e6", "epsilon=0.1"), dither.GRR(10**6, 0.1)),
        (("LocalHash", "k=50", "epsilon=1", "delta=1e-6"), dither.LocalHash(50, 1.0, 1e-6)),
        (("LocalHash", "k=50", "epsilon=1", "cohorts=None", "g=3"), dither.LocalHash(50, 1.0, g=3)),
        (("Unary", "k=5", "epsilon=1", "q=0.25"), dither.Unary(5, 1.0, q=0.25)),
        (("SubsetSelection", "k=1000", "epsilon=1"), dither.SubsetSelection(1000, 1.0)),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "",
)
def test_certify_one(arguments, mechanism):
    text = words(printed("certify", *arguments))
    promise = dither.privacy.certify(mechanism)
    assert f" epsilon {promise.epsilon!r} " in text
    assert f" delta {promise.delta!r} " in text
    assert f" established {promise.established} " in text
    assert mechanism.fingerprint in text.replace(" ", "")
    (fact,) = json.loads(printed("certify", "--json", *arguments))
    assert fact["fingerprint"] == mechanism.fingerprint


def test_huge_alphabets_are_named_by_their_size():
    (fact,) = json.loads(printed("certify", "SubsetSelection", "k=1000", "epsilon=1", "--json"))
    assert re.fullmatch(r"about 2\^\d+", fact["outputs"])
    assert fact["inputs"] == "1000"


# Mistakes -----------------------------------------------------------------------------------------------------------

MISTAKES = {
    "unknown mechanism": ("certify", "Nope"),
    "unknown mechanism with parameters": ("certify", "Nope", "k=4"),
    "unknown key": ("certify", "GRR", "k=4", "epsilon=1", "colour=2"),
    "no value": ("certify", "GRR", "k=4", "epsilon"),
    "a key that is not for users": ("certify", "GRR", "k=4", "epsilon=1", "weights=3"),
    "missing parameter": ("certify", "GRR", "k=4"),
    "no parameters": ("certify", "GRR"),
    "text for a number": ("certify", "GRR", "k=four", "epsilon=1"),
    "fraction for a count": ("certify", "GRR", "k=4.5", "epsilon=1"),
    "empty value": ("certify", "GRR", "k=", "epsilon=1"),
    "NaN epsilon": ("certify", "GRR", "k=4", "epsilon=nan"),
    "infinite epsilon": ("certify", "GRR", "k=4", "epsilon=inf"),
    "zero epsilon": ("certify", "GRR", "k=4", "epsilon=0"),
    "negative epsilon": ("certify", "GRR", "k=4", "epsilon=-1"),
    "NaN delta": ("certify", "GRR", "k=4", "epsilon=1", "delta=nan"),
    "too large a delta": ("certify", "GRR", "k=4", "epsilon=1", "delta=1"),
    "one category": ("certify", "GRR", "k=1", "epsilon=1"),
    "too many categories": ("certify", "Hadamard", "k=1e20", "epsilon=1"),
    "unknown kind": ("certify", "Unary", "k=4", "epsilon=1", "kind=best"),
    "mistake with --json": ("certify", "GRR", "k=4", "epsilon=nan", "--json"),
    "few users": ("demo", "--users", "50"),
    "negative users": ("demo", "--users", "-1"),
    "NaN epsilon in the demo": ("demo", "--users", "2000", "--epsilon", "nan"),
    "zero epsilon in the demo": ("demo", "--users", "2000", "--epsilon", "0"),
}


@pytest.mark.parametrize("arguments", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered_by_one_line(arguments):
    result = run(*arguments)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)  # not an exception of the library, which would be a traceback
    assert result.stdout == ""
    assert re.fullmatch(r"Error: .+\n", result.stderr)


@pytest.mark.parametrize(
    "arguments", [("frobnicate",), ("demo", "--seed", "x"), ("demo", "--users", "many"), ("--what",)]
)
def test_a_mistake_in_the_command_itself(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert "Error: " in result.stderr
    assert "Traceback" not in result.output


def test_messages_say_what_to_do():
    assert ", ".join(dither.registry) in run("certify", "Nope").stderr
    assert "GRR takes k, epsilon, delta=0.0" in run("certify", "GRR", "k=4").stderr
    for unknown in ("colour=2", "weights=3", "colour"):
        assert (
            "write parameters as KEY=VALUE; GRR takes k, eps"
            in run("certify", "GRR", "k=4", "epsilon=1", unknown).stderr
        )
    assert "epsilon must be a finite number above 0" in run("certify", "GRR", "k=4", "epsilon=nan").stderr


# Demonstration ------------------------------------------------------------------------------------------------------


def test_the_demonstration_with_a_seed():
    text = printed("demo", "--users", "9000", "--epsilon", "8", "--seed", "1")
    assert "9,000 users" in text
    rows = [line.split() for line in text.splitlines()]
    for question in (
        "mean(income)",
        "mean(sleep)",
        "mean(age)",
        "histogram(job)",
        "histogram(trip)",
        "histogram(town)",
        "presence(films)",
        "mean(films)",
    ):
        assert sum(question in row for row in rows) >= 3  # planned, estimated, and its error
    verdicts = [row[-1] for row in rows if row and row[-1] in ("yes", "no") and "to" in row]
    assert len(verdicts) == 16
    assert text.count("Collecting reports") == 2
    assert "age between 30 and 49 and income >= 50000" in words(" ".join(column_of(text)))
    assert "among those who rated it: Alien" in words(text)
    assert "without any guarantee" in words(text)


def column_of(text: str) -> list[str]:
    """The conditions of the last table, line by line, without its other columns."""
    lines = text[text.index("share of users with") :].splitlines()[2:]
    return [line[1:].split("   ")[0].strip() for line in lines]


def estimates(text: str) -> list[str]:
    """The lines of the first table, without what depends on the clock."""
    return [line for line in text.splitlines() if " to " in line]


def test_a_seed_repeats_the_demonstration():
    first, again, other = (
        estimates(printed("demo", "--users", "9000", "--epsilon", "8", "--seed", seed)) for seed in ("7", "7", "8")
    )
    # Three means, two categories of each of three histograms, two films in two questions, three queries.
    assert len(first) == 16
    assert first == again
    assert first != other


def test_the_demonstration_without_a_seed_has_a_guarantee():
    text = words(printed("demo", "--users", "9000", "--epsilon", "8"))
    assert "simulated" not in text
    assert "together: epsilon 8 (exact)" in text


def test_a_demonstration_with_too_few_users_says_so():
    assert "too little to learn from" in run("demo", "--users", "500").stderr


# Plans -----------------------------------------------------------------------------------------------------------

SCHEMA = """
[age]
kind = "ordinal"
low = 18
high = 99
[income]
kind = "numeric"
low = 0
high = 200000
[job]
kind = "categorical"
labels = ["nurse", "driver", "other"]
"""


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(SCHEMA, encoding="utf-8")
    return str(path)


def test_plan_writes_what_python_reads(schema, tmp_path):
    target, picture = tmp_path / "plan.json", tmp_path / "error.png"
    result = run("plan", schema, "--epsilon", "1", "--users", "100000", "-o", str(target), "--plot", str(picture))
    assert result.exit_code == 0, result.output
    for text in ("mean(income)", "distribution(age)", "histogram(job)", "epsilon 1 (exact)", "limit for any plan"):
        assert text in words(result.stdout)
    made = dither.Plan.from_json(target.read_text(encoding="utf-8"))
    assert made == dither.plan(dither.Schema.read(schema), 1.0, users=100_000)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_plan_of_keys(tmp_path):
    path, target = tmp_path / "schema.toml", tmp_path / "plan.json"
    films = '[films]\nkind = "keyvalue"\nkeys = ["Alien", "Heat", "Totoro"]\nsize = 2\nlow = 1\nhigh = 5\n'
    path.write_text(SCHEMA + films, encoding="utf-8")
    result = run("plan", str(path), "--epsilon", "1", "--users", "100000", "-o", str(target))
    assert result.exit_code == 0, result.output
    text = result.stdout
    for found in ("presence(films)", "mean(films)", "mean(income)", "epsilon 1 (exact)", "limit for any plan"):
        assert found in words(text)
    made = dither.Plan.from_json(target.read_text(encoding="utf-8"))
    assert made == dither.plan(dither.Schema.read(path), 1.0, users=100_000)


def test_plan_takes_questions_priors_and_weights(schema):
    options = ["--ask", "mean(income)", "--ask", "histogram(job)", "--prior", "income=normal(40000, 15000)"]
    text = printed(
        "plan", schema, "--epsilon", "1", "--users", "100000", *options, "--weight", "mean(income)=3", "--json"
    )
    made = dither.Plan.from_json(text)
    expected = dither.plan(
        dither.Schema.read(schema),
        1.0,
        users=100_000,
        ask=["mean(income)", "histogram(job)"],
        prior={"income": "normal(40000, 15000)"},
        weights={"mean(income)": 3.0},
    )
    assert made == expected
    assert made.predicted == expected.predicted


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--epsilon", "0", "--users", "10"], "epsilon must"),
        (["--epsilon", "1", "--users", "0"], "users must"),
        (["--epsilon", "1", "--users", "10", "--ask", "median(age)"], "no such question"),
        (["--epsilon", "1", "--users", "10", "--prior", "income"], "NAME=VALUE"),
        (["--epsilon", "1", "--users", "10", "--prior", "income=cauchy(1)"], "attribute income"),
        (["--epsilon", "1", "--users", "10", "--weight", "mean(age)=much"], "number"),
        (["--epsilon", "1", "--users", "100000", "--plot", "error.doc"], ".png"),
        (["--epsilon", "1", "--users", "100000", "-o", "no/such/folder/plan.json"], "cannot write"),
    ],
    ids=str,
)
def test_plan_says_what_is_wrong(schema, options, reason):
    result = run("plan", schema, *options)
    assert result.exit_code == 1
    assert reason in words(result.output)


def test_plan_needs_a_schema(tmp_path):
    path = tmp_path / "schema.toml"
    assert "cannot be read" in words(run("plan", str(path), "--epsilon", "1", "--users", "10").output)
    path.write_text("this is no TOML", encoding="utf-8")
    assert "not TOML" in words(run("plan", str(path), "--epsilon", "1", "--users", "10").output)


# Queries -----------------------------------------------------------------------------------------------------------

NURSES = "age between 20 and 40 and job = 'nurse'"


@pytest.fixture
def asked(schema, tmp_path):
    """A plan with ranges, and people."""
    target, people = tmp_path / "plan.json", tmp_path / "people.csv"
    ask = ["--ask", "ranges(age, income, job)", "--ask", "mean(income)"]
    result = run("plan", schema, "--epsilon", "4", "--users", "4000", *ask, "-o", str(target))
    assert result.exit_code == 0, result.output
    assert "ranges(age, income, job) Copula" in words(result.stdout)
    jobs = ["nurse", "driver", "other", "other"]
    lines = [f"{i},{20 + i % 60},{30 * (i % 4000)}.5,{jobs[i % 4]}" for i in range(4000)]
    people.write_text("\n".join(["id,age,income,job", *lines, ""]), encoding="utf-8")
    return str(target), str(people)


def test_query_answers_conditions(asked):
    target, people = asked
    text = words(printed("query", target, "--records", people, NURSES, "income < 60000", "--seed", "1"))
    for found in ("condition share 95% interval noise doubt", "job = 'nurse'", "of 4,000 records", "simulated"):
        assert found in text
    assert "epsilon 4 (exact)" in words(printed("query", target, "--records", people, "age > 40"))


def test_query_as_json_is_what_python_computes(asked):
    target, people = asked
    facts = json.loads(printed("query", target, "--records", people, NURSES, "age > 40", "--seed", "7", "--json"))
    made = dither.Plan.from_json(Path(target).read_text(encoding="utf-8"))
    jobs = ["nurse", "driver", "other", "other"]
    table = [{"age": 20 + i % 60, "income": 30 * i + 0.5, "job": jobs[i % 4]} for i in range(4000)]
    found: Any = made.estimate(made.tally(made.randomize(table, seed=7)))["ranges(age, income, job)"]
    for fact in facts["answers"]:
        answer = found.where(fact["condition"])
        assert (fact["value"], fact["stderr"]) == (float(answer.value), float(answer.stderr))
        assert fact["low"] < fact["value"] < fact["high"]
        assert fact["stderr"] == pytest.approx(np.hypot(fact["noise"], fact["doubt"]))
    assert [fact["condition"] for fact in facts["answers"]] == [NURSES, "age > 40"]
    assert (facts["plan"], facts["records"], facts["simulated"]) == (made.fingerprint, 4000, True)
    truth = sum(20 + i % 60 <= 40 and i % 4 == 0 for i in range(4000)) / 4000
    assert abs(facts["answers"][0]["value"] - truth) < 5 * facts["answers"][0]["stderr"]


@pytest.mark.parametrize("question", ["ranges(job,income,age)", "ranges( age,income ,job)"])
def test_query_takes_questions_in_any_order_and_spacing(asked, question):
    target, people = asked
    facts = json.loads(printed("query", target, "--records", people, NURSES, "--question", question, "--json"))
    assert facts["question"] == "ranges(age, income, job)"


def test_query_of_one_record_is_a_share_of_one_report(tmp_path, schema):
    target, people = tmp_path / "plan.json", tmp_path / "people.csv"
    ask = ["--ask", "ranges(age, income, job)"]
    assert run("plan", schema, "--epsilon", "1", "--users", "4000", *ask, "-o", str(target)).exit_code == 0
    people.write_text("age,income,job\n30,1000,nurse\n", encoding="utf-8")
    conditions = ["age > 40", NURSES, "income < 60000 and job = 'other' and age < 30"]
    text = words(printed("query", str(target), "--records", str(people), *conditions, "--seed", "1"))
    assert "From 1 report about ranges(age, income, job), of 1 record:" in text
    facts = json.loads(printed("query", str(target), "--records", str(people), *conditions, "--seed", "1", "--json"))
    assert all(0 <= fact["low"] <= fact["high"] <= 1 for fact in facts["answers"])


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_query_reads_arrow_files(asked, tmp_path, ending):
    arrow = pytest.importorskip("pyarrow.csv")
    target, people = asked
    table, path = arrow.read_csv(people), str(tmp_path / f"people.{ending}")
    if ending == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    else:
        pytest.importorskip("pyarrow.feather").write_feather(table, path)
    first, again = (
        json.loads(printed("query", target, "--records", file, NURSES, "--seed", "7", "--json"))
        for file in (people, path)
    )
    assert first == again


MISTAKEN_QUERIES = {
    "no such plan": ("nope.json", None, ["age > 20"], "plan file nope.json cannot be read"),
    "no plan": ("SCHEMA", None, ["age > 20"], "not a plan"),
    "no such records": (None, "nope.csv", ["age > 20"], "records file nope.csv cannot be read"),
    "unknown ending": (None, "people.doc", ["age > 20"], "unknown ending: there are .csv, .parquet"),
    "no such attribute": (None, None, ["wealth > 20"], "no attribute 'wealth'"),
    "second condition": (None, None, ["age > 20", "age ="], "condition 2: the query cannot be read"),
    "no such question": (
        None,
        None,
        ["age > 20", "--question", "ranges(age)"],
        "This plan asks for ranges(age, income",
    ),
}


@pytest.mark.parametrize("case", MISTAKEN_QUERIES.values(), ids=MISTAKEN_QUERIES)
def test_query_says_what_is_wrong(asked, schema, case):
    target, records, conditions, reason = case
    target = {None: asked[0], "SCHEMA": schema}.get(target, target)
    result = run("query", target, "--records", records or asked[1], *conditions)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert re.fullmatch(r"Error: .+\n", result.stderr)
    assert reason in result.stderr


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            ["age,income,job", "20,987654321,nurse"],
            "attribute income, row 0: the value is not a number from 0 to 200000",
        ),
        (["age,income,job", "20,5,nurse", "20.5,5,nurse"], "attribute age, row 1: the value is not a whole number"),
        (["age,income,job", "20,5,secretary"], "attribute job, row 0: the value is not one of the 3 labels"),
        (["age,income,job", "20,987654321secret,nurse"], "attribute income, row 0"),
        (["age,income,job", "20,,nurse"], "attribute income, row 0"),
        (["age,income,job", "20,5,nurse", "20,5"], "row 1: there must be one value for each column"),
        (["age,income,job", '20,5,"nurse'], "is no CSV file, or a damaged one"),
        (["age,job", "20,nurse"], "no column for attribute income"),
        (["age,income,job,age", "20,5,nurse,987654321"], "several columns for attribute age"),
        (["age,income,job"], "there are no reports yet"),
        ([], "no column for attribute age"),
    ],
    ids=str,
)
def test_query_refuses_records_without_showing_them(asked, tmp_path, lines, reason):
    path = tmp_path / "bad.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    result = run("query", asked[0], "--records", str(path), "age > 20")
    assert result.exit_code == 1
    assert reason in words(result.stderr)
    assert not re.search("987|secret", result.output)


def test_query_may_put_substitutes(asked, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("job,age,income\nastronaut,7,much\n\nnurse,30,5\n", encoding="utf-8-sig")
    found = json.loads(
        printed("query", asked[0], "--records", str(path), "age > 20", "--invalid", "substitute", "--json")
    )
    assert found["records"] == 2


def test_query_needs_ranges_in_the_plan(schema, tmp_path):
    target = str(tmp_path / "plan.json")
    run("plan", schema, "--epsilon", "1", "--users", "1000", "-o", target)
    result = run("query", target, "--records", "people.csv", "age > 20")
    assert result.exit_code == 1
    assert '--ask "ranges(age, income)"' in result.stderr


def test_query_reads_keys_as_json(tmp_path):
    films = '[films]\nkind = "keyvalue"\nkeys = ["Alien", "Heat"]\nsize = 1\nlow = 1\nhigh = 5\n'
    path, target, people = (tmp_path / name for name in ("schema.toml", "plan.json", "people.csv"))
    path.write_text(SCHEMA + films, encoding="utf-8")
    asks = ["--ask", "ranges(age, job)", "--ask", "films"]
    assert run("plan", str(path), "--epsilon", "1", "--users", "9000", *asks, "-o", str(target)).exit_code == 0
    people.write_text('age,job,films\n20,nurse,"{""Heat"": 5}"\n30,other,{}\n', encoding="utf-8")
    assert "of 2 records" in printed("query", str(target), "--records", str(people), "age > 20")
    people.write_text('age,job,films\n20,nurse,"{""Heat"": 987654321}"\n', encoding="utf-8")
    result = run("query", str(target), "--records", str(people), "age > 20")
    assert "attribute films, row 0: a value is not a number from 1 to 5" in result.stderr


def test_compare_ranks_and_breaks_even():
    text = printed(
        "compare", "Duchi", "Piecewise", "Laplace", "--epsilon", "1", "--users", "1000", "--values", "uniform"
    )
    places = [text.index(name) for name in ("Piecewise", "Duchi", "Laplace")]
    assert places == sorted(places)
    assert "No mechanism with epsilon 1" in words(text)
    text = printed("compare", "SquareWave:naive", "Piecewise", "--epsilon", "1", "--values", "beta(5, 2)")
    assert "SquareWave:naive wins below" in words(text)
    text = printed("compare", "GRR(k=4)", "LocalHash(k=4)", "--epsilon", "1", "--tolerance", "0.05")
    assert "within 0.05" in text


@pytest.mark.parametrize("arguments", [["Nothing"], ["GRR"], ["Duchi", "GRR(k=4)"], ["GRR(k=4):naive"]], ids=str)
def test_compare_says_what_is_wrong(arguments):
    result = run("compare", *arguments, "--epsilon", "1")
    assert result.exit_code == 1
    assert "Error: " in result.output


# Amplify and audit -------------------------------------------------------------------------------------------------


def test_amplify_a_mechanism_and_any():
    shown = run("amplify", "Collision", "d=16", "s=2", "epsilon=1", "--users", "100000")
    assert "own" in shown.output
    assert "100,000 reports, shuffled: epsilon 0.0" in shown.output
    facts = json.loads(run("amplify", "--epsilon", "1", "--users", "1000000", "--json").output)
    assert facts["epsilon"] == facts["bounds"]["blanket"] == pytest.approx(0.00351, abs=1e-5)
    assert facts["bounds"]["own"] is None


def test_amplify_says_where_nothing_is_gained():
    shown = run("amplify", "--epsilon", "1", "--users", "3")
    assert "too few" in shown.stderr
    assert "3 reports, shuffled: epsilon 1 (exact)" in shown.stdout


@pytest.mark.parametrize(
    "arguments", [["--users", "100"], ["GRR", "k=3", "epsilon=1", "--epsilon", "1", "--users", "9"]]
)
def test_amplify_wants_a_mechanism_or_an_epsilon(arguments):
    refused = run("amplify", *arguments)
    assert refused.exit_code == 1
    assert "name a mechanism" in refused.output


def test_amplify_draws(tmp_path):
    target = tmp_path / "amplification.png"
    run("amplify", "--epsilon", "1", "--users", "1000", "--plot", str(target))
    assert target.stat().st_size > 10_000


def test_audit_one_and_all():
    shown = run("audit", "GRR", "k=3", "epsilon=1", "--trials", "20000", "--seed", "1")
    assert "the certificate stands" in shown.output
    (facts,) = json.loads(run("audit", "GRR", "k=3", "epsilon=1", "--trials", "20000", "--seed", "1", "--json").output)
    assert facts["passed"]
    assert 0.7 < facts["epsilon"] <= facts["certificate"]["epsilon"] == 1.0


def test_audit_fails_where_a_certificate_is_refuted(monkeypatch):
    real = dither.GRR._fill

    def shows(self, reports, values, tape, rows):
        real(self, reports, values, tape, rows)
        reports["value"] = np.where(values == 0, 0, reports["value"])

    monkeypatch.setattr(dither.GRR, "_fill", shows)
    shown = run("audit", "GRR", "k=3", "epsilon=1", "--trials", "20000", "--seed", "1")
    assert shown.exit_code == 1
    assert "REFUTED" in shown.output
