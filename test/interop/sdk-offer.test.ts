import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { CLIENTS, InteropClient } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";
import { PNG_BASE64 } from "../fixtures/conformance/samples.ts";

const sidecar = disposeAfterAll(await Sidecar.start({ command: CONFORMANCE_SERVER }));

describe.each(CLIENTS)("the $sdk client of a $lane server", ({ sdk, lane }) => {
  let client: InteropClient;

  beforeAll(async () => {
    client = await InteropClient.connect(sdk, sidecar.url, { lane });
  });

  afterAll(async () => {
    await client.terminate();
    await client.close();
  });

  it("the handshake opens a session with the server's own result", () => {
    expect(client.handshake).toEqual({
      version: { name: "conformance-server", version: "1.0.0" },
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        logging: {},
        completions: {},
      },
    });
    expect(client.protocolVersion).toBe("2025-11-25");
    expect(client.sessionId).toMatch(/^[\x21-\x7e]{16,}$/);
  });

  it("tools are listed and called", async () => {
    const tools = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(["test_simple_text", "json_schema_2020_12_tool", "test_wait"]));
    expect(tools.find(({ name }) => name === "json_schema_2020_12_tool")?.inputSchema).toMatchObject({
      $schema: "https://json-schema.org/draft/2020-12/schema",
      additionalProperties: false,
    });
    expect(await client.callTool("test_multiple_content_types")).toEqual({
      content: [
        { type: "text", text: "An image and a resource follow." },
        { type: "image", data: PNG_BASE64, mimeType: "image/png" },
        { type: "resource", resource: { uri: "test://mixed", mimeType: "text/plain", text: "The resource test://mixed, embedded." } },
      ],
    });
    expect(await client.callTool("test_error_handling")).toEqual({
      content: [{ type: "text", text: "Error: this tool always fails" }],
      isError: true,
    });
  });

  it("the server's error of an unknown tool reaches the client", async () => {
    await expect(client.callTool("no_such_tool")).rejects.toMatchObject({
      code: -32602,
      message: expect.stringContaining("no_such_tool") as string,
    });
  });

  it("the client reports no errors", () => {
    expect(client.errors).toEqual([]);
  });
});

describe.each(["2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"])("the v2 client that only supports %s", (revision) => {
  it.each(["private", "shared"] as const)("a %s server works in that revision", async (lane) => {
    await using client = await InteropClient.connect("v2", sidecar.url, { lane, revision });
    const seen: number[] = [];
    const onprogress = ({ progress }: { progress: number }): void => void seen.push(progress);
    expect(client.protocolVersion).toBe(revision);
    expect(await client.toolText("test_steps", { steps: 3, text: "old" }, { onprogress })).toBe("old");
    expect(seen).toEqual([1, 2, 3]);
    expect(await client.toolText("test_simple_text")).toBe("A simple text.");
    expect(client.errors).toEqual([]);
  });
});

describe("the v2 client that tries the protocol's next era first", () => {
  it.each([
    ["declares questions", "private"],
    ["declares none", "shared"],
  ] as const)("a client that %s needs no session in front of a server with sessions", async (_what, lane) => {
    await using client = await InteropClient.connect("v2", sidecar.url, { lane, negotiation: "auto" });
    expect([client.protocolVersion, client.sessionId]).toEqual(["2026-07-28", undefined]);
    expect(await client.toolText("test_simple_text")).toBe("A simple text.");
    expect(client.errors).toEqual([]);
  });
});
