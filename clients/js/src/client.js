// A device that reports over a network: it reads a plan, checks it, answers it once, and sends until it has arrived
// (src/dither/collect/client.py). It trusts nobody: a plan is pinned by its hash, or the program says what its user may
// spend. A record that does not fit is reported with substitutes, and nothing tells so: no message, no silence, nothing
// in the console. What is kept is in a ledger and an outbox of one store, which belongs to one user.
//
// A batch is stored before it is sent, with its idempotency key, and is sent again as it is until the collector has said
// that it counts it. Requests outlive the page (`keepalive`), carry no cookies and no referrer, and follow no redirect.
// When a device sends depends on when it is asked and on the network, never on what its record holds.

import { ClientError } from "./errors.js";
import { answered, keeps, newBook } from "./ledger.js";
import { reportFields } from "./mechanisms.js";
import { Plan } from "./plan.js";
import { valueOf } from "./schema.js";
import { hex } from "./sha256.js";
import { memoryStore, openStore } from "./store.js";

const REPORTS = "application/vnd.dither.reports";
const SEALED = "application/vnd.dither.sealed-reports";
const MOST_KEPT_ALIVE = 1 << 15; // bytes: a browser has 64 kB of them for all requests of a page together
const LONGEST_ANSWER = 1 << 24;
const isHash = (text) => typeof text === "string" && /^[0-9a-f]{64}$/.test(text);
const visible = (text) => String(text).replace(/[^\x20-\x7e\u00a0-\uffff]/g, "").slice(0, 200);
const seconds = () => performance.now() / 1000; // a clock that is set does not move this one
const sleep = (time) => new Promise((resolve) => setTimeout(resolve, 1000 * time));

/** The address of a collector, and the hash of a plan if it names one. */
function addressOf(url, allowHttp) {
  let found;
  try {
    found = new URL(url, globalThis.location?.href);
  } catch {
    throw new ClientError('url is the address of a collector, as in "https://collect.example.org", or that of a plan there');
  }
  const here = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(found.hostname);
  if (found.username || found.search || found.hash || !/^https?:$/.test(found.protocol))
    throw new ClientError("url is an address without a query, over https");
  if (found.protocol === "http:" && !here && !allowHttp)
    throw new ClientError("this address is plain HTTP to another machine: whoever is on the way could answer in the collector's place. Use https, or say allowHttp: true");
  const [, base, , plan] = /^(.*?)(\/v1\/plans\/([^/]*))?\/*$/.exec(found.origin + found.pathname) ?? [];
  return { base, plan };
}

/** A wait that doubles with every failure, and of which the second half is random. */
function backoff(failures) {
  const [random] = crypto.getRandomValues(new Uint32Array(1));
  return (Math.min(60, 0.5 * 2 ** Math.min(failures, 30)) * (1 + random / 2 ** 32)) / 2;
}

/** How reports become what is sent: as they are, or sealed (sealed.js puts another one here). */
export const packing = { sealed: null };

export class Client {
  /** Not for callers: `Client.open`, or `client(plan)`. */
  constructor(plan, store, network) {
    this.plan = plan;
    this.store = store;
    this.network = network;
    this.left = []; // what waits, as far as this page knows: a closing page cannot look into its store any more
  }

  /**
   * A device of the collector at this address.
   * @param {string} url
   */
  static async open(url, { plan, token, store = "dither", epsilon, delta, shuffler, patience = 10, allowHttp = false, fetch = globalThis.fetch } = {}) {
    const address = addressOf(url, allowHttp);
    const text = typeof plan === "string" && /^\s*\{/.test(plan) ? plan : null;
    let hash = address.plan || (text ? undefined : plan);
    if (hash !== undefined && !isHash(hash)) throw new ClientError("a plan is named by its hash, 64 hexadecimal digits");
    if (address.plan && plan && !text && plan !== address.plan) throw new ClientError("the address names another plan than plan does; leave one of them out");
    const network = { ...address, token, patience, epsilon, delta, fetch: fetch.bind(globalThis), shuffler: shuffler === undefined ? null : addressOf(shuffler, allowHttp).base };
    const kept = store === null ? memoryStore() : await openStore(store);
    const device = new Client(null, kept, network);
    device.plan = text ? Plan.read(text, hash) : await device.fetchPlan(hash);
    if (device.plan.crowd && !network.shuffler) throw new ClientError("this plan counts on a shuffler, and its reports tell too much without: name it, shuffler: ...");
    if (network.shuffler && !packing.sealed) throw new ClientError("reports to a shuffler are sealed: load dither-client-sealed.min.js, which can");
    return device;
  }

  /** Where what was sent is kept: "disk", or "memory" if this browser keeps nothing for this page. */
  get kept() {
    return this.store.kept;
  }

  async fetchPlan(pinned) {
    const facts = await this.store.change(({ facts }) => ({ ...facts }));
    const hash = pinned ?? facts.plan ?? (await this.chosen());
    const known = facts[`plan ${hash}`];
    if (known) return Plan.read(known, hash);
    const { body } = await this.get(`/v1/plans/${hash}`);
    const found = Plan.read(body, hash);
    await this.store.change(({ facts }) => void Object.assign(facts, { plan: hash, [`plan ${hash}`]: body }));
    return found;
  }

  /** The only plan that the collector has reports collected for. */
  async chosen() {
    const known = await this.store.change(({ book }) => book !== null);
    if (this.network.epsilon === undefined && !known)
      throw new ClientError("without a plan the collector chooses what is asked, so say what this user may spend: epsilon: 1. Or pin the plan by its hash, plan: ..., or by its address");
    let rows = null;
    try {
      rows = JSON.parse((await this.get("/v1/plans")).body);
    } catch (error) {
      if (error instanceof ClientError) throw error;
    }
    const open = (Array.isArray(rows) ? rows : []).filter((row) => row?.state === "open").map((row) => row.plan);
    if (open.length !== 1 || !isHash(open[0])) throw new ClientError(`the collector has ${open.length} open plans: name one of them by its hash, plan: ...`);
    return open[0];
  }

  // Reporting -----------------------------------------------------------------------------------------------------------

  /** What is asked, and what it tells at most. */
  explain() {
    const { plan } = this;
    const budgets = [...new Set(plan.groups.map(({ asked }) => asked))];
    return {
      hash: plan.hash,
      epsilon: plan.epsilon,
      delta: plan.delta,
      odds: Math.exp(plan.epsilon),
      answered: Math.max(...budgets.map(({ reported }) => reported)),
      rounds: plan.schedule.rounds,
      periods: plan.schedule.periods,
      crowd: plan.crowd,
      parts: plan.groups.flatMap(({ asked, suffix }) => {
        const total = asked.parts.reduce((sum, { weight }) => sum + weight, 0);
        return asked.parts.map(({ name, questions, names, mechanism, weight, width }) => ({
          name: name + suffix,
          questions,
          attributes: names,
          mechanism: mechanism.name,
          epsilon: mechanism.epsilon,
          share: asked.reported === 1 ? weight / total : asked.reported / asked.parts.length,
          bytes: width,
        }));
      }),
      attributes: this.attributes().map((name) => {
        const { kind, low, high, labels, keys, d, size, longest, alphabet } = plan.schema[name];
        const told = { name, kind: kind === "open" ? "numeric" : kind, low, high, labels, keys: keys ?? d, size, longest, alphabet };
        return Object.fromEntries(Object.entries(told).filter(([, value]) => value !== undefined));
      }),
    };
  }

  /** What a record must hold: what is asked about, and what is public. */
  attributes() {
    const asked = new Set([...this.plan.parts.flatMap(({ names }) => names), ...this.plan.public]);
    return Object.keys(this.plan.schema).filter((name) => asked.has(name));
  }

  /** For tests of a page: the names of the attributes whose values do not fit. */
  check(record) {
    const wrong = (name) => {
      const { fits, ...own } = this.plan.schema[name];
      const value = valueOf(record, name);
      if (own.kind === "open") return typeof value !== "number" || Number.isNaN(value);
      return !fits.call(this.plan.schema[name], value);
    };
    return this.attributes().filter(wrong);
  }

  /** The budget of this user: what was promised is not changed. */
  book(state) {
    const { epsilon, delta } = this.network ?? {};
    state.book ??= newBook(epsilon ?? this.plan.epsilon, delta ?? this.plan.delta);
    const { book } = state;
    if ((epsilon !== undefined && epsilon !== book.epsilon) || (delta !== undefined && delta !== book.delta))
      throw new ClientError(`this device was made with epsilon ${book.epsilon}, and what was promised is not changed; leave epsilon and delta out`);
    return book;
  }

  /** The reports of this device, by the number of the part, from the ledger. */
  async reports(record, period) {
    const { plan } = this;
    const round = plan.roundOf(period);
    plan.groupOf(record); // refused here, if its public values name no group
    return this.store.change((state) => {
      const book = this.book(state);
      const own = answered(book, plan, record, { period, once: true });
      if (plan.schedule.periods && own.size && !keeps(book, plan, round)) throw new ClientError("this period is over on this device: it has answered a later one");
      return own;
    });
  }

  /** A report about the record of this user, drawn once and then repeated; not sent. */
  async report(record, { period } = {}) {
    const { plan } = this;
    const round = plan.roundOf(period);
    const own = await this.reports(record, period);
    const reports = [...own].sort(([a], [b]) => a - b).map(([number, bytes]) => {
      const { name, mechanism } = plan.parts[number];
      return { part: name, number, mechanism: mechanism.name, bytes, fields: reportFields(mechanism, bytes) };
    });
    const bytes = reports.length ? plan.pack(own, round) : new Uint8Array();
    return { bytes, part: reports[0]?.part ?? null, reports, frame: framed(reports), round, hash: plan.hash, epsilon: plan.epsilon, delta: plan.delta };
  }

  /** Report about the record of this user, once for the plan or for each period of it, and send what waits. */
  async send(record, { period } = {}) {
    await this.queue(record, { period });
    return this.flush();
  }

  /** The same without sending. */
  async queue(record, { period } = {}) {
    const { plan } = this;
    const round = plan.roundOf(period);
    const has = ({ batches }) => batches.some((batch) => batch.plan === plan.hash && batch.round === round);
    if (await this.store.change(has)) return;
    const own = await this.reports(record, period);
    if (!own.size) return; // a device may have drawn another round to report in
    const body = this.network?.shuffler ? await packing.sealed(this, own, round) : plan.pack(own, round);
    const key = hex(crypto.getRandomValues(new Uint8Array(16)));
    await this.store.change((state) => {
      if (!has(state)) state.batches.push({ plan: plan.hash, round, key, body, sealed: !!this.network?.shuffler, refusal: null });
    });
    await this.waiting();
  }

  // Sending -------------------------------------------------------------------------------------------------------------

  /** What is still to be sent, and can be from here. */
  async waiting() {
    this.left = await this.store.change(({ batches }) => batches.filter(({ body, refusal }) => body && !refusal));
    return this.left;
  }

  /** How many batches are still to be sent. */
  async pending() {
    return (await this.waiting()).length;
  }

  /** Start requests for all that waits, as the page closes. Whether they arrived is known at the next start. */
  async beacon() {
    await Promise.allSettled(this.left.map((batch) => this.post(batch)));
  }

  /** Send what waits, for so many seconds at most; a first try is always made. */
  async flush() {
    if (!this.network) throw new ClientError("this device has no collector: Client.open(url) has one");
    const end = seconds() + this.network.patience;
    const told = { batches: 0, accepted: 0, rejected: {}, duplicates: 0, refused: 0, pending: 0, trouble: "" };
    const settle = (batch, change) => this.store.change(({ batches }) => void Object.assign(batches.find(({ key }) => key === batch.key) ?? {}, change));
    let failures = 0;
    const left = [...(await this.waiting())];
    while (left.length) {
      const [batch] = left;
      const answer = await this.post(batch);
      const counted = answer.status === 200 ? counts(answer.body) : null;
      if (counted) {
        told.batches++;
        told.accepted += counted.accepted;
        told.duplicates += counted.duplicate;
        for (const [reason, count] of Object.entries(counted.rejected)) told.rejected[visible(reason)] = (told.rejected[visible(reason)] ?? 0) + count;
        await settle(batch, { body: null });
        left.shift();
        failures = 0;
      } else if ([401, 403, 404].includes(answer.status) || (answer.status >= 300 && answer.status < 400)) {
        told.trouble = words(answer);
        left.shift(); // may be put right, and is no fault of the batch; others may be for another plan
      } else if (answer.status >= 500 || answer.status < 300 || [408, 425, 429].includes(answer.status)) {
        told.trouble = words(answer);
        const wait = Math.max(answer.retryAfter, backoff(failures++));
        if (seconds() + wait > end) break;
        await sleep(wait);
      } else {
        told.refused++;
        await settle(batch, { body: null, refusal: words(answer) });
        left.shift();
      }
    }
    told.pending = await this.pending();
    if (!told.pending) told.trouble = "";
    return told;
  }

  /** One request with the bytes of a batch: the status is 0 where there was no answer. */
  async post({ plan, key, body, sealed }) {
    const { base, shuffler, token } = this.network;
    if (sealed && !shuffler) return { status: 0, body: "", retryAfter: 0, reason: "sealed reports wait for a shuffler: name it, shuffler: ..." };
    if (sealed) return this.request(`${shuffler}/v1/plans/${plan}/sealed`, { method: "POST", body, headers: { "Content-Type": SEALED } }); // who gets no token: it would know the device again
    const headers = { "Content-Type": REPORTS, "Idempotency-Key": key, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    return this.request(`${base}/v1/plans/${plan}/reports`, { method: "POST", body, headers });
  }

  async get(path) {
    const { base, token } = this.network;
    const answer = await this.request(base + path, { headers: token ? { Authorization: `Bearer ${token}` } : {} });
    if (answer.status !== 200) throw new ClientError(`the plan cannot be fetched: ${words(answer)}. Nothing was reported; try again later`);
    return answer;
  }

  async request(url, { body, ...options }) {
    const own = { credentials: "omit", referrerPolicy: "no-referrer", redirect: "manual", cache: "no-store", keepalive: !!body && body.length < MOST_KEPT_ALIVE };
    try {
      const answer = await this.network.fetch(url, { ...own, ...options, ...(body ? { body } : {}), signal: AbortSignal.timeout(30_000) });
      const text = await answer.text();
      if (text.length > LONGEST_ANSWER) return { status: 0, body: "", retryAfter: 0, reason: "the answer is too long" };
      const after = Number(answer.headers.get("Retry-After"));
      return { status: answer.status, body: text, retryAfter: after >= 0 && after < 1e6 ? after : 0 };
    } catch {
      return { status: 0, body: "", retryAfter: 0, reason: "the collector cannot be reached" }; // what the browser says may name an address
    }
  }
}

/** What a collector says that it counted; null if it is not a collector who says so, as in a hotel's network. */
function counts(body) {
  try {
    const { accepted, rejected, duplicate } = JSON.parse(body);
    if (!Number.isInteger(accepted) || typeof rejected !== "object" || rejected === null) return null;
    const fine = Object.entries(rejected).filter(([, count]) => Number.isInteger(count));
    return { accepted, rejected: Object.fromEntries(fine), duplicate: Number(duplicate === true) };
  } catch {
    return null;
  }
}

function words({ status, body, reason }) {
  if (reason) return reason;
  try {
    const { detail, title } = JSON.parse(body);
    return visible(`${status}, ${detail || title}`);
  } catch {
    return status ? String(status) : "the address was moved: redirects are not followed";
  }
}

/** What each byte of a batch is. */
function framed(reports) {
  let at = 0;
  const next = (size, means) => ({ from: at, to: (at += size), means });
  if (!reports.length) return [];
  return [
    next(4, "the letters DTHW"),
    next(2, "version of the format"),
    next(2, "flags: none"),
    next(32, "the hash of the plan"),
    next(4, "the number of the round"),
    next(4, "how many sections there are"),
    next(4, "how many reports there are"),
    ...reports.flatMap(({ part }) => [next(4, `the number of the part: ${part}`), next(4, "bytes of a report"), next(4, "reports in this section: one")]),
    ...reports.map(({ part, bytes, mechanism }) => next(bytes.length, `the randomized answer to ${part}, by ${mechanism}`)),
  ];
}

/**
 * A plan without a collector: nothing is kept beyond this value, and nothing is sent.
 * @param {string} plan the text of plan.json
 */
export function client(plan) {
  return new Client(Plan.read(plan), memoryStore(), null);
}
