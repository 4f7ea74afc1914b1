"""The example data, the demonstration that goes the whole way on them, and the program that follows the tutorial."""

import importlib.util
import io
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import dither
from dither.cli import demonstration, demonstration_network, main
from dither.cli import example_data as example
from dither.errors import CollectorError, MissingExtraError, WriteError
from dither.planning import Plan
from marks import wide

ROOT = Path(__file__).parents[2]
FLIGHTS = (27004, 24951, 28834, 28330, 28796, 28243, 29425, 29327, 27574, 28889, 27268, 28135)  # as published, by month
PLAIN = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "FORCE_COLOR": None, "DITHER_TRACEBACK": "1"}


def run(*arguments: Any) -> Result:
    """The command, in this process."""
    return CliRunner(env=PLAIN).invoke(main, list(map(str, arguments)), prog_name="dither")


# The flights ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The flights, written once."""
    target = tmp_path_factory.mktemp("example") / "flights"
    example.write_example(target)
    return target


@pytest.fixture(scope="module")
def january(folder: Path) -> pa.Table:
    return pq.read_table(folder / "public" / "2013-01.parquet")


def test_a_file_a_month_and_january_apart(folder: Path):
    found = {str(path.relative_to(folder)): pq.read_metadata(path).num_rows for path in folder.rglob("*.parquet")}
    names = [f"{'private' if month > 1 else 'public'}/2013-{month:02}.parquet" for month in range(1, 13)]
    assert found == dict(zip(names, FLIGHTS, strict=True))
    assert sum(FLIGHTS) == 336_776


def test_all_files_have_the_same_columns(folder: Path, january: pa.Table):
    assert january.column_names == [
        "carrier",
        "origin",
        "dest",
        "hour",
        "dep_delay",
        "arr_delay",
        "air_time",
        "distance",
        "dest_delay",
        "make_delay",
    ]
    assert all(pq.read_schema(path).equals(january.schema) for path in folder.rglob("*.parquet"))


def test_cancelled_flights_have_nulls_and_no_keys(january: pa.Table):
    nulls = {name: january[name].null_count for name in january.column_names if january[name].null_count}
    assert nulls == {"dep_delay": 521, "arr_delay": 606, "air_time": 606}  # of 27,004
    for row in january.select(["dest", "arr_delay", "dest_delay", "make_delay"]).to_pylist():
        if row["arr_delay"] is None:
            assert row["dest_delay"] == row["make_delay"] == []
        else:
            assert row["dest_delay"] == [(row["dest"], row["arr_delay"])]
            assert [value for _, value in row["make_delay"]] == [row["arr_delay"]]


@pytest.mark.wide
def test_makers_are_companies_in_one_spelling():
    makers = {key for row in example.flights()["make_delay"].to_pylist() for key, _ in row}
    assert makers == {*example._MAKERS.values(), "other", "unknown"}


def test_a_flight_that_is_known(january: pa.Table):
    first = january.slice(0, 1).to_pylist()[0]
    assert first == {
        "carrier": "UA",
        "origin": "EWR",
        "dest": "IAH",
        "hour": 5,
        "dep_delay": 2,
        "arr_delay": 11,
        "air_time": 227,
        "distance": 1400,
        "dest_delay": [("IAH", 11)],
        "make_delay": [("Boeing", 11)],
    }


def test_a_small_example_has_all_of_january(tmp_path: Path):
    rows = [pq.read_metadata(path).num_rows for path in example.write_example(tmp_path, most=7)]
    assert rows == [FLIGHTS[0], *[7] * 11]


def test_the_command_writes_them_and_says_what_comes_next(tmp_path: Path):
    found = run("example", tmp_path / "flights")
    assert found.exit_code == 0
    assert "336,776 flights" in found.stderr
    assert "next: dither infer" in found.stderr
    assert len(list(tmp_path.rglob("*.parquet"))) == 12


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(example, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dither\[demo\]'"):
        example.flights()
    assert run("example", tmp_path / "flights").exit_code == 1
    assert not (tmp_path / "flights").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(WriteError, match="cannot be made"):
        example.write_example(tmp_path / "taken")


# The schema comes from January only ----------------------------------------------------------------------------------


def test_the_schema_is_that_of_january_alone(folder: Path, tmp_path: Path):
    """What other months hold beyond it, such as destinations, is in no domain."""
    alone = tmp_path / "alone.parquet"
    pq.write_table(pq.read_table(folder / "public" / "2013-01.parquet"), alone)
    for source, name in ((folder / "public", "a.toml"), (alone, "b.toml")):
        assert run("infer", source, "-o", tmp_path / name).exit_code == 0
    first, second = (dither.Schema.read(str(tmp_path / name)) for name in ("a.toml", "b.toml"))
    assert first == second
    labels: Any = first["dest"]
    here = set(pc.unique(pq.read_table(alone)["dest"]).to_pylist())  # type: ignore[attr-defined]
    year = set(pc.unique(example.flights()["dest"]).to_pylist())  # type: ignore[attr-defined]
    assert set(labels.labels) == {*here, "other"}
    assert year - here


# The demonstration ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A short demonstration: its folder, and what it printed."""
    target = tmp_path_factory.mktemp("demo") / "all of it"
    found = run("demo", "--most", 400, "--seed", 5, "-o", target)
    assert found.exit_code == 0, found.stderr
    return target, found.stdout


def test_it_says_where_the_report_is(shown: tuple[Path, str]):
    target, text = shown
    path = re.search(r"The report, to open in a browser: (.+)", text)
    assert path
    assert Path(path[1]) == target / "report.html"
    assert follower().wrong_with(target / "report.html") == []


def test_it_leaves_what_the_commands_wrote(shown: tuple[Path, str]):
    target, _ = shown
    tallies = {f"{part}.{kind}" for part in demonstration.PARTS for kind in ("parquet", "tally")}
    others = {"flights", "guess.toml", "schema.toml", "plan.json", "all.tally", "estimates.parquet", "report.html"}
    assert {path.name for path in target.iterdir()} == tallies | others


def test_the_edit_changes_what_it_says(shown: tuple[Path, str]):
    """The guess has to have the line that the demonstration and the tutorial replace."""
    schemas = [dither.Schema.read(str(shown[0] / name)) for name in ("guess.toml", "schema.toml")]
    for name in ("dep_delay", "arr_delay", "dest_delay", "make_delay"):
        ends: list[Any] = [schema[name] for schema in schemas]
        assert [each.high for each in ends] == [300, 120]
    others = set(schemas[0]) - {"dep_delay", "arr_delay", "dest_delay", "make_delay"}
    assert all(schemas[0][name] == schemas[1][name] for name in others)


@pytest.mark.wide
def test_every_command_that_it_shows_works(shown: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Typed again, in another folder, they write the same files."""
    target, text = shown
    (tmp_path / "flights").symlink_to(target / "flights")
    monkeypatch.chdir(tmp_path)
    typed = re.findall(r"^\$ (dither (?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert [line.split()[1] for line in typed] == [
        *("example", "infer", "plan"),
        *["randomize"] * 3,
        *["tally"] * 3,
        *("merge", "estimate", "query"),
    ]
    for line in typed[1:]:
        words = shell_words(line)
        if words[1] == "plan":  # the edit before it is by sed
            Path("schema.toml").write_text((target / "schema.toml").read_text())
        found = run(*words[1:])
        assert found.exit_code == 0, (line, found.stderr)
    assert Path("plan.json").read_text() == (target / "plan.json").read_text()
    assert Path("report.html").stat().st_size > 10_000


def shell_words(line: str) -> list[str]:
    import shlex

    return shlex.split(line.replace("\\\n", " "))


def test_all_reports_are_of_one_plan_and_everybody_reports_once(shown: tuple[Path, str]):
    target, _ = shown
    plan = dither.planning.Plan.from_json((target / "plan.json").read_text())
    assert plan.epsilon == 2
    assert plan.questions_per_user == 1
    rows = sum(pq.read_metadata(target / f"{part}.parquet").num_rows for part in demonstration.PARTS)
    assert rows == 11 * 400 == sum(pq.read_metadata(path).num_rows for path in target.glob("flights/private/*"))


def test_it_fits_80_columns(shown: tuple[Path, str]):
    """But for sentences that the commands print, and paths."""
    drawn = [line for line in shown[1].splitlines() if line.startswith(("$", " ", "─")) and str(shown[0]) not in line]
    assert drawn
    assert max(map(len, drawn)) <= 80


def test_it_compares_with_the_truth(shown: tuple[Path, str]):
    text = shown[1]
    for column in ("truth", "95% interval", "predicted", "real", "refined", "inside"):
        assert column in text
    held = re.findall(r"^  (\S[^%\n]*?) +\d+(?: +(?:[\d.e+-]+|nan)){3} +(\d+)% *$", text, re.MULTILINE)
    asked = [str(each) for each in dither.planning.Plan.from_json((shown[0] / "plan.json").read_text()).questions]
    known = [each for each in asked if not each.startswith(("ranges(", "top("))]  # which have no truth beforehand
    assert len(held) == len(known)
    for (begins, _), question in zip(held, known, strict=True):  # long ones go on in the next line
        assert question.startswith(begins.strip()[:12])
    assert all(0 <= int(share) <= 100 for _, share in held)
    shares = re.search(r"The truth: (0\.\d{4}), (0\.\d{4}), (0\.\d{4})", text)
    assert shares
    table = pa.concat_tables([pq.read_table(path) for path in sorted((shown[0] / "flights/private").glob("*"))])
    late = pc.and_(pc.greater_equal(table["hour"], 17), pc.greater(table["dep_delay"].fill_null(-2), 30))  # type: ignore[attr-defined]
    assert float(shares[1]) == pytest.approx(pc.mean(late.cast(pa.int8())).as_py(), abs=1e-4)  # type: ignore[attr-defined]


def test_the_share_of_intervals_that_hold_the_truth():
    rows = [{"low": low, "high": 1.0, "truth": 0.5} for low in (0.0, 0.5, 0.6, None)]
    found = demonstration._Found(None, {"a": rows, "b": rows[3:]})  # type: ignore[arg-type]
    assert (found._inside("a"), found._inside("b")) == ("67%", "")


@pytest.mark.wide
def test_a_seed_repeats_it_and_says_that_it_promises_nothing(tmp_path: Path):
    texts = []
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        found = run("demo", "--most", 150, "--seed", seed, "-o", tmp_path / name)
        assert found.exit_code == 0, found.stderr
        assert "promises nothing" in found.stdout
        texts.append((tmp_path / name / "all.tally").read_bytes())
    assert texts[0] == texts[1] != texts[2]


def test_it_can_be_run_again_in_its_own_folder_and_nowhere_else(shown: tuple[Path, str], tmp_path: Path):
    assert demonstration._own(shown[0]) == shown[0].resolve()
    (tmp_path / "plan.json").write_text("mine")
    found = run("demo", "--most", 150, "-o", tmp_path)
    assert found.exit_code == 1
    assert "--output" in found.stderr
    assert (tmp_path / "plan.json").read_text() == "mine"


def test_a_seed_has_no_part_over_a_network(shown: tuple[Path, str]):
    assert "A collector refuses simulated reports" in shown[1]
    found = run("demo", "--serve", "--seed", 5)
    assert (found.exit_code, "leave --seed or --serve out" in found.stderr) == (2, True)


def test_without_the_extra_the_network_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch, shown: tuple[Path, str]):
    monkeypatch.setattr(demonstration_network, "find_spec", lambda name: None if name == "uvicorn" else True)
    console = Console(file=io.StringIO(), width=200)
    demonstration._network(demonstration._Show(console, None), Plan.read(shown[0] / "plan.json"), False)
    assert "pip install 'dither[serve]'. This step is left out." in console.file.getvalue()  # type: ignore[attr-defined]
    found = run("demo", "--serve")
    assert (found.exit_code, "pip install 'dither[serve]'" in found.stderr) == (1, True)


@pytest.mark.parametrize("sealed", [True, wide(False)])
def test_reports_go_over_a_network_and_come_back_to_the_bit(
    sealed: bool, shown: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Real programs: a collector, and a shuffler unless sealing is not installed. The noise is secure."""
    if not sealed:
        monkeypatch.setattr(demonstration_network, "_can_seal", lambda: False)
    plan, months = Plan.read(shown[0] / "plan.json"), str(shown[0] / "flights" / "private" / "2013-1*.parquet")
    plan.save(tmp_path / "plan.json")
    monkeypatch.chdir(tmp_path)
    assert run("randomize", "plan.json", months, "-o", "autumn.parquet", "--invalid", "substitute").exit_code == 0
    assert run("tally", "plan.json", "autumn.parquet", "-o", "autumn.tally").exit_code == 0
    console = Console(file=io.StringIO(), width=200)
    demonstration._network(demonstration._Show(console, None), plan, False)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    assert "The collector's tally of 1,200 reports is the same to the bit as autumn.tally" in text
    assert ("300 of them sealed through the shuffler" in text) is sealed
    assert ("dither shuffle --to http://127.0.0.1:" in text) is sealed
    rows = [line.split() for line in text.splitlines() if line.strip().startswith("mean(")]
    assert [row[-2] == row[-1] for row in rows] == [True, True]
    assert "No module" not in text


def test_a_collector_that_does_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    starting = demonstration_network.program("serve", "none.json", "--store", "store", "--port", "0")
    with pytest.raises(CollectorError, match=r"dither serve did not start: .*none\.json"), starting:
        pass


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan"])
def test_an_epsilon_without_meaning_is_refused(epsilon: str, tmp_path: Path):
    found = run("demo", "--most", 150, "--epsilon", epsilon, "-o", tmp_path / "demo")
    assert found.exit_code == 1
    assert "epsilon" in found.stderr


# The program that follows a page -------------------------------------------------------------------------------------


def follower() -> ModuleType:
    """`docs/follow.py`, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("follow", ROOT / "docs" / "follow.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["follow"] = module
    spec.loader.exec_module(module)
    return module


def page(*parts: str) -> str:
    return "\n".join(f"```sh\n{part}\n```\n" for part in parts)


def followed(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expect: str | None = None) -> int:
    """The exit code of following a page, in a project that has nothing else."""
    follow = follower()
    monkeypatch.setattr(follow, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(text)
    return follow.follow(tmp_path / "page.md", expect)


def test_blocks_run_in_one_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    text = page("x=1\ncd dither", 'for i in 1 2; do\n  echo "$x$i"\ndone\nls \\\n  page.md')
    assert followed(text, tmp_path, monkeypatch) == 0
    out = capfd.readouterr().out
    assert "$ cd dither\n" in out
    assert "11\n12\n" in out
    assert "every command worked" in out


@pytest.mark.parametrize("wrong", ["false", "false | true", "echo $nothing", "(exit 3)", "no-such-command"])
def test_the_first_failure_ends_it(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    assert followed(page("true", f"{wrong}\necho later"), tmp_path, monkeypatch) != 0
    out, err = capfd.readouterr()
    assert "\nlater" not in out
    assert "failed" in err


def test_a_block_without_java_is_left_out_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    follow = follower()
    text = "<!-- needs java 17 -->\n" + page("echo spark") + page("echo after")
    for version, ran in ((17, True), (21, True), (11, False), (None, False)):
        monkeypatch.setattr(follow, "java", lambda version=version: version)
        commands = follow.script("a page", text)
        assert ("\necho spark\n" in commands) is ran
        assert ("LEFT OUT" in commands) is not ran
        assert "\necho after\n" in commands


def test_a_report_that_is_missing_or_cut_off_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = "<html><head><title>a</title></head><body><svg/><br></body></html>"
    say = "printf '%s' '{}' > report.html"
    assert followed(page("true"), tmp_path, monkeypatch, "report.html") == 1
    assert followed(page(say.format(whole)), tmp_path, monkeypatch, "report.html") == 0
    for wrong in (whole[:-10], whole.replace("<svg/>", ""), whole.replace("<br>", '<img src="https://a.b/c.png">')):
        assert followed(page(say.format(wrong)), tmp_path, monkeypatch, "report.html") == 1


def test_the_tutorial_has_the_commands_of_the_demonstration():
    """One way to do a thing: whoever has seen the one knows the other."""
    text = (ROOT / "docs" / "tutorial.md").read_text()
    typed = [command for block in follower().blocks(text) for command in follower().commands(block.code)]
    one = "\n".join(" ".join(command.replace("\\\n", " ").split()) for command in typed)
    for question in (*demonstration.ASK, demonstration.RANGES):
        assert f'--ask "{question}"' in one or f"--ask {question}" in one
    for query in demonstration.QUERIES:
        assert f'="{query}"' in one
    for months in demonstration.PARTS.values():
        assert f"flights/private/2013-{months}.parquet" in one
    assert f"sed 's/^{demonstration._GUESSED}$/{demonstration._EDITED}/'" in one
    assert any(block.need == "java" for block in follower().blocks(text))
