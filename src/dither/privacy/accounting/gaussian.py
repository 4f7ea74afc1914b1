"""One Gaussian with sensitivity 1, in closed form (Balle and Wang 2018), rounded up.

Several in a row are one with a smaller multiplier: n of them with sigma are one with sigma / sqrt(n).
"""

import math

from dither.errors import require
from dither.privacy.accounting.privacy_loss import least_epsilon


def gaussian_delta(sigma: float, epsilon: float) -> float:
    """The delta of one Gaussian with sensitivity 1 at this epsilon.

    >>> round(gaussian_delta(1.0, 1.0), 4)
    0.1269
    """
    tail = require("scipy.special", "fast").log_ndtr
    near, far = float(tail(0.5 / sigma - epsilon * sigma)), float(tail(-0.5 / sigma - epsilon * sigma)) + epsilon
    # Both logarithms are good to 1e-15 relative to their size, and their difference may be small.
    doubt = 8e-16 * (1 + abs(near) + abs(far) + epsilon)
    return math.exp(near) * min(1.0, -math.expm1(min(far - near, 0.0)) + doubt)


def gaussian_epsilon(sigma: float, delta: float) -> float:
    """The least epsilon of one Gaussian with sensitivity 1 at this delta.

    >>> round(gaussian_epsilon(2.0, 1e-5), 3)
    1.993
    """
    return least_epsilon(lambda epsilon: gaussian_delta(sigma, epsilon), delta, 1.0, 1e-12)
