"""Plans: the best of the ways compared, reports that keep the promise, estimates in units."""

import hashlib
import warnings
from typing import Any

import msgspec
import numpy as np
import pytest

import dither
from dither import Categorical, Numeric, Ordinal, Schema, plan
from dither.errors import BudgetWarning, DomainError, EmptyError, ParameterError, ReportError, TallyError
from dither.planning import PlanTally
from dither.questions import Question
from marks import wide

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

SCHEMA = Schema(
    {"age": Ordinal(0, 99), "income": Numeric(0, 200_000), "job": Categorical(["nurse", "driver", "teacher", "other"])}
)
NUMBERS = Schema({f"x{i}": Numeric(-1, 1) for i in range(6)})


def table(users: int) -> dict:
    rng = np.random.default_rng(7)
    return {
        "age": rng.integers(18, 90, users),
        "income": np.clip(rng.gamma(2, 20_000, users), 0, 200_000),
        "job": np.array(["nurse", "driver", "teacher", "other"])[rng.integers(0, 4, users)],
    }


@pytest.mark.parametrize("epsilon", [wide(0.5), 1.0, wide(4.0), 12.0])
@pytest.mark.parametrize("schema", [SCHEMA, NUMBERS], ids=["mixed", "numbers"])
def test_no_fixed_way_is_better(schema, epsilon):
    best = plan(schema, epsilon, users=10_000)
    cells = [question.size if question.shape else 0 for question in best.questions]
    count = len(cells)
    for m in range(1, count + 1):  # one mechanism for all of a kind, m of them a user
        for number in ("Duchi", "Piecewise", "Hybrid"):
            for category in ("GRR", "Unary", "SubsetSelection", "Hadamard"):
                registry: Any = dither.registry
                made = [
                    registry[category](k=k, epsilon=epsilon / m) if k else registry[number](epsilon=epsilon / m)
                    for k in cells
                ]
                cost = np.mean([each.reading.worst_variance(m / count) * count / m / 10_000 for each in made])
                assert best.rmse**2 <= cost * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
def test_the_promise_of_all_reports_together(epsilon):
    for schema in (SCHEMA, NUMBERS):
        best = plan(schema, epsilon, users=1000)
        assert best.guarantee.epsilon <= epsilon
        assert best.guarantee.epsilon >= epsilon - 1e-8
        spent = sorted(part.mechanism.guarantee.epsilon for part in best.parts)[-best.questions_per_user :]
        assert sum(spent) <= epsilon + 1e-12


@pytest.mark.wide
@pytest.mark.parametrize("epsilon", [1.0, 12.0])
def test_estimates_are_in_units_and_cover(epsilon):
    # An interval of 95% covers fewer than 89% of 400 collections with probability 1e-6. The power is in the contract
    # suite; here it is the units, and who is asked.
    users = 400
    data = table(users)
    best = plan(SCHEMA, epsilon, users=users, ask=["mean(age)", "mean(income)", "histogram(job)"])
    truth = {
        "mean(age)": data["age"].mean(),
        "mean(income)": data["income"].mean(),
        "histogram(job)": np.mean(data["job"] == "nurse"),
    }
    covered = dict.fromkeys(truth, 0)
    for seed in range(400):
        estimate = best.estimate(best.tally(best.randomize(data, seed=seed)))
        for name, value in truth.items():
            low, high = (np.atleast_1d(end)[0] for end in estimate[name].interval(0.95))
            covered[name] += bool(low <= value <= high)
    assert all(0.89 <= count / 400 < 1 for count in covered.values())


def test_realised_errors_agree_with_the_prediction():
    # The worst users for a sign mechanism hold zero; for 200 collections the rmse has a standard error of 5%.
    best = plan(Schema({"a": Numeric(-1, 1), "b": Numeric(-50, 50)}), 0.5, users=2000)
    data = {"a": np.zeros(2000), "b": np.zeros(2000)}
    found = [best.estimate(best.tally(best.randomize(data, seed=seed))) for seed in range(200)]
    for name, predicted in best.predicted.items():
        rmse = np.sqrt(np.mean([float(each[name].value) ** 2 for each in found]))
        assert rmse == pytest.approx(predicted, rel=0.3)  # six standard errors


def test_who_is_asked_does_not_depend_on_the_data_nor_on_the_cut():
    data = table(3000)
    for best in (plan(SCHEMA, 1.0, users=3000), plan(NUMBERS, 4.0, users=3000), plan(NUMBERS, 30.0, users=3000)):
        values = data if best.schema == SCHEMA else {name: np.linspace(-1, 1, 3000) for name in NUMBERS}
        whole = best.randomize(values, seed=5)
        half = best.randomize({name: column[:1234] for name, column in values.items()}, seed=5)
        for name, reports in half.items():
            assert (np.asarray(whole[name][: len(reports)]) == np.asarray(reports)).all()
        assert sum(len(reports) for reports in whole.values()) == 3000 * best.questions_per_user
        other = {name: column[::-1] for name, column in values.items()}
        again = best.randomize(other, seed=5)
        assert {name: len(reports) for name, reports in again.items()} == {
            name: len(reports) for name, reports in whole.items()
        }


def test_shares_follow_the_weights():
    best = plan(SCHEMA, 1.0, users=50_000)
    assert len({part.weight for part in best.parts}) == 3
    counts = [len(reports) for reports in best.randomize(table(50_000), seed=3).values()]
    expected = best.shares * 50_000
    assert (np.abs(counts - expected) < 6 * np.sqrt(expected)).all()  # false alarm 1e-8


def test_tables_of_all_kinds():
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    data, best = table(50), plan(SCHEMA, 12.0, users=50)
    records = [{name: column[row].item() for name, column in data.items()} for row in range(50)]
    frame = pandas.DataFrame(data)
    frame["unrelated"] = 1
    arrows = arrow.table({name: arrow.array(list(column)) for name, column in data.items()})
    coded = arrows.set_column(2, "job", arrows["job"].dictionary_encode())
    category = frame.assign(job=frame["job"].astype("category"))
    forms = [records, frame, frame[["job", "age", "income"]], category]  # by name, not by place
    forms += [polars.DataFrame(data), polars.DataFrame(data).with_columns(polars.col("job").cast(polars.Categorical))]
    forms += [arrows, coded, arrows.combine_chunks().to_batches()[0], arrow.concat_tables([arrows[:20], arrows[20:]])]
    expected = best.randomize(data, seed=1)
    for form in forms:
        again = best.randomize(form, seed=1)
        assert all((np.asarray(again[name]) == np.asarray(expected[name])).all() for name in expected)
    one = best.randomize(records[0], seed=1)
    assert all(len(reports) <= 1 for reports in one.values())


def test_what_is_missing_in_a_table_is_found_and_substituted():
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    data = {"age": [30, None], "income": [5.0, None], "job": ["nurse", None]}
    best = plan(SCHEMA, 12.0, users=10)
    for form in (pandas.DataFrame(data), polars.DataFrame(data), arrow.table(data)):
        with pytest.raises(DomainError, match="row 1"):
            best.randomize(form, missing="error")
        assert all(len(reports) == 2 for reports in best.randomize(form).values())


def test_merging():
    data, best = table(2000), plan(SCHEMA, 1.0, users=2000)
    reports = best.randomize(data, seed=1)
    whole = best.tally(reports)
    parts = [best.tally({name: rows[i::3] for name, rows in reports.items()}) for i in range(3)]
    merged = parts[0] + parts[1] + parts[2]
    assert sum(parts, start=0).plan == whole.plan  # type: ignore[union-attr]
    assert all(merged.parts[name] == part for name, part in whole.parts.items())
    other = plan(SCHEMA, 2.0, users=2000)
    with pytest.raises(TallyError):
        whole + other.tally(other.randomize(data, seed=1))  # type: ignore[operator]
    with pytest.raises(TallyError):
        other.estimate(whole)
    with pytest.raises(ReportError):
        best.tally({"mean(income)": reports["mean(income)"]})
    empty = best.tally({name: rows[:0] for name, rows in reports.items()})
    with pytest.raises(EmptyError):
        best.estimate(empty)


def test_secure_reports_carry_the_guarantee():
    best, data = plan(SCHEMA, 1.0, users=100), table(100)
    assert best.estimate(best.tally(best.randomize(data)))["income"].guarantee == best.guarantee
    assert best.estimate(best.tally(best.randomize(data, seed=1)))["income"].guarantee.simulated


def test_questions():
    best = plan(SCHEMA, 1.0, users=100, ask=["distribution(income)", "mean(income)"])
    estimate = best.estimate(best.tally(best.randomize(table(100), seed=1)))
    assert estimate["income"] is estimate["distribution(income)"]
    assert estimate["distribution(income)"].labels[0] == "0 to 6250"  # type: ignore[index]
    wrong: list[Any] = [["mode(income)"], ["mean(job)"], ["mean(nothing)"], ["wealth"], [], ["mean(age)"] * 2]
    wrong += [["mean(age"], [["age"]], [3], [None], 3]
    for ask in wrong:
        with pytest.raises(ParameterError):
            plan(SCHEMA, 1.0, users=100, ask=ask)


def test_large_domains_are_asked_by_what_is_counted_at_once():
    (part,) = plan(Schema({"zip": Categorical([str(i) for i in range(2000)])}), 1.0, users=100).parts
    assert type(part.mechanism).__name__ == "ProjectiveGeometry"
    assert part.mechanism.evaluations == 0


@pytest.mark.parametrize(
    "arguments",
    [{"users": 0}, {"users": 1.5}, {"epsilon": 0}, {"epsilon": None}, {"delta": 1.0}, {"schema": {}}],
    ids=str,
)
def test_bad_parameters(arguments):
    with pytest.raises(ParameterError):
        plan(**{"schema": SCHEMA, "epsilon": 1.0, "users": 100, **arguments})


def test_bad_tables_name_the_attribute_and_no_value():
    best, secret = plan(SCHEMA, 12.0, users=10), 987654321
    good = {"age": 30, "income": 5.0, "job": "nurse"}
    for change in ({"age": secret}, {"income": secret}, {"job": str(secret)}, {"age": "old"}):
        with pytest.raises(DomainError, match=f"attribute {next(iter(change))}, row 1") as caught:
            best.randomize([good, {**good, **change}])
        assert str(secret) not in str(caught.value)
        assert best.randomize([good, {**good, **change}], invalid="substitute")
    for wrong in (
        {},
        {"Age": [1, 2], "Income": [1, 2]},
        {"age": [1]},
        {"age": [1], "income": [1, 2], "job": ["nurse"]},
        [1, 2],
        "text",
    ):
        with pytest.raises(DomainError):
            best.randomize(wrong)


def test_words_for_people():
    best = plan(SCHEMA, 1.0, users=1000)
    assert "drawn at random" in best.explain()
    assert "epsilon 1 (exact)" in repr(best)
    assert "Every user answers every question" in plan(NUMBERS, 100.0, users=1000).explain()
    assert "6 questions" in repr(plan(NUMBERS, 1.0, users=1000))


def test_a_budget_too_small_is_told_in_units():
    with pytest.warns(
        BudgetWarning, match=r"mean\(income\) will have a standard error of .*for a value from 0 to 200000"
    ):
        plan(Schema({"income": Numeric(0, 200_000)}), 0.01, users=500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan(Schema({"income": Numeric(0, 200_000)}), 1.0, users=100_000)


def test_results_are_found_by_question_and_by_attribute():
    best = plan(SCHEMA, 1.0, users=100, ask=["income", "distribution(income)"])
    estimate = best.estimate(best.tally(best.randomize(table(100), seed=1)))
    assert list(estimate) == ["mean(income)", "distribution(income)"]
    assert estimate["income"] is estimate["mean(income)"]
    assert "income" in estimate
    assert "incom" not in estimate
    with pytest.raises(KeyError, match=r"there are mean\(income\), distribution\(income\)"):
        estimate["incom"]


# One value a user --------------------------------------------------------------------------------------------------


def test_what_is_not_one_value_a_user_is_refused():
    best = plan(SCHEMA, 12.0, users=10)
    good = {"age": np.array([30, 31]), "income": np.array([5.0, 6.0]), "job": np.array(["nurse", "other"])}
    for name, column in good.items():
        for wrong in (column[:, None], column[None, :], np.stack([column, column]), column[:, None].astype(object)):
            for invalid in ("error", "substitute"):
                with pytest.raises(DomainError, match=f"attribute {name}"):
                    best.randomize({**good, name: wrong}, invalid=invalid)
    at_the_ends = {"a": [0.0, 10.0], "b": [0.0, 10.0]}
    pair = plan(Schema({"a": Numeric(0, 10), "b": Numeric(0, 10)}), 2.5, users=10, prior=at_the_ends)
    assert len(pair.parts[0].questions) == 2
    for a, b in ((np.zeros((2, 2)), np.zeros((2, 2))), (np.zeros((2, 1)), np.zeros(2))):
        with pytest.raises(DomainError, match="attribute a"):
            pair.randomize({"a": a, "b": b})


def test_tables_with_columns_that_are_none():
    pandas = pytest.importorskip("pandas")
    best = plan(SCHEMA, 12.0, users=10)
    good = {"age": [30], "income": [5.0], "job": ["nurse"]}
    frame = pandas.DataFrame(good)
    for wrong in (
        pandas.concat([frame, frame[["income"]]], axis=1),
        {**good, "income": frame[["income"]]},
        {**good, "income": np.array(5.0)},
    ):
        with pytest.raises(DomainError, match="attribute income"):
            best.randomize(wrong)
        with pytest.raises(DomainError, match="attribute income"):
            best.randomize(wrong, invalid="substitute")


@pytest.mark.parametrize("encoded", [np.zeros((3, 1)), np.zeros((1, 3)), np.zeros(2), np.zeros(())], ids=str)
def test_the_last_guard_before_anything_is_drawn(encoded, monkeypatch):
    monkeypatch.setattr(Question, "encode", lambda self, column, invalid="error": encoded)
    for best in (plan(NUMBERS, 1.0, users=10), plan(NUMBERS, 2.5, users=10)):
        with pytest.raises(DomainError, match="attribute x"):
            best.randomize({name: np.zeros(3) for name in NUMBERS})


def test_what_is_masked_is_missing():
    best, secret = plan(SCHEMA, 12.0, users=10), 77
    data: dict[str, Any] = {
        "age": np.ma.array([30, secret], mask=[False, True]),
        "income": np.ma.array([5.0, 199_000.0], mask=[False, True]),
        "job": np.ma.array(["driver", "teacher"], mask=[False, True]),
    }
    for name in data:
        shown = {other: column.data for other, column in data.items()}
        with pytest.raises(DomainError, match=f"attribute {name}, row 1"):
            best.randomize({**shown, name: data[name]}, missing="error")
    found = best.randomize(data, seed=1)
    missing = best.randomize({name: [column[0], None] for name, column in data.items()}, seed=1, invalid="substitute")
    assert all((np.asarray(found[name]) == np.asarray(missing[name])).all() for name in found)


class Hostile:
    """Nothing can be asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("987654321")


class Unhashable(str):
    """A text that cannot be looked up."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise RuntimeError("987654321")


def check_every_record_is_one_user() -> None:
    good = {"age": 30, "income": 5.0, "job": "nurse"}
    odd = [[1, 2, 3], (), {}, set(), None, "x", b"x", np.zeros((3, 1)), np.array(5), np.ma.masked, 10**400, -(10**400)]
    odd += [float("nan"), np.longdouble("1e4000"), object(), Hostile(), Unhashable("nurse"), "\ud800", range(5), [[]]]
    records: list[Any] = [{name: value} for name in good for value in odd]
    records += [{**good, name: value} for name in good for value in odd]
    records += [*odd, {}, good, [good, good], {name: [value] * 3 for name, value in good.items()}, {3: 4}]
    for epsilon in (1.0, 12.0):
        best = plan(SCHEMA, epsilon, users=10**6)
        for record in records:
            reports = best.report(record)
            assert list(reports) == [part.name for part in best.parts]
            assert sum(map(len, reports.values())) == best.questions_per_user
            assert all(len(rows) <= 1 and not rows.simulated for rows in reports.values())


def test_a_device_is_one_user_and_always_reports(recwarn, capfd, caplog):
    check_every_record_is_one_user()
    assert [str(each.message) for each in recwarn.list] == []
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_a_report_is_what_randomize_makes_of_one_record():
    best = plan(SCHEMA, 12.0, users=10)
    for record in ({"age": 30, "income": 5.0, "job": "nurse"}, {"age": -1, "income": None, "job": "pilot"}):
        one, all_ = best.report(record, seed=3), best.randomize([record], seed=3, invalid="substitute")
        assert all((np.asarray(one[name]) == np.asarray(all_[name])).all() for name in all_)
        assert all(rows.simulated for rows in one.values())
    sums = sum((best.tally(best.report(record)) for _ in range(3)), start=0)
    assert [part.n for part in sums.parts.values()] == [3] * len(best.parts)  # type: ignore[union-attr]
    missing, empty = best.report({"age": None}, seed=1), best.report([], seed=1)
    assert all((np.asarray(missing[name]) == np.asarray(empty[name])).all() for name in empty)


def test_a_mixture_is_neither_a_table_nor_a_record():
    best = plan(SCHEMA, 12.0, users=10)
    for mixture in (
        {"age": [30, 31], "income": 5.0, "job": "nurse"},
        {"age": 30, "income": 5.0, "job": ["nurse", "other"]},
        {"age": 30, "income": None, "job": ["nurse"]},
    ):
        for invalid in ("error", "substitute"):
            with pytest.raises(DomainError, match=r"plan\.report"):
                best.randomize(mixture, invalid=invalid)
    assert best.randomize({"age": 30, "income": 5.0, "job": "nurse", "unrelated": [1, 2]})
    assert best.randomize({"age": [30], "income": [5.0], "job": ["nurse"], "unrelated": 3})


# Whose reports they are --------------------------------------------------------------------------------------------


def test_reports_are_those_of_one_question_of_one_plan():
    twins = Schema({"a": Numeric(0, 1), "b": Numeric(0, 1)})
    best, other = plan(twins, 1.0, users=100), plan(twins, 1.0, users=101)
    data = {"a": np.zeros(50), "b": np.ones(50)}
    reports = best.randomize(data, seed=1)
    first, second = reports
    assert best.parts[0].mechanism == best.parts[1].mechanism == other.parts[0].mechanism
    for wrong in (
        {first: reports[second], second: reports[first]},
        other.randomize(data, seed=1),
        {name: rows[:3] for name, rows in other.randomize(data, seed=1).items()},
        {**reports, first: best.parts[0].mechanism.randomize([0.0])},
    ):
        with pytest.raises(ReportError, match="another question, or belong to another plan"):
            best.tally(wrong)
    whole = best.tally(reports)
    assert all(part.simulated for part in whole.parts.values())
    bare = best.tally({name: np.asarray(rows) for name, rows in reports.items()})
    assert not any(part.simulated for part in bare.parts.values())
    assert [part.counts.tolist() for part in bare.parts.values()] == [
        part.counts.tolist() for part in whole.parts.values()
    ]
    halves = [best.tally({name: rows[start::2] for name, rows in reports.items()}) for start in (0, 1)]
    assert halves[0] + halves[1] == whole
    joined = {name: np.concatenate([rows[:5], rows[5:]]) for name, rows in reports.items()}
    assert best.tally(joined) == whole
    one = {name: rows[0] for name, rows in reports.items()}
    assert [part.n for part in best.tally(one).parts.values()] == [1, 1]


def test_tallies_as_bytes():
    best, data = plan(SCHEMA, 1.0, users=100), table(100)
    tally = best.tally(best.randomize(data, seed=1))
    stored = tally.to_bytes()
    again = PlanTally.from_bytes(stored)
    assert again == tally
    assert again.plan == best.fingerprint
    assert list(again.parts) == list(tally.parts)
    assert best.estimate(again + tally)["income"].n == 2 * tally.parts["mean(income)"].n
    assert tally != best.tally(best.randomize(data, seed=2))
    assert tally != 3
    part = next(iter(tally.parts.values())).to_bytes()

    def signed(form: str = "dither plan tally 2", **stored) -> bytes:
        body = msgspec.msgpack.encode({"format": form, **stored})
        return body + hashlib.sha256(body).digest()

    assert PlanTally.from_bytes(signed(plan="", parts={"a": part})).parts["a"].to_bytes() == part
    empty, wrong = signed(plan=best.fingerprint, parts={}), signed(plan="", parts={"a": b"x"})
    newer = signed("dither plan tally 3", plan="", parts={"a": part})
    junk: list[Any] = [b"", b"x", stored[:-1], stored + b"x", part, empty, wrong, newer, b"\xff" * 50, None, 3]
    junk += [
        stored[:place] + bytes([stored[place] ^ 1 << place % 8]) + stored[place + 1 :] for place in range(len(stored))
    ]
    for data_ in junk:
        with pytest.raises(TallyError):
            PlanTally.from_bytes(data_)
    with pytest.raises(TallyError):
        tally + PlanTally(tally.plan, {"a": tally.parts["mean(income)"]})  # type: ignore[operator]


def test_refined_results_keep_the_ones_before():
    schema = Schema({**{f"x{i}": Numeric(0, 10 * (i + 1)) for i in range(30)}, "job": Categorical(["a", "b", "c"])})
    users = 3000
    data = {f"x{i}": np.full(users, 5.0 * (i + 1)) for i in range(30)} | {"job": ["a"] * users}
    best = plan(schema, 2.0, users=users)
    tally = best.tally(best.randomize(data, seed=1))
    before, after = best.estimate(tally), best.estimate(tally, refine="auto")
    off = [
        np.mean([(float(found[f"x{i}"].value) / (5 * (i + 1)) - 1) ** 2 for i in range(30)])
        for found in (before, after)
    ]
    assert off[1] < 0.2 * off[0]  # all are in the middle of their domains
    for name in after:
        estimate = after.single(name)
        assert estimate.original is not None
        assert np.array_equal(estimate.original.value, before[name].value)
        assert estimate.original.bounds == before.single(name).bounds == estimate.bounds
    assert after["job"].value.sum() == pytest.approx(1)
    assert (after["job"].value >= 0).all()
    clipped = best.estimate(tally, refine="clip")
    assert all((each.value >= each.bounds.low).all() for each in map(clipped.single, clipped) if each.bounds)
    with pytest.raises(ParameterError, match="no refinement has this name"):
        best.estimate(tally, refine="polish")
