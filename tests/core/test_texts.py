"""Texts as words: one form for what reads alike, always one word for each row, and no text in an error."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dither.core.texts import EMPTY, NO_TEXT, NOT_UNICODE, OUTSIDE, TOO_LONG, TextCodes

LATIN = TextCodes(5, "abcdefghijklmnopqrstuvwxyz", fold=True, trim=True)
UTF8 = TextCodes(12, None, fold=True, trim=True)
PLAIN = TextCodes(12, None)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Straße", "STRASSE"),
        ("é", "e\u0301"),
        ("É", "E\u0301"),
        ("  word\n", "word"),
        ("\u03a3", "\u03c2"),  # the two small sigmas
        ("\u212b", "\u00e5"),  # the sign of Ångström, and the letter
        ("שלום", "שלום "),  # from right to left
    ],
)
def test_what_reads_alike_is_one_word(text, same):
    assert UTF8.word(text) == UTF8.word(same)
    assert isinstance(UTF8.word(text), bytes)


def test_case_and_spaces_count_where_nothing_is_declared():
    assert PLAIN.word("A") != PLAIN.word("a")
    assert PLAIN.word(" a") != PLAIN.word("a")
    assert PLAIN.word("e\u0301") == PLAIN.word("é")


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("", EMPTY),
        ("   ", EMPTY),
        ("abcdef", TOO_LONG),
        ("a" * 10**6, TOO_LONG),
        (b"a" * 10**6, TOO_LONG),
        ("ab1", OUTSIDE),
        ("a b", OUTSIDE),
        ("né", OUTSIDE),
        ("a\u0301", OUTSIDE),  # a letter that is none of the alphabet
        ("\u202eabc", OUTSIDE),  # from right to left from here on
        ("\ud800", OUTSIDE),
        (b"\xff\xfe", NOT_UNICODE),
        (None, NO_TEXT),
        (float("nan"), NO_TEXT),
        (7, NO_TEXT),
        (["abc"], NO_TEXT),
    ],
)
def test_what_is_wrong_with_a_text(value, fault):
    assert LATIN.word(value) == fault
    assert LATIN.of([value, "abc"]).tolist() == [b"", b"\1\2\3"]
    said = LATIN.rule(fault)
    assert isinstance(said, str)
    assert str(value).strip() == "" or str(value)[:20] not in said or fault == NO_TEXT


@pytest.mark.parametrize(
    ("value", "fault"),
    [("\ud800", NOT_UNICODE), ("a\0b", OUTSIDE), ("ü" * 7, TOO_LONG), ("\U0001f600" * 4, TOO_LONG)],
)
def test_bytes_of_utf8_have_faults_of_their_own(value, fault):
    assert UTF8.word(value) == fault


def test_a_type_of_ones_own_that_breaks_is_no_text():
    class Broken(str):
        def __len__(self) -> int:
            raise RuntimeError(str.__str__(self))

    assert LATIN.of([Broken("abc")]).shape == (1,)


def test_the_first_fault_is_told():
    words, wrong = LATIN.examined(["abc", "toolong", ""])
    assert wrong == (1, TOO_LONG)
    assert words.tolist() == [b"\1\2\3", b"", b""]
    assert LATIN.examined(["abc"])[1] is None


@pytest.mark.parametrize(
    "column",
    [
        ["ab", "Ab ", "b"],
        np.array(["ab", "Ab ", "b"]),
        np.array(["ab", "Ab ", "b"], dtype=object),
        np.array([b"ab", b"Ab ", b"b"]),
        ("ab", b"Ab", "b"),
    ],
)
def test_forms_of_a_column(column):
    assert LATIN.of(column).tolist() == [b"\1\2", b"\1\2", b"\2"]


def test_arrow_columns():
    pa = pytest.importorskip("pyarrow")
    plain = ["ab", "Ab ", None, "toolong", "b"]
    expected = [b"\1\2", b"\1\2", b"", b"", b"\2"]
    for column in (
        pa.array(plain),
        pa.array(plain, pa.large_string()),
        pa.array(plain).dictionary_encode(),
        pa.chunked_array([plain[:2], plain[2:]]),
    ):
        words, wrong = LATIN.examined(column)
        assert words.tolist() == expected
        assert wrong == (2, NO_TEXT)
    assert LATIN.of(pa.array([1, 2])).tolist() == [b"", b""]
    assert LATIN.of(pa.array([b"ab", b"\xff"])).tolist() == [b"\1\2", b""]
    assert LATIN.of(pa.array([], pa.string())).tolist() == []


def test_a_mask_hides():
    column = np.ma.MaskedArray(np.array(["ab", "b"], dtype=object), mask=[True, False])
    assert LATIN.of(column).tolist() == [b"", b"\2"]


@given(st.text())
def test_there_and_back(text):
    word = UTF8.word(text)
    if isinstance(word, bytes):
        assert 1 <= len(word) <= 12
        assert 0 not in word
        again = UTF8.text(word)
        assert again is not None
        assert again == unicodedata.normalize("NFC", again)
    assert len(UTF8.of([text])) == 1


@given(st.text(alphabet="abcxyz", min_size=1, max_size=5))
def test_letters_there_and_back(text):
    word = LATIN.word(text)
    assert isinstance(word, bytes)
    assert LATIN.text(word) == text


def test_no_text_has_such_codes():
    assert UTF8.text(b"\xc3") is None
