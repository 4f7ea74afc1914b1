"""`dither top`: rankings of words that nobody listed, and of keys; and what infer and plan make of texts."""

import json
from pathlib import Path

import pytest

import dither
from cli.cases import done, facts, printed, refused, words

WORDS = ["tea", "coffee", "cocoa", "water", "lemon"]
SHARES = [900, 700, 250, 100, 50]
TOML = """
[drink]
kind = "text"
longest = 6
alphabet = "acefhlmnortw"
[films]
kind = "keyvalue"
keys = ["Alien", "Heat", "Totoro"]
size = 2
"""


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """A plan with one ranking of words, its tally, and the folder of both."""
    folder = tmp_path_factory.mktemp("drinks")
    (folder / "schema.toml").write_text(TOML.partition("[films]")[0], encoding="utf-8")
    rows = [word for word, count in zip(WORDS, SHARES, strict=True) for _ in range(count)]
    (folder / "drinks.csv").write_text("\n".join(["drink", *rows, ""]), encoding="utf-8")
    plan, reports, tally = (str(folder / name) for name in ("plan.json", "reports.parquet", "all.tally"))
    done("plan", folder / "schema.toml", "--epsilon", 6, "--users", 2000, "-o", plan)
    done("randomize", plan, folder / "drinks.csv", "-o", reports, "--seed", 1)
    done("tally", plan, reports, "-o", tally)
    return plan, tally, folder


def test_a_ranking_is_listed_whole_with_how_deep_it_looked(collected):
    plan, tally, _ = collected
    text = words(done("top", plan, tally).stdout)
    assert "rank of share 95% interval" in text
    assert "1 tea 4" in text
    assert "2 coffee" in text
    assert "significantly above" in text
    assert "first characters reports looked at extended" in text
    assert "2,000 reports" in text


def test_the_same_for_machines_is_what_python_computes(collected):
    plan, tally, _ = collected
    told = facts("top", plan, tally, "--share", "lemon", "--share", "Tea ")
    made = dither.Plan.from_json(Path(plan).read_text(encoding="utf-8"))
    found = made.estimate(dither.planning.PlanTally.from_bytes(Path(tally).read_bytes())).single("top(drink, 20)")
    assert (told["plan"], told["question"], told["reports"]) == (made.fingerprint, "top(drink, 20)", 2000)
    assert told["simulated"]
    assert [each["of"] for each in told["listed"]] == list(found.item_names)
    assert [each["value"] for each in told["listed"]] == found.value.tolist()
    assert all(each["low"] <= each["value"] <= each["high"] for each in told["listed"])
    assert [each["of"] for each in told["shares"]] == ["lemon", "tea"]
    truth = {"lemon": 0.025, "tea": 0.45}  # seven standard errors: a false alarm below 1e-11
    assert all(abs(each["value"] - truth[each["of"]]) < 7 * each["stderr"] for each in told["shares"])
    levels = told["searched"]
    assert sum(level["reports"] for level in levels) == 2000
    assert levels[-1]["first characters"] == 6


@pytest.mark.wide
def test_words_that_cannot_be_are_refused_and_not_quoted(collected):
    plan, tally, _ = collected
    message = refused("top", plan, tally, "--share", "tea", "--share", "7310473secret")
    assert "word 1 of these, from 0, is not one that a user can have" in message
    assert "secret" not in message


def test_a_page_ranks_them(collected):
    plan, tally, folder = collected
    done("estimate", plan, tally, "--html", folder / "report.html")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "What nobody had listed" in page
    assert "1. <bdi>tea</bdi>" in page
    assert "How deep the search went" in page


def test_a_plan_says_what_will_be_found(collected):
    plan, _, folder = collected
    text = words(printed("plan", folder / "schema.toml", "--epsilon", 1, "--users", 100_000))
    assert "nothing below" in text
    assert "will be found" in text
    assert json.loads(Path(plan).read_text(encoding="utf-8"))["schema"]["drink"]["kind"] == "text"


@pytest.mark.wide
def test_which_ranking_is_meant(tmp_path):
    (tmp_path / "schema.toml").write_text(TOML, encoding="utf-8")
    plan, tally = tmp_path / "plan.json", tmp_path / "all.tally"
    ask = ["--ask", "top(drink, 3)", "--ask", "top(films, 2)"]
    done("plan", tmp_path / "schema.toml", "--epsilon", 8, "--users", 300, *ask, "-o", plan)
    made = dither.Plan.from_json(plan.read_text(encoding="utf-8"))
    reports = made.randomize([{"drink": "tea", "films": {"Heat": 1}}] * 300, seed=1)
    tally.write_bytes(made.tally(reports).to_bytes())
    assert "top(drink, 3), top(films, 2)" in refused("top", plan, tally)
    assert "1 tea" in words(done("top", plan, tally, "--question", "drink").stdout)
    ranked = words(done("top", plan, tally, "--question", "top(films,2)").stdout)
    assert "1 Heat" in ranked
    assert "looked at" not in ranked
    assert "are in the plan" in refused("top", plan, tally, "--question", "films", "--share", "Heat")


def test_a_plan_without_a_ranking_is_told_how_to_ask_for_one(plan, tally):
    assert "--ask 'top(NAME, 20)'" in refused("top", plan, tally)


@pytest.mark.wide
def test_nothing_stands_out(collected, tmp_path):
    _, _, folder = collected
    plan, tally = tmp_path / "plan.json", tmp_path / "few.tally"
    done("plan", folder / "schema.toml", "--epsilon", 0.1, "--users", 50, "-o", plan)
    made = dither.Plan.from_json(plan.read_text(encoding="utf-8"))
    tally.write_bytes(made.tally(made.randomize([{"drink": "tea"}] * 50, seed=1)).to_bytes())
    assert "Nothing stands out of the noise" in done("top", plan, tally).stdout
    assert facts("top", plan, tally)["listed"] == []
    assert "nothing stands out" in done("estimate", plan, tally, "--html", tmp_path / "report.html").stdout
    assert "None stands out of the noise" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_infer_guesses_an_alphabet_and_a_length(collected, tmp_path):
    _, _, folder = collected
    target = tmp_path / "guess.toml"
    done("infer", folder / "drinks.csv", "--text", "drink", "-o", target)
    assert dither.Schema.read(str(target))["drink"] == dither.Text(6, "abcdefghijklmnopqrstuvwxyz")
    assert "it has drink" in refused("infer", folder / "drinks.csv", "--text", "wine")
