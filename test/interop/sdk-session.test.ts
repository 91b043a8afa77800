import { McpError } from "@modelcontextprotocol/sdk/types.js";
import { StreamableHTTPError } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { describe, expect, it } from "vitest";
import { errorData } from "../support/error-reply.ts";
import { crash } from "../support/crash.ts";
import { Gate } from "../support/gate.ts";
import { waitForHanging, waitForSeen } from "../support/in-flight.ts";
import { EVERYTHING } from "../support/real-servers.ts";
import { SdkClient } from "../support/sdk-client.ts";
import { Sidecar } from "../support/sidecar.ts";

const TOKEN = "c2VjcmV0.dG9r-ZW4_~+/==";

function content(text: string): object {
  return { content: [{ type: "text", text }] };
}

describe("a session of the SDK client", () => {
  it("the handshake returns the server's own result", async () => {
    await using sidecar = await Sidecar.start();
    await using client = await SdkClient.connect(sidecar.url);
    expect(client.getServerVersion()).toEqual({ name: "fixture", version: "1.0.0" });
    expect(client.getServerCapabilities()).toEqual({ tools: {} });
    expect(client.getInstructions()).toBe("1.0");
    expect(client.http.protocolVersion).toBe("2025-11-25");
    expect(client.http.sessionId).toMatch(/^[\x21-\x7e]{16,}$/);
  });

  it("the client gets the stream that it opens", async () => {
    await using sidecar = await Sidecar.start({ command: EVERYTHING });
    await using client = await SdkClient.connect(sidecar.url);
    expect(await client.streamStatus).toBe(200);
    await client.ping();
    expect(client.errors).toEqual([]);
  });

  it("each request is answered in its own HTTP response", async () => {
    await using sidecar = await Sidecar.start();
    await using client = await SdkClient.connect(sidecar.url);
    await client.streamStatus;
    await client.listTools();
    expect(client.sent).toEqual(
      expect.arrayContaining([
        { httpMethod: "POST", method: "initialize", status: 200 },
        { httpMethod: "POST", method: "notifications/initialized", status: 202 },
        { httpMethod: "POST", method: "tools/list", status: 200 },
      ]),
    );
  });

  it("the session survives the exit of the server without a new initialize", async () => {
    await using sidecar = await Sidecar.start({ command: EVERYTHING, flags: ["--restart-backoff-ms", "1"] });
    await using client = await SdkClient.connect(sidecar.url);
    const { sessionId } = client.http;
    const tools = await client.listTools();
    await crash(sidecar);
    expect(await client.callTool({ name: "echo", arguments: { message: "again" } })).toEqual(content("Echo: again"));
    expect(await client.listTools()).toStrictEqual(tools);
    expect(client.http.sessionId).toBe(sessionId);
    expect(client.sent.filter(({ method }) => method === "initialize")).toHaveLength(1);
    expect(client.errors).toEqual([]);
  });

  it("a call in flight at a crash fails with advice on a retry", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--restart-backoff-ms", "1"] });
    await using client = await SdkClient.connect(sidecar.url);
    const error = await client.callTool({ name: "kill", arguments: {} }).catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(McpError);
    expect(error).toMatchObject({
      code: -32603,
      message: expect.stringMatching(/SIGKILL.*was sent/) as string,
      data: errorData("UPSTREAM_EXITED", { sent: true, retrySafe: false, signal: "SIGKILL" }),
    });
    expect(await client.callTool({ name: "echo", arguments: { text: "alive" } })).toEqual(content("alive"));
  });

  it("the session opens as soon as a slow server is ready", async () => {
    await using gate = await Gate.create();
    await using sidecar = await Sidecar.start({ mode: "gated", env: gate.env, untilReady: false });
    const connecting = SdkClient.connect(sidecar.url);
    await sidecar.waitForLog("mcp server started");
    await gate.open();
    await using client = await connecting;
    expect(await client.callTool({ name: "echo", arguments: { text: "at last" } })).toEqual(content("at last"));
  });

  it("the server gets the cancellation of a call", async () => {
    await using sidecar = await Sidecar.start();
    await using client = await SdkClient.connect(sidecar.url);
    const observer = await sidecar.client();
    const cancel = new AbortController();
    const hanging = client.callTool({ name: "hang", arguments: {} }, undefined, { signal: cancel.signal });
    const [wireId] = await waitForHanging(observer, 1);
    cancel.abort("no longer needed");
    await expect(hanging).rejects.toThrow("no longer needed");
    await waitForSeen(observer, `notifications/cancelled ${wireId}`);
  });

  it("the client gets no message of a call after its cancellation", async () => {
    await using sidecar = await Sidecar.start();
    await using client = await SdkClient.connect(sidecar.url);
    const cancel = new AbortController();
    const hanging = client.callTool({ name: "hang", arguments: {} }, undefined, { signal: cancel.signal });
    await waitForHanging(await sidecar.client(), 1);
    cancel.abort("no longer needed");
    await expect(hanging).rejects.toThrow("no longer needed");
    // The HTTP exchange ends nevertheless, and its end is not an error for the client.
    while (!client.sent.some(({ method }) => method === "tools/call")) await client.ping();
    await client.ping();
    expect(client.errors).toEqual([]);
  });

  it("the session ends when the client terminates it", async () => {
    await using sidecar = await Sidecar.start();
    await using client = await SdkClient.connect(sidecar.url);
    await using other = await SdkClient.connect(sidecar.url);
    const sessionId = client.http.sessionId ?? "";
    await client.http.terminateSession();
    expect(client.sent.at(-1)).toEqual({ httpMethod: "DELETE", method: undefined, status: 204 });

    await using late = await SdkClient.connect(sidecar.url, { sessionId });
    const error = await late.ping().catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(StreamableHTTPError);
    expect(error).toMatchObject({ code: 404 });
    expect(await other.ping()).toEqual({});
  });

  it("another connection can use the session with its id", async () => {
    await using sidecar = await Sidecar.start();
    await using client = await SdkClient.connect(sidecar.url);
    await using heir = await SdkClient.connect(sidecar.url, { sessionId: client.http.sessionId ?? "" });
    expect(await heir.callTool({ name: "echo", arguments: { text: "mine" } })).toEqual(content("mine"));
    expect(heir.sent.map(({ method }) => method)).toEqual(["tools/call"]);
  });

  it("the bearer token is required if one is configured", async () => {
    await using sidecar = await Sidecar.start({ command: EVERYTHING, env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN } });
    await using client = await SdkClient.connect(sidecar.url, { headers: { Authorization: `Bearer ${TOKEN}` } });
    expect(await client.streamStatus).toBe(200);
    expect(await client.callTool({ name: "echo", arguments: { message: "in" } })).toEqual(content("Echo: in"));
    expect(client.errors).toEqual([]);
    for (const headers of [{}, { Authorization: "Bearer wrong" }]) {
      const error = await SdkClient.connect(sidecar.url, { headers }).catch((cause: unknown) => cause);
      expect(error).toBeInstanceOf(StreamableHTTPError);
      expect(error).toMatchObject({ code: 401 });
    }
  });
});
