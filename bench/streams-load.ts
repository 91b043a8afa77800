// The load of many sessions, each with one idle GET stream, and its cost in memory and time.

import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { EventListener } from "./event-listener.ts";
import { HttpConnection } from "./http-connection.ts";
import type { StreamsConfig, StreamsResult } from "./load-contract.ts";
import { McpSession } from "./mcp-session.ts";
import { memoryBytes } from "./process-memory.ts";
import { median } from "./statistics.ts";
import { changeListCall } from "./tool-calls.ts";

/** Time between a change and the measurement of the memory. */
const SETTLE_MS = 1000;
const BROADCAST_DEADLINE_MS = 10_000;
const LIST_CHANGED = '"notifications/tools/list_changed"';

interface Listening {
  session: McpSession;
  listener: EventListener;
}

export async function runStreams(config: StreamsConfig): Promise<StreamsResult> {
  const { port, pid, streams, broadcasts } = config;
  const connection = new HttpConnection(port);
  const beforeBytes = memoryBytes(pid, "VmRSS");
  const all: Listening[] = [];
  for (let opened = 0; opened < streams; opened += 1) {
    const session = await McpSession.open(connection, config);
    all.push({ session, listener: await EventListener.open(port, session.get(), LIST_CHANGED) });
  }
  await sleep(SETTLE_MS);
  const openBytes = memoryBytes(pid, "VmRSS");
  const broadcastTimes: number[] = [];
  for (let id = 1; id <= broadcasts; id += 1) broadcastTimes.push(await broadcast(all, connection, id));
  for (const { listener } of all) listener.close();
  for (const { session } of all) await session.close(connection);
  connection.close();
  await sleep(SETTLE_MS);
  return { beforeBytes, openBytes, closedBytes: memoryBytes(pid, "VmRSS"), broadcastMs: median(broadcastTimes) };
}

/** Causes a broadcast. @returns the time until its arrival on the last stream, in milliseconds. */
async function broadcast(all: readonly Listening[], connection: HttpConnection, id: number): Promise<number> {
  const [sender] = all;
  if (sender === undefined) throw new Error("no streams");
  let missing = all.length;
  const arrivals = all.map(async ({ listener }) => {
    await listener.next();
    missing -= 1;
  });
  const startedAtMs = performance.now();
  const answered = connection.exchange(sender.session.post(changeListCall(id)));
  const deadline = sleep(BROADCAST_DEADLINE_MS, null, { ref: false }).then(() => {
    throw new Error(`${missing} of ${all.length} streams did not get the broadcast`);
  });
  await Promise.race([Promise.all(arrivals), deadline]);
  const elapsedMs = performance.now() - startedAtMs;
  await answered;
  return elapsedMs;
}
