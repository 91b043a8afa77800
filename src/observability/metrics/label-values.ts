import { JsonRpcErrorCode } from "../../protocol/error-codes.ts";
import { LEGACY_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS } from "../../protocol/versions.ts";

/** The value of a label for everything that is not in its list. OpenTelemetry has this name for methods and errors. */
export const OTHER = "_OTHER";
/** The name of all tools that are not listed. */
export const OTHER_TOOL = "other";

/** The values themselves are returned: a text from a message would keep the whole message in memory. */
type Values = ReadonlyMap<string, string>;

function valuesOf(values: readonly string[]): Values {
  return new Map(values.map((value) => [value, value]));
}

/** The requests that clients may send, in all revisions and in the extension of tasks. */
const METHODS = valuesOf([
  "completion/complete",
  "initialize",
  "logging/setLevel",
  "ping",
  "prompts/get",
  "prompts/list",
  "resources/list",
  "resources/read",
  "resources/subscribe",
  "resources/templates/list",
  "resources/unsubscribe",
  "server/discover",
  "subscriptions/listen",
  "tasks/cancel",
  "tasks/get",
  "tasks/list",
  "tasks/result",
  "tasks/update",
  "tools/call",
  "tools/list",
]);
const VERSIONS = valuesOf([...LEGACY_PROTOCOL_VERSIONS, ...MODERN_PROTOCOL_VERSIONS]);
/** A resource is not found, a URL must be visited first, and a request was cancelled (MCP 2025-11-25, and JSON-RPC of language servers). */
const FURTHER_ERROR_CODES = [-32002, -32042, -32800];
const ERROR_CODES = valuesOf([...Object.values(JsonRpcErrorCode), ...FURTHER_ERROR_CODES].map(String));

export function methodLabel(method: string): string {
  return METHODS.get(method) ?? OTHER;
}

/** @param version undefined without a known one. */
export function versionLabel(version: string | undefined): string {
  return version === undefined ? "" : (VERSIONS.get(version) ?? OTHER);
}

/** @param codeText the JSON text of the code in an error of the server. */
export function errorCodeLabel(codeText: string | undefined): string {
  return ERROR_CODES.get(codeText ?? "") ?? OTHER;
}
