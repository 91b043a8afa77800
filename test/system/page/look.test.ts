import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { crash } from "../../support/fixture-server.ts";
import { disposeAfterAll } from "../../support/dispose-after-all.ts";
import { EVERYTHING } from "../../support/real-servers.ts";
import { Sidecar } from "../../support/sidecar.ts";
import { BrowserPage } from "./browser.ts";

const FLAGS = ["--restart-backoff-ms", "200", "--restart-max-ms", "200"];
const PHONE = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true } as const;

/** Starts a sidecar in front of a known server, with some history. The command is shown, so it has no path. */
async function startWithHistory(): Promise<Sidecar> {
  const [, program = ""] = EVERYTHING;
  const PATH = `${join(program, "../../../../.bin")}:${process.env["PATH"]}`;
  const sidecar = await Sidecar.start({ command: ["mcp-server-everything", "stdio"], flags: FLAGS, env: { PATH } });
  const client = await sidecar.client();
  for (let index = 0; index < 20; index++) await client.callTool("echo", { message: "hi" });
  await crash(sidecar);
  await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
  for (let index = 0; index < 20; index++) await client.callTool("get-sum", { a: index, b: 1 });
  await client.request("tools/call", { name: "get-sum", arguments: { a: "one", b: 1 } });
  await client.callTool("trigger-long-running-operation", { duration: 1, steps: 2 });
  return sidecar;
}

describe("the look of the page", async () => {
  const sidecar = disposeAfterAll(await startWithHistory());

  it.each([
    ["a desktop", {}, "page"],
    ["a desktop in dark mode", { colorScheme: "dark" }, undefined],
    ["a phone", PHONE, undefined],
    ["a phone in dark mode", { ...PHONE, colorScheme: "dark" }, "page-phone"],
  ] as const)("on %s all of it is visible, and axe finds nothing", async (_device, options, name) => {
    await using browser = await BrowserPage.open(sidecar, options);
    await browser.state.getByText("Ready").waitFor();
    await browser.tool("get-sum").waitFor();
    // The bars are drawn with the first second that has passed.
    await browser.page.locator(".bars > i").first().waitFor({ state: "attached" });
    expect((await browser.screenshot(name)).length).toBeGreaterThan(10_000);
    const tool = await browser.openTool("get-sum");
    await tool.getByLabel(/^a\b/).waitFor();
    expect(await browser.axeViolations()).toEqual([]);
    expect(await browser.overflow()).toBeLessThanOrEqual(0);
    const background = await browser.page.evaluate<string>("getComputedStyle(document.body).backgroundColor");
    const isDark = Number(/\d+/.exec(background)?.[0]) < 128;
    expect(isDark).toBe("colorScheme" in options);
  });

  it("state, figures, tools and errors are on one screen", async () => {
    await using browser = await BrowserPage.open(sidecar);
    const first = browser.page.getByRole("region", { name: "Last errors" }).getByRole("listitem").first();
    const parts = [browser.state, browser.page.getByRole("img", { name: /restart/ }), browser.page.getByRole("meter"), first];
    for (const part of [...parts, browser.tool("trigger-long-running-operation")]) {
      const { y, height } = (await part.boundingBox()) ?? { y: Number.NaN, height: 0 };
      expect(y + height).toBeLessThan(800);
    }
  });

  it("a call with its result has nothing that axe objects to", async () => {
    await using browser = await BrowserPage.open(sidecar);
    const tool = await browser.openTool("get-annotated-message");
    await tool.getByRole("combobox").selectOption({ label: "success" });
    await tool.getByLabel(/^includeImage/).check();
    await browser.call(tool);
    await tool.getByRole("img").waitFor();
    expect(await browser.axeViolations()).toEqual([]);
    await tool.scrollIntoViewIfNeeded();
    await browser.screenshot("page-call");
  });

  it("a tool can be called by keyboard alone", async () => {
    await using browser = await BrowserPage.open(sidecar);
    await browser.tool("get-tiny-image").waitFor();
    const isFocused = (name: RegExp): Promise<boolean> =>
      browser.page.evaluate<string>("document.activeElement?.textContent ?? ''").then((text) => name.test(text));
    const press = async (target: RegExp): Promise<void> => {
      for (let tabs = 0; tabs < 300 && !(await isFocused(target)); tabs++) await browser.page.keyboard.press("Tab");
      expect(await isFocused(target)).toBe(true);
      await browser.page.keyboard.press("Enter");
    };
    await press(/^get-tiny-image/);
    const tool = browser.tool("get-tiny-image");
    await tool.getByRole("button", { name: "Call", exact: true }).waitFor();
    await press(/^Call$/);
    await tool.getByRole("img").waitFor();
    expect(await browser.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")).not.toBe("none");
  });
});
