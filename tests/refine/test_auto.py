"""What suits a question: frequencies end among the frequencies, means are shrunk, and the first estimate is kept."""

import numpy as np
import pytest

import dither
from dither import refine
from dither.core.estimate import MEAN, SHARES
from refine.test_shrink import noisy, some


@pytest.mark.parametrize("size", [2, 4, 30])
def test_frequencies_add_up_to_one(size):
    truth = np.random.default_rng(size).dirichlet(np.ones(size))
    found = noisy(truth, 0.1, 1, SHARES)
    better = found.refine()
    assert (better.value >= 0).all()
    assert better.value.sum() == pytest.approx(1, abs=1e-12)
    assert better.original is found
    np.testing.assert_array_equal(better.value, refine.simplex(refine.shrink(found)).value)
    assert [note.split()[0].strip(":") for note in better.notes] == ["Shrink", "Projected"]


@pytest.mark.parametrize("bounds", [MEAN, None])
def test_means_are_shrunk(bounds):
    found = noisy(np.full(40, 0.4), 0.2, 2, bounds)
    better = found.refine("auto")
    np.testing.assert_array_equal(better.value, refine.shrink(found).value)
    assert better.original is found
    assert np.mean((better.value - 0.4) ** 2) < 0.3 * np.mean((found.value - 0.4) ** 2)


def test_one_mean_has_its_range():
    better = refine.auto(some(np.float64(1.4), 0.1))
    assert np.shape(better.value) == ()
    assert 0.9 < better.value < 1


def test_shares_that_do_not_add_up_are_only_shrunk():
    found = noisy(np.full(20, 0.5), 0.1, 3, SHARES._replace(total=None))
    assert refine.auto(found).value.sum() > 5


def test_frequencies_of_a_real_mechanism_gain():
    mechanism = dither.GRR(k=50, epsilon=1.0)
    truth = np.append([0.5, 0.3], np.full(48, 0.2 / 48))
    people = np.repeat(np.arange(50), np.round(truth * 20_000).astype(int))
    found = mechanism.estimate(mechanism.tally(mechanism.randomize(people, seed=1)))
    better = found.refine()
    assert np.mean((better.value - truth) ** 2) < 0.5 * np.mean((found.value - truth) ** 2)
