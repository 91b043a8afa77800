import type { ServerResponse } from "node:http";
import type { Defects } from "../defects.ts";
import { toOneLine } from "../jsonrpc/rewrite.ts";
import type { EventSink } from "../mux/event-stream.ts";

/** When a client that lost its connection comes back; only sent to those that are known to read it. */
const RETRY_MS = 1000;

/**
 * What a reader may be behind before it is given up. What it missed stays for replay. In UTF-16 units, as Node counts the text that waits in
 * a socket; so are the limits below.
 */
const MAX_UNREAD_LENGTH = 16 * 1024 * 1024;
/** What all readers together may be behind; beyond it, the one that is furthest behind is given up. */
const MAX_ALL_UNREAD_LENGTH = 64 * 1024 * 1024;
/** A reader that is behind by less needs no look at the others. */
const SMALL_UNREAD_LENGTH = 64 * 1024;

const SSE_HEADERS = {
  "Content-Type": "text/event-stream",
  "Cache-Control": "no-cache, no-transform",
  // Proxies such as nginx would hold the events back.
  "X-Accel-Buffering": "no",
};

/** An HTTP response that carries server-sent events. */
export class SseConnection implements EventSink {
  /** Called when the connection is gone. */
  onClosed: (() => void) | undefined;
  readonly #response: ServerResponse;
  readonly #onBehind: () => void;
  #isCorked = false;
  #isReplaying = false;
  /** By how much more a reader may be behind until it has read everything: for what came at once, and could not be read so fast. */
  #allowedLength = 0;

  /** @param onBehind called when there is more to be read than a little; it may give this reader up. */
  constructor(response: ServerResponse, onBehind: () => void, headers?: Readonly<Record<string, string>>) {
    this.#response = response;
    this.#onBehind = onBehind;
    // The id to come back with goes out with the headers: a connection that breaks between the two could not be resumed.
    this.#cork();
    response.writeHead(200, { ...SSE_HEADERS, ...headers });
    response.flushHeaders();
  }

  /** An id without a message, so that the client can come back from the start (MCP 2025-11-25, basic/transports). */
  prime(eventId: string): void {
    this.#write(`id: ${eventId}\nretry: ${RETRY_MS}\ndata: \n\n`);
  }

  send(eventId: string, text: string): boolean {
    return this.#send(`id: ${eventId}\nevent: message`, text);
  }

  /** For a reader that cannot come back, and so has no use for an id. @returns as `send`. */
  sendWithoutId(type: "endpoint" | "message", text: string): boolean {
    return this.#send(`event: ${type}`, text);
  }

  /** Keeps proxies and clients from taking silence for a dead connection. */
  comment(): void {
    // Behind unread events it would help nobody.
    if (this.#response.writableLength === 0) this.#write(": keep-alive\n\n");
  }

  /** Sends what a client has come back for, however much: it cannot be behind with that yet. */
  replay(send: () => void): void {
    this.#isReplaying = true;
    send();
    this.#isReplaying = false;
    this.#allowedLength = this.#response.writableLength;
  }

  get unreadLength(): number {
    return this.#response.destroyed ? 0 : this.#response.writableLength;
  }

  /** Its reader is too far behind. What it missed stays for replay. */
  giveUp(): void {
    this.#response.destroy();
  }

  end(isOvertaken = false): void {
    // Its reader may never read again; the memory and the socket would be held for as long.
    if (isOvertaken && this.#response.writableLength > 0) this.#response.destroy();
    else if (!this.#response.writableEnded) {
      // `end()` uncorks the socket, so that the end of the body goes out together with what is written before it.
      this.#response.socket?.cork();
      // Node 22 and 24 would write the end of the body ahead of what is corked.
      this.#uncork();
      this.#response.end();
    }
  }

  #send(fields: string, text: string): boolean {
    const unreadLength = this.#response.writableLength;
    if (unreadLength === 0) this.#allowedLength = 0;
    else if (!this.#isReplaying && unreadLength > MAX_UNREAD_LENGTH + this.#allowedLength) {
      this.#response.destroy();
      return false;
    }
    if (unreadLength > SMALL_UNREAD_LENGTH) this.#onBehind();
    if (this.#response.destroyed) return false;
    // Not joined: of a long text, that would be one more copy.
    this.#write(`${fields}\ndata: `, toOneLine(text), "\n\n");
    // A single message may be longer than all that a reader may be behind.
    this.#allowedLength = Math.max(this.#allowedLength, this.#response.writableLength - unreadLength);
    return true;
  }

  #write(...parts: readonly string[]): void {
    // Ended, but not closed yet; Node takes a write for a fault then.
    if (this.#response.writableEnded) return;
    this.#cork();
    for (const part of parts) this.#response.write(part);
  }

  /** What is written in one turn goes out together. */
  #cork(): void {
    if (this.#isCorked) return;
    this.#isCorked = true;
    this.#response.cork();
    process.nextTick(() => this.#uncork());
  }

  #uncork(): void {
    if (!this.#isCorked) return;
    this.#isCorked = false;
    const { socket } = this.#response;
    // Node 22 and 24 uncork the socket first, and would write each part of a chunk by itself.
    socket?.cork();
    this.#response.uncork();
    socket?.uncork();
  }
}

/** All open connections with events: one timer keeps them alive. */
export class SseConnections {
  readonly #keepAliveMs: number;
  readonly #defects: Pick<Defects, "guard">;
  readonly #open = new Set<SseConnection>();
  #timer: NodeJS.Timeout | undefined;
  #isLimiting = false;

  constructor(keepAliveMs: number, defects: Pick<Defects, "guard">) {
    this.#keepAliveMs = keepAliveMs;
    this.#defects = defects;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Answers with a stream; the connection belongs to it until it is closed. */
  open(response: ServerResponse, headers?: Readonly<Record<string, string>>): SseConnection {
    const connection = new SseConnection(response, () => this.#limitUnread(), headers);
    this.#open.add(connection);
    response.once("close", () => this.#onClosed(connection));
    this.#timer ??= setInterval(() => this.#keepAlive(), this.#keepAliveMs).unref();
    return connection;
  }

  /** A server may send to all of them, and nobody may be reading. */
  #limitUnread(): void {
    if (this.#isLimiting) return;
    this.#isLimiting = true;
    // Once for all that is sent in one turn.
    setImmediate(() => {
      this.#isLimiting = false;
      this.#defects.guard("event stream", () => this.#giveUpFurthest());
    });
  }

  #giveUpFurthest(): void {
    const behind = [...this.#open].map((connection) => ({ connection, length: connection.unreadLength }));
    let allLength = behind.reduce((sum, { length }) => sum + length, 0);
    if (allLength <= MAX_ALL_UNREAD_LENGTH) return;
    for (const { connection, length } of behind.sort((a, b) => b.length - a.length)) {
      connection.giveUp();
      allLength -= length;
      if (allLength <= MAX_ALL_UNREAD_LENGTH) return;
    }
  }

  #keepAlive(): void {
    for (const connection of this.#open) {
      this.#defects.guard(
        "keep-alive",
        () => connection.comment(),
        () => connection.giveUp(),
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
