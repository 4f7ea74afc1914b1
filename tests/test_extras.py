"""Every refusal for want of a package names an extra that there is, and that brings this package."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from dither.errors import MissingExtraError, require

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = [*SOURCES, ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "tests").rglob("*.py"))]
DISTRIBUTIONS = {"sklearn": "scikit-learn"}  # by the module, where it has another name
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def packages(extra: str) -> Iterator[str]:
    """All that an extra brings, by the extras within it too."""
    for line in EXTRAS[extra]:
        name = re.match(r"[\w.-]+", line)
        assert name is not None, line
        if name[0] == "dither":
            within = re.search(r"\[(.*)\]", line)
            assert within is not None, line
            for part in within[1].split(","):
                yield from packages(part.strip())
        else:
            yield name[0].lower()


def calls(source: str) -> Iterator[tuple[int, list[ast.expr]]]:
    """Each call of `require`, by its line and its arguments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = node.func
            if getattr(called, "id", getattr(called, "attr", "")) == "require":
                yield node.lineno, node.args


def wrong(source: str) -> list[str]:
    """What is wrong with the calls in a source."""
    found = []
    for line, arguments in calls(source):
        texts = [each.value for each in arguments if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if len(texts) != 2:
            found.append(f"line {line}: module and extra must be written out, so that they can be looked at")
            continue
        module, extra = texts
        top = module.partition(".")[0]
        if extra not in EXTRAS:
            found.append(f"line {line}: there is no extra {extra}")
        elif DISTRIBUTIONS.get(top, top) not in packages(extra):
            found.append(f"line {line}: the extra {extra} does not bring {top}")
    return found


def test_each_module_that_is_required_comes_with_the_extra_that_is_named():
    found = {str(file.relative_to(ROOT)): wrong(file.read_text(encoding="utf-8")) for file in SOURCES}
    assert {file: problems for file, problems in found.items() if problems} == {}
    assert sum(1 for file in SOURCES for _ in calls(file.read_text(encoding="utf-8"))) > 100


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ('require("scipy.special", "quick")', "there is no extra quick"),
        ('errors.require("polars", "fast")', "the extra fast does not bring polars"),
        ('require(name, "fast")', "must be written out"),
        ('require("sklearn", "learn")', None),
        ('require("pyarrow", "papers")', None),
    ],
)
def test_a_wrong_extra_would_be_noticed(source, problem):
    found = wrong(source)
    assert (found == []) if problem is None else (problem in found[0])


def test_every_extra_that_is_named_anywhere_exists():
    for page in PAGES:
        for named in re.findall(r"dither\[([\w, ]+)\]", page.read_text(encoding="utf-8")):
            unknown = [extra for extra in named.split(",") if extra.strip() not in EXTRAS]
            assert not unknown, f"{page.relative_to(ROOT)} names {unknown}"


# What `require` says ------------------------------------------------------------------------------------------------


def test_a_package_that_is_missing():
    with pytest.raises(MissingExtraError, match=r"^this needs nowhere_to_be_found: pip install 'dither\[fast\]'$"):
        require("nowhere_to_be_found.part", "fast")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("import nowhere_to_be_found", "this needs half_there, whose nowhere_to_be_found is missing: pip install"),
        (
            "raise ImportError('needs NumPy 1')",
            r"half_there, which cannot be imported \(needs NumPy 1\): pip install --",
        ),
        ("raise ImportError", r"half_there, which cannot be imported \(ImportError\): pip install --upgrade"),
    ],
)
def test_a_package_that_is_there_and_does_not_work(tmp_path, monkeypatch, content, told):
    (tmp_path / "half_there.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError, match=told):
        require("half_there", "fast")
    assert "half_there" not in sys.modules


def test_a_package_that_is_there():
    assert isinstance(require("json.decoder", "fast"), ModuleType)
