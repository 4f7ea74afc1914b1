"""What the ledger sees of a plan: which questions it asks, and what each answer depends on.

A plan is known by its shape alone, so that nothing here depends on planning. A report of the *empty* record costs
nothing, since it knows nothing; but which questions it answers is drawn as for any other. It serves as the draw. Where
a report names a group in the clear, it is that of a record with the public values alone. A device stays in the group
that it first reported in: what it has sent is repeated, whatever its public values are later.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.core.randomness import Stream
from dither.core.reports import Reports
from dither.core.schedule import ONCE, Schedule
from dither.errors import DomainError, ParameterError, ReportError
from dither.privacy.certificate import Promising


class PartLike(Protocol):
    """What one report answers."""

    @property
    def name(self) -> str:
        """Its questions."""
        ...

    @property
    def mechanism(self) -> Mechanism:
        """Who makes the report."""
        ...


class PlanLike(Promising, Protocol):
    """Questions of which every user answers some, drawn without looking at the record.

    Its guarantee is what one report to each drawn question promises, all together.
    """

    @property
    def parts(self) -> Sequence[PartLike]:
        """What may be drawn."""
        ...

    def report(self, record: Any) -> Mapping[str, Reports]:
        """For each part one report, or none if it was not drawn."""
        ...

    def encoded(self, record: Any) -> Mapping[str, NDArray]:
        """For each part what its mechanism takes from the record of one user."""
        ...


@runtime_checkable
class Scheduled(Protocol):
    """A plan that knows how often it asks."""

    @property
    def schedule(self) -> Schedule:
        """In how many rounds, and what a device does in each."""
        ...

    def fresh_report(self, record: Any) -> Mapping[str, Reports]:
        """For each part one report of one round, or none if it was not drawn."""
        ...


@runtime_checkable
class Announcing(Protocol):
    """A plan whose reports carry some values in the clear."""

    def public_record(self, record: Any) -> Mapping[str, object]:
        """Of the record of one user what is public."""
        ...


class Outline(NamedTuple):
    """What a plan or a mechanism costs for one round; where it has several of its own, for all of them."""

    fingerprint: str
    guarantee: Guarantee
    schedule: Schedule = ONCE


class Prompt(NamedTuple):
    """A plan put to one record: a draw, and for each part what its answer would be made from."""

    drawn: tuple[str, ...]
    none: dict[str, Reports]  # of each part no report: the type and the tag
    values: dict[str, NDArray]
    mechanisms: dict[str, Mechanism]

    def fresh(self, part: str) -> bytes:
        """A new report, from the randomness of the operating system."""
        return self.mechanisms[part].drawn(self.values[part], Stream.secure()).tobytes()

    def response(self, part: str) -> bytes:
        """A new response to keep, likewise."""
        return self.mechanisms[part].response(self.values[part], Stream.secure()).tobytes()

    def said(self, part: str, response: bytes) -> bytes:
        """A report of one round from a kept response."""
        kept = np.frombuffer(bytearray(response), dtype=self.none[part].dtype)
        return self.mechanisms[part].said(kept, Stream.secure()).tobytes()

    def reports(self, stored: Mapping[str, bytes]) -> dict[str, Reports]:
        """Stored reports, as the plan gives them."""
        return {name: self._rows(name, stored.get(name, b"")) for name in self.none}

    def _rows(self, name: str, stored: bytes) -> Reports:
        none = self.none[name]
        rows = np.frombuffer(bytearray(stored), dtype=none.dtype)
        return Reports.wrap(rows, none.maker)


def outlined(plan: PlanLike | Mechanism) -> Outline:
    """Who asks, and at what price."""
    if not isinstance(plan, Promising):
        raise ParameterError("the ledger answers a plan, as dither.plan makes it, or a mechanism")
    guarantee: Guarantee = plan.guarantee
    if guarantee.simulated:
        raise ReportError("simulated reports protect nobody; the ledger keeps none")
    if (guarantee.model, guarantee.neighbours) != ("local", "replace"):
        raise ParameterError(
            "a device keeps account of what its own reports tell: of local guarantees, for replacing a record. This "
            "one is of another kind, and does not add up with them: state it by itself"
        )
    return Outline(plan.fingerprint, guarantee, plan.schedule if isinstance(plan, Scheduled) else ONCE)


def prompted(plan: PlanLike | Mechanism, record: Any) -> Prompt:
    """Put a plan to a record, or a mechanism to the value of one user."""
    if isinstance(plan, Mechanism):
        return _of_mechanism(plan, record)
    public = plan.public_record(record) if isinstance(plan, Announcing) else {}
    shown = plan.fresh_report(public) if isinstance(plan, Scheduled) else plan.report(public)
    if any(reports.simulated for reports in shown.values()):
        raise ReportError("simulated reports protect nobody; the ledger keeps none")
    return Prompt(
        tuple(name for name, reports in shown.items() if len(reports)),
        {name: Reports.wrap(np.asarray(reports)[:0], reports.maker) for name, reports in shown.items()},
        dict(plan.encoded(record)),
        {part.name: part.mechanism for part in plan.parts},
    )


def _of_mechanism(mechanism: Mechanism, value: Any) -> Prompt:
    """A plan with one question. It names no substitute, so a value outside the domain is refused."""
    checked = mechanism.reading.domain.check(value)
    if len(checked) != 1:
        raise DomainError("a device answers for one user: give one value")
    none = Reports.wrap(np.empty(0, dtype=mechanism.dtype), mechanism.fingerprint)
    return Prompt(("",), {"": none}, {"": checked}, {"": mechanism})


def canonical(value: NDArray) -> bytes:
    """The same for values that a mechanism does not tell apart: integers of any type, keys in any order, words."""
    names = value.dtype.names
    if names == ("key", "value") and value["key"].ndim == 2:  # a sparse vector, as in core.sparse_domain
        keys, numbers = value["key"][0], value["value"][0]
        order = [place for place in np.argsort(keys, kind="stable") if keys[place] >= 0]
        return canonical(keys[order]) + canonical(numbers[order])
    if names:
        return b"".join(canonical(value[name]) for name in names)
    if value.dtype.kind in "iu":
        return b"i" + value.astype("<i8").tobytes()
    if value.dtype.kind == "S":
        return b"w" + b"\0".join(value.tolist())  # a word, as in core.words, which has no zero in it
    return b"f" + (value.astype("<f8") + 0.0).tobytes()  # minus zero is zero
