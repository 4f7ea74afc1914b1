"""Every paper that is described: it runs at the smallest scale, and each of its claims has a verdict."""

import pytest

from dither.reproduce import papers, publication
from dither.reproduce.claims import OUTCOMES
from dither.reproduce.results_cache import ResultsCache
from dither.reproduce.runner import measure_selections

CLAIMS = {"000": 21, "001": 40, "002": 30, "003": 36, "004": 38}  # as the papers' claims were numbered
UNDECIDED = 15
each_paper = pytest.mark.parametrize("number", sorted(CLAIMS))


@each_paper
def test_every_figure_table_and_claim_runs_at_the_smallest_scale(number, tmp_path):
    (selection,) = papers.select([number])
    done = measure_selections([selection], "smoke", ResultsCache(tmp_path))
    files = {path.name for path in publication.publish(selection, done.measured, tmp_path / "out")}
    without = {name for names in done.missing.values() for name in names.split()}
    for entry in selection.figures:
        if entry.experiment.name in done.measured and len(entry.shown(done.measured[entry.experiment.name])):
            kind = "svg" if entry.shown_as == "picture" else "txt"
            assert f"{entry.name}.{kind}" in files
    missing = {each.name for each in selection.experiments} - set(done.measured)
    assert missing <= without, "experiments that measure nothing at the smallest scale, though their data are here"


@each_paper
def test_every_claim_has_its_number(number):
    paper = papers.load_paper(number)
    assert [each.name for each in paper.claims] == [f"{number}.claim{each}" for each in range(1, CLAIMS[number] + 1)]


def test_every_claim_has_a_verdict_and_few_are_undecided():
    """By the numbers that are kept, of which the pages are made."""
    found = [
        judged
        for number in sorted(CLAIMS)
        for judged in publication.verdicts(papers.load_paper(number).claims, papers.load_paper(number).kept())
    ]
    assert len(found) == sum(CLAIMS.values()) == 165
    assert all(each.verdict.outcome in OUTCOMES and each.verdict.evidence for each in found)
    left = [each for each in found if each.verdict.outcome == "cannot be decided here"]
    assert len(left) <= UNDECIDED, [f"{each.claim.name}: {each.verdict.evidence}" for each in left]
    assert not [each.claim.name for each in left if each.verdict.evidence.startswith("not measured in this run")]


@each_paper
def test_every_figure_has_kept_numbers(number):
    paper = papers.load_paper(number)
    kept = paper.kept()
    assert {each.name for each in paper.experiments} <= set(kept)
    assert all(len(entry.shown(kept[entry.experiment.name])) for entry in paper.figures)
