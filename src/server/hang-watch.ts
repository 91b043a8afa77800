import { shorten } from "../json/text.ts";
import type { Call } from "./call.ts";
import type { Calls } from "./calls.ts";
import { Timer } from "../timers.ts";

/**
 * Restarts a generation that runs but does not respond. Timeouts alone may be due to one client's calls. So after HUNG_TIMEOUTS in a row of
 * a silent server, it gets a ping, and is restarted if it then writes nothing in time.
 *
 * The time is REQUEST_TIMEOUT_MS, or that of the longest call in flight: a server with one thread may not read before. It begins when the
 * server has taken the ping, and again whenever it takes something before.
 *
 * Timeouts of these count: clients' requests, the first `tools/list` if the tools must be known, and pings of an idle server
 * (PING_INTERVAL_MS). Abandoned requests count as one, after REQUEST_TIMEOUT_MS of silence. A request must have been sent after the last
 * message and the last timeout that counted. So those that time out together count once.
 */
export class HangWatch {
  readonly #calls: Calls;
  #timeouts = 0;
  /** Requests up to this `sentNumber` do not count. */
  #lastIgnored = 0;
  /** No message has this number: the server was not silent for a whole interval before the first tick. */
  #messageAtTick = -1;
  /** When the first abandoned request was sent that may count. */
  #abandonedSinceMs: number | undefined;
  #isPinged = false;
  readonly #tick: Timer;
  #probe: Timer | undefined;

  constructor(calls: Calls) {
    const { context } = calls;
    this.#calls = calls;
    this.#tick = new Timer(context, (nowMs) => this.#pingIfIdle(nowMs));
    this.#setTick(context.nowMs());
  }

  end(): void {
    this.#probe?.clear();
    this.#probe = undefined;
    this.#tick.clear();
  }

  #update(): void {
    const { lastMessageNumber } = this.#calls;
    if (lastMessageNumber <= this.#lastIgnored) return;
    this.#lastIgnored = lastMessageNumber;
    this.#timeouts = 0;
    this.#abandonedSinceMs = undefined;
  }

  onTimeout(call: Call): void {
    this.#update();
    // Timeouts of pings are counted by their interval. Other requests of the sidecar may wait for those of clients, unless clients wait for
    // them.
    const counts = call.kind === "client" || (call.method === "tools/list" && this.#calls.queue.blocks.has("tools"));
    if (counts && call.sentAtMs !== undefined && call.sentNumber > this.#lastIgnored) this.#count(call.method);
  }

  /** Clients that always give up before REQUEST_TIMEOUT_MS would hide a server that hangs. */
  onAbandoned({ method, sentAtMs, sentNumber }: Call): void {
    const { config, nowMs } = this.#calls.context;
    this.#update();
    if (sentAtMs === undefined || sentNumber <= this.#lastIgnored) return;
    this.#abandonedSinceMs ??= sentAtMs;
    if (nowMs() - this.#abandonedSinceMs >= config.requestTimeoutMs) this.#count(method);
  }

  #setTick(nowMs: number): void {
    this.#tick.set(nowMs + (this.#calls.context.config.pingIntervalMs ?? Infinity));
  }

  #pingIfIdle(nowMs: number): void {
    this.#setTick(nowMs);
    const { lastMessageNumber } = this.#calls;
    const isSilent = lastMessageNumber === this.#messageAtTick && !this.#calls.isWaitingForClient();
    if (isSilent && this.#isPinged) this.#count("ping");
    this.#messageAtTick = lastMessageNumber;
    this.#isPinged = isSilent && this.#probe === undefined && this.#calls.load.requestsInFlight === 0;
    if (this.#isPinged) this.#calls.ping();
  }

  #count(method: string): void {
    if (this.#probe !== undefined || this.#calls.isWaitingForClient()) return;
    this.#lastIgnored = this.#calls.lastNumber;
    this.#abandonedSinceMs = undefined;
    this.#timeouts++;
    if (this.#timeouts >= this.#calls.context.config.hungTimeouts) this.#sendProbe(method);
  }

  #sendProbe(method: string): void {
    const calls = this.#calls;
    const { context, upstream } = calls;
    const { config, nowMs } = context;
    let timeMs = config.requestTimeoutMs;
    for (const { kind, isWritten, timeoutMs } of calls.values()) if (kind === "client" && isWritten) timeMs = Math.max(timeMs, timeoutMs);
    const onEnded = (): void => {
      this.#probe?.clear();
      this.#probe = undefined;
    };
    const call = calls.ping(onEnded, { timeoutMs: Infinity });
    if (call === undefined) return;
    const { outputs, inputs } = upstream.status();
    let [isTaken, lastInputs] = [call.isWritten, inputs];
    const probe = new Timer(context, () => {
      const traffic = upstream.status();
      if (traffic.outputs !== outputs || traffic.isReading || calls.isWaitingForClient()) {
        calls.lastMessageNumber = ++calls.lastNumber;
        // This also ends the probe.
        calls.giveUp(call, "no longer needed", "unread");
      } else if (!isTaken && traffic.inputs !== lastInputs) {
        lastInputs = traffic.inputs;
        probe.set(nowMs() + timeMs);
      } else {
        // The probe stays, so that the generation is restarted only once.
        const last = config.hungTimeouts === 1 ? "timed out" : `timed out, the last of ${config.hungTimeouts} timeouts in a row`;
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
}
