"""Bounds on a share of users that hold whatever the distribution of the users is.

Users are at places x, in unknown shares p(x); reports fall into groups y with known chances P(y | x). What is asked is
a share a'p, with a(x) = 1 inside a bin (or below a point) and 0 outside. A window mechanism blurs all places nearby:
to draw a picture one must suppose that p is smooth, and where it is not, the picture is wrong by more than any
posterior says. A bound needs no such thing. Choose weights w of the reports with

    sum_y P(y | x) w(y)  >=  a(x)        at every place x.

Then whoever the users are, the average of w over reports has an expectation of at least a'p, and the average plus z
standard deviations of it is an upper bound that holds with the stated probability. With -a it is a lower one. (Strict
bounds: Rust and Burrus 1972, Stark 1992. With the choice of w for a guessed p they hold without any condition: Stanley,
Patil and Kuusela 2022.)

**Which weights.** The best are those whose bound is least where p is as guessed, here the smooth estimate. Their dual
is a search for the distribution mu farthest from the guess that the reports would hardly tell from it,

    maximise a'mu  with  n sum_y (P mu - P p)_y^2 / (P p)_y  <=  z^2,   mu >= 0,   sum mu = 1,

which non-negative least squares solve for a fixed a'mu = t; `t` is moved until the limit is met. The multipliers of its
constraints are w. They fulfil what is asked of w by construction, and whatever rounding leaves is added to all of them.

The guess comes from the same reports. It has few degrees of freedom, and a bound that is chosen by it is valid for each
fixed w; `benchmarks/calibration.py` measures that the choice costs no coverage.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dither.core.confidence import beyond
from dither.errors import require
from dither.estimation.output_counts import OutputCounts

Floats = NDArray[np.float64]

_HARD = 1e4  # how much more the two conditions on mu count than the fit to the reports
_CLOSE = 0.25  # the bound is flat in t, so the limit need not be met exactly
_MOST_STEPS = 8
_UNSEEN = 0.05  # so little tells mu from the guess that rounding would decide on the weights


def upper_bounds(heard: OutputCounts, wanted: Floats, guess: Floats, miss: float) -> Floats:
    """For each row what the share `wanted` @ p is not above, but with probability `miss`; `guess` is what p may be.

    >>> seen = OutputCounts(np.array([700.0, 300.0]), np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> upper_bounds(seen, np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([0.75, 0.25]), 0.025).round(3).tolist()
    [0.786, -0.714]
    """
    z, seen = beyond(miss), heard.counts / heard.n
    search = _WeightSearch(heard, guess, z)
    bounds = np.empty(len(wanted))
    for place, each in enumerate(wanted):
        weights = search.weights(each)
        bounds[place] = min(_bound(seen, weights, heard.n, z), float(each.max()))
    return bounds


def _bound(chance: Floats, weights: Floats, n: float, z: float) -> float:
    """The average of the weights of n outputs, and z standard deviations."""
    mean = float(chance @ weights)
    return mean + z * math.sqrt(float(chance @ (weights - mean) ** 2) / n)


class _WeightSearch:
    """The weights of outputs that bound shares, for one guess; each search begins as far out as the last one ended."""

    def __init__(self, heard: OutputCounts, guess: Floats, z: float) -> None:
        self.heard, self.guess, self.z = heard, guess, z
        self.chance = heard.chance(guess)
        self.scale = np.sqrt(heard.n / self.chance) / z  # so that the limit is 1
        self.rows = heard.law * self.scale[:, None]
        self.shift = 2 * z / math.sqrt(heard.n)

    def weights(self, wanted: Floats) -> Floats:
        """Those whose expectation is at least `wanted` everywhere, with the least bound at the guess."""
        solve = require("scipy.optimize", "fast").nnls
        matrix = np.vstack([self.rows, np.full_like(wanted, _HARD), _HARD * wanted])
        fixed = np.append(self.chance * self.scale, _HARD)
        expected, most = float(wanted @ self.guess), float(wanted.max())
        best, least = np.full(self.chance.size, most), most
        near, far, target = expected, most, min(expected + self.shift, (expected + most) / 2)
        for _ in range(_MOST_STEPS):
            mu, _ = solve(matrix, np.append(fixed, _HARD * target))
            apart = self.heard.law @ mu - self.chance
            told = float(np.linalg.norm(apart * self.scale))
            if told > _UNSEEN:
                weights = apart * self.scale**2 + _HARD**2 * (mu.sum() - 1)
                weights /= _HARD**2 * (target - wanted @ mu)
                weights += max(0.0, float((wanted - weights @ self.heard.law).max()))
                bound = _bound(self.chance, weights, self.heard.n, self.z)
                if bound < least:
                    best, least, self.shift = weights, bound, target - expected
            if abs(told - 1) < _CLOSE:
                break
            near, far = (near, target) if told > 1 else (target, far)
            target = expected + (target - expected) * min(1 / max(told, 0.25), 4.0)
            if not near < target < far:
                target = (near + far) / 2
        return best
