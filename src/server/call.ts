import { type Outgoing, outgoing, type RequestMessage, Slot } from "../mcp/message.ts";
import { progressTokenText, requestToServer } from "../mcp/rewrite.ts";
import { type MemoryAccount, type Reservation, textMemoryBytes } from "../memory.ts";
import type { Caller, Exchange } from "../session/session.ts";
import type { CallCheck, CallLimits, QueueEntry, TimeoutSetting } from "./slots.ts";

/** The limits of a lane. */
export interface LaneLimits {
  /** The time of a request from acceptance to response. Progress and the server's requests to the client renew it. */
  readonly requestTimeoutMs: number;
  /** The time that a request waits for a server that is starting, restarting or overloaded. */
  readonly holdTimeoutMs: number;
  /** The delay after which a response begins as a stream, if the client accepts one. */
  readonly streamAfterMs: number;
  /** The maximum number of queue entries. */
  readonly maxHeldRequests: number;
  /** The maximum number of client requests that the server has at a time. */
  readonly maxInFlight: number;
  /** The maximum number of requests of one session that are in flight or queued. */
  readonly maxSessionRequests: number;
  /** The maximum bytes of all lines that are queued, being checked, or not yet read by the server. */
  readonly maxQueuedBytes: number;
  /** Used in an error message only. The line decoder enforces it. */
  readonly maxLineBytes: number;
  /** The interval of pings to an idle server; undefined means never. */
  readonly pingIntervalMs: number | undefined;
  /** The number of consecutive timeouts of a silent server after which it counts as unresponsive. */
  readonly hungTimeouts: number;
}

/** The maximum total time of a request whose time is renewed, as a multiple of its timeout. */
export const MAX_RENEWED_TIMES = 10;

/** A line that may have to wait. */
interface QueuedLine extends Outgoing, QueueEntry {
  expiresAtMs: number;
  byteLength: number;
}

/** A client's line, which may be sent to the next generation if this one is lost. */
export interface ClientLine extends QueuedLine {
  readonly origin: "client";
}

/**
 * Parked: no request of the client waits for the call, because the client was asked and has not answered yet. Suspended: its client waits,
 * and the server gets another request for it later. Neither takes a slot.
 */
type Pause = "parked" | "suspended";

interface CallFields extends QueuedLine {
  /** The id of the request on the wire, which is also its progress token. A suspended call goes on with another one. */
  wireId: number;
  readonly method: string;
  /** The name of the tool, for a `tools/call`. */
  readonly toolName: string | undefined;
  readonly exchange: Exchange;
  /** The time at which the call was passed to the current generation's stdin, which may still queue it; undefined before. */
  sentAtMs: number | undefined;
  /** Its number among the calls that were passed to a stdin, in that order; 0 before. */
  sentNumber: number;
  /** The JSON text of the client's progress token, of its last request if it has sent several for this call. */
  progressTokenText: string | undefined;
  /** The time of the call from acceptance, and after each renewal. */
  readonly timeoutMs: number;
  /** The setting that raises it; undefined for a time that is not configured. */
  readonly timeoutSetting: TimeoutSetting | undefined;
  /** The time at which the call times out. `extend` renews it. */
  deadlineMs: number;
  lastDeadlineMs: number;
  /** True if its client has received progress or a question, or its server has asked for another request: it must not begin again. */
  mustNotRestart: boolean;
  pause: Pause | undefined;
  /** `due` while the call waits to be sent again; `done` when it was sent again. */
  retry: "none" | "due" | "done";
  /** A check that runs before the call is sent for the first time. */
  readonly check?: CallCheck | undefined;
  /** Stops the running check. */
  stopCheck?: (() => void) | undefined;
  /** The memory of the call, from its acceptance to its end; undefined before, and for the sidecar's own. */
  memory?: Reservation | undefined;
  /** Called once at the end of the call. `hasResult` is false for an error. */
  readonly onSettled: ((hasResult: boolean) => void) | undefined;
}

/** A client's request on its way to the server and back. */
export interface ClientCall extends CallFields, ClientLine {
  readonly origin: "client";
  readonly caller: Caller;
}

/** A request of the sidecar itself. It takes no slot, no limit of a client holds for it, and the next generation does not get it. */
interface InternalCall extends CallFields {
  readonly origin: "sidecar";
  readonly caller?: undefined;
}

export type Call = ClientCall | InternalCall;

/** The members of a call that depend on its sender. */
export type Sender =
  | Pick<ClientCall, "origin" | "caller" | "owner" | "takesSlot">
  | Pick<InternalCall, "origin" | "caller" | "owner" | "takesSlot">;

interface CallOptions extends Pick<QueueEntry, "release" | "refuse"> {
  readonly sender: Sender;
  readonly exchange: Exchange;
  readonly request: RequestMessage;
  readonly wireId: number;
  readonly timeoutMs: number;
  /** The longest time that the call may be queued. */
  readonly maxWaitMs: number;
  /** True if a call of this method may be sent again. */
  readonly mayRetry: boolean;
  readonly limits: CallLimits | undefined;
  readonly onSettled: ((hasResult: boolean) => void) | undefined;
}

/** The limit for requests that are kept in memory to be sent again: a caller may have a thousand requests in flight. */
const MAX_KEPT_BYTES = 64 * 1024;

/** The memory of a call besides its text: its objects, those of its HTTP request, and its place in tables. */
const CALL_BYTES = 4096;
/** A text is copied when it is written. */
const TEXT_COPIES = 2;

/** Returns a call that was not sent yet, with its text for the server. */
export function createCall(options: CallOptions): Call {
  const { sender, exchange, request, wireId, timeoutMs, limits, onSettled, release, refuse } = options;
  const { method } = request;
  const text = requestToServer(request, wireId);
  const byteLength = Buffer.byteLength(text);
  const { acceptedAtMs } = exchange;
  // A literal with all members takes half of the memory of one that gets them one by one.
  const fields = {
    origin: sender.origin,
    caller: sender.caller,
    owner: sender.owner,
    takesSlot: sender.takesSlot,
    wireId,
    method,
    toolName: method === "tools/call" ? request.outline.stringAt(Slot.toolName) : undefined,
    semaphore: limits?.semaphore,
    exchange,
    text,
    byteLength,
    isKept: sender.origin === "client" && byteLength <= MAX_KEPT_BYTES && options.mayRetry,
    state: "queued",
    sentAtMs: undefined,
    sentNumber: 0,
    progressTokenText: progressTokenText(request),
    timeoutMs,
    timeoutSetting: limits?.timeoutMs === undefined ? "REQUEST_TIMEOUT_MS" : limits.timeoutSetting,
    deadlineMs: acceptedAtMs + timeoutMs,
    lastDeadlineMs: acceptedAtMs + timeoutMs * MAX_RENEWED_TIMES,
    expiresAtMs: acceptedAtMs + options.maxWaitMs,
    mustNotRestart: false,
    pause: undefined,
    retry: "none",
    check: limits?.check,
    stopCheck: undefined,
    memory: undefined,
    onEmptied: undefined,
    onSettled,
    release,
    refuse,
  } as const;
  return fields as Call;
}

type NotificationOptions = Pick<ClientLine, "text" | "expiresAtMs" | "release" | "refuse"> & { readonly caller: Caller };

/** Returns a client's notification that was not sent yet. It takes no slot, and is never sent again. */
export function createNotification({ caller, text, expiresAtMs, release, refuse }: NotificationOptions): ClientLine {
  const byteLength = Buffer.byteLength(text);
  const memory = holdMessage(caller.memory, text, byteLength);
  const onEmptied = (): void => memory.release();
  const refuseAndRelease = (): void => {
    memory.release();
    refuse();
  };
  const fixed = { origin: "client", owner: caller, takesSlot: false, isKept: false, state: "queued" } as const;
  return { ...fixed, text, byteLength, expiresAtMs, release, refuse: refuseAndRelease, onEmptied };
}

/** Counts the memory of a call. Must be called when it is accepted. */
export function holdCallMemory(call: ClientCall): void {
  const memory = holdMessage(call.caller.memory, call.text, call.byteLength);
  call.memory = memory;
  call.onEmptied = () => memory.resize(CALL_BYTES);
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

/** True for a line that a client sent, also if it is a notification. */
export function isClientLine(line: Outgoing): line is ClientLine {
  return line.origin === "client";
}

/** True if any generation may have seen the call: the current one or a former one. */
export function isSent({ state, retry, mustNotRestart }: Call): boolean {
  return state === "written" || retry !== "none" || mustNotRestart;
}

/** Must be called when a call is passed to a stdin. @param sentNumber its number among all of them. */
export function markSent(call: Call, nowMs: number, sentNumber: number): void {
  call.sentAtMs = nowMs;
  call.sentNumber = sentNumber;
  call.exchange.observed?.onSent(nowMs);
}

/** Gives a call its full time from now on. */
export function renew(call: Call, nowMs: number): void {
  call.deadlineMs = nowMs + call.timeoutMs;
  call.lastDeadlineMs = nowMs + call.timeoutMs * MAX_RENEWED_TIMES;
}

/** Returns the time that a call has had by its deadline, since its acceptance or its last full renewal. */
export function takenMs({ deadlineMs, lastDeadlineMs, timeoutMs }: Call): number {
  return Math.round(deadlineMs - (lastDeadlineMs - timeoutMs * MAX_RENEWED_TIMES));
}

/** Prepares a call to be sent as another request than before. */
export function setRequest(call: ClientCall, request: RequestMessage): void {
  call.text = requestToServer(request, call.wireId);
  call.byteLength = Buffer.byteLength(call.text);
  call.memory?.release();
  holdCallMemory(call);
}

/** Renews the time of a call, because it shows progress or the server waits for the client. Its `lastDeadlineMs` is the limit. */
export function extend(call: Call, nowMs: number): void {
  if (call.pause !== undefined) return;
  call.deadlineMs = Math.min(call.lastDeadlineMs, Math.max(call.deadlineMs, nowMs + call.timeoutMs));
}

/** The load of a lane. */
export interface LaneLoad {
  /** Client requests that were accepted and have not ended, queued ones included. */
  readonly requestsInFlight: number;
  /** Entries of the queue: some of these requests, `initialize` requests and notifications. */
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
