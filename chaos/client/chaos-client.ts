// A client of the wrapper under test, of either protocol era.

/** Texts with multi-byte characters, which detect a split within a character. */
export const TEXTS = ["", "plain", "Grüße aus Köln", "日本語のテキスト", "🦀🦞 emoji", 'quotes " and \\ and \n newline', "é".repeat(500)];

export const PAUSE_AFTER_ERROR_MS = 50;
export const MAX_THINK_MS = 10;
export const PAUSE_BEFORE_LISTENING_AGAIN_MS = 100;
export const BURST_REQUESTS = 300;
export const OTHER_REQUEST_SHARE = 0.1;
export const SLOW_SHARE = 0.05;
export const PROGRESS_SHARE = 0.1;
/** The share of calls that ask, of a client that can answer, and the share of their questions that it does not answer. */
export const ASK_SHARE = 0.1;
export const LEAVE_SHARE = 0.1;

export interface ChaosClient {
  readonly name: string;
  /** The process that sent the last right response. */
  readonly serverPid: number | undefined;
  start(): void;
  /** Waits for all responses, then leaves. */
  stop(): Promise<void>;
  /** Sends no further requests, and waits for all responses. */
  finish(): Promise<void>;
  /** Closes all connections. */
  leave(): void;
  /** Calls a tool that causes a fault, in addition to the load. @returns false if the client cannot. */
  provoke(tool: string): boolean;
  /** Sends many requests at once. @returns false if the client cannot. */
  burst(): boolean;
  /** Breaks the stream of a call after its first event, and resumes it. @returns false if the client cannot. */
  comeBack(onLostStream: () => void): boolean;
  /** Breaks all connections of the client. */
  disconnect(): void;
  /** Ends the session while its requests are in flight. @returns false without a session. */
  deleteSession(): boolean;
}
