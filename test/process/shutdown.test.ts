import { describe, expect, it } from "vitest";
import { Gate, NO_RESTART } from "../support/fixture-server.ts";
import { RawConnection, getBytes } from "../support/raw-connection.ts";
import { groupEnd } from "../support/process-end.ts";
import { isGroupAlive, type LogLine, Sidecar } from "../support/sidecar.ts";

function serverEnd(sidecar: Sidecar): LogLine | undefined {
  return sidecar.logLines.find((line) => line.msg === "mcp server ended");
}

describe.concurrent("shutdown", () => {
  it.each(["SIGTERM", "SIGINT"] as const)("%s closes the server's stdin, and the sidecar exits with 0", async (signal) => {
    await using sidecar = await Sidecar.start();
    const { childPid } = sidecar;
    expect(isGroupAlive(childPid)).toBe(true);
    expect(await sidecar.stop(signal)).toBe(0);
    expect(isGroupAlive(childPid)).toBe(false);
    expect(sidecar.logLines).toContainEqual(expect.objectContaining({ msg: "stopping", signal }));
    expect(serverEnd(sidecar)).toMatchObject({ childPid, exitCode: 0, reason: "shutdown" });
    expect(sidecar.logLines.filter(({ level }) => level === "error" || level === "warn")).toEqual([]);
    expect(sidecar.stderr).toBe("");
  });

  it("a server that ignores SIGTERM is killed, and the sidecar exits with 0", async () => {
    await using sidecar = await Sidecar.start({ mode: "stubborn" });
    const { childPid } = sidecar;
    expect(await sidecar.stop()).toBe(0);
    expect(isGroupAlive(childPid)).toBe(false);
    expect(serverEnd(sidecar)).toMatchObject({ childPid, signal: "SIGKILL", reason: "shutdown" });
  });

  it("a server that outlives its stdin gets SIGTERM", async () => {
    await using sidecar = await Sidecar.start({ mode: "lingers" });
    expect(await sidecar.stop()).toBe(0);
    expect(serverEnd(sidecar)).toMatchObject({ signal: "SIGTERM", reason: "shutdown" });
  });

  it("a stop while the server starts exits with 0 and leaves no process", async () => {
    await using gate = await Gate.create();
    await using sidecar = await Sidecar.start({ mode: "gated", env: gate.env, untilReady: false });
    await sidecar.waitForLog("mcp server started");
    const { childPid } = sidecar;
    expect(await sidecar.stop()).toBe(0);
    expect(isGroupAlive(childPid)).toBe(false);
    expect(sidecar.logLines.map(({ msg }) => msg)).not.toContain("mcp server will be restarted");
  });

  it("a stop during a pause before a restart exits with 0 at once", async () => {
    await using sidecar = await Sidecar.start({ mode: "exit-at-initialize", flags: NO_RESTART, untilReady: false });
    await sidecar.waitForLog("mcp server will be restarted");
    expect(await sidecar.stop()).toBe(0);
    expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server started")).toHaveLength(1);
  });

  it("a stop does not wait for idle connections or incomplete requests", async () => {
    await using sidecar = await Sidecar.start();
    using unused = await RawConnection.open(sidecar.origin);
    using idle = await RawConnection.open(sidecar.origin);
    await idle.write(getBytes("/livez"));
    expect((await idle.reply()).status).toBe(200);
    using halfSent = await RawConnection.open(sidecar.origin);
    await halfSent.write(`${getBytes("/livez")}POST /mcp HTTP/1.1\r\nHost: local`);
    expect((await halfSent.reply()).status).toBe(200);
    expect(await sidecar.stop()).toBe(0);
    for (const connection of [unused, idle, halfSent]) expect((await connection.rest()).text).toBe("");
  });

  it("a second signal ends the sidecar during the server's grace period", async () => {
    await using sidecar = await Sidecar.start({ mode: "stubborn" });
    const { childPid } = sidecar;
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(getBytes("/livez"));
    await connection.reply();
    sidecar.process.kill("SIGTERM");
    await connection.rest();
    expect(await sidecar.stop()).toBe(143);
    await groupEnd(childPid);
    expect(serverEnd(sidecar)).toBeUndefined();
  });
});
