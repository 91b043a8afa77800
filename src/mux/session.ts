import { randomUUID } from "node:crypto";
import type { SidecarError } from "../errors.ts";
import type { NotificationMessage, RequestMessage, ResponseMessage } from "../jsonrpc/message.ts";
import type { CallTerms } from "./call-terms.ts";
import type { Exchange } from "./exchange.ts";
import type { SessionStreams } from "./session-streams.ts";

/** The lane of a session, as its client uses it. */
export interface SessionLane {
  /** Carries a request to the server; the exchange is finished with its answer, or with why there is none. */
  request(session: Session, exchange: Exchange, request: RequestMessage, terms?: CallTerms): void;
  /** Answers a request in the server's place, with this member behind the id; `text` is the JSON of its value. */
  respond(exchange: Exchange, member: "result" | "error", text: string): void;
  /** Answers a request that is not taken, for a reason that the lane does not know of. */
  refuse(exchange: Exchange, error: SidecarError): void;
  /** Carries a notification. @returns why it cannot be taken, if it cannot. */
  notify(session: Session, notification: NotificationMessage): SidecarError | undefined;
  /** Carries the answer to a request of the server. @returns why it cannot be taken, if it cannot. */
  answer(response: ResponseMessage): SidecarError | undefined;
  /** What the session still has running is cancelled. */
  endSession(session: Session): void;
}

/** Who opens sessions: one object for each auth token, of which it tells nothing. */
export interface Principal {
  /** The token is no longer valid. */
  readonly isRevoked: boolean;
}

/** One client's session, as `initialize` made it. Its id is 122 random bits, never a client's choice. */
export class Session {
  readonly id = randomUUID();
  /** The revision that `initialize` answered. */
  readonly protocolVersion: string;
  readonly lane: SessionLane;
  readonly streams: SessionStreams;
  /** Whose it is, and nobody else may use it; undefined where no token is asked for. */
  readonly owner: Principal | undefined;
  /** When its client was last heard of, a request of it settled, or a stream to it closed. */
  lastUsedAtMs: number;
  callsInFlight = 0;

  constructor(protocolVersion: string, lane: SessionLane, streams: SessionStreams, nowMs: number, owner?: Principal) {
    this.protocolVersion = protocolVersion;
    this.lane = lane;
    this.streams = streams;
    this.lastUsedAtMs = nowMs;
    this.owner = owner;
  }

  /** Whether its client waits for something: an answer, or whatever comes on a stream. */
  get isInUse(): boolean {
    return this.callsInFlight > 0 || this.streams.isAttached;
  }
}
