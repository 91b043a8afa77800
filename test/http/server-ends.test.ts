import { describe, expect, it } from "vitest";
import { ChosenServer } from "../support/chosen-server.ts";
import { readWhere, waitForHanging } from "../support/fixture-server.ts";
import { LANES, useLane } from "../support/lane-client.ts";
import { groupEnd } from "../support/process-end.ts";
import { HttpBench } from "../support/http-bench.ts";
import { signalServer } from "../support/in-process-server.ts";
import { errorData } from "../support/error-reply.ts";

const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--crash-loop-exits", "1000"];
/** Enough time for the fixture to start on a busy machine. */
const READY_TIMEOUT_MS = 2500;

describe.concurrent.each(LANES)("the exit of a %s server", (kind) => {
  it.each([
    { how: "a clean exit", tool: "exit", args: {}, said: { kind: "clean-exit", exitCode: 0, reason: "exited with code 0" } },
    { how: "a crash", tool: "exit", args: { code: 3 }, said: { kind: "crash", exitCode: 3, reason: "exited with code 3" } },
    { how: "a signal", tool: "kill", args: {}, said: { kind: "signal", signal: "SIGKILL", reason: "ended by SIGKILL" } },
    { how: "the end of its stdout", tool: "close_stdout", args: {}, said: { kind: "pipe-closed", reason: "the server closed its stdout" } },
  ])("after $how, requests in flight fail with the reason, and the next generation starts", async ({ tool, args, said }) => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const { client, childPid, waitForLog } = await useLane(sidecar, kind);
    const hanging = client.callTool("hang");
    await waitForHanging(client, 1);
    for (const { error } of await Promise.all([client.callTool(tool, args), hanging])) {
      expect(error?.data).toMatchObject({ code: "UPSTREAM_EXITED", sent: true });
      expect(error?.message).toContain(said.reason);
    }
    expect(await waitForLog("mcp server exited")).toMatchObject({ level: "warn", childPid, generation: 1, ...said });
    expect((await readWhere(client)).pid).not.toBe(childPid);
    await groupEnd(childPid);
  });

  it("a closed stdin is detected with the next message, and the next generation starts", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const { client, childPid, waitForLog } = await useLane(sidecar, kind);
    await client.toolText("close_stdin");
    const { error } = await client.callTool("echo", { text: "anybody?" });
    expect(error?.data).toMatchObject({ code: "UPSTREAM_EXITED", sent: true });
    expect(error?.message).toContain("the server closed its stdin");
    expect(await waitForLog("mcp server exited")).toMatchObject({ childPid, kind: "pipe-closed", reason: "the server closed its stdin" });
    expect((await readWhere(client)).pid).not.toBe(childPid);
    await groupEnd(childPid);
  });

  it.each([
    { how: "an exit", mode: "exit-at-initialize", said: { kind: "crash", exitCode: 3, stderrTail: ["cannot open the database"] } },
    {
      how: "silence",
      mode: "silent",
      // The time doubles after each attempt that has timed out, as the ones before may have on a busy machine.
      said: {
        kind: "handshake-timeout",
        reason: expect.stringMatching(/^no response to initialize within (2500|5000|10000) ms$/) as string,
      },
    },
    { how: "a rejection", mode: "refuse", said: { kind: "handshake-refused", reason: expect.stringContaining("no license") as string } },
    {
      how: "the end of its stdout",
      mode: "close-stdout-at-initialize",
      said: { kind: "pipe-closed", reason: "the server closed its stdout" },
    },
    {
      how: "an echo",
      script: "exec cat",
      said: { kind: "handshake-refused", reason: "the command echoes its input: it is not an MCP server" },
    },
    { how: "a missing program", script: "exec /no/such/program", said: { kind: "crash", exitCode: 127 } },
  ])("after $how in the handshake, another attempt follows, and the session stays valid", async ({ mode, script, said }) => {
    await using server = await ChosenServer.create();
    await using sidecar = await HttpBench.start({
      command: server.command,
      flags: [...QUICK_RESTART, "--ready-timeout-ms", String(READY_TIMEOUT_MS)],
    });
    const { client, childPid, waitForLog } = await useLane(sidecar, kind);
    await (script === undefined ? server.chooseMode(mode) : server.choose(script));
    signalServer(childPid, "SIGKILL");
    // On a busy machine, earlier attempts may have timed out.
    const { generation } = await waitForLog("mcp server exited", (line) => line["childPid"] === childPid);
    const exited = await waitForLog("mcp server exited", (line) => line["generation"] === Number(generation) + 1);
    expect(exited).toMatchObject({ level: "warn", ...said });
    await server.chooseMode("normal");
    const held = client.toolText("echo", { text: "held" });
    expect(await held).toBe("held");
    await groupEnd(Number(exited["childPid"]));
  });
});

it("responses written just before an exit are delivered, even without a line end, and other calls fail", async () => {
  await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
  const client = await sidecar.client();
  for (let generation = 1; generation <= 10; generation++) {
    const hanging = client.callTool("hang");
    await waitForHanging(client, 1);
    const lineEnd = generation % 2 === 0 ? {} : { lineEnd: "" };
    expect(await client.toolText("answer_and_exit", { code: generation % 3, ...lineEnd })).toBe("last words");
    const data = { sent: true, retrySafe: false, exitCode: generation % 3 };
    expect((await hanging).error?.data).toEqual(errorData("UPSTREAM_EXITED", data));
    const failed = await sidecar.waitForLog("requests in flight failed", (line) => line["generation"] === generation);
    expect(failed).toMatchObject({ count: 1, reason: `exited with code ${generation % 3}` });
  }
});
