"""Several reports of one user: exact products for a few, and an independent accountant for many.

The oracle is the package dp-accounting, whose distributions of privacy losses are discretised in its own way: rounded
up on a grid, so that its epsilons are upper bounds, a little above the truth.
"""

import math
from fractions import Fraction
from itertools import product

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

import dither
from dither.core.channel import hockey_stick
from dither.core.exact import exp_below
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.errors import ParameterError
from dither.mechanisms.noise_tables import analytic_sigma
from dither.privacy import compose, parallel
from dither.privacy.accounting.composition import loss_of


def exact_delta(mechanisms, epsilon: float) -> Fraction:
    """The largest divergence of all reports together, over all pairs of inputs of each."""

    def law(inputs):
        found = [Fraction(1)]
        for mechanism, x in zip(mechanisms, inputs, strict=True):
            found = [before * step for before in found for step in mechanism.channel().row(x)]
        return found

    inputs = list(product(*(range(mechanism.channel().shape[0]) for mechanism in mechanisms)))
    laws = {each: law(each) for each in inputs}
    return max(hockey_stick(laws[a], laws[b], exp_below(epsilon)) for a in inputs for b in inputs)


SMALL = [
    [dither.GRR(k=2, epsilon=1.0)] * 3,
    [dither.GRR(k=3, epsilon=0.5), dither.GRR(k=2, epsilon=1.0)],
    [dither.Unary(k=2, epsilon=1.0), dither.GRR(k=3, epsilon=0.7)],
    [dither.Hadamard(k=3, epsilon=1.0), dither.Duchi(epsilon=0.3)],
    [dither.PCKV_AGRR(d=2, s=1, epsilon=1.0), dither.GRR(k=2, epsilon=0.5)],
]


@pytest.mark.parametrize("mechanisms", SMALL, ids=repr)
def test_a_few_reports_against_all_products(mechanisms):
    for delta in (0.01, 0.1, 0.3):
        found = compose(mechanisms, delta)
        assert float(exact_delta(mechanisms, found.epsilon)) <= delta
        if found.epsilon > 0 and found.delta:  # and no smaller one would do, but for the grid
            assert float(exact_delta(mechanisms, found.epsilon * (1 - 1e-3) - 1e-4)) > delta


@pytest.mark.parametrize("mechanisms", SMALL, ids=repr)
def test_without_a_delta_epsilons_add_up(mechanisms):
    found = compose(mechanisms)
    assert found.epsilon == pytest.approx(math.fsum(each.guarantee.epsilon for each in mechanisms), rel=1e-12)
    assert found.delta == 0
    assert exact_delta(mechanisms, found.epsilon) == 0
    assert exact_delta(mechanisms, found.epsilon * (1 - 1e-9)) > 0  # attained


@pytest.mark.wide
@pytest.mark.parametrize(("epsilon", "times", "delta"), [(0.1, 100, 1e-6), (1.0, 20, 1e-9), (0.01, 1000, 1e-4)])
def test_pure_guarantees_against_the_oracle(epsilon, times, delta):
    oracle = pld.from_randomized_response(2 / (math.exp(epsilon) + 1), 2, value_discretization_interval=1e-5)
    expected = oracle.self_compose(times).get_epsilon_for_delta(delta)
    found = compose([(Guarantee(epsilon), times)], delta).epsilon
    assert expected * (1 - 6e-3) < found < expected * (1 + 1e-6)


@pytest.mark.parametrize(("epsilon", "times"), [(1.0, 10), (0.5, 30), (2.0, 3)])
def test_gaussian_noise_against_the_oracle(epsilon, times):
    sigma = analytic_sigma(epsilon, 1e-6)
    oracle = pld.from_gaussian_mechanism(sigma, sensitivity=2.0, value_discretization_interval=1e-4)
    found = compose([(dither.Gaussian(epsilon, delta=1e-6), times)], 1e-5).epsilon
    assert found == pytest.approx(oracle.self_compose(times).get_epsilon_for_delta(1e-5), rel=5e-3)


def test_laplace_noise_against_the_oracle():
    oracle = pld.from_laplace_mechanism(2.0, sensitivity=2.0, value_discretization_interval=1e-4)
    found = compose([(dither.Laplace(1.0), 20)], 1e-6).epsilon
    assert found == pytest.approx(oracle.self_compose(20).get_epsilon_for_delta(1e-6), rel=5e-3)


def test_approximate_guarantees_against_the_oracle():
    one = pld.from_privacy_parameters(dither_parameters(0.3, 1e-7), value_discretization_interval=1e-5)
    other = pld.from_privacy_parameters(dither_parameters(0.1, 0.0), value_discretization_interval=1e-5)
    expected = one.self_compose(12).compose(other.self_compose(30)).get_epsilon_for_delta(1e-5)
    found = compose([(Guarantee(0.3, 1e-7), 12), (Guarantee(0.1), 30)], 1e-5)
    assert found.epsilon == pytest.approx(expected, rel=3e-3)


def dither_parameters(epsilon: float, delta: float):
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    return DifferentialPrivacyParameters(epsilon, delta)


def test_what_two_levels_share_is_not_lost():
    # Randomized response over many values rarely tells two of them apart: far better than any with its epsilon.
    many, any_ = compose([(dither.GRR(k=50, epsilon=0.5), 50)], 1e-6), compose([(Guarantee(0.5), 50)], 1e-6)
    assert many.epsilon < 0.45 * any_.epsilon < any_.epsilon < 25


def test_equal_parts_are_counted_together():
    one = compose([dither.GRR(k=4, epsilon=0.1) for _ in range(40)], 1e-6)
    assert one == compose([(dither.GRR(k=4, epsilon=0.1), 40)], 1e-6)
    assert compose([dither.GRR(k=4, epsilon=0.1)]) == dither.GRR(k=4, epsilon=0.1).guarantee


def test_the_basic_sum_where_it_is_the_best():
    assert compose([Guarantee(0.5), Guarantee(0.25)], 1e-12).epsilon == pytest.approx(0.75)


def test_simulated_reports_promise_nothing_together():
    assert compose([Guarantee(1.0), NO_GUARANTEE]) == NO_GUARANTEE
    assert parallel([Guarantee(1.0), NO_GUARANTEE]).simulated


def test_one_of_several():
    found = parallel([dither.GRR(k=3, epsilon=1.0), Guarantee(0.5, 1e-9, "bound")])
    assert found == Guarantee(dither.GRR(k=3, epsilon=1.0).guarantee.epsilon, 1e-9, "bound")


def test_grids_round_up():
    exact = loss_of(dither.GRR(k=4, epsilon=0.37)).times(5)
    for step in (0.01, 0.0371, 1.0):
        for epsilon in (0.0, 0.3, 1.0):
            assert exact.on(step).delta(epsilon) >= exact.delta(epsilon) * (1 - 1e-12)


@pytest.mark.parametrize(
    ("parts", "delta", "reason"),
    [
        ([], 0.0, "at least one"),
        ([1.0], 0.0, "a mechanism, a guarantee"),
        ([(Guarantee(1.0), 0)], 0.0, "times"),
        ([(Guarantee(1.0), 10**6)], 0.0, "times"),
        ([Guarantee(1.0)], 1.0, "delta"),
        ([(Guarantee(1.0, 1e-3), 10)], 1e-6, "larger one"),
    ],
)
def test_bad_parts(parts, delta, reason):
    with pytest.raises(ParameterError, match=reason):
        compose(parts, delta)


def test_noise_is_never_worse_than_its_guarantee():
    # The error of the transform was larger than a small delta, and many tables would not fit.
    for times, delta in ((100, 1e-9), (1000, 1e-7)):
        alone = compose([(Guarantee(0.1), times)], delta).epsilon
        assert compose([(dither.Laplace(0.1), times)], delta).epsilon <= alone * (1 + 1e-6)


def test_guarantees_without_an_epsilon():
    assert compose([Guarantee(0.0, 1e-7), Guarantee(0.0, 1e-8)], 1e-6).epsilon == 0.0
