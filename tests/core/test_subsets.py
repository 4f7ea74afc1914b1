"""Which dimensions are reported: over every tape of short words all subsets come out equally often, exactly."""

from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest

from dither.core.draw import TAG
from dither.core.randomness import Stream
from dither.core.subsets import random_subsets
from dither.testing.tapes import EveryTape

MOST_TAPE_BITS = 15
SMALL = [(d, m) for d in range(2, 9) for m in range(1, d)]


def words_read(d: int, m: int) -> int:
    """Words of a row: the smaller of the subset and what it leaves out is drawn."""
    return d - m if 2 * m > d else m


def shortest(d: int, m: int) -> list[int]:
    """Lengths of words in which a number below d fits, and for which there are few enough tapes."""
    return [bits for bits in range((d - 1).bit_length(), 6) if bits * words_read(d, m) <= MOST_TAPE_BITS]


def law(d: int, m: int, bits: int) -> dict[tuple[int, ...], Fraction]:
    """Each subset and its exact probability, given that its words were accepted."""
    tape = EveryTape(bits, {TAG: words_read(d, m)})
    drawn = random_subsets(d, m, tape, slice(0, tape.rows))
    rows, inverse = tape.odds()
    found: dict[tuple[int, ...], Fraction] = {}
    for (subset, odds), count in Counter(zip(map(tuple, drawn[rows].tolist()), inverse.tolist(), strict=True)).items():
        found[subset] = found.get(subset, Fraction(0)) + Fraction(count, odds)
    return found


@pytest.mark.parametrize(("d", "m"), SMALL)
def test_every_subset_is_equally_likely(d, m):
    # Sorted and without repetition is part of it: only such tuples are among the combinations.
    lengths = shortest(d, m)
    assert lengths
    for bits in lengths:
        assert law(d, m, bits) == {subset: Fraction(1, comb(d, m)) for subset in combinations(range(d), m)}


@pytest.mark.parametrize(("d", "m"), [(2, 1), (5, 2), (5, 4), (7, 5), (100, 3), (300, 299), (256, 255), (70_000, 2)])
def test_rows_may_be_a_range_or_an_index(d, m):
    stream = Stream.seeded(3)
    whole = random_subsets(d, m, stream, slice(0, 500))
    some = np.array([499, 3, 3, 0, 77])
    assert (random_subsets(d, m, stream, some) == whole[some]).all()
    assert (random_subsets(d, m, stream, slice(100, 200)) == whole[100:200]).all()
    assert len(random_subsets(d, m, stream, np.empty(0, dtype=np.intp))) == 0


@pytest.mark.parametrize(
    ("d", "m"), [(255, 2), (256, 2), (257, 2), (257, 255), (65_536, 3), (65_537, 3), (1000, 499), (1000, 501)]
)
def test_many_dimensions_fit_their_type(d, m):
    drawn = random_subsets(d, m, Stream.seeded(1), slice(0, 400))
    assert drawn.shape == (400, m)
    assert drawn.dtype == np.min_scalar_type(d - 1)
    assert int(drawn.max()) < d
    assert (np.diff(drawn.astype(np.int64), axis=1) > 0).all()
    # A type that wraps around would crowd the numbers at one end. The mean of m numbers drawn without repetition has a
    # deviation of at most d / sqrt(12 m), that of 400 rows a twentieth of it: 6.3 of them, false alarm 3e-10.
    middle = drawn.astype(float).mean()
    assert abs(middle - (d - 1) / 2) < 6.3 * d / (12 * m * 400) ** 0.5


def test_each_dimension_comes_up_equally_often_in_production():
    # 60,000 users, 3 of 7: each count is binomial(60,000, 3/7) with deviation 121; six of them, false alarm 7 * 2e-9.
    drawn = random_subsets(7, 3, Stream.seeded(11), slice(0, 60_000))
    counts = np.bincount(drawn.reshape(-1), minlength=7)
    assert np.abs(counts - 60_000 * 3 / 7).max() < 6 * (60_000 * 3 / 7 * 4 / 7) ** 0.5
    # Neighbouring users do not share their choice: the overlap of rows i and i + 1 is 9/7 on average, deviation .70.
    inside = np.zeros((60_000, 7))
    np.put_along_axis(inside, drawn.astype(np.intp), 1.0, axis=1)
    overlap = (inside[:-1] * inside[1:]).sum(axis=1).mean()
    assert abs(overlap - 9 / 7) < 6 * 0.70 / 60_000**0.5
