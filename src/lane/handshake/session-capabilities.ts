import { shorten } from "../../json/text.ts";
import type { Log } from "../../observability/log.ts";
import { type NotificationMessage, readMessage } from "../../protocol/message.ts";
import { isSent } from "../calls/call.ts";
import type { CallTable } from "../calls/call-table.ts";
import { sessionOutdated } from "../failures.ts";
import { changingLists, findMissing, type Capabilities } from "./capabilities.ts";
import type { Caller } from "../../sessions/caller.ts";
import type { Session } from "../../sessions/session.ts";

export interface SessionCapabilitiesOptions {
  readonly calls: CallTable;
  readonly log: Log;
  readonly endSession: (session: Session) => void;
}

/** The capabilities that each session relies on. Sessions end if a new generation lacks some of theirs. */
export class SessionCapabilities {
  readonly #calls: CallTable;
  readonly #log: Log;
  readonly #endSession: (session: Session) => void;
  /** Undefined for a session that was taken up before the first generation was ready. */
  readonly #bySession = new Map<Session, Capabilities | undefined>();
  #current: Capabilities | undefined;

  constructor({ calls, log, endSession }: SessionCapabilitiesOptions) {
    this.#calls = calls;
    this.#log = log;
    this.#endSession = endSession;
  }

  /** Adds a session, which relies on the current capabilities, or on those of the first generation. */
  add(session: Session): void {
    this.#bySession.set(session, this.#current);
  }

  /** Tells a session of the lists that may have changed. */
  announceTo(session: Session): void {
    const { declared = {} } = this.#current ?? {};
    for (const list of changingLists({ protocolVersion: undefined, declared })) session.deliverOnce(listChanged(list).text);
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
  change(now: Capabilities, generation: number): NotificationMessage[] {
    const isFirst = this.#current === undefined;
    this.#current = now;
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
    if (reason !== undefined) this.#end(sessions, shorten(reason), generation);
    return isFirst ? [] : changingLists(now).map(listChanged);
  }

  /** Ends all sessions of a server that has become one without sessions. Does nothing before the first generation. */
  endAll(): void {
    if (this.#bySession.size > 0) this.#end(new Set(this.#bySession.keys()), "the protocol revision of this session");
  }

  #end(sessions: ReadonlySet<Session>, missing: string, generation?: number): void {
    const callers: ReadonlySet<Caller> = sessions;
    const reason = `the mcp server no longer offers ${missing}`;
    this.#log.warn({ generation, count: sessions.size, reason }, "sessions ended");
    const outdated = this.#calls.values().filter((call) => call.origin === "client" && callers.has(call.caller) && !isSent(call));
    // The same error as for any later request: the client opens a new session, and can repeat the request there.
    this.#calls.giveUpAll(outdated, reason, () => sessionOutdated(missing));
    for (const session of sessions) this.#endSession(session);
  }
}

function listChanged(list: string): NotificationMessage {
  const message = readMessage(JSON.stringify({ jsonrpc: "2.0", method: `notifications/${list}/list_changed` }));
  if (message.kind !== "notification") throw new Error(`the announcement of ${list} is not a notification`);
  return message;
}
