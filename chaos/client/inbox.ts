// The messages that one session receives on all streams. Each response is matched with its request.

import type { Ledger, RequestRecord } from "../ledger.ts";
import type { Verdict } from "../tally.ts";
import type { ExchangeEnd } from "./http-exchange.ts";
import { judge, type Response } from "./judge.ts";

export interface Incoming extends Response {
  readonly method?: string;
  readonly params?: {
    readonly progressToken?: unknown;
    readonly uri?: unknown;
    /** The question of an elicitation. */
    readonly message?: unknown;
    readonly _meta?: Readonly<Record<string, unknown>>;
  };
}

export interface InboxListener {
  /** Called for a right response, with the process that sent it. */
  onRight(serverPid: number): void;
  onServerRequest(request: Incoming): void;
}

/** The progress tokens that no client has sent. A private server's progress with such a token may be forwarded. */
const UNKNOWN_TOKEN = /^unknown-/;
const EXCERPT_CHARS = 300;
/** The verdicts on a request that a response has settled. */
const ANSWERED: ReadonlySet<Verdict | undefined> = new Set<Verdict>(["right", "error", "wrong", "crossed"]);

export class Inbox {
  readonly #client: string;
  readonly #ledger: Ledger;
  readonly #listener: InboxListener;
  readonly #records = new Map<unknown, RequestRecord>();
  readonly #eventIds = new Set<string>();

  constructor(client: string, ledger: Ledger, listener: InboxListener) {
    this.#client = client;
    this.#ledger = ledger;
    this.#listener = listener;
  }

  expect(record: RequestRecord): void {
    this.#records.set(record.id, record);
    this.#ledger.open(record);
  }

  /** @param posted the request whose HTTP response contained the message, if one did. */
  receive(message: Incoming, eventId: string | undefined, posted: RequestRecord | undefined, httpStatus: number): void {
    if (eventId !== undefined && eventId !== "") this.#receiveEvent(eventId);
    if (message.method !== undefined) return this.#receiveServerMessage(message);
    // An HTTP error may lack the id of the rejected request.
    const isRejection = httpStatus >= 400 && (message.id === undefined || message.id === null);
    const record = isRejection ? posted : this.#records.get(message.id);
    if (record === undefined) {
      if (httpStatus < 400 && message.id !== undefined) this.#ledger.countStrayAnswer(this.#client, excerptOf(message));
    } else if (ANSWERED.has(record.verdict)) {
      this.#ledger.countSecondAnswer(record, excerptOf(message));
    } else {
      const { verdict, detail, serverPid } = judge(record, message, httpStatus);
      this.#ledger.settle(record, verdict, detail);
      if (serverPid !== undefined) this.#listener.onRight(serverPid);
    }
  }

  /** Settles a request whose HTTP exchange has ended without a response. */
  settleAtEnd(record: RequestRecord, { head, failure, excerpt = "", isKilled = false }: ExchangeEnd, isSessionDeleted: boolean): void {
    if (record.verdict !== undefined) return;
    const { status = 0, contentType = "" } = head ?? {};
    if (isKilled) this.#ledger.settle(record, "cut-by-kill");
    else if (isSessionDeleted) this.#ledger.settle(record, "cut-by-delete");
    else if (status >= 400) this.#ledger.settle(record, "untyped", `HTTP ${status}, ${contentType}: ${excerpt.slice(0, 60)}`);
    else if (this.#ledger.isTooLate(record)) this.#ledger.settle(record, "too-late");
    else this.#ledger.settle(record, "lost", failure ?? `HTTP ${status} without an answer`);
  }

  #receiveEvent(eventId: string): void {
    if (this.#eventIds.has(eventId)) {
      this.#ledger.countSecondAnswer({ client: this.#client, what: "event", id: 0 }, `event ${eventId} came again`);
    }
    this.#eventIds.add(eventId);
  }

  #receiveServerMessage(message: Incoming): void {
    const { id, method, params } = message;
    if (id !== undefined) return this.#listener.onServerRequest(message);
    if (method !== "notifications/progress") return;
    const token = String(params?.progressToken);
    const isOwn = token.startsWith(`${this.#client}/`) || UNKNOWN_TOKEN.test(token);
    if (!isOwn) this.#ledger.countCrossedNotification(this.#client, `progress of ${token}`);
  }
}

function excerptOf(message: object): string {
  return JSON.stringify(message).slice(0, EXCERPT_CHARS);
}
