import type { Config } from "../../../src/config/load.ts";
import type { JsonRpcMessage } from "../json-rpc.ts";
import type { Exchange } from "./exchange.ts";
import type { SimulatedProcess } from "./simulated-process.ts";

export class Client {
  readonly name: string;
  readonly principal: number;
  readonly kind: "session" | "batches" | "stateless";
  readonly isAskable: boolean;
  /** Undefined without a session, and until it is open. */
  sessionId: string | undefined;
  hasEnded = false;
  readonly questions: { readonly id: unknown; readonly text: string }[] = [];

  constructor(name: string, principal: number, kind: Client["kind"], isAskable: boolean) {
    [this.name, this.principal, this.kind, this.isAskable] = [name, principal, kind, isAskable];
  }
}

export class ClientRequest {
  readonly tag: number;
  readonly client: Client;
  readonly method: string;
  readonly tool: string | undefined;
  /** True for a request that the sidecar may answer in many ways. */
  readonly isLoose: boolean;
  id: number;
  exchange: Exchange | undefined;
  acceptedAtMs = Date.now();
  state: "open" | "asked" | "ended" = "open";
  isCancelled = false;
  /** True for a request with the state of an earlier result. */
  isContinued = false;
  /** True once its client has opened its stream again, whose events may be gone. */
  isResumed = false;
  /** True if the time may be renewed, or the response waits for others. */
  isRenewed = false;
  ending: unknown;
  /** True if a server has asked about it. */
  hasAsked = false;
  isAnsweredBadly = false;
  /** The last result with questions. */
  asked: JsonRpcMessage["result"];
  /** Each time that a server was handed it. */
  readonly handed: { readonly process: SimulatedProcess; readonly wireId: unknown; isAsked: boolean; isAnswered: boolean }[] = [];
  retries = 0;
  /** The process whose progress the client has got. */
  shownBy: SimulatedProcess | undefined;
  /** The turns of the event loop in which its client has sent it, and has disconnected. */
  readonly sentInTurn: number;
  goneInTurn = -1;

  constructor(tag: number, client: Client, method: string, tool: string | undefined, isLoose: boolean, turn: number) {
    [this.tag, this.id, this.client, this.method] = [tag, tag, client, method];
    [this.tool, this.isLoose, this.sentInTurn] = [tool, isLoose, turn];
  }
}

/** Protocol requests that only read. */
const READS: ReadonlySet<string> = new Set(["tools/list", "resources/read", "prompts/get"]);
/** The endings that are always counted: any others may be those of HTTP requests. */
const COUNTED_ENDINGS = ["results", "errors", "REQUEST_TIMEOUT", "UPSTREAM_EXITED", "UPSTREAM_FAILED", "OVERLOADED", "SESSION_OVERLOADED"];
/** More than the longest request has. */
const LARGE_BYTES = 13_000;
/** The time in which an exit is noticed. */
const EXIT_MS = 600;
/** The turns of the event loop after which every part has seen an event. */
const TURNS = 5;

export class Violation extends Error {
  readonly tag: number | undefined;

  constructor(message: string, tag?: number) {
    super(message);
    this.tag = tag;
  }
}

export function refute(condition: boolean, message: string, tag?: number): void {
  if (condition) throw new Violation(message, tag);
}

export class Model {
  readonly requests = new Map<number, ClientRequest>();
  readonly open = new Set<ClientRequest>();
  /** The responses of servers. No client may get one that is `stray`: it has another id, or is a second one. */
  readonly answers = new Map<number, { readonly request: ClientRequest | undefined; readonly kind: "result" | "error" | "stray" }>();
  /** The questions of servers with sessions. */
  readonly questions = new Map<string, { readonly request: ClientRequest; readonly process: SimulatedProcess; responses: number }>();
  /** The questions without a request, and the client that has got one. */
  readonly questionsAlone = new Map<string, { readonly process: SimulatedProcess; client: Client | undefined; responses: number }>();
  isDraining = false;
  turn = 0;
  /** The last time at which some server was not ready. */
  troubleAtMs = 0;
  askedAtMs = -1;
  readonly #config: Config;
  readonly #changesEra: boolean;
  readonly #hasOneQueue: boolean;
  /** The last request of each client that a server was handed, with and without a limit of its own. */
  readonly #lastHanded = { limited: new Map<Client, number>(), other: new Map<Client, number>() };
  #changedInTurn = 0;
  #stalledInTurn = 0;

  /** @param changesEra true if a restarted server may be of another revision. @param hasOneQueue true if all requests wait for one server. */
  constructor(config: Config, changesEra: boolean, hasOneQueue: boolean) {
    [this.#config, this.#changesEra, this.#hasOneQueue] = [config, changesEra, hasOneQueue];
  }

  add(client: Client, method: string, tool?: string, isLoose = false): ClientRequest {
    const request = new ClientRequest(this.requests.size + 1, client, method, tool, isLoose, this.turn);
    this.requests.set(request.tag, request);
    this.open.add(request);
    return request;
  }

  end(request: ClientRequest): void {
    request.state = "ended";
    this.open.delete(request);
  }

  /** The client of an asked request sends it again. */
  continue(request: ClientRequest): void {
    request.id += 100_000;
    Object.assign(request, { state: "open", isContinued: true, isCancelled: false, acceptedAtMs: Date.now() });
    this.open.add(request);
  }

  onServerChanged(): void {
    this.#changedInTurn = this.turn;
  }

  onHanded(request: ClientRequest, process: SimulatedProcess, wireId: unknown): void {
    const { tag, handed } = request;
    const last = handed.at(-1);
    // A line may be written before the sidecar sees that its client has gone. In a session, the client may then have an event to resume from.
    const hasGone = request.goneInTurn >= (request.client.sessionId === undefined ? this.turn : 0);
    refute(request.state === "ended" && !hasGone, "a request is sent after its end", tag);
    refute(process.isLost, "a request is sent to a server that is lost", tag);
    // While the sidecar drains, it starts no other process.
    const isLate = request.sentInTurn > process.refusedInTurn && !this.isDraining;
    refute(isLate, "a later request is sent to a process that sessions shared when it asked", tag);
    const owner = this.questionsAlone.values().find((each) => each.process === process && each.client !== undefined)?.client;
    refute(owner !== undefined && owner !== request.client, `it is sent to a process that has asked ${owner?.name}`, tag);
    refute(process.requests.has(wireId), `the id ${String(wireId)} is used twice`, tag);
    if (last === undefined) this.#checkOrder(request);
    else if (!last.isAsked) {
      refute(!last.process.isLost, "a request is sent twice, although its server runs", tag);
      refute(last.isAnswered, "a request is sent again, although its server has answered", tag);
      refute(request.retries > 0, "a request is sent a third time", tag);
      refute(!this.#mayRetry(request), "a request is sent again that must not be", tag);
      refute(request.shownBy === last.process, "a request is sent again, although its client got progress", tag);
      request.retries++;
    }
    handed.push({ process, wireId, isAsked: false, isAnswered: false });
    this.onServerChanged();
  }

  /** A process has no more requests than there are slots. */
  checkSlots(process: SimulatedProcess, requests: readonly ClientRequest[]): void {
    const { maxInFlight, toolConcurrency } = this.#config;
    const running = requests.filter(({ hasAsked, isContinued }) => !hasAsked && !isContinued);
    const limited = running.filter(({ tool }) => tool === "limited");
    const limit = toolConcurrency?.[0]?.value ?? 1;
    refute(running.length > maxInFlight, `process ${process.number} has ${running.length} requests`, running.at(-1)?.tag);
    refute(limited.length > limit, `process ${process.number} has ${limited.length} calls of a tool`, limited.at(-1)?.tag);
    if (process.isStalled) this.#stalledInTurn = this.turn;
    if (!this.#hasOneQueue || process.era === undefined || process.isLost || process.isStalled || this.turn - this.#changedInTurn < TURNS)
      return;
    const waiting = this.#waiting().find(({ tool }) => tool !== "limited" || limited.length < limit);
    const isFree = running.length < maxInFlight && waiting !== undefined && running.length === requests.length;
    refute(isFree, "a slot is free while a request waits", waiting?.tag);
  }

  /** Each ending is counted as often as clients have seen it. Those that have left may have seen any. */
  checkCounts(counts: ReadonlyMap<string, number>): void {
    const seen = Map.groupBy(this.requests.values(), ({ ending }) => ending);
    const unseen = [...seen].reduce((sum, [ending, { length }]) => sum + (COUNTED_ENDINGS.some((each) => each === ending) ? 0 : length), 0);
    for (const ending of COUNTED_ENDINGS) {
      const [count, least] = [counts.get(ending) ?? 0, seen.get(ending)?.length ?? 0];
      refute(
        count < least || count > least + unseen,
        `${count} ${ending} are counted, and clients have seen ${least} (and ${unseen} others)`,
      );
    }
  }

  onResponse(request: ClientRequest, message: JsonRpcMessage, text: string): void {
    const { tag } = request;
    refute(request.state !== "open", "a request is answered twice", tag);
    this.end(request);
    // Then it is the response to the GET.
    if (request.isResumed && typeof message.id !== "number") return;
    const { data } = message.error ?? {};
    request.ending = message.error === undefined ? "results" : (data?.["code"] ?? "errors");
    if (data !== undefined && "code" in data) return this.#onError(request, data);
    if (request.isLoose) return;
    if (message.result?.["resultType"] === "input_required") {
      refute(!this.#hasAsked(request.client), "a client is asked without a question", tag);
      request.state = "asked";
      request.asked = message.result;
      return;
    }
    const answer = this.answers.get(Number(/answer-(\d+)\b/.exec(text)?.[1]));
    refute(answer === undefined, `no server has given this response: ${text}`, tag);
    refute(answer?.kind === "stray", `a response with another id, or a second one, reaches a client: ${text}`, tag);
    refute(answer?.request !== request, `the response to ${answer?.request?.tag ?? "no request"} goes to another request`, tag);
    refute(answer?.kind !== (message.error === undefined ? "result" : "error"), `not the server's response: ${text}`, tag);
  }

  onNoResponse(request: ClientRequest): void {
    this.end(request);
    refute(!request.isCancelled && !request.client.hasEnded, "a request gets no response", request.tag);
  }

  /** Something about a request reaches a client. */
  onText(client: Client, text: string): void {
    for (const [, tag] of text.matchAll(/about-(\d+)\b/g)) {
      const about = this.requests.get(Number(tag));
      refute(about?.client.principal !== client.principal, `${client.name} gets a message about ${tag}: ${text}`, Number(tag));
    }
  }

  /** A question reaches a client only if no other one has used its process, and none will. */
  onQuestionAlone(client: Client, nonce: string): void {
    const question = this.questionsAlone.get(nonce);
    if (question === undefined) return;
    question.client = client;
    const other = this.requests
      .values()
      .find((each) => each.client !== client && each.handed.some(({ process }) => process === question.process));
    refute(other !== undefined, `${client.name} is asked by a process of ${other?.client.name}`, other?.tag);
  }

  checkTimes(nowMs: number, slackMs: number): void {
    const { requestTimeoutMs, holdTimeoutMs } = this.#config;
    // The time in which a person answers does not count.
    const questions = [...this.questions.values(), ...this.questionsAlone.values()];
    if (questions.some(({ responses, process }) => responses === 0 && !process.hasEnded)) this.askedAtMs = nowMs;
    for (const { acceptedAtMs, isRenewed, hasAsked, exchange, tag } of this.open) {
      if (isRenewed || hasAsked || exchange?.isOver !== false || this.askedAtMs >= acceptedAtMs) continue;
      const longestMs = Math.max(requestTimeoutMs, holdTimeoutMs) + slackMs;
      refute(nowMs > acceptedAtMs + longestMs, "a request waits for longer than its time", tag);
    }
  }

  /** The requests that have waited for a slot for some turns, and do not wait in the stdin of a server that does not read. */
  #waiting(): ClientRequest[] {
    return [...this.open].filter((request) => {
      const { handed, isLoose, isCancelled, isRenewed, client, exchange, sentInTurn } = request;
      if (handed.length > 0 || isLoose || isCancelled || isRenewed || client.hasEnded || exchange?.isOver !== false) return false;
      return sentInTurn > this.#stalledInTurn && sentInTurn < this.turn - TURNS;
    });
  }

  /** The requests of each client stay in order. */
  #checkOrder({ client, tool, tag }: ClientRequest): void {
    if (!this.#hasOneQueue) return;
    const lastHanded = tool === "limited" ? this.#lastHanded.limited : this.#lastHanded.other;
    refute((lastHanded.get(client) ?? 0) > tag, "a request overtakes another one of its client", tag);
    lastHanded.set(client, tag);
  }

  #mayRetry({ method, tool }: ClientRequest): boolean {
    const { retry } = this.#config;
    return method === "tools/call" ? retry === "read-only" && tool === "read" : retry !== "off" && READS.has(method);
  }

  #hasAsked({ principal }: Client): boolean {
    return this.requests.values().some(({ hasAsked, client }) => hasAsked && client.principal === principal);
  }

  #onError(request: ClientRequest, data: Readonly<Record<string, unknown>>): void {
    const { tag, method, tool, handed, isContinued, isLoose } = request;
    const { code, sent, retrySafe } = data;
    const shown = JSON.stringify(data);
    refute(code === "INTERNAL_ERROR", shown, tag);
    if (isLoose) return;
    refute(sent === false && handed.length > 0 && !isContinued, `it was sent: ${shown}`, tag);
    refute(retrySafe === true && sent === true && !READS.has(method) && tool !== "read", `it is not safe to repeat: ${shown}`, tag);
    refute(!this.#isAllowed(request, String(code)), `unexpected error: ${shown}`, tag);
  }

  /** True if the server of a request ended some time ago, and no other one may get it. */
  #isLost(request: ClientRequest, atMs: number): boolean {
    const last = request.handed.at(-1);
    const mayWait = last === undefined || last.isAsked || (request.retries === 0 && this.#mayRetry(request));
    // While memory is short, the last output is read late, and the exit is seen after it.
    const isSeen = this.#config.memoryBudgetBytes === Number.MAX_SAFE_INTEGER;
    return !mayWait && isSeen && last.process.endedAtMs < atMs - EXIT_MS;
  }

  /** True if its client reads the response later than it is sent: it has resumed, or the response waits for others of a batch. */
  #isReadLater({ isResumed, exchange, tag }: ClientRequest): boolean {
    return isResumed || this.requests.values().some((other) => other.exchange === exchange && other.tag !== tag);
  }

  #isAllowed(request: ClientRequest, code: string): boolean {
    const { client, tool, handed, isContinued, isAnsweredBadly, acceptedAtMs } = request;
    const { requestTimeoutMs, toolTimeoutsMs, memoryBudgetBytes, maxSessionRequests, maxQueuedBytes } = this.#config;
    const isSession = client.kind !== "stateless";
    let dueAtMs = 0;
    switch (code) {
      case "REQUEST_TIMEOUT":
        dueAtMs = acceptedAtMs + (tool === "quick" ? (toolTimeoutsMs?.[0]?.value ?? 0) : requestTimeoutMs);
        return Date.now() >= dueAtMs && !this.#isLost(request, this.#isReadLater(request) ? dueAtMs : Date.now());
      case "UPSTREAM_EXITED":
        return handed.at(-1)?.process.isLost === true;
      case "UPSTREAM_NOT_READY":
      case "UPSTREAM_FAILED":
        return this.troubleAtMs >= acceptedAtMs - 1000;
      case "OVERLOADED":
        // The sidecar's own lines take room too.
        return this.requests.size > 1 || maxQueuedBytes < LARGE_BYTES;
      case "SESSION_OVERLOADED":
        // The log levels of clients without a session are requests too.
        return 2 * this.requests.size >= maxSessionRequests;
      case "TOO_MANY_SERVERS":
      case "TOO_MANY_SESSIONS":
        return client.isAskable || isSession;
      case "REQUEST_CANCELLED":
      case "UNAUTHORIZED":
        return client.hasEnded || (isSession && this.#changesEra);
      case "SESSION_NOT_FOUND":
      case "OTHER_REPLICA":
        client.hasEnded = true;
        return isSession;
      case "SHUTTING_DOWN":
        return this.isDraining;
      case "OUT_OF_MEMORY":
        return memoryBudgetBytes < Number.MAX_SAFE_INTEGER;
      case "UPSTREAM_INVALID_RESPONSE":
      case "UPSTREAM_RESPONSE_TOO_LARGE":
        return isAnsweredBadly;
      case "QUESTION_FAILED":
      case "MISSING_CAPABILITY":
      case "UNKNOWN_RESULT_TYPE":
        return this.#hasAsked(client);
      default:
        return code === "REQUEST_STATE_INVALID" && isContinued;
    }
  }
}
