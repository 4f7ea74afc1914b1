"""002, T. Wang, J. Zhao, X. Yang, X. Ren: Locally Differentially Private Data Collection and Analysis."""

from dither.reproduce.papers import Paper

from . import claims_categories, claims_formulas, claims_means, claims_models
from .figures import FIGURES

_CLAIMS = (*claims_formulas.CLAIMS, *claims_means.CLAIMS, *claims_categories.CLAIMS, *claims_models.CLAIMS)

PAPER = Paper(
    "002",
    "Locally differentially private data collection and analysis",
    figures=FIGURES,
    claims=tuple(sorted(_CLAIMS, key=lambda claim: int(claim.name.removeprefix("002.claim")))),
)
