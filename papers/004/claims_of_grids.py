"""What 004 claims about its grids: granularities, how users are divided, what each phase does, convergence."""

import math
import statistics

from dither.reproduce.claims import Claim, Verdict, by_criterion, corrected, holds, refuted
from dither.reproduce.measured import Measured, NotMeasuredError

from .evidence import cells, known, mean, race
from .granularities import CELLS, OWN, PAIRS, SIGMA, chosen, name_of
from .phases import COMPONENTS, CONVERGENCE, SPREAD

_ALPHAS = [(0.7 * 2 ** (a / 2), 0.03 * 2 ** (b / 2)) for a in range(-4, 5) for b in range(-4, 5)]


def guided(found: Measured) -> Verdict:
    """The guideline's error over that of the best pair (g1, g2), for round and for free ranges."""
    parts, behind, total = [], 0, 0
    for ends in ("round", "any"):
        ratios = {}
        for cell in cells(found.select(line="HDG", ends=ends), "data", "d", "epsilon", "ends"):
            own = mean(found, line="HDG", **cell)
            every = {name_of(*pair): mean(found, line=name_of(*pair), **cell) for pair in PAIRS}
            best = min(every, key=lambda name: every[name].value)
            behind += any(each.below(own) for each in every.values())
            where = f"{cell['data']}, d {cell['d']}, epsilon {cell['epsilon']}"
            ratios[f"{where}: best {best}"] = own.value / every[best].value
        total += len(ratios)
        worst = max(ratios, key=lambda name: ratios[name])
        middle = statistics.median(ratios.values())
        parts.append(f"{ends} ranges: {middle:.2f} in the middle, at most {ratios[worst]:.2f} ({worst})")
    outcome = race(found, OWN, ("HDG",), cells(found.select(line=OWN), "data", "d", "epsilon", "ends"))
    text = (
        f"error of the guideline over the least of {len(PAIRS)}, which is lucky: {'; '.join(parts)}; another pair is "
        f"surely better in {behind} of {total} cells. dither's own cells against it: {outcome}"
    )
    return holds(text) if not behind else corrected(text) if behind <= total / 4 else refuted(text)


def constants(found: Measured) -> Verdict:
    """The mean log ratio to the best pair, for alphas around the printed ones, on all cells."""
    places = cells(found.select(line="HDG"), "data", "d", "epsilon", "ends")
    if not places:
        raise NotMeasuredError("granularities of HDG")
    errors = [{pair: mean(found, line=name_of(*pair), **cell).value for pair in PAIRS} for cell in places]
    users = [10**6 / (int(cell["d"]) * (int(cell["d"]) + 1) // 2) for cell in places]

    def loss(one: float, two: float) -> float:
        total = 0.0
        for cell, error, n in zip(places, errors, users, strict=True):
            # g1 goes with alpha1^(2/3), g2 with alpha2^(1/2): as if there were more users
            picked = chosen(float(cell["epsilon"]), n * (one / 0.7) ** 2, n * (two / 0.03) ** 2)
            pair = (max(picked), min(picked))
            total += math.log(error[pair] / min(error.values()))
        return math.exp(total / len(places))

    losses = {alphas: loss(*alphas) for alphas in _ALPHAS}
    best = min(losses, key=lambda alphas: losses[alphas])
    own = loss(0.7, 0.03)
    text = (
        f"error over that of the best pair, geometric mean of {len(places)} cells: {own:.3f} with .7 and .03, "
        f"{losses[best]:.3f} with {best[0]:.2f} and {best[1]:.3f}, the best of {len(losses)} choices"
    )
    return holds(text) if own / losses[best] < 1.1 else corrected(text) if own / losses[best] < 1.3 else refuted(text)


def divided(found: Measured) -> Verdict:
    """The error with equal groups over the least one, and over the range .2 to .6."""
    ratios, wide = {}, {}
    for cell in cells(found, "data", "epsilon"):
        curve = found.curve("sigma", curve=f"epsilon {cell['epsilon']:g}", **cell)
        least = float(curve.value.min())
        by = dict(zip(curve.x, curve.value.tolist(), strict=True))
        name = f"{cell['data']}, epsilon {cell['epsilon']:g}"
        ratios[name] = by[0.2857] / least
        wide[name] = max(value for sigma, value in by.items() if 0.2 <= float(sigma) <= 0.6) / least
    text = (
        f"error at sigma .2857 over the least of ten sigmas: {statistics.median(ratios.values()):.2f} in the "
        "middle, at "
        f"most {max(ratios.values()):.2f} ({max(ratios, key=lambda name: ratios[name])}); the worst sigma in [.2, .6]: "
        f"{statistics.median(wide.values()):.2f} in the middle, at most {max(wide.values()):.2f}; one run is off by 10%"
    )
    if max(wide.values()) <= 1.2:
        return holds(text)
    return corrected(text) if statistics.median(ratios.values()) <= 1.15 else refuted(text)


def thresholds(found: Measured) -> Verdict:
    """Algorithm 2 stopped at 10/n, 1/n and less."""
    apart, rounds = [], []
    for cell in cells(found.select(measure="MAE", threshold=1.0), "data", "epsilon"):
        one, less, more = (found.value(measure="MAE", threshold=threshold, **cell) for threshold in (1.0, 0.01, 10.0))
        apart.append((abs(less - one) / one, abs(more - one) / one))
        rounds.append(found.value(measure="rounds", threshold=1.0, **cell))
    below, above = (max(each) for each in zip(*apart, strict=True))
    text = (
        f"MAE at lambda 4 changes by at most {below:.2%} from 1/n to .01/n, by {above:.2%} from 1/n to 10/n; reaching "
        f"1/n takes {min(rounds):.0f} to {max(rounds):.0f} rounds on average"
    )
    return by_criterion(below < 0.01, text)


def converged(found: Measured) -> Verdict:
    """The summed change at round 20."""
    first = found.select(algorithm="Algorithm 1", round=20).rows
    second = found.select(algorithm="Algorithm 2", round=20).rows
    before = found.select(algorithm="Algorithm 2", round=10).rows
    largest, slow = max(row.value for row in first), max(row.value for row in second)
    falls = [late.value / early.value for early, late in zip(before, second, strict=True)]
    text = (
        f"mean summed change at round 20: Algorithm 1 at most {largest:.1e}, after two rounds at most "
        f"{max(row.value for row in found.select(algorithm='Algorithm 1', round=2).rows):.1e}; Algorithm 2 "
        f"{min(row.value for row in second):.1e} to {slow:.1e}, {min(falls):.2f} to {max(falls):.2f} of what it was at "
        "round 10; 1/n is 1e-6"
    )
    if largest >= 1e-6:
        return refuted(text)
    return (
        corrected(f"{text}: Algorithm 1 is done after one round, Algorithm 2 far from 1/n")
        if slow > 1e-6
        else holds(text)
    )


def as_entropy(found: Measured) -> Verdict:
    """Errors, steps and seconds of weighted update and of largest entropy."""
    places = cells(found.select(measure="MAE", form="entropy"), "data", "epsilon")

    def ratio(measure: str) -> float:
        logs = [
            math.log(
                found.value(measure=measure, form="weighted update", **cell)
                / found.value(measure=measure, form="entropy", **cell)
            )
            for cell in places
        ]
        return math.exp(statistics.mean(logs))

    printed = [found.value(measure="MAE", form="as printed", **cell) for cell in places]
    scaled = [found.value(measure="MAE", form="scaled", **cell) for cell in places]
    text = (
        f"weighted update over largest entropy, lambda 4, geometric means of {len(places)} cells: MAE "
        f"{ratio('MAE'):.3f}, "
        f"steps {ratio('iterations'):.1f}, seconds {ratio('seconds'):.2f} (Newton's method); Algorithm 2 as printed, "
        f"without scaling: MAE {statistics.mean(printed):.3f} against {statistics.mean(scaled):.3f}"
    )
    return by_criterion(ratio("MAE") < 1.05 and ratio("seconds") < 1, text)


def any_order(found: Measured) -> Verdict:
    """Consistency steps forwards and backwards."""
    even = max(row.value for row in found.select(measure="order", form="Norm-Sub").rows)
    raw = max(row.value for row in found.select(measure="order", form="raw").rows)
    text = (
        f"largest difference of a cell between two orders: {even:.1e} where all tables add up to one, "
        f"{raw:.1e} with the "
        "totals that the oracles leave: the steps commute for equal cuts and equal totals"
    )
    return refuted(text) if even > 1e-12 else corrected(text) if raw > 1e-12 else holds(text)


def little_is_left(found: Measured) -> Verdict:
    """Between grids, after the last Norm-Sub."""
    left = max(row.value for row in found.select(measure="inconsistency", form="after Phase 2").rows)
    first = min(row.value for row in found.select(measure="inconsistency", form="after the first Norm-Sub").rows)
    noise = min(row.value for row in found.select(measure="inconsistency", form="noise of a cell").rows)
    text = (
        f"largest difference between two grids after 100 rounds: at most {left:.1e}; before, at least "
        f"{first:.1e}; noise of a cell at least {noise:.1e}"
    )
    return by_criterion(left < 0.01 * noise, text)


def with_phase_2(found: Measured) -> Verdict:
    """ITDG over TDG, IHDG over HDG."""
    places = [
        cell for cell in cells(found.select(line="IHDG"), "data", "epsilon", "lambda") if cell["lambda"] in (2, 4)
    ]
    ratios: dict[str, list[float]] = {"TDG": [], "HDG": []}
    behind = ahead = 0
    for cell in places:
        means = known(found, ("TDG", "ITDG", "HDG", "IHDG"), cell)
        for name, each in ratios.items():
            each.append(means[f"I{name}"].value / means[name].value)
        behind += means["HDG"].below(means["IHDG"])
        ahead += means["IHDG"].below(means["HDG"])
    pairs, hybrid = (sorted(ratios[name]) for name in ("TDG", "HDG"))
    text = (
        f"{len(places)} cells: ITDG over TDG {statistics.median(pairs):.2f} in the middle, {pairs[0]:.2f} to "
        f"{pairs[-1]:.2f}; IHDG over HDG {statistics.median(hybrid):.2f}, {hybrid[0]:.2f} to {hybrid[-1]:.2f}: surely "
        f"worse in {behind}, surely better in {ahead}"
    )
    same = 0.9 < statistics.median(pairs) < 1.1
    if same and pairs[-1] < 1.3 and statistics.median(hybrid) > 1.1:
        return holds(text)
    return corrected(text) if same or statistics.median(hybrid) > 1 else refuted(text)


def steady(found: Measured) -> Verdict:
    """The standard deviation of a run in parts of the mean error."""
    each = {
        epsilon: sorted(row.value for row in found.select(measure="spread", line="HDG", epsilon=epsilon).rows)
        for epsilon in found.along("epsilon")
    }
    every = [value for values in each.values() for value in values]
    if not every:
        raise NotMeasuredError("runs of HDG on the same users")
    text = "standard deviation of a run of HDG over its mean error: " + "; ".join(
        f"epsilon {epsilon}: {values[0]:.0%} to {values[-1]:.0%}" for epsilon, values in each.items()
    )
    if max(every) < 0.05:
        return holds(text)
    text += ". Hard to see on an axis of powers of ten, and not small: differences below 10% mean nothing"
    return corrected(text) if statistics.median(every) < 0.25 else refuted(text)


def not_shown(found: Measured, granular: Measured) -> Verdict:
    """Whether the order of two methods at lambda 3, 5 and 6 is that at 2 or 4, where it is sure; and other d."""
    agree = differ = 0
    for cell in cells(found.select(line="IHDG"), "data", "epsilon"):
        for one, other in (("HDG", "TDG"), ("HDG", "IHDG"), ("TDG", "ITDG")):
            signs = {}
            for count in (2, 3, 4, 5, 6):
                means = known(found, (one, other), {**cell, "lambda": count})
                signs[count] = means[one].below(means[other]) - means[other].below(means[one])
            for count in (3, 5, 6):
                near = {signs[2], signs[4], 0}
                agree += signs[count] in near
                differ += signs[count] not in near
    behind = {}
    for d in granular.along("d"):
        places = cells(granular.select(line="HDG", ends="round", d=d), "data", "d", "epsilon", "ends")
        sure = 0
        for cell in places:
            own = mean(granular, line="HDG", **cell)
            sure += any(mean(granular, line=name_of(*pair), **cell).below(own) for pair in PAIRS)
        behind[d] = sure, len(places)
    text = (
        f"the sure order of HDG, TDG and their forms without Phase 2 at lambda 3, 5, 6 is that at 2 or 4 in {agree} of "
        f"{agree + differ}; another pair of granularities is surely better than the guideline's in "
        + ", ".join(f"{sure} of {many} cells (d {d})" for d, (sure, many) in behind.items())
    )
    same = agree >= 0.9 * (agree + differ)
    if same and all(sure <= many / 4 for sure, many in behind.values()):
        return holds(text)
    return corrected(text) if same else refuted(text)


CLAIMS = (
    Claim(
        "004.claim18",
        "with the guideline HDG is close to the best granularity at every epsilon and d",
        "section 5.4, Fig. 7, 16",
        (CELLS,),
        guided,
    ),
    Claim("004.claim19", "alpha1 = .7 and alpha2 = .03 are good across data", "section 4.6", (CELLS,), constants),
    Claim(
        "004.claim20",
        "any sigma from .2 to .6, and so the default, is nearly the best at every epsilon",
        "appendix A.5, Fig. 15",
        (SIGMA,),
        divided,
    ),
    Claim("004.claim21", "thresholds below 1/n change nothing", "sections 4.3, 4.4", (CONVERGENCE,), thresholds),
    Claim(
        "004.claim22",
        "Algorithm 1 has converged after twenty rounds, Algorithm 2 hardly changes then",
        "appendix A.6, Fig. 17, 18",
        (CONVERGENCE,),
        converged,
    ),
    Claim(
        "004.claim23",
        "weighted update is as accurate as maximum entropy, and faster",
        "section 4.4",
        (CONVERGENCE,),
        as_entropy,
    ),
    Claim(
        "004.claim24",
        "consistency steps may be taken in any order of attributes",
        "section 4.2",
        (CONVERGENCE,),
        any_order,
    ),
    Claim(
        "004.claim25",
        "the inconsistency that the last Norm-Sub leaves is very small",
        "section 4.2",
        (CONVERGENCE,),
        little_is_left,
    ),
    Claim(
        "004.claim26",
        "ITDG is as good as TDG; IHDG is unstable and mostly worse than HDG",
        "appendix A.1, Fig. 8",
        (COMPONENTS,),
        with_phase_2,
    ),
    Claim(
        "004.claim37",
        "standard deviations over runs are invisible: results are stable",
        "section 5.1",
        (SPREAD,),
        steady,
    ),
    Claim(
        "004.claim38",
        "settings that are not shown (lambda 3, 5, 6; other d) give similar results",
        "section 5.4, appendices A.1, A.6, A.7",
        (COMPONENTS, CELLS),
        not_shown,
    ),
)
