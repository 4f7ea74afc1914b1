"""The live page in a real browser: it enters, follows, asks and explores, also when the collector goes away."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dither
from collect.browsers import MISSING, PATIENCE, Watched, chromium, faults, too_wide
from collect.collectors import Served, serving, started, waited_for
from collect.shufflers import ended
from dither.collect import SqliteStore
from dither.collect.store import CLOSED
from dither.page.live_outlook import outlooks, users_written
from dither.wire import BatchFormat
from marks import wide

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

JOBS = ["nurse", "driver", "teacher", "other"]
FILMS = ["Alien", "Brazil", "Casablanca", "Dune"]
USERS = 3000


def rich_plan() -> dither.Plan:
    """Means, shares, a cross table, keys and ranges."""
    schema = dither.Schema(
        {
            "age": dither.Ordinal(18, 90),
            "income": dither.Numeric(0, 200_000),
            "job": dither.Categorical(JOBS),
            "commute": dither.Categorical(["walk", "bike", "car"]),
            "films": dither.KeyValue(keys=FILMS, low=1, high=5, size=2),
        }
    )
    ask = ["mean(income)", "histogram(job)", "table(job, commute)", "films", "ranges(age, income, job)"]
    return dither.plan(schema, epsilon=4.0, users=10_000, ask=ask)


def people(count: int) -> dict[str, list[Any]]:
    """Made-up users."""
    draw = np.random.default_rng(1)
    age = np.clip(draw.normal(42, 14, count), 18, 90).astype(int)
    return {
        "age": age.tolist(),
        "income": np.clip(15_000 + 900 * (age - 18) + draw.gamma(2, 9000, count), 0, 200_000).tolist(),
        "job": draw.choice(JOBS, count).tolist(),
        "commute": draw.choice(["walk", "bike", "car"], count).tolist(),
        "films": [
            {str(film): float(draw.integers(1, 6)) for film in draw.choice(FILMS, 2, False)} for _ in range(count)
        ],
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def plan() -> dither.Plan:
    return rich_plan()


@pytest.fixture(scope="module")
def bodies(plan) -> list[bytes]:
    return list(BatchFormat(plan).pack_batches(plan.randomize(people(USERS)), 250))


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("browser") / "store"


@pytest.fixture(scope="module")
def served(place, plan, bodies) -> Iterator[Served]:
    """A collector with all reports; it is asked, and not changed."""
    with serving(place, plan) as found:
        for number, body in enumerate(bodies):
            assert found.send(plan, body, str(number))[0] == 200
        waited_for(lambda: counted(place) == USERS)
        yield found


@pytest.fixture(scope="module")
def token(served, place) -> str:
    return (place / "analyst.token").read_text().strip()


@pytest.fixture(scope="module")
def estimates(plan, bodies) -> Any:
    form = BatchFormat(plan)
    return plan.estimate(form.tally([form.check(body) for body in bodies]))


def counted(place: Path) -> int:
    with SqliteStore(place) as store:
        return sum(tally.reports for tally in store.counted(1).tallies.values())


def address_of(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}/"


def shows(page: Any, reports: int, name: str = "of them in the results below") -> None:
    """Wait until the page shows so many reports."""
    page.wait_for_selector(f'[data-part="facts"] div:has(> dt:text-is("{name}")) dd:text-is("{reports:,}")')


# Coming in ------------------------------------------------------------------------------------------------------------


def test_a_token_opens_the_page_and_stays_in_its_tab(browser, served, token):
    with Watched(browser) as window:
        page = window.page
        page.goto(address_of(served))
        page.fill("#token", "no such token at all")
        page.keyboard.press("Enter")
        page.wait_for_selector("#refused:not(:empty)")
        assert "not known here" in page.inner_text("#refused")
        assert page.is_hidden("#view")
        page.fill("#token", token)
        page.keyboard.press("Enter")
        shows(page, USERS)
        assert token not in page.url
        assert (page.evaluate("document.cookie"), page.evaluate("localStorage.length")) == ("", 0)
        assert window.context.cookies() == []
        assert token not in page.content()
        page.reload()
        shows(page, USERS)
        other = window.context.new_page()
        other.goto(address_of(served))
        assert other.is_visible("#enter")
        page.click("#leave")
        page.wait_for_selector("#enter", state="visible")
        assert page.evaluate("sessionStorage.length") == 0
        assert page.locator('[data-part="results"]').inner_html() == ""
        window.sound()


def test_all_that_is_promised_is_there(browser, served, token, plan):
    with Watched(browser) as window:
        window.enter(address_of(served), token)
        shows(window.page, USERS)
        text = window.page.inner_text("#view")
        for words in (
            "Reports over time",
            "How far it is",
            "What came out",
            "Keys and their values",
            "Combinations",
            "By a condition",
            "By a range of two attributes",
            "By the device alone (local)",
            "Behind a shuffler",
            "Goodness of fit",
            "How far liars can move it (poisoning)",
            "Rejected reports",
            plan.fingerprint,
        ):
            assert words in text, words
        assert window.page.locator(".heat img").count() >= 5
        moved = window.page.locator(".x, .y").evaluate_all(
            "all => all.filter(e => !e.style.left && !e.style.bottom).length"
        )
        assert moved == 0  # places of words are set, though no style attribute came
        window.sound()


# Following ------------------------------------------------------------------------------------------------------------


def test_it_follows_a_collection_through_a_kill_a_restart_and_no_network(browser, plan, bodies, tmp_path):
    """No reload in between: what the page shows is what was counted, and at the end it says that it is the end."""
    store = tmp_path / "store"
    collector = started(store, plan)
    try:
        token, port = (store / "analyst.token").read_text().strip(), collector.port
        with Watched(browser) as window:
            page = window.page
            window.enter(address_of(collector), token)
            page.evaluate("globalThis.same = true")
            assert "No report has come yet" in page.inner_text('[data-part="arrivals"]')
            assert collector.send(plan, bodies[0], "0")[0] == 200
            shows(page, 250)
            before = page.inner_text("#question-1")
            collector.kill()
            page.wait_for_selector('[data-live="away"]')
            ended(collector)
            collector = started(store, options=("--port", str(port)))
            page.wait_for_selector('[data-live="live"]')
            assert collector.send(plan, bodies[0], "0")[1]["duplicate"]
            assert collector.send(plan, bodies[1], "1")[0] == 200
            shows(page, 500)
            assert page.inner_text("#question-1") != before
            window.context.set_offline(True)
            page.wait_for_selector('[data-live="away"]')
            assert collector.send(plan, bodies[2], "2")[0] == 200
            window.context.set_offline(False)
            shows(page, 750)
            page.wait_for_selector('[data-live="live"]')
            with SqliteStore(store) as opened:
                opened.change_campaign(1, state=CLOSED)
            page.wait_for_selector('[data-live="over"]')
            assert page.evaluate("same") is True
            page.wait_for_selector('[data-part="facts"] dd:text-is("closed")')
            window.sound()
    finally:
        ended(collector)


@pytest.mark.wide
def test_what_a_reader_has_opened_stays_open(browser, plan, bodies, tmp_path):
    with serving(tmp_path / "store", plan) as collector, Watched(browser) as window:
        page = window.page
        assert collector.send(plan, bodies[0], "0")[0] == 200
        window.enter(address_of(collector), (tmp_path / "store" / "analyst.token").read_text().strip())
        shows(page, 250)
        page.locator("#question-1 summary").click()
        page.fill("#within", "5")
        assert collector.send(plan, bodies[1], "1")[0] == 200
        shows(page, 500)
        page.wait_for_selector("#question-1 details[open]")
        assert page.input_value("#within") == "5"
        page.locator("#question-1 summary").focus()
        assert collector.send(plan, bodies[2], "2")[0] == 200
        shows(page, 750)
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
        window.sound()


# Asking ---------------------------------------------------------------------------------------------------------------


def test_how_many_users_are_needed_is_what_python_says(browser, served, token, plan, estimates):
    with Watched(browser) as window:
        window.enter(address_of(served), token)
        shows(window.page, USERS)
        for within in ("1", "0.25", "12"):
            window.page.fill("#within", within)
            rows = window.page.locator("tr[data-users]").all()
            for row, each in zip(rows, outlooks(plan, estimates), strict=True):
                needed = each.needed(float(within) / 100)
                told = [users_written(needed), users_written(max(0.0, needed - each.users))]
                assert [row.locator("td").nth(3).inner_text(), row.locator("td").nth(4).inner_text()] == told
        window.sound()


def interval_in(text: str) -> list[float]:
    """The share and the ends of its interval, in per cent."""
    return [float(each) for each in re.search(r"([\d.]+)%\s+([\d.]+) to ([\d.]+)%", text).groups()]  # type: ignore[union-attr]


def near(text: str, estimates: Any, condition: str) -> None:
    """The numbers on the page are those of the estimate, as far as they are written."""
    answer = estimates.ranges().where(condition)
    low, high = answer.interval(0.95)
    assert interval_in(text) == pytest.approx([100 * float(each) for each in (answer.value, low, high)], abs=0.51)


def test_conditions_are_answered_by_keyboard(browser, served, token, estimates):
    condition = "age between 30 and 49 and job in ('nurse', 'driver')"
    with Watched(browser) as window:
        page = window.page
        window.enter(address_of(served), token)
        page.wait_for_selector("#map .brush")
        page.focus("#condition")
        page.keyboard.type(condition)
        page.keyboard.press("Enter")
        page.wait_for_selector("#answers .answer")
        near(page.inner_text("#answers"), estimates, condition)
        page.fill("#condition", "age between 30 and")
        page.keyboard.press("Enter")
        page.wait_for_selector("#ask-problem:not(:empty)")
        assert "cannot be read as SQL" in page.inner_text("#ask-problem")
        page.click("#example")
        page.keyboard.press("Enter")
        page.wait_for_selector("#answers > :nth-child(2)")
        assert page.inner_text("#ask-problem") == ""
        window.sound()


def test_the_range_explorer_works_by_keyboard_and_by_pointer(browser, served, token, estimates):
    with Watched(browser) as window:
        page = window.page
        window.enter(address_of(served), token)
        page.wait_for_selector("#map .brush")
        assert page.inner_text("#share") == "All users are inside."
        low, high = (page.locator("#sides fieldset").nth(0).locator("input").nth(end) for end in (0, 1))
        low.focus()
        page.keyboard.press("Control+A")
        page.keyboard.type("30")
        page.keyboard.press("Tab")
        assert high.evaluate("input => input === document.activeElement")
        page.keyboard.press("Control+A")
        page.keyboard.type("49")
        page.wait_for_selector('#share .answer:has-text("age between 30 and 49")')
        near(page.inner_text("#share"), estimates, "age between 30 and 49")
        box = page.locator(".pick").evaluate("pick => [pick.style.left, pick.style.width].map(parseFloat)")
        assert box == pytest.approx([100 * 12 / 73, 100 * 20 / 73], abs=0.01)  # of 73 ages, from 18
        page.locator("#map .brush").scroll_into_view_if_needed()
        frame = page.locator("#map .brush").bounding_box()
        page.mouse.move(frame["x"] + 0.25 * frame["width"], frame["y"] + 0.5 * frame["height"])
        page.mouse.down()
        page.mouse.move(frame["x"] + 0.5 * frame["width"], frame["y"] + 0.9 * frame["height"])
        page.mouse.up()
        ages = 18 + int(0.25 * 73), 18 + int(0.5 * 73)
        page.wait_for_selector(f'#share .answer:has-text("age between {ages[0]} and {ages[1]}")')
        text = page.inner_text("#share")
        near(text, estimates, text.splitlines()[0])
        assert low.input_value() == str(ages[0])
        page.select_option("#second", "job")
        page.wait_for_selector("#sides .boxes")
        page.locator("#sides .boxes input").nth(0).focus()
        page.keyboard.press("Space")
        page.wait_for_selector("#share .answer:has-text(\"job in ('driver', 'teacher', 'other')\")")
        near(page.inner_text("#share"), estimates, "job in ('driver', 'teacher', 'other')")
        page.select_option("#first", "job")
        page.wait_for_selector("#ask-problem:not(:empty)")
        window.sound()


# For everybody --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1280, "dark"), wide(400, "dark"), wide(1280, "light")])
def test_axe_finds_no_serious_fault_and_nothing_reaches_out_of_the_window(browser, served, token, width, scheme):
    with Watched(browser, width, 900, scheme) as window:
        page = window.page
        page.goto(address_of(served))
        assert (faults(page), too_wide(page)) == ([], [])
        window.enter(address_of(served), token)
        page.wait_for_selector("#map .brush")
        page.fill("#condition", "age < 40")
        page.keyboard.press("Enter")
        page.wait_for_selector("#answers .answer")
        assert (faults(page), too_wide(page)) == ([], [])
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.goto(address_of(served) + "join")
        page.wait_for_selector("#make")
        assert (faults(page), too_wide(page)) == ([], [])


def test_axe_would_find_a_fault(browser, served):
    with Watched(browser) as window:
        window.page.goto(address_of(served))
        window.page.evaluate("document.querySelector('#enter label').remove()")
        assert any(each.startswith("label") for each in faults(window.page))


def test_the_first_paint_of_twenty_questions_transfers_little(browser, tmp_path, capsys):
    """At most 200 kB over the wire, headers and all, until results are there."""
    labels = [f"label {number}" for number in range(12)]
    schema = dither.Schema(
        {
            **{f"share {number}": dither.Categorical(labels) for number in range(8)},
            **{f"age {number}": dither.Ordinal(0, 99) for number in range(4)},
            **{f"income {number}": dither.Numeric(0, 1000) for number in range(4)},
            "films": dither.KeyValue(keys=[f"film {number}" for number in range(50)], low=1, high=5, size=3),
        }
    )
    ask = [*schema, "table(share 0, share 1)", "ranges(age 0, income 0, share 2)"]
    plan = dither.plan(schema, epsilon=8.0, users=20_000, ask=ask)
    assert len(plan.questions) == 20
    draw = np.random.default_rng(1)
    table: dict[str, list[Any]] = {
        name: draw.choice(labels, USERS).tolist() for name in schema if name.startswith("sh")
    }
    table |= {f"age {number}": draw.integers(0, 100, USERS).tolist() for number in range(4)}
    table |= {f"income {number}": draw.uniform(0, 1000, USERS).tolist() for number in range(4)}
    table["films"] = [{f"film {number}": 3.0} for number in draw.integers(0, 50, USERS)]
    with serving(tmp_path / "store", plan) as collector, Watched(browser) as window:
        assert collector.send(plan, plan.pack(plan.randomize(table)), "all")[0] == 200
        token = (tmp_path / "store" / "analyst.token").read_text().strip()
        waited_for(lambda: counted(tmp_path / "store") >= USERS)
        page, sizes = window.page, list[float]()
        events = window.context.new_cdp_session(page)
        events.send("Network.enable")
        events.on("Network.responseReceived", lambda event: sizes.append(event["response"]["encodedDataLength"]))
        events.on("Network.dataReceived", lambda event: sizes.append(event["encodedDataLength"]))
        window.enter(address_of(collector), token)
        page.wait_for_selector("#map .brush")
        assert page.locator(".card[id]").count() >= 20
        window.sound()
    with capsys.disabled():
        print(f"\nfirst paint of 20 questions: {sum(sizes) / 1000:.0f} kB transferred")
    assert 20_000 < sum(sizes) <= 200_000


# The demonstration ----------------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_the_demonstration_prints_where_its_live_page_is_and_how_to_get_in(browser, tmp_path):
    command = [sys.executable, "-u", "-m", "dither", "demo", "--serve", "--most", "300", "-o", str(tmp_path / "demo")]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ))
    try:
        assert demo.stdout is not None
        said = ""
        for line in demo.stdout:
            said += line
            if "Ctrl-C" in said and "beside it" in said:
                break
        told = " ".join(said.split())
        address = re.search(r"Live results: (http://\S+/) \(the token is in (.+?)\)\. For", told)
        assert address, said[-2000:]
        token = Path(address[2].replace(" ", "")).read_text().strip()
        with Watched(browser) as window:
            window.enter(address[1], token)
            window.page.wait_for_selector("#question-1")
            window.sound()
    finally:
        demo.terminate()
        demo.wait(PATIENCE / 1000)
        assert demo.stdout is not None
        demo.stdout.close()
