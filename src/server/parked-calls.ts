import { randomBytes } from "node:crypto";
import { decodeString } from "../json/text.ts";
import { SidecarError } from "../mcp/errors.ts";
import { type RequestMessage, Slot } from "../mcp/message.ts";
import type { MemoryHolder } from "../memory.ts";
import type { Defects } from "../observe/log.ts";
import { DeadlineSweep } from "../timers.ts";
import type { AskingExchange, Parking } from "./asking-exchange.ts";

const STATE_BYTES = 24;
/** The share of all parked calls that one client may have. */
const CLIENT_SHARE = 1 / 4;
/** The interval at which a server sees that its questions are still open. Its SDK gives up after 60 s without a sign. */
const PROGRESS_MS = 20_000;

export interface ParkedCallsOptions {
  /** For all clients. */
  readonly maxParked: number;
  /** The server processes of one client, each of which can wait for one answer at a time. One of them stays for other calls. */
  readonly maxServersPerClient: number;
  /** The time in which a client must send its next request. */
  readonly timeoutMs: number;
  /** Names this process in states. */
  readonly replica: string;
  readonly defects: Pick<Defects, "guard">;
  readonly nowMs: () => number;
}

interface Parked {
  readonly state: string;
  readonly exchange: AskingExchange;
  readonly expiresAtMs: number;
}

export interface ParkedStatus {
  readonly now: number;
  readonly expired: number;
  /** Rounds of questions that were refused because too many calls were parked. */
  readonly refused: number;
}

/** The calls whose clients were asked and have not answered. A client finds its call by the state of its last result, which is valid once. */
export class ParkedCalls implements Parking {
  readonly #options: ParkedCallsOptions;
  readonly #maxPerClient: number;
  readonly #byState = new Map<string, Parked>();
  readonly #sweep: DeadlineSweep;
  #expired = 0;
  #refused = 0;
  #isDraining = false;

  constructor(options: ParkedCallsOptions) {
    this.#options = options;
    this.#maxPerClient = Math.max(1, Math.min(Math.ceil(options.maxParked * CLIENT_SHARE), options.maxServersPerClient - 1));
    this.#sweep = new DeadlineSweep(options.nowMs, options.defects, (nowMs) => this.#onDue(nowMs));
  }

  get status(): ParkedStatus {
    return { now: this.#byState.size, expired: this.#expired, refused: this.#refused };
  }

  /** True if a client has a parked call. */
  hasAnyOf(holder: MemoryHolder): boolean {
    return this.#byState.values().some(({ exchange }) => exchange.memory.holder === holder);
  }

  add(exchange: AskingExchange): { readonly state: string } | { readonly refusal: string } {
    const { maxParked, timeoutMs, replica, nowMs } = this.#options;
    const own = this.#byState.values().filter((each) => each.exchange.memory.holder === exchange.memory.holder);
    if (this.#isDraining) return { refusal: "The sidecar is shutting down" };
    if (this.#byState.size >= maxParked || own.toArray().length >= this.#maxPerClient) {
      this.#refused++;
      return { refusal: `Too many calls wait for answers: ${maxParked} in all, ${this.#maxPerClient} of one client` };
    }
    const state = `${replica}.${randomBytes(STATE_BYTES).toString("base64url")}`;
    const atMs = nowMs();
    this.#byState.set(state, { state, exchange, expiresAtMs: atMs + timeoutMs });
    this.#sweep.watch(atMs + Math.min(timeoutMs, PROGRESS_MS));
    return { state };
  }

  remove(exchange: AskingExchange): void {
    for (const [state, parked] of this.#byState) if (parked.exchange === exchange) this.#byState.delete(state);
  }

  /** Returns the parked call of a request with a state; the error if there is none. Undefined for a request without one. */
  find(request: RequestMessage, holder: MemoryHolder): AskingExchange | SidecarError | undefined {
    const { text, outline } = request;
    const span = outline.span(Slot.repeatedState);
    if (span === undefined) return undefined;
    const state = text[span.start] === '"' ? decodeString(text, span.start, span.end) : "";
    const exchange = this.#byState.get(state)?.exchange;
    return exchange?.memory.holder === holder && exchange.isFor(request) ? exchange : this.#unknownState(state);
  }

  /** Ends the calls of a holder at the server; all by default. */
  end(reason: string, holder?: MemoryHolder): void {
    for (const parked of this.#byState.values()) {
      if (holder === undefined || parked.exchange.memory.holder === holder) this.#end(parked, reason);
    }
  }

  /** Ends all calls, and parks no more. */
  drain(): void {
    this.#isDraining = true;
    this.end("shutdown");
    this.#sweep.close();
  }

  #unknownState(state: string): SidecarError {
    const { replica } = this.#options;
    const [, other = replica] = /^([0-9a-f]{8})\./.exec(state) ?? [];
    const cause =
      other === replica
        ? "It was used before, or is of another request; or the call has ended, because of PARK_TIMEOUT_MS or of a restart of the server."
        : `Another replica has it (${other}; this one is ${replica}), or the sidecar has restarted: let a balancer send the requests of a client to one replica.`;
    const message = `This requestState belongs to no call of this client that waits for its answer here. ${cause} The call may have taken effect; check before you start it again.`;
    return new SidecarError("REQUEST_STATE_INVALID", message, { retrySafe: false });
  }

  #end({ state, exchange }: Parked, reason: string): void {
    this.#byState.delete(state);
    this.#options.defects.guard("question", () => exchange.expire(reason));
  }

  #onDue(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const parked of this.#byState.values()) {
      if (parked.expiresAtMs <= nowMs) {
        this.#expired++;
        this.#end(parked, "its client has not answered in time");
        continue;
      }
      parked.exchange.showProgress();
      nextMs = Math.min(nextMs, parked.expiresAtMs, nowMs + PROGRESS_MS);
    }
    return nextMs;
  }
}
