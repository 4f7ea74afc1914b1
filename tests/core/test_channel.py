"""Channels: integers that keep the declared guarantee closely, and an algebra that enumeration confirms."""

from fractions import Fraction
from math import comb, inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.core.channel import Table, TwoLevel, hockey_stick
from dither.core.composite_channels import Product, PublicMixture
from dither.core.exact import exp_below
from dither.core.guarantee import Guarantee
from dither.errors import ParameterError

epsilons = st.floats(1e-6, 16.0)
deltas = st.sampled_from([1e-26, 1e-12, 1e-9, 1e-6, 1e-3, 0.1])


@settings(max_examples=200, deadline=None)
@given(epsilons, st.integers(2, 10**6), st.integers(1, 1000))
def test_pure_epsilon_is_kept_within_1e_9(epsilon, outputs, favoured):
    law = TwoLevel.fit(epsilon, favoured=min(favoured, outputs - 1), outputs=outputs)
    assert law.high <= exp_below(epsilon, 120) * law.low
    assert 0 <= epsilon - law.epsilon <= 1e-9


@settings(max_examples=200, deadline=None)
@given(epsilons, deltas, st.integers(2, 10**5))
def test_delta_is_kept_within_a_part_in_a_thousand_million(epsilon, delta, outputs):
    law = TwoLevel.fit(epsilon, delta, favoured=1, outputs=outputs)
    certified = law.divergence(exp_below(epsilon, 120))
    assert certified <= Fraction(delta)
    assert Fraction(delta) - certified <= max(Fraction(delta) / 10**9, Fraction(1, law.total))


@pytest.mark.parametrize("k", [2, 3, 10, 100, 2000])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.5, 1.0, 4.0, 16.0])
def test_counts_of_any_size(k, epsilon):
    size = max(1, k // 3)
    law = TwoLevel.fit(epsilon, favoured=comb(k - 1, size - 1), outputs=comb(k, size), apart=comb(k - 2, size - 1))
    assert 0 <= epsilon - law.epsilon <= 1e-9 * min(1, epsilon)


def test_tiny_epsilon_takes_more_words_and_impossible_delta_is_refused():
    law = TwoLevel.fit(1e-25, favoured=1, outputs=1000)
    assert law.total > 1 << 64
    assert 0 < law.epsilon <= 1e-25
    with pytest.raises(ParameterError, match="delta is too large"):
        TwoLevel.fit(1.0, 0.6, favoured=5, outputs=10, apart=2)


def test_two_level_against_its_matrix():
    members = {0: (0, 1), 1: (1, 2), 2: (3, 4)}
    law = TwoLevel(5, 2, favoured=2, outputs=5, apart=2, inputs=3, members=lambda x: members[x])
    rows = [list(row) for row in law.matrix()]
    assert rows[0] == [Fraction(5, 16), Fraction(5, 16), Fraction(1, 8), Fraction(1, 8), Fraction(1, 8)]
    for ratio in (Fraction(1), Fraction(2), Fraction(5, 2), Fraction(3)):
        assert law.divergence(ratio) == max(hockey_stick(a, b, ratio) for a in rows for b in rows)
    assert law.blanket().mass == Fraction(10, 16) == sum(min(column) for column in zip(*rows, strict=True))
    assert law.profile(0.0) == float(Fraction(6, 16))


def test_swapped_weights_have_the_same_ratio():
    assert TwoLevel(2, 5, 1, 2).ratio() == TwoLevel(5, 2, 1, 2).ratio() == Fraction(5, 2)
    assert TwoLevel(2, 5, 1, 2).divergence(Fraction(1)) == TwoLevel(5, 2, 1, 2).divergence(Fraction(1))


def test_tables():
    table = Table(((4, 1, 0), (2, 2, 1)))
    assert table.ratio() == inf
    assert table.epsilon == inf
    assert table.divergence(Fraction(2)) == Fraction(1, 5)  # second row against first: the output the first never has
    assert table.blanket().mass == Fraction(3, 5)
    assert table.blanket().law == (Fraction(2, 5), Fraction(1, 5), Fraction(0))
    assert Table.of([[Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 3), Fraction(2, 3)]]).weights == ((3, 3), (2, 4))
    for broken in (((1, 2), (1, 1)), ((1, -1), (0, 0)), ((1, 1), (2,))):
        with pytest.raises(ParameterError):
            Table(broken)


def test_product_against_its_matrix():
    bit = Table(((5, 3), (2, 6)))
    both = Product(bit, 2, 4, encode=lambda x: (x >> 1, x & 1), differing=(((0, 0), (1, 1)), ((0, 1), (1, 0))))
    full = Table.of([list(row) for row in both.matrix()])
    assert both.ratio() == full.ratio() == Fraction(5, 2) ** 2
    for ratio in (Fraction(1), Fraction(2), Fraction(5)):
        assert both.divergence(ratio) == full.divergence(ratio)
    assert both.blanket().mass <= full.blanket().mass


def test_public_mixture_states_its_worst_tag():
    law = TwoLevel(3, 1, 1, 2)
    mixture = PublicMixture(law, tags=2, inputs=3, given=lambda x, tag: law.row((x >> tag) & 1))
    rows = [list(row) for row in mixture.matrix()]
    assert all(sum(row) == 1 for row in rows)
    assert mixture.ratio() == Table.of(rows).ratio()
    assert mixture.divergence(Fraction(2)) >= Table.of(rows).divergence(Fraction(2))
    assert mixture.blanket().mass <= Table.of(rows).blanket().mass


def test_matrices_have_a_limit():
    with pytest.raises(ParameterError, match="too large to write down"):
        TwoLevel(3, 1, 1, 10**6).matrix()


@pytest.mark.parametrize("arguments", [(0, 1, 1, 2), (1, 0, 1, 2), (1, 1, 0, 2), (1, 1, 2, 2)])
def test_laws_that_make_no_sense(arguments):
    with pytest.raises(ParameterError):
        TwoLevel(*arguments)


def test_guarantees_are_values():
    assert Guarantee(1.0) == Guarantee(1.0, 0.0, "exact")
    assert str(Guarantee(0.99999999999999)) == "epsilon 1 (exact)"
    assert str(Guarantee(inf, 0.0, "simulated")) == "no guarantee (simulated from a seed)"
    for epsilon, delta, established in ((float("nan"), 0, "exact"), (-1, 0, "exact"), (1, 2, "exact"), (1, 0, "?")):
        with pytest.raises(ParameterError):
            Guarantee(epsilon, delta, established)


def test_a_bound_is_called_a_bound():
    class Loose(TwoLevel):
        exact = False  # type: ignore[assignment]

    assert Guarantee.of(Loose(3, 1, 1, 2), 1.0, 0.3).established == "bound"
    assert Guarantee.of(TwoLevel(3, 1, 1, 2), 1.0, 0.3).established == "exact"
    assert Guarantee.of(Loose(3, 1, 1, 2), 2.0, 0.3).established == "exact"  # ratios are always attained
