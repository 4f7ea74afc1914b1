"""Which mechanism, how many users, which budget: questions that the deviation answers without an experiment.

Mean squared error is B^2 + s^2 / r with a bias B and a variance s^2 of one report, so every question here is one
about that curve. It is estimated at one number of reports and known at all.

**Break-even** (001 Algorithm 3). Two curves B_a^2 + s_a^2 / r and B_b^2 + s_b^2 / r meet at most once, at

    r = (s_b^2 - s_a^2) / (B_a^2 - B_b^2).

If this is positive, the one with the smaller variance wins below it, and the one with the smaller bias above.
Otherwise one of them has both the smaller bias and the smaller variance, and always wins. (The printed algorithm
names the same winner in both cases; which one it is follows from the biases.) A meeting below one report is none.

The worst users of a biased reading depend on how many report: of few, those with the most noise, of many, those with
the largest bias. So the meeting of worst cases is looked for with the users that are worst there.

**Per dimension** (001 section 4.1.3). Dimensions differ in their users, and so in the mechanism that suits them. A
ranking therefore also names the best candidate of each item, and states what choosing per item would give; and two
mechanisms break even in each of them.

**The largest error** (002 Theorems 2, 4 and 5). A user or an analyst who looks at all attributes sees the worst of
them. `goal="maximum"` asks that all items are within an error, with a confidence, by the normal law or as it is proven
for any number of reports (`Deviation.maximum`).

**After shuffling** (003 section 8.2.5). Behind a shuffler mechanisms are compared at the same *central* guarantee: each
has the largest local epsilon with which the crowd keeps it, by its own bound. A mechanism that hides better in a crowd
may spend more.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_choice, checked_confidence, checked_count, checked_list, checked_real
from dither.core.domains import GROUPS, RECORDS, WHOLE_NUMBERS
from dither.core.mechanism import Mechanism, Reading
from dither.display.table import TextTable
from dither.errors import ParameterError
from dither.utility.deviation import MOST_REPORTS, Deviation, deviation, reading_of

_ALIKE = 1e-9
_STEPS = 1000  # of a budget, in 1
_MOST_BUDGET = 1e6
_GOALS = ("rmse", "maximum")
_USUAL = 0.95  # confidence of a largest error


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

    def items(self) -> TextTable:
        """One row an item: the best candidate, and the one that comes next."""
        rmse = np.sqrt(self._stacked("bias") ** 2 + self._stacked("variance"))
        columns: dict[str, Any] = {"item": [str(item) for item in range(rmse.shape[1])]}
        for (name, size), order in zip((("best", "rmse"), ("runner-up", "runner-up rmse")), self._order, strict=False):
            columns[name] = [self.names[number] for number in order]
            columns[size] = np.take_along_axis(rmse, order[None], axis=0)[0]
        return TextTable(columns)

    def _stacked(self, name: str) -> NDArray[np.float64]:
        """The bias or variance of all candidates (rows) for all items (columns)."""
        return np.stack([np.atleast_1d(getattr(found, name)) for found in self.deviations])

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """The numbers of the candidates for each item (columns), the best first; of equal ones the best overall."""
        cost = self._stacked("bias") ** 2 + self._stacked("variance")
        if self.tolerance is None:
            return np.argsort(cost, axis=0, kind="stable")
        inside = np.stack([np.atleast_1d(found.each_within(self.tolerance)) for found in self.deviations])
        return np.lexsort((cost, -inside), axis=0)

    def table(self) -> TextTable:
        """One row a candidate."""
        columns: dict[str, Any] = {
            "mechanism": list(self.names),
            "rmse": [found.rmse for found in self.deviations],
            "largest bias": [_visible(float(np.max(np.abs(found.bias))), found.rmse) for found in self.deviations],
            "radius 95%": [found.supremum(_USUAL) for found in self.deviations],
        }
        if np.size(self.deviations[0].bias) > 1:
            columns["maximum 95%"] = [found.maximum(_USUAL) for found in self.deviations]
        if self.tolerance is not None:
            columns[f"within {self.tolerance:g}"] = [found.within(self.tolerance) for found in self.deviations]
        return TextTable(columns)

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _visible(bias: float, error: float) -> float:
    """A bias, or zero where it is a rounding beside the error."""
    return bias if bias > _ALIKE * error else 0.0


def rank(
    mechanisms: Mapping[str, Mechanism] | Iterable[Mechanism],
    values: Any = None,
    weights: Any = None,
    *,
    reports: int,
    tolerance: float | None = None,
    estimator: str | Mapping[str, str] = "calibrated",
) -> Ranking:
    """Mechanisms by their mean squared error, or by the probability of staying within a tolerance.

    The candidates answer the same question. For records, `values` has a column for each dimension, and `per_item`,
    `items()` and `combination` of the result say which candidate is the best for each. `estimator` is that of all
    candidates, or maps the names of some to theirs.

    >>> from dither import Duchi, Laplace, Piecewise, SquareWave
    >>> rank([Laplace(1.0), Duchi(1.0), Piecewise(1.0)], "uniform", reports=1000).best
    'Piecewise(epsilon=1.0)'
    >>> waves = {"as it is": SquareWave(1.0), "calibrated": SquareWave(1.0)}
    >>> rank(waves, [0.8], reports=1000, estimator={"as it is": "naive"}).best
    'calibrated'
    """
    named = _named(mechanisms)
    kinds = _kinds(estimator, named)
    within = None if tolerance is None else checked_real("tolerance", tolerance)
    _same_question(reading_of(each, kinds[name]) for name, each in named.items())
    found = {
        name: deviation(each, values, weights, reports=reports, estimator=kinds[name]) for name, each in named.items()
    }

    def cost(name: str) -> tuple[float, float]:
        return (0.0 if within is None else -found[name].within(within)), found[name].mse

    order = sorted(found, key=cost)
    return Ranking(tuple(order), tuple(found[name] for name in order), within)


def _named(mechanisms: Any) -> dict[str, Mechanism]:
    if not isinstance(mechanisms, Iterable):
        raise ParameterError("several mechanisms are ranked: give a list of them, or a mapping from names to them")
    named = dict(mechanisms) if isinstance(mechanisms, Mapping) else {repr(each): each for each in mechanisms}
    if not named:
        raise ParameterError("there is nothing to compare: give at least one mechanism")
    return named


def _kinds(estimator: str | Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The estimator of each candidate."""
    if not isinstance(estimator, Mapping):
        return dict.fromkeys(names, estimator)
    if not set(estimator) <= set(names):
        raise ParameterError(f"estimator names a mechanism that is not there; there are {', '.join(map(str, names))}")
    return dict.fromkeys(names, "calibrated") | dict(estimator)


def _same_question(readings: Iterable[Reading]) -> None:
    if len({_question(reading.domain) for reading in readings}) > 1:
        raise ParameterError(
            "the candidates answer different questions: give mechanisms with the same dimensions and categories, or "
            "rank them apart"
        )


def _question(domain: Any) -> Any:
    """What is asked, whatever the budget and however the domain is written."""
    if domain.kind in (RECORDS, WHOLE_NUMBERS):
        return tuple(domain.of(j) for j in range(domain.d))
    if domain.kind == GROUPS:
        return tuple((group.name, group.low, group.high) for group in domain.groups)
    return domain


class LocalBudget(Protocol):
    """The largest local epsilon of a mechanism with which n shuffled reports keep a central guarantee."""

    def __call__(self, central: float, n: int, delta: float, *, mechanism: Callable[[float], Mechanism]) -> float: ...


@dataclass(frozen=True, eq=False)
class ShuffledRanking:
    """Candidates at one central guarantee, the best first: what each may spend locally, and its error.

    `alone` are their errors without a shuffler, where a report itself has to keep the central epsilon.
    """

    central: float
    delta: float
    names: tuple[str, ...]
    epsilons: tuple[float, ...]
    deviations: tuple[Deviation, ...]
    alone: tuple[Deviation, ...]

    @property
    def best(self) -> str:
        """The name of the best candidate."""
        return self.names[0]

    def table(self) -> TextTable:
        """One row a candidate."""
        shuffled, alone = ([found.rmse for found in each] for each in (self.deviations, self.alone))
        return TextTable(
            {
                "mechanism": list(self.names),
                "local epsilon": list(self.epsilons),
                "rmse": shuffled,
                "maximum 95%": [found.maximum(_USUAL) for found in self.deviations],
                "rmse without a shuffler": alone,
                "gain": [other / own for own, other in zip(shuffled, alone, strict=True)],
            }
        )

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def rank_shuffled(
    makes: Mapping[str, Callable[[float], Mechanism]],
    central: float,
    delta: float,
    values: Any = None,
    weights: Any = None,
    *,
    users: int,
    local_budget: LocalBudget,
    estimator: str | Mapping[str, str] = "calibrated",
) -> ShuffledRanking:
    """Mechanisms by their error behind a shuffler, each with the local epsilon that (central, delta) allows it.

    `makes` has a function from epsilon to a mechanism for each name. `local_budget` is that of `dither.privacy`:
    what is promised is worked out there.

    >>> from dither import Duchi, Piecewise
    >>> from dither.privacy import local_budget
    >>> makes = {"Duchi": Duchi, "Piecewise": Piecewise}
    >>> found = rank_shuffled(makes, 0.1, 1e-6, users=10_000, local_budget=local_budget)
    >>> found.best, [other.rmse > 10 * own.rmse for own, other in zip(found.deviations, found.alone)]
    ('Piecewise', [True, True])
    """
    users = checked_count("users", users, 2, MOST_REPORTS)
    named = _named(makes)
    kinds = _kinds(estimator, named)

    def at(name: str, epsilon: float) -> Deviation:
        made = _made(makes[name], epsilon)
        return deviation(made, values, weights, reports=users, estimator=kinds[name])

    _same_question(reading_of(_made(make, central), kinds[name]) for name, make in makes.items())
    epsilons = {
        name: local_budget(central, users, delta, mechanism=lambda epsilon, make=make: _made(make, epsilon))
        for name, make in makes.items()
    }
    found = {name: at(name, epsilon) for name, epsilon in epsilons.items()}
    order = sorted(found, key=lambda name: found[name].mse)
    return ShuffledRanking(
        central,
        delta,
        tuple(order),
        tuple(epsilons[name] for name in order),
        tuple(found[name] for name in order),
        tuple(at(name, central) for name in order),
    )


@dataclass(frozen=True)
class BreakEven:
    """From how many reports on another one wins; `reports` is infinite if `fewer` always wins, or both are `equal`.

    Of several items, `per_item` has one for each.

    >>> BreakEven("a", "b", 4132.0)
    a wins below 4,132 reports, b above
    """

    fewer: str
    more: str
    reports: float
    equal: bool = False
    per_item: "tuple[BreakEven, ...]" = ()

    def winner(self, reports: int) -> str:
        """The better one at this number of reports; the first of two that are equal."""
        return self.fewer if checked_count("reports", reports, 1) < self.reports else self.more

    def items(self) -> TextTable:
        """One row an item: who wins with few reports, from where on the other does, and who that is."""
        rows = self.per_item or (self,)
        return TextTable(
            {
                "item": [str(item) for item in range(len(rows))],
                "few reports": [each.fewer for each in rows],
                "until": ["-" if math.isinf(each.reports) else f"{math.ceil(each.reports):,}" for each in rows],
                "more reports": [each.fewer if math.isinf(each.reports) else each.more for each in rows],
            }
        )

    def __repr__(self) -> str:
        if self.equal:
            return f"{self.fewer} and {self.more} are equal: they have the same error for any number of reports"
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
    names: tuple[str, str] | None = None,
) -> BreakEven:
    """The number of reports at which two mechanisms have the same mean squared error, and who wins on which side.

    The result speaks of them by `names`, if these are given; `per_item` has the same for each dimension of a record.

    >>> from dither import Piecewise, SquareWave
    >>> known = (2 * np.arange(1, 11) / 10 - 1)
    >>> break_even(SquareWave(1.0), Piecewise(1.0), known, estimators=("naive", "calibrated")).fewer
    'SquareWave(epsilon=1.0)'
    """
    kinds = _pair("estimators", estimators)
    both = (repr(a), repr(b)) if names is None else _pair("names", names)
    _same_question(reading_of(each, kind) for each, kind in zip((a, b), kinds, strict=True))

    def at(reports: int) -> tuple[Deviation, ...]:
        return tuple(
            deviation(each, values, weights, reports=reports, estimator=kind)
            for each, kind in zip((a, b), kinds, strict=True)
        )

    reports = _meeting_of_worst_cases(at) if values is None else 1
    found = at(reports)
    curves = [_curve(each.bias, each.variance * reports) for each in found]
    overall = _meeting(both, *curves)
    if np.size(found[0].bias) == 1:
        return overall
    own = [zip(np.ravel(each.bias), np.ravel(each.variance) * reports, strict=True) for each in found]
    per_item = (_meeting(both, *(_curve(*item) for item in pair)) for pair in zip(*own, strict=True))
    return replace(overall, per_item=tuple(per_item))


def _meeting_of_worst_cases(at: Callable[[int], tuple[Deviation, ...]]) -> int:
    """Where one takes over from the other, each for the users that are worst there; 1 if nowhere."""

    def first_wins(reports: int) -> bool:
        one, other = at(reports)
        return one.mse <= other.mse

    start, end = first_wins(1), first_wins(MOST_REPORTS)
    return 1 if start == end else _least(lambda reports: first_wins(reports) == end, MOST_REPORTS)


class _Curve(NamedTuple):
    """Mean squared error as it falls with reports: squared bias + variance / reports."""

    bias: float
    variance: float

    @property
    def at_first(self) -> tuple[float, float]:
        """The error of one report; of equal ones, what will be left of it."""
        return self.bias + self.variance, self.bias


def _curve(bias: Any, variance: Any) -> _Curve:
    """The curve through what one report gives, of some items on average."""
    squares, noise = float(np.mean(np.square(bias))), float(np.mean(variance))
    return _Curve(_visible(math.sqrt(squares), math.sqrt(squares + noise)) ** 2, noise)


def _meeting(names: tuple[str, str], one: _Curve, two: _Curve) -> BreakEven:
    if all(math.isclose(*parts, rel_tol=_ALIKE) for parts in zip(one, two, strict=True)):
        return BreakEven(*names, math.inf, equal=True)
    apart = one.bias - two.bias
    meeting = (two.variance - one.variance) / apart if apart else math.inf
    fewer, more = names if one.at_first <= two.at_first else names[::-1]
    return BreakEven(fewer, more, meeting if meeting > 1 else math.inf)


def _pair(name: str, given: Any) -> tuple[str, str]:
    first, second = checked_list(f"{name} must be a pair of texts, one for each of the two mechanisms", given, 2)
    return first, second


def users_for(
    mechanism: Mechanism,
    error: float,
    confidence: float | None = None,
    values: Any = None,
    weights: Any = None,
    *,
    estimator: str = "calibrated",
    goal: str | None = None,
    proven: bool = False,
) -> int:
    """How many users must report for an rmse of `error`; with `confidence`, for all items to be within it so often.

    The latter is `goal="maximum"`, with a confidence of 95% if none is given: by the normal law, or as it is `proven`
    for any number of reports.

    >>> from dither import Piecewise
    >>> users_for(Piecewise(1.0), 0.01)
    52234
    >>> [users_for(Piecewise(1.0), 0.01, goal="maximum", proven=proven) for proven in (False, True)]
    [200653, 386610]
    """
    reached = _goal(error, confidence, goal, proven)

    def at(users: int) -> Deviation:
        return deviation(mechanism, values, weights, reports=users, estimator=estimator)

    best = at(MOST_REPORTS)
    if not reached(best):
        if proven or reached(_without_noise(best)):
            raise ParameterError(
                f"more than 10^{math.log10(MOST_REPORTS):g} users would be needed: ask for a larger error"
            )
        raise ParameterError("no number of users reaches this error: the estimate is biased by more than it")
    return _least(lambda users: reached(at(users)), MOST_REPORTS)


def _without_noise(found: Deviation) -> Deviation:
    """What no number of reports takes away, except for a bias that is a rounding beside the noise of one."""
    noise = found.stderr * math.sqrt(found.reports)
    bias = np.where(np.abs(found.bias) > _ALIKE * noise, found.bias, 0.0)
    return replace(found, bias=bias, variance=np.zeros_like(found.variance))


def epsilon_for(
    make: Callable[[float], Mechanism],
    error: float,
    confidence: float | None = None,
    values: Any = None,
    weights: Any = None,
    *,
    users: int,
    most: float = 16.0,
    goal: str | None = None,
    proven: bool = False,
) -> float:
    """The smallest budget for which `make(epsilon)` reaches an error, to a thousandth, rounded up.

    `goal` and `proven` are those of `users_for`.

    >>> from dither import Piecewise
    >>> epsilon_for(Piecewise, 0.01, users=100_000)
    0.727
    >>> epsilon_for(Piecewise, 0.01, users=100_000, goal="maximum")
    1.403
    """
    reached = _goal(error, confidence, goal, proven)
    users = checked_count("users", users, 1, MOST_REPORTS)
    top = _steps(most)

    def enough(steps: int) -> bool:
        return reached(deviation(_made(make, steps / _STEPS), values, weights, reports=users))

    if not enough(top):
        raise ParameterError(
            f"even epsilon {most:g} does not reach this error with so many users; ask for a larger error"
        )
    return _least(enough, top) / _STEPS


def _goal(error: float, confidence: float | None, goal: str | None, proven: bool) -> Callable[[Deviation], bool]:
    """Whether a deviation is small enough."""
    largest = checked_real("error", error)
    if not 0 < largest < math.inf:
        raise ParameterError("error must be a finite number above 0, for example 0.01")
    asked = goal or ("maximum" if confidence is not None or proven else "rmse")
    checked_choice("goal", asked, _GOALS)
    if asked == "rmse":
        if confidence is not None or proven:
            raise ParameterError('an rmse has no confidence: leave it and proven out, or ask for goal="maximum"')
        return lambda found: found.rmse <= largest
    often = checked_confidence(_USUAL if confidence is None else confidence)
    if proven:
        return lambda found: found.maximum(often, proven=True) <= largest
    return lambda found: found.within(largest) >= often


def _steps(most: float) -> int:
    """The largest budget in steps, rounded down."""
    number = checked_real("most", most)
    if not 1 / _STEPS <= number <= _MOST_BUDGET:
        raise ParameterError(
            f"most must be an epsilon from {1 / _STEPS:g} to {_MOST_BUDGET:,.0f}, for example most=16.0"
        )
    return math.floor(number * _STEPS * (1 + _ALIKE))


def _made(make: Callable[[float], Mechanism], epsilon: float) -> Mechanism:
    mechanism = make(epsilon) if _takes_one(make) else None
    if not isinstance(mechanism, Mechanism):
        raise ParameterError(
            "epsilon_for takes a function from epsilon to a mechanism, as in "
            "epsilon_for(lambda epsilon: dither.GRR(k=5, epsilon=epsilon), ...)"
        )
    return mechanism


def _takes_one(make: Any) -> bool:
    """Whether this can be called with one argument."""
    try:
        inspect.signature(make).bind(1.0)
    except TypeError:  # it cannot, or it is nothing to call
        return False
    except ValueError:  # it does not say
        return True
    return True


def _least(enough: Callable[[int], bool], most: int) -> int:
    """The smallest number that is enough; more is always enough, and `most` is."""
    high = 1
    while not enough(high):
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
