"""Hyper-spherical coordinates: a vector as its length and d - 1 angles, and back (001 eq. 5.14 to 5.17).

With the tails r_z = sqrt(g_z^2 + ... + g_d^2) the norm is r_1 and

    angle_z = arctan2(r_(z+1), g_z) in [0, pi] for z <= d - 2,    angle_(d-1) = arctan2(g_d, g_(d-1)) in (-pi, pi],

and back g_z = r_1 sin(angle_1) ... sin(angle_(z-1)) cos(angle_z), where the last coordinate has the sines alone.
(The sum of eq. 5.15 is printed with z as its own index; what is meant is the tail after z.)

What goes wrong in d = 10^5 dimensions, and what is done about it:

- A tail is a sum of squares from the *end*, never r_1^2 minus what went before: all its terms are positive, so it keeps
  a relative error below d times the rounding unit, 2e-11, however small it is beside the norm.
- Squares underflow for entries below 1e-154 times the largest. Rows are scaled by a power of two, which is exact, and
  rows whose tails are still too small are summed by `hypot`, which squares nothing.
- A product of 10^5 sines never recovers: it underflows only where the tail itself does, beside the norm, and there
  nothing is lost.

Relative to the norm the round trip is good to 1e-11; the norm of a vector of denormal numbers is itself rounded to
one, and nothing is better than that. Angles close to pi, unlike those close to 0, keep the tail behind them only to
1e-16 of the norm: that is a property of the coordinates, not of the code.

**Zero** has no direction. A tail that is zero gets the angle 0 (or pi, if the entry before it is negative), so the
angles of the zero vector are all 0; with the norm 0 any angles give the zero vector back. No zero is negative here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import real_array
from dither.errors import DomainError, ParameterError

_TINY = 2.0**-900  # below, a sum of squares may lack squares that underflowed


def to_spherical(vectors: Any) -> tuple[Any, Any]:
    """The norms (n,) and angles (n, d - 1) of the rows of `vectors` (n, d); one vector gives a number and d - 1 angles.

    Takes a tensor as well, and gives tensors of doubles then.

    >>> norms, angles = to_spherical([[1.0, 3**0.5], [0.0, -2.0]])
    >>> norms.round(12).tolist(), (angles / np.pi).round(12).tolist()
    ([2.0, 2.0], [[0.333333333333], [-0.5]])
    """
    rows, alike = _numbers("vectors", vectors)
    rows = rows + 0.0  # turns -0 into 0
    if rows.ndim < 1 or rows.shape[-1] < 2:
        raise ParameterError("vectors need two coordinates or more to have a direction")
    if not np.isfinite(rows).all():
        raise DomainError("vectors must be finite: clip them or put zeros in their place first")
    exponents = np.frexp(np.abs(rows).max(axis=-1, keepdims=True))[1]
    scaled = np.ldexp(rows, -exponents)
    tails = _tails(scaled)
    with np.errstate(over="ignore"):
        norms = np.ldexp(tails[..., 0], exponents[..., 0])
    if not np.isfinite(norms).all():
        raise DomainError("the length of a vector is beyond all floats: clip the vectors first")
    angles = np.empty((*rows.shape[:-1], rows.shape[-1] - 1))
    np.arctan2(tails[..., 1:-1], scaled[..., :-2], out=angles[..., :-1])
    np.arctan2(scaled[..., -1], scaled[..., -2], out=angles[..., -1])
    return alike(norms), alike(angles)


def from_spherical(norms: Any, angles: Any) -> Any:  # an array; a tensor where the angles are one
    """The vectors (n, d) of these norms (n,) and angles (n, d - 1). Angles may be any numbers, as noise makes them.

    >>> from_spherical([2.0], [[np.pi / 3]]).round(12).tolist()
    [[1.0, 1.732050807569]]
    """
    (lengths, _), (turns, alike) = _numbers("norms", norms), _numbers("angles", angles)
    if turns.ndim < 1 or turns.shape[-1] < 1 or lengths.shape != turns.shape[:-1]:
        raise ParameterError("give one norm and one angle or more for each vector")
    vectors = np.empty((*lengths.shape, turns.shape[-1] + 1))
    np.cos(turns, out=vectors[..., :-1])
    vectors[..., -1] = 1.0
    vectors[..., 1:] *= np.multiply.accumulate(np.sin(turns), axis=-1)
    vectors *= lengths[..., None]
    return alike(vectors)


def _tails(scaled: NDArray[np.float64]) -> NDArray[np.float64]:
    """sqrt(g_z^2 + ... + g_d^2) for every z, of rows whose largest entry is between 1/2 and 1."""
    squares = np.add.accumulate((scaled * scaled)[..., ::-1], axis=-1)[..., ::-1]
    doubtful = ((squares < _TINY) & (scaled != 0)).any(axis=-1)
    tails = np.sqrt(squares)
    if doubtful.any():
        tails[doubtful] = np.hypot.accumulate(np.abs(scaled[doubtful])[..., ::-1], axis=-1)[..., ::-1]
    return tails


def _numbers(name: str, given: Any) -> tuple[NDArray[np.float64], Callable[[NDArray[np.float64]], Any]]:
    """Floats from a sequence, an array or a tensor; and what makes an array alike: a tensor of doubles of a tensor."""
    tensor = hasattr(given, "detach")  # without importing torch to ask
    array = real_array(given.detach().cpu().numpy() if tensor else given)
    if array is None:
        raise ParameterError(f"{name} must be real numbers")
    return array, given.double().new_tensor if tensor else lambda found: found
