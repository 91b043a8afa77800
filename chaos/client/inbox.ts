// The messages that one client receives. Each response is matched with its request, and checked.

import { MODERN_VERSION } from "../../test/support/modern-client.ts";
import { ASK_TOOL, digestOf, questionOf, SERVER_NAME, type ToolAnswer } from "../contract.ts";
import type { Ledger, RequestRecord, Verdict } from "../ledger.ts";
import type { ExchangeEnd } from "./caller.ts";

export interface Incoming extends Response {
  readonly method?: string;
  readonly params?: {
    readonly progressToken?: unknown;
    readonly uri?: unknown;
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
  settleAtEnd(record: RequestRecord, end: ExchangeEnd, isSessionDeleted: boolean): void {
    const { status = 0, contentType = "", failure, excerpt = "" } = end;
    if (record.verdict !== undefined) return;
    if (isSessionDeleted) this.#ledger.settle(record, "cut-by-delete");
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

interface Response {
  readonly id?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code?: unknown; readonly message?: unknown; readonly data?: unknown };
}

interface Judgement {
  readonly verdict: Verdict;
  readonly detail: string;
  readonly serverPid?: number;
}

interface ToolResult {
  readonly isError?: boolean;
  readonly content?: readonly { readonly text?: string }[];
}

function judge(record: RequestRecord, response: Response, httpStatus: number): Judgement {
  if (response.error !== undefined) return { verdict: "error", detail: errorCode(response.error, httpStatus) };
  const { isStateless = false, what } = record;
  if (isStateless && what === ASK_TOOL && isQuestion(response.result)) return judgeQuestion(record, response.result);
  const { resultType } = (response.result ?? {}) as { readonly resultType?: unknown };
  if (resultType !== (isStateless ? "complete" : undefined)) return expect(false, response);
  const isRight = RESULTS[what];
  return isRight === undefined ? judgeTool(record, response) : expect(isRight(response.result ?? {}), response);
}

interface OtherResult {
  readonly supportedVersions?: readonly unknown[];
  readonly serverInfo?: { readonly name?: string };
  readonly tools?: unknown;
}

/** The checks of results of other methods than tool calls. */
const RESULTS: Readonly<Record<string, (result: OtherResult) => boolean>> = {
  "subscriptions/listen": () => true,
  "server/discover": ({ supportedVersions }) => supportedVersions?.[0] === MODERN_VERSION,
  initialize: ({ serverInfo }) => serverInfo?.name === SERVER_NAME,
  ping: (result) => JSON.stringify(result) === "{}",
  "tools/list": ({ tools }) => Array.isArray(tools),
};

/** A result that asks the client (MCP 2026-07-28). */
export interface QuestionResult {
  readonly inputRequests: Readonly<Record<string, { readonly params?: { readonly message?: unknown } }>>;
  readonly requestState?: string;
}

export function isQuestion(result: unknown): result is QuestionResult {
  return (result as { resultType?: unknown } | undefined)?.resultType === "input_required";
}

/** A client must see the questions of its own call only. */
function judgeQuestion(record: RequestRecord, { inputRequests }: QuestionResult): Judgement {
  const others = Object.values(inputRequests).filter(({ params }) => params?.message !== questionOf(record));
  return others.length === 0 ? { verdict: "right", detail: "" } : { verdict: "crossed", detail: JSON.stringify(others).slice(0, 300) };
}

/** Returns the sidecar's own code of the error, or its HTTP status and JSON-RPC code if there is none. */
function errorCode({ code, data }: NonNullable<Response["error"]>, httpStatus: number): string {
  const named = (data as { code?: unknown } | undefined)?.code;
  return typeof named === "string" ? named : `HTTP ${httpStatus}, ${String(code)}`;
}

function judgeTool(record: RequestRecord, response: Response): Judgement {
  const result = response.result as ToolResult | undefined;
  const text = result?.content?.[0]?.text;
  if (result?.isError === true) return { verdict: "error", detail: "isError" };
  let answer: ToolAnswer;
  try {
    answer = JSON.parse(text ?? "") as ToolAnswer;
  } catch {
    return expect(false, response);
  }
  const { client, nonce, digest, pid } = answer;
  if (client !== record.client) return { verdict: "crossed", detail: `the answer of ${client}, ${nonce}` };
  if (nonce !== record.nonce || answer.text !== record.text || digest !== digestOf(record)) return expect(false, response);
  return { verdict: "right", detail: "", serverPid: pid };
}

function expect(isRight: boolean, response: Response): Judgement {
  return isRight ? { verdict: "right", detail: "" } : { verdict: "wrong", detail: JSON.stringify(response).slice(0, 300) };
}
