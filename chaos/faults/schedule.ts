import type { Random } from "../random.ts";
import type { FaultKind } from "./kinds.ts";

export interface ScheduledFault {
  readonly atMs: number;
  readonly kind: FaultKind;
}

/** One fault about every `gapMs`: every kind once before any comes again, in an order of its own each time; and all of them at least once. */
export function planFaults(kinds: readonly FaultKind[], random: Random, durationMs: number, gapMs: number): ScheduledFault[] {
  const rounds = Math.max(1, Math.floor(durationMs / (kinds.length * gapMs)));
  const order = Array.from({ length: rounds }, () => random.shuffled(kinds)).flat();
  const slotMs = durationMs / order.length;
  return order.map((kind, index) => ({ kind, atMs: (index + random.fraction()) * slotMs }));
}
