"""Queries as text: what is read is a box, and everything else is refused in words, whatever the text.

The reader is compared with Python's own evaluation of the same condition for each value, with its own words
(`describe`), and with text at random, in which nothing but a `ParameterError` may happen.
"""

import logging
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dither.errors import MissingExtraError, ParameterError
from dither.ranges.axes import AnyOf, Axes
from dither.ranges.queries import Queries, describe
from dither.ranges.where import DEEPEST, LONGEST, parse
from dither.schema import Categorical, Numeric, Ordinal, Schema

sqlglot = pytest.importorskip("sqlglot")

JOBS = ["nurse", "driver", "it's", "other"]
SCHEMA = Schema(
    {
        "age": Ordinal(0, 99),
        "job": Categorical(JOBS),
        "income": Numeric(-100, 300),
        "date": Ordinal(-5, 5),
        "my age": Ordinal(0, 9),
        "Show": Ordinal(0, 9),
    }
)
AXES = Axes.of_schema(SCHEMA, bins=8)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("age between 20 and 40 and job in ('nurse','driver')", {"age": (20, 40), "job": ["nurse", "driver"]}),
        ("AGE BETWEEN 20 AND 40 AND Job IN ('nurse')", {"age": (20, 40), "job": "nurse"}),
        ("age = 5", {"age": 5}),
        ("age == 5", {"age": 5}),
        ("5 = age", {"age": 5}),
        ("age < 20", {"age": (None, 19)}),
        ("age <= 20", {"age": (None, 20)}),
        ("age > 20", {"age": (21, None)}),
        ("age >= 20", {"age": (20, None)}),
        ("20 < age", {"age": (21, None)}),
        ("20 <= age", {"age": (20, None)}),
        ("20 > age", {"age": (None, 19)}),
        ("20 >= age and 10 <= age", {"age": (10, 20)}),
        ("age > 20.5", {"age": (21, None)}),
        ("age < 20.5", {"age": (None, 20)}),
        ("age between 20.5 and 30.5", {"age": (21, 30)}),
        ("age >= 2e1", {"age": (20, None)}),
        ("age = 20.0", {"age": 20}),
        ("age < 100", {"age": (None, None)}),
        ("age > -1", {"age": (None, None)}),
        ("age > 98", {"age": 99}),
        ("age in (3, 1, 1)", {"age": [1, 3]}),
        ("age in (1, 2, 3)", {"age": (1, 3)}),
        ("age <> 5", {"age": AnyOf(((None, 4), (6, None)))}),
        ("age != 5 and age > 3", {"age": AnyOf(((4, 4), (6, None)))}),
        ("age not in (0, 99)", {"age": (1, 98)}),
        ("age not between 1 and 98", {"age": [0, 99]}),
        ("not age < 20", {"age": (20, None)}),
        ("not not age < 20", {"age": (None, 19)}),
        ("age < 20 or age > 60", {"age": AnyOf(((None, 19), (61, None)))}),
        ("(age < 20 or age > 60) and job = 'nurse'", {"age": AnyOf(((None, 19), (61, None))), "job": "nurse"}),
        ("(age < 20 and age > 60) or age = 30", {"age": 30}),
        ("not (age < 20 or job = 'nurse')", {"age": (20, None), "job": ["driver", "it's", "other"]}),
        ("not (age < 20 and age > 10)", {"age": AnyOf(((None, 10), (20, None)))}),
        ("((age = 5))", {"age": 5}),
        ("(age) = (5)", {"age": 5}),
        ("job = 'it''s'", {"job": "it's"}),
        ("job <> 'nurse'", {"job": ["driver", "it's", "other"]}),
        ("job not in ('nurse', 'other')", {"job": ["driver", "it's"]}),
        ("job = 'nurse' or job = 'other'", {"job": ["nurse", "other"]}),
        ("income > 50", {"income": (50.0, None)}),
        ("income >= 50", {"income": (50.0, None)}),
        ("income between -.5 and 0.25", {"income": (-0.5, 0.25)}),
        ("income < -20 or income > 1e2", {"income": AnyOf(((None, -20.0), (100.0, None)))}),
        ("income not between 0 and 1", {"income": AnyOf(((None, 0.0), (1.0, None)))}),
        ("income < 5 or income >= 5", {"income": (None, None)}),
        ("date = -3", {"date": -3}),
        ("date = - -3", {"date": 3}),
        ("date in (-1, +1)", {"date": [-1, 1]}),
        ("date between -2 and -(-2)", {"date": (-2, 2)}),
        ('"my age" = 3', {"my age": 3}),
        ('"date" = 3 and show = 4', {"date": 3, "Show": 4}),
        ("show = 3", {"Show": 3}),
        ("age = 5 -- the fifth", {"age": 5}),
        ("age = /* no more */ 5\n", {"age": 5}),
        ("age\tbetween\n1 and 2 and(job='nurse')", {"age": (1, 2), "job": "nurse"}),
    ],
)
def test_what_is_read(text, query):
    found = parse(AXES, text)
    assert found == query
    Queries.of(AXES, [found])


ALLOWED = "not supported: a query joins conditions"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        (" \n -- nothing", "empty"),
        ("nope = 3", "no attribute 'nope'.*'age', 'job'"),
        ('"my" = 3', "no attribute 'my'"),
        ("age = 1 or job = 'nurse'", r"or between different attributes \('age', 'job'\)"),
        ("not (age = 1 and job = 'nurse')", "or between different attributes"),
        ("(age = 1 and job = 'nurse') or age = 2", "or between different attributes"),
        ("age > 20 and age < 10", "no value of age satisfies"),
        ("age > 99", "no value of age satisfies"),
        ("job = 'nurse' and job <> 'nurse'", "no value of job satisfies"),
        ("income > 5 and income < 5", "no value of income satisfies"),
        ("not age between 0 and 99", "no value of age satisfies"),
        ("age between 20.2 and 20.8", "no value of age satisfies"),
        ("age between 40 and 20", "age: between 40 and 20 is reversed"),
        ("age < 101", "age: 101 lies outside of its values, which go from 0 to 99"),
        ("age = 100", "age: 100 lies outside"),
        ("age >= 1e400", "age: inf lies outside"),
        ("age >= 123456789012345678901234567890", "lies outside"),
        ("income > 301", "income: 301 lies outside of its values, which go from -100 to 300"),
        ("income > 1e", "'1e' is not a number"),
        ("income = 5", "of a continuous attribute"),
        ("income <> 5", "of a continuous attribute"),
        ("income in (5, 6)", "of a continuous attribute"),
        ("age = 20.5", "not a whole number"),
        ("age = '20'", "'20' is a text"),
        ("age > '20'", "'20' is a text; write numbers without quotes"),
        ("age between 1 and '20'", "'20' is a text"),
        ("job = 'Nurse'", "'Nurse' is not one of its labels"),
        ("job = 3", "3 is not one of its labels"),
        ("job > 'nurse'", "job: labels have no order"),
        ("job between 'driver' and 'nurse'", "job: labels have no order"),
        ("job = nurse", r"comparing job with \"nurse\" \(a text stands in 'single quotes'\)"),
        ('job = "nurse"', "comparing job with"),
        ("age = date", r"comparing age with \"date\""),
        ("age in (date)", "comparing age with"),
        ("age is null", r"a test for null .*\(is\) is " + ALLOWED),
        ("age is not null", "a test for null"),
        ("age = null", "a test for null"),
        ("age + 1 > 2", r"arithmetic \(\"age\" \+ 1\) is " + ALLOWED),
        ("age > 2 - 1", r"arithmetic \(2 - 1\)"),
        ("age % 2 = 0", r"arithmetic \(%\)"),
        ("age * 2 = 0", r"arithmetic \(\*\)"),
        ("-age = 0", r"-\"age\""),
        ("job = -'nurse'", "arithmetic"),
        ("age in (select age from t)", r"a subquery \(select\) is " + ALLOWED),
        ("exists (select 1)", "a subquery"),
        ("age > any (1, 2)", "a subquery"),
        ("select * from t", "a subquery"),
        ("age = 1; drop table t", "a second statement"),
        ("drop table t", "'drop' is not supported"),
        ("job like 'n%'", r"a pattern \(like\) is " + ALLOWED),
        ("job not like 'n%'", "a pattern"),
        ("lower(job) = 'nurse'", r"the function \"lower\"\(\.\.\.\) is " + ALLOWED),
        ("age(1) = 1", "the function"),
        ("decimal(decimal(1)) = age", "not supported"),
        ("case when age = 1 then 2 end", "'case' is not supported"),
        ("cast(age as int) = 3", "not supported"),
        ("age::int = 3", "'::' is not supported"),
        ("t.age = 3", "the name of a table"),
        ("age = ?", "a placeholder"),
        ("age = :x", "a placeholder"),
        ("age = @x", "a placeholder"),
        ("age = {x}", "a placeholder"),
        ("true", "true or false"),
        ("age = true", "true or false"),
        ("age", r"\"age\" alone, which is no condition, is " + ALLOWED),
        ("5", "5 alone"),
        ("not age", "alone"),
        ("age and job", "alone"),
        ("0 = 1", "a condition without an attribute"),
        ("'age' = 1", "a condition without an attribute"),
        ("1 between 0 and 2", "a condition without an attribute"),
        ("1 < age < 5", "a chain of comparisons"),
        ("age < 5 = job", "a chain of comparisons"),
        ("(age, job) = (1, 2)", "not supported"),
        ("age in ()", "in takes values in brackets"),
        ("age in 5", "in takes values in brackets"),
        ("age between symmetric 2 and 1", "not supported"),
        ("age <=> 3", "'<=>' is not supported"),
        ("age = 1 xor age = 2", "'xor' is not supported"),
        ("age [1] = 2", "not supported"),
        ("age = 5 5", "cannot be read as SQL"),
        ("age = 'x", "cannot be read as SQL"),
        ("age = 1 and", "cannot be read as SQL"),
        ("(age = 1", "cannot be read as SQL"),
        ("age = 1)", "cannot be read as SQL"),
        ("age = 1) or (age = 2", "cannot be read as SQL"),
        ("age = 1 limit 3", "not supported|cannot be read"),
        ("= 3", "cannot be read as SQL"),
        ("(" * 15 + "age = 1 and " * 3 + "(" * 10 + "age = 1" + ")" * 25, "inside each other"),
        ("(" * 5000 + "age = 1" + ")" * 5000, f"at most {DEEPEST}"),
        ("not " * 5000 + "age = 1", "inside each other"),
        ("age = " + "- " * 5000 + "1", "inside each other"),
        ("x" * (LONGEST + 1), f"at most {LONGEST:,} characters"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(ParameterError, match=message) as caught:
        parse(AXES, text)
    assert len(str(caught.value)) < 600


def test_a_text_is_a_text():
    for wrong in (None, 5, b"age = 1", {"age": 1}):
        with pytest.raises(ParameterError, match="a query is a text"):
            parse(AXES, wrong)  # type: ignore[arg-type]


def test_capitals_matter_only_where_names_differ_by_nothing_else():
    axes = Axes.of_schema(Schema({"a": Ordinal(0, 9), "A": Ordinal(0, 9), "bB": Ordinal(0, 9), "BB": Ordinal(0, 9)}))
    assert parse(axes, "a = 1 and A = 2") == {"a": 1, "A": 2}
    with pytest.raises(ParameterError, match="'bb' may be any of 'bB', 'BB'"):
        parse(axes, "bb = 1")


def test_attributes_without_names_are_called_by_their_numbers():
    axes = Axes.of_shape((64, 64))
    assert parse(axes, '"0" between 8 and 39 and "1" < 32') == {0: (8, 39), 1: (None, 31)}
    with pytest.raises(ParameterError, match="without an attribute"):
        parse(axes, "0 between 8 and 39")


def test_every_word_may_be_a_name():
    words = {word.lower() for word in sqlglot.tokens.Tokenizer.KEYWORDS if word.replace("_", "").isalnum()}
    assert {"select", "and", "between", "show", "date", "null"} <= words
    for word in sorted(words | {"if", "café", "x y", 'x"y', "1", "é.b", "a;b", "--", "/*", "$1", "'", "a'b", "{{x}}"}):
        axes = Axes.of_schema(Schema({word: Ordinal(-9, 9)}))
        for query in (
            {word: (-3, 5)},
            {word: 3},
            {word: [1, 4]},
            {word: (None, -2)},
            {word: AnyOf(((None, 2), (5, 8)))},
        ):
            assert parse(axes, describe(axes, query)) == query


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="()[]\n"), min_size=1, max_size=8)


@settings(max_examples=150, deadline=None)
@given(NAMES, st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, max_size=6, unique=True))
def test_any_name_and_any_label(name, labels):
    axes = Axes.of_schema(Schema({name: Categorical(labels), name + "2": Ordinal(0, 9)}))
    for query in ({name: labels[0]}, {name: labels[:2], name + "2": (2, 4)}):
        assert parse(axes, describe(axes, query)) == query


NUMBERS = st.one_of(st.floats(-100, 300), st.integers(-100, 300))
WHOLE = st.integers(0, 99)
QUERY = st.fixed_dictionaries(
    {},
    optional={
        "age": st.one_of(
            WHOLE,
            st.sets(WHOLE, min_size=1, max_size=8),
            st.tuples(st.integers(0, 50), st.integers(50, 99)),
            st.sampled_from([(None, 5), (7, None), AnyOf(((None, 19), (61, None)))]),
        ),
        "job": st.sets(st.sampled_from(JOBS), min_size=1),
        "income": st.one_of(
            st.tuples(NUMBERS, NUMBERS).map(lambda ends: (min(ends), max(ends))).filter(lambda e: e[1] - e[0] > 1e-3),
            st.sampled_from([AnyOf(((None, 0.5), (7, 9)))]),
        ),
        "my age": st.integers(0, 9),
    },
)


@pytest.mark.wide
@settings(max_examples=300, deadline=None)
@given(QUERY)
def test_words_are_read_back(query):
    asked = Queries.of(AXES, [query])
    if not asked.attributes[0]:
        assert describe(AXES, query) == "everyone"
        return
    for text, tolerance in ((describe(AXES, query), 0.0), (describe(AXES, asked), 1e-8)):
        again = Queries.of(AXES, [parse(AXES, text)])
        assert again.attributes == asked.attributes
        for before, after in zip(asked.masks, again.masks, strict=True):
            assert np.abs(before - after).max() <= tolerance


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_random_queries_are_read_back(seed, dimensions):
    asked = Queries.random(AXES, dimensions, 1, seed=seed)
    again = Queries.of(AXES, [parse(AXES, describe(AXES, asked))])
    assert again.attributes == asked.attributes
    assert all((a == b).all() for a, b in zip(asked.masks, again.masks, strict=True))


# A condition on one attribute, as text for both languages: Python evaluates it value by value.
LEAVES = st.one_of(
    st.tuples(st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), st.integers(0, 12)).map(lambda e: f"x {e[0]} {e[1]}"),
    st.tuples(st.integers(0, 12), st.sampled_from(["<", "<=", ">", ">="])).map(lambda e: f"{e[0]} {e[1]} x"),
    st.tuples(st.integers(0, 11), st.sampled_from(["<", "<=", ">", ">="])).map(lambda e: f"{e[0]}.5 {e[1]} x"),
    st.lists(st.integers(0, 12), min_size=2, max_size=4).map(lambda e: f"x in ({', '.join(map(str, e))})"),
    st.lists(st.integers(0, 12), min_size=2, max_size=4).map(lambda e: f"x not in ({', '.join(map(str, e))})"),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda e: f"({e[0]}) {e[1]} {e[2]}"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda e: f"{e[0]} {e[1]} {e[2]}"),
        inner.map(lambda e: f"not ({e})"),
        inner.map(lambda e: f"not {e}"),
    ),
    max_leaves=6,
)


@pytest.mark.wide
@settings(max_examples=400, deadline=None)
@given(TREES)
def test_logic_is_that_of_each_value(text):
    axes = Axes.of_shape((13,))
    python = compile(text.replace("<>", "!=").replace(" = ", " == "), "", "eval")
    truth = [bool(eval(python, {"x": value})) for value in range(13)]  # noqa: S307
    if not any(truth):
        with pytest.raises(ParameterError, match="no value of 0 satisfies"):
            parse(axes, text.replace("x", '"0"'))
        return
    queries = Queries.of(axes, [parse(axes, text.replace("x", '"0"'))])
    assert queries.masks[0][0].tolist() == [float(each) for each in truth]


# Whatever the text ---------------------------------------------------------------------------------------------


def harmless(text: str) -> None:
    """A text gives a query that can be asked, or a `ParameterError`."""
    try:
        found = parse(AXES, text)
    except ParameterError:
        return
    Queries.of(AXES, [found])


WORDS = """
age job income date show "my age" 'nurse' nurse 3 -1 0.5 1e5 .5 . and or not in between ( ) , = <> < <= > >= != == + -
* / % ; like is null select from where case when then end exists cast as decimal( struct< > [ ] { } {{ }} {% ? : :: @ $
$1 || && | & ^ ~ ! -- /* */ ' " ` \\ # interval any all true false date( if( array map( x -> => <=> is not with t.age
0x1F 1_000 e'x' n'x' b'1' $$ f(x) (select (( )) group by order by limit union all desc
"""


@pytest.mark.wide
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(WORDS.split()), max_size=20).map(" ".join))
def test_words_at_random_do_no_harm(text):
    harmless(text)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_text_at_random_does_no_harm(text):
    harmless(text)
    harmless("age = " + text)
    harmless("age between 1 and 2 " + text)


def test_nesting_that_takes_a_parser_long_is_refused_at_once():
    # Not timed: sqlglot alone takes seconds for 15 of "decimal(", four times as long for two more, and would never end.
    for opened in (
        "decimal(",
        "date(",
        "struct<",
        "array(",
        "case when ",
        "f(x -> ",
        "age[",
        "cast(",
        "(",
        "not (",
        "{",
        "if(",
    ):
        for depth in (20, 40, 400):
            harmless(opened * depth + "age" + ")" * depth)
            harmless("age = 1 and " + opened * depth)


@pytest.mark.wide
def test_long_texts_are_read():
    axes = Axes.of_shape((20_000,))
    some = list(range(0, 20_000, 2))
    assert parse(axes, f'"0" in ({",".join(map(str, some))})') == {0: some}
    found = parse(axes, " and ".join(f'"0"<>{value}' for value in range(1, 5000)))
    assert found == {0: AnyOf(((None, 0), (5000, None)))}
    assert parse(axes, " or ".join(f'"0"={value}' for value in range(5000))) == {0: (None, 4999)}


def steps(axes: Axes, text: str) -> int:
    """How many instructions of the rooms of ranges it takes to read a text."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if "dither/ranges" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        parse(axes, text)
    finally:
        sys.settrace(before)
    return count


TERMS = {
    "and, one attribute": lambda n: " and ".join(f"x0 <> {2 * i}" for i in range(n)),
    "or, one attribute": lambda n: " or ".join(f"x0 = {2 * i}" for i in range(n)),
    "in": lambda n: f"x0 in ({', '.join(str(2 * i) for i in range(n))})",
    "an attribute each": lambda n: " and ".join(f"X{i} = 1" for i in range(n)),
}


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
def test_the_work_is_linear_in_the_terms(terms):
    # Counted, not timed. Of twice the terms, on twice the attributes, twice the work, and not four times.
    found = [steps(Axes.of_schema(Schema({f"x{i}": Ordinal(0, 999) for i in range(n)})), terms(n)) for n in (100, 200)]
    assert found[1] < 2.2 * found[0]


@pytest.mark.wide
def test_a_hundred_thousand_terms():
    axes, count = Axes.of_shape((200_001,)), 100_000
    assert parse(axes, " or ".join(f'"0"={2 * i}' for i in range(count))) == {0: list(range(0, 2 * count, 2))}
    assert parse(axes, " and ".join(f'"0"<>{i}' for i in range(count))) == {0: (count, None)}


def test_nothing_is_logged(caplog):
    with caplog.at_level(logging.DEBUG):
        for text in ("if between 1 and 2", "show tables", "age = 1", "explain age", "job like 'x'"):
            harmless(text)
    assert not caplog.records


def test_without_sqlglot_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dither\[query\]'"):
        parse(AXES, "age = 1")


def test_sqlglot_is_loaded_only_to_read_a_text():
    script = "import sys, dither.ranges.where, dither.ranges.queries; sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
