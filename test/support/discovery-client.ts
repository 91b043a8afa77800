import { Agent } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { boundedExchange, type BoundedReply } from "./bounded-exchange.ts";
import type { JsonRpcMessage } from "./json-rpc.ts";

const POLL_INTERVAL_MS = 250;
const HEALTH_TIMEOUT_MS = 120_000;
const CALL_TIMEOUT_MS = 5000;
const MAX_REPLY_BYTES = 4 * 1024 * 1024;
const PROTOCOL_VERSION = "2025-11-25";

export interface DiscoveryOptions {
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

interface ListedTool {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema?: Readonly<Record<string, unknown>>;
  readonly annotations?: Readonly<Record<string, unknown>>;
}

/** `claw discover` as pods run it, with its requests, timeouts and limits. */
export class DiscoveryClient {
  /** The status of each poll of `/healthz`. */
  readonly healthStatuses: number[] = [];
  readonly #options: DiscoveryOptions;
  readonly #agent = new Agent({ keepAlive: true });
  #onPoll: (() => void) | undefined;

  constructor(options: DiscoveryOptions) {
    this.#options = options;
  }

  /** Waits for the container and takes a snapshot. Rejects with the message for the operator. */
  async discover(): Promise<Snapshot> {
    try {
      await this.#waitForHealth();
      const initialized = await this.#request("", 1, "initialize", {
        protocolVersion: PROTOCOL_VERSION,
        capabilities: {},
        clientInfo: { name: "claw-discover", version: "dev" },
      });
      const sessionId = String(initialized.headers["mcp-session-id"] ?? "").trim();
      if (sessionId === "") throw new Error("initialize: no MCP-Session-Id header");
      const { protocolVersion } = readResult(initialized);
      await this.#post(sessionId, { jsonrpc: "2.0", method: "notifications/initialized" }, 202);
      const { tools } = readResult(await this.#request(sessionId, 2, "tools/list"));
      return this.#snapshot(protocolVersion, tools as readonly ListedTool[]);
    } finally {
      this.#agent.destroy();
    }
  }

  /** Resolves when `/healthz` has been polled this many times. */
  async polled(count: number): Promise<void> {
    while (this.healthStatuses.length < count) {
      await new Promise<void>((resolve) => {
        this.#onPoll = resolve;
      });
    }
  }

  async #waitForHealth(): Promise<void> {
    const deadlineMs = performance.now() + HEALTH_TIMEOUT_MS;
    for (;;) {
      const status = await this.#health();
      this.healthStatuses.push(status);
      this.#onPoll?.();
      if (status === 200) return;
      if (performance.now() > deadlineMs) throw new Error(`health check timed out: ${status}`);
      await delay(POLL_INTERVAL_MS);
    }
  }

  /** 0 if nothing listens yet. */
  async #health(): Promise<number> {
    try {
      const { status } = await this.#exchange("GET", "/healthz", {}, undefined);
      return status;
    } catch {
      return 0;
    }
  }

  #request(sessionId: string, id: number, method: string, params?: object): Promise<BoundedReply> {
    return this.#post(sessionId, { jsonrpc: "2.0", id, method, ...(params === undefined ? {} : { params }) }, 200);
  }

  async #post(sessionId: string, message: object, wantStatus: number): Promise<BoundedReply> {
    const { token } = this.#options;
    const headers = {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      ...(sessionId === "" ? {} : { "MCP-Session-Id": sessionId }),
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
    };
    const reply = await this.#exchange("POST", "/mcp", headers, JSON.stringify(message));
    if (reply.status !== wantStatus) throw new Error(`unexpected status ${reply.status}: ${reply.body}`);
    return reply;
  }

  #exchange(method: "GET" | "POST", path: string, headers: Record<string, string>, body: string | undefined): Promise<BoundedReply> {
    return boundedExchange(`${this.#options.origin}${path}`, {
      method,
      headers,
      maxBytes: MAX_REPLY_BYTES,
      timeoutMs: CALL_TIMEOUT_MS,
      agent: this.#agent,
      ...(body === undefined ? {} : { body }),
    });
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
