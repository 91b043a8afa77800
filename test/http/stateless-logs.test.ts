import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { offer, waitForHanging } from "../support/fixture-server.ts";
import { LaneClient } from "../support/lane-client.ts";
import { META, type ModernClient } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { tokenClients } from "../support/token-clients.ts";

const LOGGING = { FIXTURE_INITIALIZE_RESULT: offer({ tools: {}, logging: {} }) };

/** Makes a call that logs at `level`. @returns the log messages that its client gets. */
async function logged(client: ModernClient, level: string, wanted: string | undefined): Promise<unknown[]> {
  const { notifications } = await client.callTool("log", { level, data: "x" }, { meta: { [META.logLevel]: wanted } });
  return notifications.map(({ method, params }) => [method, params?.["level"]]);
}

describe("log messages of a server of sessions", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start({ mode: "keeps-state", env: LOGGING }));
  const client = sidecar.modernClient();

  it("a call gets the messages from its own level on", async () => {
    const message = (level: string): unknown => ["notifications/message", level];
    expect(await logged(client, "warning", "info")).toEqual([message("warning")]);
    expect(await logged(client, "debug", "info")).toEqual([]);
    expect(await logged(client, "debug", "debug")).toEqual([message("debug")]);
    // The server's level stays the most verbose one.
    expect(await logged(client, "info", "error")).toEqual([]);
    expect(await logged(client, "error", "error")).toEqual([message("error")]);
    expect(await logged(client, "debug", "debug")).toEqual([message("debug")]);
  });

  it("a call without a level gets none", async () => {
    expect(await logged(client, "emergency", undefined)).toEqual([]);
    const line = String.raw`{"jsonrpc":"2.0","method":"notifications\/message","params":{"level":"error","data":1}}
{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}`;
    expect((await client.callTool("raw_line", { line })).notifications).toEqual([]);
  });

  it("a message during several calls goes to none of them", async () => {
    const control = await LaneClient.connectShared(sidecar);
    const hanging = client.beginTool("hang", {}, { meta: { [META.logLevel]: "debug" } });
    await waitForHanging(control, 1);
    expect(await logged(client, "error", "debug")).toEqual([]);
    await control.toolText("release");
    const stream = await hanging;
    expect([stream.isStream, (await stream.answer()).result?.["resultType"]]).toEqual([false, "complete"]);
  });

  it("a session gets the messages from the level that it has set, and no others", async () => {
    const session = await sidecar.client();
    await session.request("logging/setLevel", { level: "error" });
    expect(await logged(client, "debug", "debug")).toHaveLength(1);
    using quiet = await session.begin("log", { level: "debug", data: "x" });
    using loud = await session.begin("log", { level: "error", data: "x" });
    expect([quiet.isStream, loud.isStream]).toEqual([false, true]);
  });
});

describe("the level of a server of sessions", () => {
  it("a level that the server rejects is asked for again", async () => {
    await using sidecar = await HttpBench.start({ mode: "keeps-state", env: LOGGING });
    const client = sidecar.modernClient();
    await client.callTool("refuse", { method: "logging/setLevel" });
    await client.callTool("echo", { text: "x" }, { meta: { [META.logLevel]: "debug" } });
    await client.callTool("accept", { method: "logging/setLevel" });
    expect(await logged(client, "debug", "debug")).toHaveLength(1);
  });

  it("the most verbose level of all clients holds", async () => {
    await using sidecar = await HttpBench.start({ mode: "keeps-state", env: LOGGING, hasTokens: true });
    const [one, other] = tokenClients(sidecar, {});
    expect(await logged(one, "debug", "debug")).toHaveLength(1);
    await other.callTool("echo", { text: "x" }, { meta: { [META.logLevel]: "error" } });
    const lines = JSON.parse(await one.toolText("lines")) as string[];
    expect(lines.filter((line) => line.includes("logging/setLevel"))).toEqual([expect.stringContaining('"level":"debug"')]);
  });

  it("the level is set again after a restart", async () => {
    await using sidecar = await HttpBench.start({ mode: "keeps-state", env: LOGGING, flags: ["--restart-backoff-ms", "1"] });
    const client = sidecar.modernClient();
    expect(await logged(client, "debug", "debug")).toHaveLength(1);
    await client.callTool("exit");
    await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
    expect(await client.toolText("lines")).toContain(String.raw`\"method\":\"logging/setLevel\",\"params\":{\"level\":\"debug\"}`);
  });

  it("a server without logging is not asked for a level", async () => {
    await using sidecar = await HttpBench.start();
    const client = sidecar.modernClient();
    expect(await client.toolText("seen", {}, { meta: { [META.logLevel]: "debug" } })).not.toContain("logging/setLevel");
  });
});
