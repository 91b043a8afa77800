import { shorten } from "../json/text.ts";
import { type Capabilities, changingLists, findMissing, readCapabilities } from "../mcp/capabilities.ts";
import type { SidecarError } from "../mcp/errors.ts";
import { negotiateProtocolVersion, type RequestMessage, type ResponseMessage } from "../mcp/message.ts";
import { listChanges } from "../mcp/subscription-filter.ts";
import { initializeResult } from "../mcp/translate.ts";
import type { MemoryAccount } from "../memory.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller, Session } from "../session/session.ts";
import { isOfClient } from "./call.ts";
import type { Calls } from "./calls.ts";
import { sessionOutdated } from "./failures.ts";

/** The revision and the result for a client: those of its private server, or those of a shared server and its own revision. */
export function answerTo({ era, resultText, protocolVersion }: UpstreamHandshake, isPrivate: boolean, requested?: string) {
  if (isPrivate) return { protocolVersion, resultText };
  const negotiated = negotiateProtocolVersion(requested);
  return { protocolVersion: negotiated, resultText: initializeResult(resultText, era, negotiated) };
}

function promisedBy(handshake: UpstreamHandshake, isPrivate: boolean): Capabilities {
  const declared = readCapabilities(answerTo(handshake, isPrivate).resultText);
  return { protocolVersion: isPrivate ? handshake.protocolVersion : undefined, declared };
}

export interface InitializeRequest {
  readonly reply: Reply;
  readonly request: RequestMessage;
  readonly memory: MemoryAccount;
  /** Creates the session before the response is sent, whose headers have its id. @returns the error if there is none. */
  readonly open: (protocolVersion: string) => SidecarError | undefined;
  /** The server refuses it. The reply must be finished then. */
  readonly onRefused: (refusal: ResponseMessage) => void;
  readonly onFailed: () => void;
}

/** What each session relies on. Sessions end if a new generation lacks some of it. */
export class SessionCapabilities {
  readonly #calls: Calls;
  readonly #endSession: (session: Session) => void;
  /** The changes of the lists that the server may change: notifications as of the server, for a session that may have missed some. */
  listChanges: readonly string[] = [];
  /** Undefined for a session that was taken up before the first generation was ready. */
  readonly #bySession = new Map<Session, Capabilities | undefined>();
  #current: Capabilities | undefined;

  constructor(calls: Calls, endSession: (session: Session) => void) {
    this.#calls = calls;
    this.#endSession = endSession;
  }

  add(session: Session): void {
    this.#bySession.set(session, this.#current);
  }

  announceTo(session: Session): void {
    for (const text of this.listChanges) session.deliverOnce(text);
  }

  delete(caller: Caller): void {
    const byCaller: Pick<Map<Caller, Capabilities>, "delete"> = this.#bySession;
    byCaller.delete(caller);
  }

  /** Ends the sessions that cannot continue with a new generation, whose result differs from that of the former one. */
  change(handshake: UpstreamHandshake, isPrivate: boolean): void {
    const now = (this.#current = promisedBy(handshake, isPrivate));
    this.listChanges = listChanges(changingLists(now.declared));
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
      if (!missingOf.has(capabilities)) missingOf.set(capabilities, findMissing(capabilities, now));
      const missing = missingOf.get(capabilities);
      if (missing === undefined) continue;
      sessions.add(session);
      reason ??= missing;
    }
    if (reason !== undefined) this.#end(sessions, shorten(reason), handshake.generation);
  }

  /** The server has become one without sessions. Does nothing before the first generation. */
  endAll(): void {
    if (this.#bySession.size > 0) this.#end(new Set(this.#bySession.keys()), "the protocol revision of this session");
  }

  #end(sessions: ReadonlySet<Session>, missing: string, generation?: number): void {
    const callers: ReadonlySet<Caller> = sessions;
    const reason = `the mcp server no longer offers ${missing}`;
    this.#calls.context.log.warn({ generation, count: sessions.size, reason }, "sessions ended");
    const outdated = [...this.#calls.values()].filter((call) => isOfClient(call) && callers.has(call.caller) && !call.isSent);
    // The same error as for any later request: the client opens a new session, and can repeat the request there.
    this.#calls.giveUpAll(outdated, reason, () => sessionOutdated(missing));
    for (const session of sessions) this.#endSession(session);
  }
}
