"""001, a thesis in three parts: the analysis of high-dimensional means (chapter 4), GeoDP (5) and LDPVec (6)."""

from dither.reproduce.papers import Paper

from . import chapter5, chapter6
from .chapter4 import CLAIMS, FIGURES

PAPER = Paper(
    "001",
    "Benchmarking and enhancing the utility of differential privacy for data mining applications",
    figures=(*FIGURES, *chapter5.FIGURES, *chapter6.FIGURES),
    claims=sorted(
        (*CLAIMS, *chapter5.CLAIMS, *chapter6.CLAIMS), key=lambda claim: int(claim.name.removeprefix("001.claim"))
    ),
)
