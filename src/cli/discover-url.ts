import { type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { createParser } from "eventsource-parser";
import { OPTIONS } from "../config/options.ts";
import { findMembers, stringOf, textOf } from "../json/find.ts";
import { shorten } from "../json/text.ts";
import { JsonRpcErrorCode } from "../mcp/errors.ts";
import { NEWEST_MODERN_PROTOCOL_VERSION, readText, type ResponseMessage, Slot } from "../mcp/message.ts";
import { type Attempt, discoverAttempt, HANDSHAKE_ID, INITIALIZED, initializeAttempt, readHandshake } from "../process/handshake.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import { MAX_LIST_BYTES, readToolPages } from "../server/tools.ts";
import { DiscoverError, hasTools, type Listing, type ListingBounds, listingOf, TOOL_LIST_RULES } from "./listing.ts";

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
  const endpoint = new Endpoint(bounds, url, token);
  try {
    const handshake = await endpoint.shakeHands();
    const { protocolVersion, requestMeta: _meta } = handshake;
    if (!hasTools(handshake)) return listingOf(protocolVersion, undefined);
    const method = "tools/list";
    const pages = readToolPages(TOOL_LIST_RULES);
    let page = pages.next();
    for (let id = HANDSHAKE_ID + 1; page.done !== true; id++) {
      const text = JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...page.value, ...(_meta && { _meta }) } });
      const response = await endpoint.post(method, text, (body) => findResponse(body, id, method));
      page = pages.next(response.outline.textAt(Slot.result) ?? "");
    }
    return listingOf(protocolVersion, page.value);
  } finally {
    await endpoint.endSession();
  }
}

/** The URL of a server as a client without capabilities (MCP 2025-11-25 and 2026-07-28, basic/transports). */
class Endpoint {
  readonly #bounds: ListingBounds;
  /** Aborted when `discover` is interrupted, and at the end of its time. */
  readonly #signal: AbortSignal;
  readonly #url: URL;
  readonly #headers: Record<string, string> = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };

  constructor(bounds: ListingBounds, url: URL, token: string | undefined) {
    this.#bounds = bounds;
    this.#signal = AbortSignal.any([bounds.signal, AbortSignal.timeout(bounds.timeoutMs)]);
    this.#url = url;
    if (token !== undefined) this.#headers["Authorization"] = `Bearer ${token}`;
  }

  /** Begins a session, or finds out that the server has none. */
  async shakeHands(): Promise<UpstreamHandshake> {
    const { clientInfo } = this.#bounds;
    try {
      const handshake = await this.#begin(initializeAttempt(clientInfo));
      // Its response has no content.
      await this.post("notifications/initialized", INITIALIZED, () => undefined);
      return handshake;
    } catch (error) {
      if (!(error instanceof DiscoverError && error.cause === JsonRpcErrorCode.UnsupportedVersion)) throw error;
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
    const read = async (body: IncomingMessage): Promise<UpstreamHandshake> =>
      readHandshake(await findResponse(body, HANDSHAKE_ID, attempt.method), 1, attempt);
    const handshake = await this.post(attempt.method, attempt.request, read);
    this.#headers["MCP-Protocol-Version"] = handshake.protocolVersion;
    return handshake;
  }

  /** @throws DiscoverError with the code of a JSON-RPC error as its cause. */
  async post<Content>(method: string, text: string, read: (body: IncomingMessage) => Content): Promise<Awaited<Content>> {
    const signal = this.#signal;
    let body: IncomingMessage | undefined;
    try {
      // The method in a header is required without a session.
      body = await this.#send("POST", signal, { ...this.#headers, "Mcp-Method": method }, text);
      const { statusCode = 0, headers } = body;
      if (statusCode < 200 || statusCode > 299) await this.#refuse(body);
      const sessionId = headers["mcp-session-id"];
      if (typeof sessionId === "string") this.#headers["Mcp-Session-Id"] = sessionId;
      return await read(body);
    } catch (error) {
      const reason: unknown = signal.aborted ? signal.reason : error;
      if (reason instanceof DiscoverError) throw reason;
      if (signal.aborted) throw new DiscoverError(`no response to ${method} within ${this.#bounds.timeoutMs} ms of the start`);
      // A name with several addresses has one error per address.
      const { message, cause } = (error instanceof AggregateError ? error.errors[0] : error) as Error;
      throw new DiscoverError(`${this.#url.origin}${this.#url.pathname}: ${method}: ${message}`, undefined, cause);
    } finally {
      body?.destroy();
    }
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
