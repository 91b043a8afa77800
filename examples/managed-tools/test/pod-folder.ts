import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { compile, type Compiled } from "../src/compile/compile.ts";
import { writeAgents } from "../src/compile/write.ts";

/** An example of the documentation of managed tools: tools over HTTP. */
export const TRADING_DESCRIPTOR = {
  version: 2,
  description: "Trading Desk API",
  tools: [
    {
      name: "get_market_context",
      description: "Retrieve agent-scoped market context: positions, balance, buying power",
      inputSchema: {
        type: "object",
        properties: { claw_id: { type: "string", description: "Agent identifier" } },
        required: ["claw_id"],
      },
      http: { method: "GET", path: "/api/v1/market_context/{claw_id}" },
      annotations: { readOnly: true },
    },
    {
      name: "execute_trade",
      description: "Execute a market order",
      inputSchema: {
        type: "object",
        properties: { symbol: { type: "string" }, side: { type: "string", enum: ["buy", "sell"] }, quantity: { type: "number" } },
        required: ["symbol", "side", "quantity"],
      },
      http: { method: "POST", path: "/api/v1/trades", body: "json" },
      annotations: { readOnly: false },
    },
  ],
  auth: { type: "bearer", env: "TRADING_API_TOKEN" },
};

export const TRADING_POD = `services:
  analyst:
    image: analyst:latest
    x-claw:
      agent: ./AGENTS.md
      cllama: passthrough
      surfaces:
        - service://trading-api
      tools:
        - service: trading-api
          allow:
            - get_market_context   # read-only access

  executor:
    image: executor:latest
    x-claw:
      agent: ./agents/executor/AGENTS.md
      cllama: passthrough
      surfaces:
        - service://trading-api
      tools:
        - service: trading-api
          allow: all               # full access

  trading-api:
    image: trading-api:latest
    expose:
      - "4000"
`;

/** Another one: an MCP server behind a sidecar. */
export const SIDECAR_POD = `services:
  perplexity:
    image: ghcr.io/mostlydev/claw-mcp-stdio:v0.12.0
    environment:
      PERPLEXITY_API_KEY: \${PERPLEXITY_KEY}
    expose:
      - "8080"
    x-claw:
      mcp-stdio:
        command: npx
        args: ["-y", "perplexity-mcp"]

  analyst:
    image: analyst:latest
    x-claw:
      cllama: passthrough
      tools:
        - service: perplexity
          allow: [search]
`;

export const SIDECAR_DESCRIPTOR = {
  version: 2,
  mcp: { transport: "streamable_http", path: "/mcp" },
  tools: [
    {
      name: "search",
      description: "Search the web with Perplexity.",
      inputSchema: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
    },
  ],
};

/** The place of a descriptor that the pod does not name. */
export function descriptorPath(service: string): string {
  return `.claw-discovered/${service}.claw-describe.json`;
}

/** A folder with a pod, which is compiled into it. */
export class PodFolder implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), "managed-tools-test-"));

  constructor(pod: string, files: Readonly<Record<string, unknown>> = {}) {
    this.write("claw-pod.yml", pod);
    for (const [name, content] of Object.entries(files)) this.write(name, content);
  }

  /** @param content a text, or a value that becomes JSON. */
  write(name: string, content: unknown): void {
    const file = join(this.path, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content, null, 2));
  }

  get contextFolder(): string {
    return join(this.path, "context");
  }

  compile(environment: Readonly<Record<string, string>> = {}, urls: Readonly<Record<string, string>> = {}): Compiled {
    return compile(join(this.path, "claw-pod.yml"), environment, new Map(Object.entries(urls)));
  }

  /** Compiles into `contextFolder`. @throws Error if there are problems. */
  build(environment?: Readonly<Record<string, string>>, urls?: Readonly<Record<string, string>>): void {
    const { agents, problems } = this.compile(environment, urls);
    if (problems.length > 0) throw new Error(JSON.stringify(problems));
    writeAgents(this.contextFolder, agents);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true });
  }
}
