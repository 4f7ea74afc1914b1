"""Totals: `sum(x)`, `count` and `count(condition)`.

A total is a mean, or a share, times the number of users. How many reported is known to the collector without any
noise, since each device sends as many reports as the plan says; a larger public number, of whom those who reported are
a random part, can be given when estimating: `plan.estimate(tally, users=1_000_000)`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from dither.core.confidence import InUnits
from dither.core.domains import Categories
from dither.core.estimate import Bounds, Estimate
from dither.questions.conditions import ShareOf
from dither.questions.derived import Derived, Users
from dither.questions.means import MeanOf
from dither.questions.question import CollectedUsers, Column, Expected, Floats, Question, Whole
from dither.schema import Attribute, Schema


@dataclass(frozen=True)
class _TotalOf(Derived[Estimate]):
    """One result times the number of users."""

    group: ClassVar[str] = "means"
    averages: ClassVar[bool] = True
    totals: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[()]:
        return ()

    @property
    def of(self) -> Question:
        """What is summed up over users."""
        return self.rests_on[0]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.of.columns

    @property
    def unit(self) -> float:
        """Of one user."""
        return self.of.unit

    @property
    def ends(self) -> tuple[float, float]:
        """Of one user: how many there are is not known to a question."""
        return self.of.ends

    @property
    def useless(self) -> float:
        """What is summed up says it of itself."""
        return np.inf

    def sensitivities(self, users: Users) -> dict[Question, float]:
        return {self.of: 1.0}

    def predict(self, expected: Mapping[Question, Expected], users: Users) -> float:
        told = expected[self.of]
        return told.users * told.error * self.of.unit

    def derive(self, found: Mapping[Question, Estimate], collected: CollectedUsers) -> Estimate:
        one, users = found[self.of], collected.users
        bounds = None if one.bounds is None else Bounds(one.bounds.low * users, one.bounds.high * users)
        rule = None if one.rule is None else InUnits(one.rule, 0.0, users)
        original = None if one.original is None else self.derive({self.of: one.original}, collected)
        note = f"{self.of} times {users:,} users."
        return replace(
            one,
            value=one.value * users,
            stderr=one.stderr * users,
            question=str(self),
            bounds=bounds,
            rule=rule,
            original=original,
            variance=None,
            notes=(*one.notes, note),
        )

    def sums_of(self, columns: Mapping[str, Any]) -> Whole | None:
        return self.of.sums_of(columns)

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        return {str(self): self.of.truths(sums, users)[str(self.of)] * users}


class SumOf(_TotalOf):
    """The sum of a number over all users, in its own units.

    >>> from dither.schema import Numeric
    >>> str(SumOf("income", Numeric(0, 200_000)).of)
    'mean(income)'
    """

    statistic: ClassVar[str] = "sum"
    title: ClassVar[str] = "sum over all users"
    regional: ClassVar[bool] = True

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return attribute.kind in ("numeric", "ordinal")

    @property
    def rests_on(self) -> tuple[Question, ...]:
        return (MeanOf(self.name, self.attribute),)


class CountOf(_TotalOf):
    """How many users fulfil a condition."""

    statistic: ClassVar[str] = "count"
    title: ClassVar[str] = "number of users"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        """Of no attribute alone: of conditions."""
        return False

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        share = ShareOf.read(schema, inside) if inside.strip() else None
        return None if share is None else cls.counting(share)

    @classmethod
    def restored(cls, schema: Schema, details: Any) -> Self:
        return cls.counting(ShareOf.restored(schema, details))

    @classmethod
    def counting(cls, share: ShareOf) -> Self:
        """Those of whom this is the share."""
        return cls(share.name, share.attribute, workload=None)

    def means(self, text: str) -> bool:
        statistic, _, rest = text.strip().partition("(")
        return statistic.strip() == self.statistic and self._share.means(f"share({rest}")

    @cached_property
    def _share(self) -> ShareOf:
        return ShareOf(self.name, self.attribute)

    @property
    def rests_on(self) -> tuple[Question, ...]:
        return (self._share,)

    @property
    def details(self) -> dict[str, Any] | None:
        return self._share.details


@dataclass(frozen=True)
class EveryoneOf(Derived[Estimate]):
    """How many users there are: `count`, which is known."""

    statistic: ClassVar[str] = "count"
    bare: ClassVar[bool] = True
    group: ClassVar[str] = "means"
    averages: ClassVar[bool] = True
    title: ClassVar[str] = "number of users"

    def __str__(self) -> str:
        return self.statistic

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return False

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        return None if inside.strip() else cls("", None)

    def means(self, text: str) -> bool:
        """With empty brackets or without."""
        statistic, bracket, rest = (part.strip() for part in text.partition("("))
        return statistic == self.statistic and (bracket == "" or rest == ")")

    @property
    def columns(self) -> tuple[Column, ...]:
        return ()

    @cached_property
    def domain(self) -> Categories:
        return Categories(2)

    @property
    def shape(self) -> tuple[()]:
        return ()

    @property
    def unit(self) -> float:
        return 1.0

    @property
    def ends(self) -> tuple[float, float]:
        return 0.0, np.inf

    @property
    def useless(self) -> float:
        return np.inf

    def sensitivities(self, users: Users) -> dict[Question, float]:
        return {}

    def predict(self, expected: Mapping[Question, Expected], users: Users) -> float:
        return 0.0

    def derive(self, found: Mapping[Question, Estimate], collected: CollectedUsers) -> Estimate:
        users, note = collected.users, "Counted, not estimated: each device sends as many reports as the plan says."
        return Estimate(np.asarray(float(users)), np.asarray(0.0), users, collected.guarantee, str(self), notes=(note,))

    def sums_of(self, columns: Mapping[str, Any]) -> Whole:
        return np.zeros((1, 1), dtype=np.int64)

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        return {str(self): np.array([float(users)])}
