import { type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { createParser } from "eventsource-parser";
import { OPTIONS } from "../config/options.ts";
import { findMembers, stringOf, textOf } from "../json/find.ts";
import { shorten } from "../json/text.ts";
import { parseJson } from "../json/value.ts";
import { describeError, JsonRpcErrorCode, type SidecarErrorCode } from "../mcp/errors.ts";
import { isJsonObject, type JsonObject, NEWEST_MODERN_PROTOCOL_VERSION, readText, type ResponseMessage, Slot } from "../mcp/message.ts";
import { type Attempt, discoverAttempt, HANDSHAKE_ID, INITIALIZED, initializeAttempt, readHandshake } from "../process/handshake.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import { MAX_LIST_BYTES, readToolPages } from "../server/tools.ts";
import { DiscoverError, hasTools, type Listing, type ListingBounds, listingOf, TOOL_LIST_RULES } from "./listing.ts";

/** The part of an error's body that is read. */
const MAX_ERROR_LENGTH = 16 * 1024;
const MAX_REASON_LENGTH = 300;
const MAX_SHOWN_LENGTH = 500;
/** The limit for the lines of an event stream. The parser takes about 64 bytes for each line of an event, even for an empty one. */
const MAX_STREAM_LINES = 1_000_000;
/** Time limit of the DELETE of the session, which otherwise ends by itself. */
const DELETE_TIMEOUT_MS = 2000;
const UNAUTHORIZED = 401;
const UNSUPPORTED_PROTOCOL_VERSION: SidecarErrorCode = "UNSUPPORTED_PROTOCOL_VERSION";

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
    const pages = readToolPages(TOOL_LIST_RULES);
    let page = pages.next();
    while (page.done !== true) page = pages.next(await endpoint.request("tools/list", { ...page.value, ...(_meta && { _meta }) }));
    return listingOf(protocolVersion, page.value);
  } finally {
    await endpoint.endSession();
  }
}

/** A response with a status other than 2xx. */
class HttpError extends Error {
  readonly status: number;
  /** True for the answer to `initialize` of a server, or of a sidecar, that knows only revisions without sessions. */
  readonly needsModernClient: boolean;

  /** @param error the member `error` of the body. */
  constructor({ statusCode = 0, statusMessage = "" }: IncomingMessage, reason: string, error: unknown) {
    super(`HTTP ${statusCode}${statusMessage && ` ${statusMessage}`}${reason && `: ${reason}`}`);
    this.status = statusCode;
    const { code, data } = isJsonObject(error) ? error : {};
    this.needsModernClient =
      code === JsonRpcErrorCode.UnsupportedVersion || (isJsonObject(data) && data["code"] === UNSUPPORTED_PROTOCOL_VERSION);
  }
}

/** The URL of a server as a client without capabilities (MCP 2025-11-25 and 2026-07-28, basic/transports). */
class Endpoint {
  readonly #bounds: ListingBounds;
  /** Aborted when `discover` is interrupted, and at the end of its time. */
  readonly #signal: AbortSignal;
  readonly #url: URL;
  readonly #headers: Record<string, string> = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  #lastId = HANDSHAKE_ID;

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
      await this.#post("notifications/initialized", INITIALIZED, () => undefined);
      return handshake;
    } catch (error) {
      if (!(error instanceof DiscoverError && error.cause instanceof HttpError && error.cause.needsModernClient)) throw error;
    }
    this.#headers["MCP-Protocol-Version"] = NEWEST_MODERN_PROTOCOL_VERSION;
    return this.#begin(discoverAttempt(clientInfo));
  }

  /** @returns the JSON text of the result. */
  async request(method: string, params: JsonObject): Promise<string> {
    const id = ++this.#lastId;
    const text = JSON.stringify({ jsonrpc: "2.0", id, method, params });
    return resultTextOf(await this.#post(method, text, (response) => findResponse(response, id)), method);
  }

  /** Ends the session, if there is one. Ignores errors: the server may not support DELETE, or have stopped. */
  async endSession(): Promise<void> {
    if (this.#headers["Mcp-Session-Id"] === undefined) return;
    const response = await this.#send("DELETE", AbortSignal.timeout(DELETE_TIMEOUT_MS), this.#headers).catch(() => undefined);
    response?.destroy();
  }

  async #begin(attempt: Attempt): Promise<UpstreamHandshake> {
    const { method, request } = attempt;
    const response = await this.#post(method, request, (body) => findResponse(body, HANDSHAKE_ID));
    // Its error has the message of the server only.
    resultTextOf(response, method);
    try {
      const handshake = readHandshake(response, 1, attempt);
      this.#headers["MCP-Protocol-Version"] = handshake.protocolVersion;
      return handshake;
    } catch (error) {
      throw this.#error(method, describeError(error));
    }
  }

  async #post<Content>(method: string, text: string, read: (response: IncomingMessage) => Content): Promise<Awaited<Content>> {
    const signal = this.#signal;
    let response: IncomingMessage | undefined;
    try {
      // The method in a header is required without a session.
      response = await this.#send("POST", signal, { ...this.#headers, "Mcp-Method": method }, text);
      await refuseStatus(response);
      const sessionId = response.headers["mcp-session-id"];
      if (typeof sessionId === "string") this.#headers["Mcp-Session-Id"] = sessionId;
      return await read(response);
    } catch (error) {
      const reason: unknown = signal.reason;
      if (signal.aborted)
        throw reason instanceof DiscoverError
          ? reason
          : new DiscoverError(`no response to ${method} within ${this.#bounds.timeoutMs} ms of the start`);
      // For a name with several addresses, the message is empty, and `errors` has one error per address.
      const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
      throw this.#error(method, describeError(first) || ((first as NodeJS.ErrnoException).code ?? "the connection failed"), error);
    } finally {
      response?.destroy();
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

  #error(method: string, reason: string, cause?: unknown): DiscoverError {
    const { origin, pathname } = this.#url;
    const isUnauthorized = cause instanceof HttpError && cause.status === UNAUTHORIZED;
    const verb = this.#headers["Authorization"] === undefined ? "set" : "see";
    const advice = isUnauthorized ? ` (${verb} ${OPTIONS.authToken.variable})` : "";
    return new DiscoverError(`${origin}${pathname}: ${method}: ${reason}${advice}`, undefined, cause);
  }
}

/** Finds the response to a request in a body: in JSON, or an event stream, whose other messages are ignored. */
async function findResponse(response: IncomingMessage, id: number): Promise<ResponseMessage> {
  const mediaType = mediaTypeOf(response);
  const isStream = mediaType === "text/event-stream";
  if (!isStream && mediaType !== "application/json")
    throw new Error(`the response is ${mediaType === "" ? "of no type" : mediaType}, not application/json`);
  /** The parts of JSON, or the events that are not read yet. */
  const texts: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => texts.push(data) });
  let lines = 0;
  for await (const piece of readBody(response)) {
    if (!isStream) {
      texts.push(piece);
      continue;
    }
    lines += piece.match(/\r\n?|\n/g)?.length ?? 0;
    if (lines > MAX_STREAM_LINES) throw new Error(`the event stream has more than ${MAX_STREAM_LINES} lines`);
    parser.feed(piece);
    for (const text of texts.splice(0)) {
      const found = responseIn(text, id);
      if (found !== undefined) return found;
    }
  }
  const found = isStream ? undefined : responseIn(texts.join(""), id);
  if (found !== undefined) return found;
  throw new Error(isStream ? "the event stream ended without a response" : "the response is not a JSON-RPC response to the request");
}

/** Returns the response in a message, or in a batch of 2025-03-26. */
function responseIn(text: string, id: number): ResponseMessage | undefined {
  const read = readText(text, "server");
  const messages = read.kind === "batch" ? read.messages : [read];
  return messages.find((message) => message.kind === "response" && message.id === id) as ResponseMessage | undefined;
}

/** @throws HttpError for a status other than 2xx, with the message in its body, in one line. */
async function refuseStatus(response: IncomingMessage): Promise<void> {
  const { statusCode = 0 } = response;
  if (statusCode >= 200 && statusCode <= 299) return;
  let body = "";
  for await (const piece of readBody(response)) {
    body += piece;
    if (body.length > MAX_ERROR_LENGTH) break;
  }
  const mediaType = mediaTypeOf(response);
  const error = mediaType === "application/json" ? errorOf(body) : undefined;
  const message = isJsonObject(error) ? error["message"] : error;
  // A page for browsers says nothing in its first line.
  const line = mediaType === "text/html" ? "" : (body.trim().split(/[\r\n]/, 1)[0] ?? "");
  throw new HttpError(response, shorten(typeof message === "string" ? message : line, MAX_REASON_LENGTH), error);
}

/** Returns the member `error` of a JSON body; undefined if there is none. */
function errorOf(body: string): unknown {
  try {
    const value = parseJson(body);
    return isJsonObject(value) ? value["error"] : undefined;
  } catch {
    // The body is shown unchanged.
    return undefined;
  }
}

function mediaTypeOf({ headers }: IncomingMessage): string {
  return (headers["content-type"] ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
}

/** Yields the text of a body, up to the limit. */
async function* readBody(response: IncomingMessage): AsyncGenerator<string> {
  let bytes = 0;
  for await (const piece of response.setEncoding("utf8") as AsyncIterable<string>) {
    bytes += Buffer.byteLength(piece);
    if (bytes > MAX_LIST_BYTES) throw new Error(`the response is longer than ${MAX_LIST_BYTES} bytes`);
    yield piece;
  }
}

/** Returns the JSON text of a response's result. @throws DiscoverError if the response is an error. */
function resultTextOf({ outline, isError }: ResponseMessage, method: string): string {
  if (!isError) return outline.textAt(Slot.result) ?? "";
  const error = outline.textAt(Slot.error) ?? "";
  const [code, message] = error.startsWith("{") ? findMembers(error, 0, ["code", "message"]).spans : [];
  const said = stringOf(error, message);
  const reason = said === undefined ? error : `${said} (code ${textOf(error, code)})`;
  throw new DiscoverError(`the server answered ${method} with an error: ${shorten(reason, MAX_SHOWN_LENGTH)}`);
}
