import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import type { OverlongLine, RequestMessage } from "../mcp/message.ts";

/** A server can cause them at any rate. */
export class DropLog {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  /** @param reason undefined if there was no such request. */
  answer(id: RequestMessage["id"] | undefined, reason: string | undefined): void {
    const { counters, limitedLog } = this.#context;
    const count = reason === undefined ? ++counters.dropped.unknownAnswers : ++counters.dropped.lateAnswers;
    const fields = { requestId: typeof id === "string" ? shorten(id) : id, reason, count };
    if (reason === undefined) limitedLog.warn(fields, "answer dropped: no such request");
    else limitedLog.info(fields, "late answer dropped");
  }

  notification(method: string): void {
    const { counters, log } = this.#context;
    log.debug({ method: shorten(method), count: ++counters.dropped.notifications }, "server notification dropped");
  }

  request(method: string): void {
    const { counters, log } = this.#context;
    log.debug({ method: shorten(method), count: ++counters.dropped.requests }, "server request dropped: no room to queue the answer");
  }

  question(method: string, reason: string): void {
    const { counters, limitedLog } = this.#context;
    counters.dropped.questions++;
    limitedLog.info({ method: shorten(method), reason }, "server question refused");
  }

  overlongLine({ bytes, isForMemory }: OverlongLine, call: { readonly method: string; readonly wireId: number } | undefined): void {
    const { counters, limitedLog } = this.#context;
    counters.dropped.overlongLines++;
    const fields = { bytes, method: call && shorten(call.method), requestId: call?.wireId };
    if (isForMemory) limitedLog.warn(fields, "stdout line discarded: the memory was full");
    else limitedLog.warn(fields, "stdout line discarded: longer than the limit");
  }
}
