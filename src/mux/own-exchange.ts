import type { SidecarError } from "../errors.ts";
import type { Exchange } from "./exchange.ts";

/** The exchange of a request that the sidecar itself makes: the response goes nowhere but where it is asked for. */
export class OwnExchange implements Exchange {
  readonly idText = "0";
  readonly sharedBy = 1;
  readonly acceptedAtMs: number;
  readonly onDisconnect = undefined;
  readonly isListening = false;
  readonly #onFailed: (reason: string) => void;
  readonly #onResult: ((result: unknown) => void) | undefined;

  /** @param onResult called once, with undefined where there is no result. */
  constructor(acceptedAtMs: number, onFailed: (reason: string) => void, onResult?: (result: unknown) => void) {
    this.acceptedAtMs = acceptedAtMs;
    this.#onFailed = onFailed;
    this.#onResult = onResult;
  }

  emit(): boolean {
    return false;
  }

  keepAlive(): void {
    // Nobody waits.
  }

  respond(body: string): void {
    // Mostly what it was for is done; an error of the server is seen by `onSettled`.
    this.#onResult?.((JSON.parse(body) as { readonly result?: unknown }).result);
  }

  fail(error: SidecarError): void {
    // At the end of the sidecar nothing is wrong, and nobody is left to mind.
    if (error.code !== "SHUTTING_DOWN") this.#onFailed(error.message);
    this.#onResult?.(undefined);
  }

  dismiss(): void {
    // Nobody waits.
  }
}
