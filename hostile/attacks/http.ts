// Long headers, requests that are sent ahead of their responses, responses that are not read, and connections without end.

import { setTimeout as sleep } from "node:timers/promises";
import { type Attacker, times } from "../attacker.ts";
import type { Attack } from "../stage.ts";

/** The limit for most responses. */
const LIMIT_MS = 8000;
const FLOOD_URI = "file:///flood";
const PING = '{"jsonrpc":"2.0","id":5,"method":"ping"}';
const SLOW_CALL = '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{"text":"t","delayMs":2000}}}';

function http(name: string, run: (attacker: Attacker) => Promise<unknown>): Attack {
  return { name, run: ({ attacker }) => run(attacker) };
}

export const HTTP_ATTACKS: readonly Attack[] = [
  http("http: headers of 100 KB to 10 MB, 5,000 of them, 20 at once", async (attacker) => {
    const bombs = [
      attacker.head([`X-Bomb: ${"b".repeat(100_000)}`]),
      attacker.head([`X-Bomb: ${"b".repeat(10_000_000)}`]),
      attacker.head(Array.from({ length: 5000 }, (_, index) => `X-${index}: 1`)),
      attacker.head([`Accept: ${"a/b;q=0.1,".repeat(1200)}*/*`]),
      attacker.head([`Mcp-Session-Id: ${"s".repeat(12_000)}`, `Last-Event-ID: ${"9".repeat(2000)}`]),
      `GET /${"p".repeat(12_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
    ];
    for (const bomb of bombs) await times(20, () => attacker.writeRaw(bomb, LIMIT_MS));
  }),
  http("http: 5,000 requests in a pipeline", async (attacker) => {
    await times(4, () => attacker.writeRaw(attacker.rawPost(PING).repeat(5000), 15_000));
  }),
  http("http: 500 calls given up in the middle", async (attacker) => {
    for (let round = 0; round < 5 && !attacker.isOver; round++) {
      const sockets = await times(100, () => attacker.writeUnread(attacker.rawPost(SLOW_CALL)));
      for (const socket of sockets) socket?.destroy();
    }
  }),
  http("http: 50 GET streams that are not read, 200 MB of notifications", async (attacker) => {
    for (let index = 0; index < 50; index++) {
      await attacker.open();
      await attacker.quietly({ jsonrpc: "2.0", id: 2, method: "resources/subscribe", params: { uri: FLOOD_URI } });
      await attacker.writeUnread(attacker.streamHead());
    }
    for (let round = 0; round < 20; round++)
      await attacker.callTool("trick", { trick: "flood", uri: FLOOD_URI, count: 50, padding: 100_000 });
  }),
];

const CONNECTIONS = 300;
const BURST_BYTES = 64 * 1024;
const SECONDS = 8;
const WITHOUT_TOKEN = "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

function bearer(method: string, path: string, token: string): string {
  return `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`;
}

const BURSTS: Readonly<Record<string, (attacker: Attacker) => string>> = {
  "requests without a token": () => filled(WITHOUT_TOKEN),
  "requests with a wrong token": () => filled(bearer("GET", "/mcp", "wrong")),
  "calls with a token": (attacker) => filled(attacker.rawPost(PING)),
  "requests of streams with a token": (attacker) => filled(attacker.streamHead()),
  "DELETE with a token": ({ token }) => filled(bearer("DELETE", "/mcp", token)),
  OPTIONS: () => filled("OPTIONS /mcp HTTP/1.1\r\nHost: x\r\n\r\n"),
  "requests to /livez": () => filled("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"),
  "requests to /metrics with a token": ({ token }) => filled(bearer("GET", "/metrics", token)),
  "requests without Host": () => filled("GET /mcp HTTP/1.1\r\n\r\n"),
  "a body of tiny chunks without a token": () =>
    `POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${"1\r\n \r\n".repeat(10_900)}`,
};

function filled(request: string): string {
  return request.repeat(BURST_BYTES / request.length);
}

export const BURST_ATTACKS: readonly Attack[] = [
  ...Object.entries(BURSTS).map(([what, burst]) =>
    http(`burst: 64 KiB of ${what} on each of ${CONNECTIONS} connections, nothing is read`, async (attacker) => {
      await times(CONNECTIONS, () => attacker.writeUnread(burst(attacker)));
      await sleep(1000);
    }),
  ),
  http(`burst: 64 KiB of requests without a token on ${CONNECTIONS} connections at a time, for ${SECONDS} s`, async (attacker) => {
    const endAtMs = performance.now() + SECONDS * 1000;
    await times(CONNECTIONS, async () => {
      while (performance.now() < endAtMs && !attacker.isOver) await attacker.writeRaw(filled(WITHOUT_TOKEN));
    });
  }),
  http("burst: 3,000 connections without a token that stay open", async (attacker) => {
    for (let round = 0; round < 30; round++) await times(100, () => attacker.writeUnread("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"));
    await sleep(1000);
  }),
];
