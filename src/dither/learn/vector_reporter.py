"""Reporters: how a vector of any size travels through a mechanism of the registry.

A gradient, or the update of a device, is a vector of floats with no bound. A mechanism takes vectors of its own domain
and keeps its promise for these. An `VectorReporter` stands between: it clips and scales on the way in, and on the way
out the estimate is in the units of the input again.

| domain | mechanisms | `clip` is | what is kept |
| --- | --- | --- | --- |
| ball | UnitVector, BallGaussian | the longest Euclidean norm | the direction; long vectors become shorter |
| box | Hypercube, SampledDuchi, Sampled, Split, Gaussian | the largest coordinate | each coordinate on its own |
| sparse | Collision, CoCo, ... | the magnitude of every sign sent | the signs of the s largest coordinates |

`norm` says which bound is meant, where it is not that of the domain. `norm="linf"` on a ball takes the ball around the
box, of radius clip sqrt(d), and loses nothing. `norm="l2"` on a box takes a box of half-width clip * spread / sqrt(d)
(at most clip): a vector whose coordinates are all of about the same size fits for a spread of 3, while one with few
large coordinates is cut. The box around the ball, spread = sqrt(d), loses nothing and is d/9 times as noisy.

**Without bias.** On balls and boxes the estimate is unbiased for the mean of the *clipped* vectors. Signs of the s
largest coordinates are biased, whatever the number of reports: they tell which coordinates matter, and which way.

**Nothing leaks.** A row with a NaN or an infinity (a gradient that overflowed) counts as a row of zeros: its report has
the law of a zero's report, so nobody can tell. Clipping uses floats, which decide a value, never a probability.

**The error** of a reporter is the expected squared Euclidean distance between one calibrated report and the vector,
for the worst vector within the bound, including what clipping to the domain costs. `VectorReporter.best` takes the
least.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.ball_domain import shortened_to
from dither.core.checks import checked_count, checked_real, real_array
from dither.core.domains import BALL, NUMBERS, RECORDS, SPARSE
from dither.core.estimate import Bounds, Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.core.reports import Reports
from dither.core.tally import Tally
from dither.core.worth import Worths
from dither.errors import DomainError, ParameterError

NORMS = ("l2", "linf")
SPREAD = 3.0  # a coordinate of a random direction is beyond three of its standard deviations once in 370 times
_TRIED = (BALL, RECORDS, NUMBERS)  # of equal ones the first is taken: whole vectors, then coordinates, then one of them


def vector_candidates(kinds: Sequence[str] = _TRIED) -> tuple[str, ...]:
    """The mechanisms of the registry that declare to be for vectors, by the kind of their domain.

    >>> vector_candidates()
    ('UnitVector', 'BallGaussian', 'Hypercube', 'SampledDuchi', 'Piecewise', 'Hybrid', 'Gaussian')
    """
    from dither.mechanisms import registry

    declared = [cls for cls in registry.values() if cls.for_vectors]
    return tuple(cls.__name__ for kind in kinds for cls in declared if cls.takes == kind)


@dataclass(frozen=True, init=False)
class VectorReporter:
    """Vectors of any size through one mechanism: clipped and scaled on the way in, in their own units on the way out.

    `mechanism` is a name of the registry, alone or with its parameters as in `"Collision(s=8)"`, or a mechanism that is
    made already. One for a single number, such as `"Piecewise"`, is put under `Sampled`. `"Hypercube"` has the best
    number of corners in a report; `"Hypercube(parts=1)"` has one, as in 002.

    >>> reporter = VectorReporter("Hypercube", d=3, epsilon=8.0, clip=2.0)
    >>> reports = reporter.randomize([[1.0, -7.0, 0.5]] * 10_000, seed=1)
    >>> reporter.estimate(reporter.tally(reports)).value.round(1).tolist()
    [1.0, -2.0, 0.5]
    >>> print(reporter.guarantee)
    epsilon 8 (exact)
    """

    mechanism: Mechanism
    clip: float
    norm: str
    spread: float = field(repr=False)

    def __init__(
        self,
        mechanism: str | Mechanism,
        *,
        d: int | None = None,
        epsilon: float | None = None,
        delta: float = 0.0,
        clip: float = 1.0,
        norm: str | None = None,
        spread: float = SPREAD,
        **options: Any,
    ) -> None:
        made = self._made(mechanism, d, epsilon, delta, options)
        for name, number in (("clip", clip), ("spread", spread)):
            if not (math.isfinite(checked_real(name, number)) and number > 0):
                raise ParameterError(f"{name} must be a finite number above 0")
        domain = made.reading.domain
        native = "l2" if domain.kind == BALL else "linf"
        if norm is not None and norm not in NORMS:
            raise ParameterError(f"norm must be one of {', '.join(NORMS)}")
        if domain.kind == SPARSE and norm == "l2":
            raise ParameterError("signs have no length: leave norm out, and give the magnitude of a sign as clip")
        frozen = {"mechanism": made, "clip": float(clip), "norm": norm or native, "spread": float(spread)}
        for name, value in frozen.items():
            object.__setattr__(self, name, value)
        if not (np.finfo(np.float64).tiny < self.scale < 1e150):
            raise ParameterError("clip is too small or too large for floating point numbers")

    @staticmethod
    def _made(mechanism: Any, d: int | None, epsilon: Any, delta: float, options: dict[str, Any]) -> Mechanism:
        if isinstance(mechanism, Mechanism):
            if options or epsilon is not None or delta or d not in (None, _dimensions(mechanism)):
                raise ParameterError("a mechanism that is made already has its budget and d: give a clip at most")
            _dimensions(mechanism)
            return mechanism
        if not isinstance(mechanism, str):
            raise ParameterError('name a mechanism for vectors, as in VectorReporter("UnitVector", d=100, epsilon=1.0)')
        if d is None:
            raise ParameterError("d is missing: how many coordinates a vector has")
        return _vector_mechanism(mechanism, checked_count("d", d, 1), epsilon, delta, options)

    @classmethod
    def best(
        cls,
        d: int,
        epsilon: float,
        delta: float = 0.0,
        *,
        clip: float = 1.0,
        norm: str = "l2",
        among: Sequence[str] | None = None,
    ) -> "VectorReporter":
        """The reporter with the least error for vectors within `clip`, among mechanisms of the registry.

        By default these are all that declare to be for vectors (`vector_candidates`). Those that cannot be had (a
        Gaussian without a delta, too many dimensions) are passed over.

        >>> VectorReporter.best(d=1, epsilon=1.0, norm="linf", among=("SampledDuchi", "Piecewise")).mechanism
        SampledDuchi(d=1, epsilon=1.0, delta=0.0, m=1)
        """
        return ranked(d, epsilon, delta, clip=clip, norm=norm, among=among)[0][1]

    # What it is --------------------------------------------------------------------------------------------------

    @property
    def d(self) -> int:
        """How many coordinates a vector has."""
        return _dimensions(self.mechanism)

    @property
    def name(self) -> str:
        """That of the mechanism, for people."""
        return type(self.mechanism).__name__

    @property
    def fingerprint(self) -> str:
        """A hash of all that both ends must agree on: the mechanism with its integers, and how vectors are clipped."""
        clipping = {"clip": repr(self.clip), "norm": repr(self.norm), "spread": repr(self.spread)}
        facts = {"reporter": type(self).__name__, "mechanism": self.mechanism.fingerprint, **clipping}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for one report."""
        return self.mechanism.guarantee

    @property
    def scale(self) -> float:
        """What a mechanism's one is worth: the radius of the ball, half the width of the box, the size of a sign."""
        if self.mechanism.reading.domain.kind == BALL:
            return self.clip * (math.sqrt(self.d) if self.norm == "linf" else 1.0)
        return self.coordinate_clip(self.clip, self.d, self.spread) if self.norm == "l2" else self.clip

    @staticmethod
    def coordinate_clip(clip: float, d: int, spread: float = SPREAD) -> float:
        """The half-width of a box for vectors of norm `clip` whose coordinates are of about the same size.

        >>> VectorReporter.coordinate_clip(1.0, d=900)
        0.1
        """
        return clip * min(1.0, spread / math.sqrt(d))

    def noise(self) -> float:
        """The variance of one report, summed over coordinates, for the vector where it is largest."""
        return float(self.d * self.mechanism.reading.worst_variance() * self.scale**2)

    def error(self) -> float:
        """The expected squared distance of one calibrated report from the vector, at worst within the bound.

        What clipping costs is for the vector that loses most: one with a single coordinate where a ball is put into a
        box, and where only s signs are sent the larger of a vector of equal coordinates and of one that is nearly zero.
        """
        domain = self.mechanism.reading.domain
        lost = 0.0
        if domain.kind == SPARSE:
            s = domain.parameters["s"]
            lost = max(self.d - s, s) * self.clip**2
        elif self.norm == "l2":
            lost = (self.clip - min(self.scale, self.clip)) ** 2
        return self.noise() + lost

    # The verbs -----------------------------------------------------------------------------------------------------

    def randomize(self, vectors: Any, *, seed: int | None = None) -> Reports:
        """One report for each row, whatever stands in it: `seed` as in every mechanism."""
        return self.mechanism.randomize(self.inside(vectors), seed=seed)

    def inside(self, vectors: Any) -> NDArray:
        """The rows as the mechanism takes them: clipped, scaled, and zero where anything is not finite."""
        clipped = self.clipped(vectors)
        domain = self.mechanism.reading.domain
        if domain.kind == SPARSE:
            return domain.check(clipped / self.clip)
        if domain.kind == BALL:
            return domain.check(clipped / self.scale)
        scaled = np.clip(clipped / self.scale, -1.0, 1.0)
        return scaled.reshape(-1) if domain.kind == NUMBERS else scaled

    def clipped(self, vectors: Any) -> NDArray[np.float64]:
        """The rows within the bound, in their own units: what the estimate is the mean of."""
        rows = vector_rows(vectors, self.d)
        rows[~np.isfinite(rows).all(axis=1)] = 0.0
        domain = self.mechanism.reading.domain
        if domain.kind == SPARSE:
            return self.clip * _largest_signs(rows, domain.parameters["s"])
        if self.norm == "linf":
            return np.clip(rows, -self.clip, self.clip)
        shortened = shortened_to(rows, self.clip)
        return shortened if domain.kind == BALL else np.clip(shortened, -self.scale, self.scale)

    def tally(self, reports: NDArray) -> Tally:
        """The mechanism's own tally."""
        return self.mechanism.tally(reports)

    def estimate(self, tally: Tally) -> Estimate:
        """The mean of the clipped vectors, in their own units, with standard errors.

        A coordinate that nobody reported on yet is 0, with an infinite standard error.
        """
        found = self.mechanism.estimate(tally)
        if self.mechanism.reading.domain.kind == SPARSE:  # beside how many have each key
            found = found["mean"]
        value, stderr = (np.reshape(part, self.d) for part in (found.value, found.stderr))
        unknown = np.isnan(value)
        value = np.where(unknown, 0.0, value) * self.scale
        stderr = np.where(unknown, np.inf, stderr) * self.scale
        bound = self.scale if self.norm == "l2" else self.clip
        return replace(found, value=value, stderr=stderr, bounds=Bounds(-bound, bound))

    def report_worth(self) -> Worths | None:
        """What a report is worth to each coordinate of the mean, in the units of the vectors."""
        own = self.mechanism.report_worth()
        means = None if own is None else tuple(worth for worth in own if worth.question == "mean")
        return None if not means else tuple(worth.scaled(Fraction(self.scale)) for worth in means)

    def mean(self, reports: NDArray) -> NDArray[np.float64]:
        """The mean of the clipped vectors behind these reports."""
        return self.estimate(self.tally(reports)).value


def _largest_signs(rows: NDArray[np.float64], s: int) -> NDArray[np.float64]:
    """The signs of the s largest coordinates of each row, the first of equal ones; all others are 0."""
    order = np.argsort(-np.abs(rows), axis=1, kind="stable")[:, :s]
    signs = np.zeros(rows.shape)
    np.put_along_axis(signs, order, np.sign(np.take_along_axis(rows, order, axis=1)), axis=1)
    return signs


def vector_rows(vectors: Any, d: int) -> NDArray[np.float64]:
    """A fresh table of floats with d columns."""
    table = real_array(vectors)
    if table is not None and table.ndim == 1 and len(table) == d and d > 1:
        table = table[None, :]  # one vector
    if table is None or table.ndim != 2 or table.shape[1] != d:
        raise DomainError(f"vectors must be a table of numbers with one row for each user and {d} columns")
    return np.array(table)


def _vector_mechanism(name: str, d: int, epsilon: Any, delta: float, options: dict[str, Any]) -> Mechanism:
    """A mechanism of the registry for d coordinates; one for a single number goes under `Sampled`."""
    from dither.mechanisms import registry
    from dither.mechanisms.spec import normal_spec, parsed_spec, takes_delta

    kind, own = parsed_spec(name)
    if kind.takes == NUMBERS and "d" not in {each.name for each in fields(kind)}:  # type: ignore[arg-type]
        kind, own = registry["Sampled"], {"base": name}
    options = {**kind.vector_options, **own, **options}
    takes = takes_delta(normal_spec(options["base"])) if "base" in options else kind.knows_delta()
    budget = {"epsilon": epsilon, "delta": delta} if takes else {"epsilon": epsilon}  # without one it promises more
    try:
        made = kind(d=d, **budget, **options)  # type: ignore[call-arg]
    except TypeError:
        made = None
    if made is None:
        own = [each.name for each in fields(kind) if each.name not in ("d", "epsilon", "delta", "weights")]  # type: ignore[arg-type]
        raise ParameterError(f"{kind.__name__} takes d, epsilon and {', '.join(own) or 'nothing else'}")
    _dimensions(made)
    return made


def _dimensions(mechanism: Mechanism) -> int:
    """How many coordinates a mechanism for vectors takes."""
    coordinates = mechanism.reading.domain.coordinates
    if coordinates is not None:
        return coordinates
    raise ParameterError(
        f"{type(mechanism).__name__} does not take vectors of numbers; use UnitVector, Hypercube, SampledDuchi, "
        "Sampled with a mechanism for numbers, Gaussian, Collision or CoCo"
    )


def ranked(
    d: int, epsilon: float, delta: float, *, clip: float, norm: str, among: Sequence[str] | None = None
) -> tuple[tuple[str, VectorReporter], ...]:
    """The candidates that can be had, by their names, those with the least error first."""
    names = vector_candidates() if among is None else tuple(among)
    return _ranked(d, epsilon, delta, clip, norm, names)


@lru_cache(maxsize=64)
def _ranked(
    d: int, epsilon: float, delta: float, clip: float, norm: str, among: tuple[str, ...]
) -> tuple[tuple[str, VectorReporter], ...]:
    found: dict[str, VectorReporter] = {}
    refusal = "name at least one mechanism"
    for name in among:
        try:
            found[name] = VectorReporter(name, d=d, epsilon=epsilon, delta=delta, clip=clip, norm=norm)
        except ParameterError as error:  # never quotes a value
            refusal = str(error)
    if not found:
        raise ParameterError(f"none of these mechanisms will do; the last of them said: {refusal}")
    return tuple(sorted(found.items(), key=lambda pair: pair[1].error()))
