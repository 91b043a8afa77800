import type { Counters, RequestEnding } from "../../observability/counters.ts";
import type { ClientCall } from "./call.ts";

/** The calls that clients wait for, queued and suspended ones included. Each is counted for its client from its beginning to its end. */
export class OpenCalls {
  readonly #counters: Counters;
  readonly #nowMs: () => number;
  #size = 0;
  #suspended = 0;
  #empty: PromiseWithResolvers<void> | undefined;

  constructor(counters: Counters, nowMs: () => number) {
    this.#counters = counters;
    this.#nowMs = nowMs;
  }

  /** The number of those that take a slot, or wait for one. */
  get size(): number {
    return this.#size - this.#suspended;
  }

  /** The number of those whose clients were asked, or whose server wants another request. */
  get suspended(): number {
    return this.#suspended;
  }

  suspend(): void {
    this.#suspended++;
  }

  continue(): void {
    this.#suspended--;
  }

  begin({ caller }: ClientCall): void {
    this.#counters.requests.accepted++;
    this.#size++;
    caller.beginCall();
  }

  end({ caller }: ClientCall, ending: RequestEnding): void {
    this.#counters.countEnding(ending);
    this.#size--;
    caller.endCall(this.#nowMs());
    if (this.#size > 0) return;
    this.#empty?.resolve();
    this.#empty = undefined;
  }

  /** Resolves when no client waits for a response. */
  whenEmpty(): Promise<void> {
    if (this.#size === 0) return Promise.resolve();
    this.#empty ??= Promise.withResolvers();
    return this.#empty.promise;
  }
}
