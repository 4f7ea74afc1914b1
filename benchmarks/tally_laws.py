"""Tallies drawn at once from what users hold: the law of `randomize` and `tally` without a report for each user.

Whether intervals hold is asked of thousands of collections from a million users each. Where users who hold the same
thing report alike, the tally is a sum of a few multinomial counts, and these are drawn instead:

- `CategoryLaw`. Randomized response tells the truth with probability p - q and names any category otherwise. The bits
  of `Unary` and the buckets of `LocalHash` support every category by itself: binomial counts. A code of `Hadamard` is
  uniform, or uniform on the half that the category favours. All of these are **exact**. For others whose reports
  support any two categories with a known probability, counts are normal with the exact mean and covariance.
- `KeyLaw`. Users with one key at most, with a value that is rounded to a sign. Hash functions of their own make the
  counts of different keys independent, and `Law` has the outcomes of one key; `PCKV_GRR` is randomized response over
  items. **Exact**.
- `SignLaw`. Numbers that are rounded to signs, by `Duchi` or `Hypercube`, of those of all users who were asked.
  **Exact**.

Everything is for simulation: the numbers come from a generator of NumPy, and tallies say that they are simulated.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.tally import Tally
from dither.errors import ParameterError

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

_EXACT = ("GRR", "Unary", "LocalHash", "Hadamard")


@dataclass(frozen=True, eq=False)
class CategoryLaw:
    """Of a mechanism for categories, where `held[v]` users hold v.

    >>> from dither import GRR
    >>> law = CategoryLaw(GRR(k=3, epsilon=1.0), np.array([700, 200, 100]))
    >>> law.exact, int(law.draw(np.random.default_rng(1)).counts.sum())
    (True, 1000)
    """

    mechanism: Any
    held: Counts

    def __post_init__(self) -> None:
        if self._kind not in (*_EXACT, "SubsetSelection") or (self._kind == "LocalHash" and self._plain.cohorts):
            raise ParameterError("how these reports go together has no simple law: randomize and tally them")

    @property
    def _plain(self) -> Any:
        """The mechanism, or what one round of a mechanism with a memory is like."""
        return self.mechanism.sent if self.mechanism.remembers else self.mechanism

    @property
    def _kind(self) -> str:
        return type(self._plain).__name__

    @property
    def exact(self) -> bool:
        """Whether it is the law itself, and not a normal one with the same mean and covariance."""
        return self._kind in _EXACT

    @property
    def n(self) -> int:
        """How many users there are."""
        return int(self.held.sum())

    def draw(self, random: np.random.Generator) -> Tally:
        """One tally."""
        reading = self._plain.reading
        if self._kind == "GRR":
            counts = randomized_response(self.held, float(reading.p - reading.q), random)
        elif self._kind == "Hadamard":
            counts = self._codes(random)
        elif self.exact:
            counts = random.binomial(self.held, float(reading.p)) + random.binomial(
                self.n - self.held, float(reading.q)
            )
        else:
            mean, root = self._normal
            counts = whole_numbers(mean + root @ random.standard_normal(root.shape[1]), self.n * self._plain.size)
        return Tally(self.mechanism.fingerprint, self.n, counts, simulated=True)

    def _codes(self, random: np.random.Generator) -> Counts:
        """Each code as likely as any other, or from the half that a row favours: with the parity set right."""
        codes = self._plain.codes
        told = random.binomial(self.held, float(2 * self._plain.reading.p - 1))
        rows = np.repeat(np.arange(1, self.held.size + 1), told)
        drawn = random.integers(0, codes, rows.size)
        odd = (np.bitwise_count(drawn & rows) & 1).astype(bool)
        drawn = np.where(odd, drawn ^ (rows & -rows), drawn)
        others = random.multinomial(self.n - rows.size, np.full(codes, 1 / codes))
        return np.bincount(drawn, minlength=codes) + others

    @cached_property
    def _normal(self) -> tuple[Floats, Floats]:
        """The mean of the counts, and a square root of their covariance."""
        reading, shares = self._plain.reading, self.held / self.n
        gap = float(reading.p - reading.q)
        covariance = reading.covariance(shares).dense() * gap**2 * self.n
        values, vectors = np.linalg.eigh(covariance)
        return self.n * (float(reading.q) + gap * shares), vectors * np.sqrt(np.maximum(values, 0.0))


def whole_numbers(counts: Floats, total: int) -> Counts:
    """The nearest whole numbers that add up to the total, as counts of reports do.

    >>> whole_numbers(np.array([1.4, 2.4, 3.3]), 7).tolist()
    [1, 3, 3]
    """
    below = np.floor(counts)
    above = np.argsort(below - counts, kind="stable")[: total - int(below.sum())]
    below[above] += 1
    return below.astype(np.int64)


def randomized_response(held: Counts, truth: float, random: np.random.Generator) -> Counts:
    """Counts of what was said: with probability `truth` what is held, otherwise anything."""
    told = random.binomial(held, truth)
    return told + random.multinomial(int(held.sum() - told.sum()), np.full(held.size, 1 / held.size))


@dataclass(frozen=True, eq=False)
class KeyLaw:
    """Of a mechanism for keys with s = 1, where `held[j, l]` of `n` users hold key j with the value `values[j, l]`."""

    mechanism: Any
    held: Counts
    values: Floats
    n: int

    def __post_init__(self) -> None:
        hashed = self._kind in ("Collision", "CoCo") and self.mechanism.cohorts is None
        if self.mechanism.s != 1 or not (hashed or self._kind == "PCKV_GRR"):
            raise ParameterError("how these reports go together has no simple law: randomize and tally them")

    exact = True

    @property
    def _kind(self) -> str:
        return type(self.mechanism).__name__

    def draw(self, random: np.random.Generator) -> Tally:
        """One tally."""
        holders = self.held.sum(axis=1)
        plus = random.binomial(self.held, (1 + self.values) / 2).sum(axis=1)
        minus, absent = holders - plus, self.n - holders
        if self._kind == "PCKV_GRR":
            high, low = self.mechanism.law.probabilities
            items = np.append(np.stack([minus, plus], axis=1).ravel(), self.n - holders.sum())
            counts = randomized_response(items, float(high - low), random)[:-1].reshape(-1, 2)
        else:
            law = self.mechanism.reading.law
            kinds = zip((absent, minus, plus), law.chance, strict=True)
            outcomes = sum(random.multinomial(users, chance / chance.sum()) for users, chance in kinds)
            counts = (outcomes @ law.seen).astype(np.int64)
        return Tally(self.mechanism.fingerprint, self.n, counts, simulated=True)


@dataclass(frozen=True, eq=False)
class SignLaw:
    """Of `Duchi` or a `Hypercube` of one part, where `held[u]` users have the row `values[u]` of numbers.

    Each user is asked with probability `share`, by itself; so the number of reports varies.
    """

    mechanism: Any
    held: Counts
    values: Floats
    share: float = 1.0

    def __post_init__(self) -> None:
        if self._kind != "Duchi" and not (self._kind == "Hypercube" and self.mechanism.number == 1):
            raise ParameterError("these reports are no single signs: randomize and tally them")

    exact = True

    @property
    def _kind(self) -> str:
        return type(self.mechanism).__name__

    @cached_property
    def _corners(self) -> NDArray[np.bool_]:
        """Bit j of the number of a corner is set where its coordinate j is +1."""
        d = self.values.shape[1]
        return np.array(list(product([False, True], repeat=d)))[:, ::-1]

    @cached_property
    def _chance(self) -> Floats:
        """Of each row of numbers (rows) the probability that it is rounded to each corner."""
        up = (1 + self.values[:, None, :]) / 2
        return np.where(self._corners, up, 1 - up).prod(axis=2)

    @cached_property
    def _reported(self) -> Floats:
        """Of each corner (rows) the probability that each is reported."""
        channel = self.mechanism.channel()
        found = np.array([[float(each) for each in channel.row(corner)] for corner in range(len(self._corners))])
        return found / found.sum(axis=1, keepdims=True)

    def draw(self, random: np.random.Generator) -> Tally:
        """One tally of those who were asked."""
        asked = self.held if self.share == 1 else random.binomial(self.held, self.share)
        rounded = random.multinomial(asked, self._chance).sum(axis=0)
        reports = random.multinomial(rounded, self._reported).sum(axis=0)
        counts = reports if self._kind == "Duchi" else reports @ self._corners
        return Tally(self.mechanism.fingerprint, int(asked.sum()), counts, simulated=True)
