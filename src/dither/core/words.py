"""The domain of words: texts of up to so many codes, of which nobody has a list.

A word is a row of codes from 1 to `symbols`, one a byte, and ends before the first zero: an array of NumPy's type
`S{longest}`, which is one value for each user like any other column. What the codes are is the schema's business: the
letters of an alphabet, or the bytes of UTF-8. The word without codes stands for whoever has no word that fits.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import is_string
from dither.core.domains import WORDS, array_kind, unmasked
from dither.errors import DomainError, ParameterError, RowError
from dither.kernels.word_hashing import codes_of

MOST_SYMBOLS = 255
LONGEST = 1 << 10
_RULE = "the value is not a word of the declared symbols and length"


@dataclass(frozen=True)
class Words:
    """Words of up to `longest` codes from 1 to `symbols`; `listed` says that many of them are in a known dictionary."""

    symbols: int
    longest: int
    listed: bool = field(default=False, compare=False)

    kind: ClassVar[str] = WORDS

    @property
    def coordinates(self) -> None:
        """None: a word is no vector of numbers."""

    @property
    def parameters(self) -> dict[str, Any]:
        """By which a mechanism for these words is made."""
        return {"symbols": self.symbols, "longest": self.longest}

    @property
    def dtype(self) -> np.dtype:
        """Of a column of words."""
        return np.dtype(f"S{self.longest}")

    @property
    def size(self) -> int:
        """How many words there are, with the one without codes."""
        return sum(self.symbols**length for length in range(self.longest + 1))

    def check(self, values: Any, invalid: str = "error") -> NDArray[np.bytes_]:
        """The values as an array of words. `invalid="none"` puts the word without codes in place of what is none.

        >>> Words(symbols=2, longest=3).check([b"\\x01\\x02", b"\\x03", 7], invalid="none").tolist()
        [b'\\x01\\x02', b'', b'']
        """
        values = unmasked(values)
        if not is_string(invalid) or invalid not in ("error", "none"):
            raise ParameterError('invalid must be "error", or "none" to put the word without codes instead')
        if array_kind(values) == "S" and values.ndim == 1:
            given = np.asarray(values)
        else:
            given, odd = _as_array(values)
            if odd.any() and invalid == "error":
                raise RowError(int(odd.argmax()), _RULE, substitute='pass invalid="none"')
        if not len(given):
            return np.empty(0, dtype=self.dtype)
        wrong = self._outside(given)
        if wrong.any() and invalid == "error":
            raise RowError(int(wrong.argmax()), _RULE, substitute='pass invalid="none"')
        return np.where(wrong, b"", given).astype(self.dtype)

    def _outside(self, words: NDArray) -> NDArray[np.bool_]:
        codes = codes_of(words)
        ended = np.logical_or.accumulate(codes == 0, axis=1)
        odd = (codes > self.symbols) | (ended & (codes != 0))
        return odd.any(axis=1) | (codes[:, self.longest :] != 0).any(axis=1)

    def points(self, count: int) -> NDArray[np.bytes_]:
        """The first `count` words: the shorter first, by their codes."""
        return np.array([self.word(number) for number in range(count)], dtype=self.dtype)

    def spread(self) -> NDArray[np.bytes_]:
        """A few words of every length: mechanisms find all equally hard."""
        return np.array([bytes([1]) * length for length in range(self.longest + 1)], dtype=self.dtype)

    def number(self, word: bytes) -> int:
        """The number of a word, by length and then by its codes."""
        shorter = sum(self.symbols**length for length in range(len(word)))
        return shorter + sum((code - 1) * self.symbols**place for place, code in enumerate(reversed(word)))

    def word(self, number: int) -> bytes:
        """The word with this number, by length and then by its codes."""
        length = 0
        while number >= self.symbols**length:
            number -= self.symbols**length
            length += 1
        return bytes(1 + number // self.symbols**place % self.symbols for place in reversed(range(length)))


def _as_array(values: Any) -> tuple[NDArray, NDArray[np.bool_]]:
    """Items as words, and which of them are no bytes, or end in what would be taken for no code."""
    try:
        items = [values] if is_string(values) else list(values)
    except Exception:  # what it says may quote a value
        items = None
    if items is None or any(isinstance(item, list | tuple | np.ndarray) for item in items):
        raise DomainError("values must be one-dimensional: one word for each user")
    odd = np.array([not isinstance(item, bytes) or item.endswith(b"\0") for item in items], dtype=np.bool_)
    fine = [b"" if wrong else item for item, wrong in zip(items, odd, strict=True)]
    return np.array(fine, dtype=np.bytes_) if fine else np.empty(0, dtype="S1"), odd
