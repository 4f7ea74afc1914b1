"""A mechanism of another package, installed for the purpose: planned, stored, loaded, certified, audited and checked.

`tests/outside` is that package. It is installed into a folder of its own, as pip would leave it there (the module, and
beside it what the package says about itself), and everything happens in a process that has this folder on its path.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dither

HOME = Path(__file__).parent / "outside"
SOURCE = Path(dither.__file__).parent.parent


def install(folder: Path, entry_points: dict[str, str] | None = None) -> Path:
    """The package as it is when it is installed; with other entry points, if they are given."""
    project = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
    named = entry_points or project["entry-points"]["dither.mechanisms"]
    about = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [f"{name} = {place}\n" for name, place in named.items()]
    (about / "entry_points.txt").write_text("[dither.mechanisms]\n" + "".join(lines))
    (folder / "dither_blocks.py").write_text((HOME / "dither_blocks.py").read_text())
    return folder


def run(path: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with this folder on its path, and nothing else that is not installed."""
    folders = [str(path)] * (path is not None) + [str(SOURCE)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "COLUMNS": "200"}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)


def said(path: Path | None, *arguments: str) -> str:
    done = run(path, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("installed"))


PLAN = """
import sys, dither
schema = dither.Schema({"day": dither.Ordinal(0, 10), "mood": dither.Categorical(["good", "bad"])})
plan = dither.plan(schema, epsilon=0.5, users=100_000, most_evaluations=1)
names = [type(part.mechanism).__name__ for part in plan.parts]
assert "ResidueBlocks" in names and "dither_blocks" in sys.modules, names
dear = dither.plan(schema, epsilon=0.5, users=100_000)
assert "ResidueBlocks" not in [type(part.mechanism).__name__ for part in dear.parts]
again = dither.Plan.from_json(plan.to_json())
assert again.fingerprint == plan.fingerprint and again == plan
table = {"day": [*range(11)] * 1000, "mood": ["good", "bad"] * 5500}
tally = again.tally(again.randomize(table, seed=1))
estimate = again.estimate(tally)["distribution(day)"]
assert abs(estimate.value - 1 / 11).max() < 6 * estimate.stderr.max()
print(plan.to_json())
"""


def test_it_is_planned_where_it_is_better_and_read_back(installed: Path, tmp_path: Path):
    stored = tmp_path / "plan.json"
    stored.write_text(said(installed, "-W", "error", "-c", PLAN))
    read = "import sys, dither; print(dither.Plan.from_json(open(sys.argv[1]).read()).parts[0].mechanism)"
    assert "ResidueBlocks(k=11, epsilon=" in said(installed, "-c", read, str(stored))
    without = run(None, "-c", read, str(stored))
    assert without.returncode != 0
    assert "no mechanism has this name; there are GRR, " in without.stderr


def test_the_command_takes_it(installed: Path):
    assert "ResidueBlocks" in said(installed, "-m", "dither", "mechanisms")
    assert "ResidueBlocks" not in said(None, "-m", "dither", "mechanisms")
    assert "epsilon" in said(installed, "-m", "dither", "certify", "ResidueBlocks", "k=7", "epsilon=1.0")


CHECK = """
import dither
from dither.testing import check_mechanism
mechanism = dither.registry["residueblocks"] if "residueblocks" in dither.registry else dither.registry["ResidueBlocks"]
assert dither.mechanisms.load(mechanism(k=11, epsilon=0.5).to_dict()) == mechanism(k=11, epsilon=0.5)
found = dither.privacy.audit(mechanism(k=7, epsilon=1.0), trials=20_000, seed=1)
assert found.passed and found.fraction > 0.5, found
print(check_mechanism(mechanism))
"""


@pytest.mark.wide
def test_it_is_certified_audited_and_keeps_the_contract(installed: Path):
    printed = said(installed, "-W", "error", "-c", CHECK)
    assert printed.count("3 of 3") == 16
    assert printed.count("0 of 3") == 2  # it names no sums that honest reports keep within bounds, and reads no axes


def test_importing_dither_does_not_look_at_packages(installed: Path):
    quiet = "import sys, dither; dither.GRR(4, 1.0).randomize([0]); assert 'dither_blocks' not in sys.modules"
    said(installed, "-W", "error", "-c", quiet)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("of_nobody:Nothing", "No module named 'of_nobody'"),
        ("dither_blocks:Nothing", "has no attribute 'Nothing'"),
        ("dither_blocks:checked_count", "it must be a class that derives from dither.Mechanism"),
        ("dither_blocks:TwoLevel", "it must be a class that derives from dither.Mechanism"),
    ],
)
def test_a_broken_entry_point_is_left_out_with_a_warning(tmp_path: Path, place: str, why: str):
    folder = install(tmp_path, {"Broken": place, "ResidueBlocks": "dither_blocks:ResidueBlocks"})
    done = run(folder, "-c", "import dither; print(len(dither.registry), 'ResidueBlocks' in dither.registry)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(len(dither.registry.homes) + 1), "True"]
    assert "mechanism Broken of dither-blocks is left out" in done.stderr
    assert why in done.stderr
    assert done.stderr.count("is left out") == 1
