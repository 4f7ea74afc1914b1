"""001 Algorithm 5 (GeoDP) exactly as printed, and the pair of batches on which its certificate is false.

Step 6 adds noise of sqrt(d + 2) beta pi / B times the multiplier to the angles of the *averaged* gradient. That is what
one record can do to an average of angles; to the angles of an average it can do anything. Let all but one of B
gradients cancel: the last one is the whole average, and when it turns around so does the direction, by pi, whatever B.

`flipped` makes the two batches, `refutation` measures them: what the paper promises for its noise, what that noise
gives, and the delta at the promised epsilon.

Not for training on private data: `dither.learn.geodp` has two forms that are private.

    python papers/001/as_printed.py
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dither.learn.spherical import from_spherical, to_spherical
from dither.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon

Numbers = NDArray[np.float64]


def claimed_sensitivity(d: int, beta: float, batch: float) -> float:
    """Step 6 of Algorithm 5: what one record is said to change about the direction.

    >>> round(claimed_sensitivity(2, 1.0, 1024), 4)
    0.0061
    """
    return math.sqrt(d + 2) * beta * math.pi / batch


def direction(gradients: Numbers, clip: float, beta: float) -> tuple[float, Numbers]:
    """Steps 3 to 5: the magnitude and the clipped angles of the averaged clipped gradient."""
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    magnitude, angles = to_spherical((gradients / np.maximum(1, norms / clip)).mean(axis=0))
    return float(magnitude), clipped(angles, beta)


def clipped(angles: Numbers, beta: float) -> Numbers:
    """Step 5: all angles but the last to (1 - beta) pi or more, the last to beta pi on either side."""
    kept = np.maximum(angles, (1 - beta) * math.pi)
    kept[-1] = np.clip(angles[-1], -beta * math.pi, beta * math.pi)
    return kept


def geodp(
    gradients: Numbers, clip: float, beta: float, multiplier: float, random: np.random.Generator
) -> tuple[Numbers, Numbers]:
    """Steps 3 to 7: the noisy gradient, and its noisy angles."""
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    average = (gradients / np.maximum(1, norms / clip)).mean(axis=0)
    return perturbed(average, len(gradients), clip, beta, multiplier, random)


def perturbed(
    average: Numbers,
    batch: float,
    clip: float,
    beta: float,
    multiplier: float,
    random: np.random.Generator,
    *,
    step_5: bool = True,
) -> tuple[Numbers, Numbers]:
    """Steps 4 to 7 on an averaged gradient. Without step 5 angles are not clipped, and the noise is for nothing."""
    magnitude, angles = to_spherical(average)
    if step_5:
        angles = clipped(angles, beta)
    magnitude += clip / batch * multiplier * random.normal()
    angles = angles + claimed_sensitivity(len(average), beta, batch) * multiplier * random.normal(size=angles.size)
    return from_spherical(magnitude, angles), angles


def dp_sgd(average: Numbers, batch: float, clip: float, multiplier: float, random: np.random.Generator) -> Numbers:
    """What Algorithm 5 is compared with: noise on the coordinates of the average (eq. 5.5)."""
    return average + clip / batch * multiplier * random.normal(size=average.shape)


def certificate(multiplier: float, batch: float, delta: float) -> float:
    """The true epsilon of one step: a record may move the angles of an average by their whole diameter.

    The noise is for a B-th of it, so it is the Gaussian mechanism with a multiplier of sigma / B, whatever d and beta.

    >>> round(certificate(10.0, 8192, 1e-5))
    339037
    """
    return gaussian_epsilon(multiplier / batch, delta)


def corners(d: int, beta: float, margin: float = 1e-3) -> tuple[Numbers, Numbers]:
    """Two unit vectors whose clipped angles lie at opposite corners of the region, but for a margin in radians."""
    low = np.full(d - 1, (1 - beta) * math.pi + margin)
    high = np.full(d - 1, math.pi - margin)
    low[-1], high[-1] = -beta * math.pi + margin, beta * math.pi - margin
    return from_spherical(1.0, low), from_spherical(1.0, high)


def flipped(batch: int, d: int = 2) -> tuple[Numbers, Numbers]:
    """Two batches that differ in their last record, whose averages point in opposite directions.

    All records lie along the last coordinate but one, so that the angle that turns is the last; all but one cancel.
    """
    first = np.zeros((batch, d))
    pairs = 2 * ((batch - 1) // 2)
    first[:pairs, -2] = np.resize([1.0, -1.0], pairs)
    second = first.copy()
    first[-1, -2], second[-1, -2] = 1.0, -1.0
    return first, second


@dataclass(frozen=True)
class Refutation:
    """What is promised for one step, and what is kept."""

    claimed_sensitivity: float
    change: float
    claimed_epsilon: float
    epsilon: float
    delta_at_claim: float


def refutation(batch: int, multiplier: float, delta: float, beta: float = 1.0) -> Refutation:
    """One step with this noise on the two flipped batches in the plane."""
    claimed = claimed_sensitivity(2, beta, batch)
    (_, one), (_, other) = (direction(rows, 1.0, beta) for rows in flipped(batch))
    change = float(np.linalg.norm(one - other))
    promised, real = gaussian_epsilon(multiplier, delta), multiplier * claimed / change
    return Refutation(claimed, change, promised, gaussian_epsilon(real, delta), gaussian_delta(real, promised))


if __name__ == "__main__":
    found = refutation(batch=1024, multiplier=5.0, delta=1e-5)
    print(f"claimed sensitivity of the direction {found.claimed_sensitivity:.4f}, measured change {found.change:.4f}")
    print(f"claimed epsilon {found.claimed_epsilon:.3f} at delta 1e-5; true epsilon at least {found.epsilon:.0f}")
    print(f"true delta at the claimed epsilon {found.delta_at_claim:.6f}")
