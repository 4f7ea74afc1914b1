"""What an engine does, and engines by name."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from dither.core.registry import Registry

if TYPE_CHECKING:
    from dither.engines.local import Progress
    from dither.planning.plan_tally import PlanTally
    from dither.planning.plans import Plan


class Engine(Protocol):
    """Where reports are made and tallied."""

    def tally(
        self,
        plan: "Plan",
        source: Any,
        *,
        invalid_reports: str = "error",
        allow_simulated: bool = False,
        progress: "Progress | None" = None,
    ) -> "PlanTally":
        """The sums over all reports of a source. Invalid and simulated ones are treated as asked."""
        ...

    def randomize(
        self,
        plan: "Plan",
        records: Any,
        output: Any,
        *,
        seed: int | None = None,
        invalid: str = "error",
        progress: "Progress | None" = None,
    ) -> int:
        """Write the reports of records, which are a source or what `engines.records` has opened; how many there are."""
        ...


ENGINES: Registry[Callable[[], Engine]] = Registry(
    "engine", {"Local": "dither.engines.local", "Spark": "dither.engines.spark"}
)


def engine(name: str) -> Engine:
    """An engine by its name: `"local"` or `"spark"`."""
    return ENGINES.find(name)()
