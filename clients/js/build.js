// Builds the two files that pages load, into the Python package, whose collector serves them: `npm run build`.
// `npm run build -- --check` says whether they are fresh. Sizes are printed, gzipped as servers send them.

import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const target = new URL("../../src/dither/collect/browser/", import.meta.url);
const check = process.argv.includes("--check");
let stale = false;
for (const [entry, name] of [["index.js", "dither-client.min.js"], ["sealed.js", "dither-client-sealed.min.js"]]) {
  const made = await build({
    entryPoints: [new URL(`src/${entry}`, import.meta.url).pathname],
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    legalComments: "none",
    charset: "ascii",
    write: false,
  });
  const text = `// dither-client, Apache-2.0. Made by npm run build in clients/js.\n${made.outputFiles[0].text}`;
  const path = new URL(name, target);
  const there = await readFile(path, "utf8").catch(() => "");
  if (check) stale ||= there !== text;
  else await writeFile(path, text);
  console.log(`${name}: ${text.length} bytes, ${gzipSync(text, { level: 9 }).length} gzipped${there === text ? "" : check ? ", STALE" : ", written"}`);
}
process.exitCode = stale ? 1 : 0;
