import type { SidecarError } from "../errors.ts";
import { findMembers } from "../json/find.ts";
import type { Exchange } from "./exchange.ts";

/** Of what the sidecar itself asks for; the discovery client of a pod reads lists of at most 4 MiB. */
export const MAX_OWN_RESULT_BYTES = 8 * 1024 * 1024;

/** The exchange of a request that the sidecar itself makes: the response goes nowhere but where it is asked for. */
export class OwnExchange implements Exchange {
  readonly idText = "0";
  readonly sharedBy = 1;
  readonly acceptedAtMs: number;
  readonly onDisconnect = undefined;
  readonly isListening = false;
  readonly #onFailed: (reason: string) => void;
  readonly #onResult: ((resultText: string | undefined) => void) | undefined;

  /** @param onResult called once with the JSON text of the result; undefined without one. */
  constructor(acceptedAtMs: number, onFailed: (reason: string) => void, onResult?: (resultText: string | undefined) => void) {
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
    if (this.#onResult === undefined) return;
    const bytes = Buffer.byteLength(body);
    const span = bytes > MAX_OWN_RESULT_BYTES ? undefined : findMembers(body, 0, ["result"]).spans[0];
    if (bytes > MAX_OWN_RESULT_BYTES) this.#onFailed(`the answer has ${bytes} bytes, more than ${MAX_OWN_RESULT_BYTES}`);
    this.#onResult(span === undefined ? undefined : body.slice(span.start, span.end));
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
