import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { type BannerFacts, bannerText } from "../../../src/cli/start/banner.ts";

const FACTS: BannerFacts = {
  config: { command: "node", args: ["server.js"], path: "/mcp", authTokens: [], authTokenFile: undefined },
  version: "1.2.3",
  address: "127.0.0.1:8080",
  pageAddress: undefined,
  resultText: '{"serverInfo":{"name":"notes","version":"4.5.6"}}',
  toolNames: [],
  columns: 80,
  plain: (text) => text,
};

/** Returns its lines, without the empty ones around it. */
function linesOf(facts: Partial<BannerFacts>): string[] {
  return stripVTControlCharacters(bannerText({ ...FACTS, ...facts }))
    .trim()
    .split("\n");
}

describe("the banner", () => {
  it.each([
    ["0.0.0.0:8080", "http://localhost:8080/mcp"],
    ["[::]:8080", "http://localhost:8080/mcp"],
    ["[::1]:8080", "http://[::1]:8080/mcp"],
    ["10.0.0.0:8080", "http://10.0.0.0:8080/mcp"],
  ])("the banner shows a URL that this machine can use for %s", (address, url) => {
    const lines = linesOf({ address });
    expect(lines).toContain(`  address  ${url}`);
    expect(lines).toContainEqual(expect.stringContaining(` --cli ${url} --transport http `));
  });

  it("the banner names the page first, if there is one", () => {
    expect(linesOf({})[1]).toMatch(/^ +address /);
    expect(linesOf({ pageAddress: "0.0.0.0:9090" }).slice(1, 3)).toEqual([
      "  page     http://localhost:9090/",
      "  address  http://127.0.0.1:8080/mcp",
    ]);
  });

  it("the banner masks secrets among the arguments", () => {
    const config = { ...FACTS.config, args: ["server.js", "--api-key", "hunter2"] };
    expect(linesOf({ config })).toContain("  command  node server.js --api-key ***");
  });

  it.each([
    ['{"serverInfo":{"name":"notes","version":"4.5.6"}}', "notes 4.5.6"],
    ['{"serverInfo":{"name":"notes"}}', "notes"],
    ['{"serverInfo":{"name":7}}', "an MCP server"],
    ["{}", "an MCP server"],
  ])("the banner names the server by %s", (resultText, server) => {
    expect(linesOf({ resultText })[0]).toBe(`claw-mcp-stdio 1.2.3 serves ${server}`);
  });

  it("for a server without sessions, the line to try has the era, and the name is that of its discovery", () => {
    const meta = { "io.modelcontextprotocol/serverInfo": { name: "notes", version: "7" } };
    const lines = linesOf({ resultText: JSON.stringify({ supportedVersions: ["2026-07-28"], _meta: meta }) });
    expect(lines[0]).toBe("claw-mcp-stdio 1.2.3 serves notes 7");
    expect(lines).toContainEqual(expect.stringContaining(" --transport http --protocol-era modern --method tools/list"));
    expect(linesOf({}).join()).not.toContain("--protocol-era");
  });

  it.each([
    [80, ["add"], "1: add"],
    [21, ["add", "sub"], "2: add, …"],
    [20, ["add", "sub"], "2: …"],
    [24, ["add", "sub"], "2: add, sub"],
    [24, ["add", "sub", "mul"], "3: add, …"],
    [16, ["add"], "1: …"],
    [1, ["add", "sub"], "2: …"],
  ])("the banner of %i columns shows the tools %j as %s", (columns, toolNames, text) => {
    expect(linesOf({ columns, toolNames })).toContain(`  tools    ${text}`);
  });
});
