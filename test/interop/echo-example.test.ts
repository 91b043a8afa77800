import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { McpError } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it } from "vitest";
import { OwnedResources } from "../support/owned-resources.ts";
import { DirectClient, SdkClient } from "../support/sdk-client.ts";
import { EXAMPLE, Sidecar } from "../support/sidecar.ts";

const COMMAND = [process.execPath, EXAMPLE];

interface Connection extends AsyncDisposable {
  readonly client: Client;
}

const WAYS: readonly { readonly way: string; readonly connect: () => Promise<Connection> }[] = [
  {
    way: "directly",
    async connect() {
      const client = await DirectClient.connect(COMMAND);
      return { client, [Symbol.asyncDispose]: () => client[Symbol.asyncDispose]() };
    },
  },
  {
    way: "behind the sidecar",
    async connect() {
      await using stack = new OwnedResources();
      const sidecar = stack.use(await Sidecar.start({ command: COMMAND }));
      const client = stack.use(await SdkClient.connect(sidecar.url));
      const owned = stack.move();
      return { client, [Symbol.asyncDispose]: () => owned[Symbol.asyncDispose]() };
    },
  },
];

describe.each(WAYS)("the echo example $way", ({ connect }) => {
  it("the example introduces itself and lists its tools", async () => {
    await using connection = await connect();
    const { client } = connection;
    expect(client.getServerVersion()).toEqual({ name: "echo-server", version: "1.0.0" });
    expect(client.getServerCapabilities()).toEqual({ tools: {} });
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["echo", "add"]);
    expect(await client.ping()).toEqual({});
  });

  it("the example echoes and adds", async () => {
    await using connection = await connect();
    const { client } = connection;
    expect(await client.callTool({ name: "echo", arguments: { text: "grüezi 🦀" } })).toEqual({
      content: [{ type: "text", text: "grüezi 🦀" }],
    });
    expect(await client.callTool({ name: "add", arguments: { a: 1.5, b: 2 } })).toEqual({ content: [{ type: "text", text: "3.5" }] });
  });

  it("the example explains a wrong call", async () => {
    await using connection = await connect();
    const { client } = connection;
    expect(await client.callTool({ name: "add", arguments: { a: "1" } })).toEqual({
      content: [{ type: "text", text: "Invalid arguments for add" }],
      isError: true,
    });
    expect(await client.callTool({ name: "toString", arguments: {} })).toEqual({
      content: [{ type: "text", text: "Unknown tool: toString" }],
      isError: true,
    });
    const error = await client.getPrompt({ name: "none" }).catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(McpError);
    expect(error).toMatchObject({ code: -32601, message: "MCP error -32601: Method not found: prompts/get" });
  });
});
