"""Claims 1 to 13 of 003: what Collision and CoCo guarantee and what they cost, by enumeration and closed forms."""

import math

from dither.reproduce.claims import Claim, Verdict, by_criterion, corrected, holds, refuted
from dither.reproduce.measured import Measured

from .formulas import coco_rates
from .one_user import BUCKETS, KINDS, ONE_USER
from .settings_grid import CONFLICTS, GRID
from .shuffling import LOCAL, TOO_FEW_BUCKETS, UNBIASED
from .worked_examples import RATES_TABLE

EXACT = 1e-6  # files have seven digits
ILLUSTRATED = {"d": 128, "s": 8, "epsilon": 0.5}  # Fig. 5


def values(found: Measured, **where: str | int | float) -> list[float]:
    """All numbers with these coordinates."""
    return [row.value for row in found.select(**where).rows]


def at_worst(found: Measured, above: str, below: str, **where: str | int | float) -> tuple[float, str]:
    """The largest ratio of two numbers over the settings of the grid, and where it is."""
    places = [row.where for row in found.select(what=above, **where).rows]
    ratios = {tuple(place.items()): found.value(**place) / found.value(**{**place, "what": below}) for place in places}
    most = max(ratios, key=lambda place: ratios[place])
    d, s, epsilon = (dict(most)[name] for name in ("d", "s", "epsilon"))
    return ratios[most], f"d {d}, s {s}, epsilon {epsilon:g}"


def local_privacy(found: Measured) -> Verdict:
    """Claim 1."""
    ratios, whole = values(found, paired=0, what="largest ratio"), values(found, paired=0, what="rows add up to one")
    told = (
        f"E = 2, all patterns of conflicts at {len(ratios)} (s, t): largest ratio {max(ratios):g}, least "
        f"{min(ratios):g}"
    )
    return by_criterion(max(ratios) <= 2 and min(whole) == 1, told)


def paired_privacy(found: Measured, few: Measured) -> Verdict:
    """Claim 2."""
    ratios = values(found, paired=1, what="largest ratio")
    low = min(values(found, paired=1, what="least weight of the rest"))
    high = max(values(found, paired=1, what="largest weight of the rest"))
    broken = [row for row in few.rows if int(row.where["t"]) < 2 * int(row.where["s"])]
    least, most = (kind(row.value for row in broken) for kind in (min, max))
    told = (
        f"E = 2, {len(ratios)} pairs (s, t >= 2s + 2): largest ratio {max(ratios):g}, w between {low:g} and {high:.4g} "
        f"(at most 1.5); with t < 2s the probabilities of a user whose keys take all pairs add up to {least:.3g} to "
        f"{most:.3g} ({len(broken)} pairs), never to 1"
    )
    apart = all(abs(row.value - 1) > EXACT for row in broken)
    return by_criterion(max(ratios) <= 2 and low >= 1 and high <= 1.5 and apart, told)


def unbiased(found: Measured, rates: Measured) -> Verdict:
    """Claim 3."""
    false, true = (found.value(family="independent", what=f"estimate of a {kind} item") for kind in ("false", "true"))
    pairwise = found.value(family="pairwise", what="estimate of a false item")
    hit = found.value(family="pairwise", what="a false item is hit")
    expected = coco_rates(3, 2.0, 8)
    seen = [rates.value(**{"user has": "j_b", "hit": column}) for column in ("P[H(j_b) = z]", "P[H(j_-b) = z]")]
    absent = rates.value(**{"user has": "not the key j", "hit": "P[H(j_b) = z]"})
    apart = max(abs(a - b) for a, b in zip((*seen, absent), expected, strict=True))
    told = (
        f"over all functions of s + 1 items Collision estimates {true:g} for an item that is there "
        f"and {false:g} for one "
        f"that is not (s 2, t 5, E 3), and CoCo's rates differ from the formulas by {apart:.0e}; with a family that is "
        f"only pairwise independent, {hit:.4f} instead of .2 are false hits and the estimate is {pairwise:.3f}"
    )
    return by_criterion(abs(false) < EXACT and abs(true - 1) < EXACT and apart < EXACT, told)


def overwriting(found: Measured) -> Verdict:
    """Claim 4."""
    largest = max(values(found, what="largest P_ow"))
    same = min(values(found, what="share of t where both forms of eq. 7 are the same fraction"))
    many = len(found.along("s"))
    told = (
        f"{many} values of s, t from 2s + 2: both forms are the same fraction in {same:.0%}, P_ow is at "
        f"most {largest:.4f}"
    )
    return by_criterion(same == 1 and largest <= math.exp(-1), f"{told} (1/e = .3679)")


def opposite_rarer(found: Measured) -> Verdict:
    """Claim 5."""
    largest = max(values(found, what="largest P_o / P_f"))
    told = (
        f"P_o / P_f is at most {largest:.6f} for {len(found.along('s'))} values of s, t from 2s + 2, epsilon .001 to 5"
    )
    return by_criterion(largest < 1, told)


def less_than_ratio(found: Measured) -> Verdict:
    """Claim 6."""
    shares = values(found, what="P_t / (P_o E), Collision")
    return by_criterion(
        max(shares) < 1, f"P_t / P_o is {min(shares):.3f} to {max(shares):.4f} times E over {len(shares)} settings"
    )


def lemma_3(found: Measured) -> Verdict:
    """Claim 7."""
    lines = [f"{name} {label}" for name in ("Collision", "CoCo") for label in KINDS.values()]
    places = [t for t in BUCKETS if len(found.select(t=t))]
    exact = [
        abs(found.value(t=t, what="formula", line=line) / found.value(t=t, what="expected", line=line) - 1)
        for t in places
        for line in lines
    ]
    off, noise = [], []
    for t in places:
        for line in lines:
            law = found.value(t=t, what="expected", line=line)
            off.append(found.value(t=t, what="error", line=line) / law - 1)
            noise.append(found.stderr(t=t, what="error", line=line) / law)
    mean = sum(off) / len(off)
    error = math.sqrt(sum(each**2 for each in noise) * len(lines)) / len(off)  # the lines of one t share their users
    told = (
        f"eq. 8 and 9 and Theorem 4's variance against the moments of the sampled integers: {max(exact):.0e} apart at "
        f"most over {len(places)} t; simulated errors are {mean:+.2%} +- {error:.2%} off"
    )
    return by_criterion(max(exact) < EXACT and abs(mean) < 3 * error, told)


def collision_rate(found: Measured) -> Verdict:
    """Claim 8."""
    constants = {
        tuple(row.where.values()): row.value
        * float(row.where["epsilon"]) ** 2
        / (int(row.where["d"]) * int(row.where["s"]))
        for row in found.select(what="Collision, best t").rows
        if float(row.where["epsilon"]) <= 1
    }
    most = max(constants, key=lambda place: constants[place])
    told = (
        f"item error times epsilon^2 / (d s) for epsilon <= 1 is {min(constants.values()):.2f} to "
        f"{constants[most]:.2f}, "
        f"largest at (d, s, epsilon) = {most[:3]}; 13.5 (1 - 1/(3s)) is its limit. The proof's factor 2 is not needed"
    )
    return by_criterion(constants[most] <= 13.5, told)


def collision_optimum(found: Measured) -> Verdict:
    """Claim 9."""
    excess, where = at_worst(found, "Collision, printed t", "Collision, best t")
    bend = min(values(found, what="least second difference for s < t <= d"))
    shown = found.value(**ILLUSTRATED, what="Collision, printed t") / found.value(
        **ILLUSTRATED, what="Collision, best t"
    )
    told = (
        f"the printed t costs at most {excess - 1:.2%} ({where}), {shown - 1:.2%} at Fig. 5's "
        f"setting; the least second "
        f"difference of the error along t is {bend:.1e} of the least error"
    )
    return by_criterion(excess < 1.02 and bend > -1e-9, told)


def coco_optimum(found: Measured) -> Verdict:
    """Claim 10."""
    mean, at_mean = at_worst(found, "CoCo, printed t for mean", "CoCo, best t for mean")
    presence, at_presence = at_worst(found, "CoCo, printed t for presence", "CoCo, best t for presence")
    shown = [
        found.value(**ILLUSTRATED, what=f"CoCo, printed t for {goal}")
        / found.value(**ILLUSTRATED, what=f"CoCo, best t for {goal}")
        - 1
        for goal in ("mean", "presence")
    ]
    told = (
        f"for the mean at most {mean - 1:.1%} above the best t ({at_mean}), for presence {presence - 1:.1%} "
        f"({at_presence}); {shown[0]:.2%} and {shown[1]:.2%} at Fig. 5's setting"
    )
    return by_criterion(max(mean, presence) < 1.1, told)


def coco_squared_gain(found: Measured, user: Measured) -> Verdict:
    """Claim 11."""
    collision, coco = (found.value(**ILLUSTRATED, what=what) for what in ("Collision, best t", "CoCo, best t for mean"))
    gain = 1 - coco / collision
    same = {
        t: 1
        - user.value(t=t, what="expected", line="CoCo Minus") / user.value(t=t, what="expected", line="Collision Minus")
        for t in (22, 30)
    }
    small = (
        [
            1
            - found.value(d=512, s=32, epsilon=0.001, what="CoCo, best t for mean")
            / found.value(d=512, s=32, epsilon=0.001, what="Collision, best t")
        ]
        if len(found.select(d=512, s=32, epsilon=0.001))
        else []
    )
    told = (
        f"{gain:.1%} ({collision:,.0f} to {coco:,.0f}), each at its best t; at the same t {same[22]:.1%} (22) and "
        f"{same[30]:.1%} (30)" + "".join(f"; {each:.1%} at epsilon .001, s 32" for each in small)
    )
    if gain >= 0.19:
        return holds(told)
    return corrected(told) if gain >= 0.1 else refuted(told)


def price(found: Measured) -> Verdict:
    """Claim 13."""
    where = found.select(what="Collision, best t").rows
    presence = [found.value(**{**row.where, "what": "CoCo, best t for presence"}) / row.value for row in where]
    item = [found.value(**{**row.where, "what": "CoCo, item at best t for mean"}) / row.value for row in where]
    base = found.value(**ILLUSTRATED, what="Collision, best t")
    shown = [
        found.value(**ILLUSTRATED, what=what) / base
        for what in ("CoCo, best t for presence", "CoCo, item at best t for mean")
    ]
    told = (
        f"against Collision at its best t: presence {shown[0]:.2f} times, items {shown[1]:.2f} times "
        f"(with the t that is "
        f"best for the mean) at Fig. 5's setting; {min(presence):.2f} to {max(presence):.2f} and {min(item):.2f} to "
        f"{max(item):.2f} over {len(where)} settings"
    )
    return by_criterion(min(presence) > 1 and min(item) > 1, told)


CLAIMS = (
    Claim("003.claim1", "Collision is epsilon-LDP whatever items collide", "Proposition 1", (LOCAL,), local_privacy),
    Claim(
        "003.claim2",
        "CoCo is epsilon-LDP for t >= 2s + 2, the weight of free buckets being between 1 and (E+1)/2",
        "Proposition 2",
        (LOCAL, TOO_FEW_BUCKETS),
        paired_privacy,
    ),
    Claim(
        "003.claim3",
        "the estimators of Collision and CoCo are unbiased",
        "Definition 5, Algorithm 2, Table 2",
        (UNBIASED, RATES_TABLE),
        unbiased,
    ),
    Claim(
        "003.claim4",
        "the sum for P_ow has the closed form of eq. 7, at most 1/e for t >= 2s + 2",
        "eq. 7",
        (CONFLICTS,),
        overwriting,
    ),
    Claim(
        "003.claim5",
        "CoCo hits the opposite of an item less often than a false one",
        "section 7.1",
        (CONFLICTS,),
        opposite_rarer,
    ),
    Claim("003.claim6", "P_t / P_o stays below E in Collision", "section 7.1", (GRID,), less_than_ratio),
    Claim("003.claim7", "eq. 8 and 9 are the exact squared errors", "Lemma 3, Fig. 5", (ONE_USER,), lemma_3),
    Claim("003.claim8", "Collision's squared error is O(ds / (n epsilon^2))", "Theorem 4", (GRID,), collision_rate),
    Claim(
        "003.claim9",
        "Collision's error is convex in t for s <= t <= d, and least near sE + 2s - 1",
        "Theorem 4, proof",
        (GRID,),
        collision_optimum,
    ),
    Claim(
        "003.claim10",
        "t = Es + s + 2 (mean) and Es + 5s (presence) are nearly the best of CoCo",
        "Theorem 7",
        (GRID,),
        coco_optimum,
    ),
    Claim(
        "003.claim11",
        "CoCo has about 20% less squared error of the mean than Collision",
        "Fig. 5",
        (GRID, ONE_USER),
        coco_squared_gain,
    ),
    Claim(
        "003.claim13",
        "CoCo pays for it: its errors of presence and of items are above Collision's",
        "Fig. 5, Plus and Item",
        (GRID,),
        price,
    ),
)
