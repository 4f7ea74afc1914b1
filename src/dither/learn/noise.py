"""Gaussian noise on sums of clipped gradients, in whole numbers.

A clipped gradient of length at most `clip` becomes an integer vector of length at most K = `radius`: it is scaled by
K / clip, clipped, and rounded to the nearest lattice point. The vectors of a batch are added up, integer noise of
standard deviation multiplier * K is added to every coordinate (`core.gauss`), and the sum is scaled back.

**Why this keeps the promise.**

1. *Sensitivity.* One record adds one integer vector v with |v|^2 <= K^2 to the sum, or none. The bound is checked in
   integers for every row after all rounding: rounding to the nearest may lengthen a vector by up to sqrt(d)/2. A row
   that became too long is shrunk and rounded again, and in the end rounded towards zero, which lengthens nothing.
   Squares add up to less than 2^62, so 64-bit integers hold them exactly.
2. *Noise.* The sum is an integer vector, and the noise is round(N(0, s^2)) in each coordinate, s = multiplier * K:
   adding it is the continuous Gaussian mechanism and then rounding. All that is known of the continuous one with noise
   multiplier s / K applies: `privacy.sampling` for Poisson samples and many steps.
3. *Table.* The integer table is within tau of that law in total variation; d coordinates in T steps add at most
   (1 + e^epsilon) d T tau to delta. `guarantee` sets aside a thousandth of delta for it, and refuses if it is more.

Which vector a row becomes is decided in floats, and may be off: privacy does not hang on it. A row with anything that
is not finite counts as zero, so nothing about it leaks, not even that it was there.

**How fine.** K is a power of two, at least 32 sqrt(d): a coordinate of average size is 32 steps, and rounding adds 1e-4
to the squared length. With much noise in many dimensions it is less, so that s stays at 65,536: finer steps would only
cost a larger table.

What goes wrong: a sum of floats depends on its order, and noise in floats has a lattice of its own that shows through;
sensitivity 2 K would be that of *replacing* a record, which is another promise.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real
from dither.core.errors import DomainError, ParameterError
from dither.core.exact import exp_above
from dither.core.gauss import RoundedGaussian
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.parallel import each_chunk
from dither.privacy.sampling import MOST_STEPS, noise_multiplier, subsampled_gaussian
from dither.randomness import Stream

MOST_DIMENSIONS = 1 << 26
SPARE = 1e-3  # of delta, for the table
_FINE = 32  # lattice steps in a coordinate of average size
_MOST_SCALE = 1 << 16
_LEAST_SCALE = 4
_CHUNK = 1 << 18  # numbers


@dataclass(frozen=True)
class LatticeNoise:
    """Integer vectors of bounded length, and the noise for sums of them: d dimensions, up to `steps` releases.

    >>> noise = LatticeNoise(d=100, clip=1.0, multiplier=2.0)
    >>> noise.radius
    512
    >>> rows = noise.quantised(np.eye(100)[:3] * 5.0)
    >>> rows.max(), int((rows**2).sum(axis=1).max()) <= noise.radius**2
    (np.int64(512), True)
    >>> noise.release(rows.sum(axis=0), 0, Stream.seeded(1)).shape
    (100,)
    """

    d: int
    clip: float
    multiplier: float
    steps: int = MOST_STEPS

    def __post_init__(self) -> None:
        checked_count("d", self.d, 1, MOST_DIMENSIONS)
        checked_count("steps", self.steps, 1, MOST_STEPS)
        clip, multiplier = checked_real("clip", self.clip), checked_real("multiplier", self.multiplier)
        if not (math.isfinite(clip) and clip > 0):
            raise ParameterError("clip must be a finite number above 0: the longest gradient that is not shortened")
        if not 0.05 <= multiplier <= 1e4:
            raise ParameterError("the noise multiplier must be from 0.05 to 10,000")
        object.__setattr__(self, "clip", clip)
        object.__setattr__(self, "multiplier", multiplier)

    @classmethod
    def calibrated(cls, d: int, clip: float, epsilon: float, delta: float, rate: float, steps: int) -> "LatticeNoise":
        """The least noise whose `guarantee(rate, steps, delta)` keeps epsilon."""
        return cls(d, clip, noise_multiplier(epsilon, delta * (1 - SPARE), rate, steps), steps)

    @cached_property
    def radius(self) -> int:
        """K: the length of the longest integer vector."""
        radius = 1 << max(0, math.ceil(math.log2(_FINE * math.sqrt(self.d))))
        while radius * self.multiplier > _MOST_SCALE:
            radius //= 2
        while radius * self.multiplier < _LEAST_SCALE:
            radius *= 2
        return radius

    @cached_property
    def table(self) -> RoundedGaussian:
        """The noise of one coordinate."""
        return RoundedGaussian(Fraction(self.multiplier) * self.radius)

    @property
    def unit(self) -> float:
        """What one lattice step is worth."""
        return self.clip / self.radius

    def quantised(self, vectors: Any) -> NDArray[np.int64]:
        """Rows clipped to length `clip`, on the lattice: integer vectors whose squares add up to K^2 at most."""
        table = np.asarray(vectors)
        if table.dtype.kind not in "iuf" or table.ndim != 2 or table.shape[1] != self.d:
            raise DomainError(f"gradients must be a table of numbers with {self.d} columns")
        found = np.empty(table.shape, dtype=np.int64)

        def place(rows: slice) -> None:
            found[rows] = quantised(table[rows].astype(np.float64) / self.clip, self.radius)

        each_chunk(place, len(table), max(1, _CHUNK // self.d))
        return found

    def noise(self, step: int, stream: Stream) -> NDArray[np.int64]:
        """The noise of a step. Only a simulation can have the same twice: otherwise every call draws anew."""
        tape = stream.spawn("lattice noise", str(step)) if stream.simulated else Stream.secure()
        drawn = np.empty(self.d, dtype=np.int64)
        self.table.prepare(tape.bits)

        def draw(rows: slice) -> None:
            drawn[rows] = self.table.draw(tape, rows)

        each_chunk(draw, self.d, _CHUNK)
        return drawn

    def release(self, total: Any, step: int, stream: Stream) -> NDArray[np.float64]:
        """The sum of integer vectors with noise, in the units of the gradients."""
        given = np.asarray(total)
        if given.dtype.kind not in "iu" or given.shape != (self.d,):
            raise DomainError(f"a release needs a sum of quantised gradients: {self.d} whole numbers")
        return np.asarray((given.astype(np.int64) + self.noise(step, stream)) * self.unit, dtype=np.float64)

    def guarantee(self, rate: float, steps: int, delta: float, *, simulated: bool = False) -> Guarantee:
        """What so many steps with Poisson samples promise, the table of the noise included."""
        if simulated:
            return NO_GUARANTEE
        steps = checked_count("steps", steps, 1, self.steps)
        ideal = subsampled_gaussian(float(self.table.scale / self.radius), rate, steps, delta * (1 - SPARE))
        if self._table_cost(ideal.epsilon, steps) > Fraction(delta) * Fraction(SPARE):
            raise ParameterError("the table of the noise is too coarse for so large an epsilon and so small a delta")
        return Guarantee(ideal.epsilon, delta, "bound")

    def _table_cost(self, epsilon: float, steps: int) -> Fraction:
        """(1 + e^epsilon) d T tau."""
        if epsilon > 700:
            return Fraction(1)
        return (1 + Fraction(exp_above(epsilon))) * self.d * steps * self.table.deviation


def quantised(rows: NDArray[np.float64], radius: int) -> NDArray[np.int64]:
    """Each row times `radius` as integers whose squares add up to radius^2 at most: longer rows are clipped.

    A row with anything that is not finite becomes zero.

    >>> quantised(np.array([[0.6, 0.8], [3.0, 4.0], [np.inf, 0.0], [0.1, 0.0]]), 10).tolist()
    [[6, 8], [6, 8], [0, 0], [1, 0]]
    """
    largest = np.abs(rows).max(axis=1, initial=0.0)
    finite = np.isfinite(largest)
    unit = np.where(finite & (largest > 1), largest, 1.0)  # squares of large numbers would overflow
    with np.errstate(invalid="ignore"):
        scaled = np.where(finite[:, None], rows / unit[:, None], 0.0)
    lengths = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    # Shorter rows keep their length; the others get length 1.
    factor = np.where(lengths * unit > 1, 1 / np.where(lengths > 0, lengths, 1.0), unit)
    scaled *= (factor * radius)[:, None]
    found = np.rint(scaled).astype(np.int64)
    squared = radius * radius
    for attempt in range(3):
        squares = np.einsum("ij,ij->i", found, found)
        long = np.flatnonzero(squares > squared)
        if not long.size:
            return found
        scaled[long] *= ((1 - 1e-9) * radius / np.sqrt(squares[long]))[:, None]
        found[long] = np.rint(scaled[long]) if attempt < 2 else np.trunc(scaled[long])
    found[np.einsum("ij,ij->i", found, found) > squared] = 0  # cannot happen, but the guarantee hangs on it
    return found
