import { defineConfig } from "vitest/config";

// Apart from vitest.config.ts, so that `npm test` needs npm alone: `npm run test:system`.
export default defineConfig({
  test: {
    name: "system",
    include: ["test/system/**/*.test.ts"],
    pool: "forks",
    fileParallelism: false,
    // Only a hang reaches it.
    testTimeout: 300_000,
    hookTimeout: 60_000,
    expect: { poll: { interval: 20, timeout: 120_000 } },
  },
});
