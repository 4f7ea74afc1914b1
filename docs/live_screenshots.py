"""Take the pictures of the live page and of the page for participants that the documentation shows.

    python docs/live_screenshots.py

A collector on this machine gets the reports of 40,000 made-up people, some of them while the page looks on; Chromium
takes the pictures. They are of real pages with real noise, so they differ a little each time.
"""

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import dither
from dither.collect import Client

HERE = Path(__file__).parent
USERS = 40_000
JOBS, WAYS = ["nurse", "driver", "teacher", "engineer", "other"], ["on foot", "bicycle", "bus", "car"]
FILMS = ["Alien", "Brazil", "Casablanca", "Dune", "Eraserhead", "Fargo"]


def made_plan() -> dither.Plan:
    """A plan with something of every kind."""
    schema = dither.Schema(
        {
            "age": dither.Ordinal(18, 90),
            "income": dither.Numeric(0, 200_000),
            "job": dither.Categorical(JOBS),
            "commute": dither.Categorical(WAYS),
            "films": dither.KeyValue(keys=FILMS, low=1, high=5, size=3),
        }
    )
    ask = ["mean(income)", "histogram(job)", "table(job, commute)", "films", "ranges(age, income, job)"]
    return dither.plan(schema, epsilon=3.0, users=100_000, ask=ask)


def made_people(count: int) -> dict[str, list[Any]]:
    """Who are older earn more; nurses walk, and engineers take the car."""
    draw = np.random.default_rng(3)
    age = np.clip(draw.normal(42, 14, count), 18, 90).astype(int)
    job = draw.choice(5, count, p=[0.3, 0.2, 0.2, 0.18, 0.12])
    way = np.where(draw.random(count) < 0.6, np.minimum(job, 3), draw.choice(4, count))
    liked = draw.random((count, len(FILMS))) < np.linspace(0.5, 0.1, len(FILMS))
    return {
        "age": age.tolist(),
        "income": np.clip(12_000 + 900 * (age - 18) + draw.gamma(2, 8000, count), 0, 200_000).tolist(),
        "job": [JOBS[each] for each in job],
        "commute": [WAYS[each] for each in way],
        "films": [
            {FILMS[film]: float(np.clip(round(4.5 - 0.4 * film), 1, 5)) for film in np.flatnonzero(row)[:3]}
            for row in liked
        ],
    }


@contextmanager
def collector(folder: Path) -> Iterator[str]:
    """A collector for the plan in a folder; its address."""
    command = [sys.executable, "-m", "dither", "serve", "plan.json", "--port", "0"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{address}/v1/health").close()  # noqa: S310 - on this machine
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


def entered(browser: Any, address: str, token: str, width: int, height: int, scheme: str) -> Any:
    """The live page in a window of its own."""
    page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", locale="en-GB"
    )
    page.goto(f"{address}/")
    page.fill("#token", token)
    page.keyboard.press("Enter")
    page.wait_for_selector("#map .brush", timeout=120_000)
    page.wait_for_selector('[data-live="live"]')
    return page


def explored(page: Any) -> None:
    """A condition asked, and a rectangle drawn."""
    page.fill("#condition", "age between 30 and 45 and job in ('nurse', 'teacher')")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answers .answer")
    page.locator("#map .brush").scroll_into_view_if_needed()
    box = page.locator("#map .brush").bounding_box()
    page.mouse.move(box["x"] + 0.15 * box["width"], box["y"] + 0.62 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.88 * box["height"], steps=5)
    page.mouse.up()
    page.wait_for_selector("#share .answer")


def pictures(address: str, token: str) -> None:
    """All of them."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = entered(browser, address, token, 1280, 1120, "light")
        page.screenshot(path=HERE / "live-page.png")
        explored(page)
        ask = page.locator("#ask").bounding_box()
        page.screenshot(
            path=HERE / "live-page-explorer.png",
            full_page=True,
            clip={"x": 0, "y": ask["y"] + page.evaluate("scrollY") - 24, "width": 1280, "height": ask["height"] + 48},
        )
        page.locator(".cards.ranges .card").first.screenshot(path=HERE / "live-page-ranges.png")
        phone = entered(browser, address, token, 400, 860, "dark")
        phone.screenshot(path=HERE / "live-page-phone.png")
        phone.locator('[data-part="results"] h2').scroll_into_view_if_needed()
        phone.evaluate("document.querySelector('.cards.shares').scrollIntoView()")
        phone.screenshot(path=HERE / "live-page-phone-results.png")
        page = browser.new_page(viewport={"width": 1280, "height": 900}, locale="en-GB")
        page.goto(f"{address}/join")
        page.fill("[id='field-age']", "41")
        page.fill("[id='field-income']", "52000")
        page.select_option("[id='field-job']", label="nurse")
        page.select_option("[id='field-commute']", label="bicycle")
        page.click("#make")
        page.wait_for_selector("#report:not([hidden])")
        page.click("#send")
        page.wait_for_selector("#sent:has-text('counted once')")
        place = "e => e.getBoundingClientRect().{} + scrollY"
        top = page.locator("#answers-form").evaluate(place.format("top")) - 60
        bottom = page.locator("#sent").evaluate(place.format("bottom")) + 16
        page.screenshot(
            path=HERE / "join-page.png",
            full_page=True,
            clip={"x": 0, "y": top, "width": 1280, "height": bottom - top},
        )
        browser.close()


def main() -> None:
    """A collection, and its pictures."""
    plan, people = made_plan(), made_people(USERS)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        plan.save(folder / "plan.json")
        with collector(folder) as address:
            first = Client(address, folder / "first", plan=plan)
            for start in range(0, USERS, USERS // 8):  # over some minutes, so that there is something to see
                part = {name: column[start : start + USERS // 8] for name, column in people.items()}
                first.send_reports(plan.randomize(part))
                if start + USERS // 8 < USERS:
                    time.sleep(45)
            time.sleep(3)
            pictures(address, (folder / "store" / "analyst.token").read_text().strip())
    for each in sorted(HERE.glob("*-page*.png")):
        print(f"{each.name}: {each.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
