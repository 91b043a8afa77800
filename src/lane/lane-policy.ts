import type { SidecarError } from "../errors.ts";
import type { JsonObject, NotificationMessage, RequestMessage } from "../protocol/message.ts";
import type { Caller } from "../sessions/caller.ts";
import type { Exchange } from "../sessions/exchange.ts";
import type { Call } from "./calls/call.ts";
import type { CallLimits, CallVerdict } from "./calls/call-limits.ts";

/** The tool policy of one lane. The lane applies it to the messages of clients. A lane without rules has none. */
export interface LanePolicy {
  /** True if client requests must wait until the server's tools are known. */
  readonly needsTools: boolean;
  /**
   * Wraps the exchange of a client's request, to change its response.
   *
   * @param listAgain lists the server's tools again, because they have changed.
   * @returns the exchange itself if its response stays as it is.
   */
  wrap(exchange: Exchange, method: string, listAgain: () => void): Exchange;
  /**
   * Decides on a client's message before the lane accepts it.
   *
   * @param caller the calls of one caller share a rate.
   * @returns the error if the message is rejected; otherwise the limits of a call, if it has any.
   */
  admit(caller: Caller, message: RequestMessage | NotificationMessage): SidecarError | CallLimits | undefined;
  /** Called with the current generation's tools in its order: before any client request, and again after each change. */
  onTools(tools: readonly JsonObject[], generation: number): void;
  /** Called when the server is lost, and its tools are no longer valid. */
  onLost(): void;
  /**
   * Reviews a call that was accepted before the tools were known.
   *
   * @param isSent true if a former generation may have seen the call.
   * @returns the response if the call must not be sent.
   */
  review(call: Call, isSent: boolean): CallVerdict | undefined;
}
