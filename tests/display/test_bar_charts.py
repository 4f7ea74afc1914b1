"""Bar charts for a terminal: every character is where the numbers say, at any width, and without colour in a pipe."""

import io

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from dither.display.bar_charts import LETTERS, BarChart, ColumnChart, bar, neighbours

VALUE, LOW, HIGH = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.2, 0.1]), np.array([0.6, 0.4, 0.3])
BARS = BarChart("histogram(job)", ["nurse", "driver", "other"], VALUE, LOW, HIGH)
COLUMNS = ColumnChart("distribution(age)", ("18", "99"), VALUE, LOW, HIGH)


def drawn(*parts: object, encoding: str = "utf-8", terminal: bool = False, width: int = 60) -> str:
    """What a console prints."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, force_terminal=terminal, color_system="standard" if terminal else None)
    console.print(*parts)
    file.seek(0)
    return file.read()


@pytest.mark.parametrize("width", [10, 37, 100])
def test_shades_end_at_the_numbers(width):
    for low in range(11):
        for value in range(low, 11):
            for high in range(value, 11):
                found = bar(value / 10, low / 10, high / 10, 1.0, width)
                ends = [round(end / 10 * width) for end in (low, value, high)]
                assert found == "█" * ends[0] + "▓" * (ends[1] - ends[0]) + "░" * (ends[2] - ends[1])


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ((np.nan, np.nan, np.nan), ""),
        ((-0.1, -0.2, 0.5), "░░░░░"),  # an estimate without refinement may be below 0
        ((0.5, 0.2, 7.0), "██▓▓▓░░░░░"),
        ((0.2, 0.4, 0.5), "████░"),  # an estimate that is not within its interval
        ((0.5, np.nan, np.nan), "▓▓▓▓▓"),
        ((0.0, 0.0, 0.0), ""),
    ],
)
def test_odd_numbers(numbers, found):
    value, low, high = numbers
    assert bar(value, low, high, 1.0, 10) == found


@pytest.mark.parametrize("width", [24, 60, 80, 200])
def test_a_chart_is_as_wide_as_the_terminal(width):
    lines = drawn(BARS, width=width).rstrip("\n").splitlines()
    assert max(len(line.rstrip()) for line in lines) == max(width, 10 + len("driver") + 7)
    assert all(len(line.rstrip()) <= width for line in drawn(COLUMNS, width=width).splitlines())


def test_a_pipe_gets_no_colour_and_a_terminal_does():
    assert "\x1b" not in drawn(BARS, COLUMNS)
    assert "\x1b[36m█" in drawn(BARS, terminal=True)


def test_a_terminal_without_blocks_gets_letters():
    for chart in (BARS, COLUMNS):
        told = drawn(chart, encoding="latin-1")
        assert told.isascii()
        assert all(letter in told for letter in LETTERS)
    assert "nurse   ####" in drawn(BARS, encoding="ascii")


def test_labels_of_strangers():
    labels = ["\x1b[2J\nwild", "日本語" * 20, "x" * 100]
    lines = BarChart("a\x1bb", labels, VALUE, LOW, HIGH, rest=1234).lines(60)
    assert lines[0] == "a?b"
    assert lines[1].startswith("?[2J?wild")
    assert all(cell_len(line.rstrip()) <= 60 for line in lines)
    assert lines[-1] == "and 1,234 more"
    assert "…" in lines[3]


def test_what_is_not_known_is_said():
    unknown = np.full(3, np.nan)
    assert all("not known" in line for line in BarChart("a", ["b", "c", "d"], unknown, unknown, unknown).lines()[1:])
    assert len(ColumnChart("a", ("b", "d"), unknown, unknown, unknown).lines()) == 11


@pytest.mark.parametrize("cells", [1, 2, 71, 72, 73, 500, 1024])
@pytest.mark.parametrize("width", [12, 40, 80])
def test_columns_of_many_cells_add_up_neighbours(cells, width):
    value = np.full(cells, 1 / cells)
    lines = ColumnChart("a", ("first", "last"), value, value, value).lines(width)
    together = neighbours(cells, width)
    assert (f"{together} values a column" in lines[0]) == (together > 1)
    assert max(map(len, lines[1:-1])) <= max(width, 19)
    bottom = lines[-2].strip().removeprefix("0%").strip()
    assert set(bottom) == {"█"}
    assert len(bottom) in {(columns := -(-cells // together)) * max(1, len(bottom) // columns), columns - 1}


def test_the_column_of_two_cells_is_as_high_as_both():
    value = np.zeros(100)
    value[[10, 11]], value[40] = 0.2, 0.4
    lines = ColumnChart("a", ("0", "99"), value, value, value).lines(80)
    assert lines[1].count("█") == 2  # both reach the top: .2 + .2 in one column, .4 in another
