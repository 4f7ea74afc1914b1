// Builds the two files that pages load, into the Python package, whose collector serves them: `npm run build`. esbuild
// puts the modules together and leaves out what is not used; terser writes the result shorter, by a kilobyte.
// `npm run build -- --check` says whether they are fresh. Sizes are printed, gzipped as servers send them.

import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { minify } from "terser";

const target = new URL("../../src/dither/collect/browser/", import.meta.url);
const check = process.argv.includes("--check");
let stale = false;
for (const [entry, name] of [["index.js", "dither-client.min.js"], ["sealed.js", "dither-client-sealed.min.js"]]) {
  const made = await build({
    entryPoints: [new URL(`src/${entry}`, import.meta.url).pathname],
    bundle: true,
    format: "esm",
    target: "es2022",
    legalComments: "none",
    write: false,
  });
  const small = await minify(made.outputFiles[0].text, {
    module: true,
    ecma: 2020,
    compress: { passes: 5, unsafe_arrows: true, unsafe_methods: true, keep_fargs: false },
    format: { ascii_only: true },
  });
  const text = `// dither-client, Apache-2.0. Made by npm run build in clients/js.\n${small.code}\n`;
  const path = new URL(name, target);
  const there = await readFile(path, "utf8").catch(() => "");
  if (check) stale ||= there !== text;
  else await writeFile(path, text);
  console.log(`${name}: ${text.length} bytes, ${gzipSync(text, { level: 9 }).length} gzipped${there === text ? "" : check ? ", STALE" : ", written"}`);
}
process.exitCode = stale ? 1 : 0;
