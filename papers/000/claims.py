"""What 000 claims of its framework (1 to 7) and of its re-calibration (8 to 21), and how the numbers decide it."""

import math

from dither.reproduce.claims import Claim, Verdict, by_criterion, corrected, holds, refuted
from dither.reproduce.measured import Measured

from ..framework import BOUND, MANY_REPORTS, PRINTED, TOLERANCES, TRUE
from ..judging import BEYOND_NOISE, beyond, normal_law, told
from ..recalibration import DIMENSIONS as WIDTHS
from ..recalibration import EPSILONS, UNBIASED, WAVE, WAVE_EPSILONS
from ..recalibration_theorems import FEW, GAUSSIAN, HIGH, MANY, NARROW
from .experiments import (
    BERRY_ESSEEN,
    CALIBRATED,
    CASE_STUDY,
    DEVIATIONS,
    DIMENSIONS,
    FREQUENCIES,
    LEMMAS,
    MOMENTS,
    RANKING,
    SWEEP,
    THEOREMS,
)

PRINTED_CASE = {
    ("variance", "Piecewise"): 533.210,
    ("bias", "Square wave"): -0.049,
    ("variance", "Square wave"): 3.365e-5,
}
PRINTED_WITHIN = {
    "Piecewise": (3.46e-5, 3.46e-4, 0.002, 0.004),
    "Square wave": (2.12e-16, 2.62e-11, 0.644, 1.000),
}


def depends_on_value(found: Measured) -> Verdict:
    """Additive noise: one variance for all values. Bounded: another one for each."""

    def spread(mechanism: str, epsilon: float) -> float:
        here = found.select(mechanism=mechanism, epsilon=epsilon, quantity="variance")
        values = [row.value for row in here.rows]
        return max(values) / min(values) - 1

    additive = max(spread("Laplace", epsilon) for epsilon in (0.001, 0.1, 1.0))
    bounded = [spread(mechanism, 1.0) for mechanism in ("Piecewise", WAVE)]
    bias = max(
        abs(row.value) / math.sqrt(found.value(**{**row.where, "quantity": "variance"}))
        for row in found.select(mechanism="Laplace", quantity="bias").rows
    )
    text = (
        f"variance over values at most {additive:.1e} apart for Laplace (its lattice; bias {bias:.0e} standard "
        f"deviations), {bounded[0]:.0%} for Piecewise and {bounded[1]:.0%} for the square wave at epsilon 1"
    )
    return by_criterion(additive < 2e-3 and bias < 1e-6 and min(bounded) > 0.01, text)


def piecewise_variance(found: Measured) -> Verdict:
    """The printed formula, the right one, and the integers that are sampled."""
    ratios, lattice = [], []
    for epsilon in (0.001, 0.1, 1.0):
        for value in (0.0, 0.5, 1.0):
            here = found.select(epsilon=epsilon, at=value, quantity="variance")
            right = here.value(mechanism="Piecewise, right formula")
            ratios.append(here.value(mechanism="Piecewise, formula as printed") / right)
            lattice.append(abs(here.value(mechanism="Piecewise") / right - 1))
    text = (
        f"printed over right variance {min(ratios):.2f} to {max(ratios):.2f}; with t^2 and h + 3 the formula is that "
        f"of the sampled integers to {max(lattice):.1e}"
    )
    return by_criterion(max(abs(ratio - 1) for ratio in ratios) < 0.01, text, otherwise=refuted)


def printed_numbers(found: Measured) -> Verdict:
    """Every number of eq. 15 to 20 and Table II, to half a unit of three digits."""
    wrong, right = [], 0
    pairs = [(printed, found.value(mechanism=m, quantity=q), f"{m} {q}") for (q, m), printed in PRINTED_CASE.items()]
    for mechanism, row in PRINTED_WITHIN.items():
        pairs += [
            (printed, found.value(mechanism=mechanism, tolerance=tolerance), f"{mechanism} within {tolerance}")
            for tolerance, printed in zip(TOLERANCES, row, strict=True)
        ]
    for printed, value, what in pairs:
        unit = 10 ** (math.floor(math.log10(abs(printed))) - 2)
        if abs(value - printed) <= max(unit, 5.5e-4 if printed >= 1e-3 else 0.0):
            right += 1
        else:
            wrong.append(f"{what} {printed:g}, right {value:.4g}")
    text = f"{right} of {len(pairs)} printed numbers are right; " + "; ".join(wrong)
    return by_criterion(not wrong, text, otherwise=corrected)


def who_is_closer(found: Measured) -> Verdict:
    """Piecewise for the two small tolerances, square wave for the others."""
    ahead = [
        found.value(mechanism="Piecewise", tolerance=each) > found.value(mechanism="Square wave", tolerance=each)
        for each in TOLERANCES
    ]
    crossing = found.value(quantity="tolerance at which both are as likely")
    return by_criterion(
        ahead == [True, True, False, False], f"right numbers: they cross at a tolerance of {crossing:.4f}"
    )


def berry_esseen_bound(found: Measured) -> Verdict:
    """The bound is one, with the right third moment and with half of it; only one of them is proven."""
    laplace = found.select(mechanism="Laplace", reports=1000)
    printed, bound, true = (laplace.value(line=line) for line in (PRINTED, BOUND, TRUE))
    kept = all(row.value <= found.value(**{**row.where, "line": BOUND}) for row in found.select(line=TRUE).rows)
    text = (
        f"Laplace, 1,000 reports: {printed:.2%} as printed (third moment 3 lambda^3), {bound:.2%} with 6 lambda^3; the "
        f"true distance is {true:.4%}, so no run can tell them apart: the derivation is wrong, not the bound violated. "
        f"The right bound {'holds' if kept else 'fails'} for three mechanisms, {MANY_REPORTS[0]} to "
        f"{MANY_REPORTS[-1]:,} reports"
    )
    if not kept:
        return refuted(text)
    return by_criterion(abs(bound / 0.0157 - 1) < 0.01, text, otherwise=corrected)


def rate(found: Measured) -> Verdict:
    """The slope of the true distance on logarithmic axes."""
    slopes = {}
    for mechanism in found.along("mechanism"):
        line = found.curve("reports", mechanism=mechanism, line=TRUE)
        slopes[str(mechanism)] = math.log(line.value[-1] / line.value[2]) / math.log(1e5 / 100)
    shown = ", ".join(f"{name} {slope:.3f}" for name, slope in slopes.items())
    return by_criterion(
        max(slopes.values()) < -0.499, f"slope of the true distance from 100 to 100,000 reports: {shown}"
    )


def lemma_4(found: Measured) -> Verdict:
    """L1 wherever a dimension deviates by more than 1."""
    here = found.select(beyond=1.0, line="L1")
    fails = [row.value for row in here.rows if "quantity" not in row.where]
    many = sum(row.value for row in here.select(quantity="cases").rows)
    text = f"not closer in {sum(fails):.0%} of {many:,.0f} cases, those beyond the supremum among them"
    return by_criterion(sum(fails) == 0, text)


def lemma_5(found: Measured) -> Verdict:
    """L2 as printed, and with the absolute value of the mean."""

    def fails(line: str, limit: float) -> list[float]:
        return [row.value for row in found.select(beyond=limit, line=line).rows if "quantity" not in row.where]

    printed, sized = fails("L2, as printed", 2.0), fails("L2, |mean|", 2.0) + fails("L2, |mean|", 1.0)
    text = (
        f"as printed (mean with its sign) not closer in {max(printed):.1%} of the cases beyond 2, all with negative "
        f"means, and without a value at 0; with |mean| in {max(sized):.0%} of those beyond 2 and of those beyond 1: "
        "1 is enough"
    )
    if max(printed) == 0:
        return holds(text)
    return by_criterion(max(sized) > 0, text, otherwise=corrected) if max(sized) == 0 else refuted(text)


def _theorem(found: Measured, line: str, against: str) -> Verdict:
    """The claimed probability, and in how many draws the error shrank."""
    here = found.select(line=line)
    claimed, share = here.value(case=against, quantity="claimed"), here.row(case=against, quantity="share of draws")
    enough = here.value(case=GAUSSIAN, quantity="enough")
    text = (
        f"{against}: claimed {claimed:.3f}, the error shrank in {share.value:.1%} of the draws; the product of tails, "
        f"which is enough, says {enough:.0e} for the Gaussian data at epsilon 0.8, where it shrank in "
        f"{here.value(case=GAUSSIAN, quantity='share of draws'):.0%}"
    )
    noise = 0.0 if math.isnan(share.stderr) else share.stderr
    return by_criterion(share.value + BEYOND_NOISE * noise >= claimed, text)


def theorem_3(found: Measured) -> Verdict:
    """L1."""
    return _theorem(found, "L1", HIGH)


def theorem_4(found: Measured) -> Verdict:
    """L2 with the printed weight."""
    return _theorem(found, "L2, known mean", MANY)


def beats_aggregation(found: Measured, theorems: Measured) -> Verdict:
    """Every epsilon of eight panels, L1 (and, for information, at 99.7%) and both readings of L2."""
    worst: dict[str, float] = {}
    lost = 0
    for data in ("Gaussian", "Poisson", "Uniform", "Factors"):
        for mechanism in UNBIASED:
            for epsilon in EPSILONS:
                here = found.select(source="law", data=data, mechanism=mechanism, epsilon=epsilon)
                for line in ("L1", "L1, 99.7%", "L2, known mean", "L2"):
                    ratio = here.value(line=line) / here.value(line="none")
                    worst[line] = max(worst.get(line, 0.0), ratio)
                    lost += line != "L1, 99.7%" and beyond(here, "line", "none", line) < BEYOND_NOISE
    shown = ", ".join(f"{line} {ratio:.2f}" for line, ratio in worst.items())
    elsewhere = [theorems.value(case=NARROW, line=line, quantity="error, times that before") for line in ("L1", "L2")]
    text = (
        f"largest error beside no re-calibration over 48 points: {shown}; {lost} of 144 comparisons not beyond noise. "
        f"It rests on means near 0: with all means 0.9 and a standard error of 0.28 the error is {told(elsewhere)} "
        "times as large"
    )
    return by_criterion(lost == 0, text)


def falls_slowly(found: Measured) -> Verdict:
    """How much smaller the error is at the last epsilon than at the first."""
    parts, right = [], True
    for mechanism in UNBIASED:
        here = found.select(source="law", data="Gaussian", mechanism=mechanism)
        falls = {
            line: here.value(line=line, epsilon=EPSILONS[0]) / here.value(line=line, epsilon=EPSILONS[-1])
            for line in ("L1", "L2, known mean", "L2")
        }
        right &= falls["L2, known mean"] < falls["L1"]
        parts.append(f"{mechanism}: " + ", ".join(f"{line} by {fall:.3g}" for line, fall in falls.items()))
    return by_criterion(right, f"from epsilon 0.1 to 3.2 the error falls, {'; '.join(parts)}")


def flat_in_epsilon(found: Measured) -> Verdict:
    """The largest over the smallest error of L2 in a panel."""
    flat, steep = [], []
    for data in ("Uniform", "Factors"):
        for mechanism in UNBIASED:
            here = found.select(source="law", data=data, mechanism=mechanism)
            for line, kept in (("L2, known mean", flat), ("L2", steep)):
                values = here.curve("epsilon", line=line).value
                kept.append(float(values.max() / values.min()))
    text = (
        f"largest over smallest error in a panel: {told(flat)} with the true means in the weight, {told(steep)} with "
        "the weight that needs none: it is flat because the weight knows that the means are next to 0"
    )
    return by_criterion(max(flat) < 1.5, text)


def square_wave_gaussian(found: Measured) -> Verdict:
    """L1 and L2 beside none, at every epsilon."""
    here = found.select(source="law", data="Gaussian", mechanism=WAVE)
    ratios = {
        line: [here.value(line=line, epsilon=each) / here.value(line="none", epsilon=each) for each in WAVE_EPSILONS]
        for line in ("L1", "L2, known mean")
    }
    last = here.value(line="none", epsilon=WAVE_EPSILONS[-1])
    text = (
        f"error beside none at epsilon {', '.join(f'{each:g}' for each in WAVE_EPSILONS)}: L1 {told(ratios['L1'])}; L2 "
        f"{told(ratios['L2, known mean'])}. At 5,000 the error itself is {last:.0e}, below any picture"
    )
    same = max(abs(ratio - 1) for ratio in ratios["L1"][:-1]) < 0.06
    worse = beyond(here, "line", "L2, known mean", "none", epsilon=WAVE_EPSILONS[-1]) > BEYOND_NOISE
    everywhere = same and abs(ratios["L1"][-1] - 1) < 0.06
    if not (same and worse):
        return refuted(text)
    return by_criterion(everywhere, text, otherwise=corrected)


def square_wave_elsewhere(found: Measured) -> Verdict:
    """Where L1 or L2 has a smaller error than none, beyond noise."""
    helped: dict[str, float] = {}
    for data in ("Poisson", "Uniform", "Factors", "MNIST"):
        for epsilon in WAVE_EPSILONS:
            here = found.select(source="law", data=data, mechanism=WAVE, epsilon=epsilon)
            for line in ("L1", "L2, known mean"):
                ratio = here.value(line=line) / here.value(line="none")
                if ratio < 0.99 and beyond(here, "line", "none", line) > BEYOND_NOISE:
                    helped[data] = min(helped.get(data, 1.0), ratio)
    shown = ", ".join(f"{data} (error times {ratio:.2f} at best)" for data, ratio in helped.items())
    text = f"helps on {shown}" if helped else "no point where it helps by more than 1%"
    if "Poisson" in helped:
        return refuted(text)
    return by_criterion(not helped, f"{text}; elsewhere never by more than 1%", otherwise=corrected)


def by_dimensions(found: Measured) -> Verdict:
    """Fig. 5: against none at every d, and the shape of L2."""
    parts, lost, falls, flat = [], [], True, True
    for data in ("Factors", "MNIST"):
        for mechanism in UNBIASED:
            here = found.select(source="law", data=data, mechanism=mechanism)
            lost += [
                f"{line} on {data}, {mechanism}, d = {d} ({told([here.value(line=line, d=d)])} against "
                f"{told([here.value(line='none', d=d)])})"
                for line in ("L1", "L2, known mean")
                for d in WIDTHS
                if beyond(here, "line", "none", line, d=d) < BEYOND_NOISE
            ]
            errors = [here.value(line="L2, known mean", d=d) for d in WIDTHS]
            falls &= errors[0] > errors[1] > errors[2]
            flat &= abs(errors[-1] / errors[3] - 1) < 0.1
            parts.append(f"{data}, {mechanism}: {told(errors)}")
    text = (
        f"not better than none: {'; '.join(lost) or 'nowhere'}. L2 at d = 50 to 1600: {'; '.join(parts)}: more "
        "noise makes it worse, if columns are alike"
    )
    if lost or not falls:
        return refuted(text)
    return by_criterion(flat, text, otherwise=corrected)


def hardly_varies(found: Measured) -> Verdict:
    """The square wave at epsilon 10 beside 0.1, d = 100."""
    here = found.select(source="law", data="Gaussian", mechanism=WAVE, line="none")
    ratio = here.value(epsilon=10.0) / here.value(epsilon=0.1)
    return by_criterion(ratio > 0.9, f"error at epsilon 10 over that at 0.1, 100 dimensions: {ratio:.3f}")


def frequencies_private(found: Measured) -> Verdict:
    """The certificate of the integers that are sampled, and what is left below it."""
    certified = found.select(quantity="certified epsilon").rows
    off = max(abs(row.value / float(row.where["epsilon"]) - 1) for row in certified)
    over = max(row.value - float(row.where["epsilon"]) for row in certified)
    left = min(row.value for row in found.select(quantity="delta at 0.999 epsilon").rows)
    text = (
        f"certified epsilon of one-hot vectors at most {over:.0e} above the declared one and within {off:.0e} of it; "
        f"at 0.999 epsilon a delta of {left:.0e} is needed, so it is tight"
    )
    return by_criterion(over <= 0 and off < 1e-6 and left > 0, text)


def ranking_without_experiments(found: Measured) -> Verdict:
    """The order of three mechanisms at six epsilons: foretold, and from reports."""
    same, ratios = 0, []
    for epsilon in EPSILONS:
        here = found.select(epsilon=epsilon)
        names = (*UNBIASED, WAVE)
        orders = [sorted(names, key=lambda name: here.value(line=name, by=by)) for by in ("law", "reports")]
        same += orders[0] == orders[1]
        ratios += [here.value(line=name, by="reports") / here.value(line=name, by="law") for name in names]
    wave = found.select(epsilon=0.1, by="law")
    text = (
        f"same order at {same} of {len(EPSILONS)} budgets; errors of reports are {min(ratios):.2f} to "
        f"{max(ratios):.2f} times the foretold ones. The square wave leads ({wave.value(line=WAVE):.3g} at epsilon "
        f"0.1) because it answers the middle whatever the data; read without bias it has "
        f"{wave.value(line=CALIBRATED):.3g}"
    )
    return by_criterion(same == len(EPSILONS), text)


def harms_small(found: Measured) -> Verdict:
    """d = 2, epsilon 3.2, 100,000 users, means 0.9."""
    here = found.select(case=FEW, quantity="error, times that before")
    ratios = {str(row.where["line"]): row for row in here.rows}
    shown = ", ".join(f"{line} {row.value:.2f}" for line, row in ratios.items())
    worse = all(row.value - BEYOND_NOISE * (row.stderr if row.stderr > 0 else 0) > 1 for row in ratios.values())
    return by_criterion(worse, f"error times that before, Laplace with d = 2, epsilon 3.2, n = 100,000: {shown}")


CLAIMS = (
    Claim(
        "000.claim1",
        "the deviation of a dimension is normal, with the mean bias and the r-th part of the mean variance of a report",
        "Lemma 2 and 3, Theorem 1, Fig. 2 and 3",
        (DEVIATIONS,),
        normal_law,
    ),
    Claim(
        "000.claim2",
        "bias and variance of a report depend on the value for bounded mechanisms, not for additive ones",
        "Lemma 1",
        (MOMENTS,),
        depends_on_value,
    ),
    Claim(
        "000.claim3",
        "the variance of Piecewise is t/(h-1) + e^(h'+3)/(3(h-1)^2)",
        "eq. 14",
        (MOMENTS,),
        piecewise_variance,
    ),
    Claim("000.claim4", "the numbers of the case study", "eq. 15 to 20, Table II", (CASE_STUDY,), printed_numbers),
    Claim(
        "000.claim5",
        "Piecewise is more likely to stay within 0.001 and 0.01, the square wave within 0.05 and 0.1",
        "text at Table II",
        (CASE_STUDY,),
        who_is_closer,
    ),
    Claim(
        "000.claim6",
        "the distance from the normal law is at most 1.57% for Laplace noise and 1,000 reports",
        "Theorem 2, eq. 21, 22",
        (BERRY_ESSEEN,),
        berry_esseen_bound,
    ),
    Claim("000.claim7", "it falls at least as fast as 1/sqrt(r)", "Theorem 2", (BERRY_ESSEEN,), rate),
    Claim(
        "000.claim8",
        "with lambda = sup, L1 brings a dimension closer wherever it deviates by more than 1",
        "Lemma 4",
        (LEMMAS,),
        lemma_4,
    ),
    Claim(
        "000.claim9",
        "with its weight, L2 brings a dimension closer wherever it deviates by more than 2",
        "Lemma 5",
        (LEMMAS,),
        lemma_5,
    ),
    Claim(
        "000.claim10",
        "L1 makes the whole error smaller with probability 1 - P(all deviations within 1) at least",
        "Theorem 3",
        (THEOREMS,),
        theorem_3,
    ),
    Claim(
        "000.claim11",
        "L2 makes the whole error smaller with probability 1 - P(all deviations within 2) at least",
        "Theorem 4",
        (THEOREMS,),
        theorem_4,
    ),
    Claim(
        "000.claim12",
        "L1 and L2 beat plain aggregation of Laplace and Piecewise at every epsilon, on all data",
        "Fig. 4 (a, b, d, e, g, h, j, k)",
        (SWEEP, THEOREMS),
        beats_aggregation,
    ),
    Claim(
        "000.claim13",
        "on Gaussian data the error of L2 falls more slowly with epsilon than that of L1",
        "Fig. 4 (a-c)",
        (SWEEP,),
        falls_slowly,
    ),
    Claim(
        "000.claim14",
        "L2 is nearly constant in epsilon on Uniform and COV-19, since its entries are nearly 0",
        "Fig. 4 (g, h, j, k)",
        (SWEEP,),
        flat_in_epsilon,
    ),
    Claim(
        "000.claim15",
        "square wave on Gaussian data: L2 is worse than aggregation at epsilon 5,000, L1 equals it everywhere",
        "Fig. 4 (c)",
        (SWEEP,),
        square_wave_gaussian,
    ),
    Claim(
        "000.claim16",
        "re-calibration does not help the square wave",
        "Fig. 4 (f, i, l)",
        (SWEEP,),
        square_wave_elsewhere,
    ),
    Claim(
        "000.claim17",
        "both beat aggregation at every d; L2 improves with d up to 200 and is flat from 400 on",
        "Fig. 5",
        (DIMENSIONS,),
        by_dimensions,
    ),
    Claim(
        "000.claim18",
        "the error of the square wave hardly varies where epsilon is small",
        "section VI",
        (SWEEP,),
        hardly_varies,
    ),
    Claim(
        "000.claim19",
        "epsilon/(2m) for each entry keeps epsilon for one-hot vectors",
        "section V-C",
        (FREQUENCIES,),
        frequencies_private,
    ),
    Claim(
        "000.claim20",
        "the framework ranks mechanisms without an experiment as experiments would",
        "abstract",
        (RANKING,),
        ranking_without_experiments,
    ),
    Claim(
        "000.claim21",
        "with few dimensions or a large epsilon re-calibration does harm",
        "section V-B",
        (THEOREMS,),
        harms_small,
    ),
)
