import type { SidecarError } from "../../errors.ts";
import { overloaded } from "../failures.ts";

/** Returns the error if a line may not join this many queued bytes. A single queued line may exceed the limit by itself. */
export function roomError(text: string, queuedBytes: number, maxQueuedBytes: number): SidecarError | undefined {
  const roomBytes = maxQueuedBytes - queuedBytes;
  // A UTF-16 unit has at most three bytes. The exact size is computed only if this estimate is too large.
  const hasRoom = queuedBytes === 0 || text.length * 3 <= roomBytes || Buffer.byteLength(text) <= roomBytes;
  return hasRoom ? undefined : overloaded("its input queue is full");
}
