import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { McpError } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { DirectClient, SdkClient } from "../support/sdk-client.ts";
import { EXAMPLE, Sidecar } from "../support/sidecar.ts";

const COMMAND = [process.execPath, EXAMPLE];

describe("the echo example", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start({ command: COMMAND }));

  it.each([
    ["directly", () => DirectClient.connect(COMMAND)],
    ["behind the sidecar", () => SdkClient.connect(sidecar.url)],
  ])("lists its tools, answers calls, and explains wrong ones: %s", async (_way, connect) => {
    await using client: Client & AsyncDisposable = await connect();
    expect(client.getServerVersion()).toEqual({ name: "echo-server", version: "1.0.0" });
    expect(client.getServerCapabilities()).toEqual({ tools: {} });
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["echo", "add"]);
    expect(await client.ping()).toEqual({});
    const call = (name: string, args: Record<string, unknown>): Promise<unknown> => client.callTool({ name, arguments: args });
    expect(await call("echo", { text: "grüezi 🦀" })).toEqual({ content: [{ type: "text", text: "grüezi 🦀" }] });
    expect(await call("add", { a: 1.5, b: 2 })).toEqual({ content: [{ type: "text", text: "3.5" }] });
    expect(await call("add", { a: "1" })).toEqual({ content: [{ type: "text", text: "Invalid arguments for add" }], isError: true });
    expect(await call("toString", {})).toEqual({ content: [{ type: "text", text: "Unknown tool: toString" }], isError: true });
    const error = await client.getPrompt({ name: "none" }).catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(McpError);
    expect(error).toMatchObject({ code: -32601, message: "MCP error -32601: Method not found: prompts/get" });
  });
});
