"""Parts of what `benchmarks/collect.py` measures for longer: rubbish leaves nothing behind, and memory stays flat."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from marks import wide

HERE = Path(__file__).parents[2] / "benchmarks" / "collect.py"


@pytest.fixture(scope="module")
def benchmark_of_collector() -> Any:
    spec = importlib.util.spec_from_file_location("benchmark_of_collector", HERE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("count", [2000, wide(200_000)])
def test_malformed_bodies_are_refused_and_leave_nothing(benchmark_of_collector, tmp_path, count):
    told = benchmark_of_collector.malformed_bodies(tmp_path, count)
    assert sum(told.statuses.values()) >= count
    assert set(told.statuses) <= {"400", "413", "422"}
    assert told.before == told.after
    if count > 100_000:
        assert told.growth < 0.05, told.memory()


@pytest.mark.wide
def test_memory_is_flat_while_reports_stream_in(benchmark_of_collector, tmp_path):
    """10^8 reports: all are counted, and memory stays within a fifth once they are half way, far below their 1.3 GB.

    On the way it grows to what several batches at a time need: by 7 and by 28% after a tenth of them, in two runs.
    """
    told = benchmark_of_collector.streamed(tmp_path, 100_000_000)
    assert set(told.statuses) == {"200"}
    assert told.after[1] - told.before[1] == 10_000 * told.sent
    later = told.sizes[len(told.sizes) // 2 :]
    assert max(later) / later[0] < 1.2, told.memory()
    assert max(told.sizes) < 600e6, told.memory()
