"""Claims 20, 21, 30 to 33 and 36 of 003: rates, limits and costs."""

import math

from dither.reproduce.claims import Claim, Verdict, by_criterion, corrected, holds, refuted
from dither.reproduce.measured import Coordinate, Measured

from .comparisons import BEYOND, against_sizes
from .settings_grid import GRID, RATES, SUCCINCT_USERS
from .sweep import EPSILONS, SPARSITIES, SWEEP
from .uneven_users import CONDITIONAL, COSTS


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
    return by_criterion(max(bound) < 6 and max(bound) / min(bound) < 2 and max(seen) <= max(bound), told)


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
    return by_criterion(max(some) / min(some) < 2 and max(limits) < 3, told)


def costs(found: Measured) -> Verdict:
    """Claim 32."""
    words = {s: {row.value for row in found.select(s=s, what="random words a report").rows} for s in SPARSITIES}
    hashes = {int(row.where["d"]): row.value for row in found.select(what="hashes a report, server").rows}
    shared = max(row.value for row in found.select(what="hashes a report, server, shared functions").rows)
    bits = {int(row.where["s"]): row.value for row in found.select(what="log2 t").rows}
    micro = {
        place: found.value(d=place[0], s=place[1], what="processor microseconds a report")
        for place in [(512, 4), (512, 32), (4096, 4), (4096, 32)]
    }
    told = (
        "random words of a report: "
        + ", ".join(f"{min(words[s]):.0f} (s {s})" for s in words)
        + f", the same for d 512 and 4096; log2 t {bits[4]:.1f} to {bits[32]:.1f} bits for the bucket "
        f"at epsilon 1, and a "
        f"hash function beside it; the server computes {hashes[512]:.0f} and {hashes[4096]:.0f} hashes a report, or "
        f"{shared:.0f} with shared functions. Processor microseconds a report: "
        + ", ".join(f"{each:.2f} (d {d}, s {s})" for (d, s), each in micro.items())
    )
    linear = all(len(some) == 1 and min(some) <= 4 + 2 * s for s, some in words.items())
    return by_criterion(linear and hashes[4096] == 8 * hashes[512] and shared == 0, told)


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
    return by_criterion(all(fine), "uneven users, 100,000 of them, Collision; " + "; ".join(told))


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
    return by_criterion(abs(grows("printed eta", 256) / logs - 1) < 0.02, told)


CLAIMS = (
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
    Claim(
        "003.claim36",
        "SUCCINCT's squared error has an extra factor log n",
        "section 3.1",
        (SUCCINCT_USERS,),
        succinct_rate,
    ),
)
