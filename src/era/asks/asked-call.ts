import type { ClientCall } from "../../lane/calls/call.ts";
import type { Dispatch } from "../../lane/dispatch.ts";
import type { AskedCall } from "../../sessions/asking.ts";

/** Returns the controls of a call for its exchange. @param onChanged called when the server may have become free, or no longer is. */
export function askedCall(dispatch: Dispatch, call: ClientCall, onChanged: () => void): AskedCall {
  return {
    park() {
      dispatch.calls.park(call);
      onChanged();
    },
    resume(progressTokenText) {
      call.progressTokenText = progressTokenText;
      dispatch.resume(call);
      onChanged();
    },
    cancel: (reason) => dispatch.calls.giveUp(call, reason, "unread"),
    roomError: (text) => dispatch.inputRoomError(text),
  };
}
