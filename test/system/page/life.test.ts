import { describe, expect, it } from "vitest";
import { crash, QUICK_RESTART } from "../../support/fixture-server.ts";
import { freePort } from "../../support/open-sockets.ts";
import { EXAMPLE, Sidecar } from "../../support/sidecar.ts";
import { BrowserPage } from "./browser.ts";

describe("the life of a server in a browser", () => {
  it("the first load shows that the server is ready, its tools, and nothing of another origin", async () => {
    await using sidecar = await Sidecar.start({ command: [process.execPath, EXAMPLE] });
    await using browser = await BrowserPage.open(sidecar);
    await browser.state.getByText("Ready").waitFor();
    expect(await browser.page.getByRole("banner").textContent()).toContain("server.js");
    await browser.tool("echo").waitFor();
    await browser.tool("add").waitFor();
    await browser.page.waitForLoadState("load");
    expect(await browser.fileBytes()).toBeGreaterThan(1000);
    expect(await browser.fileBytes()).toBeLessThan(120 * 1024);
  });

  it("a server that is killed is shown with its exit and its successor", async () => {
    await using sidecar = await Sidecar.start({ flags: QUICK_RESTART });
    await using browser = await BrowserPage.open(sidecar);
    await browser.state.getByText("Ready").waitFor();
    await crash(sidecar);
    await browser.waitForText(/for .*, after 1 restart/, browser.page.getByRole("banner"));
    await browser.waitForText("generation 2", browser.page.getByRole("banner"));
    await browser.page.getByRole("img", { name: /^1 restart, not ready for/ }).waitFor();
    await browser.page.getByTitle(/ended by SIGKILL/).waitFor();
    const errors = browser.page.getByRole("region", { name: "Last errors" });
    await errors.getByText("ended by SIGKILL").click();
    await browser.waitForText("generation 1, SIGKILL", errors);
    await browser.waitForText("mcp server exited", browser.page.getByRole("region", { name: "Log" }));
  });

  it("a server that cannot start is shown with its reason, its last lines, and the next start", async () => {
    await using sidecar = await Sidecar.start({
      command: [process.execPath, "-e", 'console.error("no database"); process.exit(3)'],
      flags: ["--restart-backoff-ms", "60000", "--restart-max-ms", "60000"],
      untilReady: false,
    });
    await using browser = await BrowserPage.open(sidecar);
    await browser.state.getByText("Restarting").waitFor();
    await browser.waitForText(/exited with code 3/, browser.page.getByRole("banner"));
    await browser.waitForText(/next start is in \d+ s/, browser.page.getByRole("banner"));
    await browser.waitForText("no database", browser.page.getByRole("banner"));
  });

  it("requests of other clients appear with their tool and ending, without arguments and results", async () => {
    await using sidecar = await Sidecar.start();
    await using browser = await BrowserPage.open(sidecar);
    await browser.state.getByText("Ready").waitFor();
    const client = await sidecar.client();
    await client.callTool("echo", { text: "an argument" });
    await client.request("tools/call", { name: "raw_result", arguments: { result: '{"content":[],"isError":true}' } });
    const requests = browser.page.getByRole("region", { name: "Requests" });
    await requests.getByRole("row", { name: /tools\/call echo .* result/ }).waitFor();
    await requests.getByRole("row", { name: /tools\/call raw_result .* tool error/ }).waitFor();
    await browser.waitForText(/raw_result tool error/, browser.page.getByRole("region", { name: "Last errors" }).getByRole("listitem"));
    await browser.waitForText(/1 calls.*1 errors.*p95 \d+ ms/, browser.tool("raw_result"));
    expect(await browser.page.content()).not.toContain("an argument");
  });

  it("the figures and the load have the requests, sessions and processes that there are, and whether the server asks", async () => {
    await using sidecar = await Sidecar.start();
    await using browser = await BrowserPage.open(sidecar);
    await browser.tool("echo").waitFor();
    const client = await sidecar.client();
    const held = client.callTool("hang", {});
    for (let index = 0; index < 20; index++) await client.callTool("echo", { text: "a" });
    const figures = browser.page.getByRole("region", { name: "Figures" });
    // The page itself has sent two, and each session begins with one.
    await figures.getByText(/^23 requests in /).waitFor();
    await figures.getByText("0 % of requests").waitFor();
    await figures.getByText(/^slowest tool \d+ ms: echo$/).waitFor();
    await figures.getByText(/of 256.0 MiB/).waitFor();
    const load = browser.page.getByRole("region", { name: "Load" });
    const fact = (name: string): Promise<string | null> => load.getByText(name).locator("xpath=following-sibling::dd").textContent();
    const names = ["Sessions", "Requests in flight", "Requests waiting", "Server processes", "Asks its clients"];
    expect(await Promise.all(names.map(fact))).toEqual(["2", "1", "0 (0 bytes)", "1", "not yet"]);
    await client.callTool("release", {});
    await held;
  });

  it("a sidecar that ends is shown as not reachable, and its successor is found", async () => {
    const port = await freePort();
    const flags = ["--addr", `127.0.0.1:${port}`];
    await using browser = await BrowserPage.start();
    {
      await using first = await Sidecar.start({ flags });
      await browser.page.goto(`${first.origin}/`);
      await browser.state.getByText("Ready").waitFor();
    }
    await browser.state.getByText("Not connected").waitFor();
    await using second = await Sidecar.start({ flags });
    await browser.state.getByText("Ready").waitFor();
    await (await second.client()).request("tools/list");
    await browser.page.getByRole("region", { name: "Requests" }).getByText("tools/list").first().waitFor();
  });

  it("with ADMIN_ADDR the page names the address of the tools as another one", async () => {
    const port = await freePort();
    await using sidecar = await Sidecar.start({ flags: ["--admin-addr", `127.0.0.1:${port}`] });
    await using browser = await BrowserPage.open({ origin: `http://127.0.0.1:${port}` });
    await browser.state.getByText("Ready").waitFor();
    await browser.waitForText("The MCP endpoint has another address, at which clients list and call the tools.");
    expect((await fetch(`${sidecar.origin}/`)).status).toBe(404);
  });

  it("if each client gets a process of its own, the page starts none until it is asked for the tools", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--isolation", "session"] });
    await using browser = await BrowserPage.open(sidecar);
    await browser.state.getByText("Ready").waitFor();
    await browser.page.getByRole("button", { name: "List tools" }).waitFor();
    expect(sidecar.logLines.some((line) => line["lane"] === "private-1")).toBe(false);
    await browser.page.getByRole("button", { name: "List tools" }).click();
    await browser.tool("echo").waitFor();
  });
});
