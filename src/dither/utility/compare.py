"""Which mechanism, how many users, which budget: questions that the deviation answers without an experiment.

Mean squared error is B^2 + s^2 / r with a bias B and a variance s^2 of one report, so every question here is one
about that curve. It is estimated at one number of reports and known at all.

**Break-even** (001 Algorithm 3). Two curves B_a^2 + s_a^2 / r and B_b^2 + s_b^2 / r meet at most once, at

    r = (s_b^2 - s_a^2) / (B_a^2 - B_b^2).

If this is positive, the one with the smaller variance wins below it, and the one with the smaller bias above.
Otherwise one of them has both the smaller bias and the smaller variance, and always wins. (The printed algorithm
names the same winner in both cases; which one it is follows from the biases.)

**Per dimension** (001 section 4.1.3). Dimensions differ in their users, and so in the mechanism that suits them. A
ranking therefore also names the best candidate of each item, and states what choosing per item would give.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_epsilon
from dither.core.domain import Categories, Records
from dither.core.errors import ParameterError
from dither.core.mechanism import Mechanism
from dither.show.table import Table
from dither.utility.deviation import Deviation, _between, deviation

_MOST_USERS = 10**15


@dataclass(frozen=True, eq=False)
class Ranking:
    """Candidates, the best first; and the best for each item.

    >>> from dither import Sampled
    >>> users = [[-1.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [1.0, -0.1]]
    >>> names = ("Duchi", "Piecewise")
    >>> found = rank({name: Sampled(name, d=2, m=1, epsilon=2.0) for name in names}, users, reports=1000)
    >>> found.per_item
    ('Duchi', 'Piecewise')
    >>> found.items()
    item  best           rmse  runner-up  runner-up rmse
    0     Duchi      0.049479  Piecewise         0.05878
    1     Piecewise  0.036085  Duchi            0.058678
    """

    names: tuple[str, ...]
    deviations: tuple[Deviation, ...]
    tolerance: float | None

    @property
    def best(self) -> str:
        """The name of the best candidate."""
        return self.names[0]

    @property
    def per_item(self) -> tuple[str, ...]:
        """The name of the best candidate for each item: each dimension of a record, each category of a question."""
        return tuple(self.names[number] for number in self._order[0])

    @property
    def combination(self) -> Deviation:
        """What choosing the best candidate for each item would give.

        For the dimensions of records this is a mechanism if the candidates report equally many dimensions:
        `Sampled(ranking.per_item, ...)` with the bases for names. For the categories of one question it is not, since
        they are reported together; there it is a measure of how much the candidates differ.
        """
        shape = np.shape(self.deviations[0].bias)
        bias, variance = (
            np.take_along_axis(self._stacked(name), self._order[:1], axis=0).reshape(shape)
            for name in ("bias", "variance")
        )
        used = {int(number) for number in self._order[0]}
        error = max(self.deviations[number].normal_error for number in used)
        return Deviation(bias, variance, self.deviations[0].reports, error)

    def items(self) -> Table:
        """One row an item: the best candidate, and the one that comes next."""
        rmse = np.sqrt(self._stacked("bias") ** 2 + self._stacked("variance"))
        columns: dict[str, Any] = {"item": [str(item) for item in range(rmse.shape[1])]}
        for (name, size), order in zip((("best", "rmse"), ("runner-up", "runner-up rmse")), self._order, strict=False):
            columns[name] = [self.names[number] for number in order]
            columns[size] = np.take_along_axis(rmse, order[None], axis=0)[0]
        return Table(columns)

    def _stacked(self, name: str) -> NDArray[np.float64]:
        """The bias or variance of all candidates (rows) for all items (columns)."""
        return np.stack([np.atleast_1d(getattr(found, name)) for found in self.deviations])

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """The numbers of the candidates for each item (columns), the best first; of equal ones the best overall."""
        bias, variance = self._stacked("bias"), self._stacked("variance")
        cost = bias**2 + variance
        if self.tolerance is None:
            return np.argsort(cost, axis=0, kind="stable")
        inside = _between(-self.tolerance - bias, self.tolerance - bias, np.sqrt(variance))
        return np.lexsort((cost, -inside), axis=0)

    def table(self) -> Table:
        """One row a candidate."""
        columns: dict[str, Any] = {
            "mechanism": list(self.names),
            "rmse": [found.rmse for found in self.deviations],
            "largest bias": [_visible(float(np.max(np.abs(found.bias))), found.rmse) for found in self.deviations],
            "radius 95%": [found.supremum(0.95) for found in self.deviations],
        }
        if self.tolerance is not None:
            columns[f"within {self.tolerance:g}"] = [found.within(self.tolerance) for found in self.deviations]
        return Table(columns)

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _visible(bias: float, error: float) -> float:
    """A bias, or zero where it is a rounding beside the error."""
    return bias if bias > 1e-9 * error else 0.0


def _item_count(domain: Any) -> int:
    """How many numbers an estimate for a domain has."""
    if isinstance(domain, Records):
        return sum(_item_count(domain.of(j)) for j in range(domain.d))
    return domain.k if isinstance(domain, Categories) else 1


def rank(
    mechanisms: Mapping[str, Mechanism] | Iterable[Mechanism],
    values: Any = None,
    weights: Any = None,
    *,
    reports: int,
    tolerance: float | None = None,
    estimator: str = "calibrated",
) -> Ranking:
    """Mechanisms by their mean squared error, or by the probability of staying within a tolerance.

    The candidates answer the same question. For records, `values` has a column for each dimension, and `per_item`,
    `items()` and `combination` of the result say which candidate is the best for each.

    >>> from dither import Duchi, Laplace, Piecewise
    >>> rank([Laplace(1.0), Duchi(1.0), Piecewise(1.0)], "uniform", reports=1000).best
    'Piecewise(epsilon=1.0)'
    """
    candidates: Any = mechanisms
    named: dict[str, Mechanism] = (
        dict(candidates) if isinstance(candidates, Mapping) else {repr(each): each for each in candidates}
    )
    if not named:
        raise ParameterError("there is nothing to compare: give at least one mechanism")
    if len({_item_count(each.reading.domain) for each in named.values()}) > 1:
        raise ParameterError(
            "the candidates answer different questions: give mechanisms with the same dimensions and categories, or "
            "rank them apart"
        )
    found = [
        (name, deviation(each, values, weights, reports=reports, estimator=estimator)) for name, each in named.items()
    ]

    def cost(pair: tuple[str, Deviation]) -> tuple[float, float]:
        return (0.0 if tolerance is None else -pair[1].within(tolerance)), pair[1].mse

    found.sort(key=cost)
    return Ranking(tuple(name for name, _ in found), tuple(each for _, each in found), tolerance)


@dataclass(frozen=True)
class BreakEven:
    """From how many reports on another one wins; `reports` is infinite if `fewer` always wins.

    >>> BreakEven("a", "b", 4132.0)
    a wins below 4,132 reports, b above
    """

    fewer: str
    more: str
    reports: float

    def winner(self, reports: int) -> str:
        """The better one at this number of reports."""
        return self.fewer if reports < self.reports else self.more

    def __repr__(self) -> str:
        if math.isinf(self.reports):
            return f"{self.fewer} always wins"
        return f"{self.fewer} wins below {math.ceil(self.reports):,} reports, {self.more} above"


def break_even(
    a: Mechanism,
    b: Mechanism,
    values: Any = None,
    weights: Any = None,
    *,
    estimators: tuple[str, str] = ("calibrated", "calibrated"),
) -> BreakEven:
    """The number of reports at which two mechanisms have the same mean squared error, and who wins on which side.

    >>> from dither import Piecewise, SquareWave
    >>> known = (2 * np.arange(1, 11) / 10 - 1)
    >>> break_even(SquareWave(1.0), Piecewise(1.0), known, estimators=("naive", "calibrated")).fewer
    'SquareWave(epsilon=1.0)'
    """
    names = repr(a), repr(b)
    one, two = (
        deviation(each, values, weights, reports=1, estimator=kind)
        for each, kind in zip((a, b), estimators, strict=True)
    )
    variance = [float(np.mean(found.variance)) for found in (one, two)]
    bias = [float(np.mean(found.bias**2)) for found in (one, two)]
    apart = bias[0] - bias[1]
    meeting = (variance[1] - variance[0]) / apart if apart else math.inf
    if not (meeting > 0 and math.isfinite(meeting)):
        always = min((0, 1), key=lambda i: (variance[i], bias[i]))
        return BreakEven(names[always], names[1 - always], math.inf)
    small = 0 if variance[0] < variance[1] else 1
    return BreakEven(names[small], names[1 - small], meeting)


def users_for(
    mechanism: Mechanism,
    error: float,
    confidence: float | None = None,
    values: Any = None,
    weights: Any = None,
    *,
    estimator: str = "calibrated",
) -> int:
    """How many users must report for an rmse of `error`; with `confidence`, for all items to be within it so often.

    >>> from dither import Piecewise
    >>> users_for(Piecewise(1.0), 0.01)
    52234
    """
    _checked_error(error)

    def enough(users: int) -> bool:
        found = deviation(mechanism, values, weights, reports=users, estimator=estimator)
        return found.rmse <= error if confidence is None else found.within(error) >= confidence

    return _least(enough, _MOST_USERS)


def epsilon_for(
    make: Callable[[float], Mechanism],
    error: float,
    confidence: float | None = None,
    values: Any = None,
    weights: Any = None,
    *,
    users: int,
    most: float = 16.0,
) -> float:
    """The smallest budget for which `make(epsilon)` reaches an error, to a thousandth, rounded up.

    >>> from dither import Piecewise
    >>> epsilon_for(Piecewise, 0.01, users=100_000)
    0.727
    """
    _checked_error(error)
    top = round(checked_epsilon(most) * 1000)

    def enough(steps: int) -> bool:
        found = deviation(make(steps / 1000), values, weights, reports=users)
        return found.rmse <= error if confidence is None else found.within(error) >= confidence

    if not enough(top):
        raise ParameterError(
            f"even epsilon {most:g} does not reach this error with so many users; ask for a larger error"
        )
    return _least(enough, top) / 1000


def _checked_error(error: float) -> None:
    if isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error < math.inf:
        raise ParameterError("error must be a number above 0, for example 0.01")


def _least(enough: Callable[[int], bool], most: int) -> int:
    """The smallest number that is enough; more is always enough."""
    high = 1
    while not enough(high):
        if high >= most:
            raise ParameterError("no number of users reaches this error: the estimate is biased by more than it")
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
