"""Linear models under local differential privacy: one user, one step, one report (002 section 6.2).

Stochastic gradient descent in which every user takes part in at most one step. The server publishes the coefficients;
the users of a batch each compute the gradient at these coefficients, send one randomized report of it, and are done;
the server reads the mean gradient off the tally and moves on. The server never sees a record, and the guarantee of the
whole training is that of one report (parallel composition: each user reports once).

`base` is this protocol, `schedule` what is public before it begins and where the defaults come from, `models` the three
losses, and `stored` reads a trained model back.

What goes wrong: noise grows with d, so with few users a model of few public attributes is better than one of many
(docs/local-models.md). Classes are two; a model for each of k classes would need k reports.
"""

from dither.errors import MissingExtraError

try:
    import sklearn as sklearn
except ImportError:
    raise MissingExtraError("this needs sklearn: pip install 'dither[learn]'") from None

from dither.learn.linear.model_files import MODELS, load_model
from dither.learn.linear.models import LinearRegression, LinearSVC, LogisticRegression
from dither.learn.linear.schedule import FARTHEST, FEWEST_STEPS, FIRST_SHARE, RIDGE, Schedule, public_order

__all__ = [
    "FARTHEST",
    "FEWEST_STEPS",
    "FIRST_SHARE",
    "MODELS",
    "RIDGE",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "Schedule",
    "load_model",
    "public_order",
]
