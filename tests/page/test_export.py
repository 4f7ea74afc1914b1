"""All estimates as one flat table and as files: nothing is lost, nothing is half written, NaN is null."""

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.core.estimate import Estimate
from dither.core.guarantee import Guarantee
from dither.display.spreadsheet import spreadsheet_text, text_of_cell
from dither.errors import ParameterError
from dither.page import export as module
from dither.page.export import (
    KINDS,
    compared,
    coverage,
    flat_columns,
    names,
    people,
    rms,
    to_arrow,
    to_dict,
    write_estimates,
)
from dither.planning import Plan, PlanTally
from dither.ranges.range_estimate import RangeEstimate

SCHEMA = Schema(
    {
        "income": Numeric(0, 200_000),
        "age": Ordinal(18, 99),
        "job": Categorical(["nurse", "driver", "other"]),
        "films": KeyValue(["Alien", "Heat", "Totoro"], size=2, low=1, high=5),
    }
)
ASK = ["mean(income)", "histogram(job)", "films", "ranges(age, income, job)"]
USERS = 20_000


def table(users: int) -> dict:
    random = np.random.default_rng(5)
    films = random.integers(1, 6, (users, 3)).astype(float)
    films[np.arange(users), random.integers(0, 3, users)] = 0
    return {
        "income": random.uniform(0, 80_000, users),
        "age": random.integers(18, 60, users),
        "job": np.array(["nurse", "driver", "other"])[random.integers(0, 3, users)],
        "films": films,
    }


@pytest.fixture(scope="module")
def plan() -> Plan:
    return dither.plan(SCHEMA, 2.0, users=USERS, ask=ASK)


@pytest.fixture(scope="module")
def tally(plan: Plan) -> PlanTally:
    return plan.tally(plan.randomize(table(USERS), seed=1))


@pytest.fixture(scope="module")
def estimates(plan: Plan, tally: PlanTally):
    return plan.estimate(tally, refine="auto")


@pytest.fixture(scope="module")
def of_one(plan: Plan):
    """One user reported, so most questions were asked of nobody."""
    return plan.estimate(plan.tally(plan.randomize(table(1), seed=1)))


def test_one_row_a_number(plan, estimates):
    rows = flat_columns(plan, estimates).columns
    sizes = {"mean(income)": 1, "histogram(job)": 3, "presence(films)": 3, "mean(films)": 3}
    sizes |= {"conditional_mean(films)": 3, "frequency(films)": 6, "ranges(age, income, job)": 82 + 64 + 3}
    assert {name: rows["question"].count(name) for name in rows["question"]} == sizes
    assert list(rows)[:3] == ["question", "attribute", "of"]
    assert {len(column) for column in rows.values()} == {sum(sizes.values())}


def test_rows_are_the_estimates(plan, estimates):
    rows = flat_columns(plan, estimates).columns
    for place, question in enumerate(rows["question"]):
        estimate = estimates[question]
        if isinstance(estimate, RangeEstimate):
            estimate = estimate[rows["attribute"][place]]
        names = list(estimate.labels) if estimate.labels is not None else ["all users"]
        at = names.index(rows["of"][place])
        low, high = estimate.interval(0.95)
        for column, numbers in (("value", estimate.value), ("stderr", estimate.stderr), ("low", low), ("high", high)):
            assert rows[column][place] == np.ravel(numbers)[at]
        assert rows["reports"][place] == estimate.n
        assert rows["refined"][place] == (estimate.original is not None)
        if estimate.original is None:
            assert math.isnan(rows["original_value"][place])
        else:
            assert rows["original_value"][place] == np.ravel(estimate.original.value)[at]
            assert rows["original_stderr"][place] == np.ravel(estimate.original.stderr)[at]


def test_attributes_of_ranges_are_told_apart(plan, estimates):
    rows = flat_columns(plan, estimates).columns
    told = {pair for pair in zip(rows["question"], rows["attribute"], strict=True) if pair[0].startswith("ranges")}
    assert {attribute for _, attribute in told} == {"age", "income", "job"}
    assert rows["attribute"][0] == "income"


def test_every_row_says_whether_it_is_simulated(plan, estimates, tmp_path):
    """CSV has no place for remarks."""
    write_estimates(tmp_path / "a.csv", plan, estimates)
    write_estimates(tmp_path / "b.csv", plan, plan.estimate(plan.tally(plan.randomize(table(500)))))
    for name, told in (("a.csv", "true"), ("b.csv", "false")):
        with (tmp_path / name).open(encoding="utf-8", newline="") as file:
            assert {row["simulated"] for row in csv.DictReader(file)} == {told}
    assert set(to_arrow(plan, estimates)["simulated"].to_pylist()) == {True}
    assert set(flat_columns(plan, estimates).columns["simulated"]) == {True}


def test_blank_labels_are_quoted_for_readers_and_kept_in_files():
    plan = dither.plan(Schema({"job": Categorical(["", " ", "nurse"])}), 4.0, users=300)
    found = plan.estimate(plan.tally(plan.randomize({"job": ["", " ", "nurse"] * 100}, seed=1)))
    assert names(found.single("histogram(job)")) == ['""', '" "', "nurse"]
    assert flat_columns(plan, found).columns["of"] == ["", " ", "nurse"]


def test_another_level_moves_the_ends_only(plan, estimates):
    usual, narrow = flat_columns(plan, estimates).columns, flat_columns(plan, estimates, 0.5).columns
    assert usual["value"] == narrow["value"]
    assert narrow["low"][0] > usual["low"][0]


def test_who_reported(plan, estimates, of_one):
    assert people(plan, estimates) == USERS
    assert people(plan, of_one) == 1


def test_who_reported_where_everybody_answers_everything():
    plan = dither.plan(Schema({"a": Numeric(0, 1), "b": Categorical(["x", "y"])}), 8.0, users=500)
    found = plan.estimate(plan.tally(plan.randomize({"a": np.ones(300), "b": ["x"] * 300}, seed=1)))
    assert people(plan, found) == 300


@pytest.mark.parametrize("kind", KINDS)
def test_files_appear_whole(plan, estimates, tmp_path, kind):
    write_estimates(tmp_path / f"found{kind}", plan, estimates)
    assert [file.name for file in tmp_path.iterdir()] == [f"found{kind}"]
    assert (tmp_path / f"found{kind}").stat().st_size > 1000


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_is_left_if_writing_fails(plan, estimates, tmp_path, monkeypatch, kind):
    def broken(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", broken)
    monkeypatch.setattr(module, "_write_csv", broken)
    monkeypatch.setattr(parquet, "write_table", broken)
    with pytest.raises(dither.DitherError):
        write_estimates(tmp_path / f"found{kind}", plan, estimates)
    assert list(tmp_path.iterdir()) == []


def test_parquet(plan, estimates, tmp_path):
    path = tmp_path / "found.parquet"
    write_estimates(path, plan, estimates)
    read = parquet.read_table(path)
    rows = flat_columns(plan, estimates).columns
    assert read.column_names == list(rows)
    assert read["value"].to_pylist() == rows["value"]
    assert read["of"].to_pylist() == rows["of"]
    metadata = {key.decode(): value.decode() for key, value in read.schema.metadata.items()}
    assert metadata["dither.plan"] == plan.fingerprint
    assert metadata["dither.guarantee"] == "no guarantee (simulated from a seed)"
    assert metadata["dither.simulated"] == "true"
    assert (metadata["dither.level"], metadata["dither.users"]) == ("0.95", str(USERS))


def test_a_real_guarantee_is_stated():
    plan = dither.plan(Schema({"a": Numeric(0, 1)}), 1.0, users=100)
    found = plan.estimate(plan.tally(plan.randomize({"a": np.ones(100)})))
    facts = to_dict(plan, found)
    assert (facts["simulated"], facts["epsilon"], facts["delta"]) == (False, plan.guarantee.epsilon, 0.0)
    assert to_arrow(plan, found).schema.metadata[b"dither.guarantee"] == str(plan.guarantee).encode()


def test_csv(plan, estimates, tmp_path):
    path = tmp_path / "found.csv"
    write_estimates(path, plan, estimates)
    with path.open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    rows = flat_columns(plan, estimates).columns
    assert [float(row["value"]) for row in read] == rows["value"]
    assert {row["refined"] for row in read} == {"true", "false"}
    assert all((row["original_value"] == "") == (row["refined"] == "false") for row in read)


def test_json(plan, estimates, tmp_path):
    path = tmp_path / "found.json"
    write_estimates(path, plan, estimates)
    read = json.loads(path.read_text(encoding="utf-8"))
    assert read == to_dict(plan, estimates)
    assert (read["plan"], read["users"], read["simulated"]) == (plan.fingerprint, USERS, True)
    assert (read["epsilon"], read["delta"]) == (None, None)
    assert set(read["questions"]) == set(estimates)
    job = read["questions"]["histogram(job)"]
    assert job["reports"] == estimates["histogram(job)"].n
    assert [number["of"] for number in job["numbers"]] == ["nurse", "driver", "other"]
    assert job["numbers"][1]["value"] == estimates["histogram(job)"].value[1]
    assert job["numbers"][1]["original_value"] == estimates["histogram(job)"].original.value[1]
    assert {number["attribute"] for number in read["questions"][ASK[3]]["numbers"]} == {"age", "income", "job"}


FORMULAS = ["=1+1", "+1+1", "-1+cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "\r=1", "'=1", "nurse, =1", "-5", "+7", "3"]


def test_no_cell_of_a_csv_file_is_a_formula(tmp_path):
    found = dither.plan(dither.Schema({"=job": dither.Categorical(FORMULAS)}), 1.0, users=1000)
    estimates = found.estimate(found.tally(found.randomize({"=job": FORMULAS[:2] * 20}, seed=1)))
    write_estimates(tmp_path / "found.csv", found, estimates)
    with (tmp_path / "found.csv").open(encoding="utf-8", newline="") as file:
        read = list(csv.reader(file))
    numbers = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?")
    cells = [cell for row in read for cell in row]
    assert [cell for cell in cells if cell.startswith(tuple("=+-@\t\r")) and not numbers.fullmatch(cell)] == []
    of = read[0].index("of")
    assert [text_of_cell(row[of]) for row in read[1:]] == FORMULAS  # also that with a line break, which ends no row
    assert {text_of_cell(row[1]) for row in read[1:]} == {"=job"}
    values = [row[read[0].index("value")] for row in read[1:]]
    assert [float(value) for value in values] == estimates["=job"].value.tolist()  # a negative share stays a number
    assert min(map(float, values)) < 0


@pytest.mark.parametrize("before", [" ", "  ", "\xa0", "\ufeff", "\u200b", "\x00", "\x0b", "\u2028", "\u202e"])
def test_what_stands_before_a_formula_unseen_does_not_hide_it(before):
    assert spreadsheet_text(f"{before}=1+1") == f"'{before}=1+1"
    assert spreadsheet_text(f"{before}nurse") == f"{before}nurse"


@given(st.text(alphabet="'=+-@\t\r\n15.e x\uff1d\ufeff"))
def test_a_text_is_known_again(text):
    cell = spreadsheet_text(text)
    assert text_of_cell(cell) == text
    assert cell in (text, f"'{text}")


@pytest.mark.parametrize("kind", [".json", ".csv", ".parquet"])
def test_what_nobody_was_asked_is_null(plan, of_one, tmp_path, kind):
    path = tmp_path / f"found{kind}"
    write_estimates(path, plan, of_one)
    empty = [name for name, each in of_one.items() if each.n == 0]
    assert empty
    if kind == ".json":
        numbers = json.loads(path.read_text())["questions"]
        assert {number["value"] for name in empty if "ranges" not in name for number in numbers[name]["numbers"]} == {
            None
        }
        assert "NaN" not in path.read_text()
        assert "Infinity" not in path.read_text()
    elif kind == ".csv":
        assert "nan" not in path.read_text()
        assert "inf" not in path.read_text()
    else:
        read = parquet.read_table(path).to_pylist()
        found = {row["value"] for row in read if row["question"] in empty and "ranges" not in row["question"]}
        assert found == {None}


def test_other_endings_are_refused_before_anything_is_written(plan, estimates, tmp_path):
    for name in ("found.xlsx", "found", "found.parquet.tmp"):
        with pytest.raises(ParameterError, match=r"\.parquet, \.csv, \.json, \.html"):
            write_estimates(tmp_path / name, plan, estimates)
    assert list(tmp_path.iterdir()) == []


def test_estimates_of_another_plan_are_refused(plan, estimates):
    other = dither.plan(Schema({"height": Numeric(0, 3)}), 1.0, users=100)
    for wrong in ((other, estimates), (plan, dict(estimates)), (plan, None), (None, estimates)):
        with pytest.raises(ParameterError, match="not estimates of this plan"):
            flat_columns(*wrong)  # type: ignore[arg-type]


def test_keys_without_names_are_numbered():
    plan = dither.plan(Schema({"keys": KeyValue(keys=6, size=2)}), 4.0, users=1000)
    found = plan.estimate(plan.tally(plan.randomize({"keys": [{0: 0.5, 3: -1.0}] * 1000}, seed=1)))
    rows = flat_columns(plan, found).columns
    presence = [name for name, of in zip(rows["question"], rows["of"], strict=True) if name.startswith("presence")]
    assert len(presence) == 6
    assert rows["of"][:6] == list("012345")


# Errors ------------------------------------------------------------------------------------------------------------


def test_compared_with_the_truth(plan, estimates):
    truth = {"mean(income)": 41_000.0, "histogram(job)": [0.3, 0.4, 0.3]}
    rows = compared(plan, estimates, truth).columns
    assert rows["question"] == [str(question) for question in plan.questions]
    at = rows["question"].index("histogram(job)")
    estimate, true = estimates["histogram(job)"], np.array(truth["histogram(job)"])
    low, high = (
        estimate.value - 1.959963984540054 * estimate.stderr,
        estimate.value + 1.959963984540054 * estimate.stderr,
    )
    assert rows["numbers"][at] == 3
    assert rows["predicted"][at] == plan.predicted["histogram(job)"]
    assert rows["stated"][at] == pytest.approx(np.sqrt((estimate.original.stderr**2).mean()))
    assert rows["refined"][at] == pytest.approx(np.sqrt((estimate.stderr**2).mean()))
    assert rows["real before"][at] == pytest.approx(np.sqrt(((estimate.original.value - true) ** 2).mean()))
    assert rows["real"][at] == pytest.approx(np.sqrt(((estimate.value - true) ** 2).mean()))
    assert rows["inside"][at] == pytest.approx(((low <= true) & (true <= high)).mean())
    assert math.isnan(rows["real"][rows["question"].index("presence(films)")])


def test_ranges_are_compared_by_typical_queries(plan, estimates):
    rows = compared(plan, estimates).columns
    at = rows["question"].index(ASK[3])
    halves = {"age": (18, 58), "income": (0, 100_000), "job": ["nurse"]}
    pairs = [("age", "income"), ("age", "job"), ("income", "job")]
    answers = estimates[ASK[3]].answers([{name: halves[name] for name in pair} for pair in pairs])
    assert rows["numbers"][at] == 3
    assert rows["stated"][at] == pytest.approx(np.sqrt((answers.stderr**2).mean()))
    assert math.isnan(rows["refined"][at])


@pytest.mark.parametrize(
    ("truth", "told"),
    [
        ({"mean(height)": 1.0}, "not asked"),
        ({"histogram(job)": [0.5, 0.5]}, "one number for each"),
        ({ASK[3]: [1.0]}, "queries"),
    ],
)
def test_a_truth_that_does_not_fit_is_refused(plan, estimates, truth, told):
    with pytest.raises(ParameterError, match=told):
        compared(plan, estimates, truth)


def test_intervals_that_are_not_known_hold_nothing():
    estimate = Estimate(np.array([0.0, 1.0, np.nan]), np.array([1.0, np.inf, np.inf]), 1, Guarantee(1.0))
    assert coverage(estimate, np.zeros(3)) == 1.0
    assert coverage(estimate, np.full(3, 9.0)) == 0.0
    nothing = Estimate(np.array([np.nan]), np.array([np.inf]), 0, Guarantee(1.0))
    assert math.isnan(coverage(nothing, np.zeros(1)))
    assert math.isnan(rms([np.inf, np.nan]))
