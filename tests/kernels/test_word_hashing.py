"""Hash functions of words: fingerprints that grow letter by letter, buckets that are even and independent."""

import numpy as np
import pytest
from scipy.stats import chi2, norm

from dither import kernels
from dither.kernels import with_numba, with_numpy
from dither.kernels.hashing import public_seeds
from dither.kernels.word_hashing import PRIME, START, extended, fingerprints, word_buckets

ALARM = 1e-8


def words(*texts: bytes) -> np.ndarray:
    return np.array(texts, dtype="S6")


def by_hand(word: bytes, length: int) -> int:
    """FNV-1a of 64 bits, once more, with one more step for what goes on."""
    state = int(START)
    for code in word[:length]:
        state = (state ^ code) * int(PRIME) % 2**64
    return (state ^ 256) * int(PRIME) % 2**64 if len(word) > length else state


def test_a_fingerprint_is_made_code_by_code():
    column = words(b"", b"a", b"ab", b"abc", b"abcdef", b"\xff\x01")
    for length in range(1, 7):
        assert fingerprints(column, length).tolist() == [by_hand(word, length) for word in column.tolist()]
    lengths = np.array([1, 2, 3, 4, 5, 6])
    each = [by_hand(word, length) for word, length in zip(column.tolist(), lengths.tolist(), strict=True)]
    assert fingerprints(column, lengths).tolist() == each


def test_a_known_fingerprint():
    """The published FNV-1a of "foobar"."""
    assert int(fingerprints(words(b"foobar"), 6)[0]) == 0x85944171F73967E8


def test_extensions_are_the_fingerprints_of_longer_words():
    codes = np.arange(1, 4, dtype=np.uint64)
    longer = extended(fingerprints(words(b"\1", b"\2"), 6), codes)
    expected = [bytes([first, second]) for first in (1, 2) for second in (1, 2, 3)]
    assert longer.tolist() == fingerprints(words(*expected), 6).tolist()
    goes_on = extended(fingerprints(words(b"\1"), 1), None)
    assert goes_on.tolist() == fingerprints(words(b"\1\2"), 1).tolist()


def test_a_word_that_ends_is_none_that_goes_on():
    assert len(set(fingerprints(words(b"ab", b"abc", b"abd"), 2).tolist())) == 2


def test_no_words_are_nothing():
    assert fingerprints(words()[:0], 3).shape == (0,)


def test_buckets_are_even():
    """Chi-square of 40,000 different words in 101 buckets, for three functions; false alarm 1e-8 each."""
    column = np.array([f"{number:x}".encode() for number in range(40_000)], dtype="S6")
    states = fingerprints(column, 6)
    assert len(set(states.tolist())) == len(column)
    for seed in public_seeds(3):
        counts = np.bincount(word_buckets(seed, states, 101).astype(int), minlength=101)
        assert counts.size == 101
        assert ((counts - 40_000 / 101) ** 2 / (40_000 / 101)).sum() < chi2.isf(ALARM, 100)


def test_functions_are_independent():
    """Two words share a bucket under one in 64 of 2^16 functions, and so do words that differ in the last letter."""
    seeds = public_seeds(1 << 16)
    for pair in ((b"abc", b"xyzzy"), (b"abc", b"abd"), (b"ab", b"abc"), (b"\1", b"\2")):
        one, two = fingerprints(words(*pair), 6)
        same = (word_buckets(seeds, one, 64) == word_buckets(seeds, two, 64)).sum()
        spread = ((1 << 16) / 64 * (63 / 64)) ** 0.5
        assert abs(same - (1 << 16) / 64) < norm.isf(ALARM / 2) * spread


@pytest.mark.parametrize("loops", [with_numpy, with_numba], ids=["numpy", "numba"])
def test_sums_over_buckets(loops):
    rng = np.random.default_rng(1)
    states = fingerprints(np.array([f"{number:x}".encode() for number in range(500)], dtype="S6"), 6)
    seeds, tables = public_seeds(3), rng.normal(size=(3, 77))
    places = [word_buckets(seed, states, 77).astype(int) for seed in seeds]
    expected = ((tables[0][places[0]] + tables[1][places[1]]) + tables[2][places[2]]).tolist()
    assert loops.bucket_sums(states, seeds, tables).tolist() == expected
    assert kernels.bucket_sums(states, seeds, tables).tolist() == expected
    assert loops.bucket_sums(states[:0], seeds, tables).shape == (0,)
