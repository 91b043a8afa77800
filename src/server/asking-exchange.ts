import { type AskKinds, isSubset, kindsOf, offeredKinds } from "../mcp/capabilities.ts";
import { SidecarError } from "../mcp/errors.ts";
import { readMessage, type RequestMessage, type ResponseMessage } from "../mcp/message.ts";
import { inputRequired, type ServerInfo } from "../mcp/result.ts";
import { responseToClient } from "../mcp/rewrite.ts";
import { type MemoryAccount, type Reservation, textMemoryBytes } from "../memory.ts";
import type { Defects } from "../observe/log.ts";
import type { AskedCall, Asking, Exchange, ServerAsk } from "../session/session.ts";
import { type Answers, bindingOf, earlyAnswersOf, missingCapability, OpenAsks, type Round } from "./asks.ts";
import { internalError } from "./failures.ts";

/** The time in which further questions join the first one. A server that asks several at once sends them together. */
const SETTLE_MS = 40;

/** The response to a call that has ended without a request of its client. */
interface Outcome {
  readonly outcome: string | SidecarError;
  readonly memory: Reservation;
}

/** The errors of a call whose server has answered it. After any other error, the call is gone. */
const KEPT_ERRORS: ReadonlySet<string> = new Set([
  "UPSTREAM_RESPONSE_TOO_LARGE",
  "UPSTREAM_INVALID_RESPONSE",
  "MISSING_CAPABILITY",
  "INTERNAL_ERROR",
]);

/** Keeps calls whose client was asked, until its next request. */
export interface Parking {
  /** @returns the state that the next request must have; or the reason why the call cannot wait. */
  add(exchange: AskingExchange): { readonly state: string } | { readonly refusal: string };
  remove(exchange: AskingExchange): void;
}

export interface AskingExchangeOptions {
  readonly parking: Parking;
  readonly memory: MemoryAccount;
  readonly serverInfo: ServerInfo;
  /** Raises the level of the log messages that the client gets. */
  readonly raiseLevel: (level: string) => void;
  readonly defects: Pick<Defects, "guard">;
}

/**
 * The exchange of a call that may need several requests of its client: each result `input_required` ends one, and the answers come with the
 * next one (MCP 2026-07-28, basic/utilities/mrtr). The server sees one call, and gets the answers as responses to its own requests.
 *
 * Between two requests the call is parked. Its result is then kept for the next one.
 */
export class AskingExchange implements Exchange, Asking {
  readonly sharedBy = 1;
  readonly asking = this;
  readonly #options: AskingExchangeOptions;
  readonly #binding: string;
  readonly #asks: OpenAsks;
  /** The kinds of questions that were refused because the client has not declared them. */
  #missing: AskKinds = 0;
  #call: AskedCall | undefined;
  /** The request that waits for the response; undefined while the call is parked, and after its end. */
  #round: Round | undefined;
  #lastRound: Round;
  #outcome: Outcome | undefined;
  #timer: NodeJS.Timeout | undefined;
  #onDisconnect: (() => void) | undefined;

  /** @param request the first one. It is not kept, because its text may be long. */
  constructor(options: AskingExchangeOptions, round: Round, request: RequestMessage) {
    this.#options = options;
    this.#asks = new OpenAsks(options.memory, earlyAnswersOf(request));
    this.#binding = round.declared === 0 ? "" : bindingOf(request);
    this.#round = this.#lastRound = round;
  }

  get memory(): MemoryAccount {
    return this.#options.memory;
  }

  get serverInfo(): ServerInfo {
    return this.#options.serverInfo;
  }

  get idText(): string {
    return this.#lastRound.exchange.idText;
  }

  get acceptedAtMs(): number {
    return this.#lastRound.exchange.acceptedAtMs;
  }

  get addedBytes(): number {
    return this.#lastRound.exchange.addedBytes;
  }

  get logLevel(): string | undefined {
    return this.#round?.exchange.logLevel;
  }

  get observed(): Exchange["observed"] {
    return this.#lastRound.exchange.observed;
  }

  get isListening(): boolean {
    return this.#round?.exchange.isListening ?? false;
  }

  emit(body: string): boolean {
    return this.#round?.exchange.emit(body) ?? false;
  }

  keepAlive(): void {
    this.#round?.exchange.keepAlive();
  }

  respond(body: string, response?: ResponseMessage): void {
    this.#dropAsks();
    const missing = missingCapability(body, this.#missing);
    if (missing !== undefined) return this.fail(missing);
    if (this.#round !== undefined) return this.#finish((exchange) => exchange.respond(body, response));
    const memory = this.memory.reserve("requests", textMemoryBytes(body));
    if (memory === undefined) this.#options.parking.remove(this);
    else this.#outcome = { outcome: body, memory };
  }

  fail(error: SidecarError): void {
    this.#dropAsks();
    if (this.#round !== undefined) return this.#finish((exchange) => exchange.fail(error));
    if (KEPT_ERRORS.has(error.code)) this.#outcome = { outcome: error, memory: this.memory.hold("requests", 0) };
    else this.#options.parking.remove(this);
  }

  dismiss(): void {
    this.#dropAsks();
    this.#endRound()?.exchange.dismiss();
  }

  onDisconnect(listener: () => void): void {
    this.#onDisconnect = listener;
    this.#watch(this.#lastRound);
  }

  ask(ask: ServerAsk, call: AskedCall): void {
    this.#call = call;
    this.#asks.add(ask);
    this.#settleSoon();
  }

  canAnswer(request: RequestMessage): boolean {
    return isSubset(kindsOf(request), this.#lastRound.declared);
  }

  onRefused(request: RequestMessage): void {
    if (!this.canAnswer(request)) this.#missing |= offeredKinds(kindsOf(request));
  }

  withdraw(ask: ServerAsk): void {
    this.#asks.withdraw(ask);
  }

  /** True if this is a request for the same call as before. */
  isFor(request: RequestMessage): boolean {
    return this.#binding === bindingOf(request);
  }

  /** @returns the error if the queue of the server's stdin is too full for these answers. */
  roomError(answers: Answers): SidecarError | undefined {
    return this.#call?.roomError([...answers.values()].join(""));
  }

  /** Continues the call with the client's next request. Questions without a valid answer are asked again. */
  resume(round: Round, answers: Answers): void {
    this.#round = this.#lastRound = round;
    if (this.#outcome !== undefined) return this.#respondOutcome(this.#outcome);
    this.#watch(round);
    // The server has the call already.
    this.observed?.onSent(this.acceptedAtMs);
    this.#call?.resume(round.progressTokenText);
    if (round.exchange.logLevel !== undefined) this.#options.raiseLevel(round.exchange.logLevel);
    this.#missing |= this.#asks.answer(answers, round.declared);
    this.#settleSoon();
  }

  /** Ends a parked call, because its client has not come back. */
  expire(reason: string): void {
    this.#asks.expire();
    this.#outcome?.memory.release();
    if (this.#outcome === undefined) this.#call?.cancel(reason);
  }

  /** Shows the server that its questions are still open. */
  showProgress(): void {
    this.#asks.showProgress();
  }

  #watch(round: Round): void {
    round.exchange.onDisconnect(() => {
      if (this.#round !== round) return;
      this.#endRound();
      this.#onDisconnect?.();
      this.#dropAsks();
    });
  }

  #respondOutcome({ outcome, memory }: Outcome): void {
    memory.release();
    this.#finish((exchange) => {
      const response = typeof outcome === "string" ? readMessage(outcome, "server") : outcome;
      if (response instanceof SidecarError) exchange.fail(response);
      else if (response.kind === "response") exchange.respond(responseToClient(response, exchange.idText));
      else exchange.fail(internalError(true));
    });
  }

  /** Ends the request of the client. If a defect prevents the response, it can still be ended with an error. */
  #finish(end: (exchange: Exchange) => void): void {
    if (this.#round !== undefined) end(this.#round.exchange);
    this.#endRound();
  }

  #dropAsks(): void {
    this.#asks.refuse("The call of this question has ended");
  }

  #endRound(): Round | undefined {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const round = this.#round;
    this.#round = undefined;
    return round;
  }

  #settleSoon(): void {
    if (this.#round === undefined || this.#asks.isEmpty) return;
    this.#timer ??= setTimeout(() => this.#options.defects.guard("question", () => this.#settle()), SETTLE_MS);
  }

  /** Asks the client. */
  #settle(): void {
    this.#timer = undefined;
    if (this.#round === undefined || this.#asks.isEmpty) return;
    const added = this.#options.parking.add(this);
    if ("refusal" in added) return this.#asks.refuse(added.refusal);
    const result = inputRequired(this.#asks.show(), this.serverInfo, added.state);
    const round = this.#endRound();
    this.#call?.park();
    round?.raw.respond(`{"jsonrpc":"2.0","id":${round.raw.idText},"result":${result}}`);
  }
}
