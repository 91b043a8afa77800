import { addAbortListener } from "node:events";
import { createParser } from "eventsource-parser";
import { type Config, type Environment, serverEnvironment } from "../config/load.ts";
import { OPTIONS } from "../config/options.ts";
import { maskCommand } from "../config/secret-file.ts";
import { createContext } from "../context.ts";
import { findMembers, stringOf, textOf } from "../json/read.ts";
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
import { MAX_PAGE_BYTES, readToolPages, type ToolList } from "../server/tools.ts";
import { OWN_EXITS } from "./start-failure.ts";

export interface Listing {
  /** The one that the endpoint negotiates with clients of the newest. */
  readonly protocolVersion: string;
  /** If false, `tools/list` is not sent. */
  readonly hasToolsCapability: boolean;
  readonly tools: readonly JsonObject[];
}

/** The message is one line for the operator. */
export class DiscoverError extends Error {
  override readonly name = "DiscoverError";
  /** With secrets masked. */
  readonly stderrTail: readonly string[];

  constructor(message: string, stderrTail: readonly string[] = [], cause?: unknown) {
    super(message, { cause });
    this.stderrTail = stderrTail;
  }
}

export function hasTools({ resultText }: Pick<UpstreamHandshake, "resultText">): boolean {
  return (readCapabilities(resultText)["tools"] ?? false) !== false;
}

/** @param list undefined without the capability `tools`. @throws DiscoverError if the list is not complete: a descriptor must have all tools. */
function listingOf(protocolVersion: string, list: ToolList | undefined): Listing {
  if (list === undefined) return { protocolVersion, hasToolsCapability: false, tools: [] };
  const { tools, problem } = list;
  if (tools === undefined || problem !== undefined) throw new DiscoverError(`tools/list: ${problem}`);
  return { protocolVersion, hasToolsCapability: true, tools };
}

/**
 * Starts the server as the sidecar does. Always terminates its process group.
 *
 * @param ended aborted with a DiscoverError if `discover` is interrupted.
 * @param onStderr called with each line of stderr, with secrets masked.
 * @throws DiscoverError with the tail of stderr.
 */
export async function listFromProcess(
  config: Config,
  environment: Environment,
  clientInfo: ClientInfo,
  secrets: Secrets,
  ended: AbortSignal,
  kill: AbortSignal,
  onStderr: (line: string) => void,
): Promise<Listing> {
  const { command, args, cwd, readyTimeoutMs: timeoutMs } = config;
  const log = logOf((_level, fields, line) => fields["stream"] === "stderr" && onStderr(line));
  const context = createContext({ ...config, keepTrying: false }, log, secrets, new AbortController().signal, kill);
  const endMs = context.nowMs() + timeoutMs;
  const program = new ServerProgram(context, { command, args, cwd, env: serverEnvironment(environment) });
  const server = new McpServer(context, program, clientInfo);
  const aborted = Promise.withResolvers<never>();
  addAbortListener(ended, () => aborted.reject(ended.reason as Error));
  const exitError = (awaited: "initialize" | "tools/list"): DiscoverError | undefined => {
    const { lastExit } = server.status();
    if (lastExit === null) return undefined;
    const { kind, reason, likelyCause } = lastExit;
    const subject = OWN_EXITS.has(kind) ? `${maskCommand(command)} ` : "";
    // The reasons of other exits in the handshake say it.
    const when = awaited === "tools/list" || kind === "pipe-closed" ? ` before it answered ${awaited}` : "";
    return new DiscoverError(`${subject}${reason}${when}${likelyCause === null ? "" : `; likely cause: ${likelyCause}`}`);
  };
  const list = async (): Promise<Listing> => {
    const ready = await Promise.race([server.firstReady, server.failed]);
    if (ready === undefined || "kind" in ready) throw exitError("initialize") ?? new Error("the server was stopped");
    // A sidecar serves every revision with sessions, whichever its server has chosen.
    const protocolVersion = ready.era === "modern" ? ready.protocolVersion : NEWEST_LEGACY_PROTOCOL_VERSION;
    if (!hasTools(ready)) return listingOf(protocolVersion, undefined);
    const tools = await server.listTools(endMs - context.nowMs());
    if (tools.code === "REQUEST_TIMEOUT") throw new DiscoverError(`no response to tools/list within ${timeoutMs} ms of the start`);
    const exit = exitError("tools/list");
    if (tools.tools === undefined && exit !== undefined) throw exit;
    if (tools.code !== undefined) throw new DiscoverError(tools.problem ?? "");
    return listingOf(protocolVersion, tools);
  };
  const listed = Promise.race([list(), aborted.promise]);
  await Promise.allSettled([listed]);
  await server.stop();
  return listed.catch((error: unknown) => {
    if (!(error instanceof DiscoverError)) throw error;
    const { noiseLines } = context.counters.dropped;
    const noise = noiseLines === 0 ? "" : ` (lines on its stdout that are not JSON-RPC: ${noiseLines})`;
    throw new DiscoverError(`${error.message}${noise}`, server.status().lastExit?.stderrTail);
  });
}

const MAX_SHOWN_LENGTH = 500;
/** The session ends by itself without it. */
const DELETE_TIMEOUT_MS = 2000;
const UNAUTHORIZED = 401;

/** In a new session, which is ended, or without one if the server has no sessions. @throws DiscoverError */
export async function listFromUrl(
  url: URL,
  token: string | undefined,
  timeoutMs: number,
  clientInfo: ClientInfo,
  ended: AbortSignal,
): Promise<Listing> {
  const signal = AbortSignal.any([ended, AbortSignal.timeout(timeoutMs)]);
  const endpoint = new Endpoint(url, token, signal);
  try {
    const handshake = await endpoint.shakeHands(clientInfo);
    const { protocolVersion, requestMeta: _meta } = handshake;
    if (!hasTools(handshake)) return listingOf(protocolVersion, undefined);
    const method = "tools/list";
    const pages = readToolPages();
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
    // `fetch` has the error of the connection as its cause, and for a name with several addresses one error per address.
    const { cause } = error as Error;
    const { message } = (cause instanceof AggregateError ? cause.errors[0] : cause instanceof Error ? cause : error) as Error;
    throw new DiscoverError(`${url.origin}${url.pathname}: ${endpoint.method}: ${message}`);
  } finally {
    await endpoint.endSession();
  }
}

/** Without capabilities (MCP 2025-11-25 and 2026-07-28, basic/transports). */
class Endpoint {
  /** The last one sent. */
  method = "";
  readonly #url: URL;
  readonly #signal: AbortSignal;
  readonly #headers: Record<string, string> = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };

  constructor(url: URL, token: string | undefined, signal: AbortSignal) {
    this.#url = url;
    this.#signal = signal;
    if (token !== undefined) this.#headers["Authorization"] = `Bearer ${token}`;
  }

  /** Finds out if the server has no sessions. */
  async shakeHands(clientInfo: ClientInfo): Promise<UpstreamHandshake> {
    try {
      const handshake = await this.#begin(initializeAttempt(clientInfo));
      await (await this.#post("notifications/initialized", INITIALIZED)).body?.cancel();
      return handshake;
    } catch (error) {
      if ((error as Error).cause !== JsonRpcErrorCode.UnsupportedVersion) throw error;
    }
    this.#headers["MCP-Protocol-Version"] = NEWEST_MODERN_PROTOCOL_VERSION;
    return this.#begin(discoverAttempt(clientInfo));
  }

  /** Ignores errors: the server may not support DELETE, or have stopped. */
  async endSession(): Promise<void> {
    if (this.#headers["Mcp-Session-Id"] === undefined) return;
    await this.#fetch({ method: "DELETE", headers: this.#headers, signal: AbortSignal.timeout(DELETE_TIMEOUT_MS) })
      .then(({ body }) => body?.cancel())
      .catch(() => undefined);
  }

  /** @throws DiscoverError if the response is an error, with its code as the cause. */
  async ask(method: string, text: string, id: number): Promise<ResponseMessage> {
    const response = await this.#post(method, text);
    for await (const body of readTexts(response)) {
      const read = readText(body);
      // Revision 2025-03-26 has batches. Other messages of an event stream are ignored.
      const messages = read.kind === "batch" ? read.messages : [read];
      const found = messages.find((message) => message.kind === "response" && message.id === id) as ResponseMessage | undefined;
      if (found?.isError === false) return found;
      if (found === undefined) continue;
      const { said, code } = readError(found);
      const suffix = Number.isNaN(code) ? "" : ` (code ${code})`;
      throw new DiscoverError(`the server answered ${method} with an error: ${shorten(said, MAX_SHOWN_LENGTH)}${suffix}`, undefined, code);
    }
    const problem = isStream(response)
      ? "the event stream ended without a response"
      : "the response is not a JSON-RPC response to the request";
    throw new Error(problem);
  }

  async #begin(attempt: Attempt): Promise<UpstreamHandshake> {
    const handshake = readHandshake(await this.ask(attempt.method, attempt.request, HANDSHAKE_ID), 1, attempt);
    this.#headers["MCP-Protocol-Version"] = handshake.protocolVersion;
    return handshake;
  }

  async #post(method: string, body: string): Promise<Response> {
    this.method = method;
    // The method in a header is required without a session.
    const headers = { ...this.#headers, "Mcp-Method": method };
    const response = await this.#fetch({ method: "POST", headers, body, signal: this.#signal });
    if (!response.ok) await this.#reject(response);
    const sessionId = response.headers.get("Mcp-Session-Id");
    if (sessionId !== null) this.#headers["Mcp-Session-Id"] = sessionId;
    return response;
  }

  /** Follows no redirect: token and session are for one host, and a server must not choose what else is requested. */
  #fetch(init: RequestInit): Promise<Response> {
    return fetch(this.#url, { ...init, redirect: "manual" });
  }

  /** @throws Error with the code of the JSON-RPC error as the cause. */
  async #reject(response: Response): Promise<never> {
    let text = "";
    for await (const piece of readTexts(response)) text += piece;
    const message = readText(text);
    const [line = ""] = text.trim().split(/[\r\n]/, 1);
    const { said, code } = message.kind === "response" ? readError(message) : { said: line };
    const { status, statusText } = response;
    const verb = this.#headers["Authorization"] === undefined ? "set" : "see";
    const advice = status === UNAUTHORIZED ? ` (${verb} ${OPTIONS.authToken.variable})` : "";
    throw new Error(`HTTP ${status} ${statusText}${said && `: ${shorten(said, MAX_SHOWN_LENGTH)}`}${advice}`, { cause: code });
  }
}

function readError({ outline }: ResponseMessage): { readonly said: string; readonly code: number } {
  const error = outline.textAt(Slot.error) ?? "";
  const [code, message] = error.startsWith("{") ? findMembers(error, 0, ["code", "message"]).spans : [];
  return { said: stringOf(error, message) ?? error, code: Number(textOf(error, code)) };
}

function isStream({ headers }: Response): boolean {
  return /^text\/event-stream\b/i.test(headers.get("Content-Type") ?? "");
}

/** Yields each event of a stream, or the whole text of another body. */
async function* readTexts(response: Response): AsyncGenerator<string> {
  const texts: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => texts.push(data) });
  let bytes = 0;
  for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    bytes += Buffer.byteLength(piece);
    if (bytes > MAX_PAGE_BYTES) throw new Error(`the response is longer than ${MAX_PAGE_BYTES} bytes`);
    if (isStream(response)) {
      parser.feed(piece);
      yield* texts.splice(0);
    } else texts.push(piece);
  }
  yield texts.join("");
}
