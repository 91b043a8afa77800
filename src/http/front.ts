import { ERROR_CATALOG } from "../error-catalog/error-catalog.ts";
import type { SidecarError } from "../errors.ts";
import { findMembers } from "../json/find.ts";
import { readValue } from "../json/values.ts";
import { JsonRpcErrorCode } from "../protocol/error-codes.ts";
import { errorBody, errorStatus, modernErrorBody } from "./error-response.ts";

/** The rules of a protocol era for the responses to its clients. An exchange has the front of its client, whatever server answers it. */
export interface Front {
  /** Returns the HTTP status of an error of the sidecar. */
  errorStatus(error: SidecarError): number;
  /** Returns the JSON text of an error of the sidecar. @param idText the JSON text of the request's id; undefined for a batch. */
  errorBody(error: SidecarError, idText: string | undefined): string;
  /** Returns the HTTP status of a server's response. */
  responseStatus(body: string): number;
  /** True if a disconnect of the client cancels its request. @param isResumable true if the client has an event id to reconnect with. */
  cancelsOnDisconnect(isResumable: boolean): boolean;
}

/** The front of clients with a session, up to revision 2025-11-25. Their requests go on while they can reconnect for the response. */
export const SESSION_FRONT: Front = {
  errorStatus,
  errorBody,
  responseStatus: () => 200,
  cancelsOnDisconnect: (isResumable) => !isResumable,
};

/** The HTTP statuses of errors (MCP 2026-07-28, basic/transports). All others have 200. */
const STATUS_OF_ERROR: ReadonlyMap<unknown, number> = new Map([
  [JsonRpcErrorCode.MethodNotFound, 404],
  [JsonRpcErrorCode.HeaderMismatch, 400],
  [JsonRpcErrorCode.MissingCapability, 400],
  [JsonRpcErrorCode.UnsupportedVersion, 400],
]);
/** Longer responses are not searched for an error. In UTF-16 units. */
const MAX_ERROR_LENGTH = 64 * 1024;

/** The front of clients without a session, from revision 2026-07-28 on. A request ends with its connection. */
export const MODERN_FRONT: Front = {
  errorStatus: (error) => STATUS_OF_ERROR.get(ERROR_CATALOG[error.code].jsonRpcCode) ?? errorStatus(error),
  errorBody: modernErrorBody,
  responseStatus(body) {
    if (body.length > MAX_ERROR_LENGTH || !body.includes('"error"')) return 200;
    const error = findMembers(body, 0, ["error"]).spans[0];
    const code = error === undefined ? undefined : findMembers(body, error.start, ["code"]).spans[0];
    return (code === undefined ? undefined : STATUS_OF_ERROR.get(readValue(body, code))) ?? 200;
  },
  cancelsOnDisconnect: () => true,
};
