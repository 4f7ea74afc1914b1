"""Channels: the exact conditional probabilities of a local randomizer, as a small algebra.

A channel maps an input to a distribution over outputs. Every probability here is a rational made of the
integers that the sampler uses. What privacy needs from a channel are three functions:

- `ratio()`: the largest P(y|x) / P(y|x'). Its logarithm is the pure epsilon.
- `divergence(r)`: the largest hockey-stick divergence sum_y max(0, P(y|x) - r P(y|x')) over pairs of
  inputs. At r = e^epsilon this is the smallest delta for which (epsilon, delta) holds.
- `blanket()`: the part of the output that does not depend on the input (Balle et al. 2019).

Two forms are here: `TwoLevel` (the input names a favoured set) and `Table` (any small channel). `core.additive_channel`
has additive noise, and `core.composite_channels` what is made of several channels. The large ones never become a
matrix: their structure gives the same numbers, and the tests compare the two wherever a matrix fits.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations
from math import gcd, inf, lcm, log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.blanket_law import BlanketLaw, Contrast
from dither.core.exact import exp_below, float_above, log_above
from dither.errors import ParameterError

LARGEST_MATRIX = 1 << 20
MOST_NUMBERED = 1 << 30
CLOSENESS = Fraction(1, 10**9)
_LONGEST_ROW = 1 << 11  # that crowds are made of
_AMPLE = 8_886_000  # a ratio just below e^16


@dataclass(frozen=True)
class Blanket:
    """The input-independent part of a channel: total `mass`, and how it lies over the outputs.

    `law` holds the (unnormalised) probability of every output, or None where it was not worked out. (Of a two-level
    law it is uniform.)
    """

    mass: Fraction
    law: tuple[Fraction, ...] | None = None


class Walk(NamedTuple):
    """How an output moves the likelihood ratio of the two worst inputs: up by one factor, down by it, or not at all.

    The weights are those under the first input; under the second, `up` and `down` change places
    (`core.privacy_losses`).

    >>> Walk.of(30, 20, 10).ratio
    Fraction(3, 1)
    """

    up: int
    still: int
    down: int

    @classmethod
    def of(cls, up: int, still: int, down: int) -> "Walk":
        """In lowest terms, so that equal walks are equal."""
        shared = gcd(up, still, down)
        return cls(up // shared, still // shared, down // shared)

    @property
    def ratio(self) -> Fraction:
        """The factor by which the likelihood ratio moves."""
        return Fraction(self.up, self.down)

    @property
    def distance(self) -> Fraction:
        """The total variation distance of the two inputs."""
        return Fraction(self.up - self.down, sum(self))

    def dominates(self, other: "Walk") -> bool:
        """Whether its two inputs are told apart at least as well, at every epsilon and in any company."""
        return self.ratio >= other.ratio and self.distance >= other.distance


class Channel(ABC):
    """The exact conditional probabilities P(output | input) of one mechanism."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(number of inputs, number of outputs)."""

    @abstractmethod
    def ratio(self) -> Fraction | float:
        """The largest likelihood ratio between two inputs; `inf` where an output is impossible for one."""

    def ratio_between(self, one: int, other: int) -> Fraction | float:
        """The largest likelihood ratio of one input over another.

        By default that of the two worst inputs: right for those at its two ends, and a bound for others.
        """
        return self.ratio()

    @abstractmethod
    def divergence(self, ratio: Fraction) -> Fraction:
        """The largest hockey-stick divergence between two inputs at the given likelihood ratio."""

    @abstractmethod
    def blanket(self) -> Blanket:
        """The largest common part of all the conditional distributions, or a proven part of it."""

    @abstractmethod
    def row(self, x: int) -> list[Fraction]:
        """P(. | x), output by output."""

    @property
    def parts(self) -> tuple["Channel", ...]:
        """The channels that it is made of, if any."""
        return ()

    @property
    def tagged(self) -> bool:
        """Whether a report shows one of several public tags, drawn without the input."""
        return False

    @property
    def worst_component(self) -> "Channel":
        """Under the worst public tag; itself if there are none."""
        return self

    @property
    def repeats(self) -> tuple["Channel", ...]:
        """The channels that are all given the one input, each on its own account; by default itself alone."""
        return (self,)

    @property
    def two_level(self) -> "TwoLevel | None":
        """Itself, if it is a two-level law."""
        return None

    @property
    def walk(self) -> Walk | None:
        """The walk of the two inputs that are told apart best at every epsilon at once, if they have one."""
        return None

    @property
    def sampled_law(self) -> "tuple[TwoLevel, int] | None":
        """The two-level law that its sampler draws from, and how often for a report; None if it is another kind."""
        return None

    @property
    def listed(self) -> bool:
        """Whether `row` gives the law of everything that is shown, so that rows can be compared."""
        return True

    @property
    def announced(self) -> bool:
        """Whether a report shows a group that its user chose: nothing is promised between inputs of different ones."""
        return False

    @property
    def outputs_by_tag(self) -> int | None:
        """Of a report with a public tag, how many outputs there are beside it; None of one without."""
        return None

    def in_coordinates(self, x: int) -> "list[tuple[Channel, int]] | None":
        """The channels of coordinates that are randomized on their own, and what input x is to each; None of others."""
        return None

    def contrast(self) -> Contrast | None:
        """The two inputs that a crowd hides worst, if the likelihoods of a report have two levels at heart."""
        return None

    def blanket_law(self) -> BlanketLaw | None:
        """A law above those of all pairs of inputs, in both orders; None where it was not worked out."""
        contrast = self.contrast()
        return None if contrast is None else BlanketLaw.of(contrast)

    def law_by_tag(self, odds: Sequence[Fraction] | None) -> BlanketLaw | None:
        """The same, where a public tag with these odds says what a report is about; by default the same under each."""
        return self.blanket_law()

    def crowds(self) -> list[BlanketLaw]:
        """Two inputs over a third that all others have: data sets on which a crowd hides badly, where rows are short.

        Unlike `blanket_law` these are no bounds: each is what some users have.
        """
        inputs, outputs = self.shape
        if not self.listed or outputs > _LONGEST_ROW:
            return []
        rows = [self.row(x) for x in sorted({0, min(1, inputs - 1), min(2, inputs - 1), inputs - 1})]
        return [
            BlanketLaw.between(one, other, third)
            for one, other in permutations(rows, 2)
            for third in rows
            if all(low or not (a or b) for a, b, low in zip(one, other, third, strict=True))
        ]

    def dominating_rows(self) -> tuple[list[Fraction], list[Fraction]] | None:
        """The rows of two inputs that are told apart best at every epsilon at once, if they are known and short."""
        return None

    @property
    def exact(self) -> bool:
        """Whether `divergence` is attained, or only a bound. `ratio` always is attained."""
        return True

    def gap(self, ratio: Fraction) -> Fraction:
        """How far the divergence that is attained can be below the one that is stated: for all that is known, to 0."""
        return Fraction(0) if self.exact else self.divergence(ratio)

    @property
    def epsilon(self) -> float:
        """The pure epsilon of the channel, rounded up."""
        return log_above(self.ratio())

    def profile(self, epsilon: float) -> float:
        """The smallest delta for which the channel is (epsilon, delta)-private, rounded up.

        >>> TwoLevel(high=3, low=1, favoured=1, outputs=2).profile(0.0)
        0.5
        """
        return float_above(self.divergence(exp_below(epsilon)))

    def matrix(self) -> NDArray[np.object_]:
        """All the probabilities as exact fractions, one row an input. Only for small alphabets.

        >>> print(TwoLevel(high=3, low=1, favoured=1, outputs=2).matrix())
        [[Fraction(3, 4) Fraction(1, 4)]
         [Fraction(1, 4) Fraction(3, 4)]]
        """
        inputs, outputs = self.shape
        if inputs * outputs > LARGEST_MATRIX:
            raise ParameterError(
                f"a matrix with 2^{log2(inputs) + log2(outputs):.0f} entries is too large to write down; "
                "use ratio(), profile() or blanket(), which work from the structure"
            )
        table = np.empty((inputs, outputs), dtype=object)
        for x in range(inputs):
            table[x] = self.row(x)
        return table


def _itself(x: int) -> Sequence[int]:
    return (x,)


@dataclass(frozen=True)
class TwoLevel(Channel):
    """Weight `high` for each favoured output, `low` for each other: the law that `core.draw` samples.

    `favoured` of the `outputs` are favoured, whatever the input, so that the total weight is constant.
    `apart` is the largest number of outputs that one input favours and another does not. `members(x)`
    lists the favoured outputs of x (only needed for `row` and `matrix`); by default x favours itself.
    """

    high: int
    low: int
    favoured: int
    outputs: int
    apart: int = 1
    inputs: int | None = None
    members: Callable[[int], Sequence[int]] = field(default=_itself, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not (0 < self.favoured < self.outputs and self.low > 0 and self.high > 0):
            raise ParameterError("a two-level law needs 0 < favoured < outputs and positive weights")

    @classmethod
    def fit(
        cls,
        epsilon: float,
        delta: float = 0.0,
        *,
        favoured: int,
        outputs: int,
        apart: int = 1,
        inputs: int | None = None,
        members: Callable[[int], Sequence[int]] = _itself,
        weights: Sequence[int] | None = None,
    ) -> "TwoLevel":
        """The law with the largest high/low that keeps (epsilon, delta), in as few machine words as can be.

        With r = e^epsilon the condition apart * (high - r low) <= delta * W, where
        W = favoured * high + (outputs - favoured) * low, reads

            high <= low * (apart * r + delta * (outputs - favoured)) / (apart - delta * favoured).

        `low` is chosen to fill a 64-bit word, so that a word is rejected with probability about (inside * high/low
        + outside) / 2^64; then `high` is the floor of the right-hand side, with r rounded down. Where one word is
        too coarse to keep the ratio within 1e-9 (relative to epsilon below 1), two are used, then three; sides that
        hold 2^1000 outputs need as many words as their sizes have. Above epsilon = 16 the largest ratio that fits the
        first words with room for e^16 is taken (for most laws one word), and the certificate states it.

        `weights=(high, low)` skips the choice: a stored plan brings its own integers.
        """
        if weights is not None:
            high, low = weights
            return cls(high, low, favoured, outputs, apart, inputs, members)
        # Outputs that can be numbered are drawn in one go; of too many, only the ratio of the two sides matters.
        share = 1 if outputs <= MOST_NUMBERED else gcd(favoured, outputs - favoured)
        inside, outside = favoured // share, (outputs - favoured) // share
        fewest = -(-(inside + outside).bit_length() // 64)
        for words in range(fewest, fewest + 32):
            digits = 40 + 25 * words
            limit, loss = 1 << 64 * words, Fraction(delta)
            room = apart - loss * favoured
            if room <= 0:
                raise ParameterError("delta is too large for these parameters: a report would always be favoured")
            slope = (apart * exp_below(epsilon, digits) + loss * (outputs - favoured)) / room
            low = max(1, int(limit / (inside * slope + outside)))
            high = min(int(low * slope), (limit - outside * low) // inside)
            if high <= low:
                continue
            missing = slope * low / high - 1  # and ln(slope) is at least 1 - 1/slope
            if (epsilon > 16 and high > low * _AMPLE) or missing <= CLOSENESS * min(1, 1 - 1 / slope):
                return cls(high, low, favoured, outputs, apart, inputs, members)
        raise ParameterError("epsilon is too small for these parameters: no report would carry information")

    @property
    def two_level(self) -> "TwoLevel":
        return self

    @property
    def walk(self) -> Walk:
        # The worst inputs differ by `apart` favoured outputs: a closer pair is a mixture of that pair and of a draw
        # that tells nothing, and divergence is convex. Weights the other way round are the same pair, exchanged.
        up, down = self.apart * max(self.high, self.low), self.apart * min(self.high, self.low)
        return Walk.of(up, self.total - up - down, down)

    @property
    def sampled_law(self) -> "tuple[TwoLevel, int]":
        return self, 1

    @property
    def total(self) -> int:
        """W: the sum of all weights, the same for every input."""
        return self.favoured * self.high + (self.outputs - self.favoured) * self.low

    @property
    def probabilities(self) -> tuple[Fraction, Fraction]:
        """Of one favoured output, and of one other."""
        return Fraction(self.high, self.total), Fraction(self.low, self.total)

    @property
    def inside(self) -> Fraction:
        """The probability that the report falls into the favoured set."""
        return Fraction(self.favoured * self.high, self.total)

    @property
    def shape(self) -> tuple[int, int]:
        return (self.outputs if self.inputs is None else self.inputs), self.outputs

    def ratio(self) -> Fraction:
        return Fraction(max(self.high, self.low), min(self.high, self.low))

    def divergence(self, ratio: Fraction) -> Fraction:
        # Outputs favoured by the first input alone gain high - r low each, those favoured by the second alone
        # low - r high; the others (1 - r) times their weight. Only a gain above zero counts, and r >= 1.
        gains = (self.high - ratio * self.low, self.low - ratio * self.high)
        return self.apart * sum((max(Fraction(0), gain) for gain in gains), Fraction(0)) / self.total

    def blanket(self) -> Blanket:
        # Every output keeps the smaller weight under every input; more is common only where all inputs agree on it.
        return Blanket(Fraction(self.outputs * min(self.low, self.high), self.total))

    def contrast(self) -> Contrast:
        above = self.favoured if self.high > self.low else self.outputs - self.favoured
        each = Fraction(min(self.high, self.low), self.total)
        both, low = above - self.apart, self.outputs - above - self.apart
        return Contrast(self.ratio(), self.apart * each, both * each, low * each)

    def crowds(self) -> list[BlanketLaw]:
        if self.favoured > 1 or min(self.shape) < 3:
            return [] if self.favoured > 1 and self.members is _itself else super().crowds()  # rows need the members
        ratio, low = float(self.ratio()), self.low / self.total  # one output each, that of the two, and of the third
        mass = low * np.array([1, 1, ratio, self.outputs - 3])
        first, second = np.array([ratio, 1, 1 / ratio, 1]), np.array([1, ratio, 1 / ratio, 1])
        return [BlanketLaw(mass, first, second).without_empty()]

    def row(self, x: int) -> list[Fraction]:
        weights = [self.low] * self.outputs
        for y in self.members(x):
            weights[y] = self.high
        return [Fraction(weight, self.total) for weight in weights]


@dataclass(frozen=True)
class Table(Channel):
    """Any small channel, as integer weights: one row an input, every row with the same sum.

    >>> Table(((3, 1), (1, 3))).ratio()
    Fraction(3, 1)
    """

    weights: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, rows: Sequence[Sequence[Fraction]]) -> "Table":
        """Rows of fractions, brought to one denominator."""
        whole = lcm(*(cell.denominator for row in rows for cell in row))
        return cls(tuple(tuple(int(cell * whole) for cell in row) for row in rows))

    def __post_init__(self) -> None:
        if len({(len(row), sum(row)) for row in self.weights}) != 1 or min(map(min, self.weights)) < 0:
            raise ParameterError("a table needs rows of equal length and equal sum, without negative weights")

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.weights), len(self.weights[0])

    def ratio(self) -> Fraction | float:
        columns = [column for column in zip(*self.weights, strict=True) if max(column)]
        if any(min(column) == 0 for column in columns):
            return inf
        return max(Fraction(max(column), min(column)) for column in columns)

    def ratio_between(self, one: int, other: int) -> Fraction | float:
        rows = zip(self.weights[one], self.weights[other], strict=True)
        return max(inf if b == 0 else Fraction(a, b) for a, b in rows if a)

    def divergence(self, ratio: Fraction) -> Fraction:
        # In integers, which are many times faster than fractions: a - r b is a gain of q a - p b, for r = p/q.
        p, q = ratio.numerator, ratio.denominator
        scaled = [([q * weight for weight in row], [p * weight for weight in row]) for row in self.weights]
        most = max(sum(a - b for a, b in zip(x, y, strict=True) if a > b) for x, _ in scaled for _, y in scaled)
        return Fraction(most, q * sum(self.weights[0]))

    def blanket(self) -> Blanket:
        total = sum(self.weights[0])
        law = tuple(Fraction(min(column), total) for column in zip(*self.weights, strict=True))
        return Blanket(sum(law, Fraction(0)), law)

    def row(self, x: int) -> list[Fraction]:
        total = sum(self.weights[x])
        return [Fraction(weight, total) for weight in self.weights[x]]


def hockey_stick(one: Sequence[Fraction], other: Sequence[Fraction], ratio: Fraction) -> Fraction:
    """sum_y max(0, one(y) - ratio * other(y)), exactly.

    >>> hockey_stick([Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)], Fraction(2))
    Fraction(1, 4)
    """
    gains = (a - ratio * b for a, b in zip(one, other, strict=True))
    return sum((gain for gain in gains if gain > 0), Fraction(0))
