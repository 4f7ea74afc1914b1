// Files of the repository, for tests in Node.

import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

export const at = (path) => new URL(`../${path}`, import.meta.url);
export const vectors = () => JSON.parse(gunzipSync(readFileSync(at("vectors/vectors.json.gz"))));
export const planText = (name) => readFileSync(at(`vectors/plans/${name}.json`), "utf8");
export const wide = !!process.env.DITHER_WIDE;
