"""The documentation runs: its examples, its commands, its links.

- A `python` block is executed. The blocks of one page run in order and share their names, in an empty directory.
- A `text` block that directly follows a `python` block must be what that block printed. One that directly follows a
  `sh` block with `dither` commands must be what they print, 80 columns wide. There, a line that is only `[...]` stands
  for any lines, and `[...]` within a line for anything in that line; all else is compared to the letter.
- `<!-- varies -->` before a `text` block says that its numbers differ from run to run: it is shown, not compared.
- `make` targets, links, anchors and the navigation must exist, and every mechanism must be described.

`python tests/test_docs.py` runs all pages (or those that are named) and writes what they print into them. Read the
difference before you keep it.
"""

import contextlib
import io
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import dither
from dither.cli import main
from marks import wide

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]

VARIES = "<!-- varies -->"
LEFT_OUT = "[...]"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name(page: Path) -> str:
    """The page as a reader would call it."""
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its lines, where it starts, and the span of the output shown under it, if any."""

    language: str
    code: str
    line: int
    shown: slice | None = None

    @property
    def commands(self) -> list[list[str]]:
        """The lines of a `sh` block as words."""
        lines = self.code.splitlines() if self.language == "sh" else []
        return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def blocks(text: str) -> Iterator[Block]:
    """Every fenced block of a page, with the output that directly follows it and does not vary."""
    found = list(FENCE.finditer(text))
    for fence, after in zip_longest(found, found[1:]):
        follows = after is not None and after[1] == "text" and not text[fence.end() : after.start()].strip()
        shown = slice(after.start(2), after.end(2)) if after is not None and follows else None
        yield Block(fence[1], fence[2], text.count("\n", 0, fence.start()) + 1, shown)


def run(text: str, where: str) -> Iterator[tuple[Block, str]]:
    """Run a page; every block that shows output, with what it printed."""
    names: dict[str, Any] = {"__name__": "__docs__"}
    with dither.registry.restored(), dither.questions.restored():  # a page may define some, which are its own
        for block in blocks(text):
            if block.language == "python":
                printed = run_python(block, names, where)
            elif block.language == "sh" and block.shown:
                printed = run_commands(block, where)
            else:
                continue
            if block.shown:
                yield block, trimmed(printed)


def run_python(block: Block, names: dict[str, Any], where: str) -> str:
    """What a block prints. Tracebacks name the page and its line."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * block.line + block.code, where, "exec"), names)  # noqa: S102
    return printed.getvalue()


def run_commands(block: Block, where: str) -> str:
    """What the commands print on a terminal that is 80 columns wide and has no colours."""
    terminal = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "FORCE_COLOR": None, "TTY_COMPATIBLE": None}
    printed = ""
    for command, *words in block.commands:
        assert Path(command).name == "dither", f"{where}, line {block.line}: only `dither` can be run here"
        printed += CliRunner(env=terminal).invoke(main, words, prog_name="dither").output
    return printed


def trimmed(text: str) -> str:
    """Without spaces at the ends of lines, and without empty lines around."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"


def agree(block: Block, shown: str, printed: str) -> bool:
    """Whether a page shows what was printed; of what commands print it may leave something out, and says where."""
    if block.language != "sh":
        return shown == printed
    lines = ((line, ".*".join(map(re.escape, line.split(LEFT_OUT)))) for line in shown.splitlines())
    pattern = "".join(r"(?:.*\n)*" if line == LEFT_OUT else rf"{literal}\n" for line, literal in lines)
    return re.fullmatch(pattern, printed) is not None


def check(text: str, where: str) -> None:
    """Every output on the page is what was printed."""
    for block, printed in run(text, where):
        assert block.shown
        shown = trimmed(text[block.shown])
        assert agree(block, shown, printed), f"{where}, line {block.line}, printed\n{printed}\nand shows\n{shown}"


def refreshed(text: str, where: str) -> str:
    """The page with the outputs that it prints now."""
    for block, printed in reversed(list(run(text, where))):
        assert block.shown
        if not agree(block, trimmed(text[block.shown]), printed):
            text = text[: block.shown.start] + printed + text[block.shown.stop :]
    return text


# Pages that simulate or train for seconds; the wide tests run them too.
LONG = {
    *("attack", "categorical", "choosing-a-mechanism", "choosing-epsilon", "cli", "distribution", "dpsgd", "federated"),
    *("flower", "geodp", "keyvalue", "local-models", "planning", "privacy", "unitvector"),
}
RUN = [wide(page) if page.stem in LONG else page for page in PAGES]


@pytest.mark.parametrize("page", RUN, ids=name)
def test_page_runs_and_shows_what_it_prints(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    check(page.read_text(), name(page))


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_make_targets_exist(page: Path):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in blocks(page.read_text()):
        for words in block.commands:
            if words[:1] == ["make"]:
                assert set(words[1:]) <= targets, f"{name(page)}, line {block.line}"


def links(text: str) -> list[str]:
    """What the prose of a page links to, other sites left out."""
    targets = [one or other for one, other in LINK.findall(FENCE.sub("", text))]
    return [target for target in targets if not re.match(r"\w+:", target)]


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page."""
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in HEADING.findall(text)}


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_links(page: Path):
    for link in links(page.read_text()):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)} links to {link}"
        assert not anchor or anchor in anchors(target.read_text()), f"{name(page)} links to {link}"


def navigation(entry: Any) -> Iterator[str]:
    """The pages of a navigation tree."""
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from navigation(part)


def test_every_page_can_be_found():
    listed = list(navigation(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    decided = {f"decisions/{link}" for link in links((DOCS / "decisions" / "index.md").read_text())}
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert len(listed) == len(set(listed))
    assert set(listed) | decided == pages


@pytest.mark.parametrize("mechanism", list(dither.registry))
def test_every_mechanism_is_described(mechanism: str):
    homes = [ROOT / "README.md"]
    if dither.registry[mechanism].family == "categorical":
        homes.append(DOCS / "categorical.md")
    for page in homes:
        assert re.search(rf"`{mechanism}\b", page.read_text()), f"{name(page)} does not mention {mechanism}"


# The checks themselves must be able to fail.


def page_of(*parts: tuple[str, str], between: str = "\n") -> str:
    """A page of fenced blocks."""
    return between.join(f"```{language}\n{text}\n```\n" for language, text in parts)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (page_of(("python", "print(1)"), ("text", "2")), AssertionError),
        (page_of(("python", "print(1)"), ("text", "")), AssertionError),
        (page_of(("python", "print(123)"), ("text", "1...")), AssertionError),
        (page_of(("python", "pass"), ("text", "1")), AssertionError),
        (page_of(("python", "x = 1"), ("python", "assert x == 2")), AssertionError),
        (page_of(("python", "1 / 0")), ZeroDivisionError),
        (page_of(("python", "x =")), SyntaxError),
        (page_of(("sh", "dither --version"), ("text", "dither, version of yore")), AssertionError),
        (page_of(("sh", "dither --version\ndither --version"), ("text", "dither, version")), AssertionError),
        (page_of(("sh", "dither --version"), ("text", "dither, ...")), AssertionError),
        (page_of(("sh", "dither --version"), ("text", "...")), AssertionError),
        (page_of(("sh", "dither --version\ndither --version"), ("text", "dither, [...]")), AssertionError),
        (page_of(("sh", "dither --version"), ("text", "dither, [...]\ndither, [...]")), AssertionError),
        (page_of(("sh", "dither --version"), ("text", "dither, [...]\n[...]\nand more")), AssertionError),
        (page_of(("python", "print(1)\nprint(2)"), ("text", "1\n[...]")), AssertionError),
        (page_of(("sh", "ls"), ("text", "[...]")), AssertionError),
    ],
)
def test_a_wrong_block_is_caught(text: str, error: type[Exception]):
    with pytest.raises(error):
        check("Words.\n\n" + text, "a page")


@pytest.mark.parametrize(
    "text",
    [
        page_of(("python", "x = 1"), ("python", "print(x)\nprint()"), ("text", "1  ")),
        page_of(("python", "print(1)"), ("text", "2"), between=f"\n{VARIES}\n"),
        page_of(("python", "print(1)"), ("text", "2"), between="\nsomething else\n"),
        page_of(("sh", "dither --version"), ("text", "dither, [...]")),
        page_of(("sh", "dither --version"), ("text", "[...]")),
        page_of(("sh", "dither --version\ndither --version"), ("text", "[...]\ndither, version [...]")),
        page_of(("sh", "dither --help"), ("text", "Usage: dither [OPTIONS] COMMAND [ARGS]...\n[...]")),
        page_of(("sh", "ls")),
    ],
)
def test_a_right_block_passes(text: str):
    check(text, "a page")
    assert refreshed(text, "a page") == text


def test_dots_that_are_printed_stand_for_themselves():
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["--help"], prog_name="dither").output.strip("\n")
    check(page_of(("sh", "dither --help"), ("text", shown)), "a page")
    lines = shown.splitlines()
    dotted = next(i for i, line in enumerate(lines) if line.startswith("  ") and line.endswith("..."))
    with pytest.raises(AssertionError):  # a command less
        check(
            page_of(("sh", "dither --help"), ("text", "\n".join(lines[: dotted + 1] + lines[dotted + 2 :]))), "a page"
        )


def test_a_page_is_refreshed():
    stale = page_of(("python", "print(1)"), ("text", "2"), ("python", "print(3)"), ("text", "\n"))
    assert refreshed(stale, "a page") == page_of(
        ("python", "print(1)"), ("text", "1"), ("python", "print(3)"), ("text", "3")
    )


def test_names_do_not_travel_between_pages():
    check(page_of(("python", "travelled = 1")), "a page")
    with pytest.raises(NameError):
        check(page_of(("python", "travelled")), "another page")


def test_links_and_anchors_are_found():
    text = "[a](b.md) [c](d.md#e-f) [g](https://h.i)\n[j]: k.md\n" + page_of(("python", "[l](m.md)"))
    assert links(text) == ["b.md", "d.md#e-f", "k.md"]
    assert anchors("# One\n\n## Two words, `and` 3\n") == {"one", "two-words-and-3"}


def test_blocks_know_their_line():
    assert [(block.language, block.line) for block in blocks("a\n\n" + page_of(("sh", "b"), ("", "c")))] == [
        ("sh", 3),
        ("", 7),
    ]


if __name__ == "__main__":
    for written in [Path(page).resolve() for page in sys.argv[1:]] or PAGES:
        with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
            now = refreshed(written.read_text(), name(written))
        written.write_text(now)
