"""A collection rehearsed: how far from the truth its results would be, before anybody is asked.

`plan.predicted` is one number a question, for the worst users or for those of a prior. `simulate` takes a population
that is public or made up, sends it through the whole plan again and again, and gives the *distribution* of the errors:
what is usual, what is bad luck, and how many intervals hold. Reports are drawn from seeds, so nothing is protected, and
private records have no place here.

Of a plan with rounds it is one round that is rehearsed, the first. Of the first plan of two phases both are: who is
asked first is drawn anew each time, and the second plan is made from their tally. Answers to ranges are left out: each
query has a truth of its own (`planning.trial`).
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.randomness import Stream
from dither.display.plots import error_strips, saved
from dither.display.progress import progress as bar
from dither.display.table import TextTable
from dither.errors import ParameterError
from dither.planning.record_tables import columns_of
from dither.planning.trial import truths

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from dither.planning.plans import Plan

_LEVEL = 0.95
_OFTEN = (0.05, 0.5, 0.95)

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Simulation:
    """For each question the errors of every repetition (rows) and every number (columns), and who was inside."""

    predicted: Mapping[str, float]
    errors: Mapping[str, Floats]
    inside: Mapping[str, Floats]
    users: int
    planned: int

    @property
    def repetitions(self) -> int:
        """How many collections there were."""
        return len(next(iter(self.errors.values())))

    def rms(self) -> dict[str, Floats]:
        """For each question the error of each repetition: the root of the mean square over its numbers."""
        return {name: np.sqrt(np.mean(errors**2, axis=1)) for name, errors in self.errors.items()}

    def table(self) -> TextTable:
        """One row a question: what was predicted, the errors of most collections, and the intervals that hold."""
        rms = self.rms()
        scale = (self.planned / self.users) ** 0.5  # what was predicted for the users that were planned with
        quantiles = {name: np.quantile(each, _OFTEN) for name, each in rms.items()}
        return TextTable(
            {
                "question": list(rms),
                "predicted": [self.predicted[name] * scale for name in rms],
                "usual": [quantiles[name][1] for name in rms],
                "lucky (1 of 20)": [quantiles[name][0] for name in rms],
                "unlucky (1 of 20)": [quantiles[name][2] for name in rms],
                "worst": [float(each.max()) for each in rms.values()],
                "intervals that hold": [f"{np.mean(self.inside[name]):.1%}" for name in rms],
            }
        )

    def plot(self, path: "str | Path | None" = None) -> "Figure":
        """Errors as multiples of the predicted ones, a strip a question; with a path it is saved there."""
        scale = (self.planned / self.users) ** 0.5
        ratios = {name: each / (self.predicted[name] * scale) for name, each in self.rms().items()}
        return saved(error_strips(ratios, label=f"error / predicted error, {self.repetitions:,} collections"), path)

    def explain(self) -> str:
        """In words."""
        return (
            f"{self.repetitions:,} collections from {self.users:,} users each, simulated from seeds: no guarantee.\n"
            "Predicted errors are for the worst users unless the plan has a prior, so usual ones may be smaller. Of 20 "
            "collections one is luckier and one unluckier than stated."
        )

    def __repr__(self) -> str:
        return f"{self.explain()}\n{self.table()}"

    def _repr_html_(self) -> str:
        return f"<p>{self.explain()}</p>{self.table()._repr_html_()}"


def simulated(
    plan: "Plan", population: Any, repetitions: int, *, refine: str | None, seed: int, progress: bool
) -> Simulation:
    """Collect from a population again and again, each time with other seeds."""
    repetitions, seed = checked_count("repetitions", repetitions, 1), checked_count("seed", seed, 0)
    if plan.after is not None:
        raise ParameterError("a second phase is rehearsed with the first: simulate the plan that it was made from")
    columns, users = columns_of(population, plan.attributes)
    if plan.phases is not None:
        return _in_phases(plan, columns, users, repetitions, refine=refine, seed=seed, progress=progress)
    true = truths(plan, [columns])
    asked = [name for name in map(str, plan.questions) if name in true]
    errors = {name: np.empty((repetitions, true[name].size)) for name in asked}
    inside = {name: np.empty((repetitions, true[name].size), dtype=bool) for name in asked}
    unseen = nullcontext(lambda count: None)
    with bar("Simulating", repetitions, unit="collections") if progress else unseen as advance:
        for number in range(repetitions):
            reports = _reports(plan, columns, (seed << 32) + number)
            found = plan.estimate(plan.tally(reports), refine=refine)
            for name in asked:
                errors[name][number] = np.ravel(found[name].value) - true[name]
                low, high = (np.ravel(end) for end in found[name].interval(_LEVEL))
                inside[name][number] = (low <= true[name]) & (true[name] <= high)
            advance(1)
    return Simulation(plan.predicted, errors, inside, users, plan.users)


def _in_phases(
    plan: "Plan",
    columns: Mapping[str, Any],
    users: int,
    repetitions: int,
    *,
    refine: str | None,
    seed: int,
    progress: bool,
) -> Simulation:
    """Both phases, again and again; the numbers of a question may be of other places each time, so its errors are."""
    assert plan.phases is not None
    errors: dict[str, list[Floats]] = {}
    inside: dict[str, list[Floats]] = {}
    predicted: dict[str, float] = {}
    share = plan.phases.users[0] / sum(plan.phases.users)
    unseen = nullcontext(lambda count: None)
    with bar("Simulating", repetitions, unit="collections") if progress else unseen as advance:
        for number in range(repetitions):
            drawn = Stream.seeded(seed, "phases", str(number)).order(users)
            early, late = (
                {name: _rows(column, rows) for name, column in columns.items()}
                for rows in np.split(drawn, [max(1, round(share * users))])
            )
            first = plan.tally(_reports(plan, early, (seed << 32) + number))
            second = plan.next(first)
            found = second.estimate(
                second.tally(_reports(second, late, (seed << 32) + number)), earlier=[first], refine=refine
            )
            true = truths(second, [columns])
            for name in (name for name in map(str, second.questions) if name in true):
                low, high = (np.ravel(end) for end in found[name].interval(_LEVEL))
                errors.setdefault(name, []).append(np.ravel(found[name].value) - true[name])
                inside.setdefault(name, []).append(((low <= true[name]) & (true[name] <= high)).astype(np.float64))
            predicted |= {name: second.predicted[name] for name in errors}
            advance(1)
    return Simulation(predicted, _stacked(errors), _stacked(inside), users, plan.users_of_phases)


def _stacked(found: Mapping[str, list[Floats]]) -> dict[str, Floats]:
    """A row a repetition; of those with fewer numbers the last is repeated."""
    return {
        name: np.stack([np.pad(row, (0, max(map(len, rows)) - len(row)), mode="edge") for row in rows])
        for name, rows in found.items()
    }


def _rows(column: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of a column."""
    return column.take(rows) if hasattr(column, "take") else [column[row] for row in rows.tolist()]


def _reports(plan: "Plan", columns: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
    """Those of a collection; of a plan with rounds, those of one."""
    if plan.schedule.repeats:
        return plan.randomize_rounds([columns], seed=seed, invalid="substitute")[0]
    return plan.randomize(columns, seed=seed, invalid="substitute")
