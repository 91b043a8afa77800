import type { SchemaReport } from "./checker.ts";

interface AddSchema {
  readonly kind: "add";
  readonly key: string;
  readonly schemaText: string;
  /** The keys of schemas that are no longer needed. */
  readonly forget: readonly string[];
}

interface CheckArguments {
  readonly kind: "check";
  readonly keys: readonly string[];
  readonly argsText: string | undefined;
}

/** A request to the worker, which handles one at a time. */
export type CheckRequest = AddSchema | CheckArguments;

export type CheckReply =
  /** The worker can take requests. */
  | { readonly kind: "ready" }
  | { readonly kind: "added"; readonly report: SchemaReport }
  | { readonly kind: "checked"; readonly problems: readonly string[] };

/** A reply of the worker, with the CPU time that its thread has used so far. */
export type TimedReply = CheckReply & { readonly cpuMs: number };
