import { expect } from "vitest";
import { actionOf, type ErrorDetails, type SidecarErrorCode, type SpecialClient } from "../../src/mcp/errors.ts";
import type { HttpReply } from "./http-client.ts";

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
