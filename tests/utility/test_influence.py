"""What one report can do, and what liars can: closed forms against enumeration, and against forged collections."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.core.channel import TwoLevel
from dither.core.estimate import Estimate
from dither.core.mechanism import Mechanism, Moments
from dither.core.tally import Tally
from dither.core.worth import Worth
from dither.errors import ParameterError
from dither.learn import VectorReporter
from dither.learn.federated import LDPVec
from dither.mechanisms.frequency import Frequencies
from dither.mechanisms.grr import GRR
from dither.testing import check_influence, check_mechanism
from dither.utility import influence

ONE_PERCENT, FIVE = Fraction(1, 100), Fraction(1, 20)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """What is registered is so for one test."""
    with dither.registry.restored():
        yield


# The figures --------------------------------------------------------------------------------------------------------


def test_known_figures_at_epsilon_one():
    """The most that one report adds to any of its numbers, in units of 1/n for the n reports about that number."""
    pckv = influence(dither.PCKV_GRR(d=100, s=5, epsilon=1.0))
    assert max(float(worth.most) for worth in pckv.worths) == pytest.approx(590, abs=0.5)
    collision = influence(dither.Collision(d=100, s=5, epsilon=1.0))
    assert max(float(worth.most) for worth in collision.worths) == pytest.approx(46, abs=0.5)
    (sampled,) = influence(dither.SampledDuchi(d=100, epsilon=1.0)).worths
    assert float(sampled.most) == pytest.approx(2.164, abs=1e-3)
    assert sampled.asked == Fraction(1, 100)  # of all n, a liar who chooses his dimension moves a hundred times that
    assert sampled.movement() == 100 * sampled.swing


def test_exact_from_the_integers():
    mechanism = dither.GRR(k=10, epsilon=1.0)
    (worth,) = influence(mechanism).worths
    high, low = (int(weight) for weight in mechanism.weights or ())
    assert worth.most == Fraction(high + 9 * low - low, high - low)
    assert worth.least == Fraction(-low, high - low)
    assert worth.swing == Fraction(high + 9 * low, high - low)


def test_the_formula_of_the_page():
    worth = Worth("frequency", Fraction(-1, 2), Fraction(6))
    assert worth.shifted(Fraction(1, 100), ONE_PERCENT) == (
        Fraction(99, 100) * Fraction(1, 100) - Fraction(1, 200),
        Fraction(99, 100) * Fraction(1, 100) + Fraction(6, 100),
    )
    assert worth.shift(ONE_PERCENT) == (Fraction(-15, 1000), Fraction(6, 100))
    some = worth.asked_of(Fraction(1, 10))
    assert some.liars_among(ONE_PERCENT) == Fraction(10, 109)  # of 109 reports about it in 1,000 users, 10 are lies
    assert worth.liars_among(Fraction(0)) == 0
    moved = worth.scaled(Fraction(50), Fraction(100))
    assert (moved.least, moved.most, moved.low, moved.high) == (75, 400, 100, 150)


def forged(name: str) -> tuple[Mechanism, Any, Any]:
    """A mechanism, honest users who hold nothing of what is attacked, and the report that the liars send."""
    if name == "GRR":
        mechanism = dither.GRR(k=50, epsilon=1.0)
        return mechanism, np.zeros(38_000, dtype=int), mechanism.outputs()[[49]]
    if name == "Unary":
        mechanism = dither.Unary(k=8, epsilon=1.0)
        return mechanism, np.zeros(38_000, dtype=int), mechanism.outputs()[[-1]]
    if name == "Piecewise":
        mechanism = dither.Piecewise(1.0)
        return mechanism, np.full(38_000, -1.0), mechanism.outputs()[[-1]]
    mechanism = dither.SampledDuchi(d=4, epsilon=1.0)
    return mechanism, np.full((38_000, 4), -1.0), mechanism.outputs()[[-1]]  # dimension 3, plus


@pytest.mark.parametrize("name", ["GRR", "Unary", "Piecewise", "SampledDuchi"])
def test_liars_move_an_estimate_by_what_is_stated(name: str):
    """One user in twenty lies. A false alarm is six standard errors: 2e-9 each."""
    mechanism, users, lie = forged(name)
    honest = mechanism.tally(mechanism.randomize(users, seed=5))
    tally = honest + mechanism.tally(np.repeat(lie, 2000))
    estimate = mechanism.estimate(tally)
    value, error = np.ravel(estimate.value)[-1], np.ravel(estimate.stderr)[-1]
    (worth,) = influence(mechanism, 0.05).worths
    _, up = worth.shift(FIVE)
    assert float(up) > 6 * error  # it shows
    assert abs(value - (float(worth.low) + float(up))) < 6 * error


def test_a_wrong_worth_would_be_noticed(monkeypatch: pytest.MonkeyPatch):
    right = dither.GRR(k=50, epsilon=1.0).report_worth()
    wrong = right[0]._replace(most=right[0].most * Fraction(4, 5))
    monkeypatch.setattr(GRR, "report_worth", lambda self: (wrong,))
    with pytest.raises(AssertionError):
        test_liars_move_an_estimate_by_what_is_stated("GRR")


@pytest.mark.parametrize(("name", "lie"), [("Unary", -1), ("Hadamard", 0)])
def test_projection_takes_off_what_is_done_to_all_categories(name: str, lie: int):
    """5% of liars push all categories at once. Where nobody lies the projection costs nothing, either."""
    mechanism: Any = getattr(dither, name)(k=16, epsilon=1.0) if name == "Hadamard" else dither.Unary(k=12, epsilon=1.0)
    users = np.minimum(np.arange(38_000) % 31, mechanism.k - 1)
    truth = np.bincount(users, minlength=mechanism.k) / len(users)
    honest = mechanism.tally(mechanism.randomize(users, seed=5))
    forged = honest + mechanism.tally(np.repeat(mechanism.outputs()[[lie]], 2000))

    def missed(tally: Tally, refine: str | None) -> float:
        estimate = mechanism.estimate(tally)
        return float(np.abs((estimate if refine is None else estimate.refine(refine)).value - truth).sum())

    assert missed(honest, "simplex") < 1.05 * missed(honest, None)
    assert missed(forged, None) > 5 * missed(honest, None)
    assert missed(forged, "simplex") < 2 * missed(honest, None)


# The contract -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Modest(GRR):
    """It says that a report is worth less than it is."""

    def report_worth(self) -> tuple[Worth, ...]:
        (worth,) = super().report_worth()
        return (worth._replace(most=worth.most * Fraction(999, 1000)),)


@dataclass(frozen=True)
class Boastful(GRR):
    """It says that a report is worth more than it is."""

    def report_worth(self) -> tuple[Worth, ...]:
        (worth,) = super().report_worth()
        return (worth._replace(least=worth.least * Fraction(1001, 1000)),)


@pytest.mark.parametrize("mutant", [Modest, Boastful])
def test_mistakes_are_found(mutant: Any):
    dither.registry.register(mutant)
    with pytest.raises(AssertionError, match="does not keep the contract, influence"):
        check_mechanism(mutant, only=["influence"])


def test_a_box_of_a_hierarchy():
    """Boxes are read by queries: an answer about one is what its group's reports say, which liars choose."""
    mechanism = dither.HIO(shape=(2, 3), epsilon=1.0, n=1000, branching=2, cohorts=4)
    (worth,) = influence(mechanism).worths
    answers = [_first_half(mechanism, report) for report in mechanism.outputs()]
    told = [answer for answer in answers if np.isfinite(answer)]
    assert max(told) == pytest.approx(float(worth.most))
    assert min(told) == pytest.approx(float(worth.least))
    assert worth.asked == Fraction(1, mechanism.boxes.groups)


def _first_half(mechanism: Any, report: Any) -> float:
    """What one report says about the first value of the first attribute; nothing, if it is of another group."""
    group = mechanism.boxes.group((1, 0))
    if report["function"] // mechanism.cohorts != group:
        return np.nan
    counts = mechanism.tally(report).counts.reshape(mechanism.boxes.groups, mechanism.cohorts, -1)[group]
    from dither.ranges.hio import box_buckets

    function = int(report["function"])
    bucket = box_buckets(mechanism.functions.seed(function), np.array([0], dtype=np.uint64), mechanism.law.outputs)
    support = counts[function % mechanism.cohorts, int(bucket[0])]
    plain = mechanism.reading.plain
    return float((support - plain.q) / (plain.p - plain.q))


# Mechanisms of others -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Silent(Mechanism[Estimate]):
    """A sign that does not say what it is worth."""

    k: int
    epsilon: float
    weights: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    family = "categorical"
    examples = ({"k": 4, "epsilon": 1.0},)

    def _validate(self) -> None:
        pass

    @cached_property
    def law(self) -> TwoLevel:
        return TwoLevel.fit(self.epsilon, favoured=1, outputs=self.k, weights=self.weights)

    @cached_property
    def reading(self) -> Any:
        return Frequencies(self.k, self.law.inside, (1 - self.law.inside) / (self.k - 1))

    def channel(self) -> TwoLevel:
        return self.law

    def _fill(self, reports: Any, values: Any, tape: Any, rows: Any) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class _Squares(Frequencies):
    """No average over reports."""

    def value(self, tally: Tally) -> Any:
        return super().value(tally) ** 2


@dataclass(frozen=True)
class Crooked(Silent):
    """Its estimate is no average over reports."""

    @cached_property
    def reading(self) -> Any:
        return _Squares(self.k, self.law.inside, (1 - self.law.inside) / (self.k - 1))


def test_one_that_does_not_say_is_listed():
    listed, declared = influence(Silent(k=4, epsilon=1.0)).worths, dither.GRR(k=4, epsilon=1.0).report_worth()
    assert [worth.question for worth in listed] == ["frequency"]
    assert float(listed[0].most) == pytest.approx(float(declared[0].most), rel=1e-12)
    assert float(listed[0].least) == pytest.approx(float(declared[0].least), rel=1e-12)
    assert (listed[0].low, listed[0].high, listed[0].items) == (0, 1, 4)


@pytest.mark.parametrize("mechanism", [Silent(k=1 << 13, epsilon=1.0), Crooked(k=4, epsilon=1.0)])
def test_what_is_not_known_is_said(mechanism: Mechanism):
    found = influence(mechanism)
    assert found.worths == ()
    assert "it is not known what a report is worth" in repr(found)
    assert "it is not known" in found._repr_html_()
    with pytest.raises(ParameterError, match="it is not known what a report is worth"):
        _ = found.worst
    assert not check_influence(mechanism)


# Carriers of vectors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Hypercube", "SampledDuchi", "BallGaussian", "Collision(s=2)"])
def test_carriers_of_vectors(name: str):
    reporter = VectorReporter(name, d=6, epsilon=2.0, delta=1e-3 if name == "BallGaussian" else 0.0, clip=3.0)
    (worth,) = influence(reporter).worths
    own = next(each for each in reporter.mechanism.report_worth() or () if each.question == "mean")
    assert worth.most == own.most * Fraction(reporter.scale)
    assert (worth.low, worth.high) == (-Fraction(reporter.scale), Fraction(reporter.scale))


def test_directions_are_never_longer_than_the_clip():
    carrier = LDPVec(d=5, epsilon=2.0, clip=2.0)
    (worth,) = influence(carrier).worths
    reports = carrier.randomize(np.ones((200, 5)), seed=1)
    single = np.array([carrier.estimate(carrier.tally(reports[[row]])).value for row in range(200)])
    assert single.max() <= float(worth.most) + 1e-9
    assert single.min() >= float(worth.least) - 1e-9


# Plans --------------------------------------------------------------------------------------------------------------

SCHEMA = Schema(
    {
        "age": Ordinal(0, 99),
        "income": Numeric(0, 200_000),
        "job": Categorical(["nurse", "driver", "other"]),
        "films": KeyValue(keys=64, size=4, low=1, high=5),
    }
)


@pytest.fixture(scope="module")
def plan() -> dither.Plan:
    return dither.plan(SCHEMA, 1.0, users=100_000)


def test_a_plan_states_it_in_the_units_of_its_questions(plan: dither.Plan):
    found = plan.influence(0.01)
    assert [worth.question for worth in found.worths] == [str(question) for question in plan.questions]
    worth = found.of("mean(income)")
    assert (worth.low, worth.high) == (0, 200_000)
    (part,) = (part for part in plan.parts if part.name == "mean(income)")
    own = influence(part.mechanism).of("mean")
    assert worth.swing == own.swing * 100_000
    total = sum(each.weight for each in plan.parts)
    assert worth.asked == Fraction(plan.questions_per_user * part.weight, total)
    keys = found.of("mean(films)")
    assert (keys.low, keys.high, keys.items) == (1, 5, 64)
    with pytest.raises(ParameterError, match=r"there is no such question; there are distribution\(age\)"):
        found.of("mean(wealth)")


def test_liars_in_a_plan():
    """One user in twenty answers mean(income) with the largest report. Six standard errors: 2e-9."""
    plan = dither.plan(Schema({name: SCHEMA[name] for name in ("age", "income", "job")}), 1.0, users=100_000)
    users = 57_000
    honest = plan.randomize({"age": [40] * users, "income": [0.0] * users, "job": ["nurse"] * users}, seed=2)
    (part,) = (part for part in plan.parts if part.name == "mean(income)")
    reports = {name: np.asarray(rows) for name, rows in honest.items()}
    lies = np.repeat(part.mechanism.outputs()[[-1]], users // 19)
    reports["mean(income)"] = np.concatenate([reports["mean(income)"], lies])
    estimate = plan.estimate(plan.tally(reports)).single("mean(income)")
    _, up = plan.influence().of("mean(income)").shift(FIVE)
    assert float(up) > 6 * float(estimate.stderr)
    assert abs(float(estimate.value) - float(up)) < 6 * float(estimate.stderr)


def test_it_is_told_and_shown(plan: dither.Plan):
    assert "Liars: 1% of the users could move " in plan.explain()
    assert "moved by 5% of liars" in plan.table(liars=0.05).columns
    assert list(plan.table().columns) == ["question", "mechanism", "epsilon", "users", "predicted error"]
    found = plan.influence(0.02)
    assert "2% of liars, up" in str(found)
    assert "A conditional mean is a ratio" in found.explain()
    moved = plan.table(liars=0.05).columns["moved by 5% of liars"]
    assert moved == [float(worth.worst_shift(Fraction(1, 20))) for worth in plan.influence(0.05).worths]


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan"), "a tenth", None])
def test_a_share_is_a_share(share: Any, plan: dither.Plan):
    with pytest.raises(ParameterError, match="share must be"):
        influence(dither.GRR(k=3, epsilon=1.0), share)
    with pytest.raises(ParameterError, match="share must be"):
        plan.influence(share)


def test_ranges_are_about_cells():
    plan = dither.plan(SCHEMA, 1.0, users=100_000, ask=["ranges(age, income, job)"])
    (worth,) = plan.influence().worths
    assert (worth.low, worth.high) == (0, 1)
    assert 0 < worth.asked < 1
    assert "An answer adds up cells" in plan.influence().explain() or "no average of reports" in worth.note


def test_moments_are_what_reports_are_worth_on_average():
    """The least and the most are those of the scores whose mean is the truth: an honest report cannot be beyond."""
    for mechanism in (dither.Piecewise(1.0), dither.Hybrid(1.0), dither.Laplace(1.0)):
        (worth,) = influence(mechanism).worths
        reading: Any = mechanism.reading
        assert float(worth.most) == pytest.approx(reading.scores.max(), rel=1e-12)
        assert float(worth.least) == pytest.approx(reading.scores.min(), rel=1e-12)
        assert isinstance(mechanism.moments([0.0]), Moments)


# What is beyond the figures, and said to be -------------------------------------------------------------------------


def test_a_refined_number_is_moved_by_lies_about_others():
    """Words of ones but for one category: on the simplex it falls farther than the figure for what is read.

    Not farther than both figures together: the same is taken off all shares, and that moves within them, too.
    """
    mechanism, users = dither.Unary(k=10, epsilon=1.0), 40_000
    liars = users // 20
    values = np.where(np.arange(users - liars) % 2 == 0, 0, 1 + np.arange(users - liars) % 9)
    honest = mechanism.tally(mechanism.randomize(values, seed=1))
    supports = [mechanism.tally(report).counts for report in mechanism.outputs()]
    (word,) = np.flatnonzero([counts[0] == 0 and counts.sum() == 9 for counts in supports])
    forged = mechanism.tally(np.repeat(mechanism.outputs()[[word]], liars))
    before, after = (mechanism.estimate(tally) for tally in (honest, honest + forged))
    found = influence(mechanism, share=0.05)
    down, up = map(float, found.worths[0].shift(found.share))
    refined = [estimate.refine("simplex").value[0] for estimate in (before, after)]
    near = 1e-9  # the same honest reports: no noise between the two
    assert down - near <= after.value[0] - before.value[0] <= up + near
    assert refined[1] - refined[0] < down - 0.05
    assert refined[1] - refined[0] >= down - up - near


def test_shared_hash_functions_say_that_a_report_may_tip_the_reading():
    """Reports are added one by one: some move an estimate by more than the figures, and the note says so."""
    mechanism = dither.LocalHash(k=17, epsilon=1.0, cohorts=10)
    (worth,) = influence(mechanism).worths
    reports = mechanism.randomize(np.where(np.arange(1200) % 3 == 0, 0, np.arange(1200) % 17), seed=4)
    tally, moved = mechanism.tally(reports[:300].copy()), []
    last = mechanism.estimate(tally).value
    for n in range(301, 1201):
        tally = tally + mechanism.tally(reports[n - 1 : n].copy())
        now = mechanism.estimate(tally).value
        moved.append(float(np.abs(n * now - (n - 1) * last).max()))
        last = now
    most = float(max(worth.most, -worth.least))
    assert np.median(moved) <= most
    assert max(moved) > most
    assert not worth.exact
    assert "tips the scale" in worth.note
    assert "tips the scale" in dither.LocalHash(k=1000, epsilon=1.0, cohorts=10).report_worth()[0].note


def test_a_biased_mean_says_that_lies_do_not_shrink():
    """All honest devices hold the same vector of length 1, and its estimate is a small part of that.

    It is .05 on average, with a standard error of .022: beyond .2 with a probability below 1e-6.
    """
    mechanism = LDPVec(d=10, epsilon=1.0)
    (worth,) = influence(mechanism).worths
    vectors = np.zeros((2000, 10))
    vectors[:, 0] = 1.0
    honest = mechanism.estimate(mechanism.tally(mechanism.randomize(vectors, seed=1))).value[0]
    assert honest < 0.2 < float(worth.high)
    assert "Noise shrinks what honest reports say" in worth.note
