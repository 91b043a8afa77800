import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { type HttpCall, type HttpReply, send } from "../support/http-client.ts";
import { JSON_HEADERS, McpClient } from "../support/mcp-client.ts";
import { Pod } from "../support/pod.ts";
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

const sidecar = disposeAfterAll(await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN }, flags: ["--max-body-bytes", "2048"] }));
const client = await sidecar.client({ headers: AUTHORIZED });

function ping(headers: Readonly<Record<string, string>>, from = client): Promise<HttpReply> {
  return from.post(PING, { headers });
}

/** Returns the head of an authorized POST in the open session, for requests that an HTTP client would not send. @param target or a request line. */
function head(target: string, ...fields: readonly string[]): string {
  return [
    target.includes(" ") ? target : `POST ${target} HTTP/1.1`,
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

describe("cross-origin requests", () => {
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
      const asked = head("/mcp", "Host: localhost", `Origin: ${PAGE}`, "Content-Length: 1").replace("POST", "OPTIONS");
      expect(await Promise.all([closed(refused), closed(asked)])).toEqual(["closed", "closed"]);
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
    await using own = await HttpBench.start({ flags: ["--allowed-origins", "https://App.example:443, vscode-webview://0d3f"] });
    const guest = await own.client();
    for (const origin of ["https://app.example", "vscode-webview://0d3f"]) {
      const reply = await ping({ Origin: origin }, guest);
      expect([readError(reply), corsHeaders(reply)]).toEqual([PONG, readableBy(origin)]);
    }
    for (const Origin of ["https://app.example:8443", "http://localhost", "null"]) {
      expect(readError(await ping({ Origin }, guest))).toStrictEqual(ORIGIN_NOT_ALLOWED);
    }
  });

  it("* allows every origin, and each response names its own origin", async () => {
    await using own = await HttpBench.start({ env: { CLAW_MCP_STDIO_ALLOWED_ORIGINS: "*" } });
    const guest = await own.client();
    for (const origin of ["https://evil.com", "null"]) {
      const reply = await ping({ Origin: origin }, guest);
      expect([readError(reply), corsHeaders(reply)]).toEqual([PONG, readableBy(origin)]);
    }
    const rebound = { Origin: "http://evil.com", Host: "evil.com" };
    expect(readError(await ping(rebound, guest))).toStrictEqual(HOST_NOT_ALLOWED);
  });
});

it.each(["POST", "GET", "DELETE", "OPTIONS", "PUT"])("the host of a %s request is checked", async (method) => {
  const headers = { ...AUTHORIZED, "Mcp-Session-Id": client.sessionId, Host: "evil.com" };
  expect(readError(await send(sidecar.url, { method, headers }))).toStrictEqual(HOST_NOT_ALLOWED);
  expect(readError(await ping({}))).toStrictEqual(PONG);
});

it("the error names the host and the setting to change", async () => {
  expect(errorMessage(await ping({ Host: "evil.com:80" }))).toBe(
    'The host "evil.com:80" is not allowed; to allow it, add it to CLAW_MCP_STDIO_ALLOWED_HOSTS.',
  );
});

it.each([
  ["http://evil.com/mcp", "localhost"],
  ["HTTP://evil.com/mcp", "localhost"],
  ["http://localhost/mcp", "evil.com"],
  ["https://evil.com/mcp?x=/", "evil.com"],
  ["ftp://evil.com/mcp", "localhost"],
  ["http://evil.com/status", "localhost"],
])("the request line %s and the Host header %s are both checked", async (target, host) => {
  expect(readError(await pingRaw(target, `Host: ${host}`))).toStrictEqual(HOST_NOT_ALLOWED);
});

it("an HTTP/1.0 request without a host is accepted", async () => {
  expect(readError(await pingRaw("POST /mcp HTTP/1.0"))).toStrictEqual(PONG);
});

it("a pod on all interfaces accepts any host, but only local pages", async () => {
  await using pod = await Pod.start();
  const podClient = await new McpClient(`${pod.origin}/mcp`).open();
  for (const host of ["search.default.svc.cluster.local:8080", "10.1.2.3:8080", "my_service", "localhost"]) {
    expect(readError(await ping({ Host: host }, podClient))).toStrictEqual(PONG);
  }
  const rebound = { Host: "evil.com", Origin: "http://evil.com" };
  expect(readError(await ping(rebound, podClient))).toStrictEqual(ORIGIN_NOT_ALLOWED);
  expect(readError(await ping({ Host: "search:8080", Origin: PAGE }, podClient))).toStrictEqual(PONG);
});

it("* accepts every host on loopback, but gives no details to public names", async () => {
  await using open = await HttpBench.start({ env: { CLAW_MCP_STDIO_ALLOWED_HOSTS: "*" } });
  const openClient = await open.client();
  for (const host of ["mcp.example", "10.1.2.3:8080"]) expect(readError(await ping({ Host: host }, openClient))).toStrictEqual(PONG);
  const statusFor = async (host: string): Promise<number> =>
    (await send(`${open.origin}/status`, { method: "GET", headers: { Host: host } })).status;
  expect([await statusFor("mcp.example"), await statusFor("10.1.2.3:8080")]).toEqual([403, 200]);
});

/** Returns the headers that the page may send, in lower case. */
async function allowed(requested: string): Promise<string[]> {
  const headers = { ...PREFLIGHT, Origin: PAGE, "Access-Control-Request-Headers": requested };
  const reply = await send(sidecar.url, { method: "OPTIONS", headers });
  return String(reply.headers["access-control-allow-headers"]).toLowerCase().split(",");
}

it("the headers of arguments are allowed, as the page asks for them", async () => {
  const names = await allowed("content-type, mcp-param-region ,Mcp-Param-Tier");
  expect(names).toEqual(expect.arrayContaining(["mcp-param-region", "mcp-param-tier"]));
  expect((await allowed("content-type")).filter((name) => name.startsWith("mcp-param-"))).toEqual([]);
});

it.each(["x-other", "mcp-param-", "mcp-parameter", "mcp-param-a b"])("the header %s is not allowed", async (name) => {
  expect(await allowed(`content-type,${name}`)).not.toContain(name);
});

it("the page may read results, errors and the time to wait of MCP 2026-07-28", async () => {
  const page = sidecar.modernClient({ token: TOKEN, headers: { Origin: PAGE } });
  const replies = [
    await page.callTool("echo", { text: "hi" }),
    await page.request("ping"),
    await page.callTool("progress", {}, { meta: { progressToken: 1 } }),
  ];
  expect(replies.map(({ status }) => status)).toEqual([200, 404, 200]);
  for (const { headers } of replies) {
    expect(headers["access-control-allow-origin"]).toBe(PAGE);
    expect(headers["access-control-expose-headers"]).toContain("Retry-After");
  }
});
