import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import type { OverlongLine, RequestMessage } from "../mcp/message.ts";
import { type Log, logLimiter } from "../observe/log.ts";
import type { Counters } from "../observe/record.ts";

/** A server can cause them at any rate, so only the first of each period is logged, with the count. */
export class DropLog {
  readonly #counts: Counters["dropped"];
  readonly #log: Log;
  readonly #mayLog: () => boolean;

  constructor({ counters, log, nowMs }: Context) {
    this.#counts = counters.dropped;
    this.#log = log;
    this.#mayLog = logLimiter(nowMs);
  }

  /** @param reason undefined if there was no such request. */
  answer(id: RequestMessage["id"] | undefined, reason: string | undefined): void {
    const count = reason === undefined ? ++this.#counts.unknownAnswers : ++this.#counts.lateAnswers;
    if (!this.#mayLog()) return;
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

  question(method: string, reason: string): void {
    this.#counts.questions++;
    if (this.#mayLog()) this.#log.info({ method: shorten(method), reason }, "server question refused");
  }

  overlongLine({ bytes, isForMemory }: OverlongLine, call: { readonly method: string; readonly wireId: number } | undefined): void {
    this.#counts.overlongLines++;
    if (!this.#mayLog()) return;
    const method = call === undefined ? undefined : shorten(call.method);
    const fields = { bytes, method, requestId: call?.wireId };
    if (isForMemory) this.#log.warn(fields, "stdout line discarded: the memory was full");
    else this.#log.warn(fields, "stdout line discarded: longer than the limit");
  }
}
