"""Small files to run commands on."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.cases import SCHEMA, done

JOBS = ["nurse", "driver", "other", "other"]


@pytest.fixture
def schema(tmp_path: Path) -> str:
    """A file with a schema of three attributes."""
    path = tmp_path / "schema.toml"
    path.write_text(SCHEMA, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="session")
def plans(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Plans with epsilon 4 and 5, for 2,000 users, and one that asks for ranges; made once."""
    folder = tmp_path_factory.mktemp("plans")
    schema = folder / "schema.toml"
    schema.write_text(SCHEMA, encoding="utf-8")
    ways = [(4, ()), (5, ()), (4, ("--ask", "ranges(age, income, job)", "--ask", "mean(income)"))]
    for epsilon, ask in ways:
        done("plan", schema, "--epsilon", epsilon, "--users", 2000, *ask, "-o", folder / f"{epsilon}{len(ask)}.json")
    return [(folder / f"{epsilon}{len(ask)}.json").read_text(encoding="utf-8") for epsilon, ask in ways]


@pytest.fixture
def plan(plans: list[str], tmp_path: Path) -> str:
    """A file with a plan."""
    target = tmp_path / "plan.json"
    target.write_text(plans[0], encoding="utf-8")
    return str(target)


@pytest.fixture
def other_plan(plans: list[str], tmp_path: Path) -> str:
    """The same questions with another budget."""
    target = tmp_path / "other.json"
    target.write_text(plans[1], encoding="utf-8")
    return str(target)


@pytest.fixture
def ranges(plans: list[str], tmp_path: Path) -> str:
    """A plan that asks for ranges, and for a mean."""
    target = tmp_path / "ranges.json"
    target.write_text(plans[2], encoding="utf-8")
    return str(target)


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[..., str]:
    """Writes a file of rows; the names first."""

    def written(rows: list[list[Any]], name: str = "people.csv") -> str:
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(rows)
        return str(tmp_path / name)

    return written


@pytest.fixture
def people(write_csv: Callable[..., str]) -> str:
    """2,000 records, with a column that no plan asks for."""
    rows = [[i, 20 + i % 60, 50 * i + 0.5, JOBS[i % 4]] for i in range(2000)]
    return write_csv([["id", "age", "income", "job"], *rows])


@pytest.fixture
def reports(plan: str, people: str, tmp_path: Path) -> str:
    """Their reports, from a seed."""
    target = str(tmp_path / "reports.parquet")
    done("randomize", plan, people, "-o", target, "--seed", 1)
    return target


@pytest.fixture
def tally(plan: str, reports: str, tmp_path: Path) -> str:
    """The tally of these."""
    target = str(tmp_path / "all.tally")
    done("tally", plan, reports, "-o", target)
    return target
