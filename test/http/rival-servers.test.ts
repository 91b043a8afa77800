import { describe, expect, it } from "vitest";
import { ASKABLE, initializeRequest, McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

/** A server has finished its start when the one that it has ended is restarted. */
const RESTARTS = ["--restart-backoff-ms", "200", "--restart-max-ms", "200"];
const WARNING = "mcp servers end each other";

/** Starts a sidecar whose servers each end the one that was started before. */
function startSole(directory: TempDir, flags: readonly string[] = []): Promise<RunningSidecar> {
  const env = { FIXTURE_PID_FILE: directory.file("pid") };
  return HttpBench.start({ mode: "sole-instance", env, flags: [...RESTARTS, ...flags] });
}

describe("a command that can run only once", () => {
  it.each([
    { isolation: "auto", capabilities: ASKABLE },
    { isolation: "session", capabilities: {} },
  ])("the log names the remedy if its servers end each other: $isolation", async ({ isolation, capabilities }) => {
    await using directory = await TempDir.create();
    await using sidecar = await startSole(directory, ["--isolation", isolation]);
    expect((await new McpClient(sidecar.url).post(initializeRequest(capabilities))).status).toBe(200);
    const warning = await sidecar.waitForLog(WARNING);
    expect(warning).toMatchObject({ level: "warn", count: 6, reason: expect.stringContaining("set ISOLATION=shared") as string });
  });
});
