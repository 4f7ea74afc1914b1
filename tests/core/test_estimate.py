"""Estimates: intervals with the right quantile, tables in the right order, and words that do not promise too much.

Quantiles are compared with SciPy, which the library itself does not use for them. How often the intervals cover the
truth is a matter of the mechanisms, and tested with their contract.
"""

import math
import sys
from html.parser import HTMLParser

import numpy as np
import pyarrow as arrow
import pytest
from scipy.stats import norm

import dither
from dither.core.estimate import Estimate
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.errors import MissingExtraError, ParameterError

PROMISE = Guarantee(1.0)
VALUE = np.array([0.2, -0.01, 0.5, 0.31])
STDERR = np.array([0.01, 0.02, 0.03, 0.04])
FRUIT = ("apple", "pear", "fig", "plum")


def some(**changes) -> Estimate:
    parts = {"value": VALUE, "stderr": STDERR, "n": 12345, "guarantee": PROMISE, "question": "frequency"}
    return Estimate(**(parts | changes))


# Intervals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [1e-9, 0.1, 0.5, 0.6827, 0.9, 0.95, 0.99, 1 - 1e-6, 1 - 1e-12])
@pytest.mark.parametrize("simultaneous", [False, True])
def test_intervals_have_the_quantile_of_the_level(level, simultaneous):
    low, high = some().interval(level, simultaneous=simultaneous)
    reach = norm.isf((1 - level) / (len(VALUE) if simultaneous else 1) / 2) * STDERR
    np.testing.assert_allclose(high - VALUE, reach, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(VALUE - low, reach, rtol=1e-9, atol=1e-15)


def test_intervals_by_default_and_by_name():
    ends = some().interval()
    assert ends.low[0] == pytest.approx(0.2 - 1.959963984540054 * 0.01, abs=1e-15)
    assert ends.high[0] == pytest.approx(0.2 + 1.959963984540054 * 0.01, abs=1e-15)
    assert tuple(ends) == (ends.low, ends.high)


def test_simultaneous_intervals_are_those_of_bonferroni():
    together, alone = some().interval(0.8, simultaneous=True), some().interval(1 - 0.2 / 4)
    np.testing.assert_allclose(together.low, alone.low, rtol=1e-12)
    np.testing.assert_allclose(together.high, alone.high, rtol=1e-12)
    one = some(value=VALUE[:1], stderr=STDERR[:1])
    assert one.interval(0.9, simultaneous=True) == one.interval(0.9)


def test_an_interval_of_one_number():
    for value, stderr in ((np.array(0.5), np.array(0.1)), (np.float64(0.5), np.float64(0.1))):
        ends = some(value=value, stderr=stderr).interval(0.9, simultaneous=True)
        assert float(ends.high) == pytest.approx(0.5 + norm.isf(0.05) * 0.1, rel=1e-12)
        assert len(some(value=value, stderr=stderr).table()) == 1


@pytest.mark.parametrize("level", [0, 1, 0.0, 1.0, -0.5, 1.5, 95, math.nan, math.inf, True, False, "0.95", None, [0.9]])
def test_a_level_lies_between_zero_and_one(level):
    for ask in (some().interval, some().table, some().to_pandas, some().to_arrow):
        with pytest.raises(ParameterError, match="between 0 and 1"):
            ask(level)


@pytest.mark.parametrize("stderr", [STDERR[:3], STDERR[None], np.float64(0.1), np.zeros(0)])
def test_every_value_has_its_standard_error(stderr):
    with pytest.raises(ParameterError, match="one standard error for each value"):
        some(stderr=stderr)


# Tables -------------------------------------------------------------------------------------------------------------


def test_a_table_has_all_rows_in_order():
    table = some(labels=FRUIT).table(0.9)
    low, high = some().interval(0.9)
    assert list(table.columns) == ["item", "frequency", "stderr", "low 90%", "high 90%"]
    assert table.columns["item"] == list(FRUIT)
    for column, cells in zip(list(table.columns)[1:], (VALUE, STDERR, low, high), strict=True):
        assert np.array_equal(table.columns[column], cells)


def test_a_table_with_the_most_frequent_first():
    table = some(labels=FRUIT).table(most=2)
    assert table.columns["item"] == ["fig", "plum"]
    assert table.columns["frequency"].tolist() == [0.5, 0.31]
    assert table.columns["stderr"].tolist() == [0.03, 0.04]
    assert some(labels=FRUIT).table(most=0).columns["item"] == []
    assert some(labels=FRUIT).table(most=4).columns["item"] == list(FRUIT)  # nothing is left out: in order
    assert some(labels=FRUIT).table(most=99).columns["item"] == list(FRUIT)


def test_ties_keep_their_order():
    table = some(value=np.array([0.1, 0.3, 0.1, 0.3])).table(most=3)
    assert table.columns["item"] == ["1", "3", "0"]


def test_items_without_labels_are_numbered():
    assert some().table().columns["item"] == ["0", "1", "2", "3"]
    assert "1000" in str(some(value=np.zeros(1001), stderr=np.ones(1001)).table())  # a name, not a quantity: no comma


@pytest.mark.parametrize(
    ("level", "name"), [(0.95, "95%"), (0.9, "90%"), (0.999, "99.9%"), (0.975, "97.5%"), (0.5, "50%")]
)
def test_the_level_is_in_the_name_of_the_column(level, name):
    assert list(some().table(level).columns)[3:] == [f"low {name}", f"high {name}"]


def test_labels():
    named = some().with_labels(iter(FRUIT))  # type: ignore[arg-type]
    assert named.labels == FRUIT
    assert (named.value is VALUE, named.n, named.guarantee) == (True, 12345, PROMISE)
    for labels in (FRUIT[:3], [*FRUIT, "more"], ()):
        with pytest.raises(ParameterError, match="as many labels"):
            some().with_labels(labels)
        with pytest.raises(ParameterError, match="as many labels"):
            some(labels=labels)


def test_to_pandas():
    frame = some(labels=FRUIT).to_pandas(0.9)
    low, high = some().interval(0.9)
    assert frame.columns.tolist() == ["item", "frequency", "stderr", "low 90%", "high 90%"]
    assert frame["item"].tolist() == list(FRUIT)
    assert np.array_equal(
        frame[["frequency", "stderr", "low 90%", "high 90%"]].to_numpy().T, [VALUE, STDERR, low, high]
    )
    assert some().to_pandas()["item"].tolist() == [0, 1, 2, 3]


def test_to_arrow():
    table = some(labels=FRUIT).to_arrow()
    low, high = some().interval()
    assert isinstance(table, arrow.Table)
    assert table.column_names == ["item", "frequency", "stderr", "low 95%", "high 95%"]
    assert table["item"].to_pylist() == list(FRUIT)
    assert np.array_equal([column.to_numpy() for column in table.columns[1:]], [VALUE, STDERR, low, high])
    assert some().to_arrow()["item"].to_pylist() == [0, 1, 2, 3]


def test_tables_for_machines_have_every_row():
    many = some(value=np.linspace(1, 0, 500), stderr=np.ones(500))
    assert len(many.to_pandas()) == len(many.to_arrow()) == len(many.table()) == 500


@pytest.mark.parametrize(("module", "extra"), [("pandas", "pandas"), ("pyarrow", "fast")])
def test_a_missing_extra_is_named(module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    ask = some().to_pandas if module == "pandas" else some().to_arrow
    with pytest.raises(MissingExtraError, match=rf"pip install 'dither\[{extra}\]'"):
        ask()


# Words --------------------------------------------------------------------------------------------------------------


def test_explain():
    text = some(source="GRR(k=4)", notes=("One note.", "Another.")).explain()
    assert text.splitlines() == [
        "The frequency of 4 items, from 12,345 reports.",
        "Collected with GRR(k=4).",
        "Privacy of each report: epsilon 1 (exact).",
        "Standard errors: 0.01 to 0.04. They cover the randomness of the reports, not how the users were found.",
        "One note.",
        "Another.",
    ]
    alone = some(value=VALUE[:1], stderr=STDERR[:1]).explain()
    assert "of 1 item," in alone
    assert "Standard errors: 0.01." in alone
    assert "Collected" not in alone
    assert "epsilon 1, delta 1e-6 (exact)" in some(guarantee=Guarantee(1.0, 1e-6)).explain()


def test_a_simulation_says_so_everywhere():
    simulated = some(guarantee=NO_GUARANTEE)
    for text in (repr(simulated), simulated.explain(), simulated._repr_html_()):
        assert "simulated" in text
        assert "epsilon" not in text
    assert "simulated" not in repr(some())
    mechanism = dither.GRR(4, 1.0)
    seeded = mechanism.estimate(mechanism.tally(mechanism.randomize([0, 1, 2], seed=1)))
    secure = mechanism.estimate(mechanism.tally(mechanism.randomize([0, 1, 2])))
    assert "simulated" in repr(seeded)
    assert repr(secure).startswith("Estimate of frequency from 3 reports; epsilon 1 (exact)\n")


def test_repr_is_a_title_and_a_table():
    assert repr(some(labels=FRUIT)).splitlines() == [
        "Estimate of frequency from 12,345 reports; epsilon 1 (exact)",
        "item   frequency  stderr    low 95%  high 95%",
        "apple        0.2    0.01     0.1804    0.2196",
        "pear       -0.01    0.02  -0.049199  0.029199",
        "fig          0.5    0.03     0.4412    0.5588",
        "plum        0.31    0.04     0.2316    0.3884",
    ]


def test_repr_of_many_shows_the_most_frequent():
    value = np.arange(1200) / 1000
    text = repr(some(value=value, stderr=np.ones(1200)))
    lines = text.splitlines()
    assert len(lines) == 13
    assert [line.split()[0] for line in lines[2:12]] == [str(item) for item in range(1199, 1189, -1)]
    assert lines[-1] == "... and 1,190 smaller ones; table() shows all"
    ten = repr(some(value=value[:10], stderr=np.ones(10)))
    assert [line.split()[0] for line in ten.splitlines()[2:]] == [str(item) for item in range(10)]


class Page(HTMLParser):
    """The tags and the texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.add(tag)

    def handle_data(self, data) -> None:
        self.texts.append(data)


HOSTILE = "<script>alert('1 & 2')</script>"


def test_html_of_hostile_labels():
    page = Page(some(labels=(HOSTILE, "&lt;", '"', "x"))._repr_html_())
    assert page.tags == {"p", "table", "thead", "tbody", "tr", "th", "td"}
    assert {HOSTILE, "&lt;", '"', "x", "0.2"} <= set(page.texts)


def test_html_of_a_hostile_question():
    # Names of attributes come from the user's schema.
    page = Page(some(question=HOSTILE)._repr_html_())
    assert page.tags == {"p", "table", "thead", "tbody", "tr", "th", "td"}


def test_html_of_many_says_how_many_are_left_out():
    page = Page(some(value=np.zeros(1010), stderr=np.ones(1010))._repr_html_())
    assert "... and 1,000 smaller ones; table() shows all" in page.texts


def test_the_top_has_intervals_that_hold_for_all():
    value, stderr = np.array([0.1, 0.5, np.nan, 0.3]), np.array([0.01, 0.02, np.inf, 0.03])
    found = Estimate(value, stderr, 10, NO_GUARANTEE, "presence", labels=("a", "b", "c", "d"))
    assert [row.split()[0] for row in str(found.top(3)).splitlines()[1:]] == ["b", "d", "a"]
    reach = norm.isf(0.05 / 8) * 0.02
    first = str(found.top(1)).splitlines()[1].split()
    assert [float(cell) for cell in first[3:]] == pytest.approx([0.5 - reach, 0.5 + reach], rel=1e-4)
    assert len(str(found.top(99)).splitlines()) == 5
    for count in (0, 1.5, "3"):
        with pytest.raises(ParameterError, match="count"):
            found.top(count)  # type: ignore[arg-type]
