import type { ServerResponse } from "node:http";
import type { Defects } from "../../observability/defects.ts";
import type { SidecarError } from "../../errors.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import { errorBody } from "../error-response.ts";
import type { OpenStream } from "./event-streams.ts";
import { sendAccepted, sendError, sendJson } from "../json-response.ts";

/**
 * The exchange of one POST. Its response is a JSON body, unless a message precedes it or it takes long. Then it becomes a stream, if the
 * client accepts one.
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

  /** @param openStream starts a stream as the HTTP response; undefined if the client does not accept one. */
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

  /** Sets headers for a response in JSON. */
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

  /** Ends the HTTP exchange of a request that its client has cancelled, to which MCP has no response. */
  dismiss(): void {
    this.#finish(() => {
      if (this.#open === undefined) sendAccepted(this.#response);
      else this.#open.stream.end();
    });
  }

  /** Finishes the exchange once. If a defect prevents the response, the exchange can still be finished with an error. */
  #finish(send: () => void): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    try {
      send();
      // A defect may leave a stream half open, without a way to send the response.
      if (this.#open === undefined && !this.#response.writableEnded) this.#response.destroy();
    } catch (error) {
      this.#isFinished = false;
      throw error;
    }
  }

  /** A client with an event id can reconnect for the rest. Otherwise, the response cannot be delivered, and the exchange ends. */
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
