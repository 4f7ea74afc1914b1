"""What 002 says in formulas: variances by the integers that are sampled, roots, corners, and the delta of each form.

Nothing here is drawn; each number is exact or good to many digits.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import brentq

import dither
from dither.mechanisms.hypercube import half_space
from dither.reproduce.experiments import Experiment, Scale, Setting, grid
from dither.reproduce.measured import Number, measured_value

from . import as_printed
from .records import DELTAS_OF_FIG5, DIMENSIONS, record_variances

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
DELTA = 1e-6
DELTAS = tuple(10.0**-power for power in range(10, 1, -1))
ONCE: dict[Scale, int] = {"smoke": 1, "quick": 1, "full": 1}


def one_number(setting: Setting, seed: int) -> Iterator[Number]:
    """The worst-case variance of a report about one number in [-1, 1]."""
    epsilon, delta = float(setting["epsilon"]), float(setting["delta"])
    for line, mechanism in {
        "Opt-GM": dither.Gaussian(epsilon=epsilon, delta=delta),
        "Algorithm 2": dither.Duchi(epsilon=epsilon, delta=delta),
        "Hybrid": dither.Hybrid(epsilon=epsilon),
    }.items():
        yield measured_value(float(np.max(mechanism.moments([0.0, 0.5, 1.0]).variance)), line=line)
    yield measured_value(((math.exp(epsilon) + 1) / (math.exp(epsilon) + 2 * delta - 1)) ** 2, line="eq. 33")


ONE_NUMBER = Experiment(
    "002.one_number",
    one_number,
    (
        *grid(panel=("epsilon",), epsilon=EPSILONS, delta=(DELTA,)),
        *grid(panel=("delta",), epsilon=(1.0,), delta=DELTAS),
    ),
    ONCE,
)


def category_variances(setting: Setting, seed: int) -> Iterator[Number]:
    """Var*/N of eq. 44: that of the frequency of a category which nobody has."""
    epsilon, delta = float(setting["epsilon"]), float(setting["delta"])
    lines: dict[str, Any] = {f"GRR k={k}": dither.GRR(k, epsilon, delta) for k in (2, 10, 100)}
    lines |= {f"SubsetSelection k={k}": dither.SubsetSelection(k, epsilon) for k in (10, 100)}
    lines |= {
        "SPRR": dither.Unary(64, epsilon, delta, kind="symmetric"),
        "OLH, whole g": dither.LocalHash(1 << 20, epsilon, delta),
        "Opt-GM": dither.OneHotGaussian(10, epsilon, delta),
    }
    for line, mechanism in lines.items():
        yield measured_value(float(mechanism.reading.variance(0.0)), line=line)
    grown, g = math.exp(epsilon), best_g(epsilon, delta)
    yield measured_value((grown + g - 1) ** 2 / ((g - 1) * (grown + g * delta - 1) ** 2), line="OLH")


def best_g(epsilon: float, delta: float) -> float:
    """The g of least variance: the closed form after eq. 57 with its fraction turned over, so that nothing cancels."""
    grown = math.exp(epsilon)
    root = math.sqrt((grown - 1) * (1 - delta) * (grown - 1 + delta - 9 * grown * delta))
    return 2 * (grown - 1) * (grown + 1 - 2 * delta) / ((grown - 1) * (1 - 3 * delta) + root)


CATEGORY_VARIANCES = Experiment(
    "002.category_variances", category_variances, grid(epsilon=EPSILONS, delta=(DELTA, 1e-7)), ONCE
)


def optimal_g(setting: Setting, seed: int) -> Iterator[Number]:
    """The closed form after eq. 57 in floating point, its stable form, and what eq. 57 is at that."""
    epsilon, delta = float(setting["epsilon"]), float(setting["delta"])
    grown = math.exp(epsilon)
    root = math.sqrt(grown - 1) * math.sqrt((1 - delta) * (grown + delta - 9 * grown * delta - 1))
    yield measured_value((-3 * grown * delta - root + grown + 3 * delta - 1) / (2 * delta), what="g as printed")
    g = best_g(epsilon, delta)
    yield measured_value(g, what="g, stable form")
    cubic = (
        -(delta**2) * g**3,
        -3 * (grown - 1) * delta**2 * g**2,
        ((grown - 1) ** 2 + 2 * (grown - 1) * delta * (delta - 2 * grown + 1)) * g,
        (grown - 1) ** 2 * (2 * delta - grown - 1),
    )
    yield measured_value(sum(cubic) / max(abs(part) for part in cubic), what="eq. 57 at it, of its largest part")
    yield measured_value((grown - 1) / (9 * grown - 1), what="largest delta with a root")


OPTIMAL_G = Experiment(
    "002.optimal_g",
    optimal_g,
    tuple({"at": f"epsilon {e:g}, delta {d:g}", "epsilon": e, "delta": d} for d in (1e-6, 1e-26) for e in EPSILONS),
    ONCE,
)


def root_between(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function changes its sign."""
    return float(brentq(function, low, high, xtol=1e-14))  # pyright: ignore[reportArgumentType]


def lemma_5(setting: Setting, seed: int) -> Iterator[Number]:
    """The roots behind k = floor(epsilon / 2.17), and whether f falls before it rises."""

    def derivative(a: float, b: float) -> float:
        return -a * (math.exp(a) + 1 - 2 * a * math.exp(a)) * b + math.exp(2 * a) - 4 * a * math.exp(a) - 1

    first = root_between(lambda a: math.exp(a) + 1 - 2 * a * math.exp(a), 0.3, 2)
    yield measured_value(first, quantity="root of g1", what="value")
    yield measured_value(root_between(lambda a: math.sinh(a) - 2 * a, 1, 3), quantity="root of g2", what="value")
    for b in (1e-3, 1e-6):
        root = root_between(lambda a, b=b: derivative(a, b), 1.5, 3)
        yield measured_value(root, quantity=f"a* at b = {b:g}", what="value")
        for a in (1.0, 4.0):
            yield measured_value(
                math.copysign(1, derivative(a, b)), quantity=f"sign of f' at {a:g}, b = {b:g}", what="value"
            )


LEMMA_5 = Experiment("002.lemma_5", lemma_5, ({"lemma": 5},), ONCE)


def sampled_dimensions(setting: Setting, seed: int) -> Iterator[Number]:
    """Eq. 37 for k by the printed floor, by the ceiling, and by trying all."""
    epsilon, d = float(setting["epsilon"]), 15
    choices = {
        "floor": as_printed.printed_dimensions(d, epsilon),
        "ceiling": max(1, min(d, math.ceil(epsilon / 2.17))),
        "best": min(range(1, d + 1), key=lambda k: as_printed.sampled_variance(d, k, epsilon, DELTA)),
    }
    for choice, k in choices.items():
        yield measured_value(as_printed.sampled_variance(d, k, epsilon, DELTA), choice=choice, metric="variance")
        yield measured_value(k, choice=choice, metric="k")


SAMPLED_DIMENSIONS = Experiment(
    "002.sampled_dimensions", sampled_dimensions, grid(epsilon=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)), ONCE
)


def corner_channels(setting: Setting, seed: int) -> Iterator[Number]:
    """Algorithm 4 and its two repairs over all inputs and outputs, or by the sizes of the sides if these are many.

    The epsilons are beyond the one that is declared; B beside what it has to be.
    """
    d, epsilon, delta = int(setting["d"]), 1.0, 1e-3
    grown, size = math.exp(epsilon), half_space(d)
    forms = {
        "Algorithm 4": (grown / (grown + 1), False),
        "A.5": (grown * size / ((grown - 1) * size + 2**d), False),
        "A.8": (grown * (2**d - size) / (grown * (2**d - size) + size), True),
    }
    for form, (favoured, ties) in forms.items():
        inside = 2**d - size if ties else size
        if d <= 8:
            excess = as_printed.corner_epsilon(as_printed.corners(d, favoured, ties)) - epsilon
        else:
            excess = math.log(favoured / (1 - favoured)) + math.log(2**d - inside) - math.log(inside) - epsilon
        yield measured_value(round(excess, 12), form=form)  # beyond that is rounding
    if d > 8:
        return
    yield measured_value(as_printed.printed_scale(d, epsilon, delta), scale="eq. 8")
    outside = as_printed.corners(d, as_printed.printed_alpha(d, epsilon, delta))
    yield measured_value(as_printed.corner_scale(outside), scale="unbiased, ties outside")
    inside = as_printed.corners(d, float(as_printed.remark_1(d, epsilon, delta).inside), ties=True)
    yield measured_value(as_printed.corner_scale(inside), scale="unbiased, ties inside")


CORNERS = Experiment("002.corners", corner_channels, grid(d=(2, 3, 4, 5, 6, 10, 42)), ONCE)


def delivered(setting: Setting, seed: int) -> Iterator[Number]:
    """The delta that a form gives at epsilon, over the delta that it declares."""
    d, epsilon, delta = int(setting["d"]), float(setting["epsilon"]), float(setting["delta"])
    printed = as_printed.mechanism_1(d, epsilon, delta) if half_space(d) * delta < 1 else None
    yield measured_value(half_space(d) * delta, form="C_d delta")
    if printed is not None:
        yield measured_value(printed.law.profile(epsilon) / delta, form="Mechanism-1 as printed")
        yield measured_value(as_printed.printed_alpha(d, epsilon, delta), form="alpha of eq. 24")
    else:
        yield measured_value(as_printed.printed_alpha(d, epsilon, delta), form="alpha of eq. 24")
    if d > 1:
        yield measured_value(
            dither.Hypercube(d, epsilon, delta).law.profile(epsilon) / delta, form="Mechanism-1, sound"
        )
    if d == 1:
        yield measured_value(dither.Duchi(epsilon, delta).channel().profile(epsilon) / delta, form="Algorithm 2")
    if 1 < d <= 8:
        for k in range(1, min(d, 3) + 1):
            yield measured_value(as_printed.sampled_delta(d, k, epsilon, delta) / delta, form=f"Mechanism-2, k={k}")
    sigma = as_printed.gaussian_sigma(epsilon, delta)
    yield measured_value(
        as_printed.gaussian_delta(epsilon, sigma, 2 * math.sqrt(d)), form="delta of Opt-GM, sensitivity 2"
    )


DELIVERED = Experiment(
    "002.delivered",
    delivered,
    (
        *grid(d=(1,), epsilon=EPSILONS, delta=(1e-3, DELTA)),
        *grid(d=(3, 4, 5, 6, 7, 8), epsilon=(1.0,), delta=(1e-3,)),
        *grid(d=(5, 10, 15), epsilon=(1.0,), delta=(DELTA,)),
        *grid(d=(11, 15), epsilon=(1.0,), delta=(1e-3,)),
        *grid(d=(42,), epsilon=(1.0,), delta=(1e-13, DELTA)),
        *grid(d=(85,), epsilon=(1.0,), delta=(1e-26, DELTA)),
    ),
    ONCE,
)


def exact_variances(setting: Setting, seed: int) -> Iterator[Number]:
    """The variance of a report about one of d numbers, at 0, for all forms."""
    d, epsilon, delta = int(setting["d"]), float(setting["epsilon"]), float(setting["delta"])
    for line, variance in record_variances(d, epsilon, delta).items():
        yield measured_value(variance, line=line)
    for line, each in {
        "epsilon/d each": dither.Duchi(epsilon / d, delta / d),
        "Split": dither.Split("Duchi", d=d, epsilon=epsilon, delta=delta).part(0),
    }.items():
        yield measured_value(float(each.moments([0.0]).variance[0]), line=line)


RECORD_VARIANCES = Experiment(
    "002.record_variances",
    exact_variances,
    (
        *grid(panel=("epsilon",), d=(*DIMENSIONS, 6), epsilon=EPSILONS, delta=(DELTA,)),
        *grid(panel=("delta",), d=DIMENSIONS, epsilon=(1.0,), delta=DELTAS_OF_FIG5),
        *grid(panel=("dimensions",), d=(2, 4, 8, 16, 32), epsilon=(0.1, 1.0), delta=(DELTA,)),
        *grid(panel=("models",), d=(42,), epsilon=(0.1, 1.0, 5.0), delta=(1e-13,)),
        *grid(panel=("models",), d=(85,), epsilon=(0.1, 1.0, 2.0), delta=(1e-26,)),
    ),
    ONCE,
    only={
        "smoke": (
            *({"panel": "epsilon", "d": d, "epsilon": epsilon} for d in (1, 5, 15) for epsilon in (1.0, 10.0)),
            *({"panel": "delta", "d": 5, "delta": delta} for delta in (1e-8, 5e-5)),
            *({"panel": "dimensions", "d": d} for d in (2, 8)),
        )
    },
)
