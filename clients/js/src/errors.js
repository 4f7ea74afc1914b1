// What is refused, and in which words: what to do next, and never a value.

/** Whatever this client refuses. */
export class ClientError extends Error {
  get name() {
    return this.constructor.name;
  }
}

/** A plan that is not answered: changed, newer, not understood, or one that promises less than it says. */
export class PlanError extends ClientError {}
