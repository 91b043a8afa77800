/** The effect of sending a request twice: none, as it only `reads`; the `same` as sending it once; or `unknown`. */
export type Effect = "reads" | "same" | "unknown";

/** Protocol requests that only read. Tool calls are not among them. */
const PROTOCOL_READS: ReadonlySet<string> = new Set([
  "ping",
  "tools/list",
  "resources/list",
  "resources/templates/list",
  "resources/read",
  "prompts/list",
  "prompts/get",
  "completion/complete",
  "tasks/list",
  "tasks/get",
]);

/** Protocol requests that set a state. Sending one twice results in the same state. */
const PROTOCOL_SETTINGS: ReadonlySet<string> = new Set(["logging/setLevel", "resources/subscribe", "resources/unsubscribe"]);

/** Returns the effect of a protocol request. That of a tool call is `unknown` here. */
export function effectOf(method: string): Effect {
  if (PROTOCOL_READS.has(method)) return "reads";
  return PROTOCOL_SETTINGS.has(method) ? "same" : "unknown";
}
