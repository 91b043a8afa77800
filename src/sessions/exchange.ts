import type { SidecarError } from "../errors.ts";
import type { ResponseMessage } from "../protocol/message.ts";
import type { ObservedRequest } from "../observability/request-observer.ts";
import type { Asking } from "./asking.ts";

/** The port to the client: a request that waits for its JSON-RPC response. It finishes exactly once. */
export interface Exchange {
  /** The JSON text of the client's request id. The response has the same text. */
  readonly idText: string;
  /** The time at which the HTTP request arrived. Its timeout starts here. */
  readonly acceptedAtMs: number;
  /** The number of responses in the HTTP body: more than 1 in a batch, 0 if the body is an endless stream. */
  readonly sharedBy: number;
  /** The most bytes that the exchange adds to the result of a tool. Undefined for none. */
  readonly addedBytes?: number;
  /** The least severe log messages that the client wants until the response. Undefined if it wants none, or in a session. */
  readonly logLevel?: string | undefined;
  /** Passes questions of the server to the client. Undefined if the request cannot have any. */
  readonly asking?: Asking | undefined;
  /** The observation of the request; undefined if nothing observes it. */
  readonly observed?: ObservedRequest | undefined;
  /** True if a message that is sent before the response reaches the client at once. */
  readonly isListening: boolean;
  /** Sends a notification or a server's request before the response. @returns false if the client does not accept messages here. */
  emit(body: string): boolean;
  /** Begins a slow response, if the client accepts a stream. May be called again. */
  keepAlive(): void;
  /**
   * Finishes with a JSON-RPC response, which has the client's request id.
   *
   * @param response the server's message, if the body differs from it in the id only.
   */
  respond(body: string, response?: ResponseMessage): void;
  fail(error: SidecarError): void;
  /** Finishes without a response, because the client has cancelled the request. */
  dismiss(): void;
  /** Sets the listener, which is called once if the client disconnects before the exchange has finished, and cannot reconnect for the response. */
  onDisconnect(listener: () => void): void;
}
