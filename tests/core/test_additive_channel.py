"""Shifted tables against enumeration: what the structure says is what all pairs, all outputs and all tapes say."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import inf

import numpy as np
import pytest

from dither.core import draw
from dither.core.additive_channel import MOST_STRETCH, AdditiveChannel, noise_shape, noise_table
from dither.core.channel import Table, hockey_stick
from dither.core.draw import DRAW, ELEMENT, entries
from dither.core.exact import exp_below
from dither.core.randomness import Stream
from dither.errors import ParameterError
from dither.testing.tapes import EveryTape, lanes_read

RATIOS = [Fraction(1, 2), Fraction(1), Fraction(9, 8), Fraction(3, 2), Fraction(2), Fraction(4), Fraction(50)]


def plain_rows(weights: tuple[int, ...], steps: int, reach: int, stretch: int) -> list[list[Fraction]]:
    """The channel from its definition: every offset is drawn, added and clamped."""
    last, total = len(weights) - 1, 2 * sum(weights) - weights[0]

    def row(i: int) -> list[Fraction]:
        law = [Fraction(0)] * (steps + 2 * reach + 1)
        for offset in range(-last, last + 1):
            clamped = min(max(i + offset, -reach), steps + reach)
            law[clamped + reach] += Fraction(weights[abs(offset)], total)
        return law

    if stretch == 1:
        return [row(i) for i in range(steps + 1)]
    up = Fraction(stretch + 1, 2 * stretch)
    return [[a * share + b * (1 - share) for a, b in zip(row(0), row(1), strict=True)] for share in (up, 1 - up)]


def monotone(rows: list[list[Fraction]]) -> bool:
    """Whether every likelihood ratio of a lower to a higher input falls with the output."""
    pairs = ((low, high) for i, low in enumerate(rows) for high in rows[i + 1 :])
    outputs = range(len(rows[0]))
    return all(low[y] * high[z] >= low[z] * high[y] for low, high in pairs for y in outputs for z in outputs if y < z)


def small_tables() -> Iterator[tuple[tuple[int, ...], int, int]]:
    for steps, reach in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1)):
        for weights in product(range(1, 5), repeat=steps + reach + 1):
            yield weights, steps, reach
    for weights in product((1, 2, 5), (1, 3, 8), (1, 5, 13), (7, 20), (2, 20, 31), (1, 22, 40, 70)):
        yield weights[::-1], 2, 3


def check_structure(channel: AdditiveChannel) -> None:
    """Rows, ratio, divergence and blanket are those of the definition, over all pairs of inputs."""
    rows = plain_rows(channel.weights, channel.steps, channel.reach, channel.stretch)
    assert [channel.row(x) for x in range(len(rows))] == rows
    assert all(sum(row) == 1 for row in rows)
    written = Table.of(rows)
    assert channel.shape == written.shape
    assert channel.ratio() == written.ratio()
    for ratio in RATIOS:
        assert channel.divergence(ratio) == written.divergence(ratio)
    assert channel.blanket() == written.blanket()


SOUND = [
    AdditiveChannel(weights, steps, reach)
    for weights, steps, reach in small_tables()
    if monotone(plain_rows(weights, steps, reach, 1))
]


def test_exactly_the_monotone_tables_are_accepted():
    accepted = refused = 0
    for weights, steps, reach in small_tables():
        if monotone(plain_rows(weights, steps, reach, 1)):
            AdditiveChannel(weights, steps, reach)
            accepted += 1
        else:
            with pytest.raises(ParameterError):
                AdditiveChannel(weights, steps, reach)
            refused += 1
    assert accepted > 100
    assert refused > 1000


def test_structure_over_all_small_tables():
    for channel in SOUND:
        check_structure(channel)


@pytest.mark.parametrize("stretch", [2, 4, 1024])
def test_structure_of_stretched_tables(stretch):
    for channel in SOUND:
        if channel.steps == 1:
            check_structure(AdditiveChannel(channel.weights, 1, channel.reach, stretch))


def test_structure_of_bells():
    for curvature, steps, reach in (("0.1", 3, 8), ("0.5", 5, 4), ("0.02", 2, 12)):
        check_structure(AdditiveChannel(noise_table(Decimal(0), Decimal(curvature), steps + reach, 256), steps, reach))


@pytest.mark.wide
def test_the_worst_pair_of_a_product_has_all_coordinates_at_the_ends():
    for channel in SOUND[::7]:
        rows = [channel.row(x) for x in range(channel.steps + 1)]
        words = [[a * b for a in one for b in two] for one in rows for two in rows]
        for ratio in (Fraction(1), Fraction(3, 2), Fraction(4)):
            worst = hockey_stick(words[0], words[-1], ratio)
            assert max(hockey_stick(one, two, ratio) for one in words for two in words) == worst


def test_every_value_between_the_rows_is_covered():
    channel = AdditiveChannel((9, 7, 4, 2, 1), 2, 2)
    rows = [channel.row(x) for x in range(3)]
    shares = [Fraction(i, 4) for i in range(5)]
    between = [
        [(1 - u) * a + u * b for a, b in zip(*pair, strict=True)]
        for pair in ((rows[0], rows[1]), (rows[1], rows[2]))
        for u in shares
    ]
    for ratio in RATIOS[1:]:
        most = max(hockey_stick(one, two, ratio) for one in between for two in between)
        assert most == channel.divergence(ratio)


@pytest.mark.parametrize(
    "arguments",
    [
        ((4, 2, 1), 0, 2),
        ((4, 2, 1), 2, 0),
        ((4, 2, 1), 1, 2),
        ((4, 2), 1, 1),
        ((4, 2, 0), 1, 1),
        ((4, -2, 1), 1, 1),
        ((4, 2, 1), 1, 1, 0),
        ((4, 2, 1), 1, 1, 3),
        ((4, 2, 1), 1, 1, 2 * MOST_STRETCH),
        ((9, 7, 4, 2, 1), 2, 2, 2),
        ((4, 2, 9), 1, 1),  # the tail is too heavy
        ((2, 3, 1), 1, 1),  # two humps
    ],
    ids=str,
)
def test_what_is_no_channel_is_refused(arguments):
    with pytest.raises(ParameterError):
        AdditiveChannel(*arguments)


def test_the_gain_goes_on_below_zero():
    channel = AdditiveChannel((9, 7, 4, 2, 1), 2, 2)
    ratio = channel.ratio()
    assert channel.gain(ratio) == channel.divergence(ratio) == 0
    assert channel.gain(ratio * 2) < 0 == channel.divergence(ratio * 2)
    assert channel.gain(ratio / 2) == channel.divergence(ratio / 2) > 0
    assert channel.divergence(Fraction(1, 100)) >= Fraction(99, 100)


@pytest.mark.parametrize(("slope", "curvature"), [("0.1", "0"), ("0", "0.001"), ("0.05", "0.0001")])
def test_tables_are_rounded_to_the_nearest_with_an_exact_total(slope, curvature):
    table = noise_table(Decimal(slope), Decimal(curvature), 60, 128)
    assert 2 * sum(table) - table[0] == 1 << 128
    law = [np.exp(-float(slope) * o - float(curvature) * o * o) for o in range(3000)]
    law = [*law[:60], sum(law[60:])]
    np.testing.assert_allclose(np.array(table, dtype=float) / 2.0**128, np.array(law) / (2 * sum(law) - 1), rtol=1e-12)
    fine = noise_shape(Decimal(slope), Decimal(curvature), 60, 300)
    assert all(abs(weight - Fraction(exact) * 2**128) <= 1 for weight, exact in zip(table[1:], fine[1:], strict=True))
    assert abs(table[0] - Fraction(fine[0]) * 2**128) <= len(table)


# The draw ----------------------------------------------------------------------------------------------------------


def running(weights: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(np.cumsum(weights).tolist())


def check_entries(weights: tuple[int, ...], bits: int) -> None:
    """Over all tapes of short words, the draw has the table's law exactly."""
    cumulative = running(weights)
    lanes = lanes_read(lambda rows, tape: entries(cumulative, tape, slice(0, rows)), bits)
    tape = EveryTape(bits, lanes)
    drawn = entries(cumulative, tape, slice(0, tape.rows))
    rows, inverse = tape.odds()
    law = [Fraction(0)] * len(weights)
    for entry, odds in zip(drawn[rows].tolist(), inverse.tolist(), strict=True):
        law[entry] += Fraction(1, odds)
    assert law == [Fraction(weight, sum(weights)) for weight in weights]


TABLES = [
    ((1, 1), 3),
    ((1, 2), 3),
    ((3, 1, 4, 1, 5), 4),
    ((1, 1, 1, 12, 1), 3),  # several edges in one cell
    ((5, 1, 1, 1, 90, 1, 1), 4),  # a total of two words
    ((1, 2, 4, 9, 4, 2, 1), 5),
    ((7, 40, 100, 109, 100, 40, 7), 5),
    ((1, 250, 1), 4),
    ((16, 16, 32), 6),  # edges on the borders of cells
    ((100, 1), 2),  # most cells in one entry
]


@pytest.mark.parametrize(("weights", "bits"), TABLES, ids=str)
def test_entries_over_all_tapes(weights, bits):
    check_entries(weights, bits)


class Listed:
    """A tape of 64-bit words that are given: the first words, and one number below the total for each row."""

    bits = 64

    def __init__(self, words: list[int], within: list[int]) -> None:
        self._words, self._within = np.array(words, dtype=np.uint64), within

    def words(self, lane, rows, width=1, attempt=0, out=None):
        assert attempt == 0
        if lane == DRAW:
            return self._words[rows][:, None].copy()
        assert lane == ELEMENT
        numbers = [self._within[row] for row in np.arange(len(self._words))[rows]]
        return np.array(
            [[n >> 64 * (width - 1 - i) & (1 << 64) - 1 for i in range(width)] for n in numbers], dtype="u8"
        )

    def slots(self, label, number):
        raise NotImplementedError


def check_edges(weights: tuple[int, ...]) -> None:
    """Production words at, beside and far from every edge, against fractions."""
    cumulative = running_exact(weights)
    total, cases = cumulative[-1], []
    for edge in (0, *cumulative):
        cell, rest = divmod(edge << 64, total)
        for u, v in product((cell - 1, cell, cell + 1, cell + (1 << 40)), (0, rest - 1, rest, rest + 1, total - 1)):
            if 0 <= u < 1 << 64 and 0 <= v < total:
                cases.append((u, v))
    tape = Listed([u for u, _ in cases], [v for _, v in cases])
    drawn = entries(cumulative, tape, slice(0, len(cases)))
    cut = {(edge << 64) // total for edge in cumulative}
    for (u, v), entry in zip(cases, drawn.tolist(), strict=True):
        place = Fraction(u * total + v, 1 << 64)
        lower = cumulative[entry - 1] if entry else 0
        upper = cumulative[entry]
        if u in cut:
            assert lower <= place < upper
        else:  # a cell without an edge: v is not read
            assert lower <= Fraction(u * total, 1 << 64) < upper


def running_exact(weights: tuple[int, ...]) -> tuple[int, ...]:
    sums, so_far = [], 0
    for weight in weights:
        so_far += weight
        sums.append(so_far)
    return tuple(sums)


PRODUCTION = noise_table(Decimal("0.1"), Decimal(2) ** -54, 300, 128)
UNEVEN = (*PRODUCTION[:0:-1], PRODUCTION[0] - 1, *PRODUCTION[1:])


@pytest.mark.parametrize("weights", [UNEVEN, (1, 2, 3), (1 << 100, 1, 1 << 100, 1, 1, 3), (7,) * 5000], ids=len)
def test_entries_at_every_edge_with_production_words(weights):
    check_edges(weights)


def test_entries_do_not_depend_on_how_rows_are_cut():
    cumulative, stream = running_exact(UNEVEN), Stream.seeded(5)
    whole = entries(cumulative, stream, slice(0, 5000))
    parts = [entries(cumulative, stream, slice(a, min(a + 333, 5000))) for a in range(0, 5000, 333)]
    assert (np.concatenate(parts) == whole).all()
    assert (entries(cumulative, stream, np.arange(0, 5000, 7)) == whole[::7]).all()
    assert whole.min() >= 0
    assert whole.max() < len(UNEVEN)


# Mutants -----------------------------------------------------------------------------------------------------------


class NoLump(AdditiveChannel):
    """The tail is forgotten at the clamped end."""

    def tail(self, k):
        return super().tail(k) - self.weights[-1] * (k > 0)


class Late(AdditiveChannel):
    """Sums of offsets start one too late."""

    def tail(self, k):
        return super().tail(min(k + 1, len(self.weights) - 1))


class OneSided(AdditiveChannel):
    """Only the lower end is clamped to."""

    def shifted(self, i):
        row = super().shifted(i)
        return [*row[:-1], self.weights[self.reach + self.steps - i]]


class Unmixed(AdditiveChannel):
    """The stretch is forgotten."""

    def _ends(self, at_lowest, at_highest):
        return 2 * self.stretch * at_lowest, 2 * self.stretch * at_highest


class Swapped(AdditiveChannel):
    """Rows are read from the wrong end."""

    def shifted(self, i):
        return super().shifted(self.steps - i)


class Middle(AdditiveChannel):
    """The blanket is read off the wrong rows."""

    def blanket(self):
        law = tuple(map(min, self.row(0), self.row(1)))
        return type(super().blanket())(sum(law, Fraction(0)), law)


class FewThresholds(AdditiveChannel):
    """The best threshold is missed by one."""

    def gain(self, ratio):
        shorter = AdditiveChannel.gain(self, ratio)
        best = max(
            range(-self.reach, self.reach + self.steps), key=lambda k: self.tail(-k) - ratio * self.tail(self.steps - k)
        )
        lowest, highest = self.tail(1 - best), self.tail(self.steps + 1 - best)
        return min(shorter, (lowest - ratio * highest) / self.total)


@pytest.mark.parametrize("mutant", [NoLump, Late, OneSided, Unmixed, Swapped, Middle, FewThresholds])
def test_mutants_of_the_channel_are_killed(mutant):
    stretch = 4 if mutant is Unmixed else 1

    def check_all() -> None:
        for channel in SOUND:
            if stretch == 1 or channel.steps == 1:
                check_structure(mutant(channel.weights, channel.steps, channel.reach, stretch))

    with pytest.raises((AssertionError, ParameterError)):
        check_all()


def mutated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Break the draw in one place."""
    draw._guide.cache_clear()
    original = draw.exact_entries
    if name == "edge on the wrong side":
        monkeypatch.setattr(draw, "bisect_right", draw_left)
    elif name == "second word ignored":
        monkeypatch.setattr(draw, "exact_entries", lambda c, b, cells, w: original(c, b, cells, [0] * len(w)))
    elif name == "ties not noticed":
        monkeypatch.setattr(draw, "exact_entries", lambda c, b, cells, w: original(c, b, cells, [c[-1] - 1] * len(w)))
    elif name == "second word below another total":
        below = draw.below
        monkeypatch.setattr(draw, "below", lambda bound, *a, **k: below(max(1, bound - 1), *a, **k))
    elif name == "a guide that trusts every cell":
        guide = draw._guide.__wrapped__
        monkeypatch.setattr(draw, "_guide", lambda c, b: (np.abs(guide(c, b)[0]), *guide(c, b)[1:]))


def draw_left(edges: list[int], place: int) -> int:
    return sum(edge < place for edge in edges)


DRAW_MUTANTS = [
    "edge on the wrong side",
    "second word ignored",
    "ties not noticed",
    "second word below another total",
    "a guide that trusts every cell",
]


@pytest.mark.parametrize("name", DRAW_MUTANTS)
def test_mutants_of_the_draw_are_killed(name, monkeypatch):
    mutated(name, monkeypatch)
    killed = 0
    for weights, bits in TABLES:
        try:
            check_entries(weights, bits)
        except (AssertionError, IndexError):
            killed += 1
    assert killed
    monkeypatch.undo()
    draw._guide.cache_clear()
    check_entries(*TABLES[2])


def test_an_impossible_output_has_no_finite_ratio():
    # A table cannot hold a zero, so no shifted table has one: the ratio is always finite.
    assert all(channel.ratio() < inf for channel in SOUND)
    channel = AdditiveChannel(PRODUCTION, 60, 240)
    assert channel.profile(channel.epsilon) == 0
    assert channel.divergence(exp_below(channel.epsilon / 2)) > 0
