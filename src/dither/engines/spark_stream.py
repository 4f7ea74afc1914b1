"""Reports that keep coming, on Spark: each batch of a stream becomes a tally, and counts once.

Spark's Structured Streaming cuts a source into numbered batches. Before a batch it notes in the *checkpoint* what is in
it, and after it that it is done. In between, `foreachBatch` calls what is here: the batch is tallied by the workers,
as any DataFrame of reports, and its tally is put into a folder under the number of the batch (`tally_folder`). Whoever
dies after that and before Spark has noted it computes the same batch again after a restart, and writes the same file.
So the total is the tally of all reports, to the bit: exactly once, from a sink that can only replace.

**What this needs of the source.** That it can be read again from where Spark has noted: files and Kafka can, a socket
cannot. A report that was *sent* twice, under two offsets, is two reports here. The collector drops those (its
idempotency keys), so let it write the files (`dither export`).

**Which stream.** The checkpoint gives a stream its identity, by which the folder knows it again. Workers are told it
with each task: that is the one way to it which works through Spark Connect too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dither.engines import spark_tasks as tasks
from dither.engines.tally_folder import TallyFolder
from dither.errors import DitherError, ParameterError
from dither.planning.plan_tally import PlanTally
from dither.planning.plans import Plan
from dither.planning.tally_sums import merged_tallies

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

Tallied = Callable[[Plan, "DataFrame", str], tuple[PlanTally, ...]]


@dataclass(frozen=True)
class TallyStream:
    """A stream that is running, or was: Spark's query, and the folder in which its tallies are."""

    plan: Plan
    query: "StreamingQuery"
    folder: TallyFolder
    explained: Any

    def wait(self, seconds: int | None = None) -> bool:
        """Wait until it ends, or for so long; whether it has ended. If it failed, the error says why."""
        with self.explained():
            if seconds is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(seconds))

    def stop(self) -> None:
        """Stop it. The same call of `stream` goes on later."""
        self.query.stop()

    def total(self, **options: Any) -> PlanTally:
        """The sum over all batches that are tallied, of this run and earlier ones."""
        return self.folder.total(self.plan, **options)


@dataclass(frozen=True)
class TallyBatch:
    """Tallies a batch of a stream into its place. It is sent to the server of Spark Connect, so it holds no Spark."""

    plan: str
    folder: str
    invalid_reports: str
    allow_simulated: bool
    tallied: Tallied

    def __call__(self, frame: "DataFrame", number: int) -> None:
        """Of refusals, the text gets through Spark; it has marks by which they are found again."""
        try:
            plan, folder = _loaded(self.plan), TallyFolder(self.folder)
            folder.claim(plan.fingerprint, _stream_of(frame))
            found = self.tallied(plan, frame, self.invalid_reports)
            tally = merged_tallies(found, invalid_reports=self.invalid_reports, allow_simulated=self.allow_simulated)
            folder.put(number, tally)
            return
        except DitherError as error:
            kind, reason = type(error).__name__, str(error)
        raise tasks.RefusedError(kind, reason)


def _stream_of(frame: "DataFrame") -> str:
    """The identity of the stream that a batch belongs to: it stays when the stream goes on from its checkpoint."""
    ((found,),) = frame.sparkSession.range(1).mapInArrow(tasks.stream_identity, "stream string").collect()
    if not found:
        raise ParameterError("this is no batch of a stream: Spark.stream is what calls this")
    return found


@lru_cache(maxsize=4)
def _loaded(plan: str) -> Plan:
    return Plan.from_json(plan)
