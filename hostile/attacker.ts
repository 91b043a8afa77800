// A client that sends arbitrary data, and records the responses. All of its waits have a time limit.

import { once } from "node:events";
import { Agent } from "node:http";
import { connect, type Socket } from "node:net";
import type { EventStream } from "../test/support/event-stream.ts";
import { type Headers, type HttpReply, send } from "../test/support/http-client.ts";
import { initializeRequest, McpClient } from "../test/support/mcp-client.ts";
import { headBytes } from "../test/support/mcp-request-bytes.ts";
import { RawConnection } from "../test/support/raw-connection.ts";
import { within } from "./bounded.ts";
import type { ReplyCounts } from "./reply-counts.ts";

const ANSWER_LIMIT_MS = 30_000;

export interface Sent {
  readonly status: number;
  readonly body: string;
  readonly sessionId: string | undefined;
}

export interface SendOptions {
  /** Undefined to send none. By default, that of the attacker. */
  readonly sessionId?: string | undefined;
  /** Undefined to send none. By default, that of the attacker. */
  readonly token?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly limitMs?: number;
}

export class Attacker {
  readonly url: string;
  readonly origin: string;
  readonly token: string;
  readonly replies: ReplyCounts;
  sessionId = "";
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 64 });
  readonly #ended: AbortSignal;
  #lastId = 0;

  constructor(url: string, origin: string, token: string, replies: ReplyCounts, ended: AbortSignal) {
    this.url = url;
    this.origin = origin;
    this.token = token;
    this.replies = replies;
    this.#ended = ended;
    ended.addEventListener("abort", () => this.#agent.destroy(), { once: true });
  }

  get isOver(): boolean {
    return this.#ended.aborted;
  }

  /** Opens a session, by initialize and notifications/initialized. */
  async open(protocolVersion = "2025-11-25", capabilities = {}): Promise<void> {
    const reply = await this.quietly(initializeRequest(capabilities, protocolVersion), { sessionId: undefined });
    this.sessionId = reply?.sessionId ?? "";
    await this.quietly({ jsonrpc: "2.0", method: "notifications/initialized" });
  }

  /** Ends the session. */
  async close(): Promise<void> {
    await this.#client({})
      .end()
      .catch(() => undefined);
  }

  /** Sends any body, and counts the response. */
  async post(body: unknown, options: SendOptions = {}): Promise<Sent | undefined> {
    const reply = await this.#send(body, options);
    if (typeof reply === "string") this.replies.add(reply);
    else this.replies.addReply(reply.status, reply.body);
    return typeof reply === "string" ? undefined : reply;
  }

  /** Sends any body that only prepares the attack. The response is checked but not counted. */
  async quietly(body: unknown, options: SendOptions = {}): Promise<Sent | undefined> {
    const reply = await this.#send(body, options);
    if (typeof reply === "string") return undefined;
    this.replies.check(reply.body);
    return reply;
  }

  /** Sends a request as it is given, and counts the response. The headers have the token and the media types. */
  async postAs(body: string, headers: Headers, limitMs = ANSWER_LIMIT_MS): Promise<Sent | undefined> {
    const signal = AbortSignal.any([this.#ended, AbortSignal.timeout(limitMs)]);
    try {
      const reply = await send(this.url, { body, headers, agent: this.#agent, signal });
      this.replies.addReply(reply.status, reply.body);
      return { status: reply.status, body: reply.body, sessionId: reply.headers["mcp-session-id"]?.toString() };
    } catch (error) {
      this.replies.add(signal.aborted ? "no answer" : ((error as NodeJS.ErrnoException).code ?? "cut"));
      return undefined;
    }
  }

  /** Sends a GET or DELETE, and counts the response. A stream that stays open has no response. */
  async fetch(
    method: "GET" | "DELETE",
    { limitMs = ANSWER_LIMIT_MS, headers = {}, ...options }: SendOptions = {},
  ): Promise<Sent | undefined> {
    const signal = AbortSignal.any([this.#ended, AbortSignal.timeout(limitMs)]);
    try {
      const reply = await send(this.url, { method, headers: this.#client(options).getHeaders({ headers }), agent: this.#agent, signal });
      this.replies.addReply(reply.status, reply.body);
      return { status: reply.status, body: reply.body, sessionId: reply.headers["mcp-session-id"]?.toString() };
    } catch (error) {
      this.replies.add(signal.aborted ? "no answer" : ((error as NodeJS.ErrnoException).code ?? "cut"));
      return undefined;
    }
  }

  request(method: string, params: unknown, options?: SendOptions): Promise<Sent | undefined> {
    return this.post({ jsonrpc: "2.0", id: ++this.#lastId, method, params }, options);
  }

  callTool(name: string, args: unknown = {}, options?: SendOptions): Promise<Sent | undefined> {
    return this.request("tools/call", { name, arguments: args }, options);
  }

  /** Makes a tool call, whose response is read as it arrives. @returns undefined if it does not begin. */
  async begin(name: string, args: object): Promise<EventStream | undefined> {
    return within(this.#client({}).begin(name, args, ++this.#lastId), ANSWER_LIMIT_MS).catch(() => undefined);
  }

  /** Returns the id of a call as the server receives it: an attacker may be able to predict the sidecar's ids. */
  async wireId(): Promise<number> {
    const reply = await this.quietly({ jsonrpc: "2.0", id: ++this.#lastId, method: "tools/call", params: { name: "wire_id" } });
    return Number(/"text":"(-?\d+)"/.exec(reply?.body ?? "")?.[1] ?? 0);
  }

  /** Returns the head of a POST for a raw connection. Its fields may repeat others. */
  head(fields: readonly string[], options: SendOptions = {}): string {
    const head = headBytes("POST /mcp", { Host: new URL(this.url).host, ...this.#client(options).postHeaders() });
    return [head.slice(0, -4), ...fields, "", ""].join("\r\n");
  }

  /** Returns the head of a GET that opens a stream, for a raw connection. */
  streamHead(): string {
    return headBytes("GET /mcp", { Host: new URL(this.url).host, ...this.#client({}).getHeaders() });
  }

  /** Opens a raw connection, which is closed at the end of the attack. @returns undefined if this fails. */
  async connect(): Promise<RawConnection | undefined> {
    const connection = await within(RawConnection.open(this.origin), ANSWER_LIMIT_MS).catch(() => undefined);
    if (connection === undefined) this.replies.add("not connected");
    else this.#ended.addEventListener("abort", () => connection[Symbol.dispose](), { once: true });
    return connection;
  }

  /** Opens a raw connection of which nothing is read. @returns undefined if this fails. */
  async connectUnread(): Promise<Socket | undefined> {
    const { hostname, port } = new URL(this.origin);
    const socket = connect(Number(port), hostname).pause();
    // The sidecar closes the connection at some time.
    socket.on("error", () => undefined);
    this.#ended.addEventListener("abort", () => socket.destroy(), { once: true });
    return (await within(once(socket, "connect"), ANSWER_LIMIT_MS).catch(() => undefined)) === undefined ? undefined : socket;
  }

  /** Reads and counts one response on a raw connection. @returns undefined if there is none. */
  async hear(connection: RawConnection, limitMs = ANSWER_LIMIT_MS): Promise<HttpReply | undefined> {
    try {
      const reply = await within(connection.reply(), limitMs);
      if (reply === undefined) this.replies.add("no answer");
      else this.replies.addReply(reply.status, reply.body);
      return reply;
    } catch {
      this.replies.add("cut");
      return undefined;
    }
  }

  /** Returns a client with the attacker's token and session, unless the options have others. */
  #client(options: SendOptions): McpClient {
    return new McpClient(this.url, { sessionId: this.sessionId, token: this.token, agent: this.#agent, ...options });
  }

  async #send(body: unknown, options: SendOptions): Promise<Sent | string> {
    const signal = AbortSignal.any([this.#ended, AbortSignal.timeout(options.limitMs ?? ANSWER_LIMIT_MS)]);
    try {
      const reply = await this.#client(options).post(body, { signal });
      return { status: reply.status, body: reply.body, sessionId: reply.headers["mcp-session-id"]?.toString() };
    } catch (error) {
      return signal.aborted ? "no answer" : ((error as NodeJS.ErrnoException).code ?? "cut");
    }
  }
}
