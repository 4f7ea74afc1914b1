"""Scripts of `papers/`, `benchmarks/` and `docs/`, found by their paths: folders of papers start with a digit, and
names of benchmarks are those of folders of tests.
"""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def paper(number: str, name: str) -> ModuleType:
    """One file of a paper's folder, as a module."""
    return _module(f"paper_{number}_{name}", ROOT / "papers" / number / f"{name}.py")


def benchmark(name: str) -> ModuleType:
    """One of the benchmarks, as a module."""
    return _module(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")


def documentation(name: str) -> ModuleType:
    """One of the scripts that make the pages, as a module."""
    return _module(f"documentation_{name}", ROOT / "docs" / f"{name}.py")


def _module(name: str, path: Path) -> ModuleType:
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
