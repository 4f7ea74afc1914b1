"""The pictures of these pages, drawn when the pages are built, so that they show what the code of today gives.

A page says `<!-- drawing: variance: what it shows -->`. This hook of MkDocs puts the picture there, with the words
behind the name as its alternative text. No picture is stored in the repository.

    python docs/drawings.py variance.png    draws one without building the pages (.svg, .png or .pdf)
"""

import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")  # no window is opened, and none is needed

import numpy as np
from matplotlib.figure import Figure

import dither
from dither import utility
from dither.display.distribution_plots import draw_heat_map
from dither.planning.error_curves import error_curves
from dither.privacy.amplification_curves import curves
from dither.ranges.collection import RangeReading

MARK = re.compile(r"<!--\s*drawing:\s*(\w+):\s*(.+?)\s*-->", re.DOTALL)
LEFT_OVER = re.compile(r"<!--\s*drawing\b[^>]{0,60}")
FOLDER = "drawings"
DELTA_TEXT = "1e-6"

# Colours that the colour-blind tell apart (Okabe and Ito), and dashes that can be told apart in grey. Hybrid is broad
# and lies below the others, since it is equal to Duchi on the left and close to Piecewise on the right.
LINES: dict[str, tuple[Callable[[float], Any], str, Any]] = {
    "Hybrid": (dither.Hybrid, "0.72", "solid"),
    "Gaussian": (partial(dither.Gaussian, delta=float(DELTA_TEXT)), "#000000", (0, (1, 1.2))),
    "Laplace": (dither.Laplace, "#0072B2", (0, (5, 2))),
    "SquareWave": (dither.SquareWave, "#009E73", (0, (5, 1.5, 1, 1.5))),
    "Piecewise": (dither.Piecewise, "#D55E00", (0, (2.2, 1))),
    "Duchi": (dither.Duchi, "#A0457E", (0, (8, 1.5, 1, 1.5, 1, 1.5))),
}
# Subset selection attains the limit, which is broad and lies below it.
CATEGORIES: dict[str, tuple[str, Any]] = {
    "limit": ("0.72", "solid"),
    "SubsetSelection": ("#0072B2", (0, (5, 2))),
    "Unary": ("#009E73", (0, (5, 1.5, 1, 1.5))),
    "LocalHash": ("#D55E00", (0, (2.2, 1))),
    "Hadamard": ("#A0457E", (0, (8, 1.5, 1, 1.5, 1, 1.5))),
    "ProjectiveGeometry": ("#56B4E9", (0, (9, 1.5))),
    "GRR": ("#000000", (0, (1, 1.2))),
}
APART = 0.048  # of an axis' height, between two labels


def variance() -> Figure:
    """The worst-case variance of one report against epsilon; above in numbers, below as a multiple of Hybrid's."""
    epsilon = np.geomspace(0.1, 8.0, 80)
    worst = {
        name: np.array([make(float(each)).reading.worst_variance() for each in epsilon])
        for name, (make, _, _) in LINES.items()
    }
    figure = Figure(figsize=(7.6, 8.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    above.set(yscale="log", ylim=(0.01, 1e4), ylabel="variance of one report (numbers in [-1, 1])")
    below.set(yscale="log", ylim=(0.9, 6.0), ylabel="the same, as a multiple of Hybrid's")
    below.set(xscale="log", xlim=(epsilon[0], epsilon[-1]), xlabel="epsilon")
    below.set_xticks([0.1, 0.2, 0.5, 1, 2, 4, 8], labels=["0.1", "0.2", "0.5", "1", "2", "4", "8"])
    below.set_yticks([1, 2, 3, 4, 5], labels=["1", "2", "3", "4", "5"])
    styles = {name: style for name, (_, *style) in LINES.items()}
    _lines(above, epsilon, worst, styles, broad="Hybrid")
    rest = {name: each / worst["Hybrid"] for name, each in worst.items() if name != "Gaussian"}
    _lines(below, epsilon, rest, styles, broad="Hybrid")
    above.set_title(f"Worst case over the user's number; Gaussian with delta = {DELTA_TEXT}", fontsize=10, loc="left")
    _tidy(above, below)
    return figure


def categories() -> Figure:
    """The error of a frequency against k at epsilon 1; above in numbers, below as a multiple of the limit."""
    counts = np.unique(np.rint(np.geomspace(2, 1000, 70)).astype(int))
    rows = [_errors(int(k)) for k in counts]
    error = {name: np.array([row[name] for row in rows]) for name in CATEGORIES}
    figure = Figure(figsize=(7.6, 7.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1))
    above.set(yscale="log", ylim=(0.008, 0.25), ylabel="rmse of a frequency, 10,000 reports")
    above.set_yticks([0.01, 0.02, 0.05, 0.1, 0.2], labels=["0.01", "0.02", "0.05", "0.1", "0.2"])
    below.set(yscale="log", ylim=(0.96, 2.5), ylabel="the same, as a multiple of the limit")
    below.set_yticks([1, 1.25, 1.5, 2, 2.5], labels=["1", "1.25", "1.5", "2", "2.5"])
    below.set(xscale="log", xlim=(counts[0], counts[-1]), xlabel="categories")
    ticks = [2, 5, 10, 20, 50, 100, 200, 500, 1000]
    below.set_xticks(ticks, labels=[str(k) for k in ticks])
    _lines(above, counts, error, CATEGORIES, broad="limit")
    _lines(below, counts, {name: each / error["limit"] for name, each in error.items()}, CATEGORIES, broad="limit")
    above.set_title("Epsilon 1; averaged over the categories, whoever the users are", fontsize=10, loc="left")
    _tidy(above, below)
    return figure


def oracles() -> Figure:
    """Of 1,000 categories, against epsilon: the variance of one report, as a multiple of the limit, and its bytes."""
    k, epsilon = 1000, np.geomspace(0.1, 6.0, 50)
    classes: dict[str, Any] = {name: dither.registry[name] for name in CATEGORIES if name != "limit"}
    made = {name: [cls(k=k, epsilon=float(each)) for each in epsilon] for name, cls in classes.items()}
    least = np.array([each.reading.worst_variance() for each in made["SubsetSelection"]])
    variances = {name: np.array([each.reading.worst_variance() for each in found]) for name, found in made.items()}
    sizes = {name: np.array([each.dtype.itemsize for each in found], dtype=float) for name, found in made.items()}
    figure = Figure(figsize=(7.6, 10.4), layout="constrained")
    above, middle, below = figure.subplots(3, 1, sharex=True, height_ratios=(3, 3, 2))
    above.set(yscale="log", ylim=(1e-3, 1e3), ylabel="variance of one report")
    middle.set(yscale="log", ylim=(0.97, 1.5), ylabel="the same, as a multiple of the limit")
    middle.set_yticks([1, 1.1, 1.2, 1.3, 1.4], labels=["1", "1.1", "1.2", "1.3", "1.4"])
    below.set(yscale="log", ylim=(1, 300), ylabel="bytes of a report")
    below.set_yticks([1, 2, 5, 10, 20, 50, 125], labels=["1", "2", "5", "10", "20", "50", "125"])
    below.set(xscale="log", xlim=(epsilon[0], epsilon[-1]), xlabel="epsilon")
    below.set_xticks([0.1, 0.2, 0.5, 1, 2, 4, 6], labels=["0.1", "0.2", "0.5", "1", "2", "4", "6"])
    _lines(above, epsilon, {**variances, "limit": least}, CATEGORIES, broad="limit")
    ratios = {name: each / least for name, each in variances.items()}
    _lines(middle, epsilon, {**ratios, "limit": np.ones_like(least)}, CATEGORIES, broad="limit")
    _lines(below, epsilon, sizes, CATEGORIES, broad="limit")
    above.set_title("1,000 categories; averaged over them, whoever the users are", fontsize=10, loc="left")
    _tidy(above, middle, below)
    return figure


def _errors(k: int) -> dict[str, float]:
    classes: dict[str, Any] = {name: dither.registry[name] for name in CATEGORIES if name != "limit"}
    made = {name: cls(k=k, epsilon=1.0) for name, cls in classes.items()}
    found = {name: utility.deviation(each, "uniform", reports=10_000).rmse for name, each in made.items()}
    return {**found, "limit": utility.limit(made["GRR"], users=10_000)}


def budget() -> Figure:
    """The error of the plan that the page makes, against epsilon and against users, as `ErrorCurves.plot` draws it."""
    schema = dither.Schema(
        {
            "income": dither.Numeric(0, 200_000),
            "age": dither.Ordinal(18, 99),
            "job": dither.Categorical(["nurse", "driver", "teacher", "other"]),
        }
    )
    asked = ["mean(income)", "mean(age)", "histogram(job)"]
    figure = error_curves(schema, 1.0, users=100_000, ask=asked).plot()
    left, right = figure.axes
    left.set_xticks([0.1, 0.2, 0.5, 1, 2, 5, 10], labels=["0.1", "0.2", "0.5", "1", "2", "5", "10"])
    left.set_yticks([0.001, 0.01, 0.1], labels=["0.001", "0.01", "0.1"])
    right.set_xticks([1e4, 1e5, 1e6], labels=["10,000", "100,000", "1 million"])
    for axes in (left, right):
        axes.minorticks_off()
    return figure


def _tidy(*panels: Any) -> None:
    for axes in panels:
        axes.minorticks_off()
        axes.grid(color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)


def _lines(axes: Any, x: Any, lines: dict[str, Any], styles: dict[str, Any], *, broad: str) -> None:
    """Lines with their names: at the right end, pushed apart where they would touch, or where they leave at the top."""
    low, high = np.log(axes.get_ylim())
    taken = -1.0
    for name, y in sorted(lines.items(), key=lambda line: line[1][-1]):
        colour, dashes = styles[name]
        below = name == broad
        axes.plot(x, y, color=colour, linestyle=dashes, linewidth=5.5 if below else 1.8, zorder=2 if below else 3)
        inside = np.flatnonzero(np.log(y) < high)[-1]
        if inside < len(x) - 1:
            spot, place = (x[inside], 1.0), {"xytext": (0, 4), "ha": "center", "va": "bottom", "fontsize": 9}
            axes.annotate(
                name, spot, xycoords=axes.get_xaxis_transform(), textcoords="offset points", color=colour, **place
            )
            continue
        taken = max((np.log(y[-1]) - low) / (high - low), taken + APART)
        axes.annotate(
            name,
            (1.0, taken),
            xycoords="axes fraction",
            xytext=(7, 0),
            textcoords="offset points",
            color="0.35" if below else colour,
            va="center",
        )


def amplification() -> Figure:
    """What a shuffler adds, by every bound: Fig. 2 of paper 003, corrected."""
    return curves(1.0, 100_000, float(DELTA_TEXT), lambda epsilon: dither.Collision(d=256, s=4, epsilon=epsilon)).plot()


def heat() -> Figure:
    """Two attributes that hang together: as they are, and as 200,000 reports at epsilon 1 show them."""
    users, size = 200_000, 48
    z = np.random.default_rng(1).standard_normal((users, 2)) @ np.linalg.cholesky([[1, 0.6], [0.6, 1]]).T
    x, y = 16 + 7 * z[:, 0], 8 * np.exp(0.5 * z[:, 1])
    people = np.clip(np.stack([x, y], axis=1), 0, size - 1).astype(np.int64)
    mechanism = dither.Copula(shape=(size, size), epsilon=1.0, n=users)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(people, seed=1)))
    truth = np.bincount(people[:, 0] * size + people[:, 1], minlength=size * size).reshape(size, size) / users
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    across, up = (axis.side for axis in estimate.axes)
    draw_heat_map(left, across, up, truth).set_title("the users", loc="left", fontsize=10)
    draw_heat_map(right, across, up, estimate.joint(0, 1)).set_title("the estimate", loc="left", fontsize=10)
    return figure


def two_phases() -> Figure:
    """Two attributes with long tails: the cells that are asked about, and the estimates, in one phase and in two."""
    users, size, shown = 200_000, 64, 20
    z = np.random.default_rng(1).standard_normal((users, 2)) @ np.linalg.cholesky([[1, 0.7], [0.7, 1]]).T
    people = np.clip(3 * np.exp(0.9 * z), 0, size - 1).astype(np.int64)
    one = dither.Copula(shape=(size, size), epsilon=1.0, n=users)
    single = one.estimate(one.tally(one.randomize(people, seed=1)))
    first = dither.Copula.first((size, size), 1.0, users // 4)
    heard = first.tally(first.randomize(people[: users // 4], seed=1))
    second = first.after(heard, users - users // 4)
    reading = RangeReading(second, earlier=((first, heard),))
    both = second.estimate(second.tally(second.randomize(people[users // 4 :], seed=1)), reading)
    truth = np.bincount(people[:, 0] * size + people[:, 1], minlength=size * size).reshape(size, size) / users
    figure = Figure(figsize=(9, 7), layout="constrained")
    across, up = (axis.side for axis in single.axes)
    for row, words, mechanism, estimate in zip(
        figure.subplots(2, 2), ("one phase", "two phases"), (one, second), (single, both), strict=True
    ):
        draw_heat_map(row[0], across, up, truth).set_title(f"the users, and cells of {words}", loc="left", fontsize=10)
        for cut in mechanism.groups[-1].grid.cuts[0]:
            row[0].axvline(cut - 0.5, color="white", linewidth=0.8)
        for cut in mechanism.groups[-1].grid.cuts[1]:
            row[0].axhline(cut - 0.5, color="white", linewidth=0.8)
        draw_heat_map(row[1], across, up, estimate.joint(0, 1)).set_title(f"estimate, {words}", loc="left", fontsize=10)
        for ax in row:
            ax.set(xlim=(-0.5, shown - 0.5), ylim=(-0.5, shown - 0.5))
    return figure


def learning() -> Figure:
    """Learning curves on the digits: DP-SGD at four budgets, and GeoDP in its sound form."""
    import torch
    from sklearn.datasets import load_digits

    from dither.learn import DPSGD
    from dither.learn.geodp import GeoDP

    torch.set_num_threads(1)  # matrices this small are not worth a second one
    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels - pixels.mean(axis=1, keepdims=True)) / pixels.std(axis=1, keepdims=True)
    pixels, test = pixels.astype(np.float32), np.arange(len(pixels)) % 5 == 0

    def curve(**how: Any) -> tuple[list[float], list[float]]:
        model = torch.nn.Linear(64, 10)
        torch.nn.init.zeros_(model.weight)
        torch.nn.init.zeros_(model.bias)
        settings: dict[str, Any] = {"rate": 0.5, "momentum": 0.9, "clipping": "auto", **how}
        training = DPSGD(model, delta=1e-5, batch=int((~test).sum()), steps=80, seed=1, **settings)
        training.fit(pixels[~test], labels[~test], validation=(pixels[test], labels[test]), progress=False)
        return training.history.columns["step"], training.history.columns["validation score"]

    lines = {
        "DP-SGD, epsilon 30": curve(epsilon=30.0),
        **{f"DP-SGD, epsilon {epsilon:g}": curve(epsilon=epsilon) for epsilon in (8.0, 3.0, 1.0)},
        "GeoDP, epsilon 8": curve(epsilon=8.0, momentum=0.0, rate=4.0, perturb=GeoDP("records", decode="tangent")),
    }
    figure = Figure(figsize=(7.6, 4.2), layout="constrained")
    axes = figure.subplots()
    styles = (("0.72", "solid"), *((colour, dashes) for _, colour, dashes in list(LINES.values())[2:]))
    for (name, (steps, accuracy)), (colour, dashes) in zip(lines.items(), styles, strict=False):
        axes.plot(steps, accuracy, color=colour, linestyle=dashes, linewidth=2, label=name)
    axes.set(xlabel="step", ylabel="test accuracy", ylim=(0, 1))
    axes.legend(frameon=False, fontsize=9)
    _tidy(axes)
    return figure


def results() -> Figure:
    """The results of a plan, as `Estimates.plot` draws them."""
    schema = dither.Schema(
        {
            "age": dither.Ordinal(20, 69),
            "income": dither.Numeric(0, 100_000),
            "job": dither.Categorical(["nurse", "driver", "teacher", "farmer", "other"]),
        }
    )
    plan = dither.plan(schema, 3.0, users=60_000, ask=["distribution(age)", "mean(income)", "histogram(job)"])
    draw = np.random.default_rng(1)
    people = {
        "age": 20 + draw.binomial(49, draw.beta(2, 4, 60_000)),
        "income": draw.uniform(20_000, 60_000, 60_000),
        "job": draw.choice(["nurse", "driver", "teacher", "farmer", "other"], 60_000, p=[0.4, 0.1, 0.2, 0.05, 0.25]),
    }
    return plan.estimate(plan.tally(plan.randomize(people, seed=1))).plot().figure


def phases() -> Figure:
    """Shares below thresholds of a heavy-tailed number: in truth, in one phase, and in two."""
    income = np.clip(1_000 * np.exp(1.6 * np.random.default_rng(1).normal(size=100_000)), 0, 1_000_000)
    schema = dither.Schema({"income": dither.Numeric(0, 1_000_000)})
    once, first = (dither.plan(schema, 1.0, users=100_000, ask=["cumulative(income)"], phases=each) for each in (1, 2))
    alone = once.estimate(once.tally(once.randomize({"income": income}, seed=3))).cumulative("income")
    early = first.tally(first.randomize({"income": income[:25_000]}, seed=4))
    second = first.next(early)
    late = second.tally(second.randomize({"income": income[25_000:]}, seed=5))
    both = second.estimate(late, earlier=[early]).cumulative("income")
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    at = np.geomspace(20, 1e6, 200)
    axes.plot(at, np.searchsorted(np.sort(income), at) / income.size, color="0.6", linewidth=4, label="in truth")
    axes.plot(alone.thresholds, alone.value, "o-", color="#D55E00", markersize=3, label="one phase")
    low, high = both.interval(0.95)
    axes.fill_between(both.thresholds, low, high, color="#0072B2", alpha=0.15, linewidth=0)
    axes.plot(both.thresholds, both.value, "o-", color="#0072B2", markersize=3, label="two phases, 95% intervals")
    axes.set(xscale="log", xlabel="income", ylabel="share of users below", ylim=(0, 1.02))
    axes.legend(frameon=False, loc="lower right")
    return figure


def words() -> Figure:
    """Recall of the 20 most frequent words against users, at three epsilons: foreseen by plans, and of collections."""
    syllables = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
    texts = [*syllables, *(one + other for one in syllables for other in syllables)]
    shares = 1 / np.arange(1, len(texts) + 1)
    law = dict(zip(texts, (shares / shares.sum()).tolist(), strict=True))
    schema = dither.Schema({"word": dither.Text(longest=4, alphabet="abcdefghijklmnopqrstuvwxyz")})

    def planned(n: float, epsilon: float) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dither.errors.BudgetWarning)  # too few users are part of the picture
            return dither.plan(schema, epsilon, users=int(n), ask=["top(word, 20)"], prior={"word": law})

    def found(n: int, epsilon: float) -> float:
        plan = planned(n, epsilon)
        counts = np.random.default_rng([n, 1]).multinomial(n, list(law.values()))
        values = np.repeat(np.array(texts), counts)
        listed = plan.estimate(plan.tally(plan.randomize({"word": values}, seed=1)))["top(word, 20)"].labels
        return len({texts[place] for place in np.argsort(-counts)[:20]} & set(listed)) / 20

    figure = Figure(figsize=(7.6, 4.0), layout="constrained")
    axes = figure.subplots()
    users, styles = np.geomspace(1e3, 1e7, 17), list(LINES.values())[2:5]
    for epsilon, (_, colour, dashes) in zip((4.0, 2.0, 1.0), styles, strict=True):
        recall = [planned(n, epsilon).prediction.lists["top(word, 20)"]["recall"] for n in users]
        axes.plot(users, recall, color=colour, linestyle=dashes, linewidth=2, label=f"epsilon {epsilon:g}")
        measured = [10_000, 100_000, 1_000_000]
        axes.plot(measured, [found(n, epsilon) for n in measured], "o", color=colour, markersize=6)
    axes.set(xscale="log", xlabel="users", ylabel="recall of the 20 most frequent words", ylim=(0, 1.02))
    axes.set_title("Lines: foreseen by the plan. Dots: one collection each.", fontsize=10, loc="left")
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    _tidy(axes)
    return figure


DRAWINGS: dict[str, Callable[[], Figure]] = {
    "two_phases": two_phases,
    "results": results,
    "heat": heat,
    "phases": phases,
    "amplification": amplification,
    "variance": variance,
    "categories": categories,
    "oracles": oracles,
    "budget": budget,
    "learning": learning,
    "words": words,
}


def drawn(name: str, kind: str = "svg") -> bytes:
    """A drawing as the bytes of a file; the same bytes each time."""
    kept = BytesIO()
    with mpl.rc_context({"svg.hashsalt": "dither", "font.size": 10}):
        DRAWINGS[name]().savefig(kept, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    return kept.getvalue()


# What MkDocs calls ---------------------------------------------------------------------------------------------


def on_files(files: Any, config: Any) -> Any:
    """Every drawing becomes a file of the site."""
    from mkdocs.structure.files import File

    for name in DRAWINGS:
        files.append(File.generated(config, f"{FOLDER}/{name}.svg", content=drawn(name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The drawing stands where the page asks for it. A comment that asks in vain stops the build."""
    from mkdocs.exceptions import PluginError

    def placed(found: re.Match[str]) -> str:
        if found[1] not in DRAWINGS:
            raise PluginError(f"{page.file.src_uri}: nobody draws {found[1]}; there are {', '.join(DRAWINGS)}")
        return f"![{' '.join(found[2].split())}]({up}{FOLDER}/{found[1]}.svg)"

    up = "../" * page.file.src_uri.count("/")
    drawn_page = MARK.sub(placed, markdown)
    left = LEFT_OVER.search(drawn_page)
    if left is not None:
        raise PluginError(f"{page.file.src_uri}: a drawing is asked for in a way that is not understood: {left[0]}")
    return drawn_page


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_bytes(drawn(target.stem, target.suffix[1:]))
