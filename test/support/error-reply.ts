import { expect } from "vitest";
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

/**
 * The whole of an error as the contract has it. Without an id there is no `id` member at all.
 *
 * @param data what `error.data` holds besides its code.
 */
export function errorReply(
  status: number,
  code: number,
  dataCode: string,
  { id, data = {} }: { readonly id?: string | number; readonly data?: object } = {},
): ErrorReply {
  const error = { code, message: expect.stringMatching(/^\S.*[.]$/) as string, data: { code: dataCode, ...data } };
  return { status, contentType: "application/json", body: { jsonrpc: "2.0", ...(id === undefined ? {} : { id }), error } };
}
