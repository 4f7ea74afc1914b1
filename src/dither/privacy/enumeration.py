"""Exact shuffling of few reports: the yardstick that every bound is held to.

For a channel with a handful of outputs, the law of the shuffled multiset of n reports is a polynomial that can be
multiplied out in integers: each output is a variable, each user a factor. The divergence of two such laws is then a
rational number, without any bound or rounding. It grows out of hand soon (8 users with 4 outputs have 165 multisets,
and all data sets of the other users are tried), which is why this is a yardstick and no answer.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from math import comb

from dither.core.channel import Channel, Table
from dither.errors import ParameterError

MOST_STEPS = 1 << 24

Law = dict[tuple[int, ...], int]  # the weight of each multiset, as the number of reports with each output


def enumerated_delta(
    channel: Channel | Sequence[Sequence[Fraction]],
    n: int,
    ratio: Fraction,
    *,
    others: Sequence[int] | None = None,
    pair: tuple[int, int] | None = None,
) -> Fraction:
    """The delta of n shuffled reports at epsilon = ln(ratio), exactly: the largest over neighbouring data sets.

    `others` are the inputs of the n - 1 users who do not change, and `pair` those of the one who does; by default all
    are tried.

    >>> enumerated_delta([[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]], 3, Fraction(2))
    Fraction(9, 64)
    """
    rows = _integers(channel)
    inputs, outputs, total = len(rows), len(rows[0]), sum(rows[0])
    crowds: Iterator[tuple[int, ...]] = (
        combinations_with_replacement(range(inputs), n - 1) if others is None else iter([tuple(others)])
    )
    tried = comb(inputs + n - 2, n - 1) if others is None else 1
    if tried * comb(n + outputs - 1, n) * inputs * inputs > MOST_STEPS:
        raise ParameterError("too many multisets to enumerate: take fewer users, outputs or inputs, or fix the others")
    pairs = [(x, y) for x in range(inputs) for y in range(inputs) if x != y] if pair is None else [pair]
    most = Fraction(0)
    for crowd in crowds:
        law: Law = {(0,) * outputs: 1}
        for x in crowd:
            law = _with(law, rows[x])
        ends = {x: _with(law, rows[x]) for x in {each for pair_ in pairs for each in pair_}}
        most = max(most, *(_divergence(ends[x], ends[y], ratio) for x, y in pairs))
    return most / total**n


def _integers(channel: Channel | Sequence[Sequence[Fraction]]) -> tuple[tuple[int, ...], ...]:
    rows = channel.matrix().tolist() if isinstance(channel, Channel) else channel
    return Table.of(rows).weights


def _with(law: Law, row: Sequence[int]) -> Law:
    """One more report."""
    found: Law = {}
    for counts, weight in law.items():
        for output, own in enumerate(row):
            if own:
                more = (*counts[:output], counts[output] + 1, *counts[output + 1 :])
                found[more] = found.get(more, 0) + weight * own
    return found


def _divergence(one: Law, other: Law, ratio: Fraction) -> Fraction:
    p, q = ratio.numerator, ratio.denominator
    gains = (q * weight - p * other.get(counts, 0) for counts, weight in one.items())
    return Fraction(sum(gain for gain in gains if gain > 0), q)
