import { expect, it, vi } from "vitest";
import { type Era, ERAS, Life } from "../support/fuzz/life.ts";
import { Violation } from "../support/fuzz/model.ts";
import { Random } from "../../chaos/random.ts";
import { SEED } from "../support/set-up.ts";

const STEPS = Number(process.env["FUZZ_STEPS"] ?? 15_000);
const MAX_LENGTH = 600;
/** The attempts to find fewer steps with the same failure. */
const MAX_ATTEMPTS = 200;
const FAKE = ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date", "performance"] as const;
const realRandom = Math.random;

/** @returns the failure, and the life that it ended; undefined if there is none. */
async function live(era: Era, seed: number, steps: readonly number[]): Promise<{ life: Life; error: Error } | undefined> {
  vi.useFakeTimers({ now: 0, toFake: [...FAKE] });
  const random = new Random(seed);
  Math.random = () => random.fraction();
  const life = new Life(era, seed);
  try {
    await life.run(steps);
    return undefined;
  } catch (error) {
    return { life, error: error as Error };
  } finally {
    vi.useRealTimers();
    Math.random = realRandom;
  }
}

/** Leaves out steps that the failure does not need. Each step has random numbers of its own, so the others stay as they are. */
async function shrink(era: Era, seed: number, steps: readonly number[], message: string): Promise<readonly number[]> {
  const kindOf = (text: string): string => text.replace(/[\d{].*/s, "");
  let needed = steps;
  let attempts = 0;
  for (let size = Math.ceil(needed.length / 2); size >= 1 && attempts < MAX_ATTEMPTS; size = Math.floor(size / 2)) {
    for (let start = 0; start < needed.length && attempts < MAX_ATTEMPTS; attempts++) {
      const fewer = needed.toSpliced(start, size);
      const failed = await live(era, seed, fewer);
      if (failed !== undefined && kindOf(failed.error.message) === kindOf(message)) needed = fewer;
      else start += size;
    }
  }
  return needed;
}

async function describeFailure(era: Era, seed: number, steps: readonly number[], first: { life: Life; error: Error }): Promise<string> {
  const needed = await shrink(era, seed, steps, first.error.message);
  const { life, error } = (await live(era, seed, needed)) ?? first;
  const tag = error instanceof Violation ? error.tag : undefined;
  const show = (events: Life["events"]): string => events.map(({ step, text }) => `\n  ${step}: ${text.slice(0, 300)}`).join("");
  const own = life.events.filter((event) => tag !== undefined && event.tag === tag);
  const reason = error instanceof Violation ? error.message : error.stack;
  return `TEST_SEED=${SEED}, life ${seed}, step ${steps.at(-1)}: ${first.error.message}
With these steps only: ${needed.join(" ")}: ${reason}
Request ${tag}:${show(own.slice(-40))}
Last:${show(life.events.slice(-40))}`;
}

/** A sidecar with random clients and servers, step by step. Each life ends with the end of the sidecar, of which nothing may be left. */
it.each(ERAS.map((era) => [`server ${era.server}, ${era.clients}`, era] as const))("ends each request once: %s", async (_name, era) => {
  const random = new Random(SEED, ERAS.indexOf(era));
  for (let done = 0; done < STEPS / ERAS.length;) {
    const seed = random.below(2 ** 31);
    const steps = Array.from({ length: 1 + random.below(MAX_LENGTH) }, (_, step) => step);
    const failed = await live(era, seed, steps);
    const lived = steps.filter((step) => step <= (failed?.life.events.at(-1)?.step ?? 0));
    expect(failed && (await describeFailure(era, seed, lived, failed)), `after ${done} steps`).toBeUndefined();
    done += steps.length;
  }
});
