"""What a shuffler adds: the guarantee of a crowd whose reports are shown in no order.

A shuffler takes who sent what off the reports. Whoever sees the result learns less about any one user than from the
user's own report, which hides among the others'. `amplify` says how much less, for the whole collection, whatever the
users' values are.

The bounds, in the order in which they became known:

- `erlingsson` (Erlingsson et al. 2019): epsilon = 12 epsilon0 sqrt(ln(1/delta) / n), for epsilon0 <= 1/2, n >= 1000 and
  delta < 1/100.
- `clone` (Feldman, McMillan and Talwar 2021), evaluated to the end.
- `blanket` (after Balle et al. 2019): any randomizer hides at least as well as binary randomized response with the same
  epsilon0 does by its blanket. This is proved in docs/decisions/0014, and 10 to 32% of epsilon below `clone`. (To put
  e^-epsilon0 for the mass of an unknown blanket into the bound of 2019 is refuted by binary response itself.)
- `own`: the mechanism's own blanket, from its exact channel (`privacy.shuffle_divergence`). Collision, LocalHash, GRR,
  Unary and others hide better than the worst randomizer with their epsilon.

Results in print that exact enumeration refutes are not among them (003 Theorem 5, and the "stronger clone" as it is
quoted there; docs/papers.md): `tests/privacy/test_enumeration.py` shows it.

**Devices with memory** (`mechanisms.longitudinal`) draw a permanent response once, and every round sends it randomized
again. What `amplify` states of them is about one round, where a report has a law of its own. For any number of rounds
`guarantee.all_rounds` holds: what the *permanent* responses would promise if they themselves were shuffled and shown.
Proof: let n users take part in the same rounds, with a value that does not change. Given their permanent responses P_1,
..., P_n, all reports of all rounds are made by one and the same rule from each P_i, with coins of their own. So the law
of what the shuffler shows, in each round a multiset, does not change if the P_i are permuted: it is a random function
of their multiset. Nobody learns more from a function than from what it is computed from. This holds if rounds can be
linked to each other, too (a hash function of one's own comes back in every round), as long as none is linked to a
person. Without a shuffler the same argument gives the lifetime guarantee, which is what `all_rounds` falls back to.
Guarantees of single rounds do not add up: rounds that share P_i are not drawn independently.
(`tests/privacy/test_shuffle.py` enumerates it.)

n is the number of users who apply the same whole randomizer: public tags, such as the drawn attribute, are part of it.
Where a bound does not apply, or gains nothing, the guarantee is the local one, which holds for the crowd, too, and
needs no trust in a shuffler: it says so by its model, `local`. All others have the model `shuffled`.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from dither.core.channel import Channel, Contrast
from dither.core.checks import checked_choice, checked_count, checked_epsilon, checked_list, checked_real
from dither.core.exact import exp_above, float_above
from dither.core.guarantee import Guarantee, OneRound
from dither.errors import DitherWarning, ParameterError
from dither.privacy.accounting.privacy_loss import along_the_logarithm, least_epsilon
from dither.privacy.certificate import Certifiable
from dither.privacy.shuffle_divergence import BlanketPair

BOUNDS = ("erlingsson", "clone", "blanket", "own")
MOST_USERS = 10**12
_LEAST_DELTA = 1e-15
_CLOSE = 1e-6  # how near the smallest epsilon the stated one is, relatively
_NOTHING = 0.999  # of the local epsilon: whoever keeps that much has gained nothing
_NAMES = 'names is a list of bounds, as in ["blanket", "own"]'
_LARGEST = 20.0  # local epsilons beyond are not amplified


class LocalRandomizer(NamedTuple):
    """What a bound knows of a local randomizer: its guarantee, its likelihood ratio, and perhaps more.

    `permanent` is the response that a device with memory keeps, and makes all its reports from.
    """

    local: Guarantee
    ratio: float
    contrast: Contrast | None = None
    permanent: "LocalRandomizer | None" = None

    def at(self, delta: float) -> Guarantee:
        """The local guarantee, which holds for the crowd too; the pure one, if its delta is more than what is asked."""
        if self.local.delta <= delta:
            return self.local
        return Guarantee(math.nextafter(math.log(self.ratio), math.inf) if math.isfinite(self.ratio) else math.inf)

    @classmethod
    def of(cls, given: Certifiable | float) -> "LocalRandomizer":
        """An epsilon, or a mechanism with the channel of one report."""
        if not isinstance(given, Certifiable):
            epsilon = checked_epsilon(given)
            return cls(Guarantee(epsilon), math.inf if epsilon > _LARGEST else exp_above(epsilon))
        report = cls._through(given.channel(), given)
        return report._replace(permanent=cls._through(given.lifetime_channel(), given)) if given.remembers else report

    @classmethod
    def _through(cls, channel: Channel, given: Certifiable) -> "LocalRandomizer":
        """A mechanism of which this channel is seen."""
        if channel.announced:
            raise ParameterError(
                "users of different groups do not hide each other: amplify the mechanism of each group on its own, "
                "with the number of its users"
            )
        ratio = channel.ratio()
        largest = math.inf if ratio == math.inf else float_above(Fraction(ratio))
        return cls(Guarantee.of(channel, given.epsilon, given.delta), largest, channel.contrast())


def amplify(given: Certifiable | float, n: int, delta: float, bound: str = "best") -> Guarantee:
    """What n shuffled reports promise at this delta; `given` is a mechanism, or the epsilon of any.

    It is a guarantee of the model `shuffled`; the local one, where a crowd adds nothing. For a mechanism with memory it
    is about one round (`OneRound`), and its `all_rounds` about any number of rounds of the same n users.

    >>> found = amplify(1.0, n=10**6, delta=1e-6)
    >>> round(found.epsilon, 5), found.delta, found.established, found.model
    (0.00351, 1e-06, 'bound', 'shuffled')
    >>> round(amplify(1.0, n=10**6, delta=1e-6, bound="clone").epsilon, 5)
    0.00433
    """
    found = bounds(given, n, delta, _names(bound))
    kept = [guarantee for guarantee in found.values() if guarantee is not None]
    if kept:
        return min(kept, key=lambda guarantee: guarantee.epsilon)
    randomizer = LocalRandomizer.of(given)
    warnings.warn(
        f"{_reason(bound, randomizer, n, delta)}; the guarantee is the local one", DitherWarning, stacklevel=2
    )
    return _of_a_round(randomizer, n, delta)(randomizer.at(delta))


def bounds(
    given: Certifiable | float, n: int, delta: float, names: Sequence[str] = BOUNDS
) -> dict[str, Guarantee | None]:
    """What each bound says; None for one that does not apply, or that gains nothing over the local guarantee.

    For a mechanism with memory each is about one round, as in `amplify`.
    """
    randomizer = LocalRandomizer.of(given)
    n, delta = checked_count("n", n, 2, MOST_USERS), _checked_delta(delta)
    asked = [checked_choice("bound", name, BOUNDS) for name in checked_list(_NAMES, names, 1, len(BOUNDS))]
    found = {name: _bounded(name, randomizer, n, delta) for name in asked}
    labelled = _of_a_round(randomizer, n, delta)
    return {name: None if each is None else labelled(each) for name, each in found.items()}


def _of_a_round(randomizer: LocalRandomizer, n: int, delta: float) -> Callable[[Guarantee], Guarantee]:
    """What says of a guarantee that it is about one round, where a device has memory; and what holds for all."""
    kept = randomizer.permanent
    if kept is None:
        return lambda one: one
    shuffled = (_bounded(name, kept, n, delta) for name in BOUNDS)
    ever = min((each for each in shuffled if each is not None), key=lambda each: each.epsilon, default=kept.at(delta))
    return lambda one: OneRound.within(one, ever)


def local_budget(
    central: float,
    n: int,
    delta: float,
    bound: str = "best",
    mechanism: Callable[[float], Certifiable | float] | None = None,
) -> float:
    """The largest local epsilon with which n shuffled reports keep (central, delta).

    For a mechanism, `mechanism(epsilon)` makes it; else for any.

    >>> round(local_budget(0.1, n=10**6, delta=1e-6), 3)
    5.944
    """
    central = checked_epsilon(central)
    given: Callable[[float], Certifiable | float] = mechanism or (lambda epsilon: epsilon)

    def keeps(epsilon: float) -> bool:
        return _quiet(given(epsilon), n, delta, bound).epsilon <= central

    low, high = central, _LARGEST
    if keeps(high):
        return high
    if not keeps(low):
        raise ParameterError("the mechanism has a delta of its own, which is larger: give it a smaller one")
    while high - low > 1e-6 * low:  # the local guarantee alone keeps `central`
        middle = math.sqrt(low * high)
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def users_for(given: Certifiable | float, central: float, delta: float, bound: str = "best") -> int:
    """The smallest number of users whose shuffled reports keep (central, delta).

    >>> users_for(1.0, central=0.05, delta=1e-6)
    7623
    """
    central = checked_epsilon(central)
    low, high = 1, 2
    if LocalRandomizer.of(given).at(_checked_delta(delta)).epsilon <= central:
        return high
    while _quiet(given, high, delta, bound).epsilon > central:
        low, high = high, 2 * high
        if high > MOST_USERS:
            raise ParameterError("no crowd is large enough: ask for a larger central epsilon or a smaller local one")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _quiet(given, middle, delta, bound).epsilon <= central else (middle, high)
    return high


def _quiet(given: Certifiable | float, n: int, delta: float, bound: str) -> Guarantee:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DitherWarning)
        return amplify(given, n, delta, bound)


# One bound -----------------------------------------------------------------------------------------------------------


def _bounded(name: str, randomizer: LocalRandomizer, n: int, delta: float) -> Guarantee | None:
    if name == "erlingsson":
        found = _erlingsson(randomizer, n, delta)
    else:
        curve = _curve(name, randomizer, n)
        found = None if curve is None else _smallest(curve, delta, math.log(randomizer.ratio))
    if found is None or found >= randomizer.at(delta).epsilon:
        return None
    return Guarantee(found, delta, "bound", model="shuffled")


def _curve(name: str, randomizer: LocalRandomizer, n: int) -> Callable[[float], float] | None:
    """The delta of a bound as a function of epsilon."""
    if not math.isfinite(randomizer.ratio) or randomizer.ratio > math.exp(_LARGEST):
        return None
    if name == "own":
        if randomizer.contrast is None:
            return None
        pair = BlanketPair.of(randomizer.contrast)
    else:
        pair = BlanketPair.clone(randomizer.ratio) if name == "clone" else BlanketPair.binary(randomizer.ratio)
    return lambda epsilon: pair.delta(epsilon, n)


def _erlingsson(randomizer: LocalRandomizer, n: int, delta: float) -> float | None:
    epsilon = math.log(randomizer.ratio) if math.isfinite(randomizer.ratio) else math.inf
    if epsilon > 0.5 or n < 1000 or delta >= 0.01:
        return None
    return 12 * epsilon * math.sqrt(math.log(1 / delta) / n) * (1 + 1e-12)


def _smallest(curve: Callable[[float], float], delta: float, largest: float) -> float | None:
    """An epsilon at which the curve is at most delta, within a millionth of the smallest; it falls."""
    if curve(_NOTHING * largest) > delta:
        return None
    return least_epsilon(curve, delta, largest, _CLOSE, along_the_logarithm) * (1 + 1e-12)


# Words ---------------------------------------------------------------------------------------------------------------


def _names(bound: str) -> tuple[str, ...]:
    if checked_choice("bound", bound, ("best", *BOUNDS)) == "best":
        return BOUNDS
    return (bound,)


def _checked_delta(delta: float) -> float:
    number = checked_real("delta", delta)
    if not 0 < number < 1:
        raise ParameterError("delta must lie between 0 and 1, for example 1e-6: shuffling alone keeps no delta of 0")
    if number < _LEAST_DELTA:
        raise ParameterError(f"delta must be at least {_LEAST_DELTA:g}: floating point does not resolve smaller ones")
    return number


def _reason(bound: str, randomizer: LocalRandomizer, n: int, delta: float) -> str:
    if not math.isfinite(randomizer.ratio) or randomizer.ratio > math.exp(_LARGEST):
        return f"the local epsilon is infinite or above {_LARGEST:g}, where no bound is evaluated"
    if bound == "erlingsson":
        return "this bound holds for a local epsilon of at most 1/2, at least 1000 users and a delta below 1/100"
    if bound == "own" and randomizer.contrast is None:
        return "the blanket of this mechanism was not worked out; bound='blanket' holds for any"
    return f"{n:,} users are too few to hide one of them at delta {delta:g}"
