// Where a device keeps what it has sent: one record of the browser's database (IndexedDB), changed as a whole, by one
// tab at a time. What a change returns is handed out when the transaction is complete, so that nothing is sent that is
// not kept.
//
// A browser may keep nothing for a page: private windows, storage that is blocked, a disk that is full. A device that
// fell silent then would tell something, and one that drew afresh with every call would spend as often. So the record
// is kept in memory for as long as the page is open, and `kept` says so. Where the disk fails after it has held an
// answer, that answer is `frozen`: it is repeated, since another one could not be remembered.

import { ClientError } from "./errors.js";

const RECORDS = "records";
const RECORD = "device";
const empty = () => ({ version: 1, book: null, batches: [], facts: {} });

/** A store in memory: for trials, and where there is no other. */
export function memoryStore(state = empty()) {
  return {
    kept: "memory",
    async change(work) {
      const draft = structuredClone(state);
      const found = work(draft);
      state = draft;
      return found;
    },
  };
}

const opened = (name) =>
  new Promise((resolve, reject) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(RECORDS);
    request.onsuccess = () => resolve(request.result);
    request.onerror = request.onblocked = () => reject(request.error);
  });

/** One transaction: read, work, write. Rejects with what `work` threw, or with null where the database failed. */
const transaction = (database, work) =>
  new Promise((resolve, reject) => {
    let [found, thrown, state] = [undefined, null, empty()];
    const run = database.transaction(RECORDS, "readwrite", { durability: "strict" });
    const records = run.objectStore(RECORDS);
    const reading = records.get(RECORD);
    reading.onsuccess = () => {
      state = reading.result ?? state;
      const before = structuredClone(state);
      try {
        if (state.version !== 1) throw new ClientError("what this device has stored was written by a newer client, or is damaged; nothing was sent");
        found = work(state);
        state = [before, records.put(state, RECORD)][0]; // as it was, for whoever has to go on without the disk
      } catch (error) {
        thrown = error;
        run.abort();
      }
    };
    run.oncomplete = () => resolve(found);
    run.onabort = run.onerror = () => (thrown instanceof ClientError ? reject(thrown) : reject({ failed: true, state }));
  });

/** The store of one user of this page. @param {string} name */
export async function openStore(name) {
  let [memory, database] = [null, null];
  try {
    database = await opened(name);
  } catch {
    memory = memoryStore();
  }
  return {
    get kept() {
      return memory ? "memory" : "disk";
    },
    async change(work) {
      if (!memory)
        try {
          return await transaction(database, work);
        } catch (error) {
          if (error instanceof ClientError) throw error;
          const state = error?.state ?? empty();
          if (state.book) state.book.frozen = Object.keys(state.book.answers);
          memory = memoryStore(state);
        }
      return memory.change(work);
    },
  };
}
