// Valid and invalid uses of HTTP.

import { setTimeout as sleep } from "node:timers/promises";
import type { RawConnection } from "../../test/support/raw-connection.ts";
import type { Attack, Scene } from "../attack.ts";
import type { Attacker } from "../attacker.ts";

const CONNECTIONS = 1000;

const FLOOD_URI = "file:///flood";
const PING = '{"jsonrpc":"2.0","id":5,"method":"ping"}';

/** Writes each text on its own connection, and reads one response of each. */
async function writeEach(attacker: Attacker, texts: readonly string[], limitMs = 8000): Promise<void> {
  await Promise.all(
    texts.map(async (text) => {
      const connection = await attacker.connect();
      if (connection === undefined) return;
      await connection.write(text).catch(() => undefined);
      await attacker.hear(connection, limitMs);
    }),
  );
}

function http(name: string, run: (scene: Scene) => Promise<void>, flags: readonly string[] = []): Attack {
  return {
    name: `http: ${name}`,
    flags,
    run: async (scene) => {
      await scene.attacker.open();
      await run(scene);
    },
  };
}

async function connectMany(attacker: Attacker, count: number): Promise<RawConnection[]> {
  const connections = await Promise.all(Array.from({ length: count }, () => attacker.connect()));
  return connections.filter((connection) => connection !== undefined);
}

/** Sends a request, and reads nothing of the response. */
async function openUnread(attacker: Attacker, head: string, body = ""): Promise<void> {
  const socket = await attacker.connectUnread();
  socket?.write(head + body);
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
  http("headers of 100 KB to 10 MB, 5,000 of them, 20 at once", async ({ attacker }) => {
    const bombs = [
      attacker.head([`X-Bomb: ${"b".repeat(100_000)}`]),
      attacker.head([`X-Bomb: ${"b".repeat(10_000_000)}`]),
      attacker.head(Array.from({ length: 5000 }, (_, index) => `X-${index}: 1`)),
      attacker.head([`Accept: ${"a/b;q=0.1,".repeat(1200)}*/*`]),
      attacker.head([`Mcp-Session-Id: ${"s".repeat(12_000)}`, `Last-Event-ID: ${"9".repeat(2000)}`]),
      `GET /${"p".repeat(12_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
    ];
    for (const bomb of bombs)
      await writeEach(
        attacker,
        Array.from({ length: 20 }, () => bomb),
      );
  }),
  http("200 half requests: heads and bodies that do not end", async ({ attacker }) => {
    const half = attacker.head(["Content-Length: 1000000"]);
    await writeEach(
      attacker,
      [...Array.from({ length: 100 }, () => half.slice(0, half.length - 2)), ...Array.from({ length: 100 }, () => `${half}{"jsonrpc"`)],
      20_000,
    );
  }),
  http("slow heads and bodies, a byte at a time, 100 at once", async ({ attacker }) => {
    const text = attacker.head([`Content-Length: ${PING.length}`]) + PING;
    const connections = await connectMany(attacker, 100);
    await Promise.all(
      connections.map(async (connection, index) => {
        const from = index % 2 === 0 ? 0 : text.length - PING.length;
        await connection.write(text.slice(0, from)).catch(() => undefined);
        for (let at = from; at < from + 40 && !attacker.isOver; at++) {
          if (
            !(await connection.write(text.slice(at, at + 1)).then(
              () => true,
              () => false,
            ))
          )
            break;
          await sleep(100);
        }
        await attacker.hear(connection, 8000);
      }),
    );
  }),
  http(`${CONNECTIONS} connections that say nothing, then ask at once`, async ({ attacker }) => {
    const connections = await connectMany(attacker, CONNECTIONS);
    await sleep(1000);
    const text = attacker.head([`Content-Length: ${PING.length}`]) + PING;
    await Promise.all(
      connections.map(async (connection) => {
        await connection.write(text).catch(() => undefined);
        await attacker.hear(connection, 10_000);
      }),
    );
  }),
  http("garbage of twelve kinds, 20 times each", async ({ attacker }) => {
    for (const text of GARBAGE)
      await writeEach(
        attacker,
        Array.from({ length: 20 }, () => text),
      );
  }),
  http("garbage after requests, 5,000 requests in a pipeline", async ({ attacker }) => {
    const text = attacker.head([`Content-Length: ${PING.length}`]) + PING;
    await writeEach(
      attacker,
      GARBAGE.map((garbage) => text + garbage),
    );
    await writeEach(
      attacker,
      Array.from({ length: 4 }, () => text.repeat(5000)),
      15_000,
    );
  }),
  http("500 calls given up in the middle", async ({ attacker }) => {
    const body = '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{"text":"t","delayMs":2000}}}';
    const text = attacker.head([`Content-Length: ${body.length}`]) + body;
    for (let round = 0; round < 5 && !attacker.isOver; round++) {
      const connections = await connectMany(attacker, 100);
      await Promise.all(connections.map((connection) => connection.write(text).catch(() => undefined)));
      for (const connection of connections) connection[Symbol.dispose]();
    }
  }),
  http("50 GET streams that are not read, 200 MB of notifications", async ({ attacker }) => {
    for (let index = 0; index < 50; index++) {
      await attacker.open();
      await attacker.quietly({ jsonrpc: "2.0", id: 2, method: "resources/subscribe", params: { uri: FLOOD_URI } });
      await openUnread(attacker, attacker.streamHead());
    }
    for (let round = 0; round < 20; round++)
      await attacker.callTool("trick", { trick: "flood", uri: FLOOD_URI, count: 50, padding: 100_000 });
  }),
  http("8 answers of 20 MiB that are not read", async ({ attacker }) => {
    const message = {
      jsonrpc: "2.0",
      id: 5,
      method: "tools/call",
      params: { name: "trick", arguments: { trick: "line", shape: "plain", as: "content", bytes: 20 * 1024 * 1024 } },
    };
    const body = JSON.stringify(message);
    for (let index = 0; index < 8; index++) await openUnread(attacker, attacker.head([`Content-Length: ${body.length}`]), body);
    await sleep(8000);
  }),
  http("5,000 sessions, opened and ended", async ({ attacker }) => {
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c".repeat(10_000), version: "1" } };
    for (let round = 0; round < 100 && !attacker.isOver; round++) {
      await Promise.all(Array.from({ length: 50 }, () => attacker.request("initialize", params, { sessionId: undefined })));
    }
  }),
  http(
    "100 sessions that want a server of their own",
    async ({ attacker }) => {
      const params = {
        protocolVersion: "2025-11-25",
        capabilities: { sampling: {}, elicitation: {}, roots: {} },
        clientInfo: { name: "a", version: "1" },
      };
      await Promise.all(Array.from({ length: 100 }, () => attacker.request("initialize", params, { sessionId: undefined })));
    },
    ["--max-private-servers", "4"],
  ),
  http("2,000 calls at once from one session", async ({ attacker }) => {
    await Promise.all(Array.from({ length: 2000 }, () => attacker.callTool("echo", { text: "t", delayMs: 100 })));
  }),
];
