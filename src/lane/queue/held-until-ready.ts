import type { SidecarError } from "../../errors.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import type { Caller } from "../../sessions/caller.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import { holdMessage } from "../calls/call.ts";
import type { Dispatch } from "../dispatch.ts";
import type { QueueEntry } from "./queue-entry.ts";

export interface HeldRequest<Owner extends Pick<Caller, "memory"> = Caller> {
  /** The client. It takes turns with others. */
  readonly owner: Owner;
  readonly exchange: Pick<Exchange, "acceptedAtMs" | "onDisconnect">;
  readonly request: Pick<RequestMessage, "method" | "text">;
  readonly onReady: () => void;
  /** Called with the error instead if the request waits for too long, or the queue is full. */
  readonly onFailed: (error: SidecarError) => void;
}

/** Holds a request in the queue until the server is ready. It is then up to `onReady` to send it. */
export function holdUntilReady(dispatch: Dispatch, holdTimeoutMs: number, held: HeldRequest<Pick<Caller, "memory">>): void {
  const { owner, exchange, request, onReady, onFailed } = held;
  const error = dispatch.roomError(request.text);
  if (error !== undefined) return onFailed(error);
  const memory = holdMessage(owner.memory, request.text);
  const fail = (failure: SidecarError): void => {
    memory.release();
    dispatch.queue.remove(entry);
    onFailed(failure);
  };
  const entry: QueueEntry = {
    owner,
    takesSlot: true,
    held: { holder: owner.memory.holder, memory, fail },
    byteLength: Buffer.byteLength(request.text),
    expiresAtMs: exchange.acceptedAtMs + holdTimeoutMs,
    release: () => {
      memory.release();
      onReady();
    },
    refuse: () => fail(dispatch.errors.notSent()),
  };
  if (!dispatch.queue.add(entry)) return entry.refuse();
  exchange.onDisconnect(() => {
    memory.release();
    dispatch.queue.remove(entry);
  });
}
