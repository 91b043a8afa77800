/** The effect of sending a request twice: `safe` if it only reads, `idempotent` if twice is the same as once, else `unknown`. */
export type Effect = "safe" | "idempotent" | "unknown";

/** Protocol requests that only read. Tool calls are not among them. */
const SAFE_METHODS: ReadonlySet<string> = new Set([
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
const IDEMPOTENT_METHODS: ReadonlySet<string> = new Set(["logging/setLevel", "resources/subscribe", "resources/unsubscribe"]);

/** Returns the effect of a protocol request. That of a tool call is `unknown` here. */
export function effectOf(method: string): Effect {
  if (SAFE_METHODS.has(method)) return "safe";
  return IDEMPOTENT_METHODS.has(method) ? "idempotent" : "unknown";
}
