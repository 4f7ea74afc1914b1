"""How tight the bounds of shuffling are: for every mechanism, the bound over the worst data set known.

    python benchmarks/shuffling.py              prints it, in some minutes
    python benchmarks/shuffling.py --write      also rewrites the results in benchmarks/README.md

A row is a mechanism: its first example, and some settings more. At delta 1e-6, for 10^4, 10^5 and 10^6 users and local
epsilons from .5 to 6, the epsilon of its own bound (`privacy.bounds(...)["own"]`) is divided by that of the worst data
set known (`.lower`): 1 would be a bound that is attained. Shown is the largest ratio for each number of users, and the
local epsilon that has it. What is above 1 is the bound's, or the data set's: nobody knows a worse one. Only in the
first rows both are known to be good, and these have a target.

The exit code says whether the targets are met: at most 1.02 for Collision, for randomized response and for two outputs.
"""

import math
import sys
from collections.abc import Iterator
from datetime import date
from typing import Any, NamedTuple

import click
from rich.progress import track

from dither.core.mechanism import Mechanism
from dither.display.table import TextTable
from dither.errors import DitherError
from dither.mechanisms import registry
from dither.privacy import bounds
from figures import README, markdown_table, write_section

USERS, EPSILONS, DELTA = (10**4, 10**5, 10**6), (0.5, 1.0, 2.0, 4.0, 6.0), 1e-6
TARGET = 1.02
AIMED: list[tuple[str, dict[str, Any]]] = [
    ("GRR", {"k": 2}),
    ("GRR", {"k": 3}),
    ("GRR", {"k": 10}),
    ("Duchi", {}),
    ("Collision", {"d": 256, "s": 1}),
    ("Collision", {"d": 256, "s": 4}),
    ("Collision", {"d": 256, "s": 8}),
    ("LocalHash", {"k": 100}),
]
_NONE = "-"


class Worst(NamedTuple):
    """The largest ratio for a number of users, and the local epsilon that has it."""

    ratio: float = math.nan
    epsilon: float = math.nan

    def __str__(self) -> str:
        return _NONE if math.isnan(self.ratio) else f"{self.ratio:.4f} ({self.epsilon:g})"


def settings() -> list[tuple[str, dict[str, Any], bool]]:
    """Mechanism, parameters without epsilon, and whether there is a target."""
    others = [
        (name, {key: value for key, value in cls.examples[0].items() if key != "epsilon"})
        for name, cls in registry.items()
    ]
    return [(*each, True) for each in AIMED] + [(*each, False) for each in others if each not in AIMED]


def ratios(name: str, parameters: dict[str, Any], n: int) -> Iterator[Worst]:
    """The bound over the worst data set known, for each local epsilon at which both say something."""
    for epsilon in EPSILONS:
        try:
            made: Mechanism = registry[name](**{**parameters, "epsilon": epsilon})
            found = bounds(made, n, DELTA, ["own"])
        except DitherError:  # groups that do not hide each other, or an epsilon that it cannot have
            continue
        stated = found["own"]
        if stated is not None and found.lower:
            yield Worst(stated.epsilon / found.lower, epsilon)


def measured() -> list[tuple[str, list[Worst], bool]]:
    """All rows."""
    rows = []
    for name, parameters, aimed in track(settings(), "Shuffling", transient=True):
        worst = [max(ratios(name, parameters, n), default=Worst()) for n in USERS]
        shown = ", ".join(f"{key}={value}" for key, value in parameters.items())
        rows.append((f"{name}({shown})", worst, aimed))
    return rows


def table(rows: list[tuple[str, list[Worst], bool]]) -> TextTable:
    """A row a mechanism, a column a number of users."""
    columns = {f"{n:,} users": [str(worst[place]) for _, worst, _ in rows] for place, n in enumerate(USERS)}
    return TextTable(
        {
            "mechanism": [name for name, _, _ in rows],
            **columns,
            "target": [f"<= {TARGET}" if aimed else "" for *_, aimed in rows],
        }
    )


@click.command()
@click.option("--write", is_flag=True, help="Rewrite the results in benchmarks/README.md.")
def main(write: bool) -> None:
    """Measure, print, and with --write keep."""
    rows = measured()
    found = table(rows)
    click.echo(str(found))
    missed = [name for name, worst, aimed in rows if aimed and not all(each.ratio <= TARGET for each in worst)]
    click.echo("all targets met" if not missed else f"not met: {', '.join(missed)}")
    if write:
        said = f"Measured on {date.today().isoformat()} by `python benchmarks/shuffling.py --write`."
        write_section(README, "shuffling", f"{said}\n\n{markdown_table(found)}")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
