import type { Counters, RequestEnding } from "../counters.ts";
import type { SidecarError } from "../errors.ts";
import type { RequestMessage, ResponseMessage } from "../jsonrpc/message.ts";
import { responseToClient } from "../jsonrpc/rewrite.ts";
import type { Dispatch } from "./dispatch.ts";
import type { Exchange } from "./exchange.ts";
import type { Held } from "./fair-queue.ts";
import type { LaneRules } from "./lane-rules.ts";
import type { UpstreamHandshake } from "../upstream/port.ts";

export interface InitializeRequestsOptions {
  readonly dispatch: Dispatch;
  readonly rules: LaneRules;
  readonly counters: Counters;
  /** That of the server that runs, once it is done. */
  readonly handshake: () => UpstreamHandshake | undefined;
}

/** An `initialize` of a client. */
export interface InitializeRequest {
  readonly exchange: Exchange;
  readonly request: RequestMessage;
  /** Makes the session once there is an answer, and returns it in the exchange's headers. */
  readonly open: (protocolVersion: string) => void;
  /** Called where there will be no session. */
  readonly onFailed: (() => void) | undefined;
}

/** The `initialize` of clients: answered from the server's handshake, and held while there is none. Each is a flow of its own. */
export class InitializeRequests {
  readonly #options: InitializeRequestsOptions;
  readonly #waiting = new Map<InitializeRequest, Held>();

  constructor(options: InitializeRequestsOptions) {
    this.#options = options;
  }

  /** @param refusal why it cannot be taken, if it cannot. */
  add(initialize: InitializeRequest, refusal: SidecarError | undefined): void {
    const { dispatch, counters, handshake } = this.#options;
    const { exchange, request } = initialize;
    const { text } = request;
    if (refusal !== undefined) return this.#refuse(initialize, refusal);
    if (handshake() !== undefined) {
      counters.requests.accepted++;
      return this.#answer(initialize);
    }
    const held: Held = {
      flow: initialize,
      takesSlot: false,
      byteLength: Buffer.byteLength(text),
      expiresAtMs: exchange.acceptedAtMs + this.#options.rules.initializeTimeoutMs,
      release: () => this.#answer(initialize),
      refuse: () => this.#fail(initialize, dispatch.notReady()),
    };
    const error = dispatch.roomError(text) ?? (dispatch.turns.hold(held) ? undefined : dispatch.notReady());
    if (error !== undefined) return this.#refuse(initialize, error);
    counters.requests.accepted++;
    counters.requests.held++;
    this.#waiting.set(initialize, held);
    exchange.onDisconnect = () => {
      this.#end(initialize, "unread");
      initialize.onFailed?.();
    };
  }

  /** The server has refused, and will again. */
  onRefused(response: ResponseMessage): void {
    for (const initialize of this.#waiting.keys()) {
      const { exchange, onFailed } = initialize;
      this.#end(initialize, "errors");
      exchange.respond(responseToClient(response, exchange.idText));
      onFailed?.();
    }
  }

  /** Fails all that wait. */
  failAll(error: SidecarError): void {
    for (const initialize of this.#waiting.keys()) this.#fail(initialize, error);
  }

  #answer(initialize: InitializeRequest): void {
    const { rules, handshake } = this.#options;
    const { exchange, request, open } = initialize;
    const current = handshake();
    if (current === undefined) return this.#fail(initialize, this.#options.dispatch.notReady());
    const { protocolVersion, body } = rules.answerInitialize(current, request, exchange.idText);
    this.#end(initialize, "results");
    open(protocolVersion);
    exchange.respond(body);
  }

  #fail(initialize: InitializeRequest, error: SidecarError): void {
    this.#end(initialize, error.code);
    initialize.exchange.fail(error);
    initialize.onFailed?.();
  }

  #refuse({ exchange, onFailed }: InitializeRequest, error: SidecarError): void {
    this.#options.dispatch.refuse(exchange, error);
    onFailed?.();
  }

  #end(initialize: InitializeRequest, ending: RequestEnding): void {
    const held = this.#waiting.get(initialize);
    if (held !== undefined) this.#options.dispatch.turns.remove(held);
    this.#waiting.delete(initialize);
    this.#options.counters.countEnding(ending);
  }
}
