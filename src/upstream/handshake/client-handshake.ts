import { requestToServer } from "../../protocol/rewrite.ts";
import type { RequestMessage, ResponseMessage } from "../../protocol/message.ts";
import type { UpstreamHandshake } from "../port.ts";
import { HANDSHAKE_ID, type HandshakeScript, readHandshake } from "./handshake.ts";

/** The handshake of a client with a private server: its own messages, unchanged except for the id. */
export class ClientHandshake implements HandshakeScript {
  readonly #request: string;
  readonly method = "initialize";
  #initialized: string | undefined;

  /** @param initialize the request of the client. */
  constructor(initialize: RequestMessage) {
    this.#request = requestToServer(initialize, HANDSHAKE_ID);
  }

  begin(): string {
    return this.#request;
  }

  read(message: RequestMessage | ResponseMessage, generation: number): UpstreamHandshake {
    return readHandshake(message, generation);
  }

  /** Returns undefined until the client has sent it. */
  initializedNotification(): string | undefined {
    return this.#initialized;
  }

  /** Keeps the client's `notifications/initialized` for later generations. */
  keepInitialized(text: string): void {
    this.#initialized = text;
  }
}
