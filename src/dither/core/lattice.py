"""From real numbers to lattice points, without bias and without floats in the draw.

A number x in [-1, 1] lies between two of the `steps` + 1 lattice points -1, -1 + 2/steps, ..., 1. It is rounded to the
lower or the upper one at random, such that the mean is x. The position between them is an integer numerator over 2^r (x
itself is read with about 40 to 60 binary digits), and the coin compares r bits of a word with it. Which point comes out
is all that the mechanism sees: its guarantee holds for every pair of points, hence for every mixture of them.
"""

import numpy as np
from numpy.typing import NDArray

from dither.core.draw import Rows, Tape, Words

ROUNDING = 1 << 17  # its own lane on the tape
SECOND_ROUNDING = ROUNDING + 1  # for what was made of rounded values: no word may decide twice
MOST_STEPS = 1 << 20


def split(values: NDArray[np.float64], steps: int, bits: int = 64) -> tuple[Words, Words, int]:
    """The lower lattice point of each value, the numerator of its distance to it, and the digits r of that fraction."""
    digits = min(62 - steps.bit_length(), bits)
    place = values + 1.0
    place *= 2.0 ** (digits - 1)  # in place from here: on many values, memory is the cost
    scaled = np.rint(place, out=place).astype(np.uint64)
    scaled *= np.uint64(steps)
    lower = scaled >> np.uint64(digits)
    scaled &= np.uint64((1 << digits) - 1)
    return lower, scaled, digits


def rounded(values: NDArray[np.float64], steps: int, tape: Tape, rows: Rows, lane: int = ROUNDING) -> Words:
    """For each value a lattice point beside it, with mean at the value."""
    lower, fraction, digits = split(values, steps, tape.bits)
    coin = tape.words(lane, rows)[:, 0]
    coin >>= np.uint64(tape.bits - digits)
    lower += coin < fraction
    return lower


def rounded_signs(values: NDArray, tape: Tape, rows: Rows) -> NDArray[np.bool_]:
    """Each coordinate rounded to a sign with mean at the value; true is +1. Unchecked values are clipped."""
    inside = values.astype(np.float64, copy=False).clip(-1.0, 1.0)
    np.copyto(inside, 0.0, where=np.isnan(inside))
    upper, fraction, digits = split(inside, 1, tape.bits)
    coins = tape.words(ROUNDING, rows, values.shape[1])
    coins >>= np.uint64(tape.bits - digits)
    return (coins < fraction) | upper.astype(bool)  # the value 1 lies on the upper point, with nothing left to toss for
