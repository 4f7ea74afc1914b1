"""Check the types of the pages' examples, strictly, as those of a user's script: `python docs/snippets.py [PAGE...]`.

The `python` blocks of a page are one module, each on the lines that it has on the page, so that an error names page and
line. Pyright checks them in a folder of their own, where dither is what it is for a user: a package that is installed,
with a `py.typed`, of which only what is declared counts. A name that does not exist, an argument of the wrong type and
a result whose type is not known enough to be used fail here before a reader meets them.

`<!-- untyped -->` on a line of its own before a block lets its errors pass: its mistake is the point of it, or what it
uses is known by its name only (a mechanism of the registry).

What other packages do not declare (pandas, pyarrow, torch, scikit-learn) is not ours to mend: unknown types are let
pass. So are pages that leave out what a library would not: hints of their own small functions.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"(?P<untyped>^<!-- untyped -->\n+)?^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
RULES: dict[str, object] = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "reportMissingParameterType": "none",
    "reportMissingTypeStubs": "none",
    "reportUnknownArgumentType": "none",
    "reportUnknownLambdaType": "none",
    "reportUnknownMemberType": "none",
    "reportUnknownParameterType": "none",
    "reportUnknownVariableType": "none",
}


class Module(NamedTuple):
    """The python blocks of a page as one module, every line at its place, and the lines that may be wrong."""

    code: str
    untyped: set[int]


def module(text: str) -> Module:
    """What a page is for a type checker."""
    lines, untyped = [""] * (text.count("\n") + 1), set[int]()
    for block in FENCE.finditer(text):
        code = block["code"].splitlines()
        start = text.count("\n", 0, block.start("code"))
        lines[start : start + len(code)] = code
        if block["untyped"]:
            untyped |= {*range(start, start + len(code))}
    return Module("\n".join(lines), untyped)


def errors(pages: dict[str, str]) -> list[str]:
    """What is wrong with the types of pages, given by their names."""
    with tempfile.TemporaryDirectory() as place:
        files = {Path(place, re.sub(r"\W", "_", name) + ".py").resolve(): name for name in pages}
        modules = {file: module(pages[name]) for file, name in files.items()}
        for file, made in modules.items():
            file.write_text(made.code)
        Path(place, "pyrightconfig.json").write_text(json.dumps(RULES))
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "--project", place],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
        )
    try:
        found = json.loads(done.stdout)["generalDiagnostics"]
    except (ValueError, KeyError):
        raise SystemExit(f"pyright did not run:\n{done.stdout}{done.stderr}") from None
    places = [(Path(each["file"]).resolve(), each["range"]["start"]["line"]) for each in found]
    return [
        f"{files[file]}:{line + 1}: {each['message']} ({each.get('rule', 'syntax')})"
        for each, (file, line) in zip(found, places, strict=True)
        if each["severity"] == "error" and line not in modules[file].untyped
    ]


def main() -> None:
    """Check pages, and say what is wrong with them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    pages = {os.path.relpath(page, ROOT): page.read_text() for page in parser.parse_args().pages}
    found = errors(pages)
    print(*found, f"{len(found)} errors in the types of {len(pages)} pages", sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
