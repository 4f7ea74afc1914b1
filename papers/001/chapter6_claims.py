"""What chapter 6 of 001 claims, and how the numbers decide it."""

import math

from dither.reproduce.claims import Claim, Verdict, by_criterion, corrected, holds, refuted
from dither.reproduce.measured import Measured, Row

from .as_printed_ldpvec import MECHANISMS
from .federated_analysis import CASE_STUDY, LDPVEC_PRIVACY, WEIGHTED_NOISE
from .federated_networks import FEDERATED_CNN, SHORT
from .federated_training import CONTROL, EPSILONS, FEDERATED_LOGISTIC, LDPVEC, NO_NOISE, NUMERICAL

_CLEAR = 3.0  # standard errors that a difference must exceed
_SAME = 0.002  # of a loss: what a line may differ from another to "match" it, about what one clean step moves it


def _told(row: Row, digits: int = 4) -> str:
    error = f" ± {row.stderr:.1g}" if row.stderr > 0 else ""
    return f"{row.value:.{digits}g}{error}"


def _above(one: Row, other: Row, by: float = 0.0) -> bool:
    errors = [each.stderr for each in (one, other) if each.stderr > 0]
    return one.value - other.value > by + _CLEAR * math.hypot(*errors)


def average_weight(found: Measured) -> Verdict:
    """Claim 29: the variance for unequal weights."""
    simulated = found.row(quantity="variance of the weighted noise, simulated")
    lemma = found.value(quantity="variance of the weighted noise, Lemma 8")
    right = found.value(quantity="variance of the weighted noise, sum of squared weights")
    return by_criterion(
        abs(simulated.value - lemma) < _CLEAR * simulated.stderr,
        f"weights .65 and seven of .05: variance {_told(simulated)}, the sum of squared weights is {right:.3g}, Lemma "
        "8 has "
        f"{lemma:.3g}; equal weights alone agree",
    )


def round_identity(found: Measured) -> Verdict:
    """Claim 30: eq. 6.12 as printed and with the rate put back."""
    simulated = found.row(quantity="difference of a round, simulated")
    right, printed = (found.value(quantity=f"difference of a round, {each}") for each in ("corrected", "eq. 6.12"))
    evidence = f"simulated {_told(simulated)}, eq. 6.12 {printed:.4g}, with η in items B and D and Σp² {right:.4g}"
    near = _CLEAR * simulated.stderr + 1e-3
    if abs(printed - simulated.value) < near:
        return holds(evidence)
    return corrected(evidence) if abs(right - simulated.value) < near else refuted(evidence)


def case_order(found: Measured) -> Verdict:
    """Claim 31: which mechanism is the best in the case study."""

    def order(column: str) -> list[str]:
        return sorted(MECHANISMS, key=lambda each: found.value(mechanism=each, column=column))

    report, coordinate = order("right, ε = .1 a report"), order("right, ε = .1 a coordinate")
    told = ", ".join(f"{each} {found.value(mechanism=each, column='right, ε = .1 a report'):.4g}" for each in report)
    other = ", ".join(
        f"{each} {found.value(mechanism=each, column='right, ε = .1 a coordinate'):.3g}" for each in coordinate
    )
    return by_criterion(
        report == ["Gaussian", "Piecewise", "Laplace"],
        f"right, with ε = .1 for a report: {told}; with ε = .1 a coordinate, which compares unlike things: {other}",
    )


def ldpvec_privacy(found: Measured) -> Verdict:
    """Claim 32: what Algorithm 6 gives at epsilon = 1.5."""
    norms = max(row.value for row in found.select(quantity="true δ, different norms").rows)
    told = ", ".join(
        f"{row.where['mechanism']} {row.value:.4g} (β = {row.where['beta']:g})"
        for row in found.select(quantity="true ε, one norm").rows
    )
    worst = max(row.value for row in found.select(quantity="true ε, one norm").rows)
    clean = found.value(quantity="true δ at ε = 1 of E steps", E=20)
    return by_criterion(
        norms <= 1e-5 and worst <= 1.5,
        f"promised ε = 1.5, δ = 1e-5 at d = 785. The norm is sent: δ = {norms:g} for gradients of different norms. "
        "For one norm: "
        f"ε = {told}. With 19 clean steps before a noisy one of (1, 1e-5), δ = {clean:.3f}",
    )


def _last(found: Measured, **where: str | float) -> dict[str, Row]:
    """The last loss of each line."""
    here = found.select(metric="loss", **where)
    end = max(iteration for iteration in here.along("iteration") if not isinstance(iteration, str))
    return {line: here.row(iteration=end, line=line) for line in (NO_NOISE, NUMERICAL, LDPVEC, CONTROL)}


def matches_no_noise(found: Measured) -> Verdict:
    """Claim 33: LDPVec, numerical perturbation and the control against no noise, in nine panels and two schedules."""
    told, vec, control, numerical = [], [], [], []
    for part in ("(a) to (i)", "constant rate"):
        for epsilon in EPSILONS:
            for mechanism in MECHANISMS:
                last = _last(found, part=part, epsilon=epsilon, mechanism=mechanism)
                vec.append(abs(last[LDPVEC].value - last[NO_NOISE].value) < _SAME)
                control.append(abs(last[CONTROL].value - last[NO_NOISE].value) < _SAME)
                numerical.append(last[NUMERICAL].value > last[NO_NOISE].value + _SAME)
                if mechanism == "Laplace" and epsilon == EPSILONS[0]:
                    told.append(f"{part}: {', '.join(f'{line} {_told(row, 5)}' for line, row in last.items())}")
    evidence = (
        f"last losses with Laplace at ε = 1.5, {'; '.join(told)}. Within {_SAME} of no noise: LDPVec in {sum(vec)} of "
        f"{len(vec)}, "
        f"the direction without data in {sum(control)}; numerical noise is worse in {sum(numerical)}"
    )
    if sum(control) >= sum(vec):
        return refuted(f"{evidence}. What matches no noise is E - 1 clean steps: a direction without data does as well")
    return by_criterion(all(vec), evidence)


def few_devices(found: Measured) -> Verdict:
    """Claim 34: the same with five devices and every second step noisy."""
    told, vec, control = [], [], []
    for mechanism in MECHANISMS:
        last = _last(found, part="(j) to (l)", mechanism=mechanism)
        vec.append(last[LDPVEC].value - last[NO_NOISE].value)
        control.append(last[CONTROL].value - last[NO_NOISE].value)
        told.append(f"{mechanism}: {', '.join(f'{line} {_told(row, 5)}' for line, row in last.items())}")
    evidence = f"last losses, N = 5, E = 2; {'; '.join(told)}"
    near = max(abs(each) for each in vec) < 5 * _SAME
    blind = max(abs(one - other) for one, other in zip(vec, control, strict=True)) < 2 * _SAME
    if blind:
        return refuted(f"{evidence}. LDPVec is where a direction without data is")
    return by_criterion(near, evidence)


def vec_gain(cnn: Measured, logistic: Measured) -> Verdict:
    """Claim 35: Table 6.4 as printed with its control, and certified forms of Fig. 6.2."""
    gains, blind, told = [], [], []
    for epsilon in (15.3, 48.5):
        column = f"ε = {epsilon}"
        control = cnn.row(method="control: no data", column=column)
        for mechanism in ("Laplace", "Piecewise", "Gaussian"):
            plain, vec = (cnn.row(method=f"{SHORT[mechanism]}{suffix}", column=column) for suffix in ("", "-Vec"))
            gains.append(vec.value - plain.value)
            blind.append(not _above(vec, control, by=2.0))
            told.append(f"{SHORT[mechanism]}-Vec {_told(vec, 3)} against {_told(plain, 3)} (ε = {epsilon:g})")
    where = {"part": "(a) to (i)", "metric": "accuracy", "epsilon": 15.3, "mechanism": "Gaussian"}
    sound, unit = (logistic.row(line=line, **where) for line in ("LDPVec, sound", "UnitVector"))
    evidence = (
        f"{', '.join(told)}; a direction without data "
        f"{_told(cnn.row(method='control: no data', column='ε = 48.5'), 3)}, no noise "
        f"{_told(cnn.row(method='No noise', column='ε = 48.5'), 3)}. Certified, logistic regression at ε = 15.3 a "
        "round: LDPVec "
        f"{_told(sound, 3)}%, UnitVector {_told(unit, 3)}%"
    )
    if all(blind):
        return refuted(f"{evidence}. As printed the gain is that of clean steps, and the control has it too")
    return by_criterion(min(gains) >= 14, evidence)


def abstract_budget(found: Measured) -> Verdict:
    """Claim 36: whether any budget goes to the magnitude."""
    off = max(row.value for row in found.select(quantity="relative change of a norm").rows)
    return by_criterion(
        off > 1e-6,
        f"by Algorithm 6 a norm changes by {off:.1g} of itself at most: rounding errors. It gets no noise at all",
    )


CLAIMS = (
    Claim(
        "001.claim29",
        "weighted noise of devices is distributed as with the average weight",
        "Lemma 8, Theorem 12",
        (WEIGHTED_NOISE,),
        average_weight,
    ),
    Claim(
        "001.claim30",
        "the efficiency difference of a federated round is eq. 6.12",
        "Theorem 13, Corollary 3",
        (WEIGHTED_NOISE,),
        round_identity,
    ),
    Claim(
        "001.claim31",
        "in the case study Gaussian noise is best, then Piecewise, then Laplace",
        "6.1.4",
        (CASE_STUDY,),
        case_order,
    ),
    Claim(
        "001.claim32",
        "LDPVec is (ε, δ)-locally differentially private",
        "Theorem 14",
        (LDPVEC_PRIVACY,),
        ldpvec_privacy,
    ),
    Claim(
        "001.claim33",
        "LDPVec preserves training: it matches no noise at ε from 1.5 to 15.3, numerical noise does not converge",
        "Fig. 6.2 (a) to (i)",
        (FEDERATED_LOGISTIC,),
        matches_no_noise,
    ),
    Claim(
        "001.claim34",
        "even with N = 5 and E = 2 LDPVec arrives where no noise does",
        "Fig. 6.2 (j) to (l)",
        (FEDERATED_LOGISTIC,),
        few_devices,
    ),
    Claim(
        "001.claim35",
        "LDPVec's directions are worth 14 to 31 points over numerical noise",
        "Table 6.4",
        (FEDERATED_CNN, FEDERATED_LOGISTIC),
        vec_gain,
    ),
    Claim(
        "001.claim36",
        "LDPVec spends 1/d of the budget on the magnitude",
        "abstract",
        (LDPVEC_PRIVACY,),
        abstract_budget,
    ),
)
