// The requests of one client without a session (MCP 2026-07-28). Each has its own HTTP exchange, which has its response too.

import { Agent } from "node:http";
import { META, ModernClient } from "../../test/support/modern-client.ts";
import { ASK_TOOL, type AskAnswer, questionOf, resourceOf, type ToolArguments } from "../contract.ts";
import { LOST_AFTER_MS, type Ledger, type RequestRecord, type Verdict } from "../ledger.ts";
import { type Exchange, exchange } from "./exchange.ts";
import { Inbox, type Incoming, isQuestion, type QuestionResult } from "./inbox.ts";
import type { Caller, CallOptions, Endpoint } from "./load-client.ts";

interface Running {
  readonly exchange: Exchange;
  readonly record: RequestRecord;
}

/** The end of a request, and the question of the server, if that is its result. */
interface Outcome {
  readonly verdict: Verdict;
  readonly question: QuestionResult | undefined;
}

const MAX_ROUNDS = 5;
const LISTEN = "subscriptions/listen";
const ACKNOWLEDGED = "notifications/subscriptions/acknowledged";

export class StatelessRequests implements Caller {
  readonly isStateless = true;
  readonly isOver = false;
  readonly #name: string;
  readonly #ledger: Ledger;
  readonly #onRight: (serverPid: number) => void;
  readonly #client: ModernClient;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #running = new Set<Running>();
  /** All clients use the same ids, which detects a sidecar that confuses them. */
  #nextId = 1;

  /** @param capabilities those that it declares. */
  constructor(endpoint: Endpoint, name: string, ledger: Ledger, onRight: (serverPid: number) => void, capabilities: object) {
    this.#name = name;
    this.#ledger = ledger;
    this.#onRight = onRight;
    this.#client = new ModernClient(endpoint.url, { token: endpoint.token, capabilities });
  }

  async open(): Promise<boolean> {
    return true;
  }

  async ask(isFirst: boolean): Promise<Verdict> {
    const method = isFirst ? "server/discover" : "tools/list";
    return (await this.#request(method, {}, { what: method })).verdict;
  }

  async call(tool: string, { text, delayMs, hasProgress }: CallOptions): Promise<Verdict> {
    const nonce = `${this.#nextId}-${performance.now()}`;
    const args: ToolArguments = { client: this.#name, nonce, text, delayMs };
    const meta = hasProgress ? { _meta: { progressToken: `${this.#name}/${nonce}` } } : {};
    return (await this.#request("tools/call", { name: tool, arguments: args, ...meta }, { what: tool, text, nonce })).verdict;
  }

  /** Repeats the call with the answer to its question. */
  async callAsking(text: string, leaves: boolean): Promise<Verdict> {
    const nonce = `${this.#nextId}-${performance.now()}`;
    const args: ToolArguments = { client: this.#name, nonce, text, delayMs: 0 };
    const send = (more: object = {}): Promise<Outcome> =>
      this.#request("tools/call", { name: ASK_TOOL, arguments: args, ...more }, { what: ASK_TOOL, text, nonce });
    let { verdict, question } = await send();
    if (leaves) return verdict;
    for (let round = 1; question !== undefined && round <= MAX_ROUNDS; round++) {
      const { inputRequests, requestState } = question;
      const answer: AskAnswer = { action: "accept", content: { question: questionOf(args) } };
      const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, answer]));
      ({ verdict, question } = await send({ inputResponses, requestState }));
    }
    return verdict;
  }

  /** Subscribes to the changes of tools and of a resource of this client. */
  async listen(): Promise<Verdict> {
    const notifications = { toolsListChanged: true, resourceSubscriptions: [resourceOf(this.#name)] };
    return (await this.#request(LISTEN, { notifications }, { what: LISTEN })).verdict;
  }

  endListens(): void {
    this.#abandon(({ record }) => record.what === LISTEN);
  }

  /** This cancels all requests. */
  disconnect(): void {
    this.#abandon(() => true);
  }

  /** There is no session. */
  async delete(): Promise<void> {}
  async closeWhenIdle(): Promise<void> {}

  close(): void {
    this.disconnect();
    this.#agent.destroy();
  }

  #abandon(isChosen: (running: Running) => boolean): void {
    for (const running of this.#running) {
      if (!isChosen(running)) continue;
      this.#ledger.settle(running.record, "abandoned");
      running.exchange.abandon();
    }
  }

  async #request(
    method: string,
    params: object,
    { what, text = "", nonce = "" }: { what: string; text?: string; nonce?: string },
  ): Promise<Outcome> {
    const id = this.#nextId++;
    const client = this.#name;
    const record: RequestRecord = { client, what, id, nonce, text, isStateless: true, sentAtMs: Number.POSITIVE_INFINITY };
    // Its only request is this one, so a response to any other request counts as an answer to nothing.
    const inbox = new Inbox(client, this.#ledger, { onRight: this.#onRight, onServerRequest: () => this.#countStray(record, "a request") });
    inbox.expect(record);
    let status = 0;
    let isAcknowledged = false;
    let question: QuestionResult | undefined;
    const onNotification = (message: Incoming): void => {
      if (message.method === ACKNOWLEDGED) {
        if (isAcknowledged || method !== LISTEN) this.#countStray(record, message);
        isAcknowledged = true;
        clearTimeout(overdue);
      } else if (method === LISTEN && !isAcknowledged) this.#countStray(record, message);
      this.#check(record, message);
    };
    const running = exchange(
      this.#client.url,
      { agent: this.#agent, ...this.#client.compose(method, params as Readonly<Record<string, unknown>>, { id }) },
      {
        onSent: () => (record.sentAtMs = performance.now()),
        onHead: (head) => (status = head.status),
        onMessage: (message, eventId) => {
          const incoming = message as Incoming;
          if (eventId !== undefined && eventId !== "") this.#countStray(record, `event ${eventId}`);
          if (isQuestion(incoming.result)) question = incoming.result;
          if (incoming.method === undefined || incoming.id !== undefined) inbox.receive(incoming, undefined, record, status);
          else onNotification(incoming);
        },
      },
    );
    const entry: Running = { exchange: running, record };
    this.#running.add(entry);
    const overdue = setTimeout(() => {
      this.#ledger.settle(record, "lost", `no answer in ${LOST_AFTER_MS / 1000} s`);
      running.abandon();
    }, LOST_AFTER_MS);
    const end = await running.ended;
    clearTimeout(overdue);
    this.#running.delete(entry);
    inbox.settleAtEnd(record, end, false);
    return { verdict: record.verdict ?? "lost", question };
  }

  /** Checks that a notification belongs to this request. */
  #check({ id, what, nonce }: RequestRecord, { method, params }: Incoming): void {
    const subscriptionId = params?.["_meta"]?.[META.subscriptionId];
    const isOwn =
      what === LISTEN
        ? subscriptionId === id && (params?.uri ?? resourceOf(this.#name)) === resourceOf(this.#name)
        : subscriptionId === undefined && (method !== "notifications/progress" || params?.progressToken === `${this.#name}/${nonce}`);
    if (!isOwn) this.#ledger.countCrossedNotification(this.#name, JSON.stringify({ method, params }));
  }

  #countStray(record: RequestRecord, message: unknown): void {
    this.#ledger.countStrayAnswer(this.#name, `for ${record.what} ${record.id}: ${JSON.stringify(message)}`);
  }
}
