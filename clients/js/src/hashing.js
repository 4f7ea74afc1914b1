// The public hash functions (src/dither/kernels/hashing.py, word_hashing.py): which bucket a category or a word is in.
// They carry no privacy: certificates hold for the worst function.

const U64 = (x) => BigInt.asUintN(64, x);

/** The bucket, of g, of a category under the function with this 64-bit seed: three rounds on 32-bit halves. */
export function bucket(category, seed, g) {
  let x = (Math.imul(category % 2 ** 32, 0x9e3779b9) + Number(seed & 0xffffffffn)) | 0;
  x = Math.imul(x ^ (x >>> 17), 0xed5ad4bb);
  x = Math.imul(x ^ (x >>> 11) ^ Number(seed >> 32n), 0xac4c1b51);
  x = Math.imul(x ^ (x >>> 15), 0x31848bab);
  return Math.floor((((x ^ (x >>> 14)) >>> 0) * g) / 2 ** 32);
}

/** The seed of the shared function with this number: SplitMix64. */
export function publicSeed(number) {
  let x = U64((BigInt(number) + 1n) * 0x9e3779b97f4a7c15n);
  x = U64((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n);
  x = U64((x ^ (x >> 27n)) * 0x94d049bb133111ebn);
  return x ^ (x >> 31n);
}

/** FNV-1a of the first codes of a word; a word that goes on beyond them differs from one that ends. */
export function fingerprint(codes, most) {
  let state = 14695981039346656037n;
  const step = (code) => (state = U64((state ^ BigInt(code)) * 1099511628211n));
  codes.slice(0, most).forEach(step);
  if (codes.length > most) step(256);
  return state;
}

/** The bucket of a fingerprint: the finalizer of MurmurHash3. */
export function wordBucket(state, seed, buckets) {
  let x = state ^ seed;
  x = U64((x ^ (x >> 33n)) * 0xff51afd7ed558ccdn);
  x = U64((x ^ (x >> 33n)) * 0xc4ceb9fe1a85ec53n);
  return Number((((x ^ (x >> 33n)) >> 32n) * BigInt(buckets)) >> 32n);
}
