// A real Chromium with a page of this machine: files of this package, and a collector of a few lines.

import { createServer } from "node:http";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { at, planText } from "./files.js";

export const chromium = ["chromium", "chromium-browser", "google-chrome", "chrome"]
  .flatMap((name) => (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, name)))
  .find((path) => existsSync(path));

const TYPES = { js: "text/javascript", json: "application/json", gz: "application/octet-stream" };
const POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'";

/** @returns {Promise<{page: any, url: string, seen: any[], close: () => Promise<void>, failing: {status: number}}>} */
export async function openPage(plan = "demonstration") {
  const { chromium: launcher } = await import("playwright-core");
  const [seen, failing] = [[], { status: 0 }];
  const text = planText(plan);
  const { hash } = JSON.parse(text);
  const server = createServer((request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    const answer = (status, kind, body) => response.writeHead(status, { "Content-Type": kind, "Content-Security-Policy": POLICY, "Cache-Control": "no-store" }).end(body);
    if (path === "/") return answer(200, "text/html", "<!doctype html><title>a page</title>");
    if (path.startsWith("/v1/")) {
      if (request.method !== "POST") return answer(200, "application/json", text);
      const pieces = [];
      request.on("data", (piece) => pieces.push(piece));
      request.on("end", () => {
        seen.push({ key: request.headers["idempotency-key"], body: Buffer.concat(pieces).toString("hex"), cookie: request.headers.cookie });
        if (failing.status) return answer(failing.status, "application/problem+json", "{}");
        return answer(200, "application/json", JSON.stringify({ accepted: 1, rejected: {}, duplicate: false }));
      });
      return undefined;
    }
    const file = path.startsWith("/browser/") ? at(`../../src/dither/collect${path}`) : at(path.slice(1));
    if (path.includes("..") || !existsSync(file)) return answer(404, "text/plain", "");
    return answer(200, TYPES[path.split(".").pop()] ?? "text/plain", readFileSync(file));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  const browser = await launcher.launch({ executablePath: chromium, args: ["--no-sandbox"], timeout: 120_000 });
  const context = await browser.newContext();
  context.setDefaultTimeout(120_000); // a busy machine is no fault of the client
  const page = await context.newPage();
  const said = [];
  page.on("console", (message) => said.push(message.text()));
  page.on("pageerror", (error) => said.push(String(error)));
  await page.goto(url);
  const close = async () => {
    await browser.close();
    server.close();
    server.closeAllConnections();
  };
  return { page, context, url, hash, seen, said, failing, close };
}
