import type { SidecarError } from "../errors.ts";
import { type Call, isSent } from "./call.ts";
import type { ToolSemaphore } from "./tool-semaphore.ts";
import { overloaded, toolsNotListed, upstreamFailed, upstreamNotReady } from "./failures.ts";
import type { Retries } from "./retries.ts";
import type { Effect } from "./retry-safety.ts";
import type { RequestQueue } from "./request-queue.ts";
import type { Upstream } from "../upstream/port.ts";

export interface QueueTimeoutErrorsOptions {
  readonly upstream: Upstream;
  readonly queue: RequestQueue;
  readonly retries: Retries;
  readonly maxInFlight: number;
}

/** The errors of requests that could not be sent in time. `call` is undefined for a request that was never queued. */
export class QueueTimeoutErrors {
  readonly #options: QueueTimeoutErrorsOptions;

  constructor(options: QueueTimeoutErrorsOptions) {
    this.#options = options;
  }

  /** Returns the error for a server that is not ready. */
  notReady(call?: Call): SidecarError {
    const status = this.#options.upstream.status();
    const describe = status.state === "failed" ? upstreamFailed : upstreamNotReady;
    return describe(status, Date.now(), ...this.#outcomeOf(call));
  }

  /** Returns the error for the current obstacle. @param slots the tool's slots that the request needed. */
  notSent(slots?: CallSlots, call?: Call): SidecarError {
    const { turns, maxInFlight } = this.#options;
    if (!turns.isReady) return this.notReady(call);
    const fate = this.#fateOf(call);
    if (turns.areSlotsClosed) return toolsNotListed(...fate);
    if (slots !== undefined && slots.freeCount <= 0) return overloaded(slots.describe(), ...fate);
    return overloaded(`${maxInFlight} in flight, ${turns.size} queued`, ...fate);
  }

  #outcomeOf(call: Call | undefined): [sent?: boolean, effect?: Effect] {
    return call === undefined ? [] : [isSent(call), this.#options.retries.effectOf(call)];
  }
}
