import { afterAll, beforeAll, expect, it } from "vitest";
import { type RouteEntry, ROUTES } from "../../src/routes.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

let sidecar: RunningSidecar;
beforeAll(async () => {
  sidecar = await HttpBench.start({ flags: ["--legacy-sse", "on"] });
});
afterAll(() => sidecar[Symbol.asyncDispose]());

it.each(Object.values(ROUTES))("OPTIONS gets the route's methods, and other methods get 405: $path", async ({ path, methods }) => {
  const url = `${sidecar.origin}${path}`;
  const allow = [...methods, "OPTIONS"].join(", ");
  // The events of the page are for the page only.
  const headers = { "Claw-Mcp-Stdio-Page": "1" };
  const options = await send(url, { method: "OPTIONS", headers });
  expect(options).toMatchObject({ status: 204, body: "", headers: { allow } });
  const wrong = ["GET", "POST", "DELETE", "PATCH", "PUT", "TRACE", "PROPFIND"].filter(
    (method) => !(methods as readonly string[]).includes(method),
  );
  for (const method of wrong) {
    const reply = await send(url, { method, headers, body: "" });
    expect(readError(reply)).toStrictEqual(errorReply(405, -32000, "METHOD_NOT_ALLOWED"));
    expect(reply.headers.allow).toBe(allow);
  }
});

// `/` has no spelling without its slash, and each path below `/page/` may be a file.
const exact = Object.values<RouteEntry>(ROUTES).filter(({ enabledBy }) => enabledBy !== "PAGE");
it.each(exact)("only the exact path, also with one slash at its end, is served: $path", async ({ path }) => {
  const scheme = (name: string): string => `${name}://localhost:1${path}`;
  const served = [path, `${path}/`, `${path}?x`, `${path}/?x=//`, ...["http", "HTTPS", "ftp", "wss"].map(scheme)];
  for (const target of served) expect([target, (await ask(sidecar, target)).status]).toEqual([target, 204]);
  const others = [path.toUpperCase(), `${path}//`, `/${path}`, `/.${path}`, `${path}/.`, `${path}%2f`, `${path};x`, `/%${hex(path)}`];
  for (const target of others) expect(readError(await ask(sidecar, target))).toStrictEqual(errorReply(404, -32000, "NOT_FOUND"));
});

it("OPTIONS * gets the methods of all routes, and other methods get 404", async () => {
  const reply = await ask(sidecar, "*");
  expect(reply).toMatchObject({ status: 204, body: "", headers: { allow: "POST, GET, DELETE, HEAD, OPTIONS" } });
  for (const target of ["*", "/%", "/%E0%A4%A", "/favicon.ico", "/__proto__"])
    expect(readError(await ask(sidecar, target, "GET"))).toStrictEqual(errorReply(404, -32000, "NOT_FOUND"));
});

it.each([
  ["/foo/", ["/foo", "/foo/", "/foo?x", "/foo/?x"], ["/foo//", "/Foo", "/foo/x", "/mcp"]],
  ["/", ["/", "/?x", "http://localhost"], ["//", "/x", "/mcp"]],
  ["/custom/endpoint.v1", ["/custom/endpoint.v1"], ["/mcp"]],
])("PATH %s is the endpoint with and without the slash at its end", async (path, served, others) => {
  await using other = await HttpBench.start({ flags: ["--path", path] });
  for (const target of served) expect([target, (await ask(other, target)).status]).toEqual([target, 204]);
  for (const target of others) expect([target, (await ask(other, target)).status]).toEqual([target, 404]);
});

it("GET gets a stream, or 405 without a session", async () => {
  using stream = await (await sidecar.client()).openStream();
  expect([stream.status, stream.headers["content-type"]]).toEqual([200, "text/event-stream"]);
  const reply = await send(sidecar.url, { method: "GET", headers: { Accept: "text/event-stream" } });
  expect(readError(reply)).toStrictEqual(errorReply(405, -32000, "METHOD_NOT_ALLOWED"));
  expect(reply.headers.allow).toBe("POST, DELETE, OPTIONS");
});

it("GET by a browser says that the URL is for MCP clients", async () => {
  const accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
  const reply = await send(sidecar.url, { method: "GET", headers: { Accept: accept } });
  expect(readError(reply)).toStrictEqual(errorReply(400, -32000, "SESSION_REQUIRED", { client: "browser" }));
  expect(reply.body).toContain("This URL is for MCP clients, not for browsers; /readyz shows if the MCP server is ready.");
});

it("responses do not reveal the software behind them", async () => {
  const replies = await Promise.all(["/mcp", "/unknown", "/healthz"].map((path) => send(`${sidecar.origin}${path}`, { method: "GET" })));
  expect(replies.map(({ headers }) => headers["x-powered-by"] ?? headers["server"])).toEqual([undefined, undefined, undefined]);
});

it("404 names the remedy for paths that clients are known to ask for", async () => {
  await using secured = await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: "s3cret-Token.0123456789" } });
  for (const [path, remedy] of [
    ["/sse", "--legacy-sse=on"],
    ["/messages", "--legacy-sse=on"],
    ["/ping", "/livez"],
    ["/.well-known/oauth-authorization-server/mcp", "Authorization: Bearer TOKEN"],
    ["/register", "Authorization: Bearer TOKEN"],
  ] as const) {
    expect((await send(`${secured.origin}${path}`, { method: "GET" })).body).toContain(remedy);
  }
  expect((await send(`${sidecar.origin}/message`, { method: "GET" })).body).not.toContain("--legacy-sse");
  expect((await send(`${sidecar.origin}/register`, { method: "GET" })).body).not.toContain("TOKEN");
});

async function ask({ origin }: RunningSidecar, target: string, method = "OPTIONS"): Promise<HttpReply> {
  using connection = await RawConnection.open(origin);
  await connection.write(`${method} ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  return await connection.reply();
}

function hex(path: string): string {
  return path.charCodeAt(1).toString(16) + path.slice(2);
}
