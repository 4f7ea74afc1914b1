"""What 002 claims about the errors of means. Exact variances decide; what was simulated says whether they are right."""

from dither.reproduce.claims import Claim, Verdict, by_criterion, corrected, refuted
from dither.reproduce.measured import Measured

from .claims_formulas import pooled_bias
from .evidence import some
from .formulas import RECORD_VARIANCES
from .records import DELTA, DIMENSIONS, REAL_MEANS, SYNTHETIC_MEANS, SYNTHETIC_USERS

_MECHANISMS = ("Mechanism-1", "Mechanism-2")
_READINGS = {
    "sensitivity 2 sqrt(d)": "Opt-GM",
    "sensitivity 2": "Opt-GM, sensitivity 2",
    "epsilon/d each": "Opt-GM, epsilon/d each",
}
_CLOSE = 2.0


def _simulated(means: Measured, exact: Measured) -> str:
    """How far simulated errors are from the exact variances, over all sound lines and settings."""
    apart = []
    for row in means.select(metric="MSE").rows:
        if row.where["line"] in (*_MECHANISMS, "Opt-GM") and row.stderr > 0:
            where = {name: row.where[name] for name in ("panel", "d", "epsilon", "delta", "line")}
            spread = 0.0625  # the variance of the data, which lessens that of signs and not that of normal noise
            law = exact.value(**where) - (0.0 if row.where["line"] == "Opt-GM" else spread)
            apart.append((row.value * SYNTHETIC_USERS - law) / (row.stderr * SYNTHETIC_USERS))
    inside = sum(abs(each) < 3 for each in apart)
    return f"simulated errors are within 3 standard errors of these in {inside} of {len(apart)} settings"


def outperforms(exact: Measured, means: Measured) -> Verdict:
    """Every d and epsilon of Fig. 4, against Opt-GM in its three readings."""
    here = exact.select(panel="epsilon")
    lost: dict[str, list[str]] = {}
    for reading, line in _READINGS.items():
        lost[reading] = []
        for mechanism in _MECHANISMS:
            for row in here.select(line=mechanism).rows:
                other = here.value(**{**row.where, "line": line})
                if int(row.where["d"]) in DIMENSIONS and row.value > other * (1 + 1e-6):
                    where = f"d={row.where['d']}, epsilon {row.where['epsilon']:g}"
                    lost[reading].append(f"{mechanism} {row.value:.4g} > {other:.4g} ({where})")
    told = "; ".join(f"{reading}: {len(cases)} losses{some(cases)}" for reading, cases in lost.items())
    return by_criterion(not lost["sensitivity 2 sqrt(d)"], f"exact variances. {told}. {_simulated(means, exact)}")


def close(exact: Measured, means: Measured) -> Verdict:
    """Mechanism-1 over Mechanism-2, at the dimensions of Fig. 3, 5 and 6."""
    here = exact.select(panel="epsilon")
    ratios: dict[float, float] = {}
    for row in here.select(line="Mechanism-1").rows:
        if int(row.where["d"]) in (5, 6):
            epsilon = float(row.where["epsilon"])
            ratio = row.value / here.value(**{**row.where, "line": "Mechanism-2"})
            ratios[epsilon] = max(ratio, ratios.get(epsilon, 0.0))
    told = ", ".join(f"{ratio:.3g} (epsilon {epsilon:g})" for epsilon, ratio in ratios.items())
    measured = [
        row.value / means.value(**{**row.where, "line": "Mechanism-2"})
        for row in means.select(line="Mechanism-1", metric="MSE", epsilon=1.0).rows
    ]
    evidence = (
        f"variance of Mechanism-1 over that of Mechanism-2, the larger of d = 5 and 6: {told}; measured on census data "
        f"at epsilon 1: {min(measured):.2f} to {max(measured):.2f}. Close means below {_CLOSE:g}"
    )
    if max(ratio for epsilon, ratio in ratios.items() if epsilon <= 2) >= _CLOSE:
        return refuted(evidence)
    return by_criterion(max(ratios.values()) < _CLOSE, evidence, otherwise=corrected)


def because_unbiased(means: Measured) -> Verdict:
    """The reason given tells nothing apart if Opt-GM is unbiased as well."""
    pooled = {line: pooled_bias(means, line) for line in ("Opt-GM", *_MECHANISMS)}
    told = ", ".join(f"{value:.1f} ({line})" for line, value in pooled.items())
    evidence = f"pooled mean errors on census data, in standard errors: {told}"
    return by_criterion(
        abs(pooled["Opt-GM"]) > 5, f"{evidence}; all three are unbiased, so that cannot be why their errors differ"
    )


def scales_with_d(exact: Measured) -> Verdict:
    """Variance at 15 dimensions over that at one."""
    here = exact.select(panel="epsilon", epsilon=1.0)

    def growth(line: str) -> float:
        return here.value(line=line, d=15, delta=DELTA) / here.value(line=line, d=1, delta=DELTA)

    ours = {line: growth(line) for line in (*_MECHANISMS, "Mechanism-1 as printed")}
    theirs = {reading: growth(line) for reading, line in _READINGS.items()}
    told = ", ".join(f"{value:.3g} ({line})" for line, value in ours.items())
    other = ", ".join(f"{value:.3g} ({reading})" for reading, value in theirs.items())
    right = max(ours[line] for line in _MECHANISMS) < theirs["sensitivity 2 sqrt(d)"] / 1.5
    return by_criterion(right, f"variance at d = 15 over that at d = 1, epsilon 1: {told}; Opt-GM {other}")


def delta_matters_little(exact: Measured) -> Verdict:
    """How much the variance falls from delta 1e-8 to 5e-5."""
    here = exact.select(panel="delta")
    fall = {}
    for line in ("Opt-GM", *_MECHANISMS, "Mechanism-1 as printed"):
        rows = here.select(line=line, delta=5e-5).rows
        fall[line] = max(1 - row.value / here.value(**{**row.where, "delta": 1e-8}) for row in rows)
    told = ", ".join(f"{100 * value:.2g}% ({line})" for line, value in fall.items())
    evidence = f"largest fall of the variance over d from delta 1e-8 to 5e-5: {told}"
    if fall["Opt-GM"] < 0.1 or max(fall[line] for line in _MECHANISMS) > 0.02:
        return refuted(evidence)
    return by_criterion(fall["Mechanism-1 as printed"] < 0.02, evidence, otherwise=corrected)


CLAIMS = (
    Claim(
        "002.claim10",
        "Mechanism-1 and Mechanism-2 have smaller errors than Opt-GM in all cases",
        "Fig. 3 to 5",
        (RECORD_VARIANCES, SYNTHETIC_MEANS),
        outperforms,
    ),
    Claim(
        "002.claim11",
        "the errors of Mechanism-1 and Mechanism-2 are close",
        "Fig. 3 and 4",
        (RECORD_VARIANCES, REAL_MEANS),
        close,
    ),
    Claim(
        "002.claim12",
        "Mechanism-1 and Mechanism-2 have smaller errors than Opt-GM because they are unbiased",
        "section 6.1 on Fig. 3",
        (REAL_MEANS,),
        because_unbiased,
    ),
    Claim(
        "002.claim13",
        "errors grow with d, those of Mechanism-1 and Mechanism-2 much less than that of Opt-GM",
        "Fig. 4 and 5",
        (RECORD_VARIANCES,),
        scales_with_d,
    ),
    Claim(
        "002.claim14",
        "the error of Opt-GM falls with delta, those of Mechanism-1 and Mechanism-2 hardly change",
        "Fig. 3 and 5",
        (RECORD_VARIANCES,),
        delta_matters_little,
    ),
)
