import type { SidecarError } from "../../errors.ts";
import { shorten } from "../../json/text.ts";
import type { Counters } from "../../observability/counters.ts";
import type { Log } from "../../observability/log.ts";
import { limitedLog } from "../../observability/log-limiter.ts";
import type { Outgoing } from "../../protocol/outgoing.ts";
import type { Caller } from "../../sessions/caller.ts";
import { type ClientLine, createNotification } from "../calls/call.ts";
import type { RequestQueue } from "./request-queue.ts";

export interface ClientNotificationsOptions {
  readonly queue: RequestQueue;
  /** Sends a line to the current generation. */
  readonly send: (line: Outgoing, caller: Caller) => void;
  readonly holdTimeoutMs: number;
  readonly counters: Counters;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** The notifications of clients on their way to the server. */
export class ClientNotifications {
  readonly #options: ClientNotificationsOptions;
  readonly #log: Log;

  constructor(options: ClientNotificationsOptions) {
    this.#options = options;
    this.#log = limitedLog(options.log, options.nowMs);
  }

  /** Sends or queues a notification, after the queued requests of its caller. @returns the error if it is rejected. */
  carry(caller: Caller, text: string, method: string, describe: () => SidecarError): SidecarError | undefined {
    const { queue, send, holdTimeoutMs, counters, nowMs } = this.#options;
    const line: ClientLine = createNotification({
      caller,
      text,
      expiresAtMs: nowMs() + holdTimeoutMs,
      release: () => send(line, caller),
      refuse: () => {
        counters.dropped.clientNotifications++;
        this.#log.warn({ method: shorten(method) }, "client notification dropped: the mcp server was not ready in time");
      },
    });
    if (queue.isReady && !queue.hasEntriesOf(caller)) line.release();
    else if (!queue.add(line)) {
      line.onEmptied?.();
      return describe();
    }
    return undefined;
  }
}
