import type { IncomingHttpHeaders } from "node:http";
import type { SidecarError } from "../../errors.ts";
import { findPath } from "../../json/find.ts";
import { readValue } from "../../json/values.ts";
import { isJsonObject, type JsonObject, type RequestMessage, Slot } from "../../protocol/message.ts";
import { decodeHeaderValue } from "./header-value.ts";
import { headerMismatch } from "./request-check.ts";

const HEADER_KEY = "x-mcp-header";
/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const DECIMAL = /^-?\d+(?:\.\d+)?$/;
/** A nested parameter is found at most at this depth. */
const MAX_DEPTH = 16;

/** A parameter of a tool that the client repeats in a header. */
interface HeaderParam {
  readonly path: readonly string[];
  /** In lower case, as Node names headers. */
  readonly header: string;
}

/** Returns the tools with parameters in headers, by name. A name that several tools have is left out. */
export function headerParams(tools: readonly JsonObject[]): ReadonlyMap<string, readonly HeaderParam[]> {
  const found = new Map<string, readonly HeaderParam[]>();
  for (const [name, same] of Map.groupBy(tools, (tool) => tool["name"])) {
    const [tool] = same;
    if (typeof name !== "string" || tool === undefined || same.length > 1) continue;
    const params = [...paramsOf(tool["inputSchema"], [])];
    if (params.length > 0) found.set(name, params);
  }
  return found;
}

/** Returns the error if a header differs from the argument that it repeats (MCP 2026-07-28, basic/transports, custom headers). */
export function checkParamHeaders(
  { text, outline }: RequestMessage,
  headers: IncomingHttpHeaders,
  params: readonly HeaderParam[],
): SidecarError | undefined {
  if (!outline.isObject(Slot.arguments)) return undefined;
  for (const { path, header } of params) {
    const span = findPath(text, outline.start(Slot.arguments), path);
    const value = span === undefined ? undefined : readValue(text, span);
    if (typeof value !== "string" && typeof value !== "boolean" && typeof value !== "number") continue;
    const sent = headers[header];
    if (sent === undefined) return headerMismatch(`The header ${header} is missing`);
    const decoded = decodeHeaderValue(String(sent));
    if (decoded === undefined) return headerMismatch(`The header ${header} is malformed`);
    const isSame = typeof value === "number" && DECIMAL.test(decoded) ? Number(decoded) === value : decoded === String(value);
    if (!isSame) return headerMismatch(`The header ${header} differs from the argument ${path.join(".")}`);
  }
  return undefined;
}

function* paramsOf(schema: unknown, path: readonly string[]): Generator<HeaderParam> {
  if (!isJsonObject(schema) || path.length > MAX_DEPTH) return;
  const name = schema[HEADER_KEY];
  if (typeof name === "string" && TOKEN.test(name) && path.length > 0) yield { path, header: `mcp-param-${name.toLowerCase()}` };
  const { properties } = schema;
  if (!isJsonObject(properties)) return;
  for (const [key, child] of Object.entries(properties)) yield* paramsOf(child, [...path, key]);
}
