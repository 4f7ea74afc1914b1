"""What no mechanism can beat: the least error that epsilon allows, so that one sees how far a mechanism is from it.

**One report.** Let E = e^epsilon, and let users be drawn from a population with parameters theta, whose scores s(x)
have the covariance diag(lambda_j): the information that a user who hides nothing would give. A report y gives

    I_Y = sum over y of P(y) E[s|y] E[s|y]'.

With the scores scaled to variance 1, |E[s|y]|^2 is at most Var(q) / E[q]^2 for q(x) = Q(y|x) (Cauchy and Schwarz).
All Q(y|x) of one y are within a factor E, and the ratio is quasi-convex in q, so its maximum has two levels, E on a
set of probability p and 1 elsewhere:

    (E-1)^2 p (1-p) / (1 + p (E-1))^2  <=  K = (E-1)^2 / (4 E) = sinh^2(epsilon/2),  attained at p = 1/(E+1).

So a report has **one budget of information for all parameters**: with t_j = (I_Y)_jj / lambda_j, sum t_j <= K. It is
sharper where a population does not have a set of every probability or does not reward every set:

- one question with k equally likely answers: p = w/k. The maximum over w is what subset selection attains (Ye and
  Barg 2018); a mean of users at -1 and +1 has k = 2 and K = tanh^2(epsilon/2), which Duchi attains;
- scores that change sign with the values, as those of means of signs do: only the odd part o of q counts, and where it
  is not 0 the even part is at least 1 + |o|. So sum t_j <= tanh^2(epsilon/2) for E <= 3, and (E-1)/8 above. Up to
  E = 3 one sampled sign of d attains it;
- many questions and a large epsilon: given y, the users have at most the relative entropy H = g - 1 - ln g, with
  g = epsilon / (1 - 1/E), to all users. The scores of independent questions with k_j answers, scaled to variance 1,
  are sub-Gaussian with constants k_j / 2 (Hoeffding), so sum t_j / k_j <= H, which grows with epsilon and not with E
  (the inequality of entropy and transport; compare Barnes, Chen and Ozgur 2020).

**The error.** By Cauchy and Schwarz again, sum a_j (I_Y^-1)_jj >= sum a_j / (lambda_j t_j), which is least at t_j in
proportion to sqrt(a_j / lambda_j) as far as the sharper bounds allow: (sum sqrt(a_j / lambda_j))^2 / K without them.
The local asymptotic minimax theorem (Hajek, Le Cam; by van Trees' inequality also if users are asked in turn, knowing
the reports before) makes this the least n MSE near the population, for n large and any estimator.

**Numbers that do not matter alike.** Categories with weights w_v have the errors of a quadratic form: near the even
population its parameters may be turned so that both it and the information are diagonal, and their weights a_j are the
eigenvalues of diag(w) without the direction in which all shares move together. A question's part T of the budget is
best shared in proportion to sqrt(a_j), so it costs (sum sqrt(a_j))^2 / (lambda T): as if each had the weight of their
mean root, squared. That no t_j exceeds one is left out there, which makes the limit smaller, never larger. Keys are
their own directions, where means are asked for; presences of one share of keys are categories.

**Whose mean?** This was about the distribution that users are drawn from (`of="population"`). Given the values, reports
tell nothing more about theta, so MSE about theta = MSE about E[theta|values] + Var(theta|values). The first is,
for n large, that about the users' own mean (`of="users"`, what the standard errors of dither are about): the limit
less sum a_j / lambda_j. For one sign, 1/tanh^2 - 1 = 1/sinh^2 = 4E / (E-1)^2.

**Other norms** (003 Theorems 3 and 9, with their constants; docs/decisions/0041). The same theorem holds for the
absolute error and for the largest one, where the error of a best estimator is normal, with a covariance S for which 1 /
(S^-1)_jj >= 1 / (n lambda_j t_j): that much of each number is left if all others are known.

- `"l1"`, the mean absolute error: E|z_j| = sqrt(2/pi) S_jj^(1/2), least where all t_j are alike. Of the users' own mean
  1/t - 1 takes the place of 1/t, whose root is convex up to t = 1/2 and replaced by a tangent beyond.
- `"linf"`, the mean largest error: P(all |z_j| <= r) is at most the product over j of the probabilities of independent
  errors with the variances 1 / (n lambda_j t_j), since the probability of |z_j| <= r given others is largest where its
  mean is 0. So it is at least that of d independent errors, sqrt(2 log d) times one of them for large d. Of the users'
  own mean, it is less by what their mean has of it (the triangle inequality).

Questions of several kinds are bounded one by one there, which makes the limit smaller, never larger.

**What it does not say.** It is for delta = 0 and many users, and for the worst population. Users who are not at the
ends of [-1, 1] may be harder for large epsilon: no mechanism here then attains the limit of a mean for all users.
Several questions are bounded together, not exactly: between E = 3 and very large E the limit may be out of reach.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from sys import maxsize
from typing import Any, NamedTuple

import numpy as np

from dither.core.cell_weights import CellWeights, Floats
from dither.core.checks import checked_choice, checked_count, checked_epsilon, checked_list, checked_real
from dither.core.domains import (
    BALL,
    CATEGORIES,
    GROUPS,
    NUMBERS,
    RECORDS,
    SPARSE,
    WHOLE_NUMBERS,
    Categories,
    Records,
    UnitInterval,
)
from dither.core.mechanism import Mechanism
from dither.errors import ParameterError

_LARGEST = 710.0  # of an epsilon whose K is a float; long before, what users know themselves is the limit
_TARGETS = ("users", "population")
_NORMS = ("l2", "l1", "linf")
_STATISTICS = ("mean", "presence", "frequency")
_MOST_DIFFERENT = 512  # weights, whose eigenvalues take some tens of milliseconds


@dataclass(frozen=True)
class Parameters:
    """`count` parameters of a population: the information that one user has about each, and the weight of each.

    `cells` is the number of equally likely answers to one question (the parameters may be those of several equal
    questions), if it is known. `signs` says that the scores change sign with the values, as for any two answers. Where
    parameters do not matter alike, `weight` is the square of their mean root, and `uneven` how much more they have on
    average.
    """

    count: int
    information: float
    weight: float = 1.0
    cells: int | None = None
    signs: bool = False
    uneven: float = 0.0

    def __post_init__(self) -> None:
        checked_count("count", self.count, 1)
        _checked_number("information", self.information, zero=False)
        _checked_weight(self.weight)
        _checked_weight(self.uneven)
        if self.cells is not None:
            checked_count("cells", self.cells, 2)
            if (self.signs and self.cells % 2) or self.count % self._each:
                raise ParameterError(
                    "count must be a multiple of cells - 1, or with signs of cells / 2; or leave cells out"
                )

    @property
    def _each(self) -> int:
        """How many parameters one question has."""
        if self.cells is None:
            return self.count
        return self.cells // 2 if self.signs else self.cells - 1

    @property
    def sampling(self) -> float:
        """The weighted sum of variances if users hide nothing: what is left is which users were drawn."""
        return self.count * self.weight / self.information

    def least_error(self, lost: float, drawn: float) -> float:
        """The weighted sum of squared errors where a report loses so much, of a sample if `drawn` is one."""
        more = self.count * self.uneven / self.information
        return max(self.sampling * (drawn + lost) - (1 - drawn) * more, drawn * (self.sampling + more))


def mean(weight: float = 1.0) -> tuple[Parameters, ...]:
    """The mean of one number in [-1, 1]: users at -1 and +1.

    Parameters of several questions to the same users are joined with `+`.

    >>> round(least_mse(mean(), 1.0), 4), round(least_mse(mean(0.5) + frequencies(5, 0.5), 1.0), 4)
    (3.6827, 5.386)
    """
    return (Parameters(1, 1.0, _checked_weight(weight), cells=2, signs=True),)


def frequencies(k: int, weight: float = 1.0, among: CellWeights | None = None) -> tuple[Parameters, ...]:
    """The frequencies of k categories, all equally likely; the weight is spread over them, evenly or as `among` says.

    >>> round(64 * least_mse(frequencies(64), 1.0), 4)
    227.4166
    """
    k = checked_count("k", k, 2)
    (one,) = (Parameters(k - 1, float(k), _checked_weight(weight) / k, cells=k, signs=k == 2),)
    return (one if among is None else _unevenly(one, [_roots(*among.levels)], weight / among.total),)


def sparse(
    d: int, s: int, statistic: str = "mean", weight: float = 1.0, among: CellWeights | None = None
) -> tuple[Parameters, ...]:
    """Users who hold s of d keys, each with a value in [-1, 1] (003 section 4): one key out of each of s equal shares.

    `statistic` is the `"mean"` of each key over all users, where a key that is not held counts 0 (among its holders it
    is d/s times that); the `"presence"` of each key; or the `"frequency"` of each of the 2d keys with a sign. The
    weight is spread over them, of means and presences as `among` says.

    The sum over keys of the squared errors of means is at least d s / (n K): 003 Theorem 2 with its constant.

    >>> round(least_mse(sparse(100, 4, weight=100), 1.0, of="population") * math.tanh(0.5) ** 2, 9)
    400.0
    """
    d = checked_count("d", d, 1)
    s = checked_count("s", s, 1, d)
    if statistic not in _STATISTICS:
        raise ParameterError(f"statistic must be one of {', '.join(_STATISTICS)}")
    each = _checked_weight(weight) / (2 * d if statistic == "frequency" else d)
    small, larger = divmod(d, s)  # where s does not divide d, some shares have one key more
    shares = [(small, s - larger), (small + 1, larger)]
    asked = [(keys, times) for keys, times in shares if _learns(keys, times, statistic)]
    blocks = [_share(keys, times, statistic, each) for keys, times in asked]
    if among is None:
        return tuple(blocks)
    if statistic == "frequency":
        raise ParameterError("keys have weights of their own in means and presences; leave among out")
    # Any keys may be in one share: those with the largest weights are in the smallest, where there is most to learn.
    values, counts = among.levels
    parts = _cut(values[::-1], counts[::-1], [keys for keys, times in shares for _ in range(times)])
    roots = _plain_roots if statistic == "mean" else _roots
    found = []
    for block, (keys, times) in zip(blocks, asked, strict=True):
        own = [roots(*part) for part in parts if part[1].sum() == keys][:times]
        found.append(_unevenly(block, own, weight / among.total))
    return tuple(found)


def _learns(keys: int, times: int, statistic: str) -> bool:
    return times > 0 and (keys > 1 or statistic != "presence")  # that a share's only key is held is known before


def _cut(values: Floats, counts: Floats, sizes: Sequence[int]) -> list[tuple[Floats, Floats]]:
    """Numbers that come `counts` times each, dealt out in their order to parts of these sizes."""
    ends, starts = np.cumsum(counts), np.cumsum(counts) - counts
    found, first = [], 0
    for size in sizes:
        inside = np.minimum(ends, first + size) - np.maximum(starts, first)
        found.append((values[inside > 0], inside[inside > 0]))
        first += size
    return found


def _plain_roots(values: Floats, counts: Floats) -> tuple[float, float]:
    """The sums of the square roots of some weights, and of the weights."""
    return float(counts @ np.sqrt(values)), float(counts @ values)


def _roots(values: Floats, counts: Floats) -> tuple[float, float]:
    """The same of the eigenvalues of a diagonal matrix without the direction of equal entries.

    A weight that is there several times is an eigenvalue, once less often; between two that follow each other there is
    one more. Of very many different weights the lower ends of these gaps stand in.
    """
    size = counts.sum()
    roots, trace = _plain_roots(values, counts - 1)[0], float(counts @ values) * (1 - 1 / size)
    if len(values) > _MOST_DIFFERENT:
        return roots + float(np.sqrt(np.sort(values)[:-1]).sum()), trace
    direction = np.sqrt(counts / size)
    apart = np.eye(len(values)) - np.outer(direction, direction)
    between = np.sort(np.linalg.eigvalsh(apart * values @ apart))[1:]
    return roots + float(np.sqrt(np.maximum(between, 0.0)).sum()), trace


def _unevenly(block: Parameters, roots: Sequence[tuple[float, float]], scale: float) -> Parameters:
    """A block whose parameters have other weights, of which these are the sums of roots and of weights."""
    weight = scale * (math.fsum(root for root, _ in roots) / block.count) ** 2
    mean_weight = scale * math.fsum(each for _, each in roots) / block.count
    return replace(block, weight=weight, uneven=max(0.0, mean_weight - weight))


def _share(keys: int, times: int, statistic: str, weight: float) -> Parameters:
    """`times` equal shares of keys, of which one is held."""
    if statistic == "mean":
        return Parameters(times * keys, float(keys), weight, cells=2 * keys, signs=True)
    cells = keys if statistic == "presence" else 2 * keys
    return Parameters(times * (cells - 1), float(cells), weight, cells=cells, signs=cells == 2)


def least_mse(parameters: Sequence[Parameters], epsilon: float, *, of: str = "users") -> float:
    """The weighted sum of squared errors that no epsilon-LDP method beats: n times it, for n users and n large.

    The parameters share the budget of one report. `of` is whose mean is estimated: that of the `"users"` themselves,
    or that of the `"population"` that they were drawn from.

    >>> round(least_mse(mean(), 1.0, of="population"), 4)
    4.6827
    """
    epsilon = checked_epsilon(epsilon)
    if of not in _TARGETS:
        raise ParameterError('of must be "users" or "population"')
    rule = "parameters must be a sequence of Parameters, for example mean() + frequencies(5)"
    given = checked_list(rule, parameters, 0, maxsize)
    if not all(isinstance(block, Parameters) for block in given):
        raise ParameterError(rule)
    blocks = [block for block in given if block.weight > 0]
    floors = [_lost(block, epsilon) for block in blocks]
    drawn = 0.0 if of == "users" else 1.0
    return max(
        math.fsum(block.least_error(share, drawn) for block, share in zip(blocks, lost, strict=True))
        for lost in (_by_variance(blocks, floors, epsilon), _by_entropy(blocks, floors, epsilon))
    )


def limit(mechanism: Mechanism, *, users: int, of: str = "users", norm: str = "l2") -> float:
    """The error that no mechanism with the same domain and the same epsilon beats for every population of many users.

    By default it is the rmse, averaged over items as `Deviation.rmse` is, and to be compared with
    `deviation(mechanism, reports=users)`. With `norm="l1"` it is the mean absolute error, with `norm="linf"` the mean
    of the largest absolute error over all items. It is a limit for delta = 0: a mechanism with a delta may be better.
    Where users choose groups with budgets of their own, the worst population is that of the worst group.

    >>> from dither import SubsetSelection
    >>> from dither.utility import deviation
    >>> mechanism = SubsetSelection(k=64, epsilon=1.0)
    >>> found = deviation(mechanism, "uniform", reports=10_000)
    >>> round(limit(mechanism, users=10_000), 6), round(found.rmse, 6)
    (0.01885, 0.01885)
    >>> [round(limit(mechanism, users=10_000, norm=norm), 4) for norm in ("l1", "linf")]
    [0.015, 0.0431]
    """
    users = checked_count("users", users, 1)
    checked_choice("norm", norm, _NORMS)
    domain: Any = mechanism.reading.domain
    if domain.kind == GROUPS:
        asked = ((group.half, (_Alike(mean()[0], 1),), group.epsilon) for group in domain.groups)
        least = max(half * _least(norm, blocks, epsilon, of) for half, blocks, epsilon in asked)
    elif domain.kind == BALL:  # the largest cube inside: entries of 1/sqrt(d)
        cube = _alike(Records(domain.d, (UnitInterval(),)))
        least = _least(norm, cube, mechanism.epsilon, of) / math.sqrt(domain.d)
    else:
        # Of a device with memory a single report has a smaller epsilon than all of them.
        least = _least(norm, _alike(domain), mechanism.report_epsilon, of)
    return least / math.sqrt(users)


class _Alike(NamedTuple):
    """Parameters that are alike, each item with the same weight; of shares, of which there is one more a question."""

    block: Parameters
    items: int
    cells: int = 1  # of a question: 1 for means, which are their own parameters


def _alike(domain: Any) -> tuple[_Alike, ...]:
    """The parameters of a domain, those of each kind together."""
    if domain.kind == CATEGORIES:
        return (_Alike(_asked(domain)[0], domain.k, domain.k),)
    blocks = _asked(domain)
    if domain.kind not in (RECORDS, WHOLE_NUMBERS):
        return tuple(_Alike(block, block.count) for block in blocks)
    kinds = Counter(domain.of(j) for j in range(domain.d))
    cells = [(_cells(kind), times) for kind, times in kinds.items()]
    return tuple(_Alike(block, k * times, k) for block, (k, times) in zip(blocks, cells, strict=True))


def _least(norm: str, kinds: Sequence[_Alike], epsilon: float, of: str) -> float:
    """The least error of one user, by a norm."""
    if norm == "l2":
        return math.sqrt(least_mse([kind.block for kind in kinds], epsilon, of=of))
    checked_choice("of", of, _TARGETS)
    joined = kinds
    if len(kinds) > 1 and all(kind.cells == 1 and kind.block.signs for kind in kinds):
        # As one kind, each with the most that is known of any.
        count, most = sum(kind.block.count for kind in kinds), max(kind.block.information for kind in kinds)
        joined = [_Alike(Parameters(count, most, signs=True), sum(kind.items for kind in kinds))]
    one = {"l1": _least_absolute, "linf": _least_largest}[norm]
    ways = [[(one(kind, _told(kind.block, epsilon), of), kind.items) for kind in way] for way in (kinds, joined)]
    if norm == "linf":
        return max(error for way in ways for error, _ in way)
    return max(math.fsum(error * items for error, items in way) / sum(items for _, items in way) for way in ways)


def _told(block: Parameters, epsilon: float) -> float:
    """The largest mean of t over the parameters of a block that has all the report to itself."""
    floors = [_lost(block, epsilon)]
    return 1 / (1 + max(_by_variance([block], floors, epsilon)[0], _by_entropy([block], floors, epsilon)[0]))


def _least_absolute(kind: _Alike, told: float, of: str) -> float:
    """The mean absolute error of an item."""
    size = 1.0 if kind.cells == 1 else 1 - 1 / kind.cells  # of the direction in which one share moves against all
    left = told**-0.5 if of == "population" else math.sqrt(1 / told - 1) if told <= 0.5 else 2 * (1 - told)
    return math.sqrt(2 / math.pi * size / kind.block.information) * left


def _least_largest(kind: _Alike, told: float, of: str) -> float:
    """The mean of the largest absolute error of all items.

    Of k shares some are looked at, each moving against the others, which are `free`: the fewer these are, the more
    numbers there are, and the more is known of each from the rest.
    """
    drawn, unit = (0.0 if of == "population" else 1.0), kind.block.information**-0.5
    if kind.cells == 1:
        found = [largest_of(kind.items) * (told**-0.5 - drawn) * unit]
    else:
        questions, own = kind.items // kind.cells, math.sqrt(1 - 1 / kind.cells)
        tried = {round(kind.cells ** (step / 16)) for step in range(16)} & set(range(1, kind.cells))
        found = [
            largest_of(questions * (kind.cells - free)) * (((1 + 1 / free) * told) ** -0.5 - drawn * own) * unit
            for free in tried | {1}
        ]
    return max(*found, _least_absolute(kind, told, of))


def largest_of(count: int) -> float:
    """The mean of the largest absolute value of so many independent standard normals.

    >>> round(largest_of(1), 4), round(largest_of(1000), 3)
    (0.7979, 3.435)
    """
    x = np.linspace(0.0, 40.0, 20_001)
    tails = np.array([math.erfc(each / math.sqrt(2)) for each in x])
    with np.errstate(divide="ignore"):
        exceeded = -np.expm1(count * np.log1p(-tails))
    return float(np.trapezoid(exceeded, x))


def _asked(domain: Any) -> tuple[Parameters, ...]:
    """The parameters of a domain, each item with the same weight."""
    if domain.kind == NUMBERS:
        return mean()
    if domain.kind == CATEGORIES:
        return frequencies(domain.k)
    if domain.kind == SPARSE:
        return sparse(domain.d, domain.s)
    if domain.kind not in (RECORDS, WHOLE_NUMBERS):
        raise ParameterError(
            "no limit is known for this domain: put its parameters together from mean, frequencies and sparse, and "
            "pass them to least_mse"
        )
    kinds = Counter(domain.of(j) for j in range(domain.d))
    items = sum(times * _cells(kind) for kind, times in kinds.items())
    blocks = []
    for kind, times in kinds.items():
        (one,) = frequencies(kind.k, kind.k / items) if kind.kind == CATEGORIES else mean(1 / items)
        blocks.append(Parameters(times * one.count, one.information, one.weight, one.cells, one.signs))
    return tuple(blocks)


def _cells(kind: Categories | UnitInterval) -> int:
    return kind.parameters.get("k", 1)


# How a report's information is shared ------------------------------------------------------------------------------


# A report "loses" lambda / I_Y - 1 = 1/t - 1 of a parameter.


def _by_variance(blocks: Sequence[Parameters], floors: Sequence[float], epsilon: float) -> list[float]:
    """What each block loses at the best use of the budget K, and of the smaller one that signs have of it."""
    total, most = math.sinh(min(epsilon, _LARGEST) / 2) ** 2, _most_for_signs(epsilon)
    lost = _spread(blocks, floors, total)
    used = math.fsum(block.count / (1 + share) for block, share in zip(blocks, lost, strict=True) if block.signs)
    if used <= most:
        return lost
    # K - tanh^2 = K tanh^2, without cancelling.
    rest = total * math.tanh(epsilon / 2) ** 2 if epsilon <= math.log(3) else total - most
    for signs, budget in ((True, most), (False, rest)):
        here = [number for number, block in enumerate(blocks) if block.signs is signs]
        own = _spread([blocks[number] for number in here], [floors[number] for number in here], budget)
        for number, share in zip(here, own, strict=True):
            lost[number] = share
    return lost


def _by_entropy(blocks: Sequence[Parameters], floors: Sequence[float], epsilon: float) -> list[float]:
    """The same for the budget of relative entropy, of which a parameter takes less the more answers there are."""
    if any(block.cells is None for block in blocks):
        return list(floors)
    return _spread(blocks, floors, _entropy(epsilon), [1 / (block.cells or 1) for block in blocks])


def _entropy(epsilon: float) -> float:
    """The largest relative entropy to a population of its part that a report points to."""
    if epsilon < 0.01:
        return epsilon**2 / 8 * (1 - epsilon**2 / 72)
    growth = epsilon / -math.expm1(-epsilon)
    return growth - 1 - math.log(growth)


def _most_for_signs(epsilon: float) -> float:
    """The budget of all scores that change sign with the values."""
    if epsilon <= math.log(3):
        return math.tanh(epsilon / 2) ** 2
    return math.expm1(min(epsilon, _LARGEST - 1)) / 8


def _spread(
    blocks: Sequence[Parameters], floors: Sequence[float], budget: float, prices: Sequence[float] | None = None
) -> list[float]:
    """The least sum of a / (lambda t) with sum price * t <= budget, where no block loses less than its floor."""
    prices = prices or [1.0] * len(blocks)
    # What a block pays is in proportion to its need, up to what it can use.
    need = [
        block.count * math.sqrt(price * block.weight / block.information)
        for block, price in zip(blocks, prices, strict=True)
    ]
    most = [price * block.count / (1 + floor) for block, price, floor in zip(blocks, prices, floors, strict=True)]
    lost, free = list(floors), set(range(len(blocks)))
    while free:
        left = budget - math.fsum(most[number] for number in range(len(blocks)) if number not in free)
        level = left / math.fsum(need[number] for number in free)
        full = {number for number in free if need[number] * level >= most[number]}
        if not full:
            for number in free:
                paid = need[number] * level
                lost[number] = max(floors[number], prices[number] * blocks[number].count / paid - 1)
            break
        free -= full
    return lost


def _lost(block: Parameters, epsilon: float) -> float:
    """The least lambda / I_Y - 1 of a block that has all the report to itself.

    It is looked for next to the best probability of the favoured answers. With one favoured answer (or sign) it goes
    to 0 for a large epsilon, and the 1 is taken off before rounding.
    """
    if block.cells is None:
        return 0.0  # a report knows no more than its user
    low = math.exp(-epsilon)
    gap = -math.expm1(-epsilon)
    if block.signs:
        keys = block.cells // 2
        best = 2 * keys * low / gap
        return min(_lost_signs(keys, w, low, gap) for w in _next_to(best, keys))
    best = block.cells * low / (1 + low)
    return min(_lost_answers(block.cells, w, low, gap) for w in _next_to(best, block.cells - 1))


def _lost_answers(k: int, w: int, low: float, gap: float) -> float:
    if w == 1:
        return k * low * (2 + (k - 2) * low) / gap**2
    p = w / k
    return (k - 1) * ((low + p * gap) / gap) ** 2 / (p * (1 - p)) - 1


def _lost_signs(keys: int, w: int, low: float, gap: float) -> float:
    if w == 1:
        return 4 * keys * low * (keys * low + gap) / gap**2
    p = w / (2 * keys)
    return 2 * keys * ((low + p * gap) / gap) ** 2 / p - 1


def _next_to(best: float, most: int) -> Iterable[int]:
    below = math.floor(min(max(best, 1), most))
    return below, min(below + 1, most)


def _checked_weight(weight: Any) -> float:
    return _checked_number("weight", weight, zero=True)


def _checked_number(name: str, number: Any, *, zero: bool) -> float:
    real = checked_real(name, number)
    if not 0 <= real < math.inf or (real == 0 and not zero):
        raise ParameterError(f"{name} must be a finite number {'of at least' if zero else 'above'} 0")
    return real
