"""The files that somebody means: a path, a pattern that the shell has left as it is, or a folder.

A file whose own name looks like a pattern is itself. Of a folder, and of a pattern, what tools hide, are still writing,
or mark a folder with (names that begin with a dot or an underscore) is left out.
"""

import glob
import os
from pathlib import Path

from dither.errors import ParameterError


def matched(text: str) -> list[str]:
    """The names that a path or a pattern means, in order."""
    if os.path.lexists(text) or not glob.has_magic(text):
        return [text]
    found = sorted(each for each in glob.glob(text, recursive=True) if not Path(each).name.startswith("_"))
    if not found:
        raise ParameterError(f"no file matches {text}")
    return found


def files_of(text: str, endings: tuple[str, ...], what: str) -> list[str]:
    """The files that a path, a pattern or a folder means; in folders those with one of these endings."""
    return [
        file for name in matched(text) for file in (_inside(name, endings, what) if os.path.isdir(name) else [name])
    ]


def _inside(folder: str, endings: tuple[str, ...], what: str) -> list[str]:
    found = sorted(str(file) for file in Path(folder).rglob("*") if _is_data(file, folder, endings))
    if not found:
        raise ParameterError(f"the folder {folder} has no files of {what}: {', '.join(endings)}")
    return found


def _is_data(file: Path, folder: str, endings: tuple[str, ...]) -> bool:
    hidden = any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    return not hidden and file.name.lower().endswith(endings) and file.is_file()
