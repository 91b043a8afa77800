import { randomUUID } from "node:crypto";
import type { Context } from "../context.ts";
import { findPath } from "../json/find.ts";
import { canBeAsked } from "../mcp/capabilities.ts";
import type { SidecarError } from "../mcp/errors.ts";
import { type Message, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import { responseToClient } from "../mcp/rewrite.ts";
import { clientInfoOf, initializeOf } from "../mcp/translate.ts";
import { refusesRevision } from "../mcp/versions.ts";
import type { MemoryAccount, MemoryHolder } from "../memory.ts";
import { logLimiter } from "../observe/log.ts";
import type { ClientClaims, SessionIds } from "../session/ids.ts";
import type { EventLog } from "../session/replay.ts";
import type { Reply } from "../session/reply.ts";
import { type Principal, Session } from "../session/session.ts";
import type { SessionStore } from "../session/store.ts";
import { SessionStreams } from "../session/streams.ts";
import { RateLimit } from "../timers.ts";
import type { HeldRequest } from "./calls.ts";
import { answerElsewhere, internalError, sessionNotFound, sessionRateExceeded, sharedServerOutdated, tooManySessions } from "./failures.ts";
import type { Pool, PooledServer } from "./pool.ts";

/** A longer `clientInfo`, such as one with icons, is shortened to the name and the version. In characters of JSON. */
const MAX_INFO_LENGTH = 128;

/** Returns all about a client that a server at another replica is told. @param initialize that of the client. */
export function claimsOf(initialize: RequestMessage, protocolVersion: string, isPrivate: boolean): ClientClaims {
  const { text, outline } = initialize;
  const params = outline.span(Slot.params);
  const capabilities = params === undefined ? undefined : findPath(text, params.start, ["capabilities"]);
  return {
    protocolVersion,
    // Other values declare nothing.
    capabilitiesText:
      capabilities === undefined || text[capabilities.start] !== "{" ? "" : text.slice(capabilities.start, capabilities.end),
    clientInfoText: clientInfoOf(initialize, MAX_INFO_LENGTH) ?? "",
    // A shared server without sessions may ask the client too, whatever ISOLATION is.
    needsCapabilities: isPrivate || canBeAsked(initialize),
  };
}

interface NewSession {
  readonly owner?: Principal | undefined;
  readonly memory: MemoryAccount;
  /** The streams of a client whose session ends with its connection. The default is the streams of Streamable HTTP. */
  readonly streams?: SessionStreams;
}

/** A session that is not open here, but could be taken up. */
export interface KnownSession {
  readonly id: string;
  readonly owner: Principal | undefined;
  readonly protocolVersion: string;
  /** The request in place of the one that has opened it elsewhere. */
  readonly initialize: RequestMessage;
}

/** Opens sessions: gets a lane for each `initialize`, and a session on it as soon as the server has answered. */
export class SessionOpener {
  readonly #context: Context;
  readonly #pool: Pool;
  readonly #sessions: SessionStore;
  readonly #ids: SessionIds;
  readonly #eventLog: EventLog;
  readonly #rate: RateLimit | undefined;
  readonly #mayLog: () => boolean;

  constructor(context: Context, pool: Pool, sessions: SessionStore, ids: SessionIds, eventLog: EventLog) {
    this.#context = context;
    this.#pool = pool;
    this.#sessions = sessions;
    this.#ids = ids;
    this.#eventLog = eventLog;
    const { sessionsPerMinute } = context.config;
    this.#mayLog = logLimiter(context.nowMs);
    this.#rate = sessionsPerMinute === undefined ? undefined : new RateLimit(sessionsPerMinute);
  }

  /**
   * Also called for an accepted request that one server has refused, and that goes to another.
   *
   * @param onOpen called with the new session, before the response is sent.
   */
  initialize(reply: Reply, request: RequestMessage, onOpen: (session: Session) => void, client: NewSession): void {
    const { owner, memory } = client;
    // A session takes its place when it is opened. Without one, no server is started and nothing is queued.
    const refusal =
      this.#pool.refusal(request, memory.holder) ??
      this.#roomRefusal(memory.holder) ??
      (reply.isAccepted ? undefined : this.#rateRefusal());
    if (refusal !== undefined) return reply.refuse(refusal);
    const streams = client.streams ?? new SessionStreams(memory, this.#eventLog);
    const server = this.#pool.acquire(request, streams);
    server.lane.initialize({
      reply,
      request,
      memory,
      open: (protocolVersion) => {
        const issueId = (): string => this.#ids.issue(claimsOf(request, protocolVersion, this.#pool.isPrivate(request)), owner);
        const id = client.streams === undefined ? issueId() : randomUUID();
        const session = this.#add(request, server, id, protocolVersion, streams, memory, owner);
        if (session !== undefined) onOpen(session);
        return session === undefined ? tooManySessions(this.#sessions.maxSessions) : undefined;
      },
      onRefused: (refused) => this.#onRefused(reply, request, memory, refused, () => this.initialize(reply, request, onOpen, client)),
      onFailed: () => {
        // The server may have sent a message already, or sends one while it ends. The stream of HTTP+SSE ends with its connection.
        if (client.streams === undefined) streams.close();
        this.#pool.release(server);
      },
    });
  }

  /** Returns the session with this id that is not open here; undefined if it cannot be taken up. */
  recognize(id: string, owner: Principal | undefined): KnownSession | undefined {
    const claims = this.#ids.open(id, owner);
    const initialize = claims && initializeOf(claims);
    if (claims === undefined || initialize === undefined) return undefined;
    return { id, owner, protocolVersion: claims.protocolVersion, initialize };
  }

  forget({ id, owner }: KnownSession): void {
    this.#ids.end(id, owner);
  }

  /**
   * Opens a session here that `initialize` has opened at another replica, or before a restart of the sidecar. The server gets an
   * `initialize` with the claims of its id if the client needs a server of its own.
   *
   * @param reply that of the request that names the session.
   * @param messages all that the client has sent with it; none for a GET.
   * @param onTaken called with the session, or the error, now or when it is known if the client gets a server of its own.
   */
  takeUp(
    known: KnownSession,
    memory: MemoryAccount,
    reply: HeldRequest["reply"],
    messages: readonly Pick<Message, "kind" | "text">[],
    onTaken: (session: Session | SidecarError) => void,
  ): void {
    const { defects } = this.#context;
    const { initialize } = known;
    // Responses and notifications alone do not start a server.
    const startsServer = messages.length === 0 || messages.some(({ kind }) => kind === "request");
    const open = (): void => {
      // The token may have been removed while the body arrived.
      if (known.owner?.isRevoked === true) onTaken(sessionNotFound());
      else if (this.#pool.isPrivate(initialize) && !startsServer) onTaken(answerElsewhere());
      else onTaken(this.#sessions.get(known.id) ?? this.#takeUp(known, memory));
    };
    if (this.#pool.isDecided(initialize)) return open();
    const onReady = (): void => {
      // Another request may have taken the session up meanwhile, or ended it.
      if (this.recognize(known.id, known.owner) === undefined) onTaken(sessionNotFound());
      else open();
    };
    const request = { method: "initialize", text: messages.map(({ text }) => text).join("") };
    const onDefect = (): void => onTaken(internalError(false));
    // The shared server, which may restart, shows it.
    const held = { owner: { memory }, reply, request };
    this.#pool.shared.lane.whenReady(held, () => defects.guard("session start", onReady, onDefect), onTaken);
  }

  #takeUp({ initialize, ...known }: KnownSession, memory: MemoryAccount): Session | SidecarError {
    const { counters } = this.#context;
    const roomRefusal = this.#pool.refusal(initialize, memory.holder) ?? this.#roomRefusal(memory.holder);
    // Without this limit, a client that can sign ids would have as many sessions as it likes.
    const refusal = roomRefusal ?? (this.#ids.keys.isKnownTo(known.owner) ? this.#rateRefusal() : undefined);
    if (refusal !== undefined) {
      counters.byKey.refusals.count(refusal.code);
      return refusal;
    }
    const streams = new SessionStreams(memory, this.#eventLog, true);
    const server = this.#pool.acquire(initialize, streams);
    const session = this.#add(initialize, server, known.id, known.protocolVersion, streams, memory, known.owner);
    if (session !== undefined) return session;
    streams.close();
    this.#pool.release(server);
    const error = tooManySessions(this.#sessions.maxSessions);
    counters.byKey.refusals.count(error.code);
    return error;
  }

  /** It may be a server without sessions, which the shared process is about to show. Then all clients share that one. */
  #onRefused(reply: Reply, request: RequestMessage, memory: MemoryAccount, refused: ResponseMessage, begin: () => void): void {
    const { config, defects, log } = this.#context;
    const onKnown = (): void => {
      if (!this.#pool.isPrivate(request)) begin();
      // The shared process is of another revision than the processes that start now. It will be like them when it has restarted.
      else if (refusesRevision(refused) && config.isolation !== "session") {
        const reason = "a server that started now refuses initialize; restart the sidecar, so that all are of one version";
        if (this.#mayLog()) log.warn({ reason }, "shared mcp server outdated");
        reply.fail(sharedServerOutdated());
      } else reply.respond(responseToClient(refused, reply.idText));
    };
    const onReady = (): void => defects.guard("session start", onKnown, () => reply.fail(internalError(false)));
    this.#pool.shared.lane.whenReady({ owner: { memory }, reply, request }, onReady, onReady);
  }

  #roomRefusal(holder: MemoryHolder): SidecarError | undefined {
    return this.#sessions.hasRoomFor(holder) ? undefined : tooManySessions(this.#sessions.maxSessions);
  }

  #rateRefusal(): SidecarError | undefined {
    const { config, nowMs } = this.#context;
    const waitMs = this.#rate?.take(nowMs());
    return waitMs === undefined ? undefined : sessionRateExceeded(config.sessionsPerMinute ?? 0, waitMs);
  }

  /** @returns undefined if there is no room for another session. */
  #add(
    initialize: RequestMessage,
    server: PooledServer,
    id: string,
    protocolVersion: string,
    streams: SessionStreams,
    memory: MemoryAccount,
    owner: Principal | undefined,
  ): Session | undefined {
    const { defects, nowMs } = this.#context;
    const startedAtMs = nowMs();
    const session = new Session(id, protocolVersion, server.lane, streams, memory, owner, startedAtMs);
    session.onEnd = (isOver) => {
      this.#pool.release(server);
      if (isOver) this.#ids.end(id, owner);
      this.#context.records.sessionEnded(protocolVersion, nowMs() - startedAtMs);
    };
    if (!this.#sessions.add(session)) return undefined;
    if (server.profile.kind === "private") server.session = session;
    server.lane.addSession(session, initialize);
    // The token was revoked while the client waited for its server. The session ends as soon as it exists.
    if (owner?.isRevoked === true) queueMicrotask(() => defects.guard("session end", () => this.#sessions.end(session)));
    return session;
  }
}
