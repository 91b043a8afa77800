import type { ServerResponse } from "node:http";
import type { Context } from "../context.ts";
import { SidecarError } from "../mcp/errors.ts";
import { toOneLine } from "../mcp/rewrite.ts";
import { hasPrimedStreams } from "../mcp/message.ts";
import type { MemoryAccount } from "../memory.ts";
import { responseElsewhere } from "../server/failures.ts";
import type { Session } from "../session/session.ts";
import { type EventSink, type EventStream, parseEventId, SessionStreams } from "../session/streams.ts";
import { Timer } from "../timers.ts";
import { errorBody, permitsEventStream, sendError } from "./response.ts";
import { UnreadOutput } from "./unread-output.ts";

/** Sent only with an event id, to clients that are known to read it. */
const RETRY_MS = 1000;

/** A connection with more unread text is closed; missed events are kept for replay. In UTF-16 units, as in a socket of Node. */
const MAX_UNREAD_LENGTH = 16 * 1024 * 1024;
/** A longer text is not joined with its event, which would copy it. In UTF-16 units. */
const LONG_LENGTH = 64 * 1024;
const SSE_HEADERS = {
  "Content-Type": "text/event-stream",
  "Cache-Control": "no-cache, no-transform",
  // For proxies such as nginx.
  "X-Accel-Buffering": "no",
};

export class SseConnection implements EventSink {
  onClosed: (() => void) | undefined;
  readonly #response: ServerResponse;
  readonly #onWritten: () => void;
  #hasBegun = false;
  #isReplaying = false;
  /** Unread text above the limit until everything is read: a replay, or one long message. */
  #allowedLength = 0;

  /** @param onWritten called after each message, and when the connection is cut off. It may close this connection. */
  constructor(response: ServerResponse, onWritten: () => void, headers?: Readonly<Record<string, string>>) {
    this.#response = response;
    this.#onWritten = onWritten;
    // Sent with the first event id: if the connection broke between them, the stream could not be resumed.
    response.writeHead(200, { ...SSE_HEADERS, ...headers });
    // Some proxies and clients pass headers on only with the first byte.
    process.nextTick(() => {
      if (!this.#hasBegun) this.#write(": open\n\n");
    });
  }

  /** An event id without a message allows to resume from the start (MCP 2025-11-25, basic/transports). */
  prime(eventId: string): void {
    this.#write(`id: ${eventId}\nretry: ${RETRY_MS}\ndata: \n\n`);
  }

  /** Keeps proxies and clients from closing a quiet connection. */
  comment(): void {
    // A comment after unread events has no effect.
    if (this.#response.writableLength === 0) this.#write(": keep-alive\n\n");
  }

  /** The limits do not apply to this text, which the client had no time to read. */
  replay(send: () => void): void {
    this.#isReplaying = true;
    send();
    this.#isReplaying = false;
    this.#allowedLength = this.#response.writableLength;
  }

  cutOff(): void {
    this.#response.destroy();
    // The memory of its unread text is free at once, before the event of its end.
    this.#onWritten();
  }

  end(isOvertaken = false): void {
    // The reader may never read again, and would hold memory and the socket.
    if (isOvertaken && this.#response.writableLength > 0) this.cutOff();
    else this.#response.end();
  }

  send(eventId: string | undefined, text: string, type: "message" | "endpoint" | "replaced" | "update" = "message"): boolean {
    const unreadLength = this.#response.writableLength;
    if (unreadLength === 0) this.#allowedLength = 0;
    else if (!this.#isReplaying && unreadLength > MAX_UNREAD_LENGTH + this.#allowedLength) {
      this.cutOff();
      return false;
    }
    if (this.#response.destroyed) return false;
    const fields = eventId === undefined ? `event: ${type}` : `id: ${eventId}\nevent: ${type}`;
    const line = toOneLine(text);
    if (line.length < LONG_LENGTH) this.#write(`${fields}\ndata: ${line}\n\n`);
    else for (const part of [`${fields}\ndata: `, line, "\n\n"]) this.#write(part);
    // A single message may be longer than the limit.
    this.#allowedLength = Math.max(this.#allowedLength, this.#response.writableLength - unreadLength);
    this.#onWritten();
    return !this.#response.destroyed;
  }

  #write(text: string): void {
    // Node reports an error for a write after the end.
    if (this.#response.writableEnded || this.#response.destroyed) return;
    this.#hasBegun = true;
    this.#response.write(text);
  }
}

export class SseConnections {
  readonly context: Context;
  readonly unread: UnreadOutput;
  readonly #open = new Set<SseConnection>();
  readonly #comments: Timer;

  constructor(context: Context) {
    [this.context, this.unread] = [context, new UnreadOutput(context)];
    this.#comments = new Timer(context, (nowMs) => this.#keepAlive(nowMs));
  }

  get size(): number {
    return this.#open.size;
  }

  open(response: ServerResponse, memory: MemoryAccount, headers?: Readonly<Record<string, string>>): SseConnection {
    const connection = new SseConnection(response, () => this.unread.count(response, memory), headers);
    this.#open.add(connection);
    response.once("close", () => {
      this.#open.delete(connection);
      if (this.#open.size === 0) this.#comments.clear();
      this.context.defects.guard("client disconnect", () => connection.onClosed?.());
    });
    if (this.#open.size === 1) this.#comments.set(this.context.nowMs() + this.context.config.keepAliveMs);
    return connection;
  }

  #keepAlive(nowMs: number): void {
    this.#comments.set(nowMs + this.context.config.keepAliveMs);
    for (const connection of this.#open) {
      this.context.defects.guard(
        "keep-alive",
        () => connection.comment(),
        () => connection.cutOff(),
      );
    }
  }
}

/**
 * Answers a POST with a stream. In a session, an event id comes first: sending the request again may not be safe. A GET can be sent again, and some
 * clients reject its event without data. Without a session, clients cannot reconnect (MCP 2026-07-28, basic/transports).
 */
export function openRequestStream(
  connections: SseConnections,
  response: ServerResponse,
  memory: MemoryAccount,
  session: Session | undefined,
  requestIdText: string | undefined,
) {
  const stream = (session?.streams ?? new SessionStreams(memory)).openForRequest(requestIdText);
  const connection = connections.open(response, memory, session && { "Mcp-Session-Id": session.id });
  stream.attach(connection);
  const eventId = session && hasPrimedStreams(session.protocolVersion) ? stream.eventId(0) : undefined;
  if (eventId !== undefined) connection.prime(eventId);
  return { stream, connection, isPrimed: eventId !== undefined };
}

/**
 * Opens a GET stream (MCP 2025-11-25, basic/transports), or continues that of `Last-Event-ID`. If all is delivered, 204 makes clients stop.
 * Instead of a GET stream of another replica, a new one is opened. A request that another replica has got is answered with an error.
 */
export function openGetStream(connections: SseConnections, response: ServerResponse, session: Session): void {
  if (!permitsEventStream(response.req))
    return sendError(response, new SidecarError("NOT_ACCEPTABLE", "Accept must allow text/event-stream."));
  const lastEventId = response.req.headers["last-event-id"];
  // Clients send an empty `Last-Event-ID` before their first event.
  if (lastEventId === undefined || lastEventId === "") return attach(session.streams.openStandalone(), 0);
  const event = parseEventId(String(lastEventId));
  const found = event === undefined ? "unknown" : session.streams.find(event.name, event.sequence);
  const { isStandalone = false, requestIdText } = event?.name ?? {};
  if (typeof found === "object") attach(found, event?.sequence ?? 0);
  else if (found === "delivered") response.writeHead(204).end();
  else if (found === "elsewhere" && isStandalone) attach(session.streams.openStandalone(), 0);
  else if (found === "elsewhere" && requestIdText !== undefined) {
    const { stream } = openRequestStream(connections, response, session.memory, session, requestIdText);
    stream.emit(errorBody(responseElsewhere(), requestIdText));
    stream.end();
  } else {
    const message =
      "Last-Event-ID is not an event of this session at this replica, or the events after it are no longer kept; open the stream without it.";
    sendError(response, new SidecarError("EVENT_NOT_FOUND", message));
  }

  function attach(stream: EventStream, sequence: number): void {
    const connection = connections.open(response, session.memory, { "Mcp-Session-Id": session.id });
    connection.replay(() => {
      stream.attach(connection, sequence);
      if (!stream.name.isStandalone) return;
      session.announceLists();
      session.streams.deliverWaiting();
    });
    connection.onClosed = () => stream.detach(connection);
  }
}
