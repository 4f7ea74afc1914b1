"""004: golden numbers, worked examples, forms as printed, and judges that change their verdicts with the numbers."""

import math
from dataclasses import replace
from itertools import combinations
from sys import modules

import numpy as np
import pytest

from dither.ranges.consistency import consistent
from dither.ranges.grid import Grid
from dither.ranges.pair_completion import joint
from dither.reproduce import papers
from dither.reproduce.measured import Measured, Number, measured_value
from dither.reproduce.paper_figures import Figure

PAPER = papers.load_paper("004")


def part(name: str):
    return modules[f"dither_papers.004.{name}"]


def measured(experiment, **setting) -> Measured:
    chosen = [each for each in experiment.settings if all(each[name] == value for name, value in setting.items())]
    numbers = [
        Number({**each, **one.where}, one.value) for each in chosen for one in experiment.measure(dict(each), seed=1)
    ]
    return Measured.of(numbers)


def verdict_of(claim: int, *found: Measured):
    return next(each for each in PAPER.claims if each.name == f"004.claim{claim}").judge(*found)


def altered(found: Measured, factor: float, **where) -> Measured:
    """The same numbers, those with these coordinates multiplied."""
    rows = [
        row._replace(value=row.value * factor) if all(row.where.get(k) == v for k, v in where.items()) else row
        for row in found.rows
    ]
    return replace(found, rows=tuple(rows))


# What is there --------------------------------------------------------------------------------------------------------


def test_all_claims_are_there():
    assert [claim.name for claim in PAPER.claims] == [f"004.claim{number}" for number in range(1, 39)]


def test_all_figures_are_there():
    names = {entry.name for entry in PAPER.figures}
    assert {f"004.fig{number}" for number in range(1, 29) if number != 22} | {"004.ex1", "004.table2"} <= names
    eights = [
        entry
        for entry in PAPER.figures
        if isinstance(entry, Figure) and entry.name in {f"004.fig{n}" for n in (1, 2, 4, 8, 9, 10)}
    ]
    assert [len(entry.panels) for entry in eights] == [8] * 6


def test_a_run_without_numbers_decides_nothing():
    assert {claim.verdict({}).outcome for claim in PAPER.claims} == {"cannot be decided here"}


# Golden numbers -------------------------------------------------------------------------------------------------------


def test_table_2_comes_out():
    found = measured(part("formulas").TABLE_2)
    for place, side in enumerate(("g1", "g2")):
        printed = part("table2").printed(place)
        assert len(printed) == 180  # the row of six attributes and 10^6 users stands twice
        assert all(found.value(row=row, epsilon=epsilon, side=side) == g for (row, epsilon), g in printed.items())


def test_example_1():
    found = measured(part("formulas").EXAMPLE_1)
    weights = {(i, j): found.value(item=f"weight of f({i},{j})") for i in (1, 2) for j in (1, 2)}
    assert weights == {(1, 1): 0.0, (1, 2): 0.25, (2, 1): 0.0, (2, 2): 1.0}
    item = "squared noise of a cell / (m2/n2), epsilon 1"
    assert found.value(item=item, column="recomputed") == pytest.approx(4 * math.e / (math.e - 1) ** 2, rel=1e-6)
    assert found.value(item=item, column="by the integers") == pytest.approx(3.6827, abs=1e-4)
    assert found.value(item=item, column="last step of the text") == pytest.approx(0.9207, abs=1e-4)


def test_volumes_of_the_authors_queries():
    volumes = [part("people").length(64, omega) / 64 for omega in part("sweeps").OMEGAS]
    assert volumes == [0.0625, 0.1875, 0.25, 0.375, 0.5, 0.5625, 0.6875, 0.75, 0.875]


# Users and queries ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", ["round", "any"])
def test_true_answers_by_looking_at_every_user(ends):
    people, random = part("people"), np.random.default_rng(1)
    users = people.People.drawn("Laplace", 3001, 4, 64, random)
    asked = people.queries(users, 3, 20, 0.3, ends, random)
    for query, share in zip(asked, users.truth(asked), strict=True):
        inside = np.all(
            [(users.records[:, j] >= low) & (users.records[:, j] <= high) for j, (low, high) in query.items()], axis=0
        )
        assert share == inside.mean()
        assert all(high - low + 1 == 16 for low, high in query.values())
        assert ends == "any" or all(low % 4 == 0 for low, _ in query.values())


def test_covariances_of_synthetic_data():
    random, n = np.random.default_rng(1), 200_000
    for covariance in (0.0, 0.4, 1.0):
        z = part("people").numbers("Normal", random, n, 3, covariance)
        found = np.cov(z.T.astype(float))
        assert np.abs(found - (covariance + (1 - covariance) * np.eye(3))).max() < 6 * math.sqrt(2 / n)


def test_queries_that_nobody_is_inside_of():
    people, random = part("people"), np.random.default_rng(1)
    users = people.People.drawn("Normal", 2000, 6, 64, random)
    none = people.with_count(users, 6, 10, 0.3, random, zero=True)
    some = people.with_count(users, 6, 10, 0.7, random, zero=False)
    assert (len(none), len(some)) == (10, 10)
    assert not users.truth(none).any()
    assert users.truth(some).all()


# Algorithms -----------------------------------------------------------------------------------------------------------


def test_algorithm_2_is_weighted_update():
    random = np.random.default_rng(1)
    states = random.dirichlet(np.ones(16), 5)
    inside = np.arange(16) >> np.arange(4)[::-1, None] & 1
    singles = np.stack([states[:, row == 1].sum(axis=1) for row in inside], axis=1)
    pairs = np.stack(
        [states[:, (inside[j] & inside[k]) == 1].sum(axis=1) for j, k in combinations(range(4), 2)], axis=1
    )
    own = part("algorithms").algorithm_2(pairs, 4, rounds=2000, tolerance=1e-9)
    assert own.answers == pytest.approx(
        joint(singles, pairs, "weighted update", tolerance=1e-9, most=2000).answer, abs=1e-6
    )
    assert own.states.sum(axis=1) == pytest.approx(np.ones(5))


def test_algorithm_2_as_printed_does_not_stay_a_distribution():
    pairs = np.full((1, 6), 0.4)
    printed = part("as_printed").printed_algorithm_2(pairs, 4).states
    assert printed.sum() > 1.25
    assert part("algorithms").algorithm_2(pairs, 4).states.sum() == pytest.approx(1)


def test_consistency_in_any_order_is_that_of_the_library():
    random = np.random.default_rng(1)
    shape = (8, 8, 8)
    asked = [((j,), (4,)) for j in range(3)] + [(pair, (2, 2)) for pair in combinations(range(3), 2)]
    grids = [Grid.equal(attributes, shape, cells) for attributes, cells in asked]
    tables = [random.dirichlet(np.ones(grid.size)).reshape(grid.shape) for grid in grids]
    wanted = consistent(grids, tables, [1.0] * len(grids))
    for order in ((0, 1, 2), (2, 0, 1)):
        found = part("algorithms").in_order(grids, tables, order, (0, 4, 8))
        assert max(np.abs(a - b).max() for a, b in zip(found, wanted, strict=True)) < 1e-12


def test_a_table_without_single_attributes_is_spread_evenly():
    table = np.array([[0.4, -0.1], [0.3, 0.4]])
    grids = {(0, 1): Grid.equal((0, 1), (4, 4), (2, 2))}
    found = part("phases").responses({(0, 1): table}, grids, 1e-9, 100)[0, 1].full()
    assert found == pytest.approx(np.repeat(np.repeat(table / 4, 2, axis=0), 2, axis=1))


def test_local_hashing_with_a_rounded_size_and_p_of_a_half_spends_more():
    printed = part("as_printed")
    own, other, values = printed.rounded_hash(1.0)
    assert own + (values - 1) * other == 1
    assert printed.spent(1.0) == pytest.approx(math.log(3))
    assert printed.spent(1.0) > 1.0986


# Judges ---------------------------------------------------------------------------------------------------------------


def test_a_method_that_spends_too_much_is_refuted():
    found = measured(part("formulas").VARIANCES, epsilon=1.0)
    assert verdict_of(1, found).outcome == "holds"
    assert verdict_of(1, altered(found, 1.001, of="privacy", line="HDG")).outcome == "refuted"


def test_the_variance_of_a_value_inside_a_cell():
    found = measured(part("formulas").INSIDE_A_CELL)
    assert verdict_of(28, found).outcome == "holds after correction"
    printed = Measured.of([measured_value(1 / gamma, gamma=gamma, of="measured") for gamma in (4, 16)])
    assert verdict_of(28, printed).outcome == "holds"


def test_half_of_the_cells_of_a_query():
    found = measured(part("formulas").CELLS_IN_QUERIES)
    assert verdict_of(35, found).outcome == "holds"
    assert verdict_of(35, altered(found, 1.1, line="by volume", g=8)).outcome == "refuted"


def errors(**of_lines: float) -> Measured:
    """The same errors in all cells of Fig. 1."""
    sweeps = part("sweeps")
    return Measured.of(
        measured_value(value, data=data, epsilon=epsilon, line=line, omega=0.5, ends="round", **{"lambda": count})
        for data in sweeps.DATA
        for epsilon in (0.2, 1.0, 2.0)
        for count in (2, 4)
        for line, value in of_lines.items()
        for _ in range(2)
    )


@pytest.mark.parametrize(
    ("other", "outcome"),
    [(0.1, "holds"), (0.03, "holds after correction"), (0.011, "holds after correction"), (0.005, "refuted")],
)
def test_hdg_against_all_others(other, outcome):
    found = errors(HDG=0.01, MSW=other, TDG=0.2, Uni=0.4, Copula=0.003)
    assert verdict_of(4, found).outcome == outcome


def test_a_difference_counts_beyond_three_standard_errors():
    close = verdict_of(10, errors(HDG=0.0105, TDG=0.01))
    assert close.outcome == "holds"
    assert close.evidence.startswith("HDG against TDG: 24 cells: surely ahead in 0; surely behind in 0")
    assert verdict_of(10, errors(HDG=0.02, TDG=0.01)).outcome == "refuted"
    assert verdict_of(10, errors(HDG=0.01, TDG=0.02)).evidence.startswith(
        "HDG against TDG: 24 cells: surely ahead in 24"
    )
