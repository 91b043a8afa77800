import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import { type Capabilities, changingLists, findMissing, readCapabilities } from "../mcp/capabilities.ts";
import type { SidecarError } from "../mcp/errors.ts";
import { negotiateProtocolVersion, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import { listChanges } from "../mcp/subscription-filter.ts";
import { initializeResult } from "../mcp/translate.ts";
import type { MemoryAccount } from "../memory.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller, Session } from "../session/session.ts";
import { Call, isOfClient } from "./call.ts";
import type { Calls } from "./calls.ts";
import { internalError, sessionOutdated } from "./failures.ts";

/** Returns the revision and the `InitializeResult` of a client: those of its private server, or those of a shared server and its own revision. */
function answerTo({ era, resultText, protocolVersion }: UpstreamHandshake, isPrivate: boolean, requested?: string) {
  if (isPrivate) return { protocolVersion, resultText };
  const negotiated = negotiateProtocolVersion(requested);
  return { protocolVersion: negotiated, resultText: initializeResult(resultText, era, negotiated) };
}

/** Returns the revision and the capabilities that clients rely on after `initialize`. */
function promisedBy(handshake: UpstreamHandshake, isPrivate: boolean): Capabilities {
  const declared = readCapabilities(answerTo(handshake, isPrivate).resultText);
  return { protocolVersion: isPrivate ? handshake.protocolVersion : undefined, declared };
}

export interface InitializeRequest {
  readonly reply: Reply;
  readonly request: RequestMessage;
  readonly memory: MemoryAccount;
  /** Creates the session before the response is sent; the session id goes into the response's headers. @returns the error if there is none. */
  readonly open: (protocolVersion: string) => SidecarError | undefined;
  /** Called with the server's error if it refuses it. The reply must be finished then. */
  readonly onRefused: (refusal: ResponseMessage) => void;
  /** Called if no session is created. */
  readonly onFailed: () => void;
}

/** The `initialize` requests of clients. Answered from the server's handshake, and queued until it has finished. */
export class InitializeRequests {
  readonly #context: Context;
  readonly #calls: Calls;
  readonly #isPrivate: boolean;
  readonly #waiting = new Map<Call, InitializeRequest>();

  /**
   * @param isPrivate true if the server gets its client's own `initialize`. The client then waits as long as for any response. Otherwise it
   *   waits as long as any held request, also for the next start of the server.
   */
  constructor(context: Context, calls: Calls, isPrivate: boolean) {
    this.#context = context;
    this.#calls = calls;
    this.#isPrivate = isPrivate;
  }

  get isAwaited(): boolean {
    return this.#waiting.size > 0;
  }

  add(initialize: InitializeRequest, refusal: SidecarError | undefined): void {
    const calls = this.#calls;
    const { config, counters } = this.#context;
    const { reply, request, memory, onFailed } = initialize;
    const call = new Call("initialize", { memory }, request.method, request.text, undefined, reply);
    call.onReady = () => this.#answer(call, initialize);
    call.onEnded = (hasResult) => {
      this.#waiting.delete(call);
      if (!hasResult) onFailed();
    };
    const isReady = calls.handshake !== undefined;
    const expiresAtMs = reply.acceptedAtMs + (this.#isPrivate ? config.requestTimeoutMs : config.holdTimeoutMs);
    const error = refusal ?? (isReady ? undefined : (calls.roomError(request.text) ?? calls.hold(call, expiresAtMs)));
    if (error !== undefined) {
      reply.refuse(error);
      return onFailed();
    }
    if (!isReady && !reply.isAccepted) counters.requests.held++;
    reply.accept();
    if (isReady) return this.#answer(call, initialize);
    this.#waiting.set(call, initialize);
    reply.onDisconnect = () => calls.end(call, "unread");
  }

  /** Takes all waiting requests from the server, because it would reject the next one too. */
  onRefused(response: ResponseMessage): void {
    for (const [call, { onRefused }] of this.#waiting) {
      onRefused(response);
      this.#calls.end(call, "unread");
    }
  }

  failAll(error: SidecarError): void {
    for (const call of this.#waiting.keys()) this.#calls.end(call, error);
  }

  #answer(call: Call, { request, open }: InitializeRequest): void {
    const calls = this.#calls;
    const { handshake } = calls;
    if (handshake === undefined) return calls.end(call, calls.notReady());
    const { protocolVersion, resultText } = answerTo(handshake, this.#isPrivate, request.outline.stringAt(Slot.requestedVersion));
    try {
      calls.end(call, open(protocolVersion) ?? { resultText });
    } catch (error) {
      this.#context.defects.recover("session start", error, () => calls.end(call, internalError(false)));
    }
  }
}

/** The capabilities that each session relies on. Sessions end if a new generation lacks some of theirs. */
export class SessionCapabilities {
  readonly #context: Context;
  readonly #calls: Calls;
  readonly #endSession: (session: Session) => void;
  /** Undefined for a session that was taken up before the first generation was ready. */
  readonly #bySession = new Map<Session, Capabilities | undefined>();
  #current: Capabilities | undefined;
  /** The result of the handshake that promised them. */
  #resultText: string | undefined;

  constructor(context: Context, calls: Calls, endSession: (session: Session) => void) {
    this.#context = context;
    this.#calls = calls;
    this.#endSession = endSession;
  }

  /** Adds a session, which relies on the current capabilities, or on those of the first generation. */
  add(session: Session): void {
    this.#bySession.set(session, this.#current);
  }

  announceTo(session: Session): void {
    const { declared = {} } = this.#current ?? {};
    for (const text of listChanges(changingLists(declared))) session.deliverOnce(text);
  }

  /** Removes a session. Does nothing for a client without one. */
  delete(caller: Caller): void {
    const byCaller: Pick<Map<Caller, Capabilities>, "delete"> = this.#bySession;
    byCaller.delete(caller);
  }

  /**
   * Handles the capabilities of a new generation. Ends the sessions that cannot continue with them.
   *
   * @returns notifications as the server itself would send them, of the lists that may have changed; none for the first generation.
   */
  change(handshake: UpstreamHandshake, isPrivate: boolean): string[] {
    const { generation, resultText } = handshake;
    const isFirst = this.#current === undefined;
    // Most servers answer the same after each start. Sessions that rely on that object then lack nothing.
    const isSame = resultText === this.#resultText;
    const now = (this.#current = (isSame && this.#current) || promisedBy(handshake, isPrivate));
    this.#resultText = resultText;
    const sessions = new Set<Session>();
    // Thousands of sessions share a few objects.
    const missingOf = new Map<Capabilities, string | undefined>();
    let reason: string | undefined;
    for (const [session, capabilities] of this.#bySession) {
      if (capabilities === undefined) {
        this.#bySession.set(session, now);
        // Its client has had a server elsewhere, with other lists.
        this.announceTo(session);
        continue;
      }
      if (capabilities === now) continue;
      if (!missingOf.has(capabilities)) missingOf.set(capabilities, findMissing(capabilities, now));
      const missing = missingOf.get(capabilities);
      if (missing === undefined) continue;
      sessions.add(session);
      reason ??= missing;
    }
    if (reason !== undefined) this.#end(sessions, shorten(reason), generation);
    return isFirst ? [] : listChanges(changingLists(now.declared));
  }

  /** Ends all sessions of a server that has become one without sessions. Does nothing before the first generation. */
  endAll(): void {
    if (this.#bySession.size > 0) this.#end(new Set(this.#bySession.keys()), "the protocol revision of this session");
  }

  #end(sessions: ReadonlySet<Session>, missing: string, generation?: number): void {
    const callers: ReadonlySet<Caller> = sessions;
    const reason = `the mcp server no longer offers ${missing}`;
    this.#context.log.warn({ generation, count: sessions.size, reason }, "sessions ended");
    const outdated = [...this.#calls.values()].filter((call) => isOfClient(call) && callers.has(call.caller) && !call.isSent);
    // The same error as for any later request: the client opens a new session, and can repeat the request there.
    this.#calls.giveUpAll(outdated, reason, () => sessionOutdated(missing));
    for (const session of sessions) this.#endSession(session);
  }
}
