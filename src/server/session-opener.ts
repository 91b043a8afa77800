import { randomUUID } from "node:crypto";
import type { Context } from "../context.ts";
import { textOf } from "../json/read.ts";
import { canBeAsked, capabilitiesOf } from "../mcp/capabilities.ts";
import { SidecarError } from "../mcp/errors.ts";
import { type Message, refusesRevision, type RequestMessage, type ResponseMessage } from "../mcp/message.ts";
import { responseToClient } from "../mcp/rewrite.ts";
import { clientInfoOf, initializeOf } from "../mcp/translate.ts";
import { type MemoryAccount, RecentMap } from "../memory.ts";
import type { ClientClaims, SessionIds } from "../session/ids.ts";
import type { EventLog } from "../session/replay.ts";
import type { Reply } from "../session/reply.ts";
import { type KnownSession, type Principal, Session } from "../session/session.ts";
import type { SessionStore } from "../session/store.ts";
import { SessionStreams } from "../session/streams.ts";
import type { HeldRequest } from "./calls.ts";
import { answerElsewhere, internalError, overloaded, sessionNotFound, sharedServerOutdated, tooManySessions } from "./failures.ts";
import type { Pool, PooledServer } from "./pool.ts";

/** If an older session is forgotten, its client is told once too often that lists may have changed. */
const MAX_UNOPENED = 1000;

/** A server at another replica is told these about a client. */
export function claimsOf(initialize: RequestMessage, protocolVersion: string, isPrivate: boolean): ClientClaims {
  return {
    protocolVersion,
    capabilitiesText: textOf(initialize.text, capabilitiesOf(initialize)) ?? "",
    clientInfoText: clientInfoOf(initialize) ?? "",
    // A shared server without sessions may ask the client too, whatever ISOLATION is.
    needsCapabilities: isPrivate || canBeAsked(initialize),
  };
}

/** Opens new sessions, and takes up those of another replica or of before a restart. Each may wait for its server. */
export class SessionOpener {
  readonly #context: Context;
  readonly #pool: Pool;
  readonly #sessions: SessionStore;
  readonly #ids: SessionIds;
  readonly #eventLog: EventLog;
  /** The clients of these sessions have not read any list that may have changed. */
  readonly #unopened = new RecentMap<string, true>(MAX_UNOPENED);

  constructor(context: Context, pool: Pool, sessions: SessionStore, ids: SessionIds, eventLog: EventLog) {
    [this.#context, this.#pool, this.#sessions, this.#ids, this.#eventLog] = [context, pool, sessions, ids, eventLog];
  }

  /** @param isTakenUp true if they follow other streams of the same session. */
  createStreams(memory: MemoryAccount, isTakenUp = false): SessionStreams {
    return new SessionStreams(memory, this.#eventLog, isTakenUp);
  }

  /**
   * Answers `initialize`, even if it was accepted before, and one server has refused it.
   *
   * @param streams if the client cannot resume them, the session ends with its connection.
   * @param onOpen called before the response is sent. The session is open only if its server may be used now. Otherwise its first request
   * opens it.
   */
  initialize(
    reply: Reply,
    request: RequestMessage,
    streams: SessionStreams,
    owner: Principal | undefined,
    onOpen: (session: Session | KnownSession) => void,
  ): void {
    const { memory, canResume } = streams;
    const joinable = this.#pool.findJoinable(request, streams);
    if (joinable !== undefined && !joinable.lane.isReady) {
      const again = (): void => this.initialize(reply, request, streams, owner, onOpen);
      return joinable.lane.hold({ owner: { memory }, reply, request }, again, (error) => reply.refuse(error));
    }
    const server = this.#pool.acquire(request, streams, !reply.isAccepted);
    if (server instanceof SidecarError) return reply.refuse(server);
    const isPrivate = server.profile.kind === "private";
    server.lane.initialize({
      reply,
      request,
      memory,
      open: (protocolVersion) => {
        const claims = claimsOf(request, protocolVersion, isPrivate);
        const id = canResume ? this.#ids.issue(claims, owner) : undefined;
        const known = { id: id ?? randomUUID(), owner, protocolVersion, initialize: request };
        const mustWait = isPrivate && server.admits !== "all" && streams !== server.profile.streams;
        // No later request would find it.
        if (mustWait && id === undefined) return overloaded("another session of this client has it alone at first");
        if (mustWait) this.#unopened.set(known.id, true);
        const session = mustWait ? known : this.#open(server, streams, known);
        if (session instanceof SidecarError) return session;
        onOpen(session);
        return undefined;
      },
      onRefused: (refused) => {
        const next = (): void => {
          if (this.#pool.isPrivate(request)) this.#fail(reply, refused);
          else this.initialize(reply, request, canResume ? this.createStreams(memory) : streams, owner, onOpen);
        };
        const onReady = (): void => this.#context.defects.guard("session start", next, () => reply.fail(internalError(false)));
        // The shared process may be about to show that the server has no sessions. Then all clients share that one.
        this.#pool.shared.lane.whenReady({ owner: { memory }, reply, request }, onReady, onReady);
      },
      onFailed: () => {
        // The server may have sent a message, or sends one while it ends. The stream of HTTP+SSE ends with its connection.
        if (canResume) streams.close();
        this.#pool.release(server);
      },
    });
  }

  recognize(id: string, owner: Principal | undefined): KnownSession | undefined {
    const claims = this.#ids.open(id, owner);
    const initialize = claims && initializeOf(claims);
    if (claims === undefined || initialize === undefined) return undefined;
    return { id, owner, protocolVersion: claims.protocolVersion, initialize };
  }

  end({ id, owner }: Session | KnownSession): void {
    const session = this.#sessions.get(id, owner);
    if (session === undefined) this.#ids.end(id, owner);
    else this.#sessions.end(session);
  }

  /**
   * Opens a session here that `initialize` has opened at another replica, or before a restart. A private server gets an `initialize` with
   * the claims of its id. The request waits while the session moves, or while only the first session may use the server.
   *
   * @param found what was just found for the request.
   * @param messages all that the client has sent with it; none for a GET.
   */
  takeUp(
    found: Session | KnownSession,
    memory: MemoryAccount,
    reply: HeldRequest["reply"],
    messages: readonly Pick<Message, "kind" | "text">[],
    onTaken: (session: Session | SidecarError) => void,
  ): void {
    // Responses and notifications alone do not start a server.
    const startsServer = messages.length === 0 || messages.some(({ kind }) => kind === "request");
    const request = { method: "initialize", text: messages.map(({ text }) => text).join("") };
    const held = { owner: { memory }, reply, request };
    const { counters } = this.#context;
    const onFailed = (error: SidecarError): void => {
      for (const { kind } of messages) if (kind === "request") counters.byKey.refusals.count(error.code);
      onTaken(error);
    };
    const { id, owner } = found;
    const takeUp = (known = this.recognize(id, owner)): void => {
      // Meanwhile, another request may have taken it up or ended it, or its token was removed.
      if (owner?.isRevoked === true) return onTaken(sessionNotFound());
      const open = this.#sessions.get(id, owner);
      const former = open?.isMoving === true ? this.#pool.serverOf(open) : undefined;
      if (former !== undefined) return former.lane.hold(held, takeUp, onFailed);
      if (open !== undefined) return onTaken(open);
      if (known === undefined) return onTaken(sessionNotFound());
      // The shared server, which may restart, shows if there are others.
      if (!this.#pool.isDecided(known.initialize)) return this.#pool.shared.lane.whenReady(held, takeUp, onFailed);
      if (!startsServer && this.#pool.isPrivate(known.initialize)) return onTaken(answerElsewhere());
      const joinable = this.#pool.findJoinable(known.initialize, { canResume: true, memory });
      if (joinable?.admits === "first") joinable.lane.hold(held, takeUp, onFailed);
      else onTaken(this.#takeUp(known, memory));
    };
    takeUp("initialize" in found ? found : undefined);
  }

  #takeUp(known: KnownSession, memory: MemoryAccount): Session | SidecarError {
    const { initialize, owner } = known;
    const streams = this.createStreams(memory, !this.#unopened.delete(known.id));
    // Without the rate, a client that can sign ids would have as many sessions as it likes.
    const server = this.#pool.acquire(initialize, streams, this.#ids.keys.isKnownTo(owner));
    const session = server instanceof SidecarError ? server : this.#open(server, streams, known);
    if (session instanceof Session) return session;
    if (!(server instanceof SidecarError)) this.#pool.release(server);
    streams.close();
    this.#context.counters.byKey.refusals.count(session.code);
    return session;
  }

  #fail(reply: Reply, refused: ResponseMessage): void {
    const { config, limitedLog } = this.#context;
    // The shared process is of another revision than the processes that start now, until it restarts.
    if (!refusesRevision(refused) || config.isolation === "session") return reply.respond(responseToClient(refused, reply.idText));
    const reason = "a server that started now refuses initialize; restart the sidecar, so that all are of one version";
    limitedLog.warn({ reason }, "shared mcp server outdated");
    reply.fail(sharedServerOutdated());
  }

  #open(server: PooledServer, streams: SessionStreams, known: KnownSession): Session | SidecarError {
    const { id, owner, protocolVersion, initialize } = known;
    const { defects, nowMs, records } = this.#context;
    const startedAtMs = nowMs();
    const session = new Session(known, server.lane, streams, startedAtMs);
    session.onEnd = (isOver) => {
      this.#pool.release(server, session);
      if (isOver) this.#ids.end(id, owner);
      records.sessionEnded(protocolVersion, nowMs() - startedAtMs);
    };
    if (!this.#pool.addSession(server, session, initialize)) return tooManySessions(this.#sessions.maxSessions);
    // The token was revoked while the client waited for its server. The session ends as soon as it exists.
    if (owner?.isRevoked === true) queueMicrotask(() => defects.guard("session end", () => this.#sessions.end(session)));
    return session;
  }
}
