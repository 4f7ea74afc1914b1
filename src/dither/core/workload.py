"""Workloads: what a mechanism would have to answer, and with what.

The planner asks every class of the registry which mechanisms it offers for a workload (`Mechanism.candidates`), and
prices them. So a mechanism that another package registers is planned like any other, and no list of names is kept.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dither.core.mechanism import Domain


@dataclass(frozen=True)
class Workload:
    """A domain, the statistics of it that are asked for, and what there is to spend on them.

    `users` are those who are expected to answer, `most_evaluations` what a report may cost the server. Of records of
    whole numbers, `nominal` lists the dimensions whose values have no order, and `queries` says which queries will be
    asked, if that is known (`ranges.query_workload`). `first` is what a single report may spend of the epsilon of all
    rounds, where a device is asked again and again; None where it is asked once, or where its kept response is sent.
    `phases` is how often other users are asked, each time with what was learned from those before.
    """

    domain: "Domain"
    statistics: tuple[str, ...]
    epsilon: float
    delta: float = 0.0
    users: float = 1.0
    most_evaluations: int = 1 << 62
    nominal: tuple[int, ...] = ()
    queries: Any = None
    first: float | None = None
    phases: int = 1
