import { findMembers } from "../json/find.ts";
import { shorten } from "../json/text.ts";
import type { SidecarError, SidecarErrorCode } from "../mcp/errors.ts";
import { outgoing, readMessage, type RequestMessage } from "../mcp/message.ts";
import type { Reservation } from "../memory.ts";
import type { Log } from "../observe/log.ts";
import type { UpstreamHandshake, UpstreamInput } from "../process/port.ts";
import type { Exchange } from "../session/session.ts";
import type { Call } from "./call.ts";
import type { CallLimits } from "./slots.ts";

/** The limit for the response to an internal request. The discovery client of a pod reads lists of at most 4 MiB. */
export const MAX_INTERNAL_RESULT_BYTES = 8 * 1024 * 1024;

/** In UTF-16 units. */
const MAX_ERROR_LENGTH = 500;

/** Called once with the JSON text of the result, or with the reason why there is none, and the code of the sidecar's error, if it is one. */
export type OnInternalResult = (resultText: string | undefined, reason?: string, code?: SidecarErrorCode) => void;

/** Returns an internal request. Its id is replaced when it is sent. @param meta undefined for none. */
export function internalRequest(method: string, params: object, meta?: object): RequestMessage {
  const allParams = meta === undefined ? params : { ...params, _meta: meta };
  const request = readMessage(JSON.stringify({ jsonrpc: "2.0", id: 0, method, params: allParams }));
  if (request.kind !== "request") throw new Error(`not a request: ${method}`);
  return request;
}

/** The exchange of an internal request, which reports the result to a callback. */
export class InternalExchange implements Exchange {
  readonly idText = "0";
  readonly sharedBy = 1;
  readonly acceptedAtMs: number;
  readonly isListening = false;
  readonly #onFailed: (reason: string, error?: SidecarError) => void;
  readonly #onResult: OnInternalResult | undefined;

  /**
   * @param onFailed called with the reason, and the error of the sidecar, if it is one.
   */
  constructor(acceptedAtMs: number, onFailed: (reason: string, error?: SidecarError) => void, onResult?: OnInternalResult) {
    this.acceptedAtMs = acceptedAtMs;
    this.#onFailed = onFailed;
    this.#onResult = onResult;
  }

  emit(): boolean {
    return false;
  }

  keepAlive(): void {
    // No client is waiting.
  }

  respond(body: string): void {
    // The caller does not need the result. `onSettled` reports an error of the server.
    if (this.#onResult === undefined) return;
    const bytes = Buffer.byteLength(body);
    if (bytes > MAX_INTERNAL_RESULT_BYTES) {
      const reason = `the response has ${bytes} bytes, more than ${MAX_INTERNAL_RESULT_BYTES}`;
      this.#onFailed(reason);
      return this.#onResult(undefined, reason);
    }
    const [result, error] = findMembers(body, 0, ["result", "error"]).spans;
    if (result !== undefined) return this.#onResult(body.slice(result.start, result.end));
    const shown = error === undefined ? "" : `: ${shorten(body.slice(error.start, error.end), MAX_ERROR_LENGTH)}`;
    this.#onResult(undefined, `the server answered with an error${shown}`);
  }

  fail(error: SidecarError): void {
    // A failure during shutdown is expected.
    if (error.code !== "SHUTTING_DOWN") this.#onFailed(error.message, error);
    this.#onResult?.(undefined, error.message, error.code);
  }

  dismiss(): void {
    // No client is waiting.
  }

  onDisconnect(): void {
    // No client is waiting.
  }
}

interface InternalCallsOptions {
  /** Sends or queues a request of the sidecar. @returns the call; undefined if it was rejected. */
  readonly carry: (exchange: Exchange, request: RequestMessage, onSettled: Call["onSettled"], limits?: CallLimits) => Call | undefined;
  /** Ends a call without its response. */
  readonly giveUp: (call: Call, reason: string) => void;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** A request that stays open. */
export interface OpenCall {
  /** Its id on the wire. */
  readonly wireId: number;
  /** Cancels it. Does nothing after its end. */
  cancel(reason: string): void;
}

/** The requests that the sidecar itself sends to the server. */
export class InternalCalls {
  readonly #options: InternalCallsOptions;
  /** The handshake of the current or the last generation; undefined before the first. */
  #handshake: UpstreamHandshake | undefined;

  constructor(options: InternalCallsOptions) {
    this.#options = options;
  }

  /** The handshake of the current or the last generation; undefined before the first. */
  get lastHandshake(): UpstreamHandshake | undefined {
    return this.#handshake;
  }

  onReady(handshake: UpstreamHandshake): void {
    this.#handshake = handshake;
  }

  /** Sends or queues a request. @returns the call; undefined if it was rejected. */
  ask(method: string, params: object, onSettled: Call["onSettled"], onResult?: OnInternalResult, limits?: CallLimits): Call | undefined {
    const { carry, log, nowMs } = this.#options;
    const onFailed = (reason: string): void => log.warn({ method, reason }, "internal request failed");
    const exchange = new InternalExchange(nowMs(), onFailed, onResult);
    return carry(exchange, internalRequest(method, params, this.#handshake?.requestMeta), onSettled, limits);
  }

  /** Sends a request that only shows if the server responds. */
  ping(onSettled?: () => void, limits?: CallLimits): Call | undefined {
    return this.ask(this.#handshake?.pingMethod ?? "ping", {}, onSettled, undefined, limits);
  }

  /** Sends a request that stays open for any time, such as a subscription. The next generation does not get it. */
  open(exchange: Exchange, request: RequestMessage): OpenCall {
    const { carry, giveUp } = this.#options;
    let isOpen = true;
    const call = carry(exchange, request, () => (isOpen = false), { timeoutMs: Number.POSITIVE_INFINITY });
    return {
      wireId: call?.wireId ?? Number.NaN,
      cancel(reason) {
        if (call !== undefined && isOpen) giveUp(call, reason);
      },
    };
  }
}

/** A request that the sidecar itself sends to the server. */
export interface InternalRequest {
  readonly method: string;
  readonly params: object;
  /** Called right before the request is sent. It is skipped if this returns false. */
  readonly isCurrent?: () => boolean;
  readonly onSettled?: (hasResult: boolean) => void;
  /** The memory of the client that has caused the request, until its end. */
  readonly memory?: Reservation | undefined;
}

/** The limit keeps clients' requests moving: one client may cancel a thousand subscriptions at once. */
const MAX_IN_FLIGHT = 16;

/** The queue of internal requests. Sends them in order, a few at a time. */
export class InternalRequests {
  readonly #send: (method: string, params: object, onSettled: (hasResult: boolean) => void) => void;
  #queue: InternalRequest[] = [];
  #inFlight = 0;

  constructor(send: (method: string, params: object, onSettled: (hasResult: boolean) => void) => void) {
    this.#send = send;
  }

  add(request: InternalRequest): void {
    this.#queue.push(request);
    this.#sendNext();
  }

  /** Drops all queued requests. Called when the server is lost: the next generation gets the state of that time. */
  clear(): void {
    for (const { memory } of this.#queue) memory?.release();
    this.#queue = [];
  }

  #sendNext(): void {
    while (this.#inFlight < MAX_IN_FLIGHT) {
      const request = this.#queue.shift();
      if (request === undefined) return;
      if (request.isCurrent?.() === false) {
        request.memory?.release();
        continue;
      }
      this.#inFlight++;
      this.#send(request.method, request.params, (hasResult) => {
        this.#inFlight--;
        request.memory?.release();
        request.onSettled?.(hasResult);
        this.#sendNext();
      });
    }
  }
}

/** The limit for lines in the stdin that the server has caused, such as responses to its pings. They count for no client's memory. */
const MAX_BYTES = 256 * 1024;

/** The lines that a server has caused and has not read. */
export class OwnLines {
  #bytes = 0;

  /** @returns false if the server has left too many unread. */
  send(input: UpstreamInput | undefined, text: string): boolean {
    if (input === undefined) return true;
    const byteLength = Buffer.byteLength(text);
    if (this.#bytes + byteLength > MAX_BYTES) return false;
    this.#bytes += byteLength;
    input.send({ ...outgoing(text), byteLength, onEmptied: () => (this.#bytes -= byteLength) });
    return true;
  }
}
