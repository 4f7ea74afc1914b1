// The same in a real browser: its integers, its database, its requests.

import assert from "node:assert/strict";
import { test } from "node:test";
import { chromium, openPage } from "./chromium.js";
import { wide } from "./files.js";

const skip = chromium ? false : "no chromium: the client is not tested in a browser";

test("vectors and exact channels in Chromium", { skip, timeout: 600_000 }, async () => {
  const { page, close } = await openPage();
  try {
    const found = await page.evaluate(async (all) => {
      const { runVectors } = await import("/test/run_vectors.js");
      const { runChannels, someChannels } = await import("/test/run_channels.js");
      const packed = await fetch("/vectors/vectors.json.gz");
      const file = await new Response(packed.body.pipeThrough(new DecompressionStream("gzip"))).json();
      const channels = runChannels(someChannels(file.channels, all));
      return { vectors: await runVectors(file), channels };
    }, wide);
    assert.deepEqual([found.vectors.wrong, found.channels.wrong], [[], []]);
    assert.ok(found.vectors.run >= 5000 && found.channels.run >= 30, JSON.stringify(found).slice(0, 200));
  } finally {
    await close();
  }
});

test("the built file collects from a page: one report, also after the page was loaded again", { skip, timeout: 300_000 }, async () => {
  const { page, url, hash, seen, said, failing, close } = await openPage();
  const send = () =>
    page.evaluate(async (plan) => {
      const { Client } = await import("/browser/dither-client.min.js");
      const device = await Client.open(`/v1/plans/${plan}`, { patience: 1 });
      const told = await device.send({ origin: "JFK", dep_delay: 7 });
      return [device.kept, told.batches, told.pending, device.explain().epsilon];
    }, hash);
  try {
    failing.status = 503;
    assert.deepEqual(await send(), ["disk", 0, 1, 2]);
    failing.status = 0;
    await page.reload();
    assert.deepEqual(await send(), ["disk", 1, 0, 2]);
    assert.deepEqual(await send(), ["disk", 0, 0, 2]);
    assert.ok(seen.length >= 2);
    assert.equal(new Set(seen.map(({ key, body }) => key + body)).size, 1);
    assert.ok(seen.every(({ cookie }) => cookie === undefined));
    assert.deepEqual(said.filter((line) => !/503/.test(line)), []); // the browser itself notes a failed request
    assert.match(url, /^http:\/\/127/);
  } finally {
    await close();
  }
});

test("a page that closes early hands its report over", { skip, timeout: 300_000 }, async () => {
  const { page, hash, seen, close } = await openPage();
  try {
    await page.evaluate(async (plan) => {
      const { Client } = await import("/browser/dither-client.min.js");
      const device = await Client.open(`/v1/plans/${plan}`, { store: "closing" });
      await device.queue({ origin: "JFK" });
      addEventListener("pagehide", () => void device.beacon());
    }, hash);
    await page.goto("about:blank");
    for (let tries = 0; tries < 50 && !seen.length; tries++) await new Promise((resolve) => setTimeout(resolve, 100));
    assert.ok(seen.length >= 1);
    assert.equal(new Set(seen.map(({ key, body }) => key + body)).size, 1);
  } finally {
    await close();
  }
});

test("storage that is blocked, and two tabs at once", { skip, timeout: 300_000 }, async () => {
  const { page, context, url, hash, seen, close } = await openPage();
  try {
    const blocked = await page.evaluate(async (plan) => {
      Object.defineProperty(globalThis, "indexedDB", { get() { throw new DOMException("denied", "SecurityError"); } });
      const { Client } = await import("/browser/dither-client.min.js");
      const device = await Client.open(`/v1/plans/${plan}`);
      await device.send({});
      return [device.kept, (await device.send({})).batches];
    }, hash);
    assert.deepEqual([...blocked, seen.length], ["memory", 0, 1]);
    const tabs = await Promise.all([1, 2].map(async () => {
      const tab = await context.newPage();
      await tab.goto(url);
      return tab;
    }));
    const bytes = await Promise.all(tabs.map((tab) => tab.evaluate(async (plan) => {
      const { Client } = await import("/browser/dither-client.min.js");
      const device = await Client.open(`/v1/plans/${plan}`, { store: "tabs" });
      return [...(await device.report({})).bytes].join();
    }, hash)));
    assert.equal(bytes[0], bytes[1]);
  } finally {
    await close();
  }
});

test("sealed by the built file: WebCrypto's X25519 and the ladder agree", { skip, timeout: 300_000 }, async () => {
  const { page, close } = await openPage();
  try {
    const same = await page.evaluate(async () => {
      const { x25519 } = await import("/src/sealing.js");
      const base = Uint8Array.from({ length: 32 }, (_, i) => (i ? 0 : 9));
      const pair = await crypto.subtle.generateKey({ name: "X25519" }, true, ["deriveBits"]).catch(() => null);
      if (!pair) return "this browser has no X25519";
      const secret = Uint8Array.from(atob((await crypto.subtle.exportKey("jwk", pair.privateKey)).d.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
      const own = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
      return x25519(secret, base).join() === own.join();
    });
    assert.ok(same === true || /no X25519/.test(same));
  } finally {
    await close();
  }
});
