import type { SidecarError } from "../errors.ts";
import { errorBody, errorStatus } from "./error-response.ts";

/** The rules of a protocol era for the responses to its clients. An exchange has the front of its client, whatever server answers it. */
export interface Front {
  /** Returns the HTTP status of an error of the sidecar. */
  errorStatus(error: SidecarError): number;
  /** Returns the JSON text of an error of the sidecar. @param idText the JSON text of the request's id; undefined for a batch. */
  errorBody(error: SidecarError, idText: string | undefined): string;
  /** Returns the JSON text of a server's response as the client receives it. */
  responseBody(body: string): string;
  /** True if a disconnect of the client cancels its request. @param isResumable true if the client has an event id to reconnect with. */
  cancelsOnDisconnect(isResumable: boolean): boolean;
}

/** The front of clients with a session, up to revision 2025-11-25. Their requests go on while they can reconnect for the response. */
export const SESSION_FRONT: Front = {
  errorStatus,
  errorBody,
  responseBody: (body) => body,
  cancelsOnDisconnect: (isResumable) => !isResumable,
};
