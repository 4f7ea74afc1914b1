"""Sparse vectors: a few of many keys, each with a number from -1 to 1. The domain of key-value mechanisms.

Whatever form the vectors come in (`core.sparse_columns`), they become one array with a row for each user: `key` and
`value`, as wide as the user with the most keys, but at least s; empty places have the key -1. In a dense table 0 means
absent; in the other forms every stored key is present, also with the value 0.

**Bad vectors.** `invalid="error"` refuses a key outside 0 .. d-1, a key that stands twice, a value outside [-1, 1], and
more than s keys unless the mechanism samples them down, with the row and the rule, never the key or the value.
`invalid="substitute"`, for collection, leaves out unknown keys and what is no number, keeps the first of equal keys,
moves values to the nearer end, and samples down; what is no vector at all is one without keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_choice, checked_count
from dither.core.domains import SPARSE
from dither.core.parallel import sum_chunks
from dither.core.sparse_columns import EMPTY, MOST_KEYS, Entries, entries_of, refuse_first
from dither.errors import ParameterError

MOST_LISTED = 1 << 16
MOST_PRESENT = 1 << 12  # keys that a mechanism reports on
_CHUNK = 1 << 13
RULES = ("error", "substitute")


@dataclass(frozen=True)
class Sparse:
    """Vectors over d keys of which about s are present; with `sample`, users may have more."""

    d: int
    s: int
    sample: bool = False

    kind: ClassVar[str] = SPARSE

    @property
    def parameters(self) -> dict[str, Any]:
        """By which a mechanism for such vectors is made."""
        return {"d": self.d, "s": self.s}

    @property
    def coordinates(self) -> int:
        """d."""
        return self.d

    @classmethod
    def checked(cls, d: int, s: int, sample: bool) -> "Sparse":
        """The vectors that a mechanism with these parameters takes, if there is one."""
        d = checked_count("d", d, 1, MOST_KEYS)
        s = checked_count("s", s, 1, min(d, MOST_PRESENT))
        if not isinstance(sample, bool):
            raise ParameterError("sample must be True or False: whether users may have more than s keys")
        return cls(d, s, sample)

    def check(self, values: Any, invalid: Any = "error") -> NDArray:
        """The vectors as one array, or an error that does not quote them."""
        mend = checked_choice("invalid", invalid, RULES) == "substitute"
        if self._is_fine(values):
            return values
        return self.rows(entries_of(values, self.d, mend=mend), mend=mend)

    def _is_fine(self, values: Any) -> bool:
        """Whether these are rows as they should be: most often they are, and then nothing has to be taken apart."""
        if not (type(values) is np.ndarray and values.ndim == 1 and values.dtype == row_dtype(self.s)):
            return False
        return not sum_chunks(lambda rows: int(not self._are_fine(values[rows])), len(values), _CHUNK)

    def _are_fine(self, values: NDArray) -> bool:
        keys, numbers = np.sort(values["key"], axis=1), values["value"]
        twice = (keys[:, 1:] == keys[:, :-1]) & (keys[:, 1:] != EMPTY)
        inside = (keys >= EMPTY) & (keys < self.d)
        gaps = (values["key"][:, :-1] == EMPTY) & (values["key"][:, 1:] != EMPTY)
        return bool(inside.all() and not twice.any() and not gaps.any() and (np.abs(numbers) <= 1).all())

    def rows(self, entries: Entries, *, mend: bool) -> NDArray:
        """Stored entries as one array, refused or mended where they are not as they should be."""
        return self._rows(self._mended(entries) if mend else self._refused(entries))

    def _refused(self, entries: Entries) -> Entries:
        """The entries, if all are as they should be."""
        rows, keys, values = entries.rows, entries.keys, entries.values
        refuse_first(rows, (keys < 0) | (keys >= self.d), f"a key is not a whole number from 0 to {self.d - 1}")
        refuse_first(rows, ~((values >= -1) & (values <= 1)), "a value is not a number from -1 to 1")
        order = np.argsort(rows * np.int64(self.d) + keys, kind="stable")  # rows ascend: nearly sorted
        twice = (np.diff(rows[order]) == 0) & (np.diff(keys[order]) == 0)
        refuse_first(rows[order][1:], twice, "a key stands twice")
        counts = entries.counts
        if not self.sample:
            rule = f"there are more than {self.s} keys; sample=True takes {self.s} of them at random"
            refuse_first(np.arange(len(counts)), counts > self.s, rule)
        return entries

    def _mended(self, entries: Entries) -> Entries:
        """The entries that can be used, in their order."""
        known = (entries.keys >= 0) & (entries.keys < self.d) & ~np.isnan(entries.values)
        rows, keys, values = entries.rows[known], entries.keys[known], entries.values[known]
        order = np.lexsort((np.arange(len(keys)), keys, rows))
        kept = np.ones(len(keys), dtype=bool)
        kept[order[1:]] = (np.diff(rows[order]) != 0) | (np.diff(keys[order]) != 0)
        counts = np.bincount(rows[kept], minlength=len(entries.ends))
        return Entries(np.cumsum(counts), keys[kept], np.clip(values[kept], -1.0, 1.0))

    def _rows(self, entries: Entries) -> NDArray:
        counts = entries.counts
        made = np.empty(len(counts), dtype=row_dtype(max(self.s, int(counts.max(initial=0)))))
        made["key"], made["value"] = EMPTY, 0.0
        rows = entries.rows
        place = np.arange(len(rows)) - (entries.ends - counts)[rows]
        made["key"][rows, place], made["value"][rows, place] = entries.keys, entries.values
        return made

    def row(self, held: Mapping[int, float]) -> np.void:
        """The vector of one user, of keys and values as they should be.

        It has room for more than s keys also where they are fewer: mechanisms take as long for both.
        """
        empty = max(self.s + 1 - len(held), 0)
        keys, values = [*held, *[EMPTY] * empty], [*held.values(), *[0.0] * empty]
        return np.array([(keys, values)], dtype=row_dtype(len(keys)))[0]

    # What stands for all of them ---------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """How many vectors of signs there are with at most s keys."""
        return _signed(self.d, self.s)

    def vector(self, number: int) -> dict[int, int]:
        """The vector of signs with this number: fewer keys first."""
        count = 0
        while number >= comb(self.d, count) * 2**count:
            number -= comb(self.d, count) * 2**count
            count += 1
        chosen, signs = divmod(number, 2**count)
        keys = next(each for place, each in enumerate(combinations(range(self.d), count)) if place == chosen)
        return {key: 2 * (signs >> bit & 1) - 1 for bit, key in enumerate(keys)}

    def padded(self, vector: dict[int, int]) -> list[tuple[int, int]]:
        """Exactly s keys with their signs: those of a vector with at most s, filled up with dummies d, d + 1, ..."""
        return [*vector.items(), *((self.d + slot, 1) for slot in range(len(vector), self.s))]

    def points(self, count: int) -> NDArray:
        """`count` vectors of signs."""
        if count > MOST_LISTED:
            raise ParameterError("there are too many sparse vectors to list")
        step = max(1, self.size // count) if self.size < 1 << 20 else 1
        return self.check([self.vector(i * step % self.size) for i in range(count)])

    def spread(self) -> NDArray:
        """Vectors with no, one and s keys, of both signs, and one whose values are 0, the hardest for the noise.

        None has more than s keys: what sampling down costs beside the noise takes the users' vectors to tell.
        """
        most = list(range(min(self.s, self.d)))
        kinds = [{}, {0: 1}, {0: -1}, dict.fromkeys(most, 1), dict.fromkeys(most, -1), dict.fromkeys(most, 0.0)]
        return self.check(kinds)


@lru_cache
def _signed(d: int, s: int) -> int:
    """The sum of 2^k binomial(d, k) for k up to s: each term from the one before, since there may be thousands."""
    total = term = 1
    for k in range(s):
        term = term * 2 * (d - k) // (k + 1)
        total += term
    return total


@lru_cache
def row_dtype(width: int) -> np.dtype:
    """A user's keys and values, `width` of them."""
    return np.dtype([("key", np.int32, (width,)), ("value", np.float64, (width,))])
