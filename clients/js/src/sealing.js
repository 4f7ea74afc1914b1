// Sealed reports for a shuffler (src/dither/collect/sealed_reports.py): HPKE (RFC 9180, base mode) with X25519,
// HKDF-SHA256 and AES-128-GCM, so that whoever carries a report cannot read it.
//
// HMAC is this package's, AES is the browser's (`crypto.subtle`, which pages over HTTPS and on this machine have). So is
// X25519 where the browser knows it; where it does not, the ladder below stands in, with an ephemeral key that is used
// once. All messages of a plan have one size: their length does not tell which question was answered.

import { ClientError } from "./errors.js";
import { hmac, join, sha256, unhex, utf8 } from "./sha256.js";

const P = (1n << 255n) - 19n;
const BASE = Uint8Array.from({ length: 32 }, (_, i) => (i ? 0 : 9));
const number = (bytes) => bytes.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
const bytesOf = (x) => Uint8Array.from({ length: 32 }, (_, i) => Number((x >> BigInt(8 * i)) & 255n));

/** RFC 7748: the Montgomery ladder. */
export function x25519(secret, point) {
  const k = (number(secret) & ~(7n | (1n << 255n))) | (1n << 254n);
  const u = number(point) & ((1n << 255n) - 1n);
  let [x2, z2, x3, z3, swapped] = [1n, 0n, u, 1n, 0n];
  const mod = (x) => ((x % P) + P) % P;
  for (let t = 254n; t >= 0n; t--) {
    const bit = (k >> t) & 1n;
    if (bit !== swapped) [x2, z2, x3, z3] = [x3, z3, x2, z2];
    swapped = bit;
    const [a, b, c, d] = [x2 + z2, x2 - z2, x3 + z3, x3 - z3];
    const [aa, bb, da, cb] = [mod(a * a), mod(b * b), mod(d * a), mod(c * b)];
    const e = aa - bb;
    [x3, z3] = [mod((da + cb) ** 2n), mod(u * mod((da - cb) ** 2n))];
    [x2, z2] = [mod(aa * bb), mod(e * (aa + 121665n * e))];
  }
  if (swapped) [x2, z2] = [x3, z3];
  let [inverse, base] = [1n, z2];
  for (let power = P - 2n; power; power >>= 1n) {
    if (power & 1n) inverse = mod(inverse * base);
    base = mod(base * base);
  }
  return bytesOf(mod(x2 * inverse));
}

/** A fresh pair of keys and the secret that it shares with a public key: [own public key, secret]. */
async function exchanged(publicKey, ephemeral) {
  if (!ephemeral)
    try {
      const { privateKey, publicKey: own } = await crypto.subtle.generateKey({ name: "X25519" }, false, ["deriveBits"]);
      const other = await crypto.subtle.importKey("raw", publicKey, { name: "X25519" }, false, []);
      const shared = await crypto.subtle.deriveBits({ name: "X25519", public: other }, privateKey, 256);
      return [new Uint8Array(await crypto.subtle.exportKey("raw", own)), new Uint8Array(shared)];
    } catch {
      ephemeral = crypto.getRandomValues(new Uint8Array(32)); // a browser that does not know X25519 yet
    }
  return [x25519(ephemeral, BASE), x25519(ephemeral, publicKey)];
}

const KEM = join(utf8("KEM"), Uint8Array.of(0, 0x20));
const SUITE = join(utf8("HPKE"), Uint8Array.of(0, 0x20, 0, 1, 0, 1));
const VERSION = utf8("HPKE-v1");
const NONE = new Uint8Array();
const extract = (suite, salt, label, material) => hmac(salt.length ? salt : new Uint8Array(32), join(VERSION, suite, utf8(label), material));
/** At most 32 bytes: one block. */
const expand = (suite, key, label, info, size) =>
  hmac(key, join(Uint8Array.of(0, size), VERSION, suite, utf8(label), info, Uint8Array.of(1))).slice(0, size);

/** The encapsulated key and the ciphertext; tests fix the ephemeral key. */
export async function sealTo(publicKey, info, plain, ephemeral) {
  if (!globalThis.crypto?.subtle) throw new ClientError("sealed reports need a page over HTTPS, or one on this machine: this browser has no crypto.subtle here");
  const [encapsulated, shared] = await exchanged(publicKey, ephemeral);
  if (shared.every((byte) => !byte)) throw new ClientError("the key of the collector is none; nothing was reported");
  const secret = expand(KEM, extract(KEM, NONE, "eae_prk", shared), "shared_secret", join(encapsulated, publicKey), 32);
  const context = join(Uint8Array.of(0), extract(SUITE, NONE, "psk_id_hash", NONE), extract(SUITE, NONE, "info_hash", info));
  const schedule = extract(SUITE, secret, "secret", NONE);
  const key = await crypto.subtle.importKey("raw", expand(SUITE, schedule, "key", context, 16), "AES-GCM", false, ["encrypt"]);
  const iv = expand(SUITE, schedule, "base_nonce", context, 12);
  return join(encapsulated, new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv }, key, plain)));
}

/** Reports that hide each other: the first part of each crowd, how many parts it has, and how many a user answers. */
function crowdsOf(plan) {
  return plan.groups.flatMap(({ first, asked }) => {
    const count = asked.parts.length;
    if (asked.reported > 1 && asked.reported === count) return asked.parts.map((_, i) => ({ first: first + i, count: 1, reports: 1 }));
    return [{ first, count, reports: asked.reported }];
  });
}

/**
 * The messages of one user, one after another: a message for each crowd that she answers in.
 * @param {(info: Uint8Array, plain: Uint8Array) => Promise<Uint8Array>} [seal]
 */
export async function sealedMessages(plan, reports, round, publicKey, seal = (info, plain) => sealTo(publicKey, info, plain)) {
  const crowds = crowdsOf(plan);
  const largest = crowds.map(({ first, count, reports: number }) => {
    const widths = plan.parts.slice(first, first + count).map(({ width }) => width + 12).sort((a, b) => b - a);
    return widths.slice(0, number).reduce((sum, width) => sum + width, 0);
  });
  const size = 4 + 52 + Math.max(...largest);
  const messages = [];
  for (const [number, { first, count }] of crowds.entries()) {
    const own = [...reports].filter(([part]) => part >= first && part < first + count);
    if (!own.length) continue;
    const batch = plan.pack(new Map(own), round);
    const plain = new Uint8Array(size);
    new DataView(plain.buffer).setUint32(0, batch.length, true);
    plain.set(batch, 4);
    const head = new Uint8Array(28);
    const view = new DataView(head.buffer);
    head.set(utf8("DTHS"));
    view.setUint16(4, 1, true);
    head.set(sha256(publicKey).slice(0, 8), 8);
    [round, number, 1].forEach((x, i) => view.setUint32(16 + 4 * i, x, true));
    messages.push(head, await seal(join(utf8("dither sealed reports"), head, unhex(plan.hash)), plain));
  }
  return join(...messages);
}

/** The key to seal to, from what a collector says about its keys. */
export function publicKeyOf(document) {
  for (const row of Array.isArray(document?.keys) ? document.keys : [])
    try {
      const key = Uint8Array.from(atob(row.public), (c) => c.charCodeAt(0));
      const id = sha256(key).slice(0, 8);
      if (key.length === 32 && unhex(row.id).every((byte, i) => byte === id[i]) && row.id.length === 16) return key;
    } catch {
      continue;
    }
  throw new ClientError("the collector has no key that reports could be sealed to; nothing was reported");
}
