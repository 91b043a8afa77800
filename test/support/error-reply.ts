import { expect } from "vitest";
import { actionOf, type ErrorDetails, type SidecarErrorCode } from "../../src/errors.ts";
import type { HttpReply } from "./http-client.ts";

/** What a client sees of an error: the HTTP status, the type of the body, and the body as JSON-RPC. */
export interface ErrorReply {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: unknown;
}

/** For `toStrictEqual` against `errorReply`. */
export function readError({ status, headers, body }: HttpReply): ErrorReply {
  return { status, contentType: headers["content-type"], body: JSON.parse(body) };
}

/** The whole of `error.data`: nothing was sent, unless `details` say otherwise. */
export function errorData(code: string, details: ErrorDetails = {}): object {
  const action = actionOf(code as SidecarErrorCode, details.sent);
  return { code, action, sent: false, retrySafe: true, ...details };
}

/**
 * The whole of an error as the contract has it. Without an id there is no `id` member at all, but in a 401.
 *
 * @param data what `error.data` holds besides what all errors have.
 */
export function errorReply(
  status: number,
  code: number,
  dataCode: string,
  { id, data = {} }: { readonly id?: string | number; readonly data?: ErrorDetails } = {},
): ErrorReply {
  const error = { code, message: expect.stringMatching(/^\S.*[.]$/) as string, data: errorData(dataCode, data) };
  const idMember = id === undefined ? (status === 401 ? { id: null } : {}) : { id };
  return { status, contentType: "application/json", body: { jsonrpc: "2.0", ...idMember, error } };
}
