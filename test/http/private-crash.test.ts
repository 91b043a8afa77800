import { rm, writeFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { Gate, NO_RESTART, QUICK_RESTART, crashProcess, readSeen, waitForHanging } from "../support/fixture-server.ts";
import { readReadiness } from "../support/status.ts";
import { LaneClient } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { signalServer } from "../support/in-process-server.ts";
import { FIXTURE } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

it("with ISOLATION=session, initialized is not replayed before the client has sent it, but forwarded later", async () => {
  await using gate = await Gate.create();
  await gate.open();
  await using sidecar = await HttpBench.start({ mode: "gated", flags: ["--isolation", "session", ...QUICK_RESTART], env: gate.env });
  const reply = await LaneClient.connectUninitialized(sidecar);
  expect(await reply.request("ping")).toMatchObject({ status: 200, result: {} });
  const { childPid } = await sidecar.waitForLog("mcp server ready", ({ lane }) => lane === "private-1");
  await gate.close();
  signalServer(Number(childPid), "SIGKILL");
  await sidecar.waitForLog("mcp server started", (line) => line["generation"] === 2);
  // While the next one is starting.
  expect((await reply.notify("notifications/initialized")).status).toBe(202);
  await gate.open();
  expect(await readSeen(reply)).toEqual(["initialize", "notifications/initialized", "tools/call"]);
});

it("a command that has vanished is logged once, with the lane, and initialize fails", async () => {
  await using directory = await TempDir.create();
  const command = directory.file("server");
  await writeFile(command, `#!/bin/sh\nexec "${process.execPath}" "${FIXTURE}" normal\n`, { mode: 0o755 });
  await using sidecar = await HttpBench.start({ command: [command] });
  await rm(command);
  await expect(LaneClient.connect(sidecar)).rejects.toThrow("UPSTREAM_FAILED");
  expect(await sidecar.waitForLog("the command cannot be started")).toMatchObject({ lane: "private-1", code: "ENOENT" });
  expect(sidecar.logLines.filter(({ lane }) => lane === "private-1")).toHaveLength(1);
});

it("other servers and readiness are unaffected, and the exit is logged once", async () => {
  await using sidecar = await HttpBench.start({ flags: NO_RESTART });
  const [client, other] = [await LaneClient.connect(sidecar), await LaneClient.connect(sidecar, { roots: {} })];
  const shared = await sidecar.client();
  const others = [other.callTool("hang"), shared.callTool("hang")];
  await Promise.all([waitForHanging(other, 1), waitForHanging(shared, 1)]);
  await crashProcess(sidecar, client.childPid);
  await Promise.all([other.toolText("release"), shared.toolText("release")]);
  for (const { result } of await Promise.all(others)) expect(result?.content?.[0]?.text).toMatch(/^released/);
  expect((await readReadiness(sidecar)).httpStatus).toBe(200);
  expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server exited")).toHaveLength(1);
});

it("no later generation gets responses to requests of a crashed one, ready or not", async () => {
  await using gate = await Gate.create();
  await gate.open();
  await using sidecar = await HttpBench.start({
    mode: "asks-and-exits",
    flags: [...QUICK_RESTART, "--log-level", "debug"],
    env: gate.env,
  });
  const client = await LaneClient.connect(sidecar);
  await gate.close();
  signalServer(client.childPid, "SIGKILL");
  await sidecar.waitForLog("mcp server exited", (line) => line["generation"] === 3);
  await gate.open();
  // The generation that becomes ready has used the same request id.
  await client.toolText("echo", { text: "ready" });
  using stream = await client.openStream();
  // The first generation sent one, those without a handshake did, and the last one did.
  const asked: unknown[] = [];
  const cancelled: unknown[] = [];
  for (let staying = 0; staying < 2;) {
    const message = await stream.next();
    if (message.method === "notifications/cancelled") cancelled.push(message.params?.["requestId"]);
    else {
      asked.push(message.id);
      if (message.params?.["isLast"] === true) staying++;
      await client.answer(message, { answered: asked.length });
    }
  }
  expect(asked.length).toBeGreaterThan(2);
  // The client is notified that those requests are cancelled.
  expect(cancelled).toEqual(asked.slice(0, -1));
  expect(await client.answers()).toEqual([`{"jsonrpc":"2.0","id":"same","result":{"answered":${asked.length}}}`]);
});
