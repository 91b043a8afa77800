import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { readSettings } from "../src/settings.ts";
import { httpRequest } from "../src/tools/http-request.ts";
import { WebServer } from "./web-server.ts";

const DENIED = /is not a public address, and the setting ONECLAW_PRIVATE_ADDRESSES denies it$/;

describe("http_request", () => {
  let web: WebServer;
  let other: WebServer;
  beforeAll(async () => {
    [web, other] = await Promise.all([WebServer.start(), WebServer.start()]);
  });
  afterAll(() => Promise.all([web[Symbol.asyncDispose](), other[Symbol.asyncDispose]()]));

  const request = async (args: object, env: Record<string, string> = {}, signal = new AbortController().signal): Promise<unknown> => {
    const settings = readSettings({ ONECLAW_FOLDER: "/tmp", ONECLAW_MAX_RESPONSE_BYTES: "10000", ...env }, [httpRequest]);
    return httpRequest.execute(args as never, { settings, signal });
  };

  const redirect = (to: string, status = 302, from = web): string => from.url(`/redirect/${encodeURIComponent(to)}/${status}`);
  const CREDENTIALS = { authorization: "Bearer t", cookie: "c=1", "x-api-key": "k", "private-token": "p", "user-agent": "me" };

  it("no header of the caller reaches another origin, and the final URL is named", async () => {
    expect(await request({ url: redirect(other.url("/hello")), headers: CREDENTIALS })).toMatchObject({
      status: 200,
      body: "hello",
      redirected_to: other.url("/hello"),
      redirect_note: "The headers of the call were not sent to another origin",
    });
    expect(web.seen.at(-1)?.headers).toMatchObject(CREDENTIALS);
    expectNoCredentials(other);
  });

  it("a redirect back to the first origin does not get the headers again", async () => {
    await request({ url: redirect(redirect(web.url("/hello"), 302, other)), headers: CREDENTIALS });
    expect(web.seen.at(-1)?.path).toBe("/hello");
    expectNoCredentials(web);
  });

  it("a redirect within the origin keeps the headers", async () => {
    const outcome = await request({ url: redirect("/hello"), headers: CREDENTIALS });
    expect(outcome).toMatchObject({ body: "hello", redirected_to: web.url("/hello") });
    expect(outcome).not.toHaveProperty("redirect_note");
    expect(web.seen.at(-1)?.headers).toMatchObject(CREDENTIALS);
  });

  it.each([
    ["POST", 307],
    ["POST", 308],
    ["PUT", 302],
    ["DELETE", 301],
  ])("a %s is not repeated at another origin after %i, and the redirect is the result", async (method, status) => {
    const before = other.seen.length;
    expect(await request({ url: redirect(other.url("/hello"), status), method, body: "password=p", headers: CREDENTIALS })).toMatchObject({
      status,
      headers: { location: other.url("/hello") },
      redirect_note: `The ${method} is not repeated at another origin, which is in the header location`,
    });
    expect(other.seen).toHaveLength(before);
  });

  it("a POST is repeated within its origin after 307", async () => {
    expect(await request({ url: redirect("/hello", 307), method: "POST", body: "x", headers: CREDENTIALS })).toMatchObject({ status: 200 });
    expect(web.seen.at(-1)).toMatchObject({ method: "POST", path: "/hello", body: "x", headers: CREDENTIALS });
  });

  it("a POST becomes a GET without its body at another origin after 303", async () => {
    const headers = { ...CREDENTIALS, "content-type": "text/secret" };
    expect(await request({ url: redirect(other.url("/hello"), 303), method: "POST", body: "x", headers })).toMatchObject({ body: "hello" });
    expect(other.seen.at(-1)).toMatchObject({ method: "GET", body: "" });
    expectNoCredentials(other);
  });

  function expectNoCredentials({ seen }: WebServer): void {
    const { "user-agent": agent, ...headers } = seen.at(-1)?.headers ?? {};
    expect(agent).toBe("oneclaw-tools");
    for (const name of [...Object.keys(CREDENTIALS), "content-type"]) expect(headers).not.toHaveProperty(name);
  }

  it("the header User-Agent can be replaced", async () => {
    await request({ url: web.url("/hello") });
    await request({ url: web.url("/hello"), headers: { "USER-agent": "mine" } });
    expect(web.seen.slice(-2).map(({ headers }) => headers["user-agent"])).toEqual(["oneclaw-tools", "mine"]);
  });

  it("a redirect with 303 becomes a GET without the body", async () => {
    expect(await request({ url: web.url("/see_other"), method: "POST", body: "x" })).toMatchObject({ body: "hello" });
    expect(web.seen.at(-1)).toMatchObject({ method: "GET", path: "/hello", body: "" });
  });

  it.each([
    ["a loop of redirects", "/loop", /failed: it has more than 20 redirects$/],
    [
      "a redirect to another protocol",
      `/redirect/${encodeURIComponent("file:///etc/passwd")}`,
      /failed: it redirects to a URL that is not/,
    ],
    [
      "a redirect with credentials",
      `/redirect/${encodeURIComponent("http://a:b@host/")}`,
      /failed: it redirects to a URL with credentials$/,
    ],
    ["a response that is cut", "/cut", /failed: (?:terminated|other side closed)$/],
    ["a response with the status 407", "/status/407", /failed: the response cannot be used$/],
    ["a response with an invalid status", "/invalid_status", /failed: the response has an invalid status$/],
    ["too long headers", "/long_header", /failed: Headers Overflow Error$/],
  ])("%s is a clear error", async (_what, path, message) => {
    await expect(request({ url: web.url(path) })).rejects.toThrow(message);
  });

  it("an endless body is truncated at the limit", async () => {
    expect(await request({ url: web.url("/endless") })).toMatchObject({ truncated: true, limit_bytes: 10_000 });
  });

  it("a body in chunks of a byte ends with an error", async () => {
    await expect(request({ url: web.url("/tiny") }, { ONECLAW_MAX_RESPONSE_BYTES: "100000" })).rejects.toThrow("more than 10000 parts");
  });

  it("a compressed bomb is truncated at the limit", async () => {
    expect(await request({ url: web.url("/bomb") })).toMatchObject({ body: "a".repeat(10_000), truncated: true, limit_bytes: 10_000 });
  });

  it("a binary body is described, and a text is decoded by its charset", async () => {
    expect(await request({ url: web.url("/picture") })).toMatchObject({
      body: "",
      note: "The body is binary (image/png), and is not shown",
    });
    expect(await request({ url: web.url("/latin") })).toMatchObject({ body: "café" });
    expect(await request({ url: web.url("/cookies") })).toMatchObject({ headers: { "set-cookie": "a=1, b=2" } });
  });

  it.each(["/silent", "/stalled"])("an abort ends the request of %s, and its connection", async (path) => {
    const closed = new Promise((resolve) => {
      web.server.once("request", ({ socket }: { socket: NodeJS.EventEmitter }) => socket.once("close", resolve));
    });
    const controller = new AbortController();
    const response = request({ url: web.url(path) }, {}, controller.signal);
    await once(web.server, "request");
    controller.abort();
    await expect(response).rejects.toThrow(/aborted/);
    await closed;
  });

  it("a server without TLS behind https is a clear error", async () => {
    await expect(request({ url: web.url("/").replace("http:", "https:") })).rejects.toThrow(
      /^The request to 127\.0\.0\.1:\d+ failed: .*(?:SSL|EPROTO|disconnected)/i,
    );
  });

  it.each([
    [{ url: "file:///etc/passwd" }, "The URL must be absolute"],
    [{ url: "/hello" }, "The URL must be absolute"],
    [{ url: "http://user:pass@host/" }, "The URL has credentials"],
    [{ url: "http://host/", body: "x" }, "A GET request has no body"],
    [{ url: "http://host/", headers: { "a b": "x" } }, 'The header "a b" has a name or a value'],
    [{ url: "http://host/", headers: { a: "x\r\nInjected: 1" } }, 'The header "a" has a name or a value'],
    [{ url: "http://host/", headers: { a: "✓" } }, 'The header "a" has a name or a value'],
    [{ url: "http://host/", headers: { "Transfer-Encoding": "chunked" } }, 'The header "Transfer-Encoding" cannot be set'],
    [{ url: "http://host/", headers: { Cookie: "a", cookie: "b" } }, 'The header "cookie" is set twice'],
    [{ url: "http://host/", headers: JSON.parse('{"__proto__":"x"}') as object }, 'The header "__proto__" cannot be set'],
    [{ url: "http://host/", headers: { host: "other" } }, 'The header "host" cannot be set'],
  ])("%j is a validation error", async (args, message) => {
    await expect(request(args)).rejects.toMatchObject({ type: "validation_error", message: expect.stringContaining(message) as string });
  });

  describe("without private addresses", () => {
    let server: Server;
    let connections = 0;
    beforeAll(async () => {
      server = createServer((socket) => {
        connections += 1;
        socket.destroy();
      }).listen(0, "127.0.0.1");
      await once(server, "listening");
    });
    afterAll(() => server.close());

    it.each([
      "127.0.0.1",
      "localhost",
      "[::1]",
      "[::ffff:127.0.0.1]",
      "2130706433",
      "0x7f.1",
      "0.0.0.0",
      "169.254.169.254",
      "[64:ff9b::7f00:1]",
      "[::127.0.0.1]",
      "[100:0:0:1::1]",
      "[8000::1]",
    ])("%s is denied before a connection", async (host) => {
      const { port } = server.address() as { port: number };
      await expect(request({ url: `http://${host}:${port}/` }, { ONECLAW_PRIVATE_ADDRESSES: "deny" })).rejects.toThrow(DENIED);
      expect(connections).toBe(0);
    });
  });
});
