import { rm, writeFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { Gate, NO_RESTART, QUICK_RESTART } from "../support/fixture-server.ts";
import { LaneClient } from "../support/lane-client.ts";
import { readReadiness } from "../support/status.ts";
import { HttpBench } from "../support/http-bench.ts";
import { FIXTURE } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

/** Starts that fail alike are logged at this level. */
const EVERY_START = ["--log-level", "debug"];

it("the sidecar is starting and not ready until the server has answered initialize", async () => {
  await using gate = await Gate.create();
  await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, untilReady: false });
  const { childPid } = await sidecar.waitForLog("mcp server started");
  expect(await readReadiness(sidecar)).toEqual({
    httpStatus: 503,
    status: "not-ready",
    state: "starting",
    pid: childPid,
    generation: 1,
    restarts: 0,
    lastExit: null,
    readyAt: null,
    nextRetryAt: null,
  });
  await gate.open();
  await sidecar.waitForLog("mcp server ready");
  expect(await readReadiness(sidecar)).toMatchObject({ httpStatus: 200, status: "ready", state: "ready", generation: 1, restarts: 0 });
});

it("a server that is too slow gets more time, and is no crash loop", async () => {
  const times = ["--ready-timeout-ms", "700", "--crash-loop-exits", "2"];
  const command = ["sh", "-c", `sleep 1.2; exec "${process.execPath}" "${FIXTURE}" normal`];
  await using sidecar = await HttpBench.start({ command, flags: [...QUICK_RESTART, ...times] });
  const said = sidecar.logLines.filter(({ msg }) => msg === "mcp server gets more time to start");
  expect(said.slice(0, 3).map(({ timeoutMs }) => timeoutMs)).toEqual([1400, 2800, 5600].slice(0, said.length));
  expect(said.length).toBeGreaterThan(0);
  expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server failed: crash loop")).toEqual([]);
  const client = await sidecar.client();
  expect(await client.toolText("echo", { text: "at last" })).toBe("at last");
});

it("a client whose initialize is never answered gives no process more time", async () => {
  await using gate = await Gate.create();
  await using sidecar = await HttpBench.start({
    flags: [...QUICK_RESTART, ...EVERY_START, "--ready-timeout-ms", "1000"],
    env: { ...gate.env, FIXTURE_NEXT_MODE: "silent" },
  });
  await gate.open();
  const connected = LaneClient.connect(sidecar).catch(() => undefined);
  const reasonOf = async (number: number): Promise<unknown> =>
    (await sidecar.waitForLog("mcp server exited", ({ lane, generation }) => lane === "private-1" && generation === number))["reason"];
  expect(await reasonOf(3)).toBe(await reasonOf(1));
  expect(sidecar.logLines.filter(({ msg, lane }) => msg === "mcp server gets more time to start" && lane !== undefined)).toEqual([]);
  await sidecar.stop();
  await connected;
});

it("the rejection of initialize stays the reason if the discovery has no response", async () => {
  const flags = [...NO_RESTART, "--ready-timeout-ms", "600000"];
  await using sidecar = await HttpBench.start({ mode: "refuse-in-silence", flags, untilReady: false });
  const reason = 'the MCP server answered initialize with an error: {"code":-32603,"message":"no license"}';
  expect(await sidecar.waitForLog("mcp server exited")).toMatchObject({ kind: "handshake-refused", reason });
  expect((await readReadiness(sidecar)).lastExit).toMatchObject({ kind: "handshake-refused", reason });
});

it("the rejection of initialize stays part of the reason if the server then exits", async () => {
  await using sidecar = await HttpBench.start({ mode: "refuse-and-exit", flags: NO_RESTART, untilReady: false });
  const { reason } = await sidecar.waitForLog("mcp server exited");
  expect(reason).toBe(
    'the MCP server answered initialize with an error: {"code":-32603,"message":"no license"}; then it exited with code 1 before it answered server/discover',
  );
});

it("the sidecar retries until a missing program exists again", async () => {
  await using directory = await TempDir.create();
  const command = directory.file("server");
  const install = (): Promise<void> => writeFile(command, `#!/bin/sh\nexec "${process.execPath}" "${FIXTURE}" normal\n`, { mode: 0o755 });
  await install();
  await using sidecar = await HttpBench.start({ command: [command], flags: [...QUICK_RESTART, ...EVERY_START] });
  const client = await sidecar.client();
  await rm(command);
  await client.callTool("exit");
  const exited = await sidecar.waitForLog("mcp server exited", (line) => line["generation"] === 3);
  expect(exited["reason"]).toBe("could not be started (ENOENT)");
  await install();
  expect(await client.toolText("echo", { text: "back" })).toBe("back");
  expect((await readReadiness(sidecar)).lastExit?.reason).toBe("could not be started (ENOENT)");
});

it("a greeting on stdout does not prevent readiness", async () => {
  await using sidecar = await HttpBench.start({ mode: "noisy-start" });
  expect(await sidecar.waitForLog("stdout line skipped: not json-rpc")).toMatchObject({
    level: "warn",
    childPid: sidecar.childPid,
    generation: 1,
    reason: "not JSON",
    line: "Welcome to the noisy server v1.0",
  });
  expect(await (await sidecar.client()).toolText("echo", { text: "ready" })).toBe("ready");
});
