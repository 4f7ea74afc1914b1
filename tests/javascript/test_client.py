"""The client in JavaScript: its vectors are those of Python, its built files are fresh, and its own tests pass.

Its tests need node and its packages (`npm ci` in clients/js, which `make test` runs); without them they are skipped,
and say so. The vectors are recomputed here in any case.
"""

import json
import os
import re
import shutil
import subprocess

import pytest

import dither
from dither.errors import DitherError, ParameterError
from javascript import vectors as known

CLIENT = known.ROOT / "clients" / "js"
BROWSER = known.ROOT / "src" / "dither" / "collect" / "browser"
NODE = shutil.which("node")
LEAST_NODE = 20  # as clients/js/package.json says


def node_version() -> int:
    """0 if there is none."""
    told = subprocess.run([NODE, "--version"], capture_output=True, text=True).stdout if NODE else ""
    return int(told.strip().lstrip("v").partition(".")[0] or 0)


needs_node = pytest.mark.skipif(
    node_version() < LEAST_NODE or not (CLIENT / "node_modules" / "esbuild").is_dir(),
    reason=f"no node of version {LEAST_NODE}, or no packages of clients/js (npm ci): the client is not tested",
)
FILE = known.stored_vectors()


def node(*words: str, **environment: str) -> str:
    done = subprocess.run(
        [str(NODE), *words], cwd=CLIENT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


# Vectors ------------------------------------------------------------------------------------------------------------

STALE = "the vectors are stale; run: python tests/javascript/vectors.py"


def test_there_are_vectors_for_all_that_a_plan_may_choose():
    assert known.count(FILE) >= 5000
    # A mechanism that the planner looks at, for a domain that a question can have; those that remember come by rounds.
    chosen = {
        name
        for name, kind in dither.registry.items()
        if (kind.planned or kind.family == "longitudinal") and kind.takes != "ball"
    }
    drawn = {FILE["mechanisms"][number]["mechanism"] for number, *_ in FILE["draws"]}
    assert chosen <= drawn
    assert {channel["mechanism"]["mechanism"] for channel in FILE["channels"]} >= chosen


def test_draws_are_not_stale():
    assert FILE["mechanisms"] == known.mechanisms(), STALE
    for number, value, seed, overrides, report in FILE["draws"]:
        assert known.drawn(FILE["mechanisms"][number], value, seed, overrides)[0] == report, STALE
    for number, value, seed, kept, said in FILE["responses"]:
        assert known.kept_and_said(FILE["mechanisms"][number], value, seed) == [kept, said], STALE


def test_reports_of_plans_are_not_stale():
    assert FILE["plans"] == {name: known.plan_text(name) for name in known.plan_names()}, STALE
    for name, record, seed, overrides, reports, batch, subjects in FILE["reports"]:
        if reports is None:
            with pytest.raises(DitherError):
                known.reported(name, record, seed, overrides)
            continue
        assert known.reported(name, record, seed, overrides) == [reports, batch], STALE
        assert known.subjects(name, record) == subjects, STALE


def test_hashes_sealed_reports_and_refusals_are_not_stale():
    assert FILE["hashes"] == known.hashes(), STALE
    assert (FILE["buckets"], FILE["seeds"]) == (known.buckets_of(), known.seeds_of()), STALE
    assert FILE["sealed"] == known.sealed(), STALE
    assert FILE["refused"] == known.refused(), STALE
    for text, _ in FILE["refused"]:
        if "Laplace" not in text:  # which Python has, and this client has not
            with pytest.raises(ParameterError):
                dither.Plan.from_json(text)


@pytest.mark.wide
def test_channels_are_not_stale():
    assert json.loads(json.dumps(known.channels())) == FILE["channels"], STALE


def test_the_vectors_have_the_cases_that_chance_never_meets():
    """Words that are rejected, once and again; edges of thresholds; several parts; substitutes; large domains."""
    again = [vector for vector in FILE["draws"] if len(vector[3]) > 1]
    assert len(again) > 200
    edges = [vector for vector in FILE["draws"] if len(vector[3]) == 1]
    assert len(edges) > 1000
    rejected = 0
    for number, value, seed, overrides, _ in edges[:600] + again:
        _, tape = known.drawn(FILE["mechanisms"][number], value, seed, overrides)
        rejected += any(address.split("|")[3] != "0" for address in tape.read)
    assert rejected > 300
    assert max(len(reports) for *_, reports, _, _ in FILE["reports"] if reports) >= 4
    assert any(mechanism.get("k", 0) >= 1 << 32 for mechanism in FILE["mechanisms"])
    assert len(FILE["sealed"]) >= 12


def test_a_known_tape_is_read_as_any_other():
    """A mutant of the tape gives other reports: the vectors depend on every word that is read."""
    changed = 0
    for number, value, seed, overrides, report in FILE["draws"][::50]:
        changed += known.drawn(FILE["mechanisms"][number], value, seed + 1, overrides)[0] != report
    assert changed > len(FILE["draws"][::50]) / 3


# The package --------------------------------------------------------------------------------------------------------


def test_the_lock_file_names_no_host():
    lock = (CLIENT / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in lock
    assert "http" not in re.sub(r'"url": "https://[^"]*"', "", lock)
    assert "omit-lockfile-registry-resolved=true" in (CLIENT / ".npmrc").read_text(encoding="utf-8")


def test_the_built_files_need_nothing_else():
    for name in ("dither-client.min.js", "dither-client-sealed.min.js"):
        text = (BROWSER / name).read_text(encoding="ascii")
        assert "import " not in text
        assert "console" not in text
        assert "Math.random" not in text
        assert "getRandomValues" in text
        assert "eval(" not in text


def test_the_source_has_one_source_of_bits_and_no_console():
    for path in (CLIENT / "src").glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert "Math.random" not in text, path
        assert not re.search(r"console\.\w", text), path
        assert "Date" not in text, path  # a clock that jumps moves nothing


@needs_node
def test_the_built_files_are_fresh():
    assert "STALE" not in node("build.js", "--check")


@needs_node
def test_the_types_are_checked():
    node("node_modules/typescript/bin/tsc")


@needs_node
def test_the_tests_in_javascript():
    """In Node, and in a real Chromium where there is one."""
    told = node("--test", *sorted(f"test/{path.name}" for path in (CLIENT / "test").glob("*.test.js")))
    assert re.search(r"^# fail 0$", told, re.M), told[-3000:]
    assert int(re.findall(r"^# pass (\d+)$", told, re.M)[0]) >= 20


@pytest.mark.wide
@needs_node
def test_all_tapes_in_node_and_chromium():
    told = node("--test", "test/vectors.test.js", "test/browser.test.js", DITHER_WIDE="1")
    assert re.search(r"^# fail 0$", told, re.M), told[-3000:]


# What Python and JavaScript say about the same plan -----------------------------------------------------------------


@needs_node
def test_a_report_of_the_client_is_one_that_python_counts():
    """Fresh randomness of JavaScript, through Python's own reader: every report is valid, for every plan."""
    script = """
        import { Plan } from "./src/plan.js";
        import { hex } from "./src/sha256.js";
        import { planText } from "./test/files.js";
        const plan = Plan.read(planText(process.argv[1]));
        const record = Object.fromEntries(plan.public.map((name) => [name, plan.schema[name].labels[0]]));
        for (let i = 0; i < 40; i++) console.log(hex(plan.pack(plan.report(record))));
    """
    for name in known.plan_names():
        wire = dither.wire.BatchFormat(known.plan_of(name))
        for line in node("--input-type=module", "--eval", script, name).split():
            assert not wire.check(bytes.fromhex(line)).rejected


def test_what_the_client_does_not_know_is_named_on_its_page():
    """The page lists what a plan may hold in theory and this client refuses: that is the rest of the registry."""
    drawn = {stored["mechanism"] for stored in FILE["mechanisms"]}
    page = (known.ROOT / "docs" / "web-page.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\w+)`", re.search(r"refused by name: (.*?)\.\n", page, re.S).group(1)))  # type: ignore[union-attr]
    assert listed == set(dither.registry) - drawn
