// What a device has spent, and what it answers when it is asked again (src/dither/privacy/ledger has the rules and the
// proofs). Every fresh report costs a plan's guarantee once more, and fresh noise averages out. So which parts a device
// answers is drawn once for each plan and kept, and so is each report: an unchanged value gets the same bytes again.
//
// - `changes: c` (a plan that is asked at any time): a changed value gets a fresh report, c times at most.
// - `periods: r`: a fresh report once in each period, whether the value has changed or not.
// - A plan with rounds of its own says what is drawn when: `one`, `fresh` or `kept`.
//
// Whether a device sends must not depend on its values: a plan reserves its budget before its first answer, and what is
// used up, or cannot be stored, is answered by the last report. A `store` (store.js) runs `change(book)` alone and keeps
// what it did, all or nothing, before anything is handed out. No value is kept: of what a report was made for there is a
// keyed digest.

import { ClientError } from "./errors.js";
import { rational } from "./exact.js";
import { below, secureTape } from "./draw.js";
import { reportBytes, reportFields } from "./mechanisms.js";
import { hex, hmac, join, utf8 } from "./sha256.js";

const MOST_ROUNDS = 2 ** 53;

const eight = (write) => {
  const view = new DataView(new ArrayBuffer(8));
  write(view);
  return new Uint8Array(view.buffer);
};
const integers = (list) => join(utf8("i"), ...list.map((x) => eight((view) => view.setBigInt64(0, BigInt(x), true))));
const floats = (list) => join(utf8("f"), ...list.map((x) => eight((view) => view.setFloat64(0, x + 0, true)))); // minus zero is zero

/** What a report is made for, in bytes: the same for values that a mechanism does not tell apart. */
export function subject({ kind }, value) {
  if (kind === "sparse") {
    const held = value.keys.map((key, i) => [key, value.values[i]]).filter(([key]) => key >= 0).sort(([a], [b]) => a - b);
    return join(integers(held.map(([key]) => key)), floats(held.map(([, x]) => x)));
  }
  if (kind === "words") return join(utf8("w"), Uint8Array.from(value));
  if (kind === "categories" || kind === "whole") return integers([value].flat());
  return floats([value].flat());
}

/** HMAC-SHA-256 over parts, each behind its length. */
function keyed(key, ...parts) {
  const framed = parts.flatMap((part) => {
    const raw = typeof part === "string" ? utf8(part) : part;
    return [eight((view) => view.setBigUint64(0, BigInt(raw.length), true)), raw];
  });
  return hex(hmac(key, join(...framed)));
}

/** A new book: what a ledger holds. */
export function newBook(epsilon, delta) {
  return { version: 1, key: crypto.getRandomValues(new Uint8Array(32)), epsilon, delta, plans: {}, paid: {}, answers: {} };
}

/** How many rounds of (epsilon, delta) are affordable with what is left of a budget: exact sums, by BigInt. */
function affordable(book, { epsilon, delta }) {
  const unit = (x) => {
    const [n, d] = rational(x);
    return (n << 1100n) / d;
  };
  const left = (name) => Object.values(book.plans).reduce((sum, plan) => sum - unit(plan[name]) * BigInt(plan.rounds), unit(book[name]));
  const rounds = [["epsilon", epsilon], ["delta", delta]].map(([name, price]) => (price ? left(name) / unit(price) : BigInt(MOST_ROUNDS)));
  const least = rounds[0] < rounds[1] ? rounds[0] : rounds[1];
  return least > BigInt(MOST_ROUNDS) ? MOST_ROUNDS : Number(least);
}

/** Set aside what a plan needs, if it is not yet: public, and so is a refusal. */
function reserved(book, plan, kind, rounds) {
  const there = book.plans[plan.hash];
  if (there) {
    if (there.kind !== kind || (rounds !== null && there.rounds !== rounds))
      throw new ClientError("this plan has another reservation on this device, and that is not changed");
    return there;
  }
  const most = affordable(book, plan);
  if (most < Math.max(rounds ?? 1, 1))
    throw new ClientError(`epsilon ${plan.epsilon} does not fit: this device promises epsilon ${book.epsilon} for all plans together. It takes no part in this one`);
  return { kind, rounds: rounds ?? most, epsilon: plan.epsilon, delta: plan.delta };
}

/** The label of a period; 1 and "1" are two periods. */
function label(period) {
  if (Number.isSafeInteger(period)) return utf8(`int ${period}`);
  if (typeof period === "string") return utf8(`str ${period}`);
  throw new ClientError('a period is a public label, a text or a whole number, as in period: "2026-W47"');
}

/** One plan put to one record: what each answer would be made of. */
function prompt(plan, record) {
  const of = (number) => {
    const part = plan.parts[number];
    return { by: part.mechanism, value: plan.encoded(part, record), name: part.name };
  };
  return {
    drawn: () => plan.drawn(record),
    subject: (number) => subject(of(number).by.takes, of(number).value),
    name: (number) => plan.parts[number].name,
    fresh: (number) => reportBytes(of(number).by, of(number).by.draw(of(number).value, secureTape)),
    response: (number) => reportBytes(of(number).by, of(number).by.response(of(number).value, secureTape)),
    said(number, kept) {
      const { by } = of(number);
      const fields = reportFields(by, kept);
      if (typeof fields.seed === "string") fields.seed = BigInt(fields.seed);
      return reportBytes(by, by.said(fields, secureTape));
    },
  };
}

export class Ledger {
  /** @param {{change: (work: (book: any) => any) => Promise<any>}} store */
  constructor(store) {
    this.store = store;
  }

  /** Set aside, before the first answer, what a plan will need: for so many changes, or so many periods. */
  async reserve(plan, { changes, periods } = {}) {
    if ((changes === undefined) === (periods === undefined)) throw new ClientError("give changes or periods");
    const [kind, rounds] = periods === undefined ? ["changes", 1 + changes] : ["periods", periods];
    if (!Number.isSafeInteger(rounds) || rounds < 1) throw new ClientError("changes and periods are whole numbers");
    await this.store.change((book) => void (book.plans[plan.hash] = reserved(book, plan, kind, rounds)));
  }

  /**
   * What the device sends, by the number of the part: kept, repeated and charged.
   * @returns {Promise<Map<number, Uint8Array>>}
   */
  async report(plan, record, { period, once = false } = {}) {
    plan.groupOf(record); // refused here, if its public values name no group: before the store is looked at
    return this.store.change((book) => answered(book, plan, record, { period, once }));
  }

  /** What is set aside, which is public; and what was paid for, which is not: it tells how often values changed. */
  async budget() {
    return this.store.change((book) => {
      const sum = (count) => Object.entries(book.plans).reduce((all, [hash, plan]) => all + plan.epsilon * count(hash, plan), 0);
      return { epsilon: book.epsilon, delta: book.delta, reserved: sum((_, plan) => plan.rounds), spent: sum((hash) => book.paid[hash] ?? 0) };
    });
  }
}

/** What is sent of a book, which is changed: the rules of Python's ledger, within one transaction of the store. */
export function answered(book, plan, record, { period, once = false } = {}) {
  const question = prompt(plan, record);
  if (book.frozen?.includes(plan.hash)) return lastReports(book.answers[plan.hash]); // what is new could not be remembered
  const rounds = plan.schedule.periods !== null;
  const own = rounds ? inRound(book, plan, question, plan.roundOf(period)) : atAnyTime(book, plan, question, period, once);
  book.paid[plan.hash] = Math.max(book.paid[plan.hash] ?? 0, ...Object.values(book.answers[plan.hash]).map((answer) => answer.round));
  return own;
}

function lastReports(answers) {
  const last = Math.max(...Object.values(answers).map((answer) => answer.number ?? 0));
  const sent = Object.entries(answers).filter(([, answer]) => answer.report && (answer.number ?? 0) === last);
  return new Map(sent.map(([number, { report }]) => [Number(number), report]));
}

function atAnyTime(book, plan, question, period, once) {
  const time = period === undefined || period === null ? null : label(period);
  const there = book.plans[plan.hash];
  const kept = (book.plans[plan.hash] = there && once ? there : reserved(book, plan, time ? "periods" : "changes", once ? 1 : null));
  const answers = (book.answers[plan.hash] ??= Object.fromEntries(question.drawn().map((number) => [number, { round: 0, madeFor: "", report: null }])));
  for (const [number, answer] of Object.entries(answers)) {
    const madeFor = keyed(book.key, plan.hash, question.name(number), time ?? question.subject(number));
    if (answer.madeFor !== madeFor && answer.round < kept.rounds) answers[number] = { round: answer.round + 1, madeFor, report: question.fresh(number) };
  }
  return new Map(Object.entries(answers).map(([number, { report }]) => [Number(number), report]));
}

function inRound(book, plan, question, number) {
  const { mode, responses } = plan.schedule;
  book.plans[plan.hash] = reserved(book, plan, "rounds", 1);
  let answers = book.answers[plan.hash] ?? {};
  const known = Object.keys(answers).length > 0;
  const last = () => Math.max(...Object.values(answers).map((answer) => answer.number));
  const each = (parts, make) => Object.fromEntries(parts.map((part) => [part, make(part)]));
  const made = (report, more = {}) => ({ round: 1, number, report, ...more });
  if (mode === "one") {
    if (!known) {
      const turn = Number(below(plan.schedule.rounds, secureTape, 0));
      answers = each(question.drawn(), () => ({ round: 0, number: turn, report: null }));
    }
    for (const [part, answer] of Object.entries(answers)) if (answer.number === number && !answer.report) answers[part] = made(question.fresh(part));
  } else if (!known || number > last()) {
    if (mode === "fresh") answers = { ...answers, ...each(question.drawn(), (part) => made(question.fresh(part))) };
    else {
      if (!known) answers = each(question.drawn(), () => ({ responses: 0, madeFor: "", response: null }));
      answers = each(Object.keys(answers), (part) => {
        let { response, madeFor, responses: drawn } = answers[part];
        const own = keyed(book.key, plan.hash, question.name(part), question.subject(part));
        if (own !== madeFor && drawn < responses) [response, madeFor, drawn] = [question.response(part), own, drawn + 1];
        return made(question.said(part, response), { response, madeFor, responses: drawn });
      });
    }
  }
  book.answers[plan.hash] = answers;
  const sent = mode === "one" ? number : last();
  return new Map(Object.entries(answers).filter(([, answer]) => answer.number === sent && answer.report).map(([part, { report }]) => [Number(part), report]));
}

/** Whether what is kept was made for this round: a round that is over is not answered under another's name. */
export function keeps(book, plan, number) {
  return Object.values(book.answers[plan.hash] ?? {}).some((answer) => answer.number === number && answer.report);
}
