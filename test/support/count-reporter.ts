import type { Reporter, TestModule } from "vitest/node";

/** Begins a run with the seed of its random tests, and ends it with a line of counts for readers who do not know Vitest. */
export default class CountReporter implements Reporter {
  readonly #seed = process.env["TEST_SEED"] ?? "";

  onInit(): void {
    process.stdout.write(`\nseed ${this.#seed}\n`);
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const module of modules) {
      // What fails a file besides its tests, such as a resource that could not be disposed of.
      if (module.state() === "failed" && [...module.children.allTests("failed")].length === 0) counts.failed++;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state !== "pending") counts[state]++;
      }
    }
    if (counts.failed > 0) process.stdout.write(`\nTEST_SEED=${this.#seed} repeats the random tests of this run\n`);
    const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : "";
    process.stdout.write(`\n${counts.passed} passed, ${counts.failed} failed${skipped}\n`);
  }
}
