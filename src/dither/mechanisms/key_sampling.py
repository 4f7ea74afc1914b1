"""Which keys of a sparse vector are reported on, and with which signs: the first draws of all key-value mechanisms.

A user has a few of d keys, each with a number from -1 to 1 (`core.sparse_domain`). What is reported on is always s keys
with a sign each: numbers are rounded to signs without bias, users with fewer keys are padded with dummies d, d + 1, ...
that nobody asks about, and of more keys s are drawn. Key j with its sign is one of the *items* 2j (minus) and 2j + 1
(plus).

Mechanisms that report on all s keys at once take them from `chosen`; those that report on a single one from `picked`,
which is a uniform choice from the same s.
"""

import numpy as np
from numpy.typing import NDArray

from dither.core.draw import Rows, Tape, below, count_of, some_of
from dither.core.lattice import rounded_signs
from dither.core.sparse_columns import EMPTY
from dither.core.sparse_domain import Sparse

CHOICE = 3  # the lane of words that say which keys are reported where there are too many

Keys = NDArray[np.int64]
Flags = NDArray[np.bool_]


def chosen(domain: Sparse, values: NDArray, tape: Tape, rows: Rows) -> tuple[Keys, Flags]:
    """For each user exactly s keys and whether their signs are plus: dummies fill up, too many are sampled down."""
    key, value = _sampled(domain.s, values, tape, rows)
    keys = np.where(key == EMPTY, domain.d + np.arange(domain.s), key).astype(np.int64)
    return keys, rounded_signs(np.where(key == EMPTY, 1.0, value), tape, rows)


def picked(domain: Sparse, values: NDArray, tape: Tape, rows: Rows) -> tuple[Keys, Flags]:
    """For each user one of these s keys, drawn uniformly, and its sign; `domain.d` stands for any dummy."""
    count = np.maximum((values["key"] != EMPTY).sum(axis=1), domain.s).astype(np.uint64)
    slot = below(count[:, None], tape, rows, lane=CHOICE, width=1).reshape(-1).astype(np.intp)
    row = np.arange(count_of(rows))
    key, value = values["key"][row, slot].astype(np.int64), values["value"][row, slot]
    dummy = key == EMPTY
    plus = rounded_signs(np.where(dummy, 1.0, value)[:, None], tape, rows)[:, 0]
    return np.where(dummy, domain.d, key), plus


def _sampled(s: int, values: NDArray, tape: Tape, rows: Rows) -> tuple[NDArray, NDArray]:
    key, value = values["key"], values["value"]
    if key.shape[1] <= s:
        return key, value
    counts = (key != EMPTY).sum(axis=1)
    # A device alone draws whether it has too many or not: how long it takes must not tell.
    many = np.flatnonzero(counts > s) if len(counts) > 1 else np.arange(len(counts))
    if many.size:
        key, value = key.copy(), value.copy()
        held = np.maximum(counts[many], s).astype(np.uint64)
        bounds = held[:, None] - np.arange(s, dtype=np.uint64)
        draws = below(bounds, tape, some_of(rows, many), lane=CHOICE, width=s).reshape(-1, s).astype(np.intp)
        draws *= (counts[many] > s)[:, None]  # of few keys all stay where they are
        for slot in range(s):  # Fisher and Yates, for all such users at once
            other = slot + draws[:, slot]
            for table in (key, value):
                table[many, slot], table[many, other] = table[many, other], table[many, slot].copy()
    return key[:, :s], value[:, :s]


def entry_at(table: Keys, counted: Flags, place: Keys) -> Keys:
    """In each row the entry with this number among those that are counted (any, if there is none)."""
    number = np.cumsum(counted, axis=1, dtype=np.int16)
    column = np.argmax(counted & (number == (place + 1).astype(np.int16)[:, None]), axis=1)
    return table[np.arange(len(table)), column]


def number_outside(members: Keys, counted: Flags, place: Keys) -> Keys:
    """In each row the whole number with this place among those that are no members; members ascend."""
    found = place.copy()
    for column in range(members.shape[1]):
        found += counted[:, column] & (members[:, column] <= found)
    return found
