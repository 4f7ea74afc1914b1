"""Which rows of a channel a value becomes, and how often, written down once more from the definition.

A channel has finitely many inputs: lattice points, corners of a cube, vectors of signs. A number between two points is
rounded to one of them so that its mean stays, with a word of `bits` bits; a sampler on short words rounds on a coarser
scale, so all shares here are fractions that know the length of the word.
"""

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod
from typing import Any

import numpy as np

from dither.core.domains import GROUPS, NUMBERS, RECORDS, SPARSE, WHOLE_NUMBERS, WORDS
from dither.core.lattice import split
from dither.core.mechanism import Mechanism
from dither.core.sparse_columns import EMPTY
from dither.testing.examples import composed
from dither.testing.sign_vectors import signs_of


def rounded_value(mechanism: Mechanism, value: Any, bits: int = 64) -> dict[int, Fraction]:
    """Which rows of the channel a value becomes, and how often."""
    domain = mechanism.reading.domain
    if composed(mechanism):
        return _rounded_record(mechanism.reading, value, bits)
    if domain.kind == WHOLE_NUMBERS:
        return {int(np.ravel_multi_index(tuple(int(each) for each in value), domain.parameters["shape"])): Fraction(1)}
    if domain.kind == RECORDS:
        return _rounded_corner(mechanism, value, bits)
    if domain.kind == GROUPS:
        return _rounded_choice(mechanism.reading, value, bits)
    if domain.kind == SPARSE:
        listed = signs_of(**domain.parameters)
        vector = {key: number for key, number in zip(*value, strict=True) if key != EMPTY}
        return {listed.index(dict(signs)): share for signs, share in as_signs(mechanism, vector, bits).items()}
    if domain.kind == WORDS:
        words: Any = domain
        return {words.number(bytes(value)): Fraction(1)}
    if domain.kind != NUMBERS:
        return {int(value): Fraction(1)}
    return rounded_number(value, mechanism.channel().shape[0] - 1, bits)


def mixed(channel: Any, shares: dict[int, Fraction], number: Any = Fraction) -> list[Any]:
    """P(report) for an input that becomes these rows of the channel; every part of a repeated one rounds by itself."""
    if len(channel.repeats) > 1:
        law = [number(1)]
        for factor in channel.repeats:
            law = [before * step for before in law for step in mixed(factor, shares, number)]
        return law
    law = [number(0)] * channel.shape[1]
    for x, share in shares.items():
        law = [before + number(share) * number(added) for before, added in zip(law, channel.row(x), strict=True)]
    return law


def as_signs(
    mechanism: Any, vector: Mapping[int, float], bits: int = 64
) -> dict[tuple[tuple[int, int], ...], Fraction]:
    """The vectors of signs that a vector becomes, and how often: s of more keys are drawn, numbers are rounded."""
    kept = min(len(vector), mechanism.s)
    found = {}
    for keys in combinations(vector, kept):
        for signs in product((-1, 1), repeat=kept):
            pairs = tuple(zip(keys, signs, strict=True))
            up = [rounded_number(vector[key], 1, bits).get(int(sign > 0), 0) for key, sign in pairs]
            share = prod(up, start=Fraction(1, comb(len(vector), kept)))
            if share:
                found[pairs] = share
    return found


def rounded_number(value: float, steps: int, bits: int) -> dict[int, Fraction]:
    lower, fraction, digits = split(np.array([value]), steps, bits)
    up = Fraction(int(fraction[0]), 1 << digits)
    return {row: share for row, share in ((int(lower[0]), 1 - up), (int(lower[0]) + 1, up)) if share}


def _rounded_choice(groups: Any, choice: Any, bits: int) -> dict[int, Fraction]:
    """The rows of all groups stand one after the other; a value is rounded on the scale of its region."""
    number = int(choice["group"])
    group, part = groups.groups[number], groups.parts[number]
    scaled = np.clip((choice["value"] - group.centre) / group.half, -1, 1)
    before = sum(part.channel().shape[0] for part in groups.parts[:number])
    return {before + row: share for row, share in rounded_value(part, scaled, bits).items()}


def _rounded_corner(mechanism: Mechanism, record: Any, bits: int) -> dict[int, Fraction]:
    """For a mechanism whose inputs are the corners of a cube: each number becomes a sign."""
    row = {tuple(corner): x for x, corner in enumerate(mechanism.inputs().tolist())}
    corners = {(): Fraction(1)}
    for value in record:
        steps = rounded_number(value, 1, bits)
        corners = {(*corner, 2.0 * up - 1): a * b for corner, a in corners.items() for up, b in steps.items()}
    return {row[corner]: share for corner, share in corners.items()}


def _rounded_record(dimensions: Any, record: Any, bits: int) -> dict[int, Fraction]:
    rows = {0: Fraction(1)}
    for j in range(dimensions.d):
        part = dimensions.part(j)
        digits = rounded_value(part, record[j], bits)
        size = part.channel().shape[0]
        rows = {row * size + digit: a * b for row, a in rows.items() for digit, b in digits.items()}
    return rows
