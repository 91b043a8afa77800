import { describe, expect, it } from "vitest";
import { QUICK_RESTART } from "../../support/fixture-server.ts";
import { listedTool, type ListedTool, ListedTools } from "../../support/listed-tools.ts";
import { Sidecar } from "../../support/sidecar.ts";
import { BrowserPage } from "./browser.ts";

/** Texts that would do harm if a page took them for markup, for commands of a terminal, or for links. */
const HOSTILE = {
  script: "<script>globalThis.isHarmed = true</script>",
  image: '<img src="x" onerror="globalThis.isHarmed = true">',
  svg: '<svg onload="globalThis.isHarmed = true"><use href="data:image/svg+xml,x#x"/></svg>',
  link: "[click](javascript:globalThis.isHarmed=true) <a href='javascript:globalThis.isHarmed=true'>click</a>",
  ansi: "\u001B]8;;https://attacker.example\u0007click\u001B]8;;\u0007\u001B[2J\u001B[31mred",
  bidi: "safe\u202Eexe.lave\u2066\u200B\uFEFF\u{E0041}\uFE00",
  template: "{{constructor.constructor('globalThis.isHarmed = true')()}}${globalThis.isHarmed = true}",
} as const;
const ALL = Object.values(HOSTILE).join(" ");
const LONG = `${ALL} ${"long ".repeat(20_000)}`;

const SCHEMAS: Readonly<Record<string, unknown>> = {
  texts: {
    type: "object",
    title: ALL,
    description: LONG,
    properties: {
      text: { type: "string", title: ALL, description: ALL, default: ALL, examples: [ALL] },
      choice: { enum: [ALL, "other"], title: ALL },
      [ALL]: { type: "string" },
      // Options of the form must not come from the server.
      styled: {
        type: "string",
        "ui:widget": "hidden",
        "ui:options": { enableMarkdownInDescription: true },
        description: "[a](javascript:0)",
      },
    },
    required: ["text"],
  },
  recursive: { $ref: "#/$defs/a", $defs: { a: { type: "object", properties: { a: { $ref: "#/$defs/a" } }, required: ["a"] } } },
  loop: { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } } },
  missing: { type: "object", properties: { a: { $ref: "#/$defs/none" }, b: { $ref: "https://attacker.example/schema" } } },
  wide: { type: "object", properties: Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`p${index}`, { type: "string" }])) },
  deep: Array.from({ length: 200 }).reduce<object>((inner) => ({ type: "object", properties: { a: inner } }), { type: "string" }),
  many: { type: "object", properties: { a: { type: "array", minItems: 1_000_000, items: { type: "string" } } } },
  pattern: { type: "object", properties: { a: { type: "string", pattern: "^(a+)+$", default: `${"a".repeat(60)}!` } } },
  invalid: { type: "object", properties: { a: { type: ["no", 5], minimum: "x", enum: 7 }, b: null, __proto__: { type: "string" } } },
  list: [1, 2, 3],
  product: {
    type: "object",
    allOf: Array.from({ length: 14 }, (_, index) => ({
      anyOf: [1, 2, 3, 4].map((each) => ({ properties: { [`p${index}`]: { const: each } } })),
    })),
  },
  manyHidden: {
    type: "object",
    required: ["a"],
    properties: { a: { $ref: "#/x-defs/a" } },
    "x-defs": { a: { type: "array", minItems: 300_000, items: {} } },
  },
  url: { type: "object", properties: { a: { type: "string", format: "url", default: `http://${"a".repeat(100_000)}!` } } },
  map: {
    type: "object",
    additionalProperties: { type: "string" },
    default: Object.fromEntries(Array.from({ length: 3000 }, (_, index) => [`k${index}`, ""])),
  },
  hidden: { type: "object", properties: { a: { $ref: "#/x-hidden" } }, "x-hidden": { type: "string", pattern: "^(a+)+$" } },
  fromDefault: { type: "object", properties: { a: { default: { pattern: "^(a+)+$" } }, b: { $ref: "#/properties/a/default" } } },
  unevaluated: { type: "object", unevaluatedProperties: { pattern: "^(a+)+$" }, properties: { a: { type: "string" } } },
  filled: {
    type: "object",
    properties: { a: { type: "array", items: { type: "string" }, default: Array.from({ length: 5000 }, () => "") } },
  },
};

/** Returns a value whose indentation would be a thousand times as long as the value. */
function nested(depth: number): unknown {
  return depth === 0 ? Array.from({ length: 10_000 }, () => 1) : [nested(depth - 1)];
}

async function expectUnharmed(browser: BrowserPage): Promise<void> {
  expect(await browser.page.evaluate("globalThis.isHarmed")).toBeUndefined();
  const found =
    "document.querySelectorAll('#page script, #page iframe, #page svg, #page object, #page [onerror], #page a[href^=javascript]').length";
  expect(await browser.page.evaluate(found)).toBe(0);
  expect(await browser.overflow()).toBeLessThanOrEqual(0);
}

describe("a hostile server in a browser", () => {
  it("names, descriptions, annotations and stderr stay text, and invisible characters are shown", async () => {
    const tools = [
      { name: ALL, title: ALL, description: LONG, inputSchema: { type: "object" }, annotations: { title: ALL, readOnlyHint: ALL } },
      ...Object.values(HOSTILE).map((text) => ({ name: text, description: text, inputSchema: { type: "object" } })),
      { name: "x".repeat(100_000), description: "y".repeat(100_000), inputSchema: { type: "object" } },
      { name: "echo", inputSchema: { type: "object" } },
      { name: "echo", description: "twice", inputSchema: { type: "object" } },
      { name: 7 },
      null,
    ];
    await using listed = await ListedTools.create(tools as ListedTool[]);
    await using sidecar = await Sidecar.start({ env: listed.env, flags: QUICK_RESTART });
    const client = await sidecar.client();
    await client.callTool("stderr", { text: ALL });
    await client.callTool("stderr", { text: "z", length: 100_000 });
    await client.request("tools/call", { name: ALL });
    await client.request(ALL);
    await client.request("tools/call", { name: "exit", arguments: { code: 1 } });
    await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
    await using browser = await BrowserPage.open(sidecar);
    await browser.waitForText(/tools/, browser.page.getByRole("region", { name: "Tools" }));
    await browser.page.getByRole("article").nth(10).waitFor();
    await browser.waitForText(String.raw`safe\u202eexe.lave\u2066\u200b\ufeff\udb40\udc41\ufe00`);
    await browser.waitForText(HOSTILE.script, browser.page.getByRole("region", { name: "Log" }));
    await browser.waitForText(HOSTILE.image, browser.page.getByRole("region", { name: "Requests" }));
    await expectUnharmed(browser);
    expect(await browser.axeViolations()).toEqual([]);
  });

  it("each schema has a form or a field for JSON, and none freezes the page or shows markup", async () => {
    await using listed = await ListedTools.create(Object.entries(SCHEMAS).map(([name, inputSchema]) => ({ name, inputSchema })));
    await using sidecar = await Sidecar.start({ env: listed.env });
    await using browser = await BrowserPage.open(sidecar);
    for (const name of Object.keys(SCHEMAS)) {
      const tool = await browser.openTool(name);
      await tool.getByRole("textbox").first().waitFor();
      const toggle = tool.getByLabel("Edit as JSON");
      if ((await toggle.count()) > 0) await toggle.check();
      await tool.getByLabel("Arguments as JSON").fill('{"text":"sent"}');
      await browser.call(tool);
      await browser.waitForText(/"text":\s?"sent"/, tool.getByRole("group", { name: "Result" }));
    }
    await expectUnharmed(browser);
  });

  it("results stay text, and an image only if its format has no scripts", async () => {
    await using listed = await ListedTools.create([listedTool("raw_result")]);
    await using sidecar = await Sidecar.start({ env: listed.env });
    await using browser = await BrowserPage.open(sidecar);
    const tool = await browser.openTool("raw_result");
    await tool.getByLabel("Edit as JSON").check();
    const svg = Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" onload="globalThis.isHarmed = true"/>`).toString("base64");
    const results: readonly unknown[] = [
      { content: [{ type: "text", text: LONG }] },
      { content: [{ type: "text", text: "w".repeat(3_000_000) }] },
      { content: [{ type: "image", mimeType: "image/svg+xml", data: svg }] },
      { content: [{ type: "image", mimeType: 'image/png;base64,x"onerror="globalThis.isHarmed=true', data: "AAAA" }] },
      { content: [{ type: "image", mimeType: "text/html", data: "PHNjcmlwdD4=" }] },
      { content: [{ type: "resource_link", uri: "javascript:globalThis.isHarmed=true", name: ALL }] },
      { content: [{ type: "resource", resource: { uri: "javascript:0", mimeType: "text/html", text: HOSTILE.script } }] },
      { content: [{ type: "audio", mimeType: "audio/wav", data: "AAAA" }, { type: "unknown", x: ALL }, 5, null] },
      { content: [], structuredContent: { [ALL]: ALL }, isError: true },
      { content: "no array", structuredContent: 5 },
      { content: [{ type: "text", text: 5 }] },
      { content: [{ type: "resource", resource: { uri: { toString: 1, valueOf: 1 }, text: "x" } }] },
      { content: [], structuredContent: nested(1000) },
    ];
    for (const [index, result] of results.entries()) {
      await tool.getByLabel("Arguments as JSON").fill(JSON.stringify({ result: JSON.stringify(result) }));
      await browser.call(tool);
      await tool.getByText(/The call (?:ended|failed)|reports an error/).waitFor();
      await browser.page
        .getByRole("region", { name: "Requests" })
        .getByRole("row", { name: /raw_result/ })
        .nth(index)
        .waitFor();
      expect.soft([index, await tool.getByRole("img").count()]).toEqual([index, 0]);
    }
    await expectUnharmed(browser);
  });
});
