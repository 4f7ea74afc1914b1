"""Means of a number in groups: `mean(income by job)`, with the shares of the groups.

Each user is in one group and has one number. One report tells about both: it is that of a user who holds one key of
many, the label of the group, with the number as its value, so the mechanisms for keys and values ask it
(`questions.keys`). A group's mean is a ratio, the part of the mean over all users that comes from the group over the
group's share; where a group hardly stands out of the noise its mean is unknown, and its interval is the whole domain
(Fieller 1954, `core.confidence`).

The error of a group's mean goes with one over its share, so a prediction needs the sizes of the groups: a prior of the
labels tells them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.estimate import Estimate
from dither.core.mechanism import Mechanism
from dither.core.sparse_domain import row_dtype
from dither.core.tally import Tally
from dither.errors import ParameterError
from dither.estimation.linear_readings import LinearReading
from dither.questions.derived import Derived, Users
from dither.questions.histograms import HistogramOf
from dither.questions.keys import ConditionalMeanOf, KeyMeanOf, KeyQuestion, PresenceOf
from dither.questions.means import MeanOf
from dither.questions.question import FINE, CollectedUsers, Column, Expected, Floats, Question, Whole, from_steps, steps
from dither.schema import Attribute, Categorical, KeyValue, Numeric, Ordinal, Schema

_BY = " by "
_FAR = 0.5  # from the middle to the end of a domain: where means are believed to be
_SMALL = 4.0  # times smaller than equal groups would be: for smaller ones nobody is asked more


@dataclass(frozen=True)
class GroupedNumber:
    """A number, and the labels by which users are grouped."""

    number: Numeric | Ordinal
    groups: Categorical

    @cached_property
    def keys(self) -> KeyValue:
        """One key of many, with a value."""
        return KeyValue(self.groups.labels, 1, float(self.number.low), float(self.number.high))

    @property
    def kind(self) -> str:
        """That of its keys."""
        return self.keys.kind

    @property
    def domain(self) -> Any:
        """What mechanisms take."""
        return self.keys.domain

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the groups."""
        return self.groups.labels

    @property
    def d(self) -> int:
        """How many groups there are."""
        return self.keys.d

    @property
    def size(self) -> int:
        """Each user is in one of them."""
        return 1

    @property
    def low(self) -> float:
        """Of the number."""
        return self.keys.low

    @property
    def high(self) -> float:
        """Of the number."""
        return self.keys.high

    @property
    def centre(self) -> float:
        """Of the number."""
        return self.keys.centre

    @property
    def half_width(self) -> float:
        """Of the number."""
        return self.keys.half_width


class _OfGroups(Question):
    """Questions about a number in groups, of which the name is "income by job"."""

    attribute: GroupedNumber

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        """Of no attribute alone."""
        return False

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        number, by, groups = (part.strip() for part in inside.partition(_BY))
        if not by or number not in schema or groups not in schema:
            return None
        if schema[number].kind not in ("numeric", "ordinal") or schema[groups].kind != "categorical":
            raise ParameterError("a mean in groups is that of a number by labels, as in mean(income by job)")
        return cls(f"{number}{_BY}{groups}", GroupedNumber(schema[number], schema[groups]))  # type: ignore[arg-type]

    @property
    def _both(self) -> tuple[str, str]:
        number, _, groups = self.name.partition(_BY)
        return number, groups

    @property
    def columns(self) -> tuple[Column, ...]:
        number, groups = self._both
        return HistogramOf(groups, self.attribute.groups), MeanOf(number, self.attribute.number)


class _InOneReport(_OfGroups, KeyQuestion):
    """What one report tells: who is in which group, and the number."""

    def join(self, encoded: Sequence[NDArray]) -> NDArray:
        rows = np.empty(len(encoded[0]), dtype=row_dtype(1))
        rows["key"], rows["value"] = encoded[0][:, None], encoded[1][:, None]
        return rows

    def select(self, own: Mapping[str, Estimate], place: int, count: int) -> Estimate:
        return own[self.needs]

    def worth(self, worths: Any, place: int, count: int) -> Any:
        return next((worth for worth in worths if worth.question == self.needs), None)

    @property
    def beside(self) -> tuple[Question, ...]:
        return (AmongGroupsOf(self.name, self.attribute),)

    def sums_of(self, columns: Mapping[str, Any]) -> Whole:
        encoded = [each.encode(columns[each.name], "substitute") for each in self.columns]
        d = self.attribute.d
        return np.stack([np.bincount(encoded[0], minlength=d), *steps(encoded[1], encoded[0], d)])

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        told = self.origin + self.unit * (from_steps(sums) / users) if self.averages else sums[0] / users
        return {str(self): told}


class GroupSharesOf(_InOneReport, PresenceOf):
    """The shares of the groups: `groups(income by job)`."""

    statistic: ClassVar[str] = "groups"
    group: ClassVar[str] = "shares"
    title: ClassVar[str] = "shares of the groups"

    @property
    def sought(self) -> str:
        return f"the share of people with each label of {self._both[1]}"

    @property
    def about(self) -> str:
        return self._both[1]

    @property
    def rows(self) -> Floats | None:
        return np.eye(self.size) if self.size <= FINE else None

    def variance_of_shares(self, name: str, size: int, mechanism: Mechanism, share: float) -> float | None:
        if name != self._both[1] or size != self.size:
            return None
        reading: Any = mechanism.priced_reading
        return replace(reading, about=self.needs).worst_variance(share)

    def tells(
        self, mechanism: Mechanism, tally: Tally, own: Estimate, among: int
    ) -> Iterator[tuple[str, LinearReading]]:
        """The shares of the labels."""
        if not own.n or self.size > FINE:
            return
        reading: Any = mechanism.reading
        rows, known = np.eye(self.size), reading.covariance_of_keys(self.needs, own, among)
        if known is None:
            yield self._both[1], LinearReading.one_by_one(rows, own.value, own.stderr**2, own.n)
        else:
            yield self._both[1], LinearReading(rows, own.value, known, own.n)


class GroupSumsOf(_InOneReport, KeyMeanOf):
    """What each group adds to the mean over all users; who is not in it counts as the middle of the domain."""

    statistic: ClassVar[str] = "group_sums"
    supporting: ClassVar[bool] = True

    @cached_property
    def _of_all(self) -> MeanOf:
        """What they add up to."""
        return MeanOf(self._both[0], self.attribute.number)

    def variance_of_mean(self, name: str, mechanism: Mechanism, share: float) -> float | None:
        """Of the one group that a user is in, and of all that he is not in."""
        reading: Any = mechanism.priced_reading
        if name != self._of_all.name or reading.law.others is None:
            return None
        absent, more, _ = replace(reading, about=self.needs).worst_parts(share)
        return (self.size * absent + more) / reading.law.asked

    def tells(
        self, mechanism: Mechanism, tally: Tally, own: Estimate, among: int
    ) -> Iterator[tuple[str, LinearReading]]:
        """The mean over all users, which is the sum of what groups add to it."""
        reading: Any = mechanism.reading
        known = reading.covariance_of_keys(self.needs, own, among) if own.n else None
        if known is not None and self._of_all.rows is not None:
            total, variance = np.array([own.value.sum()]), np.full((1, 1), known.sum())
            yield self._of_all.name, LinearReading(self._of_all.rows, total, variance, own.n, self._of_all.slack)


class AmongGroupsOf(_OfGroups, ConditionalMeanOf):
    """The mean in each group, as one report tells it."""

    statistic: ClassVar[str] = "among_groups"
    supporting: ClassVar[bool] = True

    def select(self, own: Mapping[str, Estimate], place: int, count: int) -> Estimate:
        return own["conditional_mean"]

    def answered_by(self, own: Mapping[str, Estimate]) -> bool:
        return "conditional_mean" in own


@dataclass(frozen=True)
class GroupMeansOf(_OfGroups, Derived[Estimate]):
    """The mean of a number in each group."""

    statistic: ClassVar[str] = "mean"
    averages: ClassVar[bool] = True
    group: ClassVar[str] = "keys"
    title: ClassVar[str] = "mean in groups"

    @property
    def sought(self) -> str:
        number, groups = self._both
        return f"the mean of {number} of people with each label of {groups}"

    @property
    def shape(self) -> tuple[int]:
        return (self.attribute.d,)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.attribute.labels

    @property
    def rests_on(self) -> tuple[Question, ...]:
        return GroupSharesOf(self.name, self.attribute), GroupSumsOf(self.name, self.attribute)

    @property
    def remark(self) -> str:
        return (
            "predicted is the error of the mean of a group, on average over the groups that will stand out of the "
            "noise in nine of ten collections: of groups as large as the prior of the labels says or, without one, of "
            "groups of equal size, whose means are half way between the middle of the domain and its end."
        )

    @property
    def depends_on(self) -> tuple[Question, ...]:
        """The shares of the groups, and the number."""
        number, groups = self._both
        return HistogramOf(groups, self.attribute.groups), MeanOf(number, self.attribute.number)

    def _believed(self, users: Users) -> tuple[Floats, float]:
        """The shares of the groups, and their common mean, from -1 to 1."""
        d, (labels, number) = self.attribute.d, self.depends_on
        known, values = users.get(labels), users.get(number)
        sizes = np.full(d, 1 / d)
        if known is not None:
            sizes = np.bincount(known.values, weights=known.weights, minlength=d).astype(np.float64)
        return sizes, _FAR if values is None else float(values.weights @ values.values)

    def sensitivities(self, users: Users) -> dict[Question, float]:
        """A mean is a sum over a share. For groups that are far smaller than others nobody is asked more."""
        sizes, mean = self._believed(users)
        slope = float(np.mean(np.maximum(sizes, 1 / self.attribute.d / _SMALL) ** -2.0))
        shares, sums = self.rests_on
        return {shares: mean**2 * slope, sums: slope}

    def predict(self, expected: Mapping[Question, Expected], users: Users) -> float:
        told = expected[self.rests_on[0]]
        sizes, mean = self._believed(users)
        reading: Any = told.mechanism.reading
        errors = reading.conditional_error(sizes, np.full(sizes.size, mean), told.reports, told.users)
        seen = np.isfinite(errors)
        return self.unit * float(np.sqrt(np.mean(errors[seen] ** 2))) if seen.any() else self.unit

    def derive(self, found: Mapping[Question, Estimate], collected: CollectedUsers) -> Estimate:
        among = found.get(AmongGroupsOf(self.name, self.attribute))
        if among is None:
            unknown: Any = self.unknown(collected.guarantee, "")
            return self.decode(unknown)
        note = "A mean is unknown where its group hardly stands out of the noise."
        return replace(among, question=str(self), notes=(*among.notes, note))

    def sums_of(self, columns: Mapping[str, Any]) -> Whole | None:
        return self.rests_on[1].sums_of(columns)

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        total, own = from_steps(sums), self.attribute
        with np.errstate(invalid="ignore"):
            among = own.centre + own.half_width * (total / sums[0])
        return {str(self): among}
