"""`dither doctor`: what is there, what is missing for what, and when that is an error."""

import re
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from cli.cases import done, facts, run
from dither.cli import doctor

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The metadata of a wheel that is built from this checkout, whatever was installed here and when; no programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    lines = list(PROJECT["dependencies"])
    for extra, needed in PROJECT["optional-dependencies"].items():
        for line in needed:
            package, _, marker = (part.strip() for part in line.partition(";"))
            lines.append(
                f"{package}; ({marker}) and extra == '{extra}'" if marker else f"{package}; extra == '{extra}'"
            )
    own = metadata.requires
    monkeypatch.setattr(metadata, "requires", lambda name: lines if name == "dither" else own(name))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Say which versions there are; None for none."""
    own = metadata.version

    def change(**versions: str | None) -> None:
        def version(name: str) -> str:
            found = versions.get(name.replace("-", "_"), "unchanged")
            if found is None:
                raise metadata.PackageNotFoundError(name)
            return own(name) if found == "unchanged" else found

        monkeypatch.setattr(metadata, "version", version)

    return change


def test_every_extra_has_a_purpose():
    assert set(doctor.PURPOSES) | set(doctor.DEVELOPMENT) == set(PROJECT["optional-dependencies"])
    assert set(doctor.requirements()) == {"", *PROJECT["optional-dependencies"]}


def test_extras_bring_what_is_within_them():
    needed = {extra: {each.name for each in found} for extra, found in doctor.requirements().items()}
    assert needed[""] == {"click", "cryptography", "lazy-loader", "msgspec", "numpy", "rich"}
    assert needed["pandas"] == {"pandas"}
    assert needed["fast"] < needed["serve"] < needed["demo"]
    assert "dither" not in needed["papers"]


@pytest.mark.parametrize(
    ("line", "extra", "name", "versions"),
    [
        ("numpy>=2.0", "", "numpy", ">=2.0"),
        ("lazy_loader >=0.6", "", "lazy-loader", ">=0.6"),
        ("numpy (>=2.0,<3)", "", "numpy", ">=2.0,<3"),
        ('psycopg[binary]>=3.2 ; extra == "postgres"', "postgres", "psycopg", ">=3.2"),
        ("a>=1; (sys_platform != 'nowhere') and extra == 'serve'", "serve", "a", ">=1"),
        ("a>=1; sys_platform == 'nowhere' and extra == 'serve'", None, "", ""),
        ("???", None, "", ""),
    ],
)
def test_lines_of_metadata(line, extra, name, versions):
    found = doctor.Requirement.parsed(line)
    assert (found is None) == (extra is None)
    if found is not None:
        assert (found[0], found[1].name, found[1].versions) == (extra, name, versions)


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("2.0", ">=2", True),
        ("1.26.4", ">=2.0", False),
        ("10.0", ">=9.1", True),
        ("2.13.0+cpu", "==2.13.0", True),
        ("2.13.1", "==2.13.0", False),
        ("1.8", "<1.8", False),
        ("1.7.9", ">=1.6,<1.8", True),
        ("1.7.9", ">=1.6, !=1.7.9", False),
        ("1.4.5", "~=1.4.2", True),
        ("1.5", "~=1.4.2", False),
        ("3", "", True),
    ],
)
def test_versions(version, wanted, fits):
    assert doctor.satisfies(version, wanted) == fits


def test_a_sound_installation_passes():
    found = done("doctor")
    assert "reports were made, counted and estimated" in found.stderr
    for extra in doctor.PURPOSES:
        assert re.search(rf"^  {extra} ", found.stdout, re.MULTILINE)
    assert "\x1b" not in found.output


def test_an_extra_that_is_missing_is_no_error_unless_it_is_named(installed):
    installed(sqlglot=None, cryptography="50.0.0")
    told = done("doctor")
    assert re.search(r"query\s+lacks .+\s+conditions in", told.stdout)
    assert "an extra is installed by its name: pip install 'dither[" in told.stderr
    found = run("doctor", "query")
    assert found.exit_code == 1
    assert "wrong: sqlglot is missing\n" in found.stderr
    assert found.stderr.endswith("pip install --upgrade 'dither[query]'\n")
    assert run("doctor", "seal").exit_code == 0


def test_nothing_of_an_extra(installed):
    installed(pandas=None)
    assert re.search(r"pandas\s+missing\s+results as data frames", done("doctor").stdout)


def test_a_base_that_is_too_old_is_an_error(installed):
    installed(numpy="1.26.4")
    found = run("doctor")
    assert found.exit_code == 1
    assert "wrong: numpy is 1.26.4, and should be >=2.0\n" in found.stderr


def test_a_package_of_another_packages_extra(installed):
    pytest.importorskip("psycopg")
    installed(psycopg_binary=None)
    problems = facts("doctor")["extras"]["postgres"]["problems"]
    assert "psycopg-binary is missing, of psycopg[binary]" in problems


def test_a_package_that_does_not_import(monkeypatch):
    pytest.importorskip("pandas")
    own = doctor.import_module

    def broken(name: str) -> object:
        if name == "pandas":
            raise ImportError("numpy.core is not there\nand more")
        return own(name)

    monkeypatch.setattr(doctor, "import_module", broken)
    assert run("doctor").exit_code == 0  # nobody has asked for it, and to import all takes long
    found = run("doctor", "pandas")
    assert found.exit_code == 1
    assert "cannot be imported: ImportError, numpy.core is not there\n" in found.stderr


def test_reports_that_cannot_be_made(monkeypatch):
    from dither.mechanisms import GRR

    monkeypatch.setattr(GRR, "randomize", lambda self, values: 1 / 0)
    found = run("doctor")
    assert found.exit_code == 1
    assert "wrong: no report can be made: ZeroDivisionError" in found.stderr


def test_an_extra_that_there_is_not():
    found = run("doctor", "fats")
    assert (found.exit_code, found.stdout) == (1, "")
    assert "there are fast, pandas, plot" in found.stderr


def test_facts(installed):
    installed(sqlglot=None)
    found = facts("doctor")
    assert found["sound"]
    assert "sqlglot is missing" in found["extras"]["query"]["problems"]
    assert not found["extras"]["query"]["complete"]
    assert found["extras"]["pandas"]["for"]
    assert set(found["programs"]) == {"Java", "node", "chromium", "PostgreSQL"}
    assert not set(doctor.DEVELOPMENT) & set(found["extras"])


def test_programs_that_there_are_not(tmp_path):
    for name, script in {"node": "echo v20.1.2", "chromium": "exit 3"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    programs = {each.name: each for each in doctor.found_programs()}
    assert programs["Java"].version is None
    assert programs["node"].version == "20.1.2"
    assert programs["chromium"].problem == "chromium does not run"
    assert done("doctor").exit_code == 0


def test_a_java_that_is_too_old(monkeypatch):
    monkeypatch.setattr("dither.engines.spark_session.java", lambda: ("java", 11))
    java = next(iter(doctor.found_programs()))
    assert java.problem == "Java 11, and Spark needs 17"
