import { describe, expect, it } from "vitest";
import { DiscoveryClient } from "../support/discovery-client.ts";
import { Gate } from "../support/gate.ts";
import { EXAMPLE, FIXTURE, Sidecar } from "../support/sidecar.ts";

const WRAPPER_IMAGE = "example/claw-mcp-stdio:v1";
const RFC3339_UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

function discovery({ origin }: Sidecar, command: readonly string[]): DiscoveryClient {
  const [executable = "", ...args] = command;
  return new DiscoveryClient({ origin, service: "svc", command: executable, args, wrapperImage: WRAPPER_IMAGE });
}

describe("the discovery client of a pod", () => {
  it("the client takes a snapshot of the echo example", async () => {
    const command = [process.execPath, EXAMPLE];
    await using sidecar = await Sidecar.start({ command });
    expect(await discovery(sidecar, command).discover()).toEqual({
      version: 2,
      description: "svc MCP stdio tools.",
      mcp: { transport: "streamable_http", path: "/mcp" },
      tools: [
        {
          name: "echo",
          description: "Returns the text it is given.",
          inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
          annotations: { readOnlyHint: true },
        },
        {
          name: "add",
          description: "Adds two numbers.",
          inputSchema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
          annotations: { readOnlyHint: true },
        },
      ],
      "x-claw-discovery": {
        command: process.execPath,
        args: [EXAMPLE],
        wrapper_image: WRAPPER_IMAGE,
        discovered_at: expect.stringMatching(RFC3339_UTC) as string,
        mcp_protocol_version: "2025-11-25",
        tool_count: 2,
      },
    });
  });

  it("/healthz makes the client wait until a slow server is ready", async () => {
    await using gate = await Gate.create();
    const command = [process.execPath, FIXTURE, "gated"];
    await using sidecar = await Sidecar.start({ command, env: gate.env, untilReady: false });
    const client = discovery(sidecar, command);
    const discovering = client.discover();
    await client.polled(2);
    expect(client.healthStatuses).toEqual([503, 503]);

    await gate.open();
    const { tools } = await discovering;
    expect(new Set(client.healthStatuses.slice(0, -1))).toEqual(new Set([503]));
    expect(client.healthStatuses.at(-1)).toBe(200);
    // The fixture does not describe its tools.
    expect(tools).toContainEqual({ name: "echo", description: "MCP tool echo.", inputSchema: { type: "object" } });
  });
});
