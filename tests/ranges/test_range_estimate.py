"""What can be asked of an estimate: every way against the model and against the records, in the analyst's own units."""

import copy
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dither.errors import ParameterError, UnknownError
from dither.ranges import HDG, HIO, LHIO, MSW, Copula, Uniform
from dither.ranges.axes import Axes
from dither.ranges.fit import copula, gridded
from dither.ranges.grid import Grid
from dither.ranges.model import Margin, Pairwise
from dither.ranges.pair_completion import joint
from dither.ranges.queries import Queries
from dither.ranges.query_model import Answered, Model
from dither.ranges.range_estimate import Answers, RangeEstimate
from dither.ranges.user_groups import Collected
from dither.schema import Categorical, Numeric, Ordinal, Schema

JOBS = ("nurse", "driver", "teacher", "clerk & co")
SCHEMA = Schema({"age": Ordinal(18, 81), "income": Numeric(0, 100_000), "job": Categorical(list(JOBS))})
AXES = Axes.of_schema(SCHEMA, bins=16)
SHAPE = (64, 16, 4)
N = 30_000


def people(n: int = N) -> np.ndarray:
    rng = np.random.default_rng(1)
    age = np.clip(rng.normal(22, 12, n), 0, 63).astype(int)
    income = np.clip(rng.normal(4 + age / 12, 2, n), 0, 15).astype(int)
    job = np.where(rng.random(n) < 0.5, income // 4, rng.integers(0, 4, n))
    return np.column_stack([age, income, job])


def made(kind: str = "copula", axes: Axes = AXES, variance: float = 1e-7) -> RangeEstimate:
    """An estimate from grids that are known nearly exactly."""
    records = people()
    unused: Any = SimpleNamespace(reading=None)
    grids = [Grid.equal((j,), SHAPE, (SHAPE[j],)) for j in range(3)]
    grids += [Grid.equal(pair, SHAPE, [min(SHAPE[j], 8) for j in pair]) for pair in ((0, 1), (0, 2), (1, 2))]
    told: Any = [
        Collected(
            grid,
            np.bincount(grid.cells(records), minlength=grid.size).reshape(grid.shape) / N,
            variance,
            N,
            unused,
            unused,
        )
        for grid in grids
    ]
    model = copula(SHAPE, told, [True, True, False]) if kind == "copula" else gridded(SHAPE, told, "entropy")
    guarantee = Copula(shape=(4, 4), epsilon=1.0, n=10).guarantee
    return RangeEstimate.of(model, axes, N, guarantee, "a source", ("A note.",))


ESTIMATE = made()
PLAIN = made(axes=Axes.of_shape(SHAPE))


def reported(mechanism: Any, seed: int = 1) -> RangeEstimate:
    records = people(mechanism.n)[:, : len(mechanism.shape)] % np.array(mechanism.shape)
    return mechanism.estimate(mechanism.tally(mechanism.randomize(records, seed=seed)))


# Queries -------------------------------------------------------------------------------------------------------------


def test_an_answer_is_a_number_with_an_error():
    answer = ESTIMATE.answer({"age": (20, 40), "job": ["nurse", "driver"]})
    records = people()
    truth = ((records[:, 0] >= 2) & (records[:, 0] <= 22) & (records[:, 2] <= 1)).mean()
    assert float(answer.value) == pytest.approx(truth, abs=0.01)
    assert isinstance(float(answer.stderr), float)
    assert float(answer.stderr) == pytest.approx(np.hypot(float(answer.noise), float(answer.doubt)))
    low, high = answer.interval(0.95)
    assert low < answer.value < high
    assert list(answer.labels or ()) == ["age between 20 and 40 and job in ('nurse', 'driver')"]
    assert "age between 20 and 40" in str(answer.table())
    shown = repr(answer)
    assert "age between 20 and 40" in shown
    assert "Standard error" in shown
    assert "doubt" in shown
    assert "<p>" in answer._repr_html_()
    assert "The share of 1 item" in answer.explain()
    assert bool(answer.converged)


def test_names_numbers_and_words_ask_the_same():
    by_name = ESTIMATE.answer({"age": (20, 40), "income": (None, 50_000)})
    by_number = ESTIMATE.answer({0: (20, 40), 1: (0, 50_000)})
    in_words = ESTIMATE.where("age between 20 and 40 and income <= 50000")
    in_codes = PLAIN.answer({0: (2, 22), 1: (0, 7)})
    assert float(by_name.value) == float(by_number.value) == float(in_words.value)
    assert float(in_codes.value) == pytest.approx(float(by_name.value), abs=1e-12)


def test_many_answers_are_those_of_each():
    asked = [{"age": (None, 30)}, {"job": "nurse"}, {"age": (30, None), "income": (1e4, 5e4), "job": {"driver"}}, {}]
    together = ESTIMATE.answers(asked)
    assert together.value.shape == together.stderr.shape == (4,)
    for number, query in enumerate(asked):
        assert float(ESTIMATE.answer(query).value) == pytest.approx(together.value[number], abs=1e-12)
    assert together.value[3] == 1.0
    assert together.stderr[3] == 0.0
    assert together.labels is not None
    assert together.labels[-1] == "everyone"
    assert list(together.labels[:2]) == ["age <= 30", "job = 'nurse'"]
    assert len(together.table().columns["item"]) == 4
    assert "rounds" in " ".join(together.notes)
    with pytest.raises(IndexError):
        together.labels[4]


def test_more_queries_than_are_asked_at_once():
    queries = Queries.random(Axes.of_shape(SHAPE), 2, 5000, seed=1)
    found = PLAIN.answers(queries)
    np.testing.assert_array_equal(found.value[4990:], PLAIN.answers(queries[4990:]).value)
    assert len(found.value) == 5000


def test_labels_are_written_when_they_are_read(monkeypatch):
    written = []
    monkeypatch.setattr("dither.ranges.item_names.describe", lambda axes, query: written.append(1) or "text")
    found = PLAIN.answers(Queries.random(Axes.of_shape(SHAPE), 1, 1000, seed=1))
    assert not written
    repr(found)
    assert 0 < len(written) < 30


def test_no_queries_have_no_answers():
    found = ESTIMATE.answers([])
    assert found.value.shape == (0,)
    assert "share" in repr(found)


@pytest.mark.parametrize("kind", ["copula", "gridded"])
def test_answers_of_nested_queries_grow(kind):
    estimate = made(kind, Axes.of_shape(SHAPE), 1e-4)
    for fixed in ({}, {1: (3, 9)}, {2: {0, 3}}):
        values = estimate.answers([{0: (10, high), **fixed} for high in range(10, 64)]).value
        assert (np.diff(values) >= -1e-9).all()
        assert ((values >= 0) & (values <= 1)).all()


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda e: e.answer({"foo": (1, 2)}), "there is no attribute 'foo'.*'age', 'income', 'job'"),
        (lambda e: e.answer({7: (1, 2)}), "there is no attribute 7; there are 3"),
        (lambda e: e.answer({"age": (40, 20)}), "age: the range from 40 to 20 is reversed"),
        (lambda e: e.answer({"age": []}), "age: there are no values to choose from"),
        (lambda e: e.answer({"age": (10, 20)}), "age: 10 lies outside of its values, which go from 18 to 81"),
        (lambda e: e.answer({"job": "pilot"}), "job: 'pilot' is not one of its labels"),
        (lambda e: e.answer({"age": 20, "income": (0, 1), "job": "nurse", "x": 1}), "restricts 4 attributes.*only 3"),
        (lambda e: e.answer({"age": 20, 0: 21}), "age is restricted twice"),
        (lambda e: e.answer([("age", 20)]), "a query maps attributes to ranges"),
        (lambda e: e.answers({"age": 20}), "queries are a list of mappings"),
        (lambda e: e.answers([{"age": 20}, {"age": (3, 2)}]), "query 1: age"),
        (lambda e: e.answers(Queries.of(Axes.of_shape((4, 4)), [{}])), "other numbers of values"),
        (lambda e: e.where("age ="), "."),
        (lambda e: e.marginal(), "several different ones"),
        (lambda e: e.marginal("age", "age"), "several different ones"),
        (lambda e: e.marginal("age", "income", "age"), "several different ones"),
        (lambda e: e.marginal("pay"), "there is no attribute 'pay'"),
        (lambda e: e.joint("age", 0), "two different attributes"),
        (lambda e: e.quantile("job", 0.5), "job: labels have no order"),
        (lambda e: e.quantile("age", 1.5), "a share from 0 to 1"),
        (lambda e: e.quantile("age", float("nan")), "a share from 0 to 1"),
        (lambda e: e.quantile("age", "half"), "a share from 0 to 1"),
        (lambda e: e.quantile("age", [[0.5]]), "a share from 0 to 1"),
        (lambda e: e.plot("age", "income", "job"), "one attribute or two"),
        (lambda e: e.sample(-1), "n must be at least 0"),
        (lambda e: e.on(Axes.of_shape((4, 4))), "other numbers of values"),
    ],
)
def test_bad_questions_are_refused_with_what_to_do(ask, says):
    with pytest.raises(ParameterError, match=says):
        ask(ESTIMATE)


# Marginals -----------------------------------------------------------------------------------------------------------


def test_the_estimate_is_a_mapping_to_marginals():
    assert list(ESTIMATE) == ["age", "income", "job"]
    assert list(PLAIN) == [0, 1, 2]
    assert len(ESTIMATE) == 3
    assert "age" in ESTIMATE
    assert "pay" not in ESTIMATE
    assert ESTIMATE["age"] is ESTIMATE[0] is ESTIMATE.marginal("age")
    assert PLAIN["1"] is PLAIN[1]
    for wrong in ("pay", 3, -1, None, 1.5):
        with pytest.raises(UnknownError, match="there is no attribute"):
            ESTIMATE[wrong]  # type: ignore[arg-type]
    assert dict(PLAIN.items())[2].value.shape == (4,)


def test_marginals_have_labels_and_add_up():
    age, income, job = (ESTIMATE[name] for name in SCHEMA)
    assert list(age.labels or ())[:2] == ["18", "19"]
    assert list(income.labels or ())[1] == "6250 to 12500"
    assert list(job.labels or ()) == list(JOBS)
    assert isinstance(ESTIMATE.model, Pairwise)
    for j, each in enumerate((age, income, job)):
        np.testing.assert_allclose(each.value, np.bincount(people()[:, j], minlength=SHAPE[j]) / N, atol=2e-3)
        assert each.value.sum() == pytest.approx(1.0)
        assert (each.value >= 0).all()
        assert (each.stderr >= 0).all()
        np.testing.assert_allclose(each.value, ESTIMATE.model.margins[j].value, atol=1e-12)
    assert "nurse" in repr(job)


@pytest.mark.parametrize("kind", ["copula", "gridded"])
def test_marginals_are_the_answers_about_each_value(kind):
    """One value of each even piece is asked for; here all of them are."""
    estimate = made(kind, Axes.of_shape(SHAPE), 1e-5)
    for j in range(3):
        each = estimate.answers([{j: value} for value in range(SHAPE[j])])
        np.testing.assert_allclose(estimate[j].value, each.value, atol=1e-12)
        np.testing.assert_allclose(estimate[j].stderr, each.stderr, atol=1e-12)
    pairs = estimate.answers([{0: one, 1: other} for one in range(0, 64, 7) for other in range(16)])
    table = estimate.marginal(0, 1)
    np.testing.assert_allclose(table.value[::7].ravel(), pairs.value, atol=1e-12)
    np.testing.assert_allclose(table.stderr[::7].ravel(), pairs.stderr, atol=1e-12)


def test_tables_of_two_attributes_in_either_order():
    table = ESTIMATE.marginal("job", "age")
    assert table.value.shape == table.stderr.shape == (4, 64)
    np.testing.assert_allclose(table.value, ESTIMATE.marginal("age", "job").value.T)
    np.testing.assert_allclose(table.value, ESTIMATE.joint("job", "age"), atol=1e-6)
    np.testing.assert_allclose(ESTIMATE.joint("age", "job"), ESTIMATE.joint("job", "age").T)
    assert list(table.labels or ())[65] == "driver, 19"
    assert table.value.sum() == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_allclose(table.value.sum(axis=1), ESTIMATE["job"].value, atol=1e-3)
    assert "driver, " in str(table.table(most=200))


def test_large_tables_are_refused_and_ranges_offered():
    shape = (4096, 2048)
    estimate = RangeEstimate.of(
        Uniform(shape=shape, epsilon=1.0, n=10)._model([], 10), Axes.of_shape(shape), 10, ESTIMATE.guarantee
    )
    with pytest.raises(ParameterError, match=r"8,388,608 entries: ask for ranges"):
        estimate.joint(0, 1)
    with pytest.raises(ParameterError, match=r"8,388,608 entries: ask for ranges"):
        estimate.marginal(0, 1)
    assert float(estimate.answer({0: (0, 2047), 1: (0, 511)}).value) == pytest.approx(0.125)
    assert estimate[0].value.shape == (4096,)


def test_marginals_can_be_refined():
    noisy = made("gridded", AXES, 1e-5)
    for name in SCHEMA:
        refined = noisy[name].refine()
        assert (refined.value >= 0).all()
        assert refined.value.sum() == pytest.approx(1.0)
        assert refined.original is noisy[name]
    clipped = noisy.answers([{"age": (20, 30)}, {"job": "nurse"}]).refine("clip")
    assert isinstance(clipped, Answers)
    assert ((clipped.value >= 0) & (clipped.value <= 1)).all()


# Quantiles -----------------------------------------------------------------------------------------------------------


def test_quantiles_in_whole_numbers():
    shares = np.array([0.0, 0.01, 0.1, 0.5, 0.9, 1.0])
    found = ESTIMATE.quantile("age", shares)
    truth = 18 + np.quantile(people()[:, 0], shares, method="inverted_cdf")
    assert np.abs(found.value - truth)[1:-1].max() <= 1
    assert found.value[0] == 18
    assert (np.diff(found.value) >= 0).all()
    assert (found.value == np.rint(found.value)).all()
    assert list(found.labels or ()) == ["0", "0.01", "0.1", "0.5", "0.9", "1"]
    assert "quantile of age" in repr(found)
    single = ESTIMATE.quantile("age", 0.5)
    assert float(single.value) == found.value[3]
    assert float(single.stderr) < 1


def test_a_quantile_is_the_least_value_with_that_share():
    below = np.cumsum(ESTIMATE["age"].value)
    for share in (0.05, 0.3, 0.77):
        value = int(ESTIMATE.quantile("age", share).value) - 18
        assert below[value] >= share
        assert value == 0 or below[value - 1] < share


def test_quantiles_inside_cells():
    """Income has cells of 6,250; inside of them users are spread evenly."""
    below = np.concatenate([[0], np.cumsum(ESTIMATE["income"].value)])
    found = ESTIMATE.quantile("income", [0.25, 0.5, 0.75])
    np.testing.assert_allclose(found.value, np.interp([0.25, 0.5, 0.75], below, np.linspace(0, 100_000, 17)), rtol=1e-6)
    assert (found.stderr > 0).all()


def test_errors_of_quantiles_follow_the_density():
    """A median between two bumps is less sure than one on top of a bump, for the same error of shares."""
    x = np.arange(64)
    bumps = np.exp(-0.5 * ((x - 15) / 4) ** 2) + np.exp(-0.5 * ((x - 48) / 4) ** 2) + 1e-3
    hill = np.exp(-0.5 * ((x - 32) / 4) ** 2) + 1e-3
    errors = []
    for shares in (bumps, hill):
        margin = Margin(shares / shares.sum(), np.arange(65), 1e-5 * (np.eye(64) - 1 / 64))
        estimate = RangeEstimate.of(Pairwise((margin,), {}), Axes.of_shape((64,)), 100, ESTIMATE.guarantee)
        errors.append(float(estimate.quantile(0, 0.5).stderr))
    assert errors[0] > 5 * errors[1]
    spike = np.full(64, 0.08 / 63)
    spike[20] = 0.92
    margin = Margin(spike, np.arange(65), 1e-5 * (np.eye(64) - 1 / 64))
    certain = RangeEstimate.of(Pairwise((margin,), {}), Axes.of_shape((64,)), 100, ESTIMATE.guarantee).quantile(0, 0.5)
    assert float(certain.value) == 20
    assert float(certain.stderr) < 0.1


# Records, pictures, words ----------------------------------------------------------------------------------------


def test_records_without_names_are_an_array_of_codes():
    drawn = PLAIN.sample(2000, seed=1)
    assert isinstance(drawn, np.ndarray)
    assert drawn.shape == (2000, 3)
    assert drawn.dtype.kind == "i"
    assert (drawn < np.array(SHAPE)).all()
    np.testing.assert_array_equal(drawn, PLAIN.sample(2000, seed=1))
    assert PLAIN.sample(0).shape == (0, 3)


def test_records_of_a_schema_are_columns_in_its_units():
    drawn = ESTIMATE.sample(5000, seed=1)
    assert list(drawn) == ["age", "income", "job"]
    assert ((drawn["age"] >= 18) & (drawn["age"] <= 81)).all()
    assert drawn["age"].dtype.kind == "i"
    assert set(drawn["job"].tolist()) <= set(JOBS)
    assert ((drawn["income"] >= 0) & (drawn["income"] <= 100_000)).all()
    codes = PLAIN.sample(5000, seed=1)
    np.testing.assert_array_equal(drawn["age"] - 18, codes[:, 0])
    np.testing.assert_array_equal(AXES[1].encode(drawn["income"]), codes[:, 1])
    np.testing.assert_array_equal(AXES[2].encode(drawn["job"]), codes[:, 2])
    assert len(np.unique(drawn["income"])) == 5000  # spread inside cells
    inside = (drawn["age"] <= 40) & (drawn["income"] <= 43_000)
    answer = float(ESTIMATE.answer({"age": (None, 40), "income": (None, 43_000)}).value)
    assert inside.mean() == pytest.approx(answer, abs=5 * np.sqrt(0.25 / 5000))


def test_records_need_a_model_of_records():
    with pytest.raises(ParameterError, match="take Copula or HDG"):
        reported(HIO(shape=(8, 4), epsilon=1.0, n=2000)).sample(5)


def test_pictures():
    pytest.importorskip("matplotlib")
    for names in (("age",), ("income",), ("job",), ("age", "income"), ("job", "age"), (1, 2)):
        axes = ESTIMATE.plot(*names)
        axes.figure.canvas.draw()
        words = axes.get_xlabel() + axes.get_ylabel()
        for name in names:
            assert AXES.names[AXES.index(name)] in words
    axes = ESTIMATE.plot("age", "income")
    assert axes.get_xlim() == (17.5, 81.5)
    assert axes.get_ylim() == (0, 100_000)
    drawn = np.asarray(axes.collections[0].get_array()).reshape(16, 64)
    np.testing.assert_allclose(drawn, ESTIMATE.joint("age", "income").T)
    assert len(axes.figure.axes) == 2  # and the colour bar
    labels = [text.get_text() for text in ESTIMATE.plot("job").get_yticklabels()]
    assert labels == list(JOBS)
    own = ESTIMATE.plot("age").figure.subplots()
    assert ESTIMATE.plot("job", ax=own) is own
    assert PLAIN.plot(0).get_xlabel() == "attribute 0"


def test_many_long_labels_are_drawn_shortened():
    pytest.importorskip("matplotlib")
    towns = [f"a town with a rather long name, number {number}" for number in range(60)]
    axes = Axes.of_schema(Schema({"town": Categorical(towns), "x": Ordinal(0, 3)}))
    shape = axes.shape
    model = Uniform(shape=shape, epsilon=1.0, n=10)._model([], 10)
    estimate = RangeEstimate.of(model, axes, 10, ESTIMATE.guarantee)
    bars = estimate.plot("town")
    assert len(bars.get_yticklabels()) == 40
    assert "20 more" in bars.get_xlabel()
    assert max(len(text.get_text()) for text in bars.get_yticklabels()) <= 20
    ticks = estimate.plot("town", "x").get_xticklabels()
    assert 10 < len(ticks) <= 24


def test_in_words():
    assert "Range queries about 3 attributes, from 30,000 reports." in ESTIMATE.explain()
    assert "Collected with a source." in ESTIMATE.explain()
    assert "A note." in ESTIMATE.explain()
    shown = repr(ESTIMATE)
    assert "age: 64 values, from 18 to 81" in shown
    assert "income: from 0 to 100000, in 16 cells" in shown
    assert "job: 4 labels" in shown
    assert "age" in ESTIMATE._repr_html_()
    many = Axes.of_shape((2,) * 12)
    estimate = RangeEstimate.of(
        Uniform(shape=(2,) * 12, epsilon=1.0, n=20)._model([], 20), many, 20, ESTIMATE.guarantee
    )
    assert "and 2 more" in repr(estimate)


def test_names_can_be_given_later():
    named = PLAIN.on(AXES)
    query = {"age": (20, 40), "job": "nurse"}
    assert float(named.answer(query).value) == float(ESTIMATE.answer(query).value)
    assert named.guarantee == PLAIN.guarantee
    assert named.notes == ("A note.",)


def test_copies_answer_alike():
    query = {"age": (20, 40), "income": (1e4, 6e4), "job": {"nurse", "driver"}}
    wanted = ESTIMATE.answer(query)
    for other in (pickle.loads(pickle.dumps(ESTIMATE)), copy.deepcopy(ESTIMATE), copy.copy(ESTIMATE)):
        found = other.answer(query)
        assert float(found.value) == float(wanted.value)
        assert float(found.stderr) == float(wanted.stderr)
        assert other.guarantee == ESTIMATE.guarantee
        assert repr(other) == repr(ESTIMATE)
        np.testing.assert_array_equal(other["job"].value, ESTIMATE["job"].value)
    answers = pickle.loads(pickle.dumps(ESTIMATE.answers([query, {}])))
    assert answers.labels[1] == "everyone"


# All methods -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [HDG, Copula, MSW, HIO, LHIO, Uniform])
def test_every_method_answers_every_kind_of_question(method):
    estimate = reported(method(shape=(16, 9, 8), epsilon=2.0, n=20_000))
    queries = Queries.random(Axes.of_shape((16, 9, 8)), 2, 10, seed=1)
    found = estimate.answers(queries)
    assert np.isfinite(found.value).all()
    assert np.isfinite(found.stderr).all()
    for shares in (estimate[1].value, estimate.marginal(0, 2).value):
        assert shares.sum() == pytest.approx(1.0, abs=1e-6)
        assert shares.min() >= 0
    low, high = found.interval()
    assert (low >= 0).all()
    assert (high <= 1).all()
    assert estimate.marginal(2, 0).value.shape == (8, 16)
    np.testing.assert_allclose(estimate.joint(2, 0), estimate.marginal(2, 0).value, atol=1e-3)
    assert 0 <= float(estimate.quantile(0, 0.5).value) <= 15
    assert float(estimate.where('"0" <= 7').value) == pytest.approx(float(estimate.answer({0: (None, 7)}).value))
    assert estimate.n == 20_000
    if method is not Uniform:
        truth = (people(20_000)[:, 1] % 9 <= 4).mean()
        answer = estimate.answer({1: (0, 4)})
        assert abs(float(answer.value) - truth) < 6 * float(answer.stderr) + 0.02


def test_labels_are_what_was_asked():
    assert list(ESTIMATE.answer({"income": (1000, 1500)}).labels or ()) == ["income between 1000 and 1500"]
    many = ESTIMATE.answers([{"age": 20}, {"income": (1000, 1500)}, {"income": (99_000, 99_500), "job": "nurse"}])
    assert list(many.labels or ())[1:] == [
        "income between 1000 and 1500",
        "income between 99000 and 99500 and job = 'nurse'",
    ]
    assert "income between 7000 and 8000" in repr(ESTIMATE.where("income between 7000 and 8000"))


def test_one_report_is_not_many():
    mechanism = LHIO(shape=(4, 4), epsilon=1.0, n=1000)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize([[1, 2]], seed=1)))
    for text in (repr(estimate), estimate.explain(), repr(estimate.answer({0: 1}))):
        assert "from 1 report" in text
        assert "1 reports" not in text


def test_a_model_without_marginals_and_tables_is_asked_value_by_value():
    class Bare(Model):
        @property
        def shape(self) -> tuple[int, ...]:
            return SHAPE

        def answers(self, queries: Queries) -> Answered:
            return ESTIMATE.model.answers(queries)

    bare: Any = RangeEstimate.of(Bare(), AXES, N, ESTIMATE.guarantee)
    np.testing.assert_allclose(bare["job"].value, ESTIMATE["job"].value, atol=1e-9)
    np.testing.assert_allclose(bare.joint("job", "income"), ESTIMATE.joint("job", "income"), atol=1e-6)
    np.testing.assert_allclose(bare.quantile("age", [0.1, 0.9]).value, ESTIMATE.quantile("age", [0.1, 0.9]).value)


def test_a_query_restricts_at_most_sixteen_attributes_of_any_number():
    mechanism = MSW(shape=(2,) * 17, epsilon=1.0, n=2000)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(np.zeros((2000, 17), dtype=int), seed=1)))
    assert 0 <= float(estimate.answer(dict.fromkeys(range(3, 12), 0)).value) <= 1
    with pytest.raises(ParameterError, match="16"):
        estimate.answer(dict.fromkeys(range(17), 0))


def test_pairs_can_be_put_together_in_three_ways():
    """Answers about one or two attributes are the same; of three, each way has its own, as `combine` has it."""
    mechanism = HDG(shape=(8, 8, 8), epsilon=2.0, n=20_000)
    place = np.random.default_rng(1).integers(0, 8, (20_000, 1))
    records = np.clip(place + np.random.default_rng(2).integers(-1, 2, (20_000, 3)), 0, 7)
    estimate = mechanism.estimate(mechanism.tally(mechanism.randomize(records, seed=1)))
    two, three = {0: (0, 3), 1: (2, 5)}, {0: (0, 3), 1: (2, 5), 2: (0, 4)}
    found = {by: estimate.completed(by) for by in ("copula", "entropy", "weighted update")}
    assert len({float(each.answer(two).value) for each in found.values()}) == 1
    assert len({round(float(each.answer(three).value), 6) for each in found.values()}) == 3
    alone = np.array([[float(estimate.answer({j: three[j]}).value) for j in range(3)]])
    pairs = [{j: three[j], k: three[k]} for j, k in ((0, 1), (0, 2), (1, 2))]
    both = np.array([[float(estimate.answer(pair).value) for pair in pairs]])
    for by in ("entropy", "weighted update"):
        wanted = joint(alone, both, by).answer[0]
        assert float(found[by].answer(three).value) == pytest.approx(wanted, abs=1e-5)
    with pytest.raises(ParameterError, match="by must be one of"):
        estimate.completed("magic")


# Many cells of a number ----------------------------------------------------------------------------------------------

FINE = Schema({"x": Numeric(0, 100), "y": Numeric(-1, 1), "z": Ordinal(0, 29)})


def finely(cells: int = 512, method: Any = Copula) -> RangeEstimate:
    """Two numbers in many cells, and whole numbers."""
    shape, random = (cells, cells, 30), np.random.default_rng(4)
    low = random.beta(2.0, 4.0, 4000)
    records = np.column_stack(
        [np.minimum((low**power * size).astype(int), size - 1) for power, size in zip((1, 2, 1), shape, strict=True)]
    )
    mechanism = method(shape=shape, epsilon=2.0, n=4000)
    return mechanism.estimate(mechanism.tally(mechanism.randomize(records, seed=1))).on(
        Axes.of_schema(FINE, bins=cells)
    )


def test_at_most_64_cells_of_a_number_are_shown():
    whole = finely()
    assert (whole.axes.shape, whole.shown.shape) == ((512, 512, 30), (64, 64, 30))
    shares, _ = whole.model.marginal(0)
    np.testing.assert_allclose(whole["x"].value, shares.reshape(64, 8).sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(whole.marginal("x").value, whole["x"].value)
    queries = [{"x": (low, low + 100 / 64)} for low in np.arange(64) * 100 / 64]
    np.testing.assert_allclose(whole["x"].stderr, whole.answers(queries).stderr, rtol=1e-9)
    np.testing.assert_array_equal(np.asarray(whole["x"].edges), whole.shown[0].edges)
    assert list(whole["x"].item_names[:1]) == ["0 to 1.5625"]
    assert whole.value.shape == whole.stderr.shape == whole.interval().low.shape == (158,)
    assert len(whole.table()) == len(whole.item_names) == 158
    assert [len(panel.value) for panel in whole.panels().values()] == [64, 64, 30]
    assert "x: from 0 to 100, in 64 cells" in repr(whole)


def test_tables_of_two_are_shown_in_few_cells():
    whole = finely()
    table = whole.model.table(0, 1).reshape(64, 8, 64, 8).sum(axis=(1, 3))
    np.testing.assert_allclose(whole.joint("x", "y"), table, atol=1e-12)
    np.testing.assert_allclose(
        whole.joint("z", "y"), whole.model.table(2, 1).reshape(30, 64, 8).sum(axis=2), atol=1e-12
    )
    both = whole.marginal("x", "z")
    assert both.value.shape == both.stderr.shape == (64, 30)
    some = whole.answer({"x": (50, 50 + 100 / 64), "z": 7})
    np.testing.assert_allclose([both.value[32, 7], both.stderr[32, 7]], [some.value, some.stderr], rtol=1e-9)
    assert list(both.item_names)[31] == "1.5625 to 3.125, 1"


def test_a_number_of_cells_that_is_no_multiple_is_shown_in_equal_ones():
    whole = finely(cells=100)
    assert whole.shown.shape == (64, 64, 30)
    assert whole["x"].value.sum() == pytest.approx(1.0)
    below = whole.answer({"x": (None, 50)}).value
    assert whole["x"].value[:32].sum() == pytest.approx(float(below))
    assert whole.joint("x", "y").sum() == pytest.approx(1.0)


@pytest.mark.parametrize("method", [Copula, MSW])
def test_a_condensed_estimate_answers_the_same(method):
    whole = finely(method=method)
    short = whole.condensed()
    assert (short.axes.shape, short.shown) == ((128, 128, 30), whole.shown)
    assert short.condensed().axes == short.axes
    queries = [
        {"x": (3.3, 71.9)},
        {"y": (-0.87, 0.123), "z": (4, 20)},
        {"x": (None, 40.04), "y": (-0.5, None)},
        {"x": (10, 11), "z": [3, 4]},
    ]
    one, other = whole.answers(queries), short.answers(queries)
    for name in ("value", "noise", "doubt"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6, atol=1e-12)
    three = {"x": (10, 60), "y": (-1, 0.3), "z": (2, 19)}
    assert float(whole.answer(three).value) == pytest.approx(float(short.answer(three).value), abs=0.01)
    np.testing.assert_allclose(whole["x"].value, short["x"].value, atol=1e-12)
    np.testing.assert_allclose(whole["y"].stderr, short["y"].stderr, rtol=1e-6)
    np.testing.assert_allclose(whole.joint("x", "y"), short.joint("x", "y"), atol=1e-12)
    quantiles = [each.quantile("x", [0.1, 0.5, 0.9]).value for each in (whole, short)]
    np.testing.assert_allclose(*quantiles, rtol=1e-9)
    assert short.sample(10, seed=1)["x"].shape == (10,)


def test_what_has_no_even_pieces_is_not_condensed():
    for cells in (60, 1000):  # a cell for each value, and pieces that differ
        whole = finely(cells=cells)
        assert whole.condensed().model is whole.model
    plain = reported(Copula(shape=(512, 8), epsilon=1.0, n=1000))  # whole numbers are told one by one
    assert plain.condensed().axes.shape == (512, 8)
    grids = finely(method=HIO)
    assert grids.condensed().model is grids.model
