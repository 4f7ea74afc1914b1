// SHA-256 (FIPS 180-4) and HMAC, at once and not in a promise: a ledger hashes within a transaction of the browser's
// database, which would end while a promise is awaited; and `crypto.subtle` is not there on every page. What is hashed
// is public, or never leaves the device.

const primes = (count) => {
  const found = [];
  for (let n = 2; found.length < count; n++) if (found.every((p) => n % p)) found.push(n);
  return found;
};
// The first 32 binary digits of the fractions of square and cube roots, in whole numbers: no float decides a digit.
const root = (n, degree) => {
  const wanted = BigInt(n) << BigInt(32 * degree);
  let low = 0n;
  for (let bit = 1n << 40n; bit; bit >>= 1n) if ((low | bit) ** BigInt(degree) <= wanted) low |= bit;
  return Number(low & 0xffffffffn) | 0;
};
const ROUNDS = primes(64).map((n) => root(n, 3));
const START = primes(8).map((n) => root(n, 2));
const turn = (x, by) => (x >>> by) | (x << (32 - by));

/** @param {Uint8Array} data */
export function sha256(data) {
  const state = Int32Array.from(START);
  const size = data.length;
  const padded = new Uint8Array(((size + 72) >> 6) << 6);
  padded.set(data);
  padded[size] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(size / 2 ** 29));
  view.setUint32(padded.length - 4, size << 3);
  const w = new Int32Array(64);
  for (let at = 0; at < padded.length; at += 64) {
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      if (i < 16) w[i] = view.getInt32(at + 4 * i);
      else {
        const x = w[i - 15];
        const y = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
      }
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g; // one by one: a browser that has not compiled this yet takes ten times as long for lists
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((x, i) => (state[i] += x));
  }
  const out = new DataView(new ArrayBuffer(32));
  state.forEach((x, i) => out.setInt32(4 * i, x));
  return new Uint8Array(out.buffer);
}

/** @param {Uint8Array} key @param {Uint8Array} data */
export function hmac(key, data) {
  const own = new Uint8Array(64);
  own.set(key.length > 64 ? sha256(key) : key);
  return sha256(join(own.map((x) => x ^ 0x5c), sha256(join(own.map((x) => x ^ 0x36), data))));
}

/** Arrays of bytes one after another. @param {...Uint8Array} parts */
export function join(...parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** @param {Uint8Array} bytes */
export const hex = (bytes) => Array.from(bytes, (x) => x.toString(16).padStart(2, "0")).join("");
/** @param {string} text */
export const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (two) => parseInt(two, 16));
/** @param {string} text */
export const utf8 = (text) => new TextEncoder().encode(text);
