import { Readable, type Writable } from "node:stream";
import type { ProcessExit, ProcessGroup } from "../../src/process/child.ts";

/** A process of the MCP server as streams. What it reads and answers is up to its class. */
export abstract class FakeProcess implements ProcessGroup {
  abstract readonly pid: number;
  abstract readonly stdin: Writable;
  readonly stdout = new Readable({ read: () => undefined });
  readonly stderr = new Readable({ read: () => undefined });
  readonly #exit = Promise.withResolvers<ProcessExit>();
  readonly exited = this.#exit.promise;
  /** Decided by the handshake. */
  era: "2025" | "2026" | undefined;
  hasEnded = false;

  abstract signal(name: NodeJS.Signals): boolean;

  waitForEnd(): Promise<boolean> {
    return Promise.resolve(this.hasEnded);
  }

  /** Ends by an exit code or by a signal. */
  end(exit: Partial<ProcessExit>): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    for (const stream of [this.stdout, this.stderr]) stream.push(null);
    this.stdin.destroy();
    setImmediate(() => this.#exit.resolve({ exitCode: undefined, signal: undefined, spawnErrorCode: undefined, ...exit }));
  }

  send(message: object): void {
    this.print(JSON.stringify({ jsonrpc: "2.0", ...message }));
  }

  print(line: string): void {
    if (!this.hasEnded) this.stdout.push(`${line}\n`);
  }
}
