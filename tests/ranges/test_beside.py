"""What other reports tell about single attributes, in the marginals of a method for ranges."""

from typing import Any

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.estimation.linear_readings import LinearReading
from dither.ranges import HDG, MSW, Copula
from dither.ranges.collection import RangeReading

SHAPE = (300, 20, 4)
USERS = 3000
METHODS = {"Copula": Copula(SHAPE, 1.0, USERS, nominal=(2,)), "MSW": MSW(SHAPE, 1.0, USERS)}


def people(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    low = np.random.default_rng(1).beta(2.0, 4.0, USERS)
    return np.column_stack([np.minimum((low * size).astype(int), size - 1) for size in shape])


def fitted(mechanism: Any, beside: Any = None, records: np.ndarray | None = None):
    tally = mechanism.tally(mechanism.randomize(people(mechanism.shape) if records is None else records, seed=1))
    reading = mechanism.reading if beside is None else RangeReading(mechanism, beside)
    return mechanism.estimate(tally, reading).model


def mean_of(size: int, value: float, variance: float) -> LinearReading:
    rows = (2 * np.arange(size) + 1) / size - 1
    return LinearReading(rows[None], np.array([value]), np.array([[variance]]), 1000)


def mean(margin: Any) -> float:
    return float(((2 * np.arange(margin.value.size) + 1) / margin.value.size - 1) @ margin.value)


@pytest.fixture(scope="module", params=list(METHODS))
def method(request):
    return METHODS[request.param]


def test_without_readings_nothing_changes(method):
    alone = fitted(method)
    for beside in ({}, {0: ()}, {1: (mean_of(20, 0.5, np.inf),)}, {1: (mean_of(20, 0.5, 1e-6)._replace(reports=0),)}):
        for one, other in zip(alone.margins, fitted(method, beside).margins, strict=True):
            np.testing.assert_array_equal(one.value, other.value)
            np.testing.assert_array_equal(one.covariance, other.covariance)


@pytest.mark.parametrize("j", [0, 1])
def test_a_sharp_mean_is_the_mean_of_the_margin_and_of_no_other(method, j):
    alone = fitted(method)
    wanted = mean(alone.margins[j]) + 0.1
    model = fitted(method, {j: (mean_of(SHAPE[j], wanted, 1e-10),)})
    assert mean(model.margins[j]) == pytest.approx(wanted, abs=1e-3)
    for other in {0, 1, 2} - {j}:
        np.testing.assert_array_equal(model.margins[other].value, alone.margins[other].value)


def test_a_mean_counts_as_much_as_it_is_worth(method):
    alone = fitted(method)
    own = mean(alone.margins[0])
    moved = [mean(fitted(method, {0: (mean_of(300, own + 0.2, variance),)}).margins[0]) for variance in (1, 1e-3, 1e-5)]
    assert own < moved[0] < moved[1] < moved[2] < own + 0.2
    assert moved[0] - own < 0.01


@pytest.mark.parametrize("j", [1, 2])
def test_sharp_shares_are_reproduced(method, j):
    shares = np.random.default_rng(2).dirichlet(np.full(SHAPE[j], 5.0))
    sharp = LinearReading.one_by_one(np.eye(SHAPE[j]), shares, np.full(SHAPE[j], 1e-12), 1000)
    np.testing.assert_allclose(fitted(method, {j: (sharp,)}).margins[j].value, shares, atol=2e-4)


def test_errors_that_go_together_do_so_in_the_margin(method):
    """Shares of which only the differences are well known leave their sum to the other evidence."""
    alone = fitted(method).margins[1]
    pair = np.zeros((2, 20))
    pair[0, :4] = pair[1, 4:8] = 1.0
    together = np.full((2, 2), 1e-2) + 1e-12 * np.eye(2)
    reading = LinearReading(pair, np.array([0.5, 0.45]), together, 10**15)
    found = pair @ fitted(method, {1: (reading,)}).margins[1].value
    assert found[0] - found[1] == pytest.approx(0.05, abs=0.02)
    assert found.sum() == pytest.approx((pair @ alone.value).sum(), abs=0.2)


def test_slack_makes_a_reading_less_certain(method):
    own = mean(fitted(method).margins[0])
    sharp = mean_of(300, own + 0.1, 1e-10)
    strict, loose = (mean(fitted(method, {0: (each,)}).margins[0]) for each in (sharp, sharp._replace(slack=0.3)))
    assert own < loose < own + 0.08 < strict


def test_more_evidence_makes_answers_more_certain(method):
    shares = np.bincount(people()[:, 1], minlength=20) / USERS
    known = LinearReading.one_by_one(np.eye(20), shares, np.full(20, 1e-8), 10**6)
    weights = (np.arange(20) < 8)[None] * 1.0
    alone, beside = fitted(method).margins[1], fitted(method, {1: (known,)}).margins[1]
    assert beside.variance(weights)[0] < alone.variance(weights)[0] / 10


def test_many_labels_take_readings_too():
    mechanism = Copula((200, 4), 2.0, USERS, nominal=(0,))
    records = people((200, 4))
    shares = np.bincount(records[:, 0], minlength=200) / USERS
    sharp = LinearReading.one_by_one(np.eye(200), shares, np.full(200, 1e-12), 1000)
    np.testing.assert_allclose(fitted(mechanism, {0: (sharp,)}).margins[0].value, shares, atol=1e-5)
    half = (np.arange(200) < 50).astype(np.float64)
    total = LinearReading(half[None], np.array([0.5]), np.array([[1e-12]]), 1000)
    sums = []
    for seed in range(8):  # shares are kept from being negative, which moves sums of so many of so few reports
        tally = mechanism.tally(mechanism.randomize(records, seed=seed))
        told = RangeReading(mechanism, beside={0: (total,)})
        sums.append([half @ mechanism.estimate(tally, each).marginal(0).value for each in (None, told)])
    alone, beside = np.mean(sums, axis=0)
    assert 0.25 < alone + 0.02 < beside < 0.5


def test_attributes_that_nobody_reported_are_known_from_beside():
    mechanism = Copula((200, 4), 2.0, 10, nominal=(0,))
    shares = np.random.default_rng(3).dirichlet(np.full(200, 5.0))
    sharp = LinearReading.one_by_one(np.eye(200), shares, np.full(200, 1e-12), 1000)
    records = np.zeros((1, 2), dtype=np.int64)
    tally = next(
        tally
        for tally in (mechanism.tally(mechanism.randomize(records, seed=seed)) for seed in range(50))
        if mechanism.collected(tally)[0].n == 0
    )
    beside, alone = (mechanism.estimate(tally, reading) for reading in (RangeReading(mechanism, {0: (sharp,)}), None))
    np.testing.assert_allclose(beside[0].value, shares, atol=1e-6)
    np.testing.assert_allclose(alone[0].value, 1 / 200)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ParameterError, match="column"):
        RangeReading(METHODS["Copula"], {1: (mean_of(300, 0.0, 1.0),)})
    with pytest.raises(ParameterError):
        RangeReading(METHODS["Copula"], {3: (mean_of(300, 0.0, 1.0),)})
    grids = HDG((20, 8), 1.0, USERS)
    with pytest.raises(ParameterError, match="takes no readings"):
        fitted(grids, {0: (mean_of(20, 0.0, 1.0),)})
    fitted(grids, {0: ()})


def test_a_marginal_is_smoothed_in_as_many_cells_as_a_reading_says(method):
    tally = method.tally(method.randomize(people(), seed=1))
    usual, fewer = (method.estimate(tally, RangeReading(method, smoothed=cells)) for cells in ({}, {0: 50}))
    assert len(fewer.model.margins[0].cuts) <= 51 + 16 < len(usual.model.margins[0].cuts)
    for j in (1, 2):
        np.testing.assert_array_equal(usual.model.margins[j].value, fewer.model.margins[j].value)
    half = {0: (0, 149)}
    assert abs(usual.answer(half).value - fewer.answer(half).value) < usual.answer(half).stderr
