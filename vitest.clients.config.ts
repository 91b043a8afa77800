import { join } from "node:path";
import { defineConfig } from "vitest/config";

process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "node_modules/.cache/compile");

// Apart from vitest.config.ts, because the clients have packages of their own: `npm run test:clients`.
export default defineConfig({
  test: {
    name: "clients",
    include: ["test/foreign-clients/*.test.ts"],
    pool: "forks",
    setupFiles: ["./test/foreign-clients/loopback-only.ts"],
    // Tests mostly wait for processes of their own.
    sequence: { concurrent: true },
    maxConcurrency: 2,
    testTimeout: 120_000,
    env: { MASTRA_TELEMETRY_DISABLED: "1", OPENAI_AGENTS_DISABLE_TRACING: "1", LANGSMITH_TRACING: "false" },
  },
});
