import type { SidecarError } from "../../errors.ts";
import { type Call, isSent } from "../calls/call.ts";
import type { ToolSemaphore } from "./tool-semaphore.ts";
import { overloaded, toolsNotListed, upstreamFailed, upstreamNotReady } from "../failures.ts";
import type { Retries } from "../calls/retries.ts";
import type { Effect } from "../calls/method-effects.ts";
import type { RequestQueue } from "./request-queue.ts";
import type { Upstream } from "../../upstream/port.ts";

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

  /** Returns the error for the current obstacle. @param semaphore that of the tool, if the request needed one. */
  notSent(semaphore?: ToolSemaphore, call?: Call): SidecarError {
    const { queue, maxInFlight } = this.#options;
    if (!queue.isReady) return this.notReady(call);
    const outcome = this.#outcomeOf(call);
    if (queue.isBlockedBy("tools")) return toolsNotListed(...outcome);
    if (queue.isBlockedBy("question"))
      return overloaded("its processes wait for answers of clients (CLAW_MCP_STDIO_MAX_PRIVATE_SERVERS)", ...outcome);
    if (semaphore !== undefined && semaphore.freeCount <= 0) return overloaded(semaphore.describe(), ...outcome);
    return overloaded(`${maxInFlight} in flight, ${queue.size} queued`, ...outcome);
  }

  #outcomeOf(call: Call | undefined): [sent?: boolean, effect?: Effect] {
    return call === undefined ? [] : [isSent(call), this.#options.retries.effectOf(call)];
  }
}
