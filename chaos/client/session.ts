// One MCP session over Streamable HTTP.

import { McpClient } from "../../test/support/mcp-client.ts";
import { ASK_TOOL, type AskAnswer, questionStart } from "../contract.ts";
import type { Ledger, RequestRecord, Verdict } from "../ledger.ts";
import { Caller, type ExchangeEnd } from "./caller.ts";
import { Inbox, type Incoming } from "./inbox.ts";

export interface Identity {
  readonly name: string;
  readonly token: string;
  readonly capabilities: object;
  /** Decides if the client answers a question by an error. */
  readonly refuses: () => boolean;
}

interface Sending {
  readonly body?: string;
  /** The request that is posted, or whose stream is resumed. */
  readonly record?: RequestRecord;
  readonly lastEventId?: string;
  /** If set, the connection is broken after the first event with an id, unless the request has been answered. */
  readonly onFirstEvent?: ((eventId: string) => void) | undefined;
}

const PROTOCOL_VERSION = "2025-11-25";

export class Session extends Caller {
  readonly isStateless = false;
  #isDeleted = false;
  readonly #client: McpClient;
  readonly #identity: Identity;
  readonly #inbox: Inbox;

  constructor(url: string, identity: Identity, ledger: Ledger, onRight: (serverPid: number) => void) {
    super(url, identity.name, ledger);
    this.#client = new McpClient(url, { token: identity.token, sendsVersion: true });
    this.#client.protocolVersion = PROTOCOL_VERSION;
    this.#identity = identity;
    const onServerRequest = (request: Incoming): void => this.#onServerRequest(request);
    this.#inbox = new Inbox(identity.name, ledger, { onRight, onServerRequest });
  }

  async open(): Promise<boolean> {
    const { name, capabilities } = this.#identity;
    const params = { protocolVersion: PROTOCOL_VERSION, capabilities, clientInfo: { name, version: "1.0.0" } };
    const verdict = await this.request("initialize", params, { what: "initialize" });
    if (verdict === "right") void this.#tell({ method: "notifications/initialized" });
    return verdict === "right";
  }

  ask(isFirst: boolean): Promise<Verdict> {
    const method = isFirst ? "ping" : "tools/list";
    return this.request(method, {}, { what: method });
  }

  /** The question arrives on its own, and the client decides then if it answers. */
  callAsking(text: string): Promise<Verdict> {
    return this.call(ASK_TOOL, { text, delayMs: 0, hasProgress: false });
  }

  /** The GET stream ends with the session. */
  listen(): Promise<unknown> {
    return this.#send("GET");
  }

  async delete(): Promise<void> {
    this.isOver = true;
    this.#isDeleted = true;
    await this.#send("DELETE");
  }

  protected async request(
    method: string,
    params: object,
    requested: Parameters<Caller["recordOf"]>[0],
    onLostStream?: () => void,
  ): Promise<Verdict> {
    const record = this.recordOf(requested);
    this.#inbox.expect(record);
    const body = JSON.stringify({ jsonrpc: "2.0", id: record.id, method, params });
    let lastEventId: string | undefined;
    const onFirstEvent = onLostStream === undefined ? undefined : (eventId: string): unknown => (lastEventId = eventId);
    let end = await this.#send("POST", { body, record, onFirstEvent });
    if (lastEventId !== undefined) {
      onLostStream?.();
      end = await this.#send("GET", { record, lastEventId });
    }
    this.#inbox.settleAtEnd(record, end, this.#isDeleted);
    return record.verdict ?? "lost";
  }

  /** A client must see the questions of its own calls only. */
  #onServerRequest({ id, method, params }: Incoming): void {
    if (method !== "elicitation/create") return void this.#tell({ id, result: { roots: [] } });
    const question = String(params?.message);
    if (!question.startsWith(questionStart(this.name))) this.ledger.countCrossedNotification(this.name, question);
    const answer: AskAnswer = { action: "accept", content: { question } };
    void this.#tell(this.#identity.refuses() ? { id, error: { code: -32603, message: "not now" } } : { id, result: answer });
  }

  /** Sends a notification, or the response to a server request. */
  #tell(message: object): Promise<unknown> {
    return this.#send("POST", { body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
  }

  #send(method: "POST" | "GET" | "DELETE", { body, record, lastEventId, onFirstEvent }: Sending = {}): Promise<ExchangeEnd> {
    let status = 0;
    const headers = method === "GET" ? this.#client.getHeaders({ lastEventId }) : this.#client.postHeaders();
    return this.exchange({ method, headers, ...(body === undefined ? {} : { body }) }, record, {
      isLasting: () => method === "GET" && record === undefined,
      onHead: (head) => {
        status = head.status ?? 0;
        if (head.sessionId !== undefined) this.#client.sessionId ||= head.sessionId;
        this.isOver ||= status === 404;
      },
      onMessage: (message, eventId) => {
        this.#inbox.receive(message as Incoming, eventId, record, status);
        if (onFirstEvent === undefined || eventId === undefined || record?.verdict !== undefined) return true;
        onFirstEvent(eventId);
        return false;
      },
    });
  }
}
