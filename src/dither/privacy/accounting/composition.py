"""Several reports of one user: what they promise together.

- **In sequence** (`compose`): several reports about the same values, of different mechanisms or of one over time.
  Likelihood ratios multiply, so epsilons and deltas add. With a delta to spare the truth is better: a report rarely
  shows its worst, and the sum of many losses concentrates.
- **In parallel** (`parallel`): every user answers one of several questions, drawn without looking: the worst of them.

Either way the parts must protect against the same parties, between the same neighbours: guarantees of different models
(local, shuffled, central) do not add up, and are refused (`core.guarantee.one_kind`).

**Losses.** `loss_of` gives the privacy loss of a part between its worst two inputs, which must be the worst at every
epsilon at once (a *dominating pair*). These are:

- of a two-level channel, the inputs furthest apart: loss ln E, 0 or -ln E (`core.channel.Contrast`, and
  `privacy.shuffle_divergence` for why they dominate);
- of a shuffled round, those of its blanket (`privacy.shuffled_rounds`);
- of additive noise, the two ends of the lattice (`Channel.dominating_rows`, `core.additive_channel`);
- of anything with (epsilon, delta): with probability delta an infinite loss, else that of binary randomized response
  (Kairouz, Oh and Viswanath 2015).

Reports that are alike are added up on the lattice of their own losses; different kinds meet on a common grid
(`privacy_loss`).
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from functools import reduce
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from dither.core.channel import Channel
from dither.core.checks import checked_count, checked_delta
from dither.core.exact import log_above
from dither.core.guarantee import Guarantee, one_kind
from dither.errors import ParameterError
from dither.privacy.accounting.exact_sums import summed
from dither.privacy.accounting.privacy_loss import PrivacyLoss, connected_dots, tilt_for
from dither.privacy.certificate import Promising

MOST_REPORTS = 1 << 13
_CELLS = 1 << 11  # of a noise table, between 0 and its largest loss
_WINDOW = 1 << 20
_GRID = 1 << 17
_MARGIN = 1e-9
_PARTS = "give a list of parts: each is a mechanism, a guarantee, or a pair of one of these and a number"
_ROUNDING = 2.0**-48  # relative: a bound on the error of a probability and of its loss, with room to spare


@runtime_checkable
class Composable(Promising, Protocol):
    """What is composed: a mechanism, or a plan."""

    def lifetime_channel(self) -> Channel:
        """The channel of all that the reports about one value can tell."""
        ...


@runtime_checkable
class Release(Promising, Protocol):
    """What knows the law of its own privacy loss: a shuffled round."""

    def privacy_loss(self) -> PrivacyLoss:
        """The loss of a pair that dominates all neighbouring data sets."""
        ...


class _Summand(NamedTuple):
    """What is promised, and by whom; None where nothing but the guarantee is known."""

    guarantee: Guarantee
    source: Composable | Release | None = None

    @classmethod
    def of(cls, given: "Part") -> "_Summand":
        if isinstance(given, Guarantee):
            return cls(given)
        if not isinstance(given, (Composable, Release)):
            raise ParameterError(_PARTS)
        return cls(given.guarantee, given)

    @property
    def key(self) -> Hashable:
        """Equal for parts that are alike."""
        return self.guarantee if self.source is None else self.source.fingerprint

    def loss(self) -> PrivacyLoss:
        if self.source is None:
            return _promised(self.guarantee)
        if isinstance(self.source, Release):
            return self.source.privacy_loss()
        channel = self.source.lifetime_channel()
        contrast = channel.contrast()
        if contrast is not None and channel.exact:
            high, low = float(contrast.spread * contrast.ratio), float(contrast.spread)
            return _three(log_above(contrast.ratio), low, max(0.0, 1 - high - low), high)
        if rows := channel.dominating_rows():
            return _between(*rows)
        return _promised(self.guarantee)


Part = Guarantee | Composable | Release
Given = Part | tuple[Part, int]


def loss_of(part: Part) -> PrivacyLoss:
    """The privacy loss of a mechanism's worst two inputs, of a shuffled round, or of a guarantee alone."""
    return _Summand.of(part).loss()


def _promised(guarantee: Guarantee) -> PrivacyLoss:
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if math.isinf(epsilon):
        return PrivacyLoss(1.0, 0, np.array([0.0]), 1.0)
    high = (1 - delta) / (1 + math.exp(-epsilon))
    return _three(epsilon, 1 - delta - high, 0.0, high, delta)


def _three(step: float, low: float, none: float, high: float, infinite: float = 0.0) -> PrivacyLoss:
    """A loss of -step, 0 or step."""
    if step == 0:
        return PrivacyLoss(1.0, 0, np.array([low + none + high]), infinite)
    return PrivacyLoss(step, -1, np.array([low, none, high]), infinite)


def _between(one: Sequence[Fraction], other: Sequence[Fraction]) -> PrivacyLoss:
    """The loss between two rows of a channel, its dots connected on a grid of their own."""
    first, second = np.array([float(each) for each in one]), np.array([float(each) for each in other])
    pairs = zip(one, other, strict=True)
    losses = np.array([math.log(a / b) if a and b else math.inf if a else -math.inf for a, b in pairs])
    finite = losses[np.isfinite(losses)]
    largest = float(np.abs(finite).max())
    step = largest / _CELLS
    start, stop = math.floor(float(finite.min()) / step), math.floor(float(finite.max()) / step) + 1
    # Cell 0 is all below the grid, which no report of the first row is; the last one has what is infinite.
    cell = np.clip(np.floor(losses / step), start - 1, stop).astype(np.int64) - start + 1
    laws = [np.bincount(cell, law, stop - start + 2).astype(np.float64) for law in (first, second)]
    masses = [(law, _ROUNDING * law) for law in laws]
    return PrivacyLoss(step, start, *connected_dots(step, start, *masses), _ROUNDING * (1 + largest))


def compose(parts: Iterable[Given], delta: float = 0.0) -> Guarantee:
    """What several reports of one user promise together.

    A part is a mechanism, a guarantee, a `ShuffledRound`, or a pair (part, times). With a `delta`, the smallest epsilon
    for it is found. Parts of different models, or between different neighbours, are refused.

    >>> from dither import GRR
    >>> print(compose([(GRR(k=4, epsilon=0.125), 80)]))
    epsilon 10 (exact)
    >>> round(compose([(GRR(k=4, epsilon=0.125), 80)], delta=1e-6).epsilon, 3)
    3.752
    """
    counted = _counted(parts)
    delta = checked_delta(delta)
    basic = _basic(counted)
    if delta == 0 or basic.simulated:
        return basic
    goal = delta / (1 + _MARGIN)
    kinds = [(part.loss(), times) for part, times in counted]
    found = _least_epsilon(kinds, goal)
    if not all(_short(loss) for loss, _ in kinds):
        # A noise table is put on a grid, in a window that may be too wide: then the guarantee alone is better.
        found = min(found, _least_epsilon([(_promised(part.guarantee), times) for part, times in counted], goal))
    found *= 1 + 1e-9
    if basic.delta <= delta and basic.epsilon <= found:
        return basic
    if not math.isfinite(found):
        raise ParameterError(
            f"together the parts have a delta of {basic.delta:.3g}, which is more than {delta:g}: ask for a larger one"
        )
    return Guarantee(found, delta, "bound", model=basic.model, neighbours=basic.neighbours)


def parallel(parts: Iterable[Given]) -> Guarantee:
    """What a user promises who answers one of several questions, drawn without looking at the values.

    >>> print(parallel([Guarantee(1.0), Guarantee(0.5, 1e-6)]))
    epsilon 1, delta 1e-6 (exact)
    """
    each = [part.guarantee for part, _ in _counted(parts)]
    model, neighbours = one_kind(each)
    ways = {guarantee.established for guarantee in each}
    return Guarantee(
        max(guarantee.epsilon for guarantee in each),
        max(guarantee.delta for guarantee in each),
        "simulated" if "simulated" in ways else "bound" if "bound" in ways else "exact",
        model=model,
        neighbours=neighbours,
    )


def _counted(parts: Iterable[Given]) -> list[tuple[_Summand, int]]:
    """Each different part, and how often it is there."""
    number: Counter[Hashable] = Counter()
    kept: dict[Hashable, _Summand] = {}
    try:
        listed = list(parts)
    except Exception:  # no list, or one of a type of one's own
        raise ParameterError(_PARTS) from None
    for given in listed:
        pair = given if isinstance(given, tuple) else (given, 1)
        if len(pair) != 2:
            raise ParameterError(_PARTS)
        what, times = pair
        part = _Summand.of(what)
        kept[part.key] = part
        number[part.key] = checked_count("times", number[part.key] + checked_count("times", times, 1), 1, MOST_REPORTS)
    if not kept:
        raise ParameterError("compose at least one report")
    one_kind(part.guarantee for part in kept.values())
    return [(kept[key], times) for key, times in number.items()]


def _basic(counted: Sequence[tuple[_Summand, int]]) -> Guarantee:
    """Epsilons and deltas add up. Without deltas that is attained: the reports that are worst for one input each."""
    each = [(part.guarantee, times) for part, times in counted]
    (first, times), alone = each[0], len(each) == 1
    if alone and times == 1:
        return first
    return summed(each, "exact" if alone and first.established == "exact" and not first.delta else "bound")


def _least_epsilon(kinds: Sequence[tuple[PrivacyLoss, int]], delta: float) -> float:
    """The least epsilon of so many reports of each kind; infinity where a window is too wide, or there is none."""
    if all(_short(loss) for loss, _ in kinds):
        sums = [loss.times(times) for loss, times in kinds]
    else:
        tilt, _ = tilt_for([(loss.losses, loss.mass, times) for loss, times in kinds], delta)
        sums = []
        for loss, times in kinds:
            tilted = loss.times(times).tilted(tilt) if _short(loss) else loss.tilted_times(times, tilt, _WINDOW)
            if tilted is None:
                return math.inf
            sums.append(tilted)
    if len(sums) == 1:
        return sums[0].epsilon(delta)
    width = sum(each.step * (each.mass.size - 1) for each in sums)
    step = 2.0 ** math.ceil(math.log2(width / _GRID)) if width > 0 else 1.0  # multiples of a power of two are exact
    return reduce(PrivacyLoss.__add__, [each.on(step) for each in sums]).epsilon(delta)


def _short(loss: PrivacyLoss) -> bool:
    """Whether its powers are worked out in positive numbers: two levels, and promises; not noise tables."""
    return loss.mass.size <= 3
