"""Plans for users of whom some lie: what is chosen, what is stored, what is told."""

import json
import math
from fractions import Fraction
from typing import Any

import pytest

import dither
from dither import Categorical, KeyValue, Numeric, Ordinal, Schema, plan
from dither.errors import ParameterError
from dither.planning.choose import Chooser

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

MANY = Schema({"word": Categorical([str(number) for number in range(1000)])})
NUMBERS = Schema({f"x{number}": Numeric(0, 1) for number in range(4)})
MIXED = Schema({"age": Ordinal(0, 9), "income": Numeric(0, 200_000), "films": KeyValue(keys=30, size=3)})
registry: Any = dither.registry


def chosen(schema: Schema, epsilon: float, **options: Any) -> str:
    (part,) = plan(schema, epsilon, users=100_000, **options).parts
    return type(part.mechanism).__name__


def test_a_thousand_categories_are_not_left_to_one_word_a_liar():
    """A liar is worth 1.9 honest users there, and 1.5 under projective geometry, which has the larger variance."""
    assert chosen(MANY, 7.0) == "GRR"
    assert chosen(MANY, 7.0, liars=0.01) == "ProjectiveGeometry"


def test_keys_are_asked_for_by_signs():
    films = Schema({"films": KeyValue(keys=100, size=5)})
    assert chosen(films, 1.0) == "Collision"
    made = plan(films, 1.0, users=100_000, liars=0.01)
    before = plan(films, 1.0, users=100_000)
    assert type(made.parts[0].mechanism).__name__ == "SignSum"
    moved, still = (float(each.influence(0.01).worst.worst_shift(Fraction(1, 100))) for each in (made, before))
    assert moved < still / 3
    assert before.predicted["mean(films)"] < made.predicted["mean(films)"] < 1.3 * before.predicted["mean(films)"]


def test_questions_that_all_answer_leave_liars_no_choice():
    honest, wary = (plan(NUMBERS, 4.0, users=100_000, liars=liars) for liars in (0.0, 0.02))
    assert honest.questions_per_user < len(honest.parts)
    assert wary.questions_per_user == len(wary.parts)


@pytest.mark.parametrize("liars", [0.001, 0.05])
def test_no_other_mechanism_is_better(liars: float):
    """The root of variance plus squared shift, computed apart from the planner, for each frequency oracle."""
    made = plan(MANY, 3.0, users=100_000, liars=liars)
    for name in ("GRR", "Unary", "LocalHash", "SubsetSelection", "Hadamard", "ProjectiveGeometry"):
        mechanism = registry[name](k=1000, epsilon=3.0)
        if mechanism.evaluations > 500:
            continue
        (worth,) = mechanism.report_worth()
        shift = float(worth.worst_shift(Fraction(repr(liars))))
        assert made.rmse <= math.sqrt(mechanism.reading.worst_variance() / 100_000 + shift**2) * 1.01, name


def test_what_is_minimised_is_the_error_at_their_worst():
    made = plan(Schema({"income": Numeric(0, 2)}), 1.0, users=100_000, liars=0.01)
    shift = float(made.influence(0.01).of("mean(income)").worst_shift(Fraction(1, 100)))
    assert made.prediction.worst == pytest.approx(math.hypot(made.predicted["mean(income)"], shift), rel=1e-12)
    assert made.prediction.limit == 0  # the limit is one for honest users


def test_predicted_errors_are_those_of_honest_users():
    for liars in (0.001, 0.02):
        made = plan(MIXED, 1.0, users=100_000, liars=liars)
        for part, share in zip(made.parts, made.shares, strict=True):
            chooser = Chooser(part.questions, dict.fromkeys(part.questions, 1.0), {}, 1.0, 0.0, 100_000, worst=True)
            price = chooser.price_of(part.mechanism, part.questions, float(share))
            for question, variance in zip(part.questions, price.variances, strict=True):
                error = math.sqrt(variance / (100_000 * share)) * question.unit
                assert made.predicted[str(question)] == pytest.approx(error, rel=1e-12)


def test_a_plan_without_liars_is_what_it_was():
    """No byte of it changes: stored plans, and what devices keep under their hashes, stay."""
    honest, none = plan(MIXED, 1.0, users=100_000), plan(MIXED, 1.0, users=100_000, liars=0.0)
    assert honest.to_json() == none.to_json()
    assert "liars" not in honest.to_json()


def test_a_plan_for_liars_comes_back():
    made = plan(MIXED, 1.0, users=100_000, liars=0.01)
    again = dither.Plan.from_json(made.to_json())
    assert again == made
    assert again.prediction == made.prediction
    assert again.prediction.liars == 0.01
    assert "liars" not in json.dumps(made.to_dict())  # its hash is that of what is asked
    for wrong in (-0.1, 1.0, "0.01"):
        stored = json.loads(made.to_json())
        stored["prediction"]["liars"] = wrong
        with pytest.raises(ParameterError, match=r"this is not a plan: .*liars"):
            dither.Plan.from_json(json.dumps(stored))


def test_it_is_told():
    made = plan(MIXED, 1.0, users=100_000, liars=0.02)
    assert "has the smallest error at the worst that 2% of liars can do" in made.explain()
    assert "Liars: 2% of the users could move " in made.explain()
    assert "at the worst" not in plan(MIXED, 1.0, users=100_000).explain()


@pytest.mark.parametrize("liars", [-0.1, 1.0, math.nan, "a few", None])
def test_liars_are_a_share(liars: Any):
    with pytest.raises(ParameterError, match="liars must be"):
        plan(MIXED, 1.0, users=100_000, liars=liars)


def test_a_mechanism_of_unknown_worth_is_not_planned_with(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry["GRR"], "report_worth", lambda self: None)
    assert chosen(MANY, 7.0) == "GRR"
    assert chosen(MANY, 7.0, liars=1e-9) != "GRR"
    unknown = plan(MANY, 7.0, users=100_000)
    assert "How far liars could move histogram(word) is not known." in unknown.explain()
    assert math.isnan(unknown.table(liars=0.01).columns["moved by 1% of liars"][0])
