"""Tables: columns in, aligned text, HTML or a drawn box out, and nothing in a cell is taken for markup."""

import io

import numpy as np
import pytest
from rich.console import Console

from dither.display.table import TextTable, cell


def drawn(table: TextTable, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (-1234, "-1,234"),
        (np.uint8(200), "200"),
        (np.int64(-5000), "-5,000"),
        (10**30, "1" + ",000" * 10),
        (0.25, "0.25"),
        (1 / 3, "0.33333"),
        (12.0, "12"),
        (1e-9, "1e-09"),
        (123456.789, "1.2346e+05"),
        (np.float32(0.5), "0.5"),
        (np.float64(-2.0), "-2"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (True, "yes"),
        (False, "no"),
        (np.True_, "yes"),
        (np.False_, "no"),
        ("1234", "1234"),
        ("", ""),
        (None, "None"),
    ],
)
def test_cells(entry, text):
    assert cell(entry) == text


def test_words_are_flush_left_and_numbers_flush_right():
    table = TextTable({"name": ["a", "bcdefg", ""], "count": [5, 1000, -3], "share": np.array([0.5, 12.0, 0.125])})
    assert str(table).splitlines() == [
        "name    count  share",
        "a           5    0.5",
        "bcdefg  1,000     12",
        "           -3  0.125",
    ]
    assert repr(table) == str(table)
    assert len(table) == 3


def test_a_long_heading_makes_room():
    assert str(TextTable({"a long heading": [1], "b": ["x"]})).splitlines() == [
        "a long heading  b",
        "             1  x",
    ]


def test_no_line_ends_in_blanks():
    assert all(line == line.rstrip() for line in str(TextTable({"a": [1, 2], "b": ["", "long"]})).splitlines())


def test_tables_without_rows_or_columns():
    assert str(TextTable({"a": [], "b": np.zeros(0)})) == "a  b"
    assert len(TextTable({"a": []})) == len(TextTable({})) == 0
    assert str(TextTable({})) == ""
    assert drawn(TextTable({})).strip() == ""
    assert "a" in drawn(TextTable({"a": []}))
    assert TextTable({})._repr_html_() == "<table><thead><tr></tr></thead><tbody></tbody></table>"


def test_columns_of_unequal_length_are_not_cut_silently():
    with pytest.raises(ValueError, match="shorter"):
        str(TextTable({"a": [1, 2], "b": [1]}))


def test_html():
    assert TextTable({"a<b": ["<i>", "&"], "n": [1, 2000]})._repr_html_() == (
        "<table><thead><tr><th>a&lt;b</th><th>n</th></tr></thead>"
        "<tbody><tr><td>&lt;i&gt;</td><td>1</td></tr><tr><td>&amp;</td><td>2,000</td></tr></tbody></table>"
    )


def test_drawn():
    lines = [
        line.strip() for line in drawn(TextTable({"name": ["a", "b"], "n": [1, 2000]})).splitlines() if line.strip()
    ]
    assert lines[0].split() == ["name", "n"]
    assert set(lines[1]) == {"─"}
    assert lines[2].split() == ["a", "1"]
    assert lines[3].split() == ["b", "2,000"]


def test_what_does_not_fit_is_folded_and_not_lost():
    long = "0123456789" * 10
    text = drawn(TextTable({"name": [long], "n": [1]}), width=40)
    assert long in "".join(
        character for line in text.splitlines()[3:] for character in line[:34] if character.isdigit()
    )


def test_cells_are_not_markup():
    text = drawn(TextTable({"name": ["[bold]x[/bold]", "[/]", ":smile:", "[link=x]"]}))
    for entry in ("[bold]x[/bold]", "[/]", ":smile:", "[link=x]"):
        assert entry in text


@pytest.mark.parametrize("name", ["[bold]", "income [euro]", "[/x]", ":smile:"])
def test_headings_are_not_markup(name):
    assert name in drawn(TextTable({name: [1, 2]}))


def test_a_terminal_is_not_told_what_it_does_not_show():
    table = TextTable({"name": ["plain", "\x1b[31mred\x1b[0m", "tab\there"]})
    assert [row[0] for row in table.rows()] == ["plain", "?[31mred?[0m", "tab?here"]
    assert "\x1b" not in str(table) + table._repr_html_()
