"""Records of nobody, drawn from the fitted model, to be used with any tool.

They are drawn from the joint distribution that the model means (`weighted_records`): records are proposed and raked to
all tables of the model. Then n of them are **resampled** in proportion to their weights, evenly: a record of weight w
is drawn floor(n w) times or once more. They are passed in an order in which neighbours are alike in all attributes
(Morton's curve through the ranks), so that every region gets its number of records nearly. Standard errors over those
of n independent draws, for six attributes of 64 values: .03 to .35 for about half of one attribute or of each of two,
.5 to 1 for the middle of each of two, and about 1 for single values; with 100,000 records .4 for these, and less for
all others.

Factors are found on a part of the proposals and finished on all of them.

Privacy: a function of the estimate and of fresh random bits, so it costs nothing (post-processing).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.randomness import Stream
from dither.ranges.model import Pairwise
from dither.ranges.weighted_records import Codes, Floats, proposed, raked, tables_of

if TYPE_CHECKING:
    from dither.ranges.weighted_records import RakedTable

_LEAST, _MOST = 1 << 17, 1 << 20  # proposals
_CHUNK = 1 << 16
_CURVE, _WORD = 10, 60  # bits of a rank, and of a place on the curve


def sampled_records(model: Pairwise, n: int, seed: int | None = None) -> NDArray[np.int64]:
    """n records of the model, one a row, in codes from 0. The same seed gives the same records.

    >>> from dither.ranges.fit import uniform
    >>> sampled_records(uniform((4, 8)), 100_000, seed=1).mean(axis=0).round(1).tolist()
    [1.5, 3.5]
    """
    wanted = checked_count("n", n, 0)
    stream = Stream.secure() if seed is None else Stream.seeded(seed, "records")
    found = np.empty((wanted, len(model.margins)), dtype=np.int64)
    tables = tables_of(model) if wanted else []
    for start in range(0, wanted, _MOST):
        stop = min(start + _MOST, wanted)
        _fill(found[start:stop], model, tables, stream.spawn("part", str(start)))
    return found


def _fill(out: NDArray[np.int64], model: Pairwise, tables: "Sequence[RakedTable]", stream: Stream) -> None:
    count = min(_MOST, max(_LEAST, 2 * len(out)))
    columns, weights = _proposed(model, count, stream)
    fitted = raked(columns, weights, tables)
    near = _curve(columns, [margin.value for margin in model.margins])
    chosen = near[_systematic(fitted[near], len(out), float(fractions(stream, 1, slice(0, 1))[0, 0]))]
    order = stream.order(len(out), lane=2)
    for j, column in enumerate(columns):
        out[:, j] = column[chosen[order]]


def fractions(stream: Stream, lane: int, rows: slice, width: int = 1) -> Floats:
    """Random numbers inside (0, 1), neither end included, one row for each of the rows."""
    return (stream.words(lane, rows, width) >> np.uint64(12)).astype(np.float64) * 2.0**-52 + 2.0**-53


def _proposed(model: Pairwise, count: int, stream: Stream) -> tuple[list[Codes], Floats]:
    """Random records, a column for each attribute, and their weights."""
    columns, weights = [np.empty(count, dtype=np.int32) for _ in model.margins], np.empty(count)
    for start in range(0, count, _CHUNK):
        rows = slice(start, min(start + _CHUNK, count))
        own, weights[rows] = proposed(model, fractions(stream, 0, rows, len(columns)))
        for column, part in zip(columns, own, strict=True):
            column[rows] = part
    return columns, weights


def _curve(columns: Sequence[Codes], shares: Sequence[Floats]) -> NDArray[np.intp]:
    """The order of records along a curve that halves one attribute after the other, and then their halves again."""
    some = min(len(columns), _WORD)
    bits = min(_CURVE, _WORD // some)
    places = np.zeros(len(columns[0]), dtype=np.uint64)
    for j, (column, share) in enumerate(zip(columns[:some], shares, strict=False)):
        below = np.cumsum(share)
        rank = np.minimum((below - share / 2) / below[-1] * 2**bits, 2**bits - 1).astype(np.uint64)
        own = np.zeros_like(rank)
        for bit in range(bits):
            own |= (rank >> np.uint64(bit) & np.uint64(1)) << np.uint64(bit * some + some - 1 - j)
        places |= own.take(column)
    return np.argsort(places, kind="stable")


def _systematic(weights: Floats, n: int, offset: float) -> NDArray[np.intp]:
    """The numbers of n records in proportion to these weights: each as often as it should be, rounded up or down."""
    below = np.cumsum(weights)
    ends = np.floor(below * (n / below[-1]) + offset).astype(np.int64)
    ends[-1] = n
    return np.repeat(np.arange(len(weights)), np.diff(ends, prepend=0))
