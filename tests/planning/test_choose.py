"""What is chosen: never worse than any fixed way to ask, by numbers computed apart from the planner."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import dither
from dither import Categorical, Numeric, Ordinal, Schema, plan
from dither.core.errors import ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::dither.core.errors.BudgetWarning")

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


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5, 6.0, 20.0])
def test_twelve_attributes_no_fixed_way_is_better(epsilon):
    best = plan(TWELVE, epsilon, users=USERS)
    for name, cost in fixed_ways([each.cells for each in best.questions], epsilon):
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
    if question.cells == 0:
        return np.mean(column)
    return np.bincount(question.encode(column), minlength=question.cells) / len(column)


@pytest.mark.parametrize("epsilon", [1.0, 2.5, 20.0])
def test_twelve_attributes_realised_error_agrees(epsilon):
    # For each of 60 collections the sum over questions of squared error over scale^2; a collection's sum has about
    # the spread of a chi-square with some 10 degrees of freedom, 0.45 of its mean, so the average of 60 is within 6
    # standard errors, 35%, but for a false alarm of 1e-8. Worst users, except that frequencies have no worst ones.
    users = 4000
    data, best = people(users), plan(TWELVE, epsilon, users=users)
    right = {str(each): truth(each, data) for each in best.questions}
    errors = []
    for seed in range(60):
        found = best.estimate(best.tally(best.randomize(data, seed=seed)))
        errors.append(
            np.mean([np.mean((found[str(q)].value - right[str(q)]) ** 2) / q.unit**2 for q in best.questions])
        )
    if best.parts[1].mechanism.__class__.__name__ in ("Duchi", "Hypercube"):
        assert np.mean(errors) == pytest.approx(best.rmse**2, rel=0.35)
    else:  # the worst users of the others are at the ends, so these are kinder
        assert 0.4 * best.rmse**2 < np.mean(errors) < 1.35 * best.rmse**2


def test_pairs_are_asked_together_where_that_is_best():
    schema = Schema({f"x{i}": Numeric(0, 10) for i in range(5)})
    best = plan(schema, 2.5, users=3000)
    assert [len(part.questions) for part in best.parts] == [2, 2, 1]
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


def test_budgets_by_variance():
    schema = Schema({"many": Categorical([str(i) for i in range(200)]), "two": Categorical(["yes", "no"])})
    best = plan(schema, 10.0, users=1000)
    assert best.reported == 2
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
        3,
    ):
        with pytest.raises(ParameterError):
            plan(schema, 1.0, users=1000, weights=weights)  # type: ignore[arg-type]


# Priors ----------------------------------------------------------------------------------------------------------

ONE = Schema({"income": Numeric(0, 200_000), "job": Categorical(["nurse", "driver"]), "age": Ordinal(0, 99)})


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
