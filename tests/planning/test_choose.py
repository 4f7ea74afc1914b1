"""What is chosen: never worse than any fixed way to ask, by numbers computed apart from the planner."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import dither
from dither import Categorical, Numeric, Ordinal, Schema, plan
from dither.errors import ParameterError
from dither.planning.choose import Chooser, shares_for_the_largest
from dither.planning.error_curves import LIMIT, error_curves
from dither.questions.shares import SharesOf
from dither.utility.deviation import largest_error
from dither.utility.limits import frequencies, least_mse, mean
from marks import wide

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

registry: Any = dither.registry
NUMBERS = ("Duchi", "Piecewise", "Hybrid", "Laplace", "SquareWave")
CATEGORIES = ("GRR", "Unary", "LocalHash", "SubsetSelection", "Hadamard")
TWELVE = Schema(
    {
        "age": Ordinal(18, 65),
        "income": Numeric(0, 200_000),
        "height": Numeric(100, 220),
        "distance": Numeric(0, 80),
        "steps": Numeric(0, 30_000),
        "sleep": Numeric(0, 14),
        "job": Categorical(["nurse", "driver", "teacher", "other"]),
        "smokes": Categorical(["yes", "no"]),
        "town": Categorical([f"town {i}" for i in range(50)]),
        "phone": Categorical([f"phone {i}" for i in range(12)]),
        "satisfaction": Ordinal(1, 5),
        "children": Ordinal(0, 9),
    }
)
USERS = 20_000


def fixed_ways(cells: list[int], epsilon: float):
    """Each m questions a user, one mechanism for all of a kind: the mean squared error over scale squared."""
    count = len(cells)
    for m, number, category in itertools.product((1, 2, 3, count), NUMBERS, CATEGORIES):
        made = [
            registry[category](k=k, epsilon=epsilon / m) if k else registry[number](epsilon=epsilon / m) for k in cells
        ]
        cost = np.mean([each.reading.worst_variance(m / count) * count / m for each in made])
        yield f"{m} by {number} and {category}", cost / USERS


@pytest.mark.wide
@pytest.mark.parametrize("epsilon", [1.0, *map(wide, (0.3, 2.5, 6.0, 20.0))])
def test_twelve_attributes_no_fixed_way_is_better(epsilon):
    best = plan(TWELVE, epsilon, users=USERS)
    for name, cost in fixed_ways([each.size if each.shape else 0 for each in best.questions], epsilon):
        assert best.rmse**2 <= cost * (1 + 1e-9), name
    assert list(best.prediction.compared.values()) == sorted(best.prediction.compared.values())
    assert best.rmse >= best.prediction.limit


def people(users: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(12)
    made = {}
    for name, attribute in TWELVE.items():
        if isinstance(attribute, Numeric):  # the middle: what a sign mechanism finds hardest
            made[name] = np.full(users, attribute.centre)
        elif isinstance(attribute, Ordinal):
            made[name] = rng.integers(attribute.low, attribute.high + 1, users)
        else:
            made[name] = np.array(attribute.labels)[rng.integers(0, attribute.k, users)]  # type: ignore[union-attr]
    return made


def truth(question, data) -> Any:
    column = data[question.name]
    if not question.shape:
        return np.mean(column)
    return np.bincount(question.encode(column), minlength=question.size) / len(column)


@pytest.mark.wide
@pytest.mark.parametrize("epsilon", [wide(1.0), 2.5, wide(20.0)])
def test_twelve_attributes_realised_error_agrees(epsilon, monkeypatch):
    # For each of 60 collections the sum over questions of squared error over scale^2; a collection's sum has about
    # the spread of a chi-square with some 10 degrees of freedom, 0.45 of its mean, so the average of 60 is within 6
    # standard errors, 35%, but for a false alarm of 1e-8. The prediction is for these very users. At epsilon 20, with
    # categories together, 15 users are asked for a mean, and one report in 20,000 that is far out would be all of the
    # error: these are asked apart.
    if epsilon == 20:
        monkeypatch.setattr(SharesOf, "crosses", False)
    users = 4000
    data = people(users)
    best = plan(TWELVE, epsilon, users=users, prior=data)
    right = {str(each): truth(each, data) for each in best.questions}
    errors = []
    for seed in range(60):
        found = best.estimate(best.tally(best.randomize(data, seed=seed)))
        errors.append(
            np.mean([np.mean((found[str(q)].value - right[str(q)]) ** 2) / q.unit**2 for q in best.questions])
        )
    assert np.mean(errors) == pytest.approx(best.rmse**2, rel=0.35)
    assert best.rmse <= plan(TWELVE, epsilon, users=users).rmse  # which is for the worst users


def test_pairs_are_asked_together_where_that_is_best():
    schema = Schema({f"x{i}": Numeric(0, 10) for i in range(5)})
    at_the_ends = {f"x{i}": [0.0, 10.0] for i in range(5)}  # where pairs are the better way
    best = plan(schema, 2.5, users=3000, prior=at_the_ends)
    assert [len(part.questions) for part in best.parts] == [2, 2, 1]
    assert [len(part.questions) for part in plan(schema, 2.5, users=3000).parts] == [1] * 5
    alone = min(registry[name](2.5).reading.worst_variance(0.2) * 5 for name in NUMBERS) / 3000
    assert best.rmse**2 < 0.85 * alone
    assert "Asked together" in best.explain()
    data = {f"x{i}": np.full(3000, 2.0 * i) for i in range(5)}
    values = []
    for seed in range(100):
        found = best.estimate(best.tally(best.randomize(data, seed=seed)))
        values.append([float(found[f"x{i}"].value) for i in range(5)])
    stderr = np.array([best.predicted[f"mean(x{i})"] for i in range(5)]) / 10
    assert (np.abs(np.mean(values, axis=0) - 2.0 * np.arange(5)) < 6 * stderr).all()  # each goes to its own question


@pytest.fixture
def apart(monkeypatch):
    """Plans in which no questions are crossed (tests/planning/test_crossing.py has those in which some are)."""
    monkeypatch.setattr(SharesOf, "crosses", False)


@pytest.mark.wide
@pytest.mark.usefixtures("apart")
def test_budgets_by_variance():
    schema = Schema({"many": Categorical([str(i) for i in range(200)]), "two": Categorical(["yes", "no"])})
    best = plan(schema, 10.0, users=1000)
    assert best.questions_per_user == 2
    spent = [part.mechanism.epsilon for part in best.parts]
    assert spent[0] != spent[1]
    assert sum(spent) <= 10.0
    assert sum(spent) == pytest.approx(10.0, abs=1e-8)
    equal = best.prediction.compared["every question, equal budgets"]
    assert best.rmse < equal
    # No other split that a fine search tries is more than 1% better.
    tried = []
    for part in np.linspace(0.5, 9.5, 91):
        each = [
            min(registry[name](k=k, epsilon=e).reading.worst_variance() for name in CATEGORIES)
            for k, e in ((200, part), (2, 10 - part))
        ]
        tried.append(np.mean(each) / 1000)
    assert best.rmse**2 <= 1.02 * min(tried)


def test_weights_move_users_to_what_matters():
    schema = Schema({"a": Numeric(0, 1), "b": Numeric(0, 1)})
    even = plan(schema, 1.0, users=1000)
    tilted = plan(schema, 1.0, users=1000, weights={"mean(a)": 9.0})
    assert plan(schema, 1.0, users=1000, weights={"a": 9.0}) == tilted
    assert even.predicted["mean(a)"] == pytest.approx(even.predicted["mean(b)"])
    assert tilted.shares[0] == pytest.approx(0.75, abs=0.01)  # in proportion to the root of the weight
    assert tilted.predicted["mean(a)"] < even.predicted["mean(a)"] < tilted.predicted["mean(b)"]
    for weights in (
        {"mean(c)": 1},
        {"c": 1},
        {"mean(a)": 0},
        {"mean(a)": -1},
        {"mean(a)": math.nan},
        {"mean(a)": True},
        {"mean(a)": 1e308, "mean(b)": 1e308},
        {"mean(a)": 5e-324},
        {"mean(a)": 10**400},
        {"a": 2, "mean(a)": 5},
        {3: 1},
        3,
    ):
        with pytest.raises(ParameterError):
            plan(schema, 1.0, users=1000, weights=weights)  # type: ignore[arg-type]


# Priors ----------------------------------------------------------------------------------------------------------

ONE = Schema({"income": Numeric(0, 200_000), "job": Categorical(["nurse", "driver"]), "age": Ordinal(0, 99)})


@pytest.mark.wide
@pytest.mark.parametrize(
    "prior",
    [
        {"income": "normal(40_000, 15_000)"},
        {"income": "uniform", "job": "uniform", "age": "beta(2, 5)"},
        {"income": [10_000.0, 20_000.0]},
        {"income": ([10_000, 20_000], [0.25, 0.75])},
        {"income": np.histogram([1e4, 2e4, 5e4], bins=5, range=(0, 200_000))},
        {"job": {"nurse": 0.7, "driver": 0.3}},
        {"job": ["nurse", "driver", "driver"], "age": [20, 30]},
        {"age": "normal(40, 12)", "job": "zipf(1.1)"},
    ],
    ids=str,
)
def test_priors_make_predictions_kinder_and_change_no_promise(prior):
    ask = ["mean(income)", "distribution(income)", "histogram(job)", "distribution(age)", "mean(age)"]
    worst, known = plan(ONE, 1.0, users=9000, ask=ask), plan(ONE, 1.0, users=9000, ask=ask, prior=prior)
    assert known.rmse < worst.rmse
    assert known.prediction.informed
    assert known.guarantee == worst.guarantee
    assert "like those of the prior" in known.explain()


def test_two_labels_are_values_in_whatever_they_come():
    asked = Schema({"job": Categorical(["nurse", "driver", "other"])})
    listed, pair = (plan(asked, 1.0, users=9000, prior={"job": kind(["nurse", "driver"])}) for kind in (list, tuple))
    assert listed.predicted == pair.predicted


@pytest.mark.wide
def test_a_prior_of_an_ordinal_as_a_mapping():
    ask = ["distribution(age)", "mean(age)", "mean(income)", "distribution(income)"]
    for name, shares in (("age", {20: 0.25, 30: 0.75}), ("income", {20_000: 0.25, 150_000.0: 0.75})):
        mapped = plan(ONE, 4.0, users=9000, ask=ask, prior={name: shares})
        listed = plan(ONE, 4.0, users=9000, ask=ask, prior={name: (list(shares), list(shares.values()))})
        assert mapped.predicted == listed.predicted
        assert mapped.prediction.known == tuple(text for text in ask if name in text)
    with pytest.raises(ParameterError, match="age"):
        plan(ONE, 4.0, users=9000, ask=ask, prior={"age": {120: 1.0}})


@pytest.mark.wide
def test_whose_errors_are_predicted_is_told():
    some = plan(ONE, 1.0, users=9000, prior={"income": "uniform", "age": "uniform"}).explain()
    assert "users like those of the prior in mean(income), distribution(age), and for the worst 9,000 users" in some
    every = plan(ONE, 1.0, users=9000, prior=dict.fromkeys(ONE, "uniform")).explain()
    assert "Predicted errors are for users like those of the prior." in every
    assert "for the worst 9,000 users; real ones" in plan(ONE, 1.0, users=9000).explain()
    many = plan(TWELVE, 1.0, users=9000, prior=dict.fromkeys(list(TWELVE)[1:], "uniform")).explain()
    assert "mean(income), mean(height), mean(distance) and 8 more, and for the worst" in many


def test_a_prior_in_units_is_the_population_that_it_names():
    schema = Schema({"x": Numeric(0, 200)})
    found = plan(schema, 4.0, users=1000, prior={"x": ([50.0, 100.0], [0.5, 0.5])})
    moments = found.parts[0].mechanism.moments(np.array([-0.5, 0.0]))
    assert found.predicted["mean(x)"] == pytest.approx(100 * math.sqrt(moments.variance.mean() / 1000))
    shape = plan(schema, 4.0, users=1000, prior={"x": "normal(100, 20)"})
    values = np.random.default_rng(1).normal(100, 20, 20_000)
    drawn = plan(schema, 4.0, users=1000, prior={"x": values[(values >= 0) & (values <= 200)]})
    assert shape.predicted["mean(x)"] == pytest.approx(drawn.predicted["mean(x)"], rel=0.01)


@pytest.mark.parametrize(
    "prior",
    [
        {"wealth": "uniform"},
        {"income": "cauchy(0, 1)"},
        {"income": "normal(a, b)"},
        {"income": "normal(4, -1)"},
        {"income": [987654321.0]},
        {"income": []},
        {"income": ([1.0, 2.0], [0.5, 0.6])},
        {"income": ([1.0, 2.0], [1.5, -0.5])},
        {"job": {"nurse": 0.5, "astronaut": 0.5}},
        {"job": {"nurse": 0.7, "driver": 0.7}},
        {"job": "beta(1, 2)"},
        {"income": 3},
        {"income": None},
        "uniform",
    ],
    ids=str,
)
def test_bad_priors_name_the_attribute_and_no_value(prior):
    with pytest.raises(ParameterError) as caught:
        plan(ONE, 1.0, users=100, prior=prior)
    assert "987654321" not in str(caught.value)
    if isinstance(prior, dict) and next(iter(prior)) in ONE:
        assert next(iter(prior)) in str(caught.value)


# The limit and the promise -------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("options", [{"delta": 1e-6}, {"prior": {"income": "uniform"}}], ids=str)
def test_the_limit_is_left_out_where_it_is_not_known(options):
    known, unknown = plan(ONE, 1.0, users=9000), plan(ONE, 1.0, users=9000, **options)
    assert known.prediction.limit > 0
    assert unknown.prediction.limit == 0
    assert "limit for any plan" in str(known.ways())
    assert "limit for any plan" not in str(unknown.ways())
    assert "No plan with" in known.explain()
    assert "No plan with" not in unknown.explain()
    spots = [0.5, 1.0]
    assert LIMIT in error_curves(ONE, 1.0, users=9000, epsilons=spots).errors
    found = error_curves(ONE, 1.0, users=9000, epsilons=spots, **options)
    assert LIMIT not in found.errors
    assert found.at(0.7)


@pytest.mark.parametrize("users", [1, 3, 30, 1000])
def test_the_limit_is_below_what_a_constant_achieves(users):
    # Of 1/k for each of k frequencies the error is largest where all users are alike: (1 - 1/k) / k on average.
    for k in (2, 4, 50):
        off = np.eye(k)[0] - 1 / k
        made = plan(Schema({"job": Categorical([str(i) for i in range(k)])}), 0.1, users=users)
        assert made.prediction.limit <= math.sqrt(np.mean(off**2)) * (1 + 1e-12)
    assert plan(Schema({"x": Numeric(0, 9)}), 0.1, users=users).prediction.limit <= 1
    # Nobody is asked for the town, everybody for the number.
    both = Schema({"x": Numeric(0, 9), "town": Categorical([str(i) for i in range(400)])})
    number = plan(Schema({"x": Numeric(0, 9)}), 1.0, users=users)
    mixed = (number.rmse**2 + (1 - 1 / 400) / 400) / 2
    assert plan(both, 1.0, users=users).prediction.limit <= math.sqrt(mixed)


def test_with_many_users_the_limit_is_that_of_all_questions():
    made = plan(ONE, 1.0, users=10**7)
    blocks = mean(1 / 3) + frequencies(2, 1 / 3) + frequencies(100, 1 / 3)
    assert made.prediction.limit == pytest.approx(math.sqrt(least_mse(blocks, 1.0) / 10**7), rel=1e-12)


@pytest.mark.parametrize("epsilon", [wide(0.3), 3.0, wide(10.0), 20.0])
@pytest.mark.parametrize("delta", [0.0, wide(1e-9), 1e-6, wide(1e-3), 0.1])
def test_every_plan_can_be_read_again(epsilon, delta):
    uneven = Schema(
        {"many": Categorical([str(i) for i in range(200)]), "two": Categorical(["yes", "no"]), "x": Numeric(0, 1)}
    )
    for schema in (ONE, uneven):
        made = plan(schema, epsilon, users=1000, delta=delta)
        assert made.guarantee.epsilon <= epsilon
        assert made.guarantee.delta <= delta
        assert dither.Plan.from_json(made.to_json()) == made


@pytest.mark.usefixtures("apart")
def test_ways_that_do_not_keep_the_guarantee_are_not_taken(monkeypatch):
    schema = Schema({"many": Categorical([str(i) for i in range(200)]), "two": Categorical(["yes", "no"])})
    real = Chooser._budgets_by_variance

    def too_much(self, units):
        return [(1.01 * epsilon, delta) for epsilon, delta in real(self, units) or []] or None

    assert "by variance" in next(iter(plan(schema, 10.0, users=1000).prediction.compared))
    monkeypatch.setattr(Chooser, "_budgets_by_variance", too_much)
    made = plan(schema, 10.0, users=1000)
    assert made.guarantee.epsilon <= 10.0
    assert "every question, budgets by variance" not in made.prediction.compared
    assert made.rmse == min(made.prediction.compared.values())
    shown = error_curves(schema, 10.0, users=1000, epsilons=[10.0]).errors
    assert min(line[0] for line in shown.values() if line is not shown[LIMIT]) == pytest.approx(made.rmse)
    monkeypatch.setattr(dither.Plan, "kept", False)
    with pytest.raises(ParameterError, match="keeps this epsilon"):
        plan(schema, 10.0, users=1000)


def test_one_way_that_fails_does_not_stop_the_others():
    made = plan(Schema({"a": Numeric(0, 1), "b": Categorical(["x", "y"]), "c": Ordinal(0, 9)}), 3e-12, users=1000)
    assert made.guarantee.epsilon <= 3e-12
    assert "every question, budgets by variance" not in made.prediction.compared
    assert len(made.prediction.compared) > 1


# The largest error ----------------------------------------------------------------------------------------------------


def test_shares_for_the_largest_error_are_the_best():
    """Two units with these variances and numbers: no other split of the users has a smaller radius."""
    for variances, sizes in (((4.0, 3.0), (1, 50)), ((4.0, 0.5), (1, 1)), ((1.0, 100.0), (1000, 1))):
        variance, size = np.array(variances), np.array(sizes)

        def radius(shares, variance=variance, size=size):
            return largest_error(np.zeros(2), np.sqrt(variance / shares), size, 0.95)

        best = radius(shares_for_the_largest(variance, size))
        assert best <= min(radius(np.array([share, 1 - share])) for share in np.linspace(0.01, 0.99, 99)) * (1 + 1e-6)


def test_a_plan_for_the_largest_error():
    schema = dither.Schema(
        {"income": dither.Numeric(0, 9), "town": dither.Categorical(list("abcdefghijklmnopqrstuvwxyz"))}
    )
    mean, largest = (dither.plan(schema, 1.0, users=100_000, goal=goal) for goal in ("rmse", "maximum"))
    assert largest.rmse == min(largest.prediction.compared.values())
    assert largest.predicted["histogram(town)"] < mean.predicted["histogram(town)"]

    def radius(plan):
        scales = [plan.predicted["mean(income)"] / 4.5, plan.predicted["histogram(town)"]]
        return largest_error(np.zeros(2), np.array(scales), np.array([1, 26]), 0.95)

    assert radius(largest) < 0.97 * radius(mean)
    assert largest.rmse == pytest.approx(radius(largest), rel=0.05)  # for numbers that are spread evenly, not the worst
    assert dither.Plan.from_json(largest.to_json()).prediction == largest.prediction
    assert "largest error" in largest.explain()
    assert "largest error / scale" in largest.ways().columns
    assert "goal" not in mean.prediction.stored()


def test_what_has_no_largest_error():
    schema = dither.Schema({"income": dither.Numeric(0, 9)})
    with pytest.raises(ParameterError, match="goal must be one of rmse, maximum"):
        dither.plan(schema, 1.0, users=1000, goal="mean")
    with pytest.raises(ParameterError, match="worked out"):
        dither.plan(schema, 1.0, users=100_000, ask=["variance(income)"], goal="maximum")
    alone = dither.plan(schema, 1.0, users=1000, goal="maximum")
    assert alone.rmse == pytest.approx(1.959964 * dither.plan(schema, 1.0, users=1000).rmse, rel=1e-6)
