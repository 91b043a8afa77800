import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { discoverSnapshot, listTools, runDiscover } from "../support/discover.ts";
import { META, MODERN_VERSION } from "../support/modern-client.ts";
import { OtherServer } from "../support/other-server.ts";
import { FIXTURE } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const PAGES = [[{ name: "a", annotations: { readOnly: true } }], [{ name: "b" }]];
const NAMES = ["a", "b"];

/** Rejects `initialize` in the way that the parameter names, and `server/discover` too. */
function rejectAll(response: ServerResponse, id: number | undefined, error: object): void {
  response.writeHead(400, { "Content-Type": "application/json" }).end(JSON.stringify({ jsonrpc: "2.0", id, error }));
}

function fixture(mode: string): readonly string[] {
  return [process.execPath, FIXTURE, mode];
}

describe("discover", () => {
  it("a server without sessions is listed, with its revision", async () => {
    await using directory = await TempDir.create();
    const snapshot = await discoverSnapshot(fixture("modern-only"), await listTools(directory, ...PAGES));
    expect(snapshot.tools.map(({ name }) => name)).toEqual(NAMES);
    expect(snapshot["x-claw-discovery"]).toMatchObject({ mcp_protocol_version: MODERN_VERSION, tool_count: 2 });
  });

  it.each(["dual", "pinned-by-discover", "exits-on-discover"])(
    "a server in mode %s is listed as clients of sessions see it",
    async (mode) => {
      await using directory = await TempDir.create();
      const snapshot = await discoverSnapshot(fixture(mode), await listTools(directory, ...PAGES));
      expect(snapshot.tools.map(({ name }) => name)).toEqual(NAMES);
      expect(snapshot["x-claw-discovery"]["mcp_protocol_version"]).toBe("2025-11-25");
    },
  );
});

describe("discover --url", () => {
  it("a server that rejects initialize with its revisions gets requests without a session", async () => {
    await using server = await OtherServer.start(({ message: { id, method } }, response) => {
      if (method === "initialize") return rejectAll(response, id, { code: -32022, message: "no", data: { supported: [MODERN_VERSION] } });
      const result =
        method === "server/discover" ? { supportedVersions: [MODERN_VERSION], capabilities: { tools: {} } } : { tools: [{ name: "a" }] };
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.end(`data: ${JSON.stringify({ jsonrpc: "2.0", id, result: { resultType: "complete", ...result } })}\n\n`);
    });
    expect((await discoverSnapshot(["--url", server.url])).tools.map(({ name }) => name)).toEqual(["a"]);
    const [, ...requests] = server.asked;
    expect(requests.map(({ headers }) => [headers["mcp-method"], headers["mcp-protocol-version"]])).toEqual([
      ["server/discover", MODERN_VERSION],
      ["tools/list", MODERN_VERSION],
    ]);
    for (const { message } of requests) {
      expect(message.params?.["_meta"]).toMatchObject({ [META.protocolVersion]: MODERN_VERSION, [META.clientCapabilities]: {} });
    }
  });

  it("another error of initialize is reported without further requests", async () => {
    await using server = await OtherServer.start(({ message: { id } }, response) =>
      rejectAll(response, id, { code: -32602, message: "no" }),
    );
    expect((await runDiscover(["--url", server.url])).stderr).toContain(": initialize: HTTP 400 Bad Request: no\n");
    expect(server.asked).toHaveLength(1);
  });
});
