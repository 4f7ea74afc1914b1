"""A client that only randomizes stays light, and the package shows the names it has.

Each mechanism randomizes in a process of its own, which then lists what was imported on the way. Names are public by a
line in a stub (`__init__.pyi`); what a stub says and what Python finds must be the same.
"""

import ast
import json
import pydoc
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import dither
from dither.core.estimate import refinements
from dither.core.registry import Registry, declared
from dither.errors import ParameterError
from marks import one_in, wide

HEAVY = ("numba", "pandas", "scipy", "pyarrow", "duckdb", "rich", "click", "matplotlib")
HOME = Path(dither.__file__).parent
STUBS = sorted(HOME.rglob("__init__.pyi"))
PACKAGES = [".".join(("dither", *stub.parent.relative_to(HOME).parts)) for stub in STUBS]


def imported(script: str) -> set[str]:
    """The top-level modules that a script has imported."""
    script += "\nimport json, sys\nprint(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def stubbed(stub: Path) -> list[str]:
    """The names that a stub makes public, modules too."""
    lines = [line for line in ast.parse(stub.read_text()).body if isinstance(line, ast.ImportFrom)]
    assert all(alias.asname == alias.name for line in lines for alias in line.names), "only `x as x` is public"
    return [alias.name for line in lines for alias in line.names]


@pytest.mark.parametrize("name", one_in(10, dither.registry))
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


@pytest.mark.wide
@pytest.mark.parametrize("module", HEAVY[:-2])
def test_a_heavy_import_would_be_noticed(module):
    pytest.importorskip(module)
    assert module in imported(f"import dither, {module}")


def test_importing_dither_alone_loads_no_numpy():
    assert "numpy" not in imported("import dither")
    assert "numpy" in imported("import dither\ndither.GRR")


@pytest.mark.parametrize(("package", "stub"), list(zip(PACKAGES, STUBS, strict=True)), ids=PACKAGES)
def test_stub_and_run_time_agree(package: str, stub: Path):
    if package.startswith("dither.learn"):
        pytest.importorskip("sklearn")
        pytest.importorskip("torch")
        pytest.importorskip("flwr")
    module, names = import_module(package), stubbed(stub)
    assert sorted(module.__all__) == sorted(set(names)) == sorted(names)
    assert set(dir(module)) - {"__version__"} == set(names)
    for name, home in declared(package).items():
        assert getattr(module, name) is getattr(import_module(home), name)


def test_every_room_that_gathers_names_does_so_by_a_stub():
    by_hand = {"dither.privacy.ledger", "dither.privacy.auditing"}  # a few names each, which `dither.privacy` has too
    for file in HOME.rglob("__init__.py"):
        if "__all__ = [" in file.read_text():
            assert ".".join(("dither", *file.parent.relative_to(HOME).parts)) in by_hand


def test_dir_lists_what_there_is():
    names = dir(dither)
    assert names == sorted(set(names))
    assert {"GRR", "Unary", "LocalHash", "SubsetSelection", "Hadamard"} <= set(names)
    assert {"Estimate", "Guarantee", "Mechanism", "Reports", "Tally", "Channel", "DitherError"} <= set(names)
    assert {"errors", "mechanisms", "privacy", "registry", "__version__"} <= set(names)


def test_star_import():
    names: dict[str, object] = {}
    exec("from dither import *", names)  # noqa: S102
    assert set(dir(dither)) - {"__version__"} <= set(names)
    assert names["GRR"] is dither.GRR


def test_help_lists_the_classes():
    text = pydoc.plain(pydoc.render_doc(dither))
    classes = text[text.index("CLASSES") : text.index("FUNCTIONS")]
    for name in ("Estimate", "Schema", "Plan", *dither.registry):
        assert re.search(rf"^    class {name}\(", classes, re.MULTILINE)
    assert "plan(" in text[text.index("FUNCTIONS") :]


@pytest.mark.parametrize("name", ["Nope", "grr", "GRRR", "_private", "__wrapped__", "GRR "])
@pytest.mark.parametrize("package", PACKAGES[:1] + [name for name in PACKAGES if name.count(".") == 1])
def test_unknown_names(package: str, name: str):
    module = import_module(package)
    if name != "grr" or package != "dither.mechanisms":  # a module
        with pytest.raises(AttributeError, match=f"attribute {name}"):
            getattr(module, name)


def test_unknown_names_are_not_imported():
    with pytest.raises(ImportError):
        from dither import Nope  # type: ignore[attr-defined]  # noqa: F401


def test_the_registry_has_the_mechanisms_of_both_rooms():
    assert dither.registry is dither.mechanisms.registry
    for name, cls in dither.registry.items():
        assert getattr(dither, name) is cls
        assert issubclass(cls, dither.Mechanism)
        room = dither.ranges if cls.__module__.startswith("dither.ranges.") else dither.mechanisms
        assert getattr(room, name) is cls
    for room in ("dither.mechanisms", "dither.ranges"):
        things = {name: getattr(import_module(room), name) for name in declared(room)}
        made = {
            name for name, thing in things.items() if isinstance(thing, type) and issubclass(thing, dither.Mechanism)
        }
        assert made <= set(dither.registry), f"{made - set(dither.registry)} lack a line in dither/__init__.pyi"


def test_a_registry_imports_nothing_before_it_is_asked():
    script = (
        "import sys\nfrom dither.mechanisms import registry\nfrom dither.core.estimate import refinements\n"
        "assert 'HDG' in registry and 'shrink' in refinements and len(registry) > 30\n"
        "assert not any(name.startswith(('dither.ranges', 'dither.refine')) for name in sys.modules)\n"
        "registry['HDG']; refinements['shrink']\n"
        "assert {'dither.ranges.methods', 'dither.refine.shrink'} <= set(sys.modules)"
    )
    imported(script)


@pytest.mark.parametrize("registry", [dither.registry, refinements], ids=lambda registry: registry.kind)
def test_a_registry_finds_names_in_any_case_and_lists_them_otherwise(registry: Registry):
    for name in registry:
        assert registry.find(name.upper()) is registry.find(name.lower()) is registry[name]
    with pytest.raises(ParameterError, match=f"no {registry.kind} has this name; there are {', '.join(registry)}$"):
        registry.find("nope")
    with pytest.raises(KeyError):
        registry["nope"]
    assert "nope" not in registry


def test_a_package_without_a_stub_declares_nothing():
    with pytest.raises(ImportError, match="there is no package"):
        declared("dither_of_nobody")


def test_the_package_is_the_command():
    done = subprocess.run([sys.executable, "-m", "dither", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"dither, version {dither.__version__}\n"


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


@pytest.mark.wide
@pytest.mark.parametrize(
    ("library", "files"),
    [
        ("sklearn", ["cli/test_train.py"]),
        wide("sklearn", ["learn/test_linear.py"]),
        wide("torch", [f"learn/test_{name}.py" for name in ("dpsgd", "federated", "geodp", "gradients")]),
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
