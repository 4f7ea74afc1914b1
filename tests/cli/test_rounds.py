"""Collections over time: `plan --rounds`, and `rounds`."""

import json
from pathlib import Path

import numpy as np
import pytest

import dither
from cli.cases import done, facts, refused, run, words

SCHEMA = '[job]\nkind = "categorical"\nlabels = ["nurse", "driver", "teacher", "other"]\n'


@pytest.fixture
def weekly(tmp_path: Path) -> str:
    """A plan of three rounds, and the tallies of two of them, named after their periods."""
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    target = tmp_path / "plan.json"
    options = ("--epsilon", 2, "--users", 3000, "--rounds", "W47, W48, W49", "--changes", 0)
    told = done("plan", tmp_path / "schema.toml", *options, "-o", target)
    assert "ledger" in told.stderr
    plan = dither.Plan.read(target)
    jobs = np.array(["nurse", "driver", "teacher", "other"])[np.arange(3000) % 4]
    for week, reports in zip(["W47", "W48"], plan.randomize_rounds([{"job": jobs}] * 2, seed=1), strict=True):
        (tmp_path / f"{week}.tally").write_bytes(plan.tally(reports).to_bytes())
    return str(target)


def test_plan_with_rounds(weekly: str, tmp_path: Path):
    plan = dither.Plan.read(weekly)
    expected = dither.plan(dither.Schema.read(tmp_path / "schema.toml"), 2.0, users=3000, rounds=["W47", "W48", "W49"])
    assert plan.schedule.labels == ("W47", "W48", "W49")
    assert plan == expected
    told = done(
        "plan", tmp_path / "schema.toml", "--epsilon", 2, "--users", 3000, "--rounds", 30, "--first", 0.5, "--json"
    )
    assert json.loads(told.stdout)["schedule"]["rounds"] == 30


def test_rounds(weekly: str, tmp_path: Path):
    tallies = [tmp_path / "W47.tally", tmp_path / "W48.tally"]
    picture, table, numbers = tmp_path / "r.png", tmp_path / "r.csv", tmp_path / "r.json"
    told = done("rounds", weekly, *tallies, "--plot", picture, "-o", table)
    assert "W48 less W47" in words(told.stdout)
    assert "2 of 3 rounds" in words(told.stdout)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(table.read_text(encoding="utf-8").splitlines()) == 9
    done("rounds", weekly, f"W48={tallies[1]}", f"W47={tallies[0]}", "-o", numbers)
    stored = json.loads(numbers.read_text(encoding="utf-8"))
    assert stored == facts("rounds", weekly, *tallies)
    assert [row["from"] for row in stored["changes"]] == ["W47"] * 4
    assert "next: dither rounds" in done("rounds", weekly, tallies[0]).stderr


def test_odd_rounds(weekly: str, tmp_path: Path):
    first, second = tmp_path / "W47.tally", tmp_path / "W48.tally"
    assert "its periods are" in refused("rounds", weekly, f"W50={first}")
    assert "Name each period once" in run("rounds", weekly, first, f"W47={second}").stderr
    assert ".csv or .json" in refused("rounds", weekly, first, "-o", tmp_path / "x.txt")
    assert "ledger" in refused("randomize", weekly, tmp_path / "schema.toml", "-o", tmp_path / "x.parquet")
    schema = tmp_path / "schema.toml"
    few = ("--epsilon", 1, "--users", 9)
    assert "--plot draws" in run("plan", schema, *few, "--rounds", 3, "--plot", tmp_path / "x.png").stderr
    assert "rounds=30" in refused("plan", schema, *few, "--changes", 3)
