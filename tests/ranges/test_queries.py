"""Queries: what is asked, in the analyst's units, becomes the weights of values; what has no meaning is refused.

Masks are compared with sets written out by hand, or with a slow definition: the share of each cell that is covered.
"""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.errors import DomainError, ParameterError
from dither.ranges.axes import AnyOf, Axes, Axis, complement, union
from dither.ranges.queries import MOST_WEIGHTS, Queries, describe
from dither.schema import Categorical, KeyValue, Numeric, Ordinal, Schema

JOBS = ["nurse", "driver", "it's", "other"]
SCHEMA = Schema({"age": Ordinal(18, 27), "income": Numeric(-10, 30), "job": Categorical(JOBS)})
AXES = Axes.of_schema(SCHEMA, bins=8)
PLAIN = Axes.of_shape((4, 6, 2))


def mask(axes: Axes, query, attribute: int = 0) -> list[float]:
    """The weights of one attribute in one query."""
    return Queries.of(axes, [query]).masks[attribute][0].tolist()


def covered(axis: Axis, ranges) -> np.ndarray:
    """The share of each cell of a continuous attribute that some ranges cover, on a fine lattice."""
    points = (np.arange(axis.size * 1000) + 0.5) / (axis.size * 1000)
    low, high = axis.ends
    values = low + points * (high - low)
    inside = np.any([(values >= a) & (values <= b) for a, b in ranges], axis=0)
    return inside.reshape(axis.size, 1000).mean(axis=1)


def test_axes_of_a_shape_and_of_a_schema():
    assert (PLAIN.shape, PLAIN.names, PLAIN.key(1), len(PLAIN)) == ((4, 6, 2), ("0", "1", "2"), 1, 3)
    assert (AXES.shape, AXES.names, AXES.key(1)) == ((10, 8, 4), ("age", "income", "job"), "income")
    assert Axes.of_schema(SCHEMA, ["job", "income"], bins={"income": 5}).shape == (4, 5)
    assert Axes.of_schema(SCHEMA).shape == (10, 64, 4)
    assert Axes.of_shape(np.array([3, 4])).shape == (3, 4)
    assert [axis.size for axis in AXES] == [10, 8, 4]
    assert Axes.of_schema(SCHEMA, bins=8) == AXES
    assert hash(Axes.of_schema(SCHEMA, bins=8)) == hash(AXES)


def test_axes_that_have_no_meaning():
    for shape in ((), (1, 4), (4, 2.5), "44", 4, (4, True), (1 << 21,)):
        with pytest.raises(ParameterError):
            Axes.of_shape(shape)  # type: ignore[arg-type]
    movies = Schema({"age": Ordinal(0, 9), "movies": KeyValue(keys=8, size=2)})
    with pytest.raises(ParameterError, match=r"attribute movies: .* leave it out"):
        Axes.of_schema(movies)
    assert Axes.of_schema(movies, ["age"]).shape == (10,)
    with pytest.raises(ParameterError, match="no attribute 'wage' in the schema: 'age', 'movies'"):
        Axes.of_schema(movies, ["wage"])
    with pytest.raises(ParameterError, match="age is named twice"):
        Axes.of_schema(movies, ["age", "age"])
    for bins in (1, 2.5, True):
        with pytest.raises(ParameterError, match="bins"):
            Axes.of_schema(SCHEMA, bins=bins)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="a schema is needed"):
        Axes.of_schema({"age": Ordinal(0, 9)})  # type: ignore[arg-type]


def test_users_are_put_into_the_cells_that_queries_are_about():
    assert AXES[0].encode([18, 27]).tolist() == [0, 9]
    assert AXES[2].encode(["other", "nurse"]).tolist() == [3, 0]
    assert AXES[1].encode([-10, -5.001, -5, 29.9, 30]).tolist() == [0, 0, 1, 7, 7]
    edges = np.linspace(0.1, 0.7, 65)  # not exact in binary
    axis = Axes.of_schema(Schema({"x": Numeric(0.1, 0.7)}))[0]
    assert axis.encode(edges[:-1]).tolist() == list(range(64))
    assert axis.cells(edges.tolist()).tolist() == list(range(65))
    with pytest.raises(DomainError, match="row 0"):
        AXES[1].encode([31])
    assert AXES[1].encode([31, None], invalid="substitute").tolist() == [7, 4]


@pytest.mark.parametrize(
    ("wanted", "values"),
    [
        ((20, 22), {20, 21, 22}),
        ((None, 19), {18, 19}),
        ((26, None), {26, 27}),
        ((None, None), set(range(18, 28))),
        ((18, 27), set(range(18, 28))),
        ((20, 20), {20}),
        ((20.0, np.int64(22)), {20, 21, 22}),
        (25, {25}),
        (np.float64(25), {25}),
        ({18, 27}, {18, 27}),
        ([20, 20, 21], {20, 21}),
        (range(20, 24), {20, 21, 22, 23}),
        (np.array([19, 23]), {19, 23}),
        (frozenset([22]), {22}),
        (AnyOf([(None, 19), (19, 20), (27, 27)]), {18, 19, 20, 27}),  # type: ignore[arg-type]
    ],
)
def test_whole_numbers(wanted, values):
    assert mask(AXES, {"age": wanted}) == [float(age in values) for age in range(18, 28)]
    assert Queries.of(AXES, [{0: wanted}]).attributes == (((0,),) if len(values) < 10 else ((),))


@pytest.mark.parametrize(
    ("wanted", "labels"), [("driver", {"driver"}), (["other", "nurse"], {"nurse", "other"}), ({"it's"}, {"it's"})]
)
def test_labels(wanted, labels):
    assert mask(AXES, {"job": wanted}, 2) == [float(job in labels) for job in JOBS]


@pytest.mark.parametrize(
    ("wanted", "weights"),
    [
        ((-10, 30), [1] * 8),
        ((-5, 5), [0, 1, 1, 0, 0, 0, 0, 0]),
        ((-4, 5), [0, 0.8, 1, 0, 0, 0, 0, 0]),
        ((-4, 6), [0, 0.8, 1, 0.2, 0, 0, 0, 0]),
        ((-4, -2), [0, 0.4, 0, 0, 0, 0, 0, 0]),
        ((None, -9), [0.2, 0, 0, 0, 0, 0, 0, 0]),
        ((29, None), [0, 0, 0, 0, 0, 0, 0, 0.2]),
        (AnyOf([(-10, -9), (-6, 0), (29, 30)]), [0.4, 1, 0, 0, 0, 0, 0, 0.2]),  # type: ignore[arg-type]
        (AnyOf([(-4, 2), (-6, 0)]), [0.2, 1, 0.4, 0, 0, 0, 0, 0]),  # type: ignore[arg-type]
    ],
)
def test_cells_of_a_continuous_attribute_are_covered_in_part(wanted, weights):
    np.testing.assert_allclose(mask(AXES, {"income": wanted}, 1), weights, atol=1e-12)


def test_borders_of_cells_are_exact_whatever_rounding_makes_of_them():
    axes = Axes.of_schema(Schema({"x": Numeric(0.1, 0.7)}), bins=64)
    edges = np.linspace(0.1, 0.7, 65)
    for first in range(64):
        for last in range(first + 1, 65):
            weights = mask(axes, {0: (edges[first], edges[last])})
            assert weights == [float(first <= cell < last) for cell in range(64)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-100, 299), st.integers(1, 200)), min_size=1, max_size=4))
def test_continuous_weights_are_the_share_that_is_covered(drawn):
    ranges = [(start / 10, min((start + length) / 10, 30)) for start, length in drawn]
    weights = mask(AXES, {"income": AnyOf(tuple(ranges))}, 1)
    np.testing.assert_allclose(weights, covered(AXES[1], ranges), atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_many_queries_are_the_same_as_one_by_one(data):
    kinds = {
        "age": st.one_of(st.tuples(st.integers(18, 22), st.integers(22, 27)), st.sets(st.integers(18, 27), min_size=1)),
        "income": st.tuples(st.floats(-10, 5), st.floats(6, 30)),
        "job": st.one_of(st.sampled_from(JOBS), st.sets(st.sampled_from(JOBS), min_size=1)),
    }
    query = st.fixed_dictionaries({}, optional=kinds)
    asked = data.draw(st.lists(query, max_size=6))
    queries = Queries.of(AXES, asked)
    assert len(queries) == len(asked)
    for number, each in enumerate(asked):
        one = Queries.of(AXES, [each])
        assert one.attributes == queries[number].attributes == (queries.attributes[number],)
        for j in range(3):
            assert (one.masks[j] == queries[number].masks[j]).all()
            whole = bool((one.masks[j] == 1).all())
            assert (j in one.attributes[0]) != whole
            assert whole or AXES.names[j] in each


def test_what_restricts_nothing_is_not_listed():
    queries = Queries.of(PLAIN, [{}, {0: (0, 3), 1: 5}, {2: [0, 1]}, {2: 1, 0: 2}])
    assert queries.attributes == ((), (1,), (), (0, 2))
    assert queries.shape == (4, 6, 2)
    assert [each.shape for each in queries.masks] == [(4, 4), (4, 6), (4, 2)]
    assert all(each.dtype == np.float64 and not each.flags.writeable for each in queries.masks)
    assert (queries.masks[0][0] == 1).all()


def test_no_queries_and_some_queries():
    none = Queries.of(PLAIN, [])
    assert len(none) == 0
    assert [each.shape for each in none.masks] == [(0, 4), (0, 6), (0, 2)]
    queries = Queries.of(PLAIN, [{0: 1}, {1: 2}, {2: 1}])
    assert queries[1:].attributes == ((1,), (2,))
    assert queries[-1].attributes == ((2,),)
    assert [each.attributes for each in queries] == [((0,),), ((1,),), ((2,),)]
    with pytest.raises(IndexError):
        queries[3]


HUGE = 10**5000  # has no text


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"wage": 1}, r"no attribute 'wage'; there are 3, numbered from 0: 'age', 'income', 'job'"),
        ({3: 1}, "no attribute 3"),
        ({-1: 1}, "no attribute -1"),
        ({True: 20}, "no attribute True"),
        ({0.0: 20}, r"no attribute 0\.0"),
        ({None: 20}, "no attribute None"),
        ({("age",): 20}, "no attribute"),
        ({"age": (22, 20)}, "age: the range from 22 to 20 is reversed"),
        ({"income": (5, 1)}, "income: the range from 5 to 1 is reversed"),
        ({"age": (17, 20)}, "age: 17 lies outside of its values, which go from 18 to 27"),
        ({"age": (18, 28)}, "age: 28 lies outside"),
        ({"age": {18, 30}}, "age: 30 lies outside"),
        ({"age": HUGE}, "age: a value of type int lies outside"),
        ({"income": (0, HUGE)}, "income: a value of type int lies outside"),
        ({"income": (0, 30.5)}, r"income: 30\.5 lies outside of its values, which go from -10 to 30"),
        ({"income": (0, float("inf"))}, "income: inf lies outside"),
        ({"income": 5}, r"income: of a continuous attribute .* give a range, as in \(-10, 10\)"),
        ({"income": [5, 6]}, "income: of a continuous attribute"),
        ({"income": (5, 5)}, "income: the range from 5 to 5 has no width"),
        ({"income": (5, 5 + 1e-12)}, "has no width"),
        ({"age": []}, "age: there are no values"),
        ({"age": set()}, "age: there are no values"),
        ({"age": AnyOf(())}, "age: there are no values"),
        ({"age": ()}, r"age: a range is \(low, high\)"),
        ({"age": (18, 19, 20)}, r"age: a range is \(low, high\)"),
        ({"age": True}, "age: True is true or false; give a number"),
        ({"age": (np.True_, 20)}, "age: True"),
        ({"age": "20"}, "age: '20' is a text; give a number"),
        ({"age": b"20"}, "of type bytes"),
        ({"age": None}, "age: None is of type NoneType"),
        ({"age": {"low": 1}}, "of type dict"),
        ({"age": np.array([[18]])}, "of type ndarray"),
        ({"age": np.array(18)}, "of type ndarray"),
        ({"age": 20.5}, r"age: 20\.5 is not a whole number from 18 to 27"),
        ({"age": (float("nan"), 20)}, "age: NaN is no value"),
        ({"income": (float("nan"), 20)}, "income: NaN is no value"),
        ({"age": (18, float("inf"))}, "age: inf is not a whole number"),
        ({"age": 1j}, "of type complex"),
        ({"job": "pilot"}, """job: 'pilot' is not one of its labels: 'nurse', 'driver', "it's", 'other'"""),
        ({"job": ["nurse", 1]}, "job: 1 is not one of its labels"),
        ({"job": ("nurse", "driver")}, r"job: labels have no order.*\{'nurse', 'driver'\}"),
        ({"job": AnyOf(((None, None),))}, "job: labels have no order"),
        ({"age": 20, 0: 21}, "age is restricted twice"),
        ({"age": 20, "job": "nurse", "a": 1, "b": 2}, "restricts 4 attributes, and there are only 3: 'age'"),
        (["age"], "a query maps attributes"),
        (None, "a query maps attributes"),
        ("age = 20", "a query maps attributes"),
    ],
)
def test_refusals(query, message):
    with pytest.raises(ParameterError, match=message):
        Queries.of(AXES, [query])
    with pytest.raises(ParameterError, match=f"^query 1: .*{message}"):
        Queries.of(AXES, [{"age": 20}, query])
    if isinstance(query, dict):
        with pytest.raises(ParameterError, match=message):
            describe(AXES, query)


def test_messages_stay_short():
    many = Axes.of_schema(Schema({"x": Categorical([f"label {i}" for i in range(1000)])}))
    with pytest.raises(ParameterError, match="and 980 more") as caught:
        Queries.of(many, [{0: "y" * 10_000}])
    assert len(str(caught.value)) < 500
    with pytest.raises(ParameterError, match=r"no attribute 9; there are 3, numbered from 0$"):
        Queries.of(PLAIN, [{9: 1}])


def test_lists_that_are_none_and_too_many():
    for asked in ({0: 1}, "x", None, 5, iter([{}])):
        with pytest.raises(ParameterError, match="a list of mappings"):
            Queries.of(PLAIN, asked)  # type: ignore[arg-type]
    wide = Axes.of_shape((1 << 20,) * 2)
    most = MOST_WEIGHTS >> 21
    with pytest.raises(ParameterError, match=f"at most {most}"):
        Queries.of(wide, [{}] * (most + 1))
    with pytest.raises(ParameterError, match=f"at most {most}"):
        Queries.random(wide, 1, most + 1)
    for wrong in (5, [5], [(1, 2, 3)], [[1, 2]]):
        with pytest.raises(ParameterError, match="AnyOf takes ranges"):
            AnyOf(wrong)  # type: ignore[arg-type]


def test_ordinals_as_wide_as_can_be():
    far = 1 << 53
    axes = Axes.of_schema(Schema({"x": Ordinal(far - 3, far)}))
    assert mask(axes, {0: (far, None)}) == [0, 0, 0, 1]
    assert mask(axes, {0: far - 1}) == [0, 0, 1, 0]


# Random queries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", range(7))
def test_random_queries(dimensions):
    axes = Axes.of_shape((64,) * 6)
    queries = Queries.random(axes, dimensions, 300, seed=3, step=4)
    assert all(len(each) == dimensions for each in queries.attributes)
    for j, weights in enumerate(queries.masks):
        asked = np.array([j in each for each in queries.attributes], dtype=bool)
        assert (weights[~asked] == 1).all()
        assert (weights[asked].sum(axis=1) == 32).all()
        assert set(np.unique(weights)) <= {0.0, 1.0}
        starts = weights[asked].argmax(axis=1)
        assert set(starts.tolist()) <= set(range(0, 33, 4))
        if dimensions > 1:
            assert set(starts.tolist()) == set(range(0, 33, 4))


def test_random_queries_are_uniform():
    # 20 triples of attributes and 3 starts of each. 60,000 draws of a cell of probability 1/20: 6 standard
    # deviations have a probability below 2e-9 a cell, and below 1e-6 over the 20 + 18 cells.
    queries = Queries.random(Axes.of_shape((4,) * 6), 3, 60_000, seed=1)
    triples = Counter(queries.attributes)
    assert len(triples) == 20
    assert max(abs(each - 3000) for each in triples.values()) < 6 * np.sqrt(3000 * 0.95)
    for j, weights in enumerate(queries.masks):
        asked = np.array([j in each for each in queries.attributes])
        starts = np.bincount(weights[asked].argmax(axis=1), minlength=3)
        third = asked.sum() / 3
        assert np.abs(starts - third).max() < 6 * np.sqrt(third * 2 / 3)


def test_random_queries_repeat_with_their_seed_only():
    first, again, other = (Queries.random(AXES, 2, 50, seed=seed) for seed in (1, 1, 2))
    assert first.attributes == again.attributes
    assert all((a == b).all() for a, b in zip(first.masks, again.masks, strict=True))
    assert first.attributes != other.attributes
    small = Queries.random(Axes.of_shape((2, 3)), 2, 10, volume=0.01)
    assert all((weights.sum(axis=1) == 1).all() for weights in small.masks)
    assert set(Queries.random(PLAIN, 2, 10, volume=1).attributes) == {()}
    assert len(Queries.random(PLAIN, 2, 0)) == 0
    with pytest.raises(ParameterError, match="4 attributes is asked for, and there are only 3"):
        Queries.random(PLAIN, 4, 10)
    for wrong in ({"volume": 0}, {"volume": 1.1}, {"volume": float("nan")}, {"step": 0}, {"seed": "x"}, {"seed": None}):
        with pytest.raises(ParameterError):
            Queries.random(PLAIN, 1, 1, **wrong)  # type: ignore[arg-type]
    for wrong in ((-1, 5), (1, -5), (1.5, 5), (True, 5)):
        with pytest.raises(ParameterError):
            Queries.random(PLAIN, *wrong)  # type: ignore[arg-type]


# Words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({}, "everyone"),
        ({"age": (None, None)}, "everyone"),
        ({"age": (20, 22)}, "age between 20 and 22"),
        ({"age": (None, 22)}, "age <= 22"),
        ({"age": (22, 27)}, "age >= 22"),
        ({"age": 18}, "age = 18"),
        ({"age": [18, 20]}, "age in (18, 20)"),
        ({"age": [18, 20, 21]}, "(age = 18 or age between 20 and 21)"),
        ({"job": {"it's"}}, "job = 'it''s'"),
        ({"job": {"other", "nurse"}, "age": 20}, "age = 20 and job in ('nurse', 'other')"),
        ({"income": (-2.5, 7)}, "income between -2.5 and 7"),
        ({"income": (0.1, None)}, "income >= 0.1"),
        ({"income": AnyOf(((None, 0), (6, 8)))}, "(income <= 0 or income between 6 and 8)"),
    ],
)
def test_words(query, text):
    assert describe(AXES, query) == text
    assert describe(AXES, Queries.of(AXES, [query])[0]).count("between") == text.count("between")


def test_words_of_weights():
    queries = Queries.of(AXES, [{"income": (-4, 6), "age": (20, 21), "job": "nurse"}, {"income": (7, 8)}])
    assert describe(AXES, queries[0]) == "age between 20 and 21 and income between -4 and 6 and job = 'nurse'"
    assert describe(AXES, queries[1]) == "income between 7 and 8"
    bare = replace(queries[1], given=None)
    assert describe(AXES, bare) == "income between 5 and 6"  # where in its cell a part lies is not known
    with pytest.raises(ParameterError, match=r"queries\[0\]"):
        describe(AXES, queries)
    with pytest.raises(ParameterError, match=r"queries\[0\]"):
        describe(PLAIN, queries[0])
    assert describe(PLAIN, {1: 3}) == '"1" = 3'
    odd = Axes.of_schema(Schema({'a "b"': Ordinal(0, 3), "not": Ordinal(0, 3)}))
    assert describe(odd, {0: 1, 1: 2}) == '"a ""b""" = 1 and "not" = 2'


def test_words_of_a_part_of_a_cell_are_those_asked():
    axes = Axes.of_schema(Schema({"income": Numeric(0, 128_000), "age": Ordinal(0, 9)}), bins=64)
    asked = [{"income": (1000, 1500)}, {"age": (2, 3)}, {"income": AnyOf(((100, 200), (300, 400))), "age": (0, 9)}]
    queries = Queries.of(axes, asked)
    texts = ["income between 1000 and 1500", "age between 2 and 3"]
    texts.append("(income between 100 and 200 or income between 300 and 400)")
    assert [describe(axes, query) for query in queries] == texts
    assert [describe(axes, query) for query in queries[1:]] == texts[1:]
    assert describe(axes, queries[-1]) == describe(axes, queries[::-1][0]) == texts[-1]


def test_words_are_in_the_units_of_the_attributes_that_are_given():
    """Queries may be made for one set of names and asked of another, with as many values."""
    codes = Queries.of(Axes.of_shape(AXES.shape), [{0: (2, 3), 2: 1}])
    assert describe(AXES, codes[0]) == "age between 20 and 21 and job = 'driver'"
    again = Axes.of_schema(SCHEMA, bins=8)  # equal, and another object
    assert describe(again, Queries.of(AXES, [{"income": (7, 8)}])[0]) == "income between 7 and 8"


SETS = st.frozensets(st.integers(0, 11))


@given(SETS, SETS)
def test_pieces_are_sets(some, others):
    def pieces(values):
        return union([(value, value + 1) for value in values])

    def values(pieces):
        return {value for start, stop in pieces for value in range(start, stop)}

    assert values(pieces(some)) == some
    assert values(union(pieces(some) + pieces(others))) == some | others
    assert values(complement(pieces(some), (0, 12))) == set(range(12)) - some
    found = pieces(some)
    assert all(before[1] < after[0] for before, after in pairwise(found))
