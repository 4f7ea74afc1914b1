"""The worked examples of Fig. 1 and 3 and Table 2, in fractions: E = 2 exactly, and every hash function enumerated."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

from dither.core.channel import TwoLevel
from dither.core.hashed_channel import HashedChannel
from dither.reproduce.experiments import Experiment, Scale, Setting, grid
from dither.reproduce.measured import Number, measured_value

E = 2
COLLISION = HashedChannel(TwoLevel(E, 1, favoured=2, outputs=4))  # d = 6, s = 2, t = 4; the user has 3+ and 5-
COCO = HashedChannel(TwoLevel(E, 1, favoured=3, outputs=8), paired=True)  # d = 10, s = 3, t = 8; 3+, 5- and 9-

# Which places are hit: buckets of Collision; of CoCo pairs z, z + 4, with 1 where z is the favoured one of the two.
CASES: dict[str, tuple[HashedChannel, dict[int, Fraction]]] = {
    "Collision, no conflict": (COLLISION, {0: Fraction(1), 2: Fraction(1)}),
    "Collision, one bucket": (COLLISION, {1: Fraction(1)}),
    "CoCo, no conflict": (COCO, {0: Fraction(1), 1: Fraction(0), 2: Fraction(0)}),
    "CoCo, two keys on one pair": (COCO, {0: Fraction(1), 2: Fraction(0)}),
    "CoCo, three keys on one pair": (COCO, {1: Fraction(0)}),
}
HOLDS = ("j_b", "the opposite of j_b", "not the key j")


def case_row(case: str) -> list[Fraction]:
    """The probabilities of all buckets in one of the cases."""
    channel, places = CASES[case]
    return channel.given(places)


def examples(setting: Setting, seed: int) -> Iterator[Number]:
    """Bucket by bucket."""
    for bucket, chance in enumerate(case_row(str(setting["case"])), start=1):
        yield measured_value(float(chance), line="probability", bucket=bucket)


def collision_rates(holds: str, signs: Sequence[int]) -> tuple[Fraction, Fraction]:
    """P[H(j_b) = z] and P[H(j_-b) = z] of CoCo with s = 3, t = 8, E = 2, from all 8^4 hashes of four keys.

    The user has the other keys with these signs, and the key j as `holds` says; each hash names the bucket of j+.
    """
    t, half = COCO.law.outputs, COCO.law.outputs // 2
    own = {"j_b": [1], "the opposite of j_b": [-1], "not the key j": []}[holds]
    total = [Fraction(0), Fraction(0)]
    for hashes in product(range(t), repeat=1 + len(signs)):
        j, others = hashes[0], hashes[1:]
        held = [*zip([j] * len(own), own, strict=True), *zip(others, signs, strict=True)]
        sides: dict[int, list[int]] = {}
        for bucket, sign in held:
            favoured = bucket if sign > 0 else (bucket + half) % t
            sides.setdefault(favoured % half, []).append(int(favoured < half))
        row = COCO.given({pair: Fraction(sum(first), len(first)) for pair, first in sides.items()})
        total = [total[0] + row[j], total[1] + row[(j + half) % t]]
    count = t ** (1 + len(signs))
    return total[0] / count, total[1] / count


def rates(setting: Setting, seed: int) -> Iterator[Number]:
    """A row of Table 2."""
    holds = str(setting["user has"])
    others = (1, -1) if holds != "not the key j" else (1, -1, -1)
    for column, chance in zip(("P[H(j_b) = z]", "P[H(j_-b) = z]"), collision_rates(holds, others), strict=True):
        yield measured_value(float(chance), hit=column)


ONCE: dict[Scale, int] = {"smoke": 1, "quick": 1, "full": 1}
EXAMPLES = Experiment("003.examples", examples, grid(case=tuple(CASES)), ONCE)
RATES_TABLE = Experiment("003.collision_rates", rates, grid(**{"user has": HOLDS}), ONCE)
