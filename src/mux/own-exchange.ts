import type { SidecarError } from "../errors.ts";
import type { Exchange } from "./exchange.ts";

/** The exchange of a request that the sidecar itself makes: nobody reads the response. */
export class OwnExchange implements Exchange {
  readonly idText = "0";
  readonly acceptedAtMs: number;
  readonly onDisconnect = undefined;
  readonly isListening = false;
  readonly #onFailed: (reason: string) => void;

  constructor(acceptedAtMs: number, onFailed: (reason: string) => void) {
    this.acceptedAtMs = acceptedAtMs;
    this.#onFailed = onFailed;
  }

  emit(): boolean {
    return false;
  }

  keepAlive(): void {
    // Nobody waits.
  }

  respond(): void {
    // What it was for is done; an error of the server is seen by `onSettled`.
  }

  fail(error: SidecarError): void {
    this.#onFailed(error.message);
  }

  dismiss(): void {
    // Nobody waits.
  }
}
