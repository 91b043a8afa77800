import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** A finished turn may hold an object for some time, such as a compilation that runs in another thread. A leak holds it for good. */
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
