"""Channels: the exact conditional probabilities of a local randomizer, as a small algebra.

A channel maps an input to a distribution over outputs. Every probability here is a rational made of the
integers that the sampler uses. What privacy needs from a channel are three functions:

- `ratio()`: the largest P(y|x) / P(y|x'). Its logarithm is the pure epsilon.
- `divergence(r)`: the largest hockey-stick divergence sum_y max(0, P(y|x) - r P(y|x')) over pairs of
  inputs. At r = e^epsilon this is the smallest delta for which (epsilon, delta) holds.
- `blanket()`: the part of the output that does not depend on the input (Balle et al. 2019).

Few forms are enough for the mechanisms here: `TwoLevel` (the input names a favoured set), `Table` (any small
channel), `Product` (one input, encoded in independent coordinates), `Independent` (coordinates with inputs of their
own) and `PublicMixture` (a tag that the report shows and that was drawn without looking at the input). The large
ones never become a matrix: their structure gives the same numbers, and the tests compare the two wherever a matrix
fits.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd, inf, lcm, log2, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.errors import ParameterError
from dither.core.exact import closely_above_log, exp_below, float_above, log_above, root_below

LARGEST_MATRIX = 1 << 20
MOST_NUMBERED = 1 << 30
CLOSENESS = Fraction(1, 10**9)
_AMPLE = 8_886_000  # a ratio just below e^16
_MOST_WORD_BITS = 16
_MOST_CONVOLVED = 100  # coordinates whose exact divergence is worked out; it takes a fraction of a second


@dataclass(frozen=True)
class Blanket:
    """The input-independent part of a channel: total `mass`, and how it lies over the outputs.

    `law` holds the (unnormalised) probability of every output, or None where it was not worked out. (Of a two-level law
    it is uniform.)
    """

    mass: Fraction
    law: tuple[Fraction, ...] | None = None


class Channel(ABC):
    """The exact conditional probabilities P(output | input) of one mechanism."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(number of inputs, number of outputs)."""

    @abstractmethod
    def ratio(self) -> Fraction | float:
        """The largest likelihood ratio between two inputs; `inf` where an output is impossible for one."""

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
    def exact(self) -> bool:
        """Whether `divergence` is attained, or only a bound. `ratio` always is attained."""
        return True

    @property
    def epsilon(self) -> float:
        """The pure epsilon of the channel, rounded up."""
        ratio = self.ratio()
        return log_above(ratio) if isinstance(ratio, Fraction) else inf

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
    def total(self) -> int:
        """W: the sum of all weights, the same for every input."""
        return self.favoured * self.high + (self.outputs - self.favoured) * self.low

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


@dataclass(frozen=True)
class Product(Channel):
    """One input, encoded in independent coordinates that all run the same channel `factor`.

    The `inputs` are words: `encode(x)` says what each of the `coordinates` is given. `differing` lists, up
    to symmetry, what two inputs look like in the coordinates where they differ; the others cancel in every
    likelihood ratio and integrate to one in every divergence, which keeps unary encoding with a million
    bits as small as one with two. `common()` gives the mass of the blanket where it is known in closed form;
    otherwise the product of the factors' blankets, which lies under every input, stands in.
    """

    factor: Channel
    coordinates: int
    inputs: int
    encode: Callable[[int], Sequence[int]] = field(compare=False, repr=False)
    differing: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    common: Callable[[], Fraction] | None = field(default=None, compare=False, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        return self.inputs, self.factor.shape[1] ** self.coordinates

    @property
    def exact(self) -> bool:
        return max(len(one) for one, _ in self.differing) * log2(self.factor.shape[1]) <= _MOST_WORD_BITS

    def _word(self, letters: Sequence[int]) -> list[Fraction]:
        """The distribution of the outputs of these coordinates; the last coordinate varies fastest."""
        law = [Fraction(1)]
        for letter in letters:
            law = [before * step for before in law for step in self.factor.row(letter)]
        return law

    @property
    def _pairs(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        return [ordered for one, other in self.differing for ordered in ((one, other), (other, one))]

    def ratio(self) -> Fraction | float:
        # Coordinates are independent: each takes its own worst output.
        return max(
            prod((self._letter_ratio(a, b) for a, b in zip(one, other, strict=True)), start=Fraction(1))
            for one, other in self._pairs
        )

    def _letter_ratio(self, one: int, other: int) -> Fraction | float:
        if one == other:
            return Fraction(1)
        if not isinstance(self.factor, Table):  # the letters are its two ends, and no pair is worse than they are
            return self.factor.ratio()
        rows = zip(self.factor.row(one), self.factor.row(other), strict=True)
        return max(inf if b == 0 else a / b for a, b in rows if a)

    def divergence(self, ratio: Fraction) -> Fraction:
        if ratio >= self.ratio():
            return Fraction(0)
        if not self.exact:  # too many words to write down: basic composition, with the ratio split evenly
            letters = max(len(one) for one, _ in self.differing)
            return min(Fraction(1), letters * self.factor.divergence(root_below(ratio, letters)))
        return max(hockey_stick(self._word(one), self._word(other), ratio) for one, other in self._pairs)

    def blanket(self) -> Blanket:
        return Blanket(self.common() if self.common else self.factor.blanket().mass ** self.coordinates)

    def row(self, x: int) -> list[Fraction]:
        return self._word(self.encode(x))


@dataclass(frozen=True)
class Announced(Channel):
    """Blocks of inputs with a public label each, which the report shows: a group that the user chose.

    Privacy is promised among the inputs of one block only; which block it was is no secret. Stated is the worst block.
    """

    blocks: tuple[Channel, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return sum(block.shape[0] for block in self.blocks), sum(block.shape[1] for block in self.blocks)

    @property
    def exact(self) -> bool:
        return all(block.exact for block in self.blocks)

    @property
    def epsilon(self) -> float:
        return max(block.epsilon for block in self.blocks)

    def ratio(self) -> Fraction | float:
        return max(block.ratio() for block in self.blocks)

    def divergence(self, ratio: Fraction) -> Fraction:
        return max(block.divergence(ratio) for block in self.blocks)

    def blanket(self) -> Blanket:
        return Blanket(min(block.blanket().mass for block in self.blocks))

    def row(self, x: int) -> list[Fraction]:
        law: list[Fraction] = []
        for block in self.blocks:
            inside = 0 <= x < block.shape[0]
            law += block.row(x) if inside else [Fraction(0)] * block.shape[1]
            x -= block.shape[0]
        return law


@dataclass(frozen=True)
class Independent(Channel):
    """Coordinates that each run their own channel, of which any `asked` answer: those of the worst choice are stated.

    Two inputs may differ in every coordinate, so likelihood ratios multiply, and the product is attained. A
    divergence is exact where all coordinates share one two-level law (see `_convolved`). Otherwise it is the bound
    of basic composition: with the ratio split evenly, the divergences of the coordinates add.
    """

    factors: tuple[Channel, ...]
    asked: int

    @classmethod
    def all_of(cls, factors: Sequence[Channel]) -> "Independent":
        """Every coordinate answers."""
        return cls(tuple(factors), len(factors))

    @property
    def shape(self) -> tuple[int, int]:
        shapes = [factor.shape for factor in self.factors]
        return prod(inputs for inputs, _ in shapes), prod(sorted((outputs for _, outputs in shapes))[-self.asked :])

    @property
    def exact(self) -> bool:
        return isinstance(self._same, TwoLevel) and self.asked <= _MOST_CONVOLVED

    @property
    def _same(self) -> Channel | None:
        kinds = {id(factor): factor for factor in self.factors}.values()
        return self.factors[0] if all(factor == self.factors[0] for factor in kinds) else None

    def _worst(self, cost: Callable[[Channel], Any]) -> list[tuple[Any, int]]:
        """The largest costs of `asked` coordinates, and how many have each."""
        kinds = {id(factor): factor for factor in self.factors}  # a thousand coordinates may share one channel
        number = Counter(map(id, self.factors))
        left, found = self.asked, []
        for price, kind in sorted(((cost(factor), kind) for kind, factor in kinds.items()), reverse=True):
            taken = min(left, number[kind])
            left -= taken
            found.append((price, taken))
        return found

    def ratio(self) -> Fraction | float:
        return prod((ratio**times for ratio, times in self._worst(lambda factor: factor.ratio())), start=Fraction(1))

    @property
    def epsilon(self) -> float:
        ratios = self._worst(lambda factor: factor.ratio())
        if any(not isinstance(ratio, Fraction) for ratio, times in ratios if times):
            return inf
        return float_above(sum((times * closely_above_log(ratio) for ratio, times in ratios), Fraction(0)))

    def divergence(self, ratio: Fraction) -> Fraction:
        if ratio >= self.ratio():
            return Fraction(0)
        if isinstance(self._same, TwoLevel) and self.exact:
            return _convolved(self._same, self.asked, ratio)
        share = root_below(ratio, self.asked)
        losses = self._worst(lambda factor: factor.divergence(share))
        return min(Fraction(1), sum((loss * times for loss, times in losses), Fraction(0)))

    def blanket(self) -> Blanket:
        least = sorted(factor.blanket().mass for factor in self.factors)[: self.asked]
        return Blanket(prod(least, start=Fraction(1)))

    def row(self, x: int) -> list[Fraction]:
        law = [Fraction(1)]
        for factor, letter in zip(self.factors, self.letters(x), strict=True):
            law = [before * step for before in law for step in factor.row(letter)]
        return law

    def letters(self, x: int) -> list[int]:
        """What input x gives to each coordinate; the last varies fastest."""
        found = []
        for factor in reversed(self.factors):
            x, letter = divmod(x, factor.shape[0])
            found.append(letter)
        return found[::-1]


def _convolved(law: TwoLevel, times: int, ratio: Fraction) -> Fraction:
    """The divergence of `times` independent draws of one two-level law.

    The worst pair of inputs differs by `apart` favoured outputs in each coordinate: a closer pair is a mixture of
    that pair and of a draw that tells nothing, and divergence is convex. A coordinate then multiplies the
    likelihood ratio by high/low with weight apart * high, by low/high with weight apart * low, and leaves it alone
    otherwise; the number of ups less the number of downs tells the ratio.
    """
    high, low = max(law.high, law.low), min(law.high, law.low)  # the other way round is the same pair, exchanged
    up, down = law.apart * high, law.apart * low
    steps = [down, law.total - up - down, up]
    weights = [1]  # of (ups - downs) = -number, ..., number
    for _ in range(times):
        longer = [0] * (len(weights) + 2)
        for i, weight in enumerate(weights):
            for j, step in enumerate(steps):
                longer[i + j] += weight * step
        weights = longer
    gain = Fraction(low, high)
    lost = (weight * (1 - ratio * gain ** (excess - times)) for excess, weight in enumerate(weights) if excess > times)
    return sum((part for part in lost if part > 0), Fraction(0)) / law.total**times


@dataclass(frozen=True)
class PublicMixture(Channel):
    """A component chosen by a public tag (hash seed, cohort, sampled dimensions), drawn without the input.

    The tag is part of the report, so the mixture is at least as private as its worst component. This is what is
    stated: a device does not choose its tag, but it has to live with the one it drew. `component` stands for the
    worst tag; `tags` says how many there are, and `given(x, tag)` the distribution of the rest of the report under
    the tag (only needed for `row` and `matrix`). Tags are equally likely unless `odds` says otherwise.
    """

    component: Channel
    tags: int
    inputs: int
    given: Callable[[int, int], Sequence[Fraction]] = field(compare=False, repr=False)
    outputs: int | None = None
    odds: tuple[Fraction, ...] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.inputs, self.tags * self.component.shape[1] if self.outputs is None else self.outputs

    @property
    def exact(self) -> bool:
        return self.component.exact

    @property
    def epsilon(self) -> float:
        return self.component.epsilon

    def ratio(self) -> Fraction | float:
        return self.component.ratio()

    def divergence(self, ratio: Fraction) -> Fraction:
        return self.component.divergence(ratio)

    def blanket(self) -> Blanket:
        return Blanket(self.component.blanket().mass)

    def row(self, x: int) -> list[Fraction]:
        return [
            probability * (Fraction(1, self.tags) if self.odds is None else self.odds[tag])
            for tag in range(self.tags)
            for probability in self.given(x, tag)
        ]


def hockey_stick(one: Sequence[Fraction], other: Sequence[Fraction], ratio: Fraction) -> Fraction:
    """sum_y max(0, one(y) - ratio * other(y)), exactly.

    >>> hockey_stick([Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)], Fraction(2))
    Fraction(1, 4)
    """
    gains = (a - ratio * b for a, b in zip(one, other, strict=True))
    return sum((gain for gain in gains if gain > 0), Fraction(0))
