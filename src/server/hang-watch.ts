import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import type { Call } from "./call.ts";
import type { Calls } from "./calls.ts";
import type { Routing } from "./routing.ts";
import { Timer } from "../timers.ts";

/**
 * Restarts a server that is running but unresponsive. Timeouts alone never do that, because they may be due to one client's calls. After
 * HUNG_TIMEOUTS consecutive timeouts of a silent server, the sidecar sends a ping. The server is restarted if it then writes nothing to
 * stdout in time, not even an error. Any output before the end of that time shows that it is alive.
 *
 * The time is REQUEST_TIMEOUT_MS, or that of the longest call in flight: a server with one thread may not read before that call has ended.
 * It begins when the server's stdin has taken the ping, and again whenever its stdin takes something before the ping. A server that reads
 * nothing for that time, and writes nothing, is restarted too: its ping would wait for ever.
 *
 * Timeouts that count are those of clients' requests, those of the first `tools/list` of a server whose tools must be known, and those of
 * pings while the server is idle, if PING_INTERVAL_MS is set. Requests that clients give up count as one timeout, if the server has been silent
 * for REQUEST_TIMEOUT_MS. A request counts if it was sent after the server's last message and the last
 * timeout that counted. Requests that time out together thus count once.
 */
export class HangWatch {
  readonly #context: Context;
  readonly #calls: Calls;
  readonly #lane: { readonly routing: Routing };
  #isReady = false;
  /** The number of consecutive timeouts that counted. */
  #timeouts = 0;
  /** Timeouts of requests up to this `sentNumber` do not count: they were sent before the last message, or the last timeout that counted. */
  #lastIgnored = 0;
  /** The number of the last message at the last tick. */
  #messageAtTick = 0;
  /** The time at which the first of these that a client gave up was sent; undefined if there is none. */
  #abandonedSinceMs: number | undefined;
  #isPinged = false;
  readonly #tick: Timer;
  /** The end of the time of the ping that decides; undefined if there is none. */
  #probe: Timer | undefined;

  constructor(context: Context, calls: Calls, lane: { readonly routing: Routing }) {
    this.#context = context;
    this.#calls = calls;
    this.#lane = lane;
    this.#tick = new Timer(context.timers, (nowMs) => this.#pingIfIdle(nowMs));
    calls.onTimeout = (call) => this.#onTimeout(call);
    calls.onAbandoned = (call) => this.#onAbandoned(call);
  }

  onReady(nowMs: number): void {
    this.#isReady = true;
    this.#isPinged = false;
    this.#calls.lastMessageNumber = ++this.#calls.lastNumber;
    this.#tick.set(nowMs + (this.#context.config.pingIntervalMs ?? Number.POSITIVE_INFINITY));
  }

  onLost(): void {
    this.#isReady = false;
    this.#probe?.clear();
    this.#probe = undefined;
    this.#tick.clear();
  }

  /** Begins to count again if the server has sent a message since the last timeout that counted. */
  #update(): void {
    const { lastMessageNumber } = this.#calls;
    if (lastMessageNumber <= this.#lastIgnored) return;
    this.#lastIgnored = lastMessageNumber;
    this.#timeouts = 0;
    this.#abandonedSinceMs = undefined;
  }

  #onTimeout(call: Call): void {
    this.#update();
    // The timeouts of pings are counted by their interval. Other requests of the sidecar may have been delayed by those of clients, unless
    // these wait for it.
    const counts = call.kind === "client" || (call.method === "tools/list" && this.#calls.queue.blocks.has("tools"));
    if (counts && call.sentAtMs !== undefined && call.sentNumber > this.#lastIgnored) this.#count(call.method);
  }

  /**
   * Called when a client has given up a request. Clients that always do so before REQUEST_TIMEOUT_MS would hide a server that hangs: if it has
   * been silent for this time, their requests count as one timeout.
   */
  #onAbandoned({ method, sentAtMs, sentNumber }: Call): void {
    const { config, nowMs } = this.#context;
    this.#update();
    if (sentAtMs === undefined || sentNumber <= this.#lastIgnored) return;
    this.#abandonedSinceMs ??= sentAtMs;
    if (nowMs() - this.#abandonedSinceMs >= config.requestTimeoutMs) this.#count(method);
  }

  #pingIfIdle(nowMs: number): void {
    this.#tick.set(nowMs + (this.#context.config.pingIntervalMs ?? Number.POSITIVE_INFINITY));
    const { lastMessageNumber } = this.#calls;
    const isSilent = lastMessageNumber === this.#messageAtTick && !this.#lane.routing.isWaitingForClient;
    if (isSilent && this.#isPinged) this.#count("ping");
    this.#messageAtTick = lastMessageNumber;
    this.#isPinged = isSilent && this.#isReady && this.#probe === undefined && this.#calls.load.requestsInFlight === 0;
    if (this.#isPinged) this.#calls.ping();
  }

  #count(method: string): void {
    if (!this.#isReady || this.#probe !== undefined || this.#lane.routing.isWaitingForClient) return;
    this.#lastIgnored = this.#calls.lastNumber;
    this.#abandonedSinceMs = undefined;
    this.#timeouts++;
    if (this.#timeouts >= this.#context.config.hungTimeouts) this.#sendProbe(method);
  }

  /** Sends a ping, and decides when its time is over. */
  #sendProbe(method: string): void {
    const { config, nowMs, timers } = this.#context;
    const calls = this.#calls;
    const { upstream } = calls;
    const { requestTimeoutMs, hungTimeouts } = config;
    let timeMs = requestTimeoutMs;
    for (const { kind, isWritten, timeoutMs } of calls.values()) if (kind === "client" && isWritten) timeMs = Math.max(timeMs, timeoutMs);
    const call = this.#calls.ping(() => this.#endProbe(), { timeoutMs: Number.POSITIVE_INFINITY });
    if (call === undefined) return;
    const { outputs, inputs } = upstream.status();
    let [isTaken, lastInputs] = [call.isWritten, inputs];
    const probe = new Timer(timers, () => {
      const traffic = upstream.status();
      if (traffic.outputs !== outputs || traffic.isReading || this.#lane.routing.isWaitingForClient) {
        calls.lastMessageNumber = ++calls.lastNumber;
        // This also ends the probe.
        calls.giveUp(call, "no longer needed", "unread");
      } else if (!isTaken && traffic.inputs !== lastInputs) {
        lastInputs = traffic.inputs;
        probe.set(nowMs() + timeMs);
      } else {
        // The generation is restarted only once.
        this.onLost();
        const last = hungTimeouts === 1 ? "timed out" : `timed out, the last of ${hungTimeouts} timeouts in a row`;
        const silence = isTaken ? `nor for ${timeMs / 1000} s after ${call.method}` : `and no input read for ${timeMs / 1000} s`;
        upstream.restart("hung", `hung: no output while ${shorten(method)} ${last}, ${silence}`);
      }
    });
    this.#probe = probe;
    call.onEmptied = () => {
      isTaken = true;
      if (this.#probe === probe) probe.set(nowMs() + timeMs);
    };
    probe.set(nowMs() + timeMs);
  }

  #endProbe(): void {
    this.#probe?.clear();
    this.#probe = undefined;
  }
}
