"""Linear models under local differential privacy: one user, one step, one report (002 section 6.2).

Stochastic gradient descent in which every user takes part in at most one step. The server publishes the coefficients;
the users of a batch each compute the gradient at these coefficients, send one randomized report of it, and are done;
the server reads the mean gradient off the tally and moves on. The server never sees a record, and the guarantee of the
whole training is that of one report (parallel composition: each user reports once).

`base` is this protocol, `schedule` what is public before it begins and where the defaults come from, `models` the three
losses, and `model_files` reads a trained model back.

What goes wrong: noise grows with d, so with few users a model of few public attributes is better than one of many
(docs/local-models.md). With k classes the gradient is k times as long, in one
report.
"""

import lazy_loader

from dither.errors import require

require("sklearn", "learn")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
