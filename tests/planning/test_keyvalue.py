"""Keys with values in plans: one report for both questions, exact prices, units, every form of a column, bad ones."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dither
from dither import Categorical, KeyValue, Numeric, Plan, Schema, plan
from dither.errors import BudgetWarning, DomainError, ParameterError
from dither.mechanisms.hash_seeds import enough_cohorts
from dither.mechanisms.keycohorts import displacement
from dither.planning import PlanTally, plan_files
from dither.planning.choose import USUAL
from dither.planning.error_curves import error_curves
from dither.planning.planner import chooser_of, kept_ways
from dither.planning.plans import Part
from dither.questions import Question
from dither.questions.keys import KeyMeanOf, PresenceOf
from marks import wide

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

FILMS = ["Alien", "Fargo", "Heat", "Solaris", "Totoro", "Vertigo"]
RATED = KeyValue(FILMS, size=2, low=1, high=5)
SCHEMA = Schema({"income": Numeric(0, 200_000), "films": RATED, "job": Categorical(["nurse", "driver", "other"])})
BOTH = ("presence(films)", "mean(films)")
SECRET = 987654.0


def ratings(users: int, seed: int = 3) -> list[dict[str, float]]:
    rng = np.random.default_rng(seed)
    held = [rng.choice(len(FILMS), rng.integers(0, 3), replace=False) for _ in range(users)]
    return [{FILMS[film]: float(np.clip(5 - film + rng.integers(-1, 2), 1, 5)) for film in films} for films in held]


def table(users: int) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return {
        "income": rng.uniform(0, 200_000, users),
        "films": ratings(users),
        "job": np.array(["nurse", "driver", "other"])[rng.integers(0, 3, users)],
    }


def truths(vectors: list[dict[str, float]]) -> dict[str, np.ndarray]:
    """Presence, mean (absent counts as the middle) and conditional mean of each film."""
    held = np.array([[film in vector for film in FILMS] for vector in vectors])
    value = np.array([[vector.get(film, 3.0) for film in FILMS] for vector in vectors])
    return {
        "presence(films)": held.mean(axis=0),
        "mean(films)": value.mean(axis=0),
        "conditional_mean(films)": (value * held).sum(axis=0) / held.sum(axis=0),
    }


# Questions ----------------------------------------------------------------------------------------------------------


def test_both_questions_come_from_one_report():
    best = plan(SCHEMA, 1.0, users=10_000)
    assert [str(each) for each in best.questions] == ["mean(income)", *BOTH, "histogram(job)"]
    assert [part.name for part in best.parts] == ["mean(income)", "presence(films) and mean(films)", "histogram(job)"]
    assert plan(SCHEMA, 1.0, users=10_000, ask=["mean(income)", "films", "job"]) == best
    found = best.estimate(best.tally(best.randomize(table(10_000), seed=1)))
    assert list(found) == ["mean(income)", *BOTH, "conditional_mean(films)", "frequency(films)", "histogram(job)"]
    assert found["films"] is found["presence(films)"]
    assert found.single("presence(films)").labels == tuple(FILMS)
    assert found["frequency(films)"].labels[:2] == ("Alien at 1", "Alien at 5")  # type: ignore[index]
    assert "Answered by one report: presence(films) and mean(films)." in best.explain()


@pytest.mark.parametrize("ask", [["mean(films)"], ["presence(films)"], ["mean(films)", "presence(films)"]], ids=str)
def test_questions_may_be_asked_one_by_one(ask):
    best = plan(SCHEMA, 1.0, users=10_000, ask=ask)
    assert len(best.parts) == 1
    found = best.estimate(best.tally(best.randomize(table(500), seed=1)))
    assert found["films"] is found[ask[0]]
    assert set(ask) <= set(found)


def test_what_comes_along_cannot_be_asked_for():
    for statistic in ("conditional_mean", "frequency"):
        with pytest.raises(ParameterError, match=r"comes with presence\(films\) and mean\(films\)"):
            plan(SCHEMA, 1.0, users=100, ask=[f"{statistic}(films)"])
    for ask in ("median(films)", "histogram(films)", "frequency(income)"):
        with pytest.raises(ParameterError, match="no such question"):
            plan(SCHEMA, 1.0, users=100, ask=[ask])


# Prices and predictions ---------------------------------------------------------------------------------------------


def of(mechanism: Any, statistic: str) -> Any:
    return replace(mechanism.reading, about=statistic)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_predicted_errors_are_those_of_the_worst_users(epsilon):
    best = plan(SCHEMA, epsilon, users=10_000)
    (share,) = [share for part, share in zip(best.parts, best.shares, strict=True) if len(part.questions) == 2]
    (mechanism,) = [part.mechanism for part in best.parts if len(part.questions) == 2]
    for name, unit in zip(BOTH, (1.0, 2.0), strict=True):
        variance = of(mechanism, name.partition("(")[0]).worst_variance(share)
        assert best.predicted[name] == pytest.approx(unit * math.sqrt(variance / (10_000 * share)), rel=1e-12)


@pytest.mark.parametrize("weights", [None, np.arange(1, 41) / 820], ids=["even", "weighted"])
def test_predicted_errors_of_a_prior_are_moments_averaged(weights):
    vectors = ratings(40)
    known = vectors if weights is None else (vectors, weights)
    best = plan(SCHEMA, 1.0, users=10_000, prior={"films": known})
    assert best.prediction.known == BOTH
    shares = np.full(40, 1 / 40) if weights is None else weights
    encoded = RATED.encode(vectors)
    for part, share in zip(best.parts, best.shares, strict=True):
        for question in part.questions[: 2 * (len(part.questions) == 2)]:
            reading = of(part.mechanism, question.statistic)
            found, truth = reading.moments(encoded), reading.truth(encoded)
            assert np.abs(found.bias).max() < 1e-9
            spread = shares @ truth**2 - (shares @ truth) ** 2
            variance = float(np.mean(shares @ found.variance + (1 - share) * spread))
            stderr = question.unit * math.sqrt(variance / (10_000 * share))
            assert best.predicted[str(question)] == pytest.approx(stderr, rel=1e-9)
    assert best.rmse < plan(SCHEMA, 1.0, users=10_000).rmse
    assert best.prediction.limit == 0


@pytest.mark.parametrize("epsilon", [wide(0.3), 1.0, wide(2.0), 6.0])
@pytest.mark.parametrize("ask", [list(BOTH), ["mean(films)"], ["presence(films)"]], ids=len)
def test_no_mechanism_is_better(epsilon, ask):
    best = plan(SCHEMA, epsilon, users=1000, ask=ask)
    statistics = [text.partition("(")[0] for text in ask]
    assert best.prediction.limit <= best.rmse
    goal = statistics[0] if len(ask) == 1 else "frequency"
    for name, cls in dither.registry.items():
        if cls.family != "keyvalue":
            continue
        for own in ({}, {"goal": "mean"}, {"goal": "presence"}, {"goal": goal}):
            try:
                made: Any = cls(d=6, s=2, epsilon=epsilon, **own)  # type: ignore[call-arg]
                costs = [of(made, statistic).worst_variance() for statistic in statistics]
            except (TypeError, ParameterError, KeyError):  # no goal, or another
                continue
            assert best.rmse**2 <= np.mean(costs) / 1000 * 1.02, name  # among errors within 1% the smallest report


def test_weights_decide_what_a_report_is_best_for():
    keys = Schema({"films": KeyValue(100, 5)})
    for favoured, other in (BOTH, BOTH[::-1]):
        best = plan(keys, 0.5, users=1000, weights={favoured: 1e6, other: 1e-6})
        alone = plan(keys, 0.5, users=1000, ask=[favoured])
        told = plan(keys, 0.5, users=1000)
        assert alone.predicted[favoured] <= best.predicted[favoured] * (1 + 1e-9)
        assert best.predicted[favoured] <= told.predicted[favoured] * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [2.0, *map(wide, (0.5, 12.0, 30.0))])
def test_every_way_to_ask_takes_keys(epsilon):
    schema = Schema({**SCHEMA, "apps": KeyValue(40, 3), "more": Numeric(0, 1)})
    chooser = chooser_of(schema, epsilon, 1000, 0.0, None, None, None, USUAL)
    ways = kept_ways(schema, chooser, 1000)
    data = {**table(200), "apps": [{1: 0.5}] * 200, "more": [0.5] * 200}
    for way in ways:
        together = [unit for unit in way.units if unit[0].name in ("films", "apps")]
        assert [len(unit) for unit in together] == [2, 2]
    best = plan(schema, epsilon, users=1000)
    assert best.rmse == pytest.approx(math.sqrt(ways[0].cost / 1000))
    assert best.guarantee.epsilon <= epsilon
    found = best.estimate(best.tally(best.randomize(data, seed=1)), refine="auto")
    assert set(map(str, best.questions)) <= set(found)
    assert Plan.from_json(best.to_json()) == best


@pytest.mark.wide
def test_realised_errors_agree_with_the_prediction():
    # Squared errors of 300 collections, each averaged over films: their mean is 6 of its standard errors from what
    # the moments of these very users predict with a probability of about 2e-9, were it normal; 1e-6 with room.
    users, repeats = 1500, 300
    data = table(users)
    best = plan(SCHEMA, 2.0, users=users, prior={"films": data["films"]})
    assert best.questions_per_user == 1
    truth = truths(data["films"])
    squares: dict[str, list[float]] = {name: [] for name in BOTH}
    for seed in range(repeats):
        found = best.estimate(best.tally(best.randomize(data, seed=seed)))
        for name, errors in squares.items():
            errors.append(float(np.mean((found[name].value - truth[name]) ** 2)))
    for name, errors in squares.items():
        allowed = 6 * np.std(errors) / math.sqrt(repeats)
        assert abs(np.mean(errors) - best.predicted[name] ** 2) < allowed
        assert allowed < 0.5 * best.predicted[name] ** 2


@pytest.mark.wide
@pytest.mark.parametrize("epsilon", [1.0, wide(0.5), wide(4.0)])
def test_the_worst_users_are_as_bad_as_predicted(epsilon):
    # They hold as many keys as they may, all with the middle value: what a sign can tell least of. Threshold as above.
    users, repeats, d, s = 1000, 200, 12, 3
    vectors = [{(row + step) % d: 0.0 for step in range(s)} for row in range(users)]
    best = plan(Schema({"a": KeyValue(d, s)}), epsilon, users=users, ask=["mean(a)"])
    squares = [
        float(np.mean(best.estimate(best.tally(best.randomize({"a": vectors}, seed=seed)))["a"].value ** 2))
        for seed in range(repeats)
    ]
    allowed = 6 * np.std(squares) / math.sqrt(repeats)
    assert abs(np.mean(squares) - best.predicted["mean(a)"] ** 2) < allowed < 0.3 * best.predicted["mean(a)"] ** 2


@pytest.mark.wide
def test_intervals_cover_in_units():
    # Of 300 collections an interval of 95% misses more than 38 with probability 1e-7; conditional means are ratios,
    # whose intervals are normal only nearly, and may miss 60.
    users, missed = 3000, {"presence(films)": 0, "mean(films)": 0, "conditional_mean(films)": 0}
    data = table(users)
    truth = truths(data["films"])
    best = plan(SCHEMA, 4.0, users=users, ask=BOTH)
    for seed in range(300):
        found = best.estimate(best.tally(best.randomize(data, seed=seed)))
        for name in missed:
            low, high = found[name].interval(0.95)
            missed[name] += not low[1] <= truth[name][1] <= high[1]
    assert missed["presence(films)"] <= 38
    assert missed["mean(films)"] <= 38
    assert missed["conditional_mean(films)"] <= 60


def test_units():
    best = plan(Schema({"films": RATED}), 9.0, users=50_000)
    found = best.estimate(
        best.tally(best.randomize({"films": [{"Alien": 5, "Heat": 2}, {"Alien": 4}] * 25_000}, seed=2))
    )
    # Ten standard errors, which are what the mechanism states in units of half the width.
    for name, truth in (
        ("presence(films)", [1, 0, 0.5, 0, 0, 0]),
        ("mean(films)", [4.5, 3, 2.5, 3, 3, 3]),
    ):
        assert (np.abs(found[name].value - truth) <= 10 * found[name].stderr).all()
        assert found[name].stderr.max() < 0.05
    assert found["conditional_mean(films)"].value[[0, 2]] == pytest.approx([4.5, 2.0], abs=0.2)
    assert found["mean(films)"].bounds[:2] == found["conditional_mean(films)"].bounds[:2] == (1, 5)  # type: ignore[index]
    plain = plan(Schema({"films": KeyValue(6, 2)}), 9.0, users=50_000)
    assert best.predicted["mean(films)"] == pytest.approx(2 * plain.predicted["mean(films)"])
    assert best.rmse == pytest.approx(plain.rmse)


# The limit, and warnings --------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("keys", [KeyValue(6, 2), KeyValue(6, 6), KeyValue(500, 4), RATED], ids=repr)
@pytest.mark.parametrize("epsilon", [wide(0.1), 1.0, wide(4.0)])
def test_the_limit(keys, epsilon):
    for ask in (None, ["mean(a)"], ["presence(a)"]):
        for users in (1, 100, 10**6):
            made = plan(Schema({"a": keys, "b": Numeric(0, 1)}), epsilon, users=users, ask=ask)
            assert made.prediction.limit <= made.rmse
            if users == 1:  # a constant: the centre of the means, and the middle of the shares
                assert made.prediction.limit <= 1


def test_the_limit_of_a_constant():
    # Nobody learns anything from one user with a tiny epsilon, and the best constants cost h and h (1 - h).
    for name, cost in (("mean(a)", 0.02), ("presence(a)", 0.02 * 0.98)):
        made = plan(Schema({"a": KeyValue(100, 2)}), 0.01, users=1, ask=[name])
        assert made.prediction.limit == pytest.approx(math.sqrt(cost))
    made = plan(Schema({"a": KeyValue(4, 3)}), 0.01, users=1, ask=["presence(a)"])
    assert made.prediction.limit == pytest.approx(0.5)


def test_a_budget_too_small_is_told():
    with pytest.warns(BudgetWarning, match=r"(presence|mean)\(films\) will have a standard error"):
        plan(SCHEMA, 0.05, users=500, ask=BOTH)
    question = KeyMeanOf("films", RATED)
    assert question.useless == pytest.approx(2 * math.sqrt(2 / 6) / 1.96)
    assert PresenceOf("films", RATED).useless == pytest.approx(math.sqrt(2 / 6) / 1.96)


@pytest.mark.wide
def test_outlook_and_tables_of_many_keys():
    schema = Schema({"apps": KeyValue(3000, 4), "age": Numeric(0, 100)})
    lines = error_curves(schema, 1.0, users=10_000, epsilons=[0.5, 1.0, 4.0]).errors
    assert all(np.isfinite(line).all() for line in lines.values())
    best = plan(schema, 1.0, users=10_000)
    assert len(best.table().columns["question"]) == 3
    found = best.estimate(best.tally(best.randomize({"apps": [{7: 1.0}] * 50, "age": [3.0] * 50}, seed=1)))
    assert "2,990 smaller ones" in repr(found)
    assert found.single("presence(apps)").labels is None  # the numbers of the keys


# Server cost --------------------------------------------------------------------------------------------------------


def test_many_keys_are_not_looked_at_one_by_one():
    for d, most in ((200, 399), (300, 500)):
        for epsilon in (0.2, 1.0):
            (part,) = plan(Schema({"a": KeyValue(d, 4)}), epsilon, users=1000, most_evaluations=most).parts
            assert type(part.mechanism).__name__ not in ("SignSum", "PCKV_UE", "Succinct")
    (part,) = plan(Schema({"a": KeyValue(200, 5)}), 0.2, users=1000).parts
    assert type(part.mechanism).__name__ == "SignSum"


def test_enough_cohorts():
    d, s, t = 1000, 8, dither.CoCo(d=1000, s=8, epsilon=1.0).law.outputs
    shift = displacement(s, t, 1)
    for reports in (1, 1000, 10**4, 10**5, 10**6):
        found = enough_cohorts(shift, t, 2 * d, 70.0, reports, 10**6)
        assert found & (found - 1) == 0
        assert 64 <= found <= 65536
        if 64 < found < 65536:
            assert displacement(s, t, found) <= 0.05 * 70 / reports < displacement(s, t, found // 2)
    assert enough_cohorts(shift, t, 2 * d, 70.0, 1, 500) == 64
    assert enough_cohorts(shift, t, 2 * d, 70.0, 10**12, 500) == 65536
    assert enough_cohorts(shift, 60_000, 2 * d, 70.0, 10**15, 500) == 256  # a table of so many counts has 128 MB
    for reports in (10**4, 10**5):  # reading the table costs no more than counting reports one by one may
        assert 2 * d * enough_cohorts(shift, t, 2 * d, 1.0, reports, 500) <= 500 * reports


def test_shared_functions_are_predicted_and_stated():
    # All users hold the same keys, which moves estimates most. Over 280 keys the realised mean squared error has a
    # standard error below 10%, and six of them are allowed; the shift is several times the noise.
    users, d = 100_000, 280
    schema = Schema({"a": KeyValue(d, 4)})
    best = plan(schema, 1.0, users=users, ask=["presence(a)", "mean(a)"])
    (part,) = best.parts
    made: Any = part.mechanism
    assert made.cohorts > 64
    few = replace(made, cohorts=64)
    chooser = chooser_of(schema, 1.0, users, 0.0, None, None, None, USUAL)
    (presence, mean) = chooser.price_of(few, part.questions, 1.0).variances
    rows = schema["a"].encode([{0: 1.0, 1: -1.0, 2: 1.0, 3: -1.0}])  # type: ignore[union-attr]
    found = few.estimate(few.tally(few.randomize(np.repeat(rows, users), seed=1)))
    for name, price in (("presence", presence), ("mean", mean)):
        errors = found[name].value - of(few, name).truth(rows)[0]
        assert 0.4 < np.mean(errors**2) / (price / users) < 1.6
        assert 0.4 < np.mean(found[name].stderr ** 2) / (price / users) < 1.6
        assert price > 3 * of(few, name).worst_variance()


# Columns ------------------------------------------------------------------------------------------------------------


def forms(names: bool) -> dict[str, Any]:
    """The same vectors in every form, beside a column of numbers."""
    pandas, polars, arrow, sparse = (
        pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow", "scipy.sparse")
    )
    named = [{"Alien": 5.0, "Fargo": 1.0}, {}, {"Vertigo": 3.0}, {"Heat": 2.0, "Solaris": 4.0}] * 3
    vectors: Any = named if names else [{FILMS.index(key): value for key, value in each.items()} for each in named]
    age = [float(row) for row in range(12)]
    dense = np.array([[each.get(film, 0.0) for film in FILMS] for each in named])
    rows = np.full(12, 0, dtype=[("key", np.int32, (2,)), ("value", np.float64, (2,))])
    for row, each in enumerate(named):
        rows["key"][row] = [*(FILMS.index(key) for key in each), -1, -1][:2]
        rows["value"][row] = [*each.values(), 0, 0][:2]
    objects = np.empty(12, dtype=object)
    objects[:] = vectors
    maps = arrow.array(
        [list(each.items()) for each in vectors],
        type=arrow.map_(arrow.string() if names else arrow.int64(), arrow.float64()),
    )
    columns: dict[str, Any] = {
        "dictionaries": vectors,
        "objects": objects,
        "series": pandas.Series(vectors),
        "pairs": [list(each.items()) for each in vectors],
        "dense": dense,
        "lists": dense.tolist(),
        "masked": np.ma.array(np.where(dense == 0, SECRET, dense), mask=dense == 0),
        "csr": sparse.csr_matrix(dense),
        "csr array": sparse.csr_array(dense),
        "coo": sparse.coo_matrix(dense),
        "maps": maps,
        "rows": rows,
    }
    found = {name: {"films": column, "age": age} for name, column in columns.items()}
    found["records"] = [{"films": each, "age": years} for each, years in zip(vectors, age, strict=True)]  # type: ignore[assignment]
    found["frame"] = pandas.DataFrame({"films": vectors, "age": age})
    found["polars objects"] = polars.DataFrame({"films": polars.Series(vectors, dtype=polars.Object), "age": age})
    found["arrow"] = arrow.table({"films": maps, "age": age})
    found["chunks"] = arrow.table({"films": arrow.chunked_array([maps[:5], maps[5:]]), "age": age})
    if names:
        found["arrow structs"] = arrow.table({"films": named, "age": age})
        fields = polars.Struct(dict.fromkeys(FILMS, polars.Float64))
        found["polars structs"] = polars.DataFrame({"films": polars.Series(named, dtype=fields), "age": age})
    return found


@pytest.mark.parametrize("names", [True, False], ids=["names", "numbers"])
def test_columns_of_all_kinds(names):
    schema = Schema({"films": KeyValue(FILMS if names else 6, size=2, low=1, high=5), "age": Numeric(0, 100)})
    best = plan(schema, 2.0, users=1000)
    expected = None
    for name, each in forms(names).items():
        for invalid in ("error", "substitute"):
            reports = tuple(part.tobytes() for part in best.randomize(each, seed=1, invalid=invalid).values())
            expected = expected or reports
            assert reports == expected, name
    record = {"films": {"Alien": 5.0, "Fargo": 1.0} if names else {0: 5.0, 1: 1.0}, "age": 0.0}
    alone = best.randomize(record, seed=1)
    assert {name: part.tobytes() for name, part in best.report(record, seed=1).items()} == {
        name: part.tobytes() for name, part in alone.items()
    }
    assert sum(len(part) for part in alone.values()) == 1


ODD: list[Any] = [
    "Alien",
    SECRET,
    {"Alien": SECRET},
    {"Alien": "SECRET"},
    {"Alien": float("nan")},
    {"Alien": None},
    {"SECRET": 3.0},
    {SECRET: 3.0},
    {7: 3.0},
    {"Alien": 1.0, "Heat": 2.0, "Totoro": 3.0},
    [("Alien", 1.0), ("Alien", 2.0)],
    [("Alien", 1.0, SECRET)],
    [SECRET],
    [[SECRET] * 6],
    np.full((2, 6), SECRET),
    np.full(6, SECRET),
    {"Alien": 10**400},
]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_bad_vectors_name_attribute_and_row_and_no_value(odd):
    best = plan(Schema({"films": RATED}), 1.0, users=100)
    with pytest.raises(DomainError, match=r"attribute films, row 1: ") as caught:
        best.randomize({"films": [{"Alien": 3.0}, odd]})
    error: BaseException | None = caught.value
    while error is not None:
        assert "SECRET" not in str(error)
        assert "987654" not in str(error)
        assert "Alien" not in str(error)
        error = error.__cause__ or error.__context__
    (reports,) = best.randomize({"films": [{"Alien": 3.0}, odd]}, invalid="substitute").values()
    assert len(reports) == 2
    (reports,) = best.report({"films": odd}).values()
    assert len(reports) == 1


def test_a_device_is_one_user_whatever_it_holds(recwarn):
    best = plan(SCHEMA, 1.0, users=100)
    for record in (*({"films": odd, "income": 3.0} for odd in ODD), {}, None, 5, {"films": object()}):
        assert sum(map(len, best.report(record).values())) == 1
    assert not [each for each in recwarn if not issubclass(each.category, BudgetWarning)]


def test_bad_columns():
    best = plan(Schema({"films": RATED, "age": Numeric(0, 9)}), 1.0, users=100)
    for films in (np.zeros((3, 5)), np.zeros((3, 6, 1)), np.zeros((2, 6)), "abc", 5, {"Alien": 3.0}):
        with pytest.raises(DomainError):
            best.randomize({"films": films, "age": [1.0, 2.0, 3.0]})
    with pytest.raises(DomainError, match="attribute age"):  # only vectors may be a table
        best.randomize({"films": [{}, {}], "age": np.zeros((2, 6))})


def test_substitutes():
    given = [{"Alien": 9.0, "Nosferatu": 3.0}, None, {"Heat": -1.0, "Fargo": float("nan")}]
    mended = RATED.encode(given, "substitute")
    assert mended["key"].tolist() == [[0, -1], [-1, -1], [2, -1]]
    assert mended["value"].tolist() == [[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]]


def test_too_many_keys_are_sampled_down_on_devices():
    # Each of three films counts 2/3 for a user who may hold two. Six standard errors: false alarm 2e-9 a film.
    best = plan(Schema({"films": RATED}), 3.0, users=20_000)
    many = [{"Alien": 5.0, "Heat": 5.0, "Totoro": 5.0}] * 20_000
    found = best.estimate(best.tally(best.randomize({"films": many}, seed=4, invalid="substitute")))
    if type(best.parts[0].mechanism).__name__ != "PrivKV":  # which asks about any key, and loses none
        truth = np.array([2 / 3, 0, 2 / 3, 0, 2 / 3, 0])
        assert (np.abs(found["presence(films)"].value - truth) < 6 * found["presence(films)"].stderr).all()
    assert found["conditional_mean(films)"].value[[0, 2, 4]] == pytest.approx(5.0, abs=0.3)


# Priors -------------------------------------------------------------------------------------------------------------


def test_priors_in_every_form():
    expected = None
    for name, each in forms(True).items():
        if not isinstance(each, dict) or name == "maps":
            continue
        best = plan(Schema({"films": RATED}), 1.0, users=1000, prior={"films": each["films"]})
        expected = expected or best.rmse
        assert best.rmse == pytest.approx(expected), name


@pytest.mark.parametrize(
    "prior",
    ["uniform", "normal(3, 1)", {"Alien": 0.5}, 5, [], [{"Alien": SECRET}], [{"SECRET": 3.0}], ([{}], [0.5]), b"ab"],
    ids=repr,
)
def test_bad_priors_name_the_attribute_and_no_value(prior):
    with pytest.raises(ParameterError, match="prior of attribute films") as caught:
        plan(SCHEMA, 1.0, users=100, prior={"films": prior})
    assert "SECRET" not in str(caught.value)
    assert "987654" not in str(caught.value)


# Storing and merging ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("keys", [RATED, KeyValue(3000, 8)], ids=["named", "many"])
def test_stored_plans_and_tallies(epsilon, keys):
    best = plan(Schema({"films": keys, "age": Numeric(0, 9)}), epsilon, users=1000)
    again = Plan.from_json(best.to_json())
    assert again == best
    assert again.fingerprint == best.fingerprint
    vectors = [{"Alien": 3.0} if keys is RATED else {5: 0.5}] * 60
    data = {"films": vectors, "age": [3.0] * 60}
    parts = [
        best.tally(best.randomize({name: column[i::3] for name, column in data.items()}, seed=i)) for i in range(3)
    ]
    whole = parts[2] + parts[0] + parts[1]
    assert PlanTally.from_bytes(whole.to_bytes()) == whole == sum(parts)
    assert again.estimate(whole)["films"].n == best.estimate(whole)["films"].n > 0


def test_mechanisms_must_fit_their_keys():
    best = plan(Schema({"films": RATED, "apps": KeyValue(6, 3)}), 0.3, users=1000)
    stored = json.loads(best.to_json())
    text = json.dumps(stored)

    def forged(change) -> str:
        forgery = json.loads(text)
        change(forgery)
        body = {key: value for key, value in forgery.items() if key not in plan_files.BESIDE}
        return json.dumps({**body, "prediction": forgery["prediction"], "hash": plan_files.digest(body)})

    def other(**own) -> Any:
        return dither.CoCo(**{"d": 6, "s": 2, "epsilon": 0.3, **own}).to_dict()

    Plan.from_json(forged(lambda plan: plan["parts"][0].update(mechanism=other())))
    wrong = [other(s=3), other(d=7), other(sample=True)]
    one_sided: Any = dither.registry["SignSum"]
    wrong.append(one_sided(d=6, s=2, epsilon=0.3, goal="mean").to_dict())
    wrong.append(dither.GRR(k=6, epsilon=0.3).to_dict())
    for mechanism in wrong:
        with pytest.raises(ParameterError, match="do not fit"):
            Plan.from_json(forged(lambda plan, mechanism=mechanism: plan["parts"][0].update(mechanism=mechanism)))
    names = ["presence(films)", "presence(apps)"]  # keys of two attributes are two reports
    with pytest.raises(ParameterError, match="do not fit"):
        Plan.from_json(forged(lambda plan: plan["parts"][0].update(questions=names)))


def test_refined_results():
    best = plan(Schema({"apps": KeyValue(200, 3), "age": Numeric(0, 9)}), 1.0, users=5000)
    data = {"apps": [{row % 5: 1.0} for row in range(5000)], "age": [3.0] * 5000}
    tally = best.tally(best.randomize(data, seed=1))
    raw, better = best.estimate(tally), best.estimate(tally, refine="auto")
    truth = np.where(np.arange(200) < 5, 0.2, 0.0)
    for name in ("presence(apps)", "mean(apps)"):
        assert better[name].original.value.tolist() == raw[name].value.tolist()  # type: ignore[union-attr]
        assert np.mean((better[name].value - truth) ** 2) < np.mean((raw[name].value - truth) ** 2) / 2
    assert better["presence(apps)"].value.min() >= 0
    for name in ("conditional_mean(apps)", "frequency(apps)"):
        assert better.single(name).original is None
        np.testing.assert_array_equal(better[name].value, raw[name].value)


def test_nobody_was_asked():
    best = plan(SCHEMA, 1.0, users=100)
    for seed in range(40):
        tally = best.tally(best.randomize({name: column[:1] for name, column in table(2).items()}, seed=seed))
        found = best.estimate(tally, refine="auto")
        if tally.parts["presence(films) and mean(films)"].n == 0:
            assert np.isnan(found["films"].value).all()
            assert np.isinf(found["mean(films)"].stderr).all()
            assert len(found["films"].value) == 6
            return
    raise AssertionError("somebody was asked every time")


# Mutants ------------------------------------------------------------------------------------------------------------


def caught(test, *arguments) -> bool:
    try:
        test(*arguments)
    except (AssertionError, DomainError, ValueError, KeyError, IndexError, TypeError):
        return True
    return False


@pytest.mark.wide
def test_answers_that_are_swapped(monkeypatch):
    real = Part.estimates

    def swapped(part, *more):
        turned = part.questions[::-1] if len(part.columns) < len(part.questions) else part.questions
        for question, (_, estimate) in zip(turned, real(part, *more), strict=False):
            yield question, estimate

    monkeypatch.setattr(Part, "estimates", swapped)
    assert caught(test_units)


def test_a_unit_that_is_forgotten(monkeypatch):
    monkeypatch.setattr(Question, "unit", property(lambda self: 1.0))
    assert caught(test_units)


def test_a_middle_that_is_forgotten(monkeypatch):
    monkeypatch.setattr(KeyValue, "centre", property(lambda self: 0.0))
    assert caught(test_units)


def test_a_presence_priced_as_a_mean(monkeypatch):
    from dither.planning import choose

    monkeypatch.setattr(choose, "replace", lambda reading, about: reading)
    assert caught(test_predicted_errors_are_those_of_the_worst_users, 1.0)
