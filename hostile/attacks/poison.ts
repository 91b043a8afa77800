// Names that an engine with the bug of nodejs/node#63785 misreads. The poison is an object with the name `i\` after some members. Then, the
// engine also reads `"i\u0064"`, which is `id`, as `i\` after the same members.

import type { Attack, Scene } from "../stage.ts";

const ROUNDS = 12;
/** The number of ids that a round tries: about as many as the sidecar assigns in it. */
const IDS_AHEAD = 24;

const ESCAPED_ID = '"i\\u0064"';
const ENFORCE = ["--argument-check", "enforce"];

/** The members before the hidden id of a message, and those after it. */
const HIDING: readonly (readonly [before: string, after: string])[] = [
  ['"jsonrpc":"2.0","method":"ping","params":{}', ""],
  ['"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"text":"of the attacker"}}', ""],
  ['"x":1', ',"jsonrpc":"2.0","method":"ping","params":{}'],
];

/** Objects after which the engine misreads the name, one for each of those members. */
const POISON = `[{"x":1,"i\\\\":1},${HIDING.map(([before]) => `{${before},"i\\\\":1}`).join(",")}]`;
const POISONED_PING = `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"p":${POISON}}}`;

/** Messages of the attacker with the poison. */
const OF_CLIENT: Readonly<Record<string, string>> = {
  "params of ping": POISONED_PING,
  "tool arguments": `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"t","p":${POISON}}}}`,
  "a notification": `{"jsonrpc":"2.0","method":"notifications/x","params":{"p":${POISON}}}`,
};

const POISONED_INITIALIZE = `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"p":${POISON}}},"clientInfo":{"name":"a","version":"1"}}}`;

/** Lines of the server with the poison. */
const OF_SERVER: Readonly<Record<string, string>> = {
  "a result of the server": `{"jsonrpc":"2.0","id":OWN,"result":{"content":[],"structuredContent":{"p":${POISON}}}}`,
  "a notification of the server": `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":${POISON}}}`,
  "a line that is no message": POISON,
};

const PLACES: readonly (readonly [place: string, put: (scene: Scene) => Promise<unknown>])[] = [
  ...Object.entries(OF_CLIENT).map(([place, body]) => [place, ({ attacker }: Scene) => attacker.quietly(body)] as const),
  ["initialize", ({ attacker }) => attacker.quietly(POISONED_INITIALIZE, { sessionId: undefined })],
  ["a body without a session", ({ attacker }) => attacker.quietly(POISONED_PING, { sessionId: undefined, token: undefined })],
  ...Object.entries(OF_SERVER).map(([place, line]) => {
    const params = { name: "trick", arguments: { trick: "say", line } };
    return [place, ({ attacker }: Scene) => attacker.quietly({ jsonrpc: "2.0", id: 8, method: "tools/call", params })] as const;
  }),
];

/** Sends messages whose hidden ids are those that the bystander's next requests may have. */
async function sendHidden({ attacker }: Scene): Promise<void> {
  for (let round = 0; round < ROUNDS && !attacker.isOver; round++) {
    const lastId = await attacker.wireId();
    const ids = Array.from({ length: IDS_AHEAD }, (_, index) => lastId - 4 + index);
    // Ids that are counted from 1 are tried too.
    if (round === 0) ids.push(...Array.from({ length: 200 }, (_, index) => index + 1));
    const bodies = ids.flatMap((id) => HIDING.map(([before, after]) => `{${before},${ESCAPED_ID}:${id}${after}}`));
    await Promise.all(bodies.map((body) => attacker.post(body)));
  }
}

export const HIDDEN_ID_ATTACKS: readonly Attack[] = PLACES.map(([place, put]) => ({
  name: `poison: hidden ids, after poison in ${place}`,
  run: async (scene) => {
    await put(scene);
    await sendHidden(scene);
  },
}));

type Hidden = readonly [before: string, poison: string, spelled: string, after?: string];

/** Each hides a member of a message on which a decision of the sidecar depends. */
const HIDDEN_MEMBERS: readonly Hidden[] = [
  ['"jsonrpc":"2.0","id":90', "meth\\\\", '"meth\\u006fd":"tools/call"', ',"params":{"name":"denied"}'],
  ['"jsonrpc":"2.0","id":91,"method":"tools/call"', "para\\\\", '"para\\u006ds":{"name":"denied"}'],
  ['"jsonrpc":"2.0","id":92,"method":"tools/call","result":{}', "para\\\\", '"para\\u006ds":{"name":"denied"}'],
  ['"id":93', "json\\\\", '"json\\u0072pc":"2.0"', ',"method":"tools/call","params":{"name":"denied"}'],
  ['"jsonrpc":"2.0","method":"tools/call","params":{"name":"denied"}', "\\\\", '"\\u0069d":94'],
  ['"jsonrpc":"2.0","id":95,"method":"ping"', "meth\\\\", '"meth\\u006fd":"tools/call"', ',"params":{"name":"denied"}'],
];

/** Each hides a member of the params of a call. */
const HIDDEN_PARAMS: readonly Hidden[] = [
  ['"arguments":{}', "n\\\\", '"n\\u0061me":"denied"'],
  ['"name":"echo"', "n\\\\", '"n\\u0061me":"denied"'],
  ['"name":"strict"', "argument\\\\", '"argument\\u0073":{"force":true}'],
];

/** Each hides an argument that ARGUMENT_CHECK refuses, after other members: the engine misreads a name only if the poison is the only one after them. */
const HIDDEN_ARGUMENTS: readonly Hidden[] = ['"a', '"text":"t","b'].flatMap((start): Hidden[] => [
  [`${start}0":1`, "f\\\\", '"f\\u006frce":true'],
  [`${start}1":1`, "\\\\", '"\\u0066orce":true'],
  [`${start}2":1`, "forc\\\\", '"forc\\u0065":true'],
  [`${start}3":1`, "f\\\\", '"force":true'],
]);

const CALL = '"jsonrpc":"2.0","id":2,"method":"tools/call","params":{';

export const ENVELOPE_ATTACKS: readonly Attack[] = [
  {
    name: "poison: escaped method, params, jsonrpc, name, argument",
    flags: ["--deny-tools", "denied", ...ENFORCE],
    run: async ({ attacker }) => {
      for (const [start, end, hidden] of [
        ["{", "}", HIDDEN_MEMBERS],
        [`{${CALL}`, "}}", HIDDEN_PARAMS],
        [`{${CALL}"name":"strict","arguments":{`, "}}}", HIDDEN_ARGUMENTS],
      ] as const) {
        for (const [before, poison, spelled, after = ""] of hidden) {
          await attacker.quietly(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"p":{${before},"${poison}":1}}}`);
          await attacker.post(`${start}${before},${spelled}${after}${end}`);
        }
      }
    },
  },
  {
    name: "poison: names in the schema of a tool",
    flags: ENFORCE,
    tools: "poisoned-schema",
    run: async (scene) => {
      await scene.attacker.request("tools/list", {});
      await scene.attacker.post(
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"checked","arguments":{"x":1,"i\\\\":1,"x\\u0079":1}}}',
      );
      await sendHidden(scene);
    },
  },
];

/** Returns the same attack on a sidecar whose engine has parsed the poison. */
export function afterPoison(attack: Attack): Attack {
  return {
    ...attack,
    run: async (scene) => {
      await scene.attacker.quietly(POISONED_PING);
      await attack.run(scene);
    },
  };
}
