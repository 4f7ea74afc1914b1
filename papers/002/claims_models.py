"""What 002 claims about models. A measured difference counts beyond three standard errors."""

from dither.reproduce.claims import Claim, Verdict, by_criterion, corrected, holds, refuted, undecided
from dither.reproduce.measured import Measured

from .evidence import pooled, some, surely_below
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
    found = pooled(found, "line", "model")
    won, cases, lost = _against(found, "Opt-GM")
    printed_won, _, printed_lost = _against(found, "Opt-GM, sensitivity 2")
    smaller = sum(
        row.value < found.value(**{**row.where, "line": "Opt-GM"})
        for line in _MECHANISMS
        for row in found.select(line=line).rows
    )
    evidence = (
        f"against Opt-GM with sensitivity 2 sqrt(d): smaller in {smaller} of {cases} cases, surely in {won}, surely "
        f"larger in {len(lost)}{some(lost)}; against the printed sensitivity 2: surely smaller in {printed_won}, "
        f"surely larger in {len(printed_lost)}{some(printed_lost, 2)}"
    )
    if lost:
        return refuted(evidence)
    if not won:
        return undecided(f"{evidence}: all is within the noise")
    return by_criterion(
        won == cases,
        f"{evidence}; the others are not told apart by this many users and repetitions",
        otherwise=corrected,
    )


def regression(found: Measured) -> Verdict:
    """Fig. 8."""
    return _outperforms(found.select(model="linear regression"))


def classification(found: Measured) -> Verdict:
    """Fig. 9 and 10."""
    kept = tuple(row for row in found.rows if row.where["model"] != "linear regression")
    return _outperforms(Measured(kept, found.notes))


def near_non_private(found: Measured) -> Verdict:
    """Misclassification beyond that without privacy: of a solver that has converged, and of the same single pass."""
    found = pooled(found, "line", "model")
    rows = [
        row for line in _MECHANISMS for row in found.select(line=line).rows if row.where["model"] != "linear regression"
    ]
    excess: dict[str, dict[float, float]] = {}
    beyond: dict[str, list[str]] = {}
    for reference in ("without privacy", "one pass without privacy"):
        largest, sure = excess.setdefault(reference, {}), beyond.setdefault(reference, [])
        for row in rows:
            base, epsilon = found.row(**{**row.where, "line": reference}), float(row.where["epsilon"])
            largest[epsilon] = max(row.value - base.value, largest.get(epsilon, -1.0))
            if epsilon >= 5 and surely_below(base._replace(value=base.value + _CLOSE), row):
                where = f"{row.where['model']}, {row.where['data']}, epsilon {epsilon:g}"
                sure.append(f"{row.where['line']} {row.value:.3g} against {base.value:.3g} ({where})")
    told = "; ".join(
        f"{reference}: {', '.join(f'{100 * value:.2g} (epsilon {e:g})' for e, value in sorted(largest.items()))}"
        for reference, largest in excess.items()
    )
    evidence = (
        f"largest misclassification of the two beyond that without privacy, in points. {told}. Surely more than a "
        f"point from epsilon 5 on: {len(beyond['without privacy'])}{some(beyond['without privacy'], 2)}, and "
        f"{len(beyond['one pass without privacy'])} beyond the same single pass"
    )
    if beyond["one pass without privacy"]:
        return refuted(evidence)
    near = not beyond["without privacy"] and max(excess["without privacy"].values()) < 5 * _CLOSE
    return by_criterion(near, evidence, otherwise=corrected)


def one_pass(found: Measured) -> Verdict:
    """Several passes with split budgets against one."""
    found = pooled(found, "model")
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
    if better:
        return refuted(evidence)
    if not worse:
        return undecided(f"{evidence}: all is within the noise")
    return (
        holds(evidence)
        if worse == cases
        else corrected(f"{evidence}; the others are not told apart by this many repetitions")
    )


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
