"""Chapter 5 of 001, GeoDP: its figures and tables. What it claims is judged in `chapter5_claims`."""

from dither.reproduce.paper_figures import Figure, Line, Panel, PaperTable

from .central_training import BETTER, CNN, LOGISTIC, RESNET
from .chapter5_claims import CLAIMS
from .gradient_directions import DIRECTIONS, SIGMA
from .membership import MEMBERSHIP
from .step_analysis import EXAMPLES

_STAND_IN = (
    "001 takes gradients of a CNN on CIFAR-10, which cannot be had offline; these are of its CNN with 21,840 "
    "parameters on "
    "MNIST, at dimensions chosen at random. Sums of squares over angles (θ) and coordinates (g). Algorithm 5 is not "
    "private: one step of it spends an epsilon of about (B/σ)²/2."
)
_ERRORS = (
    Line("θ, GeoDP as printed", "θ GeoDP", kind="as printed"),
    Line("θ, DP", "θ DP"),
    Line("g, GeoDP as printed", "g GeoDP", kind="as printed"),
    Line("g, DP", "g DP"),
    Line("θ, GeoDP without step 5", "θ GeoDP, no step 5"),
    Line("g, GeoDP without step 5", "g GeoDP, no step 5"),
    Line("θ, DP, noise not divided by B", "θ DP, noise not / B"),
    Line("g, DP, shrunk", "g DP, shrunk (dither)", kind="dither"),
)
_BETAS = (1.0, 0.1, 0.01)
_LETTERS = "abcdefghi"


def _panels() -> tuple[Panel, ...]:
    """Nine panels: the noise, the dimension, the batch, each at three bounding factors."""
    rows = (
        ("sigma", "σ", {"d": 5000, "B": 2048}, "d = 5000, B = 2048"),
        ("d", "d", {"sigma": SIGMA, "B": 4096}, "σ = 8, B = 4096"),
        ("B", "B", {"sigma": SIGMA, "d": 10000}, "d = 10000, σ = 8"),
    )
    return tuple(
        Panel(f"({_LETTERS[3 * row + place]}) {title}, β = {beta:g}", {**where, "beta": beta}, x=axis, x_label=label)
        for row, (axis, label, where, title) in enumerate(rows)
        for place, beta in enumerate(_BETAS)
    )


_LINES_55 = (
    Line("No noise", kind="limit"),
    Line("DP, B = 2048"),
    Line("DP, B = 4096"),
    Line("GeoDP, B = 2048", kind="as printed"),
    Line("GeoDP, B = 4096", kind="as printed"),
    Line("DP"),
    Line("GeoDP, β = 1", kind="as printed"),
    Line("GeoDP, β = 0.5", kind="as printed"),
    Line("GeoDP, β = 0.5, without step 5", "GeoDP, β = 0.5, no step 5"),
    Line("DP, σ = 0.01"),
    Line("GeoDP, σ = 0.01", kind="as printed"),
    Line("DP, σ = 0.1"),
    Line("GeoDP, σ = 0.1", kind="as printed"),
    Line(BETTER, "DP-SGD, momentum (dither)", kind="dither"),
    Line("control", "control: no data", kind="control"),
)
_SMALLER = (
    "Batches are smaller than printed by the factor in the size, and so is σ: the noise on an averaged gradient is "
    "that of "
    "the paper. One learning rate for all, since none is told. True ε: over the paper's 20 epochs for DP; for "
    "Algorithm 5 "
    "of a single step, by the batches that refute it."
)

FIGURES: tuple[Figure | PaperTable, ...] = (
    PaperTable(
        "001.ex1",
        "Example 1: the direction does not depend on the clipping threshold",
        EXAMPLES,
        rows="case",
        columns="column",
        where={"example": "ex1"},
        printed={("C = 2", "noisy direction"): 0.97, ("C = 1", "noisy direction"): 0.97},
        note="True of a gradient longer than both thresholds.",
    ),
    PaperTable(
        "001.ex2",
        "Example 2: the first of two angles has noise of all three coordinates",
        EXAMPLES,
        rows="case",
        columns="column",
        where={"example": "ex2"},
        note="The example is symbolic; here g = (1, 1, 1), and noise of .1 on one coordinate at a time.",
    ),
    PaperTable(
        "001.ex3",
        "Example 3: the same noise turns parallel gradients by different angles",
        EXAMPLES,
        rows="case",
        columns="column",
        where={"example": "ex3"},
        printed={("g_1 = (1, 1)", "noisy direction"): 0, ("g_2 = (2, 2)", "noisy direction"): "2π/25 = .2513"},
    ),
    Figure(
        "001.fig5.1",
        "errors of directions and of gradients",
        DIRECTIONS,
        x="sigma",
        lines=_ERRORS,
        panels=(Panel("", {"d": 5000, "B": 2048, "beta": 0.1}),),
        x_label="σ",
        y_label="squared error",
        x_scale="log",
        y_scale="log",
        note=f"Its axis and setting are not told: read as Fig. 5.3 (b). {_STAND_IN}",
    ),
    Figure(
        "001.fig5.3",
        "GeoDP and DP on preserving gradients",
        DIRECTIONS,
        x="sigma",
        lines=_ERRORS,
        panels=_panels(),
        y_label="squared error",
        x_scale="log",
        y_scale="log",
        columns=3,
        note=_STAND_IN,
    ),
    Figure(
        "001.fig5.4",
        "the bounding factor",
        DIRECTIONS,
        x="beta",
        lines=_ERRORS,
        panels=tuple(
            Panel(f"({letter}) d = {d}, σ = 8, B = 4096", {"d": d, "B": 4096, "sigma": SIGMA})
            for letter, d in (("a", 10000), ("b", 5000), ("c", 500))
        ),
        x_label="β",
        y_label="squared error",
        y_scale="log",
        columns=3,
        note=f"The settings of its panels are not told; these are of Fig. 5.3. β = .01 is added. {_STAND_IN}",
    ),
    Figure(
        "001.fig5.5",
        "logistic regression on MNIST, training loss",
        LOGISTIC,
        x="iteration",
        lines=_LINES_55,
        panels=(
            Panel("(a) σ = 1, β = 1", {"panel": "a"}),
            Panel("(b) σ = 10, B = 4096", {"panel": "b"}),
            Panel("(c) β = 1, B = 256", {"panel": "c"}),
            Panel("(d) β = 1, B = 2048", {"panel": "d"}),
        ),
        y_label="loss",
        note="σ of (a) and (b) and the batch of (d) are not told: read as 1, 10 and 2048. Ten classes, 7,850 "
        "parameters. "
        f"The first 10,000 pictures at the quick scale. {_SMALLER}",
    ),
    PaperTable(
        "001.tab5.2",
        "CNN on MNIST: test accuracy in per cent",
        CNN,
        rows="method",
        columns="column",
        printed={
            ("No noise (B = 8192)", "σ = 10"): 99.11, ("No noise (B = 8192)", "σ = 1"): 99.11,
            ("DP (B = 8192)", "σ = 10"): 87.93, ("DP (B = 8192)", "σ = 1"): 94.25,
            ("DP (B = 16384)", "σ = 10"): 88.12, ("DP (B = 16384)", "σ = 1"): 95.52,
            ("DP (B = 16384 + AUTO-S)", "σ = 10"): 88.40, ("DP (B = 16384 + AUTO-S)", "σ = 1"): 95.71,
            ("GeoDP (B = 8192, β = 0.1)", "σ = 10"): 90.31, ("GeoDP (B = 8192, β = 0.1)", "σ = 1"): 96.47,
            ("GeoDP (B = 16384, β = 0.1)", "σ = 10"): 93.58, ("GeoDP (B = 16384, β = 0.1)", "σ = 1"): 98.04,
            ("GeoDP (B = 8192, β = 0.5)", "σ = 10"): 53.80, ("GeoDP (B = 8192, β = 0.5)", "σ = 1"): 60.31,
            ("GeoDP (B = 16384, β = 0.1 + AUTO-S)", "σ = 10"): 93.64,
            ("GeoDP (B = 16384, β = 0.1 + AUTO-S)", "σ = 1"): 98.17,
        },
        note=f"{_SMALLER} 20 epochs are only 146 or 73 steps, which reach 99% at no rate tried.",
    ),
    PaperTable(
        "001.tab5.3",
        "ResNet: test accuracy in per cent",
        RESNET,
        rows="method",
        columns="column",
        printed={
            ("No noise (B = 8192)", "σ = 0.1"): 67.43, ("No noise (B = 8192)", "σ = 0.01"): 67.43,
            ("DP (B = 8192)", "σ = 0.1"): 59.39, ("DP (B = 8192)", "σ = 0.01"): 63.27,
            ("DP (B = 16384)", "σ = 0.1"): 60.12, ("DP (B = 16384)", "σ = 0.01"): 63.84,
            ("DP (B = 16384 + AUTO-S)", "σ = 0.1"): 60.51, ("DP (B = 16384 + AUTO-S)", "σ = 0.01"): 63.91,
            ("GeoDP (B = 8192, β = 1)", "σ = 0.1"): 61.47, ("GeoDP (B = 8192, β = 1)", "σ = 0.01"): 65.93,
            ("GeoDP (B = 16384, β = 1)", "σ = 0.1"): 63.38, ("GeoDP (B = 16384, β = 1)", "σ = 0.01"): 66.51,
            ("GeoDP (B = 16384, β = 0.1)", "σ = 0.1"): 65.47, ("GeoDP (B = 16384, β = 0.1)", "σ = 0.01"): 67.35,
            ("GeoDP (B = 16384, β = 0.1 + AUTO-S)", "σ = 0.1"): 65.58,
            ("GeoDP (B = 16384, β = 0.1 + AUTO-S)", "σ = 0.01"): 67.37,
        },
        note=f"scikit-learn's digits stand in for CIFAR-10, and three residual blocks of width 8. {_SMALLER}",
    ),
    PaperTable(
        "001.tab5.4",
        "membership inference: accuracy of the attack in per cent",
        MEMBERSHIP,
        rows="method",
        columns="column",
        printed={
            ("Original model", "attack, ε = 4.9"): "68.3, 56.2", ("Original model", "attack, ε = 11.3"): "68.3, 56.2",
            ("DP", "attack, ε = 4.9"): "50.0, 50.0", ("DP", "attack, ε = 11.3"): "50.0, 50.0",
            ("GeoDP (β = 0.1), as printed", "attack, ε = 4.9"): "49.8, 50.0",
            ("GeoDP (β = 0.1), as printed", "attack, ε = 11.3"): "50.0, 50.1",
        },
        note="Printed: CelebA, FMNIST. Here digits, 600 members and 600 others, batches of 64 and 50 epochs as in the "
        "text (the "
        "table says 8,192). All private models have the noise multiplier that gives DP-SGD this ε; for Algorithm 5 "
        "that "
        "is the claim, not what holds. 'model' is the accuracy on pictures that it was not trained on.",
    ),
)  # fmt: skip

__all__ = ["CLAIMS", "FIGURES"]
