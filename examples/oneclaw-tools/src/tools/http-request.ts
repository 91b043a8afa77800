import { validateHeaderName, validateHeaderValue } from "node:http";
import type { Response } from "undici";
import { type Context, type Tool, ToolError } from "../tool.ts";

/** The client sets them. */
const RESERVED = /^(?:__proto__|connection|content-length|expect|host|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade)$/i;

const OWN_HEADERS = { "user-agent": "oneclaw-tools" };
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const MAX_REDIRECTS = 20;
/** A body of a byte in each chunk would hold the thread, and the requests of others in it. */
const MAX_CHUNKS = 10_000;
const ABOUT_BODY = /^content-(?:encoding|language|location|type)$/;

interface Arguments {
  readonly url: string;
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

export const httpRequest: Tool = {
  name: "http_request",
  description: "Make an HTTP request to a URL",
  parameters: {
    type: "object",
    properties: {
      url: { type: "string", description: "The URL to request, with http or https", maxLength: 16_384 },
      method: { type: "string", enum: ["GET", "POST", "PUT", "DELETE"], description: "HTTP method. Default: GET" },
      headers: {
        type: "object",
        description: "Key-value pairs of HTTP headers",
        additionalProperties: { type: "string", maxLength: 16_384 },
        maxProperties: 100,
      },
      body: { type: "string", description: "Request body, not for GET" },
    },
    required: ["url"],
    additionalProperties: false,
  },
  permissions: ["INTERNET"],
  timeoutMs: 30_000,
  waitsFor: ({ url }: Arguments) => URL.parse(url)?.host ?? "",
  async execute({ url, method = "GET", headers = {}, body }: Arguments, { settings, signal }: Context): Promise<object> {
    const target = targetOf(url);
    if (method === "GET" && body !== undefined) throw new ToolError("A GET request has no body", "validation_error");
    const sent = { method, headers: headersFrom(headers), ...(body === undefined ? {} : { body }) };
    // Loaded here, since only this tool needs it.
    const [{ Agent, fetch }, { publicConnector }] = await Promise.all([import("undici"), import("./public-addresses.ts")]);
    // The time limit of the tool replaces those of the agent.
    const dispatcher = new Agent({
      headersTimeout: 0,
      bodyTimeout: 0,
      ...(settings.allowsPrivateAddresses ? {} : { connect: publicConnector() }),
    });
    try {
      const send = (to: URL, request: Sent): Promise<Response> => fetch(to, { ...request, dispatcher, signal, redirect: "manual" });
      const { response, ...redirect } = await follow(target, sent, send);
      const content = await readBody(response, settings.maxResponseBytes);
      return { status: response.status, ...redirect, headers: headersOf(response), ...content };
    } catch (error) {
      throw new ToolError(`The request to ${target.host} failed: ${reasonOf(error).slice(0, 500)}`);
    } finally {
      await dispatcher.destroy();
    }
  },
};

interface Sent {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/**
 * Follows redirects as browsers do, except to another origin: only a GET goes there, and without the headers of the caller, since any of
 * them may be a credential, as may the body. They are not sent after that either, even if the next redirect leads back.
 */
async function follow(
  target: URL,
  request: Sent,
  send: (url: URL, request: Sent) => Promise<Response>,
): Promise<{ readonly response: Response; readonly redirected_to?: string; readonly redirect_note?: string }> {
  let [url, sent] = [target, request];
  for (let redirects = 0; ; redirects += 1) {
    const response = await send(url, sent);
    const location = REDIRECTS.has(response.status) ? response.headers.get("location") : null;
    const from = redirects === 0 ? {} : { redirected_to: url.href };
    const note = sent.headers === OWN_HEADERS ? { redirect_note: "The headers of the call were not sent to another origin" } : {};
    if (location === null) return { response, ...from, ...note };
    if (redirects === MAX_REDIRECTS) throw new Error(`it has more than ${MAX_REDIRECTS} redirects`);
    const next = URL.parse(location, url);
    if (next === null || !/^https?:$/.test(next.protocol)) throw new Error("it redirects to a URL that is not one of http or https");
    if (next.username + next.password !== "") throw new Error("it redirects to a URL with credentials");
    if (response.status === 303 || (response.status < 303 && sent.method === "POST")) sent = asGet(sent);
    if (next.origin !== url.origin) {
      const redirect_note = `The ${sent.method} is not repeated at another origin, which is in the header location`;
      if (sent.method !== "GET") return { response, ...from, redirect_note };
      sent = { method: "GET", headers: OWN_HEADERS };
    }
    await response.body?.cancel();
    url = next;
  }
}

function asGet({ headers }: Sent): Sent {
  return { method: "GET", headers: Object.fromEntries(Object.entries(headers).filter(([name]) => !ABOUT_BODY.test(name))) };
}

function targetOf(url: string): URL {
  const target = URL.parse(url);
  if (target === null || !/^https?:$/.test(target.protocol)) {
    throw new ToolError("The URL must be absolute, and begin with http:// or https://", "validation_error");
  }
  if (target.username + target.password !== "") {
    throw new ToolError("The URL has credentials. Send them in the header Authorization", "validation_error");
  }
  return target;
}

function headersFrom(headers: Readonly<Record<string, string>>): Record<string, string> {
  const checked = new Map<string, string>();
  for (const [name, value] of Object.entries(headers)) {
    const shown = JSON.stringify(name.slice(0, 100));
    if (RESERVED.test(name)) throw new ToolError(`The header ${shown} cannot be set`, "validation_error");
    if (checked.has(name.toLowerCase())) throw new ToolError(`The header ${shown} is set twice`, "validation_error");
    try {
      validateHeaderName(name);
      validateHeaderValue(name, value);
    } catch {
      throw new ToolError(`The header ${shown} has a name or a value that HTTP does not allow`, "validation_error");
    }
    checked.set(name.toLowerCase(), value);
  }
  return { ...OWN_HEADERS, ...Object.fromEntries(checked) };
}

/** Counts decoded bytes, so that a small compressed body cannot become a large one. */
async function readBody(response: Response, most: number): Promise<object> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > most) break;
    if (chunks.length > MAX_CHUNKS) throw new Error(`the response has more than ${MAX_CHUNKS} parts`);
  }
  const isTruncated = length > most;
  const bytes = Buffer.concat(chunks).subarray(0, most);
  const type = response.headers.get("content-type") ?? "unknown type";
  const text = textOf(bytes, /charset="?([^";\s]+)/i.exec(type)?.[1], isTruncated);
  const note = `The body is binary (${type}), and is not shown`;
  return { body: text ?? "", ...(text === undefined ? { note } : {}), ...(isTruncated ? { truncated: true, limit_bytes: most } : {}) };
}

/** @returns undefined if the body is not text. */
function textOf(bytes: Buffer, charset: string | undefined, isTruncated: boolean): string | undefined {
  try {
    const text = new TextDecoder(charset, { fatal: true }).decode(bytes, { stream: isTruncated });
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

function headersOf({ headers }: Response): Record<string, string> {
  return Object.fromEntries([...headers.keys()].map((name) => [name, headers.get(name) ?? ""]));
}

/** `fetch` wraps the error of the network. One of several addresses has an error without a message, as has the status 407. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "AssertionError") return "the response has an invalid status";
  if (error.cause instanceof Error) return reasonOf(error.cause);
  return error instanceof AggregateError && error.message === ""
    ? error.errors.map(reasonOf).join(", ")
    : error.message || "the response cannot be used";
}
