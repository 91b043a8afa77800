import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import { describe, expect, it, vi } from "vitest";
import { AuthTokens } from "../../../src/http/auth-tokens.ts";

const TOKEN = "s3cret-token";

function allows(authorization: string | undefined, ...tokens: readonly string[]): boolean {
  return new AuthTokens(tokens.length === 0 ? [TOKEN] : tokens, "mcp").identify(authorization) !== undefined;
}

describe("AuthTokens", () => {
  it.each(["first!", "second", "third!", "wrong!", "of another length", ""])(
    "the token %j is compared with all tokens, in constant time",
    (presented) => {
      const compare = vi.spyOn(crypto, "timingSafeEqual");
      syncBuiltinESMExports();
      const tokens = ["first!", "second", "third!"];
      new AuthTokens(tokens, "mcp").identify(`Bearer ${presented}`);
      const compared = compare.mock.calls.map(([, expected]) => expected);
      compare.mockRestore();
      syncBuiltinESMExports();
      expect(compared).toEqual(tokens.map((token) => Buffer.from(token)));
    },
  );

  it("each token has a principal of its own, the same each time", () => {
    const tokens = new AuthTokens(["first", "second", "third!"], "mcp");
    const senders = ["first", "second", "third!"].map((token) => tokens.identify(`Bearer ${token}`));
    expect(new Set(senders).size).toBe(3);
    expect(senders).not.toContain(undefined);
    expect(tokens.identify("bearer second")).toBe(senders[1]);
  });

  it("a principal does not reveal its token", () => {
    expect(JSON.stringify(new AuthTokens([TOKEN], "mcp").identify(`Bearer ${TOKEN}`))).not.toContain(TOKEN);
  });

  describe("a replaced set of auth tokens", () => {
    it("new tokens are accepted, kept ones keep their principal, and removed ones are revoked", () => {
      const tokens = new AuthTokens(["stays", "goes"], "mcp");
      const [stays, goes] = [tokens.identify("Bearer stays"), tokens.identify("Bearer goes")];
      expect(tokens.replace(["comes", "stays"])).toEqual([goes]);
      expect([stays?.isRevoked, goes?.isRevoked]).toEqual([false, true]);
      expect(tokens.identify("Bearer stays")).toBe(stays);
      expect(tokens.identify("Bearer goes")).toBeUndefined();
      expect(tokens.identify("Bearer comes")).toMatchObject({ isRevoked: false });
    });

    it("a token that returns gets a new principal", () => {
      const tokens = new AuthTokens(["back"], "mcp");
      const before = tokens.identify("Bearer back");
      tokens.replace(["other"]);
      tokens.replace(["back"]);
      expect(tokens.identify("Bearer back")).not.toBe(before);
    });
  });

  it("a token is compared by the bytes that a header carries", () => {
    const token = "schlüssel-€";
    expect(allows(`Bearer ${Buffer.from(token, "utf8").toString("latin1")}`, token)).toBe(true);
    expect(allows(`Bearer ${token}`, token)).toBe(false);
  });
});
