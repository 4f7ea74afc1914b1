"""ProjectiveGeometry beside the two mechanisms that it is to replace for many categories: Hadamard and SubsetSelection.

`Hadamard` is the fastest for a server, and its error grows with epsilon beside the best. `SubsetSelection` has the
smallest error that epsilon allows, and reports of k bits. So speed is a ratio to the one and error to the other:

- **client** and **tally** are randomizing and counting, **estimate** is decoding, all in turns with Hadamard's for the
  same users, k and epsilon. What is worked out once for a mechanism is outside the clock, on both sides.
- **variance** is exact, that of one report averaged over the categories. Its ratio is to the least that any mechanism
  can have, `least_variance`, which subset selection attains (docs/categorical.md): this is limited to 65,536
  categories, the formula is not. A ratio near 1 can be had only where e^epsilon is small beside k.

While the registry does not have this mechanism, there is nothing to measure.
"""

import math
from collections.abc import Callable

from alone import population
from dither.core.mechanism import Mechanism
from dither.mechanisms import Hadamard, registry
from figures import Row, Target, short
from measure import in_turns

NAME = "ProjectiveGeometry"
SIZES, EPSILONS = (1000, 22_000, 1_000_000), (1.0, 3.0, 5.0)
DECODED = (22_000, 5.0)
CLIENT, TALLY = Target(0.5, of_ratio=True), Target(2, of_ratio=True, at_least=False)
ESTIMATE, VARIANCE = Target(10, of_ratio=True, at_least=False), Target(1.02, of_ratio=True, at_least=False)
ROOMY = 150  # times e^epsilon: from so many categories on, the variance has a target
ROUNDS, _FEW = 9, 1000


def settings() -> list[tuple[int, float]]:
    """(k, epsilon) of all that is measured; none without the mechanism."""
    return [(k, epsilon) for k in SIZES for epsilon in EPSILONS] if NAME in registry else []


def rows(k: int, epsilon: float, users: int) -> list[Row]:
    """Its figures, each beside the one that it is compared with."""
    return compared_rows(registry[NAME].with_budget({"k": k}, epsilon, 0.0), Hadamard(k, epsilon), k, epsilon, users)


def compared_rows(own: Mechanism, other: Mechanism, k: int, epsilon: float, users: int) -> list[Row]:
    """The figures of any mechanism for k categories beside those of another."""
    both, values = {"own": own, "other": other}, population(users, k)
    for each in both.values():
        each.estimate(each.tally(each.randomize(values[:_FEW])))
    reports = {name: each.randomize(values) for name, each in both.items()}
    tallies = {name: each.tally(reports[name]) for name, each in both.items()}

    def taken(work: Callable[[str, Mechanism], object]) -> tuple[float, float]:
        runs = {name: (lambda name=name, each=each: work(name, each)) for name, each in both.items()}
        found = in_turns(runs, ROUNDS)
        return found["own"], found["other"]

    client = [users / seconds for seconds in taken(lambda _, each: each.randomize(values))]
    tally = taken(lambda name, each: each.tally(reports[name]))
    estimate = taken(lambda name, each: each.estimate(tallies[name]))
    variance = own.reading.worst_variance(1.0), least_variance(k, epsilon)
    title = f"{type(own).__name__}, k={short(k)}, epsilon={epsilon:g}"
    return [
        Row(title, "client, users/s", users, client[0], versus=client[1], target=CLIENT),
        Row(title, "tally, s", users, tally[0], versus=tally[1], target=TALLY),
        Row(
            title, "estimate, s", users, estimate[0], versus=estimate[1], target=_if((k, epsilon) == DECODED, ESTIMATE)
        ),
        Row(title, "report, bytes", users, own.dtype.itemsize),
        Row(title, "variance", users, variance[0], versus=variance[1], target=_if(_roomy(k, epsilon), VARIANCE)),
    ]


def _if(condition: bool, target: Target) -> Target | None:
    return target if condition else None


def _roomy(k: int, epsilon: float) -> bool:
    return math.exp(epsilon) <= k / ROOMY


def least_variance(k: int, epsilon: float) -> float:
    """Of one report, averaged over categories: what subset selection of the best size has, and nothing is below.

    >>> from dither import SubsetSelection
    >>> round(least_variance(1000, 4.0) / SubsetSelection(1000, 4.0).reading.worst_variance(1.0), 9)
    1.0
    """
    odds = math.exp(epsilon)
    about = int(k / (odds + 1))
    sums = (
        (k - 1) ** 2 * (s * odds + k - s) ** 2 / (k * s * (k - s) * (odds - 1) ** 2) + 1 / k - 1
        for s in (about, about + 1)
        if 1 <= s < k
    )
    return min(sums) / k
