"""Type the commands of a page, as a reader would: `python docs/follow.py docs/tutorial.md --expect report.html`.

All `sh` blocks of the page run in order, in one shell, in an empty folder, which has a copy of the project in `dither`
(what a clone would have). Each line is shown before it is run. The first command that fails ends it. The page makes its
own virtual environment, so nothing of this one is used: this program needs Python and bash, and no dither.

`<!-- needs java 17 -->` on a line of its own before a block says that the block may be left out: it runs where there is
such a Java, and else it is said, loudly, that it was left out. `--expect` names a page that must have come out.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(?:<!-- needs (?P<need>\w+) (?P<least>\d+) -->\n+)?```sh\n(?P<code>.*?)^```$", re.M | re.S)
_NOT_COPIED = (".venv", ".git", "site", "dither-demo*", "__pycache__", ".*_cache", ".hypothesis")
_VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")


class Block(NamedTuple):
    """Commands, the line of the page where they begin, and what they cannot do without."""

    code: str
    line: int
    need: str | None
    least: int


def blocks(text: str) -> Iterator[Block]:
    """The `sh` blocks of a page."""
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        yield Block(found["code"], line, found["need"], int(found["least"] or 0))


def left_out(block: Block) -> str | None:
    """Why a block cannot be run here, if so."""
    if block.need is None:
        return None
    if block.need != "java":
        raise SystemExit(f"line {block.line}: what is {block.need}? Blocks can need java, and nothing else")
    found = java()
    if found is None:
        return f"there is no Java on this machine, and these commands need Java {block.least}"
    return None if found >= block.least else f"this machine has Java {found}, and these commands need {block.least}"


def java() -> int | None:
    """The version of the machine's Java."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which("java", path=str(Path(home, "bin")) if home else None) or shutil.which("java")
    if command is None:
        return None
    said = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(version[1]) if version else None


def script(page: str, text: str) -> str:
    """One shell script of all blocks; it shows every line before it runs it, and names the place where it stops."""
    lines = ["set -euo pipefail", "place=start", "trap 'echo; echo \"FAILED: $place\" >&2' ERR"]
    for block in blocks(text):
        place = f"{page}, line {block.line}"
        reason = left_out(block)
        if reason:
            lines.append(f"printf '\\n=== LEFT OUT: %s ===\\n' {_quoted(f'{place}: {reason}')}")
            continue
        lines.append(f"place={_quoted(place)}")
        for command in commands(block.code):
            lines += [f"printf '\\n$ %s\\n' {_quoted(command)}", command]
    return "\n".join(lines) + "\n"


def commands(code: str) -> Iterator[str]:
    """The commands of a block: a line each, and those below it that belong to it."""
    lines: list[str] = []
    for line in code.splitlines():
        if not line.strip() and not lines:
            continue
        lines.append(line)
        whole = "\n".join(lines)
        if not line.endswith("\\") and _complete(whole):
            yield whole
            lines = []
    if lines:
        yield "\n".join(lines)


def _complete(text: str) -> bool:
    """Whether bash would run this, or wait for more, as after an open quote or `do`."""
    checked = subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False)  # noqa: S603, S607
    return checked.returncode == 0


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class _Whole(HTMLParser):
    """Whether every element is closed, and whether anything comes from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in _VOID:
            self.open.append(tag)
        for name, value in attrs:
            loads = name in ("src", "srcset") or (name == "href" and tag == "link")
            if loads and not (value or "").startswith(("data:", "#")):
                self.wrong.append(f"<{tag} {name}> is loaded from elsewhere")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")


def wrong_with(path: Path) -> list[str]:
    """What is wrong with an HTML page that should stand by itself."""
    if not path.is_file():
        return [f"{path.name} was not written"]
    text = path.read_text(encoding="utf-8")
    reader = _Whole()
    reader.feed(text)
    reader.close()
    missing = [f"it has no <{tag}>" for tag in ("html", "head", "title", "body", "svg") if tag not in reader.seen]
    ending = [] if text.rstrip().endswith("</html>") else ["it does not end with </html>"]
    return [*reader.wrong, *(f"<{tag}> is not closed" for tag in reader.open), *missing, *ending]


def follow(page: Path, expect: str | None) -> int:
    """Run a page in a new folder; the exit code."""
    shown = page.resolve().relative_to(ROOT).as_posix()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="follow-") as folder:
        shutil.copytree(ROOT, Path(folder, "dither"), ignore=shutil.ignore_patterns(*_NOT_COPIED))
        env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
        env |= {"COLUMNS": "100", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_PROGRESS_BAR": "off"}
        text = script(shown, page.read_text(encoding="utf-8"))
        code = subprocess.run(["bash", "-c", text], cwd=folder, env=env, check=False).returncode  # noqa: S603, S607
        if code:
            print(f"\n{shown}: a command failed with exit code {code}", file=sys.stderr)
            return code
        for name in [expect] if expect else []:
            found = sorted(Path(folder).rglob(name))
            faults = wrong_with(found[0]) if found else [f"{name} was not written"]
            if faults:
                print(f"\n{shown}: {name}: {'; '.join(faults)}", file=sys.stderr)
                return 1
            size = found[0].stat().st_size
            print(f"\n{shown}: {name} is there, {size:,} bytes, a whole page that needs nothing else")
    print(f"{shown}: every command worked, in {time.monotonic() - began:.0f} seconds")
    return 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Type the commands of a page, in a new folder.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--expect", metavar="NAME", help="an HTML page that must have come out, whole")
    chosen = parser.parse_args()
    return follow(chosen.page, chosen.expect)


if __name__ == "__main__":
    sys.exit(main())
