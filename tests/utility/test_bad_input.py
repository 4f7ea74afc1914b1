"""Bad questions: everything that is asked wrongly ends in an error of dither's own that tells what to do, and no value.

`test_deviation.py` refuses the plain mistakes of one call. Here every question (`QUESTIONS`) is asked about every kind
of domain with each mistake, since they reach the same checks by different ways, and the odd ones are added: not a
number, the wrong shape, text that is nearly a distribution. A message ends up in logs, so none may hold a value: bad
values are, or hold, one recognisable number.
A warning of NumPy beside an answer would be no refusal: the suite turns warnings into errors.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dither
from dither.core.checks import real_array
from dither.errors import DitherError, DomainError, ParameterError
from dither.testing import messages
from dither.utility import break_even, deviation, epsilon_for, rank, users_for
from dither.utility.compare import BreakEven

SECRET = 987654321
NAN, INF = float("nan"), float("inf")

PIECEWISE, WAVE, GRR = dither.Piecewise(1.0), dither.SquareWave(1.0), dither.GRR(k=4, epsilon=1.0)
RECORDS = dither.Sampled("Piecewise", d=2, m=1, epsilon=1.0)
MIXED = dither.Sampled(("Duchi", "GRR(k=3)"), d=2, m=1, epsilon=1.0)
CATEGORIES = dither.Sampled("GRR(k=3)", d=2, m=1, epsilon=1.0)
GROUPED = dither.Personalised("Duchi", {"careful": 0.5, "generous": 2.0})

# The five questions, each about one population.
QUESTIONS: dict[str, Callable[..., Any]] = {
    "deviation": lambda one, values, weights: deviation(one, values, weights, reports=100),
    "rank": lambda one, values, weights: rank([one], values, weights, reports=100),
    "break_even": lambda one, values, weights: break_even(one, one, values, weights),
    "users_for": lambda one, values, weights: users_for(one, 0.05, None, values, weights),
    "epsilon_for": lambda one, values, weights: epsilon_for(lambda _: one, 0.05, None, values, weights, users=10**6),
}
every_question = pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)


def refused(ask: Callable[[], Any], kind: type[Exception] = ParameterError) -> str:
    """Everything that a refusal says, after seeing that it does not hold the secret."""
    with pytest.raises(kind) as caught:
        ask()
    assert isinstance(caught.value, DitherError)
    said = messages(caught.value)
    assert str(SECRET) not in said
    return said


# Who the users are ---------------------------------------------------------------------------------------------------

TWO_USERS = {
    "numbers": (PIECEWISE, [0.1, 0.2]),
    "categories": (GRR, [0, 3]),
    "records": (RECORDS, [[0.1, 0.2], [0.3, 0.4]]),
    "mixed": (MIXED, [[0.1, 2], [0.3, 0]]),
    "groups": (GROUPED, {"value": [0.1, 0.2], "group": ["careful", "generous"]}),
}
NO_SHARES: list[Any] = [
    [0.5, 0.6],
    [0.5, 0.4],
    [1.5, -0.5],
    [0.0, 0.0],
    [1.0],
    [0.5, 0.25, 0.25],
    [[0.5, 0.5]],
    1.0,
    [NAN, 1.0],
]


@every_question
@pytest.mark.parametrize("kind", TWO_USERS)
def test_weights_are_shares(ask, kind):
    mechanism, values = TWO_USERS[kind]
    for weights in NO_SHARES:
        assert "weights must" in refused(lambda given=weights: ask(mechanism, values, given)), weights


@pytest.mark.parametrize(
    "weights",
    [
        [INF, -INF],
        [1e308, 1e308],  # their sum is beyond all floats
        [None, 1],
        [[1], [1, 2]],
        [1j, 1],
        ["0.5", "0.5"],
        [0.5, f"{SECRET}"],
        [True, False],
        np.ma.array([0.5, 0.5], mask=[False, True]),
        [10**400, 0],
        len,
        {"a": 1},
        [],
        "half",
    ],
    ids=lambda weights: str(weights)[:40],
)
def test_weights_are_numbers(weights):
    assert "weights must" in refused(lambda: deviation(PIECEWISE, [0.1, 0.2], weights, reports=100))


@pytest.mark.parametrize("given", [[Fraction(1, 2), 0.5], [np.float32(0.5)] * 2, (0.5, 0.5)], ids=str)
def test_any_real_numbers_are_numbers(given):
    found = real_array(given)
    assert found is not None
    assert found.tolist() == [0.5, 0.5]
    assert deviation(PIECEWISE, [0.1, 0.2], given, reports=100).rmse > 0


@every_question
@pytest.mark.parametrize("mechanism", [GRR, RECORDS, MIXED, GROUPED], ids=repr)
def test_weights_belong_to_values(ask, mechanism):
    refused(lambda: ask(mechanism, None, [1.0]))


def test_the_weights_of_other_users_are_not_adapted():
    # As many weights as there are users in the other population, which was checked before this one.
    deviation(GRR, [0, 1, 2], [0.5, 0.25, 0.25], reports=100)
    refused(lambda: deviation(GRR, [0, 1], [0.5, 0.25, 0.25], reports=100))


OUTSIDE = {
    "a number": (PIECEWISE, [0.1, SECRET]),
    "a number alone": (PIECEWISE, SECRET),
    "a large number": (PIECEWISE, [2**70 + SECRET]),
    "a text": (PIECEWISE, ["x", str(SECRET)]),
    "bytes": (PIECEWISE, str(SECRET).encode()),
    "nothing": (PIECEWISE, [None, SECRET]),
    "no number": (PIECEWISE, [NAN, SECRET]),
    "a table": (PIECEWISE, [[0.1, SECRET]]),
    "a ragged table": (PIECEWISE, [[1], [1, SECRET]]),
    "a mapping": (PIECEWISE, {"a": SECRET}),
    "an imaginary number": (PIECEWISE, [1j * SECRET]),
    "a date": (PIECEWISE, np.array([SECRET], dtype="datetime64[s]")),
    "under a mask": (PIECEWISE, np.ma.array([0.1, SECRET], mask=[False, True])),
    "an edge of a histogram": (PIECEWISE, (np.array([1.0, 2.0]), np.array([0.0, SECRET, SECRET + 1.0]))),
    "a category": (GRR, [0, SECRET]),
    "a negative category": (GRR, [0, -SECRET]),
    "half a category": (GRR, [0.5, SECRET]),
    "a large category": (GRR, [2**64 + SECRET]),
    "two texts": (GRR, ([f"{SECRET}x"], ["b"])),
    "a histogram of categories": (GRR, (np.array([1.0, 2.0]), np.array([0.0, 1.0, SECRET]))),
    "a dimension": (RECORDS, [[0.1, SECRET]]),
    "a dimension of two rows": (RECORDS, ([0.1, 0.2], [0.3, SECRET])),
    "another number of dimensions": (RECORDS, [[0.1, 0.2, SECRET]]),
    "a category of a record": (MIXED, [[0.1, SECRET]]),
    "a value of a group": (GROUPED, {"value": [SECRET], "group": ["careful"]}),
    "the name of a group": (GROUPED, {"value": [0.1], "group": [str(SECRET)]}),
    "the number of a group": (GROUPED, {"value": [0.1], "group": [SECRET]}),
    "no groups": (GROUPED, [0.1, SECRET]),
}


@every_question
def test_values_outside_the_domain_are_refused_and_not_quoted(ask):
    for case, (mechanism, values) in OUTSIDE.items():
        said = refused(lambda one=mechanism, given=values: ask(one, given, None), DomainError)
        assert "invalid=" not in said, case  # advice for those who collect


@pytest.mark.parametrize("mechanism", [PIECEWISE, GRR, RECORDS, MIXED, GROUPED], ids=repr)
@every_question
def test_nobody_is_not_a_population(ask, mechanism):
    refused(lambda: ask(mechanism, [], None))


@pytest.mark.parametrize(
    "histogram",
    [
        ([1.0, NAN], [0.0, 0.5, 1.0]),
        ([1.0, 1.0], [0.0, NAN, 1.0]),
        ([0.0, 0.0], [0.0, 0.5, 1.0]),
        ([1.0, INF], [0.0, 0.5, 1.0]),
        ([1.0, 1.0], [-INF, 0.0, 1.0]),
        ([1.0, 1.0], [-1e308, 1e308, 1e308]),
        ([1.0, 1.0], [0.0, 0.5]),
        ([1.0, -1.0], [0.0, 0.5, 1.0]),
        ([1j], [0.1, 0.2]),
        ([f"{SECRET}x"], ["b", "c"]),
        (["1"], ["0.1", "0.2"]),
        ([[1], [1, 2]], [3]),
        ([[1.0]], [[0.0, 1.0]]),
        ([], [0.0]),
        ([], []),
    ],
    ids=str,
)
def test_histograms_have_counts_and_edges(histogram):
    assert "a histogram is" in refused(lambda: deviation(PIECEWISE, histogram, reports=100))


def test_a_histogram_has_its_own_weights():
    refused(lambda: deviation(PIECEWISE, ([1.0, 1.0], [-0.5, 0.0, 1.0]), [7.0], reports=100))


def test_counts_whose_sum_is_beyond_all_floats_are_counts():
    edges = [-0.5, 0.0, 1.0]
    huge, small = (deviation(PIECEWISE, ([size, size], edges), reports=100) for size in (1e308, 1.0))
    assert huge.rmse == pytest.approx(small.rmse)


@pytest.mark.parametrize(
    ("mechanism", "name"),
    [
        (PIECEWISE, ""),
        (PIECEWISE, "zipf(1.1)"),
        (PIECEWISE, "uniform(0, 1)"),
        (PIECEWISE, "normal(mean=0, sd=1)"),
        (PIECEWISE, "normal('a', 1)"),
        (PIECEWISE, "normal(0, -1)"),
        (PIECEWISE, "normal(50, 0.1)"),  # nobody of it is in the domain
        (PIECEWISE, "normal(1e400, 1)"),
        (PIECEWISE, "normal(0, 1e400)"),
        (PIECEWISE, "normal(1" + "0" * 400 + ", 1)"),
        (PIECEWISE, "normal(0.123, 1e-300)"),  # all at one place
        (PIECEWISE, "normal(0.0005, 1e-5)"),  # which is one that is looked at
        (PIECEWISE, "beta(1e308, 1e308)"),
        (PIECEWISE, "normal(1j, 1)"),
        (PIECEWISE, "beta(1e400, 1)"),
        (PIECEWISE, "beta(5"),
        (PIECEWISE, "beta(*[1, 2])"),
        (PIECEWISE, "beta(**{1: 2})"),
        (PIECEWISE, "uni\0form"),
        (PIECEWISE, "-" * 100_000 + "1"),
        (PIECEWISE, "normal(" + "1" * 5000 + ", 1)"),
        (GRR, "beta(5, 2)"),
        (GRR, "zipf"),
        (GRR, "zipf(1, 2)"),
        (GRR, "zipf(1e400)"),
        (GRR, "zipf(-5000)"),
        (RECORDS, "zipf(1)"),
        (MIXED, "uniform"),
        (CATEGORIES, "beta(5, 2)"),
        (GROUPED, "uniform"),
    ],
    ids=lambda given: repr(given)[:40],
)
def test_unknown_distributions_are_refused(mechanism, name):
    refused(lambda: deviation(mechanism, name, reports=100))


def test_sharp_distributions_are_known():
    spread = {name: deviation(WAVE, name, reports=100).rmse for name in ("beta(5000, 5000)", "normal(0, 0.01)")}
    assert spread["beta(5000, 5000)"] == pytest.approx(spread["normal(0, 0.01)"], rel=1e-3)
    assert deviation(GRR, "zipf(5000)", reports=100).rmse == pytest.approx(deviation(GRR, [0], reports=100).rmse)


def test_records_of_one_kind_have_a_distribution_in_every_dimension():
    found = deviation(CATEGORIES, "zipf(2)", reports=100)
    table = np.repeat([[0, 0], [1, 1], [2, 2]], [36, 9, 4], axis=0)
    assert found.variance == pytest.approx(deviation(CATEGORIES, table, reports=100).variance)
    assert "several kinds" in refused(lambda: deviation(MIXED, "uniform", reports=100))


@every_question
def test_every_question_refuses_an_unknown_distribution(ask):
    assert '"beta(5, 2)"' in refused(lambda: ask(PIECEWISE, f"cauchy({SECRET})", None))  # it says which there are


# How it is asked -----------------------------------------------------------------------------------------------------

ANY: Any = None
FOUR_ITEMS = deviation(GRR, reports=100)
NOT_COUNTS: list[Any] = [0, -1, 1.5, True, "9", None, NAN, INF, [5], np.int64(0), np.float64(3.0)]


@pytest.mark.parametrize("count", [*NOT_COUNTS, 10**400], ids=lambda count: repr(count)[:20])
def test_reports_are_counted(count):
    assert "reports must" in refused(lambda: deviation(GRR, reports=count))
    assert "reports must" in refused(lambda: rank([PIECEWISE], "uniform", reports=count))
    assert "users must" in refused(lambda: epsilon_for(dither.Piecewise, 0.1, users=count))


@pytest.mark.parametrize("count", NOT_COUNTS, ids=repr)
def test_nobody_wins_without_reports(count):
    assert "reports must" in refused(lambda: BreakEven("a", "b", 10.0).winner(count))


@pytest.mark.parametrize("given", [ANY, "Piecewise", dither.Piecewise, 1.0, [PIECEWISE]], ids=repr)
def test_a_mechanism_has_its_parameters(given):
    for ask in (
        lambda: deviation(given, reports=100),
        lambda: rank([PIECEWISE, given], reports=100),
        lambda: rank({"it": given}, reports=100),
        lambda: break_even(PIECEWISE, given),
        lambda: users_for(given, 0.1),
    ):
        assert "dither.Piecewise(epsilon=1.0)" in refused(ask)


@pytest.mark.parametrize("given", [PIECEWISE, None, 5], ids=repr)
def test_several_mechanisms_are_ranked(given):
    assert "a list" in refused(lambda: rank(given, reports=100))


@pytest.mark.parametrize(
    "make",
    [PIECEWISE, "Piecewise", None, dither.GRR, dither.Sampled, lambda: PIECEWISE, lambda _: None, lambda _: GRR.k],
    ids=lambda make: getattr(make, "__qualname__", repr(make)),
)
def test_a_budget_is_looked_for_with_a_function(make):
    assert "a function from epsilon to a mechanism" in refused(lambda: epsilon_for(make, 0.1, users=1000))


def test_errors_of_the_function_are_its_own():
    def make(epsilon: float) -> Any:
        return dither.Piecewise(epsilon) + 1  # type: ignore[operator]

    with pytest.raises(TypeError, match="unsupported operand"):
        epsilon_for(make, 0.1, users=1000)


@pytest.mark.parametrize("estimator", ["best", "", "Naive", None, 3, ["naive"], "reading"], ids=repr)
def test_unknown_estimators_are_refused(estimator):
    for ask in (
        lambda: deviation(WAVE, reports=100, estimator=estimator),
        lambda: rank([WAVE], reports=100, estimator=estimator),
        lambda: break_even(WAVE, WAVE, estimators=("naive", estimator)),
        lambda: break_even(WAVE, WAVE, estimators=(estimator, "calibrated")),
        lambda: users_for(WAVE, 0.1, estimator=estimator),
    ):
        assert '"calibrated"' in refused(ask)


@pytest.mark.parametrize("pair", [("naive",), ("naive",) * 3, "naive", "ab", None, {"a": 1, "b": 2}, 2], ids=repr)
def test_two_mechanisms_have_two_estimators_and_two_names(pair):
    assert "estimators must" in refused(lambda: break_even(WAVE, PIECEWISE, estimators=pair))
    if pair is not None:
        assert "names must" in refused(lambda: break_even(WAVE, PIECEWISE, names=pair))


@pytest.mark.parametrize("mechanism", [GRR, GROUPED, dither.Hybrid(1.0)], ids=repr)
def test_not_everything_has_a_naive_reading(mechanism):
    refused(lambda: deviation(mechanism, reports=100, estimator="naive"))
    refused(lambda: users_for(mechanism, 0.1, estimator="naive"))
    refused(lambda: rank([WAVE, mechanism], reports=100, estimator="naive"))


@pytest.mark.parametrize("error", [0, 0.0, -1.0, NAN, INF, -INF, "0.1", None, True, [0.1], 1j], ids=repr)
def test_an_error_is_above_zero(error):
    assert "error must be" in refused(lambda: users_for(PIECEWISE, error))
    assert "error must be" in refused(lambda: epsilon_for(dither.Piecewise, error, users=1000))


@pytest.mark.parametrize("error", [np.float32(1), np.int64(1), np.float64(1), Fraction(1), 1], ids=repr)
def test_an_error_is_any_real_number(error):
    assert users_for(PIECEWISE, error, values=[0.0]) == users_for(PIECEWISE, 1.0, values=[0.0])
    assert epsilon_for(dither.Piecewise, error, users=1000) == epsilon_for(dither.Piecewise, 1.0, users=1000)


@pytest.mark.parametrize("confidence", [0, 1, 0.0, 1.0, -1.0, 1.5, NAN, INF, True, "uniform", [0.9]], ids=repr)
def test_a_confidence_lies_inside_0_and_1(confidence):
    for ask in (
        lambda: users_for(PIECEWISE, 0.01, confidence),
        lambda: epsilon_for(dither.Piecewise, 0.1, confidence, users=1000),
        lambda: deviation(PIECEWISE, reports=100).supremum(confidence),
        lambda: FOUR_ITEMS.supremum(confidence),
    ):
        assert "confidence must" in refused(ask)


def test_next_to_certain_is_not_certain():
    assert deviation(PIECEWISE, reports=100).supremum(math.nextafter(1, 0)) < 9 * deviation(PIECEWISE, reports=100).rmse


def test_more_users_than_there_are():
    for ask in (
        lambda: users_for(PIECEWISE, 1e-8),
        lambda: users_for(PIECEWISE, 1e-8, 0.9),
        lambda: users_for(GRR, 1e-300),
        lambda: users_for(RECORDS, 1e-300, 0.9, "uniform"),
    ):
        said = refused(ask)
        assert "more than 10^15 users" in said
        assert "bias" not in said
    for confidence in (None, 0.9):
        said = refused(lambda confidence=confidence: users_for(WAVE, 1e-8, confidence, [0.5], estimator="naive"))
        assert "biased by more" in said


@pytest.mark.parametrize("most", [0, -1.0, NAN, INF, 10**400, "16", None, True, [1.0], 0.0004], ids=str)
def test_the_largest_budget_is_a_budget(most):
    assert "most must" in refused(lambda: epsilon_for(dither.Piecewise, 0.1, users=1000, most=most))


def test_the_largest_budget_is_not_exceeded():
    assert epsilon_for(dither.Piecewise, 0.1, users=54_000, most=0.3) <= 0.3
    seen: list[float] = []

    def make(epsilon: float) -> dither.Duchi:
        seen.append(epsilon)
        return dither.Duchi(epsilon)

    refused(lambda: epsilon_for(make, 0.1, users=9, most=0.0019))
    assert seen == [0.001]


@pytest.mark.parametrize("none", [[], {}, (), range(0)], ids=repr)
def test_nothing_cannot_be_ranked(none):
    assert "nothing to compare" in refused(lambda: rank(none, reports=100))


@pytest.mark.parametrize("tolerance", [-1.0, NAN, -INF], ids=repr)
def test_a_tolerance_is_not_negative(tolerance):
    refused(lambda: rank([PIECEWISE, WAVE], "uniform", reports=100, tolerance=tolerance))
    refused(lambda: deviation(GRR, reports=100).within([0.1, 0.1, tolerance, 0.1]))


@pytest.mark.parametrize("given", [f"{SECRET}x", "0.1", [0.1, 0.2], [[0.1] * 4], NAN, None, 1j, True], ids=repr)
def test_items_have_one_number_each(given):
    assert "4" in refused(lambda: FOUR_ITEMS.within(given))
    assert "4" in refused(lambda: FOUR_ITEMS.pdf(given))


def test_far_out_there_is_nothing():
    assert FOUR_ITEMS.pdf(1e300) == FOUR_ITEMS.pdf(INF) == 0
    assert FOUR_ITEMS.within(1e308) == FOUR_ITEMS.within(INF) == 1


@pytest.mark.parametrize("tolerance", [[0.1] * 4, "0.1", True, 1j], ids=repr)
def test_a_ranking_has_one_tolerance(tolerance):
    assert "tolerance must" in refused(lambda: rank([GRR], reports=100, tolerance=tolerance))


def test_mechanisms_of_different_domains_are_not_compared():
    refused(lambda: rank([PIECEWISE, GRR], reports=100), DitherError)
    refused(lambda: rank([PIECEWISE, GRR], [0.5], reports=100), DitherError)
    refused(lambda: break_even(PIECEWISE, GRR, [0.5]), DitherError)
    assert "different questions" in refused(lambda: break_even(GRR, dither.GRR(k=7, epsilon=1.0)))
