"""Files that appear whole or not at all.

A reader never meets half a file, and a run that fails leaves nothing behind: what is written goes to a hidden file in
the same folder, and takes the place of the named one, in one step, when all of it is on the disk.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dither.core.randomness import token
from dither.errors import WriteError

_SHOWN = 40  # characters of a name that its temporary file has too; a name has a greatest length


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A path to write to, which becomes `path` at the end of the block, unless an error leaves it before.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "plan.json") as temporary:
    ...     _ = temporary.write_text("{}")
    ...     sorted(file.name for file in folder.iterdir()) == [temporary.name]
    True
    >>> [file.name for file in folder.iterdir()]
    ['plan.json']
    """
    named = Path(path)
    with write_errors(named):
        if named.is_dir() or not named.name:
            raise IsADirectoryError(0, "it is a folder")
    if named.exists() and not named.is_file():  # a pipe or a device: nothing to replace
        with write_errors(named):
            yield named
        return
    target = Path(os.path.realpath(named))  # a link stays a link, and what it points to is replaced
    temporary = target.with_name(f".{target.name[:_SHOWN]}.{token(4)}.part")
    try:
        with write_errors(named):
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            yield temporary
            _settle(temporary, os.O_RDWR)
            if target.exists():  # who may read it was decided before
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            os.replace(temporary, target)
            with suppress(OSError):  # some systems cannot open a folder
                _settle(target.parent, os.O_RDONLY)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_text(path: str | Path, text: str) -> None:
    """A text file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: str | Path, data: bytes) -> None:
    """A file of bytes, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def _settle(path: Path, flags: int) -> None:
    """Wait until the system has it on the disk: a full disk may be noticed only then."""
    number = os.open(path, flags)  # some systems settle only what may be written to
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def write_errors(target: str | Path) -> Iterator[None]:
    """What the system refuses inside of the block comes out as a `WriteError` that names what is written."""
    try:
        yield
        return
    except (WriteError, BrokenPipeError):  # who reads a pipe may have had enough
        raise
    except OSError as error:
        known = os.strerror(error.errno) if error.errno else ""
        reason = known or error.strerror or "the system refused"
    raise WriteError(f"cannot write {target}: {reason[:1].lower()}{reason[1:]}. No part of it was left behind")
