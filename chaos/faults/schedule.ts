import type { Random } from "../random.ts";
import type { FaultKind } from "./kinds.ts";

export interface ScheduledFault {
  readonly atMs: number;
  readonly kind: FaultKind;
}

/** Plans about one fault per `gapMs`, in rounds. Each round has every kind once, in random order. There is at least one round. */
export function planFaults(kinds: readonly FaultKind[], random: Random, durationMs: number, gapMs: number): ScheduledFault[] {
  const rounds = Math.max(1, Math.floor(durationMs / (kinds.length * gapMs)));
  const order = Array.from({ length: rounds }, () => random.shuffled(kinds)).flat();
  const slotMs = durationMs / order.length;
  return order.map((kind, index) => ({ kind, atMs: (index + random.fraction()) * slotMs }));
}
