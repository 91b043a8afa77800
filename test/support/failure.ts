import type { HttpReply } from "./http-client.ts";
import type { JsonRpcMessage } from "./json-rpc.ts";
import type { ModernReply } from "./modern-client.ts";

/** Returns the HTTP status of an error, its JSON-RPC code, and the sidecar's own code in `data`. */
export function failureOf(reply: HttpReply | ModernReply): readonly [status: number, code: number | undefined, dataCode: unknown] {
  const { error } = "body" in reply ? (JSON.parse(reply.body) as JsonRpcMessage) : reply;
  return [reply.status, error?.code, error?.data?.["code"]];
}

export const HEADER_MISMATCH = [400, -32020, "HEADER_MISMATCH"];
export const INVALID_PARAMS = [400, -32602, "INVALID_PARAMS"];
export const UNSUPPORTED_VERSION = [400, -32022, "UNSUPPORTED_PROTOCOL_VERSION"];
export const METHOD_NOT_FOUND = [404, -32601, "METHOD_NOT_FOUND"];
export const INVALID_REQUEST = [400, -32600, "INVALID_REQUEST"];
/** The error of an endpoint that knows sessions only. */
export const SESSION_REQUIRED = [400, -32000, "SESSION_REQUIRED"];
