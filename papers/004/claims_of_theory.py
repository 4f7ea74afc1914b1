"""What 004 claims by formulas, and what the integers and enumeration say."""

import math

from dither.reproduce.claims import Claim, Verdict, by_criterion, corrected, holds, refuted
from dither.reproduce.measured import Measured, NotMeasuredError

from .formulas import (
    CELLS_IN_QUERIES,
    GROUPS,
    INSIDE_A_CELL,
    LARGEST,
    ONE_ATTRIBUTE,
    SQUARE_WAVE,
    UNIFORMITY,
    VARIANCES,
)


def private(found: Measured) -> Verdict:
    """The exact epsilon of both methods, and of local hashing with a rounded c' and p left at 1/2."""
    over = max(
        row.value / float(row.where["epsilon"])
        for line in ("HDG", "TDG")
        for row in found.select(of="privacy", line=line).rows
    )
    printed = found.value(of="privacy", line="OLH with p = 1/2", epsilon=1.0)
    text = (
        f"certified epsilon over the asked one: at most {over:.9f}, with p made for the whole number c'; with "
        "p left at "
        f"1/2 and c' rounded to 4, epsilon 1 becomes {printed:.4f}"
    )
    return by_criterion(over <= 1 + 1e-12, text)


def oracles(found: Measured) -> Verdict:
    """Printed variances against the integers, and the border between the oracles."""
    here = found.select(of="oracle")
    plain = hashed = 0.0
    wrong = []
    for epsilon in here.along("epsilon"):
        border = 2 + 3 * math.exp(float(epsilon))
        for c in range(2, LARGEST + 1):
            values = {line: here.value(line=line, c=c, epsilon=epsilon) for line in ("GRR", "OLH", "eq. 2", "eq. 3")}
            plain = max(plain, abs(values["GRR"] / values["eq. 2"] - 1))
            hashed = max(hashed, abs(values["OLH"] / values["eq. 3"] - 1))
            if (values["GRR"] < values["OLH"]) != (c < border):
                wrong.append(f"epsilon {epsilon}, c {c}")
    text = f"GRR: eq. 2 is off by {plain:.1e} at most; OLH with a whole c': by {hashed:.2%} from eq. 3 "
    at = {line: here.value(line=line, c=16, epsilon=1.0) for line in ("OLH", "eq. 3")}
    text += f"({at['OLH']:.4f} against {at['eq. 3']:.4f} at epsilon 1); "
    text += (
        f"the border c - 2 < 3E is wrong at {', '.join(wrong)}"
        if wrong
        else "the border c - 2 < 3E is right everywhere"
    )
    if plain < 1e-6 and hashed < 0.01 and not wrong:
        return holds(text)
    return corrected(text) if plain < 1e-6 and hashed < 0.1 else refuted(text)


def dividing_users(found: Measured) -> Verdict:
    """The variance of splitting epsilon over that of dividing users."""
    here = found.select(of="dividing")
    gains = {
        float(e): here.value(line="epsilon", epsilon=e) / here.value(line="users", epsilon=e)
        for e in here.along("epsilon")
    }
    low, high = min(gains), max(gains)
    text = (
        f"m = {GROUPS}: variance with epsilon / m over that with n / m users: {gains[low]:.1f} at epsilon "
        f"{low:g}, {gains[high]:.1f} at {high:g}"
    )
    return by_criterion(all(0.9 * GROUPS < gain < 2 * GROUPS for gain in gains.values()), text)


def inside(found: Measured) -> Verdict:
    """The variance of one value of a cell."""
    parts, printed, even = [], [], []
    for gamma in found.along("gamma"):
        row = found.row(gamma=gamma, of="measured")
        error = row.stderr if row.stderr == row.stderr else row.value * math.sqrt(2 / 4000)
        error = max(error, row.value * math.sqrt(2 / 4000 / row.repetitions))
        parts.append(f"gamma {gamma}: {row.value:.4f} ± {error:.1g} Var0")
        printed.append(abs(row.value - 1 / float(gamma)) < 4 * error)
        even.append(abs(row.value - 1 / float(gamma) ** 2) < 4 * error)
    text = f"{'; '.join(parts)}: Var0 / gamma^2 for each value, Var0 / gamma is the sum over the cell"
    return holds(text) if all(printed) else corrected(text) if all(even) else refuted(text)


def dominated(found: Measured) -> Verdict:
    """The parts of eq. 4 for even cells."""
    here = found.select(of="eq. 4")
    ratios = {}
    for epsilon in here.along("epsilon"):
        for grid in here.along("grid"):
            noise, own, drawn = (
                here.value(line=line, grid=grid, epsilon=epsilon) for line in ("noise", "own cell", "sampling")
            )
            ratios[f"{grid}, epsilon {epsilon}"] = (own + drawn) / noise
    worst = max(ratios, key=lambda name: ratios[name])
    text = (
        f"the two other parts together over 4mE/(n(E-1)^2), for even cells: {min(ratios.values()):.2%} to "
        f"{ratios[worst]:.0%} ({worst}); 16 cells, epsilon 1: {ratios['2-D, epsilon 1.0']:.1%}"
    )
    return by_criterion(ratios[worst] < 0.1, text, otherwise=corrected)


def non_uniformity(found: Measured) -> Verdict:
    """The slope of the bias in the number of cells, on logarithmic axes, from 4 to 16."""
    slopes, levels = {}, {}
    for data in found.along("data"):
        for line in ("1-D", "2-D"):
            first, last = (found.value(data=data, line=line, g=g, of="bias") for g in (4, 16))
            slopes[f"{data}, {line}"] = math.log(last / first) / math.log(4)
            levels[f"{data}, {line}"] = 16 * last
    text = "slope from 4 to 16 cells (-1 is assumed): " + ", ".join(
        f"{name} {slope:.2f}" for name, slope in slopes.items()
    )
    text += "; error times g at 16 cells (.7 and .06 are assumed): " + ", ".join(
        f"{name} {level:.2g}" for name, level in levels.items()
    )
    if not slopes:
        raise NotMeasuredError("grids without noise")
    if min(slopes.values()) > -1.3:
        return holds(text)
    mixed = f"{text}: -1 where many users are in few values, -2 where the distribution is smooth"
    return corrected(mixed) if max(slopes.values()) > -1.3 else refuted(text)


def half_of_the_cells(found: Measured) -> Verdict:
    """How many cells a query holds, over g/2 and (g/2)^2."""
    worst = parts = None
    apart = []
    for g in found.along("g"):
        half = float(g) / 2
        volume = found.value(g=g, ends="any", line="by volume", of="1-D") / half
        apart.append(abs(volume - 1))
        if g == 16:
            parts = ", ".join(
                f"{ends} {line} {found.value(g=g, ends=ends, line=line, of='1-D'):.2f}"
                for ends in ("round", "any")
                for line in ("whole", "touched")
            )
            worst = found.value(g=g, ends="any", line="whole", of="2-D") / half**2
    text = (
        f"by volume a query of half of the values holds g/2 cells (off by {max(apart):.1e} at most); 16 cells: "
        f"{parts}; whole cells of a pair over (g/2)^2: {worst:.2f}"
    )
    return by_criterion(max(apart) < 1e-9, text)


def waves(formula: Measured, errors: Measured) -> Verdict:
    """The formula for delta, and ranges on one attribute."""
    apart = {
        float(e): abs(formula.value(line="printed", epsilon=e) - formula.value(line="exact", epsilon=e))
        for e in formula.along("epsilon")
    }
    ours = max(
        abs(formula.value(line="dither", epsilon=e) - formula.value(line="exact", epsilon=e))
        for e in formula.along("epsilon")
    )
    small = min(apart)
    behind, total, ratios = 0, 0, []
    for row in errors.select(line="SW").rows:
        others = [errors.value(**{**row.where, "line": line}) for line in ("grid", "HIO")]
        total += 1
        ratios.append(min(others) / row.value)
        behind += ratios[-1] < 0.9
    text = (
        "delta: the printed formula is right for epsilon from .01 on (off by "
        f"{max(v for e, v in apart.items() if e >= 0.01):.1e}), and off by {apart[small]:.2g} "
        f"at epsilon {small:g}, where it cancels (the limit is 1/2 - epsilon/3); dither's window differs by "
        f"{ours:.2g} at "
        f"most. Ranges on one attribute: the better of a grid and HIO over the square wave {min(ratios):.2g} "
        f"to {max(ratios):.2g}, below .9 in {behind} of {total}"
    )
    good = max(value for epsilon, value in apart.items() if epsilon >= 0.01) < 1e-9
    if not good:
        return refuted(text)
    return holds(text) if behind == 0 else corrected(text) if behind <= total / 2 else refuted(text)


CLAIMS = (
    Claim("004.claim1", "TDG and HDG are epsilon-LDP", "section 4.5", (VARIANCES,), private),
    Claim(
        "004.claim2",
        "the variances of GRR and OLH, and GRR is the better one iff c - 2 < 3E",
        "eq. 2, 3",
        (VARIANCES,),
        oracles,
    ),
    Claim(
        "004.claim3",
        "dividing users is better than dividing epsilon by a factor of about m",
        "section 2.3",
        (VARIANCES,),
        dividing_users,
    ),
    Claim(
        "004.claim28",
        "the squared noise of a value in a cell of gamma values is Var0 / gamma",
        "appendix A.3",
        (INSIDE_A_CELL,),
        inside,
    ),
    Claim(
        "004.claim33",
        "noise and sampling error are dominated by 4mE/(n(E-1)^2)",
        "section 4.5",
        (VARIANCES,),
        dominated,
    ),
    Claim(
        "004.claim34",
        "the non-uniformity error is alpha1/g1, and 2 alpha2/g2",
        "section 4.6",
        (UNIFORMITY,),
        non_uniformity,
    ),
    Claim(
        "004.claim35",
        "an average query includes g1/2 cells, and (g2/2)^2 of a pair",
        "section 4.6",
        (CELLS_IN_QUERIES,),
        half_of_the_cells,
    ),
    Claim(
        "004.claim36",
        "the square wave's p, p' and delta, and that it beats others on one attribute",
        "section 3.5",
        (SQUARE_WAVE, ONE_ATTRIBUTE),
        waves,
    ),
)
