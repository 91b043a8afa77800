import type { Message, Outgoing, OverlongLine, ResponseMessage } from "../mcp/message.ts";
import type { ExitKind } from "../observe/record.ts";

/** The lane's interface to the MCP server. */
export interface Upstream {
  /** Terminates a generation that cannot serve requests. The next one starts as after any exit. */
  restart(kind: "hung" | "tools-not-listed", reason: string): void;
  status(): UpstreamStatus;
}

export interface UpstreamInput {
  readonly queuedBytes: number;
  /** Queues a line. Never blocks or throws. */
  send(line: Outgoing): void;
  withdraw(line: Outgoing): void;
}

/** `failed` during a crash loop, including its restarts, and after the supervisor has given up. */
export const UPSTREAM_STATES = ["starting", "ready", "backing-off", "stopping", "failed"] as const;

export interface UpstreamStatus {
  readonly state: (typeof UPSTREAM_STATES)[number];
  readonly generation: number;
  readonly pid: number | undefined;
  readonly readyAt: Date | undefined;
  readonly restarts: number;
  readonly lastExit: UpstreamExit | undefined;
  /** Undefined while a generation runs. */
  readonly nextRetryAt: Date | undefined;
  /** The number of chunks that the running generation has written to stdout. */
  readonly outputs: number;
  /** True while a piece is read in steps, and more waits in the pipe. */
  readonly isReading: boolean;
  readonly inputs: number;
}

export interface UpstreamExit {
  readonly exitCode: number | undefined;
  readonly signal: string | undefined;
  readonly generation: number;
  readonly kind: ExitKind;
  readonly reason: string;
  /** With its remedy; undefined if the exit shows none. */
  readonly likelyCause: string | undefined;
  readonly at: Date;
  /** With secrets masked. */
  readonly stderrTail: readonly string[];
}

/** With sessions (up to 2025-11-25), or without. */
export type ServerEra = "legacy" | "modern";

export interface UpstreamHandshake {
  readonly generation: number;
  readonly era: ServerEra;
  /** JSON text of its `InitializeResult` or `DiscoverResult`. */
  readonly resultText: string;
  readonly protocolVersion: string;
  readonly pingMethod: "ping" | "server/discover";
  /** The `_meta` of each request of the sidecar itself; undefined for none. */
  readonly requestMeta: Readonly<Record<string, unknown>> | undefined;
}

/** Called when a generation has started, is ready, or is lost, before the listener. */
export type UpstreamObserver = (event: "started" | "ready" | UpstreamExit) => void;

export interface UpstreamListener {
  /** Called before all messages of a new generation. The stdin is valid until `onLost`. */
  onStarted(input: UpstreamInput): void;
  onReady(handshake: UpstreamHandshake): void;
  /** The server has answered the handshake with an error, and is restarted. */
  onRefused(response: ResponseMessage): void;
  /** Called even before `onReady`. */
  onMessage(message: Message): void;
  /**
   * Other text precedes the response on its line. A client may have chosen the response, if the server prints the text of its requests.
   *
   * @returns false if it was not used.
   */
  onResponseAfterText(response: ResponseMessage): boolean;
  onInvalidResponse(id: number, reason: string): void;
  onOverlongLine(line: OverlongLine): void;
  /**
   * Called once for each generation, even one that was never ready, after all its output. The `unwritten` lines never reached the server.
   * If `status()` is now `failed`, requests must be rejected until the next `onReady`, because restarts are rare.
   */
  onLost(exit: UpstreamExit, unwritten: readonly Outgoing[]): void;
  /** `onLost` has thrown. Fails all requests in flight. The generation ends after an error in any other function. */
  onDefect(): void;
}
