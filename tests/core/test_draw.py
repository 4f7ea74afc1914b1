"""The one sampler, run over every tape of short words and counted: the counts are the law, exactly."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dither.core.channel import TwoLevel
from dither.core.draw import DRAW, ELEMENT, below, positions, sides
from dither.core.randomness import Stream
from dither.errors import ParameterError
from dither.testing.tapes import EveryTape

SMALL_LAWS = [
    TwoLevel(high, low, favoured, outputs)
    for high, low, outputs in product(range(1, 14), range(1, 5), range(2, 8))
    for favoured in range(1, outputs)
    if favoured * high + (outputs - favoured) * low <= 256
]


def exact_law(tape: EveryTape, drawn: np.ndarray, size: int) -> list[Fraction]:
    """P(drawn = i) for i below `size`, given acceptance."""
    law = [Fraction(0)] * size
    rows, inverse = tape.odds()
    for value, odds in zip(drawn[rows].tolist(), inverse.tolist(), strict=True):
        law[int(value)] += Fraction(1, odds)
    return law


def test_positions_over_all_one_word_tapes():
    for law in SMALL_LAWS:
        tape = EveryTape(8, {DRAW: 1})
        found = exact_law(tape, positions(law, tape, slice(0, 256)), law.outputs)
        weights = [law.high] * law.favoured + [law.low] * (law.outputs - law.favoured)
        assert found == [Fraction(weight, law.total) for weight in weights]


def test_a_word_is_wasted_only_where_it_must_be():
    for law in SMALL_LAWS:
        tape = EveryTape(8, {DRAW: 1})
        positions(law, tape, slice(0, 256))
        assert len(tape.odds()[0]) == 256 // law.total * law.total


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_positions_beyond_one_word_draw_the_side_then_an_element(bits):
    for high, low, favoured, outputs in product((1, 3, 9), (1, 2), (1, 2), (3, 4)):
        law = TwoLevel(high, low, favoured, outputs)
        words = -(-(law.total - 1).bit_length() // bits)
        if words < 2 or law.total <= 1 << bits or favoured == outputs - favoured:
            continue
        tape = EveryTape(bits, {DRAW: words, ELEMENT: 1})
        found = exact_law(tape, positions(law, tape, slice(0, tape.rows)), outputs)
        weights = [high] * favoured + [low] * (outputs - favoured)
        assert found == [Fraction(weight, law.total) for weight in weights]


@pytest.mark.parametrize(("bits", "words"), [(8, 1), (3, 3), (5, 2), (2, 4), (1, 8)])
def test_sides_word_by_word(bits, words):
    laws = [TwoLevel(a, b, w, m) for a, b, w, m in product((1, 2, 7, 40), (1, 3), (1, 3, 5), (4, 7, 11)) if w < m]
    checked = 0
    for law in laws:
        share = Fraction(law.favoured, law.outputs)
        total = share.numerator * law.high + (share.denominator - share.numerator) * law.low
        if -(-(total - 1).bit_length() // bits) != words:
            continue
        tape = EveryTape(bits, {DRAW: words})
        inside = exact_law(tape, sides(law, tape, slice(0, tape.rows)).astype(int), 2)[1]
        assert inside == law.inside
        checked += 1
    assert checked


def test_sides_with_counts_of_thousands_of_bits():
    # A half-space of a cube with 2,000 dimensions: the side weights have 2,000 bits. Only the ratio can be checked
    # here, by the frequency: 3 : 1, false alarm 1e-9 (normal tail at 6.1 standard deviations).
    law = TwoLevel(3, 1, favoured=2**1999 + 1, outputs=2**2000 + 2)
    inside = sides(law, Stream.seeded(1), slice(0, 40_000)).mean()
    assert abs(inside - 0.75) < 6.1 * (0.75 * 0.25 / 40_000) ** 0.5
    odd = TwoLevel(3, 1, favoured=2**1999 + 1, outputs=2**2000 + 3)  # no common divisor to shorten by
    inside = sides(odd, Stream.seeded(2), slice(0, 40_000)).mean()
    assert abs(inside - 0.75) < 6.1 * (0.75 * 0.25 / 40_000) ** 0.5


def test_rows_with_fewer_favoured_outputs_keep_the_total():
    # Collision under hash conflicts (003): w of at most s favoured buckets, and always the total s A + (t - s) B.
    for high, low, most, outputs in product((2, 3, 5), (1, 2), (2, 3), (4, 5)):
        law = TwoLevel(high, low, most, outputs)
        for own in range(1, most + 1):
            tape = EveryTape(6, {DRAW: 1, ELEMENT: 1})
            favoured = np.full(tape.rows, own, dtype=np.uint64)
            found = exact_law(tape, positions(law, tape, slice(0, tape.rows), favoured), outputs)
            inside = Fraction(high, law.total)
            assert found == [inside] * own + [(1 - own * inside) / (outputs - own)] * (outputs - own)
            assert inside / found[-1] <= Fraction(high, low)


def test_uniform_below_over_all_tapes():
    for bound in range(1, 257):
        tape = EveryTape(8, {ELEMENT: 1})
        found = exact_law(tape, below(bound, tape, slice(0, 256), lane=ELEMENT), bound)
        assert found == [Fraction(1, bound)] * bound


def test_uniform_below_a_bound_of_several_words():
    for bound in (17, 100, 255, 256, 1000, 4095, 4096):
        words = -(-(bound - 1).bit_length() // 4)
        tape = EveryTape(4, {ELEMENT: words})
        found = exact_law(tape, below(bound, tape, slice(0, tape.rows), lane=ELEMENT), bound)
        assert found == [Fraction(1, bound)] * bound


def test_uniform_below_row_by_row_bounds():
    bounds = np.array([1, 2, 3, 5, 7, 10], dtype=np.uint64)
    tape = EveryTape(6, {ELEMENT: 1})
    for bound in bounds.tolist():
        each = np.full(tape.rows, bound, dtype=np.uint64)
        found = exact_law(tape, below(each, tape, slice(0, tape.rows), lane=ELEMENT), bound)
        assert found == [Fraction(1, bound)] * bound
        tape = EveryTape(6, {ELEMENT: 1})


def test_uniform_below_several_bounds_a_row():
    tape = EveryTape(4, {ELEMENT: 2})
    pairs = below(np.array([[3, 5]], dtype=np.uint64), tape, slice(0, tape.rows), lane=ELEMENT, width=2)
    found = exact_law(tape, pairs[:, 0] * np.uint64(5) + pairs[:, 1], 15)
    assert found == [Fraction(1, 15)] * 15


def test_uniform_below_full_word_and_nonsense():
    stream = Stream.seeded(3)
    assert (below(1 << 64, stream, slice(0, 5), lane=0) == stream.words(0, slice(0, 5))[:, 0]).all()
    for bound in (0, -1):
        with pytest.raises(ParameterError):
            below(bound, stream, slice(0, 5), lane=0)


def test_rejected_rows_do_not_disturb_the_others():
    # A bound just above 2^63 rejects almost half of all words; the result must not depend on the cut into chunks.
    stream, bound = Stream.seeded(4), (1 << 63) + 1
    whole = below(bound, stream, slice(0, 1000), lane=0)
    parts = [below(bound, stream, slice(a, a + 37), lane=0)[: 1000 - a] for a in range(0, 1000, 37)]
    assert (np.concatenate(parts)[:1000] == whole).all()
    assert (whole < bound).all()


def test_production_weights_waste_no_words():
    law = TwoLevel.fit(1.0, favoured=1, outputs=1000)
    assert (1 << 64) - law.total < 1 << 24
