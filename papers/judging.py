"""What judges of claims share: numbers as text, differences beyond noise, and runs against a normal law."""

import math
from collections.abc import Iterable

from dither.reproduce.claims import Verdict, by_criterion
from dither.reproduce.measured import Coordinate, Measured, Row

BEYOND_NOISE = 3.0  # standard errors
_LEAST_P = 0.02  # of a mean of four p-values: below it with a probability of 2e-6, if the law is right
_WIDE = 4.0  # standard errors, of many comparisons at once


def told(values: Iterable[float]) -> str:
    """Numbers in a row, with three digits."""
    return ", ".join(f"{value:.3g}" for value in values)


def shown(row: Row) -> str:
    """A number with its standard error, if it has one."""
    return f"{row.value:.3g} ± {row.stderr:.1g}" if row.stderr > 0 else f"{row.value:.3g}"


def beyond(found: Measured, by: str, one: str, other: str, **where: Coordinate) -> float:
    """By how many standard errors one number is above another; infinite where neither has noise."""
    first, second = (found.row(**{by: name}, **where) for name in (one, other))
    noise = math.hypot(*(0.0 if math.isnan(row.stderr) else row.stderr for row in (first, second)))
    apart = first.value - second.value
    return apart / noise if noise else math.copysign(math.inf, apart) if apart else 0.0


def normal_law(found: Measured) -> Verdict:
    """Runs against their law, panel by panel (`framework.agreement`): Kolmogorov's test, spread and centre."""
    parts, right = [], True
    for row in found.select(quantity="Kolmogorov p").rows:
        here = {name: value for name, value in row.where.items() if name != "quantity"}
        ratio, many = found.row(**here, quantity="sd of runs / law"), runs(found, **here)
        off = found.value(**here, quantity="mean of runs") - found.value(**here, quantity="bias")
        right &= row.value > _LEAST_P
        right &= abs(ratio.value - 1) < _WIDE / math.sqrt(2 * many)
        right &= abs(off) < _WIDE * found.value(**here, quantity="standard deviation") / math.sqrt(many)
        where = ", ".join(str(value) for value in here.values())
        parts.append(f"{where}: p {row.value:.2f}, sd {shown(ratio)} times the law's")
    return by_criterion(right, "; ".join(parts))


def runs(found: Measured, **where: Coordinate) -> float:
    """How many runs a panel rests on."""
    row = found.row(**where, quantity="runs")
    return row.value * row.repetitions


def squared_error(found: Measured) -> Verdict:
    """The mean square of runs over variance + bias^2 of the law: a mean of z^2 about a bias, at most sqrt(2) wide."""
    parts, right = [], True
    for row in found.select(quantity="MSE of runs / law").rows:
        here = {name: value for name, value in row.where.items() if name != "quantity"}
        right &= abs(row.value - 1) < _WIDE * math.sqrt(2 / runs(found, **here))
        parts.append(shown(row))
    return by_criterion(right, f"mean square of runs over variance + bias^2: {', '.join(parts)}")
