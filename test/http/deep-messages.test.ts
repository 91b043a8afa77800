import { describe, expect, it } from "vitest";
import { initializeRequest, McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";

/** A secret in the environment, so that messages about the server are masked. */
const env = { SOME_API_KEY: "a-secret-of-some-length" };

/** Returns the command of a server that rejects clients that can be asked with an error of this depth, and accepts the sidecar itself. */
function refusingServer(levels: number): readonly string[] {
  const script = `
    const data = "[".repeat(${levels}) + JSON.stringify(process.env.SOME_API_KEY) + "]".repeat(${levels});
    require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
      const { id, method, params } = JSON.parse(line);
      if (id === undefined) return;
      const isClient = method === "initialize" && params.capabilities.sampling !== undefined;
      const result = method === "initialize" ? { protocolVersion: "2025-11-25", capabilities: {} } : { echo: params.text };
      const answer = isClient || method === "refuse" ? '"error":{"code":-1,"message":"no","data":' + data + "}" : '"result":' + JSON.stringify(result);
      console.log('{"jsonrpc":"2.0","id":' + id + "," + answer + "}");
    });`;
  return [process.execPath, "-e", script];
}

describe.each([8000, 1_000_000])("an error that is nested %d levels deep", (levels) => {
  it("a client whose server rejects initialize gets the error; other clients are unaffected", async () => {
    await using sidecar = await HttpBench.start({ command: refusingServer(levels), env });
    const bystander = await sidecar.client();
    const reply = await new McpClient(sidecar.url).post(initializeRequest({ sampling: {} }));
    expect(reply.body).toMatch(/^\{"jsonrpc":"2\.0","id":1,"error":\{/);
    expect(reply.body).not.toContain(env.SOME_API_KEY);
    expect((await bystander.request("x/echo", { text: "still here" })).result).toEqual({ echo: "still here" });
  });
});

it("a deep error response to initialize restarts the server and is logged", async () => {
  const script = refusingServer(8000).map((part) => part.replace("!== undefined", "=== undefined"));
  await using sidecar = await HttpBench.start({ command: script, env, untilReady: false });
  const exit = await sidecar.waitForLog("mcp server exited");
  expect(exit).toMatchObject({ kind: "handshake-refused" });
  expect(String(exit["reason"])).toMatch(/^the MCP server answered initialize with an error: \{"code":-1,"message":"no","data":\[\[/);
});
