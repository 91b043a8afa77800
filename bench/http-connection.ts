// A keep-alive connection to a target, with at most one request in flight.

import { connect, type Socket } from "node:net";
import { HttpResponseParser, type HttpResponse } from "./http-response-parser.ts";

export type Outcome = HttpResponse | Error;

const READ_BUFFER_BYTES = 262_144;

export class HttpConnection {
  readonly #socket: Socket;
  #pending: ((outcome: Outcome) => void) | null = null;
  #closed: Error | null = null;

  constructor(port: number) {
    const parser = new HttpResponseParser((response) => this.#settle(response));
    this.#socket = connect({
      host: "127.0.0.1",
      port,
      noDelay: true,
      onread: {
        // All reads use one buffer. With a new buffer for each read, the measurement would
        // include garbage collection of the load process.
        buffer: Buffer.allocUnsafe(READ_BUFFER_BYTES),
        callback: (bytesRead, buffer) => {
          try {
            parser.feed(Buffer.from(buffer.buffer, buffer.byteOffset, bytesRead));
          } catch (error) {
            this.#socket.destroy(error instanceof Error ? error : new Error(String(error)));
          }
          return true;
        },
      },
    });
    this.#socket.on("error", (error) => this.#fail(error));
    this.#socket.on("close", () => this.#fail(new Error("connection closed by the target")));
  }

  /** Sends a request. The body of the response is valid only during `done`. */
  request(text: string, done: (outcome: Outcome) => void): void {
    if (this.#closed !== null) {
      process.nextTick(done, this.#closed);
      return;
    }
    this.#pending = done;
    this.#socket.write(text, "latin1");
  }

  /** Sends a request that is not part of the load. @returns the response, which stays valid. */
  async exchange(text: string): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      this.request(text, (outcome) => {
        if (outcome instanceof Error) reject(outcome);
        else resolve({ ...outcome, body: Buffer.from(outcome.body) });
      });
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #fail(error: Error): void {
    this.#closed ??= error;
    if (this.#pending !== null) this.#settle(this.#closed);
  }

  #settle(outcome: Outcome): void {
    const done = this.#pending;
    this.#pending = null;
    if (done === null) this.#socket.destroy(new Error("response without a request"));
    else done(outcome);
  }
}
