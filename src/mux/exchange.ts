import type { SidecarError } from "../errors.ts";

/** The port to the client's side: one request that awaits one JSON-RPC response. Finishes exactly once, by one of the methods. */
export interface Exchange {
  /** The JSON text of the client's request id, to be given back as it was spelled. */
  readonly idText: string;
  /** When the HTTP request arrived; its time runs from here. */
  readonly acceptedAtMs: number;
  /** How many responses its HTTP body carries: more than 1 in a batch, 0 where the body is a stream without end. */
  readonly sharedBy: number;
  /** Whether a message that is sent ahead of the response reaches the client at once. */
  readonly isListening: boolean;
  /** Sends a notification or a server's request ahead of the response. @returns false where the client reads no such thing here. */
  emit(body: string): boolean;
  /** The response is long in coming: begins it, where the client can read one that has begun. May be called again. */
  keepAlive(): void;
  /** A JSON-RPC response as the client shall read it. */
  respond(body: string): void;
  fail(error: SidecarError): void;
  /** The client wants no response any more. */
  dismiss(): void;
  /** Called once if the client goes away before the exchange has finished, and cannot come back for the response. */
  onDisconnect: (() => void) | undefined;
}
