"""The public hash family behaves like independent uniform values, as far as the estimators rely on it.

First, what a hash value is: the same lines in Python integers, and a few pinned values, because client and server of
different versions must agree. Then, how the values are distributed over two million random hash functions: chi-square
over all g^s cells for up to four items that are consecutive, far apart, or powers of two, and the false collisions
that Collision (003) stands on. The very same checks must reject families that are too weak: pairwise-independent ones
pass on pairs and fail on triples, as ERRATA says.

Every statistical check here has false-alarm probability ALARM; there are about a hundred, so all together stay
below 1e-6. Random seeds come from a fixed stream.
"""

from collections.abc import Callable
from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from dither.core.randomness import Stream
from dither.kernels.hashing import SPREAD, buckets, edges, halves, mixed, public_seeds
from marks import wide

ALARM = 5e-9
SEEDS = Stream.seeded(1, "hash functions").words(0, slice(0, 1 << 21))[:, 0]

Family = Callable[[NDArray[np.uint64], NDArray, int], NDArray]


# What a hash value is -----------------------------------------------------------------------------------------------

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def slow_mixed(seed: int, category: int) -> int:
    x = (category * 0x9E3779B9 + (seed & M32)) & M32
    x ^= x >> 17
    x = x * 0xED5AD4BB & M32
    x ^= x >> 11
    x ^= seed >> 32
    x = x * 0xAC4C1B51 & M32
    x ^= x >> 15
    x = x * 0x31848BAB & M32
    return x ^ x >> 14


SOME_SEEDS = [0, 1, M32, 1 << 32, M64, 1 << 63, 0x0123456789ABCDEF, *SEEDS[:20].tolist()]
SOME_CATEGORIES = [0, 1, 2, 255, 256, 4095, 65535, 65536, 10**6, (1 << 31) - 1, 1 << 31, M32]
SOME_BUCKETS = [2, 3, 4, 5, 7, 16, 17, 100, 255, 256, 257, 65535, 65536]


@pytest.mark.parametrize("g", SOME_BUCKETS)
def test_buckets_are_the_slow_ones(g):
    seeds = np.array(SOME_SEEDS, dtype=np.uint64)
    found = buckets(seeds[:, None], np.array(SOME_CATEGORIES), g)
    slow = [[slow_mixed(seed, category) * g >> 32 for category in SOME_CATEGORIES] for seed in SOME_SEEDS]
    assert found.tolist() == slow
    assert found.dtype == np.uint64


def test_hash_values_never_change():
    # Reports of one version are tallied by another: these numbers are part of the protocol.
    seeds = np.array([0, 1, 0x0123456789ABCDEF, M64], dtype=np.uint64)
    low, high = halves(seeds[:, None])
    assert mixed(np.array([0, 1, 2], dtype=np.uint32) * SPREAD, low, high).tolist() == [
        [0, 4249023594, 3363761802],
        [69681622, 2800896122, 69160081],
        [1542431856, 1102366424, 855867019],
        [3354373348, 299313745, 593954622],
    ]
    assert buckets(seeds, np.array([7]), 1000).tolist() == [737, 45, 404, 315]


@pytest.mark.parametrize("dtype", ["u1", "i2", ">i4", "<u4", ">u8", "i8"])
def test_the_integer_type_of_a_category_does_not_matter(dtype):
    wide = np.repeat(np.arange(100), 2).astype(dtype)
    wide.flags.writeable = False
    seeds = SEEDS[:100].astype(">u8")
    assert buckets(seeds, wide[::2], 10).tolist() == buckets(SEEDS[:100], np.arange(100), 10).tolist()


@pytest.mark.parametrize("seed", [0, 1, M64, int(SEEDS[0])])
def test_different_categories_have_different_hashes(seed):
    low, high = halves(np.array([seed], dtype=np.uint64))
    found = mixed(np.arange(1 << 17, dtype=np.uint32) * SPREAD, low, high)
    assert np.unique(found).size == 1 << 17


def test_edges_enclose_the_buckets():
    for g in (*range(2, 301), 1000, 4099, 65535, 65536):
        ends = edges(g).tolist()
        assert ends[0] == 0
        assert ends[-1] == 1 << 32
        assert all(value * g >> 32 == y for y, value in enumerate(ends[:-1]))
        assert all((value - 1) * g >> 32 == y for y, value in enumerate(ends[1:]))
        assert {after - before for before, after in pairwise(ends)} <= {(1 << 32) // g, -(-(1 << 32) // g)}


def test_the_seeds_of_cohorts_are_those_of_splitmix():
    # The reference generator (Steele, Lea and Flood 2014) started at zero.
    assert [hex(seed) for seed in public_seeds(3).tolist()] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]
    assert public_seeds(0).shape == (0,)
    assert public_seeds(10).tolist() == public_seeds(1000)[:10].tolist()
    assert len(set(public_seeds(1 << 17).tolist())) == 1 << 17


# Families that are too weak, to see the checks fail -----------------------------------------------------------------


def linear(seeds: NDArray[np.uint64], categories: NDArray, g: int) -> NDArray:
    """(a v + b) mod p mod g: two items are independent, three are not."""
    p = np.uint64((1 << 31) - 1)
    a, b = (part.astype(np.uint64) % p for part in halves(seeds))
    return (a * categories.astype(np.uint64) % p + b) % p % np.uint64(g)


def multiplied(seeds: NDArray[np.uint64], categories: NDArray, g: int) -> NDArray:
    """A multiplication without any mixing."""
    high = seeds * (categories.astype(np.uint64) * np.uint64(2) + np.uint64(1)) >> np.uint64(32)
    return high * np.uint64(g) >> np.uint64(32)


def shifted(seeds: NDArray[np.uint64], categories: NDArray, g: int) -> NDArray:
    """The spread category added to half a seed, and not mixed: uniform for each item, and no two independent."""
    sums = categories.astype(np.uint32) * SPREAD + halves(seeds)[0]
    return sums.astype(np.uint64) * np.uint64(g) >> np.uint64(32)


def lopsided(seeds: NDArray[np.uint64], categories: NDArray, g: int) -> NDArray:
    """One value in fifty is moved to bucket 0."""
    found = buckets(seeds, categories, g)
    return np.where(seeds % np.uint64(50) == 0, np.uint64(0), found)


def once_mixed(seeds: NDArray[np.uint64], categories: NDArray, g: int) -> NDArray:
    """One round of the three."""
    low, high = halves(seeds)
    x = categories.astype(np.uint32) * SPREAD + low
    x = (x ^ (x >> np.uint32(17))) * np.uint32(0xED5AD4BB)
    return (x ^ (x >> np.uint32(11)) ^ high).astype(np.uint64) * np.uint64(g) >> np.uint64(32)


# Uniform and jointly independent ------------------------------------------------------------------------------------

ITEMS = {
    "first": (0, 1, 2, 3),
    "consecutive": (1000, 1001, 1002, 1003),
    "far apart": (3, 71_234, 900_001, 123_456_789),
    "powers of two": (1, 2, 4, 8),
    "large powers of two": (1 << 16, 1 << 20, 1 << 28, 1 << 31),
    "a parallelogram": (0, 1 << 12, 1 << 24, (1 << 12) + (1 << 24)),
    "both ends": (0, 1, M32 - 1, M32),
}


def dependent(family: Family, items: tuple[int, ...], g: int) -> bool:
    """Whether the joint law of the items over random hash functions is not uniform on g^s cells (chi-square)."""
    cells = np.zeros(SEEDS.size, dtype=np.int64)
    for item in items:
        cells = cells * g + family(SEEDS, np.array([item]), g).astype(np.int64)
    counts = np.bincount(cells, minlength=g ** len(items))
    expected = SEEDS.size / counts.size
    assert expected > 500  # so that chi-square is a good approximation in the far tail
    return ((counts - expected) ** 2).sum() / expected > chi2.isf(ALARM, counts.size - 1)


@pytest.mark.parametrize("items", ITEMS.values(), ids=ITEMS)
@pytest.mark.parametrize(
    ("s", "g"), [(1, 3), wide(1, 256), wide(2, 4), (2, 30), wide(3, 2), wide(3, 5), (3, 16), wide(4, 3), (4, 8)]
)
def test_up_to_four_items_are_independent(items, s, g):
    assert not dependent(buckets, items[:s], g)


@pytest.mark.parametrize(
    ("family", "items", "s", "g"),
    [
        (lopsided, "first", 1, 3),
        (lopsided, "first", 4, 8),
        (shifted, "consecutive", 2, 4),
        (multiplied, "first", 2, 4),
        (linear, "first", 3, 5),
        (once_mixed, "large powers of two", 2, 4),
        (once_mixed, "a parallelogram", 4, 3),
    ],
)
def test_a_weak_family_is_noticed(family, items, s, g):
    assert dependent(family, ITEMS[items][:s], g)


def test_pairs_do_not_give_a_pairwise_family_away():
    # So the checks on triples, quadruples and powers of two are not for show.
    assert not dependent(linear, ITEMS["first"][:2], 5)
    assert not dependent(shifted, ITEMS["first"][:1], 5)
    assert not dependent(once_mixed, ITEMS["first"], 8)


# False collisions (003, ERRATA) -------------------------------------------------------------------------------------


def collision_rates(family: Family, items: tuple[int, ...], t: int) -> dict[int, tuple[int, int]]:
    """For each number w of different buckets of the first s items: how many hash functions have it, and how many of
    these send the last item, which the user does not hold, into one of those w buckets."""
    *held, other = (family(SEEDS, np.array([item]), t).astype(np.int64) for item in items)
    ordered = np.sort(np.stack(held), axis=0)
    different = 1 + (np.diff(ordered, axis=0) != 0).sum(axis=0)
    hit = (np.stack(held) == other).any(axis=0)
    return {w: (int((different == w).sum()), int(hit[different == w].sum())) for w in range(1, len(held) + 1)}


def collides_too_often_or_too_rarely(family: Family, items: tuple[int, ...], t: int) -> bool:
    """Given w, the other item must hit with probability w/t exactly: then, and only then, the report of Collision
    supports it with probability 1/t whatever the weights are. Two-sided binomial, ALARM shared by all w."""
    each = ALARM / (2 * (len(items) - 1))
    return any(
        not binom.ppf(each, trials, w / t) <= hits <= binom.isf(each, trials, w / t)
        for w, (trials, hits) in collision_rates(family, items, t).items()
        if trials
    )


@pytest.mark.parametrize("items", ITEMS.values(), ids=ITEMS)
@pytest.mark.parametrize(("s", "t"), [(1, 5), wide(2, 5), wide(3, 7), (3, 64)])
def test_false_collisions(items, s, t):
    assert not collides_too_often_or_too_rarely(buckets, items[: s + 1], t)


def test_a_pairwise_family_collides_at_the_wrong_rate():
    assert not collides_too_often_or_too_rarely(linear, (0, 1), 5)
    assert collides_too_often_or_too_rarely(linear, (0, 1, 2), 5)
    assert collides_too_often_or_too_rarely(shifted, (0, 1), 5)


def test_false_collisions_by_the_law_of_the_report():
    # The same in the words of 003: bucket z is reported with A/W if it is one of the w, and otherwise with an even
    # share of the rest. Averaged over hash functions z = h(v) has probability 1/t, though w varies.
    high, low, s, t = 5, 1, 3, 7
    total = s * high + (t - s) * low
    supported = 0.0
    for w, (trials, hits) in collision_rates(buckets, ITEMS["consecutive"], t).items():
        inside, outside = high / total, (1 - w * high / total) / (t - w)
        supported += (hits * inside + (trials - hits) * outside) / SEEDS.size
    # A value in [0, inside] for each function: by Hoeffding the false alarm is at most 2 exp(-2 n x^2 / inside^2).
    reach = high / total * np.sqrt(np.log(2 / ALARM) / (2 * SEEDS.size))
    assert abs(supported - 1 / t) < reach


# Shared hash functions ----------------------------------------------------------------------------------------------

Seeding = Callable[[int], NDArray[np.uint64]]


def collisions_uneven(family: Family, seeding: Seeding, k: int, g: int, cohorts: int) -> bool:
    """Whether k categories fall into the buckets of the cohorts more, or less, evenly than independent values would.

    The pairs that collide in one cohort are linear in its chi-square over g buckets; the sum over cohorts has
    cohorts * (g - 1) degrees of freedom. Two-sided.
    """
    found = family(seeding(cohorts)[:, None], np.arange(k), g).astype(np.int64)
    counts = np.bincount((found + g * np.arange(cohorts)[:, None]).ravel(), minlength=cohorts * g)
    pairs = (counts * (counts - 1) // 2).sum()
    statistic = (2 * pairs + cohorts * k) * g / k - cohorts * k
    freedom = cohorts * (g - 1)
    return not chi2.ppf(ALARM / 2, freedom) <= statistic <= chi2.isf(ALARM / 2, freedom)


def some_pair_collides_wrongly(family: Family, seeding: Seeding, k: int, g: int, cohorts: int) -> bool:
    """Whether some two categories share a bucket in more, or fewer, cohorts than binomial. ALARM is for all pairs."""
    found = family(seeding(cohorts)[:, None], np.arange(k), g)
    each = ALARM / (k * (k - 1))
    low, high = binom.ppf(each, cohorts, 1 / g), binom.isf(each, cohorts, 1 / g)
    together = [int((found[:, u] == found[:, v]).sum()) for u, v in combinations(range(k), 2)]
    return not low <= min(together) <= max(together) <= high


def numbers(count: int) -> NDArray[np.uint64]:
    """Seeds that are just numbered."""
    return np.arange(count, dtype=np.uint64)


@pytest.mark.parametrize(("k", "g"), [(k, g) for k in (100, 1000) for g in (2, 4, 17)])
def test_numbered_cohorts_collide_at_the_rate_of_independent_values(k, g):
    assert not collisions_uneven(buckets, public_seeds, k, g, cohorts=1024)


@pytest.mark.parametrize("g", [2, 4, 17])
def test_no_pair_of_categories_is_always_together(g):
    assert not some_pair_collides_wrongly(buckets, public_seeds, 60, g, cohorts=8192)


def test_weak_cohorts_are_noticed():
    assert collisions_uneven(shifted, public_seeds, 1000, 4, cohorts=1024)
    assert some_pair_collides_wrongly(shifted, public_seeds, 60, 4, cohorts=8192)
    assert some_pair_collides_wrongly(buckets, lambda count: public_seeds(count) // np.uint64(1 << 58), 60, 4, 8192)
