import { expect } from "vitest";
import { type ErrorDetails, type SidecarErrorCode, type SpecialClient, actionOf } from "../../src/mcp/errors.ts";
import type { HttpReply } from "./http-client.ts";
import type { JsonRpcMessage } from "./json-rpc.ts";
import type { ModernReply } from "./modern-client.ts";

/** An error as a client sees it: the HTTP status, the content type, and the body as JSON-RPC. */
export interface ErrorReply {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: unknown;
}

/** Returns an error for `toStrictEqual` against `errorReply`. */
export function readError({ status, headers, body }: HttpReply): ErrorReply {
  return { status, contentType: headers["content-type"], body: JSON.parse(body) };
}

/** Returns the whole of `error.data`: the request was not sent, unless `details` says otherwise. */
export function errorData(code: string, details: ErrorDetails = {}, client?: SpecialClient): object {
  const action = actionOf(code as SidecarErrorCode, details.sent, client);
  return { code, action, sent: false, retrySafe: true, ...details };
}

/**
 * Returns the whole error according to the contract. Without an id, only a 401 has an `id` member.
 * @param data the members of `error.data` besides those of all errors.
 * @param client the client that gets other advice than usual.
 */
export function errorReply(
  status: number,
  code: number,
  dataCode: string,
  { id, data = {}, client }: { readonly id?: string | number; readonly data?: ErrorDetails; readonly client?: SpecialClient } = {},
): ErrorReply {
  const error = { code, message: expect.stringMatching(/^\S.*[.]$/) as string, data: errorData(dataCode, data, client) };
  const idMember = id === undefined ? (status === 401 ? { id: null } : {}) : { id };
  return { status, contentType: "application/json", body: { jsonrpc: "2.0", ...idMember, error } };
}

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
