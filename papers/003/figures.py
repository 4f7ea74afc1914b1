"""The figures and tables of 003, in its order. Table 1 is notation."""

from dither.reproduce.paper_figures import Figure, Line, Panel, PaperTable

from .one_user import ONE_USER
from .shuffling import AMPLIFICATION
from .sweep import SPARSITIES, SWEEP
from .worked_examples import EXAMPLES, HOLDS, RATES_TABLE

_RIVALS = (
    Line("PrivKV"),
    Line("PCKV-UE"),
    Line("PCKV-GRR"),
    Line("PCKV-AGRR"),
)
_IGNORED = Line("nobody asked", "s/2d and 0, no reports at all", kind="control")
_FREQUENCY = (Line("Collision"), *_RIVALS, Line("Collision, shrunk", kind="dither"), _IGNORED)
_MEAN = (Line("Collision"), Line("CoCo"), *_RIVALS)
_PUBLISHED = Line("SUCCINCT", "SUCCINCT as published", kind="as printed")
_PROJECTED = (*_MEAN, _PUBLISHED, Line("SignSum, shrunk", kind="dither"), _IGNORED)
_RAW = (*_MEAN, _PUBLISHED, Line("SignSum", kind="dither"))
_READING = (
    "Users are those of the paper: synthetic, new in each repetition. Mean of ln error. PrivKV and "
    "PCKV are in their best "
    "sound form, stronger than the paper's; Collision and CoCo have the printed t, CoCo's made even. "
)
_PROJECTION = (
    "Projected: the nearest frequencies with 0 <= f <= 1 that add up to s, which is how the capped "
    "simplex of the paper is "
    "read; a projected TVE of frequencies cannot exceed 2s. The users are uniform, so that who ignores the reports and "
    "says s/2d is close; what pulls estimates there looks good. "
)


def _panels(n: int, d: int) -> tuple[Panel, ...]:
    return tuple(Panel(f"s = {s}", {"n": n, "d": d, "s": s}) for s in SPARSITIES)


def _errors(number: int, metric: str, n: int, d: int, lines: tuple[Line, ...], note: str = "") -> Figure:
    what = metric.replace("projected ", "")
    form = "projected" if "projected" in metric else "raw"
    return Figure(
        f"003.fig{number}",
        f"{what}, {form}: {n:,} users, d = {d}",
        SWEEP,
        x="epsilon",
        lines=lines,
        panels=_panels(n, d),
        where={"metric": metric},
        y_label=f"mean ln {what.split()[-1]}",
        x_scale="category",
        note=_READING + (_PROJECTION if form == "projected" else "") + note,
    )


_SUCCINCT = "SUCCINCT: eta = sqrt(2 s ln(n / .05)), at most s; no correction for what is clipped. "
_NO_SUCCINCT = "SUCCINCT has no frequencies to project and stays raw. "
_ALSO = (
    "SignSum, shrunk: means of one bit, shrunk by an estimate of the risk, and with sizes that add up to s at most. "
)

WORKED = (
    Figure(
        "003.fig1",
        "Collision, worked example: d = 6, s = 2, t = 4, E = 2, items 3+ and 5-",
        EXAMPLES,
        x="bucket",
        lines=(Line("probability"),),
        panels=(
            Panel("(a) no conflict", {"case": "Collision, no conflict"}),
            Panel("(b) both items in one bucket", {"case": "Collision, one bucket"}),
        ),
        y_label="probability",
        x_scale="category",
        shape="bars",
        note="In fractions: 1/3 where an item is, 1/6 elsewhere; 1/3 and 2/9. Which buckets are hit is arbitrary.",
    ),
    Figure(
        "003.fig3",
        "CoCo, worked example: d = 10, s = 3, t = 8, E = 2, items 3+, 5- and 9-",
        EXAMPLES,
        x="bucket",
        lines=(Line("probability"),),
        panels=(
            Panel("no conflict", {"case": "CoCo, no conflict"}),
            Panel("two keys on one pair (as drawn)", {"case": "CoCo, two keys on one pair"}),
            Panel("three keys on one pair", {"case": "CoCo, three keys on one pair"}),
        ),
        y_label="probability",
        x_scale="category",
        shape="bars",
        note="Buckets z and z + 4 are a pair: 2/11 and 1/11 where a key is, and 1/11, 5/44 and 4/33 elsewhere.",
    ),
)
TABLE_2 = PaperTable(
    "003.table2",
    "CoCo: how likely a report hits an item j_b and its opposite, s = 3, t = 8, E = 2",
    RATES_TABLE,
    rows="user has",
    columns="hit",
    printed={
        (holds, column): text
        for holds, texts in zip(HOLDS, (("P_t", "P_o"), ("P_o", "P_t"), ("P_f", "P_f")), strict=True)
        for column, text in zip(("P[H(j_b) = z]", "P[H(j_-b) = z]"), texts, strict=True)
    },
    note="Enumerated over all hashes; P_t = 181/1056, P_o = 107/1056, P_f = 1/8, and P_ow = 11/48.",
)
AMPLIFIED = Figure(
    "003.fig2",
    "amplification of Collision by shuffling, t = floor(s E + 2s - 1)",
    AMPLIFICATION,
    x="epsilon",
    lines=(
        Line("erlingsson", "EFMRTT19"),
        Line("blanket, t/Omega", "blanket by Hoeffding, t/Omega"),
        Line("clone", "clone"),
        Line("stronger clone", "stronger clone, 1/(E+1) (= general blanket)"),
        Line("own", "Collision's own blanket", kind="dither"),
        Line("lower", "no bound is above: Theorem 6's data", kind="limit"),
        Line("blanket, exp(-epsilon)", "blanket by Hoeffding, exp(-epsilon) (no proof)", kind="as printed"),
        Line("stronger clone, printed", "stronger clone, (E-1)/(E+1) (refuted)", kind="as printed"),
        Line("Theorem 5, s/Omega", "Theorem 5, s/Omega (refuted)", kind="as printed"),
        Line("Theorem 5", "Theorem 5 as printed (refuted)", kind="as printed"),
    ),
    panels=tuple(Panel(f"n = {n:,}, s = {s}", {"n": n, "s": s}) for n in (10_000, 100_000) for s in (4, 64)),
    x_label="local epsilon",
    y_label="log2(epsilon / epsilon_c)",
    note="delta = .01/n (the paper says O(1/n)); higher is better, and above the grey line is impossible. The printed "
    "alphas end where they are no probabilities: epsilon about 1 for Theorem 5, ln 2 for the stronger clone, whose "
    "form with 1/(E+1) is the general blanket that dither proves. EFMRTT19 holds up to epsilon 1/2.",
)
BY_BUCKETS = (
    Figure(
        "003.fig4",
        "how likely reports hit items, d = 128, s = 8, epsilon .5",
        ONE_USER,
        x="t",
        lines=(
            Line("CoCo P_t"),
            Line("CoCo P_o"),
            Line("CoCo P_f", "P_f of CoCo = P_f, P_o of Collision"),
            Line("Collision P_t"),
        ),
        where={"what": "rate"},
        x_label="t, buckets",
        y_label="probability",
        note="epsilon is not in the caption; .5 as in Fig. 5. Closed forms, from the integers that are sampled.",
    ),
    Figure(
        "003.fig5",
        "squared error of one user, d = 128, s = 8, epsilon .5",
        ONE_USER,
        x="t",
        lines=(
            Line("CoCo Minus", "CoCo, mean (Minus)"),
            Line("CoCo Plus", "CoCo, presence (Plus)"),
            Line("CoCo Item", "CoCo, items"),
            Line("Collision Minus", "Collision, mean"),
            Line("Collision Plus", "Collision, presence"),
            Line("Collision Item", "Collision, items"),
            Line("SignSum mean", "SignSum, mean (no t)", kind="dither"),
        ),
        where={"what": "error"},
        x_label="t, buckets",
        y_label="squared error",
        y_scale="log",
        note="10,000 simulated users with one vector, in ten lots; the bars are two standard errors. "
        "Lemma 3 and Theorem "
        "4 give the same in closed form (claim 7). SignSum has no buckets; its line is exact.",
    ),
)
ERRORS = (
    _errors(6, "frequency projected TVE", 100_000, 256, _FREQUENCY),
    _errors(7, "frequency projected MAE", 100_000, 256, _FREQUENCY),
    _errors(8, "frequency projected TVE", 100_000, 512, _FREQUENCY),
    _errors(9, "frequency projected MAE", 100_000, 512, _FREQUENCY),
    _errors(10, "frequency projected TVE", 10_000, 256, _FREQUENCY),
    _errors(11, "frequency projected MAE", 10_000, 256, _FREQUENCY),
    _errors(12, "mean MAE", 100_000, 256, _RAW, _SUCCINCT),
    _errors(13, "mean projected MAE", 100_000, 256, _PROJECTED, _NO_SUCCINCT + _ALSO),
    _errors(14, "mean projected TVE", 100_000, 256, _PROJECTED, _NO_SUCCINCT + _ALSO),
    _errors(15, "mean projected TVE", 100_000, 512, _PROJECTED, _NO_SUCCINCT + _ALSO),
    _errors(16, "mean projected TVE", 10_000, 256, _PROJECTED, _NO_SUCCINCT + _ALSO),
)
FIGURES = (WORKED[0], AMPLIFIED, WORKED[1], TABLE_2, *BY_BUCKETS, *ERRORS)
