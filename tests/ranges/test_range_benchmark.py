"""The benchmark of range queries: its populations, its queries, and how methods are compared."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marks import one_in
from scripts_by_path import ROOT


@pytest.fixture(scope="module")
def benchmark() -> Any:
    """The modules of the benchmark, which import each other by name."""
    folder = str(ROOT / "benchmarks")
    before = set(sys.modules)
    sys.path.insert(0, folder)
    try:
        import range_models  # type: ignore[import-not-found]

        yield range_models
    finally:
        sys.path.remove(folder)
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
                del sys.modules[name]


MADE = (
    *("uniform", "normal", "correlation .99", "correlation -.99", "two clusters", "three clusters", "five clusters"),
    *("corner", "ring", "banana", "cross", "zeros", "heavy tails", "heaps", "nominal mix", "labels", "parity"),
)


@pytest.mark.parametrize("name", one_in(4, MADE))
def test_a_population_is_a_function_of_users_and_seed(benchmark, name):
    populations: Any = sys.modules["range_populations"]
    for d, c in ((4, 16), (20, 1024)):
        one, again, other = (populations.drawn(name, seed, 2000, d, c) for seed in (1, 1, 2))
        assert one.records.shape == (2000, d) == (2000, len(one.shape))
        assert (one.records >= 0).all()
        assert (one.records < np.array(one.shape)).all()
        np.testing.assert_array_equal(one.records, again.records)
        assert (one.records != other.records).any()


def test_there_are_enough_of_them(benchmark):
    populations: Any = sys.modules["range_populations"]
    assert list(populations.MADE) == list(MADE)
    assert len(populations.POPULATIONS) >= 16
    missing = [line.partition(" is left out")[0] for line in populations.missing()]
    assert set(populations.there()) == set(populations.POPULATIONS) - set(missing)


def test_three_attributes_have_an_even_parity_and_no_two_hang_together(benchmark):
    records = sys.modules["range_populations"].drawn("parity", 0, 20_000, 3, 64).records >= 32  # type: ignore[attr-defined]
    assert (records.sum(axis=1) % 2 == 0).all()
    correlations = np.corrcoef(records.T)[np.triu_indices(3, 1)]
    assert np.abs(correlations).max() < 5.1 / np.sqrt(20_000)  # a false alarm in a million


@pytest.mark.parametrize("name", ["uniform", "heavy tails", "nominal mix"])
def test_queries_are_half_of_the_values_or_of_the_users(benchmark, name):
    trials: Any = sys.modules["range_trials"]
    people = sys.modules["range_populations"].drawn(name, 0, 20_000, 6, 64)  # type: ignore[attr-defined]
    for kind in trials.KINDS:
        for query in trials.queries(people, kind, 1, np.random.default_rng(1)):
            ((j, wanted),) = query.items()
            values = wanted if isinstance(wanted, list) else list(range(wanted[0], wanted[1] + 1))
            held = np.isin(people.records[:, j], values).mean()
            assert held == people.truth([query])[0]
            if kind == "half":
                assert abs(len(values) - people.shape[j] / 2) <= 1
            else:  # up to those who hold the values at its ends
                atom = np.bincount(people.records[:, j]).max() / len(people.records)
                assert 0.5 - 2 * atom <= held <= 0.5 + 2 * atom
            one, two = trials.halved(query)
            assert people.truth([one])[0] + people.truth([two])[0] == pytest.approx(held)


def _cell(benchmark: Any, errors: dict[str, list[float]]) -> Any:
    trials: Any = sys.modules["range_trials"]
    cell = trials.Cell("made", trials.CENTRE)
    for number in range(len(errors["Copula"])):
        cell.runs[number] = {name: trials.Run({"half 2": each[number]}, {}, {}) for name, each in errors.items()}
        cell.checks[number] = 100 + number
    return cell


def test_the_best_other_method_is_chosen_on_other_repetitions(benchmark):
    cell = _cell(benchmark, {"Copula": [1.0, 1.0, 1.0], "HDG": [0.1, 4.0, 4.0], "MSW": [2.0, 2.0, 2.0]})
    # Without its own repetition HDG is the worse one in the first, and by its luck there the better one in the others.
    np.testing.assert_allclose(np.exp(cell.ratios("Copula")), [1 / 2, 1 / 4, 1 / 4])
    assert cell.best() == "HDG"


def test_other_users_are_not_compared_with_the_reference(benchmark):
    cell = _cell(benchmark, {"Copula": [1.0, 2.0]})
    known = {"check": 100, "error": {"half 2": 2.0}}
    other = {"check": 7, "error": {"half 2": 2.0}}
    np.testing.assert_allclose(np.exp(cell.against("Copula", {cell.key: {"0": known, "1": other}})), [0.5])
    assert cell.against("Copula", {}).size == 0


def test_the_reference_is_of_these_very_populations(benchmark):
    trials: Any = sys.modules["range_trials"]
    reference = benchmark._read_reference()
    cell = trials.measured("labels", trials.Setting(users=10_000), ["Copula"], 1, None)
    assert reference[cell.key]["0"]["check"] == cell.checks[0]


def test_what_was_kept_is_not_measured_again(benchmark, tmp_path: Path):
    trials: Any = sys.modules["range_trials"]
    setting = trials.Setting(users=1000, d=4, c=16)
    first = trials.measured("ring", setting, ["MSW"], 1, tmp_path)
    (path,) = tmp_path.iterdir()
    written = path.stat().st_mtime_ns
    again = trials.measured("ring", setting, ["MSW"], 1, tmp_path)
    assert path.stat().st_mtime_ns == written
    assert again.runs[0]["MSW"].error == first.runs[0]["MSW"].error
    path.write_text(path.read_text().replace(f'"code": {trials.code()}', '"code": 1'))
    trials.measured("ring", setting, ["MSW"], 1, tmp_path)
    assert path.stat().st_mtime_ns != written
