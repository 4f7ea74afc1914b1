"""Plans in two phases: what is chained, what is refused, what counts together, and what all of it promises."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

import dither
from dither import Categorical, Numeric, Ordinal, QuantileWave, Schema
from dither.core.channel import TwoLevel
from dither.core.exact import exp_below
from dither.core.mechanism import Mechanism
from dither.display.significant_digits import size
from dither.errors import ParameterError, TallyError
from dither.mechanisms.frequency import Frequencies
from dither.mechanisms.grr import GRR
from dither.planning.phases import guarantee_of_phases
from dither.ranges import error_prediction
from dither.ranges.query_workload import QueryWorkload

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

SCHEMA = Schema({"income": Numeric(0, 1e6), "age": Ordinal(0, 99), "job": Categorical(["a", "b", "c"])})
ASK = ["median(income)", "mean(age)", "histogram(job)"]


def people(users: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "income": np.clip(1000 * np.exp(2 * rng.normal(size=users)), 0, 1e6),
        "age": rng.integers(0, 100, users),
        "job": rng.choice(["a", "b", "c"], users, p=[0.6, 0.3, 0.1]),
    }


def part_of(table: dict[str, Any], rows: slice) -> dict[str, Any]:
    return {name: column[rows] for name, column in table.items()}


@pytest.fixture(scope="module")
def first() -> dither.Plan:
    return dither.plan(SCHEMA, 1.0, users=40_000, ask=ASK, phases=2)


@pytest.fixture(scope="module")
def early(first: dither.Plan) -> Any:
    return first.tally(first.randomize(part_of(people(40_000), slice(10_000)), seed=1))


@pytest.fixture(scope="module")
def second(first: dither.Plan, early: Any) -> dither.Plan:
    return first.next(early)


@pytest.fixture(scope="module")
def late(second: dither.Plan) -> Any:
    return second.tally(second.randomize(part_of(people(40_000), slice(10_000, None)), seed=2))


# What is chained ---------------------------------------------------------------------------------------------------


def test_users_are_shared_out(first, second):
    assert (first.users, second.users) == (10_000, 30_000)
    assert first.phases.users == (10_000, 30_000)
    assert first.users_of_phases == second.users_of_phases == 40_000
    other = dither.plan(SCHEMA, 1.0, users=1000, ask=["mean(age)"], phases=[0.1, 0.9])
    assert other.phases is not None
    assert other.phases.users == (100, 900)


def test_the_second_plan_names_the_first_and_its_tally(first, second, early):
    assert second.after.plan == first
    assert second.after.tally == early.digest
    assert second.phases is None
    stored = json.loads(second.to_json())
    assert stored["after"]["plan"] == first.to_dict()
    assert stored["after"]["tally"] == early.digest
    for plan in (first, second):
        again = dither.Plan.from_json(plan.to_json())
        assert again == plan
        assert again.fingerprint == plan.fingerprint
    assert first.next(early).fingerprint == second.fingerprint


def test_a_changed_chain_is_refused(second):
    stored = json.loads(second.to_json())
    for change in (
        {"after": {**stored["after"], "tally": "0" * 64}},
        {"after": {**stored["after"], "plan": {**stored["after"]["plan"], "users": 9_999}}},
        {"after": None},
    ):
        with pytest.raises(ParameterError, match="changed after it was written"):
            dither.Plan.from_json(json.dumps({**stored, **change}))


def test_forged_chains_are_refused(second):
    from dither.planning import plan_files

    def forged(**changes: Any) -> str:
        stored = {**json.loads(second.to_json()), **changes}
        own = {name: value for name, value in stored.items() if name not in plan_files.BESIDE}
        return json.dumps({**stored, "hash": plan_files.digest(own)})

    after = json.loads(second.to_json())["after"]
    once = dither.plan(SCHEMA, 1.0, users=10_000, ask=ASK).to_dict()
    for wrong in ({**after, "plan": once}, {**after, "plan": {}}, {**after, "tally": "x"}, {**after, "note": 1}):
        with pytest.raises(ParameterError, match="this is not a plan"):
            dither.Plan.from_json(forged(after=wrong))
    with pytest.raises(ParameterError, match="this is not a plan"):
        dither.Plan.from_json(forged(phases={"users": [1, 2]}))


def test_plans_of_one_phase_are_as_they_were():
    plan = dither.plan(SCHEMA, 1.0, users=40_000, ask=ASK)
    assert plan == dither.plan(SCHEMA, 1.0, users=40_000, ask=ASK, phases=1)
    assert not {"phases", "after"} & set(json.loads(plan.to_json()))
    assert "one_phase" not in json.loads(plan.to_json())["prediction"]


# What is estimated -------------------------------------------------------------------------------------------------


def test_all_reports_count(second, first, early, late):
    found = second.estimate(late, earlier=[early])
    users = people(40_000)
    assert found["mean(age)"].n == early.parts["mean(age)"].n + late.parts["mean(age)"].n
    assert found["histogram(job)"].n == early.parts["histogram(job)"].n + late.parts["histogram(job)"].n
    assert found["median(income)"].n == early.parts["cumulative(income)"].n + late.parts["cumulative(income)"].n
    assert abs(found["mean(age)"].value - users["age"].mean()) < 5.5 * found["mean(age)"].stderr
    low, high = found["median(income)"].interval(0.9999)
    assert low <= np.median(users["income"]) <= high
    assert high < 10_000  # of a million: one phase would know little more than the first bin, of 31,250
    alike = first.merge([early]).parts["mean(age)"]
    merged = second.parts[[part.name for part in second.parts].index("mean(age)")].mechanism
    assert merged.estimate(alike + late.parts["mean(age)"]).value == pytest.approx(
        (found["mean(age)"].value - 49.5) / 49.5, abs=1e-12
    )


def test_thresholds_are_where_the_people_are(second):
    question = next(each for each in second.measured if str(each) == "cumulative(income)")
    assert sum(question.thresholds < 30_000) >= 12
    assert (np.diff(question.thresholds) > 0).all()
    values = np.array([0.0, 1e6, *question.thresholds])
    cells = question.encode(values)
    assert cells.tolist() == [0, question.size, *range(1, question.size + 1)]  # who is at a threshold is above it
    assert [question.encode_value(value) for value in values] == cells.tolist()


def test_estimates_need_the_first_tally_and_no_other(second, first, early, late):
    with pytest.raises(TallyError, match="need the tally of the first one"):
        second.estimate(late)
    with pytest.raises(TallyError, match="was made from another tally"):
        second.estimate(late, earlier=[early + early])
    with pytest.raises(TallyError, match="another plan"):
        second.estimate(late, earlier=[late])
    with pytest.raises(ParameterError, match="no earlier phase"):
        first.estimate(early, earlier=[early])
    with pytest.raises(TallyError, match="another plan"):
        second.estimate(early, earlier=[early])


def test_a_digest_is_of_sums_and_not_of_files(early):
    assert replace(early, files={"ab" * 32: 5}).digest == early.digest
    assert (early + early).digest != early.digest


def test_what_cannot_be_is_refused(first, second, early, late):
    with pytest.raises(ParameterError, match="last of its phases"):
        second.next(late)
    with pytest.raises(ParameterError, match="one phase"):
        dither.plan(SCHEMA, 1.0, users=1000, ask=["mean(age)"]).next(early)
    with pytest.raises(TallyError, match="no reports yet"):
        first.next(first.tally(first.randomize({"income": [], "age": [], "job": []})))
    for wrong in (3, 0, [0.5], [0.5, 0.6], "two", [1.0, 0.0]):
        with pytest.raises(ParameterError, match="phases is 2"):
            dither.plan(SCHEMA, 1.0, users=1000, phases=wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="do not go with rounds"):
        dither.plan(SCHEMA, 1.0, users=1000, phases=2, rounds=4)
    with pytest.raises(ParameterError, match="do not go with a shuffler"):
        dither.plan(SCHEMA, users=1000, phases=2, central=0.1, delta=1e-6)
    public = Schema({"land": dither.Public(["DE", "FR"]), "age": Ordinal(0, 9)})
    with pytest.raises(ParameterError, match="do not go with public"):
        dither.plan(public, 1.0, users=1000, phases=2)
    with pytest.raises(ParameterError, match="or budgets"):
        dither.plan(SCHEMA, {"a": 1.0, "b": 2.0}, users={"a": 500, "b": 500}, phases=2)


def test_what_a_refusal_says_to_do_can_be_done():
    """Each of what phases do not go with, planned in the other way that is named."""
    ages = Schema({"age": Ordinal(0, 9)})
    assert dither.plan(ages, 1.0, users=1000, phases=2).phases is not None  # for each group, or without a shuffler
    assert dither.plan(ages, 1.0, users=1000, rounds=4).phases is None
    public = Schema({"land": dither.Public(["DE", "FR"]), "age": Ordinal(0, 9)})
    assert len(dither.plan(public, 1.0, users=1000).groups) == 2
    assert dither.plan(ages, users=20_000, central=0.5, delta=1e-6).crowd is not None


def test_devices_report_by_the_second_plan(second):
    sent = [second.report({"income": 1200.0, "age": 30, "job": "a"}, seed=seed) for seed in range(30)]
    assert all(sum(map(len, each.values())) == 1 for each in sent)
    second.tally({name: np.concatenate([each[name] for each in sent]) for name in sent[0]})


def test_a_rehearsal_goes_through_both_phases():
    plan = dither.plan(Schema({"income": Numeric(0, 1e6)}), 2.0, users=8000, ask=["cumulative(income)"], phases=2)
    found = plan.simulate({"income": people(8000)["income"]}, 2)
    assert found.errors["cumulative(income)"].shape[0] == 2
    assert found.rms()["cumulative(income)"].max() < 0.2
    early = plan.tally(plan.randomize({"income": people(100)["income"]}, seed=1))
    with pytest.raises(ParameterError, match="rehearsed with the first"):
        plan.next(early).simulate({"income": [1.0]}, 1)


def test_it_is_said_what_the_second_phase_wins_of_ranges():
    """It depends on where users are: what may be where they crowd, and what was found on other populations."""
    schema = Schema({"age": Ordinal(0, 99), "income": Numeric(0, 1e6)})
    plan = dither.plan(schema, 1.0, users=40_000, ask=["ranges(age, income)"], phases=2)
    told = next(line for line in plan.explain().splitlines() if line.startswith("Worth of the second phase"))
    mechanism: Any = plan.parts[0].mechanism
    one, two = (error_prediction.predicted(mechanism, 40_000, 40_000, phases=each) for each in (1, 2))
    assert one.rmse == two.rmse == pytest.approx(plan.predicted["ranges(age, income)"])
    assert two.largest < one.largest
    assert f"up to {size(one.largest)} in one phase are up to {size(two.largest)} in two" in told
    assert "Worth" not in dither.plan(schema, 1.0, users=40_000, ask=["ranges(age, income)"]).explain()


def test_what_is_won_is_that_of_the_queries_that_will_be_asked():
    """Of which some pairs are nobody's business: they are not reported at all."""
    schema, ask = Schema({name: Ordinal(0, 99) for name in "abc"}), "ranges(a, b, c)"
    plan = dither.plan(schema, 1.0, users=40_000, ask=[ask], phases=2, weights={ask: {"a": 3, ("a", "b"): 1}})
    mechanism: Any = plan.parts[0].mechanism
    queries = QueryWorkload.of("abc", {"a": 3, ("a", "b"): 1})
    largest = error_prediction.predicted(mechanism, 40_000, 40_000, queries=queries, phases=2).largest
    for each in (plan, dither.Plan.from_json(plan.to_json())):
        assert f"up to {size(largest)} in two" in each.explain()


def test_it_is_said_what_the_second_phase_wins(first, second):
    assert "first of two phases" in first.explain()
    assert "Worth of the second phase" in first.explain()
    assert "second of two phases" in second.explain()
    assert "in one phase" in first.table().columns
    assert "of the first phase" in first.title


# What is promised --------------------------------------------------------------------------------------------------


def law_of(mechanism: QuantileWave, value: Fraction) -> list[Fraction]:
    """The exact law of a report: that of the two lattice points next to the place of a value from -1 to 1."""
    place = (Fraction(float(mechanism._place(np.array([float(value)]))[0])) + 1) / 2 * mechanism.window.steps
    lower = min(int(place), mechanism.window.steps - 1)
    rows = [mechanism.channel().row(point) for point in (lower, lower + 1)]
    return [(1 - (place - lower)) * a + (place - lower) * b for a, b in zip(*rows, strict=True)]


@cache
def learned_from(mechanism: QuantileWave, reports: tuple[int, ...]) -> QuantileWave:
    """The mechanism of the second phase after these reports."""
    return mechanism.after(mechanism.tally(np.array(reports, dtype=np.uint8).astype(mechanism.dtype)), 1)


def joint_law(mechanism: QuantileWave, early: tuple[Fraction, ...], late: tuple[Fraction, ...]) -> dict[Any, Fraction]:
    """Of all reports of both phases; the second mechanism is the one that the first tally makes."""
    outputs, found = range(mechanism.window.law.outputs), {}
    for reports in product(outputs, repeat=len(early)):
        second = learned_from(mechanism, tuple(sorted(reports)))
        before = prod(law_of(mechanism, x)[y] for x, y in zip(early, reports, strict=True))
        laws = [law_of(second, x) for x in late]
        for others in product(outputs, repeat=len(late)):
            found[reports, others] = before * prod(law[y] for law, y in zip(laws, others, strict=True))
    return found


VALUES = (Fraction(-1), Fraction(-1, 3), Fraction(1))


def worst_ratio(law: Any) -> Fraction:
    """The largest ratio of an outcome's probabilities where one of three records is replaced."""
    worst = Fraction(0)
    laws = {records: law(records) for records in product(VALUES, repeat=3)}
    for records, own in laws.items():
        for place, value in product(range(3), VALUES):
            other = laws[(*records[:place], value, *records[place + 1 :])]
            worst = max(worst, *(own[outcome] / other[outcome] for outcome in own))
    return worst


def test_both_phases_together_promise_what_one_does():
    """Every outcome of two users in the first phase and one in the second, in fractions: no ratio above e^epsilon."""
    mechanism = QuantileWave(1.0, weights=(8, 3, 1, 2))
    learned = {learned_from(mechanism, (y, z)).quantiles for y in range(3) for z in range(y, 3)}
    assert len(learned) > 3  # the second mechanism does depend on the first reports
    law = lambda records: joint_law(mechanism, records[:2], records[2:])  # noqa: E731
    assert all(sum(law(records).values()) == 1 for records in [VALUES, VALUES[::-1]])
    assert worst_ratio(law) == mechanism.channel().ratio() <= exp_below(1.0)


def test_who_reports_in_both_phases_spends_twice():
    """What has to be organised, as a mutant: the last user of the first phase is asked again."""
    mechanism = QuantileWave(1.0, weights=(8, 3, 1, 2))
    assert worst_ratio(lambda records: joint_law(mechanism, records, records[2:])) > exp_below(1.0)


def test_the_guarantee_of_all_phases_is_the_worst(first, second, early, late):
    assert guarantee_of_phases(second) == second.guarantee == first.guarantee
    assert second.estimate(late, earlier=[early])["mean(age)"].guarantee.simulated
    real = dither.plan(Schema({"age": Ordinal(0, 9)}), 1.0, users=400, ask=["mean(age)"], phases=2)
    tally = real.tally(real.randomize({"age": [1, 2, 3]}))
    later = real.next(tally)
    found = later.estimate(later.tally(later.randomize({"age": [4, 5]})), earlier=[tally])
    assert found["mean(age)"].guarantee == real.guarantee
    assert found["mean(age)"].n == 5


# What mechanisms declare -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Learner(GRR):
    """Categories, of which the first phase tells the most frequent: a small mechanism that learns."""

    favourite: int = 0

    phased = True
    planned = True
    examples = ({"k": 3, "epsilon": 1.0},)

    def after(self, tally: Any, users: int) -> "Learner":
        return Learner(self.k, self.epsilon, favourite=int(tally.counts.argmax()), weights=self.weights)

    @property
    def reading(self) -> Any:  # type: ignore[override]
        return _LearnerReading(self)


@dataclass(frozen=True)
class _LearnerReading:
    mechanism: Learner
    earlier: Any = field(default=())

    @property
    def _plain(self) -> Frequencies:
        return GRR(self.mechanism.k, self.mechanism.epsilon, weights=self.mechanism.weights).reading

    @property
    def domain(self) -> Any:
        return self._plain.domain

    def worst_variance(self, share: float = 1.0) -> float:
        return self._plain.worst_variance(share)

    def estimate(self, tally: Any, guarantee: Any, source: str, among: int | None = None) -> Any:
        from dither.core.tally import Tally

        every = [tally, *(heard for _, heard in self.earlier)]
        whole = Tally(tally.mechanism, sum(each.n for each in every), np.sum([each.counts for each in every], axis=0))
        return self._plain.estimate(whole, guarantee, source, among)

    def moments(self, x: Any) -> Any:
        return self._plain.moments(x)


@pytest.fixture
def learner() -> Iterator[type[Mechanism]]:
    with dither.registry.restored():
        yield dither.registry.register(Learner)


def test_any_mechanism_may_learn(learner):
    schema = Schema({"job": Categorical(["a", "b", "c"])})
    made = dither.plan(schema, 1.0, users=4000, phases=2)
    plan = replace(made, parts=(made.parts[0]._replace(mechanism=learner(3, 1.0)),))
    jobs = people(4000)["job"]
    early = plan.tally(plan.randomize({"job": jobs[:1000]}, seed=1))
    later = plan.next(early)
    assert (
        later.parts[0].mechanism.fingerprint != plan.parts[0].mechanism.fingerprint
        or early.parts["histogram(job)"].counts.argmax() == 0
    )
    late = later.tally(later.randomize({"job": jobs[1000:]}, seed=2))
    found = later.estimate(late, earlier=[early])["histogram(job)"]
    assert found.n == 4000
    assert np.abs(found.value - [0.6, 0.3, 0.1]).max() < 0.15
    assert dither.Plan.from_json(later.to_json()) == later


def test_by_default_nothing_is_learned():
    mechanism = dither.GRR(k=3, epsilon=1.0)
    assert not mechanism.phased
    assert mechanism.after(mechanism.tally(mechanism.randomize([1], seed=1)), 10) is mechanism
    assert mechanism.learned_cuts() is None
    assert isinstance(mechanism.law, TwoLevel)
