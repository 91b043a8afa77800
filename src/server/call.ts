import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import { JsonRpcErrorCode, SidecarError } from "../mcp/errors.ts";
import { type Outgoing, outgoing, readMessage, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import { type MemoryAccount, type Reservation, textMemoryBytes } from "../memory.ts";
import { Reply, type ReplyTarget } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import type { Semaphore } from "./slots.ts";

/** The maximum total time of a request whose time is renewed, as a multiple of its timeout. */
export const MAX_RENEWED_TIMES = 10;

/** The sidecar's own response to a call: an error, or the JSON text of a result. */
export type CallVerdict = SidecarError | { readonly resultText: string };

/** How a call ends: with the server's response, with one of the sidecar, or without one, because the client has cancelled it or is gone. */
export type Outcome = ResponseMessage | CallVerdict | "dismissed" | "unread";

/**
 * Checks a call before it is sent. Calls `onVerdict` once, synchronously or later, unless the check is stopped: with undefined if the call
 * may be sent.
 *
 * @returns a function that stops the check; undefined if it is over.
 */
export type CallCheck = (onVerdict: (verdict: CallVerdict | undefined) => void) => (() => void) | undefined;

/** The limits of a single call, in addition to the limits of its lane. */
export interface CallLimits {
  /** The timeout of the call; the default is REQUEST_TIMEOUT_MS. */
  readonly timeoutMs?: number;
  /** The setting that this timeout comes from, if there is one. */
  readonly timeoutSetting?: "REQUEST_TIMEOUT_MS" | "TOOL_TIMEOUTS_MS" | undefined;
  /** The semaphore of its tool in the lane, in addition to MAX_IN_FLIGHT. Or that of the sidecar's requests in turn. */
  readonly semaphore?: Semaphore;
  readonly check?: CallCheck | undefined;
}

/**
 * Answers a queued request with an empty result if a later request has made it outdated. Callers take turns, so the server may get the
 * requests in another order than the sidecar did.
 */
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
      /** Send it to the server within these limits, and report if it had a result. The limits of a tool call come from the policy instead. */
      readonly kind: "carry";
      readonly onEnded?: (hasResult: boolean) => void;
      readonly limits?: CallLimits;
      /** The request in the form of the server; undefined if the server gets the client's. */
      readonly request?: RequestMessage;
    }
  | {
      /** Answer it in the server's place, with this member after the id. `text` is the JSON text of its value. */
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

/** The memory of a call besides its text: its objects, those of its HTTP request, and its place in tables. */
const CALL_BYTES = 4096;
/** A text up to this length counts until the end of its call. In UTF-16 units. */
const SHORT_LENGTH = 1024;
/** A text is copied when it is written. */
const TEXT_COPIES = 2;

/** A request or notification for the server, from its acceptance to its end. */
export class Call implements Outgoing {
  /**
   * - `client`: a client's request to the server.
   * - `sidecar`: a request of the sidecar itself. It takes no slot, has no limit of a client, and the next generation does not get it.
   * - `notification`: a client's notification. It takes no slot and has no response.
   * - `initialize`: a client's `initialize`, which is answered from the handshake of the server.
   * - `waiting`: a request that waits until the server is ready and has a free slot, and is then routed again.
   */
  readonly kind: "client" | "sidecar" | "notification" | "initialize" | "waiting";
  /**
   * `queued` until the server is ready and has a slot for it. `checking` while its arguments are checked, with a slot. `passed` when it was
   * passed to the stdin of the current generation, which may still hold it. `parked` if the server has it, but no request of the client waits
   * for it, because the client was asked and has not answered yet. `suspended` if its client waits, and the server gets another request for
   * it later. Only `Calls` changes it.
   */
  state: "queued" | "checking" | "passed" | "parked" | "suspended" | "ended" = "queued";
  /** Those with the same owner are in order. The queue is fair between owners: the session or client, or the sidecar itself. */
  readonly owner: { readonly memory?: MemoryAccount };
  /** True if it leaves the queue only when the server has a free slot (MAX_IN_FLIGHT). */
  readonly needsSlot: boolean;
  /** The sender of a request or notification; undefined for the sidecar itself, and if it has no session yet. */
  readonly caller: Caller | undefined;
  /** The memory of the client; undefined for the sidecar itself. */
  readonly account: MemoryAccount | undefined;
  readonly method: string;
  /** The name of the tool, for a `tools/call`. */
  toolName: string | undefined;
  /** The reply of the client's current request; undefined for a notification, and for a request that waits. */
  reply: Reply | undefined;
  /** The id of the request on the wire, which is also its progress token. A suspended call goes on with another one. */
  wireId = Number.NaN;
  text: string;
  byteLength: number;
  /** True if the text may be sent again, to the next generation. */
  isKept = false;
  isWritten = false;
  /** True while it holds one of the MAX_IN_FLIGHT slots of the server. */
  hasSlot = false;
  /** The time at which it was passed to the current generation's stdin; undefined before. */
  sentAtMs: number | undefined;
  /** Its number among the calls that were passed to a stdin and the server's messages, in this order; 0 before. */
  sentNumber = 0;
  /** The JSON text of the client's progress token, of its last request if it has sent several for this call. */
  progressTokenText: string | undefined;
  /** The time at which it is rejected if it is still queued. */
  expiresAtMs = Number.POSITIVE_INFINITY;
  /** The time of the call from acceptance, and after each renewal. */
  timeoutMs = Number.POSITIVE_INFINITY;
  /** The setting that raises it; undefined for a time that is not configured. */
  timeoutSetting: CallLimits["timeoutSetting"];
  /** The time at which the call times out. `extend` renews it. */
  deadlineMs = Number.POSITIVE_INFINITY;
  lastDeadlineMs = Number.POSITIVE_INFINITY;
  /** The time at which its response begins, because it takes long; Infinity if that has happened, or nobody waits for it. */
  slowAtMs = Number.POSITIVE_INFINITY;
  /** True if its client has received progress or a question, or its server has asked for another request: it must not begin again. */
  mustNotRestart = false;
  /** `due` while the call waits to be sent again; `done` when it was sent again. */
  retry: "none" | "due" | "done" = "none";
  /** That of its tool, or of the requests in turn, with slots of its own. Calls of one owner and semaphore stay in order. */
  semaphore: Semaphore | undefined;
  /** A check that runs before the call is sent for the first time. */
  check: CallCheck | undefined;
  /** Stops the running check. */
  stopCheck: (() => void) | undefined;
  /** The memory of a client's message, from its acceptance to its end. */
  memory: Reservation | undefined;
  /** Called when the server is ready and has a slot, for an `initialize` or a request that waits. */
  onReady: (() => void) | undefined;
  /** Called with the server's error if it refuses an `initialize` that waits. */
  onRefused: ((refusal: ResponseMessage) => void) | undefined;
  /** Called when the server's stdin has taken the call. */
  onEmptied: (() => void) | undefined;
  /** Called once at the end. `hasResult` is false for an error. `error` is given if it is one of the sidecar. */
  onEnded: ((hasResult: boolean, error?: SidecarError) => void) | undefined;

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

  /** True if any generation may have seen the call: the current one or a former one. */
  get isSent(): boolean {
    return this.isWritten || this.retry !== "none" || this.mustNotRestart;
  }

  /** The time at which the next of its limits may be reached. */
  get dueAtMs(): number {
    const { state, deadlineMs, expiresAtMs, slowAtMs } = this;
    if (state === "parked" || state === "ended") return Number.POSITIVE_INFINITY;
    return Math.min(deadlineMs, state === "queued" ? expiresAtMs : state === "passed" ? slowAtMs : Number.POSITIVE_INFINITY);
  }

  /**
   * Counts the memory of a client's message until its end. A long text counts until the server's stdin has taken it, unless it is kept; that
   * of a notification too, which ends then.
   */
  holdMemory(): void {
    this.memory?.release();
    this.memory = this.account && holdMessage(this.account, this.text, this.byteLength);
    if (this.reply !== undefined && this.text.length <= SHORT_LENGTH) return;
    this.onEmptied = () => this.memory?.resize(this.reply === undefined ? 0 : CALL_BYTES);
  }

  /** Gives a call its full time from now on. */
  renew(nowMs: number): void {
    this.deadlineMs = nowMs + this.timeoutMs;
    this.lastDeadlineMs = nowMs + this.timeoutMs * MAX_RENEWED_TIMES;
  }

  /** Renews the time of a call, because it shows progress or the server waits for the client. Its `lastDeadlineMs` is the limit. */
  extend(nowMs: number): void {
    if (this.state === "passed" && this.isWritten)
      this.deadlineMs = Math.min(this.lastDeadlineMs, Math.max(this.deadlineMs, nowMs + this.timeoutMs));
  }
}

/** A request of a client to the server. */
export type ClientCall = Call & { readonly caller: Caller; reply: Reply };

export function isOfClient(call: Call): call is ClientCall {
  return call.kind === "client";
}

/** Returns a line that a client has caused, and that only this generation gets. It counts for the client until it is written or dropped. */
export function createLine(account: MemoryAccount, text: string): Outgoing {
  const byteLength = Buffer.byteLength(text);
  const memory = holdMessage(account, text, byteLength);
  return { ...outgoing(text), byteLength, onEmptied: () => memory.release() };
}

/** Counts the memory of a client's message. */
export function holdMessage(account: MemoryAccount, text: string, byteLength = Buffer.byteLength(text)): Reservation {
  return account.hold("requests", CALL_BYTES + TEXT_COPIES * textMemoryBytes(text, byteLength));
}

/**
 * The ids of requests to one peer: consecutive integers from a random one on, which are never reused (MCP 2025-11-25, basic/index). Clients
 * cannot guess them.
 */
export class RequestIds {
  /** The last one that was minted. */
  last: number;
  readonly #first: number;

  constructor() {
    const [bits = 0] = crypto.getRandomValues(new Uint32Array(1));
    // Some servers keep ids in signed 32-bit integers. This leaves room for a billion requests.
    this.last = bits >>> 2;
    this.#first = this.last + 1;
  }

  mint(): number {
    return ++this.last;
  }

  /** True if `mint` has returned this id. */
  has(id: unknown): boolean {
    return typeof id === "number" && id >= this.#first && id <= this.last;
  }
}

/** The load of a lane. */
export interface LaneLoad {
  /** Client requests that were accepted and have not ended, queued ones included. */
  readonly requestsInFlight: number;
  /** The number of clients' messages in the queue: some of these requests, `initialize` requests and notifications. */
  readonly waiting: number;
  /** The bytes of all lines that are queued, being checked, or not yet read by the server. */
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

/** The effect of sending a request twice: `safe` if it only reads, `idempotent` if twice is the same as once, else `unknown`. */
export type Effect = "safe" | "idempotent" | "unknown";

/** Protocol requests that only read. Tool calls are not among them. */
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

/** Protocol requests that set a state. Sending one twice results in the same state. */
const IDEMPOTENT_METHODS: ReadonlySet<string> = new Set(["logging/setLevel", "resources/subscribe", "resources/unsubscribe"]);

/** Returns the effect of a protocol request. That of a tool call is `unknown` here. */
export function effectOf(method: string): Effect {
  if (SAFE_METHODS.has(method)) return "safe";
  return IDEMPOTENT_METHODS.has(method) ? "idempotent" : "unknown";
}

/** In UTF-16 units. */
const MAX_ERROR_LENGTH = 500;

/** Called once with the JSON text of the result, or with the reason why there is none, and the sidecar's error, if it is one. */
export type OnInternalResult = (resultText: string | undefined, reason?: string, error?: SidecarError) => void;

/** Returns an internal request. Its id is replaced when it is sent. @param meta undefined for none. */
export function internalRequest(method: string, params: object, meta?: object): RequestMessage {
  const allParams = meta === undefined ? params : { ...params, _meta: meta };
  const request = readMessage(JSON.stringify({ jsonrpc: "2.0", id: 0, method, params: allParams }));
  if (request.kind !== "request") throw new Error(`not a request: ${method}`);
  return request;
}

export function internalReply(context: Context, target: ReplyTarget): Reply {
  return new Reply(context, "0", context.nowMs(), target);
}

/** Returns the target of an internal request. @param onResult undefined if the result is not needed. */
export function resultTo(onResult?: OnInternalResult): ReplyTarget {
  return {
    finish: (outcome) => {
      if (outcome instanceof SidecarError) onResult?.(undefined, outcome.message, outcome);
      if (typeof outcome !== "string" || onResult === undefined) return undefined;
      const { outline } = readMessage(outcome) as ResponseMessage;
      const result = outline.textAt(Slot.result);
      const error = shorten(outline.textAt(Slot.error) ?? "", MAX_ERROR_LENGTH);
      if (result === undefined) onResult(undefined, `the server answered with an error: ${error}`);
      else onResult(result);
      return undefined;
    },
  };
}

/** A request that the sidecar itself sends to the server. */
export interface InternalRequest {
  readonly method: string;
  readonly params: object;
  /** Called right before the request is sent. If it returns false, the request is not sent. */
  readonly isCurrent?: () => boolean;
  readonly onEnded?: (hasResult: boolean) => void;
  /** The memory of the client that has caused the request, until its end. */
  readonly memory?: Reservation | undefined;
}

/** Returns a `notifications/cancelled` of the sidecar. @param requestId the receiver's id of the request. */
export function cancellation(requestId: number, reason: string): string {
  return JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason } });
}

/** Returns the error response to a request of the server. */
export function errorAnswer(idText: string, code: number, message: string): string {
  return `{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify({ code, message })}}`;
}
