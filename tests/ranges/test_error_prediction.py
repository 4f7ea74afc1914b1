"""The predicted error of a query: its parts by hand, 004's numbers, and what no one can predict."""

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.ranges import CALM, HDG, HIO, MSW, TDG, Copula, Uniform
from dither.ranges.error_prediction import HARD, TYPICAL, predicted
from dither.ranges.granularity import cut_share, noise

# The MAE of HDG as its authors' code has it, Normal and Laplace, for one million users and six attributes of 64 values.
GOLDEN = {0.5: (0.0386, 0.0375), 1.0: (0.0186, 0.0171), 2.0: (0.0140, 0.0135)}
PER_RMSE = np.sqrt(2 / np.pi)  # MAE of normal errors


@pytest.mark.parametrize("epsilon", GOLDEN)
def test_golden_errors_of_004(epsilon):
    mechanism = HDG(shape=(64,) * 6, epsilon=epsilon, n=10**6, granularity="guideline")
    typical, hard = (predicted(mechanism, 10**6, alpha=alpha).rmse * PER_RMSE for alpha in (TYPICAL, HARD))
    for found in GOLDEN[epsilon]:
        assert 0.6 * found < typical < 1.2 * found
        assert found < hard < 3 * found


def test_the_parts_of_a_grid_by_hand():
    mechanism = HDG(shape=(64, 64), epsilon=1.0, n=30_000, granularity=(16, 4))
    found = predicted(mechanism, 30_000, 60_000, alpha=0.05)
    assert found.noise == pytest.approx(16 / 4 * noise(16, 1.0) / 10_000)  # three groups of 10,000
    assert found.sampling == pytest.approx(1 / 4 * 3 / 4 * (1 - 1 / 6) / 10_000)
    assert found.guessed == pytest.approx((0.05 * 2 * cut_share(4, 64)) ** 2)
    assert found.rmse**2 == pytest.approx(found.mse) == pytest.approx(sum(found))


def test_the_parts_of_a_copula_by_hand():
    mechanism = Copula(shape=(64, 3), epsilon=1.0, n=10_000, nominal=(1,))
    first, second, pair = mechanism.groups
    each = 10_000 / (first.share + second.share + pair.share)
    (rows, columns), users = pair.grid.shape, pair.share * each
    margins = 4 * noise(1024, 1.0) / (first.share * each), 3 / 2 * noise(3, 1.0) / (second.share * each)
    found = predicted(mechanism, 10_000)
    assert columns == 3
    assert found.noise == pytest.approx(rows * 3 / 16 * noise(rows * 3, 1.0) / users + sum(margins) / 4)
    assert found.guessed == pytest.approx((HARD * cut_share(rows, 64)) ** 2)  # nothing of a label is cut


def test_the_average_is_over_pairs():
    whole = predicted(TDG(shape=(64, 64, 8), epsilon=1.0, n=30_000, granularity=(2, 4)), 30_000)
    shapes = [(64, 64), (64, 8), (64, 8)]
    alone = [predicted(TDG(shape=shape, epsilon=1.0, n=10_000, granularity=(2, 4)), 10_000, 30_000) for shape in shapes]
    np.testing.assert_allclose(whole, np.mean(np.array(alone), axis=0))


def test_one_attribute():
    for mechanism in (Copula(shape=(64,), epsilon=1.0, n=1000), HDG(shape=(64,), epsilon=1.0, n=1000)):
        assert 0 < predicted(mechanism, 4000).mse < predicted(mechanism, 1000).mse


def test_all_users_leave_nothing_to_sampling_but_groups():
    mechanism = CALM(shape=(4, 4), epsilon=1.0, n=1000)
    assert predicted(mechanism, 1000).sampling == 0
    assert predicted(mechanism, 1000, 2000).sampling > 0
    assert predicted(mechanism, 1000).guessed == 0


@pytest.mark.parametrize("method", [MSW, Uniform, HIO])
def test_what_is_not_asked_pair_by_pair_is_as_good_as_the_data(method):
    with pytest.raises(ParameterError, match="depends on the data"):
        predicted(method(shape=(8, 8), epsilon=1.0, n=1000), 1000)
