import type { ClientCall } from "./call.ts";
import type { CallTable } from "./call-table.ts";

/** Returns the oldest call of the only caller with calls in flight, and if it is its only call. Undefined if several callers have some, or none. */
export function findOnlyCaller(calls: CallTable): { readonly call: ClientCall; readonly isOnly: boolean } | undefined {
  let oldest: ClientCall | undefined;
  let isOnly = true;
  for (const call of calls.values()) {
    if (call.origin === "sidecar" || call.state !== "written") continue;
    if (oldest !== undefined && oldest.caller !== call.caller) return undefined;
    isOnly = oldest === undefined;
    oldest ??= call;
  }
  return oldest === undefined ? undefined : { call: oldest, isOnly };
}
