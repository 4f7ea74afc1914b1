"""Bad questions: everything that is asked wrongly ends in an error of dither's own that tells what to do, and no value.

`test_deviation.py` refuses the plain mistakes of one call. Here every question (`QUESTIONS`) is asked about every kind
of domain with each mistake, since they reach the same checks by different ways, and the odd ones are added: not a
number, the wrong shape, text that is nearly a distribution. A message ends up in logs, so none may hold a value: bad
values are, or hold, one recognisable number.

The second half, `NOT_YET`, is what is not refused as it should be: another kind of error, a warning (which the suite
turns into an error), or an answer where there is none. Each is expected to fail, and says so when it no longer does.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dither
from contract.checks import messages
from dither.core.errors import DitherError, DomainError, ParameterError
from dither.utility import break_even, deviation, epsilon_for, rank, users_for

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


@every_question
@pytest.mark.parametrize("kind", TWO_USERS)
@pytest.mark.parametrize(
    "weights",
    [[0.5, 0.6], [0.5, 0.4], [1.5, -0.5], [0.0, 0.0], [1.0], [0.5, 0.25, 0.25], [[0.5, 0.5]], 1.0, [NAN, 1.0]],
    ids=str,
)
def test_weights_are_shares(ask, kind, weights):
    mechanism, values = TWO_USERS[kind]
    assert "weights must" in refused(lambda: ask(mechanism, values, weights))


@pytest.mark.parametrize(
    "weights", [[INF, -INF], [None, 1], [[1], [1, 2]], [1j, 1], len, {"a": 1}, [], "half"], ids=str
)
def test_weights_are_numbers(weights):
    assert "weights must" in refused(lambda: deviation(PIECEWISE, [0.1, 0.2], weights, reports=100))


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
@pytest.mark.parametrize("case", OUTSIDE)
def test_values_outside_the_domain_are_refused_and_not_quoted(ask, case):
    mechanism, values = OUTSIDE[case]
    refused(lambda: ask(mechanism, values, None), DomainError)


@pytest.mark.parametrize("mechanism", [PIECEWISE, GRR, RECORDS, MIXED, GROUPED], ids=repr)
@every_question
def test_nobody_is_not_a_population(ask, mechanism):
    refused(lambda: ask(mechanism, [], None))


@pytest.mark.parametrize(
    "histogram",
    [([1.0, NAN], [0.0, 0.5, 1.0]), ([1.0, 1.0], [0.0, NAN, 1.0]), ([0.0, 0.0], [0.0, 0.5, 1.0]), ([], [0.0])],
    ids=str,
)
def test_histograms_have_counts_and_edges(histogram):
    counts, edges = (np.array(part) for part in histogram)
    refused(lambda: deviation(PIECEWISE, (counts, edges), reports=100))


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
        (RECORDS, "zipf(1)"),
        (MIXED, "uniform"),
        (CATEGORIES, "beta(5, 2)"),
        (GROUPED, "uniform"),
    ],
    ids=lambda given: repr(given)[:40],
)
def test_unknown_distributions_are_refused(mechanism, name):
    refused(lambda: deviation(mechanism, name, reports=100))


@every_question
def test_every_question_refuses_an_unknown_distribution(ask):
    assert '"beta(5, 2)"' in refused(lambda: ask(PIECEWISE, f"cauchy({SECRET})", None))  # it says which there are


# How it is asked -----------------------------------------------------------------------------------------------------

NOT_COUNTS = [0, -1, 1.5, True, "9", None, NAN, INF, [5], np.int64(0), np.float64(3.0)]


@pytest.mark.parametrize("count", NOT_COUNTS, ids=repr)
def test_reports_are_counted(count):
    refused(lambda: deviation(GRR, reports=count))
    refused(lambda: rank([PIECEWISE], "uniform", reports=count))
    refused(lambda: epsilon_for(dither.Piecewise, 0.1, users=count))


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


@pytest.mark.parametrize("mechanism", [GRR, RECORDS, GROUPED, dither.Hybrid(1.0)], ids=repr)
def test_not_everything_has_a_naive_reading(mechanism):
    refused(lambda: deviation(mechanism, reports=100, estimator="naive"))
    refused(lambda: users_for(mechanism, 0.1, estimator="naive"))
    refused(lambda: rank([WAVE, mechanism], reports=100, estimator="naive"))


@pytest.mark.parametrize("error", [0, 0.0, -1.0, NAN, INF, -INF, "0.1", None, True, [0.1], 1j], ids=repr)
def test_an_error_is_above_zero(error):
    assert "error must be" in refused(lambda: users_for(PIECEWISE, error))
    assert "error must be" in refused(lambda: epsilon_for(dither.Piecewise, error, users=1000))


@pytest.mark.parametrize("most", [0, -1.0, NAN, INF, "16", None, True, [1.0]], ids=repr)
def test_the_largest_budget_is_a_budget(most):
    refused(lambda: epsilon_for(dither.Piecewise, 0.1, users=1000, most=most))


@pytest.mark.parametrize("none", [[], {}, (), range(0)], ids=repr)
def test_nothing_cannot_be_ranked(none):
    assert "nothing to compare" in refused(lambda: rank(none, reports=100))


@pytest.mark.parametrize("tolerance", [-1.0, NAN, -INF], ids=repr)
def test_a_tolerance_is_not_negative(tolerance):
    refused(lambda: rank([PIECEWISE, WAVE], "uniform", reports=100, tolerance=tolerance))
    refused(lambda: deviation(GRR, reports=100).within([0.1, 0.1, tolerance, 0.1]))


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 1.5, NAN, INF, True, False], ids=repr)
def test_a_radius_needs_a_confidence_inside_0_and_1(confidence):
    for mechanism in (PIECEWISE, GRR):
        refused(lambda mechanism=mechanism: deviation(mechanism, reports=100).supremum(confidence))


def test_mechanisms_of_different_domains_are_not_compared():
    refused(lambda: rank([PIECEWISE, GRR], reports=100), DitherError)
    refused(lambda: rank([PIECEWISE, GRR], [0.5], reports=100), DitherError)
    refused(lambda: break_even(PIECEWISE, GRR, [0.5]), DitherError)


# What is not refused as it should be ---------------------------------------------------------------------------------

TEXTS: Any = ([f"{SECRET}x"], ["b", "c"])
VECTOR = deviation(GRR, reports=100)
ANY: Any = None

NOT_YET: dict[str, Callable[[], Any]] = {
    # Another kind of error, and the first three quote what they were given.
    "two texts are not a histogram": lambda: deviation(PIECEWISE, TEXTS, reports=100),
    "two texts are not categories": lambda: deviation(GRR, ([f"{SECRET}x"], ["b"]), reports=100),
    "a tolerance is a number": lambda: VECTOR.within(f"{SECRET}x"),
    "two ragged tables": lambda: deviation(PIECEWISE, ([[1], [1, 2]], [3]), reports=100),
    "imaginary counts": lambda: deviation(PIECEWISE, ([1j], [0.1, 0.2]), reports=100),
    "a number beyond all floats": lambda: deviation(PIECEWISE, "normal(1" + "0" * 400 + ", 1)", reports=100),
    "reports beyond all floats": lambda: deviation(PIECEWISE, reports=10**400),
    "no mechanism": lambda: deviation(ANY, reports=100),
    "the name of a mechanism": lambda: rank(["Piecewise"], reports=100),  # type: ignore[list-item]
    "a class": lambda: deviation(dither.Piecewise, reports=100),  # type: ignore[arg-type]
    "one mechanism alone": lambda: rank(PIECEWISE, reports=100),  # type: ignore[arg-type]
    "tolerances of other items": lambda: VECTOR.within([0.1, 0.2]),
    "a density of other items": lambda: VECTOR.pdf([0.1, 0.2]),
    "confidence in words": lambda: VECTOR.supremum("high"),  # type: ignore[arg-type]
    "one estimator for two": lambda: break_even(WAVE, PIECEWISE, estimators=("naive",)),  # type: ignore[arg-type]
    "values in the place of confidence": lambda: users_for(PIECEWISE, 0.01, "uniform"),  # type: ignore[arg-type]
    "a mechanism that is not made": lambda: epsilon_for(PIECEWISE, 0.1, users=1000),  # type: ignore[arg-type]
    "a mechanism that needs more": lambda: epsilon_for(dither.GRR, 0.1, users=1000),  # type: ignore[arg-type]
    # A warning of NumPy, which ordinary callers see beside an answer.
    "infinite counts": lambda: deviation(PIECEWISE, ([1.0, INF], [0.0, 0.5, 1.0]), reports=100),
    "infinite edges": lambda: deviation(PIECEWISE, ([1.0, 1.0], [-INF, 0.0, 1.0]), reports=100),
    "huge weights": lambda: deviation(PIECEWISE, [0.1, 0.2], [1e308, 1e308], reports=100),
    "a narrow normal": lambda: deviation(PIECEWISE, "normal(0.123, 1e-300)", reports=100),
    "a huge beta": lambda: deviation(PIECEWISE, "beta(1e308, 1e308)", reports=100),
    "a steep zipf": lambda: deviation(GRR, "zipf(-5000)", reports=100),
    # An answer where there is none.
    "infinite exponents": lambda: deviation(GRR, "zipf(1e400)", reports=100),
    "an infinite width": lambda: deviation(PIECEWISE, "normal(0, 1e400)", reports=100),
    "a histogram with weights": lambda: deviation(PIECEWISE, ([1.0, 1.0], [-0.5, 0.0, 1.0]), [7.0], reports=100),
    "a density nowhere": lambda: VECTOR.pdf(NAN),
    "certainty": lambda: users_for(PIECEWISE, 0.01, 1.0),
    "confidence of nothing": lambda: users_for(PIECEWISE, 0.01, 0.0),
    "negative confidence": lambda: epsilon_for(dither.Piecewise, 0.1, -1.0, users=1000),
    "certainty of a budget": lambda: epsilon_for(dither.Piecewise, 0.1, 1.0, users=1000),
    "two means against two frequencies": lambda: rank([RECORDS, dither.GRR(k=2, epsilon=1.0)], reports=100),
    "other numbers of categories": lambda: break_even(GRR, dither.GRR(k=7, epsilon=1.0)),
    "tolerances of a ranking": lambda: rank([GRR], reports=100, tolerance=[0.1] * 4),  # type: ignore[arg-type]
}


@pytest.mark.xfail(strict=True, reason="not refused as it should be")
@pytest.mark.parametrize("case", NOT_YET)
def test_not_yet_refused(case):
    refused(NOT_YET[case])


@pytest.mark.xfail(strict=True, reason="the message names another cause")
@pytest.mark.parametrize(
    ("ask", "wrong"),
    [
        (lambda: users_for(PIECEWISE, 1e-8), "biased"),  # it needs more users than are looked for
        (lambda: users_for(PIECEWISE, 0.01, NAN), "biased"),  # it is the confidence
        (lambda: epsilon_for(dither.Piecewise, 0.1, users=0), "reports must"),  # the parameter is called users
        (lambda: epsilon_for(dither.Piecewise, 0.1, users=100, most=0.0004), "above 0"),  # it is
        (lambda: deviation(CATEGORIES, "uniform", reports=100), "several kinds"),  # they are of one kind
        (lambda: deviation(PIECEWISE, [7.0], reports=100), "invalid="),  # a prediction has no such parameter
    ],
    ids=["biased", "confidence", "users", "most", "kinds", "invalid"],
)
def test_not_yet_told_what_to_do(ask, wrong):
    assert wrong not in refused(ask, DitherError)
