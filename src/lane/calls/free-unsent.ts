import type { MemoryHolder } from "../../memory/memory-budget.ts";
import { outOfMemory } from "../failures.ts";
import type { RequestQueue } from "../queue/request-queue.ts";
import { type ClientCall, isSent } from "./call.ts";
import type { CallTable } from "./call-table.ts";

/** Rejects requests of a client that were not sent, the newest first, until this much memory is free. @returns the bytes that are free. */
export function freeUnsent(calls: CallTable, queue: RequestQueue, bytes: number, holder: MemoryHolder): number {
  const error = outOfMemory("The memory of this client is needed for others.");
  let freeBytes = 0;
  for (const { held } of [...queue.entries].toReversed()) {
    if (freeBytes >= bytes) break;
    if (held?.holder !== holder) continue;
    freeBytes += held.memory.bytes;
    held.fail(error);
  }
  const unsent = [...calls.values()].filter(
    (call): call is ClientCall => call.origin === "client" && call.caller.memory.holder === holder && !isSent(call),
  );
  for (const call of unsent.toReversed()) {
    if (freeBytes >= bytes) break;
    freeBytes += call.memory?.bytes ?? 0;
    calls.giveUp(call, "room in the memory budget", error);
  }
  return freeBytes;
}
