import { addAbortListener } from "node:events";
import { maskCommand } from "../config/secret-file.ts";
import { loadConfig } from "../config/load.ts";
import { readCommandLine } from "../config/command-line.ts";
import { type Context, createContext } from "../context.ts";
import { type JsonObject, NEWEST_LEGACY_PROTOCOL_VERSION, outgoing, type ResponseMessage } from "../mcp/message.ts";
import type { Counters } from "../observe/record.ts";
import { logOf } from "../observe/log.ts";
import type { Secrets } from "../observe/redact.ts";
import type { ChildCommand, ProcessExit } from "../process/child.ts";
import { describeExit } from "../process/exit.ts";
import { Generation, ServerProgram } from "../process/generation.ts";
import { discoverAttempt, Handshake, HANDSHAKE_ID, HandshakeError, initializeAttempt } from "../process/handshake.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import { StartLog } from "../process/output-log.ts";
import { answerPing, refuseRequest } from "../server/routing.ts";
import { MAX_LIST_BYTES } from "../server/tools.ts";
import { DiscoverError, endedError, type Listing, type ListingBounds, listTools } from "./listing.ts";

/** The limit of bytes queued for a server that does not read. Above it, the server's requests are not answered. */
const MAX_QUEUED_BYTES = 1024 * 1024;

/**
 * Starts the server with the sidecar's own handshake for servers of either era, and lists its tools. Always terminates its process group.
 *
 * @param kill kills all processes at once.
 * @param onStart called when the server runs, with a function that returns the last line of its stderr.
 * @throws DiscoverError with the tail of the server's stderr.
 */
export async function listFromProcess(
  bounds: ListingBounds,
  command: ChildCommand,
  secrets: Secrets,
  kill: AbortSignal,
  onStart: (stderrLastLine: () => string | undefined) => void,
): Promise<Listing> {
  const { clientInfo, signal } = bounds;
  const context = contextOf(bounds, secrets, kill);
  const failed = Promise.withResolvers<never>();
  const fail = (reason: string): void => failed.reject(new DiscoverError(reason));
  const handshake = new Handshake(initializeAttempt(clientInfo), discoverAttempt(clientInfo));
  /** The request that the server has not answered, after its handshake. */
  let request: { readonly id: number; readonly method: string; readonly resolve: (response: ResponseMessage) => void } | undefined;
  const awaited = (): string => request?.method ?? describeAttempt(handshake);
  const take = (response: ResponseMessage): boolean => {
    const isForIt = response.id === request?.id;
    if (isForIt) request?.resolve(response);
    return isForIt;
  };

  const server = new Generation(context, new ServerProgram(context, command), new StartLog(context), 1, {
    // No client can have chosen the text: only the sidecar sends requests.
    onResponseAfterText: take,
    onInvalidResponse: (_id, reason) => fail(`its response to ${awaited()} is invalid: ${reason}`),
    onMessage: (message) => {
      if (message.kind === "response") take(message);
      else if (message.kind === "request" && server.input.queuedBytes < MAX_QUEUED_BYTES)
        server.input.send(outgoing(message.method === "ping" ? answerPing(message) : refuseRequest(message)));
    },
    onRefused: () => undefined,
    onOverlongLine: ({ bytes, hasMethod }) => {
      if (!hasMethod) fail(`its response to ${awaited()} has ${bytes} bytes, more than ${MAX_LIST_BYTES}`);
    },
  });
  onStart(() => server.outputLog.stderrTail.at(-1));
  addAbortListener(signal, () => failed.reject(endedError(bounds, awaited())));
  void server.lost.then((exit) => fail(lossText(server, exit, command, awaited())));

  const ask = (method: string, params: JsonObject): Promise<ResponseMessage> => {
    const { promise, resolve } = Promise.withResolvers<ResponseMessage>();
    const id = (request?.id ?? HANDSHAKE_ID) + 1;
    request = { id, method, resolve };
    server.input.send(outgoing(JSON.stringify({ jsonrpc: "2.0", id, method, params })));
    return promise;
  };
  // An exit of the server rejects `failed` too, with more to tell.
  const ready = server
    .shakeHands(handshake, bounds.timeoutMs)
    .catch((error: unknown) => (error instanceof HandshakeError ? Promise.reject(error) : failed.promise));
  const listed = Promise.race([ready.then((shaken) => listTools(forClients(shaken), ask)), failed.promise]);
  await Promise.allSettled([listed]);
  const isLate = signal.aborted;
  // An error then has the server's last output.
  await server.stop("stopped", "the tools are listed");
  return listed.catch(async (error: unknown) => Promise.reject(await explain(error, isLate, server, context.counters)));
}

/** A sidecar serves every revision with sessions, whichever its server has chosen. */
function forClients(handshake: UpstreamHandshake): UpstreamHandshake {
  return handshake.era === "modern" ? handshake : { ...handshake, protocolVersion: NEWEST_LEGACY_PROTOCOL_VERSION };
}

/** Returns a context for one server, with the default of each option that discover does not have. */
function contextOf({ timeoutMs }: ListingBounds, secrets: Secrets, kill: AbortSignal): Context {
  const { config } = loadConfig(readCommandLine(["--", "server"]), {});
  if (config === undefined) throw new Error("the defaults are not valid");
  // MAX_LIST_BYTES limits the memory.
  const limits = { maxLineBytes: MAX_LIST_BYTES, memoryBudgetBytes: Number.POSITIVE_INFINITY, readyTimeoutMs: timeoutMs };
  return createContext(
    { ...config, ...limits },
    logOf(() => undefined),
    secrets,
    new AbortController().signal,
    kill,
  );
}

/** Describes the request of the handshake that is not answered. The second one follows a refusal of `initialize`. */
function describeAttempt({ current: { method }, refusal }: Handshake): string {
  return refusal === undefined ? method : `${method}, after ${refusal.message.replace("the MCP server", "it")}`;
}

/** Returns the reason for the loss of a server, with the likely cause of an exit. */
function lossText(server: Generation, exit: ProcessExit, { command }: ChildCommand, awaited: string): string {
  if (server.stopCause !== undefined) return `${server.stopCause.reason} before it answered ${awaited}`;
  const { kind, reason } = describeExit(exit, awaited);
  const cause = server.likelyCause(kind, exit);
  return `${maskCommand(command)} ${cause === undefined ? reason : `${reason}; likely cause: ${cause}`}`;
}

/** Adds the likely cause and the server's other output to an error, unless it is a defect. To be called when the server has exited. */
async function explain(error: unknown, isAborted: boolean, server: Generation, { dropped }: Counters): Promise<unknown> {
  if (!(error instanceof DiscoverError || error instanceof HandshakeError)) return error;
  const isLate = error instanceof DiscoverError ? isAborted : error.kind === "handshake-timeout";
  const cause = isLate ? server.likelyCause("handshake-timeout", await server.lost) : undefined;
  const likely = cause === undefined ? "" : `; likely cause: ${cause}`;
  const noise = dropped.noiseLines === 0 ? "" : ` (lines on its stdout that are not JSON-RPC: ${dropped.noiseLines})`;
  return new DiscoverError(`${error.message}${likely}${noise}`, server.outputLog.stderrTail);
}
