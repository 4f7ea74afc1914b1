"""002, T. Wang, J. Zhao, X. Yang, X. Ren: Locally Differentially Private Data Collection and Analysis."""

from dither.reproduce.figures import Figure, Line, Panel
from dither.reproduce.papers import Paper

from .claims import CLAIMS
from .experiments import ONE_NUMBER

PAPER = Paper(
    "002",
    "Locally differentially private data collection and analysis",
    figures=(
        Figure(
            "002.fig1",
            "worst-case variance of one number",
            ONE_NUMBER,
            x="epsilon",
            lines=(Line("Opt-GM"), Line("Algorithm 2"), Line("eq. 33", kind="limit")),
            panels=(
                Panel("delta = 1e-6", {"panel": "epsilon"}),
                Panel("epsilon = 1", {"panel": "delta"}, x="delta"),
            ),
            y_label="variance",
            x_scale="log",
            y_scale="log",
        ),
    ),
    claims=CLAIMS,
)
