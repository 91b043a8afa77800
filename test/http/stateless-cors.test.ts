import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { failureOf } from "../support/error-reply.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const PAGE = "http://localhost:5173";

const sidecar = disposeAfterAll(await HttpBench.start());
const page = sidecar.modernClient({ headers: { Origin: PAGE } });

async function preflight(requested: string, origin = PAGE): Promise<HttpReply> {
  const headers = { Origin: origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": requested };
  return send(sidecar.url, { method: "OPTIONS", headers });
}

/** Returns the headers that the page may send, in lower case. */
async function allowed(requested: string): Promise<string[]> {
  return String((await preflight(requested)).headers["access-control-allow-headers"])
    .toLowerCase()
    .split(",");
}

it("the headers of 2026-07-28 are allowed", async () => {
  const names = await allowed("content-type,mcp-method,mcp-name,mcp-protocol-version");
  expect(names).toEqual(expect.arrayContaining(["content-type", "authorization", "mcp-method", "mcp-name", "mcp-protocol-version"]));
});

it("the headers of arguments are allowed, as the page asks for them", async () => {
  const names = await allowed("content-type, mcp-param-region ,Mcp-Param-Tier");
  expect(names).toEqual(expect.arrayContaining(["mcp-param-region", "mcp-param-tier"]));
  expect((await allowed("content-type")).filter((name) => name.startsWith("mcp-param-"))).toEqual([]);
});

it.each(["x-other", "mcp-param-", "mcp-parameter", "mcp-param-a b"])("the header %s is not allowed", async (name) => {
  expect(await allowed(`content-type,${name}`)).not.toContain(name);
});

it("a page of another site gets no headers", async () => {
  const reply = await preflight("mcp-method,mcp-param-region", "https://evil.com");
  expect(failureOf(reply)).toEqual([403, -32000, "ORIGIN_NOT_ALLOWED"]);
  expect(Object.keys(reply.headers).filter((name) => name.startsWith("access-control-"))).toEqual([]);
});

it("the page may read results, errors and the time to wait", async () => {
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
