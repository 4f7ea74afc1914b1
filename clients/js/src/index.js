export { Client, client } from "./client.js";
export { ClientError, PlanError } from "./errors.js";
