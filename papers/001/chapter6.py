"""Chapter 6 of 001, LDPVec: its figures and tables. What it claims is judged in `chapter6_claims`."""

from dither.reproduce.paper_figures import Figure, Line, Panel, PaperTable

from .as_printed_ldpvec import MECHANISMS
from .case_study import PRINTED, PRINTED_VARIANCES
from .chapter6_claims import CLAIMS
from .federated_analysis import CASE_STUDY
from .federated_networks import FEDERATED_CNN, FEDERATED_MLP, PARAMETERS, UNIT_VECTOR
from .federated_training import CONTROL, EPSILONS, FEDERATED_LOGISTIC, LDPVEC, NO_NOISE, NUMERICAL

_CONTROL = (
    "As printed, only the last of E local steps is noisy. The control sends a direction without any data in that "
    "step: what "
    "it does as well as LDPVec is no merit of LDPVec. Neither printed line is private (a device sends E - 1 clean "
    "steps)."
)
_LINES = (
    Line(NO_NOISE, kind="limit"),
    Line(NUMERICAL, "numerical, as printed", kind="as printed"),
    Line(LDPVEC),
    Line(CONTROL, kind="control"),
)


def _logistic_panels() -> tuple[Panel, ...]:
    """(a) to (l) in the order of the paper, and the same with a constant rate."""
    pairs = [(epsilon, mechanism) for epsilon in EPSILONS for mechanism in MECHANISMS]
    first = [
        Panel(
            f"({letter}) {mechanism}, ε = {epsilon:g}",
            {"part": "(a) to (i)", "epsilon": epsilon, "mechanism": mechanism},
        )
        for letter, (epsilon, mechanism) in zip("abcdefghi", pairs, strict=True)
    ]
    few = [
        Panel(f"({letter}) {mechanism}, N = 5, E = 2", {"part": "(j) to (l)", "mechanism": mechanism})
        for letter, mechanism in zip("jkl", MECHANISMS, strict=True)
    ]
    constant = [
        Panel(
            f"{mechanism}, ε = 15.3, constant rate", {"part": "constant rate", "epsilon": 15.3, "mechanism": mechanism}
        )
        for mechanism in MECHANISMS
    ]
    return (*first, *few, *constant)


FIGURES: tuple[Figure | PaperTable, ...] = (
    PaperTable(
        "001.tab6.1",
        "parameters of logistic regression on MNIST",
        PARAMETERS,
        rows="layer",
        columns="column",
        where={"table": "tab6.1"},
        printed={("total", "parameters"): 785},
    ),
    PaperTable(
        "001.tab6.2",
        "parameters of the MLP on CIFAR-10",
        PARAMETERS,
        rows="layer",
        columns="column",
        where={"table": "tab6.2"},
        printed={
            ("1, linear", "parameters"): 614600, ("2, linear", "parameters"): 2010, ("total", "parameters"): 616610,
        },
        digits=6,
    ),
    PaperTable(
        "001.tab6.3",
        "parameters of the CNN on CIFAR-10",
        PARAMETERS,
        rows="layer",
        columns="column",
        where={"table": "tab6.3"},
        printed={
            ("1, convolution", "parameters"): 760, ("2, convolution", "parameters"): 5020,
            ("3, linear", "parameters"): 64250, ("4, linear", "parameters"): 510, ("total", "parameters"): 70540,
        },
        digits=6,
        note="8 × 8 × 20 × 50 + 50 is 64,050.",
    ),
    PaperTable(
        "001.case6",
        "efficiency difference of federated logistic regression, three mechanisms",
        CASE_STUDY,
        rows="mechanism",
        columns="column",
        printed={(name, "by its equation"): f"{PRINTED[name]:,}" for name in PRINTED},
        note="Printed variances "
        + ", ".join(f"{PRINTED_VARIANCES[name]:,g} ({name})" for name in PRINTED)
        + "; eq. 6.12 with the printed inputs gives the first column. `case_study.py` says what is wrong with them.",
    ),
    Figure(
        "001.fig6.2",
        "global loss of logistic regression on MNIST",
        FEDERATED_LOGISTIC,
        x="iteration",
        lines=(
            *_LINES,
            Line("UnitVector", "UnitVector (dither)", kind="dither"),
        ),
        panels=_logistic_panels(),
        where={"metric": "loss"},
        y_label="loss",
        columns=3,
        note="N = 500 and E = 50 in (a) to (i), and ε = 15.3 in (j) to (l): which panel has which is lost. The last "
        "row is "
        f"added. At the quick scale a device has 40 of its 120 pictures. {_CONTROL} UnitVector is certified: whole "
        "updates "
        "at ε a round, with a constant rate of .1 and a server rate of 16.",
    ),
    Figure(
        "001.fig6.3",
        "global loss of an MLP",
        FEDERATED_MLP,
        x="iteration",
        lines=(*_LINES, Line(UNIT_VECTOR, "UnitVector (dither)", kind="dither")),
        panels=tuple(
            Panel(f"{mechanism}, {rate} rate", {"panel": mechanism, "rate": rate})
            for rate in ("printed", "constant")
            for mechanism in MECHANISMS
        ),
        y_label="loss",
        y_scale="log",
        columns=3,
        note="ε = 48.5 a round. scikit-learn's digits and 4,810 parameters stand in for CIFAR-10 and 616,610 (MNIST "
        "at the "
        f"full scale). {_CONTROL} Each line has a start of its own. UnitVector is certified, and ten devices are few "
        "for it.",
    ),
    PaperTable(
        "001.tab6.4",
        "federated CNN: test accuracy in per cent",
        FEDERATED_CNN,
        rows="method",
        columns="column",
        printed={
            ("No noise", "ε = 15.3"): 95, ("No noise", "ε = 48.5"): 95,
            ("Lap", "ε = 15.3"): 43.3, ("Lap", "ε = 48.5"): 48.2,
            ("Pie", "ε = 15.3"): 44.9, ("Pie", "ε = 48.5"): 51.4,
            ("Gau", "ε = 15.3"): 71.3, ("Gau", "ε = 48.5"): 77.3,
            ("Lap-Vec", "ε = 15.3"): 72.1, ("Lap-Vec", "ε = 48.5"): 75.6,
            ("Pie-Vec", "ε = 15.3"): 76.3, ("Pie-Vec", "ε = 48.5"): 79.6,
            ("Gau-Vec", "ε = 15.3"): 88.4, ("Gau-Vec", "ε = 48.5"): 91.7,
        },
        note="Below the full scale a perceptron with 2,410 parameters on scikit-learn's digits stands in for the CNN "
        "on MNIST, with "
        f"few devices and local steps; the size says how many. {_CONTROL} UnitVector is certified, and ten devices "
        "are few.",
    ),
)  # fmt: skip

__all__ = ["CLAIMS", "FIGURES"]
