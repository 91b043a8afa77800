import type { Headers } from "./http-client.ts";
import { JSON_HEADERS } from "./mcp-client.ts";

/** Returns a request's head as sent over the wire, for connections that tests write to directly. */
export function headBytes(requestLine: string, headers: Headers = {}): string {
  const fields = Object.entries({ Host: "localhost", ...headers }).map(([name, value]) => `${name}: ${value}`);
  return [`${requestLine} HTTP/1.1`, ...fields, "", ""].join("\r\n");
}

export function postBytes(message: object, sessionId?: string): string {
  const body = JSON.stringify(message);
  const session = sessionId === undefined ? {} : { "Mcp-Session-Id": sessionId };
  return headBytes("POST /mcp", { ...JSON_HEADERS, ...session, "Content-Length": String(Buffer.byteLength(body)) }) + body;
}

export function getBytes(path: string, headers: Headers = {}): string {
  return headBytes(`GET ${path}`, headers);
}
