"""What a page shows of a collection while it runs, without a server and without a browser."""

import math
import re

import numpy as np
import pytest

import dither
from dither.core.guarantee import Guarantee
from dither.core.reports import Reports
from dither.display.significant_digits import percent_size, size
from dither.page.export import compared
from dither.page.figures import heat_map, heat_sides
from dither.page.html_page import html_page
from dither.page.live_frames import choice_frame, join_frame, live_frame
from dither.page.live_outlook import HALF_WIDTH, Outlook, outlooks
from dither.page.live_sections import (
    Arrived,
    Shuffled,
    answer_section,
    arrival_sections,
    estimate_sections,
    explored,
    pair_section,
    promise_section,
    strict,
)
from dither.planning.trial import answers_of
from dither.ranges.axes import Axes

EVIL = '<script>alert`x`</script>" style="left:0'
USERS = 4000


@pytest.fixture(scope="module")
def plan() -> dither.Plan:
    schema = dither.Schema(
        {
            "age": dither.Ordinal(0, 15),
            "income": dither.Numeric(0, 1000),
            EVIL: dither.Categorical(["nurse", EVIL, "other"]),
        }
    )
    return dither.plan(
        schema, 4.0, users=8000, ask=["mean(income)", f"histogram({EVIL})", f"ranges(age, income, {EVIL})"]
    )


@pytest.fixture(scope="module")
def tally(plan):
    rows = np.arange(USERS)
    table = {
        "age": (rows % 16).tolist(),
        "income": (rows % 1000).tolist(),
        EVIL: [("nurse", EVIL, "other")[i % 3] for i in range(USERS)],
    }
    return plan.tally(plan.randomize(table, seed=1))


@pytest.fixture(scope="module")
def estimates(plan, tally):
    return plan.estimate(tally)


def arrived(**more) -> Arrived:
    facts = {"state": "open", "closes": None, "accepted": {}, "rejected": {}, "refused": {}, "counted": 0}
    return Arrived(**{**facts, **more})


def test_cards_are_those_of_the_report_to_the_letter(plan, tally, estimates):
    """The same code draws both: every card of the page stands in the report, but for how places are written."""
    shown = estimate_sections(plan, estimates, plan.goodness(tally))["results"]
    cards = re.findall("<article.*?</article>", shown, re.S)
    assert len(cards) == 3
    report = html_page(plan, estimates)
    assert all(card in report for card in cards)


def test_nothing_that_came_from_data_is_markup(plan, tally, estimates):
    parts = {
        **estimate_sections(plan, estimates, plan.goodness(tally)),
        **arrival_sections(plan, arrived(accepted={5: 3}, rejected={EVIL: 2}, refused={EVIL: 1})),
        "promise": promise_section(plan, Shuffled(1, 5, 5, None, EVIL)),
        "pair": pair_section(estimates.ranges(), "age", EVIL)[0],
        "answer": answer_section(answers_of(plan, estimates, ["age < 3"])),
    }
    for name, text in {**strict(parts), "join": join_frame(plan, plan.statement()), "live": live_frame()}.items():
        assert "<script>" not in text, name
        assert ' style="' not in text, name
        assert not re.search(r"\son[a-z]+=", text), name
    assert "data-style=" in strict(parts)["pair"]
    assert EVIL not in choice_frame({"0" * 64: EVIL})


def test_errors_shrink_with_the_root_of_the_number_of_users(plan, estimates):
    """What is told for four times the users is what twice the precision needs, and what an estimate of them states."""
    for each in outlooks(plan, estimates):
        assert each.users == USERS
        assert math.hypot(each.noise / 2, each.doubt) == pytest.approx(each.after(4 * USERS))
        if not each.doubt:
            within = HALF_WIDTH * each.now / each.width
            assert each.needed(within) == pytest.approx(USERS)
            assert each.needed(within / 2) == pytest.approx(4 * USERS)


def test_the_error_now_is_the_one_that_the_report_states(plan, estimates):
    stated = compared(plan, estimates).columns["stated"]
    assert [each.now for each in outlooks(plan, estimates)] == pytest.approx(stated)


def test_what_more_users_cannot_do_is_not_promised():
    doubtful = Outlook("ranges(a, b)", 1000, 0.01, 0.02, 0.01, 1.0, True)
    assert doubtful.needed(0.02 * HALF_WIDTH) == math.inf  # the doubt alone is as large
    assert doubtful.needed(math.hypot(0.01, 0.02) * HALF_WIDTH) == pytest.approx(1000)
    total = Outlook("total(income)", 1000, 10.0, 0.0, 10.0, 100.0, False, total=True)
    assert (total.after(4000), total.needed(0.5)) == (20.0, math.inf)


def test_cells_of_a_map_are_what_their_sides_say(plan, estimates):
    """Each cell of the picture is between the edges, or has the label, that the explorer takes it for."""
    found = estimates.ranges()
    table = found.joint("age", "income")
    across, up = heat_sides(found.shown[0], found.shown[1], table)
    assert (across.name, across.whole, len(across.edges)) == ("age", True, 17)
    assert (across.edges[0], across.edges[-1]) == (-0.5, 15.5)
    assert (up.name, up.whole, up.edges[0], up.edges[-1]) == ("income", False, 0.0, 1000.0)
    assert len(up.edges) == table.shape[1] + 1
    drawn, sides = pair_section(found, EVIL, "age")  # labels stand at the side
    assert [side["name"] for side in sides] == ["age", EVIL]
    assert (list(sides[1]["labels"]), sides[1]["complete"]) == (["nurse", EVIL, "other"], True)
    assert "heat named" in drawn


def test_a_map_of_many_labels_says_that_it_has_the_largest():
    labels = [f"town {i}" for i in range(50)]
    schema = dither.Schema({"town": dither.Categorical(labels), "age": dither.Ordinal(0, 400)})
    town, age = Axes.of_schema(schema)
    table = np.outer(np.arange(50.0), np.ones(401)) / 1e6
    across, side = heat_sides(town, age, table)
    assert side.labels == tuple(reversed(labels))[:20]
    assert len(across.edges) - 1 == 201  # pairs of ages: more cells than 256 are put together
    assert (across.edges[0], across.edges[-1]) == (-0.5, 400.5)
    assert heat_map(town, age, table).count('class="y"') == 20


@pytest.mark.parametrize(
    ("minutes", "told"), [(1, "a minute"), (119, "a minute"), (500, "5 minutes"), (200_000, "7 days")]
)
def test_reports_over_time_are_all_there(plan, minutes, told):
    accepted = {29_000_000 + minute: 1 for minute in range(minutes)}
    found = arrival_sections(plan, arrived(accepted=accepted))
    assert f">{minutes:,}</dd>" in found["facts"]
    assert f"Reports in spans of {told};" in found["arrivals"]
    assert found["arrivals"].count("<path") == 2


def test_before_the_first_report(plan):
    found = arrival_sections(plan, arrived())
    assert "No report has come yet" in found["arrivals"]
    assert "No report was rejected" in found["rejected"]


def test_rejected_reports_are_told_by_reason(plan):
    found = arrival_sections(plan, arrived(accepted={1: 8}, rejected={"out of range": 2}, refused={"malformed": 3}))
    assert "2 of 10 reports were rejected" in found["rejected"]
    assert re.search("out of range</th><td[^>]*>2<", found["rejected"])
    assert re.search("malformed</th><td[^>]*>3<", found["rejected"])


def test_the_guarantee_is_told_for_the_device_alone_and_behind_a_shuffler(plan):
    alone = promise_section(plan, None)
    assert ("local differential privacy, epsilon 4" in alone, "These reports come without one" in alone) == (True, True)
    shuffled = promise_section(plan, Shuffled(3, 900, 200, Guarantee(0.5, 1e-6, "bound", model="shuffled")))
    assert "3 batches of 900 users; the smallest has 200" in shuffled
    assert "shuffle differential privacy, epsilon 0.5" in shuffled
    assert "epsilon 0.5" not in alone
    crowd = dither.plan(dither.Schema({"a": dither.Categorical(["x", "y"])}), central=0.5, delta=1e-6, users=10_000)
    assert "No batch has been forwarded yet" in promise_section(crowd, None)


def test_lies_and_their_bound_are_told(plan, tally, estimates):
    trust = estimate_sections(plan, estimates, plan.goodness(tally))["trust"]
    assert "Honest reports may have made this tally" in trust
    moved = plan.influence(0.01)
    for worth in moved.worths:
        shift = float(worth.worst_shift(moved.share))
        assert (size(shift) if worth.question == "mean(income)" else percent_size(shift)) in trust
    grr = dither.plan(dither.Schema({"job": dither.Categorical(["a", "b", "c"])}), 1.0, users=1000)
    (part,) = grr.parts
    one = Reports.wrap(np.repeat(part.mechanism.outputs()[:1], 3000), grr.tag(part), simulated=True)
    forged = grr.tally({part.name: one})
    found = estimate_sections(grr, grr.estimate(forged), grr.goodness(forged))["trust"]
    assert "Not all of these reports are honest" in found


def test_what_can_be_explored(plan, estimates):
    (found,) = explored(plan, estimates)
    assert found["attributes"] == ["age", "income", EVIL]
    assert len(answers_of(plan, estimates, [found["example"]]).answers.value) == 1
