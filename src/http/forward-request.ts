import type { Defects } from "../defects.ts";
import type { RequestMessage } from "../jsonrpc/message.ts";
import type { Exchange } from "../mux/exchange.ts";
import { internalError } from "../mux/failures.ts";
import type { Session } from "../mux/session.ts";

/** Passes a request to the lane of its session. A defect fails only this request of a batch. */
export function forwardRequest(defects: Pick<Defects, "recover">, session: Session, exchange: Exchange, request: RequestMessage): void {
  try {
    session.lane.request(session, exchange, request);
  } catch (error) {
    defects.recover("client request", error, () => exchange.fail(internalError(true)));
  }
}
