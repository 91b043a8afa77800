// Requests that are sent ahead of their responses, as many as the sidecar reads at once, and connections without end.

import { setTimeout as sleep } from "node:timers/promises";
import type { Attack, Scene } from "../attack.ts";
import type { Attacker } from "../attacker.ts";

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
  "of calls with a token": (attacker) => attacker.head([`Content-Length: ${PING.length}`]) + PING,
  "of streams with a token": (attacker) => attacker.streamHead(),
  "of DELETE with a token": ({ token }) => `DELETE /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`,
  "of OPTIONS": () => "OPTIONS /mcp HTTP/1.1\r\nHost: x\r\n\r\n",
  "to /livez": () => "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
  "to /metrics with a token": ({ token }) => `GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`,
  "without Host": () => "GET /mcp HTTP/1.1\r\n\r\n",
};

async function burst(attacker: Attacker, request: string): Promise<void> {
  const socket = await attacker.connectUnread();
  socket?.write(request.repeat(Math.max(1, BURST_BYTES / request.length)));
}

/** Opens a connection that has made a request, and reads nothing of its response. */
async function openIdle(attacker: Attacker): Promise<void> {
  const socket = await attacker.connectUnread();
  socket?.write("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
}

function attack(name: string, run: (scene: Scene) => Promise<void>): Attack {
  return {
    name: `burst: ${name}`,
    run: async (scene) => {
      await scene.attacker.open();
      await run(scene);
    },
  };
}

export const BURST_ATTACKS: readonly Attack[] = [
  ...Object.entries(REQUESTS).map(([what, request]) =>
    attack(`64 KiB of requests ${what} on each of ${CONNECTIONS} connections, nothing is read`, async ({ attacker }) => {
      await Promise.all(Array.from({ length: CONNECTIONS }, () => burst(attacker, request(attacker))));
      await sleep(1000);
    }),
  ),
  attack(`a body of tiny chunks without a token on each of ${CONNECTIONS} connections, nothing is read`, async ({ attacker }) => {
    const head = "POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    const request = head + "1\r\n \r\n".repeat(TINY_CHUNKS);
    await Promise.all(Array.from({ length: CONNECTIONS }, () => burst(attacker, request)));
    await sleep(1000);
  }),
  attack(`64 KiB of requests without a token on ${CONNECTIONS} connections at a time, for ${SECONDS} s`, async ({ attacker }) => {
    const request = "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    const endAtMs = performance.now() + SECONDS * 1000;
    const keepSending = async (): Promise<void> => {
      while (performance.now() < endAtMs && !attacker.isOver) {
        using connection = await attacker.connect();
        await connection?.write(request.repeat(BURST_BYTES / request.length)).catch(() => undefined);
        if (connection !== undefined) await attacker.hear(connection);
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, keepSending));
  }),
  attack("3,000 connections without a token that stay open", async ({ attacker }) => {
    for (let round = 0; round < 30; round++) await Promise.all(Array.from({ length: 100 }, () => openIdle(attacker)));
    await sleep(1000);
  }),
];
