import type { MemoryBudget } from "../../memory/memory-budget.ts";
import type { Counters } from "../../observability/counters.ts";
import type { Defects } from "../../observability/defects.ts";
import type { Log } from "../../observability/log.ts";
import { CutOffLog } from "./cut-off-log.ts";
import { UnreadOutput } from "./unread-output.ts";

export interface OutputOptions {
  readonly memory: MemoryBudget;
  readonly counters: Counters;
  readonly log: Log;
  readonly defects: Defects;
  readonly nowMs: () => number;
}

/** Creates the count of unread responses. Slow readers are cut off if memory is short. */
export function createUnreadOutput({ memory, counters, log, defects, nowMs }: OutputOptions): UnreadOutput {
  const cutOffs = new CutOffLog(counters, log, nowMs);
  const onCut = (unreadLength: number): void => cutOffs.add(unreadLength, "the memory budget is used up");
  const unread = new UnreadOutput({ defects, nowMs, relieve: () => memory.relieve(), onCut });
  memory.addRelief((bytes) => unread.cutOffSlow(bytes));
  memory.addLastRelief((bytes) => unread.cutOffReading(bytes));
  return unread;
}
