import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { type HttpCall, type HttpReply, send } from "../support/http-client.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { HttpBench } from "../support/http-bench.ts";

const TOKEN = "s3cret-Token.0123456789";
const AUTHORIZED = { Authorization: `Bearer ${TOKEN}` };
const PAGE = "http://localhost:5173";
const ORIGIN_NOT_ALLOWED = errorReply(403, -32000, "ORIGIN_NOT_ALLOWED", { data: { sent: false } });
const HOST_NOT_ALLOWED = errorReply(403, -32000, "HOST_NOT_ALLOWED", { data: { sent: false } });
const PING = '{"jsonrpc":"2.0","id":7,"method":"ping"}';
const PONG = { status: 200, contentType: "application/json", body: { jsonrpc: "2.0", id: 7, result: {} } };
const PREFLIGHT = {
  "Access-Control-Request-Method": "POST",
  "Access-Control-Request-Headers": "authorization,content-type,mcp-session-id",
};

function corsHeaders({ headers }: Pick<HttpReply, "headers">): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith("access-control-") || name === "vary"));
}

function readableBy(origin: string): Record<string, string> {
  return {
    "access-control-allow-origin": origin,
    "access-control-expose-headers": "Mcp-Session-Id,MCP-Protocol-Version,Retry-After,WWW-Authenticate",
    vary: "Origin",
  };
}

function errorMessage({ body }: HttpReply): string {
  return (JSON.parse(body) as { error: { message: string } }).error.message;
}

describe("cross-origin requests", async () => {
  const sidecar = disposeAfterAll(
    await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN }, flags: ["--max-body-bytes", "2048"] }),
  );
  const client = await sidecar.client({ headers: AUTHORIZED });

  function ping(headers: Readonly<Record<string, string>>): Promise<HttpReply> {
    return client.post(PING, { headers });
  }

  /** Returns the head of an authorized POST in the open session, for requests that an HTTP client would not send. */
  function head(target: string, ...fields: readonly string[]): string {
    return [
      `POST ${target} HTTP/1.1`,
      "Content-Type: application/json",
      `Authorization: ${AUTHORIZED.Authorization}`,
      `Mcp-Session-Id: ${client.sessionId}`,
      ...fields,
      "\r\n",
    ].join("\r\n");
  }

  async function pingRaw(target: string, ...fields: readonly string[]): Promise<HttpReply> {
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(`${head(target, ...fields, `Content-Length: ${PING.length}`)}${PING}`);
    return await connection.reply();
  }

  describe("requests from a page of this machine", () => {
    it("a preflight request without a token gets the allowed methods and headers", async () => {
      const reply = await send(sidecar.url, { method: "OPTIONS", headers: { Origin: PAGE, ...PREFLIGHT } });
      expect(reply).toMatchObject({ status: 204, body: "" });
      expect(corsHeaders(reply)).toEqual({
        ...readableBy(PAGE),
        "access-control-allow-methods": "POST,GET,DELETE,OPTIONS",
        "access-control-allow-headers":
          "Content-Type,Accept,Authorization,Mcp-Session-Id,MCP-Protocol-Version,Last-Event-ID,Mcp-Method,Mcp-Name,traceparent,tracestate,baggage",
        "access-control-max-age": "7200",
      });
    });

    it.each<[what: string, status: number, call: HttpCall]>([
      ["a missing token", 401, { headers: JSON_HEADERS, body: PING }],
      ["a body that is not JSON", 400, { headers: { ...JSON_HEADERS, ...AUTHORIZED }, body: "{" }],
      ["an unknown session", 404, { headers: { ...JSON_HEADERS, ...AUTHORIZED, "Mcp-Session-Id": "gone" }, body: PING }],
      ["an unsupported method", 405, { method: "PATCH", headers: AUTHORIZED }],
      ["a body that is too large", 413, { headers: { ...JSON_HEADERS, ...AUTHORIZED }, body: " ".repeat(2049) }],
      ["another media type", 415, { headers: { ...AUTHORIZED, "Content-Type": "text/plain" }, body: PING }],
    ])("a page may read the error for %s: %i", async (_what, status, call) => {
      const reply = await send(sidecar.url, { ...call, headers: { ...call.headers, Origin: PAGE } });
      expect(reply.status).toBe(status);
      expect(corsHeaders(reply)).toEqual(readableBy(PAGE));
    });

    it("a page may read event streams", async () => {
      using stream = await client.openStream({ headers: { Origin: PAGE } });
      expect([stream.status, stream.headers["content-type"]]).toEqual([200, "text/event-stream"]);
      expect(corsHeaders(stream)).toEqual(readableBy(PAGE));
    });

    it("a page may read that its Host header is not allowed", async () => {
      const call = { headers: { Origin: PAGE, Host: "evil.com" } };
      const replies = [await ping(call.headers), await send(sidecar.url, { ...call, method: "OPTIONS" })];
      expect(replies.map(readError)).toStrictEqual([HOST_NOT_ALLOWED, HOST_NOT_ALLOWED]);
      expect(replies.map((reply) => reply.headers["access-control-allow-origin"])).toEqual([PAGE, PAGE]);
    });
  });

  describe("requests from a page of another site", () => {
    it("a request with an allowed and a foreign Origin is rejected", async () => {
      const fields = ["Host: localhost", "Origin: http://localhost", "Origin: https://evil.com"];
      expect(readError(await pingRaw("/mcp", ...fields))).toStrictEqual(ORIGIN_NOT_ALLOWED);
    });

    it.each(["OPTIONS", "GET", "DELETE", "PUT"])("a %s request is rejected", async (method) => {
      const headers = { ...AUTHORIZED, ...PREFLIGHT, "Mcp-Session-Id": client.sessionId, Origin: "https://evil.com" };
      const reply = await send(sidecar.url, { method, headers });
      expect(readError(reply)).toStrictEqual(ORIGIN_NOT_ALLOWED);
      expect(corsHeaders(reply)).toEqual({});
      expect(readError(await ping({}))).toStrictEqual(PONG);
    });

    it.each(["/mcp/", "/mcp?x", "http://localhost/mcp"])("a request to %s is rejected", async (target) => {
      expect(readError(await pingRaw(target, "Host: localhost", "Origin: https://evil.com"))).toStrictEqual(ORIGIN_NOT_ALLOWED);
    });

    it("the error names the setting to change, and quotes nothing of a malformed origin", async () => {
      expect(errorMessage(await ping({ Origin: "https://evil.com" }))).toBe(
        'The origin "https://evil.com" is not allowed; to allow it, add it to CLAW_MCP_STDIO_ALLOWED_ORIGINS.',
      );
      for (const Origin of ["https://user:hunter2@evil.com", "https://evil.com/?key=hunter2", "https://evil.com\u0085"])
        expect(errorMessage(await ping({ Origin }))).toBe("The origin is malformed.");
    });

    it("the origin is checked before the token", async () => {
      const reply = await send(sidecar.url, { headers: { ...JSON_HEADERS, Origin: "https://evil.com" }, body: PING });
      expect(readError(reply)).toStrictEqual(ORIGIN_NOT_ALLOWED);
      expect(reply.headers).not.toHaveProperty("www-authenticate");
    });

    it("a rejection does not wait for the body, and the connection stays usable", async () => {
      using connection = await RawConnection.open(sidecar.origin);
      const length = `Content-Length: ${PING.length}`;
      await connection.write(head("/mcp", "Host: localhost", "Origin: https://evil.com", length));
      expect(readError(await connection.reply())).toStrictEqual(ORIGIN_NOT_ALLOWED);
      await connection.write(`${PING}${head("/mcp", "Host: localhost", length)}${PING}`);
      expect(readError(await connection.reply())).toStrictEqual(PONG);
    });

    it("the connection of a rejected or preflight request is closed if its body never arrives", async () => {
      const closed = async (bytes: string): Promise<string | undefined> => {
        using connection = await RawConnection.open(sidecar.origin);
        await connection.write(bytes);
        await connection.reply();
        return (await connection.rest()).end;
      };
      const refused = head("/mcp", "Host: localhost", "Origin: https://evil.com", "Content-Length: 1");
      const preflight = head("/mcp", "Host: localhost", `Origin: ${PAGE}`, "Content-Length: 1").replace("POST", "OPTIONS");
      expect(await Promise.all([closed(refused), closed(preflight)])).toEqual(["closed", "closed"]);
    });
  });

  it("a request without Origin gets no CORS headers", async () => {
    const [pong, asked] = [await ping({}), await send(sidecar.url, { method: "OPTIONS" })];
    expect(readError(pong)).toStrictEqual(PONG);
    expect(asked).toMatchObject({ status: 204, body: "", headers: { allow: "POST, GET, DELETE, OPTIONS" } });
    expect([corsHeaders(pong), corsHeaders(asked)]).toEqual([{}, {}]);
  });
});

describe("allowed origins", () => {
  it("listed origins are allowed, and no others", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--allowed-origins", "https://App.example:443, vscode-webview://0d3f"] });
    const client = await sidecar.client();
    for (const origin of ["https://app.example", "vscode-webview://0d3f"]) {
      const reply = await client.post(PING, { headers: { Origin: origin } });
      expect([readError(reply), corsHeaders(reply)]).toEqual([PONG, readableBy(origin)]);
    }
    for (const Origin of ["https://app.example:8443", "http://localhost", "null"]) {
      expect(readError(await client.post(PING, { headers: { Origin } }))).toStrictEqual(ORIGIN_NOT_ALLOWED);
    }
  });

  it("* allows every origin, and each response names its own origin", async () => {
    await using sidecar = await HttpBench.start({ env: { CLAW_MCP_STDIO_ALLOWED_ORIGINS: "*" } });
    const client = await sidecar.client();
    for (const origin of ["https://evil.com", "null"]) {
      const reply = await client.post(PING, { headers: { Origin: origin } });
      expect([readError(reply), corsHeaders(reply)]).toEqual([PONG, readableBy(origin)]);
    }
    const rebound = { Origin: "http://evil.com", Host: "evil.com" };
    expect(readError(await client.post(PING, { headers: rebound }))).toStrictEqual(HOST_NOT_ALLOWED);
  });
});
