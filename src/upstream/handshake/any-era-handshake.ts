import type { RequestMessage, ResponseMessage } from "../../protocol/message.ts";
import type { ServerEra, UpstreamHandshake } from "../port.ts";
import { type ClientInfo, DiscoverHandshake, HandshakeError, type HandshakeScript, SidecarHandshake } from "./handshake.ts";

/** The handshake with a server of any era: `initialize`, and a discovery if the server refuses that. */
export class AnyEraHandshake implements HandshakeScript {
  readonly #initialize: SidecarHandshake;
  readonly #discover: DiscoverHandshake;
  #refusal: HandshakeError | undefined;
  #era: ServerEra = "legacy";
  /** The era of the last generation that was ready. */
  #lastEra: ServerEra = "legacy";

  constructor(clientInfo: ClientInfo) {
    this.#initialize = new SidecarHandshake(clientInfo);
    this.#discover = new DiscoverHandshake(clientInfo);
  }

  get refusal(): HandshakeError | undefined {
    return this.#refusal;
  }

  get method(): string {
    return this.#current.method;
  }

  /** Each generation begins in the era of the former one, or with `initialize` if that was never ready. */
  begin(): string {
    this.#refusal = undefined;
    this.#era = this.#lastEra;
    this.#lastEra = "legacy";
    return this.#current.begin();
  }

  read(message: RequestMessage | ResponseMessage, generation: number): UpstreamHandshake | string {
    try {
      const handshake = this.#current.read(message, generation);
      this.#lastEra = this.#era;
      this.#refusal = undefined;
      return handshake;
    } catch (error) {
      if (!(error instanceof HandshakeError) || (this.#refusal === undefined && !(message.kind === "response" && message.isError)))
        throw error;
      this.#era = this.#era === "legacy" ? "modern" : "legacy";
      // The server refuses both, or does not know the second one. The first error shows the cause.
      if (this.#refusal !== undefined) throw this.#refusal;
      this.#refusal = error;
      return this.#current.begin();
    }
  }

  initializedNotification(): string | undefined {
    return this.#current.initializedNotification();
  }

  get #current(): SidecarHandshake | DiscoverHandshake {
    return this.#era === "legacy" ? this.#initialize : this.#discover;
  }
}
