"""The accountant of Gaussian noise on Poisson samples, against closed forms and dp-accounting from both sides."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as oracle

from dither.errors import ParameterError
from dither.privacy import noise_multiplier, subsampled_gaussian
from dither.privacy.accounting import subsampling as sampling
from dither.privacy.accounting.gaussian import gaussian_epsilon
from dither.privacy.accounting.privacy_loss import PrivacyLoss, tilted_mass
from marks import one_in, wide

# (multiplier, rate, steps, delta, grid of the oracle): epsilons from 0.1 to 20.
CASES = [
    (1.0, 0.01, 1000, 1e-5, 1e-4),
    (0.6, 0.001, 20_000, 1e-5, 2e-4),
    (7.72, 0.001, 20_000, 1e-10, 1e-5),
    (1.0, 0.001, 20_000, 1e-10, 1e-4),
    (2.0, 0.1, 1000, 1e-8, 2e-4),
    (5.0, 0.05, 10_000, 1e-5, 5e-5),
    (0.5, 0.001, 100, 1e-6, 4e-4),
    (3.0, 0.9, 50, 1e-5, 3e-4),
    (0.8, 0.2, 20, 1e-10, 5e-4),
    (20.0, 0.01, 20_000, 1e-5, 1e-5),
    (1.0, 0.2, 1, 1e-5, 5e-4),
]


def bounds(sigma: float, rate: float, steps: int, delta: float, grid: float) -> tuple[float, float]:
    """An epsilon that is too small, and one that is too large, by dp-accounting."""
    found = []
    for pessimistic in (False, True):
        law = oracle.from_gaussian_mechanism(
            sigma,
            sampling_prob=rate,
            value_discretization_interval=grid,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        )
        found.append(law.self_compose(steps).get_epsilon_for_delta(delta))
    return found[0], found[1]


@pytest.mark.parametrize(("sigma", "rate", "steps", "delta", "grid"), one_in(3, CASES))
def test_between_the_truth_and_one_per_cent_above(sigma, rate, steps, delta, grid):
    found = subsampled_gaussian(sigma, rate, steps, delta)
    low, high = bounds(sigma, rate, steps, delta, grid)
    assert found.established == "bound"
    assert found.delta == delta
    assert low <= found.epsilon <= 1.01 * high
    assert found.epsilon >= 0.99 * high  # the oracle's upper bound is closer to the truth than its lower one


@pytest.mark.parametrize(("sigma", "rate", "steps", "delta"), [case[:4] for case in CASES])
@pytest.mark.parametrize("removed", [True, False])
def test_a_finer_grid_only_comes_down_and_not_far(sigma, rate, steps, delta, removed, monkeypatch):
    pair = sampling._Pair(sigma, rate, steps, delta)
    found = pair.epsilon(removed)
    monkeypatch.setattr(sampling, "_FINENESS", 4 * sampling._FINENESS)
    monkeypatch.setattr(sampling, "_LOOSENESS", sampling._LOOSENESS / 16)
    finer = pair.epsilon(removed)
    assert finer <= found * (1 + 1e-6)
    assert found <= finer * 1.004


def exact_delta(sigma: float, rate: float, epsilon: float, removed: bool) -> float:
    """The delta of one step, in closed form with 50 digits: the loss is monotone, so the worst event is a half-line."""
    with mpmath.workdps(50):
        s, q, ratio = mpmath.mpf(sigma), mpmath.mpf(rate), mpmath.exp(mpmath.mpf(epsilon))
        grown = ((ratio if removed else 1 / ratio) - (1 - q)) / q  # e^((2x - 1) / 2 s^2) at the end of the event
        if grown <= 0:
            return 0.0 if not removed else 1 - float(ratio)
        x = s**2 * mpmath.log(grown) + mpmath.mpf(1) / 2
        alone, moved = mpmath.ncdf(-x / s), mpmath.ncdf((1 - x) / s)
        mixed = (1 - q) * alone + q * moved
        return float(mixed - ratio * alone if removed else (1 - alone) - ratio * (1 - mixed))


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.2), (0.5, 0.01), (4.0, 0.7), (0.8, 0.97)])
@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 1e-2])
def test_one_step_has_a_closed_form_in_either_direction(sigma, rate, removed, delta):
    epsilon = sampling._Pair(sigma, rate, 1, delta).epsilon(removed)
    assert exact_delta(sigma, rate, epsilon, removed) <= delta
    if epsilon:
        assert exact_delta(sigma, rate, epsilon * 0.998, removed) > delta


def test_what_lies_beyond_the_grid_counts_as_infinite(monkeypatch):
    # A grid so short that 2% of delta lie beyond it: without them the promise would be broken.
    sigma, rate, delta = 1.0, 0.5, 1e-2
    monkeypatch.setattr(sampling, "_BEYOND", 1.0)
    epsilon = sampling._Pair(sigma, rate, 1, delta).epsilon(removed=True)
    assert exact_delta(sigma, rate, epsilon, removed=True) <= delta
    assert exact_delta(sigma, rate, epsilon * 0.95, removed=True) > delta


@pytest.mark.wide
def test_two_steps_by_a_sum_over_a_plane():
    # delta(epsilon) of two steps by quadrature: 4,000 x 4,000 midpoints, good to 1e-6 relative.
    sigma, rate, delta = 1.0, 0.3, 1e-3
    pair = sampling._Pair(sigma, rate, 2, delta)
    for removed in (True, False):
        edges = np.linspace(-9.0, 10.0, 4001)
        x = (edges[1:] + edges[:-1]) / 2
        alone, moved = (np.exp(-((x - at) ** 2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0]) for at in (0.0, 1.0))
        mixed = (1 - rate) * alone + rate * moved
        first, second = (mixed, alone) if removed else (alone, mixed)

        def gained(epsilon: float, one=first, other=second) -> float:
            return float(np.maximum(np.outer(one, one) - math.exp(epsilon) * np.outer(other, other), 0.0).sum())

        epsilon = pair.epsilon(removed)
        assert gained(epsilon) <= delta * (1 + 1e-5)
        assert gained(epsilon * 0.998) > delta


@pytest.mark.wide
@pytest.mark.parametrize("removed", [True, False])
def test_each_direction_is_that_of_the_oracle(removed):
    sigma, rate, steps, delta = 0.8, 0.3, 30, 1e-5
    law = oracle.from_gaussian_mechanism(sigma, sampling_prob=rate, value_discretization_interval=2e-4)
    part = law._pmf_remove if removed else law._pmf_add
    found = part.self_compose(steps).get_epsilon_for_delta(delta)
    assert sampling._Pair(sigma, rate, steps, delta).epsilon(removed) == pytest.approx(found, rel=2e-3)


def test_the_worse_direction_counts(monkeypatch):
    asked = []

    def epsilon(self, removed):
        asked.append(removed)
        return 1.0 if removed else 2.0

    monkeypatch.setattr(sampling._Pair, "epsilon", epsilon)
    assert subsampled_gaussian(1.0, 0.5, 10, 1e-5).epsilon == 2.0
    assert sorted(asked) == [False, True]


@pytest.mark.parametrize(("sigma", "steps"), [(1.0, 1), (3.0, 9), (40.0, 1600), (0.3, 1), (200.0, 17)])
@pytest.mark.parametrize("delta", [1e-10, 1e-5])
def test_without_sampling_it_is_the_analytic_gaussian(sigma, steps, delta):
    epsilon = subsampled_gaussian(sigma, 1.0, steps, delta).epsilon
    with mpmath.workdps(50):
        s = mpmath.mpf(sigma) / mpmath.sqrt(steps)

        def exact(e: float) -> Any:
            return mpmath.ncdf(0.5 / s - e * s) - mpmath.exp(e) * mpmath.ncdf(-0.5 / s - e * s)

        assert exact(epsilon) <= delta
        assert exact(epsilon * (1 - 1e-9)) > delta


def test_almost_all_sampled_is_almost_the_analytic_gaussian():
    close = subsampled_gaussian(10.0, 1 - 1e-9, 100, 1e-5).epsilon
    assert close == pytest.approx(subsampled_gaussian(10.0, 1.0, 100, 1e-5).epsilon, rel=2e-3)


def test_a_record_that_is_hardly_ever_drawn_costs_nothing():
    assert subsampled_gaussian(0.1, 1e-9, 10, 1e-5).epsilon == 0.0
    assert subsampled_gaussian(0.3, 0.001, 3, 0.01).epsilon == 0.0
    assert subsampled_gaussian(0.3, 0.001, 20, 0.01).epsilon > 0.05


def test_more_of_anything_is_worse():
    base = {"multiplier": 1.0, "rate": 0.01, "steps": 1000, "delta": 1e-6}
    reference = subsampled_gaussian(**base).epsilon
    for change in ({"multiplier": 0.9}, {"rate": 0.012}, {"steps": 1300}, {"delta": 1e-7}):
        assert subsampled_gaussian(**base | change).epsilon > reference


@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "steps"),
    [(1.0, 1e-5, 0.01, 10_000), (8.0, 1e-5, 0.05, 2000), (0.1, 1e-10, 0.001, 20_000), (20.0, 1e-5, 0.5, 1),
     (3.0, 1e-6, 1.0, 100)],
)  # fmt: skip
def test_the_least_noise_keeps_the_promise_and_hardly_less_does_not(epsilon, delta, rate, steps):
    sigma = noise_multiplier(epsilon, delta, rate, steps)
    assert subsampled_gaussian(sigma, rate, steps, delta).epsilon <= epsilon
    assert subsampled_gaussian(sigma * (1 - 3e-4), rate, steps, delta).epsilon > epsilon


def test_little_noise_and_many_steps_still_have_an_answer():
    assert 1e4 < subsampled_gaussian(0.3, 0.5, 10_000, 1e-5).epsilon < 1e6
    assert noise_multiplier(1e6, 1e-5, 0.01, 1) == sampling.LEAST_MULTIPLIER


# The ends of the range: warnings are errors here ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta"),
    [(0.05, 0.5, 10**6, 1e-5), (1e6, 0.9, 1, 1e-5), (1e6, 0.5, 10**7, 1e-5), (0.5, 0.5, 10, 1e-200),
     (0.05, 0.999, 10**7, 1e-200), (0.05, 1e-6, 10**7, 1e-5), (1e6, 0.9, 10**7, 1e-100), (1e6, 1e-12, 1, 1e-100),
     (0.05, 1e-15, 1, 1e-200), (0.3, 1 - 1e-12, 10**7, 0.9), (1e3, 1e-3, 10**7, 1e-12), (0.05, 0.5, 1, 0.4)],
)  # fmt: skip
def test_every_corner_has_an_answer(sigma, rate, steps, delta):
    found = subsampled_gaussian(sigma, rate, steps, delta).epsilon
    assert 0 <= found <= subsampled_gaussian(sigma, 1.0, steps, delta).epsilon < math.inf
    if steps == 1 and sigma < 1:
        assert exact_delta(sigma, rate, found, True) <= delta


def test_at_the_corners_the_answer_is_near_the_limit():
    # Many small losses add up to a Gaussian with mu = q sqrt(T) / s.
    found = subsampled_gaussian(1e6, 0.5, 10**7, 1e-5).epsilon
    assert found == pytest.approx(gaussian_epsilon(2e6 / math.sqrt(1e7), 1e-5), rel=0.2)
    # With so little noise every batch tells who is in it: the mean loss of a step is rate / 2 s^2 + log(rate).
    found = subsampled_gaussian(0.05, 0.5, 10**6, 1e-5).epsilon
    assert found == pytest.approx(10**6 * (0.5 * (200 + math.log(0.5)) + 0.5 * math.log(0.5)), rel=0.1)
    assert subsampled_gaussian(1e6, 0.9, 1, 1e-5).epsilon == 0.0  # the total variation is below delta


def test_total_variations_add_up():
    # Just above and just below the sum of three, which is no less than the delta at epsilon 0.
    whole = 3 * 0.5 * math.erf(1 / math.sqrt(8) / 10)
    assert subsampled_gaussian(10.0, 0.5, 3, whole * (1 + 1e-9)).epsilon == 0.0
    assert subsampled_gaussian(10.0, 0.5, 3, whole / 3).epsilon > 0.0


def test_no_grid_is_refined_without_end(monkeypatch):
    monkeypatch.setattr(PrivacyLoss, "tilted_times", lambda *_: None)
    assert sampling._Pair(1.0, 0.5, 10, 1e-5).epsilon(True) == math.inf
    assert subsampled_gaussian(1.0, 0.5, 10, 1e-5) == subsampled_gaussian(1.0, 1.0, 10, 1e-5)


def test_infinite_losses_of_any_size_are_composed():
    for one, three in ((0.0, 0.0), (0.25, 1 - 0.75**3), (0.75, 1 - 0.25**3), (1.0, 1.0), (1.1, 1.0)):
        law = PrivacyLoss(0.1, 0, np.array([1.0 - min(one, 0.9)]), one)
        found = law.tilted_times(3, 1.0)
        assert found is not None
        assert found.infinite == pytest.approx(three)
        assert found.infinite >= three


@pytest.mark.wide
@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "steps"),
    [wide(1.0, 1e-12, 1e-6, 10**7), (1e-6, 1e-5, 0.01, 100), (1e-3, 1e-5, 0.5, 10**4), (1e3, 1e-5, 0.01, 1000)],
)
def test_the_search_for_a_multiplier_ends_soon(epsilon, delta, rate, steps, monkeypatch):
    asked, found = [], sampling._epsilon
    monkeypatch.setattr(sampling, "_epsilon", lambda *given: asked.append(given) or found(*given))
    sigma = noise_multiplier(epsilon, delta, rate, steps)
    assert len(asked) <= 40
    assert found(sigma, rate, steps, delta) <= epsilon
    assert found(sigma * (1 - 3e-4), rate, steps, delta) > epsilon


@pytest.mark.wide
@pytest.mark.parametrize("start", [0.06, wide(300.0), wide(9e5)])
def test_the_search_ends_soon_from_anywhere(start, monkeypatch):
    # Epsilon falls to 0 here within a hundredth of the multiplier: a straight line through its logarithm leads nowhere.
    asked, found = [], sampling._epsilon
    monkeypatch.setattr(sampling, "_epsilon", lambda *given: asked.append(given) or found(*given))
    monkeypatch.setattr(sampling, "_start", lambda *_: start)
    assert noise_multiplier(1e-6, 1e-5, 0.01, 100) == pytest.approx(3803.7, rel=1e-3)
    assert len(asked) <= 60


def test_cells_are_wider_than_the_doubt_about_their_edges():
    law = sampling._Pair(0.05, 0.5, 10**6, 1e-5)._law(False, 1e-18, math.log(2) - 1e-12)  # almost one loss
    assert law.step >= 1000 * law.doubt > 0


def test_nothing_is_tilted_to_nothing():
    assert tilted_mass(np.array([0.0, 1.0]), np.array([1.0, 0.0]), 1e4, 0.0).tolist() == [1.0, 0.0]


def test_what_no_noise_can_keep_is_refused():
    with pytest.raises(ParameterError, match="no noise is large enough"):
        noise_multiplier(1e-3, 1e-12, 0.5, 10**7)


@pytest.mark.parametrize(
    "change",
    [{"multiplier": 0.0}, {"multiplier": math.nan}, {"multiplier": "1"}, {"rate": 0.0}, {"rate": 1.01}, {"rate": True},
     {"steps": 0}, {"steps": 1.5}, {"delta": 0.0}, {"delta": 1.0}, {"delta": 1e-300}],
    ids=str,
)  # fmt: skip
def test_what_has_no_meaning_is_refused(change):
    with pytest.raises(ParameterError):
        subsampled_gaussian(**{"multiplier": 1.0, "rate": 0.1, "steps": 10, "delta": 1e-5} | change)
