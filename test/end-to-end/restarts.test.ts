import { describe, expect } from "vitest";
import { ChosenServer } from "../support/chosen-server.ts";
import { Gate, crash, crashServerOf, readWhere, waitForHanging } from "../support/fixture-server.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorData } from "../support/error-reply.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { initializeRequest, McpClient } from "../support/mcp-client.ts";
import { readReadiness, readStatus } from "../support/status.ts";
import { runMain, Sidecar } from "../support/sidecar.ts";
import { proves } from "./proves.ts";

const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--crash-loop-exits", "1000"];

describe("a server that crashes", async () => {
  const gate = disposeAfterAll(await Gate.create());
  await gate.open();
  const sidecar = disposeAfterAll(await Sidecar.start({ mode: "gated", env: gate.env, flags: QUICK_RESTART }));

  proves("a crash answers its calls with the reason", async () => {
    const [client, other] = [await sidecar.client(), await sidecar.client()];
    const calls = [client.callTool("hang"), other.callTool("hang")];
    await waitForHanging(client, 2);
    for (const { status, error } of await Promise.all([...calls, client.callTool("exit", { code: 3 })])) {
      expect(status).toBe(200);
      expect(error?.message).toContain("(exited with code 3)");
      expect(error?.data).toEqual(errorData("UPSTREAM_EXITED", { sent: true, retrySafe: false, exitCode: 3 }));
    }
    const reads = await client.callTool("mute", { method: "resources/read" });
    expect(reads.status).toBe(200);
  });

  proves("requests wait for a restart", async () => {
    const client = await sidecar.client();
    await gate.close();
    await crash(sidecar);
    const call = client.toolText("echo", { text: "waited" });
    while ((await readStatus(sidecar)).lanes.shared.waiting !== 1);
    await gate.open();
    expect(await call).toBe("waited");
  });

  proves("/livez and /readyz tell the state", async () => {
    await gate.close();
    await crash(sidecar);
    const ask = (path: string, method = "GET"): Promise<HttpReply> => send(`${sidecar.origin}${path}`, { method });
    expect((await ask("/livez")).body).toBe('{"status":"live"}');
    for (const path of ["/readyz", "/healthz"]) {
      const { status, body } = await ask(path);
      expect([status, JSON.parse(body)]).toMatchObject([503, { status: "not-ready", lastExit: { kind: "signal", signal: "SIGKILL" } }]);
      expect((await ask(path, "HEAD")).status).toBe(503);
    }
    expect(await runMain(["healthcheck", "--addr", sidecar.address])).toMatchObject({ code: 1 });
    await gate.open();
    await (await sidecar.client()).toolText("echo", { text: "ready" });
    for (const path of ["/livez", "/readyz", "/healthz"]) expect((await ask(path)).status).toBe(200);
    expect(JSON.parse((await ask("/readyz")).body)).toMatchObject({ status: "ready", state: "ready" });
  });

  proves("sessions survive a restart of the server", async () => {
    const clients = [await sidecar.client(), await sidecar.client()];
    const before = await Promise.all(clients.map((client) => readWhere(client)));
    await crash(sidecar);
    const after = await Promise.all(clients.map((client) => readWhere(client)));
    expect(new Set(before.map(({ pid }) => pid)).size).toBe(1);
    expect(new Set(after.map(({ pid }) => pid)).size).toBe(1);
    expect(after[0]?.pid).not.toBe(before[0]?.pid);
  });

  proves("a new process is told its clients' state", async () => {
    const client = await LaneClient.connect(sidecar);
    await client.request("logging/setLevel", { level: "error" });
    await client.request("resources/subscribe", { uri: "x://1" });
    await client.notify("notifications/roots/list_changed");
    await crashServerOf(sidecar, client);
    const told = (await client.lines()).map((line) => JSON.parse(line) as JsonRpcMessage);
    expect(
      told.filter(({ method }) => method !== "tools/call").map(({ method, params }) => [method, params?.["level"] ?? params?.["uri"]]),
    ).toEqual([
      ["initialize", undefined],
      ["notifications/initialized", undefined],
      ["logging/setLevel", "error"],
      ["notifications/roots/list_changed", undefined],
      ["resources/subscribe", "x://1"],
    ]);
  });
});

describe("a server that fails at every start", async () => {
  const server = disposeAfterAll(await ChosenServer.create());
  await server.chooseExit(1, "Error: listen EADDRINUSE: address already in use 127.0.0.1:3000");
  const flags = ["--crash-loop-exits", "3", "--restart-backoff-ms", "20", "--restart-max-ms", "400"];
  const sidecar = disposeAfterAll(await Sidecar.start({ command: server.command, flags, untilReady: false }));

  proves("starts that fail alike are logged once", async () => {
    await sidecar.waitForLog("mcp server exited again", ({ count }) => count === 4);
    const messages = sidecar.logLines.map(({ msg }) => msg);
    const once = ["mcp server exited", messages.find((msg) => msg.includes("EADDRINUSE"))];
    expect(once.map((message) => messages.filter((each) => each === message).length)).toEqual([1, 1]);
  });

  proves("a crash loop is told, and ends", async () => {
    const stderrTail = ["Error: listen EADDRINUSE: address already in use 127.0.0.1:3000"];
    const likelyCause: unknown = expect.stringContaining("port");
    const failed = await sidecar.waitForLog("mcp server failed: crash loop");
    expect(failed).toMatchObject({ level: "error", exitCode: 1, stderrTail, likelyCause });
    expect(await readReadiness(sidecar)).toMatchObject({ httpStatus: 503, state: "failed", lastExit: { kind: "crash", likelyCause } });
    const { status, headers, body } = await new McpClient(sidecar.url).post(initializeRequest());
    expect([status, headers["retry-after"]]).toEqual([503, "1"]);
    expect(JSON.parse(body)).toMatchObject({ error: { data: { code: "UPSTREAM_FAILED", sent: false, stderrTail } } });

    await server.chooseMode("normal");
    await sidecar.waitForLog("mcp server has recovered");
    expect(await (await sidecar.client()).toolText("echo", { text: "back" })).toBe("back");
    expect(sidecar.logLines.filter(({ level }) => level === "error")).toHaveLength(1);
  });
});

describe("a server that exits", () => {
  proves("RESTART_LIMIT ends the sidecar", async () => {
    const flags = [...QUICK_RESTART, "--restart-limit", "2", "--log-level", "debug"];
    await using sidecar = await Sidecar.start({ mode: "exit-at-initialize", flags, untilReady: false });
    expect(await sidecar.ended).toBe(1);
    expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server started")).toHaveLength(3);
    expect(sidecar.logLines).toContainEqual(
      expect.objectContaining({
        level: "error",
        msg: "mcp server not restarted: restart limit reached",
        restarts: 2,
        exitCode: 3,
        stderrTail: ["cannot open the database"],
      }),
    );
    expect(sidecar.logLines).toContainEqual(expect.objectContaining({ msg: "stopping", reason: "RESTART_LIMIT is reached" }));
  });
});
