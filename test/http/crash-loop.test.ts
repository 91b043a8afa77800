import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { ChosenServer } from "../support/chosen-server.ts";
import { errorData } from "../support/error-reply.ts";
import { QUICK_RESTART } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { HttpReply } from "../support/http-client.ts";
import { signalServer } from "../support/in-process-server.ts";
import { LaneClient, LANES, useLane } from "../support/lane-client.ts";
import { initializeRequest, McpClient, toolCall } from "../support/mcp-client.ts";
import type { LogLine } from "../support/running-sidecar.ts";
import { readReadiness } from "../support/status.ts";

const FAILED = "mcp server failed: crash loop";
/** Long enough for a request of a busy machine. */
const LONGEST_PAUSE_MS = 900;
/** At the level `debug`, exits that are alike are logged too. */
const CRASH_LOOP = `--crash-loop-exits 3 --restart-backoff-ms 20 --restart-max-ms ${LONGEST_PAUSE_MS} --log-level debug`.split(" ");
const PATIENT = ["--hold-timeout-ms", "600000", "--request-timeout-ms", "600000", "--drain-timeout-ms", "600000"];

function exitOf(generation: number): (line: LogLine) => boolean {
  return (line) => line["generation"] === generation;
}

function errorOf({ status, headers, body }: HttpReply): object {
  const { error } = JSON.parse(body) as { readonly error: { readonly message: string; readonly data: object } };
  return { status, retryAfter: Number(headers["retry-after"]), message: error.message, data: error.data };
}

const REFUSED = {
  status: 503,
  retryAfter: 1,
  message:
    "The MCP server keeps failing (last exit: exited with code 3 before it answered initialize). The request was not sent; it is safe to retry.",
  data: errorData("UPSTREAM_FAILED", { exitCode: 3, stderrTail: ["cannot open the database"], retryAfterSeconds: 1 }),
};

it("an initialize request for a private server is rejected at once", async () => {
  await using server = await ChosenServer.create();
  await server.chooseExit(3);
  await using sidecar = await HttpBench.start({ command: server.command, flags: [...CRASH_LOOP, ...PATIENT], untilReady: false });
  expect(errorOf(await new McpClient(sidecar.url).post(initializeRequest({ roots: {} })))).toEqual(REFUSED);
});

describe.each(LANES)("a crash loop of a %s server", (kind) => {
  it("held and new requests are rejected at once; the session survives until recovery", async () => {
    await using server = await ChosenServer.create();
    // The first pauses are long enough for a request to arrive.
    const flags = [...CRASH_LOOP.slice(0, 2), "--restart-backoff-ms", "300", "--restart-max-ms", "700", ...PATIENT];
    await using sidecar = await HttpBench.start({ command: server.command, flags });
    const { client, childPid, waitForLog, logLines } = await useLane(sidecar, kind);
    await server.chooseExit(3);
    signalServer(childPid, "SIGKILL");
    await waitForLog("mcp server exited");
    const call = toolCall("echo", { text: "held" }, 7);
    const held = client.post(call);
    expect(logLines(FAILED)).toEqual([]);
    expect(errorOf(await held)).toEqual(REFUSED);
    await waitForLog(FAILED);
    expect(errorOf(await client.post(call))).toEqual(REFUSED);

    await server.chooseMode("normal");
    await waitForLog("mcp server has recovered");
    expect(await client.toolText("echo", { text: "back" })).toBe("back");
    expect((await readReadiness(sidecar)).state).toBe("ready");
    expect(logLines(FAILED)).toHaveLength(1);
  });
});

it("a server that exits again after recovery returns to the failed state", async () => {
  await using sidecar = await HttpBench.start({ mode: "crash-loop", flags: CRASH_LOOP, untilReady: false });
  await sidecar.waitForLog(FAILED);
  await sidecar.waitForLog("mcp server has recovered");
  const { level } = await sidecar.waitForLog("mcp server exited", exitOf(5));
  expect(level).toBe("info");
  const { state } = await sidecar.waitForLog("mcp server will be restarted", (line) => line["restarts"] === 5);
  expect(state).toBe("failed");
  expect(sidecar.logLines.filter(({ msg }) => msg === FAILED)).toHaveLength(1);
});

it("the failed state persists while a generation starts, and requests are rejected", async () => {
  await using server = await ChosenServer.create();
  await server.chooseExit(3);
  await using sidecar = await HttpBench.start({ command: server.command, flags: [...CRASH_LOOP, ...PATIENT], untilReady: false });
  await sidecar.waitForLog(FAILED);
  await server.chooseMode("silent");
  for (;;) {
    const before = await readReadiness(sidecar);
    const refused = await new McpClient(sidecar.url).post(initializeRequest());
    const after = await readReadiness(sidecar);
    // A generation from before this choice may still be seen before its exit.
    if (before.pid === null || before.pid !== after.pid) continue;
    expect(errorOf(refused)).toEqual(REFUSED);
    expect(before).toMatchObject({ httpStatus: 503, state: "failed", lastExit: { exitCode: 3 }, nextRetryAt: null });
    break;
  }
});

const QUICK = ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--crash-loop-exits", "3"];

it("another last line is logged at once, and so is the recovery", async () => {
  await using server = await ChosenServer.create();
  await server.chooseExit(3);
  await using sidecar = await HttpBench.start({ command: server.command, flags: QUICK, untilReady: false });
  await sidecar.waitForLog("mcp server exited again", ({ count }) => count === 4);
  await server.chooseExit(3, "the disk is full");
  const { generation } = await sidecar.waitForLog("the disk is full");
  expect(await sidecar.waitForLog("mcp server exited", (line) => line["generation"] === generation)).toMatchObject({
    stderrTail: ["the disk is full"],
  });
  await server.chooseMode("normal");
  await sidecar.waitForLog("mcp server ready");
  expect(sidecar.logLines.filter(({ msg }) => msg === "the disk is full")).toHaveLength(1);
});

it("a generation starts when its pause is over, not before", async () => {
  // At the level `debug`, starts that fail alike are logged too.
  const flags = ["--log-level", "debug", "--restart-backoff-ms", "20", "--restart-max-ms", "400", "--crash-loop-exits", "1000"];
  await using sidecar = await HttpBench.start({ mode: "exit-at-initialize", flags, untilReady: false });
  await sidecar.waitForLog("mcp server started", ({ generation }) => generation === 6);
  const time = (line: { readonly [key: string]: unknown } | undefined): number => Date.parse(String(line?.["time"]));
  const restarts = sidecar.logLines.filter((line) => line.msg === "mcp server will be restarted").slice(0, 5);
  for (const [index, restart] of restarts.entries()) {
    const started = sidecar.logLines.find((line) => line.msg === "mcp server started" && line["generation"] === index + 2);
    // Timers may fire a millisecond early, and both times are rounded.
    expect(time(started) - time(restart)).toBeGreaterThanOrEqual(Number(restart["pauseMs"]) - 2);
  }
});

const GIVEN_UP = "mcp server not restarted: restart limit reached";
/** The first pause is long enough for a request to arrive. */
const SLOW_RESTART = ["--restart-backoff-ms", "2000", "--restart-max-ms", "2000"];

it("requests in flight at other clients' servers may finish", async () => {
  await using server = await ChosenServer.create();
  await using sidecar = await HttpBench.start({ command: server.command, flags: [...QUICK_RESTART, ...PATIENT, "--restart-limit", "2"] });
  const path = sidecar.directory.file("go");
  const sharedPid = sidecar.childPid;
  const client = await LaneClient.connect(sidecar);
  const call = client.toolText("wait_for_file", { path });
  await sidecar.waitForLog(`waiting for ${path}`);
  await server.chooseExit(3);
  signalServer(sharedPid, "SIGKILL");
  await sidecar.waitForLog("stopping");
  await writeFile(path, "");
  expect(await call).toBe("the file is there");
  expect(await sidecar.ended).toBe(1);
});

it.each(LANES)("requests held for a %s server are answered at once", async (kind) => {
  await using server = await ChosenServer.create();
  await using sidecar = await HttpBench.start({ command: server.command, flags: [...SLOW_RESTART, ...PATIENT, "--restart-limit", "1"] });
  const { client, childPid, waitForLog } = await useLane(sidecar, kind);
  await server.chooseExit(3);
  signalServer(childPid, "SIGKILL");
  await waitForLog("mcp server exited");
  const { error } = await client.callTool("echo");
  expect(error?.data).toMatchObject({ code: "UPSTREAM_FAILED", sent: false, exitCode: 3 });
  await waitForLog(GIVEN_UP);
});

it("a private server that reaches the limit ends its own sessions only", async () => {
  await using server = await ChosenServer.create();
  await using sidecar = await HttpBench.start({ command: server.command, flags: [...QUICK_RESTART, "--restart-limit", "2"] });
  const { client, childPid, waitForLog } = await useLane(sidecar, "private");
  const shared = await sidecar.client();
  using stream = await client.openStream();
  await server.chooseExit(3);
  signalServer(childPid, "SIGKILL");
  expect(await waitForLog(GIVEN_UP)).toMatchObject({ level: "error", restarts: 2 });
  expect(await stream.rest()).toEqual([]);
  expect((await client.callTool("echo")).status).toBe(404);
  expect(await shared.toolText("echo", { text: "on" })).toBe("on");
  await server.chooseMode("normal");
  expect(await (await LaneClient.connect(sidecar)).toolText("echo", { text: "anew" })).toBe("anew");
  expect(await sidecar.stop()).toBe(0);
});
