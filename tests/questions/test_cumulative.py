"""Shares below thresholds: two forms of one question, from the plan to the page.

Cells that are added up are unbiased by enumeration, and so are their variance and what a report is worth. The realised
error of 400 collections is compared with the predicted one: n MSE is a sum of squares with the weights of a Brownian
bridge, so by Laurent and Massart (2000) it is within 0.72 and 1.28 of its mean but with probability 1.6e-6 / 2 a side.
Seeds are fixed.
"""

import math
import warnings
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import dither
from dither import Categorical, Numeric, Ordinal, Schema
from dither.core.cumulative_estimate import Cumulative
from dither.core.domains import Categories, UnitInterval
from dither.core.tally import Tally
from dither.core.workload import Workload
from dither.errors import DomainError, ParameterError, UnknownError
from dither.mechanisms import cumulative_error
from dither.page.html_page import html_page
from dither.planning.trial import truths
from dither.questions import questions
from dither.questions.cumulative import MOST_PLACES, CumulativeOf, FinerCells, PlacedCurve
from dither.questions.distributions import BINS
from dither.utility.limits import frequencies

SCHEMA = Schema(
    {
        "age": Ordinal(18, 99),
        "income": Numeric(0, 200_000),
        "steps": Ordinal(0, 999),
        "grade": Ordinal(1, 5),
        "job": Categorical(["nurse", "driver", "other"]),
    }
)
ASKED = ["cumulative(age)", "cumulative(income)", "cumulative(steps)", "cumulative(grade)"]
USERS = 40_000


def asked(name) -> Any:
    (found,) = questions(SCHEMA, [f"cumulative({name})"])
    assert isinstance(found, CumulativeOf)
    return found


@pytest.fixture(scope="module")
def plan():
    return dither.plan(SCHEMA, 4.0, users=USERS, ask=[*ASKED, "histogram(job)"])


@pytest.fixture(scope="module")
def people():
    draw = np.random.default_rng(7)
    return {
        "age": np.clip(draw.normal(45, 15, USERS).round(), 18, 99).astype(int),
        "income": np.minimum(draw.gamma(3, 15_000, USERS), 200_000),
        "steps": draw.integers(0, 1000, USERS),
        "grade": draw.integers(1, 6, USERS),
        "job": draw.choice(["nurse", "driver", "other"], USERS),
    }


@pytest.fixture(scope="module")
def tally(plan, people):
    return plan.tally(plan.randomize(people, seed=3))


@pytest.fixture(scope="module")
def found(plan, tally):
    return plan.estimate(tally)


# What is asked --------------------------------------------------------------------------------------------------------


def test_it_is_read_and_written():
    assert str(asked("age")) == "cumulative(age)"
    with pytest.raises(ParameterError, match=r"there is no such question.*cumulative\(age\)"):
        questions(SCHEMA, ["cumulative(job)"])


@pytest.mark.parametrize("name", SCHEMA)
def test_it_is_no_usual_question(name):
    assert "cumulative" not in [each.statistic for each in questions(SCHEMA, [name])]


def test_where_it_cuts():
    age, income, steps = map(asked, ("age", "income", "steps"))
    assert (age.size, age.labels[0], age.labels[-1]) == (81, "at most 18", "at most 98")
    assert (income.size, income.labels[0], income.labels[-1]) == (BINS - 1, "below 6250", "below 193750")
    assert (steps.size, steps.labels[0], steps.thresholds[-1]) == (BINS - 1, "at most 31", 968.0)
    assert asked("grade").labels == ("at most 1", "at most 2", "at most 3", "at most 4")


@pytest.mark.parametrize("k", [2, 3, 31, 32, 33, MOST_PLACES - 1, MOST_PLACES, MOST_PLACES + 1, 200, 1001])
def test_all_forms_and_labels_agree_on_who_is_below(k):
    """Of every whole number: its cell, its place among the thresholds of the axis, and the label's own number."""
    question = CumulativeOf("x", Ordinal(5, 5 + k - 1))
    values = np.arange(5, 5 + k)
    cells, places = question.encode(values), question._placed.encode(values)
    axis = question.axis
    for number, end in enumerate(question.thresholds):
        below = values <= end
        assert (below == (cells <= number)).all()
        assert (below == (places < axis.at[number])).all()
    assert (axis.places is None) == (k > MOST_PLACES)
    assert axis.places is None or np.array_equal(places, np.array(axis.places))
    sizes = np.bincount(cells, minlength=question.cell_count)
    assert sizes.max() - sizes.min() <= 1


def test_numbers_are_below_as_bins_are_cut():
    question = asked("income")
    values = [0, 6249.99, 6250, 100_000, 199_999, 200_000]
    assert question.encode(values).tolist() == [0, 0, 1, 16, 31, 31]
    places = question._placed.encode(values)
    assert [int((places[row] >= np.array(question.axis.at)).sum()) for row in range(6)] == [0, 0, 1, 16, 31, 31]


@pytest.mark.parametrize("name", ["age", "income", "steps"])
def test_one_value_goes_the_way_of_a_column(name):
    question = asked(name)
    odd = [18, 99, 40.5, -3, 10**9, None, "40", "x", math.nan, math.inf, True, 1e300, 968, 969, 6250.0, 50_000]
    for form in question.forms:
        column = [form.columns[0].encode([value], "substitute")[0] for value in odd]
        assert [form.columns[0].encode_value(value) for value in odd] == column


def test_whole_numbers_are_at_their_places_whatever_comes():
    """Intervals rely on it: a value between two whole numbers would be at none of the places."""
    places = asked("age")._placed.encode([18.5, math.nan, 1e9, "x", 40], "substitute")
    assert set(places.tolist()) <= set(asked("age").axis.places or ())
    with pytest.raises(DomainError, match=r"attribute age.*whole number") as caught:
        asked("age")._placed.encode([18.5])
    assert "18.5" not in str(caught.value)


# What is chosen -------------------------------------------------------------------------------------------------------


def chosen(attribute, epsilon, users, **options):
    made = dither.plan(Schema({"x": attribute}), epsilon, users=users, ask=["cumulative(x)"], **options)
    return made, type(made.parts[0].mechanism).__name__


def cells_error(k, epsilon, users):
    """The least error of cells that are added up, apart from the planner: V j (k - j) / k with no covariance."""
    errors = []
    for name in ("Unary", "LocalHash"):
        own: Any = dither.registry[name](k=k, epsilon=epsilon).reading
        j = np.arange(1, k)
        rare = float(own.q * (1 - own.q) / (own.p - own.q) ** 2)
        errors.append(math.sqrt(np.mean(rare * j * (k - j) / k) / users))
    return min(errors)


@pytest.mark.parametrize(
    ("attribute", "epsilon", "users", "wave"),
    [
        (Numeric(0, 1), 1.0, 10_000, True),
        (Numeric(0, 1), 4.0, 100_000, False),
        (Numeric(0, 1), 1.0, 10_000_000, False),
        (Ordinal(0, 99), 1.0, 100_000, True),
        (Ordinal(0, 99), 8.0, 100_000, False),
        (Ordinal(0, 4), 1.0, 100_000, False),
        (Ordinal(0, 9999), 0.5, 50_000, True),
    ],
)
def test_the_form_with_the_smaller_error_of_what_is_asked_is_taken(attribute, epsilon, users, wave):
    made, name = chosen(attribute, epsilon, users)
    assert (name == "SquareWave") == wave
    question: Any = made.questions[0]
    at_thresholds = question._placed.reading_of(dither.SquareWave(epsilon)).predicted_mse(users, users)
    waves = math.sqrt(at_thresholds + question.missed)
    curves = [question, *(form.fine for form in question.forms[1:-1])]
    cells = min(math.hypot(cells_error(one.cell_count, epsilon, users), math.sqrt(one.missed)) for one in curves)
    assert made.predicted["cumulative(x)"] <= waves * (1 + 1e-9)
    assert made.predicted["cumulative(x)"] <= cells * 1.05
    assert (made.predicted["cumulative(x)"] == pytest.approx(waves)) == wave
    assert made.prediction.limit <= made.rmse


def test_what_a_line_between_two_thresholds_misses():
    """Half of the users of a cell at one place of it, by enumeration of places; of whole numbers one by one nothing."""
    places = (np.arange(2000) + 0.5) / 2000
    errors = [np.mean((places - (places + (places > one)) / 2) ** 2) for one in places]
    question: Any = asked("income")
    assert question.missed == pytest.approx(np.mean(errors) / question.cell_count**2, rel=1e-3)
    assert asked("age").missed == asked("grade").missed == 0
    assert [form.fine.cell_count for form in question.forms[1:-1]] == [128, 512]
    assert [form.domain.k for form in asked("steps").forms[1:-1]] == [128, 512]
    assert len(asked("age").forms) == 2


@pytest.mark.parametrize("name", ["income", "steps"])
def test_finer_cells_lie_within_those_of_the_question(name):
    question: Any = asked(name)
    column = np.random.default_rng(5).integers(0, 1000, 500)
    for form in question.forms[1:-1]:
        step = form.fine.cell_count // question.cell_count
        assert form.fine.thresholds[step - 1 :: step].tolist() == question.thresholds.tolist()
        own = form.columns[0].encode(column)
        assert [form.columns[0].encode_value(value) for value in column.tolist()] == own.tolist()
        finer = column[:, None] > form.fine.thresholds if question.whole else column[:, None] >= form.fine.thresholds
        assert (own == finer.sum(axis=1)).all()


def test_cells_are_finer_where_there_is_less_noise():
    asked_by: list[Any] = [chosen(Numeric(0, 1), epsilon, 10_000)[0].parts[0].mechanism for epsilon in (5.0, 7.0, 10.0)]
    assert [each.reading.domain.k for each in asked_by] == [32, 128, 512]


def test_a_median_among_heaps_is_read_off_finer_cells():
    """All users at multiples of five minutes: 32 cells would miss the median by more than a minute.

    With 10^5 users at epsilon 10 the share below a threshold has an error of .0003: a median that misses its cell of
    .28 minutes has a probability below 1e-12. The mutant that reads the curve at the thresholds that are shown is seen.
    """
    delays = np.random.default_rng(3).geometric(0.2, 100_000).clip(0, 29) * 5.0
    made = dither.plan(Schema({"x": Numeric(0, 145)}), 10.0, users=100_000, ask=["median(x)"])
    tally = made.tally(made.randomize({"x": delays}, seed=1))
    curve = made.estimate(tally).cumulative("x")
    assert curve.value.size == BINS - 1
    for refine in (None, "auto"):
        found = made.estimate(tally, refine=refine).single("median(x)")
        low, high = found.interval(0.999)
        assert abs(float(found.value) - np.median(delays)) < 145 / 512
        assert low <= np.median(delays) <= high
        assert high - low < 2 * 145 / 512
    coarse = replace(curve, finer=None)
    assert abs(float(coarse.quantile(0.5)) - np.median(delays)) > 1
    assert np.array_equal(curve.value, np.interp(curve.thresholds, curve.finest.thresholds, curve.finest.value))


def test_a_distribution_is_still_asked_by_cells():
    """Its measure is the error of a cell, and a window has intervals of cells that tell nothing."""
    for attribute in (Numeric(0, 1), Ordinal(0, 99)):
        made = dither.plan(Schema({"x": attribute}), 1.0, users=10_000, ask=["distribution(x)"])
        assert made.parts[0].mechanism.takes == "categories"


def test_a_mean_is_never_asked_by_a_square_wave():
    made = dither.plan(Schema({"x": Numeric(0, 1)}), 1.0, users=10_000, ask=["mean(x)"])
    assert type(made.parts[0].mechanism).__name__ != "SquareWave"
    assert not list(dither.SquareWave.candidates(Workload(UnitInterval(), ("mean",), 1.0)))
    assert list(dither.SquareWave.candidates(Workload(UnitInterval(), ("distribution",), 1.0)))


def test_with_liars_only_what_has_a_known_worth_is_taken():
    made, name = chosen(Ordinal(0, 99), 1.0, 100_000, liars=0.01)
    assert name != "SquareWave"
    assert not made.influence(0.01).unknown
    waves, _ = chosen(Ordinal(0, 99), 1.0, 100_000)
    assert waves.influence(0.01).unknown == ("cumulative(x)",)
    assert "is not known" in waves.explain()


def test_a_server_that_can_afford_no_bits_still_has_both_forms():
    assert chosen(Ordinal(0, 99), 1.0, 100_000, most_evaluations=0)[1] == "SquareWave"
    assert chosen(Ordinal(0, 99), 8.0, 100_000, most_evaluations=0)[1] == "GRR"


def test_a_prior_would_change_nothing():
    with pytest.raises(ParameterError, match="would change nothing"):
        chosen(Numeric(0, 1), 1.0, 10_000, prior={"x": "uniform"})


def test_thresholds_count_alike():
    made, _ = chosen(Numeric(0, 1), 1.0, 10_000, weights={"cumulative(x)": 3.0})
    assert made.prediction.weights
    with pytest.raises(ParameterError, match=r"all thresholds of cumulative\(x\) count alike"):
        chosen(Numeric(0, 1), 1.0, 10_000, weights={"cumulative(x)": {"below 0.5": 3.0}})


def test_a_mechanism_of_others_that_cannot_tell_is_passed_over(monkeypatch):
    """One that says that it answers distributions, and does not say how well."""
    monkeypatch.setattr(dither.Piecewise, "statistics", ("mean", "distribution"))
    assert chosen(Numeric(0, 1), 1.0, 10_000)[1] == "SquareWave"


def test_smaller_errors_are_preferred_by_their_prediction(monkeypatch):
    """The mutant: a square wave that is predicted ten times as bad is not taken."""
    monkeypatch.setattr(cumulative_error, "AT_PLACES", 10 * cumulative_error.AT_PLACES)
    assert chosen(Ordinal(0, 99), 1.0, 100_000)[1] != "SquareWave"


# Plans and reports ----------------------------------------------------------------------------------------------------


def test_it_is_stored_with_the_form_of_its_mechanism(plan):
    again = dither.Plan.from_json(plan.to_json())
    assert again == plan
    assert again.fingerprint == plan.fingerprint
    assert [part.forms[0].domain for part in again.parts] == [part.mechanism.reading.domain for part in plan.parts]
    kinds = {type(part.forms[0]) for part in plan.parts[:4]}
    assert kinds == {CumulativeOf, PlacedCurve}  # both are in this plan


def test_a_plan_with_finer_cells_is_stored_and_sends_them(people):
    made = dither.plan(SCHEMA, 8.0, users=100_000, ask=["cumulative(income)", "cumulative(steps)"])
    assert {type(part.forms[0]) for part in made.parts} == {FinerCells}
    again = dither.Plan.from_json(made.to_json())
    assert again == made
    test_a_device_sends_what_its_row_of_a_table_would(again, people)


@pytest.mark.parametrize("mechanism", [dither.Piecewise(4.0), dither.Hadamard(82, 4.0), dither.GRR(81, 4.0)])
def test_a_stored_plan_with_a_mechanism_that_cannot_answer_is_refused(plan, mechanism):
    part = plan.parts[0]
    assert part.name == "cumulative(age)"
    wrong = replace(plan, parts=(part._replace(mechanism=mechanism), *plan.parts[1:]))
    with pytest.raises(ParameterError, match="do not fit its questions"):
        dither.Plan.from_json(wrong.to_json())


def test_a_device_sends_what_its_row_of_a_table_would(plan, people):
    for row in range(40):
        record = {name: column[row] for name, column in people.items()}
        table = plan.randomize({name: [value] for name, value in record.items()}, seed=row)
        alone = plan.report(record, seed=row)
        assert {name: each.tobytes() for name, each in alone.items()} == {
            name: each.tobytes() for name, each in table.items()
        }


def test_the_mutant_that_encodes_the_other_form_is_seen(monkeypatch, plan, people):
    monkeypatch.setattr(PlacedCurve, "encode_value", lambda self, value: self.question.encode_value(value) / 100)
    with pytest.raises(AssertionError):
        test_a_device_sends_what_its_row_of_a_table_would(dither.Plan.from_json(plan.to_json()), people)


# What comes out -------------------------------------------------------------------------------------------------------


def test_it_is_estimated(plan, found, people):
    true = truths(plan, [people])
    for name, column in (("age", people["age"]), ("income", people["income"]), ("steps", people["steps"])):
        estimate = found.cumulative(name)
        own = [np.mean(column <= end if estimate.whole else column < end) for end in estimate.thresholds]
        assert np.allclose(true[f"cumulative({name})"], own, rtol=0, atol=1e-12)
        assert np.sqrt(np.mean((estimate.value - own) ** 2)) < 2 * plan.predicted[f"cumulative({name})"]
        low, high = estimate.interval(0.95, simultaneous=True)
        assert ((low <= own) & (own <= high)).all()
        middle = np.median(column)
        first, last = estimate.quantile_interval(0.5, 0.999)
        assert first <= middle <= last


def test_results_keep_the_protocol(plan, found, tally):
    for name in ASKED:
        result = found[name]
        assert isinstance(result, Cumulative)
        assert result.labels == asked(name.partition("(")[2].rstrip(")")).labels
        assert result.bounds == (0.0, 1.0, None, None)
        assert len(result.table().columns["item"]) == result.value.size
        assert name in result.explain()
        assert result.plot().get_xlabel() == name
        assert len(result.to_pandas()) == result.value.size
    assert found.cumulative("income").ends == (0.0, 200_000.0)
    with pytest.raises(UnknownError, match=r"ask=\[\"cumulative\(job\)\"\]"):
        found.cumulative("job")
    assert "for the hardest of eight shapes" in plan.explain()


def test_refining_smooths_cells_and_leaves_a_window_as_it_is(plan, tally, found, people):
    better, true = plan.estimate(tally, refine="auto"), truths(plan, [people])
    for part in plan.parts[:4]:
        before, after = found[part.name], better[part.name]
        if isinstance(part.forms[0], PlacedCurve):
            assert np.array_equal(after.value, before.value)
            assert "nothing to win back" in after.notes[-1]
            assert after.original is None
        else:
            assert after.original is not None
            assert (np.diff(after.value) >= -1e-12).all()
            for here, there in zip(after.interval(), before.interval(), strict=True):
                assert np.abs(here - there).max() < 4 * before.stderr.max()
            low, high = after.interval(0.999)
            assert ((low <= true[part.name]) & (true[part.name] <= high)).all()
            assert np.array_equal(plan.estimate(tally, refine="norm_sub")[part.name].value, before.value)


def test_it_is_on_the_page_and_in_the_statement(plan, tally, people):
    page = html_page(plan, plan.estimate(tally), truth=truths(plan, [people]))
    assert page.count("cumulative distribution") >= 4
    card = page.split("cumulative(income)")[1]
    assert "The share of users below values of income, with 95% intervals. Nearest to a half" in page
    assert "95%" in card
    assert "the share of people at or below values of age." in "\n".join(
        item for section in plan.statement().sections for item in section.items
    )


def test_nobody_was_asked(plan):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        some = dither.plan(SCHEMA, 0.5, users=1000, ask=[*ASKED, "mean(income)"])
    assert some.questions_per_user == 1
    reports = some.randomize({name: [5] if name == "grade" else [50] for name in some.attributes}, seed=1)
    result = some.estimate(some.tally(reports), refine="auto")
    unknown = [name for name in ASKED if result[name].n == 0]
    assert unknown
    for name in unknown:
        assert isinstance(result[name], Cumulative)
        assert np.isnan(result[name].value).all()
        assert (result[name].interval()[0] == 0).all()
        result[name].plot()
    html_page(some, result)


def test_a_rehearsal_knows_its_truth(plan, people):
    some = {name: column[:2000] for name, column in people.items()}
    rehearsed = plan.simulate(some, repetitions=10)
    assert set(ASKED) <= set(rehearsed.errors)
    assert np.mean(rehearsed.inside["cumulative(income)"]) > 0.8


# Cells, exactly -------------------------------------------------------------------------------------------------------


def read_alone(mechanism, question, report):
    """What one report is worth: the estimate from it alone."""
    counts = mechanism._count(np.array([report]))
    own = mechanism.reading.estimate(Tally(mechanism.fingerprint, 1, counts), mechanism.guarantee, "")
    return question.select(own, 0, 1)


@pytest.mark.parametrize(
    "mechanism", [dither.GRR(5, 1.0), dither.SubsetSelection(5, 1.0, size=2), dither.Unary(5, 1.0)]
)
def test_cells_are_unbiased_and_have_the_stated_variance_by_enumeration(mechanism):
    question = CumulativeOf("x", Ordinal(0, 4))
    outputs = mechanism.outputs()
    worth = np.array([read_alone(mechanism, question, report).value for report in outputs])
    variances = []
    for value in range(5):
        chances = np.array([float(each) for each in mechanism.channel().matrix()[value]])
        mean = chances @ worth
        assert np.allclose(mean, value <= np.arange(4), atol=1e-9)
        variances.append(np.mean(chances @ (worth - mean) ** 2))
    assert question.variance(mechanism, 1000.0, 1000.0) == pytest.approx(max(variances), rel=1e-9)
    assert question.variance(mechanism, 500.0, 1000.0) == pytest.approx(max(variances) + 0.125, rel=1e-9)
    own = question.worth(mechanism.report_worth(), 0, 1)
    assert float(own.most) >= worth.max() - 1e-9
    assert float(own.least) <= worth.min() + 1e-9
    if own.exact:
        assert (float(own.least), float(own.most)) == pytest.approx((worth.min(), worth.max()))
    assert own.exact == (mechanism == dither.GRR(5, 1.0))


def test_the_worth_of_a_report_that_may_support_anything_is_a_bound():
    hashed = CumulativeOf("x", Ordinal(0, 9)).worth(dither.LocalHash(10, 1.0).report_worth(), 0, 1)
    assert not hashed.exact
    swing = dither.LocalHash(10, 1.0).report_worth()[0].swing
    assert hashed.most == max(Fraction(j, 10) + j * Fraction(10 - j, 10) * swing for j in range(1, 10))


def collections(mechanism, question, users, count):
    truth = np.arange(1, question.cell_count) / question.cell_count
    values = np.repeat(np.arange(question.cell_count), users // question.cell_count)
    for seed in range(count):
        own = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=seed)))
        yield question.select(own, 0, 1).value - truth


def ratio(question, count=400, users=640):
    mechanism = dither.Unary(32, 2.0)
    errors = np.array(list(collections(mechanism, question, users, count)))
    return float(np.mean(errors**2) * users / question.variance(mechanism, users, users))


def test_realised_errors_of_cells_are_the_predicted_ones():
    assert 0.72 < ratio(CumulativeOf("x", Numeric(0, 1))) < 1.28


def test_intervals_of_cells_hold_at_each_threshold():
    """300 collections; more misses than allowed at any of 31 thresholds come with probability 1e-6, at 5% each."""
    question, mechanism = CumulativeOf("x", Numeric(0, 1)), dither.Unary(32, 2.0)
    values = np.repeat([0, 1, 9, 31], [300, 200, 400, 100])
    truth = np.array([np.mean(values < cell) for cell in range(1, 32)])
    missed = np.zeros(31)
    for seed in range(300):
        own = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=seed)))
        low, high = question.select(own, 0, 1).interval(0.95)
        missed += (low > truth) | (high < truth)
    assert missed.max() <= binom.isf(1e-6 / 31, 300, 0.05)


def test_the_mutant_that_forgets_that_all_shares_are_one_is_killed(monkeypatch):
    """Sums from below alone: their noise adds up to the last threshold."""
    monkeypatch.setattr(CumulativeOf, "select", lambda self, own, place, count: replace_values(self, own))
    assert ratio(CumulativeOf("x", Numeric(0, 1)), count=60) > 1.5


def replace_values(question, own):
    return replace(own, value=np.cumsum(own.value)[:-1], stderr=own.stderr[1:], correlation=None)


def test_errors_that_may_go_together_are_added():
    """Where a reading does not say how they do, as that of shared hash functions."""
    mechanism = dither.LocalHash(6, 2.0, cohorts=64)
    own = mechanism.estimate(mechanism.tally(mechanism.randomize(np.arange(6000) % 6, seed=1)))
    question = CumulativeOf("x", Ordinal(0, 5))
    alone = question.select(replace(own, correlation=None), 0, 1)
    weights = np.abs(np.tri(5, 6) - np.arange(1, 6)[:, None] / 6)
    assert np.allclose(alone.stderr, weights @ own.stderr)


def test_limits_hold():
    question = asked("grade")
    assert question.unasked == 0.25
    assert question.limit(1.0) == frequencies(2, 1.0)
    assert isinstance(question.domain, Categories)
