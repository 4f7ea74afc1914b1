"""Files of reports, cut into pieces that can be tallied one by one, in any order and anywhere.

A piece is a row group of a Parquet file or a record batch of an Arrow file: large enough to be worth a task, small
enough that a run which was stopped loses little. Every file has an identity: the random number that dither wrote into
it, or else its place, where other tools have dropped that. Two files of one identity are copies, and copies are
refused, because counting a report twice is a mistake that no later check would find.
"""

import glob
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dither.core.errors import DitherError, ParameterError, ReportError, require
from dither.engines.rows import FILE, PLAN, REPORT, TAG
from dither.planning.plans import Plan

PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
_BATCH = 1 << 18  # rows that are decoded at once
_MOST_BYTES = 1 << 26


class Piece(NamedTuple):
    """Some consecutive rows of a file of reports: a row group, or a record batch."""

    path: str
    file: str  # the identity of the file
    number: int
    rows: int
    bytes: int

    def batches(self) -> Iterator[Any]:
        """Its rows as Arrow record batches, few at a time."""
        reader = _parquet_batches if self.path.endswith(PARQUET) else _arrow_batches
        yield from _damage_explained(self.path, reader(self))


@dataclass(frozen=True)
class ReportFile:
    """A file of reports: who it is, the plan that its metadata name, and its pieces."""

    path: str
    identity: str
    plan: str
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        """How many reports there are in it."""
        return sum(piece.rows for piece in self.pieces)


def report_files(source: Any, plan: Plan) -> list[ReportFile]:
    """The files that are meant, each once; those of another plan, copies, and what is no file of reports are refused.

    `source` is a path, a pattern, a folder, or a list of these.
    """
    files = [_opened(path) for path in paths_of(source)]
    first: dict[str, str] = {}
    for file in files:
        if file.plan and file.plan != plan.fingerprint:
            raise ReportError(
                f"{file.path} has reports of plan {file.plan[:12]}, not of plan {plan.fingerprint[:12]}: nothing was "
                "tallied. Tally each plan's reports with that plan, and estimate each on its own"
            )
        if file.identity in first:
            again = "named twice" if _same(file.path, first[file.identity]) else f"a copy of {first[file.identity]}"
            raise ReportError(f"{file.path} is {again}: its reports would be counted twice. Leave one out")
        first[file.identity] = file.path
    return files


def _same(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def paths_of(source: Any) -> list[str]:
    """The files that a path, a pattern, a folder, or a list of these means, in order."""
    given = [source] if isinstance(source, str | Path) else list(source)
    found = [path for text in given for path in _matched(str(text))]
    if not found:
        raise ParameterError("name at least one file of reports, as in reports.parquet")
    return found


def _matched(text: str) -> list[str]:
    path = Path(text)
    if path.is_dir():
        inside = sorted(str(file) for file in path.iterdir() if _is_data(file))
        if not inside:
            raise ParameterError(f"the folder {text} has no files of reports: {', '.join(PARQUET + ARROW)}")
        return inside
    if path.exists() or not glob.has_magic(text):
        if path.suffix.lower() not in PARQUET + ARROW:
            raise ParameterError(
                f"{text} has an unknown ending: files of reports are {', '.join((*PARQUET[:1], *ARROW))}"
            )
        return [text]
    found = sorted(glob.glob(text))
    if not found:
        raise ParameterError(f"no file matches {text}")
    return [path for each in found for path in _matched(each)]


def _is_data(file: Path) -> bool:
    """Whether a file of a folder holds reports: those that tools hide, or mark a folder with, do not."""
    return file.suffix.lower() in PARQUET + ARROW and not file.name.startswith((".", "_")) and file.is_file()


def _opened(path: str) -> ReportFile:
    opened = _parquet if path.lower().endswith(PARQUET) else _arrow
    (found,) = _damage_explained(path, (opened(each) for each in (path,)))
    return found


def _parquet(path: str) -> ReportFile:
    meta = _parquet_file(path).metadata
    schema = meta.schema.to_arrow_schema()
    facts = _checked_facts(path, schema)
    groups = [meta.row_group(number) for number in range(meta.num_row_groups)]
    return _file(path, facts, [(group.num_rows, group.total_byte_size) for group in groups])


def _arrow(path: str) -> ReportFile:
    arrow = require("pyarrow", "fast")
    with arrow.memory_map(path) as file:
        reader = arrow.ipc.open_file(file)
        facts = _checked_facts(path, reader.schema)
        sizes = []
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            sizes.append((batch.num_rows, batch.nbytes))
    return _file(path, facts, sizes)


def _checked_facts(path: str, schema: Any) -> dict[bytes, bytes]:
    if not {TAG, REPORT} <= set(schema.names):
        raise ReportError(
            f"{path} is no file of reports: there must be a column {TAG} and a column {REPORT}. Raw records are "
            "randomized first: dither randomize plan.json DATA -o reports.parquet"
        )
    return schema.metadata or {}


def _file(path: str, facts: dict[bytes, bytes], sizes: Iterable[tuple[int, int]]) -> ReportFile:
    identity = facts[FILE].decode("ascii", "replace") if FILE in facts else str(Path(path).resolve())
    pieces = tuple(
        Piece(path, identity, number, rows, size) for number, (rows, size) in enumerate(sizes) if rows
    )  # fmt: skip
    return ReportFile(path, identity, facts.get(PLAN, b"").decode("ascii", "replace"), pieces)


def _parquet_file(path: str) -> Any:
    return require("pyarrow.parquet", "fast").ParquetFile(path, memory_map=True)


def _parquet_batches(piece: Piece) -> Iterator[Any]:
    height = max(1, min(_BATCH, _MOST_BYTES * piece.rows // max(1, piece.bytes)))
    with _parquet_file(piece.path) as file:
        yield from file.iter_batches(height, row_groups=[piece.number], columns=[TAG, REPORT], use_threads=False)


def _arrow_batches(piece: Piece) -> Iterator[Any]:
    arrow = require("pyarrow", "fast")
    with arrow.memory_map(piece.path) as file:
        batch = arrow.ipc.open_file(file).get_batch(piece.number).select([TAG, REPORT])
        batch.validate(full=True)  # Arrow trusts the offsets of a file; a damaged one may point anywhere
        for start in range(0, batch.num_rows, _BATCH):
            yield batch.slice(start, _BATCH)


def _damage_explained(path: str, found: Iterable[Any]) -> Iterator[Any]:
    """What is found, with errors that name the file and say what may be wrong with it."""
    try:
        yield from found
        return
    except DitherError:
        raise
    except FileNotFoundError:
        reason = "there is no such file"
    except PermissionError:
        reason = "it may not be read by this user"
    except Exception:  # each format has its own, and pyarrow names no common one for a damaged file
        reason = "it is damaged, or was cut short; nothing of it was counted. Write or copy it again, or leave it out"
    raise ReportError(f"{path} cannot be read: {reason}")
