"""What is public before the first report: who reports how, how the server moves, and where the defaults come from.

Defaults follow from (n, d, epsilon) and the domains, never from data. Let nu be the standard deviation of one
coordinate of the mean gradient of all n users, c sqrt(V / n), where V is the exact variance of the mechanism.

- *The total length of all steps* is S = `pace` / nu (at most `FARTHEST`): after it the noise in a coefficient has a
  fixed size. The noise of T small steps with n/T users each is that of one long step: S alone decides, so T is max(20,
  S), with eta = S/T <= 1.
- *Q* is the inverse of (M + RIDGE), with M the second moments of a record drawn uniformly from the public domains
  (`Encoder.second_moments`). It takes out the direction in which all indicators move together.
- *The first batch*, 3% of the users, reports on the intercept alone: one coordinate is cheap, and with the intercept in
  place the gradient is the covariance of features and label instead of their means.
- *Averaging*: the coefficients are the mean of the iterates of the second half.

`pace` and RIDGE (0.4 and 0.5) were chosen once, on a validation split of the Adult training data, for all mechanisms
and budgets alike. On made-up data at epsilon 1 and 4, half or twice of `pace`, RIDGE or FIRST_SHARE changes
misclassification by at most 0.6 points with 10 features; with 40, half by at most 1.2, twice by 2.8, 0.3 and 1.9
(three seeds; `python benchmarks/constants.py learn.linear.schedule.RIDGE`, and so on). `mechanism="auto"` takes the
mechanism of the registry with the least error (`VectorReporter.best`).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count
from dither.core.domains import BALL
from dither.core.guarantee import Guarantee
from dither.core.randomness import Stream
from dither.errors import ParameterError
from dither.learn.encoding import Encoder
from dither.learn.vector_reporter import VectorReporter, ranked, vector_candidates
from dither.privacy.accounting.composition import parallel

PACE = 0.4  # of the logistic loss; FARTHEST is for this one
RIDGE = 0.5
FARTHEST = 100.0
FEWEST_STEPS = 20
FIRST_SHARE = 0.03

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Schedule:
    """All that is public about a training before it begins: who reports how, and how the server moves."""

    first: VectorReporter | None
    main: VectorReporter
    steps: int
    rate: float
    precondition: Numbers
    users: int

    def reporter(self, step: int) -> VectorReporter:
        """How the reports of this step are made; step 0 is about the intercept alone."""
        return self.first if step == 0 and self.first is not None else self.main

    @property
    def turns(self) -> int:
        """How many batches report."""
        return self.steps + (self.first is not None)

    def sizes(self) -> list[int]:
        """How many users each batch has."""
        if self.first is None:
            return shares(self.users, self.steps)
        first = max(1, min(round(FIRST_SHARE * self.users), self.users - self.steps))
        return [first, *shares(self.users - first, self.steps)]

    @property
    def guarantee(self) -> Guarantee:
        """That of one report, of whichever kind: nobody sends two."""
        return parallel([self.main.guarantee] + ([self.first.guarantee] if self.first else []))


@dataclass(frozen=True, eq=False)
class Terms:
    """What a model asks for. The schedule follows from it and from the number of users, by the rule above."""

    epsilon: float
    delta: float
    mechanism: Any
    clip: float
    pace: float
    steps: int | None
    batch: int | None
    encoder: Encoder | None
    scores: int = 1  # of a record: one for each class, if there are more than two

    def schedule(self, d: int, users: int) -> Schedule:
        """How so many users train a model of d features."""
        main = self._reporter(d + 1)
        noise = math.sqrt(main.noise() / main.d / users)
        length = min(self.pace / noise, FARTHEST * self.pace / PACE)
        steps = self._steps(max(FEWEST_STEPS, math.ceil(length)), users)
        first = None if users < 2 * steps or self._made() else self._first(d + 1)
        moments = self.encoder.second_moments() if self.encoder is not None else np.diag([1 / 3] * d + [1.0])
        precondition = np.linalg.inv(moments + RIDGE * np.eye(d + 1)).astype(np.float64)
        return Schedule(first, main, steps, min(length / steps, 1.0), precondition, users)

    def _steps(self, usual: int, users: int) -> int:
        """How many batches the users make."""
        if self.batch is not None:
            batch = checked_count("batch", self.batch, 1)
            if batch > users:
                raise ParameterError(f"a batch of {batch:,} is larger than the population of {users:,} users")
            usual = users // batch
        if self.steps is None:
            return max(1, min(usual, users))
        steps = checked_count("steps", self.steps, 1)
        needed = steps * (1 if self.batch is None else self.batch)
        if needed > users:
            raise ParameterError(
                f"{steps:,} steps need {needed:,} users, since each takes part once, and there are {users:,}"
            )
        return steps

    def _made(self) -> bool:
        return not isinstance(self.mechanism, str)

    def _reporter(self, d: int) -> VectorReporter:
        if self.scores > 1:
            return self._of_scores(d)
        if self._made():
            return VectorReporter(self.mechanism, d=d, clip=self.clip, norm="linf")
        return VectorReporter(self._name(d), d=d, epsilon=self.epsilon, delta=self.delta, clip=self.clip, norm="linf")

    def _name(self, d: int) -> str:
        if self.mechanism != "auto":
            return self.mechanism
        return ranked(d, self.epsilon, self.delta, clip=1.0, norm="linf")[0][0]

    def _of_scores(self, d: int) -> VectorReporter:
        """All scores' gradients of d entries as one vector, whose residuals have the norm `clip` at most.

        It is of norm clip sqrt(d) at most and every entry within clip: a ball takes the one and a box the other, and
        neither cuts anything off.
        """
        whole, ball = self.scores * d, {"clip": self.clip * math.sqrt(d), "norm": "l2"}
        budget = {} if self._made() else {"epsilon": self.epsilon, "delta": self.delta}
        name = self.mechanism
        if name == "auto":
            name = ranked(whole, self.epsilon, self.delta, among=vector_candidates((BALL,)), **ball)[0][0]
        reporter = VectorReporter(name, d=whole, clip=self.clip, norm="linf", **budget)
        if reporter.mechanism.reading.domain.kind != BALL:
            return reporter
        return VectorReporter(reporter.mechanism, **ball)

    def _first(self, d: int) -> VectorReporter:
        """One coordinate by the same mechanism; by a sign where that takes several coordinates."""
        if self.scores > 1:
            return self._of_scores(1)
        budget: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta}
        try:
            return VectorReporter(self._name(d), d=1, clip=self.clip, norm="linf", **budget)
        except ParameterError:
            return VectorReporter("Hypercube(parts=1)", d=1, clip=self.clip, norm="linf", **budget)


def shares(users: int, batches: int) -> list[int]:
    """Users over batches, as evenly as can be; larger ones first."""
    least, more = divmod(users, batches)
    return [least + (batch < more) for batch in range(batches)]


def public_order(users: int, seed: int | None) -> NDArray[np.intp]:
    """A public random order of the users."""
    tape = Stream.secure() if seed is None else Stream.seeded(seed, "batches")
    return tape.order(users)
