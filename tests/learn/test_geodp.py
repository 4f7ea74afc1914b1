"""GeoDP in its two private forms: sensitivities in integers, noise on everything, and the printed form refuted.

Statistical tests have fixed seeds and thresholds of six standard errors (a false alarm has probability 2e-9 each).
"""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import torch

from dither.core.randomness import Stream
from dither.errors import ParameterError
from dither.learn.clipping import exact_sum
from dither.learn.geodp import BatchDirection, GeoDP, RecordAngles, Region, default_beta, sensitivity
from dither.learn.lattice_noise import LatticeNoise
from dither.learn.spherical import from_spherical, to_spherical
from dither.privacy.accounting.gaussian import gaussian_epsilon
from scripts_by_path import paper

RANDOM = np.random.default_rng
SETTINGS = {"epsilon": 2.0, "delta": 1e-5, "rate": 0.2, "steps": 10, "batch": 64}
each_region = pytest.mark.parametrize("region", ["middle", "printed"])
each_beta = pytest.mark.parametrize("beta", [0.1, 0.5, 1.0])


@lru_cache
def records(d: int, **options) -> RecordAngles:
    made = GeoDP("records", **options).on(LatticeNoise(d, 1.0, 1.5, 10), 64)
    assert isinstance(made, RecordAngles)
    return made


@lru_cache
def batches(d: int, **options) -> BatchDirection:
    made = GeoDP("batch", **options).on(LatticeNoise(d, 1.0, 1.5, 10), 64)
    assert isinstance(made, BatchDirection)
    return made


def corner(region: Region, sign: float, beyond: float = -1e-7) -> np.ndarray:
    """A unit vector whose angles all lie at one end of the region, or beyond it."""
    angles = np.full(region.d - 1, region.centre + sign * (region.beta * math.pi / 2 + beyond))
    angles[:-1] = np.clip(angles[:-1], 1e-7, math.pi - 1e-7)
    angles[-1] = sign * min(region.beta * math.pi + beyond, math.pi - 1e-7)
    return np.asarray(from_spherical(1.0, angles))


def squared(row) -> int:
    return sum(int(entry) ** 2 for entry in np.asarray(row).tolist())


# Sensitivities -----------------------------------------------------------------------------------------------------


def test_the_sensitivities_of_the_two_forms():
    half = math.sqrt(12) * 0.5 * math.pi / 2
    one = sensitivity(10, 0.5, 3.0, form="records")
    assert (one.magnitude, one.direction) == pytest.approx((3.0, half))
    one = sensitivity(10, 0.5, 3.0, form="records", neighbours="replace")
    assert (one.magnitude, one.direction) == pytest.approx((3.0, 2 * half))
    one = sensitivity(10, 0.5, 3.0, form="batch")
    assert (one.magnitude, one.direction) == pytest.approx((3.0, 2 * half))
    one = sensitivity(10, 0.5, 3.0, form="batch", neighbours="replace")
    assert (one.magnitude, one.direction) == pytest.approx((6.0, 2 * half))


@each_region
@each_beta
@pytest.mark.parametrize("d", [2, 3, 40])
def test_no_record_contributes_more_than_the_radius(d, beta, region):
    made = records(d, beta=beta, region=region)
    random = RANDOM(d)
    vectors = random.normal(size=(300, d)) * 10.0 ** random.integers(-12, 12, (300, 1))
    vectors[:100] *= random.random((100, d)) < 0.2
    vectors = np.concatenate([vectors, [corner(made.region, 1.0), corner(made.region, -1.0)], np.eye(d), -np.eye(d)])
    rows = made.contributions(torch.from_numpy(vectors)).numpy()
    assert (rows == np.rint(rows)).all()
    most = max(map(squared, rows))
    assert most <= made.radius**2
    assert np.abs(rows).max() <= made.radius
    assert (np.abs(rows[:, 1:]) <= made.region.limits).all()  # every angle is clipped
    assert (rows[:, 0] >= 0).all()
    assert (rows[:, 0] <= made.region.magnitude).all()


def test_the_sensitivity_of_records_is_attained():
    """A record with all angles at the border of the region and a norm of C moves the sum by all that is accounted."""
    made = records(40, beta=0.3)
    rows = made.contributions(torch.from_numpy(np.array([corner(made.region, 1.0), corner(made.region, -1.0)]))).numpy()
    region = made.region
    assert [squared(row) for row in rows] == [region.magnitude**2 + region.steps**2 * 42] * 2
    assert squared(rows[0] - rows[1]) == 4 * region.steps**2 * 42  # replaced: the diameter
    assert made.radius**2 * 0.99 < squared(rows[0]) <= made.radius**2


def neighbours(made: BatchDirection, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The joint vectors of a batch, and of the batch without its last record."""
    contributed = made.contributions(torch.from_numpy(rows.copy()))
    whole, less = exact_sum(contributed, made.radius), exact_sum(contributed[:-1], made.radius)
    return made.joint(whole), made.joint(less)


@each_region
@each_beta
@pytest.mark.parametrize("d", [2, 3, 30])
def test_no_record_moves_the_direction_of_a_batch_by_more_than_the_radius(d, beta, region):
    made = batches(d, beta=beta, region=region)
    random = RANDOM(d)
    most = 0
    for size in (1, 2, 3, 64, 65):
        for kind in range(4):
            rows = random.normal(size=(size, d)) * 10.0 ** random.integers(-3, 3)
            if kind and size > 2:  # all but the last cancel, or nearly
                rows = np.concatenate([rows, -rows])
                rows[0] += 1e-3 * kind * corner(made.region, -1.0)
            rows[-1] = corner(made.region, 1.0) if kind % 2 else rows[-1]
            whole, less = neighbours(made, rows)
            assert abs(int(whole[0] - less[0])) <= made.region.magnitude
            most = max(most, squared(whole - less))
    assert most <= made.radius**2


@pytest.mark.parametrize("size", [2, 64, 1000])
def test_the_sensitivity_of_a_batch_is_attained_at_every_size(size):
    """The last record turns the direction from one corner of the region to the other, however many there are.

    Noise divided by the batch size, as 001 has it, would need a radius of size times less than what is measured here.
    """
    made = batches(6, beta=0.3)
    region = made.region
    here, there = corner(region, -1.0, 0.1), corner(region, 1.0, 0.1)
    rows = np.zeros((2 * size, 6))
    rows[: size - 1] = RANDOM(1).normal(size=(size - 1, 6))
    rows[size - 1 : 2 * size - 2] = -rows[: size - 1]
    rows[-2], rows[-1] = 0.4 * here, 0.4 * there - 0.4 * here
    before, after = neighbours(made, rows)[::-1]
    assert squared((after - before)[1:]) == 4 * region.steps**2 * 8
    assert 0.98 * made.radius**2 < region.magnitude**2 + 4 * region.steps**2 * 8 <= made.radius**2


def test_the_norm_of_a_sum_is_taken_in_integers():
    made = batches(3)
    large = np.array([2**40, -(2**41), 3], dtype=np.int64)
    exact = math.isqrt((2**80 + 2**82 + 9) * made.region.magnitude**2 // made.radius**2)
    assert made.joint(large)[0] == exact
    assert made.joint(np.zeros(3, dtype=np.int64)).tolist() == [0, 0, 0]


# Noise -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["records", "batch"])
def test_magnitude_and_angles_both_get_their_noise(form):
    """The deviations that come out are those of `multipliers`, on the magnitude and on the angles."""
    d, batch, clip, rounds = (4, 500, 2.0, 2000) if form == "records" else (2, 500, 2.0, 2000)
    sides = 1 if form == "records" else 2
    made = GeoDP(form, beta=1.0, clip=clip, share=0.3).on(LatticeNoise(d, 1.0, 0.06, rounds), batch)
    region = made.region
    total = np.zeros(d, dtype=np.int64)
    total[0] = 250 * (region.magnitude if form == "records" else made.radius)  # the centre of the region in both
    stream = Stream.seeded(5)
    norms, angles = to_spherical(np.array([made.release(total, step, stream) for step in range(rounds)]))
    first, second = made.multipliers()
    offsets = angles.copy()
    offsets[:, :-1] -= region.centre
    assert agree(norms, 250 * clip / batch, first * clip / batch)
    direction = second * sides * math.sqrt(d + 2) * math.pi / 2 / (batch if form == "records" else 1)
    for column in offsets.T:
        assert agree(column, 0.0, direction)
    assert direction < math.pi / 6  # so that putting angles back into the region changes nothing


def agree(sample: np.ndarray, mean: float, deviation: float) -> bool:
    """Whether a normal sample has this mean and deviation, within six standard errors."""
    error = deviation / math.sqrt(len(sample))
    return abs(sample.mean() - mean) < 6 * error and abs(sample.std() - deviation) < 6 * error / math.sqrt(2)


@pytest.mark.parametrize("form", ["records", "batch"])
@pytest.mark.parametrize("share", [0.02, 0.5])
def test_the_two_noises_make_one_gaussian(form, share):
    made = GeoDP(form, share=share)(200, **SETTINGS)
    first, second = made.multipliers()
    joint = 1 / math.sqrt(first**-2 + second**-2)
    assert made.noise.multiplier <= joint < 1.01 * made.noise.multiplier
    # Angles have few integers, and what is left over goes to the magnitude.
    assert share <= (joint / first) ** 2 <= share + 2 / made.region.steps
    found = made.guarantee(SETTINGS["rate"], SETTINGS["steps"], SETTINGS["delta"])
    assert found.established == "bound"
    assert 0.98 * SETTINGS["epsilon"] < found.epsilon <= SETTINGS["epsilon"]
    assert found.delta <= SETTINGS["delta"]


def test_a_smaller_shift_and_a_mixture_of_them_tell_no_more():
    """The two steps of the proof that sampling helps the `batch` form, by quadrature in one dimension."""
    x = np.linspace(-12, 13, 20_001)

    def bell(at: float) -> np.ndarray:
        return np.exp(-((x - at) ** 2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])

    def divergence(pair: tuple[np.ndarray, np.ndarray], epsilon: float, turned: bool) -> float:
        one, other = pair[::-1] if turned else pair
        return float(np.maximum(one - math.exp(epsilon) * other, 0).sum())

    rate = 0.3
    worst = bell(0.0), (1 - rate) * bell(0.0) + rate * bell(1.0)
    places, shifts = [-2.0, 0.5, 3.0], [0.9, -1.0, 0.2]  # f(S), and what the record adds to it
    weights = [0.2, 0.5, 0.3]
    mixed = np.zeros_like(x), np.zeros_like(x)
    for weight, place, shift in zip(weights, places, shifts, strict=True):
        mixed[0][:] += weight * bell(place)
        mixed[1][:] += weight * ((1 - rate) * bell(place) + rate * bell(place + shift))
    for epsilon in (0.0, 0.1, 0.3, 0.6, 1.0):
        for turned in (False, True):
            most = divergence(worst, epsilon, turned)
            for shift in (0.1, 0.5, 0.99, -0.7):
                pair = bell(0.0), (1 - rate) * bell(0.0) + rate * bell(shift)
                assert divergence(pair, epsilon, turned) <= most + 1e-12
            assert divergence(mixed, epsilon, turned) <= most + 1e-12


# Directions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.25, 1.0])
def test_the_region_of_the_thesis(beta):
    region = Region.fitted(4, beta, "printed", "sphere", 1 << 12, 0.1, 1)
    ends = region.angles(np.array([region.limits, -region.limits], dtype=np.float64))
    assert ends[0].tolist() == pytest.approx([math.pi, math.pi, beta * math.pi])
    assert ends[1].tolist() == pytest.approx([(1 - beta) * math.pi, (1 - beta) * math.pi, -beta * math.pi])


def test_directions_inside_the_region_come_back():
    made = batches(50, beta=1.0)
    vector = RANDOM(3).normal(size=50)
    total = np.rint(vector * made.radius).astype(np.int64)
    joint = made.joint(total).astype(np.float64)
    back = made.region.vector(joint[0] / made.region.magnitude, joint[1:])
    assert np.linalg.norm(back) == pytest.approx(np.linalg.norm(vector), rel=0.01)
    assert cosine(back, vector) > 0.98


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def noiseless(made: RecordAngles, vectors: np.ndarray) -> np.ndarray:
    total = made.contributions(torch.from_numpy(vectors.copy())).sum(dim=0).numpy() / len(vectors)
    return made.region.vector(total[0] / made.region.magnitude, total[1:])


def test_the_middle_region_and_the_tangent_keep_more_of_the_direction():
    """Without any noise: the printed region erases the direction, and products of sines bend it."""
    random = RANDOM(4)
    common = random.normal(size=300)
    vectors = common + random.normal(size=(200, 300))
    kept = {
        (region, decode): cosine(noiseless(records(300, region=region, decode=decode), vectors), common)
        for region, decode in [("middle", "sphere"), ("middle", "tangent"), ("printed", "sphere")]
    }
    assert abs(kept["printed", "sphere"]) < 0.05
    assert kept["middle", "sphere"] > 0.5
    assert kept["middle", "tangent"] > 0.9


def test_the_default_region_holds_most_angles():
    vectors = RANDOM(5).normal(size=(50, 1000))
    _, angles = to_spherical(vectors)
    inside = np.abs(angles[:, :-1] - math.pi / 2) <= default_beta(1000) * math.pi / 2
    assert inside.mean() > 0.9
    assert default_beta(4) == 1.0


def test_what_is_not_finite_or_zero_contributes_nothing():
    made = records(3)
    rows = np.array(
        [[math.nan, 1.0, 1.0], [math.inf, 0.0, 0.0], [0.0, 0.0, 0.0], [1e308, -1e308, 1e308], [1e-310, 0, 0]]
    )
    found = made.contributions(torch.from_numpy(rows)).numpy()
    assert (found[:3] == 0).all()
    assert found[3, 0] == made.region.magnitude  # far too long for a float, and clipped like any other
    assert np.isfinite(found).all()
    whole = batches(3).contributions(torch.from_numpy(rows[:3])).numpy()
    assert (whole == 0).all()


def test_a_negative_magnitude_does_not_turn_the_step_around():
    region = records(5).region
    assert region.vector(-1.0, np.zeros(4)).tolist() == [0.0] * 5


# Training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["records", "batch"])
def test_a_model_is_trained(form):
    from dither.learn.dpsgd import DPSGD

    random = RANDOM(6)
    labels = random.integers(0, 2, 400)
    inputs = random.normal(size=(400, 4)) * 0.3 + np.where(labels, 1.0, -1.0)[:, None]
    training = DPSGD(
        torch.nn.Linear(4, 2), epsilon=8.0, delta=1e-5, batch=200, steps=10, rate=1.0, perturb=GeoDP(form), seed=1
    )
    training.fit(inputs.astype(np.float32), labels, progress=False)
    assert training.promised.epsilon <= 8.0
    assert training.guarantee.simulated
    assert training.score(inputs.astype(np.float32), labels) >= (0.9 if form == "records" else 0.0)
    assert "pi" in training.explain()


# As printed --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [2, 3, 1024, 1025])
def test_the_printed_sensitivity_is_off_by_the_batch_size(batch):
    printed = paper("001", "as_printed")
    first, second = printed.flipped(batch)
    assert (first[:-1] == second[:-1]).all()  # one record apart
    (_, one), (_, other) = printed.direction(first, 1.0, 1.0), printed.direction(second, 1.0, 1.0)
    assert abs(one[0] - other[0]) == pytest.approx(math.pi)
    assert printed.claimed_sensitivity(2, 1.0, batch) == pytest.approx(2 * math.pi / batch)


def test_the_printed_certificate_is_false():
    printed = paper("001", "as_printed")
    found = printed.refutation(batch=1024, multiplier=5.0, delta=1e-5)
    assert found.claimed_sensitivity == pytest.approx(0.0061, abs=5e-5)
    assert found.change == pytest.approx(math.pi)
    assert found.claimed_epsilon == pytest.approx(0.726, abs=1e-3)
    assert found.epsilon > 5000
    assert found.delta_at_claim > 0.999999
    random = RANDOM(7)
    first, second = printed.flipped(1024)
    ones = [printed.geodp(first, 1.0, 1.0, 5.0, random)[1][-1] for _ in range(200)]
    others = [printed.geodp(second, 1.0, 1.0, 5.0, random)[1][-1] for _ in range(200)]
    assert max(map(abs, ones)) < math.pi / 2 < min(map(abs, others))  # one look tells the two apart


def test_the_sound_form_keeps_its_promise_on_the_same_batches():
    printed = paper("001", "as_printed")
    made = GeoDP("batch", beta=1.0)(2, epsilon=1.0, delta=1e-5, rate=1.0, steps=1, batch=1024)
    assert isinstance(made, BatchDirection)
    joints = []
    for rows in printed.flipped(1024):
        for kept in (rows, rows[:-1]):
            joints.append(made.joint(exact_sum(made.contributions(torch.from_numpy(kept.copy())), made.radius)))
    apart = math.sqrt(max(squared(joints[0] - joints[1]), squared(joints[2] - joints[3])))
    assert gaussian_epsilon(made.noise.multiplier * made.radius / apart, 1e-5) <= 1.0


def test_the_case_study():
    study = paper("001", "case_study")
    assert study.by_its_equation() == pytest.approx(
        {"Laplace": 154_796, "Piecewise": 99_340, "Gaussian": 0.737}, rel=1e-3
    )
    assert study.by_coordinate() == pytest.approx(
        {"Laplace": 0.1256, "Piecewise": 0.08065, "Gaussian": 2.052}, rel=1e-3
    )
    assert study.by_report() == pytest.approx({"Laplace": 98.6, "Piecewise": 51_596, "Gaussian": 2.052}, rel=1e-3)
    assert study.PRINTED_VARIANCES["Gaussian"] == pytest.approx(400 * math.log(1.25e5), rel=1e-4)  # delta = 1e-5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "both"}, "records, batch"),
        ({"region": "left"}, "middle, printed"),
        ({"decode": "guess"}, "sphere, tangent"),
        ({"beta": 0.0}, "beta"),
        ({"beta": 1.5}, "beta"),
        ({"clip": 0.0}, "clip"),
        ({"share": 1.0}, "share"),
        ({"share": 0.0}, "both"),
    ],
)
def test_recipes_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        GeoDP(**options)


def test_a_share_that_leaves_nothing_for_the_direction_is_refused():
    with pytest.raises(ParameterError, match="nothing is left"):
        records(100, share=1 - 1e-9)
    with pytest.raises(ParameterError, match="batch"):
        GeoDP().on(LatticeNoise(100, 1.0, 1.5, 10), 0)
    with pytest.raises(ParameterError, match="nothing is left for the magnitude"):
        Region.fitted(2, 0.5, "middle", "sphere", 64, 1e-17, 1)  # 64^2 = 4 * 32^2


@pytest.mark.parametrize("make", [records, batches])
def test_a_region_that_the_noise_does_not_cover_is_refused(make):
    """The guarantee is that of the noise, and says nothing of a region whose records move the sum by more."""
    made = make(14)
    region, radius, sides = made.region, made.radius, 1 if make is records else 2
    assert region.magnitude**2 + sides**2 * region.steps**2 * 16 <= radius**2
    # The widest that fits, with nothing to spare, and one integer more: exact integers decide.
    widest = replace(region, steps=3, magnitude=math.isqrt(radius**2 - sides**2 * 9 * 16))
    assert replace(made, region=widest).region == widest
    for change in (
        {"steps": 10 * radius, "magnitude": 100 * radius},
        {"steps": 3, "magnitude": widest.magnitude + 1},
        {"steps": 1 << 62, "magnitude": 1},  # its square would wrap around in 64 bits
        {"steps": radius // (4 * sides) + 1, "magnitude": 1},
    ):
        with pytest.raises(ParameterError, match="wider than the noise"):
            replace(made, region=replace(region, **change))
    with pytest.raises(ParameterError, match="same number of dimensions"):
        replace(made, region=replace(region, d=13))
    for clip in (0.0, -1.0, math.nan):
        with pytest.raises(ParameterError, match="clip"):
            replace(made, clip=clip)


@pytest.mark.parametrize(
    "change", [{"d": 1}, {"beta": math.nan}, {"beta": 0.0}, {"kind": "left"}, {"decode": "?"}, {"steps": 0},
               {"steps": -5}, {"magnitude": 0}], ids=str,
)  # fmt: skip
def test_regions_that_make_no_sense_are_refused(change):
    with pytest.raises(ParameterError):
        replace(records(14).region, **change)
