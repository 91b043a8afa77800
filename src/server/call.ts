import { type Outgoing, outgoing } from "../mcp/message.ts";
import { type MemoryAccount, type Reservation, textMemoryBytes } from "../memory.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import type { CallLimits, QueueEntry } from "./slots.ts";

/** The maximum total time of a request whose time is renewed, as a multiple of its timeout. */
export const MAX_RENEWED_TIMES = 10;

/** A line that may have to wait. */
interface QueuedLine extends Outgoing, QueueEntry {
  expiresAtMs: number;
  byteLength: number;
}

/** A client's line, which may be sent to the next generation if this one is lost. */
export interface ClientLine extends QueuedLine {
  readonly kind: "client" | "notification";
}

interface CallFields extends QueuedLine {
  /** The id of the request on the wire, which is also its progress token. A suspended call goes on with another one. */
  wireId: number;
  readonly method: string;
  /** The name of the tool, for a `tools/call`. */
  readonly toolName: string | undefined;
  /** That of the client's current request, if it has sent several for this call. */
  reply: Reply;
  /** The time at which the call was passed to the current generation's stdin, which may still queue it; undefined before. */
  sentAtMs: number | undefined;
  /** Its number among the calls that were passed to a stdin, in that order; 0 before. */
  sentNumber: number;
  /** The JSON text of the client's progress token, of its last request if it has sent several for this call. */
  progressTokenText: string | undefined;
  /** The time of the call from acceptance, and after each renewal. */
  readonly timeoutMs: number;
  /** The setting that raises it; undefined for a time that is not configured. */
  readonly timeoutSetting: CallLimits["timeoutSetting"];
  /** The time at which the call times out. `extend` renews it. */
  deadlineMs: number;
  lastDeadlineMs: number;
  /** True if its client has received progress or a question, or its server has asked for another request: it must not begin again. */
  mustNotRestart: boolean;
  /**
   * Parked: no request of the client waits for the call, because the client was asked and has not answered yet. Suspended: its client
   * waits, and the server gets another request for it later. Neither takes a slot.
   */
  pause: "parked" | "suspended" | undefined;
  /** `due` while the call waits to be sent again; `done` when it was sent again. */
  retry: "none" | "due" | "done";
  /** A check that runs before the call is sent for the first time. */
  readonly check: CallLimits["check"];
  /** Stops the running check. */
  stopCheck?: (() => void) | undefined;
  /** The memory of the call, from its acceptance to its end; undefined before, and for the sidecar's own. */
  memory?: Reservation | undefined;
  /** Called once at the end of the call. `hasResult` is false for an error. */
  readonly onSettled: ((hasResult: boolean) => void) | undefined;
}

/** A client's request on its way to the server and back. */
export interface ClientCall extends CallFields, ClientLine {
  readonly kind: "client";
  readonly caller: Caller;
}

/**
 * A call of a client, or a request of the sidecar itself, which takes no slot, for which no limit of a client holds, and which the next
 * generation does not get.
 */
export type Call = ClientCall | (CallFields & { readonly kind: "sidecar"; readonly caller: undefined });

/** The memory of a call besides its text: its objects, those of its HTTP request, and its place in tables. */
const CALL_BYTES = 4096;
/** A text is copied when it is written. */
const TEXT_COPIES = 2;

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
  return "kind" in line && line.kind !== "sidecar";
}

/** True if any generation may have seen the call: the current one or a former one. */
export function isSent({ isWritten, retry, mustNotRestart }: Call): boolean {
  return isWritten || retry !== "none" || mustNotRestart;
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
