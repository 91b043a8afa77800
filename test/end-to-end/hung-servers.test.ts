import { describe, expect } from "vitest";
import { QUICK_RESTART, crash, readWhere, timeoutFlags } from "../support/fixture-server.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { readReadiness } from "../support/status.ts";
import { groupMembers, isAlive, Sidecar } from "../support/sidecar.ts";
import { proves } from "./proves.ts";

describe("a server that does not respond", async () => {
  const limits = ["--hung-timeouts", "1", ...timeoutFlags(1500)];
  const sidecar = disposeAfterAll(await Sidecar.start({ flags: [...QUICK_RESTART, ...limits] }));
  const client = await sidecar.client();

  proves("calls do not restart a server that answers pings", async () => {
    // The second one ends after the time of the ping that follows the first one.
    for (let times = 0; times < 2; times++) expect((await client.callTool("hang")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    expect(JSON.parse(await client.toolText("seen"))).toContain("ping");
    expect((await readReadiness(sidecar)).generation).toBe(1);
  });

  proves("a hung server is restarted", async () => {
    const { childPid } = sidecar;
    process.kill(childPid, "SIGSTOP");
    expect((await client.callTool("hang")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    const call = await client.callTool("echo");
    // Only SIGKILL ends a stopped process, and it has not been sent yet.
    expect(isAlive(childPid)).toBe(true);
    expect(call.error?.data).toMatchObject({ code: "UPSTREAM_EXITED", sent: true });
    expect(call.error?.message).toContain("(hung: no output while ");
    expect(await sidecar.waitForLog("mcp server exited")).toMatchObject({ kind: "hung", childPid });
    expect((await readWhere(client)).pid).not.toBe(childPid);
  });
});

describe("a server with children", () => {
  proves("the whole process group ends", async () => {
    // A child of the server ignores SIGTERM.
    await using sidecar = await Sidecar.start({ mode: "grandchild-stubborn", flags: QUICK_RESTART });
    const first = groupMembers(sidecar.childPid);
    expect(first.length).toBeGreaterThan(1);
    await crash(sidecar);
    await sidecar.waitForLog("mcp server started", ({ generation }) => generation === 2);
    expect(first.filter(isAlive)).toEqual([]);
    await sidecar.waitForLog("mcp server ready", ({ generation }) => generation === 2);
    const second = groupMembers(sidecar.childPid);
    expect(second.length).toBeGreaterThan(1);
    expect(await sidecar.stop()).toBe(0);
    expect(second.filter(isAlive)).toEqual([]);
  });
});
