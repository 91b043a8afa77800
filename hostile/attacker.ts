// A client that sends arbitrary data, with and without a session, and records the responses. All of its waits have a time limit.

import { once } from "node:events";
import { Agent, type ClientRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { increment } from "../chaos/ledger.ts";
import type { EventStream } from "../test/support/event-stream.ts";
import { type Headers, type HttpReply, send, startRequest } from "../test/support/http-client.ts";
import { initializeRequest, McpClient } from "../test/support/mcp-client.ts";
import { RawConnection, headBytes } from "../test/support/raw-connection.ts";
import { ModernClient } from "../test/support/modern-client.ts";
import { type Status, readStatus } from "../test/support/status.ts";
import { BYSTANDER_MARK, FORBIDDEN_MARK } from "./contract.ts";

export interface SendOptions {
  /** Undefined to send none. By default, that of the attacker. */
  readonly sessionId?: string | undefined;
  /** Undefined to send none. By default, that of the attacker. */
  readonly token?: string | undefined;
  readonly limitMs?: number;
}

const ANSWER_LIMIT_MS = 30_000;
const LISTEN_LIMIT_MS = 20_000;
/** Longer than the time for which calls wait for the answers of clients that have left. */
const LEFTOVER_LIMIT_MS = 15_000;
const POLL_MS = 50;
/** The calls of the bystander, and more than their memory. */
const BYSTANDER_CALLS = 4;
const BYSTANDER_BYTES = 16 * 1024;
const SHOWN_COUNTS = 4;
/** Only results are longer than this; errors are short. */
const ERROR_LENGTH = 64 * 1024;

/** @returns the value of the promise, or undefined if it takes longer. A later value or failure is ignored. */
export async function within<Value>(promise: Promise<Value>, limitMs: number): Promise<Value | undefined> {
  const timer = new AbortController();
  promise.catch(() => undefined);
  const overdue = sleep(limitMs, undefined, { signal: timer.signal }).catch(() => undefined);
  try {
    return await Promise.race([promise, overdue]);
  } finally {
    timer.abort();
  }
}

/** Does something so many times at once. */
export function times<Item>(count: number, act: (index: number) => Promise<Item>): Promise<Item[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => act(index)));
}

/** Does something for each item, for some of them at once. */
export async function forAll<Item>(items: readonly Item[], act: (item: Item) => Promise<unknown>, atOnce = 50): Promise<void> {
  for (let at = 0; at < items.length; at += atOnce) await Promise.all(items.slice(at, at + atOnce).map(act));
}

export class ReplyCounts {
  /** Responses that belong to the bystander, calls that a policy forbids, and whatever else an attack must not achieve. */
  readonly breaches: string[] = [];
  readonly #counts = new Map<string, number>();

  add(what: string): void {
    increment(this.#counts, what);
  }

  addReply(status: number, body: string): void {
    this.add(`${status} ${meaningOf(body)}`.trim());
    this.check(body);
  }

  check(body: string): void {
    for (const mark of [BYSTANDER_MARK, FORBIDDEN_MARK]) {
      const at = body.indexOf(mark);
      if (at !== -1 && this.breaches.length < 3) this.breaches.push(`received ${mark}: ${body.slice(Math.max(0, at - 80), at + 80)}`);
    }
  }

  toString(): string {
    const sorted = [...this.#counts].sort(([, left], [, right]) => right - left);
    const shown = sorted.slice(0, SHOWN_COUNTS).map(([what, count]) => (count === 1 ? what : `${count}× ${what}`));
    if (sorted.length > SHOWN_COUNTS) shown.push(`${sorted.length - SHOWN_COUNTS} more`);
    return shown.length === 0 ? "nothing" : shown.join(", ");
  }
}

function meaningOf(body: string): string {
  if (body === "") return "";
  const start = body.slice(0, ERROR_LENGTH);
  const code = /"code":"([A-Z_]+)"/.exec(start)?.[1] ?? /"error":\{[^]*?"code":(-?\d+)/.exec(start)?.[1];
  if (code !== undefined) return code;
  if (start.includes('"isError":true')) return "isError";
  return /"result":/.test(start) || body.length > ERROR_LENGTH ? "result" : "other";
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

  constructor(origin: string, token: string, replies: ReplyCounts, ended: AbortSignal) {
    this.url = `${origin}/mcp`;
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
    this.sessionId = reply?.headers["mcp-session-id"]?.toString() ?? "";
    await this.quietly({ jsonrpc: "2.0", method: "notifications/initialized" });
  }

  /** Sends any body, and counts the response. */
  post(body: unknown, options: SendOptions = {}): Promise<HttpReply | undefined> {
    return this.#exchange(options.limitMs, (signal) => this.#client(options).post(body, { signal }));
  }

  /** Sends any body that only prepares the attack. The response is checked but not counted. */
  quietly(body: unknown, options: SendOptions = {}): Promise<HttpReply | undefined> {
    return this.#exchange(options.limitMs, (signal) => this.#client(options).post(body, { signal }), false);
  }

  /** Sends a request as it is given, and counts the response. The headers have the token and the media types. */
  postAs(body: string, headers: Headers): Promise<HttpReply | undefined> {
    return this.#exchange(undefined, (signal) => send(this.url, { body, headers, agent: this.#agent, signal }));
  }

  end(options: SendOptions = {}): Promise<HttpReply | undefined> {
    return this.#exchange(options.limitMs, () => this.#client(options).end());
  }

  request(method: string, params: unknown, options?: SendOptions): Promise<HttpReply | undefined> {
    return this.post({ jsonrpc: "2.0", id: ++this.#lastId, method, params }, options);
  }

  callTool(name: string, args: unknown = {}, options?: SendOptions): Promise<HttpReply | undefined> {
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
  head(fields: readonly string[]): string {
    const head = headBytes("POST /mcp", { Host: new URL(this.url).host, ...this.#client({}).postHeaders() });
    return [head.slice(0, -4), ...fields, "", ""].join("\r\n");
  }

  rawPost(body: string): string {
    return this.head([`Content-Length: ${Buffer.byteLength(body)}`]) + body;
  }

  streamHead(): string {
    return headBytes("GET /mcp", { Host: new URL(this.url).host, ...this.#client({}).getHeaders() });
  }

  /** Writes to a raw connection of which nothing is read. @returns undefined if it is not opened. */
  async writeUnread(bytes: string | Buffer): Promise<Socket | undefined> {
    const { hostname, port } = new URL(this.origin);
    const socket = connect(Number(port), hostname).pause();
    // The sidecar closes the connection at some time.
    socket.on("error", () => undefined);
    this.#ended.addEventListener("abort", () => socket.destroy(), { once: true });
    if ((await within(once(socket, "connect"), ANSWER_LIMIT_MS).catch(() => undefined)) === undefined) return undefined;
    socket.write(bytes);
    return socket;
  }

  /** Writes to a raw connection of its own, and reads and counts one response. */
  async writeRaw(text: string, limitMs = ANSWER_LIMIT_MS): Promise<void> {
    try {
      using connection = await RawConnection.open(this.origin);
      await within(connection.write(text), limitMs).catch(() => undefined);
      const reply = await within(connection.reply(), limitMs);
      if (reply === undefined) this.replies.add("no answer");
      else this.replies.addReply(reply.status, reply.body);
    } catch {
      this.replies.add("cut");
    }
  }

  addBreach(what: string): void {
    this.replies.breaches.push(what.slice(0, 600));
  }

  /** Reads `/status`. @returns undefined if it cannot be read. */
  async status(): Promise<Status | undefined> {
    return readStatus(this, { Authorization: `Bearer ${this.token}` }).catch(() => undefined);
  }

  /** Waits until subscriptions, questions and requests of the attack have ended. Any that stay are a missed bar. */
  async expectNothingLeft(): Promise<void> {
    const deadlineMs = performance.now() + LEFTOVER_LIMIT_MS;
    for (;;) {
      const left = leftoversIn(await this.status());
      if (left === "") return;
      if (performance.now() > deadlineMs) return this.addBreach(`left over: ${left}`);
      await sleep(POLL_MS);
    }
  }

  #client(options: SendOptions): McpClient {
    return new McpClient(this.url, { sessionId: this.sessionId, token: this.token, agent: this.#agent, ...options });
  }

  async #exchange(
    limitMs = ANSWER_LIMIT_MS,
    start: (signal: AbortSignal) => Promise<HttpReply>,
    isCounted = true,
  ): Promise<HttpReply | undefined> {
    const signal = AbortSignal.any([this.#ended, AbortSignal.timeout(limitMs)]);
    try {
      const reply = await start(signal);
      if (isCounted) this.replies.addReply(reply.status, reply.body);
      else this.replies.check(reply.body);
      return reply;
    } catch (error) {
      if (isCounted) this.replies.add(signal.aborted ? "no answer" : ((error as NodeJS.ErrnoException).code ?? "cut"));
      return undefined;
    }
  }
}

function leftoversIn(status: Status | undefined): string {
  if (status === undefined) return "no status";
  const { lanes, stateless, memory } = status;
  const uses: Readonly<Record<string, readonly [amount: number, most: number]>> = {
    "parked calls": [stateless?.asks?.parked.now ?? 0, 0],
    subscriptions: [stateless?.subscriptions ?? 0, 0],
    "subscription bytes": [memory["subscriptions"] ?? 0, 0],
    "unread bytes": [memory["unread"] ?? 0, 0],
    "requests in flight": [lanes.shared.requestsInFlight, BYSTANDER_CALLS],
    "request bytes": [memory["requests"] ?? 0, BYSTANDER_BYTES],
  };
  const left = Object.entries(uses).filter(([, [amount, most]]) => amount > most);
  return left.map(([use, [amount]]) => `${amount} ${use}`).join(", ");
}

type HeaderChanges = Readonly<Record<string, string | undefined>>;

/** The attacker as a client of MCP 2026-07-28: requests without a session, and subscriptions. */
export class StatelessAttacker {
  readonly attacker: Attacker;
  readonly client: ModernClient;
  readonly #listens = new Set<ClientRequest>();

  constructor(attacker: Attacker, capabilities: object = {}) {
    this.attacker = attacker;
    this.client = new ModernClient(attacker.url, { token: attacker.token, capabilities });
  }

  /** Sends a request, and counts the response. @param headers replace those of the request; undefined removes one. */
  request(method: string, params: Readonly<Record<string, unknown>> = {}, headers: HeaderChanges = {}): Promise<HttpReply | undefined> {
    const { requestState, inputResponses } = params;
    const composed = this.client.compose(method, params, { headers, requestState, inputResponses: inputResponses as object });
    return this.attacker.postAs(composed.body, composed.headers);
  }

  callTool(name: string, args: object = {}, headers?: HeaderChanges): Promise<HttpReply | undefined> {
    return this.request("tools/call", { name, arguments: args }, headers);
  }

  /** Opens subscriptions, of which nothing is read if they are not `read`. Resolves when all responses have begun. */
  async listen(count: number, filter: object, { isRead = false } = {}): Promise<void> {
    await times(count, () => this.#listenOnce(filter, isRead));
  }

  endListens(): void {
    for (const request of this.#listens) request.destroy();
    this.#listens.clear();
  }

  async #listenOnce(filter: object, isRead: boolean): Promise<void> {
    const { replies, url } = this.attacker;
    const call = this.client.compose("subscriptions/listen", { notifications: filter });
    const { request, response } = startRequest(url, { ...call, agent: false });
    // The sidecar closes the connection of a reader that does not read.
    request.on("error", () => undefined);
    this.#listens.add(request);
    const begun = await within(response, LISTEN_LIMIT_MS).catch(() => undefined);
    replies.add(begun === undefined ? "no response to a listen" : `${begun.statusCode} to a listen`);
    begun?.on("error", () => undefined);
    if (begun !== undefined && (isRead || begun.statusCode !== 200)) begun.resume();
  }
}
