import { ERROR_CATALOG } from "./error-catalog/error-catalog.ts";
import type { ErrorEntry, SpecialClient } from "./error-catalog/error-entry.ts";

export type SidecarErrorCode = keyof typeof ERROR_CATALOG;

/** The details of an error besides its message. All fields are safe to show to a client. */
export interface ErrorDetails {
  /** True if any part of the request was written to the MCP server's stdin. Default: false. */
  readonly sent?: boolean;
  /** True if sending the same request again cannot repeat a side effect. Default: true if it was not sent. */
  readonly retrySafe?: boolean;
  readonly exitCode?: number;
  readonly signal?: string;
  /** The last lines that the MCP server wrote to stderr, with secrets masked. */
  readonly stderrTail?: readonly string[];
  readonly timeoutMs?: number;
  readonly limitBytes?: number | undefined;
  readonly supported?: readonly string[];
  /** The capabilities that the client must declare for this request. */
  readonly requiredCapabilities?: object;
  /** The revision that the client asked for. */
  readonly requested?: string;
  /** Also the `Retry-After` header, in whole seconds. */
  readonly retryAfterSeconds?: number;
}

type AllDetails = ErrorDetails & Required<Pick<ErrorDetails, "sent" | "retrySafe">>;

/** The `data` member of the JSON-RPC error. */
export type ErrorData = AllDetails & {
  readonly code: SidecarErrorCode;
  /** Undefined only if there is no room for it. */
  readonly action?: string;
};

export class SidecarError extends Error {
  override readonly name = "SidecarError";
  readonly code: SidecarErrorCode;
  readonly details: AllDetails;
  readonly #client: SpecialClient | undefined;

  /** @param client undefined for the usual advice. */
  constructor(code: SidecarErrorCode, message: string, details: ErrorDetails = {}, client?: SpecialClient) {
    super(message);
    this.code = code;
    this.#client = client;
    const { sent = false } = details;
    this.details = { sent, retrySafe: !sent, ...details };
  }

  /** Undefined only if MAX_RESULT_BYTES leaves no room for it. */
  get data(): ErrorData | undefined {
    return { code: this.code, action: actionOf(this.code, this.details.sent, this.#client), ...this.details };
  }
}

/** Returns the advice for the client. @param sent as in the error's details. */
export function actionOf(code: SidecarErrorCode, sent = false, client?: SpecialClient): string {
  const { action, actionIfSent = action, actionFor = {} }: ErrorEntry = ERROR_CATALOG[code];
  const special = client === undefined ? undefined : actionFor[client];
  return special ?? (sent ? actionIfSent : action);
}

/** Returns the message of any thrown value, for a log or a person. */
export function describeError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
