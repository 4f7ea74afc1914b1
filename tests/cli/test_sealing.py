"""Keys and claims at the command line: `key`, `tally --key`, `merge --plan --key`, `estimate --key`, `query --key`."""

import os
import stat
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from cli.cases import done, left_over, refused, words
from dither.core.seals import is_sealed
from dither.engines.journal import Journal, JournalFormat
from dither.engines.local import tallied
from dither.engines.report_files import report_files
from dither.engines.report_rows import nothing
from dither.planning import Plan, PlanTally


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A key that `dither key` wrote."""
    place = tmp_path / "tallies.key"
    assert done("key", place).stderr == f"wrote {place}, which only you can read\n"
    return place


@pytest.fixture
def liar(plan: str, tmp_path: Path) -> Path:
    """A tally of one report, with counts of a million."""
    made = Plan.read(plan)
    empty = nothing(made)
    name = next(iter(empty.parts))
    counts = empty.parts[name].counts.copy()
    counts[0] = 10**6
    place = tmp_path / "liar.tally"
    forged = replace(empty.parts[name], n=1, counts=counts, simulated=True)  # as the reports of these tests
    place.write_bytes(replace(empty, parts={**empty.parts, name: forged}).to_bytes())
    return place


def test_a_key_is_written_once_and_for_its_owner(key, tmp_path):
    assert len(key.read_bytes()) == 32
    if os.name == "posix":
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert "there already, and is not replaced" in refused("key", key)


def test_from_reports_to_estimates_with_a_key(plan, reports, key, tmp_path):
    sealed, total = tmp_path / "a.tally", tmp_path / "sum.tally"
    done("tally", plan, reports, "-o", sealed, "--key", key)
    plain = tmp_path / "b.tally"
    done("tally", plan, reports, "-o", plain)
    assert is_sealed(sealed.read_bytes())
    assert PlanTally.from_bytes(sealed.read_bytes(), key=key.read_bytes()) == PlanTally.from_bytes(plain.read_bytes())
    done("merge", sealed, "-o", total, "--plan", plan, "--key", key)
    assert total.read_bytes() == sealed.read_bytes()
    with_key = done("estimate", plan, total, "--key", key)
    assert with_key.stdout == done("estimate", plan, plain).stdout
    without = done("estimate", plan, total)  # a seal hides nothing
    assert without.stdout == with_key.stdout
    assert words(f"note: {total} is sealed, and nobody has looked at the seal: --key FILE does") in words(
        without.stderr
    )
    assert "seal" not in with_key.stderr
    assert not left_over(tmp_path)


def test_unsealed_and_foreign_tallies_are_refused(plan, reports, tally, key, tmp_path):
    other, foreign, total = tmp_path / "other.key", tmp_path / "foreign.tally", tmp_path / "sum.tally"
    done("key", other)
    done("tally", plan, reports, "-o", foreign, "--key", other)
    for bad, said in ((tally, "this tally has no seal"), (foreign, "sealed with another key, or changed")):
        for command in (
            ("merge", bad, "-o", total, "--key", key),
            ("estimate", plan, bad, "--key", key),
            ("query", plan, bad, "age < 30", "--key", key),
        ):
            text = refused(*command)
            assert f"{bad}: " in text
            assert said in text
    assert not total.exists()


def test_adding_to_a_sealed_tally_needs_its_key(plan, reports, key, tmp_path):
    target = tmp_path / "sum.tally"
    done("tally", plan, reports, "--add-to", target, "--key", key)
    before = target.read_bytes()
    assert is_sealed(before)
    assert "it is sealed, and would not be any more" in refused("tally", plan, reports, "--add-to", target)
    assert "added nothing" in done("tally", plan, reports, "--add-to", target, "--key", key).stderr
    assert target.read_bytes() == before
    plain = tmp_path / "plain.tally"
    done("tally", plan, reports, "--add-to", plain)
    assert "no seal" in refused("tally", plan, reports, "--add-to", plain, "--key", key)


def test_keys_that_are_none(plan, reports, key, tmp_path):
    short = tmp_path / "short.key"
    short.write_bytes(b"secret")
    text = refused("tally", plan, reports, "-o", tmp_path / "a.tally", "--key", short)
    assert "32 random bytes or more: dither key FILE writes" in text
    assert "secret" not in text
    assert "cannot be read" in refused("tally", plan, reports, "-o", tmp_path / "a.tally", "--key", tmp_path / "none")
    if os.name == "posix":
        key.chmod(0o644)
        said = done("tally", plan, reports, "-o", tmp_path / "a.tally", "--key", key).stderr
        assert words(f"note: others can read {key}, and seal what they like: chmod 600 {key}") in words(said)


def test_a_journal_is_sealed_too(plan, reports, key, tmp_path):
    """Whoever could write the journal of an interrupted run would have it sealed as if it had been counted."""
    made, output = Plan.read(plan), tmp_path / "a.tally"
    journal = Journal.at(tmp_path / "a.tally.progress", made)
    piece = report_files(reports, made)[0].pieces[0]
    journal.add(piece, *tallied(made, piece, "error"))
    journal.save()
    assert "not sealed with this key" in words(refused("tally", plan, reports, "-o", output, "--key", key))
    done("tally", plan, reports, "-o", output, "--key", key, "--restart")


def test_a_list_of_pieces_beside_a_sealed_tally_is_no_journal(plan, reports, key, tmp_path):
    """A tally that was sealed on another day would be sealed again, as that of files that nobody has counted."""
    made, output = Plan.read(plan), tmp_path / "a.tally"
    place, bare = tmp_path / "a.tally.progress", nothing(made)
    pieces = report_files(reports, made)[0].pieces
    name = next(iter(bare.parts))
    rows = sum(piece.rows for piece in pieces)
    counts = bare.parts[name].counts.copy()
    counts[0] = rows
    other = replace(bare, parts={**bare.parts, name: replace(bare.parts[name], n=rows, counts=counts)})
    listed = [(piece.file, piece.number, piece.rows, piece.bytes) for piece in pieces]
    for stored in (other.to_bytes(), other.to_bytes(key=key.read_bytes())):
        forged = JournalFormat("dither journal 1", made.fingerprint, listed, stored)  # type: ignore[arg-type]
        data = msgspec.msgpack.encode(forged)
        place.write_bytes(sha256(data).digest() + data)
        assert "not sealed with this key" in words(refused("tally", plan, reports, "-o", output, "--key", key))
    assert not output.exists()


def test_a_liar_is_named_and_nothing_is_merged(plan, tally, liar, tmp_path):
    total = tmp_path / "sum.tally"
    text = refused("merge", tally, liar, "-o", total, "--plan", plan)
    assert f"{liar}: " in text
    assert "no reports add up to this tally: count 0 is 1,000,000, and 1 report adds at most 1 to it" in text
    assert not total.exists()
    assert "no reports add up to this tally" in refused("estimate", plan, liar)
    assert "no reports add up to this tally" in refused("tally", plan, "--add-to", liar, tmp_path / "reports.parquet")
    done("merge", tally, liar, "-o", total, "--allow-simulated")  # nobody knows the plan here
    assert "no reports add up to this tally" in refused("estimate", plan, total)


def test_merge_with_another_plan(other_plan, tally, tmp_path):
    text = refused("merge", tally, "-o", tmp_path / "sum.tally", "--plan", other_plan)
    assert "use the plan that its reports were made with" in text
