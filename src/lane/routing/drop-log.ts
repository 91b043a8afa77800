import type { Counters } from "../../observability/counters.ts";
import { shorten } from "../../json/text.ts";
import type { JsonRpcId, OverlongLine } from "../../protocol/message.ts";
import type { Log } from "../../observability/log.ts";
import { LogLimiter } from "../../observability/log-limiter.ts";

/** Counts and logs dropped messages. A server can cause them at any rate, so only the first of each period is logged, with the count. */
export class DropLog {
  readonly #counts: Counters["dropped"];
  readonly #log: Log;
  readonly #limiter: LogLimiter;

  constructor(log: Log, { dropped }: Counters, nowMs: () => number) {
    this.#counts = dropped;
    this.#log = log;
    this.#limiter = new LogLimiter(nowMs);
  }

  /** @param reason the reason why its request was given up; undefined if there was no such request. */
  answer(id: JsonRpcId | undefined, reason: string | undefined): void {
    const count = reason === undefined ? ++this.#counts.unknownAnswers : ++this.#counts.lateAnswers;
    if (!this.#limiter.allows()) return;
    const fields = { requestId: typeof id === "string" ? shorten(id) : id, reason, count };
    if (reason === undefined) this.#log.warn(fields, "answer dropped: no such request");
    else this.#log.info(fields, "late answer dropped");
  }

  notification(method: string): void {
    this.#log.debug({ method: shorten(method), count: ++this.#counts.notifications }, "server notification dropped");
  }

  request(method: string): void {
    this.#log.debug({ method: shorten(method), count: ++this.#counts.requests }, "server request dropped: no room to queue the answer");
  }

  /** A question of the server to a client was refused. */
  question(method: string, reason: string): void {
    if (this.#limiter.allows()) this.#log.info({ method: shorten(method), reason }, "server question refused");
  }

  overlongLine({ bytes, isForMemory }: OverlongLine, call: { readonly method: string; readonly wireId: number } | undefined): void {
    this.#counts.overlongLines++;
    if (!this.#limiter.allows()) return;
    const method = call === undefined ? undefined : shorten(call.method);
    const fields = { bytes, method, requestId: call?.wireId };
    if (isForMemory) this.#log.warn(fields, "stdout line discarded: the memory was full");
    else this.#log.warn(fields, "stdout line discarded: longer than the limit");
  }
}
