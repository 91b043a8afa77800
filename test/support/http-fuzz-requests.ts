import * as fc from "fast-check";
import { bodyBytes } from "./http-fuzz-messages.ts";

/** HTTP that clients should not send, one character for each byte. */

/** Placeholders for ids that are known only when the request is sent: a session of each revision, and a stream of HTTP+SSE. */
export const PLACEHOLDERS = ["{SESSION}", "{BATCH-SESSION}"] as const;

const method = fc.oneof(
  { weight: 12, arbitrary: fc.constant("POST") },
  { weight: 4, arbitrary: fc.constant("GET") },
  { weight: 4, arbitrary: fc.constantFrom("DELETE", "OPTIONS", "HEAD") },
  { weight: 2, arbitrary: fc.constantFrom("PUT", "PATCH", "TRACE", "CONNECT", "PRI", "QUERY", "SOURCE", "post", "BREW", "") },
);

const target = fc.oneof(
  { weight: 12, arbitrary: fc.constant("/mcp") },
  { weight: 3, arbitrary: fc.constantFrom("/mcp/", "/mcp?a=b", "/mcp/?", "/mcp#x", "http://localhost/mcp", "HTTPS://localhost:1/mcp?x") },
  { weight: 4, arbitrary: fc.constantFrom("/livez", "/readyz", "/healthz", "/status", "/sse", "/messages", "/messages?sessionId=x", "/") },
  {
    weight: 4,
    arbitrary: fc.constantFrom(
      "*",
      "//",
      "///mcp",
      "/%zz",
      "/livez/%E0%A4%A",
      "/..%2fmcp",
      "/../mcp",
      "/mcp\\",
      "/mcp%00",
      "http://[::1",
      "http://",
      "http://elsewhere.example/mcp",
      "localhost:80",
      "?",
      "\xff\xfe",
      `/${"x".repeat(20_000)}`,
      "",
    ),
  },
);

const version = fc.oneof(
  { weight: 20, arbitrary: fc.constant("HTTP/1.1") },
  {
    weight: 3,
    arbitrary: fc.constantFrom("HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.2", "HTTP/9.9", "HTTP/1", "http/1.1", "ICE/1.0", ""),
  },
);

/** Usually the expected value, sometimes another, sometimes none. */
function header(name: string, usual: string, others: readonly string[]): fc.Arbitrary<readonly string[]> {
  return fc.oneof(
    { weight: 12, arbitrary: fc.constant<readonly string[]>([`${name}: ${usual}`]) },
    { weight: 3, arbitrary: fc.constantFrom(...others).map((value) => [`${name}: ${value}`]) },
    { weight: 1, arbitrary: fc.constant<readonly string[]>([]) },
    { weight: 1, arbitrary: fc.constantFrom(...others).map((value) => [`${name}: ${usual}`, `${name}: ${value}`]) },
  );
}

const commonHeaders = fc
  .tuple(
    header("Host", "localhost", ["", "evil.example", "localhost:99999", "[::1", "a b", "localhost, localhost", "\xff"]),
    header("Content-Type", "application/json", [
      "text/plain",
      "application/json; charset=utf-16",
      "application/json; charset",
      "application/jsonp",
      ";",
      "",
      `application/json;${"a=b;".repeat(500)}`,
    ]),
    header("Accept", "application/json, text/event-stream", [
      "*/*",
      "text/html",
      "application/json;q=0",
      ";;;q=x",
      "text/event-stream",
      ",",
      "",
    ]),
    header("Mcp-Session-Id", PLACEHOLDERS[0], [PLACEHOLDERS[1], "gone", "__proto__", "", "\xe9", "x".repeat(5000)]),
  )
  .map((headers) => headers.flat());

const oddHeader = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom(
      "MCP-Protocol-Version: 2025-11-25",
      "MCP-Protocol-Version: 1999-01-01",
      "MCP-Protocol-Version: __proto__",
      "Last-Event-ID: s1-0",
      "Last-Event-ID: s1-0-0a1b2c3d",
      "Last-Event-ID: r999999999999999-999999999999999-0a1b2c3d-Nw",
      "Last-Event-ID: r99999999999999999999-1",
      "Last-Event-ID: \x80",
      "Origin: null",
      "Origin: http://localhost",
      "Origin: https://evil.example",
      "Origin: http://[",
      "Access-Control-Request-Method: POST",
      "Expect: 100-continue",
      "Expect: 200-ok",
      // Node discards data that arrives in one piece with an upgrade request, so nothing may follow it.
      "Connection: close, upgrade\r\nUpgrade: websocket",
      "Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA",
      "Connection: close",
      "Connection: keep-alive, te",
      "Connection: Content-Length",
      "Keep-Alive: timeout=0",
      "TE: trailers",
      "Authorization: Bearer",
      "Content-Encoding: gzip",
      "Range: bytes=0-1",
      "If-None-Match: *",
      "Forwarded: for=x",
      "X-HTTP-Method-Override: DELETE",
      "__proto__: x",
      "constructor: x",
      " folded: x",
      "no colon",
      ": no name",
      "bad name: x",
      "X-Control: a\x01b",
      "X-Null: a\x00b",
      "X-Bare: a\rb",
      `X-Long: ${"x".repeat(20_000)}`,
    ),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.string({ unit: "binary-ascii", maxLength: 8 }), fc.string({ unit: "binary-ascii", maxLength: 12 }))
      .map(([name, value]) => `${name}: ${value}`),
  },
);

function chunked(body: string, size: number): string {
  const chunks: string[] = [];
  for (let start = 0; start < body.length; start += size) {
    const chunk = body.slice(start, start + size);
    chunks.push(`${chunk.length.toString(16)}\r\n${chunk}\r\n`);
  }
  return `${chunks.join("")}0\r\n\r\n`;
}

type Framed = readonly [headers: readonly string[], body: string];

/** The ways of marking the end of a body, rightly or not. */
const FRAMINGS: readonly ((body: string) => Framed)[] = [
  (body) => [["Transfer-Encoding: chunked"], chunked(body, 7000)],
  (body) => [["Transfer-Encoding: chunked", "Trailer: X-T"], chunked(body, 1000).replace(/\r\n$/, "X-T: t\r\n\r\n")],
  (body) => [["Transfer-Encoding: chunked"], body],
  (body) => [["Transfer-Encoding: chunked"], `zz\r\n${body}\r\n0\r\n\r\n`],
  (body) => [["Transfer-Encoding: chunked"], `ffffffffffffffffff\r\n${body}`],
  (body) => [["Transfer-Encoding: chunked"], `2;ext="${"e".repeat(20_000)}"\r\n{}\r\n0\r\n\r\n${body}`],
  (body) => [["Transfer-Encoding: chunked"], chunked(body, 100).replaceAll("\r\n", "\n")],
  (body) => [["Transfer-Encoding: gzip, chunked"], chunked(body, 100)],
  (body) => [["Transfer-Encoding: gzip"], body],
  (body) => [["Transfer-Encoding: chunked, identity"], chunked(body, 100)],
  (body) => [["Transfer-Encoding: chunked", `Content-Length: ${body.length}`], chunked(body, 100)],
  (body) => [[`Content-Length: ${body.length}`, `Content-Length: ${body.length}`], body],
  (body) => [[`Content-Length: ${body.length}`, `Content-Length: ${body.length + 1}`], body],
  (body) => [[`Content-Length: ${body.length}, ${body.length}`], body],
  (body) => [[`Content-Length: ${body.length + 5}`], body],
  (body) => [[`Content-Length: ${Math.max(0, body.length - 5)}`], body],
  (body) => [[`Content-Length: ${body.length + 5000}`], body],
  (body) => [["Content-Length: 99999999999"], body],
  (body) => [["Content-Length: 99999999999999999999999999"], body],
  (body) => [["Content-Length: -1"], body],
  (body) => [["Content-Length: +1"], body],
  (body) => [["Content-Length: 0x10"], body],
  (body) => [["Content-Length:"], body],
  (body) => [[], body],
];

const framed = fc
  .tuple(bodyBytes, fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.constantFrom(...FRAMINGS) }))
  .map(([body, framing]): Framed => framing?.(body) ?? [[`Content-Length: ${body.length}`], body]);

const lineEnd = fc.oneof({ weight: 40, arbitrary: fc.constant("\r\n") }, { weight: 1, arbitrary: fc.constantFrom("\n", "\r", "\r\r\n") });

const request = fc
  .record({ method, target, version, commonHeaders, odd: fc.array(oddHeader, { maxLength: 2 }), framed, lineEnd })
  .map(({ method: verb, target: url, version: protocol, commonHeaders: common, odd, framed: [framing, body], lineEnd: end }) =>
    [`${verb} ${url} ${protocol}`.trimEnd(), ...common, ...odd, ...framing, "", body].join(end),
  );

interface Edit {
  /** The position, in thousandths of the whole. */
  readonly at: number;
  readonly removed: number;
  readonly inserted: string;
}

const edit: fc.Arbitrary<Edit> = fc.record({
  at: fc.nat(999),
  removed: fc.constantFrom(0, 1, 1, 2, 30),
  inserted: fc.oneof(
    fc.constantFrom("", "\r\n", "\n", "\0", ":", " ", "\xff", "0\r\n\r\n", "POST "),
    fc.string({ unit: "binary-ascii", maxLength: 4 }),
  ),
});

function applyEdit(bytes: string, { at, removed, inserted }: Edit): string {
  const start = Math.floor((bytes.length * at) / 1000);
  return bytes.slice(0, start) + inserted + bytes.slice(start + removed);
}

/** The bytes that one connection sends: a few requests in a row, whole or with changed bytes. */
export const connectionBytes: fc.Arbitrary<string> = fc
  .tuple(
    fc.oneof(
      { weight: 4, arbitrary: fc.array(request, { minLength: 1, maxLength: 1 }) },
      { weight: 1, arbitrary: fc.array(request, { minLength: 2, maxLength: 4 }) },
    ),
    fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: fc.array(edit, { minLength: 1, maxLength: 3 }) }),
  )
  .map(([requests, edits]) => edits.reduce(applyEdit, requests.join("")));
