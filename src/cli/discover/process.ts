import { maskCommand } from "../../config/describe.ts";
import { Counters } from "../../observability/counters.ts";
import type { JsonObject, Message, ResponseMessage } from "../../protocol/message.ts";
import { outgoing } from "../../protocol/outgoing.ts";
import { PendingRequests } from "../../lane/calls/pending-requests.ts";
import { NEWEST_LEGACY_PROTOCOL_VERSION, negotiateProtocolVersion } from "../../protocol/versions.ts";
import { readCapabilities } from "../../lane/handshake/capabilities.ts";
import { answerPing, refuseRequest } from "../../lane/routing/refused-requests.ts";
import type { Log } from "../../observability/log.ts";
import type { Secrets } from "../../observability/redact.ts";
import { type ChildCommand, STOP_GRACES } from "../../upstream/child-process.ts";
import { type ClientInfo, HandshakeError, SidecarHandshake } from "../../upstream/handshake.ts";
import { Generation } from "../../upstream/generation.ts";
import { describeExit } from "../../upstream/exit-cause.ts";
import { DiscoverError, endedError, type Listing, type ListingBounds, readAnswer } from "./listing.ts";
import { MAX_LIST_BYTES, readToolPages, type ToolsPage } from "./pages.ts";

/** The limit of bytes queued for a server that does not read. Above it, the server's requests are not answered. */
const MAX_QUEUED_BYTES = 1024 * 1024;

export interface ProcessListingOptions extends ListingBounds {
  readonly command: ChildCommand;
  readonly clientInfo: ClientInfo;
  readonly secrets: Secrets;
  /** Kills all processes at once. */
  readonly kill: AbortSignal;
  /** Called when the server runs, with a function that returns the last line of its stderr. */
  readonly onStart: (stderrLastLine: () => string | undefined) => void;
}

/**
 * Starts the server with the sidecar's own handshake and lists its tools. Always terminates its process group.
 *
 * @throws DiscoverError with the tail of the server's stderr.
 */
export async function listFromProcess(options: ProcessListingOptions): Promise<Listing> {
  const server = new ListedServer(options);
  try {
    return await server.list();
  } catch (error) {
    await server.stop();
    throw error instanceof DiscoverError || error instanceof HandshakeError ? server.explain(error) : error;
  } finally {
    await server.stop();
  }
}

class ListedServer {
  readonly #options: ProcessListingOptions;
  readonly #server: Generation;
  readonly #counters = new Counters();
  readonly #pending = new PendingRequests<(answer: ResponseMessage) => void>();
  /** Rejects when the listing fails. */
  readonly #failed = Promise.withResolvers<never>();
  #method = "initialize";

  constructor(options: ProcessListingOptions) {
    this.#options = options;
    const { command, clientInfo, secrets, kill, timeoutMs } = options;
    this.#server = new Generation(
      {
        command,
        limits: { maxLineBytes: MAX_LIST_BYTES, ...STOP_GRACES },
        handshake: new SidecarHandshake(clientInfo),
        readyTimeoutMs: timeoutMs,
        number: 1,
        counters: this.#counters,
        log: SILENT,
        secrets,
        nowMs: () => performance.now(),
      },
      {
        onMessage: (message) => this.#onMessage(message),
        onRefused: () => undefined,
        onOverlongLine: ({ bytes, hasMethod }) => {
          if (!hasMethod) this.#fail(`its response to ${this.#method} has ${bytes} bytes, more than ${MAX_LIST_BYTES}`);
        },
      },
    );
    kill.addEventListener("abort", () => this.#server.kill());
    options.onStart(() => this.#server.stderrTail.at(-1));
  }

  /** Adds the server's other output to an error. To be called when the server has exited. */
  explain({ message }: Error): DiscoverError {
    const { noiseLines } = this.#counters.dropped;
    const noise = noiseLines === 0 ? "" : ` (lines on its stdout that are not JSON-RPC: ${noiseLines})`;
    return new DiscoverError(`${message}${noise}`, this.#server.stderrTail);
  }

  list(): Promise<Listing> {
    const { signal } = this.#options;
    const onAbort = (): void => this.#failed.reject(endedError(this.#options, this.#method));
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
    void this.#server.lost.then((exit) => {
      const { stopCause } = this.#server;
      if (stopCause !== undefined) this.#fail(`${stopCause.reason} before it answered ${this.#method}`);
      else this.#fail(`${maskCommand(this.#options.command.command)} ${describeExit(exit, this.#method).reason}`);
    });
    return Promise.race([this.#list(), this.#failed.promise]);
  }

  /** Terminates the process group. */
  stop(): Promise<void> {
    return this.#server.stop("stopped", "the tools are listed");
  }

  async #list(): Promise<Listing> {
    const { resultText } = await this.#server.handshake.catch((error: unknown) => {
      if (error instanceof HandshakeError) throw error;
      // The server has exited, which rejects `#failed`.
      return this.#failed.promise;
    });
    this.#method = "tools/list";
    const hasToolsCapability = (readCapabilities(resultText)["tools"] ?? false) !== false;
    return {
      // The sidecar supports every revision, regardless of the server.
      protocolVersion: negotiateProtocolVersion(NEWEST_LEGACY_PROTOCOL_VERSION),
      hasToolsCapability,
      tools: hasToolsCapability ? await readToolPages((params) => this.#requestPage(params)) : [],
    };
  }

  async #requestPage(params: JsonObject | undefined): Promise<ToolsPage> {
    const id = this.#pending.mintId();
    const answered = new Promise<ResponseMessage>((resolve) => this.#pending.add(id, resolve));
    this.#server.input.send(outgoing(JSON.stringify({ jsonrpc: "2.0", id, method: this.#method, params })));
    const answer = await answered;
    return { result: readAnswer(answer, this.#method), bytes: Buffer.byteLength(answer.text) };
  }

  #onMessage(message: Message): void {
    if (message.kind === "response") this.#pending.take(message.id)?.(message);
    else if (message.kind === "request" && this.#server.input.queuedBytes < MAX_QUEUED_BYTES) {
      this.#server.input.send(outgoing(message.method === "ping" ? answerPing(message) : refuseRequest(message)));
    }
  }

  #fail(reason: string): void {
    this.#failed.reject(new DiscoverError(reason));
  }
}

const SILENT: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
