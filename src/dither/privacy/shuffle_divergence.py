"""How well a crowd hides one of its members: the divergence of shuffled reports, from what two inputs look like.

**The blanket** (Balle, Bell, Gascon and Nissim 2019). n users apply the same randomizer, and a shuffler shows the
multiset of their reports. One user has x or x', with report laws P and P'. Let beta be a measure that lies under the
law of *every* input. Each of the others reports, with the probability of beta's mass, something that was drawn from
beta whatever the input: noise to hide in. Given which reports are such noise and which are not, the multiset of the
noise and the one report is a mixture over which of them is which, and it follows that

    D_r(shuffled with x, shuffled with x')  <=  (1/n) E[ (H_1 + ... + H_n)_+ ],     H = (P(y) - r P'(y)) / beta(y),

with independent H_i: y is drawn from beta, and H = 0 with the probability that beta leaves over. D_r is the
hockey-stick divergence: the delta at epsilon = ln r. `core.blanket_law` has the law of (P/beta, P'/beta) for the worst
two inputs.

**From below** it is the same expression. If all the others have the same input z, with law Q, then the likelihood of a
multiset is that of n draws from Q times the mean of P/Q, and the divergence *is* (1/n) E[(H_1 + ... + H_n)_+] with Q in
place of beta (`delta_below`). The best z and pair that are known say how far a bound is from the truth.

**Any randomizer** is dominated by binary randomized response, mass 1/(E + 1) at (E, 1) and at (1, E), with E =
e^epsilon0: docs/decisions/0014 has the proof. The clone bound (Feldman, McMillan and Talwar 2021) has the same form
with 1/E in place of 2/(E + 1) as the probability to be noise.

**Evaluation**: an integral along a line in the complex plane, with no grid of H and no cost that grows with n. With S
the sum, M(z) = E e^(zH) and t > 0,

    E[S_+] = (1 / 2 pi) * integral of M(t + i w)^n / (t + i w)^2 over all real w.

Every step goes up, in exact arithmetic:

- A normal variable with mean 0 and deviation tau is added to S. That makes E[S_+] larger (Jensen), and multiplies the
  integrand by e^(tau^2 z^2 / 2): beyond w = 9 / tau there is nothing left. A tau of 0.07 to 2% of the deviation of S
  moves epsilon by 3e-7 to 2e-4 of itself.
- The integral becomes a sum over multiples of a step. By Poisson's summation formula the sum is f(0) + the sum of
  f(kL) over all other k, for L = 2 pi / step and f(x) = e^(tx) E[(S - x)_+] >= 0: too much, never too little.
- Where |w| is above 15 deviations' worth and below pi over the range of H, 1 - cos(a) >= 2 a^2 / pi^2 shows that
  |M|^n is below e^-45 of its largest value. These points are not visited; a bound of them is added.

t is where M is least, so that S, tilted, has its mean at 0: the sum is as large as its terms, and tails far below
1e-15 are resolved. Rounding errors are n times those of ln M, which is computed as ln(1 + small). Where terms count,
the small one is about 5 / sqrt(n), so that these are some sqrt(n) units of the last place: 1e-8 of the sum of the
terms' moduli covers them up to 10^12 users.

**Rare reports** with a huge likelihood ratio (noise tables) would make the deviation large. As (a + b)_+ <= a_+ + b_+,
atoms may be left out for their probability under P: the best of a few cuts is taken.

**Two outputs.** Where all laws are on two outputs, the count of one of them is all there is, and blankets are 20 to 30%
above the truth. The divergence is convex in the law of each of the others, so that each is at one of two ends, with
probability p = E/(E + 1) or q = 1/(E + 1): k of them at p and l = n - 1 - k at q. Both directions are the same with k
and l exchanged. More users only hide better, so that k in a block from k0 to k1 counts as k0 at p and n - 1 - k1 at q:
`two_output_delta` is the largest over 128 blocks, or all k where there are no more. With f the law of the count of
others, (p - r q) f(y - 1) - (r p - q) f(y) is summed over where it is positive: above the mode of f(y) e^(ty) with
e^t = (r p - q) / (p - r q), since f is log-concave. The mode of such a sum is less than 1 from its mean (Darroch 1964).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dither.core.blanket_law import BlanketLaw

MOST_EVALUATED = 576  # atoms: a delta takes some milliseconds
_MARGIN, _PHASES = 1e-8, 1e-7  # of the moduli of terms; of those with phases of sqrt(n) turns, for two outputs
_FINE, _COARSE, _FEW = 0.0007, 0.02, 16  # tau in deviations of the sum, for laws of a few atoms and for others
_ENOUGH = 25.0  # f(L) is about e^-25 of f(0)
_NEAR, _END = 15.0, 9.0  # see the essay
_MOST_POINTS = 40_000
_DEEPEST = 200.0  # logarithms of what is integrated; Chernoff's bound does beyond
_STEEPEST = 30.0  # tilt times the largest gain, where the saddle point does not say it
_RARE = (1e-16, 1e-13, 1e-10, 1e-7)  # probabilities of what may be left out
_LONG = 100.0  # likelihood ratios that may be worth leaving out
_BLOCKS = 128

Numbers = NDArray[np.float64]


def binary_law(ratio: float) -> BlanketLaw:
    """Binary randomized response, which hides worst among all randomizers with this likelihood ratio."""
    ends = np.array([ratio, 1.0])
    return BlanketLaw(np.full(2, 1 / (ratio + 1)), ends, ends[::-1])


def clone_delta(ratio: float, epsilon: float, n: int) -> float:
    """The clones of 2021: 1/E is the probability to be one, and the report itself is a binary response."""
    ends = np.array([ratio, 1.0])
    clones = BlanketLaw(np.full(2, 1 / (2 * ratio)), ends, ends[::-1])
    return min(1.0, 2 * ratio / (ratio + 1) * delta_above(clones, epsilon, n))


def delta_above(law: BlanketLaw, epsilon: float, n: int) -> float:
    """The delta that n shuffled reports keep at this epsilon: an upper bound."""
    gains = _gains(law, epsilon)
    return min(1.0, min(lost + _Line.through(law.mass[kept], gains[kept], n).above() / n for kept, lost in _cuts(law)))


def delta_below(law: BlanketLaw, epsilon: float, n: int) -> float:
    """The delta of n shuffled reports if all the others have the law that takes the blanket's place: a lower bound."""
    gains = _gains(law, epsilon)
    # What is left out where P is high makes the sum smaller.
    return max(0.0, max(_Line.through(law.mass[kept], gains[kept], n).below() / n for kept, _ in _cuts(law)))


def _gains(law: BlanketLaw, epsilon: float) -> Numbers:
    """H = u - r v, without cancellation."""
    return (law.first - law.second) - math.expm1(epsilon) * law.second


def _cuts(law: BlanketLaw) -> Iterator[tuple[slice | NDArray[np.bool_], float]]:
    """All atoms; and, if some likelihood ratios are long, those without the rarest, with what these cost."""
    yield slice(None), 0.0
    if law.first.max() > _LONG and law.mass.size > _FEW:
        chances = law.mass * law.first
        order = np.argsort(-law.first)
        beyond = np.cumsum(chances[order])
        for rare in _RARE:
            number = int(np.searchsorted(beyond, rare, "right"))
            if number:
                kept = np.ones(law.mass.size, dtype=bool)
                kept[order[:number]] = False
                yield kept, float(beyond[number - 1]) * (1 + _MARGIN)


@dataclass(frozen=True)
class _Line:
    """The sum of n gains, and the line in the complex plane along which its positive part is integrated."""

    mass: Numbers
    gains: Numbers
    n: int
    tilt: float = 0.0
    deviation: float = 0.0  # of the tilted sum

    @classmethod
    def through(cls, mass: Numbers, gains: Numbers, n: int) -> "_Line":
        """Through the saddle point; not nearer to 0 than a deviation's worth, as the integrand has a pole there."""
        if gains.max() <= 0:
            return cls(mass, gains, n)
        tilt = _saddle(mass, gains)
        deviation = _deviation(mass, gains, n, tilt)
        if tilt * deviation < 1 and deviation:
            tilt = max(tilt, min(1 / deviation, _STEEPEST / float(gains.max())))
            deviation = _deviation(mass, gains, n, tilt)
        return cls(mass, gains, n, tilt, deviation)

    @property
    def _fine(self) -> float:
        return _FINE if self.mass.size <= _FEW else _COARSE

    def _log_moment(self, tilt: float) -> float:
        """ln E e^(tilt * sum)."""
        return self.n * math.log1p(float((self.mass * np.expm1(np.minimum(tilt * self.gains, 700.0))).sum()))

    @property
    def _usable(self) -> bool:
        """Not where a few rare gains are all there is, or where floats end."""
        return self.deviation > 0 and -_DEEPEST < self._log_moment(self.tilt) < _STEEPEST

    def above(self) -> float:
        """E[S_+], not below the truth: at most what every report gains on its own, and Chernoff's bound."""
        most = self.n * float((self.mass * np.maximum(self.gains, 0.0)).sum())
        if most and self.tilt:
            most = min(most, math.exp(min(self._log_moment(self.tilt) - 1, 700.0)) / self.tilt)
        if most and self._usable:
            shown, moduli, missed = self._summed(bump=0.0)
            most = min(most, shown + _MARGIN * moduli + missed)
        return most * (1 + _MARGIN)

    def below(self) -> float:
        """E[S_+], not above the truth.

        A normal variable adds at most tau times the normal density at S / tau, which is taken off; and so is what comes
        in from f(kL): below 0 at most e^(-tL) (L + 1/t), above it what Chernoff's bound at 2 t leaves.
        """
        if not self._usable:
            return 0.0
        shown, moduli, missed = self._summed(bump=1.0)
        period = self._period
        inside = math.exp(-self.tilt * period) * (period + 1 / self.tilt)
        inside += math.exp(min(700.0, self._log_moment(2 * self.tilt) - self.tilt * period)) / self.tilt
        return shown - _MARGIN * moduli - missed - 2 * inside

    @property
    def _period(self) -> float:
        return (_ENOUGH - min(self._log_moment(self.tilt), 0.0)) / self.tilt

    def _summed(self, bump: float) -> tuple[float, float, float]:
        """The sum over points, that of the moduli of its terms, and a bound on what was not visited."""
        step, level = 2 * math.pi / self._period, self._log_moment(self.tilt)
        tau = max(self._fine * self.deviation, _END / (_MOST_POINTS * step))
        reach = float(self.gains.max() - min(self.gains.min(), 0.0))
        near, far, end = _NEAR / self.deviation, math.pi / reach, _END / tau
        heights = np.concatenate(
            [
                step * np.arange(0, math.ceil(min(near, end) / step)),
                step * np.arange(math.ceil(max(min(near, end), far) / step), math.ceil(max(end, far) / step)),
            ]
        )
        points = self.tilt + 1j * heights
        moments = np.zeros(points.size, dtype=np.complex128)
        for mass, gain in zip(self.mass.tolist(), self.gains.tolist(), strict=True):  # flat in memory
            moments += mass * np.expm1(points * gain)
        terms = np.exp(self.n * np.log1p(moments) - level + (tau * points) ** 2 / 2) * (1 / points**2 - bump * tau**2)
        terms[0] /= 2  # the two halves of the line are mirror images
        scale = math.exp(level) * step / math.pi
        beyond = math.exp(level + (tau * self.tilt) ** 2 / 2 - _END**2 / 2) * (1 / near + bump * tau)
        return scale * float(terms.real.sum()), scale * float(np.abs(terms).sum()), 2 * beyond


def _saddle(mass: Numbers, gains: Numbers) -> float:
    """The tilt at which the tilted gain has mean 0; 0 if it has without."""
    top = int(np.argmax(gains))
    most, lost = float(mass[top] * gains[top]), float((mass * np.maximum(-gains, 0.0)).sum())
    if most <= 0 or float((mass * gains).sum()) >= 0:
        return 0.0
    low, high = 0.0, max(0.0, math.log(lost / most)) / float(gains[top])  # there the largest gain alone makes up
    tilt = low
    for _ in range(200):
        weights = mass * np.exp(np.minimum(tilt * gains, 700.0))
        slope, bend = float((weights * gains).sum()), float((weights * gains * gains).sum())
        low, high = (low, tilt) if slope > 0 else (tilt, high)
        guess = tilt - slope / bend
        guess = guess if low < guess < high else (low + high) / 2
        if abs(guess - tilt) <= 1e-6 * guess:
            return guess
        tilt = guess
    return tilt


def _deviation(mass: Numbers, gains: Numbers, n: int, tilt: float) -> float:
    """The standard deviation of the sum of n tilted gains; what the blanket leaves over gains nothing."""
    weights = mass * np.exp(np.minimum(tilt * gains, 700.0))
    total = float(weights.sum()) + max(0.0, 1 - float(mass.sum()))
    mean = float((weights * gains).sum()) / total
    return math.sqrt(n * max(0.0, float((weights * gains * gains).sum()) / total - mean * mean))


# Two outputs ---------------------------------------------------------------------------------------------------------


def two_output_delta(ratio: float, epsilon: float, n: int) -> float:
    """The largest delta over all data sets of the others, for a randomizer with two outputs: not below the truth."""
    growth = math.expm1(epsilon)
    gain, loss = (ratio - 1 - growth) / (ratio + 1), (ratio - 1 + growth * ratio) / (ratio + 1)  # p - r q, r p - q
    if gain <= 0:
        return 0.0
    edges = np.unique(np.linspace(0, n, min(n, _BLOCKS) + 1).round().astype(np.int64)).tolist()
    groups = ((start, n - stop) for start, stop in pairwise(edges))  # those at p and at q whom all k of a block have
    return min(gain, max(_beside(ratio, gain, loss, high, low) for high, low in groups))  # alone it is `gain`


def _beside(ratio: float, gain: float, loss: float, high: int, low: int) -> float:
    """The divergence beside `high` users at p and `low` at q, not below the truth: see the essay."""
    users, ones = np.array([high, low], dtype=np.float64), np.array([ratio, 1.0]) / (ratio + 1)

    def moments(tilt: float) -> tuple[float, float]:
        weights = 1 + ones * math.expm1(tilt)
        share = ones * math.exp(tilt) / weights
        return float((users * share).sum()), math.sqrt(float((users * share * (1 - ones) / weights).sum()))

    best = math.log(loss / gain)
    mean, deviation = moments(best)
    tilt = max(best, 1 / (1 + deviation))
    _, deviation = moments(tilt)
    level = float((users * np.log1p(ones * math.expm1(tilt))).sum())
    thresholds = math.floor(mean) + np.arange(4.0)
    exponents = level - tilt * thresholds
    # The count lies on whole numbers: a period of them, and what comes in from below is at most e^(-t size) (p + r).
    size = 2 * math.ceil((2 * _ENOUGH + max(0.0, -float(exponents.min()))) / tilt / 2)
    visited = np.arange(min(size // 2, math.ceil(_NEAR / (deviation + 1e-9) * size / (2 * math.pi))) + 1)
    heights, twice = visited * (2 * math.pi / size), np.where(2 * visited % size == 0, 1.0, 2.0)
    points = tilt + 1j * heights
    common = np.exp((np.log1p(np.multiply.outer(np.expm1(points), ones)) * users).sum(axis=1) - level)
    common *= (gain * np.exp(points) - loss) / -np.expm1(-points) * twice
    waves = np.exp(-1j * np.multiply.outer(thresholds, heights))
    shown = (waves * common).real.sum(axis=1) + _PHASES * np.abs(common).sum()
    missed = math.exp(-_NEAR * 2) * size * abs(gain * math.exp(tilt) + loss) / -math.expm1(-tilt)
    return float((np.exp(exponents) * (shown + missed) / size).max()) + 2 * math.exp(-tilt * size) * (gain + loss)
