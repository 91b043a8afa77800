import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { Sidecar } from "../../support/sidecar.ts";
import { BrowserPage } from "./browser.ts";

/** Serves a sidecar under a path prefix, as a proxy does. */
function underPrefix(sidecar: Sidecar): Server {
  return createServer((incoming, outgoing) => {
    const { method, headers, url = "" } = incoming;
    if (!url.startsWith("/svc/")) return outgoing.writeHead(404).end();
    const { host } = new URL(sidecar.origin);
    const passed = request(`${sidecar.origin}${url.slice("/svc".length)}`, { method, headers: { ...headers, host }, agent: false });
    passed.on("response", (response) => response.pipe(outgoing.writeHead(response.statusCode ?? 502, response.headers)));
    passed.on("error", () => outgoing.destroy());
    outgoing.on("close", () => passed.destroy());
    return incoming.pipe(passed);
  }).listen(0, "127.0.0.1");
}

it("the page shows the server and calls a tool behind a path prefix", async () => {
  await using sidecar = await Sidecar.start();
  await using proxy = underPrefix(sidecar);
  await once(proxy, "listening");
  const origin = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/svc`;
  await using browser = await BrowserPage.open({ origin });
  await browser.state.getByText("Ready").waitFor();
  await browser.waitForText(`${origin}/mcp`);
  const tool = await browser.callWithJson("echo", '{"text":"under a prefix"}');
  await browser.waitForText("under a prefix", tool.getByRole("group", { name: "Result" }));
  expect(browser.requests.filter((url) => !url.startsWith(`${origin}/`))).toEqual([]);
});
