import type { HttpBench } from "../http-bench.ts";
import type { Cell } from "./cells.ts";
import type { Changes } from "../changes.ts";
import type { MatrixClient } from "./matrix-client.ts";
import type { ScriptedServers } from "./scripted-server.ts";

export interface Run {
  readonly cell: Cell;
  readonly bench: HttpBench;
  readonly servers: ScriptedServers;
  readonly client: MatrixClient;
  readonly changes: Changes;
}

export const WORK = { name: "work", arguments: { text: "ask" } };
/** The reason of the client's cancellations. */
export const CLIENT_REASON = "not needed any more";
