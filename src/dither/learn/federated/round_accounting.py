"""The budget of a federation: what a device promises over all rounds, and what that leaves for one.

A device sends one randomized report in each round that it takes part in. Which devices take part in which round is a
public choice, made without looking at any record: a `Rota`. So a device promises the composition of its own reports.

Two sums are kept, and both are true:

- **the ledger's** (`privacy.Ledger`): epsilons and deltas add up. A device sets them aside before its first report, in
  a budget for all that it is ever asked. Simulated devices have `Accounts`, with the same arithmetic, in memory.
- **the certified total** (`together`): what the reports of one device promise together at a given delta, by
  `privacy.compose`, or for Gaussian noise by the Gaussian of all rounds together. It is smaller, often by much.

`per_round` is its inverse: the total in, the budget of one round out.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_delta, checked_epsilon
from dither.core.exact import share_below
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.core.randomness import Stream
from dither.errors import BudgetError, ParameterError
from dither.mechanisms.ballgaussian import Sphere
from dither.mechanisms.noise_tables import MOST_EPSILON
from dither.privacy.accounting.composition import compose
from dither.privacy.accounting.exact_sums import affordable_rounds, basic_composition
from dither.privacy.accounting.gaussian import gaussian_epsilon
from dither.privacy.accounting.subsampling import noise_multiplier
from dither.privacy.shuffle import LocalRandomizer
from dither.privacy.shuffled_rounds import ShuffledRound

_CLOSE = 1e-6  # how near the largest budget of a round is to what would still fit, relatively
_NEAR = Fraction(15, 2)  # standard deviations; noise beyond counts as a failure
_MOST_SHIFT = 1e-3  # what rounding the Gaussian may add to epsilon
_GAINED = 0.999  # of what devices promise themselves: a crowd that leaves more than that adds nothing
_LARGEST = 64.0  # epsilons of a report beyond are as good as none


def together(part: Any, times: int, delta: float = 0.0) -> Guarantee:
    """What `times` reports of one device promise together at this delta; `part` is a mechanism or a guarantee.

    >>> print(together(Guarantee(0.125), 80))
    epsilon 10 (exact)
    >>> round(together(Guarantee(0.125), 80, delta=1e-6).epsilon, 2)
    5.4
    """
    gaussian = gaussian_total(part, times, delta) if delta and times > 1 else None
    try:
        composed = compose([(part, times)], delta)
    except ParameterError:  # the deltas of the reports add up to more
        if gaussian is None:
            raise
        return gaussian
    return composed if gaussian is None or composed.epsilon <= gaussian.epsilon else gaussian


def gaussian_total(part: Any, times: int, delta: float) -> Guarantee | None:
    """The same for reports with Gaussian noise on integers, as one Gaussian; None for others, or where it is no bound.

    The table of the noise is not the Gaussian, and a total epsilon of a hundred forgives no absolute difference: delta
    would grow by e^epsilon times it. So relative ones are counted. Let b be 7.5 standard deviations, t the chance of a
    draw beyond, and u = 2^-bits; an entry of the table is off by 2 u at most. Two inputs are 2 K apart, so where one
    explains a report by noise within b, the other does within b + 2 K, and there the table and the Gaussian differ
    by a factor 1 + eta at most, eta = 2 u / P(b + 2 K). With n draws in all, (epsilon, delta) of the Gaussian becomes

        epsilon + n ln((1 + eta) / (1 - eta)),    (1 + eta)^n delta + n t.
    """
    law = part.channel() if isinstance(part, Mechanism) else None
    if not isinstance(law, Sphere):
        return None
    table, draws = law.table, times * law.d
    near = math.floor(_NEAR * law.scale)
    far = near + 2 * law.radius
    unit = Fraction(2, 1 << table.bits)
    least = table.probability(far) - unit if far < table.reach else Fraction(0)
    if least <= 0:
        return None
    eta = float(unit / least) * (1 + 1e-9)
    beyond = draws * (math.erfc((near + 0.5) / float(law.scale) / math.sqrt(2)) + float(table.deviation)) * (1 + 1e-9)
    left = (delta - beyond) * math.exp(-draws * eta)
    if draws * eta > _MOST_SHIFT or left < delta / 2:
        return None
    multiplier = math.nextafter(float(law.scale / (2 * law.radius)), 0.0)
    epsilon = gaussian_epsilon(multiplier / math.sqrt(times), left)
    return Guarantee(epsilon + 2 * draws * eta * (1 + eta), delta, "bound")


def per_round(epsilon: float, delta: float, times: int, noise: str = "pure") -> tuple[float, float]:
    """The largest (epsilon, delta) of one report of which `times` together keep the total.

    `noise` is "pure" for a mechanism that needs no delta of its own, "gaussian" for one whose reports are Gaussian, and
    "delta" for any other that needs one: half of the delta is for the reports, half for putting them together.

    >>> per_round(15.0, 0.0, 10)
    (1.5, 0.0)
    >>> [round(number, 3) for number in per_round(5.4, 1e-6, 80)]
    [0.125, 0.0]
    """
    epsilon, delta, times = checked_epsilon(epsilon), checked_delta(delta), checked_count("rounds", times, 1)
    if noise == "pure":
        own = 0.0
    elif delta == 0:
        raise ParameterError("this mechanism needs a delta above 0, for example delta=1e-5")
    elif times == 1:
        return epsilon, delta
    else:
        own = share_below(delta, 2 * times)
    low = share_below(epsilon, times)
    if delta == 0 or times == 1:
        return low, own
    if noise == "gaussian":
        multiplier = noise_multiplier(epsilon, delta * (1 - 1e-3), 1.0, times)
        return min(gaussian_epsilon(multiplier * (1 + 1e-6), own), MOST_EPSILON), own
    high = min(epsilon, max(_LARGEST, low))
    while high - low > _CLOSE * low:
        middle = (low + high) / 2
        fits = compose([(Guarantee(middle, own, "bound"), times)], delta).epsilon <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low, own


def shuffled_total(part: Any, n: int, times: int, delta: float) -> Guarantee:
    """What `times` rounds of n shuffled reports promise, to whoever sees them in no order.

    Where the crowd is too small to hide in, it is the devices' own promise, which always holds: its model is then
    `local`, and no shuffler is trusted.
    """
    if not delta:
        raise ParameterError("a shuffled crowd hides with a delta: say delta=1e-6 or so")
    alone = together(part, times, delta)
    local = LocalRandomizer.of(part)
    if n < 2 or not math.isfinite(local.ratio):
        return alone
    if local.local.simulated:
        return local.local
    crowd = compose([(ShuffledRound(part, n), times)], delta)
    return crowd if crowd.epsilon < _GAINED * alone.epsilon else alone


class Accounts:
    """What simulated devices have set aside and spent, by the arithmetic of `privacy.Ledger`, in memory.

    >>> accounts = Accounts(3, epsilon=4.0)
    >>> print(accounts.reserve(Guarantee(1.5), periods=2))
    epsilon 3 (bound)
    >>> accounts.charge([0, 2])
    >>> print(accounts.spent(0), "|", accounts.spent(1))
    epsilon 1.5 (exact) | epsilon 0 (exact)
    """

    def __init__(self, devices: int, epsilon: float, delta: float = 0.0) -> None:
        self.budget = Guarantee(checked_epsilon(epsilon), checked_delta(delta), "bound")
        self.paid: NDArray[np.int64] = np.zeros(checked_count("devices", devices, 1), dtype=np.int64)
        self.price: Guarantee | None = None
        self.periods = 0

    def reserve(self, price: Guarantee, *, periods: int) -> Guarantee:
        """Set aside, on every device, what so many rounds cost; refused if it does not fit."""
        periods = checked_count("periods", periods, 1)
        if self.price is not None:
            raise ParameterError("these accounts are reserved already, and what was promised is not changed")
        fits = affordable_rounds(self.budget, price)
        if periods > fits:
            raise BudgetError(
                f"{periods} rounds of {price} do not fit: each device promises {self.budget}, which is enough for "
                f"{fits}. Ask for fewer rounds or participants, or for less in each round"
            )
        self.price, self.periods = price, periods
        return basic_composition(price, periods)

    def charge(self, who: Sequence[int] | NDArray[np.int64]) -> None:
        """One round on these devices; refused for all of them if one has nothing left."""
        chosen = np.asarray(who, dtype=np.int64)
        if self.price is None:
            raise ParameterError("nothing is reserved yet: accounts.reserve(guarantee, periods=rounds)")
        if len(chosen) and int(self.paid[chosen].max()) >= self.periods:
            raise BudgetError(
                f"the budget is spent: a device has reported in the {self.periods} rounds that it promised, "
                f"{basic_composition(self.price, self.periods)}. Stop here and use the model; what was spent is not "
                "given back, and a new federation needs a new budget"
            )
        self.paid[chosen] += 1

    def spent(self, device: int) -> Guarantee:
        """What one device has paid for."""
        times = int(self.paid[device])
        return basic_composition(self.price, times) if self.price is not None and times else Guarantee(0.0)


class Rota:
    """Who takes part in which round: a public order of the devices, walked through in a circle.

    >>> rota = Rota(devices=10, participants=4, rounds=5, stream=Stream.seeded(1))
    >>> rota.most, sorted(np.bincount(np.concatenate([rota.round(turn) for turn in range(5)])).tolist())
    (2, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2])
    """

    def __init__(self, devices: int, participants: int | None, rounds: int, stream: Stream) -> None:
        self.devices = checked_count("devices", devices, 1)
        if participants is not None and participants > devices:
            raise ParameterError(f"there are {devices} devices: participants must be at most that many")
        self.participants = devices if participants is None else checked_count("participants", participants, 1)
        self.most = most_rounds(self.devices, self.participants, rounds)
        self._order = stream.order(devices) if self.participants < devices else np.arange(devices)

    def round(self, turn: int) -> NDArray[np.int64]:
        """The devices of a round, counted from 0, in ascending order."""
        first = turn * self.participants
        return np.sort(self._order[np.arange(first, first + self.participants) % self.devices])


def most_rounds(devices: int, participants: int | None, rounds: int) -> int:
    """In how many rounds a device takes part at most."""
    return rounds if participants is None else math.ceil(rounds * min(participants, devices) / devices)
