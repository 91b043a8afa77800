// One MCP session over Streamable HTTP.

import { Agent } from "node:http";
import { McpClient } from "../../test/support/mcp-client.ts";
import { ASK_TOOL, type AskAnswer, questionStart, type ToolArguments } from "../contract.ts";
import { LOST_AFTER_MS, type Ledger, type RequestRecord, type Verdict } from "../ledger.ts";
import { type Exchange, type ExchangeEnd, exchange } from "./exchange.ts";
import { Inbox, type Incoming } from "./inbox.ts";
import type { Caller, CallOptions, Endpoint } from "./load-client.ts";

export interface Identity {
  readonly name: string;
  readonly capabilities: object;
  /** Decides if the client answers a question by an error. */
  readonly refuses: () => boolean;
}

interface Sending {
  readonly method: "POST" | "GET" | "DELETE";
  readonly body?: string;
  /** The request that is posted, or whose stream is resumed. */
  readonly record?: RequestRecord | undefined;
  readonly lastEventId?: string;
  readonly onMessage?: (() => void) | undefined;
  /** If set, the connection is broken after the first event with an id, unless the request has been answered. */
  readonly onFirstEvent?: (eventId: string) => void;
}

const PROTOCOL_VERSION = "2025-11-25";

export class Session implements Caller {
  readonly isStateless = false;
  isOver = false;
  #isDeleted = false;
  readonly #client: McpClient;
  /** Ids are the same in every session, which detects a sidecar that confuses the ids of clients. */
  #nextId = 1;
  readonly #identity: Identity;
  readonly #ledger: Ledger;
  readonly #inbox: Inbox;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #exchanges = new Map<Exchange, RequestRecord | undefined>();

  constructor(endpoint: Endpoint, identity: Identity, ledger: Ledger, onRight: (serverPid: number) => void) {
    this.#client = new McpClient(endpoint.url, { token: endpoint.token, sendsVersion: true });
    this.#client.protocolVersion = PROTOCOL_VERSION;
    this.#identity = identity;
    this.#ledger = ledger;
    const onServerRequest = (request: Incoming): void => this.#onServerRequest(request);
    this.#inbox = new Inbox(identity.name, ledger, { onRight, onServerRequest });
  }

  /** Sends the handshake. @returns true if it succeeded. */
  async open(): Promise<boolean> {
    const { name, capabilities } = this.#identity;
    const params = { protocolVersion: PROTOCOL_VERSION, capabilities, clientInfo: { name, version: "1.0.0" } };
    const verdict = await this.#request("initialize", params, { what: "initialize" });
    if (verdict === "right") void this.#tell({ method: "notifications/initialized" });
    return verdict === "right";
  }

  async ask(isFirst: boolean): Promise<Verdict> {
    const method = isFirst ? "ping" : "tools/list";
    return this.#request(method, {}, { what: method });
  }

  /** The question arrives on its own, and the client decides then if it answers. */
  async callAsking(text: string): Promise<Verdict> {
    return this.call(ASK_TOOL, { text, delayMs: 0, hasProgress: false });
  }

  async call(tool: string, { text, delayMs, hasProgress }: CallOptions, onLostStream?: () => void): Promise<Verdict> {
    const nonce = `${this.#nextId}-${performance.now()}`;
    const args: ToolArguments = { client: this.#identity.name, nonce, text, delayMs };
    const meta = hasProgress ? { _meta: { progressToken: `${this.#identity.name}/${nonce}` } } : {};
    return this.#request("tools/call", { name: tool, arguments: args, ...meta }, { what: tool, text, nonce }, onLostStream);
  }

  /** A client must see the questions of its own calls only. */
  #onServerRequest({ id, method, params }: Incoming): void {
    if (method !== "elicitation/create") return void this.#tell({ id, result: { roots: [] } });
    const question = String(params?.message);
    if (!question.startsWith(questionStart(this.#identity.name))) this.#ledger.countCrossedNotification(this.#identity.name, question);
    const answer: AskAnswer = { action: "accept", content: { question } };
    void this.#tell(this.#identity.refuses() ? { id, error: { code: -32603, message: "not now" } } : { id, result: answer });
  }

  async listen(): Promise<void> {
    await this.#exchange({ method: "GET" });
  }

  /** The GET stream ends with the session. */
  endListens(): void {}

  async delete(): Promise<void> {
    this.isOver = true;
    this.#isDeleted = true;
    await this.#exchange({ method: "DELETE" });
  }

  disconnect(): void {
    for (const [running, record] of this.#exchanges) {
      if (record !== undefined) this.#ledger.settle(record, "abandoned");
      running.abandon();
    }
  }

  async closeWhenIdle(): Promise<void> {
    const awaited = [...this.#exchanges].filter(([, record]) => record !== undefined);
    await Promise.all(awaited.map(([{ ended }]) => ended));
    this.close();
  }

  close(): void {
    this.disconnect();
    this.#agent.destroy();
  }

  /** Sends a request. Resolves with its verdict at the response, while the rest of the stream is still read. */
  async #request(
    method: string,
    params: object,
    { what, text = "", nonce = "" }: { what: string; text?: string; nonce?: string },
    onLostStream?: () => void,
  ): Promise<Verdict> {
    const id = this.#nextId++;
    const record: RequestRecord = { client: this.#identity.name, what, id, nonce, text, sentAtMs: Number.POSITIVE_INFINITY };
    this.#inbox.expect(record);
    return new Promise((resolve) => {
      const overdue = setTimeout(() => {
        this.#ledger.settle(record, "lost", `no answer in ${LOST_AFTER_MS / 1000} s`);
        for (const [running, its] of this.#exchanges) if (its === record) running.abandon();
      }, LOST_AFTER_MS);
      const onMessage = (): void => {
        if (record.verdict === undefined) return;
        clearTimeout(overdue);
        resolve(record.verdict);
      };
      const body = JSON.stringify({ jsonrpc: "2.0", id, method, params });
      void this.#postAndFetch({ method: "POST", body, record, onMessage }, onLostStream).then((end) => {
        this.#inbox.settleAtEnd(record, end, this.#isDeleted);
        onMessage();
      });
    });
  }

  async #postAndFetch(sending: Sending, onLostStream: (() => void) | undefined): Promise<ExchangeEnd> {
    if (onLostStream === undefined) return this.#exchange(sending);
    let lastEventId: string | undefined;
    const end = await this.#exchange({ ...sending, onFirstEvent: (eventId) => (lastEventId = eventId) });
    if (lastEventId === undefined) return end;
    onLostStream();
    const { record, onMessage } = sending;
    return this.#exchange({ method: "GET", record, onMessage, lastEventId });
  }

  async #exchange({ method, body, record, lastEventId, onMessage, onFirstEvent }: Sending): Promise<ExchangeEnd> {
    let status = 0;
    let isBroken = false;
    const headers = method === "GET" ? this.#client.getHeaders({ lastEventId }) : this.#client.postHeaders();
    const running = exchange(
      this.#client.url,
      { agent: this.#agent, method, headers, ...(body === undefined ? {} : { body }) },
      {
        onSent: () => {
          if (record !== undefined && method === "POST") record.sentAtMs = performance.now();
        },
        onHead: (head) => {
          status = head.status;
          if (head.sessionId !== undefined) this.#client.sessionId ||= head.sessionId;
          this.isOver ||= status === 404;
        },
        onMessage: (message, eventId) => {
          // Later events of the same chunk count as not received.
          if (isBroken) return;
          this.#inbox.receive(message as Incoming, eventId, record, status);
          onMessage?.();
          if (onFirstEvent === undefined || eventId === undefined || record?.verdict !== undefined) return;
          onFirstEvent(eventId);
          isBroken = true;
          running.abandon();
        },
      },
    );
    this.#exchanges.set(running, record);
    // Requests have their own time limit, and a stream may stay open.
    const overdue = record === undefined && method !== "GET" ? setTimeout(() => running.abandon(), LOST_AFTER_MS) : undefined;
    const end = await running.ended;
    clearTimeout(overdue);
    this.#exchanges.delete(running);
    return end;
  }

  /** Sends a notification, or the response to a server request. */
  async #tell(message: object): Promise<void> {
    await this.#exchange({ method: "POST", body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
  }
}
