// Points and hyperplanes over the field with q elements (src/dither/kernels/projective_space.py, finite_field.py): the
// point at a position, where those of a hyperplane come first. Numbers stay below 2^53.

import { PlanError } from "./errors.js";

const digitsOf = (number, base, count) =>
  Array.from({ length: count }, () => {
    const digit = number % base;
    number = Math.floor(number / base);
    return digit;
  });
const numberOf = (digits, base) => digits.reduceRight((sum, digit) => sum * base + digit, 0);

/** Sums, products and negatives of the numbers below q. */
function field(q) {
  let p = 2;
  while (q % p) p++;
  const m = Math.round(Math.log(q) / Math.log(p));
  if (p ** m !== q || (m > 1 && q > 256)) throw new PlanError("q is the size of no field that dither has");
  if (m === 1) return { plus: (a, b) => (a + b) % q, times: (a, b) => (a * b) % q, minus: (a) => (q - a) % q };
  const multiply = (one, other) => {
    const found = new Array(one.length + other.length - 1).fill(0);
    one.forEach((a, i) => other.forEach((b, j) => (found[i + j] = (found[i + j] + a * b) % p)));
    return found;
  };
  // The first monic polynomial of degree m without factors, by its other coefficients read as a number.
  const reducible = new Set();
  for (let degree = 1; 2 * degree <= m; degree++)
    for (let low = 0; low < p ** degree; low++)
      for (let high = 0; high < p ** (m - degree); high++) {
        const whole = multiply([...digitsOf(low, p, degree), 1], [...digitsOf(high, p, m - degree), 1]);
        reducible.add(numberOf(whole.slice(0, m), p));
      }
  let rest = 0;
  while (reducible.has(rest)) rest++;
  const below = digitsOf(rest, p, m);
  const each = (of) => (a, b) => numberOf(of(digitsOf(a, p, m), digitsOf(b, p, m)), p);
  return {
    plus: each((a, b) => a.map((x, i) => (x + b[i]) % p)),
    minus: (a) => numberOf(digitsOf(a, p, m).map((x) => (p - x) % p), p),
    times: each((a, b) => {
      const found = multiply(a, b);
      for (let top = 2 * m - 2; top >= m; top--)
        below.forEach((x, i) => (found[top - m + i] = (found[top - m + i] + (p - x) * found[top]) % p));
      return found.slice(0, m);
    }),
  };
}

/** The smallest space over the field with q elements that has so many hyperplanes. */
export function projectiveSpace(hyperplanes, q) {
  const { plus, times, minus } = field(q);
  let t = 3;
  while ((q ** t - 1) / (q - 1) < hyperplanes) t++;
  const powers = Array.from({ length: t + 1 }, (_, i) => q ** i);
  const starts = powers.map((power) => (power - 1) / (q - 1));
  const last = (list, x) => list.findLastIndex((start) => start <= x);
  return {
    size: starts[t],
    own: starts[t - 1],
    apart: starts[t - 1] - starts[t - 2],
    place(hyperplane, position) {
      const length = last(starts, hyperplane);
      const x = hyperplane - starts[length];
      const unit = powers[t - 1 - length];
      let [high, low, digit] = [0, 0, 0];
      const number = (point) => {
        const digits = last(starts, point);
        return point - starts[digits] + powers[digits];
      };
      if (position < this.own) {
        const found = number(position);
        [high, low] = [Math.floor(found / unit), found % unit];
      } else {
        const steps = Math.floor((position - this.own) / unit);
        low = (position - this.own) % unit;
        digit = 1;
        if (steps) {
          high = number(Math.floor((steps - 1) / (q - 1)));
          digit += (steps - 1) % (q - 1);
        }
      }
      let product = 0;
      for (let i = 0; i < t - 1; i++)
        product = plus(product, times(Math.floor(x / powers[i]) % q, Math.floor(high / powers[i]) % q));
      const found = (high * q + plus(digit, minus(product))) * unit + low;
      const digits = last(powers, found);
      return found - powers[digits] + starts[digits];
    },
  };
}
