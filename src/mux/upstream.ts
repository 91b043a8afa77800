import type { OverlongLine } from "../jsonrpc/line-decoder.ts";
import type { Message } from "../jsonrpc/message.ts";
import type { Outgoing } from "../jsonrpc/outgoing.ts";

/** The port to the MCP server's side. The supervisor satisfies it; `sidecar.ts` joins the two. */
export interface Upstream {
  /** UTF-16 units that wait for the server to read them. */
  readonly queuedLength: number;
  /** Queues a line for the generation that runs; it stays `queued` where none does. Never blocks, never throws. */
  send(line: Outgoing): void;
  /** Takes a line back that is still queued. */
  withdraw(line: Outgoing): void;
  status(): UpstreamStatus;
}

export interface UpstreamStatus {
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
  /** For people. */
  readonly reason: string;
  readonly at: Date;
  /** With secrets masked. */
  readonly stderrLastLine: string | undefined;
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
  onRefused(text: string): void;
  onMessage(message: Message, text: string): void;
  onOverlongLine(line: OverlongLine): void;
  /** The generation is gone and all it said was delivered. `unwritten` lines never reached it. */
  onLost(exit: UpstreamExit, unwritten: readonly Outgoing[]): void;
}
