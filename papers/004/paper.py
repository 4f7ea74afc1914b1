"""004, J. Yang, T. Wang, N. Li, X. Cheng, S. Su: Answering Multi-Dimensional Range Queries under LDP."""

from dither.reproduce.figures import Figure, Line
from dither.reproduce.papers import Paper

from .sweeps import ATTRIBUTES, COVARIANCE, DOMAIN, EPSILON, LAMBDA, OMEGA, USERS

_X = {
    "epsilon": EPSILON,
    "omega": OMEGA,
    "domain": DOMAIN,
    "attributes": ATTRIBUTES,
    "lambda": LAMBDA,
    "users": USERS,
    "covariance": COVARIANCE,
}
PAPER = Paper(
    "004",
    "Answering multi-dimensional range queries under local differential privacy",
    figures=tuple(
        Figure(f"004.{name}", name, experiment, x="lambda", lines=(Line("HDG"),)) for name, experiment in _X.items()
    ),
    claims=(),
)
