"""The jobs behind `files.py`: made records and their reports, and what a process of its own measures on them.

    python benchmarks/filejobs.py '{"job": "local", "plan": "plan.json", "source": "reports", "warm": "warm.parquet",
                                     "users": 1000000}'

runs one job and prints what it found as JSON; `run` starts that process, on two cores, which is what the targets are
meant for. A process of its own has a high-water mark of its own, and pays for its imports where the clock sees it: so
nothing but the standard library is imported up here.

**Memory.** The high-water mark of the kernel (`VmHWM`) counts whatever is in memory, pages of files that are mapped
among it; those belong to the page cache and can be dropped at any time. So a thread also reads, every few
milliseconds, what the process itself holds (`RssAnon`) and what is mapped (`RssFile`). A peak shorter than that is
seen by the high-water mark alone.

**Starts.** A tally and an estimate of a small file come first: they import what is imported late, and load compiled
loops from Numba's cache, or build them. A second time they are warm, and the difference is what starting took.
"""

import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from measure import in_turns, memory_peak, repeated, seconds

CORES = 2
ROUNDS = 3
ONCE = 5 * 10**7  # from this many reports on, one run has to do
_PAUSE = 0.004
_FEW = 50


@dataclass(frozen=True)
class Streamed:
    """From files of reports to estimates by the local engine: seconds and bytes.

    `start` is the import of the engine, `compiled` what the first tally took beyond the second, `processor` the time
    of all cores together. `peak` is the high-water mark of the process, `own` the most that it held itself, `before`
    that before the measured runs, and `mapped` the most that files took above what they took before.
    """

    users: int
    start: float
    compiled: float
    seconds: float
    processor: float
    peak: int
    own: int
    before: int
    mapped: int


@dataclass(frozen=True)
class Sparked:
    """The same tally by Spark, from paths and from a data frame, and by the local engine, in turns."""

    users: int
    session: float
    first: float
    local: float
    paths: float
    frame: float
    same: bool


@dataclass(frozen=True)
class Raced:
    """A contestant: the name of a library, its mechanism, and the seconds of so many users."""

    library: str
    mechanism: str
    users: int
    server: float
    whole: float


def run(job: Mapping[str, Any], **environment: str) -> Any:
    """Run a job in a process of its own."""
    command = [sys.executable, str(Path(__file__)), json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        raise RuntimeError(f"a benchmark process failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def run_local(plan: Path, source: Path, warm: Path, users: int, **environment: str) -> Streamed:
    """`local` in a process of its own."""
    job = {"job": "local", "plan": str(plan), "source": str(source), "warm": str(warm), "users": users}
    return Streamed(**run(job, **environment))


def run_spark(plan: Path, source: Path, warm: Path, users: int) -> Sparked:
    """`spark` in a process of its own."""
    job = {"job": "spark", "plan": str(plan), "source": str(source), "warm": str(warm), "users": users}
    return Sparked(**run(job))


def run_race(folder: Path, k: int, epsilon: float, users: int, few: int) -> list[Raced]:
    """`race` in a process of its own."""
    job = {"job": "race", "folder": str(folder), "k": k, "epsilon": epsilon, "users": users, "few": few}
    return [Raced(**each) for each in run(job)]


# Jobs ----------------------------------------------------------------------------------------------------------


def local(job: Mapping[str, Any]) -> Streamed:
    """Files to estimates, and what it took."""
    begin = time.perf_counter()
    from dither import Plan
    from dither.engines.local import Local

    start = time.perf_counter() - begin
    plan, engine, users = Plan.from_json(Path(job["plan"]).read_text()), Local(), job["users"]

    def work(source: str) -> Any:
        return plan.estimate(engine.tally(plan, source))

    first, second = (seconds(lambda: work(job["warm"])) for _ in range(2))
    times = {"least": 1, "most": 1} if users >= ONCE else {"least": ROUNDS}
    processor: list[float] = []

    def measured() -> None:
        begin = time.process_time()
        work(job["source"])
        processor.append(time.process_time() - begin)

    with _watched() as seen:
        taken = repeated(measured, **times)
    before, own, mapped = seen()
    return Streamed(users, start, first - second, taken, median(processor), memory_peak(), own, before, mapped)


def spark(job: Mapping[str, Any]) -> Sparked:
    """Spark and the local engine on the same files, in turns."""
    from dither import Plan
    from dither.engines.local import Local
    from dither.engines.spark import Spark
    from dither.engines.spark_session import current

    plan, source = Plan.from_json(Path(job["plan"]).read_text()), job["source"]
    begin = time.perf_counter()
    session = current()
    started = time.perf_counter() - begin
    frame = session.read.parquet(source)
    both = Local(), Spark(session)
    first = seconds(lambda: both[1].tally(plan, job["warm"]))
    both[0].tally(plan, job["warm"])
    found: dict[str, Any] = {}

    def kept(name: str, engine: Any, rows: Any) -> Callable[[], None]:
        return lambda: found.update({name: engine.tally(plan, rows)})

    runs = {
        "local": kept("local", both[0], source),
        "paths": kept("paths", both[1], source),
        "frame": kept("frame", both[1], frame),
    }
    times = in_turns(runs, ROUNDS)
    same = found["local"].to_bytes() == found["paths"].to_bytes() == found["frame"].to_bytes()
    session.stop()
    return Sparked(job["users"], started, first, **times, same=same)


def race(job: Mapping[str, Any]) -> list[Raced]:
    """dither and its peers from the same file of raw records to a histogram, in turns."""
    users, few, folder = job["users"], job["few"], Path(job["folder"])
    wholes: dict[Any, Callable[[], Any]] = {}
    servers, counts = dict(wholes), {}
    for name, whole, server in _contestants(folder, job["k"], job["epsilon"], few):
        wholes[name], servers[name] = whole, server
        counts[name] = users if name[0] == "dither" else few
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "only aggregated small amounts of data"
        whole, server = in_turns(wholes, ROUNDS), in_turns(servers, ROUNDS)
    return [Raced(name[0], name[1], counts[name], server[name], whole[name]) for name in wholes]


Contestant = tuple[tuple[str, str], Callable[[], Any], Callable[[], Any]]


def _contestants(folder: Path, k: int, epsilon: float, few: int) -> Iterator[Contestant]:
    """The name of each, its way from the file to a histogram, and the second half of that, from reports; all warm."""
    import peers

    path = folder / "records.parquet"
    yield _dither(path, k, epsilon)
    for mechanism, those in (
        ("OLH", peers.local_hash(k, epsilon)),
        ("OUE", peers.unary(k, epsilon)),
        ("SubsetSelection", peers.subset_selection(k, epsilon)),
        ("Hadamard", peers.hadamard(k, epsilon)),
    ):
        for peer in those:
            yield _peer(peer, mechanism, path, few)


def _dither(path: Path, k: int, epsilon: float) -> Contestant:
    """Records to a file of reports, and that to a histogram, as the commands `randomize`, `tally` and `estimate` do."""
    import pyarrow.parquet as parquet

    from dither import plan
    from dither.engines.local import Local
    from dither.engines.records import open_records

    best = plan(one_question(k), epsilon, users=parquet.read_metadata(path).num_rows)
    engine, output = Local(), path.with_name("reports.parquet")

    def server() -> Any:
        return best.estimate(engine.tally(best, output))

    def whole() -> Any:
        engine.randomize(best, open_records(str(path), best.attributes), output)
        return server()

    whole()
    return ("dither", type(best.parts[0].mechanism).__name__), whole, server


def _peer(peer: Any, mechanism: str, path: Path, few: int) -> Contestant:
    """The first records as the library takes them; its reports stay in memory, which is in its favour."""
    import pyarrow.parquet as parquet

    def values() -> list[int]:
        return next(parquet.ParquetFile(path).iter_batches(few)).column(0).to_pylist()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.server()(peer.client(values()[:_FEW]))
    reports = peer.client(values())
    wholes, servers = (iter([peer.server() for _ in range(ROUNDS)]) for _ in range(2))  # each remembers its reports
    return (
        (peer.library, mechanism),
        lambda: next(wholes)(peer.client(values())),
        lambda: next(servers)(reports),
    )


@contextmanager
def _watched() -> Iterator[Callable[[], tuple[int, int, int]]]:
    """What the process held itself before, the most that it held, and the most that files took beyond before."""
    before, most, over = _held(), [0, 0], threading.Event()

    def watch() -> None:
        while not over.wait(_PAUSE):
            most[:] = map(max, most, _held())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield lambda: (before[0], max(most[0], before[0]), max(0, most[1] - before[1]))
    finally:
        over.set()
        thread.join()


def _held() -> tuple[int, int]:
    """Bytes of this process in memory, its own and those of mapped files; nothing where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    sizes = {line.partition(":")[0]: line.split() for line in lines if line.startswith("Rss")}
    own, mapped = (1024 * int(sizes[name][1]) if name in sizes else 0 for name in ("RssAnon", "RssFile"))
    return own, mapped


# What is made --------------------------------------------------------------------------------------------------


def twelve_attributes() -> Any:
    """Four numbers, three ordinal and five categorical attributes, of 4 to 1,000 values."""
    from dither import Categorical, Numeric, Ordinal, Schema

    return Schema(
        {
            "income": Numeric(0, 200_000),
            "height": Numeric(100, 220),
            "minutes": Numeric(0, 1_440),
            "balance": Numeric(-5_000, 5_000),
            "age": Ordinal(0, 99),
            "rating": Ordinal(1, 5),
            "visits": Ordinal(0, 299),
            **{
                name: Categorical([f"{name} {number}" for number in range(k)])
                for name, k in (("tariff", 4), ("device", 12), ("region", 50), ("shop", 250), ("product", 1_000))
            },
        }
    )


def one_question(k: int) -> Any:
    """One categorical attribute with category numbers as its labels."""
    from dither import Categorical, Schema

    return Schema({"category": Categorical([str(number) for number in range(k)])})


@dataclass(frozen=True)
class Made:
    """Records that nobody has, in batches as `engines.records` gives them: every batch is drawn anew."""

    schema: Any
    rows: int
    height: int = 1 << 17

    def batches(self) -> Iterator[Any]:
        """Arrow record batches with all attributes."""
        import numpy as np

        draw = np.random.default_rng(2026)
        for start in range(0, self.rows, self.height):
            yield self._batch(draw, min(self.height, self.rows - start))

    def _batch(self, draw: Any, rows: int) -> Any:
        import pyarrow

        columns = {}
        for name, attribute in self.schema.items():
            values = draw.random(rows) ** 2  # more of the low values than of the high ones
            if attribute.kind == "numeric":
                columns[name] = pyarrow.array(attribute.low + values * (attribute.high - attribute.low))
            elif attribute.kind == "ordinal":
                columns[name] = pyarrow.array(attribute.low + (values * attribute.k).astype("int64"))
            else:
                places = pyarrow.array((values * attribute.k).astype("int32"))
                columns[name] = pyarrow.DictionaryArray.from_arrays(places, pyarrow.array(list(attribute.labels)))
        return pyarrow.record_batch(columns)


def copied(plan: Any, source: Path, output: Path) -> None:
    """The same reports once more, in a file that counts as another one."""
    import pyarrow.parquet as parquet

    from dither.engines.local import _writer

    with parquet.ParquetFile(source) as file, _writer(plan, output) as write:
        for number in range(file.num_row_groups):
            for batch in file.iter_batches(1 << 20, row_groups=[number]):
                write(batch)


def write_records(path: Path, k: int, users: int) -> None:
    """A Parquet file with a column of category numbers."""
    import numpy as np
    import pyarrow
    import pyarrow.parquet as parquet

    values = (np.random.default_rng(2026).random(users) ** 2 * k).astype("int32")
    parquet.write_table(pyarrow.table({"category": values}), path)


def _main(job: Mapping[str, Any]) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    found: Any = {"local": local, "spark": spark, "race": race}[job["job"]](job)
    print(json.dumps([asdict(each) for each in found] if isinstance(found, list) else asdict(found)))


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
