import { describe, it } from "vitest";
import { CONFORMANCE_0_1, CONFORMANCE_0_2, CONFORMANCE_SERVER, MODERN_CONFORMANCE_SERVER, runConformance } from "../support/conformance.ts";
import { Sidecar } from "../support/sidecar.ts";

const SERVERS = {
  "a server of 2025-11-25": CONFORMANCE_SERVER,
  "a server that rejects sessions": [...MODERN_CONFORMANCE_SERVER, "--reject-legacy"],
} as const;
/** Not scored by the suite, but the sidecar alone is responsible for them. The second one needs a tool that the other server lacks. */
const OURS = ["server-session-lifecycle", "server-sse-polling"];

// They mostly wait.
describe.concurrent.each(Object.entries(SERVERS))("the sidecar in front of %s", (_server, command) => {
  const isOfSessions = command === CONFORMANCE_SERVER;

  it("meets the requirements of 2025-11-25", async ({ expect }) => {
    await using sidecar = await Sidecar.start({ command });
    const run = await runConformance(CONFORMANCE_0_2, sidecar.url, ["--requirements", "2025-11-25"]);

    expect.soft(run.checks("FAILURE")).toEqual([]);
    expect.soft(run.scenarios).toHaveLength(33);
    // A scenario that finds nothing to check, such as a stream, does not fail either.
    const vacuous = run.scenarios.filter((scenario) => run.checks("SUCCESS", scenario).length === 0);
    const warnings = OURS.flatMap((scenario) => run.checks("WARNING", scenario));
    const flaws = { exitCode: run.exitCode, vacuous, warnings };
    expect.soft(isOfSessions ? flaws : undefined).toEqual(isOfSessions ? { exitCode: 0, vacuous: [], warnings: [] } : undefined);
  });

  it("passes every server scenario of the stable suite", async ({ expect }) => {
    // Its clients leave their sessions open, and would share a server whose first question is refused.
    await using sidecar = await Sidecar.start({ command, flags: isOfSessions ? ["--isolation", "session"] : [] });
    const run = await runConformance(CONFORMANCE_0_1, sidecar.url, ["--suite", "all"]);

    expect.soft(run.checks("FAILURE")).toEqual([]);
    expect.soft(run.scenarios).toHaveLength(32);
    expect.soft(isOfSessions ? run.exitCode : 0).toBe(0);
  });
});
