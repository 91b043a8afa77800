import type { IncomingMessage, ServerResponse } from "node:http";
import { SidecarError } from "../../errors.ts";
import { sessionNotFound } from "../../lane/failures.ts";
import type { KnownSession, SessionOpener } from "../../lane/handshake/session-opener.ts";
import type { Message } from "../../protocol/message.ts";
import { LEGACY_PROTOCOL_VERSIONS } from "../../protocol/versions.ts";
import type { SessionStore } from "../../sessions/session-store.ts";
import type { Principal } from "../../sessions/principal.ts";
import { Session } from "../../sessions/session.ts";
import type { Post } from "../route.ts";

export interface SessionLookupOptions {
  readonly opener: Pick<SessionOpener, "recognize" | "takeUp" | "forget">;
  readonly sessions: SessionStore;
  readonly nowMs: () => number;
}

type Lookup = Pick<Post, "request" | "principal" | "session">;

/**
 * The sessions that requests name in `Mcp-Session-Id` (MCP 2025-11-25, basic/transports, session management). A session that another
 * principal has opened is not found, and the request does not count as its use.
 */
export class SessionLookup {
  readonly #options: SessionLookupOptions;

  constructor(options: SessionLookupOptions) {
    this.#options = options;
  }

  /** Returns the open session that a request names; undefined if it names none. */
  findOpen({ headers }: IncomingMessage, principal: Principal | undefined): Session | undefined {
    const session = this.#options.sessions.get(String(headers["mcp-session-id"]));
    return session?.owner === principal ? session : undefined;
  }

  /** Returns the error if a request names no session that could be found. */
  refusal(post: Lookup): SidecarError | undefined {
    const found = this.#look(post);
    return found instanceof SidecarError ? found : undefined;
  }

  /** Ends the session of a request. @returns the error if there is none. */
  end(post: Lookup): SidecarError | undefined {
    const found = this.#look(post);
    if (found instanceof SidecarError) return found;
    if (found instanceof Session) this.#options.sessions.end(found);
    else this.#options.opener.forget(found);
    return undefined;
  }

  #look({ request, principal, session: atArrival }: Lookup): Session | KnownSession | SidecarError {
    const { "mcp-session-id": id, "mcp-protocol-version": protocolVersion } = request.headers;
    if (typeof id !== "string") return new SidecarError("SESSION_REQUIRED", "The Mcp-Session-Id header is missing; call initialize first.");
    const session = atArrival?.hasEnded === false ? atArrival : this.findOpen(request, principal);
    const found = session ?? this.#options.opener.recognize(id, principal);
    if (found === undefined) return sessionNotFound();
    session?.touch(this.#options.nowMs());
    if (protocolVersion === undefined || LEGACY_PROTOCOL_VERSIONS.includes(String(protocolVersion))) return found;
    return new SidecarError("UNSUPPORTED_PROTOCOL_VERSION", `The protocol version ${JSON.stringify(protocolVersion)} is not supported.`, {
      supported: LEGACY_PROTOCOL_VERSIONS,
    });
  }

  /**
   * Finds the session of a request. A session of another replica is taken up.
   *
   * @param messages those of the request; undefined for a GET. Responses and notifications alone do not start a server.
   * @param onFound called with the session or the error, nearly always at once. Not called if the client disconnects before.
   */
  find(post: Post, messages: Message | readonly Message[] | undefined, onFound: (session: Session | SidecarError) => void): void {
    const found = this.#look(post);
    if (found instanceof Session) {
      // Another request may have taken it up while this one arrived.
      if (found !== post.session) this.#use(found, post.response);
      onFound(found);
    } else if (found instanceof SidecarError) onFound(found);
    else this.#takeUp(found, post, Array.isArray(messages) ? messages : messages === undefined ? [] : [messages as Message], onFound);
  }

  #takeUp(
    known: KnownSession,
    { response, memory, acceptedAtMs }: Post,
    messages: readonly Message[],
    onFound: (session: Session | SidecarError) => void,
  ): void {
    const onDisconnect = (listener: () => void): void => void response.on("close", listener);
    const startsServer = messages.length === 0 || messages.some(({ kind }) => kind === "request");
    const waitingText = (): string => messages.map(({ text }) => text).join("");
    this.#options.opener.takeUp(known, { memory, exchange: { acceptedAtMs, onDisconnect }, startsServer, waitingText }, (taken) => {
      if (taken instanceof Session) this.#use(taken, response);
      onFound(taken);
    });
  }

  /** Returns the open session of a request. It is kept from eviction: while the request arrives, and until its response is read. */
  use(request: IncomingMessage, response: ServerResponse, principal: Principal | undefined): Session | undefined {
    const session = this.findOpen(request, principal);
    if (session !== undefined) this.#use(session, response);
    return session;
  }

  #use(session: Session, response: ServerResponse): void {
    // The client of a long notification may have left. Nothing would end its use.
    if (response.destroyed) return;
    session.beginRequest();
    response.on("close", () => session.endRequest(this.#options.nowMs()));
  }
}
