import type { ServerResponse } from "node:http";
import type { Defects } from "../../observability/defects.ts";
import { toOneLine } from "../../protocol/rewrite.ts";
import type { MemoryAccount } from "../../memory/memory-budget.ts";
import type { EventSink } from "../../sessions/streams/event-stream.ts";
import type { UnreadOutput } from "./unread-output.ts";

/** Delay before a client reconnects. It is sent only with an event id, to clients that are known to read it. */
const RETRY_MS = 1000;

/**
 * Unread text after which the connection of a slow reader is closed. The events it missed are kept for replay. In UTF-16 units, as Node
 * counts the text that waits in a socket.
 */
const MAX_UNREAD_LENGTH = 16 * 1024 * 1024;
const SSE_HEADERS = {
  "Content-Type": "text/event-stream",
  "Cache-Control": "no-cache, no-transform",
  // Prevents buffering of events by proxies such as nginx.
  "X-Accel-Buffering": "no",
};

/** An HTTP response with server-sent events. */
export class SseConnection implements EventSink {
  /** Called when the connection has closed. */
  onClosed: (() => void) | undefined;
  readonly #response: ServerResponse;
  readonly #onWritten: () => void;
  #hasBegun = false;
  #isCorked = false;
  #isReplaying = false;
  /** Unread text that is allowed above the limit until everything is read: that of a replay, or of one long message. */
  #allowedLength = 0;

  /** @param onWritten called after each message, and when the connection is cut off. It may close this connection. */
  constructor(response: ServerResponse, onWritten: () => void, headers?: Readonly<Record<string, string>>) {
    this.#response = response;
    this.#onWritten = onWritten;
    // The first event id is sent together with the headers. If the connection broke between them, it could not be resumed.
    this.#cork();
    response.writeHead(200, { ...SSE_HEADERS, ...headers });
    response.flushHeaders();
  }

  /** Sends an event id without a message, which enables resumption from the start (MCP 2025-11-25, basic/transports). */
  prime(eventId: string): void {
    this.#write(`id: ${eventId}\nretry: ${RETRY_MS}\ndata: \n\n`);
  }

  send(eventId: string, text: string): boolean {
    return this.#send(`id: ${eventId}\nevent: message`, text);
  }

  /** Sends a message on a stream without resumption. @returns as `send`. */
  sendWithoutId(type: "endpoint" | "message" | "replaced" | "update", text: string): boolean {
    return this.#send(`event: ${type}`, text);
  }

  /** Sends a comment, so that proxies and clients do not close a quiet connection. */
  comment(): void {
    // A comment after unread events has no effect.
    if (this.#response.writableLength === 0) this.#write(": keep-alive\n\n");
  }

  /** Replays events to a client that has reconnected. The limits do not apply to this text, which the client had no time to read yet. */
  replay(send: () => void): void {
    this.#isReplaying = true;
    send();
    this.#isReplaying = false;
    this.#allowedLength = this.#response.writableLength;
  }

  /** Closes the connection of a slow reader. The events it missed are kept for replay. */
  cutOff(): void {
    this.#response.destroy();
    // The memory of its unread text is free at once, before the event of its end.
    this.#onWritten();
  }

  end(isOvertaken = false): void {
    // The reader may never read again, and would hold the memory and the socket.
    if (isOvertaken && this.#response.writableLength > 0) this.cutOff();
    else if (!this.#response.writableEnded) {
      // `end()` uncorks the socket, so that the end of the body is sent together with the text written before it.
      this.#response.socket?.cork();
      // Node 22 and 24 would write the end of the body before the corked text.
      this.#uncork();
      this.#response.end();
    }
  }

  #send(fields: string, text: string): boolean {
    const unreadLength = this.#response.writableLength;
    if (unreadLength === 0) this.#allowedLength = 0;
    else if (!this.#isReplaying && unreadLength > MAX_UNREAD_LENGTH + this.#allowedLength) {
      this.cutOff();
      return false;
    }
    if (this.#response.destroyed) return false;
    // The parts are not joined, because this would copy a long text.
    this.#write(`${fields}\ndata: `, toOneLine(text), "\n\n");
    // A single message may be longer than the limit.
    this.#allowedLength = Math.max(this.#allowedLength, this.#response.writableLength - unreadLength);
    this.#onWritten();
    return !this.#response.destroyed;
  }

  #write(...parts: readonly string[]): void {
    // Node reports an error for a write after the end.
    if (this.#response.writableEnded) return;
    this.#hasBegun = true;
    this.#cork();
    for (const part of parts) this.#response.write(part);
  }

  /** Sends all text of one turn together. */
  #cork(): void {
    if (this.#isCorked) return;
    this.#isCorked = true;
    this.#response.cork();
    process.nextTick(() => this.#uncork());
  }

  #uncork(): void {
    if (!this.#isCorked) return;
    // Some proxies and clients pass headers on only together with the first byte.
    if (!this.#hasBegun) this.#write(": open\n\n");
    this.#isCorked = false;
    const { socket } = this.#response;
    // Node 22 and 24 uncork the socket first, and would write each part of a chunk by itself.
    socket?.cork();
    this.#response.uncork();
    socket?.uncork();
  }
}

/** All open connections with event streams. One timer sends the comments of all of them. */
export class SseConnections {
  readonly #keepAliveMs: number;
  readonly #unread: Pick<UnreadOutput, "count">;
  readonly #defects: Pick<Defects, "guard">;
  readonly #open = new Set<SseConnection>();
  #timer: NodeJS.Timeout | undefined;

  constructor(keepAliveMs: number, unread: Pick<UnreadOutput, "count">, defects: Pick<Defects, "guard">) {
    this.#keepAliveMs = keepAliveMs;
    this.#unread = unread;
    this.#defects = defects;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Answers with an event stream. */
  open(response: ServerResponse, memory: MemoryAccount, headers?: Readonly<Record<string, string>>): SseConnection {
    const connection = new SseConnection(response, () => this.#unread.count(response, memory), headers);
    this.#open.add(connection);
    response.once("close", () => this.#onClosed(connection));
    this.#timer ??= setInterval(() => this.#keepAlive(), this.#keepAliveMs).unref();
    return connection;
  }

  #keepAlive(): void {
    for (const connection of this.#open) {
      this.#defects.guard(
        "keep-alive",
        () => connection.comment(),
        () => connection.cutOff(),
      );
    }
  }

  #onClosed(connection: SseConnection): void {
    this.#open.delete(connection);
    const { onClosed } = connection;
    if (onClosed !== undefined) this.#defects.guard("client disconnect", onClosed);
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
