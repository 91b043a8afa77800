import type { Log, LogFields } from "../../src/observability/log.ts";

export interface RecordedLine {
  readonly level: keyof Log;
  readonly fields: LogFields;
  readonly message: string;
}

/** Records log entries, in order. */
export class RecordedLog implements Log {
  readonly lines: RecordedLine[] = [];

  debug(fields: LogFields, message: string): void {
    this.lines.push({ level: "debug", fields, message });
  }

  info(fields: LogFields, message: string): void {
    this.lines.push({ level: "info", fields, message });
  }

  warn(fields: LogFields, message: string): void {
    this.lines.push({ level: "warn", fields, message });
  }

  error(fields: LogFields, message: string): void {
    this.lines.push({ level: "error", fields, message });
  }

  get messages(): string[] {
    return this.lines.map((line) => line.message);
  }
}
