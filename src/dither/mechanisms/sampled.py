"""Records of d dimensions through any one-dimensional mechanism, with the budget split over those that are reported.

`Sampled` lets each user report m of d dimensions, drawn without looking at the data, at epsilon/m and a share of delta
each (000 section III; 002 Algorithm 3). `Split` is m = d. `SampledDuchi` is 002's Mechanism-2: the sign mechanism under
`Sampled`.

**The best m.** A dimension has n m / d reports of variance V(epsilon/m), so the estimate has variance d
V(epsilon/m) / (m n). `m=None` evaluates this, with the exact worst-case variance V of the integers that would be
sampled, for m = 1, 2, ... until it grows. (002 takes the floor of a closed form, which is up to a quarter worse.)

**Why not scale by d/m?** The papers' estimate d/m * z averages over all users, with zeros for those who were not
asked. Here the reports of a dimension are averaged over those who made them. Given their number this is unbiased as
well, and it does not pay for the randomness of that number: the variance is smaller by (d/m - 1) times the squared
mean.

**Delta.** m reports with delta/m each keep delta, and much of it is left over: adding counts losses that cannot all
happen. What m reports really lose is worked out (`core.privacy_losses`), and the share of delta that each of them has
grows until the whole keeps the declared one, and not more. The share is the last of the `weights`, in units of 2^-40;
weights without it were made with delta/m.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import Channel
from dither.core.checks import checked_count, checked_list, is_list
from dither.core.domains import RECORDS
from dither.core.draw import Rows, Tape
from dither.core.estimate import Estimate
from dither.core.exact import exp_below, float_above, share_below
from dither.core.honest_sums import Sums
from dither.core.mechanism import Mechanism, R, Reading
from dither.core.short_weights import short_components
from dither.core.tally import Tally
from dither.core.worth import Worths
from dither.errors import ParameterError
from dither.mechanisms.multi_attribute import MultiAttribute
from dither.mechanisms.spec import from_spec, normal_spec, takes_delta

MOST_DIMENSIONS = 1 << 16  # of which some are reported
MOST_SPLIT = 1 << 20  # that are all reported: the certificate, a power of a fraction, takes 29 s for 616,609
_SHOWN = 8
_HOPELESS = 1.5  # times the best so far: larger m are not tried
_WHOLE = 1 << 40  # shares of delta are multiples of one over this
_MOST_DOUBLINGS = 40
_MOST_SHARE = _WHOLE << _MOST_DOUBLINGS
_CLOSE = 1e-9  # how much of delta may be left over


class _Recorded(Mechanism[R]):
    """What mechanisms with reports of several one-dimensional reports share: all but the choice of bases and m."""

    family = "records"
    takes = RECORDS
    statistics = ("mean", "frequency")
    planned = False  # a plan samples its questions itself
    d: int
    _bases: tuple[str, ...]  # a recipe for each dimension, or one for all

    def __repr__(self) -> str:
        shown = {field.name: getattr(self, field.name) for field in fields(self) if field.repr}  # type: ignore
        if len(self._bases) > _SHOWN:
            shown["base"] = f"{len(self._bases)} bases of {len(set(self._bases))} kinds"
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    @abstractmethod
    def _reported(self) -> int:
        """How many dimensions a user reports."""

    def _freeze_base(self, base: Any) -> None:
        """`base` in its normal form: one recipe for all dimensions, or one for each."""
        if is_list(base):
            rule = f"base must be one mechanism for all dimensions, or one for each of the {self.d}"
            recipes = tuple(normal_spec(each) for each in checked_list(rule, base, self.d))
        else:
            recipes = (normal_spec(base),)
        alike = len(set(recipes)) == 1
        self._freeze(base=recipes[0] if alike else recipes, _bases=recipes[:1] if alike else recipes)

    def _fit(self) -> tuple[Any, ...]:
        share = self._best_share(self._reported)
        weights = tuple(part.weights for part in self._parts(self._reported, share))
        return weights if share is None else (*weights, share)

    def _checked_weights(self, weights: Any) -> tuple[Any, ...]:
        rule = "weights must hold the whole numbers of every base, or be left out"
        bases = len(set(self._bases))
        given = checked_list(rule, weights, bases, bases + 1)
        share = [checked_count("the share of delta", each, 1, _MOST_SHARE) for each in given[bases:]]
        parts = self._parts(self._reported, *share or [None], weights=given[:bases])
        return *(part.weights for part in parts), *share

    def _parts(self, m: int, share: int | None = None, weights: Any = None) -> tuple[Mechanism, ...]:
        """One mechanism for each different base, with the budget of one of m dimensions."""
        bases = list(dict.fromkeys(self._bases))
        if self.delta and not any(takes_delta(base) for base in bases):
            raise ParameterError(f"{bases[0]} has no delta: leave delta out")
        epsilon = share_below(self.epsilon, m)
        delta = share_below(self.delta, m) if share is None else float_above(Fraction(self.delta) * share / _WHOLE)
        given = weights or [None] * len(bases)
        return tuple(from_spec(base, epsilon, delta, own) for base, own in zip(bases, given, strict=True))

    def _best_share(self, m: int) -> int | None:
        """The largest share of delta for each of m reported dimensions; None if there is nothing to be shared."""
        if self.delta == 0 or m == 1:
            return None

        def spent(share: int) -> float:
            """Of the declared delta, what the whole takes; more than all of it if a base does not take its share."""
            try:
                return float_above(self._arranged(m, self._parts(m, share)).channel().divergence(ratio) / limit)
            except ParameterError:
                return inf

        ratio, limit = exp_below(self.epsilon), Fraction(self.delta)
        return _largest(spent, _WHOLE // m)

    def _arranged(self, m: int, parts: tuple[Mechanism, ...]) -> MultiAttribute:
        bases = list(dict.fromkeys(self._bases))
        which = [bases.index(base) for base in self._bases]
        return MultiAttribute(parts, np.resize(np.array(which, dtype=np.intp), self.d), m)

    def _best_m(self) -> int:
        """The number of reported dimensions with the smallest worst-case variance."""
        best, least = 1, float("inf")
        for m in range(1, self.d + 1):
            try:
                cost = self._arranged(m, self._parts(m, self._best_share(m))).worst_variance()
            except ParameterError:  # the base does not take so small a share
                if m == 1:
                    raise
                break
            if cost < least:
                best, least = m, cost
            elif cost > _HOPELESS * least:
                break
        return best

    @cached_property
    def reading(self) -> MultiAttribute:
        """The dimensions, their mechanisms and their layout."""
        assert self.weights is not None
        bases = len(set(self._bases))
        parts = self._parts(self._reported, *self.weights[bases:], weights=self.weights[:bases])
        return self._arranged(self._reported, parts)

    def shortened(self, limit: int, rejecting: bool = True) -> Self | None:
        """With shortened components."""
        weights = short_components(self.components, limit)
        return None if weights is None else replace(self, weights=weights, delta=0.0)  # type: ignore[type-var]

    @property
    def components(self) -> tuple[Mechanism[Any], ...]:
        return self.reading.parts

    @property
    def dimensions(self) -> tuple[tuple[Reading[Any], float], ...]:
        return self.reading.dimensions

    @cached_property
    def naive(self) -> MultiAttribute | None:
        """The reading that takes the outputs of each dimension as they are, of those that have such a one."""
        return self.reading.read_by("naive")

    @cached_property
    def robust(self) -> MultiAttribute | None:
        return self.reading.read_by("robust")

    def dimensions_by(self, estimator: str) -> tuple[tuple[Reading[Any], float], ...]:
        reading = self.reading if estimator == "calibrated" else self.reading.read_by(estimator)
        return () if reading is None else reading.dimensions

    def part(self, dimension: int) -> Mechanism:
        """The mechanism that reports one dimension."""
        return self.reading.part(checked_count("dimension", dimension, 0, self.d - 1))

    def marginal(self, tally: Tally, dimension: int) -> Tally:
        """The tally of one dimension, for `part(dimension)`: to read its distribution, for example."""
        return self.reading.marginal(tally, checked_count("dimension", dimension, 0, self.d - 1))

    def channel(self) -> Channel:
        return self.reading.channel()

    def report_worth(self) -> Worths | None:
        return self.reading.worths()

    def honest_sums(self, tally: Tally) -> Sums:
        return self.reading.honest_sums(tally)

    @cached_property
    def layout(self) -> MultiAttribute:
        return self.reading

    def inputs(self) -> NDArray:
        return self.reading.inputs()

    def _fill(self, reports: NDArray, values: NDArray, tape: Tape, rows: Rows) -> None:
        self.reading.fill(reports, values, tape, rows)

    @property
    def row_words(self) -> int:
        return self._reported * max(part.row_words for part in self.reading.parts)


def _largest(spent: Callable[[int], float], low: int) -> int:
    """The largest whole number at which no more than all is `spent`, from one at which that is known.

    What is spent grows. It is bracketed between powers of two, then closed in by false position (Illinois variant), in
    arithmetic that is the same on every machine. Every number that is returned was tried.
    """
    below, above, doublings = spent(low), inf, _MOST_DOUBLINGS
    if below >= 1 - _CLOSE:
        return low
    high = low << doublings
    while doublings > 1:
        further = doublings // 2
        found = spent(low << further)
        if found <= 1:
            low, below, doublings = low << further, found, doublings - further
        else:
            high, above, doublings = low << further, found, further
    under, over, moved = 1 - below, above - 1, 0
    while below < 1 - _CLOSE and high - low > low >> 33:
        part = under / (under + over) if over < inf else 0.5
        middle = min(max(low + int((high - low) * part), low + 1), high - 1)
        found = spent(middle)
        if found <= 1:
            low, below, under, over = middle, found, 1 - found, over / 2 if moved < 0 else over
        else:
            high, over, under = middle, found - 1, under / 2 if moved > 0 else under
        moved = -1 if found <= 1 else 1
    return low


def _sampled_dimensions(d: Any) -> int:
    """How many dimensions there are to sample from."""
    if checked_count("d", d, 1) > MOST_DIMENSIONS:
        raise ParameterError(
            f"d must be at most {MOST_DIMENSIONS:,} where some dimensions are sampled: certificates of every number of "
            "them would be tried, which takes minutes. For longer vectors take UnitVector or BallGaussian, up to "
            "1,048,576 numbers"
        )
    return int(d)


@dataclass(frozen=True, repr=False)
class Sampled(_Recorded[Any]):
    """m of d dimensions, each through a mechanism for one.

    `base` is a mechanism without its budget, for all dimensions or one for each: numbers and categories may be mixed.
    `m=None` takes the best number of reported dimensions.

    >>> Sampled("Piecewise", d=100, epsilon=6.0).m
    3
    >>> mixed = Sampled(["Duchi", "GRR(k=4)"], d=2, m=1, epsilon=1.0)
    >>> reports = mixed.randomize({"income": [0.2, -1.0], "job": [3, 0]})
    """

    base: Any
    d: int
    m: int | None = None
    epsilon: float = None  # type: ignore[assignment]  # there is none by default, and that is refused
    delta: float = 0.0
    weights: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)

    examples = (
        {"base": "Duchi", "d": 3, "m": 1, "epsilon": 1.0},
        {"base": "Duchi", "d": 3, "m": 2, "epsilon": 1.0, "delta": 1e-3},
        {"base": "Piecewise", "d": 4, "m": 3, "epsilon": 2.0},
        {"base": "GRR(k=3)", "d": 3, "m": 1, "epsilon": 1.0},
        {"base": ("Duchi", "GRR(k=3)"), "d": 2, "m": 1, "epsilon": 1.0},
        {"base": ("Duchi", "Unary(k=3)", "LocalHash(k=4, cohorts=3)"), "d": 3, "m": 2, "epsilon": 2.0},
    )

    def _validate(self) -> None:
        self._freeze(d=_sampled_dimensions(self.d))
        self._freeze_base(self.base)
        m = checked_count("m", self._best_m() if self.m is None else self.m, 1)
        if m > self.d:
            raise ParameterError(f"m must be at most d: a user has {self.d} dimensions to report")
        self._freeze(m=m)

    @property
    def _reported(self) -> int:
        assert self.m is not None
        return self.m


@dataclass(frozen=True, repr=False)
class Split(_Recorded[Any]):
    """All d dimensions, each through a mechanism for one with its part of the budget.

    For few dimensions, or a large epsilon; `Sampled` is better otherwise.

    >>> Split("Duchi", d=2, epsilon=1.0).part(0)
    Duchi(epsilon=0.5, delta=0.0)
    """

    base: Any
    d: int
    epsilon: float
    delta: float = 0.0
    weights: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)

    examples = (
        {"base": "Duchi", "d": 2, "epsilon": 1.0},
        {"base": "Piecewise", "d": 3, "epsilon": 3.0},
        {"base": ("GRR(k=3)", "Duchi"), "d": 2, "epsilon": 2.0, "delta": 1e-3},
    )

    def _validate(self) -> None:
        self._freeze(d=checked_count("d", self.d, 1, MOST_SPLIT))
        self._freeze_base(self.base)

    @property
    def _reported(self) -> int:
        return self.d


@dataclass(frozen=True, repr=False)
class SampledDuchi(_Recorded[Estimate]):
    """m of d numbers, each by one randomized sign (002 Mechanism-2).

    A report is m dimensions and m signs. `m=None` takes the best number.

    >>> SampledDuchi(d=85, epsilon=8.0, delta=1e-6).m
    4
    """

    d: int
    epsilon: float
    delta: float = 0.0
    m: int | None = None
    weights: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)

    _bases = ("Duchi",)
    statistics = ("mean",)
    for_vectors = True
    examples = ({"d": 3, "epsilon": 1.0}, {"d": 3, "epsilon": 1.0, "delta": 1e-3, "m": 2}, {"d": 20, "epsilon": 4.0})

    def _validate(self) -> None:
        self._freeze(d=_sampled_dimensions(self.d))
        m = self._best_m() if self.m is None else self.m
        self._freeze(m=checked_count("m", m, 1, self.d))

    @property
    def _reported(self) -> int:
        assert self.m is not None
        return self.m
