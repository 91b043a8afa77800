import { defineConfig } from "vitest/config";

// Apart from vitest.config.ts, so that `npm test` needs no container engine: `npm run test:image`.
export default defineConfig({
  test: {
    name: "image",
    include: ["test/image/**/*.test.ts"],
    pool: "forks",
    // One test takes the time, and all of them ask one engine.
    fileParallelism: false,
    // npx downloads its server first, and other tests run beside these. Only a hang reaches it.
    testTimeout: 300_000,
  },
});
