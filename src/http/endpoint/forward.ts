import type { Defects } from "../../observability/defects.ts";
import type { SidecarError } from "../../errors.ts";
import type { NotificationMessage, RequestMessage, ResponseMessage } from "../../protocol/message.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import { internalError } from "../../lane/failures.ts";
import type { Session } from "../../sessions/session.ts";

/** Passes a request to the lane of its session. A defect fails only this request of a batch. */
export function forwardRequest(defects: Pick<Defects, "recover">, session: Session, exchange: Exchange, request: RequestMessage): void {
  try {
    session.lane.request(session, exchange, request);
  } catch (error) {
    defects.recover("client request", error, () => exchange.fail(internalError(true)));
  }
}

/** Passes a notification, or a response to a server request, to the lane of its session. @returns an error if it is not accepted. */
export function forwardOneWay(session: Session, message: NotificationMessage | ResponseMessage): SidecarError | undefined {
  return message.kind === "notification" ? session.lane.notify(session, message) : session.lane.answer(session, message);
}
