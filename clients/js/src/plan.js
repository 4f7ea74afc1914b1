// A plan as a device knows it: what is asked, what is sent, what that promises. It comes from strangers, so it is read
// strictly: the hash is computed anew, every integer is certified, and what this client cannot do is refused by name
// before anything is reported.
//
// Which parts a device answers is drawn without looking at the record. A record is always reported, whatever it holds.

import { ClientError, PlanError } from "./errors.js";
import { fits } from "./exact.js";
import { entry, secureTape, subset } from "./draw.js";
import { canonical, parse } from "./json.js";
import { mechanism, reportBytes, widthOf } from "./mechanisms.js";
import { readQuestions } from "./questions.js";
import { numeric, readSchema, valueOf } from "./schema.js";
import { hex, sha256, utf8 } from "./sha256.js";

const FORMAT = 1;
const BESIDE = ["hash", "version", "certificate", "prediction"]; // outside of the hash
const FIELDS = "format schema epsilon delta users reported parts derived conditions schedule phases after crowd groups budgets".split(" ");
const MOST_GROUPS = 1 << 14;

const wrong = (what) => new PlanError(`this is not a plan: ${what}`);
const isCount = (x) => Number.isSafeInteger(x) && x >= 1;
const isReal = (x, low, high) => typeof x === "number" && x >= low && x < high;

/** Rounds: how often a device is asked the same, and what it does in each. */
function readSchedule(stored) {
  if (stored === undefined) return { rounds: 1, mode: "one", responses: 1, periods: null };
  const { rounds, mode, changes, labels } = stored;
  const kept = mode === "kept";
  const fine = Number.isInteger(rounds) && rounds >= 2 && rounds <= 10000 && ["one", "fresh", "kept"].includes(mode);
  if (!fine || kept !== Number.isInteger(changes) || (kept && changes < 0)) throw wrong("schedule: this client cannot follow it");
  if (labels !== undefined && !(Array.isArray(labels) && labels.length === rounds && new Set(labels).size === rounds)) throw wrong("schedule: its labels are none");
  return { rounds, mode, responses: mode === "one" ? 1 : kept ? 1 + changes : rounds, periods: labels ?? Array.from({ length: rounds }, (_, i) => i) };
}

/** What users with one budget answer. */
function readBudget(document, schema, own, epsilon, reported, schedule) {
  const parts = own.map(([stored, place]) => {
    const where = `parts[${place}]`;
    const { questions, weight } = stored;
    if (!(Array.isArray(questions) && questions.length && questions.every((text) => typeof text === "string") && isCount(weight))) throw wrong(where);
    const by = mechanism(stored.mechanism, where);
    const asked = readQuestions(questions, schema, by.takes, document.conditions, where);
    return { name: questions.join(" and "), questions, weight, mechanism: by, width: widthOf(by), names: [...new Set(asked.names)], encode: asked.encode };
  });
  const uneven = new Set(parts.map(({ weight }) => weight)).size > 1;
  if (!(parts.length && isCount(reported) && reported <= parts.length && (!uneven || reported === 1 || reported === parts.length))) throw wrong("reported");
  for (const [name, total] of [["epsilon", epsilon], ["delta", document.delta]]) {
    const worst = parts.map((part) => part.mechanism[name]).sort((a, b) => b - a).slice(0, reported);
    if (!fits(worst, total, schedule.responses))
      throw new PlanError(`this plan promises less than it says: the ${name} of what a user reports is more than it declares. Nothing was sent; do not answer it`);
  }
  let sum = 0n;
  const cumulative = uneven ? parts.map(({ weight }) => (sum += BigInt(weight))) : null;
  return {
    epsilon, reported, parts,
    drawn(tape) {
      const count = parts.length;
      if (reported === count) return parts.map((_, i) => i);
      return cumulative ? [entry(cumulative, tape)] : subset(count, reported, tape);
    },
  };
}

/** All groups that the public values of a record name, the last attribute varying fastest. */
function groupsOf(schema) {
  let found = [[]];
  for (const [name, { labels }] of Object.entries(schema).filter(([, own]) => own.kind === "public")) {
    found = found.flatMap((facts) => labels.map((label) => [...facts, [name, label]]));
    if (found.length > MOST_GROUPS) throw wrong("too many groups");
  }
  return found;
}

export class Plan {
  /**
   * A plan from the text of `plan.json`; refused, if it is not whole, or not the one with this hash.
   * @param {string} text @param {string} [hash]
   */
  static read(text, hash) {
    try {
      return Plan.checked(text, hash);
    } catch (error) {
      throw error instanceof ClientError ? error : wrong("a plan is what plan.to_json() wrote"); // whatever else goes wrong
    }
  }

  static checked(text, hash) {
    if (typeof text !== "string") throw wrong("give the text of plan.json, as it is");
    const [document, , entries] = parse(text);
    if (!("format" in document)) throw wrong("it has no format");
    if (document.format !== FORMAT) {
      if (Number.isInteger(document.format) && document.format > FORMAT)
        throw new PlanError("this plan was written by a newer version of dither; take a newer client to answer it");
      throw wrong("its format is unknown");
    }
    const own = hex(sha256(utf8(canonical(entries.filter(([name]) => !BESIDE.includes(name))))));
    if (own !== document.hash) throw new PlanError("this plan was changed after it was written: its hash does not match");
    if (hash !== undefined && own !== hash) throw new PlanError("this is another plan than the one that was asked for; nothing was reported");
    const unknown = entries.find(([name]) => !FIELDS.includes(name) && !BESIDE.includes(name));
    if (unknown) throw wrong("it has a field that this client does not know; take a newer one");
    return new Plan(document);
  }

  /** @param {any} document */
  constructor(document) {
    const { epsilon, delta, parts } = document;
    if (!(isReal(epsilon, 1e-12, Infinity) && isReal(delta, 0, 1) && isCount(document.users) && Array.isArray(parts))) throw wrong("its budget");
    this.hash = /** @type {string} */ (document.hash);
    this.epsilon = epsilon;
    this.delta = delta;
    this.crowd = document.crowd ?? null;
    this.schema = readSchema(document.schema);
    this.schedule = readSchedule(document.schedule);
    const numbered = parts.map((part, place) => [part, place]);
    this.public = Object.keys(this.schema).filter((name) => this.schema[name].kind === "public");
    if (!this.public.length) {
      if (document.groups || document.budgets) throw wrong("its schema has no public attributes, and it has groups");
      this.groups = [{ label: "", suffix: "", first: 0, asked: readBudget(document, this.schema, numbered, epsilon, document.reported, this.schedule) }];
    } else {
      if (document.schedule) throw wrong("one with public attributes has no rounds");
      this.groups = this.readGroups(document, numbered);
    }
    /** All parts, those of each group under its name. */
    this.parts = this.groups.flatMap(({ suffix, asked }) => asked.parts.map((part) => ({ ...part, name: part.name + suffix })));
    if (new Set(this.parts.map(({ name }) => name)).size < this.parts.length) throw wrong("two parts have the same name");
  }

  readGroups(document, numbered) {
    const budgets = document.budgets ?? {};
    const labels = "budget" in budgets || Object.keys(budgets).length ? Object.keys(budgets) : [""];
    const asked = new Map(
      labels.map((label) => {
        const chosen = budgets[label] ?? { epsilon: document.epsilon, reported: document.reported };
        if (!(isReal(chosen.epsilon, 1e-12, Infinity) && fits([chosen.epsilon], document.epsilon))) throw wrong("budgets");
        const schema = { ...this.schema };
        for (const [name, [low, high]] of Object.entries(chosen.regions ?? {})) {
          const whole = this.schema[name];
          if (!(whole?.kind === "numeric" && whole.low <= low && low < high && high <= whole.high)) throw wrong("regions");
          schema[name] = numeric(low, high, Math.min(Math.max(whole.missing, low), high));
        }
        const own = numbered.filter(([part]) => (part.budget ?? "") === label);
        return [label, readBudget(document, schema, own, chosen.epsilon, chosen.reported, this.schedule)];
      }),
    );
    let first = 0;
    const found = groupsOf(this.schema).map((facts) => {
      const label = Object.fromEntries(facts).budget ?? "";
      const own = asked.get(labels.includes("") ? "" : label);
      if (!own) throw wrong("its groups are not those of its public attributes");
      const group = { label: labels.includes("") ? "" : label, suffix: ` [${facts.map(([name, value]) => `${name}=${value}`).join(", ")}]`, first, asked: own };
      first += own.parts.length;
      return group;
    });
    if (document.groups?.length !== found.length) throw wrong("its groups are not those of its public attributes");
    return found;
  }

  /** The group that the public values of a record name; refused, if they name none. */
  groupOf(record) {
    if (!this.public.length) return this.groups[0];
    return this.groups[this.public.reduce((number, name) => number * this.schema[name].k + this.schema[name].encode(valueOf(record, name)), 0)];
  }

  /** The numbers of the parts that a device answers, drawn without looking at what is private. */
  drawn(record, tape = secureTape) {
    const group = this.groupOf(record);
    const own = this.public.length ? tape.spawn("draws of a budget", group.label) : tape;
    return group.asked.drawn(own).map((place) => group.first + place);
  }

  /** What the mechanism of a part takes of a record; substitutes for what does not fit. */
  encoded(part, record) {
    try {
      return part.encode((name) => valueOf(record, name));
    } catch {
      return part.encode(() => undefined); // that looking at a value goes wrong is a fact about its user
    }
  }

  /** The bytes of a fresh report to each part that is drawn, by the number of the part. */
  report(record, tape = secureTape) {
    return new Map(
      this.drawn(record, tape).map((number) => {
        const part = this.parts[number];
        const own = tape.spawn("question", part.name);
        return [number, reportBytes(part.mechanism, part.mechanism.draw(this.encoded(part, record), own))];
      }),
    );
  }

  /** The number of the round with this name. */
  roundOf(period) {
    const { periods } = this.schedule;
    if (!periods) {
      if (period !== undefined && period !== null) throw new ClientError("this plan asks once: leave period out");
      return 0;
    }
    const found = periods.indexOf(period);
    if (found < 0) throw new ClientError(`say which period it is: its periods are ${periods.slice(0, 6).join(", ")}${periods.length > 6 ? " and more" : ""}`);
    return found;
  }

  /** A batch in the wire format, of the reports by part. @param {Map<number, Uint8Array>} reports */
  pack(reports, round = 0) {
    const some = [...reports].sort(([a], [b]) => a - b);
    const size = some.reduce((sum, [, bytes]) => sum + 12 + bytes.length, 52);
    const batch = new Uint8Array(size);
    const view = new DataView(batch.buffer);
    batch.set(utf8("DTHW"));
    view.setUint16(4, 1, true);
    batch.set(this.hash.match(/../g).map((two) => parseInt(two, 16)), 8);
    [round, some.length, some.length].forEach((number, i) => view.setUint32(40 + 4 * i, number, true));
    let [head, at] = [52, 52 + 12 * some.length];
    for (const [number, bytes] of some) {
      [number, bytes.length, 1].forEach((x, i) => view.setUint32(head + 4 * i, x, true));
      batch.set(bytes, at);
      head += 12;
      at += bytes.length;
    }
    return batch;
  }
}
