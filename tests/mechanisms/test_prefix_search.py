"""The list of a search: false discoveries and intervals over repeated collections, and what breaks them."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom, norm

from dither.core.tally import Tally
from dither.mechanisms import prefix_search
from dither.mechanisms.heavy_hitters import HeavyHitters
from dither.mechanisms.prefix_search import Support, WordIntervals, number_of_endings, parts_of_error

ALARM = 1e-6
MECHANISM = HeavyHitters(4, 6, 2.0, lengths=(3, 6), functions=(4, 4), buckets=300)
LAW = {b"\1": 0.1, b"\2\3": 0.06, b"\4\1\4": 0.04, b"\1\2\3\4": 0.05, b"\2\1\2\1\2\1": 0.06, b"": 0.69}
COLLECTIONS = 300


def collections(law: dict[bytes, float], n: int, seed: int):
    """Tallies of users with these shares, whose reports are drawn function by function."""
    levels, space = MECHANISM.levels, MECHANISM.levels.space
    high, low = (float(each) for each in MECHANISM.law.probabilities)
    words = np.array(list(law), dtype="S6")
    rng, functions = np.random.default_rng(seed), len(levels.seeds)
    counts = np.array([round(share * n) for share in law.values()])
    buckets = [levels.buckets(words, np.full(len(words), f)).astype(np.intp) for f in range(functions)]
    for _ in range(COLLECTIONS):
        split = np.stack([rng.multinomial(count, np.full(functions, 1 / functions)) for count in counts], axis=1)
        table = np.zeros((functions, space.size), dtype=np.int64)
        for f in range(functions):
            for held, bucket in zip(split[f], buckets[f], strict=True):
                row = np.full(space.size, low)
                row[space.places(np.full(space.on_hyperplane, bucket), np.arange(space.on_hyperplane))] = high
                table[f] += rng.multinomial(held, row / row.sum())
        yield Tally(MECHANISM.fingerprint, int(counts.sum()), table)


def errors(law: dict[bytes, float], seed: int, known: tuple[bytes, ...] = ()) -> tuple[float, int, int]:
    """Over collections: the mean part of a list that is false, how many have an interval that misses, all listed."""
    false, missed, listed = [], 0, 0
    for tally in collections(law, 20_000, seed):
        found = MECHANISM.estimate(tally, MECHANISM.search(known=known))
        wrong = [word for word in found.words if law.get(word, 0.0) <= found.stated_share]
        false.append(len(wrong) / max(len(found.words), 1))
        low, high = found.interval(0.95) if found.words else ((), ())
        truth = [law.get(word, 0.0) for word in found.words]
        missed += any(not (a <= f <= b) for a, f, b in zip(low, truth, high, strict=True))
        listed += len(found.words)
    return float(np.mean(false)), missed, listed


@pytest.mark.wide
def test_false_discoveries_and_intervals_over_collections():
    """At most 5% of a list are false; intervals hold for all words at once. Each with a false alarm of 1e-6."""
    false, missed, listed = errors(LAW, seed=1)
    assert false < binom.isf(ALARM, COLLECTIONS, prefix_search.FALSE) / COLLECTIONS  # parts are from 0 to 1
    assert missed <= binom.isf(ALARM, COLLECTIONS, 0.05)
    assert listed > 3 * COLLECTIONS


NOBODY_HAS = tuple(bytes(word) for word in itertools.product((3, 4), repeat=6))


@pytest.mark.wide
def test_a_dictionary_in_a_useless_order_makes_no_false_discoveries():
    """First the words that nobody has: false discoveries and intervals are as without, with a false alarm of 1e-6."""
    known = (*NOBODY_HAS, *(word for word in LAW if word))
    false, missed, listed = errors(LAW, 4, known)
    assert false < binom.isf(ALARM, COLLECTIONS, prefix_search.FALSE) / COLLECTIONS
    assert missed <= binom.isf(ALARM, COLLECTIONS, 0.05)
    assert listed > 3 * COLLECTIONS


@pytest.mark.wide
def test_a_dictionary_with_more_than_its_part_is_seen(monkeypatch):
    """The mutant: known words have fifty times the error that is theirs."""
    monkeypatch.setattr(prefix_search, "KNOWN_PARTS", 0.02)
    false, _, _ = errors({b"": 1.0}, 2, NOBODY_HAS)
    assert false > binom.isf(ALARM, COLLECTIONS, 0.05) / COLLECTIONS


@pytest.mark.wide
def test_nothing_is_found_where_there_is_nothing():
    false, missed, listed = errors({b"": 1.0}, seed=2)
    assert false < binom.isf(ALARM, COLLECTIONS, prefix_search.FALSE) / COLLECTIONS
    assert missed <= binom.isf(ALARM, COLLECTIONS, 0.05)
    assert listed <= binom.isf(ALARM, COLLECTIONS, 0.06)


@pytest.mark.wide
def test_a_rule_that_is_too_kind_is_seen(monkeypatch):
    """The mutant: a list may hold many that nobody has."""
    monkeypatch.setattr(prefix_search, "FALSE", 20.0)
    false, _, _ = errors({b"": 1.0}, seed=2)
    assert false > binom.isf(ALARM, COLLECTIONS, 0.05) / COLLECTIONS


def test_the_error_is_shared_out():
    assert parts_of_error(10, 0) == 10
    assert parts_of_error(10, 500) == 20
    assert number_of_endings(3, 2) == 3 + 9


SUPPORT = Support(0.5, 0.27)


def intervals(value: float, n: float, candidates: int) -> WordIntervals:
    return WordIntervals(np.array([value]), np.array([n]), np.zeros(1), np.array([1 / (2 * candidates)]), SUPPORT)


def test_intervals_are_wide_for_one_of_many_and_shorter_for_frequent_words():
    (rare_low, rare_high), (few_low, _) = intervals(0.02, 1e5, 10**6).ends(0.05), intervals(0.02, 1e5, 10).ends(0.05)
    assert rare_low[0] == 0.0 < few_low[0] < 0.02 < rare_high[0]
    low, high = intervals(0.3, 1e5, 10**6).ends(0.05)
    error = float(np.sqrt(SUPPORT.variance(0.3) / 1e5))
    assert 2.4 < (0.3 - low[0]) / error < 2.9  # a part .15 of the miss, in each tail
    assert 2.4 < (high[0] - 0.3) / error < 2.9


def test_the_ends_of_an_interval_are_the_truths_that_are_believed():
    """Over a fine grid of truths: inside if and only if the value is within reach of the truth (the hull of these)."""
    from scipy.special import ndtri

    for value, candidates in ((0.02, 1000), (0.05, 10**6), (0.2, 5)):
        truth = np.linspace(0.0, 1.0, 200_001)
        part = 0.05 * (truth / 2 + 1 / (2 * candidates)) / 2
        reach = -ndtri(part) * np.sqrt(SUPPORT.variance(truth) / 1e5)
        believed = truth[np.abs(value - truth) <= reach]
        low, high = intervals(value, 1e5, candidates).ends(0.05)
        assert low[0] <= believed.min() + 1e-5
        assert low[0] >= believed.min() - 0.02 * value
        assert high[0] == pytest.approx(believed.max(), abs=1e-5)
    some = intervals(0.02, 1e5, 10).of(np.array([0]))
    assert some.ends(0.05)[0].shape == (1,)


# What keeps false discoveries few --------------------------------------------------------------------------------

WORDS, TRUE, HANDED_OUT, LISTS = 400, 12, 5, 2_000


def drawn_candidates(rng: np.random.Generator) -> list[prefix_search._Tested]:
    """Some words that stand out with small shares, and many that nobody has, each with a share that is large."""
    false = WORDS * rng.random(WORDS)  # as many others look as good: uniform, if nobody has them
    numbers = np.concatenate([np.full(TRUE, 1e-9), false])
    shares = np.concatenate([rng.uniform(0.01, 0.02, TRUE), rng.uniform(0.1, 0.2, WORDS)])
    near = np.flatnonzero(numbers < 0.1 * WORDS)  # others are never listed
    return [
        prefix_search._Tested(float(numbers[i]), prefix_search.Listed(str(i).encode(), float(shares[i]), 1.0, 1, 0.0))
        for i in near.tolist()
    ]


def false_part(discoveries, count: int, fits=None, seed: int = 3) -> float:
    """The mean part of lists that is false."""
    rng, parts = np.random.default_rng(seed), []
    for _ in range(LISTS):
        listed = discoveries(drawn_candidates(rng), count, fits or fit)
        parts.append(sum(int(each.word) >= TRUE for each in listed) / max(len(listed), 1))
    return float(np.mean(parts))


LIMIT = binom.isf(ALARM, LISTS, prefix_search.FALSE) / LISTS  # parts are from 0 to 1, so this is their worst law


def unfit(word: bytes) -> bool:
    """Two in three of the words that stand out are no texts."""
    return int(word) >= TRUE or int(word) % 3 == 0


def fit(word: bytes) -> bool:
    return True


@pytest.mark.parametrize(("count", "fits"), [(WORDS, fit), (HANDED_OUT, fit), (WORDS, unfit)])
def test_a_list_that_is_cut_or_sifted_has_few_false_words(count, fits):
    """With a false alarm of 1e-6; lists are not empty."""
    assert 0.0 < false_part(prefix_search._discoveries, count, fits) < LIMIT


def test_a_list_cut_or_sifted_afterwards_is_seen():
    """The mutants: the longest list, of which the largest shares, or what fits, are taken."""

    def cut(tested, count, fits):
        longest = prefix_search._discoveries(tested, WORDS, fit)
        return [each for each in longest if fits(each.word)][:count]

    assert false_part(cut, HANDED_OUT) > LIMIT
    assert false_part(cut, WORDS, unfit) > LIMIT


def expected_false(weights: np.ndarray, holders: np.ndarray, allowed: float, rule=None) -> float:
    """How many are listed if each with at most `allowed` is, where holders[i] of the stated share has word i."""
    stated, shift = 0.01, 0.8
    near = prefix_search.largest_weights(weights, len(weights), stated)
    counts = np.linspace(-2.0, 12.0, 28_001)
    rule = rule or prefix_search.false_candidates
    false = rule(norm.sf(counts), norm.sf(counts - shift), len(weights), near, shift, allowed)
    limits = counts[np.searchsorted(-false, -allowed * weights)]
    return float(norm.sf(limits - shift * holders).sum())


@pytest.mark.parametrize("allowed", [0.05, 0.4, 2.0])
def test_weights_do_not_know_where_words_near_the_stated_share_are(allowed):
    """The bound is exact, for any weights and for shares that are worst for them: no more than allowed are false."""
    for weights in (np.ones(500), prefix_search.dictionary_weights(500), np.repeat([9.0, 0.5, 0.25], [25, 500, 100])):
        weights = weights / weights.mean()
        heavy = np.argsort(-weights)
        for place in range(0, len(weights) - 100, 25):
            holders = np.zeros(len(weights))
            holders[heavy[place : place + 100]] = 1.0  # shares of .01 for 100 of them
            assert expected_false(weights, holders, allowed) <= allowed * (1 + 1e-3)
        assert expected_false(weights, np.zeros(len(weights)), allowed) <= allowed


def test_weighing_both_alike_is_seen():
    """The mutant: as many are near the stated share as without weights."""

    def mutant(nobody, stated, number, near, shift, allowed):
        return number * nobody + 100 * stated

    weights = np.repeat([100.0, 0.01], [100, 9_900])
    holders = np.repeat([1.0, 0.0], [100, 9_900])
    assert expected_false(weights / weights.mean(), holders, 0.4) <= 0.4
    assert expected_false(weights / weights.mean(), holders, 0.4, mutant) > 1.2 * 0.4


def test_the_order_of_a_dictionary_is_evidence():
    """Weights are one on average, so that all words have no more than their part of the error, and at least a half."""
    for number in (1, 2, 50_000):
        weights = prefix_search.dictionary_weights(number)
        assert weights.mean() == pytest.approx(1.0)
        assert weights.min() >= 0.5
        assert (np.diff(weights) <= 0).all()
