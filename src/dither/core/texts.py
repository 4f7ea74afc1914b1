"""Texts as words of codes (`core.words`): the canonical form, the codes, and the forms that a column comes in.

**One form for what reads alike.** A letter with an accent is one code point or two, "Straße" and "STRASSE" are the same
word to most, and spaces around it are nobody's intention. So a text is brought to Unicode's normal form C; folded, if
that is declared, so that case does not matter; and trimmed, if that is declared. Devices must agree on it: two that do
not count a word as two. (Unicode adds letters from time to time, and never changes the form of old ones.)

**Codes.** With an alphabet, the place of each character in it, from 1. Without one, the bytes of UTF-8: `longest` then
counts bytes, and the character 0, which ends a word, is none.

**No loop over characters.** Each different text is looked at once, by functions of Python that are compiled, and rows
are looked up; of Arrow's columns the dictionary does it.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.core.columns import arrow_items, column_items, is_arrow, is_text_type, joined_arrays, unwrapped
from dither.core.domains import array_kind, unmasked
from dither.core.words import MOST_SYMBOLS

NO_TEXT, EMPTY, TOO_LONG, OUTSIDE, NOT_UNICODE = range(5)
_LOOKED_AT = 1 << 16  # characters: who reads more of a text spends time that depends on it
_PIECE = 1 << 20  # rows at a time


class _Codes(dict[int, int]):
    """Code points to codes; of a character that is not in the alphabet 0."""

    def __missing__(self, key: int) -> int:
        return 0


@dataclass(frozen=True)
class TextCodes:
    """How texts become words: by an alphabet, or (None) by the bytes of UTF-8.

    >>> codes = TextCodes(4, "abc", fold=True, trim=True)
    >>> codes.of([" Cab ", "abcab", "x", "", None]).tolist()
    [b'\\x03\\x01\\x02', b'', b'', b'', b'']
    >>> codes.text(b"\\x03\\x01\\x02"), TextCodes(4, None).text(b"\\xc3")
    ('cab', None)
    """

    longest: int
    alphabet: str | None
    fold: bool = False
    trim: bool = False

    rules: ClassVar[tuple[str, ...]] = (
        "the value is no text",
        "the text is empty",
        "the text is longer than {longest} {units}",
        "the text holds a character that is not in the alphabet",
        "the text is not Unicode",
    )

    @property
    def symbols(self) -> int:
        """How many codes there are."""
        return MOST_SYMBOLS if self.alphabet is None else len(self.alphabet)

    @property
    def units(self) -> str:
        """What `longest` counts."""
        return "bytes of UTF-8" if self.alphabet is None else "characters"

    def rule(self, fault: int) -> str:
        """In words, what is wrong with a text: never the text."""
        return self.rules[fault].format(longest=self.longest, units=self.units)

    def canonical(self, text: str) -> str:
        """The form that stands for all that read alike.

        >>> TextCodes(9, None, fold=True, trim=True).canonical(" STRASSE\\n"), TextCodes(9, None).canonical("e\\u0301")
        ('strasse', 'é')
        """
        text = unicodedata.normalize("NFC", text)
        if self.fold:
            text = unicodedata.normalize("NFC", text.casefold())
        return text.strip() if self.trim else text

    def word(self, value: Any) -> bytes | int:
        """The codes of one text; or what is wrong with it, as a number of `rules`."""
        try:
            return self._word(value)
        except Exception:  # that looking at something goes wrong is a fact about its user
            return NO_TEXT

    def _word(self, value: Any) -> bytes | int:
        if isinstance(value, bytes):
            if len(value) > 4 * _LOOKED_AT:
                return TOO_LONG
            try:
                value = value.decode("utf-8")
            except UnicodeDecodeError:
                return NOT_UNICODE
        if not isinstance(value, str):
            return NO_TEXT
        text = str.__str__(value)
        if len(text) > _LOOKED_AT:
            return TOO_LONG
        text = self.canonical(text)
        if not text:
            return EMPTY
        if self.alphabet is None:
            try:
                codes = text.encode("utf-8")
            except UnicodeEncodeError:  # half of a surrogate pair
                return NOT_UNICODE
        else:
            if len(text) > self.longest:
                return TOO_LONG
            codes = text.translate(self._code).encode("latin-1")
        if 0 in codes:
            return OUTSIDE
        return TOO_LONG if len(codes) > self.longest else codes

    @cached_property
    def _code(self) -> _Codes:
        return _Codes({ord(letter): place for place, letter in enumerate(self.alphabet or "", 1)})

    def text(self, word: bytes) -> str | None:
        """The text of a word; None if no text has these codes."""
        if self.alphabet is not None:
            return "".join(self.alphabet[code - 1] for code in word)
        try:
            return word.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def of(self, column: Any) -> NDArray[np.bytes_]:
        """The words of a column; one without codes for what is none."""
        return self.examined(column)[0]

    def examined(self, column: Any) -> tuple[NDArray[np.bytes_], tuple[int, int] | None]:
        """The words of a column, and the first row that has none, with what is wrong there; None if all have one."""
        if is_arrow(column):
            words = joined_arrays(self._of_arrow, column, self._dtype)
            wrong = np.flatnonzero(words == b"")
            if not wrong.size:
                return words, None
            row = int(wrong[0])
            return words, (row, self._fault(arrow_items(column.slice(row, 1))[0]))
        column = unmasked(column)
        if array_kind(column) == "S":
            items: Sequence[Any] = np.asarray(column).tolist() if column.ndim == 1 else column_items(column)
        else:
            items = column_items(column)
        words = np.empty(len(items), dtype=self._dtype)
        for start in range(0, len(items), _PIECE):
            words[start : start + _PIECE] = self._of_items(items[start : start + _PIECE])
        wrong = np.flatnonzero(words == b"")
        return words, (int(wrong[0]), self._fault(items[int(wrong[0])])) if wrong.size else None

    def _fault(self, item: Any) -> int:
        found = self.word(item)
        return found if isinstance(found, int) else NO_TEXT

    @property
    def _dtype(self) -> np.dtype:
        return np.dtype(f"S{self.longest}")

    def _of_items(self, items: Sequence[Any]) -> NDArray[np.bytes_]:
        """Each different text is looked at once."""
        if set(map(type, items)) <= {str, bytes}:
            different = list(set(items))
            place = dict(zip(different, range(len(different)), strict=True))
            rows = np.fromiter(map(place.__getitem__, items), np.intp, len(items))
            return self._each(different)[rows] if different else np.empty(0, dtype=self._dtype)
        return self._each(items)

    def _each(self, items: Sequence[Any]) -> NDArray[np.bytes_]:
        found = [word if isinstance(word, bytes) else b"" for word in map(self.word, items)]
        return np.array(found, dtype=self._dtype) if found else np.empty(0, dtype=self._dtype)

    def _of_arrow(self, piece: Any) -> NDArray[np.bytes_]:
        import pyarrow as pa

        kind = piece.type
        if pa.types.is_dictionary(kind):
            coded = piece
        elif is_text_type(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            coded = piece.dictionary_encode()
        else:
            return np.zeros(len(piece), dtype=self._dtype)
        words = self._each([*arrow_items(unwrapped(coded.dictionary)), None])
        places = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return words[places]  # a null is the last of them
