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
- `own`: the mechanism's own blanket, from its exact channel (`core.blanket_law`, `privacy.shuffle_divergence`): noise
  tables, records of several reports, drawn attributes and whole plans, too. They hide better than the worst randomizer
  with their epsilon. With two outputs it is the worst case over all data sets itself.

**How tight.** `bounds(...).lower` is the epsilon that is left on the worst data set known: no bound is below it. All
others have one input there (of hashed mechanisms: under one hash function, which keeps the inputs apart). For an
epsilon alone it is that of binary randomized response.

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
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

from dither.core.blanket_law import BlanketLaw
from dither.core.channel import Channel
from dither.core.checks import checked_choice, checked_count, checked_epsilon, checked_list
from dither.core.crowd import MOST_USERS, checked_crowd_delta
from dither.core.exact import exp_above, float_above
from dither.core.guarantee import Guarantee, OneRound
from dither.errors import DitherWarning, ParameterError
from dither.privacy.accounting.privacy_loss import along_the_logarithm, least_epsilon
from dither.privacy.certificate import Certifiable
from dither.privacy.shuffle_divergence import (
    MOST_EVALUATED,
    binary_law,
    clone_delta,
    delta_above,
    delta_below,
    two_output_delta,
)

BOUNDS = ("erlingsson", "clone", "blanket", "own")
_CLOSE = 1e-8  # how near the smallest epsilon the stated one is, relatively
_NOTHING = 0.999  # of the local epsilon: whoever keeps that much has gained nothing
_NAMES = 'names is a list of bounds, as in ["blanket", "own"]'
_LARGEST = 20.0  # local epsilons beyond are not amplified


class LocalRandomizer(NamedTuple):
    """What a bound knows of a local randomizer: its guarantee, its likelihood ratio, and perhaps more.

    `law` is its own blanket, and `crowds` finds data sets on which it hides badly. `permanent` is the response that a
    device with memory keeps, and makes all its reports from.
    """

    local: Guarantee
    ratio: float
    law: BlanketLaw | None = None
    two_outputs: bool = False
    crowds: Callable[[], Sequence[BlanketLaw]] = tuple
    permanent: "LocalRandomizer | None" = None

    def at(self, delta: float) -> Guarantee:
        """The local guarantee, which holds for the crowd too; the pure one, if its delta is more than what is asked."""
        if self.local.delta <= delta:
            return self.local
        return Guarantee(math.nextafter(math.log(self.ratio), math.inf) if math.isfinite(self.ratio) else math.inf)

    def delta(self, epsilon: float, n: int) -> float:
        """What n shuffled reports keep at this epsilon: by its own blanket, or by that of any with its epsilon."""
        curve = _curve("own", self, n) or _curve("blanket", self, n)
        shuffled = 1.0 if curve is None else curve(epsilon)
        return min(shuffled, self.local.delta) if self.local.epsilon <= epsilon else shuffled

    @classmethod
    def of(cls, given: Certifiable | float) -> "LocalRandomizer":
        """An epsilon, or a mechanism with the channel of one report."""
        if not isinstance(given, Certifiable):
            epsilon = checked_epsilon(given)
            return cls._of_any(epsilon)
        report = cls._through(given.channel(), given)
        return report._replace(permanent=cls._through(given.lifetime_channel(), given)) if given.remembers else report

    @classmethod
    def _of_any(cls, epsilon: float) -> "LocalRandomizer":
        """Any with this epsilon; binary randomized response is one."""
        if epsilon > _LARGEST:
            return cls(Guarantee(epsilon), math.inf)
        ratio = exp_above(epsilon)
        high, low = Fraction(ratio) / (1 + Fraction(ratio)), 1 / (1 + Fraction(ratio))
        crowds = [BlanketLaw.between([high, low], [low, high], others) for others in ([high, low], [low, high])]
        return cls(Guarantee(epsilon), ratio, crowds=lambda: crowds)

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
        law = channel.blanket_law() if math.isfinite(largest) else None
        return cls(
            Guarantee.of(channel, given.epsilon, given.delta),
            largest,
            None if law is None else law.reduced(MOST_EVALUATED),
            channel.two_level is not None and channel.shape[1] == 2,
            channel.crowds,
        )


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


class ShuffleBounds(dict[str, Guarantee | None]):
    """What each bound says, by name; and `lower`, the epsilon that some data set really has.

    >>> found = bounds(1.0, n=10**5, delta=1e-6)
    >>> round(found["blanket"].epsilon, 5), round(found.lower, 5)
    (0.01243, 0.01014)
    """

    def __init__(
        self, stated: Mapping[str, Guarantee | None], randomizer: LocalRandomizer, n: int, delta: float
    ) -> None:
        super().__init__(stated)
        self._asked = randomizer, n, delta

    @cached_property
    def lower(self) -> float | None:
        """No epsilon below is true at this delta; None where no data set is known. Worked out when it is asked for."""
        stated = (each.epsilon for each in self.values() if each is not None)
        return _lower(*self._asked, min(stated, default=1.0))


def bounds(given: Certifiable | float, n: int, delta: float, names: Sequence[str] = BOUNDS) -> ShuffleBounds:
    """What each bound says; None for one that does not apply, or that gains nothing over the local guarantee.

    For a mechanism with memory each is about one round, as in `amplify`.
    """
    randomizer = LocalRandomizer.of(given)
    n, delta = checked_count("n", n, 2, MOST_USERS), checked_crowd_delta(delta)
    asked = [checked_choice("bound", name, BOUNDS) for name in checked_list(_NAMES, names, 1, len(BOUNDS))]
    labelled = _of_a_round(randomizer, n, delta)
    found = {name: _bounded(name, randomizer, n, delta) for name in asked}
    stated = {name: None if each is None else labelled(each) for name, each in found.items()}
    return ShuffleBounds(stated, randomizer, n, delta)


def shuffled_delta(given: Certifiable | float, epsilon: float, n: int) -> float:
    """An upper bound of the delta that n shuffled reports keep at this central epsilon, by the best bound.

    What does not depend on epsilon and n is worked out once for a mechanism or a plan: further calls take milliseconds.

    >>> f"{shuffled_delta(1.0, epsilon=0.05, n=10_000):.3e}"
    '1.068e-07'
    """
    epsilon, n = checked_epsilon(epsilon), checked_count("n", n, 2, MOST_USERS)
    return _kept(given).delta(epsilon, n)


@lru_cache(maxsize=64)
def _kept(given: Certifiable | float) -> LocalRandomizer:
    return LocalRandomizer.of(given)


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
    central, n, delta = checked_epsilon(central), checked_count("n", n, 2, MOST_USERS), checked_crowd_delta(delta)
    given: Callable[[float], Certifiable | float] = mechanism or (lambda epsilon: epsilon)

    def keeps(epsilon: float) -> bool:
        return _keeps(LocalRandomizer.of(given(epsilon)), central, n, delta, _names(bound))

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
    central, delta, names = checked_epsilon(central), checked_crowd_delta(delta), _names(bound)
    randomizer = LocalRandomizer.of(given)
    low, high = 1, 2
    while not _keeps(randomizer, central, high, delta, names):
        low, high = high, 2 * high
        if high > MOST_USERS:
            raise ParameterError("no crowd is large enough: ask for a larger central epsilon or a smaller local one")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _keeps(randomizer, central, middle, delta, names) else (middle, high)
    return high


def _keeps(randomizer: LocalRandomizer, central: float, n: int, delta: float, names: Sequence[str]) -> bool:
    """Whether `amplify` states at most this central epsilon by one of these bounds, or the local guarantee does."""
    if randomizer.at(delta).epsilon <= central:
        return True
    for name in reversed(names):
        curve = None if name == "erlingsson" else _curve(name, randomizer, n)
        if curve is None or curve(central) <= delta < curve(central * (1 - 2 * _CLOSE)):  # too near to be told at once
            stated = _bounded(name, randomizer, n, delta)
            if stated is not None and stated.epsilon <= central:
                return True
        elif curve(central) <= delta:
            return True
    return False


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
    ratio, law = randomizer.ratio, randomizer.law
    if name == "own":
        if randomizer.two_outputs and ratio <= math.exp(_LARGEST):
            return lambda epsilon: two_output_delta(ratio, epsilon, n)
        return None if law is None else lambda epsilon: delta_above(law, epsilon, n)
    if ratio > math.exp(_LARGEST):
        return None
    if name == "clone":
        return lambda epsilon: clone_delta(ratio, epsilon, n)
    return lambda epsilon: delta_above(binary_law(ratio), epsilon, n)


def _lower(randomizer: LocalRandomizer, n: int, delta: float, near: float) -> float | None:
    """The largest epsilon at which the crowd that is worst near some epsilon has more than this delta."""
    crowds = [] if randomizer.ratio > math.exp(_LARGEST) else randomizer.crowds()
    if not crowds:
        return None
    crowd = max(crowds, key=lambda each: delta_below(each, 0.9 * near, n))
    largest = math.log(randomizer.ratio)
    enough = least_epsilon(lambda at: delta_below(crowd, at, n), delta, largest, _CLOSE, along_the_logarithm)
    return max(0.0, enough * (1 - 2 * _CLOSE))


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


def _reason(bound: str, randomizer: LocalRandomizer, n: int, delta: float) -> str:
    if randomizer.ratio > math.exp(_LARGEST):
        return f"the local epsilon is infinite or above {_LARGEST:g}, where no bound is evaluated"
    if bound == "erlingsson":
        return "this bound holds for a local epsilon of at most 1/2, at least 1000 users and a delta below 1/100"
    if bound == "own" and randomizer.law is None:
        return "the blanket of this mechanism was not worked out; bound='blanket' holds for any"
    return f"{n:,} users are too few to hide one of them at delta {delta:g}"
