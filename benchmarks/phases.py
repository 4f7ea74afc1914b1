"""Two phases against one: what is won by asking most users when it is known where the people are.

    python benchmarks/phases.py            errors of one phase and of two over populations: six minutes on a core
    python benchmarks/phases.py --fit      the tables of `mechanisms.phased_error`: twenty minutes on a core
    python benchmarks/phases.py --first    other shares of users for the first phase
    python benchmarks/phases.py --even     other shares of the table that follow the domain
    python benchmarks/phases.py --quick    a smoke test

In one phase all users report their number by a square wave. In two a quarter does, and the others report its estimated
quantile by `QuantileWave`; the estimate is from the reports of both. Errors are roots of mean squares over collections,
the same users in each, of

- **bins**: the shares of 32 equal bins of the domain;
- **crowded bins**: the shares of 32 bins with equally many users each;
- **below**: the shares below the ends of equal bins; **at quantiles**: below the ends of crowded ones;
- **median** and **0.9**: how many users are between the estimated quantile and the true one.

"held" is the share of 95% intervals of shares at quantiles that hold the truth. "predicted" is what
`mechanisms.phased_error` says of shares below the cuts of the second phase, over what they were off by.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

import dither.mechanisms.quantile_wave as quantile_wave
from dither import QuantileWave
from dither.core.cumulative_estimate import Thresholds
from dither.core.tally import Tally
from dither.display.table import TextTable
from dither.mechanisms.phased_error import EPSILONS, REPORTS, error_below
from dither.mechanisms.window_evidence import probabilities
from measure import Machine
from ordered import shapes

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

CELLS, WHOLE, POINTS = 32, 100, 2000
BINS = np.linspace(0.0, 1.0, CELLS + 1)
MEASURES = ("bins", "crowded bins", "below", "at quantiles", "median", "0.9")


class Crowd(NamedTuple):
    """Where users are, from 0 to 1, and how many are there."""

    places: Floats
    counts: Counts

    @property
    def n(self) -> int:
        """How many there are."""
        return int(self.counts.sum())

    def below(self, ends: Floats) -> Floats:
        """The shares of users below ends."""
        total = np.concatenate([[0], np.cumsum(self.counts)])
        return total[np.searchsorted(self.places, ends, side="left")] / self.n

    def quantiles(self, shares: Floats) -> Floats:
        """Where these shares of users end."""
        return self.places[np.searchsorted(np.cumsum(self.counts), shares * self.n, side="left")]

    def split(self, share: float, rng: np.random.Generator) -> tuple["Crowd", "Crowd"]:
        """So many of them, drawn at random, and the others."""
        first = rng.multivariate_hypergeometric(self.counts, round(share * self.n), method="marginals")
        return Crowd(self.places, first), Crowd(self.places, self.counts - first)

    def tally(self, mechanism: QuantileWave, rng: np.random.Generator) -> Tally:
        """Of their reports, drawn from the exact law of each place."""
        window, here = mechanism.window, self.counts > 0
        at = mechanism.scale.place(self.places[here]) * window.steps
        limits = np.arange(window.law.outputs + 1)
        law = np.maximum(probabilities(window, limits, at, at).T, 0.0)
        drawn = rng.multinomial(self.counts[here], law / law.sum(axis=1, keepdims=True)).sum(axis=0)
        return Tally(mechanism.fingerprint, int(drawn.sum()), drawn)


def populations(users: int) -> dict[str, Crowd]:
    """Numbers on a domain from 0 to 1, by their quantiles: so many points stand for all users."""
    u = (np.arange(POINTS) + 0.5) / POINTS
    rng = np.random.default_rng(46)
    normal = np.sort(rng.normal(size=POINTS))
    beta = np.sort(rng.beta(2, 5, POINTS))
    found = {
        "uniform": u,
        "normal": 0.5 + 0.15 * normal,
        "lognormal": np.exp(normal) / 20,
        "heavy tail (lognormal, sigma 2)": np.exp(2 * normal) / 500,
        "heavy tail (Pareto 1.2)": (1 - u) ** (-1 / 1.2) / 1000,
        "zeros (40%)": np.where(u < 0.4, 0.0, beta),
        "two clusters": np.where(u < 0.5, 0.2 + 0.05 * normal[::-1], 0.7 + 0.02 * normal),
        "heaps (multiples of 1/20)": np.round(20 * np.sort(rng.beta(2, 3, POINTS))) / 20,
    }
    each = np.full(POINTS, users // POINTS)
    crowds = {}
    for name, values in found.items():
        places, inverse = np.unique(np.clip(values, 0.0, 1.0), return_inverse=True)
        crowds[name] = Crowd(places, np.bincount(inverse, weights=each).astype(np.int64))
    return crowds


class Curve(NamedTuple):
    """A mechanism with its tallies, from which any shares are read."""

    mechanism: QuantileWave
    tally: Tally
    earlier: tuple[tuple[Any, Tally], ...] = ()

    def read(self, ends: Floats, *, whole: bool = False) -> Any:
        """The shares below ends within the domain, rising; between whole numbers, if that is known."""
        thresholds = Thresholds.between_places(WHOLE) if whole else Thresholds(tuple((2 * ends - 1).tolist()))
        reading = self.mechanism.cumulative_reading(thresholds)
        reading = type(reading)(reading.mechanism, reading.thresholds, self.earlier)
        return self.mechanism.estimate(self.tally, reading)


def one_phase(crowd: Crowd, epsilon: float, rng: np.random.Generator) -> Curve:
    """All users report their number."""
    mechanism = QuantileWave(epsilon)
    return Curve(mechanism, crowd.tally(mechanism, rng))


def two_phases(crowd: Crowd, epsilon: float, rng: np.random.Generator, share: float = 0.25) -> Curve:
    """A share of them does, and the others report its estimated quantile."""
    mechanism = QuantileWave(epsilon)
    early, late = crowd.split(share, rng)
    first = early.tally(mechanism, rng)
    second = mechanism.after(first, late.n)
    return Curve(second, late.tally(second, rng), ((mechanism, first),))


def squared_errors(curve: Curve, crowd: Crowd, *, held: bool) -> dict[str, float]:
    """What a collection is off by, in squares; and the share of intervals that hold."""
    quantiles = np.unique(crowd.quantiles(np.arange(1, CELLS) / CELLS))
    quantiles = quantiles[(quantiles > 0) & (quantiles < 1)]
    fine = np.unique(np.concatenate([BINS, quantiles, curve.mechanism.scale.value(np.linspace(0, 1, 257))]))[1:-1]
    found = curve.read(fine)
    known = np.concatenate([[0.0], fine, [1.0]]), np.concatenate([[0.0], found.value, [1.0]])
    off = {}
    for names, ends in (
        (("bins", "below"), BINS),
        (("crowded bins", "at quantiles"), np.concatenate([[0.0], quantiles, [1.0]])),
    ):
        truth = np.append(crowd.below(ends)[:-1], 1.0)
        apart = np.interp(ends, *known) - truth
        off[names[0]] = float(np.mean(np.diff(apart) ** 2))
        off[names[1]] = float(np.mean(apart[1:-1] ** 2))
    for name, share in (("median", 0.5), ("0.9", 0.9)):
        value = float(found.quantile(share) + 1) / 2
        low, high = crowd.below(np.array([value, np.nextafter(value, 2.0)]))  # between which all at the value are
        off[name] = float(max(low - share, share - high, 0.0) ** 2)
    if held:
        low, high = curve.read(quantiles).interval(0.95)
        truth = crowd.below(quantiles)
        off["held"] = float(np.mean((low <= truth) & (truth <= high)))
    return off


def compared(users: int, epsilon: float, repetitions: int, held: int, **phases: Any) -> Iterator[Mapping[str, Any]]:
    """A row for each population: the error of two phases, and what it is of that of one."""
    for name, crowd in populations(users).items():
        rows: dict[str, list[dict[str, float]]] = {"one": [], "two": []}
        predicted = []
        for repetition in range(repetitions):
            rng = np.random.default_rng([46, repetition])
            curves = {"one": one_phase(crowd, epsilon, rng), "two": two_phases(crowd, epsilon, rng, **phases)}
            for key, curve in curves.items():
                rows[key].append(squared_errors(curve, crowd, held=key == "two" and repetition < held))
            ends = curves["two"].mechanism.scale.at[1:-1]
            predicted.append(np.mean((curves["two"].read(ends).value - crowd.below(ends)) ** 2))
        error = {key: {m: np.sqrt(np.mean([row[m] for row in own])) for m in MEASURES} for key, own in rows.items()}
        row: dict[str, Any] = {"population": name}
        for measure in MEASURES:
            one, two = error["one"][measure], error["two"][measure]
            row[measure] = f"{two:.4f} ({two / one:.2f})" if one > 1e-9 else f"{two:.4f}"
            row[f"/{measure}"] = two / one if one > 1e-9 else np.nan
        shares = [each["held"] for each in rows["two"] if "held" in each]
        row["held"] = f"{np.mean(shares):.0%}" if shares else ""
        row["predicted"] = f"{error_below(epsilon, users) / np.sqrt(np.mean(predicted)):.2f}"
        yield row


def shown(rows: list[Mapping[str, Any]]) -> TextTable:
    """The rows, with the geometric mean of the ratios last."""
    names = [name for name in rows[0] if not name.startswith("/")]
    last = {f: float(np.exp(np.nanmean(np.log(np.maximum([row[f"/{f}"] for row in rows], 1e-3))))) for f in MEASURES}
    total = {"population": "geometric mean of the ratios", **{f: f"({ratio:.2f})" for f, ratio in last.items()}}
    return TextTable({name: [str(row.get(name, "")) for row in (*rows, total)] for name in names})


# The tables -----------------------------------------------------------------------------------------------------------


def crowds(users: int, *, whole: bool) -> dict[str, Crowd]:
    """Users of each shape that predictions are for: those of benchmarks/ordered.py, and with numbers a heavy tail."""
    places = np.arange(WHOLE) / (WHOLE - 1) if whole else np.arange(641) / 640
    found = {}
    for name, shares in shapes(places).items():
        counts = np.floor(shares * users).astype(np.int64)
        counts[int(counts.argmax())] += users - counts.sum()
        found[name] = Crowd(places, counts)
    if not whole:
        scaled = populations(max(users, POINTS))["heavy tail (lognormal, sigma 2)"]
        found["heavy tail"] = scaled if users >= POINTS else Crowd(scaled.places[::2], scaled.counts[::2])
    return found


def fitted(repetitions: int, *, whole: bool) -> Iterator[tuple[float, float, str, str, Floats]]:
    """For each epsilon and number of reports the shapes hardest for two phases and for one, and the largest errors.

    Below a threshold and of a bin, at the cuts of the second phase: in two phases, and if all had reported in one.
    """
    for epsilon in EPSILONS:
        for reports in REPORTS:
            found = {}
            for name, crowd in crowds(int(reports), whole=whole).items():
                squares = []
                for repetition in range(repetitions):
                    rng = np.random.default_rng([repetition, int(reports), round(1000 * epsilon)])
                    curve = two_phases(crowd, float(epsilon), rng)
                    ends = (np.arange(1, WHOLE) - 0.5) / (WHOLE - 1) if whole else curve.mechanism.scale.at[1:-1]
                    row: list[float] = []
                    for each in (curve, one_phase(crowd, float(epsilon), rng)):
                        apart = each.read(ends, whole=whole).value - crowd.below(ends)
                        bins = np.diff(np.concatenate([[0.0], apart, [0.0]]))
                        row += [np.mean(apart**2), np.mean(bins**2)]
                    squares.append(row)
                found[name] = np.sqrt(np.mean(squares, axis=0))
            hardest = [max(found, key=lambda name, k=k: found[name][k]) for k in (0, 2)]
            yield epsilon, reports, *hardest, np.max(list(found.values()), axis=0)


def tables(every: list[Floats]) -> Floats:
    """The tables of errors, rows by epsilon and columns by reports: no more of either makes any of them worse."""
    found = np.moveaxis(np.array(every).reshape(len(EPSILONS), len(REPORTS), -1), -1, 0)
    return np.minimum.accumulate(np.minimum.accumulate(found, axis=1), axis=2)


@click.command()
@click.option("--fit", is_flag=True)
@click.option("--first", is_flag=True)
@click.option("--even", is_flag=True)
@click.option("--quick", is_flag=True)
@click.option("--users", type=int, default=100_000, show_default=True)
@click.option("--epsilon", type=float, default=1.0, show_default=True)
@click.option("--repetitions", type=int, default=8, show_default=True)
def main(fit: bool, first: bool, even: bool, quick: bool, users: int, epsilon: float, repetitions: int) -> None:
    """Print the tables that are asked for."""
    print(Machine.here(("numpy", "scipy")))
    repetitions = 1 if quick else repetitions
    if fit:
        for whole in (False, True):
            print("at places" if whole else "anywhere")
            every = []
            for *setting, errors in fitted(min(repetitions, 4), whole=whole):
                print(*setting, *(f"{error:.4f}" for error in errors), sep="  ", flush=True)
                every.append(errors)
            for name, table in zip(("BELOW", "BINS", "BELOW_IN_ONE", "BINS_IN_ONE"), tables(every), strict=True):
                print(name, np.array2string(table, precision=4, separator=", "), sep="\n", flush=True)
        return
    shares = (0.1, 0.25, 0.4) if first else (0.25,)
    parts = (0.1, 0.3) if even else (quantile_wave._EVEN,)
    for share in shares:
        for part in parts:
            quantile_wave._EVEN = part
            print(f"{users:,} users, epsilon {epsilon:g}; {share:.0%} of them first, {part:g} of the table even")
            print(shown(list(compared(users, epsilon, repetitions, 0 if quick else 2, share=share))), flush=True)


if __name__ == "__main__":
    main()
