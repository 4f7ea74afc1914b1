"""Bad input: every command answers it by one line that says what to do, and never shows a value."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

import dither
from cli.cases import MARKER, done, facts, process, refused, run
from dither.planning.plan_tally import PlanTally

NAMES = ["age", "income", "job"]


def table(**columns: Any) -> pyarrow.Table:
    """Two good records, with some columns replaced, added, or left out (None)."""
    good: dict[str, Any] = {"age": [20, 30], "income": [5.0, 7.0], "job": ["nurse", "other"]}
    return pyarrow.table({name: column for name, column in {**good, **columns}.items() if column is not None})


BAD_RECORDS = {
    "missing column": (table(income=None), "has no column for attribute income"),
    "close name": (table(income=None, Income=[1.0, 2.0]), "if column Income is meant, rename it"),
    "text for a number": (table(income=[MARKER, MARKER]), "attribute income is numeric, but its column"),
    "number for a label": (table(job=[1.5, 2.5]), "attribute job is categorical, but its column"),
    "a list for a number": (table(age=[[1], [2]]), "attribute age is ordinal, but its column"),
    "a date for a number": (
        table(age=pyarrow.array([1, 2], pyarrow.timestamp("s"))),
        "attribute age is ordinal, but its column",
    ),
    "above the range": (table(income=[5.0, 7310473.0]), "attribute income, row 1: the value is not a number"),
    "infinite": (table(income=[5.0, float("inf")]), "attribute income, row 1: the value is not a number"),
    "below the range": (table(age=[7, 20]), "attribute age, row 0: the value is not a whole number from 18 to 99"),
    "not whole": (table(age=[20.0, 20.5]), "attribute age, row 1: the value is not a whole number"),
    "unknown label": (table(job=["nurse", MARKER]), "attribute job, row 1: the value is not one of the 3 labels"),
}


@pytest.mark.parametrize("case", BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_records_that_do_not_fit(plan, tmp_path, case):
    records, reason = case
    source, target = tmp_path / "bad.parquet", tmp_path / "out" / "reports.parquet"
    target.parent.mkdir()
    pyarrow.parquet.write_table(records, source)
    text = refused("randomize", plan, source, "-o", target)
    assert reason in text
    assert "7310473" not in text
    assert list(target.parent.iterdir()) == []


def test_an_extra_column_is_ignored_with_a_note(plan, tmp_path):
    source = tmp_path / "more.parquet"
    pyarrow.parquet.write_table(table(name=[MARKER, MARKER]), source)
    result = done("randomize", plan, source, "-o", tmp_path / "reports.parquet")
    assert "note: 1 column ignored, the plan does not ask for it: name" in result.stderr
    assert MARKER not in result.output


def test_nulls_count_as_the_substitute_and_nobody_is_dropped(plan, tmp_path):
    source, target = tmp_path / "nulls.parquet", tmp_path / "reports.parquet"
    columns = {
        "age": pyarrow.array([None] * 1000, pyarrow.int64()),
        "income": pyarrow.array([None, float("nan")] * 500, pyarrow.float64()),
        "job": pyarrow.array([None] * 1000, pyarrow.string()),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), source)
    assert facts("randomize", plan, source, "-o", target, "--seed", 1)["records"] == 1000
    done("tally", plan, target, "-o", tmp_path / "all.tally")
    found = facts("estimate", plan, tmp_path / "all.tally", "--refine", "none")["questions"]
    other = {number["of"]: number["value"] for number in found["histogram(job)"]["numbers"]}
    assert other["other"] > 0.9
    ages = {number["of"]: number["value"] for number in found["distribution(age)"]["numbers"]}
    assert max(ages, key=ages.__getitem__) == "58"


def test_missing_has_its_own_frequency_if_the_schema_says_so(tmp_path):
    schema, plan, source = tmp_path / "schema.toml", tmp_path / "plan.json", tmp_path / "jobs.parquet"
    schema.write_text('[job]\nkind = "categorical"\nlabels = ["nurse", "other", "missing"]\nmissing = "missing"\n')
    done("plan", schema, "--epsilon", 6, "--users", 1000, "-o", plan)
    jobs = pyarrow.array([None, "nurse", None, "nurse"] * 250)
    pyarrow.parquet.write_table(pyarrow.table({"job": jobs}), source)
    text = done("randomize", plan, source, "-o", tmp_path / "r.parquet", "--seed", 1).stderr
    assert "note: a null counts as job 'missing'" in text
    done("tally", plan, tmp_path / "r.parquet", "-o", tmp_path / "all.tally")
    numbers = facts("estimate", plan, tmp_path / "all.tally")["questions"]["histogram(job)"]["numbers"]
    assert {each["of"]: round(each["value"], 1) for each in numbers} == {"nurse": 0.5, "other": 0.0, "missing": 0.5}


# Files that are not what they should be ------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.98])
def test_truncated_records(plan, people, tmp_path, share):
    source, cut = tmp_path / "people.parquet", tmp_path / "cut.parquet"
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(people), source)
    data = source.read_bytes()
    cut.write_bytes(data[: int(share * len(data))])
    for arguments in (("randomize", plan, cut, "-o", tmp_path / "out.parquet"), ("infer", cut)):
        assert f"{cut} is no Parquet file, or a damaged one" in refused(*arguments)
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.98])
def test_truncated_reports(plan, reports, tmp_path, share):
    cut, target = tmp_path / "cut.parquet", tmp_path / "part.tally"
    data = Path(reports).read_bytes()
    cut.write_bytes(data[: int(share * len(data))])
    assert f"{cut} cannot be read: it is damaged, or was cut short" in refused(
        "tally", plan, reports, cut, "-o", target
    )
    assert not target.exists()


def test_records_where_reports_are_expected(plan, people, tmp_path):
    source = tmp_path / "people.parquet"
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(people), source)
    text = refused("tally", plan, source, "-o", tmp_path / "x.tally")
    assert "is no file of reports" in text
    assert "randomized first" in text


def test_reports_of_another_plan(plan, other_plan, reports, people, tally, tmp_path):
    foreign, target = tmp_path / "foreign.parquet", tmp_path / "part.tally"
    done("randomize", other_plan, people, "-o", foreign)
    prints = [dither.Plan.from_json(Path(each).read_text()).fingerprint[:12] for each in (plan, other_plan)]
    for given in ([foreign], [reports, foreign]):
        text = refused("tally", plan, *given, "-o", target)
        assert f"{foreign} has reports of plan {prints[1]}, not of plan {prints[0]}" in text
    bare = tmp_path / "bare.parquet"  # as other tools leave it: without metadata, the rows of both together
    rows = [pyarrow.parquet.read_table(each).replace_schema_metadata(None) for each in (reports, foreign)]
    pyarrow.parquet.write_table(pyarrow.concat_tables(rows), bare)
    assert "another plan" in refused("tally", plan, bare, "-o", target)
    text = refused("estimate", other_plan, tally)
    assert f"{tally} is a tally of plan {prints[0]}, and this is plan {prints[1]}" in text
    assert not target.exists()
    assert not Path(f"{target}.progress").exists()


BAD_PLANS: dict[str, tuple[Callable[[str], str], str]] = {
    "empty": (lambda text: "", "not a plan"),
    "not JSON": (lambda text: text[:-9], "not a plan"),
    "a list": (lambda text: "[]", "not a plan"),
    "changed": (lambda text: text.replace('"epsilon": 4.0', '"epsilon": 3.0', 1), "changed after it was written"),
    "newer": (lambda text: text.replace('"format": 1', '"format": 99', 1), "newer version of dither"),
}


@pytest.mark.parametrize("case", BAD_PLANS.values(), ids=BAD_PLANS)
def test_plans_that_are_none(plan, people, reports, tally, case):
    change, reason = case
    path = Path(plan)
    path.write_text(change(path.read_text()))
    for arguments in (
        ("randomize", plan, people, "-o", "x.parquet"),
        ("tally", plan, reports, "-o", "x.tally"),
        ("estimate", plan, tally),
        ("query", plan, tally, "age > 20"),
    ):
        text = refused(*arguments)
        assert text.startswith(f"Error: {plan}: ")
        assert reason in text


def test_files_that_are_not_there(plan, people, tmp_path):
    nope, tally = tmp_path / "nope.parquet", tmp_path / "nope.tally"
    assert "cannot be read: No such file" in refused("randomize", plan, nope, "-o", "x.parquet")
    assert "there is no such file" in refused("tally", plan, nope, "-o", "x.tally")
    assert "dither tally PLAN REPORTS -o FILE writes one" in refused("estimate", plan, tally)
    assert "dither plan ... -o" in refused("estimate", tmp_path / "nope.json", tally)
    assert "no file matches" in refused("tally", plan, tmp_path / "*.nope", "-o", "x.tally")
    assert "cannot be read" in refused("infer", nope)
    (tmp_path / "folder").mkdir()
    assert "has no files of reports" in refused("tally", plan, tmp_path / "folder", "-o", "x.tally")
    assert "has no files of records: .parquet" in refused("randomize", plan, tmp_path / "folder", "-o", "x.parquet")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_may_not_be_written(plan, people, tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    assert "permission denied" in refused("randomize", plan, people, "-o", folder / "reports.parquet")


def test_places_that_cannot_be_written(plan, people, reports, tally, tmp_path):
    for arguments, name in (
        (("randomize", plan, people), "reports.parquet"),
        (("tally", plan, reports), "part.tally"),
        (("merge", tally), "all.tally"),
        (("estimate", plan, tally), "estimates.csv"),
    ):
        target, folder = tmp_path / "no" / "such" / name, tmp_path / f"folder.{name}"
        folder.mkdir()
        assert f"cannot write {target}" in refused(*arguments, "-o", target)
        assert "it is a folder" in refused(*arguments, "-o", folder)


def test_outputs_do_not_replace_inputs(schema, plan, people, tally, tmp_path):
    before = {path: Path(path).read_bytes() for path in (schema, plan, people, tally)}
    for arguments in (
        ("plan", schema, "--epsilon", 1, "--users", 9, "-o", schema),
        ("infer", people, "-o", people),
        ("randomize", plan, people, "-o", people),
        ("randomize", plan, people, "-o", plan),
        ("estimate", plan, tally, "-o", tally),
        ("estimate", plan, tally, "--html", plan),
    ):
        assert "cannot be its output" in refused(*arguments)
    link = tmp_path / "link.parquet"
    link.symlink_to(people)
    assert "cannot be its output" in refused("randomize", plan, people, "-o", link)
    assert before == {path: Path(path).read_bytes() for path in before}


@pytest.mark.parametrize("name", ["reports.csv", "reports", "reports.txt"])
def test_reports_need_a_known_ending(plan, people, tmp_path, name):
    assert "one of the endings .parquet" in refused("randomize", plan, people, "-o", tmp_path / name)


QUERIES = {
    "no query": ("seleect 1", "the query cannot be run"),
    "two queries": ("select 1; select 2", "the query must be one select"),
    "no such file": ("select * from 'nope.parquet'", "the query cannot be run"),
    "missing column": ("select age, job from 'PEOPLE'", "the query has no column for attribute income"),
    "values that cannot be cast": ("select age, job::int as income, job from 'SECRETS'", "try_cast"),
}


@pytest.mark.parametrize("case", QUERIES.values(), ids=QUERIES)
def test_queries_that_fail(plan, people, tmp_path, case):
    sql, reason = case
    hidden = tmp_path / "hidden.parquet"
    pyarrow.parquet.write_table(table(job=[MARKER, MARKER]), hidden)
    sql = sql.replace("PEOPLE", people).replace("SECRETS", str(hidden))
    assert reason in refused("randomize", plan, "--sql", sql, "-o", tmp_path / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()


# Spark ---------------------------------------------------------------------------------------------------------------


def test_without_java_spark_says_what_to_install(plan, people, reports, tmp_path):
    pytest.importorskip("pyspark")
    env = {"JAVA_HOME": str(tmp_path), "SPARK_REMOTE": None}
    for arguments in (("randomize", plan, people, "-o", tmp_path / "new"), ("tally", plan, reports, "-o", "x.tally")):
        result = run(*arguments, "--engine", "spark", env=env)
        assert result.exit_code == 1
        assert "Spark needs Java 17 or newer" in result.stderr
        assert "The local engine works without Java" in result.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.wide
def test_spark_gives_the_same_tally(plan, people, tally, tmp_path):
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("there is no Java here")
    folder, target = tmp_path / "reports", tmp_path / "spark.tally"
    script = [("randomize", plan, people, "-o", folder, "--seed", 1), ("tally", plan, folder, "-o", target)]
    for arguments in script:
        found = process(*arguments, "--engine", "spark")
        assert found.returncode == 0, found.stderr
        assert b" seconds" in found.stderr
    assert target.read_bytes() == Path(tally).read_bytes()
    assert "it is there already" in refused("randomize", plan, people, "-o", folder, "--engine", "spark")


# What nobody foresaw -------------------------------------------------------------------------------------------------


def test_what_nobody_foresaw_is_told_without_its_words(plan, tally, monkeypatch):
    def broken(data, **options):
        raise RuntimeError(f"cannot parse {MARKER}")

    monkeypatch.setattr(PlanTally, "from_bytes", broken)
    result = run("estimate", plan, tally, env={"DITHER_TRACEBACK": None})
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("Error: something that dither did not foresee: RuntimeError at ")
    assert "DITHER_TRACEBACK=1" in result.stderr
    assert MARKER not in result.output
    shown = run("estimate", plan, tally)
    assert isinstance(shown.exception, RuntimeError)
