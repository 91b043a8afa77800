import { shorten } from "../json/text.ts";
import { changingLists, findMissing, readCapabilities } from "../mcp/capabilities.ts";
import type { SidecarError } from "../mcp/errors.ts";
import { type JsonObject, negotiateProtocolVersion, type RequestMessage, type ResponseMessage } from "../mcp/message.ts";
import { listChanges } from "../mcp/subscription-filter.ts";
import { initializeResult } from "../mcp/translate.ts";
import type { MemoryAccount } from "../memory.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller, Session } from "../session/session.ts";
import { isOfClient } from "./call.ts";
import type { Calls } from "./calls.ts";
import { sessionOutdated } from "./failures.ts";

export function answerTo({ era, resultText, protocolVersion }: UpstreamHandshake, isPrivate: boolean, requested?: string) {
  if (isPrivate) return { protocolVersion, resultText };
  const negotiated = negotiateProtocolVersion(requested);
  return { protocolVersion: negotiated, resultText: initializeResult(resultText, era, negotiated) };
}

export interface InitializeRequest {
  readonly reply: Reply;
  readonly request: RequestMessage;
  readonly memory: MemoryAccount;
  /** Creates the session before the response is sent, whose headers have its id. @returns the error if there is none. */
  readonly open: (protocolVersion: string) => SidecarError | undefined;
  /** Called when the server has refused the request. It must finish the reply. */
  readonly onRefused: (refusal: ResponseMessage) => void;
  readonly onFailed: () => void;
}

/** What sessions rely on. They end if a new generation lacks some of it. */
export class SessionCapabilities {
  readonly #calls: Calls;
  readonly #endSession: (session: Session) => void;
  /** Notifications for a session that may have missed changes of lists, as the server would send them. */
  listChanges: readonly string[] = [];
  readonly #sessions = new Set<Session>();
  /** Undefined before the first generation. */
  #current: { readonly protocolVersion: string; readonly declared: JsonObject } | undefined;

  constructor(calls: Calls, endSession: (session: Session) => void) {
    this.#calls = calls;
    this.#endSession = endSession;
  }

  add(session: Session): void {
    this.#sessions.add(session);
  }

  announceTo(session: Session): void {
    for (const text of this.listChanges) session.deliverOnce(text);
  }

  delete(caller: Caller): void {
    const callers: Pick<Set<Caller>, "delete"> = this.#sessions;
    callers.delete(caller);
  }

  change(handshake: UpstreamHandshake, isPrivate: boolean): void {
    const former = this.#current;
    const { protocolVersion, resultText } = answerTo(handshake, isPrivate);
    const declared = readCapabilities(resultText);
    this.#current = { protocolVersion, declared };
    this.listChanges = listChanges(changingLists(declared));
    const isSameRevision = former?.protocolVersion === protocolVersion;
    const change = `protocol revision ${former?.protocolVersion} (now ${protocolVersion})`;
    const missing = former && (isSameRevision ? findMissing(former.declared, declared) : change);
    if (missing !== undefined) this.#end(shorten(missing), handshake.generation);
    // Their clients have had a server elsewhere, with other lists.
    else if (former === undefined) for (const session of this.#sessions) this.announceTo(session);
  }

  /** The server has become one without sessions. */
  endAll(): void {
    this.#end("the protocol revision of this session");
  }

  #end(missing: string, generation?: number): void {
    const sessions = [...this.#sessions];
    if (sessions.length === 0) return;
    const callers: ReadonlySet<Caller> = this.#sessions;
    const reason = `the mcp server no longer offers ${missing}`;
    this.#calls.context.log.warn({ generation, count: sessions.length, reason }, "sessions ended");
    const outdated = [...this.#calls.values()].filter((call) => isOfClient(call) && callers.has(call.caller) && !call.isSent);
    // The same error as for any later request: the client opens a new session, and can repeat the request there.
    this.#calls.giveUpAll(outdated, reason, () => sessionOutdated(missing));
    for (const session of sessions) this.#endSession(session);
  }
}
