"""Claims 12, 20 to 34 and 36 of 003: errors, rates and comparisons.

Errors are means of logarithms, so a ratio of two mechanisms is e to a difference. Its standard error takes the two as
independent; they share their users, so that it is rather less. A difference counts beyond three standard errors.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dither.reproduce.claims import Claim, Verdict, corrected, holds, judged, refuted
from dither.reproduce.measured import Coordinate, Measured

from .settings_grid import GRID, RATES, SUCCINCT_USERS
from .sweep import EPSILONS, RIVALS, SIZES, SPARSITIES, SWEEP
from .uneven_users import CONDITIONAL, COSTS

BEYOND = 3.0
LARGE = [(100_000, 256, s) for s in SPARSITIES]
FREQUENCY_RIVALS, MEAN_RIVALS = RIVALS, (*RIVALS, "SUCCINCT")


class Ratio(NamedTuple):
    """A ratio of errors, as a logarithm, with its standard error."""

    log: float
    error: float

    @property
    def value(self) -> float:
        """The ratio."""
        return math.exp(self.log)

    def __str__(self) -> str:
        return f"{self.value:.3g} +- {self.value * self.error:.2g}"


class Reduction(NamedTuple):
    """An average of 1 - ratio over cells, with its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, ratios: Iterable[Ratio]) -> "Reduction":
        """Cells have noise of their own."""
        listed = list(ratios)
        value = sum(1 - each.value for each in listed) / len(listed)
        return cls(value, math.sqrt(sum((each.value * each.error) ** 2 for each in listed)) / len(listed))

    def __str__(self) -> str:
        return f"{self.value:.1%} +- {self.error:.1%}"


def ratio(found: Measured, one: dict[str, Coordinate], other: dict[str, Coordinate]) -> Ratio:
    """Of the errors at two places."""
    a, b = found.row(**one), found.row(**other)
    return Ratio(a.value - b.value, math.hypot(a.stderr, b.stderr))


def cells(sizes: Sequence[tuple[int, int]] = SIZES) -> list[dict[str, Coordinate]]:
    """All (n, d, s, epsilon) of some figures."""
    return [{"n": n, "d": d, "s": s, "epsilon": e} for n, d in sizes for s in SPARSITIES for e in EPSILONS]


def against(found: Measured, one: str, other: str, metric: str, cell: dict[str, Coordinate]) -> Ratio:
    """One mechanism's error to another's."""
    place = {**cell, "metric": metric}
    return ratio(found, {**place, "line": one}, {**place, "line": other})


def best(found: Measured, lines: Sequence[str], metric: str, cell: dict[str, Coordinate]) -> str:
    """Who has the smallest error."""
    return min(lines, key=lambda line: found.value(**cell, metric=metric, line=line))


def beaten(found: Measured, metric: str, rivals: Sequence[str]) -> tuple[int, list[str]]:
    """In how many cells somebody is below Collision beyond noise, and who and where."""
    worse = []
    for cell in cells():
        name = best(found, rivals, metric, cell)
        apart = against(found, name, "Collision", metric, cell)
        if apart.log < -BEYOND * apart.error:
            worse.append(
                f"{name} {apart} at d {cell['d']}, s {cell['s']}, epsilon {cell['epsilon']:g}, n {cell['n']:,}"
            )
    return len(worse), worse


def coco_gain(found: Measured, closed: Measured) -> Verdict:
    """Claim 12."""
    exact: dict[float, list[float]] = {}
    for row in closed.select(what="Collision, printed t").rows:
        if row.where["d"] != 128:
            coco = closed.value(**{**row.where, "what": "CoCo, printed t for mean"})
            exact.setdefault(float(row.where["epsilon"]), []).append(1 - math.sqrt(coco / row.value))
    measured = {
        metric: Reduction.of(against(found, "CoCo", "Collision", metric, cell) for cell in cells())
        for metric in ("mean TVE", "mean MAE", "mean projected TVE", "mean projected MAE")
    }
    told = "; ".join(f"{metric} {each}" for metric, each in measured.items())
    by = ", ".join(f"{sum(some) / len(some):.1%} ({e:g})" for e, some in exact.items() if e in (0.001, 0.4, 1.0, 2.0))
    evidence = f"measured, averages over all cells: {told}. By the exact variances of raw means: {by}"
    raw = [measured["mean TVE"], measured["mean MAE"]]
    if all(each.value + BEYOND * each.error < 0.15 for each in raw):
        return refuted(evidence)
    return judged(all(each.value > 0.15 for each in raw), evidence, otherwise=corrected)


def lower_bounds(found: Measured) -> Verdict:
    """Claim 20."""
    squared = [row.value for row in found.rows if row.where["what"] == "smallest squared error / App. A"]
    absolute = [row.value for row in found.rows if row.where["what"] == "smallest TVE / App. A"]
    printed = {
        e: found.value(d=256, s=4, epsilon=e, n=10**9, what="smallest TVE / Theorem 3") for e in (1.0, 0.1, 0.01, 0.001)
    }
    shown = ", ".join(f"{each:.2g} ({e:g})" for e, each in printed.items())
    least = [row.value for row in found.rows if row.where["what"] == "smallest variance / dither's limit"]
    told = (
        f"the smallest error here is at least {min(squared):.0f} times App. A's squared bound and "
        f"{min(absolute):.1f} times "
        f"its sum of absolute errors; over d sqrt(s) / (epsilon^2 sqrt(n)), as Theorem 3 prints it, it is {shown} and "
        f"falls with epsilon: no constant will do. dither's limit is exceeded by {min(least):.2f} times at least"
    )
    if min(squared) < 1 or min(absolute) < 1:
        return refuted(told)
    return corrected(told) if printed[0.001] < 0.01 * printed[1.0] else holds(told)


def separation(found: Measured, measured: Measured) -> Verdict:
    """Claim 21."""
    claimed = {
        "PrivKV": (2, 0),
        "PCKV-UE": (1, 2),
        "PCKV-GRR": (1, 2),
        "PCKV-AGRR": (2, 0),
        "Collision": (1, 1),
        "CoCo": (1, 1),
    }

    def slope(line: str, along: str, ends: tuple[int, int], **fixed: Coordinate) -> float:
        one, other = (found.value(**fixed, **{along: end}, epsilon=0.1, line=line) for end in ends)
        return math.log(other / one) / math.log(ends[1] / ends[0])

    slopes = {line: (slope(line, "d", (256, 4096), s=16), slope(line, "s", (4, 64), d=4096)) for line in claimed}
    wrong = [
        line
        for line, both in slopes.items()
        if max(abs(a - b) for a, b in zip(both, claimed[line], strict=True)) > 0.25
    ]
    ratios = {
        line: sum(
            against_sizes(measured, line, "mean TVE", (100_000, 512), (100_000, 256), s, e).value
            for s in SPARSITIES
            for e in EPSILONS
        )
        / (len(SPARSITIES) * len(EPSILONS))
        for line in claimed
    }
    told = "powers of d and s in the variance: " + ", ".join(
        f"{line} {a:.2f}, {b:.2f}" for line, (a, b) in slopes.items()
    )
    told += "; raw TVE of means at d 512 over 256: " + ", ".join(f"{line} {each:.2f}" for line, each in ratios.items())
    if not wrong:
        return holds(told)
    also = f"{told}. Not as stated: {', '.join(wrong)} (with randomized response over 2d values it is d^2 s^2)"
    return corrected(also) if wrong == ["PCKV-GRR"] else refuted(also)


def against_sizes(
    found: Measured, line: str, metric: str, one: tuple[int, int], other: tuple[int, int], s: int, epsilon: float
) -> Ratio:
    """The error of one mechanism with (n, d) to that with another."""
    place: dict[str, Coordinate] = {"s": s, "epsilon": epsilon, "line": line, "metric": metric}
    return ratio(found, {**place, "n": one[0], "d": one[1]}, {**place, "n": other[0], "d": other[1]})


def lowest(found: Measured) -> Verdict:
    """Claim 22."""
    many = len(cells())
    counts = {
        metric: beaten(found, metric, FREQUENCY_RIVALS)
        for metric in ("frequency projected TVE", "frequency projected MAE", "frequency TVE")
    }
    told = "; ".join(
        f"{metric}: beaten beyond noise in {count} of {many} cells" + (f" ({'; '.join(where[:3])})" if where else "")
        for metric, (count, where) in counts.items()
    )
    most = max(count for count, _ in counts.values())
    ignored = sum(
        against(found, "nobody asked", "Collision", "frequency projected TVE", cell).log < 0 for cell in cells()
    )
    told += f". Who ignores all reports and says s/2d is below Collision's projected TVE in {ignored} of {many}"
    if not most:
        return holds(told)
    return corrected(told) if most <= 0.05 * many else refuted(told)


def reductions(found: Measured, metrics: Sequence[str], rivals: Sequence[str]) -> dict[str, Reduction]:
    """Collision's average reduction over all cells and rivals."""
    return {
        metric: Reduction.of(against(found, "Collision", rival, metric, cell) for cell in cells() for rival in rivals)
        for metric in metrics
    }


def sixty_percent(found: Measured) -> Verdict:
    """Claim 23."""
    every = reductions(found, ("frequency TVE", "frequency projected TVE", "frequency projected MAE"), FREQUENCY_RIVALS)
    small = [cell for cell in cells() if cell["epsilon"] == 0.1 and cell["s"] == 4]
    there = Reduction.of(
        against(found, "Collision", rival, "frequency projected TVE", cell) for cell in small for rival in RIVALS
    )
    by = ", ".join(
        f"{rival} {Reduction.of(against(found, 'Collision', rival, 'frequency TVE', cell) for cell in cells())}"
        for rival in RIVALS
    )
    told = (
        "; ".join(f"{metric} {each}" for metric, each in every.items())
        + f" less than the four others on average; projected TVE at epsilon .1, s 4: {there}. Raw TVE against {by}"
    )
    if all(each.value > 0.6 for each in every.values()):
        return holds(told)
    return corrected(told) if every["frequency TVE"].value > 0.6 else refuted(told)


def unary_and_privkv(found: Measured) -> Verdict:
    """Claim 24."""
    metric = "frequency projected TVE"
    sparse, dense = (
        {
            e: against(found, "PCKV-UE", "PrivKV", metric, {"n": 100_000, "d": 256, "s": s, "epsilon": e})
            for e in EPSILONS
        }
        for s in (4, 32)
    )
    shown = (0.1, 0.4, 1.0, 2.0)
    told = "projected TVE of PCKV-UE over PrivKV, d 256: s 4 " + ", ".join(f"{sparse[e]} ({e:g})" for e in shown)
    told += "; s 32 " + ", ".join(f"{dense[e]} ({e:g})" for e in shown)
    better = all(each.log < BEYOND * each.error for each in sparse.values())
    similar = all(abs(each.log) < math.log(1.15) + BEYOND * each.error for each in dense.values())
    return judged(better and similar, told)


def amplified_gap(found: Measured) -> Verdict:
    """Claim 25."""
    metric = "frequency TVE"

    def gap(s: int, epsilon: float, which: str = metric, d: int = 256) -> Ratio:
        return against(found, "PCKV-AGRR", "Collision", which, {"n": 100_000, "d": d, "s": s, "epsilon": epsilon})

    told = "raw TVE of PCKV-AGRR over Collision at epsilon 2: " + ", ".join(
        f"s {s} {gap(s, 2.0)} (d 256), {gap(s, 2.0, d=512)} (d 512)" for s in SPARSITIES
    )
    told += (
        f"; s 32, d 256 at epsilon .4 {gap(32, 0.4)}; projected at epsilon 2 {gap(32, 2.0, 'frequency projected TVE')}"
    )
    narrower = all(gap(32, 2.0, d=d).log < min(gap(4, 2.0, d=d).log, gap(32, 0.4, d=d).log) for d in (256, 512))
    return judged(narrower, told)


def growth(
    found: Measured, metrics: Sequence[str], one: tuple[int, int], other: tuple[int, int]
) -> dict[str, list[Ratio]]:
    """Ratios of Collision's errors between two sizes, over s and epsilon."""
    return {
        metric: [against_sizes(found, "Collision", metric, one, other, s, e) for s in SPARSITIES for e in EPSILONS]
        for metric in metrics
    }


MEASURES = (
    "frequency TVE",
    "mean TVE",
    "mean MAE",
    "frequency projected TVE",
    "frequency projected MAE",
    "mean projected TVE",
)


def summary(ratios: Sequence[Ratio]) -> str:
    """The average and the range."""
    listed = [each.value for each in ratios]
    average = Reduction.of(ratios)
    return f"{1 - average.value:.2f} +- {average.error:.2f} ({min(listed):.2f} to {max(listed):.2f})"


def in_dimension(found: Measured) -> Verdict:
    """Claim 26."""
    every = growth(found, MEASURES, (100_000, 512), (100_000, 256))
    told = "d 512 over 256, Collision, average (range): " + "; ".join(
        f"{metric} {summary(some)}" for metric, some in every.items()
    )

    def near(some: Sequence[Ratio]) -> bool:
        average = Reduction.of(some)
        return abs(1 - average.value - math.sqrt(2)) < 0.1 + BEYOND * average.error

    return judged(all(near(some) for some in every.values()), f"{told}; sqrt(2) = 1.41")


def in_users(found: Measured) -> Verdict:
    """Claim 27."""
    every = growth(found, MEASURES, (10_000, 256), (100_000, 256))
    told = "10,000 over 100,000 users, Collision, average (range): " + "; ".join(
        f"{metric} {summary(some)}" for metric, some in every.items()
    )

    def near(metric: str) -> bool:
        average = Reduction.of(every[metric])
        return abs(1 - average.value - math.sqrt(10)) < 0.16 + BEYOND * average.error

    told += "; sqrt(10) = 3.16"
    if all(near(metric) for metric in MEASURES):
        return holds(told)
    return corrected(told) if all(near(metric) for metric in MEASURES[:3]) else refuted(told)


def thirty_percent(found: Measured) -> Verdict:
    """Claim 28."""
    told, shares = [], []
    for metric in ("mean MAE", "mean projected MAE", "mean projected TVE"):
        rivals = MEAN_RIVALS if metric == "mean MAE" else RIVALS
        ratios = [against(found, "Collision", best(found, rivals, metric, cell), metric, cell) for cell in cells()]
        about = sum(1 - each.value >= 0.2 for each in ratios) / len(ratios)
        shares.append(about)
        told.append(f"{metric}: {Reduction.of(ratios)} on average, at least 20% in {about:.0%} of the cells")
    evidence = "against the best of the others in each cell: " + "; ".join(told)
    if min(shares) >= 0.9:
        return holds(evidence)
    return corrected(evidence) if shares[0] >= 0.75 else refuted(evidence)


def succinct_behind(found: Measured, users: Measured) -> Verdict:
    """Claim 29."""
    lag = {
        (s, e): against(found, "SUCCINCT", "Collision", "mean MAE", {"n": 100_000, "d": 256, "s": s, "epsilon": e})
        for s in SPARSITIES
        for e in EPSILONS
    }
    average = -Reduction.of(lag.values()).value
    bias = max(1 - users.value(n=10**5, s=s, line="eta up to s", what="kept") for s in (4, 32))
    behind = sum(each.value > 1.15 for each in lag.values()) / len(lag)
    told = (
        f"its largest error is {average:.0%} above Collision's on average (d 256, 100,000 users), more than 15% in "
        f"{behind:.0%} of the cells: "
        + ", ".join(f"{lag[s, e]} (s {s}, epsilon {e:g})" for s in (4, 32) for e in (0.1, 1.0, 2.0))
        + f". But clipping at sqrt(2 s ln(n/.05)) takes {bias:.0e} of the mean at most: the gap is noise, not bias"
    )
    if behind < 0.9:
        return refuted(told)
    return corrected(told) if bias < 0.01 else holds(told)


def theorem_8(found: Measured, measured: Measured) -> Verdict:
    """Claim 30."""
    bound = [
        row.value
        for row in found.rows
        if row.where["what"] == "CoCo, 95% bound of the largest error / Theorem 8" and float(row.where["epsilon"]) <= 1
    ]
    seen = [
        math.exp(row.value)
        / math.sqrt(int(row.where["s"]) * math.log(int(row.where["d"]) / 0.05) / int(row.where["n"]))
        * float(row.where["epsilon"])
        for row in measured.select(line="CoCo", metric="mean MAE").rows
        if float(row.where["epsilon"]) <= 1
    ]
    told = (
        f"for epsilon <= 1, in units of sqrt(s ln(d/.05) / (n epsilon^2)): what Bernstein's inequality gives with "
        f"probability 95% is {min(bound):.2f} to {max(bound):.2f}, and what was measured "
        f"{min(seen):.2f} to {max(seen):.2f}"
    )
    return judged(max(bound) < 6 and max(bound) / min(bound) < 2 and max(seen) <= max(bound), told)


def largest_minimax(found: Measured) -> Verdict:
    """Claim 31."""
    rows = [
        row
        for row in found.select(what="CoCo, 95% bound of the largest error / Theorem 8", n=100_000).rows
        if float(row.where["epsilon"]) <= 1
    ]
    scaled = {"s <= sqrt(d)": [], "s > sqrt(d)": []}
    for row in rows:
        d, s = int(row.where["d"]), int(row.where["s"])
        unit = math.sqrt(math.log(d / 0.05) / math.log(d / s))
        scaled["s <= sqrt(d)" if s * s <= d else "s > sqrt(d)"].append(row.value * unit)
    limits = [
        row.value
        for row in found.rows
        if row.where["what"] == "CoCo, mean largest error / dither's limit" and float(row.where["epsilon"]) <= 1
    ]
    told = (
        "CoCo's 95% bound in units of sqrt(s ln(d/s) / n) / epsilon (Theorem 9, whose constant is not given): "
        + ", ".join(f"{min(some):.2f} to {max(some):.2f} for {name}" for name, some in scaled.items() if some)
        + f"; its usual largest error is {min(limits):.2f} to {max(limits):.2f} times the limit that "
        f"dither has with a constant"
    )
    some = scaled["s <= sqrt(d)"]
    return judged(max(some) / min(some) < 2 and max(limits) < 3, told)


def costs(found: Measured) -> Verdict:
    """Claim 32."""
    words = {s: {row.value for row in found.select(s=s, what="random words a report").rows} for s in SPARSITIES}
    hashes = {int(row.where["d"]): row.value for row in found.select(what="hashes a report, server").rows}
    shared = max(row.value for row in found.select(what="hashes a report, server, shared functions").rows)
    bits = {int(row.where["s"]): row.value for row in found.select(what="log2 t").rows}
    micro = {
        place: found.value(d=place[0], s=place[1], what="microseconds a report")
        for place in [(512, 4), (512, 32), (4096, 4), (4096, 32)]
    }
    told = (
        "random words of a report: "
        + ", ".join(f"{min(words[s]):.0f} (s {s})" for s in words)
        + f", the same for d 512 and 4096; log2 t {bits[4]:.1f} to {bits[32]:.1f} bits for the bucket "
        f"at epsilon 1, and a "
        f"hash function beside it; the server computes {hashes[512]:.0f} and {hashes[4096]:.0f} hashes a report, or "
        f"{shared:.0f} with shared functions. Microseconds a report: "
        + ", ".join(f"{each:.2f} (d {d}, s {s})" for (d, s), each in micro.items())
    )
    linear = all(len(some) == 1 and min(some) <= 4 + 2 * s for s, some in words.items())
    return judged(linear and hashes[4096] == 8 * hashes[512] and shared == 0, told)


def conditional_means(found: Measured) -> Verdict:
    """Claim 33."""
    told, fine = [], []
    for epsilon in (0.5, 1.0, 2.0):
        covered = found.row(epsilon=epsilon, what="95% intervals that hold the truth")
        error, zero = (found.value(epsilon=epsilon, what=f"mean absolute error{more}") for more in ("", " of saying 0"))
        share = found.value(epsilon=epsilon, what="told")
        told.append(
            f"epsilon {epsilon:g}: {share:.0%} of 16 keys told, mean absolute error {error:.3f} "
            f"(saying 0: {zero:.3f}), "
            f"intervals right in {covered.value:.1%} +- {covered.stderr:.1%}"
        )
        noise = max(covered.stderr, math.sqrt(0.95 * 0.05 / (16 * covered.repetitions)))
        fine.append(error < zero / 2 and covered.value > 0.95 - BEYOND * noise)
    return judged(all(fine), "uneven users, 100,000 of them, Collision; " + "; ".join(told))


def conclusion(found: Measured) -> Verdict:
    """Claim 34."""
    frequency = reductions(found, ("frequency TVE", "frequency projected TVE"), FREQUENCY_RIVALS)
    mean = reductions(found, ("mean TVE",), MEAN_RIVALS) | reductions(found, ("mean projected TVE",), RIVALS)
    every = frequency | mean
    told = "Collision against the others, average reduction: " + "; ".join(
        f"{name} {each}" for name, each in every.items()
    )
    if all(each.value >= 0.3 for each in every.values()):
        return holds(told)
    raw = (every["frequency TVE"], every["mean TVE"])
    return corrected(f"{told}. True of raw errors") if all(each.value >= 0.3 for each in raw) else refuted(told)


def succinct_rate(found: Measured) -> Verdict:
    """Claim 36."""

    def grows(line: str, s: int) -> float:
        few, many = (found.value(n=n, s=s, line=line, what="variance") for n in (10**4, 10**8))
        return many / few

    logs = math.log(10**8 / 0.05) / math.log(10**4 / 0.05)
    dither = found.value(n=10**4, s=256, line="dither", what="variance")
    printed = found.value(n=10**4, s=256, line="printed eta", what="variance")
    told = (
        f"10^8 over 10^4 users, variance times n: {grows('printed eta', 256):.3f} (s 256) with the "
        f"published eta, log n "
        f"{logs:.3f}; with eta at most s {grows('eta up to s', 4):.3f} (s 4), {grows('eta up to s', 32):.3f} (s 32), "
        f"{grows('eta up to s', 256):.3f} (s 256); dither's unbiased clipping does not know n and has "
        f"{dither / printed:.3f} "
        f"of the published variance at 10^4 users, s 256"
    )
    return judged(abs(grows("printed eta", 256) / logs - 1) < 0.02, told)


CLAIMS = (
    Claim(
        "003.claim12",
        "CoCo reduces the error of means by more than 15% against Collision",
        "abstract, 8.4, 8.5, Fig. 12 to 16",
        (SWEEP, GRID),
        coco_gain,
    ),
    Claim(
        "003.claim20",
        "no mechanism has less than c ds/(n epsilon^2), in absolute errors c d sqrt(s)/(epsilon^2 sqrt(n))",
        "Theorem 2, 3, App. A",
        (GRID,),
        lower_bounds,
    ),
    Claim(
        "003.claim21",
        "squared errors grow as d^2 (PrivKV, AGRR), d s^2 (PCKV) and ds (Collision, CoCo)",
        "section 3",
        (RATES, SWEEP),
        separation,
    ),
    Claim(
        "003.claim22",
        "Collision has the smallest error of frequencies in (almost) all cases",
        "section 8.2.1, 8.5, Fig. 6 to 11",
        (SWEEP,),
        lowest,
    ),
    Claim(
        "003.claim23",
        "it reduces errors of frequencies by more than 60% on average",
        "section 8.2.1",
        (SWEEP,),
        sixty_percent,
    ),
    Claim(
        "003.claim24",
        "PCKV-UE is better than PrivKV for very sparse vectors and similar for s = 32",
        "section 8.2.1, Fig. 6",
        (SWEEP,),
        unary_and_privkv,
    ),
    Claim(
        "003.claim25",
        "PCKV-AGRR comes closer to Collision where s and epsilon are large",
        "section 8.2.1, 8.4.1",
        (SWEEP,),
        amplified_gap,
    ),
    Claim(
        "003.claim26",
        "TVE and MAE grow as sqrt(d)",
        "section 8.2.2, 8.4.2, Fig. 8, 9, 15",
        (SWEEP,),
        in_dimension,
    ),
    Claim(
        "003.claim27",
        "TVE and MAE shrink as sqrt(n)",
        "section 8.2.4, 8.4.3, Fig. 10, 11, 16",
        (SWEEP,),
        in_users,
    ),
    Claim(
        "003.claim28",
        "for means Collision is about 30% below existing methods in almost all settings",
        "section 8.4, Fig. 12 to 16",
        (SWEEP,),
        thirty_percent,
    ),
    Claim(
        "003.claim29",
        "SUCCINCT's largest error is about 30% above, and more where epsilon or s is large, because clipping biases",
        "section 3.1, 8.4, Fig. 12",
        (SWEEP, SUCCINCT_USERS),
        succinct_behind,
    ),
    Claim(
        "003.claim30",
        "CoCo's largest error is O(sqrt(s log(d/beta) / (n epsilon^2))) with probability 1 - beta",
        "Theorem 8",
        (GRID, SWEEP),
        theorem_8,
    ),
    Claim(
        "003.claim31",
        "CoCo is minimax optimal for the largest error if s <= sqrt(d)",
        "Theorem 8, 9",
        (GRID,),
        largest_minimax,
    ),
    Claim(
        "003.claim32",
        "a user computes O(s) and sends log2 t bits, the server O(nd), or less with shared hash functions",
        "section 5, 7.2",
        (COSTS,),
        costs,
    ),
    Claim(
        "003.claim33",
        "means among those who have a key are mean over presence",
        "section 1.2",
        (CONDITIONAL,),
        conditional_means,
    ),
    Claim("003.claim34", "errors are reduced by 30 to 60%", "section 9", (SWEEP,), conclusion),
    Claim(
        "003.claim36",
        "SUCCINCT's squared error has an extra factor log n",
        "section 3.1",
        (SUCCINCT_USERS,),
        succinct_rate,
    ),
)
