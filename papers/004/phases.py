"""What the phases of HDG and TDG do: with and without Phase 2, how fast Algorithms 1 and 2 converge, tables in full.

ITDG and IHDG are TDG and HDG without Phase 2: the grids go into Algorithms 1 and 2 as the oracles left them, negative
cells and all, for at most 100 rounds. What HDG is after Phase 2 comes from `dither.ranges`; where a trace is needed,
the same tables go through Algorithm 1 (`response_matrix`) and Algorithm 2 (`algorithms`) step by step.
"""

import time
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.estimation.simplex import onto_simplex
from dither.ranges import HDG, TDG
from dither.ranges.consistency import inconsistency, processed
from dither.ranges.grid import Grid
from dither.ranges.queries import Queries
from dither.ranges.range_estimate import RangeEstimate
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from ..drawn_tallies import Crowd, unary
from .algorithms import algorithm_2, in_order
from .as_printed import printed_algorithm_2
from .methods import OURS, UPDATE, drawn, estimated, shares
from .people import ROUND, Asked, People
from .response_matrix import Response, response_matrix
from .sweeps import DATA, EPSILONS, METHODS, REPETITIONS, SIZES, data_of, mechanisms_of

Floats = NDArray[Any]
Tables = Mapping[tuple[int, ...], Floats]  # by attributes

D, C = 6, 64
ROUNDS = 30  # of a trace
MOST = 100
CURVES = (0.2, 0.6, 1.0, 1.4, 1.8)


def collected(method: Any, people: People, random: np.random.Generator) -> tuple[Any, dict[tuple[int, ...], Any]]:
    """A drawn tally of a method with unary encoding, and what it says about each grid."""
    tally = Crowd.drawn(people.records, shares(method), random).tally(method, random)
    return tally, {each.grid.attributes: each for each in method.collected(tally)}


def responses(
    tables: Tables, grids: Mapping[tuple[int, ...], Grid], tolerance: float, most: int
) -> dict[Any, Response]:
    """Algorithm 1 for each pair; where there are no single attributes, the table alone."""
    found = {}
    for pair in (each for each in tables if len(each) == 2):
        cuts = grids[pair].cuts
        sides = [
            (tables[(j,)], grids[(j,)].cuts[0])
            if (j,) in tables
            else (np.array([tables[pair].sum()]), (0, cuts[axis][-1]))
            for axis, j in enumerate(pair)
        ]
        (row, row_cuts), (column, column_cuts) = sides
        with np.errstate(all="ignore"):  # negative cells have no limit to converge to
            found[pair] = response_matrix(
                row, column, tables[pair], row_cuts, column_cuts, (cuts[0], cuts[1]), tolerance, most
            )
    return found


def pair_answers(matrices: Mapping[Any, Floats], asked: Queries) -> Floats:
    """For each query the answers about all pairs of its attributes, which are equally many in all queries."""
    count = len(asked.attributes[0])
    chosen = np.array(asked.attributes)
    found = np.zeros((len(asked), count * (count - 1) // 2))
    for place, (a, b) in enumerate(combinations(range(count), 2)):
        for (j, k), matrix in matrices.items():
            rows = np.flatnonzero((chosen[:, a] == j) & (chosen[:, b] == k))
            found[rows, place] = np.einsum("qi,ij,qj->q", asked.masks[j][rows], matrix, asked.masks[k][rows])
    return found


def put_together(matrices: Mapping[Any, Floats], asked: Queries) -> Floats:
    """The answers of queries, by Algorithm 2 from three attributes on."""
    pairs = pair_answers(matrices, asked)
    count = len(asked.attributes[0])
    with np.errstate(all="ignore"):
        answers = pairs[:, 0] if count == 2 else algorithm_2(pairs, count, rounds=MOST).answers
    return np.nan_to_num(np.clip(answers, -10, 10), nan=10.0)


def phase_2(found: Mapping[tuple[int, ...], Any], rounds: int = MOST) -> tuple[dict[tuple[int, ...], Floats], float]:
    """The tables after Norm-Sub and consistency in turns, and the inconsistency that is left."""
    grids = [each.grid for each in found.values()]
    first = [onto_simplex(each.value) for each in found.values()]
    done = processed(grids, first, [each.variance for each in found.values()], rounds, tolerance=0.0)
    return dict(zip(found, done.tables, strict=True)), done.inconsistency


def components(setting: Setting, seed: int) -> Iterator[Number]:
    """Fig. 8: with and without Phase 2; and CALM and LHIO with and without Norm-Sub."""
    random = np.random.default_rng(seed)
    epsilon = float(setting["epsilon"])
    people = People.drawn(str(setting["data"]), int(setting["users"]), D, C, random)
    asked = {
        count: Asked.drawn(people, count, int(setting["queries"]), 0.5, ROUND, random) for count in (2, 3, 4, 5, 6)
    }
    for name, make in {"HDG": HDG, "TDG": TDG}.items():
        method = unary(make(shape=people.shape, epsilon=epsilon, n=people.n, granularity="guideline"))
        tally, found = collected(method, people, random)
        estimate: RangeEstimate = method.estimate(tally)
        raw = {own: each.value for own, each in found.items()}
        grids = {own: each.grid for own, each in found.items()}
        matrices = {pair: each.full() for pair, each in responses(raw, grids, 1 / people.n, MOST).items()}
        for count, each in asked.items():
            for line, answers in {
                name: estimate.completed(UPDATE).answers(each.queries).value,
                f"{name}, entropy": estimate.answers(each.queries).value,
                f"I{name}": put_together(matrices, each.queries),
            }.items():
                yield measured_value(each.error(answers), line=line, **{"lambda": count})
    yield from _without_norm_sub(people, asked[2], epsilon, random)
    if setting["methods"] != "few":
        ours = estimated(OURS, people, epsilon, random)
        assert ours is not None
        for count, each in asked.items():
            yield measured_value(each.error(ours.answers(each.queries).value), line=OURS, **{"lambda": count})


def _without_norm_sub(people: People, asked: Asked, epsilon: float, random: np.random.Generator) -> Iterator[Number]:
    """CALM with its sums as they are, and LHIO with tables that have no negative entries, and the other way round."""
    from dither.ranges import CALM

    method = unary(CALM(shape=people.shape, epsilon=epsilon, n=people.n))
    tally, found = collected(method, people, random)
    estimate: RangeEstimate = method.estimate(tally)
    leaves = drawn("LHIO", people, epsilon, random)
    exact = drawn("LHIO", people, epsilon, random, inference="exact")
    pairs = list(combinations(range(D), 2))
    forms = {
        "CALM, Norm-Sub": estimate.answers(asked.queries).value,
        "CALM, as it is": pair_answers({pair: found[pair].value for pair in pairs}, asked.queries)[:, 0],
        "LHIO, Norm-Sub": pair_answers({pair: leaves.joint(*pair) for pair in pairs}, asked.queries)[:, 0],
        "LHIO, as it is": leaves.answers(asked.queries).value,
        "LHIO, least squares": exact.answers(asked.queries).value,
    }
    for line, answers in forms.items():
        yield measured_value(asked.error(answers), line=line, **{"lambda": 2})


COMPONENTS = Experiment(
    "004.components",
    components,
    grid(data=DATA, epsilon=EPSILONS),
    REPETITIONS,
    size=SIZES,
    only={
        "smoke": {"data": "Normal", "epsilon": 1.0},
        "quick": [{"epsilon": epsilon} for epsilon in (0.2, 1.0, 2.0)],
    },
    mechanisms=mechanisms_of,
    data=data_of,
)


def traces(setting: Setting, seed: int) -> Iterator[Number]:
    """Fig. 17, 18: the summed change in each round, and what thresholds, scaling and the order of steps do."""
    random = np.random.default_rng(seed)
    epsilon, n = float(setting["epsilon"]), int(setting["users"])
    people = People.drawn(str(setting["data"]), n, D, C, random)
    asked = Asked.drawn(people, 4, int(setting["queries"]), 0.5, ROUND, random)
    method = unary(HDG(shape=people.shape, epsilon=epsilon, n=n, granularity="guideline"))
    tally, found = collected(method, people, random)
    tables, left = phase_2(found)
    grids = {own: each.grid for own, each in found.items()}
    curve = f"epsilon {epsilon:g}"
    fitted = responses(tables, grids, 1e-300, ROUNDS)
    for round_ in range(1, ROUNDS + 1):
        change = np.mean([each.changes[min(round_, len(each.changes)) - 1] for each in fitted.values()])
        yield measured_value(max(float(change), 1e-17), algorithm="Algorithm 1", round=round_, curve=curve)
    matrices = {pair: each.full() for pair, each in fitted.items()}
    pairs = pair_answers(matrices, asked.queries)
    long = algorithm_2(pairs, 4, rounds=ROUNDS)
    for round_, change in enumerate(long.changes.mean(axis=1), 1):
        yield measured_value(max(float(change), 1e-17), algorithm="Algorithm 2", round=round_, curve=curve)
    for threshold in (10.0, 1.0, 0.1, 0.01):
        done = algorithm_2(pairs, 4, rounds=2000, tolerance=threshold / n)
        yield measured_value(asked.error(done.answers), measure="MAE", threshold=threshold)
        yield measured_value(
            float((done.changes > threshold / n).sum(axis=0).mean() + 1), measure="rounds", threshold=threshold
        )
    yield measured_value(asked.error(printed_algorithm_2(pairs, 4).answers), measure="MAE", form="as printed")
    yield measured_value(asked.error(algorithm_2(pairs, 4, rounds=MOST).answers), measure="MAE", form="scaled")
    estimate: RangeEstimate = method.estimate(tally)
    for by in (UPDATE, "entropy"):
        start = time.perf_counter()
        answers = estimate.completed(by).answers(asked.queries)
        yield measured_value(time.perf_counter() - start, measure="seconds", form=by)
        yield measured_value(asked.error(answers.value), measure="MAE", form=by)
        yield measured_value(float(answers.iterations.mean()), measure="iterations", form=by)
    before = inconsistency(
        [each.grid for each in found.values()], [onto_simplex(each.value) for each in found.values()]
    )
    yield measured_value(left, measure="inconsistency", form="after Phase 2")
    yield measured_value(before, measure="inconsistency", form="after the first Norm-Sub")
    yield measured_value(float(np.sqrt(found[(0, 1)].variance)), measure="inconsistency", form="noise of a cell")
    for form, start_tables in (("Norm-Sub", [onto_simplex(each.value) for each in found.values()]), ("raw", None)):
        own = start_tables or [each.value for each in found.values()]
        intervals = grids[(0, 1)].cuts[0]
        orders = [in_order(list(grids.values()), own, order, intervals) for order in (range(D), range(D)[::-1])]
        apart = max(float(np.abs(one - other).max()) for one, other in zip(*orders, strict=True))
        yield measured_value(apart, measure="order", form=form)


CONVERGENCE = Experiment(
    "004.convergence",
    traces,
    grid(data=DATA, epsilon=CURVES),
    REPETITIONS,
    size=SIZES,
    only={
        "smoke": {"data": "Normal", "epsilon": 1.0},
        "quick": [{"epsilon": epsilon} for epsilon in (0.2, 1.0, 1.8)],
    },
    mechanisms=mechanisms_of,
    data=data_of,
)

BINS = {"TDG": 0.025, "HDG": 0.005, OURS: 0.005}
_MOST_BINS = 24


def spread(setting: Setting, seed: int) -> Iterator[Number]:
    """Fig. 9, 10: for fixed users and queries, how the errors of queries are distributed, and how runs differ."""
    random = np.random.default_rng(seed)
    people = People.drawn(str(setting["data"]), int(setting["users"]), D, C, random)
    asked = {count: Asked.drawn(people, count, 200, 0.5, ROUND, random) for count in (2, 4)}
    epsilon = float(setting["epsilon"])
    for name in ("TDG", "HDG", OURS):
        if name == OURS and (epsilon != 1.0 or setting["methods"] == "few"):
            continue
        off: dict[int, list[Floats]] = {count: [] for count in asked}
        for _ in range(int(setting["runs"])):
            estimate = estimated(name, people, epsilon, random)
            assert estimate is not None
            for count, each in asked.items():
                off[count].append(np.abs(estimate.answers(each.queries).value - each.truth))
        for count, runs in off.items():
            errors = np.mean(runs, axis=0)
            bins = np.minimum(errors / BINS[name], _MOST_BINS - 1).astype(int)
            for place, held in enumerate(np.bincount(bins, minlength=_MOST_BINS)):
                where = {"lambda": count, "error": round((place + 0.5) * BINS[name], 5)}
                yield measured_value(held / len(errors), measure="share", line=name, **where)
            means = np.mean(runs, axis=1)
            yield measured_value(
                float(np.std(means, ddof=1) / np.mean(means)), measure="spread", line=name, **{"lambda": count}
            )


SPREAD = Experiment(
    "004.spread",
    spread,
    grid(data=DATA, epsilon=(0.2, 1.0)),
    {"smoke": 1, "quick": 1, "full": 2},
    size={
        "smoke": {**SIZES["smoke"], "runs": 3},
        "quick": {**SIZES["quick"], "runs": 3},
        "full": {**SIZES["full"], "runs": 10},
    },
    only={"smoke": {"data": "Normal", "epsilon": 1.0}},
    mechanisms=mechanisms_of,
    data=data_of,
)


def tables_in_full(setting: Setting, seed: int) -> Iterator[Number]:
    """Fig. 11, 12: every pair of values of every pair of attributes, and every range of half of the values."""
    random = np.random.default_rng(seed)
    people = People.drawn(str(setting["data"]), int(setting["users"]), D, C, random)
    pairs = list(combinations(range(D), 2))
    truth = {pair: people.histogram(*pair) for pair in pairs}
    for name in METHODS[str(setting["methods"])]:
        if name == "HIO":  # as in the paper, which leaves it out
            continue
        estimate = None if name == "Uni" else estimated(name, people, float(setting["epsilon"]), random)
        off = {
            pair: (np.full((C, C), 1 / C**2) if estimate is None else estimate.joint(*pair)) - truth[pair]
            for pair in pairs
        }
        yield measured_value(
            float(np.mean([np.abs(each).mean() for each in off.values()])), line=name, queries="marginals"
        )
        windows = [_windows(each, C // 2) for each in off.values()]
        yield measured_value(float(np.mean([np.abs(each).mean() for each in windows])), line=name, queries="ranges")
        fewer = [np.abs(each[:-1, :-1]).mean() for each in windows]
        yield measured_value(float(np.mean(fewer)), line=name, queries="ranges, as counted")


def _windows(table: Floats, width: int) -> Floats:
    """The sums over all squares of this width."""
    summed = np.pad(table.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    return summed[width:, width:] - summed[:-width, width:] - summed[width:, :-width] + summed[:-width, :-width]


FULL = Experiment(
    "004.full",
    tables_in_full,
    grid(data=DATA, epsilon=(0.2, 0.4, 0.6, 0.8, 1.0)),
    REPETITIONS,
    size=SIZES,
    only={
        "smoke": {"data": "Normal", "epsilon": 1.0},
        "quick": [{"epsilon": epsilon} for epsilon in (0.2, 1.0)],
    },
    mechanisms=mechanisms_of,
    data=data_of,
)
