import assert from "node:assert/strict";
import { test } from "node:test";
import { mechanism } from "../src/mechanisms.js";
import { vectors, wide } from "./files.js";
import { runChannels, someChannels } from "./run_channels.js";
import { runVectors } from "./run_vectors.js";

const file = vectors();

test("the shared vectors give the same bytes as in Python", async () => {
  const { run, wrong } = await runVectors(file);
  assert.deepEqual(wrong.slice(0, 5), []);
  assert.ok(run >= 5000, `only ${run}`);
});

test("over all tapes of short words the sampler has the certified probabilities", () => {
  const { run, wrong } = runChannels(someChannels(file.channels, wide));
  assert.deepEqual(wrong, []);
  assert.ok(run >= 30);
});

test("a sampler that is off by one, or by one per cent, is noticed", async () => {
  const few = file.channels.filter(({ mechanism: { mechanism: name }, tapes }) => name === "GRR" && tapes <= 8);
  const shifted = (stored, where) => {
    const made = mechanism(stored, where);
    return { ...made, draw: (x, tape) => ({ value: made.draw(x, tape).value % (stored.k - 1) }) };
  };
  const changed = (stored, where) => {
    const [a, b] = stored.weights.map(Number);
    return mechanism({ ...stored, epsilon: 20, weights: [a + 1, b] }, where);
  };
  for (const mutant of [shifted, changed]) assert.equal(runChannels(few, mutant).wrong.length, few.length);
  const broken = { ...file, draws: file.draws.map(([number, value, seed, overrides, report]) => [number, value, seed + 1, overrides, report]) };
  assert.ok((await runVectors(broken)).wrong.length > 2000);
});

test("every certificate is tight: a millionth less of epsilon, or of delta, is refused", () => {
  for (const stored of file.mechanisms) {
    const less = (name) => (stored[name] ? { ...stored, [name]: stored[name] * (1 - 1e-6) } : null);
    for (const other of [less("epsilon"), less("delta"), less("first")].filter(Boolean))
      assert.throws(() => mechanism(other, "forged"), /do not keep the declared guarantee/, JSON.stringify(other).slice(0, 200));
  }
});
