"""What noise costs a step of training, before any training: the analysis of 001, as functions that predict.

**Efficiency difference** (001 Theorem 6). A step w - eta g with noise lands farther from the optimum w* than one
without, by |w_noisy - w*|^2 - |w_plain - w*|^2 = A + B with

    A = eta^2 (2 C/B <n, g> + C^2/B^2 |n|^2),      B = 2 eta C/B <n, w* - w>,      n ~ N(0, sigma^2 I).

The identity is exact; `efficiency_difference` gives mean and variance of both. All of the mean is in A, and is
d (eta C sigma / B)^2. B is zero on average and shrinks with eta and C like every other term: that tuning "cannot
reduce" it (Corollary 2) is true only of its ratio to a gradient that shrinks along.

**Federated** (Theorem 13, Corollary 3). The server's noise is sum_k p_k n_k. Its mean square is |sum p_k mu_k|^2 +
sum p_k^2 tr(Sigma_k); Lemma 8 has N pbar^2 = 1/N in place of sum p_k^2, which is too small for all weights that are not
equal, and eq. 6.12 lacks the factor eta in its items B and D. `federated_efficiency` has them right. Corollary 3 says
what *one* round adds at the optimum; the noise of earlier rounds is still there, and `federated_stationary` adds it up.

**Direction** (Lemma 6). Gaussian noise bends every angle but the last towards pi/2 (`direction_bias`), and the last one
not at all. What decides about descent is none of them but the cosine between the noisy and the true gradient:

    E cos = 1 / sqrt(1 + d s^2 / |g|^2)      with noise of deviation s on the d coordinates,
    E cos = sum_z e^(-min(z, d-1) s^2/2) u_z^2      with noise of deviation s on the d - 1 angles of the unit vector u.

The second is exact, the first good to about 1/d. For a direction spread over all coordinates the second is
(1 - e^-x)/x with x = d s^2 / 2. At equal privacy s is in proportion to sqrt(d + 2) beta pi / 2 for angles, and to C for
coordinates: turning to angles loses a factor of sqrt(d), and all of beta's work is to earn it back.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real, real_array
from dither.errors import ParameterError
from dither.learn.spherical import to_spherical

Numbers = NDArray[np.float64]
Vector = Sequence[float] | NDArray[Any]
_TURN = 4096  # places on the circle: the density of an angle is smooth and periodic, so sums over them are exact


@runtime_checkable
class Noisy(Protocol):
    """Anything that knows the variance of one report: an `VectorReporter`, for example."""

    def noise(self) -> float:
        """The variance of one report, summed over coordinates."""
        ...


@dataclass(frozen=True)
class MeanAndVariance:
    """The mean and the variance of a random number."""

    mean: float
    variance: float

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.variance)


@dataclass(frozen=True)
class EfficiencyDifference:
    """001 Theorem 6: what noise adds to the squared distance from the optimum. The items are not independent."""

    item_a: MeanAndVariance
    item_b: MeanAndVariance
    total: MeanAndVariance


@dataclass(frozen=True)
class FederatedDifference:
    """001 Theorem 13, corrected: the expected items B (with its -2), C and D (with its 2), and their sum."""

    item_b: float
    item_c: float
    item_d: float

    @property
    def total(self) -> float:
        """The expected difference of squared distances."""
        return self.item_b + self.item_c + self.item_d


@dataclass(frozen=True, eq=False)
class AngleErrors:
    """What noise does to each angle of a direction, on average and in the mean square."""

    bias: Numbers
    squared: Numbers


def efficiency_difference(
    gradient: Vector, gap: Vector, *, rate: float, clip: float, batch: float, multiplier: float
) -> EfficiencyDifference:
    """Mean and variance of the efficiency difference of one step of DP-SGD (001 Theorem 6).

    `gradient` is the averaged clipped gradient, `gap` the way to the optimum w* - w, `rate` the learning rate; the
    noise on the average is N(0, (clip * multiplier / batch)^2) in each coordinate.

    >>> found = efficiency_difference([1.0, 0.0], [0.0, 2.0], rate=0.1, clip=1.0, batch=10, multiplier=2.0)
    >>> round(found.total.mean, 6), round(found.item_b.deviation, 6)
    (0.0008, 0.08)
    """
    slope, way = _vector("gradient", gradient), _vector("gap", gap)
    if slope.shape != way.shape:
        raise ParameterError("gradient and gap must be as long as each other")
    eta, noise = _positive("rate", rate), _positive("clip", clip) * _positive("multiplier", multiplier)
    variance = (noise / _positive("batch", batch)) ** 2
    # <n, g> and |n|^2 have no covariance: one is odd in n, the other even.
    item_a = MeanAndVariance(
        eta**2 * slope.size * variance, eta**4 * (4 * variance * float(slope @ slope) + 2 * slope.size * variance**2)
    )
    item_b = MeanAndVariance(0.0, 4 * eta**2 * variance * float(way @ way))
    shared = 4 * eta**3 * variance * float(slope @ way)
    return EfficiencyDifference(
        item_a, item_b, MeanAndVariance(item_a.mean, max(0.0, item_a.variance + item_b.variance + 2 * shared))
    )


def federated_efficiency(
    model: Vector,
    gradient: Vector,
    optimum: Vector,
    *,
    rate: float,
    weights: Vector,
    noise: float | Vector | Noisy,
    bias: float | Vector = 0.0,
) -> FederatedDifference:
    """The expected efficiency difference of a round of federated training (001 Theorem 13, corrected).

    `noise` is the variance of one device's noise summed over its coordinates: one number, one for each device, or an
    `VectorReporter`, which knows its own. `bias` is the mean of the noise: one vector for all devices, or a row for
    each. The bias must not depend on the gradients.

    >>> equal = federated_efficiency([0.0], [1.0], [-1.0], rate=0.1, weights=[0.25] * 4, noise=8.0)
    >>> round(equal.total, 6)
    0.02
    >>> unequal = federated_efficiency([0.0], [1.0], [-1.0], rate=0.1, weights=[0.7, 0.1, 0.1, 0.1], noise=8.0)
    >>> round(unequal.total, 6)  # 001 says 0.02 here, too
    0.0416
    """
    at, slope, best = _vector("model", model), _vector("gradient", gradient), _vector("optimum", optimum)
    if not at.shape == slope.shape == best.shape:
        raise ParameterError("model, gradient and optimum must be as long as each other")
    shares, eta = _weights(weights), _positive("rate", rate)
    mean = _mean_noise(shares, bias, at.size)
    squared = float(mean @ mean) + _spread(shares, noise)
    return FederatedDifference(
        -2 * eta * float((at - eta * slope) @ mean), eta**2 * squared, 2 * eta * float(best @ mean)
    )


def federated_limit(
    *, rate: float, weights: Vector, noise: float | Vector | Noisy, bias: float | Vector = 0.0
) -> float:
    """What one round adds when the plain step would land on the optimum (001 Corollary 3, corrected).

    >>> round(federated_limit(rate=0.1, weights=[0.002] * 500, noise=785 * 800.0), 6)
    12.56
    """
    shares = _weights(weights)
    size = 1 if np.ndim(bias) == 0 else np.shape(bias)[-1]
    mean = _mean_noise(shares, bias, size)
    return _positive("rate", rate) ** 2 * (float(mean @ mean) + _spread(shares, noise))


def federated_stationary(
    *, rate: float, weights: Vector, noise: float | Vector | Noisy, curvature: float | Vector
) -> float:
    """Where the expected squared distance from the optimum settles after many rounds of unbiased noise.

    For a loss with second derivatives `curvature` (one number, or one for each coordinate, over which the noise is then
    spread evenly) a round shrinks what was there by (1 - rate * curvature)^2 and adds `federated_limit`.

    >>> one = federated_limit(rate=0.1, weights=[0.5, 0.5], noise=2.0)
    >>> round(federated_stationary(rate=0.1, weights=[0.5, 0.5], noise=2.0, curvature=1.0) / one, 3)
    5.263
    """
    kept = 1 - _positive("rate", rate) * np.atleast_1d(_array("curvature", curvature))
    if not (np.abs(kept) < 1).all():
        raise ParameterError("training settles only if rate * curvature is above 0 and below 2")
    return federated_limit(rate=rate, weights=weights, noise=noise) * float(np.mean(1 / (1 - kept**2)))


def direction_bias(gradient: Vector, deviation: float) -> AngleErrors:
    """Bias and mean squared error of each angle under Gaussian noise on the coordinates (001 Lemma 6).

    The last angle is exact, and its error is taken around the circle: it has no bias, since the noise is as likely on
    either side of the vector. The others are expanded to second order around the mean of the squared tail, which is
    |tail|^2 + m s^2 with m coordinates: good where s is small or m is large.

    >>> found = direction_bias([3.0, 4.0, 0.0, 0.0], 0.1)
    >>> bool(found.bias[0] > 0), float(found.bias[-1])  # towards pi/2
    (True, 0.0)
    """
    vector, noise = _vector("gradient", gradient), _positive("deviation", deviation)
    if vector.size < 2:
        raise ParameterError("a gradient needs two coordinates or more to have a direction")
    angles = np.asarray(to_spherical(vector)[1])
    bias, squared = np.zeros(angles.size), np.zeros(angles.size)
    behind = np.arange(vector.size - 1, 1, -1, dtype=np.float64)  # coordinates in each tail
    tails = np.add.accumulate((vector * vector)[::-1])[::-1][1:-1]
    mean, variance = tails + behind * noise**2, 2 * behind * noise**4 + 4 * noise**2 * tails
    shift, spread = _expanded(vector[:-2], mean, noise**2, variance)
    bias[:-1] = shift - angles[:-1]
    squared[:-1] = bias[:-1] ** 2 + spread
    squared[-1] = _circular(float(np.hypot(vector[-2], vector[-1])), noise)
    return AngleErrors(bias, squared)


def expected_cosine(norm: float, deviation: float, d: int) -> float:
    """The cosine between a vector of this norm and itself with Gaussian noise on its d coordinates, on average.

    >>> round(expected_cosine(1.0, 0.1, 900), 4)
    0.3162
    """
    length, noise = _positive("norm", norm), _positive("deviation", deviation)
    return 1 / math.sqrt(1 + checked_count("d", d, 1) * (noise / length) ** 2)


def angular_cosine(direction: Vector, deviation: float) -> float:
    """The cosine between a vector and itself with Gaussian noise on its d - 1 angles, on average: exact.

    A cosine or sine of a noisy angle is e^(-s^2/2) times the plain one on average, and coordinate z holds z of them.

    >>> round(angular_cosine(np.ones(900), 0.1), 4)
    0.2192
    """
    vector, noise = _vector("direction", direction), _positive("deviation", deviation)
    norm, _ = to_spherical(vector)
    if norm == 0:
        raise ParameterError("the zero vector has no direction")
    factors = np.minimum(np.arange(1, vector.size + 1), vector.size - 1)
    return float(((vector / norm) ** 2) @ np.exp(-0.5 * noise**2 * factors))


def _expanded(x: Numbers, mean: Numbers, noise: float, variance: Numbers) -> tuple[Numbers, Numbers]:
    """Mean and variance of arctan2(sqrt(S), x + n), with the variances of n and S, to second and first order."""
    root, total = np.sqrt(mean), x * x + mean
    by_x, by_tail = -root / total, x / (2 * root * total)
    twice_x = 2 * x * root / total**2
    twice_tail = -x * (x * x + 3 * mean) / (4 * mean * root * total**2)
    middle = np.arctan2(root, x) + 0.5 * noise * twice_x + 0.5 * variance * twice_tail
    return middle, noise * by_x**2 + variance * by_tail**2


def _circular(norm: float, noise: float) -> float:
    """The mean squared turn of a plane vector of this norm under noise, around the circle: by its exact density."""
    turns = (np.arange(_TURN) + 0.5) * (2 * math.pi / _TURN) - math.pi
    power = norm**2 / (2 * noise**2)
    if power > (_TURN / 64) ** 2:
        return (noise / norm) ** 2  # a density far narrower than the places; its next term is below 1e-3 of this
    along = math.sqrt(power) * np.cos(turns)
    bell = np.array([1 + math.erf(number) for number in along.tolist()])
    density = np.exp(-power) + math.sqrt(math.pi) * along * np.exp(along**2 - power) * bell
    return float((turns**2 * density).sum() / _TURN)


def _mean_noise(shares: Numbers, bias: float | Vector, size: int) -> Numbers:
    """The mean of the server's noise: the weighted sum of the devices' biases."""
    given = _array("bias", bias)
    if given.ndim == 2 and given.shape == (shares.size, size):
        return shares @ given
    if given.ndim > 1 or given.size not in (1, size):
        raise ParameterError("bias must be one number, one vector, or one row for each device")
    return shares.sum() * np.broadcast_to(given, (size,))


def _spread(shares: Numbers, noise: float | Vector | Noisy) -> float:
    """The variance of the server's noise, summed over coordinates."""
    given = _array("noise", noise.noise() if isinstance(noise, Noisy) else noise)
    if given.ndim > 1 or given.size not in (1, shares.size) or not (given >= 0).all():
        raise ParameterError("noise must be a variance, 0 or more: one number, or one for each device")
    return float((shares**2 * given).sum())


def _weights(given: Vector) -> Numbers:
    shares = _vector("weights", given)
    if not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-9:
        raise ParameterError("weights must be 0 or more and sum to 1: the devices' shares of the records")
    return shares


def _vector(name: str, given: Any) -> Numbers:
    array = _array(name, given)
    if array.ndim != 1 or array.size == 0:
        raise ParameterError(f"{name} must be one vector")
    return array


def _array(name: str, given: Any) -> Numbers:
    array = real_array(given)
    if array is None or not np.isfinite(array).all():
        raise ParameterError(f"{name} must be finite numbers")
    return array


def _positive(name: str, given: float) -> float:
    number = checked_real(name, given)
    if not (math.isfinite(number) and number > 0):
        raise ParameterError(f"{name} must be a finite number above 0")
    return number
