// Session ids that no replica has issued: made up, altered, or of another key, client, server or time.

import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { encodeClaims, NONCE_BYTES } from "../../../src/sessions/ids/session-claims.ts";
import type { Attack } from "../../attack.ts";
import { issueId, signId, type Signer } from "../../session-forge.ts";
import { addBreach, expectNotFound, expectServed, KEY_ENVIRONMENT, pingRaw, session, SESSION_KEY } from "./not-found.ts";

const OTHER_KEY = "another-session-key-0123456789-0123456789";
const MAX_ID_LENGTH = 512;
const MAX_AGE_MS = 1000;
const DAY_S = 86_400;

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** Yields the id with each of its bits inverted. */
function invertedBits(id: string): string[] {
  const bytes = Buffer.from(id, "base64url");
  return Array.from({ length: bytes.length * 8 }, (_, bit) => {
    const altered = Buffer.from(bytes);
    altered.writeUInt8(altered.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    return altered.toString("base64url");
  });
}

/** Returns other spellings of the id, some of which a decoder reads as the same bytes. */
function otherSpellings(id: string): string[] {
  const bytes = Buffer.from(id, "base64url");
  const start = id.slice(0, -1);
  const middle = id.length >> 1;
  const inserted = [" ", "\t", ".", "=", "%", "+", "/", "~", '"', ",", ";"].map((text) => id.slice(0, middle) + text + id.slice(middle));
  const lastCharacters = ALPHABET.split("").map((last) => start + last);
  const all = [
    ...lastCharacters,
    ...inserted,
    bytes.toString("base64"),
    bytes.toString("hex"),
    id.toUpperCase(),
    id.toLowerCase(),
    `${id}=`,
    `${id}==`,
    `"${id}"`,
    `=?base64?${id}?=`,
    `${id}, ${id}`,
    `${id},`,
    `${id}%00`,
    encodeURIComponent(`${id}\0`),
    id + id,
    `${id}.${id}`,
  ];
  return all.filter((spelling) => spelling !== id);
}

/** Texts that are not one JSON object. Some of them make one of the text around them. */
const NOT_OBJECTS: readonly string[] = [
  "1",
  "null",
  "[]",
  '"x"',
  "{",
  "}",
  "{}{}",
  "[".repeat(300),
  "\0",
  "\n",
  "\u00ff".repeat(100),
  '{}},"x":{"y":1',
  '{},"protocolVersion":"2024-11-05"',
  '{}},"method":"tools/call","x":{"y":1',
  '{}}}\n{"jsonrpc":"2.0"}',
];

const EXIT = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exit"}}';

/** Texts that an `initialize` can have, although no honest client does. A server must not read a part of one as a message. */
const ODD_JSON: readonly string[] = [
  ...["\n", "\r\n", "\r", " \n "].map((end) => `{"sampling":{},"x":${end}${EXIT}${end}}`),
  '{"sampling":{},"sampling":{}}',
  `${'{"a":'.repeat(40)}1${"}".repeat(40)}`,
];

function withTexts(signer: Signer, texts: readonly string[]): string[] {
  return texts.flatMap((text) => [issueId(signer, { capabilitiesText: text }), issueId(signer, { clientInfoText: text })]);
}

/** Signed bytes that are not claims of a revision of MCP with sessions. */
function notClaims(signer: Signer): string[] {
  const claims = { issuedAtS: Math.floor(Date.now() / 1000), capabilitiesText: "??", clientInfoText: "" };
  const invalidUtf8 = encodeClaims({ ...claims, protocolVersion: "2025-11-25" }, randomBytes(NONCE_BYTES));
  invalidUtf8.fill(0xff, invalidUtf8.length - 2);
  const capabilitiesTooLong = encodeClaims({ ...claims, protocolVersion: "2025-11-25" }, randomBytes(NONCE_BYTES)).subarray(0, -1);
  const bytes = [invalidUtf8, capabilitiesTooLong, Buffer.alloc(0), Buffer.alloc(1, 1), Buffer.alloc(23), Buffer.alloc(300, 0xff)];
  return [
    ...["2026-07-28", "1999-01-01", "0", "4294967295"].map((protocolVersion) => issueId(signer, { protocolVersion })),
    ...bytes.map((each) => signId(signer, each)),
  ];
}

export const FORGED_ID_ATTACKS: readonly Attack[] = [
  session("2,000 ids of random bytes, and 2,000 with a wrong signature", async ({ attacker }) => {
    const { length } = attacker.sessionId;
    const signer = { secret: OTHER_KEY, token: attacker.token };
    const bytes = Math.floor((length * 3) / 4);
    await expectNotFound(
      attacker,
      "random bytes",
      Array.from({ length: 2000 }, () => randomBytes(bytes).toString("base64url")),
    );
    await expectNotFound(
      attacker,
      "a wrong signature",
      Array.from({ length: 2000 }, () => issueId(signer)),
    );
  }),
  session("each bit of an id inverted", async ({ attacker, startReplica }) => {
    const replica = (await startReplica())();
    await replica.open();
    for (const id of [attacker.sessionId, replica.sessionId]) await expectNotFound(attacker, "an inverted bit", invertedBits(id));
    await expectServed(attacker, "the ids themselves", [attacker.sessionId, replica.sessionId]);
  }),
  session("other spellings of an id", async ({ attacker, startReplica }) => {
    const replica = (await startReplica())();
    // Ids whose last character has 0, 2 and 4 bits that a decoder ignores.
    const ids = ["{}", '{"roots":{"a":1}}', '{"roots":{"a":12}}'].map((text) =>
      issueId({ secret: SESSION_KEY, token: attacker.token }, { clientInfoText: text }),
    );
    await replica.open();
    for (const id of [attacker.sessionId, replica.sessionId, ...ids]) await expectNotFound(attacker, "a spelling", otherSpellings(id));
    for (const id of [attacker.sessionId, replica.sessionId]) {
      for (const value of [`${id}\0`, `\0${id}`, `${id}\u00ff`, `${id}\r\n x`, `${id}\r x`, `${id}\n x`, `\u00a0${id}`]) {
        const reply = await pingRaw(attacker, [`Mcp-Session-Id: ${value}`]);
        if (reply?.status !== 404 && reply?.status !== 400)
          addBreach(attacker, `${JSON.stringify(value)}: ${reply?.status} ${reply?.body}`);
      }
    }
    await expectServed(attacker, "the ids themselves", [attacker.sessionId, replica.sessionId, ...ids]);
  }),
  session("ids cut at each length, and extended up to the limits", async ({ attacker, startReplica }) => {
    const replica = (await startReplica())();
    await replica.open();
    for (const id of [attacker.sessionId, replica.sessionId]) {
      await expectNotFound(
        attacker,
        "a part",
        Array.from({ length: id.length - 1 }, (_, length) => id.slice(0, length + 1)),
      );
      const lengths = [1, 2, 3, 4, MAX_ID_LENGTH - id.length, MAX_ID_LENGTH, 4000, 15_000 - id.length];
      await expectNotFound(
        attacker,
        "an extension",
        lengths.flatMap((length) => [id + "A".repeat(length), "A".repeat(length) + id]),
      );
    }
    for (const length of [15_900, 16_384, 20_000, 100_000]) {
      const reply = await pingRaw(attacker, [`Mcp-Session-Id: ${"s".repeat(length)}`]);
      if (reply?.status !== 404 && reply?.status !== 431) addBreach(attacker, `an id of ${length}: ${reply?.status} ${reply?.body}`);
    }
    await expectServed(attacker, "the ids themselves", [attacker.sessionId, replica.sessionId]);
  }),
  session("two Mcp-Session-Id headers", async ({ attacker, startReplica }) => {
    const replica = (await startReplica())();
    await replica.open();
    const [own, foreign, forged] = [attacker.sessionId, replica.sessionId, issueId({ secret: OTHER_KEY, token: attacker.token })];
    for (const pair of [own, foreign, forged, ""].flatMap((first) => [own, foreign, forged, ""].map((second) => [first, second]))) {
      const reply = await pingRaw(
        attacker,
        pair.map((id) => `Mcp-Session-Id: ${id}`),
      );
      if (reply === undefined || reply.status >= 500 || reply.status < 400) addBreach(attacker, `two ids: ${reply?.status} ${reply?.body}`);
    }
  }),
  session(
    "ids of another key, client, server and time",
    async ({ attacker, others, startReplica }) => {
      const [other] = others;
      const replica = await startReplica({ flags: [] });
      const elsewhere = async (environment: Readonly<Record<string, string>>): Promise<string> => {
        const client = (await startReplica({ flags: [], environment }))();
        await client.open();
        return client.sessionId;
      };
      const stranger = replica(other?.token);
      await stranger.open();
      await other?.open();
      await expectNotFound(attacker, "the id of another client", [stranger.sessionId, other?.sessionId ?? ""]);
      await expectNotFound(attacker, "the own id with another token", [attacker.sessionId], { token: other?.token });
      await expectServed(attacker, "the own id", [attacker.sessionId]);
      const foreign = [
        await elsewhere({ CLAW_MCP_STDIO_SESSION_KEY: OTHER_KEY }),
        await elsewhere({}),
        await elsewhere({ ...KEY_ENVIRONMENT, CLAW_MCP_STDIO_SERVER_NAME: "another" }),
      ];
      await expectNotFound(attacker, "another key or server", foreign);
      const signer = { secret: SESSION_KEY, token: attacker.token };
      const nowS = Math.floor(Date.now() / 1000);
      const times = [0, 1, nowS - DAY_S, nowS - 3, nowS + DAY_S, 2 ** 31, 2 ** 32 - 1];
      await expectNotFound(
        attacker,
        "another time",
        times.map((issuedAtS) => issueId(signer, { issuedAtS })),
      );
      const client = replica();
      await client.open();
      await sleep(2 * MAX_AGE_MS + 100);
      await expectNotFound(attacker, "an id that has expired", [client.sessionId]);
    },
    { flags: ["--session-max-age-ms", String(MAX_AGE_MS)] },
  ),
  session(
    "ids that a client signs with its own token",
    async ({ attacker, others }) => {
      const signer = { secret: attacker.token, token: attacker.token };
      await expectServed(attacker, "the claims of an ordinary client", [issueId(signer)]);
      await expectNotFound(attacker, "no claims", notClaims(signer));
      await expectNotFound(attacker, "claims that are not objects", withTexts(signer, NOT_OBJECTS), { methods: ["GET"] });
      await expectServed(attacker, "odd claims", withTexts(signer, ODD_JSON));
      await expectNotFound(attacker, "claims of the future", [issueId(signer, { issuedAtS: 2 ** 32 - 1 })]);
      const asOthers = others.map(({ token }) => issueId({ secret: attacker.token, token }));
      await expectNotFound(attacker, "ids for other clients", asOthers);
      for (const other of others) await expectNotFound(other, "ids that another client has signed", asOthers);
    },
    { environment: {} },
  ),
];
