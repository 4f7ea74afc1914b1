"""The published searches for heavy hitters that ours is compared with: they find what is plain to see."""

import numpy as np
import pytest

from scripts_by_path import benchmark

rivals = benchmark("text_rivals")
WORDS = ["the", "then", "a", "zzzzzzzzzz", "elephant", "elephants", "rare"]
COUNTS = np.array([3000, 2500, 2000, 1500, 1200, 1100, 3]) * 10_000
SIZE = int(COUNTS.sum())


def test_words_are_numbers_and_numbers_that_are_no_words_are_none():
    codes = rivals.encoded(WORDS)
    assert [rivals.decoded(code) for code in codes] == WORDS
    assert rivals.decoded(0) is None  # the empty word
    assert rivals.decoded(1) is None  # a letter after the end
    assert rivals.decoded(27 << 45) is None  # no symbol


def test_holders_are_counted_for_every_candidate():
    values = np.array([5, 7, 5, 9], dtype=np.uint64)
    held = rivals.holding(np.array([9, 5, 1], dtype=np.uint64), values, np.array([1, 2, 4, 8]))
    assert held.tolist() == [8, 5, 0]
    assert rivals.holding(np.zeros(0, dtype=np.uint64), values, np.array([1, 2, 4, 8])).tolist() == []


@pytest.mark.parametrize("rival", ["pem", "treehist"])
def test_what_nobody_could_miss_is_found(rival):
    # 110 million users: the rarest of the six has 1.1e7 of them, and an estimate has a standard deviation of at most
    # 6e4: a hundred and more of these away from zero and fifteen from its neighbours.
    found = getattr(rivals, rival)(WORDS, COUNTS, SIZE, 4.0, 6, 1)
    assert found == WORDS[:6]


def test_fewer_users_find_less_and_lists_are_scored():
    few = COUNTS // 100_000
    found = rivals.pem(WORDS, few, int(few.sum()), 0.1, 6, 1)
    assert rivals.recall_and_f1(found, WORDS, few, 6)[0] < 1
    assert rivals.recall_and_f1(WORDS[:3], WORDS, COUNTS, 6) == (0.5, 2 / 3)
    assert rivals.recall_and_f1([], WORDS, COUNTS, 6) == (0.0, 0.0)


def test_every_user_is_asked_about_one_level():
    rng = np.random.default_rng(1)
    parts = rivals.multinomial_rows(rng, COUNTS, 10)
    assert parts.shape == (10, len(WORDS))
    assert (parts.sum(axis=0) == COUNTS).all()
