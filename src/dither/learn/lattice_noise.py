"""Gaussian noise on sums of clipped gradients, in whole numbers.

A clipped gradient of length at most `clip` becomes an integer vector of length at most K = `radius`: it is scaled by
K / clip, clipped, and rounded to the nearest lattice point. The vectors of a batch are added up, integer noise of
standard deviation multiplier * K is added to every coordinate (`core.rounded_gaussian`), and the sum is scaled back.

**Why this keeps the promise.**

1. *Sensitivity.* One record adds one integer vector v with |v|^2 <= K^2 to the sum, or none. The bound is checked in
   integers for every row after all rounding. Rounding to the nearest adds d/12 to a squared length on average, so rows
   are first scaled to `aim` = sqrt(K^2 - d/12) less two steps, and nearly all of them pass. A row that became too long
   is shrunk and rounded again, and in the end rounded towards zero, which lengthens nothing. Squares add up to less
   than 2^62, so 64-bit integers hold them exactly.
2. *Noise.* The sum is an integer vector, and the noise is round(N(0, s^2)) in each coordinate, s = multiplier * K:
   adding it is the continuous Gaussian mechanism and then rounding. All that is known of the continuous one with noise
   multiplier s / K applies: `privacy.accounting.subsampling` for Poisson samples and many steps.
3. *Table.* The integer table is within tau of that law in total variation; d coordinates in T steps add at most
   (1 + e^epsilon) d T tau to delta. `guarantee` sets aside a thousandth of delta for it, and refuses if it is more.

Which vector a row becomes is decided in floats, and may be off: privacy does not hang on it. A row with anything that
is not finite counts as zero, so nothing about it leaks, not even that it was there.

**How fine.** K is a power of two, at least 32 sqrt(d): a coordinate of average size is 32 steps, and rounding adds 1e-4
to the squared length. With much noise in many dimensions it is less, so that s stays at 65,536: finer steps would only
cost a larger table. There is a limit: where an average coordinate is below half a step, *everything* rounds to zero and
the model learns from noise alone. Rounding moves a vector by sqrt(d)/2 at most, so a gradient of full length keeps its
direction up to a cosine of sqrt(1 - d / (2 aim)^2), whatever its coordinates. `LatticeNoise` goes up to s = 131,072 for
a cosine of 0.95, and then refuses. A gradient much shorter than the clip keeps less; it weighs less, too.

**One rule.** `quantised_rows` is the specification. `learn.clipping.quantised_gradients` does the same with tensors,
faster, and gives the same integers for the same floats: what is not exact arithmetic is one product and one rounding
for each entry, so an entry does not depend on the order of any sum.

What goes wrong: a sum of floats depends on its order, and noise in floats has a lattice of its own that shows through;
sensitivity 2 K would be that of *replacing* a record, which is another promise.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real
from dither.core.exact import exp_above
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.parallel import each_chunk
from dither.core.randomness import Stream
from dither.core.rounded_gaussian import MOST_SCALE, RoundedGaussian
from dither.errors import DomainError, ParameterError
from dither.privacy.accounting.subsampling import MOST_STEPS, noise_multiplier, subsampled_gaussian

MOST_DIMENSIONS = 1 << 26
SPARE = 1e-3  # of delta, for the table
_FINE = 32  # lattice steps in a coordinate of average size
_USUAL_SCALE = 1 << 16
_LEAST_SCALE = 4
_LEAST_COSINE = 0.95  # between a gradient and what it becomes on the lattice
_CHECKABLE = 2.0**-9  # relative error of a sum of squares in floats up to which it is worth looking at
_SHORTER = (
    1 - 2.0**-10,
    1 - 2.0**-6,
    15 / 16,
    7 / 8,
    3 / 4,
)  # what a row that rounding made too long is shrunk to, in turn
_CHUNK = 1 << 18  # numbers


@dataclass(frozen=True)
class LatticeNoise:
    """Integer vectors of bounded length, and the noise for sums of them: d dimensions, up to `steps` releases.

    >>> noise = LatticeNoise(d=100, clip=1.0, multiplier=2.0)
    >>> noise.radius
    512
    >>> rows = noise.quantised(np.eye(100)[:3] * 5.0)
    >>> rows.max(), int((rows**2).sum(axis=1).max()) <= noise.radius**2
    (np.int64(510), True)
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
        if not _keeps_direction(self.d, self.radius):
            raise ParameterError(
                "so much noise in so many dimensions leaves nothing of a gradient on the lattice: "
                "use a larger epsilon, fewer steps, a smaller batch or a smaller model"
            )

    @classmethod
    def calibrated(cls, d: int, clip: float, epsilon: float, delta: float, rate: float, steps: int) -> "LatticeNoise":
        """The least noise whose `guarantee(rate, steps, delta)` keeps epsilon."""
        return cls(d, clip, noise_multiplier(epsilon, delta * (1 - SPARE), rate, steps), steps)

    @cached_property
    def radius(self) -> int:
        """K: the length of the longest integer vector."""
        radius = 1 << max(0, math.ceil(math.log2(_FINE * math.sqrt(self.d))))
        while radius * self.multiplier > _USUAL_SCALE:
            radius //= 2
        while radius * self.multiplier < _LEAST_SCALE:
            radius *= 2
        larger = not _keeps_direction(self.d, radius) and 2 * radius * self.multiplier <= MOST_SCALE
        return 2 * radius if larger else radius

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
            some = table[rows].astype(np.float64)
            found[rows] = quantised_rows(some, 1 / np.maximum(_lengths(some), self.clip), self.radius)

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
        return replace(ideal, delta=delta)

    def _table_cost(self, epsilon: float, steps: int) -> Fraction:
        """(1 + e^epsilon) d T tau."""
        if epsilon > 700:
            return Fraction(1)
        return (1 + Fraction(exp_above(epsilon))) * self.d * steps * self.table.deviation


def quantised_rows(rows: NDArray[Any], factors: NDArray[Any], radius: int) -> NDArray[np.int64]:
    """Each row times its factor, as integers on a lattice of `radius` steps for the length 1.

    The squares of a row add up to radius^2 at most, whatever the input: longer rows are shortened, and a row with
    anything that is not finite becomes zero.

    >>> rows = np.array([[3.0, 4.0], [3.0, 4.0], [np.inf, 0.0], [0.1, 0.0]])
    >>> quantised_rows(rows, np.array([0.2, 1.0, 0.2, 0.2]), 1000).tolist()
    [[599, 798], [599, 799], [0, 0], [20, 0]]
    """
    length = aim(rows.shape[1], radius, float(np.finfo(rows.dtype).eps))
    with np.errstate(invalid="ignore", over="ignore"):
        scale = factors * length
        near = np.rint(rows * scale[:, None])
    near[~np.isfinite(near).all(axis=1)] = 0
    large = np.abs(near).max(axis=1, initial=0) > radius
    found = np.where(large[:, None], 0, near).astype(np.int64)
    squares = np.einsum("ij,ij->i", found, found)
    for row in np.flatnonzero(large | (squares > radius * radius)):
        found[row] = shortened(near[row], radius)
    return found


def aim(d: int, radius: int, eps: float) -> float:
    """How long a row is made before it is rounded, in lattice steps, if its length is 1.

    `eps` is that of its floats: where they suffice to check a length, there is room for the doubt about it.

    >>> round(aim(100, 512, 2.0**-52), 4)
    509.9919
    """
    if radius * radius >= 1 << 53 or d * radius * radius >= 1 << 62 or radius * eps >= 2:
        raise ParameterError("the lattice is too fine for the model's floats: use model.double()")
    off = doubt(d, eps)
    return max(0.0, math.sqrt(max(0.0, radius * radius - d / 12)) - 2) * (1 - (off if off < _CHECKABLE else 0.0))


def doubt(d: int, eps: float) -> float:
    """By how much a sum of d squares may be off in floats, relatively, in whatever order it is taken."""
    return (d + 4) * eps / 2


def shortened(row: NDArray[Any], radius: int) -> NDArray[np.int64]:
    """A row of whole numbers that is too long, made to fit.

    >>> shortened(np.array([3.0, 1.0, 3.0, 1.0]), 4).tolist()
    [2, 1, 2, 1]
    """
    wide = row.astype(np.float64)
    largest = float(np.abs(wide).max())
    if largest > radius:  # squares might overflow
        wide = np.trunc(wide * (radius / largest))
    whole = wide.astype(np.int64)
    length = math.sqrt(int(whole @ whole))
    for share in _SHORTER:
        found = np.rint(wide * (share * radius / length)).astype(np.int64)
        if int(found @ found) <= radius * radius:
            return found
    found = np.trunc(wide * (max(0, radius - 1) / length)).astype(np.int64)
    return found if int(found @ found) <= radius * radius else np.zeros_like(found)  # the guarantee hangs on it


def _keeps_direction(d: int, radius: int) -> bool:
    """Whether the least cosine sqrt(1 - d / (2 aim)^2) is enough."""
    return 4 * aim(d, radius, 0.0) ** 2 * (1 - _LEAST_COSINE**2) >= d


def _lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean lengths, without overflow on the way; what is not finite stays so."""
    unit = np.maximum(np.abs(rows).max(axis=1, initial=0.0), np.finfo(np.float64).tiny)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = rows / unit[:, None]
        return np.sqrt(np.einsum("ij,ij->i", scaled, scaled)) * unit
