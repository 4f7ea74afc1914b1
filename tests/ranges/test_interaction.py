"""What pairs add to their margins: all of it without noise, nothing of it in much noise, and honest in between.

Noise is drawn with fixed seeds. Bounds were set from what these give, with room; their false alarm is not known.
"""

from dataclasses import replace

import numpy as np
import pytest

from dither.estimation.normal_copula import scores, slope, tables
from dither.ranges import interaction
from dither.ranges.interaction import Seen, correlations, over, rests, with_margins

EVEN = np.full(6, 1 / 6)
SKEWED = np.array([0.4, 0.3, 0.15, 0.1, 0.04, 0.01])


def normal(correlation: float, rows: np.ndarray = EVEN, columns: np.ndarray = EVEN) -> np.ndarray:
    return tables(scores(rows), scores(columns), np.array([correlation]))[0]


def seen(table: np.ndarray, error: float, seed: int | None = None, ordered: bool = True) -> Seen:
    noise = 0.0 if seed is None else np.random.default_rng(seed).normal(0, error, table.shape)
    return Seen.of_grid(table.sum(axis=1), table.sum(axis=0), table + noise, error**2, ordered)


def checkered(strength: float = 0.5) -> np.ndarray:
    """A table that no correlation describes: its margins are even."""
    signs = np.where(np.add.outer(np.arange(6), np.arange(6)) % 2, 1.0, -1.0)
    return (1 + strength * signs) / 36


# One number a pair -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("correlation", [-0.9, -0.33, 0.0, 0.1, 0.58, 0.95])
@pytest.mark.parametrize("columns", [EVEN, SKEWED], ids=["even", "skewed"])
def test_without_noise_a_copula_has_its_own_correlation(correlation, columns):
    found = correlations([seen(normal(correlation, EVEN, columns), 1e-6)])
    assert found.value[0] == pytest.approx(correlation, abs=1e-4)
    assert found.stderr[0] < 1e-4


def test_in_much_noise_there_is_no_correlation_to_be_seen():
    found = correlations([seen(normal(0.8), 1.0)])
    assert abs(found.value[0]) < 0.05
    assert found.stderr[0] > 0.25
    nobody = Seen.of_grid(EVEN, EVEN, np.full((6, 6), 1 / 36), np.inf)
    assert correlations([nobody]).value.tolist() == [0.0]


@pytest.mark.wide
@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.4, 0.8])
def test_errors_are_as_large_as_stated(correlation):
    """40 runs of six pairs, each with its own noise; the expected mean square ratio is at most one."""
    ratios = []
    for run in range(40):
        found = correlations([seen(normal(correlation), 3e-3, seed=100 * run + pair) for pair in range(6)])
        ratios.append((found.value - correlation) / found.stderr)
    assert 0.05 < np.mean(np.square(ratios)) < 1.8
    assert abs(np.mean(ratios)) < 0.8


def test_independent_attributes_have_correlations_near_nothing():
    found = correlations([seen(normal(0.0), 5e-3, seed=pair) for pair in range(15)])
    alone = [correlations([seen(normal(0.0), 5e-3, seed=pair)]).value[0] for pair in range(15)]
    assert np.abs(found.value).max() < 0.05
    assert np.square(found.value).sum() < 0.5 * np.square(alone).sum()  # all pairs together tell that there is none


def test_pairs_that_are_alike_are_pooled():
    """In noise that leaves each correlation alone open by .1: together they are nearer to .8, and to each other."""
    pairs = [seen(normal(0.8), 2e-2, seed=pair) for pair in range(15)]
    together, alone = correlations(pairs), np.array([correlations([pair]).value[0] for pair in pairs])
    assert np.std(together.value) < 0.5 * np.std(alone)
    assert np.sqrt(np.mean((together.value - 0.8) ** 2)) < 0.6 * np.sqrt(np.mean((alone - 0.8) ** 2))


def test_two_pairs_do_not_speak_of_a_mean_and_unlike_pairs_are_left_alone():
    different = [-0.7, -0.2, 0.0, 0.3, 0.8, 0.5]
    found = correlations([seen(normal(each), 1e-3, seed=number) for number, each in enumerate(different)])
    np.testing.assert_allclose(found.value, different, atol=0.04)


def test_attributes_without_an_order_have_no_correlation():
    found = correlations([seen(normal(0.8), 1e-3, ordered=False), seen(normal(0.8), 1e-3)])
    assert found.value[0] == found.stderr[0] == 0.0
    assert found.value[1] == pytest.approx(0.8, abs=0.02)


def test_nothing_to_look_at():
    assert len(correlations([]).value) == 0


# The rest --------------------------------------------------------------------------------------------------------


def test_without_noise_a_table_is_what_is_seen():
    table = checkered()
    found = rests([seen(table, 1e-8)], [np.outer(EVEN, EVEN)])[0]
    np.testing.assert_allclose(found.table, table, atol=1e-6)
    assert np.sqrt((found.factors**2).sum(axis=0)).max() < 1e-6


def test_in_much_noise_a_table_is_the_base():
    base = normal(0.5)
    found = rests([seen(checkered(), 10.0, seed=1)], [base])[0]
    np.testing.assert_allclose(found.table, base, atol=0.01)
    nobody = Seen.of_grid(EVEN, EVEN, np.full((6, 6), np.nan), np.inf)
    unheard = rests([nobody], [base])[0]
    np.testing.assert_allclose(unheard.table, base, atol=1e-6)
    assert np.sqrt((unheard.factors**2).sum(axis=0)).max() > 0.005  # much is left open


def test_margins_hold_and_nothing_is_negative():
    for seed in range(5):
        pair = seen(normal(0.7, SKEWED, EVEN), 2e-2, seed=seed)
        found = rests([pair], [pair.base(0.7)])[0].table
        assert (found >= 0).all()
        np.testing.assert_allclose(found.sum(axis=1), SKEWED, atol=1e-6)
        np.testing.assert_allclose(found.sum(axis=0), EVEN, atol=1e-6)


def test_what_is_left_open_has_no_margins():
    found = rests([seen(checkered(), 1e-2, seed=1)], [np.outer(EVEN, EVEN)])[0]
    assert np.abs(found.factors.sum(axis=1)).max() < 1e-9
    assert np.abs(found.factors.sum(axis=2)).max() < 1e-9


def test_copulas_keep_nothing_of_their_noise_and_others_what_they_have():
    """Fifteen pairs each: the error of a table is far below its noise where the copula is right, and never above.

    What is stated is below it, too, though the evidence of all pairs is not believed in full, and half of it is a
    sceptic's.
    """
    error = 5e-3
    cases = (normal(0.6), normal(0.6), 0.35, 0.7), (checkered(0.6), np.full((6, 6), 1 / 36), 1.0, 1.0)
    for table, base, least, stated in cases:
        found = rests([seen(table, error, seed=pair) for pair in range(15)], [base] * 15)
        apart = np.sqrt(np.mean([(each.table - table) ** 2 for each in found]))
        assert apart < least * error
        open_ = np.sqrt(np.mean([(each.factors**2).sum(axis=0) for each in found]))
        assert apart < 3 * open_
        assert open_ < stated * error


def clusters(rows: np.ndarray = EVEN) -> np.ndarray:
    """Two clusters that are independent inside: below the middle of both attributes, or above."""
    low = np.arange(6) < 3
    below, above = np.where(low, rows, 0.0), np.where(low, 0.0, rows)
    share = below.sum()
    return np.outer(below, below) / share + np.outer(above, above) / (1 - share)


def root_mean_square(found, table: np.ndarray) -> float:
    return float(np.sqrt(np.mean([(each.table - table) ** 2 for each in found])))


def test_two_clusters_are_not_taken_for_a_copula(monkeypatch):
    """Fifteen pairs in noise as large as a cell: half the error that a correlation and what it leaves over have."""
    table, error = clusters(), 3e-2
    pairs = [seen(table, error, seed=pair) for pair in range(15)]
    bases = [pair.base(0.95) for pair in pairs]
    apart = root_mean_square(rests(pairs, bases), table)
    assert apart < 0.3 * error
    monkeypatch.setattr(interaction, "_CLUSTERED", 0.0)
    assert apart < 0.5 * root_mean_square(rests(pairs, bases), table)


def test_a_correlation_that_was_fitted_has_no_advantage():
    """Two clusters in two of four cells: a correlation near one explains them as well, once it is fitted."""
    low, error = np.array([0.01, 0.49, 0.0, 0.0]), 4e-2
    table = (np.outer(low, low) + np.outer(low[::-1], low[::-1])) / 0.5
    pairs = [seen(table, error, seed=pair) for pair in range(15)]
    found = correlations(pairs)
    bases = [pair.base(value) for pair, value in zip(pairs, found.value, strict=True)]
    moves = [found.spread * slope(*pair.scores, value) for pair, value in zip(pairs, found.value, strict=True)]
    assert np.mean([each.unsplit for each in rests(pairs, bases)]) > 0.95  # as if it had been known
    assert np.mean([each.unsplit for each in rests(pairs, bases, moves)]) < 0.3
    one_hump = [replace(pair, apart=0.0) for pair in pairs]
    assert np.mean([each.unsplit for each in rests(one_hump, bases, moves)]) == pytest.approx(1)


def test_a_copula_is_not_taken_for_two_clusters(monkeypatch):
    table, error = normal(0.8), 1e-2
    pairs = [seen(table, error, seed=pair) for pair in range(15)]
    bases = [pair.base(0.8) for pair in pairs]
    apart = root_mean_square(rests(pairs, bases), table)
    monkeypatch.setattr(interaction, "_CLUSTERED", 0.0)
    assert apart < 1.1 * root_mean_square(rests(pairs, bases), table)


def test_halves_are_a_step_of_mean_nothing_and_variance_one():
    for shares in (EVEN, SKEWED, np.array([0.9, 0.1])):
        step = interaction._halves(shares)
        assert shares @ step == pytest.approx(0.0, abs=1e-12)
        assert shares @ step**2 == pytest.approx(1.0)
        assert len(np.unique(step)) == 2
    assert (np.diff(interaction._halves(SKEWED)) > 0).tolist() == [True, False, False, False, False]


def test_labels_have_no_halves():
    """An order that means nothing must not matter: the tables of a pair and of its values turned around agree."""
    table, turn = clusters(), [3, 0, 5, 1, 4, 2]
    noisy = table + np.random.default_rng(3).normal(0, 2e-2, table.shape)
    one, other = (
        rests([Seen.of_grid(EVEN, EVEN, each, 4e-4, ordered=False)], [np.outer(EVEN, EVEN)])[0].table
        for each in (noisy, noisy[turn])
    )
    np.testing.assert_allclose(one[turn], other, atol=1e-9)


def test_the_sign_of_a_departure_is_kept():
    """A table with the opposite correlation of its base: what is seen wins over what was thought."""
    table = normal(-0.6)
    found = rests([seen(table, 1e-4)], [normal(0.6)])[0].table
    np.testing.assert_allclose(found, table, atol=2e-3)


def test_a_cell_that_nobody_can_be_in():
    rows = np.array([0.5, 0.0, 0.5])
    table = np.outer(rows, EVEN)
    found = rests([Seen.of_grid(rows, EVEN, table, 1e-6)], [table])[0].table
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, table, atol=1e-6)


def test_scaling_to_margins():
    found = with_margins(np.ones((2, 3)), np.array([0.25, 0.75]), np.array([0.5, 0.5, 0.0]))
    np.testing.assert_allclose(found, [[0.125, 0.125, 0], [0.375, 0.375, 0]])
    assert over(np.array([1.0, 2.0]), np.array([0.0, 4.0])).tolist() == [0.0, 0.5]
