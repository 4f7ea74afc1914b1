"""How long a normal vector is: the law of its squared length, in both tails.

A deviation of many items is normal with some covariance. Along its principal axes the entries are independent, so its
squared length is Q = sum of l (z + c)^2, with the eigenvalues l of the covariance and standard normal z. With b^2 = l
c^2 for the squared bias along an axis, its cumulant generating function is

    K(s) = sum over axes of  b^2 s / (1 - 2 l s) - log(1 - 2 l s) / 2,

which needs no division by l: an axis without variance adds b^2, and nothing else. The tails are integrals of

    exp(K(s) - s q) / (2 pi i s)    along a line that crosses the real axis between 0 and 1 / (2 max l) for P(Q > q),
                                    and, with the other sign, below 0 for P(Q < q).

The line is put through the point where the integrand is smallest on the real axis, its saddle, and bent towards the
right, where exp(-s q) vanishes (Rice 1980). There the integrand is largest and does not cancel, so that a tail of 1e-12
has as many digits as one of 1e-1. (Imhof's integral of 1961 is the same along the imaginary axis: it takes a tail off
one half, and is wrong where the tail is small.)

**Principal axes of a diagonal plus a little** (`core.covariance`): items with the same diagonal and the same row of
factors are alike. All directions among g alike items that add up to nothing are axes with the diagonal for an
eigenvalue, g - 1 of them; what is left is one direction for each kind of item, a small matrix. For more than
`MOST_KINDS` kinds the factors are left out: among so many items they hardly matter.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dither.core.covariance import Covariance

Floats = NDArray[np.float64]

MOST_KINDS = 512  # of items, whose matrix is diagonalised in some tens of milliseconds
_MOST_AXES = (
    256  # different eigenvalues; more are joined with their neighbours, which are 1% away where the largest is 10 times
)
# the smallest
_NODES = np.linspace(0.0, 5.2, 261)  # of the path, in units of which sinh is taken
_SLOPE = 0.7  # of the path far out, to the right for each step upwards
_HALVINGS = 100
_STEPS = 60
_CLOSE = 1e-12  # of a squared length
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class SquaredLength:
    """Of a normal vector: eigenvalues, how often each comes, and the squared bias along its axes."""

    eigenvalues: Floats
    times: Floats
    squares: Floats
    least: float  # the squared length of what does not vary

    @classmethod
    def of(cls, parts: Iterable[tuple[Floats, Covariance]]) -> "SquaredLength":
        """Of the biases and covariances of parts that are independent of each other."""
        axes = np.concatenate([_principal_axes(bias, covariance) for bias, covariance in parts], axis=1)
        axes[0] = np.where(axes[0] > 1e-14 * axes[0].max(), axes[0], 0.0)
        moving = axes[0] > 0
        return cls(*_joined(axes[:, moving]), float(axes[2, ~moving].sum()))

    def quantile(self, confidence: float) -> float:
        """The length that is not exceeded with this probability."""
        if not self.eigenvalues.size:
            return math.sqrt(self.least)
        mean, miss = float(self.times @ self.eigenvalues + self.squares.sum()), 1 - confidence
        above = self.upper_tail(mean)
        upper = miss < above  # the tail that is small is the one to look at
        spread = math.sqrt(float(self.times @ self.eigenvalues**2 + 2 * self.eigenvalues @ self.squares))
        low, high = (mean, mean + spread) if upper else (0.0, mean)
        while upper and self.upper_tail(high) > miss:
            low, high = high, mean + 2 * (high - mean)

        def beyond(q: float) -> float:
            """How far the small tail is from what it is to be, by its logarithm; rising in q."""
            if upper:
                return math.log(miss) - math.log(max(self.upper_tail(q), _TINY))
            return math.log(max(self.lower_tail(q), _TINY)) - math.log(confidence)

        return math.sqrt(self.least + _root(beyond, low, high))

    def upper_tail(self, q: float) -> float:
        """P(Q > q) of what varies."""
        return self._integral(q, 0.0, 0.5 / float(self.eigenvalues.max())) if q > 0 else 1.0

    def lower_tail(self, q: float) -> float:
        """P(Q < q) of what varies."""
        return self._integral(q, -math.inf, 0.0) if q > 0 else 0.0

    def _integral(self, q: float, low: float, high: float) -> float:
        """Along the path through the saddle between two ends, one of which is the pole at 0."""
        saddle = self._saddle(q, low, high)
        _, _, second, third = self._derivatives(saddle)
        width = 1 / math.sqrt(second + 1 / saddle**2)
        # A hyperbola that leaves the saddle as the steepest descent does, without the pole: t^2 third / (6 second) to
        # the right. It never turns so far that exp of a square would grow along it.
        straight = 3 * _SLOPE * second / third
        t = width * np.sinh(_NODES)
        reach = np.hypot(straight, t)
        path = saddle + _SLOPE * (reach - straight) + 1j * t
        velocity = (_SLOPE * t / reach + 1j) * width * np.cosh(_NODES)
        exponent = self._cumulant(path) - path * q
        top = exponent[0].real
        values = (np.exp(exponent - top) * velocity / path).imag  # the lower half of the path is the mirror image
        area = (values.sum() - values[0] / 2) * (_NODES[1] - _NODES[0])
        return min(1.0, abs(math.exp(top) * area) / math.pi)

    def _saddle(self, q: float, low: float, high: float) -> float:
        """Where K(s) - s q - log|s| is least."""
        if math.isinf(low):
            low = -1 / q  # there, and beyond, it falls: K' > 0 and 1/s >= -q
            while self._derivatives(low)[1] - q - 1 / low > 0:
                low *= 2
            high = -1e-300
        else:
            low, high = high * 1e-300, high * (1 - 1e-15)
        for _ in range(_HALVINGS):
            middle = _between(low, high)
            rising = self._derivatives(middle)[1] - q - 1 / middle > 0
            low, high = (low, middle) if rising else (middle, high)
        return (low + high) / 2

    def _cumulant(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        inner = 1 - 2 * self.eigenvalues * s[:, None]
        return (self.squares * s[:, None] / inner - self.times * np.log(inner) / 2).sum(axis=1)

    def _derivatives(self, s: float) -> tuple[float, float, float, float]:
        """K and its first three derivatives at a real number."""
        each, inner = self.eigenvalues, 1 - 2 * self.eigenvalues * s
        zeroth = self.squares * s / inner - self.times * np.log(inner) / 2
        first = self.squares / inner**2 + self.times * each / inner
        second = 4 * each * self.squares / inner**3 + 2 * self.times * each**2 / inner**2
        third = 24 * each**2 * self.squares / inner**4 + 8 * self.times * each**3 / inner**3
        return float(zeroth.sum()), float(first.sum()), float(second.sum()), float(third.sum())


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a function is 0 that is below it at one end and above at the other.

    By secants; where the same end is moved twice, the height of the other is halved (the Illinois rule).
    """
    at_low, at_high, moved = rising(low), rising(high), 0
    for _ in range(_STEPS):
        if at_high <= 0 or high - low <= _CLOSE * high:
            break
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        middle = middle if low < middle < high else (low + high) / 2
        height = rising(middle)
        if height >= 0:
            high, at_high, at_low, moved = middle, height, at_low / (2 if moved > 0 else 1), 1
        else:
            low, at_low, at_high, moved = middle, height, at_high / (2 if moved < 0 else 1), -1
    return high


def _between(low: float, high: float) -> float:
    """The middle of two numbers with one sign, by their logarithms while they are far apart."""
    if abs(high) > 4 * abs(low) or abs(low) > 4 * abs(high):
        return math.copysign(math.sqrt(abs(low)) * math.sqrt(abs(high)), low)
    return (low + high) / 2


def _principal_axes(bias: Floats, covariance: Covariance) -> Floats:
    """Eigenvalues, how often each comes, and the squared bias along its axes, as three rows."""
    rows = np.column_stack([covariance.diagonal, covariance.factor])
    kinds, kind, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    kind = kind.reshape(-1)
    if not covariance.factor.shape[1] or len(kinds) > MOST_KINDS:
        return np.stack([np.maximum(covariance.variance, 0.0), np.ones(bias.size), bias**2])
    mean = np.bincount(kind, weights=bias) / counts
    apart = np.bincount(kind, weights=(bias - mean[kind]) ** 2)  # along the axes among alike items
    factor = kinds[:, 1:] * np.sqrt(counts)[:, None]
    among = np.diag(kinds[:, 0]) + factor @ covariance.core @ factor.T
    eigenvalues, axes = np.linalg.eigh(among)
    along = (axes.T @ (np.sqrt(counts) * mean)) ** 2
    several = counts > 1
    inner = np.stack([kinds[:, 0], counts - 1.0, apart])[:, several]
    found: Floats = np.concatenate(
        [inner, np.stack([eigenvalues, np.ones(len(kinds)), along])], axis=1, dtype=np.float64
    )
    found[0] = np.maximum(found[0], 0.0)
    return found


def _joined(axes: Floats) -> tuple[Floats, Floats, Floats]:
    """The same with each eigenvalue once; neighbours are joined at their mean where there are very many."""
    eigenvalues, times, squares = axes
    values, place = np.unique(eigenvalues, return_inverse=True)
    if len(values) > _MOST_AXES:
        logs = np.log(values)
        grain = (logs[-1] - logs[0]) / _MOST_AXES
        place = np.floor((logs[place] - logs[0]) / grain).astype(np.intp)
        place = np.unique(place, return_inverse=True)[1]
    counts, sums, shifts = (
        np.bincount(place, weights=each).astype(np.float64) for each in (times, times * eigenvalues, squares)
    )
    return sums / counts, counts, shifts
