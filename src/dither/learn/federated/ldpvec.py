"""LDPVec (001 section 6.2) in a form that keeps its promise: the direction of an update, by its randomized angles.

Only the direction of an update matters for descent, says 001, so only the direction is randomized: the vector becomes
its d - 1 hyper-spherical angles (`learn.spherical`), each angle gets noise, and the noisy angles become a vector again.
Algorithm 6 as printed is not private (ERRATA). Its norm travels as it is; its noise is scaled by beta while the angles
are not clipped, which costs epsilon / beta; and Piecewise with the budget of all angles together costs (d - 1) epsilon.
Here:

1. every vector is *normalised* to the norm `clip`: the length of a report says nothing. A vector without a direction
   (zero, or with anything not finite) counts as the middle of all intervals;
2. every angle is *clipped* to a fixed public interval: beta pi wide around pi/2, the last one 2 beta pi around 0;
3. the d - 1 angles, scaled to [-1, 1], are one record of a mechanism of the registry: `Split` with epsilon/(d - 1) an
   angle (Piecewise, Laplace or any other for one number), or `BallGaussian` on the ball around the box, with the L2
   sensitivity 2 sqrt(d - 1) (`base="Gaussian"`). Its certificate is that of LDPVec, since all that follows is computed
   from the report;
4. `bounded=True` puts noisy angles back into their intervals. The paper does not; but far beyond a turn the noise has
   no direction left, and Laplace noise on a lattice whose step is a multiple of the turn has none at all;
5. `centred` takes off the estimate what a device without a direction reports on average, which is public. For a small
   beta all reports point to the middle of the intervals, and this shift would drown the rest; for beta = 1 the middle
   is a direction like any other. By default that is done for beta up to 1/2.

**What goes wrong.** It is biased, however many devices report. Noisy angles are independent, so a report has the mean

    E[y_z] = clip E[cos angle_z] E[sin angle_1] ... E[sin angle_(z-1)],

and each factor is below the true sine or cosine: with symmetric noise n by E[cos n]. After z angles E[cos n]^z is left
of a coordinate: the first coordinates survive and the last vanish. (Dividing by it would remove the bias, and multiply
the variance by E[cos n]^(-2z).) A small beta keeps the sines close to 1, and cuts the angles of large coordinates.
`expected` is this mean, exactly, from the channel of one angle; `cosine` says how much of a direction it keeps.
`UnitVector` keeps directions without bias, at the least possible error: take that. (benchmarks/learn_federated.py)
"""

import hashlib
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import LARGEST_MATRIX
from dither.core.checks import checked_count, checked_delta, checked_epsilon, checked_real
from dither.core.contributions import Bounded, rounded_squares, vector_sums
from dither.core.domains import NUMBERS
from dither.core.estimate import Bounds, Estimate
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.mechanism import Mechanism
from dither.core.parallel import sum_chunks
from dither.core.reports import Reports
from dither.core.tally import Tally
from dither.core.worth import Worth, Worths
from dither.errors import EmptyError, InvalidReportError, ParameterError, ReportError, TallyError
from dither.learn.spherical import from_spherical, to_spherical
from dither.learn.vector_reporter import vector_rows

LEVELS = 1 << 16  # a decoded coordinate is tallied as a whole number of clip / LEVELS
_PLACES = 1025  # inputs at which the mean of Gaussian noise is worked out
_CHUNK = 1 << 20  # coordinates that are decoded at a time
_BIAS = (
    "Biased: the mean of noisy directions is not the direction of the mean, and the first coordinates survive best. "
    "The standard errors do not cover the bias."
)
_LOPSIDED = (
    "Noise shrinks what honest reports say, and not what lies say: compare the figures with the estimate itself, not "
    "with the vectors."
)

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class LDPVec:
    """Directions by randomized angles, with the verbs of an `VectorReporter`.

    >>> direction = LDPVec(d=3, epsilon=12.0, clip=2.0)
    >>> reports = direction.randomize([[0.0, 5.0, 5.0]] * 10_000, seed=1)
    >>> direction.estimate(direction.tally(reports)).value.round(1).tolist()  # of norm 2, had it no bias
    [-0.0, 1.2, 1.4]
    >>> print(direction.guarantee)
    epsilon 12 (exact)
    """

    d: int
    epsilon: float
    delta: float = 0.0
    clip: float = 1.0
    base: str = "Piecewise"
    beta: float = 1.0
    bounded: bool = True
    centred: bool | None = None

    def __post_init__(self) -> None:
        checked = {
            "d": checked_count("d", self.d, 2),
            "epsilon": checked_epsilon(self.epsilon),
            "delta": checked_delta(self.delta),
            "clip": checked_real("clip", self.clip),
            "beta": checked_real("beta", self.beta),
            "centred": self.beta <= 0.5 if self.centred is None else bool(self.centred),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if not (math.isfinite(self.clip) and self.clip > 0):
            raise ParameterError("clip must be a finite number above 0: the norm of every update")
        if not 0 < self.beta <= 1:
            raise ParameterError("beta must be above 0 and at most 1: the share of the angles' range that is kept")
        if not isinstance(self.base, str):
            raise ParameterError('base is the name of a mechanism for one number, as in base="Piecewise"')
        angle = self._angle
        scored = angle.reading.domain.kind == NUMBERS and angle.dtype.names == ("value",)  # a score for each output
        if not scored and not self._gaussian:
            raise ParameterError(f"{self.base} does not report a number: take Piecewise, Laplace or Gaussian")

    # What it is --------------------------------------------------------------------------------------------------

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism that randomizes the d - 1 angles as one record."""
        from dither.mechanisms import Split
        from dither.mechanisms.ballgaussian import BallGaussian

        if self._gaussian:
            return BallGaussian(self.d - 1, self.epsilon, self.delta)
        return Split(self.base, self.d - 1, self.epsilon, self.delta)

    @property
    def _gaussian(self) -> bool:
        return self.base == "Gaussian"

    @property
    def _radius(self) -> float:
        """What the mechanism's one is worth: the angles fill a box, and Gaussian noise is for the ball around it."""
        return math.sqrt(self.d - 1) if self._gaussian else 1.0

    @property
    def _angle(self) -> Mechanism:
        """The mechanism of one angle."""
        return (*self.mechanism.components, self.mechanism)[0]

    @property
    def _scores(self) -> Numbers:
        """Where a noisy angle lies in its interval, for each output; -1 and 1 are the ends."""
        return self._angle.reading.scores  # type: ignore[attr-defined]

    @property
    def name(self) -> str:
        """What is randomized, and how, for people."""
        return f"{self.base} angles"

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for one report: the certificate of the mechanism that draws it."""
        return self.mechanism.guarantee

    @cached_property
    def fingerprint(self) -> str:
        """Equal exactly for equal protocols."""
        facts = [self.mechanism.fingerprint, self.clip, self.beta, self.bounded, self.centred, LEVELS]
        return hashlib.sha256(json.dumps(["LDPVec", *facts]).encode()).hexdigest()

    @cached_property
    def _intervals(self) -> tuple[Numbers, Numbers]:
        """Centre and half-width of every angle's interval."""
        centre, half = np.full(self.d - 1, math.pi / 2), np.full(self.d - 1, self.beta * math.pi / 2)
        centre[-1], half[-1] = 0.0, self.beta * math.pi
        return centre, half

    # The verbs ---------------------------------------------------------------------------------------------------

    def randomize(self, vectors: Any, *, seed: int | None = None) -> Reports:
        """One report for each row, whatever stands in it: d - 1 randomized angles, and nothing about its length."""
        return self.mechanism.randomize(self.inside(vectors), seed=seed)

    def inside(self, vectors: Any) -> Numbers:
        """The rows as the mechanism takes them."""
        return self._scaled(vectors) / self._radius

    def _scaled(self, vectors: Any) -> Numbers:
        """The angles of the rows, clipped to their intervals and scaled to [-1, 1]."""
        rows = vector_rows(vectors, self.d)
        largest = np.abs(rows).max(axis=1, initial=0.0)
        lost = ~np.isfinite(largest) | (largest == 0)
        rows[lost], largest[lost] = 1.0, 1.0
        centre, half = self._intervals
        angles = to_spherical(rows / largest[:, None])[1]
        scaled = np.clip((angles - centre) / half, -1.0, 1.0)
        scaled[lost] = 0.0
        return scaled

    def clipped(self, vectors: Any) -> Numbers:
        """The rows as they would come out without noise: of norm `clip`, every angle inside its interval."""
        return self._vectors(self._scaled(vectors))

    def tally(self, reports: NDArray) -> Tally:
        """The sums of the decoded coordinates and of their squares, in whole numbers."""
        marks = np.asanyarray(reports).view(Reports)  # a plain array has none
        if marks.maker and marks.maker != self.mechanism.fingerprint:
            raise ReportError("these reports were made by another mechanism, or by this one with other parameters")
        rows = np.atleast_1d(np.asarray(reports))
        self.mechanism.valid(rows[:0])  # also no reports must be of its kind
        sums = sum_chunks(lambda part: self._sums(rows[part]), len(rows), max(1, _CHUNK // self.d))
        counts = np.zeros((2, self.d), dtype=np.int64) if sums is None else sums
        return Tally(self.fingerprint, len(rows), counts, marks.simulated and len(rows) > 0)

    @property
    def contributions(self) -> Bounded:
        """What one report adds: the entries of a vector of norm `LEVELS`, each rounded, and their squares."""
        return vector_sums(self.d, LEVELS, rounded_squares(self.d, LEVELS))

    def _sums(self, rows: NDArray) -> NDArray[np.int64]:
        if not self.mechanism.valid(rows).all():  # its own tally has a count for each output of each angle: gigabytes
            raise InvalidReportError("a report has a field out of range, so no honest device sent it")
        whole = np.rint(self.decode(rows) * (LEVELS / self.clip)).astype(np.int64)
        return np.stack([whole.sum(axis=0), (whole * whole).sum(axis=0)])

    def decode(self, reports: NDArray) -> Numbers:
        """The vector of each report, of norm `clip`."""
        values = np.asarray(reports)["value"].reshape(len(reports), -1)
        if self._gaussian:
            sums: Any = self.mechanism.reading
            return self._vectors((values.astype(np.float64) - sums.offset) * (self._radius / sums.length))
        return self._vectors(self._scores[values])

    def _vectors(self, scaled: Numbers) -> Numbers:
        centre, half = self._intervals
        angles = centre + half * (np.clip(scaled, -1.0, 1.0) if self.bounded else scaled)
        return from_spherical(np.full(len(angles), self.clip), angles)

    def estimate(self, tally: Tally) -> Estimate:
        """The mean of the decoded vectors, less that of no direction: biased, with the standard errors of its noise."""
        if not isinstance(tally, Tally) or tally.mechanism != self.fingerprint:
            raise TallyError("this tally belongs to another mechanism, or to this one with other parameters")
        self.contributions.check(tally.n, tally.counts)
        if tally.n == 0:
            raise EmptyError("there are no reports yet: tally at least one before estimating")
        unit = self.clip / LEVELS
        mean, square = tally.counts * np.array([[unit], [unit**2]]) / tally.n
        stderr = np.sqrt(np.maximum(square - mean**2, 0.0) / tally.n)
        mean = mean - self._nowhere
        guarantee = NO_GUARANTEE if tally.simulated else self.guarantee
        bounds = Bounds(-2 * self.clip, 2 * self.clip)
        return Estimate(mean, stderr, tally.n, guarantee, "mean", source=repr(self), notes=(_BIAS,), bounds=bounds)

    def report_worth(self) -> Worths:
        """A bound: every report decodes to a vector of norm `clip`, less the mean of devices without a direction."""
        clip, taken_off = Fraction(self.clip), Fraction(float(np.abs(self._nowhere).max()))
        most = clip + taken_off
        return (Worth("mean", -most, most, -clip, clip, self.d, at_once=None, exact=False, note=_LOPSIDED),)

    def mean(self, reports: NDArray) -> Numbers:
        """The mean of the decoded vectors behind these reports."""
        return self.estimate(self.tally(reports)).value

    # How much survives ---------------------------------------------------------------------------------------------

    def expected(self, vectors: Any) -> Numbers:
        """What the estimate from endlessly many reports of one row would be, exactly, for each row."""
        return self._mean_report(self._scaled(vectors)) - self._nowhere

    @cached_property
    def _nowhere(self) -> Numbers:
        """The mean report of a device without a direction, as far as it is taken off."""
        return self._mean_report(np.zeros((1, self.d - 1)))[0] if self.centred else np.zeros(self.d)

    def _mean_report(self, scaled: Numbers) -> Numbers:
        centre, half = self._intervals
        means = np.empty((2, *scaled.shape))
        for where in (slice(None, -1), slice(-1, None)):  # all angles but the last have the same interval
            if scaled[:, where].size:
                means[:, :, where] = self._waves(centre[where][0], half[where][0], scaled[:, where])
        cosines, sines = means
        vectors = np.empty((len(scaled), self.d))
        vectors[:, :-1], vectors[:, -1] = cosines, 1.0
        vectors[:, 1:] *= np.multiply.accumulate(sines, axis=1)
        return self.clip * vectors

    def _waves(self, centre: float, half: float, scaled: Numbers) -> Numbers:
        """E[cos] and E[sin] of noisy angles: between two inputs of the channel, a mixture of their rows."""
        if self._gaussian:
            return self._gaussian_waves(centre, half, scaled)
        waves = self._wave(centre, half, self._scores)
        channel = self._angle.channel()
        place = (scaled + 1) / 2 * (channel.shape[0] - 1)
        lower = np.minimum(place.astype(np.int64), channel.shape[0] - 2)
        needed, position = np.unique(np.stack([lower, lower + 1]), return_inverse=True)
        if needed.size * channel.shape[1] > LARGEST_MATRIX:
            raise ParameterError("the channel of an angle is too fine for this many vectors: ask for a few at a time")
        law = np.array([np.array(channel.row(int(row)), dtype=np.float64) for row in needed])
        below, above = (waves @ law.T)[:, position].transpose(1, 0, 2, 3)
        return below + (place - lower) * (above - below)

    def _gaussian_waves(self, centre: float, half: float, scaled: Numbers) -> Numbers:
        """The same for Gaussian noise, by quadrature: good to 1e-6, as its lattice is fine."""
        sums: Any = self.mechanism.reading
        sigma = self._radius * math.sqrt(sums.noise) / sums.length
        nodes = np.linspace(-9.0, 9.0, 1 + 2 * math.ceil(9 * max(64.0, 64 * sigma * half)))
        weights = np.exp(-(nodes**2) / 2)
        weights /= weights.sum()
        places = np.linspace(-1.0, 1.0, _PLACES)
        means = np.stack([self._wave(centre, half, place + sigma * nodes) @ weights for place in places], axis=1)
        return np.stack([np.interp(scaled, places, mean) for mean in means])

    def _wave(self, centre: float, half: float, scores: Numbers) -> Numbers:
        """Cosine and sine of noisy angles."""
        angles = centre + half * (np.clip(scores, -1.0, 1.0) if self.bounded else scores)
        return np.stack([np.cos(angles), np.sin(angles)])

    def cosine(self, vectors: Any) -> Numbers:
        """How much of each row's direction survives in endlessly many reports of it: 1 is all of it, 0 nothing.

        >>> LDPVec(d=50, epsilon=1.0).cosine(np.ones((1, 50))).round(2).tolist()
        [0.14]
        """
        rows, means = vector_rows(vectors, self.d), self.expected(vectors)
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(means, axis=1)
        with np.errstate(invalid="ignore"):
            return np.where(lengths > 0, (rows * means).sum(axis=1) / lengths, 0.0)

    def error(self, vectors: Any = None) -> float:
        """The largest expected squared distance of one report from the vector with its direction and norm `clip`.

        Without vectors, of some that it finds hard: along the first and the last axes, and a diagonal.
        """
        if vectors is None:
            axes = np.zeros((3, self.d))
            axes[np.arange(3), [0, self.d - 2, self.d - 1]] = 1.0
            vectors = np.concatenate([axes, -axes, np.ones((1, self.d)), -np.ones((1, self.d))])
        rows = vector_rows(vectors, self.d)
        directions = self.clip * rows / np.linalg.norm(rows, axis=1, keepdims=True)
        means = self._mean_report(self._scaled(rows))
        variance = self.clip**2 - (means**2).sum(axis=1)  # a report has the norm clip, always
        return float((variance + ((means - self._nowhere - directions) ** 2).sum(axis=1)).max())
