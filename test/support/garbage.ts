import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** On a busy machine, one collection has once left an object that nothing holds. A leak is left by all of them. */
const MAX_COLLECTIONS = 20;

/** Returns the number of these objects in memory after garbage collections. The caller must not hold them while it awaits this. */
export async function countAlive(refs: readonly WeakRef<object>[]): Promise<number> {
  let alive = refs.length;
  for (let collections = 0; alive > 0 && collections < MAX_COLLECTIONS; collections++) {
    // WeakRef targets that were read in this turn stay alive until its end.
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    alive = refs.filter((ref) => ref.deref() !== undefined).length;
  }
  return alive;
}
