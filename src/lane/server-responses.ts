import type { Defects } from "../observability/defects.ts";
import type { OverlongLine, ResponseMessage } from "../protocol/message.ts";
import { isCreateTaskResult } from "./tasks/created-task.ts";
import { responseToClient } from "../protocol/rewrite.ts";
import { requestIdOf } from "../protocol/server-line.ts";
import type { Retries } from "./calls/retries.ts";
import type { Dispatch } from "./dispatch.ts";
import { internalError, invalidResponse, responseTooLarge } from "./failures.ts";
import type { DropLog } from "./routing/drop-log.ts";
import type { Routing } from "./routing/routing.ts";
import { refuseOverlong } from "./routing/refused-requests.ts";

export interface ServerResponsesOptions {
  readonly dispatch: Dispatch;
  readonly dropped: DropLog;
  readonly retries: Retries;
  readonly routing: Pick<Routing, "onUnfinished">;
  readonly defects: Defects;
  readonly maxLineBytes: number;
}

/** The responses of the server, on their way to the exchanges of their calls. */
export class ServerResponses {
  readonly #options: ServerResponsesOptions;
  /** True if this generation has sent an error without an id that answers no call: most likely, it answers notifications in that way. */
  #answersNotifications = false;

  constructor(options: ServerResponsesOptions) {
    this.#options = options;
  }

  onResponse(response: ResponseMessage): void {
    const { dispatch, dropped, defects } = this.#options;
    const { calls } = dispatch;
    const { isError } = response;
    if (this.#isUnfinished(response)) return;
    const id = response.id ?? (isError ? this.#onlyId() : undefined);
    const call = calls.takeAnswered(id, isError ? "errors" : "results");
    if (call === undefined) return dropped.answer(id, calls.takeAbandoned(id));
    if (isCreateTaskResult(response)) calls.tasks.add(call, response);
    try {
      call.exchange.respond(responseToClient(response, call.exchange.idText), response);
    } catch (error) {
      defects.recover("server response", error, () => call.exchange.fail(internalError(true)));
    }
  }

  /** Must be called when the server is lost. */
  onLost(): void {
    this.#answersNotifications = false;
  }

  /**
   * Returns the id of the call that an error without an id answers: the only call of the only principal. Undefined if the error may be about
   * something else that the server was sent.
   */
  #onlyId(): number | undefined {
    const { dispatch } = this.#options;
    const only = dispatch.calls.findOnly();
    const isClear = only?.origin === "client" && dispatch.isOnlySender(only) && !dispatch.calls.hasUnreadNotification;
    if (isClear && !this.#answersNotifications) return only.wireId;
    this.#answersNotifications = true;
    return undefined;
  }

  /** True if the call of the response goes on, or was failed. */
  #isUnfinished(response: ResponseMessage): boolean {
    const { dispatch, routing, defects } = this.#options;
    const call = routing.onUnfinished === undefined ? undefined : dispatch.calls.getWritten(response.id);
    if (call?.origin !== "client") return false;
    try {
      return routing.onUnfinished?.(call, response) === true;
    } catch (error) {
      const fail = (): void => dispatch.calls.giveUp(call, "defect", internalError(true));
      defects.recover("server response", error, fail);
      return true;
    }
  }

  /** Fails the call that an invalid response answers. @returns false if there is none. */
  onInvalidResponse(id: number, reason: string): boolean {
    const { dispatch, retries } = this.#options;
    const call = dispatch.calls.takeAnswered(id, "UPSTREAM_INVALID_RESPONSE");
    call?.exchange.fail(invalidResponse(call.method, reason, retries.effectOf(call)));
    return call !== undefined;
  }

  onOverlongLine(line: OverlongLine): void {
    const { dispatch, dropped, retries, maxLineBytes } = this.#options;
    const { calls } = dispatch;
    const id = line.hasMethod || line.idText === undefined ? undefined : requestIdOf(line.idText);
    const written = calls.getWritten(id);
    // Text before a message may be a client's, and so may the message.
    if (line.hasTextBefore && (written === undefined || !dispatch.isOnlySender(written))) return dropped.overlongLine(line, undefined);
    const call = calls.takeAnswered(id, "UPSTREAM_RESPONSE_TOO_LARGE");
    dropped.overlongLine(line, call);
    const limitBytes = line.isForMemory ? undefined : maxLineBytes;
    if (call !== undefined) call.exchange.fail(responseTooLarge(call.method, line.bytes, limitBytes, retries.effectOf(call)));
    else if (!line.hasMethod) dropped.answer(id, calls.takeAbandoned(id));
    else if (line.idText !== undefined) dispatch.sendInternal(refuseOverlong(line.idText, line.bytes));
  }
}
