"""How far an estimate will be from the truth: normal, with a bias and a variance that are known before collecting.

Let one calibrated report about an item have bias b(x), variance v(x) and third absolute central moment t(x) for a
user with value x (`Mechanism.moments`). Over r reports, from users of whom a share w(x) holds x, the deviation of
the average from the users' own mean is a sum of independent terms, so it is nearly normal (000 Lemma 2 and 3,
Theorem 1) with

    bias  B = sum w b,        variance  V = sum w v / r.

**How nearly.** The distribution functions differ by at most C T / (s^3 sqrt(r)), with s^2 = sum w v and T = sum w t
(Berry and Esseen). For terms that are all alike C T is 0.33554 (T + 0.415 s^3), for others 0.56 T (Shevtsova 2010).
000 Theorem 2 has the first, but with a third moment of Laplace noise that is half of the right one and r s in the
place of sqrt(r) s: at 1,000 reports the bound is 2.69%, not 1.57%.

**Asked are m of d.** A dimension of a record has r = n m / d reports, from users drawn at random. Their mean varies
about that of all users by (1 - m/d) / r times the variance of the values, which is added.

**Many items.** The papers treat dimensions as independent, and so does `within`: the probability that all
deviations are within their tolerances is the product. `supremum` is the radius of the ball that holds the whole
deviation with the given probability. Frequencies of one question are dependent, weakly if they are many; for them
both are close, not exact.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_confidence, checked_count, real_array
from dither.core.domains import CATEGORIES, SPARSE
from dither.core.mechanism import Mechanism, Reading
from dither.errors import ParameterError
from dither.utility.population import Population, population

MOST_REPORTS = 10**15  # a hundred thousand of everyone on earth
_ALIKE = 1e-9
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Deviation:
    """Estimate less truth, for each item: normal with `bias` and `variance`, up to `normal_error` in distribution.

    >>> from dither import Laplace
    >>> found = deviation(Laplace(1.0), [0.2, 0.4], reports=1000)
    >>> round(found.rmse, 4), round(found.within(0.2), 3), round(100 * found.normal_error, 2)
    (0.0894, 0.975, 2.69)
    """

    bias: Numbers
    variance: Numbers
    reports: int
    normal_error: float

    @property
    def stderr(self) -> Numbers:
        """The standard deviation of each item."""
        return np.sqrt(self.variance)

    @property
    def mse(self) -> float:
        """Mean squared error, averaged over items (001 eq. 4.10)."""
        return float(np.mean(self.bias**2 + self.variance))

    @property
    def rmse(self) -> float:
        """The square root of `mse`."""
        return math.sqrt(self.mse)

    def scaled(self, unit: float) -> "Deviation":
        """In other units: of values that were scaled to [-1, 1] from a region of this half-width."""
        return Deviation(unit * self.bias, unit**2 * self.variance, self.reports, self.normal_error)

    def within(self, tolerance: Any) -> float:
        """The probability that every item is within its tolerance (a number for all, or one for each)."""
        return float(np.prod(self.each_within(tolerance)))

    def each_within(self, tolerance: Any) -> Numbers:
        """For each item, the probability that it is within its tolerance (a number for all, or one for each)."""
        reach = self._for_each("tolerance", tolerance)
        if not (reach >= 0).all():
            raise ParameterError("tolerance must not be negative, for example 0.01")
        return _between(-reach - self.bias, reach - self.bias, self.stderr)

    def supremum(self, confidence: float = 0.95) -> float:
        """The radius that holds the deviation with this probability: Euclidean, for one item its absolute value."""
        confidence = checked_confidence(confidence)
        bias, spread = np.atleast_1d(self.bias), np.atleast_1d(self.stderr)
        high = float(np.linalg.norm(np.abs(bias)) + np.linalg.norm(spread) * (4 + _tail(confidence)))
        low = 0.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if _ball(bias, spread, middle) < confidence else (low, middle)
        return high

    def pdf(self, x: Any) -> float:
        """The density at a deviation: a number, or one for each item."""
        with np.errstate(over="ignore"):  # far out, and where many items are sharp
            scaled = (self._for_each("x", x) - self.bias) / self.stderr
            return float(np.prod(np.exp(-(scaled**2) / 2) / (math.sqrt(2 * math.pi) * self.stderr)))

    def _for_each(self, name: str, given: Any) -> Numbers:
        shape, found = np.shape(self.bias), real_array(given)
        if found is None or found.shape not in ((), shape) or np.isnan(found).any():
            raise ParameterError(
                f"{name} must be one number, or one for each item, of which there are {np.size(self.bias)}"
            )
        return np.broadcast_to(found, shape)

    def __repr__(self) -> str:
        items = np.size(self.bias)
        what = "one item" if items == 1 else f"{items:,} items"
        size = f"rmse {self.rmse:.4g}, normal to {self.normal_error:.2g}"
        return f"Deviation of {what} from {self.reports:,} reports: {size}"


def deviation(
    mechanism: Mechanism, values: Any = None, weights: Any = None, *, reports: int, estimator: str = "calibrated"
) -> Deviation:
    """What `reports` reports will be off by.

    `values` and `weights` say what is known about the users (see `utility.population`): values, a histogram, or the
    name of a distribution. Without them it is the worst case: the users with the largest mean squared error.
    `estimator="naive"` is the reading of outputs as they are, and `"robust"` the one under which lies are worth less,
    where a mechanism has such a one.
    """
    reports = checked_count("reports", reports, 1, MOST_REPORTS)
    reading = reading_of(mechanism, estimator)
    if values is None:
        if weights is not None:
            raise ParameterError("weights belong to values: give both, or neither")
        return _gathered([_worst(item) for item in _items(mechanism, reading, None)], reports)
    users = population(reading.domain, values, weights)
    return _gathered([_average(item, users.weights) for item in _items(mechanism, reading, users)], reports)


def reading_of(mechanism: Mechanism, estimator: str = "calibrated") -> Reading:
    """How the reports of a mechanism are read: `"calibrated"`, or `"naive"` or `"robust"` where it has such a one."""
    if not isinstance(mechanism, Mechanism):
        raise ParameterError("a mechanism with its parameters is needed, for example dither.Piecewise(epsilon=1.0)")
    if estimator == "calibrated":
        return mechanism.reading
    if estimator == "naive" and mechanism.naive is not None:
        return mechanism.naive
    if estimator == "robust" and mechanism.robust is not None:
        return mechanism.robust
    raise ParameterError(
        'estimator must be "calibrated", or "naive" for SquareWave and other window mechanisms, or "robust" for Laplace'
    )


class Item(NamedTuple):
    """For users with each of some values: the moments of a report about some items, and the truth of these items."""

    bias: Numbers
    variance: Numbers
    third: Numbers
    truth: Numbers
    share: float  # of the users who report on it
    categories: bool


class Term(NamedTuple):
    """Of one report about some items, averaged over users."""

    bias: Numbers
    variance: Numbers
    third: Numbers
    share: float
    alike: bool


def _items(mechanism: Mechanism, reading: Reading, users: Population | None) -> Iterator[Item]:
    """The items of a question, in blocks that share what they are asked with."""
    dimensions = mechanism.dimensions
    for j, (own, share) in enumerate(dimensions):
        yield _item(own, own.domain.spread() if users is None else users.values[:, j], share)
    if not dimensions:
        yield _item(reading, reading.domain.spread() if users is None else users.values, 1.0)


def _item(reading: Any, values: NDArray, share: float) -> Item:
    categories = reading.domain.kind == CATEGORIES
    if categories:
        values = values.astype(np.int64)
        truth = (values[:, None] == np.arange(reading.domain.k)).astype(np.float64)
    elif reading.domain.kind == SPARSE:
        truth = reading.truth(values)
    else:
        truth = np.asarray(values["value"] if values.dtype.names else values, dtype=np.float64)
    moments = reading.moments(values)
    return Item(moments.bias, moments.variance, moments.third, truth, share, categories)


def _average(item: Item, weights: Numbers) -> Term:
    bias, variance, third = (np.tensordot(weights, moment, axes=1) for moment in item[:3])
    held = weights > 0
    alike = bool(
        (np.ptp(item.variance[held], axis=0) <= _ALIKE * np.max(item.variance)).all()
        and (np.ptp(item.third[held], axis=0) <= _ALIKE * np.max(item.third)).all()
    )
    if item.share < 1:
        mean = np.tensordot(weights, item.truth, axes=1)
        apart = np.abs(item.truth - mean)
        variance = variance + (1 - item.share) * np.tensordot(weights, apart**2, axes=1)
        third = (third ** (1 / 3) + np.tensordot(weights, apart**3, axes=1) ** (1 / 3)) ** 3  # Minkowski
        alike = False
    return Term(bias, variance, third, item.share, alike)


def _worst(item: Item) -> Term:
    """Of the users with the largest mean squared error.

    Numbers: all users hold the worst one; where few are asked, half of them hold its mirror image, which puts those
    who were asked as far from all as can be. Frequencies: any users who hold the worst categories, evenly.
    """
    cost = (item.bias**2 + item.variance).reshape(len(item.bias), -1).sum(axis=1)
    if item.categories:
        hardest = cost >= cost.max() * (1 - _ALIKE)
        return _average(item, hardest / hardest.sum())
    worst = int(np.argmax(cost + (1 - item.share) * (item.truth**2).reshape(len(cost), -1).sum(axis=1)))
    weights = np.zeros(len(cost))
    weights[worst] += 0.5
    weights[worst if item.share == 1 else len(cost) - 1 - worst] += 0.5
    return _average(item, weights)


def _gathered(terms: list[Term], reports: int) -> Deviation:
    scale = [reports * term.share for term in terms]
    bias = [np.asarray(term.bias) for term in terms]
    variance = [np.asarray(term.variance) / count for term, count in zip(terms, scale, strict=True)]
    error = max(_berry_esseen(term, count) for term, count in zip(terms, scale, strict=True))
    if len(terms) == 1:
        return Deviation(bias[0], variance[0], reports, error)
    flat = [np.concatenate([np.atleast_1d(part) for part in parts]) for parts in (bias, variance)]
    return Deviation(flat[0], flat[1], reports, error)


def _berry_esseen(term: Term, reports: float) -> float:
    spread = np.sqrt(term.variance) ** 3
    ratio = np.divide(term.third, spread, out=np.zeros_like(spread), where=spread > 0)
    constant = 0.33554 * (ratio + 0.415) if term.alike else 0.56 * ratio
    return float(min(1.0, np.max(constant) / math.sqrt(reports)))


def _between(low: Numbers, high: Numbers, spread: Numbers) -> Numbers:
    """P(low <= N(0, spread) <= high), without cancelling in a tail."""
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        a, b = low / spread / math.sqrt(2), high / spread / math.sqrt(2)
    flip = a > 0  # both in the upper tail: mirror
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    return (erfc(-b) - erfc(-a)) / 2


def _tail(confidence: float) -> float:
    return -NormalDist().inv_cdf((1 - confidence) / 2)  # next to 1, half of 1 + confidence is rounded to 1


def _ball(bias: Numbers, spread: Numbers, radius: float) -> float:
    """P(|deviation| <= radius) for independent normal items."""
    if bias.size == 1:
        return float(_between(-radius - bias, radius - bias, spread)[0])
    return _imhof(bias, spread, radius)


def _imhof(bias: Numbers, spread: Numbers, radius: float) -> float:
    """The same by inverting the characteristic function of the squared length (Imhof 1961).

    With weights l_j = spread_j^2 and shifts c_j = (bias_j / spread_j)^2 the probability is 1/2 less
    1/pi times the integral over u > 0 of sin(theta(u)) / (u rho(u)), where

        theta = 1/2 sum [atan(l u) + c l u / (1 + l^2 u^2)] - q u / 2,
        rho = prod (1 + l^2 u^2)^(1/4) exp(1/2 sum c l^2 u^2 / (1 + l^2 u^2)).
    """
    scale = float(np.max(spread)) ** 2
    weights, places = np.unique(np.round(spread**2 / scale, 12), return_inverse=True)
    counts = np.bincount(places).astype(np.float64)
    shifts = np.bincount(places, weights=(bias**2 / scale) / (spread**2 / scale) if scale else bias * 0)
    q = radius**2 / scale
    u = np.concatenate([np.linspace(1e-9, 1, 4001)[:-1], np.geomspace(1, 1e5, 20_001)])
    lu = weights * u[:, None]
    inner = 1 + lu**2
    theta = (counts * np.arctan(lu) + shifts * lu / inner).sum(axis=1) / 2 - q * u / 2
    log_rho = (counts * np.log(inner) / 4 + shifts * lu**2 / inner / 2).sum(axis=1)
    value = np.sin(theta) / u * np.exp(-log_rho)
    return float(np.clip(0.5 - np.trapezoid(value, u) / math.pi, 0.0, 1.0))
