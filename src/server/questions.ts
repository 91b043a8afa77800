import { type AskKinds, kindsOf } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode } from "../mcp/errors.ts";
import { type NotificationMessage, readMessage, type RequestMessage, Slot } from "../mcp/message.ts";
import { messageToServer } from "../mcp/rewrite.ts";
import type { Reservation } from "../memory.ts";
import { Timer } from "../timers.ts";
import { type Call, type ClientCall, errorAnswer, MAX_RENEWED_TIMES, RequestIds } from "./call.ts";
import type { Calls } from "./calls.ts";

/** A private server may ask anything. Others ask elicitations, samplings and questions for roots. */
export class Question {
  readonly id: number;
  /** The JSON text of the server's id, or of the key in its result. */
  readonly idText: string;
  readonly method: string;
  readonly kinds: AskKinds;
  /** The JSON text of the server's progress token. */
  readonly progressTokenText: string | undefined;
  /** Undefined while it is not known, and for a private server. */
  call: ClientCall | undefined;
  text = "";
  key = "";
  /** Set when a client without a session has got it. A key alone could be that of a question that the server has withdrawn. */
  isShown = false;
  memory: Reservation | undefined;
  deadline: Timer | undefined;

  constructor(id: number, idText: string, request: RequestMessage) {
    [this.id, this.idText, this.method] = [id, idText, request.method];
    [this.kinds, this.progressTokenText] = [kindsOf(request), request.outline.copyAt(Slot.metaProgressToken)];
  }
}

/**
 * The open questions of one server, by the id for its client. Each is closed once: answered, refused, withdrawn or overdue.
 *
 * - `PrivateSession`: for its session, in ten times REQUEST_TIMEOUT_MS.
 * - `ModernSessions`: for the session whose call the server has answered with it, in the same time.
 * - `SharedQuestions`: for the only call in flight, once there is just one. It is refused after 5 s without.
 * - `AskingCall`: then for the client of that call, which has PARK_TIMEOUT_MS to come back with the answer.
 */
export class Questions extends Map<unknown, Question> {
  /** Minted here, so that a late answer never matches a question of the next server. */
  readonly ids = new RequestIds();
  readonly calls: Calls;
  /** Called when the server has got an answer, or has withdrawn the question. */
  onClosed: (() => void) | undefined;
  readonly #maxCount: number;
  readonly #onOverdue: ((question: Question) => void) | undefined;
  #progress = 0;

  /** @param onOverdue undefined if questions have no time of their own. */
  constructor(calls: Calls, maxCount: number, onOverdue?: (question: Question) => void) {
    super();
    [this.calls, this.#maxCount, this.#onOverdue] = [calls, maxCount, onOverdue];
  }

  open(request: RequestMessage): Question | undefined {
    const { outline } = request;
    const { InvalidRequest, ServerError } = JsonRpcErrorCode;
    // The client might use the other value.
    const isAmbiguous = outline.doubles?.get(Slot.id) === "id" || outline.doubles?.get(Slot.method) === "method";
    if (isAmbiguous) this.refuse(request, InvalidRequest, "The id or the method of the request occurs twice");
    else if (this.size < this.#maxCount) return this.add(request, request.idText);
    else this.refuse(request, ServerError, `The client already has ${this.#maxCount} requests to answer`);
    return undefined;
  }

  add(request: RequestMessage, idText: string): Question {
    const question = new Question(++this.ids.last, idText, request);
    this.set(question.id, question);
    const onOverdue = this.#onOverdue;
    if (onOverdue === undefined) return question;
    const { context } = this.calls;
    question.deadline = new Timer(context, () => onOverdue(question));
    question.deadline.set(context.nowMs() + context.config.requestTimeoutMs * MAX_RENEWED_TIMES);
    return question;
  }

  about(call: Call | undefined): Question[] {
    return [...this.values()].filter((question) => question.call === call);
  }

  close({ id, deadline, memory }: Question): boolean {
    deadline?.clear();
    memory?.release();
    return this.delete(id);
  }

  closeAll(): Question[] {
    return [...this.values()].filter((question) => this.close(question));
  }

  withdraw({ outline }: NotificationMessage): Question | undefined {
    const idText = outline.textAt(Slot.requestId);
    const question = this.values().find((each) => each.idText === idText);
    if (question !== undefined && this.close(question)) this.onClosed?.();
    return question;
  }

  /** @param text the JSON text of the value. */
  answer(question: Question, member: "result" | "error", text: string): void {
    if (!this.close(question)) return;
    const response = readMessage(`{"jsonrpc":"2.0","id":${question.idText},"${member}":${text}}`);
    if (response.kind !== "invalid") this.#send(question, messageToServer(response));
    this.onClosed?.();
  }

  fail(question: Question, code: number, message: string): void {
    this.answer(question, "error", JSON.stringify({ code, message }));
  }

  refuse(request: RequestMessage, code: number, reason: string): void {
    this.#send(request, errorAnswer(request.idText, code, reason));
  }

  showProgress(question: Question): void {
    if (question.progressTokenText === undefined) return;
    const params = `{"progressToken":${question.progressTokenText},"progress":${++this.#progress}}`;
    this.#send(question, `{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`);
  }

  #send({ method, call }: { readonly method: string; readonly call?: ClientCall | undefined }, text: string): void {
    if (!this.calls.sendInternal(text, call?.caller.memory)) this.calls.dropped.request(method);
  }
}
