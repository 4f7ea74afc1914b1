"""Public groups from the command line: planned, collected, estimated by group, and on the page."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dither import Plan
from dither.cli import main

pytest.importorskip("pyarrow")

SCHEMA = """
[country]
kind = "public"
labels = ["DE", "FR", "<b>IT</b>"]

[age]
kind = "ordinal"
low = 0
high = 4

[income]
kind = "numeric"
low = 0
high = 100
"""


def run(*arguments: object, fails: bool = False) -> Result:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert (result.exit_code != 0) == fails, result.output
    return result


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    rng, lines = np.random.default_rng(1), ["country,budget,age,income"]
    for _ in range(3000):
        country, budget = rng.choice(["DE", "FR", "<b>IT</b>"]), rng.choice(["careful", "open"])
        lines.append(f"{country},{budget},{rng.integers(0, 5)},{rng.uniform(0, 100):.1f}")
    (tmp_path / "data.csv").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def collected(*options: str) -> None:
    run("plan", "schema.toml", *options, "-o", "plan.json")
    run("randomize", "plan.json", "data.csv", "-o", "reports.parquet", "--seed", "1")
    run("tally", "plan.json", "reports.parquet", "-o", "all.tally")


def test_results_by_country(place: Path):
    collected("--epsilon", "2", "--users", "DE=2000,FR=2000,<b>IT</b>=1000")
    assert [group.users for group in Plan.read("plan.json").groups] == [2000, 2000, 1000]
    shown = run("estimate", "plan.json", "all.tally", "--by", "country", "--html", "page.html", "-o", "all.csv")
    assert "country" in shown.output
    assert "FR" in shown.output
    page = Path("page.html").read_text(encoding="utf-8")
    assert 'id="by-0"' in page
    assert "&lt;b&gt;IT" in page
    assert "<b>IT" not in page
    rows = Path("all.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("group,question,")
    assert len(rows) == 1 + 3 * 6
    told = json.loads(run("estimate", "plan.json", "all.tally", "--by", "country", "--json").stdout)
    assert told["by"]["attribute"] == "country"
    assert list(told["by"]["groups"]) == ["DE", "FR", "<b>IT</b>"]
    assert told["users"] == 3000
    run("estimate", "plan.json", "all.tally", "--by", "country", "-o", "all.parquet")
    run("estimate", "plan.json", "all.tally", "--by", "country", "-o", "all.json")


def test_budgets_to_choose_from(place: Path):
    collected("--group", "careful=0.5:2000", "--group", "open=2:1000")
    made = Plan.read("plan.json")
    assert {label: plan.epsilon for label, plan in made.budgets.items()} == {"careful": 0.5, "open": 2.0}
    assert {label: plan.users for label, plan in made.budgets.items()} == {"careful": 2000, "open": 1000}
    values = {}
    for pooling in ("stratified", "reports", "inverse variance"):
        told = json.loads(run("estimate", "plan.json", "all.tally", "--pooling", pooling, "--json").stdout)
        values[pooling] = told["questions"]["mean(income)"]["numbers"][0]["stderr"]
    assert values["inverse variance"] < values["stratified"]
    run("estimate", "plan.json", "all.tally", "--by", "budget", "--html", "page.html")
    assert 'id="by-1"' in Path("page.html").read_text(encoding="utf-8")


def test_sizes(place: Path):
    collected("--epsilon", "2", "--users", "3000")
    weights = "country:DE=1,country:FR=1,country:<b>IT</b>=8"
    plain, sized, weighted = (
        json.loads(run("estimate", "plan.json", "all.tally", "--refine", "none", "--json", *options).stdout)
        for options in ([], ["--sizes", "DE=1,FR=1,<b>IT</b>=8"], ["--survey-weights", weights])
    )
    numbers = [each["questions"]["mean(income)"]["numbers"][0]["stderr"] for each in (plain, sized, weighted)]
    assert numbers[0] < min(numbers[1:])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--epsilon", "1"], "--users"),
        (["--epsilon", "1", "--users", "10", "--group", "a=1:10"], "--group"),
        (["--group", "careful=0.5"], "NAME=EPSILON:USERS"),
        (["--group", "a=1:10", "--group", "a=2:10"], "each name once"),
        (["--epsilon", "1", "--users", "many"], "whole number of users"),
        (["--epsilon", "1", "--users", "DE=10"], "no number for FR"),
        (["--epsilon", "1", "--users", "300", "--ask", "histogram(country)"], "country is public"),
        (["--epsilon", "1", "--users", "300", "--rounds", "3"], "asks once"),
    ],
)
def test_odd_plans(place: Path, options: list[str], told: str):
    assert told in " ".join(run("plan", "schema.toml", *options, fails=True).output.split())


def test_odd_estimates(place: Path):
    collected("--epsilon", "2", "--users", "3000")
    assert "there are country" in run("estimate", "plan.json", "all.tally", "--by", "age", fails=True).output
    assert "write --sizes as" in run("estimate", "plan.json", "all.tally", "--sizes", "DE", fails=True).output
