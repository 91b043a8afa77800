import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request as httpRequest, type RequestOptions } from "node:http";
import { request as httpsRequest } from "node:https";

export type Headers = Readonly<Record<string, string>>;

export interface HttpReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface HttpCall {
  readonly method?: string;
  readonly headers?: Headers;
  readonly body?: string | Buffer;
  readonly signal?: AbortSignal;
  readonly agent?: RequestOptions["agent"];
}

export interface StartedRequest {
  readonly request: ClientRequest;
  /** Resolves when the response begins. */
  readonly response: Promise<IncomingMessage>;
}

/** Begins one HTTP exchange exactly as given: nothing is added and nothing is hidden. */
export function startRequest(url: string | URL, { method = "POST", headers = {}, body, signal, agent }: HttpCall = {}): StartedRequest {
  const options: RequestOptions = { method, headers };
  if (signal !== undefined) options.signal = signal;
  if (agent !== undefined) options.agent = agent;
  const request = new URL(url).protocol === "https:" ? httpsRequest(url, options) : httpRequest(url, options);
  const response = new Promise<IncomingMessage>((resolve, reject) => {
    request.once("response", resolve);
    request.on("error", reject);
  });
  request.end(body);
  return { request, response };
}

/** Makes one HTTP exchange, read to its end. @throws if the connection breaks. */
export async function send(url: string | URL, call: HttpCall = {}): Promise<HttpReply> {
  const response = await startRequest(url, call).response;
  const body = Buffer.concat((await response.toArray()) as Buffer[]).toString();
  return { status: response.statusCode ?? 0, headers: response.headers, body };
}
