"""Weighted variances: against every population of a few users, by the moments of the mechanisms alone."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import dither
from dither.core.cell_weights import CellWeights
from dither.core.domains import Categories
from dither.core.mechanism import Moments
from dither.mechanisms.weighted_variance import weighted_variance, worst_weighted_variance

USERS = 24
CATEGORIES = [
    dither.GRR(k=3, epsilon=1.0),
    dither.GRR(k=3, epsilon=4.0),
    dither.Unary(k=3, epsilon=1.0),
    dither.SubsetSelection(k=3, epsilon=0.5),
    dither.Hadamard(k=3, epsilon=1.0),
    dither.LocalHash(k=3, epsilon=2.0),
    dither.LocalHash(k=3, epsilon=2.0, cohorts=8),
    dither.Histogram("Piecewise", k=3, epsilon=2.0),
]
KEYS = [
    dither.Collision(d=3, s=2, epsilon=1.0),
    dither.CoCo(d=3, s=2, epsilon=2.0),
    dither.PCKV_GRR(d=3, s=2, epsilon=3.0),
    dither.PCKV_UE(d=3, s=2, epsilon=1.0),
]
WEIGHTS = [{}, {0: 5.0}, {0: 0.2}, {0: 5.0, 1: 0.1}, {0: 3.0, 1: 3.0, 2: 3.0}]


def label(value: Any) -> str:
    return str(value)


def populations(kinds: int) -> Iterator[np.ndarray]:
    """The shares of every crowd of USERS users of so many kinds."""
    for bars in itertools.combinations(range(USERS + kinds - 1), kinds - 1):
        yield np.diff([-1, *bars, USERS + kinds - 1]) / USERS - 1 / USERS


@pytest.mark.parametrize("mechanism", CATEGORIES, ids=label)
@pytest.mark.parametrize("share", [1.0, 0.4, 0.05])
def test_no_population_of_categories_is_worse(mechanism, share):
    moments = mechanism.moments(np.arange(3))
    noise = moments.variance + moments.bias**2
    crowds = list(populations(3))
    for named in WEIGHTS:
        weights = CellWeights(3, named)
        each = weights.each()
        seen = [float(each @ (held @ noise + (1 - share) * held * (1 - held))) / each.sum() for held in crowds]
        worst = worst_weighted_variance(mechanism.reading, weights, share)
        # Next to the worst shares lie some of these users', less than one user away in each.
        assert max(seen) - 1e-9 <= worst <= max(seen) + (1 - share) * 3 / USERS**2 + 1e-9
        for held, found in zip(crowds[::40], seen[::40], strict=True):
            assert weighted_variance(mechanism.reading, weights, held, share) == pytest.approx(found, rel=1e-9)


def vectors(values: tuple[float, ...]) -> list[dict[int, float]]:
    """Users with up to two of three keys."""
    held = [keys for count in range(3) for keys in itertools.combinations(range(3), count)]
    return [dict.fromkeys(keys, value) for keys in held for value in (values if keys else (0.0,))]


@pytest.mark.parametrize("mechanism", KEYS, ids=label)
@pytest.mark.parametrize("about", ["presence", "mean"])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_no_population_of_keys_is_worse(mechanism, about, share):
    reading = replace(mechanism.reading, about=about)
    users = vectors((1.0,) if about == "presence" else (0.0, 1.0, -1.0))
    found, truth = reading.moments(users), reading.truth(users)
    noise = found.variance + found.bias**2
    random = np.random.default_rng(3)
    some = [*np.eye(len(users)), *random.dirichlet(np.full(len(users), 0.15), 4000)]
    for named in WEIGHTS:
        weights = CellWeights(3, named)
        each = weights.each()

        def cost(held: np.ndarray, each: np.ndarray = each) -> float:
            spread = held @ truth**2 - (held @ truth) ** 2
            return float(each @ (held @ noise + (1 - share) * spread)) / each.sum()

        worst = worst_weighted_variance(reading, weights, share)
        seen = max(map(cost, some))
        assert seen <= worst * (1 + 1e-9)
        assert worst <= seen * 1.02
        if not named:
            assert worst == pytest.approx(reading.worst_variance(share), rel=1e-9)


@pytest.mark.parametrize("about", ["presence", "mean"])
def test_keys_of_which_a_report_is_about_one(about):
    # Of PrivKV moments are no better than what is estimated. A key of its own has the worst of its holders, who may be
    # all users; where they are half, presence has the most of who was asked.
    reading = replace(dither.PrivKV(d=3, s=2, epsilon=1.0).reading, about=about)
    absent, more, unasked = reading.worst_parts(0.5)
    most = max(h * more + unasked * h * (1 - h) for h in np.linspace(0, 1, 1001))
    assert worst_weighted_variance(reading, CellWeights.only(3, 1), 0.5) == pytest.approx(3 * (absent + most), rel=1e-5)
    for share in (1.0, 0.5):
        found = worst_weighted_variance(reading, CellWeights(3, {}), share)
        assert found == pytest.approx(reading.worst_variance(share), rel=1e-12)


def test_equal_weights_are_no_weights():
    for mechanism in CATEGORIES[:6]:
        for share in (1.0, 0.3):
            for named in ({}, {0: 1.0}, dict.fromkeys(range(3), 5.0)):
                found = worst_weighted_variance(mechanism.reading, CellWeights(3, named), share)
                assert found == pytest.approx(mechanism.reading.worst_variance(share), rel=1e-12)


def test_who_is_worst_where_everybody_is_asked():
    # Of GRR a holder has more noise than others, so all hold the heaviest; of Hadamard less, so all hold the lightest.
    for mechanism, heaviest in ((dither.GRR(k=8, epsilon=1.0), True), (dither.Hadamard(k=8, epsilon=1.0), False)):
        reading = mechanism.reading
        weights = CellWeights(reading.k, {0: 9.0})
        own, other = float(reading.variance(1.0)), float(reading.variance(0.0))
        assert (own > other) is heaviest
        held = 9.0 if heaviest else 1.0
        assert worst_weighted_variance(reading, weights) == pytest.approx(
            other + held / (reading.k + 8) * (own - other), rel=1e-12
        )


@dataclass(frozen=True)
class Own:
    """A reading of somebody else, who knows a report's moments and nothing more."""

    inner: Any

    @property
    def domain(self) -> Categories:
        return self.inner.domain

    def worst_variance(self, share: float = 1.0) -> float:
        return self.inner.worst_variance(share)

    def moments(self, x: Any) -> Moments:
        return self.inner.moments(x)

    def estimate(self, *collected: Any) -> Any:
        return self.inner.estimate(*collected)


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_a_reading_of_somebody_else_is_read_through_its_moments(share):
    reading = dither.GRR(k=20, epsilon=1.0).reading
    own: Any = Own(reading)
    weights = CellWeights(20, {3: 7.0, 4: 0.1})
    shares = np.random.default_rng(1).dirichlet(np.ones(20))
    assert worst_weighted_variance(own, weights, share) == pytest.approx(
        worst_weighted_variance(reading, weights, share), rel=1e-12
    )
    assert weighted_variance(own, weights, shares, share) == pytest.approx(
        weighted_variance(reading, weights, shares, share), rel=1e-12
    )


def test_millions_of_keys_take_no_memory():
    reading = dither.PCKV_GRR(d=1 << 29, s=3, epsilon=20.0).reading
    found = worst_weighted_variance(reading, CellWeights(1 << 29, {5: 100.0}), 0.5)
    assert found > reading.worst_variance(0.5)
