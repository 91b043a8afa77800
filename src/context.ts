import type { Config } from "./config/load.ts";
import { MemoryBudget } from "./memory.ts";
import { Counters, RequestRecords } from "./observe/record.ts";
import { Defects, limitedLog, limitedRequestLog, type Log, type LogFields, withFields } from "./observe/log.ts";
import type { Secrets } from "./observe/redact.ts";

/** Made once, and the first argument of each part. */
export interface Context {
  readonly config: Config;
  readonly log: Log;
  readonly limitedLog: Log;
  readonly limitedRequestLog: Log;
  readonly counters: Counters;
  readonly records: RequestRecords;
  readonly defects: Defects;
  readonly memory: MemoryBudget;
  readonly secrets: Secrets;
  readonly nowMs: () => number;
  /** Aborted when the drain begins: new requests are rejected from then on. */
  readonly draining: AbortSignal;
  /** Aborted when all processes must end at once. */
  readonly kill: AbortSignal;
}

export function createContext(config: Config, log: Log, secrets: Secrets, draining: AbortSignal, kill: AbortSignal): Context {
  const counters = new Counters();
  const defects = new Defects(log, counters);
  const memory = new MemoryBudget(config.memoryBudgetBytes);
  const nowMs = performance.now.bind(performance);
  const records = new RequestRecords(counters, nowMs, defects, secrets.redact, config.metrics);
  return { config, ...logsOf(log, nowMs), counters, records, defects, memory, secrets, nowMs, draining, kill };
}

export function logsOf(log: Log, nowMs: () => number): Pick<Context, "log" | "limitedLog" | "limitedRequestLog"> {
  return { log, limitedLog: limitedLog(log, nowMs), limitedRequestLog: limitedRequestLog(log, nowMs) };
}

export function onDrain({ draining, defects }: Context, event: string, handle: () => void): void {
  draining.addEventListener("abort", () => defects.guard(event, handle));
}

export function contextWith(context: Context, fields: LogFields): Context {
  const log = withFields(context.log, fields);
  return { ...context, ...logsOf(log, context.nowMs), defects: new Defects(log, context.counters) };
}
