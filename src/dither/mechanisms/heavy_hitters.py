"""Words that nobody listed: heavy hitters by prefixes of growing length, each asked by a sketch (after PEM, TreeHist).

A report names one of some numbered hash functions, drawn without looking at the word. It belongs to a *level*: it takes
the first so many letters of the word, or all of it if it is shorter, and sends them to one of M buckets. The bucket is
reported as `ProjectiveGeometry` reports one of M categories: a point of a projective space, of which those on
the bucket's hyperplane are favoured.

    P(point | word, function) = A / W if the point is on hyperplane h(prefix), B / W if not.

Guarantee: the law of `ProjectiveGeometry`, ln(A/B), for every function, and the function is public and independent of
the word: exact, and no larger for long words than for short ones. The tally counts (function, point).

**Why one law for all levels.** What differs between levels is only which words are sent to one bucket. So each report
about a word that ends within the length of its level supports it with the same p, and any other with the same q, at
whichever level. Counts of a word add up over levels, and short words, of which the frequent ones mostly are, have the
reports of all users.

**How many buckets.** A bucket is no word; two words share one in M. With F functions a word that holds the share f
moves another by f / F where they collide, which happens to F in M of all. `prefix_search` takes frequent words off, and
the rest is noise with at most the variance f_max / (F M): M is chosen for it to be small beside that of the reports.

**Which levels.** The first has as many letters as can all be looked at; each further one as many more as can be looked
at behind some hundred prefixes. Words of the last level are whole there, and so are the words of a known dictionary at
the latest: they are looked up, and nothing has to be found for them. `planned_levels` takes the levels that will find
the rarest words, as `search_forecast` foresees.

What goes wrong: an alphabet in the order of a keyboard tells nothing, but one with many unused letters costs candidates
(bytes of UTF-8 have 255). And no list is longer than the evidence: of n users at epsilon, no word that is held by fewer
than about 5 e^(epsilon/2) / (e^epsilon - 1) * 2 sqrt(n) of them is found by anybody.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import TwoLevel
from dither.core.checks import checked_count, is_list
from dither.core.composite_channels import PublicMixture
from dither.core.domains import WORDS
from dither.core.draw import TAG, Rows, Tape, below, positions
from dither.core.estimate import Bounds, Estimate
from dither.core.guarantee import Guarantee
from dither.core.honest_sums import Sums
from dither.core.mechanism import Mechanism, Moments
from dither.core.results import Interval
from dither.core.structure import PREFIXES
from dither.core.tally import Tally
from dither.core.texts import TextCodes
from dither.core.words import LONGEST, MOST_SYMBOLS, Words
from dither.core.workload import Workload
from dither.core.worth import Worth, Worths
from dither.errors import ParameterError
from dither.kernels.finite_field import MOST_ELEMENTS, checked_size
from dither.kernels.projective_space import ProjectiveSpace
from dither.mechanisms.hash_seeds import HashedReports, HashSeeds
from dither.mechanisms.prefix_search import (
    FALSE,
    PrefixLevels,
    PrefixSearch,
    SearchedWords,
    SearchResult,
    Support,
    WordEvidence,
    WordIntervals,
    number_of_endings,
)
from dither.mechanisms.projective_geometry import best_space, projective_law, support_of_others
from dither.mechanisms.search_forecast import SearchForecast

Floats = NDArray[np.float64]

USUAL = 20  # words
MOST_FUNCTIONS = 1 << 10
MOST_BUCKETS = 1 << 22
MOST_CANDIDATES = 1 << 23  # that a level may have: some seconds
_FIRST = 1 << 19  # prefixes of the first level, at most
_KEPT = 32  # prefixes of which all endings can be looked at, at least
_FUNCTIONS = 6  # of a level
_LAST = (1, 2, 3, 4)  # times as many of the last one, that are tried
_LENGTHS = 10  # of words, at most, that the levels are judged by
_AS_GOOD = 1e-3  # of the smallest share: fewer levels and functions are taken where others are no better
_DICTIONARY = 50_000  # known words, in designing levels
_USERS = 1e6
# The buckets of all functions together for every user, times the variance of a report: then what words add that are
# not taken off, with squared shares of .002 together, is a twentieth of the noise.
_BUCKETS = 0.04
_FEWEST, _MOST = 1 << 14, 1 << 18  # buckets of a function that is chosen
_SHARES_OF = "A word is counted at every level at which it is whole; frequent ones that collide with it are taken off."
_NO_AVERAGE = (
    "a list of words is no average of reports; the buckets of each hash function have moments of their own: "
    "ProjectiveGeometry(buckets, epsilon).moments(bucket)"
)


@dataclass(frozen=True)
class HeavyHitters(Mechanism["TopWords"]):
    """The most frequent words of a domain that nobody has listed: prefixes by hashed projective geometry.

    Words have up to `longest` codes from 1 to `symbols` (`dither.Text` makes them). `lengths` are those of the prefixes
    that are asked about, and `functions` how many hash functions there are for each: reports are split in proportion.

    >>> mechanism = HeavyHitters(symbols=26, longest=10, epsilon=4.0)
    >>> mechanism.lengths, mechanism.functions, mechanism.buckets
    ((4, 7, 10), (6, 6, 12), 151740)
    """

    symbols: int
    longest: int
    epsilon: float
    lengths: tuple[int, ...] | None = None
    functions: tuple[int, ...] | None = None
    buckets: int | None = None
    q: int | None = None
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "words"
    takes = WORDS
    statistics = ("words",)
    structure = PREFIXES
    examples = (
        {"symbols": 2, "longest": 2, "epsilon": 1.0, "lengths": (1, 2), "functions": (1, 2), "buckets": 7, "q": 2},
        {"symbols": 3, "longest": 1, "epsilon": 2.0, "lengths": (1,), "functions": (2,), "buckets": 13, "q": 3},
    )

    def _validate(self) -> None:
        self._freeze(symbols=checked_count("symbols", self.symbols, 2, MOST_SYMBOLS))
        self._freeze(longest=checked_count("longest", self.longest, 1, LONGEST))
        planned = planned_levels(self.symbols, self.longest) if self.lengths is None else LevelPlan((), ())
        lengths = planned.lengths if self.lengths is None else self.lengths
        if not is_list(lengths) or not lengths:
            raise ParameterError(f"lengths are those of the prefixes, as in (4, 7, {self.longest})")
        lengths = tuple(checked_count("a length", length, 1, self.longest) for length in lengths)
        if list(lengths) != sorted(set(lengths)) or lengths[-1] != self.longest:
            raise ParameterError(f"lengths of prefixes rise, and the last is that of the longest word, {self.longest}")
        functions = planned.functions or (_FUNCTIONS,) * len(lengths) if self.functions is None else self.functions
        if not is_list(functions) or len(functions) != len(lengths):
            raise ParameterError("functions has a number of hash functions for each length")
        functions = tuple(checked_count("a number of functions", number, 1, MOST_FUNCTIONS) for number in functions)
        self._freeze(lengths=lengths, functions=functions)
        buckets = checked_count("buckets", _FEWEST if self.buckets is None else self.buckets, 2, MOST_BUCKETS)
        q = best_space(buckets, self.epsilon).q if self.q is None else self.q
        q = checked_size(checked_count("q", q, 2, MOST_ELEMENTS))
        self._freeze(q=q, buckets=ProjectiveSpace.holding(buckets, q).size)

    @classmethod
    def candidates(cls, workload: Workload) -> Iterator[Mapping[str, Any]]:
        """One: with levels for the domain, and buckets for so many users."""
        if workload.domain.kind != WORDS or not set(workload.statistics) <= set(cls.statistics):
            return
        domain: Any = workload.domain
        lengths, functions = planned_levels(domain.symbols, domain.longest, domain.listed)
        buckets = planned_buckets(workload.users, workload.epsilon, sum(functions))
        yield {**domain.parameters, "lengths": lengths, "functions": functions, "buckets": buckets}

    @cached_property
    def levels(self) -> PrefixLevels:
        """Which prefixes are asked about, by which hash functions."""
        space = ProjectiveSpace.holding(self.buckets or 2, self.q or 2)
        return PrefixLevels(self.symbols, self.longest, self.lengths or (), self.functions or (), space)

    @cached_property
    def law(self) -> TwoLevel:
        """The integers and their meaning, as the sampler and the certificate read them."""
        space = self.levels.space
        return projective_law(space, space.size, self.epsilon, self.weights)

    @cached_property
    def support(self) -> tuple[Fraction, Fraction]:
        """How likely a report supports its own word, and another one: the latter over the choice of functions."""
        apart = support_of_others(self.levels.space, self.law)
        return self.law.inside, apart + (self.law.inside - apart) / self.levels.space.size

    @cached_property
    def layout(self) -> HashedReports:
        return HashedReports(HashSeeds(sum(self.functions or ()), "function"), self.levels.space.size)

    @cached_property
    def reading(self) -> "WordSearch":
        return WordSearch(self)

    def search(
        self,
        count: int = USUAL,
        known: Sequence[bytes] = (),
        above: float | None = None,
        codes: TextCodes | None = None,
    ) -> "WordSearch":
        """The reading of so many words, at most: those significantly above a share, of which some are `known`."""
        return WordSearch(self, count, tuple(known), above, codes)

    def channel(self) -> PublicMixture:
        domain = Words(self.symbols, self.longest)

        def given(x: int, tag: int) -> list[Fraction]:
            word = np.array([domain.word(x)], dtype=domain.dtype)
            return self.law.row(int(self.levels.buckets(word, np.array([tag]))[0]))

        return PublicMixture(self.law, sum(self.functions or ()), domain.size, given)

    def report_worth(self) -> Worths:
        return self.reading.worths()

    def honest_sums(self, tally: Tally) -> Sums:
        high, low = (float(each) for each in self.law.probabilities)
        return self.layout.honest_sums(tally, low, high)

    @property
    def row_words(self) -> int:
        return 2 + self.longest // 4

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        functions = below(sum(self.functions or ()), tape, rows, lane=TAG).astype(np.intp)
        reports["function"] = functions
        buckets = self.levels.buckets(values, functions)
        reports["value"] = self.levels.space.places(buckets, positions(self.law, tape, rows))


@dataclass(frozen=True, eq=False, repr=False)
class TopWords(Estimate):
    """The words that are listed, with their shares, the largest first; any other word can be asked for.

    Intervals hold for all words that the search looked at, at once: they hold for the ones that came out on top.
    """

    words: tuple[bytes, ...] = field(default=(), kw_only=True)
    search: SearchResult | None = field(default=None, kw_only=True, repr=False)
    searched: SearchedWords | None = field(default=None, kw_only=True, repr=False)
    reading: "WordSearch | None" = field(default=None, kw_only=True, repr=False)
    among: int | None = field(default=None, kw_only=True, repr=False)

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Where the shares are: all of them with probability `level`, whether or not that is asked for."""
        return super().interval(level)

    @property
    def stated_share(self) -> float:
        """The share above which a word is listed: at most 5% of the listed ones are not above it, on average."""
        return np.nan if self.search is None else self.search.stated

    def as_many(self, count: int, above: float | None = None) -> "TopWords":
        """Another list from the same search: so many words at most, that are significantly above a share."""
        if self.searched is None or self.reading is None:
            return self
        reading = replace(self.reading, count=count, above=above)
        return reading.listed(self.searched, self.n, self.guarantee, self.source, self.among)

    def share_of(self, words: Sequence[Any]) -> Estimate:
        """The shares of given words, listed or not, from the same reports; each interval holds for its own word."""
        if self.searched is None or self.reading is None:
            raise ParameterError("there are no reports to read the shares of words from")
        evidence, codes = self.searched.evidence, self.reading.codes
        texts = list(words)
        encoded = [codes.word(text) if codes is not None else text for text in texts]
        wrong = [place for place, word in enumerate(encoded) if not isinstance(word, bytes)]
        if wrong or not encoded:
            raise ParameterError(
                f"word {wrong[0]} of these, from 0, is not one that a user can have: it is no text, too long, or not "
                "of the alphabet"
                if wrong
                else "name at least one word"
            )
        domain = Words(evidence.levels.symbols, evidence.levels.longest)
        value, variance, told = evidence.share_of(domain.check(encoded))
        return Estimate(
            value,
            np.sqrt(variance + _unasked(value, told, self.among or self.n)),
            self.n,
            self.guarantee,
            "share of words",
            None if codes is None else tuple(str(codes.text(bytes(word))) for word in encoded),
            self.source,
            (_SHARES_OF,),
            Bounds(0.0, 1.0),
            ordered=True,
        )


@dataclass(frozen=True)
class WordSearch:
    """The reading of a list: the words that are significantly above a stated share, at most `count`."""

    mechanism: HeavyHitters
    count: int = USUAL
    known: tuple[bytes, ...] = field(default=(), repr=False)
    above: float | None = None
    codes: TextCodes | None = None

    @property
    def domain(self) -> Words:
        """What a word may be."""
        return Words(self.mechanism.symbols, self.mechanism.longest)

    @cached_property
    def support(self) -> Support:
        """The probabilities of the mechanism, as the search takes them."""
        p, q = self.mechanism.support
        return Support(float(p), float(q))

    def estimate(self, tally: Tally, guarantee: Guarantee, source: str, among: int | None = None) -> TopWords:
        """The list; of the `among` users who might have been asked."""
        evidence = WordEvidence(self.mechanism.levels, self.support, tally.counts)
        searched = PrefixSearch(self.mechanism.levels, MOST_CANDIDATES, self.known).run(evidence)
        return self.listed(searched, tally.n, guarantee, source, among)

    def listed(
        self, searched: SearchedWords, n: int, guarantee: Guarantee, source: str, among: int | None = None
    ) -> TopWords:
        """The list that is made of what a search came to."""
        result = searched.listed(self.count, self.above, self._fits)
        listed = result.listed
        value = np.array([each.share for each in listed])
        told = np.array([each.n for each in listed], dtype=np.float64)
        noise = np.array([each.variance for each in listed])
        unasked = _unasked(value, told, among or n)
        extra = noise - self.support.variance(value) / np.maximum(told, 1) + unasked
        floors = np.array([each.floor for each in listed])
        return TopWords(
            value,
            np.sqrt(noise + unasked),
            n,
            guarantee,
            "share of the most frequent words",
            source=source,
            notes=self._notes(result),
            bounds=Bounds(0.0, 1.0, most=1.0),
            ordered=True,
            rule=WordIntervals(value, told, np.maximum(extra, 0.0), floors, self.support) if listed else None,
            words=tuple(each.word for each in listed),
            search=result,
            searched=searched,
            reading=self,
            among=among,
        )

    def _fits(self, word: bytes) -> bool:
        """Whether a text has these codes, in the form that texts are brought to."""
        if self.codes is None:
            return True
        text = self.codes.text(word)
        return text is not None and self.codes.word(text) == word

    def _notes(self, result: SearchResult) -> tuple[str, ...]:
        looked, lengths = sum(result.candidates), self.mechanism.lengths or ()
        deep = lengths[min(len(result.candidates), len(lengths)) - 1]
        return (
            f"Listed are words that are significantly above {100 * result.stated:.2g}%: on average at most "
            f"{100 * FALSE:g}% of a list are not.",
            f"Looked at: {looked:,} words of up to {deep} letters"
            + (f", and {len(self.known):,} known ones." if self.known else "."),
            "The largest of many are in part the luckiest: intervals hold for all words that were looked at, at once.",
        )

    def forecast(self, reports: float) -> SearchForecast:
        """What so many reports will find."""
        levels = self.mechanism.levels
        return SearchForecast(levels, self.support, reports, MOST_CANDIDATES, len(self.known), self.above)

    def worst_variance(self, share: float = 1.0) -> float:
        """Of one report about the shares of `count` words that all users hold between them."""
        each = 1 / max(self.count, 1)
        return float(self.support.variance(each)) + (1 - share) * each * (1 - each)

    def worths(self) -> Worths:
        """What a report is worth to the share of a word, if it is of a level where the word is whole."""
        p, q = self.mechanism.support
        return (Worth("frequency", -q / (p - q), (1 - q) / (p - q), items=self.count, at_once=None, exact=False),)

    def moments(self, x: Any) -> Moments:
        """There are none: which words are listed depends on all reports."""
        raise ParameterError(_NO_AVERAGE)


def _unasked(value: Floats, told: NDArray[Any], among: int) -> Floats:
    """The variance of who was asked about a word: so many of all users."""
    share = np.clip(value, 0.0, 1.0)
    return share * (1 - share) * np.maximum(1 / np.maximum(told, 1) - 1 / among, 0.0)


def first_length(symbols: int, longest: int) -> int:
    """The length of the prefixes of the first level: as many letters as can all be looked at.

    >>> first_length(26, 10), first_length(255, 8), first_length(26, 3)
    (4, 2, 3)
    """
    return next(length for length in range(1, longest + 1) if length == longest or symbols ** (length + 1) > _FIRST)


class LevelPlan(NamedTuple):
    """The lengths of the prefixes of all levels, and how many hash functions each has."""

    lengths: tuple[int, ...]
    functions: tuple[int, ...]


@lru_cache(256)
def planned_levels(symbols: int, longest: int, listed: bool = False) -> LevelPlan:
    """The levels that find the rarest words: by the smallest share that is found, on average over lengths of words.

    Tried are all steps for which the endings of some prefixes can be looked at, and larger shares of the users for the
    last level, at which all words are whole; with a known dictionary (`listed`) the words in it count as much as all
    others. Shares of users and epsilon make all figures smaller or larger, and hardly move their order: it is that of
    10^6 users at epsilon 1.

    >>> planned_levels(26, 10)
    LevelPlan(lengths=(4, 7, 10), functions=(6, 6, 12))
    >>> planned_levels(26, 3)
    LevelPlan(lengths=(3,), functions=(6,))
    """
    first = first_length(symbols, longest)
    support = Support(0.5, 1 / (1 + float(np.e)))  # of the best oracle at epsilon 1
    best, least = LevelPlan((longest,), (_FUNCTIONS,)), np.inf
    step = 1
    while first < longest and (step == 1 or MOST_CANDIDATES // number_of_endings(symbols, step) >= _KEPT):
        steps = -(-(longest - first) // step)  # as even as can be
        lengths = (first, *(first + -(-(longest - first) * number // steps) for number in range(1, steps + 1)))
        for last in _LAST:
            functions = (_FUNCTIONS,) * steps + (_FUNCTIONS * last,)
            levels = PrefixLevels(symbols, longest, lengths, functions, ProjectiveSpace(4, 8))
            found = _smallest_shares(SearchForecast(levels, support, _USERS, MOST_CANDIDATES), listed)
            if found < least * (1 - _AS_GOOD):
                best, least = LevelPlan(lengths, functions), found
        step += 1
    return best


def _smallest_shares(search: SearchForecast, listed: bool) -> float:
    """The smallest share that is found, on average over lengths; of known words, over the ends of levels."""
    levels = search.levels
    lengths = np.unique(np.linspace(1, levels.longest, _LENGTHS).round().astype(int)).tolist()
    unlisted = float(np.mean([search.smallest_of(length) for length in lengths]))
    if not listed:
        return unlisted
    looked_up = float(np.mean([search.smallest_known(level, _DICTIONARY) for level in range(len(levels.lengths))]))
    return (unlisted + looked_up) / 2


def planned_buckets(users: float, epsilon: float, functions: int) -> int:
    """How many buckets a function has: enough for collisions of rarer words to be small beside the noise."""
    ratio = float(np.exp(min(epsilon, 50.0)))
    variance = 4 * ratio / (ratio - 1) ** 2
    wanted = _BUCKETS * users / max(variance, 1e-12) / functions
    return int(min(max(wanted, _FEWEST), _MOST))
