import { randomBytes } from "node:crypto";
import { type Context, onDrain } from "../context.ts";
import { decodeString } from "../json/text.ts";
import { type AskKinds, isSubset, kindsOf, offeredKinds } from "../mcp/capabilities.ts";
import { SidecarError } from "../mcp/errors.ts";
import { readMessage, type RequestMessage, Slot } from "../mcp/message.ts";
import { inputRequired, transformToModernClient } from "../mcp/translate.ts";
import { progressTokenText, responseToClient } from "../mcp/rewrite.ts";
import { type MemoryAccount, type MemoryHolder, type Reservation, textMemoryBytes } from "../memory.ts";
import { type AskedCall, type Asking, Reply, type ReplyTarget, type ServerAsk } from "../session/reply.ts";
import { Timer } from "../timers.ts";
import { serversPerClient } from "./pool.ts";
import { earlyAnswersOf, missingCapability } from "../mcp/questions.ts";
import { bindingOf, OpenAsks } from "./asks.ts";
import { internalError } from "./failures.ts";
import type { StatelessRequest } from "./stateless-client.ts";

/** The time in which further questions join the first one. A server that asks several at once sends them together. */
const SETTLE_MS = 40;

/** The first transforms of a reply. The lane adds others. */
const OWN_TRANSFORMS = 2;

/** The errors of a call whose server has answered it. After any other error, the call is gone. */
const KEPT_ERRORS: ReadonlySet<string> = new Set(["UPSTREAM_RESPONSE_TOO_LARGE", "UPSTREAM_INVALID_RESPONSE", "INTERNAL_ERROR"]);

/**
 * A call that may need several requests of its client: each result `input_required` ends one, and the answers come with the next one (MCP
 * 2026-07-28, basic/utilities/mrtr). The server sees one call, and gets the answers as responses to its own requests.
 *
 * The call has the reply of the client's current request. Between two requests it is parked, with a reply whose response is kept here.
 */
export class AskingCall implements Asking, ReplyTarget {
  readonly memory: MemoryAccount;
  readonly #context: Context;
  readonly #parked: ParkedCalls;
  readonly #serverInfo: string | undefined;
  readonly #raiseLevel: (level: string) => void;
  readonly #binding: string;
  readonly #asks: OpenAsks;
  /** The kinds of questions that the client has declared in its last request. */
  #declared: AskKinds = 0;
  /** The kinds of questions that were refused because the client has not declared them. */
  #missing: AskKinds = 0;
  #call: AskedCall | undefined;
  /** The reply of the request that waits for the response; undefined while the call is parked, and after its end. */
  #reply: Reply | undefined;
  /** The parts of the first reply that the lane has added. */
  #ofLane: Pick<Reply, "transforms" | "onDisconnect"> | undefined;
  /** The response to the call, if it has ended while it was parked. */
  #outcome: { readonly response: string | SidecarError; readonly memory: Reservation } | undefined;
  readonly #settling: Timer;

  /** @param raiseLevel raises the level of the log messages that the client gets. @param first not kept, because its text may be long. */
  constructor(
    context: Context,
    parked: ParkedCalls,
    serverInfo: string | undefined,
    raiseLevel: (level: string) => void,
    first: StatelessRequest,
  ) {
    this.#context = context;
    this.#parked = parked;
    this.#settling = new Timer(context.timers, () => this.#settle());
    this.#raiseLevel = raiseLevel;
    this.#serverInfo = serverInfo;
    this.memory = first.memory;
    this.#asks = new OpenAsks(first.memory, earlyAnswersOf(first.request));
    this.#binding = first.envelope.declared === 0 ? "" : bindingOf(first.request);
  }

  /** Begins a request of the client. Must be called for the first one, before the lane gets it. */
  begin({ reply, request, envelope }: StatelessRequest): void {
    this.#reply = reply;
    this.#declared = envelope.declared;
    reply.asking = this;
    reply.transforms.push(
      transformToModernClient(request, envelope, this.#serverInfo),
      (text) => missingCapability(text, this.#missing) ?? text,
    );
    reply.onEnd = () => {
      this.#endRequest();
      this.#dropAsks();
    };
  }

  ask(ask: ServerAsk, call: AskedCall): void {
    this.#call = call;
    this.#asks.add(ask);
    this.#settleSoon();
  }

  canAnswer(request: RequestMessage): boolean {
    return isSubset(kindsOf(request), this.#declared);
  }

  onRefused(request: RequestMessage): void {
    if (!this.canAnswer(request)) this.#missing |= offeredKinds(kindsOf(request));
  }

  withdraw(ask: ServerAsk): void {
    this.#asks.withdraw(ask);
  }

  finish(outcome: string | SidecarError | undefined): undefined {
    this.#dropAsks();
    let memory: Reservation | undefined;
    if (typeof outcome === "string") memory = this.memory.reserve("requests", textMemoryBytes(outcome));
    else if (outcome !== undefined && KEPT_ERRORS.has(outcome.code)) memory = this.memory.hold("requests", 0);
    if (outcome === undefined || memory === undefined) this.#parked.remove(this);
    else this.#outcome = { response: outcome, memory };
  }

  isFor(request: RequestMessage): boolean {
    return this.#binding === bindingOf(request);
  }

  /** @returns the error if the queue of the server's stdin is too full for these answers. */
  roomError(answers: ReadonlyMap<string, string>): SidecarError | undefined {
    return this.#call?.roomError([...answers.values()].join(""));
  }

  /** Continues the call with the client's next request. Questions without a valid answer are asked again. */
  resume(next: StatelessRequest, answers: ReadonlyMap<string, string>): void {
    const { reply, request, envelope } = next;
    this.begin(next);
    reply.transforms.push(...(this.#ofLane?.transforms ?? []));
    if (this.#outcome !== undefined) return this.#respondOutcome(this.#outcome.response, reply);
    reply.onDisconnect = this.#ofLane?.onDisconnect;
    // The server has the call already.
    if (reply.record !== undefined) reply.record.sentAtMs = reply.acceptedAtMs;
    this.#call?.resume(reply, progressTokenText(request));
    if (envelope.logLevel !== undefined) this.#raiseLevel(envelope.logLevel);
    this.#missing |= this.#asks.answer(answers, envelope.declared);
    this.#settleSoon();
  }

  expire(reason: string): void {
    this.#asks.expire();
    this.#outcome?.memory.release();
    if (this.#outcome === undefined) this.#call?.cancel(reason);
  }

  showProgress(): void {
    this.#asks.showProgress();
  }

  #respondOutcome(outcome: string | SidecarError, reply: Reply): void {
    this.#outcome?.memory.release();
    if (outcome instanceof SidecarError) return reply.fail(outcome);
    const response = readMessage(outcome, "server");
    if (response.kind === "response") reply.respond(responseToClient(response, reply.idText));
    else reply.fail(internalError(true));
  }

  #dropAsks(): void {
    this.#asks.refuse("The call of this question has ended");
  }

  #endRequest(): void {
    this.#settling.clear();
    this.#reply = undefined;
  }

  #settleSoon(): void {
    if (this.#reply === undefined || this.#asks.isEmpty) return;
    this.#settling.set(Math.min(this.#settling.atMs, this.#context.nowMs() + SETTLE_MS));
  }

  /** Asks the client: parks the call, and ends the request with the questions. */
  #settle(): void {
    const reply = this.#reply;
    if (reply === undefined || this.#asks.isEmpty) return;
    const added = this.#parked.add(this);
    if ("refusal" in added) return this.#asks.refuse(added.refusal);
    const result = inputRequired(this.#asks.show(), this.#serverInfo, added.state);
    this.#endRequest();
    this.#ofLane ??= { transforms: reply.transforms.slice(OWN_TRANSFORMS), onDisconnect: reply.onDisconnect };
    reply.onEnd = undefined;
    reply.transforms.length = 0;
    const waiting = new Reply(this.#context, reply.idText, reply.acceptedAtMs, this);
    waiting.asking = this;
    this.#call?.park(waiting);
    reply.respond(`{"jsonrpc":"2.0","id":${reply.idText},"result":${result}}`);
  }
}

const STATE_BYTES = 24;
/** The share of all parked calls that one client may have. */
const CLIENT_SHARE = 1 / 4;
/** The interval at which a server sees that its questions are still open. Its SDK gives up after 60 s without a sign. */
const PROGRESS_MS = 20_000;

/** The calls whose clients were asked and have not answered. A client finds its call by the state of its last result, which is valid once. */
export class ParkedCalls {
  readonly #context: Context;
  readonly #replica: string;
  readonly #maxPerClient: number;
  /** Each has a timer for its end, and for signs to its server until then. */
  readonly #byState = new Map<string, { readonly call: AskingCall; readonly timer: Timer }>();
  #expired = 0;
  #refused = 0;

  /** @param replica names this process in states. */
  constructor(context: Context, replica: string) {
    this.#context = context;
    this.#replica = replica;
    const { maxParkedCalls, maxPrivateServers } = context.config;
    // Each server process of a client can wait for one answer at a time. One of them stays for other calls.
    this.#maxPerClient = Math.max(1, Math.min(Math.ceil(maxParkedCalls * CLIENT_SHARE), serversPerClient(maxPrivateServers) - 1));
    onDrain(context, "parked call", () => this.end("shutdown"));
  }

  /** `refused` counts the rounds of questions that were refused because too many calls were parked. */
  get status(): { readonly now: number; readonly expired: number; readonly refused: number } {
    return { now: this.#byState.size, expired: this.#expired, refused: this.#refused };
  }

  hasAnyOf(holder: MemoryHolder): boolean {
    return this.#byState.values().some(({ call }) => call.memory.holder === holder);
  }

  /** @returns the state that the next request of the client must have; or the reason why the call cannot wait. */
  add(call: AskingCall): { readonly state: string } | { readonly refusal: string } {
    const { config, nowMs, timers, draining } = this.#context;
    const { maxParkedCalls: maxParked, parkTimeoutMs: timeoutMs } = config;
    const own = this.#byState.values().filter((each) => each.call.memory.holder === call.memory.holder);
    if (draining.aborted) return { refusal: "The sidecar is shutting down" };
    if (this.#byState.size >= maxParked || own.toArray().length >= this.#maxPerClient) {
      this.#refused++;
      return { refusal: `Too many calls wait for answers: ${maxParked} in all, ${this.#maxPerClient} of one client` };
    }
    const state = `${this.#replica}.${randomBytes(STATE_BYTES).toString("base64url")}`;
    const expiresAtMs = nowMs() + timeoutMs;
    const timer = new Timer(timers, (atMs) => {
      if (atMs >= expiresAtMs) {
        this.#expired++;
        return this.#end(state, call, "its client has not answered in time");
      }
      timer.set(Math.min(expiresAtMs, atMs + PROGRESS_MS));
      call.showProgress();
    });
    timer.set(Math.min(expiresAtMs, nowMs() + PROGRESS_MS));
    this.#byState.set(state, { call, timer });
    return { state };
  }

  remove(call: AskingCall): void {
    for (const [state, parked] of this.#byState) if (parked.call === call) this.#forget(state);
  }

  /** Returns the parked call of a request with a state; the error if there is none. Undefined for a request without one. */
  find(request: RequestMessage, holder: MemoryHolder): AskingCall | SidecarError | undefined {
    const { text, outline } = request;
    const span = outline.span(Slot.repeatedState);
    if (span === undefined) return undefined;
    const state = text[span.start] === '"' ? decodeString(text, span.start, span.end) : "";
    const call = this.#byState.get(state)?.call;
    return call?.memory.holder === holder && call.isFor(request) ? call : this.#unknownState(state);
  }

  /** Ends the calls of a holder at the server; all by default. */
  end(reason: string, holder?: MemoryHolder): void {
    for (const [state, { call }] of this.#byState) {
      if (holder === undefined || call.memory.holder === holder) this.#end(state, call, reason);
    }
  }

  #unknownState(state: string): SidecarError {
    const replica = this.#replica;
    const [, other = replica] = /^([0-9a-f]{8})\./.exec(state) ?? [];
    const cause =
      other === replica
        ? "It was used before, or is of another request; or the call has ended, because of PARK_TIMEOUT_MS or of a restart of the server."
        : `Another replica has it (${other}; this one is ${replica}), or the sidecar has restarted: let a balancer send the requests of a client to one replica.`;
    const message = `This requestState belongs to no call of this client that waits for its answer here. ${cause} The call may have taken effect; check before you start it again.`;
    return new SidecarError("REQUEST_STATE_INVALID", message, { retrySafe: false });
  }

  #end(state: string, call: AskingCall, reason: string): void {
    this.#forget(state);
    this.#context.defects.guard("question", () => call.expire(reason));
  }

  #forget(state: string): void {
    this.#byState.get(state)?.timer.clear();
    this.#byState.delete(state);
  }
}
