import type { SidecarError } from "../errors.ts";

/** The port to the client's side: one HTTP request that awaits one JSON-RPC response. Finishes exactly once, by one of the methods. */
export interface Exchange {
  /** The JSON text of the client's request id, to be given back as it was spelled. */
  readonly idText: string;
  /** When the HTTP request arrived; its time runs from here. */
  readonly acceptedAtMs: number;
  /** A JSON-RPC response as the client shall read it. */
  respond(body: string): void;
  fail(error: SidecarError): void;
  /** The client wants no response any more. */
  dismiss(): void;
  /** Called once if the client goes away before the exchange has finished. */
  onDisconnect: (() => void) | undefined;
}
