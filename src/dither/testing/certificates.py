"""Certificates and channels: what is promised is what the integers give, by enumeration.

The certificate of a mechanism comes from the structure of its channel (the ratio of two weights, a product over
dimensions, the worst hash function). Here the matrix is written out, in fractions, and ratio, divergence and blanket
are taken from all pairs of rows. Equality is equality.
"""

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import lcm, prod
from typing import Any

import numpy as np

from dither.core.channel import Table
from dither.core.composite_channels import PublicMixture
from dither.core.domains import CATEGORIES, RECORDS, SPARSE
from dither.core.exact import exp_below
from dither.core.mechanism import Mechanism
from dither.core.structure import CODEBOOK, NOISY_SUM, POINTS
from dither.privacy.certificate import certify
from dither.testing.examples import LARGEST_LISTED, composed, several_reports
from dither.testing.sign_sums import SUMMED, hashed_sign, total_of
from dither.testing.sign_vectors import signs_of

SEEDS = 8  # hash functions that a certificate is compared with


def check_certificate(mechanism: Mechanism) -> None:
    """At most what was declared and within 1e-9 of it; enumeration of all pairs agrees with the structure."""
    promise = certify(mechanism)
    assert promise == mechanism.guarantee
    assert promise.epsilon <= mechanism.epsilon
    assert promise.delta <= mechanism.delta
    assert 0 <= mechanism.report_epsilon - mechanism.report_guarantee.epsilon <= 1e-9 or not mechanism.remembers
    if mechanism.delta == 0:
        assert mechanism.epsilon - promise.epsilon <= 1e-9
    else:
        assert promise.epsilon == mechanism.epsilon
        tight = 1 / 1000 if several_reports(mechanism) else 1  # two reports at half of delta each keep less than delta
        tight = 1 if composed(mechanism) else tight  # and what is left over is spent
        near = 5e-9 if several_reports(mechanism) else 2e-9  # a record of Gaussians is bounded by an ideal one
        assert promise.delta >= tight * mechanism.delta * (1 - near)


def check_channel(mechanism: Mechanism) -> None:
    """Rows sum to one; ratio, divergence and blanket are those of the written-out matrix."""
    if mechanism.structure == POINTS:
        return  # its reports cannot be listed; its own tests compare it with the continuum
    channel: Any = mechanism.channel()
    if mechanism.components and (max(channel.shape) > LARGEST_LISTED or not channel.listed):
        assert channel.ratio() == _product_of_ratios(mechanism)
        for part in mechanism.components:
            check_channel(part)
        return
    if channel.shape[1] > LARGEST_LISTED:
        component = channel.worst_component
        assert component is not channel, "only reports with a public tag may be too many to list"
        if mechanism.structure == CODEBOOK:
            small: Any = mechanism.shortened(1 << 12)
            assert mechanism.law is not None
            assert channel.ratio() == mechanism.law.ratio() ** small.number
            check_worst_tag(small.channel(), range(SEEDS))
            component = mechanism.law
        if mechanism.takes == SPARSE:
            check_worst_tag(channel, range(SEEDS), _same_rows(mechanism))
        channel = component
        if mechanism.structure == NOISY_SUM:
            return  # what follows is the channel of the noise
    elif channel.tagged and mechanism.takes == SPARSE:
        check_worst_tag(channel, range(channel.tags))
    # Tags of parts are in their rows, and rows are averages over them: what is stated is attained under the worst.
    of_parts = composed(mechanism) and any(part.channel().tagged for part in mechanism.components)
    if channel.tagged and composed(mechanism) and not of_parts:
        check_worst_tag(channel, range(channel.tags))
    inputs = channel.shape[0]
    rows = [channel.row(x) for x in (range(inputs) if inputs <= 40 else (0, 1, inputs // 2, inputs - 1))]
    # Over one denominator: sums and comparisons of integers are those of the fractions, and much faster.
    whole = lcm(*(Fraction(probability).denominator for row in rows for probability in row))
    matrix = np.array([[int(probability * whole) for probability in row] for row in rows], dtype=object)
    assert (matrix.sum(axis=1) == whole).all()
    assert (matrix > 0).all()
    assert channel.ratio() == max(map(Fraction, matrix.max(axis=0), matrix.min(axis=0)))
    for ratio in (Fraction(1), exp_below(mechanism.epsilon), exp_below(mechanism.epsilon / 2)):
        p, q = ratio.as_integer_ratio()
        lost = (np.maximum(q * row - p * matrix, 0).sum(axis=1).max() for row in matrix)
        enumerated = Fraction(max(lost), q * whole)
        assert enumerated <= channel.divergence(ratio)
        # The worst tag is stated; where there is but one, a bound has to say so.
        tagged = channel.tagged or of_parts
        assert enumerated == channel.divergence(ratio) or tagged or not channel.exact
    assert channel.blanket().mass <= Fraction(matrix.min(axis=0).sum(), whole)
    assert channel.profile(channel.epsilon) == 0


def check_worst_tag(
    channel: PublicMixture, tags: Iterable[int], same: Callable[[int, int], Any] = lambda x, tag: x
) -> None:
    """Under every one of these tags no more is lost than is stated, and under one of them just as much.

    Of inputs for which `same` is the same under a tag, one stands for all.
    """
    epsilon = channel.epsilon
    ratios = (Fraction(1), Fraction(9, 8), exp_below(epsilon / 2), exp_below(epsilon * 0.9), exp_below(epsilon))
    worst, lost = Fraction(1), dict.fromkeys(ratios, Fraction(0))
    for tag in tags:
        kinds = {same(x, tag): x for x in range(min(channel.shape[0], 100))}
        rows = list({tuple(channel.given(x, tag)) for x in kinds.values()})
        assert all(sum(row) == 1 and min(row) > 0 for row in rows)
        table = Table.of(rows)
        worst = max(worst, table.ratio())
        lost = {ratio: max(most, table.divergence(ratio)) for ratio, most in lost.items()}
        assert channel.blanket().mass <= table.blanket().mass
    assert worst == channel.ratio()
    for ratio, most in lost.items():
        assert most <= channel.divergence(ratio)
        assert most == channel.divergence(ratio) or not channel.exact


def _same_rows(mechanism: Any) -> Callable[[int, int], Any]:
    if mechanism.structure not in SUMMED:
        return lambda x, tag: x
    listed = signs_of(mechanism.d, mechanism.s)
    return lambda x, tag: total_of(mechanism, listed[x], hashed_sign(tag))


def _product_of_ratios(mechanism: Mechanism) -> Fraction:
    dimensions: Any = mechanism.reading
    ratios = [Fraction(part.channel().ratio()) for part in mechanism.components]
    if dimensions.domain.kind == CATEGORIES:
        return ratios[0] ** 2  # two entries differ
    if dimensions.domain.kind != RECORDS:
        return max(ratios)  # one of them reports
    ratios = sorted(Fraction(dimensions.part(j).channel().ratio()) for j in range(dimensions.d))
    return prod(ratios[-dimensions.m :], start=Fraction(1))
