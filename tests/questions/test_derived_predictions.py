"""What derived questions predict from priors, and what plans ask for their sake."""

import numpy as np
import pytest

from dither import Categorical, Duchi, KeyValue, Numeric, Ordinal, Piecewise, ProjectiveGeometry, Schema, plan
from dither.errors import ParameterError
from dither.estimation.linear_readings import LinearReading, combined

SCHEMA = Schema(
    {
        "age": Ordinal(0, 99),
        "income": Numeric(0, 200_000),
        "job": Categorical(["nurse", "driver", "pilot"]),
        "sex": Categorical(["f", "m"]),
        "films": KeyValue(["a", "b", "c", "d"], 2),
    }
)


def predicted(question: str, epsilon: float = 2.0, users: int = 100_000, **options) -> float:
    return plan(SCHEMA, epsilon, users=users, ask=[question], **options).predicted[question]


def test_quantiles_are_predicted_for_the_users_of_a_prior():
    crowded, sparse = (
        predicted("median(income)", prior={"income": f"normal(90_000, {width})"}) for width in (9e3, 5e4)
    )
    assert crowded < sparse / 3


def test_a_whole_quantile_has_an_error():
    made = plan(SCHEMA, 2.0, users=100_000, ask=["median(age)"])
    people = {"age": np.arange(100_000) % 100}
    assert made.estimate(made.tally(made.randomize(people, seed=1))).single("median(age)").stderr > 0


def test_means_of_groups_are_predicted_for_their_sizes():
    even = {"nurse": 1 / 3, "driver": 1 / 3, "pilot": 1 / 3}
    uneven = {"nurse": 0.49, "driver": 0.49, "pilot": 0.02}
    same, harder = (predicted("mean(income by job)", prior={"job": each}) for each in (even, uneven))
    assert same == pytest.approx(predicted("mean(income by job)"), rel=0.2)
    assert harder > 2 * same


def test_the_keys_on_top_are_predicted_for_their_holders():
    found = predicted("top(films, 2)", 4.0, prior={"films": [{"a": 0.0, "b": 0.0}] * 50 + [{"a": 0.0, "c": 0.0}] * 50})
    assert found > predicted("top(films, 2)", 4.0)


def test_correlations_are_asked_with_their_squares():
    made = plan(SCHEMA, 1.0, users=100_000, ask=["correlation(age, income)"])
    shares = dict(zip((part.name for part in made.parts), made.shares.tolist(), strict=True))
    assert min(shares["square(age)"], shares["square(income)"]) > 0.05


def test_priors_of_both_numbers_change_a_correlation():
    narrow = {"age": "normal(50, 5)", "income": "normal(100_000, 10_000)"}
    assert predicted("correlation(age, income)", prior=narrow) > 3 * predicted("correlation(age, income)")


def test_a_prior_that_changes_nothing_is_refused():
    with pytest.raises(ParameterError, match="would change nothing"):
        plan(SCHEMA, 1.0, users=1000, ask=["share(age > 30)"], prior={"age": "uniform"})


def test_no_table_is_asked_twice():
    made = plan(SCHEMA, 2.0, users=100_000, ask=["table(job, sex)", "histogram(job)", "histogram(sex)"])
    people = {"job": np.array(["nurse", "driver", "pilot"] * 33_333), "sex": np.array(["f", "m", "f"] * 33_333)}
    found = made.estimate(made.tally(made.randomize(people, seed=1)))
    sums = found.single("table(job, sex)").value.sum(axis=1)
    assert np.allclose(sums, found.single("histogram(job)").value, atol=1e-3)


@pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")
def test_tables_of_mechanisms_without_margins_are_estimated():
    schema = Schema({name: Categorical([f"{name}{place}" for place in range(4)]) for name in "abc"})
    made = plan(schema, 1.0, users=200, ask=["table(a, b)", "table(a, b, c)"])
    people = {name: np.array([f"{name}{place % 4}" for place in range(200)]) for name in "abc"}
    assert made.estimate(made.tally(made.randomize(people, seed=1))).single("table(a, b, c)").value.shape == (4, 4, 4)


@pytest.mark.parametrize("mechanism", [Duchi(epsilon=4.0), Piecewise(epsilon=4.0)])
def test_one_report_beyond_the_domain_has_an_error(mechanism):
    for seed in range(40):
        alone = mechanism.tally(mechanism.randomize([1.0], seed=seed))
        assert mechanism.reading.estimate(alone, mechanism.guarantee, "", 1000).stderr > 0


def test_dense_covariances_are_those_of_pairs():
    mechanism = ProjectiveGeometry(k=9, epsilon=1.0)
    spread = mechanism.estimate(mechanism.tally(mechanism.randomize(np.arange(900) % 9, seed=1))).covariance
    assert spread is not None
    pairs = [[spread.between(one, other) for other in np.eye(9)] for one in np.eye(9)]
    assert np.allclose(spread.dense(), pairs, rtol=1e-12, atol=1e-15)


def test_few_reports_do_not_pull_all_others_to_what_they_saw():
    """A cell in which three reports saw nobody looks certain: it must not outweigh a thousand others."""
    many = LinearReading.one_by_one(np.eye(2), np.array([0.5, 0.5]), np.full(2, 1e-3), 1000)
    three = LinearReading.one_by_one(np.eye(2), np.array([1.0, 0.0]), np.array([0.3, 1e-5]), 3)
    assert combined([many, three]).of(np.eye(2)).value[1] > 0.49


def test_a_correlation_near_one_is_not_certain_where_noise_leads_beyond_it():
    schema = Schema({"a": Numeric(-1, 1), "b": Numeric(-1, 1)})
    made = plan(schema, 4.0, users=400, ask=["correlation(a, b)"])
    random = np.random.default_rng(1)
    a = random.uniform(-0.9, 0.9, 400)
    b = np.clip(0.98 * a + 0.2 * random.uniform(-0.9, 0.9, 400), -1, 1)
    found = [made.estimate(made.tally(made.randomize({"a": a, "b": b}, seed=seed))) for seed in range(60)]
    ends = [result.single("correlation(a, b)").interval(0.95) for result in found]
    assert (
        sum(float(low) == 1.0 for low, _ in ends) < 10
    )  # of 60; three are usual, and thirteen where the function is cut off at one
