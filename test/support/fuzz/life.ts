import { createServer, type Server } from "node:http";
import { vi } from "vitest";
import type { Config } from "../../../src/config/load.ts";
import { MemoryBudget } from "../../../src/memory.ts";
import { logOf } from "../../../src/observe/log.ts";
import { ToolPolicy } from "../../../src/policy/tool-policy.ts";
import { ServerProgram } from "../../../src/process/generation.ts";
import { McpServer } from "../../../src/server.ts";
import type { Principal } from "../../../src/session/session.ts";
import { contextOf } from "../context.ts";
import type { JsonRpcMessage } from "../json-rpc.ts";
import { META, MODERN_VERSION, headerValue } from "../modern-client.ts";
import { Exchange } from "./exchange.ts";
import { Client, type ClientRequest, Model, refute } from "./model.ts";
import { Random } from "../../../chaos/random.ts";
import { SimulatedProcess, type Start } from "./simulated-process.ts";

export interface Era {
  /** `any`: each process chooses the revisions that it speaks. */
  readonly server: "2025" | "2026" | "any";
  readonly clients: "plain sessions" | "askable sessions" | "without sessions" | "all";
}

export const ERAS: readonly Era[] = (["2025", "2026", "any"] as const).flatMap((server) =>
  (["plain sessions", "askable sessions", "without sessions", "all"] as const).map((clients) => ({ server, clients })),
);

const CLOCK_STEP_MS = 50;
/** The same while hardly anything happens. */
const LONG_STEP_MS = 500;
/** Longer than any wait of a life. */
const CALM_MS = 15_000;
const MAX_CLIENTS = 6;
const MAX_EVENTS = 5000;
/** The arguments of a tool call that is larger than most. */
const LARGE = 12_000;
/** The error of a question at a process that several sessions share. */
const NOT_AVAILABLE = -32_601;
/** Longer than the longest line. */
const TOO_LONG = "x".repeat(30_000);
const ASKABLE = { elicitation: {}, sampling: {}, roots: {} };

type Meta = Readonly<Record<string, unknown>> | undefined;

function configOf(random: Random): Partial<Config> {
  const size = (min: number, max: number): number => min + random.below(max - min);
  return {
    maxInFlight: size(1, 8),
    maxSessionRequests: size(3, 30),
    maxHeldRequests: size(3, 40),
    maxQueuedBytes: size(2000, 60_000),
    maxLineBytes: 20_000,
    requestTimeoutMs: 1000,
    holdTimeoutMs: size(200, 800),
    streamAfterMs: size(20, 400),
    retry: random.pick(["off", "protocol-reads", "read-only"]),
    toolTimeoutsMs: [{ pattern: "quick", value: 300 }],
    toolConcurrency: [{ pattern: "limited", value: size(1, 3) }],
    argumentCheck: random.isLucky(0.3) ? "enforce" : "off",
    hungTimeouts: size(1, 4),
    pingIntervalMs: random.isLucky(0.3) ? 400 : undefined,
    readyTimeoutMs: 400,
    restartBackoffMs: 10,
    restartMaxMs: 200,
    crashLoopExits: size(2, 6),
    crashLoopPeriodMs: 500,
    maxPrivateServers: size(1, 4),
    maxSessions: size(2, 8),
    sessionIdleTimeoutMs: size(2000, 60_000),
    parkTimeoutMs: 1500,
    maxParkedCalls: size(1, 8),
    authTokenFile: random.isLucky(0.5) ? "tokens" : undefined,
    replayMaxAgeMs: 5000,
    memoryBudgetBytes: random.isLucky(0.2) ? size(60_000, 300_000) : Number.MAX_SAFE_INTEGER,
  };
}

/** One sidecar from its start to its end, with clients and servers that do random things. All follows from the seed. */
export class Life {
  readonly events: { readonly step: number; readonly text: string; readonly tag: number | undefined }[] = [];
  readonly #era: Era;
  readonly #seed: number;
  readonly #drain = new AbortController();
  readonly #context;
  readonly #model: Model;
  readonly #http: Server;
  /** The last two are valid. */
  readonly #principals: { -readonly [Key in keyof Principal]: Principal[Key] }[] = [];
  readonly #processes: SimulatedProcess[] = [];
  readonly #clients: Client[] = [];
  readonly #exchanges = new Set<Exchange>();
  /** The argument checks that have no verdict yet. */
  readonly #checks = new Map<ClientRequest, (problems: readonly string[]) => void>();
  /** How often each step occurs. Some are rare in some lives, so that their neighbours meet undisturbed. */
  readonly #weights: Readonly<Record<string, number>>;
  #server: McpServer | undefined;
  #random: Random;
  #step = 0;
  #nextStart: Start = "answers";
  #isCalm = false;
  #violation: unknown;

  constructor(era: Era, seed: number) {
    [this.#era, this.#seed] = [era, seed];
    const random = (this.#random = new Random(seed));
    const config = configOf(random);
    this.#weights = Object.fromEntries(
      Object.entries(this.#steps).map(([step, [weight]]) => [step, weight * random.pick([0.05, 1, 1, 2])]),
    );
    const memory = new MemoryBudget(config.memoryBudgetBytes ?? 0);
    const log = logOf((level, fields, message) => level !== "debug" && this.#note(`${level}: ${message} ${JSON.stringify(fields)}`));
    this.#context = contextOf(config, { log, memory, draining: this.#drain.signal });
    // While memory is short, answers are read late.
    const isPlain = config.argumentCheck === "off" && config.memoryBudgetBytes === Number.MAX_SAFE_INTEGER;
    const hasOneQueue = era.server !== "any" && era.clients === "plain sessions" && isPlain;
    this.#model = new Model(this.#context.config, era.server === "any", hasOneQueue);
    for (const name of ["one", "two"]) this.#addPrincipal(name);
    this.#http = createServer((request, response) => {
      this.#server?.routes.endpoint?.(request, response, this.#principals[Number(request.headers["x-principal"])]);
    });
  }

  /** Lives these steps, and the end. @throws Violation */
  async run(steps: Iterable<number>): Promise<void> {
    await this.#start();
    for (const step of steps) {
      this.#step = step;
      this.#random = new Random(this.#seed, step);
      await this.#pickStep()();
      await this.#settle(this.#random.pick([0, 0, 1, 3]));
      this.#check();
    }
    this.#step = Number.POSITIVE_INFINITY;
    this.#random = new Random(this.#seed, -1);
    if (this.#random.isLucky(0.7)) await this.#calm();
    await this.#end();
  }

  async #start(): Promise<void> {
    const context = this.#context;
    const policy = new ToolPolicy({ ...context, config: { ...context.config, argumentCheck: "off" } }, undefined);
    type Check = (
      tools: unknown,
      argsText: string | undefined,
      caller: unknown,
      onVerdict: (problems: readonly string[]) => void,
    ) => () => void;
    const check: Check = (_tools, argsText = "", _caller, onVerdict) => this.#onCheck(argsText, onVerdict);
    // The real one runs in a thread.
    if (context.config.argumentCheck !== "off") Object.assign(policy, { argumentCheck: { check } });
    const program = new ServerProgram(context, { command: "simulated", args: [], env: {}, cwd: undefined }, () => this.#startProcess());
    this.#server = new McpServer(context, program, { name: "sidecar", version: "1" }, policy);
    await this.#settle(3);
  }

  #pickStep(): () => Promise<void> | void {
    let rest = this.#random.fraction() * Object.values(this.#weights).reduce((sum, weight) => sum + weight, 0);
    const [, step] = Object.entries(this.#steps).find(([name]) => (rest -= this.#weights[name] ?? 0) < 0) ?? [];
    return step?.[1] ?? (() => undefined);
  }

  /** What may happen, and how often. */
  readonly #steps: Readonly<Record<string, readonly [weight: number, act: () => Promise<void> | void]>> = {
    open: [4, () => this.#openClient()],
    request: [22, () => this.#request()],
    burst: [5, () => Array.from({ length: this.#random.below(8) }).forEach(() => this.#request())],
    batch: [3, () => this.#batch()],
    "other request": [2, () => this.#requestOther()],
    notification: [2, () => this.#notify("custom")],
    cancel: [5, () => this.#cancel()],
    disconnect: [4, () => this.#disconnect()],
    resume: [3, () => this.#resume()],
    listen: [2, () => void this.#get(this.#pickClient(({ sessionId }) => sessionId !== undefined))],
    "end session": [1, () => this.#endSession()],
    "remove token": [0.2, () => this.#removeToken()],
    reply: [6, () => this.#reply()],
    continue: [6, () => this.#continue()],
    "check arguments": [8, () => this.#giveVerdict()],
    answer: [30, () => this.#withRequest((process, id) => this.#answer(process, id))],
    "answer all": [3, () => this.#withRequest((process) => [...process.requests.keys()].forEach((id) => this.#answer(process, id)))],
    "answer twice": [2, () => this.#withRequest((process, id) => this.#answer(process, id, true))],
    "answer no request": [2, () => this.#withProcess((process) => this.#answerNothing(process))],
    "answer without result": [1, () => this.#withRequest((process, id, request) => this.#answerBadly(process, id, request, ""))],
    "answer too much": [0.5, () => this.#withRequest((...request) => this.#answerBadly(...request, `,"result":{"x":"${TOO_LONG}"}`))],
    progress: [4, () => this.#withRequest((...request) => this.#progress(...request))],
    log: [
      3,
      () => this.#withRequest((process, _id, { tag }) => process.send(notification("message", { level: "error", data: `about-${tag}` }))),
    ],
    change: [
      1,
      () => this.#withProcess((process) => process.send(notification(`${this.#random.pick(["tools", "resources"])}/list_changed`))),
    ],
    update: [1, () => this.#withProcess((process) => process.send(notification("resources/updated", { uri: "test://1" })))],
    ask: [5, () => this.#withRequest((...request) => this.#ask(...request))],
    "ask alone": [
      1,
      () =>
        this.#withProcess(
          (process) => this.#askAlone(process),
          ({ isStalled, era }) => !isStalled && era === "2025",
        ),
    ],
    noise: [1, () => this.#withProcess((process) => process.print(this.#random.pick(["noise", "{", '{"jsonrpc":"2.0"}', "[]"])))],
    crash: [1.2, () => this.#withProcess((process) => process.end())],
    stall: [1, () => this.#withProcess((process) => (process.isStalled = true))],
    "resume server": [
      5,
      () =>
        this.#withProcess(
          (process) => process.resume(),
          ({ isStalled, start }) => isStalled || start === "waits",
        ),
    ],
    "start badly": [0.6, () => void (this.#nextStart = this.#random.pick<Start>(["waits", "waits", "refuses", "exits"]))],
    millisecond: [10, () => this.#pass(1 + this.#random.below(5))],
    while: [6, () => this.#pass(10 + this.#random.below(200))],
    long: [1.5, () => this.#pass(300 + this.#random.below(2000))],
    minute: [0.1, () => this.#pass(70_000, LONG_STEP_MS)],
  };

  async #settle(turns: number): Promise<void> {
    for (let turn = 0; turn < turns; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
      this.#model.turn++;
    }
  }

  /** Lets time pass in steps. Timers within one do not see each other's promises. */
  async #pass(ms: number, stepMs = CLOCK_STEP_MS): Promise<void> {
    for (let restMs = ms; restMs > 0; restMs -= stepMs) {
      vi.advanceTimersByTime(Math.min(restMs, stepMs));
      await this.#settle(ms <= stepMs ? 1 : 4);
      this.#check(2 * stepMs);
    }
  }

  /** Keeps the first violation: this runs within the sidecar, which would handle it. */
  #observe(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#violation ??= error;
    }
  }

  #check(slackMs = 2 * CLOCK_STEP_MS): void {
    this.#observe(() => {
      refute(this.#context.counters.defects > 0, "a defect");
      this.#noteTrouble();
      this.#model.checkTimes(Date.now(), slackMs);
      for (const process of this.#processes) {
        const requests = [...process.requests.keys()].map((id) => this.#requestOf(process, id));
        if (!process.hasEnded)
          this.#model.checkSlots(
            process,
            requests.filter((each) => each !== undefined),
          );
      }
    });
    if (this.#violation !== undefined) throw this.#violation as Error;
  }

  #onTrouble(): void {
    this.#model.troubleAtMs = Date.now();
  }

  #noteTrouble(): void {
    const isReady = this.#server?.status().state === "ready";
    if (!isReady || this.#processes.some(({ hasEnded, era, isLost }) => !hasEnded && (era === undefined || isLost))) this.#onTrouble();
  }

  #note(text: string, tag?: number): void {
    this.events.push({ step: this.#step, text: `${Date.now()} ms: ${text}`, tag });
    if (this.events.length > 2 * MAX_EVENTS) this.events.splice(0, MAX_EVENTS);
  }

  #startProcess(): SimulatedProcess {
    const number = this.#processes.length + 1;
    const random = new Random(this.#seed, -2, number);
    const { server } = this.#era;
    const eras = server === "any" ? random.pick([["2025"], ["2026"], ["2025", "2026"]]) : [server];
    const process = new SimulatedProcess(number, eras, this.#nextStart, random, {
      onHanded: (...handed) => this.#observe(() => this.#onHanded(...handed)),
      onRead: (...read) => this.#observe(() => this.#onRead(...read)),
      onChanged: ({ isLost, era }) => {
        this.#note(`process ${number} ${isLost ? "is lost" : `speaks ${era}`}`);
        // Before its response to initialize.
        if (!isLost && era === "2025" && random.isLucky(0.1)) this.#askAlone(process);
        this.#onTrouble();
        this.#model.onServerChanged();
      },
    });
    this.#note(`process ${number} starts, and ${this.#nextStart}`);
    this.#nextStart = "answers";
    this.#processes.push(process);
    this.#onTrouble();
    return process;
  }

  #onHanded(process: SimulatedProcess, message: JsonRpcMessage): void {
    const { id, method, params } = message;
    const text = JSON.stringify(message);
    const request = this.#requestIn(text);
    this.#note(`process ${process.number} is handed ${text}`, request?.tag);
    if (method === "notifications/cancelled") process.requests.delete(params?.["requestId"]);
    if (request === undefined || id === undefined || method === undefined) return;
    this.#model.onHanded(request, process, id);
    process.requests.set(id, message);
  }

  #onRead(process: SimulatedProcess, message: JsonRpcMessage): void {
    const { id, method } = message;
    if (method !== undefined) return id !== undefined && this.#isCalm ? this.#answer(process, id) : undefined;
    if (message.error?.code === NOT_AVAILABLE && this.#hasSessionsOnly && process.isOffered) process.refusedInTurn = this.#model.turn;
    const alone = this.#model.questionsAlone.get(String(id));
    if (alone !== undefined) {
      refute(process !== alone.process || ++alone.responses > 1, "a question is answered twice, or by another process");
      return;
    }
    const question = this.#model.questions.get(String(id));
    if (question === undefined) return;
    const { tag, client } = question.request;
    refute(process !== question.process, "the answer to a question reaches another process", tag);
    refute(++question.responses > 1, "a question is answered twice", tag);
    const from = /from-(\d+)/.exec(JSON.stringify(message))?.[1];
    refute(from !== undefined && Number(from) !== client.principal, "another principal answers a question", tag);
  }

  #requestIn(text: string): ClientRequest | undefined {
    return this.#model.requests.get(Number(/\btag-(\d+)\b/.exec(text)?.[1]));
  }

  #requestOf(process: SimulatedProcess, id: unknown): ClientRequest | undefined {
    return this.#requestIn(JSON.stringify(process.requests.get(id) ?? ""));
  }

  #withRequest(act: (process: SimulatedProcess, id: unknown, request: ClientRequest) => void): void {
    const process = this.#random.pick(
      this.#processes.filter(({ hasEnded, isStalled, requests }) => !hasEnded && !isStalled && requests.size > 0),
    );
    const id = this.#random.pick(process?.requests.keys() ?? []);
    const request = process && this.#requestOf(process, id);
    if (process !== undefined && request !== undefined) act(process, id, request);
    if (process !== undefined) this.#model.onServerChanged();
  }

  #withProcess(act: (process: SimulatedProcess) => void, accepts: (process: SimulatedProcess) => boolean = () => true): void {
    const process = this.#random.pick(this.#processes.filter((each) => !each.hasEnded && accepts(each)));
    if (process !== undefined) act(process);
    this.#model.onServerChanged();
  }

  #newAnswer(request: ClientRequest | undefined, kind: "result" | "error" | "stray"): string {
    const { answers } = this.#model;
    answers.set(answers.size, { request, kind });
    return `answer-${answers.size - 1}`;
  }

  /** Takes a request from its process. @param how what the model should know. */
  #take(process: SimulatedProcess, id: unknown, how: "isAnswered" | "isAsked"): void {
    const handed = this.#requestOf(process, id)?.handed.find((each) => each.process === process && each.wireId === id);
    process.requests.delete(id);
    // The output of a server that the sidecar has given up is not read.
    if (handed !== undefined) handed[how] = !process.isLost;
  }

  #answer(process: SimulatedProcess, id: unknown, isTwice = false): void {
    const request = this.#requestOf(process, id);
    const { method = "" } = process.requests.get(id) ?? {};
    if (request === undefined) return;
    this.#take(process, id, "isAnswered");
    const kind = !this.#isCalm && this.#random.isLucky(0.15) ? ("error" as const) : ("result" as const);
    for (const each of isTwice ? [kind, "stray" as const] : [kind]) {
      const text = this.#newAnswer(request, each);
      this.#note(`process ${process.number} answers ${request.tag}: ${text}`, request.tag);
      if (kind === "error") process.send({ id, error: { code: -32_050, message: text } });
      else process.respond(id, resultOf(method, text));
    }
  }

  #answerBadly(process: SimulatedProcess, id: unknown, request: ClientRequest, rest: string): void {
    this.#note(`process ${process.number} answers ${request.tag} badly`, request.tag);
    request.isAnsweredBadly = true;
    this.#take(process, id, "isAnswered");
    process.print(`{"jsonrpc":"2.0","id":${JSON.stringify(id)}${rest}}`);
  }

  #answerNothing(process: SimulatedProcess): void {
    process.respond(this.#random.pick([1, 99_999_999, "text"]), resultOf("", this.#newAnswer(undefined, "stray")));
  }

  #progress(process: SimulatedProcess, id: unknown, request: ClientRequest): void {
    const { progressToken } = (process.requests.get(id)?.params?.["_meta"] as Meta) ?? {};
    request.isRenewed = true;
    process.send(notification("progress", { progressToken, progress: 1, message: `about-${request.tag}` }));
  }

  /** A server asks the client of a tool call. */
  #ask(process: SimulatedProcess, id: unknown, request: ClientRequest): void {
    const { tag, method } = request;
    if (method !== "tools/call") return;
    this.#note(`process ${process.number} asks about ${tag}`, tag);
    request.hasAsked = true;
    this.#model.askedAtMs = Date.now();
    const params = { message: `about-${tag}`, requestedSchema: { type: "object", properties: {} } };
    if (process.era === "2026") {
      const inputRequests = this.#random.isLucky(0.8) ? { key: { method: "elicitation/create", params } } : undefined;
      this.#take(process, id, "isAsked");
      return process.respond(id, { resultType: "input_required", inputRequests, requestState: `state-${tag}` });
    }
    const questionId = `q-${this.#model.questions.size}`;
    this.#model.questions.set(questionId, { request, process, responses: 0 });
    process.send({ id: questionId, method: "elicitation/create", params });
  }

  /** A server asks without a request of a client. */
  #askAlone(process: SimulatedProcess): void {
    if (!this.#hasSessionsOnly) return;
    const nonce = `alone-${this.#model.questionsAlone.size}`;
    this.#note(`process ${process.number} asks ${nonce}`);
    this.#model.askedAtMs = Date.now();
    this.#model.questionsAlone.set(nonce, { process, client: undefined, responses: 0 });
    process.send({ id: nonce, method: "roots/list", params: { nonce } });
  }

  get #hasSessionsOnly(): boolean {
    return /^(plain|askable) sessions$/.test(this.#era.clients);
  }

  #onCheck(argsText: string, onVerdict: (problems: readonly string[]) => void): () => void {
    const request = this.#requestIn(argsText);
    if (request === undefined || this.#isCalm) onVerdict([]);
    else this.#checks.set(request, onVerdict);
    return () => request && this.#checks.delete(request);
  }

  #giveVerdict(): void {
    const [request, onVerdict] = this.#random.pick(this.#checks) ?? [];
    if (request === undefined) return;
    this.#checks.delete(request);
    this.#note(`the arguments of ${request.tag} are checked`, request.tag);
    onVerdict?.(this.#random.isLucky(0.2) ? [this.#newAnswer(request, "result")] : []);
  }

  #addPrincipal(name: string): void {
    this.#principals.push({ isRevoked: false, name, fingerprint: name, sessionKey: undefined });
  }

  #exchange(client: Client, method: string, headers: Readonly<Record<string, string | undefined>>, body = ""): Exchange {
    const { principal, sessionId } = client;
    const all = { "X-Principal": String(principal), "Mcp-Session-Id": sessionId, ...headers };
    const onMessage = (text: string, from: Exchange): void => this.#observe(() => this.#onMessage(client, text, from));
    const onOver = (over: Exchange): void => this.#observe(() => this.#onOver(client, over));
    const exchange = new Exchange(this.#http, method, all, body, `10.0.0.${principal}`, onMessage, onOver);
    this.#exchanges.add(exchange);
    return exchange;
  }

  #post(client: Client, message: JsonRpcMessage | JsonRpcMessage[], acceptsStream = true): Exchange {
    const headers = {
      "Content-Type": "application/json",
      Accept: acceptsStream ? "application/json, text/event-stream" : "application/json",
    };
    const { method, params } = Array.isArray(message) ? {} : message;
    const name = params?.["name"] ?? params?.["uri"];
    const repeated = {
      "MCP-Protocol-Version": MODERN_VERSION,
      "Mcp-Method": method,
      "Mcp-Name": typeof name === "string" ? headerValue(name) : undefined,
    };
    return this.#exchange(client, "POST", client.kind === "stateless" ? { ...headers, ...repeated } : headers, JSON.stringify(message));
  }

  #get(client: Client | undefined, lastEventId?: string): Exchange | undefined {
    return client && this.#exchange(client, "GET", { Accept: "text/event-stream", "Last-Event-ID": lastEventId });
  }

  #onMessage(client: Client, text: string, exchange: Exchange): void {
    const message = JSON.parse(text) as JsonRpcMessage;
    const { id, method, params } = message;
    this.#model.onText(client, text);
    if (method === undefined) return this.#onResponse(client, message, text, exchange);
    const tag = Number(/about-(\d+)\b/.exec(text)?.[1]);
    this.#note(`${client.name} gets ${text}`, tag);
    if (id !== undefined) client.questions.push({ id, text });
    this.#model.onQuestionAlone(client, String(params?.["nonce"]));
    const about = this.#model.requests.get(tag);
    if (method !== "notifications/progress" || about === undefined) return;
    refute(about.client !== client, "progress reaches another client", tag);
    refute(params?.["progressToken"] !== `token-${tag}`, "progress has another token", tag);
    refute(about.state !== "open", "progress comes after the response", tag);
    about.shownBy = about.handed.at(-1)?.process;
  }

  #onResponse(client: Client, message: JsonRpcMessage, text: string, exchange: Exchange): void {
    this.#noteTrouble();
    // An error without an id is the response to all of a batch.
    const hasId = typeof message.id === "number";
    const answered = [...this.#model.requests.values()].filter((each) => each.exchange === exchange && (!hasId || each.id === message.id));
    refute(answered.length === 0 && hasId, `${client.name} gets a response to no request: ${text}`);
    for (const request of answered) {
      this.#note(`${client.name} gets ${text}`, request.tag);
      this.#model.onResponse(request, message, text);
    }
    const sessionId = exchange.header("mcp-session-id");
    if (sessionId === undefined) return;
    client.sessionId = sessionId;
    this.#clients.push(client);
    this.#post(client, notification("initialized"));
  }

  #onOver(client: Client, exchange: Exchange): void {
    this.#exchanges.delete(exchange);
    if (exchange.status === 404 || exchange.status === 401) client.hasEnded = true;
    for (const request of this.#model.open) if (request.exchange === exchange) this.#model.onNoResponse(request);
  }

  #pickClient(accepts: (client: Client) => boolean = () => true): Client | undefined {
    return this.#random.pick(this.#clients.filter((client) => !client.hasEnded && accepts(client)));
  }

  #openClient(): void {
    const { clients } = this.#era;
    const random = this.#random;
    const isStateless = clients === "without sessions" || (clients === "all" && random.isLucky(0.4));
    const isAskable = clients !== "plain sessions" && random.isLucky(clients === "askable sessions" ? 0.8 : 0.5);
    const kind = isStateless ? "stateless" : random.isLucky(0.25) ? "batches" : "session";
    if (this.#clients.filter(({ hasEnded }) => !hasEnded).length > MAX_CLIENTS) return;
    const name = `client ${this.#clients.length + 1} (${kind}${isAskable ? ", askable" : ""})`;
    this.#begin(new Client(name, this.#principals.length - 1 - random.below(2), kind, isAskable));
  }

  #begin(client: Client): void {
    if (client.kind === "stateless") return void this.#clients.push(client);
    const protocolVersion = client.kind === "batches" ? "2025-03-26" : "2025-11-25";
    const capabilities = client.isAskable ? ASKABLE : {};
    this.#send(this.#model.add(client, "initialize", undefined, true), {
      protocolVersion,
      capabilities,
      clientInfo: { name: client.name, version: "1" },
    });
  }

  #send(request: ClientRequest, params: object): void {
    const message = this.#message(request, params);
    this.#note(`${request.client.name} sends ${JSON.stringify(message)}`, request.tag);
    request.exchange = this.#post(request.client, message, this.#random.isLucky(0.8));
  }

  #message({ client, id, tag, method }: ClientRequest, params: object): JsonRpcMessage {
    const token = this.#random.isLucky(0.6) ? { progressToken: `token-${tag}` } : {};
    const level = this.#random.isLucky(0.3) ? { [META.logLevel]: "info" } : {};
    const own = {
      [META.protocolVersion]: MODERN_VERSION,
      [META.clientCapabilities]: client.isAskable ? { elicitation: {} } : {},
      ...level,
    };
    return messageOf(method, { ...params, _meta: client.kind === "stateless" ? { ...own, ...token } : token }, id);
  }

  #compose(client: Client): [ClientRequest, object] {
    const random = this.#random;
    const method = random.pick(["tools/call", "tools/call", "tools/call", "tools/list", "resources/read", "prompts/get", "custom/any"]);
    const tool = method === "tools/call" ? random.pick(["read", "write", "limited", "limited", "quick"]) : undefined;
    const request = this.#model.add(client, method, tool);
    const tag = `tag-${request.tag}`;
    if (method === "resources/read") return [request, { uri: `test:${tag}` }];
    if (method === "prompts/get") return [request, { name: tag }];
    if (method !== "tools/call") return [request, { cursor: tag }];
    return [request, { name: tool, arguments: { tag, pad: random.isLucky(0.05) ? "x".repeat(random.below(LARGE)) : undefined } }];
  }

  #request(): void {
    const client = this.#pickClient();
    if (client === undefined) this.#openClient();
    else this.#send(...this.#compose(client));
  }

  #batch(): void {
    const client = this.#pickClient(({ kind }) => kind === "batches");
    if (client === undefined) return;
    const requests = Array.from({ length: 1 + this.#random.below(4) }, () => this.#compose(client));
    for (const [{ tag }] of requests) this.#note(`${client.name} sends it in a batch`, tag);
    const messages = requests.map(([request, params]) => this.#message(request, params));
    const exchange = this.#post(client, messages, this.#random.isLucky(0.5));
    for (const [request] of requests) Object.assign(request, { exchange, isRenewed: true });
  }

  #requestOther(): void {
    const client = this.#pickClient();
    if (client === undefined) return;
    const uri = `test://${this.#random.below(3)}`;
    const filter = { notifications: { toolsListChanged: true, resourceSubscriptions: [uri] } };
    const method = this.#random.pick(
      client.kind === "stateless"
        ? ["server/discover", "subscriptions/listen"]
        : ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"],
    );
    const request = this.#model.add(client, method, undefined, true);
    request.isRenewed = true;
    this.#send(request, method === "subscriptions/listen" ? filter : { uri, level: "debug" });
  }

  #notify(name: string, params: object = {}, client = this.#pickClient(({ kind }) => kind !== "stateless")): void {
    if (client !== undefined) this.#post(client, notification(name, params));
  }

  #cancel(): void {
    const request = this.#random.pick([...this.#model.open].filter(({ client }) => client.sessionId !== undefined && !client.hasEnded));
    if (request === undefined) return;
    request.isCancelled = true;
    this.#note(`${request.client.name} cancels ${request.tag}`, request.tag);
    this.#notify("cancelled", { requestId: request.id, reason: "no need" }, request.client);
  }

  #disconnect(): void {
    const exchange = this.#random.pick(this.#exchanges);
    if (exchange === undefined) return;
    exchange.close();
    this.#exchanges.delete(exchange);
    for (const request of this.#model.open) {
      if (request.exchange !== exchange) continue;
      this.#note(`${request.client.name} disconnects`, request.tag);
      request.goneInTurn = this.#model.turn;
      // It may be resumed.
      if (exchange.lastEventId === "" || request.client.sessionId === undefined) this.#model.end(request);
    }
  }

  #resume(): void {
    const closed = [...this.#model.open].filter(({ exchange, client }) => exchange?.isClosedByClient === true && !client.hasEnded);
    const { client, tag, exchange: former } = this.#random.pick(closed) ?? {};
    const exchange = this.#get(client, former?.lastEventId);
    if (former === undefined || exchange === undefined) return;
    this.#note(`${client?.name} resumes from ${former.lastEventId}`, tag);
    exchange.lastEventId = former.lastEventId;
    for (const each of this.#model.open) if (each.exchange === former) Object.assign(each, { exchange, isRenewed: true, isResumed: true });
  }

  #endSession(): void {
    const client = this.#pickClient(({ kind }) => kind !== "stateless");
    if (client === undefined) return;
    client.hasEnded = true;
    this.#note(`${client.name} ends its session`);
    this.#exchange(client, "DELETE", {});
  }

  #removeToken(): void {
    const number = this.#principals.length - 2;
    const principal = this.#principals[number];
    if (principal === undefined) return;
    this.#note(`the token ${principal.name} is removed`);
    principal.isRevoked = true;
    const clients = [...this.#clients, ...[...this.#model.open].map(({ client }) => client)];
    for (const client of clients) if (client.principal === number) client.hasEnded = true;
    this.#server?.endAllOf(principal);
    this.#addPrincipal("another");
  }

  #reply(): void {
    const client = this.#pickClient(({ questions }) => questions.length > 0);
    const question = client?.questions.splice(this.#random.below(client.questions.length), 1)[0];
    if (client === undefined || question === undefined) return;
    this.#note(`${client.name} answers ${question.text}`, Number(/about-(\d+)\b/.exec(question.text)?.[1]));
    const accepted = { result: { action: "accept", content: { from: `from-${client.principal}` } } };
    const answer = this.#random.pick<object>([accepted, { result: { action: "decline" } }, { error: { code: -1, message: "no" } }]);
    this.#post(client, { jsonrpc: "2.0", id: question.id, ...answer } as JsonRpcMessage);
  }

  /** Continues a request whose result has asked the client. Sometimes it is sent twice. */
  #continue(): void {
    const request = this.#random.pick(this.#model.requests.values().filter(({ state, client }) => state === "asked" && !client.hasEnded));
    if (request === undefined) return;
    const { client, tool, tag, asked } = request;
    const answer = { action: this.#random.pick(["accept", "decline"]), content: { from: `from-${client.principal}` } };
    const keys = this.#random.isLucky(0.85) ? Object.keys(asked?.["inputRequests"] ?? {}) : [];
    const inputResponses = Object.fromEntries(keys.map((key) => [key, answer]));
    this.#model.continue(request);
    const params = { name: tool, arguments: { tag: `tag-${tag}` }, requestState: asked?.["requestState"], inputResponses };
    this.#send(request, params);
    // A state of the sidecar is valid once. Either request may be the first.
    if (request.handed.at(-1)?.process.era !== "2025" || !this.#random.isLucky(0.1)) return;
    const second = this.#model.add(client, "tools/call", tool, true);
    this.#send(second, params);
  }

  /** Servers answer, and clients ask no more. Then nothing waits, and nothing is held. */
  async #calm(): Promise<void> {
    this.#note("calm");
    this.#isCalm = true;
    this.#nextStart = "answers";
    const checks = [...this.#checks.values()];
    this.#checks.clear();
    for (const onVerdict of checks) onVerdict([]);
    this.#answerAll();
    await this.#pass(CALM_MS, LONG_STEP_MS);
    for (const { tag, exchange, method } of this.#model.open)
      refute(exchange?.isOver === false && method !== "subscriptions/listen", "a request never ends", tag);
    const { shared, modern, private: ofClients, asking } = this.#server?.status().lanes ?? {};
    for (const { requestsInFlight, waiting, queuedBytes } of [shared, modern, ofClients, ...Object.values(asking ?? {})].flatMap(
      (each) => each ?? [],
    ))
      refute(requestsInFlight + waiting + queuedBytes > 0, `something waits for ever: ${JSON.stringify(this.#server?.status().lanes)}`);
    for (const [id, { request, process, responses }] of this.#model.questions)
      refute(
        request.client.kind === "stateless" && responses === 0 && !process.isLost,
        `the question ${id} is never answered`,
        request.tag,
      );
    for (const [nonce, { process, responses }] of this.#model.questionsAlone)
      refute(responses === 0 && !process.isLost, `the question ${nonce} is never answered`);
    await this.#fill();
    await this.#leave(CALM_MS);
  }

  #answerAll(): void {
    for (const process of this.#processes) {
      process.resume();
      for (const id of process.requests.keys()) this.#answer(process, id);
    }
  }

  /** All slots are free: as many requests as there are slots are sent at once. */
  async #fill(): Promise<void> {
    const { maxInFlight, maxSessionRequests, toolConcurrency } = this.#context.config;
    this.#addPrincipal("last");
    const kind = this.#era.clients === "without sessions" ? "stateless" : "session";
    const client = new Client("last client", this.#principals.length - 1, kind, false);
    this.#begin(client);
    // The first request without a session finds out the era of the server.
    if (kind === "stateless") this.#send(this.#model.add(client, "server/discover", undefined, true), {});
    await this.#pass(CALM_MS, LONG_STEP_MS);
    if (!this.#clients.includes(client)) return;
    for (const [tool, limit] of [
      ["write", maxInFlight],
      ["limited", toolConcurrency?.[0]?.value ?? 1],
    ] as const) {
      this.#isCalm = false;
      // The log level of a client without a session is a request too.
      const requests = Array.from({ length: Math.min(limit, maxInFlight, maxSessionRequests - 1) }, () =>
        this.#model.add(client, "tools/call", tool),
      );
      for (const request of requests) this.#send(request, { name: tool, arguments: { tag: `tag-${request.tag}` } });
      await this.#settle(6);
      while (this.#checks.size > 0) this.#giveVerdict();
      await this.#settle(6);
      const missing = requests.find(({ state, handed }) => state === "open" && handed.length === 0);
      refute(missing !== undefined, `a slot of ${tool} is held`, missing?.tag);
      this.#isCalm = true;
      this.#answerAll();
      await this.#settle(6);
      this.#check();
    }
  }

  async #leave(ms: number): Promise<void> {
    for (const exchange of this.#exchanges) exchange.close();
    for (const principal of this.#principals) this.#server?.endAllOf(principal);
    await this.#pass(ms, LONG_STEP_MS);
    await this.#settle(6);
    refute(this.#context.memory.usedBytes > 0, `memory is held: ${JSON.stringify(this.#context.memory.status)}`);
  }

  async #end(): Promise<void> {
    this.#note("the drain begins");
    this.#model.isDraining = true;
    this.#drain.abort();
    const drained = this.#server?.drain().then(() => undefined);
    const turns = this.#random.below(60);
    const stopped = Promise.race([drained, this.#settle(turns)]).then(() => this.#server?.stop());
    const state = { hasStopped: false };
    stopped.then(() => (state.hasStopped = true)).catch((error: unknown) => (this.#violation ??= error));
    for (let passedMs = 0; passedMs < CALM_MS && !state.hasStopped; passedMs += CLOCK_STEP_MS) await this.#pass(CLOCK_STEP_MS);
    refute(!state.hasStopped, "the sidecar does not stop");
    for (const { number, hasEnded } of this.#processes) refute(!hasEnded, `process ${number} still runs`);
    await this.#leave(0);
    this.#check();
    for (const { tag, exchange } of this.#model.open) refute(exchange?.isClosedByClient === false, "a request never ends", tag);
    const { requests, answers, byKey } = this.#context.counters;
    const ended = [...Object.values(answers), ...byKey.failures.values()].reduce((sum, count) => sum + count, 0);
    refute(requests.accepted !== ended, `${requests.accepted} requests were accepted, and ${ended} have ended`);
    const counts = new Map<string, number>(Object.entries(answers));
    for (const [code, count] of [...byKey.failures, ...byKey.refusals]) counts.set(code, (counts.get(code) ?? 0) + count);
    if (this.#era.clients.endsWith(" sessions") && !this.#era.clients.startsWith("without")) this.#model.checkCounts(counts);
    // Those of clients and servers still fire.
    await this.#pass(1000, LONG_STEP_MS);
    refute(vi.getTimerCount() > 0, `${vi.getTimerCount()} timers are left`);
  }
}

function notification(name: string, params: object = {}): JsonRpcMessage {
  return messageOf(`notifications/${name}`, params);
}

function messageOf(method: string, params: object, id?: number): JsonRpcMessage {
  return { jsonrpc: "2.0", ...(id === undefined ? {} : { id }), method, params: params as JsonRpcMessage["params"] & object };
}

function resultOf(method: string, text: string): object {
  if (method === "tools/list") return { tools: [], nextCursor: text };
  if (method === "resources/read") return { contents: [{ uri: "test://any", text }] };
  if (method === "prompts/get") return { messages: [{ role: "user", content: { type: "text", text } }] };
  return { content: [{ type: "text", text }] };
}
