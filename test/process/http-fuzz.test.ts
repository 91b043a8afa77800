import * as fc from "fast-check";
import { connect } from "node:net";
import { expect, it } from "vitest";
import { SEED } from "../support/set-up.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";

/** `FUZZ_RUNS=1000 TEST_SEED=7 vitest run …` runs for longer, or with another seed. */
const RUNS = Number(process.env["FUZZ_RUNS"] ?? 25);
/** Concurrent connections: a run spends most of its time in timeouts. */
const CONNECTIONS = 40;
/** The longest time until a connection that must be closed is closed, on a busy machine. */
const HANGING_MS = 60_000;
const TIMEOUTS = ["--headers-timeout-ms=200", "--body-timeout-ms=300", "--request-timeout-ms=2000"];
const FLAGS = [...TIMEOUTS, "--max-sessions=1000000", "--max-body-bytes=200000", "--legacy-sse=on"];
const [SESSION, BATCH_SESSION] = ["{SESSION}", "{BATCH-SESSION}"];
/**
 * Sent after everything else. If that was HTTP, this request is answered and closes the connection. It is long, because a body that is
 * shorter than its declared length takes the first part of it. The empty lines end a head or a trailer that has no end.
 */
const LAST = `\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\nX-Padding: ${"x".repeat(500)}\r\nConnection: close\r\n\r\n`;

function usually(usual: string, ...others: readonly string[]): fc.Arbitrary<string> {
  return fc.oneof({ weight: 12, arbitrary: fc.constant(usual) }, { weight: 2, arbitrary: fc.constantFrom(...others) });
}

const startLine = fc.tuple(
  usually("POST", "GET", "DELETE", "OPTIONS", "HEAD", "PUT", "CONNECT", "PRI", "post", ""),
  usually("/mcp", "/mcp/?", "HTTP://localhost/mcp", "/livez", "/sse", "/messages?sessionId=x", "*", "//", "/%zz", "http://[::1", "\xff"),
  usually("HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "http/1.1", "ICE/1.0", ""),
);
const NONE = "X-None: x";
const headers = fc.tuple(
  usually("Host: localhost", "Host:", "Host: evil.example", "Host: [::1", "Host: a\r\nHost: b", NONE),
  usually("Content-Type: application/json", "Content-Type: text/plain", "Content-Type: ;", NONE),
  usually("Accept: application/json, text/event-stream", "Accept: */*", "Accept: text/html", "Accept: ;;;q=x"),
  usually(`Mcp-Session-Id: ${SESSION}`, `Mcp-Session-Id: ${BATCH_SESSION}`, "Mcp-Session-Id: __proto__", "Mcp-Session-Id: \xe9", NONE),
  usually(NONE, "MCP-Protocol-Version: 1999-01-01", "Last-Event-ID: s1-0-0a1b2c3d", "Last-Event-ID: \x80", "Origin: http://["),
  usually(NONE, "Expect: tea", "Expect: 100-continue", "Connection: Content-Length", "Transfer-Encoding: gzip"),
  usually(NONE, "no colon", " folded: x", "X-Null: a\0b", "X-Bare: a\rb", `X-Long: ${"x".repeat(20_000)}`),
);
const message = fc.oneof(
  fc.constantFrom(
    "[]",
    "{",
    "null",
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    '{"jsonrpc":"2.0","id":"__proto__","method":"constructor","params":{"__proto__":{"polluted":true}}}',
    '[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"result":{}}]',
    `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":${"[".repeat(500)}${"]".repeat(500)}}}`,
  ),
  fc
    .tuple(
      fc.constantFrom("1", "1.5", "null", '"\\ud800"', "9".repeat(400)),
      fc.constantFrom("ping", "tools/list", "tools/call", "initialize", "resources/subscribe", "tasks/get", "x-vendor/any"),
      fc.constantFrom(
        "{}",
        '{"name":"echo","arguments":{"text":"t"}}',
        '{"name":"progress","_meta":{"progressToken":{}}}',
        '{"uri":7}',
        "[]",
      ),
    )
    .map(([id, method, params]) => `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${params}}`),
);
/** The ways of marking the end of a body, rightly or not. */
const framed = fc.tuple(message, fc.nat(9)).map(([body, way]) => {
  const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  const wrong = [`Content-Length: -1\r\n\r\n${body}`, `Content-Length: 5000\r\n\r\n${body}`, `Content-Length: 5000000\r\n\r\n${body}`];
  const chunked = ["", "zz\r\n", "f".repeat(18)].map((before) => `Transfer-Encoding: chunked\r\n\r\n${before}${chunks}`);
  return [...wrong, ...chunked][way] ?? `Content-Length: ${body.length}\r\n\r\n${body}`;
});
const request = fc.tuple(startLine, headers, framed).map(([line, head, rest]) => [line.join(" "), ...head, rest].join("\r\n"));
/** A few requests in a row, whole or with changed bytes. */
const connectionBytes = fc
  .tuple(
    fc.array(request, { minLength: 1, maxLength: 3 }),
    fc.option(fc.tuple(fc.nat(999), fc.constantFrom(0, 1, 30), fc.constantFrom("", "\r\n", "\n", "\0", ":", "\xff", "0\r\n\r\n"))),
  )
  .map(([requests, edit]) => {
    const bytes = requests.join("");
    if (edit === null) return bytes;
    const [place, removed, inserted] = edit;
    const start = Math.floor((bytes.length * place) / 1000);
    return bytes.slice(0, start) + inserted + bytes.slice(start + removed);
  });

/** Sends these bytes. @returns what arrives until the sidecar closes the connection or starts an event stream, which never ends. */
async function reply(origin: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(origin);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  let received = "";
  const closed = Promise.withResolvers<void>();
  socket.on("close", () => closed.resolve());
  const timer = setTimeout(() => closed.reject(new Error(`left hanging for ${HANGING_MS} ms after ${received}`)), HANGING_MS);
  socket.on("data", (chunk: Buffer) => {
    received += chunk.toString("latin1");
    if (received.includes("Content-Type: text/event-stream")) socket.destroy();
  });
  socket.on("end", () => socket.end());
  // Bytes after those that ended the connection are not read, which resets it.
  socket.on("error", () => undefined);
  socket.write(Buffer.from(bytes, "latin1"));
  await closed.promise.finally(() => clearTimeout(timer));
  return received;
}

it("every fuzzed request is answered in time, and both sidecar and server survive", { timeout: 300_000 + RUNS * 2000 }, async () => {
  await using sidecar = await Sidecar.start({ flags: FLAGS });
  const { childPid } = sidecar;
  let [client, batchClient] = [await sidecar.client(), await sidecar.client({ protocolVersion: "2025-03-26" })];
  const send = async (bytes: string): Promise<void> => {
    const sent = bytes.replaceAll(SESSION, client.sessionId).replaceAll(BATCH_SESSION, batchClient.sessionId) + LAST;
    expect(await reply(sidecar.origin, sent)).not.toContain("INTERNAL_ERROR");
  };
  const connections = fc.array(connectionBytes, { minLength: CONNECTIONS, maxLength: CONNECTIONS });
  await fc.assert(
    fc.asyncProperty(connections, async (cases) => {
      await Promise.all(cases.map(send));
      // A DELETE may have ended these sessions.
      if ((await client.request("ping")).status === 404) client = await sidecar.client();
      if ((await batchClient.request("ping")).status === 404) batchClient = await sidecar.client({ protocolVersion: "2025-03-26" });
      expect(await client.toolText("echo", { text: "alive" })).toBe("alive");
    }),
    { numRuns: RUNS, seed: SEED, endOnFailure: true },
  );
  const status = await readStatus(sidecar);
  expect(status).toMatchObject({ pid: childPid, generation: 1, restarts: 0, lanes: { shared: { requestsInFlight: 0, waiting: 0 } } });
  const statuses = Object.keys(status.counters.http.responses).map(Number);
  expect(statuses.filter((each) => each >= 500 && each !== 503)).toEqual([]);
  // Enough requests were valid, and enough were not.
  expect(statuses).toEqual(expect.arrayContaining([200, 202, 400, 403, 404, 405, 406, 408, 413, 415, 431]));
  expect(sidecar.stderr).toBe("");
  expect(sidecar.logLines.filter(({ level }) => level === "error")).toEqual([]);
});
