"""Basic composition: epsilons and deltas add up, in fractions, and are rounded up once, at the end.

A sum of floats may round down, and a budget would then hold one round too many. Nothing here is a float but what comes
in and what goes out, and nothing here needs more than Python: a device with a ledger imports it.
"""

from collections.abc import Iterable
from fractions import Fraction
from math import inf

from dither.core.exact import float_above
from dither.core.guarantee import NO_GUARANTEE, Guarantee, one_kind

MOST_ROUNDS = 1 << 53

Priced = tuple[Guarantee, int]  # a guarantee, and how often it is paid for


def summed(costs: Iterable[Priced], established: str = "bound") -> Guarantee:
    """What all of these promise together, each so many times; refused for guarantees of different kinds.

    >>> print(summed([(Guarantee(0.25), 3), (Guarantee(0.5, 1e-6), 1)]))
    epsilon 1.25, delta 1e-6 (bound)
    """
    rows = [(guarantee, times) for guarantee, times in costs if times]
    model, neighbours = one_kind(guarantee for guarantee, _ in rows)
    if any(guarantee.simulated for guarantee, _ in rows):
        return NO_GUARANTEE
    epsilon = _sum((guarantee.epsilon, times) for guarantee, times in rows)
    delta = _sum((guarantee.delta, times) for guarantee, times in rows)
    return Guarantee(epsilon, min(1.0, delta), established, model=model, neighbours=neighbours)


def basic_composition(guarantee: Guarantee, rounds: int) -> Guarantee:
    """So many rounds of one guarantee, rounded up; that of several rounds it is attained is not said.

    >>> print(basic_composition(Guarantee(0.1), 3))
    epsilon 0.300000001 (bound)
    """
    return guarantee if rounds == 1 else summed([(guarantee, rounds)])


def affordable_rounds(budget: Guarantee, price: Guarantee, reserved: Iterable[Priced] = ()) -> int:
    """How many rounds at this price fit into what is not reserved.

    >>> affordable_rounds(Guarantee(1.0), Guarantee(0.25), [(Guarantee(0.1), 2)])
    3
    """
    rows = list(reserved)
    one_kind([budget, price, *(guarantee for guarantee, _ in rows)])

    def fitting(budget: float, price: float, taken: list[tuple[float, int]]) -> int:
        if price == 0:
            return MOST_ROUNDS
        left = Fraction(budget) - sum((Fraction(each) * times for each, times in taken), Fraction(0))
        return 0 if price == inf else min(MOST_ROUNDS, int(left // Fraction(price)))

    return min(
        fitting(budget.epsilon, price.epsilon, [(guarantee.epsilon, times) for guarantee, times in rows]),
        fitting(budget.delta, price.delta, [(guarantee.delta, times) for guarantee, times in rows]),
    )


def _sum(numbers: Iterable[tuple[float, int]]) -> float:
    rows = list(numbers)
    if any(number == inf for number, _ in rows):
        return inf
    return float_above(sum((Fraction(number) * times for number, times in rows), Fraction(0)))
