"""Commands before anything is collected: `infer` and `plan`."""

from pathlib import Path

import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

import dither
from cli.cases import SCHEMA, done, facts, printed, refused, run, words
from dither.planning import choose


@pytest.mark.wide
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


def test_plan_for_liars(schema, tmp_path):
    target = tmp_path / "plan.json"
    options = ("--ask", "mean(income)", "--epsilon", "1", "--users", "100000")
    result = run("plan", schema, *options, "--liars", "0.01", "-o", str(target))
    assert result.exit_code == 0, result.output
    assert "moved by 1% of liars" in words(result.stdout)
    assert "Liars: 1% of the users could move mean(income)" in words(result.stdout)
    assert dither.Plan.read(target).prediction.liars == 0.01
    assert "moved by" not in words(run("plan", schema, *options).stdout)
    assert "liars must be a share from 0 to below 1" in words(run("plan", schema, *options, "--liars", "1").stderr)


def test_plan_for_the_largest_error(schema):
    """The goal of `dither.plan`, by its name; without it the mean, and never a picture of another measure."""
    options = ("--epsilon", "1", "--users", "100000", "--ask", "mean(income)", "--ask", "histogram(job)")
    made = dither.Plan.from_json(printed("plan", schema, *options, "--goal", "maximum", "--json"))
    asked = ["mean(income)", "histogram(job)"]
    expected = dither.plan(dither.Schema.read(schema), 1.0, users=100_000, ask=asked, goal="maximum")
    assert made == expected
    assert made.prediction == expected.prediction
    assert made.prediction.goal == "maximum"
    assert dither.Plan.from_json(printed("plan", schema, *options, "--json")).prediction.goal == ""
    assert choose.GOALS == ("rmse", "maximum")  # which the command repeats
    assert "by largest error" in words(printed("plan", schema, *options, "--goal", "maximum"))
    derived = run("plan", schema, *options, "--ask", "median(age)", "--goal", "maximum")
    assert derived.exit_code == 1
    assert "leave out what is worked out" in words(derived.output)
    assert "leave out --goal" in words(run("plan", schema, *options, "--goal", "maximum", "--plot", "x.png").output)
    assert "'rmse', 'maximum'" in words(run("plan", schema, *options, "--goal", "least").output)


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


def test_plan_takes_weights_of_labels_and_of_queries(schema):
    labels = ["histogram(job)[nurse]=5", "job [ driver ] = 2", "mean(income)=3"]
    queries = ["ranges(age, income)[age]=3", "ranges(age, income)[income, age]=2", "ranges(age, income)[2]=1"]
    for given, expected in (
        (labels[:1] + labels[2:], {"histogram(job)": {"nurse": 5.0}, "mean(income)": 3.0}),
        (labels[1:], {"job": {"driver": 2.0}, "income": 3.0}),
        (queries, {"ranges(age, income)": {"age": 3.0, ("age", "income"): 2.0, 2: 1.0}}),
    ):
        ask = ["mean(income)", "histogram(job)"] if given is not queries else ["ranges(age, income)"]
        options = [part for text in ask for part in ("--ask", text)] + [
            part for text in given for part in ("--weight", text)
        ]
        made = dither.Plan.from_json(printed("plan", schema, "--epsilon", "1", "--users", "100000", *options, "--json"))
        usual = dither.plan(dither.Schema.read(schema), 1.0, users=100_000, ask=ask, weights=expected)
        assert made == usual
        assert made.prediction == usual.prediction


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--epsilon", "0", "--users", "10"], "epsilon must"),
        (["--epsilon", "1", "--users", "0"], "users must"),
        (["--epsilon", "1", "--users", "10", "--ask", "mode(age)"], "no such question"),
        (["--epsilon", "1", "--users", "10", "--prior", "income"], "NAME=VALUE"),
        (["--epsilon", "1", "--users", "10", "--prior", "income=cauchy(1)"], "attribute income"),
        (["--epsilon", "1", "--users", "10", "--weight", "mean(age)=much"], "number"),
        (["--epsilon", "1", "--users", "10", "--weight", "job[nurse]"], "QUESTION[LABEL]=NUMBER"),
        (["--epsilon", "1", "--users", "10", "--weight", "job[pilot]=2"], "there are nurse"),
        (
            ["--epsilon", "1", "--users", "10", "--weight", "job[nurse]=2", "--weight", "job=2"],
            "one number, or numbers",
        ),
        (
            ["--epsilon", "1", "--users", "10", "--weight", "job=2", "--weight", "job[nurse]=2"],
            "one number, or numbers",
        ),
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


# Infer -------------------------------------------------------------------------------------------------------------


def test_infer_writes_a_schema_to_edit(people, tmp_path):
    target = tmp_path / "guess.toml"
    result = done("infer", people, "-o", target)
    rows = [line.split()[:2] for line in result.stdout.splitlines()]
    assert ["age", "ordinal"] in rows
    assert ["income", "numeric"] in rows
    assert ["job", "categorical"] in rows
    assert ["id", "left"] in rows
    assert f"guessed from 2,000 rows; wrote {target}\n" in result.stderr
    assert "Warning: Domains are public" in result.stderr
    assert "never the data that will be collected" in result.stderr
    assert (
        f"next: read and edit {target}; then dither plan {target} --epsilon 1 --users N -o plan.json" in result.stderr
    )
    assert target.read_text(encoding="utf-8").startswith("# Domains are public")
    guessed = dither.Schema.read(target)
    assert list(guessed) == ["age", "income", "job"]
    done("plan", target, "--epsilon", 1, "--users", 100_000, "-o", tmp_path / "plan.json")


@pytest.mark.parametrize("way", ["csv", "parquet", "stdin", "sql", "folder"])
def test_infer_reads_what_randomize_reads(people, tmp_path, way):
    table = pyarrow.csv.read_csv(people)
    given, stdin = [people], None
    if way == "parquet":
        given = [str(tmp_path / "people.parquet")]
        pyarrow.parquet.write_table(table, given[0])
    elif way == "stdin":
        given, stdin = ["-"], Path(people).read_bytes()
    elif way == "sql":
        given = ["--sql", f"select * from '{people}'"]
    elif way == "folder":
        given = [str(tmp_path / "folder")]
        (tmp_path / "folder").mkdir()
        pyarrow.parquet.write_table(table.slice(0, 900), tmp_path / "folder" / "a.parquet")
        pyarrow.parquet.write_table(table.slice(900), tmp_path / "folder" / "b.parquet")
    found = facts("infer", *given, stdin=stdin)
    assert found["rows"] == 2000
    assert found["left out"] == ["id"]
    assert set(found["why"]) == {"id", "age", "income", "job"}
    kinds = {name: entry["kind"] for name, entry in found["schema"].items()}
    assert kinds == {"age": "ordinal", "income": "numeric", "job": "categorical"}
    assert dither.Schema.from_dict(found["schema"])


def test_infer_looks_at_some_rows(people):
    assert facts("infer", people, "--rows", 300)["rows"] == 300
    assert run("infer", people, "--rows", 0).exit_code == 2
    text = done("infer", people, "-o", "-").stdout
    assert text.startswith("# Domains are public")
    assert "[income]" in text
    assert "next: the same with -o schema.toml" in done("infer", people).stderr


def test_infer_refuses_what_it_cannot_guess_from(write_csv, tmp_path):
    assert "several columns of the name age" in refused("infer", write_csv([["age", "age"], [1, 2]]))
    assert "no rows" in refused("infer", write_csv([["age", "job"]]))
    assert "no column of this table can be asked about" in refused("infer", write_csv([["a"], [1], [1]]))
    folder = tmp_path / "mixed"
    folder.mkdir()
    pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2]}), folder / "1.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"b": ["x"]}), folder / "2.parquet")
    assert "do not have the same columns" in refused("infer", folder)


def test_plan_says_what_to_do_next(schema, tmp_path):
    note = "note: values outside of the schema are refused, unless --invalid substitute moves them into it"
    target = tmp_path / "plan.json"
    told = done("plan", schema, "--epsilon", 4, "--users", 2000, "-o", target).stderr
    made = dither.Plan.from_json(target.read_text(encoding="utf-8"))
    assert told == (
        f"wrote {target}, plan {made.fingerprint[:12]}\n{note}\n"
        f"next: dither randomize {target} DATA -o reports.parquet\n"
    )
    assert dither.Plan.from_json(done("plan", schema, "--epsilon", 4, "--users", 2000, "-o", "-").stdout) == made
