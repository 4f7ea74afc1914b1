"""What a search for words will find, before anything is collected: the smallest share, and recall for a law of shares.

A word with the share f that ends at level l is listed if every prefix of it was kept at the levels before, and its own
count is significant. With s for the standard error of a share at a level, all of it is normal:

    P(kept at a level) = Phi(f' / s - z_kept),      P(significant) = Phi((f - t s) / s_f),

f' is the share of all words that begin like it, at least f; z_kept is where as many prefixes that nobody has are kept
as there is room for; and t is where so many candidates are expected to have no more false ones among them than may be
(`prefix_search`, whose list needs less evidence the more words stand out: here for the expected number of them).

**Whom for.** Without a word about the users, what is told is the smallest share that is found: with a chance of nine in
ten, of a word at the first level, and of one at the last with nobody else behind its prefixes; and the share below
which a word is listed less than once in twenty collections, however short it is. With a law of shares (Zipf's, or a
public sample of texts) recall is told, the part of the most frequent words that will be on the list. It leaves out
that of words with nearly the same share one may be taken for the other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.confidence import beyond
from dither.kernels.word_hashing import codes_of, fingerprints
from dither.mechanisms.prefix_search import (
    FALSE,
    KNOWN_PARTS,
    STATED,
    PrefixLevels,
    Support,
    dictionary_weights,
    kept_prefixes,
    largest_weights,
    parts_of_error,
    threshold,
)

Floats = NDArray[np.float64]

LIKELY, UNLIKELY = 0.9, 0.05
_ROUNDS = 6  # of working out how many words stand out
_WEIGHTS = 24  # of known words for which it is worked out, and between which it is interpolated


class Forecast(NamedTuple):
    """What is known beforehand: smallest shares and, for a law of shares, recall and the length of the list."""

    short: float  # the share from which on a word of the first level is found with a chance of nine in ten
    long: float  # the same of one of the last level
    hopeless: float  # the share below which the chance of any word is less than one in twenty
    recall: float | None = None
    listed: float | None = None

    def stored(self) -> dict[str, float]:
        """For a file; what is not known is left out."""
        return {name: float(value) for name, value in self._asdict().items() if value is not None}


@dataclass(frozen=True)
class SearchForecast:
    """A search by so many reports, of which `most` candidates a level are looked at and `known` words are looked up."""

    levels: PrefixLevels
    support: Support
    reports: float
    most: int
    known: int = 0
    above: float | None = None

    @cached_property
    def _error(self) -> float:
        """The standard error of the share of a rare word, for one report."""
        return math.sqrt(float(self.support.variance(0.0)))

    @cached_property
    def stated(self) -> float:
        """The share that a word has to be above."""
        return STATED * self._error / math.sqrt(self.reports) if self.above is None else self.above

    @cached_property
    def _kept(self) -> tuple[int, ...]:
        """How many prefixes of each level can be extended."""
        return tuple(kept_prefixes(self.levels, self.most, level) for level in range(len(self.levels.lengths) - 1))

    def _candidates(self, length: int) -> int:
        """How many words of this length are looked at."""
        level = int(self.levels.level_of(np.array([length]))[0])
        before = self.levels.lengths[level - 1] if level else 0
        return (self._kept[level - 1] if level else 1) * self.levels.symbols ** (length - before)

    def _from(self, level: int) -> float:
        """The reports about words that end at a level."""
        return self.reports * sum(self.levels.functions[level:]) / sum(self.levels.functions)

    def _threshold(self, number: int, reports: float, listed: float, weight: float | None = None) -> float:
        """The share from which on a word is listed, of so many candidates of one length; known words have a weight."""
        error, stated = self._error / math.sqrt(reports), self.stated
        every = np.ones(1) if weight is None else dictionary_weights(number)
        parts = parts_of_error(self.levels.longest, self.known) if weight is None else KNOWN_PARTS
        allowed = FALSE / parts * max(listed, 1.0) * (1.0 if weight is None else weight)
        return threshold(number, largest_weights(every, number, stated), stated / error, allowed) * error

    def _significant(self, shares: Floats, reports: float, limits: Floats | float) -> Floats:
        return _normal((shares - limits) / np.sqrt(self.support.variance(shares) / reports))

    def _known_thresholds(self, places: NDArray[np.intp], reports: float, listed: float) -> Floats:
        """Of known words the shares from which on they are listed, by their places in the dictionary."""
        weights = dictionary_weights(self.known)
        grid = np.geomspace(weights.min(), weights.max(), _WEIGHTS)
        limits = [self._threshold(self.known, reports, listed, weight) for weight in grid.tolist()]
        return np.interp(np.log(weights[places]), np.log(grid), limits)

    def _reached(self, level: int, prefixes: Sequence[Floats]) -> Floats | float:
        """How likely all prefixes before a level are kept, which these shares of users have."""
        found: Floats | float = 1.0
        for before in range(level):
            functions, lengths = self.levels.functions, self.levels.lengths
            error = self._error / math.sqrt(self.reports * functions[before] / sum(functions))
            steps = lengths[before] - (lengths[before - 1] if before else 0)
            rivals = (self._kept[before - 1] if before else 1) * self.levels.symbols**steps
            room = beyond(min(self._kept[before] / rivals, 0.999999))
            found = found * _normal(prefixes[before] / error - room)
        return found

    def chance(self, share: float, length: int) -> float:
        """Of a word of this length, if nobody has another one that begins like it."""
        level = int(self.levels.level_of(np.array([length]))[0])
        own = np.array([share])
        limit = self._threshold(self._candidates(length), self._from(level), 1.0)
        significant = self._significant(own, self._from(level), limit)
        return float((significant * self._reached(level, [own] * level))[0])

    def _smallest(self, length: int, wanted: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (low, middle) if self.chance(middle, length) >= wanted else (middle, high)
        return high

    def smallest_of(self, length: int) -> float:
        """The share from which on a word of this length is found with a chance of nine in ten."""
        return self._smallest(length, LIKELY)

    def smallest_known(self, level: int, number: int) -> float:
        """The same of one of so many known words that ends at a level, with the weight of an average one."""
        error = self._error / math.sqrt(self._from(level))
        return self._threshold(number, self._from(level), 1.0, 1.0) + beyond(1 - LIKELY) * error

    def smallest(self) -> Forecast:
        """What is known whoever the users are."""
        first, last = self.levels.lengths[0], self.levels.longest
        hopeless = min(self._smallest(length, UNLIKELY) for length in range(1, first + 1))
        return Forecast(self._smallest(first, LIKELY), self._smallest(last, LIKELY), hopeless)

    def of_words(self, words: NDArray, shares: Floats, count: int, known: Sequence[bytes] = ()) -> Forecast:
        """For users who have these words with these shares; words without codes are ones of which nothing is known.

        These are taken for words of the last level with nobody else behind their prefixes, which are found worst.
        """
        lengths = (codes_of(words) != 0).sum(axis=1)
        unknown = lengths == 0
        lengths = np.where(unknown, self.levels.longest, lengths)
        level_of = self.levels.level_of(lengths)
        behind = self._behind(words, shares, unknown, lengths)
        place_of = {word: place for place, word in enumerate(known)}
        places = np.array([place_of.get(word, -1) for word in words.tolist()], dtype=np.intp)
        groups = [(length, lengths == length) for length in np.unique(lengths).tolist()]
        reached = {
            length: self._reached(int(level_of[own][0]), [each[own] for each in behind]) for length, own in groups
        }
        chances, listed = np.zeros(len(words)), 1.0
        for _ in range(_ROUNDS):
            for length, own in groups:
                reports = self._from(int(level_of[own][0]))
                limit = self._threshold(self._candidates(length), reports, listed)
                chances[own] = reached[length] * self._significant(shares[own], reports, limit)
            for level in np.unique(level_of[places >= 0]).tolist():
                own, reports = (places >= 0) & (level_of == level), self._from(level)
                limits = self._known_thresholds(places[own], reports, listed)
                chances[own] = np.maximum(chances[own], self._significant(shares[own], reports, limits))
            listed = min(float(chances.sum()), float(count))
        top = np.argsort(-shares, kind="stable")[:count]
        recall = float(chances[top].sum()) / len(top)
        return self.smallest()._replace(recall=recall, listed=min(float(count), listed))

    def _behind(
        self, words: NDArray, shares: Floats, unknown: NDArray[np.bool_], lengths: NDArray[np.integer]
    ) -> list[Floats]:
        """For each level but the last the share of all words that begin like each, and go on."""
        found = []
        for length in self.levels.lengths[:-1]:
            on = (lengths > length) & ~unknown
            behind = shares.copy()
            if on.any():
                _, place = np.unique(fingerprints(words[on], length), return_inverse=True)
                behind[on] = np.bincount(place, weights=shares[on])[place]
            found.append(behind)
        return found


def _normal(x: Floats) -> Floats:
    return np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in np.ravel(x)])
