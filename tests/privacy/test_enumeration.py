"""Few reports, shuffled exactly: the enumerator itself, the printed results it refutes, and the bounds it cannot.

Everything here is rational arithmetic. A bound in floating point must lie above the exact delta, always.
"""

from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from math import comb, log
from typing import Any

import pytest

import dither
from dither.core.additive_channel import AdditiveChannel
from dither.core.blanket_law import BlanketLaw, Contrast
from dither.core.channel import Channel, TwoLevel, hockey_stick
from dither.core.composite_channels import Announced, Independent, PublicMixture
from dither.core.exact import exp_below, log_above
from dither.errors import ParameterError
from dither.privacy import bounds
from dither.privacy.enumeration import enumerated_delta
from dither.privacy.shuffle_divergence import (
    binary_law,
    clone_delta,
    delta_above,
    delta_below,
    two_output_delta,
)

HALF = Fraction(1, 2)
RATIOS = [Fraction(21, 20), Fraction(5, 4), Fraction(2), Fraction(3)]


def response(ratio: Fraction | int, k: int) -> list[list[Fraction]]:
    """Randomized response over k values: Collision with one key under a shared hash function is the same."""
    total = Fraction(ratio) + k - 1
    return [[(Fraction(ratio) if x == y else Fraction(1)) / total for y in range(k)] for x in range(k)]


# The enumerator ------------------------------------------------------------------------------------------------------


def test_one_report_is_not_shuffled():
    rows = response(3, 4)
    for ratio in RATIOS:
        assert enumerated_delta(rows, 1, ratio) == max(hockey_stick(a, b, ratio) for a, b in permutations(rows, 2))


def by_sequences(rows, data: tuple[int, ...], other: tuple[int, ...], ratio: Fraction) -> Fraction:
    """The same from all sequences of reports, sorted."""
    laws = []
    for inputs in (data, other):
        law: dict[tuple[int, ...], Fraction] = {}
        for reports in product(range(len(rows[0])), repeat=len(inputs)):
            chance = Fraction(1)
            for x, y in zip(inputs, reports, strict=True):
                chance *= rows[x][y]
            law[tuple(sorted(reports))] = law.get(tuple(sorted(reports)), Fraction(0)) + chance
        laws.append(law)
    return sum((max(Fraction(0), laws[0][key] - ratio * laws[1][key]) for key in laws[0]), Fraction(0))


@pytest.mark.parametrize("rows", [response(3, 2), response(2, 3)])
def test_multisets_are_sorted_sequences(rows):
    for others in ((0, 0), (0, 1), (1, 1)):
        for ratio in RATIOS:
            stated = enumerated_delta(rows, 3, ratio, others=others, pair=(0, 1))
            assert stated == by_sequences(rows, (0, *others), (1, *others), ratio)


def test_what_is_too_large_is_refused():
    with pytest.raises(ParameterError, match="too many multisets"):
        enumerated_delta(response(3, 6), 40, Fraction(2))


# Refuted -------------------------------------------------------------------------------------------------------------


def printed(ratio: Fraction, beta: Fraction, n: int, r: Fraction) -> Fraction:
    """003 Lemma 1: the delta of P and Q with a mixture parameter beta, as the paper quotes the "stronger clone"."""
    law: dict[tuple[int, int], list[Fraction]] = {}
    for clones in range(n):
        chance = comb(n - 1, clones) * (2 * beta) ** clones * (1 - 2 * beta) ** (n - 1 - clones)
        for a in range(clones + 1):
            here = chance * comb(clones, a) * HALF**clones
            for own, other, share in ((1, 0, ratio * beta), (0, 1, beta), (0, 0, 1 - beta - ratio * beta)):
                law.setdefault((a + own, clones - a + other), [Fraction(0)] * 2)[0] += here * share
                law.setdefault((a + other, clones - a + own), [Fraction(0)] * 2)[1] += here * share
    return sum((max(Fraction(0), p - r * q) for p, q in law.values()), Fraction(0))


def test_theorem_5_of_003_is_refuted_as_printed():
    ratio, s, t = Fraction(5, 4), 1, 3
    omega = s * ratio + t - s
    exact = enumerated_delta(response(ratio, t), 6, exp_below(0.05))
    claimed = printed(ratio, s * (ratio - 1) / omega, 6, exp_below(0.05))
    assert float(exact) == pytest.approx(0.01328, abs=1e-5)
    assert float(claimed) == pytest.approx(0.0020, abs=5e-5)
    assert claimed < exact


def test_theorem_5_with_the_right_parameter_is_refuted_too():
    exact, claimed = (
        enumerated_delta(response(3, 6), 5, Fraction(2)),
        printed(Fraction(3), Fraction(1, 8), 5, Fraction(2)),
    )
    assert (exact, claimed) == (Fraction(249, 32768), Fraction(141, 32768))


def test_the_stronger_clone_as_first_printed_is_refuted():
    ratio, r = exp_below(2.0, 20), exp_below(1.2, 20)
    exact = enumerated_delta(response(ratio, 4), 8, r, pair=(0, 1))
    assert float(exact) == pytest.approx(0.0854, abs=1e-4)
    assert float(printed(ratio, 1 / (ratio + 3), 8, r)) == pytest.approx(0.0729, abs=1e-4)


def test_collision_on_the_data_set_of_theorem_6_is_above_theorem_5():
    """All others hold a third vector whose buckets are apart from both: buckets of a kind count as one output.

    With n = 100 the claimed delta of 1e-6 is 1.096e-6 in truth, which takes half a minute; here are 30 users.
    """
    ratio, s, t, n = Fraction(2718, 1000), 4, 17, 30
    total = s * ratio + t - s
    rows = [[s * (ratio if x == y else 1) / total for y in range(3)] + [(t - 3 * s) / total] for x in range(3)]
    for r, excess in ((Fraction(7, 4), 1.211), (Fraction(2), 1.957)):
        exact = enumerated_delta(rows, n, r, others=(2,) * (n - 1), pair=(0, 1))
        assert float(exact / printed(ratio, s / total, n, r)) == pytest.approx(excess, abs=1e-3)
        law = BlanketLaw.of(Contrast(ratio, s / total, Fraction(0), (t - 2 * s) / total))
        assert float(exact) <= delta_above(law, log(r), n)
        known = delta_below(BlanketLaw.between(rows[0], rows[1], rows[2]), log(r), n)
        assert 0.99 * float(exact) <= known <= float(exact)


def test_a_blanket_of_the_least_mass_is_refuted():
    """To put e^-epsilon0 for the mass of an unknown blanket, also into the range of what a report tells, is unsound.

    Then H lies between E - r and 1 - r E with mass 1/E and mean 1 - r; binary response does worse.
    """
    ratio, n, r = Fraction(7), 8, Fraction(2)
    share = Fraction(1) / (1 + r)  # at E - r; the rest at 1 - r E
    claimed = Fraction(0)
    for noise in range(n):
        chance = comb(n - 1, noise) * (1 / ratio) ** noise * (1 - 1 / ratio) ** (n - 1 - noise)
        for high in range(noise + 2):
            law = comb(noise + 1, high) * share**high * (1 - share) ** (noise + 1 - high)
            gain = high * (ratio - r) + (noise + 1 - high) * (1 - r * ratio)
            claimed += chance * law * max(Fraction(0), gain) / (noise + 1) / ratio
    exact = enumerated_delta(response(ratio, 2), n, r)
    assert claimed < exact <= Fraction(delta_above(binary_law(float(ratio)), log(2), n))


# Not refuted ---------------------------------------------------------------------------------------------------------

SMALL = [
    (dither.GRR(k=2, epsilon=1.0), 9),
    (dither.GRR(k=3, epsilon=0.5), 6),
    (dither.GRR(k=4, epsilon=2.0), 5),
    (dither.LocalHash(k=3, epsilon=1.0, g=2, cohorts=1), 7),
    (dither.LocalHash(k=3, epsilon=1.0, g=2, cohorts=3), 4),
    (dither.LocalHash(k=3, epsilon=2.0, g=3, cohorts=2), 4),
    (dither.Unary(k=2, epsilon=1.0), 6),
    (dither.Unary(k=3, epsilon=2.0, kind="symmetric"), 3),
    (dither.SubsetSelection(k=4, epsilon=0.5), 4),
    (dither.Hadamard(k=3, epsilon=1.0), 5),
    (dither.Duchi(epsilon=1.5), 8),
    (dither.Collision(d=2, s=1, epsilon=1.0, t=3, cohorts=8), 2),
    (dither.PrivKV(d=2, s=1, epsilon=1.0), 3),
    (dither.PCKV_GRR(d=2, s=1, epsilon=1.0), 4),
    (dither.PCKV_AGRR(d=2, s=2, epsilon=1.0), 3),
    (dither.PCKV_UE(d=2, s=1, epsilon=1.0), 3),
    (dither.PCKV_UE(d=2, s=2, epsilon=2.0), 2),
]


def held_against(channel: Channel, n: int) -> None:
    """Every bound of a channel above the exact delta, and every known data set below it."""
    largest, law = channel.ratio(), channel.blanket_law()
    assert isinstance(largest, Fraction)
    assert law is not None
    crowds = channel.crowds()
    for ratio in (*RATIOS, (1 + largest) / 2):
        if ratio < largest:
            exact, epsilon = float(enumerated_delta(channel, n, ratio)), log_above(ratio)
            own, general = delta_above(law, epsilon, n), delta_above(binary_law(float(largest)), epsilon, n)
            # log_above is a last digit above ln(ratio): the exact delta there is smaller by as much.
            assert exact <= own * (1 + 1e-9)
            assert own <= general * 1.01 <= clone_delta(float(largest), epsilon, n) * 1.02
            assert all(delta_below(crowd, epsilon, n) <= exact * (1 + 1e-9) for crowd in crowds)


@pytest.mark.parametrize(("mechanism", "n"), SMALL, ids=lambda each: repr(each) if hasattr(each, "epsilon") else None)
def test_no_bound_is_refuted(mechanism, n):
    held_against(mechanism.channel(), n)


def mixed(tables: list[Channel], odds: list[Fraction]) -> PublicMixture:
    """One of these coordinates, drawn with these odds, and shown with its name."""

    def given(x: int, tag: int) -> list[Fraction]:
        return tables[tag].row(Independent.all_of(tables).letters(x)[tag])

    inputs = Independent.all_of(tables).shape[0]
    outputs = sum(table.shape[1] for table in tables)
    return PublicMixture(Independent(tuple(tables), 1), len(tables), inputs, given, outputs, odds=tuple(odds))


TWO, THREE = TwoLevel(3, 1, 1, 2), TwoLevel(2, 1, 1, 3)
NOISE = AdditiveChannel((8, 4, 2, 2), steps=2, reach=1)
COMPOSED = {
    "one of two attributes": (mixed([TWO, TWO], [Fraction(1, 2)] * 2), 4),
    "one of two, unequal groups": (mixed([TWO, TWO], [Fraction(1, 5), Fraction(4, 5)]), 4),
    "one of two kinds": (mixed([TWO, THREE], [Fraction(1, 2)] * 2), 3),
    "a record of two reports": (Independent.all_of([TWO, TWO]), 3),
    "a record of two kinds": (Independent.all_of([TWO, THREE]), 2),
    "a number and a category": (mixed([NOISE, THREE], [Fraction(2, 3), Fraction(1, 3)]), 2),
    "noise, one step": (AdditiveChannel((4, 2, 1), steps=1, reach=1), 6),
    "noise, one step, wide": (AdditiveChannel((12, 6, 3, 2), steps=1, reach=2), 4),
    "noise, two steps": (NOISE, 5),
    "noise, two steps, flat": (AdditiveChannel((10, 9, 6, 3, 2), steps=2, reach=2), 4),
    "noise, three steps": (AdditiveChannel((8, 4, 2, 1, 1), steps=3, reach=1), 4),
}


@pytest.mark.parametrize("case", COMPOSED)
def test_no_bound_of_something_composed_is_refuted(case):
    held_against(*COMPOSED[case])


def test_users_with_another_tag_hide_the_tag():
    """With two attributes, of which one is drawn, all n users hide one: far better than those with the same tag would.

    Half as many users would have at least the delta of the bound for all of them.
    """
    law = mixed([TWO, TWO], [Fraction(1, 2)] * 2).blanket_law()
    assert law is not None
    exact = enumerated_delta(mixed([TWO, TWO], [Fraction(1, 2)] * 2), 4, Fraction(2))
    alone = enumerated_delta(TWO, 2, Fraction(2))
    assert float(exact) <= delta_above(law, log(2), 4) < float(alone)


LOOSE = {"a record of two kinds", "noise, two steps, flat", "noise, three steps"}  # for so few users


@pytest.mark.parametrize("case", sorted(set(COMPOSED) - LOOSE))
def test_a_blanket_that_is_too_large_is_refuted(case):
    """A mutant: a fifth more noise than there is. So the test above can tell."""
    channel, n = COMPOSED[case]
    law, largest = channel.blanket_law(), channel.ratio()
    assert law is not None
    mutant = BlanketLaw(1.2 * law.mass, law.first / 1.2, law.second / 1.2)
    ratios = [*RATIOS, (1 + largest) / 2, (1 + 7 * largest) / 8]
    found = [(float(enumerated_delta(channel, n, r)), delta_above(mutant, log(r), n)) for r in ratios if r < largest]
    assert any(exact > claimed * (1 + 1e-6) for exact, claimed in found)


def test_a_hybrid_is_the_mixture_of_its_branches():
    branches = (TWO, TwoLevel(3, 2, 1, 3))
    channel = PublicMixture(Announced(branches), 2, 2, lambda x, tag: branches[tag].row(x), 5, (HALF, HALF))
    held_against(channel, 4)


@pytest.mark.parametrize(("ratio", "n"), [(2, 3), (2, 9), (3, 5), (3, 20), (7, 9), (50, 20)])
def test_two_outputs_have_the_exact_worst_case(ratio, n):
    for r in (Fraction(21, 20), Fraction(3, 2), Fraction(5, 2), Fraction(6)):
        if r < ratio:
            exact = float(enumerated_delta(response(ratio, 2), n, r))
            assert exact * (1 - 1e-9) <= two_output_delta(float(ratio), log(r), n) <= exact * (1 + 1e-5)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("seeds", [[0], [0, 1], [3, 5, 7]])
def test_collisions_under_some_hash_functions(paired, seeds):
    """Conflicts of a user's own keys and of two users, under one shared or several random hash functions."""
    made = dither.CoCo(d=3, s=2, epsilon=1.0, t=6) if paired else dither.Collision(d=3, s=2, epsilon=1.0, t=4)
    channel: Any = made.channel()
    vectors = [x for x in range(made.domain.size) if len(made.domain.vector(x)) == 2][:5]
    rows = [[p / len(seeds) for seed in seeds for p in channel.given(x, seed)] for x in vectors]
    law, n = channel.blanket_law(), 4 if len(seeds) == 1 else 2
    for ratio in (Fraction(5, 4), Fraction(2)):
        exact = enumerated_delta(rows, n, ratio)
        assert float(exact) <= delta_above(law, log_above(ratio), n) * (1 + 1e-9)


def test_binary_response_is_all_but_attained():
    # Where the ratio is so large that only reports without any noise count, the bound is the exact delta.
    exact = enumerated_delta(response(7, 2), 5, Fraction(3))
    assert delta_above(binary_law(7.0), log(3), 5) == pytest.approx(float(exact), rel=3e-3)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_stated_epsilons_keep_their_delta(n):
    """The whole way: what `amplify` states at some delta, held against the exact delta at that epsilon."""
    for mechanism in (dither.GRR(k=3, epsilon=2.0), dither.Unary(k=2, epsilon=2.0), dither.GRR(k=2, epsilon=3.0)):
        for delta in (0.01, 0.1, 0.3):
            for stated in bounds(mechanism, n, delta).values():
                if stated is not None:
                    assert float(enumerated_delta(mechanism.channel(), n, exp_below(stated.epsilon))) <= delta


def hadamard(ratio: int, k: int) -> TwoLevel:
    """Hadamard response with this likelihood ratio."""
    law = dither.Hadamard(k=k, epsilon=1.0).law
    return TwoLevel(ratio, 1, law.favoured, law.outputs, law.apart, k, law.members)


@pytest.mark.parametrize(("k", "n"), [(2, 2), (2, 5), (3, 2), (3, 4), (3, 5), (4, 3)])
@pytest.mark.parametrize("ratio", [2, 5, 400])
def test_hadamard_response_against_all_data_sets(k, n, ratio):
    channel = hadamard(ratio, k)
    law = channel.blanket_law()
    assert law is not None
    for part in (Fraction(1, 20), Fraction(1, 4), Fraction(3, 4)):
        r = 1 + part * (ratio - 1)
        exact = float(enumerated_delta(channel, n, r, pair=(0, 1)))
        below = max(delta_below(crowd, log(r), n) for crowd in channel.crowds())
        assert below <= exact * (1 + 1e-9) <= delta_above(law, log(r), n) * (1 + 2e-9)


def test_hadamard_response_has_no_one_worst_data_set():
    """The others' best hiding place is the row that is the sum of both: not always, and not everybody (decision 44)."""
    deltas = {
        others: enumerated_delta(hadamard(2, 3), 3, Fraction(3, 2), others=others, pair=(0, 1))
        for others in combinations_with_replacement(range(3), 2)
    }
    assert max(deltas, key=lambda others: deltas[others]) == (0, 2)
    assert (deltas[0, 2], deltas[2, 2]) == (Fraction(7, 432), Fraction(1, 72))
    small = {
        others: enumerated_delta(hadamard(2, 3), 3, Fraction(21, 20), others=others, pair=(0, 1)) for others in deltas
    }
    assert max(small, key=lambda others: small[others]) == (2, 2)
