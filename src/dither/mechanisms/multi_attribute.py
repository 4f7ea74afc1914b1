"""Many dimensions from one: what a report of several one-dimensional reports looks like, and how it is read.

A user holds a record of d values. Of these m are reported (all, or a subset that was drawn without looking at the
data, `core.subsets`), each through the one-dimensional mechanism of its dimension. The values of one dimension then
come from a random sample of the users, and are read as the mechanism of that dimension reads them, with the
standard error of the sample added.

- **Report**: the m dimensions in ascending order (left out if m = d), and m values. Where mechanisms have reports of
  one number, these are the values; otherwise each is a string of bytes, as long as the longest.
- **Tally**: for each dimension, the number of its reports and the counts of its mechanism, one after the other.
- **Guarantee**: the worst choice of m dimensions. Likelihood ratios multiply, so m reports at epsilon/m keep epsilon.

Each report in a slot reads a tape of its own (`Tape.slots`), so the noise of two dimensions is never shared.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import comb, prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import Channel
from dither.core.composite_channels import Independent, PublicMixture
from dither.core.contributions import Contributions, Grouped
from dither.core.covariance import Covariance
from dither.core.domains import CATEGORIES, NUMBERS, Records
from dither.core.draw import Rows, Tape, slots_of, some_of
from dither.core.estimate import MEAN, Estimate, Estimates
from dither.core.guarantee import Guarantee
from dither.core.honest_sums import HonestSums, Sums, parted
from dither.core.mechanism import MOST_COUNTED, Mechanism, Moments, Reading
from dither.core.subsets import random_subsets
from dither.core.tally import Tally
from dither.core.worth import Worth, Worths
from dither.errors import ParameterError

_MOST_LISTED = 4096
Here = slice | NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class MultiAttribute:
    """d dimensions, of which m are reported. `which` says for each dimension which of the `parts` runs it.

    `estimator` names the reading of the parts that have one of that name (`Mechanism.read_by`); others are calibrated.
    """

    parts: tuple[Mechanism, ...]
    which: NDArray[np.intp]
    m: int
    estimator: str = field(default="calibrated", kw_only=True)

    tag: ClassVar[str] = "dimension"  # the field of a report that says what it is about

    def __post_init__(self) -> None:
        if not all(part.reading.domain.kind in (NUMBERS, CATEGORIES) for part in self.parts):
            raise ParameterError("a base must be a mechanism for one number or one category")

    @property
    def d(self) -> int:
        """How many dimensions a record has."""
        return len(self.which)

    def part(self, dimension: int) -> Mechanism:
        """The mechanism of one dimension."""
        return self.parts[self.which[dimension]]

    def read_by(self, estimator: str) -> "MultiAttribute | None":
        """The same with the other reading of this name, if a part has one."""
        if all(part.read_by(estimator) is None for part in self.parts):
            return None
        return replace(self, estimator=estimator)

    @cached_property
    def _readings(self) -> tuple[Reading[Any], ...]:
        """Of the parts."""
        return tuple(part.read_by(self.estimator) or part.reading for part in self.parts)

    @property
    def dimensions(self) -> tuple[tuple[Reading[Any], float], ...]:
        """How each dimension is read, and the share of the users who report it."""
        return tuple((self._readings[part], self.m / self.d) for part in self.which)

    @property
    def domain(self) -> Records:
        """Rows of d values."""
        domains = [part.reading.domain for part in self.parts]
        chosen = domains if len(domains) == 1 else [domains[part] for part in self.which]
        return Records(self.d, tuple(chosen))  # type: ignore[arg-type]

    # Reports ---------------------------------------------------------------------------------------------------

    @cached_property
    def _plain(self) -> bool:
        """Whether every part's report is one number."""
        return all(part.dtype.names == ("value",) and not part.dtype[0].shape for part in self.parts)

    @property
    def dtype(self) -> np.dtype:
        """The fields of a report."""
        return self._dtype

    @cached_property
    def _dtype(self) -> np.dtype:
        dimension = [(self.tag, np.min_scalar_type(self.d - 1), (self.m,))] if self.m < self.d else []
        sizes = [part.dtype.itemsize for part in self.parts]
        if self._plain:
            return np.dtype([*dimension, ("value", f"u{max(sizes)}", (self.m,))])
        return np.dtype([*dimension, ("report", f"V{max(sizes)}", (self.m,))])

    def fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        """One report for each record; of the records, only the dimensions that are reported are read."""
        chosen = None
        if self.m < self.d:
            chosen = self._choose(tape, rows)
            reports[self.tag] = chosen
        flat = self._read(values, chosen).reshape(-1)
        slots = np.zeros(len(flat), dtype=self.dtype[-1].base)
        for number, here in self._turns(chosen, len(values)):
            part = self.parts[number]
            own = np.empty(len(flat[here]), dtype=part.dtype)
            own_rows = some_of(slots_of(rows, self.m), here)
            part._fill(own, _within(part, flat[here]), tape.slots(str(number), self.m), own_rows)
            self._store(slots, here, own)
        reports[self.dtype.names[-1]] = slots.reshape(-1, self.m)  # type: ignore[index]

    def _choose(self, tape: Tape, rows: Rows) -> NDArray[np.unsignedinteger]:
        """Which dimensions each user reports, drawn without looking at a value."""
        return random_subsets(self.d, self.m, tape, rows)

    def _read(self, values: NDArray, chosen: NDArray[np.unsignedinteger] | None) -> NDArray:
        """Of each record the values of the chosen dimensions, or all."""
        return values if chosen is None else _picked(values, chosen)

    def _turns(self, chosen: NDArray | None, users: int) -> Iterator[tuple[int, Here]]:
        """Each part, and the slots of a flat table of slots that it fills."""
        if len(self.parts) == 1:
            yield 0, slice(None)
            return
        parts = np.tile(self.which, users) if chosen is None else self.which[chosen.reshape(-1)]
        yield from taking_turns(parts, range(len(self.parts)))

    def _store(self, slots: NDArray, here: Here, own: NDArray) -> None:
        if self._plain:
            slots[here] = own["value"]
        else:
            _bytes(slots)[here, : own.dtype.itemsize] = _bytes(own)

    def _load(self, slots: NDArray, here: Here, part: Mechanism) -> tuple[NDArray, NDArray[np.bool_]]:
        """The part's own reports in these slots, and which of them have nothing beyond its size."""
        if self._plain:
            values = slots[here]
            own = np.empty(len(values), dtype=part.dtype)
            own["value"] = values
            fits = np.less_equal(values, np.iinfo(part.dtype[0]).max)  # a forged number may be too large for its part
            return own, fits
        wide = _bytes(slots[here])  # whole slots are gathered several times as fast as their bytes
        size = part.dtype.itemsize
        own = np.ascontiguousarray(wide[:, :size]).view(part.dtype).reshape(-1)
        return own, np.asarray(~wide[:, size:].any(axis=1), dtype=bool)

    def _slots(self, reports: NDArray) -> tuple[NDArray | None, NDArray]:
        """The dimensions of the reports, and all slots one after the other."""
        chosen = reports[self.tag] if self.m < self.d else None
        slots = np.ascontiguousarray(reports[self.dtype.names[-1]]).reshape(-1)  # type: ignore[index]
        return chosen, slots

    def valid(self, reports: NDArray) -> NDArray[np.bool_]:
        """Which reports have all their fields in range."""
        chosen, slots = self._slots(reports)
        fine = np.ones(len(reports), dtype=bool)
        if chosen is not None:
            fine &= (chosen < self.d).all(axis=1) & (chosen[:, 1:] > chosen[:, :-1]).all(axis=1)
            chosen = np.minimum(chosen, self.d - 1)
        each = np.zeros(len(slots), dtype=bool)
        for number, here in self._turns(chosen, len(reports)):
            own, fits = self._load(slots, here, self.parts[number])
            each[here] = fits & self.parts[number]._valid(own)
        return fine & each.reshape(-1, self.m).all(axis=1)

    # Tallies ---------------------------------------------------------------------------------------------------

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Where the counts of each dimension begin; behind its number of reports."""
        sizes = [prod(part.tally_shape) for part in self.parts]
        if sum(sizes[part] for part in self.which) > MOST_COUNTED:
            raise ParameterError(
                f"a tally of {self.d:,} dimensions with up to {max(sizes):,} counts each does not fit; "
                "collect fewer dimensions, or take a base with fewer outputs"
            )
        return np.concatenate([[0], np.cumsum([1 + sizes[part] for part in self.which])])

    def count(self, reports: NDArray) -> NDArray[np.int64]:
        """For each dimension the number of its reports, and their counts."""
        chosen, slots = self._slots(reports)
        dimension = np.tile(np.arange(self.d), len(reports)) if chosen is None else chosen.reshape(-1)
        if self._plain and all(type(part)._count is Mechanism._count and not part.layout for part in self.parts):
            counts = np.bincount(self._starts[dimension] + 1 + slots, minlength=int(self._starts[-1]))
            counts[self._starts[:-1]] = np.add.reduceat(counts, self._starts[:-1])
            return counts
        counts = np.zeros(int(self._starts[-1]), dtype=np.int64)
        order = np.argsort(dimension, kind="stable")
        edges = np.searchsorted(dimension[order], np.arange(self.d + 1))
        for j in range(self.d):
            here = order[edges[j] : edges[j + 1]]
            own, _ = self._load(slots, here, self.part(j))
            counts[self._starts[j]] = len(here)
            counts[self._starts[j] + 1 : self._starts[j + 1]] = self.part(j)._count(own).reshape(-1)
        return counts

    def marginal(self, tally: Tally, dimension: int) -> Tally:
        """The tally of one dimension, as its own mechanism would have made it."""
        part, first = self.part(dimension), int(self._starts[dimension])
        counts = tally.counts[first + 1 : int(self._starts[dimension + 1])]
        return Tally(part.fingerprint, int(tally.counts[first]), counts.reshape(part.tally_shape), tally.simulated)

    @property
    def contributions(self) -> Contributions:
        """What one report adds to the counts."""
        known = (part.contributions for part in self.parts)
        parts = tuple(
            Contributions(part.tally_shape) if own.shape is None else own
            for part, own in zip(self.parts, known, strict=True)
        )
        return Grouped.of(parts, self.which, self.m)

    # Reading ---------------------------------------------------------------------------------------------------

    def worst_variance(self, share: float = 1.0) -> float:
        """Of one user's report, averaged over dimensions: each is reported by m of d users."""
        asked = share * self.m / self.d
        each = np.array([reading.worst_variance(asked) for reading in self._readings])
        return float(np.bincount(self.which, minlength=len(each)) @ each) / self.m

    # Any: which of the two it is depends on the domains, and mechanisms that know theirs say so (`SampledDuchi`).
    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> Any:
        """One estimate with d means if all dimensions are numbers, else a mapping from dimension to estimate."""
        users = tally.n if among is None else among
        parts = [self._dimension(j, tally, guarantee, source, users) for j in range(self.d)]
        if not self.domain.numeric:
            return Estimates(dict(enumerate(parts)))
        value, stderr = (np.array([getattr(part, name) for part in parts]) for name in ("value", "stderr"))
        notes = []
        if self.m < self.d:
            notes.append(
                f"Each of them reported {self.m} of {self.d} dimensions, drawn at random; a dimension has about "
                f"{tally.n * self.m // self.d:,} reports. The standard errors cover which users these came from."
            )
        if np.isnan(value).any():
            notes.append(f"{int(np.isnan(value).sum())} dimensions have no report yet: their values are NaN.")
        # Dimensions that all users report are randomized one by one. Where some are drawn, their errors depend on how
        # the values of different dimensions go together, which is not known.
        alone = Covariance.uncorrelated(np.ones(self.d)) if self.m == self.d and users == tally.n else None
        return Estimate(
            value,
            stderr,
            tally.n,
            guarantee,
            "mean",
            source=source,
            notes=tuple(notes),
            bounds=MEAN,
            correlation=alone,
        )

    def _dimension(self, j: int, tally: Tally, guarantee: Guarantee, source: str, users: int) -> Estimate:
        own, part = self.marginal(tally, j), self.part(j)
        if own.n:
            return self._readings[self.which[j]].estimate(own, guarantee, source, users)
        unknown = np.full(part.moments(part.inputs()[:1]).bias.shape[1:], np.nan)
        question = "mean" if part.reading.domain.kind == NUMBERS else "frequency"
        endless = np.full_like(unknown, np.inf)
        return Estimate(unknown, endless, 0, guarantee, question, source=source, notes=("No report yet.",))

    def worths(self) -> Worths | None:
        """What a report is worth to each dimension, of which a liar chooses the m that he speaks about."""
        other = self.estimator != "calibrated"
        parts = [
            part.report_worth_by(self.estimator) if other and part.read_by(self.estimator) else part.report_worth()
            for part in self.parts
        ]
        asked = Fraction(self.m, self.d)

        def all_alike(worth: Worth) -> Worth:
            at_once = worth.at_once if worth.at_once is None else worth.at_once * self.m
            return worth._replace(items=worth.items * self.d, at_once=at_once).asked_of(asked)

        if len(parts) == 1:
            return None if parts[0] is None else tuple(map(all_alike, parts[0]))
        found = []
        for j in range(self.d):
            own = parts[self.which[j]]
            if own is None:
                return None
            found += [worth._replace(question=f"dimension {j}, {worth.question}").asked_of(asked) for worth in own]
        return tuple(found)

    @property
    def odds(self) -> NDArray[np.float64]:
        """For each dimension the share of users who report it."""
        return np.full(self.d, self.m / self.d)

    def honest_sums(self, tally: Tally) -> Sums:
        """How often each dimension is drawn, which no value moves; and what its own reports keep within bounds."""
        found = []
        if self.m < self.d:
            drawn = tally.counts[self._starts[:-1]]
            found.append(HonestSums.of("reports about a dimension", drawn, tally.n, self.odds, self.odds))
        for j in range(self.d):
            found += parted(f"dimension {j}", self.part(j).honest_sums(self.marginal(tally, j)))
        return tuple(found)

    def moments(self, x: Any) -> Moments:
        """Of one reported value of each dimension, for each record; m of d users report it."""
        if not self.domain.numeric:
            raise ParameterError("dimensions of different kinds have moments of their own: part(j).moments(x)")
        table = np.asarray(self.domain.check(x), dtype=np.float64)
        filled = Moments(*(np.empty(table.shape) for _ in range(3)))
        for number in range(len(self.parts)):
            columns = np.flatnonzero(self.which == number)
            own = self._readings[number].moments(table[:, columns].reshape(-1))
            for name in ("bias", "variance", "third"):
                getattr(filled, name)[:, columns] = getattr(own, name).reshape(len(table), -1)
        return filled

    # Channel ---------------------------------------------------------------------------------------------------

    def channel(self) -> Channel:
        """Independent reports; which dimensions they are about is a public tag."""
        factors = self._factors
        if self.m == self.d:
            return Independent.all_of(factors)

        def given(x: int, tag: int) -> list[Fraction]:
            chosen = self._subsets()[tag]
            letters = Independent.all_of(factors).letters(x)
            law = [Fraction(1)]
            for j in chosen:
                law = [before * step for before in law for step in factors[j].row(letters[j])]
            return law

        inputs = prod(factor.shape[0] for factor in factors)
        return PublicMixture(
            Independent(factors, self.m), comb(self.d, self.m), inputs, given, outputs=self._output_count(factors)
        )

    @cached_property
    def _factors(self) -> tuple[Channel, ...]:
        channels = [part.channel() for part in self.parts]
        return tuple(channels[part] for part in self.which)

    def _output_count(self, factors: tuple[Channel, ...]) -> int:
        """Over all choices of m dimensions, the product of their numbers of outputs."""
        ways = [1] + [0] * self.m
        for factor in factors:
            for size in range(self.m, 0, -1):
                ways[size] += ways[size - 1] * factor.shape[1]
        return ways[self.m]

    def _subsets(self) -> list[tuple[int, ...]]:
        return list(combinations(range(self.d), self.m))

    def inputs(self) -> NDArray:
        """The records of the channel's rows if they are few; otherwise some corners of the cube."""
        points = [self.part(j).inputs() for j in range(self.d)] if self.d <= 12 else []
        if not points or prod(len(each) for each in points) > _MOST_LISTED:
            return self.domain.points(16)
        return np.array(list(product(*points)))

    def outputs(self) -> NDArray:
        """Every possible report, in the order of the channel's columns (small alphabets only)."""
        listed = []
        for chosen in self._subsets():
            for words in product(*(self.part(j).outputs() for j in chosen)):
                report = np.zeros(1, dtype=self.dtype)
                if self.m < self.d:
                    report[self.tag][0] = chosen
                slots = np.zeros(self.m, dtype=self.dtype[-1].base)
                for slot, word in enumerate(words):
                    self._store(slots, slice(slot, slot + 1), np.array([word]))
                report[self.dtype.names[-1]][0] = slots  # type: ignore[index]
                listed.append(report)
        return np.concatenate(listed)


def taking_turns(parts: NDArray[np.integer], numbers: Iterable[int]) -> Iterator[tuple[int, Here]]:
    """Each of these parts, and the slots that it fills, by the part of each slot; one slot alone has one turn."""
    if len(parts) == 1:
        yield int(parts[0]), slice(None)
        return
    for number in numbers:
        here = np.flatnonzero(parts == number)
        if here.size:
            yield number, here


def _bytes(rows: NDArray) -> NDArray[np.uint8]:
    """The memory of the rows, one row each."""
    return rows.view(np.uint8).reshape(len(rows), rows.dtype.itemsize)


def _picked(values: NDArray, chosen: NDArray[np.unsignedinteger]) -> NDArray:
    """The chosen dimensions of each record: the one place where a large table is read, at random."""
    places = chosen.astype(np.intp)
    if not values.flags.c_contiguous:
        return np.take_along_axis(values, places, axis=1)
    places += np.arange(0, values.size, values.shape[1])[:, None]
    return values.reshape(-1).take(places)  # twice as fast, and without the interpreter lock


def _within(part: Mechanism, values: NDArray) -> NDArray:
    """Values as the part's sampler takes them: categories as integers; numbers, which may be unchecked, clipped."""
    if part.reading.domain.kind == CATEGORIES:
        return values.astype(np.int64)
    inside = values.astype(np.float64, copy=False).clip(-1.0, 1.0)
    unknown = np.isnan(inside)
    if unknown.any():
        inside[unknown] = 0.0
    return inside
