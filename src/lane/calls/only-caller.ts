import type { ClientCall } from "./call.ts";
import type { Dispatch } from "../dispatch.ts";

/**
 * Returns the oldest call of the only caller with calls in flight, and if it is its only call. Undefined if several callers have some, or none.
 * Undefined too if this generation has got anything of another principal: the server may still work for that one.
 */
export function findOnlyCaller({
  calls,
  hasOnePrincipal,
}: Pick<Dispatch, "calls" | "hasOnePrincipal">): { readonly call: ClientCall; readonly isOnly: boolean } | undefined {
  let oldest: ClientCall | undefined;
  let isOnly = true;
  for (const call of calls.values()) {
    if (call.origin === "sidecar" || call.state !== "written") continue;
    if (oldest !== undefined && oldest.caller !== call.caller) return undefined;
    isOnly = oldest === undefined;
    oldest ??= call;
  }
  return oldest === undefined || !hasOnePrincipal ? undefined : { call: oldest, isOnly };
}
