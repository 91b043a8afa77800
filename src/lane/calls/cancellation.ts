import type { NotificationMessage } from "../../protocol/message.ts";
import { cancelledIdText, cancellationToServer } from "../../protocol/rewrite.ts";
import type { Log } from "../../observability/log.ts";
import type { Dispatch } from "../dispatch.ts";
import type { Caller } from "../../sessions/caller.ts";

/**
 * Cancels the request that a client's `notifications/cancelled` names (MCP 2025-11-25, basic/utilities/cancellation). Several requests of
 * one caller may share an id. Such a cancellation is ambiguous, and is ignored.
 */
export function cancelByClient(dispatch: Dispatch, caller: Caller, notification: NotificationMessage, log: Log): void {
  const { calls } = dispatch;
  const idText = cancelledIdText(notification);
  const [call, another] = calls
    .values()
    .filter((each) => each.origin === "client" && each.caller === caller && each.exchange.idText === idText);
  if (call === undefined || another !== undefined) {
    log.debug({ method: "notifications/cancelled" }, "cancellation ignored: unknown or ambiguous request id");
    return;
  }
  // The sidecar's own cancellation is shorter. It is sent if there is no room for the client's.
  const hasRoom = dispatch.roomError(notification.text) === undefined;
  calls.giveUp(call, "cancelled by the client", "dismissed", hasRoom ? cancellationToServer(notification, call.wireId) : undefined);
}
