"""What is said about versions in several places is the same everywhere; a wheel works in a fresh environment."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import dither
from scripts_by_path import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
SECTIONS = ["Security", "Added", "Changed", "Deprecated", "Removed", "Fixed"]


def test_the_citation_is_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == dither.__version__
    assert cited["license"] == PROJECT["license"]
    assert {"cff-version", "message", "title", "authors"} <= set(cited)


def test_the_changelog_has_its_form():
    versions = re.findall(r"^## (\d+\.\d+\.\d+)(?: \((?:unreleased|\d{4}-\d\d-\d\d)\))?$", CHANGES, re.MULTILINE)
    assert versions[0] == dither.__version__
    assert len(versions) == len(re.findall(r"^## ", CHANGES, re.MULTILINE))
    assert versions == sorted(versions, key=lambda text: tuple(map(int, text.split("."))), reverse=True)
    for text in re.split(r"^## ", CHANGES, flags=re.MULTILINE)[1:]:
        sections = re.findall(r"^### (.+)$", text, re.MULTILINE)
        assert sections == [each for each in SECTIONS if each in sections], "each once, in this order"


def test_the_policy_names_this_version():
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert f"the latest minor version ({'.'.join(dither.__version__.split('.')[:2])})" in policy
    assert PROJECT["requires-python"].removeprefix(">=") in policy


def test_every_python_that_is_promised_is_tried():
    promised = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert promised[0] == PROJECT["requires-python"].removeprefix(">=")
    assert WORKFLOW["jobs"]["linux"]["strategy"]["matrix"]["python"] == promised
    systems = WORKFLOW["jobs"]["client"]["strategy"]["matrix"]["system"]
    assert {name.partition("-")[0] for name in systems} == {"macos", "windows"}


def test_workflows_run_what_there_is():
    lines = [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in lines:
        for path in re.findall(r"(?:tests/\S+|\.ci/\S+)", line):
            assert (ROOT / path).exists(), path
        for target in re.findall(r"\bmake (\w+)", line):
            assert re.search(rf"^{target}:", targets, re.MULTILINE)
        for extra in re.findall(r"\[(\w+)\]", line):
            assert extra in PROJECT["optional-dependencies"]


def test_files_of_a_release_are_in_the_source_distribution():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    for name in settings["targets"]["sdist"]["include"]:
        assert (ROOT / name).exists()


@pytest.mark.wide
def test_the_base_install_works_in_a_fresh_environment(tmp_path: Path):
    python = tmp_path / "fresh" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "fresh")], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(ROOT)]
    made = subprocess.run(install, capture_output=True, text=True, check=False)
    if made.returncode and re.search("Could not find a version|Connection|Temporary failure", made.stderr):
        pytest.skip("no package index can be reached, so nothing can be installed")
    assert made.returncode == 0, made.stderr
    alone = {"PATH": "/usr/bin:/bin", "PYTHONUTF8": "1"}
    found = subprocess.run(
        [str(python), str(ROOT / "tests/smoke.py")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=alone,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "fine: dither demo names its extra" in found.stdout
