"""Which words a sampler reads, and the shortest that make all tapes of them few enough to be run.

`Mechanism.shortened` gives the same mechanism with short weights (`core.short_weights` says why). Where it can be had
the total is no power of two: then some words are rejected, or that would go untested. Two words to a total make the
draw compare word by word.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dither.core.draw import DRAW, ELEMENT, TAG
from dither.core.lattice import ROUNDING
from dither.core.mechanism import Mechanism
from dither.core.structure import BUCKETS, CODEBOOK, NOISY_SUM, ONE_ITEM, UNARY_ITEM
from dither.mechanisms.collision import ORDER
from dither.mechanisms.key_sampling import CHOICE
from dither.testing.examples import component_of
from dither.testing.tapes import ProbeTape, probed

MOST_TAPE_BITS = 18
MOST_SPARSE_BITS = 20
LONGEST_WORD = 6
MOST_CODED = 7  # dimensions of codewords that are listed


def with_short_weights(mechanism: Mechanism) -> tuple[Mechanism | None, int]:
    """The same mechanism with weights for words so short that all tapes can be run, and that word length."""
    if mechanism.structure == CODEBOOK and mechanism.reading.domain.parameters["d"] > MOST_CODED:
        return None, 0
    most = MOST_TAPE_BITS - 2 * bool(mechanism.components)  # more lanes are slower to read
    # A total of two words makes the draw compare word by word; three are for laws with many outputs.
    choices = [(bits, words) for bits in range(12, 1, -1) for words in (1, 2)] + [(3, 3), (2, 3)]
    for bits, words in choices:
        short = mechanism.shortened(1 << words * bits)
        if short is not None and sum(lanes(short, bits).values()) * bits <= most:
            return short, bits
    return None, 0


def short_sparse(mechanism: Any, vector: Mapping[int, float]) -> tuple[Any, int, dict[Any, tuple[int, ...]]]:
    """Short weights, their word length, and the words that matter for this vector.

    The words of signs have nothing to round, the first place in an order is no choice: `check_sparse_sampler` finds
    out if one of the words that are left out matters after all.
    """
    few = MOST_TAPE_BITS - 2 * (component_of(mechanism) is None)  # conflicts of hashed items need many hash functions
    for rejecting, most in ((True, few), (True, MOST_SPARSE_BITS), (False, MOST_SPARSE_BITS)):
        for bits in range(LONGEST_WORD, 1, -1):
            small = mechanism.shortened(1 << bits, rejecting)
            if small is not None:
                varied = _words_that_matter(small, bits, vector)
                if sum(map(len, varied.values())) * bits <= most:
                    return small, bits, varied
    raise AssertionError("there are too many tapes")


def _words_that_matter(mechanism: Any, bits: int, vector: Mapping[int, float]) -> dict[Any, tuple[int, ...]]:
    """Lanes to columns, in the order in which what is accepted on one lane depends on others before."""
    s, read = mechanism.s, lanes(mechanism, bits)
    single = mechanism.structure in (ONE_ITEM, UNARY_ITEM)  # one key is reported on
    real = [slot for slot, value in enumerate(vector.values()) if abs(value) != 1]
    varied: dict[Any, tuple[int, ...]] = {TAG: tuple(range(read.get(TAG, 0)))}
    varied[DRAW] = tuple(range(read[DRAW]))
    if single:
        varied[CHOICE] = (0,) if max(len(vector), s) > 1 else ()
    elif len(vector) > s:
        varied[CHOICE] = tuple(range(s))
    many_ = range(s) if len(vector) > s else real  # keys that were drawn stand anywhere
    varied[ROUNDING] = () if not real else (0,) if single else tuple(many_)
    varied[ORDER] = tuple(range(1, s)) if mechanism.structure == BUCKETS and mechanism.paired else ()
    others = [lane for lane in read if lane not in (TAG, DRAW, CHOICE, ROUNDING, ORDER, ELEMENT)]
    varied |= dict.fromkeys(others, (0,))
    if mechanism.structure == NOISY_SUM and not others:  # the sum is rounded to the lattice by some word, too
        varied[ROUNDING] = tuple(sorted({*varied[ROUNDING], *range(s, read[ROUNDING]), 0}))
    varied[ELEMENT] = tuple(range(read.get(ELEMENT, 0)))  # its bound depends on all the others
    if mechanism.structure in (UNARY_ITEM, NOISY_SUM):
        total = sum(mechanism.own) if mechanism.structure == UNARY_ITEM else mechanism.noise.law.total
        varied[ELEMENT] = varied[ELEMENT] if (1 << bits) % total else ()  # all edges lie between words: no tie
    return {lane: columns for lane, columns in varied.items() if columns}


def lanes(mechanism: Mechanism, bits: int) -> dict[Any, int]:
    return _probed(mechanism, bits).lanes


def lanes_shared(mechanism: Mechanism) -> set[Any]:
    """The lanes from which some row takes the same words for two purposes: what they decide is not independent."""
    bits = 8
    if component_of(mechanism) is not None:  # the law must fit a word
        mechanism, bits, _ = short_sparse(mechanism, {})
    return _probed(mechanism, bits).twice


def _probed(mechanism: Mechanism, bits: int) -> ProbeTape:
    inputs = mechanism.inputs()
    return probed(lambda rows, tape: mechanism.drawn(inputs[np.arange(rows) % len(inputs)], tape), bits)
