import { describe, expect, it } from "vitest";
import { LaneClient } from "../support/lane-client.ts";
import { groupEnd } from "../support/process-end.ts";
import { isGroupAlive, type LogLine, Sidecar } from "../support/sidecar.ts";

function startedPids(lines: readonly LogLine[]): number[] {
  return lines.filter(({ msg }) => msg === "mcp server started").map((line) => Number(line["childPid"]));
}

describe("a killed sidecar", () => {
  it("neither the shared server nor private ones survive, even with calls in flight", async () => {
    await using sidecar = await Sidecar.start();
    const shared = await sidecar.client();
    const clients = await Promise.all(Array.from({ length: 3 }, () => LaneClient.connect(sidecar)));
    const calls = [shared, ...clients].map((client) => client.callTool("wait_for_file", { path: "/never" }).catch(String));
    await sidecar.waitFor(
      () => (sidecar.logLines.filter(({ msg }) => msg === "waiting for /never").length === 4 ? true : undefined),
      "four calls in flight",
    );
    const pids = startedPids(sidecar.logLines);
    expect(pids).toHaveLength(4);
    await sidecar.stop("SIGKILL");
    for (const pid of pids) await groupEnd(pid);
    expect(pids.filter(isGroupAlive)).toEqual([]);
    for (const call of await Promise.all(calls)) expect(call).toEqual(expect.any(String));
  });

  it("a server that was starting does not survive", async () => {
    await using sidecar = await Sidecar.start({ mode: "silent", untilReady: false });
    await sidecar.waitForLog("mcp server started");
    await sidecar.stop("SIGKILL");
    await groupEnd(sidecar.childPid);
    expect(isGroupAlive(sidecar.childPid)).toBe(false);
  });
});
