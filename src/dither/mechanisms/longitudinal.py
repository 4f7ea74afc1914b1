"""Longitudinal collection: the same question again and again, and a promise that holds for all answers together.

Who answers with fresh noise every day gives the value away in the end: n reports cost n epsilon. So a device draws a
*permanent* response once and keeps it, and sends at every round an *instantaneous* response: the permanent one,
randomized again (RAPPOR, Erlingsson et al. 2014; Arcolezi et al. 2022; LOLOHA, Arcolezi et al. 2023). Two budgets:

- `epsilon` is for ever. Reports depend on the value through the permanent response alone, so that any number of them
  promise what the permanent response promises. It is what `guarantee` states: the headline is what a user of many
  rounds gets, never less.
- `first` < `epsilon` is for a single report, value -> permanent -> report: what someone learns who sees one round.
  `first_report` states it. `channel()`, moments and estimates are those of a single report.

**One report is that of the plain mechanism at `first`.** Channels that favour one of M outputs are closed under
composition: with weights (A, B), then (C, D),

    high = A C + (M-1) B D,      low = A D + B C + (M-2) B D,      high + (M-1) low = (A + (M-1) B) (C + (M-1) D).

So for first < epsilon there is a second draw for which high / low is e^first, namely

    C / D = (e^first (a + M - 2) - (M - 1)) / (a - e^first),      a = A / B = e^epsilon,

and a report has just the law of a plain report at `first`. The same holds for unary encoding, where the second draw
flips each bit with probability f: p becomes p (1 - f) + (1 - p) f, q likewise. What is kept is `kept`, a plain
mechanism at `epsilon`; what is sent has the law of `sent`, the plain one at `first` with the composed integers. Both
certify themselves (`mechanisms.memoized`). Keeping a permanent response costs no accuracy in one round.

The literature solves (a c + 1) / (a + c) = e^first for c = C / D, in L-GRR and LOLOHA alike. This is right for M = 2
only; for more outputs the report then keeps a smaller epsilon than was asked for, and the variance is larger: 2.7
times for 10 categories at (2, 1), ninety times for 100.

**Many rounds of the same users** average the second noise away, never the first. With V for the variance of one
plain report, a user who has reported R times contributes V(epsilon) + (V(first) - V(epsilon)) / R. Reports of one
user are no independent ones: `estimate(tally, rounds=R)` knows, where tallies of R rounds were added up.

**What goes wrong.** `randomize` does both draws in one go: it is one round. Called again for the next round it draws
a new permanent response, and the promise is that of independent reports, n times `first`. Across rounds, use
`permanent` once and `instantaneous` every time. And the promise is for a value that does not change: each new value
needs a permanent response of its own, which costs `epsilon` again (a value that comes back is answered with the one
it had).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.channel import CLOSENESS
from dither.core.checks import checked_count
from dither.core.draw import Rows, Tape
from dither.core.exact import exp_below, log_above
from dither.errors import ParameterError
from dither.kernels.hashing import MOST_CATEGORIES
from dither.mechanisms.grr import GRR
from dither.mechanisms.hash_seeds import HashSeeds
from dither.mechanisms.localhash import MOST_BUCKETS, LocalHash
from dither.mechanisms.memoized import Memoized
from dither.mechanisms.packing import MOST_BITS, as_bytes, coins
from dither.mechanisms.unary import KINDS, Unary

_FINEST = 256  # binary digits of a flip
_KEPT = 1 << 10  # flips that a planner may ask for again


@dataclass(frozen=True)
class LGRR(Memoized[GRR]):
    """Randomized response over k categories, kept, and randomized again at every round (L-GRR).

    `epsilon` for any number of reports about a value, `first` for a single one.

    >>> mechanism = LGRR(k=4, epsilon=2.0, first=1.0)
    >>> print(mechanism.guarantee, "|", mechanism.first_report)
    epsilon 2 (exact) | epsilon 1 (exact)
    >>> kept = mechanism.permanent([0, 1, 1, 3], seed=1)   # once, on the device
    >>> mechanism.tally(mechanism.instantaneous(kept, seed=2)).n   # at every round
    4
    """

    examples = (
        {"k": 4, "epsilon": 2.0, "first": 1.0},
        {"k": 2, "epsilon": 1.0, "first": 0.1},
        {"k": 5, "epsilon": 3.0, "first": 2.9},
    )

    def _validate(self) -> None:
        super()._validate()
        self._freeze(k=checked_count("k", self.k, 2, MOST_CATEGORIES))

    def _plain(self, epsilon: float, weights: tuple[int, ...] | None) -> GRR:
        return GRR(self.k, epsilon, weights=weights)


@dataclass(frozen=True)
class LHash(Memoized[LocalHash]):
    """Randomized response over a hash, kept, and randomized again at every round (L-OLH, LOLOHA).

    The hash function is drawn with the permanent response and stays. `g=None` takes the number of buckets that is best
    for one round. With a function of its own (`cohorts=None`) every device is recognised by it from round to round;
    shared functions tell no more than a number below `cohorts`.

    >>> LHash(k=1000, epsilon=2.0, first=1.0).g
    4
    """

    g: int | None = None
    cohorts: int | None = None

    examples = (
        {"k": 6, "epsilon": 2.0, "first": 1.0},
        {"k": 5, "epsilon": 2.0, "first": 0.5, "cohorts": 7},
        {"k": 4, "epsilon": 1.0, "first": 0.9, "g": 2, "cohorts": 5},
    )

    def _validate(self) -> None:
        super()._validate()
        self._freeze(k=checked_count("k", self.k, 2, MOST_CATEGORIES))
        if self.g is None:
            self._freeze(g=LocalHash(self.k, self.first).g)
        else:
            self._freeze(g=checked_count("g", self.g, 2, MOST_BUCKETS))
        self._freeze(cohorts=HashSeeds.checked(self.cohorts).cohorts)

    def _plain(self, epsilon: float, weights: tuple[int, ...] | None) -> LocalHash:
        return LocalHash(self.k, epsilon, g=self.g, cohorts=self.cohorts, weights=weights)

    def variance(self, frequency: Any, rounds: int = 1) -> NDArray[np.float64]:
        if self.cohorts is not None:
            raise ParameterError("shared hash functions are read one round at a time: leave out cohorts, or rounds")
        return super().variance(frequency, rounds)


@dataclass(frozen=True)
class LUnary(Memoized[Unary]):
    """One bit a category, randomized and kept, and each bit flipped now and then at every round.

    `kind="optimal"` is L-OSUE, `"symmetric"` is L-SUE: basic RAPPOR.

    >>> mechanism = LUnary(k=100, epsilon=2.0, first=1.0)
    >>> [round(float(p), 3) for p in (mechanism.reading.p, mechanism.reading.q)]   # as OUE at epsilon 1
    [0.5, 0.269]
    """

    kind: str = "optimal"

    weight_count = 6
    short = (5, 2, 1, 2, 1, 4)
    examples = (
        {"k": 3, "epsilon": 2.0, "first": 1.0},
        {"k": 4, "epsilon": 1.0, "first": 0.5, "kind": "symmetric"},
    )

    def _validate(self) -> None:
        super()._validate()
        self._freeze(k=checked_count("k", self.k, 2, MOST_BITS))
        if self.kind not in KINDS:
            raise ParameterError(f"kind must be one of {', '.join(KINDS)}")

    def _plain(self, epsilon: float, weights: tuple[int, ...] | None) -> Unary:
        return Unary(self.k, epsilon, kind=self.kind, weights=weights)

    def _checked_weights(self, weights: Any) -> tuple[int, ...]:
        *kept, flips, whole = super()._checked_weights(weights)
        if whole & (whole - 1) or not 2 * flips < whole:  # coins read it digit by digit
            raise ParameterError("the last weight must be a power of two above twice the one before: they are the flip")
        return *kept, flips, whole

    def _second(self, kept: Unary) -> tuple[int, int]:
        flip = _rarest_flip(kept.reading.p, kept.reading.q, self.first, min(self.first, kept.guarantee.epsilon))
        return flip.numerator, flip.denominator

    @property
    def _flip(self) -> Fraction:
        return Fraction(self._integers[-2], self._integers[-1])

    def _composed(self) -> tuple[int, ...]:
        p, q = (_flipped(each, self._flip) for each in (self.kept.reading.p, self.kept.reading.q))
        return p.numerator, p.denominator - p.numerator, q.numerator, q.denominator

    def _say(self, reports: NDArray, kept: NDArray, tape: Tape, rows: Rows) -> None:
        as_bytes(reports)[...] = as_bytes(kept) ^ coins(self._flip, self.k, tape, rows)

    @property
    def row_words(self) -> int:
        return 2 * self.kept.row_words


@lru_cache(_KEPT)
def _rarest_flip(p: Fraction, q: Fraction, first: float, goal: float) -> Fraction:
    """How often bits that are one with these probabilities are flipped; the same for any number of them.

    The more often, the smaller the ratio: the rarest flip that keeps `first`, then as few of its digits as will do to
    come near the goal, rounded up. Every digit costs a word for 64 bits.
    """
    most = exp_below(first)
    never, always = 0, 1 << _FINEST - 1
    while always - never > 1:
        middle = (never + always) // 2
        private = _odds_ratio(p, q, Fraction(middle, 1 << _FINEST)) <= most
        never, always = (never, middle) if private else (middle, always)
    for digits in range(16, _FINEST):
        flip = Fraction(-(-always >> _FINEST - digits), 1 << digits)
        missing = goal - log_above(_odds_ratio(p, q, flip)) if 2 * flip < 1 else goal
        if missing <= CLOSENESS * min(1.0, first) or (digits == 64 and first > 16):
            return flip
    raise ParameterError("first is too small for these parameters: no report would carry information")


def _flipped(p: Fraction, flip: Fraction) -> Fraction:
    """How often a bit is one that was one with probability p, and then perhaps was flipped."""
    return p + flip - 2 * p * flip


def _odds_ratio(p: Fraction, q: Fraction, flip: Fraction) -> Fraction:
    """The largest likelihood ratio of unary encoding whose bits are flipped: e^first."""
    p, q = _flipped(p, flip), _flipped(q, flip)
    return p * (1 - q) / (q * (1 - p))
