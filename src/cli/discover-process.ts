import { maskCommand } from "../config/secret-file.ts";
import { shorten } from "../json/text.ts";
import { type JsonObject, outgoing, type ResponseMessage, Slot } from "../mcp/message.ts";
import { NEWEST_LEGACY_PROTOCOL_VERSION } from "../mcp/versions.ts";
import { MemoryBudget } from "../memory.ts";
import { Counters } from "../observe/counters.ts";
import type { Log } from "../observe/log.ts";
import type { Secrets } from "../observe/redact.ts";
import { type ChildCommand, type ChildExit, startProcess, STOP_GRACES } from "../process/child.ts";
import { describeExit } from "../process/exit.ts";
import { Generation, type GenerationOptions } from "../process/generation.ts";
import { AnyEraHandshake, type ClientInfo, HANDSHAKE_ID, HandshakeError, type HandshakeScript } from "../process/handshake.ts";
import { OutputMemory } from "../process/stdio.ts";
import { answerPing, refuseRequest } from "../server/routing.ts";
import { MAX_LIST_BYTES } from "../server/tools.ts";
import { DiscoverError, endedError, type Listing, type ListingBounds, listTools } from "./listing.ts";

/** The limit of bytes queued for a server that does not read. Above it, the server's requests are not answered. */
const MAX_QUEUED_BYTES = 1024 * 1024;
const MAX_ERROR_LENGTH = 500;
const SILENT: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

export interface ProcessListingOptions extends ListingBounds {
  readonly command: ChildCommand;
  readonly clientInfo: ClientInfo;
  readonly secrets: Secrets;
  /** Kills all processes at once. */
  readonly kill: AbortSignal;
  /** Called when the server runs, with a function that returns the last line of its stderr. */
  readonly onStart: (stderrLastLine: () => string | undefined) => void;
}

interface RequestInFlight {
  method: string;
  id: number;
  onResponse: (response: ResponseMessage) => void;
}

/**
 * Starts the server with the sidecar's own handshake for servers of either era, and lists its tools. Always terminates its process group.
 *
 * @throws DiscoverError with the tail of the server's stderr.
 */
export async function listFromProcess(options: ProcessListingOptions): Promise<Listing> {
  const { command, kill, onStart, signal } = options;
  const counters = new Counters();
  const failed = Promise.withResolvers<never>();
  const fail = (reason: string): void => failed.reject(new DiscoverError(reason));
  const request: RequestInFlight = { method: "initialize", id: HANDSHAKE_ID, onResponse: () => undefined };

  const handshake = observedHandshake(options.clientInfo, (method) => (request.method = method));
  const server = new Generation(generationOptions(options, handshake, counters), {
    // No client can have chosen the text: only the sidecar sends requests.
    onResponseAfterText: (response) => takeResponse(response, request),
    onInvalidResponse: (_id, reason) => fail(`its response to ${request.method} is invalid: ${reason}`),
    onMessage: (message) => {
      if (message.kind === "response") takeResponse(message, request);
      else if (message.kind === "request" && server.input.queuedBytes < MAX_QUEUED_BYTES)
        server.input.send(outgoing(message.method === "ping" ? answerPing(message) : refuseRequest(message)));
    },
    onRefused: () => undefined,
    onOverlongLine: ({ bytes, hasMethod }) => {
      if (!hasMethod) fail(`its response to ${request.method} has ${bytes} bytes, more than ${MAX_LIST_BYTES}`);
    },
  });
  kill.addEventListener("abort", () => server.kill());
  onStart(() => server.stderrTail.at(-1));
  const onAbort = (): void => failed.reject(endedError(options, request.method));
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  void server.lost.then((exit) => fail(lossText(server, exit, command, request.method)));

  /** @param meta the `_meta` of each request to a server without sessions. */
  const requestPage = (page: JsonObject, meta: JsonObject | undefined): Promise<ResponseMessage> => {
    request.method = "tools/list";
    const params = meta === undefined ? page : { ...page, _meta: meta };
    server.input.send(outgoing(JSON.stringify({ jsonrpc: "2.0", id: ++request.id, method: request.method, params })));
    return new Promise((resolve) => {
      request.onResponse = resolve;
    });
  };
  const list = async (): Promise<Listing> => {
    const { era, protocolVersion, resultText, requestMeta } = await server.handshake.catch((error: unknown) => {
      if (error instanceof HandshakeError) throw error;
      // The server has exited, which rejects `failed`.
      return failed.promise;
    });
    // A sidecar serves every revision with sessions, whichever its server has chosen.
    const version = era === "legacy" ? NEWEST_LEGACY_PROTOCOL_VERSION : protocolVersion;
    return listTools(version, resultText, (page) => requestPage(page, requestMeta));
  };
  const stop = (): Promise<void> => server.stop("stopped", "the tools are listed");
  try {
    return await Promise.race([list(), failed.promise]);
  } catch (error) {
    // The error then has the server's last output.
    await stop();
    if (!(error instanceof DiscoverError || error instanceof HandshakeError)) throw error;
    throw await explain(error, signal.aborted, server, counters);
  } finally {
    await stop();
  }
}

/**
 * Returns a handshake with a server of either era.
 *
 * @param onNext called with a name of its second request, which follows a refusal of `initialize`.
 */
function observedHandshake(clientInfo: ClientInfo, onNext: (method: string) => void): HandshakeScript {
  const handshake = new AnyEraHandshake(clientInfo);
  return {
    begin: () => handshake.begin(),
    get method() {
      return handshake.method;
    },
    read(message, generation) {
      const read = handshake.read(message, generation);
      if (typeof read === "string") onNext(`server/discover, after it answered initialize with an error: ${errorText(message)}`);
      return read;
    },
    initializedNotification: () => handshake.initializedNotification(),
  };
}

/** Passes a response on, if it may be for the request. @returns false if it is not. */
function takeResponse(response: ResponseMessage, { id, onResponse }: RequestInFlight): boolean {
  const isForIt = response.id === id;
  if (isForIt) onResponse(response);
  return isForIt;
}

function errorText({ outline }: { readonly outline: ResponseMessage["outline"] }): string {
  return shorten(outline.textAt(Slot.error) ?? "", MAX_ERROR_LENGTH);
}

function generationOptions(
  { command, secrets, timeoutMs }: ProcessListingOptions,
  handshake: HandshakeScript,
  counters: Counters,
): GenerationOptions {
  return {
    command,
    startProcess,
    limits: { maxLineBytes: MAX_LIST_BYTES, ...STOP_GRACES },
    handshake,
    readyTimeoutMs: timeoutMs,
    number: 1,
    // MAX_LIST_BYTES limits it.
    memory: new OutputMemory(new MemoryBudget(Number.POSITIVE_INFINITY)).forServer(),
    counters,
    log: SILENT,
    secrets,
    nowMs: () => performance.now(),
  };
}

/** Returns the reason for the loss of a server, with the likely cause of an exit. */
function lossText(server: Generation, exit: ChildExit, { command }: ChildCommand, awaited: string): string {
  if (server.stopCause !== undefined) return `${server.stopCause.reason} before it answered ${awaited}`;
  const { kind, reason } = describeExit(exit, awaited);
  const cause = server.likelyCause(kind, exit);
  return `${maskCommand(command)} ${cause === undefined ? reason : `${reason}; likely cause: ${cause}`}`;
}

/** Adds the likely cause and the server's other output to an error. To be called when the server has exited. */
async function explain(
  error: DiscoverError | HandshakeError,
  isAborted: boolean,
  server: Generation,
  { dropped }: Counters,
): Promise<DiscoverError> {
  const isLate = error instanceof DiscoverError ? isAborted : error.kind === "handshake-timeout";
  const cause = isLate ? server.likelyCause("handshake-timeout", await server.lost) : undefined;
  const likely = cause === undefined ? "" : `; likely cause: ${cause}`;
  const noise = dropped.noiseLines === 0 ? "" : ` (lines on its stdout that are not JSON-RPC: ${dropped.noiseLines})`;
  return new DiscoverError(`${error.message}${likely}${noise}`, server.stderrTail);
}
