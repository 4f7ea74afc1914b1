"""One tally a batch: what is written again counts once, what is missing is missed."""

from contextlib import suppress
from pathlib import Path

import pytest

from dither.engines import tally_folder
from dither.engines.paths import FolderPlace
from dither.engines.tally_folder import TallyFolder
from dither.errors import ParameterError, TallyError
from engines.cases import made, table

PLAN = made("one question")


def tally(users: int, seed: int | None = None):
    return PLAN.tally(PLAN.randomize(table(PLAN, users), seed=seed))


def test_the_total_is_the_sum_of_all_batches_and_a_batch_that_is_written_again_is_replaced(tmp_path: Path) -> None:
    folder = TallyFolder(str(tmp_path / "tallies"))
    assert folder.total(PLAN).reports == 0
    parts = [tally(users) for users in (30, 20, 10)]
    for number in (0, 1, 1, 2, 0):
        folder.put(number, parts[number])
    assert folder.batches() == [0, 1, 2]
    assert folder.total(PLAN) == parts[0] + parts[1] + parts[2]
    folder.put(1, tally(5))
    assert folder.total(PLAN).reports == 45


def test_a_batch_that_is_missing_is_missed(tmp_path: Path) -> None:
    folder = TallyFolder(str(tmp_path))
    for number in range(3):
        folder.put(number, tally(10))
    (tmp_path / "batch-000000000001.tally").unlink()
    with pytest.raises(TallyError, match="no tally of batch 1"):
        folder.total(PLAN)


def test_batches_are_added_up_and_the_total_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally_folder, "COMPACTED", 4)
    folder, parts = TallyFolder(str(tmp_path)), [tally(users) for users in range(1, 12)]
    for number, part in enumerate(parts):
        folder.put(number, part)
        folder.put(number, part)  # computed again
        assert folder.total(PLAN) == sum(parts[1 : number + 1], start=parts[0])
        assert folder.batches() == list(range(number + 1))
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == [f"batch-00000000{number:04d}.tally" for number in (8, 9, 10)] + ["sum-000000000007.tally"]
    (tmp_path / names[1]).unlink()
    with pytest.raises(TallyError, match="no tally of batch 9"):
        folder.total(PLAN)


@pytest.mark.parametrize("point", range(7))
def test_who_dies_while_batches_are_added_up_counts_none_twice(
    tmp_path: Path, point: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each of its changes to the folder: the sum, or the removal of one of five files."""
    folder, parts = TallyFolder(str(tmp_path)), [tally(users) for users in (10, 20, 30, 40, 50, 60)]
    for number, part in enumerate(parts):
        folder.put(number, part)
    changes = iter(range(100))

    def dying(change):
        def changed(*arguments):
            if next(changes) == point:
                raise KeyboardInterrupt
            return change(*arguments)

        return changed

    with monkeypatch.context() as patched:
        patched.setattr(TallyFolder, "_write", dying(TallyFolder._write))
        patched.setattr(FolderPlace, "remove", dying(FolderPlace.remove))
        with suppress(KeyboardInterrupt):
            folder.compact(5)
    assert len(list(tmp_path.iterdir())) == (6 if point == 0 else 8 - point if point < 7 else 2)
    assert folder.total(PLAN).reports == 210
    folder.compact(5)
    assert folder.total(PLAN).reports == 210
    assert len(list(tmp_path.iterdir())) == 2


def test_a_reader_beside_a_compaction_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = TallyFolder(str(tmp_path))
    for number in range(5):
        folder.put(number, tally(10))
    whole = TallyFolder._whole

    def meanwhile(self: TallyFolder):
        found = whole(self)
        self.compact(4)
        return found

    monkeypatch.setattr(TallyFolder, "_whole", meanwhile)
    assert folder.total(PLAN).reports == 50


def test_damage_is_named(tmp_path: Path) -> None:
    folder = TallyFolder(str(tmp_path))
    folder.put(0, tally(10))
    file = tmp_path / "batch-000000000000.tally"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(TallyError, match=file.name):
        folder.total(PLAN)


def test_a_folder_is_for_one_plan_and_one_stream(tmp_path: Path) -> None:
    folder = TallyFolder(str(tmp_path))
    folder.claim(PLAN.fingerprint, "first")
    folder.claim(PLAN.fingerprint, "first")
    with pytest.raises(ParameterError, match="another stream"):
        folder.claim(PLAN.fingerprint, "second")
    with pytest.raises(ParameterError, match="tallies of plan"):
        folder.claim(made("mixed").fingerprint, "first")
    (tmp_path / "stream.json").write_text("{}")
    with pytest.raises(ParameterError, match="damaged"):
        folder.claim(PLAN.fingerprint, "first")
    folder.put(0, tally(10))
    (tmp_path / "stream.json").unlink()
    with pytest.raises(ParameterError, match=r"no stream\.json"):
        folder.claim(PLAN.fingerprint, "first")


def test_what_was_simulated_is_not_mixed(tmp_path: Path) -> None:
    folder = TallyFolder(str(tmp_path))
    folder.put(0, tally(10))
    folder.put(1, tally(5, seed=1))
    found = folder.total(PLAN, invalid_reports="drop")
    assert (found.reports, found.dropped) == (10, {"simulated": 5})
    assert folder.total(PLAN, allow_simulated=True).simulated
