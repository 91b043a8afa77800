import type { ExitKind } from "../counters.ts";
import type { Message, OverlongLine, ResponseMessage } from "../jsonrpc/message.ts";
import type { Outgoing } from "../jsonrpc/outgoing.ts";

/** The port to the MCP server's side. The supervisor satisfies it; `sidecar.ts` joins the two. */
export interface Upstream {
  /** Bytes that wait for the server to read them. */
  readonly queuedLength: number;
  /** Queues a line for the generation that runs; it stays `queued` where none does. Never blocks, never throws. */
  send(line: Outgoing): void;
  /** Takes a line back that is still queued. */
  withdraw(line: Outgoing): void;
  /** Ends the generation that runs, because it is of no use; the next one is started as after any exit. */
  restart(kind: "hung" | "tools-not-listed" | "defect", reason: string): void;
  status(): UpstreamStatus;
}

export interface UpstreamStatus {
  /** `failed` while it ends again and again, or cannot be started at all. */
  readonly state: "starting" | "ready" | "backing-off" | "stopping" | "failed";
  readonly generation: number;
  readonly pid: number | undefined;
  readonly restarts: number;
  readonly lastExit: UpstreamExit | undefined;
  readonly nextRetryAt: Date | undefined;
}

export interface UpstreamExit {
  readonly exitCode: number | undefined;
  readonly signal: string | undefined;
  readonly generation: number;
  readonly kind: ExitKind;
  /** For people. */
  readonly reason: string;
  readonly at: Date;
  /** The last lines that it wrote to stderr, with secrets masked. */
  readonly stderrTail: readonly string[];
}

/** What a server said of itself in its handshake. */
export interface UpstreamHandshake {
  readonly generation: number;
  /** The JSON text of its `InitializeResult`. */
  readonly resultText: string;
  readonly protocolVersion: string;
}

/** What the lane is told by its upstream. */
export interface UpstreamListener {
  onReady(handshake: UpstreamHandshake): void;
  /** The server has answered `initialize` with an error. It will be started again. */
  onRefused(response: ResponseMessage): void;
  onMessage(message: Message): void;
  onOverlongLine(line: OverlongLine): void;
  /**
   * The generation is gone and all it said was delivered. `unwritten` lines never reached it. Where `status()` says `failed` by now, it has
   * ended so often that what waits need not wait; it is still tried, rarely, and `onReady` ends this.
   */
  onLost(exit: UpstreamExit, unwritten: readonly Outgoing[]): void;
  /** The loss could not be handled: all requests that are open fail. */
  onDefect(): void;
}
