"""Section 6 and 7.4: what n shuffled reports keep, by bounds that are proved, by those that are printed, and exactly.

`AMPLIFICATION` is Fig. 2: log2(epsilon / epsilon_c), at delta = .01/n (the paper says O(1/n)). `FEW_USERS` enumerates
shuffled reports of a handful of users in fractions, which decides what is a bound. `LOCAL_BUDGETS` turns the question
round. `LOCAL` enumerates single reports: the local guarantee, and whether estimators are unbiased.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product

import dither
from dither.core.blanket_law import BlanketLaw, Contrast
from dither.core.channel import TwoLevel
from dither.core.exact import exp_below
from dither.core.hashed_channel import HashedChannel
from dither.core.mechanism import Mechanism
from dither.mechanisms.collision import MOST_BUCKETS
from dither.privacy import bounds, local_budget
from dither.privacy.accounting.privacy_loss import along_the_logarithm, least_epsilon
from dither.privacy.enumeration import enumerated_delta
from dither.privacy.shuffle_divergence import delta_above
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from .as_printed import counts_epsilon, exact_counts_delta, mixture_alpha, theorem_1_alpha, theorem_5_alpha
from .formulas import collision_buckets
from .worked_examples import ONCE

EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
KEYS = 512  # d, which enters nothing here


def shuffled(s: int, epsilon: float) -> dither.Collision:
    """Collision with the number of buckets that Fig. 2 states, as far as there are so many."""
    return dither.Collision(KEYS, s, epsilon, t=min(collision_buckets(s, epsilon), MOST_BUCKETS))


def amplification(setting: Setting, seed: int) -> Iterator[Number]:
    """log2(epsilon / epsilon_c) of all bounds that apply and gain something."""
    n, s, epsilon = int(setting["n"]), int(setting["s"]), float(setting["epsilon"])
    mechanism = shuffled(s, epsilon)
    t, delta, ratio = collision_buckets(s, epsilon), 0.01 / n, math.exp(epsilon)
    found = bounds(mechanism, n, delta)
    central = {name: None if each is None else each.epsilon for name, each in found.items()}
    central["lower"] = found.lower
    central["blanket, t/Omega"] = hoeffding(ratio - 1, t / (s * ratio + t - s), n, delta, epsilon)
    central["blanket, exp(-epsilon)"] = hoeffding(ratio - 1 / ratio, 1 / ratio, n, delta, epsilon)
    central["stronger clone"] = counts_epsilon(ratio, 1 / (ratio + 1), n, delta)
    central["stronger clone, printed"] = counts_epsilon(ratio, theorem_1_alpha(ratio), n, delta)
    central["Theorem 5, s/Omega"] = counts_epsilon(ratio, mixture_alpha(s, ratio, t), n, delta)
    central["Theorem 5"] = counts_epsilon(ratio, theorem_5_alpha(s, ratio, t), n, delta)
    for line, each in central.items():
        if each is not None and 0 < each < epsilon:
            yield measured_value(math.log2(epsilon / each), line=line)


def hoeffding(reach: float, mass: float, n: int, delta: float, largest: float) -> float | None:
    """The blanket bound of 2019 by Hoeffding's inequality, for a blanket of this mass.

    What a noise report tells, (P - r P') / beta, is (1 - r) / mass on average, in a range of (1 + r) times `reach`:
    E - 1 where both likelihoods are between 1 and E times beta, E - 1/E where that is not known. The latter with the
    least possible mass 1/E, as the paper has it for any randomizer, is not a proof: a larger mass makes it worse.
    """

    def curve(epsilon: float) -> float:
        if not epsilon:
            return 1.0
        r = math.exp(epsilon)
        drift, width = (r - 1) / mass, reach * (r + 1)
        noise = n * math.log1p(mass * math.expm1(-2 * (drift / width) ** 2))
        return min(1.0, width**2 / (4 * drift * n) * math.exp(noise))

    if curve(0.999 * largest) > delta:
        return None
    return least_epsilon(curve, delta, largest, 1e-7, along_the_logarithm)


# Few users, exactly --------------------------------------------------------------------------------------------------


def collision_rows(s: int, ratio: Fraction, t: int) -> list[list[Fraction]]:
    """Collision under one hash function that keeps three inputs apart: theirs, and the other buckets as one output."""
    total = s * ratio + t - s
    rows = [[s * (ratio if x == y else Fraction(1)) / total for y in range(3)] for x in range(3)]
    return [[*row, (t - 3 * s) / total] if t > 3 * s else row for row in rows]


def response(ratio: Fraction, k: int) -> list[list[Fraction]]:
    """Randomized response over k values; Collision with one key under a shared hash function is the same."""
    total = ratio + k - 1
    return [[(ratio if x == y else Fraction(1)) / total for y in range(k)] for x in range(k)]


def paired(ratio: Fraction, t: int) -> HashedChannel:
    """CoCo with one key."""
    return HashedChannel(TwoLevel(ratio.numerator, ratio.denominator, favoured=1, outputs=t), paired=True)


def few_users(setting: Setting, seed: int) -> Iterator[Number]:
    """The exact delta, and what a claim says of it."""
    case = str(setting["case"])
    for what, value in CASES[case]().items():
        yield measured_value(float(value), what=what)


def printed_upper() -> dict[str, Fraction]:
    """E = 1.25, s = 1, t = 3, six users, epsilon .05: Theorem 5 with its own alpha."""
    ratio, r = Fraction(5, 4), exp_below(0.05)
    claimed = exact_counts_delta(ratio, theorem_5_alpha(1, ratio, 3), 6, r)
    return {"exact": enumerated_delta(response(ratio, 3), 6, r), "claimed": claimed}


def corrected_upper() -> dict[str, Fraction]:
    """E = 3, s = 1, t = 6, five users, e^epsilon = 2: Theorem 5 with s / Omega."""
    ratio, r = Fraction(3), Fraction(2)
    claimed = exact_counts_delta(ratio, mixture_alpha(1, ratio, 6), 5, r)
    return {"exact": enumerated_delta(response(ratio, 6), 5, r), "claimed": claimed}


def quoted_clone() -> dict[str, Fraction]:
    """Randomized response over four values, epsilon 2, eight users, at 1.2: its own mixture parameter in Theorem 1."""
    ratio, r = exp_below(2.0, 20), exp_below(1.2, 20)
    exact = enumerated_delta(response(ratio, 4), 8, r, pair=(0, 1))
    return {"exact": exact, "claimed": exact_counts_delta(ratio, 1 / (ratio + 3), 8, r)}


def lower_bound(s: int, ratio: Fraction, t: int, n: int, r: Fraction) -> dict[str, Fraction]:
    """Theorem 6's data set: all others have a third vector; the counts with s / Omega, and with the printed alpha."""
    rows = collision_rows(s, ratio, t)
    exact = enumerated_delta(rows, n, r, others=(2,) * (n - 1), pair=(0, 1))
    printed = theorem_5_alpha(s, ratio, t)
    found = {
        "exact": exact,
        "s/Omega": exact_counts_delta(ratio, mixture_alpha(s, ratio, t), n, r),
        "printed probability": (ratio + 1) * printed,
        "proved for every data set": Fraction(delta_above(own_law(s, ratio, t), math.log(r), n)),
    }
    if (ratio + 1) * printed <= 1:
        found["printed"] = exact_counts_delta(ratio, printed, n, r)
    return found


def own_law(s: int, ratio: Fraction, t: int) -> BlanketLaw:
    """The blanket of Collision, and the two inputs that it hides worst: all buckets apart."""
    omega = s * ratio + t - s
    return BlanketLaw.of(Contrast(ratio, s / omega, Fraction(0), (t - 2 * s) / omega))


def lower_small() -> dict[str, Fraction]:
    """E = 1.5, s = 2, t = 7: the printed alpha is below s / Omega."""
    return lower_bound(2, Fraction(3, 2), 7, 10, Fraction(5, 4))


def lower_large() -> dict[str, Fraction]:
    """E = 3, s = 1, t = 6: the printed alpha is twice s / Omega."""
    return lower_bound(1, Fraction(3), 6, 10, Fraction(2))


def lower_no_probability() -> dict[str, Fraction]:
    """E = 2.5, s = 1, t = 3: the printed alpha is above what any randomizer can have."""
    return lower_bound(1, Fraction(5, 2), 3, 10, Fraction(2))


def coco_alike() -> dict[str, Fraction]:
    """s = 1, t = 4 s, E = 3, five users, e^epsilon = 2: CoCo, Collision, and the printed equality with s / Omega."""
    ratio, r = Fraction(3), Fraction(2)
    return {
        "exact": enumerated_delta(paired(ratio, 4), 5, r),
        "Collision": enumerated_delta(response(ratio, 4), 5, r),
        "claimed": exact_counts_delta(ratio, mixture_alpha(1, ratio, 4), 5, r),
    }


CASES = {
    "Theorem 5, printed alpha": printed_upper,
    "Theorem 5, alpha = s/Omega": corrected_upper,
    "stronger clone": quoted_clone,
    "Theorem 6, E = 1.5": lower_small,
    "Theorem 6, E = 3": lower_large,
    "Theorem 6, E = 2.5": lower_no_probability,
    "CoCo, t = 4s": coco_alike,
}


# The other way round -------------------------------------------------------------------------------------------------


def local_budgets(setting: Setting, seed: int) -> Iterator[Number]:
    """The largest local epsilon of Collision (s = 8) with which n shuffled reports keep (central, delta)."""
    n, central, delta = int(setting["n"]), float(setting["central"]), float(setting["delta"])
    yield measured_value(
        local_budget(central, n, delta, mechanism=lambda epsilon: shuffled(8, epsilon)), what="local epsilon"
    )


def alike(setting: Setting, seed: int) -> Iterator[Number]:
    """epsilon_c of Collision and CoCo with the same number of buckets, and of Collision with other d."""
    s, epsilon, n = int(setting["s"]), float(setting["epsilon"]), 10_000
    t = max(4 * s, collision_buckets(s, epsilon))
    t += t % 2
    for line, mechanism in {
        "Collision": dither.Collision(KEYS, s, epsilon, t=t),
        "CoCo": dither.CoCo(KEYS, s, epsilon, t=t),
        "Collision, d = 4096": dither.Collision(4096, s, epsilon, t=t),
    }.items():
        own = bounds(mechanism, n, 0.01 / n, ["own"])["own"]
        yield measured_value(epsilon if own is None else own.epsilon, line=line)


# One report ----------------------------------------------------------------------------------------------------------


def local(setting: Setting, seed: int) -> Iterator[Number]:
    """The largest ratio of two rows over all patterns of conflicts, in fractions, for E = 2."""
    s, t, both = int(setting["s"]), int(setting["t"]), bool(setting["paired"])
    channel = HashedChannel(TwoLevel(2, 1, favoured=s, outputs=t), both)
    rows = [channel.row(x) for x in range(channel.shape[0])]
    largest = max(a / b for one, other in permutations(rows, 2) for a, b in zip(one, other, strict=True))
    yield measured_value(float(largest), what="largest ratio")
    yield measured_value(float(min(sum(row) == 1 for row in rows)), what="rows add up to one")
    rest = [channel.rest(hit) for hit in range(1, s + 1)]
    yield measured_value(float(min(rest)), what="least weight of the rest")
    yield measured_value(float(max(rest)), what="largest weight of the rest")


def too_few_buckets(setting: Setting, seed: int) -> Iterator[Number]:
    """CoCo with t < 2s, where all pairs may be taken: what their probabilities add up to, for E = 2."""
    s, t, ratio = int(setting["s"]), int(setting["t"]), Fraction(2)
    yield measured_value(float(Fraction(t, 2) * (ratio + 1) / (s * ratio + t - s)), what="probabilities add up to")


def unbiased(setting: Setting, seed: int) -> Iterator[Number]:
    """Collision, s = 2, t = 5, E = 3: how often an item is hit, over all functions of a family.

    `independent` are all functions of three items, `pairwise` is x -> a x + b modulo 5.
    """
    t, ratio = 5, Fraction(3)
    channel = HashedChannel(TwoLevel(3, 1, favoured=2, outputs=t))
    family = {
        "independent": list(product(range(t), repeat=3)),
        "pairwise": [tuple((a * x + b) % t for x in range(3)) for a in range(t) for b in range(t)],
    }[str(setting["family"])]
    rows = [(hashes, channel.given(dict.fromkeys(hashes[:2], Fraction(1)))) for hashes in family]
    false = sum((row[hashes[2]] for hashes, row in rows), Fraction(0)) / len(rows)
    true = sum((row[hashes[0]] for hashes, row in rows), Fraction(0)) / len(rows)
    assumed = ratio / (2 * ratio + t - 2)
    yield measured_value(float(false), what="a false item is hit")
    yield measured_value(float(true), what="a true item is hit")
    for what, rate in (("estimate of a false item", false), ("estimate of a true item", true)):
        yield measured_value(float((rate - Fraction(1, t)) / (assumed - Fraction(1, t))), what=what)


def amplified(setting: Setting) -> list[Mechanism]:
    """Whose bound is shown."""
    return [shuffled(int(setting["s"]), float(setting["epsilon"]))]


AMPLIFICATION = Experiment(
    "003.amplification",
    amplification,
    grid(n=(10_000, 100_000), s=(4, 64), epsilon=EPSILONS),
    ONCE,
    only={"smoke": ({"n": 10_000, "s": 4, "epsilon": 0.5}, {"n": 10_000, "s": 4, "epsilon": 1.0})},
    mechanisms=amplified,
)
FEW_USERS = Experiment("003.few_users", few_users, grid(case=tuple(CASES)), ONCE)
LOCAL_BUDGETS = Experiment(
    "003.local_budgets",
    local_budgets,
    grid(n=(10**4, 10**5, 10**6), central=(0.005, 0.02, 0.1), delta=(1e-6, 1e-9)),
    ONCE,
    only={"smoke": {"n": 10**4, "central": 0.1, "delta": 1e-6}},
)
ALIKE = Experiment(
    "003.alike",
    alike,
    grid(s=(4, 16, 64), epsilon=(0.5, 1.0, 2.0)),
    ONCE,
    only={"smoke": {"s": 4, "epsilon": 1.0}},
)
LOCAL = Experiment(
    "003.local",
    local,
    (
        *({"s": s, "t": t, "paired": 0} for s, t in ((1, 3), (2, 4), (2, 6), (3, 6), (3, 7))),
        *({"s": s, "t": t, "paired": 1} for s, t in ((1, 4), (2, 6), (2, 8), (3, 8))),
    ),
    ONCE,
)
TOO_FEW_BUCKETS = Experiment(
    "003.too_few_buckets",
    too_few_buckets,
    tuple({"s": s, "t": t} for s in (2, 3, 4) for t in range(2, 2 * s + 1, 2)),
    ONCE,
)
UNBIASED = Experiment("003.unbiased", unbiased, grid(family=("independent", "pairwise")), ONCE)
