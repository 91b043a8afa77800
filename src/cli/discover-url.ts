import { type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { setImmediate as nextTurn } from "node:timers/promises";
import { createParser } from "eventsource-parser";
import { OPTIONS } from "../config/options.ts";
import { shorten } from "../json/text.ts";
import { parseJson } from "../json/value.ts";
import { describeError, JsonRpcErrorCode, type SidecarErrorCode } from "../mcp/errors.ts";
import { isJsonObject, type JsonObject, readInSteps, type ResponseMessage, Slot } from "../mcp/message.ts";
import { NEWEST_LEGACY_PROTOCOL_VERSION, NEWEST_MODERN_PROTOCOL_VERSION } from "../mcp/versions.ts";
import { type Attempt, discoverAttempt, HANDSHAKE_ID, HandshakeError, readHandshake } from "../process/handshake.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import { MAX_LIST_BYTES } from "../server/tools.ts";
import { DiscoverError, endedError, type Listing, type ListingBounds, listTools, resultTextOf } from "./listing.ts";

/** The part of an error's body that is read. */
const MAX_ERROR_BYTES = 16 * 1024;
const MAX_REASON_LENGTH = 300;
/** The limit for the lines of an event stream. The parser takes about 64 bytes for each line of an event, even for an empty one. */
const MAX_STREAM_LINES = 1_000_000;

/** A response with a status other than 2xx. */
class HttpError extends DiscoverError {
  /** The JSON-RPC error in the body; undefined if there is none. */
  readonly rpcError: JsonObject | undefined;

  constructor(message: string, rpcError: JsonObject | undefined) {
    super(message);
    this.rpcError = rpcError;
  }
}

/**
 * Sends one request of Streamable HTTP (MCP 2025-11-25 and 2026-07-28, basic/transports). The response is JSON, or the first response in an event stream.
 * Other messages of the stream are ignored: a client without capabilities only has to answer pings.
 *
 * @param message a JSON-RPC message; undefined for DELETE.
 * @returns no response to a notification or DELETE.
 * @throws HttpError for a status other than 2xx, and DiscoverError for a response that is neither; else the error of the connection, or of
 * the signal.
 */
async function reply(
  url: URL,
  method: "POST" | "DELETE",
  headers: Readonly<Record<string, string>>,
  message: JsonObject | undefined,
  signal: AbortSignal,
): Promise<{ readonly sessionId: string | undefined; readonly response: ResponseMessage | undefined }> {
  const start = url.protocol === "https:" ? httpsRequest : httpRequest;
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const request = start(url, { method, headers, signal, agent: false }, resolve);
    request.on("error", reject);
    // Has no effect if the promise is settled. A response that switches protocols (101) causes no other event.
    request.once("close", () => reject(new DiscoverError("the connection was closed without a response")));
    request.end(message === undefined ? undefined : JSON.stringify(message));
  });
  try {
    const sessionId = response.headers["mcp-session-id"];
    return {
      sessionId: typeof sessionId === "string" ? sessionId : undefined,
      response: await readResponse(response, message?.["id"], signal),
    };
  } finally {
    response.destroy();
  }
}

/** @param id that of the request; undefined if no response is expected, so that the body is ignored. */
async function readResponse(response: IncomingMessage, id: unknown, signal: AbortSignal): Promise<ResponseMessage | undefined> {
  const { statusCode = 0, statusMessage = "" } = response;
  const mediaType = (response.headers["content-type"] ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
  if (statusCode < 200 || statusCode > 299) {
    const body = await readBeginning(response);
    const error = mediaType === "application/json" ? errorOf(body) : undefined;
    const reason = describeBody(body, error, mediaType);
    const status = `HTTP ${statusCode}${statusMessage === "" ? "" : ` ${statusMessage}`}`;
    throw new HttpError(`${status}${reason === "" ? "" : `: ${reason}`}`, isJsonObject(error) ? error : undefined);
  }
  if (id !== undefined && mediaType === "text/event-stream") return readEvents(response, id, signal);
  const pieces: string[] = [];
  for await (const piece of readBody(response)) if (id !== undefined) pieces.push(piece);
  if (id === undefined) return undefined;
  if (mediaType !== "application/json")
    throw new DiscoverError(`the response is ${mediaType === "" ? "of no type" : mediaType}, not application/json`);
  const found = await findResponse(pieces.join(""), id, signal);
  if (found === undefined) throw new DiscoverError("the response is not a JSON-RPC response to the request");
  return found;
}

async function readEvents(response: IncomingMessage, id: unknown, signal: AbortSignal): Promise<ResponseMessage> {
  const events: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => events.push(data) });
  let lines = 0;
  for await (const piece of readBody(response)) {
    lines += piece.match(/\r\n?|\n/g)?.length ?? 0;
    if (lines > MAX_STREAM_LINES) throw new DiscoverError(`the event stream has more than ${MAX_STREAM_LINES} lines`);
    parser.feed(piece);
    for (const text of events.splice(0)) {
      const found = await findResponse(text, id, signal);
      if (found !== undefined) return found;
    }
  }
  throw new DiscoverError("the event stream ended without a response");
}

/** Yields the text of a body. @throws DiscoverError if it is too long. */
async function* readBody(response: IncomingMessage): AsyncGenerator<string> {
  let bytes = 0;
  for await (const piece of response.setEncoding("utf8") as AsyncIterable<string>) {
    bytes += Buffer.byteLength(piece);
    if (bytes > MAX_LIST_BYTES) throw new DiscoverError(`the response is longer than ${MAX_LIST_BYTES} bytes`);
    yield piece;
  }
}

async function readBeginning(response: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of readBody(response)) {
    text += piece;
    if (text.length > MAX_ERROR_BYTES) break;
  }
  return text;
}

/** Returns the response to request `id`, alone or in a batch of 2025-03-26. Checks the signal between two steps of a long text. */
async function findResponse(text: string, id: unknown, signal: AbortSignal): Promise<ResponseMessage | undefined> {
  const steps = readInSteps(text, "server");
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) {
    await nextTurn();
    signal.throwIfAborted();
  }
  const messages = step.value.kind === "batch" ? step.value.messages : [step.value];
  return messages.find((message) => message.kind === "response" && message.id === id) as ResponseMessage | undefined;
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

/** Returns the message in the body of an error, in one line. */
function describeBody(body: string, error: unknown, mediaType: string): string {
  const message = isJsonObject(error) ? error["message"] : error;
  if (typeof message === "string") return shorten(message, MAX_REASON_LENGTH);
  if (mediaType === "text/html") return "";
  return shorten(body.trim().split(/[\r\n]/, 1)[0] ?? "", MAX_REASON_LENGTH);
}

/** Time limit of the DELETE of the session, which otherwise ends by itself. */
const DELETE_TIMEOUT_MS = 2000;
const UNAUTHORIZED = /^HTTP 401/;
const UNSUPPORTED_PROTOCOL_VERSION: SidecarErrorCode = "UNSUPPORTED_PROTOCOL_VERSION";

/**
 * Lists the tools of a running Streamable HTTP server: in a new session, which is ended, or without one if the server has no sessions.
 *
 * @throws DiscoverError if the listing fails.
 */
export async function listFromUrl(bounds: ListingBounds, url: URL, token: string | undefined): Promise<Listing> {
  const endpoint = new Endpoint(bounds, url, token);
  try {
    return await listInSession(endpoint);
  } catch (error) {
    if (!(error instanceof HttpError && needsModernClient(error.rpcError))) throw error;
  } finally {
    // Ignores errors: the server may not support DELETE, or have stopped.
    if (endpoint.headers["Mcp-Session-Id"] !== undefined) await endpoint.delete().catch(() => undefined);
  }
  return listStateless(endpoint);
}

/** True for the answer to `initialize` of a server, or of a sidecar, that knows only revisions without sessions. */
function needsModernClient(error: JsonObject | undefined): boolean {
  const data = error?.["data"];
  return error?.["code"] === JsonRpcErrorCode.UnsupportedVersion || (isJsonObject(data) && data["code"] === UNSUPPORTED_PROTOCOL_VERSION);
}

/** The URL of a server, with the headers of all requests. */
class Endpoint {
  readonly headers: Record<string, string> = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
  };
  readonly bounds: ListingBounds;
  readonly #url: URL;
  readonly #token: string | undefined;

  constructor(bounds: ListingBounds, url: URL, token: string | undefined) {
    this.bounds = bounds;
    this.#url = url;
    this.#token = token;
    if (token !== undefined) this.headers["Authorization"] = `Bearer ${token}`;
  }

  /** Posts a request. @param message its JSON-RPC message, with an id. */
  async request(method: string, message: JsonObject) {
    const { response, sessionId } = await this.post(method, message);
    if (response === undefined) throw this.error(method, "no response");
    return { response, sessionId };
  }

  async post(method: string, message: JsonObject): ReturnType<typeof reply> {
    const { signal } = this.bounds;
    try {
      return await reply(this.#url, "POST", this.headers, message, signal);
    } catch (error) {
      if (signal.aborted) throw endedError(this.bounds, method);
      // For a name with several addresses, the message is empty, and `errors` has one error per address.
      const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
      const reason = describeError(first) || ((first as NodeJS.ErrnoException).code ?? "the connection failed");
      const described = this.error(method, reason);
      throw error instanceof HttpError ? new HttpError(described.message, error.rpcError) : described;
    }
  }

  async delete(): Promise<void> {
    await reply(this.#url, "DELETE", this.headers, undefined, AbortSignal.timeout(DELETE_TIMEOUT_MS));
  }

  error(method: string, reason: string): DiscoverError {
    const { origin, pathname } = this.#url;
    const advice = UNAUTHORIZED.test(reason) ? ` (${this.#token === undefined ? "set" : "see"} ${OPTIONS.authToken.variable})` : "";
    return new DiscoverError(`${origin}${pathname}: ${method}: ${reason}${advice}`);
  }
}

/** Lists the tools of a server with `initialize`, in a new session if it has sessions. */
async function listInSession(endpoint: Endpoint): Promise<Listing> {
  const { bounds, headers } = endpoint;
  let lastId = 0;
  const request = (method: string, params: JsonObject): ReturnType<Endpoint["request"]> =>
    endpoint.request(method, { jsonrpc: "2.0", id: ++lastId, method, params });
  const params = { protocolVersion: NEWEST_LEGACY_PROTOCOL_VERSION, capabilities: {}, clientInfo: bounds.clientInfo };
  const { response, sessionId } = await request("initialize", params);
  const resultText = resultTextOf(response, "initialize");
  const protocolVersion = response.outline.stringAt(Slot.protocolVersion);
  if (protocolVersion === undefined) throw endpoint.error("initialize", "the response has no protocolVersion");
  if (sessionId !== undefined) headers["Mcp-Session-Id"] = sessionId;
  headers["MCP-Protocol-Version"] = protocolVersion;
  await endpoint.post("notifications/initialized", { jsonrpc: "2.0", method: "notifications/initialized" });
  return listTools(protocolVersion, resultText, async (page) => (await request("tools/list", page)).response);
}

/** Lists the tools of a server without sessions (MCP 2026-07-28, basic/transports). Each request names its method in a header too. */
async function listStateless(endpoint: Endpoint): Promise<Listing> {
  const { bounds, headers } = endpoint;
  const discovery = discoverAttempt(bounds.clientInfo);
  headers["MCP-Protocol-Version"] = NEWEST_MODERN_PROTOCOL_VERSION;
  const request = async (message: JsonObject): Promise<ResponseMessage> => {
    const method = String(message["method"]);
    headers["Mcp-Method"] = method;
    return (await endpoint.request(method, message)).response;
  };
  const discovered = await request(parseJson(discovery.request) as JsonObject);
  const { resultText, protocolVersion, requestMeta } = readDiscovery(discovery, discovered, endpoint);
  headers["MCP-Protocol-Version"] = protocolVersion;
  let lastId = HANDSHAKE_ID;
  return listTools(protocolVersion, resultText, (page) =>
    request({ jsonrpc: "2.0", id: ++lastId, method: "tools/list", params: { ...page, _meta: requestMeta } }),
  );
}

function readDiscovery(discovery: Attempt, response: ResponseMessage, endpoint: Endpoint): UpstreamHandshake {
  try {
    return readHandshake(response, 1, discovery);
  } catch (error) {
    throw error instanceof HandshakeError ? endpoint.error("server/discover", error.message) : error;
  }
}
