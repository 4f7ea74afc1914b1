"""003: worked examples and golden numbers exactly, what is as printed, and judges that notice altered numbers."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest

import dither
from dither.core.channel import TwoLevel
from dither.core.hashed_channel import HashedChannel
from dither.privacy.enumeration import enumerated_delta
from dither.reproduce import papers
from dither.reproduce.measured import Measured, Row

PAPER = papers.load_paper("003")
KEPT = PAPER.kept()
printed, formulas, worked, users, sweep = (
    import_module(f"dither_papers.003.{name}")
    for name in ("as_printed", "formulas", "worked_examples", "users", "sweep")
)
F = Fraction


def test_every_figure_and_claim_of_the_paper_is_there():
    assert [claim.name for claim in PAPER.claims] == [f"003.claim{number}" for number in range(1, 37)]
    figures = {f"003.fig{number}" for number in range(1, 17)} | {"003.table2"}
    assert {entry.name for entry in PAPER.figures} == figures


# Worked examples and golden numbers ----------------------------------------------------------------------------------


def test_fig_1_in_fractions():
    assert worked.case_row("Collision, no conflict") == [F(1, 3), F(1, 6), F(1, 3), F(1, 6)]
    assert worked.case_row("Collision, one bucket") == [F(2, 9), F(1, 3), F(2, 9), F(2, 9)]


def test_fig_3_in_fractions():
    high, low, free = F(2, 11), F(1, 11), F(5, 44)
    assert worked.case_row("CoCo, no conflict") == [high, low, low, low, low, high, high, low]
    assert worked.case_row("CoCo, two keys on one pair") == [high, free, low, free, low, free, high, free]
    assert sorted(set(worked.case_row("CoCo, three keys on one pair"))) == [low, F(4, 33), high]


def test_table_2_by_enumeration_and_by_formula():
    rates = formulas.coco_rates(3, F(2), 8)
    assert (formulas.overwritten(3, 8), *rates) == (F(11, 48), F(181, 1056), F(107, 1056), F(1, 8))
    assert worked.collision_rates("j_b", (1, -1)) == rates[:2]
    assert worked.collision_rates("the opposite of j_b", (-1, -1)) == rates[1::-1]
    assert worked.collision_rates("not the key j", (1, -1)) == (F(1, 8), F(1, 8))


@pytest.mark.parametrize(
    ("t", "collision", "minus", "plus"),
    [(18, 56_061, 38_617, 1_310_502), (22, 48_654, 38_150, 250_838), (30, 45_679, 40_009, 108_409)],
)
def test_errors_of_fig_5(t, collision, minus, plus):
    ratio = math.exp(0.5)
    errors = formulas.coco_errors(128, 8, ratio, t)
    assert [round(each) for each in errors] == [minus, plus]
    assert round(formulas.collision_errors(128, 8, ratio, t).item) == collision
    coco = dither.CoCo(128, 8, 0.5, t=t)
    vector = [{key: (-1) ** key for key in range(8)}]
    for about, expected in zip(("mean", "presence"), errors, strict=True):
        exact = replace(coco.reading, about=about).moments(vector).variance.sum()
        assert exact == pytest.approx(expected, rel=1e-9)


def test_printed_numbers_of_buckets():
    assert formulas.collision_buckets(8, 0.5) == 28
    assert formulas.collision_buckets(4, 1.0) == 17
    assert formulas.coco_buckets(8, 0.5) == 24
    assert formulas.coco_buckets(8, 0.5, "presence") == 54


def test_users_have_the_frequencies_that_are_stated():
    drawn = users.Users.drawn(12, 3, 500, 7)
    keys, values = drawn.rows["key"], drawn.rows["value"]
    assert all(len(set(row)) == 3 for row in keys.tolist())
    assert drawn.frequency.sum() == pytest.approx(3)
    assert drawn.mean[5] == pytest.approx((values * (keys == 5)).sum() / 500)


# As printed ----------------------------------------------------------------------------------------------------------


def response(ratio: Fraction, k: int) -> HashedChannel:
    return HashedChannel(TwoLevel(ratio.numerator, ratio.denominator, favoured=1, outputs=k))


def test_theorem_5_is_below_the_truth_with_either_alpha():
    alpha = printed.mixture_alpha(1, F(3), 6)
    exact = enumerated_delta(response(F(3), 6), 5, F(2))
    assert (exact, printed.exact_counts_delta(F(3), alpha, 5, F(2))) == (F(249, 32768), F(141, 32768))
    small = printed.theorem_5_alpha(1, F(5, 4), 3)
    assert printed.exact_counts_delta(F(5, 4), small, 6, F(21, 20)) < enumerated_delta(
        response(F(5, 4), 3), 6, F(21, 20)
    )


@pytest.mark.parametrize(("alpha", "n"), [(F(1, 8), 5), (F(1, 6), 9), (F(1, 4), 12)])
def test_the_integral_is_the_divergence_of_the_counts(alpha, n):
    exact = printed.exact_counts_delta(F(3), alpha, n, F(3, 2))
    assert printed.counts_delta(3.0, float(alpha), math.log(1.5), n) == pytest.approx(float(exact), rel=1e-3)
    assert printed.counts_delta(3.0, float(alpha), math.log(1.5), n) >= float(exact) * (1 - 1e-9)


def test_the_printed_alpha_is_no_probability_beyond_epsilon_one():
    for s, most in ((4, 0.978), (64, 1.003)):
        for epsilon, there in ((most - 0.05, True), (most + 0.06, False)):
            ratio, t = math.exp(epsilon), s * math.exp(epsilon) + 2 * s - 1
            assert printed.exists(ratio, printed.theorem_5_alpha(s, ratio, t)) is there
    assert printed.counts_epsilon(3.0, printed.theorem_1_alpha(3.0), 100, 1e-6) is None


def by_signs(s: int, eta: float) -> float:
    """The mean of one sign times the clipped sum, from all signs."""
    signs = 2.0 * (np.arange(2**s)[:, None] >> np.arange(s) & 1) - 1
    return float((signs[:, 0] * np.clip(signs.sum(axis=1), -eta, eta)).mean())


def test_what_published_succinct_keeps_of_the_mean():
    for s, eta in ((3, 1.0), (4, 2.5), (8, 3.0), (8, 8.0)):
        assert printed.kept(s, eta) == pytest.approx(by_signs(s, eta), rel=1e-12)
    assert printed.kept(4, printed.eta_of(4, 100_000)) == 1.0
    assert 1 - printed.kept(32, printed.eta_of(32, 100_000)) < 1e-6


def test_published_succinct_estimates_what_it_keeps():
    """All have the same signs, so that means are 1; six standard errors have a false-alarm chance of 2e-9 a key."""
    d, n, epsilon = 6, 20_000, 4.0
    same = users.Users.of(d, np.tile(np.arange(3, dtype=np.int16), (n, 1)), np.ones((n, 3), dtype=np.int8))
    error = 6 * math.sqrt((printed.variance(3, 3.0, epsilon) + 1) / n)
    assert np.abs(printed.succinct_mean(same.rows, d, epsilon, 5) - same.mean).max() < error


def test_nearest_means_add_up_to_s_at_most():
    near = sweep.mean_within(np.array([3.0, -2.0, 0.5, 0.0]), 2)
    assert near.tolist() == pytest.approx([1.0, -1.0, 0.0, 0.0])
    assert sweep.mean_within(np.array([0.5, -0.25]), 2).tolist() == [0.5, -0.25]


# Judges --------------------------------------------------------------------------------------------------------------


def verdict(number: int, altered: Callable[[str, Row], float] = lambda experiment, row: row.value) -> str:
    """What a claim comes to if the numbers that are kept were these."""
    claim = PAPER.claims[number - 1]
    found = {
        each.name: Measured(tuple(row._replace(value=altered(each.name, row)) for row in KEPT[each.name].rows))
        for each in claim.experiments
    }
    return claim.verdict(found).outcome


def test_all_claims_are_decided_by_the_numbers_that_are_kept():
    assert {number for number in range(1, 37) if verdict(number) == "cannot be decided here"} == set()


@pytest.mark.parametrize(
    ("number", "outcome"),
    [(1, "holds"), (11, "holds after correction"), (12, "refuted"), (14, "refuted"), (16, "holds after correction"),
     (26, "refuted")],
)  # fmt: skip
def test_verdicts_that_are_known(number, outcome):
    assert verdict(number) == outcome


def test_a_larger_ratio_breaks_claim_1():
    assert verdict(1, lambda _, row: row.value * (1.01 if row.where["what"] == "largest ratio" else 1)) == "refuted"


def test_claim_14_would_hold_with_larger_bounds():
    assert verdict(14, lambda _, row: row.value * (10 if row.where["what"] == "claimed" else 1)) == "holds"


def test_claim_12_would_hold_with_a_fifth_less_error():
    def smaller(_: str, row: Row) -> float:
        return row.value - 0.2 * (row.where.get("line") == "CoCo")

    assert verdict(12, smaller) == "holds"


def test_claim_26_would_hold_with_errors_that_grow_as_the_root():
    def rooted(_: str, row: Row) -> float:
        return 0.5 * math.log(int(row.where["d"]))

    assert verdict(26, rooted) == "holds"
