import { JsonRpcErrorCode, type SidecarError } from "../mcp/errors.ts";
import { type Outgoing, outgoing, readMessage, type RequestMessage, type ResponseMessage } from "../mcp/message.ts";
import { type MemoryAccount, type MemoryHolder, RecentMap, Reservation, textMemoryBytes } from "../memory.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";

/** The most time of a request whose time is renewed, in timeouts. */
export const MAX_RENEWED_TIMES = 10;

/** The sidecar's own response to a call; `resultText` is JSON. */
export type CallVerdict = SidecarError | { readonly resultText: string };

/** How a call ends: with a response, or without one, because the client has cancelled it or is gone. */
export type Outcome = ResponseMessage | CallVerdict | "dismissed" | "unread";

/**
 * Calls `onVerdict` once, now or later: with undefined if the call may be sent.
 *
 * @returns a function that stops the check; undefined if it is over.
 */
export type CallCheck = (onVerdict: (verdict: CallVerdict | undefined) => void) => (() => void) | undefined;

export interface CallLimits {
  readonly timeoutMs?: number | undefined;
  readonly timeoutSetting?: "REQUEST_TIMEOUT_MS" | "TOOL_TIMEOUTS_MS" | undefined;
  readonly semaphore?: Semaphore | undefined;
  readonly check?: CallCheck | undefined;
}

/** Answers a request with an empty result if a later one has outdated it: callers take turns, so the order at the server may differ. */
export function sendIf(isCurrent: () => boolean): CallLimits {
  return {
    check: (onVerdict) => {
      onVerdict(isCurrent() ? undefined : { resultText: "{}" });
      return undefined;
    },
  };
}

export type RequestDecision =
  | {
      /** The policy's limits of a tool call come before these. */
      readonly kind: "carry";
      readonly onEnded?: (hasResult: boolean) => void;
      readonly limits?: CallLimits;
      /** The request in the form of the server; undefined if the server gets the client's. */
      readonly request?: RequestMessage;
    }
  | {
      /** Answer it with this member, whose value is this JSON text. */
      readonly kind: "answer";
      readonly member: "result" | "error";
      readonly text: string;
    };

export function refuse(code: number, message: string): RequestDecision {
  return { kind: "answer", member: "error", text: JSON.stringify({ code, message }) };
}

export function unavailable(method: string): RequestDecision {
  return refuse(JsonRpcErrorCode.MethodNotFound, `${method} is not available: this MCP server does not offer it`);
}

export const EMPTY_RESULT: RequestDecision = { kind: "answer", member: "result", text: "{}" };

const CALL_BYTES = 4096;
/** A text up to this length counts until the end of its call. In UTF-16 units. */
const SHORT_LENGTH = 1024;
const TEXT_COPIES = 2;

/** A map whose keys take turns. The next one comes first, and a new one last. */
export class Turns<Key, Value> extends Map<Key, Value> {
  rotate(key: Key): void {
    const value = this.get(key);
    if (value === undefined) return;
    this.delete(key);
    this.set(key, value);
  }

  /** Gives these keys the next turns, in this order. Takes linear time. */
  advance(keys: readonly Key[]): void {
    for (const key of new Set([...keys, ...this.keys()])) this.rotate(key);
  }
}

/** Limits the calls of one tool in a lane, or the sidecar's requests in the background. It keeps the holders, so that each slot is released only once. */
export class Semaphore {
  readonly #name: string;
  readonly limit: number;
  readonly #holders = new Set<object>();
  readonly waiting = new Turns<object, readonly object[]>();

  constructor(name: string, limit: number) {
    this.#name = name;
    this.limit = limit;
  }

  get waitingCount(): number {
    return this.waiting.values().reduce((sum, { length }) => sum + length, 0);
  }

  get freeCount(): number {
    return this.limit - this.#holders.size;
  }

  get isFree(): boolean {
    return this.waiting.size === 0 && this.freeCount > 0;
  }

  get isUnused(): boolean {
    return this.waiting.size === 0 && this.#holders.size === 0;
  }

  /** For a queued call. Each free slot belongs to one of the owners that have waited longest. */
  isFreeFor(owner: object): boolean {
    const { freeCount } = this;
    return (
      freeCount > 0 &&
      this.waiting
        .keys()
        .take(freeCount)
        .some((each) => each === owner)
    );
  }

  acquire(holder: object): void {
    this.#holders.add(holder);
  }

  release(holder: object): void {
    this.#holders.delete(holder);
  }

  describe(): string {
    return `${this.#name} has ${this.limit} in flight, ${this.waitingCount} queued`;
  }
}

/** A request or notification for the server, from its acceptance to its end. */
export class Call implements Outgoing {
  /**
   * - `client`: a request to the server.
   * - `sidecar`: a request of the sidecar. It takes no slot, has no limit of a client, and ends with the generation.
   * - `notification`: of a client. It takes no slot and has no response.
   * - `initialize`: of a client, answered from the handshake.
   * - `waiting`: a request that is routed again when the server is ready and has a slot.
   */
  readonly kind: "client" | "sidecar" | "notification" | "initialize" | "waiting";
  /**
   * `checking` while its arguments are checked, with a slot. `passed` to the stdin of the current generation. `parked` while its client was
   * asked and has no request here. `suspended` while it waits to be repeated. Only `Calls` changes it.
   */
  state: "queued" | "checking" | "passed" | "parked" | "suspended" | "ended" = "queued";
  /** The queue keeps the order of each owner, and is fair between them: sessions, clients, the sidecar. */
  readonly owner: { readonly memory?: MemoryAccount };
  readonly needsSlot: boolean;
  /** Undefined for the sidecar itself, and before there is a session. */
  readonly caller: Caller | undefined;
  readonly account: MemoryAccount | undefined;
  readonly method: string;
  toolName: string | undefined;
  /** The reply to the client's current request; undefined for a notification, a request that waits, and the sidecar's own. */
  reply: Reply | undefined;
  /** The id at the server, also as progress token. A suspended call is repeated under another one. */
  wireId = Number.NaN;
  text: string;
  byteLength: number;
  isKept = false;
  isWritten = false;
  hasSlot = false;
  /** Undefined until it is passed to the current generation. */
  sentAtMs: number | undefined;
  /** Its place among the calls that were passed and the server's messages; 0 before. */
  sentNumber = 0;
  progressTokenText: string | undefined;
  expiresAtMs = Infinity;
  timeoutMs = Infinity;
  timeoutSetting: CallLimits["timeoutSetting"];
  /** When its time began: with its acceptance, or with its last full renewal. */
  beganAtMs = Infinity;
  deadlineMs = Infinity;
  /** When a slow call's response begins as an event stream; Infinity once it has, or if nobody waits. */
  slowAtMs = Infinity;
  /** Its client has seen progress or a question. */
  mustNotRestart = false;
  /** `due` while it waits to be sent again; `done` after that. */
  retry: "none" | "due" | "done" = "none";
  /** Calls of one owner and semaphore stay in order. */
  semaphore: Semaphore | undefined;
  check: CallCheck | undefined;
  stopCheck: (() => void) | undefined;
  memory: Reservation | undefined;
  onReady: (() => void) | undefined;
  onRefused: ((refusal: ResponseMessage) => void) | undefined;
  onEmptied: (() => void) | undefined;
  onEnded: ((hasResult: boolean, outcome: Outcome) => void) | undefined;

  constructor(kind: Call["kind"], owner: Call["owner"], method: string, text: string, caller?: Caller, reply?: Reply) {
    this.kind = kind;
    this.needsSlot = kind === "client" || kind === "waiting";
    this.caller = caller;
    this.account = owner.memory;
    this.owner = owner;
    this.method = method;
    this.text = text;
    this.byteLength = Buffer.byteLength(text);
    this.reply = reply;
  }

  get isSent(): boolean {
    return this.isWritten || this.retry !== "none" || this.mustNotRestart;
  }

  /** Counts a client's message until its end; a long text, and a notification, only until the server's stdin has taken it. */
  holdMemory(): void {
    this.memory?.release();
    this.memory = this.account && holdMessage(this.account, this.text, this.byteLength);
    if (this.reply !== undefined && this.text.length <= SHORT_LENGTH) return;
    this.onEmptied = () => this.memory?.resize(this.reply === undefined ? 0 : CALL_BYTES);
  }

  renew(nowMs: number): void {
    this.beganAtMs = nowMs;
    this.deadlineMs = nowMs + this.timeoutMs;
  }

  extend(nowMs: number): void {
    if (this.state !== "passed" || !this.isWritten) return;
    const lastMs = this.beganAtMs + this.timeoutMs * MAX_RENEWED_TIMES;
    this.deadlineMs = Math.min(lastMs, Math.max(this.deadlineMs, nowMs + this.timeoutMs));
  }
}

export type ClientCall = Call & { readonly caller: Caller; reply: Reply };

export function isOfClient(call: Call): call is ClientCall {
  return call.kind === "client";
}

/** The line counts for the client until it is written, and is for this generation only. */
export function createLine(account: MemoryAccount, text: string): Outgoing {
  const byteLength = Buffer.byteLength(text);
  const memory = holdMessage(account, text, byteLength);
  return { ...outgoing(text), byteLength, onEmptied: () => memory.release() };
}

export function holdMessage(account: MemoryAccount, text: string, byteLength = Buffer.byteLength(text)): Reservation {
  return new Reservation(account, "requests", CALL_BYTES + TEXT_COPIES * textMemoryBytes(text, byteLength));
}

/** Consecutive ids from a random one on, never reused (MCP 2025-11-25, basic/index). Clients cannot guess them. */
export class RequestIds {
  last: number;
  readonly #first: number;

  constructor() {
    const [bits = 0] = crypto.getRandomValues(new Uint32Array(1));
    // Some servers keep ids in signed 32-bit integers. This leaves room for a billion requests.
    this.last = bits >>> 2;
    this.#first = this.last + 1;
  }

  has(id: unknown): boolean {
    return typeof id === "number" && id >= this.#first && id <= this.last;
  }
}

/** So many cancelled ids are remembered: their late responses are not counted as unknown. */
const MAX_ABANDONED = 1000;

/** What one generation of the server has been sent: of whom, and what it has surely read. It reads in the order of ids. */
export class SentMessages {
  hasOnePrincipal = true;
  #highestAnsweredId = 0;
  readonly #ids: RequestIds;
  #principal: MemoryHolder | undefined;
  readonly #abandoned = new RecentMap<unknown, string>(MAX_ABANDONED);
  /** The last id before the newest cancellation; -1 if there was none. A response to a later id proves that the server has read it. */
  #lastIdAtAbandon = -1;
  /** The same for the newest line that was no request. */
  #lastIdAtNotification = -1;

  constructor(ids: RequestIds) {
    this.#ids = ids;
  }

  noteClient(holder: MemoryHolder): void {
    if (holder === this.#principal) return;
    this.hasOnePrincipal = this.#principal === undefined;
    this.#principal = holder;
  }

  /** True if nobody but the sender of this call can have chosen what the server prints. */
  isOnlySender({ kind }: Call): boolean {
    return kind === "client" ? this.hasOnePrincipal : this.#principal === undefined;
  }

  noteAnswered(id: number): void {
    this.#highestAnsweredId = Math.max(this.#highestAnsweredId, id);
  }

  noteNotification(): void {
    this.#lastIdAtNotification = this.#ids.last;
  }

  noteAbandoned(id: number, reason: string): void {
    this.#abandoned.set(id, reason);
    this.#lastIdAtAbandon = this.#ids.last;
  }

  takeAbandoned(id: unknown): string | undefined {
    const reason = this.#abandoned.get(id);
    this.#abandoned.delete(id);
    return reason;
  }

  get hasUnreadAbandoned(): boolean {
    return this.#lastIdAtAbandon >= this.#highestAnsweredId;
  }

  /** True if the server may not have read the newest line that was no request. */
  get hasUnreadNotification(): boolean {
    return Math.max(this.#lastIdAtNotification, this.#lastIdAtAbandon) >= this.#highestAnsweredId;
  }
}

export interface LaneLoad {
  /** Requests of clients that have not ended, queued ones included. */
  readonly requestsInFlight: number;
  /** Messages of clients in the queue. */
  readonly waiting: number;
  /** The bytes of all lines that the server has not read. */
  readonly queuedBytes: number;
}

export function addLoads(loads: Iterable<LaneLoad>): LaneLoad {
  let [requestsInFlight, waiting, queuedBytes] = [0, 0, 0];
  for (const load of loads) {
    requestsInFlight += load.requestsInFlight;
    waiting += load.waiting;
    queuedBytes += load.queuedBytes;
  }
  return { requestsInFlight, waiting, queuedBytes };
}

/** What sending a request twice does: `safe` if it only reads, `idempotent` if twice is the same as once. */
export type Effect = "safe" | "idempotent" | "unknown";

const SAFE_METHODS: ReadonlySet<string> = new Set([
  "ping",
  "tools/list",
  "resources/list",
  "resources/templates/list",
  "resources/read",
  "prompts/list",
  "prompts/get",
  "completion/complete",
  "tasks/list",
  "tasks/get",
]);

const IDEMPOTENT_METHODS: ReadonlySet<string> = new Set(["logging/setLevel", "resources/subscribe", "resources/unsubscribe"]);

export function effectOf(method: string): Effect {
  if (SAFE_METHODS.has(method)) return "safe";
  return IDEMPOTENT_METHODS.has(method) ? "idempotent" : "unknown";
}

/** Its id is replaced when it is sent. */
export function internalRequest(method: string, params: object, meta?: object): RequestMessage {
  const allParams = meta === undefined ? params : { ...params, _meta: meta };
  const request = readMessage(JSON.stringify({ jsonrpc: "2.0", id: 0, method, params: allParams }));
  if (request.kind !== "request") throw new Error(`not a request: ${method}`);
  return request;
}

export interface InternalRequest {
  readonly method: string;
  readonly params: object;
  /** Asked right before it is sent; false cancels it. */
  readonly isCurrent?: () => boolean;
  readonly onEnded?: (hasResult: boolean) => void;
  readonly memory?: Reservation | undefined;
}

/** @param requestId the receiver's id of the request. */
export function cancellation(requestId: number, reason: string): string {
  return JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason } });
}

export function errorAnswer(idText: string, code: number, message: string): string {
  return `{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify({ code, message })}}`;
}
