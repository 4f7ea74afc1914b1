"""Questions that one report about the cell of their table answers: found where it is better, and right to the bit.

What is predicted is computed here once more, from the closed forms of the literature and not from the planner. The
search for tables is compared with all partitions. A plan with a table goes the whole way: encoded, reported, tallied,
estimated, refined, stored, shown. Mutants (axes exchanged, cells in another order, a wrong variance) are noticed.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

import dither
from dither import Categorical, Numeric, Ordinal, Plan, Schema, plan
from dither.errors import ParameterError
from dither.estimation.proportional_fitting import raked
from dither.mechanisms.frequency import Frequencies
from dither.page.export import compared, flat_columns, write_estimates
from dither.planning.partition_search import cheapest_groups
from dither.planning.plan_files import BESIDE, digest
from dither.planning.plans import Part
from dither.planning.prediction import NOTHING
from dither.planning.trial import truths
from dither.questions import questions, register
from dither.questions.catalogue import restored
from dither.questions.tables import MOST_TABLED, TableOf, crossed
from marks import wide
from questions.above import AboveOf

pytestmark = pytest.mark.filterwarnings("ignore::dither.errors.BudgetWarning")

registry: Any = dither.registry
CATEGORIES = ("GRR", "Unary", "LocalHash", "SubsetSelection")


def labelled(*sizes: int) -> Schema:
    return Schema({f"a{i}": Categorical([f"{i}.{j}" for j in range(k)]) for i, k in enumerate(sizes)})


@cache
def made(epsilon: float, *sizes: int, users: int = 100_000, **options: Any) -> Plan:
    return plan(labelled(*sizes), epsilon, users=users, **options)


def sizes_asked(best: Plan) -> list[tuple[int, ...]]:
    return [tuple(question.size for question in part.questions) for part in best.parts]


# What is predicted, computed apart -----------------------------------------------------------------------------------


def grr_along(k: int, cells: int, epsilon: float) -> float:
    """Randomized response over cells, summed along an axis of k, is one over k: the variance of a share, averaged."""
    total, c = math.exp(epsilon) + cells - 1, cells / k
    p, q = (math.exp(epsilon) + c - 1) / total, c / total
    return (p * (1 - p) + (k - 1) * q * (1 - q)) / (p - q) ** 2 / k


def apart_ways(sizes: tuple[int, ...], epsilon: float) -> float:
    """The least mean over questions of n MSE, where each is asked by itself, by any number of questions a user."""
    count, found = len(sizes), []
    for m in range(1, count + 1):
        own = [
            min(registry[name](k=k, epsilon=epsilon / m).reading.total_variance for name in CATEGORIES) for k in sizes
        ]
        unasked = [(1 - 1 / k) / k for k in sizes]
        each = [v / k + (1 - m / count) * s for v, k, s in zip(own, sizes, unasked, strict=True)]
        found.append(sum(each) / m)
        if m == 1:
            together = [v / k + s for v, k, s in zip(own, sizes, unasked, strict=True)]
            found.append((sum(map(math.sqrt, together)) ** 2 - sum(unasked)) / count)
    return min(found)


@pytest.mark.parametrize(
    ("sizes", "epsilon", "gain"),
    [
        ((2, 2), 1.5, 1.04),
        ((2, 2), 2.0, 1.22),
        ((2, 2), 4.0, 2.16),
        ((2, 2, 2), 3.0, 1.62),
        ((2, 2, 2), 4.0, 2.22),
        ((4, 3), 3.0, 1.04),
        ((4, 3), 4.0, 1.59),
    ],
)
def test_small_categories_are_asked_together_where_that_is_better(sizes, epsilon, gain):
    best = made(epsilon, *sizes)
    assert sizes_asked(best) == [sizes]
    assert type(best.parts[0].mechanism).__name__ == "GRR"
    variances = [grr_along(k, math.prod(sizes), epsilon) for k in sizes]
    for question, variance in zip(best.questions, variances, strict=True):
        assert best.predicted[str(question)] == pytest.approx(math.sqrt(variance / 100_000), rel=1e-6)
    assert best.rmse == pytest.approx(math.sqrt(np.mean(variances) / 100_000), rel=1e-6)
    apart = math.sqrt(apart_ways(sizes, epsilon) / 100_000)
    # Budgets by variance are a little better than equal ones, and not among the ways computed here.
    ways = [error for way, error in best.prediction.compared.items() if "together" not in way]
    assert 0.97 * apart <= min(ways) <= apart * (1 + 1e-3)
    assert min(ways) / best.rmse == pytest.approx(gain, abs=0.011)
    assert f"{min(ways) / best.rmse - 1:.1%} more" in best.explain()


@pytest.mark.parametrize(("sizes", "epsilon"), [((2, 2), 1.0), ((4, 3), 2.0), ((10, 12), 3.0), ((2, 2, 2), 0.1)])
def test_what_is_better_apart_is_asked_apart(sizes, epsilon):
    best = made(epsilon, *sizes)
    assert sizes_asked(best) == [(k,) for k in sizes]
    assert "combinations" not in best.explain()
    assert not best.tables
    joined = min(
        np.mean(
            [
                registry[name](k=math.prod(sizes), epsilon=epsilon).along(sizes, (i,)).worst_variance()
                for i in range(len(sizes))
            ]
        )
        for name in CATEGORIES
    )
    assert best.rmse**2 * 100_000 < joined


@cache
def cheapest_units(sizes: tuple[int, ...], epsilon: float, share: float) -> tuple[float, ...]:
    """The variances of the questions of a unit, by the best mechanism, summed: from the four probabilities."""
    cells, found = math.prod(sizes), []
    for name in CATEGORIES:
        reading = registry[name](k=cells, epsilon=epsilon).reading
        p, q, own, other = map(float, (reading.p, reading.q, *reading.pairs))
        total = 0.0
        for k in sizes:
            c = cells // k
            inside = p + (c - 1) * (q + 2 * own + (c - 2) * other) - (p + (c - 1) * q) ** 2
            outside = c * (q + (c - 1) * other) - (c * q) ** 2
            total += (inside + (k - 1) * outside) / (p - q) ** 2 / k + (1 - share) * (1 - 1 / k) / k
        found.append(total)
    return (min(found),)


def partitions(items: list[Any]):
    if not items:
        yield []
        return
    first, *rest = items
    for found in partitions(rest):
        yield [[first], *found]
        for place in range(len(found)):
            yield [*found[:place], [first, *found[place]], *found[place + 1 :]]


def best_of_all(sizes: tuple[int, ...], epsilon: float) -> float:
    """The least n MSE over all partitions, with m of their units a user, by variance, or all with equal budgets."""
    found = []
    for units in partitions(sorted(sizes)):
        count = len(units)
        for m in range(1, count + 1):
            costs = [cheapest_units(tuple(unit), epsilon / m, m / count)[0] for unit in units]
            found.append(sum(costs) * count / m)
        noise = [cheapest_units(tuple(unit), epsilon, 0.0)[0] for unit in units]
        found.append(sum(map(math.sqrt, noise)) ** 2 - sum((1 - 1 / k) / k for k in sizes))
    return min(found) / len(sizes)


@pytest.mark.parametrize(
    ("sizes", "epsilon"),
    [
        ((2, 2, 2), 2.0),
        ((2, 3, 4, 5), 4.0),
        ((2, 2, 3, 10), 5.0),
        *(wide(*case) for case in [((2, 2, 2, 2, 2), 3.0), ((3, 3, 7), 6.0), ((2, 5, 6, 9), 8.0), ((2, 3), 0.5)]),
    ],
)
def test_no_other_partition_is_much_better(sizes, epsilon):
    assert made(epsilon, *sizes).rmse ** 2 * 100_000 <= best_of_all(sizes, epsilon) * 1.02


def test_the_limit_for_any_plan_is_below_joint_reports():
    # What one report can tell of independent questions holds for a report about all of them, too.
    for sizes in ((2, 2), (2, 2, 2), (2,) * 6, (4, 3), (3, 3, 3), (2, 7)):
        for epsilon in (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0):
            best = made(epsilon, *sizes)
            assert best.rmse >= best.prediction.limit * (1 - 1e-9) > 0
            cells = math.prod(sizes)
            for name in CATEGORIES:
                tables = registry[name](k=cells, epsilon=epsilon)
                costs = [tables.along(sizes, (place,)).worst_variance() for place in range(len(sizes))]
                assert np.mean(costs) / 100_000 >= best.prediction.limit**2 * (1 - 1e-9)


def test_a_joint_report_reaches_the_limit_where_it_is_sharp():
    best = made(1.5, 2, 2)
    assert best.rmse / best.prediction.limit < 1.005


# The search ----------------------------------------------------------------------------------------------------------


def group_cost(kinds: list[tuple[int, float]], epsilon: float) -> Callable[[tuple[int, ...]], float]:
    """By variance, with weights: the root of what a group costs."""

    @cache
    def readings(cells: int) -> list[tuple[float, ...]]:
        names = CATEGORIES if cells <= 300 else CATEGORIES[:1]
        found = [registry[name](k=cells, epsilon=epsilon).reading for name in names]
        return [tuple(map(float, (each.p, each.q, *each.pairs))) for each in found]

    @cache
    def cost(group: tuple[int, ...]) -> float:
        cells, least = math.prod(kinds[kind][0] for kind in group), math.inf
        for p, q, own, other in readings(cells):
            total = 0.0
            for k, weight in (kinds[kind] for kind in group):
                c = cells // k
                inside = p + (c - 1) * (q + 2 * own + (c - 2) * other) - (p + (c - 1) * q) ** 2
                outside = c * (q + (c - 1) * other) - (c * q) ** 2
                total += weight * ((inside + (k - 1) * outside) / (p - q) ** 2 + (1 - 1 / k)) / k
            least = min(least, total)
        return math.sqrt(least)

    return cost


@pytest.mark.parametrize("trials", [20, wide(500)])
def test_the_search_finds_what_all_partitions_have(trials):
    rng, misses = np.random.default_rng(1), 0
    costs: dict[Any, Any] = {}
    for _ in range(trials):
        epsilon = float(rng.choice([1, 2, 3, 4, 5, 6, 8]))
        weights = ([1.0], [1.0, 4.0], [1.0, 2.0, 9.0])[rng.integers(3)]
        kinds = [(k, weight) for k in (2, 3, 4, 5, 7, 10) for weight in weights]
        cost = costs.setdefault((epsilon, len(weights)), group_cost(kinds, epsilon))
        items = sorted(rng.integers(0, len(kinds), rng.integers(3, 8)).tolist())
        counts = [items.count(kind) for kind in range(len(kinds))]
        found = cheapest_groups(counts, [k for k, _ in kinds], cost, 1 << 30)
        assert Counter(kind for group in found.elements() for kind in group) == Counter(items)
        least = min(sum(cost(tuple(sorted(group))) for group in groups) for groups in partitions(items))
        ratio = sum(cost(group) * times for group, times in found.items()) / least
        assert ratio < 1.04
        misses += ratio > 1 + 1e-9
    assert misses <= 0.02 * trials


def test_many_questions_of_one_kind_are_grouped_as_well_as_a_few():
    for epsilon, size in ((2.0, 2), (3.0, 3), (4.0, 4), (5.0, 5)):
        cost = group_cost([(2, 1.0)], epsilon)
        found = cheapest_groups([1000], [2], cost, 1 << 30)
        best = min(cost((0,) * count) / count for count in range(1, 9))
        assert sum(cost(group) * times for group, times in found.items()) < 1.001 * 1000 * best
        assert found.most_common(1)[0][0] == (0,) * size


def test_no_table_is_larger_than_a_tally_may_be():
    found = cheapest_groups([40], [2], lambda group: 1.0, 1 << 10)
    assert max(2 ** len(group) for group in found) <= 1 << 10
    best = plan(Schema({f"a{i}": Ordinal(0, 2**11 - 1) for i in range(6)}), 60.0, users=1000)
    assert sum(part.counts for part in best.parts) <= 1 << 30
    for users in (1000, 200_000):
        best = plan(labelled(*[2] * 30), 40.0, users=users)
        largest = max(part.table.size for part in best.parts if part.table)
        assert 1 << 14 < largest <= max(users, MOST_TABLED)


def test_many_attributes_of_many_kinds_are_planned():
    weights = {f"histogram(a{i})": 1.0 + i for i in range(120)}
    best = plan(labelled(*(2 + i % 7 for i in range(120))), 4.0, users=10**6, weights=weights)
    assert sorted(map(str, best.questions)) == sorted(weights)
    assert best.tables
    assert best.rmse < 0.95 * min(e for way, e in best.prediction.compared.items() if "together" not in way)


# With means, weights, priors, liars ----------------------------------------------------------------------------------


def test_with_means_and_keys():
    schema = Schema(
        {
            "sex": Categorical(["f", "m"]),
            "smokes": Categorical(["yes", "no"]),
            "children": Ordinal(0, 3),
            "age": Numeric(0, 100),
            "height": Numeric(100, 220),
            "films": dither.KeyValue(["a", "b"], size=1),
        }
    )
    best = plan(schema, 4.0, users=20_000)
    assert {len(part.questions) for part in best.parts if part.table} == {3}
    labels = list(best.prediction.compared)
    assert any(label.endswith(", means in pairs, categories together") for label in labels)
    assert any("every question" in label and "together" in label for label in labels)
    assert Plan.from_json(best.to_json()) == best


def test_many_questions_a_user_and_budgets_by_variance():
    schema = Schema({**labelled(2, 2, 3, 3), "x": Numeric(0, 1), "y": Numeric(0, 1), "z": Numeric(0, 1)})
    ways = {way for epsilon in (8.0, 16.0) for way in plan(schema, epsilon, users=1000).prediction.compared}
    assert {way for way in ways if "together" in way and "every" in way}
    assert {way for way in ways if "together" in way and way.startswith(("2 questions", "3 questions"))}
    best = plan(schema, 16.0, users=1000)
    assert "every question, budgets by variance, categories together" in best.prediction.compared
    assert best.guarantee.epsilon <= 16.0


def test_weights_decide_what_is_asked_together():
    even, uneven = made(1.5, 2, 2), plan(labelled(2, 2), 1.5, users=100_000, weights={"histogram(a0)": 1e4})
    assert sizes_asked(even) == [(2, 2)]
    assert sizes_asked(uneven) == [(2,), (2,)]  # a report about both would be worse for the one that matters
    costs = [1e4 * uneven.predicted["histogram(a0)"] ** 2, uneven.predicted["histogram(a1)"] ** 2]
    assert uneven.rmse == pytest.approx(math.sqrt(sum(costs) / (1e4 + 1)), rel=1e-9)


def test_a_prior_is_that_of_each_question():
    prior = {"a0": {"0.0": 0.9, "0.1": 0.1}, "a1": {"1.0": 1.0}}
    found = plan(Schema({**labelled(2, 2), "x": Numeric(0, 1)}), 3.0, users=100_000, prior=prior)
    part, share = found.parts[0], float(found.shares[0])
    assert part.table is not None
    noise = grr_along(2, 4, 3.0)
    for question, held in zip(part.questions, ([0.9, 0.1], [1.0, 0.0]), strict=True):
        spread = (1 - share) * (1 - sum(f * f for f in held)) / 2
        assert found.predicted[str(question)] ** 2 * 100_000 * share == pytest.approx(noise + spread, rel=1e-6)


def test_what_a_report_is_worth_to_liars():
    best = made(4.0, 4, 3, liars=0.01)
    assert sizes_asked(best) == [(4, 3)]
    mechanism = best.parts[0].mechanism
    outputs = mechanism.outputs()
    alone = [best.estimate(best.tally({best.parts[0].name: outputs[[row]]})) for row in range(len(outputs))]
    for question in best.questions:
        worth, found = best.influence(0.01).of(str(question)), np.array([each[str(question)].value for each in alone])
        assert (found.min(), found.max()) == pytest.approx((float(worth.least), float(worth.most)), rel=1e-9)
    shifts = [
        float(best.influence(0.01).of(str(question)).worst_shift(Fraction(1, 100))) for question in best.questions
    ]
    errors = [best.predicted[str(question)] for question in best.questions]
    cost = np.mean([error**2 + shift**2 for error, shift in zip(errors, shifts, strict=True)])
    assert best.rmse == pytest.approx(math.sqrt(cost), rel=1e-9)
    assert best.goodness(best.tally(best.randomize(people(best, 5000), seed=1))).passed


def test_with_a_delta():
    best = made(4.0, 2, 2, delta=1e-5)
    assert sizes_asked(best) == [(2, 2)]
    assert best.guarantee.delta <= 1e-5


# The whole way -------------------------------------------------------------------------------------------------------


def people(best: Plan, users: int, seed: int = 5) -> dict[str, np.ndarray]:
    """Attributes that depend on each other: each is, for half of the users, the same number as the one before."""
    rng, made_up, before = np.random.default_rng(seed), {}, np.zeros(users, dtype=np.int64)
    attributes: dict[str, Any] = best.attributes
    for name, attribute in attributes.items():
        size = attribute.k or 10
        codes = np.where(rng.random(users) < 0.5, before % size, rng.integers(0, size, users))
        made_up[name] = np.array(attribute.labels)[codes] if attribute.kind == "categorical" else codes
        before = codes
    return made_up


def cell_numbers(best: Plan, data: dict[str, np.ndarray]) -> np.ndarray:
    """The cells, numbered by NumPy."""
    part = best.parts[0]
    codes = [question.encode(data[question.name]) for question in part.questions]
    return np.ravel_multi_index(codes, [question.size for question in part.questions])


def check_encoding() -> None:
    """The cells of a table, and of each record by itself, and their reports: the same to the bit."""
    best = made(5.0, 3, 2, 4)
    assert sizes_asked(best) == [(3, 2, 4)]
    data, (part,) = people(best, 300), best.parts
    cells = part.encode(data, 300, "error")
    assert cells.dtype == np.int64
    assert (cells == cell_numbers(best, data)).all()
    for row in range(300):
        record = {name: column[row] for name, column in data.items()}
        (encoded,) = best.encoded(record).values()
        assert encoded.dtype == np.int64
        assert encoded.tolist() == [cells[row]]
        one, same = best.report(record, seed=row), best.randomize([record], seed=row)
        assert np.asarray(one[part.name]).tobytes() == np.asarray(same[part.name]).tobytes()
    assert best.encoded({})[part.name].tolist() == [0]  # the substitutes: the first labels


def test_table_and_record_have_the_same_cell():
    check_encoding()


def test_codes_of_a_narrow_type_do_not_overflow():
    table = crossed(questions(labelled(200, 200), ["a0", "a1"]))
    assert table is not None
    narrow = [np.array([199], dtype=np.uint8), np.array([199], dtype=np.uint8)]
    assert table.join(narrow).tolist() == [39_999]


def check_realised_error(collections: int = 200) -> None:
    # The squared errors of 8 shares from 200 collections: their sum over two questions is, in a collection, the square
    # of about 5 normal numbers, with a spread of at most 1.5 of its mean (chi-square with one degree of freedom), so
    # the average is within 6 * 1.5 / sqrt(200) = 64% but for a false alarm of 2e-9. A mutant here is off by more.
    best, users = made(3.0, 4, 3, users=2000), 2000
    assert sizes_asked(best) == [(4, 3)]
    data = people(best, users)
    cells = np.bincount(cell_numbers(best, data), minlength=12).reshape(4, 3) / users
    sums = {"histogram(a0)": cells.sum(axis=1), "histogram(a1)": cells.sum(axis=0), "table(a0, a1)": cells}
    errors: dict[str, list[np.ndarray]] = {name: [] for name in sums}
    for seed in range(collections):
        found = best.estimate(best.tally(best.randomize(data, seed=seed)))
        for name, truth in sums.items():
            errors[name].append(found[name].value - truth)
    last = best.estimate(best.tally(best.randomize(data, seed=0)))
    for name, some in errors.items():
        stated = float(np.mean(last.single(name).stderr ** 2))
        realised = float(np.mean(np.square(some)))
        assert realised == pytest.approx(stated, rel=0.64), name
        if name in best.predicted:
            assert realised == pytest.approx(best.predicted[name] ** 2, rel=0.64), name
        # Unbiased: the mean of so many errors is within 6 of its standard errors, each but for 2e-9.
        assert (
            np.abs(np.mean(some, axis=0)) < 6 * math.sqrt(np.max(last.single(name).stderr ** 2) / collections)
        ).all()


def test_realised_errors_are_those_that_are_predicted():
    check_realised_error()


@pytest.fixture(scope="module")
def three() -> Plan:
    schema = Schema(
        {
            "job": Categorical(["nurse", "driver", "other", "unknown"], missing="unknown"),
            "sex": Categorical(["f", "m"]),
            "children": Ordinal(0, 3),
        }
    )
    found = plan(schema, 5.0, users=20_000)
    assert sizes_asked(found) == [(4, 2, 4)]
    return found


@pytest.fixture(scope="module")
def data(three) -> dict[str, Any]:
    made_up: dict[str, Any] = people(three, 20_000)
    made_up["job"] = [None if each == "unknown" else str(each) for each in made_up["job"]]
    return made_up


@pytest.fixture(scope="module")
def tally(three, data):
    return three.tally(three.randomize(data, seed=3))


def test_the_table_comes_beside(three, data, tally):
    found = three.estimate(tally)
    assert list(found) == [
        *("histogram(job)", "missing(job)", "histogram(sex)", "distribution(children)"),
        "table(job, sex, children)",
    ]
    table = found.single("table(job, sex, children)")
    assert table.value.shape == table.stderr.shape == (4, 2, 4)
    assert table.labels is not None
    assert table.labels[:5] == ("nurse, f, 0", "nurse, f, 1", "nurse, f, 2", "nurse, f, 3", "nurse, m, 0")
    for axis, name in enumerate(("histogram(job)", "histogram(sex)", "distribution(children)")):
        others = tuple(other for other in range(3) if other != axis)
        np.testing.assert_allclose(table.value.sum(axis=others), found.single(name).value, atol=1e-12)
        assert found.single(name).n == table.n == 20_000
    assert float(found.single("missing(job)").value) == found.single("histogram(job)").value[3]
    assert found["job"] is found["histogram(job)"]  # not the table
    # Sums over cells have the error that their covariance gives: here, of one label of an axis.
    nurses = table.total([label for label in table.labels if label.startswith("nurse")])
    assert float(nurses.stderr) == pytest.approx(float(found.single("histogram(job)").stderr[0]), rel=1e-3)
    true = truths(three, [data])
    assert true["table(job, sex, children)"].sum() == pytest.approx(1)
    low, high = table.interval(1 - 1e-9)
    assert (
        (low.ravel() <= true["table(job, sex, children)"]) & (true["table(job, sex, children)"] <= high.ravel())
    ).all()
    halves = [{name: column[part] for name, column in data.items()} for part in (slice(0, 7000), slice(7000, None))]
    assert truths(three, halves)["table(job, sex, children)"].tolist() == true["table(job, sex, children)"].tolist()


@pytest.mark.parametrize("method", ["auto", "simplex", "norm_sub", "shrink"])
def test_refined_tables_agree_with_what_they_are_sums_of(three, tally, method):
    raw, found = three.estimate(tally), three.estimate(tally, refine=method)
    table = found.single("table(job, sex, children)")
    assert table.original is not None
    np.testing.assert_array_equal(table.original.value, raw.single("table(job, sex, children)").value)
    if method == "shrink":
        return  # it does not make shares of everybody, so there is nothing that could agree
    assert (table.value >= 0).all()
    for axis, name in enumerate(("histogram(job)", "histogram(sex)", "distribution(children)")):
        others = tuple(other for other in range(3) if other != axis)
        np.testing.assert_allclose(table.value.sum(axis=others), found.single(name).value, atol=1e-9)
    low, high = table.interval(0.95)
    assert ((low <= table.value) & (table.value <= high)).all()
    assert found.single("missing(job)").value == raw.single("missing(job)").value


def test_raking():
    rng = np.random.default_rng(3)
    table = rng.random((3, 4, 2))
    table[1] = 0.0  # the sums have something there
    sums = [rng.random(size) for size in table.shape]
    sums = [each / each.sum() for each in sums]
    found = raked(table, sums)
    for axis, wanted in enumerate(sums):
        np.testing.assert_allclose(found.sum(axis=tuple(a for a in range(3) if a != axis)), wanted, atol=1e-9)
    cells = table[::2]
    before = cells[0, 0, 0] * cells[1, 1, 1] / (cells[0, 1, 1] * cells[1, 0, 0])
    after = found[0, 0, 0] * found[2, 1, 1] / (found[0, 1, 1] * found[2, 0, 0])
    assert after / before > 0
    two = raked(np.array([[0.3, 0.2], [0.1, 0.4]]), [np.array([0.9, 0.1]), np.array([0.4, 0.6])])
    assert two[0, 0] * two[1, 1] / (two[0, 1] * two[1, 0]) == pytest.approx(0.12 / 0.02, rel=1e-3)  # odds stay


def test_it_is_stated_shown_and_exported(three, data, tally, tmp_path):
    said = str(three.statement(collector="The town"))
    assert "each combination of job, sex and children" in said
    assert "Asked together, one report about all combinations" in three.explain()
    assert "32 cells" in three.explain()
    found = three.estimate(tally, refine="auto")
    rows = flat_columns(three, found).columns
    assert Counter(rows["question"])["table(job, sex, children)"] == 32
    assert "nurse, f, 0" in rows["of"]
    assert list(compared(three, found).columns["question"]) == list(map(str, three.questions))
    for ending in (".html", ".json", ".csv"):
        truth = truths(three, [data]) if ending == ".html" else None
        write_estimates(tmp_path / f"found{ending}", three, found, truth=truth)
        assert "table(job, sex, children)" in (tmp_path / f"found{ending}").read_text(encoding="utf-8")
    assert "Combinations" in (tmp_path / "found.html").read_text(encoding="utf-8")
    assert len(found.to_pandas()) == 4 + 1 + 2 + 4 + 32
    two = made(4.0, 3, 2)
    write_estimates(tmp_path / "two.html", two, two.estimate(two.tally(two.randomize(people(two, 2000), seed=1))))
    assert "Heat map of a0 (across) and a1" in (tmp_path / "two.html").read_text(encoding="utf-8")


def test_nobody_was_asked(three, data):
    best = plan(Schema({**labelled(2, 2), "x": Numeric(0, 1)}), 3.0, users=1000)
    part = best.parts[0]
    reports: dict[str, Any] = best.randomize({**people(made(3.0, 2, 2), 20), "x": np.full(20, 0.5)}, seed=1)
    reports[part.name] = reports[part.name][:0]
    found = best.estimate(best.tally(reports))
    assert np.isnan(found.single("histogram(a0)").value).all()
    assert "table(a0, a1)" not in found


def test_a_table_beyond_reading_does_not_come_beside():
    best = plan(Schema({"a": Ordinal(0, 400), "b": Ordinal(0, 400)}), 14.0, users=200_000)
    assert best.parts[0].table is not None
    assert best.parts[0].table.size > MOST_TABLED
    assert not best.tables
    records = {"a": np.arange(1000) % 401, "b": np.zeros(1000, dtype=int)}
    found = best.estimate(best.tally(best.randomize(records, seed=1)))
    assert list(found) == ["distribution(a)", "distribution(b)"]
    assert set(truths(best, [records])) == set(found)
    assert "combination" in str(best.statement())  # it could be computed all the same


def test_a_table_of_strangers_is_no_question(three):
    with pytest.raises(ParameterError, match="no such question"):
        questions(three.schema, ["table(job, age)"])


def test_somebody_elses_question_may_be_crossed():
    @dataclass(frozen=True)
    class CrossedAbove(AboveOf):
        crosses: ClassVar[bool] = True

        @property
        def categories(self) -> int:
            return 2

    schema = Schema({"income": Numeric(0, 100), "job": Categorical(["nurse", "driver", "other"])})
    with restored():
        register(CrossedAbove)
        best = plan(schema, 4.0, users=20_000, ask=["above(income, 60)", "histogram(job)"])
        assert len(best.parts) == 1
        assert Plan.from_json(best.to_json()) == best
    records = {"income": np.arange(20_000) % 100, "job": np.array(["nurse", "driver"])[np.arange(20_000) % 2]}
    found = best.estimate(best.tally(best.randomize(records, seed=1)), refine="auto")
    above, table = found.single(str(best.questions[0])), found.single("table(income, job)")
    assert np.shape(above.value) == ()
    assert abs(float(above.value) - 0.39) < 6 * float(above.stderr)  # a false alarm has probability 2e-9
    assert table.value.shape == (2, 3)
    assert table.labels is not None
    assert table.labels[-1] == "1, other"
    assert truths(best, [records])["table(income, job)"].reshape(2, 3).sum(axis=1).tolist() == [0.61, 0.39]


def test_one_attribute_is_no_axis_twice():
    asked = (*questions(labelled(2), ["a0"]), *questions(labelled(2), ["a0"]))
    assert crossed(asked) is None
    assert crossed(asked[:1]) is None
    schema = Schema({"age": Ordinal(0, 3)})
    assert crossed(questions(schema, ["distribution(age)", "mean(age)"])) is None


def test_the_certificate_is_that_of_the_whole_record(three):
    assert three.guarantee == three.parts[0].mechanism.guarantee
    assert three.guarantee.epsilon <= 5.0
    assert dither.privacy.certify(three) == three.guarantee
    assert dither.privacy.audit(made(3.0, 2, 2), 20_000, seed=1).passed


# Stored plans --------------------------------------------------------------------------------------------------------


def test_stored_and_read(three, data):
    again = Plan.from_json(three.to_json())
    assert again == three
    assert again.fingerprint == three.fingerprint
    assert (
        np.asarray(again.randomize(data, seed=1)[three.parts[0].name])
        == np.asarray(three.randomize(data, seed=1)[three.parts[0].name])
    ).all()
    stored = json.loads(three.to_json())
    assert stored["parts"][0]["questions"] == ["histogram(job)", "histogram(sex)", "distribution(children)"]
    assert stored["parts"][0]["mechanism"]["k"] == 32


def forged(best: Plan, change: Callable[[dict[str, Any]], Any]) -> str:
    """A changed plan with the right hash."""
    stored = json.loads(best.to_json())
    change(stored)
    stored["hash"] = digest({name: value for name, value in stored.items() if name not in BESIDE})
    asked = [name for part in stored["parts"] for name in part["questions"]]
    stored["prediction"] = {**stored["prediction"], "errors": dict.fromkeys(asked, 1.0), "known": []}
    return json.dumps(stored)


def other_mechanism(mechanism: Any) -> Callable[[dict[str, Any]], None]:
    return lambda stored: stored["parts"][0].update(mechanism=mechanism.to_dict())


DAMAGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "an axis less": (lambda s: s["parts"][0]["questions"].pop(), "do not fit its questions"),
    "other axes": (
        lambda s: s["parts"][0].update(questions=["histogram(job)", "distribution(children)"]),
        "do not fit",
    ),
    "a mean as an axis": (
        lambda s: s["parts"][0].update(questions=["histogram(job)", "histogram(sex)", "mean(children)"]),
        "do not fit",
    ),
    "an axis twice": (
        lambda s: s["parts"][0].update(questions=["histogram(job)", "histogram(job)", "distribution(children)"]),
        "only once",
    ),
    "another table": (lambda s: s["parts"][0].update(questions=["table(job, sex)"]), "do not fit its questions"),
    "asked twice": (
        lambda s: s["parts"].append(
            {"questions": ["histogram(sex)"], "weight": 1, "mechanism": dither.GRR(k=2, epsilon=5.0).to_dict()}
        ),
        "do not fit",
    ),
    "too few cells": (other_mechanism(dither.GRR(k=31, epsilon=5.0)), "do not fit"),
    "no reading of axes": (other_mechanism(dither.Hadamard(k=32, epsilon=5.0)), "do not fit"),
    "shared hash functions": (other_mechanism(dither.LocalHash(k=32, epsilon=5.0, cohorts=64)), "do not fit"),
    "not for categories": (other_mechanism(dither.Hypercube(d=3, epsilon=5.0)), "do not fit"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_plans_are_refused(three, damage):
    change, reason = DAMAGES[damage]
    with pytest.raises(ParameterError, match=reason):
        Plan.from_json(forged(three, change))


def test_another_mechanism_that_fits_is_read(three):
    text = forged(three, other_mechanism(dither.SubsetSelection(k=32, epsilon=5.0)))
    assert isinstance(Plan.from_json(text).parts[0].mechanism, dither.SubsetSelection)


FIRST_HASH = "6dd1e17f1fa229cab629c4cddc3df05efe2d7490b442b462b088f1b8d4b7a676"
FIRST_REPORTS = "bb528dde1c8aa316e7bb3ecaf508727e65926fe7fc79bfb01c0388e3a944fb5e"


def test_seeded_bytes_stay(three, data):
    """The order of the cells is part of the protocol: devices and servers of any version must agree."""
    mechanism = dither.GRR(k=32, epsilon=5.0, weights=(148 << 32, 1 << 32))
    kept = Plan(three.schema, 5.0, 0.0, 20_000, (Part(three.questions, mechanism, 1),), 1, NOTHING)
    reports = kept.randomize(data, seed=7)
    assert kept.fingerprint == FIRST_HASH
    assert hashlib.sha256(np.asarray(reports[kept.parts[0].name]).tobytes()).hexdigest() == FIRST_REPORTS


# Broken on purpose ---------------------------------------------------------------------------------------------------


def caught(check: Callable[[], None]) -> bool:
    made.cache_clear()
    try:
        check()
    except AssertionError:
        return True
    finally:
        made.cache_clear()
    return False


def reversed_cells(self: TableOf, codes: Any) -> np.ndarray:
    return np.ravel_multi_index([np.asarray(each).astype(int) for each in codes], self.shape, order="F")


def exchanged(self: TableOf, mechanism: Any) -> Any:
    return tuple(mechanism.along(self.shape[::-1], (len(self.axes) - 1 - place,)) for place in range(len(self.axes)))


def test_columns_in_another_order_are_noticed(monkeypatch):
    monkeypatch.setattr(TableOf, "join", reversed_cells)
    assert caught(check_encoding)
    assert caught(check_realised_error)


def test_axes_that_are_read_in_another_order_are_noticed(monkeypatch):
    monkeypatch.setattr(TableOf, "readings", exchanged)
    assert caught(check_realised_error)


def test_a_marginal_with_the_variance_of_a_category_is_noticed(monkeypatch):
    right = Frequencies.along

    def as_one_cell(self, shape, axes):
        found: Any = right(self, shape, axes)
        vars(found)["_variances"] = tuple(float(r * (1 - r) / (self.p - self.q) ** 2) for r in (self.p, self.q))
        return found

    monkeypatch.setattr(Frequencies, "along", as_one_cell)
    assert caught(lambda: test_small_categories_are_asked_together_where_that_is_better((2, 2), 2.0, 1.22))


@pytest.mark.parametrize("check", [check_encoding, check_realised_error])
def test_the_checks_pass_as_things_are(check):
    assert not caught(check)
