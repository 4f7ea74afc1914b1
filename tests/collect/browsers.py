"""A real browser for tests: the system's Chromium, driven by Playwright, which brings no browser of its own here."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
MISSING = (
    "no Chromium on this machine: pages are not tested in a browser"
    if CHROMIUM is None
    else "no playwright in this environment: pages are not tested in a browser"
    if find_spec("playwright") is None
    else ""
)
PATIENCE = 60_000  # milliseconds for anything to appear
WATCH = """
  globalThis.refusedByPolicy = [];
  document.addEventListener("securitypolicyviolation", (event) =>
    refusedByPolicy.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser; it ends with the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page in a window of its own, and all that went wrong in it."""

    def __init__(self, browser: Any, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", locale="en-GB"
        )
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.page.add_init_script(WATCH)
        self.troubles: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", self._console)

    def _console(self, message: Any) -> None:
        expected = "Failed to load resource" in message.text  # of a collector that is away, or refuses a token
        if message.type in ("error", "warning") and not expected:
            self.troubles.append(message.text)

    def __enter__(self) -> "Watched":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def sound(self) -> None:
        """Nothing went wrong, and the policy refused nothing."""
        assert self.page.evaluate("refusedByPolicy") == []
        assert self.troubles == []

    def enter(self, address: str, token: str) -> None:
        """The live page, with its results."""
        self.page.goto(address)
        self.page.fill("#token", token)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("body[data-version]", state="attached")


def too_wide(page: Any) -> list[str]:
    """What reaches out of the window, but for what scrolls inside itself."""
    return page.evaluate(
        """() => [...document.querySelectorAll('body *')].filter(e => !e.parentElement.closest('.scroll, svg, .boxes'))
          .filter(e => { const r = e.getBoundingClientRect();
                         return r.width && (r.right > innerWidth + .5 || r.left < -.5); })
          .map(e => e.tagName + ' ' + (e.getAttribute('class') || ''))"""
    )


def faults(page: Any) -> list[str]:
    """What axe-core finds that is serious or worse, on this page as it stands."""
    from importlib import resources

    source = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(source)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']} ({each['impact']}): {node['html'][:200]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]
