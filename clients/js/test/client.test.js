// The device: its ledger, its outbox, what it sends and what it never says. The collector is a function here; tests in
// Python and in a real browser have a real one.

import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { Client, ClientError, PlanError, client } from "../src/index.js";
import { Ledger, answered, newBook } from "../src/ledger.js";
import { secureTape } from "../src/draw.js";
import { mechanism, reportBytes } from "../src/mechanisms.js";
import { Plan } from "../src/plan.js";
import { hex } from "../src/sha256.js";
import { memoryStore } from "../src/store.js";
import "../src/sealed.js";
import { planText, vectors } from "./files.js";

const PLAN = planText("demonstration");
const HASH = JSON.parse(PLAN).hash;
const URL_ = `https://collect.example.org/v1/plans/${HASH}`;
let names = 0;
const fresh = () => `device ${names++}`;

/** A collector: answers plans, counts what is new, fails as it is told. */
function collector({ fail = () => null, plan = PLAN } = {}) {
  const seen = [];
  const fetch = async (url, options) => {
    const failure = fail(seen.length, url, options);
    if (failure === "lost") throw new TypeError("Failed to fetch");
    if (typeof failure === "number") return new Response(JSON.stringify({ detail: "not now" }), { status: failure });
    if (options.method !== "POST") return new Response(plan);
    const body = hex(new Uint8Array(options.body));
    const duplicate = seen.some(({ key }) => key === options.headers["Idempotency-Key"]);
    seen.push({ url, key: options.headers["Idempotency-Key"], body, options });
    if (failure === "unheard") throw new TypeError("Failed to fetch"); // it was counted, and the answer is lost
    return new Response(JSON.stringify({ accepted: 1, rejected: {}, duplicate }));
  };
  return { seen, fetch };
}

test("a device sends one report, once, and repeats it to the byte", async () => {
  const { seen, fetch } = collector();
  const store = fresh();
  const device = await Client.open(URL_, { store, fetch });
  const first = await device.report({ origin: "JFK" });
  assert.deepEqual(await device.send({ origin: "JFK" }), { batches: 1, accepted: 1, rejected: {}, duplicates: 0, refused: 0, pending: 0, trouble: "" });
  assert.equal((await device.send({ origin: "LGA" })).batches, 0);
  assert.equal(seen.length, 1);
  assert.equal(seen[0].body, hex(first.bytes));
  assert.equal(device.kept, "disk");
  const again = await Client.open(URL_, { store, fetch });
  assert.equal(hex((await again.report({ origin: "EWR" })).bytes), hex(first.bytes));
  const { options } = seen[0];
  assert.deepEqual([options.keepalive, options.credentials, options.redirect, options.referrerPolicy], [true, "omit", "manual", "no-referrer"]);
  assert.equal(first.frame.at(-1).to, first.bytes.length);
});

test("retries have the same bytes and the same key, also after a lost answer and a new start", async () => {
  const store = fresh();
  const lost = collector({ fail: (count, _, { method }) => (method === "POST" ? "unheard" : null) });
  const device = await Client.open(URL_, { store, fetch: lost.fetch, patience: 1 });
  const told = await device.send({});
  assert.deepEqual([told.pending, told.batches], [1, 0]);
  assert.match(told.trouble, /cannot be reached/);
  assert.ok(lost.seen.length >= 2);
  assert.equal(new Set(lost.seen.map(({ body, key }) => body + key)).size, 1);
  const { seen, fetch } = collector({ fail: (count) => (count ? null : null) });
  const later = await Client.open(URL_, { store, fetch });
  assert.equal(await later.pending(), 1);
  assert.equal((await later.flush()).batches, 1);
  assert.deepEqual([seen[0].body, seen[0].key], [lost.seen[0].body, lost.seen[0].key]);
});

test("what the collector will never take is not sent again; what may be put right waits", async () => {
  const refusing = collector({ fail: (_, __, { method }) => (method === "POST" ? 410 : null) });
  const device = await Client.open(URL_, { store: fresh(), fetch: refusing.fetch });
  assert.deepEqual([(await device.send({})).refused, await device.pending(), (await device.flush()).refused], [1, 0, 0]);
  const unknown = collector({ fail: (_, __, { method }) => (method === "POST" ? 403 : null) });
  const other = await Client.open(URL_, { store: fresh(), fetch: unknown.fetch });
  const told = await other.send({});
  assert.deepEqual([told.refused, told.pending, told.trouble], [0, 1, "403, not now"]);
});

test("as the page closes, what waits is handed over with the same bytes", async () => {
  const { seen, fetch } = collector();
  const device = await Client.open(URL_, { store: fresh(), fetch });
  await device.queue({});
  await device.beacon();
  await device.flush();
  assert.equal(seen.length, 2);
  assert.deepEqual([seen[0].body, seen[0].key], [seen[1].body, seen[1].key]);
  assert.ok(seen.every(({ options }) => options.keepalive));
});

test("where nothing is kept there is one report all the same, for as long as the page is open", async () => {
  const { seen, fetch } = collector();
  const whole = globalThis.indexedDB;
  const blocked = { open() { throw new DOMException("denied", "SecurityError"); } };
  globalThis.indexedDB = blocked;
  const device = await Client.open(URL_, { store: fresh(), fetch });
  globalThis.indexedDB = whole;
  const bytes = hex((await device.report({})).bytes);
  await device.send({});
  await device.send({});
  assert.deepEqual([device.kept, seen.length, seen[0].body], ["memory", 1, bytes]);
});

test("a disk that is full: the first report is kept in memory, a kept one is repeated", async () => {
  const { fetch } = collector();
  const full = new IDBFactory();
  const whole = globalThis.indexedDB;
  globalThis.indexedDB = full;
  const device = await Client.open(URL_, { store: "full", fetch });
  const put = IDBObjectStore.prototype.put;
  IDBObjectStore.prototype.put = () => { throw new DOMException("no space", "QuotaExceededError"); };
  try {
    const first = hex((await device.report({})).bytes);
    assert.equal(hex((await device.report({ origin: "JFK" })).bytes), first);
    assert.equal(device.kept, "memory");
  } finally {
    IDBObjectStore.prototype.put = put;
    globalThis.indexedDB = whole;
  }
});

test("whatever a record is, it is one report, and no value in an error or in the console", async () => {
  const said = [];
  const spoken = Object.fromEntries(["log", "warn", "error", "info", "debug"].map((name) => [name, console[name]]));
  for (const name of Object.keys(spoken)) console[name] = (...words) => said.push(words.join(" "));
  const secret = "s3cr3t-v4lue";
  const odd = new Proxy({}, { get() { throw new Error(secret); }, getOwnPropertyDescriptor() { throw new Error(secret); } });
  const records = [null, undefined, 7, secret, [secret], { origin: { secret } }, { origin: secret, dep_delay: secret }, odd, new Map([["origin", secret]]), Symbol("x"), () => secret, { get origin() { throw new Error(secret); } }];
  try {
    for (const record of records) {
      const { seen, fetch } = collector();
      const device = await Client.open(URL_, { store: null, fetch });
      assert.equal((await device.send(record)).batches, 1);
      assert.equal(seen.length, 1);
      assert.ok(!JSON.stringify(seen[0]).includes(secret));
    }
  } finally {
    Object.assign(console, spoken);
  }
  assert.deepEqual(said, []);
});

test("a plan that was changed, is newer, or breaks its epsilon is refused, and nothing is sent", async () => {
  for (const [text, reason] of vectors().refused) {
    const { seen, fetch } = collector({ plan: text });
    const error = await Client.open(URL_, { store: null, fetch }).then(() => null, (e) => e);
    assert.ok(error instanceof PlanError, reason);
    assert.equal(seen.length, 0);
  }
  const { fetch } = collector({ plan: planText("several") });
  await assert.rejects(Client.open(URL_, { store: null, fetch }), /another plan/);
});

test("any byte of a plan that changes it is noticed", () => {
  const text = planText("people-1");
  const end = text.indexOf('"hash"');
  for (let at = 0; at < end; at += 97) {
    const letter = text[at] === "1" ? "2" : "1";
    const changed = text.slice(0, at) + letter + text.slice(at + 1);
    if (/^\s$/.test(text[at])) continue;
    assert.throws(() => Plan.read(changed), PlanError, `byte ${at}`);
  }
});

test("a plan that the collector chooses needs a budget, and a budget is not changed", async () => {
  const fetch = async (url) => new Response(url.endsWith("/plans") ? JSON.stringify([{ plan: HASH, state: "open" }]) : PLAN);
  await assert.rejects(Client.open("https://collect.example.org", { store: null, fetch }), /say what this user may spend/);
  const small = await Client.open("https://collect.example.org", { store: null, fetch, epsilon: 0.5 });
  await assert.rejects(small.report({}), /does not fit/);
  const store = fresh();
  const device = await Client.open("https://collect.example.org", { store, fetch, epsilon: 4 });
  await device.report({});
  const other = await Client.open("https://collect.example.org", { store, fetch, epsilon: 5 });
  await assert.rejects(other.report({}), /not changed/);
});

test("addresses: https, this machine, or said so", async () => {
  const { fetch } = collector();
  await assert.rejects(Client.open("http://collect.example.org", { store: null, fetch, epsilon: 1 }), /plain HTTP/);
  await assert.rejects(Client.open("ftp://x", { store: null, fetch }), ClientError);
  await assert.rejects(Client.open("https://user:pass@x.org", { store: null, fetch }), ClientError);
  await Client.open(`http://localhost:8000/v1/plans/${HASH}`, { store: null, fetch });
  await Client.open(`http://10.0.0.1/v1/plans/${HASH}`, { store: null, fetch, allowHttp: true });
});

test("a plan that counts on a shuffler is sealed, or not answered", async () => {
  const plan = planText("crowd");
  const { hash } = JSON.parse(plan);
  const { seen, fetch } = collector({ plan });
  await assert.rejects(Client.open(`https://c.example.org/v1/plans/${hash}`, { store: null, fetch }), /shuffler/);
  const keys = JSON.stringify({ keys: [{ id: "7574198efee49ade", public: btoa(String.fromCharCode(...Buffer.from("7d9c24316539825c1896e57f28197746793ce60cbee3ad47da9d07b85fa55e2a", "hex"))) }] });
  const both = async (url, options) => (url.endsWith("/keys") ? new Response(keys) : fetch(url, options));
  const device = await Client.open(`https://c.example.org/v1/plans/${hash}`, { store: null, fetch: both, shuffler: "https://s.example.org" });
  assert.equal((await device.send({ job: "nurse", sex: "f" })).batches, 1);
  assert.match(seen[0].url, /^https:\/\/s\.example\.org\/v1\/plans\/.*\/sealed$/);
  assert.equal(seen[0].body.slice(0, 8), "44544853");
  assert.equal((seen[0].body.length / 2) % 2, 0); // two messages of one size
  assert.equal(seen[0].options.headers.Authorization, undefined);
});

// The ledger ------------------------------------------------------------------------------------------------------------

const ledger = (epsilon, delta = 0) => {
  const store = memoryStore();
  let book = newBook(epsilon, delta);
  void store;
  return new Ledger({ change: async (work) => { const draft = structuredClone(book); const found = work(draft); book = draft; return found; } });
};
const sent = (reports) => JSON.stringify([...reports].map(([part, bytes]) => [part, hex(bytes)]));

test("a changed value is charged until the budget is used up; then the last report is repeated", async () => {
  const plan = Plan.read(planText("several"));
  const own = ledger(plan.epsilon * 3);
  const spent = [];
  const record = (i) => Object.fromEntries(Object.keys(plan.schema).map((name) => [name, plan.schema[name].labels[i % 2]]));
  for (const i of [0, 0, 1, 1, 0, 1, 0]) {
    const reports = await own.report(plan, record(i));
    assert.equal(reports.size, 1);
    spent.push((await own.budget()).spent / plan.epsilon);
  }
  assert.deepEqual(spent, [1, 1, 2, 2, 3, 3, 3]);
});

test("changes: 0 looks at the first value alone; periods make a fresh report in each; budgets are shared as reserved", async () => {
  const plan = Plan.read(planText("several"));
  const once = ledger(plan.epsilon);
  await once.reserve(plan, { changes: 0 });
  assert.equal(sent(await once.report(plan, { q0: "00" })), sent(await once.report(plan, { q0: "01" })));
  await assert.rejects(once.reserve(plan, { changes: 1 }), /not changed/);
  const weekly = ledger(plan.epsilon * 2);
  await weekly.reserve(plan, { periods: 2 });
  const spent = [];
  for (const period of ["W1", "W1", "W2", "W3", 1]) {
    await weekly.report(plan, {}, { period });
    spent.push((await weekly.budget()).spent / plan.epsilon);
  }
  assert.deepEqual(spent, [1, 1, 2, 2, 2]);
  await assert.rejects(weekly.report(Plan.read(planText("demonstration")), {}), /takes no part/);
});

test("rounds: one of them is drawn; a kept response is kept; rounds go forward", async () => {
  const plan = Plan.read(planText("rounds"));
  const counts = new Set();
  for (let i = 0; i < 40; i++) {
    const own = ledger(plan.epsilon);
    const found = [];
    for (const period of ["W1", "W2", "W3", "W2"]) found.push((await own.report(plan, {}, { period })).size);
    assert.equal(found[0] + found[1] + found[2], 1);
    assert.equal(found[3], found[1]);
    counts.add(found.join());
  }
  assert.ok(counts.size > 1); // all alike with probability below 3 * (2/3)^40
  await assert.rejects(ledger(1).report(plan, {}, { period: "W9" }), /periods are/);
  const kept = Plan.read(planText("kept"));
  const book = newBook(kept.epsilon, 0);
  const responses = [];
  for (const [period, job] of [[0, "nurse"], [1, "nurse"], [2, "driver"], [3, "nurse"], [9, "driver"]]) {
    assert.equal(answered(book, kept, { job, age: period > 1 ? 30 : 40 }, { period }).size, 1);
    responses.push(hex(Object.values(book.answers[kept.hash])[0].response));
  }
  assert.equal(responses[0], responses[1]);
  assert.equal(responses[2], responses[4]); // one change, and no more
  assert.equal(book.paid[kept.hash], 1);
  const before = sent(answered(book, kept, {}, { period: 9 }));
  assert.equal(sent(answered(book, kept, { job: "other" }, { period: 9 })), before);
  assert.equal(sent(answered(book, kept, { job: "other" }, { period: 4 })), before); // an earlier round: what was sent last
});

test("large reports: more words than a browser gives at once, and thousands of bytes", () => {
  const stored = vectors().mechanisms.find(({ mechanism: name }) => name === "Unary");
  const by = mechanism({ ...stored, k: 600_000 }, "large");
  const report = reportBytes(by, by.draw(599_999, secureTape));
  assert.equal(report.length, 75_000);
  const ones = report.reduce((sum, byte) => sum + byte.toString(2).replaceAll("0", "").length, 0) / 600_000;
  const q = Number(BigInt(stored.weights[2])) / Number(BigInt(stored.weights[3]));
  assert.ok(Math.abs(ones - q) < 6 * Math.sqrt((q * (1 - q)) / 600_000) + 1 / 600_000); // 6 standard errors: 2e-9
});

test("what is asked, in words that a page can show", () => {
  const device = client(PLAN);
  const told = device.explain();
  assert.equal(told.epsilon, 2);
  assert.ok(Math.abs(told.parts.reduce((sum, { share }) => sum + share, 0) - 1) < 1e-9);
  assert.ok(told.attributes.every(({ name, kind }) => name && kind));
  assert.deepEqual(device.check({}), told.attributes.map(({ name }) => name));
  assert.throws(() => client("{}"), PlanError);
});

test("public values that name no group are refused by name, and the value is not quoted", async () => {
  const plan = JSON.parse(planText("groups"));
  assert.ok(plan.groups);
  const device = client(planText("budgets"));
  await assert.rejects(device.report({ budget: "s3cr3t" }), (error) => error instanceof ClientError && /budget/.test(error.message) && !/s3cr3t/.test(error.message));
  assert.match((await device.report({ budget: "open", job: "nurse" })).part, /\[budget=open\]$/);
});

test("the types name what there is", async () => {
  const { readFileSync } = await import("node:fs");
  const { at } = await import("./files.js");
  const text = readFileSync(at("src/index.d.ts"), "utf8");
  const inside = /export class Client \{(.*?)\n\}/s.exec(text)[1];
  const methods = [...inside.matchAll(/^ {2}(\w+)\(/gm)].map(([, name]) => name);
  assert.ok(methods.length >= 8);
  for (const name of methods) assert.equal(typeof Client.prototype[name], "function", name);
  const told = client(PLAN).explain();
  const explained = /interface Explanation \{(.*?)\n\}/s.exec(text)[1];
  assert.deepEqual([...explained.matchAll(/^ {2}(\w+)\??:/gm)].map(([, name]) => name).sort(), Object.keys(told).sort());
  const report = await client(PLAN).report({});
  const reported = /interface Report \{(.*?)\n\}/s.exec(text)[1];
  assert.deepEqual([...reported.matchAll(/^ {2}(\w+)\??:/gm)].map(([, name]) => name).sort(), Object.keys(report).sort());
});

test("forged plans with a right hash are refused as plans, or answered with one report", async () => {
  const { canonical, parse } = await import("../src/json.js");
  const { sha256, utf8 } = await import("../src/sha256.js");
  let state = 1;
  const chance = (below) => (state = (state * 48271) % 2147483647) % below;
  const others = ["null", "[]", "{}", "-1", "0", "1", "3", "1.5", '"x"', "true", "1e300", "9007199254740993", '"123456789012345678901"', "[1,2]", "4294967296"];
  let [refused, read] = [0, 0];
  for (const name of ["people-1", "people-4", "groups", "budgets", "kept", "rounds", "spaced", "phases"]) {
    const text = planText(name);
    const end = text.indexOf('"hash"');
    const tokens = [...text.slice(0, end).matchAll(/"(?:[^"\\]|\\.)*":?|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\bnull\b|\btrue\b/g)].filter(([token]) => !token.endsWith(":"));
    for (let i = 0; i < 100; i++) {
      const { 0: token, index } = tokens[chance(tokens.length)];
      const changed = text.slice(0, index) + others[chance(others.length)] + text.slice(index + token.length);
      const [, , entries] = parse(changed);
      const hash = hex(sha256(utf8(canonical(entries.filter(([field]) => !["hash", "version", "certificate", "prediction"].includes(field))))));
      const forged = changed.replace(/"hash": "[0-9a-f]{64}"/, `"hash": "${hash}"`);
      let plan;
      try {
        plan = Plan.read(forged);
      } catch (error) {
        assert.ok(error instanceof PlanError, `${name}: ${error.stack}`);
        refused++;
        continue;
      }
      read++;
      const record = Object.fromEntries(plan.public.map((field) => [field, plan.schema[field].labels[0]]));
      for (const own of [record, { ...record, income: 1e9, job: 7, age: "x", films: [1], word: 5 }]) assert.ok(plan.report(own).size >= 1);
    }
  }
  assert.ok(refused > 150 && read > 20, `${refused} and ${read}`);
});
