"""Texts in a schema: one form, always one report in collection, and a refusal in trials that quotes nothing."""

import json
import pickle

import numpy as np
import pytest

import dither
from dither import Schema, Text
from dither.errors import DomainError, ParameterError
from dither.testing.examples import messages

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORD = Text(longest=8, alphabet=LETTERS)
ANY = Text(longest=16)
PRIVATE = "geheimnis"
BAD = {
    "empty": "",
    "blank": "  \t ",
    "too long": PRIVATE * 20,
    "far too long": PRIVATE * 20_000,
    "not of the alphabet": f"{PRIVATE[:5]}7",
    "not UTF-8": PRIVATE[:5].encode() + b"\xff\xfe",
    "half of a surrogate pair": f"{PRIVATE[:5]}\ud800",
    "right to left": f"\u202e{PRIVATE[:5]}",
    "Hebrew": "שלום",
    "combining": f"{PRIVATE[:5]}\u0301\u0302",
    "a number": 987654321,
    "missing": None,
    "not a number": float("nan"),
    "a list": [PRIVATE],
}


@pytest.mark.parametrize("value", BAD.values(), ids=list(BAD))
def test_bad_text_is_refused_in_trials_and_never_quoted(value):
    with pytest.raises(DomainError, match="row 1") as refused:
        WORD.encode(["fine", value])
    said = messages(refused.value)
    assert PRIVATE[:5] not in said
    assert "987654321" not in said


@pytest.mark.parametrize("value", BAD.values(), ids=list(BAD))
def test_bad_text_is_one_report_in_collection(value):
    assert WORD.encode(["fine", value], "substitute").tolist()[1] == b""
    assert WORD.encode_value(value) == b""
    assert WORD.stand_in([value]) == "no word"
    plan = dither.plan(Schema({"word": WORD}), 1.0, users=1000)
    reports = plan.randomize([{"word": value}], invalid="substitute")
    assert sum(map(len, reports.values())) == 1


@pytest.mark.parametrize("value", BAD.values(), ids=list(BAD))
def test_a_plan_refuses_it_with_the_name_of_the_attribute(value):
    plan = dither.plan(Schema({"word": WORD}), 1.0, users=1000)
    with pytest.raises(DomainError, match="attribute word, row 0") as refused:
        plan.randomize([{"word": value}])
    assert PRIVATE[:5] not in messages(refused.value)


@pytest.mark.parametrize("value", ["fine", " Fine ", "FINE", b"fine"])
def test_one_value_is_encoded_as_a_column_is(value):
    assert WORD.encode_value(value) == WORD.encode([value])[0] == b"\6\x09\x0e\5"
    assert WORD.decode(WORD.encode([value])[0]) == "fine"
    assert WORD.stand_in([value]) == "'fine'"


def test_any_text():
    for text in ("naïve", "Ω", "שלום", "日本語", "🙂"):
        assert ANY.decode(ANY.encode([text])[0]) == ANY.codes.canonical(text)


@pytest.mark.parametrize("invalid", ["error", "substitute"])
def test_a_column_is_one_dimensional(invalid):
    values = np.array(["ab", "b", "cd"])
    plain = WORD.encode(values, invalid)
    assert plain.shape == (3,)
    for fine in (values.tolist(), tuple(values), values.astype(object), np.ma.array(values)):
        assert (WORD.encode(fine, invalid) == plain).all()
    for wrong in (
        values[:, None],
        np.array("a"),
        np.ma.masked,
        5,
        None,
        {"a": 1},
        {"ab"},
        "ab",
        b"ab",
        bytearray(b"ab"),
    ):
        with pytest.raises(DomainError, match="one value for each user"):
            WORD.encode(wrong, invalid)
    with pytest.raises(ParameterError):
        WORD.encode(["ab"], invalid="clip")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"longest": 0}, "longest"),
        ({"longest": 5000}, "longest"),
        ({"longest": 3, "alphabet": "a"}, "alphabet"),
        ({"longest": 3, "alphabet": "aa"}, "alphabet"),
        ({"longest": 3, "alphabet": "aA"}, "small letters"),
        ({"longest": 3, "alphabet": "a\u212b", "fold": False}, "accents"),
        ({"longest": 3, "alphabet": "".join(map(chr, range(300, 700))), "fold": False}, "255"),
        ({"longest": 3, "alphabet": ["a", "b"]}, "alphabet"),
        ({"longest": 3, "known": "abc"}, "known"),
        ({"longest": 3, "known": ["abcd"]}, "word 0 of known"),
        ({"longest": 3, "known": ["a", 7]}, "word 1 of known"),
        ({"longest": 3, "known": ["\ud800"]}, "word 0 of known"),
        ({"longest": 3, "fold": 1}, "fold"),
    ],
)
def test_attributes_without_meaning(given, said):
    with pytest.raises(ParameterError, match=said):
        Text(**given)


def test_known_words_are_brought_to_the_same_form():
    made = Text(longest=8, alphabet=LETTERS, known=["Yes ", "no", "YES"])
    assert made.known == ("yes", "no")
    assert "yes" not in repr(made)
    assert made.domain.listed
    assert made.domain == WORD.domain


def test_stored_and_read_again(tmp_path):
    schema = Schema({"word": Text(6, LETTERS, ["ab", "cd"], trim=False), "any": ANY})
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    path = tmp_path / "schema.toml"
    path.write_text(schema.to_toml(), encoding="utf-8")
    assert Schema.read(path) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


def test_in_words():
    assert WORD.in_words == f"a text of up to 8 characters of the 26 characters {LETTERS}"
    assert ANY.in_words == "a text of up to 16 bytes of UTF-8"


def test_other_questions_are_not_asked_of_texts():
    schema = Schema({"word": WORD, "age": dither.Ordinal(0, 9)})
    for asked in ("mean(word)", "histogram(word)", "ranges(word, age)", "share(word = 3)", "missing(word)"):
        with pytest.raises(ParameterError):
            dither.plan(schema, 1.0, users=1000, ask=[asked])
