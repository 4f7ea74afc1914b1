"""The same mechanisms with short weights: all tapes of short words can be run, and counted instead of sampled.

A production law has weights of some fifty bits, and nobody lists 2^50 words. The sampler does not know how long its
words are, so it may be run with words of 2 to 12 bits and weights whose total fits them; what it does with them is what
it does with long ones. Where it can be had the total is no power of two: then some words are rejected, or that would go
untested. Two words to a total make the draw compare word by word.

A two-level law is shortened by itself. Any other form of weights has a branch of its own here.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np

import dither
from contract.checks.examples import component_of, parts_of
from contract.tapes import ProbeTape, probed
from dither.core.additive_channel import AdditiveChannel
from dither.core.channel import TwoLevel
from dither.core.composite_channels import PublicMixture, Repeated
from dither.core.draw import DRAW, ELEMENT, TAG
from dither.core.exact import exp_below, log_above, root_below
from dither.core.hashed_channel import HashedChannel
from dither.core.lattice import ROUNDING
from dither.core.mechanism import Mechanism
from dither.mechanisms.codebooks import Rotated
from dither.mechanisms.collision import ORDER
from dither.mechanisms.key_sampling import CHOICE
from dither.mechanisms.memoized import Memoized
from dither.mechanisms.multi_attribute import MultiAttribute
from dither.ranges.collection import Ranges

MOST_TAPE_BITS = 18
MOST_SPARSE_BITS = 20
LONGEST_WORD = 6


def with_short_weights(mechanism: Mechanism) -> tuple[Mechanism | None, int]:
    """The same mechanism with weights for words so short that all tapes can be run, and that word length."""
    most = MOST_TAPE_BITS - 2 * bool(parts_of(mechanism))  # more lanes are slower to read
    # A total of two words makes the draw compare word by word; three are for laws with many outputs.
    choices = [(bits, words) for bits in range(12, 1, -1) for words in (1, 2)] + [(3, 3), (2, 3)]
    for bits, words in choices:
        short = _short(mechanism, 1 << words * bits)
        if short is not None and sum(lanes(short, bits).values()) * bits <= most:
            return short, bits
    return None, 0


def _short(mechanism: Mechanism, limit: int) -> Mechanism | None:
    if isinstance(mechanism, dither.Gaussian) and mechanism.d > 1:
        return None
    if isinstance(mechanism, dither.UnitVector):
        return short_codebook(mechanism, limit) if mechanism.d < 8 else None
    if isinstance(mechanism, dither.Histogram):
        entry = _short(mechanism.entry, limit)
        return entry and replace(mechanism, weights=entry.weights, delta=0.0)
    if isinstance(mechanism, dither.Personalised | Ranges):
        parts = [_short(part, limit) for part in mechanism.reading.parts]
        weights = tuple(part.weights for part in parts if part)
        return replace(mechanism, weights=weights) if all(parts) else None  # type: ignore[type-var]
    if isinstance(mechanism, dither.Hybrid):
        return _short_hybrid(mechanism, limit)
    if isinstance(mechanism, Memoized):
        weights = (5, 2, 1, 2, 1, 4) if isinstance(mechanism, dither.LUnary) else (3, 1, 4, 1)
        loose = replace(mechanism, epsilon=16.0, first=15.0, weights=weights)
        return replace(loose, epsilon=loose.guarantee.epsilon, first=loose.first_report.epsilon)
    if isinstance(mechanism.reading, MultiAttribute):
        if any(type(part).__name__ == "Unary" for part in mechanism.reading.parts):
            return None
        parts = [_short(part, limit) for part in mechanism.reading.parts]
        weights = tuple(part.weights for part in parts if part is not None)
        if len(weights) < len(parts):
            return None
        return replace(mechanism, weights=weights, delta=0.0)  # type: ignore[type-var]
    return _short_unary(mechanism) if type(mechanism).__name__ == "Unary" else _short_law(mechanism, limit)


def _short_hybrid(mechanism: Any, limit: int) -> Mechanism | None:
    """A coin of three eighths, and laws that three bits can tell: a row has the words of both branches."""
    sign, share = ((5, 2), 3 << 29) if mechanism.weights[-1] else ((4, 3), 0)
    return replace(mechanism, weights=(*sign, 3, 2, 1, 2, share)) if limit == 8 else None


def _short_law(mechanism: Mechanism, limit: int, rejecting: bool = True) -> Mechanism | None:
    if isinstance(mechanism.channel(), AdditiveChannel):
        table = AdditiveChannel((9, 7, 4, 2, 1), steps=2, reach=2)
        return replace(mechanism, epsilon=log_above(table.ratio()), weights=(*table.weights, 2, 2, 1))  # type: ignore
    law, ratio = mechanism.channel(), exp_below(mechanism.epsilon)
    law = law.component if isinstance(law, PublicMixture) else law
    law = law.law if isinstance(law, HashedChannel) else law
    if isinstance(law, Repeated):  # its coordinates are alike
        law, ratio = law.factors[0], root_below(ratio, law.asked)
    assert isinstance(law, TwoLevel)
    assert mechanism.weights is not None
    lattice = tuple(min(size, most) for size, most in zip(mechanism.weights[2:], (3, 5), strict=False))
    favoured, outputs = (lattice[0], sum(lattice)) if lattice else (law.favoured, law.outputs)
    for low in range(floor(limit / (favoured * ratio + outputs - favoured)) + 1, 0, -1):
        for high in (floor(low * ratio), floor(low * ratio) - 1):
            total = favoured * high + (outputs - favoured) * low
            if (
                high > low and total <= limit and bool(limit % total) == rejecting
            ):  # some words are rejected, or that goes untested
                return replace(mechanism, weights=(high, low, *lattice))  # type: ignore[type-var]
    return None


def _short_unary(mechanism: Mechanism) -> Mechanism:
    """Coins in eighths; the budget is moved to the largest that these can keep below one and a half times the ratio."""

    def ratio(weights: tuple[int, ...]) -> Fraction:
        return Fraction(weights[0] * (8 - weights[2]), weights[2] * weights[1])

    most = exp_below(mechanism.epsilon) * Fraction(3, 2)
    choices = [(a, 8 - a, b, 8) for a in range(1, 8) for b in range(1, a, 2)]
    weights = max((choice for choice in choices if ratio(choice) <= most), key=ratio)
    return replace(mechanism, epsilon=float(log_above(ratio(weights))), delta=0.0, weights=weights)  # type: ignore


def short_codebook(mechanism: dither.UnitVector, limit: int) -> Mechanism | None:
    """A few codewords, of which two are favoured, and weights that reject some words."""
    size = 1 << (mechanism.d - 1).bit_length() if isinstance(mechanism.book, Rotated) else 4
    for rows in (size, size // 2):
        favoured = max(1, min(2, rows // 2))
        if rows < mechanism.d and isinstance(mechanism.book, Rotated):
            continue
        for high in range(7, 1, -1):
            total = favoured * high + 2 * rows - favoured
            if total <= limit and limit % total:
                weights = (high, 1, favoured, 2 * rows)
                return replace(mechanism, epsilon=mechanism.number * log_above(Fraction(high)), weights=weights)
    return None


def short_sparse(mechanism: Any, vector: Mapping[int, float]) -> tuple[Any, int, dict[Any, tuple[int, ...]]]:
    """Short weights, their word length, and the words that matter for this vector.

    The words of signs have nothing to round, the first place in an order is no choice: `check_sparse_sampler` finds
    out if one of the words that are left out matters after all.
    """
    few = MOST_TAPE_BITS - 2 * (component_of(mechanism) is None)  # conflicts of hashed items need many hash functions
    for rejecting, most in ((True, few), (True, MOST_SPARSE_BITS), (False, MOST_SPARSE_BITS)):
        for bits in range(LONGEST_WORD, 1, -1):
            small = _short_sparse(mechanism, bits, rejecting)
            if small is not None:
                varied = _words_that_matter(small, bits, vector)
                if sum(map(len, varied.values())) * bits <= most:
                    return small, bits, varied
    raise AssertionError("there are too many tapes")


def _short_sparse(mechanism: Any, bits: int, rejecting: bool) -> Any:
    if isinstance(mechanism, dither.PCKV_UE):
        # One digit of b and a table with ties; where a user draws nothing, two digits and a table without.
        finer = mechanism.s == 1 and not mechanism.sample
        weights = (9, 1, 1, 4) if finer else (2, 1, 1, 2)
        large = replace(mechanism, epsilon=16.0, weights=weights)
        fits = bits >= mechanism.d and rejecting != finer and (rejecting or bits == 4)
        return replace(large, epsilon=log_above(Fraction(large.channel().ratio()))) if fits else None
    if isinstance(mechanism, dither.Succinct):
        if mechanism.noise.law.stretch > 1:
            law = AdditiveChannel((6, 3, 2), steps=1, reach=1, stretch=2)
        else:
            law = (
                AdditiveChannel((9, 7, 4, 2, 1), steps=2, reach=2)
                if rejecting
                else AdditiveChannel((6, 3, 2), steps=1, reach=1)
            )
        weights = (*law.weights, law.steps, law.reach, law.stretch)
        return replace(mechanism, epsilon=log_above(law.ratio()), weights=weights)
    if getattr(mechanism, "cohorts", None):
        mechanism = replace(mechanism, cohorts=11)  # some words are rejected, and a short one tells them apart
    return _short_law(mechanism, 1 << bits, rejecting)


def _words_that_matter(mechanism: Any, bits: int, vector: Mapping[int, float]) -> dict[Any, tuple[int, ...]]:
    """Lanes to columns, in the order in which what is accepted on one lane depends on others before."""
    s, read = mechanism.s, lanes(mechanism, bits)
    single = isinstance(mechanism, dither.PrivKV | dither.PCKV_GRR | dither.PCKV_UE)  # one key is reported on
    real = [slot for slot, value in enumerate(vector.values()) if abs(value) != 1]
    varied: dict[Any, tuple[int, ...]] = {TAG: tuple(range(read.get(TAG, 0)))}
    varied[DRAW] = tuple(range(read[DRAW]))
    if single:
        varied[CHOICE] = (0,) if max(len(vector), s) > 1 else ()
    elif len(vector) > s:
        varied[CHOICE] = tuple(range(s))
    many_ = range(s) if len(vector) > s else real  # keys that were drawn stand anywhere
    varied[ROUNDING] = () if not real else (0,) if single else tuple(many_)
    varied[ORDER] = tuple(range(1, s)) if getattr(mechanism, "paired", False) else ()
    others = [lane for lane in read if lane not in (TAG, DRAW, CHOICE, ROUNDING, ORDER, ELEMENT)]
    varied |= dict.fromkeys(others, (0,))
    if isinstance(mechanism, dither.Succinct) and not others:  # the sum is rounded to the lattice by some word, too
        varied[ROUNDING] = tuple(sorted({*varied[ROUNDING], *range(s, read[ROUNDING]), 0}))
    varied[ELEMENT] = tuple(range(read.get(ELEMENT, 0)))  # its bound depends on all the others
    if isinstance(mechanism, dither.PCKV_UE | dither.Succinct):
        total = sum(mechanism.own) if isinstance(mechanism, dither.PCKV_UE) else mechanism.noise.law.total
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
