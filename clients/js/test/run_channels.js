// The exact channel: the client's own sampler over all tapes of short words, counted, against the fractions that Python's
// certificate states. Runs in Node and in a browser.
//
// A sampler is run with the words that it was handed so far; where it asks for more, all that they could be are tried.
// Words that are rejected are drawn again, so the law is the one given acceptance, read by read.

import { mechanism, reportBytes } from "../src/mechanisms.js";
import { hex } from "../src/sha256.js";

const gcd = (a, b) => {
  while (b) [a, b] = [b, a % b];
  return a;
};

/** The law of `sample(tape)`: for each outcome the numerator over `whole`. */
export function lawOf(sample, bits, varied) {
  let runs = 0;
  /** @returns {{whole: bigint, law: Map<string, bigint>} | null} null: the last words were rejected */
  const explore = (handed) => {
    let at = 0;
    let asked = null;
    let rejected = false;
    const stop = new Error("more words");
    const tape = {
      bits,
      words(lane, width = 1, attempt = 0) {
        if (at < handed.length && !attempt) return handed[at++].slice(0, width);
        rejected = attempt > 0;
        asked = { lane, width };
        throw stop;
      },
      slots: () => tape,
      spawn: () => tape,
      row: () => tape,
    };
    runs++;
    try {
      return { whole: 1n, law: new Map([[sample(tape), 1n]]) };
    } catch (error) {
      if (error !== stop) throw error;
    }
    if (rejected) return null;
    const columns = varied ? (varied[asked.lane] ?? []).filter((column) => column < asked.width) : Array.from({ length: asked.width }, (_, i) => i);
    const found = [];
    for (let number = 0; number < 2 ** (bits * columns.length); number++) {
      const words = new Array(asked.width).fill(0n);
      columns.forEach((column, i) => (words[column] = BigInt(Math.floor(number / 2 ** (bits * i)) % 2 ** bits)));
      const own = explore([...handed, words]);
      if (own) found.push(own);
    }
    const whole = found.reduce((product, { whole: each }) => (product / gcd(product, each)) * each, 1n);
    const law = new Map();
    for (const { whole: each, law: own } of found) for (const [outcome, count] of own) law.set(outcome, (law.get(outcome) ?? 0n) + count * (whole / each));
    return { whole: whole * BigInt(found.length), law };
  };
  return { ...explore([]), runs: () => runs };
}

/** Those that are run on every change: short ones. Where there is time, all of up to 16 bits, and one of each mechanism. */
export function someChannels(channels, wide) {
  const few = (most) => channels.filter(({ tapes }) => tapes <= most);
  if (!wide) return few(13);
  const names = new Set(few(16).map(({ mechanism: { mechanism: name } }) => name));
  return channels.filter(({ tapes, mechanism: { mechanism: name } }) => tapes <= 16 || (!names.has(name) && names.add(name)));
}

/** @returns {{run: number, tapes: number, wrong: string[]}} */
export function runChannels(channels, make = mechanism) {
  const wrong = [];
  let tapes = 0;
  channels.forEach(({ mechanism: stored, bits, value, varied, law, whole }, i) => {
    const by = make(stored, "channel");
    const sparse = by.takes.kind === "sparse";
    const empty = sparse ? Math.max(by.takes.s + 1 - value.length, 0) : 0;
    const taken = sparse ? { keys: [...value.map(([key]) => key), ...Array(empty).fill(-1)], values: [...value.map(([, x]) => x), ...Array(empty).fill(0)] } : value;
    const found = lawOf((tape) => hex(reportBytes(by, by.draw(taken, tape))), bits, varied);
    tapes += found.runs();
    const reports = new Set([...found.law.keys(), ...Object.keys(law)]);
    for (const report of reports)
      if ((found.law.get(report) ?? 0n) * BigInt(whole) !== BigInt(law[report] ?? 0) * found.whole) {
        wrong.push(`channel ${i} of ${stored.mechanism}, ${bits} bits: ${report} has ${found.law.get(report)} / ${found.whole}, and not ${law[report]} / ${whole}`);
        break;
      }
  });
  return { run: channels.length, tapes, wrong };
}
