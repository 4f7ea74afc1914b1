"""Whether honest reports can have made a tally: false alarms are rarer than stated, and some lies are found."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dither
from dither import Categorical, Numeric, Ordinal, Schema
from dither.core.honest_sums import HonestSums
from dither.core.mechanism import Mechanism
from dither.core.tally import Tally
from dither.errors import ParameterError, TallyError
from dither.page.html_page import html_page
from dither.utility import goodness
from dither.utility.goodness import goodness_of_sums
from dither.utility.influence import Influence

USERS = 100_000


def with_liars(mechanism: Mechanism, users: Any, lie: Any, liars: int) -> Tally:
    """Honest reports, and so many times one report."""
    honest = mechanism.tally(mechanism.randomize(users, seed=3))
    return honest + mechanism.tally(np.repeat(lie, liars))


def found(mechanism: Mechanism, users: Any, lie: Any, share: float) -> bool:
    liars = round(share * len(users))
    return not goodness(mechanism, with_liars(mechanism, users[liars:], lie, liars)).passed


ZEROS = np.zeros(USERS, dtype=int)
EVENLY = np.arange(USERS) % 8


def ones(k: int) -> tuple[Any, Any]:
    mechanism = dither.Unary(k=k, epsilon=1.0)
    return mechanism, mechanism.outputs()[[-1]]


@pytest.mark.parametrize("share", [0.0, 0.01])
def test_words_of_ones_show(share: float):
    """Each liar sends all ones: k ones, where an honest user sends 2.7 of 8 on average, whatever he holds."""
    mechanism, lie = ones(8)
    assert found(mechanism, EVENLY, lie, share) == (share > 0)


@pytest.mark.parametrize("share", [0.0, 0.01])
def test_the_code_of_all_categories_shows(share: float):
    """Code 0 is in the half of every category, so honest reports have it always as often."""
    mechanism = dither.Hadamard(k=100, epsilon=1.0)
    assert found(mechanism, np.arange(USERS) % 100, mechanism.outputs()[[0]], share) == (share > 0)


@pytest.mark.parametrize("share", [0.0, 0.01])
def test_a_dimension_that_was_not_drawn_so_often_shows(share: float):
    mechanism = dither.SampledDuchi(d=10, epsilon=1.0)
    assert found(mechanism, np.zeros((USERS, 10)), mechanism.outputs()[[-1]], share) == (share > 0)


@pytest.mark.parametrize("share", [0.0, 0.001])
def test_noise_that_never_reaches_so_far_shows(share: float):
    mechanism = dither.Laplace(epsilon=1.0)
    assert found(mechanism, np.zeros(USERS), mechanism.outputs()[[-1]], share) == (share > 0)


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_the_coin_of_the_branch_shows(share: float):
    """The window reaches farther than the sign, so liars take its branch."""
    mechanism = dither.Hybrid(epsilon=1.0)
    assert found(mechanism, np.zeros(USERS), mechanism.outputs()[[-1]], share) == (share > 0)


def test_what_many_may_hold_does_not_show():
    """One word of ten, by one liar in a hundred: as if 6% more users held it. Nobody can tell."""
    mechanism = dither.GRR(k=10, epsilon=1.0)
    assert not found(mechanism, ZEROS, mechanism.outputs()[[9]], 0.01)
    # But all liars on top of all users who hold it is more than there are users.
    assert found(mechanism, ZEROS, mechanism.outputs()[[0]], 0.05)


POPULATIONS = {"one": ZEROS[:4000], "half": np.arange(4000) % 2, "all": EVENLY[:4000]}


@pytest.mark.parametrize("population", list(POPULATIONS))
@pytest.mark.parametrize("name", ["GRR", "Unary", "SubsetSelection", "Hadamard", "LocalHash"])
def test_honest_reports_pass_at_the_level_that_is_stated(name: str, population: str):
    """A level of 1/10 is kept: of 60 collections 20 alarms would come with probability 2e-6 if it were just kept.

    In fact there are hardly any: the bounds of all sums are added up, and each holds for the worst population.
    """
    mechanism: Mechanism = getattr(dither, name)(k=8, epsilon=1.0)
    alarms = 0
    for seed in range(60):
        tally = mechanism.tally(mechanism.randomize(POPULATIONS[population], seed=seed))
        alarms += not goodness(mechanism, tally, false_alarm=0.1).passed
    assert alarms < 20


def test_bounds_that_are_too_tight_would_be_noticed(monkeypatch: pytest.MonkeyPatch):
    """With p a tenth too small, honest users who all hold one category are taken for liars."""
    mechanism = dither.GRR(k=8, epsilon=1.0)
    p, q = mechanism.reading.p, mechanism.reading.q
    tight = lambda self, tally: (HonestSums.of("", tally.counts, tally.n, float(q), 0.9 * float(p)),)  # noqa: E731
    monkeypatch.setattr(dither.GRR, "honest_sums", tight)
    with pytest.raises(AssertionError):
        test_honest_reports_pass_at_the_level_that_is_stated("GRR", "one")


def test_the_bound_is_above_the_exact_tail():
    """Of a binomial: Chernoff's bound is never below the probability that it bounds."""
    n = 50
    for chance in (0.01, 0.3, 0.5, 0.97):
        law = [math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(n + 1)]
        sums = HonestSums.of("", np.arange(n + 1), n, chance, chance)
        bound = np.exp(sums.log_chances())
        for count in range(n + 1):
            tail = sum(law[count:]) if count > n * chance else sum(law[: count + 1])
            assert bound[count] >= min(tail, 1.0) * (1 - 1e-9) or count == n * chance
    impossible = HonestSums.of("", [1.0, 0.0], 1.0, [0.0, 1.0], [0.0, 1.0])
    assert (impossible.log_chances() == -np.inf).all()
    assert HonestSums.of("", [0.0], 0.0, [0.2], [0.3]).log_chances() <= 0  # of no reports nothing is unlikely
    assert goodness_of_sums([HonestSums.of("", [0.0], 0.0, [0.2], [0.3])]).passed


def test_what_it_says():
    mechanism, lie = ones(8)
    honest = goodness(mechanism, with_liars(mechanism, EVENLY[:5000], lie, 0))
    assert honest.passed
    assert honest.p_value <= 1
    assert "Lies that stay within them are not ruled out" in repr(honest)
    forged = goodness(mechanism, with_liars(mechanism, EVENLY[:5000], lie, 1000))
    assert not forged.passed
    assert forged.p_value < 1e-6
    assert "Honest reports alone did not make this tally" in repr(forged)
    assert "ones in all words" in forged._repr_html_()
    assert forged.findings == tuple(sorted(forged.findings, key=lambda each: each.log_chance))
    with pytest.raises(ParameterError, match="false_alarm must lie between 0 and 1"):
        goodness(mechanism, with_liars(mechanism, EVENLY[:10], lie, 0), false_alarm=1.0)
    with pytest.raises(TallyError, match="another mechanism"):
        goodness(dither.GRR(k=3, epsilon=1.0), with_liars(mechanism, EVENLY[:10], lie, 0))
    assert "Nothing is known" in goodness_of_sums([]).explain()


@pytest.mark.parametrize("trials", [10**9, 10**15, 10**17, 2**64])
def test_rounding_makes_no_alarm_of_very_many_reports(trials):
    """Sums that are as they are expected, but for the last digit."""
    for chance in np.random.default_rng(1).random(200).tolist():
        seen = [float(trials * Fraction(chance)) * (1 + turn * 2.0**-53) for turn in (-1, 0, 1)]
        sums = HonestSums.of("", seen, trials, chance, chance)
        assert goodness_of_sums([sums], false_alarm=0.5).log_p == 0.0


SCHEMA = Schema({"age": Ordinal(0, 9), "income": Numeric(0, 10), "job": Categorical(["nurse", "driver", "other"])})


def collected(liars: int) -> tuple[dither.Plan, Any]:
    """20,000 honest users, and some who answer mean(income) without having drawn it."""
    plan = dither.plan(SCHEMA, 1.0, users=20_000)
    table = {"age": [4] * 20_000, "income": [10.0] * 20_000, "job": ["nurse"] * 20_000}
    reports = {name: np.asarray(rows) for name, rows in plan.randomize(table, seed=1).items()}
    (part,) = (part for part in plan.parts if part.name == "mean(income)")
    reports[part.name] = np.concatenate([reports[part.name], np.repeat(part.mechanism.outputs()[[-1]], liars)])
    return plan, plan.tally(reports)


def test_a_plan_knows_how_often_its_questions_are_drawn():
    plan, tally = collected(0)
    assert plan.goodness(tally).passed
    plan, tally = collected(1000)
    judged_ = plan.goodness(tally)
    assert not judged_.passed
    assert "mean(income): reports about it" in {finding.what for finding in judged_.findings}
    with pytest.raises(TallyError, match="another plan"):
        dither.plan(SCHEMA, 2.0, users=20_000).goodness(tally)


def test_who_answers_all_questions_answers_each_as_often():
    """Liars who send all their reports about one question; and honest reports of which a half is lost on the way.

    Of honest ones it fails with probability 1e-6 at most.
    """
    plan = dither.plan(SCHEMA, 6.0, users=20_000, ask=["mean(income)", "histogram(job)"])
    count = len(plan.parts)
    assert plan.questions_per_user == count > 1
    table = {"income": [5.0] * 19_000, "job": ["nurse"] * 19_000}
    reports = {name: np.asarray(rows) for name, rows in plan.randomize(table, seed=1).items()}
    assert plan.goodness(plan.tally(reports)).passed
    kept = np.random.default_rng(1).random((count, 19_000)) < 0.5
    lossy = {name: rows[keep] for (name, rows), keep in zip(reports.items(), kept, strict=True)}
    assert plan.goodness(plan.tally(lossy)).passed
    (part,) = (part for part in plan.parts if part.name == "mean(income)")
    lies = part.mechanism.randomize(np.zeros(1000 * count), seed=2)  # which honest devices might send, but not so many
    reports[part.name] = np.concatenate([reports[part.name], np.asarray(lies)])
    judged_ = plan.goodness(plan.tally(reports))
    assert {finding.what for finding in judged_.findings} == {f"{name}: reports about it" for name in reports}


def test_the_page_tells_if_it_fails_only():
    plan, tally = collected(1000)
    estimates = plan.estimate(tally)
    assert "Not all of these reports are honest" in html_page(plan, estimates, goodness=plan.goodness(tally))
    plan, tally = collected(0)
    assert "Not all of these" not in html_page(plan, plan.estimate(tally), goodness=plan.goodness(tally))
    assert "moved by 1% of liars" in html_page(plan, plan.estimate(tally))


def test_names_are_escaped_in_notebooks():
    name = "<img src=x onerror=alert`1`>"
    plan = dither.plan(Schema({name: Categorical(["a", "b"])}), 1.0, users=1000)
    lies = plan.parts[0].mechanism.outputs()[[0] * 1000]
    judged_ = plan.goodness(plan.tally({plan.parts[0].name: lies}))
    assert name in judged_.explain()
    unknown = Influence(name, (), Fraction(1, 100))
    for shown in (judged_._repr_html_(), unknown._repr_html_(), plan.influence()._repr_html_()):
        assert "&lt;img" in shown
        assert "<img" not in shown
