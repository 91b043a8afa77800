import { describe, expect, it } from "vitest";
import { OtherServer } from "../../support/other-server.ts";
import { Sidecar } from "../../support/sidecar.ts";
import { readStatus } from "../../support/status.ts";
import { BrowserPage } from "./browser.ts";

const TOKEN = "a-token-of-enough-length";

describe("the token of the page", () => {
  it("is asked for, a wrong one is refused, and the right one shows the page and calls tools", async () => {
    await using sidecar = await Sidecar.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN } });
    await using browser = await BrowserPage.open(sidecar);
    const field = browser.page.getByLabel("Token");
    await field.fill("a-wrong-token-0123456789");
    await browser.page.getByRole("button", { name: "Open" }).click();
    await browser.page.getByRole("alert").getByText("The token is wrong.").waitFor();
    expect(await browser.page.content()).not.toContain("stdio-server");
    await field.fill(TOKEN);
    await field.press("Enter");
    await browser.state.getByText("Ready").waitFor();
    const tool = await browser.callWithJson("echo", '{"text":"with a token"}');
    await browser.waitForText("with a token", tool.getByRole("group", { name: "Result" }));
    const kept = await browser.page.evaluate<string>("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])");
    expect(kept).not.toContain(TOKEN);
    expect(browser.requests.filter((url) => url.includes(TOKEN))).toEqual([]);
    await browser.page.reload();
    await field.waitFor();
  });
});

describe("a page of another origin", () => {
  it("cannot read the page's events, frame the page, or call without being allowed", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--allowed-origins", "https://app.example"] });
    await using other = await OtherServer.start((_asked, response) => {
      response.setHeader("Content-Type", "text/html").end("<!doctype html><title>other</title>");
    });
    await using browser = await BrowserPage.start();
    await browser.page.goto(other.url);
    const outcomes = await browser.page.evaluate<Record<string, string>>(`(async () => {
      const origin = ${JSON.stringify(sidecar.origin)};
      const attempt = (call) => call().then((value) => "read: " + value, () => "refused");
      const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "exit", arguments: {} } });
      const framed = document.createElement("iframe");
      framed.src = origin + "/";
      const loaded = new Promise((resolve) => (framed.onload = resolve));
      document.body.append(framed);
      await loaded;
      const events = new EventSource(origin + "/page/events");
      const opened = new Promise((resolve) => { events.onopen = () => resolve("read"); events.onerror = () => resolve("refused"); });
      return {
        page: await attempt(async () => (await fetch(origin + "/")).text()),
        events: await attempt(async () => (await fetch(origin + "/page/events")).text()),
        stream: await opened,
        post: await attempt(async () => (await fetch(origin + "/mcp", { method: "POST", body, headers: { "Content-Type": "application/json" } })).text()),
        plain: String((await fetch(origin + "/mcp", { method: "POST", body, mode: "no-cors" })).type),
        script: await new Promise((resolve) => {
          const script = document.createElement("script");
          script.src = origin + "/page/events";
          script.onload = () => resolve("read");
          script.onerror = () => resolve("refused");
          document.body.append(script);
        }),
      };
    })()`);
    const refused = Object.fromEntries(["page", "events", "stream", "post", "script"].map((name) => [name, "refused"]));
    expect(outcomes).toEqual({ ...refused, plain: "opaque" });
    const frame = browser.page.frames().find((each) => each.parentFrame() !== null);
    expect(await frame?.evaluate("document.body?.textContent ?? ''").catch(() => "")).not.toContain("claw-mcp-stdio");
    expect(await readStatus(sidecar)).toMatchObject({ generation: 1, counters: { requests: { accepted: 0 } } });
    // The browser reports each refusal.
    browser.problems.length = 0;
    browser.requests.length = 0;
  });
});
