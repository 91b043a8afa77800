import type { ServerResponse } from "node:http";
import type { SidecarError } from "../errors.ts";
import type { Exchange } from "../mux/exchange.ts";
import { sendAccepted, sendError, sendJson } from "./json-response.ts";

/** The exchange of one POST: a JSON body, sent once. */
export class PostExchange implements Exchange {
  readonly idText: string;
  readonly acceptedAtMs: number;
  onDisconnect: (() => void) | undefined;
  readonly #response: ServerResponse;
  #headers: Readonly<Record<string, string>> | undefined;
  #isFinished = false;

  constructor(response: ServerResponse, idText: string, acceptedAtMs: number) {
    this.#response = response;
    this.idText = idText;
    this.acceptedAtMs = acceptedAtMs;
    response.once("close", this.#onClose);
  }

  /** Headers to go out with the response. */
  setHeaders(headers: Readonly<Record<string, string>>): void {
    this.#headers = headers;
  }

  respond(body: string): void {
    if (!this.#finish()) return;
    sendJson(this.#response, 200, body, this.#headers);
  }

  fail(error: SidecarError): void {
    if (!this.#finish()) return;
    sendError(this.#response, error, this.idText);
  }

  /** For a request that its client has cancelled: MCP wants no response to it, and the HTTP exchange has to end. */
  dismiss(): void {
    if (!this.#finish()) return;
    sendAccepted(this.#response);
  }

  #finish(): boolean {
    if (this.#isFinished) return false;
    this.#isFinished = true;
    return true;
  }

  readonly #onClose = (): void => {
    if (this.#finish()) this.onDisconnect?.();
  };
}
