import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { groupExists, waitForGroupEnd } from "../../src/process/child.ts";
import { readWhere } from "../support/fixture-server.ts";
import { readReadiness } from "../support/status.ts";
import { isAlive, Sidecar } from "../support/sidecar.ts";

const RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "1000"];

describe.concurrent("the server's process group", () => {
  it("a group counts as ended if only unreaped zombies are left of it", async () => {
    // A stopped parent does not reap, like some programs that run as PID 1.
    const script = `
      const { spawn } = require("node:child_process");
      const child = spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
      console.log(child.pid);
    `;
    const parent = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
    const [chunk] = (await once(parent.stdout, "data")) as [Buffer];
    const leaderPid = Number(String(chunk));
    parent.kill("SIGSTOP");
    try {
      expect(await waitForGroupEnd(leaderPid, 50)).toBe(false);
      process.kill(leaderPid, "SIGKILL");
      expect(await waitForGroupEnd(leaderPid, 5000)).toBe(true);
      expect(groupExists(leaderPid)).toBe(true);
    } finally {
      parent.kill("SIGKILL");
      await once(parent, "exit");
    }
  });

  it("the group is killed before the next generation, which does not make a run stable", async () => {
    await using sidecar = await Sidecar.start({ mode: "grandchild-stubborn", flags: RESTART });
    const client = await sidecar.client();
    const { grandchildPid = 0 } = await readWhere(client);
    await client.callTool("kill");
    await sidecar.waitForLog("mcp server started", (line) => line["generation"] === 2);
    expect(isAlive(grandchildPid)).toBe(false);
    await client.callTool("kill");
    const second = await sidecar.waitForLog("mcp server will be restarted", (line) => line["restarts"] === 2);
    expect(second["pauseMs"]).toBe(2);
  });

  it("calls in flight fail at once, and the sidecar is not ready, while the rest of the group still ends", async () => {
    await using sidecar = await Sidecar.start({ mode: "grandchild-stubborn", flags: RESTART });
    const client = await sidecar.client();
    const { grandchildPid = 0 } = await readWhere(client);
    const { error } = await client.callTool("kill");
    expect([error?.data?.["code"], isAlive(grandchildPid)]).toEqual(["UPSTREAM_EXITED", true]);
    await sidecar.waitForLog("mcp server exited");
    expect(await readReadiness(sidecar)).toMatchObject({ httpStatus: 503, state: "backing-off", generation: 1 });
  });
});
