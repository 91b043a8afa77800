// Request bodies of the largest size that are costly to parse.

import { type SendOptions, times } from "../attacker.ts";
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

const CONTEXTS: Readonly<Record<string, Context>> = {
  "no session": { ...CALL, options: { sessionId: undefined } },
  "no token": { ...CALL, options: { sessionId: undefined, token: undefined } },
  "wrong session": { ...CALL, options: { sessionId: "wrong" } },
  "wrong token": { ...CALL, options: { token: "wrong" } },
  call: CALL,
  ping: { head: '{"jsonrpc":"2.0","id":5,"method":"ping","params":{"value":', tail: "}}" },
  notification: { head: '{"jsonrpc":"2.0","method":"notifications/x","params":{"value":', tail: "}}" },
  answer: { head: '{"jsonrpc":"2.0","id":5,"result":{"value":', tail: "}}" },
  batch: { head: '[{"jsonrpc":"2.0","id":5,"method":"ping"},', tail: "]" },
  initialize: {
    head: '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"value":',
    tail: '}},"clientInfo":{"name":"a","version":"1"}}}',
    options: { sessionId: undefined },
  },
};

function bodyOf({ head, tail }: Context, shape: Shape): Buffer {
  const value = shapeText(shape, MAX_BODY_BYTES - head.length - tail.length);
  const body = Buffer.from(head + value + tail);
  return Buffer.concat([body, Buffer.alloc(MAX_BODY_BYTES - body.length, " ")]);
}

const HARD: readonly Shape[] = ["objects", "deep-objects", "members", "escapes", "line-breaks"];

export const BODY_ATTACKS: readonly Attack[] = [
  ...SHAPES.map((shape): Attack => ({
    name: `body: 4 MiB of ${shape}, each kind of sender in turn`,
    run: async ({ attacker }) => {
      for (const context of Object.values(CONTEXTS)) await attacker.post(bodyOf(context, shape), context.options);
    },
  })),
  ...Object.entries(CONTEXTS).map(([name, context]): Attack => ({
    name: `body: ${AT_ONCE} of 4 MiB at once, ${name}`,
    // Together, the bodies exceed MAX_QUEUED_BYTES.
    mayRefuse: context.options === undefined,
    run: async ({ attacker }) => {
      for (const shape of HARD) {
        const body = bodyOf(context, shape);
        await times(AT_ONCE, () => attacker.post(body, context.options));
      }
    },
  })),
];
