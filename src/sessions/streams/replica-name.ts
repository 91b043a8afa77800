import { randomBytes } from "node:crypto";

/** Returns a name for this process: 8 hexadecimal digits. A replica has another one after each restart. */
export function newReplicaName(): string {
  return randomBytes(4).toString("hex");
}
