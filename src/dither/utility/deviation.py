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

**Asked are m of d.** A dimension of a record has r = n m / d reports, from users drawn at random. What their reports
mean, the value with its bias, varies about that of all users by (1 - m/d) / r times its variance, which is added.

**Many items.** `within` is the probability that all deviations are within their tolerances, and `maximum` turns it
around: the largest error over all items, at a confidence. For dimensions that are independent, as the papers have them,
it is the product over items. The frequencies of one question are not independent; for normal errors without a bias the
product is then a lower bound, whatever the correlations are (Sidak 1967), so that `maximum` is never too small. It is
sharp where items are many. `maximum(confidence, proven=True)` needs no normal law (`utility.concentration`).

`supremum` is the radius of the ball that holds the whole deviation, exactly at any confidence (`quadratic_forms`). It
knows how the frequencies of one question go together, where that is known of a mechanism; other items count as
uncorrelated.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_confidence, checked_count, real_array
from dither.core.covariance import Covariance
from dither.core.domains import CATEGORIES, SPARSE
from dither.core.mechanism import Mechanism, Reading
from dither.core.worth import Worth
from dither.errors import ParameterError
from dither.utility.concentration import Concentration
from dither.utility.population import Population, population
from dither.utility.quadratic_forms import SquaredLength

MOST_REPORTS = 10**15  # a hundred thousand of everyone on earth
_ALIKE = 1e-9
_HALVINGS = 60
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Deviation:
    """Estimate less truth, for each item: normal with `bias` and `variance`, up to `normal_error` in distribution.

    >>> from dither import Laplace
    >>> found = deviation(Laplace(1.0), [0.2, 0.4], reports=1000)
    >>> round(found.rmse, 4), round(found.within(0.2), 3), round(100 * found.normal_error, 2)
    (0.0894, 0.975, 2.69)
    >>> round(found.maximum(0.95), 4), round(found.maximum(0.95, proven=True), 4)
    (0.1752, 0.2988)
    """

    bias: Numbers
    variance: Numbers
    reports: int
    normal_error: float
    # Of one question after the other, as far as their errors are correlated; of independent items none need be given.
    covariances: tuple[Covariance, ...] = ()
    proof: Callable[[], Concentration] | None = None  # what is known of any number of reports; it may take long

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
        """The probability that every item is within its tolerance (a number for all, or one for each).

        Of correlated items without a bias, at least.
        """
        inside, reach = np.atleast_1d(self.each_within(tolerance)).copy(), self._for_each("tolerance", tolerance)
        for here in self._one_in_two():
            inside[here] = 1.0, self._both_within(here, np.atleast_1d(reach)[here])
        return float(np.prod(inside))

    def each_within(self, tolerance: Any) -> Numbers:
        """For each item, the probability that it is within its tolerance (a number for all, or one for each)."""
        reach = self._for_each("tolerance", tolerance)
        if not (reach >= 0).all():
            raise ParameterError("tolerance must not be negative, for example 0.01")
        return _between(-reach - self.bias, reach - self.bias, self.stderr)

    def maximum(self, confidence: float = 0.95, *, proven: bool = False) -> float:
        """What no item is off by more than, with this probability: the largest error over all of them.

        By the normal law it is the tolerance that `within` gives this probability. What is `proven` holds for any
        number of reports, and is a little larger.

        >>> from dither import SampledDuchi
        >>> found = deviation(SampledDuchi(d=100, epsilon=1.0), reports=100_000)
        >>> round(found.rmse, 3), round(found.maximum(0.95), 3), round(found.maximum(0.95, proven=True), 3)
        (0.068, 0.238, 0.29)
        """
        confidence = checked_confidence(confidence)
        if proven:
            if self.proof is None:
                raise ParameterError("nothing is proven of errors put together by hand: ask deviation(...) for them")
            return self.proof().radius(confidence)
        bias, stderr = self._kept()
        kinds, times = np.unique(np.stack([np.abs(bias), stderr], axis=1), axis=0, return_counts=True)
        return largest_error(kinds[:, 0], kinds[:, 1], times, confidence)

    def supremum(self, confidence: float = 0.95) -> float:
        """The radius that holds the deviation with this probability: Euclidean, for one item its absolute value."""
        confidence = checked_confidence(confidence)
        bias = np.atleast_1d(self.bias).astype(np.float64)
        known = self.covariances or (Covariance.uncorrelated(np.atleast_1d(self.variance)),)
        ends = np.cumsum([each.size for each in known])
        parts = zip(np.split(bias, ends[:-1]), known, strict=True)
        return SquaredLength.of(parts).quantile(confidence)

    def _one_in_two(self) -> Iterator[slice]:
        """Where two items are one: two shares, if a report adds to one what it takes off the other."""
        first = 0
        for each in self.covariances:
            if (
                each.size == 2
                and abs(each.between([1, 0], [0, 1])) >= (1 - _ALIKE) * math.sqrt(np.prod(each.variance)) > 0
            ):
                yield slice(first, first + 2)
            first += each.size

    def _both_within(self, here: slice, reach: Numbers) -> float:
        """The probability that two opposite items are within their tolerances: one normal in two intervals."""
        bias, stderr = self.bias[here] * [1, -1], self.stderr[here]
        low, high = ((sign * reach - bias) / stderr for sign in (-1, 1))
        ends = np.array([low.max()]), np.array([high.min()])
        return float(_between(*ends, np.ones(1))[0]) if ends[0] < ends[1] else 0.0

    def _kept(self) -> tuple[Numbers, Numbers]:
        """Bias and standard deviation of all items but those that are the opposite of another one."""
        bias, stderr = (np.atleast_1d(each).astype(np.float64) for each in (self.bias, self.stderr))
        other = [here.stop - 1 for here in self._one_in_two() if stderr[here.stop - 2] == stderr[here.stop - 1]]
        return np.delete(bias, other), np.delete(stderr, other)

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
        terms = [_worst(item, reports) for item in _items(mechanism, reading, estimator, None)]
    else:
        users = population(reading.domain, values, weights)
        terms = [_average(item, users.weights) for item in _items(mechanism, reading, estimator, users)]
    return _gathered(terms, reports, partial(_concentration, mechanism, estimator, terms, reports))


def reading_of(mechanism: Mechanism, estimator: str = "calibrated") -> Reading:
    """How the reports of a mechanism are read: `"calibrated"`, or `"naive"` or `"robust"` where it has such a one."""
    if not isinstance(mechanism, Mechanism):
        raise ParameterError("a mechanism with its parameters is needed, for example dither.Piecewise(epsilon=1.0)")
    found = mechanism.read_by(estimator)
    if found is not None:
        return found
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
    frequencies: Any = None  # their reading, where the items are the shares of categories

    @property
    def meant(self) -> Numbers:
        """What a report means on average: the truth with its bias."""
        return self.truth + self.bias


class Term(NamedTuple):
    """Of one report about some items, averaged over users."""

    bias: Numbers
    variance: Numbers
    third: Numbers
    share: float
    alike: bool
    covariance: Covariance | None
    most_bias: Numbers  # of all users that this is about, without a sign
    most_variance: Numbers


def _items(mechanism: Mechanism, reading: Reading, estimator: str, users: Population | None) -> Iterator[Item]:
    """The items of a question, in blocks that share what they are asked with."""
    dimensions = mechanism.dimensions_by(estimator)
    for j, (own, share) in enumerate(dimensions):
        yield _item(own, own.domain.spread() if users is None else users.values[:, j], share)
    if not dimensions:
        yield _item(reading, reading.domain.spread() if users is None else users.values, 1.0)


def _item(reading: Any, values: NDArray, share: float) -> Item:
    categories = reading.domain.kind == CATEGORIES
    values = values.astype(np.int64) if categories else values
    moments = reading.moments(values)
    if categories:
        truth = (values[:, None] == np.arange(reading.domain.k)).astype(np.float64)
    elif reading.domain.kind == SPARSE:
        truth = reading.truth(values)
    else:
        truth = np.asarray(values["value"] if values.dtype.names else values, dtype=np.float64)
    return Item(moments.bias, moments.variance, moments.third, truth, share, reading if categories else None)


def _average(item: Item, weights: Numbers) -> Term:
    bias, variance, third = (np.tensordot(weights, moment, axes=1) for moment in item[:3])
    held = weights > 0
    alike = bool(
        (np.ptp(item.variance[held], axis=0) <= _ALIKE * np.max(item.variance)).all()
        and (np.ptp(item.third[held], axis=0) <= _ALIKE * np.max(item.third)).all()
    )
    if item.share < 1:
        mean = np.tensordot(weights, item.meant, axes=1)
        apart = np.abs(item.meant - mean)
        variance = variance + (1 - item.share) * np.tensordot(weights, apart**2, axes=1)
        third = (third ** (1 / 3) + np.tensordot(weights, apart**3, axes=1) ** (1 / 3)) ** 3  # Minkowski
        alike = False
    together = None
    if item.frequencies is not None:
        together = item.frequencies.covariance(np.tensordot(weights, item.truth, axes=1), 1 - item.share)
    return Term(bias, variance, third, item.share, alike, together, np.abs(bias), variance)


def _worst(item: Item, reports: int) -> Term:
    """Of the users with the largest mean squared error.

    Numbers: all users hold the worst one; or, where few are asked, half of them its mirror image, which puts those who
    were asked as far from all as can be, and takes the bias away: whichever is worse. Frequencies: any users who hold
    the worst categories, evenly. What is at most is taken item by item, each with its own worst users.
    """
    count = len(item.bias)
    noise = item.variance.reshape(count, -1).sum(axis=1) / (reports * item.share)
    squares = (item.bias**2).reshape(count, -1).sum(axis=1)
    if item.frequencies is not None:
        cost = squares + noise
        hardest = cost >= cost.max() * (1 - _ALIKE)
        found = _average(item, hardest / hardest.sum())
    else:
        apart = (item.meant**2).reshape(count, -1).sum(axis=1) * (1 - item.share) / (reports * item.share)
        mirrored = item.share < 1 and np.max(noise + apart) >= np.max(noise + squares)
        worst = int(np.argmax(noise + apart if mirrored else noise + squares))
        weights = np.zeros(count)
        weights[worst] += 0.5
        weights[count - 1 - worst if mirrored else worst] += 0.5
        found = _average(item, weights)
    middle = (item.meant.max(axis=0) + item.meant.min(axis=0)) / 2
    at_most = item.variance + (1 - item.share) * (item.meant - middle) ** 2  # a variance is least about its own mean
    return found._replace(most_bias=np.abs(item.bias).max(axis=0), most_variance=at_most.max(axis=0))


def _gathered(terms: list[Term], reports: int, proof: Callable[[], Concentration]) -> Deviation:
    scale = [reports * term.share for term in terms]
    bias = [np.asarray(term.bias) for term in terms]
    variance = [np.asarray(term.variance) / count for term, count in zip(terms, scale, strict=True)]
    error = max(_berry_esseen(term, count) for term, count in zip(terms, scale, strict=True))
    covariances: tuple[Covariance, ...] = ()
    if any(term.covariance is not None for term in terms):
        covariances = tuple(
            Covariance.uncorrelated(np.atleast_1d(own))
            if term.covariance is None
            else term.covariance.scaled(count**-0.5)
            for term, own, count in zip(terms, variance, scale, strict=True)
        )
    if len(terms) == 1:
        return Deviation(bias[0], variance[0], reports, error, covariances, proof)
    flat = [np.concatenate([np.atleast_1d(part) for part in parts]) for parts in (bias, variance)]
    return Deviation(flat[0], flat[1], reports, error, covariances, proof)


def _berry_esseen(term: Term, reports: float) -> float:
    spread = np.sqrt(term.variance) ** 3
    ratio = np.divide(term.third, spread, out=np.zeros_like(spread), where=spread > 0)
    constant = 0.33554 * (ratio + 0.415) if term.alike else 0.56 * ratio
    return float(min(1.0, np.max(constant) / math.sqrt(reports)))


def _concentration(mechanism: Mechanism, estimator: str, terms: Sequence[Term], reports: int) -> Concentration:
    """What is known of any number of reports, from what each is worth at most to any of the items."""
    alone = mechanism.components if mechanism.dimensions_by(estimator) else ()
    parts = alone or (mechanism,)
    plain = [_averages(part, estimator if part.read_by(estimator) is not None else "calibrated") for part in parts]
    if not all(plain) or any(part.displacement() > 0 for part in parts):
        raise ParameterError(
            "nothing is proven here: the estimate is no plain average of reports with a known range, as with hash "
            "functions that users share; leave proven out"
        )
    worths = [worth for each in plain for worth in each]
    low, high = min(worth.low for worth in worths), max(worth.high for worth in worths)
    span = max(max(worth.most for worth in worths) - low, high - min(worth.least for worth in worths))
    asked = float(min(worth.asked for worth in worths))
    columns = []
    for term in terms:
        # Where a draw is part of the report, its moments count what was not asked as 0: q times their variance is at
        # least that of a report about the item.
        share, scale = (term.share, 1.0) if term.share < 1 else (asked, asked)
        bias, variance = (np.atleast_1d(each) for each in (term.most_bias, term.most_variance))
        columns.append(np.stack([np.full(bias.shape, share), bias, variance * scale]))
    share, bias, variance = np.concatenate(columns, axis=1)
    return Concentration(reports, share, bias, variance, float(span), float(high - low))


def _averages(mechanism: Mechanism, estimator: str) -> list[Worth]:
    """What a report is worth to the numbers that are plain averages of reports."""
    return [worth for worth in mechanism.report_worth_by(estimator) or () if not worth.note]


def largest_error(bias: Numbers, stderr: Numbers, times: NDArray, confidence: float) -> float:
    """What none of some independent normal errors exceeds with this probability; each kind comes so many times."""
    most = _tail(1 - (1 - confidence) / float(np.sum(times)))
    low, high = 0.0, float(np.max(np.abs(bias) + most * stderr))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = float(times @ _log_within(middle, np.abs(bias), stderr)) >= math.log(confidence)
        low, high = (low, middle) if enough else (middle, high)
    return high


def _between(low: Numbers, high: Numbers, spread: Numbers) -> Numbers:
    """P(low <= N(0, spread) <= high), without cancelling in a tail."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        a, b = low / spread / math.sqrt(2), high / spread / math.sqrt(2)
    a, b = (np.where(np.isnan(each), 0.0, each) for each in (a, b))  # without noise, at the very end: inside
    flip = a > 0  # both in the upper tail: mirror
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    exact = (low <= 0) & (high >= 0)
    return np.where(spread > 0, (_erfc(-b) - _erfc(-a)) / 2, exact)


def _log_within(radius: float, bias: Numbers, spread: Numbers) -> Numbers:
    """The logarithm of the probability of being within a radius, to all digits where that is next to 1."""
    inside = _between(-radius - bias, radius - bias, spread)
    with np.errstate(divide="ignore", invalid="ignore"):
        above, below = ((radius + sign * bias) / spread / math.sqrt(2) for sign in (-1, 1))
        outside = (_erfc(above) + _erfc(below)) / 2
        return np.where(spread > 0, np.where(inside > 0.5, np.log1p(-outside), np.log(inside)), np.log(inside))


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _tail(confidence: float) -> float:
    return -NormalDist().inv_cdf((1 - confidence) / 2)  # next to 1, half of 1 + confidence is rounded to 1
