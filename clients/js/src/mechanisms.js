// The mechanisms that a plan may choose, as a device knows them: each reads its fields of plan.json, certifies its
// integers, and draws one report. The words of a tape become the bytes of a report exactly as in src/dither/mechanisms
// (clients/js/vectors has thousands of cases that both run).
//
// A mechanism is {takes, fields, draw, response, said, epsilon, delta}. `takes` is its domain: {kind: "categories", k},
// {kind: "number"}, {kind: "numbers", d}, {kind: "sparse", d, s}, {kind: "words", longest} or {kind: "whole", shape}.
// `fields` are [name, bytes, how many] of a report, or [name, bytes] for packed bits; `draw(value, tape)` the numbers of
// these. `response` is what a device keeps that is asked again and again, and `said` the report that it makes of it.

import { PlanError } from "./errors.js";
import { choose, promise, rational, shareBelow, twoLevel, within } from "./exact.js";
import {
  CHOICE, COINS, ELEMENT, ORDER, TAG,
  below, belowEach, coins, entry, nearest, position, rejecting, rounded, roundedSigns, setBit, side,
} from "./draw.js";
import { bucket, fingerprint, publicSeed, wordBucket } from "./hashing.js";
import { projectiveSpace } from "./projective.js";
import { join } from "./sha256.js";

const SIDE = COINS + 128;
const EMPTY = -1;
const MOST_STEPS = 1 << 20;

/** Bytes of the smallest unsigned integer that holds a number. */
const bytesFor = (most) => (most < 256 ? 1 : most < 65536 ? 2 : most < 2 ** 32 ? 4 : 8);
const value = (outputs) => ["value", bytesFor(Number(outputs) - 1), 1];

/** The bytes of a report, of the numbers of its fields: little-endian, without gaps. */
export function reportBytes({ fields }, report) {
  const bytes = (x, size) => Uint8Array.from({ length: size }, (_, i) => Number((BigInt(x) >> BigInt(8 * i)) & 255n));
  return join(...fields.flatMap(([name, size, count]) => (count === undefined ? report[name] : [report[name]].flat().map((x) => bytes(x, size)))));
}

/** The inverse: numbers beyond 2^53 as texts, packed bits as bytes. */
export function reportFields({ fields }, bytes) {
  let at = 0;
  const number = (size) => {
    let x = 0n;
    for (let i = 0; i < size; i++) x |= BigInt(bytes[at++]) << BigInt(8 * i);
    return x < 1n << 53n ? Number(x) : String(x);
  };
  return Object.fromEntries(
    fields.map(([name, size, count]) => {
      if (count === undefined) return [name, bytes.slice(at, (at += size))];
      const found = Array.from({ length: count }, () => number(size));
      return [name, count === 1 ? found[0] : found];
    }),
  );
}

export const widthOf = ({ fields }) => fields.reduce((sum, [, size, count = 1]) => sum + size * count, 0);

// The fields of plan.json ---------------------------------------------------------------------------------------------

const wrong = (what) => new PlanError(`${what}; this is not a plan that dither wrote`);

/** Fields of a mechanism, checked one by one as they are asked for. */
function reader(stored, what) {
  const number = (name, low, high) => {
    const x = stored[name];
    if (!(Number.isSafeInteger(x) && x >= low && x <= high)) throw wrong(`${what}: ${name} is out of range`);
    return x;
  };
  return {
    what,
    stored,
    number,
    optional: (name, low, high) => (stored[name] ?? null) === null ? null : number(name, low, high),
    weights: (count, given = stored.weights) => {
      const found = (Array.isArray(given) ? given : []).map(integer);
      if ((count && found.length !== count) || !found.every((x) => x !== null && x >= 0n)) throw wrong(`${what}: weights are missing`);
      return found;
    },
    real: (name, fallback) => {
      const x = stored[name] ?? fallback;
      if (!(typeof x === "number" && x >= 0 && x < Infinity)) throw wrong(`${what}: ${name} is no number`);
      return x;
    },
  };
}

/** A whole number that is one, or the decimal text of one beyond 2^53. */
function integer(x) {
  if (typeof x === "bigint" || Number.isSafeInteger(x)) return BigInt(x);
  return typeof x === "string" && /^-?[1-9]\d{0,400}$/.test(x) ? BigInt(x) : null;
}

// Categories ----------------------------------------------------------------------------------------------------------

const categories = (k) => ({ kind: "categories", k });

function grr(r, { epsilon, delta }, given) {
  const k = r.number("k", 2, 2 ** 40);
  const law = twoLevel(r.what, given ?? r.weights(2), 1, k, { epsilon, delta });
  return { takes: categories(k), fields: [value(k)], law, draw: (x, tape) => ({ value: (x + position(law, tape)) % k }) };
}

/** Weights A, B, Q, 2^b: the own bit is one with probability A / (A + B), any other with Q / 2^b. */
function unary(r, { epsilon, delta }, given) {
  const k = r.number("k", 2, 2 ** 24);
  const [high, low, q, whole] = given ?? r.weights(4);
  if (!(high > 0n && low > 0n && q > 0n && q < whole && !(whole & (whole - 1n)) && high * whole > q * (high + low)))
    throw wrong(`${r.what}: the weights are no coins`);
  // p (1 - q) <= e^epsilon q (1 - p) + delta, with everything in units of 1 / ((A + B) 2^b).
  const [lost, of] = rational(delta);
  const total = (high + low) * whole;
  if (delta) promise(keepsDelta(high * (whole - q), low * q, epsilon, lost * total, of), r.what);
  else promise(within(high * (whole - q), low * q, epsilon), r.what);
  const law = { high, low, favoured: 1n, outputs: 2n, total: high + low };
  return {
    takes: categories(k),
    fields: [["bits", Math.ceil(k / 8)]],
    odds: [high, low, q, whole],
    draw(x, tape) {
      const bits = coins(q, whole, k, tape);
      setBit(bits, x, position(law, tape) === 0);
      return { bits };
    },
  };
}

/** Whether one is at most e^epsilon other + lost / of. */
function keepsDelta(one, other, epsilon, lost, of) {
  // one - lost/of <= e^epsilon other
  const left = one * of - lost;
  return left <= 0n || within(left, other * of, epsilon);
}

/** A hash function in a report: one of its own, or one that many share. */
function hashFunction(cohorts) {
  return cohorts === null
    ? { field: ["seed", 8, 1], draw: (tape) => { const [seed] = tape.words(TAG); return { seed }; }, seed: ({ seed }) => seed }
    : {
        field: ["cohort", bytesFor(cohorts - 1), 1],
        draw: (tape) => ({ cohort: Number(below(cohorts, tape, TAG)) }),
        seed: ({ cohort }) => publicSeed(cohort),
      };
}

function localHash(r, { epsilon, delta }, given) {
  const k = r.number("k", 2, 2 ** 32);
  const g = r.optional("g", 2, 65536) ?? bestBuckets(r.what, k, epsilon, delta);
  const functions = hashFunction(r.optional("cohorts", 1, 2 ** 24));
  const law = twoLevel(r.what, given ?? r.weights(2), 1, g, { epsilon, delta });
  return {
    takes: categories(k),
    fields: [functions.field, value(g)],
    law,
    sampler: `${g} ${r.stored.cohorts} ${law.high} ${law.low}`,
    draw(x, tape) {
      const own = functions.draw(tape);
      return { ...own, value: (bucket(x, functions.seed(own), g) + position(law, tape)) % g };
    },
  };
}

/** The number of buckets that a recipe leaves out: the one with the smallest total variance. */
function bestBuckets(what, k, epsilon, delta) {
  const gain = Math.expm1(Math.min(epsilon, 50));
  const ratio = gain + 1;
  const valleys = [1 + Math.sqrt((ratio * ((k - 1) * ratio + 1)) / (k - 1 + ratio))];
  const inner = (1 - delta) * (gain + delta - 9 * (gain + 1) * delta);
  if (inner >= 0) valleys.push((2 * gain * (gain + 2 - 2 * delta)) / (gain * (1 - 3 * delta) + Math.sqrt(gain * inner)));
  const cost = (g) => {
    const p = (ratio + (g - 1) * delta) / (ratio + g - 1);
    return (p * (1 - p) + ((k - 1) * (1 - 1 / g)) / g) / (p - 1 / g) ** 2;
  };
  const beside = valleys.flatMap((valley) => [Math.floor, Math.ceil].map((f) => Math.max(2, f(Math.min(valley, 65536)))));
  const best = beside.reduce((one, other) => (cost(other) < cost(one) ? other : one));
  // Another machine's last digit must not decide: no such recipe was ever seen, and it would be refused.
  if (beside.some((g) => g !== best && cost(g) < cost(best) * (1 + 1e-12))) throw wrong(`${what}: g cannot be told`);
  return best;
}

function subsetSelection(r, { epsilon }) {
  const k = r.number("k", 2, 65536);
  const size = r.number("size", 1, k - 1);
  const law = twoLevel(r.what, r.weights(2), choose(k - 1, size - 1), choose(k, size), { apart: choose(k - 2, size - 1), epsilon });
  const count = Math.min(size, k - size);
  return {
    takes: categories(k),
    fields: [["bits", Math.ceil(k / 8)]],
    draw(x, tape) {
      const inside = side(law, tape);
      const held = inside === (count === size); // of what is drawn: what is in, or what is left out if that is less
      const half = BigInt(tape.bits / 2);
      const chosen = rejecting(
        (words) => {
          const draws = [];
          for (let i = 0; i < count; i++) {
            const bound = BigInt(k - count + i);
            const scaled = ((words[i >> 1] >> (i % 2 ? half : 0n)) & ((1n << half) - 1n)) * bound;
            if ((scaled & ((1n << half) - 1n)) < (1n << half) % bound) return undefined;
            draws.push(Number(scaled >> half));
          }
          // Floyd's algorithm among the k - 1 others, who are numbered as if the last stood in the place of x.
          const taken = new Set();
          draws.forEach((u, i) => {
            if (held && !i) return;
            taken.add(taken.has(u) ? k - 1 - count + i : u);
          });
          return taken;
        },
        tape,
        ELEMENT,
        Math.ceil(count / 2),
      );
      if (chosen.delete(x)) chosen.add(k - 1);
      const bits = new Uint8Array(Math.ceil(k / 8));
      for (let i = 0; i < k; i++) setBit(bits, i, (i === x ? held : chosen.has(i)) === (count === size));
      return { bits };
    },
  };
}

function hadamard(r, { epsilon }) {
  const k = r.number("k", 2, 2 ** 26 - 1);
  const codes = 2 ** k.toString(2).length;
  const law = twoLevel(r.what, r.weights(2), codes / 2, codes, { apart: codes / 4, epsilon });
  return {
    takes: categories(k),
    fields: [value(codes)],
    draw(x, tape) {
      const place = position(law, tape);
      const odd = place >= codes / 2;
      const index = odd ? place - codes / 2 : place;
      const row = x + 1;
      const pivot = row & -row;
      const low = index & (pivot - 1);
      const code = ((index ^ low) << 1) | low;
      let parity = 0;
      for (let bits = code & row; bits; bits &= bits - 1) parity ^= 1;
      return { value: !!parity !== odd ? code | pivot : code };
    },
  };
}

/** The law of a projective space, for categories or for words. */
function points(r, hyperplanes, epsilon) {
  const space = projectiveSpace(hyperplanes, r.number("q", 2, 8192));
  if (space.size > 2 ** 27) throw wrong(`${r.what}: q is out of range`);
  return { space, law: twoLevel(r.what, r.weights(2), space.own, space.size, { apart: space.apart, epsilon }) };
}

function projectiveGeometry(r, { epsilon }) {
  const k = r.number("k", 2, 2 ** 24);
  const { space, law } = points(r, k, epsilon);
  return { takes: categories(k), fields: [value(space.size)], draw: (x, tape) => ({ value: space.place(x, position(law, tape)) }) };
}

/** Gaussian noise from a table on a one-hot vector: weights v[0], ..., v[R], J, T, H, as of a lattice of two points. */
function oneHotGaussian(r, { epsilon, delta }) {
  const k = r.number("k", 2, 2 ** 24);
  const all = r.weights();
  const [steps, reach, stretch] = all.slice(-3).map(Number);
  const noise = all.slice(0, -3);
  if (!(steps >= 1 && steps <= MOST_STEPS && reach >= 1 && stretch >= 1 && noise.length === steps + reach + 1 && noise.every((x) => x > 0n)))
    throw wrong(`${r.what}: the weights are no table`);
  let sum = 0n;
  const cumulative = [...noise.slice(1).reverse(), ...noise].map((x) => (sum += x));
  const outputs = steps + 2 * reach + 1;
  const draw = (x, tape) => {
    const point = rounded(x / stretch, steps, tape) + entry(cumulative, tape) - steps;
    return Math.min(Math.max(point, 0), outputs - 1);
  };
  promise(keepsGaussian(noise, cumulative, steps, reach, BigInt(stretch), epsilon, delta), r.what);
  return {
    takes: categories(k),
    fields: [["value", bytesFor(outputs - 1), k]],
    draw(x, tape) {
      const own = tape.slots("0", k);
      return { value: Array.from({ length: k }, (_, i) => draw(i === x ? 1 : -1, own.row(i))) };
    },
  };
}

/**
 * Two records differ in two entries, one from -1 to 1 and one back. With P and Q for the law of an output at 1 and at
 * -1, delta is the sum over pairs (a, b) of what P(a) Q(b) is beyond e^epsilon Q(a) P(b). P/Q rises with the output
 * (checked), so of each a these b are the ones up to some place, which only moves on as a does.
 */
function keepsGaussian(noise, cumulative, steps, reach, stretch, epsilon, delta) {
  const tail = (k) => cumulative[noise.length - 1 - k]; // the weight of noise of k or more
  const at = (i, y) => {
    // the weight of output y at lattice point i; the ends hold what is beyond them
    const offset = y - reach - i;
    if (y === 0) return tail(reach + i);
    if (y === steps + 2 * reach) return tail(reach + steps - i);
    return noise[Math.abs(offset)] ?? 0n;
  };
  const pairs = Array.from({ length: steps + 2 * reach + 1 }, (_, y) => {
    const [low, high] = [at(0, y), at(steps, y)];
    return [(stretch + 1n) * high + (stretch - 1n) * low, (stretch + 1n) * low + (stretch - 1n) * high]; // P, Q
  });
  if (pairs.some(([p, q], i) => i && p * pairs[i - 1][1] < pairs[i - 1][0] * q)) return false;
  const whole = pairs.reduce((sum, [p]) => sum + p, 0n);
  let [end, sumQ, sumP] = [0, 0n, 0n];
  let [gain, cost] = [0n, 0n]; // of P(a) Q(b), and of Q(a) P(b)
  for (const [p, q] of pairs) {
    while (end < pairs.length && !within(p * pairs[end][1], q * pairs[end][0], epsilon)) {
      sumP += pairs[end][0];
      sumQ += pairs[end++][1];
    }
    gain += p * sumQ;
    cost += q * sumP;
  }
  const [lost, of] = rational(delta);
  return keepsDelta(gain, cost, epsilon, lost * whole * whole, of);
}

// Numbers -------------------------------------------------------------------------------------------------------------

/** A window of w outputs on a lattice of J + 1 inputs and J + w outputs. */
function makeWindow(what, [high, low, width, steps], budget) {
  [width, steps] = [Number(width), Number(steps)];
  if (!(width >= 1 && width <= MOST_STEPS && steps >= 1 && steps <= MOST_STEPS)) throw wrong(`${what}: the lattice is out of range`);
  const outputs = steps + width;
  const law = twoLevel(what, [high, low], width, outputs, { ...budget, apart: Math.min(width, steps) });
  return { outputs, law, draw: (x, tape) => (rounded(x, steps, tape) + position(law, tape)) % outputs };
}

function windowed(r, budget) {
  const own = makeWindow(r.what, r.weights(4), budget);
  const place = "quantiles" in r.stored ? quantilePlace(r) : (x) => x;
  return { takes: { kind: "number" }, fields: [value(own.outputs)], draw: (x, tape) => ({ value: own.draw(place(x), tape) }) };
}

/** From a number to the place of its estimated quantile, in whole numbers: 40 binary digits are read and written. */
function quantilePlace(r) {
  const cuts = r.stored.quantiles;
  const rising = Array.isArray(cuts) && cuts.every((x, i) => Number.isSafeInteger(x) && (!i || x > cuts[i - 1]));
  if (!(rising && cuts.length > 1 && cuts[0] === 0 && cuts[cuts.length - 1] === 2 ** 20)) throw wrong(`${r.what}: quantiles are no scale`);
  const stretches = cuts.length - 1;
  if (stretches === 1) return (x) => x;
  return (x) => {
    const read = nearest((x + 1) * 2 ** 39);
    const at = Math.min(cuts.findLastIndex((cut) => cut * 2 ** 20 <= read), stretches - 1);
    const into = Math.floor((read - cuts[at] * 2 ** 20) / (cuts[at + 1] - cuts[at]));
    return (at * 2 ** 20 + into) / (stretches * 2 ** 19) - 1;
  };
}

function hybrid(r, { epsilon }) {
  const [signHigh, signLow, high, low, width, steps, share] = r.weights(7);
  const coin = 1n << 32n;
  if (share > coin) throw wrong(`${r.what}: the share is out of range`);
  const laws = [...(share < coin ? [[signHigh, signLow, 1n, 1n]] : []), ...(share ? [[high, low, width, steps]] : [])];
  const branches = laws.map((law) => makeWindow(r.what, law, { epsilon })); // what has no share is left out
  let [numerator, denominator] = [coin - share, coin];
  while (denominator > 1n && !(numerator & 1n)) [numerator, denominator] = [numerator >> 1n, denominator >> 1n];
  return {
    takes: { kind: "number" },
    fields: [["branch", 1, 1], value(Math.max(...branches.map((each) => each.outputs)))],
    draw(x, tape) {
      const branch = branches.length > 1 ? Number(below(denominator, tape, TAG) >= numerator) : 0;
      return { branch, value: branches[branch].draw(x, tape.slots(String(branch), 1)) };
    },
  };
}

/** Numbers by one corner of the cube, or by several with a part of the budget each. */
function hypercube(r, { epsilon, delta }) {
  const d = r.number("d", 1, 4096);
  const parts = r.optional("parts", 1, 64) ?? 1;
  const whole = 1n << BigInt(d);
  const half = (whole - (d % 2 ? 0n : choose(d, d / 2))) / 2n;
  const law = twoLevel(r.what, r.weights(2), half, whole, { apart: half, epsilon: shareBelow(epsilon, parts), delta: shareBelow(delta, parts) });
  const corner = (values, tape) => {
    const wanted = side(law, tape);
    const bits = BigInt(tape.bits);
    const agreements = rejecting(
      (words) => {
        let u = words.reduceRight((sum, word) => (sum << bits) | word, 0n) & (whole - 1n);
        const excess = 2 * u.toString(2).replaceAll("0", "").length - d;
        const right = excess > 0 === wanted;
        const movable = d % 2 ? !right : wanted && excess < 0;
        if (movable) u ^= whole - 1n;
        return right || movable ? u : undefined;
      },
      tape,
      ELEMENT,
      Math.ceil(d / tape.bits),
    );
    return roundedSigns(values, tape).map((plus, i) => plus === !!((agreements >> BigInt(i)) & 1n));
  };
  return {
    takes: { kind: "numbers", d },
    fields: [["bits", Math.ceil((d * parts) / 8)]],
    draw(values, tape) {
      const bits = new Uint8Array(Math.ceil((d * parts) / 8));
      const own = parts > 1 ? tape.slots("part", parts) : tape;
      for (let part = 0; part < parts; part++)
        corner(values, own.row(part)).forEach((plus, i) => setBit(bits, part * d + i, plus));
      return { bits };
    },
  };
}

// Keys with values: {keys, values}, filled up with EMPTY ----------------------------------------------------------------

function sparse(r) {
  const d = r.number("d", 2, 2 ** 31);
  return { kind: "sparse", d, s: r.number("s", 1, d) };
}

const heldBy = (x) => x.keys.filter((key) => key !== EMPTY).length;

/** Exactly s keys and whether their signs are plus: dummies fill up, too many are sampled down. */
function chosen({ d, s }, x, tape) {
  let [keys, values] = [[...x.keys], [...x.values]];
  if (keys.length > s) {
    const count = heldBy(x);
    const held = Math.max(count, s);
    belowEach(Array.from({ length: s }, (_, i) => held - i), tape, CHOICE).forEach((u, slot) => {
      const other = slot + (count > s ? Number(u) : 0);
      for (const list of [keys, values]) [list[slot], list[other]] = [list[other], list[slot]];
    });
    [keys, values] = [keys.slice(0, s), values.slice(0, s)];
  }
  const plus = roundedSigns(values.map((value, i) => (keys[i] === EMPTY ? 1 : value)), tape);
  return { keys: keys.map((key, i) => (key === EMPTY ? d + i : key)), plus };
}

/** One of these s keys, and its sign; d stands for any dummy. */
function picked({ d, s }, x, tape) {
  const slot = Number(below(Math.max(heldBy(x), s), tape, CHOICE));
  const dummy = x.keys[slot] === EMPTY;
  const [plus] = roundedSigns([dummy ? 1 : x.values[slot]], tape);
  return { key: dummy ? d : x.keys[slot], plus };
}

/** The whole number with this place among those that are no members; members ascend. */
const outside = (members, place) => members.reduce((found, member) => found + Number(member <= found), place);

function bucketed(paired) {
  return (r, { epsilon }) => {
    const takes = sparse(r);
    const { s } = takes;
    const t = r.number("t", paired ? 2 * s + 2 : s + 1, 65536);
    if (paired && t % 2) throw wrong(`${r.what}: t is odd`);
    const functions = hashFunction(r.optional("cohorts", 1, 2 ** 24));
    // Where items collide fewer buckets are favoured, and the others have between B and A each: A/B stays the largest.
    const law = twoLevel(r.what, r.weights(2), s, t, { epsilon });
    if (law.total > 1n << 64n) throw wrong(`${r.what}: the weights do not fit a word`);
    const collide = (own, { keys, plus }, tape) => {
      const hit = keys.map((key, i) => bucket(2 * key + Number(plus[i]), functions.seed(own), t));
      const distinct = [...new Set(hit)].sort((a, b) => a - b);
      const place = position(law, tape, BigInt(distinct.length));
      return place < distinct.length ? distinct[place] : outside(distinct, place - distinct.length);
    };
    const pairs = (own, { keys, plus }, tape) => {
      const half = t / 2;
      const favoured = keys.map((key, i) => (bucket(key, functions.seed(own), t) + (plus[i] ? 0 : half)) % t);
      const pair = favoured.map((x) => x % half);
      const turn = [];
      if (s > 1)
        belowEach(pair.map((_, i) => i + 1), tape, ORDER).forEach((behind, i) => {
          const mine = i - Number(behind);
          for (let j = 0; j < i; j++) turn[j] += Number(turn[j] >= mine);
          turn.push(mine);
        });
      // Of the keys on one pair the last counts, in this random order.
      const counts = pair.map((x, i) => pair.every((y, j) => x !== y || j === i || turn[j] < turn[i]));
      const speaking = favoured.filter((_, i) => counts[i]);
      const number = speaking.length;
      const place = position(law, tape, BigInt(number), BigInt(number));
      if (place < number) return speaking[place];
      if (place < 2 * number) return (speaking[place - number] + half) % t;
      const [rest, free] = [place - 2 * number, Math.max(half - number, 1)];
      const others = pair.filter((_, i) => counts[i]).sort((a, b) => a - b);
      return outside(others, rest % free) + half * Math.floor(rest / free);
    };
    return {
      takes,
      fields: [functions.field, value(t)],
      draw(x, tape) {
        const own = functions.draw(tape);
        return { ...own, value: (paired ? pairs : collide)(own, chosen(takes, x, tape), tape) };
      },
    };
  };
}

function signSum(r, { epsilon }) {
  const takes = sparse(r);
  const { goal } = r.stored;
  if (!["frequency", "mean", "presence"].includes(goal)) throw wrong(`${r.what}: the goal is unknown`);
  const law = twoLevel(r.what, r.weights(2), 1, 2, { epsilon });
  return {
    takes,
    fields: [["seed", 8, 1], ["value", 1, 1]],
    draw(x, tape) {
      const [seed] = tape.words(TAG);
      const { keys, plus } = chosen(takes, x, tape);
      if (takes.s % 2 === 0) {
        keys.push(takes.d + takes.s);
        plus.push(true);
      }
      let total = -keys.length;
      keys.forEach((key, i) => {
        const up = bucket(goal === "frequency" ? 2 * key + Number(plus[i]) : key, seed, 2);
        total += 2 * (goal === "mean" && !plus[i] ? 1 - up : up);
      });
      return { seed, value: Number(total > 0) ^ position(law, tape) };
    },
  };
}

function privKV(r, { epsilon }) {
  const takes = sparse(r);
  const law = twoLevel(r.what, r.weights(2), 1, 3, { epsilon });
  return {
    takes,
    fields: [["key", bytesFor(takes.d - 1), 1], ["value", 1, 1]],
    draw(x, tape) {
      const key = Number(below(takes.d, tape, TAG));
      const slot = x.keys.indexOf(key);
      const here = Number(below(Math.max(heldBy(x), takes.s), tape, CHOICE)) < takes.s && slot >= 0;
      const [plus] = roundedSigns([here ? x.values[slot] : 0], tape);
      return { key, value: ((here ? 1 + Number(plus) : 0) + position(law, tape)) % 3 };
    },
  };
}

function pckvGRR(r, { epsilon }) {
  const takes = sparse(r);
  const outputs = 2 * takes.d + 1;
  const law = twoLevel(r.what, r.weights(2), 1, outputs, { epsilon });
  return {
    takes,
    fields: [value(outputs)],
    draw(x, tape) {
      const { key, plus } = picked(takes, x, tape);
      return { value: ((key === takes.d ? 2 * key : 2 * key + Number(plus)) + position(law, tape)) % outputs };
    },
  };
}

function pckvAGRR(r, { epsilon }) {
  const takes = sparse(r);
  const { d, s } = takes;
  const law = twoLevel(r.what, r.weights(2), s, 2 * d + s, { apart: s, epsilon });
  return {
    takes,
    fields: [value(2 * d + s)],
    draw(x, tape) {
      const { keys, plus } = chosen(takes, x, tape);
      const items = keys.map((key, i) => (key < d ? 2 * key + Number(plus[i]) : d + key)).sort((a, b) => a - b);
      const place = position(law, tape);
      return { value: place < s ? items[place] : outside(items, place - s) };
    },
  };
}

/** Weights A, F, Q, 2^c: b = Q / 2^c; at the own coordinate the weights A, Q F and 2 (2^c - Q) F. */
function pckvUE(r, { epsilon }) {
  const takes = sparse(r);
  const { d } = takes;
  const [high, unit, q, whole] = r.weights(4);
  const own = [high, q * unit, 2n * (whole - q) * unit];
  const fine = unit > 0n && q > 0n && q < whole && whole <= 1n << 128n && !(whole & (whole - 1n)) && high > own[1];
  if (!fine) throw wrong(`${r.what}: the weights are no coins`);
  // Signs against the opposite: A / (Q F). Against another key: (A / QF) times what none is worth there, which is 1.
  promise(within(high, own[1], epsilon), r.what);
  const cumulative = [own[0], own[0] + own[1], own[0] + own[1] + own[2]];
  const bytes = Math.ceil(d / 8);
  return {
    takes,
    fields: [["minus", bytes], ["plus", bytes]],
    draw(x, tape) {
      const { key, plus } = picked(takes, x, tape);
      const letter = entry(cumulative, tape);
      const some = coins(q, whole, d, tape);
      const sides = coins(1n, 2n, d, tape, SIDE);
      const planes = { minus: some.map((b, i) => b & ~sides[i]), plus: some.map((b, i) => b & sides[i]) };
      if (key < d)
        for (const [name, sign] of [["minus", false], ["plus", true]])
          setBit(planes[name], key, letter === (plus === sign ? 0 : 1));
      return planes;
    },
  };
}

// Words ---------------------------------------------------------------------------------------------------------------

function heavyHitters(r, { epsilon }) {
  const longest = r.number("longest", 1, 1024);
  const { lengths, functions } = r.stored;
  const counted = (list, most) => Array.isArray(list) && list.length > 0 && list.every((n) => Number.isInteger(n) && n >= 1 && n <= most);
  if (!(counted(lengths, longest) && counted(functions, 1024) && lengths.length === functions.length)) throw wrong(`${r.what}: its levels are none`);
  const { space, law } = points(r, r.number("buckets", 2, 2 ** 27), epsilon);
  const levels = lengths.flatMap((most, i) => new Array(functions[i]).fill(most));
  return {
    takes: { kind: "words", symbols: r.number("symbols", 2, 255), longest },
    fields: [["function", bytesFor(levels.length - 1), 1], value(space.size)],
    draw(codes, tape) {
      const number = Number(below(levels.length, tape, TAG));
      const own = wordBucket(fingerprint(codes, levels[number]), publicSeed(number), space.size);
      return { function: number, value: space.place(own, position(law, tape)) };
    },
  };
}

// Responses that are kept, and randomized again in every round ------------------------------------------------------------

function memoized(plain, count, again) {
  return (r, { epsilon }) => {
    const weights = r.weights(count);
    const first = r.real("first");
    const kept = plain(r, { epsilon, delta: 0 }, weights.slice(0, -2));
    const say = again(r, kept, weights.slice(-2), first);
    return {
      ...kept,
      sampler: undefined,
      response: kept.draw,
      said: say,
      draw: (x, tape) => say(kept.draw(x, tape), tape.slots("instantaneous", 1)),
    };
  };
}

/** The second draw over numbered outputs; one report alone keeps `first`. */
function saidAgain(r, { law }, [high, low], first) {
  if (!(high > 0n && low > 0n)) throw wrong(`${r.what}: the weights are none`);
  const again = { ...law, high, low, total: high + (law.outputs - 1n) * low };
  const others = law.outputs - 1n;
  const composed = [law.high * high + others * law.low * low, law.high * low + law.low * high + (others - 1n) * law.low * low];
  twoLevel(r.what, composed, 1, law.outputs, { epsilon: first });
  return (kept, tape) => ({ ...kept, value: (kept.value + position(again, tape)) % Number(law.outputs) });
}

/** Bits are flipped with probability F / 2^c; one report alone keeps `first`. */
function saidFlipped(r, { odds, takes }, [flips, whole], first) {
  if (!(flips > 0n && 2n * flips < whole && !(whole & (whole - 1n)))) throw wrong(`${r.what}: the flip is none`);
  const [high, low, q, of] = odds;
  const ones = (one, zero) => one * (whole - flips) + zero * flips; // of a bit that is one or zero with these weights
  const [p, notP, shown, hidden] = [ones(high, low), ones(low, high), ones(q, of - q), ones(of - q, q)];
  promise(p * hidden > shown * notP && within(p * hidden, shown * notP, first), r.what);
  return ({ bits }, tape) => {
    const flip = coins(flips, whole, takes.k, tape);
    return { bits: bits.map((b, i) => b ^ flip[i]) };
  };
}

// Several attributes together ---------------------------------------------------------------------------------------------

/** Records of whole numbers: a user is of one group, drawn by shares, and reports the cell in the grid of the group. */
function ranges(r, { epsilon }) {
  const { shape, asked, weights } = r.stored;
  const sizes = Array.isArray(shape) ? shape : [];
  if (!(sizes.length && sizes.every((n) => Number.isInteger(n) && n >= 2 && n <= 2 ** 20) && Array.isArray(asked) && asked.length))
    throw wrong(`${r.what}: its groups are none`);
  const recipes = [...new Set(asked.map(([, , recipe]) => recipe))];
  const parts = recipes.map((recipe, i) => fromRecipe(r, recipe, epsilon, weights?.[i]));
  const labels = parts.map((part, i) => (part.sampler ? parts.findIndex((other) => other.sampler === part.sampler) : i));
  const groups = asked.map(([attributes, cuts, recipe, share, scale]) => {
    const which = recipes.indexOf(recipe);
    const numbers = parts[which].takes.kind === "number";
    const grids = attributes.map((attribute, axis) => cutsOf(r, sizes[attribute], cuts[axis]));
    const cells = grids.reduce((product, grid) => product * (grid.length - 1), 1);
    if (!(Number.isInteger(share) && share >= 1) || (!numbers && parts[which].takes.k !== cells) || (scale && !numbers))
      throw wrong(`${r.what}: a group does not fit its mechanism`);
    const along = scale ? [scaled(r, scale, sizes[attributes[0]])] : grids.map((grid) => (x) => grid.findLastIndex((cut) => cut <= x));
    const inputs = scale ? 2 ** 20 : cells;
    return {
      which,
      share,
      cell(record) {
        let cell = 0;
        attributes.forEach((attribute, axis) => (cell = cell * (grids[axis].length - 1) + along[axis](record[attribute])));
        return numbers ? (2 * cell + 1) / inputs - 1 : cell;
      },
    };
  });
  const total = groups.reduce((sum, { share }) => sum + share, 0);
  const several = groups.length > 1;
  const plain = parts.every(({ fields }) => fields.length === 1 && fields[0][0] === "value");
  const width = Math.max(...parts.map(widthOf));
  return {
    takes: { kind: "whole", shape: sizes },
    fields: [...(several ? [["group", bytesFor(groups.length - 1), 1]] : []), plain ? ["value", width, 1] : ["report", width]],
    draw(record, tape) {
      let place = several ? Number(below(total, tape, TAG)) : 0;
      const group = groups.findIndex(({ share }) => (place -= share) < 0);
      const { which, cell } = groups[several ? group : 0];
      const own = parts[which].draw(cell(record), tape.slots(String(labels[which]), 1));
      const head = several ? { group } : {};
      if (plain) return { ...head, value: own.value };
      const report = new Uint8Array(width);
      report.set(reportBytes(parts[which], own));
      return { ...head, report };
    },
  };
}

function cutsOf(r, size, cuts) {
  const listed = Number.isInteger(cuts) ? Array.from({ length: cuts + 1 }, (_, i) => Math.floor((i * size) / cuts)) : cuts;
  const fine = Array.isArray(listed) && listed.length > 1 && listed[0] === 0 && listed[listed.length - 1] === size;
  if (!fine || listed.some((cut, i) => i && !(cut > listed[i - 1]))) throw wrong(`${r.what}: its cuts are none`);
  return listed;
}

/** The place of a value on a scale of estimated quantiles, in 2^20 parts. */
function scaled(r, [cuts, levels], size) {
  const ends = cutsOf(r, size, cuts);
  if (!Array.isArray(levels) || levels.length !== ends.length || levels.some((x, i) => !Number.isInteger(x) || x < (levels[i - 1] ?? 0)) || levels[ends.length - 1] !== 2 ** 20)
    throw wrong(`${r.what}: its scale is none`);
  return (x) => {
    const at = ends.findLastIndex((cut) => cut <= x);
    const whole = 2 * (ends[at + 1] - ends[at]);
    const before = 2 * (x - ends[at]) + 1;
    return Math.min(Math.floor((levels[at] * (whole - before) + levels[at + 1] * before) / whole), 2 ** 20 - 1);
  };
}

/** A mechanism without its budget, as text: `GRR(k=5)`. */
function fromRecipe(r, recipe, epsilon, weights) {
  const [, name, inside] = /^(\w+)(?:\((.*)\))?$/.exec(String(recipe)) ?? [];
  const stored = { mechanism: name, epsilon, weights };
  for (const word of inside ? inside.split(", ") : []) {
    const [, field, x] = /^(\w+)=(\d+)$/.exec(word) ?? [];
    if (!field) throw wrong(`${r.what}: a recipe is none`);
    stored[field] = Number(x);
  }
  return mechanism(stored, r.what);
}

// By name ---------------------------------------------------------------------------------------------------------------

const pair = bucketed(true);
/** For each mechanism how it is made, and its fields beside epsilon, delta and weights. */
const KNOWN = {
  GRR: [grr, "k"],
  Unary: [unary, "k kind q"],
  LocalHash: [localHash, "k g cohorts"],
  SubsetSelection: [subsetSelection, "k size"],
  Hadamard: [hadamard, "k"],
  ProjectiveGeometry: [projectiveGeometry, "k q"],
  OneHotGaussian: [oneHotGaussian, "k"],
  Duchi: [windowed, ""],
  Piecewise: [windowed, ""],
  SquareWave: [windowed, ""],
  QuantileWave: [windowed, "quantiles"],
  Hybrid: [hybrid, ""],
  Hypercube: [hypercube, "d parts"],
  Collision: [bucketed(false), "d s sample t cohorts"],
  CoCo: [pair, "d s sample t cohorts goal"],
  SignSum: [signSum, "d s sample goal"],
  PCKV_UE: [pckvUE, "d s sample"],
  PCKV_GRR: [pckvGRR, "d s sample"],
  PCKV_AGRR: [pckvAGRR, "d s sample"],
  PrivKV: [privKV, "d s sample"],
  HeavyHitters: [heavyHitters, "symbols longest lengths functions buckets q"],
  LGRR: [memoized(grr, 4, saidAgain), "k first"],
  LUnary: [memoized(unary, 6, saidFlipped), "k first kind"],
  LHash: [memoized(localHash, 4, saidAgain), "k first g cohorts"],
  ...Object.fromEntries(
    "Copula HDG TDG CALM LHIO MSW Uniform".split(" ").map((name) => [name, [ranges, "shape n nominal asked granularity branching inference"]]),
  ),
};

/**
 * The mechanism of a plan, its integers certified; what this client does not know is refused by name.
 * @param {any} stored @param {string} where
 */
export function mechanism(stored, where) {
  const name = String(stored?.mechanism);
  const found = Object.hasOwn(KNOWN, name) ? KNOWN[name] : null;
  if (!found)
    throw new PlanError(`${where}: this client does not know the mechanism ${name.replace(/[^\w]/g, "").slice(0, 40)}; take a newer one`);
  const [make, fields] = found;
  const allowed = ["mechanism", "epsilon", "delta", "weights", ...fields.split(" ")];
  const other = Object.keys(stored).find((field) => !allowed.includes(field));
  if (other !== undefined) throw wrong(`${where}: ${name} has a field that this client does not know`);
  const r = reader(stored, `${where}, ${name}`);
  const [epsilon, delta] = [r.real("epsilon"), r.real("delta", 0)];
  if (!(epsilon >= 1e-12 && delta < 1)) throw wrong(`${r.what}: epsilon or delta is out of range`);
  const made = make(r, { epsilon, delta });
  return { response: made.draw, said: (kept) => kept, ...made, name, epsilon, delta };
}
