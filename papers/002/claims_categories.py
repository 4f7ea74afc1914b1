"""What 002 claims about frequencies. A measured difference counts beyond three standard errors."""

from dither.reproduce.claims import Claim, Verdict, by_criterion, corrected, refuted
from dither.reproduce.measured import Coordinate, Measured

from .categories import DELTAS, PRINTED, REAL_FREQUENCIES, ZIPF_FREQUENCIES, ZIPF_VARIANCES
from .evidence import pooled, some, surely_below, width
from .formulas import CATEGORY_VARIANCES, DELTA, EPSILONS

_FLAT = 1.3


def _below(found: Measured, first: str, second: str, **where: Coordinate) -> bool:
    """Whether the error of the first line is surely below that of the second."""
    return surely_below(found.row(**where, line=first), found.row(**where, line=second))


def _along(found: Measured, **lines: tuple[str, str]) -> str:
    """Ratios of two lines at each epsilon."""
    return "; ".join(
        f"{name} "
        + ", ".join(
            f"{found.value(epsilon=e, delta=DELTA, line=over) / found.value(epsilon=e, delta=DELTA, line=under):.4g}"
            for e in EPSILONS
        )
        for name, (over, under) in lines.items()
    )


def domain_matters(found: Measured) -> Verdict:
    """GRR with k = 100 over k = 2."""
    small, large = (
        found.value(epsilon=e, delta=DELTA, line="GRR k=100") / found.value(epsilon=e, delta=DELTA, line="GRR k=2")
        for e in (EPSILONS[0], EPSILONS[-1])
    )
    return by_criterion(
        small > 10 and large < 1.05, f"variance at k = 100 over k = 2: {small:.3g} at .1, {large:.4f} at 10"
    )


def two_categories(found: Measured) -> Verdict:
    """GRR with k = 2 against all other lines of Fig. 2."""
    others = ("GRR k=10", "GRR k=100", "SPRR", "OLH", "Opt-GM")
    least = min(
        found.value(epsilon=e, delta=DELTA, line=line) / found.value(epsilon=e, delta=DELTA, line="GRR k=2")
        for e in EPSILONS
        for line in others
    )
    return by_criterion(least > 1, f"the next best has {least:.5f} times its variance or more")


def gaussian_is_worst(found: Measured) -> Verdict:
    """Opt-GM over SPRR and OLH."""
    ratios = [
        found.value(epsilon=e, delta=DELTA, line="Opt-GM") / found.value(epsilon=e, delta=DELTA, line=line)
        for e in EPSILONS
        for line in ("SPRR", "OLH")
    ]
    told = _along(found, SPRR=("Opt-GM", "SPRR"), OLH=("Opt-GM", "OLH"))
    return by_criterion(min(ratios) > 1, f"variance of Opt-GM over that of others, epsilon .1 to 10: {told}")


def close_then_apart(found: Measured) -> Verdict:
    """SPRR over OLH on both sides of epsilon 1."""
    ratios = {
        e: found.value(epsilon=e, delta=DELTA, line="SPRR") / found.value(epsilon=e, delta=DELTA, line="OLH")
        for e in EPSILONS
    }
    near = max(ratio for e, ratio in ratios.items() if e <= 1)
    apart = min(ratio for e, ratio in ratios.items() if e > 1)
    told = ", ".join(f"{ratio:.3f} ({e:g})" for e, ratio in ratios.items())
    return by_criterion(near < 1.1 and apart > 1.1, f"variance of SPRR over that of OLH: {told}")


def always_better(found: Measured, zipf: Measured) -> Verdict:
    """OLH against SPRR by the formula for rare categories, and on whole frequencies."""
    rare = min(
        found.value(epsilon=e, delta=DELTA, line="SPRR") / found.value(epsilon=e, delta=DELTA, line="OLH")
        for e in EPSILONS
    )
    lost = [
        f"k={row.where['k']}, epsilon {row.where['epsilon']:g}: "
        f"{row.value:.3g} > {zipf.value(**{**row.where, 'line': 'SPRR'}):.3g}"
        for row in zipf.select(line="OLH").rows
        if row.value > zipf.value(**{**row.where, "line": "SPRR"}) * (1 + 1e-6)
    ]
    evidence = (
        f"for rare categories (eq. 44) SPRR has at least {rare:.4f} times the variance of OLH; with all terms of eq. "
        f"43 OLH loses in {len(lost)} of {len(zipf.select(line='OLH'))} settings of Fig. 7{some(lost)}"
    )
    if rare < 1:
        return refuted(evidence)
    return by_criterion(not lost, evidence, otherwise=corrected)


def hashing_is_best(found: Measured) -> Verdict:
    """OLH against the three others on census attributes."""
    found = pooled(found, "line")
    lost, cases = [], 0
    for row in found.select(line="OLH").rows:
        where = {name: at for name, at in row.where.items() if name != "line"}
        cases += 1
        winners = [line for line in PRINTED if line != "OLH" and _below(found, line, "OLH", **where)]
        if winners:
            best = min(winners, key=lambda line: found.value(**where, line=line))
            lost.append(
                f"{where['data']}, epsilon {where['epsilon']:g}: {row.value:.3g} against "
                f"{found.value(**where, line=best):.3g} of {best}"
            )
    better = [
        row.value / found.value(**{**row.where, "line": "dither"}) for row in found.select(line="OLH", delta=DELTA).rows
    ]
    evidence = (
        f"surely beaten in {len(lost)} of {cases} cases{some(lost)}; the error of OLH is {min(better):.2g} to "
        f"{max(better):.2g} times that of dither's line"
    )
    return by_criterion(not lost, evidence)


def delta_changes_nothing(found: Measured) -> Verdict:
    """Exact variances at delta 1e-6 and 1e-7."""
    change = {
        line: max(
            abs(
                found.value(epsilon=e, delta=DELTAS[1], line=line) / found.value(epsilon=e, delta=DELTAS[0], line=line)
                - 1
            )
            for e in EPSILONS
        )
        for line in ("GRR k=2", "GRR k=10", "GRR k=100", "SPRR", "OLH", "Opt-GM")
    }
    told = ", ".join(f"{100 * value:.2g}% ({line})" for line, value in change.items())
    evidence = f"largest change of the variance over epsilon: {told}"
    if max(value for line, value in change.items() if line != "Opt-GM") > 0.02:
        return refuted(evidence)
    return by_criterion(change["Opt-GM"] < 0.02, evidence, otherwise=corrected)


def _growth(found: Measured, line: str, epsilon: float) -> float:
    """The error at the largest domain over that at the smallest."""
    curve = found.select(line=line, epsilon=epsilon, delta=DELTA).curve("k")
    return float(curve.value[-1] / curve.value[0])


def _simulated(exact: Measured, drawn: Measured) -> str:
    """How many simulated errors are near those that eq. 43 gives."""
    rows = [row for row in drawn.rows if row.stderr > 0]
    near = sum(abs(row.value - exact.value(**row.where)) < width(row) * row.stderr for row in rows)
    return f"simulated errors agree with these within the noise in {near} of {len(rows)} cases"


def flat_in_k(exact: Measured, drawn: Measured) -> Verdict:
    """The error at k = 1000 over that at k = 10."""
    growth = {(line, e): _growth(exact, line, e) for line in ("SPRR", "OLH", "Opt-GM") for e in (0.5, 5.0)}
    told = ", ".join(f"{ratio:.3f} ({line}, {e:g})" for (line, e), ratio in growth.items())
    moved = {line for (line, _), ratio in growth.items() if not 1 / _FLAT <= ratio <= _FLAT}
    evidence = f"error by eq. 43 at the largest k over that at the smallest: {told}; {_simulated(exact, drawn)}"
    if moved - {"OLH"}:
        return refuted(evidence)
    return by_criterion(not moved, f"{evidence}. OLH has a term that falls with the frequencies", otherwise=corrected)


def slower_at_half(exact: Measured, drawn: Measured) -> Verdict:
    """Growth of GRR at epsilon .5 and at 5."""
    small, large = (_growth(exact, "GRR", e) for e in (0.5, 5.0))
    evidence = f"error of GRR at the largest k over that at the smallest: {small:.3g} at epsilon .5, {large:.3g} at 5"
    return by_criterion(small < large, f"{evidence}; {_simulated(exact, drawn)}")


def below_grr(exact: Measured, drawn: Measured) -> Verdict:
    """SPRR and OLH against GRR at all sizes."""
    lost, cases = [], 0
    for row in exact.select(line="GRR").rows:
        for line in ("SPRR", "OLH"):
            cases += 1
            other = exact.value(**{**row.where, "line": line})
            if other > row.value:
                where = f"k={row.where['k']}, epsilon {row.where['epsilon']:g}"
                lost.append(f"{line} {other:.3g} > {row.value:.3g} ({where})")
    evidence = f"by eq. 43 GRR is better in {len(lost)} of {cases} cases{some(lost)}; {_simulated(exact, drawn)}"
    return by_criterion(not lost, evidence)


CLAIMS = (
    Claim(
        "002.claim15",
        "the size of the domain matters for GRR at small epsilon, and hardly at 10",
        "Fig. 2",
        (CATEGORY_VARIANCES,),
        domain_matters,
    ),
    Claim(
        "002.claim16", "GRR with two categories has the least variance", "Fig. 2", (CATEGORY_VARIANCES,), two_categories
    ),
    Claim(
        "002.claim17",
        "Opt-GM has a larger variance than SPRR and OLH",
        "Fig. 2",
        (CATEGORY_VARIANCES,),
        gaussian_is_worst,
    ),
    Claim(
        "002.claim18",
        "SPRR and OLH are close up to epsilon 1, and OLH is better beyond",
        "Fig. 2",
        (CATEGORY_VARIANCES,),
        close_then_apart,
    ),
    Claim(
        "002.claim19",
        "OLH is always better than SPRR",
        "section 5 on Fig. 2",
        (CATEGORY_VARIANCES, ZIPF_VARIANCES),
        always_better,
    ),
    Claim("002.claim20", "OLH has the least error in all cases", "Fig. 6", (REAL_FREQUENCIES,), hashing_is_best),
    Claim(
        "002.claim21",
        "delta 1e-7 instead of 1e-6 changes the errors of the four mechanisms hardly at all",
        "Fig. 6",
        (CATEGORY_VARIANCES,),
        delta_changes_nothing,
    ),
    Claim(
        "002.claim22",
        "the errors of SPRR, OLH and Opt-GM do not depend on the size of the domain",
        "Fig. 7",
        (ZIPF_VARIANCES, ZIPF_FREQUENCIES),
        flat_in_k,
    ),
    Claim(
        "002.claim23",
        "the error of GRR grows with the domain more slowly at epsilon .5 than at 5",
        "Fig. 7",
        (ZIPF_VARIANCES, ZIPF_FREQUENCIES),
        slower_at_half,
    ),
    Claim(
        "002.claim24",
        "SPRR and OLH have much smaller errors than GRR in all cases",
        "Fig. 7",
        (ZIPF_VARIANCES, ZIPF_FREQUENCIES),
        below_grr,
    ),
)
