import { describe, expect, it } from "vitest";
import { runInSteps } from "../../../src/timing/step-queue.ts";

/** Work of this many steps that records each of them. */
function* work(journal: string[], name: string, steps: number): Generator<undefined, string> {
  for (let step = 1; step < steps; step++) {
    journal.push(`${name}${step}`);
    yield;
  }
  journal.push(`${name}${steps}`);
  return name;
}

function* failing(journal: string[]): Generator<undefined, string> {
  journal.push("failing");
  yield;
  throw new Error("it fails");
}

function unexpected(error: unknown): never {
  throw new Error("not expected", { cause: error });
}

/** Resolves when the work has finished or failed. */
function run(journal: string[], steps: Generator<undefined, string>): Promise<void> {
  return new Promise((resolve) => {
    runInSteps(
      steps,
      (name) => {
        journal.push(`${name} done`);
        resolve();
      },
      (error) => {
        journal.push(String(error));
        resolve();
      },
    );
  });
}

describe("work in steps", () => {
  it("work begins in a later turn and takes turns with other work", async () => {
    const journal: string[] = [];
    const all = [run(journal, work(journal, "a", 3)), run(journal, work(journal, "b", 1)), run(journal, work(journal, "c", 2))];
    expect(journal).toEqual([]);
    await Promise.all(all);
    expect(journal).toEqual(["a1", "b1", "c1", "a2", "b done", "c2", "a3", "c done", "a done"]);
  });

  it("work that fails does not stop other work", async () => {
    const journal: string[] = [];
    const late = run(journal, failing(journal));
    const errors: unknown[] = [];
    runInSteps(work([], "x", 1), unexpected, (error) => errors.push(error));
    await Promise.all([late, run(journal, work(journal, "a", 3))]);
    expect(journal).toEqual(["failing", "a1", "Error: it fails", "a2", "a3", "a done"]);
    expect(errors).toMatchObject([{ message: "not expected", cause: "x" }]);
    await run(journal, work(journal, "later", 1));
    expect(journal.at(-1)).toBe("later done");
  });
});
