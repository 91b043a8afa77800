import type { IncomingHttpHeaders } from "node:http";
import { findMembers, findPath, stringOf } from "../json/read.ts";
import { shorten } from "../json/text.ts";
import { invalidParams, SidecarError } from "../mcp/errors.ts";
import { findAmbiguity, MODERN_PROTOCOL_VERSIONS, type RequestMessage, Slot } from "../mcp/message.ts";
import { type Envelope, readEnvelope } from "../mcp/translate.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller, Principal } from "../session/session.ts";

const BASE64_FORM = /^=\?base64\?(.*)\?=$/i;
const CANONICAL_BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
/** The most common values: plain, printable ASCII without blanks around it. */
const SIMPLE = /^(?!=\?)[!-~](?:[ -~]*[!-~])?$/;
const PLAIN = /^[\t -~]*$/;
const DECIMAL = /^-?\d+(?:\.\d+)?$/;

/**
 * Decodes a header (MCP 2026-07-28, basic/transports, header encoding): plain ASCII, or the UTF-8 text in `=?base64?…?=`. Undefined for
 * anything else. Node has removed surrounding blanks.
 */
function decodeHeaderValue(header: string): string | undefined {
  if (SIMPLE.test(header)) return header;
  if (!PLAIN.test(header)) return undefined;
  const encoded = BASE64_FORM.exec(header)?.[1];
  if (encoded === undefined) return header;
  if (!CANONICAL_BASE64.test(encoded)) return undefined;
  const bytes = Buffer.from(encoded, "base64");
  // Unused bits of the last character must be zero, or one value would have several forms.
  if (bytes.toString("base64") !== encoded) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The parameter that the `Mcp-Name` header repeats, by method (MCP 2026-07-28, basic/transports, standard request headers). */
const NAME_SLOT: ReadonlyMap<string, { readonly member: string; readonly slot: number }> = new Map([
  ["tools/call", { member: "name", slot: Slot.toolName }],
  ["prompts/get", { member: "name", slot: Slot.toolName }],
  ["resources/read", { member: "uri", slot: Slot.uri }],
]);
/** Clients repeat these from a result. Of two values, a server could read another one than the sidecar. */
const REPEATED_PARAMS = { requestState: Slot.repeatedState, inputResponses: Slot.inputResponses } as const;
const TASK_METHODS: ReadonlySet<string> = new Set(["tasks/get", "tasks/update", "tasks/cancel"]);

/** The methods of earlier revisions that no client of this one may send. */
const REMOVED_METHODS = /^(?:initialize|ping|logging\/setLevel|resources\/(?:un)?subscribe|tasks\/(?:list|result))$/;

export interface StatelessRequest {
  readonly request: RequestMessage;
  readonly envelope: Envelope;
  readonly headers: IncomingHttpHeaders;
  readonly reply: Reply;
  readonly client: Caller;
  /** The token may be removed while the request waits. */
  readonly owner: Principal | undefined;
}

/** Checks `_meta`, the revision, then the headers that repeat the body (MCP 2026-07-28, basic/transports, server validation). */
export function checkModernRequest(request: RequestMessage, headers: IncomingHttpHeaders): Envelope | SidecarError {
  const envelope = readEnvelope(request);
  if (envelope instanceof SidecarError) return envelope;
  const ambiguity = findAmbiguity(request.outline, REPEATED_PARAMS);
  if (ambiguity !== undefined) return invalidParams(ambiguity);
  const mismatch = checkVersion(request, headers) ?? checkHeader(headers["mcp-method"], "Mcp-Method", request.method);
  return mismatch ?? checkName(request, headers) ?? envelope;
}

export function removedMethod({ method }: RequestMessage): SidecarError | undefined {
  return REMOVED_METHODS.test(method) ? methodNotFound(method) : undefined;
}

export function methodNotFound(method: string): SidecarError {
  return new SidecarError("METHOD_NOT_FOUND", `The method ${JSON.stringify(shorten(method))} does not exist here.`);
}

function checkVersion({ outline }: RequestMessage, headers: IncomingHttpHeaders): SidecarError | undefined {
  const requested = outline.stringAt(Slot.metaVersion) ?? "";
  const mismatch = checkHeader(headers["mcp-protocol-version"], "MCP-Protocol-Version", requested);
  if (mismatch !== undefined || MODERN_PROTOCOL_VERSIONS.includes(requested)) return mismatch;
  const message = `The protocol revision ${JSON.stringify(shorten(requested))} is not supported.`;
  return new SidecarError("UNSUPPORTED_PROTOCOL_VERSION", message, { supported: MODERN_PROTOCOL_VERSIONS, requested });
}

export function taskIdOf({ text, outline }: RequestMessage): string | undefined {
  return stringOf(text, findPath(text, outline.start(Slot.params), ["taskId"]));
}

function checkName(request: RequestMessage, headers: IncomingHttpHeaders): SidecarError | undefined {
  const { method, text, outline } = request;
  if (TASK_METHODS.has(method)) {
    if (findMembers(text, outline.start(Slot.params), ["taskId"]).double !== undefined)
      return invalidParams('"taskId" is ambiguous in the params');
    return checkHeader(headers["mcp-name"], "Mcp-Name", taskIdOf(request) ?? "");
  }
  const named = NAME_SLOT.get(method);
  if (named === undefined) return undefined;
  // The server could read the other one.
  const ambiguity = findAmbiguity(outline, { [named.member]: named.slot });
  if (ambiguity !== undefined) return invalidParams(ambiguity);
  const value = outline.stringAt(named.slot);
  // The server reports a parameter that is missing.
  return value === undefined ? undefined : checkHeader(headers["mcp-name"], "Mcp-Name", value);
}

/** @param source of the expected value. */
export function checkHeader(
  header: string | string[] | undefined,
  name: string,
  expected: string | number | boolean,
  source = "the body",
): SidecarError | undefined {
  if (header === undefined) return headerMismatch(name, "is missing");
  const value = decodeHeaderValue(String(header));
  if (value === undefined) return headerMismatch(name, "is malformed");
  const isSame = typeof expected === "number" && DECIMAL.test(value) ? Number(value) === expected : value === String(expected);
  return isSame ? undefined : headerMismatch(name, `differs from ${source}`);
}

function headerMismatch(name: string, problem: string): SidecarError {
  return new SidecarError("HEADER_MISMATCH", `The header ${name} ${problem}. The request was not sent.`);
}
