import { type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { setImmediate as nextTurn } from "node:timers/promises";
import { createParser } from "eventsource-parser";
import { shorten } from "../../json/text.ts";
import { parseJson } from "../../json/values.ts";
import { MAX_LIST_BYTES } from "../../lane/tools/tool-pages.ts";
import { isJsonObject, type JsonObject, readInSteps, type ResponseMessage } from "../../protocol/message.ts";
import { DiscoverError } from "./listing.ts";

/** The part of an error's body that is read. */
const MAX_ERROR_BYTES = 16 * 1024;
const MAX_REASON_LENGTH = 300;
/** The limit for the lines of an event stream. The parser takes about 64 bytes for each line of an event, even for an empty one. */
const MAX_STREAM_LINES = 1_000_000;

export interface HttpMessage {
  readonly url: URL;
  readonly method: "POST" | "DELETE";
  readonly headers: Readonly<Record<string, string>>;
  /** A JSON-RPC message; undefined for DELETE. */
  readonly message?: JsonObject;
  readonly signal: AbortSignal;
}

/** A response with a status other than 2xx. */
export class HttpError extends DiscoverError {
  /** The JSON-RPC error in the body; undefined if there is none. */
  readonly rpcError: JsonObject | undefined;

  constructor(message: string, rpcError: JsonObject | undefined) {
    super(message);
    this.rpcError = rpcError;
  }
}

export interface HttpAnswer {
  readonly sessionId: string | undefined;
  /** The JSON-RPC response to the request; undefined for a notification or DELETE. */
  readonly response: ResponseMessage | undefined;
}

/**
 * Sends one request of Streamable HTTP (MCP 2025-11-25 and 2026-07-28, basic/transports). The response is JSON, or the first response in an event stream.
 * Other messages of the stream are ignored: a client without capabilities only has to answer pings.
 *
 * @throws HttpError for a status other than 2xx, and DiscoverError for a response that is neither; else the error of the connection, or of
 * the signal.
 */
export async function exchange(message: HttpMessage): Promise<HttpAnswer> {
  const response = await send(message);
  try {
    const sessionId = response.headers["mcp-session-id"];
    return {
      sessionId: typeof sessionId === "string" ? sessionId : undefined,
      response: await readResponse(response, message.message?.["id"], message.signal),
    };
  } finally {
    response.destroy();
  }
}

function send({ url, method, headers, message, signal }: HttpMessage): Promise<IncomingMessage> {
  const start = url.protocol === "https:" ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const request = start(url, { method, headers, signal, agent: false }, resolve);
    request.on("error", reject);
    // Has no effect if the promise is settled. A response that switches protocols (101) causes no other event.
    request.once("close", () => reject(new DiscoverError("the connection was closed without a response")));
    request.end(message === undefined ? undefined : JSON.stringify(message));
  });
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
