import { validateHeaderName, validateHeaderValue } from "node:http";
import type { Response } from "undici";
import { type Context, type Tool, ToolError } from "../tool.ts";

/** The client sets them. */
const RESERVED = /^(?:__proto__|connection|content-length|expect|host|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade)$/i;

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
  async execute({ url, method = "GET", headers = {}, body }: Arguments, { settings, signal }: Context): Promise<object> {
    const target = targetOf(url);
    if (method === "GET" && body !== undefined) throw new ToolError("A GET request has no body", "validation_error");
    const sent = headersFrom(headers);
    // Loaded here, since only this tool needs it.
    const [{ Agent, fetch }, { publicConnector }] = await Promise.all([import("undici"), import("./public-addresses.ts")]);
    // The time limit of the tool replaces those of the agent.
    const dispatcher = new Agent({
      headersTimeout: 0,
      bodyTimeout: 0,
      ...(settings.allowsPrivateAddresses ? {} : { connect: publicConnector() }),
    });
    try {
      const request = { method, headers: sent, dispatcher, signal };
      const response = await fetch(target, body === undefined ? request : { ...request, body });
      const content = await readBody(response, settings.maxResponseBytes);
      const from = response.redirected ? { redirected_to: response.url } : {};
      return { status: response.status, ...from, headers: headersOf(response), ...content };
    } catch (error) {
      throw new ToolError(`The request to ${target.host} failed: ${reasonOf(error).slice(0, 500)}`);
    } finally {
      await dispatcher.destroy();
    }
  },
};

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
  return { "user-agent": "oneclaw-tools", ...Object.fromEntries(checked) };
}

/** Counts decoded bytes, so that a small compressed body cannot become a large one. */
async function readBody(response: Response, most: number): Promise<object> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > most) break;
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
