import type { Log } from "../../observability/log.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import type { UpstreamHandshake } from "../../upstream/port.ts";
import type { Call } from "../calls/call.ts";
import type { CallLimits } from "../calls/call-limits.ts";
import { InternalExchange, internalRequest, type OnInternalResult } from "./internal-exchange.ts";

export interface InternalCallsOptions {
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
