import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { challenge, createTokenCheck } from "../../../src/http/access-guard.ts";

const TOKEN = "s3cret-token";

function allows(authorization: string | undefined, token = TOKEN): boolean {
  const check = createTokenCheck(token);
  if (check === undefined) throw new Error("no check");
  return check(authorization);
}

describe("createTokenCheck", () => {
  it("checks nothing where no token is configured", () => {
    expect(createTokenCheck(undefined)).toBeUndefined();
  });

  it.each([`Bearer ${TOKEN}`, `bearer ${TOKEN}`, `BEARER   ${TOKEN}`, `Bearer ${TOKEN} `])("lets %j in", (authorization) => {
    expect(allows(authorization)).toBe(true);
  });

  it.each([
    undefined,
    "",
    TOKEN,
    "Bearer",
    "Bearer ",
    `Bearer${TOKEN}`,
    `Basic ${TOKEN}`,
    `Bearer ${TOKEN}x`,
    `Bearer ${TOKEN.slice(0, -1)}`,
    `Bearer x${TOKEN.slice(1)}`,
    `Bearer ${TOKEN.toUpperCase()}`,
    `Bearer ${TOKEN}, Bearer ${TOKEN}`,
    `Bearer ${TOKEN}\n${TOKEN}`,
    `xBearer ${TOKEN}`,
  ])("keeps %j out", (authorization) => {
    expect(allows(authorization)).toBe(false);
  });

  it("keeps nothing of one request for the next", () => {
    const check = createTokenCheck(TOKEN);
    expect(
      [`Bearer ${TOKEN}`, undefined, "Bearer short", `Bearer ${TOKEN}`, "Bearer"].map((authorization) => check?.(authorization)),
    ).toEqual([true, false, false, true, false]);
  });

  it("compares a token by its bytes, as a header carries them", () => {
    const token = "schlüssel-€";
    expect(allows(`Bearer ${Buffer.from(token, "utf8").toString("latin1")}`, token)).toBe(true);
    expect(allows(`Bearer ${token}`, token)).toBe(false);
  });

  it("lets in with the configured token and with no other", () => {
    const token = fc.string({
      unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
      minLength: 1,
      maxLength: 8,
    });
    fc.assert(
      fc.property(token, token, (configured, presented) => {
        expect(allows(`Bearer ${configured}`, configured)).toBe(true);
        expect(allows(`Bearer ${presented}`, configured)).toBe(presented === configured);
      }),
    );
  });
});

describe("challenge", () => {
  it("asks for a token where there was none, and says that one was wrong", () => {
    expect(challenge(undefined)).toBe('Bearer realm="mcp"');
    expect(challenge("Bearer wrong")).toBe('Bearer realm="mcp", error="invalid_token"');
  });
});
