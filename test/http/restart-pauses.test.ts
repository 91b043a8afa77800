import { describe, expect, it } from "vitest";
import { waitForGeneration } from "../support/readiness.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

const FIRST_MS = 20;
const LONGEST_MS = 400;
/** Every pause of a crash loop would be the longest one. */
const NO_CRASH_LOOP = ["--crash-loop-exits", "1000"];
/** At the level `debug`, starts that fail alike are logged too. */
const PAUSES = ["--log-level", "debug", "--restart-backoff-ms", String(FIRST_MS), "--restart-max-ms", String(LONGEST_MS), ...NO_CRASH_LOOP];

/** Returns the pauses logged so far, once there are at least this many. */
function pauses(sidecar: RunningSidecar, count: number): Promise<number[]> {
  return sidecar.waitFor(() => {
    const found = sidecar.logLines.filter((line) => line.msg === "mcp server will be restarted").map((line) => Number(line["pauseMs"]));
    return found.length >= count ? found.slice(0, count) : undefined;
  }, `${count} restarts`);
}

/** Expects pauses that double from the first to the longest. Jitter takes at most a quarter off, and nothing off the first. */
function isStreak(found: readonly number[]): boolean {
  return found.every((pauseMs, index) => {
    const fullMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** index);
    return pauseMs <= fullMs && pauseMs >= Math.max(FIRST_MS, fullMs * 0.75);
  });
}

describe("restart pauses", () => {
  it.each(["crash-loop", "exit-at-initialize"])("pauses grow up to the longest in a server's %s", async (mode) => {
    await using sidecar = await HttpBench.start({ mode, flags: PAUSES, untilReady: false });
    expect(await pauses(sidecar, 6)).toSatisfy(isStreak);
  });

  it("a generation starts when its pause is over, not before", async () => {
    await using sidecar = await HttpBench.start({ mode: "exit-at-initialize", flags: PAUSES, untilReady: false });
    await pauses(sidecar, 6);
    const time = (line: { readonly [key: string]: unknown } | undefined): number => Date.parse(String(line?.["time"]));
    const restarts = sidecar.logLines.filter((line) => line.msg === "mcp server will be restarted").slice(0, 5);
    for (const [index, restart] of restarts.entries()) {
      const started = sidecar.logLines.find((line) => line.msg === "mcp server started" && line["generation"] === index + 2);
      // Timers may fire a millisecond early, and both times are rounded.
      expect(time(started) - time(restart)).toBeGreaterThanOrEqual(Number(restart["pauseMs"]) - 2);
    }
  });

  it("pauses start over after a run that outlasted the longest pause", async () => {
    // A call that times out shows that the run has lasted this long.
    await using sidecar = await HttpBench.start({ flags: [...PAUSES, "--request-timeout-ms", String(2 * LONGEST_MS)] });
    const client = await sidecar.client();
    const exit = async (generation: number): Promise<void> => {
      await waitForGeneration(sidecar, generation);
      expect((await client.callTool("exit")).error?.data?.["code"]).toBe("UPSTREAM_EXITED");
    };
    for (const generation of [1, 2, 3]) await exit(generation);
    expect(await pauses(sidecar, 3)).toSatisfy(isStreak);

    await waitForGeneration(sidecar, 4);
    expect((await client.callTool("hang")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    for (const generation of [4, 5]) await exit(generation);
    expect((await pauses(sidecar, 5)).slice(3)).toSatisfy(isStreak);
  });
});
