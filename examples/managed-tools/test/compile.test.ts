import { existsSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { interpolate } from "../src/compile/pod.ts";
import { descriptorPath, PodFolder, SIDECAR_DESCRIPTOR, SIDECAR_POD, TRADING_DESCRIPTOR, TRADING_POD } from "./pod-folder.ts";

const ENVIRONMENT = { TRADING_API_TOKEN: "resolved-token-value" };
/** The documented pod with an image of its own and a token. */
const SEARCH_POD = SIDECAR_POD.replace(/image: ghcr.*/, "image: claw-mcp-stdio").replace(
  "    expose:",
  "      CLAW_MCP_STDIO_AUTH_TOKEN: ${SIDECAR_TOKEN:-a-token}\n    expose:",
);

/** Returns the problems of a pod as FILE:LINE: TEXT. */
function problemsOf(
  pod: string,
  files: Readonly<Record<string, unknown>>,
  environment: Readonly<Record<string, string>> = ENVIRONMENT,
): string[] {
  using folder = new PodFolder(pod, files);
  return folder.compile(environment).problems.map(({ file, line, text }) => `${basename(file)}:${line}: ${text}`);
}

describe("compile", () => {
  it("a manifest has the tools with the ways to execute them, and the limits", () => {
    using folder = new PodFolder(TRADING_POD, { [descriptorPath("trading-api")]: TRADING_DESCRIPTOR });
    folder.build(ENVIRONMENT);
    const manifest = JSON.parse(readFileSync(join(folder.contextFolder, "analyst/tools.json"), "utf8")) as object;
    const [{ http: _, ...tool }] = TRADING_DESCRIPTOR.tools as unknown as [Record<string, unknown>];
    expect(manifest).toEqual({
      version: 1,
      tools: [
        {
          ...tool,
          name: "trading-api.get_market_context",
          execution: {
            transport: "http",
            service: "trading-api",
            base_url: "http://trading-api:4000",
            method: "GET",
            path: "/api/v1/market_context/{claw_id}",
            auth: { type: "bearer", token: "resolved-token-value" },
          },
        },
      ],
      policy: { max_rounds: 8, timeout_per_tool_ms: 30_000, total_timeout_ms: 120_000, max_tool_result_bytes: 16_384 },
    });
  });

  it("a sidecar needs no surface, and its token comes from its own environment", () => {
    using folder = new PodFolder(SEARCH_POD, { [descriptorPath("perplexity")]: SIDECAR_DESCRIPTOR });
    expect(folder.compile().agents.map(({ manifest }) => manifest.tools.map(({ execution }) => execution))).toEqual([
      [
        {
          transport: "mcp",
          service: "perplexity",
          base_url: "http://perplexity:8080",
          path: "/mcp",
          tool: "search",
          auth: { type: "bearer", token: "a-token" },
        },
      ],
    ]);
  });

  it("the same input gives the same bytes, which only their owner may read", () => {
    using folder = new PodFolder(TRADING_POD, { [descriptorPath("trading-api")]: TRADING_DESCRIPTOR });
    const file = join(folder.contextFolder, "executor/tools.json");
    folder.build(ENVIRONMENT);
    const first = readFileSync(file);
    folder.build(ENVIRONMENT);
    expect(readFileSync(file).equals(first)).toBe(true);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it("the contract of an agent has a section of its tools, and keeps its other sections", () => {
    using folder = new PodFolder(TRADING_POD, {
      [descriptorPath("trading-api")]: TRADING_DESCRIPTOR,
      "context/analyst/CLAWDAPUS.md": "# Analyst\n\n## Tools\n\nold\n\n## Skills\n\nkept\n",
    });
    folder.build(ENVIRONMENT);
    const text = readFileSync(join(folder.contextFolder, "analyst/CLAWDAPUS.md"), "utf8");
    expect(text).toMatch(/^# Analyst\n\n## Tools\n/);
    expect(text).toContain("- `trading-api.get_market_context` (reads only): Retrieve agent-scoped market context");
    expect(text).toContain("## Skills\n\nkept\n");
    expect(text).not.toContain("old");
    expect(statSync(join(folder.contextFolder, "analyst/CLAWDAPUS.md")).mode & 0o777).toBe(0o644);
  });

  it("an agent that loses its tools loses its manifest", () => {
    using folder = new PodFolder(TRADING_POD, { [descriptorPath("trading-api")]: TRADING_DESCRIPTOR });
    folder.build(ENVIRONMENT);
    folder.write("claw-pod.yml", TRADING_POD.replace(/      tools:\n        - service: trading-api\n          allow:\n.*\n/, ""));
    folder.build(ENVIRONMENT);
    expect(existsSync(join(folder.contextFolder, "analyst/tools.json"))).toBe(false);
    expect(existsSync(join(folder.contextFolder, "executor/tools.json"))).toBe(true);
  });

  it("a section of tools ends before any other section, and goes with the agent", () => {
    const contract = "# Analyst\n\n## Tools\n\nold\n\n# Appendix\n\nkept\n";
    using folder = new PodFolder(TRADING_POD, {
      [descriptorPath("trading-api")]: TRADING_DESCRIPTOR,
      "context/analyst/CLAWDAPUS.md": contract,
      "context/former/CLAWDAPUS.md": contract,
      "context/former/tools.json": "{}",
    });
    folder.build(ENVIRONMENT);
    expect(readFileSync(join(folder.contextFolder, "analyst/CLAWDAPUS.md"), "utf8")).toMatch(/## Tools\n[^#]*# Appendix\n\nkept\n$/);
    expect(readFileSync(join(folder.contextFolder, "former/CLAWDAPUS.md"), "utf8")).toBe("# Analyst\n\n# Appendix\n\nkept\n");
    expect(existsSync(join(folder.contextFolder, "former/tools.json"))).toBe(false);
  });

  it("anchors and merged mappings are read as Compose reads them", () => {
    const pod = TRADING_POD.replace("      cllama: passthrough\n", "      <<: &proxied { cllama: passthrough }\n").replace(
      "      cllama: passthrough\n",
      "      <<: *proxied\n",
    );
    using folder = new PodFolder(pod, { [descriptorPath("trading-api")]: TRADING_DESCRIPTOR });
    expect(folder.compile(ENVIRONMENT).agents.map(({ name }) => name)).toEqual(["analyst", "executor"]);
  });

  it.each([
    ["$A", "a"],
    ["${A}", "a"],
    ["$$A", "$A"],
    ["${NONE:-x${A}}", "xa"],
    ["${EMPTY:-x}", "x"],
    ["${EMPTY-x}", ""],
    ["${NONE-x}", "x"],
    ["${A:+x}", "x"],
    ["${EMPTY:+x}", ""],
    ["${EMPTY+x}", "x"],
    ["${NONE}", undefined],
    ["${NONE:?must be set}", undefined],
    ["${A:?must be set}", "a"],
    ["{A} $ 1", "{A} $ 1"],
  ])("the text %s becomes %j, as in Compose", (text, result) => {
    expect(interpolate(text, { A: "a", EMPTY: "" })).toBe(result);
  });

  it("agents inherit the tools of the pod, and may add to them or replace them", () => {
    const agent = (name: string, tools: string): string =>
      `  ${name}:\n    x-claw:\n      cllama: passthrough\n      surfaces: ["service://trading-api"]\n${tools}`;
    const pod = `x-claw:
  pod: trading-desk
  tools-policy:
    max-rounds: 3
  tools-defaults:
    - service: trading-api
      allow: [get_market_context]
services:
${agent("heir", "")}${agent("adder", "      tools: [..., { service: trading-api, allow: [execute_trade] }]\n")}${agent("none", "      tools: []\n")}
  trading-api:
    expose: [4000]
    x-claw:
      describe-file: trading.json
`;
    using folder = new PodFolder(pod, { "trading.json": TRADING_DESCRIPTOR });
    const { agents, problems } = folder.compile(ENVIRONMENT);
    expect(problems).toEqual([]);
    expect(agents.map(({ name, manifest }) => [name, manifest.tools.length, manifest.policy.max_rounds])).toEqual([
      ["heir", 1, 3],
      ["adder", 2, 3],
      ["none", 0, 3],
    ]);
  });
});

describe("compile rejects", () => {
  const files = { [descriptorPath("trading-api")]: TRADING_DESCRIPTOR };

  it.each([
    [
      "tools without a proxy",
      [["      cllama: passthrough\n      surfaces", "      surfaces"]],
      /^claw-pod\.yml:8: analyst has tools, but no cllama/,
    ],
    [
      "a tool that the service lacks",
      [["- get_market_context", "- get_market"]],
      /^claw-pod\.yml:12: trading-api has no tool get_market; it has get_/,
    ],
    [
      "a service that the pod lacks",
      [["- service: trading-api\n          allow:\n", "- service: api\n          allow:\n"]],
      /^claw-pod\.yml:10: the pod has no service api$/,
    ],
    [
      "a missing surface",
      [["      surfaces:\n        - service://trading-api\n      tools", "      tools"]],
      /^claw-pod\.yml:8: analyst may not reach trading-api/,
    ],
    ["tools that are not granted by name", [["allow: all", "allow: any"]], /^claw-pod\.yml:23: .*expected all, or a list of names/],
    [
      "inherited tools of a pod without any",
      [["      tools:\n        - service", "      tools:\n        - ...\n        - service"]],
      /^claw-pod\.yml:10: \.\.\. inherits tools-defaults, which the pod lacks$/,
    ],
    ["a service without a port", [['    expose:\n      - "4000"\n', ""]], /^claw-pod\.yml:25: trading-api has tools, but exposes no port$/],
    [
      "a port that is none",
      [['- "4000"', '- "4000-4010"']],
      /^claw-pod\.yml:27: trading-api has tools, but exposes 4000-4010, which is not one TCP port$/,
    ],
    ["a proxy without a name", [["cllama: passthrough", 'cllama: ""']], /^claw-pod\.yml:6: /],
    ["an alias without an anchor", [["allow: all", "allow: *all"]], /^claw-pod\.yml:\d+: .*all/],
    [
      "an agent that would have a folder elsewhere",
      [["  analyst:", "  ../analyst:"]],
      /^claw-pod\.yml:2: \.\.\/analyst cannot be the name of a folder$/,
    ],
    ["a pod that is not YAML", [["services:", "services: ["]], /^claw-pod\.yml:\d+: /],
  ] as const)("%s", (_name, changes, problem) => {
    let pod = TRADING_POD;
    for (const [from, to] of changes) pod = pod.replace(from, to);
    expect(pod).not.toBe(TRADING_POD);
    expect(problemsOf(pod, files).at(0)).toMatch(problem);
  });

  it("a service without a descriptor", () => {
    expect(problemsOf(TRADING_POD, {})).toEqual(["claw-pod.yml:25: trading-api has no descriptor; name one with x-claw.describe-file"]);
  });

  it("an address of a service that the pod lacks", () => {
    using folder = new PodFolder(TRADING_POD, files);
    expect(folder.compile(ENVIRONMENT, { api: "http://127.0.0.1:1" }).problems.map(({ text }) => text)).toEqual([
      "the pod has no service api",
    ]);
  });

  it.each(["two\nlines", "a b", "schlüssel"])("the token %j, which no header can have", (token) => {
    expect(problemsOf(TRADING_POD, files, { TRADING_API_TOKEN: token })).toEqual([
      expect.stringMatching(/: the variable TRADING_API_TOKEN cannot be sent as a token$/),
    ]);
    expect(problemsOf(SEARCH_POD, { [descriptorPath("perplexity")]: SIDECAR_DESCRIPTOR }, { SIDECAR_TOKEN: token })).toEqual([
      "claw-pod.yml:4: CLAW_MCP_STDIO_AUTH_TOKEN of perplexity cannot be sent as a token",
    ]);
  });

  it("a token that is not in the environment", () => {
    expect(problemsOf(TRADING_POD, files, {})).toEqual([
      expect.stringMatching(/^trading-api\.claw-describe\.json:\d+: the variable TRADING_API_TOKEN is not set$/),
    ]);
  });

  it.each([
    ["of version 1", { version: 1 }, /version: only version 2 has tools/],
    [
      "with a placeholder that is no property",
      { tools: [{ name: "a", http: { method: "GET", path: "/{id}" } }] },
      /the tool a has \{id\} in its path/,
    ],
    ["with a tool that cannot be executed", { tools: [{ name: "a" }] }, /the tool a has no http, and the descriptor has no mcp/],
    ["with a body for GET", { tools: [{ name: "a", http: { method: "GET", path: "/", body: "json" } }] }, /the tool a has a body/],
    ["with arguments that are no object", { tools: [{ name: "a", inputSchema: { type: "string" } }] }, /inputSchema\.type: /],
    [
      "with a placeholder of other characters that is no property",
      { tools: [{ name: "a", http: { method: "GET", path: "/{claw-id}" } }] },
      /the tool a has \{claw-id\} in its path/,
    ],
    ["with two tools of one name", { tools: [TRADING_DESCRIPTOR.tools[0], TRADING_DESCRIPTOR.tools[0]] }, /is declared twice/],
  ])("a descriptor %s", (_name, change, problem) => {
    expect(problemsOf(TRADING_POD, { [descriptorPath("trading-api")]: { ...TRADING_DESCRIPTOR, ...change } }).join("\n")).toMatch(problem);
  });

  it.each([
    [{ args: ["-y", "other-mcp"] }, 'args ["-y","other-mcp"], and the pod has ["-y","perplexity-mcp"]'],
    [{ command: "uvx" }, 'command "uvx", and the pod has "npx"'],
    [{ wrapper_image: "claw-mcp-stdio:v2" }, 'image "claw-mcp-stdio:v2", and the pod has "claw-mcp-stdio"'],
  ])("a snapshot of another server: %j", (change, difference) => {
    const discovery = { command: "npx", args: ["-y", "perplexity-mcp"], wrapper_image: "claw-mcp-stdio", ...change };
    const descriptor = { ...SIDECAR_DESCRIPTOR, "x-claw-discovery": discovery };
    expect(problemsOf(SEARCH_POD, { [descriptorPath("perplexity")]: descriptor })).toEqual([
      expect.stringContaining(`the snapshot is of ${difference}; record it with claw discover perplexity`),
    ]);
  });

  it.each(["tools", "cllama"])("%s outside of x-claw", (key) => {
    const pod = TRADING_POD.replace("  analyst:\n", `  analyst:\n    ${key}: []\n`);
    expect(problemsOf(pod, files)).toEqual([`claw-pod.yml:3: ${key} belongs below x-claw`]);
  });
});
