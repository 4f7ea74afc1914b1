"""What suits a question: chosen from what is known of it, never from how it turned out.

- **Frequencies**: `shrink` where the categories are many enough to learn from each other, then the nearest frequencies.
- **Many means**: `shrink`.
- **One mean**: what its domain tells, which is what `shrink` falls back to.
"""

from dither.core.estimate import Estimate
from dither.refine.project import simplex
from dither.refine.shrink import shrink


def auto(estimate: Estimate) -> Estimate:
    """The refinement that suits this estimate."""
    found = shrink(estimate)
    if estimate.bounds is not None and (estimate.bounds.total or estimate.bounds.most):
        return simplex(found)
    return found
