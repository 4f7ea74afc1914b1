"""The files that somebody means: a path, a pattern that the shell has left as it is, a folder, or the address of one.

A file whose own name looks like a pattern is itself. Of a folder, and of a pattern, what tools hide, are still writing,
or mark a folder with (names that begin with a dot or an underscore) is left out.

**Addresses.** With a scheme, as in `s3://bucket/people.parquet`, a path is on another filesystem, which pyarrow knows
by its address: `s3`, `gs`, `abfs`, `hdfs`; `file` is this machine. Keys come from where its vendor looks for them, such
as the environment. They may also stand in the address, so it is shown without them. In an address `?` begins options,
and is no part of a pattern.
"""

import fnmatch
import glob
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from dither.core.atomic_write import atomic_path, write_errors
from dither.errors import DitherError, ParameterError, WriteError, require

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import fs

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")
_BUFFER = 1 << 20
_UNREACHED = "cannot be reached: see the address, the network, and the keys in the environment"
_INSTEAD = {
    "s3a": "; it may be s3:// that is meant",
    "s3n": "; it may be s3:// that is meant",
    "http": ": download the file, and name it",
    "https": ": download the file, and name it",
}


@dataclass(frozen=True)
class FilePlace:
    """A file: its name, as it is shown, and where it is found, on this machine or on a filesystem of pyarrow."""

    name: str
    path: str
    filesystem: Any = field(default=None, compare=False)  # not all of them can be hashed

    def open(self) -> io.BufferedReader:
        """The file, for bytes, from its start."""
        if self.filesystem is None:
            return open(self.path, "rb")
        return io.BufferedReader(self.filesystem.open_input_file(self.path), _BUFFER)

    def parquet(self) -> "str | pyarrow.NativeFile":
        """What Parquet is read from, which starts at the end of a file."""
        return self.path if self.filesystem is None else self.filesystem.open_input_file(self.path)

    def mapped(self) -> "pyarrow.NativeFile":
        """The file for Arrow, at any place of it; in memory only as far as it is looked at."""
        if self.filesystem is None:
            return require("pyarrow", "fast").memory_map(self.path)
        return self.filesystem.open_input_file(self.path)

    def read(self) -> bytes:
        """All of it."""
        with self.open() as file:
            return file.read()

    @property
    def version(self) -> tuple[int, int]:
        """How many bytes it has, and when it was changed, in nanoseconds."""
        if self.filesystem is None:
            found = os.stat(self.path)
            return found.st_size, found.st_mtime_ns
        found = self.filesystem.get_file_info(self.path)
        return found.size or 0, found.mtime_ns or 0

    @property
    def node(self) -> str:
        """What is the same for one file by whatever name."""
        if self.filesystem is None:
            found = os.stat(self.path)
            return f"{found.st_dev} {found.st_ino}"
        return f"{self.filesystem.type_name} {self.path}"


@dataclass(frozen=True)
class FolderPlace:
    """A folder to write to, on this machine or on a filesystem of pyarrow. Files appear in it whole or not at all."""

    name: str
    path: str
    filesystem: Any = field(default=None, compare=False)

    @classmethod
    def at(cls, text: str, filesystem: Any = None) -> "FolderPlace":
        """The folder that a path or an address means, whether it is there or not."""
        text = text.rstrip("/") or text
        if filesystem is None and is_address(text):
            filesystem, path = _filesystem(text)
            return cls(shown_path(text), path, None if filesystem.type_name == "local" else filesystem)
        return cls(shown_path(text), text, filesystem)

    def inside(self, folder: str) -> "FolderPlace":
        """A folder in it."""
        return FolderPlace(f"{self.name}/{folder}", f"{self.path}/{folder}", self.filesystem)

    def file(self, name: str) -> FilePlace:
        """A file in it."""
        return FilePlace(f"{self.name}/{name}", f"{self.path}/{name}", self.filesystem)

    def there(self) -> bool:
        """Whether there is such a folder."""
        if self.filesystem is None:
            return os.path.isdir(self.path)
        with self._reached():
            return self.filesystem.get_file_info(self.path).type == require("pyarrow.fs", "fast").FileType.Directory

    def files(self, endings: tuple[str, ...]) -> list[FilePlace]:
        """The files that are directly in it, with one of these endings; none if it is not there."""
        if self.filesystem is None:
            found = sorted(os.listdir(self.path)) if os.path.isdir(self.path) else []
        else:
            with self._reached():
                selector = require("pyarrow.fs", "fast").FileSelector(self.path, allow_not_found=True)
                found = sorted(each.base_name for each in self.filesystem.get_file_info(selector))
        return [self.file(each) for each in found if _is_meant((each,), endings)]

    @contextmanager
    def new_file(self, name: str) -> Iterator[Any]:
        """Where to write a file, a path or an open file: it has its name at the end of the block, unless that fails.

        Elsewhere than on this machine its first name begins with an underscore, so that nobody takes it for a file of
        data; a run that is killed may leave it, and the next one writes over it.
        """
        if self.filesystem is None:
            with write_errors(self.path):
                os.makedirs(self.path, exist_ok=True)
            with atomic_path(f"{self.path}/{name}") as temporary:
                yield str(temporary)
            return
        hidden = f"{self.path}/_{name}.part"
        with self._reached():
            self.filesystem.create_dir(self.path, recursive=True)
            with self.filesystem.open_output_stream(hidden) as stream:
                yield stream
            self.filesystem.move(hidden, f"{self.path}/{name}")

    def remove(self, name: str) -> None:
        """Remove a file in it, if it is there."""
        if self.filesystem is None:
            with write_errors(self.path), suppress(FileNotFoundError):
                os.unlink(f"{self.path}/{name}")
            return
        with self._reached(), suppress(FileNotFoundError):
            self.filesystem.delete_file(f"{self.path}/{name}")

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
            return
        except DitherError:
            raise
        except (OSError, require("pyarrow", "fast").ArrowException):  # which may quote keys
            pass
        raise WriteError(f"{self.name} {_UNREACHED}")


def is_path(given: Any) -> TypeGuard[str | os.PathLike[str]]:
    """Whether this names a place: a file, a pattern, a folder or an address."""
    return isinstance(given, str | os.PathLike)


def one_or_more(given: Any) -> list[Any]:
    """What is given at once: several things in a list, a tuple or a set, or one."""
    return list(given) if isinstance(given, list | tuple | set | frozenset) else [given]


def is_address(text: str) -> bool:
    """Whether a path names its filesystem.

    >>> is_address("s3://bucket/people.parquet"), is_address("people.parquet")
    (True, False)
    """
    return _SCHEME.match(text) is not None


def matched(text: str) -> list[str]:
    """The names that a path or a pattern means, in order."""
    if os.path.lexists(text) or not glob.has_magic(text):
        return [text]
    found = sorted(each for each in glob.glob(text, recursive=True) if not Path(each).name.startswith("_"))
    if not found:
        raise ParameterError(f"no file matches {text}")
    return found


def files_of(text: str, endings: tuple[str, ...], what: str, filesystem: Any = None) -> list[FilePlace]:
    """The files that a path, a pattern, a folder or an address means; in folders those with one of these endings.

    With `filesystem`, one of pyarrow, the path is there.
    """
    if filesystem is not None:
        if not isinstance(filesystem, _known_filesystems()):
            raise ParameterError(
                "filesystem is one of pyarrow.fs; one of fsspec is given as PyFileSystem(FSSpecHandler(filesystem))"
            )
        text = text.rstrip("/") or text
        start = _before_pattern(text)
        return _files_there(filesystem, text, start, (text, start), endings, what)
    if is_address(text) and not os.path.lexists(text):
        start = _before_pattern(text)
        known, folder = _filesystem(start)
        path = folder.rstrip("/") + "/" + text[len(start) :] if start != text else folder
        if known.type_name != "local":
            return _files_there(known, path, folder, (shown_path(text), shown_path(start)), endings, what)
        text = path
    return [
        FilePlace(file, file)
        for name in matched(text)
        for file in (_inside(name, endings, what) if os.path.isdir(name) else [name])
    ]


def _inside(folder: str, endings: tuple[str, ...], what: str) -> list[str]:
    found = sorted(str(file) for file in Path(folder).rglob("*") if _is_data(file, folder, endings))
    if not found:
        raise ParameterError(f"the folder {folder} has no files of {what}: {', '.join(endings)}")
    return found


def _is_data(file: Path, folder: str, endings: tuple[str, ...]) -> bool:
    return _is_meant(file.relative_to(folder).parts, endings) and file.is_file()


def _is_meant(parts: tuple[str, ...], endings: tuple[str, ...]) -> bool:
    hidden = any(part.startswith((".", "_")) for part in parts)
    return not hidden and parts[-1].lower().endswith(endings)


# Other filesystems -----------------------------------------------------------------------------------------------


def shown_path(address: str) -> str:
    """An address without the keys that may stand in it.

    >>> shown_path("s3://key:secret@bucket/people.parquet?region=x"), shown_path("abfs://box@account/people.parquet")
    ('s3://bucket/people.parquet', 'abfs://box@account/people.parquet')
    """
    return re.sub(r"://[^/@]*:[^/]*@", "://", address.partition("?")[0])


def _before_pattern(path: str) -> str:
    """A path as far as the folder in which a pattern begins; all of it, if there is none.

    >>> _before_pattern("s3://bucket/day=*/people.parquet"), _before_pattern("s3://bucket/people.parquet")
    ('s3://bucket/', 's3://bucket/people.parquet')
    """
    magic = re.search(r"[*\[]", path)
    return path if magic is None else path[: path.rfind("/", 0, magic.start()) + 1]


def _known_filesystems() -> "type[fs.FileSystem]":
    return require("pyarrow.fs", "fast").FileSystem


@lru_cache(maxsize=64)  # some ask the network where a bucket is
def _filesystem(address: str) -> tuple["fs.FileSystem", str]:
    """The filesystem of an address, and the path there."""
    arrow, scheme = require("pyarrow", "fast"), address.partition("://")[0].lower()
    try:
        return _known_filesystems().from_uri(address)
    except OSError:
        reason = _UNREACHED + ("; hdfs needs Java and libhdfs" if scheme in ("hdfs", "viewfs") else "")
    except arrow.ArrowNotImplementedError:
        reason = f"is on {scheme}, which this build of pyarrow was made without; install another, or copy the files"
    except Exception:  # whatever it quotes may be a key
        reason = (
            f"is no address that pyarrow knows{_INSTEAD.get(scheme, ', as those of s3, gs, abfs, hdfs and file are')}"
        )
    raise ParameterError(f"{shown_path(address)} {reason}")


def _files_there(
    filesystem: Any, path: str, start: str, names: tuple[str, str], endings: tuple[str, ...], what: str
) -> list[FilePlace]:
    """The files that a path, a pattern, which begins in the folder `start`, or a folder means on a filesystem.

    `names` are those by which the two are shown.
    """
    fs, (shown, shown_start), is_pattern = require("pyarrow.fs", "fast"), names, path != start
    try:
        kind = None if is_pattern else filesystem.get_file_info(path).type
        if kind == fs.FileType.File:
            return [FilePlace(shown, path, filesystem)]
        listed = [] if kind == fs.FileType.NotFound else _listed(filesystem, start)
    except OSError:  # which may quote keys
        kind, listed = None, None
    if listed is None:
        raise ParameterError(f"{shown} {_UNREACHED}")
    if kind == fs.FileType.NotFound:
        raise ParameterError(f"{shown} cannot be read: no such file or directory")
    if is_pattern:
        found = [each for each in listed if _matches(each, path) and not each.rpartition("/")[2].startswith(("_", "."))]
        if not found:
            raise ParameterError(f"no file matches {shown}")
    else:
        found = [each for each in listed if _is_meant(tuple(each[len(start) :].strip("/").split("/")), endings)]
        if not found:
            raise ParameterError(f"the folder {shown} has no files of {what}: {', '.join(endings)}")
    folder, inside = shown_start.rstrip("/"), len(start.rstrip("/"))
    return [FilePlace((folder + each[inside:]).removeprefix("" if folder else "/"), each, filesystem) for each in found]


def _listed(filesystem: Any, folder: str) -> list[str]:
    fs = require("pyarrow.fs", "fast")
    found = filesystem.get_file_info(fs.FileSelector(folder, recursive=True))
    return sorted(each.path for each in found if each.type == fs.FileType.File)


def _matches(path: str, pattern: str) -> bool:
    """Whether a path fits a pattern, in which `**` stands for any folders and `*` for a part of one name."""
    parts, wanted = path.split("/"), pattern.split("/")

    def fits(place: int, which: int) -> bool:
        if which == len(wanted):
            return place == len(parts)
        if wanted[which] == "**":
            return any(fits(later, which + 1) for later in range(place, len(parts) + 1))
        return place < len(parts) and fnmatch.fnmatchcase(parts[place], wanted[which]) and fits(place + 1, which + 1)

    return fits(0, 0)
