"""The page of docs/web-page.md as it is, in a real Chromium, against a real collector."""

import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from functools import partial
from pathlib import Path

import pytest

import dither
from javascript.test_client import BROWSER, CLIENT, NODE, needs_node
from javascript.vectors import ROOT

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

FILL_IN = """
import { chromium } from "playwright-core";
const [path, url] = process.argv.slice(1);
const browser = await chromium.launch({ executablePath: path, args: ["--no-sandbox"], timeout: 120_000 });
const page = await (await browser.newContext()).newPage();
page.setDefaultTimeout(60_000);
const said = [];
page.on("console", (message) => said.push(message.text()));
page.on("pageerror", (error) => said.push(String(error)));
const visit = async () => {
  await page.goto(url);
  await page.waitForFunction(() => document.getElementById("told").textContent.includes("factor"));
  await page.fill("input[name=age]", "41");
  await page.selectOption("select", "teacher");
  await page.click("button");
  await page.waitForFunction(() => !document.getElementById("told").textContent.includes("factor"));
  return page.textContent("#told");
};
const visits = [await visit(), await visit()];
console.log(JSON.stringify([...visits, said.filter((line) => !line.includes("404"))])); // there is no favicon
await browser.close();
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        del format, args


@needs_node
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: the page of the documentation is not opened")
def test_the_page_of_the_documentation_works(tmp_path: Path):
    text = (ROOT / "docs" / "web-page.md").read_text(encoding="utf-8")
    page = re.search(r"```html\n(.*?)```", text, re.S)
    assert page
    jobs = dither.Categorical(["nurse", "driver", "teacher", "other"], other="other")
    plan = dither.plan(dither.Schema({"age": dither.Ordinal(0, 99), "job": jobs}), epsilon=1.0, users=10_000)
    plan.save(tmp_path / "plan.json")
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(BROWSER / "dither-client.min.js", site)
    pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    origin = f"http://localhost:{pages.server_port}"
    command = [sys.executable, "-m", "dither", "serve", str(tmp_path / "plan.json"), "--store", str(tmp_path / "store")]
    collector = subprocess.Popen(
        [*command, "--port", "0", "--origin", origin], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert collector.stdout
    try:
        address = collector.stdout.readline().strip()
        shown = page.group(1).replace("http://localhost:8080", address).replace("HASH", plan.fingerprint)
        (site / "index.html").write_text(shown, encoding="utf-8")
        words = [str(NODE), "--input-type=module", "--eval", FILL_IN, str(CHROMIUM), origin]
        done = subprocess.run(words, cwd=CLIENT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        first, again, said = json.loads(done.stdout)
        assert first.startswith("Thank you"), first
        assert again.startswith("Thank you"), again
        assert said == []
        assert _counted(address) == 1
    finally:
        collector.terminate()
        collector.communicate()
        pages.shutdown()
        pages.server_close()


def _counted(address: str) -> int:
    """How many reports the collector has accepted, as its counters say."""
    told = ""
    for _ in range(100):
        with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:  # noqa: S310
            told = answer.read().decode()
        found = re.search(r"^dither_reports_accepted_total(?:\{[^}]*\})? (\d+)", told, re.M)
        if found and int(found[1]):
            return int(found[1])
        time.sleep(0.1)
    raise AssertionError(told)
