"""Rankings per item: the best of each dimension, what choosing per dimension gives, and refusals."""

import itertools
import math

import numpy as np
import pytest

import dither
from dither.errors import ParameterError
from dither.utility import Deviation, break_even, deviation, rank, rank_shuffled
from dither.utility.compare import Ranking

RNG = np.random.default_rng(4)
ENDS, MIDDLE = RNG.choice([-1.0, 1.0], 500), RNG.normal(0, 0.05, 500).clip(-1, 1)
USERS = np.column_stack([ENDS, MIDDLE, np.full(500, 0.9)])
BASES = ("Duchi", "Piecewise", "Laplace")


def candidates(epsilon: float = 2.0, d: int = 3) -> dict[str, dither.Mechanism]:
    return {base: dither.Sampled(base, d=d, m=1, epsilon=epsilon) for base in BASES}


def test_no_single_candidate_is_best_in_all_dimensions():
    found = rank(candidates(), USERS, reports=1000)
    assert found.per_item == ("Duchi", "Piecewise", "Duchi")
    assert found.combination.mse < min(each.mse for each in found.deviations)
    assert len(set(found.per_item)) == 2
    assert found.best in BASES


def test_the_combination_is_the_best_of_all_choices_and_a_mechanism():
    found = rank(candidates(), USERS, reports=1000)
    costs = {
        choice: deviation(dither.Sampled(choice, d=3, m=1, epsilon=2.0), USERS, reports=1000)
        for choice in itertools.product(BASES, repeat=3)
    }
    best = min(costs, key=lambda choice: costs[choice].mse)
    assert best == found.per_item
    assert found.combination.variance == pytest.approx(costs[best].variance)
    assert found.combination.bias == pytest.approx(costs[best].bias)
    assert found.combination.reports == 1000
    assert found.combination.normal_error >= costs[best].normal_error


def test_the_normal_error_is_the_largest_of_those_chosen():
    found = rank(candidates(), USERS, reports=1000)
    error = dict(zip(found.names, (each.normal_error for each in found.deviations), strict=True))
    assert found.combination.normal_error == max(error["Duchi"], error["Piecewise"])
    good, bad = (Deviation(np.zeros(2), np.full(2, size), 10, error) for size, error in ((0.1, 0.01), (0.2, 0.9)))
    assert Ranking(("good", "bad"), (good, bad), None).combination.normal_error == 0.01


@pytest.mark.wide
def test_one_row_an_item():
    found = rank(candidates(), USERS, reports=1000)
    table = found.items()
    assert len(table) == 3
    assert list(table.columns) == ["item", "best", "rmse", "runner-up", "runner-up rmse"]
    assert tuple(table.columns["best"]) == found.per_item
    for item, (best, rmse, other, worse) in enumerate(
        zip(*(table.columns[name] for name in list(table.columns)[1:]), strict=True)
    ):
        own = {name: each.variance[item] ** 0.5 for name, each in zip(found.names, found.deviations, strict=True)}
        order = sorted(own, key=lambda name: own[name])
        assert [best, other] == order[:2]
        assert [rmse, worse] == pytest.approx([own[order[0]], own[order[1]]])
    assert len(found.table()) == 3  # still one row a candidate
    assert "radius 95%" in repr(found)


def test_frequencies():
    made = {"GRR": dither.GRR(k=4, epsilon=2.0), "Unary": dither.Unary(k=4, epsilon=2.0)}
    found = rank(made, "zipf(2.0)", reports=1000)
    best = np.argmin([each.variance for each in found.deviations], axis=0)
    assert found.per_item == tuple(found.names[number] for number in best)
    assert found.combination.variance.shape == (4,)
    assert found.combination.mse <= found.deviations[0].mse


def test_records_of_several_kinds():
    users = np.column_stack([ENDS, np.arange(500) % 3])
    made = {
        base: dither.Sampled((base, other), d=2, m=1, epsilon=2.0)
        for base, other in (("Duchi", "Unary(k=3)"), ("Laplace", "GRR(k=3)"))
    }
    found = rank(made, users, reports=1000)
    assert found.per_item == ("Duchi", "Laplace", "Laplace", "Laplace")  # a mean, and three categories
    assert found.combination.mse < min(each.mse for each in found.deviations)


def test_one_number_is_one_item():
    found = rank([dither.Laplace(4.0), dither.Piecewise(4.0)], "uniform", reports=1000)
    assert found.per_item == ("Piecewise(epsilon=4.0)",)
    assert found.combination.variance.shape == ()
    assert found.combination.mse == found.deviations[0].mse
    assert found.items().columns["runner-up"] == ["Laplace(epsilon=4.0)"]


def test_a_single_candidate_has_no_runner_up():
    found = rank([dither.Duchi(1.0)], reports=10)
    assert list(found.items().columns) == ["item", "best", "rmse"]
    assert found.combination.rmse == found.deviations[0].rmse


def test_equal_candidates_keep_the_order_of_the_ranking():
    found = rank({"b": dither.Duchi(1.0), "a": dither.Duchi(1.0)}, reports=10)
    assert found.names == ("b", "a")
    assert found.per_item == ("b",)


def test_a_tolerance_decides_per_item_too():
    # One item: a bias of .1 with little noise is surely outside a narrow tolerance, and surely inside a wide one.
    biased = Deviation(np.array([0.1, 0.0]), np.array([1e-6, 1.0]), 10, 0.0)
    noisy = Deviation(np.array([0.0, 0.0]), np.array([0.04, 0.5]), 10, 0.0)
    assert Ranking(("biased", "noisy"), (biased, noisy), None).per_item == ("biased", "noisy")
    assert Ranking(("biased", "noisy"), (biased, noisy), 0.05).per_item == ("noisy", "noisy")
    assert Ranking(("biased", "noisy"), (biased, noisy), 0.2).per_item == ("biased", "noisy")
    found = rank(candidates(), USERS, reports=1000, tolerance=0.05)
    assert found.combination.within(0.05) >= max(each.within(0.05) for each in found.deviations)
    assert found.combination.within(0.05) > found.deviations[0].within(0.05) * 1.01


@pytest.mark.parametrize(
    "made",
    [
        [dither.GRR(k=3, epsilon=1.0), dither.GRR(k=4, epsilon=1.0)],
        [dither.Duchi(1.0), dither.SampledDuchi(d=2, epsilon=1.0)],
        [dither.SampledDuchi(d=2, epsilon=1.0), dither.GRR(k=2, epsilon=1.0)],  # two items each
        [
            dither.Sampled(bases, d=2, m=1, epsilon=1.0)
            for bases in (("Duchi", "GRR(k=2)"), ("GRR(k=2)", "Duchi"))  # the same items in another order
        ],
        [dither.Duchi(1.0), dither.Personalised("Duchi", {"all of them": 1.0})],
        [dither.SampledDuchi(d=3, epsilon=1.0), dither.Hypercube(d=2, epsilon=1.0)],
        [dither.Sampled("GRR(k=3)", d=2, m=1, epsilon=1.0), dither.Sampled("GRR(k=2)", d=2, m=1, epsilon=1.0)],
    ],
    ids=str,
)
@pytest.mark.parametrize("values", [None, [[0, 1], [1, 0]]], ids=["worst", "known"])
def test_different_questions_are_refused(made, values):
    with pytest.raises(ParameterError, match="rank them apart"):
        rank(made, values, reports=10)


def test_the_same_question_written_in_two_ways():
    one, each = (dither.Sampled(bases, d=2, m=1, epsilon=1.0) for bases in ("Duchi", ("Duchi", "Piecewise")))
    assert rank({"one base": one, "two bases": each}, "uniform", reports=100).names
    budgets = {str(size): dither.Personalised("Duchi", {"group": size}) for size in (0.5, 2.0)}
    assert rank(budgets, reports=100).best == "2.0"


def test_estimators_by_name():
    made = {"naive": dither.SquareWave(1.0), "wave": dither.SquareWave(1.0), "piecewise": dither.Piecewise(1.0)}
    found = rank(made, [0.9], reports=10**6, estimator={"naive": "naive", "wave": "calibrated"})
    own = dict(zip(found.names, found.deviations, strict=True))
    assert found.names[-1] == "naive"
    assert own["naive"].mse == deviation(made["naive"], [0.9], reports=10**6, estimator="naive").mse
    assert own["wave"].mse == deviation(made["wave"], [0.9], reports=10**6).mse
    for wrong, said in (({"wafe": "naive"}, "wave, piecewise"), ({"wave": "best"}, "calibrated")):
        with pytest.raises(ParameterError, match=said):
            rank(made, [0.9], reports=100, estimator=wrong)


def test_equal_mechanisms_break_even_everywhere():
    wave = dither.SquareWave(1.0)
    for kind in ("calibrated", "naive"):
        found = break_even(wave, wave, [0.3], estimators=(kind, kind), names=("one", "other"))
        assert found.equal
        assert repr(found) == "one and other are equal: they have the same error for any number of reports"
        assert found.winner(1) == found.winner(10**9) == "one"
    assert not break_even(wave, dither.Duchi(1.0), [0.3]).equal


def test_a_rounding_is_no_bias():
    # Frequencies are unbiased up to the last digit, so neither of two mechanisms overtakes the other.
    for values in (None, "zipf(1.1)", [0, 1, 1]):
        found = break_even(dither.GRR(k=20, epsilon=1.0), dither.SubsetSelection(k=20, epsilon=1.0), values)
        assert found.reports == np.inf


def test_a_meeting_before_the_first_report_is_none():
    wave = dither.SquareWave(1.0)
    found = break_even(wave, dither.Duchi(20.0), [0.99], estimators=("naive", "calibrated"), names=("wave", "duchi"))
    assert repr(found) == "duchi always wins"


def test_two_mechanisms_have_the_names_that_they_are_given():
    made = dither.SquareWave(1.0), dither.Piecewise(1.0)
    found = break_even(*made, "beta(5, 2)", estimators=("naive", "calibrated"), names=("wave", "piecewise"))
    assert (found.fewer, found.more) == ("wave", "piecewise")
    assert repr(found).startswith("wave wins below")


def test_nothing_to_rank_is_refused():
    with pytest.raises(ParameterError, match="at least one"):
        rank([], reports=10)


def test_records_break_even_in_each_dimension():
    """As each dimension would by itself, with half of the reports; the whole by the mean of all."""
    users = np.column_stack([np.full(40, 0.9), np.full(40, 0.02), np.resize([0.5, 0.7], 40)])
    made = [dither.Sampled(base, d=3, m=3, epsilon=3.0) for base in ("SquareWave", "Piecewise")]
    kinds = ("naive", "calibrated")
    found = break_even(made[0], made[1], users, estimators=kinds, names=("wave", "piecewise"))
    assert len(found.per_item) == len(found.items()) == 3
    for j, own in enumerate(found.per_item):
        alone = [dither.SquareWave(made[0].part(0).epsilon), dither.Piecewise(made[0].part(0).epsilon)]
        expected = break_even(alone[0], alone[1], users[:, j], estimators=kinds, names=("wave", "piecewise"))
        assert (own.fewer, own.more) == (expected.fewer, expected.more)
        assert own.reports == pytest.approx(expected.reports)
    meeting = round(found.reports)
    for reports, winner in ((meeting - 2, "wave"), (meeting + 2, "piecewise")):
        errors = [
            deviation(each, users, reports=reports, estimator=kind).mse for each, kind in zip(made, kinds, strict=True)
        ]
        assert ("wave", "piecewise")[int(np.argmin(errors))] == winner == found.winner(reports)
    assert break_even(dither.Duchi(1.0), dither.Piecewise(1.0)).per_item == ()


@pytest.mark.parametrize("d", [1, 2])
def test_worst_cases_meet_where_their_errors_do(d):
    made = [dither.Sampled(base, d=d, m=1, epsilon=1.0) for base in ("SquareWave", "Piecewise")]
    found = break_even(*made, estimators=("naive", "calibrated"), names=("wave", "piecewise"))
    for reports in (1, math.floor(found.reports) - 1, math.ceil(found.reports) + 1, 10**6):
        wave, piecewise = (
            deviation(each, reports=reports, estimator=kind).mse
            for each, kind in zip(made, ("naive", "calibrated"), strict=True)
        )
        assert found.winner(reports) == ("wave" if wave <= piecewise else "piecewise")


# After shuffling -----------------------------------------------------------------------------------------------------


def test_shuffled_mechanisms_at_one_central_guarantee():
    central, delta, users = 0.5, 1e-6, 5000
    makes = {"GRR": lambda epsilon: dither.GRR(k=10, epsilon=epsilon), "any": lambda epsilon: dither.Unary(10, epsilon)}
    found = rank_shuffled(makes, central, delta, "zipf(1.1)", users=users, local_budget=dither.privacy.local_budget)
    assert sorted(found.names) == sorted(makes)
    assert found.deviations[0].mse <= found.deviations[1].mse
    for name, epsilon, shuffled, alone in zip(found.names, found.epsilons, found.deviations, found.alone, strict=True):
        assert dither.privacy.amplify(makes[name](epsilon), users, delta).epsilon <= central
        assert dither.privacy.amplify(makes[name](epsilon * 1.01), users, delta).epsilon > central
        assert shuffled.mse == deviation(makes[name](epsilon), "zipf(1.1)", reports=users).mse
        assert alone.mse == deviation(makes[name](central), "zipf(1.1)", reports=users).mse
    table = found.table().columns
    assert list(table) == ["mechanism", "local epsilon", "rmse", "maximum 95%", "rmse without a shuffler", "gain"]
    assert table["gain"] == pytest.approx(
        [b / a for a, b in zip(table["rmse"], table["rmse without a shuffler"], strict=True)]
    )
    assert found.best in repr(found)


def test_shuffled_candidates_answer_one_question():
    budget = dither.privacy.local_budget
    different = {"a": lambda epsilon: dither.GRR(k=10, epsilon=epsilon), "b": lambda epsilon: dither.Duchi(epsilon)}
    with pytest.raises(ParameterError, match="different questions"):
        rank_shuffled(different, 0.5, 1e-6, users=1000, local_budget=budget)
    for wrong in ({}, {"a": dither.Duchi(1.0)}):
        with pytest.raises(ParameterError):
            rank_shuffled(wrong, 0.5, 1e-6, users=1000, local_budget=budget)  # type: ignore[arg-type]
