"""Plans: which mechanism asks for what, at what price. The function is `dither.plan`.

A plan has a question for each attribute, a mechanism for each question, and a rule that says who is asked what. It
is made before a single report is collected, from public facts alone: the schema, the budget, the number of users.

**Who is asked what.** Each user may spend epsilon once. Three ways are compared, by the exact variances of the
integers that would be sampled, for each with the best mechanism at the budget that is left for a question:

- everybody answers every question, with an equal part of epsilon;
- everybody answers m questions, drawn at random, with epsilon/m each, for every m that may be worth it;
- everybody answers one question with all of epsilon, and a question with a larger variance V is drawn more often, in
  proportion to sqrt(V), which minimises the sum of V / share.

The measure is the mean over questions of MSE / scale^2, where scale is half the width of the domain for a mean and
1 for frequencies, averaged over cells. It is that of the worst users.

**Server cost.** A report of LocalHash costs the server k hash evaluations, one of Unary and SubsetSelection k bits.
Questions with more categories than `most_evaluations` are asked by Hadamard or GRR, whose reports are counted at
once.

**What a report shows.** Which questions a user answers is drawn on the device without looking at the record, and is
no secret. Row i of a table has its own words of randomness, so a simulation does not depend on how the table is
cut.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_delta, checked_epsilon
from dither.core.compose import Independent
from dither.core.draw import Tape, entries
from dither.core.errors import DomainError, EmptyError, ParameterError, ReportError, TallyError
from dither.core.estimate import Estimate, Estimates
from dither.core.exact import share_below
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.mechanism import Mechanism
from dither.core.parallel import each_chunk
from dither.core.reports import Reports
from dither.core.subsets import subsets
from dither.core.tally import Tally
from dither.mechanisms import load
from dither.mechanisms.recipe import made
from dither.randomness import Stream
from dither.schema import Attribute, KeyValue, Numeric, Ordinal, Schema
from dither.show.table import Table

FORMAT = 1
BINS = 32  # cells of the distribution of a number
_HOPELESS = 1.5
_SHARES = 1 << 20  # shares of users are rounded to this many parts
_NUMBERS = ("Hybrid", "Duchi", "Piecewise")
_CATEGORIES = ("GRR", "Unary", "LocalHash", "SubsetSelection", "Hadamard")
_COUNTED_AT_ONCE = ("GRR", "Hadamard")
_CHUNK = 1 << 16


class Question(NamedTuple):
    """A statistic of an attribute; written `mean(income)`."""

    attribute: str
    statistic: str

    def __str__(self) -> str:
        return f"{self.statistic}({self.attribute})"


class Part(NamedTuple):
    """A question, the mechanism that asks it, and how many of `_SHARES` users are asked, where they differ."""

    question: Question
    mechanism: Mechanism
    weight: int


def plan(
    schema: Schema,
    epsilon: float,
    *,
    users: int,
    delta: float = 0.0,
    ask: Iterable[str] | None = None,
    most_evaluations: int = 500,
) -> "Plan":
    """The best plan for these attributes, this budget and this many users.

    `ask` names the questions, as in `["mean(income)", "histogram(job)"]`; by default every attribute's first.

    >>> from dither import Categorical, Numeric, Schema
    >>> schema = Schema({"income": Numeric(0, 200_000), "job": Categorical(["nurse", "driver", "other"])})
    >>> best = plan(schema, epsilon=1.0, users=100_000)
    >>> [str(part.question) for part in best.parts], best.reported
    (['mean(income)', 'histogram(job)'], 1)
    """
    if not isinstance(schema, Schema):
        raise ParameterError(
            "a plan starts from a schema: dither.plan(dither.Schema({...}), epsilon=1.0, users=100_000)"
        )
    epsilon, delta = checked_epsilon(epsilon), checked_delta(delta)
    users = checked_count("users", users, 1)
    questions = _questions(schema, ask)
    chooser = _Chooser(schema, questions, epsilon, delta, most_evaluations)
    parts, reported = chooser.best()
    return Plan(schema, epsilon, delta, users, parts, reported)


def _questions(schema: Schema, ask: Iterable[str] | None) -> tuple[Question, ...]:
    if isinstance(ask, str):
        ask = [ask]
    given = [f"{schema[name].questions[0]}({name})" for name in schema] if ask is None else list(ask)
    found = []
    for text in given:
        statistic, _, rest = str(text).partition("(")
        name = rest.removesuffix(")")
        if name not in schema or statistic not in schema[name].questions or not str(text).endswith(")"):
            known = ", ".join(f"{each}({name})" for name in schema for each in schema[name].questions)
            raise ParameterError(f"there is no such question; this schema answers {known}")
        if isinstance(schema[name], KeyValue):
            raise ParameterError(
                f"attribute {name}: key-value questions cannot be planned yet; leave it out with ask=[...]"
            )
        found.append(Question(name, statistic))
    if not found or len(set(found)) < len(found):
        raise ParameterError("ask for at least one question, and for each only once")
    return tuple(found)


@dataclass(frozen=True)
class _Chooser:
    """Compares ways to ask. Questions of one kind (a mean, or k categories) have one price, computed once."""

    schema: Schema
    questions: tuple[Question, ...]
    epsilon: float
    delta: float
    most_evaluations: int

    @cached_property
    def _prices(self) -> dict[Any, tuple[Mechanism, float]]:
        return {}

    def _kinds(self) -> list[int]:
        """For each question its number of categories; 0 for a mean."""
        return [_cells(self.schema[question.attribute], question.statistic) for question in self.questions]

    def _price(self, cells: int, m: int, share: float) -> tuple[Mechanism, float]:
        """The best mechanism for a question at epsilon/m, and the worst variance of its reports."""
        key = (cells, m, share)
        if key not in self._prices:
            budget = share_below(self.epsilon, m), share_below(self.delta, m)
            candidates = (made(recipe, *budget) for recipe in _recipes(cells, self.most_evaluations))
            priced = ((each, each.reading.worst_variance(share)) for each in candidates)
            self._prices[key] = min(priced, key=lambda pair: pair[1])
        return self._prices[key]

    def best(self) -> tuple[tuple[Part, ...], int]:
        """The parts of the best plan, and how many questions each user answers."""
        kinds, count = self._kinds(), len(self.questions)
        costs: list[tuple[float, int]] = []
        for m in range(1, count + 1):
            try:
                total = sum(self._price(cells, m, m / count)[1] for cells in kinds) * count / m
            except ParameterError:  # a part of the budget is too small for a mechanism
                break
            costs.append((total, m))
            if total > _HOPELESS * min(costs)[0] and m < count:
                costs.append((sum(self._price(cells, count, 1.0)[1] for cells in kinds), count))
                break
        if not costs:
            raise ParameterError("epsilon is too small for these questions: no report would carry information")
        least, reported = min(costs)
        alone = [self._price(cells, 1, 1 / count)[1] for cells in kinds]
        if sum(math.sqrt(variance) for variance in alone) ** 2 < least * (1 - 1e-9):
            roots = np.sqrt(alone)
            weights = [max(1, round(root / roots.sum() * _SHARES)) for root in roots]
            return self._parts(kinds, 1, weights), 1
        return self._parts(kinds, reported, [1] * count), reported

    def _parts(self, kinds: list[int], m: int, weights: Sequence[int]) -> tuple[Part, ...]:
        made_ = (self._price(cells, m, m / len(kinds))[0] for cells in kinds)
        return tuple(Part(*part) for part in zip(self.questions, made_, weights, strict=True))


def _cells(attribute: Attribute, statistic: str) -> int:
    if statistic == "mean":
        return 0
    return BINS if isinstance(attribute, Numeric) else attribute.k  # type: ignore[union-attr]


def _recipes(cells: int, most_evaluations: int) -> list[str]:
    if cells == 0:
        return list(_NUMBERS)
    names = _CATEGORIES if cells <= most_evaluations else _COUNTED_AT_ONCE
    return [f"{name}(k={cells})" for name in names]


@dataclass(frozen=True, eq=False)
class PlanTally:
    """A tally for each question; `a + b` merges."""

    plan: str
    parts: dict[str, Tally]

    def __add__(self, other: "PlanTally") -> "PlanTally":
        if not isinstance(other, PlanTally):
            return NotImplemented
        if self.plan != other.plan:
            raise TallyError("these tallies belong to different plans; estimate each on its own")
        return PlanTally(self.plan, {name: part + other.parts[name] for name, part in self.parts.items()})

    def __radd__(self, other: Any) -> "PlanTally":
        return self if other == 0 else NotImplemented

    def __repr__(self) -> str:
        return f"PlanTally({', '.join(f'{name}: {part.n:,}' for name, part in self.parts.items())})"


@dataclass(frozen=True)
class Plan:
    """What is asked, by which mechanisms, of whom; and what it will cost."""

    schema: Schema
    epsilon: float
    delta: float
    users: int
    parts: tuple[Part, ...]
    reported: int

    @property
    def shares(self) -> NDArray[np.float64]:
        """For each question the share of users who answer it."""
        weights = np.array([part.weight for part in self.parts], dtype=np.float64)
        return self.reported * weights / weights.sum()

    @cached_property
    def guarantee(self) -> Guarantee:
        """What all that a user reports promises together."""
        factors = tuple(part.mechanism.channel() for part in self.parts)
        return Guarantee.of(Independent(factors, self.reported), self.epsilon, self.delta)

    @property
    def predicted(self) -> dict[str, float]:
        """The standard error of each question for the worst users, in its own units (of a cell, on average)."""
        found = {}
        for part, share in zip(self.parts, self.shares, strict=True):
            variance = part.mechanism.reading.worst_variance(share) / (self.users * share)
            found[str(part.question)] = math.sqrt(variance) * self._unit(part.question)
        return found

    def _unit(self, question: Question) -> float:
        attribute = self.schema[question.attribute]
        return attribute.scale if question.statistic == "mean" else 1.0  # type: ignore[union-attr]

    @property
    def cost(self) -> float:
        """The mean over questions of the predicted MSE / scale^2: what the plan minimises."""
        scaled = [self.predicted[str(part.question)] / self._unit(part.question) for part in self.parts]
        return float(np.mean(np.square(scaled)))

    def table(self) -> Table:
        """One row a question."""
        return Table(
            {
                "question": [str(part.question) for part in self.parts],
                "mechanism": [type(part.mechanism).__name__ for part in self.parts],
                "epsilon": [part.mechanism.epsilon for part in self.parts],
                "users asked": [f"{self.users * share:,.0f}" for share in self.shares],
                "predicted error": [self.predicted[str(part.question)] for part in self.parts],
            }
        )

    def explain(self) -> str:
        """In words: what is asked, how, and why."""
        count = len(self.parts)
        if self.reported == count:
            who = "Every user answers every question" if count > 1 else "Every user answers the question"
        elif len({part.weight for part in self.parts}) > 1:
            who = "Every user answers one question, drawn at random, more often where the variance is larger"
        else:
            who = f"Every user answers {self.reported} of {count} questions, drawn at random"
        budget = self.parts[0].mechanism.epsilon
        return "\n".join(
            [
                f"{who}, with epsilon {budget:.6g} each: the smallest mean squared error of the ways compared.",
                f"All that a user reports together: {self.guarantee}.",
                f"Predicted errors are for the worst {self.users:,} users; real ones are usually kinder.",
            ]
        )

    def __repr__(self) -> str:
        return f"Plan of {len(self.parts)} questions for {self.users:,} users; {self.guarantee}\n{self.table()}"

    # On the device ---------------------------------------------------------------------------------------------

    def randomize(self, table: Any, *, seed: int | None = None, invalid: str = "error") -> dict[str, Reports]:
        """For each question the reports of those who were asked."""
        columns, users = _columns(table, [name for name in self.schema if name in self._attributes])
        tape = Stream.secure() if seed is None else Stream.seeded(seed, self.fingerprint)
        asked = self._asked(tape, users)
        return {
            str(part.question): self._reports(number, columns, np.flatnonzero(asked[:, number]), tape, invalid)
            for number, part in enumerate(self.parts)
        }

    @property
    def _attributes(self) -> set[str]:
        return {part.question.attribute for part in self.parts}

    def _asked(self, tape: Tape, users: int) -> NDArray[np.bool_]:
        """Who answers what, drawn without looking at the table."""
        count = len(self.parts)
        asked = np.ones((users, count), dtype=bool)
        if self.reported == count:
            return asked
        asked[:] = False
        cumulative = tuple(accumulate(part.weight for part in self.parts))
        uneven = len({part.weight for part in self.parts}) > 1

        def draw(rows: slice) -> None:
            chosen = entries(cumulative, tape, rows)[:, None] if uneven else subsets(count, self.reported, tape, rows)
            np.put_along_axis(asked[rows], chosen.astype(np.intp), True, axis=1)

        each_chunk(draw, users, _CHUNK)
        return asked

    def _reports(
        self, number: int, columns: Mapping[str, Any], rows: NDArray[np.intp], tape: Stream, invalid: str
    ) -> Reports:
        question, mechanism, _ = self.parts[number]
        values = self._encoded(question, columns[question.attribute], invalid)
        reports = np.empty(len(rows), dtype=mechanism.dtype)
        own = tape.spawn("question", str(question))

        def fill(part: slice) -> None:
            mechanism._fill(reports[part], values[rows[part]], own, rows[part])

        each_chunk(fill, len(rows), _CHUNK // max(1, mechanism.row_words))
        return Reports.wrap(reports, mechanism.fingerprint, tape.simulated)

    def _encoded(self, question: Question, column: Any, invalid: str) -> NDArray:
        attribute: Any = self.schema[question.attribute]
        coder = attribute.numeric() if question.statistic == "mean" and isinstance(attribute, Ordinal) else attribute
        try:
            encoded: NDArray = coder.encode(column, invalid)
        except DomainError as error:  # never quotes a value
            reason = str(error)
        else:
            if question.statistic != "mean" and isinstance(attribute, Numeric):
                return np.minimum(((encoded + 1) / 2 * BINS).astype(np.int64), BINS - 1)
            return encoded
        raise DomainError(f"attribute {question.attribute}, {reason}")

    # On the server ---------------------------------------------------------------------------------------------

    def tally(self, reports: Mapping[str, Any]) -> PlanTally:
        """The sums over the reports of each question."""
        names = [str(part.question) for part in self.parts]
        if not isinstance(reports, Mapping) or set(reports) != set(names):
            raise ReportError(f"these are not reports of this plan: expected a mapping with {', '.join(names)}")
        return PlanTally(
            self.fingerprint,
            {str(part.question): part.mechanism.tally(reports[str(part.question)]) for part in self.parts},
        )

    def estimate(self, tally: PlanTally) -> Estimates:
        """An estimate for each question, in the attribute's own units; the attribute's name means its first one."""
        if not isinstance(tally, PlanTally) or tally.plan != self.fingerprint:
            raise TallyError("this tally belongs to another plan: plan.estimate(plan.tally(reports))")
        users = round(sum(part.n for part in tally.parts.values()) / self.reported)
        if users == 0:
            raise EmptyError("there are no reports yet: tally at least one before estimating")
        simulated = any(part.simulated for part in tally.parts.values())
        guarantee = NO_GUARANTEE if simulated else self.guarantee
        found: dict[str, Estimate] = {}
        for part in self.parts:
            estimate = self._estimated(part, tally.parts[str(part.question)], guarantee, users)
            found[str(part.question)] = estimate
            found.setdefault(part.question.attribute, estimate)
        return Estimates(found)

    def _estimated(self, part: Part, tally: Tally, guarantee: Guarantee, users: int) -> Estimate:
        question, mechanism, _ = part
        attribute: Any = self.schema[question.attribute]
        source = f"{type(mechanism).__name__} at epsilon {mechanism.epsilon:.6g}"
        if tally.n == 0:
            cells = _cells(attribute, question.statistic)
            unknown = np.full((cells,) if cells else (), np.nan)
            return Estimate(unknown, np.full_like(unknown, np.inf), 0, guarantee, str(question), source=source)
        own = mechanism.reading.estimate(tally, guarantee, source, users)
        value, stderr, labels = own.value, own.stderr, None
        if question.statistic == "mean":
            value, stderr = attribute.centre + attribute.scale * value, attribute.scale * stderr
        elif isinstance(attribute, Numeric):
            edges = np.linspace(attribute.low, attribute.high, BINS + 1)
            labels = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
        else:
            labels = attribute.labels
        return Estimate(value, stderr, tally.n, guarantee, str(question), labels, source, own.notes)

    # Identity --------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All that defines the plan, ready for JSON; predictions are not part of it."""
        return {
            "format": FORMAT,
            "schema": self.schema.to_dict(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "users": self.users,
            "reported": self.reported,
            "parts": [
                {"question": str(part.question), "weight": part.weight, "mechanism": part.mechanism.to_dict()}
                for part in self.parts
            ],
        }

    @cached_property
    def fingerprint(self) -> str:
        """A hash of `to_dict`: equal exactly for equal plans."""
        return _digest(self.to_dict())

    def to_json(self) -> str:
        """The plan with its hash, for a file. Mechanisms are stored as the integers that they sample."""
        return json.dumps({**self.to_dict(), "hash": self.fingerprint}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """The inverse of `to_json`: the hash is compared, and every mechanism is certified again."""
        try:
            stored = json.loads(text)
        except ValueError:
            stored = None
        if not isinstance(stored, dict) or "format" not in stored:
            raise ParameterError("this is not a plan: a plan is what plan.to_json() wrote")
        if stored["format"] != FORMAT:
            raise ParameterError("this plan was written by a newer version of dither; upgrade to read it")
        if _digest({key: value for key, value in stored.items() if key != "hash"}) != stored.get("hash"):
            raise ParameterError("this plan was changed after it was written: its hash does not match")
        schema = Schema.from_dict(stored["schema"])
        parts = tuple(
            Part(
                _questions(schema, [part["question"]])[0],
                load(part["mechanism"]),
                checked_count("weight", part["weight"], 1),
            )
            for part in stored["parts"]
        )
        made_ = cls(schema, stored["epsilon"], stored["delta"], stored["users"], parts, stored["reported"])
        if made_.guarantee.epsilon > made_.epsilon or made_.guarantee.delta > made_.delta:
            raise ParameterError("this plan does not keep the guarantee that it declares")
        return made_


def _digest(stored: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(stored, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _columns(table: Any, names: list[str]) -> tuple[dict[str, Any], int]:
    """The named columns of a table, and its number of rows: a mapping, a data frame, or records as dictionaries."""
    if isinstance(table, Mapping) and not any(_is_column(table.get(name)) for name in names):
        table = [table]  # one record
    if isinstance(table, Sequence) and not isinstance(table, str | bytes):
        if not all(isinstance(record, Mapping) for record in table):
            raise DomainError("a list of records is a list of dictionaries, one for each user")
        return {name: [record.get(name) for record in table] for name in names}, len(table)
    columns: dict[str, Any] = {}
    columned: Any = table
    for name in names:
        try:
            column = columned[name]
        except (KeyError, TypeError, IndexError, ValueError):
            column = None
        if column is None:
            raise DomainError(f"the table has no column for attribute {name}")
        columns[name] = column.to_numpy() if hasattr(column, "to_numpy") else column
    sizes = {len(column) for column in columns.values()}
    if len(sizes) > 1:
        raise DomainError("the columns of a table must have the same length")
    return columns, sizes.pop()


def _is_column(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes)
