"""The Spark engine: the same plan, and the same bits, on as many machines as a session has.

**Tallies.** Workers read files of reports by themselves, with Arrow: through Java, ten million rows take several times
longer. A share of the pieces of all files goes to each task. A DataFrame with the columns `tag` and `report`, which may
come from any table or query, is tallied partition by partition. Each task answers with one tally; tallies are
added up in a tree, since thousands of them at once are too much for the driver.

**Reports are written once.** A DataFrame of reports would be lazy: every action that uses it, and every task that is
tried again, would randomize the same records anew, and whoever sees two reports of a record where the plan promised one
learns up to twice as much. So `randomize` returns no DataFrame. It writes Parquet, and of every task Spark's commit
protocol lets exactly one attempt be seen; what other attempts wrote is removed. All of it goes to a hidden folder,
which becomes the named one when it is whole; what a run that was killed has left of one, the next run removes.

**Simulations.** With a seed, row i gets the reports that it gets in the local engine. Rows of files are numbered as in
the files. Those of a DataFrame are numbered in the order of its partitions, for which it is read twice.

Only DataFrames are used, no RDD and nothing of the JVM, so that all of this works through Spark Connect too.
"""

import heapq
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar

from dither.core.atomic_write import atomic_folder
from dither.core.checks import checked_count
from dither.core.reports import drops
from dither.engines import spark_session as sessions
from dither.engines import spark_tasks as tasks
from dither.engines.local import Local, Progress, advance
from dither.engines.paths import is_path, one_or_more
from dither.engines.record_readers import PARQUET
from dither.engines.record_sources import Source
from dither.engines.records import RecordStream, open_records
from dither.engines.report_files import report_files
from dither.engines.report_rows import REPORT, TAG, codes, nothing, tally_rows
from dither.engines.spark_stream import TallyBatch, TallyStream
from dither.engines.tally_folder import TallyFolder
from dither.errors import DitherError, MissingExtraError, ParameterError, WriteError, require
from dither.planning.plan_tally import PlanTally
from dither.planning.plans import Plan
from dither.planning.table_streams import is_table
from dither.planning.tally_sums import merged_tallies, sums_apart

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

FAN_IN = 16  # tallies that are added up by one task, and by the driver

_SHARES = 4  # for each core: one that is slow does not hold up the others for long
_SHARE_BYTES = 1 << 28  # at most, so that little is lost with a task
_REPORTS = f"{TAG} bigint, {REPORT} binary"
_GROUP_BYTES = 1 << 25  # of a row group: a piece of a later tally


class _Sized(Protocol):
    @property
    def bytes(self) -> int: ...


Item = TypeVar("Item", bound=_Sized)


@dataclass(frozen=True)
class Spark:
    """Tallies and randomizes on a Spark session: the given one, the active one, or a new one on this machine."""

    session: "SparkSession | None" = None

    def tally(
        self,
        plan: Plan,
        source: Any,
        *,
        invalid_reports: str = "error",
        allow_simulated: bool = False,
        progress: Progress | None = None,
    ) -> PlanTally:
        """The sums over all reports of a source: files that all workers can read, or a DataFrame of rows of reports.

        Paths with a scheme, as in `s3a://`, are read by Spark, as Parquet. An Arrow table is in this process already,
        and tallied here. Invalid and simulated reports are refused, left out or counted as by the local engine.
        """
        if not _is_frame(source) and is_table(source):
            return Local().tally(
                plan, source, invalid_reports=invalid_reports, allow_simulated=allow_simulated, progress=progress
            )
        drops(invalid_reports)  # what has no meaning is refused before a job begins
        with sessions.quiet():
            if _is_remote(source):
                source = self._session().read.parquet(*one_or_more(source))
            found = (_tally_rows if _is_frame(source) else self._tally_files)(plan, source, invalid_reports)
        advance(progress, sum(tally.rows for tally in found))
        return merged_tallies(found, invalid_reports=invalid_reports, allow_simulated=allow_simulated)

    def _tally_files(self, plan: Plan, source: Any, invalid_reports: str) -> tuple[PlanTally, ...]:
        files = report_files(source, plan, invalid_reports=invalid_reports)
        given = {os.path.abspath(file.path): file for file in files}
        pieces = [piece._replace(path=path) for path, file in given.items() for piece in file.pieces]
        if not pieces:
            return (nothing(plan),)
        session = self._session()
        shares = _dealt(pieces, session)
        try:
            work = tasks.TallyPieces(plan.to_json(), shares, invalid_reports)
            return _total(plan, _numbers(session, len(shares)).mapInArrow(work, tasks.ANSWER), len(shares))
        except DitherError as error:
            kind, reason = type(error), str(error)
        for path, file in given.items():
            reason = reason.replace(path, file.path)  # as it was named; workers need all of it
        raise kind(reason)

    def stream(
        self,
        plan: Plan,
        source: Any,
        sink: str | os.PathLike[str],
        checkpoint: str | os.PathLike[str],
        *,
        every: str | None = None,
        files_per_batch: int | None = None,
        invalid_reports: str = "error",
        allow_simulated: bool = False,
    ) -> TallyStream:
        """Tally reports that keep coming, each once, also if this process is killed at any moment.

        `source` is a folder in which Parquet files of reports appear, or a streaming DataFrame with the columns `tag`
        and `report`. `sink` is a folder for one tally a batch, `checkpoint` one in which Spark notes how far it is:
        the two belong together. With `every`, as in "1 minute", it runs until it is stopped, a batch each time there
        is something new; without, it takes what is there and ends. The same call goes on where the last one was.

            stream = Spark().stream(plan, "reports", "tallies", "checkpoint")
            stream.wait()
            plan.estimate(stream.total())
        """
        drops(invalid_reports)
        places = [_stream_place(path, what) for path, what in ((sink, "sink"), (checkpoint, "checkpoint"))]
        if places[0] == places[1]:
            raise ParameterError("the sink and the checkpoint are two folders: name another one for the checkpoint")
        work = TallyBatch(plan.to_json(), places[0], invalid_reports, allow_simulated, _tally_rows)
        with sessions.quiet():
            frame = source if _is_frame(source) else self._watched(source, files_per_batch)
            if not frame.isStreaming:
                raise ParameterError(
                    "this DataFrame ends: tally(plan, frame) is for it. A stream is read with session.readStream"
                )
            arrow = require("pyarrow", "fast")
            kinds = {"bigint": arrow.int64(), "binary": arrow.binary()}
            columns = arrow.schema([(name, kinds.get(kind, arrow.null())) for name, kind in frame.dtypes])
            tally_rows(plan, _empty(columns))  # refuses other columns, and other types
            writer = _selected(frame, (TAG, REPORT)).writeStream.foreachBatch(work)
            writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
            query = writer.option("checkpointLocation", places[1]).start()
        return TallyStream(plan, query, TallyFolder(places[0]), _explained)

    def _watched(self, folder: Any, files_per_batch: int | None) -> "DataFrame":
        """The Parquet files of reports that appear in a folder, and in those inside of it."""
        path = _stream_place(folder, "source")
        if "://" not in path and not os.path.isdir(path):
            raise ParameterError("a stream watches a folder, and there is none of this name: make it first")
        reader = self._session().readStream.schema(_REPORTS).option("recursiveFileLookup", "true")
        if files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", checked_count("files_per_batch", files_per_batch, 1, 1 << 31))
        return reader.parquet(path)

    def randomize(
        self,
        plan: Plan,
        records: Any,
        output: Any,
        *,
        seed: int | None = None,
        invalid: str = "error",
        progress: Progress | None = None,
    ) -> int:
        """Write the reports of records to a new folder of Parquet files, once; the number of records.

        `open_records` is a DataFrame, what `engines.records` opens if it is in files that all workers can read, or
        paths of such files. Nothing is returned that could be evaluated again: see above.
        """
        path = _checked_output(output)
        text = plan.to_json()
        with sessions.quiet():
            if _is_remote(records):
                records = self._session().read.parquet(*one_or_more(records))
            if _is_frame(records):
                rows = _checked_records(plan, records)
                counts = () if seed is None else _counts(rows.mapInArrow(tasks.count_rows, tasks.ROWS_OF))
                reports = rows.mapInArrow(tasks.RandomizeRows(text, seed, invalid, counts), _REPORTS)
            else:
                session = self._session()
                shares = _dealt(_chunks(session, plan, records, seed is not None), session)
                work = tasks.RandomizeChunks(text, shares, seed, invalid)
                reports = _numbers(session, len(shares)).mapInArrow(work, _REPORTS)
            _write(reports, path)
            users = _users_behind(plan, reports.sparkSession.read.schema(_REPORTS).parquet(path))
        advance(progress, users)
        return users

    def _session(self) -> "SparkSession":
        return sessions.current() if self.session is None else self.session


def _tally_rows(plan: Plan, frame: "DataFrame", invalid_reports: str) -> tuple[PlanTally, ...]:
    tally_rows(plan, _empty(_columns(frame, (TAG, REPORT))))  # refuses other columns, and other types
    work = tasks.TallyRows(plan.to_json(), invalid_reports)
    return _total(plan, _selected(frame, (TAG, REPORT)).mapInArrow(work, tasks.ANSWER), None)


def _users_behind(plan: Plan, rows: "DataFrame") -> int:
    """How many users sent these rows: budgets may answer different numbers of questions."""
    counted = {row[TAG]: row["count"] for row in rows.groupBy(TAG).count().collect()}
    tags = codes(plan).tags.reshape(-1, 2).tolist()
    return plan.users_behind([sum(counted.get(tag, 0) for tag in both) for both in tags])


# What is given ---------------------------------------------------------------------------------------------------


def _is_frame(source: Any) -> "TypeGuard[DataFrame]":
    return isinstance(source, require("pyspark.sql", "spark").DataFrame)


def _stream_place(path: Any, what: str) -> str:
    """A folder of a stream, with its whole path, since Spark may run elsewhere."""
    if not is_path(path) or not os.fspath(path):
        raise ParameterError(f"the {what} of a stream is a folder: name it")
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(text)


def _is_remote(source: Any) -> bool:
    """Whether these are paths that only Spark can read."""
    remote = {is_path(path) and "://" in os.fsdecode(path) for path in one_or_more(source)}
    if len(remote) > 1:
        raise ParameterError("name either paths with a scheme, as in s3a://, or paths without: not both at once")
    return remote == {True}


def _columns(frame: "DataFrame", names: Sequence[str]) -> "pyarrow.Schema":
    """The columns of a DataFrame, as an Arrow schema; types are told only for those that are asked for."""
    arrow = require("pyarrow", "fast")
    wanted = [name for name in names if frame.columns.count(name) == 1]
    types = {field.name: field.type for field in _selected(frame, wanted).limit(0).toArrow().schema}
    return arrow.schema([(name, types.get(name, arrow.null())) for name in frame.columns])


def _empty(schema: "pyarrow.Schema") -> "pyarrow.RecordBatch":
    """A batch of no rows."""
    arrow = require("pyarrow", "fast")
    return arrow.RecordBatch.from_arrays([arrow.array([], field.type) for field in schema], schema=schema)


def _selected(frame: "DataFrame", names: Sequence[str]) -> "DataFrame":
    return frame.select(*("`{}`".format(name.replace("`", "``")) for name in names))  # a name may hold dots


def _checked_records(plan: Plan, frame: "DataFrame") -> "DataFrame":
    """The columns of a DataFrame that are asked for; refuses what cannot hold the attributes."""
    names = list(plan.attributes)
    open_records(_empty(_columns(frame, names)), plan.attributes)
    return _selected(frame, names)


def _chunks(session: "SparkSession", plan: Plan, given: Any, numbered: bool) -> list[tasks.Chunk]:
    """Files of records in chunks, in order; each with the number of its first row, if rows are numbered."""
    if isinstance(given, RecordStream):
        opened = [given]
    else:
        opened = [open_records(each, plan.attributes) for each in one_or_more(given)]
    sources = [source for each in opened for source in each.sources]
    if not all(map(_is_file, sources)):
        raise ParameterError(
            f"workers of Spark read files, and {opened[0].name} is none: save these records to a file, pass a "
            "DataFrame, or take the local engine"
        )
    found = [(chunk, rows) for source in sources for chunk, rows in _cut(source)]
    unknown = [place for place, (_, rows) in enumerate(found) if rows is None]
    counted: tuple[int, ...] = ()
    if numbered and unknown:
        work = tasks.CountChunks(plan.to_json(), tuple(found[place][0] for place in unknown))
        counted = _counts(_numbers(session, len(unknown)).mapInArrow(work, tasks.ROWS_OF))
    known = {**{place: rows for place, (_, rows) in enumerate(found)}, **dict(zip(unknown, counted, strict=False))}
    firsts = accumulate((known[place] or 0 for place in range(len(found))), initial=0)
    return [chunk._replace(first=first) for (chunk, _), first in zip(found, firsts, strict=False)]


def _is_file(source: Source) -> bool:
    return source.title != source.name and os.path.isfile(source.name)


def _cut(source: Source) -> list[tuple[tasks.Chunk, int | None]]:
    """The chunks of a file of records, and how many rows each has, if that is known."""
    path = os.path.abspath(source.name)
    if source.form != PARQUET:
        return [(tasks.Chunk(path, source.title, None, 0, os.path.getsize(path)), source.rows)]
    meta = require("pyarrow.parquet", "fast").read_metadata(path)
    groups = [meta.row_group(number) for number in range(meta.num_row_groups)]
    return [
        (tasks.Chunk(path, source.title, number, 0, group.total_byte_size), group.num_rows)
        for number, group in enumerate(groups)
    ]


# Jobs ------------------------------------------------------------------------------------------------------------


def _numbers(session: "SparkSession", count: int) -> "DataFrame":
    """A DataFrame with a partition for each share, and in it the number of the share."""
    return session.range(0, count, 1, max(1, count))


def _dealt(items: Sequence[Item], session: "SparkSession") -> tuple[tuple[Item, ...], ...]:
    """Shares of about equal size, a few for each core."""
    total = sum(item.bytes for item in items)
    number = min(len(items), max(_SHARES * _cores(session), total // _SHARE_BYTES))
    loads = [(0, place) for place in range(number)]
    shares: list[list[Item]] = [[] for _ in loads]
    for item in sorted(items, key=lambda item: -item.bytes):
        load, place = loads[0]
        shares[place].append(item)
        heapq.heapreplace(loads, (load + item.bytes, place))
    return tuple(map(tuple, shares))


def _cores(session: "SparkSession") -> int:
    """How many tasks the session runs at once, as far as it tells: into so many partitions it cuts a range."""
    local = re.fullmatch(r"local\[(\d+)(, *\d+)?\]", session.conf.get("spark.master", "") or "")
    if local:  # known without a job
        return int(local[1])
    ((last,),) = session.range(1 << 16).selectExpr("spark_partition_id() AS place").selectExpr("max(place)").collect()
    return last + 1


def _total(plan: Plan, answers: "DataFrame", width: int | None) -> tuple[PlanTally, ...]:
    """The sums of the tallies of tasks, by a tree; `width` is the number of tasks, if it is known."""
    while width is None or width > FAN_IN:
        width = min(FAN_IN, _cores(answers.sparkSession)) if width is None else -(-width // FAN_IN)
        answers = answers.repartition(width).mapInArrow(tasks.merge, tasks.ANSWER)
    with _explained():
        found = answers.toArrow()
    return sums_apart(plan.checked_tallies(chain([nothing(plan)], tasks.tallies(found.to_batches()))))


def _counts(counted: "DataFrame") -> tuple[int, ...]:
    """Numbers of rows by the place of partitions, or files."""
    with _explained():
        found = {row["partition"]: row["rows"] for row in counted.toArrow().to_pylist()}
    return tuple(found.get(place, 0) for place in range(max(found, default=-1) + 1))


@contextmanager
def _explained() -> Iterator[None]:
    """Errors of workers as those of dither, where they are."""
    try:
        yield
        return
    except Exception as error:
        text = str(error)
        found = tasks.refusal(text)
        if found is None and "No module named 'dither" in text:
            found = MissingExtraError(
                "the workers of this Spark session do not have dither: install the same version of it, with the "
                "extra [fast], in their Python, or name a Python that has it in PYSPARK_PYTHON"
            )
        if found is None:
            raise
    raise found


# Output ----------------------------------------------------------------------------------------------------------


def _checked_output(output: Any) -> str:
    """The folder to write to, with its whole path, since Spark may run elsewhere."""
    if not is_path(output) or str(output) == "-":
        raise ParameterError("Spark writes reports to a new folder of Parquet files: name it, as in reports/")
    path = os.fspath(output)
    path = path if "://" in path else os.path.abspath(path)
    if os.path.exists(path):
        raise _exists(path)
    return path


def _exists(path: str) -> WriteError:
    return WriteError(
        f"cannot write {path}: it is there already, and reports are never written over or added to, because those of "
        "another run may have been seen. Remove it, or choose another name"
    )


def _write(reports: "DataFrame", path: str) -> None:
    """All of the reports, or nothing: in a hidden folder that only its owner can read, until all are there.

    Where Spark does not write to the files of this machine, as on a server of Spark Connect or in an object store, it
    writes to the folder itself. What a killed run leaves there is refused by the next one, and to be removed by hand.
    """
    if "://" in path or not _shares_files(reports.sparkSession):
        _write_parquet(reports, path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with atomic_folder(path) as hidden:
        _write_parquet(reports, str(hidden))
        if os.path.exists(path):
            raise _exists(path)


def _shares_files(session: "SparkSession") -> bool:
    """Whether Spark sees the files of this machine."""
    with tempfile.NamedTemporaryFile(prefix="dither") as sign:
        try:
            return bool(session.read.text(sign.name).columns)
        except Exception as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
    return False


def _write_parquet(reports: "DataFrame", path: str) -> None:
    try:
        with _explained():
            (
                reports.write.mode("error")
                .option("compression", "zstd")
                .option("parquet.block.size", _GROUP_BYTES)
                .option("parquet.page.write-checksum.enabled", "true")
                .parquet(path)
            )
        return
    except Exception as error:
        if "PATH_ALREADY_EXISTS" in str(error):
            raise _exists(path) from None
        _remove(path)
        raise
    except BaseException:
        _remove(path)
        raise


def _remove(path: str) -> None:
    """What is left of a folder that was not there before: Spark removes what is in it, and leaves it."""
    if "://" not in path and not (Path(path) / "_SUCCESS").exists():
        shutil.rmtree(path, ignore_errors=True)
