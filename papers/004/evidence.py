"""How numbers of 004 are compared: a difference counts beyond three standard errors.

Few repetitions tell little of their own spread, and one tells nothing. A run of HDG on fixed users and queries is off
by 8 to 19% of its error (claim 37), so the standard error of a mean is taken to be at least a tenth of it over the
square root of the number of repetitions.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from dither.reproduce.claims import Verdict
from dither.reproduce.measured import Coordinate, Coordinates, Measured, NotMeasuredError

RUN = 0.1  # of an error: the least standard deviation of one run that is believed
SURE = 3.0
NO_STAND_INS = ("Bfive", "Normal", "Laplace")  # can be had everywhere
BASELINES = ("HIO", "LHIO", "CALM", "MSW")


class Mean(NamedTuple):
    """A mean and its standard error."""

    value: float
    stderr: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ± {self.stderr:.1g}"

    def below(self, other: "Mean") -> bool:
        """Whether it is surely smaller."""
        return other.value - self.value > SURE * math.hypot(self.stderr, other.stderr)


def mean(found: Measured, **where: Coordinate) -> Mean:
    """The number at these coordinates."""
    row = found.row(**where)
    least = RUN * abs(row.value) / math.sqrt(row.repetitions)
    return Mean(row.value, max(least, row.stderr) if row.stderr == row.stderr else least)


def needing(judge: Callable[..., Verdict], **axes: Sequence[Coordinate]) -> Callable[..., Verdict]:
    """The same judge, which says so where one of these places was not measured in the first experiment it asks for."""

    @functools.wraps(judge)
    def checked(*found: Measured) -> Verdict:
        for name, places in axes.items():
            missing = [place for place in places if place not in found[0].along(name)]
            if missing:
                raise NotMeasuredError(f"{name} {', '.join(map(str, missing))}")
        return judge(*found)

    return checked


def cells(found: Measured, *names: str) -> list[dict[str, Coordinate]]:
    """All combinations of these coordinates that were measured, in their order."""
    each = (tuple((name, row.where[name]) for name in names) for row in found.rows if set(names) <= set(row.where))
    return [dict(one) for one in dict.fromkeys(each)]


def known(found: Measured, lines: Iterable[str], where: Coordinates) -> dict[str, Mean]:
    """Those of some lines that were measured there."""
    means = {}
    for line in lines:
        try:
            means[line] = mean(found, line=line, **where)
        except NotMeasuredError:
            continue
    return means


def told(where: Coordinates) -> str:
    """Coordinates in words."""
    return ", ".join(str(value) if isinstance(value, str) else f"{name} {value:g}" for name, value in where.items())


class Race(NamedTuple):
    """One line against the best of others, cell by cell."""

    ratios: list[float]  # the best other's error over its own
    lost: list[str]  # cells where another is surely better
    won: int  # where it is surely better than all others

    @property
    def middle(self) -> float:
        """The median ratio."""
        return sorted(self.ratios)[len(self.ratios) // 2]

    @property
    def leads(self) -> bool:
        """Whether it is surely ahead in most cells, and surely behind in none."""
        return not self.lost and self.won > len(self.ratios) / 2

    def __str__(self) -> str:
        shown = f"; surely behind in {len(self.lost)}" + (f", e.g. {'; '.join(self.lost[:3])}" if self.lost else "")
        return (
            f"{len(self.ratios)} cells: surely ahead in {self.won}{shown}; best other / own error {self.middle:.2g} in "
            f"the middle, {min(self.ratios):.2g} to {max(self.ratios):.2g}"
        )


def race(found: Measured, line: str, others: Sequence[str], where: Iterable[Coordinates]) -> Race:
    """In all of these cells where the line and another were measured."""
    ratios, lost, won = [], [], 0
    for cell in where:
        means = known(found, (line, *others), cell)
        if line not in means or len(means) < 2:
            continue
        own = means.pop(line)
        name = min(means, key=lambda other: means[other].value)
        ratios.append(means[name].value / own.value)
        won += all(own.below(each) for each in means.values())
        if means[name].below(own):
            lost.append(f"{told(cell)}: {name} {means[name].value:.3g} against {own.value:.3g}")
    if not ratios:
        raise NotMeasuredError(f"{line} and others to compare it with")
    return Race(ratios, lost, won)


def rows(found: Measured, **where: Coordinate) -> Iterator[tuple[Coordinates, Mean]]:
    """All numbers with these coordinates."""
    for row in found.select(**where).rows:
        yield row.where, mean(found, **row.where)
