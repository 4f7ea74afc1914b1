"""PrivKV and PCKV: the published numbers, exactly; every draw by enumeration; estimates of simulated users.

What all mechanisms have in common is tested in `contract`. Statistical tests have fixed seeds and a false alarm of 2e-8
each, less than 1e-6 in all.
"""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dither
from contract.sparse import MANY, SIGNS, USERS, check_worst_users
from dither import testing as checks
from dither.core.channel import Table
from dither.core.exact import log_above
from dither.errors import DitherError, DomainError, ReportError
from dither.testing.sign_vectors import signs_of
from dither.utility import deviation

ALARM = 2e-8
CLASSES = [dither.PrivKV, dither.PCKV_GRR, dither.PCKV_AGRR, dither.PCKV_UE]
each_class = pytest.mark.parametrize("cls", CLASSES)
EPSILONS = [0.1, 0.5, 1.0, 3.0, 6.0]


def variances(mechanism: Any, about: str = "mean") -> tuple[float, float]:
    """Of a report about a key, if the user lacks it and if the user has it (with s - 1 others)."""
    own = dict.fromkeys(range(mechanism.s), 1)
    found = replace(mechanism.reading, about=about).moments([{}, own]).variance
    return found[0, 0], found[1, 0]


# Published numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "s"), [(5, 1), (9, 3), (128, 8)])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_drawing_one_of_s_items_amplifies(d, s, epsilon):
    # GRR with the budget log(s (e^epsilon - 1) + 1) on one of the s items is the law that favours all s.
    mechanism = dither.PCKV_AGRR(d=d, s=s, epsilon=epsilon)
    ratio, outputs = Fraction(mechanism.law.high, mechanism.law.low), 2 * d + s
    inner = s * (ratio - 1) + 1
    assert float(inner) == pytest.approx(s * (math.exp(epsilon) - 1) + 1, rel=1e-8)
    own, other = inner / (inner + outputs - 1), 1 / (inner + outputs - 1)
    assert Fraction(mechanism.law.high, mechanism.law.total) == (own + (s - 1) * other) / s
    assert Fraction(mechanism.law.low, mechanism.law.total) == other
    assert mechanism.channel().ratio() == ratio


@pytest.mark.parametrize(("d", "s"), [(5, 1), (9, 3), (128, 8)])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_variances_of_one_draw(d, s, epsilon):
    e = math.exp(epsilon)
    asked = dither.PrivKV(d=d, s=s, epsilon=epsilon)
    expected = 2 * d * (e + 2) / (e - 1) ** 2, d * (e + 1) * (e + 2) / (e - 1) ** 2 - 1
    assert variances(asked) == pytest.approx(expected, rel=1e-8)
    both, gap = 2 / (e + 2), (e - 1) / (e + 2)
    expected = d * both * (1 - both) / gap**2, d * (1 - both / 2) * both / 2 / gap**2 + d - 1
    assert variances(asked, "presence") == pytest.approx(expected, rel=1e-8)

    listed = dither.PCKV_GRR(d=d, s=s, epsilon=epsilon)
    expected = 2 * s**2 * (e + 2 * d) / (e - 1) ** 2, s * (e + 2 * s - 1) * (e + 2 * d) / (e - 1) ** 2 - 1
    assert variances(listed) == pytest.approx(expected, rel=1e-8)

    favoured = dither.PCKV_AGRR(d=d, s=s, epsilon=epsilon)
    total = s * e + 2 * d
    expected = 2 * total / (e - 1) ** 2, (e + 1) * total / (e - 1) ** 2 - 1
    assert variances(favoured) == pytest.approx(expected, rel=1e-8)
    if s > 1:  # better throughout
        assert all(one < other for one, other in zip(variances(favoured), variances(listed), strict=True))


def unary_variance(s: int, e: float, b: float, about: str) -> float:
    """Of PCKV_UE about a key that the user lacks, for a b that is not rounded."""
    total = 1 + (e - 1) * b / 2
    own, other = e * b / 2 / total, b / 2 / total
    if about == "mean":
        return b * s**2 / (own - other) ** 2
    return b * (1 - b) * s**2 / (own + other - b) ** 2


@pytest.mark.parametrize("epsilon", [1e-3, *EPSILONS, 12.0])
def test_the_share_of_coordinates_that_show(epsilon):
    mechanism, e = dither.PCKV_UE(d=20, s=4, epsilon=epsilon), math.exp(epsilon)
    b = 2 / (e + 3)
    assert float(mechanism.shown) == pytest.approx(b, rel=2**-10)
    assert sum(mechanism.own[:2]) / sum(mechanism.own) == pytest.approx(0.5, abs=2e-3)  # the own one, in every second
    for about in ("mean", "presence"):
        exact = unary_variance(4, e, float(mechanism.shown), about)
        assert variances(mechanism, about)[0] == pytest.approx(exact, rel=1e-8)
    # 2 / (E + 3) is the best for presences, and rounding it costs nothing.
    least = unary_variance(4, e, b, "presence")
    assert least <= variances(mechanism, "presence")[0] * (1 + 1e-8) <= least * (1 + 1e-5)
    assert all(unary_variance(4, e, b * other, "presence") > least for other in (0.5, 0.95, 1.05, 1.3))
    # Means are another matter: b is no optimum there, so its rounding shows in the first order.
    assert variances(mechanism)[0] == pytest.approx(8 * 16 * (e + 1) ** 2 / ((e + 3) * (e - 1) ** 2), rel=1e-3)


def test_who_is_best_where():
    # d=128, s=8: drawing one of s by plain GRR is the worst; that nobody knows which one is worth a lot.
    found = {cls.__name__: deviation(cls(d=128, s=8, epsilon=1.0), reports=1000).mse for cls in CLASSES}
    assert min(found, key=lambda name: found[name]) == "PCKV_AGRR"
    assert max(found, key=lambda name: found[name]) == "PCKV_GRR"


# Enumerated ----------------------------------------------------------------------------------------------------------


def both_ways(mechanism: Any) -> list[Any]:
    return [mechanism, replace(mechanism, sample=True)]


SMALL = [
    each
    for cls in CLASSES
    for d, s, epsilon in ((1, 1, 1.0), (3, 1, 0.7), (2, 2, 1.5), (3, 2, 3.0), (3, 3, 1.0))
    for each in both_ways(cls(d=d, s=s, epsilon=epsilon))
    if (cls, d) != (dither.PrivKV, 1)
]
small = pytest.mark.parametrize("mechanism", SMALL, ids=checks.label)


@small
def test_counts_and_moments_over_all_reports(mechanism):
    checks.check_outcomes(mechanism)


def test_a_single_key():
    mechanism = dither.PrivKV(d=1, s=1, epsilon=1.0)
    made = mechanism.estimate(mechanism.tally(mechanism.randomize([{0: 1.0}] * 100, seed=1)))
    assert made["presence"].value.shape == (1,)
    checks.check_outcomes(mechanism)


def bounded(mechanism: Any) -> bool:
    """Whether the divergence is a bound that no pair of users attains."""
    return isinstance(mechanism, dither.PCKV_UE) and mechanism.s > 1


@pytest.mark.parametrize(
    "mechanism", [each for each in SMALL if not bounded(each) and not each.sample], ids=checks.label
)
def test_the_channel_against_all_pairs_of_users(mechanism):
    checks.check_channel(mechanism)


@pytest.mark.parametrize("mechanism", [each for each in SMALL if bounded(each) and not each.sample], ids=checks.label)
def test_one_item_of_several_is_no_worse_than_the_item(mechanism):
    channel, matrix = mechanism.channel(), mechanism.channel().matrix()
    assert channel.ratio() == max(max(column) / min(column) for column in matrix.T)
    assert channel.blanket().mass <= sum(min(column) for column in matrix.T)
    for ratio in (Fraction(1), Fraction(5, 4), Fraction(2)):
        table = Table.of(matrix.tolist())
        assert table.divergence(ratio) < channel.divergence(ratio)


def test_a_divergence_that_is_not_attained_is_a_bound():
    assert not dither.PCKV_UE(d=2, s=2, epsilon=1.0).channel().exact


@pytest.mark.wide
@pytest.mark.parametrize("mechanism", [each for each in SMALL if each.d > 1], ids=checks.label)
def test_sampler_over_all_tapes(mechanism):
    vectors = checks.sparse_inputs(mechanism)
    if mechanism.s == 2:
        vectors.append({0: 0.3, 2 % mechanism.d: -0.6})
    for vector in vectors:
        if len(vector) <= mechanism.s or mechanism.sample:
            checks.check_sparse_sampler(mechanism, vector)


@pytest.mark.parametrize("cls", [dither.PCKV_GRR, dither.PCKV_UE])
def test_three_keys_and_a_choice_that_is_rejected(cls):
    # Of eight words below three two are rejected, for users with fewer keys as well.
    for vector in ({}, {1: -1.0}, {0: 1.0, 2: -1.0}, {0: 1.0, 1: -1.0, 2: 1.0}):
        checks.check_sparse_sampler(cls(d=3, s=3, epsilon=1.0), vector)


def test_everybody_is_asked_about_all_keys_alike():
    mechanism = dither.PrivKV(d=3, s=1, epsilon=1.0, sample=True)
    for vector in ({}, {1: 1.0}, {0: 1.0, 1: 1.0, 2: -1.0}):
        law = checks.sparse_law(mechanism, vector, 64)
        assert [sum(law[3 * key : 3 * key + 3]) for key in range(3)] == [Fraction(1, 3)] * 3


def test_dummies_are_distinct():
    # With one dummy for all, a user without keys would have an output of s times the weight.
    mechanism = dither.PCKV_AGRR(d=3, s=3, epsilon=1.0)
    listed = signs_of(3, 3)
    members = [mechanism.law.members(x) for x in range(len(listed))]
    assert all(len(set(each)) == 3 and max(each) < mechanism.law.outputs for each in members)
    assert len({frozenset(each) for each in members}) == len(listed)


# Estimates -----------------------------------------------------------------------------------------------------------


@each_class
def test_estimates_of_simulated_users(cls):
    checks.check_sparse_estimates(cls(d=6, s=3, epsilon=2.0), USERS, times=20_000, seed=7, alarm=ALARM)
    checks.check_sparse_estimates(cls(d=6, s=2, epsilon=3.0, sample=True), MANY, times=40_000, seed=8, alarm=ALARM)


@each_class
def test_simulated_errors_are_those_predicted(cls):
    checks.check_simulated_errors(cls(d=6, s=2, epsilon=2.0), SIGNS, seed=9, alarm=ALARM)


@each_class
@pytest.mark.parametrize("vectors", [SIGNS, USERS, [{0: 0.0}], [{0: 0.3, 1: -0.3}, {1: 0.9}]], ids=len)
def test_stated_errors(cls, vectors):
    checks.check_sparse_errors(cls(d=6, s=3, epsilon=2.0), vectors)
    checks.check_sparse_errors(cls(d=6, s=3, epsilon=0.3), vectors)


@each_class
def test_errors_cover_which_keys_were_sampled(cls):
    for vectors in (MANY, [dict.fromkeys(range(6), 1.0)]):
        mechanism = cls(d=6, s=2, epsilon=6.0, sample=True)
        made = checks.read_expected(mechanism, checks.expected_tally(mechanism, vectors, 10**12))
        for about in ("mean", "presence"):
            own = replace(mechanism.reading, about=about)
            true = own.moments(vectors).variance.mean(axis=0)
            if cls is dither.PrivKV:  # the number of those asked about a key divides, not a d-th of all
                true = true - 5 * own.truth(vectors).mean(axis=0) ** 2
            assert (made[about].stderr ** 2 * 10**12 >= true * (1 - 1e-4)).all()


def test_keys_that_nobody_was_asked_about_are_unknown():
    mechanism = dither.PrivKV(d=4, s=1, epsilon=1.0)
    reports = mechanism.outputs()
    made = mechanism.estimate(mechanism.tally(np.repeat(reports[reports["key"] < 2], 100)))
    for name in ("mean", "presence"):
        assert np.isnan(made[name].value).tolist() == [False, False, True, True]
        assert np.isinf(made[name].stderr).tolist() == [False, False, True, True]


@pytest.mark.parametrize("mechanism", SMALL, ids=checks.label)
def test_the_worst_users_are_the_worst(mechanism):
    check_worst_users(mechanism)


# Parameters and reports ----------------------------------------------------------------------------------------------


@each_class
@pytest.mark.parametrize(
    "parameters",
    [
        {"s": 4},
        {"s": 0},
        {"s": 1.0},
        {"s": True},
        {"d": 0},
        {"d": 1 << 40},
        {"sample": 1},
        {"sample": None},
        {"weights": (1, 1)},
        {"weights": (1, 1, 1, 2)},
        {"weights": (9, 1, 1, 3)},
        {"weights": (9, 1, 2, 2)},
        {"weights": (10**6, 1)},
        {"weights": (10**6, 1, 1, 2)},
        {"weights": (3, 2, 1)},
    ],
    ids=str,
)
def test_bad_parameters(cls, parameters):
    with pytest.raises(DitherError):
        cls(**{"d": 3, "s": 2, "epsilon": 1.0, **parameters})


@each_class
def test_more_keys_than_s_have_to_be_allowed(cls):
    vectors = [{0: 1}, {0: 1, 1: 1}, {0: 1, 1: 1, 2: -1}]
    with pytest.raises(DomainError, match=r"row 2: there are more than 2 keys; sample=True"):
        cls(d=5, s=2, epsilon=1.0).randomize(vectors)
    assert len(cls(d=5, s=2, epsilon=1.0, sample=True).randomize(vectors)) == 3


@each_class
def test_many_keys(cls):
    mechanism = cls(d=300, s=300, epsilon=2.0)
    tally = mechanism.tally(mechanism.randomize([{299: -1.0}, {}, dict.fromkeys(range(300), 1.0)], seed=1))
    assert tally.n == 3
    assert len(tally.counts) == 300


@pytest.mark.parametrize("d", [1, 7, 8, 9, 63, 64, 65, 130])
def test_unary_reports_of_every_width(d):
    # Every coordinate of every report shows one sign at most, and on average those that the law says.
    mechanism = dither.PCKV_UE(d=d, s=1, epsilon=1.0)
    reports = mechanism.randomize([{d - 1: 1.0}] * 20_000, seed=4)
    assert mechanism.valid(reports).all()
    rates, law = mechanism.tally(reports).counts / 20_000, mechanism.reading.law
    expected = np.tile(law.chance[0] @ law.seen, (d, 1))
    expected[-1] = law.chance[2] @ law.seen
    deviations = np.sqrt(expected * (1 - expected) / 20_000)
    assert (np.abs(rates - expected) < 6.5 * deviations).all()  # 8e-11 each, and 700 of them
    assert mechanism.dtype.itemsize == 2 * -(-d // 8)


@pytest.mark.parametrize(
    ("cls", "fields"),
    [
        (dither.PrivKV, {"key": 2, "value": 3}),
        (dither.PrivKV, {"key": 3, "value": 2}),
        (dither.PCKV_GRR, {"value": 7}),
        (dither.PCKV_AGRR, {"value": 8}),
        (dither.PCKV_UE, {"minus": b"\x05", "plus": b"\x04"}),  # a key with both signs
        (dither.PCKV_UE, {"minus": b"\x08", "plus": b"\x00"}),  # a key that there is not
        (dither.PCKV_UE, {"minus": b"\x00", "plus": b"\x80"}),
    ],
    ids=str,
)
def test_reports_just_out_of_range(cls, fields):
    mechanism = cls(d=3, s=2, epsilon=1.0)
    report = mechanism.outputs()[-1:]
    assert mechanism.valid(report).all()
    for name, value in fields.items():
        report[name] = np.void(value) if isinstance(value, bytes) else value
    assert not mechanism.valid(report).any()
    with pytest.raises(ReportError, match="report 0"):
        mechanism.tally(report)


def test_weights_of_unary_encoding_are_certified():
    mechanism = dither.PCKV_UE(d=3, s=1, epsilon=log_above(Fraction(9)), weights=(9, 1, 1, 4))
    assert mechanism.channel().ratio() == 9
    with pytest.raises(DitherError, match="guarantee"):
        dither.PCKV_UE(d=3, s=1, epsilon=2.0, weights=(9, 1, 1, 4))


def test_digits_of_unary_encoding_leave_the_signs_their_words():
    shown = (1 << 126) + 1
    mechanism = dither.PCKV_UE(d=3, s=1, epsilon=1.0, weights=(2 * shown, 1, shown, 1 << 128))
    assert mechanism.shown.denominator == 1 << 128
    with pytest.raises(DitherError, match=r"at most 2\^128"):
        dither.PCKV_UE(d=3, s=1, epsilon=1.0, weights=(2 * shown, 1, shown, 1 << 129))
