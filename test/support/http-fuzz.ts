import * as fc from "fast-check";

/** HTTP with JSON-RPC that clients should not send, one character for each byte. Single faults are in malformed-http.test.ts. */

/** Placeholders for ids that are known only when the request is sent: a session of each revision. */
export const PLACEHOLDERS = ["{SESSION}", "{BATCH-SESSION}"] as const;

const DEEP = 50_000;
/** The deepest nesting that a server with recursive JSON code still accepts. */
const BEARABLE = 500;

const PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
const weird = fc.constantFrom(
  ...String.raw`null true 0 -0 1.5 1e400 9007199254740993 "" "x" "__proto__" "constructor" "\ud800" "\u0000" [] {}`.split(" "),
  '{"__proto__":{"polluted":true}}',
  '{"toString":null,"valueOf":1}',
  `${"[".repeat(BEARABLE)}${"]".repeat(BEARABLE)}`,
  `${'{"a":'.repeat(BEARABLE)}1${"}".repeat(BEARABLE)}`,
  `"${"x".repeat(5000)}"`,
);

const METHODS =
  "ping tools/list tools/call resources/subscribe resources/unsubscribe logging/setLevel completion/complete tasks/get initialize " +
  "notifications/initialized notifications/cancelled notifications/progress notifications/roots/list_changed x-vendor/anything __proto__ ";

const PARAMS = [
  "{}",
  '{"name":"echo","arguments":{"text":"t"}}',
  '{"name":"progress","arguments":{"steps":2},"_meta":{"progressToken":"t"}}',
  '{"name":"progress","_meta":{"progressToken":1.5}}',
  '{"name":{"toString":null},"_meta":{"progressToken":{}}}',
  '{"_meta":{"progressToken":1,"progressToken":2}}',
  '{"uri":"file:///a","level":"debug"}',
  '{"uri":{},"level":[],"_meta":null}',
  '{"requestId":1,"reason":"r","progressToken":1,"progress":1}',
  '{"requestId":{}}',
  '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"f","version":"1"}}',
  '{"protocolVersion":7,"capabilities":[],"clientInfo":null}',
  '{"protocolVersion":"2025-03-26","capabilities":{"roots":{},"sampling":{}}}',
];

/** Usually the expected member, sometimes another value, sometimes none. */
function member(name: string, usual: readonly string[], isUsuallyThere = true): fc.Arbitrary<string[]> {
  return fc
    .oneof(
      { weight: isUsuallyThere ? 10 : 2, arbitrary: fc.constantFrom(...usual) },
      { weight: 2, arbitrary: weird },
      { weight: isUsuallyThere ? 1 : 10, arbitrary: fc.constant(undefined) },
    )
    .map((value) => (value === undefined ? [] : [`${JSON.stringify(name)}:${value}`]));
}

const methods = METHODS.split(" ").map((name) => JSON.stringify(name));
const message = fc
  .tuple(
    member("jsonrpc", ['"2.0"']),
    member("id", ["1", "2", '"a"']),
    member("method", methods),
    member("params", PARAMS),
    member("result", ["{}"], false),
    member("error", ['{"code":-1,"message":"m"}'], false),
    member("__proto__", ['{"id":9}'], false),
    member("id", ["3"], false),
  )
  .map((members) => `{${members.flat().join(",")}}`);

const batch = fc
  .array(fc.oneof({ weight: 6, arbitrary: message }, { weight: 1, arbitrary: weird }), { maxLength: 6 })
  .map((messages) => `[${messages.join(",")}]`);

const noJson = fc.constantFrom(
  ..."{ } ] nul \0".split(" "),
  "",
  `${PING}\n${PING}\n`,
  "[".repeat(DEEP),
  `${'{"a":'.repeat(DEEP)}1${"}".repeat(DEEP)}`,
  `[${"{},".repeat(150)}{}]`,
);

/** UTF-8 that is truncated, overlong or otherwise invalid. */
const brokenUtf8 = fc
  .tuple(message, fc.constantFrom(..."\xff \xc3 \xe2\x82 \xc0\xaf \xed\xa0\x80 \xf5\x80\x80\x80".split(" ")))
  .map(([text, bytes]) => text.replace('"', `"${bytes}`));

const body = fc.oneof(
  { weight: 8, arbitrary: message },
  { weight: 3, arbitrary: batch },
  { weight: 2, arbitrary: noJson },
  { weight: 2, arbitrary: brokenUtf8 },
);

/** One of the values of each list, those of an earlier one more often. The last list may have an empty value. */
function mostly(...lists: readonly (readonly [weight: number, values: string])[]): fc.Arbitrary<string> {
  return fc.oneof(...lists.map(([weight, values]) => ({ weight, arbitrary: fc.constantFrom(...values.split(" ")) })));
}

const method = mostly([12, "POST"], [4, "GET"], [4, "DELETE OPTIONS HEAD"], [2, "PUT PATCH TRACE CONNECT PRI QUERY post BREW "]);
const target = mostly(
  [12, "/mcp"],
  [3, "/mcp/ /mcp?a=b /mcp/? /mcp#x http://localhost/mcp HTTPS://localhost:1/mcp?x"],
  [4, "/livez /readyz /healthz /status /sse /messages /messages?sessionId=x /"],
  [4, "* // ///mcp /%zz /livez/%E0%A4%A /..%2fmcp /../mcp /mcp\\ /mcp%00 http://elsewhere.example/mcp localhost:80 ? \xff\xfe "],
  [1, `/${"x".repeat(20_000)}`],
);
const version = mostly([20, "HTTP/1.1"], [3, "HTTP/1.0 HTTP/0.9 HTTP/2.0 HTTP/9.9 HTTP/1 http/1.1 ICE/1.0 "]);
const lineEnd = fc.oneof({ weight: 40, arbitrary: fc.constant("\r\n") }, { weight: 1, arbitrary: fc.constantFrom("\n", "\r", "\r\r\n") });

/** Usually the expected value, sometimes another, sometimes both or none. */
function header(name: string, usual: string, ...others: readonly string[]): fc.Arbitrary<readonly string[]> {
  const other = fc.constantFrom(...others).map((value) => `${name}: ${value}`);
  const expected = `${name}: ${usual}`;
  return fc.oneof(
    { weight: 12, arbitrary: fc.constant([expected]) },
    { weight: 3, arbitrary: other.map((each) => [each]) },
    { weight: 1, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: other.map((each) => [expected, each]) },
  );
}

const LONG = "x".repeat(5000);
const commonHeaders = fc
  .tuple(
    header("Host", "localhost", "", "evil.example", "localhost:99999", "[::1", "a b", "localhost, localhost", "\xff"),
    header("Content-Type", "application/json", "text/plain", "application/json; charset", ";", "", `application/json;a=${LONG}`),
    header("Accept", "application/json, text/event-stream", "*/*", "text/html", "application/json;q=0", ";;;q=x", "text/event-stream", ""),
    header("Mcp-Session-Id", PLACEHOLDERS[0], PLACEHOLDERS[1], "gone", "__proto__", "", "\xe9", LONG),
  )
  .map((headers) => headers.flat());

// Node discards data that arrives in one piece with an upgrade request, so nothing may follow it: `close`.
const oddHeader = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom(
      ...["2025-11-25", "1999-01-01", "__proto__"].map((value) => `MCP-Protocol-Version: ${value}`),
      ...["s1-0", "r999999999999999-999999999999999-0a1b2c3d-Nw", "r99999999999999999999-1", "\x80"].map((id) => `Last-Event-ID: ${id}`),
      ...["null", "http://localhost", "https://evil.example", "http://["].map((origin) => `Origin: ${origin}`),
      ...["100-continue", "200-ok"].map((value) => `Expect: ${value}`),
      ...["close, upgrade\r\nUpgrade: websocket", "close", "Content-Length"].map((value) => `Connection: ${value}`),
      ...["a\x01b", "a\x00b", "a\rb", LONG.repeat(4)].map((value) => `X: ${value}`),
      ...["__proto__", " folded", "", "bad name"].map((name) => `${name}: x`),
      "no colon",
    ),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.string({ unit: "binary-ascii", maxLength: 8 }), fc.string({ unit: "binary-ascii", maxLength: 12 }))
      .map(([name, value]) => `${name}: ${value}`),
  },
);

function chunked(text: string, size: number): string {
  const chunks = text.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [];
  return `${chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join("")}0\r\n\r\n`;
}

type Framed = readonly [headers: readonly string[], body: string];
const CHUNKED = "Transfer-Encoding: chunked";

/** The ways of marking the end of a body, rightly or not. */
const FRAMINGS: readonly ((text: string) => Framed)[] = [
  (text) => [[CHUNKED], chunked(text, 7000)],
  (text) => [[CHUNKED, "Trailer: X-T"], chunked(text, 1000).replace(/\r\n$/, "X-T: t\r\n\r\n")],
  (text) => [[CHUNKED], text],
  (text) => [[CHUNKED], `ffffffffffffffffff\r\n${text}`],
  (text) => [[CHUNKED], `2;ext="${LONG.repeat(4)}"\r\n{}\r\n0\r\n\r\n${text}`],
  (text) => [[CHUNKED], chunked(text, 100).replaceAll("\r\n", "\n")],
  (text) => [["Transfer-Encoding: gzip"], text],
  (text) => [["Transfer-Encoding: chunked, identity"], chunked(text, 100)],
  (text) => [[`Content-Length: ${text.length}`, `Content-Length: ${text.length}`], text],
  ...["-1", "+1", "0x10", "", "99999999999", "9".repeat(26)].map((length) => (text: string): Framed => [
    [`Content-Length: ${length}`],
    text,
  ]),
  ...[5, -5, 5000].map((more) => (text: string): Framed => [[`Content-Length: ${Math.max(0, text.length + more)}`], text]),
  (text) => [[], text],
];

const framed = fc
  .tuple(body, fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.constantFrom(...FRAMINGS) }))
  .map(([text, framing]): Framed => framing?.(text) ?? [[`Content-Length: ${text.length}`], text]);

const request = fc
  .tuple(method, target, version, commonHeaders, fc.array(oddHeader, { maxLength: 2 }), framed, lineEnd)
  .map(([verb, url, protocol, common, odd, [framing, text], end]) =>
    [`${verb} ${url} ${protocol}`.trimEnd(), ...common, ...odd, ...framing, "", text].join(end),
  );

/** A change of bytes, at a position in thousandths of the whole. */
const edit = fc.record({
  at: fc.nat(999),
  removed: fc.constantFrom(0, 1, 1, 2, 30),
  inserted: fc.oneof(
    fc.constantFrom("", "\r\n", "\n", "\0", ":", " ", "\xff", "0\r\n\r\n", "POST "),
    fc.string({ unit: "binary-ascii", maxLength: 4 }),
  ),
});

/** The bytes that one connection sends: a few requests in a row, whole or with changed bytes. */
export const connectionBytes: fc.Arbitrary<string> = fc
  .tuple(
    fc.oneof(
      { weight: 4, arbitrary: fc.array(request, { minLength: 1, maxLength: 1 }) },
      { weight: 1, arbitrary: fc.array(request, { minLength: 2, maxLength: 4 }) },
    ),
    fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: fc.array(edit, { minLength: 1, maxLength: 3 }) }),
  )
  .map(([requests, edits]) =>
    edits.reduce((bytes, { at, removed, inserted }) => {
      const start = Math.floor((bytes.length * at) / 1000);
      return bytes.slice(0, start) + inserted + bytes.slice(start + removed);
    }, requests.join("")),
  );
