import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { StringDecoder } from "node:string_decoder";
import { createParser } from "eventsource-parser";
import { shorten } from "../json/text.ts";
import { parseJson } from "../json/values.ts";
import { isJsonObject, type JsonObject, readText, type ResponseMessage } from "../jsonrpc/message.ts";
import { DiscoverError } from "./discover-listing.ts";
import { MAX_LIST_BYTES } from "./discover-pages.ts";

/** Of an error's body; more than that says nothing more. */
const MAX_ERROR_BYTES = 16 * 1024;
const MAX_REASON_LENGTH = 300;

export interface HttpMessage {
  readonly url: URL;
  readonly method: "POST" | "DELETE";
  readonly headers: Readonly<Record<string, string>>;
  /** A JSON-RPC message; none for DELETE. */
  readonly message?: JsonObject;
  readonly signal: AbortSignal;
}

export interface HttpAnswer {
  readonly sessionId: string | undefined;
  /** The JSON-RPC response to the request; undefined where there was none in a good answer. */
  readonly response: ResponseMessage | undefined;
  /** Bytes of the body that were read. */
  readonly bytes: number;
}

/**
 * One exchange of a client of Streamable HTTP (MCP 2025-11-25, basic/transports): the answer is JSON, or the first response in a stream
 * of events. What else comes on the stream is passed over: a client without capabilities has nothing to answer but pings.
 *
 * @throws DiscoverError for a status other than 2xx, and for an answer that is neither; else the error of the connection.
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
      // Its buffer needs no limit of its own: the length of the whole body has one.
      const events = createParser({
        onEvent: ({ data }) => {
          const found = findResponse(data, id);
          if (found !== undefined) finish(found);
        },
      });
      const isStream = isGood && mediaType === "text/event-stream";
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > MAX_LIST_BYTES) return fail(`its answer is longer than ${MAX_LIST_BYTES} bytes`);
        const text = decoder.write(chunk);
        if (isStream) return events.feed(text);
        pieces.push(text);
        if (!isGood && bytes > MAX_ERROR_BYTES) failByStatus();
      });
      response.once("end", () => {
        if (!isGood) return failByStatus();
        if (id === undefined) return finish(undefined);
        if (isStream) return fail("the event stream ended without an answer");
        if (mediaType !== "application/json")
          return fail(`the answer is ${mediaType === "" ? "nothing" : mediaType}, not application/json`);
        const found = findResponse(pieces.join(""), id);
        if (found === undefined) return fail("the answer is no JSON-RPC response to it");
        finish(found);
      });
      response.once("error", reject);
    });
    request.once("error", reject);
    // Where it was settled before, this is nothing; an answer that switches protocols (101) comes to no other event.
    request.once("close", () => reject(new DiscoverError("the connection was closed without an answer")));
    request.end(message === undefined ? undefined : JSON.stringify(message));
  });
}

/** The response to request `id`, alone or in a batch of 2025-03-26. */
function findResponse(text: string, id: unknown): ResponseMessage | undefined {
  const reading = readText(text);
  const messages = reading.kind === "batch" ? reading.messages : [reading];
  return messages.find((message) => message.kind === "response" && message.id === id) as ResponseMessage | undefined;
}

/** What the body of an error says, in one line. */
function readReason(body: string, mediaType: string): string {
  if (mediaType === "application/json") {
    try {
      const value = parseJson(body);
      const error = isJsonObject(value) ? value["error"] : undefined;
      const message = isJsonObject(error) ? error["message"] : error;
      if (typeof message === "string") return shorten(message, MAX_REASON_LENGTH);
    } catch {
      // Then it is shown as it is.
    }
  }
  if (mediaType === "text/html") return "";
  return shorten(body.trim().split(/[\r\n]/, 1)[0] ?? "", MAX_REASON_LENGTH);
}
