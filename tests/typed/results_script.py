"""A user's script over every kind of result: it runs, and a strict check of its types finds nothing to say."""

import numpy as np

import dither
from dither.core.results import Interval, Result
from dither.planning import PlanEstimates
from dither.ranges.range_estimate import Answers, RangeEstimate


def told(result: Result) -> str:
    """What every result has."""
    rows = len(result.table())
    promise: dither.Guarantee = result.guarantee
    result.interval(0.9, simultaneous=True)
    return f"{rows} rows; {promise}; {result.explain().splitlines()[0]}"


schema = dither.Schema(
    {
        "age": dither.Ordinal(20, 59),
        "income": dither.Numeric(0, 100_000),
        "job": dither.Categorical(["nurse", "driver", "other"]),
        "movies": dither.KeyValue(keys=4, size=2),
    }
)
users = 4000
rng = np.random.default_rng(1)
people = {
    "age": rng.integers(20, 60, users),
    "income": rng.uniform(0, 100_000, users),
    "job": rng.choice(["nurse", "driver", "other"], users),
    "movies": [{0: 0.5, 2: -1.0}] * users,
}
asked = ["mean(income)", "distribution(age)", "histogram(job)", "movies", "ranges(age, income)"]
plan = dither.plan(schema, 4.0, users=users, ask=asked)
estimates: PlanEstimates = plan.estimate(plan.tally(plan.randomize(people, seed=1)))

for question, result in estimates.items():
    name: str = question
    interval: Interval = result.interval(0.9)
    widest: float = float((interval.high - interval.low).max())
    total: float = float(result.value.sum()) + float(result.stderr.sum())
    print(name, result.n, round(widest, 3), round(total, 3), told(result))

intervals: dict[str, Interval] = estimates.interval(simultaneous=True)
print(told(estimates), len(intervals), float(estimates["income"].value))

job: dither.Estimate = estimates.single("histogram(job)")
print(told(job), told(job.refine()), job.top(2))
ranges: RangeEstimate = estimates.ranges("income", "age")
answer: Answers = ranges.where("age between 30 and 40")
print(told(ranges), told(answer), told(ranges["age"]), ranges.joint("age", "income").shape)
print(told(ranges.quantile("age", [0.25, 0.5])), float(answer.noise))

wave = dither.SquareWave(1.0)
density = wave.distribution(wave.tally(wave.randomize(rng.uniform(-1, 1, users), seed=1)), bins=8)
print(told(density), density.mean(), float(density.quantile(0.5)), density.edges.shape)
