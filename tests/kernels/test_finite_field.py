"""Fields: every axiom, element by element, and the polynomials that protocols rely on."""

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.kernels.finite_field import FiniteField, checked_size, field_sizes

SMALL = [q for q in field_sizes() if q <= 64]
TABLED = [q for q in field_sizes() if q <= 256]


def axioms_hold(plus, times, q: int) -> bool:
    """Whether two tables are those of a field whose zero is 0 and whose one is 1."""
    elements = np.arange(q)
    nonzero = elements[1:]
    return bool(
        (plus == plus.T).all()
        and (times == times.T).all()
        and (plus[0] == elements).all()
        and (times[1] == elements).all()
        and not times[0].any()
        and (np.sort(plus, axis=1) == elements).all()
        and (np.sort(times[1:, 1:], axis=1) == nonzero).all()
        and (plus[plus[:, :, None], elements] == plus[elements[:, None, None], plus]).all()
        and (times[times[:, :, None], elements] == times[elements[:, None, None], times]).all()
        and (times[elements[:, None, None], plus] == plus[times[:, :, None], times[:, None, :]]).all()
    )


@pytest.mark.parametrize("q", SMALL)
def test_the_axioms(q: int):
    field, elements = FiniteField(q), np.arange(q)
    plus, times = field.plus(elements[:, None], elements), field.times(elements[:, None], elements)
    assert axioms_hold(plus, times, q)
    assert not field.plus(elements, field.negatives).any()
    assert (field.times(elements[1:], field.inverses[1:]) == 1).all()
    broken = times.copy()
    broken[[q - 1, q - 2]] = broken[[q - 2, q - 1]]  # a table whose two last rows are exchanged
    assert q == 2 or not axioms_hold(plus, broken, q)


@pytest.mark.parametrize("q", [q for q in TABLED if q > 64])
def test_larger_fields_can_be_divided_in(q: int):
    field, elements = FiniteField(q), np.arange(q)
    plus, times = field.tabled
    assert (np.sort(times[1:, 1:], axis=1) == elements[1:]).all()
    assert (np.sort(plus, axis=1) == elements).all()


def test_the_polynomials_never_change():
    """x^m in the field of q = p^m elements: minus the rest of the polynomial, on which stored protocols rely.

    The numbers are those of sympy's first irreducible polynomials (`Poly(..., modulus=p).is_irreducible`).
    """
    of_two = {4: 3, 8: 3, 16: 3, 32: 5, 64: 3, 128: 3, 256: 27}
    others = {9: 2, 27: 5, 81: 7, 243: 5, 25: 3, 125: 24, 49: 6, 121: 10, 169: 11}
    powers = of_two | others
    assert set(powers) == {q for q in TABLED if FiniteField(q).characteristic != q}
    for q, power in powers.items():
        field = FiniteField(q)
        x = product = np.array([field.characteristic])
        for _ in range(1, round(np.log(q) / np.log(field.characteristic))):
            product = field.times(product, x)
        assert product.tolist() == [power], q


def test_large_fields_are_those_of_primes():
    sizes = np.array(field_sizes())
    large = sizes[sizes > 256]
    assert all((large % divisor != 0).all() for divisor in range(2, 91))  # the square root of the largest is below 91
    assert (large[-1], len(sizes)) == (8191, 1028 + 16)
    assert 289 not in sizes
    a, b = np.array([8190, 4000, 0]), np.array([8190, 7000, 5])
    assert FiniteField(8191).times(a, b).tolist() == [1, 4000 * 7000 % 8191, 0]
    assert FiniteField(8191).tabled[0].size == 0


@pytest.mark.parametrize(("q", "beside"), [(6, "5 or 7"), (289, "283 or 293"), (12, "11 or 13"), (8192, "8191")])
def test_no_field_has_so_many_elements(q: int, beside: str):
    with pytest.raises(ParameterError, match=beside):
        checked_size(q)
