import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { HttpBench } from "../support/http-bench.ts";

/** An object that makes the engine misread later objects, for any reader: see test/support/poison.js. */
const POISON = String.raw`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":1,"i\\":{"jsonrpc":"2.0","method":"","params":{},"i\\":1}}}`;

describe("escaped names", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const victim = await sidecar.client();
  const attacker = await sidecar.client();
  await attacker.post(POISON);

  it.each([
    ["jsonrpc", String.raw`{"jsonrp\u0063":"2.0","id":5,"method":"ping","params":{}}`],
    ["id", String.raw`{"jsonrpc":"2.0","i\u0064":5,"method":"ping","params":{}}`],
    ["method", String.raw`{"jsonrpc":"2.0","id":5,"m\u0065thod":"ping","params":{}}`],
    ["params", String.raw`{"jsonrpc":"2.0","id":5,"method":"ping","p\u0061rams":{}}`],
  ])("the escaped name %s is read like the plain name", async (_name, body) => {
    const reply = await attacker.post(body);
    expect([reply.status, JSON.parse(reply.body)]).toEqual([200, { jsonrpc: "2.0", id: 5, result: {} }]);
  });

  it("a server's response with an escaped id reaches the request that it names", async () => {
    const line = String.raw`{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"mine"}]},"i\u0064":$ID}`;
    expect(await victim.toolText("raw_line", { line })).toBe("mine");
  });
});

it("a server's response with two ids is dropped", async () => {
  await using sidecar = await HttpBench.start({ env: { CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS: "1000" } });
  const client = await sidecar.client();
  const call = client.callTool("raw_line", { line: '{"jsonrpc":"2.0","id":$ID,"result":{},"id":$ID}' });
  await sidecar.waitForLog("stdout line skipped: not json-rpc", ({ reason }) => reason === '"id" occurs twice');
  expect((await call).error?.data).toMatchObject({ code: "REQUEST_TIMEOUT" });
});
