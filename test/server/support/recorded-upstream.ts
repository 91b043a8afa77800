import type { Outgoing } from "../../../src/mcp/message.ts";
import type { Upstream, UpstreamInput, UpstreamStatus } from "../../../src/process/port.ts";

/** The server's side of a lane: records the lines that a server would have read, and accepts none while no server runs. */
export class RecordedUpstream implements Upstream, UpstreamInput {
  isRunning = false;
  /** A server that does not read leaves lines queued. */
  isReading = true;
  /** True if the server has exited so often that it counts as failed. */
  isFailed = false;
  #lines: Outgoing[] = [];

  get queuedBytes(): number {
    return this.#lines.reduce((sum, { text, isWritten }) => sum + (isWritten ? 0 : Buffer.byteLength(text)), 0);
  }

  send(line: Outgoing): void {
    if (!this.isRunning) return;
    if (line.text.includes("\n")) throw new Error(`not one line: ${line.text}`);
    if (this.isReading) {
      line.isWritten = true;
      this.inputs++;
      if (!line.isKept) line.onEmptied?.();
    }
    this.#lines.push(line);
  }

  withdraw(line: Outgoing): void {
    this.#lines = this.#lines.filter((each) => each !== line);
  }

  /** The reason of each requested restart. */
  readonly restartReasons: string[] = [];

  restart(_kind: "hung" | "tools-not-listed", reason: string): void {
    this.restartReasons.push(reason);
  }

  /** Returns the lines that were read, once. */
  takeRead(): string[] {
    const read = this.#lines.filter(({ isWritten }) => isWritten);
    this.#lines = this.#lines.filter((line) => !read.includes(line));
    return read.map(({ text }) => text);
  }

  /** The server exits. @returns the lines that it never read. */
  stop(): Outgoing[] {
    this.isRunning = false;
    const unwritten = this.#lines.filter(({ isWritten }) => !isWritten);
    this.#lines = [];
    return unwritten;
  }

  /** Grow with all output, and with each line that is read. */
  outputs = 0;
  inputs = 0;

  status(): UpstreamStatus {
    return {
      state: this.isFailed ? "failed" : this.isRunning ? "ready" : "backing-off",
      generation: 1,
      pid: undefined,
      readyAt: undefined,
      restarts: 0,
      lastExit: undefined,
      nextRetryAt: undefined,
      outputs: this.outputs,
      isReading: false,
      inputs: this.inputs,
    };
  }
}
