import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Counters } from "../observability/counters.ts";
import type { Log } from "../observability/log.ts";
import { LogLimiter } from "../observability/log-limiter.ts";
import type { Principal } from "../sessions/principal.ts";

export interface ConnectionLimits {
  readonly maxConnections: number;
  readonly maxConnectionsWithoutToken: number;
}

export interface Connection {
  /** In the order of their requests, until their last byte is passed to the operating system. */
  readonly responses: Set<ServerResponse>;
  /** True until it is admitted. */
  isNew: boolean;
  /** Whose token has admitted it; undefined if none has. */
  principal: Principal | undefined;
  /** The number of requests in the last read, and the bytes read by then. */
  requestsOfRead: number;
  bytesRead: number;
  /** True if no further request is handled. */
  isStopped: boolean;
}

const NO_RESPONSES: ReadonlySet<ServerResponse> = new Set();

/**
 * The open connections of a listener, within limits. A connection is new until a request of a client has come on it. New ones have a limit of
 * their own, so a flood of them closes no other, and the others leave places for probes.
 */
export class Connections {
  readonly #all = new Map<Socket, Connection>();
  /** The oldest first. */
  readonly #new = new Set<Socket>();
  /** Those of them without an open response, the one that has been idle for longest first. */
  readonly #idleNew = new Set<Socket>();
  /** The others without an open response that may make room, in the same order. */
  readonly #idle = new Set<Socket>();
  readonly #limits: ConnectionLimits;
  readonly #hasToken: boolean;
  readonly #counters: Counters;
  readonly #log: Log;
  readonly #limiter: LogLimiter;

  /** @param hasToken true if a token is configured. An admitted connection has shown it then, and is never closed to make room. */
  constructor(limits: ConnectionLimits, hasToken: boolean, counters: Counters, log: Log, nowMs: () => number) {
    [this.#limits, this.#hasToken, this.#counters, this.#log] = [limits, hasToken, counters, log];
    this.#limiter = new LogLimiter(nowMs, 1);
  }

  /** Adds a new connection. At their limit, it closes the one that has been idle for longest, else the oldest. */
  add(socket: Socket): void {
    const { maxConnections, maxConnectionsWithoutToken } = this.#limits;
    // If no token is configured, each client is new until its first request arrives, so new connections may use all places that are left.
    const excess = this.#hasToken ? this.#new.size : this.#all.size - maxConnections;
    const [oldest] = this.#idleNew.size > 0 ? this.#idleNew : this.#new;
    if (excess >= maxConnectionsWithoutToken && oldest !== undefined) this.#drop(oldest, "MAX_CONNECTIONS_WITHOUT_TOKEN");
    const responses = new Set<ServerResponse>();
    this.#all.set(socket, { responses, isNew: true, principal: undefined, requestsOfRead: 0, bytesRead: 0, isStopped: false });
    this.#new.add(socket);
    this.#idleNew.add(socket);
    socket.once("close", () => {
      this.#delete(socket);
      if (responses.size === 0) return;
      // Node 22 does not close responses that wait for the one before them. The others are closed by Node first, each once.
      setImmediate(() => {
        for (const response of responses) response.destroy().emit("close");
      });
    });
  }

  /**
   * Admits a new connection. At the limit, it closes the one that has been idle for longest.
   *
   * @param principal undefined if no token is configured.
   * @returns false if none can make room.
   */
  admit(socket: Socket, connection: Connection, principal: Principal | undefined): boolean {
    if (this.#all.size - this.#new.size >= this.#limits.maxConnections) {
      const [oldest] = this.#idle;
      if (oldest === undefined) {
        this.#report("MAX_CONNECTIONS");
        return false;
      }
      this.#drop(oldest, "MAX_CONNECTIONS");
    }
    this.#new.delete(socket);
    connection.isNew = false;
    connection.principal = principal;
    return true;
  }

  /** Makes the connections of a principal new again. */
  onRevoked(principal: Principal): void {
    for (const [socket, connection] of this.#all) {
      if (connection.principal !== principal) continue;
      connection.isNew = true;
      connection.principal = undefined;
      this.#new.add(socket);
      if (connection.responses.size === 0) this.#idleNew.add(socket);
    }
  }

  /** Returns undefined for a connection that is closed. */
  get(socket: Socket): Connection | undefined {
    return this.#all.get(socket);
  }

  entries(): MapIterator<[Socket, Connection]> {
    return this.#all.entries();
  }

  values(): MapIterator<Connection> {
    return this.#all.values();
  }

  /** Returns the open responses of a connection. */
  responsesOf(socket: Socket): ReadonlySet<ServerResponse> {
    return this.#all.get(socket)?.responses ?? NO_RESPONSES;
  }

  /** Must be called for each request. */
  onRequest(socket: Socket, { responses, isNew }: Connection, response: ServerResponse): void {
    responses.add(response);
    (isNew ? this.#idleNew : this.#idle).delete(socket);
  }

  /** Must be called when a response is closed. @returns false if it was called for it before. */
  onResponseClosed(socket: Socket, connection: Connection, response: ServerResponse): boolean {
    const { responses } = connection;
    if (!responses.delete(response)) return false;
    if (!this.#all.has(socket)) return true;
    if (responses.size > 0) return true;
    if (connection.isNew) this.#idleNew.add(socket);
    else if (!this.#hasToken) this.#idle.add(socket);
    return true;
  }

  #drop(socket: Socket, limit: string): void {
    this.#delete(socket);
    socket.destroy();
    this.#report(limit);
  }

  #report(limit: string): void {
    this.#counters.http.connectionsDropped++;
    if (this.#limiter.allows()) this.#log.warn({ reason: `${limit} is reached` }, "connection closed: too many");
  }

  #delete(socket: Socket): void {
    this.#all.delete(socket);
    this.#new.delete(socket);
    this.#idleNew.delete(socket);
    this.#idle.delete(socket);
  }
}
