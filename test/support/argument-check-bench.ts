import { Counters } from "../../src/observe/counters.ts";
import { Defects } from "../../src/observe/log.ts";
import { ArgumentCheck } from "../../src/policy/argument-check.ts";
import { RecordedLog } from "./recorded-log.ts";

/** The argument check with its real thread. */
export class ArgumentCheckBench {
  readonly log = new RecordedLog();
  givenUp = 0;
  readonly #check = new ArgumentCheck({
    log: this.log,
    defects: new Defects(this.log, new Counters()),
    onGivenUp: () => this.givenUp++,
    nowMs: () => performance.now(),
  });

  /** Returns the problems of the arguments of a call of a tool with this schema. */
  problems(inputSchema: unknown, args: unknown): Promise<readonly string[]> {
    return this.problemsOf([{ name: "tool", inputSchema }], JSON.stringify(args));
  }

  /** Returns the problems for all tools of a name, with the arguments as text. */
  problemsOf(tools: readonly { name: string; inputSchema?: unknown }[], argsText: string | undefined): Promise<readonly string[]> {
    return new Promise((resolve) => void this.#check.check({ tools, argsText, caller: this }, resolve));
  }
}
