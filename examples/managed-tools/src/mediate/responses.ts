import type { Context } from "hono";
import { proxy } from "hono/proxy";
import { stream } from "hono/streaming";
import type { JsonObject } from "../manifest.ts";
import { ANTHROPIC } from "./anthropic.ts";
import type { Format } from "./format.ts";
import { OPENAI } from "./openai.ts";
import type { TurnEnd } from "./turn.ts";

/** Headers of a connection. The others reach the model, with the key of the runner among them. */
const HOP_HEADERS = [
  "accept-encoding",
  "connection",
  "content-length",
  "expect",
  "host",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];
const READ_TIMEOUT_MS = 60_000;
/** Headers of an error that runners act on. */
const ERROR_HEADERS = ["retry-after", "request-id", "x-request-id"];

/** Returns the format of the client. Those of Anthropic send a version with all paths. */
export function formatOf(context: Context): Format {
  const isAnthropic = context.req.header("anthropic-version") !== undefined || context.req.path.endsWith(ANTHROPIC.path);
  return isAnthropic ? ANTHROPIC : OPENAI;
}

/** Returns the headers for the model. @param modelKey replaces the key of the runner; undefined to pass that on. */
export function headersFor(context: Context, modelKey: string | undefined): Headers {
  const headers = new Headers(context.req.raw.headers);
  for (const name of HOP_HEADERS) headers.delete(name);
  if (modelKey === undefined) return headers;
  headers.delete("authorization");
  headers.delete("x-api-key");
  if (formatOf(context) === ANTHROPIC) headers.set("x-api-key", modelKey);
  else headers.set("authorization", `Bearer ${modelKey}`);
  return headers;
}

/** Passes a request on as it is. */
export async function passOn(context: Context, target: string, headers: Headers, warn: (text: string) => void): Promise<Response> {
  const { method, body } = context.req.raw;
  try {
    return await proxy(target, { method, headers, body, redirect: "manual", signal: context.req.raw.signal });
  } catch (error) {
    warn(`${target}: ${(error as Error).message}`);
    return context.json(formatOf(context).error(502, "The model cannot be reached."), 502);
  }
}

/** Sends the end of a turn as JSON. */
export function respond(context: Context, { status, body, headers, isFinal = false }: TurnEnd): Response {
  // The official clients obey it.
  if (isFinal) context.header("x-should-retry", "false");
  for (const name of ERROR_HEADERS) {
    const value = headers?.get(name);
    if (value) context.header(name, value);
  }
  return context.body(JSON.stringify(body), status as 200, { "Content-Type": "application/json" });
}

/** Sends the end of a turn as a stream, which is kept open until then. */
export function streamed(
  context: Context,
  format: Format,
  body: JsonObject,
  ended: Promise<TurnEnd>,
  keepAliveMs: number,
  runnerLeft: AbortController,
): Response {
  context.header("Content-Type", "text/event-stream");
  context.header("Cache-Control", "no-cache");
  return stream(context, async (output) => {
    output.onAbort(() => runnerLeft.abort());
    const timer = setInterval(() => void output.write(format.keepAlive), keepAliveMs);
    const end = await ended.finally(() => clearInterval(timer));
    const events = end.status === 200 ? format.events(end.body, body) : [format.errorEvent(end.body)];
    // A runner that does not read must not keep the stream open.
    const unread = setTimeout(() => output.abort(), READ_TIMEOUT_MS);
    try {
      for (const event of events) if (!output.aborted) await output.write(event);
    } finally {
      clearTimeout(unread);
    }
  });
}

export function delay(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(resolve, ms, undefined).unref());
}
