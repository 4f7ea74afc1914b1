"""How well a distribution is found: dither's square wave against its peers, on the same sample.

    python benchmarks/distribution.py                    twenty seeds, a few minutes
    python benchmarks/distribution.py --shapes           dither alone: errors and coverage over shapes and epsilons
    python benchmarks/distribution.py --quick            a smoke test

The sample is beta(5, 2), mapped from [0, 1] to [-1, 1]; the distance is Wasserstein's W1 between the estimate and the
sample, in units of [-1, 1]. The peers:

- **published, to the end**: the square wave as it was published (Li et al. 2020): a continuous report, 1,024 bins for
  reports and values, EM with (1, 2, 1)/4 until the log-likelihood gains less than 0.001. It is written down here with
  a plain matrix from the paper's formulas, because no library that can be installed offers the square wave.
- **published, 100 steps**: the same, stopped after 100 steps, as implementations that wish to be quick do.
- **pure-ldp, 32 bins**: what an installable library offers for the task, optimized unary encoding of the bins, with
  the negative shares cut and the rest scaled.

With `--shapes` each row is a shape, a mechanism and an epsilon: L1, W1 and the largest distance of the cdf (KS) to the
sample, the share of 95% intervals that hold the share of their bin, and that of the intervals of the fullest bin.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

import click
import numpy as np
from numpy.typing import NDArray

from dither import Piecewise, SquareWave
from dither.display.table import TextTable
from measure import Machine

Shares = NDArray[np.float64]
Estimator = Callable[[NDArray[np.float64], int], Shares]

USERS = 100_000
EPSILON, TARGET, PUBLISHED_BINS, CODED_BINS = 1.0, 1.1, 1024, 32
PEERS = ("published, to the end", "published, 100 steps", "pure-ldp, 32 bins")


def distance(shares: Shares, values: NDArray[np.float64], points: int = 40_001) -> float:
    """W1 between a piecewise constant density on [-1, 1] and a sample: the area between the two cdfs."""
    grid = np.linspace(-1, 1, points)
    estimated = np.interp(grid, np.linspace(-1, 1, shares.size + 1), np.concatenate([[0.0], np.cumsum(shares)]))
    true = np.searchsorted(np.sort(values), grid, side="right") / values.size
    return float(2 * np.abs(estimated - true).mean())


def ours(values: NDArray[np.float64], seed: int) -> Shares:
    """dither's square wave."""
    mechanism = SquareWave(EPSILON)
    return mechanism.distribution(mechanism.tally(mechanism.randomize(values, seed=seed))).value


def published(most: int) -> Estimator:
    """The square wave and EMS as published, by plain matrices."""
    e = math.exp(EPSILON)
    half = (EPSILON * e - e + 1) / (2 * e * (e - 1 - EPSILON))
    low = 1 / (2 * half * e + 1)
    channel = _published_channel(half, low, low * e)
    kernel = _published_kernel()

    def estimate(values: NDArray[np.float64], seed: int) -> Shares:
        random = np.random.default_rng(seed)
        place = (values + 1) / 2
        near = random.random(values.size) < 2 * half * low * e
        # Outside the window there is a length of 1 in all: left of it as much as the value, right of it the rest.
        away = random.random(values.size)
        away = np.where(away < place, away - half, away + half)
        report = np.where(near, place + random.uniform(-half, half, values.size), away)
        counts = np.histogram(report, PUBLISHED_BINS, (-half, 1 + half))[0]
        return _published_ems(channel, kernel, counts, most)

    return estimate


def _published_channel(half: float, low: float, high: float) -> NDArray[np.float64]:
    """P(report bin | value bin): averages over the value bin, by 64 points in each."""
    edges = np.linspace(-half, 1 + half, PUBLISHED_BINS + 1)
    places = (np.arange(64 * PUBLISHED_BINS) + 0.5) / (64 * PUBLISHED_BINS)
    rows = np.empty((PUBLISHED_BINS, PUBLISHED_BINS))
    for row, part in enumerate(places.reshape(PUBLISHED_BINS, 64)):
        below = low * (edges + half) + (high - low) * np.clip(edges - (part[:, None] - half), 0, 2 * half)
        rows[row] = np.diff(below.mean(axis=0))
    return rows


def _published_kernel() -> NDArray[np.float64]:
    kernel = np.eye(PUBLISHED_BINS) * 2 + np.eye(PUBLISHED_BINS, k=1) + np.eye(PUBLISHED_BINS, k=-1)
    return kernel / kernel.sum(axis=1, keepdims=True)


def _published_ems(channel: Shares, kernel: Shares, counts: NDArray[np.int64], most: int) -> Shares:
    shares, before = np.full(PUBLISHED_BINS, 1 / PUBLISHED_BINS), -math.inf
    for _ in range(most):
        shares = kernel @ (shares * (channel @ (counts / (shares @ channel))))
        shares /= shares.sum()
        likelihood = float(counts @ np.log(shares @ channel))
        if abs(likelihood - before) < 1e-3:
            break
        before = likelihood
    return shares


def coded(values: NDArray[np.float64], seed: int) -> Shares:
    """pure-ldp's optimized unary encoding of the bins."""
    oracles = import_module("pure_ldp.frequency_oracles")
    np.random.seed(seed)  # the peer draws from this one
    mapping = {"index_mapper": lambda value: value, "use_oue": True}
    client = oracles.UEClient(EPSILON, CODED_BINS, **mapping)
    server = oracles.UEServer(EPSILON, CODED_BINS, **mapping)
    bins = np.minimum(((values + 1) / 2 * CODED_BINS).astype(int), CODED_BINS - 1).tolist()
    server.aggregate_all(list(map(client.privatise, bins)))
    raw = np.maximum(np.asarray(server.estimate_all(range(CODED_BINS), suppress_warnings=True)), 0.0)
    return raw / raw.sum()


def contestants() -> dict[str, Estimator]:
    """Everyone who can take part here."""
    found: dict[str, Estimator] = {
        "dither": ours,
        PEERS[0]: published(10_000),
        PEERS[1]: published(100),
    }
    try:
        import_module("pure_ldp.frequency_oracles")
    except ImportError:
        click.echo("pure-ldp is missing and left out: pip install -e '.[fast,bench]'")
    else:
        found[PEERS[2]] = coded
    return found


@dataclass(frozen=True)
class Contest:
    """Who came how close: for each contestant its distances and its seconds, one a seed."""

    users: int
    distances: Mapping[str, Sequence[float]]
    seconds: Mapping[str, Sequence[float]]

    @property
    def title(self) -> str:
        """What was measured."""
        seeds = len(next(iter(self.distances.values())))
        return f"beta(5, 2), {self.users:,} users, epsilon = {EPSILON:g}, {seeds} seeds; times include the users' side"

    @property
    def best(self) -> float:
        """The distance of the best peer."""
        return min(float(np.mean(self.distances[name])) for name in PEERS if name in self.distances)

    def table(self) -> TextTable:
        """One row a contestant."""
        found = self.distances.values()
        mean = [float(np.mean(each)) for each in found]
        return TextTable(
            {
                "estimate": list(self.distances),
                "W1": mean,
                "stderr": [float(np.std(each, ddof=1) / math.sqrt(len(each))) for each in found],
                "ratio to the best peer": [value / self.best for value in mean],
                "seconds": [float(np.median(self.seconds[name])) for name in self.distances],
            }
        )

    def verdict(self) -> str:
        """Whether dither came close enough."""
        met = np.mean(self.distances["dither"]) <= TARGET * self.best
        return f"Target: dither at most {TARGET} times the best peer: {'met' if met else 'not met'}."


def measured(quick: bool, users: int = USERS) -> Contest:
    """Everyone on the same samples."""
    names = contestants()
    distances: dict[str, list[float]] = {name: [] for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for seed in range(1000, 1002 if quick else 1020):
        values = 2 * np.random.default_rng(seed).beta(5, 2, users) - 1
        for name, estimator in names.items():
            start = time.perf_counter()
            shares = estimator(values, seed)
            seconds[name].append(time.perf_counter() - start)
            distances[name].append(distance(shares, values))
    return Contest(users, distances, seconds)


def samples(users: int, seed: int) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """The shapes of `--shapes`."""
    rng = np.random.default_rng(seed)
    yield "beta(5, 2)", 2 * rng.beta(5, 2, users) - 1
    left, right = rng.normal(-0.5, 0.1, users), rng.normal(0.4, 0.2, users)
    yield "two bells", np.where(rng.random(users) < 0.5, left, right).clip(-1, 1)
    yield "uniform", rng.uniform(-1, 1, users)
    yield "spike", np.where(rng.random(users) < 0.3, 0.213, rng.normal(0, 0.4, users).clip(-1, 1))
    yield "exponential", (2 * rng.exponential(0.12, users) - 1).clip(-1, 1)
    yield "step", np.where(rng.random(users) < 0.8, rng.uniform(-1, -0.3, users), rng.uniform(-0.3, 1, users))


def over_shapes(users: int, bins: int, repetitions: int) -> TextTable:
    """dither alone."""
    found: dict[tuple[str, str, float], list[tuple[float, ...]]] = {}
    grid = np.linspace(-1, 1, 4001)
    for kind in (SquareWave, Piecewise):
        for epsilon in (0.5, 1.0, 2.0, 4.0):
            mechanism = kind(epsilon)
            for seed in range(repetitions):
                for name, values in samples(users, 1000 + seed):
                    estimate = mechanism.distribution(mechanism.tally(mechanism.randomize(values, seed=seed)), bins)
                    truth = np.histogram(values, estimate.edges)[0] / users
                    low, high = estimate.interval(0.95)
                    inside = (low <= truth) & (truth <= high)
                    apart = np.abs(estimate.cdf(grid) - np.searchsorted(np.sort(values), grid, side="right") / users)
                    errors = np.abs(estimate.value - truth).sum(), 2 * apart.mean(), apart.max()
                    row = (*errors, inside.mean(), inside[truth.argmax()])
                    found.setdefault((name, kind.__name__, epsilon), []).append(row)
    rows = [(*key, *np.mean(each, axis=0)) for key, each in found.items()]
    columns = ("shape", "mechanism", "epsilon", "L1", "W1", "KS", "inside", "fullest inside")
    return TextTable(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--quick", is_flag=True, help="A smoke test: two seeds.")
@click.option("--users", default=USERS, show_default=True)
@click.option("--shapes", is_flag=True, help="dither alone, over shapes and epsilons.")
@click.option("--bins", default=16, show_default=True, help="With --shapes.")
def main(quick: bool, users: int, shapes: bool, bins: int) -> None:
    """Measure and print."""
    if shapes:
        click.echo(f"{users:,} users, {bins} bins\n{over_shapes(users, bins, 2 if quick else 10)}")
        return
    contest = measured(quick, users)
    for line in (Machine.here(("numpy", "pure-ldp")), contest.title, contest.table(), contest.verdict()):
        click.echo(str(line))


if __name__ == "__main__":
    main()
