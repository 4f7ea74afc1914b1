"""Tables of records: what is taken, what is refused in which words, and that a table of floats is never copied."""

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dither import Sampled, SampledDuchi, Split
from dither.core.domains import Categories, Records, UnitInterval
from dither.errors import DitherError, DomainError, ParameterError
from dither.testing import messages

SECRET = 987654321.5
NUMBERS = Records(3, (UnitInterval(),))
MIXED = Records(2, (UnitInterval(), Categories(4)))


def label(values: Any) -> str:
    """A name for the test report, the same in every process."""
    return "object" if type(values).__repr__ is object.__repr__ or hasattr(values, "__next__") else str(values)[:50]


# What is taken -------------------------------------------------------------------------------------------------------


def test_the_same_table_in_many_forms():
    table = np.array([[0.5, -1.0, 0.25], [1.0, 0.0, -0.125]])
    structured = np.zeros(2, dtype=[("a", "f8"), ("b", "f4"), ("c", "f8")])
    for j, name in enumerate("abc"):
        structured[name] = table[:, j]
    wide = np.zeros((4, 9))
    wide[::2, ::3] = table
    forms = [
        table.tolist(),
        tuple(map(tuple, table)),
        list(table),
        table.astype(np.float32),
        table.astype(np.float16),
        table.astype(np.longdouble),
        np.asfortranarray(table),
        wide[::2, ::3],
        table[::-1][::-1],
        table.view(type("Own", (np.ndarray,), {})),
        structured,
        structured.view(np.recarray),
        pd.DataFrame(table),
        pd.DataFrame(table, columns=["x", "x", "x"]),
        {"a": table[:, 0], "b": table[:, 1].tolist(), "c": pd.Series(table[:, 2], index=[7, 3])},
    ]
    for form in forms:
        for invalid in ("error", "clip", ["clip"] * 3):
            checked = NUMBERS.check(form, invalid)
            assert checked.shape == (2, 3)
            assert (checked == table).all()


def test_whole_numbers_are_numbers():
    table = np.array([[1, 0, -1], [0, 0, 1]])
    for form in (table, table.tolist(), table.astype(np.int8), pd.DataFrame(table), {j: table[:, j] for j in range(3)}):
        checked = NUMBERS.check(form)
        assert checked.dtype == np.float64
        assert (checked == table).all()
    assert (NUMBERS.check(np.array([[2, 0, 1]], dtype=np.uint64), "clip") == [[1, 0, 1]]).all()


def test_categories_beside_numbers():
    good = [[0.5, 3], [-1.0, 0]]
    for form in (
        good,
        np.array(good),
        {"x": [0.5, -1.0], "c": [3, 0]},
        pd.DataFrame(good),
        pd.DataFrame({0: [0.5, -1.0], 1: [3, 0]}),
    ):
        assert MIXED.check(form).tolist() == good
    assert MIXED.check({"x": [0.5], "c": np.array([3], dtype=np.uint64)}).tolist() == [[0.5, 3.0]]
    assert MIXED.check(np.array([[0.5, 3]], dtype=np.float16)).tolist() == [[0.5, 3.0]]
    assert MIXED.check([[7.0, 9], [None, "x"], [0.5, 2.5]], ["clip", 1]).tolist() == [[1, 1], [0, 1], [0.5, 1]]


def test_one_record_and_no_record():
    assert NUMBERS.check([0.5, 0.0, -1.0]).tolist() == [[0.5, 0.0, -1.0]]
    assert NUMBERS.check({"a": 0.5, "b": 0, "c": -1.0}).tolist() == [[0.5, 0.0, -1.0]]
    assert MIXED.check([0.5, 3]).tolist() == [[0.5, 3.0]]
    for nothing in (
        [],
        np.zeros((0, 3)),
        np.zeros((0, 0)),
        pd.DataFrame({j: [] for j in range(3)}),
        {j: [] for j in range(3)},
    ):
        for invalid in ("error", "clip"):
            assert NUMBERS.check(nothing, invalid).shape == (0, 3)
    one = Records(1, (UnitInterval(),))
    assert one.check([[0.5], [0.25]]).tolist() == [[0.5], [0.25]]
    assert one.check([0.5]).tolist() == [[0.5]]
    assert one.check({"x": [0.5, 0.25]}).tolist() == [[0.5], [0.25]]


def test_junk_is_replaced_where_that_was_asked_for():
    junk = [
        [0.5, None, "x"],
        [float("nan"), 1j, True],
        [object(), b"x", 2**80],
        [-(2**80), np.datetime64(1, "s"), 0.25],
    ]
    expected = [[0.5, 0, 0], [0, 0, 0], [0, 0, 1], [-1, 0, 0.25]]
    assert NUMBERS.check(junk, "clip").tolist() == expected
    assert NUMBERS.check(np.array(junk, dtype=object), "clip").tolist() == expected
    assert NUMBERS.check(pd.DataFrame(junk), "clip").tolist() == expected
    columns = list(zip(*junk, strict=True))
    assert NUMBERS.check({j: list(column) for j, column in enumerate(columns)}, "clip").tolist() == expected


def test_a_number_too_large_for_a_float_is_junk_like_any_other():
    # On a device an error would be silence, and silence is a fact about the value.
    for large, end in ((10**400, 1.0), (-(10**400), -1.0)):
        assert UnitInterval().check([0.5, large], "clip").tolist() == [0.5, end]
        assert NUMBERS.check([[0.5, large, 0.0]], "clip").tolist() == [[0.5, end, 0.0]]


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outside", [1.0 + 2**-40, -1.5, np.nan, np.inf, -np.inf, SECRET])
@pytest.mark.parametrize(("row", "dimension"), [(0, 0), (3, 2), (41_234, 1), (49_999, 2)])
def test_one_bad_entry_anywhere_is_refused_with_its_place(outside, row, dimension):
    # Beyond one chunk and on another thread the row is still the row of the table.
    table = np.zeros((50_000, 3))
    table[row, dimension] = outside
    mechanism = SampledDuchi(d=3, m=1, epsilon=1.0)
    for form in (table, np.asfortranarray(table), table.astype(np.float32) if outside != 1.0 + 2**-40 else table):
        for seed in (1, 2, None):  # whichever dimensions are sampled
            with pytest.raises(DomainError, match=f"row {row}, dimension {dimension}:") as caught:
                mechanism.randomize(form, seed=seed)
            assert str(SECRET)[:6] not in messages(caught.value)
    with pytest.raises(DomainError, match=f"row {row}, dimension {dimension}:") as caught:
        mechanism.randomize(pd.DataFrame(table))
    assert str(SECRET)[:6] not in messages(caught.value)


def test_the_first_of_several_bad_entries_is_named():
    table = np.zeros((10, 3))
    table[4, 2] = table[7, 0] = 5.0
    with pytest.raises(DomainError, match="row 4, dimension 2"):
        NUMBERS.check(table)


@pytest.mark.parametrize(
    "values",
    [
        [[0.1, 0.2]],
        [[0.1, 0.2, 0.3, 0.4]],
        [[0.1, 0.2, 0.3], [0.1, SECRET]],
        [[0.1, 0.2, [SECRET]]],
        [[0.1, 0.2, "987654321"]],
        [[0.1, 0.2, None]],
        [[0.1, 0.2, 10**400]],
        [0.1, 0.2],
        np.zeros((2, 3, 1)),
        np.zeros(()),
        SECRET,
        "987654321",
        None,
        object(),
        np.zeros((2, 3), dtype="datetime64[s]"),
        np.zeros((2, 3), dtype=bool),
        np.zeros((2, 3), dtype=complex),
        np.zeros((2, 3), dtype=object),
        {"a": [0.1], "b": [0.2]},
        {"a": [0.1], "b": [0.2], "c": [0.1, 0.2]},
        {"a": [0.1], "b": [[0.2]], "c": [0.1]},
        {"a": [0.1, 0.2], "b": [[0.2], [0.1, SECRET]], "c": [0.1, 0.2]},
        {"a": [0.1], "b": ["987654321"], "c": [0.1]},
        {},
        pd.DataFrame({"a": [0.1], "b": ["987654321"], "c": [0.1]}),
        pd.DataFrame({"a": [0.1], "b": [0.1]}),
        np.zeros(2, dtype=[("a", "f8"), ("b", "f8")]),
        np.zeros(2, dtype=[("a", "f8"), ("b", "f8"), ("c", "f8", (2,))]),
        {SECRET},
        iter([[0.1, 0.2, 0.3]]),
    ],
    ids=label,
)
def test_what_is_no_table_is_refused_without_quoting_it(values):
    with pytest.raises(DomainError) as caught:
        NUMBERS.check(values)
    assert "987654" not in messages(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        [[0.5, 4]],
        [[0.5, -1]],
        [[0.5, 2.5]],
        [[0.5, float("nan")]],
        [[0.5, float("inf")]],
        [[0.5, 1e300]],
        [[0.5, "2"]],
        [[0.5, None]],
        {"x": [0.5], "c": [True]},
        {"x": [0.5], "c": ["2"]},
        {"x": [0.5], "c": [2**70]},
        {"x": [0.5, 0.5], "c": [[0], [1, 987654321]]},
        {"x": [0.5, 0.5], "c": [[0, 1], [1, 2]]},
        {"x": [[0.5], [0.5, SECRET]], "c": [0, 1]},
    ],
    ids=label,
)
def test_what_is_no_category_is_refused_without_quoting_it(values):
    with pytest.raises(DomainError) as caught:
        MIXED.check(values)
    assert "987654" not in messages(caught.value)


def test_rules_that_make_no_sense_are_refused():
    table = np.zeros((2, 3))
    for invalid in ("wrap", 0, None, ["clip"], ["clip"] * 4, ["clip", "clip", 0], ("clip", "clip", "skip")):
        with pytest.raises(ParameterError):
            NUMBERS.check(table, invalid)
    for invalid in ("clip", 0, ["clip", 4], ["clip", "clip"], [1, "clip"], ["clip"]):
        with pytest.raises(ParameterError):
            MIXED.check([[0.5, 3]], invalid)
    with pytest.raises(DitherError):
        NUMBERS.check(table, np.array(["clip"] * 3))


# What is not copied, and not looked at -------------------------------------------------------------------------------


def test_a_table_of_floats_is_passed_on_as_it_is():
    for dtype in (np.float64, np.float32):
        table = np.zeros((100, 3), dtype=dtype)
        for form in (table, np.asfortranarray(table), table[::2]):
            assert np.shares_memory(NUMBERS.check(form), form)
            assert np.shares_memory(NUMBERS.check(form, "clip"), form)
    frozen = np.full((100, 3), 0.5)
    frozen.flags.writeable = False
    Split("Piecewise", d=3, epsilon=1.0).randomize(frozen, seed=1)  # nor written to


@pytest.mark.parametrize("invalid", ["error", "clip"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_wide_table_takes_little_memory_beside_itself(invalid, order):
    table = np.zeros((20_000, 1000), order=order)  # 160 MB
    mechanism = Sampled("Piecewise", d=1000, m=2, epsilon=1.0)
    mechanism.randomize(table[:10], seed=1)
    tracemalloc.start()
    try:
        mechanism.randomize(table, seed=1, invalid=invalid)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < table.nbytes / 8


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_not_sampled_is_not_looked_at(dtype):
    mechanism = Sampled("Piecewise", d=6, m=2, epsilon=2.0)
    table = np.random.default_rng(1).uniform(-1, 1, (3000, 6)).astype(dtype)
    reports = mechanism.randomize(table, seed=5)
    asked = np.zeros(table.shape, dtype=bool)
    np.put_along_axis(asked, np.asarray(reports["dimension"]).astype(np.intp), True, axis=1)
    assert 0 < asked.sum() == 2 * len(table)
    for junk in (np.nan, np.inf, -np.inf, 1e30):
        spoilt = np.where(asked, table, dtype(junk))
        assert (mechanism.randomize(spoilt, seed=5, invalid="clip") == reports).all()
        with pytest.raises(DomainError, match="row 0, dimension"):
            mechanism.randomize(spoilt, seed=5)
    # And what is sampled is clipped: junk there is the end of the domain, or 0 for what is no number.
    for junk, substitute in ((np.nan, 0.0), (np.inf, 1.0), (-1e30, -1.0)):
        spoilt, mended = (np.where(asked, dtype(value), table) for value in (junk, substitute))
        again = mechanism.randomize(mended, seed=5)
        assert (mechanism.randomize(spoilt, seed=5, invalid="clip") == again).all()
