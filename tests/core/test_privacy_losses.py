"""Losses put together, against products written out: exact where they say so, and above the truth elsewhere."""

from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import comb, prod

import numpy as np
import pytest

import dither
from dither.core import privacy_losses
from dither.core.channel import Channel, Table, TwoLevel, Walk, hockey_stick
from dither.core.composite_channels import Independent, Product, PublicMixture
from dither.core.exact import exp_below
from dither.core.privacy_losses import (
    divergence_of,
    dominating,
    lattice_divergence,
    walked,
    walked_divergence,
    worst_choices,
)

RATIOS = [Fraction(1), Fraction(9, 8), Fraction(3, 2), Fraction(2), Fraction(3), Fraction(11, 2), Fraction(30)]
# Signs, categories and windows; large ratios that are rare and small ones that are frequent; ties between powers.
SIGN, STEEP, GRR, WIDE = (
    TwoLevel(3, 1, 1, 2),
    TwoLevel(9, 1, 1, 12, inputs=2),
    TwoLevel(5, 2, 1, 3),
    TwoLevel(4, 3, 1, 4),
)
WINDOW = TwoLevel(4, 1, favoured=2, outputs=5, apart=2, inputs=4, members=lambda i: range(i, i + 2))
SWAPPED = TwoLevel(2, 5, 1, 3)
BITS = Product(Table(((5, 3), (2, 6))), 3, 3, lambda x: [int(x == v) for v in range(3)], (((1, 0), (0, 1)),))
LAWS: list[Channel] = [SIGN, STEEP, GRR, WIDE, WINDOW, SWAPPED, BITS]


def every_pair(factors: tuple[Channel, ...], ratio: Fraction) -> Fraction:
    """The largest divergence of any two inputs of independent coordinates, from the definition."""
    rows = [
        [
            prod(cells, start=Fraction(1))
            for cells in product(*(f.row(x) for f, x in zip(factors, letters, strict=True)))
        ]
        for letters in product(*(range(factor.shape[0]) for factor in factors))
    ]
    return max(hockey_stick(one, other, ratio) for one in rows for other in rows)


def two_rows(factor: Channel) -> list[list[Fraction]]:
    """The two inputs that the walk is about: any two of these laws that are far apart."""
    return [factor.row(0), factor.row(factor.shape[0] - 1)]


def worst_words(factors: tuple[Channel, ...], ratio: Fraction) -> Fraction:
    """The divergence of the two far inputs in every coordinate, written out."""
    words = [
        [prod(cells, start=Fraction(1)) for cells in product(*(two_rows(factor)[x] for factor in factors))]
        for x in (0, 1)
    ]
    return hockey_stick(words[0], words[1], ratio)


@pytest.mark.parametrize("factors", list(combinations_with_replacement(LAWS, 2)), ids=lambda pair: "")
def test_two_laws_of_any_kind_are_exact(factors):
    for asked in (1, 2):
        channel = Independent(factors, asked)
        assert channel.exact
        for ratio in RATIOS:
            true = max(every_pair(chosen, ratio) for chosen in combinations(factors, asked))
            assert channel.divergence(ratio) == true
            assert channel.gap(ratio) == 0


@pytest.mark.parametrize(
    "factors", list(combinations_with_replacement((SIGN, GRR, STEEP, WIDE, BITS), 3)), ids=lambda f: ""
)
def test_three_laws_with_every_number_of_answers(factors):
    for asked in (1, 2, 3):
        channel = Independent(factors, asked)
        assert channel.exact
        for ratio in RATIOS[1::2]:
            true = max(worst_words(chosen, ratio) for chosen in combinations(factors, asked))
            assert channel.divergence(ratio) == true


def test_the_cases_of_the_issue():
    """What was added up before, beside what is attained; the numbers are those of the enumeration."""
    for bases, epsilon, delta, true in (
        (("Duchi", "GRR(k=3)"), 1.0, 0.1, 0.0535),
        (("GRR(k=10)", "GRR(k=10)", "Duchi"), 1.0, 0.5, 0.317),
    ):
        parts = [dither.Split(base, d=2, epsilon=epsilon).part(0) for base in bases]  # halves of epsilon
        made = [type(part)(**{**_own(part), "epsilon": epsilon / 2, "delta": delta / 2}) for part in parts]
        factors = tuple(part.channel() for part in made)
        ratio = exp_below(epsilon)
        enumerated = max(worst_words(chosen, ratio) for chosen in combinations(factors, 2))
        assert Independent(factors, 2).divergence(ratio) == enumerated
        assert float(enumerated) == pytest.approx(true, abs=5e-4)
    alone = dither.Sampled(("Duchi", "GRR(k=3)"), d=2, m=1, epsilon=1.0, delta=0.1)
    assert alone.guarantee.established == "exact"
    assert alone.guarantee.delta == pytest.approx(0.1, rel=1e-9)


def _own(part) -> dict:
    return {"k": part.k} if hasattr(part, "k") else {}


# Walks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", LAWS, ids=lambda law: type(law).__name__)
def test_a_walk_has_the_divergence_of_its_channel(factor):
    walk = factor.walk
    assert walk is not None
    assert walk.ratio == factor.ratio()
    assert walk.distance == factor.divergence(Fraction(1))
    assert sum(walk) == walk.up + walk.still + walk.down
    for ratio in RATIOS:
        assert max(Fraction(0), (walk.up - ratio * walk.down) / sum(walk)) == factor.divergence(ratio)


def test_what_has_no_walk():
    assert Table(((5, 2, 1), (1, 6, 1))).walk is None
    uneven = Product(Table(((5, 2, 1), (1, 4, 3))), 2, 2, lambda x: [x, 1 - x], (((1, 0), (0, 1)),))
    assert uneven.walk is None  # more than one ratio
    one_way = Product(Table(((5, 3), (2, 6))), 1, 2, lambda x: [x], (((0,), (1,)),))
    assert one_way.walk is None  # up by 5/2 and down by 2
    shown = Product(Table(((1, 0), (0, 1))), 2, 2, lambda x: [x, 1 - x], (((1, 0), (0, 1)),))
    assert shown.walk is None  # an output is impossible
    tagged = PublicMixture(SIGN, 2, 2, lambda x, tag: SIGN.row(x))
    assert tagged.walk == SIGN.walk
    assert Independent((SIGN, SIGN), 1).walk == SIGN.walk
    assert Independent((SIGN, SIGN), 2).walk is Independent((SIGN, GRR), 1).walk is None


def test_many_equal_walks_against_the_binomial():
    # With nothing in between, ups are binomial: P(j ups of n) in integers.
    pairs = walked(Walk(7, 0, 2), 9)
    assert pairs[::2] == [(comb(9, j) * 7**j * 2 ** (9 - j), comb(9, j) * 2**j * 7 ** (9 - j)) for j in range(10)]
    assert not any(map(any, pairs[1::2]))


def test_domination_is_domination():
    """In any company the dominating one is worse; where neither dominates, each is worse somewhere."""
    walks = [law.walk for law in LAWS if law.walk is not None]
    for one, other in product(walks, repeat=2):
        at = [_lost(one, ratio) >= _lost(other, ratio) for ratio in (Fraction(i, 50) for i in range(50, 800))]
        assert one.dominates(other) == all(at)
        if one.dominates(other):
            for third, ratio in product(walks, RATIOS):
                assert divergence_of(walked(one, 1), walked(third, 2), ratio) >= divergence_of(
                    walked(other, 1), walked(third, 2), ratio
                )
    above = dominating(walks)
    assert all(above.dominates(walk) for walk in walks)
    assert min(above) >= 0


def _lost(walk: Walk, ratio: Fraction) -> Fraction:
    return max(Fraction(0), (walk.up - ratio * walk.down) / sum(walk))


def test_the_worst_choice_is_among_those_looked_at():
    walks = {law.walk: number for law, number in ((SIGN, 2), (STEEP, 1), (GRR, 3), (WIDE, 2))}
    everything = [walk for walk, number in walks.items() for _ in range(number)]
    for asked in range(1, 9):
        choices = worst_choices(walks, asked)
        assert choices is not None
        assert all(sum(choice.values()) == asked for choice in choices)
        for ratio in RATIOS:
            true = max(
                walked_divergence([{walk: chosen.count(walk) for walk in chosen}], ratio).most
                for chosen in combinations(everything, asked)
            )
            assert walked_divergence(choices, ratio).most == true


def test_too_many_choices_are_bounded_by_what_dominates_them():
    # At one epsilon and delta, GRR with different k are such that none dominates another.
    laws = tuple(dither.GRR(k=k, epsilon=0.5, delta=0.01).channel() for k in range(2, 32))
    channel = Independent(laws, 3)
    assert not channel.exact
    ratio = exp_below(1.5)
    stated = channel.divergence(ratio)
    some = [
        Independent(chosen, 3).divergence(ratio) for chosen in combinations((laws[0], laws[1], laws[9], laws[29]), 3)
    ]
    assert max(some) <= stated <= 0.03 + 1e-9
    assert channel.gap(ratio) == stated


# On a lattice --------------------------------------------------------------------------------------------------------

MIXES = [
    ({SIGN: 40}, 6.0),
    ({SIGN: 3, GRR: 2, WIDE: 1}, 1.0),
    ({WIDE: 20, GRR: 10}, 3.0),
    ({TwoLevel(1001, 1000, 1, 2): 60, TwoLevel(1003, 1000, 1, 5): 30}, 0.01),
    ({TwoLevel.fit(0.05, favoured=1, outputs=2): 30, TwoLevel.fit(0.07, favoured=1, outputs=9): 30}, 1.5),
    ({STEEP: 5, SIGN: 5, GRR: 5}, 8.0),
]


def check_lattice() -> None:
    """The bound is above the truth, which is worked out in integers, and by less than it says."""
    for laws, epsilon in MIXES:
        walks = {law.walk: times for law, times in laws.items()}
        for share in (0.3, 1.0, 1.7):
            ratio = exp_below(epsilon * share)
            halves = privacy_losses._halves(walks)
            true, stated = divergence_of(*halves, ratio), lattice_divergence(walks, ratio)
            assert true <= stated.most
            assert stated.most - stated.gap <= true
            assert stated.most <= true * (1 + Fraction(1, 10**5)) + Fraction(1, 10**130)
            assert stated.gap <= true / 100 + Fraction(1, 10**130)


def test_the_lattice_is_above_the_truth_by_less_than_it_says():
    check_lattice()


def test_a_lattice_that_rounds_down_is_caught(monkeypatch):
    real = privacy_losses._added

    def down(mass, first, law, cells, step):
        return real(mass, first, law, np.floor(cells), step)

    def nearest(mass, first, law, cells, step):
        return real(mass, first, law, np.rint(cells), step)

    for mutant in (down, nearest):
        monkeypatch.setattr(privacy_losses, "_added", mutant)
        with pytest.raises(AssertionError):
            check_lattice()


def test_an_excess_of_one_report_too_few_is_caught(monkeypatch):
    real = privacy_losses._excess
    monkeypatch.setattr(privacy_losses, "_excess", lambda walk, times: real(walk, max(1, times - 1)))
    with pytest.raises(AssertionError):
        check_lattice()


def test_thousands_of_reports_are_put_together():
    """The bound of 2,000 equal signs has no rounded losses: it is that of integers, to the digits of a float."""
    law = TwoLevel.fit(0.004, favoured=1, outputs=2)
    channel, ratio = Independent((law,) * 400, 400), exp_below(0.4)
    assert not channel.exact
    stated, true = channel.divergence(ratio), divergence_of(walked(law.walk, 400), [(1, 1)], ratio)
    assert true <= stated <= true * (1 + Fraction(1, 10**9))
    assert channel.gap(ratio) <= true / 10**8
    assert Independent((law,) * 400, 400).divergence(exp_below(1.7)) == 0  # 400 * 0.004 = 1.6
    many = Independent((law,) * 60_000 + (GRR,) * 3, 60_003)
    assert 0 < many.divergence(exp_below(8.0)) < 1e-5
    assert many.gap(exp_below(8.0)) < many.divergence(exp_below(8.0)) / 1000
