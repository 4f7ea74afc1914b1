"""What one report can add to the counts of a tally; so whether n reports can have added up to some counts.

A tally is a claim: n reports, and these counts. Whoever reads it has not seen the reports, and a wrong claim is a wrong
estimate with a small error bar. But a mechanism knows what a single report adds, and what is linear in it carries over
to sums: if every report adds from `low` to `high` to a count, then n of them add from n low to n high, and if every
report adds exactly `size` to all counts together, then n of them add n size. That is checked where a tally and its
mechanism meet: when a plan's tally is loaded, when it is merged, and before anything is estimated.

- `Contributions` knows nothing but the shape of the counts, or not even that: for a mechanism that declares nothing.
  Even then no report adds nothing.
- `Bounded` has the bounds of each count and of sums of counts. Where all that a report may add to a count leaves the
  same remainder when divided by `step`, so does the count: signs add up to an even number, or all to an odd one.
- `VectorSums` has sums of vectors beside those of their squares, which bound them.
- `Grouped` is for reports about some of several groups (dimensions, keys, budgets), where the counts of a group stand
  behind the number of reports about it: that number takes the place of n.

All of it is necessary, and none of it sufficient: a liar may still claim any counts that some reports have. How far
that goes is another question. All arithmetic is exact: n is below 2^64, but n times a bound need not be.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import isqrt, prod

import numpy as np
from numpy.typing import NDArray

from dither.errors import TallyError

Whole = int | NDArray[np.int64]  # one bound for all counts, or an array that is broadcast to their shape

MOST_READ = 1 << 53  # reports behind a tally that anything is read off: estimates are floating-point numbers
_EXACT = 1 << 62  # products and sums below it need no more than 64 bits


@dataclass(frozen=True, eq=False)
class Contributions:
    """What one report can add to counts of this shape: anything, as far as is known; None if not even that is."""

    shape: tuple[int, ...] | None = None
    attained: bool = field(default=True, kw_only=True)  # whether every bound is what some report adds

    @cached_property
    def size(self) -> int | None:
        """How many counts there are, if that is known."""
        return None if self.shape is None else prod(self.shape)

    def fault(self, n: int, counts: NDArray[np.int64]) -> str | None:
        """Why n reports cannot have added up to these counts; None if they can, as far as sums tell.

        >>> one_of(3).fault(2, np.array([1, 0, 1]))
        >>> one_of(3).fault(2, np.array([1, 4, 0]))
        'count 1 is 4, and 2 reports add at most 2 to it'
        >>> one_of(3).fault(2, np.array([1, 0, 2]))
        'all counts together are 3, and 2 reports add exactly 2 to them'
        """
        if self.shape is not None and counts.shape != self.shape:
            return f"its counts have the shape {counts.shape}, and not {self.shape}"
        if n == 0 and counts.any():
            return "there are counts, and no reports"
        reports = np.array([n], dtype=np.int64 if n < _EXACT else object)
        return self._fault(reports, counts[None])

    def check(self, n: int, counts: NDArray[np.int64]) -> None:
        """Refuse the tally of n reports with these counts, if no reports add up to it, or too many."""
        fault = self.fault(n, counts)
        if fault is None and n > MOST_READ:
            raise TallyError(
                "this tally claims more than 2^53 reports: nobody has sent so many, and no estimate would be right. "
                "Leave it out, or tally its reports again"
            )
        if fault is not None:
            raise TallyError(f"no reports add up to this tally: {fault}. Leave it out, or tally its reports again")

    def _fault(self, reports: NDArray, counts: NDArray[np.int64]) -> str | None:
        """The same for several numbers of reports, and the counts of each along the first axis."""
        return None

    def slack(self, counts: NDArray[np.int64]) -> str | None:
        """What is declared too widely: a bound that none of these single reports (first axis) reaches, if there is one.

        >>> Bounded((2,), 0, 2).slack(np.array([[0, 1], [2, 0]]))
        'no report adds as much as is declared to count 1'
        """
        return None


@dataclass(frozen=True, eq=False)
class SumBound:
    """Counts along some axes (from the last, as -1) added up: one report adds from `low` to `high` to them together."""

    axes: tuple[int, ...]
    low: Whole
    high: Whole

    def of(self, counts: NDArray[np.int64]) -> NDArray:
        """The sums, exactly."""
        size = prod(counts.shape[axis] for axis in self.axes)
        if _largest(counts) * max(size, 1) < _EXACT:
            return counts.sum(axis=self.axes)
        upper, lower = (counts >> 32).sum(axis=self.axes), (counts & 0xFFFFFFFF).sum(axis=self.axes)
        return np.asarray(upper, dtype=object) * (1 << 32) + lower


@dataclass(frozen=True, eq=False)
class Bounded(Contributions):
    """From `low` to `high` to each count, and to some sums of them; steps of `step` from `low`."""

    low: Whole = 0
    high: Whole = 1
    sums: tuple[SumBound, ...] = ()
    step: int = 1

    def _fault(self, reports: NDArray, counts: NDArray[np.int64]) -> str | None:
        n = reports.reshape(-1, *(1,) * (counts.ndim - 1))
        fault = _outside(reports, counts, _times(n, self.low), _times(n, self.high), "count")
        if fault is None and self.step > 1:
            wrong = (counts - _times(n % self.step, self.low)) % self.step != 0
            if wrong.any():
                number = int(reports[np.argwhere(wrong)[0][0]])
                fault = f"{_place('count', wrong)} is not what {_several(number)} can add up to: it is a sum of "
                fault += f"numbers that all leave the same remainder when divided by {self.step}"
        for each in self.sums if fault is None else ():
            found = each.of(counts)
            n = reports.reshape(-1, *(1,) * (found.ndim - 1))
            fault = fault or _outside(reports, found, _times(n, each.low), _times(n, each.high), "sum")
        return fault

    def slack(self, counts: NDArray[np.int64]) -> str | None:
        bounds = [(counts, self.low, self.high, "count")]
        bounds += [(each.of(counts), each.low, each.high, "sum") for each in self.sums]
        for found, low, high, what in bounds:
            for loose, side in ((found.min(axis=0) > low, "little"), (found.max(axis=0) < high, "much")):
                if np.any(loose):
                    return f"no report adds as {side} as is declared to {_place(what, loose[None])}"
        if np.gcd.reduce(np.ravel(counts - self.low)) not in (0, self.step):
            return f"what reports add differs by a multiple of more than {self.step}"
        return None


def one_of(outputs: int, *shape: int) -> Bounded:
    """A report that adds one to one of so many counts: a histogram of reports."""
    return exactly(1, outputs, *shape)


def exactly(total: int, *shape: int) -> Bounded:
    """Counts of which each report adds one to so many different ones."""
    axes = tuple(range(-len(shape), 0))
    return Bounded(shape, int(total == prod(shape)), 1, (SumBound(axes, total, total),))


def at_most_one(*shape: int) -> Bounded:
    """Counts of which a report adds one to one, or to none."""
    return Bounded(shape, 0, 1, (SumBound(tuple(range(-len(shape), 0)), 0, 1),))


def rounded_squares(d: int, length: int) -> tuple[int, int]:
    """Between which numbers the squares of a vector of that length lie together, if each of d entries is rounded."""
    off = isqrt(d) // 2 + 2  # longer than all that is rounded
    return max(0, length - off) ** 2, (length + off) ** 2


@dataclass(frozen=True, eq=False)
class VectorSums(Bounded):
    """Sums of vectors, `number` in a report, over the sums of the squares of their entries.

    So many entries do not add up to more than their squares allow (Cauchy and Schwarz): without it every coordinate
    could be as large as the whole vector. Squares may lack their last `shift` bits, each less than one of the rest.
    """

    number: int = 1
    shift: int = 0

    def _fault(self, reports: NDArray, counts: NDArray[np.int64]) -> str | None:
        fault = super()._fault(reports, counts)
        if fault is not None:
            return fault
        sums, squares, vectors = counts[:, 0], counts[:, 1], _times(reports[:, None], self.number)
        lost = _largest(vectors) if self.shift else 0
        exact = max(_largest(sums) ** 2, _largest(vectors) * (_largest(squares) + lost) << self.shift) < _EXACT
        entries, allowed = (sums, squares) if exact else (sums.astype(object), squares.astype(object))
        if self.shift:
            allowed = (allowed + vectors) << self.shift
        wrong = entries * entries > vectors * allowed
        if not wrong.any():
            return None
        squared = _place("count 1,", wrong)
        return f"{_place('count 0,', wrong)} is more than {squared}, the squares of so many entries, allows"


def vector_sums(d: int, length: int, squares: tuple[int, int], count: int = 1, shift: int = 0) -> VectorSums:
    """Sums of `count` vectors of whole numbers no longer than `length`, over those of the squares of their entries.

    `squares` says between which numbers all the squares of one vector lie together, each without its last `shift` bits.
    """
    across = isqrt(d * length * length) + 1  # no sum of entries is larger: Cauchy and Schwarz
    entries = np.array([[length], [squares[1]]], dtype=np.int64) * count
    low, high = np.array([[-across, squares[0]], [across, squares[1]]], dtype=np.int64) * count
    sums = (SumBound((-1,), low, high),)
    return VectorSums((2, d), entries * np.array([[-1], [0]]), entries, sums, number=count, shift=shift, attained=False)


@dataclass(frozen=True, eq=False)
class Grouped(Contributions):
    """A report speaks about `reported` of several groups: for each the number of reports about it, then its counts.

    Group j has the counts of `parts[which[j]]`, which must know their shapes.
    """

    parts: tuple[Contributions, ...] = ()
    which: NDArray[np.intp] = field(default_factory=lambda: np.zeros(1, dtype=np.intp))
    reported: int = 1

    @classmethod
    def of(
        cls,
        parts: tuple[Contributions, ...],
        which: NDArray[np.intp],
        reported: int,
        shape: tuple[int, ...] | None = None,
    ) -> "Grouped":
        """The groups one after the other, or in an array of that shape."""
        sizes = [1 + (part.size or 0) for part in parts]
        alike = len(parts) == 1  # then there is no need of an array of all groups, which may be too many
        total = sizes[0] * len(which) if alike else int(np.bincount(which, minlength=len(parts)) @ sizes)
        attained = all(part.attained for part in parts)
        return cls(shape or (total,), parts, which, reported, attained=attained)

    def _fault(self, reports: NDArray, counts: NDArray[np.int64]) -> str | None:
        flat = counts.reshape(len(counts), -1)
        asked = flat[:, self._starts]
        everybody = self.reported == len(self.which)
        n = reports[:, None]
        fault = _outside(reports, asked, _times(n, int(everybody)), n, "the number of reports about group")
        together = SumBound((-1,), self.reported, self.reported)
        if fault is None:
            limit = _times(reports, self.reported)
            fault = _outside(reports, together.of(asked), limit, limit, "sum")
        for number, part in enumerate(self.parts if fault is None else ()):
            groups, own = np.flatnonzero(self.which == number), self._counts_of(flat, number)
            shape = part.shape or ()
            if part._fault(asked[:, groups].reshape(-1), own.reshape(-1, *shape)) is not None:
                each = ((group, asked[:, group], own[:, i].reshape(-1, *shape)) for i, group in enumerate(groups))
                return next(f"group {group}: {why}" for group, n, own in each if (why := part._fault(n, own)))
        return fault

    def slack(self, counts: NDArray[np.int64]) -> str | None:
        flat = counts.reshape(len(counts), -1)
        for group, start in enumerate(self._starts):
            part, about = self.parts[self.which[group]], flat[:, start] == 1
            if not about.any():
                return f"no report is about group {group}"
            own = flat[about, start + 1 : start + 1 + (part.size or 0)]
            loose = part.slack(own.reshape(-1, *(part.shape or ())))
            if loose is not None:
                return f"group {group}: {loose}"
        return None

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        """Where the counts of each group begin: with the number of its reports."""
        sizes = np.array([1 + (part.size or 0) for part in self.parts])[self.which]
        return np.cumsum(sizes) - sizes

    def _counts_of(self, flat: NDArray[np.int64], number: int) -> NDArray[np.int64]:
        """The counts of all groups of one kind; a view where they are all of it."""
        size = self.parts[number].size or 0
        if len(self.parts) == 1:
            return flat.reshape(len(flat), -1, 1 + size)[:, :, 1:]
        return flat[:, self._starts[self.which == number][:, None] + 1 + np.arange(size)]


def _times(n: NDArray, bound: Whole) -> NDArray:
    """n times a bound, exactly: in Python's integers where 64 bits are too few."""
    most = int(n.max(initial=0)) * _largest(np.asarray(bound))
    return n * np.asarray(bound) if most < _EXACT else n.astype(object) * np.asarray(bound, dtype=object)


def _largest(counts: NDArray) -> int:
    return max(int(counts.max(initial=0)), -int(counts.min(initial=0)))


def _outside(reports: NDArray, found: NDArray, low: NDArray, high: NDArray, what: str) -> str | None:
    """Which of some counts, or sums of them, is below or above what its reports can add up to."""
    for wrong, limit, least in ((found < low, low, True), (found > high, high, False)):
        if wrong.any():
            place = tuple(np.argwhere(wrong)[0])
            number, bound = int(reports[place[0]]), np.broadcast_to(limit, found.shape)[place]
            fixed = np.broadcast_to(low == high, found.shape)[place]
            how = "exactly" if fixed else "at least" if least else "at most"
            return (
                f"{_place(what, wrong)} {'are' if what == 'sum' else 'is'} {found[place]:,}, and {_several(number)} "
                f"add{'s' * (number == 1)} {how} {bound:,} to {'them' if what == 'sum' else 'it'}"
            )
    return None


def _place(what: str, wrong: NDArray) -> str:
    """The first that is wrong, by its place: count 3, or count 3, 1 of a table."""
    place = ", ".join(str(each) for each in np.argwhere(wrong)[0][1:])
    if what == "sum":
        return f"the counts of {place} together" if place else "all counts together"
    return f"{what} {place}".rstrip()


def _several(number: int) -> str:
    return f"{number:,} report{'s' * (number != 1)}"
