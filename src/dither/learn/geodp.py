"""GeoDP: noise on the angles of a gradient, not on its coordinates (001 chapter 5), in the two forms that are private.

A gradient in hyper-spherical coordinates (`learn.spherical`) is a magnitude and d - 1 angles. Angles are clipped to a
region of width beta pi each (2 beta pi for the last), so that a direction lies within

    half the diameter  R = sqrt(d + 2) beta pi / 2      of the centre of the region.

001 takes the direction of the *averaged* gradient and adds noise of 2 R sigma / B. That is not private: B - 1 gradients
may cancel, and then the last one decides on the direction alone, so it changes by up to 2 R and not by 2 R / B
(`papers/001/as_printed.py` shows it). Two forms are:

- `records`: every record's own angles, measured from the centre, are averaged. One record that comes or goes moves the
  sum by at most R (replacing one: by 2 R), and that of magnitudes, at most C each, by C (replacing one: by C as well).
- `batch`: the direction of the summed gradient, with noise for the whole diameter 2 R whatever the batch size. The
  norm of the sum moves by at most C (replacing one: by 2 C).

**One Gaussian.** Magnitude and angles are scaled onto one lattice of integers, such that a record moves the joint
vector by at most K, and rounded Gaussian noise is added to all of it (`learn.lattice_noise`). With s_1 and s_2 the
noise on either in units of its sensitivity, that is one Gaussian with multiplier s, 1/s^2 = 1/s_1^2 + 1/s_2^2, and
`share` is the part of it that goes to the magnitude. The guarantee over all steps is that of this one: nothing is lost
by composition, nothing is gained by the average (eps_1 + (d - 1) eps_2)/d of Theorem 7, and there is no delta' (Lemma
7), because every direction is clipped.

**Sampling.** `records` is a sum over records, as in DP-SGD. `batch` is not: what a record does depends on the others.
Let f(S) be the joint vector of a sample S, and x the record that one data set has in addition. Given the others S in
the sample, the outputs are N(f(S), v) against (1-q) N(f(S), v) + q N(f(S + x), v), with |f(S + x) - f(S)| <= K for
*every* S. Shifted and turned, this is the pair of the one-dimensional subsampled Gaussian with a shift of at most K. A
smaller shift is one of K after scaling the output down and adding the noise that is then missing, so it tells no more.
The outputs are mixtures of these pairs over S, with the same weights on both sides, and hockey-stick divergences are
jointly convex. So the worst pair of `privacy.accounting.subsampling`, in both directions and composed over adaptive
steps, is the worst for both forms.

**From angles to a step.** decode="sphere" is eq. 5.17. It has a flaw that no noise is to blame for: angles of gradients
that disagree average to pi/2, and if all angles are pi/2 the step is along the last coordinates. decode="tangent"
takes cos(angle_z) times the length that a tail usually has, sqrt((d - z + 1)/d), and has no use for products of sines.

**What goes wrong.** R grows with sqrt(d), where the sensitivity of a clipped gradient does not; see `docs/geodp.md` for
what that costs. The region of 001, ((1 - beta) pi, pi), misses the place where angles are in high dimensions, pi/2. It
is there as region="printed"; the default is centred at pi/2. At beta = 1 the last angle jumps between pi and -pi.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dither.core.checks import checked_count, checked_real
from dither.core.guarantee import Guarantee
from dither.core.randomness import Stream
from dither.errors import ParameterError
from dither.learn.clipping import Flat, quantised_gradients
from dither.learn.lattice_noise import LatticeNoise
from dither.learn.spherical import from_spherical, to_spherical

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]

FORMS = ("records", "batch")
REGIONS = ("middle", "printed")
NEIGHBOURS = ("add-remove", "replace")
DECODERS = ("sphere", "tangent")
_WIDTH = 6.0  # of the default region, in typical angles' distances from pi/2


@dataclass(frozen=True)
class Sensitivity:
    """By how much one record moves the magnitude and the direction, each in its own units; for sums over records."""

    magnitude: float
    direction: float


def sensitivity(d: int, beta: float, clip: float, *, form: str, neighbours: str = "add-remove") -> Sensitivity:
    """The exact sensitivities of either form: they are attained, for some records.

    >>> sensitivity(2, 1.0, 1.0, form="records").direction == sensitivity(2, 1.0, 1.0, form="batch").direction / 2
    True
    """
    _checked_option("form", form, FORMS)
    _checked_option("neighbours", neighbours, NEIGHBOURS)
    half = math.sqrt(checked_count("d", d, 2) + 2) * _checked_beta(beta) * math.pi / 2
    length = _checked_clip(clip)
    if form == "records":
        return Sensitivity(length, half if neighbours == "add-remove" else 2 * half)
    return Sensitivity(length if neighbours == "add-remove" else 2 * length, 2 * half)


@dataclass(frozen=True)
class GeoDP:
    """A recipe for `DPSGD(perturb=...)`: which form of GeoDP, and its region.

    `beta` is the width of the region (None: so wide that most angles of a d-dimensional gradient fit), `share` the
    least part of the privacy budget for the magnitude, `decode` how angles become a step.

    >>> recipe = GeoDP("records", beta=0.5)
    >>> made = recipe(10, epsilon=2.0, delta=1e-5, rate=0.1, steps=5, batch=64)
    >>> made.guarantee(0.1, 5, 1e-5).epsilon <= 2.0
    True
    """

    form: str = "records"
    beta: float | None = None
    clip: float = 1.0
    share: float = 0.1
    region: str = "middle"
    decode: str = "sphere"

    def __post_init__(self) -> None:
        _checked_option("form", self.form, FORMS)
        _checked_option("region", self.region, REGIONS)
        _checked_option("decode", self.decode, DECODERS)
        _checked_clip(self.clip)
        if self.beta is not None:
            _checked_beta(self.beta)
        if not 0 < checked_real("share", self.share) < 1:
            raise ParameterError("share must be between 0 and 1: both the magnitude and the direction need noise")

    def __call__(
        self, d: int, epsilon: float, delta: float, rate: float, steps: int, batch: int
    ) -> "RecordAngles | BatchDirection":
        """The perturbation that keeps (epsilon, delta) over all steps; `batch` is the expected batch size."""
        checked_count("d", d, 2)
        return self.on(LatticeNoise.calibrated(d, 1.0, epsilon, delta, rate, steps), batch)

    def on(self, noise: LatticeNoise, batch: int) -> "RecordAngles | BatchDirection":
        """The perturbation with this noise, whose lattice is scaled so that one record moves it by the radius."""
        d = checked_count("d", noise.d, 2)
        beta = default_beta(d) if self.beta is None else self.beta
        sides = FORMS.index(self.form) + 1
        region = Region.fitted(d, beta, self.region, self.decode, noise.radius, self.share, sides)
        if self.form == "records":
            return RecordAngles(region, self.clip, noise, batch)
        return BatchDirection(region, self.clip, noise, batch)


def default_beta(d: int) -> float:
    """A region in which most angles of a gradient fit: those before the last few are pi/2 give or take 1/sqrt(d).

    >>> round(default_beta(650), 3)
    0.15
    """
    return min(1.0, _WIDTH / (math.pi / 2 * math.sqrt(checked_count("d", d, 2))))


@dataclass(frozen=True)
class Region:
    """Where directions may be, and its place on the lattice.

    Half the width of the region is `steps` integers (twice as many for the last angle), the greatest magnitude is
    `magnitude` integers. Two joint vectors of the whole region are within sqrt(magnitude^2 + (2 steps)^2 (d + 2)).
    """

    d: int
    beta: float
    kind: str
    decode: str
    steps: int
    magnitude: int

    def __post_init__(self) -> None:
        checked_count("d", self.d, 2)
        _checked_beta(self.beta)
        _checked_option("region", self.kind, REGIONS)
        _checked_option("decode", self.decode, DECODERS)
        checked_count("steps", self.steps, 1)
        checked_count("magnitude", self.magnitude, 1)

    @classmethod
    def fitted(cls, d: int, beta: float, kind: str, decode: str, radius: int, share: float, sides: int) -> "Region":
        """The finest lattice on which `sides` halves of the region and the magnitude are within the radius.

        Angles have few integers; what is left of the radius goes to the magnitude.
        """
        steps = math.isqrt(int(radius**2 * (1 - share)) // (sides**2 * (d + 2)))
        magnitude = math.isqrt(radius**2 - sides**2 * steps**2 * (d + 2))
        if steps < 1:
            raise ParameterError("nothing is left for the direction: give the magnitude a smaller share")
        if magnitude < 1:
            raise ParameterError("nothing is left for the magnitude: give it a larger share")
        return cls(d, _checked_beta(beta), kind, decode, steps, magnitude)

    def squared(self, sides: int) -> int:
        """The squared length of the magnitude and so many halves of the region, in integers."""
        return self.magnitude**2 + sides**2 * self.steps**2 * (self.d + 2)

    @property
    def centre(self) -> float:
        """The middle of the region for all angles but the last, whose middle is 0."""
        return math.pi / 2 if self.kind == "middle" else math.pi * (1 - self.beta / 2)

    @property
    def limits(self) -> Integers:
        """The largest offset of each angle, in integers."""
        limits = np.full(self.d - 1, self.steps, dtype=np.int64)
        limits[-1] *= 2
        return limits

    @property
    def unit(self) -> float:
        """What an integer is worth in radians; the same for all angles, since the last is twice as wide."""
        return self.beta * math.pi / 2 / self.steps

    def offsets(self, angles: Numbers) -> Integers:
        """Angles clipped to the region, as integers from its centre."""
        moved = angles.copy()
        moved[..., :-1] -= self.centre
        limits = self.limits
        return np.clip(np.rint(moved / self.unit), -limits, limits).astype(np.int64)

    def angles(self, offsets: Numbers) -> Numbers:
        """The angles of noisy offsets. The true ones are known to lie in the region, so what is outside is put back."""
        limits = self.limits
        angles = np.clip(offsets, -limits, limits) * self.unit
        angles[..., :-1] += self.centre
        return angles

    def vector(self, magnitude: float, offsets: Numbers) -> Numbers:
        """The step of a noisy magnitude and noisy offsets. A negative magnitude would turn it around: it counts 0."""
        angles, length = self.angles(offsets), max(magnitude, 0.0)
        if self.decode == "sphere":
            return np.asarray(from_spherical(length, angles))
        step = np.zeros(self.d)  # all but one of the tails' coordinates: along the last but one the tangent is flat
        step[:-2], step[-1] = np.cos(angles[:-1]), np.sin(angles[-1])
        return length * step * np.sqrt(np.arange(self.d, 0, -1) / self.d)


@dataclass(frozen=True)
class RecordAngles:
    """Form (a): the average over records of magnitudes and clipped angles."""

    region: Region
    clip: float
    noise: LatticeNoise
    batch: int

    def __post_init__(self) -> None:
        _checked_fit(self.region, self.clip, self.noise, self.batch, 1)

    @property
    def radius(self) -> int:
        """What one record moves the joint vector by, at most."""
        return self.noise.radius

    def contributions(self, gradients: Tensor) -> Tensor:
        """Each row's magnitude and angles as integers. A row that is zero or not finite contributes zeros."""
        norms, angles = _spherical(gradients.detach().cpu().double().numpy())
        rows = np.zeros((len(norms), self.region.d))
        some = norms > 0
        rows[some, 0] = np.rint(np.minimum(norms[some] / self.clip, 1.0) * self.region.magnitude)
        rows[some, 1:] = self.region.offsets(angles[some])
        return torch.from_numpy(rows)

    def release(self, total: Integers, step: int, stream: Stream) -> Numbers:
        """The direction of the average noisy angles, as long as the average noisy magnitude."""
        noisy = self.noise.release(total, step, stream) * (self.noise.radius / self.batch)
        return self.region.vector(noisy[0] / self.region.magnitude * self.clip, noisy[1:])

    def guarantee(self, rate: float, steps: int, delta: float) -> Guarantee:
        """That of one Gaussian on Poisson samples."""
        return self.noise.guarantee(rate, steps, delta)

    def multipliers(self) -> tuple[float, float]:
        """The noise on the magnitude and on the direction, each in units of its own sensitivity."""
        return _multipliers(self.region, self.noise, 1)

    def __str__(self) -> str:
        return (
            f"gives its length, at most {self.clip:g}, and its angles, each within {self.region.beta / 2:.3g} pi of "
            f"{self.region.centre / math.pi:.3g} pi; the averages get Gaussian noise of {self.multipliers()[0]:.4g} "
            f"and {self.multipliers()[1]:.4g} times what one record can change"
        )


@dataclass(frozen=True)
class BatchDirection:
    """Form (b): the magnitude and the clipped angles of the summed gradient, with noise for the whole region."""

    region: Region
    clip: float
    noise: LatticeNoise
    batch: int

    def __post_init__(self) -> None:
        _checked_fit(self.region, self.clip, self.noise, self.batch, 2)

    @property
    def radius(self) -> int:
        """The norm of a contribution, at most, and what one record moves the joint vector by."""
        return self.noise.radius

    def contributions(self, gradients: Tensor) -> Tensor:
        """Clipped gradients on the lattice, as in DP-SGD."""
        norms = torch.linalg.vector_norm(gradients, dim=1)
        return quantised_gradients(gradients, Flat(self.clip).factors(norms), self.noise.radius)

    def joint(self, total: Integers) -> Integers:
        """The magnitude and the clipped angles of a sum of contributions, as integers.

        The magnitude is floor(|sum| * magnitude / K) in exact arithmetic: a record of norm at most K moves what is
        inside the floor by at most the integer `magnitude`, and so the floor.
        """
        exact = total.astype(object)
        squares = int(exact @ exact)
        joint = np.zeros(self.region.d, dtype=np.int64)
        if squares:
            joint[0] = math.isqrt(squares * self.region.magnitude**2 // self.noise.radius**2)
            joint[1:] = self.region.offsets(np.asarray(to_spherical(total.astype(np.float64))[1]))
        return joint

    def release(self, total: Integers, step: int, stream: Stream) -> Numbers:
        """A noisy direction, as long as the noisy norm of the sum over the expected batch."""
        noisy = self.noise.release(self.joint(total), step, stream) * self.noise.radius
        return self.region.vector(noisy[0] / self.region.magnitude * self.clip / self.batch, noisy[1:])

    def guarantee(self, rate: float, steps: int, delta: float) -> Guarantee:
        """That of one Gaussian on Poisson samples: the module says why sampling helps here too."""
        return self.noise.guarantee(rate, steps, delta)

    def multipliers(self) -> tuple[float, float]:
        """The noise on the magnitude and on the direction, each in units of its own sensitivity."""
        return _multipliers(self.region, self.noise, 2)

    def __str__(self) -> str:
        return (
            f"is cut to a length of at most {self.clip:g}; the length of their sum and its angles, each within "
            f"{self.region.beta / 2:.3g} pi of {self.region.centre / math.pi:.3g} pi, get Gaussian noise of "
            f"{self.multipliers()[0]:.4g} and {self.multipliers()[1]:.4g} times what one record can change"
        )


def _spherical(rows: Numbers) -> tuple[Numbers, Numbers]:
    """Norms and angles of rows of any size; zero for rows that are not finite."""
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    scales = np.abs(rows).max(axis=1, keepdims=True)
    scales[scales == 0] = 1.0
    norms, angles = to_spherical(rows / scales)
    with np.errstate(over="ignore"):  # a norm beyond all floats is clipped like any other
        return norms * scales[:, 0], angles


def _multipliers(region: Region, noise: LatticeNoise, sides: int) -> tuple[float, float]:
    deviation = noise.multiplier * noise.radius
    return deviation / region.magnitude, deviation / (sides * region.steps * math.sqrt(region.d + 2))


def _checked_fit(region: Region, clip: float, noise: LatticeNoise, batch: int, sides: int) -> None:
    """The guarantee is that of the noise: no record may move the joint vector by more than its radius."""
    checked_count("batch", batch, 1)
    _checked_clip(clip)
    if region.d != noise.d:
        raise ParameterError("the region and the noise must have the same number of dimensions")
    if region.squared(sides) > noise.radius**2:
        raise ParameterError(
            "this region is wider than the noise is made for; make it with GeoDP(...).on(noise, batch), which fits it"
        )


def _checked_option(name: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ParameterError(f"{name} must be one of {', '.join(known)}")


def _checked_beta(beta: float) -> float:
    number = checked_real("beta", beta)
    if not 0 < number <= 1:
        raise ParameterError("beta must be above 0 and at most 1: the part of all directions that is kept apart")
    return number


def _checked_clip(clip: float) -> float:
    number = checked_real("clip", clip)
    if not 0 < number < math.inf:
        raise ParameterError("clip must be a finite number above 0, for example clip=1.0")
    return number
