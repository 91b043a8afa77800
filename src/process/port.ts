import type { Message, Outgoing, OverlongLine, ResponseMessage } from "../mcp/message.ts";
import type { ExitKind } from "../observe/record.ts";

/** The lane's interface to the MCP server. The supervisor implements it; `server.ts` connects the two. */
export interface Upstream {
  /** Terminates a running generation that cannot serve requests. The next one starts as after any exit. */
  restart(kind: "hung" | "tools-not-listed", reason: string): void;
  status(): UpstreamStatus;
}

/** The stdin of one generation. */
export interface UpstreamInput {
  /** The bytes of the lines that are not written yet. */
  readonly queuedBytes: number;
  /** Queues a line. Never blocks or throws. */
  send(line: Outgoing): void;
  /** Removes a line that is not written yet. */
  withdraw(line: Outgoing): void;
}

/** `failed` during a crash loop, including its restarts, and after the supervisor has given up. */
export const UPSTREAM_STATES = ["starting", "ready", "backing-off", "stopping", "failed"] as const;

export interface UpstreamStatus {
  readonly state: (typeof UPSTREAM_STATES)[number];
  readonly generation: number;
  readonly pid: number | undefined;
  /** The time at which the last ready generation became so. */
  readonly readyAt: Date | undefined;
  readonly restarts: number;
  readonly lastExit: UpstreamExit | undefined;
  /** The time of the next start; undefined while a generation runs. */
  readonly nextRetryAt: Date | undefined;
  /** The number of pieces in which the stdout of the running generation has arrived: messages, or any other output. */
  readonly outputs: number;
  /** True while a part of it is read in steps. Meanwhile, more waits in its pipe. */
  readonly isReading: boolean;
  /** The number of writes that its stdin has taken. */
  readonly inputs: number;
}

export interface UpstreamExit {
  readonly exitCode: number | undefined;
  readonly signal: string | undefined;
  readonly generation: number;
  readonly kind: ExitKind;
  /** Text for people. */
  readonly reason: string;
  /** The likely cause with its remedy; undefined if the exit shows none. */
  readonly likelyCause: string | undefined;
  readonly at: Date;
  /** The last lines of stderr, with secrets masked. */
  readonly stderrTail: readonly string[];
}

/** The revisions that a server speaks: with sessions (`legacy`, up to 2025-11-25), or without (`modern`). */
export type ServerEra = "legacy" | "modern";

/** The server's part of the handshake. */
export interface UpstreamHandshake {
  readonly generation: number;
  readonly era: ServerEra;
  /** The JSON text of its `InitializeResult` or `DiscoverResult`, unchanged. */
  readonly resultText: string;
  readonly protocolVersion: string;
  /** A request that every server of this era answers. */
  readonly pingMethod: "ping" | "server/discover";
  /** The `_meta` that each request of the sidecar itself needs; undefined for none. */
  readonly requestMeta: Readonly<Record<string, unknown>> | undefined;
}

/** An observer of state changes: a generation has started, is ready, or is lost. Called before the listener. */
export type UpstreamObserver = (event: "started" | "ready" | UpstreamExit) => void;

/** The receiver of a server's messages and state changes. */
export interface UpstreamListener {
  /** Called with the stdin of each new generation, before all its messages. It is valid until `onLost`. */
  onStarted(input: UpstreamInput): void;
  /** Called when a new generation has finished its handshake. */
  onReady(handshake: UpstreamHandshake): void;
  /** Called when the server answers the handshake with an error. The server is then restarted. */
  onRefused(response: ResponseMessage): void;
  /** Called for each message, including those before `onReady`. */
  onMessage(message: Message): void;
  /**
   * Called with a response that other text precedes on its line. A client may have chosen it, if the server prints the text of its requests.
   *
   * @returns false if it was not used.
   */
  onResponseAfterText(response: ResponseMessage): boolean;
  /** Called with the id of a request that the server has answered with an invalid response. */
  onInvalidResponse(id: number, reason: string): void;
  onOverlongLine(line: OverlongLine): void;
  /**
   * Called once for each generation, even one that was never ready, after all its output. The `unwritten` lines never reached the server.
   * If `status()` is now `failed`, requests must be rejected until the next `onReady`, because restarts are rare.
   */
  onLost(exit: UpstreamExit, unwritten: readonly Outgoing[]): void;
  /** Called when `onLost` has thrown. Fails all requests in flight. The generation ends after an error in any other function. */
  onDefect(): void;
}
