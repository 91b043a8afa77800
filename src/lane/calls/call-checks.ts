import type { Defects } from "../../observability/defects.ts";
import { type Call, isSent } from "./call.ts";
import type { CallVerdict } from "./call-limits.ts";
import { internalError } from "../failures.ts";

export interface CallChecksOptions {
  /** Called for a call that may be sent. */
  readonly send: (call: Call) => void;
  /** Called for a call that gets its response from the sidecar. */
  readonly answer: (call: Call, verdict: CallVerdict) => void;
  readonly defects: Pick<Defects, "guard">;
}

/** Calls whose arguments are being checked. Each holds a slot, so there are at most MAX_IN_FLIGHT. They end like any other call. */
export class CallChecks {
  readonly #options: CallChecksOptions;
  readonly #calls = new Set<Call>();
  #bytes = 0;

  constructor(options: CallChecksOptions) {
    this.#options = options;
  }

  /** The bytes of the calls that are being checked. */
  get queuedBytes(): number {
    return this.#bytes;
  }

  /** Sends a call after its check. A call that a server may have seen was checked before, and is sent at once. */
  admit(call: Call): void {
    if (call.check === undefined || isSent(call)) this.#options.send(call);
    else this.#check(call, call.check);
  }

  #check(call: Call, check: NonNullable<Call["check"]>): void {
    const { send, answer, defects } = this.#options;
    this.#calls.add(call);
    this.#bytes += call.byteLength ?? 0;
    let isOver = false;
    const onVerdict = (verdict: CallVerdict | undefined): void => {
      isOver = true;
      this.#forget(call);
      if (verdict === undefined) send(call);
      else answer(call, verdict);
    };
    const fail = (): void => call.exchange.fail(internalError(false));
    const stop = check((verdict) => defects.guard("argument check", () => onVerdict(verdict), fail));
    if (isOver) return;
    call.stopCheck = () => {
      this.#forget(call);
      stop();
    };
  }

  #forget(call: Call): void {
    call.stopCheck = undefined;
    if (this.#calls.delete(call)) this.#bytes -= call.byteLength ?? 0;
  }

  /** Stops all checks and returns their calls. Called when the server is lost: the next generation may have other tools. */
  takeAll(): Call[] {
    const calls = [...this.#calls];
    for (const call of calls) call.stopCheck?.();
    return calls;
  }
}
