"""A plan as a device knows it: what is asked, what is sent, what that promises, and which plan it is.

**What a report shows.** Which questions a user answers is drawn on the device without looking at the record, and is
no secret. Row i of a table has its own words of randomness, so a simulation does not depend on how the table is
cut.

**Whose reports they are.** Reports carry a tag, a hash of the plan and of what they answer. So the reports of two
questions cannot be exchanged, even where their mechanisms are equal, and those of another plan are refused.

**Groups.** Where a schema has public attributes, or people choose budgets, a report names its group, and each group
has parts of its own (`planning.groups`). A plan without groups has one budget: itself.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import Channel
from dither.core.checks import checked_choice, checked_count
from dither.core.columns import filled, floats_of
from dither.core.composite_channels import Announced, Independent
from dither.core.crowd import Crowd
from dither.core.draw import Tape, entries
from dither.core.guarantee import Guarantee
from dither.core.mechanism import MOST_COUNTED
from dither.core.parallel import each_chunk
from dither.core.randomness import Stream
from dither.core.reports import Reports
from dither.core.schedule import FRESH, KEPT, ONCE, Schedule
from dither.core.subsets import random_subsets
from dither.errors import DitherError, ParameterError, RowError
from dither.planning import plan_files
from dither.planning.budgets import Region, regions_of, whole_questions
from dither.planning.groups import (
    BUDGET,
    Group,
    PublicColumn,
    group_number,
    group_numbers,
    rows_by_group,
)
from dither.planning.phases import EarlierPhase, Phases
from dither.planning.plan_parts import DevicePart, Part
from dither.planning.prediction import Prediction
from dither.planning.record_check import RecordCheck, checked_record
from dither.planning.record_tables import columns_of, missing_replaced, record_value
from dither.planning.rounds_in_words import refuse_forgetful
from dither.questions.question import Question
from dither.schema import RULES, Asked, Attribute, Public, Schema

if TYPE_CHECKING:
    from dither.planning.plans import Plan

_CHUNK = 1 << 16
_ONE_USER = slice(0, 1)
_WAY_OUT = 'invalid="substitute" puts the substitute of the schema there'


@dataclass(frozen=True)
class DevicePlan:
    """What is asked, by which mechanisms, and what a device does about it: a `Plan` without its server."""

    schema: Schema
    epsilon: float
    delta: float
    users: int
    parts: tuple[Part, ...]
    questions_per_user: int
    prediction: Prediction = field(compare=False, repr=False)
    derived: tuple[Question, ...] = ()
    schedule: Schedule = field(default=ONCE, kw_only=True)
    crowd: Crowd | None = field(default=None, kw_only=True)  # what shuffled batches are to promise, if there are any
    groups: tuple[Group, ...] = field(default=(), kw_only=True)
    phases: Phases | None = field(default=None, kw_only=True)  # of the first plan of several phases
    after: EarlierPhase | None = field(default=None, kw_only=True)  # of a later one

    def __post_init__(self) -> None:
        if self.crowd is not None and self.schedule.mode == KEPT:
            raise ParameterError("no crowd is known to hide responses that are kept: plan without central, or changes")
        if self.groups and len({part.name for part in self.parts}) < len(self.parts):
            raise ParameterError("two groups have the same name: use labels without commas and equals signs")
        counts = sum(part.counts for part in self.parts)
        if counts > MOST_COUNTED:
            fewer = ", of fewer keys, or of fewer groups" if self.groups else ", or of fewer keys"
            raise ParameterError(
                f"a tally of 2^{counts.bit_length() - 1} counts does not fit; ask fewer questions{fewer}"
            )

    @cached_property
    def budgets(self) -> dict[str, "Plan"]:
        """The plans without groups that users are asked by, under the budgets that they choose; "" if there is one."""
        itself: Any = self  # every plan is a `Plan`: this is a side of it
        return {group.budget: group.asked for group in self.groups} or {"": itself}

    @property
    def questions(self) -> tuple[Question, ...]:
        """What is answered: what reports are about, and what is worked out from it."""
        return (*(each for each in self.measured if not each.supporting), *self.derived)

    @property
    def measured(self) -> tuple[Question, ...]:
        """What reports are about."""
        return self._of_any_budget(lambda plan: (each for part in plan.parts for each in part.questions))

    def _of_any_budget(self, questions_of: "Callable[[Plan], Iterable[Question]]") -> tuple[Question, ...]:
        """Questions of any of the budgets, each once, about the whole of their attributes."""
        found = (question for plan in self.budgets.values() for question in questions_of(plan))
        if not self.groups:
            return tuple(found)
        return whole_questions(self.schema, {str(question): question for question in found}.values(), self.narrowed)

    @cached_property
    def regions(self) -> dict[str, dict[str, Region]]:
        """For each budget the attributes whose numbers lie in a region of its users' choice, which is public."""
        return {label: regions_of(self.schema, plan.schema) for label, plan in self.budgets.items()}

    @property
    def narrowed(self) -> set[str]:
        """The attributes that some budget has a region of."""
        return {name for regions in self.regions.values() for name in regions}

    @property
    def attributes(self) -> dict[str, Attribute]:
        """What a record must hold: the attributes that are asked about, and those that are public."""
        return {name: each for name, each in self.schema.items() if name in self.asked_about or name in self.public}

    @cached_property
    def asked_about(self) -> dict[str, Asked]:
        """The attributes that reports are about."""
        asked = {column.name for plan in self.budgets.values() for part in plan.parts for column in part.columns}
        return {name: each for name, each in self.schema.items() if name in asked and not isinstance(each, Public)}

    @property
    def public(self) -> dict[str, Public]:
        """The attributes that a report carries in the clear."""
        return self.schema.public

    @property
    def _public_columns(self) -> dict[str, Any]:
        """The same as what is looked at of a record."""
        return {name: PublicColumn(name, attribute) for name, attribute in self.public.items()}

    # What is promised ----------------------------------------------------------------------------------------

    @cached_property
    def guarantee(self) -> Guarantee:
        """What all that a user reports promises together, in all rounds.

        Where a kept response may change, it is for two histories of values that change at the same times.
        """
        return Guarantee.of(self.lifetime_channel(), self.epsilon, self.delta)

    @property
    def guarantees(self) -> dict[str, Guarantee]:
        """The same of each group, by its name: among records of the group, which itself is not hidden."""
        return {group.name: group.guarantee for group in self.groups}

    @cached_property
    def report_guarantee(self) -> Guarantee:
        """What the reports of a user in one round promise: all there are, unless there are more rounds."""
        return Guarantee.of(self.channel(), self.epsilon, self.delta)

    @property
    def remembers(self) -> bool:
        """Whether a device reports about the same several times, or from a response that it keeps."""
        again = self.schedule.repeats and self.schedule.mode in (FRESH, KEPT)
        return again or any(part.mechanism.remembers for part in self.parts)

    def channel(self) -> Channel:
        """The exact conditional probabilities of all that a user reports once."""
        if self.groups:
            return Announced(tuple(plan.channel() for plan in self.budgets.values()))
        return self._together(part.mechanism.channel() for part in self.parts)

    def lifetime_channel(self) -> Channel:
        """The channel of all that the reports of a user can tell, in all rounds."""
        if self.groups:
            return Announced(tuple(plan.lifetime_channel() for plan in self.budgets.values()))
        return self.schedule.over_time(self._together(part.mechanism.lifetime_channel() for part in self.parts))

    def _together(self, factors: Iterable[Channel]) -> Channel:
        budgets = tuple(part.mechanism.epsilon for part in self.parts)
        odds, total = None, sum(part.weight for part in self.parts)
        if self.questions_per_user == 1 and self._cumulative_weights is not None:
            odds = tuple(Fraction(part.weight, total) for part in self.parts)
        looks_at = tuple(frozenset(column.name for column in part.columns) for part in self.parts)
        return Independent(tuple(factors), self.questions_per_user, budgets, odds, looks_at)

    @property
    def kept(self) -> bool:
        """Whether that is at most what is declared, of each budget."""
        if self.groups and not all(plan.kept for plan in self.budgets.values()):
            return False
        return self.guarantee.epsilon <= self.epsilon and self.guarantee.delta <= self.delta

    # What is sent --------------------------------------------------------------------------------------------

    def randomize(
        self,
        table: Any,
        *,
        seed: int | None = None,
        invalid: str = "error",
        missing: str = "substitute",
        first: int = 0,
    ) -> dict[str, Reports]:
        """For each part of the plan the reports of those who were asked.

        `table` is a mapping from names to columns, a pandas or Polars data frame, an Arrow table, a list of
        dictionaries or one dictionary. What is missing (null, None, NaN) counts as the schema's substitute, unless
        `missing="error"` refuses it. What is wrong is refused, unless `invalid="substitute"` puts the substitute there
        too, as devices do; these hold the record of one user, and call `report`. Where the table is a piece of a
        larger one, `first` is the number of its first row there: a simulation is then the same however it is cut.
        The columns of public attributes, and the one named `budget` where people choose one, name the group of a row.
        Users of a plan with rounds have to be known again: `randomize_rounds` is for trials with them.
        """
        refuse_forgetful(self.schedule)
        first = checked_count("first", first, 0, plan_files.MOST_WHOLE)
        columns, users = columns_of(table, self.attributes)
        private = {name: columns[name] for name in self.asked_about}
        if checked_choice("missing", missing, RULES[::-1]) == "substitute" and not missing_replaced(table):
            private = {name: filled(column, self.schema[name].substitute) for name, column in private.items()}
        tape = Stream.secure() if seed is None else Stream.seeded(seed, self.fingerprint)
        try:
            if self.groups:
                numbers = group_numbers(self.public, columns, invalid, missing)
                return self._reports_of_groups(private, numbers, tape, first, invalid)
            values = {part.name: part.encode(private, users, invalid) for part in self.parts}
            return self._all_reports(values, users, tape, first)
        except RowError as error:
            wrong = error.but(row=first + error.row, substitute=error.substitute or _WAY_OUT)
        raise wrong

    def report(self, record: Any, *, seed: int | None = None) -> dict[str, Reports]:
        """What the device of one user sends: for each part of the plan one report, or none if it was not drawn.

        `record` maps names to values. It counts as one user and is always reported, whatever it holds or lacks: a
        substitute stands in for what does not fit, and no error tells about it. Which parts are drawn does not depend
        on it, and what these do not ask for is not looked at: neither can the time that a report takes tell of it.
        Public values are another matter: a record whose public values name no group of the plan is refused.

        >>> from dither import Numeric, Ordinal, plan
        >>> best = plan(Schema({"age": Ordinal(0, 99), "income": Numeric(0, 200_000)}), 1.0, users=100_000)
        >>> records = [{"age": 41, "income": 30_000}, {"age": [1, 2]}, {}, None]
        >>> [sum(map(len, best.report(record).values())) for record in records]
        [1, 1, 1, 1]
        """
        refuse_forgetful(self.schedule)
        return self.fresh_report(record, seed=seed)

    def fresh_report(self, record: Any, *, seed: int | None = None) -> dict[str, Reports]:
        """As `report`, of one round: what a ledger keeps. A device that sends several without one spends as often."""
        tape = Stream.secure() if seed is None else Stream.seeded(seed, self.fingerprint)
        if self.groups:
            return self._report_of_group(self.groups[group_number(self.public, record)], record, tape)
        drawn = self._drawn_parts(tape, _ONE_USER)[0].tolist()
        return {
            part.name: part.reports(part.encode(record), tape) if place in drawn else part.nothing(tape.simulated)
            for place, part in enumerate(self._device_parts)
        }

    def check(self, record: Any) -> RecordCheck:
        """What a device would silently put in the place of values that do not fit: for tests of a device.

        >>> from dither import Numeric, Ordinal, plan
        >>> best = plan(Schema({"age": Ordinal(0, 99), "income": Numeric(0, 200_000)}), 1.0, users=100_000)
        >>> best.check({"age": 41, "income": 30_000}).fits
        True
        >>> print(best.check({"age": 141, "Income": 30_000}))
        The record does not fit the plan.
        attribute  what a device does
        age        the value is not a whole number from 0 to 99; a device sends 99
        income     the record does not have it; a device sends 100000
        Not asked for: Income.
        """
        asked, attributes = self.parts, self.attributes
        try:
            own = self.groups[group_number(self.public, record)].asked if self.groups else None
        except DitherError:  # it names no group: that is what is wrong with it
            own = None
        if own is not None:
            asked, attributes = own.parts, {**attributes, **own.attributes}
        columns = {column.name: column for part in asked for column in part.columns}
        return checked_record(record, {**columns, **self._public_columns}, attributes)

    def encoded(self, record: Any) -> dict[str, NDArray]:
        """For each part what its mechanism takes from the record of one user; substitutes for what does not fit."""
        if not self.groups:
            return {part.name: part.encode(record) for part in self._device_parts}
        own = {label: plan.encoded(record) for label, plan in self.budgets.items()}
        return {
            group.part(part).name: own[group.budget][part.name] for group in self.groups for part in group.asked.parts
        }

    def public_record(self, record: Any) -> dict[str, object]:
        """Of the record of one user what a report carries in the clear."""
        return {name: record_value(record, name) for name in self.public}

    @cached_property
    def _device_parts(self) -> tuple[DevicePart, ...]:
        return tuple(DevicePart.of(part, self.tag(part)) for part in self.parts)

    def sent(
        self, values: Mapping[str, NDArray], users: int, tape: Stream, first: int = 0
    ) -> Iterator[tuple[Part, NDArray[np.intp], Reports]]:
        """For each part who answers it, and their reports, with the words of any stream."""
        for part, rows in zip(self.parts, self._asked(tape, users, first), strict=True):
            yield part, rows, self._reports(part, values[part.name], rows, tape, first)

    def sent_in_group(
        self, group: Group, values: Mapping[str, NDArray], users: int, tape: Stream
    ) -> Iterator[tuple[Part, NDArray[np.intp], Reports]]:
        """The same of users who are all in one group, with the names of its parts without it."""
        drawn = group.asked._asked(_draws(tape, group.budget), users)
        for part, rows in zip(group.asked.parts, drawn, strict=True):
            yield part, rows, self._reports(group.part(part), values[part.name], rows, tape, 0)

    def _reports_of_groups(
        self, columns: Mapping[str, Any], numbers: NDArray[np.int64], tape: Stream, first: int, invalid: str
    ) -> dict[str, Reports]:
        """The reports of all groups. Which parts a row answers is drawn as its budget says, whatever its group is."""
        users, found = len(numbers), dict[str, Reports]()
        for label, plan in self.budgets.items():
            own = [place for place, group in enumerate(self.groups) if group.budget == label]
            drawn, looked_at = plan._asked(_draws(tape, label), users, first), columns
            if self.regions[label]:
                looked_at = self._in_regions(plan, columns, np.isin(numbers, own))
            for part, rows in zip(plan.parts, drawn, strict=True):
                values, split = part.encode(looked_at, users, invalid), rows_by_group(rows, numbers, len(self.groups))
                for place in own:
                    named = self.groups[place].part(part)
                    found[named.name] = self._reports(named, values, split[place], tape, first)
        return {part.name: found[part.name] for part in self.parts}

    def _in_regions(self, plan: "Plan", columns: Mapping[str, Any], own: NDArray[np.bool_]) -> dict[str, Any]:
        """The columns as the users of a budget with regions are asked; the rows of others are not looked at.

        What stands in for a missing value is moved into the region, as a device does.
        """
        found = dict(columns)
        for name in regions_of(self.schema, plan.schema):
            values = np.array(floats_of(columns[name]))
            if values.shape == own.shape:  # otherwise it is refused where it is encoded
                whole: Any = self.schema[name]
                region: Any = plan.schema[name]
                values[~own | (values == whole.substitute)] = region.substitute
                found[name] = values
        return found

    def _report_of_group(self, group: Group, record: Any, tape: Stream) -> dict[str, Reports]:
        """What the device of one user of a group sends; of the parts of all others, nothing."""
        drawn = group.asked._drawn_parts(_draws(tape, group.budget), _ONE_USER)[0].tolist()
        parts = [group.asked.parts[place] for place in drawn]
        device = [DevicePart.of(each, self.tag(each)) for each in map(group.part, parts)]
        return {
            **self._nothing[tape.simulated],
            **{each.name: each.reports(each.encode(record), tape) for each in device},
        }

    @cached_property
    def _nothing(self) -> dict[bool, dict[str, Reports]]:
        """What is sent where nothing was drawn, simulated or not."""
        return {kind: {part.name: part.nothing(kind) for part in self._device_parts} for kind in (False, True)}

    def _all_reports(
        self, values: Mapping[str, NDArray], users: int, tape: Stream, first: int = 0
    ) -> dict[str, Reports]:
        return {part.name: reports for part, _, reports in self.sent(values, users, tape, first)}

    def _asked(self, tape: Tape, users: int, first: int = 0) -> list[NDArray[np.intp]]:
        """For each part the rows of the table that answer it, drawn without looking at them."""
        count = len(self.parts)
        if self.questions_per_user == count:
            return [np.arange(users)] * count
        drawn = np.empty((users, self.questions_per_user), dtype=np.min_scalar_type(count))

        def draw(rows: slice) -> None:
            drawn[rows] = self._drawn_parts(tape, slice(first + rows.start, first + rows.stop))

        each_chunk(draw, users, _CHUNK)
        order = np.argsort(drawn, axis=None, kind="stable") // self.questions_per_user
        return np.split(order, np.cumsum(np.bincount(drawn.ravel(), minlength=count))[:-1])

    def _drawn_parts(self, tape: Tape, rows: slice) -> NDArray[np.integer]:
        """For each row of the tape the numbers of the parts that are drawn."""
        count, cumulative = len(self.parts), self._cumulative_weights
        if self.questions_per_user == count:
            return np.tile(np.arange(count), (rows.stop - rows.start, 1))
        if cumulative is not None:
            return entries(cumulative, tape, rows)[:, None]
        return random_subsets(count, self.questions_per_user, tape, rows)

    @cached_property
    def _cumulative_weights(self) -> tuple[int, ...] | None:
        """Of the parts, if they are not all drawn equally often."""
        weights = [part.weight for part in self.parts]
        return tuple(accumulate(weights)) if len(set(weights)) > 1 else None

    def _reports(self, part: Part, values: NDArray, rows: NDArray[np.intp], tape: Stream, first: int) -> Reports:
        # Secure words need no address that a cut of the table keeps: those that lie together come faster.
        numbers = rows + first if tape.simulated else None
        return DevicePart.of(part, self.tag(part)).reports(values[rows], tape, numbers)

    # Identity ------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All that defines the plan, ready for JSON; predictions are not part of it."""
        return {
            "format": plan_files.FORMAT,
            "schema": self.schema.to_dict(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "users": self.users,
            "reported": self.questions_per_user,
            "parts": [
                {
                    "questions": [str(question) for question in part.questions],
                    "weight": part.weight,
                    "mechanism": part.mechanism.to_dict(),
                    **({"budget": label} if label else {}),
                }
                for label, plan in self.budgets.items()
                for part in plan.parts
            ],
            **({"derived": [str(question) for question in self.derived]} if self.derived else {}),
            **({"conditions": conditions} if (conditions := self._conditions) else {}),
            **({"schedule": self.schedule.to_dict()} if self.schedule.repeats else {}),
            **({} if self.crowd is None else {"crowd": self.crowd.to_dict()}),
            **({"groups": [group.users for group in self.groups]} if self.groups else {}),
            **({} if self.phases is None else {"phases": self.phases.to_dict()}),
            **({} if self.after is None else {"after": self.after.to_dict()}),
            **(
                {
                    BUDGET + "s": {
                        label: {
                            "epsilon": plan.epsilon,
                            "reported": plan.questions_per_user,
                            **({"regions": regions} if (regions := _as_lists(self.regions[label])) else {}),
                        }
                        for label, plan in self.budgets.items()
                    }
                }
                if BUDGET in self.public
                else {}
            ),
        }

    @property
    def _conditions(self) -> dict[str, Any]:
        """What a device needs of questions beside their texts."""
        return {str(question): question.details for question in self.questions if question.details is not None}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of `to_dict`: equal exactly for equal plans."""
        return plan_files.digest(self.to_dict())

    def tag(self, part: Part) -> str:
        """What the reports of a part carry: they answer these questions of this plan, and no others."""
        return hashlib.sha256(f"{self.fingerprint} {part.name}".encode()).hexdigest()


def _as_lists(regions: Mapping[str, Region]) -> dict[str, list[float]]:
    return {name: list(ends) for name, ends in regions.items()}


def _draws(tape: Stream, budget: str) -> Stream:
    """A tape for the draws of each budget: they may read a lane with different widths, and no word may serve twice."""
    return tape.spawn("draws of a budget", budget)
