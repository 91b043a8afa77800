import type { ExitKind } from "../counters.ts";
import type { Message, OverlongLine, ResponseMessage } from "../jsonrpc/message.ts";
import type { Outgoing } from "../jsonrpc/outgoing.ts";

/** The port to the MCP server's side. The supervisor satisfies it; `sidecar.ts` joins it with a lane. */
export interface Upstream {
  /** Bytes that wait for the server to read them. */
  readonly queuedBytes: number;
  /** Queues a line for the generation that runs; it stays `queued` where none does. Never blocks, never throws. */
  send(line: Outgoing): void;
  /** Takes a line back that is still queued. */
  withdraw(line: Outgoing): void;
  /** Ends the generation that runs, because it is of no use; the next one is started as after any exit. */
  restart(kind: "hung" | "tools-not-listed" | "defect", reason: string): void;
  status(): UpstreamStatus;
}

export interface UpstreamStatus {
  /** `failed` in a crash loop, also during further attempts, and after the supervisor gave up. */
  readonly state: "starting" | "ready" | "backing-off" | "stopping" | "failed";
  readonly generation: number;
  readonly pid: number | undefined;
  readonly restarts: number;
  readonly lastExit: UpstreamExit | undefined;
  /** When the next start is due; undefined while a generation runs. */
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

/** The server's description of itself in its handshake. */
export interface UpstreamHandshake {
  readonly generation: number;
  /** The JSON text of its `InitializeResult`, byte for byte. */
  readonly resultText: string;
  readonly protocolVersion: string;
}

/** The side that receives what a server says. */
export interface UpstreamListener {
  /** A new generation has finished its handshake. */
  onReady(handshake: UpstreamHandshake): void;
  /** The server has answered `initialize` with an error. It will be started again. */
  onRefused(response: ResponseMessage): void;
  /** Also called before `onReady`, for early messages. */
  onMessage(message: Message): void;
  onOverlongLine(line: OverlongLine): void;
  /**
   * The generation is gone and all its output was delivered. Called once for each, also for one that never got ready. `unwritten` lines
   * never reached it. If `status()` says `failed` by now, requests need not wait; the server is still tried, rarely, and `onReady` ends this.
   */
  onLost(exit: UpstreamExit, unwritten: readonly Outgoing[]): void;
}
