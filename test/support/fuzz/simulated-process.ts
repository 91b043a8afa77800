import { Writable } from "node:stream";
import type { ProcessExit } from "../../../src/process/child.ts";
import { FakeProcess } from "../fake-process.ts";
import { FIRST_PID } from "../in-process-server.ts";
import type { JsonRpcMessage } from "../json-rpc.ts";
import { META, MODERN_VERSION } from "../modern-client.ts";
import type { Random } from "../../../chaos/random.ts";

const SERVER_INFO = { name: "simulated", version: "1" };
const CAPABILITIES = { tools: { listChanged: true }, prompts: {}, resources: { subscribe: true, listChanged: true }, logging: {} };
const TOOLS = ["read", "write", "limited", "quick"].map((name) => {
  return { name, inputSchema: { type: "object" }, annotations: { readOnlyHint: name === "read" } };
});

/** What a process does with its handshake. */
export type Start = "answers" | "waits" | "refuses" | "exits";

export interface ProcessListener {
  onHanded(process: SimulatedProcess, message: JsonRpcMessage): void;
  /** Called with each message of a client that a process reads. */
  onRead(process: SimulatedProcess, message: JsonRpcMessage): void;
  /** Called when it is ready, and when it is lost. */
  onChanged(process: SimulatedProcess): void;
}

/** It answers what the sidecar asks for itself, and leaves the requests of clients to the test. */
export class SimulatedProcess extends FakeProcess {
  readonly number: number;
  readonly pid: number;
  readonly stdin: Writable;
  readonly #listener: ProcessListener;
  /** The revisions that it speaks. */
  readonly #eras: readonly string[];
  readonly #ignoresEnd: boolean;
  start: Start;
  /** Infinity while it runs. */
  endedAtMs = Number.POSITIVE_INFINITY;
  isStalled = false;
  /** True if it may ask its clients. */
  isOffered = false;
  /** The turn of the event loop in which that was refused because several sessions share it. */
  refusedInTurn = Number.POSITIVE_INFINITY;
  /** The requests of clients, by their ids, from the time at which they were handed over. */
  readonly requests = new Map<unknown, JsonRpcMessage>();
  #isLost = false;
  readonly #unread: JsonRpcMessage[] = [];
  /** Called to take the next write, after a stall. */
  #takeMore: (() => void) | undefined;

  constructor(number: number, eras: readonly string[], start: Start, random: Random, listener: ProcessListener) {
    super();
    [this.number, this.pid, this.#eras, this.start, this.#listener] = [number, 3 * FIRST_PID + number, eras, start, listener];
    this.#ignoresEnd = random.isLucky(0.1);
    this.stdin = new Writable({
      decodeStrings: false,
      write: (chunk: string, _encoding, done) => this.#onWrite(chunk, done),
      final: (done) => {
        done();
        this.#lose();
        if (!this.#ignoresEnd) this.end({ exitCode: 0 });
      },
    });
    if (start === "exits") setImmediate(() => this.end());
  }

  /** True when the sidecar no longer uses it. It may not have seen that yet. */
  get isLost(): boolean {
    return this.#isLost || this.stdin.writableEnded;
  }

  signal(name: NodeJS.Signals): boolean {
    if (this.hasEnded) return false;
    this.#lose();
    if (name === "SIGKILL" || !this.#ignoresEnd) this.end({ signal: name });
    return true;
  }

  override end(exit: Partial<ProcessExit> = { exitCode: 1 }): void {
    if (this.hasEnded) return;
    this.endedAtMs = Date.now();
    this.#lose();
    super.end(exit);
  }

  respond(id: unknown, result: object): void {
    const modern = { resultType: "complete", ttlMs: 0, cacheScope: "private", _meta: { [META.serverInfo]: SERVER_INFO } };
    this.send({ id, result: this.era === "2026" ? { ...modern, ...result } : result });
  }

  /** Reads what it was handed, goes on reading, and answers a handshake that waits. */
  resume(): void {
    this.isStalled = false;
    this.start = "answers";
    for (const message of this.#unread.splice(0)) this.#read(message);
    const takeMore = this.#takeMore;
    this.#takeMore = undefined;
    takeMore?.();
  }

  #lose(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    this.#listener.onChanged(this);
  }

  #onWrite(chunk: string, done: () => void): void {
    const messages = chunk.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as JsonRpcMessage]));
    for (const message of messages) this.#listener.onHanded(this, message);
    if (this.isStalled) {
      this.#unread.push(...messages);
      this.#takeMore = done;
      return;
    }
    for (const message of messages) this.#read(message);
    done();
  }

  #read(message: JsonRpcMessage): void {
    const { id, method } = message;
    if (this.hasEnded) return;
    if (method === "initialize" || (method === "server/discover" && this.era === undefined)) this.#shakeHands(message, method);
    else if (id === undefined || method === undefined || this.requests.has(id)) this.#listener.onRead(this, message);
    else this.#answerOwn(message);
  }

  #shakeHands(message: JsonRpcMessage, method: string): void {
    const { id } = message;
    const era = method === "initialize" ? "2025" : "2026";
    if (this.start === "waits") return void this.#unread.push(message);
    if (this.start === "refuses") return this.send({ id, error: { code: -32_603, message: "no key" } });
    if (!this.#eras.includes(era)) {
      const data = { supported: [MODERN_VERSION], requested: "another" };
      return this.send({ id, error: { code: era === "2025" ? -32_022 : -32_601, message: "another revision", data } });
    }
    this.era = era;
    this.isOffered = Object.hasOwn(message.params?.["capabilities"] ?? {}, "roots");
    this.#listener.onChanged(this);
    const revision = era === "2025" ? { protocolVersion: message.params?.["protocolVersion"] } : { supportedVersions: [MODERN_VERSION] };
    this.respond(id, { ...revision, capabilities: CAPABILITIES, serverInfo: SERVER_INFO });
  }

  #answerOwn({ id, method, params }: JsonRpcMessage): void {
    if (method === "server/discover") this.respond(id, { supportedVersions: [MODERN_VERSION], capabilities: CAPABILITIES });
    else if (method !== "subscriptions/listen") this.respond(id, method === "tools/list" ? { tools: TOOLS } : {});
    else {
      const acknowledged = { notifications: params?.["notifications"], _meta: { [META.subscriptionId]: id } };
      this.send({ method: "notifications/subscriptions/acknowledged", params: acknowledged });
    }
  }
}
