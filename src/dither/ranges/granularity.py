"""How fine the grids are: the guideline of 004, and a choice of our own.

A query that covers half of each attribute adds up the noise of the cells inside, and is wrong by some part of what
lies in the cells that its ends cut. Fine cells mean more noise, coarse cells a larger part that has to be guessed; the
granularity balances the two (004 section 4.6). With n users a grid and a frequency oracle of variance V for each report
and cell, the squared errors are

    1-D, g cells           (g / 2) V / n        + (alpha1 / g)^2
    2-D, g x h cells       (g h / 4) V / n      + (alpha2 (1/g + 1/h))^2          alpha1 = .7, alpha2 = .03

**The guideline** (`guideline`) takes V = 4 E / (E - 1)^2, E = e^epsilon, and one g for all attributes:

    g1 = cube root of n (E - 1)^2 alpha1^2 / (2 E)         g2 = square root of 2 alpha2 (E - 1) sqrt(n / E)

both rounded to the linearly nearest power of two, at least 2 and at most the domain. This reproduces all 190 entries of
004's Table 2. The printed g1 is not the minimum of its own objective, which is 2^(1/3) larger.

**Our own choice** (`own`) minimises an objective over whole numbers, one for each attribute, and puts into it what
grids do together once they agree (section 4.2 and 4.3):

    1-D, g cells, of which u = g2 groups are known from all grids     (g / 3 u) V / n     + (3 w(g))^2
    2-D, g x h cells                                                  (g h / 16) V / n    + (.045 (w(g) + w(h)))^2

- **Noise.** Of a grid of a pair a query needs only what margins do not tell, and they are known better from all grids
  together: rows and columns that are half inside have g/4 and h/4 of the noise, not g/2 and h/2. Of an attribute's
  own grid it needs the cells of the one group that each of its ends cuts: i of k = g/u cells have i (1 - i/k) of
  the noise, k/6 on average, twice. V is the exact variance of the oracle that will run on so many cells: randomized
  response or local hashing with a whole number of hash values, whichever is better.
- **What is guessed** is of second order, w(g) ~ 1/g^2: a cell that is cut holds 1/g of the users, and how far they are
  from what was assumed inside it (evenly spread; of a pair, as the margins are) falls with its width. Of the c - 1
  places where a query may begin g - 1 are edges and cut nothing, so 1/g becomes (c - g) / (g (c - 1)), which is zero
  for a cell a value: small domains are taken as they are.
- **Round numbers.** In pairs g is even (or all values): without a cut in the middle, centred data look alike on all
  sides of it. People ask about round numbers, and these are edges if g divides the domain or is a power of two; any
  other g is charged three times the guess. Between two thirds of the values and all of them, nothing is gained.
- **At least four** along the side of a pair: these grids also tell the margins. Only where the noise of a cell exceeds
  1/16, its average share in a 4 x 4 grid, two are better (six attributes, a million users: at .1, but not at .2).
- **Nested.** An attribute has the same granularity in all its pairs, and in its own grid a multiple of that (or all its
  values), so that the cells of one grid are unions of cells of the other: only then can grids that share an attribute
  be made consistent cell by cell.
- **Pairs alone** (`TDG`) know the inside of their cells from no other grid: more is guessed, .5 instead of .045.
- A **nominal** attribute (categories without an order) has a cell for each of its values, since nothing can be said
  about a part of a cell; then it adds no error of that kind. Only where a pair would have more than 4,096 cells, which
  drown in noise, its neighbouring values share cells in all its pairs (`cells_of_pair`), as many as leave four cells to
  the other attribute; inside such a cell a pair is as the margins are. Its own grid has all its values.
- **Server.** A report of local hashing costs a hash for each cell. As the planner does for other questions, `HDG` and
  `TDG` ask for more than 512 cells by projective geometry or randomized response, which are counted at once, whichever
  is better; the first has next to the same variance as local hashing. Below that they have the oracles of 004, and
  methods to compare with (`CALM`, `LHIO`) keep these for any number of cells. `Copula`, our own method, asks for the
  labels of one attribute by the smallest exact variance of all three (`best_oracle`): projective geometry has down to
  .72 of the others' (6 labels at epsilon .25; .89 for 16 and .97 for 64 at epsilon 1, .94 for 64 at 2). For its grids
  of pairs it takes what `HDG` does. Cells of projective geometry have smaller errors, but not independent ones, as the
  model of a pair takes them to be: where all users are in one cell, errors of lines of cells add up, to 1.8 times the
  variance of local hashing at epsilon 1 and 3.5 times at 2. On six populations with 100,000 users errors were .99 of
  those with local hashing at epsilon 1, and 1.07 at 2 (docs/decisions/0050-small-grids.md).

The constants are fitted, once: on nine kinds of data (Normal with covariance .8, .3 and 0, Laplace with .8 and .3,
lognormal with .8 and .3, two clusters, a ring), for a million users with six attributes of 64 values, at ten budgets
from .05 to 3.5, with queries that begin at multiples of c/16 or anywhere. At each budget 8 to 19 choices of (g1, g2)
were simulated, by drawing what the oracles estimate; what was minimised is the average of log(error / error of the best
choice for these very data). One choice for each budget, the same for all data, cannot bring it below .146. This one
reaches .148; 004's objective with constants fitted in the same way .210, and with the least of four .159; the guideline
has .26. Factors from 2.8 to 3.4 and from .03 to .05 are as good.

Measured with `python benchmarks/ranges.py --sweep --repetitions 1` (Normal and Laplace, up to a million users, half of
the queries round), the error of `HDG` over that with the guideline, as a geometric mean: .94 in the settings of 004's
Fig. 1 (epsilon), 1 in Fig. 2 and 5 (omega and lambda: both choose the same), .97 in Fig. 3 (c), .94 in Fig. 4 (d), .73
in Fig. 6 (n), .94 in all 240 cells, .82 in the 72 where the choices differ; and .88 where attributes differ in size. In
simulations of the same settings with five kinds of data that nothing was fitted to: .97, and .91 where sizes differ. It
is not better everywhere. Where most users are in the lowest quarter and attributes hardly depend on each other, two
cells for a side in place of four had half the error at budgets up to .5; and from 256 values on, at epsilon = 1, the
finer 1-D grid loses 9% on queries that begin at multiples of c/16 and gains 19% on others.

Nothing here looks at data: sizes, epsilon and the number of users are public.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any, Literal

from dither.core.checks import checked_count, checked_list
from dither.mechanisms.localhash import best_integer
from dither.mechanisms.projective_geometry import best_space, total_variance
from dither.mechanisms.spec import from_spec
from dither.ranges.grid import MOST_CELLS, listed_entries

ALPHA_1, ALPHA_2 = 0.7, 0.03
# Fitted as told above. At half and twice of each the error changes by: OWN_1 +10 and -2%, OWN_2 nothing, ODD -9% and
# nothing; of TDG, by OWN_ALONE, nothing, and at twice +4% for two attributes and -16% for four. (`python
# benchmarks/constants.py ranges.granularity.OWN_1`, or another: 100,000 users, and not only data it was fitted to.)
OWN_1, OWN_2, OWN_ALONE, ODD = 3.0, 0.045, 0.5, 3.0
MOST_CHOSEN = 1 << 12  # cells of a grid chosen here
MOST_EVALUATIONS = 1 << 9  # hashes that the server evaluates for each report, one for each cell
LEAST_IN_PAIRS = 4
_LARGEST_EXPONENT = 50.0

Granularity = (
    Literal["guideline"] | tuple[int, int] | None
)  # of a method: "guideline", numbers that were given, or our own choice
Kind = tuple[int, bool]  # the size of an attribute, and whether it is nominal


# What a method is told ------------------------------------------------------------------------------------------------


def checked_granularity(granularity: Any) -> Granularity:
    """Numbers of cells, or how to choose them, if that is what it is.

    >>> checked_granularity([16, 4])
    (16, 4)
    """
    if granularity is None or granularity == "guideline":
        return granularity
    rule = (
        'granularity must be None, "guideline", or the numbers of cells of an attribute and along each side of a pair, '
        "for example (16, 4)"
    )
    one, two = (checked_count("a granularity", each, 2, MOST_CELLS) for each in checked_list(rule, granularity, 2))
    return one, two


def checked_nominal(nominal: Any, d: int) -> tuple[int, ...]:
    """The attributes without an order, ascending, each once.

    >>> checked_nominal([2, 0, 2], d=3)
    (0, 2)
    """
    rule = "nominal must list the numbers of the attributes without an order, for example (2, 5)"
    listed = listed_entries(rule, nominal)
    return tuple(sorted({checked_count("a nominal attribute", each, 0, d - 1) for each in listed}))


def granularities(
    told: Granularity, shape: Sequence[int], epsilon: float, n: float, nominal: Sequence[int], *, alone: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """For each attribute the number of cells in its own grid, and in its pairs, as told, with n users in each group.

    `nominal` lists the attributes without an order, and `alone` says that only pairs are asked for.

    >>> granularities((16, 4), (64, 5), 1.0, 10**5, nominal=(1,))
    ((16, 5), (4, 5))
    """
    whole = [j in nominal for j in range(len(shape))]
    if told is None:
        return own(shape, epsilon, n, whole, alone=alone)
    if told == "guideline":
        ordered = [[power_of_two(g, size) for size in shape] for g in guideline(epsilon, n)]
    else:
        ordered = [[min(g, size) for size in shape] for g in told]
    singles, pairs = (
        tuple(size if all_ else g for size, all_, g in zip(shape, whole, cells, strict=True)) for cells in ordered
    )
    return singles, in_pairs(pairs, whole)


# The guideline of 004 -------------------------------------------------------------------------------------------------


def guideline(epsilon: float, n: float) -> tuple[float, float]:
    """(g1, g2) of 004 section 4.6 before rounding, for n users in each group.

    >>> [round(g, 3) for g in guideline(1.0, 10**6 / 21)]
    [23.314, 3.694]
    """
    ratio, gain = math.exp(min(epsilon, _LARGEST_EXPONENT)), math.expm1(min(epsilon, _LARGEST_EXPONENT))
    one = (n * gain**2 * ALPHA_1**2 / (2 * ratio)) ** (1 / 3)
    two = math.sqrt(2 * ALPHA_2 * gain * math.sqrt(n / ratio))
    return one, two


def power_of_two(granularity: float, size: int) -> int:
    """The linearly nearest power of two, at least 2, and at most the size of the domain.

    >>> power_of_two(23.31, 64), power_of_two(2.9, 64), power_of_two(0.3, 64), power_of_two(70.0, 50)
    (16, 2, 2, 50)
    """
    low = 1 << max(0, math.frexp(max(granularity, 1.0))[1] - 1)
    nearest = low if granularity - low < 2 * low - granularity else 2 * low
    return min(max(2, nearest), size)


# Our own choice -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def oracle(k: int, epsilon: float, most: int | None = None) -> str:
    """The recipe of the better frequency oracle of 004 for k cells: the smaller exact variance of an average cell.

    With more cells than `most` it is one whose reports are counted at once, without a hash for each cell.

    >>> oracle(4, 1.0), oracle(64, 1.0), oracle(64, 4.0)
    ('GRR(k=4)', 'LocalHash(k=64)', 'GRR(k=64)')
    >>> oracle(2000, 1.0), oracle(2000, 1.0, MOST_EVALUATIONS)
    ('LocalHash(k=2000)', 'ProjectiveGeometry(k=2000, q=4)')
    """
    recipes = (f"GRR(k={k})", _counted(k, epsilon) if _many(k, most) else f"LocalHash(k={k})")
    return min(recipes, key=lambda recipe: recipe_variance(recipe, epsilon))


@lru_cache(maxsize=4096)
def best_oracle(k: int, epsilon: float) -> str:
    """The recipe with the smallest exact variance of all whose reports cost the server little, for k cells.

    These are randomized response, projective geometry and, for few cells, local hashing.

    >>> best_oracle(4, 1.0), best_oracle(64, 1.0), best_oracle(64, 4.0)
    ('GRR(k=4)', 'ProjectiveGeometry(k=64, q=4)', 'GRR(k=64)')
    """
    recipes = (f"GRR(k={k})", *([] if _many(k, MOST_EVALUATIONS) else [f"LocalHash(k={k})"]), _counted(k, epsilon))
    return min(recipes, key=lambda recipe: recipe_variance(recipe, epsilon))


@lru_cache(maxsize=4096)
def recipe_variance(recipe: str, epsilon: float) -> float:
    """The exact variance of one report, averaged over the cells, of the frequency oracle with this recipe.

    >>> round(recipe_variance("LocalHash(k=64)", 1.0), 4), round(recipe_variance(best_oracle(64, 1.0), 1.0), 4)
    (3.7107, 3.6015)
    """
    return from_spec(recipe, epsilon, 0.0).reading.worst_variance()


def _counted(k: int, epsilon: float) -> str:
    """Projective geometry for k cells; which q is stored, as it is a choice."""
    return f"ProjectiveGeometry(k={k}, q={best_space(k, epsilon).q})"


def _many(k: int, most: int | None) -> bool:
    return most is not None and k > most


@lru_cache(maxsize=1 << 16)
def noise(k: int, epsilon: float, most: int | None = None) -> float:
    """The variance of one report about k cells, averaged over the cells, of `oracle(k, epsilon, most)`.

    In closed form, since a search asks for many k. The integers that are sampled keep epsilon to 1e-9, so their
    variance is the same to about as much.

    >>> round(noise(4, 1.0), 4), round(noise(64, 1.0), 4)
    (1.8891, 3.7107)
    """
    ratio = math.exp(min(epsilon, _LARGEST_EXPONENT))
    plain = _average(k, ratio / (ratio + k - 1), 1 / (ratio + k - 1))
    if _many(k, most):
        return min(total_variance(best_space(k, epsilon), k, epsilon) / k, plain)
    g = best_integer(k, epsilon, 0.0)
    return min(_average(k, ratio / (ratio + g - 1), 1 / g), plain)


def _average(k: int, p: float, q: float) -> float:
    return (p * (1 - p) + (k - 1) * q * (1 - q)) / (k * (p - q) ** 2)


def own(
    shape: Sequence[int], epsilon: float, n: float, nominal: Sequence[bool], *, alone: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """For each attribute the granularity of its own grid, and that in its pairs, with n users in each group.

    `alone` says that only pairs are asked for.

    >>> own((64, 64, 5), 1.0, 10**5, (False, False, True))
    ((32, 32, 5), (4, 4, 5))
    >>> own((64, 64, 64), 1.0, 10**5, (False, False, False), alone=True)[1]
    (8, 8, 8)
    """
    kinds = [(int(size), bool(each)) for size, each in zip(shape, nominal, strict=True)]
    if len(kinds) == 1:
        return (best_single(kinds[0], 1, epsilon, n),), ()
    pairs = best_in_pairs(tuple(sorted(kinds)), epsilon, n, OWN_ALONE if alone else OWN_2)
    return tuple(best_single(kind, pairs[kind], epsilon, n) for kind in kinds), tuple(pairs[kind] for kind in kinds)


@lru_cache(maxsize=1024)
def best_single(kind: Kind, unit: int, epsilon: float, n: float) -> int:
    """The number of cells of a 1-D grid with the smallest expected error: a multiple of `unit`, or all values."""
    size, nominal = kind
    whole = [size] if size <= MOST_CHOSEN or nominal else []
    parts = [] if nominal else range(max(2, unit), min(2 * size // 3, MOST_CHOSEN) + 1, unit)
    best, least = min(size, max(2, unit)), math.inf
    for g in (*parts, *whole):
        noisy = single_noise(g, unit, epsilon, n)
        if noisy >= least:  # and more cells are noisier still
            break
        error = noisy + (OWN_1 * guess(g, size)) ** 2
        if error < least:
            best, least = g, error
    return best


def single_noise(g: int, unit: int, epsilon: float, n: float) -> float:
    """The squared noise of a query on a grid of g cells, of which all but the cut ones are known in groups."""
    return g / (3 * unit) * noise(g, epsilon, MOST_EVALUATIONS) / n


@lru_cache(maxsize=1024)
def best_in_pairs(kinds: tuple[Kind, ...], epsilon: float, n: float, guessed: float = OWN_2) -> dict[Kind, int]:
    """For each kind of attribute its granularity in pairs: the smallest expected error, summed over all pairs.

    First one granularity for all is looked for; then, kind by kind, all are tried while the others stay, until nothing
    changes. The error falls with every change, so this ends.
    """
    number = Counter(kinds)
    pairs = {
        (a, b): number[a] * (number[a] - 1) // 2 if a == b else number[a] * number[b]
        for a, b in combinations_with_replacement(sorted(number), 2)
    }
    search = _Search({pair: times for pair, times in pairs.items() if times}, epsilon, n, guessed)
    ordered = [kind for kind in number if not kind[1]]
    few = in_pairs([size if whole else min(size, LEAST_IN_PAIRS) for size, whole in kinds], [each for _, each in kinds])
    found = search.best(ordered, {kind: g if kind[1] else 2 for kind, g in zip(kinds, few, strict=True)})
    before = None
    while found != before:
        before = found
        for kind in ordered:
            found = search.best([kind], found)
    return found


def cells_of_pair(one: int, other: int, most: int) -> tuple[int, int]:
    """The cells along both sides of a pair: as many as given, or so few that there are no more than `most` in all.

    A side with fewer than the square root of `most` stays as it is.

    >>> cells_of_pair(20, 12, most=256), cells_of_pair(2000, 8, most=256), cells_of_pair(2000, 100, most=256)
    ((20, 12), (32, 8), (16, 16))
    """
    if one * other <= most:
        return one, other
    each = math.isqrt(most)
    return min(one, max(each, most // other)), min(other, max(each, most // one))


def in_pairs(cells: Sequence[int], nominal: Sequence[bool], most: int = MOST_CHOSEN) -> tuple[int, ...]:
    """For each attribute its cells in all its pairs: those given, and of nominal ones so few that every pair fits.

    >>> in_pairs((5000, 4, 3), (True, False, True))
    (1024, 4, 3)
    """
    found = list(cells)
    for j, one in enumerate(cells):
        if nominal[j]:
            beside = [cells_of_pair(one, other, most)[0] for k, other in enumerate(cells) if k != j]
            found[j] = min([one, *beside])
    return tuple(found)


@dataclass(frozen=True)
class _Search:
    """The pairs of kinds with their numbers, and what an error is made of."""

    pairs: dict[tuple[Kind, Kind], int]
    epsilon: float
    n: float
    weight: float  # of what has to be guessed

    def best(self, moved: list[Kind], found: dict[Kind, int]) -> dict[Kind, int]:
        """The best granularity for all of these kinds, while the others stay as they were found."""
        best, least = found, math.inf
        for g in _candidates([size for size, _ in moved]):
            tried = {**found, **{kind: min(g, kind[0]) for kind in moved}}
            if any(tried[a] * tried[b] > MOST_CHOSEN for a, b in self.pairs):
                break
            noisy = sum(times * self.noisy(tried[a] * tried[b]) for (a, b), times in self.pairs.items())
            if noisy >= least:  # and more cells are noisier still
                break
            error = noisy + sum(times * self.guessed(a, b, tried) for (a, b), times in self.pairs.items())
            if error < least:
                best, least = tried, error
        return best

    def noisy(self, cells: int) -> float:
        """The squared noise of a query on a grid of so many cells."""
        return cells / 16 * noise(cells, self.epsilon, MOST_EVALUATIONS) / self.n

    def guessed(self, a: Kind, b: Kind, granularities: dict[Kind, int]) -> float:
        """The squared error of what has to be guessed; fewer cells than are worth it cost as much as everything."""
        few = least_in_pairs(self.epsilon, self.n)
        if any(granularities[kind] < min(few, kind[0]) for kind in (a, b)):
            return 1.0
        return (self.weight * (guess(granularities[a], a[0]) + guess(granularities[b], b[0]))) ** 2


def _candidates(sizes: Sequence[int]) -> list[int]:
    """Even numbers, so that there is a cut in the middle, and the sizes themselves."""
    largest = min(max(sizes, default=2), MOST_CHOSEN)
    return sorted({*range(2, largest + 1, 2), *(min(size, MOST_CHOSEN) for size in sizes), 2})


def least_in_pairs(epsilon: float, n: float) -> int:
    """Four cells along a side, and two where the noise of each exceeds the share that it has on average.

    >>> [least_in_pairs(epsilon, 10**6 / 21) for epsilon in (0.1, 0.2)]
    [2, 4]
    """
    return LEAST_IN_PAIRS if noise(16, epsilon) / n < 1 / 16**2 else 2


def guess(g: int, size: int) -> float:
    """How wrong a query is about the cells that its ends cut, up to a factor: their share, and how unlike inside."""
    round_number = size % g == 0 or g & (g - 1) == 0
    return cut_share(g, size) / g * (1.0 if round_number else ODD)


def cut_share(g: int, size: int) -> float:
    """What a query's end cuts: the share of the places that lie inside a cell, times the share of values in a cell."""
    return (size - g) / (g * (size - 1))
