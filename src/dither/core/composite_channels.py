"""Channels made of channels: several coordinates, several groups, or a public tag.

`Product` is one input, encoded in independent coordinates; `Independent` has coordinates with inputs of their own,
of which some answer; `Announced` has groups that the report shows; `PublicMixture` has a tag that was drawn without
looking at the input. Their ratios multiply or are the worst of their parts, exactly. A divergence is exact where it
can be worked out (`core.privacy_losses`), and otherwise a bound that says so (`Channel.exact`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import inf, lcm, prod
from typing import Any

import numpy as np

from dither.core.blanket_law import BlanketLaw, Contrast
from dither.core.channel import Blanket, Channel, TwoLevel, Walk
from dither.core.exact import closely_above_log, exp_below, float_above, log_above, root_below
from dither.core.privacy_losses import (
    MOST_LISTED,
    Pairs,
    divergence_of,
    dominating,
    is_listed,
    walked_divergence,
    worst_choices,
)

_FEW_TAGS = 64
_SHORT = 12  # outputs of a coordinate, of which three are written out together
_MOST_WALKED = 16  # outputs of coordinates in which two inputs differ, looked through for a walk


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
    hidden: Contrast | None = None  # the two inputs that a crowd hides worst, where they have two levels
    one_hot: tuple[int, int] | None = None  # what a coordinate is given that the input names, and what all others are

    @property
    def shape(self) -> tuple[int, int]:
        return self.inputs, self.factor.shape[1] ** self.coordinates

    @property
    def exact(self) -> bool:
        return all(self.factor.shape[1] ** ((len(one) + 1) // 2) <= MOST_LISTED for one, _ in self.differing)

    @property
    def walk(self) -> Walk | None:
        """Of two inputs that differ in few bits, such as one bit each way."""
        (one, other), *more = self.differing
        if more or self.factor.shape[1] ** len(one) > _MOST_WALKED:
            return None
        weights: Counter[Fraction] = Counter()
        for up, down in self._words(one, other):
            if not up or not down:
                return None
            weights[Fraction(up, down)] += up
        most = max(weights)
        if set(weights) - {most, 1, 1 / most} or weights[1 / most] * most != weights[most]:
            return None
        return Walk.of(weights[most], weights[Fraction(1)], weights[1 / most])

    def in_coordinates(self, x: int) -> list[tuple[Channel, int]]:
        return [(self.factor, letter) for letter in self.encode(x)]

    def _words(self, one: Sequence[int], other: Sequence[int]) -> Pairs:
        """The outputs of some coordinates, with their weights if these are given `one` or `other`."""
        words: Pairs = [(1, 1)]
        for a, b in zip(one, other, strict=True):
            rows = self.factor.row(a), self.factor.row(b)
            whole = lcm(*(cell.denominator for row in rows for cell in row))
            given = ([cell.numerator * (whole // cell.denominator) for cell in row] for row in rows)
            letters = list(zip(*given, strict=True))
            words = [(up * more, down * less) for up, down in words for more, less in letters]
        return words

    @property
    def _pairs(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        return [ordered for one, other in self.differing for ordered in ((one, other), (other, one))]

    def ratio(self) -> Fraction | float:
        # Coordinates are independent: each takes its own worst output.
        return max(
            prod(
                (self.factor.ratio_between(a, b) for a, b in zip(one, other, strict=True) if a != b), start=Fraction(1)
            )
            for one, other in self._pairs
        )

    def divergence(self, ratio: Fraction) -> Fraction:
        if ratio >= self.ratio():
            return Fraction(0)
        if not self.exact:  # too many words to write down: basic composition, with the ratio split evenly
            letters = max(len(one) for one, _ in self.differing)
            return min(Fraction(1), letters * self.factor.divergence(root_below(ratio, letters)))
        return max(self._divergence(one, other, ratio) for one, other in self._pairs)

    def _divergence(self, one: tuple[int, ...], other: tuple[int, ...], ratio: Fraction) -> Fraction:
        half = len(one) // 2
        return divergence_of(self._words(one[:half], other[:half]), self._words(one[half:], other[half:]), ratio)

    def blanket(self) -> Blanket:
        return Blanket(self.common() if self.common else self.factor.blanket().mass ** self.coordinates)

    def contrast(self) -> Contrast | None:
        return self.hidden

    def blanket_law(self) -> BlanketLaw | None:
        if self.one_hot is None:
            return super().blanket_law()
        return BlanketLaw.one_hot(*(self.factor.row(letter) for letter in self.one_hot))

    def crowds(self) -> list[BlanketLaw]:
        if self.one_hot is None or self.coordinates < 3 or self.factor.shape[1] > _SHORT:
            return super().crowds()
        return [BlanketLaw.one_hot_crowd(*(self.factor.row(letter) for letter in self.one_hot))]

    def row(self, x: int) -> list[Fraction]:
        return _together(self.in_coordinates(x))


def _together(letters: Sequence[tuple[Channel, int]]) -> list[Fraction]:
    """The law of the outputs of these coordinates; the last coordinate varies fastest."""
    law = [Fraction(1)]
    for factor, letter in letters:
        law = [before * step for before in law for step in factor.row(letter)]
    return law


@dataclass(frozen=True)
class Announced(Channel):
    """Blocks of inputs with a public label each, which the report shows: a group that the user chose.

    Privacy is promised among the inputs of one block only; which block it was is no secret. Stated is the worst
    block.
    """

    blocks: tuple[Channel, ...]

    @property
    def parts(self) -> tuple[Channel, ...]:
        return self.blocks

    @property
    def listed(self) -> bool:
        """Not at once: no promise is made across its blocks."""
        return False

    @property
    def announced(self) -> bool:
        return True

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

    def law_by_tag(self, odds: Sequence[Fraction] | None) -> BlanketLaw | None:
        return _mixed(self.blocks, odds)

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

    Which ones answer is drawn without looking, and shown: all choices alike, or one coordinate with the given `odds`.

    Two inputs may differ in every coordinate, so likelihood ratios multiply, and the product is attained. So is the
    divergence, if one coordinate answers or if all have a walk, alike or not: the walks are put together, for every
    choice that can be the worst. Of very many walks this is done on a lattice, and is a bound; `gap` says by how much
    at most. Otherwise it is the bound of basic composition: with the ratio split evenly, or by the coordinates'
    `budgets`, the divergences add.
    """

    factors: tuple[Channel, ...]
    asked: int
    budgets: tuple[float, ...] | None = None  # the epsilons that coordinates were made for, where they differ
    odds: tuple[Fraction, ...] | None = None  # of coordinates of which one answers, where they differ
    looks_at: tuple[frozenset[str], ...] | None = None  # what inputs are made of, where coordinates share some of it

    @classmethod
    def all_of(cls, factors: Sequence[Channel]) -> "Independent":
        """Every coordinate answers."""
        return cls(tuple(factors), len(factors))

    @property
    def parts(self) -> tuple[Channel, ...]:
        """Its coordinates, each kind once."""
        return tuple({id(factor): factor for factor in self.factors}.values())

    @property
    def listed(self) -> bool:
        """Not where only some answer: rows are of all."""
        return self.asked == len(self.factors)

    @property
    def shape(self) -> tuple[int, int]:
        shapes = [factor.shape for factor in self.factors]
        return prod(inputs for inputs, _ in shapes), prod(sorted((outputs for _, outputs in shapes))[-self.asked :])

    @property
    def exact(self) -> bool:
        if not all(factor.exact for factor in self.parts):
            return False
        return self.asked == 1 or (self._choices is not None and is_listed(self._choices))

    @property
    def walk(self) -> Walk | None:
        """That of one coordinate, if one answers and all are alike."""
        return self._same.walk if self.asked == 1 and self._same is not None else None

    @property
    def _same(self) -> Channel | None:
        return self.factors[0] if all(factor == self.factors[0] for factor in self.parts) else None

    @cached_property
    def _walks(self) -> Counter[Walk] | None:
        """How many coordinates have each walk, if all have one."""
        number = Counter(map(id, self.factors))
        walks: Counter[Walk] = Counter()
        for factor in self.parts:
            if (walk := factor.walk) is None:
                return None
            walks[walk] += number[id(factor)]
        return walks

    @cached_property
    def _choices(self) -> list[dict[Walk, int]] | None:
        """Which walks may be the worst to answer, if all have one and if there are not too many choices."""
        return None if self._walks is None else worst_choices(self._walks, self.asked)

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
        if any(ratio == inf for ratio, times in ratios if times):
            return inf
        return float_above(sum((times * closely_above_log(ratio) for ratio, times in ratios), Fraction(0)))

    def divergence(self, ratio: Fraction) -> Fraction:
        if self.asked == 1:
            return max(factor.divergence(ratio) for factor in self.parts)
        if self._choices is not None:
            return walked_divergence(self._choices, ratio).most
        if ratio >= self.ratio():
            return Fraction(0)
        composed = self._composed(ratio)
        if self._walks is None:
            return composed
        every = {dominating(list(self._walks)): self.asked}
        return min(composed, walked_divergence([every], ratio).most)

    def gap(self, ratio: Fraction) -> Fraction:
        """By the lattice that losses were put on, where they were."""
        if self.asked == 1 or self._choices is None or not all(factor.exact for factor in self.parts):
            return super().gap(ratio)
        return walked_divergence(self._choices, ratio).gap

    def _composed(self, ratio: Fraction) -> Fraction:
        """Basic composition: what coordinates lose at their parts of the ratio adds up."""
        parts = self._parts_of(ratio)
        losses = self._worst(lambda factor: factor.divergence(parts[id(factor)]))
        return min(Fraction(1), sum((loss * times for loss, times in losses), Fraction(0)))

    def _parts_of(self, ratio: Fraction) -> dict[int, Fraction]:
        """What each coordinate may use up of a ratio: those of any `asked` of them multiply to no more than it."""
        budgets = self.budgets or ()
        most = sum((Fraction(each) for each in sorted(budgets)[-self.asked :]), Fraction(0))
        if not budgets or most > -Fraction(log_above(1 / ratio)):
            return dict.fromkeys(map(id, self.factors), root_below(ratio, self.asked))
        least: dict[int, float] = {}
        for factor, budget in zip(self.factors, budgets, strict=True):
            least[id(factor)] = min(budget, least.get(id(factor), budget))
        return {factor: exp_below(budget) for factor, budget in least.items()}

    def blanket(self) -> Blanket:
        least = sorted(factor.blanket().mass for factor in self.factors)[: self.asked]
        return Blanket(prod(least, start=Fraction(1)))

    def contrast(self) -> Contrast | None:
        # One coordinate is shown: inputs that agree in it are as good as hidden, and all others are its inputs.
        return self._same.contrast() if self.asked == 1 and self._same is not None else None

    def blanket_law(self) -> BlanketLaw | None:
        return self.law_by_tag(self.odds)

    def law_by_tag(self, odds: Sequence[Fraction] | None) -> BlanketLaw | None:
        if self.asked == 1:
            return _mixed(self.factors, odds)
        if odds is not None:
            return None  # the odds of a coordinate do not say those of several together
        number = Counter(map(id, self.factors))
        kinds = [(factor.blanket_law(), number[id(factor)]) for factor in self.parts]
        known = [(law, times) for law, times in kinds if law is not None]
        return BlanketLaw.drawn(known, self.asked) if len(known) == len(kinds) else None

    def crowds(self) -> list[BlanketLaw]:
        """Where one coordinate is shown with its name: inputs that differ in all that can, and in one alone.

        The inputs of coordinates that look at different things are free, so the crowds of all of these are one data
        set. Reports with other names may be left out, as whoever looks on may do: then they tell nothing, which is the
        atom where both likelihoods are those of the others.
        """
        if self.asked > 1:
            return super().crowds()
        chances = self.odds or (Fraction(1, len(self.factors)),) * len(self.factors)
        worst = {id(factor): max(factor.crowds(), key=_contrast, default=None) for factor in self.parts}
        told: list[tuple[int, BlanketLaw]] = []
        for place, factor in enumerate(self.factors):
            if (crowd := worst[id(factor)]) is not None:
                told.append((place, crowd))
        told.sort(key=lambda each: float(chances[each[0]]) * _contrast(each[1]), reverse=True)
        free: list[tuple[int, BlanketLaw]] = []
        for place, crowd in told:
            if self.looks_at is None or all(self.looks_at[place].isdisjoint(self.looks_at[other]) for other, _ in free):
                free.append((place, crowd))
        choices = [free, *([each] for each in told)] if len(free) > 1 else [[each] for each in told]
        return [_among_others([(crowd, chances[place]) for place, crowd in chosen]) for chosen in choices]

    def row(self, x: int) -> list[Fraction]:
        return _together(self.in_coordinates(x))

    def in_coordinates(self, x: int) -> list[tuple[Channel, int]]:
        return list(zip(self.factors, self.letters(x), strict=True))

    def letters(self, x: int) -> list[int]:
        """What input x gives to each coordinate; the last varies fastest."""
        found = []
        for factor in reversed(self.factors):
            x, letter = divmod(x, factor.shape[0])
            found.append(letter)
        return found[::-1]


@dataclass(frozen=True)
class Repeated(Independent):
    """One input, which all coordinates are given.

    Inputs that differ most in one coordinate do so in all, so that ratio and divergence are those of coordinates with
    inputs of their own: also where a coordinate is given a random input that depends on the one, such as a rounded one.
    """

    @property
    def sampled_law(self) -> tuple[TwoLevel, int] | None:
        """That of a coordinate, which are all alike."""
        sampled = self.factors[0].sampled_law
        return None if sampled is None else (sampled[0], sampled[1] * self.asked)

    @property
    def shape(self) -> tuple[int, int]:
        return self.factors[0].shape[0], super().shape[1]

    @property
    def repeats(self) -> tuple[Channel, ...]:
        return self.factors

    def letters(self, x: int) -> list[int]:
        return [x] * len(self.factors)


def _contrast(crowd: BlanketLaw) -> float:
    """How far apart the two inputs are in units of what others send: a crowd's epsilon grows with its root."""
    return float((crowd.mass * (crowd.first - crowd.second) ** 2).sum())


def _among_others(parts: Sequence[tuple[BlanketLaw, Fraction]]) -> BlanketLaw:
    """Crowds under tags with these chances, and nothing told under all other tags."""
    laws = [(law, float(chance)) for law, chance in parts]
    rest = 1 - sum((chance for _, chance in parts), Fraction(0))
    nothing = BlanketLaw(np.ones(1), np.ones(1), np.ones(1))
    return BlanketLaw.mixture([*laws, (nothing, float(rest))] if rest else laws)


def _mixed(channels: Sequence[Channel], odds: Sequence[Fraction] | None) -> BlanketLaw | None:
    """One of these, drawn with these odds, or with equal ones, and shown with its name."""
    chances = odds or [Fraction(1, len(channels))] * len(channels)
    kinds: dict[int, tuple[Channel, Fraction]] = {}
    for channel, chance in zip(channels, chances, strict=True):
        _, before = kinds.get(id(channel), (channel, Fraction(0)))
        kinds[id(channel)] = channel, before + chance
    laws = [(channel.blanket_law(), float(chance)) for channel, chance in kinds.values()]
    known = [(law, chance) for law, chance in laws if law is not None]
    return BlanketLaw.mixture(known).reduced() if len(known) == len(laws) else None


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
    attained: bool = True  # whether some inputs have the component's divergence; averages of its rows may not

    @property
    def walk(self) -> Walk | None:
        return self.component.walk

    @property
    def sampled_law(self) -> tuple[TwoLevel, int] | None:
        return self.component.sampled_law

    @property
    def shape(self) -> tuple[int, int]:
        return self.inputs, self.tags * self.component.shape[1] if self.outputs is None else self.outputs

    @property
    def tagged(self) -> bool:
        return self.tags > 1

    @property
    def outputs_by_tag(self) -> int:
        return self.component.shape[1]

    @property
    def worst_component(self) -> Channel:
        return self.component

    @property
    def exact(self) -> bool:
        return self.component.exact and self.attained

    @property
    def epsilon(self) -> float:
        return self.component.epsilon

    def ratio(self) -> Fraction | float:
        return self.component.ratio()

    def divergence(self, ratio: Fraction) -> Fraction:
        return self.component.divergence(ratio)

    def gap(self, ratio: Fraction) -> Fraction:
        return self.component.gap(ratio) if self.attained else super().gap(ratio)

    def blanket(self) -> Blanket:
        return Blanket(self.component.blanket().mass)

    def contrast(self) -> Contrast | None:
        # Everybody draws a tag in the same way, and under each the rows are averages of rows of the component.
        return self.component.contrast()

    def blanket_law(self) -> BlanketLaw | None:
        return self.component.law_by_tag(self.odds)

    def crowds(self) -> list[BlanketLaw]:
        """Of the component: all have drawn the same tag, such as one hash function that all share."""
        own = super().crowds() if self.tags <= _FEW_TAGS else []
        return own or self.component.crowds()

    def row(self, x: int) -> list[Fraction]:
        return [
            probability * (Fraction(1, self.tags) if self.odds is None else self.odds[tag])
            for tag in range(self.tags)
            for probability in self.given(x, tag)
        ]
