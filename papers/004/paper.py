"""004, J. Yang, T. Wang, N. Li, X. Cheng, S. Su: Answering Multi-Dimensional Range Queries under LDP."""

from dither.reproduce.papers import Paper

from .claims import CLAIMS
from .figures import FIGURES

PAPER = Paper(
    "004",
    "Answering multi-dimensional range queries under local differential privacy",
    figures=FIGURES,
    claims=CLAIMS,
)
