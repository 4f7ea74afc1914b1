"""The privacy losses of independent reports put together: exactly where they are few, on a lattice where they are many.

Let P and Q be the laws of all that is shown under two inputs. The privacy loss of an output is L = ln P/Q, and

    delta(epsilon) = sum max(0, P - r Q) = E_P max(0, 1 - r e^-L),    r = e^epsilon.

Losses of independent reports add up, so delta of several is a sum over the ways to add one loss of each.

**A walk.** Under a two-level law the worst inputs have three losses only: ln R with weight `up`, -ln R with weight
`down` = up / R, and none (`core.channel.Walk`). Of equal walks the ups less the downs tell the loss. Exchanging P and
Q is the same walk backwards. At a ratio r >= 1 one walk has the divergence max(0, up - r down) / total, a line that
falls to zero at R. So a walk *dominates* another, that is, it has the larger divergence at every ratio at once, where
it has the larger R and the larger distance (up - down) / total; by Blackwell's theorem this stays so in any product.

**Exactly** (`divergence_of`). The outputs are split into two lists, each with its weights under P and Q. Sorted by
their ratios, what an output of one list gains is a tail of the other list, and the tail only grows: integers, one walk
through both lists, and their product is never written down.

**On a lattice** (`lattice_divergence`). Losses are put on multiples of h, such that the most frequent walk needs no
rounding. One between two multiples is spread over both, so that E e^-L stays. max(0, 1 - r x) is convex in x = e^-L, so
this can only raise delta: the result is an upper bound. And it raises delta only where the spread crosses the bend at L
= ln r. With w the way that a sum of losses can move, a loss that is farther than w from the bend gains nothing, and one
within w ends up within 2 w, where the function is below 2 w. Hence the bound is above the truth by at most

    2 w P(|L' - ln r| <= 2 w),

where L' is the loss on the lattice: of second order in h. Floating point adds numbers above zero only, so that its
errors are relative, and they are added to the bound.

What goes wrong: rounding losses down, or to the nearest; a Fourier transform, whose errors are as large as its largest
number, when delta is 1e-12.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cmp_to_key
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import Walk
from dither.core.exact import closely_above_log

Pairs = list[tuple[int, int]]  # for each output its weights under the two inputs; both columns have the same sum

MOST_EXACT = 100  # reports in one: the weights of a sum of so many losses have thousands of digits
MOST_LISTED = 1 << 12  # outputs in one of the two lists
_MOST_KINDS, _MOST_CHOICES, _MOST_WORK = 64, 1 << 11, 1 << 14
_CELLS = 1 << 15  # of the lattice, on each side of zero
_OUTWARD = 2.0**-30  # of a cell: more than floating point misses in 2^15 of them
_CUT, _LOST = 1e-150, Fraction(1, 10**140)  # the first is left out, and adds up to less than the second


class DivergenceBound(NamedTuple):
    """A divergence from above, and how far above the truth it can be."""

    most: Fraction
    gap: Fraction


# Exactly -----------------------------------------------------------------------------------------------------------


def divergence_of(first: Pairs, second: Pairs, ratio: Fraction) -> Fraction:
    """The divergence of two independent outputs, from the weights of each: exactly, without listing their pairs.

    >>> sign = [(3, 1), (1, 3)]
    >>> divergence_of(sign, sign, Fraction(3))  # both are what the first input favours: 9/16 - 3 * 1/16
    Fraction(3, 8)
    """
    p, q = ratio.numerator, ratio.denominator
    first, second = _by_ratio(first), _by_ratio(second)
    above = list(accumulate((a for a, _ in reversed(second)), initial=0))
    below = list(accumulate((b for _, b in reversed(second)), initial=0))
    gained, tail = 0, 0  # the last `tail` of the second list gain beside this one of the first
    for a, b in first:
        while tail < len(second) and q * a * second[-1 - tail][0] > p * b * second[-1 - tail][1]:
            tail += 1
        gained += q * a * above[tail] - p * b * below[tail]
    return Fraction(gained, q * sum(a for a, _ in first) * above[-1])


def _by_ratio(pairs: Pairs) -> Pairs:
    """What is possible at all, the smallest ratio first: compared in integers."""

    def order(one: tuple[int, int], other: tuple[int, int]) -> int:
        return one[0] * other[1] - other[0] * one[1]

    return sorted((pair for pair in pairs if any(pair)), key=cmp_to_key(order))


def walked(walk: Walk, times: int) -> Pairs:
    """The outputs of so many equal walks, by their ups less their downs.

    >>> walked(Walk(3, 0, 1), 2)
    [(1, 9), (0, 0), (6, 6), (0, 0), (9, 1)]
    """
    weights = [1]
    for _ in range(times):
        wider = [0, 0, *weights, 0, 0]
        weights = [
            walk.up * wider[i] + walk.still * wider[i + 1] + walk.down * wider[i + 2] for i in range(len(weights) + 2)
        ]
    return list(zip(weights, reversed(weights), strict=True))


def _halves(walks: Mapping[Walk, int]) -> tuple[Pairs, Pairs]:
    """All outputs of these walks in two lists that are about equally long."""
    halves: tuple[Pairs, Pairs] = [(1, 1)], [(1, 1)]
    for walk, times in sorted(walks.items(), key=lambda kind: -kind[1]):
        shorter = min(halves, key=len)
        shorter[:] = [(a * c, b * d) for a, b in shorter for c, d in walked(walk, times)]
    return halves


def _sizes(walks: Mapping[Walk, int]) -> int:
    """The longer of the two lists."""
    sizes = [1, 1]
    for times in sorted(walks.values(), reverse=True):
        sizes = sorted((sizes[0] * (2 * times + 1), sizes[1]))
    return sizes[1]


# The worst choice --------------------------------------------------------------------------------------------------


def worst_choices(walks: Mapping[Walk, int], asked: int) -> list[dict[Walk, int]] | None:
    """Every choice of `asked` of these walks that can be the worst; None if there are too many of them.

    A walk is taken after all those that dominate it: in the place of it each of them would be worse.
    """
    if len(walks) > _MOST_KINDS:
        return None
    kinds = sorted(walks, key=lambda walk: (walk.ratio, walk.distance), reverse=True)  # who dominates comes first
    room = list(accumulate((walks[kind] for kind in reversed(kinds)), initial=0))[::-1]
    worse = {kind: [one for one in kinds[:at] if one.dominates(kind)] for at, kind in enumerate(kinds)}
    found: list[dict[Walk, int]] = []

    def choices(at: int, left: int, taken: dict[Walk, int]) -> Iterator[dict[Walk, int]]:
        if left == 0:
            yield taken
        elif left <= room[at]:
            kind = kinds[at]
            most = 0 if any(taken.get(one, 0) < walks[one] for one in worse[kind]) else min(left, walks[kind])
            for number in range(most, -1, -1):
                yield from choices(at + 1, left - number, {**taken, kind: number} if number else taken)

    for choice in choices(0, asked, {}):
        found.append(choice)
        if len(found) > _MOST_CHOICES:
            return None
    return found


def dominating(walks: Sequence[Walk]) -> Walk:
    """The smallest walk that dominates all of these.

    Its ups and downs are no more than everything: that is so for the walk with the largest distance, and a larger ratio
    needs fewer of them for the same distance.

    >>> dominating([Walk(3, 0, 1), Walk(4, 15, 1)])
    Walk(up=4, still=1, down=1)
    """
    ratio, distance = max(walk.ratio for walk in walks), max(walk.distance for walk in walks)
    down = distance / (ratio - 1)
    still = 1 - down * (ratio + 1)
    whole = math.lcm(down.denominator, still.denominator, (down * ratio).denominator)
    return Walk.of(int(down * ratio * whole), int(still * whole), int(down * whole))


def is_listed(choices: Sequence[Mapping[Walk, int]]) -> bool:
    """Whether the divergence of these choices is worked out exactly."""
    few = all(sum(choice.values()) <= MOST_EXACT for choice in choices)
    sizes = [_sizes(choice) for choice in choices]
    return few and max(sizes) <= MOST_LISTED and sum(sizes) <= _MOST_WORK


def walked_divergence(choices: Sequence[Mapping[Walk, int]], ratio: Fraction) -> DivergenceBound:
    """The largest divergence of these choices of walks: exact where it can be listed, else on a lattice."""
    if is_listed(choices):
        return DivergenceBound(max(divergence_of(*_halves(choice), ratio) for choice in choices), Fraction(0))
    found = [lattice_divergence(choice, ratio) for choice in choices]
    most, least = max(each.most for each in found), max(each.most - each.gap for each in found)
    return DivergenceBound(most, most - least)


# On a lattice ------------------------------------------------------------------------------------------------------


def lattice_divergence(walks: Mapping[Walk, int], ratio: Fraction) -> DivergenceBound:
    """The divergence of these walks, rounded up, and by how much at most."""
    kinds = sorted(walks.items(), key=lambda kind: -kind[1])
    if sum(times * closely_above_log(walk.ratio) for walk, times in kinds) <= -closely_above_log(1 / ratio):
        return DivergenceBound(Fraction(0), Fraction(0))  # no sum of losses is beyond it
    logs = [float(closely_above_log(walk.ratio)) for walk, _ in kinds]
    laws = [_excess(walk, times) for walk, times in kinds]
    span = sum(log * max(-least, least + law.size - 1) for log, (law, least) in zip(logs, laws, strict=True))
    step = logs[0] / math.ceil(logs[0] * _CELLS / span)
    mass, first = np.ones(1), 0
    for number, (log, (law, least)) in enumerate(zip(logs, laws, strict=True)):
        cells = np.arange(least, least + law.size, dtype=np.float64)
        cells *= log / step
        if number:
            cells += _OUTWARD
        else:
            np.rint(cells, out=cells)  # the first walk goes from point to point
        mass, first = _added(mass, first, law, cells, step)
    bend = float(closely_above_log(ratio))
    losses = (first + np.arange(mass.size)) * step + 2.0**-45 * (span + bend)
    gains = float(mass @ np.maximum(0.0, -np.expm1(np.minimum(bend - losses, 0.0))))
    way = (len(kinds) - 1) * step * (1 + _OUTWARD)
    near = float(mass[np.abs(losses - bend) <= 2.1 * way].sum()) if way else 0.0
    high = float(mass[losses >= bend - 2 * way].sum())
    error = 2.0**-50 * (mass.size + sum(times * (8 + 4 * times.bit_length()) for _, times in kinds))
    added = gains * error
    most = min(Fraction(1), Fraction(gains) + Fraction(added) + _LOST)
    return DivergenceBound(
        most, Fraction(2.1 * way * near + 4 * added + high * (2.0**-43 * (span + bend) + way * _OUTWARD)) + _LOST
    )


def _excess(walk: Walk, times: int) -> tuple[NDArray[np.float64], int]:
    """The law of ups less downs of so many walks, and the least of these; what is next to impossible is cut off.

    By doubling, in sums of numbers above zero, which have relative errors only.
    """
    once = np.array([float(Fraction(weight, sum(walk))) for weight in (walk.down, walk.still, walk.up)])
    law, least = np.ones(1), 0
    for digit in f"{times:b}":
        law, least = np.convolve(law, law), 2 * least
        if digit == "1":
            law, least = np.convolve(law, once), least - 1
        kept = np.flatnonzero(law > _CUT)
        law, least = law[kept[0] : kept[-1] + 1], least + int(kept[0])
    return law, least


def _added(
    mass: NDArray[np.float64], first: int, law: NDArray[np.float64], cells: NDArray[np.float64], step: float
) -> tuple[NDArray[np.float64], int]:
    """The law of a sum of losses on the lattice, with one more; `cells` says where its losses are, in steps."""
    lower = np.floor(cells)
    upper = law * (np.expm1(-(cells - lower) * step) / math.expm1(-step))
    places = lower.astype(np.int64)
    spread = np.zeros(int(places[-1] - places[0]) + 2)
    np.add.at(spread, places - places[0], law - upper)
    np.add.at(spread, places - places[0] + 1, upper)
    spread, longer = sorted((spread, mass), key=np.count_nonzero)
    total = np.zeros(spread.size + longer.size - 1)
    for place in np.flatnonzero(spread):
        total[place : place + longer.size] += spread[place] * longer
    return total, first + int(places[0])
