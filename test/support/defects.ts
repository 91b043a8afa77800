import { Counters } from "../../src/observe/record.ts";
import { Defects } from "../../src/observe/log.ts";
import { RecordedLog } from "./recorded-log.ts";

class ThrownDefects extends Defects {
  override note(_event: string, error: unknown): void {
    throw error;
  }
}

/** Makes any defect fail its test. */
export const UNGUARDED: Defects = new ThrownDefects(new RecordedLog(), new Counters());
