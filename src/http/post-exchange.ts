import type { ServerResponse } from "node:http";
import type { Defects } from "../defects.ts";
import type { SidecarError } from "../errors.ts";
import type { Exchange } from "../mux/exchange.ts";
import { errorBody } from "./error-response.ts";
import type { OpenStream } from "./event-streams.ts";
import { sendAccepted, sendError, sendJson } from "./json-response.ts";

/**
 * The exchange of one POST. A JSON body if the response is the first thing to send; a stream from the first message ahead of it, or
 * after long silence, where the client reads streams.
 */
export class PostExchange implements Exchange {
  readonly idText: string;
  readonly acceptedAtMs: number;
  readonly sharedBy = 1;
  onDisconnect: (() => void) | undefined;
  readonly #response: ServerResponse;
  readonly #defects: Pick<Defects, "recover">;
  readonly #openStream: (() => OpenStream) | undefined;
  #open: OpenStream | undefined;
  #headers: Readonly<Record<string, string>> | undefined;
  #isFinished = false;

  /** @param openStream answers with a stream; undefined where the client reads none. */
  constructor(
    response: ServerResponse,
    defects: Pick<Defects, "recover">,
    idText: string,
    acceptedAtMs: number,
    openStream?: () => OpenStream,
  ) {
    this.#response = response;
    this.#defects = defects;
    this.idText = idText;
    this.acceptedAtMs = acceptedAtMs;
    this.#openStream = openStream;
    response.once("close", this.#onClose);
  }

  /** Headers to go out with the response. */
  setHeaders(headers: Readonly<Record<string, string>>): void {
    this.#headers = headers;
  }

  get isListening(): boolean {
    if (this.#isFinished) return false;
    return this.#open === undefined ? this.#openStream !== undefined && !this.#response.destroyed : this.#open.stream.isAttached;
  }

  get isStream(): boolean {
    return this.#open !== undefined;
  }

  emit(body: string): boolean {
    this.keepAlive();
    if (this.#isFinished || this.#open === undefined) return false;
    this.#open.stream.emit(body);
    return true;
  }

  keepAlive(): void {
    if (!this.#isFinished && !this.#response.destroyed) this.#open ??= this.#openStream?.();
  }

  respond(body: string): void {
    this.#finish(() => {
      if (this.#open === undefined) sendJson(this.#response, 200, body, this.#headers);
      else this.#open.stream.finish(body);
    });
  }

  fail(error: SidecarError): void {
    this.#finish(() => {
      if (this.#open === undefined) sendError(this.#response, error, this.idText);
      else this.#open.stream.finish(errorBody(error, this.idText));
    });
  }

  /** For a request that its client has cancelled: MCP wants no response to it, and the HTTP exchange has to end. */
  dismiss(): void {
    this.#finish(() => {
      if (this.#open === undefined) sendAccepted(this.#response);
      else this.#open.stream.end();
    });
  }

  /** A defect that keeps the one answer from being given leaves it to be given otherwise. */
  #finish(send: () => void): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    try {
      send();
      // A stream that a defect has left half open takes no answer any more.
      if (this.#open === undefined && !this.#response.writableEnded) this.#response.destroy();
    } catch (error) {
      this.#isFinished = false;
      throw error;
    }
  }

  /** Where the client has an event id, it can come back for the rest; otherwise nobody can read the response any more. */
  readonly #onClose = (): void => {
    try {
      if (this.#open !== undefined) {
        const { stream, connection, isPrimed } = this.#open;
        stream.detach(connection);
        if (isPrimed || stream.hasBegun) return;
        stream.end();
      }
      this.#finish(() => this.onDisconnect?.());
    } catch (error) {
      this.#defects.recover("client disconnect", error);
    }
  };
}
