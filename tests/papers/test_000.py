"""000 and chapter 4 of 001: worked examples to all digits, the law against reports, and judges that can fail."""

import math
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

import dither
from dither.reproduce import papers
from dither.reproduce.measured import Measured, Row
from dither.utility import deviation

PAPER = papers.load_paper("000")
framework = import_module("dither_papers.framework")
recalibration = import_module("dither_papers.recalibration")
data = import_module("dither_papers.recalibration_data")
printed = import_module("dither_papers.recalibration_as_printed")
chapter4 = import_module("dither_papers.001.chapter4")
chapter4_experiments = import_module("dither_papers.001.chapter4_experiments")


def measured(experiment, **only) -> Measured:
    """All settings of an experiment that takes no time."""
    chosen = [each for each in experiment.settings if all(each.get(name) == value for name, value in only.items())]
    numbers = [
        each._replace(where={**setting, **each.where})
        for setting in chosen
        for each in experiment.measure({**setting, **experiment.size.get("smoke", {})}, 1)
    ]
    return Measured.of(numbers)


def altered(found: Measured, factor: float, **where) -> Measured:
    """The same numbers with some of them changed."""
    rows = [
        row._replace(value=row.value * factor) if where.items() <= dict(row.where).items() else row
        for row in found.rows
    ]
    return Measured(tuple(rows))


def verdict(paper_claims, name: str, *found: Measured) -> str:
    claim = next(each for each in paper_claims if each.name == name)
    return claim.judge(*found).outcome


def test_all_claims_and_entries_are_there():
    assert [claim.name for claim in PAPER.claims] == [f"000.claim{place}" for place in range(1, 22)]
    numbers = [*range(1, 13), 40]
    assert [claim.name for claim in chapter4.CLAIMS] == [f"001.claim{place}" for place in numbers]
    names = {"case", "tab2", "ex_be", "fig2", "fig3", "fig4", "fig5", "freq"}
    assert {f"000.{name}" for name in names} <= {entry.name for entry in PAPER.figures}
    fours = {"case4", "case4b", "tab4.2", "ex_be4", "alg3", "sup4", *(f"fig4.{place}" for place in range(3, 9))}
    assert {f"001.{name}" for name in fours} == {entry.name for entry in chapter4.FIGURES}


# Worked examples -----------------------------------------------------------------------------------------------------


def test_case_study_of_000():
    laws = framework.case_laws(0.001)
    assert float(laws["Piecewise"].variance) == pytest.approx(533.2104, abs=5e-5)
    assert float(laws["Square wave"].bias) == pytest.approx(-0.049975, abs=5e-7)
    assert float(laws["Square wave"].variance) == pytest.approx(3.3303e-5, rel=2e-5)
    within = [laws["Square wave"].within(xi) for xi in framework.TOLERANCES]
    assert within == pytest.approx([1.01e-17, 2.15e-12, 0.502, 1.0], rel=5e-3)
    assert [laws["Piecewise"].within(xi) for xi in framework.TOLERANCES] == pytest.approx(
        [3.455e-5, 3.455e-4, 0.00173, 0.00346], rel=2e-3
    )
    for name in ("Piecewise", "Square wave"):  # the integers that are sampled are those of the formula
        assert float(laws[f"{name}, dither"].variance) == pytest.approx(float(laws[name].variance), rel=1e-3)


def test_case_study_of_001_and_its_four_break_even_numbers():
    laws = framework.case_laws(1.0)
    assert 1e4 * float(laws["Square wave"].variance) == pytest.approx(0.14826, abs=5e-6)
    assert float(laws["Square wave"].bias) == pytest.approx(-0.031606, abs=5e-7)
    assert laws["Square wave"].mse == pytest.approx(1.0138e-3, abs=5e-8)
    assert 1e4 * float(laws["Piecewise"].variance) == pytest.approx(4.2756, abs=5e-5)
    assert printed.piecewise_variance(1.0, framework.VALUES) == pytest.approx(27.08, abs=5e-3)
    found = measured(chapter4_experiments.BREAK_EVEN).select(quantity=chapter4_experiments.THRESHOLD)
    assert found.value(pair=chapter4_experiments.MIXED) == pytest.approx(4132, abs=1)
    assert found.value(pair=chapter4_experiments.UNIT) == 905
    assert found.value(pair=chapter4_experiments.WHOLE) == 31
    assert found.value(pair=chapter4_experiments.AS_PRINTED) == pytest.approx(26_960, rel=2e-4)


def test_supremum_of_001():
    found = measured(chapter4_experiments.SUPREMUM)
    assert found.value(rule="right", quantity="xi") == pytest.approx(0.0379, abs=5e-5)
    assert found.value(rule="right", quantity="coverage") == pytest.approx(0.95, abs=1e-6)
    assert found.value(rule="as printed", quantity="xi") == pytest.approx(-0.0241, abs=5e-5)


def test_berry_esseen_by_both_third_moments():
    found = measured(framework.berry_esseen_experiment("any"), mechanism="Laplace").select(reports=1000)
    assert found.value(line=framework.PRINTED) == pytest.approx(0.01566, abs=5e-6)
    assert found.value(line=framework.BOUND) == pytest.approx(0.0269, abs=5e-5)
    assert found.value(line=framework.BOUND) == pytest.approx(
        deviation(dither.Laplace(1.0), [0.0], reports=1000).normal_error, rel=2e-3
    )


def test_distance_of_two_uniforms_is_that_of_the_triangle():
    """Of two uniform variables the distribution function is known: a square on either side."""
    stats = pytest.importorskip("scipy.stats")
    x = np.linspace(-3, 3, 20_001)
    scale = math.sqrt(1 / 6)
    triangle = stats.triang.cdf(x * scale + 1, 0.5, scale=2)
    exact = np.max(np.abs(triangle - stats.norm.cdf(x)))
    # the tail of so few terms' characteristic function is cut: to a thousandth
    assert framework.distance(framework.Density(((0.0, 1.0, 1.0),)), 2) == pytest.approx(exact, abs=1e-3)


# As printed ----------------------------------------------------------------------------------------------------------


def test_the_printed_weight_gives_the_mean_away():
    for mean in (-0.7, 1e-6, 0.25, 1.0):
        shrunk = printed.known_mean_l2(np.array([1.9]), np.array([3.0]), np.array([mean]))
        assert printed.mean_given_away(1.9, float(shrunk[0]), 3.0) == pytest.approx(abs(mean), rel=1e-9)


def test_the_signed_weight_changes_the_sign_of_an_estimate():
    found = printed.signed_l2(np.array([2.0]), np.array([3.0]), np.array([-0.5]))
    assert found[0] == pytest.approx(-0.4)


# The law instead of reports ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["Laplace", "Piecewise", "SquareWave"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_the_law_is_that_of_the_framework(mechanism, epsilon):
    rows = np.concatenate(list(data.blocks("Gaussian", 2000))).astype(np.float64)
    users = data.columns("Gaussian", 2000)
    found = recalibration.law(mechanism, 100 * epsilon, users)
    estimator = "naive" if mechanism == "SquareWave" else "calibrated"
    exact = deviation(dither.Split(mechanism, d=100, epsilon=100 * epsilon), rows, reports=2000, estimator=estimator)
    assert found.bias == pytest.approx(exact.bias, abs=1e-6)
    assert found.stderr == pytest.approx(exact.stderr, rel=2e-3)


def test_the_law_of_few_dimensions_counts_who_was_asked():
    rows = np.concatenate(list(data.blocks("Uniform", 2000))).astype(np.float64)
    exact = deviation(dither.Sampled("Piecewise", d=500, m=1, epsilon=8.0), rows, reports=2000)
    found = recalibration.law("Piecewise", 8.0, data.columns("Uniform", 2000), 1)
    assert found.stderr == pytest.approx(exact.stderr, rel=2e-3)


@pytest.mark.parametrize("mechanism", ["Laplace", "Piecewise", "SquareWave"])
def test_reports_have_the_law_that_is_drawn_from(mechanism):
    """The squares of 100 standardised deviations are a chi-squared variable of 100 degrees: 6.5 standard deviations
    off with a probability of 1e-7.
    """
    epsilon, users = 20.0, data.columns("Gaussian", 3000)
    split = dither.Split(mechanism, d=100, epsilon=epsilon)
    rows = np.concatenate(list(data.blocks("Gaussian", 3000)))
    tally = split.tally(split.randomize(rows, seed=7))
    estimate = split.estimate(tally, split.naive) if mechanism == "SquareWave" else split.estimate(tally)
    found = recalibration.law(mechanism, epsilon, users)
    z = (np.asarray(estimate.value) - users.mean - found.bias) / found.stderr
    assert abs(np.sum(z**2) - 100) < 6.5 * math.sqrt(200)


def test_recalibration_is_that_of_dither():
    users = data.columns("Gaussian", 3000)
    rows = np.concatenate(list(data.blocks("Gaussian", 3000)))
    split = dither.Split("Laplace", d=100, epsilon=20.0)
    estimate = split.estimate(split.tally(split.randomize(rows, seed=8)))
    law = recalibration.Law(np.zeros(100), np.asarray(estimate.stderr), 1.0)
    ours = recalibration.recalibrated(np.asarray(estimate.value), law, users.mean)
    for line, penalty in (("L1", "l1"), ("L2", "l2"), ("HDR4ME*", "adaptive")):
        assert ours[line] == pytest.approx(np.asarray(estimate.refine("hdr4me", penalty=penalty).value), abs=1e-9)


def test_personalised_law_is_that_of_dither():
    groups, values, names = {}, [], []
    for place, group in enumerate(chapter4_experiments.subgroups()):
        low = min(0.0, 2 * group.centre)
        groups[str(place)] = (group.epsilon, low, low + 1)
        values.append(group.values)
        names.append(np.full(len(group.values), str(place)))
    users = {"value": np.concatenate(values), "group": np.concatenate(names)}
    for name in ("Laplace", "Piecewise"):
        exact = deviation(dither.Personalised(name, groups), users, reports=10_000)
        bias, stderr = chapter4_experiments.personalised_law(name)
        assert bias == pytest.approx(float(exact.bias), abs=1e-9)
        assert stderr == pytest.approx(float(exact.stderr), rel=1e-9)


def test_users_are_the_same_again_and_within_the_domain():
    for name in ("Gaussian", "Poisson", "Uniform", "Factors"):
        once, again = (np.concatenate(list(data.blocks(name, 300))) for _ in range(2))
        assert (once == again).all()
        assert once.min() >= -1
        assert once.max() <= 1
        assert once.shape == (300, data.SHAPES[name][1])
    assert len(data.dimensions("Factors", 1600)) == 1600
    assert sorted(data.dimensions("Factors", 750)) == list(range(750))


# Judges --------------------------------------------------------------------------------------------------------------


def test_judges_of_worked_examples_can_change_their_minds():
    case = measured(next(each for each in PAPER.experiments if each.name == "000.case_study"))
    assert verdict(PAPER.claims, "000.claim4", case) == "holds after correction"
    assert verdict(PAPER.claims, "000.claim5", case) == "holds"
    turned = altered(case, 1e-3, mechanism="Square wave", tolerance=0.05)
    assert verdict(PAPER.claims, "000.claim5", turned) == "refuted"
    bound = measured(next(each for each in PAPER.experiments if each.name == "000.berry_esseen"))
    assert verdict(PAPER.claims, "000.claim6", bound) == "holds after correction"
    assert verdict(PAPER.claims, "000.claim6", altered(bound, 1e3, line=framework.TRUE)) == "refuted"


def test_judges_of_lemmas_and_theorems_can_change_their_minds():
    lemmas = measured(next(each for each in PAPER.experiments if each.name == "000.lemmas"))
    assert verdict(PAPER.claims, "000.claim8", lemmas) == "holds"
    assert verdict(PAPER.claims, "000.claim9", lemmas) == "holds after correction"
    failing = Measured((*lemmas.rows, Row({"beyond": 1.0, "line": "L1", "where": "elsewhere"}, 0.5, math.nan, 1)))
    assert verdict(PAPER.claims, "000.claim8", failing) == "refuted"
    theorems = measured(next(each for each in PAPER.experiments if each.name == "000.theorems"))
    assert verdict(PAPER.claims, "000.claim10", theorems) == "refuted"
    assert verdict(PAPER.claims, "000.claim10", altered(theorems, 0.0, quantity="claimed")) == "holds"
    assert verdict(PAPER.claims, "000.claim21", theorems) == "holds"
    assert (
        verdict(PAPER.claims, "000.claim21", altered(theorems, 0.1, quantity="error, times that before")) == "refuted"
    )


def test_judges_of_chapter_4_can_change_their_minds():
    pairs = measured(chapter4_experiments.BREAK_EVEN)
    assert verdict(chapter4.CLAIMS, "001.claim5", pairs) == "refuted"
    assert verdict(chapter4.CLAIMS, "001.claim6", pairs) == "refuted"
    agreeing = [
        row._replace(value=pairs.value(pair=row.where["pair"], quantity=chapter4_experiments.BY_ERROR))
        if row.where["quantity"] == chapter4_experiments.BY_RULE
        else row
        for row in pairs.rows
    ]
    assert verdict(chapter4.CLAIMS, "001.claim6", replace(pairs, rows=tuple(agreeing))) == "holds"
    weights = measured(chapter4_experiments.L2_BY_MEAN)
    assert verdict(chapter4.CLAIMS, "001.claim9", weights) == "refuted"
    assert verdict(chapter4.CLAIMS, "001.claim9", Measured(weights.rows[1:])) == "holds"
