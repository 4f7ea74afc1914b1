// The types of dither-client: what a page may call. Checked against the code by `npm run types`.

/** What is refused: says what to do, and quotes no value. */
export class ClientError extends Error {}
/** A plan that is not answered. */
export class PlanError extends ClientError {}

/** The public name of a round. */
export type Period = string | number;
/** Whatever this user has: an object or a Map from names to values. Never refused. */
export type UserRecord = unknown;

export interface OpenOptions {
  /** The hash of the plan that is meant, or the text of `plan.json`. */
  plan?: string;
  /** The token of a client, where a campaign asks for one. */
  token?: string;
  /** The name of this user's database in the browser, or null to keep nothing. */
  store?: string | null;
  /** What this user may spend on all plans that are answered from this store. */
  epsilon?: number;
  delta?: number;
  /** The address of a shuffler; needs `dither-client/sealed`. */
  shuffler?: string;
  /** For how many seconds a call tries to send; 10 if left out. */
  patience?: number;
  /** Plain HTTP to another machine. */
  allowHttp?: boolean;
  fetch?: typeof globalThis.fetch;
}

export interface Delivery {
  batches: number;
  accepted: number;
  rejected: { [reason: string]: number };
  duplicates: number;
  refused: number;
  pending: number;
  trouble: string;
}

export interface PartReport {
  part: string;
  number: number;
  mechanism: string;
  bytes: Uint8Array;
  /** Numbers, those beyond 2^53 as texts; packed bits as bytes. */
  fields: { [name: string]: number | string | Array<number | string> | Uint8Array };
}

export interface Report {
  /** The batch that `send` sends, before it is sealed; empty where this device does not answer in this round. */
  bytes: Uint8Array;
  part: string | null;
  reports: PartReport[];
  frame: Array<{ from: number; to: number; means: string }>;
  round: number;
  hash: string;
  epsilon: number;
  delta: number;
}

export interface Explanation {
  hash: string;
  epsilon: number;
  delta: number;
  /** e^epsilon. */
  odds: number;
  answered: number;
  rounds: number;
  periods: Period[] | null;
  crowd: { epsilon: number; delta: number; batch: number } | null;
  parts: Array<{
    name: string;
    questions: string[];
    attributes: string[];
    mechanism: string;
    epsilon: number;
    share: number;
    bytes: number;
  }>;
  attributes: Array<{
    name: string;
    kind: "numeric" | "ordinal" | "categorical" | "keyvalue" | "text" | "public";
    low?: number;
    high?: number;
    labels?: string[];
    keys?: string[] | number;
    size?: number;
    longest?: number;
    alphabet?: string | null;
  }>;
}

export interface PlanView {
  readonly hash: string;
  readonly epsilon: number;
  readonly delta: number;
}

export class Client {
  private constructor();
  static open(url: string, options?: OpenOptions): Promise<Client>;
  readonly plan: PlanView;
  readonly kept: "disk" | "memory";
  explain(): Explanation;
  check(record: UserRecord): string[];
  report(record: UserRecord, options?: { period?: Period }): Promise<Report>;
  send(record: UserRecord, options?: { period?: Period }): Promise<Delivery>;
  queue(record: UserRecord, options?: { period?: Period }): Promise<void>;
  flush(): Promise<Delivery>;
  beacon(): Promise<void>;
  pending(): Promise<number>;
}

/** A plan without a collector: nothing is kept beyond this value, and nothing is sent. */
export function client(plan: string): Client;
