"""Files of reports, cut into pieces that can be tallied one by one, in any order and anywhere.

A piece is a row group of a Parquet file or a record batch of an Arrow file: large enough to be worth a task, small
enough that a run which was stopped loses little. Every file has an identity: the random number that dither wrote into
it, or else its place, size and time, where other tools have dropped that. Two files of one identity are copies, and
copies are refused, because counting a report twice is a mistake that no later check would find. Files without a number
are copies if they are the same to the bit.

Files come from anywhere. Pages of Parquet and batches of Arrow (`arrow_checksums`) have checksums where dither wrote
them, and they are compared; whatever else goes wrong while a file is read, the answer is an error that names it, and
nothing of it is counted.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from dither.core.reports import drops
from dither.engines.arrow_checksums import check_batch, checked_sizes
from dither.engines.paths import FilePlace, files_of, is_path, one_or_more
from dither.engines.report_rows import FILE, PLAN, REPORT, TAG, has_columns
from dither.errors import DitherError, InvalidReportError, ParameterError, ReportError, require
from dither.planning.plans import Plan

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import parquet

T = TypeVar("T")
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
_STREAM = b"\xff\xff\xff\xff"  # how an Arrow stream begins
_BATCH = 1 << 17  # rows that are decoded at once
_BY_CHANCE = 64  # files with fewer reports, of a random bit each at least, may be equal without being copies
_MOST_BYTES = 1 << 26


class Piece(NamedTuple):
    """Some consecutive rows of a file of reports: a row group, or a record batch."""

    path: str
    file: str  # the identity of the file
    number: int
    rows: int
    bytes: int
    place: FilePlace | None = None  # of a file that is not on this machine

    @property
    def opened(self) -> FilePlace:
        """Where its file is read."""
        return self.place or FilePlace(self.path, self.path)

    def batches(self) -> Iterator["pyarrow.RecordBatch"]:
        """Its rows as Arrow record batches, few at a time."""
        reader = _parquet_batches if self.path.lower().endswith(PARQUET) else _arrow_batches
        yield from damage_explained(self.path, _all_of(self, reader(self)))


def _all_of(piece: Piece, batches: Iterable["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]:
    """The batches of a piece, if they have as many rows as it claims."""
    left = piece.rows
    for batch in batches:
        left -= batch.num_rows
        yield batch
    if left:
        raise ValueError("a piece has another number of rows than its file claims")


@dataclass(frozen=True)
class ReportFile:
    """A file of reports: who it is, the plan that its metadata name, and its pieces."""

    path: str
    identity: str
    plan: str
    pieces: tuple[Piece, ...]
    place: FilePlace
    numbered: bool = True  # whether its identity is a number that it holds

    @cached_property
    def digest(self) -> str:
        """What a stored tally knows it by: the hash of its number, or of all its bytes if it has none.

        Copies have the same, wherever they are and whatever they are called. It tells nothing about the reports to
        those who do not have the file.
        """
        if self.numbered:
            return hashlib.sha256(f"{FILE.decode()} {self.identity}".encode()).hexdigest()
        with self.place.open() as content:
            return hashlib.file_digest(content, "sha256").hexdigest()

    @property
    def rows(self) -> int:
        """How many reports there are in it."""
        return sum(piece.rows for piece in self.pieces)


def report_files(source: Any, plan: Plan, *, invalid_reports: str = "error") -> list[ReportFile]:
    """The files that are meant, each once; those of another plan, copies, and what is no file of reports are refused.

    `source` is a path, a pattern, a folder, an address, or a list of these; or files that are known already. With
    `invalid_reports="drop"` a file of another plan is not refused for what it says of itself: each row has its tag.
    """
    drop = drops(invalid_reports)
    given = one_or_more(source)
    known = given and all(isinstance(file, ReportFile) for file in given)
    files: list[ReportFile] = given if known else [_opened(place) for place in places_of(given)]
    first: dict[str, FilePlace] = {}
    for file, identity in zip(files, _identities(files), strict=True):
        if file.plan and file.plan != plan.fingerprint and not drop:
            raise InvalidReportError(
                f"{file.path} has reports of plan {file.plan[:12]}, not of plan {plan.fingerprint[:12]}: nothing was "
                "tallied. Tally each plan's reports with that plan, and estimate each on its own"
            )
        if identity in first:
            raise ReportError(_twice(file.place, first[identity]))
        first[identity] = file.place
    return files


def _twice(place: FilePlace, other: FilePlace) -> str:
    if place.node == other.node:
        return f"{place.name} is named twice: its reports would be counted twice. Leave one out"
    return (
        f"{place.name} is a copy of {other.name}, or was cut from the same file: reports would be counted twice. "
        f"Leave one out. If they share no report, write each again without the metadata {FILE.decode()}"
    )


def _identities(files: Iterable[ReportFile]) -> Iterator[str]:
    """What is the same for copies: the identity; of files without a number, if some are equally long, their bytes."""
    given = list(files)
    sizes = [0 if file.numbered or file.rows < _BY_CHANCE else file.place.version[0] for file in given]
    often = Counter(sizes)
    for file, size in zip(given, sizes, strict=True):
        if file.numbered:
            yield file.identity
        elif not size or often[size] == 1:
            yield file.place.node
        else:
            yield file.digest


def places_of(source: Any) -> list[FilePlace]:
    """The files that a path, a pattern, a folder, an address, or a list of these means, in order."""
    given = one_or_more(source)
    if not given or not all(map(is_path, given)):  # whatever it is, it is not quoted
        raise ParameterError("name at least one file of reports, as in reports.parquet; or give an Arrow table of them")
    return [place for each in given for place in _matched(os.fsdecode(each))]


def _matched(text: str) -> list[FilePlace]:
    found = files_of(text, PARQUET + ARROW, "reports")
    for place in found:
        if not place.name.lower().endswith(PARQUET + ARROW):
            raise ParameterError(
                f"{place.name} has an unknown ending: files of reports are {', '.join((*PARQUET[:1], *ARROW))}"
            )
    return found


def _opened(place: FilePlace) -> ReportFile:
    opened = _parquet if place.name.lower().endswith(PARQUET) else _arrow
    (found,) = damage_explained(place.name, (opened(each) for each in (place,)))
    return found


def _parquet(place: FilePlace) -> ReportFile:
    with _parquet_file(place) as file:
        meta, facts = file.metadata, _checked_facts(place.name, file.schema_arrow)
    groups = [meta.row_group(number) for number in range(meta.num_row_groups)]
    sizes = [(group.num_rows, group.total_byte_size) for group in groups]
    if meta.num_rows != sum(rows for rows, _ in sizes):
        raise ValueError("a file has another number of rows than its groups have")
    return _file(place, facts, sizes)


def _arrow(place: FilePlace) -> ReportFile:
    arrow = require("pyarrow", "fast")
    with place.open() as file:
        if file.read(len(_STREAM)) == _STREAM:
            raise ReportError(
                f"{place.name} is an Arrow stream, which may have been cut short unnoticed, and not an Arrow file: "
                "write reports to a file by its name, or tally the stream from an open file"
            )
    with place.mapped() as file:
        reader = arrow.ipc.open_file(file)
        facts = _checked_facts(place.name, reader.schema)
        sizes = checked_sizes(reader, file)
    return _file(place, facts, sizes)


def _checked_facts(path: str, schema: "pyarrow.Schema") -> dict[bytes, bytes]:
    if not has_columns(schema):
        raise ReportError(
            f"{path} is no file of reports: there must be a column {TAG} and a column {REPORT}. Raw records are "
            "randomized first"
        )
    return schema.metadata or {}


def _file(place: FilePlace, facts: dict[bytes, bytes], sizes: Iterable[tuple[int, int]]) -> ReportFile:
    path, found = place.name, _plain(facts.get(FILE, b""))
    where = os.path.realpath(path) if place.filesystem is None else path
    identity = found or f"{where} {' '.join(map(str, place.version))}"
    far = None if place.filesystem is None else place
    pieces = tuple(Piece(path, identity, number, rows, size, far) for number, (rows, size) in enumerate(sizes) if rows)
    return ReportFile(path, identity, _plain(facts.get(PLAN, b"")), pieces, place, bool(found))


def _plain(fact: bytes) -> str:
    """A fact of a file's metadata, fit to be shown: whoever wrote the file may have put anything there."""
    return "".join(each if each.isalnum() else "?" for each in fact.decode("ascii", "replace"))


def _parquet_file(place: FilePlace, once: Iterable[str] = ()) -> "parquet.ParquetFile":
    """A file that is open, in which some columns are read as they may be stored: each value once, and its places."""
    # Not mapped into memory: that is no faster, and a file that shrinks while it is read would kill this process.
    footer = _footer(place, place.version)
    return require("pyarrow.parquet", "fast").ParquetFile(
        place.parquet(), metadata=footer, page_checksum_verification=True, read_dictionary=list(once)
    )


@lru_cache(maxsize=8)
def _footer(place: FilePlace, version: tuple[int, int]) -> "parquet.FileMetaData":
    """What a file says of its pieces: read once, and not again for each of hundreds."""
    return require("pyarrow.parquet", "fast").read_metadata(place.parquet())


def _parquet_batches(piece: Piece) -> Iterator["pyarrow.RecordBatch"]:
    height = max(1, min(_BATCH, _MOST_BYTES * piece.rows // max(1, piece.bytes)))
    with _parquet_file(piece.opened, _stored_once(piece)) as file:
        for batch in file.iter_batches(height, row_groups=[piece.number], columns=[TAG, REPORT], use_threads=False):
            yield from _written_out(batch)


def _stored_once(piece: Piece) -> list[str]:
    """The column of reports, if equal ones may be stored once: dither does not, and others may repeat a long one."""
    encodings = _encodings(piece.opened, piece.opened.version).get(piece.number, "")
    return [REPORT] if "DICTIONARY" in encodings else []


@lru_cache(maxsize=8)
def _encodings(place: FilePlace, version: tuple[int, int]) -> dict[int, str]:
    """How reports are stored in each piece of a file.

    By DuckDB, where it can read the file: pyarrow ends the whole process if this part of a footer is damaged, where no
    exception can be caught (seen with 25.0 and 26.0, "histogram size mismatch").
    """
    if place.filesystem is not None:
        footer, found = _footer(place, version), dict[int, str]()
        for number in range(footer.num_row_groups):
            columns = (footer.row_group(number).column(place_) for place_ in range(footer.num_columns))
            found[number] = " ".join(str(each.encodings) for each in columns if each.path_in_schema == REPORT)
        return found
    duckdb = require("duckdb", "fast")
    query = "select row_group_id, encodings from parquet_metadata(?) where path_in_schema = ?"
    try:
        with duckdb.connect() as base:
            rows = base.execute(query, [place.path, REPORT]).fetchall()
        return {int(number): str(encodings) for number, encodings in rows}
    except duckdb.Error:
        reason = "its footer is damaged"
    raise require("pyarrow", "fast").ArrowInvalid(reason)


def _written_out(batch: "pyarrow.RecordBatch") -> Iterator["pyarrow.RecordBatch"]:
    """The rows with a report in each, so few at a time that they are not many more bytes than a batch should have."""
    arrow, column = require("pyarrow", "fast"), batch[REPORT]
    if not arrow.types.is_dictionary(column.type):
        yield batch
        return
    lengths = require("pyarrow.compute", "fast").binary_length(column.dictionary)
    longest = int(np.asarray(lengths.fill_null(0)).max(initial=1))
    height = max(1, _MOST_BYTES // longest)
    for start in range(0, batch.num_rows, height):
        part = batch.slice(start, height)
        reports = part[REPORT].cast(column.type.value_type)
        yield arrow.RecordBatch.from_arrays([part[TAG], reports], names=[TAG, REPORT])


def _arrow_batches(piece: Piece) -> Iterator["pyarrow.RecordBatch"]:
    arrow = require("pyarrow", "fast")
    with piece.opened.mapped() as file:
        reader = arrow.ipc.open_file(file)
        found, told = reader.get_batch_with_custom_metadata(piece.number)
        batch = found.select([TAG, REPORT])
        batch.validate(full=True)  # Arrow trusts the offsets of a file; a damaged one may point anywhere
        check_batch(reader.schema, batch, told, piece.number)
        for start in range(0, batch.num_rows, _BATCH):
            yield batch.slice(start, _BATCH)


def damage_explained(path: str, found: Iterable[T]) -> Generator[T]:
    """What is found, with errors that name the file and say what may be wrong with it."""
    try:
        yield from found
        return
    except DitherError:
        raise
    except FileNotFoundError:
        reason = "there is no such file"
    except UnicodeEncodeError:
        reason = "its name is not text; rename it"
    except PermissionError:
        reason = "it may not be read by this user"
    except Exception:  # each format has its own, and pyarrow names no common one for a damaged file
        reason = "it is damaged, or was cut short; nothing of it was counted. Write or copy it again, or leave it out"
    raise ReportError(f"{path} cannot be read: {reason}")
