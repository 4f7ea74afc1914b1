"""Every report counts: results of one attribute agree, are as good as they say, and no worse than their own reports.

**Statistics.** `collections` are 200 seeded collections of a small plan. Over them the mean of z^2 of a number, its
error over its stated error, follows chi^2 with 200 degrees of freedom over 200; the limits are its quantiles at 1e-6
over the count of numbers, widened by 2% for stated errors that are estimates themselves. The means of z are standard
normal over sqrt(200), with the same false-alarm probability. So is the mean difference of squared errors over its own
standard error, for the paired comparison. Seeds are fixed.
"""

import math
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import dither
from dither import GRR, Categorical, Numeric, Ordinal, Piecewise, Plan, Schema
from dither.core.estimate import MEAN, Estimate
from dither.core.guarantee import Guarantee
from dither.estimation.linear_readings import LinearReading
from dither.planning.attribute_evidence import Evidence, EvidenceSource, WhoWasAsked, sources_of
from dither.planning.plans import Part
from dither.planning.prediction import Prediction
from dither.planning.trial import truths
from dither.questions import questions
from dither.questions.conditions import ShareOf
from dither.questions.means import MeanOf
from dither.questions.question import FINE

stats = pytest.importorskip("scipy.stats")

SEEDS = 200
ALARM = 1e-6
SMALL = Schema({"age": Ordinal(0, 3), "job": Categorical(["nurse", "other"])})
USERS = 3000
ASKED = "mean(age)", "distribution(age)", "share(age >= 2)", "table(age, job)", "histogram(job)"
NOTHING = Prediction({}, {}, 0.0, False)


@cache
def small(epsilon: float = 3.0) -> Plan:
    """Each user answers one of five questions: at epsilon 3 much of the error is who was asked."""
    laws = [Piecewise(epsilon=epsilon), *(GRR(k=k, epsilon=epsilon) for k in (4, 2, 8, 2))]
    pairs = zip(questions(SMALL, list(ASKED)), laws, (2, 3, 2, 4, 1), strict=True)
    return Plan(
        SMALL, epsilon, 0.0, USERS, tuple(Part((each,), own, weight) for each, own, weight in pairs), 1, NOTHING
    )


@cache
def few() -> dict[str, Any]:
    """The older, the fewer nurses."""
    draw = np.random.default_rng(4)
    age = draw.choice(4, USERS, p=[0.15, 0.45, 0.3, 0.1])
    return {"age": age, "job": np.where(draw.random(USERS) * 4 > age + 0.5, "nurse", "other")}


def collections(seeds: int = SEEDS, epsilon: float = 3.0) -> Iterator[Any]:
    """The tallies of many collections."""
    plan = small(epsilon)
    for seed in range(seeds):
        yield plan.tally(plan.randomize(few(), seed=seed))


def numbers(found: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """All numbers of all questions, with their stated errors."""
    results = [found[name] for name in ASKED]
    return tuple(np.concatenate([np.ravel(getattr(each, what)) for each in results]) for what in ("value", "stderr"))  # type: ignore[return-value]


@cache
def right() -> np.ndarray:
    true = truths(small(), [few()])
    return np.concatenate([true[name] for name in ASKED])


def check_stated_errors() -> None:
    """z^2 of every number is 1 on average, and z is 0, whether noise is nearly all of the error or who was asked.

    Users who answer one question do not answer another, so who was asked differs the other way there: taken for
    independent, z^2 would be 0.8 on average at epsilon 3, and 0.7 at 8.
    """
    for epsilon in (0.5, 3.0, 8.0):
        found = [numbers(small(epsilon).estimate(tally)) for tally in collections(SEEDS, epsilon)]
        z = np.array([(value - right()) / stderr for value, stderr in found])
        alarm = ALARM / (9 * z.shape[1])  # of 16 numbers: two sides of z^2 and |z|, at three budgets
        low, high = (stats.chi2(SEEDS).ppf(chance) / SEEDS for chance in (alarm, 1 - alarm))
        assert ((z**2).mean(axis=0) <= 1.02 * high).all(), epsilon
        assert ((z**2).mean(axis=0) >= 0.98 * low).all(), epsilon
        assert np.abs(z.mean(axis=0) * math.sqrt(SEEDS)).max() < stats.norm.isf(alarm / 2), epsilon


def own_reports_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Evidence, "put_together", lambda self, found, known=0.0: dict(found))


def check_no_worse_than_own_reports() -> None:
    """Squared errors with all reports and with a question's own, in the same collections."""
    together, alone = [], []
    with pytest.MonkeyPatch.context() as patch:
        for tally in collections():
            together.append((numbers(small().estimate(tally))[0] - right()) ** 2)
            with patch.context() as inner:
                own_reports_alone(inner)
                alone.append((numbers(small().estimate(tally))[0] - right()) ** 2)
    gained, start = np.array(alone) - np.array(together), 0
    for question in small().questions:
        own = gained[:, start : start + question.size].mean(axis=1)
        start += question.size
        error = own.std() / math.sqrt(SEEDS)
        assert own.mean() > -stats.norm.isf(ALARM / len(ASKED)) * error, str(question)
    assert np.sum(together) < 0.8 * np.sum(alone)


def check_stated_errors_are_smaller() -> None:
    """Exactly: no number has a larger stated error than its own reports give, but for the ridge and the plug-in."""
    with pytest.MonkeyPatch.context() as patch:
        for tally in collections(5):
            _, together = numbers(small().estimate(tally))
            with patch.context() as inner:
                own_reports_alone(inner)
                _, alone = numbers(small().estimate(tally))
            assert (together <= alone * 1.005).all()
            assert together[0] < 0.8 * alone[0]


def test_stated_errors_come_true():
    check_stated_errors()


@pytest.mark.wide
def test_no_question_is_worse_for_the_reports_of_others():
    check_no_worse_than_own_reports()


def test_stated_errors_are_at_most_those_of_own_reports():
    check_stated_errors_are_smaller()


# Agreement -----------------------------------------------------------------------------------------------------------

SCHEMA = Schema(
    {"age": Ordinal(0, 15), "job": Categorical(["nurse", "driver", "other"]), "x": Numeric(0, 10)},
)
MANY = 60_000
EVERYTHING = (
    *("mean(age)", "distribution(age)", "share(age > 8)", "variance(age)", "table(age, job)", "histogram(job)"),
    *("distribution(x)", "share(x >= 5)", "count(age > 8)", "sum(age)"),
)


@cache
def people() -> dict[str, Any]:
    draw = np.random.default_rng(3)
    age = np.clip(np.rint(draw.normal(5, 3, MANY)), 0, 15).astype(int)
    job = np.where(draw.random(MANY) * 15 > age, "nurse", draw.choice(["driver", "other"], MANY))
    return {"age": age, "job": job, "x": np.clip(age / 2 + draw.normal(0, 1, MANY), 0, 10)}


@cache
def collected(*asked: str, epsilon: float = 2.0) -> tuple[Plan, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = dither.plan(SCHEMA, epsilon, users=MANY, ask=list(asked))
    return plan, plan.tally(plan.randomize({name: people()[name] for name in plan.attributes}, seed=1))


def check_agreement(refine: str | None, *more: str) -> None:
    """All that is said about one attribute: exact, but for margins of tables before refining.

    These are read off the cells with what is told about both axes, and a covariance that is estimated for cells and
    for sums apart: they are within a twentieth of an error of each other.
    """
    plan, tally = collected(*EVERYTHING, *more)
    found = plan.estimate(tally, refine=refine)
    ages, values = found.single("distribution(age)").value, np.arange(16)
    mean = float(found.single("mean(age)").value)
    assert ages.sum() == pytest.approx(1.0, abs=1e-6)
    assert values @ ages == pytest.approx(mean, abs=1e-5)
    assert ages[9:].sum() == pytest.approx(float(found.single("share(age > 8)").value), abs=1e-6)
    assert values**2 @ ages - mean**2 == pytest.approx(float(found.single("variance(age)").value), abs=1e-3)
    assert float(found.single("sum(age)").value) == pytest.approx(MANY * mean)
    table, jobs = found.single("table(age, job)").value, found.single("histogram(job)")
    near = 1e-9 if refine else 0.05 * float(found.single("distribution(age)").stderr.max())
    assert table.sum(axis=1) == pytest.approx(ages, abs=near)
    assert table.sum(axis=0) == pytest.approx(jobs.value, abs=near)
    bins = found.single("distribution(x)").value
    assert bins[16:].sum() == pytest.approx(float(found.single("share(x >= 5)").value), abs=1e-6)


@pytest.mark.parametrize("refine", [None, "auto"])
def test_what_is_said_about_an_attribute_agrees(refine):
    check_agreement(refine)


@pytest.mark.wide
@pytest.mark.parametrize("refine", [None, "auto"])
def test_it_agrees_with_ranges_beside(refine):
    check_agreement(refine, "ranges(age, job)")


def test_a_table_agrees_where_one_axis_is_asked_alone():
    plan, tally = collected("mean(age)", "distribution(age)", "table(age, job)")
    found = plan.estimate(tally, refine="auto")
    ages = found.single("distribution(age)").value
    assert found.single("table(age, job)").value.sum(axis=1) == pytest.approx(ages, abs=1e-9)
    assert np.arange(16) @ ages == pytest.approx(float(found.single("mean(age)").value), abs=1e-9)


def test_truths_are_within_six_errors():
    """Of 100 numbers: a false alarm has probability 2e-7."""
    plan, tally = collected(*EVERYTHING)
    found, true = plan.estimate(tally), truths(plan, [people()])
    for name in map(str, plan.questions):
        result = found.single(name)
        assert (np.abs(np.ravel(result.value) - true[name]) <= 6 * np.ravel(result.stderr)).all(), name


def test_results_say_what_they_are_from():
    plan, tally = collected(*EVERYTHING)
    found = plan.estimate(tally)
    counts = {part.name: tally.parts[part.name].n for part in plan.parts}
    told = found.single("mean(age)")
    about = ["mean(age)", "distribution(age)", "share(age >= 9)", "table(age, job)", "square(age)"]
    note = next(note for note in told.notes if note.startswith("From all reports that tell about it: "))
    for name in about:
        assert f"{counts[name]:,} about {name}" in note
    assert told.n == sum(counts[name] for name in about)
    assert note in found.explain()
    assert found.reports == counts


# Who is told, and who is not -----------------------------------------------------------------------------------------


def test_a_question_without_reports_of_its_own_is_told_by_others():
    plan = small()
    reports: dict[str, Any] = dict(plan.randomize(few(), seed=1))
    for name in ("mean(age)", "share(age >= 2)", "histogram(job)"):
        reports[name] = reports[name][:0]
    found, true = plan.estimate(plan.tally(reports)), truths(plan, [few()])
    for name in ("mean(age)", "share(age >= 2)", "histogram(job)"):
        result = found.single(name)
        assert result.n > 0
        assert (np.abs(result.value - np.squeeze(true[name])) < 6 * result.stderr).all()
        assert " about table(age, job)" in result.explain()
        assert f" about {name}" not in result.explain()
    alone = {
        name: reports[name] if name == "mean(age)" else each[:0] for name, each in plan.randomize(few(), seed=1).items()
    }
    alone["histogram(job)"] = plan.randomize(few(), seed=1)["histogram(job)"]
    nothing = plan.estimate(plan.tally(alone))  # jobs tell nothing about ages
    assert np.isnan(nothing.single("distribution(age)").value).all()


@pytest.mark.parametrize(
    "asked",
    [
        ("mean(age)", "histogram(job)", "distribution(x)"),
        ("distribution(age)", "mean(x)", "histogram(job)"),
        ("share(age > 8)", "cumulative(x)", "histogram(job)"),
        ("table(age, job)", "mean(x)"),
    ],
)
@pytest.mark.parametrize("epsilon", [1.0, 6.0])
def test_attributes_that_are_asked_once_are_left_alone(asked, epsilon, monkeypatch):
    """To the bit, also where some are crossed."""
    plan, tally = collected(*asked, epsilon=epsilon)
    found = plan.estimate(tally)
    own_reports_alone(monkeypatch)
    alone = plan.estimate(tally)
    assert list(found) == list(alone)
    for name in found:
        one, other = found.single(name), alone.single(name)
        assert np.ravel(one.value).tobytes() == np.ravel(other.value).tobytes()
        assert np.ravel(one.stderr).tobytes() == np.ravel(other.stderr).tobytes()
        assert (one.n, one.notes) == (other.n, other.notes)


def test_a_mean_and_a_share_tell_nothing_about_each_other():
    plan, tally = collected("mean(age)", "share(age > 8)", "share(job = 'nurse')")
    found = plan.estimate(tally)
    for part in plan.parts:
        assert found.single(part.name).n == tally.parts[part.name].n
        assert not any("From all reports" in note for note in found.single(part.name).notes)


def test_no_reports_are_no_source():
    (mean,) = questions(SCHEMA, ["mean(age)"])
    rows = np.linspace(-1, 1, 16)[None]
    empty = LinearReading(rows, np.array([0.0]), np.array([[1.0]]), 0)
    endless = LinearReading(rows, np.array([0.0]), np.array([[np.inf]]), 5)
    fine = LinearReading(rows, np.array([0.0]), np.array([[1.0]]), 5)
    assert sources_of([(mean, "age", empty), (mean, "age", endless)]) == {}
    assert [each.reading for each in sources_of([(mean, "age", empty), (mean, "age", fine)])["age"]] == [fine]


def check_slack() -> None:
    """A mean from its own numbers and, half, from the middles of cells: half a cell's slack, in its interval."""
    mean = MeanOf("x", SCHEMA["x"])
    (other,) = questions(SCHEMA, ["ranges(age, x)"])
    own = Estimate(np.asarray(0.2), np.asarray(0.01), 100, Guarantee(1.0), bounds=MEAN)
    rows = mean.rows
    assert rows is not None
    cells = LinearReading(rows, np.array([0.24]), np.array([[1e-4]]), 50)
    sources = {
        "x": [EvidenceSource(mean, LinearReading.of_estimate(rows, own, mean.slack)), EvidenceSource(other, cells)]
    }
    found = Evidence(sources, {mean: own}).put_together({mean: own})[mean]
    assert (float(found.value), found.n) == (pytest.approx(0.22), 150)
    assert float(found.stderr) == pytest.approx(0.01 / math.sqrt(2), rel=2e-3)
    assert found.bias is not None
    assert float(found.bias) == pytest.approx(0.5 / FINE, rel=1e-3)
    low, high = found.interval()
    reach = 1.959964 * float(found.stderr) + float(found.bias)
    assert (float(low), float(high)) == pytest.approx((0.22 - reach, 0.22 + reach), abs=1e-9)
    decoded = mean.decode(found)
    assert decoded.bias is not None
    assert float(decoded.bias) == pytest.approx(5 * 0.5 / FINE, rel=1e-3)


def test_slack_is_part_of_the_interval():
    check_slack()


def test_a_condition_that_cuts_a_fine_cell_tells_nothing():
    cutting, fitting = (questions(SCHEMA, [f"share(x >= {limit})"])[0] for limit in ("3.3333", "5"))
    assert isinstance(cutting, ShareOf)
    assert cutting.rows is None
    assert fitting.rows is not None
    assert fitting.rows.sum() == FINE / 2


@pytest.mark.wide
def test_a_variance_beside_a_distribution_is_covered():
    """Its mean and its square come from the same reports then: intervals hold at least as often as they say.

    95% of 200 intervals, less than the quantile of the binomial law at 1e-6 is an alarm.
    """
    schema = Schema({"age": Ordinal(0, 3)})
    asked = questions(schema, ["distribution(age)", "mean(age)", "square(age)"])
    laws = GRR(k=4, epsilon=2.0), Piecewise(epsilon=2.0), Piecewise(epsilon=2.0)
    parts = tuple(Part((each,), law, 1) for each, law in zip(asked, laws, strict=True))
    plan = Plan(schema, 2.0, 0.0, USERS, parts, 1, NOTHING, questions(schema, ["variance(age)"]))
    data = {"age": few()["age"]}
    true, held = float(np.var(data["age"])), 0
    for seed in range(SEEDS):
        low, high = plan.estimate(plan.tally(plan.randomize(data, seed=seed))).single("variance(age)").interval()
        held += bool(low <= true <= high)
    assert held >= stats.binom(SEEDS, 0.95).ppf(ALARM)


@pytest.mark.parametrize(("parts", "answered"), [(2, 1), (4, 1), (4, 2), (4, 3), (4, 4), (1, 1)])
def test_who_was_asked_by_enumeration(parts, answered):
    """The variance of what one user adds to a weighted sum of parts, over all ways to draw what is answered."""
    weights, users, asked = np.arange(1.0, parts + 1), 10**6, answered / parts
    added = [sum(weights[list(drawn)]) / asked for drawn in combinations(range(parts), answered)]
    told = WhoWasAsked(users, parts, answered)
    alone = (weights**2 * (1 / asked - users / told.among)).sum()
    assert alone - users * told.known * weights.sum() ** 2 == pytest.approx(np.var(added), abs=1e-6)
