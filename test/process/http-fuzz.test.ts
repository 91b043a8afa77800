import * as fc from "fast-check";
import { once } from "node:events";
import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { ERROR_CATALOG } from "../../src/error-catalog/error-catalog.ts";
import { connectionBytes, PLACEHOLDERS } from "../support/http-fuzz.ts";
import { parseResponses, type WireResponse } from "../support/http-responses.ts";
import { SEED } from "../support/seed.ts";
import { isAlive, Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";

/** `FUZZ_RUNS=1000 TEST_SEED=7 vitest run …` runs for longer, or with another seed. */
const RUNS = Number(process.env["FUZZ_RUNS"] ?? 25);
/** Concurrent connections: a run spends most of its time in timeouts. */
const CONNECTIONS = 40;
/** The longest time until a connection that must be closed is closed, on a busy machine. */
const HANGING_MS = 60_000;
const FLAGS = [
  "--headers-timeout-ms=200",
  "--body-timeout-ms=300",
  "--request-timeout-ms=2000",
  "--isolation=shared",
  "--max-sessions=1000000",
  "--max-body-bytes=200000",
  "--legacy-sse=on",
];
/**
 * Sent after everything else. If that was HTTP, this request is answered and closes the connection. It is long, because a body that is
 * shorter than its declared length takes the first part of it. The rest is then not HTTP. The empty lines end a head or a trailer that has
 * no end, which would take all of it.
 */
const LAST = `\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\nX-Padding: ${"x".repeat(500)}\r\nConnection: close\r\n\r\n`;
/** The start of a body: random requests hardly ever get this far without another fault. */
const unfinished = (contentLength: number): string =>
  `${[
    "POST /mcp HTTP/1.1",
    "Host: localhost",
    "Content-Type: application/json",
    "Accept: application/json, text/event-stream",
    `Content-Length: ${contentLength}`,
  ].join("\r\n")}\r\n\r\n{`;
const EVENT_STREAM = "Content-Type: text/event-stream";

/** Sends these bytes, and reads until the sidecar closes the connection or starts an event stream, which never ends. */
async function exchange(origin: string, bytes: string): Promise<{ readonly received: Buffer; readonly isReset: boolean }> {
  const { hostname, port } = new URL(origin);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  await once(socket, "connect");
  return new Promise((resolve, reject) => {
    let received = Buffer.alloc(0);
    let isReset = false;
    const timer = setTimeout(() => {
      socket.destroy();
      // The fuzzer may have changed the `close` of such a request: see http-fuzz.ts.
      if (!/upgrade/i.test(bytes))
        reject(new Error(`left hanging for ${HANGING_MS} ms after ${JSON.stringify(received.toString("latin1"))}`));
    }, HANGING_MS);
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      const streamStart = received.indexOf(EVENT_STREAM);
      if (streamStart === -1) return;
      received = received.subarray(0, received.lastIndexOf("HTTP/1.1", streamStart));
      socket.destroy();
    });
    socket.on("end", () => socket.end());
    // Bytes after those that ended the connection are not read.
    socket.on("error", () => (isReset = true));
    socket.on("close", () => {
      clearTimeout(timer);
      resolve({ received, isReset });
    });
    socket.write(Buffer.from(bytes, "latin1"));
  });
}

/** Returns the bytes as a JSON string without long repetitions. */
function shown(bytes: string): string {
  return JSON.stringify(bytes.replaceAll(/(.{1,6}?)\1{20,}/gs, "$1…"));
}

/** Reports the connection that failed, instead of the forty that fast-check takes for one case. */
async function report({ failed, errorInstance, seed, numRuns }: fc.RunDetails<[string[]]>): Promise<void> {
  if (failed) throw new Error(`run ${numRuns} of seed ${seed}`, { cause: errorInstance });
}

function check({ status, headers, body }: WireResponse): void {
  // The page, for a request of a browser.
  if (status === 200 && headers.get("content-security-policy") !== undefined) return;
  expect(status === 503 || status < 500).toBe(true);
  expect(headers.get("content-type") ?? "application/json").toMatch(/^application\/json(; charset=utf-8)?$/);
  if (body === "") return;
  const json = JSON.parse(body) as {
    jsonrpc?: unknown;
    status?: unknown;
    error?: { code?: unknown; message?: unknown; data?: { code?: unknown } };
  };
  if (status < 400) return;
  if (json.status === "not-ready") return;
  expect(json).toMatchObject({ jsonrpc: "2.0", error: { code: expect.any(Number) as number, message: expect.any(String) as string } });
  expect(Object.keys(ERROR_CATALOG)).toContain(json.error?.data?.code);
  expect(json.error?.data?.code).not.toBe("INTERNAL_ERROR");
}

describe("the endpoint under malformed requests", () => {
  it(
    "every fuzzed request gets a JSON response in time, and both sidecar and server survive",
    { timeout: 300_000 + RUNS * 2000 },
    async () => {
      await using sidecar = await Sidecar.start({ flags: FLAGS });
      const { childPid } = sidecar;
      let [client, batchClient] = [await sidecar.client(), await sidecar.client({ protocolVersion: "2025-03-26" })];
      let responseCount = 0;

      const send = async (bytes: string): Promise<void> => {
        const [session, batchSession] = PLACEHOLDERS;
        const sent = bytes.replaceAll(session, client.sessionId).replaceAll(batchSession, batchClient.sessionId) + LAST;
        try {
          const { received, isReset } = await exchange(sidecar.origin, sent);
          // A reset discards bytes that were not read yet.
          const responses = parseResponses(received, isReset);
          responseCount += responses.length;
          for (const response of responses) check(response);
        } catch (error) {
          throw new Error(`after ${shown(bytes)}`, { cause: error });
        }
      };

      // These get 408 and 413.
      for (const contentLength of [5000, 5_000_000]) await send(unfinished(contentLength));
      const connections = fc.array(connectionBytes, { minLength: CONNECTIONS, maxLength: CONNECTIONS });
      await fc.assert(
        fc.asyncProperty(connections, async (cases) => {
          await Promise.all(cases.map(send));
          // A DELETE may have ended these sessions.
          if ((await client.request("ping")).status === 404) client = await sidecar.client();
          if ((await batchClient.request("ping")).status === 404) batchClient = await sidecar.client({ protocolVersion: "2025-03-26" });
          expect(await client.toolText("echo", { text: "alive" })).toBe("alive");
          expect(sidecar.childPid).toBe(childPid);
        }),
        { numRuns: RUNS, seed: SEED, endOnFailure: true, asyncReporter: report },
      );

      const status = await readStatus(sidecar);
      expect(status).toMatchObject({ pid: childPid, generation: 1, restarts: 0, lanes: { shared: { requestsInFlight: 0, waiting: 0 } } });
      const statuses = Object.keys(status.counters.http.responses).map(Number);
      expect(statuses.filter((each) => each >= 500 && each !== 503)).toEqual([]);
      // Enough requests were valid, and enough were not.
      for (const each of [200, 202, 204, 400, 403, 404, 405, 406, 408, 413, 415, 417, 431]) expect(statuses).toContain(each);
      expect(responseCount).toBeGreaterThan(RUNS * CONNECTIONS);
      expect(isAlive(childPid)).toBe(true);
      expect(sidecar.process.exitCode).toBeNull();
      expect(sidecar.stderr).toBe("");
      expect(sidecar.logLines.filter(({ level }) => level === "error")).toEqual([]);
    },
  );
});
