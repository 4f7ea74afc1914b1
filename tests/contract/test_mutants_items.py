"""PrivKV, PCKV, Succinct and SignSum broken on purpose: each mutant is an error that a tired programmer makes.

A mutant is a patch and the check that has to fail under it; where it says so, other checks must stay blind, which is
why there are several. Small errors inside a method are typed into its source (`retype`): if the piece is no longer
there, the mutant has to be looked at again. The checks pass on the same victims without a patch.
"""

import inspect
import sys
import textwrap
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import dither
from contract.sparse import caught, sampled
from dither import kernels
from dither import testing as checks
from dither.core import draw
from dither.core.additive_channel import AdditiveChannel
from dither.core.draw import TAG
from dither.core.exact import log_above
from dither.core.mechanism import Mechanism
from dither.core.sparse_domain import Sparse
from dither.mechanisms import key_sampling as vectors
from dither.mechanisms import pckv, succinct
from dither.mechanisms.key_sampling import CHOICE
from dither.mechanisms.keyvalue import KeyValues

BOTH: dict[int, float] = {0: 1.0, 1: -1.0}
ALONE: dict[int, float] = {2: -1.0}
REAL: dict[int, float] = {0: 0.3, 1: -1.0}
ALL: dict[int, float] = {0: 1.0, 1: -1.0, 2: 1.0}


def asked(**changes: Any) -> dither.PrivKV:
    return dither.PrivKV(**{"d": 3, "s": 2, "epsilon": 1.0, **changes})


def listed(**changes: Any) -> dither.PCKV_GRR:
    return dither.PCKV_GRR(**{"d": 3, "s": 2, "epsilon": 1.0, **changes})


def favoured(**changes: Any) -> dither.PCKV_AGRR:
    return dither.PCKV_AGRR(**{"d": 3, "s": 2, "epsilon": 1.0, **changes})


def unary(**changes: Any) -> dither.PCKV_UE:
    return dither.PCKV_UE(**{"d": 3, "s": 2, "epsilon": 1.0, **changes})


def bit(**changes: Any) -> dither.SignSum:
    return dither.SignSum(**{"d": 3, "s": 2, "epsilon": 1.0, **changes})


def noisy(**changes: Any) -> dither.Succinct:
    law = AdditiveChannel((9, 7, 4, 2, 1), steps=2, reach=2)
    coarse = {"epsilon": log_above(law.ratio()), "weights": (*law.weights, 2, 2, 1)}
    return dither.Succinct(**{"d": 3, "s": 2, "eta": 1, **coarse, **changes})


SINGLE, LISTED, SUMS = [listed, unary], [listed, favoured], [bit, noisy]
EVERY = [asked, listed, favoured, unary, bit, noisy]
each = pytest.mark.parametrize("make", EVERY)
each_single = pytest.mark.parametrize("make", SINGLE)
each_sum = pytest.mark.parametrize("make", SUMS)


def misread(victim: Any) -> bool:
    """Whether the reading is seen to be wrong, by enumeration of what reports count for every kind of user."""
    return caught(checks.check_outcomes, victim)


def retype(monkeypatch: Any, owner: Any, name: str, old: str, new: str) -> None:
    """Another piece of source in a function, method or cached property."""
    found = inspect.getattr_static(owner, name)
    function = found.func if isinstance(found, cached_property) else getattr(found, "fget", None) or found
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, "what this mutant changes has changed"
    module = dict(vars(sys.modules[function.__module__]))
    exec(source.replace(old, new), module)  # noqa: S102
    made = module[name]
    if isinstance(made, cached_property):
        made.__set_name__(owner, name)
    monkeypatch.setattr(owner, name, made)


@each
def test_nothing_is_caught_without_a_mutant(make):
    for vector in (BOTH, ALONE, REAL, {}):
        assert not sampled(make(), vector)
    assert not sampled(make(sample=True), ALL)
    assert not misread(make())
    assert make is unary or not caught(checks.check_channel, make())


# Which keys ----------------------------------------------------------------------------------------------------------


def test_one_dummy_for_all(monkeypatch):
    real = pckv.chosen

    def chosen(domain, values, tape, rows):
        keys, plus = real(domain, values, tape, rows)
        return np.minimum(keys, domain.d), plus

    monkeypatch.setattr(pckv, "chosen", chosen)
    assert sampled(favoured(), {})
    assert not sampled(favoured(), BOTH)


def test_one_dummy_for_all_in_the_channel(monkeypatch):
    monkeypatch.setattr(dither.PCKV_AGRR, "_item", lambda self, key, sign: min(2 * key + (sign > 0), 2 * self.d))
    assert caught(checks.check_channel, favoured())


def own_keys_only(monkeypatch):
    """The key to report is drawn from the user's own, and dummies are for users without any."""
    retype(monkeypatch, vectors, "picked", ".sum(axis=1), domain.s)", ".sum(axis=1), 1)")
    monkeypatch.setattr(pckv, "picked", vectors.picked)


@each_single
def test_a_key_drawn_from_the_own_ones(monkeypatch, make):
    own_keys_only(monkeypatch)
    assert sampled(make(), ALONE)
    assert not sampled(make(), BOTH)


@each_single
def test_a_key_drawn_from_the_own_ones_everywhere(monkeypatch, make):
    # Channel and sampler agree, and it is as private; but users with few keys count too much.
    own_keys_only(monkeypatch)
    monkeypatch.setattr(Sparse, "padded", lambda self, vector: list(vector.items()) or [(self.d, 1)])
    assert not sampled(make(), ALONE)
    assert misread(make())


def test_a_question_about_an_own_key(monkeypatch):
    retype(
        monkeypatch,
        dither.PrivKV,
        "_fill",
        "key = below(self.d, tape, rows, lane=TAG).astype(np.int64)",
        "key = np.where(values['key'][:, 0] < 0, below(self.d, tape, rows, lane=TAG), values['key'][:, 0]).astype(int)",
    )
    assert sampled(asked(), ALONE)
    assert not sampled(asked(), {})


def test_a_question_that_s_keys_hear(monkeypatch):
    # Users with more keys than s answer as if they had the first s.
    retype(
        monkeypatch,
        dither.PrivKV,
        "_fill",
        'values["key"] == key[:, None]',
        'values["key"] == key[:, None]; here[:, self.s:] = False',
    )
    assert sampled(asked(sample=True), ALL)
    assert not sampled(asked(), BOTH)


@each_single
def test_a_dummy_that_is_the_first_key(monkeypatch, make):
    real = pckv.picked

    def picked(domain, values, tape, rows):
        key, plus = real(domain, values, tape, rows)
        return key % domain.d, plus

    monkeypatch.setattr(pckv, "picked", picked)
    assert sampled(make(), ALONE)


@pytest.mark.parametrize("make", [favoured, bit, noisy])
def test_dummies_that_are_keys(monkeypatch, make):
    module = pckv if make is favoured else succinct
    real = module.chosen

    def chosen(domain, values, tape, rows):
        keys, plus = real(domain, values, tape, rows)
        return keys % domain.d, plus

    monkeypatch.setattr(module, "chosen", chosen)
    assert sampled(make(), ALONE)


@pytest.mark.parametrize("make", [listed, favoured, unary, bit, noisy])
def test_sampling_down_takes_the_first(monkeypatch, make):
    real = draw.below

    def below(bound, tape, rows, *, lane, width=1):
        found = real(bound, tape, rows, lane=lane, width=width)
        return found * 0 if lane == CHOICE else found

    monkeypatch.setattr(vectors, "below", below)
    assert sampled(make(sample=True), ALL)


# Draws ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "lane"), [(asked, TAG), (listed, CHOICE), (favoured, CHOICE), (bit, CHOICE)])
def test_words_that_are_never_rejected(monkeypatch, make, lane):
    real = draw.below

    def below(bound, tape, rows, *, lane: int, width=1, mutated=lane):
        if lane != mutated:
            return real(bound, tape, rows, lane=lane, width=width)
        words = tape.words(lane, rows, width) % np.asarray(bound, dtype=np.uint64)
        return words[:, 0] if width == 1 else words

    for module in (pckv, vectors):
        monkeypatch.setattr(module, "below", below)
    assert sampled(make(sample=True), ALL)


@pytest.mark.parametrize("make", [asked, listed, favoured, bit])
def test_a_draw_that_is_never_rejected(monkeypatch, make):
    def positions(law, tape, rows):
        # The words past the last full round count as favoured.
        u, scale = tape.words(draw.DRAW, rows)[:, 0], np.uint64((1 << tape.bits) // law.total)
        edge = np.uint64(law.favoured * law.high) * scale
        outside = np.uint64(law.favoured) + (u - edge) // (np.uint64(law.low) * scale)
        return np.where(u < edge, u // (np.uint64(law.high) * scale), np.where(outside < law.outputs, outside, 0))

    monkeypatch.setattr(succinct if make is bit else pckv, "positions", positions)
    assert sampled(make(), BOTH)


def test_a_total_that_shrinks_with_the_keys(monkeypatch):
    # Dummies are left out of the law: users with few keys have a smaller total.
    def members(self, x):
        return [2 * key + (sign > 0) for key, sign in self.domain.vector(x).items()]

    victim = favoured()
    shrunk = replace(victim.law, members=lambda x: members(victim, x))
    monkeypatch.setattr(dither.PCKV_AGRR, "channel", lambda self: shrunk)
    assert caught(checks.check_channel, victim)


@each
def test_signs_flipped(monkeypatch, make):
    for module in (vectors, pckv):
        real = module.rounded_signs
        monkeypatch.setattr(module, "rounded_signs", lambda values, tape, rows, real=real: ~real(values, tape, rows))
    assert sampled(make(), BOTH)


@each
@pytest.mark.parametrize("mutant", ["nearest", "half"])
def test_rounding_that_is_biased(monkeypatch, make, mutant):
    for module in (vectors, pckv):

        def rounded(values, tape, rows, real=module.rounded_signs):
            if mutant == "nearest":
                return values > 0
            return real(np.where(np.abs(values) < 1, 0.0, values), tape, rows)

        monkeypatch.setattr(module, "rounded_signs", rounded)
    assert sampled(make(), REAL)


# Unary encoding ------------------------------------------------------------------------------------------------------

UNARY = {
    "never cleared": ("plane[row, at] & ~bit)", "plane[row, at])"),
    "never set": ("plane[row, at] | bit,", "plane[row, at],"),
    "no mask on a plane": ('"minus": some & ~side', '"minus": ~side'),
    "both planes alike": ('"minus": some & ~side', '"minus": some & side'),
    "side tossed by the same coins": (", first=_SIDE)", ")"),
    "the other sign at its own weight": ("== sign, 0, 1)", "== sign, 1, 0)"),
    "only the own sign": (
        "letter[row] == np.where(plus[row] == sign, 0, 1)",
        "(letter[row] == 0) & (plus[row] == sign)",
    ),
    "the next key": (
        "at, bit = key[row] // 8, np.uint8(1) << (key[row] % 8)",
        "at, bit = key[row] // 8, np.uint8(1) << ((key[row] + 1) % 3)",
    ),
    "bits of a byte the other way": ("<< (key[row] % 8)", "<< (2 - key[row] % 8)"),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_encoding(monkeypatch, name):
    retype(monkeypatch, dither.PCKV_UE, "_fill", *UNARY[name])
    assert sampled(unary(), BOTH)


def test_unary_hits_without_the_other_keys(monkeypatch):
    # A key that was not drawn is hit as often as one that the user lacks.
    retype(monkeypatch, dither.PCKV_UE, "hits", "+ (s - 1) * false) / s", ") / s")
    assert misread(unary())
    assert not misread(unary(s=1))


# Sums ----------------------------------------------------------------------------------------------------------------


@each_sum
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if self.s % 2 == 0:", "if False:"),  # an even number of signs, and a tie
        ("constant_values=self.d + self.s)", "constant_values=self.d + self.s - 1)"),  # a dummy that is there already
        ("constant_values=True", "constant_values=False"),
    ],
)
def test_the_dummy_that_makes_it_odd(monkeypatch, make, old, new):
    retype(monkeypatch, succinct._Summed, "_fill", old, new)
    assert any(sampled(make(), vector) for vector in ({}, ALONE, BOTH))  # short seeds are few: not all vectors tell
    assert not sampled(make(s=3), BOTH)


@each_sum
def test_keys_hashed_instead_of_items(monkeypatch, make):
    # Sampler and channel share this: the two items of a key are one.
    retype(monkeypatch, succinct._Summed, "_total", "2 * keys + plus if", "keys if")
    assert sampled(make(), BOTH)
    assert misread(make())


@each_sum
def test_means_without_signs(monkeypatch, make):
    retype(monkeypatch, succinct._Summed, "_total", "up ^= ~plus", "pass")
    assert sampled(make(goal="mean"), BOTH)
    assert misread(make(goal="mean"))
    assert not sampled(make(goal="presence"), BOTH)


@each_sum
def test_presences_with_signs(monkeypatch, make):
    retype(monkeypatch, succinct._Summed, "_total", '== "mean"', '!= "frequency"')
    assert sampled(make(goal="presence"), BOTH)


def test_no_clip(monkeypatch):
    monkeypatch.setattr(dither.Succinct, "_clipped", lambda self, total: total / self.eta)
    assert sampled(noisy(s=3), {0: 1.0, 1: 1.0})
    assert caught(checks.check_channel, noisy(s=3))


@each_sum
def test_the_other_half_of_sums(monkeypatch, make):
    real = type(make())._noisy
    monkeypatch.setattr(type(make()), "_noisy", lambda self, total, tape, rows: real(self, -total, tape, rows))
    assert sampled(make(), BOTH)


@each_sum
@pytest.mark.parametrize("goal", succinct.GOALS)
def test_a_gain_for_too_few_terms(monkeypatch, make, goal):
    # An even s made odd by one term less in the reading, and by one more in the sum.
    retype(monkeypatch, succinct._Summed, "_own", "others = self.terms - 1", "others = (self.s - 1) // 2 * 2")
    assert misread(make(goal=goal))
    assert not misread(make(goal=goal, s=3))


@each_sum
def test_a_gain_for_one_term_more(monkeypatch, make):
    retype(monkeypatch, succinct._Summed, "_own", "others = self.terms - 1", "others = self.terms + 1")
    assert misread(make(s=1, goal="mean"))


@each_sum
@pytest.mark.parametrize("shift", [-1, 1])
def test_values_counted_from_beside_the_middle(monkeypatch, make, shift):
    retype(monkeypatch, succinct._Summed, "_support", "shape[1] - 1)", f"shape[1] - 1 + {shift})")
    assert misread(make())


@each_sum
def test_sums_with_the_other_sign(monkeypatch, make):
    real = kernels.hash_sums
    monkeypatch.setattr(kernels, "hash_sums", lambda seeds, values, k: -real(seeds, values, k))
    assert misread(make())


# Reading -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", EVERY)
def test_minus_and_plus_swapped(monkeypatch, make):
    cls = type(make())
    real = cls._count

    def count(self, reports):
        counts = real(self, reports)
        return np.concatenate([counts[:, :-2], counts[:, :-3:-1]], axis=1)

    monkeypatch.setattr(cls, "_count", count)
    assert misread(make())


@pytest.mark.parametrize("make", LISTED)
def test_the_dummy_counted_as_a_key(monkeypatch, make):
    retype(monkeypatch, Mechanism, "_count", 'reports["value"],', 'reports["value"] % (2 * self.d),')
    assert misread(make())


def test_an_item_that_does_not_count_s_times(monkeypatch):
    retype(monkeypatch, dither.PCKV_GRR, "hits", "(high + (self.s - 1) * low) / self.s", "high")
    assert misread(listed())
    assert not misread(listed(s=1))


def test_hits_without_those_of_other_keys(monkeypatch):
    retype(monkeypatch, dither.PCKV_GRR, "hits", "(high + (self.s - 1) * low) / self.s", "high / self.s")
    assert misread(listed())


def test_everybody_asked_about_everything(monkeypatch):
    retype(monkeypatch, dither.PrivKV, "reading", "asked=1 / self.d", "asked=2 / self.d")
    assert misread(asked())


def test_the_number_of_those_asked_forgotten(monkeypatch):
    # The first count is that of the answer `absent`.
    retype(monkeypatch, dither.PrivKV, "_count", "counts[:, 0] = counts.sum(axis=1)", "pass")
    assert misread(asked())


@each
@pytest.mark.parametrize("change", [Fraction(101, 100), Fraction(99, 100)])
def test_a_law_that_is_off(monkeypatch, make, change):
    victim = make()
    law = victim.reading.law
    chance = law.chance.copy()
    chance[1:] = (
        float(change) * chance[1:] + float(1 - change) * chance[:1]
    )  # own signs show by a per cent more or less
    read = KeyValues(victim.domain, replace(law, chance=chance), victim.reading.about)
    monkeypatch.setattr(type(victim), "reading", read)
    assert misread(make())


@each
def test_moments_that_are_too_small(monkeypatch, make):
    real = KeyValues.moments

    def moments(self, x):
        found = real(self, x)
        return replace(found, variance=found.variance * 0.999)

    monkeypatch.setattr(KeyValues, "moments", moments)
    assert misread(make())
