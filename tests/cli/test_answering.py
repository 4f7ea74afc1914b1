"""Commands for the analyst: `estimate` and `query`."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import dither
from cli.cases import SCHEMA, done, facts, printed, refused, run, words
from dither.planning.plan_tally import PlanTally

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
        (["age,income,job", "20,5,nurse", "20,5"], "row 1: there must be one value for each column"),
        (["age,income,job", '20,5,"nurse'], "is no CSV file, or a damaged one"),
        (["age,job", "20,nurse"], "no column for attribute income"),
        (["age,income,job,age", "20,5,nurse,987654321"], "several columns for attribute age"),
        (["age,income,job"], "there are no records"),
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
    assert 'ask for them when planning, as in "ranges(age, income)"' in words(result.stderr)


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


# Queries of a tally ------------------------------------------------------------------------------------------------


@pytest.fixture
def collected(ranges, people, tmp_path) -> str:
    """A tally of a plan with ranges, from a seed."""
    reports, target = tmp_path / "reports.parquet", tmp_path / "ranges.tally"
    done("randomize", ranges, people, "-o", reports, "--seed", 7)
    done("tally", ranges, reports, "-o", target)
    return str(target)


@pytest.mark.wide
def test_query_answers_from_a_tally_as_a_trial_would(ranges, people, collected):
    trial = facts("query", ranges, "--records", people, NURSES, "age > 40", "--seed", 7)
    found = facts("query", ranges, collected, NURSES, "age > 40")
    assert trial.pop("records") == 2000
    assert found == trial
    assert facts("query", ranges, "-", NURSES, "age > 40", stdin=Path(collected).read_bytes()) == found
    text = words(printed("query", ranges, collected, NURSES))
    assert "condition share 95% interval noise doubt" in text
    assert "reports about ranges(age, income, job): no guarantee (simulated from a seed)." in text
    assert "record" not in text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["age > 20"], "Name a tally"),
        (["TALLY"], "at least one condition"),
        (["TALLY", "age > 20", "--records", "people.csv"], "Name a tally"),
        (["TALLY", "age > 20", "--seed", "1"], "--seed is for trials"),
    ],
    ids=str,
)
def test_query_takes_a_tally_or_records(ranges, collected, arguments, reason):
    result = run("query", ranges, *(collected if each == "TALLY" else each for each in arguments))
    assert result.exit_code == 2
    assert reason in words(result.stderr)


def test_query_refuses_tallies_of_other_plans(plan, tally, ranges, collected):
    assert "is a tally of plan" in refused("query", ranges, tally, "age > 20")
    assert "this plan asks for no ranges" in refused("query", plan, tally, "age > 20")
    assert "no attribute 'wealth'" in refused("query", ranges, collected, "wealth > 20")


# Estimate ----------------------------------------------------------------------------------------------------------


def numbers(found: dict[str, Any], question: str) -> dict[str, dict[str, float]]:
    return {each["of"]: each for each in found["questions"][question]["numbers"]}


def test_estimate_prints_the_largest_of_long_lists(plan, tally):
    result = done("estimate", plan, tally)
    text = words(result.stdout)
    assert "question of estimate 95% interval" in text
    assert "and 77 more" in text  # of 82 ages
    ages = numbers(facts("estimate", plan, tally), "distribution(age)")
    largest = sorted(ages, key=lambda age: -ages[age]["value"])[:5]
    lines = [line.split() for line in result.stdout.splitlines()]
    first = next(place for place, line in enumerate(lines) if line[:1] == ["distribution(age)"])
    assert [lines[first][1], *(line[0] for line in lines[first + 1 : first + 5])] == largest
    assert "mean(income) all users" in text
    for job in ("nurse", "driver", "other"):
        assert sum(line.split()[:1] == [job] or f" {job} " in line for line in result.stdout.splitlines()) == 1
    assert "From 2,000 users; all that a user reports together: no guarantee (simulated from a seed)." in text
    assert "Of long lists the largest are shown" in text
    assert "Refined (auto), which costs no privacy" in text
    assert f"next: dither estimate {plan} {tally} --html report.html -o estimates.csv" in result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_estimate_facts_are_what_python_computes(plan, tally):
    made = dither.Plan.from_json(Path(plan).read_text(encoding="utf-8"))
    read = PlanTally.from_bytes(Path(tally).read_bytes())
    for refine, method in (("auto", "auto"), ("none", None), ("clip", "clip")):
        found = facts("estimate", plan, tally, "--refine", refine)
        expected = made.estimate(read, refine=method)
        assert found["plan"] == made.fingerprint
        assert (found["users"], found["simulated"]) == (2000, True)
        assert set(found["questions"]) == set(expected)
        income = numbers(found, "mean(income)")["all users"]
        assert income["value"] == float(expected["mean(income)"].value)
        for question in ("histogram(job)", "distribution(age)"):
            values = [each["value"] for each in numbers(found, question).values()]
            assert values == expected[question].value.tolist()
    assert facts("estimate", plan, tally) == facts("estimate", plan, tally, "--refine", "auto")
    assert json.loads(done("estimate", plan, tally, "-o", "-").stdout) == facts("estimate", plan, tally)


def test_a_real_collection_states_its_guarantee(plan, people, tmp_path):
    reports, tally = tmp_path / "real.parquet", tmp_path / "real.tally"
    done("randomize", plan, people, "-o", reports)
    done("tally", plan, reports, "-o", tally)
    assert "all that a user reports together: epsilon 4 (exact)" in words(done("estimate", plan, tally).stdout)
    found = facts("estimate", plan, tally)
    assert (found["simulated"], found["epsilon"], found["delta"]) == (False, 4.0, 0.0)


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "html"])
def test_estimate_writes_every_number(plan, tally, tmp_path, ending):
    target = tmp_path / f"estimates.{ending}"
    result = done("estimate", plan, tally, "-o", target)
    assert result.stderr == f"wrote {target}\n"
    found = facts("estimate", plan, tally)
    values = [each["value"] for question in found["questions"].values() for each in question["numbers"]]
    assert len(values) == 82 + 1 + 3
    if ending == "csv":
        assert [float(row["value"]) for row in csv.DictReader(target.read_text().splitlines())] == values
    elif ending == "json":
        assert json.loads(target.read_text()) == found
    elif ending == "parquet":
        assert pyarrow.parquet.read_table(target)["value"].to_pylist() == values
    else:
        assert target.read_text().startswith("<!DOCTYPE html>")


def test_estimate_says_so_where_not_all_reports_are_honest(schema, tmp_path):
    """Liars who all answer one question that they have not drawn; the honest alone are not accused."""
    made = dither.plan(dither.Schema.read(schema), 4.0, users=3000)
    people = {"age": [30] * 3000, "income": [10.0] * 3000, "job": ["nurse"] * 3000}
    honest = made.tally(made.randomize(people, seed=1))
    part = next(part for part in made.parts if part.name == "mean(income)")
    forged = {each.name: each.mechanism.outputs()[:0] for each in made.parts}
    forged[part.name] = np.repeat(part.mechanism.outputs()[[-1]], 600)
    made.save(tmp_path / "plan.json")
    for tally, accused in ((honest, False), (honest.plus(made.tally(forged), allow_simulated=True), True)):
        (tmp_path / "all.tally").write_bytes(tally.to_bytes())
        page = tmp_path / "page.html"
        result = run("estimate", str(tmp_path / "plan.json"), str(tmp_path / "all.tally"), "--html", str(page))
        assert result.exit_code == 0, result.output
        assert ("Warning: Honest reports alone did not make this tally" in words(result.stderr)) == accused
        assert ("Not all of these reports are honest" in page.read_text(encoding="utf-8")) == accused


def test_estimate_writes_a_page_beside_the_numbers(plan, tally, tmp_path):
    page, table = tmp_path / "report.html", tmp_path / "estimates.csv"
    result = done("estimate", plan, tally, "--html", page, "-o", table)
    assert result.stderr == f"wrote {table}\nwrote {page}\n"
    assert "mean(income)" in page.read_text()
    assert table.exists()
    odd = tmp_path / "report"
    done("estimate", plan, tally, "--html", odd)  # whatever it is called
    assert odd.read_text().startswith("<!DOCTYPE html>")


def test_estimate_answers_queries_too(ranges, collected, tmp_path):
    page, condition = tmp_path / "report.html", "age < 40 and income > 20000"
    result = done("estimate", ranges, collected, "--query", condition, "--query", "job = 'nurse'", "--html", page)
    alone = facts("query", ranges, collected, condition, "job = 'nurse'")["answers"]
    assert f"{condition} {alone[0]['value']:.4f}" in words(result.stdout)
    assert "Answers to queries" in page.read_text()
    assert "age &lt; 40 and income &gt; 20000" in page.read_text()
    assert facts("estimate", ranges, collected, "--query", condition)["answers"] == alone[:1]
    assert "answers" not in facts("estimate", ranges, collected)
    assert run("estimate", ranges, collected, "--query", "height > 1").exit_code == 1


def test_estimate_tells_about_the_keys_that_many_hold(tmp_path):
    schema, plan, people = tmp_path / "schema.toml", tmp_path / "plan.json", tmp_path / "people.parquet"
    keys = [f"k{number}" for number in range(20)]
    schema.write_text(f'[films]\nkind = "keyvalue"\nkeys = {json.dumps(keys)}\nsize = 1\nlow = 0\nhigh = 10\n')
    done("plan", schema, "--epsilon", "8", "--users", "4000", "-o", plan)
    held = [{"k7": 1.0} if row % 2 else {"k3": 9.0} for row in range(4000)]
    films = pyarrow.array([list(each.items()) for each in held], pyarrow.map_(pyarrow.string(), pyarrow.float64()))
    pyarrow.parquet.write_table(pyarrow.table({"films": films}), people)
    done("randomize", plan, people, "-o", tmp_path / "r.parquet", "--seed", "1")
    done("tally", plan, tmp_path / "r.parquet", "-o", tmp_path / "x.tally")
    lines = [line.split() for line in done("estimate", plan, tmp_path / "x.tally").stdout.splitlines()]
    for question in ("presence(films)", "mean(films)"):
        first = next(place for place, line in enumerate(lines) if line[:1] == [question])
        assert {lines[first][1], lines[first + 1][0]} == {"k7", "k3"}  # and not those without a holder


def test_truth_shows_the_errors_that_were_made(plan, people, tally, tmp_path):
    text = words(done("estimate", plan, tally, "--truth", people, "--html", tmp_path / "trial.html").stdout)
    assert "question of estimate 95% interval truth" in text
    assert "question numbers predicted real refined inside" in text
    found = facts("estimate", plan, tally, "--truth", people, "--refine", "none")
    errors = {each["question"]: each for each in found["errors"]}
    income = numbers(found, "mean(income)")["all users"]["value"]
    truth = np.mean(50 * np.arange(2000) + 0.5)
    assert errors["mean(income)"]["real"] == pytest.approx(abs(income - truth))
    jobs = numbers(found, "histogram(job)")
    off = [jobs["nurse"]["value"] - 0.25, jobs["driver"]["value"] - 0.25, jobs["other"]["value"] - 0.5]
    assert errors["histogram(job)"]["real"] == pytest.approx(np.sqrt(np.mean(np.square(off))))
    assert errors["mean(income)"]["refined"] is None
    assert "refined" not in words(done("estimate", plan, tally, "--truth", people, "--refine", "none").stdout)


@pytest.mark.parametrize("option", ["-o", "--html"])
def test_truth_is_not_written_over(plan, people, tally, tmp_path, option):
    folder = tmp_path / "months"
    folder.mkdir()
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(people), folder / "a.parquet")
    before = (folder / "a.parquet").read_bytes()
    for truth in (folder, folder / "*.parquet"):
        text = refused("estimate", plan, tally, "--truth", truth, option, folder / "a.parquet")
        assert "cannot be its output" in text
    assert (folder / "a.parquet").read_bytes() == before


def test_both_outputs_are_checked_before_one_is_written(plan, tally, tmp_path):
    page = tmp_path / "x.html"
    assert "are the same file" in refused("estimate", plan, tally, "-o", page, "--html", page)
    assert "are the same file" in refused("estimate", plan, tally, "-o", page, "--html", f"{tmp_path}/./x.html")
    table, missing = tmp_path / "ok.csv", tmp_path / "nosuch" / "e.html"
    text = refused("estimate", plan, tally, "-o", table, "--html", missing)
    assert f"cannot write {missing}: no such file or directory" in text
    assert not page.exists()
    assert not table.exists()


def test_truth_of_a_plan_with_ranges_leaves_them_out(ranges, people, collected):
    text = words(done("estimate", ranges, collected, "--truth", people).stdout)
    assert "ranges(age, income, job) age " in text
    errors = {each["question"]: each for each in facts("estimate", ranges, collected, "--truth", people)["errors"]}
    assert errors["ranges(age, income, job)"]["real"] is None
    assert errors["mean(income)"]["real"] is not None


MISTAKEN_ESTIMATES = {
    "unknown refinement": (["--refine", "best"], "no refinement has this name; there are auto, shrink"),
    "unknown ending": (["-o", "estimates.doc"], "estimates are written as .parquet, .csv"),
    "no truth": (["--truth", "nope.csv"], "nope.csv cannot be read"),
}


@pytest.mark.parametrize("case", MISTAKEN_ESTIMATES.values(), ids=MISTAKEN_ESTIMATES)
def test_estimate_says_what_is_wrong(plan, tally, case):
    options, reason = case
    assert reason in refused("estimate", plan, tally, *options)


def test_a_page_and_facts_do_not_share_a_stream(plan, tally):
    assert "both write to standard output" in refused("estimate", plan, tally, "--html", "-", "--json")
    assert done("estimate", plan, tally, "--html", "-").stdout.startswith("<!DOCTYPE html>")


# Charts --------------------------------------------------------------------------------------------------------------


def test_charts_on_request(plan, tally):
    plain, drawn = done("estimate", plan, tally).stdout, done("estimate", plan, tally, "--chart").stdout
    assert not set("█▓░") & set(plain)
    assert "\x1b" not in drawn
    assert re.search(r"^nurse +█+▓+░+ +\d+\.?\d*%$", drawn, re.MULTILINE)
    assert "distribution(age)\n" in drawn  # 82 cells, in a terminal of 100 columns
    assert re.search(r"^ +18 +99$", drawn, re.MULTILINE)
    assert "up to the lower end of the 95% interval" in drawn
    for line in plain.splitlines():
        assert line in drawn
    assert "mean(income)\n" not in drawn


def test_charts_of_ranges_name_the_attribute(ranges, people, tmp_path):
    reports, sums = tmp_path / "reports.parquet", tmp_path / "sums.tally"
    done("randomize", ranges, people, "-o", reports, "--seed", 1)
    done("tally", ranges, reports, "-o", sums)
    told = done("estimate", ranges, sums, "--chart").stdout
    assert "ranges(age, income, job): job\n" in told
    assert "ranges(age, income, job): age" in told


def test_a_terminal_gets_charts_and_machines_do_not(plan, tally):
    shown = done("estimate", plan, tally)
    assert json.loads(done("estimate", plan, tally, "--chart", "--json").stdout)
    env = {"FORCE_COLOR": "1", "NO_COLOR": None, "TERM": "xterm"}  # as on a terminal
    told = run("estimate", plan, tally, env=env)
    assert told.exit_code == 0
    assert "█" in told.stdout
    assert "\x1b[36m" in told.stdout
    assert "█" not in run("estimate", plan, tally, "--no-chart", env=env).stdout
    assert "█" not in shown.stdout
