import { Agent } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { type BoundedReply, boundedReply } from "./bounded-exchange.ts";
import { Changes } from "./changes.ts";
import type { JsonRpcMessage } from "./json-rpc.ts";

const POLL_INTERVAL_MS = 250;
const HEALTH_TIMEOUT_MS = 120_000;
const LIMITS = { timeoutMs: 5000, maxBytes: 4 * 1024 * 1024 };
const CLIENT = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "claw-discover", version: "dev" } };

interface DiscoveryOptions {
  readonly origin: string;
  readonly token?: string;
  readonly service: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly wrapperImage: string;
}

interface SnapshotTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  readonly annotations?: Readonly<Record<string, unknown>>;
}

export interface Snapshot {
  readonly version: 2;
  readonly description: string;
  readonly mcp: { readonly transport: "streamable_http"; readonly path: string };
  readonly tools: readonly SnapshotTool[];
  readonly "x-claw-discovery": Readonly<Record<string, unknown>>;
}

type ListedTool = Pick<SnapshotTool, "name"> & Partial<SnapshotTool>;

/** `claw discover` as pods run it, with its requests, timeouts and limits. */
export class DiscoveryClient {
  /** The status of each poll of `/healthz`; 0 if nothing listened. */
  readonly healthStatuses: number[] = [];
  readonly #options: DiscoveryOptions;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #changes = new Changes();

  constructor(options: DiscoveryOptions) {
    this.#options = options;
  }

  /** Waits for the container and takes a snapshot. Rejects with the message for the operator. */
  async discover(): Promise<Snapshot> {
    try {
      await this.#waitForHealth();
      const initialized = await this.#post({ id: 1, method: "initialize", params: CLIENT });
      const sessionId = String(initialized.headers["mcp-session-id"] ?? "").trim();
      if (sessionId === "") throw new Error("initialize: no MCP-Session-Id header");
      const { protocolVersion } = readResult(initialized);
      const session = { "MCP-Session-Id": sessionId };
      await this.#post({ method: "notifications/initialized" }, session, 202);
      const { tools } = readResult(await this.#post({ id: 2, method: "tools/list" }, session));
      return this.#snapshot(protocolVersion, tools as readonly ListedTool[]);
    } finally {
      this.#agent.destroy();
    }
  }

  async polled(count: number): Promise<void> {
    await this.#changes.until(() => this.healthStatuses.length >= count || undefined, `${count} polls`);
  }

  async #waitForHealth(): Promise<void> {
    const deadlineMs = performance.now() + HEALTH_TIMEOUT_MS;
    for (;;) {
      const status = await this.#reply("/healthz", { method: "GET" }).then(
        (reply) => reply.status,
        () => 0,
      );
      this.healthStatuses.push(status);
      this.#changes.notify();
      if (status === 200) return;
      if (performance.now() > deadlineMs) throw new Error(`health check timed out: ${status}`);
      await delay(POLL_INTERVAL_MS);
    }
  }

  async #post(message: object, session: Readonly<Record<string, string>> = {}, wantStatus = 200): Promise<BoundedReply> {
    const { token } = this.#options;
    const headers = {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      ...session,
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
    };
    const reply = await this.#reply("/mcp", { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
    if (reply.status !== wantStatus) throw new Error(`unexpected status ${reply.status}: ${reply.body}`);
    return reply;
  }

  #reply(path: string, call: object): Promise<BoundedReply> {
    return boundedReply(`${this.#options.origin}${path}`, { ...call, ...LIMITS, agent: this.#agent });
  }

  #snapshot(protocolVersion: unknown, listed: readonly ListedTool[]): Snapshot {
    const { service, command, args, wrapperImage } = this.#options;
    const tools = listed.map(({ name, description = "", inputSchema, annotations }) => ({
      name: name.trim(),
      description: description.trim() === "" ? `MCP tool ${name.trim()}.` : description.trim(),
      inputSchema: inputSchema === undefined ? { type: "object", properties: {} } : { type: "object", ...inputSchema },
      ...(annotations === undefined ? {} : { annotations }),
    }));
    return {
      version: 2,
      description: `${service} MCP stdio tools.`,
      mcp: { transport: "streamable_http", path: "/mcp" },
      tools,
      "x-claw-discovery": {
        command,
        args,
        wrapper_image: wrapperImage,
        discovered_at: new Date().toISOString().replace(/\.\d+Z$/, "Z"),
        mcp_protocol_version: protocolVersion,
        tool_count: tools.length,
      },
    };
  }
}

/** Parses the body as one JSON value: an event stream, or a body truncated at the limit, is an error. */
function readResult({ headers, body, isTruncated }: BoundedReply): Readonly<Record<string, unknown>> {
  if (headers["content-type"] !== "application/json") throw new Error(`not plain JSON: ${headers["content-type"]}`);
  if (isTruncated) throw new Error("the reply is too long");
  const { result, error } = JSON.parse(body) as JsonRpcMessage;
  if (error !== undefined) throw new Error(`${error.message} (code ${error.code})`);
  if (result === undefined) throw new Error("JSON-RPC response missing result");
  return result;
}
