import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { stopAndReadLog } from "../support/log-end.ts";
import { Sidecar } from "../support/sidecar.ts";

const WARNING = "variable meant for the server acts on the sidecar too";

/** Returns the sockets on which a process listens, as `socket:[inode]` (proc(5): state 0A is LISTEN). */
function listeningSockets(pid: number): string[] {
  const listening = new Set(
    ["tcp", "tcp6"].flatMap((table) =>
      readFileSync(`/proc/${pid}/net/${table}`, "utf8")
        .trim()
        .split("\n")
        .map((line) => line.trim().split(/\s+/))
        .filter((columns) => columns[3] === "0A")
        .map((columns) => `socket:[${columns[9]}]`),
    ),
  );
  return readdirSync(`/proc/${pid}/fd`)
    .map((name) => linkTarget(`/proc/${pid}/fd/${name}`))
    .filter((target) => listening.has(target));
}

/** Returns an empty string if the file has been closed meanwhile. */
function linkTarget(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

describe("SIGUSR1", () => {
  it("the signal does not open an inspector, and the sidecar continues to serve", async () => {
    await using sidecar = await Sidecar.start();
    const pid = sidecar.process.pid ?? 0;
    expect(listeningSockets(pid)).toHaveLength(1);
    sidecar.process.kill("SIGUSR1");
    const client = await sidecar.client();
    for (let i = 0; i < 20; i++) expect(await client.request("ping")).toHaveProperty("result");
    expect(listeningSockets(pid)).toHaveLength(1);
    expect(sidecar.stderr).toBe("");
  });
});

describe("variables that Node reads", () => {
  it("the sidecar warns about set variables at the start, without their values", async () => {
    await using sidecar = await Sidecar.start({ env: { NODE_DEBUG: "nothing-s3cret", NODE_OPTIONS: "--title=s3cret" } });
    await stopAndReadLog(sidecar);
    expect(sidecar.logLines.filter(({ msg }) => msg === WARNING).map(({ level, reason }) => ({ level, reason }))).toEqual([
      { level: "warn", reason: "NODE_DEBUG: Node may print the server's command and environment to stderr" },
      { level: "warn", reason: "NODE_OPTIONS: it can open an inspector or load code into the sidecar" },
    ]);
    expect(sidecar.transcript()).not.toContain("s3cret");
  });

  it("absent and empty variables are not mentioned", async () => {
    await using sidecar = await Sidecar.start({ env: { NODE_DEBUG: "", NODE_OPTIONS: "" } });
    await stopAndReadLog(sidecar);
    expect(sidecar.logLines.map(({ msg }) => msg)).not.toContain(WARNING);
  });
});
