// Tapes that everybody can compute, as tests/javascript/vectors.py writes them down: a word is a hash of its address,
// but for those that a vector puts in the place of some.

const U64 = (x) => BigInt.asUintN(64, x);

/** FNV-1a of a text, mixed by the finalizer of MurmurHash3. */
export function wordAt(address) {
  let x = 14695981039346656037n;
  for (const code of new TextEncoder().encode(address)) x = U64((x ^ BigInt(code)) * 1099511628211n);
  x = U64((x ^ (x >> 33n)) * 0xff51afd7ed558ccdn);
  x = U64((x ^ (x >> 33n)) * 0xc4ceb9fe1a85ec53n);
  return x ^ (x >> 33n);
}

export function knownTape(seed, overrides = [], path = "", row = 0) {
  const forced = overrides instanceof Map ? overrides : new Map(overrides.map(([address, word]) => [address, BigInt(`0x${word}`)]));
  const inner = (label) => knownTape(seed, forced, `${path}/${label}`);
  return {
    bits: 64,
    words(lane, width = 1, attempt = 0) {
      return Array.from({ length: width }, (_, j) => {
        const address = `${path}|${lane}|${row}|${attempt}|${j}`;
        return forced.get(address) ?? wordAt(`${seed}${address}`);
      });
    },
    slots: (label, number) => inner(`${label}*${number}`),
    spawn: (...labels) => inner(labels.join(".")),
    row: (number) => knownTape(seed, forced, path, number),
  };
}

/** A tape that reads these words one after another, whatever they are for, and notes what was asked. */
export function shortTape(bits, words) {
  let at = 0;
  const tape = {
    bits,
    rejected: false,
    words(_lane, width = 1, attempt = 0) {
      if (attempt) tape.rejected = true;
      return Array.from({ length: width }, () => BigInt(attempt ? 0 : words[at++]));
    },
    slots: () => tape,
    spawn: () => tape,
    row: () => tape,
    get read() {
      return at;
    },
  };
  return tape;
}
