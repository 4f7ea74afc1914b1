"""The domain of words: what fits, and that nothing is quoted which does not."""

import numpy as np
import pytest

from dither.core.words import Words
from dither.errors import DomainError, ParameterError, RowError

DOMAIN = Words(symbols=3, longest=4)


def test_every_word_has_a_number():
    small = Words(symbols=3, longest=2)
    assert small.size == 1 + 3 + 9
    listed = small.points(small.size).tolist()
    assert len(set(listed)) == small.size
    assert [small.number(word) for word in listed] == list(range(small.size))
    assert listed[:5] == [b"", b"\1", b"\2", b"\3", b"\1\1"]


@pytest.mark.parametrize("values", [[b"\1\2", b""], np.array([b"\1\2", b""]), (b"\1\2", b"")])
def test_words_fit(values):
    assert DOMAIN.check(values).tolist() == [b"\1\2", b""]
    assert DOMAIN.check(values).dtype == np.dtype("S4")


WRONG = [b"\4", b"\1\0\2", b"\1\1\1\1\1", "abc", 7, None, float("nan"), b"\1\0"]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_word_is_refused_by_its_row(wrong):
    with pytest.raises(RowError, match="row 2") as refused:
        DOMAIN.check([b"\1", b"", wrong, wrong])
    assert repr(wrong) not in str(refused.value)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_word_counts_as_none(wrong):
    assert DOMAIN.check([b"\1", wrong], invalid="none").tolist() == [b"\1", b""]


def test_arrays_of_bytes_are_looked_at():
    with pytest.raises(RowError, match="row 1"):
        DOMAIN.check(np.array([b"\1", b"\1\1\1\1\1"]))
    with pytest.raises(RowError, match="row 0"):
        DOMAIN.check(np.array([b"\1\0\1"]))


@pytest.mark.parametrize("wrong", [[[b"\1"]], np.array([[b"\1"]]), 5])
def test_one_word_for_each_user(wrong):
    with pytest.raises(DomainError, match="one word for each user"):
        DOMAIN.check(wrong)


def test_one_word_is_one_user():
    assert DOMAIN.check(b"\1\2").tolist() == [b"\1\2"]


def test_no_users():
    assert DOMAIN.check([]).shape == (0,)


def test_other_rules_are_none():
    with pytest.raises(ParameterError, match='"none"'):
        DOMAIN.check([b""], invalid="clip")


def test_a_dictionary_does_not_make_another_domain():
    assert Words(26, 10, listed=True) == Words(26, 10)
