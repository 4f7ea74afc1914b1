"""What can be won back after collection, without touching the mechanism.

A refinement takes an `Estimate` and returns a better one, which keeps the one it was made from as `original`. It is
post-processing: it sees nothing but the estimate, so it costs no privacy.

- `shrink`: many items learn from each other; the default, which never harms beyond noise
- `smooth`: values with an order learn from their neighbours
- `hdr4me`: the re-calibration of papers 000 and 001, for comparison, with the probability that it helps
- `clip`, `simplex`, `norm_sub`, `base_cut`: what the domain tells (ranges, and that frequencies add up to one)
- `auto`: for frequencies and means what suits them; for distributions of a plan, which have an order, `smooth`

`estimate.refine("shrink")` is the same as `refine.shrink(estimate)`.
"""

from collections.abc import Callable
from typing import Any

from dither.errors import ParameterError
from dither.refine.auto import auto
from dither.refine.hdr4me import hdr4me
from dither.refine.project import base_cut, clip, norm_sub, simplex
from dither.refine.shrink import shrink
from dither.refine.smooth import smooth

METHODS = {each.__name__: each for each in (auto, shrink, smooth, hdr4me, clip, simplex, norm_sub, base_cut)}


def by_name(method: str) -> Callable[..., Any]:
    """The refinement of this name."""
    if not isinstance(method, str) or method not in METHODS:
        raise ParameterError(f"there is no such refinement; there are {', '.join(METHODS)}")
    return METHODS[method]


__all__ = ["auto", "base_cut", "by_name", "clip", "hdr4me", "norm_sub", "shrink", "simplex", "smooth"]
