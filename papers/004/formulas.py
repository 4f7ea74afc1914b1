"""What 004 states by formulas, beside what the integers, enumeration and large numbers say: nothing here is private.

Variances are those of a cell that nobody is in, for one report, unless said otherwise. E = e^epsilon.
"""

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np

import dither
from dither.privacy import certify
from dither.ranges import HDG, HIO, MSW, TDG
from dither.ranges.granularity import guideline
from dither.ranges.grid import Grid, equal_cuts
from dither.ranges.range_estimate import RangeEstimate
from dither.reproduce.experiments import Experiment, Scale, Setting, grid
from dither.reproduce.measured import Number, measured_value

from .as_printed import spent
from .people import ANY, ROUND, Asked, People, length
from .sweeps import DATA, EPSILONS, SIZES, data_of, mechanisms_of
from .table2 import BUDGETS, SETTINGS, label, row

ONCE: Mapping[Scale, int] = {"smoke": 1, "quick": 1, "full": 1}
GROUPS = 21  # of six attributes
LARGEST = 24  # categories that are tried for the border between two oracles


def table_2(setting: Setting, seed: int) -> Iterator[Number]:
    """(g1, g2) of the guideline for d attributes and 10^lg(n) users."""
    for epsilon, (one, two) in zip(BUDGETS, row(int(setting["d"]), float(setting["lg n"])), strict=True):
        where = {"row": label(int(setting["d"]), float(setting["lg n"])), "epsilon": epsilon}
        yield measured_value(one, side="g1", **where)
        yield measured_value(two, side="g2", **where)


TABLE_2 = Experiment(
    "004.table2", table_2, [{"d": d, "lg n": exponent} for d, exponent in dict.fromkeys(SETTINGS)], ONCE
)


def hash_variance(epsilon: float) -> float:
    """Of local hashing with the whole number of values that is best for a cell that nobody is in; p is made for it."""
    grown = math.exp(epsilon)

    def variance(values: int) -> float:
        p, q = grown / (grown + values - 1), 1 / values
        return q * (1 - q) / (p - q) ** 2

    return min(variance(values) for values in (math.floor(grown + 1), math.ceil(grown + 1)))


def variances(setting: Setting, seed: int) -> Iterator[Number]:
    """Privacy, variances of the oracles, dividing users or the budget, and the parts of an error."""
    epsilon = float(setting["epsilon"])
    grown = math.exp(epsilon)
    for make in (HDG, TDG):
        method = make(shape=(4, 4, 4), epsilon=epsilon, n=10**6, granularity=(4, 2))
        yield measured_value(float(certify(method).epsilon), of="privacy", line=make.__name__)
    yield measured_value(spent(epsilon), of="privacy", line="OLH with p = 1/2")
    for k in range(2, LARGEST + 1):
        plain = float(dither.GRR(k=k, epsilon=epsilon).reading.variance(0.0))
        hashed = hash_variance(epsilon)
        yield measured_value(plain, of="oracle", line="GRR", c=k)
        yield measured_value(hashed, of="oracle", line="OLH", c=k)
        yield measured_value((k - 2 + grown) / (grown - 1) ** 2, of="oracle", line="eq. 2", c=k)
        yield measured_value(4 * grown / (grown - 1) ** 2, of="oracle", line="eq. 3", c=k)
    divided = float(dither.Unary(k=16, epsilon=epsilon).reading.variance(0.0)) * GROUPS
    split = float(dither.Unary(k=16, epsilon=epsilon / GROUPS).reading.variance(0.0))
    yield measured_value(divided, of="dividing", line="users")
    yield measured_value(split, of="dividing", line="epsilon")
    n = 10**6
    for name, cells in {"1-D": 16, "2-D": 16, "2 x 2": 4}.items():
        share = 1 / cells
        parts = {
            "noise": 4 * GROUPS * grown / (n * (grown - 1) ** 2),
            "own cell": GROUPS / n * share,
            "sampling": (GROUPS - 1) / (n - 1) * share * (1 - share),
        }
        for part, value in parts.items():
            yield measured_value(value, of="eq. 4", line=part, grid=name)
    one, two = guideline(epsilon, n / GROUPS)
    yield measured_value(one, of="guideline", line="g1, printed")
    yield measured_value(two, of="guideline", line="g2, printed")
    rising = 2 * grown * GROUPS / (n * (grown - 1) ** 2)  # squared noise of half of g1 cells, for each cell
    yield measured_value((2 * 0.7**2 / rising) ** (1 / 3), of="guideline", line="g1, least sum")
    yield measured_value((4 * 0.03**2 / (rising / 2)) ** 0.25, of="guideline", line="g2, least sum")


VARIANCES = Experiment("004.formulas", variances, grid(epsilon=EPSILONS), ONCE)


def example_1(setting: Setting, seed: int) -> Iterator[Number]:
    """Appendix A.9 and Fig. 22: the query 4 <= a1 <= 8, 5 <= a2 <= 8 on a 2 x 2 grid over 8 x 8 values."""
    cells = Grid.equal((0, 1), (8, 8, 8), (2, 2))
    inside = np.outer(np.arange(1, 9) >= 4, np.arange(1, 9) >= 5)
    cuts = np.array(cells.cuts[0][:-1])
    covered = np.add.reduceat(np.add.reduceat(inside.astype(float), cuts, axis=0), cuts, axis=1) / 16
    for (i, j), share in np.ndenumerate(covered):
        yield measured_value(share, item=f"weight of f({i + 1},{j + 1})", column="recomputed")
    # One user in each of six groups, at epsilon 1: in units of m2 / n2.
    exact = 4 * math.e / (math.e - 1) ** 2
    drawn = float(dither.Unary(k=4, epsilon=1.0).reading.variance(0.0))
    yield measured_value(exact, item="squared noise of a cell / (m2/n2), epsilon 1", column="recomputed")
    yield measured_value(drawn, item="squared noise of a cell / (m2/n2), epsilon 1", column="by the integers")
    yield measured_value(exact / 4, item="squared noise of a cell / (m2/n2), epsilon 1", column="last step of the text")


EXAMPLE_1 = Experiment("004.ex1", example_1, ({},), ONCE)


def uniformity(setting: Setting, seed: int) -> Iterator[Number]:
    """Errors of grids without noise: how they fall with the number of cells, for ranges of half of the values.

    Of one attribute all free ranges are asked, of a pair all squares of free ranges.
    """
    random = np.random.default_rng(seed)
    c = 64
    people = People.drawn(str(setting["data"]), int(setting["users"]), 2, c, random)
    table = people.histogram(0, 1)
    width = length(c, 0.5)
    for cells in (2, 4, 8, 16, 32):
        wide = c // cells
        spread = np.repeat(table.sum(axis=1).reshape(cells, wide).mean(axis=1), wide)
        off = np.concatenate([[0], np.cumsum(spread - table.sum(axis=1))])
        yield measured_value(float(np.abs(off[width:] - off[:-width]).mean()), of="bias", line="1-D", g=cells)
        blocks = table.reshape(cells, wide, cells, wide).mean(axis=(1, 3))
        even = np.repeat(np.repeat(blocks, wide, axis=0), wide, axis=1)
        summed = np.pad((even - table).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
        squares = summed[width:, width:] - summed[:-width, width:] - summed[width:, :-width] + summed[:-width, :-width]
        yield measured_value(float(np.abs(squares).mean()), of="bias", line="2-D", g=cells)


UNIFORMITY = Experiment(
    "004.uniformity",
    uniformity,
    grid(data=DATA),
    {"smoke": 1, "quick": 2, "full": 10},
    size=SIZES,
    only={"smoke": [{"data": "Normal"}, {"data": "Bfive"}]},
    data=data_of,
)


def cells_in_queries(setting: Setting, seed: int) -> Iterator[Number]:
    """How many cells a range of half of 64 values holds, whole and in part, over all places where it may begin."""
    c, cells = 64, int(setting["g"])
    width = length(c, 0.5)
    cuts = np.array(equal_cuts(c, cells))
    for ends, step in ((ROUND, 4), (ANY, 1)):
        lows = np.arange(0, c - width + 1, step)
        overlap = np.minimum(cuts[1:], lows[:, None] + width) - np.maximum(cuts[:-1], lows[:, None])
        share = np.clip(overlap, 0, None) / np.diff(cuts)
        for line, held in {"whole": share == 1, "by volume": share, "touched": share > 0}.items():
            one, two = held.sum(axis=1), np.outer(held.sum(axis=1), held.sum(axis=1))
            yield measured_value(float(one.mean()), ends=ends, line=line, of="1-D")
            yield measured_value(float(two.mean()), ends=ends, line=line, of="2-D")


CELLS_IN_QUERIES = Experiment("004.cells_in_queries", cells_in_queries, grid(g=(2, 4, 8, 16, 32)), ONCE)


def inside_a_cell(setting: Setting, seed: int) -> Iterator[Number]:
    """The variance of the estimate of one value inside a cell of gamma values, for uniform data: in parts of Var0."""
    random = np.random.default_rng(seed)
    gamma, cells, n, draws = int(setting["gamma"]), 16, 4_800, 4_000
    oracle = dither.Unary(k=cells, epsilon=1.0)
    held = np.full(draws, n // cells)
    p, q = float(oracle.reading.p), float(oracle.reading.q)
    var0 = float(oracle.reading.variance(1 / cells)) / n
    ones = random.binomial(held, p) + random.binomial(n - held, q)  # of one cell, as in unary_counts
    values = (ones / n - q) / (p - q) / gamma
    yield measured_value(float(np.var(values, ddof=1)) / var0, of="measured")
    yield measured_value(1 / gamma, of="as printed")
    yield measured_value(1 / gamma**2, of="even spreading")


INSIDE_A_CELL = Experiment(
    "004.inside_a_cell", inside_a_cell, grid(gamma=(4, 16)), {"smoke": 1, "quick": 4, "full": 10}
)


def square_wave(setting: Setting, seed: int) -> Iterator[Number]:
    """The half width of the square wave: the printed formula in floating point, without cancellation, and ours."""
    epsilon = float(setting["epsilon"])
    grown = math.exp(epsilon)
    printed = (epsilon * grown - grown + 1) / (2 * grown * (grown - 1 - epsilon)) if grown - 1 != epsilon else math.nan
    yield measured_value(printed, line="printed")
    exact = _half_width(Fraction(epsilon))
    yield measured_value(float(exact), line="exact")
    yield measured_value(0.5 - epsilon / 3, line="1/2 - epsilon/3")
    window = dither.SquareWave(epsilon=epsilon).window
    yield measured_value(window.law.favoured / (2 * window.steps), line="dither")
    p = float(Fraction(window.law.high, window.law.low))
    yield measured_value(math.log(p), line="log(p / p')")


def _half_width(epsilon: Fraction) -> Fraction:
    """(epsilon E - E + 1) / (2 E (E - 1 - epsilon)) by its series, from which the leading terms are gone."""
    terms = [Fraction(1)]
    for place in range(1, 60):
        terms.append(terms[-1] * epsilon / place)
    grown = sum(terms, Fraction(0))
    above = sum((terms[place] * (place - 1) for place in range(2, 60)), Fraction(0))  # epsilon E - E + 1
    below = sum(terms[2:], Fraction(0))  # E - 1 - epsilon
    return above / (2 * grown * below)


SQUARE_WAVE = Experiment("004.square_wave", square_wave, grid(epsilon=(1e-8, 1e-5, 0.01, 0.2, 1.0, 2.0)), ONCE)


def one_attribute(setting: Setting, seed: int) -> Iterator[Number]:
    """Ranges on one attribute: the square wave, a grid, and a hierarchy, with all users."""
    random = np.random.default_rng(seed)
    epsilon, n = float(setting["epsilon"]), int(setting["users"]) // 5
    people = People.drawn(str(setting["data"]), n, 1, 64, random)
    asked = {ends: Asked.drawn(people, 1, int(setting["queries"]), 0.5, ends, random) for ends in (ROUND, ANY)}
    for line, make in {"SW": MSW, "grid": HDG, "HIO": HIO}.items():
        method = make(shape=people.shape, epsilon=epsilon, n=n)
        reports = method.randomize(people.records, seed=int(random.integers(1 << 62)))
        estimate: RangeEstimate = method.estimate(method.tally(reports))
        for ends, each in asked.items():
            yield measured_value(each.error(estimate.answers(each.queries).value), line=line, ends=ends)


ONE_ATTRIBUTE = Experiment(
    "004.one_attribute",
    one_attribute,
    grid(data=DATA, epsilon=(0.2, 1.0)),
    {"smoke": 1, "quick": 4, "full": 10},
    size=SIZES,
    only={"smoke": {"data": "Normal", "epsilon": 1.0}},
    mechanisms=mechanisms_of,
    data=data_of,
)
