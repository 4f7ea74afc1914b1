"""Two phases of Copula: who is asked what, that nothing but the tally decides it, and what it wins.

Seeds are fixed. Bounds on errors have a quarter of room over what these seeds give; no false alarm can be stated for
others, since the answers of a run depend on each other.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dither.errors import ParameterError, TallyError
from dither.mechanisms.spec import from_spec
from dither.privacy import certify
from dither.ranges import HDG, MSW, Copula
from dither.ranges.collection import RangeReading
from dither.ranges.interaction import Seen, SeenGrid, correlations, rests

SHAPE = (64, 64, 5)


def people(n: int, seed: int = 1) -> np.ndarray:
    """Long tails: nearly all in the first tenth of the values, and rising together; and five categories."""
    rng = np.random.default_rng(seed)
    z = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], n)
    tails = np.clip(np.exp(1.5 * z), 0, 63).astype(int)
    return np.column_stack([tails, rng.choice(5, n, p=[0.5, 0.3, 0.1, 0.07, 0.03])])


def phases(n: int = 60_000, seed: int = 1, shape: tuple[int, ...] = SHAPE):
    users = people(n, seed)[:, : len(shape)]
    first = Copula.first(shape, 1.0, n // 4, nominal=(2,) if len(shape) == 3 else ())
    heard = first.tally(first.randomize(users[: n // 4], seed=seed))
    second = first.after(heard, n - n // 4)
    told = second.tally(second.randomize(users[n // 4 :], seed=seed))
    return users, first, heard, second, told


def test_the_first_phase_reports_single_attributes_and_the_second_their_quantiles():
    _, first, _, second, _ = phases()
    assert [each.grid.attributes for each in first.groups] == [(0,), (1,), (2,)]
    assert [each.scale is not None for each in second.groups[:3]] == [True, True, False]
    cuts = second.groups[3].grid.cuts
    assert all(each[-2] < 16 for each in cuts)  # cells are where the people are: the equal ones end at 32 or above
    assert second.groups[4].grid.cuts[1] == (0, 1, 2, 3, 4, 5)  # and each category has its own
    assert second.n == 45_000


def test_the_second_phase_is_a_mechanism_like_any_other():
    """Stored as plain numbers, certified from its integers, and named by a digest of its own."""
    _, first, heard, second, _ = phases()
    again = Copula(second.shape, second.epsilon, second.n, second.nominal, asked=second.asked)
    assert again == second
    assert again.fingerprint == second.fingerprint != first.fingerprint
    assert first.after(heard, 45_000) == second
    assert certify(second).epsilon == second.guarantee.epsilon <= 1.0


def test_the_channel_is_that_of_the_wave_at_the_place_of_the_value():
    """Every record of a small second phase, in rationals."""
    scale = ((0, 1, 4, 9), (0, 400_000, 800_001, 1 << 20))
    made = Copula((9, 2), 1.0, 100, asked=(((0,), (9,), "SquareWave", 1, scale), ((1,), (2,), "GRR(k=2)", 1)))
    wave = from_spec("SquareWave", 1.0, 0.0)
    steps = wave.window.steps  # type: ignore[attr-defined]
    factor = wave.channel()
    for value, place in enumerate(made.groups[0].scale.places.tolist()):  # type: ignore[union-attr]
        at = Fraction(2 * place + 1, 1 << 21) * steps
        low = int(at)
        below, above = factor.row(low), factor.row(low + 1)
        expected = [(1 - (at - low)) * one + (at - low) * other for one, other in zip(below, above, strict=True)]
        found = made.layout._given(2 * value, 0)
        assert max(abs(one - other) for one, other in zip(found, expected, strict=True)) < Fraction(1, 1 << 60)
        assert sum(found) == 1


def test_errors_are_far_below_those_of_one_phase_where_tails_are_long():
    """Mean absolute errors of ranges between quantiles, over two runs; the ratio is about .4."""
    errors = {"one": [], "two": []}
    asked = [{0: (low, high), 1: (0, top)} for low, high in ((0, 0), (0, 1), (1, 3), (2, 6)) for top in (0, 1, 3)]
    for seed in (1, 2):
        users, first, heard, second, told = phases(seed=seed, shape=(64, 64))
        truth = [np.mean((users[:, 0] >= q[0][0]) & (users[:, 0] <= q[0][1]) & (users[:, 1] <= q[1][1])) for q in asked]
        one = Copula((64, 64), 1.0, len(users))
        answers = {
            "one": one.estimate(one.tally(one.randomize(users, seed=seed))),
            "two": second.estimate(told, RangeReading(second, earlier=((first, heard),))),
        }
        for name, estimate in answers.items():
            errors[name].append(np.abs(estimate.answers(asked).value - truth).mean())
    assert np.mean(errors["two"]) < 0.6 * np.mean(errors["one"])


def test_all_phases_are_evidence():
    """The estimate of both has the reports of both, and smaller errors than that of either."""
    _, first, heard, second, told = phases()
    both = second.estimate(told, RangeReading(second, earlier=((first, heard),)))
    alone = second.estimate(told)
    assert both.n == heard.n + told.n
    # Of an attribute without an order, where nothing is smoothed: by the number of reports about it.
    assert both.marginal(2).stderr.mean() < 0.95 * alone.marginal(2).stderr.mean()
    assert np.isinf(both.guarantee.epsilon)  # simulated, in either


def test_a_pair_that_was_asked_by_two_grids_is_fitted_to_both():
    """Without noise, tables that two grids agree with come out; with one of them silent, that of the other."""
    rng = np.random.default_rng(1)
    table = rng.dirichlet(np.full(24, 3.0)).reshape(4, 6)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    coarse, other = (
        SeenGrid(np.zeros((2, 2)), 1e-10, np.array(down), np.array(across))
        for down, across in (((0, 2, 4), (0, 3, 6)), ((0, 1, 4), (0, 4, 6)))
    )
    told = [SeenGrid(each.summed(table), 1e-10, each.down, each.across) for each in (coarse, other)]
    seen = Seen(rows, columns, tuple(told))
    found = rests([seen], [np.outer(rows, columns)])[0].table
    for each in told:
        np.testing.assert_allclose(each.summed(found), each.value, atol=1e-4)
    silent = SeenGrid(told[1].value * np.nan, np.inf, told[1].down, told[1].across)
    half = Seen(rows, columns, (told[0], silent))
    np.testing.assert_allclose(
        rests([half], [np.outer(rows, columns)])[0].table,
        rests([Seen(rows, columns, (told[0],))], [np.outer(rows, columns)])[0].table,
    )


def test_a_correlation_is_told_by_both_grids():
    """The precision of two grids of a pair is the sum of theirs."""
    even = np.full(8, 1 / 8)
    base = Seen.of_grid(even, even, np.zeros((8, 8)), 1.0).base(0.5)
    grids = []
    for step in (1, 2, 4):
        places = np.arange(0, 9, step)
        grid = SeenGrid(np.zeros((8 // step, 8 // step)), 1e-6, places, places)
        grids.append(SeenGrid(grid.summed(base), 1e-6, places, places))
    alone = [correlations([Seen(even, even, (grid,))]) for grid in grids]
    both = correlations([Seen(even, even, (grids[0], grids[2]))])
    assert both.value[0] == pytest.approx(0.5, abs=1e-3)
    assert both.stderr[0] ** -2 == pytest.approx(alone[0].stderr[0] ** -2 + alone[2].stderr[0] ** -2, rel=0.02)


def test_what_does_not_belong_together_is_refused():
    _, first, heard, second, told = phases(8_000)
    with pytest.raises(ParameterError, match="an earlier phase has the same"):
        RangeReading(second, earlier=((Copula.first((64, 64), 1.0, 100), heard),))
    with pytest.raises(TallyError):
        RangeReading(second, earlier=((first, told),))
    grids = HDG(SHAPE, 1.0, 8_000)
    with pytest.raises(ParameterError, match="takes no readings"):
        grids.estimate(
            grids.tally(grids.randomize(people(100), seed=1)), RangeReading(grids, earlier=((first, heard),))
        )
    waves = MSW(SHAPE, 1.0, 8_000)
    found = waves.estimate(
        waves.tally(waves.randomize(people(500), seed=1)), RangeReading(waves, earlier=((first, heard),))
    )
    assert found.n == 500 + heard.n


def test_where_little_is_seen_it_is_said():
    """Long tails in equal cells are warned of; in cells where the people are, not."""
    users, first, heard, second, told = phases(shape=(64, 64))
    one = Copula((64, 64), 1.0, len(users))
    single = one.estimate(one.tally(one.randomize(users, seed=1)))
    both = second.estimate(told, RangeReading(second, earlier=((first, heard),)))
    assert "Most users lie in one or two cells of a grid" in single.explain()
    assert any("collect in two phases" in note for note in single.answer({0: (0, 1)}).notes)
    assert "Warning" not in both.explain()
    assert "correlation +0." in both.explain()


def test_reports_that_nobody_sends_are_not_explained():
    """All reports of a wave at one output: no distribution of users has that; and honest ones raise no alarm."""
    mechanism = Copula((64, 64), 1.0, 20_000)
    tally = mechanism.tally(mechanism.randomize(people(20_000)[:, :2], seed=1))
    honest: Any = mechanism.estimate(tally).model
    assert not honest.unexplained
    counts, start = tally.counts.copy(), mechanism.layout._starts
    own = slice(int(start[0]) + 1, int(start[1]))
    moved = np.zeros_like(counts[own])
    moved[len(moved) // 3] = counts[own].sum()
    counts[own] = moved
    forged = mechanism.estimate(replace(tally, counts=counts))
    model: Any = forged.model
    assert (0,) in model.unexplained
    assert "does not explain the reports" in forged.explain()
