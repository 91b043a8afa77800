// Measures echo-child.js without a target: the upper bound of the server and a pipe.
// Its output is collected, not parsed.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { join } from "node:path";
import { hasAnswer } from "./tool-calls.ts";

const NEWLINE = 10;
const HANDSHAKE_ID = 0;

interface Pending {
  id: number;
  onEnd: (body: Buffer | Error) => void;
}

export class ChildAlone {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  #output = Buffer.allocUnsafe(4_000_000);
  #outputBytes = 0;
  #pending: Pending | null = null;

  private constructor() {
    this.#child = spawn(process.execPath, [join(import.meta.dirname, "echo-child.js")], { stdio: ["pipe", "pipe", "inherit"] });
    this.#child.stdout.on("data", (chunk: Buffer) => this.#gather(chunk));
    this.#child.on("close", () => this.#pending?.onEnd(new Error("the server exited")));
  }

  static async start(): Promise<ChildAlone> {
    const child = new ChildAlone();
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "bench-load", version: "1.0.0" } };
    const initialize = JSON.stringify({ jsonrpc: "2.0", id: HANDSHAKE_ID, method: "initialize", params });
    await new Promise<void>((resolve, reject) => {
      child.call(HANDSHAKE_ID, initialize, (body) => (body instanceof Error ? reject(body) : resolve()));
    });
    child.#child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
    return child;
  }

  /** Calls the server. `onEnd` gets all output up to the response; the buffer is valid only during `onEnd`. */
  call(id: number, request: string, onEnd: (body: Buffer | Error) => void): void {
    this.#pending = { id, onEnd };
    this.#outputBytes = 0;
    this.#child.stdin.write(`${request}\n`);
  }

  async close(): Promise<void> {
    const closed = once(this.#child, "close");
    this.#pending = null;
    this.#child.stdin.end();
    await closed;
  }

  #gather(chunk: Buffer): void {
    const bytes = this.#outputBytes + chunk.length;
    if (bytes > this.#output.length) this.#output = Buffer.concat([this.#output], bytes * 2);
    chunk.copy(this.#output, this.#outputBytes);
    this.#outputBytes = bytes;
    const body = this.#output.subarray(0, bytes);
    if (this.#pending === null || chunk.at(-1) !== NEWLINE || !hasAnswer(body, this.#pending.id)) return;
    const { onEnd } = this.#pending;
    this.#pending = null;
    onEnd(body);
  }
}
