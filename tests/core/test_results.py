"""One protocol for everything that is estimated: whatever a plan asks, each result can be shown in the same ways."""

import html
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import dither
from dither.core.estimate import SHARES, Bounds, Estimate, Estimates
from dither.core.guarantee import Guarantee
from dither.core.results import Result
from dither.display.estimate_plots import MOST_ITEMS
from dither.errors import MissingExtraError, ParameterError, UnknownError

SCRIPT = Path(__file__).parents[1] / "typed" / "results_script.py"
PROMISE = Guarantee(1.0)
HOSTILE = "<b>&"


@pytest.fixture(scope="module")
def script():
    """The values of a user's script over every kind of result."""
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def results(script):
    estimates = script["estimates"]
    return {
        **estimates,
        "all": estimates,
        "answer": script["answer"],
        "answers": script["ranges"].answers([{"age": (None, 30)}, {"age": (31, None)}]),
        "marginal": script["ranges"]["income"],
        "pair": script["ranges"].marginal("age", "income"),
        "density": script["density"],
        "refined": script["job"].refine(),
    }


def numbers(count: int, **about) -> Estimate:
    return Estimate(np.linspace(0.5, 0.1, count), np.full(count, 0.01), 100, PROMISE, "frequency", **about)


def test_every_result_keeps_the_protocol(results):
    for name, result in results.items():
        assert isinstance(result, Result), name
        rows = len(result.table(0.9))
        assert rows == len(result.to_pandas(0.9)) == result.to_arrow(0.9).num_rows > 0, name
        assert result.guarantee.simulated
        assert result.explain()
        assert "<" in result._repr_html_()
        with pytest.raises(ParameterError, match="between 0 and 1"):
            result.interval(1.5)


def test_what_lacks_a_method_does_not_keep_the_protocol():
    assert not isinstance(np.zeros(3), Result)
    assert not isinstance({"mean(income)": numbers(2)}, Result)


def test_every_result_is_drawn(results):
    pytest.importorskip("matplotlib")
    for name, result in results.items():
        figure = result.plot(level=0.9).figure
        figure.canvas.draw()
        assert figure.axes, name


def test_a_loop_over_a_plan_meets_nothing_without_numbers(script):
    kinds = set()
    for question, result in script["estimates"].items():
        low, high = result.interval()
        assert low.shape == high.shape == np.shape(result.value) == np.shape(result.stderr), question
        assert not (low > high).any()
        assert len(result.item_names) == np.size(result.value)
        kinds.add(type(result).__name__)
    assert kinds == {"Estimate", "RangeEstimate"}


# Several results --------------------------------------------------------------------------------------------------


def test_the_long_form_has_a_row_for_each_number(script):
    estimates = script["estimates"]
    frame = estimates.to_pandas(0.8)
    assert frame.columns.tolist() == ["question", "item", "value", "stderr", "low", "high"]
    assert estimates.to_arrow(0.8).column_names == frame.columns.tolist()
    for question, result in estimates.items():
        rows = frame[frame["question"] == question]
        low, high = (np.ravel(end) for end in result.interval(0.8))
        wanted = [np.ravel(result.value), np.ravel(result.stderr), low, high]
        np.testing.assert_array_equal(rows[["value", "stderr", "low", "high"]].to_numpy().T, wanted)
        assert rows["item"].tolist() == list(result.item_names)
    assert frame[frame["question"] == "mean(income)"]["item"].tolist() == [""]
    assert "age: 20" in frame["item"].tolist()
    table = estimates.table(0.8)
    assert list(table.columns) == ["question", "item", "value", "stderr", "low 80%", "high 80%"]
    assert len(table) == len(frame)


def test_intervals_of_several_results_hold_for_all_numbers_at_once():
    both = Estimates({"one": numbers(3), "other": numbers(5)})
    together, alone = both.interval(0.9, simultaneous=True), both.interval(0.9)
    for name, part in both.items():
        reach = norm.isf(0.1 / 8 / 2) * part.stderr
        np.testing.assert_allclose(together[name].high - part.value, reach, rtol=1e-9)
        np.testing.assert_array_equal(alone[name], part.interval(0.9))
        assert (together[name].high > part.interval(0.9, simultaneous=True).high).all()


def test_intervals_of_ranges_hold_for_all_attributes_at_once(script):
    ranges = script["ranges"]
    low, high = ranges.interval(0.9, simultaneous=True)
    assert low.size == sum(ranges.shown.shape) == 104
    np.testing.assert_allclose(high - ranges.value, norm.isf(0.1 / low.size / 2) * ranges.stderr, rtol=1e-9)
    columns = ranges.table().columns
    assert list(columns) == ["attribute", "item", "share", "stderr", "low 95%", "high 95%"]
    assert columns["attribute"][:1] + columns["attribute"][-1:] == ["age", "income"]
    np.testing.assert_array_equal(columns["share"][:40], ranges["age"].value)


def test_results_of_a_plan_by_their_kind(script):
    estimates = script["estimates"]
    assert estimates.ranges() is estimates.ranges("age", "income") is estimates["ranges(age, income)"]
    assert estimates.single("income") is estimates["mean(income)"]
    with pytest.raises(UnknownError, match=r"name the attributes of one of these results: ranges\(age, income\)"):
        estimates.ranges("age")
    with pytest.raises(UnknownError, match=r"estimates.ranges"):
        estimates.single("ranges(age, income)")
    plain = dither.plan(dither.Schema({"x": dither.Numeric(0, 1)}), 1.0, users=100)
    found = plain.estimate(plain.tally(plain.randomize({"x": [0.5] * 100}, seed=1)))
    with pytest.raises(UnknownError, match="did not ask for ranges"):
        found.ranges()


def test_a_plan_keeps_its_header_in_a_notebook():
    plan = dither.plan(dither.Schema({HOSTILE: dither.Numeric(0, 1)}), 1.0, users=1000)
    title = repr(plan).splitlines()[0]
    assert "1 question for 1,000 users; epsilon 1" in title
    assert plan._repr_html_().startswith(f"<p>{html.escape(title)}</p><table>")
    assert HOSTILE not in plan._repr_html_()


# Tables -----------------------------------------------------------------------------------------------------------


def test_ordered_items_keep_their_order(script):
    shuffled = Estimate(np.array([0.1, 0.4, 0.2, 0.3]), np.full(4, 0.01), 9, PROMISE, labels=list("abcd"))
    assert shuffled.table(most=3).columns["item"] == ["b", "d", "c"]
    cells = replace(shuffled, edges=np.arange(5.0))
    for own in (replace(shuffled, ordered=True), cells):
        assert own.table(most=3).columns["item"] == ["b", "c", "d"]
        assert own.ordered
        assert [row[0] for row in own.top(3).rows()] == ["b", "d", "c"]  # what is asked for is the largest
    ages = script["estimates"]["distribution(age)"].table(most=10).columns["item"]
    assert ages == sorted(ages, key=int)
    jobs = script["estimates"]["histogram(job)"]
    assert not jobs.ordered
    for name in ("age", "income"):
        assert script["ranges"][name].ordered
    assert script["density"].ordered


def test_cells_need_their_edges():
    with pytest.raises(ParameterError, match="one edge more"):
        numbers(4, edges=np.arange(4.0))


def test_a_number_of_its_own_is_no_item():
    one = Estimate(np.array(0.5), np.array(0.1), 10, PROMISE, "mean(x)")
    assert list(one.table().columns) == ["mean(x)", "stderr", "low 95%", "high 95%"]
    assert one.to_arrow().column_names == one.to_pandas().columns.tolist() == list(one.table().columns)
    assert repr(one).splitlines()[1].split()[0] == "mean(x)"
    assert next(iter(numbers(1).table().columns)) == "item"  # one of a list


# Pictures ---------------------------------------------------------------------------------------------------------


def drawn(axes) -> tuple[np.ndarray, np.ndarray]:
    """Where points stand, across and up."""
    (line,) = (line for line in axes.lines if line.get_marker() == "o")
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def segments(axes) -> list[np.ndarray]:
    """The error bars, from end to end."""
    return axes.collections[0].get_segments()


def names(axes) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


def test_items_are_drawn_largest_first_and_ordered_ones_in_their_order():
    pytest.importorskip("matplotlib")
    found = Estimate(np.array([0.1, 0.4, 0.2]), np.full(3, 0.01), 9, PROMISE, labels=list("abc"), bounds=SHARES)
    axes = found.plot()
    assert names(axes) == ["b", "c", "a"]
    assert drawn(axes)[0].tolist() == [0.4, 0.2, 0.1]
    assert axes.get_xlabel() == "share of users"
    low, high = (np.sort(end) for end in found.interval(0.9))
    bars = np.sort([segment[:, 0] for segment in segments(found.plot(level=0.9))], axis=0)
    np.testing.assert_allclose(bars.T, [low, high])
    ordered = Estimate(found.value, found.stderr, 9, PROMISE, labels=list("abc"), ordered=True)
    assert names(ordered.plot()) == ["a", "b", "c"]
    cells = Estimate(found.value, found.stderr, 9, PROMISE, edges=np.array([0.0, 2.0, 4.0, 6.0])).plot()
    assert drawn(cells)[0].tolist() == [1, 3, 5]
    assert drawn(cells)[1].tolist() == found.value.tolist()


def test_of_many_items_the_largest_are_drawn_with_intervals_for_all():
    pytest.importorskip("matplotlib")
    many = numbers(500)
    axes = many.plot()
    assert len(drawn(axes)[0]) == MOST_ITEMS
    assert axes.get_xlabel() == f"frequency (the {MOST_ITEMS} largest of 500)"
    assert "for all at once" in axes.get_title(loc="left")
    segment = segments(axes)[0]
    assert segment[1, 0] - segment[0, 0] == pytest.approx(2 * norm.isf(0.05 / 1000) * 0.01)
    steps = numbers(500, edges=np.arange(501.0)).plot()
    assert len(steps.patches) == 2  # a line of steps, and its band


def test_a_number_is_drawn_on_its_domain():
    pytest.importorskip("matplotlib")
    one = Estimate(np.array(20.0), np.array(3.0), 10, PROMISE, "mean(age)", bounds=Bounds(0, 99))
    axes = one.plot()
    assert drawn(axes)[0].tolist() == [20.0]
    assert axes.get_xlim()[0] < 0
    assert axes.get_xlim()[1] > 99
    assert axes.get_xlabel() == "mean(age)"
    far = Estimate(np.array([50.0, 51.0]), np.full(2, 0.1), 10, PROMISE, "mean").plot()
    assert far.get_xlim()[0] > 40  # not stretched to 0
    endless = Estimate(np.array(20.0), np.array(3.0), 10, PROMISE, "mean(age)").plot()
    assert endless.get_xlim()[1] < 99
    unknown = Estimate(np.array(np.nan), np.array(np.inf), 0, PROMISE, "mean(age)").plot()
    assert unknown.texts[0].get_text() == "no reports yet"


def test_pictures_stand_beside_each_other():
    pytest.importorskip("matplotlib")
    figure = Estimates({f"mean(x{number})": numbers(2) for number in range(30)}).plot()
    assert len([axes for axes in figure.axes if axes.get_title(loc="left")]) == 24
    assert figure.get_supxlabel() == "... and 6 more"
    assert figure.axes[0].get_title(loc="left").startswith("mean(x0)\n")


def test_without_matplotlib_the_extra_is_named(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for result in results.values():
        with pytest.raises(MissingExtraError, match=r"dither\[plot\]"):
            result.plot()


# Types ------------------------------------------------------------------------------------------------------------


def type_errors(code: str) -> list[str]:
    """What a strict check of the types of a script says."""
    root = SCRIPT.parents[2]
    snippets = runpy.run_path(str(root / "docs" / "snippets.py"))
    return snippets["errors"]({"script.md": f"```python\n{code}```\n"})


@pytest.mark.wide
def test_a_users_script_is_typed():
    code = SCRIPT.read_text()
    assert not type_errors(code)
    wrong = code + "estimates['income'].valu\nranges.table('age', 'income')\ntotal = job.value + 'a'\ntold(people)\n"
    assert len(type_errors(wrong)) >= 4
