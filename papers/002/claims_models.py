"""What 002 claims about models. A measured difference counts beyond three standard errors."""

import math

from dither.reproduce.claims import Claim, Verdict, corrected, holds, judged, refuted
from dither.reproduce.measured import Measured

from .evidence import SURE, some, surely_below
from .models import MODEL_ERRORS, PASSES

_MECHANISMS = ("Mechanism-1", "Mechanism-2")
_CLOSE = 0.01  # a point


def _against(found: Measured, line: str) -> tuple[int, int, list[str]]:
    """In how many settings a mechanism is surely below another line, and in how many there are, and where it loses."""
    won, cases, lost = 0, 0, []
    for mechanism in _MECHANISMS:
        for row in found.select(line=mechanism).rows:
            other = found.row(**{**row.where, "line": line})
            cases += 1
            won += surely_below(row, other)
            if surely_below(other, row):
                where = f"{row.where['model']}, {row.where['data']}, epsilon {row.where['epsilon']:g}"
                lost.append(f"{mechanism} {row.value:.3g} > {other.value:.3g} ({where})")
    return won, cases, lost


def _outperforms(found: Measured) -> Verdict:
    """Both mechanisms against Opt-GM as it is sound, and as it is printed."""
    won, cases, lost = _against(found, "Opt-GM")
    printed_won, _, printed_lost = _against(found, "Opt-GM, sensitivity 2")
    evidence = (
        f"against Opt-GM with the right sensitivity: surely below in {won} of {cases} cases, surely above in "
        f"{len(lost)}{some(lost)}; against the printed sensitivity 2: below in {printed_won}, above in "
        f"{len(printed_lost)}{some(printed_lost, 2)}"
    )
    if lost:
        return refuted(evidence)
    return judged(won == cases, f"{evidence}; the others are equal within the noise", otherwise=corrected)


def regression(found: Measured) -> Verdict:
    """Fig. 8."""
    return _outperforms(found.select(model="linear regression"))


def classification(found: Measured) -> Verdict:
    """Fig. 9 and 10."""
    kept = tuple(row for row in found.rows if row.where["model"] != "linear regression")
    return _outperforms(Measured(kept, found.notes))


def near_non_private(found: Measured) -> Verdict:
    """Misclassification beyond that of a model without privacy."""
    excess: dict[float, float] = {}
    unsure = 0.0
    for mechanism in _MECHANISMS:
        for row in found.select(line=mechanism).rows:
            if row.where["model"] != "linear regression":
                base = found.value(**{**row.where, "line": "without privacy"})
                epsilon = float(row.where["epsilon"])
                excess[epsilon] = max(row.value - base, excess.get(epsilon, -1.0))
                if epsilon >= 5 and not math.isnan(row.stderr):
                    unsure = max(unsure, row.stderr)
    ours = [
        row.value - found.value(**{**row.where, "line": "without privacy"})
        for row in found.select(line="dither's model").rows
        if row.where["model"] != "linear regression" and float(row.where["epsilon"]) >= 5
    ]
    told = ", ".join(f"{100 * value:.2g} (epsilon {epsilon:g})" for epsilon, value in sorted(excess.items()))
    evidence = (
        f"largest misclassification of the two beyond that without privacy, in points: {told}; standard errors from "
        f"epsilon 5 on up to {100 * unsure:.1g}; dither's own model there {100 * max(ours):.2g}"
    )
    large = max(value for epsilon, value in excess.items() if epsilon >= 5)
    if large > _CLOSE + SURE * unsure:
        return refuted(evidence)
    return judged(max(excess.values()) < 5 * _CLOSE, evidence, otherwise=corrected)


def one_pass(found: Measured) -> Verdict:
    """Several passes with split budgets against one."""
    worse, better, told = 0, 0, []
    for row in found.select(passes=1).rows:
        others = {many: found.row(**{**row.where, "passes": many}) for many in (2, 5)}
        worse += sum(surely_below(row, other) for other in others.values())
        better += sum(surely_below(other, row) for other in others.values())
        errors = ", ".join(f"{each.value:.3g}" for each in (row, *others.values()))
        told.append(f"{row.where['model']}, epsilon {row.where['epsilon']:g}: {errors}")
    cases = 2 * len(told)
    counts = f"surely worse in {worse} of {cases}, surely better in {better}"
    evidence = f"error with 1, 2 and 5 passes: {'; '.join(told)}; {counts}"
    if better or not worse:
        return refuted(evidence)
    return holds(evidence) if worse == cases else corrected(f"{evidence}; equal within the noise in the others")


CLAIMS = (
    Claim(
        "002.claim25",
        "Mechanism-1 and Mechanism-2 have smaller errors than Opt-GM in linear regression, at every epsilon",
        "Fig. 8",
        (MODEL_ERRORS,),
        regression,
    ),
    Claim(
        "002.claim26",
        "they misclassify less than Opt-GM at every epsilon",
        "Fig. 9 and 10",
        (MODEL_ERRORS,),
        classification,
    ),
    Claim(
        "002.claim27",
        "they are close to the model without privacy, and reach it from epsilon 5 on",
        "Fig. 9 and 10",
        (MODEL_ERRORS,),
        near_non_private,
    ),
    Claim(
        "002.claim28",
        "several passes over the users with split budgets are worse than one pass",
        "section 6.2",
        (PASSES,),
        one_pass,
    ),
)
