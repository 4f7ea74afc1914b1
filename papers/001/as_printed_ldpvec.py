"""001 chapter 6 exactly as printed: LDPVec (Algorithm 6), federated LDP-SGD (section 6.1.1), and what they really give.

**LDPVec** adds noise to the angles of a gradient, scaled by their "collective sensitivity", and sends the norm as it
is. `ldpvec_certificate` says what that is worth:

- two gradients of different norms are told apart by one look: delta = 1, whatever epsilon;
- even for gradients of one norm the angles are not clipped, while the noise is scaled by beta: directions differ by
  1/beta times what the noise is made for. Laplace noise gives epsilon / beta, Gaussian noise that of a multiplier beta
  times as large;
- Piecewise has the ratio e^epsilon for each angle, however close two inputs are: (d - 1) epsilon for all of them.

**LDP-SGD** puts noise on the last of E local steps, and the model that a device sends holds the other E - 1 without
any. `ldpsgd_certificate` is the delta at the promised epsilon. With rates that shrink, the noise of the last step is
smaller still.

`ignorant` is the control that every figure of these needs: a direction that does not look at the data.

Not for training on private data: `dither.learn.Federation` reports whole updates, and `UnitVector` keeps directions.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dither.learn.spherical import from_spherical, to_spherical
from dither.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon

Numbers = NDArray[np.float64]
MECHANISMS = ("Gaussian", "Piecewise", "Laplace")


def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """The deviation of section 3.1.1, in units of the sensitivity."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def noisy(
    values: Numbers, diameter: float, mechanism: str, epsilon: float, delta: float, random: np.random.Generator
) -> Numbers:
    """Values with the noise of a mechanism at epsilon, scaled by the diameter of all of them together.

    Piecewise takes values in [-1, 1], which are 2 apart at most: the scale is half the diameter.
    """
    if mechanism == "Laplace":
        return values + random.laplace(0, diameter / epsilon, values.shape)
    if mechanism == "Gaussian":
        return values + diameter * gaussian_multiplier(epsilon, delta) * random.normal(size=values.shape)
    return diameter / 2 * piecewise(np.clip(2 * values / diameter, -1, 1), epsilon, random)


def piecewise(values: Numbers, epsilon: float, random: np.random.Generator) -> Numbers:
    """The Piecewise mechanism on values in [-1, 1] (001 eq. 3.7), unbiased.

    >>> float(np.abs(piecewise(np.zeros(1000), 2.0, np.random.default_rng(1))).max()) <= 2.17
    True
    """
    grown = math.exp(epsilon / 2)
    most = (grown + 1) / (grown - 1)
    low = (most + 1) / 2 * values - (most - 1) / 2
    near = random.random(values.shape) < grown / (grown + 1)
    place = random.random(values.shape)
    inside = low + place * (most - 1)
    outside = -most + place * (most + 1)  # the two ends, put together
    return np.where(near, inside, outside + np.where(outside >= low, most - 1, 0.0))


def numerical(
    gradients: Numbers, clip: float, mechanism: str, epsilon: float, delta: float, random: np.random.Generator
) -> Numbers:
    """Rows of norm `clip` at most, with noise on their coordinates: sensitivity 2 C d, or 2 C for Gaussian noise."""
    diameter = 2 * clip * (1 if mechanism == "Gaussian" else gradients.shape[1])
    return noisy(gradients, diameter, mechanism, epsilon, delta, random)


def ldpvec(
    gradients: Numbers, beta: float, mechanism: str, epsilon: float, delta: float, random: np.random.Generator
) -> Numbers:
    """Algorithm 6: rows with noisy angles and their own norms.

    >>> rows = ldpvec(np.ones((2, 5)), 1.0, "Laplace", 1.0, 0.0, np.random.default_rng(1))
    >>> np.linalg.norm(rows, axis=1).round(12).tolist()  # in the clear
    [2.2360679775, 2.2360679775]
    """
    d = gradients.shape[1]
    diameter = beta * math.pi * (math.sqrt(d + 2) if mechanism == "Gaussian" else d)
    norms, angles = to_spherical(gradients)
    middle = np.full(d - 1, math.pi / 2)
    middle[-1] = 0.0
    return from_spherical(norms, middle + noisy(angles - middle, diameter, mechanism, epsilon, delta, random))


def ignorant(shape: tuple[int, int], clip: float, random: np.random.Generator) -> Numbers:
    """The control: rows of norm `clip` whose directions say nothing about any gradient."""
    rows = random.normal(size=shape)
    return clip * rows / np.linalg.norm(rows, axis=1, keepdims=True)


@dataclass(frozen=True)
class Certificate:
    """What is really given: delta for gradients of different norms, and epsilon (at delta) for those of one norm."""

    delta_of_norms: float
    epsilon: float
    delta: float


def ldpvec_certificate(mechanism: str, epsilon: float, delta: float, d: int, beta: float) -> Certificate:
    """What one gradient is promised by Algorithm 6.

    >>> ldpvec_certificate("Laplace", 1.5, 0.0, 785, 0.05).epsilon
    30.0
    """
    if mechanism == "Laplace":
        return Certificate(1.0, epsilon / beta, 0.0)
    if mechanism == "Gaussian":
        return Certificate(1.0, gaussian_epsilon(beta * gaussian_multiplier(epsilon, delta), delta), delta)
    return Certificate(1.0, (d - 1) * epsilon, 0.0)


def ldpsgd_certificate(multiplier: float, epsilon: float, steps: int) -> float:
    """The true delta at epsilon of a model whose last of so many equal steps has Gaussian noise.

    Two devices may differ by 2 C in every step; the noise, `multiplier` times 2 C, is that of one.

    >>> round(ldpsgd_certificate(3.7306, 1.0, 20), 3)
    0.988
    """
    return gaussian_delta(multiplier / steps, epsilon)
