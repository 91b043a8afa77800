import type { Context } from "../context.ts";
import type { SidecarError } from "../mcp/errors.ts";
import type { RequestMessage, ResponseMessage } from "../mcp/message.ts";
import type { MemoryAccount, Reservation } from "../memory.ts";
import type { Reply } from "../session/reply.ts";
import { holdMessage } from "./call.ts";
import type { Dispatch } from "./dispatch.ts";
import { internalError } from "./failures.ts";
import type { Routing } from "./routing.ts";
import type { QueueEntry } from "./slots.ts";

/** A client's `initialize`. */
export interface InitializeRequest {
  readonly reply: Reply;
  readonly request: RequestMessage;
  /** The memory of the client. */
  readonly memory: MemoryAccount;
  /** Creates the session before the response is sent; the session id goes into the response's headers. @returns the error if there is none. */
  readonly open: (protocolVersion: string) => SidecarError | undefined;
  /** Called with the server's error if it refuses it. The reply must be finished then. */
  readonly onRefused: (refusal: ResponseMessage) => void;
  /** Called if no session is created. */
  readonly onFailed: () => void;
}

/** The `initialize` requests of clients. Answered from the server's handshake, and queued until it has finished. */
export class InitializeRequests {
  readonly #context: Context;
  readonly #dispatch: Dispatch;
  readonly #routing: Routing;
  readonly #waiting = new Map<InitializeRequest, { readonly entry: QueueEntry; readonly memory: Reservation }>();

  constructor(context: Context, dispatch: Dispatch, routing: Routing) {
    this.#context = context;
    this.#dispatch = dispatch;
    this.#routing = routing;
  }

  /** @param refusal the error if the request is rejected. */
  add(initialize: InitializeRequest, refusal: SidecarError | undefined): void {
    const dispatch = this.#dispatch;
    const { config, counters } = this.#context;
    const { reply, request } = initialize;
    const { text } = request;
    if (refusal !== undefined) return this.#refuse(initialize, refusal);
    if (dispatch.handshake !== undefined) {
      reply.accept();
      return this.#answer(initialize);
    }
    const memory = holdMessage(initialize.memory, text);
    const entry: QueueEntry = {
      owner: initialize,
      takesSlot: false,
      held: { holder: initialize.memory.holder, memory, fail: (failure) => this.#fail(initialize, failure) },
      byteLength: Buffer.byteLength(text),
      expiresAtMs: reply.acceptedAtMs + (this.#routing.initialize.isForwarded ? config.requestTimeoutMs : config.holdTimeoutMs),
      release: () => this.#answer(initialize),
      refuse: () => this.#fail(initialize, dispatch.notReady()),
    };
    const error = dispatch.roomError(text) ?? (dispatch.queue.add(entry) ? undefined : dispatch.notReady());
    if (error !== undefined) {
      memory.release();
      return this.#refuse(initialize, error);
    }
    if (!reply.isAccepted) counters.requests.held++;
    reply.accept();
    this.#waiting.set(initialize, { entry, memory });
    reply.onDisconnect = () => {
      this.#forget(initialize);
      initialize.onFailed();
    };
  }

  /** Takes all waiting requests from the server, because it would reject the next one too. */
  onRefused(response: ResponseMessage): void {
    for (const initialize of this.#waiting.keys()) {
      this.#forget(initialize);
      initialize.onRefused(response);
      initialize.onFailed();
    }
  }

  /** Fails all waiting requests. */
  failAll(error: SidecarError): void {
    for (const initialize of this.#waiting.keys()) this.#fail(initialize, error);
  }

  #answer(initialize: InitializeRequest): void {
    const dispatch = this.#dispatch;
    const { defects } = this.#context;
    const { reply, request, open } = initialize;
    const { handshake } = dispatch;
    if (handshake === undefined) return this.#fail(initialize, dispatch.notReady());
    const { protocolVersion, body } = this.#routing.initialize.answer(handshake, request, reply.idText);
    this.#forget(initialize);
    let refusal: SidecarError | undefined;
    try {
      refusal = open(protocolVersion);
    } catch (error) {
      return defects.recover("session start", error, () => this.#fail(initialize, internalError(false)));
    }
    if (refusal !== undefined) return this.#fail(initialize, refusal);
    reply.respond(body);
  }

  #fail(initialize: InitializeRequest, error: SidecarError): void {
    this.#forget(initialize);
    initialize.reply.fail(error);
    initialize.onFailed();
  }

  #refuse(initialize: InitializeRequest, error: SidecarError): void {
    initialize.reply.refuse(error);
    initialize.onFailed();
  }

  #forget(initialize: InitializeRequest): void {
    const waiting = this.#waiting.get(initialize);
    if (waiting !== undefined) this.#dispatch.queue.remove(waiting.entry);
    waiting?.memory.release();
    this.#waiting.delete(initialize);
  }
}
