"""Whose hash function: one of the user's own, drawn for the report, or one of C that all users share (cohorts).

A function of its own in every report makes accidental collisions average out, and costs the server a hash evaluation
for every report and category. C shared functions let the server count each (function, value) first, in a table that
takes C evaluations a category to read, however many reports there are; but collisions then come again and again, and
whoever reads the table has to own up to them (`mechanisms.cohorts`, `mechanisms.keycohorts`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.contributions import Bounded, Contributions, one_of
from dither.core.draw import TAG, Rows, Tape, Words, below
from dither.core.honest_sums import HonestSums, Sums
from dither.core.mechanism import MOST_COUNTED
from dither.core.tally import Tally
from dither.errors import ParameterError
from dither.kernels.hashing import public_seeds

MOST_COHORTS = 1 << 24
_PLANNED = (1 << 6, 1 << 16)  # cohorts, at least and at most, where their number is chosen
_MOST_COUNTS = 1 << 24  # of a tally: 128 MB
_ADDED = 0.05  # of the noise, that sharing hash functions may add
_MOST_LOOKED_AT = 1 << 21  # cells of a table that are compared with their bounds one by one


def enough_cohorts(shift: float, buckets: int, read: int, variance: float, reports: float, evaluations: int) -> int:
    """How many hash functions users share: so many that what that adds to the error is small beside the noise.

    `shift` is the variance by which a single function for all would move an estimate, and `variance` that of a report.
    But they are not so many that reading their table, `read` evaluations for each, costs more `evaluations` than so
    many reports may cost each.

    >>> enough_cohorts(1.0, 30, 2000, 70.0, 10_000, 500), enough_cohorts(1.0, 30, 2000, 70.0, 1, 500)
    (2048, 64)
    """
    least, most = _PLANNED
    affordable = min(_MOST_COUNTS / buckets, reports * evaluations / read)
    most = min(most, 1 << max(int(affordable), 1).bit_length() - 1)
    enough = shift * reports / (_ADDED * variance)
    return max(min(1 << math.ceil(math.log2(max(enough, 1.0))), most), least)


@dataclass(frozen=True)
class HashSeeds:
    """The hash functions of a mechanism: `cohorts` shared ones, or one of 2^64 for every report.

    `name` is what a report calls the number of a shared one.
    """

    cohorts: int | None = None
    name: str = "cohort"

    @classmethod
    def checked(cls, cohorts: int | None, least: int = 1) -> "HashSeeds":
        """So many shared ones, if that is a number."""
        return cls(None if cohorts is None else checked_count("cohorts", cohorts, least, MOST_COHORTS))

    @property
    def count(self) -> int:
        """How many there are."""
        return self.cohorts or 1 << 64

    @cached_property
    def _shared(self) -> Words:
        return public_seeds(self.cohorts or 0)

    def draw(self, reports: NDArray, tape: Tape, rows: Rows) -> Words:
        """Put a function into every report; its seed is returned."""
        if self.cohorts is None:
            reports["seed"] = seeds = tape.words(TAG, rows)[:, 0]
            return seeds
        reports[self.name] = cohort = below(self.cohorts, tape, rows, lane=TAG)
        return self._shared[cohort.astype(np.intp)]

    def seed(self, number: int) -> Words:
        """The seed of the function with this number, as an array of one."""
        return np.array([number], dtype=np.uint64) if self.cohorts is None else self._shared[[number]]


@dataclass(frozen=True, eq=False)
class HashedReports:
    """The layout of a report that is a hash function and one of so many `values`.

    Reports with shared functions are counted by function (rows) and value (columns); those with functions of their own
    as `support` does, given their seeds and values; where all are shared, it may be left out.
    """

    functions: HashSeeds
    values: int
    support: Callable[[Words, NDArray], NDArray[np.int64]] | None = None
    supported: Bounded | None = None  # what `support` counts of one report

    def __post_init__(self) -> None:
        counts = (self.functions.cohorts or 0) * self.values
        if counts > MOST_COUNTED:
            raise ParameterError(
                f"a tally of 2^{counts.bit_length() - 1} counts does not fit, one for each shared hash function and "
                "value; take fewer cohorts"
            )

    @property
    def dtype(self) -> np.dtype:
        """A function, and a value."""
        value = ("value", np.min_scalar_type(self.values - 1))
        if self.functions.cohorts is None:
            return np.dtype([("seed", np.uint64), value])
        return np.dtype([(self.functions.name, np.min_scalar_type(self.functions.cohorts - 1)), value])

    def outputs(self) -> NDArray:
        """Every possible report, function by function."""
        if self.functions.cohorts is None:
            raise ParameterError("there are 2^64 hash functions: too many reports to list")
        reports = np.empty(self.functions.cohorts * self.values, dtype=self.dtype)
        reports[self.functions.name], reports["value"] = np.divmod(np.arange(len(reports)), self.values)
        return reports

    def valid(self, reports: NDArray) -> NDArray[np.bool_]:
        """Which reports name a function and a value that there are."""
        fine, cohorts = reports["value"] < self.values, self.functions.cohorts
        return fine if cohorts is None else fine & (reports[self.functions.name] < cohorts)

    def honest_sums(self, tally: Tally, low: float, high: float) -> Sums:
        """Of shared functions, how often each is drawn, and how often with each value, of probability low to high."""
        cohorts = self.functions.count
        table = tally.counts.reshape(cohorts, self.values)
        drawn = HonestSums.of("reports with a hash function", table.sum(axis=1), tally.n, 1 / cohorts, 1 / cohorts)
        if table.size > _MOST_LOOKED_AT:
            return (drawn,)
        return drawn, HonestSums.of("reports with a hash value", table, table.sum(axis=1, keepdims=True), low, high)

    def count(self, reports: NDArray) -> NDArray[np.int64]:
        """The counts of these reports."""
        cohorts = self.functions.cohorts
        if cohorts is None:
            assert self.support is not None
            return self.support(reports["seed"], reports["value"])
        cells = reports[self.functions.name].astype(np.intp) * self.values + reports["value"]
        return np.bincount(cells, minlength=cohorts * self.values).reshape(cohorts, self.values)

    @property
    def contributions(self) -> Contributions:
        """What one report adds to the counts."""
        cohorts = self.functions.cohorts
        return self.supported or Contributions() if cohorts is None else one_of(cohorts, self.values)
