"""Files that appear whole or not at all.

A reader never meets half a file, and a run that fails leaves nothing behind: what is written goes to a hidden file in
the same folder, and takes the place of the named one, in one step, when all of it is on the disk.

**A run that is killed** can remove nothing, and what it had written may be half of all reports: a draw of the noise
that must not stay beside the next one. So the next run to the same output removes what it finds there. It must not take
the file of a run that is alive, so every run holds a lock on its own, which the system lets go with the process,
however that ends. Two runs to one output at a time do not disturb each other, and the last to end is the one whose
file stays. On a filesystem without locks nobody can tell who is alive: there, a second run takes the place of the
first, which fails with an error.

**Nobody else reads it** before it is whole: the hidden file is its owner's alone (mode 0600, a folder 0700) from its
first moment. When it takes its place it gets the rights of the file that was there, or if there was none, those that
the user's umask gives to new files; with `private` it stays its owner's.
"""

import hashlib
import os
import re
import shutil
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dither.core.randomness import token
from dither.errors import DitherWarning, WriteError

_SHOWN = 40  # characters of a name that its temporary file has too; a name has a greatest length
_OWN = 0o600


@contextmanager
def atomic_path(path: str | Path, *, private: bool = False) -> Iterator[Path]:
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
    with write_errors(named), _temporary(target, _file) as temporary:
        yield temporary
        _settle(temporary, os.O_RDWR)
        os.chmod(temporary, _OWN if private else _final_mode(target))
        os.replace(temporary, target)
        with suppress(OSError):  # some systems cannot open a folder
            _settle(target.parent, os.O_RDONLY)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """A place for a new folder, not there yet, which becomes `path` at the end of the block, unless an error leaves it.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "reports"
    >>> with atomic_folder(target) as temporary:
    ...     temporary.mkdir()
    ...     _ = (temporary / "1.parquet").write_text("")
    >>> [file.name for file in target.iterdir()]
    ['1.parquet']
    """
    target = Path(os.path.realpath(path))
    with write_errors(path), _temporary(target, _folder) as hidden:
        yield hidden / target.name
        os.rename(hidden / target.name, target)


def write_text(path: str | Path, text: str) -> None:
    """A text file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: str | Path, data: bytes, *, private: bool = False) -> None:
    """A file of bytes, whole or not at all."""
    with atomic_path(path, private=private) as temporary:
        temporary.write_bytes(data)


# The hidden file -----------------------------------------------------------------------------------------------------


@contextmanager
def _temporary(target: Path, make: Callable[[Path], int]) -> Iterator[Path]:
    """Something hidden beside the target, locked; gone at the end, unless it has taken its place."""
    remove_abandoned(target)
    while True:
        place = _hidden(target)
        number = make(place)
        if locked(number) is not False and place.exists():
            break
        os.close(number)  # a run that begins at this very moment took it for abandoned
        _discard(place)
    try:
        yield place
    finally:
        _discard(place)
        os.close(number)


def _file(place: Path) -> int:
    return os.open(place, os.O_CREAT | os.O_EXCL | os.O_RDWR, _OWN)


def _folder(place: Path) -> int:
    place.mkdir(mode=0o700)
    return os.open(place, os.O_RDONLY)


def _hidden(target: Path) -> Path:
    return target.with_name(f".{_shown(target.name)}.{token(4)}.part")


def _shown(name: str) -> str:
    """A name, or of a long one its beginning and a hash of all of it."""
    return name if len(name) <= _SHOWN else f"{name[: _SHOWN - 9]}~{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"


def remove_abandoned(target: Path) -> None:
    """Remove what runs that were killed have left of the target; what cannot be removed is told."""
    hidden = re.compile(rf"\.{re.escape(_shown(target.name))}\.[0-9a-f]{{8}}\.part")
    names: list[str] = []
    with suppress(OSError):  # a folder that is not there, or may be written to and not be looked at
        names = [name for name in os.listdir(target.parent) if hidden.fullmatch(name)]
    for place in map(target.with_name, names):
        if _discard_abandoned(place):
            warnings.warn(
                f"{place} was left by a run that was stopped, may hold its reports, and cannot be removed by this "
                "user: remove it, since two sets of reports tell more than one",
                DitherWarning,
                stacklevel=4,
            )


def _discard_abandoned(place: Path) -> bool:
    """Remove it, unless a run that is alive writes it; whether it stays although nothing shows that one does."""
    try:
        number = os.open(place, os.O_RDONLY if place.is_dir() else os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:  # of another user
        return True
    try:
        if locked(number) is False:
            return False
        _discard(place)
        return place.exists()
    finally:
        os.close(number)


def _discard(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place, ignore_errors=True)
    with suppress(OSError):
        place.unlink()


def locked(number: int) -> bool | None:
    """Lock an open file, or folder, until it is closed: False if another has it, None if the system has no locks."""
    try:
        import fcntl

        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None


def _final_mode(target: Path) -> int:
    """Who may read it was decided before; of a new file the umask decides.

    The system tells the umask only to those who set it, for all threads; so an empty file shows it.
    """
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    sample = _hidden(target)
    number = os.open(sample, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        return stat.S_IMODE(os.fstat(number).st_mode)
    finally:
        os.close(number)
        sample.unlink(missing_ok=True)  # a run that begins right now may have taken it for abandoned


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
