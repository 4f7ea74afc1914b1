// Runs the shared vectors, in Node and in a browser alike: what is wrong is returned, not thrown.

import { bucket, publicSeed } from "../src/hashing.js";
import { parse } from "../src/json.js";
import { mechanism, reportBytes } from "../src/mechanisms.js";
import { subject } from "../src/ledger.js";
import { Plan } from "../src/plan.js";
import { hex, join, sha256, unhex, utf8 } from "../src/sha256.js";
import { sealTo, sealedMessages } from "../src/sealing.js";
import { knownTape } from "./known_tape.js";

const ODD = { NaN, Infinity, "-Infinity": -Infinity };
export function recordOf(stored) {
  if (Array.isArray(stored)) return stored.map(recordOf);
  if (typeof stored !== "object" || stored === null) return stored;
  if (Object.keys(stored).join() === "$") return ODD[stored.$];
  return Object.fromEntries(Object.entries(stored).map(([name, value]) => [name, recordOf(value)]));
}

/** A value of a vector as the mechanism takes it. */
function taken({ takes }, value) {
  if (takes.kind !== "sparse") return value;
  const empty = Math.max(takes.s + 1 - value.length, 0);
  return { keys: [...value.map(([key]) => key), ...Array(empty).fill(-1)], values: [...value.map(([, x]) => x), ...Array(empty).fill(0)] };
}

/** @returns {Promise<{run: number, wrong: string[]}>} */
export async function runVectors(file) {
  const wrong = [];
  let run = 0;
  const same = (what, found, wanted) => {
    run++;
    if (found !== wanted) wrong.push(`${what}: ${String(found).slice(0, 80)} and not ${String(wanted).slice(0, 80)}`);
  };
  const attempt = (make) => {
    try {
      return make();
    } catch (error) {
      return `${error.stack}`.slice(0, 400);
    }
  };
  const kinds = file.mechanisms.map((stored) => mechanism(stored, "vector"));
  file.draws.forEach(([number, value, seed, overrides, report], i) => {
    const by = kinds[number];
    same(`draw ${i} of ${by.name}`, attempt(() => hex(reportBytes(by, by.draw(taken(by, value), knownTape(seed, overrides))))), report);
  });
  file.responses.forEach(([number, value, seed, kept, said], i) => {
    const by = kinds[number];
    const response = by.response(taken(by, value), knownTape(seed));
    same(`response ${i} of ${by.name}`, hex(reportBytes(by, response)) + hex(reportBytes(by, by.said(response, knownTape(seed + 1000)))), kept + said);
  });
  const plans = Object.fromEntries(Object.entries(file.plans).map(([name, text]) => [name, Plan.read(text)]));
  const reported = ([name, record, seed, overrides]) => plans[name].report(recordOf(record), knownTape(seed, overrides));
  file.reports.forEach((vector, i) => {
    const [name, record, , , reports, batch, digest] = vector;
    const plan = plans[name];
    const found = attempt(() => {
      const own = reported(vector);
      const listed = JSON.stringify(Object.fromEntries([...own].sort(([a], [b]) => a - b).map(([part, bytes]) => [part, hex(bytes)])));
      const subjects = plan.parts.map((part) => subject(part.mechanism.takes, plan.encoded(part, recordOf(record))));
      const framed = subjects.map((raw) => join(new Uint8Array(new BigUint64Array([BigInt(raw.length)]).buffer), raw));
      return `${listed} ${hex(plan.pack(own, plan.schedule.rounds - 1))} ${hex(sha256(join(...framed))).slice(0, 32)}`;
    });
    if (reports === null) same(`report ${i} of ${name}`, /^ClientError: attribute/.test(found), true);
    else same(`report ${i} of ${name}`, found, `${JSON.stringify(reports)} ${batch} ${digest}`);
  });
  file.hashes.forEach(([text, hash], i) => same(`hash ${i}`, attempt(() => hex(sha256(utf8(parse(text)[1])))), hash));
  file.buckets.forEach(([seed, category, g, wanted], i) => same(`bucket ${i}`, bucket(category, BigInt(`0x${seed}`), g), wanted));
  file.seeds.forEach((seed, i) => same(`seed ${i}`, publicSeed(i).toString(16), seed));
  for (const [i, vector] of file.sealed.entries()) {
    const plan = plans[vector[0]];
    const [publicKey, ephemeral] = [unhex(vector[3]), unhex(vector[4])];
    const found = await sealedMessages(plan, reported([...vector.slice(0, 3), []]), plan.schedule.rounds - 1, publicKey, (info, plain) => sealTo(publicKey, info, plain, ephemeral));
    same(`sealed ${i}`, hex(found), vector[5]);
  }
  file.refused.forEach(([text, reason], i) => {
    const found = attempt(() => Plan.read(text) && "it was read");
    same(`refused ${i} (${reason})`, found.startsWith("PlanError") && found.includes(reason), true);
    if (!found.startsWith("PlanError")) wrong.push(found);
  });
  return { run, wrong };
}
