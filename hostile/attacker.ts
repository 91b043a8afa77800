// A client that sends what it likes, and notes what it is told. None of its waits is without an end.

import { once } from "node:events";
import { Agent } from "node:http";
import { connect, type Socket } from "node:net";
import { initializeRequest, McpClient } from "../test/support/mcp-client.ts";
import { headBytes } from "../test/support/mcp-request-bytes.ts";
import { RawConnection } from "../test/support/raw-connection.ts";
import { within } from "./bounded.ts";
import type { Told } from "./told.ts";

const ANSWER_LIMIT_MS = 30_000;

export interface Sent {
  readonly status: number;
  readonly body: string;
  readonly sessionId: string | undefined;
}

export interface SendOptions {
  /** undefined: none. */
  readonly sessionId?: string | undefined;
  /** undefined: none. */
  readonly token?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly limitMs?: number;
}

export class Attacker {
  readonly url: string;
  readonly origin: string;
  readonly token: string;
  readonly told: Told;
  sessionId = "";
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 64 });
  readonly #ended: AbortSignal;
  #lastId = 0;

  constructor(url: string, origin: string, token: string, told: Told, ended: AbortSignal) {
    this.url = url;
    this.origin = origin;
    this.token = token;
    this.told = told;
    this.#ended = ended;
    ended.addEventListener("abort", () => this.#agent.destroy(), { once: true });
  }

  get isOver(): boolean {
    return this.#ended.aborted;
  }

  /** initialize and notifications/initialized. */
  async open(protocolVersion = "2025-11-25", capabilities = {}): Promise<void> {
    const reply = await this.quietly(initializeRequest(capabilities, protocolVersion), { sessionId: undefined });
    this.sessionId = reply?.sessionId ?? "";
    await this.quietly({ jsonrpc: "2.0", method: "notifications/initialized" });
  }

  /** Any body, with token and session unless they are chosen otherwise; what it is told counts. */
  async post(body: unknown, options: SendOptions = {}): Promise<Sent | undefined> {
    const reply = await this.#send(body, options);
    if (typeof reply === "string") this.told.add(reply);
    else this.told.addReply(reply.status, reply.body);
    return typeof reply === "string" ? undefined : reply;
  }

  /** As `post`, for what only prepares the attack. */
  async quietly(body: unknown, options: SendOptions = {}): Promise<Sent | undefined> {
    const reply = await this.#send(body, options);
    if (typeof reply === "string") return undefined;
    this.told.check(reply.body);
    return reply;
  }

  request(method: string, params: unknown, options?: SendOptions): Promise<Sent | undefined> {
    return this.post({ jsonrpc: "2.0", id: ++this.#lastId, method, params }, options);
  }

  callTool(name: string, args: unknown = {}, options?: SendOptions): Promise<Sent | undefined> {
    return this.request("tools/call", { name, arguments: args }, options);
  }

  /** The id that the server has seen in the last call: an attacker may know where minted ids are. */
  async wireId(): Promise<number> {
    const reply = await this.quietly({ jsonrpc: "2.0", id: ++this.#lastId, method: "tools/call", params: { name: "wire_id" } });
    return Number(/"text":"(-?\d+)"/.exec(reply?.body ?? "")?.[1] ?? 0);
  }

  /** The head of a POST by hand, with token and session unless they are chosen otherwise. The fields may repeat others. */
  head(fields: readonly string[], options: SendOptions = {}): string {
    const head = headBytes("POST /mcp", { Host: new URL(this.url).host, ...this.#client(options).postHeaders() });
    return [head.slice(0, -4), ...fields, "", ""].join("\r\n");
  }

  /** The head of a GET that opens a stream. */
  streamHead(): string {
    return headBytes("GET /mcp", { Host: new URL(this.url).host, ...this.#client({}).getHeaders() });
  }

  /** A connection of its own that is cut at the end of the attack. @returns undefined if it is refused. */
  async connect(): Promise<RawConnection | undefined> {
    const connection = await within(RawConnection.open(this.origin), ANSWER_LIMIT_MS).catch(() => undefined);
    if (connection === undefined) this.told.add("not connected");
    else this.#ended.addEventListener("abort", () => connection[Symbol.dispose](), { once: true });
    return connection;
  }

  /** As `connect`, but nothing that comes is read. */
  async connectUnread(): Promise<Socket | undefined> {
    const { hostname, port } = new URL(this.origin);
    const socket = connect(Number(port), hostname).pause();
    // The sidecar cuts it at some time.
    socket.on("error", () => undefined);
    this.#ended.addEventListener("abort", () => socket.destroy(), { once: true });
    return (await within(once(socket, "connect"), ANSWER_LIMIT_MS).catch(() => undefined)) === undefined ? undefined : socket;
  }

  /** Reads one reply by hand. */
  async hear(connection: RawConnection, limitMs = ANSWER_LIMIT_MS): Promise<void> {
    try {
      const reply = await within(connection.reply(), limitMs);
      if (reply === undefined) this.told.add("no answer");
      else this.told.addReply(reply.status, reply.body);
    } catch {
      this.told.add("cut");
    }
  }

  /** With token and session, unless they are chosen otherwise. */
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
