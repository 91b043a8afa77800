import type { Context } from "../../../src/context.ts";
import { SidecarError } from "../../../src/mcp/errors.ts";
import type { ResponseMessage } from "../../../src/mcp/message.ts";
import { Reply } from "../../../src/session/reply.ts";

/** A client's request that records its response, and fails a lane that answers it twice. */
export class RecordedReply extends Reply {
  readonly emitted: readonly string[];
  readonly #seen: { readonly keepAliveCount: number; readonly outcome: string | SidecarError | undefined };

  constructor(context: Context, idText: string, acceptedAtMs: number, isListening = true) {
    const emitted: string[] = [];
    const seen = { keepAliveCount: 0, outcome: undefined as string | SidecarError | undefined };
    super(context, idText, acceptedAtMs, {
      isListening,
      emit: (text) => isListening && emitted.push(text) > 0,
      keepAlive: () => void seen.keepAliveCount++,
      finish: (outcome) => {
        seen.outcome = outcome ?? "dismissed";
        return typeof outcome === "string" ? outcome : outcome?.code;
      },
    });
    [this.emitted, this.#seen] = [emitted, seen];
  }

  get keepAliveCount(): number {
    return this.#seen.keepAliveCount;
  }

  get error(): SidecarError | undefined {
    const { outcome } = this.#seen;
    return outcome instanceof SidecarError ? outcome : undefined;
  }

  /** Its outcome, in short: the result, or the code of the error. */
  get outcome(): unknown {
    const { outcome } = this.#seen;
    if (outcome instanceof SidecarError) return outcome.code;
    if (outcome === undefined || outcome === "dismissed") return outcome;
    const { result, error } = JSON.parse(outcome) as { readonly result?: unknown; readonly error?: { readonly code: number } };
    return error === undefined ? result : error.code;
  }

  override respond(outcome: string | SidecarError | undefined, response?: ResponseMessage): void {
    if (this.isFinished) throw new Error(`the request ${this.idText} is answered twice`);
    super.respond(outcome, response);
  }
}
