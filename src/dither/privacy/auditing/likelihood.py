"""The likelihood-ratio adversary: who knows the exact channel scores a report by log P(y|x) / P(y|x').

By Neyman and Pearson no event tells two inputs apart better than a threshold of this score, if the channel is what the
code does. (If it is not, `views` will notice.) The score comes from the channel's rational probabilities:

- of few reports, from the two rows;
- of coordinates that are randomized on their own, as the sum over coordinates;
- of codewords, from which of them either input favours;
- of hashed reports, where a row has 2^64 times as many entries: reports with the same letter (on the bucket of one
  input, of the other, ...) have the same ratio, so that one report of each, and its public hash function, tells it.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import Channel
from dither.core.mechanism import Mechanism
from dither.errors import ParameterError
from dither.privacy.auditing.candidates import Candidate
from dither.privacy.auditing.features import (
    BITS_AND_ENTRIES,
    MOST_REPORTS,
    Feature,
    FeatureSet,
    Score,
    numbered,
    whole_report,
)
from dither.privacy.auditing.targets import Attacked

Word = list[tuple[Channel, int]]  # coordinates, and what an input is to each

_NEVER = 1e3  # the score of what is impossible under one of the inputs
MOST_ROW = 1 << 12  # outputs of a row that is written out
_MOST_ASKED = 128  # reports whose exact likelihood is worked out one by one
_WORDS = "exact log-likelihood ratio of the report"


def exact(mechanism: Mechanism, pair: tuple[int, int], found: list[FeatureSet], sample: NDArray) -> Iterator[Score]:
    """Scores from the channel of the mechanism, for the inputs with these numbers."""
    channel = mechanism.channel()
    if channel.shape[1] <= MOST_REPORTS and sample.dtype.itemsize <= 8:
        yield from _by_rows(mechanism, channel, pair)
    elif mechanism.shows_favoured:
        yield _by_favours(mechanism, pair)
    elif (one := channel.in_coordinates(pair[0])) and (other := channel.in_coordinates(pair[1])):
        yield from _by_coordinates(one, other, found)
    elif "seed" in (sample.dtype.names or ()) and channel.contrast() is not None:  # ratios have few values
        for view in found:
            if len(view.letters) == 1 and view.levels is None:
                yield _by_example(channel, pair, view.letters[0], sample)


def worst_rows(
    mechanism: Attacked, found: Sequence[Candidate], tried: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The pair whose rows have the largest likelihood ratio, and the more often so, where rows can be had."""
    channel = mechanism.channel()
    numbers = [each.number for each in found if each.number is not None]
    if channel is None or channel.shape[1] > MOST_ROW or len(numbers) < len(found):
        return []
    rows = np.array([[float(cell) for cell in channel.row(number)] for number in numbers])

    def apart(pair: tuple[int, int]) -> tuple[float, float]:
        one, other = rows[list(pair)]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.maximum(one / other, other / one)
        most = np.nanmax(ratios)
        return round(float(np.log(most)), 6), float(np.maximum(one, other)[ratios > most * (1 - 1e-9)].sum())

    return [max(tried, key=apart)]


def ratio(one: Fraction, other: Fraction) -> float:
    """log(one / other), as a score."""
    if one == other:
        return 0.0
    return _NEVER if not other else -_NEVER if not one else log(one / other)


def _by_rows(mechanism: Mechanism, channel: Channel, pair: tuple[int, int]) -> Iterator[Score]:
    try:
        numbers = numbered(mechanism.outputs())
    except ParameterError:
        return
    letter = whole_report(numbers)
    if letter is None or len(numbers) != channel.shape[1] or len(np.unique(numbers)) != len(numbers):
        return
    one, other = (channel.row(x) for x in pair)
    weights = np.zeros(letter.size)
    weights[np.argsort(np.argsort(numbers))] = [ratio(a, b) for a, b in zip(one, other, strict=True)]
    yield Score(_WORDS, ((letter, weights),))


def _by_coordinates(one: Word, other: Word, found: list[FeatureSet]) -> Iterator[Score]:
    """Where letter number j of a report is the output of coordinate j."""
    letters = next((view.letters for view in found if view.words == BITS_AND_ENTRIES), ())
    if len(letters) < len(one) or any(
        letter.size > factor.shape[1] for letter, (factor, _) in zip(letters, one, strict=False)
    ):
        return
    parts = []
    for letter, (factor, mine), (_, yours) in zip(letters, one, other, strict=False):
        if mine != yours:
            rows = zip(factor.row(mine), factor.row(yours), strict=True)
            parts.append((letter, np.array([ratio(a, b) for a, b in rows])))
    yield Score(_WORDS, tuple(parts))


def _by_favours(mechanism: Any, pair: tuple[int, int]) -> Score:
    """Where the law of each part of a report has two levels, and which input favours what is public."""
    one, other = mechanism.inputs()[list(pair)]
    high = ratio(Fraction(mechanism.law.high), Fraction(mechanism.law.low))
    weights = np.array([0.0, high, -high, 0.0])  # of those that neither, only the first, only the second, both favour

    def letter(part: int) -> Feature:
        def read(reports: NDArray) -> NDArray[Any]:
            return mechanism.favours(one, reports, part) + 2 * mechanism.favours(other, reports, part)

        return Feature(4, read)

    return Score(_WORDS, tuple((letter(part), weights) for part in range(mechanism.number)))


def _by_example(channel: Any, pair: tuple[int, int], letter: Feature, sample: NDArray) -> Score:
    """The ratio of one report for each of the most frequent letters."""
    read = letter.read(sample)
    kinds, first, counts = np.unique(read, return_index=True, return_counts=True)
    weights = np.zeros(letter.size)
    for at in np.argsort(-counts)[:_MOST_ASKED]:
        tag, value = int(sample["seed"][first[at]]), int(sample["value"][first[at]])
        one, other = (channel.given(x, tag)[value] for x in pair)
        weights[kinds[at]] = ratio(one, other)
    return Score(_WORDS, ((letter, weights),))
