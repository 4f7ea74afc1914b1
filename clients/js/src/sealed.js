// The same client with sealing for a shuffler.

import { packing } from "./client.js";
import { hex, unhex } from "./sha256.js";
import { publicKeyOf, sealedMessages } from "./sealing.js";
import { ClientError } from "./errors.js";

/** The key in use, or the last one that was, if the collector cannot be asked. */
async function sealingKey(device) {
  const name = `key of ${device.plan.hash}`;
  try {
    const { body } = await device.get(`/v1/plans/${device.plan.hash}/keys`);
    const key = publicKeyOf(JSON.parse(body));
    await device.store.change(({ facts }) => void (facts[name] = hex(key)));
    return key;
  } catch (error) {
    const known = await device.store.change(({ facts }) => facts[name]);
    if (known) return unhex(known);
    throw error instanceof ClientError ? error : new ClientError("the collector has no key that reports could be sealed to; nothing was reported");
  }
}

packing.sealed = async (device, reports, round) => sealedMessages(device.plan, reports, round, await sealingKey(device));

export * from "./index.js";
