import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { StringDecoder } from "node:string_decoder";
import { createParser } from "eventsource-parser";
import { shorten } from "../../json/text.ts";
import { parseJson } from "../../json/values.ts";
import { isJsonObject, type JsonObject, readText, type ResponseMessage } from "../../protocol/message.ts";
import { DiscoverError } from "./listing.ts";
import { MAX_LIST_BYTES } from "./pages.ts";

/** The part of an error's body that is read. */
const MAX_ERROR_BYTES = 16 * 1024;
const MAX_REASON_LENGTH = 300;

export interface HttpMessage {
  readonly url: URL;
  readonly method: "POST" | "DELETE";
  readonly headers: Readonly<Record<string, string>>;
  /** A JSON-RPC message; undefined for DELETE. */
  readonly message?: JsonObject;
  readonly signal: AbortSignal;
}

export interface HttpAnswer {
  readonly sessionId: string | undefined;
  /** The JSON-RPC response to the request; undefined for a notification or DELETE. */
  readonly response: ResponseMessage | undefined;
  /** The number of bytes read of the body. */
  readonly bytes: number;
}

/**
 * Sends one request of Streamable HTTP (MCP 2025-11-25, basic/transports). The response is JSON, or the first response in an event stream.
 * Other messages of the stream are ignored: a client without capabilities only has to answer pings.
 *
 * @throws DiscoverError for a status other than 2xx, and for a response that is neither; else the error of the connection.
 */
export function exchange({ url, method, headers, message, signal }: HttpMessage): Promise<HttpAnswer> {
  const send = url.protocol === "https:" ? httpsRequest : httpRequest;
  const id = message?.["id"];
  return new Promise((resolve, reject) => {
    const request = send(url, { method, headers, signal, agent: false }, (response) => {
      const { statusCode = 0, statusMessage = "" } = response;
      const isGood = statusCode >= 200 && statusCode < 300;
      const mediaType = (response.headers["content-type"] ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
      const decoder = new StringDecoder("utf8");
      const pieces: string[] = [];
      let bytes = 0;
      const finish = (found: ResponseMessage | undefined): void => {
        const sessionId = response.headers["mcp-session-id"];
        resolve({ sessionId: typeof sessionId === "string" ? sessionId : undefined, response: found, bytes });
        response.destroy();
      };
      const fail = (reason: string): void => {
        reject(new DiscoverError(reason));
        response.destroy();
      };
      const failByStatus = (): void => {
        const reason = readReason(pieces.join(""), mediaType);
        fail(`HTTP ${statusCode}${statusMessage === "" ? "" : ` ${statusMessage}`}${reason === "" ? "" : `: ${reason}`}`);
      };
      // The buffer of the parser needs no limit, because the whole body has one.
      const events = createParser({
        onEvent: ({ data }) => {
          const found = findResponse(data, id);
          if (found !== undefined) finish(found);
        },
      });
      const isStream = isGood && mediaType === "text/event-stream";
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > MAX_LIST_BYTES) return fail(`the response is longer than ${MAX_LIST_BYTES} bytes`);
        const text = decoder.write(chunk);
        if (isStream) return events.feed(text);
        pieces.push(text);
        if (!isGood && bytes > MAX_ERROR_BYTES) failByStatus();
      });
      response.once("end", () => {
        if (!isGood) return failByStatus();
        if (id === undefined) return finish(undefined);
        if (isStream) return fail("the event stream ended without a response");
        if (mediaType !== "application/json")
          return fail(`the response is ${mediaType === "" ? "of no type" : mediaType}, not application/json`);
        const found = findResponse(pieces.join(""), id);
        if (found === undefined) return fail("the response is not a JSON-RPC response to the request");
        finish(found);
      });
      response.once("error", reject);
    });
    request.once("error", reject);
    // Has no effect if the promise is settled. A response that switches protocols (101) causes no other event.
    request.once("close", () => reject(new DiscoverError("the connection was closed without a response")));
    request.end(message === undefined ? undefined : JSON.stringify(message));
  });
}

/** Returns the response to request `id`, alone or in a batch of 2025-03-26. */
function findResponse(text: string, id: unknown): ResponseMessage | undefined {
  const reading = readText(text);
  const messages = reading.kind === "batch" ? reading.messages : [reading];
  return messages.find((message) => message.kind === "response" && message.id === id) as ResponseMessage | undefined;
}

/** Returns the message in the body of an error, in one line. */
function readReason(body: string, mediaType: string): string {
  if (mediaType === "application/json") {
    try {
      const value = parseJson(body);
      const error = isJsonObject(value) ? value["error"] : undefined;
      const message = isJsonObject(error) ? error["message"] : error;
      if (typeof message === "string") return shorten(message, MAX_REASON_LENGTH);
    } catch {
      // The body is shown unchanged.
    }
  }
  if (mediaType === "text/html") return "";
  return shorten(body.trim().split(/[\r\n]/, 1)[0] ?? "", MAX_REASON_LENGTH);
}
