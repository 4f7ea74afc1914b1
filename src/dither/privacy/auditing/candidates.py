"""Which inputs to tell apart: those that a mechanism finds hardest to hide are usually the ends of its domain.

A few inputs are tried against each other: the first, the last, the middle and some between of those that the channel
has rows for, and those that the domain names as extremes (ends, opposite corners, vectors with opposite signs). All are
made up: an audit sees nobody's data.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.privacy.auditing.targets import Attacked

_FEW, _LISTED = 8, 1 << 12


class Candidate(NamedTuple):
    """An input, as an array with one row, and the number of its row in the channel if it is known."""

    row: NDArray
    number: int | None

    def __str__(self) -> str:
        if self.row.dtype.names == ("key", "value"):
            keys, numbers = self.row["key"][0], self.row["value"][0]
            shown = [f"{key}: {number:g}" for key, number in zip(keys, numbers, strict=True) if key >= 0]
            return "{" + ", ".join(shown) + "}"
        return str(self.row.tolist()[0])

    @property
    def group(self) -> int | None:
        """The group that the report will announce, which is no secret."""
        return int(self.row["group"][0]) if "group" in (self.row.dtype.names or ()) else None


def candidates(mechanism: Attacked) -> list[Candidate]:
    """A few inputs, extreme ones first."""
    rows, numbered = _listed(mechanism)
    found: dict[bytes, Candidate] = {}
    for block in _blocks(rows):
        for place in block[_places(len(block))].tolist():
            found.setdefault(rows[place].tobytes(), Candidate(rows[place : place + 1], place if numbered else None))
    number = {row.tobytes(): place for place, row in enumerate(rows)} if numbered else {}
    for row in _extremes(mechanism, rows.dtype):
        key = row[0].tobytes()
        found.setdefault(key, Candidate(row, number.get(key)))
    return list(found.values())


def pairs(found: list[Candidate]) -> list[tuple[int, int]]:
    """All pairs that a mechanism promises to hide from each other, as places in the list."""
    return [(i, j) for i, j in combinations(range(len(found)), 2) if found[i].group == found[j].group]


def _listed(mechanism: Attacked) -> tuple[NDArray, bool]:
    """Inputs, and whether they are the rows of the channel, in their order."""
    channel, reading = mechanism.channel(), mechanism.reading
    inputs = channel.shape[0] if channel is not None else 0
    rows = np.asarray(mechanism.inputs() if inputs <= _LISTED or reading is None else reading.domain.spread())
    return rows, inputs == len(rows)


def _blocks(rows: NDArray) -> list[NDArray[np.intp]]:
    """The places of inputs that are to be hidden among each other: those of each group, or all."""
    if "group" not in (rows.dtype.names or ()):
        return [np.arange(len(rows))]
    return [np.flatnonzero(rows["group"] == group) for group in np.unique(rows["group"])]


def _places(count: int) -> list[int]:
    """All of a few. Of many the ends, the middle, and some far from each other: multiples of the golden section."""
    if count <= _FEW:
        return list(range(count))
    return [0, count - 1, 1, count // 2, *(int(count * (0.618034 * i % 1)) for i in range(1, 5))]


def _extremes(mechanism: Attacked, dtype: np.dtype) -> list[NDArray]:
    """The ends of what the domain has between them, or all of a few."""
    if mechanism.reading is None or "group" in (dtype.names or ()):
        return []
    spread = np.asarray(mechanism.reading.domain.spread()).astype(dtype)
    places = range(len(spread)) if len(spread) <= _FEW else (0, -1)
    return [spread[[place]] for place in places]
