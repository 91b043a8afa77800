import { ArgumentCheck } from "../../src/policy/argument-check.ts";
import { contextOf } from "./context.ts";

/** The argument check with its real thread. */
export class ArgumentCheckBench {
  readonly #context = contextOf({}, { nowMs: () => performance.now() });
  readonly log = this.#context.log;
  readonly #check = new ArgumentCheck(this.#context);

  get givenUp(): number {
    return this.#context.counters.policy.argumentChecksGivenUp;
  }

  /** Returns the problems of the arguments of a call of a tool with this schema. */
  problems(inputSchema: unknown, args: unknown): Promise<readonly string[]> {
    return this.problemsOf([{ name: "tool", inputSchema }], JSON.stringify(args));
  }

  /** Returns the problems for all tools of a name, with the arguments as text. */
  problemsOf(tools: readonly { name: string; inputSchema?: unknown }[], argsText: string | undefined): Promise<readonly string[]> {
    return new Promise((resolve) => void this.#check.check(tools, argsText, this, resolve));
  }
}
