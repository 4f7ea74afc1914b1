"""Amplification by shuffling: the numbers that must come out, the inverses, and what is refused."""

import math
import warnings
from collections import defaultdict
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

import dither
from dither.core.exact import exp_below
from dither.core.guarantee import Guarantee
from dither.errors import DitherWarning, ParameterError
from dither.privacy import OneRound, amplify, bounds, compose, local_budget, parallel, shuffled_delta, users_for
from dither.privacy.enumeration import enumerated_delta
from dither.privacy.shuffle import BOUNDS
from marks import wide

LOCAL = (0.5, 1.0, 2.0, 4.0)
CLONE = {  # the clone bound of 2021, evaluated to the end, at delta 1e-6
    10**4: (0.02040, 0.05301, 0.1550, 0.6009),
    10**5: (0.00581, 0.01528, 0.04503, 0.1698),
    10**6: (0.00162, 0.00433, 0.01296, 0.04931),
}
GENERAL = {10**4: (0.01812, 0.04321, 0.1144, 0.4108), 10**6: (0.00143, 0.00351, 0.00952, 0.03428)}
COLLISION = {4: (0.00416, 0.00961, 0.02392, 0.0819), 64: (0.00396, 0.00924, 0.02362, 0.0818)}  # n = 10^5


@pytest.mark.parametrize("n", CLONE)
def test_the_clone_bound(n):
    for local, expected in zip(LOCAL, CLONE[n], strict=True):
        assert amplify(local, n, 1e-6, "clone").epsilon == pytest.approx(expected, abs=0.6 * 10 ** _last(expected))


def _last(number: float) -> int:
    """The place of the last digit that is given."""
    return -len(str(number).partition(".")[2])


@pytest.mark.parametrize("n", GENERAL)
def test_the_general_bound(n):
    for local, expected in zip(LOCAL, GENERAL[n], strict=True):
        found = epsilons(local, n, 1e-6)
        assert found["blanket"] == pytest.approx(expected, abs=0.6e-5 if expected < 0.1 else 0.6e-4)
        assert found["blanket"] < found["clone"]
        assert "own" not in found


def epsilons(given, n: int, delta: float) -> dict[str, float]:
    """What each bound says that says something."""
    return {name: each.epsilon for name, each in bounds(given, n, delta).items() if each}


@pytest.mark.wide
@pytest.mark.parametrize("s", COLLISION)
def test_the_blanket_of_collision(s):
    for local, expected in zip(LOCAL, COLLISION[s], strict=True):
        mechanism = dither.Collision(d=256, s=s, epsilon=local, t=math.floor(s * math.exp(local) + 2 * s - 1))
        found = amplify(mechanism, 10**5, 1e-6)
        assert found.epsilon == pytest.approx(expected, rel=2e-3)
        assert found == bounds(mechanism, 10**5, 1e-6)["own"]
        # What 003 promised: 20 to 30% of epsilon below the tightest general bound, 28 to 53% below the clones.
        assert 0.72 > found.epsilon / amplify(local, 10**5, 1e-6, "clone").epsilon > 0.45
        assert found.epsilon < 0.82 * amplify(local, 10**5, 1e-6, "blanket").epsilon


def test_the_closed_form():
    assert amplify(0.5, 10**4, 1e-6, "erlingsson").epsilon == pytest.approx(6 * math.sqrt(math.log(1e6) / 1e4))


def test_a_billion_users():
    found = epsilons(1.0, 10**9, 1e-9)
    assert 0 < found["blanket"] < found["clone"] < 2e-4


@pytest.mark.wide
@pytest.mark.parametrize("again", [False, wide(True)], ids=["bounds", "and the best of them"])
def test_every_mechanism_hides_at_least_as_well_as_the_worst(again):
    for name, cls in list(dither.registry.items())[:: 1 if again else 4]:
        mechanism: Any = cls(**cls.examples[0])
        if name == "Personalised":
            with pytest.raises(ParameterError, match="each group on its own"):
                amplify(mechanism, 10**4, 1e-6)
            continue
        if mechanism.channel().epsilon == math.inf:  # no pure epsilon, which all bounds start from
            assert name == "BallGaussian"
            assert not epsilons(mechanism, 10**4, 1e-6)
            continue
        found = epsilons(mechanism, 10**4, 1e-6)
        assert found["blanket"] < found["clone"] < mechanism.guarantee.epsilon or mechanism.delta
        if "own" in found:
            assert found["own"] <= found["blanket"] * (1 + 1e-5)
        assert not again or amplify(mechanism, 10**4, 1e-6).epsilon == min(found.values())


def test_better_with_more_users_a_larger_delta_or_less_to_hide():
    found = [amplify(1.0, n, 1e-6).epsilon for n in (10**3, 10**4, 10**5, 10**7)]
    assert found == sorted(found, reverse=True)
    found = [amplify(1.0, 10**4, delta).epsilon for delta in (1e-12, 1e-9, 1e-6, 1e-3)]
    assert found == sorted(found, reverse=True)
    found = [amplify(local, 10**4, 1e-6).epsilon for local in (0.1, 0.5, 1.0, 2.0, 5.0)]
    assert found == sorted(found)


# Inverses ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", ["best", "clone"])
def test_the_local_budget(bound):
    local = local_budget(0.1, 10**5, 1e-6, bound)
    assert amplify(local, 10**5, 1e-6, bound).epsilon <= 0.1
    assert amplify(local * 1.001, 10**5, 1e-6, bound).epsilon > 0.1


def test_the_local_budget_of_collision():
    """What the design's numbers say: 4.21 by its own bound, 3.71 by the general one."""
    own = local_budget(0.1, 10**5, 1e-6, mechanism=lambda epsilon: dither.Collision(d=256, s=8, epsilon=epsilon))
    assert own == pytest.approx(4.21, abs=0.005)
    assert local_budget(0.1, 10**5, 1e-6) == pytest.approx(3.71, abs=0.005)


@pytest.mark.wide
def test_the_local_budget_of_a_mechanism():
    def made(epsilon: float) -> dither.Collision:
        return dither.Collision(d=64, s=4, epsilon=epsilon)

    local = local_budget(0.05, 10**5, 1e-6, mechanism=made)
    assert amplify(made(local), 10**5, 1e-6).epsilon <= 0.05
    assert local > 1.1 * local_budget(0.05, 10**5, 1e-6)


def test_a_crowd_that_is_too_small_adds_nothing():
    assert local_budget(0.3, 5, 1e-9) == pytest.approx(0.3)


@pytest.mark.wide
def test_how_many_users():
    n = users_for(1.0, 0.1, 1e-6)
    assert amplify(1.0, n, 1e-6).epsilon <= 0.1 < amplify(1.0, n - 1, 1e-6).epsilon
    assert users_for(0.1, 0.5, 1e-6) == 2
    mechanism = dither.Collision(d=64, s=4, epsilon=1.0)
    assert users_for(mechanism, 0.1, 1e-6) < n


# Refused -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, -5, 2.5, True, "many", 10**13])
def test_bad_crowds(n):
    with pytest.raises(ParameterError, match="n must"):
        amplify(1.0, n, 1e-6)


@pytest.mark.parametrize("delta", [0, 0.0, 1.0, -0.1, 2, math.nan, "small", None])
def test_bad_deltas(delta):
    with pytest.raises(ParameterError, match="delta"):
        amplify(1.0, 1000, delta)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan, "1", None])
def test_bad_budgets(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        amplify(epsilon, 1000, 1e-6)


def test_unknown_bounds_are_listed():
    with pytest.raises(ParameterError, match=", ".join(BOUNDS)):
        amplify(1.0, 1000, 1e-6, "strongest")


@pytest.mark.parametrize(
    ("given", "n", "bound", "reason"),
    [
        (2.0, 10**5, "erlingsson", "at most 1/2"),
        (0.4, 500, "erlingsson", "1000 users"),
        (1.0, 10**5, "own", "'blanket' holds for any"),
        (30.0, 10**5, "best", "above 20"),
        (1.0, 3, "best", "too few"),
    ],
)
def test_where_no_bound_helps_the_local_guarantee_stands_and_says_why(given, n, bound, reason):
    with pytest.warns(DitherWarning, match=reason):
        assert amplify(given, n, 1e-6, bound) == Guarantee(given)


def test_no_crowd_is_large_enough():
    with pytest.raises(ParameterError, match="no crowd is large enough"):
        users_for(19.0, 1e-9, 1e-12)


def test_inverses_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        local_budget(0.3, 5, 1e-9)
        users_for(2.0, 1.0, 1e-6)


# What a review found -------------------------------------------------------------------------------------------------


# Plans, and the delta of a crowd --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def survey() -> dither.Plan:
    schema = dither.Schema(
        {"income": dither.Numeric(0, 200_000), "job": dither.Categorical(["nurse", "driver", "other"])}
    )
    return dither.plan(schema, epsilon=1.0, users=100_000)


def test_plans_are_amplified_by_the_mixture_of_their_parts(survey):
    found, parts = epsilons(survey, 10**5, 1e-6), [epsilons(part.mechanism, 10**5, 1e-6) for part in survey.parts]
    assert min(each["own"] for each in parts) < found["own"] < found["blanket"]
    assert amplify(survey, 10**5, 1e-6).epsilon == found["own"]
    n = users_for(survey, 0.05, 1e-6)
    assert amplify(survey, n, 1e-6).epsilon <= 0.05 < amplify(survey, n - 1, 1e-6).epsilon


def test_the_delta_of_a_crowd(survey):
    for given in (1.0, dither.GRR(k=4, epsilon=1.0), survey):
        stated = amplify(given, 10**5, 1e-6)
        assert shuffled_delta(given, stated.epsilon, 10**5) <= 1e-6
        assert shuffled_delta(given, stated.epsilon * (1 - 1e-5), 10**5) > 1e-6
        falling = [shuffled_delta(given, epsilon, 10**4) for epsilon in (0.01, 0.05, 0.2, 2.0)]
        assert falling == sorted(falling, reverse=True)
        assert falling[-1] == 0


# Lower bounds --------------------------------------------------------------------------------------------------------

TIGHT = [
    (dither.GRR(k=3, epsilon=1.0), 1.001),
    (dither.GRR(k=10, epsilon=4.0), 1.001),
    (dither.Collision(d=256, s=4, epsilon=1.0), 1.002),
    (dither.Collision(d=256, s=8, epsilon=2.0), 1.002),
    (dither.GRR(k=2, epsilon=1.0), 1.01),
    (dither.Duchi(epsilon=2.0), 1.01),
    (dither.Hadamard(k=100, epsilon=1.0), 1.01),
]


@pytest.mark.parametrize(
    ("mechanism", "ratio"), TIGHT, ids=lambda each: repr(each) if hasattr(each, "epsilon") else None
)
def test_bounds_beside_the_worst_data_set_known(mechanism, ratio):
    lower = bounds(mechanism, 10**4, 1e-6).lower
    assert lower is not None
    assert 1 <= epsilons(mechanism, 10**4, 1e-6)["own"] / lower <= ratio


def test_the_lower_bound_of_an_epsilon_is_that_of_binary_response():
    lower = bounds(1.0, 10**6, 1e-6).lower
    assert lower == pytest.approx(0.00285, abs=1e-5)  # decision 14
    binary = epsilons(dither.GRR(k=2, epsilon=1.0), 10**6, 1e-6)["own"]
    assert lower is not None
    assert lower <= binary < 1.01 * lower < epsilons(1.0, 10**6, 1e-6)["blanket"]


def test_contrasts_have_the_ratio_of_their_channels():
    for cls in dither.registry.values():
        for example in cls.examples:
            channel = cls(**example).channel()
            contrast = channel.contrast()
            assert contrast is None or contrast.ratio == channel.ratio()


@pytest.mark.parametrize(
    ("cls", "parameters"),
    [
        (dither.Unary, {"k": 3, "epsilon": 1.0, "weights": (3, 5, 1, 2)}),
        (dither.PCKV_UE, {"d": 2, "s": 1, "epsilon": 1.0, "weights": (2, 1, 3, 8)}),
        (dither.LUnary, {"k": 3, "epsilon": 2.0, "first": 1.0, "weights": (3, 5, 1, 2, 1, 8)}),
    ],
)
def test_weights_the_wrong_way_round_are_refused(cls, parameters):
    # They were certified, and amplified to an epsilon of 0: the contrast had a ratio below 1.
    with pytest.raises(ParameterError):
        cls(**parameters)


def test_a_local_delta_counts():
    mechanism = dither.GRR(k=4, epsilon=0.5, delta=0.01)
    assert users_for(mechanism, 0.5, 1e-6) > 2
    found = amplify(mechanism, users_for(mechanism, 0.5, 1e-6), 1e-6)
    assert found.epsilon <= 0.5
    assert found.delta <= 1e-6
    with pytest.warns(DitherWarning):
        alone = amplify(mechanism, 2, 1e-9)
    assert alone.delta == 0
    assert float(enumerated_delta(mechanism.channel(), 2, exp_below(alone.epsilon))) <= 1e-9
    with pytest.raises(ParameterError, match="delta of its own"):
        local_budget(0.5, 2, 1e-6, mechanism=lambda epsilon: dither.GRR(k=4, epsilon=epsilon, delta=0.01))


def test_a_large_crowd_with_a_large_delta_hides_all():
    for n, delta in ((10**6, 0.01), (10**8, 1e-3)):
        assert amplify(1.0, n, delta).epsilon == 0.0


@pytest.mark.parametrize("delta", [1e-16, 1e-38, 1e-300])
def test_deltas_that_floating_point_does_not_resolve_are_refused(delta):
    with pytest.raises(ParameterError, match="at least 1e-15"):
        amplify(1.0, 1000, delta)


# Devices with memory -------------------------------------------------------------------------------------------------

MEMORY = [
    dither.LGRR(k=5, epsilon=3.0, first=1.0),
    wide(dither.LUnary(k=5, epsilon=3.0, first=1.0)),
    wide(dither.LHash(k=5, epsilon=3.0, first=1.0)),
]


@pytest.mark.parametrize("mechanism", MEMORY)
def test_with_memory_a_round_says_that_it_is_one_and_what_all_rounds_promise(mechanism):
    found = amplify(mechanism, n=10**5, delta=1e-6)
    assert isinstance(found, OneRound)
    plain = amplify(mechanism.sent, n=10**5, delta=1e-6)
    assert (found.epsilon, found.model) == (plain.epsilon, "shuffled")
    assert found.all_rounds == amplify(mechanism.kept, n=10**5, delta=1e-6)
    assert plain.epsilon < found.all_rounds.epsilon < mechanism.guarantee.epsilon
    for said in (str(found), repr(found)):
        assert str(found.all_rounds.epsilon)[:7] in said
    assert "for one round; for any number of rounds of the same users about one value" in str(found)
    assert found.to_dict()["all_rounds"] == found.all_rounds.to_dict()
    assert all(isinstance(each, OneRound) for each in bounds(mechanism, 10**5, 1e-6).values() if each is not None)
    with pytest.warns(DitherWarning, match="too few"):
        few = amplify(mechanism, n=2, delta=1e-6)
    assert isinstance(few, OneRound)
    assert (few.epsilon, few.all_rounds) == (mechanism.first_report.epsilon, mechanism.guarantee)
    assert "for any number of rounds about one value" in str(few)
    for refusing in (lambda: compose([(found, 2)]), lambda: compose([found], delta=1e-6), lambda: parallel([found])):
        with pytest.raises(ParameterError, match="all_rounds"):
            refusing()
    assert compose([(found.all_rounds, 2)]).epsilon > found.all_rounds.epsilon
    assert not isinstance(amplify(mechanism.sent, n=10**5, delta=1e-6), OneRound)


Law = dict[Any, Fraction]


def shown(rows: list[list[Fraction]], users: tuple[int, ...]) -> Law:
    """The exact law of a multiset: each user draws an output from a row."""
    law: Law = defaultdict(Fraction)
    for drawn in product(range(len(rows[0])), repeat=len(users)):
        law[tuple(sorted(drawn))] += math.prod(rows[user][y] for user, y in zip(users, drawn, strict=True))
    return law


def mixed(laws: list[tuple[Fraction, Law]]) -> Law:
    whole: Law = defaultdict(Fraction)
    for share, law in laws:
        for key, probability in law.items():
            whole[key] += share * probability
    return whole


def together(law: Law, rounds: int) -> Law:
    """So many independent draws of a law."""
    return {keys: math.prod((law[key] for key in keys), start=Fraction(1)) for keys in product(law, repeat=rounds)}


@pytest.mark.parametrize(("k", "n", "most"), [(2, 3, 3), wide(3, 2, 3)])
def test_all_rounds_together_tell_no_more_than_the_shuffled_permanent_responses(k, n, most):
    """By enumeration: what separate shufflers show in up to `most` rounds, against the theorem of `shuffle`."""
    mechanism = dither.LGRR(k=k, epsilon=3.0, first=2.5, weights=(9, 1, 5, 1))
    kept = [mechanism.kept.channel().row(x) for x in range(k)]
    again = [mechanism._again.row(x) for x in range(k)]
    others = (0,) * (n - 1)

    def rounds(values: tuple[int, ...], number: int) -> Law:
        permanent = shown(kept, values)
        return mixed([(share, together(shown(again, held), number)) for held, share in permanent.items()])

    def apart(pair: list[Law], ratio: Fraction) -> Fraction:
        one, other = pair
        return sum((max(Fraction(0), one[key] - ratio * other[key]) for key in one), Fraction(0))

    crowds = [(value, *others) for value in (0, 1)]
    laws = [[rounds(values, number) for values in crowds] for number in range(1, most + 1)]
    bound = [shown(kept, values) for values in crowds]
    grown = False
    for ratio in map(Fraction, ("1", "3/2", "2", "4")):
        each = [apart(pair, ratio) for pair in laws]
        assert each == sorted(each)
        assert each[-1] <= apart(bound, ratio)
        grown = grown or each[-1] > 1.2 * each[0]
    assert grown  # so what holds for one round does not hold for all
    plain = [mechanism.channel().row(x) for x in range(k)]
    fresh = [together(shown(plain, values), 2 * most) for values in crowds]
    assert apart(fresh, Fraction(4)) > apart(bound, Fraction(4))  # a device without memory would break it
    alone = [rounds(values[:1], 2 * most) for values in crowds]  # in rounds that the others skip
    assert apart(alone, Fraction(1)) > apart(bound, Fraction(1))
