import { once } from "node:events";
import {
  type ClientRequest,
  createServer,
  type IncomingMessage,
  request as httpRequest,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { Changes } from "./changes.ts";

/** Time between two attempts to reach a sidecar that does not listen. */
const WAIT_MS = 20;

/** One HTTP request that passed the proxy, or was cut. */
export interface ProxiedRequest {
  readonly httpMethod: string;
  readonly method: string | undefined;
  readonly lastEventId: string | undefined;
  /** Undefined until a response begins. */
  readonly status: number | undefined;
  readonly isStream: boolean;
}

interface Passage extends ProxiedRequest {
  status: number | undefined;
  isStream: boolean;
  readonly response: ServerResponse;
  /** The bytes sent to the client, in latin1: one character is one byte. */
  sent: string;
  isCut: boolean;
  /** The request to the sidecar, undefined before it. */
  onward: ClientRequest | undefined;
}

interface Cut {
  readonly behind: string;
  readonly isHalfOpen: boolean;
  readonly done: PromiseWithResolvers<void>;
}

/** The way in which a connection is cut: for both sides, or unnoticed by the sidecar. */
export interface CutOptions {
  readonly isHalfOpen?: boolean;
}

/**
 * A proxy between clients and a sidecar that records every request. It cuts connections on demand: in the middle of a response, not after
 * some time.
 */
export class CuttingProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #target: string;
  readonly #passages: Passage[] = [];
  readonly #cuts = new Set<Cut>();
  readonly #changes = new Changes();
  readonly #ending = new AbortController();

  readonly #waitsForTarget: boolean;

  private constructor(target: string, waitsForTarget: boolean) {
    this.#target = target;
    this.#waitsForTarget = waitsForTarget;
    this.#server = createServer((request, response) => void this.#pass(request, response));
  }

  /**
   * @param target the origin of the sidecar.
   * @param waitsForTarget true to keep requests until the sidecar listens again, as a balancer does.
   */
  static async start(target: string, { waitsForTarget = false } = {}): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(target, waitsForTarget);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/mcp`;
  }

  get requests(): readonly ProxiedRequest[] {
    return this.#passages;
  }

  get openStreams(): number {
    return this.#passages.filter(({ isStream, isCut, response }) => isStream && !isCut && !response.closed).length;
  }

  /** Cuts the next response right after this text. Resolves when that is done. */
  cutBehind(behind: string, { isHalfOpen = false }: CutOptions = {}): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.#cuts.add({ behind, isHalfOpen, done });
    return done.promise;
  }

  /** Cuts all open requests that the predicate accepts. */
  cut(accepts: (request: ProxiedRequest) => boolean, { isHalfOpen = false }: CutOptions = {}): void {
    for (const passage of this.#passages) {
      if (passage.isCut || passage.response.closed || !accepts(passage)) continue;
      // If half-open, the proxy goes on reading from the sidecar, which notices nothing.
      passage.isCut = isHalfOpen;
      passage.response.destroy();
    }
  }

  /** Waits until `count` requests that the predicate accepts are answered, past or future ones. */
  async waitForRequests(count: number, accepts: (request: ProxiedRequest) => boolean): Promise<void> {
    const isAnswered = (each: ProxiedRequest): boolean => each.status !== undefined && accepts(each);
    await this.#changes.until(() => this.#passages.filter(isAnswered).length >= count || undefined, `${count} requests`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks = (await request.toArray()) as Buffer[];
    const body = Buffer.concat(chunks);
    const passage: Passage = {
      httpMethod: request.method ?? "",
      method: readMethod(body.toString()),
      lastEventId: request.headers["last-event-id"] as string | undefined,
      status: undefined,
      isStream: false,
      response,
      sent: "",
      isCut: false,
      onward: undefined,
    };
    this.#passages.push(passage);
    response.once("close", () => {
      if (!passage.isCut) passage.onward?.destroy();
      this.#changes.notify();
    });
    this.#send(passage, request, body);
  }

  #send(passage: Passage, request: IncomingMessage, body: Buffer): void {
    const { response } = passage;
    const { connection: _connection, host: _host, "transfer-encoding": _encoding, ...headers } = request.headers;
    const onward = httpRequest(`${this.#target}${request.url ?? ""}`, {
      method: passage.httpMethod,
      headers,
      agent: false,
      signal: this.#ending.signal,
    });
    passage.onward = onward;
    onward.on("error", ({ code }: NodeJS.ErrnoException) => {
      if (!this.#waitsForTarget || code !== "ECONNREFUSED" || response.destroyed) response.destroy();
      else setTimeout(() => !response.destroyed && this.#send(passage, request, body), WAIT_MS);
    });
    onward.on("response", (answer) => this.#answer(passage, answer));
    onward.end(body);
  }

  #answer(passage: Passage, answer: IncomingMessage): void {
    const { response } = passage;
    const { connection: _connection, "keep-alive": _keepAlive, "transfer-encoding": _encoding, ...headers } = answer.headers;
    passage.status = answer.statusCode ?? 0;
    passage.isStream = answer.headers["content-type"] === "text/event-stream";
    if (!response.destroyed) response.writeHead(passage.status, headers).flushHeaders();
    this.#changes.notify();
    answer.on("data", (chunk: Buffer) => this.#forward(passage, chunk, answer));
    answer.on("end", () => response.end());
    answer.on("error", () => response.destroy());
  }

  #forward(passage: Passage, chunk: Buffer, answer: IncomingMessage): void {
    if (passage.isCut) return;
    const before = passage.sent.length;
    passage.sent += chunk.toString("latin1");
    for (const cut of this.#cuts) {
      const at = passage.sent.indexOf(cut.behind);
      if (at === -1) continue;
      this.#cuts.delete(cut);
      passage.isCut = true;
      passage.response.write(chunk.subarray(0, Math.max(0, at + cut.behind.length - before)), () => {
        passage.response.destroy();
        if (!cut.isHalfOpen) answer.destroy();
        cut.done.resolve();
      });
      return;
    }
    passage.response.write(chunk);
  }
}

function readMethod(body: string): string | undefined {
  return body.startsWith("{") ? (JSON.parse(body) as { readonly method?: string }).method : undefined;
}
