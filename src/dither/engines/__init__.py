"""Engines: where reports are made and tallied, with the same plan and to the same bit.

- `rows`: a plan's reports as rows of a table
- `records`: raw records from files, queries and data frames, a batch at a time
- `paths`, `pieces`, `journal`: files that are meant, files of reports in pieces, what an interrupted run has counted
- `local`: this machine, all its cores
- `spark`: a Spark session, classic or Connect

A plan says what is promised; an engine only how fast it is done. Whichever engine, and however reports are cut over
files, threads and machines: a tally is a sum of integers, and comes out the same to the bit.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from dither.errors import ParameterError

if TYPE_CHECKING:
    from dither.engines.local import Local as Local
    from dither.engines.local import Progress
    from dither.engines.records import RecordStream
    from dither.engines.spark import Spark as Spark
    from dither.planning.plan_tally import PlanTally
    from dither.planning.plans import Plan

ENGINES = {"local": "Local", "spark": "Spark"}


class Engine(Protocol):
    """Where reports are made and tallied."""

    def tally(self, plan: "Plan", source: Any, *, progress: "Progress | None" = None) -> "PlanTally":
        """The sums over all reports of a source."""
        ...

    def randomize(
        self,
        plan: "Plan",
        records: "RecordStream",
        output: Any,
        *,
        seed: int | None = None,
        invalid: str = "error",
        progress: "Progress | None" = None,
    ) -> int:
        """Write the reports of records; the number of records."""
        ...


def engine(name: str) -> Engine:
    """An engine by its name: `"local"` or `"spark"`."""
    if name not in ENGINES:
        raise ParameterError(f"there is no engine of this name; there are {', '.join(ENGINES)}")
    return __getattr__(ENGINES[name])()


def __getattr__(name: str) -> Any:
    homes = {cls: f"dither.engines.{module}" for module, cls in ENGINES.items()}
    if name in homes:
        return getattr(import_module(homes[name]), name)
    raise AttributeError(f"module 'dither.engines' has no attribute {name!r}")
