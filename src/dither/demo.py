"""The demonstration: a made population, seven attributes, one report a user.

It goes the whole way of the library: a schema, a plan with its prediction, reports that leave the devices in batches,
tallies that merge, and estimates beside the truth, which only a demonstration knows. A second collection, with an
epsilon of its own so that it takes nobody from the first, asks for ranges, and answers three queries.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from dither.core.errors import ParameterError
from dither.core.estimate import Estimates
from dither.planning import Plan, PlanTally, Question, plan
from dither.randomness import Stream
from dither.schema import Categorical, KeyValue, Numeric, Ordinal, Schema
from dither.show.table import Table

_BATCHES = 25
_SHOWN = 2
_TRAVEL = {"car": 40, "train": 20, "bus": 12, "bicycle": 10, "on foot": 9, "tram": 5, "scooter": 3, "ferry": 1}
_JOBS = {"nurse": 20, "driver": 15, "teacher": 10, "other": 55}
_FILMS = {
    "Alien": 25,
    "Casablanca": 20,
    "Fargo": 15,
    "Heat": 12,
    "Metropolis": 8,
    "Solaris": 6,
    "Totoro": 9,
    "Vertigo": 5,
}

SCHEMA = Schema(
    {
        "income": Numeric(0, 200_000),
        "sleep": Numeric(0, 14),
        "age": Ordinal(18, 99),
        "job": Categorical(list(_JOBS)),
        "trip": Categorical(list(_TRAVEL)),
        "town": Categorical([f"town {i}" for i in range(1, 1001)]),
        "films": KeyValue(list(_FILMS), size=2, low=1, high=5),
    }
)
RANGES = "ranges(age, income, job)"
QUERIES: tuple[dict[str, Any], ...] = (
    {"age": (30, 49)},
    {"age": (30, 49), "income": (50_000, None)},
    {"age": (None, 49), "income": (20_000, 60_000), "job": ["nurse", "teacher"]},
)
ASK = ("mean(income)", "mean(sleep)", "mean(age)", "histogram(job)", "histogram(trip)", "histogram(town)", "films")


def people(users: int) -> dict[str, NDArray]:
    """A made population: incomes and ages like real ones, towns that fade like real ones, one or two films each."""
    stream = Stream.seeded(2026, "demo population")

    def some(name: str, *weights: int) -> NDArray[np.intp]:
        edges = np.cumsum(weights)
        return np.searchsorted(edges, stream.spawn(name).below(int(edges[-1]), users).astype(np.int64), side="right")

    def bell(name: str, low: float, high: float) -> NDArray[np.float64]:
        rolls = sum(stream.spawn(name, str(i)).below(1 << 20, users).astype(np.float64) for i in range(4))
        return low + (high - low) * np.asarray(rolls) / (4 << 20)

    def ratings() -> NDArray[np.float64]:
        table = np.zeros((users, len(_FILMS)))
        for name in ("film", "another film"):  # the second may be the first again
            film = some(name, *_FILMS.values())
            table[np.arange(users), film] = np.clip(np.rint(bell(f"rating of {name}", 2, 6) - 0.3 * film), 1, 5)
        return table

    labels = {name: np.array(SCHEMA[name].labels) for name in ("job", "trip", "town")}  # type: ignore[union-attr]
    return {
        "income": bell("income", 0, 1) ** 2 * 160_000,
        "sleep": bell("sleep", 3, 11),
        "age": np.rint(bell("age", 18, 90)).astype(np.int64),
        "job": labels["job"][some("job", *_JOBS.values())],
        "trip": labels["trip"][some("trip", *_TRAVEL.values())],
        "town": labels["town"][some("town", *(10**6 // rank for rank in range(1, 1001)))],
        "films": ratings(),
    }


def run(console: Console, *, users: int, epsilon: float, seed: int | None) -> None:
    """Plan, randomize, tally, estimate, and print the comparison."""
    if users < 100:
        raise ParameterError("the demonstration needs at least 100 users")
    made = plan(SCHEMA, epsilon, users=users, ask=ASK)
    console.print(f"[bold]The plan[/] for {users:,} users with epsilon {epsilon:g}, before anything is collected:")
    console.print(made.table())
    console.print(made.explain(), highlight=False)
    data = people(users)
    tally = _collect(console, made, data, seed)
    estimates, refined = made.estimate(tally), made.estimate(tally, refine="auto")
    console.print("\n[bold]The estimates[/] beside the truth:")
    console.print(_estimates(made, estimates, data))
    console.print(_rated(estimates, data), highlight=False)
    console.print("[bold]The error[/], as it was predicted (for the worst users), as it is, and after refining:")
    console.print(_errors(made, estimates, refined, data))
    _ask_for_ranges(console, data, epsilon, seed)
    console.print("One interval in twenty misses the truth, as 95% says.")
    if seed is None:
        console.print(
            "Nothing but the reports left the devices; the guarantee is computed from the sampler's integers."
        )
    else:
        console.print(
            "Simulated from a seed: repeatable, and without any guarantee. Leave --seed out for the real thing."
        )


def _collect(console: Console, made: Plan, data: dict[str, NDArray], seed: int | None) -> PlanTally:
    """Reports arrive in batches, and their tallies merge."""
    users = len(data["income"])
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=console)
    tally: Any = 0
    with bar:
        task = bar.add_task("Collecting reports", total=users)
        for batch, rows in enumerate(np.array_split(np.arange(users), _BATCHES)):
            part = {name: column[rows] for name, column in data.items()}
            tally += made.tally(made.randomize(part, seed=None if seed is None else seed * _BATCHES + batch))
            bar.advance(task, len(rows))
    return tally


def _ask_for_ranges(console: Console, data: dict[str, NDArray], epsilon: float, seed: int | None) -> None:
    """A second collection from the same people, and what it answers."""
    made = plan(SCHEMA, epsilon, users=len(data["age"]), ask=[RANGES])
    console.print(f"\n[bold]Ranges[/], from a second collection with an epsilon of its own, {RANGES}:", highlight=False)
    answers = made.estimate(_collect(console, made, data, seed))[RANGES].answers(QUERIES)  # type: ignore[attr-defined]
    console.print(_answers(answers, data))


def _answers(answers: Any, data: dict[str, NDArray]) -> Table:
    truth = [_inside(query, data) for query in QUERIES]
    low, high = answers.interval(0.95)
    return Table(
        {
            "share of users with": list(answers.labels),
            "truth": [f"{true:.3f}" for true in truth],
            "estimate": [f"{value:.3f}" for value in answers.value],
            "95% interval": [f"{least:.3f} to {most:.3f}" for least, most in zip(low, high, strict=True)],
            "inside": [bool(a <= true <= b) for a, true, b in zip(low, truth, high, strict=True)],
        }
    )


def _inside(query: dict[str, Any], data: dict[str, NDArray]) -> float:
    """The share of the people who are inside all ranges."""
    kept = np.ones(len(data["age"]), dtype=bool)
    for name, wanted in query.items():
        column = data[name]
        if isinstance(wanted, list):
            kept &= np.isin(column, wanted)
        else:
            low, high = wanted
            kept &= (column >= (-np.inf if low is None else low)) & (column <= (np.inf if high is None else high))
    return float(kept.mean())


def _truth(question: Question, column: NDArray) -> NDArray[np.float64]:
    if isinstance(question.attribute, KeyValue):
        held = column != 0
        if question.statistic == "conditional_mean":
            return column.sum(axis=0) / held.sum(axis=0)
        return (np.where(held, column, question.attribute.centre) if question.averages else held).mean(axis=0)
    if question.cells == 0:
        return np.atleast_1d(column.mean())
    return np.bincount(question.encode(column), minlength=question.cells) / len(column)


def _estimates(made: Plan, estimates: Estimates, data: dict[str, NDArray]) -> Table:
    columns: dict[str, list] = {name: [] for name in ("question", "of", "truth", "estimate", "95% interval", "inside")}
    for question in made.questions:
        truth = _truth(question, data[question.name])
        low, high, value = (
            np.atleast_1d(each) for each in (*estimates[str(question)].interval(0.95), estimates[str(question)].value)
        )
        digits = 3 if question.cells else 1 if question.unit < 1000 else 0
        for row in np.argsort(-truth, kind="stable")[:_SHOWN]:
            true, found, least, most = (f"{each[row]:,.{digits}f}" for each in (truth, value, low, high))
            columns["question"].append(str(question))
            columns["of"].append(question.labels[row] if question.labels else "all users")
            columns["truth"].append(true)
            columns["estimate"].append(found)
            columns["95% interval"].append(f"{least} to {most}")
            columns["inside"].append(bool(low[row] <= truth[row] <= high[row]))
    return Table(columns)


def _rated(estimates: Estimates, data: dict[str, NDArray]) -> str:
    """What comes with the questions about keys: the mean among those who hold one."""
    question = Question("films", "conditional_mean", SCHEMA["films"])
    truth, found = _truth(question, data["films"]), estimates[str(question)]
    rated = [
        f"{film} {found.value[row]:.2f} +- {found.stderr[row]:.2f} (truth {truth[row]:.2f})"
        for row, film in enumerate(_FILMS)
    ]
    return f"From the same reports, the mean among those who rated it: {'; '.join(rated[:_SHOWN])}."


def _errors(made: Plan, estimates: Estimates, refined: Estimates, data: dict[str, NDArray]) -> Table:
    rows = []
    for question in made.questions:
        truth = _truth(question, data[question.name])
        off, less = (
            float(np.sqrt(np.mean((np.atleast_1d(found[str(question)].value) - truth) ** 2)))
            for found in (estimates, refined)
        )
        rows.append((str(question), question.cells or 1, made.predicted[str(question)], off, less))
    names = ("question", "numbers", "predicted", "realised", "refined")
    return Table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
