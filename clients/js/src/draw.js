// The one exact sampler: a draw inside or outside the favoured set, from words, by rejection. The integers, the lanes and
// the attempts are those of src/dither/core/draw.py, so that the same words give the same report in both languages.
//
// A tape has `bits` random bits a word, 64 in earnest, and is read by lane (what a word is for) and attempt (how often
// words of this lane were rejected). `slots` and `spawn` give tapes of their own for parts of a report. Tests hand in
// tapes that they know; a device reads `secureTape`, whose words are all fresh, whatever their address is.

import { gcd } from "./exact.js";

export const DRAW = 0;
export const TAG = 1;
export const ELEMENT = 2;
export const CHOICE = 3;
export const ORDER = 4;
export const COINS = 1 << 16;
export const ROUNDING = 1 << 17;

/** Words of the browser's own source of randomness, the only one that protects anybody. */
export const secureTape = {
  bits: 64,
  words(_lane, width = 1) {
    const found = new BigUint64Array(width);
    for (let at = 0; at < width; at += 4096) crypto.getRandomValues(found.subarray(at, at + 4096)); // 64 kB at most
    return [...found];
  },
  slots: () => secureTape,
  spawn: () => secureTape,
  row: () => secureTape,
};

const length = (n) => (n ? n.toString(2).length : 0);
const least = (a, b) => (a < b ? a : b);

/** What `place` makes of the words of a lane; where it rejects them (undefined), of those of later attempts. */
export function rejecting(place, tape, lane, width = 1) {
  for (let attempt = 0; ; attempt++) {
    const found = place(tape.words(lane, width, attempt));
    if (found !== undefined) return found;
  }
}

/** Whole numbers below these bounds, accepted or rejected together. @returns {bigint[]} */
export function belowEach(bounds, tape, lane) {
  const whole = 1n << BigInt(tape.bits);
  const limits = bounds.map(BigInt);
  return rejecting(
    (words) => (words.every((u, i) => u < whole - (whole % limits[i])) ? words.map((u, i) => u % limits[i]) : undefined),
    tape,
    lane,
    limits.length,
  );
}

/** A uniform whole number below a bound of any size. @returns {bigint} */
export function below(bound, tape, lane) {
  bound = BigInt(bound);
  const bits = BigInt(tape.bits);
  const width = Math.max(1, Math.ceil(length(bound - 1n) / tape.bits));
  const whole = 1n << (bits * BigInt(width));
  return rejecting(
    (words) => {
      const u = words.reduce((sum, word) => (sum << bits) + word, 0n);
      return u < whole - (whole % bound) ? u % bound : undefined;
    },
    tape,
    lane,
    width,
  );
}

/**
 * An output of a two-level law, numbered with the favoured ones first. With a number of favoured ones of its `own` (at
 * most that of the law) the total stays, and what is left over falls evenly on the outputs that are not spoken for.
 */
export function position(law, tape, own, opposed = 0n) {
  const favoured = own ?? law.favoured;
  const whole = 1n << BigInt(tape.bits);
  const scale = whole / law.total;
  if (!scale) {
    const inside = side(law, tape);
    const element = below(inside ? law.favoured : law.outputs - law.favoured, tape, ELEMENT);
    return Number(inside ? element : element + law.favoured);
  }
  const [high, low, end] = [law.high * scale, law.low * scale, law.total * scale];
  const edge = favoured * high;
  const drawn = rejecting(
    ([u]) => {
      if (u >= end) return undefined;
      if (u < edge) return u / high;
      return favoured + (own === undefined ? (u - edge) / low : least((u - edge) / low, opposed));
    },
    tape,
    DRAW,
  );
  if (own === undefined) return Number(drawn);
  const spoken = favoured + opposed;
  const other = below(law.outputs - spoken, tape, ELEMENT);
  return Number(drawn < spoken ? drawn : spoken + other);
}

/** Whether a draw falls inside the favoured set; counts and weights may be of any size. */
export function side(law, tape) {
  const share = gcd(law.favoured, law.outputs - law.favoured);
  const inside = (law.favoured / share) * law.high;
  const total = inside + ((law.outputs - law.favoured) / share) * law.low;
  const bits = BigInt(tape.bits);
  const width = Math.ceil(length(total - 1n) / tape.bits);
  const scale = (1n << (bits * BigInt(width))) / total;
  return rejecting(
    (words) => {
      const u = words.reduce((sum, word) => (sum << bits) + word, 0n);
      return u < total * scale ? u < inside * scale : undefined;
    },
    tape,
    DRAW,
    width,
  );
}

/** An entry of a table of integer weights of any size, given as their running sums (BigInt). */
export function entry(cumulative, tape) {
  const bits = BigInt(tape.bits);
  const total = cumulative[cumulative.length - 1];
  const [u] = tape.words(DRAW);
  const cell = (i) => least((cumulative[i] << bits) / total, (1n << bits) - 1n);
  let at = first(cumulative.length, (i) => cell(i) >= u);
  if (cell(at) === u) {
    const v = u * total + below(total, tape, ELEMENT);
    at = first(cumulative.length, (i) => cumulative[i] << bits > v);
  }
  return at;
}

/** The first number below `count` of which something is true, and then of all behind it. */
function first(count, is) {
  let low = 0;
  for (let high = count; low < high; ) {
    const middle = (low + high) >> 1;
    if (is(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** m of the numbers below d, ascending, all choices alike: Floyd's algorithm. */
export function subset(d, m, tape) {
  if (2 * m > d) {
    const out = new Set(drawn(d, d - m, tape));
    return Array.from({ length: d }, (_, i) => i).filter((i) => !out.has(i));
  }
  return drawn(d, m, tape).sort((a, b) => a - b);
}

function drawn(d, m, tape) {
  const taken = /** @type {number[]} */ ([]);
  const bounds = Array.from({ length: m }, (_, s) => d - m + 1 + s);
  if (!m) return taken;
  belowEach(bounds, tape, TAG).forEach((u, s) => taken.push(taken.includes(Number(u)) ? d - m + s : Number(u)));
  return taken;
}

/** To the nearest whole number, halves to the even one, as NumPy's rint. */
export function nearest(x) {
  const low = Math.floor(x);
  const rest = x - low;
  return rest < 0.5 || (rest === 0.5 && low % 2 === 0) ? low : low + 1;
}

/** The lower lattice point of a number in [-1, 1], the numerator of its distance to it, and the digits of that. */
function split(x, steps, bits) {
  const digits = Math.min(62 - length(BigInt(steps)), bits);
  const scaled = BigInt(nearest((x + 1) * 2 ** (digits - 1))) * BigInt(steps);
  return { lower: Number(scaled >> BigInt(digits)), rest: scaled & ((1n << BigInt(digits)) - 1n), digits };
}

/** A lattice point beside a number, with mean at the number. */
export function rounded(x, steps, tape) {
  const { lower, rest, digits } = split(x, steps, tape.bits);
  const [coin] = tape.words(ROUNDING);
  return lower + Number(coin >> BigInt(tape.bits - digits) < rest);
}

/** Numbers rounded to signs with means at the numbers; true is plus. */
export function roundedSigns(values, tape) {
  return tape.words(ROUNDING, values.length).map((coin, i) => {
    const { lower, rest, digits } = split(Math.min(Math.max(values[i], -1), 1), 1, tape.bits);
    return lower > 0 || coin >> BigInt(tape.bits - digits) < rest;
  });
}

/** k coins that are one with probability q / whole (a power of two), as packed bytes; read digit by digit. */
export function coins(q, whole, k, tape, lane = COINS) {
  while (!(q & 1n)) [q, whole] = [q >> 1n, whole >> 1n]; // as a reduced fraction, of which the digits are
  const all = (1n << BigInt(tape.bits)) - 1n;
  const groups = Math.ceil(k / tape.bits);
  const ones = new Array(groups).fill(0n);
  const open = new Array(groups).fill(all);
  for (let digit = whole >> 1n; digit; digit >>= 1n)
    tape.words(lane++, groups).forEach((word, i) => {
      const zeros = open[i] & (word ^ all);
      if (q & digit) {
        ones[i] |= zeros;
        open[i] ^= zeros;
      } else open[i] = zeros;
    });
  const found = new Uint8Array(Math.ceil(k / 8));
  for (let i = 0; i < k; i++) if ((ones[Math.floor(i / tape.bits)] >> BigInt(i % tape.bits)) & 1n) found[i >> 3] |= 1 << (i & 7);
  return found;
}

export const setBit = (bytes, i, on) => {
  if (on) bytes[i >> 3] |= 1 << (i & 7);
  else bytes[i >> 3] &= ~(1 << (i & 7));
};
