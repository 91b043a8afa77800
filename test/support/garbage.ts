import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** Returns the number of these objects in memory after garbage collection. The caller must not hold them while it awaits this. */
export async function countAlive(refs: readonly WeakRef<object>[]): Promise<number> {
  // WeakRef targets that were read in this turn stay alive until its end.
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
  return refs.filter((ref) => ref.deref() !== undefined).length;
}
