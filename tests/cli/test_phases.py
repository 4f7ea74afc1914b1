"""Two phases in the command: from a schema without ends to an estimate, and what is refused on the way."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dither.cli import main


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both phases, up to their tallies."""
    place = tmp_path_factory.mktemp("phases")
    (place / "schema.toml").write_text('[spent]\nkind = "numeric"\n')
    spent = 40 * np.exp(1.3 * np.random.default_rng(1).normal(size=8000))
    asked = ["--epsilon", "2", "--users", "8000", "--ask", "median(spent)", "--phases", "2"]
    made = run("plan", f"{place}/schema.toml", *asked, "-o", f"{place}/first.json")
    assert made.exit_code == 0, made.output
    assert "dither next" in made.stderr
    for name, rows in (("first", slice(2000)), ("second", slice(2000, None))):
        (place / f"{name}.csv").write_text("spent\n" + "\n".join(f"{value:.2f}" for value in spent[rows]) + "\n")
        sent = ["--seed", "1", "--invalid", "substitute", "-o", f"{place}/{name}.parquet"]
        assert run("randomize", f"{place}/{name}.json", f"{place}/{name}.csv", *sent).exit_code == 0
        told = run("tally", f"{place}/{name}.json", f"{place}/{name}.parquet", "-o", f"{place}/{name}.tally")
        assert ("dither next" if name == "first" else "--earlier") in told.stderr
        if name == "first":
            after = run("next", f"{place}/first.json", f"{place}/first.tally", "-o", f"{place}/second.json")
            assert after.exit_code == 0, after.output
            assert "--earlier" in after.stderr
            assert "second of two phases" in " ".join(after.stdout.split())
    return place


def test_both_tallies_make_an_estimate(folder: Path):
    found = run("estimate", f"{folder}/second.json", f"{folder}/second.tally", "--earlier", f"{folder}/first.tally")
    assert found.exit_code == 0, found.output
    assert "median(spent)" in found.stdout
    assert "magnitude(spent)" in found.stdout
    assert "From 8,000 users" in " ".join(found.stdout.split())
    page = ["--html", f"{folder}/page.html", "-o", f"{folder}/numbers.csv"]
    both = f"{folder}/second.json", f"{folder}/second.tally", "--earlier", f"{folder}/first.tally"
    assert run("estimate", *both, *page).exit_code == 0
    assert "median(spent)" in (folder / "page.html").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("estimate", "second.json", "second.tally"), "--earlier first.tally"),
        (("estimate", "second.json", "second.tally", "--earlier", "second.tally"), "use the plan that"),
        (("estimate", "first.json", "first.tally", "--earlier", "first.tally"), "no earlier phase"),
        (("next", "second.json", "second.tally"), "last of its phases"),
        (("next", "first.json", "second.tally"), "use the plan that"),
        (("plan", "schema.toml", "--epsilon", "1", "--users", "100"), "phases=2"),
        (("plan", "schema.toml", "--epsilon", "1", "--users", "100", "--phases", "x"), "--phases takes 2"),
        (("plan", "schema.toml", "--epsilon", "1", "--users", "100", "--phases", "3"), "phases is 2"),
        (("plan", "schema.toml", "--epsilon", "1", "--users", "99", "--phases", "2", "--rounds", "3"), "with rounds"),
        (("plan", "schema.toml", "--central", "1", "--delta", "1e-6", "--users", "99", "--phases", "2"), "a shuffler"),
    ],
)
def test_what_is_wrong_is_refused(folder: Path, words: tuple[str, ...], told: str):
    files = [f"{folder}/{word}" if "." in word and not word.startswith("-") else word for word in words]
    found = run(*files)
    assert found.exit_code == 1
    assert told in " ".join(found.output.split())
