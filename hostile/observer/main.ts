// The process of the observer. It is separate, so that the load of an attack on the harness does not affect its clock.

import { memoryBytes } from "../../bench/process-memory.ts";
import type { Message, Order, Watched } from "../contract.ts";
import { Bystander } from "./bystander.ts";
import { LivezWatcher } from "./livez.ts";

const MEMORY_INTERVAL_MS = 50;
const SERVED_LIMIT_MS = 15_000;
const STOP_LIMIT_MS = 25_000;

let report: (() => Promise<void>) | undefined;

process.on("message", (order: Order) => {
  const done = order.kind === "watch" ? watch(order.watched) : report?.();
  done?.catch((error: unknown) => {
    process.stderr.write(`observer: ${String(error)}\n`);
    process.exit(1);
  });
});
process.once("disconnect", () => process.exit(0));

async function watch(watched: Watched): Promise<void> {
  const bystander = await Bystander.open(watched);
  const livez = new LivezWatcher(watched.origin, watched.pid);
  let peakRssBytes = 0;
  const measuringMemory = setInterval(() => {
    const bytes = peakMemory(watched.pid);
    if (bytes === undefined) {
      bystander.giveUp();
      livez.giveUp();
    } else {
      peakRssBytes = bytes;
    }
  }, MEMORY_INTERVAL_MS);
  report = async () => {
    report = undefined;
    const isServedAfterwards = await bystander.isServed(SERVED_LIMIT_MS);
    await bystander.stop(STOP_LIMIT_MS);
    await livez.stop();
    clearInterval(measuringMemory);
    peakRssBytes = peakMemory(watched.pid) ?? peakRssBytes;
    const { gapMs, clockGapMs, requests, unanswered } = livez;
    const calls = bystander.counts();
    send({ kind: "report", report: { gapMs, clockGapMs, requests, unanswered, peakRssBytes, calls, isServedAfterwards } });
  };
  send({ kind: "watching" });
}

/** @returns the highest resident memory of the process; undefined after its exit. */
function peakMemory(pid: number): number | undefined {
  try {
    return memoryBytes(pid, "VmHWM");
  } catch {
    return undefined;
  }
}

function send(message: Message): void {
  process.send?.(message);
}
