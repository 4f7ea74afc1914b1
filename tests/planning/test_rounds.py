"""Plans over time: what is promised and predicted for rounds, and that it comes true."""

import json
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats

import dither
from dither import privacy
from dither.core.exact import exp_below
from dither.core.results import Result
from dither.core.schedule import FRESH, KEPT, ONE, Schedule
from dither.errors import DitherError, ParameterError, TallyError
from dither.planning.plan_files import digest
from dither.planning.round_estimates import RoundVariances, combined_variance

ALARM = 1e-6
JOBS = ["nurse", "driver", "teacher", "other"]
MOOD = dither.Schema({"mood": dither.Categorical(["good", "fair", "bad"])})
JOB = dither.Schema({"job": dither.Categorical(JOBS)})


def evenly(users: int) -> dict[str, np.ndarray]:
    """As many users with each job."""
    return {"job": np.array(JOBS)[np.arange(users) % 4]}


def tallies(plan: dither.Plan, tables: list, seed: int) -> dict:
    reports = plan.randomize_rounds(tables, seed=seed)
    return {period: plan.tally(each) for period, each in zip(plan.schedule.periods, reports, strict=False)}


MODES = {
    ONE: {},
    FRESH: {"first": 0.75, "epsilon": 6.0},
    KEPT: {"changes": 0},
    "as it is": {"changes": 0, "first": 2.0},
}


def planned(mode: str, users: int = 4000, rounds: int = 6, schema: dither.Schema = JOB) -> dither.Plan:
    options = dict(MODES[mode])
    return dither.plan(schema, options.pop("epsilon", 2.0), users=users, rounds=rounds, **options)


@pytest.mark.parametrize("mode", MODES)
def test_the_mode_that_is_meant(mode: str):
    assert planned(mode).schedule.mode == (KEPT if mode == "as it is" else mode)


# What is promised ----------------------------------------------------------------------------------------------------


def largest_ratio(laws: list[list[Fraction]]) -> Fraction:
    return max(a / b for one in laws for other in laws for a, b in zip(one, other, strict=True))


def test_one_round_each_keeps_epsilon_for_any_two_histories():
    plan = dither.plan(MOOD, 1.0, users=100, rounds=2)
    rows = plan.parts[0].mechanism.channel().matrix()
    histories = list(product(range(3), repeat=2))
    laws = [[chance / 2 for number in range(2) for chance in rows[history[number]]] for history in histories]
    assert all(sum(law) == 1 for law in laws)
    assert largest_ratio(laws) <= exp_below(plan.epsilon)
    assert plan.guarantee.epsilon <= plan.epsilon
    assert plan.report_guarantee == plan.guarantee


def test_fresh_noise_keeps_epsilon_for_any_two_histories():
    plan = dither.plan(MOOD, 3.0, users=100, rounds=2, first=1.5)
    assert plan.schedule.mode == FRESH
    rows = plan.parts[0].mechanism.channel().matrix()
    laws = [[a * b for a in rows[x] for b in rows[y]] for x, y in product(range(3), repeat=2)]
    assert exp_below(2.999999) < largest_ratio(laws) <= exp_below(plan.epsilon)
    assert plan.report_guarantee.epsilon <= 1.5
    assert 2.999999 < plan.guarantee.epsilon <= 3.0


def from_memory(mechanism, history: tuple[int, ...]) -> list[Fraction]:
    """The joint law of the reports of all rounds, where a value that changed has a response of its own."""
    kept, again = mechanism.kept.channel().matrix(), mechanism._again
    second = [[Fraction(again.high if a == b else again.low, again.total) for b in range(3)] for a in range(3)]
    starts = [0, *(place for place in range(1, len(history)) if history[place] != history[place - 1]), len(history)]
    law = []
    for reports in product(range(3), repeat=len(history)):
        chance = Fraction(1)
        for start, end in pairwise(starts):
            said = [np.prod([second[p][y] for y in reports[start:end]]) for p in range(3)]  # type: ignore
            chance *= sum(kept[history[start]][p] * said[p] for p in range(3))
        law.append(chance)
    return law


def test_memory_keeps_epsilon_for_values_that_stay():
    plan = dither.plan(MOOD, 2.0, users=100, rounds=30, changes=0)
    (part,) = plan.parts
    mechanism = part.mechanism
    assert type(mechanism).__name__ == "LGRR"
    assert plan.schedule.changes == 0
    for rounds in (1, 2, 3):
        laws = [from_memory(mechanism, (value,) * rounds) for value in range(3)]
        assert all(sum(law) == 1 for law in laws)
        assert largest_ratio(laws) <= exp_below(2.0 if rounds > 1 else mechanism.first)  # type: ignore
    assert 1.9 < plan.guarantee.epsilon <= 2.0
    assert plan.report_guarantee.epsilon <= 1.0


def seen_twenty_times_each(mechanism, history: tuple[int, ...]) -> float:
    """The probability of twenty reports of one category, then twenty of another."""
    kept, again = mechanism.kept.channel().matrix().astype(float), mechanism._again
    second = (np.full((3, 3), again.low) + np.eye(3) * (again.high - again.low)) / again.total
    said = [second[:, 0] ** 20, second[:, 1] ** 20]
    if len(set(history)) == 1:
        return float(kept[history[0]] @ (said[0] * said[1]))
    return float(kept[history[0]] @ said[0]) * float(kept[history[-1]] @ said[1])


def test_memory_keeps_epsilon_for_values_that_change_at_the_same_times_and_for_no_others():
    plan = dither.plan(MOOD, 2.0, users=100, rounds=30, changes=1)
    mechanism = plan.parts[0].mechanism
    assert mechanism.epsilon == 1.0
    assert plan.schedule.responses == 2
    changed = [pair for pair in product(range(3), repeat=2) if len(set(pair)) == 2]
    assert largest_ratio([from_memory(mechanism, history) for history in changed]) <= exp_below(2.0)
    stays, moves = (seen_twenty_times_each(mechanism, history) for history in ((0,) * 40, (0,) * 20 + (1,) * 20))
    assert moves > np.exp(10) * stays, "that a value has changed shows"
    assert not plan.schedule.moments_hidden
    assert "change at the same times" in plan.explain()


def test_a_crowd_hides_no_times_of_changes():
    with pytest.raises(ParameterError, match="different groups"):
        privacy.amplify(dither.plan(MOOD, 2.0, users=100, rounds=30, changes=1), 10_000, 1e-6)
    crowd = privacy.amplify(dither.plan(MOOD, 2.0, users=100, rounds=30, changes=0), 10_000, 1e-6)
    assert crowd.epsilon < crowd.all_rounds.epsilon < 2.0  # type: ignore


@pytest.mark.parametrize("mode", [KEPT, ONE])
def test_simulated_rounds_have_the_exact_joint_law(mode: str):
    """In 9 (or 6) cells, each within the bound of Hoeffding: false alarms with probability 1e-6 together."""
    users = 60_000
    plan = planned(mode, users, 2, MOOD) if mode == ONE else dither.plan(MOOD, 2.0, users=users, rounds=9, changes=0)
    one, two, *_ = plan.randomize_rounds([{"mood": ["fair"] * users}] * 2, seed=3)
    first, second = (np.asarray(each["histogram(mood)"]["value"]) for each in (one, two))
    mechanism = plan.parts[0].mechanism
    if mode == ONE:
        seen = np.concatenate([np.bincount(each, minlength=3) for each in (first, second)])
        expected = [float(chance) / 2 for chance in mechanism.channel().row(1)] * 2
    else:
        seen = np.bincount(3 * first + second, minlength=9)
        expected = [float(chance) for chance in from_memory(mechanism, (1, 1))]
    reach = np.sqrt(np.log(2 * len(expected) / ALARM) / (2 * users))
    assert np.abs(seen / users - expected).max() < reach


# What is predicted ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_predicted_errors_come_true(mode: str):
    """Mean squares over repetitions are chi-squared, with k - 1 degrees of freedom each where shares add up to one.

    Users hold all jobs alike, who are the worst for sampling; then errors of all cells have the same law. Three
    statistics a mode, two sides: false alarms with probability 6e-6 / 6 each.
    """
    users, rounds, repetitions = 4000, 6, 60
    plan, table = planned(mode, users, rounds), evenly(users)
    name = "histogram(job)"
    squares = {"round": [], "mean": [], "change": []}
    for seed in range(repetitions):
        found = plan.estimate_rounds(tallies(plan, [table] * rounds, 100 + seed))
        values = np.array([found[period][name].value for period in found])
        squares["round"].append(np.sum((values[0] - 0.25) ** 2))
        squares["mean"].append(np.sum((values.mean(axis=0) - 0.25) ** 2))
        squares["change"].append(np.sum((values[1] - values[0]) ** 2))
    prediction = plan.prediction
    predicted = {"round": plan.predicted, "mean": prediction.mean_of_rounds, "change": prediction.change}
    freedom = 3 * repetitions
    low, high = stats.chi2.ppf([ALARM / 6, 1 - ALARM / 6], freedom) / freedom
    for what, errors in predicted.items():
        found = np.mean(squares[what]) / 4
        if what == "change" and mode == "as it is":
            assert found == 0 == errors[name]
        elif what == "mean" and mode == ONE:  # of constant values: sampling cancels, and what is predicted is a bound
            assert 0.5 * low * errors[name] ** 2 < found < high * errors[name] ** 2
        else:
            assert low * errors[name] ** 2 < found < high * errors[name] ** 2, what


def test_fresh_noise_is_far_worse_than_one_round_each():
    ways = dither.plan(JOB, 1.0, users=100_000, rounds=30).prediction.compared
    one, fresh = (next(error for way, error in ways.items() if way.startswith(start)) for start in ("one", "every"))
    assert fresh > 4 * one


def test_memory_wins_where_values_stay():
    often = dither.plan(JOB, 2.0, users=100_000, rounds=30)
    memory = dither.plan(JOB, 2.0, users=100_000, rounds=30, changes=0)
    same = dither.plan(JOB, 2.0, users=100_000, rounds=30, changes=0, first=2.0)
    assert same.rmse < memory.rmse < 0.6 * often.rmse
    assert type(same.parts[0].mechanism).__name__ == "GRR"
    assert memory.prediction.mean_of_rounds["histogram(job)"] < 1.2 * same.rmse


def test_first_is_kept_by_one_round_of_several_questions():
    schema = dither.Schema({**JOB, "smokes": dither.Categorical(["yes", "no"]), "age": dither.Numeric(0, 100)})
    for options in ({}, {"changes": 0}, {"changes": 2}):
        plan = dither.plan(schema, 8.0, users=100_000, rounds=10, first=1.0, **options)  # type: ignore
        assert plan.report_guarantee.epsilon <= 1.0
        assert plan.guarantee.epsilon <= 8.0


def test_numbers_are_asked_from_memory_too():
    plan = dither.plan(dither.Schema({"age": dither.Numeric(0, 100)}), 1.0, users=10_000, rounds=20, changes=0)
    assert plan.schedule.mode == KEPT
    assert plan.prediction.change["mean(age)"] == 0
    one, two = plan.randomize_rounds([{"age": [30.0, 60.0]}] * 2, seed=1)
    assert (one["mean(age)"] == two["mean(age)"]).all()


def test_a_mechanism_with_two_budgets_crosses_attributes():
    schema = dither.Schema({**JOB, "smokes": dither.Categorical(["yes", "no"])})
    plan = dither.plan(schema, 8.0, users=20_000, rounds=20, changes=0)
    assert [part.table is not None for part in plan.parts] == [True]
    people = {**evenly(20_000), "smokes": np.array(["yes", "no"])[np.arange(20_000) % 2]}
    found = plan.estimate_rounds(tallies(plan, [people] * 3, 5))
    assert np.abs(found.mean("smokes").value - 0.5).max() < 6 * found.mean("smokes").stderr.max()
    assert (found.change("smokes", 0, 2).stderr < found[0].single("smokes").stderr * 1.5).all()


# Standard errors of several rounds -----------------------------------------------------------------------------------


def test_variances_of_sums_of_rounds():
    kept, one = Schedule(3, KEPT, 0), Schedule(3, ONE)
    rounds = [RoundVariances(np.array(0.5), np.array(2.0), np.array(3.0))] * 3
    mean, change = [1 / 3] * 3, [-1.0, 0.0, 1.0]
    assert combined_variance(kept, rounds, mean) == pytest.approx(0.5 + 2.0 + 1.0)
    assert combined_variance(kept, rounds, change) == pytest.approx(6.0)
    assert combined_variance(one, rounds, change) == pytest.approx(2 * 5.5)
    changing = Schedule(3, KEPT, 1)
    assert combined_variance(changing, rounds, mean) == pytest.approx(0.5 + 2.0 + 1.0)
    assert combined_variance(changing, rounds, change) == pytest.approx(4 * 0.5 + 2 * 2.0 + 6.0)
    unknown = [RoundVariances(np.array(0.0), np.array(5.0), None)] * 3
    assert combined_variance(kept, unknown, change) == pytest.approx(10.0)
    assert combined_variance(kept, unknown, mean) == pytest.approx(5.0)


@pytest.mark.parametrize("options", [{}, {"changes": 0}, {"changes": 1, "epsilon": 4.0}])
def test_intervals_of_changes_and_means_hold(options: dict):
    """One interval a repetition, with other seeds each: fewer hold by chance than the binomial says once in 10^6."""
    users, rounds, repetitions = 2000, 4, 80
    plan = dither.plan(JOB, options.get("epsilon", 2.0), users=users, rounds=rounds, changes=options.get("changes"))
    before = evenly(users)
    moved = {"job": np.where(np.arange(users) < 500, "nurse", before["job"])}
    tables = [before] * 4 if options.get("changes") == 0 else [before, before, moved, moved]
    truth = np.mean(np.asarray(tables[2]["job"]) == "nurse")
    hits = {"change": 0, "mean": 0}
    for seed in range(repetitions):
        found = plan.estimate_rounds(tallies(plan, tables, 1000 + seed))
        for what, estimate, true in (
            ("change", found.change("job", 1, 2), truth - 0.25),
            ("mean", found.mean("job"), (0.25 + truth) / 2),
        ):
            low, high = estimate.interval(0.95)
            hits[what] += low[0] <= true <= high[0]
    assert min(hits.values()) >= stats.binom.ppf(ALARM, repetitions, 0.95)


def test_results_of_rounds():
    plan = dither.plan(JOB, 2.0, users=2000, rounds=["W47", "W48", "W49"])
    found = plan.estimate_rounds(tallies(plan, [evenly(2000)] * 3, 1))
    assert isinstance(found, Result)
    assert list(found) == ["W47", "W48", "W49"]
    assert found.guarantee.simulated
    assert len(found.table().columns["value"]) == len(found.to_pandas()) == found.to_arrow().num_rows == 12
    usual, at_once = found.interval()["histogram(job)"], found.interval(simultaneous=True)["histogram(job)"]
    assert usual.low.shape == (3, 4)
    assert (at_once.high - at_once.low >= usual.high - usual.low).all()
    changes = found.changes("job")
    assert list(changes) == ["W47 to W48", "W48 to W49"]
    value = found["W49"].single("job").value - found["W47"].single("job").value
    assert found.change("job", "W47", "W49").value == pytest.approx(value)
    assert found.mean("job").value == pytest.approx(np.mean([found[w].single("job").value for w in found], axis=0))
    assert "W48" in str(found.plot("job").axes[0].get_xticklabels())
    assert len(json.dumps(found.to_dict())) > 100
    assert found.to_csv().startswith("period,question,item")
    assert "3 of 3 rounds" in found.explain()
    assert "<table" in found._repr_html_()
    with pytest.raises(DitherError):
        found.change("job", "W47", "W47")
    with pytest.raises(DitherError):
        found["W50"]


def test_real_reports_have_the_guarantee_of_all_rounds():
    plan = dither.plan(JOB, 2.0, users=100, rounds=30, changes=0)
    reports = plan.randomize_rounds([evenly(100)] * 2)
    found = plan.estimate_rounds({number: plan.tally(each) for number, each in enumerate(reports)})
    assert found.guarantee == plan.guarantee
    assert len(found) == 2


def test_ranges_have_rounds_but_no_changes():
    schema = dither.Schema({"age": dither.Ordinal(0, 9), "job": dither.Categorical(JOBS)})
    plan = dither.plan(schema, 4.0, users=4000, rounds=2, ask=["ranges(age, job)"])
    people = {**evenly(4000), "age": np.arange(4000) % 10}
    found = plan.estimate_rounds(tallies(plan, [people] * 2, 1))
    assert found.comparable == ()
    assert found[0].ranges("age", "job").answer({"job": ["nurse"]}).value > 0
    with pytest.raises(DitherError, match="several attributes"):
        found.mean("ranges(age, job)")


def test_shares_below_thresholds_over_time():
    schema = dither.Schema({"age": dither.Ordinal(0, 19)})
    for options in ({}, {"changes": 0}):
        plan = dither.plan(schema, 2.0, users=5000, rounds=4, ask=["cumulative(age)"], **options)  # type: ignore
        found = plan.estimate_rounds(tallies(plan, [{"age": np.arange(5000) % 20}] * 4, 2))
        low, high = found.change("age", 0, 1).interval(0.999)
        assert (low <= 0).all()
        assert (high >= 0).all()


# Files and refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_plan_with_rounds_is_stored_and_certified_again(mode: str):
    plan = planned(mode)
    again = dither.Plan.from_json(plan.to_json())
    assert again == plan
    assert again.fingerprint == plan.fingerprint
    assert again.prediction == plan.prediction
    assert again.guarantee == plan.guarantee
    assert again.schedule == plan.schedule


def test_a_plan_with_one_round_is_stored_as_ever():
    once, plain = dither.plan(JOB, 1.0, users=1000, rounds=1), dither.plan(JOB, 1.0, users=1000)
    assert once == plain
    assert "schedule" not in once.to_dict()
    assert once.report_guarantee == once.guarantee


@pytest.mark.parametrize(
    "change",
    [
        {"changes": 5},
        {"mode": "fresh", "changes": None},
        {"rounds": 1},
        {"rounds": 0},
        {"mode": "often"},
        {"labels": ["a"]},
    ],
)
def test_a_forged_schedule_is_refused(change: dict):
    stored = json.loads(dither.plan(JOB, 2.0, users=1000, rounds=30, changes=0).to_json())
    stored["schedule"] = {name: value for name, value in {**stored["schedule"], **change}.items() if value is not None}
    beside = ("hash", "version", "certificate", "prediction")
    stored["hash"] = digest({name: value for name, value in stored.items() if name not in beside})
    with pytest.raises(ParameterError):
        dither.Plan.from_json(json.dumps(stored))


def test_devices_without_memory_are_refused():
    plan = dither.plan(JOB, 1.0, users=1000, rounds=30)
    for call in (
        lambda: plan.report({"job": "nurse"}),
        lambda: plan.randomize(evenly(10)),
        lambda: plan.report({}, seed=1),
    ):
        with pytest.raises(ParameterError, match=r"ledger.*randomize_rounds"):
            call()


@pytest.mark.parametrize(
    "options",
    [
        {"rounds": 0},
        {"rounds": 1.5},
        {"rounds": "W47"},
        {"rounds": []},
        {"rounds": ["W47", "W47"]},
        {"rounds": ["", "W47"]},
        {"rounds": [1, 2]},
        {"rounds": 10**6},
        {"changes": 0},
        {"first": 0.5},
        {"rounds": 3, "changes": -1},
        {"rounds": 3, "changes": 0.5},
        {"rounds": 3, "first": 2.0},
        {"rounds": 3, "first": 0.0},
    ],
)
def test_odd_rounds(options: dict):
    with pytest.raises(ParameterError):
        dither.plan(JOB, 1.0, users=1000, **options)


def test_odd_tables_and_tallies():
    plan = dither.plan(JOB, 1.0, users=1000, rounds=3)
    table = evenly(12)
    for tables in ([], [table] * 4, table, [table, evenly(11)], None):
        with pytest.raises(ParameterError):
            plan.randomize_rounds(tables)  # type: ignore
    with pytest.raises(DitherError, match="round 1") as refused:
        plan.randomize_rounds([table, {"job": ["astronaut"] * 12}])
    assert "astronaut" not in str(refused.value)
    counted = tallies(plan, [evenly(1000)] * 3, 1)
    for wrong in ({}, {3: counted[0]}, {"0": counted[0]}, [counted[0]], {True: counted[0]}):
        with pytest.raises(ParameterError):
            plan.estimate_rounds(wrong)  # type: ignore
    with pytest.raises(DitherError, match="round 0"):
        plan.estimate_rounds({0: plan.tally({"histogram(job)": np.empty(0, plan.parts[0].mechanism.dtype)})})
    listed = [dither.planning.PlanTally(each.plan, each.parts, {"00" * 32: each.reports}) for each in counted.values()]
    with pytest.raises(TallyError, match="same file"):
        plan.estimate_rounds(dict(enumerate(listed)))
    once = dither.plan(JOB, 1.0, users=1000)
    with pytest.raises(ParameterError):
        once.randomize_rounds([table])
    with pytest.raises(ParameterError):
        once.estimate_rounds({0: once.tally(once.randomize(table))})


def test_a_simulation_of_one_round():
    found = planned(ONE, 4000).simulate(evenly(4000), 20)
    rms = found.rms()["histogram(job)"]
    predicted = found.predicted["histogram(job)"]
    low, high = stats.chi2.ppf([ALARM / 2, 1 - ALARM / 2], 60) / 60
    assert low * predicted**2 < np.mean(rms**2) < high * predicted**2


def test_words():
    for mode in MODES:
        plan = planned(mode)
        assert "6 rounds" in plan.title
        assert "ledger" in plan.explain()
        assert "of a change" in plan.table().columns
        statement = plan.statement().text()
        assert "There are 6 rounds." in " ".join(statement.split())
        assert "ledger" in statement
        assert plan.compared().columns["against"].count("taken") == 1


def test_a_statement_does_not_promise_to_hide_changes():
    options = {"epsilon": 6.0, "users": 20_000, "rounds": 30}
    told = {
        changes: " ".join(dither.plan(JOB, **options, changes=changes).statement().text().split()) for changes in (0, 1)
    }
    assert "that change at the same times" in told[1]
    assert told[1].count("when, is not hidden") == 2
    assert "same times" not in told[0]
    assert "is not hidden" not in told[0]


@pytest.mark.parametrize("options", [{}, {"changes": 0}, {"changes": 1}])
def test_what_is_worked_out_from_results_has_rounds_too(options: dict):
    """A variance and a sum rest on means; their changes and means hold the truth within six standard errors."""
    users = 8000
    schema = dither.Schema({"income": dither.Numeric(0, 10)})
    asked = ["variance(income)", "sum(income)", "mean(income)"]
    plan = dither.plan(schema, 4.0, users=users, rounds=4, ask=asked, **options)
    assert dither.Plan.from_json(plan.to_json()) == plan
    assert set(plan.prediction.change) == set(plan.prediction.errors)
    income = 2.0 + 6.0 * np.arange(users) / users
    found = plan.estimate_rounds(tallies(plan, [{"income": income}] * 4, 7))
    for question, truth in (("variance(income)", income.var()), ("sum(income)", income.sum())):
        mean, change = found.mean(question), found.change(question, 0, 3)
        assert abs(mean.value - truth) < 6 * mean.stderr
        assert abs(change.value) <= 6 * change.stderr


@pytest.mark.parametrize("options", [{}, {"changes": 0}])
def test_what_several_questions_tell_about_an_attribute_is_predicted_by_round(options: dict):
    """Errors of shares are predicted exactly or too large, those of means are for the worst users: one-sided, 1e-6."""
    users, repetitions = 6000, 40
    schema = dither.Schema({"age": dither.Ordinal(0, 4)})
    plan = dither.plan(schema, 2.0, users=users, rounds=5, ask=["mean(age)", "distribution(age)"], **options)
    people = {"age": np.arange(users) % 5}
    errors: dict[str, list] = {"mean(age)": [], "distribution(age)": []}
    for seed in range(repetitions):
        (reports,) = plan.randomize_rounds([people], seed=seed)
        found = plan.estimate(plan.tally(reports))
        errors["mean(age)"].append(found["mean(age)"].value - 2.0)
        errors["distribution(age)"].append(found["distribution(age)"].value - 0.2)
    for name, freedom in (("mean(age)", repetitions), ("distribution(age)", 4 * repetitions)):
        high = stats.chi2.ppf(1 - ALARM / 2, freedom) / freedom
        assert np.mean(np.square(errors[name])) < high * plan.predicted[name] ** 2
