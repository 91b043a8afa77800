import type { Dispatch } from "../../lane/dispatch.ts";
import { InternalExchange } from "../../lane/internal/internal-exchange.ts";
import type { RequestMessage } from "../../protocol/message.ts";

/** The sidecar's own subscription to the changes of a server's tools. It is opened once for each generation. */
export class ListChangeWatch {
  readonly wireId: number;
  readonly #onToolsChanged: () => void;

  constructor(dispatch: Dispatch, request: RequestMessage, nowMs: number, onToolsChanged: () => void) {
    this.#onToolsChanged = onToolsChanged;
    this.wireId = dispatch.internal.open(new InternalExchange(nowMs, () => undefined), request).wireId;
  }

  onNotification(method: string): void {
    if (method === "notifications/tools/list_changed") this.#onToolsChanged();
  }
}
