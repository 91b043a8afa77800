// The requests of one client without a session (MCP 2026-07-28). Each has its own HTTP exchange, which has its response too.

import { META, type ModernClient } from "../../test/support/modern-client.ts";
import { ASK_TOOL, type AskAnswer, questionOf, resourceOf } from "../contract.ts";
import type { Ledger, RequestRecord, Verdict } from "../ledger.ts";
import { Caller } from "./caller.ts";
import { Inbox, type Incoming, isQuestion, type QuestionResult } from "./inbox.ts";

const MAX_ROUNDS = 5;
const LISTEN = "subscriptions/listen";
const ACKNOWLEDGED = "notifications/subscriptions/acknowledged";

type Requested = Parameters<Caller["recordOf"]>[0];

export class StatelessRequests extends Caller {
  readonly isStateless = true;
  readonly #onRight: (serverPid: number) => void;
  readonly #client: ModernClient;
  /** The question of the server, if that is the result of a request. */
  readonly #questions = new WeakMap<object, QuestionResult>();

  constructor(url: string, name: string, client: ModernClient, ledger: Ledger, onRight: (serverPid: number) => void) {
    super(url, name, ledger);
    this.#onRight = onRight;
    this.#client = client;
  }

  async open(): Promise<boolean> {
    return true;
  }

  ask(isFirst: boolean): Promise<Verdict> {
    const method = isFirst ? "server/discover" : "tools/list";
    return this.request(method, {}, { what: method });
  }

  /** Repeats the call with the answer to its question. */
  async callAsking(text: string, leaves: boolean): Promise<Verdict> {
    const args = this.argumentsOf(text);
    let more: object = {};
    for (let round = 0; ; round++) {
      const requested = { what: ASK_TOOL, ...args };
      const verdict = await this.request("tools/call", { name: ASK_TOOL, arguments: args, ...more }, requested);
      const question = this.#questions.get(requested);
      if (question === undefined || leaves || round === MAX_ROUNDS) return verdict;
      const { inputRequests, requestState } = question;
      const answer: AskAnswer = { action: "accept", content: { question: questionOf(args) } };
      more = { inputResponses: Object.fromEntries(Object.keys(inputRequests).map((key) => [key, answer])), requestState };
    }
  }

  /** Subscribes to the changes of tools and of a resource of this client. */
  listen(): Promise<Verdict> {
    const notifications = { toolsListChanged: true, resourceSubscriptions: [resourceOf(this.name)] };
    return this.request(LISTEN, { notifications }, { what: LISTEN });
  }

  /** There is no session. */
  async delete(): Promise<void> {}

  protected async request(method: string, params: object, requested: Requested): Promise<Verdict> {
    const record = this.recordOf(requested);
    // Its only request is this one, so a response to any other request counts as an answer to nothing.
    const onServerRequest = (): void => this.#countStray(record, "a request");
    const inbox = new Inbox(this.name, this.ledger, { onRight: this.#onRight, onServerRequest });
    inbox.expect(record);
    let status = 0;
    let isAcknowledged = false;
    const onNotification = (message: Incoming): void => {
      const isAcknowledgement = message.method === ACKNOWLEDGED;
      if (isAcknowledgement ? isAcknowledged || method !== LISTEN : method === LISTEN && !isAcknowledged) this.#countStray(record, message);
      isAcknowledged ||= isAcknowledgement;
      this.#check(record, message);
    };
    const call = this.#client.compose(method, params as Readonly<Record<string, unknown>>, { id: record.id });
    const end = await this.exchange(call, record, {
      isLasting: () => isAcknowledged,
      onHead: (head) => (status = head.status ?? 0),
      onMessage: (message, eventId) => {
        const incoming = message as Incoming;
        if (eventId !== undefined && eventId !== "") this.#countStray(record, `event ${eventId}`);
        if (isQuestion(incoming.result)) this.#questions.set(requested, incoming.result);
        if (incoming.method === undefined || incoming.id !== undefined) inbox.receive(incoming, undefined, record, status);
        else onNotification(incoming);
        return true;
      },
    });
    inbox.settleAtEnd(record, end, false);
    return record.verdict ?? "lost";
  }

  /** Checks that a notification belongs to this request. */
  #check({ id, what, nonce }: RequestRecord, { method, params }: Incoming): void {
    const subscriptionId = params?.["_meta"]?.[META.subscriptionId];
    const isOwn =
      what === LISTEN
        ? subscriptionId === id && (params?.uri ?? resourceOf(this.name)) === resourceOf(this.name)
        : subscriptionId === undefined && (method !== "notifications/progress" || params?.progressToken === `${this.name}/${nonce}`);
    if (!isOwn) this.ledger.countCrossedNotification(this.name, JSON.stringify({ method, params }));
  }

  #countStray(record: RequestRecord, message: unknown): void {
    this.ledger.countStrayAnswer(this.name, `for ${record.what} ${record.id}: ${JSON.stringify(message)}`);
  }
}
