"""Collection: the law of a report worked out by hand, who is asked what, tallies, and refusals."""

import json
import pickle
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, norm

import dither
from dither.errors import DomainError, EmptyError, ParameterError, ReportError, TallyError
from dither.mechanisms import load
from dither.ranges import CALM, HDG, MSW, TDG, Copula, Uniform
from dither.ranges.granularity import MOST_EVALUATIONS, best_oracle, oracle
from dither.ranges.grid import Grid
from dither.ranges.user_groups import UserGroup

ALARM = 1e-9
SMALL: Any = HDG(shape=(2, 3), epsilon=1.0, n=1000)
MIXED = HDG(shape=(20, 6, 4), epsilon=0.5, n=100_000, nominal=(2,))
ALL = [
    SMALL,
    MIXED,
    HDG(shape=(9,), epsilon=1.0, n=10),
    TDG(shape=(7, 5, 300), epsilon=2.0, n=1000),
    CALM(shape=(8, 9, 2), epsilon=1.0, n=1000),
    MSW(shape=(5, 64), epsilon=1.0, n=1000),
    HDG(shape=(600, 3), epsilon=2.0, n=1000, nominal=(0, 1)),  # Hadamard response
    Uniform(shape=(3, 4), epsilon=1.0, n=1),
]
every = pytest.mark.parametrize("mechanism", ALL, ids=lambda mechanism: repr(mechanism).replace(" ", ""))


def records(mechanism, n: int, seed: int = 1) -> np.ndarray:
    """Records whose attributes depend on each other."""
    shape = np.array(mechanism.shape)
    place = np.random.default_rng(seed).beta(2, 5, (n, 1))
    own = np.random.default_rng(seed + 1).random((n, len(shape)))
    return np.minimum((0.7 * place + 0.3 * own) * shape, shape - 1).astype(np.int64)


# The law -------------------------------------------------------------------------------------------------------------


def test_the_channel_worked_out_by_hand():
    """Two attributes of 2 and 3 values: three grids, all by randomized response, each for a third of the users."""
    assert SMALL.asked == (((0,), (2,), "GRR(k=2)", 1), ((1,), (3,), "GRR(k=3)", 1), ((0, 1), (2, 2), "GRR(k=4)", 1))
    (a2, b2), (a3, b3), (a4, b4) = SMALL.weights
    law = []
    for x, y in product(range(2), range(3)):
        row = [Fraction(a2 if v == x else b2, a2 + b2) / 3 for v in range(2)]
        row += [Fraction(a3 if v == y else b3, a3 + 2 * b3) / 3 for v in range(3)]
        cell = 2 * x + (0, 1, 1)[y]  # cuts of 3 values in two cells: 0, 1, 3
        row += [Fraction(a4 if v == cell else b4, a4 + 3 * b4) / 3 for v in range(4)]
        law.append(row)
    channel = SMALL.channel()
    assert [channel.row(x) for x in range(6)] == law
    assert all(sum(row) == 1 for row in law)
    worst = max(one / other for a, b in product(law, law) for one, other in zip(a, b, strict=True))
    assert worst == channel.ratio() == max(Fraction(a, b) for a, b in SMALL.weights)
    promise = dither.privacy.certify(SMALL)
    assert promise.established == "exact"
    assert promise.delta == 0
    assert 0 <= SMALL.epsilon - promise.epsilon <= 1e-9


def test_shares_are_odds():
    asked = [(each[0], each[1], each[2], share) for each, share in zip(SMALL.asked, (1, 4, 2), strict=True)]
    mechanism = HDG(shape=(2, 3), epsilon=1.0, n=1000, asked=asked)
    assert [sum(part) for part in np.split(np.array(mechanism.channel().row(3)), [2, 5])] == [
        Fraction(share, 7) for share in (1, 4, 2)
    ]
    reports = mechanism.randomize(np.zeros((70_000, 2), dtype=np.int64), seed=1)
    counts, expected = np.bincount(reports["group"][:, 0]), np.array([10_000, 40_000, 20_000])
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(ALARM, 2)
    assert [each.n for each in mechanism.collected(mechanism.tally(reports))] == counts.tolist()
    assert dither.privacy.certify(mechanism).epsilon <= 1.0


def test_only_the_drawn_grid_is_read():
    """Records that share the cell of a grid give the same reports in its group, bit by bit, under the same seed."""
    one = records(MIXED, 5000)
    reports = MIXED.randomize(one, seed=3)
    for group, asked in enumerate(MIXED.groups):
        other = records(MIXED, 5000, seed=9)
        for attribute in asked.grid.attributes:
            other[:, attribute] = one[:, attribute]
        about = reports["group"][:, 0] == group
        assert about.any()
        assert (MIXED.randomize(other, seed=3)[about] == reports[about]).all()
        assert (MIXED.randomize(other, seed=3)["group"] == reports["group"]).all()


@every
def test_parts_that_draw_alike_share_a_turn_and_nothing_else(mechanism):
    """Reports do not depend on chunks, and every group's report is one of its own oracle."""
    values = records(mechanism, 3000)
    reports = mechanism.randomize(values, seed=5)
    assert (mechanism.randomize(values[:1234], seed=5) == reports[:1234]).all()
    assert mechanism.valid(reports).all()
    whole = mechanism.tally(reports)
    assert sum(mechanism.tally(part) for part in np.array_split(reports, 7)) == whole
    assert sum(each.n for each in mechanism.collected(whole)) == 3000


def test_no_two_users_share_noise():
    """Local hashing of different sizes on one turn: seeds of all reports are different."""
    mechanism = HDG(shape=(64, 64, 40), epsilon=0.5, n=10**6)
    assert len(mechanism.layout.parts) > 1
    assert len(set(mechanism.layout._samplers.tolist())) == 1
    reports = np.asarray(mechanism.randomize(records(mechanism, 20_000), seed=1))
    assert len(np.unique(reports["report"])) == 20_000


# Reading -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [each for each in ALL if not isinstance(each, MSW)], ids=repr)
def test_frequencies_are_unbiased_and_as_noisy_as_stated(mechanism):
    """All cells of all grids within the noise: false alarm 1e-9 together."""
    n = 40_000 * len(mechanism.groups)
    values = records(mechanism, n)
    reports = mechanism.randomize(values, seed=11)
    cells = sum(asked.grid.size for asked in mechanism.groups)
    for group, each in enumerate(mechanism.collected(mechanism.tally(reports))):
        assert each.value.shape == each.grid.shape == mechanism.groups[group].grid.shape
        own = values[reports["group"][:, 0] == group] if len(mechanism.groups) > 1 else values
        truth = np.bincount(each.grid.cells(own), minlength=each.grid.size) / len(own)
        assert each.variance == pytest.approx(float(each.mechanism.reading.variance(0.0)) / each.n, rel=1e-12)
        deviation = np.sqrt(each.mechanism.reading.variance(truth) / each.n)
        assert (np.abs(each.value.ravel() - truth) < norm.isf(ALARM / 2 / cells) * deviation).all()


def test_square_waves_have_no_frequencies_but_a_tally():
    mechanism = MSW(shape=(5, 64), epsilon=2.0, n=10**5)
    values = records(mechanism, 100_000)
    for attribute, each in enumerate(mechanism.collected(mechanism.tally(mechanism.randomize(values, seed=1)))):
        assert each.value is None
        assert np.isnan(each.variance)
        found = each.mechanism.estimate(each.tally)
        size = mechanism.shape[attribute]
        truth = ((2 * values[:, attribute] + 1) / size - 1).mean()
        assert abs(found.value - truth) < norm.isf(ALARM) * found.stderr


def test_a_group_that_nobody_answered():
    first, *rest = SMALL.collected(SMALL.tally(SMALL.randomize([[1, 2]], seed=1)))
    silent = [each for each in (first, *rest) if each.n == 0]
    assert len(silent) == 2
    for each in silent:
        assert each.variance == np.inf
        assert (each.value == 1 / each.grid.size).all()


def test_a_tally_of_nobody_or_of_others():
    with pytest.raises(EmptyError):
        SMALL.collected(SMALL.tally(SMALL.randomize([])))
    with pytest.raises(TallyError):
        SMALL.collected(MIXED.tally(MIXED.randomize([[0, 0, 0]])))
    with pytest.raises(TallyError):
        SMALL.collected(None)
    with pytest.raises(ReportError):
        SMALL.tally(MIXED.randomize([[0, 0, 0]]))


def test_forged_groups_are_refused():
    reports = np.asarray(MIXED.randomize(records(MIXED, 100), seed=1)).copy()
    reports["group"][7] = len(MIXED.groups)
    assert MIXED.valid(reports).tolist() == [row != 7 for row in range(100)]
    with pytest.raises(ReportError, match="report 7"):
        MIXED.tally(reports)


# Which grids ---------------------------------------------------------------------------------------------------------


def test_the_grids_of_each_method():
    shape = (16, 5, 8)
    singles, pairs = [(0,), (1,), (2,)], [(0, 1), (0, 2), (1, 2)]
    for mechanism, attributes in (
        (HDG(shape, 1.0, 10**5), singles + pairs),
        (TDG(shape, 1.0, 10**5), pairs),
        (CALM(shape, 1.0, 10**5), pairs),
        (MSW(shape, 1.0, 10**5), singles),
        (HDG((16,), 1.0, 10**5), [(0,)]),
    ):
        assert [asked.grid.attributes for asked in mechanism.groups] == attributes
        assert {asked.share for asked in mechanism.groups} == {1}
    assert [asked.grid.shape for asked in CALM(shape, 1.0, 10**5).groups] == [(16, 5), (16, 8), (5, 8)]
    assert [asked.recipe for asked in MSW(shape, 1.0, 10**5).groups] == ["SquareWave"] * 3


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0, 6.0])
def test_the_better_oracle_is_taken(epsilon):
    mechanism = HDG((64, 30, 4), epsilon, 10**6)
    for group, asked in enumerate(mechanism.groups):
        k = asked.grid.size
        assert asked.recipe == oracle(k, epsilon)
        others = [made(k=k, epsilon=epsilon).reading.worst_variance() for made in (dither.GRR, dither.LocalHash)]
        assert mechanism.oracle(group).reading.worst_variance() == min(others)


def test_a_report_of_a_method_that_may_be_planned_costs_few_hashes():
    """Labels by the thousand: no report is hashed for each of them. Methods to compare with keep the better oracle."""
    for method in (HDG, TDG, Copula):
        mechanism: Any = method(shape=(2000, 10, 600), epsilon=1.0, n=10**5, nominal=(0, 1, 2))
        many = [asked for asked in mechanism.groups if asked.grid.size > MOST_EVALUATIONS]
        few = [asked for asked in mechanism.groups if asked.grid.size <= MOST_EVALUATIONS]
        assert many
        assert all(asked.recipe.startswith(f"ProjectiveGeometry(k={asked.grid.size}, q=") for asked in many)
        for asked in few:
            alone = method is Copula and len(asked.grid.attributes) == 1
            assert asked.recipe == (best_oracle if alone else oracle)(asked.grid.size, 1.0)
    assert CALM((64, 64), 1.0, 10**5).groups[0].recipe == "LocalHash(k=4096)"


def test_explicit_cuts_are_stored_as_they_are():
    asked = [
        UserGroup(Grid((0,), ((0, 1, 5, 16),)), "GRR(k=3)"),
        UserGroup(Grid.equal((0, 1), (16, 8), (4, 2)), "GRR(k=8)", 3),
    ]
    stored = [each.stored() for each in asked]
    assert stored == [((0,), ((0, 1, 5, 16),), "GRR(k=3)", 1), ((0, 1), (4, 2), "GRR(k=8)", 3)]
    mechanism = HDG((16, 8), 1.0, 10**5, asked=stored)
    assert mechanism.groups == tuple(asked)
    again: Any = load(json.loads(json.dumps(mechanism.to_dict())))
    assert again == mechanism
    assert again.groups == tuple(asked)


@every
def test_a_stored_choice_is_never_made_again(mechanism, monkeypatch):
    stored = json.dumps(mechanism.to_dict())

    def refuse(self):
        raise AssertionError("the grids are chosen again")

    monkeypatch.setattr(type(mechanism), "_chosen", refuse)
    again: Any = load(json.loads(stored))
    assert again == mechanism
    assert again.fingerprint == mechanism.fingerprint == pickle.loads(pickle.dumps(mechanism)).fingerprint
    assert again.groups == mechanism.groups


@pytest.mark.parametrize("asked", [(), 3, "HDG", [3]])
def test_no_groups(asked):
    with pytest.raises(ParameterError):
        HDG((16, 8), 1.0, 10**5, asked=asked)


@pytest.mark.parametrize(
    "group",
    [
        ((0,), (2,), "GRR(k=2)"),
        ((0,), (2,), "GRR(k=3)", 1),
        ((0,), (2,), "GRR(k=2)", 0),
        ((0,), (2,), "GRR(k=2)", 1 << 30),
        ((0,), (2,), "GRR(k=2, epsilon=5.0)", 1),
        ((0,), (2,), "Sampled(base='Duchi', d=2)", 1),
        ((0,), (2,), "nothing", 1),
        ((5,), (2,), "GRR(k=2)", 1),
        ((0,), (99,), "GRR(k=99)", 1),
        ((0,), ((0, 4, 8),), "GRR(k=2)", 1),
        ((0, 1), (2,), "GRR(k=2)", 1),
        ((0,), 2, "GRR(k=2)", 1),
    ],
)
def test_groups_that_make_no_sense(group):
    rest = [((0, 1), (2, 2), "GRR(k=4)", 1)]
    assert len(HDG((16, 8), 1.0, 10**5, asked=rest).groups) == 1
    with pytest.raises(ParameterError):
        HDG((16, 8), 1.0, 10**5, asked=[*rest, group])


# What cannot be read is refused before anybody reports ---------------------------------------------------------------

WAVES = [((0,), (16,), "SquareWave", 1), ((1,), (10,), "SquareWave", 1)]
CELLS = [((0,), (4,), "GRR(k=4)", 1), ((1,), (10,), "LocalHash(k=10)", 1), ((0, 1), (4, 2), "Hadamard(k=8)", 1)]


@pytest.mark.parametrize(
    "recipe", ["Laplace", "Duchi", "Piecewise", "LocalHash(k=10, cohorts=4)", "Histogram(k=10, base='Duchi')"]
)
@pytest.mark.parametrize("method", [Copula, MSW, HDG, TDG, CALM, Uniform])
def test_an_oracle_whose_reports_are_no_frequencies(method, recipe):
    first = WAVES[0] if method in (Copula, MSW) else CELLS[0]
    with pytest.raises(ParameterError, match=r"group 1.* asked by .*(take GRR|needs SquareWave)"):
        method((16, 10), 1.0, 1000, asked=[first, ((1,), (10,), recipe, 1)])


@pytest.mark.parametrize("group", [((0, 1), (16, 10), "SquareWave", 1), ((0, 1), (2, 2), "SquareWave", 1)])
def test_a_pair_by_the_square_wave(group):
    for method in (Copula, MSW):
        with pytest.raises(ParameterError, match="group 2 is asked by SquareWave, which reports one attribute"):
            method((16, 10), 1.0, 1000, asked=[*WAVES, group])


def test_a_square_wave_of_coarse_cells():
    """It is read as one of all values, so that nothing else may be asked by it."""
    for method in (Copula, MSW):
        with pytest.raises(ParameterError, match="a cell for each of its values"):
            method((16, 10), 1.0, 1000, asked=[((0,), (4,), "SquareWave", 1), WAVES[1]])


def test_square_waves_and_cells_where_the_method_has_no_use_for_them():
    for method in (HDG, TDG, CALM):
        with pytest.raises(ParameterError, match="group 0, which is asked by SquareWave: it needs a frequency oracle"):
            method((16, 10), 1.0, 1000, asked=[WAVES[0], *CELLS[1:]])
    with pytest.raises(ParameterError, match=r"group 1, which is asked by LocalHash.* needs SquareWave"):
        MSW((16, 10), 1.0, 1000, asked=[WAVES[0], CELLS[1]])


@pytest.mark.parametrize("method", [HDG, TDG, CALM, Copula, MSW])
def test_an_attribute_that_nobody_is_asked_about(method):
    asked = WAVES if method is MSW else CELLS
    with pytest.raises(ParameterError, match="asks nobody about attribute 2: add a group"):
        method((16, 10, 3), 1.0, 1000, asked=asked)


def test_a_grid_more_than_the_method_reads():
    for method in (HDG, TDG, CALM, Copula):
        for more in (
            ((0,), (8,), "GRR(k=8)", 1),
            ((0, 1), (4, 2), "GRR(k=8)", 1),
            ((0, 1, 2), (2, 2, 3), "GRR(k=12)", 1),
        ):
            with pytest.raises(ParameterError, match="group 4 is another"):
                method((16, 10, 3), 1.0, 1000, asked=[*CELLS, ((2,), (3,), "GRR(k=3)", 1), more])
    with pytest.raises(ParameterError, match="group 2 is another"):
        MSW((16, 10), 1.0, 1000, asked=[*WAVES, WAVES[0]])


@pytest.mark.parametrize(
    ("method", "asked"),
    [
        *[(method, CELLS) for method in (HDG, TDG, CALM, Copula, Uniform)],
        *[(method, CELLS[2:]) for method in (HDG, TDG, CALM, Copula)],  # an attribute may be asked about in pairs alone
        *[(method, CELLS[:2]) for method in (HDG, TDG, CALM, Copula)],  # or alone
        (Copula, [*WAVES, *CELLS[2:]]),
        (Copula, [CELLS[0], WAVES[1]]),
        (MSW, WAVES),
    ],
)
def test_what_is_accepted_can_be_read(method, asked):
    mechanism = method((16, 10), 2.0, 1000, asked=asked)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(records(mechanism, 3000), seed=1)))
    answer = estimate.answer({0: (0, 7), 1: (2, 6)})
    assert 0 <= float(answer.value) <= 1
    assert np.isfinite(float(answer.stderr))


# Refusals ------------------------------------------------------------------------------------------------------------


def test_fewer_users_than_groups():
    with pytest.raises(ParameterError, match="at least 21 users"):
        HDG((64,) * 6, 1.0, 20)
    with pytest.raises(ParameterError, match="at least 15 users"):
        TDG((64,) * 6, 1.0, 14)
    with pytest.raises(ParameterError, match="at least 15 users"):
        CALM((64,) * 6, 1.0, 14)
    with pytest.raises(ParameterError, match="at least 6 users"):
        MSW((64,) * 6, 1.0, 5)
    assert len(HDG((64,) * 6, 1.0, 21).groups) == 21
    some: Any = (0, -5, 2.5, "many", None, True)
    for n in some:
        with pytest.raises(ParameterError):
            HDG((64,) * 6, 1.0, n)


def test_pairs_need_two_attributes():
    for method in (TDG, CALM):
        with pytest.raises(ParameterError, match="two attributes or more"):
            method((64,), 1.0, 1000)


def test_tables_that_are_too_large():
    with pytest.raises(ParameterError, match="take HDG"):
        CALM((2048, 1024), 1.0, 10**6)
    with pytest.raises(ParameterError, match="coarser"):
        CALM((1024,) * 13, 1.0, 10**6)


SECRET = 987654321


@every
def test_bad_records_name_attribute_and_row_and_no_value(mechanism):
    good = records(mechanism, 50_000)
    last = len(mechanism.shape) - 1
    for value, dtype in ((SECRET, np.int64), (-SECRET, np.int64), (mechanism.shape[last], np.int32), (-1, np.int16)):
        bad = good.astype(dtype)
        bad[40_000, last] = value
        with pytest.raises(DomainError, match=f"row 40000, attribute {last}") as caught:
            mechanism.randomize(bad)
        assert str(SECRET) not in str(caught.value)
    for bad in (np.hstack([good, good]), good.astype(str), good[None]):
        with pytest.raises(DomainError):
            mechanism.randomize(bad)


def test_records_of_all_kinds():
    table = records(MIXED, 500)
    expected = MIXED.randomize(table, seed=1)
    columns = {name: table[:, j] for j, name in enumerate(("age", "hours", "job"))}
    for same in (
        table.tolist(),
        table.astype(np.uint8),
        table.astype(np.uint64),
        table.astype(float),
        np.asfortranarray(table),
        np.repeat(table, 2, axis=0)[::2],
        columns,
        np.ma.MaskedArray(table),
    ):
        assert (MIXED.randomize(same, seed=1) == expected).all()
    bad = table.copy()
    bad[3], bad[4] = 99, -1
    fixed = table.copy()
    fixed[3:5] = 2
    assert (MIXED.randomize(bad, seed=1, invalid=[2, 2, 2]) == MIXED.randomize(fixed, seed=1)).all()
    table.flags.writeable = False
    assert (MIXED.randomize(table, seed=1) == expected).all()


def test_moments_are_those_of_the_oracles():
    with pytest.raises(ParameterError, match="oracle"):
        SMALL.moments([[0, 0]])
    assert SMALL.oracle(2).moments([3]).variance.shape == (1, 4)
    with pytest.raises(ParameterError):
        SMALL.oracle(3)


# Size ----------------------------------------------------------------------------------------------------------------


def test_ten_attributes_of_a_thousand_values():
    mechanism = HDG((1024,) * 10, 1.0, 10**6)
    assert len(mechanism.groups) == 55
    reports = mechanism.randomize(records(mechanism, 100_000), seed=1)
    tally = mechanism.tally(reports)
    assert tally.counts.nbytes < 1 << 16
    assert Counter(len(each.grid.attributes) for each in mechanism.collected(tally)) == {1: 10, 2: 45}


def test_attributes_of_a_million_values():
    mechanism = HDG((1 << 20, 1 << 20), 4.0, 10**6)
    values = np.array([[0, (1 << 20) - 1]] * 30_000)
    *_, pair = mechanism.collected(mechanism.tally(mechanism.randomize(values, seed=1)))
    assert pair.value is not None
    assert np.unravel_index(pair.value.argmax(), pair.grid.shape) == (0, pair.grid.shape[1] - 1)


def test_a_device_imports_neither_numba_nor_scipy():
    script = (
        "import sys, dither; dither.HDG((64, 64), 1.0, 1000).randomize([[1, 2]]); "
        "print(*[name for name in ('numba', 'scipy', 'pandas', 'sqlglot') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
