import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { send } from "../support/http-client.ts";
import { McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const PING = '{"jsonrpc":"2.0","id":7,"method":"ping"}';
const PONG = { status: 200, contentType: "application/json", body: { jsonrpc: "2.0", id: 7, result: {} } };
const ALLOW = "POST, GET, DELETE, OPTIONS";
const NOT_FOUND = errorReply(404, -32000, "NOT_FOUND");

describe("the endpoint", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = await sidecar.client();

  describe("methods", () => {
    it.each(["PUT", "PATCH", "TRACE", "PROPFIND"])("%s gets 405 and the allowed methods", async (method) => {
      const reply = await send(client.url, { method, headers: { Accept: "text/event-stream", "Mcp-Session-Id": client.sessionId } });
      expect(readError(reply)).toStrictEqual(errorReply(405, -32000, "METHOD_NOT_ALLOWED"));
      expect(reply.headers.allow).toBe(ALLOW);
    });

    it("GET gets a stream, or 405 without a session", async () => {
      using stream = await client.openStream();
      expect([stream.status, stream.headers["content-type"]]).toEqual([200, "text/event-stream"]);
      const reply = await send(client.url, { method: "GET", headers: { Accept: "text/event-stream" } });
      expect(readError(reply)).toStrictEqual(errorReply(405, -32000, "METHOD_NOT_ALLOWED"));
      expect(reply.headers.allow).toBe("POST, DELETE, OPTIONS");
    });

    it("GET by a browser says that the URL is for MCP clients", async () => {
      const accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
      const reply = await send(client.url, { method: "GET", headers: { Accept: accept } });
      expect(readError(reply)).toStrictEqual(errorReply(400, -32000, "SESSION_REQUIRED", { client: "browser" }));
      expect(reply.body).toContain("This URL is for MCP clients, not for browsers; /readyz shows if the MCP server is ready.");
    });

    it("OPTIONS gets the allowed methods", async () => {
      const reply = await send(client.url, { method: "OPTIONS" });
      expect(reply).toMatchObject({ status: 204, body: "", headers: { allow: expect.stringMatching(/./) as string } });
      expect(reply.headers.allow?.split(", ").toSorted()).toEqual(ALLOW.split(", ").toSorted());
    });

    it("HEAD gets 405, the allowed methods and no body", async () => {
      const reply = await send(client.url, { method: "HEAD" });
      expect(reply).toMatchObject({ status: 405, body: "", headers: { allow: ALLOW, "content-type": "application/json" } });
    });
  });

  describe("paths", () => {
    it.each(["/mcp", "/mcp/", "/mcp?", "/mcp?key=value&key=other", "/mcp/?key=value"])("%s is served", async (path) => {
      const reply = await new McpClient(`${sidecar.origin}${path}`, { sessionId: client.sessionId }).post(PING);
      expect(readError(reply)).toStrictEqual(PONG);
    });

    it.each(["/mcpx", "/mcp/x", "/mcp//", "/MCP", "/sse", "//mcp", "/%6dcp", "/%", "/%E0%A4%A", "/favicon.ico", "/__proto__"])(
      "%s gets 404 in JSON",
      async (path) => {
        const reply = await new McpClient(`${sidecar.origin}${path}`, { sessionId: client.sessionId }).post(PING);
        expect(readError(reply)).toStrictEqual(NOT_FOUND);
      },
    );

    it.each(["GET", "DELETE", "OPTIONS"])("%s of an unknown path gets 404 in JSON", async (method) => {
      expect(readError(await send(`${sidecar.origin}/unknown`, { method }))).toStrictEqual(NOT_FOUND);
    });

    it("responses do not reveal the software behind them", async () => {
      const replies = await Promise.all(
        ["/mcp", "/unknown", "/healthz"].map((path) => send(`${sidecar.origin}${path}`, { method: "GET" })),
      );
      expect(replies.map(({ headers }) => headers["x-powered-by"] ?? headers["server"])).toEqual([undefined, undefined, undefined]);
    });

    it.each([
      ["/custom/endpoint.v1", "/mcp"],
      ["/", "/mcp"],
    ])("--path %s is served instead of %s", async (path, otherPath) => {
      await using other = await HttpBench.start({ flags: ["--path", path] });
      const otherClient = await new McpClient(`${other.origin}${path}`).open();
      expect(readError(await otherClient.post(PING))).toStrictEqual(PONG);
      const reply = await new McpClient(`${other.origin}${otherPath}`, { sessionId: otherClient.sessionId }).post(PING);
      expect(readError(reply)).toStrictEqual(NOT_FOUND);
      expect((await send(`${other.origin}/healthz`, { method: "GET" })).status).toBe(200);
    });
  });
});
