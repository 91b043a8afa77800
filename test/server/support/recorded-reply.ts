import type { SidecarError } from "../../../src/mcp/errors.ts";
import type { Reply } from "../../../src/session/session.ts";

/** A client's request that records its response, and fails a lane that answers it twice. */
export class RecordedReply implements Reply {
  readonly idText: string;
  readonly acceptedAtMs: number;
  readonly emitted: string[] = [];
  keepAliveCount = 0;
  /** The response as it was written. */
  response: string | undefined;
  error: SidecarError | undefined;
  isFinished = false;
  /** The client of a lost connection may resume the emitted messages. */
  isConnected = true;
  readonly #readsStreams: boolean;
  #onDisconnect: (() => void) | undefined;

  constructor(idText: string, acceptedAtMs: number, readsStreams = true) {
    this.idText = idText;
    this.acceptedAtMs = acceptedAtMs;
    this.#readsStreams = readsStreams;
  }

  /** Its outcome, in short: the result, or the code of the error. */
  get outcome(): unknown {
    if (this.error !== undefined) return this.error.code;
    if (this.response === undefined) return this.isFinished ? "dismissed" : undefined;
    const { result, error } = JSON.parse(this.response) as { readonly result?: unknown; readonly error?: { readonly code: number } };
    return error === undefined ? result : error.code;
  }

  get isListening(): boolean {
    return this.#readsStreams && this.isConnected && !this.isFinished;
  }

  emit(body: string): boolean {
    if (!this.#readsStreams || this.isFinished) return false;
    this.emitted.push(body);
    return true;
  }

  keepAlive(): void {
    this.keepAliveCount++;
  }

  respond(body: string): void {
    this.#finish();
    this.response = body;
  }

  fail(error: SidecarError): void {
    this.#finish();
    this.error = error;
  }

  dismiss(): void {
    this.#finish();
  }

  onDisconnect(listener: () => void): void {
    this.#onDisconnect = listener;
  }

  /** Disconnects the client for good. */
  disconnect(): void {
    this.#onDisconnect?.();
  }

  #finish(): void {
    if (this.isFinished) throw new Error(`the request ${this.idText} is answered twice`);
    this.isFinished = true;
  }
}
