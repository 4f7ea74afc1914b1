"""What range reports tell about single attributes: without bias, with the variance that is stated, and no more rows."""

import numpy as np
import pytest
from scipy.stats import chi2, norm

from dither.errors import ParameterError, TallyError
from dither.estimation.linear_readings import combined
from dither.ranges import HDG, LHIO, MSW, Copula

ALARM = 1e-6  # the probability of a false alarm of a whole test
RUNS, USERS = 400, 1500
COPULA = Copula(shape=(40, 200, 5), epsilon=1.5, n=USERS, nominal=(2,))
GRIDS = HDG(shape=(12, 9), epsilon=2.0, n=USERS, granularity=(12, 3))


def people(shape: tuple[int, ...], n: int, seed: int = 3) -> np.ndarray:
    """Lopsided, with attributes that go together."""
    random = np.random.default_rng(seed)
    low = random.beta(2.0, 5.0, n)
    return np.column_stack(
        [np.minimum((low ** (1 + j / 2) * size).astype(int), size - 1) for j, size in enumerate(shape)]
    )


def truth(column: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(column, minlength=size) / len(column)


def places(size: int) -> np.ndarray:
    return (2 * np.arange(size) + 1) / size - 1


# Which ---------------------------------------------------------------------------------------------------------------


def test_each_group_tells_about_its_attributes():
    records = people(COPULA.shape, USERS)
    tally = COPULA.tally(COPULA.randomize(records, seed=1))
    found = COPULA.attribute_readings(tally)
    assert list(found) == [0, 1, 2]
    groups = {asked.grid.attributes: each for asked, each in zip(COPULA.groups, COPULA.collected(tally), strict=True)}
    assert [reading.reports for reading in found[0]] == [groups[key].n for key in ((0,), (0, 1), (0, 2))]
    outputs, first, _ = found[0]
    assert outputs.rows.shape[0] > 40  # the outputs of a window, which tell 40 cells apart
    np.testing.assert_allclose(outputs.rows.sum(axis=0), 1.0)
    assert first.rows.sum(axis=0).tolist() == [1.0] * 40
    mean, *_ = found[1]
    np.testing.assert_array_equal(mean.rows, places(200)[None])
    own = groups[1,].mechanism.estimate(groups[1,].tally)
    assert mean.value.tolist() == [float(own.value)]
    assert mean.covariance[0, 0] > float(own.stderr) ** 2  # those who were asked stand for all
    labels, *_ = found[2]
    np.testing.assert_array_equal(labels.rows, np.eye(5))
    np.testing.assert_allclose(labels.value, groups[2,].value)


def test_cells_have_the_covariance_of_their_estimate():
    records = people(GRIDS.shape, USERS)
    tally = GRIDS.tally(GRIDS.randomize(records, seed=1))
    collected = GRIDS.collected(tally)
    found = GRIDS.attribute_readings(tally, among=10 * USERS)
    for reading, each in zip(found[0], [collected[0], collected[2]], strict=True):
        beside = each.grid.size // each.grid.shape[0]
        assert reading.rows.shape == (each.grid.shape[0], 12)
        drawn = reading.value.clip(0, 1) * (1 - reading.value.clip(0, 1)) * (1 / each.n - 1 / (10 * USERS))
        if beside == 1:
            noise = each.mechanism.estimate(each.tally).stderr ** 2
            np.testing.assert_allclose(np.diag(reading.covariance), noise + drawn, rtol=0.1)
        assert np.linalg.eigvalsh(reading.covariance).min() > -1e-12


def test_more_users_who_might_have_been_asked_make_it_less_certain():
    tally = COPULA.tally(COPULA.randomize(people(COPULA.shape, USERS), seed=1))
    few, many = COPULA.attribute_readings(tally), COPULA.attribute_readings(tally, among=100 * USERS)
    for j in range(3):
        for one, other in zip(few[j], many[j], strict=True):
            np.testing.assert_array_equal(one.value, other.value)
            assert np.trace(one.covariance) < np.trace(other.covariance)
    with pytest.raises(ParameterError):
        COPULA.attribute_readings(tally, among=USERS - 1)
    with pytest.raises(TallyError):
        GRIDS.attribute_readings(tally)


def test_a_group_without_reports_tells_nothing():
    mechanism = MSW(shape=(8, 300), epsilon=1.0, n=2)
    tally = mechanism.tally(mechanism.randomize(np.zeros((1, 2), dtype=np.int64), seed=1))
    found = mechanism.attribute_readings(tally)
    assert sorted(len(readings) for readings in found.values()) == [0, 1]


def test_a_lattice_coarser_than_the_cells_tells_the_mean():
    mechanism = MSW(shape=(64,), epsilon=0.25, n=1000)
    tally = mechanism.tally(mechanism.randomize(people((64,), 1000), seed=1))
    (reading,) = mechanism.attribute_readings(tally)[0]
    assert reading.rows.shape == (1, 64)


def test_matrices_that_would_not_fit_are_left_out():
    mechanism = Copula(shape=(5000, 8), epsilon=1.0, n=1000, nominal=(0,))
    tally = mechanism.tally(mechanism.randomize(np.zeros((1000, 2), dtype=np.int64), seed=1))
    found = mechanism.attribute_readings(tally)
    assert all(reading.rows.size <= 1 << 22 for readings in found.values() for reading in readings)
    assert [len(reading.rows) for reading in found[0]] == [64]  # of the pair


def test_hierarchies_tell_about_every_level():
    mechanism = LHIO(shape=(16, 16), epsilon=2.0, n=2000)
    tally = mechanism.tally(mechanism.randomize(people((16, 16), 2000), seed=1))
    found = mechanism.attribute_readings(tally)
    assert len({len(reading.rows) for reading in found[0]}) > 1


# Whether it is true --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [COPULA, GRIDS], ids=["Copula", "HDG"])
def test_what_is_read_off_has_no_bias_and_the_stated_variance(mechanism):
    """Over many collections from the same users: of all readings together, and of each alone.

    The mean of RUNS errors in units of their stated errors is normal with variance 1 / RUNS, and the sum of their
    squares is that of a chi-square with RUNS degrees; each has its part of the probability of a false alarm.
    """
    records = people(mechanism.shape, USERS)
    wanted = {j: _asked(size) for j, size in enumerate(mechanism.shape)}
    apart: dict[tuple[int, str, int], list[float]] = {}
    for run in range(RUNS):
        tally = mechanism.tally(mechanism.randomize(records, seed=run))
        for j, readings in mechanism.attribute_readings(tally).items():
            true = truth(records[:, j], mechanism.shape[j])
            for name, some in [("all", readings), *((str(place), (each,)) for place, each in enumerate(readings))]:
                read = combined(some)
                for number, row in enumerate(wanted[j]):
                    if read.tells(row[None]):
                        found = read.of(row[None])
                        error = (found.value[0] - row @ true) / np.sqrt(found.covariance[0, 0])
                        apart.setdefault((j, name, number), []).append(float(error))
    checks = {key: np.array(errors) for key, errors in apart.items() if len(errors) == RUNS}
    assert {(j, "all", 0) for j in range(len(mechanism.shape))} <= set(checks)
    each = ALARM / (3 * len(checks))
    for key, errors in checks.items():
        assert abs(errors.mean()) * np.sqrt(RUNS) < norm.isf(each / 2), key
        assert (errors**2).sum() < chi2.isf(each, RUNS), key
        if key[1] != "all":  # together they are taken as independent, which states a little too much
            assert (errors**2).sum() > chi2.ppf(each, RUNS), key


def _asked(size: int) -> np.ndarray:
    """The mean, the share of the lower half, and of one value."""
    return np.stack([places(size), (np.arange(size) < size // 2) * 1.0, np.eye(size)[size // 4]])


def test_outputs_tell_more_of_the_mean_than_their_score():
    mechanism = MSW(shape=(32,), epsilon=1.0, n=5000)
    tally = mechanism.tally(mechanism.randomize(people((32,), 5000), seed=1))
    (outputs,) = mechanism.attribute_readings(tally)[0]
    score = mechanism.oracle(0).estimate(mechanism.collected(tally)[0].tally)
    found = combined([outputs]).of(places(32)[None])
    assert 0.8 < found.covariance[0, 0] / float(score.stderr) ** 2 < 0.99


# Before it is collected ----------------------------------------------------------------------------------------------


def test_what_a_report_is_worth_before_it_is_collected():
    odds = COPULA.layout.odds
    window, labels = COPULA.oracle(0).reading, COPULA.oracle(2).reading
    assert COPULA.mean_variance(0) == window.worst_variance(odds[0]) / odds[0]
    assert COPULA.mean_variance(0, 0.5) == window.worst_variance(odds[0] / 2) / odds[0] > COPULA.mean_variance(0)
    assert COPULA.share_variance(2) == labels.worst_variance(odds[2]) / odds[2]
    assert COPULA.mean_variance(2) is None
    assert COPULA.share_variance(0) is None
    assert GRIDS.mean_variance(0) is None
    assert GRIDS.share_variance(0) == GRIDS.oracle(0).reading.worst_variance(1 / 3) * 3
    assert HDG(shape=(12, 9), epsilon=2.0, n=USERS, granularity=(6, 3)).share_variance(0) is None  # two values a cell
    with pytest.raises(ParameterError):
        COPULA.mean_variance(3)


def test_the_worst_users_are_as_bad_as_is_said():
    """Half of them at each end: their mean has the variance that is predicted for the worst."""
    mechanism = Copula(shape=(1024, 1024), epsilon=1.0, n=20_000)
    records = np.repeat([[0, 0], [1023, 1023]], 10_000, axis=0)
    tally = mechanism.tally(mechanism.randomize(records, seed=1))
    mean = mechanism.attribute_readings(tally)[0][0]
    assert mean.covariance[0, 0] * tally.n == pytest.approx(mechanism.mean_variance(0), rel=0.05)
