"""What 004 claims about the errors of methods (its Fig. 1 to 6, 11 to 14, 19 to 21, 28), and how numbers decide it."""

import math
from collections.abc import Sequence
from itertools import pairwise

from dither.reproduce.claims import Claim, Verdict, by_criterion, corrected, holds, refuted
from dither.reproduce.measured import Coordinates, Measured, NotMeasuredError

from .evidence import BASELINES, cells, known, mean, race, told
from .granularities import chosen
from .methods import OURS, PAPER
from .phases import COMPONENTS, FULL
from .sweeps import ATTRIBUTES, COVARIANCE, DATA, DOMAIN, EPSILON, LAMBDA, MADE, NEW_DATA, OMEGA, USERS

OTHERS = tuple(name for name in PAPER if name != "HDG")
PRIVATE = tuple(name for name in PAPER if name != "Uni")


def fig1(found: Measured, data: Sequence[str] = DATA, lambdas: Sequence[int] = (2, 4)) -> list[Coordinates]:
    """The cells of Fig. 1: data, epsilon and lambda, with round ranges."""
    every = cells(found, "data", "epsilon", "lambda", "ends", "omega")
    return [cell for cell in every if cell["data"] in data and cell["lambda"] in lambdas and cell["ends"] == "round"]


def ahead_of_all(found: Measured) -> Verdict:
    """HDG against the best other in all cells of Fig. 1."""
    outcome = race(found, "HDG", OTHERS, fig1(found))
    ours = race(found, OURS, PAPER, fig1(found))
    text = f"HDG: {outcome}. {OURS} against all of them: {ours}"
    if outcome.lost:
        return refuted(text)
    return by_criterion(outcome.middle >= 10, text, otherwise=corrected)


def better_with_epsilon(found: Measured) -> Verdict:
    """From the smallest to the largest epsilon, for each method, data and lambda."""
    budgets = sorted(float(each) for each in found.along("epsilon"))
    first = [cell for cell in fig1(found) if cell["epsilon"] == budgets[0]]
    falls, stays = falling(found, [(cell, {**cell, "epsilon": budgets[-1]}) for cell in first])
    text = f"from epsilon {budgets[0]:g} to {budgets[-1]:g}: {falls}{listed(stays)}"
    if not stays:
        return holds(text)
    return corrected(text) if {name.split(" ")[0] for name in stays} <= {"MSW"} else refuted(text)


def falling(found: Measured, pairs: Sequence[tuple[Coordinates, Coordinates]]) -> tuple[str, list[str]]:
    """How often the errors of private methods fall surely; and where they stay, within a tenth, or rise."""
    total, falls, stays = 0, 0, []
    for before, after in pairs:
        last = known(found, PRIVATE, after)
        for name, each in known(found, PRIVATE, before).items():
            if name in last:
                total += 1
                falls += last[name].below(each)
                if last[name].value > 0.9 * each.value:
                    where = f"{before['data']}, lambda {before['lambda']}"
                    stays.append(f"{name} on {where}: {each.value:.3g} to {last[name].value:.3g}")
    return f"the error falls surely in {falls} of {total}", stays


def listed(stays: Sequence[str]) -> str:
    """Some of the curves that do not fall."""
    return f"; it stays or rises in {len(stays)}, e.g. {'; '.join(stays[:5])}" if stays else ""


def hierarchies_are_worst(found: Measured) -> Verdict:
    """HIO against all others, and against a guess."""
    worst, not_worst, behind, total = 0, [], 0, 0
    for cell in fig1(found):
        means = known(found, PAPER, cell)
        if "HIO" not in means:
            continue
        total += 1
        behind += means["Uni"].below(means["HIO"])
        rest = {name: each for name, each in means.items() if name not in ("HIO", "Uni")}
        name = max(rest, key=lambda other: rest[other].value)
        worst += rest[name].value < means["HIO"].value
        if means["HIO"].below(rest[name]):
            not_worst.append(f"{told(cell)}: HIO {means['HIO'].value:.3g}, {name} {rest[name].value:.3g}")
    text = f"HIO has the largest error in {worst} of {total} cells, and surely a larger one than Uni in {behind}"
    text += f"; surely not the largest: {'; '.join(not_worst[:3])}" if not_worst else ""
    if behind <= total / 2:
        return refuted(text)
    return corrected(text) if not_worst else holds(text)


def ten_times_better(found: Measured) -> Verdict:
    """HIO's error over LHIO's at the ends of the grid of epsilon."""
    budgets = sorted(float(each) for each in found.along("epsilon"))
    ratios = {}
    for epsilon in (budgets[0], budgets[-1]):
        each = [known(found, ("HIO", "LHIO"), cell) for cell in fig1(found) if cell["epsilon"] == epsilon]
        logs = [math.log(means["HIO"].value / means["LHIO"].value) for means in each if len(means) == 2]
        if not logs:
            raise NotMeasuredError("HIO and LHIO")
        ratios[epsilon] = math.exp(sum(logs) / len(logs))
    low, high = ratios.values()
    text = f"error of HIO over that of LHIO, geometric mean: {low:.3g} at epsilon {budgets[0]:g}, "
    text += f"{high:.3g} at {budgets[-1]:g}"
    if 3 <= low <= 30 and high < low:
        return holds(text)
    return corrected(text) if low > 3 else refuted(text)


def tables_beat_hierarchies(found: Measured) -> Verdict:
    """CALM and LHIO, each with and without Norm-Sub, lambda 2."""
    forms = ("CALM, Norm-Sub", "CALM, as it is", "LHIO, Norm-Sub", "LHIO, as it is", "LHIO, least squares")
    wins = {(a, b): 0 for a in forms[:2] for b in forms[2:]}
    places = cells(found.select(line=forms[0]), "data", "epsilon", "lambda")
    example = ""
    for cell in places:
        means = known(found, forms, cell)
        for a, b in wins:
            wins[a, b] += means[a].below(means[b])
        if cell["data"] == "Normal" and cell["epsilon"] == 1.0:
            example = "; Normal, epsilon 1: " + ", ".join(f"{name} {each.value:.3g}" for name, each in means.items())
    text = f"cells of {len(places)} in which CALM is surely better: " + ", ".join(
        f"{a} than {b} {count}" for (a, b), count in wins.items()
    )
    most = max(wins.values())
    return refuted(text + example) if most < len(places) / 2 else corrected(text + example)


def grids_of_pairs(found: Measured) -> Verdict:
    """TDG against the baselines."""
    outcome = race(found, "TDG", BASELINES, fig1(found))
    return by_criterion(outcome.leads, f"TDG: {outcome}")


def hybrid_before_pairs(found: Measured) -> Verdict:
    """HDG against TDG in all cells."""
    outcome = race(found, "HDG", ("TDG",), fig1(found))
    text = f"HDG against TDG: {outcome}"
    return (
        holds(text) if not outcome.lost else corrected(text) if outcome.won > 4 * len(outcome.lost) else refuted(text)
    )


def weak_correlation(found: Measured) -> Verdict:
    """HDG over MSW where attributes hardly depend on each other."""
    ratios = {}
    for cell in fig1(found, ("Bfive",)):
        means = known(found, ("HDG", "MSW"), cell)
        ratios[told({"lambda": cell["lambda"], "epsilon": cell["epsilon"]})] = means["HDG"].value / means["MSW"].value
    text = "error of HDG over that of MSW on the stand-in for Bfive: " + ", ".join(
        f"{name}: {ratio:.2g}" for name, ratio in ratios.items()
    )
    two = [ratio for name, ratio in ratios.items() if name.startswith("lambda 2")]
    if max(ratios.values()) < 2:
        return holds(text)
    return corrected(f"{text}: comparable (below 2) at some settings only") if min(two) < 2 else refuted(text)


def jumps(found: Measured) -> Verdict:
    """TDG on Normal: how its error falls where its cells change, and where they do not."""
    budgets = sorted(float(each) for each in found.along("epsilon"))
    falls = []
    for a, b in pairwise(budgets):
        cut = [chosen(epsilon, 10**6 / 15, 10**6 / 15)[1] for epsilon in (a, b)]
        first, second = (
            mean(found, data="Normal", epsilon=e, line="TDG", omega=0.5, ends="round", **{"lambda": 2}) for e in (a, b)
        )
        falls.append(
            (
                cut[0] != cut[1],
                first.value / second.value,
                f"{a:g} to {b:g} ({cut[0]} to {cut[1]} cells a side): {first.value / second.value:.3g}",
            )
        )
    text = "factor by which TDG's error falls on Normal, lambda 2: " + ", ".join(each for *_, each in falls)
    same = [ratio for changed, ratio, _ in falls if not changed]
    other = [ratio for changed, ratio, _ in falls if changed]
    if not same or not other:
        raise NotMeasuredError("epsilons between which the cells change, and others")
    return by_criterion(min(other) > max(same), text)


def arch(found: Measured) -> Verdict:
    """Whether the largest error is at an inner omega."""
    inner, ends, rising = 0, [], 0
    for cell in cells(found, "data", "lambda", "ends"):
        if cell["ends"] != "round" or cell["lambda"] == 6:
            continue
        for name in ("LHIO", "CALM", "MSW", "TDG", "HDG"):
            curve = found.curve("omega", line=name, **cell)
            at = int(curve.value.argmax())
            inner += 0 < at < len(curve.x) - 1
            rising += at > 0
            if not 0 < at < len(curve.x) - 1:
                ends.append(f"{cell['data']}, lambda {cell['lambda']}, {name} at {curve.x[at]}")
    total = inner + len(ends)
    text = f"the largest error is at an inner omega in {inner} of {total} curves"
    text += f"; at an end: {'; '.join(ends[:6])}" if ends else ""
    hdg = race(
        found,
        "HDG",
        OTHERS,
        [
            cell
            for cell in cells(found, "data", "lambda", "ends", "omega")
            if cell["ends"] == "round" and cell["lambda"] != 6
        ],
    )
    text += f". HDG, which the text has best at every omega: {hdg}"
    if inner == total:
        return holds(text)
    return corrected(text) if inner > 0.5 * total else refuted(text)


def domains(found: Measured) -> Verdict:
    """Ratios of errors between sizes of the domain, lambda 2."""
    parts, verdicts = [], []
    for data in MADE:

        def error(line: str, c: int, data: str = data) -> float:
            return mean(found, data=data, c=c, line=line, omega=0.5, ends="round", **{"lambda": 2}).value

        flat = error("HDG", 1024) / error("HDG", 64)
        calm, lhio = (error(line, 256) / error(line, 64) for line in ("CALM", "LHIO"))
        wave = error("MSW", 1024) / error("MSW", 16)
        verdicts.append((0.6 < flat < 1.6, calm > 1 and lhio > 1, wave < 1))
        parts.append(
            f"{data}: HDG 1,024 over 64 {flat:.2f}, CALM 256 over 64 {calm:.2f}, LHIO {lhio:.2f}, "
            f"MSW 1,024 over 16 {wave:.2f}"
        )
    text = "; ".join(parts)
    if all(all(each) for each in verdicts):
        return holds(text)
    return corrected(text) if all(each[0] for each in verdicts) else refuted(text)


def more_attributes(found: Measured) -> Verdict:
    """From three attributes to nine, and HDG from nine to ten on Bfive."""
    grows, not_so = 0, []
    for data in DATA:
        where = {"data": data, "lambda": 2, "omega": 0.5, "ends": "round"}
        first, last = (known(found, ("LHIO", "CALM", "MSW", "TDG", "HDG"), {**where, "d": d}) for d in (3, 9))
        for name in first:
            if last[name].value > first[name].value:
                grows += 1
            else:
                not_so.append(f"{name} on {data} {first[name].value:.3g} to {last[name].value:.3g}")
    nine, ten = (mean(found, data="Bfive", d=d, line="HDG", omega=0.5, ends="round", **{"lambda": 2}) for d in (9, 10))
    cuts = [chosen(1.0, 10**6 / groups, 10**6 / groups) for groups in (45, 55)]
    text = f"d = 3 to 9: the error grows in {grows} of {grows + len(not_so)}"
    text += f" (not: {'; '.join(not_so[:4])})" if not_so else ""
    text += f". HDG on the stand-in for Bfive, lambda 2, d = 9 {cuts[0]}: {nine}; d = 10 {cuts[1]}: {ten}"
    grown = grows >= 0.8 * (grows + len(not_so))
    if grown and ten.below(nine):
        return holds(text)
    return corrected(text) if grown else refuted(text)


def more_dimensions(found: Measured) -> Verdict:
    """At which lambda HDG's error is largest."""
    largest = {}
    for data in found.along("data"):
        curve = found.curve("lambda", data=data, line="HDG", queries="random", ends="round")
        largest[data] = int(curve.x[int(curve.value.argmax())])
    ipums = (
        [
            mean(found, data="Ipums", line="HDG", queries="random", ends="round", omega=0.5, **{"lambda": count})
            for count in (9, 10)
        ]
        if "Ipums" in largest
        else []
    )
    text = "HDG's error is largest at lambda " + ", ".join(f"{at} ({data})" for data, at in largest.items())
    text += f"; Ipums, lambda 9 and 10: {ipums[0]}, {ipums[1]}" if ipums else ""
    real = [at for data, at in largest.items() if data not in MADE]
    made = [at for data, at in largest.items() if data in MADE]
    if not real or not made:
        raise NotMeasuredError("stand-ins for real data, and synthetic ones")
    last = max(int(each) for each in found.along("lambda"))
    if all(at == 2 for at in real) and all(2 < at < last for at in made):
        return holds(text)
    return corrected(text) if all(at < last for at in (*real, *made)) else refuted(text)


def more_users(found: Measured) -> Verdict:
    """From 10^5 to 10^7 users, and who is best."""
    grid = [
        cell
        for cell in cells(found, "data", "lg n", "lambda", "omega", "ends")
        if cell["ends"] == "round" and cell["lambda"] in (2, 4)
    ]
    outcome = race(found, "HDG", OTHERS, grid)
    sizes = sorted(float(each) for each in found.along("lg n"))
    first = [cell for cell in grid if cell["lg n"] == sizes[0]]
    falls, stays = falling(found, [(cell, {**cell, "lg n": sizes[-1]}) for cell in first])
    text = f"from lg n {sizes[0]:g} to {sizes[-1]:g}: {falls}{listed(stays)}. HDG: {outcome}"
    return by_criterion(outcome.leads and not stays, text)


def full_marginals(found: Measured) -> Verdict:
    """All pairs of values."""
    here = found.select(queries="marginals")
    others = ("LHIO", "CALM", "MSW", "TDG", "Uni")
    rest = race(
        here, "HDG", others, [cell for cell in cells(here, "data", "epsilon", "queries") if cell["data"] != "Ipums"]
    )
    calm = race(
        here, "CALM", ("HDG",), [cell for cell in cells(here, "data", "epsilon", "queries") if cell["data"] == "Ipums"]
    )
    grids = race(
        here, "TDG", ("CALM",), [cell for cell in cells(here, "data", "epsilon", "queries") if cell["data"] != "Ipums"]
    )
    text = f"HDG but on Ipums: {rest}. CALM against HDG on the stand-in for Ipums: {calm}. "
    text += f"TDG against CALM on the others: {grids}"
    if rest.leads and not calm.lost and grids.leads:
        return holds(text)
    return corrected(text) if len(rest.lost) < len(rest.ratios) / 2 else refuted(text)


def full_ranges(found: Measured) -> Verdict:
    """All squares of half of the values."""
    here = found.select(queries="ranges")
    outcome = race(here, "HDG", ("LHIO", "CALM", "MSW", "TDG", "Uni"), cells(here, "data", "epsilon", "queries"))
    return by_criterion(outcome.leads, f"HDG: {outcome}", otherwise=refuted if outcome.lost else corrected)


def counts(found: Measured) -> Verdict:
    """Queries that nobody is inside of, and that somebody is."""
    lines = ("LHIO", "CALM", "MSW", "TDG", "HDG")
    none = found.select(queries="0-count")
    large = [(row.where, row.value) for row in none.rows if row.where["line"] in lines and row.value >= 1e-4]
    total = sum(row.where["line"] in lines for row in none.rows)
    some = found.select(queries="non-0-count")
    outcome = race(
        some, "HDG", ("LHIO", "CALM", "MSW", "TDG"), cells(some, "data", "lambda", "omega", "ends", "queries")
    )
    trends = {}
    for data in some.along("data"):
        curve = some.curve("lambda", data=data, line="HDG")
        trends[data] = float(curve.value[-1] / curve.value[0])
    worst = max(large, key=lambda each: each[1], default=None)
    text = f"0-count: {total - len(large)} of {total} errors are below 1e-4"
    if worst:
        name = f"{worst[0]['line']}, {worst[0]['data']}, lambda {worst[0]['lambda']}"
        text += f" (largest {worst[1]:.2g}: {name})"
    text += f". Non-0-count, HDG: {outcome}; its error at the largest lambda over that at 6: "
    text += ", ".join(f"{data} {ratio:.2g}" for data, ratio in trends.items())
    if not large and len(outcome.lost) <= 0.2 * len(outcome.ratios):
        return holds(text)
    return corrected(text) if len(outcome.lost) <= 0.5 * len(outcome.ratios) else refuted(text)


def new_data(by_epsilon: Measured, by_attributes: Measured) -> Verdict:
    """HDG on the stand-ins for Loan and Acs."""
    outcome = race(by_epsilon, "HDG", BASELINES, fig1(by_epsilon, NEW_DATA))
    grid = [
        cell
        for cell in cells(by_attributes, "data", "d", "lambda", "omega", "ends")
        if cell["data"] == "Loan" and cell["lambda"] == 4 and cell["ends"] == "round"
    ]
    pairs = race(by_attributes, "TDG", ("HDG",), grid)
    text = f"HDG against the baselines: {outcome}. TDG against HDG on the stand-in for Loan, lambda 4, by d: {pairs}"
    return by_criterion(outcome.leads, text, otherwise=refuted if outcome.lost else corrected)


def covariances(found: Measured) -> Verdict:
    """HDG against all others, by covariance."""
    parts, lost = [], 0
    for covariance in found.along("covariance"):
        grid = [
            cell
            for cell in cells(found, "data", "covariance", "epsilon", "lambda", "omega", "ends")
            if cell["covariance"] == covariance and cell["ends"] == "round"
        ]
        outcome = race(found, "HDG", OTHERS, grid)
        lost += len(outcome.lost)
        parts.append(f"{covariance}: {outcome}")
    return by_criterion(lost == 0, "; ".join(parts))


CLAIMS = (
    Claim(
        "004.claim4",
        "HDG beats all other methods, by an order of magnitude",
        "section 1, Fig. 1",
        (EPSILON,),
        ahead_of_all,
    ),
    Claim(
        "004.claim5",
        "all private methods get better with epsilon",
        "section 5.2, Fig. 1",
        (EPSILON,),
        better_with_epsilon,
    ),
    Claim(
        "004.claim6",
        "HIO is the worst, in most cases worse than a uniform guess",
        "section 5.2, Fig. 1",
        (EPSILON,),
        hierarchies_are_worst,
    ),
    Claim(
        "004.claim7",
        "LHIO is about ten times better than HIO at small epsilon, and less so at large",
        "section 5.2, Fig. 1",
        (EPSILON,),
        ten_times_better,
    ),
    Claim("004.claim8", "CALM is better than LHIO", "section 5.2, Fig. 1", (COMPONENTS,), tables_beat_hierarchies),
    Claim("004.claim9", "TDG is better than the baselines", "section 1, Fig. 1", (EPSILON,), grids_of_pairs),
    Claim("004.claim10", "HDG is better than TDG", "section 5.2, Fig. 1", (EPSILON,), hybrid_before_pairs),
    Claim(
        "004.claim11",
        "HDG is comparable to MSW where correlations are weak",
        "section 5.2, Fig. 1 (c, d)",
        (EPSILON,),
        weak_correlation,
    ),
    Claim(
        "004.claim12", "errors of HDG and TDG jump where granularities change", "section 5.2, Fig. 1", (EPSILON,), jumps
    ),
    Claim(
        "004.claim13",
        "errors first rise and then fall with omega, for all but HIO",
        "section 5.3, Fig. 2",
        (OMEGA,),
        arch,
    ),
    Claim(
        "004.claim14",
        "with the size of the domain HDG stays, CALM and LHIO get worse, and MSW gets better",
        "section 5.3, Fig. 3",
        (DOMAIN,),
        domains,
    ),
    Claim(
        "004.claim15",
        "errors grow with d; on Bfive HDG is better at 10 attributes than at 9, as its cells change",
        "section 5.3, Fig. 4",
        (ATTRIBUTES,),
        more_attributes,
    ),
    Claim(
        "004.claim16",
        "with lambda errors fall on real data, and rise, then fall on synthetic ones",
        "section 5.3, Fig. 5",
        (LAMBDA,),
        more_dimensions,
    ),
    Claim(
        "004.claim17",
        "all methods improve with n, and HDG is the best throughout",
        "section 5.3, Fig. 6",
        (USERS,),
        more_users,
    ),
    Claim(
        "004.claim27",
        "full marginals: CALM is slightly ahead of HDG on Ipums; elsewhere HDG is the best, and TDG ahead of CALM",
        "appendix A.3, Fig. 11",
        (FULL,),
        full_marginals,
    ),
    Claim(
        "004.claim29", "full ranges of two attributes: HDG is the best", "appendix A.3, Fig. 12", (FULL,), full_ranges
    ),
    Claim(
        "004.claim30",
        "0-count queries: all errors are below 1e-4; others: HDG is typically the best",
        "appendix A.4, Fig. 13, 14",
        (LAMBDA,),
        counts,
    ),
    Claim(
        "004.claim31",
        "new real data: HDG is better than the baselines; on Loan at lambda 4 TDG is ahead of HDG",
        "appendix A.7, Fig. 19-21",
        (EPSILON, ATTRIBUTES),
        new_data,
    ),
    Claim(
        "004.claim32",
        "HDG is the best at every covariance from 0 to 1",
        "appendix A.7, Fig. 28",
        (COVARIANCE,),
        covariances,
    ),
)
