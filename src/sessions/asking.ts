import type { SidecarError } from "../errors.ts";
import type { RequestMessage } from "../protocol/message.ts";

/** A server's request that the client of one of its calls answers: an elicitation, a sampling, or a question for roots. It is answered once, or withdrawn. */
export interface ServerAsk {
  readonly request: RequestMessage;
  /** Sends the response. Does nothing if the server no longer waits for it. @param text the JSON text of the value. */
  answer(member: "result" | "error", text: string): void;
  /** Shows the server that the client is still there, if it wants progress. */
  showProgress(): void;
}

/** The call of a question. */
export interface AskedCall {
  /** Parks the call until `resume`: it takes no slot and no time. */
  park(): void;
  /** Continues the call, whose exchange has the client's next request. @param progressTokenText that of the request. */
  resume(progressTokenText: string | undefined): void;
  /** Cancels a parked call at the server. */
  cancel(reason: string): void;
  /** @returns the error if the queue of the server's stdin is too full for these answers. */
  roomError(text: string): SidecarError | undefined;
}

/** The part of an exchange that passes questions of the server to the client. */
export interface Asking {
  /** True if the client has declared this kind of question. */
  canAnswer(request: RequestMessage): boolean;
  /** Called for a question that was refused, although it is about this call. */
  onRefused(request: RequestMessage): void;
  ask(ask: ServerAsk, call: AskedCall): void;
  /** Must be called if the server has withdrawn a question, or has exited. */
  withdraw(ask: ServerAsk): void;
}
