"""Runs: resumed where they stopped, equal on any number of processes, and complete."""

import json

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.reproduce import papers, runner
from dither.reproduce.datasets import DataSet, MissingDataError
from dither.reproduce.measured import measured_value
from dither.reproduce.results_cache import KeptMeasurement, ResultsCache
from dither.reproduce.runner import measure_selections


def test_all_settings_are_measured(made, tmp_path):
    done = measure_selections(papers.select(["900"]), "quick", ResultsCache(tmp_path))
    found = done.measured["900.levels"]
    assert (done.done, done.reused, done.left) == (6, 0, 0)
    assert found.curve("level", line="twice").value.tolist() == [2.0, 4.0, 6.0]
    assert {row.repetitions for row in found.rows} == {2}
    assert found.notes["scale"] == "quick"


def test_scales_have_their_settings_sizes_and_repetitions(made, tmp_path):
    smoke = measure_selections(papers.select(["900"]), "smoke", ResultsCache(tmp_path))
    assert smoke.measured["900.levels"].along("level") == (1, 3)
    full = measure_selections(papers.select(["900"]), "full", ResultsCache(tmp_path))
    assert (full.done, full.reused) == (12, 0)  # another size: nothing of the smaller scale is taken for it
    assert full.measured["900.levels"].value(level=1, line="twice") == 1002.0
    assert full.measured["900.levels"].notes["scale"] == "full (users 1000)"


def test_an_interrupted_run_goes_on_where_it_was(made, tmp_path, monkeypatch):
    whole = measure_selections(papers.select(["900"]), "quick", ResultsCache(tmp_path / "whole")).measured["900.levels"]
    calls = []
    true = runner.measure_task

    def interrupted(task):
        calls.append(task)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return true(task)

    monkeypatch.setattr(runner, "measure_task", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure_selections(papers.select(["900"]), "quick", ResultsCache(tmp_path / "cut"))
    file = tmp_path / "cut" / "900.levels.jsonl"
    file.write_bytes(file.read_bytes()[:-5])  # the last line was cut short by a crash
    done = measure_selections(papers.select(["900"]), "quick", ResultsCache(tmp_path / "cut"))
    assert (done.done, done.reused) == (5, 1)
    assert done.measured["900.levels"].rows == whole.rows
    assert measure_selections(papers.select(["900"]), "quick", ResultsCache(tmp_path / "cut")).done == 0


def test_time_that_is_over_leaves_the_rest(made, tmp_path, monkeypatch):
    clock = iter(range(0, 100_000, 40))
    monkeypatch.setattr(runner.time, "monotonic", lambda: float(next(clock)))
    done = measure_selections(papers.select(["900"]), "quick", ResultsCache(tmp_path), minutes=1.5)
    assert 0 < done.done < 6
    assert done.left == 6 - done.done


def test_processes_change_nothing(tmp_path):
    """Of a real paper: workers load it by itself."""
    one, two = (
        measure_selections(papers.select(["002.fig1"]), "smoke", ResultsCache(tmp_path / str(jobs)), jobs=jobs)
        for jobs in (1, 2)
    )
    assert one.done == two.done > 1
    assert {name: found.rows for name, found in one.measured.items()} == {
        name: found.rows for name, found in two.measured.items()
    }


def test_seeds_differ_by_setting_and_repetition(made):
    experiment = papers.load_paper("900").experiments[0]
    seeds = {experiment.seed(setting, each) for setting in experiment.settings for each in range(100)}
    assert len(seeds) == 300
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_line_of_the_cache_is_a_measurement(tmp_path):
    cache = ResultsCache(tmp_path)
    cache.append("a", "key", KeptMeasurement((measured_value(0.1, x=1),), 0.5))
    assert json.loads((tmp_path / "a.jsonl").read_text()) == ["key", 0.5, [[{"x": 1}, 0.1]]]
    assert cache.read("a")["key"].numbers[0].where == {"x": 1}


def test_data_that_are_not_here_are_named(tmp_path, monkeypatch):
    data = DataSet("made", "a set that nobody has", "pip install it", ("a/b.csv",), lambda files: {"x": np.arange(3)})
    monkeypatch.delenv("DITHER_DATA", raising=False)
    assert not data.there
    with pytest.raises(MissingDataError, match="a set that nobody has is not here: pip install it; --data FOLDER"):
        data.columns()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.csv").write_text("1")
    monkeypatch.setenv("DITHER_DATA", str(tmp_path))
    assert data.there
    before = data.digest()
    assert data.columns()["x"].tolist() == [0, 1, 2]
    other = tmp_path / "other"
    (other / "a").mkdir(parents=True)
    (other / "a" / "b.csv").write_text("2")
    monkeypatch.setenv("DITHER_DATA", str(other))
    assert data.digest() != before


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_archives_are_read_as_they_are(tmp_path, monkeypatch, kind):
    import shutil

    (tmp_path / "in" / "deep" / "a").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "a" / "b.csv").write_bytes(b"inside")
    (tmp_path / "out").mkdir()
    shutil.make_archive(str(tmp_path / "out" / "held"), "gztar" if kind == "tar.gz" else "zip", tmp_path / "in")
    data = DataSet("made", "a set", "", ("a/b.csv",), lambda files: {"x": np.frombuffer(files["a/b.csv"], np.uint8)})
    monkeypatch.setenv("DITHER_DATA", str(tmp_path / "out"))
    assert bytes(data.columns()["x"]) == b"inside"


def test_unknown_names_bring_near_ones(made):
    with pytest.raises(ParameterError, match=r"called 900.fg1: did you mean 900.fig1"):
        papers.select(["900.fg1"])
    with pytest.raises(ParameterError, match="--list names them"):
        papers.select(["xyzzy"])


def test_a_figure_brings_the_claims_that_rest_on_it(made):
    (chosen,) = papers.select(["900.fig1"])
    assert [each.name for each in chosen.figures] == ["900.fig1"]
    assert [each.name for each in chosen.claims] == ["900.claim1"]
    (alone,) = papers.select(["900.claim1"])
    assert not alone.figures
    assert [each.name for each in alone.experiments] == ["900.levels"]
