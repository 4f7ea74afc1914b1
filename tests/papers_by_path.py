"""Scripts of `papers/`: the folders' names start with a digit, so their files are found by their paths."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

PAPERS = Path(__file__).parents[1] / "papers"


def paper(number: str, name: str) -> ModuleType:
    """One file of a paper's folder, as a module."""
    spec = spec_from_file_location(f"paper_{number}_{name}", PAPERS / number / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
