import type { Context } from "../../../src/context.ts";
import { SidecarError } from "../../../src/mcp/errors.ts";
import type { ResponseMessage } from "../../../src/mcp/message.ts";
import { Reply, type ReplyTarget } from "../../../src/session/reply.ts";

/** Records what the client of one request gets. */
class RecordingTarget implements ReplyTarget {
  readonly httpStatus = 200;
  readonly emitted: string[] = [];
  keepAliveCount = 0;
  /** The response as it was written, or the error. */
  outcome: string | SidecarError | undefined;
  isFinished = false;
  readonly isListening: boolean;

  /** @param isListening true if the client accepts a stream. */
  constructor(isListening: boolean) {
    this.isListening = isListening;
  }

  emit(text: string): boolean {
    if (this.isListening) this.emitted.push(text);
    return this.isListening;
  }

  keepAlive(): void {
    this.keepAliveCount++;
  }

  finish(outcome: string | SidecarError | undefined): string | undefined {
    this.isFinished = true;
    this.outcome = outcome;
    return outcome instanceof SidecarError ? outcome.code : outcome;
  }
}

/** A client's request that records its response, and fails a lane that answers it twice. */
export class RecordedReply extends Reply {
  readonly #recorded: RecordingTarget;

  constructor(context: Context, idText: string, acceptedAtMs: number, readsStreams = true) {
    const recorded = new RecordingTarget(readsStreams);
    super(context, recorded, idText, acceptedAtMs);
    this.#recorded = recorded;
  }

  get emitted(): readonly string[] {
    return this.#recorded.emitted;
  }

  get keepAliveCount(): number {
    return this.#recorded.keepAliveCount;
  }

  /** The response as it was written. */
  get response(): string | undefined {
    const { outcome } = this.#recorded;
    return typeof outcome === "string" ? outcome : undefined;
  }

  get error(): SidecarError | undefined {
    const { outcome } = this.#recorded;
    return outcome instanceof SidecarError ? outcome : undefined;
  }

  /** Its outcome, in short: the result, or the code of the error. */
  get outcome(): unknown {
    if (this.error !== undefined) return this.error.code;
    if (this.response === undefined) return this.#recorded.isFinished ? "dismissed" : undefined;
    const { result, error } = JSON.parse(this.response) as { readonly result?: unknown; readonly error?: { readonly code: number } };
    return error === undefined ? result : error.code;
  }

  override respond(text: string, response?: ResponseMessage): void {
    this.#check();
    super.respond(text, response);
  }

  override fail(error: SidecarError): void {
    this.#check();
    super.fail(error);
  }

  override refuse(error: SidecarError): void {
    this.#check();
    super.refuse(error);
  }

  override dismiss(): void {
    this.#check();
    super.dismiss();
  }

  #check(): void {
    if (this.isFinished) throw new Error(`the request ${this.idText} is answered twice`);
  }
}
