import type { SidecarError } from "../errors.ts";
import type { NotificationMessage, RequestMessage, ResponseMessage } from "../jsonrpc/message.ts";
import type { Dispatch } from "./dispatch.ts";
import type { DropLog } from "./drop-log.ts";
import type { Offer } from "./offer.ts";
import type { Session } from "./session.ts";
import type { UpstreamHandshake } from "../upstream/port.ts";

/** What a lane lets its rules do. */
export interface LaneAccess {
  readonly dispatch: Dispatch;
  readonly dropped: DropLog;
  readonly nowMs: () => number;
  readonly requestTimeoutMs: number;
  /** To be called once the server has heard that its client is initialized: before, it must not be asked for anything. */
  readonly onInitialized: () => void;
}

/** What the rules make of a client's request. */
export type RequestRule =
  /** Carry it, and say how it ended. */
  | { readonly kind: "carry"; readonly onSettled: (hasResult: boolean) => void }
  /** The sidecar answers, with this member behind the id; `text` is the JSON of its value. */
  | { readonly kind: "answer"; readonly member: "result" | "error"; readonly text: string };

export function refuse(code: number, message: string): RequestRule {
  return { kind: "answer", member: "error", text: JSON.stringify({ code, message }) };
}

/** The body and the revision that a client's `initialize` is answered with. */
export interface InitializeAnswer {
  readonly protocolVersion: string;
  readonly body: string;
}

/** Who is meant: all that differs between a server that many clients share and one that a single client has for itself. */
export interface LaneRules {
  /** How long an `initialize` waits for the server. */
  readonly initializeTimeoutMs: number;
  /** Whether a server that refuses `initialize` answers a client with that. */
  readonly isRefusalFinal: boolean;
  answerInitialize(handshake: UpstreamHandshake, request: RequestMessage, idText: string): InitializeAnswer;
  /** What `answerInitialize` lets a client rely on. */
  offer(handshake: UpstreamHandshake): Offer;
  /** @returns undefined for what is simply carried. */
  onClientRequest(session: Session, request: RequestMessage): RequestRule | undefined;
  /** @returns the text for the server, or undefined for what it must not hear. */
  onClientNotification(notification: NotificationMessage): string | undefined;
  /** @returns why it cannot be taken, if it cannot. */
  onClientResponse(response: ResponseMessage): SidecarError | undefined;
  /** Everything but progress, which is the lane's. */
  onServerNotification(notification: NotificationMessage): void;
  onServerRequest(request: RequestMessage): void;
  /** Tells the server what the former one knew, ahead of all that has waited for it. */
  onReady(): void;
  onLost(): void;
  onSession(session: Session): void;
  onSessionEnd(session: Session): void;
  /** Whether the server waits for a client, and so cannot answer. */
  readonly isWaitingForClient: boolean;
  /** @returns the next deadline, or Infinity. */
  expire(nowMs: number): number;
}
