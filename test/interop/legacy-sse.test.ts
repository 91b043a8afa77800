import { Client as ClientV2, SSEClientTransport as SseTransportV2 } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StreamableHTTPClientTransport, StreamableHTTPError } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { Sidecar } from "../support/sidecar.ts";

const TOKEN = "s3cret-Token.0123456789";
const INFO = { name: "interop", version: "1.0.0" };
const TOKEN_HEADERS = { Authorization: `Bearer ${TOKEN}` };
const MODEL_ANSWER = { model: "m", role: "assistant", content: { type: "text", text: "forty-two" } } as const;

/** The official client over HTTP+SSE, exactly as an application would use it. It only records errors. */
class SseClient extends Client {
  readonly errors: Error[] = [];
  override readonly onerror = (error: Error): void => void this.errors.push(error);

  constructor() {
    super(INFO);
  }

  open(url: URL): Promise<void> {
    return this.connect(new SSEClientTransport(url, { requestInit: { headers: TOKEN_HEADERS } }));
  }
}

function content(text: string): object {
  return { content: [{ type: "text", text }] };
}

/** Connects as applications do that have only a URL: with Streamable HTTP, or with HTTP+SSE if that is rejected. */
async function connectWithFallback(url: URL): Promise<{ readonly client: Client; readonly refused: unknown }> {
  const requestInit = { headers: TOKEN_HEADERS };
  try {
    const client = new Client(INFO);
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
    return { client, refused: undefined };
  } catch (refused) {
    const client = new Client(INFO);
    await client.connect(new SSEClientTransport(url, { requestInit }));
    return { client, refused };
  }
}

const sidecar = disposeAfterAll(
  await Sidecar.start({
    command: CONFORMANCE_SERVER,
    flags: ["--legacy-sse", "on"],
    env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN },
  }),
);
const url = new URL(`${sidecar.origin}/sse`);

it("an SDK client works: handshake, lists, logs and subscriptions", async () => {
  const methods: string[] = [];
  const client = new SseClient();
  client.fallbackNotificationHandler = async ({ method }) => void methods.push(method);
  await client.open(url);
  expect(client.getServerVersion()).toEqual({ name: "conformance-server", version: "1.0.0" });
  expect((await client.listTools()).tools.map(({ name }) => name)).toContain("test_tool_with_progress");
  await client.setLoggingLevel("info");
  await client.callTool({ name: "test_tool_with_logging", arguments: {} });
  expect(methods).toEqual(Array.from({ length: 3 }, () => "notifications/message"));

  await client.subscribeResource({ uri: "test://watched-resource" });
  await client.callTool({ name: "test_change_watched_resource", arguments: {} });
  expect(methods.at(-1)).toBe("notifications/resources/updated");
  await client.close();
  expect(client.errors).toEqual([]);
});

it("a client of the SDK's second generation works", async () => {
  const client = new ClientV2(INFO, { capabilities: { sampling: {} } });
  client.setRequestHandler("sampling/createMessage", () => MODEL_ANSWER);
  await client.connect(new SseTransportV2(url, { requestInit: { headers: TOKEN_HEADERS } }));
  expect((await client.listTools()).tools.map(({ name }) => name)).toContain("test_tool_with_progress");
  // Answered only after the client has seen the progress: if both arrived at once, SDK clients would remove the progress handler first.
  const seen = Promise.withResolvers<unknown>();
  const answered = client.callTool({ name: "test_wait", arguments: { name: "v2" } }, { onprogress: seen.resolve });
  await client.callTool({ name: "test_tell", arguments: { name: "v2", progress: 7 } });
  expect(await seen.promise).toMatchObject({ progress: 7 });
  await client.callTool({ name: "test_tell", arguments: { name: "v2", answer: "done" } });
  expect(await answered).toMatchObject(content("done"));
  expect(await client.callTool({ name: "test_sampling", arguments: { prompt: "?" } })).toMatchObject(content("The model said: forty-two"));
  await client.close();
});

it("a client with the stream's URL falls back to HTTP+SSE", async () => {
  const { client, refused } = await connectWithFallback(url);
  expect(refused).toBeInstanceOf(StreamableHTTPError);
  expect(refused).toMatchObject({ code: 405 });
  expect(await client.callTool({ name: "test_simple_text", arguments: {} })).toEqual(content("A simple text."));
  await client.close();
});
