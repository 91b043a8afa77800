// Valid and invalid uses of HTTP, requests that are sent ahead of their responses, and connections without end.

import { setTimeout as sleep } from "node:timers/promises";
import type { RawConnection } from "../../test/support/raw-connection.ts";
import { type Attacker, times } from "../attacker.ts";
import type { Attack, Scene } from "../stage.ts";

const SILENT = 1000;
/** The limit for most responses. */
const LIMIT_MS = 8000;

const FLOOD_URI = "file:///flood";

/** Returns an attack with a session. @param name with its group. */
function http(name: string, run: (scene: Scene) => Promise<unknown>): Attack {
  return {
    name,
    run: async (scene) => {
      await scene.attacker.open();
      await run(scene);
    },
  };
}

async function connectMany(attacker: Attacker, count: number): Promise<RawConnection[]> {
  const connections = await times(count, () => attacker.connect());
  return connections.filter((connection) => connection !== undefined);
}

const GARBAGE = [
  "\0".repeat(1000),
  "GET / HTTP/9.9\r\n\r\n",
  "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
  "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  "POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
  `POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;${"e".repeat(100_000)}\r\n`,
  "CONNECT / HTTP/1.1\r\n\r\n",
  "GET /mcp HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "\u0016\u0003\u0001\u0002\u0000\u0001\u0000",
  "GET http://[::1/ HTTP/1.1\r\nHost: [\r\n\r\n",
  "GET //%00%ff/../../mcp?%zz HTTP/1.1\r\nHost: x\r\n\r\n",
];

export const HTTP_ATTACKS: readonly Attack[] = [
  http("http: headers of 100 KB to 10 MB, 5,000 of them, 20 at once", async ({ attacker }) => {
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
  http(`http: ${SILENT} connections that say nothing, then ask at once`, async ({ attacker }) => {
    const connections = await connectMany(attacker, SILENT);
    await sleep(1000);
    const text = attacker.rawPost(PING);
    await Promise.all(
      connections.map(async (connection) => {
        await connection.write(text).catch(() => undefined);
        await attacker.hear(connection, 10_000);
      }),
    );
  }),
  http("http: garbage after requests, 5,000 requests in a pipeline", async ({ attacker }) => {
    const text = attacker.rawPost(PING);
    await Promise.all(GARBAGE.map((garbage) => attacker.writeRaw(text + garbage, LIMIT_MS)));
    await times(4, () => attacker.writeRaw(text.repeat(5000), 15_000));
  }),
  http("http: 500 calls given up in the middle", async ({ attacker }) => {
    const body = '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{"text":"t","delayMs":2000}}}';
    const text = attacker.rawPost(body);
    for (let round = 0; round < 5 && !attacker.isOver; round++) {
      const connections = await connectMany(attacker, 100);
      await Promise.all(connections.map((connection) => connection.write(text).catch(() => undefined)));
      for (const connection of connections) connection[Symbol.dispose]();
    }
  }),
  http("http: 50 GET streams that are not read, 200 MB of notifications", async ({ attacker }) => {
    for (let index = 0; index < 50; index++) {
      await attacker.open();
      await attacker.quietly({ jsonrpc: "2.0", id: 2, method: "resources/subscribe", params: { uri: FLOOD_URI } });
      await attacker.writeUnread(attacker.streamHead());
    }
    for (let round = 0; round < 20; round++)
      await attacker.callTool("trick", { trick: "flood", uri: FLOOD_URI, count: 50, padding: 100_000 });
  }),
  http("http: 8 answers of 20 MiB that are not read", async ({ attacker }) => {
    const message = {
      jsonrpc: "2.0",
      id: 5,
      method: "tools/call",
      params: { name: "trick", arguments: { trick: "line", shape: "plain", as: "content", bytes: 20 * 1024 * 1024 } },
    };
    const body = JSON.stringify(message);
    await times(8, () => attacker.writeUnread(attacker.rawPost(body)));
    await sleep(8000);
  }),
  http("http: 5,000 sessions, opened and ended", async ({ attacker }) => {
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c".repeat(10_000), version: "1" } };
    for (let round = 0; round < 100 && !attacker.isOver; round++) {
      await times(50, () => attacker.request("initialize", params, { sessionId: undefined }));
    }
  }),
  http("http: 2,000 calls at once from one session", async ({ attacker }) => {
    await times(2000, () => attacker.callTool("echo", { text: "t", delayMs: 100 }));
  }),
];

const CONNECTIONS = 300;
const BURST_BYTES = 64 * 1024;
const SECONDS = 8;
/** Almost BURST_BYTES of them, after the headers. */
const TINY_CHUNKS = 10_900;
const PING = '{"jsonrpc":"2.0","id":5,"method":"ping"}';

/** The requests of a burst. */
const REQUESTS: Readonly<Record<string, (attacker: Attacker) => string>> = {
  "without a token": () => "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
  "with a wrong token": () => "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer wrong\r\n\r\n",
  "of calls with a token": (attacker) => attacker.rawPost(PING),
  "of streams with a token": (attacker) => attacker.streamHead(),
  "of DELETE with a token": ({ token }) => `DELETE /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`,
  "of OPTIONS": () => "OPTIONS /mcp HTTP/1.1\r\nHost: x\r\n\r\n",
  "to /livez": () => "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
  "to /metrics with a token": ({ token }) => `GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`,
  "without Host": () => "GET /mcp HTTP/1.1\r\n\r\n",
};

async function burst(attacker: Attacker, request: string): Promise<void> {
  await attacker.writeUnread(request.repeat(Math.max(1, BURST_BYTES / request.length)));
}

export const BURST_ATTACKS: readonly Attack[] = [
  ...Object.entries(REQUESTS).map(([what, request]) =>
    http(`burst: 64 KiB of requests ${what} on each of ${CONNECTIONS} connections, nothing is read`, async ({ attacker }) => {
      await times(CONNECTIONS, () => burst(attacker, request(attacker)));
      await sleep(1000);
    }),
  ),
  http(`burst: a body of tiny chunks without a token on each of ${CONNECTIONS} connections, nothing is read`, async ({ attacker }) => {
    const head = "POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    const request = head + "1\r\n \r\n".repeat(TINY_CHUNKS);
    await times(CONNECTIONS, () => burst(attacker, request));
    await sleep(1000);
  }),
  http(`burst: 64 KiB of requests without a token on ${CONNECTIONS} connections at a time, for ${SECONDS} s`, async ({ attacker }) => {
    const request = "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    const endAtMs = performance.now() + SECONDS * 1000;
    const keepSending = async (): Promise<void> => {
      while (performance.now() < endAtMs && !attacker.isOver) {
        using connection = await attacker.connect();
        await connection?.write(request.repeat(BURST_BYTES / request.length)).catch(() => undefined);
        if (connection !== undefined) await attacker.hear(connection);
      }
    };
    await times(CONNECTIONS, keepSending);
  }),
  http("burst: 3,000 connections without a token that stay open", async ({ attacker }) => {
    const request = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    for (let round = 0; round < 30; round++) await times(100, () => attacker.writeUnread(request));
    await sleep(1000);
  }),
];
