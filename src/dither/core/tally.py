"""Tallies: sums over reports. Data, no logic.

A tally is an array of integers, the number of reports behind it and the fingerprint of the mechanism it
belongs to. Integers add without rounding, so reports may be split over threads, files or machines in any way
and merged in any order: the result is the same to the bit. Tallies of different mechanisms refuse to merge,
because their counts mean different things.

Whether so many reports can have added up to such counts is for the mechanism to say (`core.contributions`); who counted
them, for a seal (`core.seals`).
"""

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from dither.core.checks import whole_number
from dither.core.decoding import decoded
from dither.core.seals import sealed, unsealed
from dither.errors import TallyError

MOST_REPORTS = (1 << 64) - 1

_FORMAT = "dither tally 1"

T = TypeVar("T")
Size = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, eq=False)
class Tally:
    """`counts` summed over `n` reports of one mechanism; `a + b` merges, `sum(tallies)` too."""

    mechanism: str
    n: int
    counts: NDArray[np.int64]
    simulated: bool = False

    def __post_init__(self) -> None:
        given = np.asarray(self.counts)
        whole = given.dtype.kind in "biu" or not given.size
        if not whole or (given.dtype == np.uint64 and given.size and int(given.max()) >= 1 << 63):
            raise TallyError("a count is a whole number that fits 64 bits, with its sign")  # NumPy would turn it around
        counts = np.array(given, dtype=np.int64, order="C", copy=True)
        counts.flags.writeable = False
        object.__setattr__(self, "counts", counts)
        n = whole_number(self.n)
        object.__setattr__(self, "n", -1 if n is None else n)
        if not 0 <= self.n <= MOST_REPORTS:
            raise TallyError("a tally counts from 0 to 2^64 - 1 reports; estimate smaller sums, each on its own")

    def __add__(self, other: "Tally") -> "Tally":
        if not isinstance(other, Tally):
            return NotImplemented
        if self.mechanism != other.mechanism or self.counts.shape != other.counts.shape:
            raise TallyError(
                "these tallies belong to different mechanisms (or to the same one with other parameters); "
                "estimate each on its own"
            )
        simulated = self.simulated or other.simulated
        counts = self.counts + other.counts
        if (((self.counts ^ counts) & (other.counts ^ counts)) < 0).any():
            raise TallyError("these tallies are too large to add: a count would not fit 64 bits")
        return Tally(self.mechanism, self.n + other.n, counts, simulated)

    def __radd__(self, other: Any) -> "Tally":
        return self if other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tally):
            return NotImplemented
        return self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Tally(n={self.n:,}, counts of shape {self.counts.shape}, mechanism {self.mechanism[:12]})"

    def to_bytes(self, *, key: bytes | None = None) -> bytes:
        """The same bytes for the same tally, on every machine; sealed, if there is a key.

        >>> tally, key = Tally("abc", 3, np.array([1, 2])), bytes(range(32))
        >>> Tally.from_bytes(tally.to_bytes(key=key), key=key) == tally
        True
        """
        data = msgspec.msgpack.encode(
            {
                "format": _FORMAT,
                "mechanism": self.mechanism,
                "n": self.n,
                "simulated": self.simulated,
                "shape": list(self.counts.shape),
                "counts": self.counts.astype("<i8").tobytes(),
            }
        )
        return data if key is None else sealed(data, key)

    @classmethod
    def from_bytes(cls, data: bytes, *, key: bytes | None = None) -> "Tally":
        """The inverse of `to_bytes`; refuses anything that is not exactly a tally.

        With a key only what is sealed with it; without one a seal is not looked at.
        """
        data = unsealed(data, key)
        stored = unpacked(data, _FORMAT, TallyFormat, "a tally")
        size = int(np.prod(stored.shape, dtype=object)) if stored.shape else 1
        if len(stored.counts) != 8 * size:
            raise TallyError("these bytes are a damaged tally: counts: expected 8 bytes for each of the shape")
        try:
            counts = np.frombuffer(stored.counts, dtype="<i8").reshape(stored.shape)
        except ValueError:
            counts = np.zeros(0, dtype=np.int64)
        tally = cls(stored.mechanism, stored.n, counts, stored.simulated)
        if tally.to_bytes() != bytes(data):  # also a shape that NumPy refused, or a field that was given twice
            raise TallyError("these bytes are a damaged tally: they are not what a tally writes")
        return tally

    def __reduce__(self):
        return Tally, (self.mechanism, self.n, self.counts, self.simulated)


class TallyFormat(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    mechanism: str
    n: Size
    simulated: bool
    shape: list[Size]
    counts: bytes


def unpacked(data: Any, form: str, kind: type[T], what: str) -> T:
    """The fields of a MessagePack map of this format; `what` it should be begins the error."""
    try:
        stored = msgspec.msgpack.decode(data, type=dict)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, RecursionError):
        stored = {}
    if stored.get("format") != form:
        raise TallyError(f"these bytes are not {what} that this version of dither can read")
    return decoded(stored, kind, f"these bytes are not {what}", TallyError)
