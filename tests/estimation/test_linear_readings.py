"""What several sources tell together is the textbook's generalised least squares, and never worse than one alone.

All of this is linear algebra, and is compared to rounding. Sources have a ridge of a thousandth of their mean variance,
which the regression by hand has, too; without it all is the same to `NEAR`.
"""

from itertools import cycle

import numpy as np
import pytest

from dither.core.covariance import Covariance
from dither.core.estimate import Estimate
from dither.core.guarantee import Guarantee
from dither.estimation import linear_readings
from dither.estimation.linear_readings import CombinedReadings, LinearReading, combined

CLOSE = 1e-5
NEAR = 4e-3  # of a variance
AGREED = 1e-8  # the sum of all shares is known a million times better than they are: so much is rounding
CASES = range(12)

MANY = 10**15  # reports: so many that the covariances they state are weighed as they are


def readings(case: int, values: int = 5) -> tuple[LinearReading, ...]:
    """Some shares, a mean and a threshold among others, with errors that go together in some of them."""
    draw = np.random.default_rng(case)
    truth = draw.dirichlet(np.ones(values))
    rows = [np.linspace(-1, 1, values)[None], np.tri(2, values, 1), np.eye(values), draw.normal(size=(3, values))]
    chosen = [rows[place] for place in draw.permutation(len(rows))[: draw.integers(1, len(rows) + 1)]]
    return tuple(_reading(draw, own, truth) for own in chosen)


def _reading(draw: np.random.Generator, rows: np.ndarray, truth: np.ndarray) -> LinearReading:
    mixed = draw.normal(size=(len(rows), len(rows)))
    spread = 1e-4 * draw.uniform(0.1, 10) * (mixed @ mixed.T + 0.1 * np.eye(len(rows)))
    value = rows @ truth + np.linalg.cholesky(spread) @ draw.normal(size=len(rows))
    return LinearReading(rows, value, spread, int(draw.integers(10, 1000)) * MANY, float(draw.uniform(0, 0.01)))


def by_hand(sources: tuple[LinearReading, ...], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One large regression: all rows below each other, covariances in blocks; a pseudoinverse where some is open."""
    below = np.concatenate([source.rows for source in sources])
    value = np.concatenate([source.value for source in sources])
    blocks, true = np.zeros((len(below), len(below))), np.zeros((len(below), len(below)))
    start = 0
    for source in sources:
        stop = start + len(source.value)
        ridge = linear_readings._RIDGE * np.trace(source.covariance) / len(source.value)
        blocks[start:stop, start:stop] = np.linalg.inv(source.covariance + ridge * np.eye(len(source.value)))
        true[start:stop, start:stop] = source.covariance
        start = stop
    spread = np.linalg.pinv(below.T @ blocks @ below, rcond=1e-11)
    weights = rows @ spread @ below.T @ blocks
    return weights @ value, weights @ true @ weights.T


@pytest.mark.parametrize("case", CASES)
def test_they_are_put_together_as_the_textbook_does(case):
    sources = readings(case)
    together = CombinedReadings(sources)
    for rows in [*(source.rows for source in sources), np.concatenate([source.rows for source in sources]) / 3]:
        assert together.tells(rows)
        value, covariance = by_hand(sources, rows)
        found = together.of(rows)
        assert found.value == pytest.approx(value, rel=CLOSE, abs=CLOSE)
        assert found.covariance == pytest.approx(covariance, rel=CLOSE, abs=CLOSE * float(np.abs(covariance).max()))


@pytest.mark.parametrize("case", CASES)
def test_the_weights_are_those_of_an_unbiased_estimate_with_the_stated_variance(case):
    """Whatever the shares are, each number is read as it should be; and the covariance is that of the weights."""
    sources = readings(case)
    for rows in (source.rows for source in sources):
        found = CombinedReadings(sources).of(rows)
        pairs = list(zip(found.weights, sources, strict=True))
        assert sum(own @ source.rows for own, source in pairs) == pytest.approx(rows, abs=CLOSE)
        assert sum(own @ source.value for own, source in pairs) == pytest.approx(found.value, abs=1e-12)
        spread = sum(own @ source.covariance @ own.T for own, source in pairs)
        room = NEAR * max(float(np.trace(source.covariance)) for source in sources)
        stated = found.covariance - spread  # which has the ridges: never too little
        assert np.linalg.eigvalsh(stated).min() >= -1e-12
        assert np.linalg.eigvalsh(stated).max() <= room


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("whole", [False, True])
def test_no_source_is_worse_for_the_others(case, whole):
    """The covariance of what a source reads itself is not larger in any direction, however many others there are."""
    sources = readings(case)
    together = combined(sources) if whole else CombinedReadings(sources)
    for source in sources:
        gained = source.covariance - together.of(source.rows).covariance
        assert np.linalg.eigvalsh(gained).min() >= -NEAR * float(np.trace(source.covariance))


@pytest.mark.parametrize("case", CASES)
def test_what_is_read_off_them_agrees(case):
    """A mean is that of the shares beside it: reading is linear, and so are errors."""
    sources = (*readings(case), _reading(np.random.default_rng(case), np.eye(5), np.full(5, 0.2)))
    together = combined(sources)
    shares = together.of(np.eye(5))
    for rows in (np.linspace(-1, 1, 5)[None], np.tri(5)):
        own = together.of(rows)
        assert own.value == pytest.approx(rows @ shares.value, abs=AGREED)
        assert own.covariance == pytest.approx(rows @ shares.covariance @ rows.T, rel=CLOSE, abs=1e-10)
    assert shares.value.sum() == pytest.approx(1.0, abs=CLOSE)


def test_what_cannot_be_told_is_not():
    mean = LinearReading(np.array([[-1.0, 0.0, 1.0]]), np.array([0.1]), np.array([[1e-4]]), MANY)
    assert CombinedReadings((mean,)).tells(2 * mean.rows)
    assert not CombinedReadings((mean,)).tells(np.eye(3))
    assert not CombinedReadings((mean,)).tells(np.ones((1, 3)))
    both = combined([mean])  # the sum of all shares is one
    assert both.tells(np.array([[0.0, 1.0, 2.0]]))
    assert not both.tells(np.array([[0.0, 1.0, 0.0]]))
    assert float(both.of(np.array([[0.0, 1.0, 2.0]])).value[0]) == pytest.approx(1.1, abs=1e-9)
    assert both.of(np.array([[0.0, 1.0, 2.0]])).covariance == pytest.approx(np.array([[1e-4]]), rel=NEAR)
    first = LinearReading(np.array([[1.0, 0.0, 0.0]]), np.array([0.3]), np.array([[1e-4]]), MANY)
    assert combined([mean, first]).tells(np.eye(3))


def test_two_alike_have_half_the_variance_and_their_mean():
    one = LinearReading(np.eye(2), np.array([0.2, 0.9]), 4e-4 * np.eye(2), MANY)
    other = one._replace(value=np.array([0.4, 0.7]))
    found = CombinedReadings((one, other)).of(np.eye(2))
    assert found.value == pytest.approx([0.3, 0.8], abs=1e-9)
    assert found.covariance == pytest.approx(2e-4 * np.eye(2), rel=NEAR)
    better = CombinedReadings((one, other._replace(covariance=1e-4 * np.eye(2)))).of(np.eye(2))
    assert better.value == pytest.approx([0.36, 0.74])  # four times the weight for a quarter of the variance


def test_errors_that_go_together_are_taken_out():
    """Two numbers share nearly all of their error, and another source knows one: then the other is known, too."""
    together = LinearReading(np.eye(2), np.array([0.5, 0.5]), 1e-2 * np.array([[1.0, 0.999], [0.999, 1.0]]), MANY)
    one = LinearReading(np.array([[1.0, 0.0]]), np.array([0.3]), np.array([[1e-8]]), MANY)
    found = CombinedReadings((together, one)).of(np.eye(2))
    assert found.value == pytest.approx([0.3, 0.3002], abs=1e-3)
    assert found.covariance[1, 1] == pytest.approx(1e-2 * (1 - 0.999**2), rel=0.01)


@pytest.mark.parametrize("case", CASES)
def test_slack_is_carried(case):
    sources = readings(case)
    together = CombinedReadings(sources)
    for source in sources:
        found = together.of(source.rows)
        worst = sum(np.abs(own).sum(axis=1) * other.slack for own, other in zip(found.weights, sources, strict=True))
        assert found.bias == pytest.approx(worst)
        off = [
            other._replace(value=other.value + other.slack * sign)
            for other, sign in zip(sources, cycle([1, -1]), strict=False)
        ]
        moved = CombinedReadings(tuple(off)).of(source.rows).value - found.value
        assert (np.abs(moved) <= found.bias * (1 + 1e-9)).all()
    none = CombinedReadings(tuple(source._replace(slack=0.0) for source in sources))
    assert not none.of(sources[0].rows).bias.any()


def test_an_estimate_as_a_reading():
    value, stderr = np.array([[0.1, 0.2], [0.3, 0.4]]), np.full((2, 2), 0.1)
    alone = Estimate(value, stderr, 7, Guarantee(1.0))
    reading = LinearReading.of_estimate(np.eye(4), alone, 0.5)
    assert (reading.value.tolist(), reading.reports, reading.slack) == ([0.1, 0.2, 0.3, 0.4], 7, 0.5)
    assert reading.covariance == pytest.approx(0.01 * np.eye(4))
    alike = Covariance(np.zeros(4), np.ones((4, 1)), np.ones((1, 1)))
    linked = Estimate(value, stderr, 7, Guarantee(1.0), correlation=alike)
    assert LinearReading.of_estimate(np.eye(4), linked).covariance == pytest.approx(np.full((4, 4), 0.01))


def test_shares_that_add_up_exactly_are_no_obstacle():
    """Their covariance has no inverse: the direction of their sum is without noise."""
    exact = 1e-4 * (np.eye(3) - np.full((3, 3), 1 / 3))
    shares = LinearReading(np.eye(3), np.array([0.2, 0.3, 0.5]), exact, MANY)
    mean = LinearReading(np.array([[-1.0, 0.0, 1.0]]), np.array([0.2]), np.array([[1e-4]]), MANY)
    found = combined([shares, mean]).of(np.eye(3))
    assert found.value.sum() == pytest.approx(1.0, abs=1e-6)
    # The mean alone has variance 2e-4 from the shares and 1e-4 from the other source.
    assert float(combined([shares, mean]).of(mean.rows).value[0]) == pytest.approx(
        (0.3 / 2 + 0.2) / 1.5, abs=1e-3 * NEAR + 1e-4
    )


def check_a_sum_that_is_missed_by_a_little() -> None:
    """An estimated covariance without noise in nearly the direction of the sum must not count as exact knowledge.

    Shares with the covariance diag(f) - f f' at shares f that add up to a little more than one: then another
    combination than the sum has hardly any noise. A better source must be able to move all shares.
    """
    near = np.array([0.5, 0.3, 0.21])
    spread = np.diag(near) - np.outer(near, near) / near.sum()
    tilt = np.diag([1.0, 1.0, 1.02])
    shares = LinearReading(np.eye(3), np.array([0.5, 0.3, 0.2]), 1e-4 * tilt @ spread @ tilt, MANY)
    better = LinearReading(np.eye(3)[2:], np.array([0.21]), np.array([[1e-9]]), MANY)
    found = combined([shares, better]).of(np.eye(3))
    assert found.value == pytest.approx([0.494, 0.296, 0.21], abs=1e-3)


def test_a_sum_that_is_missed_by_a_little():
    check_a_sum_that_is_missed_by_a_little()
