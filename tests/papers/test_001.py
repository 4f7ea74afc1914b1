"""001 chapters 5 and 6: worked examples, what the printed forms really promise, and judges that can be wrong."""

import math
from importlib import import_module

import numpy as np
import pytest

from dither.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon
from dither.reproduce import papers
from dither.reproduce.fingerprints import PACKAGE
from dither.reproduce.measured import Measured, Row, measured_value

papers.load_paper("002")  # makes the package of all papers known


def module(name: str):
    return import_module(f"{PACKAGE}.001.{name}")


printed, vec = module("as_printed"), module("as_printed_ldpvec")


def by_name(found) -> dict[str, float]:
    return {each.where["quantity"]: each.value for each in found}


# Worked examples ------------------------------------------------------------------------------------------------------


def test_the_worked_examples():
    found = {(each.where["example"], each.where["case"], each.where["column"]): each.value for each in
             module("step_analysis").examples({}, 0)}  # fmt: skip
    for clip in ("C = 2", "C = 1"):
        assert found["ex1", clip, "noisy direction"] == pytest.approx(math.atan2(3**0.5 + 0.15, 1.3))
        assert round(found["ex1", clip, "noisy direction"], 4) == 0.9663
    assert found["ex3", "g_1 = (1, 1)", "noisy direction"] == 0
    assert found["ex3", "g_2 = (2, 2)", "noisy direction"] == pytest.approx(math.atan2(1, 4))
    turned = [found["ex2", f"noise .1 on g_{place}", "turn of angle 1"] for place in (1, 2, 3)]
    assert turned[0] < 0 < turned[1] == pytest.approx(turned[2])  # noise of all three coordinates


def test_the_case_study_and_the_numbers_of_parameters():
    found = {(each.where["mechanism"], each.where["column"]): each.value for each in
             module("federated_analysis").case_study({}, 0)}  # fmt: skip
    assert found["Laplace", "by its equation"] == pytest.approx(154_796, abs=1)
    assert found["Gaussian", "right, ε = .1 a report"] == pytest.approx(2.052, abs=1e-3)
    counted = {(each.where["table"], each.where["layer"]): each.value for each in
               module("federated_networks").parameters({}, 0)}  # fmt: skip
    assert [counted[f"tab6.{table}", "total"] for table in (1, 2, 3)] == [785, 616_610, 70_340]
    assert counted["tab6.3", "3, linear"] == 64_050
    networks = module("networks")
    assert networks.size(networks.cnn()) == 21_840


def test_accounting_of_a_step():
    found = by_name(module("step_analysis").step_privacy({}, 0))
    assert found["exact ε of a Gaussian, σ = 5"] == pytest.approx(0.7255, abs=5e-5)
    best = 1 / 50 + math.sqrt(2 * math.log(1e5)) / 5
    assert found["ε of the same Gaussian through Rényi, best order"] == pytest.approx(best, rel=1e-5)
    assert found["Rényi divergence of magnitude and angles together, order 2"] == pytest.approx(2)


# What the printed forms really give -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "beta"), [(2, 1.0), (5, 0.5), (40, 0.1)])
def test_one_record_moves_the_angles_of_an_average_by_their_whole_region(d, beta):
    first, second = printed.corners(d, beta)
    batch = np.zeros((64, d))
    batch[:62, -1] = np.resize([1.0, -1.0], 62)  # they cancel
    angles = []
    for last in (first, second):
        batch[-1] = last
        angles.append(printed.direction(batch, 1.0, beta)[1])
    whole = 64 * printed.claimed_sensitivity(d, beta, 64)
    assert whole * 0.98 < np.linalg.norm(angles[0] - angles[1]) <= whole
    assert printed.certificate(5.0, 64, 1e-5) == pytest.approx(gaussian_epsilon(5.0 / 64, 1e-5))


def test_step_5_is_what_erases_a_direction():
    average = np.random.default_rng(1).normal(size=500)
    for step_5, kept in ((True, False), (False, True)):
        vector, _ = printed.perturbed(average, 64, 1.0, 0.1, 1e-9, np.random.default_rng(2), step_5=step_5)
        cosine = vector @ average / np.linalg.norm(vector) / np.linalg.norm(average)
        assert (cosine > 0.999) == kept


@pytest.mark.parametrize("mechanism", vec.MECHANISMS)
def test_ldpvec_sends_the_norm(mechanism):
    rows = np.random.default_rng(3).normal(size=(6, 30)) * np.arange(1, 7)[:, None]
    sent = vec.ldpvec(rows, 1.0, mechanism, 1.5, 1e-5, np.random.default_rng(4))
    assert np.linalg.norm(sent, axis=1) == pytest.approx(np.linalg.norm(rows, axis=1), rel=1e-12)


def test_ldpvec_gives_epsilon_over_beta_and_piecewise_one_for_each_angle():
    assert vec.ldpvec_certificate("Laplace", 1.5, 0.0, 785, 0.05).epsilon == pytest.approx(30)
    assert vec.ldpvec_certificate("Piecewise", 1.5, 0.0, 785, 1.0).epsilon == pytest.approx(784 * 1.5)
    given = vec.ldpvec_certificate("Gaussian", 1.5, 1e-5, 785, 0.05)
    multiplier = 0.05 * vec.gaussian_multiplier(1.5, 1e-5)
    assert gaussian_delta(multiplier, given.epsilon) == pytest.approx(1e-5, rel=1e-6)
    assert vec.ldpsgd_certificate(3.730632, 1.0, 20) == pytest.approx(0.988, abs=5e-4)


def test_piecewise_has_its_mean_and_its_reach():
    """The mean of 200,000 draws is off by more than 5 deviations with a probability below 1e-6."""
    for value in (-1.0, 0.3, 1.0):
        drawn = vec.piecewise(np.full(200_000, value), 1.0, np.random.default_rng(5))
        assert abs(drawn.mean() - value) < 5 * drawn.std() / math.sqrt(len(drawn))
        assert np.abs(drawn).max() <= (math.exp(0.5) + 1) / (math.exp(0.5) - 1) + 1e-9


def test_the_control_does_not_look_at_the_data():
    sent = vec.ignorant((3, 50), 0.1, np.random.default_rng(6))
    assert np.linalg.norm(sent, axis=1) == pytest.approx(0.1)
    line = module("federated_training").Federated(module("federated_training").CONTROL)
    one, other = (line(gradients, np.random.default_rng(7)) for gradients in (np.ones((3, 50)), np.zeros((3, 50))))
    assert (one == other).all()


# Claims ---------------------------------------------------------------------------------------------------------------


def test_all_claims_of_both_chapters_are_there():
    claims = [*module("chapter5").CLAIMS, *module("chapter6").CLAIMS]
    assert sorted(int(each.name.removeprefix("001.claim")) for each in claims) == list(range(13, 40))


def claim(chapter: str, place: int):
    return next(each for each in module(chapter).CLAIMS if each.name == f"001.claim{place}")


def test_the_judge_of_the_privacy_of_geodp_can_be_wrong():
    found = Measured.of(module("step_analysis").step_privacy({}, 0))
    judge = claim("chapter5", 21).judge
    assert judge(found).outcome == "refuted"
    names = (
        "true ε of a step, at least (two flipped batches)",
        "Rényi divergence of magnitude and angles together, order 2",
    )
    kept = [Row(row.where, 0.5 if row.where["quantity"] in names else row.value, row.stderr, 1) for row in found.rows]
    assert judge(Measured(tuple(kept))).outcome == "holds"


def test_the_judge_of_ldpvec_looks_at_the_control():
    training = module("federated_training")
    judge = claim("chapter6", 33).judge

    def losses(control: float) -> Measured:
        values = {training.NO_NOISE: 0.5, training.LDPVEC: 0.5, training.NUMERICAL: 9.0, training.CONTROL: control}
        return Measured.of(
            measured_value(
                value, part=part, epsilon=epsilon, mechanism=mechanism, line=line, iteration=500, metric="loss"
            )
            for part in ("(a) to (i)", "constant rate")
            for epsilon in training.EPSILONS
            for mechanism in vec.MECHANISMS
            for line, value in values.items()
        )

    assert judge(losses(control=0.5)).outcome == "refuted"
    assert judge(losses(control=0.7)).outcome == "holds"


def test_the_judge_of_weighted_noise_can_be_wrong():
    names = ("simulated", "Lemma 8", "sum of squared weights")
    judge = claim("chapter6", 29).judge

    def found(simulated: float) -> Measured:
        rows = [
            measured_value(simulated + off, quantity=f"variance of the weighted noise, {names[0]}")
            for off in (-0.01, 0.01)
        ]
        rows += [measured_value(0.125, quantity=f"variance of the weighted noise, {names[1]}") for _ in range(2)]
        return Measured.of([*rows, measured_value(0.44, quantity=f"variance of the weighted noise, {names[2]}")])

    assert judge(found(0.44)).outcome == "refuted"
    assert judge(found(0.125)).outcome == "holds"
