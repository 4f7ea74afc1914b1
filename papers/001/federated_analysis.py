"""Section 6.1 and Algorithm 6: weighted noise, the case study, and what LDPVec promises."""

from collections.abc import Iterator

import numpy as np

from dither.learn.analysis import federated_efficiency
from dither.privacy.accounting.gaussian import gaussian_epsilon
from dither.reproduce.experiments import Experiment, Setting
from dither.reproduce.measured import Number, measured_value

from .as_printed_ldpvec import MECHANISMS, ldpsgd_certificate, ldpvec, ldpvec_certificate
from .case_study import PRINTED, by_coordinate, by_its_equation, by_report

# The case study of section 6.1.4 --------------------------------------------------------------------------------------


def case_study(setting: Setting, seed: int) -> Iterator[Number]:
    """Three mechanisms: by the thesis' own equation, and right in two readings of its budget."""
    columns = {
        "by its equation": by_its_equation(),
        "right, ε = .1 a coordinate": by_coordinate(),
        "right, ε = .1 a report": by_report(),
    }
    for column, found in columns.items():
        for mechanism in PRINTED:
            yield measured_value(found[mechanism], mechanism=mechanism, column=column)


CASE_STUDY = Experiment("001.case_study", case_study, ({},), {"smoke": 1, "quick": 1, "full": 1})


# Lemma 8, Theorems 12 and 13 ------------------------------------------------------------------------------------------

WEIGHTS = np.array([0.65] + [0.05] * 7)
RATE, BIAS, D = 0.2, 0.3, 6


def weighted_noise(setting: Setting, seed: int) -> Iterator[Number]:
    """The variance of a weighted sum of noises, and a round of noisy devices against two formulas."""
    random = np.random.default_rng(seed)
    noise = random.normal(size=(int(setting["rounds"]), WEIGHTS.size))
    yield measured_value(float((noise @ WEIGHTS).var()), quantity="variance of the weighted noise, simulated")
    yield measured_value(float((WEIGHTS**2).sum()), quantity="variance of the weighted noise, sum of squared weights")
    yield measured_value(1 / WEIGHTS.size, quantity="variance of the weighted noise, Lemma 8")
    fixed = np.random.default_rng(0)
    model, gradient, optimum = fixed.normal(size=(3, D))
    halves = random.normal(size=(int(setting["rounds"]) // 2, D)) * float(np.sqrt((WEIGHTS**2).sum()))
    total = BIAS * WEIGHTS.sum() + np.concatenate([halves, -halves])
    plain = model - RATE * gradient - optimum
    found = (((plain - RATE * total) ** 2).sum(axis=1) - (plain**2).sum()).mean()
    right = federated_efficiency(model, gradient, optimum, rate=RATE, weights=WEIGHTS, noise=float(D), bias=BIAS)
    yield measured_value(float(found), quantity="difference of a round, simulated")
    yield measured_value(right.total, quantity="difference of a round, corrected")
    mean = BIAS * np.ones(D)
    printed = -2 * (model - RATE * gradient) @ mean + RATE**2 * (mean @ mean + D / WEIGHTS.size) + 2 * optimum @ mean
    yield measured_value(float(printed), quantity="difference of a round, eq. 6.12")


WEIGHTED_NOISE = Experiment(
    "001.weighted_noise",
    weighted_noise,
    ({},),
    {"smoke": 3, "quick": 10, "full": 50},
    size={"smoke": {"rounds": 20_000}, "quick": {"rounds": 100_000}, "full": {"rounds": 100_000}},
)


# Theorem 14, and the budget of the abstract ---------------------------------------------------------------------------


def ldpvec_privacy(setting: Setting, seed: int) -> Iterator[Number]:
    """What Algorithm 6 promises a gradient and gives it, and what its reports say about norms."""
    random, d, epsilon, delta = np.random.default_rng(seed), 785, 1.5, 1e-5
    for mechanism in MECHANISMS:
        for beta in (1.0, 0.05):
            given = ldpvec_certificate(mechanism, epsilon, delta, d, beta)
            yield measured_value(given.epsilon, quantity="true ε, one norm", mechanism=mechanism, beta=beta)
            yield measured_value(
                given.delta_of_norms, quantity="true δ, different norms", mechanism=mechanism, beta=beta
            )
        rows = random.normal(size=(20, d)) * random.random((20, 1))
        sent = np.linalg.norm(ldpvec(rows, 1.0, mechanism, epsilon, delta, random), axis=1)
        off = float(np.abs(sent / np.linalg.norm(rows, axis=1) - 1).max())
        yield measured_value(off, quantity="relative change of a norm", mechanism=mechanism, beta=1.0)
    exact = 3.730632  # the multiplier that is exactly (1, 1e-5)
    yield measured_value(gaussian_epsilon(exact, delta), quantity="ε of one noisy step")
    for steps in (2, 20, 50):
        yield measured_value(ldpsgd_certificate(exact, 1.0, steps), quantity="true δ at ε = 1 of E steps", E=steps)


LDPVEC_PRIVACY = Experiment("001.ldpvec_privacy", ldpvec_privacy, ({},), {"smoke": 1, "quick": 1, "full": 1})
