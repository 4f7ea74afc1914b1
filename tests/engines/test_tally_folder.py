"""One tally a batch: what is written again counts once, what is missing is missed."""

from pathlib import Path

import pytest

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
