import { randomInt } from "node:crypto";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

// Variables of a developer's own sidecar would configure those of the tests.
for (const name of Object.keys(process.env)) if (name.startsWith("CLAW_MCP_STDIO_")) delete process.env[name];

// Where both are set, each Node that a test starts warns of it on stderr, which tests compare.
if (process.env["NO_COLOR"] !== undefined) delete process.env["FORCE_COLOR"];

// The tests start many Node processes: their code is compiled once.
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "node_modules/.cache/compile");

// One for all test files of a run; `TEST_SEED=7 npm test` chooses it.
process.env["TEST_SEED"] ??= String(randomInt(2 ** 31));

export default defineConfig({
  test: {
    pool: "forks",
    // A worker runs many files. To start Node and load the modules again for each file doubles the CPU time of the pure tests.
    isolate: false,
    // Tests mostly wait. With one worker for each core, the cores are idle half of the time.
    maxWorkers: 2 * availableParallelism(),
    // Of the concurrent tests of a file, which mostly wait for a time limit.
    maxConcurrency: 20,
    // Every test runs in an engine that misreads escaped names: any message could have brought it about.
    setupFiles: ["./test/support/poison.js", "./test/support/set-up.ts"],
    // What tests read as files, for `npm run watch`.
    watchTriggerPatterns: [
      { pattern: /\.md$/, testsToRun: () => ["./test/pure/documents.test.ts", "./test/pure/promises.test.ts"] },
      { pattern: /matrix\.txt$/, testsToRun: () => ["./test/server/matrix.test.ts"] },
    ],
    reporters: ["default", "./test/support/count-reporter.ts"],
    // Real processes, on a machine that may have ten times as much to do: limits that only a hang reaches.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { interval: 20, timeout: 120_000 } },
    coverage: {
      provider: "v8",
      include: ["src/**/*.ts"],
    },
    projects: [
      { extends: true, test: { name: "pure", include: ["test/pure/**/*.test.ts"] } },
      // The real lanes and routing with a simulated process and clock, and the matrix of dialects.
      { extends: true, test: { name: "server", include: ["test/server/**/*.test.ts"] } },
      // The whole sidecar in the process of the test, with real sockets.
      { extends: true, test: { name: "http", include: ["test/http/**/*.test.ts"] } },
      // What needs a process of the sidecar: its exit, its memory, its terminal.
      { extends: true, test: { name: "process", include: ["test/process/**/*.test.ts"] } },
      // Each promise of the documents, with the built program.
      { extends: true, test: { name: "end-to-end", include: ["test/end-to-end/**/*.test.ts"] } },
      { extends: true, test: { name: "interop", include: ["test/interop/**/*.test.ts"] } },
      { extends: true, test: { name: "examples", include: ["examples/**/*.test.ts"] } },
      // After all others: its short timeouts would fail servers that start beside hundreds of processes. Two runs at a time fill the cores.
      { extends: true, test: { name: "chaos", include: ["test/chaos/**/*.test.ts"], sequence: { groupOrder: 1 } } },
      // It attacks for a minute, and finishes the attack that is under way.
      { extends: true, test: { name: "hostile", include: ["test/hostile/**/*.test.ts"] } },
      // One test is a whole suite of others.
      { extends: true, test: { name: "conformance", include: ["test/conformance/**/*.test.ts"] } },
    ],
  },
});
