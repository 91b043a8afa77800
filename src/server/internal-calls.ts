import { findMembers } from "../json/find.ts";
import { shorten } from "../json/text.ts";
import type { SidecarError, SidecarErrorCode } from "../mcp/errors.ts";
import { readMessage, type RequestMessage } from "../mcp/message.ts";
import type { Reservation } from "../memory.ts";
import type { Reply } from "../session/session.ts";

/** The limit for the response to an internal request. The discovery client of a pod reads lists of at most 4 MiB. */
export const MAX_INTERNAL_RESULT_BYTES = 8 * 1024 * 1024;

/** In UTF-16 units. */
const MAX_ERROR_LENGTH = 500;

/** Called once with the JSON text of the result, or with the reason why there is none, and the code of the sidecar's error, if it is one. */
export type OnInternalResult = (resultText: string | undefined, reason?: string, code?: SidecarErrorCode) => void;

/** Returns an internal request. Its id is replaced when it is sent. @param meta undefined for none. */
export function internalRequest(method: string, params: object, meta?: object): RequestMessage {
  const allParams = meta === undefined ? params : { ...params, _meta: meta };
  const request = readMessage(JSON.stringify({ jsonrpc: "2.0", id: 0, method, params: allParams }));
  if (request.kind !== "request") throw new Error(`not a request: ${method}`);
  return request;
}

/** The reply of an internal request, which reports the result to a callback. */
export class InternalReply implements Reply {
  readonly idText = "0";
  readonly acceptedAtMs: number;
  readonly isListening = false;
  readonly #onFailed: (reason: string, error?: SidecarError) => void;
  readonly #onResult: OnInternalResult | undefined;

  /**
   * @param onFailed called with the reason, and the error of the sidecar, if it is one.
   */
  constructor(acceptedAtMs: number, onFailed: (reason: string, error?: SidecarError) => void, onResult?: OnInternalResult) {
    this.acceptedAtMs = acceptedAtMs;
    this.#onFailed = onFailed;
    this.#onResult = onResult;
  }

  emit(): boolean {
    return false;
  }

  keepAlive(): void {
    // No client is waiting.
  }

  respond(body: string): void {
    // The caller does not need the result. `onEnded` reports an error of the server.
    if (this.#onResult === undefined) return;
    const bytes = Buffer.byteLength(body);
    if (bytes > MAX_INTERNAL_RESULT_BYTES) {
      const reason = `the response has ${bytes} bytes, more than ${MAX_INTERNAL_RESULT_BYTES}`;
      this.#onFailed(reason);
      return this.#onResult(undefined, reason);
    }
    const [result, error] = findMembers(body, 0, ["result", "error"]).spans;
    if (result !== undefined) return this.#onResult(body.slice(result.start, result.end));
    const shown = error === undefined ? "" : `: ${shorten(body.slice(error.start, error.end), MAX_ERROR_LENGTH)}`;
    this.#onResult(undefined, `the server answered with an error${shown}`);
  }

  fail(error: SidecarError): void {
    // A failure during shutdown is expected.
    if (error.code !== "SHUTTING_DOWN") this.#onFailed(error.message, error);
    this.#onResult?.(undefined, error.message, error.code);
  }

  dismiss(): void {
    // No client is waiting.
  }

  onDisconnect(): void {
    // No client is waiting.
  }
}

/** A request that stays open. */
export interface OpenCall {
  /** Its id on the wire. */
  readonly wireId: number;
  /** Cancels it. Does nothing after its end. */
  cancel(reason: string): void;
}

/** A request that the sidecar itself sends to the server. */
export interface InternalRequest {
  readonly method: string;
  readonly params: object;
  /** Called right before the request is sent. If it returns false, the request is not sent. */
  readonly isCurrent?: () => boolean;
  readonly onEnded?: (hasResult: boolean) => void;
  /** The memory of the client that has caused the request, until its end. */
  readonly memory?: Reservation | undefined;
}
