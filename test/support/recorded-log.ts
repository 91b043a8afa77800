import type { Log, LogFields } from "../../src/observe/log.ts";

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
