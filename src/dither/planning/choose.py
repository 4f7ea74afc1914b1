"""Who is asked what: the ways that are compared, by the exact variances of the integers that would be sampled.

Each user may spend epsilon once. With Q questions, each with the best mechanism at the budget that is left for it:

- **m questions a user**, drawn at random, with epsilon/m each, for every m that may be worth it, up to all;
- **one question a user, by variance**: a question with a larger variance V is drawn more often, in proportion to
  sqrt(V), which minimises the sum of V / share;
- **every question, budgets by variance**: everybody answers everything, and a question gets more of epsilon where
  that helps more: at the optimum all have the same slope -dV/d(epsilon), which a bisection finds.

Each of them is tried with the questions one by one and with **means in pairs**, which `Hypercube` asks for together:
two numbers from one report, up to 14% better near epsilon 2. (More than two together are worse than pairs; Gaussian
noise on all numbers together is worse at any epsilon, by a factor of log(1/delta).) And each is tried with
**categories together**: one report about the cell of a table, of which each question reads the sums along its axis
(`mechanisms.frequency`), where the search of `Crossings` finds tables that are cheaper than their questions one by
one. From epsilon 1.4 on that is so for two questions with two answers, and for more and larger ones as epsilon grows:
a table may have some e^epsilon cells. Questions about the keys of one
attribute are always one unit: one report answers them all. So is a question about ranges of several attributes, which
is asked by `Copula`: no other method for them comes near it (docs/ranges.md). What it costs is the predicted error of a
query (`ranges.error_prediction`), which falls more slowly than with the number of users.

The measure is the mean over questions of MSE / scale^2, weighted by their importance, where scale is half the width
of the domain for a mean and 1 for frequencies, averaged over cells or keys, by their own weights where they have some
(`importance`). It is that of users like those of a prior. Where nothing is known about them, shares and keys have the
users that are worst for them, which are hardly worse than others. For means this would be a bad choice: the worst users
sit at both ends of the domain, where nobody has them, and a plan for them has up to 1.5 times the error of another one
on real data (`benchmarks/planning.py`). So means are planned for numbers that are spread evenly over the domain
(`Question.reference`), and what is predicted stays an upper bound, for the worst users (docs/decisions/0034-whom.md).

**The largest error** (`goal="maximum"`): what counts is then not the mean over questions but the radius that all
numbers are within, in their scales and with a confidence of 95%, by the normal law (`utility.deviation`). The ways are
the same, by that measure, and one more: one question a user, with the shares of users for which the radius is least.
With c numbers of a question at x standard errors, F(x) for the probability of being within them and f for the density,
the radius is least where c x f(x) / F(x) is in proportion to the share; it is found by repeating it. All numbers then
have nearly the same error, those of large questions a little less.

**Every report counts** (`attribute_evidence`): where several units tell about one attribute, the reports of each enter
the results of all. So the error of a question is that of its own reports and of what others tell (`Question.told_by`)
together, 1 / (sum over units of share / variance), and users are shared out by it: with w for the importance of each
question, P for what a report of a unit is worth to it (1 / variance) and s for the shares of users, the sum of
w / (P s) is least where s_r is in proportion to s_r times the root of the sum of w P_r / (P s)^2. Without others that
is the root of w times the variance; with them it is found by repeating it. What a unit tells beyond the numbers that
`told_by` knows of is left out: predictions are then too large, and never too small.

**Candidates** are what the mechanisms of the registry offer for a unit (`Mechanism.candidates`), so those of other
packages too. Of those whose error is within one per cent of the smallest, which nobody notices, the one with the
smallest reports is taken, then the one that costs the server least, then the first of the registry. A question that
can be put in several forms (`Question.forms`) has candidates for each: shares below thresholds come from cells that are
added up, or from numbers as they are, by whichever has the smaller error of *what is asked*.

**Phases.** Where other users are asked later (`planning.phases`) errors are those of all phases together. A question
whose numbers are then of places where the people are (`Question.cuts_learned`) is asked by a mechanism that learns
these: errors there and elsewhere are not compared.

**Limits.** A report of LocalHash costs the server k hash evaluations, one of Unary k bits, one of SubsetSelection as
many items as it holds; those of GRR, Hadamard and ProjectiveGeometry are counted at once. What costs more than
`most_evaluations`, or has more than `most_bytes`, is left out. A report of Collision or CoCo about d keys costs 2d hash
evaluations; where that is too many, users share the hash functions of C cohorts, and the server evaluates those once;
LocalHash likewise. Keys that collide then do so for all who share a function, which moves an estimate by a variance of
up to about 2 s (t - 1) / ((t - s)^2 C) (`mechanisms.keycohorts`, for the two items of a key). C is large enough for
that to be a twentieth of the noise, as far as the cost of reading the table of C by t counts allows, and it is part of
the price.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import CATEGORIES, SPARSE, WORDS, Records, UnitInterval
from dither.core.exact import share_below
from dither.core.mechanism import Mechanism, Reading
from dither.core.schedule import ONCE, Schedule
from dither.core.workload import Workload
from dither.core.worth import Worth
from dither.errors import ParameterError
from dither.mechanisms.lookup import registry
from dither.mechanisms.weighted_variance import weighted_variance, worst_weighted_variance
from dither.planning.crossing import Crossings, Unit
from dither.questions.keys import variances_of_keys
from dither.questions.question import Form, Question
from dither.questions.tables import crossed
from dither.utility.deviation import largest_error
from dither.utility.population import Population

Floats = NDArray[np.float64]

SHARES = 1 << 20  # shares of users are rounded to this many parts
_HOPELESS = 1.5  # asking for one more will not help any more
_SHOWN = 16.0  # times the best: what costs more is not worth showing
_FEW_KINDS = 32  # of units
_STEPS = [2 ** (step / 3) for step in range(-8, 9)]  # of an equal budget, tried for each question
_AS_GOOD = 1.02  # of the squared error: 1% of the error, which nobody notices
# Of an equal share, for what others tell nearly all of: few reports of its own are easily outnumbered by liars. At .05
# and 1 of it the error of the demonstration's plan (`dither demo`) is .5% smaller and 9% larger.
_LEAST_SHARE = 0.25
_ROUNDS = 50  # of sharing users out, where units tell about each other's questions
_GRAIN = 2.0**-40  # budgets by variance are whole multiples of it, so that their sum is exact

CROSSED = ", categories together"  # what the label of such a way ends with
GOALS = ("rmse", "maximum")
CONFIDENCE = 0.95  # of a largest error
_DAMPED = 0.15  # steps towards the least radius: full ones would swing


class Price(NamedTuple):
    """A mechanism, and the variance of one report about each of its questions."""

    mechanism: Mechanism
    variances: tuple[float, ...]

    @property
    def bytes(self) -> int:
        """The size of a report."""
        return self.mechanism.dtype.itemsize


class ReportLimits(NamedTuple):
    """What a report may cost: evaluations of the server (`Mechanism.evaluations`), and bytes."""

    evaluations: int = 500
    bytes: int | None = None

    def allow(self, price: Price) -> bool:
        """Whether a report costs no more."""
        return price.mechanism.evaluations <= self.evaluations and (self.bytes is None or price.bytes <= self.bytes)


USUAL = ReportLimits()


@dataclass(frozen=True)
class Way:
    """For each unit its mechanism and how often it is drawn; every user answers `questions_per_user` units."""

    label: str
    units: tuple[Unit, ...]
    mechanisms: tuple[Mechanism, ...]
    weights: tuple[int, ...]
    questions_per_user: int
    cost: float  # the mean over questions of MSE / scale^2, for one user


@dataclass(frozen=True)
class Chooser:
    """Compares ways to ask. Questions of one kind have one price, computed once."""

    questions: tuple[Question, ...]
    importance: Mapping[Question, float]
    users: Mapping[Question, Population]  # where something is known about them
    epsilon: float
    delta: float
    n: int
    limits: ReportLimits = USUAL
    liars: Fraction = Fraction(0)
    total: float | None = None  # of the importance of all that is asked, where that is not the sum
    alone: frozenset[Question] = frozenset()  # means that are not asked in pairs
    derived: tuple[Question, ...] = ()  # what is worked out from the others
    worst: bool = False  # where nothing is known about users, for the worst of them, and not for those of `reference`
    schedule: Schedule = ONCE
    goal: str = "rmse"
    phases: int = 1  # in which other users are asked

    @cached_property
    def _prices(self) -> dict[Hashable, Price | None]:
        return {}

    @cached_property
    def _mechanisms(self) -> dict[Hashable, Mechanism]:
        return {}

    @cached_property
    def _candidates(self) -> tuple[type[Mechanism[Any]], ...]:
        return tuple(registry.values())

    def ways(self) -> list[Way]:
        """The best first."""
        found: list[Way] = []
        for units, style in self._partitions(found):
            found += [way for way in self._of(units, style) if way is not None]
        if not found:
            self._refuse()
        return sorted(self._by_goal(found), key=lambda way: way.cost)

    def _by_goal(self, found: list[Way]) -> list[Way]:
        """The ways with what they cost by the goal; for the largest error, with users shared out by it, too."""
        if self.goal == "rmse":
            return found
        several = {way.units: way.label for way in found if way.questions_per_user == 1 < len(way.units)}
        for units, label in several.items():
            style = label.removeprefix("1 question a user").removeprefix(", by variance")
            way = self._by_variance(units, "1 question a user, by largest error" + style, largest=True)
            found = found if way is None else [*found, way]
        return [replace(way, cost=self.cost_of(way)) for way in found]

    def _refuse(self) -> NoReturn:
        """Say why there is no way to ask."""
        for unit in self._reported_together():
            offers = list(self._offers(unit, self.epsilon, self.delta, 1.0))
            if len(offers) == 1:  # it says what is wrong, if it is this
                offers[0][0].with_budget(offers[0][1], self.epsilon, self.delta)
            prices = list(self.prices(unit, self.epsilon, self.delta, 1.0))
            smallest = min(
                (price for price in prices if self.limits._replace(bytes=None).allow(price)),
                default=None,
                key=lambda price: price.bytes,
            )
            if smallest is not None and not any(map(self.limits.allow, prices)):
                raise ParameterError(
                    f"most_bytes={self.limits.bytes} is too little for {' and '.join(map(str, unit))}: the smallest "
                    f"report about it has {smallest.bytes} bytes ({type(smallest.mechanism).__name__})"
                )
        raise ParameterError("epsilon is too small for these questions: no report would carry information")

    def _reported_together(self) -> tuple[Unit, ...]:
        """The questions, those in one unit that one report always answers."""
        reported: dict[Hashable, list[Question]] = {}
        for each in self.questions:
            reported.setdefault(each.together, []).append(each)
        return tuple(map(tuple, reported.values()))

    def _partitions(self, found: Sequence[Way]) -> Iterator[tuple[tuple[Unit, ...], str]]:
        """What one report answers, in the ways to put questions together; those found so far say what is hopeless."""
        plain = self._reported_together()
        tables = Crossings(self, plain).partitions(lambda: min((way.cost for way in found), default=0.0) * self._total)
        for units in chain([plain], tables):
            crossing = CROSSED * (units != plain)
            yield units, crossing
            paired = self._in_pairs(units)
            if paired != units:
                yield paired, ", means in pairs" + crossing

    def _in_pairs(self, units: tuple[Unit, ...]) -> tuple[Unit, ...]:
        """The same with means in pairs, if there are any."""
        paired = (each for each in self.questions if each.pairs and each not in self.alone)
        means = sorted(paired, key=lambda each: self.importance[each])
        if len(means) < 2:
            return units
        pairs = [tuple(means[start : start + 2]) for start in range(0, len(means), 2)]
        return (*pairs, *(unit for unit in units if unit[0] not in means))

    def _of(self, units: tuple[Unit, ...], style: str) -> Iterator[Way | None]:
        """The ways to ask these units; None for one that has too small a budget for some."""
        count, kinds = len(units), len(self._counted(units))
        seen = _SHOWN if kinds <= _FEW_KINDS else _HOPELESS  # what is hopeless is told, where that takes no time
        costs: dict[int, float] = {}
        for m in self.numbers(count):
            cost = self._even_cost(units, m, seen * min(costs.values(), default=math.inf))
            if cost < math.inf:
                costs[m] = cost
            if costs and cost > _HOPELESS * min(costs.values()):
                break
        every_cost = self._even_cost(units, count, _SHOWN * min(costs.values(), default=math.inf))
        if every_cost < math.inf:
            costs[count] = every_cost
        between = [m for m in costs if 1 < m < count]
        for m in sorted({1, count, *sorted(between, key=costs.__getitem__)[:1]} & set(costs)):
            every = "every question, equal budgets" if count > 1 else f"the question{'s' * (len(units[0]) > 1)}"
            label = every if m == count else f"{m} question{'s' if m > 1 else ''} a user"
            yield self._even(units, m, label + style)
        alike = kinds == 1  # by variance is evenly then
        if not alike and 1 in costs:
            yield self._by_variance(units, "1 question a user, by variance" + style)
        near = costs.get(count, math.inf) < 4 * min(costs.values(), default=0.0)
        if not alike and (near or (self.liars and count in costs)):  # liars cannot choose where all answer everything
            split = self._budgets_by_variance(units)
            if split is not None:
                yield self._way("every question, budgets by variance" + style, units, split, [1] * count, count)

    def numbers(self, count: int) -> range:
        """How many of so many units a user may answer, below all of them."""
        return range(1, count)

    @cached_property
    def _total(self) -> float:
        return sum(self.importance[question] for question in self.questions) if self.total is None else self.total

    # One way ---------------------------------------------------------------------------------------------------

    def _even_cost(self, units: Sequence[Unit], m: int, most: float) -> float:
        """What m units a user, with equal budgets, cost; infinite if that is more than `most`, or not enough budget."""
        total = 0.0
        for (unit, _), times in self._counted(units).most_common():
            price = self._price(unit, *self._part(m), m / len(units))
            total += math.inf if price is None else times * self._weighted(unit, price) * len(units) / m
            if total > most:
                return math.inf
        return total

    def _even(self, units: tuple[Unit, ...], m: int, label: str) -> Way | None:
        return self._way(label, units, [self._part(m)] * len(units), [1] * len(units), m)

    def _by_variance(self, units: tuple[Unit, ...], label: str, *, largest: bool = False) -> Way | None:
        """The larger a variance, the more users: in proportion to its square root, or as the largest error needs."""
        budget = self._part(1)
        prices = [self._price(unit, *budget, 1 / len(units)) for unit in units]
        costs = [self._weighted(unit, price) for unit, price in zip(units, prices, strict=True) if price]
        if len(costs) < len(units):
            return None
        if largest:
            shares = shares_for_the_largest(
                np.array(costs), np.array([sum(each.size for each in unit) for unit in units])
            )
        else:
            mechanisms = [price.mechanism for price in prices if price]
            roots = np.sqrt(costs)
            shares = self._shared_out(units, [price for price in prices if price], mechanisms, roots / roots.sum())
        weights = [max(1, round(share * SHARES)) for share in shares]
        return self._way(label, units, [budget] * len(units), weights, 1)

    def _shared_out(
        self, units: Sequence[Unit], prices: Sequence[Price], mechanisms: Sequence[Mechanism], shares: Floats
    ) -> Floats:
        """The best shares of users, where units tell about each other's questions; else as they are."""
        worth = self._worth_of_others(units, mechanisms, [1 / len(units)] * len(units))
        if not worth:
            return shares
        for _ in range(_ROUNDS):
            slopes = np.zeros(len(units))
            for place, (unit, price) in enumerate(zip(units, prices, strict=True)):
                for question, variance in zip(unit, price.variances, strict=True):
                    told = {place: 1 / variance, **worth.get(question, {})}
                    known = sum(shares[other] * each for other, each in told.items())
                    for other, each in told.items():
                        slopes[other] += self.importance[question] * each / known**2
            shares = shares * np.sqrt(slopes)
            shares = np.maximum(shares / shares.sum(), _LEAST_SHARE / len(units))
        return shares / shares.sum()

    @property
    def _turnout(self) -> float:
        """The share of the users who report in one round. Prices are those of a round, stated for all users."""
        return float(self.schedule.turnout)

    def _worth_of_others(
        self, units: Sequence[Unit], mechanisms: Sequence[Mechanism], shares: Sequence[float]
    ) -> dict[Question, dict[int, float]]:
        """For each question what a report of another unit is worth to it, 1 / variance, by the unit's place."""
        turnout, about = self._turnout, dict[str, list[int]]()
        for place, unit in enumerate(units):
            for name in dict.fromkeys(name for question in unit for name in question.names):
                about.setdefault(name, []).append(place)
        found: dict[Question, dict[int, float]] = {}
        for places in about.values():
            for one, other in ((one, other) for one in places for other in places if one != other):
                table = crossed(units[other])
                for question in units[one]:
                    tellers = units[other] if table is None else (table,)
                    told = (question.told_by(teller, mechanisms[other], shares[other] * turnout) for teller in tellers)
                    worth = max((1 / variance for variance in told if variance is not None), default=None)
                    if worth is not None:
                        found.setdefault(question, {})[other] = worth * turnout
        return found

    def errors(
        self, units: Sequence[Unit], prices: Sequence[Price], shares: Sequence[float]
    ) -> Iterator[tuple[Unit, tuple[float, ...]]]:
        """For each unit the squared error of its questions, for one user, from all that is told about them."""
        worth = self._worth_of_others(units, [price.mechanism for price in prices], shares)
        for unit, price, share in zip(units, prices, shares, strict=True):
            told = [sum(shares[other] * each for other, each in worth.get(question, {}).items()) for question in unit]
            own = zip(price.variances, told, strict=True)
            yield unit, tuple(1 / (share / variance + others) for variance, others in own)

    def _budgets_by_variance(self, units: tuple[Unit, ...]) -> list[tuple[float, float]] | None:
        """For each unit its part of epsilon: all have the same slope of cost against budget."""
        equal, delta = self._part(len(units))
        kinds = list(self._counted(units))
        tried = {kind: self._curve(kind[0], [equal * step for step in _STEPS], delta) for kind in kinds}
        if not all(tried.values()) or math.isinf(self.epsilon / _GRAIN):  # so large a budget has no grains
            return None

        def chosen(slope: float) -> list[float]:
            best = {kind: min(curve, key=lambda at: at[1] + slope * at[0])[0] for kind, curve in tried.items()}
            return [best[self.kind(unit)] for unit in units]

        low, high = -60.0, 60.0  # the slope's logarithm: a steep one buys little
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if sum(chosen(math.exp(middle))) > self.epsilon else (low, middle)
        budgets = chosen(math.exp(high))
        whole = [math.floor(budget / sum(budgets) * self.epsilon * (1 - 1e-12) / _GRAIN) * _GRAIN for budget in budgets]
        return [(budget, delta) for budget in whole] if min(whole) > 0 else None

    def _curve(self, unit: Unit, budgets: Sequence[float], delta: float) -> list[tuple[float, float]]:
        """Budgets and what they cost, where they suffice for a mechanism; smooth in between."""
        prices = [(budget, self._price(unit, budget, delta, 1.0)) for budget in budgets if budget < self.epsilon]
        known = [(math.log(budget), math.log(self._weighted(unit, price))) for budget, price in prices if price]
        if not known:
            return []
        at, cost = np.array(known).T
        fine = np.linspace(at[0], at[-1], 20 * len(at))
        return list(zip(np.exp(fine).tolist(), np.exp(np.interp(fine, at, cost)).tolist(), strict=True))

    def _way(
        self, label: str, units: tuple[Unit, ...], budgets: Sequence[tuple[float, float]], weights: list[int], m: int
    ) -> Way | None:
        """The way with its exact cost: each unit with the best mechanism for its own share of the users."""
        shares = [m * weight / sum(weights) for weight in weights]
        tried = [self._price(unit, *budget, share) for unit, budget, share in zip(units, budgets, shares, strict=True)]
        prices = [price for price in tried if price is not None]
        if len(prices) < len(tried):
            return None
        mean = sum(self._sum(unit, errors) for unit, errors in self.errors(units, prices, shares)) / self._total
        return Way(label, units, tuple(price.mechanism for price in prices), tuple(weights), m, mean)

    def cost_of(self, way: Way) -> float:
        """What a way that was found for other users costs for those of this chooser."""
        shares = [way.questions_per_user * weight / sum(way.weights) for weight in way.weights]
        parts = zip(way.mechanisms, way.units, shares, strict=True)
        prices = [self.known_price(*part) for part in parts]
        told = list(self.errors(way.units, prices, shares))
        if self.goal == "maximum":
            return self._largest(told)
        return sum(self._sum(unit, errors) for unit, errors in told) / self._total

    def _largest(self, told: Iterable[tuple[Unit, tuple[float, ...]]]) -> float:
        """The square of what no number is off by more than, with a confidence; a weight counts as a squared error."""
        pairs = [pair for unit, errors in told for pair in zip(unit, errors, strict=True)]
        spread = np.sqrt([self.importance[question] * error for question, error in pairs])
        times = np.array([question.size for question, _ in pairs])
        return largest_error(np.zeros(len(pairs)), spread, times, CONFIDENCE) ** 2

    def spent(self, mechanism: Mechanism, way: Way) -> tuple[float, float]:
        """The budget that a mechanism was chosen for."""
        return mechanism.epsilon, mechanism.delta

    def declared(self, way: Way) -> tuple[float, float]:
        """What all that a user sends promises on its own."""
        return self.epsilon, self.delta

    def cost_within(self, way: Way, limits: ReportLimits) -> float:
        """What a way costs where units that these limits do not allow are asked otherwise; infinite if they cannot."""
        cost, share = way.cost * self._total, way.questions_per_user / sum(way.weights)
        for unit, mechanism, weight in zip(way.units, way.mechanisms, way.weights, strict=True):
            here = share * weight
            taken = self.price_of(mechanism, unit, here)
            if not limits.allow(taken):
                other = self._best(unit, self.prices(unit, *self.spent(mechanism, way), here), limits)
                more = math.inf if other is None else self._weighted(unit, other) - self._weighted(unit, taken)
                cost += more / here
        return cost / self._total

    # Prices ----------------------------------------------------------------------------------------------------

    def _part(self, m: int) -> tuple[float, float]:
        return share_below(self.epsilon, m), share_below(self.delta, m)

    def _weighted(self, unit: Unit, price: Price) -> float:
        return self._sum(unit, price.variances)

    def _sum(self, unit: Unit, errors: Sequence[float]) -> float:
        """By the importance of its questions."""
        return sum(self.importance[each] * error for each, error in zip(unit, errors, strict=True))

    def unit_cost(self, unit: Unit, m: int, share: float) -> float:
        """What a unit costs that is one of m a user, if this share of the users is asked; infinite if it cannot be."""
        price = self._price(unit, *self._part(m), share)
        return math.inf if price is None else self._weighted(unit, price)

    def kind(self, unit: Unit) -> tuple[Unit, Hashable]:
        """A representative of the units with the same prices, and what they have in common."""
        common = tuple((each.kind, self.importance[each], id(each.workload), id(self._whom(each))) for each in unit)
        return self._first.setdefault(common, unit), common

    @cached_property
    def _first(self) -> dict[Hashable, Unit]:
        return {}

    def _counted(self, units: Sequence[Unit]) -> Counter[tuple[Unit, Hashable]]:
        return Counter(map(self.kind, units))

    def _price(self, unit: Unit, epsilon: float, delta: float, share: float) -> Price | None:
        """The best mechanism for a unit at a budget, if any fits, where this share of the users is asked."""
        key = (self.kind(unit)[1], epsilon, delta, share)
        if key not in self._prices:
            self._prices[key] = self._best(unit, self.prices(unit, epsilon, delta, share), self.limits)
        return self._prices[key]

    def _best(self, unit: Unit, prices: Iterable[Price], limits: ReportLimits) -> Price | None:
        """Of those that a limit allows and whose error is next to the smallest, the one that costs least otherwise."""
        allowed = [price for price in prices if limits.allow(price)]
        least = min((self._weighted(unit, price) for price in allowed), default=0.0)
        good = [price for price in allowed if self._weighted(unit, price) <= least * _AS_GOOD]
        return min(good, key=lambda price: (price.bytes, price.mechanism.evaluations), default=None)

    def prices(self, unit: Unit, epsilon: float, delta: float, share: float) -> Iterator[Price]:
        """What the candidates cost, those that the budget suffices for; where too dear for the server, also cheaper."""
        table = crossed(unit)
        for cls, parameters in self._offers(unit, epsilon, delta, share):
            if table is not None and cls.along is Mechanism.along:
                continue  # it reads no axis of a table
            try:
                mechanism = self._with_budget(cls, parameters, epsilon, delta)
                price = self.price_of(mechanism, unit, share)
                yield price
                if mechanism.evaluations > self.limits.evaluations:
                    cheaper = mechanism.affordable(min(price.variances), self.n * share, self.limits.evaluations)
                    if cheaper is not mechanism:
                        yield self.price_of(cheaper, unit, share)
            except ParameterError:  # the budget is too small for it
                continue

    def _with_budget(
        self, cls: type[Mechanism], parameters: Mapping[str, Any], epsilon: float, delta: float
    ) -> Mechanism:
        """A mechanism for all the shares of users who may be asked by it: to find its integers takes longest.

        Tables of as many cells have the same, whatever their axes are.
        """
        key = (cls, repr(parameters), epsilon, delta)
        if key not in self._mechanisms:
            self._mechanisms[key] = cls.with_budget(parameters, epsilon, delta)
        return self._mechanisms[key]

    def known_price(self, mechanism: Mechanism, unit: Unit, share: float) -> Price:
        """`price_of`, worked out once for units of a kind."""
        key = (self.kind(unit)[1], id(mechanism), share)
        if key not in self._prices:
            self._prices[key] = self.price_of(mechanism, unit, share)
        found = self._prices[key]
        assert found is not None
        return found

    def price_of(self, mechanism: Mechanism, unit: Unit, share: float) -> Price:
        """What a mechanism costs that asks this share of the users.

        Where only some of these report in a round, one of their reports costs as many times its variance.
        """
        heard = share * self._turnout
        known = unit[0].form(mechanism).variance(mechanism, self.n * heard, self.n)
        moved = self.n * heard * mechanism.displacement()  # which more reports do not make smaller
        alone = self._noise(mechanism, unit, heard) if known is None else ()
        own = tuple(each + moved for each in alone) if known is None else (known,)
        added = zip(own, self._damages(mechanism, unit, heard), strict=True)
        return Price(mechanism, tuple((each + damage) / self._turnout for each, damage in added))

    def _noise(self, mechanism: Mechanism, unit: Unit, share: float) -> tuple[float, ...]:
        """The variance of one report about each question; of one about the cells of a table, about each of its axes."""
        table = crossed(unit)
        if table is None:
            return tuple(
                report_variance(mechanism.priced_reading, unit, place, self._whom(question), share)
                for place, question in enumerate(unit)
            )
        axes = zip(unit, table.readings(mechanism), strict=True)
        return tuple(
            report_variance(reading, (question,), 0, self._whom(question), share) for question, reading in axes
        )

    def _whom(self, question: Question) -> Population | None:
        """The users that a question is priced for: those of a prior, those of its reference, or the worst."""
        return self.users.get(question, None if self.worst else question.reference)

    def _damages(self, mechanism: Mechanism, unit: Unit, share: float) -> tuple[float, ...]:
        """What liars add to the squared error of each question, at their worst, as a variance of one report.

        They move its worst number by `shift`, on average and whatever the truth is, so its mean squared error is
        variance / reports + shift^2: the second is the variance that as many reports would have to have.
        """
        if not self.liars:
            return (0.0,) * len(unit)
        worths = report_worths(mechanism, unit)
        if None in worths:
            raise ParameterError(f"it is not known what a report of {type(mechanism).__name__} is worth to liars")
        shifts = [float(each.asked_of(Fraction(share)).worst_shift(self.liars)) for each in worths if each is not None]
        return tuple(self.n * share * shift**2 for shift in shifts)

    def _offers(
        self, unit: Unit, epsilon: float, delta: float, share: float
    ) -> Iterator[tuple[type[Mechanism], Mapping[str, Any]]]:
        """What the mechanisms of the registry offer for a unit, in its order: of equal ones the first is taken.

        Where there is a next phase, some learn for it, and its numbers are then of other places, these alone: errors at
        the one and at the other are not compared.
        """
        offers = [
            (cls, parameters)
            for form in unit[0].forms
            for workload in (self._workload(unit, form, epsilon, delta, share),)
            for cls in self._candidates
            for parameters in cls.candidates(workload)
        ]
        learning = [offer for offer in offers if self.phases > 1 and unit[0].cuts_learned and offer[0].phased]
        yield from learning or offers

    def _workload(self, unit: Unit, form: Form, epsilon: float, delta: float, share: float) -> Workload:
        workload = _workload(unit, form, epsilon, delta, self.n * share * self._turnout, self.limits.evaluations)
        return replace(workload, phases=self.phases)


def shares_for_the_largest(variances: Floats, sizes: NDArray[np.integer]) -> Floats:
    """The shares of users for which the largest error of all numbers is least, where each unit has so many."""
    kinds, kind, times = np.unique(
        np.stack([variances, sizes], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    variance, size = kinds.T
    shares = variance / (times @ variance)
    for _ in range(_ROUNDS):
        spread = np.sqrt(variance / shares)
        x = largest_error(np.zeros_like(spread), spread, times * size, CONFIDENCE) / spread
        pull = size * x * np.exp(-(x**2) / 2) / np.array([math.erf(each / math.sqrt(2)) for each in x])
        shares = shares * (pull / shares) ** _DAMPED
        shares /= times @ shares
    return shares[kind.reshape(-1)]


def _workload(unit: Unit, form: Form, epsilon: float, delta: float, users: float, most_evaluations: int) -> Workload:
    """What a unit asks of a mechanism, its first question in this form.

    Several means are one record, and crossed questions the cell of a table.
    """
    first, table = unit[0], crossed(unit)
    domain = Records(len(unit), (UnitInterval(),)) if first.pairs and len(unit) > 1 else (table or form).domain
    statistics = tuple(dict.fromkeys((form.needs, *(question.needs for question in unit[1:]))))
    return Workload(domain, statistics, epsilon, delta, users, most_evaluations, form.nominal, first.queries)


def report_worths(mechanism: Mechanism, unit: Unit) -> tuple[Worth | None, ...]:
    """What a report is worth to each question of a unit, in the mechanism's units; None where that is not known."""
    table = crossed(unit)
    if table is not None:
        axes = zip(unit, table.readings(mechanism), strict=True)
        return tuple(question.worth(reading.worths(), 0, 1) for question, reading in axes)
    own = mechanism.report_worth()
    forms = enumerate(each.form(mechanism) for each in unit)
    return tuple(None if own is None else form.worth(own, place, len(unit)) for place, form in forms)


def report_variance(reading: Any, unit: Unit, place: int, users: Population | None, share: float) -> float:
    """Of one report about a question of a unit, where a random share of the users is asked.

    For these users, or for the worst; of frequencies and of keys it is averaged, by the weights of the question if it
    has some.
    """
    if reading.domain.kind == SPARSE:
        reading = replace(reading, about=unit[place].needs)
    cells = unit[place].cells
    if users is None or reading.domain.kind == WORDS:  # whoever has a word, it is one of many
        return reading.worst_variance(share) if cells is None else worst_weighted_variance(reading, cells, share)
    if reading.domain.kind == CATEGORIES:  # noise is the same for every population; who is asked is not
        shares = np.bincount(users.values, weights=users.weights, minlength=reading.domain.k)
        if cells is not None:
            return weighted_variance(reading, cells, shares.astype(np.float64), share)
        return reading.worst_variance(1.0) + (1 - share) * float(1 - shares @ shares) / reading.domain.k
    if reading.domain.kind == SPARSE:
        of_keys = variances_of_keys(reading, users, share)
        return float(np.mean(of_keys)) if cells is None else cells.mean(of_keys)
    return _of_numbers(reading, place, len(unit), users, share)


def _of_numbers(reading: Reading, place: int, count: int, users: Population, share: float) -> float:
    values, weights = users.values, users.weights
    table = values
    if count > 1:
        table = np.zeros((len(values), count))
        table[:, place] = values
    found = reading.moments(table)
    noise = (found.variance + found.bias**2)[:, place] if count > 1 else found.variance + found.bias**2
    spread = float(weights @ values**2 - (weights @ values) ** 2)
    return float(weights @ noise) + (1 - share) * max(spread, 0.0)
