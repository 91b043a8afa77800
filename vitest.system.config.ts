import { defineConfig } from "vitest/config";

// Apart from vitest.config.ts, so that `npm test` needs npm alone: `npm run test:system`.
export default defineConfig({
  test: {
    name: "system",
    include: ["test/system/**/*.test.ts"],
    pool: "forks",
    fileParallelism: false,
    // Some alerts fire after a minute.
    testTimeout: 240_000,
    hookTimeout: 60_000,
  },
});
