"""All that one device sends for a plan, as one row: what an adversary sees, and what an audit attacks.

A part of a plan keeps its own budget, and its mechanism can be audited alone. That all parts together keep the plan's,
that which of them are drawn does not depend on the record, and that no word of randomness is shared between them shows
only in whole reports. So a plan is audited as one mechanism whose inputs are a few records: every value at the first of
its domain's extremes, every value at the last, in the middle, and alternating.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.core.guarantee import Guarantee
from dither.core.randomness import Stream

if TYPE_CHECKING:
    from dither.planning.groups import Group
    from dither.planning.plan_parts import Part
    from dither.planning.plans import Plan


@dataclass(frozen=True)
class DeviceReports:
    """A plan as an audit sees it: from the number of a record to everything that is sent about it."""

    plan: "Plan"
    group: "Group | None" = None  # whose users are attacked, where a report names one

    @property
    def guarantee(self) -> Guarantee:
        """What all that a device sends promises together."""
        return self.plan.guarantee if self.group is None else self.group.guarantee

    @property
    def _parts(self) -> "tuple[Part, ...]":
        """What its users answer."""
        return self.plan.parts if self.group is None else self.group.asked.parts

    def inputs(self) -> NDArray[np.int64]:
        """The numbers of the records."""
        return np.arange(5)

    @cached_property
    def _records(self) -> dict[str, NDArray[Any]]:
        """For each part what its mechanism takes of each record."""
        found = {}
        for number, part in enumerate(self._parts):
            spread = np.asarray(part.mechanism.reading.domain.spread())
            last = len(spread) - 1
            other = 0 if number % 2 else last
            found[part.name] = spread[[0, last, last // 2, other, last - other]]
        return found

    @cached_property
    def dtype(self) -> np.dtype:
        """For each part whether it was drawn, and the fields of its report."""
        fields: list[tuple[Any, ...]] = []
        for number, part in enumerate(self._parts):
            own = part.mechanism.dtype
            fields += [(f"drawn {number}", np.uint8), *((f"{name} {number}", own[name]) for name in own.names or ())]
        return np.dtype(fields)

    def randomize(self, values: Any, *, seed: int | None = None) -> NDArray[Any]:
        """One row for each record, by its number; what is not sent is zero."""
        chosen = np.asarray(values)
        tape = Stream.secure() if seed is None else Stream.seeded(seed, self.plan.fingerprint)
        rows = np.zeros(len(chosen), dtype=self.dtype)
        records = {name: record[chosen] for name, record in self._records.items()}
        sent = (
            self.plan.sent(records, len(chosen), tape)
            if self.group is None
            else self.plan.sent_in_group(self.group, records, len(chosen), tape)
        )
        for number, (part, who, reports) in enumerate(sent):
            rows[f"drawn {number}"][who] = 1
            for name in part.mechanism.dtype.names or ():
                rows[f"{name} {number}"][who] = np.asarray(reports)[name]
        return rows

    def __repr__(self) -> str:
        return f"all reports of a plan of {len(self.plan.questions)} questions"
