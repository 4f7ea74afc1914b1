"""How the gradients of a batch become one private step.

A step of DP-SGD bounds every record's gradient, adds the bounded ones up, and adds noise to the sum (Abadi et al.
2016, arXiv:1607.00133). With r the Euclidean norm of a gradient g, the three bounds differ in what they do with r:

    flat          g min(1, C/r)        short gradients stay as they are
    auto          g / (r + gamma)      AUTO-S of Bu et al. 2022, arXiv:2206.07136: no C to choose, nearly a direction
    normalised    g / r                the direction alone; zero stays zero

All are then at most 1 long in units of the clip, whatever the record: removing a record moves the sum by at most that.

**Integers.** The bounded gradient is rounded to a lattice with K steps for the length 1
(`learn.lattice_noise.LatticeNoise`), and what is released is (sum of integer vectors + rounded Gaussian noise), whose
guarantee is that of the continuous Gaussian with sensitivity K. So the bound must hold for the *integers*:
`quantised_gradients` returns rows with an exact integer squared norm of at most K^2, by the rule of
`learn.lattice_noise.quantised_rows`. Tensors hold whole numbers as floats, which are exact up to 2^24 and 2^53; sums
are taken so that they never leave that range.

**What goes wrong.** A float decides which integers a record contributes, never a probability. A gradient that is not
finite contributes zero, and says nothing. A gradient that consists of rounding errors has no direction, but dividing it
by its length would give it one, as long as everybody's, and another one wherever the errors fall differently. With
activations and slopes of size 1, a coordinate is off by a few times the spacing eps of the floats; so where `auto` and
`normalised` find a norm below 8 eps sqrt(d) (1e-6 sqrt(d) in single precision), the record contributes zero. That is a
safety net and no proof, since activations may be larger: what keeps the records apart is the fixed shape of the chunks
(`learn.gradients`).

Anything else that takes gradients to a bounded integer vector and noise to its sum is a `Perturbation` too: see
`dither.learn.geodp`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dither.core.checks import checked_real
from dither.core.guarantee import Guarantee
from dither.core.randomness import Stream
from dither.errors import ParameterError
from dither.learn.lattice_noise import LatticeNoise, aim, doubt, shortened

_AUTO = 0.01  # gamma of Bu et al.
_TINY = 1e-30
_NOISE = 8  # spacings of the floats in a coordinate: what is not more counts as rounding errors


@runtime_checkable
class Perturbation(Protocol):
    """How the gradients of a batch become one private step."""

    @property
    def radius(self) -> int:
        """No entry of a contribution is larger: what exact sums rely on."""
        ...

    def contributions(self, gradients: Tensor) -> Tensor:
        """(n, d) gradients to n integer-valued rows of bounded norm, each from its own row; may overwrite the input."""
        ...

    def release(self, total: NDArray[np.int64], step: int, stream: Stream) -> NDArray[np.float64]:
        """From the exact sum of contributions, d floats: a private mean gradient, over the *expected* batch."""
        ...

    def guarantee(self, rate: float, steps: int, delta: float) -> Guarantee:
        """What all steps deliver together, each record taking part in each with probability `rate`."""
        ...


Recipe = Callable[[int, float, float, float, int, int], Perturbation]
"""d, epsilon, delta, rate, steps, batch -> the perturbation that keeps (epsilon, delta)."""


class Bound(Protocol):
    """How long a gradient is left, given how long it is."""

    @property
    def clip(self) -> float:
        """The greatest length."""
        ...

    def factors(self, norms: Tensor, floor: float = 0.0) -> Tensor:
        """What gradients of these norms are multiplied with, in units of the clip; factor * norm is at most 1.

        Norms below the floor are rounding errors, and a bound that would lengthen them returns 0.
        """
        ...


@dataclass(frozen=True)
class Flat:
    """g min(1, clip / |g|).

    >>> Flat(2.0).factors(torch.tensor([1.0, 2.0, 8.0])).tolist()
    [0.5, 0.5, 0.125]
    """

    clip: float = 1.0

    def __post_init__(self) -> None:
        _checked_length("clip", self.clip)

    def factors(self, norms: Tensor, floor: float = 0.0) -> Tensor:
        """1 / max(norm, clip): nothing is lengthened, so there is no floor."""
        return 1 / norms.clamp(min=self.clip)

    def __call__(self, d: int, epsilon: float, delta: float, rate: float, steps: int, batch: int) -> "Clipped":
        """The perturbation that keeps (epsilon, delta)."""
        return Clipped.calibrated(self, d, epsilon, delta, rate, steps, batch)

    def __str__(self) -> str:
        return f"cut to a length of at most {self.clip:g}"


@dataclass(frozen=True)
class AutoS:
    """g / (|g| + gamma): automatic clipping, which has no length to choose.

    >>> AutoS(gamma=1.0).factors(torch.tensor([0.0, 1.0])).tolist()
    [1.0, 0.5]
    """

    gamma: float = _AUTO

    clip = 1.0

    def __post_init__(self) -> None:
        _checked_length("gamma", self.gamma)

    def factors(self, norms: Tensor, floor: float = 0.0) -> Tensor:
        """1 / (norm + gamma), and 0 below the floor."""
        return torch.where(norms < floor, 0, 1 / (norms + self.gamma))

    def __call__(self, d: int, epsilon: float, delta: float, rate: float, steps: int, batch: int) -> "Clipped":
        """The perturbation that keeps (epsilon, delta)."""
        return Clipped.calibrated(self, d, epsilon, delta, rate, steps, batch)

    def __str__(self) -> str:
        return f"divided by its length plus {self.gamma:g} (AUTO-S)"


@dataclass(frozen=True)
class Normalised:
    """g / |g|: the direction alone.

    >>> Normalised().factors(torch.tensor([0.0, 4.0])).tolist()
    [0.0, 0.25]
    """

    clip = 1.0

    def factors(self, norms: Tensor, floor: float = 0.0) -> Tensor:
        """1 / norm, and 0 where there is no direction."""
        least = max(floor, _TINY)
        return torch.where(norms < least, 0, 1 / norms.clamp(min=least))

    def __call__(self, d: int, epsilon: float, delta: float, rate: float, steps: int, batch: int) -> "Clipped":
        """The perturbation that keeps (epsilon, delta)."""
        return Clipped.calibrated(self, d, epsilon, delta, rate, steps, batch)

    def __str__(self) -> str:
        return "scaled to length 1"


BOUNDS = {"flat": Flat, "auto": AutoS, "normalised": Normalised}


@dataclass(frozen=True)
class Clipped:
    """Bounded gradients on a lattice, with rounded Gaussian noise on their sum."""

    bound: Bound
    noise: LatticeNoise
    batch: int

    @classmethod
    def calibrated(
        cls, bound: Bound, d: int, epsilon: float, delta: float, rate: float, steps: int, batch: int
    ) -> "Clipped":
        """The least noise that keeps (epsilon, delta)."""
        return cls(bound, LatticeNoise.calibrated(d, bound.clip, epsilon, delta, rate, steps), batch)

    @property
    def radius(self) -> int:
        """Lattice steps in the clip: no contribution is longer."""
        return self.noise.radius

    def contributions(self, gradients: Tensor) -> Tensor:
        """Bounded and rounded, in place."""
        norms = torch.linalg.vector_norm(gradients, dim=1)
        return quantised_gradients(gradients, self.bound.factors(norms, noise_floor(gradients)), self.radius)

    def release(self, total: NDArray[np.int64], step: int, stream: Stream) -> NDArray[np.float64]:
        """The noisy sum over the expected batch, in the units of the gradients."""
        return self.noise.release(total, step, stream) / self.batch

    def guarantee(self, rate: float, steps: int, delta: float) -> Guarantee:
        """That of the Gaussian on Poisson samples, and what the noise's table adds to delta."""
        return self.noise.guarantee(rate, steps, delta)

    def __str__(self) -> str:
        return (
            f"is {self.bound}; Gaussian noise of {self.noise.multiplier:.4g} times that length is added to every "
            "coordinate of their sum"
        )


def noise_floor(gradients: Tensor) -> float:
    """Gradients with a smaller norm may be nothing but rounding errors: 8 eps sqrt(d).

    >>> round(noise_floor(torch.zeros(1, 10_000)), 7)
    9.54e-05
    """
    return _NOISE * torch.finfo(gradients.dtype).eps * sqrt(gradients.shape[1])


def quantised_gradients(gradients: Tensor, factors: Tensor, radius: int) -> Tensor:
    """factors * gradients on a lattice of `radius` steps for the length 1: whole numbers, in place.

    The same integers as those of `lattice_noise.quantised_rows`: the exact squared norm of a row is at most radius^2,
    whatever the input; rows that are not finite become zero.

    >>> quantised_gradients(torch.tensor([[3.0, 4.0], [float("nan"), 1.0]]), torch.tensor([0.2, 1.0]), 1000).tolist()
    [[599.0, 798.0], [0.0, 0.0]]
    """
    scale = factors * aim(gradients.shape[1], radius, torch.finfo(gradients.dtype).eps)
    rows = gradients.mul_(scale[:, None]).round_()
    good = _surely_within(rows, radius)
    if not bool(good.all()):
        _repair(rows, torch.nonzero(~good)[:, 0], radius)
    return rows


def exact_sum(rows: Tensor, radius: int) -> NDArray[np.int64]:
    """The sum of integer-valued rows, exactly: a single row's entries are at most `radius` in size."""
    exact = torch.float32 if rows.dtype == torch.float32 and len(rows) * radius < 1 << 24 else torch.float64
    ones = torch.ones(len(rows), dtype=exact, device=rows.device)
    return (ones @ rows.to(exact)).cpu().numpy().astype(np.int64)


def _surely_within(rows: Tensor, radius: int) -> Tensor:
    """Rows whose norm is at most the radius even if all roundings went the wrong way. NaN is never within."""
    off = doubt(rows.shape[1], torch.finfo(rows.dtype).eps)
    return torch.linalg.vector_norm(rows, dim=1) <= radius * (1 - off)


def _repair(rows: Tensor, which: Tensor, radius: int) -> None:
    """Look again at some rows in exact integers, and shorten those that are too long, each by itself."""
    some = rows[which].double()
    some[~torch.isfinite(some).all(dim=1)] = 0
    # Exact up to 2^53, and what is more stays more: whichever order it is added up in, the answer is the same.
    squares = some.clamp(-radius - 1, radius + 1).square().sum(dim=1)
    for row in torch.nonzero(squares > radius * radius)[:, 0].tolist():
        some[row] = torch.from_numpy(shortened(some[row].cpu().numpy(), radius)).to(some)
    rows[which] = some.to(rows.dtype)


def _checked_length(name: str, length: float) -> None:
    if not 0 < checked_real(name, length) < float("inf"):
        raise ParameterError(f"{name} must be a finite number above 0, for example {name}=1.0")
