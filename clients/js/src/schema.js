// What a record may hold, and how a value becomes what a question is about (src/dither/schema.py). Nothing raises here:
// whatever a value is, a substitute of the schema stands in for it, and nobody is told.

import { ClientError, PlanError } from "./errors.js";
import { nearest } from "./draw.js";
import { utf8 } from "./sha256.js";

const clip = (x, low, high) => Math.min(Math.max(x, low), high);
const SPACES = "[\\t-\\r\\x1c- \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+"; // Python's str.isspace
const OUTER = new RegExp(`^${SPACES}|${SPACES}$`, "g");
const LONGEST_TEXT = 1 << 16;

/** Any number as a float; NaN for what is none. */
export const asFloat = (x) => (typeof x === "number" ? x : typeof x === "bigint" ? Number(x) : NaN);

/** The value of one attribute; undefined if it cannot be had. */
export function valueOf(record, name) {
  try {
    if (record instanceof Map) return record.get(name);
    return typeof record === "object" && record !== null && Object.hasOwn(record, name) ? record[name] : undefined;
  } catch {
    return undefined; // that a record is odd is a fact about its user
  }
}

const MISSING = -2;
const UNKNOWN = -1;

/** The places of labels: texts, and numbers and truth values that are written so. */
function places(labels) {
  const found = new Map(labels.map((label, place) => [label, place]));
  return (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return MISSING;
    const kind = typeof value;
    if (kind === "number") return Number.isSafeInteger(value) ? (found.get(String(value + 0)) ?? UNKNOWN) : UNKNOWN;
    return kind === "string" || kind === "boolean" || kind === "bigint" ? (found.get(String(value)) ?? UNKNOWN) : UNKNOWN;
  };
}

/** A number between two ends: `encode` gives -1 to 1. */
export function numeric(low, high, missing) {
  const centre = (low + high) / 2;
  const half = (high - low) / 2;
  const known = (value) => {
    const x = asFloat(value);
    return Number.isNaN(x) ? missing : x;
  };
  return {
    kind: "numeric",
    low, high, missing, centre, half,
    encode: (value) => clip((clip(known(value), low, high) - centre) / half, -1, 1),
    known,
    between: (from, to) => numeric(from, to, clip(missing, from, to)),
    fits: (value) => asFloat(value) >= low && asFloat(value) <= high,
  };
}

function ordinal({ low, high, missing, lattice }) {
  return {
    kind: "ordinal",
    low, high, lattice,
    k: high - low + 1,
    numeric: numeric(low, high, missing),
    encode(value) {
      const x = asFloat(value);
      return clip(Math.abs(x) === Infinity || x % 1 === 0 ? x : missing, low, high) - low;
    },
    fits: (value) => Number.isInteger(asFloat(value)) && value >= low && value <= high,
  };
}

function categorical({ labels, other, missing = null }) {
  const place = places(labels);
  const [unknown, absent] = [labels.indexOf(other), labels.indexOf(missing ?? other)];
  return {
    kind: "categorical",
    labels,
    k: labels.length,
    encode(value) {
      const found = place(value);
      return found >= 0 ? found : found === MISSING ? absent : unknown;
    },
    fits: (value) => place(value) >= 0,
  };
}

function publicLabels({ labels, other }, name) {
  const place = places(labels);
  return {
    kind: "public",
    labels,
    k: labels.length,
    encode(value) {
      const found = place(value);
      if (found >= 0) return found;
      if (other === null) throw new ClientError(`attribute ${name}: the value is not one of the ${labels.length} public labels, so it names no group of the plan`);
      return labels.indexOf(other);
    },
    fits: (value) => place(value) >= 0,
  };
}

/** Keys with values: an object or a Map from keys to numbers, pairs of them, or a list with a number for each key. */
function keyValue({ keys, size, low = -1, high = 1 }) {
  const names = Array.isArray(keys) ? new Map(keys.map((key, place) => [key, place])) : null;
  const d = names ? keys.length : keys;
  const value = numeric(low, high, (low + high) / 2);
  const keyOf = (key) => (names ? (typeof key === "string" ? (names.get(key) ?? UNKNOWN) : UNKNOWN) : asFloat(key));
  const entries = (x) => {
    if (x instanceof Map) return [...x].map(([key, number]) => [keyOf(key), number]);
    if (Array.isArray(x)) {
      if (x.every((each) => Array.isArray(each) && each.length === 2)) return x.map(([key, number]) => [keyOf(key), number]);
      if (x.length !== d || x.some((each) => typeof each === "object" && each !== null)) return [];
      return x.map((number, key) => [key, number]).filter(([, number]) => number !== 0);
    }
    if (typeof x !== "object" || x === null) return [];
    return Object.entries(x).map(([key, number]) => [names ? keyOf(key) : /^(0|[1-9]\d*)$/.test(key) ? Number(key) : UNKNOWN, number]);
  };
  const held = (x) => {
    try {
      return entries(x);
    } catch {
      return [];
    }
  };
  const isKey = (key) => Number.isInteger(key) && key >= 0 && key < d;
  return {
    kind: "keyvalue",
    d, size, low, high,
    keys: names ? keys : null,
    encode(x) {
      const found = new Map();
      for (const [key, number] of held(x)) {
        const real = asFloat(number);
        if (isKey(key) && !Number.isNaN(real) && !found.has(key)) found.set(key, value.encode(real));
      }
      const empty = Math.max(size + 1 - found.size, 0);
      return {
        keys: [...found.keys(), ...new Array(empty).fill(-1)],
        values: [...found.values(), ...new Array(empty).fill(0)],
      };
    },
    fits(x) {
      const own = held(x);
      return typeof x === "object" && x !== null && own.length <= size && own.every(([key, number]) => isKey(key) && value.fits(number));
    },
  };
}

/** Unicode's full case folding, letter by letter, of what JavaScript has: small, capital and small again. */
const fold = (text) =>
  Array.from(text, (c) => {
    if (c === "\u0131") return c;
    return /[\u13a0-\u13fd\uab70-\uabbf]/.test(c) ? c.toUpperCase() : c.toLowerCase().toUpperCase().toLowerCase();
  }).join("");

function text({ longest, alphabet, fold: folded, trim }) {
  const codes = alphabet === null ? null : new Map(Array.from(alphabet, (letter, place) => [letter, place + 1]));
  return {
    kind: "text",
    longest, alphabet,
    /** The codes of a word, 1 to `longest` of them, or none. */
    encode(value) {
      if (typeof value !== "string" || value.length > 2 * LONGEST_TEXT || [...value].length > LONGEST_TEXT) return [];
      let word = value.normalize("NFC");
      if (folded) word = fold(word).normalize("NFC");
      if (trim) word = word.replace(OUTER, "");
      if (/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(word)) return [];
      const found = codes ? Array.from(word, (letter) => codes.get(letter) ?? 0) : [...utf8(word)];
      return found.length > longest || found.includes(0) ? [] : found;
    },
    fits(value) {
      return this.encode(value).length > 0;
    },
  };
}

/** A number of which nobody knows the ends: its order of magnitude, from 0 to 126. */
export function magnitude(missing) {
  return {
    kind: "ordinal",
    k: 127,
    encode(value) {
      const x = asFloat(value);
      const known = Number.isNaN(x) ? missing : x;
      if (known === 0) return 63;
      const octave = Math.abs(known) === Infinity ? 63 : clip(exponent(known) + 15, 0, 63);
      return 63 + (known > 0 ? octave : -octave);
    },
    fits: (value) => !Number.isNaN(asFloat(value)),
  };
}

/** e, where 2^(e - 1) <= |x| < 2^e. */
function exponent(x) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  const e = (view.getUint32(0) >>> 20) & 0x7ff;
  return e ? e - 1022 : exponent(x * 2 ** 60) - 60;
}

const isText = (x) => typeof x === "string";
const isTexts = (x, most) => Array.isArray(x) && x.length >= 1 && x.length <= most && x.every(isText) && new Set(x).size === x.length;
const isReal = (x) => typeof x === "number" && Number.isFinite(x);
const isWhole = (x) => Number.isSafeInteger(x);

const isRising = (x, low, high) => Array.isArray(x) && x.every(isReal) && [low, ...x, high].every((each, i, all) => !i || each > all[i - 1]);
const isHinted = ({ scale, cuts, lattice, low, high }) =>
  (scale === undefined || (scale === "log" && low >= 0)) &&
  (cuts === undefined || isRising(cuts, low, high)) &&
  (lattice === undefined || (isReal(lattice) && lattice > 0 && lattice <= high - low));
const isBetween = (x, low, high) => isReal(low) && isReal(high) && low < high && isReal(x) && x >= low && x <= high;

/** For each kind of attribute whether the fields are such, and what is made of them. */
const KINDS = {
  numeric: [
    (own) => (own.low === null && own.high === null) || (isBetween(own.missing, own.low, own.high) && isHinted(own)),
    ({ low, high, missing, scale, cuts, lattice }) =>
      low === null ? { kind: "open", missing: isReal(missing) ? missing : 0 } : { ...numeric(low, high, missing), scale, cuts, lattice },
  ],
  ordinal: [
    (own) => [own.low, own.high, own.missing].every(isWhole) && isBetween(own.missing, own.low, own.high) && own.high - own.low < 2 ** 20 && isHinted({ ...own, scale: undefined, cuts: undefined }),
    ordinal,
  ],
  categorical: [({ labels, other, missing = other }) => isTexts(labels, 2 ** 20) && labels.length > 1 && labels.includes(other) && labels.includes(missing), categorical],
  keyvalue: [
    ({ keys, size, low = -1, high = 1 }) => {
      const d = isTexts(keys, 2 ** 20) ? keys.length : keys;
      return isWhole(d) && d >= 2 && isWhole(size) && size >= 1 && size <= d && isBetween(low, low, high);
    },
    keyValue,
  ],
  text: [
    ({ longest, alphabet, fold, trim }) =>
      isWhole(longest) && longest >= 1 && longest <= 1024 && (alphabet === null || isText(alphabet)) && typeof fold === "boolean" && typeof trim === "boolean",
    text,
  ],
  public: [({ labels, other }) => isTexts(labels, 4096) && (other === null || labels.includes(other)), publicLabels],
};

/** The attributes of a plan. @param {any} stored */
export function readSchema(stored) {
  return Object.fromEntries(
    Object.entries(stored ?? {}).map(([name, own]) => {
      const [fits, make] = (Object.hasOwn(KINDS, own?.kind) && KINDS[own.kind]) || [];
      if (!fits?.(own)) throw new PlanError(`schema: this client cannot read the attribute ${name}; take a newer one, or this is not a plan`);
      return [name, make(own, name)];
    }),
  );
}

// Cells of ranges -------------------------------------------------------------------------------------------------------

const SNAP = 1e-9;

/** What is within 1e-9 of a cell from the border of two begins the upper one. */
function snapped(cell) {
  const border = nearest(cell);
  return Math.abs(cell - border) <= SNAP ? border : Math.floor(cell);
}

/** The cell, of so many, of a value on an axis; where there is a hint, cells are made for it. */
export function axisCell(attribute, size) {
  const { kind, lattice, scale, cuts } = attribute;
  if (lattice) {
    const points = latticePoints(attribute.low, attribute.high, lattice);
    const own = kind === "ordinal" ? (x) => attribute.low + x : (x) => attribute.centre + attribute.half * x;
    return { size: points.count, cell: (value) => clip(Math.floor((own(attribute.encode(value)) - points.first) / lattice + 0.5), 0, points.count - 1) };
  }
  if (kind !== "numeric") return { size: attribute.k, cell: attribute.encode };
  const { low, high, centre, half } = attribute;
  if (scale === "log") {
    const unit = low || high / 1000;
    const whole = Math.log1p((high - low) / unit);
    const place = (x) => Math.log1p((x - low) / unit) / whole;
    return { size, cell: (value) => Math.min(snapped(place(centre + half * attribute.encode(value)) * size), size - 1) };
  }
  if (cuts) {
    const knots = [low, ...cuts, high];
    const shares = knots.map((_, i) => i / (knots.length - 1));
    const place = (x) => {
      const at = clip(knots.findLastIndex((knot) => knot <= x), 0, knots.length - 2);
      if (x >= knots[at + 1]) return shares[at + 1];
      return ((shares[at + 1] - shares[at]) / (knots[at + 1] - knots[at])) * (x - knots[at]) + shares[at];
    };
    return { size, cell: (value) => Math.min(snapped(place(centre + half * attribute.encode(value)) * size), size - 1) };
  }
  return { size, cell: (value) => Math.min(snapped(((attribute.encode(value) + 1) / 2) * size), size - 1) };
}

function latticePoints(low, high, step) {
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  const power = 10 ** Math.abs(11 - Math.floor(Math.log10(step)));
  const start = first * step;
  const round = Math.floor(Math.log10(step)) <= 11 ? nearest(start * power) / power : nearest(start / power) * power;
  return { first: clip(round, low, high), count: last - first + 1 };
}
