"""Projective geometry response: what the contract suite cannot know. Variances, fields, sizes, forged reports."""

import math

import numpy as np
import pytest

from dither import GRR, ProjectiveGeometry, SubsetSelection
from dither.errors import ParameterError
from dither.mechanisms import projective_geometry as geometry
from dither.mechanisms.localhash import best_integer


def least_variance(k: int, epsilon: float) -> float:
    """The smallest total variance that epsilon allows, over k: docs/categorical.md."""
    ratio = math.exp(epsilon)
    about = int(k / (ratio + 1))
    sizes = [size for size in (about, about + 1) if 1 <= size < k]
    whole = [(s * ratio + k - s) ** 2 / (s * (k - s)) for s in sizes]
    return ((k - 1) ** 2 * min(whole) / (k * (ratio - 1) ** 2) + 1 / k - 1) / k


def test_the_formula_is_the_subsets():
    for k, epsilon in ((10, 1.0), (100, 2.0), (1000, 4.0)):
        expected = SubsetSelection(k, epsilon).reading.worst_variance()
        assert least_variance(k, epsilon) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    ("k", "epsilon", "q", "t", "rare"),
    [(1000, 1.0, 4, 6, 3.6848), (10_000, 2.0, 8, 6, 0.7245)],
)
def test_known_variances(k: int, epsilon: float, q: int, t: int, rare: float):
    mechanism = ProjectiveGeometry(k, epsilon)
    assert (mechanism.q, mechanism.space.t) == (q, t)
    assert float(mechanism.reading.variance(0.0)) == pytest.approx(rare, abs=5e-5)


def test_next_to_the_best_where_there_are_many_categories():
    """Within 2% of subset selection where e^epsilon <= k/150 and the counters suffice; never better than it."""
    for k in (150, 1000, 1024, 22_000, 10**6):
        for epsilon in (0.1, 0.5, 1.0, 2.0, 3.0, 5.0):
            ratio = ProjectiveGeometry(k, epsilon).reading.worst_variance() / least_variance(k, epsilon)
            assert ratio >= 1 - 1e-9
            if math.exp(epsilon) <= k / 150:
                assert ratio <= 1.02, (k, epsilon, ratio)


def test_counters_are_few():
    for k in (2, 50, 1000, 22_000, 10**6, 10**7):
        for epsilon in (0.05, 1.0, 3.0, 5.0, 9.0, 16.0, 60.0):
            space = ProjectiveGeometry(k, epsilon).space
            assert k <= space.size <= max(4 * k, geometry.FEW_COUNTERS)


def test_the_field_is_the_best_of_all_that_are_allowed():
    """Trying a few sizes finds what trying all of them does, up to the 0.2% that fewer counters may cost."""
    for k, epsilon in ((300, 0.3), (300, 4.0), (5000, 1.0), (5000, 3.0), (60_000, 2.0), (60_000, 5.0), (10**6, 6.0)):
        allowed = max(4 * k, geometry.FEW_COUNTERS)
        spaces = [geometry.ProjectiveSpace.holding(k, q) for q in geometry.field_sizes()]
        least = min(geometry.total_variance(space, k, epsilon) for space in spaces if space.size <= allowed)
        assert geometry.total_variance(ProjectiveGeometry(k, epsilon).space, k, epsilon) <= 1.00201 * least


def test_reports_do_not_depend_on_rows_beside_them_on_threads_or_on_numba(monkeypatch):
    from dither import kernels
    from dither.kernels import with_numpy

    mechanism = ProjectiveGeometry(1000, 1.0)
    values = np.arange(80_000) * 7 % 1000
    monkeypatch.setenv("DITHER_THREADS", "1")
    whole = np.asarray(mechanism.randomize(values, seed=5))
    assert (np.asarray(mechanism.randomize(values[:13], seed=5)) == whole[:13]).all()
    monkeypatch.setenv("DITHER_THREADS", "3")
    assert (np.asarray(mechanism.randomize(values, seed=5)) == whole).all()
    for loops in ("_loops", "_loaded"):
        monkeypatch.setattr(kernels, loops, lambda: with_numpy)
    assert (np.asarray(mechanism.randomize(values, seed=5)) == whole).all()


@pytest.mark.parametrize(("k", "epsilon"), [(20, 1.0), (1000, 3.0), (66_000, 6.0), (10**6, 1.0)])
def test_shares_come_out(k: int, epsilon: float):
    """Each of up to 10,000 numbers within 7.2 standard errors: false alarm 1e-8 for all; and not all of them near 0."""
    mechanism = ProjectiveGeometry(k, epsilon)
    values = np.where(np.arange(200_000) % 4 == 0, k - 1, np.arange(200_000) * 31 % k)
    truth = np.bincount(values, minlength=k) / values.size
    found = mechanism.estimate(mechanism.tally(mechanism.randomize(values, seed=3)))
    away = (found.value - truth) / found.stderr
    some = np.append(away[:: max(1, k // 5000)], away[k - 1])
    assert np.abs(some).max() < 7.2
    assert 0.4 < np.median(np.abs(some)) < 1.0  # of a normal law .67


def test_one_report_supports_a_hyperplane_of_categories():
    mechanism = ProjectiveGeometry(12, 1.0, q=2)
    supported = [int((mechanism.space.counted(row)[:12] > 0).sum()) for row in np.eye(15, dtype=np.int64)]
    (worth,) = mechanism.report_worth()
    assert worth.at_once == max(supported) == mechanism.space.on_hyperplane == 7


def test_forged_points():
    mechanism = ProjectiveGeometry(12, 1.0, q=2)
    forged = np.zeros(3, dtype=mechanism.dtype)
    forged["value"] = [0, 14, 15]
    assert mechanism.valid(forged).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"k": 1 << 25}, "k must be"),
        ({"k": 100, "q": 6}, "5 or 7 would do"),
        ({"k": 100, "q": 1}, "q must be"),
        ({"k": 1 << 24, "q": 4000 - 11}, "leave q out"),
        ({"k": 100, "q": 2.5}, "q must be"),
    ],
)
def test_what_does_not_fit_is_refused(parameters: dict, told: str):
    with pytest.raises(ParameterError, match=told):
        ProjectiveGeometry(epsilon=1.0, **parameters)


def test_few_categories_are_better_asked_otherwise():
    for k in (2, 3, 5):
        other = GRR(k, 1.0).reading.worst_variance()
        assert ProjectiveGeometry(k, 1.0).reading.worst_variance() > other


def test_seldom_above_local_hashing():
    """In 900 settings up to k = 10^6 and epsilon 5: a tenth have more than 1% more variance, none more than 14%."""
    ratios = []
    for k in np.geomspace(50, 10**6, 30).astype(int).tolist():
        for epsilon in np.linspace(0.1, 5, 30).tolist():
            space = geometry.best_space(k, epsilon)
            ratio, g = math.exp(epsilon), best_integer(k, epsilon, 0.0)
            p, q = ratio / (ratio + g - 1), 1 / g
            hashed = (p * (1 - p) + (k - 1) * q * (1 - q)) / (p - q) ** 2
            ratios.append(geometry.total_variance(space, k, epsilon) / hashed)
    assert np.mean(np.array(ratios) > 1.01) < 0.1
    assert max(ratios) < 1.14
    assert np.median(ratios) < 1.0
