// The only road between e^epsilon and the integers of a sampler: rationals of BigInt, rounded to the safe side.
//
// A two-level law favours w of M outputs with weight A each and gives B to the others, W = w A + (M - w) B. It keeps
// (epsilon, delta) if and only if `apart` (A - e^epsilon B) <= delta W, with `apart` the largest number of outputs that
// one input favours and another does not. e^epsilon is irrational, so a rational just below it stands in its place:
// what passes here keeps the promise, whatever the last digit is.

import { PlanError } from "./errors.js";

const FINE = 320n; // binary digits behind the point
const known = new Map();

/** The exact value of a float, as [numerator, denominator]. @param {number} x */
export function rational(x) {
  let down = 0n;
  while (!Number.isInteger(x)) {
    x *= 2; // exact: only the exponent changes
    down++;
  }
  return [BigInt(x), 1n << down];
}

/** A rational just below e^epsilon, as [numerator, denominator]; saturates at e^1500. @param {number} epsilon */
export function expBelow(epsilon) {
  const found = known.get(epsilon);
  if (found) return found;
  const [numerator, denominator] = rational(Math.min(epsilon, 1500));
  const halvings = 12n; // the series of a number below 1/2, then squares; all of it is rounded down
  const x = (numerator << (FINE - halvings)) / denominator;
  let sum = 0n;
  let term = 1n << FINE;
  for (let n = 1n; term; n++) {
    sum += term;
    term = ((term * x) >> FINE) / n;
  }
  for (let i = 0n; i < halvings; i++) sum = (sum * sum) >> FINE;
  const made = /** @type {[bigint, bigint]} */ ([sum, 1n << FINE]);
  known.set(epsilon, made);
  return made;
}

/** Whether n numbers, each a float, add up to no more than a float, `times` over. */
export function fits(numbers, total, times = 1) {
  const scaled = (x) => {
    const [numerator, denominator] = rational(x);
    return (numerator << 1100n) / denominator;
  };
  return numbers.reduce((sum, x) => sum + scaled(x), 0n) * BigInt(times) <= scaled(total);
}

/** The largest float of which `parts` do not add up to more than a total. */
export function shareBelow(total, parts) {
  const share = total / parts;
  if (fits([share], total, parts)) return share;
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, share);
  view.setBigUint64(0, view.getBigUint64(0) - 1n); // the next one towards zero
  return view.getFloat64(0);
}

/** Refuse what tells more than it says. @param {boolean} kept @param {string} what */
export function promise(kept, what) {
  if (!kept)
    throw new PlanError(`${what}: these weights do not keep the declared guarantee. Nothing was sent; do not answer this plan`);
}

/** Whether a likelihood ratio of high to low is at most e^epsilon. */
export function within(high, low, epsilon) {
  const [n, d] = expBelow(epsilon);
  return high * d <= low * n;
}

/** A certified two-level law. */
export function twoLevel(what, [high, low], favoured, outputs, { apart = 1n, epsilon, delta = 0 }) {
  [favoured, outputs, apart] = [favoured, outputs, apart].map(BigInt);
  if (!(high > low && low > 0n && favoured > 0n && favoured < outputs))
    throw new PlanError(`${what}: the weights do not favour anything; this is not a plan that dither wrote`);
  const total = favoured * high + (outputs - favoured) * low;
  const [n, d] = expBelow(epsilon);
  const [lost, of] = rational(delta);
  promise(apart * (high * d - n * low) * of <= lost * total * d, what);
  return { high, low, favoured, outputs, total };
}

/** C(n, m). */
export function choose(n, m) {
  let found = 1n;
  for (let i = 1n; i <= BigInt(m); i++) found = (found * (BigInt(n) - BigInt(m) + i)) / i;
  return m < 0 ? 0n : found;
}

export const gcd = (a, b) => {
  while (b) [a, b] = [b, a % b];
  return a;
};
