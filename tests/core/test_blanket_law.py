"""The algebra of blanket laws: what products, mixtures and shorter laws keep, and the order in which they go up."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import dither
from dither.core.additive_channel import AdditiveChannel
from dither.core.blanket_law import BlanketLaw
from dither.core.channel import Channel, TwoLevel
from dither.core.composite_channels import Independent

THREE, FAR = TwoLevel(2, 1, 1, 3), TwoLevel(5, 1, 2, 6, apart=2)
SCALES = [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 1.3), (0.4, 1.0), (2.0, 1.0)]


def above(one: BlanketLaw, other: BlanketLaw) -> bool:
    """Whether one law is above another, on a grid of convex functions."""
    for a, b in SCALES:
        levels = np.linspace(-b * one.second.max() - 1, a * one.first.max() + 1, 80)
        values = []
        for law in (one, other):
            gains, left = a * law.first - b * law.second, max(0.0, 1 - law.mass.sum())
            values.append(law.mass @ np.maximum(gains[:, None] - levels, 0.0) + left * np.maximum(-levels, 0.0))
        if (values[0] < values[1] - 1e-12).any():
            return False
    return True


def pairs(channel: Channel) -> list[BlanketLaw]:
    """The laws of all pairs of inputs, over the least of all rows."""
    rows = [channel.row(x) for x in range(channel.shape[0])]
    under = [min(column) for column in zip(*rows, strict=True)]
    return [BlanketLaw.between(one, other, under) for one, other in product(rows, repeat=2)]


CHANNELS = {
    "two levels": THREE,
    "two levels, two apart": TwoLevel(
        5, 1, 2, 4, apart=2, inputs=6, members=lambda x: [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)][x]
    ),
    "noise of one step": AdditiveChannel((4, 2, 1), 1, 1),
    "noise of two steps": AdditiveChannel((8, 4, 2, 2), 2, 1),
    "noise of four steps": AdditiveChannel((64, 32, 16, 8, 4, 2, 2), 4, 2),
    "flat noise": AdditiveChannel((40, 36, 26, 15, 7, 4), 3, 2),
    "a record": Independent.all_of([THREE, TwoLevel(3, 1, 1, 2)]),
    "a record with noise": Independent.all_of([AdditiveChannel((8, 4, 2, 2), 2, 1), THREE]),
    "unary": dither.Unary(k=3, epsilon=1.0).channel(),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_a_law_is_above_those_of_all_pairs(name):
    law = CHANNELS[name].blanket_law()
    assert law is not None
    assert all(above(law, each) for each in pairs(CHANNELS[name]))
    assert not all(above(each, law) for each in pairs(CHANNELS[name]))  # the test can tell


@pytest.mark.parametrize("name", CHANNELS)
def test_a_law_is_of_two_laws_and_the_same_in_both_orders(name):
    law = CHANNELS[name].blanket_law()
    assert law is not None
    assert law.mass.sum() <= 1 + 1e-12
    assert law.mass @ law.first == pytest.approx(1, abs=1e-12)
    assert law.mass @ law.second == pytest.approx(1, abs=1e-12)
    assert float((law.first / law.second).max()) <= float(CHANNELS[name].ratio()) * (1 + 1e-9)
    swapped = BlanketLaw(law.mass, law.second, law.first)
    assert above(law, swapped)
    assert above(swapped, law)


def test_registered_mechanisms_have_laws():
    """All but those whose reports have no pure epsilon, or whose groups do not hide each other."""
    without = set()
    for name, cls in dither.registry.items():
        channel = cls(**cls.examples[0]).channel()
        law = None if channel.announced else channel.blanket_law()
        if law is None:
            without.add(name)
            continue
        assert law.mass @ law.first == pytest.approx(1, abs=1e-9)
        assert law.mass @ law.second == pytest.approx(1, abs=1e-9)
    assert without == {"Personalised", "BallGaussian"}


def test_products_and_powers():
    law = BlanketLaw.of(THREE.contrast())
    cubed = law**3
    assert above(cubed, law * law * law)
    assert above(law * law * law, cubed)
    assert cubed.mass.size <= 16
    assert cubed.first.max() == pytest.approx(8)


def test_drawing_is_a_mixture_over_the_choices():
    one, other = BlanketLaw.of(THREE.contrast()), BlanketLaw.of(FAR.contrast())
    found = BlanketLaw.drawn([(one, 2), (other, 1)], 2)
    byhand = BlanketLaw.mixture([(one * one, 1 / 3), (one * other, 2 / 3)])
    assert above(found, byhand)
    assert above(byhand, found)
    everything = BlanketLaw.drawn([(one, 2), (other, 1)], 3)
    assert above(everything, one * one * other)
    assert above(one * one * other, everything)


def test_a_shorter_law_is_above_and_near():
    law = BlanketLaw.of(TwoLevel(11, 10, 1, 5).contrast()) ** 30
    assert law.mass.size > 300
    short = law.reduced(144)
    assert short.mass.size <= 144
    assert above(short, law)
    assert short.mass @ short.first == pytest.approx(1, abs=1e-12)
    variance = [each.mass @ (each.first - each.second) ** 2 for each in (law, short)]
    assert variance[0] <= variance[1] <= 1.1 * variance[0]
    assert not above(law, short)


def test_one_hot_words():
    hot, cold = [Fraction(1, 4), Fraction(3, 4)], [Fraction(3, 5), Fraction(2, 5)]
    law = BlanketLaw.one_hot(hot, cold)
    assert law is not None
    assert law.mass @ law.first == pytest.approx(1)
    assert BlanketLaw.one_hot([Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)]) is None
    crowd = BlanketLaw.one_hot_crowd(hot, cold)
    assert (crowd.mass.sum(), crowd.mass @ crowd.first) == pytest.approx((1, 1))
