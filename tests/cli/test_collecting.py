"""Commands between records and estimates: `randomize`, `tally` and `merge`."""

import json
import os
from pathlib import Path

import pyarrow
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import dither
from cli.cases import done, facts, left_over, refused, run, words
from dither.engines import engine
from dither.planning.plan_tally import PlanTally


def tally_of(path: str | Path) -> PlanTally:
    return PlanTally.from_bytes(Path(path).read_bytes())


def count(tally: PlanTally) -> int:
    return sum(part.n for part in tally.parts.values())


# Randomize ---------------------------------------------------------------------------------------------------------


def test_randomize_tells_what_it_did(plan, people, tmp_path):
    target = tmp_path / "reports.parquet"
    result = done("randomize", plan, people, "-o", target)
    assert result.stdout == ""
    text = result.stderr
    assert "note: 1 column ignored, the plan does not ask for it: id\n" in text
    assert "note: a null counts as age 58, income 100000, job 'other'\n" in text
    assert "randomized 2,000 records in " in text
    assert f"records/s); wrote {target}\n" in text
    assert "every run spends the budget of these records anew (epsilon 4)" in text
    assert text.endswith(f"next: dither tally {plan} {target} -o part.tally\n")
    assert "simulated" not in text
    assert pyarrow.parquet.read_table(target).num_rows == 2000


def test_randomize_names_eight_ignored_columns_at_most(plan, write_csv, tmp_path):
    more = [f"c{i}" for i in range(12)]
    path = write_csv([["age", "income", "job", *more], [20, 5, "nurse", *more]])
    text = done("randomize", plan, path, "-o", tmp_path / "reports.parquet").stderr
    assert "12 columns ignored, the plan does not ask for them: c0, c1, c2, c3, c4, c5, c6, c7 and 4 more\n" in text


def test_randomize_is_secure_unless_a_seed_is_given(plan, people, tmp_path):
    first, again, same, equal = (tmp_path / f"{name}.parquet" for name in "abcd")
    for path in (first, again):
        done("randomize", plan, people, "-o", path)
    text = done("randomize", plan, people, "-o", same, "--seed", 7).stderr
    done("randomize", plan, people, "-o", equal, "--seed", 7)
    assert "simulated: whoever knows the seed can undo the noise" in text
    assert "budget" not in text
    rows = [pyarrow.parquet.read_table(path) for path in (first, again, same, equal)]
    assert rows[0] != rows[1]
    assert rows[2] == rows[3]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "sql", "folder", "stdin"])
def test_every_source_gives_the_same_reports(plan, people, tmp_path, ending):
    table = pyarrow.csv.read_csv(people)
    first, again = tmp_path / "first.parquet", tmp_path / "again.parquet"
    done("randomize", plan, people, "-o", first, "--seed", 3)
    given, stdin = [str(tmp_path / f"same.{ending}")], None
    if ending == "parquet":
        pyarrow.parquet.write_table(table, given[0])
    elif ending == "arrow":
        pyarrow.feather.write_feather(table, given[0])
    elif ending == "sql":
        given = ["--sql", f"select job, income, age from '{people}'"]
    elif ending == "folder":
        os.mkdir(given[0])
        pyarrow.parquet.write_table(table.slice(0, 700), f"{given[0]}/a.parquet")
        pyarrow.parquet.write_table(table.slice(700), f"{given[0]}/b.parquet")
    else:
        given, stdin = ["-"], Path(people).read_bytes()
    done("randomize", plan, *given, "-o", again, "--seed", 3, stdin=stdin)
    assert pyarrow.parquet.read_table(first) == pyarrow.parquet.read_table(again)


def test_randomize_facts_for_machines(plan, people, tmp_path):
    target = str(tmp_path / "reports.arrow")
    found = facts("randomize", plan, people, "-o", target)
    made = dither.Plan.from_json(Path(plan).read_text())
    assert found.pop("seconds") >= 0
    assert found == {
        "plan": made.fingerprint,
        "records": 2000,
        "reports": 2000,
        "file": target,
        "ignored columns": ["id"],
        "epsilon": 4.0,
        "delta": 0.0,
        "simulated": False,
    }
    assert facts("randomize", plan, people, "-o", target, "--seed", 1)["simulated"] is True


def test_several_reports_a_user_are_counted_apart_from_records(schema, people, tmp_path):
    plan = tmp_path / "pairs.json"
    made = dither.plan(dither.Schema.read(schema), 40.0, users=2000)
    assert made.questions_per_user > 1
    plan.write_text(made.to_json())
    found = facts("randomize", plan, people, "-o", tmp_path / "reports.parquet")
    assert (found["records"], found["reports"]) == (2000, 2000 * made.questions_per_user)
    assert facts("tally", plan, tmp_path / "reports.parquet", "-o", tmp_path / "a.tally")["reports"] == found["reports"]


def test_substitutes(plan, write_csv, tmp_path):
    path = write_csv([["age", "income", "job"], [7, "much", "astronaut"], ["", "", ""]])
    target = tmp_path / "reports.parquet"
    assert "--invalid substitute" in refused("randomize", plan, path, "-o", target)
    assert not target.exists()
    assert facts("randomize", plan, path, "-o", target, "--invalid", "substitute")["records"] == 2


# What randomize does not write over ----------------------------------------------------------------------------------


@pytest.fixture
def raw(people, tmp_path, monkeypatch) -> Path:
    """A folder of records, which is the working folder too."""
    folder = tmp_path / "raw"
    (folder / "months").mkdir(parents=True)
    table = pyarrow.csv.read_csv(people)
    for name in ("z1", "z2", "months/a"):
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("source", "output"),
    [
        (["months"], "months/a.parquet"),
        (["z*.parquet"], "z1.parquet"),
        (["--sql", "select * from 'z1.parquet'"], "z1.parquet"),
        (["--sql", "select * from 'z*.parquet'"], "z2.parquet"),
        (["--sql", "select * from read_parquet(['months/*'])"], "months/a.parquet"),
        (["z1.parquet"], "z2.parquet"),  # which is not read, and is no file of reports either
    ],
    ids=str,
)
def test_randomize_does_not_write_over_records(plan, raw, source, output):
    before = Path(output).read_bytes()
    text = refused("randomize", plan, *source, "-o", output)
    assert "cannot be its output" in text or "choose another name" in text
    assert Path(output).read_bytes() == before


@pytest.mark.parametrize("source", [["months"], ["--sql", "select * from 'months/*.parquet'"]], ids=str)
def test_infer_does_not_write_over_records(raw, source):
    before = Path("months/a.parquet").read_bytes()
    assert "cannot be its output" in refused("infer", *source, "-o", "months/a.parquet")
    assert Path("months/a.parquet").read_bytes() == before


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_randomize_tells_that_it_replaced_reports(plan, people, tmp_path, ending):
    target = tmp_path / f"reports.{ending}"
    target.touch()
    note = f"note: {target} held earlier reports, which are replaced\n"
    assert note not in done("randomize", plan, people, "-o", target).stderr
    assert note in done("randomize", plan, people, "-o", target).stderr
    target.write_bytes(b"somebody's notes")
    assert "is no file of reports: it is not replaced" in refused("randomize", plan, people, "-o", target)
    assert target.read_bytes() == b"somebody's notes"


def test_names_of_columns_do_not_rule_the_terminal(plan, people, tmp_path):
    table = pyarrow.csv.read_csv(people).rename_columns(["i\x1b[2J\nd", "age", "income", "job"])
    pyarrow.parquet.write_table(table, tmp_path / "odd.parquet")
    text = done("randomize", plan, tmp_path / "odd.parquet", "-o", tmp_path / "reports.parquet").stderr
    assert "does not ask for it: i?[2J?d\n" in text
    assert "\x1b" not in text


def test_one_of_a_thing(plan, write_csv, tmp_path):
    from dither.cli.common import pace

    assert pace(1, 1.0, "report") == "1 report in 1.0 seconds (1 report/s)"
    assert pace(10, 2.0, "report") == "10 reports in 2.0 seconds (5 reports/s)"
    path, target = write_csv([["age", "income", "job"], [20, 5, "nurse"]]), tmp_path / "reports.parquet"
    done("randomize", plan, path, "-o", target)
    done("tally", plan, target, "-o", tmp_path / "one.tally")
    assert "From 1 user;" in words(done("estimate", plan, tmp_path / "one.tally", "--refine", "none").stdout)


def test_a_folder_that_is_not_there_is_told_before_the_work(plan, reports, parts, tmp_path, monkeypatch):
    from dither.engines.local import Local

    monkeypatch.setattr(Local, "tally", None)
    target = tmp_path / "no" / "all.tally"
    assert f"cannot write {target}: no such file or directory" in refused("tally", plan, reports, "-o", target)
    assert f"cannot write {target}: no such file or directory" in refused("merge", *parts, "-o", target)
    assert f"cannot write {tmp_path}: it is a folder" in refused("tally", plan, reports, "-o", tmp_path)


# Tally -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pieces(plan, people, tmp_path) -> Path:
    """Reports of the people in four files."""
    folder = tmp_path / "reports"
    folder.mkdir()
    table = pyarrow.csv.read_csv(people)
    for i in range(4):
        pyarrow.parquet.write_table(table.slice(500 * i, 500), tmp_path / "some.parquet")
        done("randomize", plan, tmp_path / "some.parquet", "-o", folder / f"{i}.parquet", "--seed", i)
    return folder


def test_tally_tells_what_it_did(plan, reports, tmp_path):
    target = tmp_path / "part.tally"
    result = done("tally", plan, reports, "-o", target)
    assert result.stdout == ""
    assert "tallied 2,000 reports in " in result.stderr
    assert f"reports/s); wrote {target}\n" in result.stderr
    assert "simulated: some of these reports came from a seed, and promise nothing" in result.stderr
    assert f"next: dither estimate {plan} {target}" in result.stderr
    made = dither.Plan.from_json(Path(plan).read_text())
    assert tally_of(target) == engine("local").tally(made, reports)
    assert sorted(file.name for file in tmp_path.glob("*.progress")) == []


def test_tally_takes_files_patterns_and_folders(plan, pieces, tmp_path):
    names = [f"{pieces}/{i}.parquet" for i in range(4)]
    ways = [names, names[::-1], [f"{pieces}/*.parquet"], [str(pieces)], [names[0], f"{pieces}/[123].parquet"]]
    found = []
    for place, way in enumerate(ways):
        told = facts("tally", plan, *way, "-o", tmp_path / f"{place}.tally")
        assert (told["reports"], told["files"], told["simulated"]) == (2000, 4, True)
        assert sum(told["questions"].values()) == 2000
        found.append((tmp_path / f"{place}.tally").read_bytes())
    assert len(set(found)) == 1


@pytest.mark.wide
def test_tally_takes_a_query(plan, other_plan, reports, tmp_path):
    done("tally", plan, reports, "-o", tmp_path / "file.tally")
    done(
        "tally", plan, "--sql", f"select *, 1 as more from '{reports}' order by report", "-o", tmp_path / "query.tally"
    )
    assert (tmp_path / "query.tally").read_bytes() == (tmp_path / "file.tally").read_bytes()
    half = [tmp_path / f"{place}.tally" for place in range(2)]
    for place, path in enumerate(half):
        done("tally", plan, "--sql", f"select * from '{reports}' where abs(tag) % 2 = {place}", "-o", path)
    done("merge", *half, "-o", tmp_path / "both.tally")
    assert (tmp_path / "both.tally").read_bytes() == (tmp_path / "file.tally").read_bytes()
    target = tmp_path / "no.tally"
    for query, given, reason in (
        (f"select tag from '{reports}'", plan, "one column report"),
        (f"select * from '{reports}'", other_plan, "another plan"),
        ("select 1 as tag, 'x'::blob as report", plan, "another plan"),
        ("select * from 'nosuch.parquet'", plan, "the query cannot be run"),
    ):
        result = run("tally", given, "--sql", query, "-o", target)
        assert result.exit_code == 1
        assert reason in words(result.stderr)
        assert not target.exists()
    assert run("tally", plan, reports, "--sql", "select 1", "-o", target).exit_code == 2
    assert run("tally", plan, "-o", target).exit_code == 2
    assert run("tally", plan, "--sql", "select 1", "--engine", "spark", "-o", target).exit_code == 2


def test_tally_of_nothing(plan, write_csv, tmp_path):
    empty, target = tmp_path / "empty.parquet", tmp_path / "empty.tally"
    done("randomize", plan, write_csv([["age", "income", "job"]]), "-o", empty)
    assert facts("tally", plan, empty, "-o", target)["reports"] == 0
    assert "there are no reports yet" in refused("estimate", plan, target)


def test_tally_refuses_what_would_be_counted_twice(plan, reports, tmp_path):
    target = tmp_path / "part.tally"
    copy, link = tmp_path / "copy.parquet", tmp_path / "link.parquet"
    copy.write_bytes(Path(reports).read_bytes())
    link.symlink_to(reports)
    assert "named twice" in refused("tally", plan, reports, reports, "-o", target)
    assert "counted twice" in refused("tally", plan, reports, copy, "-o", target)
    assert "counted twice" in refused("tally", plan, reports, link, "-o", target)
    assert not target.exists()


def test_tally_does_not_write_over_reports(plan, reports):
    before = Path(reports).read_bytes()
    assert "cannot be its output" in refused("tally", plan, reports, "-o", reports)
    assert "cannot be its output" in refused("tally", plan, reports, "-o", plan)
    assert Path(reports).read_bytes() == before


def interrupted(plan: str, pieces: Path, target: Path) -> None:
    """As if a run was killed when two of four files were counted."""
    from dither.engines.journal import Journal
    from dither.engines.report_files import report_files
    from dither.engines.report_rows import tally_rows

    made = dither.Plan.from_json(Path(plan).read_text())
    journal = Journal.at(Path(f"{target}.progress"), made)
    for file in report_files(str(pieces), made)[:2]:
        for piece in file.pieces:
            for batch in piece.batches():
                journal.add(piece, tally_rows(made, batch))
    journal.save()


def test_an_interrupted_tally_goes_on(plan, pieces, tmp_path):
    target, straight = tmp_path / "part.tally", tmp_path / "straight.tally"
    done("tally", plan, pieces, "-o", straight)
    interrupted(plan, pieces, target)
    assert Path(f"{target}.progress").exists()
    for name in "01":  # they are counted already: if they were read again, this would be noticed
        path = pieces / f"{name}.parquet"
        data = bytearray(path.read_bytes())
        data[60:100] = bytes(40)
        path.write_bytes(data)
    assert "cannot be read" in refused("tally", plan, pieces, "-o", tmp_path / "anew.tally")
    done("tally", plan, pieces, "-o", target)
    assert target.read_bytes() == straight.read_bytes()
    assert not Path(f"{target}.progress").exists()


def test_restart_forgets_an_interrupted_tally(plan, other_plan, pieces, tmp_path):
    target = tmp_path / "part.tally"
    interrupted(plan, pieces, target)
    assert "not named now" in refused("tally", plan, pieces / "2.parquet", "-o", target)
    assert facts("tally", plan, pieces / "2.parquet", "-o", target, "--restart")["reports"] == 500
    interrupted(plan, pieces, target)
    done("randomize", other_plan, tmp_path / "people.csv", "-o", tmp_path / "other.parquet")
    assert "--restart" in refused("tally", other_plan, tmp_path / "other.parquet", "-o", target)
    journal = Path(f"{target}.progress")
    journal.write_bytes(journal.read_bytes()[:-9] + bytes(9))
    assert "--restart" in refused("tally", plan, pieces, "-o", target)
    done("tally", plan, pieces, "-o", target, "--restart")
    assert count(tally_of(target)) == 2000
    journal.write_bytes(b"notes of somebody")
    assert "is no journal of a tally, so --restart does not" in refused(
        "tally", plan, pieces, "-o", target, "--restart"
    )
    assert journal.read_bytes() == b"notes of somebody"


def test_an_interrupted_run_is_not_counted_for_the_pace(plan, pieces, tmp_path):
    target = tmp_path / "part.tally"
    interrupted(plan, pieces, target)
    text = done("tally", plan, pieces, "-o", target).stderr
    assert "tallied 1,000 reports in " in text
    assert f"reports/s), and 1,000 in an interrupted run; wrote {target}\n" in text


def test_ctrl_c_says_how_to_go_on(plan, pieces, tmp_path, monkeypatch):
    from dither.engines.journal import Journal

    target, straight = tmp_path / "part.tally", tmp_path / "straight.tally"
    done("tally", plan, pieces, "-o", straight)
    real, calls = Journal.add, []

    def add(self, piece, *tallies):
        real(self, piece, *tallies)
        calls.append(piece)
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "add", add)
    result = run("tally", plan, pieces, "-o", target)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "stopped: 1,500 of 2,000 reports are counted; run the same command again to go on\n"
    assert not target.exists()
    monkeypatch.undo()
    done("tally", plan, pieces, "-o", target)
    assert target.read_bytes() == straight.read_bytes()


def test_ctrl_c_elsewhere(plan, people, tmp_path, monkeypatch):
    from dither.engines.local import Local

    def stop(self, *arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Local, "randomize", stop)
    result = run("randomize", plan, people, "-o", tmp_path / "reports.parquet")
    assert result.exit_code == 130
    assert result.stderr.endswith("stopped; no unfinished file is left\n")


# Merge -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def parts(plan, pieces, tmp_path) -> list[str]:
    """A tally for each of the four files."""
    found = [str(tmp_path / f"part{i}.tally") for i in range(4)]
    for i, target in enumerate(found):
        done("tally", plan, pieces / f"{i}.parquet", "-o", target)
    return found


def test_merged_tallies_are_the_tally_of_all(plan, pieces, parts, tmp_path):
    target, straight = tmp_path / "all.tally", tmp_path / "straight"
    done("tally", plan, pieces, "-o", straight)
    result = done("merge", *parts, "-o", target)
    assert result.stdout == ""
    assert f"merged 4 tallies of plan {tally_of(target).plan[:12]}: 2,000 reports; wrote {target}\n" in result.stderr
    assert f"next: dither estimate plan.json {target}\n" in result.stderr
    assert target.read_bytes() == straight.read_bytes()
    done("merge", tmp_path / "part*.tally", "-o", tmp_path / "again")  # as a shell may leave it
    done("merge", parts[3], parts[0], "-", parts[1], "-o", tmp_path / "piped", stdin=Path(parts[2]).read_bytes())
    assert (tmp_path / "again").read_bytes() == (tmp_path / "piped").read_bytes() == straight.read_bytes()
    assert done("merge", *parts, "-o", "-").stdout_bytes == straight.read_bytes()


def test_merge_facts_and_one_tally(parts, tmp_path):
    target = str(tmp_path / "one.tally")
    found = facts("merge", parts[0], "-o", target)
    assert found == {
        "plan": tally_of(parts[0]).plan,
        "reports": 500,
        "dropped": {},
        "tallies": {parts[0]: 500},
        "file": target,
        "simulated": True,
    }
    assert Path(target).read_bytes() == Path(parts[0]).read_bytes()
    text = done("merge", parts[0], "-o", target).stderr
    assert "merged 1 tally" in text
    assert "the sum is simulated, and promises nothing\n" in text


def test_real_and_simulated_tallies_are_not_added_up_unless_that_is_allowed(plan, people, parts, tmp_path):
    reports, real, target = tmp_path / "real.parquet", tmp_path / "real.tally", tmp_path / "sum.tally"
    done("randomize", plan, people, "-o", reports)
    done("tally", plan, reports, "-o", real)
    assert "promises nothing" not in done("merge", real, "-o", target).stderr
    for both in ((real, parts[0]), (parts[0], real)):
        told = refused("merge", *both, "-o", target)
        assert "some of these 2,500 reports are simulated" in told
        assert "--invalid-reports drop leaves them out; --allow-simulated counts them" in told
        text = done("merge", *both, "-o", target, "--allow-simulated").stderr
        assert "the sum is simulated, and promises nothing\n" in text
        text = done("merge", *both, "-o", target, "--invalid-reports", "drop").stderr
        assert "2,000 reports; wrote" in text
        assert "note: 500 reports were left out: 500 simulated\n" in text
        assert "promises nothing" not in text
        assert tally_of(target) == tally_of(real)
    assert facts("merge", target, "-o", tmp_path / "again.tally")["dropped"] == {"simulated": 500}


# One bad row -------------------------------------------------------------------------------------------------------


@pytest.fixture
def disturbed(plan, people, tmp_path):
    """Real reports; and the same among rows that strangers added: one of each kind."""
    from dither.engines.report_rows import codes

    made, fine, bad = dither.Plan.read(plan), tmp_path / "fine.parquet", tmp_path / "bad.parquet"
    done("randomize", plan, people, "-o", fine)
    rows = pyarrow.parquet.read_table(fine).to_pylist()
    real, simulated = codes(made).tags[:2].tolist()
    honest = next(row["report"] for row in rows if row["tag"] == real)
    rows += [
        {"tag": None, "report": honest},
        {"tag": real, "report": None},
        {"tag": 12345, "report": honest},
        {"tag": real, "report": honest + b"x"},
        {"tag": real, "report": b"\xff" * len(honest)},
        {"tag": simulated, "report": honest},
    ]
    kinds = pyarrow.schema([("tag", pyarrow.int64()), ("report", pyarrow.binary())])
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, kinds), bad, row_group_size=700)
    return fine, bad


REASONS = {"malformed": 2, "another plan": 1, "wrong length": 1, "out of range": 1, "simulated": 1}


def test_one_bad_row_does_not_stop_a_collection(plan, disturbed, tmp_path):
    fine, bad = disturbed
    target, right, page = tmp_path / "x.tally", tmp_path / "right.tally", tmp_path / "x.html"
    done("tally", plan, fine, "-o", right)
    told = refused("tally", plan, bad, "-o", target)
    assert "bad.parquet, piece 2: " in told
    assert "--invalid-reports drop leaves such rows out" in told
    assert not target.exists()
    result = done("tally", plan, bad, "-o", target, "--invalid-reports", "drop", "--restart")
    assert "tallied 2,000 reports in " in result.stderr
    words = "6 reports were left out: 2 malformed, 1 another plan, 1 wrong length, 1 out of range, 1 simulated"
    assert f"note: {words}\n" in result.stderr
    assert "promise nothing" not in result.stderr
    assert tally_of(target) == tally_of(right)
    assert tally_of(target).dropped == REASONS
    assert (tally_of(target).unlisted, list(tally_of(target).files.values())) == (0, [2006])
    found = done("estimate", plan, target, "--html", page)
    assert f"{words}." in " ".join(found.stdout.split())
    assert "no guarantee" not in found.stdout
    assert '<h2 id="left-out">Reports that were left out</h2>' in page.read_text()
    assert facts("estimate", plan, target)["dropped"] == REASONS
    assert "dropped" not in facts("estimate", plan, right)


def test_bad_rows_from_a_stream_a_query_and_in_an_addition(plan, disturbed, tmp_path):
    fine, bad = disturbed
    drop, target = ("--invalid-reports", "drop"), tmp_path / "x.tally"
    table, stream = pyarrow.parquet.read_table(bad), pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    found = facts("tally", plan, "-", "-o", target, *drop, stdin=stream.getvalue().to_pybytes())
    assert (found["reports"], found["dropped"]) == (2000, REASONS)
    found = facts("tally", plan, "--sql", f"select * from '{bad}'", "-o", target, *drop)
    assert (found["reports"], found["dropped"], found["simulated"]) == (2000, REASONS, False)
    whole = tmp_path / "all.tally"
    done("tally", plan, fine, "--add-to", whole)
    before = whole.read_bytes()
    assert "leaves such rows out" in refused("tally", plan, bad, "--add-to", whole)
    assert whole.read_bytes() == before
    found = facts("tally", plan, bad, "--add-to", whole, *drop)
    assert (found["reports"], found["added"], found["dropped"]) == (4000, 2000, REASONS)
    assert facts("merge", whole, target, "-o", tmp_path / "m.tally")["dropped"] == {
        reason: 2 * count for reason, count in REASONS.items()
    }


def test_a_journal_that_has_left_out_reports_is_not_taken_for_one_that_has_not(plan, disturbed, tmp_path, monkeypatch):
    from dither.engines.journal import Journal

    _, bad = disturbed
    target, real = tmp_path / "x.tally", Journal.add

    def add(self, piece, *tallies):
        real(self, piece, *tallies)
        if piece.number == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "add", add)
    assert run("tally", plan, bad, "-o", target, "--invalid-reports", "drop").exit_code == 130
    monkeypatch.undo()
    told = refused("tally", plan, bad, "-o", target)
    assert "has left out invalid reports" in told
    assert "--invalid-reports drop" in told
    assert facts("tally", plan, bad, "-o", target, "--invalid-reports", "drop")["dropped"] == REASONS


def test_merge_refuses_the_same_file_twice(parts, tmp_path):
    link, target = tmp_path / "link.tally", tmp_path / "x" / "all.tally"
    target.parent.mkdir()
    link.symlink_to(parts[0])
    assert "is named twice" in refused("merge", parts[0], parts[1], parts[0], "-o", target)
    assert "are the same file" in refused("merge", parts[0], link, "-o", target)
    assert "are the same file" in refused("merge", parts[0], link, "-o", target, "--again")
    assert not target.exists()


def test_merge_refuses_copies_unless_told(parts, tmp_path):
    copy, target = tmp_path / "copy.tally", tmp_path / "all"
    copy.write_bytes(Path(parts[0]).read_bytes())
    text = refused("merge", parts[0], copy, "-o", target)
    assert f"{parts[0]} and {copy} are the same to the bit" in text
    assert "pass --again" in text
    done("merge", parts[0], copy, "-o", target, "--again")
    assert count(tally_of(target)) == 1000


def test_tallies_of_nothing_may_be_equal(plan, write_csv, parts, tmp_path):
    empty, one, other = tmp_path / "empty.parquet", tmp_path / "one", tmp_path / "other"
    done("randomize", plan, write_csv([["age", "income", "job"]]), "-o", empty)
    done("tally", plan, empty, "-o", one)
    done("tally", plan, empty, "-o", other)
    assert facts("merge", one, other, parts[0], "-o", tmp_path / "all")["reports"] == 500


def test_merge_does_not_count_its_own_output(parts, tmp_path):
    target = tmp_path / "all.tally"
    done("merge", tmp_path / "part*.tally", "-o", target)
    before = target.read_bytes()
    text = refused("merge", tmp_path / "*.tally", "-o", target)
    assert "is one of the tallies to merge" in text
    assert target.read_bytes() == before


def test_merge_refuses_other_plans_and_what_is_no_tally(other_plan, people, parts, tmp_path):
    reports, other, target = tmp_path / "other.parquet", tmp_path / "other.tally", tmp_path / "all"
    done("randomize", other_plan, people, "-o", reports)
    done("tally", other_plan, reports, "-o", other)
    text = refused("merge", parts[0], other, "-o", target)
    assert text.startswith(f"Error: {other} belongs to plan {tally_of(other).plan[:12]}, and {parts[0]} to plan")
    assert "cannot be read: no such file" in refused("merge", parts[0], tmp_path / "nope.tally", "-o", target)
    assert "no file matches" in refused("merge", tmp_path / "nope*.tally", "-o", target)
    assert f"{people}: these bytes are not the tally" in refused("merge", parts[0], people, "-o", target)
    cut = tmp_path / "cut.tally"
    cut.write_bytes(Path(parts[0]).read_bytes()[:-7])
    assert f"{cut}: these bytes are not the tally" in refused("merge", cut, "-o", target)
    assert not target.exists()
    assert left_over(tmp_path) == []


# Additions ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def days(plan, people, tmp_path) -> Path:
    """Reports of the people in four files, without a seed."""
    folder = tmp_path / "days"
    folder.mkdir()
    table = pyarrow.csv.read_csv(people)
    for i in range(4):
        pyarrow.parquet.write_table(table.slice(500 * i, 500), tmp_path / "some.parquet")
        done("randomize", plan, tmp_path / "some.parquet", "-o", folder / f"{i}.parquet")
    return folder


def test_a_new_day_is_added_once(plan, days, tmp_path):
    target, straight = tmp_path / "all.tally", tmp_path / "straight.tally"
    done("tally", plan, days, "-o", straight)
    first = done("tally", plan, days / "0.parquet", "--add-to", target).stderr
    assert "added 500 reports in " in first
    assert f"reports/s) to {target}, which has 500 reports now\n" in first
    assert "cannot be known" not in first
    again = done("tally", plan, days / "0.parquet", days / "1.parquet", "--add-to", target).stderr
    assert f"note: {target} counts 1 file of these already, so it is left out: {days}/0.parquet\n" in again
    assert "which has 1,000 reports now" in again
    before = target.read_bytes()
    assert (
        f"added nothing: {target} is as it was, with 1,000 reports"
        in done("tally", plan, days / "[01].parquet", "--add-to", target).stderr
    )
    assert target.read_bytes() == before
    assert f"next: dither estimate {plan} {target}\n" in done("tally", plan, days, "--add-to", target).stderr
    assert target.read_bytes() == straight.read_bytes()
    assert left_over(tmp_path) == []


def test_addition_facts(plan, days, tmp_path):
    target = str(tmp_path / "all.tally")
    done("tally", plan, days / "0.parquet", "-o", target)
    found = facts("tally", plan, days / "0.parquet", days / "1.parquet", "--add-to", target)
    assert found.pop("seconds") >= 0
    assert found == {
        "plan": tally_of(target).plan,
        "reports": 1000,
        "added": 500,
        "files": 1,
        "left out": [str(days / "0.parquet")],
        "dropped": {},
        "unlisted": 0,
        "file": target,
        "simulated": False,
    }


def test_a_tally_without_a_list_is_extended_honestly(plan, days, tmp_path):
    target, made = tmp_path / "all.tally", dither.Plan.from_json(Path(plan).read_text())
    target.write_bytes(engine("local").tally(made, days / "0.parquet").to_bytes())
    text = done("tally", plan, days / "1.parquet", "--add-to", target).stderr
    assert f"note: of 500 reports in {target} it is not known which files they came from" in text
    assert "it cannot be known whether these files are among them" in text
    assert count(tally_of(target)) == 1000


def test_what_cannot_be_added(plan, other_plan, reports, tmp_path):
    target = tmp_path / "all.tally"
    assert "Name the tally" in run("tally", plan, reports).stderr
    assert "Name the tally" in run("tally", plan, reports, "-o", target, "--add-to", target).stderr
    for more in (("-",), ("--sql", "select 1"), (str(reports), "--restart"), (str(reports), "--engine", "spark")):
        assert "With --add-to the reports are files" in run("tally", plan, *more, "--add-to", target).stderr
    assert "is a file: name it" in refused("tally", plan, reports, "--add-to", "-")
    assert "is read by this command" in refused("tally", plan, reports, "--add-to", reports)
    assert not target.exists()
    done("tally", plan, reports, "-o", target)
    before = target.read_bytes()
    assert "not of plan" in refused("tally", other_plan, reports, "--add-to", target)
    assert target.read_bytes() == before


def test_merge_knows_the_files(plan, days, tmp_path):
    both, one, target = tmp_path / "both.tally", tmp_path / "one.tally", tmp_path / "all.tally"
    done("tally", plan, days / "0.parquet", days / "1.parquet", "-o", both)
    done("tally", plan, days / "1.parquet", "-o", one)
    text = refused("merge", both, one, "-o", target)
    assert f"{one} counts 1 file of reports that a tally before it counts too" in text
    assert "pass --again" in text
    assert not target.exists()
    done("merge", both, one, "-o", target, "--again")
    found = tally_of(target)
    assert (count(found), len(found.files), found.unlisted) == (1500, 2, 500)


def test_a_simulation_is_the_same_to_the_byte_whenever_its_seed_is(plan, people, tmp_path):
    # The number of a file is random, so a list of files would differ.
    for name in "ab":
        done("randomize", plan, people, "-o", tmp_path / f"{name}.parquet", "--seed", 1)
        done("tally", plan, tmp_path / f"{name}.parquet", "-o", tmp_path / f"{name}.tally")
    assert (tmp_path / "a.tally").read_bytes() == (tmp_path / "b.tally").read_bytes()
    text = done("tally", plan, tmp_path / "b.parquet", "--add-to", tmp_path / "a.tally").stderr
    assert "cannot be known" in text
    assert "added nothing" in done("tally", plan, tmp_path / "b.parquet", "--add-to", tmp_path / "a.tally").stderr


# Databases and addresses -------------------------------------------------------------------------------------------


def test_records_from_a_database_and_an_address(plan, people, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"create table people as select * from '{people}'; create table nobody (age int)")
    done("randomize", plan, people, "-o", tmp_path / "right.parquet", "--seed", 1)
    done("randomize", plan, path, "--table", "people", "-o", tmp_path / "found.parquet", "--seed", 1)
    done("randomize", plan, f"file://{people}", "-o", tmp_path / "there.parquet", "--seed", 1)
    right = pyarrow.parquet.read_table(tmp_path / "right.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "found.parquet").equals(right)
    assert pyarrow.parquet.read_table(tmp_path / "there.parquet").equals(right)
    assert "has the tables nobody, people: name the one" in refused("randomize", plan, path, "-o", tmp_path / "x.arrow")
    assert "2,000 rows" in done("infer", path, "--table", "people").stderr
    assert "is no address" in refused("randomize", plan, "foo://x/y.parquet", "-o", tmp_path / "x.arrow")


# Streams -----------------------------------------------------------------------------------------------------------


def test_reports_and_tallies_travel_through_pipes(plan, people, tally):
    stream = done("randomize", plan, people, "-o", "-", "--seed", 1).stdout_bytes
    found = done("tally", plan, "-", "-o", "-", stdin=stream)
    assert found.stdout_bytes == Path(tally).read_bytes()
    assert "wrote them to standard output" in found.stderr
    assert "next" not in found.stderr
    assert done("merge", "-", "-o", "-", stdin=found.stdout_bytes).stdout_bytes == Path(tally).read_bytes()
    through = json.loads(done("estimate", plan, "-", "--json", stdin=found.stdout_bytes).stdout)
    assert through == json.loads(done("estimate", plan, tally, "--json").stdout)
    assert done("estimate", "-", tally, "--json", stdin=Path(plan).read_bytes()).stdout == json.dumps(
        through, indent=2
    ) + "\n"  # fmt: skip


def test_streams_are_not_mixed_up(plan, people, reports, tally):
    assert "one file only" in refused("randomize", "-", "-", "-o", "x.parquet")
    assert "one file only" in refused("merge", "-", "-", "-o", "x.tally")
    assert "one file only" in refused("estimate", "-", "-")
    assert "tally it alone, and merge" in refused("tally", plan, "-", reports, "-o", "x.tally")
    for command in (("randomize", plan, people), ("tally", plan, reports), ("merge", tally)):
        assert "both write to standard output" in refused(*command, "-o", "-", "--json")
    assert "no Arrow stream of reports" in refused("tally", plan, "-", "-o", "x.tally", stdin=b"7310473secret\n")
    assert "no Arrow stream of reports" in refused("tally", plan, "-", "-o", "x.tally", stdin=b"")


def test_a_stream_that_was_cut_short(plan, people, tmp_path):
    stream = done("randomize", plan, people, "-o", "-").stdout_bytes
    target = tmp_path / "part.tally"
    for size in (len(stream) // 2, len(stream) - 100, len(stream) - 8, len(stream) - 4):
        assert "cut short" in refused("tally", plan, "-", "-o", target, stdin=stream[:size])
    assert "has more behind its end" in refused("tally", plan, "-", "-o", target, stdin=stream + stream)
    assert not target.exists()


@pytest.mark.parametrize(
    "arguments", [("randomize", "PLAN"), ("randomize", "PLAN", "a.csv", "--sql", "select 1"), ("infer",)], ids=str
)
def test_a_source_is_needed(plan, arguments):
    result = run(*(plan if each == "PLAN" else each for each in arguments), "-o", "x")
    assert result.exit_code == 2
    assert "--sql" in words(result.stderr)
