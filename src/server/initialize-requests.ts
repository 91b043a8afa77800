import type { Context } from "../context.ts";
import type { SidecarError } from "../mcp/errors.ts";
import type { RequestMessage, ResponseMessage } from "../mcp/message.ts";
import { responseToClient } from "../mcp/rewrite.ts";
import { refusesRevision } from "../mcp/versions.ts";
import type { MemoryAccount, Reservation } from "../memory.ts";
import type { RequestEnding } from "../observe/counters.ts";
import type { Reply } from "../session/session.ts";
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
  /** True if it was refused by one server, and goes to another. It counts once. */
  readonly isRepeated: boolean;
  /** Called if the server refuses it. */
  readonly onRefused: (refusal: InitializeRefusal) => void;
  /** Called if no session is created. */
  readonly onFailed: () => void;
}

/** The error of a server to an `initialize`. One of the functions must be called. */
export interface InitializeRefusal {
  /** True if the server speaks other revisions only. */
  readonly refusesRevision: boolean;
  /** Gives the client the server's error. */
  readonly answer: () => void;
  readonly fail: (error: SidecarError) => void;
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
      if (!initialize.isRepeated) counters.requests.accepted++;
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
    if (!initialize.isRepeated) {
      counters.requests.accepted++;
      counters.requests.held++;
    }
    this.#waiting.set(initialize, { entry, memory });
    reply.onDisconnect(() => {
      this.#end(initialize, "unread");
      initialize.onFailed();
    });
  }

  /** Answers all waiting requests with the server's error, because it would reject the next one too. */
  onRefused(response: ResponseMessage): void {
    for (const initialize of this.#waiting.keys()) {
      const { reply, onRefused, onFailed } = initialize;
      const end = (ending: RequestEnding): void => this.#context.counters.countEnding(ending);
      const refusal: InitializeRefusal = {
        refusesRevision: refusesRevision(response),
        answer: () => {
          end("errors");
          reply.respond(responseToClient(response, reply.idText));
        },
        fail: (error) => {
          end(error.code);
          reply.fail(error);
        },
      };
      this.#forget(initialize);
      onRefused(refusal);
      onFailed();
    }
  }

  /** Fails all waiting requests. */
  failAll(error: SidecarError): void {
    for (const initialize of this.#waiting.keys()) this.#fail(initialize, error);
  }

  #answer(initialize: InitializeRequest): void {
    const dispatch = this.#dispatch;
    const { counters, defects } = this.#context;
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
    counters.countEnding("results");
    reply.respond(body);
  }

  #fail(initialize: InitializeRequest, error: SidecarError): void {
    this.#end(initialize, error.code);
    initialize.reply.fail(error);
    initialize.onFailed();
  }

  #refuse(initialize: InitializeRequest, error: SidecarError): void {
    if (initialize.isRepeated) return this.#fail(initialize, error);
    this.#dispatch.refuse(initialize.reply, error);
    initialize.onFailed();
  }

  #end(initialize: InitializeRequest, ending: RequestEnding): void {
    this.#forget(initialize);
    this.#context.counters.countEnding(ending);
  }

  #forget(initialize: InitializeRequest): void {
    const waiting = this.#waiting.get(initialize);
    if (waiting !== undefined) this.#dispatch.queue.remove(waiting.entry);
    waiting?.memory.release();
    this.#waiting.delete(initialize);
  }
}
