// A page in TypeScript, as a user would write it: `npm run types` checks it, and that each wrong line is one.

import { Client, ClientError, PlanError, client } from "dither-client";
import type { Delivery, Explanation, Report } from "dither-client";

export async function page(url: string, text: string): Promise<number> {
  const device = await Client.open(url, { plan: "ab".repeat(32), token: "t", store: null, epsilon: 1, patience: 5 });
  const told: Explanation = device.explain();
  const report: Report = await device.report({ age: 41 }, { period: "2026-W47" });
  const delivery: Delivery = await device.send(new Map([["age", 41]]));
  const first: number | string | Array<number | string> | Uint8Array = report.reports[0].fields.value;
  addEventListener("pagehide", () => void device.beacon());
  const kept: "disk" | "memory" = device.kept;
  const problem: ClientError = new PlanError(kept);
  const names: string[] = client(text).check({ age: problem.message });
  // @ts-expect-error a record is sent, not a number of them
  await device.send({ age: 1 }, 2);
  // @ts-expect-error devices are opened
  new Client();
  // @ts-expect-error there is no such option
  await Client.open(url, { seed: 1 });
  // @ts-expect-error what was kept is not changed
  device.kept = "disk";
  return told.epsilon + delivery.accepted + report.bytes.length + names.length + (first === null ? 1 : 0);
}
