import { describe, expect, it } from "vitest";
import { readWhere } from "../support/in-flight.ts";
import { groupEnd } from "../support/process-end.ts";
import { FIXTURE, groupMembers, isAlive, Sidecar } from "../support/sidecar.ts";
import { LANES, useLane } from "../support/lanes.ts";

const RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "1000"];
const { execPath } = process;

/** A process that starts a shell that starts the server, each waiting for the next one: what `npx` makes of a package. */
const LAUNCHER = `
  const { spawn } = require("node:child_process");
  spawn("sh", ["-c", '"$0" "$@"; exit $?', ...process.argv.slice(1)], { stdio: "inherit" }).on("exit", (code) => process.exit(code ?? 1));
`;

/** The server is never the process that the sidecar starts, and has a child of its own. */
const TREES = [
  { tree: "sh -c", size: 3, command: (mode: string) => ["sh", "-c", `"${execPath}" "${FIXTURE}" ${mode}; exit $?`] },
  { tree: "npx", size: 4, command: (mode: string) => [execPath, "-e", LAUNCHER, execPath, FIXTURE, mode] },
];
const GRANDCHILDREN = ["grandchild", "grandchild-with-pipes"];

describe.each(TREES)("a server in a tree as of $tree", ({ command, size }) => {
  describe.each(LANES)("%s", (kind) => {
    it.each(GRANDCHILDREN)(
      "is gone with the whole tree before the next generation starts, when its top is killed, in mode %s",
      async (mode) => {
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
      },
    );
  });

  it.each(GRANDCHILDREN)("is gone with the whole tree before the next generation starts, when it ends itself, in mode %s", async (mode) => {
    await using sidecar = await Sidecar.start({ command: command(mode), flags: RESTART });
    const pids = groupMembers(sidecar.childPid);
    expect(pids).toHaveLength(size);
    const client = await sidecar.client();
    expect((await client.callTool("exit", { code: 3 })).error?.data).toMatchObject({ code: "UPSTREAM_EXITED", exitCode: 3 });
    await sidecar.waitForLog("mcp server started", (line) => line["generation"] === 2);
    expect(pids.filter(isAlive)).toEqual([]);
  });

  it.each(GRANDCHILDREN)("is gone with the whole tree when the sidecar has stopped, in mode %s", async (mode) => {
    await using sidecar = await Sidecar.start({ command: command(mode) });
    const pids = groupMembers(sidecar.childPid);
    expect(pids).toHaveLength(size);
    expect(await sidecar.stop()).toBe(0);
    expect(pids.filter(isAlive)).toEqual([]);
  });

  it("is gone with the whole tree, which ends from its bottom, when the sidecar is killed", async () => {
    await using sidecar = await Sidecar.start({ command: command("normal") });
    const pids = groupMembers(sidecar.childPid);
    expect(pids).toHaveLength(size - 1);
    await sidecar.stop("SIGKILL");
    await groupEnd(sidecar.childPid);
    expect(pids.filter(isAlive)).toEqual([]);
  });
});
