import { addAbortListener } from "node:events";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { createParser } from "eventsource-parser";
import { readCommandLine } from "../config/command-line.ts";
import { loadConfig } from "../config/load.ts";
import { OPTIONS } from "../config/options.ts";
import { maskCommand } from "../config/secret-file.ts";
import { createContext } from "../context.ts";
import { findMembers, stringOf, textOf } from "../json/find.ts";
import { shorten } from "../json/text.ts";
import { readCapabilities } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode } from "../mcp/errors.ts";
import {
  type JsonObject,
  NEWEST_LEGACY_PROTOCOL_VERSION,
  NEWEST_MODERN_PROTOCOL_VERSION,
  readText,
  type ResponseMessage,
  Slot,
} from "../mcp/message.ts";
import { logOf } from "../observe/log.ts";
import type { Secrets } from "../observe/redact.ts";
import type { ChildCommand } from "../process/child.ts";
import { ServerProgram } from "../process/generation.ts";
import {
  type Attempt,
  type ClientInfo,
  discoverAttempt,
  HANDSHAKE_ID,
  INITIALIZED,
  initializeAttempt,
  readHandshake,
} from "../process/handshake.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import { McpServer } from "../server.ts";
import { MAX_LIST_BYTES, readToolPages, type ToolList, type ToolListRules } from "../server/tools.ts";
import { OWN_EXITS } from "./start-failure.ts";

/**
 * A list of 4 MiB, the longest that pods read, usually takes less than half of these values. A descriptor must have all tools, so no tool
 * is skipped, and the list must end.
 */
const TOOL_LIST_RULES: ToolListRules = {
  maxPages: 1000,
  maxValueBytes: 256 * 1024 * 1024,
  maxPageBytes: MAX_LIST_BYTES,
  isStrict: true,
};

/** A server's list of tools. */
export interface Listing {
  /** The revision that the endpoint negotiates with clients that request the newest. */
  readonly protocolVersion: string;
  /** False if the server does not declare the capability `tools`; `tools/list` is not sent then. */
  readonly hasToolsCapability: boolean;
  readonly tools: readonly JsonObject[];
}

/** A failure of a listing. The message is one line for the operator. */
export class DiscoverError extends Error {
  override readonly name = "DiscoverError";
  /** The last lines of the server's stderr, with secrets masked. */
  readonly stderrTail: readonly string[];

  constructor(message: string, stderrTail: readonly string[] = [], cause?: unknown) {
    super(message, { cause });
    this.stderrTail = stderrTail;
  }
}

/** The bounds of a listing. */
interface ListingBounds {
  /** Aborted with a DiscoverError as the reason if `discover` is interrupted. */
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  readonly clientInfo: ClientInfo;
}

/** True if the server declares the capability `tools`. */
export function hasTools({ resultText }: Pick<UpstreamHandshake, "resultText">): boolean {
  return (readCapabilities(resultText)["tools"] ?? false) !== false;
}

/**
 * Returns the listing of a server.
 *
 * @param list undefined without the capability `tools`.
 * @throws DiscoverError if the list is not complete, or a name is missing or repeated.
 */
function listingOf(protocolVersion: string, list: ToolList | undefined): Listing {
  if (list === undefined) return { protocolVersion, hasToolsCapability: false, tools: [] };
  const { tools, problem } = list;
  if (tools === undefined || problem !== undefined) throw new DiscoverError(`tools/list: ${problem}`);
  // A descriptor must identify each reviewed tool by its name.
  const names = new Set([""]);
  for (const [index, tool] of tools.entries()) {
    const name = typeof tool["name"] === "string" ? tool["name"].trim() : "";
    const fault = name === "" ? "no name" : `the name of an earlier one, ${JSON.stringify(shorten(name))}`;
    if (names.has(name)) throw new DiscoverError(`tools/list: tool ${index + 1} has ${fault}`);
    names.add(name);
  }
  return { protocolVersion, hasToolsCapability: true, tools };
}

/**
 * Starts the server as a sidecar with the default of each option does, and lists its tools. Always terminates its process group.
 *
 * @param kill kills all processes at once.
 * @param onStderr called with each line of the server's stderr, with secrets masked.
 * @throws DiscoverError with the tail of the server's stderr.
 */
export async function listFromProcess(
  bounds: ListingBounds,
  command: ChildCommand,
  secrets: Secrets,
  kill: AbortSignal,
  onStderr: (line: string) => void,
): Promise<Listing> {
  const { clientInfo, signal, timeoutMs } = bounds;
  const { config: defaults } = loadConfig(readCommandLine(["--", "server"]), {});
  if (defaults === undefined) throw new Error("the defaults are not valid");
  // MAX_LIST_BYTES limits the memory.
  const limits = { maxLineBytes: MAX_LIST_BYTES, memoryBudgetBytes: Number.POSITIVE_INFINITY, readyTimeoutMs: timeoutMs };
  const log = logOf((_level, fields, line) => fields["stream"] === "stderr" && onStderr(line));
  const context = createContext({ ...defaults, ...limits, keepTrying: false }, log, secrets, new AbortController().signal, kill);
  const endMs = context.nowMs() + timeoutMs;
  const program = new ServerProgram(context, command);
  const server = new McpServer(context, { program, clientInfo, policy: undefined, observeLane: undefined });
  const aborted = Promise.withResolvers<never>();
  addAbortListener(signal, () => aborted.reject(signal.reason as Error));
  /** Returns the error of a server that has exited; undefined if it runs. */
  const exitError = (awaited: "initialize" | "tools/list"): DiscoverError | undefined => {
    const { lastExit } = server.status().upstream;
    if (lastExit === undefined) return undefined;
    const { kind, reason, likelyCause } = lastExit;
    const subject = OWN_EXITS.has(kind) ? `${maskCommand(command.command)} ` : "";
    // The reasons of other exits in the handshake say it.
    const when = awaited === "tools/list" || kind === "pipe-closed" ? ` before it answered ${awaited}` : "";
    return new DiscoverError(`${subject}${reason}${when}${likelyCause === undefined ? "" : `; likely cause: ${likelyCause}`}`);
  };
  const list = async (): Promise<Listing> => {
    const ready = await Promise.race([server.firstReady, server.failed]);
    if (ready === undefined || "kind" in ready) throw exitError("initialize") ?? new Error("the server was stopped");
    if (!hasTools(ready)) return listingOf(revisionOf(ready), undefined);
    const tools = await server.listTools(endMs - context.nowMs(), TOOL_LIST_RULES);
    if (tools.code === "REQUEST_TIMEOUT") throw new DiscoverError(`no response to tools/list within ${timeoutMs} ms of the start`);
    const exit = exitError("tools/list");
    if (tools.tools === undefined && exit !== undefined) throw exit;
    if (tools.code !== undefined) throw new DiscoverError(tools.problem ?? "");
    return listingOf(revisionOf(ready), tools);
  };
  const listed = Promise.race([list(), aborted.promise]);
  await Promise.allSettled([listed]);
  await server.stop();
  return listed.catch((error: unknown) => {
    if (!(error instanceof DiscoverError)) throw error;
    const { noiseLines } = context.counters.dropped;
    const noise = noiseLines === 0 ? "" : ` (lines on its stdout that are not JSON-RPC: ${noiseLines})`;
    throw new DiscoverError(`${error.message}${noise}`, server.status().upstream.lastExit?.stderrTail);
  });
}

/** A sidecar serves every revision with sessions, whichever its server has chosen. */
function revisionOf({ era, protocolVersion }: UpstreamHandshake): string {
  return era === "modern" ? protocolVersion : NEWEST_LEGACY_PROTOCOL_VERSION;
}

const MAX_SHOWN_LENGTH = 500;
/** The limit for the lines of an event stream. The parser takes about 64 bytes for each line of an event, even for an empty one. */
const MAX_STREAM_LINES = 1_000_000;
/** Time limit of the DELETE of the session, which otherwise ends by itself. */
const DELETE_TIMEOUT_MS = 2000;
const UNAUTHORIZED = 401;

/**
 * Lists the tools of a running Streamable HTTP server: in a new session, which is ended, or without one if the server has no sessions.
 *
 * @throws DiscoverError if the listing fails.
 */
export async function listFromUrl(bounds: ListingBounds, url: URL, token: string | undefined): Promise<Listing> {
  const { clientInfo, timeoutMs } = bounds;
  const signal = AbortSignal.any([bounds.signal, AbortSignal.timeout(timeoutMs)]);
  const endpoint = new Endpoint(url, token, signal);
  try {
    const handshake = await endpoint.shakeHands(clientInfo);
    const { protocolVersion, requestMeta: _meta } = handshake;
    if (!hasTools(handshake)) return listingOf(protocolVersion, undefined);
    const method = "tools/list";
    const pages = readToolPages(TOOL_LIST_RULES);
    let page = pages.next();
    for (let id = HANDSHAKE_ID + 1; page.done !== true; id++) {
      const params = { ...page.value, ...(_meta && { _meta }) };
      const response = await endpoint.ask(method, JSON.stringify({ jsonrpc: "2.0", id, method, params }), id);
      page = pages.next(response.outline.textAt(Slot.result) ?? "");
    }
    return listingOf(protocolVersion, page.value);
  } catch (error) {
    const reason: unknown = signal.aborted ? signal.reason : error;
    if (reason instanceof DiscoverError) throw reason;
    if (signal.aborted) throw new DiscoverError(`no response to ${endpoint.method} within ${timeoutMs} ms of the start`);
    // A name with several addresses has one error per address.
    const { message } = (error instanceof AggregateError ? error.errors[0] : error) as Error;
    throw new DiscoverError(`${url.origin}${url.pathname}: ${endpoint.method}: ${message}`);
  } finally {
    await endpoint.endSession();
  }
}

/** The URL of a server as a client without capabilities (MCP 2025-11-25 and 2026-07-28, basic/transports). */
class Endpoint {
  /** That of the last message. */
  method = "";
  readonly #url: URL;
  /** Aborted when `discover` is interrupted, and at the end of its time. */
  readonly #signal: AbortSignal;
  readonly #headers: Record<string, string> = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };

  constructor(url: URL, token: string | undefined, signal: AbortSignal) {
    this.#url = url;
    this.#signal = signal;
    if (token !== undefined) this.#headers["Authorization"] = `Bearer ${token}`;
  }

  /** Begins a session, or finds out that the server has none. */
  async shakeHands(clientInfo: ClientInfo): Promise<UpstreamHandshake> {
    try {
      const handshake = await this.#begin(initializeAttempt(clientInfo));
      const response = await this.#post("notifications/initialized", INITIALIZED);
      response.destroy();
      return handshake;
    } catch (error) {
      if ((error as Error).cause !== JsonRpcErrorCode.UnsupportedVersion) throw error;
    }
    this.#headers["MCP-Protocol-Version"] = NEWEST_MODERN_PROTOCOL_VERSION;
    return this.#begin(discoverAttempt(clientInfo));
  }

  /** Ends the session, if there is one. Ignores errors: the server may not support DELETE, or have stopped. */
  async endSession(): Promise<void> {
    if (this.#headers["Mcp-Session-Id"] === undefined) return;
    const response = await this.#send("DELETE", AbortSignal.timeout(DELETE_TIMEOUT_MS), this.#headers).catch(() => undefined);
    response?.destroy();
  }

  async #begin(attempt: Attempt): Promise<UpstreamHandshake> {
    const handshake = readHandshake(await this.ask(attempt.method, attempt.request, HANDSHAKE_ID), 1, attempt);
    this.#headers["MCP-Protocol-Version"] = handshake.protocolVersion;
    return handshake;
  }

  /** Sends a request, and returns its response. @throws Error with the code of a JSON-RPC error as its cause. */
  async ask(method: string, text: string, id: number): Promise<ResponseMessage> {
    const body = await this.#post(method, text);
    try {
      return await findResponse(body, id, method);
    } finally {
      body.destroy();
    }
  }

  async #post(method: string, text: string): Promise<IncomingMessage> {
    this.method = method;
    // The method in a header is required without a session.
    const body = await this.#send("POST", this.#signal, { ...this.#headers, "Mcp-Method": method }, text);
    const { statusCode = 0, headers } = body;
    if (statusCode < 200 || statusCode > 299) await this.#refuse(body);
    const sessionId = headers["mcp-session-id"];
    if (typeof sessionId === "string") this.#headers["Mcp-Session-Id"] = sessionId;
    return body;
  }

  #send(method: "POST" | "DELETE", signal: AbortSignal, headers: Record<string, string>, text?: string): Promise<IncomingMessage> {
    const start = this.#url.protocol === "https:" ? httpsRequest : httpRequest;
    return new Promise((resolve, reject) => {
      const request = start(this.#url, { method, headers, signal, agent: false }, resolve);
      request.on("error", reject);
      // Has no effect if the promise is settled. A response that switches protocols (101) causes no other event.
      request.once("close", () => reject(new Error("the connection was closed without a response")));
      request.end(text);
    });
  }

  /** @throws Error for a status other than 2xx, with the message in the body, and the code of its JSON-RPC error as the cause. */
  async #refuse(body: IncomingMessage): Promise<never> {
    let text = "";
    for await (const piece of readTexts(body)) text += piece;
    const message = readText(text, "server");
    const [line = ""] = text.trim().split(/[\r\n]/, 1);
    const { said, code } = message.kind === "response" ? readError(message) : { said: line };
    const { statusCode, statusMessage } = body;
    const verb = this.#headers["Authorization"] === undefined ? "set" : "see";
    const advice = statusCode === UNAUTHORIZED ? ` (${verb} ${OPTIONS.authToken.variable})` : "";
    throw new Error(`HTTP ${statusCode} ${statusMessage}${said && `: ${shorten(said, MAX_SHOWN_LENGTH)}`}${advice}`, { cause: code });
  }
}

/**
 * Finds the response to a request in a body: in JSON, or an event stream, whose other messages are ignored.
 *
 * @throws DiscoverError if the response is an error, with its code as the cause.
 */
async function findResponse(body: IncomingMessage, id: number, method: string): Promise<ResponseMessage> {
  for await (const text of readTexts(body)) {
    const read = readText(text, "server");
    // Revision 2025-03-26 has batches.
    const messages = read.kind === "batch" ? read.messages : [read];
    const response = messages.find((message) => message.kind === "response" && message.id === id) as ResponseMessage | undefined;
    if (response?.isError === false) return response;
    if (response === undefined) continue;
    const { said, code } = readError(response);
    const suffix = Number.isNaN(code) ? "" : ` (code ${code})`;
    throw new DiscoverError(`the server answered ${method} with an error: ${shorten(said, MAX_SHOWN_LENGTH)}${suffix}`, undefined, code);
  }
  throw new Error(isStream(body) ? "the event stream ended without a response" : "the response is not a JSON-RPC response to the request");
}

function readError({ outline }: ResponseMessage): { readonly said: string; readonly code: number } {
  const error = outline.textAt(Slot.error) ?? "";
  const [code, message] = error.startsWith("{") ? findMembers(error, 0, ["code", "message"]).spans : [];
  return { said: stringOf(error, message) ?? error, code: Number(textOf(error, code)) };
}

function isStream({ headers }: IncomingMessage): boolean {
  return /^text\/event-stream\b/i.test(headers["content-type"] ?? "");
}

/** Yields the data of each event of a stream, or the whole text of another body. */
async function* readTexts(body: IncomingMessage): AsyncGenerator<string> {
  const texts: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => texts.push(data) });
  let bytes = 0;
  let lines = 0;
  for await (const piece of body.setEncoding("utf8") as AsyncIterable<string>) {
    bytes += Buffer.byteLength(piece);
    if (bytes > MAX_LIST_BYTES) throw new Error(`the response is longer than ${MAX_LIST_BYTES} bytes`);
    if (!isStream(body)) {
      texts.push(piece);
      continue;
    }
    lines += piece.match(/\r\n?|\n/g)?.length ?? 0;
    if (lines > MAX_STREAM_LINES) throw new Error(`the event stream has more than ${MAX_STREAM_LINES} lines`);
    parser.feed(piece);
    yield* texts.splice(0);
  }
  yield texts.join("");
}
