import { describe, expect, it } from "vitest";
import { ListedTools, WITNESSES } from "../support/listed-tools.ts";
import { Sidecar } from "../support/sidecar.ts";
import { Supervised } from "../support/supervised.ts";
import type { UpstreamExit, UpstreamListener } from "../../src/process/port.ts";

it("a defect in a request or after its argument check fails that call, and later checks work", async () => {
  const schema = { type: "object", properties: { a: { type: "string" } } };
  await using listed = await ListedTools.create([...WITNESSES, { name: "search", inputSchema: schema }]);
  const imports = [new URL("../support/defect.js", import.meta.url).href];
  await using sidecar = await Sidecar.start({ flags: ["--argument-check", "enforce"], env: listed.env, imports });
  const client = await sidecar.client();
  expect((await client.callTool("echo", { text: "in-request" })).error?.data).toMatchObject({ code: "INTERNAL_ERROR", sent: true });
  const failed = await client.callTool("search", { a: 1 }, "in-answer");
  expect(failed.error).toMatchObject({ data: { code: "INTERNAL_ERROR", sent: false, retrySafe: true } });
  expect((await client.callTool("search", { a: 1 })).result?.["isError"]).toBe(true);
});

const RESULT = '{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}';
const NOTIFIES = `read initialize; echo '{"jsonrpc":"2.0","id":0,"result":${RESULT}}'; echo '{"jsonrpc":"2.0","method":"x"}'; read end`;
const REFUSES = `read initialize; echo '{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}'; read end`;
const WRITES_TWO_MEGABYTES = `read initialize; head -c 2000000 /dev/zero | tr '\\0' x; echo; read end`;

function fail(): never {
  throw new Error("a defect");
}

describe("a defect in handling a server", () => {
  it.each<[keyof UpstreamListener, string]>([
    ["onStarted", NOTIFIES],
    ["onReady", NOTIFIES],
    ["onMessage", NOTIFIES],
    ["onRefused", REFUSES],
    ["onOverlongLine", WRITES_TWO_MEGABYTES],
  ])("a defect in %s restarts the server", async (event, script) => {
    const lost = Promise.withResolvers<UpstreamExit>();
    await using supervised = new Supervised("sh", ["-c", script], 1, { onLost: lost.resolve, [event]: fail });
    expect(await lost.promise).toMatchObject({ generation: 1, kind: "defect" });
    expect(supervised.counters.defects).toBe(1);
  });

  it("a defect after the exit of a server fails the requests, and the server is restarted", async () => {
    const failed = Promise.withResolvers<void>();
    await using supervised = new Supervised("sh", ["-c", NOTIFIES], 1, { onLost: fail, onDefect: failed.resolve });
    await supervised.nextReady();
    supervised.supervisor.restart("hung", "hung: for a test");
    await failed.promise;
    await supervised.nextReady();
    expect(supervised.supervisor.status()).toMatchObject({ generation: 2, state: "ready" });
  });
});
