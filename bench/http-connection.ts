// A keep-alive connection to a target, with at most one request in flight. It is hand-written, because an HTTP client of Node would need more
// CPU than the targets.

import { connect, type Socket } from "node:net";

export interface HttpResponse {
  readonly status: number;
  readonly head: string;
  /** Valid only until the next request. */
  readonly body: Buffer;
}

export type Outcome = HttpResponse | Error;

const READ_BUFFER_BYTES = 262_144;
const HEAD_END = "\r\n\r\n";
/** The end of a body in chunks. JSON has no such line ends. */
const LAST_CHUNK = Buffer.from("\r\n0\r\n\r\n");

export class HttpConnection {
  readonly #socket: Socket;
  #received = Buffer.allocUnsafe(READ_BUFFER_BYTES);
  #length = 0;
  #head: string | undefined;
  /** The end of the response in the received bytes; undefined if its body is in chunks. */
  #endsAt: number | undefined;
  #pending: ((outcome: Outcome) => void) | undefined;
  #closed: Error | undefined;

  constructor(port: number) {
    this.#socket = connect({
      host: "127.0.0.1",
      port,
      noDelay: true,
      onread: {
        // With a new buffer for each read, the measurement would include garbage collection of the load process.
        buffer: Buffer.allocUnsafe(READ_BUFFER_BYTES),
        callback: (bytesRead, buffer) => {
          this.#receive(Buffer.from(buffer.buffer, buffer.byteOffset, bytesRead));
          return true;
        },
      },
    });
    this.#socket.on("error", (error) => this.#fail(error));
    this.#socket.on("close", () => this.#fail(new Error("connection closed by the target")));
  }

  /** Sends a request. The body of the response is valid only during `done`. */
  request(text: string, done: (outcome: Outcome) => void): void {
    if (this.#closed !== undefined) return process.nextTick(done, this.#closed);
    this.#pending = done;
    this.#socket.write(text, "latin1");
  }

  /** Sends a request that is not part of the load. */
  async reply(text: string): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      this.request(text, (outcome) => (outcome instanceof Error ? reject(outcome) : resolve(outcome)));
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(bytes: Buffer): void {
    const length = this.#length + bytes.length;
    if (length > this.#received.length) this.#received = Buffer.concat([this.#received], 2 * length);
    bytes.copy(this.#received, this.#length);
    this.#length = length;
    this.#head ??= this.#readHead();
    if (this.#head === undefined) return;
    const bodyAt = this.#head.length + HEAD_END.length;
    const whole = this.#received.subarray(0, length);
    if (this.#endsAt === undefined) {
      // The body of a response without an event is one empty chunk.
      const rest = whole.subarray(bodyAt - 2);
      if (rest.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK)) this.#complete(this.#head, withoutChunks(whole.subarray(bodyAt)));
    } else if (length >= this.#endsAt) {
      this.#complete(this.#head, whole.subarray(bodyAt));
    }
  }

  #readHead(): string | undefined {
    const end = this.#received.subarray(0, this.#length).indexOf(HEAD_END);
    if (end === -1) return undefined;
    const head = this.#received.toString("latin1", 0, end);
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    const hasChunks = /\r\ntransfer-encoding: *chunked/i.test(head);
    this.#endsAt = hasChunks ? undefined : end + HEAD_END.length + Number(length ?? 0);
    return head;
  }

  #complete(head: string, body: Buffer): void {
    this.#length = 0;
    this.#head = undefined;
    this.#settle({ status: Number(head.slice(9, 12)), head, body });
  }

  #fail(error: Error): void {
    this.#closed ??= error;
    if (this.#pending !== undefined) this.#settle(this.#closed);
  }

  #settle(outcome: Outcome): void {
    const done = this.#pending;
    this.#pending = undefined;
    if (done === undefined) this.#socket.destroy(new Error("response without a request"));
    else done(outcome);
  }
}

/** Joins the chunks of a body, in place. */
function withoutChunks(body: Buffer): Buffer {
  let length = 0;
  let at = 0;
  for (;;) {
    const lineEnd = body.indexOf("\r\n", at);
    const size = Number.parseInt(body.toString("latin1", at, lineEnd), 16);
    if (!(size > 0)) return body.subarray(0, length);
    body.copyWithin(length, lineEnd + 2, lineEnd + 2 + size);
    length += size;
    at = lineEnd + 2 + size + 2;
  }
}
