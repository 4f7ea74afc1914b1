"""What a search will find, foreseen and measured."""

import itertools

import numpy as np
import pytest

from dither.mechanisms.heavy_hitters import HeavyHitters
from dither.schema import Text

LETTERS = "abcdefgh"
TEXT = Text(longest=6, alphabet=LETTERS)
MECHANISM = HeavyHitters(8, 6, 2.0, lengths=(3, 6), functions=(4, 8), buckets=1000)


def test_more_users_find_rarer_words():
    shares = [MECHANISM.search().forecast(n).smallest() for n in (10**4, 10**6)]
    for few, many in zip(*(each[:3] for each in shares), strict=True):
        assert many < few / 5
    (few, _) = shares
    assert few.hopeless < few.short < few.long
    assert few.stored().keys() == {"short", "long", "hopeless"}


def test_what_is_known_needs_less():
    search = MECHANISM.search(known=[b"\1"] * 100).forecast(10**5)
    assert search.smallest_known(1, 100) < search.smallest_of(6)


def test_chances_rise_with_shares():
    search = MECHANISM.search().forecast(10**5)
    chances = [search.chance(share, 6) for share in np.linspace(0.001, 0.2, 40)]
    assert chances == sorted(chances)
    assert chances[0] < 0.05
    assert chances[-1] > 0.95
    assert search.chance(search.smallest_of(6), 6) == pytest.approx(0.9, abs=1e-6)


def test_words_without_codes_are_the_hardest():
    search, shares = MECHANISM.search().forecast(10**5), np.array([0.06, 0.03, 0.01])
    words = TEXT.encode(["abc", "bcd", "cde"])
    known = search.of_words(words, shares, 3)
    unknown = search.of_words(np.zeros(3, dtype="S6"), shares, 3)
    assert known.recall is not None
    assert unknown.recall is not None
    assert unknown.recall < known.recall
    assert known.listed == pytest.approx(3 * known.recall)


@pytest.mark.wide
def test_recall_is_what_was_foreseen():
    """Of 40 words with shares around what is found, in 40 collections: within five standard errors of the mean."""
    rng = np.random.default_rng(1)
    different = sorted({"".join(rng.choice(list(LETTERS), rng.integers(2, 7))) for _ in range(60)})[:40]
    shares = np.geomspace(0.08, 0.004, len(different))
    shares = shares / shares.sum()
    words, n = TEXT.encode(different), 60_000
    foreseen = MECHANISM.search(40).forecast(n).of_words(words, shares, 40)
    counts = np.rint(shares * n).astype(int)
    found = []
    for seed in range(40):
        tally = MECHANISM.tally(MECHANISM.randomize(np.repeat(words, counts), seed=seed))
        found.append(len(set(MECHANISM.estimate(tally, MECHANISM.search(40)).words) & set(words.tolist())) / 40)
    assert foreseen.recall is not None
    assert abs(np.mean(found) - foreseen.recall) < 0.04


def test_a_share_that_many_standard_errors_are_below_can_be_stated():
    """A word has to be above it, however far that is from nothing."""
    search = MECHANISM.search(10, above=0.5).forecast(10_000_000)
    assert search.chance(0.49, 2) < 1e-6
    assert search.chance(0.51, 2) > 0.999


def test_words_that_come_first_in_a_dictionary_need_less_evidence():
    """And the recall that is foreseen knows it."""
    shares, n = 1 / np.arange(1, 201), 40_000
    shares /= shares.sum()
    different = ["".join(letters) for letters in itertools.product(LETTERS, repeat=4)][:200]
    words = TEXT.encode(different)
    known = tuple(words.tolist())
    search = MECHANISM.search(40, known)
    told, mixed = (search.forecast(n).of_words(words, shares, 40, each).recall for each in (known, known[::-1]))
    assert told is not None
    assert mixed is not None
    assert told > mixed + 0.02
