"""Samplers over all tapes: the production sampler has exactly the probabilities of the channel.

Every combination of short words is a row of one large batch, the production code turns it into reports, and the counts
of the reports, weighted by the odds of rows that were never rejected, must be the fractions of the channel. No
statistics: one wrong tape is seen.

A sparse vector has more words than can be run. Those that cannot matter (the rounding of a sign, the first place in an
order) are all set to the same filler, and the law is compared under two fillers: were one of them to matter, one of the
two would differ.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import NUMBERS, SPARSE
from dither.core.lattice import split
from dither.core.mechanism import Mechanism
from dither.core.structure import BRANCHES, CODEBOOK, GRIDS, POINTS
from dither.kernels import with_numpy
from dither.mechanisms.codebooks import seeds_of_parts, whole_vectors
from dither.testing.examples import LARGEST_LISTED, as_bytes, many, sampled_inputs, several_reports, sparse_inputs
from dither.testing.rounding import as_signs, mixed, rounded_number, rounded_value
from dither.testing.short_tapes import lanes, short_sparse, with_short_weights
from dither.testing.sign_sums import SUMMED, hashed_sign, total_law, total_of
from dither.testing.sign_vectors import signs_of
from dither.testing.tapes import EveryTape, SomeWordsTape


def check_sampler(mechanism: Mechanism) -> bool:
    """The production sampler, over every tape of short words, gives exactly the channel's probabilities.

    False if there are too many tapes, which happens to reports of several reports only.
    """
    if mechanism.structure == POINTS:
        return False
    if mechanism.takes == SPARSE:
        for value in sparse_inputs(mechanism):
            check_sparse_sampler(mechanism, value)
        return True
    small, bits = with_short_weights(mechanism)
    if small is None:
        few = several_reports(mechanism) or mechanism.structure == CODEBOOK
        assert few, "the example has too many outputs, or too large weights, for all tapes to be run"
        return False
    for value in sampled_inputs(small):
        tape = EveryTape(bits, lanes(small, bits))
        reports = small.drawn(many(value, tape.rows), tape)
        rows, inverse = tape.odds()
        found: dict[bytes, Fraction] = {}
        for (report, odds), count in Counter(zip(as_bytes(reports[rows]), inverse.tolist(), strict=True)).items():
            found[report] = found.get(report, Fraction(0)) + Fraction(count, odds)
        assert found == _law(small, value, tape)
    return True


def _law(mechanism: Mechanism, value: Any, tape: EveryTape) -> dict[bytes, Fraction]:
    """Report, as bytes, to its probability given the value."""
    channel: Any = mechanism.channel()
    if mechanism.structure == BRANCHES:
        return _law_of_branches(mechanism, value, tape.bits)
    if mechanism.structure == CODEBOOK:
        return _law_of_codewords(mechanism, value, tape.bits)
    if mechanism.structure == GRIDS:
        return _law_of_groups(mechanism, value, tape)
    if channel.tagged and channel.tags == 1 << 64:  # on short words there are fewer hash seeds
        channel = replace(channel, tags=1 << tape.bits)
        outputs = np.empty(channel.shape[1], dtype=mechanism.dtype)
        outputs["seed"], outputs["value"] = np.divmod(np.arange(len(outputs)), channel.component.shape[1])
    else:
        outputs = mechanism.outputs()
    law = mixed(channel, rounded_value(mechanism, value, tape.bits))
    return {report: odds for report, odds in zip(as_bytes(outputs), law, strict=True) if odds}


def _law_of_codewords(mechanism: Any, vector: NDArray, bits: int) -> dict[bytes, Fraction]:
    """For every short seed and part: a coin between the direction and its opposite, then the two levels."""
    direction, length = whole_vectors(np.reshape(vector, (1, -1)))
    lower, fraction, digits = split(length, 1, bits)
    plus = Fraction(int(fraction[0]), 1 << digits) + int(lower[0])
    law, outputs = mechanism.law, mechanism.law.outputs
    found: dict[bytes, Fraction] = {}
    for seed in range(1 << bits):
        rows = [Fraction(1, 1 << bits)]
        for own in seeds_of_parts(np.array([seed], dtype=np.uint64), mechanism.number):
            ahead, behind = (set(plain_favoured(mechanism, sign * direction[0], own)) for sign in (1.0, -1.0))
            row = [
                (plus * (law.high if y in ahead else law.low) + (1 - plus) * (law.high if y in behind else law.low))
                / law.total
                for y in range(outputs)
            ]
            rows = [before * cell for before in rows for cell in row]
        reports: NDArray = np.empty(len(rows), dtype=mechanism.dtype)
        codewords = np.stack(np.unravel_index(np.arange(len(rows)), (outputs,) * mechanism.number), axis=1)
        reports["seed"], reports["value"] = seed, codewords if mechanism.number > 1 else codewords[:, 0]
        found |= dict(zip(as_bytes(reports), rows, strict=True))
    return found


def plain_favoured(mechanism: Any, vector: NDArray, seed: Any) -> list[int]:
    """The w codewords with the largest inner product, from the codewords themselves; of equal ones by row."""
    book, rows = mechanism.book, range(mechanism.book.size)
    entries = [int(entry) for entry in vector]
    if book.rotated:  # the nudge against ties
        bits = with_numpy._hashed(np.array([seed], dtype=np.uint64), book.size)[0, : book.d]
        entries = [entry + int(nudge) for entry, nudge in zip(entries, with_numpy._nudges(bits), strict=True)]
    products = [sum(a * b for a, b in zip(book.row(seed, row).tolist(), entries, strict=True)) for row in rows]
    best = sorted(rows, key=lambda row: (-abs(products[row]), row))[: mechanism.law.favoured]
    return [row if products[row] >= 0 else row + book.size for row in best]


def _law_of_branches(mechanism: Any, value: float, bits: int) -> dict[bytes, Fraction]:
    """Each branch rounds to its own lattice."""
    law: list[Fraction] = []
    for odds, window in mechanism.branches:
        own = [Fraction(0)] * window.law.outputs
        for row, share in rounded_number(value, window.steps, bits).items():
            own = [before + odds * share * added for before, added in zip(own, window.law.row(row), strict=True)]
        law += own
    return dict(zip(as_bytes(mechanism.outputs()), law, strict=True))


def _law_of_groups(mechanism: Any, record: Any, tape: EveryTape) -> dict[bytes, Fraction]:
    """A group by its share, the record's cell in its grid, and the law of its oracle; a cell may be a number."""
    law: dict[bytes, Fraction] = {}
    total = sum(asked.share for asked in mechanism.groups)
    width = mechanism.dtype[-1].itemsize
    for group, asked in enumerate(mechanism.groups):
        grid, part = asked.grid, mechanism.oracle(group)
        cell = 0
        for attribute, cuts in zip(grid.attributes, grid.cuts, strict=True):
            cell = cell * (len(cuts) - 1) + sum(int(record[attribute]) >= cut for cut in cuts[1:-1])
        parts = grid.size
        if asked.scale is not None:
            cell, parts = _place(asked.scale.cuts, asked.scale.levels, int(record[grid.attributes[0]]))
        value = (2 * cell + 1) / parts - 1 if part.reading.domain.kind == NUMBERS else cell
        tag = bytes([group]) if len(mechanism.groups) > 1 else b""
        for report, chance in _law(part, value, tape).items():
            law[tag + report.ljust(width, b"\0")] = Fraction(asked.share, total) * chance
    return law


def _place(cuts: Sequence[int], levels: Sequence[int], value: int) -> tuple[int, int]:
    """Where a scale puts a value, evenly between the levels around it, in rationals; and of how many places."""
    cell = sum(value >= cut for cut in cuts[1:-1])
    inside = Fraction(2 * (value - cuts[cell]) + 1, 2 * (cuts[cell + 1] - cuts[cell]))
    return min(math.floor(levels[cell] + (levels[cell + 1] - levels[cell]) * inside), levels[-1] - 1), levels[-1]


def check_sparse_sampler(mechanism: Any, vector: Mapping[int, float]) -> None:
    """Over all tapes of short words the reports have exactly the law of the channel, mixed over all short seeds."""
    small, bits, varied = short_sparse(mechanism, vector)
    expected = sparse_law(small, vector, bits)
    for filler in (0, (1 << bits) - 1):
        tape = SomeWordsTape(bits, varied, filler)
        reports = small.drawn(many(small.reading.domain.check([vector])[0], tape.rows), tape)
        assert small.valid(reports).all()
        rows, inverse = tape.odds()
        column = columns_of(small, reports[rows])
        found = [Fraction(0)] * len(expected)
        for odds in np.unique(inverse).tolist():
            counts = np.bincount(column[inverse == odds], minlength=len(found)).tolist()
            found = [before + Fraction(count, odds) for before, count in zip(found, counts, strict=True)]
        assert found == expected


def columns_of(mechanism: Any, reports: NDArray) -> NDArray[np.int64]:
    """Which column of the channel each report is; where it has a hash function, those of one stand together."""
    if "seed" in (reports.dtype.names or ()):
        return reports["seed"].astype(np.int64) * mechanism.channel().component.shape[1] + reports["value"]
    listed, found = (_as_numbers(each) for each in (mechanism.outputs(), reports))
    order = np.argsort(listed)
    column = order[np.minimum(np.searchsorted(listed, found, sorter=order), len(order) - 1)]
    assert (listed[column] == found).all()
    return column


def _as_numbers(reports: NDArray) -> NDArray[np.uint64]:
    """Reports of at most eight bytes as numbers."""
    packed = np.ascontiguousarray(reports).view(np.uint8).reshape(len(reports), -1)
    return np.ascontiguousarray(np.pad(packed, [(0, 0), (0, 8 - packed.shape[1])])).view(np.uint64)[:, 0]


def sparse_law(mechanism: Any, vector: Mapping[int, float], bits: int) -> list[Fraction]:
    """P(report): every choice of s keys, every rounding, every short seed."""
    law: list[Fraction] = []
    for signs, share in as_signs(mechanism, vector, bits).items():
        row = row_of(mechanism, dict(signs), bits)
        law = law or [Fraction(0)] * len(row)
        law = [before + share * added for before, added in zip(law, row, strict=True)]
    return law


def row_of(mechanism: Any, signs: dict[int, int], bits: int) -> list[Fraction]:
    """P(report | a vector of signs), for hash functions with short seeds."""
    if mechanism.structure in SUMMED:
        laws = {total: total_law(mechanism, total, bits) for total in range(-mechanism.s - 1, mechanism.s + 2)}
        totals = (total_of(mechanism, signs, hashed_sign(seed)) for seed in range(1 << bits))
        return [cell / (1 << bits) for total in totals for cell in laws[total]]
    channel, x = mechanism.channel(), signs_of(mechanism.d, mechanism.s).index(signs)
    if channel.shape[1] <= LARGEST_LISTED:
        return channel.row(x)
    return [cell / (1 << bits) for seed in range(1 << bits) for cell in channel.given(x, seed)]
