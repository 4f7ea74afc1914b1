"""Pairs that are bent alike: one number of all of them, found where it is there, and left alone where it is not.

Noise is drawn with fixed seeds; what is asked for is far from what chance does (standard errors are stated beside it).
"""

import numpy as np
import pytest

from dither.estimation.normal_copula import scores, slope, tables
from dither.ranges import bends
from dither.ranges.bends import bent_alike, polynomials
from dither.ranges.interaction import Seen, middle, two_humps

EVEN = np.full(6, 1 / 6)
PAIRS = 15


def tilted(strength: float) -> np.ndarray:
    """Far from the middle of both (or of neither, if it is negative), and independent otherwise."""
    parabola = polynomials(EVEN)[1]
    return (1 + strength * np.outer(parabola, parabola)) / 36


def normal(correlation: float) -> np.ndarray:
    return tables(scores(EVEN), scores(EVEN), np.array([correlation]))[0]


def collected(table: np.ndarray, error: float, first: int = 0, ordered: bool = True) -> list[Seen]:
    noise = [np.random.default_rng(first + pair).normal(0, error, table.shape) for pair in range(PAIRS)]
    return [Seen.of_grid(EVEN, EVEN, table + each, error**2, ordered) for each in noise]


def found(pairs: list[Seen], correlation: float = 0.0) -> list[np.ndarray]:
    return bent_alike(
        pairs, [pair.base(correlation) for pair in pairs], [slope(*pair.scores, correlation) for pair in pairs]
    )


@pytest.mark.parametrize("strength", [0.4, -0.4])
def test_what_all_pairs_have_in_common_is_seen_through_the_noise(strength):
    """One pair tells the tilt to .18 and all of them to .046: nine of these standard errors."""
    table, error = tilted(strength), 3e-2
    for each in found(collected(table, error)):
        assert np.abs(each - table).max() < 0.3 * np.abs(table - 1 / 36).max()
        assert each.sum(axis=1) == pytest.approx(EVEN)


def test_nothing_is_found_where_there_is_nothing():
    """The tilt's standard error is .046; what is kept of its noise moves no cell by a tenth of that of one grid."""
    for first in (0, 100, 200):
        pairs = collected(np.full((6, 6), 1 / 36), 3e-2, first)
        assert max(np.abs(each - 1 / 36).max() for each in found(pairs)) < 3e-3


def test_a_correlation_that_noise_has_shrunk_is_no_bend(monkeypatch):
    """A copula of .99 against a base of .96: what one more correlation would do is not called a bend."""
    table = normal(0.99)
    pairs = collected(table, 1e-2)
    moved = np.abs(found(pairs, 0.96)[0] - pairs[0].base(0.96)).max()
    monkeypatch.setattr(bends, "_tilt", lambda pair, base, slope: _with_the_slope(pair, base))
    assert moved < 0.2 * np.abs(found(pairs, 0.96)[0] - pairs[0].base(0.96)).max()


def _with_the_slope(pair: Seen, base: np.ndarray) -> np.ndarray:
    both = np.outer(polynomials(pair.rows)[1], polynomials(pair.columns)[1])
    return base * (both - float((base * both).sum()))


def test_labels_have_no_middle_to_be_far_from():
    pairs = collected(tilted(0.4), 1e-2, ordered=False)
    for each in found(pairs):
        assert each == pytest.approx(np.full((6, 6), 1 / 36))


def test_a_turned_attribute_bends_as_before():
    pairs = collected(tilted(0.4), 3e-2)
    turned = [Seen.of_grid(EVEN, EVEN, pair.grids[0].value[::-1], pair.grids[0].variance) for pair in pairs]
    for one, other in zip(found(pairs), found(turned), strict=True):
        assert one == pytest.approx(other[::-1])


def test_polynomials_are_orthonormal():
    for shares in (EVEN, np.array([0.7, 0.1, 0.1, 0.05, 0.05])):
        line, parabola = polynomials(shares)
        for values in (line, parabola):
            assert shares @ values == pytest.approx(0)
            assert shares @ values**2 == pytest.approx(1)
        assert shares @ (line * parabola) == pytest.approx(0)
    for values in polynomials(np.array([1.0])):
        assert values.tolist() == [0.0]


def bell(centre: float, width: float) -> np.ndarray:
    shares = np.exp(-0.5 * ((np.arange(64) - centre) / width) ** 2)
    return shares / shares.sum()


def test_two_humps_are_two_clusters_and_one_is_not():
    two = (bell(16, 3) + bell(48, 3)) / 2
    assert two_humps(two, 32) == pytest.approx(1 - 4 * 9 / (9 + 16**2), abs=1e-3)
    assert two_humps(np.full(64, 1 / 64), 32) == pytest.approx(0, abs=1e-3)
    assert two_humps(bell(32, 8), 32) == 0
    lone = np.zeros(64)
    lone[7] = 1.0
    assert 0 <= two_humps(lone, 32) <= 1


def test_the_middle_is_the_cut_nearest_to_the_median():
    assert middle(np.array([0.1, 0.5, 0.4])) == 1
    assert middle(np.array([0.48, 0.1, 0.42])) == 0
