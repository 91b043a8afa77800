import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";

const MIB = 1024 * 1024;
/**
 * The memory of an idle sidecar with a small server, and of garbage that V8 has not collected yet. Bodies that are rejected become garbage
 * too, so a flood of them needs about 25 MB even if the budget is unused.
 */
const OVERHEAD_BYTES = 56 * MIB;
const SHARE_OF_MEMORY = 1 / 4;
const SHARE_OF_HEAP = 1 / 2;
const MIN_BYTES = 2 * MIB;
const MAX_BYTES = 256 * MIB;

/**
 * Returns the default of MEMORY_BUDGET_BYTES: a quarter of the memory above 56 MiB, at least 2 MiB and at most 256 MiB.
 *
 * @param memoryBytes the memory of the container, or else of the machine.
 * @param heapBytes the limit of V8's heap. Half of it is a limit too, which matters only if the operator has set a small heap.
 */
export function defaultBudgetBytes(memoryBytes = availableBytes(), heapBytes = getHeapStatistics().heap_size_limit): number {
  return Math.floor(Math.max(MIN_BYTES, Math.min(MAX_BYTES, (memoryBytes - OVERHEAD_BYTES) * SHARE_OF_MEMORY, heapBytes * SHARE_OF_HEAP)));
}

/** Returns the memory limit of the container, if it has one, or else the memory of the machine. */
function availableBytes(): number {
  // A container without a limit has a number above all memory, and a system without control groups 0.
  const constrainedBytes = process.constrainedMemory();
  return constrainedBytes > 0 ? Math.min(constrainedBytes, totalmem()) : totalmem();
}
