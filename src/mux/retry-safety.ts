/**
 * What comes of sending a request twice: nothing, since it only `reads`; the `same` as of sending it once; or something that nobody here
 * can know.
 */
export type Effect = "reads" | "same" | "unknown";

/** Requests of the protocol that only read: sending one twice changes nothing. A tool call is never among them. */
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

/** Requests that say how things shall be: said twice, they are so. */
const PROTOCOL_SETTINGS: ReadonlySet<string> = new Set(["logging/setLevel", "resources/subscribe", "resources/unsubscribe"]);

/** Of a request of the protocol; what a tool does is known to its server only. */
export function effectOf(method: string): Effect {
  if (PROTOCOL_READS.has(method)) return "reads";
  return PROTOCOL_SETTINGS.has(method) ? "same" : "unknown";
}
