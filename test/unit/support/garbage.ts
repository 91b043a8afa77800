import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
export const collectGarbage = runInNewContext("gc") as () => void;

/** How many of these are still in memory, once all that nobody holds has been collected. To be awaited where nothing holds them itself. */
export async function countAlive(refs: readonly WeakRef<object>[]): Promise<number> {
  // What was looked at in this turn is held until its end.
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
  return refs.filter((ref) => ref.deref() !== undefined).length;
}
