import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Counters } from "../observability/counters.ts";
import type { Log } from "../observability/log.ts";
import { LogLimiter } from "../observability/log-limiter.ts";

export interface ConnectionLimits {
  readonly maxConnections: number;
  readonly maxConnectionsWithoutToken: number;
}

export interface Connection {
  /** In the order of their requests, until their last byte is passed to the operating system. */
  readonly responses: Set<ServerResponse>;
  /** True if a token is configured, and the connection has not shown a valid one. */
  isWithoutToken: boolean;
  /** The requests that were read last, at this count of bytes. */
  requestsOfRead: number;
  bytesRead: number;
  /** True if no further request is handled. */
  isStopped: boolean;
  /** True if it exceeds MAX_CONNECTIONS, and so serves only probes. */
  readonly isExcess: boolean;
}

/** The maximum number of connections above MAX_CONNECTIONS. Without them, clients that use all others would make probes fail. */
const MAX_EXCESS = 16;
const NO_RESPONSES: ReadonlySet<ServerResponse> = new Set();

/** The open connections of a listener, within limits. */
export class Connections {
  readonly #all = new Map<Socket, Connection>();
  /** Those without an open response that may make room, the one that has been idle for longest first. None of them has shown a valid token. */
  readonly #idle = new Set<Socket>();
  /** Those that have not shown a valid token, the oldest first. Empty if no token is configured. */
  readonly #withoutToken = new Set<Socket>();
  /** Those above MAX_CONNECTIONS, the oldest first. They are not among the others. */
  readonly #excess = new Set<Socket>();
  readonly #limits: ConnectionLimits;
  readonly #hasToken: boolean;
  readonly #counters: Counters;
  readonly #log: Log;
  readonly #limiter: LogLimiter;

  /** @param hasToken true if a token is configured. */
  constructor(limits: ConnectionLimits, hasToken: boolean, counters: Counters, log: Log, nowMs: () => number) {
    [this.#limits, this.#hasToken, this.#counters, this.#log] = [limits, hasToken, counters, log];
    this.#limiter = new LogLimiter(nowMs, 1);
  }

  /**
   * Adds a new connection. At a limit, it closes the one that has been idle for longest, never one that has shown a valid token. If none is
   * idle, it closes the oldest of those without a token, whose requests are only rejections and public paths. Else the new one is in excess.
   */
  add(socket: Socket): void {
    const { maxConnections, maxConnectionsWithoutToken } = this.#limits;
    const isFull = this.#all.size - this.#excess.size >= maxConnections;
    const isLimited = isFull || this.#withoutToken.size >= maxConnectionsWithoutToken;
    const [oldest] = this.#idle.size > 0 ? this.#idle : this.#withoutToken;
    const isExcess = isFull && oldest === undefined;
    if (isLimited && oldest !== undefined) this.#drop(oldest, isFull);
    const responses = new Set<ServerResponse>();
    const isWithoutToken = this.#hasToken && !isExcess;
    const connection = { responses, isWithoutToken, requestsOfRead: 0, bytesRead: 0, isStopped: false, isExcess };
    this.#all.set(socket, connection);
    if (isExcess) this.#addExcess(socket);
    else this.#idle.add(socket);
    if (isWithoutToken) this.#withoutToken.add(socket);
    socket.once("close", () => {
      this.#delete(socket);
      if (responses.size === 0) return;
      // Node 22 does not close responses that wait for the one before them. The others are closed by Node first, each once.
      setImmediate(() => {
        for (const response of responses) response.destroy().emit("close");
      });
    });
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

  /** Must be called when a connection shows a valid token. */
  trust(socket: Socket, connection: Connection): void {
    connection.isWithoutToken = false;
    this.#withoutToken.delete(socket);
  }

  /** Must be called for each request. */
  onRequest(socket: Socket, { responses }: Connection, response: ServerResponse): void {
    responses.add(response);
    this.#idle.delete(socket);
  }

  /** Must be called when a response is closed. @returns false if it was called for it before. */
  onResponseClosed(socket: Socket, { responses, isWithoutToken, isExcess }: Connection, response: ServerResponse): boolean {
    if (!responses.delete(response)) return false;
    const mayMakeRoom = isWithoutToken || !(this.#hasToken || isExcess);
    if (mayMakeRoom && responses.size === 0 && this.#all.has(socket)) this.#idle.add(socket);
    return true;
  }

  #addExcess(socket: Socket): void {
    this.#excess.add(socket);
    const [oldest = socket] = this.#excess;
    if (this.#excess.size > MAX_EXCESS) this.#drop(oldest, true);
    else this.#report(true);
  }

  #drop(socket: Socket, isFull: boolean): void {
    this.#delete(socket);
    socket.destroy();
    this.#counters.http.connectionsDropped++;
    this.#report(isFull);
  }

  #report(isFull: boolean): void {
    const name = isFull ? "MAX_CONNECTIONS" : "MAX_CONNECTIONS_WITHOUT_TOKEN";
    if (this.#limiter.allows()) this.#log.warn({ reason: `${name} is reached` }, "connection closed: too many");
  }

  #delete(socket: Socket): void {
    this.#all.delete(socket);
    this.#idle.delete(socket);
    this.#withoutToken.delete(socket);
    this.#excess.delete(socket);
  }
}

interface NodeParser {
  onIncoming?: () => number;
}

/**
 * Makes Node's parser stop within the data that it has received. Otherwise, it would pass on all requests of up to 64 KiB: neither a pause
 * nor the end of the socket has an effect before. The API is not documented. Without it, each further request costs its parsing.
 */
export function stopParser(socket: Socket): void {
  const { parser } = socket as { readonly parser?: NodeParser | null };
  // Any result but 0, 1 and 2 is an error of the request to the parser.
  if (typeof parser?.onIncoming === "function") parser.onIncoming = () => -1;
}
