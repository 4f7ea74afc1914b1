"""Frequent words out of sketches of their prefixes: levels extended, all evidence together, and a list that is tested.

Users are split over *levels*, prefixes of growing length. At each a few hash functions send the prefix to one of M
buckets, and an oracle counts buckets: a *sketch*, which answers for any word, listed or not. A word that ends within
the length of a level is whole there. So it is counted at its own level *and at every longer one*: short words have the
reports of all users, and a word of the last level has those of the last.

**Search.** All prefixes of the first length are looked at; those that may be frequent (at most so many) are extended by
every possible ending up to the next length, and so on. Words are read off the levels from their end on, prefixes off
their own level. What decides which prefixes go on is z^2 / 2 + ln(w), the evidence of the level itself, and w the share
of the prefix that it extends beside that of the others: a posterior, up to what is the same for all.

**Collisions** are known: functions are public. Frequent words are taken off the buckets that they fall into, so that
nothing that shares a bucket with one of them is taken for frequent, and this is repeated until each is what is left
without all others. What is frequent at a level that the search has not come to yet is in buckets, too: so a word counts
as frequent only if the median over functions says so, which a collision under one or two of them does not move. Rare
ones that collide stay as noise, whose variance is bounded and added.

**The list.** Which words are candidates at a level was decided by the *earlier* levels, whose users are other ones. So
given the candidates, the reports of the level and of all after it are fresh, and testing each candidate is honest
whatever the search did. Candidates are in families: the words of one length, and the words of a known dictionary. The
latter has half of the error, and all lengths have the same part of it: a short word has few rivals, and needs less
evidence. Within a family evidence is weighed (Genovese, Roeder and Wasserman 2006), by what is known before the reports
that test it: a word by the prefix that it extends, and one of a dictionary by its place in it (`dictionary_weights`).

**False discoveries.** A candidate's *false* number v is the largest number of false ones that may be expected, in all
families, to look as good. A list is *self-consistent* (Blanchard and Roquain 2008) if each word on it has v at most
.05 times the length of the list *as it is handed out*. Then at most .05 of it are false on average: let R be its
length with word i at its best, which the count of i does not move. Where i is listed, the list has that length. So

    E[false / length] = sum over false i of E[ P(v_i <= .05 R) / R ] <= sum over families of .05 / parts <= .05.

Benjamini and Hochberg's is the longest such list. At most `count` words are handed out, those with the largest shares,
and they are no sample of the longest list: false words with large shares are long ones, about which few reports tell.
So v is compared with the length of what is handed out, and what is no text in its one form (`fits`) is struck off
before, not after. All of this takes counts of different words for independent. Those of any two are uncorrelated, as
any two hyperplanes share as many points.

False is a word whose share is not above a *stated share* theta. The chance to be listed is convex in the share: one
with the share a theta has at most (1 - a) P(s | 0) + a P(s | theta) for a count of s or more, where P is the binomial
law of the reports. Each a is at most 1 and, as shares add up to one, all of them to at most 1/theta. So for any of them
the a times the weights add up to at most C, the sum of the 1/theta largest weights of the m candidates, and with

    v = parts / weight * max( m P(s | 0) / (1 - b),  C P(s | theta) / b )

at most (1 - b) V + b V = V false ones have v <= V, shared by all parts, whatever the weights and the shares are. The
part b is fixed beforehand: what C has of both together where the weight is 1 and one word is listed.

**Intervals** hold for all candidates at once, so for those that came out on top, too. A word with the share f is given
a part f / 2 of the miss, and 1/(2 m) of that of its family besides: all of it adds up to at most the whole, because
shares do. Frequent words have short intervals for that.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither import kernels
from dither.core.confidence import Ends, IntervalRule
from dither.errors import require
from dither.kernels.hashing import public_seeds
from dither.kernels.projective_space import ProjectiveSpace
from dither.kernels.word_hashing import PRIME, START, States, codes_of, extended, fingerprints, word_buckets

Floats = NDArray[np.float64]

FALSE = 0.05  # of the words that are listed, on average over collections
_AT_ONCE = 1 << 18  # candidates looked at in one go
_WORTH_A_LOOK = 3.0  # standard errors, of a word
_HEAVY = 6.0  # standard errors from which on a word is taken off its buckets
_ABOVE = 2.5  # functions that a word may share with a heavier one, at most, before it counts as found
_PASSES = 40
_FUNCTIONS = 24  # under which a candidate is looked at, without a smaller number of candidates for it
_SETTLED = 0.01  # standard errors by which nothing moves any more
STATED = 0.25  # standard errors of a share that all reports tell: the share above which a word is listed
_GRID = 512  # truths that are tried for the lower end of an interval
_LEAST_PART = 1e-9  # of a family's error, for words that nobody has, and for those at the stated share
KNOWN_PARTS = 2  # of the error, of which a known dictionary has one


@dataclass(frozen=True)
class PrefixLevels:
    """Which prefixes are asked about: `lengths` of them, and how many hash functions, each for as many users."""

    symbols: int
    longest: int
    lengths: tuple[int, ...]
    functions: tuple[int, ...]
    space: ProjectiveSpace

    @cached_property
    def seeds(self) -> NDArray[np.uint64]:
        """Of all hash functions, level by level."""
        return public_seeds(sum(self.functions))

    @cached_property
    def length_of(self) -> NDArray[np.int64]:
        """The length of the prefixes that each hash function takes."""
        return np.repeat(self.lengths, self.functions)

    def functions_of(self, level: int) -> slice:
        """The hash functions of a level."""
        first = sum(self.functions[:level])
        return slice(first, first + self.functions[level])

    def first_function(self, level: int) -> int:
        """The first hash function of a level: a word that ends there is whole from it on."""
        return sum(self.functions[:level])

    def buckets(self, words: NDArray, functions: NDArray[np.integer]) -> NDArray[np.uint64]:
        """For each word its bucket under the hash function with that number."""
        states = fingerprints(words, self.length_of[functions])
        return word_buckets(self.seeds[functions], states, self.space.size)

    def level_of(self, lengths: NDArray[np.integer]) -> NDArray[np.intp]:
        """The first level at which words of these lengths are whole."""
        return np.searchsorted(np.array(self.lengths), lengths)


class Support(NamedTuple):
    """How often a report supports a word: its own, with p, and any other, over the choice of functions, with q."""

    p: float
    q: float

    @property
    def gap(self) -> float:
        """What a holder adds."""
        return self.p - self.q

    def variance(self, share: Floats | float) -> Floats:
        """Of what one report tells about the share of a word, of users of whom this share has it."""
        chance = self.q + np.clip(share, 0.0, 1.0) * self.gap
        inside = np.clip(share, 0.0, 1.0) * self.p * (1 - self.p) + (1 - np.clip(share, 0.0, 1.0)) * self.q * (
            1 - self.q
        )
        return np.where(chance > 0, inside / self.gap**2, 0.0)


class WordEvidence:
    """What a tally tells of any word: the counts of its buckets beyond what chance gives, without heavy words."""

    def __init__(self, levels: PrefixLevels, support: Support, counts: NDArray[np.int64]) -> None:
        self.levels, self.support = levels, support
        reports = counts.sum(axis=1)
        supports = np.stack([levels.space.counted(row) for row in counts])
        self.excess = supports - reports[:, None] * support.q
        self.reports = reports
        self.heavy: dict[bytes, float] = {}  # words that were taken off, and by which share
        fewest = min(self.n_at(level) for level in range(len(levels.lengths)))
        self.residual = min(1.0, float(_HEAVY * np.sqrt(support.variance(0.0) / max(fewest, 1))))

    def n_from(self, level: int) -> int:
        """How many reports are about the words that end at this level."""
        return int(self.reports[self.levels.first_function(level) :].sum())

    def n_at(self, level: int) -> int:
        """How many reports are about the prefixes of this level."""
        return int(self.reports[self.levels.functions_of(level)].sum())

    def sums(self, states: States, functions: slice) -> Floats:
        """Of each fingerprint the excess of its buckets, over some functions."""
        return kernels.bucket_sums(states, self.levels.seeds[functions], self.excess[functions])

    def shares(self, states: States, functions: slice) -> Floats:
        """The shares of users behind fingerprints, from some functions."""
        return self.sums(states, functions) / (max(int(self.reports[functions].sum()), 1) * self.support.gap)

    def medians(self, states: States, functions: slice) -> Floats:
        """The medians of what single functions say: a collision with something frequent is one of few of them."""
        found = np.zeros((len(self.levels.seeds[functions]), len(states)))
        for row, number in enumerate(range(*functions.indices(len(self.levels.seeds)))):
            bucket = word_buckets(self.levels.seeds[number], states, self.levels.space.size).astype(np.intp)
            found[row] = self.excess[number][bucket] / (max(int(self.reports[number]), 1) * self.support.gap)
        return np.median(found, axis=0)

    def take_off(self, states: States, shares: Floats, functions: slice) -> None:
        """Take what these shares of users add off the buckets; others had one in so many of it on average."""
        others = self.levels.space.size - 1
        for number in range(*functions.indices(len(self.levels.seeds))):
            bucket = word_buckets(self.levels.seeds[number], states, self.levels.space.size).astype(np.intp)
            added = shares * self.reports[number] * self.support.gap
            self.excess[number] += added.sum() / others
            np.subtract.at(self.excess[number], bucket, added * (1 + 1 / others))

    def collision_variance(self, functions: slice) -> float:
        """Of what words that were not taken off add to another one.

        The sum of their squared shares is at most the largest of them, which would have been seen were it above so
        many standard errors.
        """
        number = len(range(*functions.indices(len(self.levels.seeds))))
        return self.residual / (number * self.levels.space.size)

    def share_of(self, words: NDArray) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """For given words their shares, the variances of these, and how many reports tell about each."""
        lengths = (codes_of(words) != 0).sum(axis=1)
        value, variance, told = np.zeros(len(words)), np.zeros(len(words)), np.zeros(len(words), dtype=np.int64)
        for level in np.unique(self.levels.level_of(lengths)):
            own = self.levels.level_of(lengths) == level
            functions = slice(self.levels.first_function(int(level)), None)
            found = self.shares(fingerprints(words[own], self.levels.longest), functions)
            found += np.array([self.heavy.get(word, 0.0) for word in words[own].tolist()])
            n = max(self.n_from(int(level)), 1)
            value[own], told[own] = found, n
            variance[own] = self.support.variance(found) / n + self.collision_variance(functions)
        return value, variance, told


@dataclass(eq=False)
class _Contenders:
    """Candidates that are worth a second look: words (or prefixes) of one level, read off some functions."""

    level: int
    functions: slice
    n: int
    words: list[bytes]
    states: States
    weights: Floats  # of the prefix that each extends, beside the average

    def __post_init__(self) -> None:
        self.taken, self.shares = np.zeros(len(self.words)), np.zeros(len(self.words))
        self.heavy = np.zeros(len(self.words), dtype=np.bool_)

    def read(self, evidence: WordEvidence) -> None:
        """Work out the shares, without whatever else was taken off."""
        self.shares = self.taken + evidence.shares(self.states, self.functions)

    def stand_out(self, evidence: WordEvidence) -> NDArray[np.bool_]:
        """Which are heavy by most functions and were not taken off: what collides is heavy by few."""
        error = self.error(evidence)
        found = ~self.heavy & (self.shares > _HEAVY * error)
        found[found] = evidence.medians(self.states[found], self.functions) > _HEAVY / 2 * error
        return found

    def error(self, evidence: WordEvidence) -> float:
        """The standard error of a rare one."""
        return float(np.sqrt(evidence.support.variance(0.0) / max(self.n, 1)))


def _settle(evidence: WordEvidence, groups: Sequence[_Contenders]) -> None:
    """Take heavy ones off their buckets, the largest first, until each is what is left without all others."""
    fewest = min(len(range(*each.functions.indices(len(evidence.levels.seeds)))) for each in groups)
    for _ in range(_PASSES):
        for each in groups:
            each.read(evidence)
        fresh = [each.stand_out(evidence) for each in groups]
        largest = max((each.shares[new].max(initial=0.0) for each, new in zip(groups, fresh, strict=True)), default=0.0)
        settled = largest == 0.0
        for each, new in zip(groups, fresh, strict=True):
            each.heavy |= new & (each.shares >= min(1.0, _ABOVE / fewest) * largest)
            off = np.where(each.heavy, each.shares - each.taken, 0.0)
            settled &= bool(np.abs(off).max(initial=0.0) < _SETTLED * each.error(evidence))
            evidence.take_off(each.states[each.heavy], off[each.heavy], each.functions)
            each.taken = each.taken + off
        if settled:
            break
    for each in groups:
        each.read(evidence)


class Listed(NamedTuple):
    """A word that is listed, or was close: its share, the reports that tell it, how many rivals it had."""

    word: bytes
    share: float
    variance: float
    n: int
    floor: float  # its part of the miss, whatever its share is


class _Tested(NamedTuple):
    """A candidate, and how many false ones are expected to look as good, in all families together."""

    false: float
    listed: Listed


class _Family(NamedTuple):
    """Candidates that share a part of the error: so many, of which `own` of the contenders stood out; and weights."""

    words: _Contenders
    own: NDArray[np.intp]
    number: int
    parts: int
    weights: Floats  # of `own`
    every: Floats  # those of all candidates, which are 1 on average, each for equally many of them


class SearchResult(NamedTuple):
    """What a search found, the largest share first; the stated share; how many candidates of each level there were."""

    listed: tuple[Listed, ...]
    stated: float
    candidates: tuple[int, ...]
    kept: tuple[int, ...]


@dataclass(frozen=True)
class PrefixSearch:
    """How frequent words are looked for: how many candidates a level may have, and which words are known."""

    levels: PrefixLevels
    most: int  # candidates of a level
    known: tuple[bytes, ...] = ()

    def run(self, evidence: WordEvidence) -> "SearchedWords":
        """Look for words in the evidence, from which the frequent ones are taken off on the way."""
        levels = self.levels
        parts = parts_of_error(levels.longest, len(self.known))
        ranked = dictionary_weights(len(self.known))
        dictionary, families, alike = self._known(evidence, ranked), [], np.ones(1)
        groups = [_none(evidence), *(each for each, _ in dictionary)]
        for each, weights in dictionary:
            families.append(_Family(each, np.arange(len(each.words)), len(self.known), KNOWN_PARTS, weights, ranked))
            for length in range(1, levels.lengths[0] + 1):  # which are looked at in any case
                own = np.flatnonzero([len(word) == length for word in each.words])
                families.append(_Family(each, own, levels.symbols**length, parts, np.ones(len(own)), alike))
        _settle(evidence, groups)
        starts, weights = np.array([START]), np.ones(1)
        begins: list[bytes] = [b""]
        candidates, kept = [], []
        for level, length in enumerate(levels.lengths):
            before = levels.lengths[level - 1] if level else 0
            if not begins:
                break
            words, prefixes, counted = self._extend(evidence, level, length - before, begins, starts, weights)
            candidates.append(sum(counted.values()))
            for steps, number in counted.items():
                own = np.flatnonzero([len(word) == before + steps for word in words.words])
                families.append(_Family(words, own, number, parts, words.weights[own], weights))
            groups += [words, prefixes]
            _settle(evidence, groups)
            begins, starts, weights = self._chosen(evidence, prefixes, level)
            kept.append(len(begins))
        for each in groups:
            whole = each.functions.stop is None  # and no prefix
            for place in np.flatnonzero(each.heavy).tolist() if whole else ():
                evidence.heavy[each.words[place]] = float(each.taken[place])
        return SearchedWords(evidence, tuple(families), tuple(candidates), tuple(kept))

    def _known(self, evidence: WordEvidence, weights: Floats) -> list[tuple[_Contenders, Floats]]:
        """The words of the dictionary, which nothing has to be found for, by the level at which they end; weights."""
        words = np.array(self.known, dtype=f"S{self.levels.longest}") if self.known else np.zeros(0, dtype="S1")
        level_of = self.levels.level_of((codes_of(words) != 0).sum(axis=1)) if self.known else np.zeros(0)
        found = []
        for level in np.unique(level_of).tolist():
            own = words[level_of == level]
            functions = slice(self.levels.first_function(level), None)
            states = fingerprints(own, self.levels.longest)
            looked_up = _Contenders(level, functions, evidence.n_from(level), own.tolist(), states, np.ones(len(own)))
            found.append((looked_up, weights[level_of == level]))
        return found

    def _extend(
        self, evidence: WordEvidence, level: int, steps: int, begins: list[bytes], starts: States, weights: Floats
    ) -> tuple[_Contenders, _Contenders, dict[int, int]]:
        """All words and prefixes that extend what was kept, those that are worth a look; how many of each length."""
        levels, symbols, known = self.levels, self.levels.symbols, set(self.known)  # which are looked up already
        codes = np.arange(1, symbols + 1, dtype=np.uint64)
        last = levels.lengths[level] == levels.longest
        whole, own = slice(levels.first_function(level), None), levels.functions_of(level)
        n_whole, n_own = evidence.n_from(level), evidence.n_at(level)
        limit = _WORTH_A_LOOK * np.sqrt(evidence.support.variance(0.0) / max(n_whole, 1))
        most = 0 if last else kept_prefixes(levels, self.most, level)
        found: list[tuple[list[bytes], States, Floats]] = []
        going: list[tuple[list[bytes], States, Floats, Floats]] = []
        counted = dict.fromkeys(range(1, steps + 1), 0)
        height = max(1, _AT_ONCE // symbols**steps)
        for at in range(0, len(begins), height):
            part = begins[at : at + height]
            states = starts[at : at + height]
            for step in range(1, steps + 1):
                states = extended(states, codes)
                counted[step] += len(states)
                seen = np.flatnonzero(evidence.shares(states, whole) > limit)
                seen = seen[evidence.medians(states[seen], whole) > limit / _WORTH_A_LOOK]
                words = _spelled(part, seen, symbols, step)
                new = np.flatnonzero([word not in known for word in words])
                seen = seen[new]
                found.append(
                    ([words[place] for place in new.tolist()], states[seen], weights[at + seen // symbols**step])
                )
            if not last:
                on = extended(states, None)
                shares = evidence.shares(on, own)
                seen = np.argpartition(-shares, min(2 * most, len(shares) - 1))[: 2 * most]
                seen = seen[shares[seen] > 0]
                going.append(
                    (_spelled(part, seen, symbols, steps), on[seen], weights[at + seen // symbols**steps], shares[seen])
                )
        contenders = _Contenders(level, whole, n_whole, *_joined(found))
        going_on = _joined([each[:3] for each in going])
        shares = np.concatenate([np.zeros(0), *(each[3] for each in going)])
        best = np.argsort(-shares, kind="stable")[: 2 * most]
        names = [going_on[0][place] for place in best.tolist()]
        return contenders, _Contenders(level, own, n_own, names, going_on[1][best], going_on[2][best]), counted

    def _chosen(self, evidence: WordEvidence, prefixes: _Contenders, level: int) -> tuple[list[bytes], States, Floats]:
        """The prefixes that are extended, and their shares beside the average of them."""
        if not prefixes.words:
            return [], np.zeros(0, dtype=np.uint64), np.zeros(0)
        error = float(np.sqrt(evidence.support.variance(0.0) / max(prefixes.n, 1)))
        z = np.maximum(prefixes.shares / error, 0.0)
        order = np.argsort(-(z**2 / 2 + np.log(prefixes.weights)), kind="stable")[
            : kept_prefixes(self.levels, self.most, level)
        ]
        names = [prefixes.words[place] for place in order.tolist()]
        width = self.levels.lengths[level]
        states = np.full(len(names), START)
        if names:
            shown = codes_of(np.array(names, dtype=f"S{width}"))
            for column in shown.T:
                states = (states ^ column) * PRIME
        weights = np.maximum(prefixes.shares[order], error)
        return names, states, weights / weights.mean()


def _none(evidence: WordEvidence) -> _Contenders:
    """Whoever has no word: they are never listed, and may be many."""
    return _Contenders(0, slice(0, None), evidence.n_from(0), [b""], np.array([START]), np.ones(1))


@dataclass(frozen=True, eq=False)
class SearchedWords:
    """What a search came to: the evidence without frequent words, and all candidates, from which lists are made."""

    evidence: WordEvidence
    families: tuple[_Family, ...]
    candidates: tuple[int, ...]
    kept: tuple[int, ...]

    def listed(self, count: int, above: float | None, fits: Callable[[bytes], bool]) -> SearchResult:
        """The words that are significantly above a share, at most `count` of those that `fits` allows."""
        support, everything = self.evidence.support, int(self.evidence.reports.sum())
        stated = float(STATED * np.sqrt(support.variance(0.0) / max(everything, 1))) if above is None else above
        tested = [each for family in self.families for each in _tests(self.evidence, family, stated)]
        return SearchResult(tuple(_discoveries(tested, count, fits)), stated, self.candidates, self.kept)


def _tests(evidence: WordEvidence, family: _Family, stated: float) -> list[_Tested]:
    """The contenders of one family, each with what it would have to be listed with."""
    words, own, number, parts, weights, every = family
    if not own.size:
        return []
    special: Any = require("scipy.special", "fast")
    support, shares, n = evidence.support, words.shares[own], max(words.n, 1)
    noise, collisions = support.variance(0.0) / n, evidence.collision_variance(words.functions)
    wider = float(np.sqrt(noise / (noise + collisions)))  # chance is larger by what collisions add to it

    def chance(truth: float) -> Floats:
        hits = np.clip(n * (support.q + (truth + (shares - truth) * wider) * support.gap), 0.5, n)
        return special.betainc(hits, n - hits + 1, support.q + truth * support.gap)

    near, shift = largest_weights(every, number, stated), stated / float(np.sqrt(noise))
    false = parts / weights * false_candidates(chance(0.0), chance(stated), number, near, shift, FALSE / parts)
    variances = support.variance(shares) / n + collisions
    floor = 1 / (2 * parts * number)
    return [
        _Tested(each, Listed(words.words[place], float(share), float(variance), words.n, floor))
        for place, share, variance, each in zip(own.tolist(), shares, variances, false.tolist(), strict=True)
    ]


def false_candidates(
    nobody: Floats, stated: Floats, number: float, near: float, shift: float, allowed: float
) -> Floats:
    """How many false ones may look as good, given the chances of a word that nobody has and of one at the stated share.

    There are so many candidates, of which `near` may be at the stated share, `shift` standard errors above nothing.
    """
    if not near:
        return number * nobody
    limit = threshold(number, near, shift, allowed)
    expected = number * _upper(limit), near * _upper(limit - shift)
    part = min(max(expected[1] / sum(expected), _LEAST_PART), 1 - _LEAST_PART)
    return np.maximum(number * nobody / (1 - part), near * stated / part)


@lru_cache(1 << 12)
def threshold(number: float, near: float, shift: float, allowed: float) -> float:
    """How many standard errors a word needs for so many candidates to have no more false ones than are allowed.

    >>> round(threshold(475_254, 0, 0.0, 0.05), 2)
    5.19
    """
    low, high = 0.0, 60.0 + shift
    for _ in range(60):
        middle = (low + high) / 2
        false = number * _upper(middle) + near * _upper(middle - shift)
        low, high = (low, middle) if false < allowed else (middle, high)
    return high


def largest_weights(every: Floats, number: int, stated: float) -> float:
    """The sum of as many of the largest weights as words may have the stated share, of so many candidates.

    >>> largest_weights(np.array([3.0, 0.5, 0.5, 0.0]), 8, 1 / 3), largest_weights(np.ones(1), 8, 0.0)
    (6.5, 0.0)
    """
    if not stated or not len(every):
        return 0.0
    of_each, most = number / len(every), min(number, 1 / stated)
    taken = np.clip(most - of_each * np.arange(len(every)), 0.0, of_each)
    return float(taken @ -np.sort(-every))


def _upper(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2


def _discoveries(tested: Sequence[_Tested], count: int, fits: Callable[[bytes], bool]) -> list[Listed]:
    """The longest list, up to `count`, of which at most the stated part is expected to be false; each word once.

    Of more that need no more evidence than its words, those with the largest shares are handed out.
    """
    best: dict[bytes, _Tested] = {}
    for each in tested:
        if each.false <= FALSE * count and each.false < best.get(each.listed.word, _Tested(np.inf, each.listed)).false:
            best[each.listed.word] = each
    ranked = sorted((each for each in best.values() if fits(each.listed.word)), key=lambda each: each.false)
    length = max((rank for rank, each in enumerate(ranked[:count], 1) if each.false <= FALSE * rank), default=0)
    enough = [each.listed for each in ranked if each.false <= FALSE * length]
    return sorted(enough, key=lambda each: (-each.share, each.word))[:length]


def dictionary_weights(number: int) -> Floats:
    """Of the words of a known dictionary, by their places: half of all is shared alike, half as 1 / place.

    Lists of words are mostly in the order of how frequent these are, elsewhere; and shares fall about as 1 / place
    (Zipf's law). A list in any other order loses a factor of two at most, which is .16 standard errors.

    >>> dictionary_weights(4).round(2)
    array([1.46, 0.98, 0.82, 0.74])
    """
    places = 1 / np.arange(1, number + 1)
    return (1 + places / max(places.mean(), 1e-300)) / 2 if number else np.zeros(0)


def parts_of_error(longest: int, known: int) -> int:
    """Of how many equal parts of the error the words of one length have one: known words have half of it."""
    return longest * (KNOWN_PARTS if known else 1)


def kept_prefixes(levels: PrefixLevels, most: int, level: int) -> int:
    """How many prefixes of a level can be extended, if so many candidates can be looked at under `_FUNCTIONS`."""
    before, after = levels.lengths[level : level + 2]
    work = max(sum(levels.functions[level + 1 :]), _FUNCTIONS)
    return max(1, most * _FUNCTIONS // work // number_of_endings(levels.symbols, after - before))


def number_of_endings(symbols: int, steps: int) -> int:
    """How many ways there are to go on by up to so many codes."""
    return sum(symbols**step for step in range(1, steps + 1))


def _spelled(begins: Sequence[bytes], places: NDArray[np.intp], symbols: int, steps: int) -> list[bytes]:
    """What stands at places of all extensions by so many codes, in the order of `extended`."""
    endings = symbols**steps
    digits = [(places // symbols**step % symbols + 1).tolist() for step in reversed(range(steps))]
    return [begins[place // endings] + bytes(code) for place, *code in zip(places.tolist(), *digits, strict=True)]


def _joined(parts: Sequence[tuple[list[bytes], States, Floats]]) -> tuple[list[bytes], States, Floats]:
    words = [word for own, _, _ in parts for word in own]
    states = np.concatenate([np.zeros(0, dtype=np.uint64), *(states for _, states, _ in parts)])
    return words, states, np.concatenate([np.zeros(0), *(weights for _, _, weights in parts)])


@dataclass(frozen=True, eq=False)
class WordIntervals(IntervalRule):
    """Of listed words: intervals that hold for all candidates of a search at once."""

    value: Floats
    n: Floats  # reports
    extra: Floats  # variance, beside that of the reports: collisions, and who was not asked
    floors: Floats
    support: Support

    def ends(self, miss: float) -> Ends:
        special: Any = require("scipy.special", "fast")

        def reach(truth: Floats) -> Floats:
            part = miss * (truth / 2 + self.floors[:, None]) / 2
            error = np.sqrt(self.support.variance(truth) / self.n[:, None] + self.extra[:, None])
            return -special.ndtri(part) * error

        y = self.value[:, None]
        steps = np.linspace(0.0, 1.0, _GRID)
        below = np.maximum(y, 0.0) * steps**2  # fine where shares are small
        believed = y <= below + reach(below)
        first = np.where(believed.any(axis=1), believed.argmax(axis=1), _GRID)
        low = below[np.arange(len(y)), np.maximum(first - 1, 0)]  # between two truths, the one that is not believed
        bottom, top = np.maximum(self.value, 0.0), np.ones(len(y))
        for _ in range(60):
            middle = (bottom + top) / 2
            inside = (middle[:, None] - reach(middle[:, None]) <= y)[:, 0]
            bottom, top = np.where(inside, middle, bottom), np.where(inside, top, middle)
        return low, top

    def of(self, places: NDArray[np.intp]) -> "WordIntervals":
        return WordIntervals(self.value[places], self.n[places], self.extra[places], self.floors[places], self.support)
