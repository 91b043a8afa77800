import { Agent } from "node:http";
import { boundedReply, type BoundedReply } from "./bounded-exchange.ts";
import { type JsonRpcMessage, readMessages } from "./json-rpc.ts";

const PROTOCOL_VERSION = "2025-11-25";
const MAX_REPLY_BYTES = 16_384;
export const CALL_TIMEOUT_MS = 30_000;

/** The text that the model gets after a call. */
export type Outcome =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly code: string; readonly message: string; readonly details?: unknown };

interface ConsumerSession {
  readonly id: string;
  readonly protocolVersion: string;
}

/**
 * The consumer in a pod, as pods run it. Simultaneous calls without a session each open one, and the last one stays: there is no lock. Its
 * texts about failures are what a model reads.
 */
export class ConsumerClient implements Disposable {
  sessionsOpened = 0;
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #agent = new Agent({ keepAlive: true, maxFreeSockets: 2 });
  #session: ConsumerSession | undefined;

  constructor(url: string, { token }: { readonly token?: string } = {}) {
    this.#url = url;
    this.#token = token;
  }

  /** The session of the next call. */
  get sessionId(): string | undefined {
    return this.#session?.id;
  }

  /** Calls a tool by its bare name. Never rejects: every failure becomes a text. */
  async call(name: string, args: object = {}): Promise<Outcome> {
    const deadlineMs = performance.now() + CALL_TIMEOUT_MS;
    try {
      const reply = await this.#callOnce(name, args, deadlineMs);
      if (reply.status !== 400 && reply.status !== 404) return readOutcome(reply);
      this.#session = undefined;
      return readOutcome(await this.#callOnce(name, args, deadlineMs));
    } catch (error) {
      if (error instanceof Error && (error.name === "TimeoutError" || error.name === "AbortError")) {
        return { ok: false, code: "timeout", message: `Service did not respond within ${CALL_TIMEOUT_MS} ms` };
      }
      if (error instanceof HttpFailure) return error.outcome;
      return { ok: false, code: "request_failed", message: String(error) };
    }
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }

  async #callOnce(name: string, args: object, deadlineMs: number): Promise<BoundedReply> {
    const session = this.#session ?? (await this.#open(deadlineMs));
    const message = { jsonrpc: "2.0", id: 2, method: "tools/call", params: { name, arguments: args } };
    return this.#post(message, { "MCP-Method": "tools/call", "MCP-Name": name, ...sessionHeaders(session) }, deadlineMs);
  }

  async #open(deadlineMs: number): Promise<ConsumerSession> {
    const params = { protocolVersion: PROTOCOL_VERSION, capabilities: {}, clientInfo: { name: "cllama", version: "clawdapus" } };
    const reply = await this.#post({ jsonrpc: "2.0", id: 1, method: "initialize", params }, { "MCP-Method": "initialize" }, deadlineMs);
    if (reply.status < 200 || reply.status > 299) throw new HttpFailure(reply);
    const { result } = readJsonRpc(reply, 1);
    const session = {
      id: String(reply.headers["mcp-session-id"] ?? "").trim(),
      protocolVersion: (result?.["protocolVersion"] as string | undefined) ?? PROTOCOL_VERSION,
    };
    const method = "notifications/initialized";
    const accepted = await this.#post({ jsonrpc: "2.0", method }, { "MCP-Method": method, ...sessionHeaders(session) }, deadlineMs);
    if (accepted.status < 200 || accepted.status > 299) throw new HttpFailure(accepted);
    this.sessionsOpened++;
    this.#session = session;
    return session;
  }

  async #post(message: object, headers: Readonly<Record<string, string>>, deadlineMs: number): Promise<BoundedReply> {
    const reply = await boundedReply(this.#url, {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        Accept: "application/json, text/event-stream",
        ...headers,
        ...(this.#token === undefined ? {} : { Authorization: `Bearer ${this.#token}` }),
      },
      body: JSON.stringify(message),
      maxBytes: MAX_REPLY_BYTES,
      timeoutMs: Math.max(1, Math.round(deadlineMs - performance.now())),
      agent: this.#agent,
    });
    if (reply.isTruncated) throw new Error(`mcp response exceeded ${MAX_REPLY_BYTES} bytes`);
    return reply;
  }
}

/** The endpoint rejected a request that preceded the call. */
class HttpFailure extends Error {
  readonly outcome: Outcome;

  constructor(reply: BoundedReply) {
    super(`HTTP ${reply.status}`);
    this.outcome = readOutcome(reply);
  }
}

function sessionHeaders({ id, protocolVersion }: ConsumerSession): Record<string, string> {
  return { ...(id === "" ? {} : { "MCP-Session-Id": id }), "MCP-Protocol-Version": protocolVersion };
}

function readOutcome(reply: BoundedReply): Outcome {
  const { status, body } = reply;
  if (status < 200 || status > 299) {
    return { ok: false, code: `http_${status}`, message: `Service returned HTTP ${status}`, details: parseIfJson(body) };
  }
  const { result, error } = readJsonRpc(reply, 2);
  if (error !== undefined) return { ok: false, code: "mcp_error", message: error.message, details: error.data };
  const text = (result?.content ?? []).map((block) => block.text).join("\n");
  return result?.["isError"] === true ? { ok: false, code: "tool_error", message: text } : { ok: true, text };
}

function readJsonRpc(reply: BoundedReply, id: number): JsonRpcMessage {
  const message = readMessages(reply).find((each) => String(each.id) === String(id));
  if (message === undefined) throw new Error(`no response with id ${id}: ${reply.body}`);
  return message;
}

function parseIfJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
}
