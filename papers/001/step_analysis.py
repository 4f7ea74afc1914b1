"""The worked examples and theorems of chapter 5: one step of training, its noise, and what is promised for it."""

import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from dither.learn.analysis import direction_bias, efficiency_difference
from dither.learn.spherical import from_spherical, to_spherical
from dither.privacy.accounting.gaussian import gaussian_epsilon
from dither.reproduce.experiments import Experiment, Setting, grid
from dither.reproduce.measured import Number, measured_value

from .as_printed import certificate, refutation
from .digits import METHODS as DIGITS_METHODS
from .digits import accuracy as digits_accuracy
from .gradient_directions import CLIP, averaged, pool
from .images import data, images
from .networks import cnn, record_gradients, square

# Examples 1 to 3 ------------------------------------------------------------------------------------------------------


def examples(setting: Setting, seed: int) -> Iterator[Number]:
    """The directions of three examples, exactly."""
    for clip in (2.0, 1.0):
        vector = np.array([1.0, math.sqrt(3)]) * min(1, clip / 2) + np.array([0.3, 0.15]) * clip / 2
        yield measured_value(to_spherical(vector)[1][0], example="ex1", case=f"C = {clip:g}", column="noisy direction")
    for place in range(3):
        noisy = np.ones(3)
        noisy[place] += 0.1
        for angle in range(2):
            turned = to_spherical(noisy)[1][angle] - to_spherical(np.ones(3))[1][angle]
            yield measured_value(
                turned, example="ex2", case=f"noise .1 on g_{place + 1}", column=f"turn of angle {angle + 1}"
            )
    for name, vector in {"g_1 = (1, 1)": [3.0, 0.0], "g_2 = (2, 2)": [4.0, 1.0]}.items():
        yield measured_value(to_spherical(np.array(vector))[1][0], example="ex3", case=name, column="noisy direction")


EXAMPLES = Experiment("001.examples", examples, ({},), {"smoke": 1, "quick": 1, "full": 1})


# Theorem 6, Corollaries 1 and 2, Lemma 6 ------------------------------------------------------------------------------

D, BATCH, SIGMA, STEP = 50, 64, 2.0, 0.5
ANGLED = np.array([3.0, -1.0, 2.0, 0.5, 1.0, -1.5])


def step_law(setting: Setting, seed: int) -> Iterator[Number]:
    """Simulated steps with noise against what the analysis says about them."""
    random = np.random.default_rng(seed)
    gradient = random.normal(size=D) * CLIP / math.sqrt(D) / 2
    way, half = random.normal(size=D), random.normal(size=(int(setting["steps"]) // 2, D)) * SIGMA
    noise = np.concatenate([half, -half])  # so that what is odd in the noise has no mean at all
    for place, gap in {"away from the optimum": way, "at the optimum": np.zeros(D)}.items():
        noisy = gradient + CLIP / BATCH * noise
        found = ((STEP * noisy + gap) ** 2).sum(axis=1) - ((STEP * gradient + gap) ** 2).sum()
        item_a = STEP**2 * (2 * CLIP / BATCH * noise @ gradient + CLIP**2 / BATCH**2 * (noise**2).sum(axis=1))
        item_b = 2 * STEP * CLIP / BATCH * noise @ gap
        law = efficiency_difference(gradient, gap, rate=STEP, clip=CLIP, batch=BATCH, multiplier=SIGMA)
        yield measured_value(
            float(np.abs(found - item_a - item_b).max()), quantity="largest error of the identity", at=place
        )
        yield measured_value(float(found.mean()) / law.total.mean, quantity="mean over its law", at=place)
        yield measured_value(float(found.std()) / law.total.deviation, quantity="deviation over its law", at=place)
        yield measured_value(float(item_a.mean()), quantity="mean of item A", at=place)
    for name, (rate, clip) in {"η, C": (1, 1), "η / 2, C": (0.5, 1), "η, C / 2": (1, 0.5)}.items():
        item_b = 2 * STEP * rate * CLIP * clip / BATCH * noise @ way
        yield measured_value(float(item_b.std()), quantity="deviation of item B", at=name)
    yield from _angle_errors(random, int(setting["steps"]))


def _angle_errors(random: np.random.Generator, draws: int) -> Iterator[Number]:
    truth = to_spherical(ANGLED)[1]
    turned = to_spherical(ANGLED + random.normal(size=(draws, ANGLED.size)))[1] - truth
    turned[:, -1] = (turned[:, -1] + math.pi) % (2 * math.pi) - math.pi
    predicted = direction_bias(ANGLED, 1.0).bias
    for angle in range(truth.size):
        yield measured_value(float(turned[:, angle].mean()), quantity="bias of angle", at=angle + 1)
        yield measured_value(float(predicted[angle]), quantity="predicted bias of angle", at=angle + 1)


STEP_LAW = Experiment(
    "001.step_law",
    step_law,
    ({},),
    {"smoke": 3, "quick": 20, "full": 100},
    size={"smoke": {"steps": 20_000}, "quick": {"steps": 50_000}, "full": {"steps": 50_000}},
)


# Theorems 8 and 9 -----------------------------------------------------------------------------------------------------


def averages(setting: Setting, seed: int) -> Iterator[Number]:
    """What averaging does to gradients and to angles, and the density of eq. 5.21."""
    random = np.random.default_rng(seed)
    gradients = pool(str(setting["pictures"]), int(setting["gradients"]))[:512]
    rows = gradients[:, np.sort(random.choice(gradients.shape[1], 2000, replace=False))]
    many = len(rows)
    angles = to_spherical(rows[np.linalg.norm(rows, axis=1) > 0].astype(np.float64))[1]
    average = averaged(rows, many, random)
    by_angles = from_spherical(1.0, angles.mean(axis=0))
    yield measured_value(float(by_angles @ average / np.linalg.norm(average)), quantity="cosine of the two averages")
    samples = np.array([averaged(rows, 64, random) for _ in range(int(setting["means"]))])
    one = _deviations(rows)
    kept = one > 0
    ratio = samples.var(axis=0, ddof=1)[kept] / (one[kept] ** 2 / 64 * (many - 64) / (many - 1))
    yield measured_value(float(ratio.mean()), quantity="variance of an average of 64, over var / 64")
    places = np.linspace(-1, 1, 20_001)
    density = math.sqrt(64 / (2 * math.pi)) * np.exp(-(64**2) * places**2 / 2)
    yield measured_value(
        float(density.sum() * (places[1] - places[0])), quantity="integral of the printed density, B = 64"
    )


def _deviations(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """The deviation of each coordinate of a clipped gradient."""
    factors = np.minimum(1.0, CLIP / np.maximum(np.linalg.norm(rows, axis=1), 1e-12))
    return (rows * factors[:, None]).astype(np.float64).std(axis=0)


AVERAGES = Experiment(
    "001.averages",
    averages,
    ({},),
    {"smoke": 1, "quick": 3, "full": 20},
    size={
        "smoke": {"pictures": "digits", "gradients": 256, "means": 20},
        "quick": {"pictures": "mnist", "gradients": 2048, "means": 50},
        "full": {"pictures": "mnist", "gradients": 16384, "means": 200},
    },
    data=data,
)


# Privacy: Theorems 7 and 11, Lemma 7, section 3.1.1 -------------------------------------------------------------------


def step_privacy(setting: Setting, seed: int) -> Iterator[Number]:
    """What one step of Algorithm 5 promises and gives, and two rules of accounting, exactly."""
    found = refutation(batch=1024, multiplier=5.0, delta=1e-5)
    yield measured_value(found.claimed_epsilon, quantity="claimed ε of a step")
    yield measured_value(found.epsilon, quantity="true ε of a step, at least (two flipped batches)")
    yield measured_value(certificate(5.0, 1024, 1e-5), quantity="true ε of a step, whole diameter")
    yield measured_value(found.delta_at_claim, quantity="true δ at the claimed ε")
    order, one = 2.0, 1.0
    moved = math.sqrt(2 * one / order)  # a Gaussian of this shift has Rényi divergence 1 at order 2
    yield measured_value(
        order * (2 * moved**2) / 2, quantity="Rényi divergence of magnitude and angles together, order 2"
    )
    yield measured_value((one + one) / 2, quantity="the same by Theorem 7 with d = 2")
    sigma, delta = 5.0, 1e-5
    yield measured_value(gaussian_epsilon(sigma, delta), quantity="exact ε of a Gaussian, σ = 5")
    orders = 1 + np.exp(np.linspace(-3, 8, 4001))
    yield measured_value(
        float((orders / (2 * sigma**2) + math.log(1 / delta) / (orders - 1)).min()),
        quantity="ε of the same Gaussian through Rényi, best order",
    )


STEP_PRIVACY = Experiment("001.step_privacy", step_privacy, ({},), {"smoke": 1, "quick": 1, "full": 1})


# Theorem 10: equal privacy --------------------------------------------------------------------------------------------

EQUAL = ("DP-SGD", "GeoDP records", "GeoDP records, tangent", "GeoDP batch")
EQUAL_RATES = (3.0, 10.0)


def equal_privacy(setting: Setting, seed: int) -> Iterator[Number]:
    """Test accuracy in per cent of a training on digits, at the same certified (epsilon, delta)."""
    torch.set_num_threads(1)
    recipe = DIGITS_METHODS[str(setting["method"])]
    found = digits_accuracy(recipe, float(setting["epsilon"]), float(setting["rate"]), seed % 2**31)
    yield measured_value(100 * found)


EQUAL_PRIVACY = Experiment(
    "001.equal_privacy",
    equal_privacy,
    grid(method=EQUAL, epsilon=(1.0, 8.0), rate=EQUAL_RATES),
    {"smoke": 1, "quick": 2, "full": 5},
    only={"smoke": {"method": "DP-SGD", "epsilon": 8.0, "rate": 10.0}},
)


# Section 5.2.2: time --------------------------------------------------------------------------------------------------


def conversion_time(setting: Setting, seed: int) -> Iterator[Number]:
    """Seconds for the gradients of a batch of 256 of the CNN, and for turning one average into angles and back."""
    torch.set_num_threads(1)
    network, found = cnn(), images("digits")
    inputs, labels = square(found.train[:256]), torch.from_numpy(found.train_labels[:256])
    gradients = record_gradients(network, inputs, labels)
    rows = gradients(inputs, labels).numpy()
    average = averaged(rows, 256, np.random.default_rng(seed))
    yield measured_value(_fastest(lambda: gradients(inputs, labels)), quantity="gradients of 256 records")
    for factor in (1, 2):
        vector = np.resize(average, factor * average.size)
        yield measured_value(
            _fastest(lambda vector=vector: from_spherical(*to_spherical(vector))),
            quantity=f"conversion there and back, {vector.size:,} dimensions",
        )


def _fastest(work: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


CONVERSION_TIME = Experiment("001.conversion_time", conversion_time, ({},), {"smoke": 1, "quick": 3, "full": 5})
