// What is asked, as a device knows it: for each question which attributes it looks at, and what its mechanism takes of
// their values (src/dither/questions). A question that this client cannot put is refused when the plan is read.

import { PlanError } from "./errors.js";
import { floatText } from "./json.js";
import { axisCell, magnitude } from "./schema.js";

const BINS = 32;
const FINE = 1024;
const MOST_PLACES = 128;
const FINER = [128, 512];

const bin = (attribute, count) => (value) => Math.min(Math.floor(((attribute.encode(value) + 1) / 2) * count), count - 1);

/** A number, of an attribute that is one or whose whole numbers are asked for as one. */
const numberOf = (attribute) => attribute.numeric ?? attribute;

/** Of a number or a whole number the place from -1 to 1. */
const placed = (attribute) => (value) => {
  const found = attribute.encode(value);
  return attribute.k ? (2 * found) / (attribute.k - 1) - 1 : found;
};

/** One column as what a mechanism for categories takes: {k, encode}; null where there is none for this attribute. */
function shares(statistic, attribute, k) {
  const { kind } = attribute;
  if (statistic === "histogram") return kind === "categorical" ? attribute : null;
  if (kind !== "numeric" && kind !== "ordinal") return null;
  if (statistic === "distribution") return kind === "ordinal" ? attribute : { k: BINS, encode: bin(attribute, BINS) };
  const whole = kind === "ordinal";
  const own = whole && attribute.k <= MOST_PLACES ? attribute.k : BINS;
  const cells = FINER.includes(k) && own < k && k < (whole ? attribute.k : FINE) ? k : own;
  if (!whole) return { k: cells, encode: bin(attribute, cells) };
  return cells === attribute.k ? attribute : { k: cells, encode: (value) => Math.floor((attribute.encode(value) * cells) / attribute.k) };
}

const single = (name, encode) => ({ names: [name], encode: (of) => encode(of(name)) });

/** A text between the brackets: the attributes that it names. */
const named = (inside, schema) => {
  const names = inside.split(",").map((name) => name.trim());
  return names.every((name) => name in schema) ? names : null;
};

const isOf = (attribute, ...kinds) => kinds.includes(attribute?.kind);

/** One question, by a mechanism that takes this: what it looks at, and its encoding. null: it does not fit. */
function readOne(text, schema, takes, conditions) {
  const at = text.indexOf("(");
  const statistic = text.slice(0, at).trim();
  const inside = text.slice(at + 1, -1);
  const name = inside in schema ? inside : inside.trim();
  const attribute = schema[name];
  const { kind } = takes;
  if (at < 0 || !text.endsWith(")")) return null;

  if (statistic === "share" && kind === "categories" && takes.k === 2) return conditioned(conditions?.[text], schema);
  if (statistic === "ranges" && kind === "whole") return rangesOf(inside, schema, takes.shape);
  if (statistic === "table" && kind === "categories") {
    const names = named(inside, schema);
    return names && crossed(names.map((each) => [each, shares(isOf(schema[each], "categorical") ? "histogram" : "distribution", schema[each])]), takes.k);
  }
  if (statistic === "product" && kind === "number") {
    const names = named(inside, schema);
    if (names?.length !== 2 || !names.every((each) => isOf(schema[each], "numeric", "ordinal"))) return null;
    return { names, encode: (of) => names.map((each) => numberOf(schema[each]).encode(of(each))).reduce((a, b) => a * b) };
  }
  if ((statistic === "groups" || statistic === "group_sums") && kind === "sparse") {
    const [number, groups] = inside.split(" by ").map((part) => part.trim());
    const [of1, of2] = [schema[number], schema[groups]];
    if (!isOf(of1, "numeric", "ordinal") || !isOf(of2, "categorical") || takes.s !== 1 || takes.d !== of2.k) return null;
    return { names: [groups, number], encode: (of) => ({ keys: [of2.encode(of(groups))], values: [numberOf(of1).encode(of(number))] }) };
  }
  if (statistic === "top" && kind === "words") {
    const word = name in schema ? name : inside.replace(/,\s*\d+\s*(,[^,]*)?$/, "").trim();
    const own = schema[word];
    const symbols = own?.alphabet === null ? 255 : [...(own?.alphabet ?? "")].length;
    return isOf(own, "text") && own.longest === takes.longest && symbols === takes.symbols ? single(word, own.encode) : null;
  }
  if (!attribute) return null;
  if (["presence", "mean", "conditional_mean", "frequency"].includes(statistic) && kind === "sparse")
    return isOf(attribute, "keyvalue") && attribute.d === takes.d && attribute.size === takes.s ? single(name, attribute.encode) : null;
  if (statistic === "magnitude" && isOf(attribute, "open")) {
    const own = magnitude(attribute.missing);
    if (kind === "number") return single(name, placed(own));
    return kind === "categories" && takes.k === own.k ? single(name, own.encode) : null;
  }
  if (kind === "number" && isOf(attribute, "numeric", "ordinal")) {
    if (statistic === "mean") return single(name, numberOf(attribute).encode);
    if (statistic === "square") return single(name, (value) => 2 * numberOf(attribute).encode(value) ** 2 - 1);
    if (statistic === "distribution" || statistic === "cumulative") return single(name, placed(attribute));
  }
  if (kind === "categories" && ["histogram", "distribution", "cumulative"].includes(statistic)) {
    const own = shares(statistic, attribute, takes.k);
    return own?.k === takes.k ? single(name, own.encode) : null;
  }
  return null;
}

/** The cell of a table, the last attribute varying fastest. */
function crossed(axes, k) {
  if (axes.some(([, own]) => !own) || axes.reduce((product, [, own]) => product * own.k, 1) !== k) return null;
  return { names: axes.map(([name]) => name), encode: (of) => axes.reduce((cell, [name, own]) => cell * own.k + own.encode(of(name)), 0) };
}

function rangesOf(inside, schema, shape) {
  const names = named(inside, schema);
  if (names?.length !== shape.length || !names.every((name) => isOf(schema[name], "numeric", "ordinal", "categorical"))) return null;
  const axes = names.map((name, j) => axisCell(schema[name], shape[j]));
  if (axes.some(({ size }, j) => size !== shape[j])) return null;
  return { names, encode: (of) => axes.map(({ cell }, j) => cell(of(names[j]))) };
}

/** The float below, and above: an end just above a number stands behind it. */
function nextDown(x) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  const bits = view.getBigInt64(0);
  view.setBigInt64(0, x > 0 ? bits - 1n : x === 0 ? -(2n ** 63n) + 1n : bits + 1n);
  return view.getFloat64(0);
}

/** Where the end of a piece is written: the number below, where it is just above one with fewer digits. */
function cutAt(end) {
  const below = nextDown(end);
  return floatText(below).length + 3 <= floatText(end).length ? below : end;
}

/** Whether the record fulfils a condition: for each attribute one of its values, after substitutes. */
function conditioned(details, schema) {
  if (typeof details !== "object" || details === null) return null;
  const tests = Object.entries(details).map(([name, pieces]) => {
    const attribute = schema[name];
    if (!Array.isArray(pieces) || !pieces.length || !isOf(attribute, "numeric", "ordinal", "categorical")) return null;
    if (isOf(attribute, "categorical")) {
      const allowed = pieces.map((label) => attribute.labels.indexOf(label));
      return allowed.includes(-1) ? null : [name, (value) => allowed.includes(attribute.encode(value))];
    }
    const ends = pieces.flat();
    const last = isOf(attribute, "ordinal") ? attribute.high + 1 : attribute.high;
    const fine = pieces.every((piece) => Array.isArray(piece) && piece.length === 2) && ends.every((x, i) => typeof x === "number" && (!i || x > ends[i - 1]));
    if (!fine || ends[0] < attribute.low || ends[ends.length - 1] > last) return null;
    if (isOf(attribute, "ordinal")) {
      const inside = (x) => pieces.some(([from, to]) => x >= from && x < to);
      return [name, (value) => inside(attribute.encode(value) + attribute.low)];
    }
    const cuts = pieces.map(([from, to]) => {
      const [low, high] = [cutAt(from), cutAt(to)];
      return [attribute.encode(low), low !== from, attribute.encode(high), high !== to || to === last];
    });
    return [
      name,
      (value) => {
        const x = attribute.encode(value);
        return cuts.some(([low, after, high, behind]) => (after ? x > low : x >= low) && (behind ? x <= high : x < high));
      },
    ];
  });
  if (!tests.length || tests.includes(null)) return null;
  return { names: tests.map(([name]) => name), encode: (of) => tests.reduce((all, [name, test]) => all & Number(test(of(name))), 1) };
}

/**
 * What a part looks at, and how a record becomes what its mechanism takes: `encode` is given how a value is had.
 * @param {string[]} texts @param {any} schema @param {any} takes @param {any} conditions @param {string} where
 */
export function readQuestions(texts, schema, takes, conditions, where) {
  let found = null;
  if (takes.kind === "numbers") {
    const each = texts.map((text) => readOne(text, schema, { kind: "number" }, conditions));
    if (texts.length === takes.d && each.every(Boolean))
      found = { names: each.flatMap(({ names }) => names), encode: (of) => each.map(({ encode }) => encode(of)) };
  } else if (texts.length > 1 && takes.kind === "categories") {
    const axes = texts.map((text) => {
      const [, statistic, name] = /^(histogram|distribution)\((.*)\)$/s.exec(text) ?? [];
      return statistic && name in schema ? [name, shares(statistic, schema[name])] : ["", null];
    });
    found = crossed(axes, takes.k);
  } else if (texts.length === 1 || takes.kind === "sparse") {
    const each = texts.map((text) => readOne(text, schema, takes, conditions));
    found = each.every(Boolean) ? each[0] : null;
  }
  if (!found) throw new PlanError(`${where}: this client cannot ask ${texts.join(" and ")} by this mechanism; take a newer one`);
  return found;
}
