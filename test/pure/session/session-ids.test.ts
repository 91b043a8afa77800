import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { type ClientClaims, deriveKey, SessionIds, SessionKeys } from "../../../src/session/ids.ts";
import type { Principal } from "../../../src/session/session.ts";
import { contextOf } from "../../support/context.ts";

const KEY = "one-key-".repeat(4);
const MAX_AGE_MS = 1000_000;
const ISSUED_AT_MS = 1_700_000_000_000;

const CLIENT: ClientClaims = {
  protocolVersion: "2025-11-25",
  capabilitiesText: '{"sampling":{}}',
  clientInfoText: '{"name":"caf\u00e9","version":"1"}',
  needsCapabilities: true,
};

function principal(token: string, isLong = true): Principal {
  return { isRevoked: false, name: token, fingerprint: token, sessionKey: isLong ? deriveKey(token, "session id", "mcp") : undefined };
}

function replica(keys: readonly string[] = [KEY], { afterMs = 0 } = {}): SessionIds {
  return new SessionIds(contextOf({ sessionMaxAgeMs: MAX_AGE_MS }), new SessionKeys(keys, "mcp"), () => ISSUED_AT_MS + afterMs);
}

function issue(ids: SessionIds, client: ClientClaims, owner?: Principal): string {
  return ids.issue(client, owner) ?? "none";
}

describe("a session id", () => {
  it("without a key, that of a long token is derived, and that of a short one is random", () => {
    for (const isLong of [true, false]) {
      const id = issue(replica([]), CLIENT, principal("ann", isLong));
      expect(replica([]).open(id, principal("ann", isLong)) !== undefined).toBe(isLong);
    }
    const open = replica([]);
    const id = issue(open, CLIENT);
    expect([open.open(id, undefined) === undefined, replica([]).open(id, undefined)]).toEqual([false, undefined]);
  });

  it("an id of another principal, or of none, is not valid", () => {
    const [ann, bob] = [principal("ann"), principal("bob")];
    for (const keys of [[KEY], []]) {
      const ids = replica(keys);
      for (const [owner, others] of [
        [ann, [bob, undefined]],
        [undefined, [ann, bob]],
      ] as const) {
        const id = issue(ids, CLIENT, owner);
        expect(others.map((other) => ids.open(id, other))).toEqual([undefined, undefined]);
      }
    }
  });

  it("an id expires, and one from the future is not valid beyond a wrong clock", () => {
    const id = issue(replica(), CLIENT);
    const isOpenAfter = (afterMs: number): boolean => replica([KEY], { afterMs }).open(id, undefined) !== undefined;
    expect([MAX_AGE_MS, MAX_AGE_MS + 1, -300_000, -301_000].map(isOpenAfter)).toEqual([true, false, true, false]);
  });

  it("at least the last 16384 ended sessions are remembered", () => {
    const ids = replica();
    const ended = Array.from({ length: 16_385 }, () => issue(ids, CLIENT));
    for (const id of ended) ids.end(id, undefined);
    expect(ended.filter((id) => ids.open(id, undefined) !== undefined)).toEqual(ended.slice(0, 1));
  });

  it("the end of sessions with other ids does not make an ended one valid again", () => {
    const ids = replica();
    const ended = issue(ids, CLIENT);
    ids.end(ended, undefined);
    for (let count = 0; count < 16_384; count++) ids.end(randomUUID(), undefined);
    expect(ids.open(ended, undefined)).toBeUndefined();
  });

  it("a principal that ends many sessions makes no ended one of another principal valid again", () => {
    const ids = replica();
    const [many, few] = [principal("many"), principal("few")];
    const flood = Array.from({ length: 16_384 }, () => issue(ids, CLIENT, many));
    for (const id of flood) ids.end(id, many);
    const ended = issue(ids, CLIENT, few);
    ids.end(ended, few);
    expect(ids.open(ended, few)).toBeUndefined();
    expect(flood.filter((id) => ids.open(id, many) !== undefined)).toEqual(flood.slice(0, 1));
  });

  it("no other text is accepted for an id: altered, cut, extended or spelled in another way", () => {
    const ids = replica();
    const id = issue(ids, CLIENT);
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=. ";
    const others = Array.from(id, (character, index) =>
      Array.from(alphabet)
        .filter((each) => each !== character)
        .map((each) => id.slice(0, index) + each + id.slice(index + 1)),
    ).flat();
    others.push(...Array.from(id, (_character, index) => id.slice(0, index)), `${id}A`, `${id}=`, ` ${id}`, `${id}\0`, id.repeat(2));
    expect(others.filter((other) => ids.open(other, undefined) !== undefined)).toEqual([]);
  });
});

describe("a client with much to tell", () => {
  const long = (length: number): string => `{"x":"${"x".repeat(length)}"}`;

  it("capabilities that no server gets are left out if they are long", () => {
    const id = issue(replica(), { ...CLIENT, capabilitiesText: long(400), needsCapabilities: false });
    expect(replica().open(id, undefined)).toMatchObject({ capabilitiesText: "", clientInfoText: "" });
  });

  it("an id has at most 512 characters, whatever the client tells", () => {
    const ids = replica();
    for (const length of [...Array.from({ length: 200 }, (_length, index) => 200 + index), 70_000]) {
      for (const needsCapabilities of [true, false]) {
        const id = issue(ids, { ...CLIENT, capabilitiesText: long(length), needsCapabilities }, undefined);
        expect(id.length).toBeLessThanOrEqual(512);
        // No part of them is cut off.
        expect([long(length), "", undefined]).toContain(ids.open(id, undefined)?.capabilitiesText);
      }
    }
  });
});
