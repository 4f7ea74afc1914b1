"""What a store keeps of its batches, as files: all of it, once, and the same tally."""

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyarrow import fs

import dither
from collect.collectors import batches, other_plan, small_plan
from dither.cli import main
from dither.collect import export
from dither.collect.export import GROUPS, export_reports
from dither.collect.sqlite_store import SqliteStore
from dither.collect.store import Campaign, Store, Submission, body_digest, key_hash
from dither.engines import paths
from dither.engines.local import Local
from dither.errors import ParameterError, ReportError, WriteError
from dither.planning import Plan
from dither.planning.plan_tally import PlanTally
from dither.wire import BatchFormat


@pytest.fixture
def store(tmp_path: Path):
    with SqliteStore(tmp_path / "store") as found:
        yield found


def campaign_of(store: Store, plan: Plan, keep: int = 24) -> Campaign:
    made = store.add_campaign(plan.fingerprint, plan.to_json().encode())
    store.keep_reports(made.number, keep)
    return made


def commit(store: Store, campaign: Campaign, plan: Plan, bodies: list[bytes], together: int = 3) -> None:
    """Commit batches, some in a group."""
    form = BatchFormat(plan)
    for start in range(0, len(bodies), together):
        group = []
        for body in bodies[start : start + together]:
            key, batch = os.urandom(16), form.check(body)
            keys = key_hash(plan.fingerprint, key), body_digest(key, body)
            group.append(Submission(campaign.number, *keys, body, batch.accepted, batch.rejected))
        store.commit(group)


def fold(store: Store, campaign: Campaign, plan: Plan, number: int = 0) -> None:
    form = BatchFormat(plan)
    for group in store.waiting():
        if group.campaign == campaign.number:
            tally = form.tally(map(form.check, store.bodies(group.number)))
            assert store.fold(campaign.number, [group.number], {number: tally})


def tally_of(store: Store, campaign: Campaign, number: int = 0) -> PlanTally:
    return store.counted(campaign.number).tallies[number]


def test_the_tally_of_the_files_is_the_collectors_to_the_bit(store, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_FILE_BYTES", 600)
    plan = small_plan()
    campaign = campaign_of(store, plan)
    sent = batches(plan, 500, 30)
    spoiled = sent[0][:-1] + bytes([255])  # a report about income that is out of range
    assert sum(BatchFormat(plan).check(spoiled).rejected.values()) == 1
    commit(store, campaign, plan, [spoiled, *sent[1:]])
    fold(store, campaign, plan)
    found = export_reports(store, campaign, str(tmp_path / "out"))
    assert (found.batches, found.batches_before, found.missing) == (len(sent), 0, 0)
    assert (found.reports, found.rejected) == (499, 1)
    assert len(found.files) > 2
    total = Local().tally(plan, tmp_path / "out")
    assert total == tally_of(store, campaign)
    assert total.reports == 499


def test_a_second_run_adds_what_is_new_and_nothing_twice(store, tmp_path):
    plan = small_plan()
    campaign = campaign_of(store, plan)
    commit(store, campaign, plan, batches(plan, 200, 30))
    first = export_reports(store, campaign, str(tmp_path / "out"))  # before it is counted
    assert export_reports(store, campaign, str(tmp_path / "out")).files == ()
    commit(store, campaign, plan, batches(plan, 100, 30))
    fold(store, campaign, plan)
    second = export_reports(store, campaign, str(tmp_path / "out"))
    assert (second.batches_before, second.batches) == (first.batches, 4)
    assert Local().tally(plan, tmp_path / "out") == tally_of(store, campaign)


def test_numbers_that_become_visible_late_are_written_later(store, tmp_path, monkeypatch):
    """As those of a database on which several collectors commit, out of order."""
    plan = small_plan()
    campaign = campaign_of(store, plan)
    commit(store, campaign, plan, batches(plan, 200, 10), together=4)
    every = store.raw_groups(campaign.number)
    with monkeypatch.context() as patch:
        patch.setattr(store, "raw_groups", lambda number: [each for each in every if each.number != 3])
        export_reports(store, campaign, str(tmp_path / "out"))
    late = export_reports(store, campaign, str(tmp_path / "out"))
    assert [Path(name).name for name in late.files] == ["reports-000000000003-000000000003.parquet"]
    fold(store, campaign, plan)
    assert Local().tally(plan, tmp_path / "out") == tally_of(store, campaign)


def test_a_run_that_dies_goes_on(store, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_FILE_BYTES", 300)
    plan = small_plan()
    campaign = campaign_of(store, plan)
    commit(store, campaign, plan, batches(plan, 300, 30))
    fold(store, campaign, plan)
    done = []

    def pack_rows(*arguments):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(1)
        return packed(*arguments)

    packed = export.pack_rows
    with monkeypatch.context() as patch:
        patch.setattr(export, "pack_rows", pack_rows)
        with pytest.raises(KeyboardInterrupt):
            export_reports(store, campaign, str(tmp_path / "out"))
    folder = tmp_path / "out" / plan.fingerprint[:12]
    assert len([each for each in folder.iterdir() if not each.name.startswith(".export")]) == 2
    export_reports(store, campaign, str(tmp_path / "out"))
    assert Local().tally(plan, tmp_path / "out") == tally_of(store, campaign)


def test_a_file_that_fails_half_way_is_not_there(store, tmp_path, monkeypatch):
    plan = small_plan()
    campaign = campaign_of(store, plan)
    commit(store, campaign, plan, batches(plan, 30, 30))

    def full(*_arguments, **_more):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
        with pytest.raises(WriteError, match="no space left"):
            export_reports(store, campaign, str(tmp_path / "out"))
    assert not list((tmp_path / "out").rglob("*.parquet*"))
    assert export_reports(store, campaign, str(tmp_path / "out")).reports == 30


def test_what_was_scrubbed_is_missed(store, tmp_path):
    plan = small_plan()
    campaign = campaign_of(store, plan, keep=0)
    commit(store, campaign, plan, batches(plan, 60, 30))
    fold(store, campaign, plan)
    nothing = export_reports(store, campaign, str(tmp_path / "out"))
    assert (nothing.files, nothing.missing) == ((), 2)
    assert not (tmp_path / "out").exists()
    store.keep_reports(campaign.number, 24)
    commit(store, campaign, plan, batches(plan, 90, 30))
    fold(store, campaign, plan)
    found = export_reports(store, campaign, str(tmp_path / "out"))
    assert (found.batches, found.missing) == (3, 2)


def test_a_folder_of_another_store_is_refused(store, tmp_path):
    plan = small_plan()
    campaign = campaign_of(store, plan)
    commit(store, campaign, plan, batches(plan, 60, 30))
    export_reports(store, campaign, str(tmp_path / "out"))
    with SqliteStore(tmp_path / "second") as other:
        second = campaign_of(other, plan)
        commit(other, second, plan, batches(plan, 60, 30))
        with pytest.raises(ParameterError, match="another store"):
            export_reports(other, second, str(tmp_path / "out"))


def test_the_same_groups_in_two_folders_are_not_tallied_together(store, tmp_path):
    plan = small_plan()
    campaign = campaign_of(store, plan)
    commit(store, campaign, plan, batches(plan, 60, 30))
    for name in ("one", "two"):
        export_reports(store, campaign, str(tmp_path / name))
    with pytest.raises(ReportError, match="is a copy of"):
        Local().tally(plan, [tmp_path / "one", tmp_path / "two"])


def test_strange_files_in_the_folder_are_refused(store, tmp_path):
    plan = small_plan()
    campaign = campaign_of(store, plan)
    commit(store, campaign, plan, batches(plan, 60, 30))
    folder = tmp_path / "out" / plan.fingerprint[:12]
    folder.mkdir(parents=True)
    Local().randomize(plan, {name: [] for name in plan.attributes}, folder / "own.parquet")
    with pytest.raises(ReportError, match="not written by an export"):
        export_reports(store, campaign, str(tmp_path / "out"))
    (folder / "own.parquet").write_bytes(b"PAR1")
    with pytest.raises(ReportError, match="damaged"):
        export_reports(store, campaign, str(tmp_path / "out"))


def test_one_export_at_a_time(store, tmp_path):
    plan = small_plan()
    campaign = campaign_of(store, plan)
    commit(store, campaign, plan, batches(plan, 60, 30))
    with (
        export._alone(paths.FolderPlace.at(str(tmp_path / "out")).inside(plan.fingerprint[:12])),
        pytest.raises(ParameterError, match="another export"),
    ):
        export_reports(store, campaign, str(tmp_path / "out"))


def test_rounds_have_a_folder_each(store, tmp_path):
    plan = dither.plan(dither.Schema({"age": dither.Ordinal(0, 9)}), epsilon=2.0, users=1000, rounds=["a", "b", "c"])
    campaign, form = campaign_of(store, plan), BatchFormat(plan)
    answers = plan.randomize_rounds([{"age": [place] * 50} for place in range(3)])
    sent = {label: list(form.pack_batches(answers[place], 10, period=label)) for place, label in ((0, "a"), (2, "c"))}
    both = [*sent["a"], *sent["c"]]
    commit(store, campaign, plan, both, together=len(both))  # one group with batches of both
    found = export_reports(store, campaign, str(tmp_path / "out"))
    assert (found.batches, len(found.files)) == (len(both), 2)
    for number, label in ((0, "a"), (2, "c")):
        expected = form.tally(map(form.check, sent[label]))
        folder = tmp_path / "out" / plan.fingerprint[:12] / f"round-{number:04d}"
        assert Local().tally(plan, folder) == expected
    again = export_reports(store, campaign, str(tmp_path / "out"))
    assert (again.files, again.batches_before, again.missing) == ((), len(both), 0)


def test_an_address_of_another_filesystem(store, tmp_path, monkeypatch):
    there = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())

    class Known(fs.FileSystem):
        @staticmethod
        def from_uri(address: str):
            return there, address.partition("@")[2]

    monkeypatch.setattr(paths, "_known_filesystems", lambda: Known)
    paths._filesystem.cache_clear()
    plan = small_plan()
    campaign = campaign_of(store, plan)
    commit(store, campaign, plan, batches(plan, 60, 30))
    fold(store, campaign, plan)
    found = export_reports(store, campaign, "s3://key:secret@bucket/reports")
    assert "secret" not in str(found)
    assert export_reports(store, campaign, "s3://key:secret@bucket/reports").files == ()
    folder = tmp_path / "bucket" / "reports" / plan.fingerprint[:12]
    assert [each.suffix for each in folder.iterdir()] == [".parquet"]
    assert Local().tally(plan, folder) == tally_of(store, campaign)
    (tmp_path / "taken").write_text("")
    with pytest.raises(WriteError, match="cannot be reached") as caught:
        export_reports(store, campaign, "s3://key:secret@taken/reports")
    assert "secret" not in str(caught.value)
    paths._filesystem.cache_clear()


def test_the_file_says_nothing_about_batches_but_their_groups(store, tmp_path):
    plan = small_plan()
    campaign = campaign_of(store, plan)
    commit(store, campaign, plan, batches(plan, 60, 30))
    (name,) = export_reports(store, campaign, str(tmp_path / "out")).files
    facts = pq.read_schema(name).metadata
    assert set(facts) == {b"dither.plan", b"dither.file", GROUPS}
    assert json.loads(facts[GROUPS]) == {"store": store.identity(campaign.number), "ranges": [[1, 1]], "batches": 2}


# The command ---------------------------------------------------------------------------------------------------------


def run(*arguments: str):
    return CliRunner().invoke(main, ["export", *arguments])


def test_the_command(store, tmp_path):
    for plan in (small_plan(), other_plan()):
        campaign = campaign_of(store, plan)
        commit(store, campaign, plan, batches(plan, 60, 30))
        fold(store, campaign, plan)
    place, out = str(tmp_path / "store"), str(tmp_path / "out")
    one = run("--store", place, "--parquet", out, "--plan", small_plan().fingerprint[:6])
    assert one.exit_code == 0, one.output
    assert "wrote 60 reports of 2 batches" in one.output
    assert "next: dither tally plan.json" in one.output
    both = run("--store", place, "--parquet", out, "--json")
    assert both.exit_code == 0, both.output
    assert [each["batches"] for each in json.loads(both.stdout)] == [0, 2]
    assert "is as it was: all 2 batches that are kept are there" in both.stderr
    wrong = run("--store", place, "--parquet", out, "--plan", "zzz")
    assert (wrong.exit_code, "0 plans in this store begin so" in wrong.output) == (1, True)


def test_the_command_says_when_nothing_is_kept(store, tmp_path):
    place = str(tmp_path / "store")
    empty = run("--store", place, "--parquet", str(tmp_path / "out"))
    assert (empty.exit_code, "there are no campaigns" in empty.output) == (1, True)
    campaign = campaign_of(store, small_plan(), keep=0)
    commit(store, campaign, small_plan(), batches(small_plan(), 60, 30))
    fold(store, campaign, small_plan())
    none = run("--store", place, "--parquet", str(tmp_path / "out"))
    assert none.exit_code == 1
    assert "--keep-reports 30d" in none.output
    assert "campaign tally" in none.output
