// Strict JSON, read with the text that a plan's hash is over (docs/formats.md). `JSON.parse` does not tell 1.0 from 1,
// rounds integers beyond 2^53 and takes a name twice; the hash is over what stands there. So each value comes with its
// canonical text: keys sorted by code points, no spaces, ASCII, numbers as Python writes them.

import { PlanError } from "./errors.js";

const DEEPEST = 24;
const broken = () => new PlanError("this is not a plan: a plan is what plan.to_json() wrote");
const SHORT = { '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f" };

const written = (text) =>
  `"${text.replace(/["\\]|[^ -~]/g, (c) => SHORT[c] ?? `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)}"`;

/** A float as Python's `repr` has it: the fewest digits, an exponent from 1e16 on and below 1e-4. */
export function floatText(x) {
  const [digits, exponent] = x.toExponential().split("e").map((part, i) => (i ? Number(part) : part));
  if (x === 0) return Object.is(x, -0) ? "-0.0" : "0.0";
  if (exponent >= 16 || exponent < -4) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${digits}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  const text = String(x); // plain here: JavaScript's exponents begin at 1e21 and below 1e-6
  return text.includes(".") ? text : `${text}.0`;
}

/** By code points: JavaScript compares UTF-16 units, which puts U+1F4A1 before U+FF01. */
function before([a], [b]) {
  const x = [...a];
  const y = [...b];
  const at = x.findIndex((c, i) => c !== y[i]);
  if (at < 0) return x.length - y.length;
  return at < y.length ? x[at].codePointAt(0) - y[at].codePointAt(0) : 1;
}

/**
 * The value in a text, and its canonical text; of an object also the entries, each with its own.
 * @param {string} text
 */
export function parse(text) {
  let at = 0;
  const token = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) throw broken();
    at = pattern.lastIndex;
    return found[0];
  };
  const blank = () => token(/[ \t\n\r]*/y);
  const string = () => {
    const value = JSON.parse(token(/"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y));
    if (/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(value)) throw broken();
    return value;
  };
  const list = (end, deep, entry) => {
    if (deep > DEEPEST) throw broken();
    const found = [];
    at++;
    blank();
    if (text[at] === end) at++;
    else
      for (let next = ","; next === ","; next = token(end === "]" ? /[,\]]/y : /[,}]/y)) {
        blank();
        found.push(entry());
        blank();
      }
    return found;
  };
  const value = (deep) => {
    blank();
    const first = text[at];
    if (first === '"') {
      const found = string();
      return [found, written(found)];
    }
    if (first === "[") {
      const found = list("]", deep, () => value(deep + 1));
      return [found.map(([x]) => x), `[${found.map(([, own]) => own).join(",")}]`];
    }
    if (first === "{") {
      const entries = list("}", deep, () => {
        const name = string();
        blank();
        token(/:/y);
        return [name, ...value(deep + 1)];
      });
      const found = Object.assign(Object.create(null), Object.fromEntries(entries));
      if (Object.keys(found).length < entries.length)
        throw new PlanError("this is not a plan: a name is there twice; a plan is what plan.to_json() wrote");
      return [found, canonical(entries), entries];
    }
    const word = token(/true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y);
    if (/^[tfn]/.test(word)) return [{ true: true, false: false, null: null }[word], word];
    if (/[.eE]/.test(word)) {
      const number = Number(word);
      if (!Number.isFinite(number)) throw broken();
      return [number, floatText(number)];
    }
    const number = BigInt(word);
    const small = number >= -(1n << 53n) && number <= 1n << 53n;
    return [small ? Number(number) : number, String(number)];
  };
  const found = value(1);
  blank();
  if (at < text.length) throw broken();
  return found;
}

/** Of the entries of an object, or of some of them. */
export const canonical = (entries) =>
  `{${[...entries]
    .sort(before)
    .map(([name, , own]) => `${written(name)}:${own}`)
    .join(",")}}`;
