"""003, S. Wang, J. Li, Y. Li, J. Li, W. Yang, H. Yan: numerical vectors in the local and shuffle model."""

from dither.reproduce.papers import Paper

from .claims import CLAIMS
from .figures import FIGURES

PAPER = Paper(
    "003",
    "Differentially private numerical vector analyses in the local and shuffle model",
    FIGURES,
    CLAIMS,
)
