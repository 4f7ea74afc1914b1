"""A client that only randomizes stays light, and the package shows the names it has.

Each mechanism randomizes in a process of its own, which then lists what was imported on the way.
"""

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

import dither

HEAVY = ("numba", "pandas", "scipy", "pyarrow", "duckdb", "rich", "click", "matplotlib")


def imported(script: str) -> set[str]:
    """The top-level modules that a script has imported."""
    script += "\nimport json, sys\nprint(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("name", list(dither.registry))
def test_a_client_that_only_randomizes_is_light(name):
    example = dict(dither.registry[name].examples[0])
    script = f"import dither\nm = dither.{name}(**{example!r})\nassert len(m.randomize(m.inputs()[:2])) == 2"
    assert imported(script).isdisjoint(HEAVY)


def test_randomizing_every_mechanism_and_reading_a_certificate_is_light():
    script = """
import dither
for cls in dither.registry.values():
    for example in cls.examples:
        mechanism = cls(**example)
        mechanism.randomize(mechanism.inputs()[:2], seed=1)
        dither.privacy.certify(mechanism)
"""
    assert imported(script).isdisjoint(HEAVY)


@pytest.mark.parametrize("module", HEAVY[:-2])
def test_a_heavy_import_would_be_noticed(module):
    pytest.importorskip(module)
    assert module in imported(f"import dither, {module}")


def test_importing_dither_alone_loads_no_numpy():
    assert "numpy" not in imported("import dither")
    assert "numpy" in imported("import dither\ndither.GRR")


def test_dir_lists_what_there_is():
    names = dir(dither)
    assert names == sorted(set(names))
    assert {"GRR", "Unary", "LocalHash", "SubsetSelection", "Hadamard"} <= set(names)
    assert {"Estimate", "Guarantee", "Mechanism", "Reports", "Tally", "Channel", "DitherError"} <= set(names)
    assert {"mechanisms", "privacy", "registry", "__version__"} <= set(names)
    for name in names:
        assert getattr(dither, name) is getattr(dither, name)


@pytest.mark.parametrize("name", ["Nope", "grr", "_private", "__wrapped__", "GRR "])
def test_unknown_names(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(dither, name)
    assert not hasattr(dither, name)


def test_unknown_names_of_the_mechanisms():
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        dither.mechanisms.Nope  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError):
        from dither import Nope  # type: ignore[attr-defined]  # noqa: F401


def test_public_names_are_the_classes_themselves():
    for name, cls in dither.registry.items():
        assert getattr(dither, name) is getattr(dither.mechanisms, name) is cls


def test_version_is_that_of_the_package():
    assert dither.__version__ == version("dither")
