"""A client that only randomizes stays light, and the package shows the names it has.

Each mechanism randomizes in a process of its own, which then lists what was imported on the way.
"""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import dither
from marks import wide

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


WITHOUT = """
import sys, pytest
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
sys.exit(pytest.main(["--collect-only", "-q", "-rs", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


@pytest.mark.parametrize(
    ("library", "files"),
    [
        ("sklearn", ["cli/test_train.py"]),
        wide("sklearn", ["learn/test_linear.py"]),
        wide("torch", [f"learn/test_{name}.py" for name in ("dpsgd", "federated", "geodp", "gradients", "ldpvec")]),
        wide("flwr", ["learn/test_flower.py"]),
        wide("pyspark", ["engines/test_spark.py"]),
        wide("duckdb", ["engines/test_records.py"]),
        wide("dp_accounting", ["privacy/test_composition.py", "privacy/test_subsampling.py"]),
        wide(
            "pandas", ["core/test_records_domain.py", "core/test_sparse_domain.py", "mechanisms/test_personalised.py"]
        ),
    ],
)
def test_a_file_of_tests_names_the_library_that_is_missing(library, files):
    tests = Path(__file__).parent
    command = [sys.executable, "-c", WITHOUT, library, *(str(tests / file) for file in files)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tests.parent)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout
    for file in files:
        (line,) = (line for line in done.stdout.splitlines() if line.startswith("SKIPPED") and file in line)
        assert library in line or "pip install" in line
