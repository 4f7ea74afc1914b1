"""Personalised budgets: every user chooses a group, with an epsilon and a region of its own (001 section 4.1.3).

A group is a budget and a *region*, an interval inside [-1, 1]. A user of the group keeps epsilon among the values
of the region; that the value lies in the region is not hidden, nor is the choice of the group, which is part of the
report. The value is scaled from the region to [-1, 1], goes through the base with the group's epsilon, and its
score is scaled back, so a small region buys a small variance.

**Two ways to combine groups.** The mean of all users is the sum of (n_g / n) mean_g: the paper's plain pooling,
always unbiased. It lets the few users with a tiny epsilon spoil the rest. Weights in proportion to 1 / stderr_g^2
have the smallest variance, but what they estimate is the mean of all users only if users choose their group without
regard to their value. Both are stated, with each group by itself; a note warns where the groups' means differ by
more than noise explains, which is always to be expected with regions that differ.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import as_float, checked_count, checked_epsilon, checked_list, is_list, is_whole
from dither.core.composite_channels import Announced
from dither.core.contributions import Grouped, one_of
from dither.core.domains import GROUPS, NUMBERS, UnitInterval
from dither.core.draw import Rows, Tape, some_of
from dither.core.estimate import MEAN, Bounds, Estimate, Estimates
from dither.core.guarantee import Guarantee
from dither.core.honest_sums import Sums, parted
from dither.core.mechanism import Mechanism, Moments
from dither.core.short_weights import short_components
from dither.core.tally import Tally
from dither.core.worth import ONE, Worth, Worths
from dither.errors import DomainError, ParameterError, RowError
from dither.mechanisms.spec import from_spec, normal_spec

MOST_GROUPS = 256
_GROUPS = 'groups must map names to budgets, as in groups={"careful": 0.5, "generous": 2.0}'
RECORD = np.dtype([("value", np.float64), ("group", np.uint8)])


class Group(NamedTuple):
    """A choice that users have."""

    name: str
    epsilon: float
    low: float = -1.0
    high: float = 1.0

    @property
    def centre(self) -> float:
        """The middle of the region."""
        return (self.low + self.high) / 2

    @property
    def half(self) -> float:
        """Half the width of the region."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Choices:
    """A value and the group that its user chose: a mapping or a table with `value` and `group`."""

    groups: tuple[Group, ...]

    kind: ClassVar[str] = GROUPS

    @property
    def coordinates(self) -> None:
        """None: a value with its group is no vector of numbers."""

    @property
    def parameters(self) -> dict[str, Any]:
        """By which a mechanism for these groups is made."""
        return {"groups": self.groups}

    def check(self, values: Any, invalid: str = "error") -> NDArray:
        """Pairs of a value inside its group's region and the number of the group."""
        value, group = _pairs(values)
        rows = np.empty(len(value), dtype=RECORD)
        rows["group"] = self._numbers(group)
        low, high = (np.array([getattr(each, end) for each in self.groups])[rows["group"]] for end in ("low", "high"))
        if invalid not in ("error", "clip"):
            raise ParameterError('invalid must be "error" or "clip"')
        rows["value"] = UnitInterval().check(value, invalid)
        if invalid == "clip":
            rows["value"] = np.clip(rows["value"], low, high)
        outside = (rows["value"] < low) | (rows["value"] > high)
        if outside.any():
            raise RowError(
                int(outside.argmax()),
                "the value is outside the region of its group",
                advice="let the user choose another group",
                substitute='pass invalid="clip"',
            )
        return rows

    def points(self, count: int) -> NDArray:
        """`count` pairs: the ends of the regions, group by group."""
        pairs = [(end, number) for number, group in enumerate(self.groups) for end in (group.low, group.high)]
        return np.array([pairs[i % len(pairs)] for i in range(count)], dtype=RECORD)

    def spread(self) -> NDArray:
        """The ends of each group's region, its centre, and many values between."""
        inside = (UnitInterval().spread() + 1) / 2
        pairs = [
            (low, number)
            for number, group in enumerate(self.groups)
            for low in group.low + (group.high - group.low) * inside
        ]
        return np.array(pairs, dtype=RECORD)

    def _numbers(self, group: NDArray) -> NDArray[np.integer]:
        names = {each.name: number for number, each in enumerate(self.groups)}
        if group.dtype.kind == "O":
            numbers = np.array([_number(item, names) for item in group], dtype=np.int64)
            return self._known(numbers, names)
        # Few different choices among many users: each is looked up once.
        kinds, place = np.unique(group, return_inverse=True)
        known = np.array([_number(kind, names) for kind in kinds.tolist()], dtype=np.int64)
        return self._known(known[place] if len(kinds) else np.empty(0, dtype=np.int64), names)

    def _known(self, numbers: NDArray[np.int64], names: Mapping[str, int]) -> NDArray[np.int64]:
        if (numbers < 0).any():
            raise DomainError(
                f"row {int((numbers < 0).argmax())}: there is no such group; choose one of {', '.join(names)}, "
                "or its number from 0"
            )
        return numbers


def _number(choice: Any, names: Mapping[str, int]) -> int:
    if isinstance(choice, str):
        return names.get(choice, -1)
    return int(choice) if is_whole(choice) and choice in range(len(names)) else -1


def _pairs(values: Any) -> tuple[Any, Any]:
    try:
        value, group = values["value"], values["group"]
    except (KeyError, ValueError, IndexError, TypeError):  # their message may quote a value
        value = group = None
    if value is not None and group is not None:
        if _length(value) is None:  # a single one
            value, group = [value], [group]
        if _length(value) == _length(group):
            return value, _column(group)
    elif is_list(values) and not values:
        return np.empty(0), np.empty(0, dtype=np.uint8)
    raise DomainError('values must be a table with a column "value" and a column "group" of the same length')


def _length(column: Any) -> int | None:
    try:
        return len(column)
    except TypeError:
        return None


def _column(groups: Any) -> NDArray:
    if isinstance(groups, np.ndarray) and groups.dtype.kind in "iuU" and groups.ndim == 1:
        return groups
    items = np.empty(len(groups), dtype=object)
    for row, item in enumerate(groups):  # one array of all would turn numbers beside a text into texts
        items[row] = item
    return items


@dataclass(frozen=True, eq=False)
class Pooled:
    """The reading of groups: the means of all of them together, two ways, and each alone."""

    groups: tuple[Group, ...]
    parts: tuple[Mechanism, ...]

    @property
    def domain(self) -> Choices:
        """A value and a group."""
        return Choices(self.groups)

    def worst_variance(self, share: float = 1.0) -> float:
        """Of a user of the worst group."""
        scaled = zip(self.groups, self.parts, strict=True)
        return max(group.half**2 * part.reading.worst_variance(share) for group, part in scaled)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where the counts of each group begin; behind its number of reports."""
        sizes = [math.prod(part.tally_shape) for part in self.parts]
        return np.concatenate([[0], np.cumsum([1 + size for size in sizes])])

    def marginal(self, tally: Tally, number: int) -> Tally:
        """The tally of one group, on the scale of its region."""
        first, end = int(self.starts[number]), int(self.starts[number + 1])
        return Tally(
            self.parts[number].fingerprint, int(tally.counts[first]), tally.counts[first + 1 : end], tally.simulated
        )

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Estimates:
        """`all` (plain pooling), `weighted` (inverse variance), and each group by its name."""
        found = {}
        for number, (group, part) in enumerate(zip(self.groups, self.parts, strict=True)):
            own = self.marginal(tally, number)
            if own.n:
                users = None if among is None else round(own.n * among / tally.n)
                promise = guarantee if guarantee.simulated else part.guarantee
                each = part.reading.estimate(own, promise, source, users)
                value, stderr = group.centre + group.half * each.value, group.half * each.stderr
                note = (f"Users of group {group.name}: epsilon {group.epsilon:g} in [{group.low:g}, {group.high:g}].",)
                found[group.name] = Estimate(
                    value,
                    stderr,
                    own.n,
                    promise,
                    "mean",
                    source=source,
                    notes=note,
                    bounds=Bounds(group.low, group.high),
                )
        together = {
            "all": self._plain(found, tally.n, guarantee, source),
            "weighted": self._weighted(found, tally.n, guarantee, source),
        }
        return Estimates(together | found)

    def _plain(self, found: dict[str, Estimate], n: int, guarantee: Guarantee, source: str) -> Estimate:
        shares = np.array([each.n / n for each in found.values()])
        note = "Plain pooling: the mean of all users, each report counted once. Unbiased whatever users choose."
        return _combined(found, shares, n, guarantee, source, note)

    def _weighted(self, found: dict[str, Estimate], n: int, guarantee: Guarantee, source: str) -> Estimate:
        precision = np.array([1 / max(float(each.stderr) ** 2, 1e-300) for each in found.values()])
        note = (
            "Inverse-variance weights: the smallest error, and the mean of all users only if they chose their group "
            "without regard to their value."
        )
        estimate = _combined(found, precision / precision.sum(), n, guarantee, source, note)
        means = np.array([float(each.value) for each in found.values()])
        spread = float(precision @ (means - float(estimate.value)) ** 2)
        if len(found) > 1 and spread > _unlikely(len(found) - 1):
            warning = "The groups' means differ by more than their noise: use the plain pooling."
            return replace(estimate, notes=(note, warning))
        return estimate

    def moments(self, x: Any) -> Moments:
        """Of one calibrated report, for each pair of value and group."""
        rows = self.domain.check(x)
        filled = Moments(*(np.empty(len(rows)) for _ in range(3)))
        for number, (group, part) in enumerate(zip(self.groups, self.parts, strict=True)):
            here = np.flatnonzero(rows["group"] == number)
            own = part.moments(_scaled(rows["value"][here], group))
            for power, name in enumerate(("bias", "variance", "third"), start=1):
                getattr(filled, name)[here] = getattr(own, name) * group.half**power
        return filled


def _combined(
    found: dict[str, Estimate], shares: NDArray[np.float64], n: int, guarantee: Guarantee, source: str, note: str
) -> Estimate:
    value = np.float64(sum(share * each.value for share, each in zip(shares, found.values(), strict=True)))
    stderr = np.float64(math.sqrt(sum((s * float(e.stderr)) ** 2 for s, e in zip(shares, found.values(), strict=True))))
    return Estimate(value, stderr, n, guarantee, "mean", source=source, notes=(note,), bounds=MEAN)  # type: ignore[arg-type]


def _unlikely(degrees: int) -> float:
    """A chi-square that is exceeded about once in a thousand (Wilson and Hilferty's cube)."""
    return degrees * (1 - 2 / (9 * degrees) + 3.09 * math.sqrt(2 / (9 * degrees))) ** 3


def _scaled(values: NDArray[np.float64], group: Group) -> NDArray[np.float64]:
    return np.clip((values - group.centre) / group.half, -1.0, 1.0)  # a rounding must not leave the domain


@dataclass(frozen=True)
class Personalised(Mechanism[Estimates]):
    """A number, with a budget that the user chooses.

    `groups` maps a name to an epsilon, or to (epsilon, low, high) with a region. The group is part of the report, and
    the guarantee holds among the values of its region; `epsilon` is that of the most generous group.

    >>> mechanism = Personalised("Piecewise", {"careful": 0.5, "generous": 4.0})
    >>> reports = mechanism.randomize({"value": [0.1, -0.4], "group": ["careful", "generous"]})
    >>> print(mechanism.guarantees["careful"])
    epsilon 0.5 (exact)
    """

    base: Any
    groups: Any
    epsilon: float = None  # type: ignore[assignment]  # follows from the groups
    weights: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "numeric"
    takes = GROUPS
    statistics = ("mean",)
    planned = False  # users choose their budgets
    examples = (
        {"base": "Duchi", "groups": {"careful": 0.5, "generous": 2.0}},
        {"base": "Piecewise", "groups": {"low": (1.0, -1.0, 0.0), "high": (1.0, 0.0, 1.0), "any": 3.0}},
    )

    def __post_init__(self) -> None:
        self._freeze(base=normal_spec(self.base), groups=_checked_groups(self.groups))
        most = max(group.epsilon for group in self.groups)
        if self.epsilon is not None and self.epsilon != most:
            raise ParameterError("epsilon follows from the groups: leave it out")
        self._freeze(epsilon=most)
        super().__post_init__()

    def _validate(self) -> None:
        pass

    def _fit(self) -> tuple[Any, ...]:
        return tuple(part.weights for part in self._parts([None] * len(self.groups)))

    def _checked_weights(self, weights: Any) -> tuple[Any, ...]:
        rule = "weights must hold the whole numbers of every group, or be left out"
        return tuple(part.weights for part in self._parts(checked_list(rule, weights, len(self.groups))))

    def _parts(self, weights: Iterable[Any]) -> tuple[Mechanism, ...]:
        parts = tuple(
            from_spec(self.base, each.epsilon, 0.0, own) for each, own in zip(self.groups, weights, strict=True)
        )
        if not all(part.reading.domain.kind == NUMBERS and part.dtype.names == ("value",) for part in parts):
            raise ParameterError("a base must report one number: Piecewise, SquareWave, Duchi or Laplace")
        return parts

    @cached_property
    def reading(self) -> Pooled:
        return Pooled(self.groups, self._parts(self.weights or ()))

    def shortened(self, limit: int, rejecting: bool = True) -> Self | None:
        """With shortened components."""
        weights = short_components(self.components, limit)
        return None if weights is None else replace(self, weights=weights)

    @property
    def components(self) -> tuple[Mechanism[Any], ...]:
        return self.reading.parts

    def report_worth(self) -> Worths | None:
        """To the mean of all users, where a liar takes the group that reaches farthest, and to that of each group."""
        found = []
        for group, part in zip(self.groups, self.reading.parts, strict=True):
            own = part.report_worth()
            if own is None:
                return None
            low, high = Fraction(group.low), Fraction(group.high)
            note = "A group's mean is over its own users; which share of all these are, they choose."
            found += [
                worth.scaled((high - low) / 2, (high + low) / 2)._replace(question=group.name, note=note)
                for worth in own
            ]
        note = (
            "`weighted` is a mean of the groups' means with weights that depend on the reports: given these, a report "
            "moves it by its group's weight times what it moves its group by."
        )
        most, least = max(worth.most for worth in found), min(worth.least for worth in found)
        return Worth("all", least, most, -ONE, ONE, note=note), *found

    def honest_sums(self, tally: Tally) -> Sums:
        """Those of each group; how many are in one is for users to choose."""
        found = []
        for number, (group, part) in enumerate(zip(self.groups, self.reading.parts, strict=True)):
            found += parted(f"group {group.name}", part.honest_sums(self.reading.marginal(tally, number)))
        return tuple(found)

    @property
    def guarantees(self) -> dict[str, Guarantee]:
        """What each group promises, among the values of its region."""
        return {group.name: part.guarantee for group, part in zip(self.groups, self.reading.parts, strict=True)}

    def channel(self) -> Announced:
        return Announced(tuple(part.channel() for part in self.reading.parts))

    @cached_property
    def dtype(self) -> np.dtype:
        widest = max(part.dtype.itemsize for part in self.reading.parts)
        return np.dtype([("group", np.uint8), ("value", f"u{widest}")])

    def inputs(self) -> NDArray:
        rows = []
        for number, (group, part) in enumerate(zip(self.groups, self.reading.parts, strict=True)):
            own = np.empty(part.channel().shape[0], dtype=RECORD)
            own["value"] = np.clip(group.centre + group.half * part.inputs(), group.low, group.high)
            own["group"] = number
            rows.append(own)
        return np.concatenate(rows)

    def outputs(self) -> NDArray:
        rows = []
        for number, part in enumerate(self.reading.parts):
            own = np.empty(part.channel().shape[1], dtype=self.dtype)
            own["group"], own["value"] = number, np.arange(len(own))
            rows.append(own)
        return np.concatenate(rows)

    @property
    def row_words(self) -> int:
        return max(part.row_words for part in self.reading.parts)

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        reports["group"] = values["group"]
        for number, (group, part) in enumerate(zip(self.groups, self.reading.parts, strict=True)):
            here = np.flatnonzero(values["group"] == number)
            own = np.empty(len(here), dtype=part.dtype)
            # A tape for each group: parts may read a lane with different widths.
            part._fill(own, _scaled(values["value"][here], group), tape.slots(str(number), 1), some_of(rows, here))
            reports["value"][here] = own["value"]

    def _valid(self, reports: NDArray) -> NDArray[np.bool_]:
        sizes = np.array([part.channel().shape[1] for part in self.reading.parts])
        group = np.minimum(reports["group"], len(sizes) - 1)
        return (reports["group"] < len(sizes)) & (reports["value"] < sizes[group])

    def _count(self, reports: NDArray) -> NDArray[np.int64]:
        starts = self.reading.starts
        counts = np.bincount(starts[reports["group"]] + 1 + reports["value"], minlength=int(starts[-1]))
        counts[starts[:-1]] = np.add.reduceat(counts, starts[:-1])
        return counts

    @cached_property
    def contributions(self) -> Grouped:
        parts = tuple(one_of(part.channel().shape[1]) for part in self.reading.parts)
        return Grouped.of(parts, np.arange(len(parts)), 1)


def _checked_groups(groups: Any) -> tuple[Group, ...]:
    try:
        listed = list(groups.items() if isinstance(groups, Mapping) else groups)
    except TypeError:
        listed = []
    if not listed:
        raise ParameterError(_GROUPS)
    checked_count("the number of groups", len(listed), 1, MOST_GROUPS)
    found = tuple(_checked_group(*_flat(each)) for each in listed)
    if len({group.name for group in found}) < len(found) or {"all", "weighted"} & {group.name for group in found}:
        raise ParameterError('groups need different names, other than "all" and "weighted"')
    return found


def _flat(each: Any) -> tuple[Any, ...]:
    """(name, budget), (name, (budget, low, high)) or (name, budget, low, high) as the last of these."""
    name, *rest = checked_list(_GROUPS, each, 2, 4)
    return (name, *checked_list(_GROUPS, rest[0], 1, 3)) if is_list(rest[0]) else (name, *rest)


def _checked_group(name: Any, epsilon: Any, low: Any = -1.0, high: Any = 1.0) -> Group:
    if not isinstance(name, str) or not name:
        raise ParameterError("the name of a group is a text")
    ends = [as_float(end) for end in (low, high)]
    if not -1 <= ends[0] < ends[1] <= 1:
        raise ParameterError("the region of a group is an interval inside [-1, 1], as in (1.0, 0.0, 0.5)")
    return Group(name, checked_epsilon(epsilon), *ends)
