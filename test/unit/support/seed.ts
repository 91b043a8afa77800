/** Of the tests that draw their own cases: `TEST_SEED=7 npx vitest run …` runs the same ones again. */
export const TEST_SEED = Number(process.env["TEST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
