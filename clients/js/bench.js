// Times of the built file in a real Chromium, as JSON: what benchmarks/browser.py prints.

import { openPage } from "./test/chromium.js";
import { planText } from "./test/files.js";

const { page, close } = await openPage();
try {
  const found = await page.evaluate(async (text) => {
    const { client } = await import("/browser/dither-client.min.js");
    const middle = (times) => times.sort((a, b) => a - b)[times.length >> 1];
    const loads = [];
    let device = null;
    for (let i = 0; i < 15; i++) {
      const start = performance.now();
      device = client(text);
      loads.push(performance.now() - start);
    }
    const [first] = loads;
    const reports = [];
    const firsts = [];
    for (let i = 0; i < 200; i++) {
      const other = client(text); // a device of its own: another draw, not a kept one
      const start = performance.now();
      await other.report({ origin: "JFK", dep_delay: 7, carrier: "UA" });
      (i ? reports : firsts).push(performance.now() - start);
    }
    return { parts: device.explain().parts.length, first, load: middle(loads), firstReport: firsts[0], report: middle(reports), slowest: Math.max(...reports) };
  }, planText("demonstration"));
  process.stdout.write(`${JSON.stringify(found)}\n`);
} finally {
  await close();
}
