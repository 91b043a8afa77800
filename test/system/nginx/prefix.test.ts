import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../../support/dispose-after-all.ts";
import { EventStream } from "../../support/event-stream.ts";
import { say } from "../../support/held-call.ts";
import { SdkClient } from "../../support/sdk-client.ts";
import { Sidecar } from "../../support/sidecar.ts";
import { Nginx } from "./nginx.ts";

const TOOLS_CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';

describe("a sidecar behind a path prefix of nginx", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start({ flags: ["--legacy-sse"] }));
  const nginx = disposeAfterAll(await Nginx.start("/svc/", sidecar.address));
  const base = `${nginx.origin}/svc/`;

  it("the MCP endpoint serves calls", async () => {
    await using client = await SdkClient.connect(`${base}mcp`);
    expect(await client.callTool({ name: "echo", arguments: { text: "hi" } })).toMatchObject({ content: [{ text: "hi" }] });
    expect(await client.streamStatus).toBe(200);
  });

  it("an idle GET stream begins, and gets messages, although nginx buffers responses", async () => {
    const client = await sidecar.client();
    using stream = await EventStream.open(`${base}mcp`, { headers: { Accept: "text/event-stream", "Mcp-Session-Id": client.sessionId } });
    expect(await stream.block()).toEqual({ comment: "open" });
    await say(client, TOOLS_CHANGED);
    expect(await stream.next()).toEqual(JSON.parse(TOOLS_CHANGED));
  });

  it.each(["sse", "sse/"])("HTTP+SSE at %s names a URL under the prefix", async (path) => {
    const client = new Client({ name: "system", version: "1.0.0" });
    await client.connect(new SSEClientTransport(new URL(`${base}${path}`)));
    expect(await client.callTool({ name: "echo", arguments: { text: "hi" } })).toMatchObject({ content: [{ text: "hi" }] });
    await client.close();
  });
});
