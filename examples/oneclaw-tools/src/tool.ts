import type { Settings } from "./settings.ts";

/** A tool as models see it. Source: "Tool Definition Format". */
export interface Definition {
  readonly name: string;
  readonly description: string;
  /** A JSON Schema of type `object`. */
  readonly parameters: { readonly type: "object"; readonly [keyword: string]: unknown };
}

/** Source: "Tool Registration Interface". */
export interface Tool extends Definition {
  readonly permissions: readonly string[];
  /** Default: 30 s, as in the source. */
  readonly timeoutMs?: number;
  /** True if the tool changes nothing. MCP clients and the sidecar use it as `readOnlyHint`. */
  readonly isReadOnly?: boolean;
  /** Returns what a call waits for instead of computing, such as a host. A thread then executes many calls at the same time. */
  readonly waitsFor?: (args: never) => string;
  /** Runs in a thread. @param args match the schema. @returns a value of JSON. @throws ToolError, or any error for a crash. */
  readonly execute: (args: never, context: Context) => unknown;
}

export interface Context {
  readonly settings: Settings;
  /** Aborts at the time limit, and when the client cancels. The thread is terminated shortly after. */
  readonly signal: AbortSignal;
}

export type ErrorType = "timeout" | "permission_denied" | "execution_error" | "validation_error";

/** Source: "Tool Result Format". */
export type ToolResult =
  | { readonly status: "success"; readonly result: unknown }
  | { readonly status: "error"; readonly error_type: ErrorType; readonly message: string };

/** An error that a model can understand. */
export class ToolError extends Error {
  readonly type: ErrorType;

  constructor(message: string, type: ErrorType = "execution_error") {
    super(message);
    this.type = type;
  }
}

export function failure(type: ErrorType, message: string): ToolResult {
  return { status: "error", error_type: type, message };
}
