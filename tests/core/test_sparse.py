"""Sparse vectors: all forms become the same rows, and what is wrong is refused with its row and rule, never quoted."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse as matrices

import dither
from contract.checks import messages
from dither.core.entries import EMPTY
from dither.core.errors import DomainError, ParameterError
from dither.core.sparse import Sparse, signs_of

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
    "rows": lambda: DOMAIN.check(VECTORS),
    "wider rows": lambda: Sparse(5, 5).check(VECTORS),
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


TOO_MANY, KEY, VALUE, TWICE = (
    "more than 3 keys; sample=True",
    "key is not a whole",
    "value is not a num",
    "stands twice",
)
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
    ([GOOD, {1: None}], VALUE),
    ([GOOD, {1: str(SECRET)}], VALUE),
    ([GOOD, {1: True}], VALUE),
    ([GOOD, {1: 1j}], VALUE),
    ([GOOD, {1: [SECRET]}], VALUE),
    ([[1, 0, 0, 0, 0], [0, 0, None, 0, 0]], VALUE),
    (np.array([[1.0, 0, 0, 0, 0], [0, np.nan, 0, 0, 0]]), VALUE),
    (np.array([[1, 0, 0, 0, 0], [0, SECRET, 0, 0, 0]]), VALUE),
    (matrices.csr_array(np.array([[1.0, 0, 0, 0, 0], [0, 7.5, 0, 0, 0]])), VALUE),
    (arrow([{0: 1}, {1: float("nan")}]), VALUE),
    (pa.array([[(0, 1.0)], [(1, None)]], type=MAPS), VALUE),
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
        (objects([None, {0: 1}]), [{}, {0: 1}]),
        (twice(), [{}, {3: 0.5}]),
        (pa.array([[(2, None), (2, 0.5), (2, 0.25)], None, [(9, 1.0)]], type=MAPS), [{2: 0.5}, {}, {}]),
        (np.array([[0.0, np.nan, 5, 0, -5]]), [{2: 1, 4: -1}]),
    ],
    ids=str,
)
def test_a_substitute_for_everything(given, taken):
    assert rows_of(given, invalid="substitute") == taken


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
