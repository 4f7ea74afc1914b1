"""Products of channels against written-out tables, and the exact arithmetic under them: never below the truth."""

from fractions import Fraction
from itertools import combinations, product
from math import exp, inf, log, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dither
from dither import SampledDuchi
from dither.core.additive_channel import AdditiveChannel
from dither.core.channel import Channel, Table, TwoLevel, hockey_stick
from dither.core.composite_channels import Announced, Independent, Product, PublicMixture, Repeated
from dither.core.exact import closely_above_log, exp_below, log_above, root_below, share_below
from dither.core.hashed_channel import HashedChannel

RATIOS = [Fraction(1), Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(3), Fraction(7), Fraction(40)]

GRR = TwoLevel(5, 2, favoured=1, outputs=3)
SIGN = TwoLevel(3, 1, favoured=1, outputs=2)
WINDOW = TwoLevel(4, 1, favoured=2, outputs=5, apart=2, inputs=4, members=lambda i: range(i, i + 2))
UNEVEN = Table(((5, 2, 1), (1, 6, 1), (3, 3, 2)))
NOISE = AdditiveChannel((4, 2, 1), steps=1, reach=1)


def word(factors: tuple[Channel, ...], letters: tuple[int, ...]) -> list[Fraction]:
    """P(. | letters), coordinate by coordinate, straight from the definition."""
    rows = [factor.row(letter) for factor, letter in zip(factors, letters, strict=True)]
    return [prod(cells, start=Fraction(1)) for cells in product(*rows)]


def written_out(factors: tuple[Channel, ...]) -> Table:
    """All inputs of independent coordinates as a table."""
    return Table.of([word(factors, letters) for letters in product(*(range(f.shape[0]) for f in factors))])


def worst(factors: tuple[Channel, ...], asked: int, cost) -> Fraction:
    """The largest cost over all choices of `asked` coordinates, by enumeration."""
    return max(cost(written_out(chosen)) for chosen in combinations(factors, asked))


FACTORS = [
    (SIGN,),
    (SIGN, SIGN),
    (GRR, GRR),
    (SIGN, GRR),
    (SIGN, UNEVEN),
    (GRR, NOISE),
    (UNEVEN, UNEVEN),
    (SIGN, SIGN, SIGN),
    (SIGN, GRR, SIGN),
    (SIGN, UNEVEN, NOISE),
    (WINDOW, SIGN),
]
small = pytest.mark.parametrize(
    ("factors", "asked"), [(f, asked) for f in FACTORS for asked in range(1, len(f) + 1)], ids=str
)


@small
def test_independent_coordinates_against_their_tables(factors, asked):
    channel = Independent(factors, asked)
    assert channel.ratio() == worst(factors, asked, lambda table: table.ratio())
    assert channel.epsilon == log_above(Fraction(channel.ratio()))
    for ratio in RATIOS:
        true = worst(factors, asked, lambda table, ratio=ratio: table.divergence(ratio))
        assert true <= channel.divergence(ratio) <= 1
        if channel.exact:
            assert channel.divergence(ratio) == true
    least = min(written_out(chosen).blanket().mass for chosen in combinations(factors, asked))
    assert channel.blanket().mass <= least


@pytest.mark.parametrize("factors", FACTORS, ids=str)
def test_rows_of_independent_coordinates(factors):
    channel = Independent.all_of(factors)
    for x, letters in enumerate(product(*(range(factor.shape[0]) for factor in factors))):
        assert channel.letters(x) == list(letters)
        assert channel.row(x) == word(factors, letters)
    assert channel.shape == written_out(factors).shape


def test_what_is_exact_and_what_is_a_bound():
    assert Independent((SIGN, SIGN), 2).exact
    assert Independent((SIGN, TwoLevel(3, 1, 1, 2)), 1).exact  # equal, not the same
    assert Independent((SIGN, GRR), 1).exact
    assert Independent((SIGN, GRR), 2).exact
    assert Independent((NOISE, UNEVEN), 1).exact  # one of them answers
    assert not Independent((NOISE, NOISE), 2).exact
    assert not Independent((SIGN, UNEVEN), 2).exact
    assert not Independent((SIGN,) * 101, 101).exact
    assert Independent((SIGN,) * 1000, 100).exact


def test_an_impossible_output_is_never_hidden():
    impossible = Table(((1, 0), (0, 1)))
    for asked in (1, 2, 3):
        channel = Independent((SIGN, impossible, SIGN), asked)
        assert channel.ratio() == channel.epsilon == inf
        assert channel.divergence(Fraction(100)) == 1


def two_inputs(high: int, low: int, apart: int, others: int) -> TwoLevel:
    """Two inputs that favour `apart` outputs each; `others` are favoured by neither."""
    outputs = 2 * apart + others
    return TwoLevel(high, low, apart, outputs, apart, inputs=2, members=lambda x: range(x * apart, (x + 1) * apart))


def repeated(row: list[Fraction], times: int) -> list[Fraction]:
    """The law of independent draws from one row."""
    return [prod(cells, start=Fraction(1)) for cells in product(row, repeat=times)]


@pytest.mark.parametrize("times", [1, 2, 3, 4])
@pytest.mark.parametrize(("high", "low"), [(3, 1), (7, 5), (9, 2), (2, 9), (1, 3)])
def test_convolution_against_brute_force(high, low, times):
    # Weights may be the other way round: stored integers are not chosen here, and a likelihood ratio has two ends.
    for apart, others in ((1, 0), (1, 1), (2, 0), (1, 3), (3, 0), (2, 1)):
        if (2 * apart + others) ** times > 700:
            continue
        law = two_inputs(high, low, apart, others)
        one, two = (repeated(law.row(x), times) for x in range(2))
        for ratio in (Fraction(1), Fraction(4, 3), Fraction(9, 4), Fraction(high, low), Fraction(17)):
            if ratio >= 1:
                assert Independent.all_of([law] * times).divergence(ratio) == hockey_stick(one, two, ratio)


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_a_closer_pair_is_never_worse(times):
    # In the window law neighbours favour one output apart, the ends two: the ends are the worst pair.
    rows = [WINDOW.row(x) for x in range(WINDOW.shape[0])]
    for ratio in (Fraction(1), Fraction(2), Fraction(5), Fraction(20)):
        stated = Independent.all_of([WINDOW] * times).divergence(ratio)
        for a, b in ((0, 3), (0, 1), (1, 2), (0, 2), (3, 0)):
            assert hockey_stick(repeated(rows[a], times), repeated(rows[b], times), ratio) <= stated


@pytest.mark.parametrize(("m", "exact", "printed"), [(1, 1.0, "1.00"), (2, 0.7309, ".73"), (3, 0.4365, ".44")])
def test_golden_delta_of_mechanism_2(m, exact, printed):
    """As printed, with delta/m for each: what is attained is less. dither spends the rest."""
    law = dither.Duchi(epsilon=share_below(2.0, m), delta=share_below(1e-3, m)).channel()
    ratio = exp_below(2.0)
    words = [repeated(law.row(x), m) for x in (0, 1)]
    true = hockey_stick(words[0], words[1], ratio)  # all signs against their opposite
    assert Independent((law,) * m, m).divergence(ratio) == true
    assert float(true) / 1e-3 == pytest.approx(exact, abs=1e-4)
    assert f"{float(true) / 1e-3:.2f}" == f"{float(printed):.2f}"
    mechanism = SampledDuchi(d=3, epsilon=2.0, delta=1e-3, m=m)
    assert 1e-3 * (1 - 2e-9) <= mechanism.guarantee.delta <= 1e-3
    assert mechanism.guarantee.established == "exact"


# Other combinations --------------------------------------------------------------------------------------------------


def test_announced_blocks_state_the_worst_block_and_nothing_across():
    channel = Announced((SIGN, GRR, UNEVEN))
    assert channel.shape == (2 + 3 + 3, 2 + 3 + 3)
    rows = [channel.row(x) for x in range(8)]
    assert all(sum(row) == 1 for row in rows)
    blocks = [rows[:2], rows[2:5], rows[5:]]
    assert channel.ratio() == max(
        max(a / b for one in block for two in block for a, b in zip(one, two, strict=True) if a) for block in blocks
    )
    for ratio in RATIOS:
        true = max(hockey_stick(one, two, ratio) for block in blocks for one in block for two in block)
        assert channel.divergence(ratio) == true
    assert channel.epsilon == log_above(Fraction(5))
    assert channel.exact
    assert not Announced((SIGN, Independent((SIGN, NOISE), 2))).exact
    common = [sum(min(column) for column in zip(*block, strict=True)) for block in blocks]
    assert channel.blanket().mass <= min(common)


@pytest.mark.parametrize("factor", [SIGN, NOISE, WINDOW, Table(((5, 3), (2, 6)))], ids=str)
def test_products_of_any_factor_against_their_tables(factor):
    # One of k entries at the upper end, the others at the lower: two inputs differ in two entries.
    last = factor.shape[0] - 1
    channel = Product(
        factor,
        coordinates=3,
        inputs=3,
        encode=lambda x: [last if v == x else 0 for v in range(3)],
        differing=(((last, 0), (0, last)),),
    )
    table = Table.of([channel.row(x) for x in range(3)])
    assert table.ratio() == channel.ratio()
    for ratio in RATIOS:
        assert channel.divergence(ratio) == table.divergence(ratio)
    assert channel.exact
    assert channel.blanket().mass <= table.blanket().mass


@pytest.mark.parametrize("channel", [GRR, WINDOW, NOISE, UNEVEN, Table(((1, 2), (0, 3), (3, 0)))], ids=str)
def test_ratios_between_two_inputs(channel):
    rows = channel.matrix().tolist()
    for x, y in product(range(len(rows)), repeat=2):
        true = max(a / b if b else inf for a, b in zip(rows[x], rows[y], strict=True) if a)
        assert true <= channel.ratio_between(x, y) <= channel.ratio()
        assert channel != UNEVEN or true == channel.ratio_between(x, y)


def test_which_law_is_sampled():
    assert SIGN.sampled_law == (SIGN, 1)
    assert Repeated((SIGN,) * 3, 2).sampled_law == (SIGN, 2)
    assert PublicMixture(Repeated((GRR, GRR), 2), 4, 3, lambda x, tag: GRR.row(x)).sampled_law == (GRR, 2)
    assert HashedChannel(WINDOW).sampled_law == (WINDOW, 1)
    assert [each.sampled_law for each in (NOISE, UNEVEN, Independent((SIGN, SIGN), 2))] == [None] * 3


def test_a_product_too_large_to_write_down_is_bounded():
    for outputs, exact in ((2000, True), (5000, False)):
        law = _narrow(outputs)
        last = law.shape[0] - 1
        channel = Product(
            law, 2, 2, lambda x, last=last: [last * (x == v) for v in range(2)], (((last, 0), (0, last)),)
        )
        assert channel.exact == exact
        assert channel.ratio() == 49
        for ratio in (Fraction(2), Fraction(10), Fraction(30)):
            true = Independent((law, law), 2).divergence(ratio)
            assert channel.divergence(ratio) == true if exact else true <= channel.divergence(ratio) <= 1
        assert channel.divergence(Fraction(49)) == 0


def _narrow(outputs: int) -> TwoLevel:
    return TwoLevel(7, 1, favoured=3, outputs=outputs, apart=3, inputs=outputs - 2, members=lambda i: range(i, i + 3))


def test_public_mixtures_with_odds():
    odds = (Fraction(1, 4), Fraction(3, 4))
    laws = (SIGN, WINDOW)

    def given_tag(x: int, tag: int) -> list[Fraction]:
        return laws[tag].row(x)

    channel = PublicMixture(WINDOW, 2, 2, given_tag, outputs=7, odds=odds)
    assert channel.shape == (2, 7)
    rows = [channel.row(x) for x in range(2)]
    assert rows[0] == [Fraction(1, 4) * p for p in SIGN.row(0)] + [Fraction(3, 4) * p for p in WINDOW.row(0)]
    assert all(sum(row) == 1 for row in rows)
    assert Table.of(rows).ratio() <= channel.ratio()
    assert channel.blanket().mass == WINDOW.blanket().mass
    even = PublicMixture(SIGN, 2, 2, lambda x, tag: SIGN.row(x ^ tag))
    assert even.row(0) == [p / 2 for p in SIGN.row(0) + SIGN.row(1)]
    assert even.shape == (2, 4)


# Roots, shares and logarithms ----------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.fractions(1, 10**12, max_denominator=10**9), st.integers(1, 40))
def test_a_root_is_never_above_and_close(number, degree):
    root = root_below(number, degree)
    assert root >= 1
    assert root**degree <= number
    assert (root * (1 + Fraction(1, 10**45))) ** degree >= number


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**30), st.integers(1, 10**15), st.integers(2, 6))
def test_the_root_of_a_ratio_close_to_one_keeps_its_digits(above, scale, degree):
    # e^epsilon for a tiny epsilon: ln(a/b) = ln a - ln b cancels nearly all digits.
    number = 1 + Fraction(above, 10**60 * scale)
    root = root_below(number, degree)
    assert 1 <= root**degree <= number
    assert number - root**degree <= Fraction(degree + 1, 10**48)


def test_roots_of_powers_and_of_one():
    assert root_below(Fraction(1), 7) == 1
    for base, degree in product((2, 3, 10, 12345), (2, 3, 17, 100)):
        root = root_below(Fraction(base**degree), degree)
        assert root <= base < root + Fraction(1, 10**40)
    assert root_below(exp_below(1.0), 4096) ** 4096 <= exp_below(1.0)


@settings(max_examples=300, deadline=None)
@given(st.floats(1e-12, 1e6), st.integers(1, 1 << 16))
def test_shares_add_up_to_no_more_and_no_larger_share_does(total, parts):
    share = share_below(total, parts)
    assert Fraction(share) * parts <= Fraction(total)
    above = Fraction(share) * (1 + Fraction(1, 2**52))
    assert above * parts > Fraction(total)
    assert share_below(0.0, parts) == 0.0


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 10**60), st.integers(1, 10**60))
def test_logarithms_are_closely_above(a, b):
    numerator, denominator = max(a, b), min(a, b)
    ratio = Fraction(numerator, denominator)
    above = closely_above_log(ratio)
    assert above >= 0
    assert (above == 0) == (ratio == 1)
    # e^above >= ratio: e^x for the rational x is enclosed by its Taylor polynomial from below, which is enough here.
    if above < 5:
        terms, total = Fraction(1), Fraction(1)
        for i in range(1, 80):
            terms *= above / i
            total += terms
        assert total * (1 + Fraction(1, 10**60)) >= ratio
        assert total <= ratio * (1 + Fraction(1, 10**45))
    assert float(above) == pytest.approx(log(numerator) - log(denominator), abs=1e-10)


def test_sums_of_logarithms_are_rounded_once():
    # Thirty coordinates of epsilon/30 are certified as epsilon, not as epsilon and thirty roundings up.
    for epsilon, m in product((1.0, 0.1, 3.7), (2, 3, 30)):
        law = TwoLevel.fit(share_below(epsilon, m), favoured=1, outputs=2)
        stated = Independent((law,) * m, m).epsilon
        assert stated <= epsilon
        assert epsilon - stated <= 1e-9
        assert exp(stated) == pytest.approx(float(law.ratio()) ** m, rel=1e-12)


def test_budgets_split_a_ratio_as_the_coordinates_were_made_for_it():
    """Each keeps (its budget, delta / 2), so both together keep (the sum, delta): an even split would not show it."""
    parts = dither.GRR(k=20, epsilon=3.0, delta=0.01), dither.GRR(k=2, epsilon=0.999, delta=0.01)
    channels = tuple(part.channel() for part in parts)
    ratio = exp_below(4.0)
    by_budget = Independent(channels, 2, (3.0, 0.999))._composed(ratio)
    assert by_budget <= Fraction(0.02)
    assert Independent(channels, 2)._composed(ratio) > by_budget
    assert by_budget >= written_out(channels).divergence(ratio) == Independent(channels, 2).divergence(ratio)
    assert Independent(channels, 2, (3.5, 0.999))._composed(ratio) == Independent(channels, 2)._composed(ratio)
    assert Independent(channels, 1, (3.0, 0.999)).divergence(exp_below(3.0)) <= Fraction(0.01)
