// The same client with sealing for a shuffler.
export * from "./index.js";
