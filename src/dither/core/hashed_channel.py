"""The channel of several hashed items: w of t buckets are favoured, w varies, and the total does not.

A user's s items are hashed into t buckets (003 section 5). They may fall on fewer than s: then w < s buckets are
favoured. A total that shrank with w would make a favoured bucket likelier for users whose items collide, and cost
privacy. So the total is fixed at W = s A + (t - s) B, a favoured bucket has weight A in it whatever w is, and what
the missing ones leave over is spread evenly over the buckets that are not spoken for:

    q_w = (W - w A) / (t - w), between B (at w = s) and A.

**Paired** (CoCo, 003 section 7): buckets z and z + t/2 are a pair. An item favours one of them (weight A) and speaks
against the other (weight B); c pairs are spoken for, and the buckets of the others have

    q_c = (W - c (A + B)) / (t - 2 c), between B and (A + B) / 2, if t >= 2 s.

The largest ratio is A/B, attained by an item of one user that is favoured where another's s items are all elsewhere.
Divergences are maxima over few numbers: how many are favoured by one input, by the other, and by both.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import comb

from dither.core.blanket_law import BlanketLaw, Contrast
from dither.core.channel import Blanket, Channel, TwoLevel
from dither.errors import ParameterError

_MOST_BUCKETS = 1 << 16


@dataclass(frozen=True)
class HashedChannel(Channel):
    """`law.favoured` items, hashed into `law.outputs` buckets, of which from one to all of them are hit."""

    law: TwoLevel
    paired: bool = False

    def __post_init__(self) -> None:
        if self.paired and (self.law.outputs % 2 or self.law.outputs < 2 * self.items + 2):
            raise ParameterError("pairs need an even number of buckets, at least 2 s + 2")

    @property
    def sampled_law(self) -> tuple[TwoLevel, int]:
        return self.law, 1

    @property
    def items(self) -> int:
        """How many items a user has: s."""
        return self.law.favoured

    @property
    def places(self) -> int:
        """How many places an item can be hashed to: buckets, or pairs of them."""
        return self.law.outputs // 2 if self.paired else self.law.outputs

    @property
    def shape(self) -> tuple[int, int]:
        sides = 2 if self.paired else 1
        inputs = sum(comb(self.places, hit) * sides**hit for hit in self._hits)
        return inputs, self.law.outputs

    @property
    def _hits(self) -> range:
        return range(1, self.items + 1)

    def rest(self, hit: int) -> Fraction:
        """The weight of a bucket that is not spoken for, if `hit` places are."""
        spoken, width = (self.law.high + self.law.low, 2) if self.paired else (self.law.high, 1)
        return Fraction(self.law.total - hit * spoken, self.law.outputs - hit * width)

    def ratio(self) -> Fraction:
        weights = [Fraction(self.law.high), Fraction(self.law.low)] if self.paired else [Fraction(self.law.high)]
        weights += [self.rest(hit) for hit in self._hits]
        return max(weights) / min(weights)

    def divergence(self, ratio: Fraction) -> Fraction:
        return max(self._losses(ratio)) / self.law.total

    def _losses(self, ratio: Fraction) -> Iterator[Fraction]:
        """Of kinds of pairs of inputs, the weight that one has beyond `ratio` times the other's.

        It is linear in the number of shared places and of those with different sides, so that their extremes suffice.
        """
        high, low = self.law.high, self.law.low

        def beyond(one: Fraction | int, other: Fraction | int) -> Fraction:
            return max(Fraction(0), one - ratio * other)

        for one, other in product(self._hits, self._hits):
            mine, yours = self.rest(one), self.rest(other)
            for shared in (max(0, one + other - self.places), min(one, other)):
                free = self.places - one - other + shared
                if not self.paired:
                    yield (
                        (one - shared) * beyond(high, yours)
                        + (other - shared) * beyond(mine, high)
                        + shared * beyond(high, high)
                        + free * beyond(mine, yours)
                    )
                    continue
                for opposite in (0, shared):  # of the shared pairs, those where the two take different sides
                    yield (
                        (one - shared) * (beyond(high, yours) + beyond(low, yours))
                        + (other - shared) * (beyond(mine, high) + beyond(mine, low))
                        + opposite * (beyond(high, low) + beyond(low, high))
                        + (shared - opposite) * (beyond(high, high) + beyond(low, low))
                        + free * 2 * beyond(mine, yours)
                    )

    def blanket(self) -> Blanket:
        least = min([Fraction(self.law.low)] * self.paired + [self.rest(hit) for hit in self._hits])
        each = min(least, Fraction(self.law.high)) / self.law.total
        outputs = self.law.outputs
        return Blanket(each * outputs, (each,) * outputs if outputs <= 1 << 12 else None)

    def contrast(self) -> Contrast:
        # With fewer places hit a row is the average over further ones: the worst is s of them, and all apart.
        apart = min(self.items, self.law.outputs - self.items)
        return replace(self.law, apart=apart).contrast()

    def crowds(self) -> list[BlanketLaw]:
        """All apart, as in 003 Theorem 6: the user's s places, those of the other input, and those of all others.

        Of pairs the two inputs take different sides of the same ones.
        """
        own, sides = range(self.items), [Fraction(1), Fraction(0) if self.paired else Fraction(1)]
        moves = (0, 0, 1) if self.paired else (0, 1, 2)
        if self.places < (1 + max(moves)) * self.items or self.law.outputs > _MOST_BUCKETS:
            return []
        inputs = zip(moves, (*sides, Fraction(1)), strict=True)
        rows = [self.given({move * self.items + place: side for place in own}) for move, side in inputs]
        return [BlanketLaw.between(*rows)]

    def row(self, x: int) -> list[Fraction]:
        return self.given(self._inputs[x])

    @cached_property
    def _inputs(self) -> list[dict[int, Fraction]]:
        """Every set of places with, for pairs, a side for each: listed for small alphabets only."""
        sides = (Fraction(1), Fraction(0)) if self.paired else (Fraction(1),)
        return [
            dict(zip(places, chosen, strict=True))
            for hit in self._hits
            for places in combinations(range(self.places), hit)
            for chosen in product(sides, repeat=hit)
        ]

    def given(self, hit: dict[int, Fraction]) -> list[Fraction]:
        """P(. | these places), each with the probability that its first bucket is the favoured one."""
        high, low = self.law.high, self.law.low
        weights = [self.rest(len(hit))] * self.law.outputs
        for place, first in hit.items():
            if self.paired:
                weights[place] = first * high + (1 - first) * low
                weights[place + self.places] = first * low + (1 - first) * high
            else:
                weights[place] = Fraction(high)
        return [weight / self.law.total for weight in weights]
