"""Hash functions of words: a word, or what it begins with, becomes a number of 64 bits, and that a bucket.

A word is a row of codes from 1 on, one a byte, filled up with zeros. Its *fingerprint* is made code by code (FNV-1a of
64 bits), so that those of all words that begin alike are made from what they begin with: a search that extends a prefix
by every code needs one multiplication for each. A prefix of a word that goes on is another thing than the word that
ends there, and gets one more step, with a code that no word holds.

A hash function is a seed: the fingerprint, with the seed mixed in, goes through the finalizer of MurmurHash3, whose
upper half is cut into buckets of equal size. As in `kernels.hashing` it carries no privacy, which holds for the worst
function; the estimator needs that two words share a bucket once in so many buckets, and that functions are independent.
"""

import numpy as np
from numpy.typing import NDArray

States = NDArray[np.uint64]

START = np.uint64(0xCBF29CE484222325)
PRIME = np.uint64(0x100000001B3)
GOES_ON = np.uint64(256)
_FIRST, _SECOND = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_33, _32 = np.uint64(33), np.uint64(32)


def codes_of(words: NDArray) -> NDArray[np.uint8]:
    """The codes of words (rows), filled up with zeros."""
    return np.ascontiguousarray(words).view(np.uint8).reshape(len(words), words.dtype.itemsize)


def fingerprints(words: NDArray, lengths: NDArray[np.integer] | int) -> States:
    """Of each word, as far as its first so many codes; a word that goes on beyond them differs from one that ends.

    >>> one, two = fingerprints(np.array([b"abc", b"ab"]), 2)
    >>> bool(one == two), bool(one == extended(fingerprints(np.array([b"ab"]), 2), None)[0])
    (False, True)
    """
    codes = codes_of(words)
    ends = np.broadcast_to(np.asarray(lengths), (len(codes),))
    state = np.full(len(codes), START)
    longest = int(ends.max(initial=0))
    for place, code in enumerate(np.ascontiguousarray(codes.T)):
        if place >= longest:
            break
        inside = (code != 0) & (place < ends)
        np.copyto(state, (state ^ code) * PRIME, where=inside)
    beyond = np.minimum(ends, codes.shape[1] - 1)
    on = (ends < codes.shape[1]) & (codes[np.arange(len(codes)), beyond] != 0)
    np.copyto(state, (state ^ GOES_ON) * PRIME, where=on)
    return state


def extended(states: States, codes: NDArray[np.uint64] | None) -> States:
    """The fingerprints of prefixes with each of these codes behind them, or (None) of words that go on from them."""
    if codes is None:
        return (states ^ GOES_ON) * PRIME
    return ((states[:, None] ^ codes) * PRIME).reshape(-1)


def word_buckets(seeds: NDArray[np.uint64] | np.uint64, states: States, buckets: int) -> NDArray[np.uint64]:
    """The bucket of each fingerprint under the hash function with that seed; the two broadcast."""
    return bucket_of(states ^ seeds, np.uint64(buckets))


def bucket_of(x, buckets):
    """The bucket of a fingerprint with a seed mixed in: NumPy runs it on arrays, and Numba compiles the same lines."""
    x = (x ^ (x >> _33)) * _FIRST
    x = (x ^ (x >> _33)) * _SECOND
    return ((x ^ (x >> _33)) >> _32) * buckets >> _32
