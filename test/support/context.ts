import { readCommandLine } from "../../src/config/command-line.ts";
import { type Config, loadConfig } from "../../src/config/load.ts";
import { type Context, logsOf } from "../../src/context.ts";
import { MemoryBudget } from "../../src/memory.ts";
import { Counters, RequestRecords } from "../../src/observe/record.ts";
import { Defects, type Log, type LogFields } from "../../src/observe/log.ts";
import { Secrets } from "../../src/observe/redact.ts";

/** Returns the defaults of all options, except for these. */
export function configWith(settings: Partial<Config> = {}): Config {
  const { config } = loadConfig(readCommandLine(["--", "server"]), {});
  if (config === undefined) throw new Error("the defaults are not valid");
  return { ...config, ...settings };
}

/** Returns a context with more memory than any test needs, the clock of `Date`, which tests may replace, and a log that is kept. */
export function contextOf(settings: Partial<Config> = {}, parts: Partial<Context> = {}): Context & { readonly log: RecordedLog } {
  const log = new RecordedLog();
  const counters = parts.counters ?? new Counters();
  const defects = parts.defects ?? new Defects(parts.log ?? log, counters);
  const secrets = parts.secrets ?? new Secrets({});
  return {
    config: configWith(settings),
    counters,
    records: new RequestRecords(counters, parts.nowMs ?? Date.now, defects, secrets.redact, true),
    defects,
    memory: new MemoryBudget(Number.MAX_SAFE_INTEGER),
    secrets,
    nowMs: Date.now,
    draining: new AbortController().signal,
    kill: new AbortController().signal,
    ...logsOf(parts.log ?? log, parts.nowMs ?? Date.now),
    ...parts,
  } as Context & { readonly log: RecordedLog };
}

export interface RecordedLine {
  readonly level: keyof Log;
  readonly fields: LogFields;
  readonly message: string;
}

export class RecordedLog implements Log {
  readonly lines: RecordedLine[] = [];
  readonly debug = this.#record("debug");
  readonly info = this.#record("info");
  readonly warn = this.#record("warn");
  readonly error = this.#record("error");

  get messages(): string[] {
    return this.lines.map((line) => line.message);
  }

  #record(level: keyof Log) {
    return (fields: LogFields, message: string): void => void this.lines.push({ level, fields, message });
  }
}

class ThrownDefects extends Defects {
  override note(_event: string, error: unknown): void {
    throw error;
  }
}

/** Makes any defect fail its test. */
export const UNGUARDED: Defects = new ThrownDefects(new RecordedLog(), new Counters());
