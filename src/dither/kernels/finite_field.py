"""Finite fields with few elements: addition and multiplication of the numbers 0, ..., q - 1.

For a prime q they are those of whole numbers modulo q. For a power q = p^m, a number stands for the polynomial whose
coefficients are its digits in base p, the lowest first, and polynomials are multiplied modulo an irreducible one: the
monic one of degree m whose other coefficients, read as a number in the same way, are smallest. This choice is a part of
every protocol that uses the field, so it must never change.

Fields of up to 256 elements have tables, which serve primes and powers alike. Larger ones are those of primes only,
which lie dense enough there.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError

MOST_TABLED = 256
MOST_ELEMENTS = 1 << 13

Elements = NDArray[np.int64]


@lru_cache(maxsize=1)
def field_sizes() -> tuple[int, ...]:
    """The numbers of elements of the fields that there are here, ascending."""
    composite = np.zeros(MOST_ELEMENTS, dtype=bool)
    composite[:2] = True
    for number in range(2, int(MOST_ELEMENTS**0.5) + 1):
        composite[number * number :: number] = True
    primes = np.flatnonzero(~composite).tolist()
    powers = (p**m for p in primes if p * p <= MOST_TABLED for m in range(2, 9) if p**m <= MOST_TABLED)
    return tuple(sorted([*primes, *powers]))


def checked_size(q: int) -> int:
    """The number of elements of a field; another one is refused, with those beside it."""
    sizes = field_sizes()
    place = bisect_left(sizes, q)
    if place < len(sizes) and sizes[place] == q:
        return q
    beside = " or ".join(str(size) for size in sizes[max(0, place - 1) : place + 1])
    raise ParameterError(
        f"q must be the size of a field: a prime below {MOST_ELEMENTS}, or a power of a prime up to {MOST_TABLED}; "
        f"{beside} would do"
    )


@dataclass(frozen=True)
class FiniteField:
    """The field with q elements.

    >>> four = FiniteField(4)
    >>> four.plus(np.array([2, 3]), np.array([3, 3])).tolist(), four.times(np.array([2, 3]), np.array([3, 3])).tolist()
    ([1, 0], [1, 2])
    """

    q: int

    @cached_property
    def characteristic(self) -> int:
        """The prime of which q is a power."""
        return next((p for p in range(2, int(self.q**0.5) + 1) if self.q % p == 0), self.q)

    def plus(self, a: Elements, b: Elements) -> Elements:
        """Sums, element by element."""
        return (a + b) % self.q if self._modular else self._tables[0][a, b]

    def times(self, a: Elements, b: Elements) -> Elements:
        """Products, element by element."""
        return a * b % self.q if self._modular else self._tables[1][a, b]

    @cached_property
    def negatives(self) -> Elements:
        """What adds up to zero with each element."""
        return -np.arange(self.q) % self.q if self._modular else np.argmin(self._tables[0], axis=1)

    @cached_property
    def inverses(self) -> Elements:
        """What gives one with each element but zero: its power of q - 2."""
        found, square, power = np.ones(self.q, dtype=np.int64), np.arange(self.q), self.q - 2
        while power:
            found = self.times(found, square) if power & 1 else found
            square, power = self.times(square, square), power >> 1
        return found

    @cached_property
    def tabled(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Sums and products as tables for compiled loops; without rows where there are too many elements."""
        if self.q > MOST_TABLED:
            return np.empty((0, 0), dtype=np.uint8), np.empty((0, 0), dtype=np.uint8)
        elements = np.arange(self.q)
        sums, products = (make(elements[:, None], elements) for make in (self.plus, self.times))
        return sums.astype(np.uint8), products.astype(np.uint8)

    @property
    def _modular(self) -> bool:
        return self.characteristic == self.q

    @cached_property
    def _tables(self) -> tuple[Elements, Elements]:
        """Sums and products of polynomials modulo the irreducible one."""
        p = self.characteristic
        digits = np.array([_digits(element, p, self.q) for element in range(self.q)])
        m = digits.shape[1]
        places = p ** np.arange(m)
        sums = (digits[:, None] + digits) % p @ places
        products = np.zeros((self.q, self.q, 2 * m - 1), dtype=np.int64)
        for i in range(m):
            products[:, :, i : i + m] += digits[:, None, i, None] * digits
        rest = np.array(_irreducible(p, m))
        for top in range(2 * m - 2, m - 1, -1):  # x^m is minus the rest of the polynomial
            products[:, :, top - m : top] -= products[:, :, top, None] * rest
        return sums, products[:, :, :m] % p @ places


def _digits(number: int, base: int, below: int) -> tuple[int, ...]:
    """The digits of a number in some base, the lowest first: as many as a number below the last one can have."""
    digits = []
    while below > 1:
        number, digit = divmod(number, base)
        digits.append(digit)
        below //= base
    return tuple(digits)


def _irreducible(p: int, m: int) -> tuple[int, ...]:
    """The coefficients, below its leading one, of the first monic polynomial of degree m modulo p without factors."""
    reducible = {
        _product((*low, 1), (*high, 1), p)[:m]
        for degree in range(1, m // 2 + 1)
        for low in product(range(p), repeat=degree)
        for high in product(range(p), repeat=m - degree)
    }
    found = (_digits(number, p, p**m) for number in range(p**m))
    return next(each for each in found if each not in reducible)


def _product(one: tuple[int, ...], other: tuple[int, ...], p: int) -> tuple[int, ...]:
    total = [0] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            total[i + j] = (total[i + j] + a * b) % p
    return tuple(total)
