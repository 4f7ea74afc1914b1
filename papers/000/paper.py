"""000, J. Duan, Q. Ye, H. Hu: Utility Analysis and Enhancement of LDP Mechanisms in High-Dimensional Space (HDR4ME)."""

from dither.reproduce.paper_figures import Figure, Line, Panel, PaperTable
from dither.reproduce.papers import Paper

from ..framework import BOUND, CASE, PRINTED, TOLERANCES, TRUE, UNIFORM_CASE
from ..recalibration import LINES, MECHANISMS, UNBIASED
from .claims import CLAIMS, PRINTED_CASE, PRINTED_WITHIN
from .experiments import BERRY_ESSEEN, CASE_STUDY, DEVIATIONS, DIMENSIONS, FREQUENCIES, SWEEP

SHOWN = {"Laplace": "Laplace", "Piecewise": "Piecewise", "SquareWave": "Square wave"}
DENSITY = (Line("reports", "1,000 runs"), Line("law", "law of the framework", "limit"))
SETS = {
    "Gaussian": "Gaussian, d = 100",
    "Poisson": "Poisson, d = 300",
    "Uniform": "Uniform, d = 500",
    "Factors": "COV-19: factors",
    "MNIST": "COV-19: MNIST",
}
READINGS = (
    "Lines are laws (normal, with the exact bias and variance of n reports; 100 draws, as many as the paper has "
    "repetitions), points are real reports of all n users. The supremum is 1.96 standard errors, without the square "
    "wave's bias: the paper names no confidence. Its L2 weight holds the true mean, which no server knows: drawn as "
    "printed, beside the weight that needs none."
)

PAPER = Paper(
    "000",
    "Utility analysis and enhancement of LDP mechanisms in high-dimensional space",
    figures=(
        PaperTable(
            "000.case",
            "case study: 10,000 reports at epsilon 0.001",
            CASE_STUDY,
            rows="quantity",
            columns="mechanism",
            printed={
                **PRINTED_CASE,
                ("bias", "Piecewise"): 0,
                ("1 / height of the density", "Piecewise"): 57.900,
                ("1 / height of the density", "Square wave"): 0.015,
            },
            digits=5,
            note="Square wave in units of [0, 1]. Without a lattice, then of the integers that dither samples. Eq. 14 "
            "as printed would give five times the variance: the authors computed with the right formula.",
        ),
        PaperTable(
            "000.tab2",
            "probability of being within a tolerance",
            CASE_STUDY,
            rows="mechanism",
            columns="tolerance",
            printed={
                (mechanism, tolerance): printed
                for mechanism, row in PRINTED_WITHIN.items()
                for tolerance, printed in zip(TOLERANCES, row, strict=True)
            },
            digits=4,
            note="The square wave's printed row fits a bias of -0.048: an intermediate number was rounded.",
        ),
        PaperTable(
            "000.ex_be",
            "how far from normal: Laplace noise",
            BERRY_ESSEEN,
            rows="line",
            columns="reports",
            where={"mechanism": "Laplace"},
            printed={(PRINTED, 1000): 0.0157},
            note="The third moment of Laplace noise is 6 lambda^3; the paper has 3 lambda^3.",
        ),
        Figure(
            "000.theorem2",
            "distance from the normal law, and its bound",
            BERRY_ESSEEN,
            x="reports",
            lines=(
                Line(BOUND, "bound"),
                Line(PRINTED, "bound with the printed third moment", "as printed"),
                Line(TRUE, "true distance", "limit"),
            ),
            panels=tuple(Panel(SHOWN[name], {"mechanism": name}) for name in MECHANISMS),
            x_label="reports",
            y_label="sup |F - Phi|",
            x_scale="log",
            y_scale="log",
            note="Not in the paper: Theorem 2 at epsilon 1 and a value of 0.9, beside the true distance.",
        ),
        Figure(
            "000.fig2",
            "deviation of one dimension: law and 1,000 runs",
            DEVIATIONS,
            x="deviation",
            lines=DENSITY,
            panels=tuple(Panel(SHOWN[name], {"mechanism": name}) for name in MECHANISMS),
            where={"figure": UNIFORM_CASE},
            y_label="density",
            columns=3,
            note="Uniform, n = 200,000, d = 5,000, m = 50, epsilon 1: 2,000 reports at 0.02, from users drawn without "
            "replacement. All mechanisms on [-1, 1]; the square wave's outputs as they are.",
        ),
        Figure(
            "000.fig3",
            "deviation in the case study: law and 1,000 runs",
            DEVIATIONS,
            x="deviation",
            lines=DENSITY,
            panels=tuple(Panel(SHOWN[name], {"mechanism": name}) for name in ("Piecewise", "SquareWave")),
            where={"figure": CASE},
            y_label="density",
            note="10,000 reports at 0.001 about 0.1, 0.2, ..., 1.0; the square wave in units of [0, 1].",
        ),
        Figure(
            "000.fig4",
            "mean squared error by epsilon",
            SWEEP,
            x="epsilon",
            lines=LINES,
            panels=tuple(
                Panel(f"{title}, {SHOWN[mechanism]}", {"data": data, "mechanism": mechanism})
                for data, title in SETS.items()
                for mechanism in MECHANISMS
            ),
            y_label="MSE",
            x_scale="category",
            y_scale="log",
            columns=3,
            note=f"{READINGS} COV-19 is not to be had: 20 common factors stand in for it, and MNIST. On Uniform every "
            "true mean is next to 0, so that whoever answers 0 wins.",
        ),
        Figure(
            "000.fig5",
            "mean squared error by the number of dimensions, epsilon 0.8",
            DIMENSIONS,
            x="d",
            lines=LINES,
            panels=tuple(
                Panel(f"COV-19: {data}, {mechanism}", {"data": data, "mechanism": mechanism})
                for data in ("Factors", "MNIST")
                for mechanism in UNBIASED
            ),
            x_label="dimensions",
            y_label="MSE",
            x_scale="category",
            y_scale="log",
            columns=2,
            note=READINGS,
        ),
        Figure(
            "000.freq",
            "frequencies of 8 categories by one-hot entries, 30,000 users",
            FREQUENCIES,
            x="epsilon",
            lines=(
                Line("none", "no re-calibration"),
                Line("L1"),
                Line("L2"),
                Line("auto", "dither: refine, same reports", "dither"),
                Line("categorical", "dither: subset selection, refine", "dither"),
            ),
            panels=tuple(Panel(mechanism, {"mechanism": mechanism}) for mechanism in UNBIASED),
            y_label="root mean squared error",
            x_scale="log",
            y_scale="log",
            note="The paper has the construction only. Shares 40, 20, 13, 10, 7, 5, 3 and 2%.",
        ),
    ),
    claims=CLAIMS,
)
