"""What can be won back after collection, without touching the mechanism.

A refinement takes an `Estimate` and returns a better one, which keeps the one it was made from as `original`. It is
post-processing: it sees nothing but the estimate, so it costs no privacy.

- `shrink`: many items learn from each other; the default, which never harms beyond noise
- `smooth`: values with an order learn from their neighbours
- `hdr4me`: the re-calibration of papers 000 and 001, for comparison, with what it changes by Stein's estimate
- `clip`, `simplex`, `norm_sub`, `base_cut`: what the domain tells (ranges, and that frequencies add up to one)
- `auto`: for frequencies and means what suits them; for distributions of a plan, which have an order, `smooth`

`estimate.refine("shrink")` is the same as `refine.shrink(estimate)`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
