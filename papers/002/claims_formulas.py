"""What 002 claims about guarantees, constants and bounds, and how exact numbers decide it."""

import math

import numpy as np

from dither.reproduce.claims import Claim, Verdict, by_criterion, corrected, refuted
from dither.reproduce.measured import Measured

from .formulas import CORNERS, DELIVERED, EPSILONS, LEMMA_5, ONE_NUMBER, RECORD_VARIANCES, SAMPLED_DIMENSIONS
from .records import DELTA, LARGEST_ERRORS, REAL_MEANS

_EXACT = 1e-6
_BETA = 0.05


def pointwise_delta(found: Measured) -> Verdict:
    """Lemma 1 through the mechanism that rests on it: what is delivered, over what is declared."""
    rows = [row for row in found.select(form="Mechanism-1 as printed").rows if row.where["delta"] == 1e-3]
    many = [row for row in rows if int(row.where["d"]) > 1]
    told = ", ".join(f"{row.value:.4g} (d={row.where['d']})" for row in many)
    sound = max(row.value for row in found.select(form="Mechanism-1, sound").rows)
    real = ", ".join(
        f"{row.value * float(row.where['delta']):.3g} (d={row.where['d']}, {row.where['delta']:g} declared)"
        for row in found.select(form="Mechanism-1 as printed").rows
        if int(row.where["d"]) > 40
    )
    evidence = (
        f"delta delivered over delta declared, epsilon 1: {told}, the C_d of eq. 7; the true delta of Fig. 8 to 10 is "
        f"{real}. With delta/C_d for each corner it is {sound:.6g} at most"
    )
    return by_criterion(max(row.value for row in many) <= 1 + _EXACT, evidence)


def one_dimension(found: Measured) -> Verdict:
    """Algorithm 2."""
    ratios = [row.value for row in found.select(form="Algorithm 2").rows]
    evidence = f"delta delivered over delta declared: {min(ratios):.6f} to {max(ratios):.6f} in {len(ratios)} settings"
    return by_criterion(max(ratios) <= 1 + _EXACT, evidence)


def sampled(found: Measured) -> Verdict:
    """Mechanism-2 over all pairs of corners."""
    ratios = {k: [row.value for row in found.select(form=f"Mechanism-2, k={k}").rows] for k in (1, 2, 3)}
    here = ", ".join(f"{found.value(d=3, delta=1e-3, form=f'Mechanism-2, k={k}'):.2f}" for k in ratios)
    most = max(map(max, ratios.values()))
    evidence = f"delta delivered over delta declared at d = 3, k = 1, 2, 3: {here}; at most {most:.6f} up to d = 8"
    return by_criterion(most <= 1 + _EXACT, evidence)


def unbiased(corners: Measured, means: Measured) -> Verdict:
    """B against all corners, and the mean error on census data, whose means are not 0."""
    printed = {row.where["d"]: row.value for row in corners.select(scale="eq. 8").rows}
    apart = {
        ties: max(
            abs(printed[row.where["d"]] / row.value - 1) for row in corners.select(scale=f"unbiased, {ties}").rows
        )
        for ties in ("ties outside", "ties inside")
    }
    pooled = {line: pooled_bias(means, line) for line in ("Mechanism-1", "Mechanism-2")}
    told = ", ".join(f"{value:.1f} ({line})" for line, value in pooled.items())
    evidence = (
        f"B of eq. 8 is right to {apart['ties outside']:.0e} where ties are outside; with the ties of Remark 1 it is "
        f"{printed[4]:.4g} instead of {corners.value(d=4, scale='unbiased, ties inside'):.4g} at d = 4. "
        f"Pooled mean errors on census data, in standard errors: {told}"
    )
    if apart["ties outside"] > _EXACT or max(map(abs, pooled.values())) > 5:
        return refuted(evidence)
    return by_criterion(apart["ties inside"] < _EXACT, evidence, otherwise=corrected)


def pooled_bias(means: Measured, line: str) -> float:
    """The mean errors of all settings together, each over its noise, in standard errors of their sum."""
    rows = [row for row in means.select(line=line, metric="bias").rows if row.stderr > 0]
    noise = [math.sqrt(means.value(**{**row.where, "metric": "MSE"})) for row in rows]
    total = sum(row.value / size for row, size in zip(rows, noise, strict=True))
    spread = math.hypot(*(row.stderr / size for row, size in zip(rows, noise, strict=True)))
    return total / spread if spread else 0.0


def worst_variance(found: Measured) -> Verdict:
    """Algorithm 2's formula against the integers that are sampled."""
    apart = [
        abs(row.value / found.value(**{**row.where, "line": "eq. 33"}) - 1)
        for row in found.select(line="Algorithm 2").rows
    ]
    return by_criterion(max(apart) < 1e-6, f"formula and sampled integers differ by {max(apart):.1e} at most")


def below_gaussian(found: Measured) -> Verdict:
    """At every epsilon of the grid, by how much."""
    here = found.select(panel="epsilon")
    ratios = [here.value(epsilon=e, line="Opt-GM") / here.value(epsilon=e, line="Algorithm 2") for e in EPSILONS]
    there = found.select(panel="delta")
    by_delta = [
        row.value / there.value(delta=row.where["delta"], line="Algorithm 2")
        for row in there.select(line="Opt-GM").rows
    ]
    told = ", ".join(f"{ratio:.3g} (epsilon {e:g})" for e, ratio in zip(EPSILONS, ratios, strict=True))
    evidence = (
        f"variance of Opt-GM over that of Algorithm 2: {told}; over delta at epsilon 1 at least {min(by_delta):.3g}"
    )
    return by_criterion(min(*ratios, *by_delta) > 1, evidence)


def error_bound(found: Measured) -> Verdict:
    """Slopes of the 95% quantile of the largest error, and what the printed denominator would ask for."""
    told, right = [], True
    for line in ("Mechanism-1", "Mechanism-2"):
        here = found.select(line=line, epsilon=0.5)
        in_d, in_n = here.select(people=4_000).curve("d"), here.select(d=10).curve("people")
        dims = np.array(in_d.x, dtype=float)
        slopes = {
            "d": _slope(dims, in_d.value / np.sqrt(np.log(dims / _BETA))),
            "N": _slope(np.array(in_n.x, dtype=float), in_n.value),
            "epsilon": math.log(
                found.value(line=line, d=10, people=4_000, epsilon=0.5)
                / found.value(line=line, d=10, people=4_000, epsilon=0.1)
            )
            / math.log(5),
        }
        expected = {"d": 0.5, "N": -0.5, "epsilon": -1.0}
        right = right and all(abs(slopes[name] - expected[name]) < 0.12 for name in slopes)
        told.append(f"{line} {slopes['d']:.2f}, {slopes['N']:.2f}, {slopes['epsilon']:.2f}")
    low, high = (found.select(line="Mechanism-1", people=4_000, epsilon=0.5).curve("d").x[place] for place in (0, -1))
    printed = [_over_bound(found, int(d)) for d in (low, high)]
    evidence = (
        f"powers of d (beside the logarithm), N and epsilon, .5, -.5 and -1 expected: {'; '.join(told)}. The 2^d delta "
        f"of eq. 25 belongs to the unsound form: with it the sound error over the bound goes from {printed[0]:.3g} "
        f"(d={low}) to {printed[1]:.3g} (d={high})"
    )
    if not right:
        return refuted(evidence)
    return by_criterion(printed[1] < 3 * printed[0], evidence, otherwise=corrected)


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _over_bound(found: Measured, d: int) -> float:
    error = found.value(line="Mechanism-1", people=4_000, epsilon=0.5, d=d)
    return error * (0.5 + 2.0**d * DELTA) * math.sqrt(4_000 / (d * math.log(d / _BETA)))


def splitting(found: Measured) -> Verdict:
    """The power of d in the error where every dimension has its share of the budget."""

    def power(line: str, epsilon: float) -> float:
        curve = found.select(panel="dimensions", line=line, epsilon=epsilon).curve("d")
        return _slope(np.array(curve.x, dtype=float), np.sqrt(curve.value))

    slopes = {epsilon: power("epsilon/d each", epsilon) for epsilon in (0.1, 1.0)}
    told = ", ".join(f"{slope:.3f} (epsilon {epsilon:g})" for epsilon, slope in slopes.items())
    evidence = (
        f"the error of one dimension grows with the power {told} of d, and the largest of d has sqrt(log d) beside it. "
        f"With shares of the budget by exact composition, as dither's Split has them, the power is "
        f"{power('Split', 0.1):.3f}, and with sampled dimensions {power('Mechanism-2', 0.1):.3f}"
    )
    return by_criterion(min(slopes.values()) > 0.97, evidence)


def best_floor(choices: Measured, roots: Measured) -> Verdict:
    """The variance with k by the floor, over the best one."""
    excess = {}
    for row in choices.select(choice="floor", metric="variance").rows:
        epsilon = row.where["epsilon"]
        excess[epsilon] = (row.value, choices.value(epsilon=epsilon, choice="best", metric="variance"))
    worse = {e: pair for e, pair in excess.items() if pair[0] > pair[1] * (1 + _EXACT)}
    told = ", ".join(f"{floor:.4g} against {best:.4g} (epsilon {e:g})" for e, (floor, best) in worse.items())
    root = roots.value(lemma=5, quantity="root of g2", what="value")
    return by_criterion(
        not worse,
        f"variance at d = 15 by the floor and by the best k: {told or 'equal'}; equal at the other "
        f"{len(excess) - len(worse)} epsilons tried. The real-valued optimum epsilon/k = {root:.4f} is "
        "right, rounding it down is not",
    )


def even_dimensions(found: Measured) -> Verdict:
    """Algorithm 4 breaks epsilon where d is even, and the repairs keep it."""
    broken = {row.where["d"]: row.value for row in found.select(form="Algorithm 4").rows}
    kept = [row.value for form in ("A.5", "A.8") for row in found.select(form=form).rows]
    even = {d: value for d, value in broken.items() if int(d) % 2 == 0}
    odd = [value for d, value in broken.items() if int(d) % 2]
    told = ", ".join(f"{value:.4g} (d={d})" for d, value in even.items())
    evidence = (
        f"epsilon beyond the declared one: {told}; for odd d {max(map(abs, odd)):.0e}; with A.5 and A.8 at most "
        f"{max(kept):.0e}"
    )
    return by_criterion(min(even.values()) > 0.01 and max(*kept, *odd) < 1e-9, evidence)


def alpha_below_one(found: Measured) -> Verdict:
    """Alpha is below 1 exactly where C_d delta is."""
    pairs = [
        (row.value, found.value(**{**row.where, "form": "alpha of eq. 24"}), row.where)
        for row in found.select(form="C_d delta").rows
    ]
    wrong = [where for size, alpha, where in pairs if (size < 1) != (alpha < 1)]
    above = [f"{alpha:.4g} (d={where['d']}, delta {where['delta']:g})" for size, alpha, where in pairs if size >= 1]
    evidence = f"{len(pairs)} settings, {len(wrong)} against it; alpha where C_d delta is 1 or more: {', '.join(above)}"
    return by_criterion(not wrong and bool(above), evidence)


CLAIMS = (
    Claim(
        "002.claim1",
        "a delta for each single output is as good as a delta for all sets of outputs",
        "Lemma 1",
        (DELIVERED,),
        pointwise_delta,
    ),
    Claim("002.claim2", "Algorithm 2 is (epsilon, delta)-LDP", "Theorem 3", (DELIVERED,), one_dimension),
    Claim("002.claim3", "Mechanism-2 is (epsilon, delta)-LDP", "Lemma 6", (DELIVERED,), sampled),
    Claim(
        "002.claim4",
        "Mechanism-1, Algorithm 2 and Mechanism-2 are unbiased, with either rule for ties",
        "Lemmas 3, 4 and 6, Remark 1",
        (CORNERS, REAL_MEANS),
        unbiased,
    ),
    Claim(
        "002.claim5",
        "the worst variance of Algorithm 2 is ((E+1)/(E+2 delta-1))^2",
        "eq. 33",
        (ONE_NUMBER,),
        worst_variance,
    ),
    Claim(
        "002.claim6",
        "Algorithm 2 has a smaller worst variance than Opt-GM everywhere",
        "Fig. 1",
        (ONE_NUMBER,),
        below_gaussian,
    ),
    Claim(
        "002.claim7",
        "the largest error is O(sqrt(d log(d/beta)) / ((epsilon + 2^d delta) sqrt(N))), for Mechanism-2 with 2 delta",
        "Theorems 2, 4 and 5",
        (LARGEST_ERRORS,),
        error_bound,
    ),
    Claim(
        "002.claim8",
        "splitting the budget over all dimensions makes the error grow faster than d",
        "section 4.2",
        (RECORD_VARIANCES,),
        splitting,
    ),
    Claim(
        "002.claim9",
        "the best number of sampled dimensions is floor(epsilon / 2.17)",
        "Lemma 5",
        (SAMPLED_DIMENSIONS, LEMMA_5),
        best_floor,
    ),
    Claim(
        "002.claim29",
        "the mechanism of Duchi et al. breaks epsilon-LDP for even d, and A.5 and A.8 repair it",
        "Appendix A.1 and A.2",
        (CORNERS,),
        even_dimensions,
    ),
    Claim("002.claim30", "alpha < 1 needs C_d delta < 1", "section 4.1", (DELIVERED,), alpha_below_one),
)
