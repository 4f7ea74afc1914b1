"""Algorithm 2 of 004 and Phase 2 step by step, for what a model does not show: traces, raw answers, orders of steps.

Algorithm 2 puts the answers about pairs of attributes together: from the even table of the 2^lambda states of a query
(inside or outside, for each attribute), pair after pair, the states inside in both are scaled to the pair's answer. The
authors' code scales the whole table back to one after every update; the paper does not print that (`as_printed`).
Answers that noise left below zero are taken as they are, as they come without Phase 2.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.ranges.grid import Grid

Floats = NDArray[np.float64]


class Updated(NamedTuple):
    """The tables of all queries, and for each round the change of each of them; rows that are done stay."""

    states: Floats  # a row for each query
    changes: Floats  # a row for each round

    @property
    def answers(self) -> Floats:
        """The share of users inside in all attributes: the last state."""
        return self.states[:, -1]


def algorithm_2(
    pairs: Floats, count: int, *, rounds: int = 100, tolerance: float = 0.0, scaled: bool = True
) -> Updated:
    """Weighted update of queries about `count` attributes each, from their pairs in the order of `combinations`.

    >>> algorithm_2(np.full((1, 3), 0.4), 3).answers.round(4)
    array([0.2731])
    """
    inside = np.arange(1 << count) >> np.arange(count)[::-1, None] & 1
    both = [np.flatnonzero(inside[j] & inside[k]) for j, k in combinations(range(count), 2)]
    states = np.full((len(pairs), 1 << count), 0.5**count)
    open_, changes = np.ones(len(pairs), dtype=bool), []
    for _ in range(rounds):
        before = states
        states = states.copy()
        for place, chosen in enumerate(both):
            total = states[:, chosen].sum(axis=1)
            ratio = np.divide(pairs[:, place], total, out=np.ones_like(total), where=total != 0)
            states[:, chosen] *= ratio[:, None]
            if scaled:
                whole = states.sum(axis=1, keepdims=True)
                states = np.divide(states, whole, out=states, where=whole != 0)
        states = np.where(open_[:, None], states, before)
        changes.append(np.abs(states - before).sum(axis=1))
        open_ &= changes[-1] > tolerance
        if not open_.any():
            break
    return Updated(states, np.array(changes))


def one_attribute(
    grids: Sequence[Grid], tables: Sequence[Floats], attribute: int, intervals: Sequence[int]
) -> list[Floats]:
    """The consistency step of section 4.2 for one attribute, whose sums over these intervals become equal.

    Weights are 1 / |S_i|, the number of cells that a sum has; the change is spread evenly over them.
    """
    held = [
        (place, grid.attributes.index(attribute)) for place, grid in enumerate(grids) if attribute in grid.attributes
    ]
    sums, cells = [], []
    for place, axis in held:
        starts = np.searchsorted(grids[place].cuts[axis], intervals)
        across = tables[place].sum(axis=tuple(other for other in range(tables[place].ndim) if other != axis))
        sums.append(np.add.reduceat(across, starts[:-1]))
        cells.append(np.diff(starts) * (tables[place].size // tables[place].shape[axis]))
    weights = 1 / np.array(cells)
    wanted = (weights * np.array(sums)).sum(axis=0) / weights.sum(axis=0)
    found = list(tables)
    for (place, axis), own, number in zip(held, sums, cells, strict=True):
        starts = np.searchsorted(grids[place].cuts[axis], intervals)
        change = np.repeat((wanted - own) / number, np.diff(starts))
        found[place] = found[place] + np.expand_dims(change, [o for o in range(found[place].ndim) if o != axis])
    return found


def in_order(
    grids: Sequence[Grid], tables: Sequence[Floats], order: Sequence[int], intervals: Sequence[int]
) -> list[Floats]:
    """The consistency steps of these attributes, one after the other."""
    found = list(tables)
    for attribute in order:
        found = one_attribute(grids, found, attribute, intervals)
    return found
