"""Sparse vectors: all forms become the same rows, and what is wrong is refused with its row and rule, never quoted."""

import numbers
import re
from math import comb
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse as matrices

import dither
from dither.core.sparse_columns import EMPTY
from dither.core.sparse_domain import Sparse
from dither.errors import DomainError, ParameterError
from dither.testing import messages
from dither.testing.sign_vectors import signs_of

DOMAIN = Sparse(d=5, s=3)
VECTORS: list[dict[int, float]] = [{0: 1, 3: -1}, {}, {1: 1, 2: -1, 4: 1}, {2: 0.5}, {}, {4: -0.25, 3: 1}, {0: -1}]
MAPS = pa.map_(pa.int64(), pa.float64())
SECRET = 987654321


def rows_of(values: Any, domain: Sparse = DOMAIN, **options: Any) -> list[dict[int, float]]:
    """What the checked rows hold, as dictionaries; empty places come last."""
    made = domain.check(values, **options)
    width = made["key"].shape[1]
    found = []
    for key, value in zip(made["key"].tolist(), made["value"].tolist(), strict=True):
        count = width - key.count(EMPTY)
        assert key[count:] == [EMPTY] * (width - count)
        assert len(set(key[:count])) == count
        found.append(dict(zip(key[:count], value[:count], strict=True)))
    return found


def dense(vectors: list[dict[int, float]], d: int, dtype: Any = float) -> np.ndarray:
    table = np.zeros((len(vectors), d), dtype=dtype)
    for row, vector in enumerate(vectors):
        for key, value in vector.items():
            table[row, key] = value
    return table


def unsorted_csr() -> Any:
    """Each row's indices in descending order."""
    made = matrices.csr_array(dense(VECTORS, 5))
    for first, last in zip(made.indptr[:-1], made.indptr[1:], strict=True):
        made.indices[first:last] = made.indices[first:last][::-1].copy()
        made.data[first:last] = made.data[first:last][::-1].copy()
    made.has_sorted_indices = False
    return made


def arrow(vectors: list[dict[int, float]], kind: Any = MAPS) -> Any:
    return pa.array([list(vector.items()) for vector in vectors], type=kind)


def objects(items: list[Any]) -> np.ndarray:
    made = np.empty(len(items), dtype=object)
    made[:] = items
    return made


FORMS = {
    "dense floats": lambda: dense(VECTORS, 5),
    "dense float32": lambda: dense(VECTORS, 5, np.float32),
    "columns first in memory": lambda: np.asfortranarray(dense(VECTORS, 5)),
    "a strided view": lambda: np.repeat(dense(VECTORS, 5), 2, axis=0)[::2],
    "lists": lambda: dense(VECTORS, 5).tolist(),
    "tuples": lambda: tuple(map(tuple, dense(VECTORS, 5).tolist())),
    "CSR array": lambda: matrices.csr_array(dense(VECTORS, 5)),
    "CSR matrix": lambda: matrices.csr_matrix(dense(VECTORS, 5)),
    "CSR, unsorted": unsorted_csr,
    "CSR, a slice": lambda: matrices.csr_array(np.vstack([np.ones((2, 5)), dense(VECTORS, 5)]))[2:],
    "CSC": lambda: matrices.csc_array(dense(VECTORS, 5)),
    "COO": lambda: matrices.coo_array(dense(VECTORS, 5)),
    "dictionaries": lambda: VECTORS,
    "NumPy keys and values": lambda: [{np.int8(k): np.float32(v) for k, v in each.items()} for each in VECTORS],
    "objects": lambda: objects(VECTORS),
    "Arrow": lambda: arrow(VECTORS),
    "Arrow, small types": lambda: arrow(VECTORS, pa.map_(pa.uint8(), pa.float32())),
    "Arrow, a slice": lambda: arrow([{0: 1}, {1: 1, 2: 1}, *VECTORS, {3: 1}]).slice(2, len(VECTORS)),
    "Arrow, chunks": lambda: pa.chunked_array([arrow(VECTORS[:2]), arrow([{4: 1}, *VECTORS[2:]]).slice(1)]),
    "Arrow, lists": lambda: pa.array(dense(VECTORS, 5).tolist()),
    "Arrow, chunks of lists": lambda: pa.chunked_array(
        [dense(VECTORS, 5)[:2].tolist(), dense(VECTORS, 5)[2:].tolist()]
    ),
    "rows": lambda: DOMAIN.check(VECTORS),
    "wider rows": lambda: Sparse(5, 5).check(VECTORS),
    "rows of other types": lambda: DOMAIN.check(VECTORS).astype([("key", ">i8", (3,)), ("value", np.float32, (3,))]),
    "records": lambda: DOMAIN.check(VECTORS).view(np.recarray),
    "rows without a mask": lambda: np.ma.array(DOMAIN.check(VECTORS)),
    "a table of objects": lambda: dense(VECTORS, 5).astype(object),
    "a matrix": lambda: dense(VECTORS, 5).view(np.matrix),
    "dense rows": lambda: objects(list(dense(VECTORS, 5))),
    "tables of one row": lambda: list(dense(VECTORS, 5)[:, None]),
    "CSR rows": lambda: [matrices.csr_array(dense([vector], 5)) for vector in VECTORS],
    "single rows": lambda: list(DOMAIN.check(VECTORS)),
    "arrays of one row": lambda: [Sparse(5, 5).check([vector]) for vector in VECTORS],
    "tuples of pairs": lambda: [tuple(vector.items()) for vector in VECTORS],
    "pairs as JSON has them": lambda: [[[key, value] for key, value in vector.items()] for vector in VECTORS],
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_give_the_same_rows(form):
    assert rows_of(FORMS[form]()) == VECTORS


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float16, np.float32])
def test_signs_in_any_type(dtype):
    signs = [{0: 1, 3: -1}, {}, {1: -1}]
    for table in (
        dense(signs, 5, dtype),
        matrices.csr_array(dense(signs, 5, np.float32 if dtype == np.float16 else dtype)),
    ):
        assert rows_of(table) == signs


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["Collision", "CoCo"])
def test_all_forms_give_the_same_reports(form, name):
    # The order of keys may differ, and seeded reports with it; in one order they are the same.
    mechanism = dither.registry[name](d=5, s=3, epsilon=4.0)  # type: ignore[call-arg]
    assert len(mechanism.randomize(FORMS[form](), seed=3)) == len(VECTORS)
    in_order = [dict(sorted(vector.items())) for vector in rows_of(FORMS[form]())]
    assert (mechanism.randomize(in_order, seed=3) == mechanism.randomize(dense(VECTORS, 5), seed=3)).all()


def test_one_user():
    vector = {1: 1, 2: -0.5}
    for one in (vector, [vector], DOMAIN.check([vector])[0], dense([vector], 5), DOMAIN.check([vector])):
        assert rows_of(one) == [vector]


@pytest.mark.parametrize(
    "nothing",
    [
        [],
        (),
        np.empty((0, 5)),
        matrices.csr_array((0, 5)),
        pa.array([], type=MAPS),
        pa.chunked_array([], type=MAPS),
        objects([]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_nobody(nothing):
    made = DOMAIN.check(nothing)
    assert made.shape == (0,)
    assert made["key"].shape == (0, 3)


def test_zero_is_absent_in_a_table_and_present_elsewhere():
    assert rows_of(np.zeros((1, 5))) == [{}]
    stored = matrices.csr_array((np.zeros(1), np.array([2]), np.array([0, 1])), shape=(1, 5))
    for present in ([{2: 0}], stored, arrow([{2: 0.0}])):
        assert rows_of(present) == [{2: 0.0}]


def test_rows_are_as_wide_as_the_largest():
    sampling = Sparse(5, 2, sample=True)
    assert sampling.check([{0: 1}])["key"].shape == (1, 2)
    assert sampling.check([{0: 1}, dict.fromkeys(range(5), 1)])["key"].shape == (2, 5)


# What is refused -----------------------------------------------------------------------------------------------------


def twice() -> Any:
    return matrices.csr_array((np.array([0.5, 0.25]), np.array([3, 3]), np.array([0, 0, 2])), shape=(2, 5))


TOO_MANY, KEY, VALUE, TWICE, NO_VALUE = (
    "more than 3 keys; sample=True",
    "key is not a whole",
    "value is not a num",
    "stands twice",
    "no value; leave such keys out",
)


@numbers.Real.register
class Odd:
    """Something that cannot be looked at without trouble, and tells why."""

    def _fails(self, *_: Any) -> Any:
        raise ValueError(SECRET)

    __eq__ = __ne__ = __float__ = __bool__ = __gt__ = _fails
    __hash__ = object.__hash__

    def __repr__(self) -> str:  # the same in every worker of the tests
        return "Odd()"


class OddMapping(dict):
    def items(self) -> Any:
        raise KeyError(SECRET)


class OddText(str):
    __slots__ = ()

    def __hash__(self) -> int:
        raise KeyError(SECRET)


GOOD: dict[Any, Any] = {0: 1}
REFUSED = [
    ([GOOD, dict.fromkeys(range(4), 1)], TOO_MANY),
    (np.vstack([np.eye(5)[0], np.ones(5)]), TOO_MANY),
    (matrices.csr_array(np.vstack([np.eye(5)[0], np.ones(5)])), TOO_MANY),
    ([GOOD, {5: 1}], KEY),
    ([GOOD, {-1: 1}], KEY),
    ([GOOD, {-2: 1}], KEY),
    ([GOOD, {SECRET: 1}], KEY),
    ([GOOD, {2**70 + SECRET: 1}], KEY),
    ([GOOD, {10**400: 1}], KEY),
    ([GOOD, {1.5: 1}], KEY),
    ([GOOD, {float("nan"): 1}], KEY),
    ([GOOD, {float("inf"): 1}], KEY),
    ([GOOD, {str(SECRET): 1}], KEY),
    ([GOOD, {None: 1}], KEY),
    ([GOOD, {True: 1}], KEY),
    ([GOOD, {(0, SECRET): 1}], KEY),
    (arrow([{0: 1}, {SECRET: 1}]), KEY),
    ([GOOD, {1: 1.0 + 2**-40}], VALUE),
    ([GOOD, {1: -1.5}], VALUE),
    ([GOOD, {1: SECRET}], VALUE),
    ([GOOD, {1: 10**400}], VALUE),
    ([GOOD, {1: float("nan")}], VALUE),
    ([GOOD, {1: float("-inf")}], VALUE),
    ([GOOD, {1: None}], NO_VALUE),
    ([GOOD, {1: Odd()}], VALUE),
    ([GOOD, {Odd(): 1}], KEY),
    ([GOOD, [[Odd(), 1]]], KEY),
    ([GOOD, {1: np.longdouble("1e400")}], VALUE),
    ([GOOD, [0, Odd(), 0, 0, 0]], "not a sparse"),
    ([GOOD, OddMapping({1: 1})], "not a sparse"),
    ([GOOD, {1: str(SECRET)}], VALUE),
    ([GOOD, {1: True}], VALUE),
    ([GOOD, {1: 1j}], VALUE),
    ([GOOD, {1: [SECRET]}], VALUE),
    ([[1, 0, 0, 0, 0], [0, 0, None, 0, 0]], NO_VALUE),
    (np.array([[1, 0, 0, 0, 0], [0, 0, None, 0, 0]], dtype=object), NO_VALUE),
    (np.array([[1, 0, 0, 0, 0], [0, 0, str(SECRET), 0, 0]], dtype=object), VALUE),
    (np.array([[1, 0, 0, 0, 0], ["1e400", 0, 0, 0, 0]], dtype=np.longdouble), VALUE),
    (np.array([[1.0, 0, 0, 0, 0], [0, np.nan, 0, 0, 0]]), VALUE),
    (np.array([[1, 0, 0, 0, 0], [0, SECRET, 0, 0, 0]]), VALUE),
    (matrices.csr_array(np.array([[1.0, 0, 0, 0, 0], [0, 7.5, 0, 0, 0]])), VALUE),
    (arrow([{0: 1}, {1: float("nan")}]), VALUE),
    (pa.array([[(0, 1.0)], [(1, None)]], type=MAPS), NO_VALUE),
    (twice(), TWICE),
    (pa.array([[(0, 1.0)], [(2, 0.5), (1, 0.5), (2, 0.25)]], type=MAPS), TWICE),
    (pa.array([[(0, 1.0)], None], type=MAPS), "a map is missing"),
]


@pytest.mark.parametrize(("values", "rule"), REFUSED, ids=lambda each: each if isinstance(each, str) else None)
def test_bad_vectors_are_refused_by_row_and_rule(values, rule):
    if rule == TWICE and hasattr(values, "indptr"):
        assert values.nnz == 2
    with pytest.raises(DomainError, match=f"row 1: .*{re.escape(rule)}") as caught:
        DOMAIN.check(values)
    assert_silent(caught.value)


def assert_silent(error: BaseException) -> None:
    """Nothing that a user holds is quoted: beside the row, only numbers that the domain has."""
    said = messages(error)
    assert str(SECRET) not in said
    numbers = set(re.findall(r"-?\d+\.?\d*", re.sub(r"row \d+", "", said)))
    assert numbers <= {"0", "1", "-1", "3", "4", "5"}


def structured(keys: Any, values: Any, width: int = 2) -> np.ndarray:
    """Three users with fields of these types, as wide as this."""
    shape = (width,) if width else ()
    made = np.zeros(3, dtype=[("key", keys, shape), ("value", values, shape)])
    made["key"] = made["value"] = SECRET
    return made


@pytest.mark.parametrize("invalid", ["error", "substitute"])
@pytest.mark.parametrize(
    "values",
    [
        structured(np.int32, np.float64).reshape(3, 1),
        structured(np.int32, np.float64).reshape(1, 3),
        structured(np.int32, np.float64)[:, None, None],
        np.ma.array(structured(np.int32, np.float64).reshape(3, 1)),
        structured(np.int32, np.float64, width=0),
        structured(np.int32, np.float64, width=0)[0],
        np.zeros(3, dtype=[("key", np.int32, (2, 2)), ("value", np.float64, (2, 2))]),
        np.zeros(3, dtype=[("key", np.int32, (2,)), ("value", np.float64, (3,))]),
        np.zeros(3, dtype=[("key", np.int32, (2,)), ("value", np.float64)]),
        structured("U12", np.float64),
        structured(np.int32, "U12"),
        structured("S12", "S12"),
        structured(object, object),
        structured(np.float64, np.float64),
        structured(np.int32, np.complex128),
        structured("M8[s]", np.float64),
    ],
    ids=lambda each: f"{each.dtype} {each.shape}",
)
def test_structured_rows_of_other_shapes_and_types_are_refused(values, invalid):
    with pytest.raises(DomainError, match="structured rows") as caught:
        DOMAIN.check(values, invalid)
    assert str(SECRET) not in messages(caught.value)


@pytest.mark.parametrize("shape", [(3, 1), (1, 3)])
def test_users_are_not_mixed(shape):
    mechanism = dither.Collision(d=10, s=2, epsilon=1.0)
    rows = mechanism.domain.check([{0: 1, 1: 1}, {2: 1, 3: 1}, {4: 1, 5: 1}])
    with pytest.raises(DomainError, match="one row for each user"):
        mechanism.randomize(rows.reshape(shape))


@pytest.mark.parametrize("several", [np.eye(5), matrices.csr_array(np.eye(5)), DOMAIN.check([GOOD, GOOD])], ids=type)
def test_several_users_are_not_one(several):
    with pytest.raises(DomainError, match="row 1: this is not a sparse vector"):
        DOMAIN.check([GOOD, several])
    assert rows_of([GOOD, several], invalid="substitute") == [GOOD, {}]


def test_there_are_as_many_rows_as_users():
    matrix = matrices.csr_array(np.eye(5))
    matrix.indptr = np.array([0, 1, 2, 3, 4, 5, 5])
    with pytest.raises(DomainError, match="one vector for each user"):
        DOMAIN.check(matrix)


# What is under a mask ------------------------------------------------------------------------------------------------


def masked_rows(key: Any = False, value: Any = False) -> Any:
    """Two users, of whom the second has three keys, some of them masked."""
    made: Any = np.ma.array(DOMAIN.check([{0: 1}, {1: 1, 2: -1, 4: 0.5}]))
    made.mask["key"][1], made.mask["value"][1] = key, value
    return made


@pytest.mark.parametrize(
    ("masked", "shown"),
    [
        (masked_rows(key=[True, False, False]), {2: -1, 4: 0.5}),
        (masked_rows(value=[False, True, False]), {1: 1, 4: 0.5}),
        (masked_rows(key=[False, True, False], value=[False, True, True]), {1: 1}),
        (masked_rows(key=True, value=True), {}),
    ],
    ids=["key", "value", "both", "row"],
)
def test_masked_entries_are_not_read(masked, shown):
    for given in (masked, list(masked), [GOOD, masked[1]], [GOOD, masked[1:]]):
        with pytest.raises(DomainError, match=r"row 1: (a key or its value is masked|this is not)"):
            DOMAIN.check(given)
        assert rows_of(given, invalid="substitute") == [GOOD, shown]
    under = masked.copy()
    under.data["key"][masked.mask["key"]], under.data["value"][masked.mask["value"]] = SECRET, np.nan
    assert rows_of(under, invalid="substitute") == [GOOD, shown]


def test_the_values_of_empty_places_may_be_masked():
    made: Any = np.ma.array(DOMAIN.check([{0: 1}, {}]))
    made.mask["value"] = made.data["key"] == EMPTY
    assert rows_of(made) == [{0: 1}, {}]


def test_wholly_masked_rows():
    made = np.ma.array(DOMAIN.check([{0: 1}, {1: 1, 2: 1}]), mask=True)
    with pytest.raises(DomainError, match="row 0: a key or its value is masked"):
        DOMAIN.check(made)
    assert rows_of(made, invalid="substitute") == [{}, {}]
    with pytest.raises(DomainError):
        DOMAIN.check(np.ma.masked)


@pytest.mark.parametrize("dtype", [float, object])
@pytest.mark.parametrize("invalid", ["error", "substitute"])
def test_masked_entries_of_tables_are_absent(dtype, invalid):
    table = np.ma.array([[1, 0, SECRET, 0, 0], [0, 0.5, 0, 0, SECRET]], dtype=dtype)
    table.mask = table.data == SECRET
    for given in (table, [table[0], table[1]], [table[:1], table[1:]]):
        assert rows_of(given, invalid=invalid) == [{0: 1}, {1: 0.5}]


# What holds no vectors -----------------------------------------------------------------------------------------------


def test_a_data_frame_is_told_what_to_do():
    frame = pd.DataFrame(dense(VECTORS, 5), columns=["a", "b", "c", "d", "offsets"])
    with pytest.raises(DomainError, match=r"give its \.to_numpy\(\)"):
        DOMAIN.check(frame)
    assert rows_of(frame.to_numpy()) == VECTORS


def test_names_are_texts():
    films = dither.KeyValue(["Alien", "Heat", "Totoro"], size=2)
    for key in (0, SECRET, None, Odd()):
        with pytest.raises(DomainError, match="row 1: a key is not a text; these keys have names") as caught:
            films.encode([{"Heat": 1}, {key: 1}])
        assert str(SECRET) not in messages(caught.value)
    odd = [["Heat", 0.5], [OddText("Heat"), 1], [Odd(), 1], [3, 1]]
    assert films.encode([odd], "substitute")["key"].tolist() == [[1, EMPTY]]
    with pytest.raises(DomainError, match="row 0: a key is not one of the 3 names"):
        films.encode([odd[:2]])
    with pytest.raises(DomainError, match=re.escape(NO_VALUE)):
        films.encode([{"Heat": None}])


@pytest.mark.parametrize(
    "values",
    [
        None,
        3,
        0.5,
        "text",
        b"text",
        [1, 2, 3],
        [[1, 0], [0, 1]],
        [[0], [1, SECRET]],
        [GOOD, None],
        [GOOD, [0, 1, 0, 0]],
        [GOOD, [0, [1], 0, 0, 0]],
        np.zeros((2, 4)),
        np.zeros((2, 6)),
        np.zeros(5),
        np.zeros((2, 5, 1)),
        np.array([["a"] * 5]),
        np.zeros((1, 5), dtype=complex),
        np.array([SECRET], dtype="datetime64[s]"),
        matrices.csr_array(np.eye(4)),
        matrices.csr_array(np.eye(5, dtype=complex)),
        pa.array([1, 2]),
        pa.table({"a": [1]}),
        {1, 2},
        object(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_holds_no_vectors_is_refused_with_advice(values):
    with pytest.raises(DomainError, match=r"not (a )?sparse vectors?: give|one column") as caught:
        DOMAIN.check(values)
    assert str(SECRET) not in messages(caught.value)


def test_an_array_of_other_records_is_refused():
    with pytest.raises(DomainError):
        DOMAIN.check(np.zeros(3, dtype=[("other", int)]))


@pytest.mark.parametrize("invalid", ["clip", "wrap", 0, None, 1.5, ["error"]])
def test_rules_for_bad_vectors(invalid):
    with pytest.raises(ParameterError, match="error, substitute"):
        DOMAIN.check([GOOD], invalid)


# Substitutes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ([{0: 1, 7: 1, -1: 1, "x": 1, None: 1, 10**400: 1}], [{0: 1}]),
        ([{0: None, 1: float("nan"), 2: "x", 3: True, 4: 0.5}], [{4: 0.5}]),
        ([{0: 7, 1: -7, 2: float("inf"), 3: -(10**400)}], [{0: 1, 1: -1, 2: 1, 3: -1}]),
        ([dict.fromkeys(range(5), 1), {}], [dict.fromkeys(range(5), 1), {}]),
        ([{0: 1}, None, "x", 3, [1, 2], {1: 1}], [{0: 1}, {}, {}, {}, {}, {1: 1}]),
        ([{0: 1}, [0, 1, 0, 0, -1], [(2, 0.5), (9, 1)], []], [{0: 1}, {1: 1, 4: -1}, {2: 0.5}, {}]),
        (["abcde"], [{}]),
        (
            [{0: Odd(), 1: 1}, {Odd(): 1, 2: 1}, [Odd(), 0, 0, 0, 0], Odd(), OddMapping({1: 1})],
            [{1: 1}, {2: 1}, {}, {}, {}],
        ),
        ([[[3, 1.0]], [[3, 1.0, 2.0]], [[3, 1.0], 2], [(3, 1.0), [4, 2]]], [{3: 1}, {}, {}, {3: 1, 4: 1}]),
        ([[np.datetime64(3, "s"), 0, 0, 1, np.str_("x")], np.array(["a"] * 5), np.array(1.0)], [{3: 1}, {}, {}]),
        ([structured("U12", np.float64)[0], structured(np.float64, np.float64)[:1]], [{}, {}]),
        (np.array([[1, None, 0, Odd(), 0], [0, None, "x", 0, 7]], dtype=object), [{}, {4: 1}]),
        (np.array([["1e400", 0, 0, 0, "-1e400"]], dtype=np.longdouble), [{0: 1, 4: -1}]),
        (objects([None, {0: 1}]), [{}, {0: 1}]),
        (twice(), [{}, {3: 0.5}]),
        (pa.array([[(2, None), (2, 0.5), (2, 0.25)], None, [(9, 1.0)]], type=MAPS), [{2: 0.5}, {}, {}]),
        (np.array([[0.0, np.nan, 5, 0, -5]]), [{2: 1, 4: -1}]),
    ],
    ids=str,
)
def test_a_substitute_for_everything(given, taken):
    assert rows_of(given, invalid="substitute") == taken


def test_texts_that_cannot_be_read():
    keys = pa.array([b"Heat", b"\xff" + str(SECRET).encode(), b"Alien"]).view(pa.string())
    maps = pa.MapArray.from_arrays([0, 1, 2, 3], keys, pa.array([1.0, 1.0, 0.5]))
    films = dither.KeyValue(["Alien", "Heat"], size=1)
    assert films.encode(maps, "substitute")["key"].tolist() == [[1], [EMPTY], [0]]
    assert rows_of(maps, invalid="substitute") == [{}, {}, {}]
    for check, row in ((films.encode, 1), (DOMAIN.check, 0)):
        with pytest.raises(DomainError, match=f"row {row}: ") as caught:
            check(maps)
        assert str(SECRET) not in messages(caught.value)


@pytest.mark.parametrize("name", ["Collision", "CoCo"])
def test_a_device_always_reports(name):
    mechanism = dither.registry[name](d=5, s=2, epsilon=1.0)  # type: ignore[call-arg]
    bad = [{0: 1, 9: 1}, None, {1: 3}, {2: "x"}, dict.fromkeys(range(5), 1)]
    mended = [{0: 1}, {}, {1: 1}, {}, dict.fromkeys(range(5), 1)]
    reports = mechanism.randomize(bad, seed=4, invalid="substitute")
    sampling = dither.registry[name](d=5, s=2, epsilon=1.0, sample=True)  # type: ignore[call-arg]
    assert len(reports) == 5
    assert (reports == mechanism.randomize(mended, seed=4, invalid="substitute")).all()
    assert len(sampling.randomize(mended)) == 5


# What stands for all vectors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "s"), [(1, 1), (3, 1), (3, 2), (4, 4), (6, 3)])
def test_vectors_are_numbered(d, s):
    domain = Sparse(d, s)
    listed = signs_of(d, s)
    assert domain.size == len(listed) == len({tuple(sorted(each.items())) for each in listed})
    assert [domain.vector(number) for number in range(domain.size)] == listed
    assert rows_of(domain.points(domain.size), domain) == listed
    assert len(domain.points(3)) == 3


@pytest.mark.parametrize(("d", "s"), [(1, 1), (50, 50), (10**6, 40), (1 << 30, 12)])
def test_how_many_there_are(d, s):
    assert Sparse(d, s).size == sum(comb(d, count) * 2**count for count in range(s + 1))


def test_too_many_vectors_are_not_listed():
    domain = Sparse(128, 8)
    assert domain.size > 1 << 45
    with pytest.raises(ParameterError, match="too many"):
        domain.points(domain.size)
    with pytest.raises(ParameterError, match="too many"):
        dither.CoCo(d=128, s=8, epsilon=1.0).inputs()
    assert len(domain.points(2)) == 2


@pytest.mark.parametrize(("d", "s"), [(1, 1), (5, 3), (4, 4), (1000, 30)])
def test_hard_vectors(d, s):
    kinds = rows_of(Sparse(d, s).spread(), Sparse(d, s))
    assert kinds[0] == {}
    assert {len(each) for each in kinds} == {0, 1, s}
    assert any(set(each.values()) == {0.0} for each in kinds)
