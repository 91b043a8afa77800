import { describe, expect, it } from "vitest";
import { readWhere } from "../support/fixture-server.ts";
import { groupEnd } from "../support/process-end.ts";
import { FIXTURE, groupMembers, isAlive, Sidecar } from "../support/sidecar.ts";
import { LANES, useLane } from "../support/lane-client.ts";

const RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "1000"];
const { execPath } = process;

/** A process starts a shell, and the shell starts the server. Each waits for the next one, as `npx` and its packages do. */
const LAUNCHER = `
  const { spawn } = require("node:child_process");
  spawn("sh", ["-c", '"$0" "$@"; exit $?', ...process.argv.slice(1)], { stdio: "inherit" }).on("exit", (code) => process.exit(code ?? 1));
`;

/** The server is never the process that the sidecar starts, and has a child process itself. */
const TREES = [
  { tree: "sh -c", size: 3, command: (mode: string) => ["sh", "-c", `"${execPath}" "${FIXTURE}" ${mode}; exit $?`] },
  { tree: "npx", size: 4, command: (mode: string) => [execPath, "-e", LAUNCHER, execPath, FIXTURE, mode] },
];
const GRANDCHILDREN = ["grandchild", "grandchild-with-pipes"];

describe.concurrent.each(TREES)("the process tree of $tree", ({ command, size }) => {
  describe.each(LANES)("%s", (kind) => {
    it.each(GRANDCHILDREN)("the tree ends before the next generation when its root is killed, in mode %s", async (mode) => {
      await using sidecar = await Sidecar.start({ command: command(mode), flags: RESTART });
      const { client, childPid, waitForLog } = await useLane(sidecar, kind);
      const leaderPid = Number((await waitForLog("mcp server started"))["childPid"]);
      const pids = groupMembers(leaderPid);
      expect(pids).toHaveLength(size);
      expect(pids).toContain(childPid);
      process.kill(leaderPid, "SIGKILL");
      await waitForLog("mcp server started", (line) => line["generation"] === 2);
      expect(pids.filter(isAlive)).toEqual([]);
      expect(pids).not.toContain((await readWhere(client)).pid);
    });
  });

  it.each(GRANDCHILDREN)("the tree ends before the next generation when the server exits, in mode %s", async (mode) => {
    await using sidecar = await Sidecar.start({ command: command(mode), flags: RESTART });
    const pids = groupMembers(sidecar.childPid);
    expect(pids).toHaveLength(size);
    const client = await sidecar.client();
    expect((await client.callTool("exit", { code: 3 })).error?.data).toMatchObject({ code: "UPSTREAM_EXITED", exitCode: 3 });
    await sidecar.waitForLog("mcp server started", (line) => line["generation"] === 2);
    expect(pids.filter(isAlive)).toEqual([]);
  });

  it.each(GRANDCHILDREN)("the whole tree ends when the sidecar stops, in mode %s", async (mode) => {
    await using sidecar = await Sidecar.start({ command: command(mode) });
    const pids = groupMembers(sidecar.childPid);
    expect(pids).toHaveLength(size);
    expect(await sidecar.stop()).toBe(0);
    expect(pids.filter(isAlive)).toEqual([]);
  });

  it("the whole tree ends from the bottom when the sidecar is killed", async () => {
    await using sidecar = await Sidecar.start({ command: command("normal") });
    const pids = groupMembers(sidecar.childPid);
    expect(pids).toHaveLength(size - 1);
    await sidecar.stop("SIGKILL");
    await groupEnd(sidecar.childPid);
    expect(pids.filter(isAlive)).toEqual([]);
  });
});
