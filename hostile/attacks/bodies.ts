// Request bodies of the largest size that are costly to parse.

import { setTimeout as sleep } from "node:timers/promises";
import { type Attacker, type SendOptions, times } from "../attacker.ts";
import { MAX_BODY_BYTES } from "../contract.ts";
import { SHAPES, type Shape, shapeText } from "../shapes.ts";
import type { Attack } from "../stage.ts";

const AT_ONCE = 20;

interface Context {
  readonly head: string;
  readonly tail: string;
  readonly options?: SendOptions;
}

const CALL: Context = {
  head: '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{"text":"t","value":',
  tail: "}}}",
};
const PING: Context = { head: '{"jsonrpc":"2.0","id":5,"method":"ping","params":{"value":', tail: "}}" };
const INITIALIZE: Context = {
  head: '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"value":',
  tail: '}},"clientInfo":{"name":"a","version":"1"}}}',
  options: { sessionId: undefined },
};

/** Kinds of senders and messages that contain the shape. */
const CONTEXTS: Readonly<Record<string, Context>> = {
  "no session": { ...CALL, options: { sessionId: undefined } },
  "no token": { ...CALL, options: { sessionId: undefined, token: undefined } },
  "wrong session": { ...CALL, options: { sessionId: "wrong" } },
  "wrong token": { ...CALL, options: { token: "wrong" } },
  call: CALL,
  ping: PING,
  notification: { head: '{"jsonrpc":"2.0","method":"notifications/x","params":{"value":', tail: "}}" },
  answer: { head: '{"jsonrpc":"2.0","id":5,"result":{"value":', tail: "}}" },
  batch: { head: '[{"jsonrpc":"2.0","id":5,"method":"ping"},', tail: "]" },
  initialize: INITIALIZE,
};

/** Returns a body of exactly MAX_BODY_BYTES. */
function bodyOf({ head, tail }: Context, shape: Shape): Buffer {
  const value = shapeText(shape, MAX_BODY_BYTES - head.length - tail.length);
  const body = Buffer.from(head + value + tail);
  return Buffer.concat([body, Buffer.alloc(MAX_BODY_BYTES - body.length, " ")]);
}

const shapes: readonly Attack[] = SHAPES.map((shape) => ({
  name: `body: 4 MiB of ${shape}, each kind of sender in turn`,
  run: async ({ attacker }) => {
    await attacker.open();
    for (const context of Object.values(CONTEXTS)) await attacker.post(bodyOf(context, shape), context.options);
  },
}));

const HARD: readonly Shape[] = ["objects", "deep-objects", "members", "escapes", "line-breaks"];

const crowds: readonly Attack[] = Object.entries(CONTEXTS).map(([name, context]) => ({
  name: `body: ${AT_ONCE} of 4 MiB at once, ${name}`,
  // Together, the bodies exceed MAX_QUEUED_BYTES.
  mayRefuse: context.options === undefined,
  run: async ({ attacker }) => {
    await attacker.open();
    for (const shape of HARD) {
      const body = bodyOf(context, shape);
      await times(AT_ONCE, () => attacker.post(body, context.options));
    }
  },
}));

/** Sends a body in pieces on a raw connection, and reads the response. */
async function sendInPieces(attacker: Attacker, head: string, pieces: readonly Buffer[], pauseMs: number): Promise<void> {
  const connection = await attacker.connect();
  if (connection === undefined) return;
  try {
    await connection.write(head);
    for (const piece of pieces) {
      if (attacker.isOver) return;
      await connection.write(piece);
      await sleep(pauseMs);
    }
  } catch {
    // The connection was closed. The response, if any, has the reason.
  }
  await attacker.hear(connection);
}

const others: readonly Attack[] = [
  {
    name: "body: 4 MiB, slowly, 20 at once",
    run: async ({ attacker }) => {
      await attacker.open();
      const body = bodyOf(CALL, "objects");
      const head = attacker.head([`Content-Length: ${body.length}`]);
      const size = Math.ceil(body.length / 40);
      const pieces = Array.from({ length: 40 }, (_, index) => body.subarray(index * size, (index + 1) * size));
      await times(AT_ONCE, () => sendInPieces(attacker, head, pieces, 100));
    },
  },
  {
    name: "body: 200 cut in the middle of 4 MiB",
    run: async ({ attacker }) => {
      await attacker.open();
      const body = bodyOf(CALL, "objects");
      for (let round = 0; round < 200 && !attacker.isOver; round++) {
        const connection = await attacker.connect();
        await connection?.write(attacker.head([`Content-Length: ${body.length}`])).catch(() => undefined);
        await connection?.write(body.subarray(0, (round + 1) * 8000)).catch(() => undefined);
        connection?.[Symbol.dispose]();
      }
    },
  },
];

export const BODY_ATTACKS: readonly Attack[] = [...shapes, ...crowds, ...others];
