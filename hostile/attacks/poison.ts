// Names that an engine with the bug of nodejs/node#63785 misreads. The poison is an object with the name `i\` after some members. Then, the
// engine also reads `"i\u0064"`, which is `id`, as `i\` after the same members.

import type { Attack, Scene } from "../stage.ts";

const ROUNDS = 12;
/** The number of ids that a round tries: about as many as the sidecar assigns in it. */
const IDS_AHEAD = 24;

const ESCAPED_ID = '"i\\u0064"';

/** The members before the hidden id of a message. */
const HIDING = [
  '"jsonrpc":"2.0","method":"ping","params":{}',
  '"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"text":"of the attacker"}}',
  '"x":1',
] as const;

/** Objects after which the engine misreads the name, one for each of those members. */
const POISON = `[{"x":1,"i\\\\":1},${HIDING.map((members) => `{${members},"i\\\\":1}`).join(",")}]`;

function hidden(members: string, id: number): string {
  // The missing members of the message follow the id.
  const rest = members === '"x":1' ? ',"jsonrpc":"2.0","method":"ping","params":{}' : "";
  return `{${members},${ESCAPED_ID}:${id}${rest}}`;
}

/** The places for the poison. */
const PLACES: Readonly<Record<string, (scene: Scene) => Promise<unknown>>> = {
  "params of ping": ({ attacker }) => attacker.quietly(`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"p":${POISON}}}`),
  "tool arguments": ({ attacker }) =>
    attacker.quietly(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"t","p":${POISON}}}}`),
  initialize: ({ attacker }) =>
    attacker.quietly(
      `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"p":${POISON}}},"clientInfo":{"name":"a","version":"1"}}}`,
      { sessionId: undefined },
    ),
  "a notification": ({ attacker }) => attacker.quietly(`{"jsonrpc":"2.0","method":"notifications/x","params":{"p":${POISON}}}`),
  "a body without a session": ({ attacker }) =>
    attacker.quietly(`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"p":${POISON}}}`, { sessionId: undefined, token: undefined }),
  "a result of the server": (scene) =>
    trick(scene, `{"jsonrpc":"2.0","id":OWN,"result":{"content":[],"structuredContent":{"p":${POISON}}}}`),
  "a notification of the server": (scene) =>
    trick(scene, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":${POISON}}}`),
  "a line that is no message": (scene) => trick(scene, POISON),
};

function trick({ attacker }: Scene, line: string): Promise<unknown> {
  const params = { name: "trick", arguments: { trick: "say", line } };
  return attacker.quietly({ jsonrpc: "2.0", id: 8, method: "tools/call", params });
}

/** Sends messages whose hidden ids are those that the bystander's next requests may have. */
async function sendHidden({ attacker }: Scene): Promise<void> {
  for (let round = 0; round < ROUNDS && !attacker.isOver; round++) {
    const lastId = await attacker.wireId();
    const ids = Array.from({ length: IDS_AHEAD }, (_, index) => lastId - 4 + index);
    // Ids that are counted from 1 are tried too.
    if (round === 0) ids.push(...Array.from({ length: 200 }, (_, index) => index + 1));
    await Promise.all(ids.flatMap((id) => HIDING.map((members) => attacker.post(hidden(members, id)))));
  }
}

export const HIDDEN_ID_ATTACKS: readonly Attack[] = Object.entries(PLACES).map(([place, put]) => ({
  name: `poison: hidden ids, after poison in ${place}`,
  run: async (scene) => {
    await scene.attacker.open();
    await put(scene);
    await sendHidden(scene);
  },
}));

/** Each hides a member on which a decision of the sidecar depends. */
const HIDDEN_MEMBERS: readonly (readonly [before: string, poison: string, spelled: string, rest: string])[] = [
  ['"jsonrpc":"2.0","id":90', "meth\\\\", '"meth\\u006fd":"tools/call"', ',"params":{"name":"denied"}'],
  ['"jsonrpc":"2.0","id":91,"method":"tools/call"', "para\\\\", '"para\\u006ds":{"name":"denied"}', ""],
  ['"jsonrpc":"2.0","id":92,"method":"tools/call","result":{}', "para\\\\", '"para\\u006ds":{"name":"denied"}', ""],
  ['"id":93', "json\\\\", '"json\\u0072pc":"2.0"', ',"method":"tools/call","params":{"name":"denied"}'],
  ['"jsonrpc":"2.0","method":"tools/call","params":{"name":"denied"}', "\\\\", '"\\u0069d":94', ""],
  ['"jsonrpc":"2.0","id":95,"method":"ping"', "meth\\\\", '"meth\\u006fd":"tools/call"', ',"params":{"name":"denied"}'],
];

/** Each hides a member of the params of a call. */
const HIDDEN_PARAMS: readonly (readonly [before: string, poison: string, spelled: string])[] = [
  ['"arguments":{}', "n\\\\", '"n\\u0061me":"denied"'],
  ['"name":"echo"', "n\\\\", '"n\\u0061me":"denied"'],
  ['"name":"strict"', "argument\\\\", '"argument\\u0073":{"force":true}'],
];

const envelope: Attack = {
  name: "poison: escaped method, params, jsonrpc, name",
  flags: ["--deny-tools", "denied", "--argument-check", "enforce"],
  run: async ({ attacker }) => {
    await attacker.open();
    for (const [before, poison, spelled, rest] of HIDDEN_MEMBERS) {
      await attacker.quietly(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"p":{${before},"${poison}":1}}}`);
      await attacker.post(`{${before},${spelled}${rest}}`);
    }
    for (const [before, poison, spelled] of HIDDEN_PARAMS) {
      await attacker.quietly(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"p":{${before},"${poison}":1}}}`);
      await attacker.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{${before},${spelled}}}`);
    }
  },
};

const argumentCheck: Attack = {
  name: "poison: an argument that ARGUMENT_CHECK refuses, escaped",
  flags: ["--argument-check", "enforce"],
  run: async ({ attacker }) => {
    await attacker.open();
    // Each spelling follows different members, because the engine misreads a name only if the poison is the only name after its members.
    const spellings = [
      ["f\\\\", "f\\u006frce"],
      ["\\\\", "\\u0066orce"],
      ["forc\\\\", "forc\\u0065"],
      ["f\\\\", "force"],
    ] as const;
    for (const [index, [poison, name]] of spellings.entries()) {
      for (const before of [`"a${index}":1`, `"text":"t","b${index}":1`]) {
        await attacker.quietly(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"p":{${before},"${poison}":1}}}`);
        await attacker.post(
          `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"strict","arguments":{${before},"${name}":true}}}`,
        );
      }
    }
  },
};

const schema: Attack = {
  name: "poison: names in the schema of a tool",
  flags: ["--argument-check", "enforce"],
  tools: "poisoned-schema",
  run: async (scene) => {
    await scene.attacker.open();
    await scene.attacker.request("tools/list", {});
    await scene.attacker.post(
      '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"checked","arguments":{"x":1,"i\\\\":1,"x\\u0079":1}}}',
    );
    await sendHidden(scene);
  },
};

export const ENVELOPE_ATTACKS: readonly Attack[] = [envelope, argumentCheck, schema];

/** Returns the same attack on a sidecar whose engine has parsed the poison. */
export function afterPoison(attack: Attack): Attack {
  return {
    ...attack,
    run: async (scene) => {
      await scene.attacker.open();
      await PLACES["params of ping"]?.(scene);
      await attack.run(scene);
    },
  };
}
