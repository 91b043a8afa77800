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

export function isProtocolRead(method: string): boolean {
  return PROTOCOL_READS.has(method);
}
