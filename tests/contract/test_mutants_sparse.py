"""Sparse vectors broken on purpose: each mutant is an error that a tired programmer makes, and a check must notice.

A mutant is a patch and the check that has to fail under it. The checks pass on the same victims without the patch: the
contract suite and `test_collision.py` run them, or `passes` does here.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dither
from contract.sparse import caught, sampled
from dither import testing as checks
from dither.core import draw
from dither.core.draw import ELEMENT
from dither.core.hashed_channel import HashedChannel
from dither.core.sparse_domain import Sparse
from dither.kernels.hashing import buckets
from dither.mechanisms import collision
from dither.mechanisms import key_sampling as vectors
from dither.mechanisms.collision import ORDER
from dither.mechanisms.key_sampling import CHOICE
from dither.mechanisms.keyvalue import KeyValues
from marks import wide

CONFLICT: dict[int, float] = {0: 1.0, 1: -1.0}
ALONE: dict[int, float] = {2: -1.0}
REAL: dict[int, float] = {0: 0.3, 1: -1.0}
ALL: dict[int, float] = {0: 1.0, 1: -1.0, 2: 1.0}


def plain(**changes: Any) -> dither.Collision:
    return dither.Collision(**{"d": 3, "s": 2, "epsilon": 1.0, "t": 5, **changes})


def paired(**changes: Any) -> dither.CoCo:
    return dither.CoCo(**{"d": 3, "s": 2, "epsilon": 0.8, "t": 8, **changes})


each = pytest.mark.parametrize("make", [plain, paired])
plain_first = pytest.mark.parametrize("make", [plain, wide(paired)])  # the paired draw the same words, slowly


USERS: list[dict[int, float]] = [{0: 1}, {0: 1, 1: -1}, {1: 0.5, 2: -1}, {}, {2: -0.25}]


def simulated(victim: Any, users: list[dict[int, float]] = USERS, seed: int = 3) -> bool:
    """Whether the estimates of simulated users are seen to be wrong."""
    return caught(checks.check_sparse_estimates, victim, users, times=40_000, seed=seed)


@plain_first
def test_nothing_is_caught_without_a_mutant(make):
    assert not any(sampled(make(), vector) for vector in (CONFLICT, ALONE, REAL))
    assert not simulated(make(epsilon=3.0))
    assert not caught(checks.check_hits, make())


# The draw ------------------------------------------------------------------------------------------------------------


@each
def test_a_total_that_shrinks_with_conflicts(monkeypatch, make):
    def positions(law, tape, rows, favoured, opposed=None):
        """Each row draws below w A + (t - w) B, as if w items were all that a user has."""
        found = np.empty(draw.count_of(rows), dtype=np.uint64)
        for w in range(1, law.favoured + 1):
            own = draw.positions(replace(law, favoured=w), tape, rows)
            found[favoured == w] = own[favoured == w]
        return found

    monkeypatch.setattr(collision, "positions", positions)
    assert sampled(make(), CONFLICT)


@pytest.mark.parametrize("paired_", [False, True])
def test_a_channel_whose_total_shrinks(monkeypatch, paired_):
    def given(self, hit):
        """Rows sum to one, and nothing is spread."""
        high, low = self.law.high, self.law.low
        weights = [low] * self.law.outputs
        for place, first in hit.items():
            weights[place if first else place + self.places] = high
        return [Fraction(weight, sum(weights)) for weight in weights]

    victim = paired() if paired_ else plain()
    monkeypatch.setattr(HashedChannel, "given", given)
    assert caught(checks.check_channel, victim)


@each
def test_a_second_draw_that_is_not_uniform(monkeypatch, make):
    real = draw.below

    def below(bound, tape, rows, *, lane, width=1):
        if lane != ELEMENT:
            return real(bound, tape, rows, lane=lane, width=width)
        return tape.words(lane, rows)[:, 0] % bound  # no word is rejected

    monkeypatch.setattr(draw, "below", below)
    assert sampled(make(), CONFLICT)


@each
def test_no_second_draw(monkeypatch, make):
    # The rest of the first draw is used again: what conflicts leave over falls on the last buckets.
    def positions(law, tape, rows, favoured, opposed=None):
        found = draw.positions(law, tape, rows)
        return np.where(found < law.favoured, np.minimum(found, favoured - np.uint64(1)), found)

    monkeypatch.setattr(collision, "positions", positions)
    assert sampled(make(), CONFLICT)


def test_the_opposite_at_the_high_weight(monkeypatch):
    def positions(law, tape, rows, favoured, opposed):
        return draw.positions(law, tape, rows, favoured=favoured + opposed)

    monkeypatch.setattr(collision, "positions", positions)
    assert sampled(paired(), CONFLICT)
    assert sampled(paired(), ALONE)
    assert simulated(paired(epsilon=3.0))


def test_the_opposite_with_a_share_of_the_rest(monkeypatch):
    def positions(law, tape, rows, favoured, opposed):
        return draw.positions(law, tape, rows, favoured=favoured)

    monkeypatch.setattr(collision, "positions", positions)
    assert sampled(paired(), CONFLICT)


def test_a_channel_with_the_opposite_at_the_high_weight(monkeypatch):
    real = HashedChannel.given

    def given(self, hit):
        high = Fraction(self.law.high, self.law.total)
        return [max(cell, high) if y % self.places in hit else cell for y, cell in enumerate(real(self, hit))]

    victim = paired()
    monkeypatch.setattr(HashedChannel, "given", given)
    assert caught(checks.check_channel, victim)


@pytest.mark.parametrize("turn", ["first", "last"])
def test_a_winner_that_is_always_the_same(monkeypatch, turn):
    real = draw.below

    def below(bound, tape, rows, *, lane, width=1):
        if lane != ORDER:
            return real(bound, tape, rows, lane=lane, width=width)
        same = np.zeros_like(bound) if turn == "last" else bound - np.uint64(1)
        return np.repeat(same, draw.count_of(rows), axis=0)

    monkeypatch.setattr(collision, "below", below)
    assert sampled(paired(), CONFLICT)
    one_side: list[dict[int, float]] = [{0: 1, 1: 1}]
    assert simulated(paired(epsilon=4.0, t=6), one_side)  # one of the keys is overwritten too often


def test_all_keys_of_a_pair_count(monkeypatch):
    # As in Collision: w is then the number of favoured buckets, and a bucket may be favoured and opposed at once.
    monkeypatch.setattr(dither.CoCo, "_counts", lambda self, pair, tape, rows: np.ones(pair.shape, dtype=bool))
    assert sampled(paired(), CONFLICT)


# What is hashed ------------------------------------------------------------------------------------------------------


def leave_out_dummies(monkeypatch):
    """In the sampler a dummy becomes the first key once more."""
    real = collision.chosen

    def chosen(domain, values, tape, rows):
        keys, signs = real(domain, values, tape, rows)
        left = keys >= domain.d
        return np.where(left, keys[:, :1], keys), np.where(left, signs[:, :1], signs)

    monkeypatch.setattr(collision, "chosen", chosen)


@each
def test_dummies_left_out_of_the_sampler(monkeypatch, make):
    leave_out_dummies(monkeypatch)
    assert sampled(make(), ALONE)


def test_dummies_left_out_everywhere(monkeypatch):
    # Channel and sampler agree; a key that is alone is overwritten less often than the estimator thinks.
    leave_out_dummies(monkeypatch)
    monkeypatch.setattr(Sparse, "padded", lambda self, vector: list(vector.items()) or [(self.d, 1)])
    assert not sampled(paired(), ALONE)
    assert simulated(paired(epsilon=3.0), [{0: 1}, {1: -1}, {2: 1}])


@each
def test_dummies_that_are_keys(monkeypatch, make):
    real = collision.chosen

    def chosen(domain, values, tape, rows):
        keys, signs = real(domain, values, tape, rows)
        return keys % domain.d, signs

    monkeypatch.setattr(collision, "chosen", chosen)
    assert sampled(make(), ALONE)
    assert simulated(make(epsilon=3.0))


@each
def test_signs_swapped(monkeypatch, make):
    real = vectors.rounded_signs
    monkeypatch.setattr(vectors, "rounded_signs", lambda values, tape, rows: ~real(values, tape, rows))
    assert sampled(make(), CONFLICT)
    assert simulated(make(epsilon=3.0))


@plain_first
@pytest.mark.parametrize("mutant", ["nearest", "up", "half", "one word"])
def test_rounding_that_is_biased(monkeypatch, make, mutant):
    real = vectors.rounded_signs

    def rounded(values, tape, rows):
        found = real(values, tape, rows)
        if mutant == "nearest":
            return values > 0
        if mutant == "up":
            return found | ((values > -1) & (values < 1))
        if mutant == "half":
            return np.where(np.abs(values) < 1, real(np.where(np.abs(values) < 1, 0.0, values), tape, rows), found)
        return np.repeat(real(values[:, :1], tape, rows), values.shape[1], axis=1)

    monkeypatch.setattr(vectors, "rounded_signs", rounded)
    assert sampled(make(), REAL)


@plain_first
def test_sampling_down_takes_the_first(monkeypatch, make):
    real = draw.below

    def below(bound, tape, rows, *, lane, width=1):
        if lane == CHOICE:
            return np.zeros_like(bound)
        return real(bound, tape, rows, lane=lane, width=width)

    victim = make(sample=True, t=6)
    assert not sampled(victim, ALL)
    monkeypatch.setattr(vectors, "below", below)
    assert sampled(victim, ALL)


@each
def test_sampling_down_that_moves_keys_without_their_values(monkeypatch, make):
    real = vectors._sampled

    def mixed(s, values, tape, rows):
        return real(s, values, tape, rows)[0], values["value"][:, :s]

    monkeypatch.setattr(vectors, "_sampled", mixed)
    assert sampled(make(sample=True, t=6), {0: 1.0, 1: 1.0, 2: -1.0})


@each
def test_items_hashed_with_another_function_than_is_sent(monkeypatch, make):
    monkeypatch.setattr(collision, "buckets", lambda seeds, items, t: buckets(seeds + np.uint64(1), items, t))
    assert simulated(make(epsilon=3.0))


# The estimator -------------------------------------------------------------------------------------------------------


def swap_hits(monkeypatch, cls, change) -> None:
    """Let the estimator believe in other hits; the sampler keeps its own."""
    real = cls._hits
    monkeypatch.setattr(cls, "_hits", lambda self, high, low, t: change(real(self, high, low, t)))


def test_an_opposite_that_counts_as_absent(monkeypatch):
    # P_o = P_f holds for Collision. In CoCo a user who has one item speaks against the other.
    swap_hits(monkeypatch, dither.CoCo, lambda hits: hits._replace(opposite=hits.false))
    assert caught(checks.check_hits, paired())
    assert simulated(paired(epsilon=3.0))


@pytest.mark.parametrize(
    "change",
    [
        lambda hits: hits._replace(true=hits.true * Fraction(101, 100)),
        lambda hits: hits._replace(both=0 * hits.both),
        lambda hits: hits._replace(both_false=0 * hits.both),
        lambda hits: hits._replace(false=hits.false * Fraction(99, 100)),
    ],
    ids=["true", "both", "both_false", "false"],
)
def test_hits_that_are_off(monkeypatch, change):
    swap_hits(monkeypatch, dither.Collision, change)
    assert caught(checks.check_hits, plain())


def test_overwriting_forgotten(monkeypatch):
    def hits(self, high, low, t):
        total = self.s * high + (t - self.s) * low
        return collision.Hits(high / total, low / total, 0 * high, 1 / (t * (high / high)), 0 * high)

    monkeypatch.setattr(dither.CoCo, "_hits", hits)
    assert caught(checks.check_hits, paired())
    assert simulated(paired(epsilon=3.0))


@each
def test_a_tally_with_the_signs_swapped(monkeypatch, make):
    cls = type(make())
    real = cls._count
    monkeypatch.setattr(cls, "_count", lambda self, reports: real(self, reports)[:, ::-1])
    assert caught(checks.check_hits, make())
    assert simulated(make(epsilon=3.0))


def check_rounding(victim: Any) -> None:
    """A value between the signs adds 1 - x^2 to the variance."""
    ends = victim.moments([{0: -1}, {0: 1}]).variance[:, 0].mean()
    assert np.isclose(victim.moments([{0: 0.5}]).variance[0, 0], ends + 0.75)


@each
def test_moments_without_rounding(monkeypatch, make):
    real = KeyValues.moments

    def moments(self, x):
        rows = self.domain.check(x)
        rows["value"] = np.sign(rows["value"])
        return real(self, rows)

    check_rounding(make())
    monkeypatch.setattr(KeyValues, "moments", moments)
    assert caught(check_rounding, make())


@plain_first
def test_error_bars_that_are_too_small(monkeypatch, make):
    real = KeyValues._covariances
    monkeypatch.setattr(KeyValues, "_covariances", lambda self, one, other: 0.7 * real(self, one, other))
    victim = make()
    users = victim.reading.domain.check([{0: 1}, {0: 1, 1: -1}] * 200)
    assert caught(checks.check_coverage, victim, users, collections=3000, seed=5)
