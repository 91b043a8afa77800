import { Writable } from "node:stream";
import type { startProcess } from "../../../src/process/child.ts";
import { FakeProcess } from "../fake-process.ts";
import { FIRST_PID } from "../in-process-server.ts";
import type { JsonRpcMessage } from "../json-rpc.ts";
import { META, MODERN_VERSION } from "../modern-client.ts";
import type { Changes } from "../changes.ts";

export type ServerDialect = "2025" | "2026" | "dual";

/** The request that a test sends last, so that all before it has arrived. It is not recorded. */
export const MARKER = "prompts/list";
/** Above those of other servers in this process, and of Linux. */
const FIRST_SCRIPTED_PID = 2 * FIRST_PID;
const SERVER_INFO = { name: "scripted", version: "1" };
const CAPABILITIES = {
  tools: { listChanged: true },
  prompts: {},
  resources: { subscribe: true, listChanged: true },
  logging: {},
};
const TOOLS = [{ name: "work", inputSchema: { type: "object" } }];
/** What results of these methods have. */
const CACHE_HINTS = { ttlMs: 0, cacheScope: "private" };
const CACHEABLE = new Set(["server/discover", "tools/list", "resources/read", MARKER]);
/** Requests that are part of a preparation, with their results. */
const ANSWERED: Readonly<Record<string, object>> = {
  [MARKER]: { prompts: [] },
  "tools/list": { tools: TOOLS },
  ping: {},
  "logging/setLevel": {},
  "resources/subscribe": {},
  "resources/unsubscribe": {},
};

let nextPid = FIRST_SCRIPTED_PID;

export interface Received {
  /** The process that got it: 1 is the first that was started. */
  readonly process: number;
  readonly message: JsonRpcMessage;
}

/** The processes of one scripted MCP server. They answer what prepares a cell, and leave the request of the cell to the test. */
export class ScriptedServers {
  readonly dialect: ServerDialect;
  readonly processes: ScriptedServer[] = [];
  /** All lines of all processes in the order of their arrival, without handshakes of the first process. */
  received: Received[] = [];
  answersAll = false;
  readonly refused = new Set<string>();
  /** True while new processes do not answer their first request. */
  isStartHeld = false;
  countBefore = 1;
  /** The process that got the last marker. */
  markedProcess = 1;
  readonly changes: Changes;

  constructor(dialect: ServerDialect, changes: Changes) {
    this.dialect = dialect;
    this.changes = changes;
  }

  readonly start: typeof startProcess = () => {
    const server = new ScriptedServer(this, this.processes.length + 1);
    this.processes.push(server);
    return server;
  };

  wait(accepts: (message: JsonRpcMessage) => boolean, what: string): Promise<Received> {
    return this.changes.until(() => this.received.find(({ message }) => accepts(message)), `the server gets ${what}`);
  }

  /** The process that serves the client. */
  get current(): ScriptedServer {
    return this.process(this.markedProcess);
  }

  /** Ends the process that serves the client. The next one has begun then, but its handshake is held. */
  async crashAndHold(): Promise<void> {
    const { current } = this;
    this.isStartHeld = true;
    current.crash();
    await this.changes.until(() => this.received.find(({ process }) => process > current.number), "a new process");
  }

  release(): void {
    this.isStartHeld = false;
    for (const process of this.processes) process.release();
  }

  process(number: number): ScriptedServer {
    const server = this.processes[number - 1];
    if (server === undefined) throw new Error(`no process ${number}`);
    return server;
  }
}

export class ScriptedServer extends FakeProcess {
  readonly pid = nextPid++;
  readonly number: number;
  readonly stdin: Writable;
  readonly #servers: ScriptedServers;
  readonly #listens = new Map<string | number, Readonly<Record<string, unknown>>>();
  readonly #uris = new Set<string>();
  #held: (() => void) | undefined;
  #rest = "";

  constructor(servers: ScriptedServers, number: number) {
    super();
    this.#servers = servers;
    this.number = number;
    this.stdin = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        const lines = (this.#rest + chunk.toString()).split("\n");
        this.#rest = lines.pop() ?? "";
        for (const line of lines) this.#receive(JSON.parse(line) as JsonRpcMessage);
        done();
      },
      final: (done) => {
        this.end({ exitCode: 0 });
        done();
      },
    });
  }

  signal(name: NodeJS.Signals): boolean {
    this.end({ signal: name });
    return true;
  }

  crash(): void {
    this.end({ exitCode: 1 });
  }

  respond({ id, method = "" }: JsonRpcMessage, result: object): void {
    const hints = CACHEABLE.has(method) ? CACHE_HINTS : {};
    const modern = { resultType: "complete", ...hints, _meta: { [META.serverInfo]: SERVER_INFO } };
    this.send({ id, result: this.era === "2026" ? { ...modern, ...result } : result });
  }

  fail({ id }: JsonRpcMessage, code: number, data?: object): void {
    this.send({ id, error: { code, message: "failed", ...(data === undefined ? {} : { data }) } });
  }

  /** Sends a notification about a change: in 2026 to the subscriptions that have asked for it. */
  announce(method: string, params: object, wanted: string): void {
    if (this.era === "2025") this.send({ method, params });
    for (const [id, filter] of this.#listens)
      if (wanted in filter) this.send({ method, params: { ...params, _meta: { [META.subscriptionId]: id } } });
  }

  /** What the server would announce: parts of filters, and URIs. */
  get subscribed(): string[] {
    const filters = [...this.#listens.values()].flatMap((filter) => Object.entries(filter));
    const parts = filters.flatMap(([name, value]) => (Array.isArray(value) ? (value as string[]) : [name]));
    return [...new Set([...parts, ...this.#uris])].toSorted();
  }

  /** Answers the first request, if it was held. */
  release(): void {
    this.#held?.();
    this.#held = undefined;
  }

  #receive(message: JsonRpcMessage): void {
    const { method = "" } = message;
    if (method === MARKER) this.#servers.markedProcess = this.number;
    else this.#servers.received.push({ process: this.number, message });
    const answer = (): void => this.#answer(message);
    if (this.#servers.isStartHeld && this.era === undefined) this.#held = answer;
    else answer();
    this.#servers.changes.notify();
  }

  #answer(message: JsonRpcMessage): void {
    const { id, method = "", params } = message;
    const { dialect, answersAll, refused } = this.#servers;
    const isOfCell = params?.["cursor"] === "cell";
    if (method === "notifications/cancelled") this.#listens.delete(params?.["requestId"] as string | number);
    if (method === "resources/subscribe" && !refused.has(method)) this.#uris.add(String(params?.["uri"]));
    if (method === "resources/unsubscribe") this.#uris.delete(String(params?.["uri"]));
    if (id === undefined || method === "") return;
    if (refused.has(method)) this.fail(message, -32_002, { uri: params?.["uri"] });
    else if (method === "initialize") this.#initialize(message, dialect);
    else if (method === "server/discover") this.#discover(message, dialect);
    else if (method === "subscriptions/listen") this.#listen(message);
    else if (answersAll || (method in ANSWERED && !isOfCell)) this.respond(message, ANSWERED[method] ?? resultOf(method));
  }

  #initialize(message: JsonRpcMessage, dialect: ServerDialect): void {
    if (dialect === "2026") {
      this.fail(message, -32_022, { supported: [MODERN_VERSION], requested: message.params?.["protocolVersion"] });
      return;
    }
    this.era = "2025";
    const protocolVersion = message.params?.["protocolVersion"];
    this.respond(message, { protocolVersion, capabilities: CAPABILITIES, serverInfo: SERVER_INFO });
  }

  #discover(message: JsonRpcMessage, dialect: ServerDialect): void {
    if (dialect === "2025") {
      this.fail(message, -32_601);
      return;
    }
    this.era = "2026";
    this.respond(message, { supportedVersions: [MODERN_VERSION], capabilities: CAPABILITIES });
  }

  #listen({ id = "", params }: JsonRpcMessage): void {
    const notifications = params?.["notifications"] as Readonly<Record<string, unknown>>;
    this.#listens.set(id, notifications);
    this.send({ method: "notifications/subscriptions/acknowledged", params: { notifications, _meta: { [META.subscriptionId]: id } } });
  }
}

export function resultOf(method: string): object {
  if (method === "tools/list") return { tools: TOOLS };
  if (method === "resources/read") return { contents: [{ uri: "test://one", text: "done" }] };
  return method === "tools/call" ? { content: [{ type: "text", text: "done" }] } : {};
}
