"""What is written: pictures, tables, verdicts, the page of a paper, and the command."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from dither.cli import main
from dither.reproduce import papers, publication
from dither.reproduce.claims import Claim, holds
from dither.reproduce.drawing import draw
from dither.reproduce.measured import Measured, measured_value
from dither.reproduce.paper_figures import Figure, PaperTable
from dither.reproduce.results_cache import ResultsCache
from dither.reproduce.runner import measure_selections


@pytest.fixture
def measured(made, tmp_path):
    """What the made paper measures."""
    return measure_selections(papers.select(["900"]), "quick", ResultsCache(tmp_path / "cache")).measured


def test_figures_tables_and_verdicts_are_written(measured, tmp_path):
    (selection,) = papers.select(["900"])
    names = {path.name for path in publication.publish(selection, measured, tmp_path / "out")}
    assert names == {
        "900.fig1.png", "900.fig1.svg", "900.fig1.csv", "900.table1.csv", "900.table1.txt", "900.claims.md",
    }  # fmt: skip
    assert (tmp_path / "out" / "900.fig1.png").read_bytes().startswith(b"\x89PNG")
    assert (
        "| 900.claim1 | it rises | Fig. 1 | holds | as measured |" in (tmp_path / "out" / "900.claims.md").read_text()
    )
    assert Measured.from_csv((tmp_path / "out" / "900.fig1.csv").read_text()).along("level") == (1, 2, 3)


def test_a_table_has_what_is_printed_beside_it(measured):
    shown = papers.load_paper("900").figures[1]
    assert isinstance(shown, PaperTable)
    table = shown.table(measured["900.levels"])
    assert table.columns["twice, printed"] == ["2.5", "", ""]
    assert table.columns["twice"] == ["2", "4", "6"]


def test_lines_panels_and_bars_are_drawn(measured):
    shown = papers.load_paper("900").figures[0]
    assert isinstance(shown, Figure)
    drawn = draw(shown, measured["900.levels"])
    there: Any
    there, missing = drawn.axes
    assert there.get_title(loc="left") == "there"
    assert [list(each.get_children()[0].get_xdata()) for each in there.containers] == [[1, 2, 3], [1, 2, 3]]
    assert missing.texts[0].get_text() == "not measured"
    bars = there.containers[1].get_children()[-1].get_segments()
    expected = measured["900.levels"].curve("level", line="noise")
    assert [high[1] - low[1] for low, high in bars] == pytest.approx(list(4 * expected.stderr))


def test_a_claim_whose_numbers_are_missing_is_undecided(made):
    claim = papers.load_paper("900").claims[0]
    assert claim.verdict({}).outcome == "cannot be decided here"
    assert "900.levels" in claim.verdict({}).evidence
    part = Measured.of([measured_value(1.0, level=3, line="twice")])
    assert "no number at level=2" in claim.verdict({"900.levels": part}).evidence
    falling = Measured.of([measured_value(1.0, level=3, line="twice"), measured_value(2.0, level=2, line="twice")])
    assert claim.verdict({"900.levels": falling}).outcome == "refuted"


def test_a_judge_that_fails_is_no_verdict():
    """Only numbers that are missing leave a claim open; a mistake in its judge is told."""
    broken = Claim("900.claim2", "", "", (), lambda: holds({}["no such key"]))
    with pytest.raises(KeyError):
        broken.verdict({})


def test_the_page_of_a_paper(measured):
    text = publication.page(papers.load_paper("900"), measured, "pictures/{name}.svg")
    assert "Of 1 claims: 1 holds." in text
    assert "![levels](pictures/900.fig1.svg)" in text
    assert "| level | twice, printed | twice |" in text
    assert "Not measured yet: `dither reproduce 900.fig1`" in publication.page(papers.load_paper("900"), {})


def test_kept_numbers_are_those_of_the_pages(measured, made):
    paths = publication.keep(papers.load_paper("900"), measured)
    assert [path.name for path in paths] == ["900.levels.csv"]
    assert papers.load_paper("900").kept()["900.levels"].value(level=2, line="twice") == 4.0


def test_the_command_measures_and_tells(made, tmp_path):
    asked = ["reproduce", "900", "--smoke", "--jobs", "1", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    assert "900: 1 cannot be decided here" in done.output  # at this scale the second level is not measured
    assert "2 measurements made, 0 known before" in done.output
    again = CliRunner().invoke(main, asked)
    assert "0 measurements made, 2 known before" in again.output
    facts = CliRunner().invoke(main, ["reproduce", "900", "--json", "--jobs", "1", "-o", str(tmp_path / "out")])
    assert json.loads(facts.stdout) == [{"claim": "900.claim1", "outcome": "holds", "evidence": "as measured"}]


def test_the_command_lists_and_refuses(made):
    listed = CliRunner().invoke(main, ["reproduce", "--list"])
    assert listed.exit_code == 0
    assert "900.fig1" in listed.output
    assert "900.claim1" in listed.output
    wrong = CliRunner().invoke(main, ["reproduce", "900.figg1"])
    assert wrong.exit_code == 1
    assert "did you mean 900.fig1" in wrong.output
    assert CliRunner().invoke(main, ["reproduce"]).exit_code == 2
