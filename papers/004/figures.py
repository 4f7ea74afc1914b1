"""The figures and tables of 004, in its axes and its order of panels, with one line more: Copula, which dither takes.

Bars are two standard errors of the mean over repetitions. Ranges begin at sixteenths of the domain, as in the authors'
code, unless a title says otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dither.reproduce.measured import Coordinate, Measured
from dither.reproduce.paper_figures import Figure, Line, Panel, PaperTable

from .formulas import EXAMPLE_1, TABLE_2
from .granularities import CELLS, OWN, PAIRS, SIGMA, SIGMA_EPSILONS, name_of
from .methods import OURS
from .people import ANY, ROUND
from .phases import COMPONENTS, CONVERGENCE, CURVES, FULL, SPREAD
from .sweeps import ATTRIBUTES, COVARIANCE, DATA, DOMAIN, EPSILON, LAMBDA, MADE, NEW_DATA, OMEGA, USERS
from .table2 import printed

_MAE, _EPSILON = "MAE", "epsilon"
LINES = (
    Line("Uni", kind="control"),
    Line("HIO"),
    Line("LHIO"),
    Line("CALM"),
    Line("MSW"),
    Line("TDG"),
    Line("HDG"),
    Line(OURS, kind="dither"),
)
_STAND_INS = (
    "Ipums, Bfive, Loan and Acs cannot be had offline: rows of the CPS, lognormal numbers with a covariance of .1, "
    "flights from New York and the KDD Census stand in. HDG, TDG, CALM and LHIO report by optimal unary encoding drawn "
    "as binomials, as in the authors' code; LHIO keeps the paper's two passes and no Norm-Sub."
)
_TEN = "The caption has d = 6, but the axis goes to 10 attributes: d = 10 here."
_VOLUMES = (
    "Ranges have whole sixteenths of the domain: omega .1, .3, .5, .7, .9 are volumes .0625, .25, .5, .6875, .875."
)


def panels(data: Sequence[str], lambdas: Sequence[int] = (2, 4), **more: Coordinate) -> tuple[Panel, ...]:
    """For each set of data its lambdas side by side, lettered as in the paper."""
    chosen = [(kind, count) for kind in data for count in lambdas]
    return tuple(
        Panel(f"({chr(97 + place)}) {kind}, lambda = {count}", {"data": kind, "lambda": count, **more})
        for place, (kind, count) in enumerate(chosen)
    )


def sets(data: Sequence[str], **more: Coordinate) -> tuple[Panel, ...]:
    """A panel for each set of data."""
    return tuple(Panel(f"({chr(97 + place)}) {kind}", {"data": kind, **more}) for place, kind in enumerate(data))


_ROUND = {"ends": ROUND}
_CELL_LINES = (
    Line("HDG", "HDG, guideline"),
    *(Line(name_of(*pair), kind="control") for pair in PAIRS),
    Line(OWN, "HDG, own cells", kind="dither"),
)


def _errors(name: str, title: str, experiment, x: str, shown: Sequence[Panel], **more) -> Figure:  # type: ignore[no-untyped-def]
    """A figure of mean absolute errors of all methods."""
    options = {"where": _ROUND, "lines": LINES, "y_label": _MAE, "y_scale": "log", "note": _STAND_INS, **more}
    return Figure(f"004.{name}", title, experiment, x=x, panels=shown, **options)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Floored(Figure):
    """A figure whose smallest numbers are drawn at a floor: on an axis of powers of ten 1e-180 hides all others."""

    floor: float = 1e-9

    def shown(self, measured: Measured) -> Measured:
        """The numbers that it shows."""
        found = super().shown(measured)
        return Measured(tuple(row._replace(value=max(row.value, self.floor)) for row in found.rows), found.notes)


FIGURES: tuple[Figure | PaperTable, ...] = (
    _errors("fig1", "errors by epsilon", EPSILON, _EPSILON, panels(DATA)),
    _errors(
        "fig1_free",
        "errors by epsilon, ranges that begin anywhere",
        EPSILON,
        _EPSILON,
        panels(DATA),
        where={"ends": ANY},
    ),
    _errors("fig2", "errors by omega", OMEGA, "omega", panels(DATA), note=f"{_VOLUMES} {_STAND_INS}"),
    _errors("fig3", "errors by the size of the domain", DOMAIN, "c", panels(MADE), x_scale="log"),
    _errors("fig4", "errors by the number of attributes", ATTRIBUTES, "d", panels(DATA)),
    _errors("fig5", "errors by lambda", LAMBDA, "lambda", sets(DATA, queries="random"), note=f"{_TEN} {_STAND_INS}"),
    _errors("fig6", "errors by the number of users", USERS, "lg n", panels(MADE)),
    _errors(
        "fig7",
        "granularities of HDG, lambda = 2",
        CELLS,
        _EPSILON,
        sets(DATA, d=6),
        lines=_CELL_LINES,
        note="Grey: all pairs of powers of two with g2 <= g1; the guideline's is one of them at each epsilon. "
        + _STAND_INS,
    ),
    _errors(
        "fig7_free",
        "granularities of HDG, lambda = 2, ranges that begin anywhere",
        CELLS,
        _EPSILON,
        sets(DATA, d=6),
        lines=_CELL_LINES,
        where={"ends": ANY},
    ),
    _errors(
        "fig8",
        "with and without Phase 2",
        COMPONENTS,
        _EPSILON,
        panels(DATA),
        where={},
        lines=(
            Line("ITDG"),
            Line("TDG"),
            Line("IHDG"),
            Line("HDG"),
            Line(OURS, kind="dither"),
        ),
        note="ITDG and IHDG put the grids together as the oracles left them. " + _STAND_INS,
    ),
    *(
        Figure(
            f"004.fig{number}",
            f"errors of {name} over 200 queries, means over runs, epsilon = 1",
            SPREAD,
            x="error",
            panels=panels(DATA, epsilon=1.0, measure="share"),
            lines=lines,
            y_label="share of queries",
            shape="bars",
            x_label="absolute error",
            note="The axes are not described: a histogram here. " + _STAND_INS,
        )
        for number, name, lines in ((9, "TDG", (Line("TDG"),)), (10, "HDG", (Line("HDG"), Line(OURS, kind="dither"))))
    ),
    _errors(
        "fig11",
        "all pairs of values of all pairs of attributes",
        FULL,
        _EPSILON,
        sets(DATA),
        where={"queries": "marginals"},
    ),
    _errors(
        "fig12",
        "all squares of half of the values, of all pairs of attributes",
        FULL,
        _EPSILON,
        sets(DATA),
        where={"queries": "ranges"},
        note="33^2 starts a pair; the paper counts 32^2 and does not say which it leaves out. " + _STAND_INS,
    ),
    Floored(
        **vars(
            _errors(
                "fig13",
                "queries that nobody is inside of, omega = .3",
                LAMBDA,
                "lambda",
                sets(DATA, queries="0-count"),
                note=f"What is below 1e-9 is drawn there. {_TEN} {_STAND_INS}",
            )
        )
    ),
    _errors(
        "fig14",
        "queries that somebody is inside of, omega = .7",
        LAMBDA,
        "lambda",
        sets(DATA, queries="non-0-count"),
        note=f"{_TEN} {_STAND_INS}",
    ),
    _errors(
        "fig15",
        "users divided between grids of one and of two attributes, HDG, lambda = 2",
        SIGMA,
        "sigma",
        sets(DATA),
        where={},
        by="curve",
        lines=(
            *(Line(f"epsilon {epsilon:g}") for epsilon in SIGMA_EPSILONS),
            Line(f"{OURS}, epsilon 1", kind="dither"),
        ),
        note="Copula divides users its own way: a level. The default sigma is 6/21 = .2857. " + _STAND_INS,
    ),
    _errors(
        "fig16",
        "granularities of HDG with 4, 8 and 10 attributes, lambda = 2",
        CELLS,
        _EPSILON,
        tuple(
            Panel(f"({chr(97 + place)}) {kind}, d = {d}", {"data": kind, "d": d})
            for place, (d, kind) in enumerate((d, kind) for d in (4, 8, 10) for kind in DATA)
        ),
        lines=_CELL_LINES,
    ),
    *(
        Figure(
            f"004.fig{number}",
            f"convergence of Algorithm {which}",
            CONVERGENCE,
            x="round",
            by="curve",
            panels=sets(DATA, algorithm=f"Algorithm {which}"),
            lines=[Line(f"epsilon {epsilon:g}") for epsilon in CURVES],
            y_label="summed change",
            y_scale="log",
            note=note + _STAND_INS,
        )
        for number, which, note in (
            (17, 1, "After Phase 2 as the authors run it, 100 rounds; what is below 1e-17 is drawn there. "),
            (18, 2, "Mean over queries of lambda = 4. dither takes Newton's method, which needs about ten steps. "),
        )
    ),
    _errors("fig19", "errors by epsilon, new data", EPSILON, _EPSILON, panels(NEW_DATA)),
    _errors("fig20", "errors by omega, new data", OMEGA, "omega", panels(NEW_DATA), note=f"{_VOLUMES} {_STAND_INS}"),
    _errors("fig21", "errors by the number of attributes, new data", ATTRIBUTES, "d", panels(NEW_DATA)),
    PaperTable(
        "004.ex1",
        "appendix A.9 and Fig. 22: the answer f(2,2) + f(1,2)/4 and its noise",
        EXAMPLE_1,
        rows="item",
        columns="column",
        printed={
            ("weight of f(1,2)", "recomputed"): 0.25,
            ("weight of f(2,2)", "recomputed"): 1,
            ("squared noise of a cell / (m2/n2), epsilon 1", "last step of the text"): "E / (E-1)^2",
        },
        note="The last step of the text loses the factor 4 that the line above has.",
    ),
    _errors("fig23", "errors by epsilon, lambda = 6", EPSILON, _EPSILON, panels(DATA, (6,))),
    _errors(
        "fig24", "errors by omega, lambda = 6", OMEGA, "omega", panels(DATA, (6,)), note=f"{_VOLUMES} {_STAND_INS}"
    ),
    _errors("fig25", "errors by the size of the domain, lambda = 6", DOMAIN, "c", panels(MADE, (6,)), x_scale="log"),
    _errors("fig26", "errors by the number of attributes, lambda = 6", ATTRIBUTES, "d", panels(DATA, (6,))),
    _errors("fig27", "errors by the number of users, lambda = 6", USERS, "lg n", panels(MADE, (6,))),
    _errors(
        "fig28",
        "covariances from 0 to 1",
        COVARIANCE,
        _EPSILON,
        tuple(
            Panel(
                f"{kind}, lambda = {count}, covariance {covariance:g}",
                {"data": kind, "lambda": count, "covariance": covariance},
            )
            for kind in MADE
            for count in (2, 4, 6)
            for covariance in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
        ),
        columns=6,
        note="The covariances are not printed: six of them from 0 to 1.",
    ),
    *(
        PaperTable(
            f"004.{name}",
            f"{side} of the guideline for 64 values",
            TABLE_2,
            rows="row",
            columns="epsilon",
            where={"side": side},
            printed=printed(place),
            note="All 190 pairs of the paper come out.",
        )
        for place, (name, side) in enumerate((("table2", "g1"), ("table2_pairs", "g2")))
    ),
)
