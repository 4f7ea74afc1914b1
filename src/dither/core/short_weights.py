"""Short weights: the same mechanism with integers so small that all tapes of short words can be run.

A production law has weights of some fifty bits, and nobody lists 2^50 words. The sampler does not know how long its
words are, so it may be run with words of 2 to 12 bits and weights whose total fits them; what it does with them is what
it does with long ones. Where it can be had the total is no power of two: then some words are rejected, or that would go
untested. `Mechanism.shortened` makes them; here is how for the laws that most mechanisms have.
"""

from dataclasses import replace
from math import floor
from typing import Any, TypeVar

from dither.core.additive_channel import AdditiveChannel
from dither.core.channel import TwoLevel
from dither.core.exact import exp_below, log_above, root_below

T = TypeVar("T")

FEW_NOISES = AdditiveChannel((9, 7, 4, 2, 1), steps=2, reach=2)  # a total that rejects some words
EVEN_NOISES = AdditiveChannel((6, 3, 2), steps=1, reach=1)  # one that does not
FEWEST_NOISES = AdditiveChannel((4, 2, 1), steps=1, reach=1)  # where several are drawn at once


def short_two_level(mechanism: T, limit: int, rejecting: bool = True) -> T | None:
    """With a two-level law of a total up to `limit`, which the limit is no multiple of if `rejecting`."""
    own: Any = mechanism
    sampled: tuple[TwoLevel, int] | None = own.channel().sampled_law
    if sampled is None:
        return None
    law, draws = sampled
    ratio = root_below(exp_below(own.epsilon), draws)
    lattice = tuple(min(size, most) for size, most in zip(own.weights[2:], (3, 5), strict=False))
    favoured, outputs = (lattice[0], sum(lattice)) if lattice else (law.favoured, law.outputs)
    for low in range(floor(limit / (favoured * ratio + outputs - favoured)) + 1, 0, -1):
        for high in (floor(low * ratio), floor(low * ratio) - 1):
            total = favoured * high + (outputs - favoured) * low
            if high > low and total <= limit and bool(limit % total) == rejecting:
                return replace(own, weights=(high, low, *lattice))
    return None


def short_noise(mechanism: T, law: AdditiveChannel) -> T:
    """With this table of noise, and the budget that it keeps."""
    weights = (*law.weights, law.steps, law.reach, law.stretch)
    return replace(mechanism, epsilon=log_above(law.ratio()), weights=weights)  # type: ignore[type-var]


def short_components(components: Any, limit: int) -> tuple[Any, ...] | None:
    """The integers of shortened components; None if one of them cannot be had for its budget."""
    short = [(part, part.shortened(limit)) for part in components]
    if any(small is None or small.epsilon > part.epsilon for part, small in short):
        return None
    return tuple(small.weights for _, small in short)
