"""What a plan has to beat: other whole ways to ask the same questions of the same users, put together by hand.

A rival says for every question by which mechanism it is asked, and of whom. Its mechanisms are those of the registry,
whatever they cost the server and the network, so that a plan which spares these is compared with one that does not:

- **one mechanism for all**: for each mechanism for categories, for numbers or for keys, a rival that asks all questions
  of its kind by it, and the others by the mechanism with the smallest variance for the worst users, as a planner
  without a prior would. `SubsetSelection` for all categories is one of these.
- **crossed**: categories that are few are asked together. One report tells of up to three attributes (or of all, where
  their combinations are few enough) which combination a user holds, by subset selection over the combinations, and a
  marginal is the sum of what it estimates. With size 1 that is `GRR`. Groups are chosen one after the other, the one
  that saves most first, and sizes by the exact variance of the marginals.
- **square wave for all numbers**: means by its unbiased estimate, distributions of whole numbers by its smooth density,
  cut into their cells. What that errs by is not known beforehand, so it is measured, twice, with users of a share like
  its own.

Each of them is tried with one question (or group) a user, in **equal shares** or **by variance** (in proportion to the
root of it), and with **every question** of everybody, each with an equal part of epsilon.

**Expected error.** Reports are unbiased and independent given the users, so the error of a rival on *these* users is
known: the variance of a report, averaged over what users hold, plus, where a share of the users is asked, the variance
between users of those who are not. It serves to find the best of some sixty rivals; what counts is then measured.

**Marginals.** Let a report be a set of s out of K combinations that holds the user's own with probability p, and let b
combinations belong to each of the a labels. The number of combinations of a label that a report holds is one (if its
own is among them) plus a hypergeometric number: s - 1 out of K - 1 with probability p, s out of K - 1 otherwise. So its
variance is known for the label that the user holds and for the a - 1 others, and the estimate divides it by (p - q)^2.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither import SquareWave, SubsetSelection, registry
from dither.core.domains import CATEGORIES, NUMBERS, SPARSE
from dither.core.mechanism import Mechanism
from dither.core.tally import Tally
from dither.core.workload import Workload
from dither.errors import DitherError
from dither.questions.question import Question
from plan_cases import Columns

Floats = NDArray[np.float64]
Values = NDArray[Any]
Readings = Mapping[str, Floats]  # of each question, from -1 to 1 or as shares

MOST_CROSSED = 64  # combinations of labels
_TOGETHER = 3  # attributes that are crossed
_MOST_BINS = 1024  # that a density is cut into
_POINTS = 1000  # numbers that stand for all of a column
_VECTORS = 300  # keys of so many users stand for all
_CHUNK = 1 << 17  # users, whose reports are in memory at once
_MEASURED = 2  # times that an error is tried which is not known
_KINDS = {CATEGORIES: "categories", NUMBERS: "numbers", SPARSE: "keys"}


@dataclass(frozen=True, eq=False)
class People:
    """Users, what is asked about them, and what is true of them."""

    questions: tuple[Question, ...]
    columns: Columns
    truths: Mapping[str, Floats]  # by question, in its own units

    @cached_property
    def users(self) -> int:
        """How many there are."""
        return len(next(iter(self.columns.values())))

    @cached_property
    def _known(self) -> dict[tuple[str, str], Values]:
        return {}

    def _once(self, what: str, question: Question, work: Callable[[], Values]) -> Values:
        if (what, str(question)) not in self._known:
            self._known[what, str(question)] = work()
        return self._known[what, str(question)]

    def values(self, question: Question) -> Values:
        """What a mechanism takes."""
        return self._once("values", question, lambda: question.encode(self.columns[question.name]))

    def shares(self, question: Question) -> Floats:
        """Of a question about categories, the users in each."""
        values, users = self.values(question), self.users
        return self._once("shares", question, lambda: np.bincount(values, minlength=question.size) / users)

    def points(self, question: Question) -> Floats:
        """Numbers that stand for all of a column: the means of equally many neighbours."""
        return self._once("points", question, lambda: grouped(self.values(question), _POINTS))

    def errors(self, found: Readings) -> Floats:
        """For each question the mean square of error / scale, over its numbers."""
        return np.array([float(np.mean(self._missed(each, found[str(each)]) ** 2)) for each in self.questions])

    def _missed(self, question: Question, value: Floats) -> Floats:
        truth = self.truths[str(question)]
        own = (truth - question.attribute.centre) / question.unit if question.averages else truth
        return np.ravel(value) - own


def grouped(values: Floats, count: int) -> Floats:
    """The means of `count` groups of neighbours: numbers that stand for all.

    >>> grouped(np.array([3.0, 0.0, 1.0, 4.0]), 2).tolist()
    [0.5, 3.5]
    """
    return np.array([part.mean() for part in np.array_split(np.sort(values), min(count, len(values)))])


@dataclass(frozen=True, eq=False)
class Unit:
    """Questions that one report answers: what its mechanism takes, and what is read off its tally."""

    questions: tuple[Question, ...]
    values: Callable[[People], Values]
    read: Callable[[Any, Tally], Sequence[Floats]]  # of a mechanism and its tally, for each question


@dataclass(frozen=True, eq=False)
class Arm:
    """A unit with its mechanism. Variances are of one report, averaged over numbers and summed over questions.

    For these users it is `noise`, and `unasked` more times the share of the users who are not asked.
    """

    unit: Unit
    mechanism: Mechanism
    worst: float  # for the worst users
    noise: float
    unasked: float
    smooth: bool = False

    @property
    def name(self) -> str:
        """The mechanism's."""
        return type(self.mechanism).__name__

    def error(self, share: float, users: int) -> float:
        """The expected sum over questions of MSE / scale^2, where this share of the users is asked."""
        return (self.noise + (1 - share) * self.unasked) / (users * share)


@dataclass(frozen=True, eq=False)
class Rival:
    """A whole way to ask: each user answers one unit, drawn with these shares, or all of them."""

    label: str
    arms: tuple[Arm, ...]
    shares: tuple[float, ...]
    everything: bool = False

    def expected(self, people: People) -> float:
        """The mean over questions of MSE / scale^2, of these users."""
        errors = (arm.error(share, people.users) for arm, share in zip(self.arms, self.shares, strict=True))
        return sum(errors) / len(people.questions)

    @property
    def smooth(self) -> bool:
        """Whether some of it is read off a density, with a bias and less noise."""
        return any(arm.smooth for arm in self.arms)

    def collected(self, people: People, seed: int) -> Readings:
        """One collection, from a seed."""
        random = np.random.default_rng((seed, people.users))
        asked = self._asked(people.users, random)
        found: dict[str, Floats] = {}
        for arm, rows in zip(self.arms, asked, strict=True):
            values = arm.unit.values(people)
            read = arm.unit.read(
                arm.mechanism, tallied(arm.mechanism, values if rows is None else values[rows], random)
            )
            found |= {str(question): each for question, each in zip(arm.unit.questions, read, strict=True)}
        return found

    def _asked(self, users: int, random: np.random.Generator) -> Sequence[NDArray[np.intp] | None]:
        """For each arm the users who answer it; None for all."""
        if self.everything or len(self.arms) == 1:
            return [None] * len(self.arms)
        ends = np.cumsum(self.shares)
        drawn = np.minimum(np.searchsorted(ends / ends[-1], random.random(users), side="right"), len(ends) - 1)
        order = np.argsort(drawn, kind="stable")
        return np.split(order, np.cumsum(np.bincount(drawn, minlength=len(ends)))[:-1])


def tallied(mechanism: Mechanism, values: Values, random: np.random.Generator) -> Tally:
    """Reports for these values, a part of them in memory at a time, with seeds from a generator."""
    parts = (values[start : start + _CHUNK] for start in range(0, max(1, len(values)), _CHUNK))
    first, *others = (mechanism.tally(mechanism.randomize(part, seed=int(random.integers(1 << 62)))) for part in parts)
    return sum(others, start=first)


# One question, or those about the same keys --------------------------------------------------------------------------


def single(questions: tuple[Question, ...]) -> Unit:
    """Questions that one report answers by nature: one, or those about the same keys."""
    return Unit(questions, lambda people: people.values(questions[0]), _read_single(questions))


def _read_single(questions: tuple[Question, ...]) -> Callable[[Any, Tally], Sequence[Floats]]:
    def read(mechanism: Any, tally: Tally) -> Sequence[Floats]:
        found = mechanism.estimate(tally)
        return [each.select(found, 0, 1).value for each in questions]

    return read


def single_arms(unit: Unit, people: People, epsilon: float, share: float) -> Iterator[Arm]:
    """The unit with every mechanism of the registry that can be made for it."""
    first = unit.questions[0]
    statistics = tuple(dict.fromkeys(each.needs for each in unit.questions))
    for cls in registry.values():
        for parameters in _parameters(cls, first, statistics, epsilon, people.users * share):
            mechanism = _made(cls, tuple(parameters.items()), epsilon)
            if mechanism is not None:
                yield Arm(unit, mechanism, *_variances(mechanism, unit, people, share))


def _parameters(
    cls: type[Mechanism], question: Question, statistics: tuple[str, ...], epsilon: float, users: float
) -> Iterable[Mapping[str, Any]]:
    """With which a class is made for this domain: as it offers itself, or, if it does not, by those of the domain."""
    domain = question.domain
    if cls.takes != domain.kind or not set(statistics) <= set(cls.statistics) or cls.needs_delta:
        return []
    bare = {each.name for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING}  # type: ignore[arg-type]
    if not bare - {"epsilon"} <= set(domain.parameters):
        return []
    workload = Workload(domain=domain, statistics=statistics, epsilon=epsilon, users=users)
    return list(cls.candidates(workload)) or [domain.parameters]


@lru_cache(maxsize=1 << 12)
def _made(cls: type[Mechanism], parameters: tuple[tuple[str, Any], ...], epsilon: float) -> Mechanism | None:
    try:
        return cls.with_budget(dict(parameters), epsilon, 0.0)
    except DitherError:  # the budget is too small, or the domain too large
        return None


def _variances(mechanism: Mechanism, unit: Unit, people: People, share: float) -> tuple[float, float, float]:
    """For the worst users; for these; and what is added for those who are not asked."""
    first, reading = unit.questions[0], mechanism.reading
    if first.domain.kind == CATEGORIES:  # noise is the same for all users
        apart = 1 - float(np.sum(people.shares(first) ** 2))
        return reading.worst_variance(share), reading.worst_variance(1.0), apart / first.size
    if first.domain.kind == NUMBERS:
        points = people.points(first)
        found = mechanism.moments(points)
        return reading.worst_variance(share), float(np.mean(found.variance + found.bias**2)), float(np.var(points))
    return tuple(np.sum([_key_variances(reading, each, people, share) for each in unit.questions], axis=0).tolist())


def _key_variances(reading: Any, question: Question, people: People, share: float) -> tuple[float, float, float]:
    about = replace(reading, about=question.statistic)
    some = people.values(question)[:_VECTORS]
    found = about.moments(some)
    return (
        about.worst_variance(share),
        float(np.mean(found.variance)),
        float(np.mean(np.var(about.truth(some), axis=0))),
    )


# Categories that are crossed -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Crossing:
    """Labels of several attributes, `sizes` of them, told together by sets of `held` combinations."""

    sizes: tuple[int, ...]
    epsilon: float

    @property
    def combinations(self) -> int:
        """How many there are."""
        return math.prod(self.sizes)

    @cached_property
    def held(self) -> int:
        """How many of them a report holds, for the least variance of the marginals."""
        return min(range(1, self.combinations // 2 + 1), key=lambda held: sum(self._marginals(held)))

    @cached_property
    def variances(self) -> tuple[float, ...]:
        """Of one report about each attribute, averaged over its labels: the same for all users."""
        return self._marginals(self.held)

    def _marginals(self, held: int) -> tuple[float, ...]:
        total, odds = self.combinations, math.exp(self.epsilon)
        own = held * odds / (held * odds + total - held)
        other = own * (held - 1) / (total - 1) + (1 - own) * held / (total - 1)
        found = []
        for labels in self.sizes:
            each = total // labels  # combinations of one label
            mine = _mixed(own, (1 + _mean(total, each - 1, held - 1), _mean(total, each - 1, held)))
            mine += own * _spread(total, each - 1, held - 1) + (1 - own) * _spread(total, each - 1, held)
            others = _mixed(own, (_mean(total, each, held - 1), _mean(total, each, held)))
            others += own * _spread(total, each, held - 1) + (1 - own) * _spread(total, each, held)
            found.append((mine + (labels - 1) * others) / labels / (own - other) ** 2)
        return tuple(found)


def _mean(total: int, marked: int, drawn: int) -> float:
    """Of how many of the marked are among those drawn, out of all combinations but the user's own."""
    return drawn * marked / (total - 1)


def _spread(total: int, marked: int, drawn: int) -> float:
    """Its variance."""
    share = marked / (total - 1)
    return drawn * share * (1 - share) * (total - 1 - drawn) / max(total - 2, 1)


def _mixed(chance: float, means: tuple[float, float]) -> float:
    """The variance between the two cases."""
    return chance * (1 - chance) * (means[0] - means[1]) ** 2


@lru_cache(maxsize=1 << 14)
def _crossing(sizes: tuple[int, ...], epsilon: float) -> Crossing:
    return Crossing(sizes, epsilon)


def crossed(questions: tuple[Question, ...]) -> Unit:
    """Questions about categories that one report about their combination answers."""
    sizes = tuple(each.size for each in questions)

    def values(people: People) -> Values:
        return np.ravel_multi_index(tuple(people.values(each) for each in questions), sizes)

    def read(mechanism: Any, tally: Tally) -> Sequence[Floats]:
        whole = mechanism.estimate(tally).value.reshape(sizes)
        axes = range(len(sizes))
        return [whole.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]

    return Unit(questions, values, read)


def crossed_arm(unit: Unit, people: People, epsilon: float, share: float) -> Arm:
    """The unit with sets of the best size."""
    law = _crossing(tuple(each.size for each in unit.questions), epsilon)
    mechanism = _made(SubsetSelection, (("k", law.combinations), ("size", law.held)), epsilon)
    assert mechanism is not None
    unasked = sum((1 - float(np.sum(people.shares(each) ** 2))) / each.size for each in unit.questions)
    worst = sum(law.variances) + (1 - share) * sum((1 - 1 / each.size) / each.size for each in unit.questions)
    return Arm(unit, mechanism, worst, sum(law.variances), unasked)


def groups(questions: Sequence[Question], alone: Mapping[Question, float], epsilon: float) -> list[Unit]:
    """Which to cross where one unit is asked of a user: the group that saves most first. None, if none saves anything.

    With shares by variance the error is the square of the sum of the units' root variances; so a group saves the
    difference of the roots.
    """
    few = [each for each in questions if each.size <= MOST_CROSSED // 2]
    tried = [group for count in range(2, _TOGETHER + 1) for group in combinations(few, count)]
    if len(few) > _TOGETHER:
        tried.append(tuple(few))
    saved: list[tuple[float, tuple[Question, ...]]] = []
    for group in tried:
        if math.prod(each.size for each in group) <= MOST_CROSSED:
            together = sum(_crossing(tuple(each.size for each in group), epsilon).variances)
            saved.append((sum(math.sqrt(alone[each]) for each in group) - math.sqrt(together), group))
    taken: set[Question] = set()
    found: list[Unit] = []
    for gain, group in sorted(saved, key=lambda each: -each[0]):
        if gain > 0 and not taken & set(group):
            taken |= set(group)
            found.append(crossed(group))
    return found


# Distributions read off a density ------------------------------------------------------------------------------------


def density(question: Question) -> Unit:
    """A distribution of whole numbers, by the smooth density of a square wave: a number is the middle of its cell."""

    def values(people: People) -> Values:
        return (2 * people.values(question) + 1) / question.size - 1

    def read(mechanism: Any, tally: Tally) -> Sequence[Floats]:
        return [mechanism.distribution(tally, question.size).value]

    return Unit((question,), values, read)


def density_arm(unit: Unit, people: People, epsilon: float, share: float, seed: int) -> Arm:
    """Its error is measured, where this share of the users is asked."""
    (question,) = unit.questions
    random = np.random.default_rng((seed, question.size))
    mechanism, values, truth = SquareWave(epsilon), unit.values(people), people.truths[str(question)]
    squares = []
    for _ in range(_MEASURED):
        asked = values[random.random(people.users) < share]
        (value,) = unit.read(mechanism, tallied(mechanism, asked, random))
        squares.append(float(np.mean((value - truth) ** 2)))
    variance = float(np.mean(squares)) * share * people.users
    return Arm(unit, mechanism, variance, variance, 0.0, smooth=True)


# All of them ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rivals:
    """All rivals for some questions of some users."""

    people: People
    epsilon: float
    seed: int
    _arms: dict[tuple[Any, ...], list[Arm]] = field(default_factory=dict)

    def ranked(self) -> list[Rival]:
        """The smallest expected error first; of equal ones, which differ in their names at most, only the first."""
        found: dict[str, Rival] = {}
        for rival in self._all():
            found.setdefault(f"{rival.expected(self.people):.6g}", rival)
        return sorted(found.values(), key=lambda rival: rival.expected(self.people))

    def _all(self) -> Iterator[Rival]:
        together: dict[Any, list[Question]] = {}
        for each in self.people.questions:
            together.setdefault(each.together, []).append(each)
        units = [single(tuple(each)) for each in together.values()]
        for kind, word in _KINDS.items():
            own = [unit for unit in units if unit.questions[0].domain.kind == kind]
            names = [{arm.name for arm in self._of(unit, self.epsilon, 1.0)} for unit in own]
            for name in sorted(set.intersection(*names)) if names else ():
                yield from self._ways(f"{name} for all {word}", units, {id(unit): name for unit in own})
        yield from self._ways("the best of each", units, {})
        yield from self._crossed(units)
        yield from self._waves(units)

    def _ways(self, label: str, units: list[Unit], named: Mapping[int, str]) -> Iterator[Rival]:
        """One unit a user in equal shares and by variance, and all of them; with these mechanisms where they are named.

        A way in which a part of epsilon is too small for some unit is left out.
        """
        count = len(units)
        for everything, budget, share in ((False, self.epsilon, 1 / count), (True, self.epsilon / count, 1.0)):
            if everything and count == 1:
                return
            arms = [self._best(self._of(unit, budget, share), named.get(id(unit))) for unit in units]
            known = [arm for arm in arms if arm is not None]
            if len(known) == count:
                yield from _asked(label, known, everything)

    def _of(self, unit: Unit, epsilon: float, share: float) -> list[Arm]:
        key = (tuple(map(str, unit.questions)), epsilon, share)
        if key not in self._arms:
            self._arms[key] = list(single_arms(unit, self.people, epsilon, share))
        return self._arms[key]

    @staticmethod
    def _best(arms: Sequence[Arm], name: str | None) -> Arm | None:
        fitting = [arm for arm in arms if name is None or arm.name == name]
        return min(fitting, key=lambda arm: arm.worst, default=None)

    def _crossed(self, units: list[Unit]) -> Iterator[Rival]:
        """Groups of categories, and all else by the best of each."""
        few = [unit.questions[0] for unit in units if unit.questions[0].domain.kind == CATEGORIES]
        alone = {unit.questions[0]: self._best(self._of(unit, self.epsilon, 1 / len(units)), None) for unit in units}
        found = groups(few, {each: arm.worst for each, arm in alone.items() if arm is not None}, self.epsilon)
        if not found:
            return
        taken = {question for group in found for question in group.questions}
        others = [unit for unit in units if unit.questions[0] not in taken]
        count = len(found) + len(others)
        for everything, budget, share in ((False, self.epsilon, 1 / count), (True, self.epsilon / count, 1.0)):
            arms = [self._best(self._of(unit, budget, share), None) for unit in others]
            known = [arm for arm in arms if arm is not None]
            if len(known) == len(others):
                known += [crossed_arm(unit, self.people, budget, share) for unit in found]
                yield from _asked("crossed", known, everything)

    def _waves(self, units: list[Unit]) -> Iterator[Rival]:
        """Means and distributions by square waves, one unit a user."""
        share = 1 / len(units)
        arms: list[Arm | None] = []
        shaped = 0
        for unit in units:
            first = unit.questions[0]
            if first.ordered and first.domain.kind == CATEGORIES and first.size <= _MOST_BINS:
                shaped += 1
                arms.append(density_arm(density(first), self.people, self.epsilon, share, self.seed))
            else:
                name = SquareWave.__name__ if first.domain.kind == NUMBERS else None
                arms.append(self._best(self._of(unit, self.epsilon, share), name))
        known = [arm for arm in arms if arm is not None]
        if shaped and len(known) == len(units):
            yield from _asked("SquareWave for all numbers and distributions", known, False)


def _asked(label: str, arms: list[Arm], everything: bool) -> Iterator[Rival]:
    """With one arm there is nothing to share."""
    if everything or len(arms) == 1:
        yield Rival(label + ", every question" * everything, tuple(arms), (1.0,) * len(arms), everything)
        return
    roots = np.sqrt([arm.worst for arm in arms])
    yield Rival(f"{label}, by variance", tuple(arms), tuple((roots / roots.sum()).tolist()))
    yield Rival(f"{label}, equal shares", tuple(arms), (1 / len(arms),) * len(arms))
